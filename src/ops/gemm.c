/* Matrix products by oneDNN or OpenBLAS, which CMake chooses. If the library has no product for a 16-bit type, pieces
 * are converted to fp32. */
#include "ops/gemm.h"
#include "ops/cpu/cpu.h"

#ifdef AORTA_ONEDNN
#include <dnnl.h>
#else
#include <cblas.h>
#include <pthread.h>
#endif
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#ifdef AORTA_ONEDNN
/* ---- oneDNN, through its C API; versions 2 and 3 differ only in how a product is described ---- */

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

static aorta_status check_dnnl(dnnl_status_t status, const struct aorta_products *gemm) {
    if (status == dnnl_success) return NULL;
    return AORTA_ERROR(status == dnnl_out_of_memory ? AORTA_MEMORY : AORTA_DEVICE,
                       "matrix product %lldx%lldx%lld: oneDNN reports status %d", (long long)gemm->m,
                       (long long)gemm->n, (long long)gemm->k, (int)status);
}

static aorta_status backend_f32(const struct aorta_products *gemm, const float *a, const float *b, float *c) {
    use_one_thread();
    return check_dnnl(dnnl_sgemm(gemm->transpose_a ? 'T' : 'N', gemm->transpose_b ? 'T' : 'N', gemm->m, gemm->n,
                                 gemm->k, 1.0f, a, gemm->lda, b, gemm->ldb, gemm->accumulate ? 1.0f : 0.0f, c,
                                 gemm->ldc),
                      gemm);
}

static bool backend_has(enum aorta_dtype dtype) {
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

/* Everything a product needs; zero members do not exist yet. oneDNN keeps compiled products in an internal cache, so
 * that creating one per call costs only microseconds. */
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

static aorta_status backend_typed(const struct aorta_products *gemm, enum aorta_dtype dtype, const void *a,
                                  const void *b, enum aorta_dtype c_dtype, void *c) {
    (void)dtype; /* always bf16: backend_has accepts no other type */
    use_one_thread();
    struct matrix matrices[3] = {
        matrix_of(a, dnnl_bf16, gemm->m, gemm->k, gemm->lda, gemm->transpose_a),
        matrix_of(b, dnnl_bf16, gemm->k, gemm->n, gemm->ldb, gemm->transpose_b),
        matrix_of(c, c_dtype == AORTA_F32 ? dnnl_f32 : dnnl_bf16, gemm->m, gemm->n, gemm->ldc, false)};
    struct product product = {0};
    dnnl_status_t status = product_run(&product, matrices, gemm->accumulate);
    product_destroy(&product);
    return check_dnnl(status, gemm);
}
#else
/* ---- OpenBLAS, where oneDNN is not installed ---- */

const char *aorta_ops_gemm_library(void) {
    return openblas_get_config(); /* "OpenBLAS 0.3.21 DYNAMIC_ARCH … Prescott …": its own text names the kernels */
}

/* OpenBLAS' number of threads belongs to the process: it is set once, before the first product. */
static void set_one_thread(void) {
    if (!getenv("OPENBLAS_NUM_THREADS")) openblas_set_num_threads(1);
}

static aorta_status backend_f32(const struct aorta_products *gemm, const float *a, const float *b, float *c) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_one_thread);
    cblas_sgemm(CblasRowMajor, gemm->transpose_a ? CblasTrans : CblasNoTrans,
                gemm->transpose_b ? CblasTrans : CblasNoTrans, (blasint)gemm->m, (blasint)gemm->n, (blasint)gemm->k,
                1.0f, a, (blasint)gemm->lda, b, (blasint)gemm->ldb, gemm->accumulate ? 1.0f : 0.0f, c,
                (blasint)gemm->ldc);
    return NULL;
}

static bool backend_has(enum aorta_dtype dtype) {
    (void)dtype; /* fp32 only */
    return false;
}

static aorta_status backend_typed(const struct aorta_products *gemm, enum aorta_dtype dtype, const void *a,
                                  const void *b, enum aorta_dtype c_dtype, void *c) {
    (void)gemm, (void)a, (void)b, (void)c_dtype, (void)c;
    return AORTA_ERROR(AORTA_UNSUPPORTED, "matrix product in %s: OpenBLAS has none", aorta_dtype_name(dtype));
}
#endif

/* ---- products of any type ---- */

static aorta_status check_gemm(const struct aorta_products *gemm) {
    const bool fits = gemm->m >= 0 && gemm->n >= 0 && gemm->k >= 0 && gemm->m < INT_MAX && gemm->n < INT_MAX &&
                      gemm->k < INT_MAX && gemm->lda < INT_MAX && gemm->ldb < INT_MAX && gemm->ldc < INT_MAX;
    if (!fits)
        return AORTA_ERROR(AORTA_INTERNAL, "matrix product %lldx%lldx%lld: a size is negative or beyond 2^31",
                           (long long)gemm->m, (long long)gemm->n, (long long)gemm->k);
    if (gemm->lda < (gemm->transpose_a ? gemm->m : gemm->k) || gemm->ldb < (gemm->transpose_b ? gemm->k : gemm->n) ||
        gemm->ldc < gemm->n)
        return AORTA_ERROR(AORTA_INTERNAL, "matrix product %lldx%lldx%lld: rows are %lld, %lld, %lld apart, too close",
                           (long long)gemm->m, (long long)gemm->n, (long long)gemm->k, (long long)gemm->lda,
                           (long long)gemm->ldb, (long long)gemm->ldc);
    return NULL;
}

