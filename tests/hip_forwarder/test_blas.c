/* libhipblaslt.so.1 of this folder on the cuBLASLt of tests/ops/emulator. That whole products come out right is for
 * ops.linear.hip_blas. */
#include "base/dtype.h"
#include "check.h"
#include "ops/gpu/blas.h"

#include <pthread.h>
#include <stdlib.h>

enum { ALLOC_FAILED = 2, INVALID_VALUE = 3, NOT_SUPPORTED = 7, SIZE = 4, WORKSPACE = 1 << 16 };

static const struct aorta_blas_vendor *const hip = &aorta_blas_hip;

/* A product of [m, SIZE] and [SIZE, SIZE], fp32; the second is transposed. */
struct product {
    void *handle, *description, *a, *b, *c, *preference;
    unsigned char candidates[2][AORTA_BLAS_CANDIDATE_BYTES];
};

static struct aorta_blas_api api;

static int open_library(void **state) {
    struct aorta_library library;
    (void)state;
    check_ok(aorta_library_open(&hip->library, &api, &library));
    assert_non_null(strstr(library.path, "hip_forwarder/rocm/libhipblaslt.so.1"));
    return 0;
}

static void open_product(struct product *p, uint64_t m) {
    const int32_t operation = hip->transposed;
    const uint64_t workspace = WORKSPACE;
    assert_int_equal(api.create(&p->handle), 0);
    assert_int_equal(api.description_create(&p->description, hip->compute_fp32, hip->types[AORTA_F32]), 0);
    assert_int_equal(api.description_set(p->description, hip->transpose_b, &operation, sizeof operation), 0);
    assert_int_equal(api.layout_create(&p->a, hip->types[AORTA_F32], m, SIZE, (int64_t)m), 0);
    assert_int_equal(api.layout_create(&p->b, hip->types[AORTA_F32], SIZE, SIZE, SIZE), 0);
    assert_int_equal(api.layout_create(&p->c, hip->types[AORTA_F32], m, SIZE, (int64_t)m), 0);
    assert_int_equal(api.preference_create(&p->preference), 0);
    assert_int_equal(api.preference_set(p->preference, hip->workspace_bytes, &workspace, sizeof workspace), 0);
}

static void close_product(struct product *p) {
    assert_int_equal(api.preference_destroy(p->preference), 0);
    assert_int_equal(api.layout_destroy(p->a), 0);
    assert_int_equal(api.layout_destroy(p->b), 0);
    assert_int_equal(api.layout_destroy(p->c), 0);
    assert_int_equal(api.description_destroy(p->description), 0);
    assert_int_equal(api.destroy(p->handle), 0);
}

static int ask(struct product *p, int wanted, int *found) {
    return api.candidates(p->handle, p->description, p->a, p->b, p->c, p->c, p->preference, wanted, p->candidates,
                          found);
}

/* Element (row, column) of c is row + column when a has ones in its first column and i in its second, and so on. */
static int multiply(struct product *p, uint64_t m, const void *algorithm, size_t workspace_bytes, bool *right) {
    float a[8 * SIZE] = {0}, b[SIZE * SIZE] = {0}, c[8 * SIZE] = {0};
    const float one = 1.0f, zero = 0.0f;
    unsigned char *workspace = malloc(WORKSPACE);
    for (uint64_t i = 0; i < m; i++) {
        a[i] = 1.0f;
        a[i + m] = (float)i;
    }
    for (int j = 0; j < SIZE; j++) {
        b[j] = (float)j; /* b is transposed: its row j makes column j of c */
        b[j + SIZE] = 1.0f;
    }
    int code = api.multiply(p->handle, p->description, &one, a, p->a, b, p->b, &zero, c, p->c, c, p->c, algorithm,
                            workspace, workspace_bytes, NULL);
    free(workspace);
    *right = !code;
    for (uint64_t i = 0; i < m && !code; i++)
        for (uint64_t j = 0; j < SIZE; j++)
            if (c[i + j * m] != (float)(i + j)) *right = false;
    return code;
}

/* Candidates have the layout of hipBLASLt's table, and each of them multiplies. */
static void candidates(void **state) {
    (void)state;
    struct product p;
    int found;
    open_product(&p, 3);
    assert_int_equal(ask(&p, 2, &found), 0);
    assert_int_equal(found, 2);
    for (int i = 0; i < found; i++) {
        const unsigned char *candidate = p.candidates[0] + (size_t)i * hip->candidate_bytes;
        size_t workspace;
        int code;
        bool right;
        memcpy(&workspace, candidate + hip->workspace_offset, sizeof workspace);
        memcpy(&code, candidate + hip->state_offset, sizeof code);
        assert_int_equal(workspace, i % 2 ? 0 : WORKSPACE); /* as the fake has it */
        assert_int_equal(code, 0);
        assert_int_equal(multiply(&p, 3, candidate, workspace, &right), 0);
        assert_true(right);
    }
    assert_int_equal(ask(&p, 1, &found), 0);
    assert_int_equal(found, 1);
    close_product(&p);
}

