/* Every collective, type and size: what arrives, and that nothing else is touched. */
#include "suite.h"

#include <math.h>
#include <stdlib.h>

static const size_t counts[] = {0, 1, 3, 1000, 70001};
#define LARGE 1000003 /* several messages and pieces, and no multiple of anything */
static const enum aorta_dtype all_types[] = {AORTA_F32, AORTA_F16, AORTA_BF16, AORTA_I64, AORTA_I32, AORTA_U8};
#define REDUCED_TYPES 5 /* all of them but uint8 */

enum { RANKS = 64 };
static int all_ranks[RANKS];

typedef void body_function(struct suite *suite, size_t count, enum aorta_dtype dtype, bool in_place);

static void over_sizes(struct suite *suite, body_function *body, int types) {
    for (int i = 0; i < RANKS; i++) all_ranks[i] = i;
    for (int type = 0; type < types; type++) {
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            body(suite, counts[i], all_types[type], false);
            body(suite, counts[i], all_types[type], true);
        }
    }
    body(suite, LARGE, AORTA_F32, false);
    body(suite, LARGE, AORTA_BF16, true);
}

static void reduce(struct suite *suite, size_t count, enum aorta_dtype dtype, bool in_place,
                   enum aorta_reduction reduction) {
    void *send = suite_buffer(suite, count, dtype);
    void *receive = in_place ? send : suite_buffer(suite, count, dtype);
    suite_fill(suite, send, 0, count, dtype, suite->rank);
    check_ok(aorta_all_reduce(suite->world, suite->stream, send, receive, count, dtype, reduction));
    suite_finish(suite, suite->stream);
    for (size_t i = 0; i < count; i++) {
        suite_expect(suite, receive, i, dtype, suite_reduced(all_ranks, suite->size, i, dtype, reduction),
                     "all_reduce");
        if (!in_place)
            suite_expect(suite, send, i, dtype, suite_value(suite->rank, i, dtype), "all_reduce's send buffer");
    }
    suite_expect(suite, receive, count, dtype, 111, "all_reduce, after the end");
    if (!in_place) suite_free(suite, receive);
    suite_free(suite, send);
}

static void all_reduce(struct suite *suite, size_t count, enum aorta_dtype dtype, bool in_place) {
    reduce(suite, count, dtype, in_place, AORTA_SUM);
    if (count < LARGE) reduce(suite, count, dtype, in_place, AORTA_MAX);
}

/* Each rank sends suite_value(rank, b × count + i) to block b. */
static void scatter(struct suite *suite, size_t count, enum aorta_dtype dtype, bool in_place,
                    enum aorta_reduction reduction) {
    size_t size = (size_t)suite->size, own = (size_t)suite->rank * count;
    void *send = suite_buffer(suite, size * count, dtype);
    void *apart = in_place ? NULL : suite_buffer(suite, count, dtype);
    void *receive = in_place ? (char *)send + own * aorta_dtype_size(dtype) : apart;
    suite_fill(suite, send, 0, size * count, dtype, suite->rank);
    check_ok(suite_reduce_scatter(suite->world, suite->stream, send, receive, count, dtype, reduction));
    suite_finish(suite, suite->stream);
    for (size_t i = 0; i < count; i++) {
        suite_expect(suite, receive, i, dtype, suite_reduced(all_ranks, suite->size, own + i, dtype, reduction),
                     "reduce_scatter");
    }
    for (size_t i = 0; i < size * count; i++) {
        if (in_place && i >= own && i < own + count) continue;
        suite_expect(suite, send, i, dtype, suite_value(suite->rank, i, dtype), "reduce_scatter's send buffer");
    }
    if (apart) suite_expect(suite, apart, count, dtype, 111, "reduce_scatter, after the end");
    suite_free(suite, apart);
    suite_free(suite, send);
}

static void reduce_scatter(struct suite *suite, size_t count, enum aorta_dtype dtype, bool in_place) {
    scatter(suite, count, dtype, in_place, AORTA_SUM);
    if (count < LARGE) scatter(suite, count, dtype, in_place, AORTA_MAX);
}

