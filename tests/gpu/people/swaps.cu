/* Heat spreads: after each round the new field is copied over the old one, or the two exchange their names.
 * swaps [names] */
#include "steps.h"

__global__ void spread(float *after, const float *before, int edge)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= edge - 1 || y >= edge - 1) return;
    const int i = y * edge + x;
    after[i] = 0.25f * (before[i - 1] + before[i + 1] + before[i - edge] + before[i + edge]);
}

int main(int argc, char **argv)
{
    const bool names = chosen(argc, argv, "names");
    const int edge = 4096, n = edge * edge;
    float *before, *after;
    CHECK(cudaMalloc(&before, n * sizeof(float)));
    CHECK(cudaMalloc(&after, n * sizeof(float)));
    CHECK(cudaMemset(before, 1, n * sizeof(float)));
    CHECK(cudaMemset(after, 1, n * sizeof(float)));
    const dim3 block(32, 8), grid(edge / 32, edge / 8);
    for (Steps steps(60); steps.next();)
        for (int i = 0; i < 20; i++) {
            spread<<<grid, block>>>(after, before, edge);
            if (names)
                std::swap(before, after);
            else
                CHECK(cudaMemcpyAsync(before, after, n * sizeof(float), cudaMemcpyDeviceToDevice));
        }
    CHECK(cudaDeviceSynchronize());
}
