/* Kernels that no table knows and that are called as communication is: what the text suggests. */
#include "check.h"
#include "report/trace_report.h"
#include "report/trace_tables.h"
#include "trace/builder.h"

#include <string.h>

static uint32_t text(struct aorta_trace_builder *builder, const char *string) {
    return aorta_trace_builder_text(builder, string, strlen(string));
}

/* What `-q` prints. */
static void check_verdict_alone(struct aorta_trace_analysis *analysis, bool noted) {
    struct aorta_verdict verdict;
    struct aorta_text text = {0};
    check_ok(aorta_verdict_make(analysis, &verdict));
    aorta_trace_report_verdict(&(struct aorta_trace_report){.analysis = analysis, .verdict = &verdict}, NULL, &text);
    const char *note = strstr(text.data, "\n  note     my");
    assert_int_equal(note != NULL, noted);
    if (noted) assert_true(note > strstr(text.data, "Verdict: "));
    assert_non_null(strstr(text.data, "Verdict: "));
    aorta_text_free(&text);
    aorta_verdict_free(&verdict);
}

/* Checks the note on a trace with these kernels. The first takes 9 ms, and each next one 1 ms less. */
static void check_note(const char *const *kernels, size_t count, const char *note) {
    struct aorta_trace_builder *builder;
    struct aorta_trace *trace;
    struct aorta_trace_list list = {0};
    struct aorta_trace_analysis analysis;
    struct aorta_text sentence = {0};
    check_ok(aorta_trace_builder_create(AORTA_TRACE_KINETO, "made", NULL, &builder));
    for (size_t i = 0; i < count; i++) {
        const int64_t start = (int64_t)i * 10000000;
        const struct aorta_trace_work work = {.start_ns = start,
                                              .end_ns = start + (9 - (int64_t)i) * 1000000,
                                              .bytes = -1,
                                              .correlation = i + 1,
                                              .name = text(builder, kernels[i]),
                                              .stream = aorta_trace_builder_stream(builder, 0, -1, 7),
                                              .queue = AORTA_TRACE_NONE,
                                              .kind = AORTA_TRACE_KERNEL};
        aorta_trace_builder_work(builder, &work, -1, NULL, -1);
    }
    check_ok(aorta_trace_builder_finish(builder, &trace));
    check_ok(aorta_trace_list_add(&list, trace));
    check_ok(aorta_trace_analyze(&list, NULL, &analysis));
    assert_int_equal(aorta_trace_possible_collectives(&analysis.ranks[0], &sentence), note != NULL);
    if (note) assert_string_equal(sentence.data, note);
    check_verdict_alone(&analysis, note != NULL);
    aorta_text_free(&sentence);
    aorta_trace_analysis_free(&analysis);
    aorta_trace_list_free(&list);
}

#define CHECK_NOTE(note, ...)                                                                                          \
    do {                                                                                                               \
        static const char *const kernels[] = {__VA_ARGS__};                                                            \
        check_note(kernels, sizeof kernels / sizeof *kernels, note);                                                   \
    } while (0)

static void one_pattern_has_all(void **state) {
    (void)state;
    CHECK_NOTE(NULL, "nvjet_tst_128x128", "my::other");
    CHECK_NOTE("my::combine (9.000 ms on rank 0) counts as compute, but may be communication by its name; if it "
               "is: --comm-pattern 'my::combine'",
               "void my::combine<8>(int)", "nvjet_tst_128x128");
    /* The namespace has what is called otherwise, too. */
    CHECK_NOTE("my::ep::combine and 1 more (24.000 ms on rank 0) count as compute, but may be communication by "
               "their names; if they are: --comm-pattern 'my::ep::'",
               "void my::ep::combine<8>(int)", "void my::ep::dispatch<8>(int)", "void my::ep::dispatch<4>(int)",
               "void my::ep::notify(int)");
}

static void other_work_is_not_meant(void **state) {
    (void)state;
    /* A norm is in the same namespace, or the kernels are in none. */
    CHECK_NOTE("my::combine and 1 more (17.000 ms on rank 0) count as compute, but may be communication by their "
               "names; if they are: --comm-pattern 'my::combine' --comm-pattern 'my::dispatch'",
               "void my::combine<8>(int)", "void my::dispatch<8>(int)", "void my::layer_norm_kernel(int)");
    CHECK_NOTE("my_dispatch and 1 more (17.000 ms on rank 0) count as compute, but may be communication by their "
               "names; if they are: --comm-pattern 'my_dispatch' --comm-pattern 'my_combine'",
               "my_dispatch", "my_combine");
}

/* The shortest kernels of a coarse clock have no length, which no reader can change; if most have none, figures are
 * off.
 */
static void lengths_of_zero_are_noted_where_most_have_none(void **state) {
    (void)state;
    for (int zeros = 1; zeros <= 3; zeros += 2) {
        struct aorta_trace_builder *builder;
        struct aorta_trace *trace;
        struct aorta_trace_list list = {0};
        struct aorta_trace_analysis analysis;
        struct aorta_verdict verdict;
        struct aorta_text out = {0};
        check_ok(aorta_trace_builder_create(AORTA_TRACE_KINETO, "made", NULL, &builder));
        for (int i = 0; i < 4; i++) {
            const struct aorta_trace_work work = {.start_ns = i * 10000,
                                                  .end_ns = i * 10000 + (i < zeros ? 0 : 5000),
                                                  .bytes = -1,
                                                  .correlation = (uint64_t)i + 1,
                                                  .name = text(builder, "relu"),
                                                  .stream = aorta_trace_builder_stream(builder, 0, -1, 7),
                                                  .queue = AORTA_TRACE_NONE,
                                                  .kind = AORTA_TRACE_KERNEL};
            aorta_trace_builder_work(builder, &work, -1, NULL, -1);
        }
        check_ok(aorta_trace_builder_finish(builder, &trace));
        check_ok(aorta_trace_list_add(&list, trace));
        check_ok(aorta_trace_analyze(&list, NULL, &analysis));
        check_ok(aorta_verdict_make(&analysis, &verdict));
        aorta_trace_report_text(&(struct aorta_trace_report){.analysis = &analysis, .verdict = &verdict}, NULL, &out);
        assert_int_equal(strstr(out.data, "device work of length 0") != NULL, zeros == 3);
        aorta_text_free(&out);
        aorta_verdict_free(&verdict);
        aorta_trace_analysis_free(&analysis);
        aorta_trace_list_free(&list);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_pattern_has_all), cmocka_unit_test(other_work_is_not_meant),
                                       cmocka_unit_test(lengths_of_zero_are_noted_where_most_have_none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