static void all_gather(struct suite *suite, size_t count, enum aorta_dtype dtype, bool in_place) {
    size_t size = (size_t)suite->size;
    void *receive = suite_buffer(suite, size * count, dtype);
    void *apart = in_place ? NULL : suite_buffer(suite, count, dtype);
    void *send = in_place ? (char *)receive + (size_t)suite->rank * count * aorta_dtype_size(dtype) : apart;
    suite_fill(suite, send, 0, count, dtype, suite->rank);
    check_ok(suite_all_gather(suite->world, suite->stream, send, receive, count, dtype));
    suite_finish(suite, suite->stream);
    for (size_t block = 0; block < size; block++)
        for (size_t i = 0; i < count; i++)
            suite_expect(suite, receive, block * count + i, dtype, suite_value((int)block, i, dtype), "all_gather");
    suite_expect(suite, receive, size * count, dtype, 111, "all_gather, after the end");
    suite_free(suite, apart);
    suite_free(suite, receive);
}

static void broadcast(struct suite *suite, size_t count, enum aorta_dtype dtype, bool in_place) {
    if (in_place) return; /* it always is */
    void *buffer = suite_buffer(suite, count, dtype);
    for (int root = 0; root < suite->size; root++) {
        suite_fill(suite, buffer, 0, count, dtype, suite->rank);
        check_ok(aorta_broadcast(suite->world, suite->stream, buffer, count, dtype, root));
        suite_finish(suite, suite->stream);
        for (size_t i = 0; i < count; i++)
            suite_expect(suite, buffer, i, dtype, suite_value(root, i, dtype), "broadcast");
        suite_expect(suite, buffer, count, dtype, 111, "broadcast, after the end");
    }
    suite_free(suite, buffer);
}

static void all_to_all(struct suite *suite, size_t count, enum aorta_dtype dtype, bool in_place) {
    if (in_place) return; /* it has no such form */
    size_t size = (size_t)suite->size, own = (size_t)suite->rank * count;
    void *send = suite_buffer(suite, size * count, dtype), *receive = suite_buffer(suite, size * count, dtype);
    suite_fill(suite, send, 0, size * count, dtype, suite->rank);
    check_ok(suite_all_to_all(suite->world, suite->stream, send, receive, count, dtype));
    suite_finish(suite, suite->stream);
    for (size_t block = 0; block < size; block++) {
        for (size_t i = 0; i < count; i++) {
            suite_expect(suite, receive, block * count + i, dtype, suite_value((int)block, own + i, dtype),
                         "all_to_all");
        }
    }
    suite_expect(suite, receive, size * count, dtype, 111, "all_to_all, after the end");
    suite_free(suite, receive);
    suite_free(suite, send);
}

/* Elements that one rank sends another: some pairs exchange nothing. */
static size_t part_of(size_t count, int from, int to) {
    return (from + 2 * to) % 3 == 1 ? 0 : count * (size_t)(1 + from) + (size_t)to;
}

static void all_to_all_parts(struct suite *suite, size_t count, enum aorta_dtype dtype, bool in_place) {
    if (in_place) return; /* it has no such form */
    size_t out[RANKS], in[RANKS], sent = 0, received = 0, at = 0;
    for (int i = 0; i < suite->size; i++) {
        out[i] = part_of(count, suite->rank, i), in[i] = part_of(count, i, suite->rank);
        sent += out[i], received += in[i];
    }
    void *send = suite_buffer(suite, sent, dtype), *receive = suite_buffer(suite, received, dtype);
    suite_fill(suite, send, 0, sent, dtype, suite->rank);
    check_ok(suite_all_to_all_parts(suite->world, suite->stream, send, out, receive, in, dtype));
    suite_finish(suite, suite->stream);
    for (int from = 0; from < suite->size; from++) {
        size_t before = 0;
        for (int to = 0; to < suite->rank; to++) before += part_of(count, from, to);
        for (size_t i = 0; i < in[from]; i++)
            suite_expect(suite, receive, at + i, dtype, suite_value(from, before + i, dtype), "parts");
        at += in[from];
    }
    suite_expect(suite, receive, received, dtype, 111, "parts, after the end");
    suite_free(suite, receive);
    suite_free(suite, send);
}

static void test_all_reduce(void **state) {
    over_sizes(*state, all_reduce, REDUCED_TYPES);
}

static void test_reduce_scatter(void **state) {
    over_sizes(*state, reduce_scatter, REDUCED_TYPES);
}

static void test_all_gather(void **state) {
    over_sizes(*state, all_gather, REDUCED_TYPES + 1);
}

static void test_broadcast(void **state) {
    over_sizes(*state, broadcast, REDUCED_TYPES + 1);
}

static void test_all_to_all(void **state) {
    over_sizes(*state, all_to_all, REDUCED_TYPES + 1);
}

static void test_all_to_all_parts(void **state) {
    over_sizes(*state, all_to_all_parts, REDUCED_TYPES + 1);
}

