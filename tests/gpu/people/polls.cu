/* The host asks each millisecond whether a stage has ended, then launches the next, or launches all stages at once.
 * polls [once] */
#include "steps.h"

__global__ void stage(float *field, int n, float by)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        for (int k = 0; k < 4; k++) field[i] = field[i] * 0.99f + by;
}

int main(int argc, char **argv)
{
    const bool once = chosen(argc, argv, "once");
    const int n = 64 << 20;
    float *field;
    cudaStream_t stream;
    cudaEvent_t ended;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreateWithFlags(&ended, cudaEventDisableTiming));
    CHECK(cudaMalloc(&field, n * sizeof(float)));
    CHECK(cudaMemset(field, 0, n * sizeof(float)));
    for (Steps steps(60); steps.next();)
        for (int i = 0; i < 8; i++) {
            for (int k = 0; k < 4; k++) stage<<<1056, 256, 0, stream>>>(field, n, i);
            if (once) continue;
            CHECK(cudaEventRecord(ended, stream));
            while (cudaEventQuery(ended) == cudaErrorNotReady)
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    CHECK(cudaDeviceSynchronize());
}
