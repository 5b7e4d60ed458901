/* Products of many small matrices with cuBLAS, one call for each or one for all. small_gemms [batched] */
#include "steps.h"
#include <cublas_v2.h>

int main(int argc, char **argv)
{
    const bool batched = chosen(argc, argv, "batched");
    const int n = 64, count = 1000;
    const float one = 1, zero = 0;
    float *a, *b, *c;
    for (float **each : {&a, &b, &c}) {
        CHECK(cudaMalloc(each, (size_t)count * n * n * sizeof(float)));
        CHECK(cudaMemset(*each, 0, (size_t)count * n * n * sizeof(float)));
    }
    cublasHandle_t blas;
    CHECK(cublasCreate(&blas));
    for (Steps steps(150); steps.next();) {
        if (batched) {
            CHECK(cublasSgemmStridedBatched(blas, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a, n, n * n, b, n, n * n, &zero, c, n,
                                            n * n, count));
            continue;
        }
        for (int i = 0; i < count; i++)
            CHECK(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a + i * n * n, n, b + i * n * n, n, &zero,
                              c + i * n * n, n));
    }
    CHECK(cudaDeviceSynchronize());
}
