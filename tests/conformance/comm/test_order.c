/* Collectives keep their place on the stream: between kernels, across streams, in graphs. And what happens when a rank
 * does not come. */
#include "base/clock.h"
#include "suite.h"

#include "device/gpu.h"
#include "fake_gpu/fake_gpu.h"

#include <unistd.h>

#define COUNT 20000

struct scale_arguments {
    float *buffer;
    size_t count;
    float factor;
};

static aorta_status scale(const void *arguments) {
    const struct scale_arguments *scale = arguments;
    usleep(2000); /* a collective that does not wait would see the old values */
    for (size_t i = 0; i < scale->count; i++) scale->buffer[i] *= scale->factor;
    return NULL;
}

/* On a GPU the same, and late too. */
static const struct aorta_gpu_source source = {
    "scale.cu",
    "struct scale_arguments { float *buffer; unsigned long long count; float factor; };\n"
    "extern \"C\" __global__ void scale(scale_arguments a) {\n"
    "    long long start = clock64();\n"
    "    while (clock64() - start < 4000000) {}\n"
    "    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;\n"
    "    if (i < a.count) a.buffer[i] *= a.factor;\n"
    "}\n",
};
static const struct aorta_gpu_entry scale_entry = {&source, "scale"};

static aorta_status launch_scale(struct aorta_stream *stream, const void *arguments) {
    const struct scale_arguments *scale_arguments = arguments;
    struct aorta_gpu_grid grid = {.blocks = {(uint32_t)(scale_arguments->count / 256 + 1)}, .threads = {256}};
    return aorta_gpu_launch(stream, &scale_entry, grid, arguments, sizeof *scale_arguments);
}

/* Found by name where the GPU is not a real one. */
extern const struct fake_kernel fake_kernel_scale;
const struct fake_kernel fake_kernel_scale = {scale, sizeof(struct scale_arguments)};

static const struct aorta_kernel scale_kernel = {.name = "scale", .cpu = scale, .gpu = launch_scale};

static void queue_scale(struct aorta_stream *stream, float *buffer, float factor) {
    const struct scale_arguments arguments = {buffer, COUNT, factor};
    check_ok(aorta_launch(stream, &scale_kernel, &arguments, sizeof arguments));
}

static double sum_of(const struct suite *suite, size_t index) {
    static const int ranks[] = {0, 1, 2, 3, 4, 5, 6, 7};
    return suite_reduced(ranks, suite->size, index, AORTA_F32, AORTA_SUM);
}

/* ×2, sum, ×4, sum, without the host between. */
static void test_between_kernels(void **state) {
    struct suite *suite = *state;
    float *buffer = suite_buffer(suite, COUNT, AORTA_F32);
    suite_fill(suite, buffer, 0, COUNT, AORTA_F32, suite->rank);
    queue_scale(suite->stream, buffer, 2);
    check_ok(aorta_all_reduce(suite->world, suite->stream, buffer, buffer, COUNT, AORTA_F32, AORTA_SUM));
    queue_scale(suite->stream, buffer, 4);
    check_ok(aorta_all_reduce(suite->world, suite->stream, buffer, buffer, COUNT, AORTA_F32, AORTA_SUM));
    suite_finish(suite, suite->stream);
    for (size_t i = 0; i < COUNT; i++) {
        suite_expect(suite, buffer, i, AORTA_F32, 8 * suite->size * sum_of(suite, i),
                     "kernels and collectives in turn");
    }
    suite_free(suite, buffer);
}

static void test_across_streams(void **state) {
    struct suite *suite = *state;
    float *buffer = suite_buffer(suite, COUNT, AORTA_F32);
    suite_fill(suite, buffer, 0, COUNT, AORTA_F32, suite->rank);
    struct aorta_event *computed, *reduced;
    check_ok(aorta_event_create(suite->device, &computed));
    check_ok(aorta_event_create(suite->device, &reduced));
    queue_scale(suite->stream, buffer, 2);
    check_ok(aorta_event_record(computed, suite->stream));
    check_ok(aorta_stream_wait(suite->other, computed));
    check_ok(aorta_all_reduce(suite->world, suite->other, buffer, buffer, COUNT, AORTA_F32, AORTA_SUM));
    check_ok(aorta_event_record(reduced, suite->other));
    check_ok(aorta_stream_wait(suite->stream, reduced));
    queue_scale(suite->stream, buffer, 4);
    suite_finish(suite, suite->stream);
    for (size_t i = 0; i < COUNT; i++)
        suite_expect(suite, buffer, i, AORTA_F32, 8 * sum_of(suite, i), "across streams");
    aorta_event_destroy(computed);
    aorta_event_destroy(reduced);
    suite_free(suite, buffer);
}