static void test_parts_refused(void **state) {
    struct suite *suite = *state;
    size_t out[RANKS] = {0}, in[RANKS] = {0};
    void *buffer = suite_buffer(suite, 8, AORTA_F32);
    out[suite->rank] = 2, in[suite->rank] = 3;
    check_fails(suite_all_to_all_parts(suite->world, suite->stream, buffer, out, (float *)buffer + 4, in, AORTA_F32),
                AORTA_USAGE, "sends itself 2 elements and expects 3");
    in[suite->rank] = 2;
    check_fails(suite_all_to_all_parts(suite->world, suite->stream, buffer, out, (float *)buffer + 1, in, AORTA_F32),
                AORTA_USAGE, "overlap");
    check_fails(suite_all_to_all_parts(suite->world, suite->stream, NULL, out, buffer, in, AORTA_F32), AORTA_USAGE,
                "a buffer of 2 elements is NULL");
    suite_free(suite, buffer);
}

/* comm.h promises an order of sums on host memory; a GPU's library has its own order and rounding. */
static bool sums_in_order(const struct suite *suite) {
    return strcmp(aorta_comm_backend(suite->world), "nccl") != 0;
}

/* One large number and small ones: rounding after every addition would lose each small one. */
static void rounding(struct suite *suite, enum aorta_dtype dtype, double large, size_t count) {
    static const double sums[] = {256, 256, 258, 260}; /* of 256, 1, 1, 1 to even multiples of 2 */
    if (suite->size > 4) return;
    void *buffer = suite_buffer(suite, count, dtype);
    for (size_t i = 0; i < count; i++) suite_write(suite, buffer, i, dtype, suite->rank == 0 ? large : large / 256);
    suite_push(suite, buffer);
    check_ok(aorta_all_reduce(suite->world, suite->stream, buffer, buffer, count, dtype, AORTA_SUM));
    suite_finish(suite, suite->stream);
    for (size_t i = 0; i < count; i++)
        suite_expect(suite, buffer, i, dtype, sums[suite->size - 1] * (large / 256), "sum rounded once");
    suite_free(suite, buffer);
}

static void test_rounds_once(void **state) {
    if (!sums_in_order(*state)) skip();
    rounding(*state, AORTA_BF16, 256, 5);
    rounding(*state, AORTA_BF16, 256, 20000); /* beyond the size that is shared whole */
}

/* fp16 has 11 significant bits: 2048 + 1 is the tie. */
static void test_rounds_once_fp16(void **state) {
    static const double sums[] = {2048, 2048, 2050, 2052};
    struct suite *suite = *state;
    if (!sums_in_order(suite)) skip();
    if (suite->size > 4) return;
    void *buffer = suite_buffer(suite, 20000, AORTA_F16);
    for (size_t i = 0; i < 20000; i++) suite_write(suite, buffer, i, AORTA_F16, suite->rank == 0 ? 2048 : 1);
    suite_push(suite, buffer);
    check_ok(aorta_all_reduce(suite->world, suite->stream, buffer, buffer, 20000, AORTA_F16, AORTA_SUM));
    suite_finish(suite, suite->stream);
    for (size_t i = 0; i < 20000; i++) suite_expect(suite, buffer, i, AORTA_F16, sums[suite->size - 1], "fp16 sum");
    suite_free(suite, buffer);
}

static float awkward(int rank, size_t index) {
    return sinf((float)index * 0.37f + (float)rank) * expf((float)((index + (size_t)rank * 5) % 17));
}

/* In any order, a sum of n numbers is off by at most n roundings of the sum of their magnitudes. */
static void expect_near(const float *host, int ranks, size_t index) {
    double sum = 0, magnitude = 0;
    for (int rank = 0; rank < ranks; rank++) {
        sum += (double)awkward(rank, index);
        magnitude += fabs((double)awkward(rank, index));
    }
    if (fabs((double)host[index] - sum) <= ranks * magnitude * 0x1p-24) return;
    fail_msg("sum of element %zu is %.9g, expected %.9g", index, (double)host[index], sum);
}

