/* A long signal, filtered in chunks: copied in, filtered, copied out one after the other from malloc's memory, or from pinned
 * memory on three streams. chunks [streams] */
#include "steps.h"

__global__ void filter(float *out, const float *in, int n, int taps)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float sum = 0;
        for (int k = 0; k < taps; k++)
            sum += in[(i + k) % n] * (k & 3);
        out[i] = sum;
    }
}

int main(int argc, char **argv)
{
    const bool overlapped = chosen(argc, argv, "streams");
    const int chunks = 6, n = 4 << 20, streams = overlapped ? 3 : 1;
    const size_t bytes = n * sizeof(float);
    float *in, *out, *here[3], *there[3];
    cudaStream_t stream[3] = {};
    if (overlapped) {
        CHECK(cudaMallocHost(&in, chunks * bytes));
        CHECK(cudaMallocHost(&out, chunks * bytes));
    } else {
        in = (float *)malloc(chunks * bytes), out = (float *)malloc(chunks * bytes);
    }
    memset(in, 1, chunks * bytes), memset(out, 1, chunks * bytes);
    for (int i = 0; i < streams; i++) {
        CHECK(cudaMalloc(&here[i], bytes));
        CHECK(cudaMalloc(&there[i], bytes));
        if (overlapped) CHECK(cudaStreamCreateWithFlags(&stream[i], cudaStreamNonBlocking));
    }
    for (Steps steps(40); steps.next();)
        for (int c = 0; c < chunks; c++) {
            const int at = c % streams;
            CHECK(cudaMemcpyAsync(here[at], in + (size_t)c * n, bytes, cudaMemcpyHostToDevice, stream[at]));
            filter<<<1024, 256, 0, stream[at]>>>(there[at], here[at], n, 300);
            CHECK(cudaMemcpyAsync(out + (size_t)c * n, there[at], bytes, cudaMemcpyDeviceToHost, stream[at]));
        }
    CHECK(cudaDeviceSynchronize());
}
