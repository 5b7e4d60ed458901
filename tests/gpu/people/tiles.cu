/* A matrix product, a thread per element, in blocks of 4 x 4 threads or 16 x 16. tiles [large] */
#include "steps.h"

__global__ void multiply(float *c, const float *a, const float *b, int n)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    float sum = 0;
    for (int k = 0; k < n; k++)
        sum += a[y * n + k] * b[k * n + x];
    c[y * n + x] = sum;
}

int main(int argc, char **argv)
{
    const int n = 2048, side = chosen(argc, argv, "large") ? 16 : 4;
    float *a, *b, *c;
    for (float **each : {&a, &b, &c}) {
        CHECK(cudaMalloc(each, n * n * sizeof(float)));
        CHECK(cudaMemset(*each, 0, n * n * sizeof(float)));
    }
    for (Steps steps(40); steps.next();) {
        multiply<<<dim3(n / side, n / side), dim3(side, side)>>>(c, a, b, n);
        multiply<<<dim3(n / side, n / side), dim3(side, side)>>>(a, c, b, n);
    }
    CHECK(cudaDeviceSynchronize());
}
