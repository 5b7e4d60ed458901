/* Matrix products by oneDNN, through its C API; versions 2 and 3 differ only in how a product is described. */
#include "ops/gemm.h"

#include <dnnl.h>
#include <stdlib.h>

/* From OpenMP's runtime, which oneDNN is built on: the number of threads for the calling thread's parallel regions.
 * Declared here because not every compiler brings <omp.h>. */
extern void omp_set_num_threads(int threads);
extern int omp_get_max_threads(void);

#define VERSION_TEXT_OF(major, minor, patch) #major "." #minor "." #patch
#define VERSION_TEXT(major, minor, patch) VERSION_TEXT_OF(major, minor, patch)
#define LIBRARY "oneDNN " VERSION_TEXT(DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR, DNNL_VERSION_PATCH)

const char *aorta_ops_gemm_library(void) {
    unsigned isa = (unsigned)dnnl_get_effective_cpu_isa();
    static const struct {
        unsigned isa; /* all of these bits are set */
        const char *name;
    } names[] = {
        {dnnl_cpu_isa_avx512_core_bf16, LIBRARY ", AVX512 with bf16"},
        {dnnl_cpu_isa_avx512_core, LIBRARY ", AVX512"},
        {dnnl_cpu_isa_avx2, LIBRARY ", AVX2"},
        {dnnl_cpu_isa_sse41, LIBRARY ", SSE4.1"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if ((isa & names[i].isa) == names[i].isa) return names[i].name;
    return LIBRARY ", generic";
}

static void use_one_thread(void) {
    if (omp_get_max_threads() > 1 && !getenv("OMP_NUM_THREADS")) omp_set_num_threads(1);
}

static aorta_status check(dnnl_status_t status, const struct aorta_gemm *gemm) {
    if (status == dnnl_success) return NULL;
    return AORTA_ERROR(status == dnnl_out_of_memory ? AORTA_MEMORY : AORTA_DEVICE,
                       "matrix product %lldx%lldx%lld: oneDNN reports status %d", (long long)gemm->m,
                       (long long)gemm->n, (long long)gemm->k, (int)status);
}

aorta_status aorta_gemm_backend_f32(const struct aorta_gemm *gemm, const float *a, const float *b, float *c) {
    use_one_thread();
    return check(dnnl_sgemm(gemm->transpose_a ? 'T' : 'N', gemm->transpose_b ? 'T' : 'N', gemm->m, gemm->n, gemm->k,
                            1.0f, a, gemm->lda, b, gemm->ldb, gemm->accumulate ? 1.0f : 0.0f, c, gemm->ldc),
                 gemm);
}

bool aorta_gemm_backend_has(enum aorta_dtype dtype) {
    unsigned isa = (unsigned)dnnl_get_effective_cpu_isa();
    return dtype == AORTA_BF16 && (isa & dnnl_cpu_isa_avx512_core_bf16) == dnnl_cpu_isa_avx512_core_bf16;
}

/* One matrix in memory as oneDNN describes it. */
struct matrix {
    dnnl_dims_t dims, strides;
    dnnl_data_type_t type;
    void *data;
};

static struct matrix matrix_of(const void *data, dnnl_data_type_t type, int64_t rows, int64_t columns, int64_t stride,
                               bool transpose) {
    return (struct matrix){.dims = {rows, columns},
                           .strides = {transpose ? 1 : stride, transpose ? stride : 1},
                           .type = type,
                           .data = (void *)data};
}

/* Everything a product needs; zero members do not exist yet. oneDNN keeps compiled products in a cache of its own, so
 * that making one for each call costs microseconds. */
struct product {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_attr_t attributes;
    dnnl_post_ops_t post_ops;
    dnnl_primitive_desc_t description;
    dnnl_primitive_t primitive;
    dnnl_memory_t memory[3];
};

static void product_destroy(struct product *product) {
    for (int i = 0; i < 3; i++)
        if (product->memory[i]) dnnl_memory_destroy(product->memory[i]);
    if (product->primitive) dnnl_primitive_destroy(product->primitive);
    if (product->description) dnnl_primitive_desc_destroy(product->description);
    if (product->post_ops) dnnl_post_ops_destroy(product->post_ops);
    if (product->attributes) dnnl_primitive_attr_destroy(product->attributes);
    if (product->stream) dnnl_stream_destroy(product->stream);
    if (product->engine) dnnl_engine_destroy(product->engine);
}

/* Runs the calls in order until one fails. */
#define DNNL_TRY(expression)                                                                                           \
    do {                                                                                                               \
        dnnl_status_t dnnl_try_status = (expression);                                                                  \
        if (dnnl_try_status != dnnl_success) return dnnl_try_status;                                                   \
    } while (0)

static dnnl_status_t accumulate_into(struct product *product) {
    DNNL_TRY(dnnl_post_ops_create(&product->post_ops));
#if DNNL_VERSION_MAJOR >= 3
    DNNL_TRY(dnnl_post_ops_append_sum(product->post_ops, 1.0f, 0, dnnl_data_type_undef));
#else
    DNNL_TRY(dnnl_post_ops_append_sum(product->post_ops, 1.0f));
#endif
    return dnnl_primitive_attr_set_post_ops(product->attributes, product->post_ops);
}

#if DNNL_VERSION_MAJOR >= 3
static dnnl_status_t describe(struct product *product, struct matrix matrices[3]) {
    dnnl_memory_desc_t shapes[3] = {NULL, NULL, NULL};
    dnnl_status_t status = dnnl_success;
    for (int i = 0; i < 3 && status == dnnl_success; i++)
        status = dnnl_memory_desc_create_with_strides(&shapes[i], 2, matrices[i].dims, matrices[i].type,
                                                      matrices[i].strides);
    for (int i = 0; i < 3 && status == dnnl_success; i++)
        status = dnnl_memory_create(&product->memory[i], shapes[i], product->engine, matrices[i].data);
    if (status == dnnl_success)
        status = dnnl_matmul_primitive_desc_create(&product->description, product->engine, shapes[0], shapes[1], NULL,
                                                   shapes[2], product->attributes);
    for (int i = 0; i < 3; i++)
        if (shapes[i]) dnnl_memory_desc_destroy(shapes[i]);
    return status;
}
#else
static dnnl_status_t describe(struct product *product, struct matrix matrices[3]) {
    dnnl_memory_desc_t shapes[3];
    for (int i = 0; i < 3; i++) {
        DNNL_TRY(
            dnnl_memory_desc_init_by_strides(&shapes[i], 2, matrices[i].dims, matrices[i].type, matrices[i].strides));
        DNNL_TRY(dnnl_memory_create(&product->memory[i], &shapes[i], product->engine, matrices[i].data));
    }
    dnnl_matmul_desc_t matmul;
    DNNL_TRY(dnnl_matmul_desc_init(&matmul, &shapes[0], &shapes[1], NULL, &shapes[2]));
    return dnnl_primitive_desc_create(&product->description, &matmul, product->attributes, product->engine, NULL);
}
#endif

static dnnl_status_t product_run(struct product *product, struct matrix matrices[3], bool accumulate) {
    DNNL_TRY(dnnl_engine_create(&product->engine, dnnl_cpu, 0));
    DNNL_TRY(dnnl_stream_create(&product->stream, product->engine, dnnl_stream_default_flags));
    DNNL_TRY(dnnl_primitive_attr_create(&product->attributes));
    if (accumulate) DNNL_TRY(accumulate_into(product));
    DNNL_TRY(describe(product, matrices));
    DNNL_TRY(dnnl_primitive_create(&product->primitive, product->description));
    const dnnl_exec_arg_t args[] = {
        {DNNL_ARG_SRC, product->memory[0]}, {DNNL_ARG_WEIGHTS, product->memory[1]}, {DNNL_ARG_DST, product->memory[2]}};
    DNNL_TRY(dnnl_primitive_execute(product->primitive, product->stream, 3, args));
    return dnnl_stream_wait(product->stream);
}

aorta_status aorta_gemm_backend_typed(const struct aorta_gemm *gemm, enum aorta_dtype dtype, const void *a,
                                      const void *b, enum aorta_dtype c_dtype, void *c) {
    (void)dtype; /* bf16 is all that aorta_gemm_backend_has admits */
    use_one_thread();
    struct matrix matrices[3] = {
        matrix_of(a, dnnl_bf16, gemm->m, gemm->k, gemm->lda, gemm->transpose_a),
        matrix_of(b, dnnl_bf16, gemm->k, gemm->n, gemm->ldb, gemm->transpose_b),
        matrix_of(c, c_dtype == AORTA_F32 ? dnnl_f32 : dnnl_bf16, gemm->m, gemm->n, gemm->ldc, false)};
    struct product product = {0};
    dnnl_status_t status = product_run(&product, matrices, gemm->accumulate);
    product_destroy(&product);
    return check(status, gemm);
}
