/* Matrix products by OpenBLAS, where oneDNN is not installed. */
#include "ops/gemm.h"

#include <cblas.h>
#include <pthread.h>
#include <stdlib.h>

const char *aorta_ops_gemm_library(void) {
    return openblas_get_config(); /* "OpenBLAS 0.3.21 DYNAMIC_ARCH … Prescott …": its own text names the kernels */
}

/* OpenBLAS' number of threads belongs to the process: it is set once, before the first product. */
static void set_one_thread(void) {
    if (!getenv("OPENBLAS_NUM_THREADS")) openblas_set_num_threads(1);
}

aorta_status aorta_gemm_backend_f32(const struct aorta_gemm *gemm, const float *a, const float *b, float *c) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_one_thread);
    cblas_sgemm(CblasRowMajor, gemm->transpose_a ? CblasTrans : CblasNoTrans,
                gemm->transpose_b ? CblasTrans : CblasNoTrans, (blasint)gemm->m, (blasint)gemm->n, (blasint)gemm->k,
                1.0f, a, (blasint)gemm->lda, b, (blasint)gemm->ldb, gemm->accumulate ? 1.0f : 0.0f, c,
                (blasint)gemm->ldc);
    return NULL;
}

bool aorta_gemm_backend_has(enum aorta_dtype dtype) {
    (void)dtype; /* fp32 only */
    return false;
}

aorta_status aorta_gemm_backend_typed(const struct aorta_gemm *gemm, enum aorta_dtype dtype, const void *a,
                                      const void *b, enum aorta_dtype c_dtype, void *c) {
    (void)gemm, (void)a, (void)b, (void)c_dtype, (void)c;
    return AORTA_ERROR(AORTA_UNSUPPORTED, "matrix product in %s: OpenBLAS has none", aorta_dtype_name(dtype));
}
