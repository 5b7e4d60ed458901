/* Memory runs out at each allocation of an analysis in turn: each time the phase reports AORTA_MEMORY once, nothing is
 * read that is not there, and nothing leaks (the address sanitizer counts). The linker redirects the allocation
 * functions to this file. */
#include "analysis/analysis.h"
#include "check.h"
#include "report/page_recordings.h"
#include "trace/infer.h"
#include "trace/open.h"
#include "verdict/verdict.h"

#include <limits.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* Allocations that succeed yet; the next one fails, and with `lasting` all that follow. */
static atomic_long left = LONG_MAX;
static atomic_bool lasting;

static bool fails_now(void) {
    const long before = atomic_fetch_sub(&left, 1);
    return before == 0 || (before < 0 && lasting);
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);

void *__wrap_malloc(size_t bytes) {
    return fails_now() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes) {
    return fails_now() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *memory, size_t bytes) {
    return fails_now() ? NULL : __real_realloc(memory, bytes);
}

/* From the trace to the verdict. */
static aorta_status analyze(const struct aorta_trace_list *list, struct aorta_text *words) {
    struct aorta_trace_analysis analysis;
    struct aorta_verdict own;
    AORTA_TRY(aorta_trace_analyze(list, NULL, &analysis));
    aorta_status status = aorta_verdict_make(&analysis, &own);
    if (!status) {
        struct aorta_json json;
        aorta_json_begin(&json, words, 0);
        aorta_json_object(&json);
        aorta_verdict_json(&own, &json);
        aorta_json_object_end(&json);
        status = aorta_text_check(words);
        aorta_verdict_free(&own);
    }
    aorta_trace_analysis_free(&analysis);
    return status;
}

static struct aorta_trace_analysis analyzed, compared; /* a verdict takes what a comparison needs */
static struct aorta_verdict verdict;

/* The page of the recording, with all tables of its work, and the recording compared with itself. */
static aorta_status print(const struct aorta_trace_list *list, struct aorta_text *words) {
    const struct aorta_page_recording recording = {
        .label = "recording", .report = {.analysis = &analyzed, .verdict = &verdict, .by = (1u << AORTA_BY_COUNT) - 1}};
    const struct aorta_page_recordings page = {.title = "page", .items = &recording, .count = 1};
    const struct aorta_trace_compare_input inputs[] = {{.path = "a", .label = "a", .analysis = &compared},
                                                       {.path = "b", .label = "b", .analysis = &compared}};
    const struct aorta_differences differences[2] = {0};
    struct aorta_trace_comparison comparison;
    struct aorta_json json;
    (void)list;
    aorta_json_begin(&json, words, 0);
    aorta_page_recordings_json(&page, &json);
    AORTA_TRY(aorta_trace_compare(inputs, 2, &comparison));
    aorta_trace_comparison_json(&comparison, differences, NAN, words);
    aorta_trace_comparison_free(&comparison);
    return aorta_text_check(words);
}

/* Makes the output of recordings. */
typedef aorta_status made(const struct aorta_trace_list *list, struct aorta_text *words);

/* Returns how many allocations there are. Where a failure changes nothing (a thread that cannot begin) the words are
 * the same. */
static long fail_each(const struct aorta_trace_list *list, made *make, const char *expected, bool all_after,
                      long stride) {
    long at = 0;
    for (bool failed = true; failed; at += stride) {
        struct aorta_text words = {0};
        lasting = all_after;
        left = at;
        aorta_status status = make(list, &words);
        failed = left < 0;
        left = LONG_MAX;
        if (status)
            assert_int_equal(aorta_status_code(status), AORTA_MEMORY);
        else
            assert_string_equal(words.data, expected);
        assert_true(status || !failed || !all_after);
        aorta_status_free(status);
        aorta_text_free(&words);
    }
    return at;
}

static void exhaust(const char *const *paths, size_t count, long stride) {
    struct aorta_trace_list list = {0};
    struct aorta_text expected = {0};
    const struct aorta_trace_options options = {0};
    check_ok(aorta_trace_open_many(paths, count, &options, &list));
    check_ok(analyze(&list, &expected));
    assert_true(fail_each(&list, analyze, expected.data, false, stride) > 300);
    assert_true(fail_each(&list, analyze, expected.data, true, stride) > 300);
    aorta_text_free(&expected);
    aorta_trace_list_free(&list);
}

static void of_tables_pages_and_comparisons(void **state) {
    (void)state;
    static const char *const paths[] = {RECORDED "/whole/fsdp2_rank0.json.gz", RECORDED "/whole/fsdp2_rank1.json.gz"};
    struct aorta_trace_list list = {0};
    struct aorta_text expected = {0};
    const struct aorta_trace_options options = {.functions = true};
    check_ok(aorta_trace_open_many(paths, 2, &options, &list));
    check_ok(aorta_trace_analyze(&list, NULL, &analyzed));
    check_ok(aorta_trace_analyze(&list, NULL, &compared));
    check_ok(aorta_verdict_make(&analyzed, &verdict));
    check_ok(print(&list, &expected));
    assert_true(fail_each(&list, print, expected.data, false, 13) > 300);
    assert_true(fail_each(&list, print, expected.data, true, 29) > 300);
    aorta_text_free(&expected);
    aorta_verdict_free(&verdict);
    aorta_trace_analysis_free(&analyzed);
    aorta_trace_analysis_free(&compared);
    aorta_trace_list_free(&list);
}

