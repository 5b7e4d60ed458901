/* Two ranks of MPI sum many small gradients with NCCL, one by one or as one buffer. mpirun -n 2 tensors [joined] */
#include "steps.h"
#include <mpi.h>
#include <nccl.h>

__global__ void backward(float *gradient, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        for (int k = 0; k < 30; k++)
            gradient[i] = gradient[i] * 0.5f + k;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, devices;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    CHECK(cudaGetDeviceCount(&devices));
    CHECK(cudaSetDevice(rank % devices));
    const bool joined = chosen(argc, argv, "joined");
    const int layers = 64, each = 64 << 10;
    ncclUniqueId id;
    ncclComm_t comm;
    cudaStream_t stream;
    float *gradient;
    if (rank == 0) CHECK(ncclGetUniqueId(&id));
    MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
    CHECK(ncclCommInitRank(&comm, 2, id, rank));
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMalloc(&gradient, (size_t)layers * each * sizeof(float)));
    CHECK(cudaMemset(gradient, 0, (size_t)layers * each * sizeof(float)));
    for (Steps steps(150); steps.next();) {
        for (int layer = 0; layer < layers; layer++)
            backward<<<256, 256, 0, stream>>>(gradient + layer * each, each);
        for (int layer = 0; layer < layers && !joined; layer++) {
            float *part = gradient + layer * each;
            CHECK(ncclAllReduce(part, part, each, ncclFloat, ncclSum, comm, stream));
        }
        if (joined) CHECK(ncclAllReduce(gradient, gradient, (size_t)layers * each, ncclFloat, ncclSum, comm, stream));
    }
    CHECK(cudaDeviceSynchronize());
    MPI_Finalize();
}
