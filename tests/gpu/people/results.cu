/* Each step's result is copied to the host, which sums it up: at once, or while the GPU works on the next step.
 * results [during] */
#include "steps.h"

__global__ void work(float *out, int n, int rounds)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float value = i;
        for (int k = 0; k < rounds; k++)
            value = value * 0.999f + 0.001f;
        out[i] = value;
    }
}

static double sum_of(const float *x, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i];
    return sum;
}

int main(int argc, char **argv)
{
    const bool during = chosen(argc, argv, "during");
    const int n = 4 << 20;
    float *there[2], *here[2];
    double total = 0;
    cudaEvent_t copied[2];
    for (int i = 0; i < 2; i++) {
        CHECK(cudaMalloc(&there[i], n * sizeof(float)));
        if (during)
            CHECK(cudaMallocHost(&here[i], n * sizeof(float)));
        else
            here[i] = (float *)malloc(n * sizeof(float));
        CHECK(cudaEventCreateWithFlags(&copied[i], cudaEventDisableTiming));
    }
    int step = 0;
    for (Steps steps(60); steps.next(); step++) {
        const int at = step % 2;
        work<<<1056, 256>>>(there[at], n, 4000);
        if (during) {
            CHECK(cudaMemcpyAsync(here[at], there[at], n * sizeof(float), cudaMemcpyDeviceToHost));
            CHECK(cudaEventRecord(copied[at]));
            if (step == 0) continue;
            CHECK(cudaEventSynchronize(copied[1 - at]));
            total += sum_of(here[1 - at], n);
        } else {
            CHECK(cudaMemcpy(here[at], there[at], n * sizeof(float), cudaMemcpyDeviceToHost));
            total += sum_of(here[at], n);
        }
    }
    printf("%g\n", total);
}
