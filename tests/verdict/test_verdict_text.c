/* Which lines the text has, of verdicts made by hand: 100 ms a step, of which the replay says what each cause gains. */
#include "check.h"
#include "verdict/verdict.h"

#include <string.h>

static const double step_ms = 100;
static char as_measured[] = "as measured";

/* Findings in the order of a verdict: by gain, then by cost. */
static struct aorta_finding finding(enum aorta_cause cause, double gain_ms, double cost_ms) {
    struct aorta_finding made = {.cause = cause,
                                 .collective = AORTA_ALL_GATHER,
                                 .rank = -1,
                                 .gain_ms = gain_ms,
                                 .gain_share = gain_ms / step_ms,
                                 .cost_ms = cost_ms,
                                 .share = cost_ms / step_ms,
                                 .evidence = as_measured};
    made.advice = (char *)aorta_cause_name(cause);
    return made;
}

static struct aorta_text text_of(struct aorta_finding *findings, size_t count, double floor_ms) {
    const struct aorta_verdict verdict = {
        .findings = findings,
        .finding_count = count,
        .rank_count = 2,
        .iterations = 8,
        .step_ms_mean = step_ms,
        .step_ms_p50 = step_ms,
        .replay = {.known = true, .measured_ms = step_ms, .replayed_ms = step_ms, .floor_ms = floor_ms}};
    struct aorta_text text = {0};
    aorta_verdict_text(&verdict, 200, &text);
    check_ok(aorta_text_check(&text));
    return text;
}

static size_t place(const struct aorta_text *text, const char *part) {
    const char *at = strstr(text->data, part);
    if (!at) fail_msg("\"%s\" is not in:\n%s", part, text->data);
    return (size_t)(at - text->data);
}

/* Of steps that differ by 50 ms a gain of 10 is no gain that one recording shows. */
static void test_gains_below_what_steps_show_are_marked(void **state) {
    (void)state;
    struct aorta_finding findings[] = {finding(AORTA_CAUSE_HOST_SYNC, 40, 30), finding(AORTA_CAUSE_COPY, 10, 9)};
    struct aorta_verdict verdict = {
        .findings = findings,
        .finding_count = 2,
        .rank_count = 1,
        .iterations = 12,
        .recorded = true,
        .step_ms_mean = step_ms,
        .step_ms_p10 = 80,
        .step_ms_p50 = step_ms,
        .step_ms_p90 = 130,
        .replay = {.known = true, .measured_ms = step_ms, .replayed_ms = step_ms, .floor_ms = 50}};
    struct aorta_text text = {0};
    aorta_verdict_text(&verdict, 200, &text);
    place(&text, "trust no gain below 25 ms");
    place(&text, "10.000 ms  copy, less than such steps can show:");
    assert_null(strstr(text.data, "host_sync, less than"));
    aorta_text_free(&text);
}

static void test_small_causes_that_are_much_together(void **state) {
    (void)state;
    struct aorta_finding findings[] = {finding(AORTA_CAUSE_HOST_SYNC, 4, 3), finding(AORTA_CAUSE_COPY, 3, 2),
                                       finding(AORTA_CAUSE_COMPUTE, 0, 90)};
    struct aorta_text text = text_of(findings, 3, 93);
    place(&text, "Verdict: several small causes: without all causes below the step is 7.00 of 100.00 ms shorter (7%)");
    assert_true(place(&text, "saves    4.000 ms") < place(&text, "saves    3.000 ms"));
    assert_null(strstr(text.data, "compute-bound"));
    assert_null(strstr(text.data, "takes   90.000 ms")); /* what is left has a line of its own */
    assert_true(place(&text, "try: host_sync") < place(&text, "or:  copy"));
    aorta_text_free(&text);
}

static void test_compute_bound_with_symptoms(void **state) {
    (void)state;
    struct aorta_finding findings[] = {finding(AORTA_CAUSE_HOST_SYNC, 2.5, 3), finding(AORTA_CAUSE_COPY, 1.5, 1),
                                       finding(AORTA_CAUSE_COMPUTE, 0, 84), finding(AORTA_CAUSE_STRAGGLER, 0, 9)};
    struct aorta_text text = text_of(findings, 4, 96);
    place(&text, "Verdict: compute-bound: 84% of the step");
    assert_true(place(&text, "takes   84.000 ms") < place(&text, "saves    2.500 ms"));
    place(&text, "saves    1.500 ms");
    assert_true(place(&text, "try: compute") < place(&text, "or:  host_sync"));
    assert_null(strstr(text.data, "straggler")); /* it gains nothing, so nothing is advised */
    aorta_text_free(&text);
}

