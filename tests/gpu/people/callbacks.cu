/* A function of the host sorts the results of each frame: as part of the stream, whose next frame waits for it, or of a
 * stream of its own. callbacks [own] */
#include "steps.h"
#include <algorithm>

__global__ void render(float *frame, int n, int rounds)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float value = i * 1e-6f;
        for (int k = 0; k < rounds; k++) value = value * 0.999f + sinf(value);
        frame[i] = value;
    }
}

struct Results {
    float *values;
    int count;
};

static void CUDART_CB sort_results(void *user)
{
    Results *results = (Results *)user;
    std::sort(results->values, results->values + results->count);
}

int main(int argc, char **argv)
{
    const bool own = chosen(argc, argv, "own");
    const int n = 4 << 20, count = 8192;
    float *frames[2];
    Results results[2];
    cudaStream_t stream, other;
    cudaEvent_t rendered[2], done[2];
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamCreate(&other));
    for (int i = 0; i < 2; i++) {
        CHECK(cudaMalloc(&frames[i], n * sizeof(float)));
        CHECK(cudaMallocHost(&results[i].values, count * sizeof(float)));
        results[i].count = count;
        CHECK(cudaEventCreateWithFlags(&rendered[i], cudaEventDisableTiming));
        CHECK(cudaEventCreateWithFlags(&done[i], cudaEventDisableTiming));
    }
    int frame = 0;
    for (Steps steps(100); steps.next(); frame++) {
        const int at = frame % 2;
        if (own) CHECK(cudaStreamWaitEvent(stream, done[at], 0));
        render<<<1056, 256, 0, stream>>>(frames[at], n, 100);
        CHECK(cudaEventRecord(rendered[at], stream));
        cudaStream_t behind = own ? other : stream;
        if (own) CHECK(cudaStreamWaitEvent(other, rendered[at], 0));
        CHECK(cudaMemcpyAsync(results[at].values, frames[at], count * sizeof(float), cudaMemcpyDeviceToHost, behind));
        CHECK(cudaLaunchHostFunc(behind, sort_results, &results[at]));
        CHECK(cudaEventRecord(done[at], behind));
    }
    CHECK(cudaDeviceSynchronize());
}
