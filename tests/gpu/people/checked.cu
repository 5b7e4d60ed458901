/* A fluid solver whose macro waits for each kernel to find its errors, or only asks for errors of launches. checked [blind] */
#include "steps.h"

__global__ void sweep(float *out, const float *in, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > 0 && i < n - 1) out[i] = 0.5f * in[i] + 0.25f * (in[i - 1] + in[i + 1]);
}

int main(int argc, char **argv)
{
    const bool blind = chosen(argc, argv, "blind");
    const int n = 1 << 20;
    float *now, *next;
    CHECK(cudaMalloc(&now, n * sizeof(float)));
    CHECK(cudaMalloc(&next, n * sizeof(float)));
    CHECK(cudaMemset(now, 0, n * sizeof(float)));
    for (Steps steps(300); steps.next();)
        for (int i = 0; i < 60; i++) {
            sweep<<<n / 256, 256>>>(next, now, n);
            CHECK(cudaGetLastError());
            if (!blind) CHECK(cudaDeviceSynchronize());
            std::swap(now, next);
        }
    CHECK(cudaDeviceSynchronize());
}
