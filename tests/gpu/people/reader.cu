/* Blocks of a file, read by the thread that launches, or by a second thread ahead of it. reader [ahead] */
#include "steps.h"
#include <future>

__global__ void digest(unsigned *out, const unsigned *in, int n)
{
    unsigned own = 0;
    for (int round = 0; round < 40; round++)
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
            own = own * 31 + in[i];
    atomicXor(out, own);
}

int main(int argc, char **argv)
{
    const bool ahead = chosen(argc, argv, "ahead");
    const size_t bytes = 32 << 20;
    FILE *file = tmpfile();
    char *block[2], *there;
    unsigned *out;
    cudaEvent_t copied[2];
    for (int i = 0; i < 2; i++) {
        CHECK(cudaMallocHost(&block[i], bytes));
        CHECK(cudaEventCreateWithFlags(&copied[i], cudaEventDisableTiming));
        memset(block[i], i, bytes);
        if (fwrite(block[i], 1, bytes, file) != bytes) return 1;
    }
    CHECK(cudaMalloc(&there, bytes));
    CHECK(cudaMalloc(&out, sizeof *out));
    const auto read = [&](int step) {
        CHECK(cudaEventSynchronize(copied[step % 2]));
        if (fseek(file, (long)(step % 2 * bytes), SEEK_SET) != 0) exit(1);
        return fread(block[step % 2], 1, bytes, file);
    };
    int step = 0;
    std::future<size_t> next;
    for (Steps steps(80); steps.next(); step++) {
        if (ahead && next.valid())
            next.get();
        else
            read(step);
        if (ahead) next = std::async(std::launch::async, read, step + 1);
        CHECK(cudaMemcpyAsync(there, block[step % 2], bytes, cudaMemcpyHostToDevice));
        CHECK(cudaEventRecord(copied[step % 2]));
        digest<<<1056, 256>>>(out, (unsigned *)there, bytes / 4);
    }
    CHECK(cudaDeviceSynchronize());
}
