/* Several buffers in one collective: as many calls would leave them, and as one collective in every other respect. */
#include "suite.h"

#include "fake_nccl/fake_nccl.h"

/* Counts of 16 pieces: none, one element, and more than one message; 1.3 million elements for two ranks. */
static const size_t counts[AORTA_COMM_MAX_PIECES] = {70001, 0, 1,    3, 1000,  16, 262144, 5,
                                                     2,     1, 4097, 0, 65536, 7,  1,      300007};
static const enum aorta_dtype all_types[] = {AORTA_F32, AORTA_F16, AORTA_BF16, AORTA_I64, AORTA_I32, AORTA_U8};
#define REDUCED_TYPES 5 /* all of them but uint8 */

static int all_ranks[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/* The place of piece `index`: pieces follow each other, with one unused element after each. */
struct places {
    size_t part, whole; /* in the buffer of one block per piece, in that of a block per rank and piece */
};

static struct places places_of(const struct suite *suite, int index) {
    struct places places = {0, 0};
    for (int i = 0; i < index; i++) {
        places.part += counts[i] + 1;
        places.whole += counts[i] * (size_t)suite->size + 1;
    }
    return places;
}

static void *at(void *buffer, size_t element, enum aorta_dtype dtype) {
    return (char *)buffer + element * aorta_dtype_size(dtype);
}

/* ---- all-gather ---- */

/* Every other piece in place. */
static void gather(struct suite *suite, int piece_count, enum aorta_dtype dtype) {
    struct places end = places_of(suite, piece_count);
    void *part = suite_buffer(suite, end.part, dtype), *whole = suite_buffer(suite, end.whole, dtype);
    struct aorta_comm_piece pieces[AORTA_COMM_MAX_PIECES];
    for (int p = 0; p < piece_count; p++) {
        struct places here = places_of(suite, p);
        size_t own = here.whole + (size_t)suite->rank * counts[p];
        void *send = p % 2 ? at(whole, own, dtype) : at(part, here.part, dtype);
        pieces[p] = (struct aorta_comm_piece){send, at(whole, here.whole, dtype), counts[p]};
        for (size_t i = 0; i < counts[p]; i++)
            suite_write(suite, p % 2 ? whole : part, (p % 2 ? own : here.part) + i, dtype,
                        suite_value(suite->rank, here.part + i, dtype));
    }
    suite_push(suite, part);
    suite_push(suite, whole);
    check_ok(suite_all_gather_pieces(suite->world, suite->stream, pieces, piece_count, dtype));
    memset(pieces, 0, sizeof pieces); /* the call has copied them */
    suite_finish(suite, suite->stream);
    for (int p = 0; p < piece_count; p++) {
        struct places here = places_of(suite, p);
        for (int rank = 0; rank < suite->size; rank++)
            for (size_t i = 0; i < counts[p]; i++)
                suite_expect(suite, whole, here.whole + (size_t)rank * counts[p] + i, dtype,
                             suite_value(rank, here.part + i, dtype), "all_gather of pieces");
        suite_expect(suite, whole, here.whole + (size_t)suite->size * counts[p], dtype, 111, "after a piece");
    }
    suite_free(suite, whole);
    suite_free(suite, part);
}

static void test_all_gather(void **state) {
    struct suite *suite = *state;
    for (int type = 0; type < REDUCED_TYPES + 1; type++) gather(suite, AORTA_COMM_MAX_PIECES, all_types[type]);
    gather(suite, 1, AORTA_F32);
    gather(suite, 5, AORTA_BF16);
}

/* ---- reduce-scatter ---- */

static void scatter(struct suite *suite, int piece_count, enum aorta_dtype dtype, enum aorta_reduction reduction) {
    struct places end = places_of(suite, piece_count);
    void *part = suite_buffer(suite, end.part, dtype), *whole = suite_buffer(suite, end.whole, dtype);
    struct aorta_comm_piece pieces[AORTA_COMM_MAX_PIECES];
    suite_fill(suite, whole, 0, end.whole, dtype, suite->rank);
    for (int p = 0; p < piece_count; p++) {
        struct places here = places_of(suite, p);
        size_t own = here.whole + (size_t)suite->rank * counts[p];
        void *receive = p % 2 ? at(whole, own, dtype) : at(part, here.part, dtype);
        pieces[p] = (struct aorta_comm_piece){at(whole, here.whole, dtype), receive, counts[p]};
    }
    check_ok(suite_reduce_scatter_pieces(suite->world, suite->stream, pieces, piece_count, dtype, reduction));
    memset(pieces, 0, sizeof pieces);
    suite_finish(suite, suite->stream);
    for (int p = 0; p < piece_count; p++) {
        struct places here = places_of(suite, p);
        size_t own = here.whole + (size_t)suite->rank * counts[p];
        for (size_t i = 0; i < counts[p]; i++)
            suite_expect(suite, p % 2 ? whole : part, (p % 2 ? own : here.part) + i, dtype,
                         suite_reduced(all_ranks, suite->size, own + i, dtype, reduction), "reduce_scatter of pieces");
        suite_expect(suite, part, here.part + counts[p], dtype, 111, "after a piece");
        for (size_t i = here.whole; i < here.whole + (size_t)suite->size * counts[p] + 1; i++) {
            if (p % 2 && i >= own && i < own + counts[p]) continue;
            suite_expect(suite, whole, i, dtype, suite_value(suite->rank, i, dtype), "what was sent");
        }
    }
    suite_free(suite, whole);
    suite_free(suite, part);
}

static void test_reduce_scatter(void **state) {
    struct suite *suite = *state;
    for (int type = 0; type < REDUCED_TYPES; type++) scatter(suite, AORTA_COMM_MAX_PIECES, all_types[type], AORTA_SUM);
    scatter(suite, AORTA_COMM_MAX_PIECES, AORTA_F32, AORTA_MAX);
    scatter(suite, 1, AORTA_F32, AORTA_SUM);
    scatter(suite, 5, AORTA_BF16, AORTA_SUM);
}

/* ---- as one collective ---- */

enum { COUNT = 500, THREE = 3 };

/* Three pieces of COUNT elements and of COUNT per rank. */
static void cut(struct suite *suite, float *part, float *whole, bool to_whole, struct aorta_comm_piece pieces[THREE]) {
    for (size_t p = 0; p < THREE; p++) {
        float *one = part + p * COUNT, *all = whole + p * COUNT * (size_t)suite->size;
        pieces[p] = to_whole ? (struct aorta_comm_piece){one, all, COUNT} : (struct aorta_comm_piece){all, one, COUNT};
    }
}

/* Gathered and summed again, every replay multiplies by the number of ranks. */
static void test_graph(void **state) {
    struct suite *suite = *state;
    float *part = suite_buffer(suite, THREE * COUNT, AORTA_F32);
    float *whole = suite_buffer(suite, (size_t)suite->size * THREE * COUNT, AORTA_F32);
    struct aorta_comm_piece pieces[THREE];
    struct aorta_graph *graph;
    check_ok(aorta_capture_begin(suite->stream));
    cut(suite, part, whole, true, pieces);
    check_ok(suite_all_gather_pieces(suite->world, suite->stream, pieces, THREE, AORTA_F32));
    cut(suite, part, whole, false, pieces);
    check_ok(suite_reduce_scatter_pieces(suite->world, suite->stream, pieces, THREE, AORTA_F32, AORTA_SUM));
    memset(pieces, 0, sizeof pieces);
    check_ok(aorta_capture_end(suite->stream, &graph));
    suite_fill(suite, part, 0, THREE * COUNT, AORTA_F32, suite->rank);
    double factor = 1;
    for (int replay = 0; replay < 3; replay++) {
        factor *= suite->size;
        check_ok(aorta_graph_launch(graph, suite->stream));
        suite_finish(suite, suite->stream);
        for (size_t i = 0; i < (size_t)THREE * COUNT; i++)
            suite_expect(suite, part, i, AORTA_F32, factor * suite_value(suite->rank, i, AORTA_F32), "replayed");
    }
    aorta_graph_destroy(graph);
    suite_free(suite, whole);
    suite_free(suite, part);
}

/* NCCL is given a group, which is one kernel. */
static void test_one_kernel(void **state) {
    struct suite *suite = *state;
    const struct fake_nccl_control *fake = suite_fake_nccl();
    if (!fake) {
        skip();
        return; /* skip does not come back, which a checker does not see */
    }
    float *part = suite_buffer(suite, THREE * COUNT, AORTA_F32);
    float *whole = suite_buffer(suite, (size_t)suite->size * THREE * COUNT, AORTA_F32);
    struct aorta_comm_piece pieces[THREE];
    int before = fake->kernels();
    cut(suite, part, whole, true, pieces);
    check_ok(suite_all_gather_pieces(suite->world, suite->stream, pieces, THREE, AORTA_F32));
    assert_int_equal(fake->kernels(), before + 1);
    cut(suite, part, whole, false, pieces);
    check_ok(suite_reduce_scatter_pieces(suite->world, suite->stream, pieces, THREE, AORTA_F32, AORTA_SUM));
    assert_int_equal(fake->kernels(), before + 2);
    for (int p = 0; p < THREE; p++) pieces[p].count = 0;
    check_ok(suite_reduce_scatter_pieces(suite->world, suite->stream, pieces, THREE, AORTA_F32, AORTA_SUM));
    assert_int_equal(fake->kernels(), before + 2);
    suite_finish(suite, suite->stream);
    suite_free(suite, whole);
    suite_free(suite, part);
}

/* Refused before anything is queued, so that the group goes on. */
static void test_bad_pieces(void **state) {
    struct suite *suite = *state;
    struct aorta_comm *world = suite->world;
    struct aorta_stream *stream = suite->stream;
    float part[THREE * COUNT] = {0}, whole[16 * THREE * COUNT] = {0};
    struct aorta_comm_piece pieces[AORTA_COMM_MAX_PIECES + 1] = {0}, bad[THREE];
    assert_true(suite->size <= 16);
    cut(suite, part, whole, true, pieces);
    check_fails(suite_all_gather_pieces(world, stream, pieces, 0, AORTA_F32), AORTA_USAGE,
                "all_gather: 0 pieces, where one call takes 1 to 16");
    check_fails(suite_reduce_scatter_pieces(world, stream, pieces, -1, AORTA_F32, AORTA_SUM), AORTA_USAGE, "-1 pieces");
    check_fails(suite_all_gather_pieces(world, stream, pieces, 17, AORTA_F32), AORTA_USAGE, "17 pieces");
    cut(suite, part, whole, false, bad);
    check_fails(suite_reduce_scatter_pieces(world, stream, bad, THREE, AORTA_U8, AORTA_SUM), AORTA_UNSUPPORTED,
                "uint8");
    cut(suite, part, whole, true, bad);
    bad[1].receive = NULL;
    check_fails(suite_all_gather_pieces(world, stream, bad, THREE, AORTA_F32), AORTA_USAGE,
                "a buffer of 500 elements is NULL");
    cut(suite, part, whole, true, bad);
    bad[2].receive = (float *)bad[1].receive + COUNT - 1;
    check_fails(suite_all_gather_pieces(world, stream, bad, THREE, AORTA_F32), AORTA_USAGE,
                "buffers overlap those of piece 1");
    cut(suite, part, whole, false, bad);
    bad[2].receive = whole;
    check_fails(suite_reduce_scatter_pieces(world, stream, bad, THREE, AORTA_F32, AORTA_SUM), AORTA_USAGE,
                "buffers overlap those of piece 0");
    cut(suite, part, whole, true, bad);
    bad[1].send = (float *)bad[1].receive + COUNT * suite->size - 1;
    check_fails(suite_all_gather_pieces(world, stream, bad, THREE, AORTA_F32), AORTA_USAGE, "not the in-place form");
    cut(suite, part, whole, true, bad);
    bad[1].count = SIZE_MAX / 16 / (size_t)suite->size;
    check_fails(suite_all_gather_pieces(world, stream, bad, THREE, AORTA_F32), AORTA_USAGE, "more than memory");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_gather), cmocka_unit_test(test_reduce_scatter), cmocka_unit_test(test_graph),
        cmocka_unit_test(test_one_kernel), cmocka_unit_test(test_bad_pieces),
    };
    return cmocka_run_group_tests(tests, suite_setup, suite_teardown);
}