/* One graph with every collective in it, replayed: each replay must communicate anew. */
static void test_graph(void **state) {
    struct suite *suite = *state;
    size_t size = (size_t)suite->size;
    float *own = suite_buffer(suite, COUNT, AORTA_F32), *all = suite_buffer(suite, size * COUNT, AORTA_F32);
    float *sums = suite_buffer(suite, COUNT, AORTA_F32), *swapped = suite_buffer(suite, size * COUNT, AORTA_F32);
    struct aorta_graph *graph;
    if (suite_on_gpu(suite)) check_ok(aorta_gpu_prepare(suite->device, &scale_entry)); /* a capture loads nothing */
    check_ok(aorta_capture_begin(suite->stream));
    queue_scale(suite->stream, own, 2);
    check_ok(suite_all_gather(suite->world, suite->stream, own, all, COUNT, AORTA_F32));
    check_ok(suite_reduce_scatter(suite->world, suite->stream, all, sums, COUNT, AORTA_F32, AORTA_SUM));
    check_ok(suite_all_to_all(suite->world, suite->stream, all, swapped, COUNT, AORTA_F32));
    check_ok(aorta_all_reduce(suite->world, suite->stream, sums, sums, COUNT, AORTA_F32, AORTA_MAX));
    check_ok(aorta_broadcast(suite->world, suite->stream, swapped, COUNT, AORTA_F32, suite->size - 1));
    check_ok(aorta_barrier(suite->world, suite->stream));
    check_ok(aorta_capture_end(suite->stream, &graph));
    suite_fill(suite, own, 0, COUNT, AORTA_F32, suite->rank);
    for (int replay = 1; replay <= 3; replay++) {
        double factor = 1 << replay;
        check_ok(aorta_graph_launch(graph, suite->stream));
        suite_finish(suite, suite->stream);
        for (size_t i = 0; i < COUNT; i++) {
            double largest = suite_value(0, i, AORTA_F32);
            for (int rank = 1; rank < suite->size; rank++) {
                double value = suite_value(rank, i, AORTA_F32);
                largest = value > largest ? value : largest;
            }
            suite_expect(suite, sums, i, AORTA_F32, (double)size * factor * largest, "in a graph: sum and max");
            double last = factor * suite_value(suite->size - 1, i, AORTA_F32);
            suite_expect(suite, swapped, i, AORTA_F32, last, "in a graph: broadcast");
            suite_expect(suite, swapped, (size - 1) * COUNT + i, AORTA_F32,
                         factor * suite_value(suite->rank, i, AORTA_F32), "in a graph: exchange");
        }
    }
    aorta_graph_destroy(graph);
    suite_free(suite, own);
    suite_free(suite, all);
    suite_free(suite, sums);
    suite_free(suite, swapped);
}

/* Nobody leaves the barrier before the last rank, which comes 100 ms late, has entered it. */
static void test_barrier(void **state) {
    struct suite *suite = *state;
    int64_t *times = suite_buffer(suite, 1, AORTA_I64), *host = suite_host(suite, times);
    check_ok(aorta_barrier(suite->world, suite->stream));
    suite_finish(suite, suite->stream);
    if (suite->rank == suite->size - 1) usleep(100000);
    host[0] = aorta_clock_ns();
    int64_t entered_ns = host[0];
    check_ok(aorta_barrier(suite->world, suite->stream));
    suite_finish(suite, suite->stream);
    int64_t left_ns = aorta_clock_ns();
    host[0] = entered_ns;
    suite_push(suite, times);
    check_ok(aorta_all_reduce(suite->world, suite->stream, times, times, 1, AORTA_I64, AORTA_MAX));
    suite_finish(suite, suite->stream);
    assert_true(left_ns >= host[0]); /* one host, one clock */
    suite_free(suite, times);
}

/* Rank 0 enters a collective that the other ranks do not enter: it must not wait longer than its timeout. */
static void test_timeout(void **state) {
    struct suite *suite = *state;
    if (suite->size == 1 || suite_on_gpu(suite)) return; /* nobody to wait for; test_failures.c has it for GPUs */
    struct aorta_comm_options options = suite_options(suite);
    options.timeout_s = 0.3;
    struct aorta_comm *impatient;
    check_ok(aorta_comm_open(&options, &impatient));
    struct aorta_stream *stream;
    check_ok(aorta_stream_create(suite->device, "impatient", AORTA_PRIORITY_NORMAL, &stream));
    float *buffer = suite_buffer(suite, 100, AORTA_F32);
    if (suite->rank == 0) {
        int64_t start_ns = aorta_clock_ns();
        check_ok(aorta_all_reduce(impatient, stream, buffer, buffer, 100, AORTA_F32, AORTA_SUM));
        aorta_status status = aorta_stream_synchronize(stream);
        assert_true(aorta_clock_ns() - start_ns < 5000000000);
        assert_non_null(status);
        assert_non_null(strstr(aorta_status_message(status), "all_reduce #1"));
        assert_non_null(strstr(aorta_status_message(status), "rank 0 waited 0.3 s"));
        check_fails(status, AORTA_TIMEOUT, "distributed.timeout_s");
        check_fails(aorta_stream_synchronize(stream), AORTA_TIMEOUT, "all_reduce"); /* the stream stays failed */
    }
    /* The other ranks come after rank 0 has given up. Their sends and receives meet its abandoned ones. */
    check_ok(aorta_barrier(suite->world, suite->stream));
    suite_finish(suite, suite->stream);
    if (suite->size == 2 && suite->rank == 1) {
        check_ok(aorta_all_reduce(impatient, stream, buffer, buffer, 100, AORTA_F32, AORTA_SUM));
        check_ok(aorta_stream_synchronize(stream));
    }
    check_ok(aorta_barrier(suite->world, suite->stream));
    suite_finish(suite, suite->stream);
    aorta_stream_destroy(stream);
    aorta_comm_close(impatient); /* on rank 0 it has failed: nobody is waited for */
    suite_free(suite, buffer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_between_kernels), cmocka_unit_test(test_across_streams), cmocka_unit_test(test_graph),
        cmocka_unit_test(test_barrier),         cmocka_unit_test(test_timeout),
    };
    return cmocka_run_group_tests(tests, suite_setup, suite_teardown);
}
