/* One process with two GPUs: layers computed backward with cuBLAS, gradients summed by NCCL on the stream of the layers, or on
 * one of its own as they are ready. gradients [own] */
#include "steps.h"
#include <cublas_v2.h>
#include <nccl.h>

int main(int argc, char **argv)
{
    const bool own = chosen(argc, argv, "own");
    const int gpus = 2, layers = 12, n = 4096;
    const int devices[] = {0, 1};
    const float one = 1, zero = 0;
    ncclComm_t comm[gpus];
    cublasHandle_t blas[gpus];
    cudaStream_t compute[gpus], reduce[gpus];
    cudaEvent_t ready[gpus], reduced[gpus];
    float *x[gpus], *before[gpus], *weight[gpus], *gradient[gpus];
    CHECK(ncclCommInitAll(comm, gpus, devices));
    for (int g = 0; g < gpus; g++) {
        CHECK(cudaSetDevice(g));
        CHECK(cudaStreamCreateWithFlags(&compute[g], cudaStreamNonBlocking));
        CHECK(cudaStreamCreateWithFlags(&reduce[g], cudaStreamNonBlocking));
        CHECK(cudaEventCreateWithFlags(&ready[g], cudaEventDisableTiming));
        CHECK(cudaEventCreateWithFlags(&reduced[g], cudaEventDisableTiming));
        CHECK(cublasCreate(&blas[g]));
        CHECK(cublasSetStream(blas[g], compute[g]));
        CHECK(cublasSetMathMode(blas[g], CUBLAS_TF32_TENSOR_OP_MATH));
        CHECK(cudaMalloc(&x[g], n * n * sizeof(float)));
        CHECK(cudaMalloc(&before[g], n * n * sizeof(float)));
        CHECK(cudaMalloc(&weight[g], n * n * sizeof(float)));
        CHECK(cudaMalloc(&gradient[g], (size_t)layers * n * n * sizeof(float)));
        CHECK(cudaMemset(x[g], 0, n * n * sizeof(float)));
        CHECK(cudaMemset(before[g], 0, n * n * sizeof(float)));
        CHECK(cudaMemset(weight[g], 0, n * n * sizeof(float)));
    }
    for (Steps steps(80); steps.next();) {
        for (int layer = 0; layer < layers; layer++) {
            const size_t at = (size_t)layer * n * n;
            for (int g = 0; g < gpus; g++) {
                CHECK(cudaSetDevice(g));
                for (float *out : {gradient[g] + at, before[g]})
                    CHECK(cublasSgemm(blas[g], CUBLAS_OP_N, CUBLAS_OP_T, n, n, n, &one, weight[g], n, x[g], n, &zero, out, n));
                std::swap(x[g], before[g]);
                if (!own) continue;
                CHECK(cudaEventRecord(ready[g], compute[g]));
                CHECK(cudaStreamWaitEvent(reduce[g], ready[g]));
            }
            CHECK(ncclGroupStart());
            for (int g = 0; g < gpus; g++)
                CHECK(ncclAllReduce(gradient[g] + at, gradient[g] + at, n * n, ncclFloat, ncclSum, comm[g],
                                    own ? reduce[g] : compute[g]));
            CHECK(ncclGroupEnd());
        }
        for (int g = 0; g < gpus && own; g++) {
            CHECK(cudaSetDevice(g));
            CHECK(cudaEventRecord(reduced[g], reduce[g]));
            CHECK(cudaStreamWaitEvent(compute[g], reduced[g]));
        }
    }
    for (int g = 0; g < gpus; g++) {
        CHECK(cudaSetDevice(g));
        CHECK(cudaDeviceSynchronize());
    }
}