static void test_advice_for_what_matters(void **state) {
    (void)state;
    struct aorta_finding findings[] = {finding(AORTA_CAUSE_HOST_PAUSE, 40, 0), finding(AORTA_CAUSE_COPY, 1.5, 1),
                                       finding(AORTA_CAUSE_COMPUTE, 0, 50)};
    struct aorta_text text = text_of(findings, 3, 58.5);
    place(&text, "Verdict: limited by a pause of the host: without it the step is 40.00 of 100.00 ms shorter (40%)");
    place(&text, "try: host_pause");
    assert_null(strstr(text.data, "  or: "));
    aorta_text_free(&text);
}

/* No gain is known, or none is to be had: what is exposed stands in the first line, and nothing is called bound by
 * compute. */
static void test_exposed_communication_is_said(void **state) {
    (void)state;
    struct aorta_finding findings[] = {finding(AORTA_CAUSE_COMPUTE, 0, 69),
                                       finding(AORTA_CAUSE_EXPOSED_COLLECTIVE, 0, 21),
                                       finding(AORTA_CAUSE_STRAGGLER, 0, 10)};
    struct aorta_verdict verdict = {.findings = findings,
                                    .finding_count = 3,
                                    .rank_count = 2,
                                    .iterations = 9,
                                    .step_ms_mean = step_ms,
                                    .step_ms_p50 = step_ms - 1,
                                    .comm_ms = 32,
                                    .exposed_ms = 31,
                                    .overlap_ratio = 1.0 / 32,
                                    .replay = {.reason = "12 steps"}};
    struct aorta_text text = {0};
    aorta_verdict_text(&verdict, 200, &text);
    place(&text,
          "Verdict: gains unknown (12 steps): 69% of the step (69.00 of 100.00 ms) is compute; 97% of communication "
          "is exposed (31.00 ms)");
    place(&text, "step to step 100.00 ms (p50 99.00, device busy 100.00) over 9 iterations of 2 ranks");
    place(&text, "exposed: 31.00 ms = 21.00 exposed all_gather + 10.00 waiting for the last rank");
    aorta_text_free(&text);
    verdict.exposed_ms = verdict.comm_ms = 4; /* all of it, and little of the step */
    verdict.overlap_ratio = 0;
    aorta_verdict_text(&verdict, 200, &text);
    place(&text, "Verdict: gains unknown (12 steps): 69% of the step (69.00 of 100.00 ms) is compute\n");
    aorta_text_free(&text);
    verdict.exposed_ms = 31;
    verdict.comm_ms = 32;
    verdict.overlap_ratio = 1.0 / 32;
    verdict.replay = (struct aorta_verdict_replay){.known = true, .replayed_ms = step_ms, .floor_ms = 98};
    verdict.lost_beside = 0.8;
    aorta_verdict_text(&verdict, 200, &text);
    place(&text, "Verdict: nothing to gain: compute is 69% of the step (69.00 of 100.00 ms); 97% of communication is "
                 "exposed (31.00 ms), but compute beside it would take longer instead");
    assert_null(strstr(text.data, "try: exposed_collective"));
    aorta_text_free(&text);
    verdict.overlap_ratio = 0.9; /* 3 ms are left exposed; 5 ms are idle */
    verdict.exposed_ms = 3;
    verdict.idle_ms = 5;
    findings[1] = finding(AORTA_CAUSE_DATA_WAIT, 0, 5);
    aorta_verdict_text(&verdict, 200, &text);
    place(&text, "Verdict: compute-bound: 69% of the step (69.00 of 100.00 ms); the device is idle in 5% of it: mostly "
                 "waiting for data");
    aorta_text_free(&text);
}

/* Small causes are no reason to say nothing of communication that nothing hides. */
static void test_small_causes_beside_exposed_communication(void **state) {
    (void)state;
    struct aorta_finding findings[] = {finding(AORTA_CAUSE_LAYOUT, 4, 1), finding(AORTA_CAUSE_RECOMPUTE, 3, 1),
                                       finding(AORTA_CAUSE_EXPOSED_COLLECTIVE, 0, 60)};
    struct aorta_verdict verdict = {.findings = findings,
                                    .finding_count = 3,
                                    .rank_count = 1,
                                    .iterations = 3,
                                    .recorded = true,
                                    .step_ms_mean = step_ms,
                                    .step_ms_p50 = step_ms - 1,
                                    .idle_ms = 2,
                                    .comm_ms = 80,
                                    .exposed_ms = 60,
                                    .overlap_ratio = 0.25,
                                    .replay = {.known = true, .replayed_ms = step_ms, .floor_ms = 93}};
    struct aorta_text text = {0};
    aorta_verdict_text(&verdict, 200, &text);
    place(&text, "the largest is convolutions in NCHW; 75% of communication is exposed (60.00 ms)");
    place(&text, "step to step 100.00 ms (p50 99.00, device busy 98.00) over 3 steps of 1 rank; 25.0%");
    assert_null(strstr(text.data, "without the recording"));
    aorta_text_free(&text);
    verdict.iterations = 1; /* its median is itself */
    verdict.replay.unrecorded_ms = 99;
    aorta_verdict_text(&verdict, 200, &text);
    place(&text, "shorter (6%); the largest");
    place(&text, "step to step 100.00 ms (device busy 98.00) over 1 step of 1 rank");
    place(&text, "; without the recording about 99 ms (0 to 0)");
    aorta_text_free(&text);
}

