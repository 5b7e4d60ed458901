/* Two branches of a computation on two streams meet in each round: the host waits for both, or an event does.
 * meetings [events] */
#include "steps.h"

__global__ void work(float *x, int n, int rounds)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        for (int k = 0; k < rounds; k++)
            x[i] = x[i] * 0.999f + 0.001f;
}

int main(int argc, char **argv)
{
    const bool events = chosen(argc, argv, "events");
    const int n = 1 << 16;
    float *x[2];
    cudaStream_t stream[2];
    cudaEvent_t done[2];
    for (int i = 0; i < 2; i++) {
        CHECK(cudaStreamCreateWithFlags(&stream[i], cudaStreamNonBlocking));
        CHECK(cudaEventCreateWithFlags(&done[i], cudaEventDisableTiming));
        CHECK(cudaMalloc(&x[i], n * sizeof(float)));
        CHECK(cudaMemset(x[i], 0, n * sizeof(float)));
    }
    for (Steps steps(250); steps.next();)
        for (int round = 0; round < 30; round++) {
            for (int i = 0; i < 2; i++)
                work<<<64, 256, 0, stream[i]>>>(x[i], n, 60);
            for (int i = 0; i < 2; i++) {
                if (events)
                    CHECK(cudaEventRecord(done[i], stream[i]));
                else
                    CHECK(cudaStreamSynchronize(stream[i]));
            }
            for (int i = 0; i < 2 && events; i++)
                CHECK(cudaStreamWaitEvent(stream[i], done[1 - i]));
        }
    CHECK(cudaDeviceSynchronize());
}
