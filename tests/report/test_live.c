/* What changes from window to window. Verdicts are made by hand: a step of 100 ms on four ranks, and what causes take
 * of it. */
#include "check.h"
#include "report/live.h"

#include <math.h>
#include <string.h>

enum { MOST = 4 };

struct said_of {
    enum aorta_cause cause;
    enum aorta_collective collective;
    int rank;
    double gain_ms, cost_ms;
};

/* What all windows of a test have in common but for one that changes it. */
static size_t ranks_of_window = 4;
static bool steps_of_window = true;

static void window(struct aorta_live *live, int64_t start_s, double step_ms, const struct said_of *causes, size_t count,
                   struct aorta_live_said *said) {
    struct aorta_finding findings[MOST];
    for (size_t i = 0; i < count; i++)
        findings[i] = (struct aorta_finding){.cause = causes[i].cause,
                                             .collective = causes[i].collective,
                                             .rank = causes[i].rank,
                                             .gain_ms = causes[i].gain_ms,
                                             .gain_share = causes[i].gain_ms / step_ms,
                                             .cost_ms = causes[i].cost_ms,
                                             .share = causes[i].cost_ms / step_ms};
    const struct aorta_verdict verdict = {.findings = findings,
                                          .finding_count = count,
                                          .rank_count = ranks_of_window,
                                          .whole = !steps_of_window,
                                          .iterations = 30,
                                          .step_ms_mean = step_ms,
                                          .step_ms_p50 = step_ms,
                                          .step_ms_p10 = step_ms,
                                          .step_ms_p90 = step_ms,
                                          .overlap_ratio = NAN,
                                          .recorded = true,
                                          .replay = {.known = true,
                                                     .measured_ms = step_ms,
                                                     .replayed_ms = step_ms,
                                                     .unrecorded_ms = step_ms,
                                                     .floor_ms = step_ms / 2}};
    const struct aorta_live_window row = {.start_ms = start_s * 1000,
                                          .length_ms = 30000,
                                          .verdict = &verdict,
                                          .gone = {.data = "rank 3 went", .length = sizeof "rank 3 went"}};
    *said = (struct aorta_live_said){0};
    check_ok(aorta_live_take(live, &row, said));
}

static void expect_change(struct aorta_live *live, double step_ms, const struct said_of *causes, size_t count,
                          const char *change) {
    struct aorta_live_said said;
    window(live, 1764000000, step_ms, causes, count, &said);
    const char *words = said.change.data ? said.change.data : "";
    const char *at = *words ? strchr(words + strlen("since "), ' ') : words; /* behind the local time */
    assert_non_null(at);
    assert_string_equal(at + (*at == ' '), change);
    aorta_live_said_free(&said);
}

static const struct said_of launches = {AORTA_CAUSE_HOST_LAUNCH, 0, -1, 10, 12};
static const struct said_of compute = {AORTA_CAUSE_COMPUTE, 0, -1, 0, 50};

/* Four ranks; 4 ms more on rank 2 are 3 ms in the mean over all, since it does not wait itself:
 *
 *   window      1      2      3                4            5          6
 *   straggler   -      -      rank 2: 3 ms     3.3          -          rank 1: 3 ms
 *   says        -      -      rank 2 late      -            no longer  rank 1 late */
static void a_late_rank_is_named_once(void **state) {
    struct aorta_live live = {0};
    (void)state;
    const struct said_of late[] = {{AORTA_CAUSE_STRAGGLER, 0, 2, 1, 3}, launches, compute};
    const struct said_of as_late[] = {{AORTA_CAUSE_STRAGGLER, 0, 2, 9, 3.3}, launches, compute};
    const struct said_of other[] = {launches, compute, {AORTA_CAUSE_STRAGGLER, 0, 1, 1, 3}};
    expect_change(&live, 100, late + 1, 2, "");
    expect_change(&live, 100, late + 1, 2, "");
    expect_change(&live, 100, late, 3, "rank 2 is late by 4 ms per step (before: 0)");
    expect_change(&live, 100, as_late, 3, "");
    expect_change(&live, 100, late + 1, 2, "rank 2 is no longer late (before: by 4 ms per step)");
    expect_change(&live, 100, other, 3, "rank 1 is late by 4 ms per step (before: 0)");
}

/* The last window of a job often has a part of the ranks, or no whole step; what stays so is the new state:
 *
 *   window   1     2     3     4     5     6     7
 *   ranks    4     3     4     4     3     3     4
 *   steps    yes   yes   no    yes   yes   yes   yes
 *   says     -     -     -     -     -     -     launches */
