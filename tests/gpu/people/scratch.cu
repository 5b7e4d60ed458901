/* A solver whose routine allocates its work space in each call, or is given it. scratch [given] */
#include "steps.h"

__global__ void apply(float *out, const float *in, int n, float factor)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        out[i] = in[i] * factor + in[(i * 7L) % n];
}

static void solve(float *x, int n, float *given)
{
    float *work = given;
    if (!given) CHECK(cudaMalloc(&work, 2 * n * sizeof(float)));
    apply<<<512, 256>>>(work, x, n, 0.5f);
    apply<<<512, 256>>>(work + n, work, n, 0.25f);
    apply<<<512, 256>>>(x, work + n, n, 0.1f);
    if (!given) CHECK(cudaFree(work));
}

int main(int argc, char **argv)
{
    const int n = 8 << 20;
    float *x, *work = nullptr;
    CHECK(cudaMalloc(&x, n * sizeof(float)));
    CHECK(cudaMemset(x, 0, n * sizeof(float)));
    if (chosen(argc, argv, "given")) CHECK(cudaMalloc(&work, 2 * n * sizeof(float)));
    for (Steps steps(150); steps.next();)
        for (int i = 0; i < 10; i++)
            solve(x, n, work);
    CHECK(cudaDeviceSynchronize());
}
