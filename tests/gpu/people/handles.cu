/* A function that creates cuBLAS's handle in each call, or is given one. handles [given] */
#include "steps.h"
#include <cublas_v2.h>

static void multiply(float *c, const float *a, const float *b, int n, cublasHandle_t given)
{
    const float one = 1, zero = 0;
    cublasHandle_t blas = given;
    if (!given) CHECK(cublasCreate(&blas));
    CHECK(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a, n, b, n, &zero, c, n));
    if (!given) CHECK(cublasDestroy(blas));
}

int main(int argc, char **argv)
{
    const int n = 1024;
    float *a, *b, *c;
    cublasHandle_t blas = nullptr;
    for (float **each : {&a, &b, &c}) {
        CHECK(cudaMalloc(each, n * n * sizeof(float)));
        CHECK(cudaMemset(*each, 0, n * n * sizeof(float)));
    }
    if (chosen(argc, argv, "given")) CHECK(cublasCreate(&blas));
    for (Steps steps(120); steps.next();) {
        multiply(c, a, b, n, blas);
        multiply(a, b, c, n, blas);
    }
    CHECK(cudaDeviceSynchronize());
}
