/* Matrix products beside kernels that hold a part of the device: chosen apart from those alone. On the fake GPU of four
 * multiprocessors, with a stand-in for cuBLASLt that is told how long its products take. */
#include "rig.h"

#include "base/clock.h"

#include <time.h>

enum { MS = 1000000, M = 17, N = 33, K = 65 };

static const struct aorta_beside one = {1, {{.threads = 640, .registers = 96, .blocks = 1}}};
static const struct aorta_beside two = {2,
                                        {{.threads = 640, .registers = 96, .cluster = 1, .blocks = 1},
                                         {.threads = 512, .registers = 64, .cluster = 1, .blocks = 1}}};

void fake_blas_pace(int guess, int multiprocessors);

static _Atomic int last_multiprocessors, most_held;

/* A product for the whole device is the fastest, unless others hold a part of it: it then takes a second turn. */
void fake_blas_pace(int guess, int multiprocessors) {
    const int held = rig_fake_gpu()->held();
    last_multiprocessors = multiprocessors;
    if (held > most_held) most_held = held;
    const int64_t work_ns = multiprocessors ? 2 * MS : held ? 5 * MS : MS;
    nanosleep(&(struct timespec){.tv_nsec = work_ns + guess * MS / 2}, NULL);
}

static void multiply(struct rig *rig, int64_t m) {
    static const struct aorta_products shape = {.batch = 1, .n = N, .k = K, .lda = K, .ldb = N, .ldc = N};
    struct aorta_products s = shape;
    s.m = m;
    static float values[M * K + K * N];
    float *a = rig_put_bytes(rig, values, sizeof values), *c = rig_alloc(rig, M * N * sizeof *c);
    check_ok(aorta_products_run(rig->stream, &s, a, a + M * K, c));
    check_ok(aorta_stream_synchronize(rig->stream));
}

struct told {
    const char *part;
    int lines, with_part;
};
static void count(void *user, const char *line) {
    struct told *told = user;
    told->lines++;
    told->with_part += strstr(line, told->part) != NULL;
}
static int count_lines(struct rig *rig, const char *part, int *lines) {
    struct told told = {.part = part};
    check_ok(aorta_ops_tell_products(rig->device, count, &told));
    if (lines) *lines = told.lines;
    return told.with_part;
}

static void choices_are_kept_apart(void **state) {
    struct rig *rig = *state;
    if (!rig_fake_gpu()) skip();
    int before, lines;
    count_lines(rig, "", &before);
    most_held = 0;
    multiply(rig, M);
    assert_int_equal(last_multiprocessors, 0);
    assert_int_equal(most_held, 0);
    check_ok(aorta_ops_beside(rig->stream, &two, 3));
    static const int expected[] = {2, 2, 2,
                                   0}; /* multiprocessors; three products run beside others, then alone again */
    for (int i = 0; i < 4; i++) {
        multiply(rig, M);
        assert_int_equal(last_multiprocessors, expected[i]);
    }
    assert_int_equal(most_held, 2);
    check_ok(aorta_ops_beside(rig->stream, &one, 2));
    multiply(rig, M);
    assert_int_equal(last_multiprocessors, 3);
    check_ok(aorta_ops_beside(rig->stream, &(struct aorta_beside){0}, 2));
    multiply(rig, M);
    assert_int_equal(last_multiprocessors, 0);
    assert_int_equal(count_lines(rig, "product 33 x 17 x 65", &lines), 3);
    assert_int_equal(lines, before + 3);
    assert_int_equal(count_lines(rig, "as 1 node of a graph beside 2 held multiprocessors, launched for 2", NULL), 1);
    assert_int_equal(count_lines(rig, "as 1 node of a graph beside 1 held multiprocessors, launched for 3", NULL), 1);
    assert_int_equal(rig_fake_gpu()->held(), 0);
}

/* Nothing is left of the device, or the kernels are not known: as alone. */
static void hints_that_cannot_be_followed(void **state) {
    struct rig *rig = *state;
    struct aorta_beside all = two, unknown = two;
    all.kernels[0].blocks = 3;
    unknown.kernels[1].threads = 0;
    check_ok(aorta_ops_beside(rig->stream, &two, 0));
    if (!rig_fake_gpu()) { /* a device that has no such thing takes the hint and is as it is */
        check_ok(aorta_ops_beside(rig->stream, &two, 1));
        return;
    }
    const struct aorta_beside *const cases[] = {&all, &unknown};
    for (int i = 0; i < 2; i++) {
        check_ok(aorta_ops_beside(rig->stream, cases[i], 1));
        multiply(rig, M - 1);
        assert_int_equal(last_multiprocessors, 0);
    }
    assert_int_equal(count_lines(rig, "product 33 x 16 x 65", NULL), 1);
    all.count = AORTA_BESIDE_MOST + 1;
    check_fails(aorta_ops_beside(rig->stream, &all, 1), AORTA_INTERNAL, "beside 5 kernels; there can be 4");
}

/* In a capture nothing can be tried: what was chosen for the product alone is taken, or what was chosen beside. */
static void in_a_capture(void **state) {
    struct rig *rig = *state;
    if (!rig_fake_gpu()) skip();
    multiply(rig, M - 2);
    for (int known = 0; known < 2; known++) {
        struct aorta_graph *graph;
        static const struct aorta_products s = {.batch = 1, .m = M - 2, .n = N, .k = K, .lda = K, .ldb = N, .ldc = N};
        float *a = rig_alloc(rig, (M * K + K * N) * sizeof *a), *c = rig_alloc(rig, M * N * sizeof *c);
        check_ok(aorta_ops_beside(rig->stream, &two, 1));
        if (known) multiply(rig, M - 2);
        check_ok(aorta_ops_beside(rig->stream, &two, 1));
        check_ok(aorta_stream_synchronize(rig->stream));
        check_ok(aorta_capture_begin(rig->stream));
        check_ok(aorta_products_run(rig->stream, &s, a, a + M * K, c));
        check_ok(aorta_capture_end(rig->stream, &graph));
        check_ok(aorta_graph_launch(graph, rig->stream));
        check_ok(aorta_stream_synchronize(rig->stream));
        assert_int_equal(last_multiprocessors, known ? 2 : 0);
        aorta_graph_destroy(graph);
    }
    assert_int_equal(count_lines(rig, "product 33 x 15 x 65", NULL), 2);
}

/* The product is chosen as alone then, and made; whoever asks is told why. */
static void others_that_cannot_be_imitated(void **state) {
    struct rig *rig = *state;
    if (!rig_fake_gpu()) skip();
    struct aorta_beside clusters = two;
    clusters.kernels[0].cluster = clusters.kernels[0].blocks = 2;
    clusters.count = 1;
    const int64_t begin = aorta_clock_ns();
    rig_fake_gpu()->strike("cuLaunchKernelEx", 1, 701, 1);
    check_ok(aorta_ops_beside(rig->stream, &clusters, 1));
    multiply(rig, M - 3);
    rig_fake_gpu()->strike(NULL, 0, 0, 0);
    assert_true(aorta_clock_ns() - begin < 20000 * (int64_t)MS);
    assert_int_equal(last_multiprocessors, 0);
    assert_int_equal(count_lines(rig, "product 33 x 14 x 65", NULL), 1);
    assert_int_equal(
        count_lines(rig, "to run beside 2 held multiprocessors, tried alone: stream held room: holding room", NULL), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {rig_test(choices_are_kept_apart), rig_test(hints_that_cannot_be_followed),
                                       rig_test(in_a_capture), rig_test(others_that_cannot_be_imitated)};
    return rig_run_tests("ops: products beside others", tests);
}
