/* The critical path of one rank. Times in us; launches take 2:
 *
 *   host      >10 (a)   >14 (b)        sync [18                          71]   >90 (c)
 *   stream 7       20 a ============== 50 b ========== 70                           100 c ===== 130
 *
 * c begins late because its launch does: the host took from 71 to 90 after the wait for b, which ran behind a. */
#include "analysis/series.h"
#include "check.h"
#include "replay/critical_path.h"
#include "samples/dump.h"

#include <stdlib.h>
#include <string.h>

static void event(struct aorta_text *out, const char *category, const char *name, int start, int length, int number) {
    aorta_text_printf(out, "{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\",\"pid\":1,\"tid\":1,\"ts\":%d,\"dur\":%d,",
                      category, name, start, length);
    aorta_text_printf(out, "\"args\":{\"device\":0,\"stream\":7,\"correlation\":%d}},\n", number);
}

struct read {
    struct aorta_trace_list list;
    struct aorta_trace_analysis analysis;
};

/* `sync`: how long the wait lasts. */
static void read_rank(struct read *read, int sync) {
    struct aorta_text text = {0};
    *read = (struct read){0};
    aorta_text_puts(&text, "{\"traceEvents\":[\n");
    event(&text, "cuda_runtime", "cudaLaunchKernel", 10, 2, 1);
    event(&text, "cuda_runtime", "cudaLaunchKernel", 14, 2, 2);
    event(&text, "cuda_runtime", "cudaDeviceSynchronize", 18, sync, 3);
    event(&text, "cuda_runtime", "cudaLaunchKernel", 90, 2, 4);
    event(&text, "kernel", "a", 20, 30, 1);
    event(&text, "kernel", "b", 50, 20, 2);
    event(&text, "kernel", "c", 100, 30, 4);
    text.length -= 2; /* the last comma */
    aorta_text_puts(&text, "\n]}\n");
    check_ok(read_memory(text.data, text.length, 0, false, &read->list));
    check_ok(aorta_trace_analyze(&read->list, NULL, &read->analysis));
    aorta_text_free(&text);
}

static void end(struct read *read) {
    aorta_trace_analysis_free(&read->analysis);
    aorta_trace_list_free(&read->list);
}

static int64_t length_of(const struct aorta_path_rows *rows, enum aorta_path_kind kind, const char *name) {
    for (size_t i = 0; i < rows->count; i++)
        if (rows->rows[i].kind == kind && (!name || !strcmp(rows->rows[i].name, name))) return rows->rows[i].ns;
    return 0;
}

static void what_decides_is_on_the_path(void **state) {
    (void)state;
    struct read read;
    struct aorta_critical_path path;
    struct aorta_arena arena = {0};
    struct aorta_path_rows rows;
    read_rank(&read, 53);
    check_ok(aorta_critical_path_make(&read.analysis, &path));
    assert_null(path.reason);
    for (size_t i = 1; i < path.count; i++) assert_int_equal(path.pieces[i].start_ns, path.pieces[i - 1].end_ns);
    assert_int_equal(path.pieces[path.count - 1].end_ns, 130000);
    aorta_path_rows_make(&path, UINT32_MAX, &arena, &rows);
    assert_int_equal(rows.total_ns, 130000 - path.pieces[0].start_ns);
    assert_int_equal(length_of(&rows, AORTA_PATH_KERNEL, "c"), 30000);
    assert_int_equal(length_of(&rows, AORTA_PATH_KERNEL, "b"), 20000);
    assert_int_equal(length_of(&rows, AORTA_PATH_KERNEL, "a"), 30000);
    assert_int_equal(length_of(&rows, AORTA_PATH_LAUNCH, "c") + length_of(&rows, AORTA_PATH_UNEXPLAINED, "c"), 10000);
    assert_int_equal(length_of(&rows, AORTA_PATH_HOST, NULL), 19000);
    assert_int_equal(length_of(&rows, AORTA_PATH_RETURN, "cudaDeviceSynchronize"), 1000);
    aorta_path_rows_make(&path, 7, &arena, &rows); /* a rank that has no part in it */
    assert_int_equal(rows.count, 0);
    check_ok(aorta_arena_check(&arena, "a test"));
    aorta_arena_free(&arena);
    aorta_critical_path_free(&path);
    end(&read);
}

/* By its clock the wait returns 1 us before b ends: pieces still follow each other. */
static void clocks_that_differ_leave_no_overlap(void **state) {
    (void)state;
    struct read read;
    struct aorta_critical_path path;
    struct aorta_arena arena = {0};
    struct aorta_path_rows rows;
    read_rank(&read, 51);
    check_ok(aorta_critical_path_make(&read.analysis, &path));
    for (size_t i = 1; i < path.count; i++) assert_int_equal(path.pieces[i].start_ns, path.pieces[i - 1].end_ns);
    aorta_path_rows_make(&path, UINT32_MAX, &arena, &rows);
    assert_int_equal(rows.total_ns, 130000 - path.pieces[0].start_ns);
    check_ok(aorta_arena_check(&arena, "a test"));
    aorta_arena_free(&arena);
    aorta_critical_path_free(&path);
    end(&read);
}

static double value_at(const struct aorta_counters *counters, enum aorta_counter_kind kind, int64_t at_ns) {
    double value = 0;
    for (size_t i = 0; i < counters->of[kind].count; i++)
        if (counters->of[kind].points[i].at_ns <= at_ns) value = counters->of[kind].points[i].value;
    return value;
}

static void counters_change_when_something_does(void **state) {
    (void)state;
    struct read read;
    struct aorta_arena arena = {0};
    struct aorta_counters counters;
    static const struct {
        int us, waiting;
    } queue[] = {{9, 0}, {10, 1}, {14, 2}, {20, 1}, {49, 1}, {50, 0}, {90, 1}, {100, 0}};
    read_rank(&read, 53);
    aorta_counters_make(&read.analysis.ranks[0], &arena, &counters);
    for (size_t i = 0; i < sizeof queue / sizeof *queue; i++)
        assert_float_equal(value_at(&counters, AORTA_COUNTER_QUEUE, 1000 * queue[i].us), queue[i].waiting, 1e-9);
    assert_int_equal(counters.of[AORTA_COUNTER_OVERLAP].count, 0); /* no collective */
    assert_int_equal(counters.of[AORTA_COUNTER_MEMORY].count, 0);
    check_ok(aorta_arena_check(&arena, "a test"));
    aorta_arena_free(&arena);
    end(&read);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_decides_is_on_the_path),
        cmocka_unit_test(clocks_that_differ_leave_no_overlap),
        cmocka_unit_test(counters_change_when_something_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
