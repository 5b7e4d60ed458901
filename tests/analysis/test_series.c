/* A rank over its time, and kernel sequences that repeat. Two streams, times in us; > launches, which take 1.
 *
 *   aten::gelu  [0    4]        [10   14]
 *   aten::mul    [0 2]           [10 12]          both launch the same two kernels; mul is within gelu
 *   launches     >1 >2           >11 >12   >20                  >30
 *   stream 7            20 a 30, 30 b 35   40 a 50, 50 b 55     80 copy 100 (2000 bytes, HtoD)
 *   stream 8                                60 all_reduce 90, 4000 bytes
 *
 * From 20 to 100: two parts of 40. Waiting: a 1..20, b 2..30, a 11..40, b 12..50, all_reduce 20..60, copy 30..80. */
#include "analysis/series.h"
#include "base/files.h"
#include "check.h"
#include "trace/open.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char head[] = "{\"traceEvents\":[\n";
static const char operations[] =
    "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::gelu\",\"pid\":1,\"tid\":1,\"ts\":0,\"dur\":4,\"args\":{}},\n"
    "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::mul\",\"pid\":1,\"tid\":1,\"ts\":0,\"dur\":3,\"args\":{}},\n"
    "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::gelu\",\"pid\":1,\"tid\":1,\"ts\":10,\"dur\":4,\"args\":{}},\n"
    "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::mul\",\"pid\":1,\"tid\":1,\"ts\":10,\"dur\":3,\"args\":{}},\n";

static const struct {
    int launch, stream, start, length;
    const char *category, *name, *facts;
} work[] = {{1, 7, 20, 10, "kernel", "a", ""},
            {2, 7, 30, 5, "kernel", "b", ""},
            {11, 7, 40, 10, "kernel", "a", ""},
            {12, 7, 50, 5, "kernel", "b", ""},
            {20, 8, 60, 30, "kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)",
             ",\"Collective name\":\"allreduce\",\"In msg nelems\":1000,\"Out msg nelems\":1000,\"dtype\":\"Float\","
             "\"Group size\":2"},
            {30, 7, 80, 20, "gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", ",\"bytes\":2000"}};

static void write_trace(struct aorta_text *out, bool launches) {
    aorta_text_puts(out, head);
    if (launches) aorta_text_puts(out, operations);
    for (int i = 0; i < (int)(sizeof work / sizeof *work); i++) {
        if (launches)
            aorta_text_printf(
                out,
                "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":1,\"tid\":1,"
                "\"ts\":%d,\"dur\":1,\"args\":{\"correlation\":%d}},\n",
                work[i].launch, i + 1);
        aorta_text_printf(out,
                          "{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\",\"pid\":0,\"tid\":%d,\"ts\":%d,\"dur\":%d,",
                          work[i].category, work[i].name, work[i].stream, work[i].start, work[i].length);
        aorta_text_printf(out, "\"args\":{\"device\":0,\"stream\":%d,\"correlation\":%d%s}},\n", work[i].stream, i + 1,
                          work[i].facts);
    }
    out->length -= 2; /* the last comma */
    aorta_text_puts(out, "\n]}\n");
}

struct read {
    struct aorta_trace_list list;
    struct aorta_trace_analysis analysis;
};

static void read_text(struct read *read, const char *text, size_t length) {
    char path[] = "/tmp/aorta_series_XXXXXX.json";
    *read = (struct read){0};
    const int file = mkstemps(path, 5);
    assert_true(file >= 0);
    close(file);
    check_ok(aorta_file_replace(path, text, length));
    check_ok(aorta_trace_open(path, NULL, &read->list));
    check_ok(aorta_trace_analyze(&read->list, NULL, &read->analysis));
    unlink(path);
}

static void read_trace(struct read *read, bool launches) {
    struct aorta_text text = {0};
    write_trace(&text, launches);
    read_text(read, text.data, text.length);
    aorta_text_free(&text);
}

static void free_read(struct read *read) {
    aorta_trace_analysis_free(&read->analysis);
    aorta_trace_list_free(&read->list);
}

static void parts_have_queues_delays_and_bytes(void **state) {
    (void)state;
    struct read read;
    struct aorta_arena arena = {0};
    struct aorta_series series;
    read_trace(&read, true);
    aorta_series_make(&read.analysis.ranks[0], 2, &arena, &series);
    assert_int_equal(series.launched, 6);
    const struct aorta_series_part *first = &series.parts[0], *second = &series.parts[1];
    assert_int_equal(first->start_ns, 20000);
    assert_int_equal(second->start_ns, 60000);
    assert_int_equal(second->end_ns, 100000);
    assert_int_equal(first->compute_ns, 30000);
    assert_int_equal(first->idle_ns, 10000);
    assert_int_equal(second->comm_ns, 30000);
    assert_int_equal(second->copy_ns, 20000);
    assert_int_equal(second->idle_ns, 0);
    /* 10 (b) + 20 (a) + 30 (b) + 40 (all_reduce) + 30 (copy) of 40; then 20 of the copy. */
    assert_float_equal(first->queue_mean, 130.0 / 40, 1e-9);
    assert_float_equal(second->queue_mean, 20.0 / 40, 1e-9);
    assert_int_equal(first->queue_most, 4); /* at 20: a starts, b, a, b and all_reduce wait */
    assert_int_equal(second->queue_most, 2);
    assert_int_equal(first->launches, 2);
    assert_int_equal(first->started, 4);
    assert_float_equal(first->delay_ns, (19 + 28 + 29 + 38) * 1000, 1e-6);
    assert_int_equal(second->delay_most_ns, 50000);
    assert_float_equal(second->copied[AORTA_COPIED_TO_DEVICE], 2000, 1e-9);
    assert_float_equal(second->sent, 4000, 1e-9);
    check_ok(aorta_arena_check(&arena, "a test"));
    aorta_arena_free(&arena);
    free_read(&read);
}