/* fp32 sums are those of the ranks in order, to the last bit, small or large. */
static void test_order_of_sums(void **state) {
    struct suite *suite = *state;
    static const size_t sizes[] = {7, 100003};
    for (size_t s = 0; s < 2; s++) {
        size_t count = sizes[s];
        float *buffer = suite_buffer(suite, count, AORTA_F32);
        float *host = suite_host(suite, buffer);
        for (size_t i = 0; i < count; i++) host[i] = awkward(suite->rank, i);
        suite_push(suite, buffer);
        check_ok(aorta_all_reduce(suite->world, suite->stream, buffer, buffer, count, AORTA_F32, AORTA_SUM));
        suite_finish(suite, suite->stream);
        for (size_t i = 0; i < count; i++) {
            float sum = awkward(0, i);
            for (int rank = 1; rank < suite->size; rank++) sum += awkward(rank, i);
            if (sums_in_order(suite))
                suite_expect(suite, buffer, i, AORTA_F32, (double)sum, "sum in the order of the ranks");
            else
                expect_near(host, suite->size, i);
        }
        suite_free(suite, buffer);
    }
}

static void test_nan_reaches_everybody(void **state) {
    struct suite *suite = *state;
    for (int reduction = AORTA_SUM; reduction <= AORTA_MAX; reduction++) {
        for (int type = 0; type < 3; type++) {
            void *buffer = suite_buffer(suite, 2, all_types[type]);
            suite_write(suite, buffer, 0, all_types[type], suite->rank == suite->size - 1 ? NAN : 3);
            suite_write(suite, buffer, 1, all_types[type], suite->rank == 0 ? INFINITY : 3);
            suite_push(suite, buffer);
            check_ok(aorta_all_reduce(suite->world, suite->stream, buffer, buffer, 2, all_types[type],
                                      (enum aorta_reduction)reduction));
            suite_finish(suite, suite->stream);
            if (reduction == AORTA_SUM || sums_in_order(suite))
                suite_expect(suite, buffer, 0, all_types[type], NAN, "NaN");
            suite_expect(suite, buffer, 1, all_types[type], INFINITY, "infinity");
            suite_free(suite, buffer);
        }
    }
}

static void test_integers_wrap(void **state) {
    struct suite *suite = *state;
    int32_t *buffer = suite_buffer(suite, 1, AORTA_I32), *host = suite_host(suite, buffer);
    host[0] = suite->rank == 0 ? INT32_MAX : 1;
    suite_push(suite, buffer);
    check_ok(aorta_all_reduce(suite->world, suite->stream, buffer, buffer, 1, AORTA_I32, AORTA_SUM));
    suite_finish(suite, suite->stream);
    assert_int_equal((uint32_t)host[0], (uint32_t)INT32_MAX + (uint32_t)(suite->size - 1));
    suite_free(suite, buffer);
}

static void test_names(void **state) {
    struct suite *suite = *state;
    const char *wanted = suite_options(suite).backend;
    bool nccl = suite_on_gpu(suite) && (suite->size > 1 || !strcmp(wanted, "nccl"));
    const char *expected = nccl ? "nccl" : suite->size > 1 ? "mpi" : "local";
    assert_string_equal(aorta_comm_backend(suite->world), expected);
    assert_int_equal(aorta_comm_simulated(suite->world), suite->size == 1 || !strcmp(expected, "local"));
    assert_null(aorta_comm_note(suite->world));
}

/* Host memory's backend on a GPU is refused; a GPU's on the CPU means the host's, as configurations written for GPUs
 * are tried on a laptop first. */
static void test_wrong_backend(void **state) {
    struct suite *suite = *state;
    struct aorta_comm *comm;
    struct aorta_comm_options options = suite_options(suite);
    options.backend = suite_on_gpu(suite) ? "mpi" : "nccl";
    if (suite_on_gpu(suite) && suite->size == 1) return; /* one rank needs no backend: local, with a note */
    if (suite_on_gpu(suite)) {
        check_fails(aorta_comm_open(&options, &comm), AORTA_CONFIG, "mpi serves host memory");
        assert_null(comm);
        return;
    }
    check_ok(aorta_comm_open(&options, &comm));
    assert_string_equal(aorta_comm_backend(comm), suite->size > 1 ? "mpi" : "local");
    assert_non_null(aorta_comm_note(comm));
    aorta_comm_close(comm);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_reduce),
        cmocka_unit_test(test_reduce_scatter),
        cmocka_unit_test(test_all_gather),
        cmocka_unit_test(test_broadcast),
        cmocka_unit_test(test_all_to_all),
        cmocka_unit_test(test_all_to_all_parts),
        cmocka_unit_test(test_parts_refused),
        cmocka_unit_test(test_rounds_once),
        cmocka_unit_test(test_rounds_once_fp16),
        cmocka_unit_test(test_order_of_sums),
        cmocka_unit_test(test_nan_reaches_everybody),
        cmocka_unit_test(test_integers_wrap),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_wrong_backend),
    };
    return cmocka_run_group_tests(tests, suite_setup, suite_teardown);
}
