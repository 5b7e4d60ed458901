/* The sum of many numbers, by one block of threads or by many. total [grid] */
#include "steps.h"

__global__ void scale(float *x, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        x[i] = x[i] * 0.99f + 0.01f;
}

__global__ void sum(float *total, const float *x, int n)
{
    __shared__ float part[1024];
    float own = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        own += x[i];
    part[threadIdx.x] = own;
    for (int half = blockDim.x / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    }
    if (threadIdx.x == 0) atomicAdd(total, part[0]);
}

int main(int argc, char **argv)
{
    const int n = 16 << 20, blocks = chosen(argc, argv, "grid") ? 1056 : 1;
    float *x, *total;
    CHECK(cudaMalloc(&x, n * sizeof(float)));
    CHECK(cudaMalloc(&total, sizeof(float)));
    CHECK(cudaMemset(x, 0, n * sizeof(float)));
    for (Steps steps(120); steps.next();) {
        for (int i = 0; i < 20; i++)
            scale<<<1056, 256>>>(x, n);
        CHECK(cudaMemsetAsync(total, 0, sizeof(float)));
        sum<<<blocks, 1024>>>(total, x, n);
    }
    CHECK(cudaDeviceSynchronize());
}