/* More parts than work: each part's sums stay those of the whole. */
static void more_parts_say_the_same(void **state) {
    (void)state;
    struct read read;
    struct aorta_arena arena = {0};
    struct aorta_series series;
    double queue = 0, copied = 0;
    int64_t compute_ns = 0;
    read_trace(&read, true);
    aorta_series_make(&read.analysis.ranks[0], 16, &arena, &series);
    for (size_t i = 0; i < series.count; i++) {
        queue += series.parts[i].queue_mean * 5;
        copied += series.parts[i].copied[AORTA_COPIED_TO_DEVICE];
        compute_ns += series.parts[i].compute_ns;
    }
    assert_float_equal(queue, 150, 1e-6);
    assert_float_equal(copied, 2000, 1e-6);
    assert_int_equal(compute_ns, 30000);
    check_ok(aorta_arena_check(&arena, "a test"));
    aorta_arena_free(&arena);
    free_read(&read);
}

static void streams_have_their_own_queues(void **state) {
    (void)state;
    struct read read;
    struct aorta_arena arena = {0};
    struct aorta_series series;
    read_trace(&read, true);
    aorta_series_make(&read.analysis.ranks[0], 1, &arena, &series);
    assert_int_equal(series.stream_count, 2);
    assert_int_equal(read.analysis.ranks[0].trace->streams[series.streams[0].stream].id, 7);
    assert_int_equal(series.streams[0].queue_most, 4); /* from 12 to 20 */
    assert_float_equal(series.streams[0].queue_mean, 110.0 / 80, 1e-9);
    assert_int_equal(series.streams[0].delay.max_ns, 50000);
    assert_int_equal(series.streams[1].queue_most, 1);
    assert_float_equal(series.streams[1].queue_mean, 40.0 / 80, 1e-9);
    check_ok(aorta_arena_check(&arena, "a test"));
    aorta_arena_free(&arena);
    free_read(&read);
}

/* Clocks that differ: work of two streams starts at one moment, before its launches. It has not waited. */
static void work_before_its_launch_is_in_no_queue(void **state) {
    (void)state;
    struct read read;
    struct aorta_arena arena = {0};
    struct aorta_series series;
    struct aorta_text text = {0};
    aorta_text_puts(&text, head);
    for (int i = 1; i <= 2; i++)
        aorta_text_printf(&text,
                          "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":1,\"tid\":1,"
                          "\"ts\":%d,\"dur\":1,\"args\":{\"correlation\":%d}},\n"
                          "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"a\",\"pid\":0,\"tid\":%d,\"ts\":20,\"dur\":10,"
                          "\"args\":{\"device\":0,\"stream\":%d,\"correlation\":%d}}%s\n",
                          20 + i, i, i, i, i, i == 1 ? "," : "]}");
    read_text(&read, text.data, text.length);
    aorta_series_make(&read.analysis.ranks[0], 2, &arena, &series);
    assert_int_equal(series.launched, 2);
    assert_int_equal(series.parts[0].queue_most, 0);
    assert_float_equal(series.parts[0].queue_mean, 0, 1e-9);
    aorta_text_free(&text);
    aorta_arena_free(&arena);
    free_read(&read);
}

static void sequences_count_once_and_for_the_outermost(void **state) {
    (void)state;
    struct read read;
    struct aorta_arena arena = {0};
    struct aorta_sequences sequences;
    read_trace(&read, true);
    const struct aorta_trace *trace = read.analysis.ranks[0].trace;
    aorta_sequences_make(&read.analysis.ranks[0], &arena, &sequences);
    assert_null(sequences.reason);
    assert_int_equal(sequences.count, 1);
    const struct aorta_sequence *row = &sequences.rows[0];
    assert_string_equal(aorta_trace_text(trace, row->operation), "aten::gelu");
    assert_int_equal(row->runs, 2);
    assert_int_equal(row->length, 2);
    assert_string_equal(aorta_trace_text(trace, row->kernels[0]), "a");
    assert_string_equal(aorta_trace_text(trace, row->kernels[1]), "b");
    assert_int_equal(row->ns, 30000);
    assert_int_equal(row->span_ns, 30000);
    check_ok(aorta_arena_check(&arena, "a test"));
    aorta_arena_free(&arena);
    free_read(&read);
}

static void what_is_not_recorded_is_not_known(void **state) {
    (void)state;
    struct read read;
    struct aorta_arena arena = {0};
    struct aorta_series series;
    struct aorta_sequences sequences;
    read_trace(&read, false);
    aorta_series_make(&read.analysis.ranks[0], 2, &arena, &series);
    assert_int_equal(series.launched, 0);
    assert_int_equal(series.parts[0].compute_ns, 30000);
    aorta_sequences_make(&read.analysis.ranks[0], &arena, &sequences);
    assert_non_null(strstr(sequences.reason, "no operations of a framework"));
    check_ok(aorta_arena_check(&arena, "a test"));
    aorta_arena_free(&arena);
    free_read(&read);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_have_queues_delays_and_bytes),
        cmocka_unit_test(more_parts_say_the_same),
        cmocka_unit_test(streams_have_their_own_queues),
        cmocka_unit_test(work_before_its_launch_is_in_no_queue),
        cmocka_unit_test(sequences_count_once_and_for_the_outermost),
        cmocka_unit_test(what_is_not_recorded_is_not_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
