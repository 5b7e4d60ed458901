/* Which cause stands first. */
#include "check.h"
#include "verdict/gains_internal.h"

static struct aorta_finding finding(enum aorta_cause cause, double gain_ms, double step_ms) {
    return (struct aorta_finding){.cause = cause, .gain_ms = gain_ms, .gain_share = gain_ms / step_ms};
}

static void expect(struct aorta_finding findings[3], bool whole, const char *order) {
    char found[128] = "";
    aorta_findings_order(findings, 3, whole);
    for (int i = 0; i < 3; i++) {
        if (i) strcat(found, " ");
        strcat(found, aorta_cause_name(findings[i].cause));
    }
    assert_string_equal(found, order);
}

/* A host that is slow all along: 4.5 of 7 ms of launches, and 1.6 ms at one place. */
static void launches_that_gain_far_more_come_first(void **state) {
    (void)state;
    struct aorta_finding findings[] = {finding(AORTA_CAUSE_HOST_PAUSE, 1.6, 7),
                                       finding(AORTA_CAUSE_HOST_LAUNCH, 4.5, 7), finding(AORTA_CAUSE_FUSION, 0.3, 7)};
    expect(findings, false, "host_launch host_pause fusion");
}

/* A sleep of 30 ms in a step of 90 whose launches gain 45. */
static void a_pause_of_a_fifth_comes_before_launches(void **state) {
    (void)state;
    struct aorta_finding findings[] = {finding(AORTA_CAUSE_HOST_LAUNCH, 45, 90),
                                       finding(AORTA_CAUSE_HOST_PAUSE, 28, 90), finding(AORTA_CAUSE_FUSION, 8, 90)};
    expect(findings, false, "host_pause host_launch fusion");
    expect(findings, true, "host_launch host_pause fusion");
    findings[1].gain_ms = 20;
    expect(findings, false, "host_launch host_pause fusion");
}

/* What gains between the two stays between them and what gains less. */
static void a_remedy_that_gains_more_than_the_pause(void **state) {
    (void)state;
    struct aorta_finding findings[] = {finding(AORTA_CAUSE_HOST_LAUNCH, 45, 90),
                                       finding(AORTA_CAUSE_HOST_PAUSE, 28, 90), finding(AORTA_CAUSE_FUSION, 35, 90)};
    findings[2].remedy = "fusion";
    findings[2].then_ms = 35;
    expect(findings, false, "host_pause host_launch fusion");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launches_that_gain_far_more_come_first),
        cmocka_unit_test(a_pause_of_a_fifth_comes_before_launches),
        cmocka_unit_test(a_remedy_that_gains_more_than_the_pause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
