/* Laplace's equation by Jacobi's method. The largest change is read after each iteration, or after every 50th.
 * jacobi [seldom] */
#include "steps.h"

__global__ void relax(float *next, const float *now, int *change, int n)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x + 1, y = blockIdx.y * blockDim.y + threadIdx.y + 1;
    if (x >= n - 1 || y >= n - 1) return;
    const float value = 0.25f * (now[y * n + x - 1] + now[y * n + x + 1] + now[(y - 1) * n + x] + now[(y + 1) * n + x]);
    next[y * n + x] = value;
    atomicMax(change, __float_as_int(fabsf(value - now[y * n + x])));
}

int main(int argc, char **argv)
{
    const int n = 1024, each = chosen(argc, argv, "seldom") ? 50 : 1;
    float *now, *next;
    int *change, found;
    CHECK(cudaMalloc(&now, n * n * sizeof(float)));
    CHECK(cudaMalloc(&next, n * n * sizeof(float)));
    CHECK(cudaMalloc(&change, sizeof(int)));
    CHECK(cudaMemset(now, 0, n * n * sizeof(float)));
    CHECK(cudaMemset(next, 0, n * n * sizeof(float)));
    const dim3 block(32, 8), grid(n / 32, n / 8);
    for (Steps steps(120); steps.next();)
        for (int i = 0; i < 100; i++) {
            if (i % each == 0) CHECK(cudaMemset(change, 0, sizeof(int)));
            relax<<<grid, block>>>(next, now, change, n);
            if (i % each == each - 1) CHECK(cudaMemcpy(&found, change, sizeof(int), cudaMemcpyDeviceToHost));
            std::swap(now, next);
        }
    printf("%d\n", found);
}
