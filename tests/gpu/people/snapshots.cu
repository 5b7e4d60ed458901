/* A simulation whose state is written to a file every fifth step, by the thread that launches, or by a second one.
 * snapshots [beside] */
#include "steps.h"
#include <future>

__global__ void advance(float *x, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        for (int k = 0; k < 100; k++)
            x[i] = x[i] * 0.999f + 0.001f * k;
}

int main(int argc, char **argv)
{
    const bool beside = chosen(argc, argv, "beside");
    const int n = 16 << 20;
    float *x, *here;
    FILE *file = tmpfile();
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMalloc(&x, n * sizeof(float)));
    CHECK(cudaMallocHost(&here, n * sizeof(float)));
    CHECK(cudaMemset(x, 0, n * sizeof(float)));
    const auto save = [&] {
        rewind(file);
        return fwrite(here, sizeof(float), n, file);
    };
    std::future<size_t> saved;
    int step = 0;
    for (Steps steps(100); steps.next(); step++) {
        for (int i = 0; i < 30; i++)
            advance<<<1056, 256, 0, stream>>>(x, n);
        if (step % 5 != 4) continue;
        if (saved.valid()) saved.get();
        CHECK(cudaMemcpyAsync(here, x, n * sizeof(float), cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        if (beside)
            saved = std::async(std::launch::async, save);
        else
            save();
    }
    CHECK(cudaDeviceSynchronize());
}