static void a_window_that_shows_less_says_no_change(void **state) {
    struct aorta_live live = {0};
    (void)state;
    const struct said_of late[] = {{AORTA_CAUSE_STRAGGLER, 0, 2, 1, 3}, launches, compute};
    const struct said_of later[] = {{AORTA_CAUSE_HOST_LAUNCH, 0, -1, 30, 40}, compute};
    expect_change(&live, 100, late, 3, "");
    ranks_of_window = 3;
    expect_change(&live, 90, late + 1, 2, "");
    ranks_of_window = 4, steps_of_window = false;
    expect_change(&live, 3000, late + 1, 2, "");
    steps_of_window = true;
    expect_change(&live, 100, late, 3, "");
    ranks_of_window = 3;
    expect_change(&live, 90, late + 1, 2, "");
    expect_change(&live, 90, late + 1, 2, "");
    ranks_of_window = 4;
    expect_change(&live, 90, later, 2, "late kernel launches: 30 ms per step (before: 10)");
}

/* A change is noise below 3% of the step, or below a quarter of the value. The largest change is reported first. */
static void noise_is_no_change(void **state) {
    struct aorta_live live = {0};
    (void)state;
    const struct said_of first[] = {launches, compute, {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_ALL_GATHER, -1, 2, 2}};
    const struct said_of noisy[] = {{AORTA_CAUSE_HOST_LAUNCH, 0, -1, 12.4, 9},
                                    {AORTA_CAUSE_COMPUTE, 0, -1, 0, 60},
                                    {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_ALL_GATHER, -1, 4.9, 2}};
    const struct said_of more[] = {{AORTA_CAUSE_HOST_LAUNCH, 0, -1, 14, 9},
                                   {AORTA_CAUSE_COMPUTE, 0, -1, 0, 50},
                                   {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_ALL_GATHER, -1, 12, 2}};
    expect_change(&live, 100, first, 3, "");
    expect_change(&live, 102.9, noisy, 3, "");
    expect_change(&live, 110, more, 3,
                  "exposed all_gather: 12 ms per step (before: 2); late kernel launches: 14 ms per step (before: 10); "
                  "a step takes "
                  "110 ms (before: 100)");
    expect_change(&live, 110, more, 3, "");
}

static void expect_part(const struct aorta_text *text, const char *part) {
    if (!strstr(text->data, part)) fail_msg("expected \"%s\" in: %s", part, text->data);
}

static void lines_and_gauges_have_the_figures(void **state) {
    struct aorta_live live = {0};
    struct aorta_live_said said;
    (void)state;
    const struct said_of causes[] = {launches, {AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_ALL_GATHER, 1, 2, 4}};
    window(&live, 1764000000, 100, causes, 2, &said);
    assert_true(said.first);
    expect_part(&said.json, "\"window_start\": \"2025-11-24T16:00:00Z\", \"window_ms\": 30000.0");
    expect_part(&said.json, "\"step_p50_ms\": 100.0");
    expect_part(&said.json, "\"gone\": [\"rank 3 went\"]");
    expect_part(&said.json, "\"cause\": \"host_launch\"");
    expect_part(&said.json, "\"null_reasons\": {\"overlap_ratio\": \"no communication\"}");
    assert_ptr_equal(strchr(said.json.data, '\n'), said.json.data + said.json.length - 1);
    expect_part(&said.gauges, "# TYPE aorta_step_seconds gauge\naorta_step_seconds 0.1\n");
    expect_part(&said.gauges, "aorta_cause_gain_seconds{cause=\"host_launch\",kind=\"\",rank=\"\",remedy=\"\"} 0.01\n");
    expect_part(&said.gauges, "{cause=\"exposed_collective\",kind=\"all_gather\",rank=\"1\",remedy=\"\"} 0.004\n");
    assert_null(strstr(said.gauges.data, "nan"));
    aorta_live_said_free(&said);

    said = (struct aorta_live_said){0};
    const struct aorta_live_window empty = {.start_ms = 1764000030000, .length_ms = 30000, .reason = "because"};
    check_ok(aorta_live_take(&live, &empty, &said));
    expect_part(&said.headline, "because");
    expect_part(&said.json, "\"step_ms\": null");
    expect_part(&said.json, "\"reason\": \"because\"");
    expect_part(&said.gauges, "aorta_windows 2\n");
    assert_null(strstr(said.gauges.data, "aorta_step_seconds 0"));
    aorta_live_said_free(&said);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_late_rank_is_named_once),
        cmocka_unit_test(a_window_that_shows_less_says_no_change),
        cmocka_unit_test(noise_is_no_change),
        cmocka_unit_test(lines_and_gauges_have_the_figures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
