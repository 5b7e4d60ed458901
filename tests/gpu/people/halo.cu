/* A stencil on two ranks of MPI: borders go through the host after each sweep, or while the interior is computed.
 * mpirun -n 2 halo [during] */
#include "steps.h"
#include <mpi.h>

__global__ void sweep(float *next, const float *now, int n, int first, int last)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = first + blockIdx.y;
    if (x < 1 || x >= n - 1 || y >= last) return;
    float sum = 0;
    for (int k = 0; k < 40; k++)
        sum += now[(y - 1) * n + x] + now[(y + 1) * n + x] + now[y * n + x - 1] + now[y * n + x + 1] * k;
    next[y * n + x] = sum * 0.001f;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, devices;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    CHECK(cudaGetDeviceCount(&devices));
    CHECK(cudaSetDevice(rank % devices));
    const bool during = chosen(argc, argv, "during");
    const int n = 8192, rows = 2048, halo = 64;
    const size_t bytes = (size_t)halo * n * sizeof(float);
    float *now, *next, *out, *in;
    cudaStream_t border;
    CHECK(cudaStreamCreateWithFlags(&border, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&now, (size_t)rows * n * sizeof(float)));
    CHECK(cudaMalloc(&next, (size_t)rows * n * sizeof(float)));
    CHECK(cudaMemset(now, 0, (size_t)rows * n * sizeof(float)));
    CHECK(cudaMallocHost(&out, bytes));
    CHECK(cudaMallocHost(&in, bytes));
    const dim3 block(256), whole(n / 256, rows - 2);
    for (Steps steps(80); steps.next();)
        for (int i = 0; i < 4; i++) {
            float *const edge = now + (size_t)(rank == 0 ? rows - halo : 0) * n;
            if (during) sweep<<<whole, block>>>(next, now, n, 1, rows - 1);
            CHECK(cudaMemcpyAsync(out, edge, bytes, cudaMemcpyDeviceToHost, border));
            CHECK(cudaStreamSynchronize(border));
            MPI_Sendrecv(out, (int)bytes, MPI_BYTE, 1 - rank, 0, in, (int)bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
            CHECK(cudaMemcpyAsync(edge, in, bytes, cudaMemcpyHostToDevice, border));
            CHECK(cudaStreamSynchronize(border));
            if (!during) sweep<<<whole, block>>>(next, now, n, 1, rows - 1);
            CHECK(cudaDeviceSynchronize());
            std::swap(now, next);
        }
    MPI_Finalize();
}