/* With k = 0 a product is zero; libraries do not agree on this case. */
static void clear(const struct aorta_products *gemm, enum aorta_dtype dtype, void *c) {
    const size_t size = aorta_dtype_size(dtype);
    for (int64_t row = 0; row < gemm->m; row++)
        memset((char *)c + (size_t)(row * gemm->ldc) * size, 0, (size_t)gemm->n * size);
}

aorta_status aorta_gemm_f32(const struct aorta_products *gemm, const float *a, const float *b, float *c) {
    return aorta_gemm_typed(gemm, AORTA_F32, a, b, AORTA_F32, c);
}

/* ---- 16-bit types without a product of their own: pieces are converted, multiplied in fp32 and converted back ---- */

#define PIECE 512 /* rows, columns or depth: 1 MiB of fp32 each for a, b and c */

struct pieces {
    const struct aorta_products *gemm;
    const struct aorta_cpu_ops *ops;
    enum aorta_dtype dtype, c_dtype;
    float *a, *b, *c;
};

static int64_t piece_length(int64_t first, int64_t count) {
    return count - first < PIECE ? count - first : PIECE;
}

/* Part of a matrix of any type. */
struct piece {
    const void *base;
    enum aorta_dtype dtype;
    int64_t stride, row, column, rows, columns;
};

static void piece_read(const struct pieces *p, struct piece from, float *to) {
    for (int64_t i = 0; i < from.rows; i++) {
        const size_t at = (size_t)((from.row + i) * from.stride + from.column) * aorta_dtype_size(from.dtype);
        p->ops->to_float(to + i * from.columns, (const char *)from.base + at, from.dtype, from.columns);
    }
}

static void piece_write(const struct pieces *p, void *c, int64_t row, int64_t column, int64_t rows, int64_t columns) {
    for (int64_t i = 0; i < rows; i++)
        p->ops->from_float((char *)c + (size_t)((row + i) * p->gemm->ldc + column) * aorta_dtype_size(p->c_dtype),
                           p->c + i * columns, p->c_dtype, columns);
}

static aorta_status piece_multiply(const struct pieces *p, const void *a, const void *b, void *c, int64_t row,
                                   int64_t column) {
    const struct aorta_products *gemm = p->gemm;
    const int64_t m = piece_length(row, gemm->m), n = piece_length(column, gemm->n);
    if (gemm->accumulate) piece_read(p, (struct piece){c, p->c_dtype, gemm->ldc, row, column, m, n}, p->c);
    for (int64_t depth = 0; depth < gemm->k; depth += PIECE) {
        const int64_t k = piece_length(depth, gemm->k);
        if (gemm->transpose_a)
            piece_read(p, (struct piece){a, p->dtype, gemm->lda, depth, row, k, m}, p->a);
        else
            piece_read(p, (struct piece){a, p->dtype, gemm->lda, row, depth, m, k}, p->a);
        if (gemm->transpose_b)
            piece_read(p, (struct piece){b, p->dtype, gemm->ldb, column, depth, n, k}, p->b);
        else
            piece_read(p, (struct piece){b, p->dtype, gemm->ldb, depth, column, k, n}, p->b);
        const struct aorta_products part = {.m = m,
                                            .n = n,
                                            .k = k,
                                            .transpose_a = gemm->transpose_a,
                                            .transpose_b = gemm->transpose_b,
                                            .lda = gemm->transpose_a ? m : k,
                                            .ldb = gemm->transpose_b ? k : n,
                                            .ldc = n,
                                            .accumulate = gemm->accumulate || depth > 0};
        AORTA_TRY(backend_f32(&part, p->a, p->b, p->c));
    }
    piece_write(p, c, row, column, m, n);
    return NULL;
}

static aorta_status multiply_in_pieces(const struct aorta_products *gemm, enum aorta_dtype dtype, const void *a,
                                       const void *b, enum aorta_dtype c_dtype, void *c) {
    float *memory = malloc(3 * sizeof(float) * PIECE * PIECE);
    if (!memory)
        return AORTA_ERROR(AORTA_MEMORY, "matrix product in %s: no memory to convert in", aorta_dtype_name(dtype));
    const struct pieces pieces = {
        gemm, aorta_cpu_ops(), dtype, c_dtype, memory, memory + PIECE * PIECE, memory + 2 * PIECE * PIECE};
    aorta_status status = NULL;
    for (int64_t row = 0; row < gemm->m && !status; row += PIECE)
        for (int64_t column = 0; column < gemm->n && !status; column += PIECE)
            status = piece_multiply(&pieces, a, b, c, row, column);
    free(memory);
    return status;
}

aorta_status aorta_gemm_typed(const struct aorta_products *gemm, enum aorta_dtype dtype, const void *a, const void *b,
                              enum aorta_dtype c_dtype, void *c) {
    AORTA_TRY(check_gemm(gemm));
    if (gemm->m == 0 || gemm->n == 0) return NULL;
    if (gemm->k == 0) {
        if (!gemm->accumulate) clear(gemm, c_dtype, c);
        return NULL;
    }
    if (dtype == AORTA_F32) return backend_f32(gemm, a, b, c);
    if (backend_has(dtype)) return backend_typed(gemm, dtype, a, b, c_dtype, c);
    return multiply_in_pieces(gemm, dtype, a, b, c_dtype, c);
}