/* A screen has ten lines: a remedy of less than a twentieth has one sentence, with the rest in the JSON. */
static void test_small_remedies_are_short(void **state) {
    (void)state;
    static char long_evidence[] = "fewer passes; most in mul; kernels save 3 ms of it";
    struct aorta_finding findings[] = {finding(AORTA_CAUSE_FUSION, 12, 0), finding(AORTA_CAUSE_CASTS, 4, 0),
                                       finding(AORTA_CAUSE_HOST_SYNC, 3, 0)};
    for (int i = 0; i < 3; i++) findings[i].evidence = long_evidence;
    findings[0].remedy = findings[1].remedy = "some";
    struct aorta_text text = text_of(findings, 3, 80);
    place(&text, "fusion: fewer passes; most in mul; kernels save 3 ms of it\n");
    place(&text, "casts: fewer passes\n");
    place(&text, "host_sync: fewer passes; most in mul; kernels save 3 ms of it\n");
    aorta_text_free(&text);
}

/* Eleven causes: eight rows in text and JSON, with the one that costs most, and the rest as a count and a sum. */
static void test_at_most_eight_rows(void **state) {
    (void)state;
    enum { CAUSES = 11, ROWS = 8 };
    struct aorta_finding findings[CAUSES];
    for (int i = 0; i < CAUSES - 1; i++) findings[i] = finding(AORTA_CAUSE_FUSION, 12 - i, 1);
    findings[CAUSES - 1] = finding(AORTA_CAUSE_COMPUTE, 0, 90);
    struct aorta_text text = text_of(findings, CAUSES, 50);
    place(&text, "saves    5.000 ms");
    assert_null(strstr(text.data, "saves    4.000 ms"));
    place(&text, "and 2 smaller causes");
    aorta_text_free(&text);

    struct aorta_verdict verdict = {.findings = findings, .finding_count = CAUSES, .replay = {.known = true}};
    struct aorta_json json;
    aorta_json_begin(&json, &text, 0);
    aorta_json_object(&json);
    aorta_verdict_findings(&verdict, &json);
    aorta_json_object_end(&json);
    check_ok(aorta_text_check(&text));
    size_t rows = 0;
    for (const char *at = text.data; (at = strstr(at, "\"cause\"")) != NULL; at++) rows++;
    assert_int_equal(rows, ROWS);
    place(&text, "\"compute\"");
    assert_true(place(&text, "\"verdict_folded\"") < place(&text, "\"rows\""));
    place(&text, "\"cost_ms\": 3.0");
    aorta_text_free(&text);
}

/* As sure as the lags of the recording are explained. */
static void test_how_sure_a_gain_is(void **state) {
    (void)state;
    struct aorta_finding findings[] = {finding(AORTA_CAUSE_HOST_SYNC, 20, 3), finding(AORTA_CAUSE_COPY, 10, 9)};
    findings[0].gain_range_ms[0] = 12;
    findings[0].gain_range_ms[1] = 28;
    findings[1].gain_range_ms[0] = 9.5;
    findings[1].gain_range_ms[1] = 10.5;
    struct aorta_text text = text_of(findings, 2, 70);
    place(&text, "without it the step is 20.00 of 100.00 ms shorter (20%, 12 to 28 ms)");
    place(&text, "saves   20.000 ms  host_sync, 12 to 28 ms: as measured");
    place(&text, "saves   10.000 ms  copy: as measured");
    aorta_text_free(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gains_below_what_steps_show_are_marked),
        cmocka_unit_test(test_small_causes_that_are_much_together),
        cmocka_unit_test(test_compute_bound_with_symptoms),
        cmocka_unit_test(test_exposed_communication_is_said),
        cmocka_unit_test(test_how_sure_a_gain_is),
        cmocka_unit_test(test_advice_for_what_matters),
        cmocka_unit_test(test_small_causes_beside_exposed_communication),
        cmocka_unit_test(test_small_remedies_are_short),
        cmocka_unit_test(test_at_most_eight_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