static void refused_products(void **state) {
    (void)state;
    struct product p;
    int found = 9;
    bool right;
    open_product(&p, 1);
    assert_int_equal(ask(&p, 2, &found), NOT_SUPPORTED); /* the fake has none of one row */
    assert_int_equal(found, 0);
    assert_int_equal(ask(&p, 0, &found), INVALID_VALUE);
    close_product(&p);

    open_product(&p, 3);
    assert_int_equal(ask(&p, 2, &found), 0);
    unsigned char foreign[AORTA_BLAS_CANDIDATE_BYTES] = {0};
    assert_int_equal(multiply(&p, 3, foreign, 0, &right), INVALID_VALUE);
    assert_int_equal(multiply(&p, 3, NULL, 0, &right), INVALID_VALUE);
    memcpy(foreign, p.candidates[0], 16);
    memset(foreign + 8, 0xFF, 8); /* a number that was never given */
    assert_int_equal(multiply(&p, 3, foreign, 0, &right), INVALID_VALUE);
    close_product(&p);
}

/* Values that CUDA would accept but HIP has another number for are refused, too. */
static void refused_numbers(void **state) {
    (void)state;
    struct product p;
    void *made;
    open_product(&p, 3);
    const struct {
        int attribute;
        uint32_t value;
        size_t bytes;
    } wrong[] = {{hip->transpose_a, (uint32_t)aorta_blas_cuda.transposed, 4},
                 {hip->transpose_a, (uint32_t)hip->transposed, 2},
                 {hip->epilogue, 32, 4},
                 {hip->bias_pointer, 0, 4},
                 {aorta_blas_cuda.transpose_b, (uint32_t)hip->plain, 4},
                 {aorta_blas_cuda.epilogue, (uint32_t)hip->epilogue_none, 4}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(api.description_set(p.description, wrong[i].attribute, &wrong[i].value, wrong[i].bytes),
                         INVALID_VALUE);
    const uint32_t alignment = 16;
    assert_int_equal(api.preference_set(p.preference, aorta_blas_cuda.alignment_a, &alignment, sizeof alignment),
                     INVALID_VALUE);
    assert_int_equal(api.description_create(&made, aorta_blas_cuda.compute_fp32, 0), INVALID_VALUE);
    assert_int_equal(api.description_create(&made, hip->compute_fp32, 1), INVALID_VALUE);
    assert_int_equal(api.layout_create(&made, 1, 3, 3, 3), INVALID_VALUE);
    close_product(&p);
}

/* Asks and multiplies in shapes of its own; NULL when all was right. */
static void *work(void *user) {
    const uint64_t m = *(const uint64_t *)user;
    struct product p;
    int found;
    bool right = true;
    open_product(&p, m);
    for (int i = 0; i < 100 && right; i++)
        if (ask(&p, 2, &found) || found != 2 || multiply(&p, m, p.candidates[0], WORKSPACE, &right)) right = false;
    close_product(&p);
    return right ? NULL : user;
}

static void threads(void **state) {
    (void)state;
    pthread_t started[4];
    uint64_t rows[] = {4, 5, 6, 7};
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&started[i], NULL, work, &rows[i]), 0);
    for (int i = 0; i < 4; i++) {
        void *wrong;
        pthread_join(started[i], &wrong);
        assert_null(wrong);
    }
}

/* Asking again takes no row of the table; new algorithms do until it is full, and then those given out still work. */
static void full_table(void **state) {
    (void)state;
    enum { ENOUGH = 10000 };
    struct product p, other;
    int found, code = 0;
    bool right;
    open_product(&p, 3);
    for (int i = 0; i < ENOUGH; i++) assert_int_equal(ask(&p, 2, &found), 0);
    for (uint64_t m = 100; m < ENOUGH && !code; m++) {
        open_product(&other, m);
        code = ask(&other, 2, &found);
        close_product(&other);
    }
    assert_int_equal(code, ALLOC_FAILED);
    assert_int_equal(found, 0);
    assert_int_equal(multiply(&p, 3, p.candidates[0], WORKSPACE, &right), 0);
    assert_true(right);
    close_product(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(candidates), cmocka_unit_test(refused_products),
                                       cmocka_unit_test(refused_numbers), cmocka_unit_test(threads),
                                       cmocka_unit_test(full_table)}; /* the last fills the table */
    return cmocka_run_group_tests_name("HIP forwarder: matrix products", tests, open_library, NULL);
}
