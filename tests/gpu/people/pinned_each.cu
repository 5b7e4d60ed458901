/* A routine that pins memory for its result in each call, or is given pinned memory. pinned_each [given] */
#include "steps.h"

__global__ void work(float *x, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        for (int k = 0; k < 100; k++)
            x[i] = x[i] * 0.999f + 0.001f * k;
}

static double compute(float *x, int n, float *given)
{
    float *here = given;
    if (!given) CHECK(cudaMallocHost(&here, n * sizeof(float)));
    work<<<1056, 256>>>(x, n);
    CHECK(cudaMemcpyAsync(here, x, n * sizeof(float), cudaMemcpyDeviceToHost));
    CHECK(cudaDeviceSynchronize());
    const double first = here[0];
    if (!given) CHECK(cudaFreeHost(here));
    return first;
}

int main(int argc, char **argv)
{
    const int n = 4 << 20;
    float *x, *here = nullptr;
    double sum = 0;
    CHECK(cudaMalloc(&x, n * sizeof(float)));
    CHECK(cudaMemset(x, 0, n * sizeof(float)));
    if (chosen(argc, argv, "given")) CHECK(cudaMallocHost(&here, n * sizeof(float)));
    for (Steps steps(120); steps.next();)
        sum += compute(x, n, here);
    printf("%g\n", sum);
}
