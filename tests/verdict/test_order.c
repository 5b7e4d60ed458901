/* Which cause is first: the one whose shown gain is the largest. Gains that need a second fix follow. */
#include "check.h"
#include "verdict/verdict_internal.h"

static struct aorta_finding finding(enum aorta_cause cause, double gain_ms, double alone_ms) {
    return (struct aorta_finding){
        .cause = cause, .gain_ms = gain_ms, .alone_ms = alone_ms, .gain_share = gain_ms / 90, .cost_ms = 1};
}

static void expect(struct aorta_finding findings[3], const char *order) {
    char found[128] = "";
    aorta_findings_order(findings, 3);
    for (int i = 0; i < 3; i++) {
        if (i) strcat(found, " ");
        strcat(found, aorta_cause_name(findings[i].cause));
    }
    assert_string_equal(found, order);
}

/* A sleep of 30 ms in a step of 90 whose launches gain 45, and a remedy between them. */
static void the_largest_gain_is_first(void **state) {
    (void)state;
    struct aorta_finding findings[] = {finding(AORTA_CAUSE_HOST_PAUSE, 28, 28),
                                       finding(AORTA_CAUSE_HOST_LAUNCH, 45, 45), finding(AORTA_CAUSE_FUSION, 35, 35)};
    findings[2].remedy = "fusion";
    expect(findings, "host_launch fusion host_pause");
}

/* What a cause gains alone is shown, although another cause that is removed first saves most of it. */
static void the_gain_alone_counts(void **state) {
    (void)state;
    struct aorta_finding findings[] = {finding(AORTA_CAUSE_HOST_SYNC, 20, 20), finding(AORTA_CAUSE_HOST_LAUNCH, 3, 30),
                                       finding(AORTA_CAUSE_COPY, 12, 12)};
    expect(findings, "host_launch host_sync copy");
}

/* The gain after the other causes is shown for a cause that gains only then, and for one that is displaced.
 */
static void what_is_gained_only_after_others(void **state) {
    (void)state;
    struct aorta_finding findings[] = {finding(AORTA_CAUSE_HOST_LAUNCH, 3, 30), finding(AORTA_CAUSE_LIBRARY, 25, 2),
                                       finding(AORTA_CAUSE_COPY, 12, 12)};
    findings[0].displaced = findings[1].only_after = true;
    expect(findings, "copy host_launch library");
}

/* Whoever fixes only the copies gains 1 of 24 ms. */
static void a_pair_comes_after_what_gains_alone(void **state) {
    (void)state;
    struct aorta_finding findings[] = {finding(AORTA_CAUSE_COMPUTE, 0, 0), finding(AORTA_CAUSE_COPY, 15, 1),
                                       finding(AORTA_CAUSE_HOST_LAUNCH, 8, 8)};
    findings[1].only_after = true;
    findings[1].partner = AORTA_CAUSE_HOST_LAUNCH;
    findings[1].joint_ms = 24;
    expect(findings, "host_launch copy compute");
}

/* Where the recording cannot decide, the upper bound is what is shown. */
static void an_upper_bound_counts(void **state) {
    (void)state;
    struct aorta_finding findings[] = {finding(AORTA_CAUSE_HOST_SYNC, 20, 20),
                                       finding(AORTA_CAUSE_EXPOSED_COLLECTIVE, 0, 0),
                                       finding(AORTA_CAUSE_HOST_LAUNCH, 8, 8)};
    findings[1].at_best_ms = 40;
    expect(findings, "exposed_collective host_sync host_launch");
}

/* Below a hundredth of the step no gain is shown. */
static void without_gains_the_cost_decides(void **state) {
    (void)state;
    struct aorta_finding findings[] = {finding(AORTA_CAUSE_HOST_SYNC, 0.8, 0.8), finding(AORTA_CAUSE_COMPUTE, 0, 0),
                                       finding(AORTA_CAUSE_COPY, 1, 1)};
    findings[1].cost_ms = 80;
    expect(findings, "copy compute host_sync");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_gain_is_first),
        cmocka_unit_test(the_gain_alone_counts),
        cmocka_unit_test(what_is_gained_only_after_others),
        cmocka_unit_test(a_pair_comes_after_what_gains_alone),
        cmocka_unit_test(an_upper_bound_counts),
        cmocka_unit_test(without_gains_the_cost_decides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
