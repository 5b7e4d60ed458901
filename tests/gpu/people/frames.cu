/* Frames of a camera, each on one of four streams: blurred, then its bright pixels are counted. The count is launched
 * without a stream, or on the frame's. frames [own] */
#include "steps.h"

__global__ void blur(float *out, const float *in, int width, int height)
{
    for (int y = blockIdx.x; y < height; y += gridDim.x)
        for (int x = threadIdx.x; x < width; x += blockDim.x) {
            float sum = 0;
            for (int dy = -3; dy <= 3; dy++)
                for (int dx = -3; dx <= 3; dx++)
                    sum += in[min(max(y + dy, 0), height - 1) * width + min(max(x + dx, 0), width - 1)];
            out[y * width + x] = sum / 49;
        }
}

__global__ void count_bright(int *count, const float *in, int n)
{
    int found = 0;
    for (int i = threadIdx.x; i < n / 64; i += blockDim.x)
        found += in[i * 64] > 0.5f;
    atomicAdd(count, found);
}

int main(int argc, char **argv)
{
    const bool own = chosen(argc, argv, "own");
    const int width = 1280, height = 720, streams = 4;
    cudaStream_t stream[streams];
    float *raw[streams], *soft[streams];
    int *count;
    CHECK(cudaMalloc(&count, sizeof *count));
    for (int i = 0; i < streams; i++) {
        CHECK(cudaStreamCreate(&stream[i]));
        CHECK(cudaMalloc(&raw[i], width * height * sizeof(float)));
        CHECK(cudaMalloc(&soft[i], width * height * sizeof(float)));
        CHECK(cudaMemset(raw[i], 0, width * height * sizeof(float)));
    }
    for (Steps steps(300); steps.next();)
        for (int i = 0; i < 2 * streams; i++) {
            const int at = i % streams;
            blur<<<30, 256, 0, stream[at]>>>(soft[at], raw[at], width, height);
            blur<<<30, 256, 0, stream[at]>>>(raw[at], soft[at], width, height);
            count_bright<<<1, 256, 0, own ? stream[at] : 0>>>(count, raw[at], width * height);
        }
    CHECK(cudaDeviceSynchronize());
}
