/* Pieces of a field are copied to the device and worked on, from memory as malloc gives it and one after the other, or
 * from pinned memory while the piece before it is worked on. pageable [pinned] */
#include "steps.h"

__global__ void smooth(float *field, int n, int rounds)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float value = field[i];
        for (int k = 0; k < rounds; k++) value = value * 0.5f + sqrtf(value * value + 1);
        field[i] = value;
    }
}

int main(int argc, char **argv)
{
    const bool pinned = chosen(argc, argv, "pinned");
    const int n = 4 << 20, pieces = 8;
    float *here, *there[2];
    cudaStream_t streams[2];
    if (pinned)
        CHECK(cudaMallocHost(&here, pieces * n * sizeof(float)));
    else
        here = (float *)malloc(pieces * n * sizeof(float));
    for (int i = 0; i < pieces * n; i++) here[i] = (float)(i % 1000);
    for (int i = 0; i < 2; i++) {
        CHECK(cudaStreamCreate(&streams[i]));
        CHECK(cudaMalloc(&there[i], n * sizeof(float)));
    }
    for (Steps steps(40); steps.next();)
        for (int i = 0; i < pieces; i++) {
            const int at = pinned ? i % 2 : 0;
            CHECK(cudaMemcpyAsync(there[at], here + i * n, n * sizeof(float), cudaMemcpyHostToDevice, streams[at]));
            smooth<<<1056, 256, 0, streams[at]>>>(there[at], n, 100);
        }
    CHECK(cudaDeviceSynchronize());
}
