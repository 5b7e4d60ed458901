/* The host changes a field of managed memory before each step, which moves its pages to the device, or copies it to memory of
 * the device. managed [copied] */
#include "steps.h"

__global__ void advance(float *state, const float *forces, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        state[i] = state[i] * 0.99f + forces[i];
}

int main(int argc, char **argv)
{
    const bool copied = chosen(argc, argv, "copied");
    const int n = 4 << 20;
    float *state, *forces, *here;
    CHECK(cudaMalloc(&state, n * sizeof(float)));
    CHECK(cudaMemset(state, 0, n * sizeof(float)));
    if (copied) {
        CHECK(cudaMalloc(&forces, n * sizeof(float)));
        CHECK(cudaMallocHost(&here, n * sizeof(float)));
    } else {
        CHECK(cudaMallocManaged(&forces, n * sizeof(float)));
        here = forces;
    }
    for (int i = 0; i < n; i++) here[i] = 1;
    int round = 0;
    for (Steps steps(60); steps.next(); round++) {
        for (int i = 0; i < n; i += 512) here[i] = (float)round;
        if (copied) CHECK(cudaMemcpyAsync(forces, here, n * sizeof(float), cudaMemcpyHostToDevice));
        for (int i = 0; i < 20; i++) advance<<<528, 256>>>(state, forces, n);
        CHECK(cudaDeviceSynchronize());
    }
}