static void of_two_ranks(void **state) {
    (void)state;
    static const char *const paths[] = {RECORDED "/whole/fsdp2_rank0.json.gz", RECORDED "/whole/fsdp2_rank1.json.gz"};
    exhaust(paths, 2, 17);
}

static void of_operations_with_shapes(void **state) {
    (void)state;
    static const char *const paths[] = {RECORDED "/whole/mi300_resnet.json.gz"};
    exhaust(paths, 1, 31);
}

/* A reader that has no memory for a part of an event fails as a whole: no collective loses its group. */
static void while_a_file_is_read(void **state) {
    (void)state;
    static const char *const path = "exhaustion.json";
    struct aorta_text text = {0}, expected = {0};
    struct aorta_trace_list whole = {0};
    aorta_text_puts(&text, "{\"distributedInfo\": {\"rank\": 0, \"world_size\": 2}, \"traceEvents\": [{}");
    for (int i = 0; i < 40; i++)
        aorta_text_printf(&text,
                          ",{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclDevKernel_AllReduce_Sum_f32_RING_LL\","
                          "\"pid\":0,\"tid\":7,\"ts\":%d,\"dur\":50,\"args\":{\"device\":0,\"stream\":7,"
                          "\"Collective name\":\"allreduce\",\"In msg nelems\":%d,\"Group size\":2,"
                          "\"Process Group Name\":\"%d\",\"Process Group Ranks\":\"[0, 1]\"}}",
                          100 * i, 1000 + i, i % 3);
    aorta_text_puts(&text, "]}");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text.data, 1, text.length, file), text.length);
    assert_int_equal(fclose(file), 0);
    check_ok(aorta_trace_open(path, NULL, &whole));
    check_ok(analyze(&whole, &expected));
    long at = 0;
    for (bool failed = true; failed; at++) {
        struct aorta_trace_list list = {0};
        struct aorta_text words = {0};
        lasting = false;
        left = at;
        aorta_status status = aorta_trace_open(path, NULL, &list);
        failed = left < 0;
        left = LONG_MAX;
        if (status)
            assert_int_equal(aorta_status_code(status), AORTA_MEMORY);
        else {
            check_ok(analyze(&list, &words));
            assert_string_equal(words.data, expected.data);
            assert_int_equal(list.items[0]->group_count, whole.items[0]->group_count);
        }
        aorta_status_free(status);
        aorta_text_free(&words);
        aorta_trace_list_free(&list);
    }
    assert_true(at > 100);
    assert_int_equal(remove(path), 0);
    aorta_text_free(&text);
    aorta_text_free(&expected);
    aorta_trace_list_free(&whole);
}

/* Marks, repetition and requests of a whole file give its steps, or it is not read. Returns how often memory ran out.
 */
static long count_failures_while_steps_are_found(const char *path) {
    const struct aorta_trace_options options = {0};
    struct aorta_trace_list whole = {0};
    struct aorta_text expected = {0};
    check_ok(aorta_trace_open_inputs(&path, 1, &options, &whole));
    check_ok(aorta_trace_infer_steps(&whole));
    check_ok(analyze(&whole, &expected));
    long at = 0;
    for (bool failed = true; failed; at++) {
        struct aorta_trace_list list = {0};
        struct aorta_text words = {0};
        lasting = at % 2;
        left = at;
        aorta_status status = aorta_trace_open_inputs(&path, 1, &options, &list);
        if (!status) status = aorta_trace_infer_steps(&list);
        failed = left < 0;
        left = LONG_MAX;
        if (status) {
            assert_int_equal(aorta_status_code(status), AORTA_MEMORY);
        } else {
            check_ok(analyze(&list, &words));
            assert_string_equal(words.data, expected.data);
        }
        aorta_status_free(status);
        aorta_text_free(&words);
        aorta_trace_list_free(&list);
    }
    aorta_text_free(&expected);
    aorta_trace_list_free(&whole);
    return at;
}

static void while_steps_are_found(void **state) {
    (void)state;
    const long resnet = count_failures_while_steps_are_found(RECORDED "/whole/mi300_resnet.json.gz"),
               qwen = count_failures_while_steps_are_found(RECORDED "/whole/h100_qwen.json.gz");
    assert_true(resnet > 90 && resnet + qwen > 200);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(while_a_file_is_read),
        cmocka_unit_test(while_steps_are_found),
        cmocka_unit_test(of_two_ranks),
        cmocka_unit_test(of_tables_pages_and_comparisons),
        cmocka_unit_test(of_operations_with_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
