/* A trace that a run wrote, analysed, has the figures of the run's own lines. */
#include "check.h"
#include "run.h"

#include "analysis/analysis.h"
#include "trace/open.h"

#include <math.h>

/* Printed with six decimals, which is exact. */
static void expect_ms(const json_t *line, const char *path, int64_t ns, int rank, int64_t step) {
    double ms = e2e_number(line, path);
    if (llround(ms * 1e6) == ns) return;
    fail_msg("rank %d, step %lld: %s is %.6f in the line, %.6f in the trace", rank, (long long)step, path, ms,
             (double)ns / 1e6);
}

static void compare_step(const struct e2e_run *run, int rank, const struct aorta_trace_window *window) {
    const struct aorta_overlap *overlap = &window->profile.overlap;
    const json_t *line = e2e_line(run, rank, (size_t)window->number);
    assert_int_equal(e2e_number(line, "global_step"), window->number);
    expect_ms(line, "profile.total_ms", overlap->span_ns, rank, window->number);
    expect_ms(line, "profile.overlap.compute_ms", overlap->compute_ns, rank, window->number);
    expect_ms(line, "profile.overlap.comm_ms", overlap->comm_ns, rank, window->number);
    expect_ms(line, "profile.overlap.exposed_comm_ms", overlap->exposed_comm_ns, rank, window->number);
    expect_ms(line, "profile.overlap.overlap_ms.compute_comm", overlap->overlap_ns, rank, window->number);
    expect_ms(line, "profile.overlap.overlap_ms.idle", overlap->idle_ns, rank, window->number);
}

/* The run's folder holds each trace twice, for two viewers; it counts once. */
static void figures_are_those_of_the_lines(void **state) {
    (void)state;
    struct e2e_run run = {.name = "figures"};
    char folder[512];
    const char *const paths[] = {folder};
    struct aorta_trace_list list = {0};
    struct aorta_trace_analysis analysis;
    const struct aorta_trace_analysis_options steps = {.all_steps = true};
    e2e_train_well(&run, 2, 6, "profiling.enabled=true profiling.active=3");
    snprintf(folder, sizeof folder, "%s/out", run.directory);
    check_ok(aorta_trace_open_inputs(paths, 1, NULL, &list));
    check_ok(aorta_trace_analyze(&list, &steps, &analysis));
    assert_int_equal(analysis.rank_count, 2);
    assert_true(analysis.stepped);
    for (size_t i = 0; i < analysis.rank_count; i++) {
        assert_int_equal(analysis.ranks[i].window_count, 3);
        for (size_t j = 0; j < 3; j++) compare_step(&run, analysis.ranks[i].rank, &analysis.ranks[i].windows[j]);
    }
    assert_true(analysis.alignment.shared_count > 0);
    aorta_trace_analysis_free(&analysis);
    aorta_trace_list_free(&list);
    e2e_free(&run);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(figures_are_those_of_the_lines)};
    return cmocka_run_group_tests(tests, e2e_open, e2e_close);
}
