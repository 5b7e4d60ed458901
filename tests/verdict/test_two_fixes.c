/* A forward pass in fp32 whose host launches a kernel every 22 us, 66 us per layer. The kernels of a layer take 53:
 *
 *     host  |mm   |add  |mul  |mm   |add  |mul  |
 *     GPU     |######mm######|a|m|..|######mm######|a|m|..
 *
 * Products in 16 bits alone save nothing. A graph alone saves 13 us per layer, and then 16 bits save most of the rest.
 * Nothing is recomputed. */
#include "check.h"
#include "said.h"
#include "samples/kineto.h"
#include "trace/open.h"
#include "verdict/verdict.h"

#include <math.h>

enum { STEPS = 6, LAYERS = 30, STREAM = 7, KERNELS = 3 };
static const double LATER_US = 6;
static double every_us = 22, step_us = LAYERS * KERNELS * 22 + 200;

static const struct {
    const char *operation, *kernel, *dims;
    double us;
} kernels[KERNELS] = {
    {"aten::mm", "sgemm_128x128_tn", "[[1024, 1024], [1024, 1024]]", 43},
    {"aten::add", "vectorized_elementwise_kernel_add", "[[1024, 1024], [1024, 1024], []]", 5},
    {"aten::mul", "vectorized_elementwise_kernel_mul", "[[1024, 1024], [1024, 1024]]", 5},
};

static void add_step(struct sample_kineto *sample, int step) {
    char name[32], args[256], of[64];
    const double begin = 10000 + step * step_us;
    double free = 0;
    for (int i = 0; i < LAYERS * KERNELS; i++) {
        const int kind = i % KERNELS, id = 1 + step * LAYERS * KERNELS + i;
        const double at = begin + i * every_us;
        snprintf(args, sizeof args,
                 "\"External id\": %d, \"Input Dims\": %s, \"Input type\": [\"float\", \"float\", \"Scalar\"]", id,
                 kernels[kind].dims);
        snprintf(of, sizeof of, "\"External id\": %d", id);
        sample_kineto_event(sample, "cpu_op", kernels[kind].operation, 1, at - 5, 10, args);
        const double start = fmax(at + LATER_US, free);
        sample_kineto_kernel(sample, kernels[kind].kernel, STREAM, at, start, kernels[kind].us, of);
        free = start + kernels[kind].us;
    }
    snprintf(name, sizeof name, "ProfilerStep#%d", step);
    sample_kineto_event(sample, "user_annotation", name, 1, begin - 10, step_us - 20, "");
}

static struct aorta_trace_list list;
static struct aorta_trace_analysis analysis;
static struct aorta_verdict verdict;

static const char known[] = "NVIDIA H200", unknown[] = "Wonder 9000";

static void begin_on(const char *device) {
    struct sample_kineto sample;
    sample_kineto_begin(&sample, 0, 1);
    memcpy(strstr(sample.text.data, known), device, strlen(known));
    for (int step = 0; step < STEPS; step++) add_step(&sample, step);
    sample_kineto_open(&sample, &list);
    check_ok(aorta_trace_analyze(&list, NULL, &analysis));
    check_ok(aorta_verdict_make(&analysis, &verdict));
}

static int begin(void **state) {
    (void)state;
    begin_on(known);
    return 0;
}

/* The host launches every 17.2 us: the kernels of a layer take 1.4 us longer than their launches. */
static int begin_faster(void **state) {
    (void)state;
    every_us = 17.2;
    step_us = LAYERS * 53 + 2;
    begin_on(known);
    return 0;
}

static int begin_without_rates(void **state) {
    (void)state;
    begin_on(unknown);
    return 0;
}

static int end(void **state) {
    (void)state;
    aorta_verdict_free(&verdict);
    aorta_trace_analysis_free(&analysis);
    aorta_trace_list_free(&list);
    list = (struct aorta_trace_list){0};
    every_us = 22;
    step_us = LAYERS * KERNELS * 22 + 200;
    return 0;
}

static void a_pair_says_both_fixes(void **state) {
    (void)state;
    const struct aorta_finding *pair = aorta_verdict_find(&verdict, AORTA_CAUSE_PRECISION);
    const struct aorta_finding *launches = aorta_verdict_find(&verdict, AORTA_CAUSE_HOST_LAUNCH);
    assert_true(pair && launches);
    assert_int_equal(pair->partner, AORTA_CAUSE_HOST_LAUNCH);
    assert_true(pair->alone_ms < 0.01);
    assert_true(pair->joint_ms > 2 * launches->alone_ms);
    said_expect(said_text(&verdict), "if both are");
    said_expect(said_text(&verdict), "             and capture the step");
}

/* 16 bits alone save 1.4 us of 53 per layer, until launches limit the step. */
static void a_remedy_that_launches_limit_has_a_partner(void **state) {
    (void)state;
    const struct aorta_finding *pair = aorta_verdict_find(&verdict, AORTA_CAUSE_PRECISION);
    assert_non_null(pair);
    assert_int_equal(pair->partner, AORTA_CAUSE_HOST_LAUNCH);
    assert_true(pair->joint_ms > 10 * pair->alone_ms);
}

static void shares_are_with_causes_of_the_verdict(void **state) {
    (void)state;
    const struct aorta_finding *fused = aorta_verdict_find(&verdict, AORTA_CAUSE_FUSION);
    assert_non_null(fused);
    for (size_t i = 0; i < verdict.finding_count; i++)
        for (int j = 0; j < verdict.findings[i].share_count; j++)
            if (!aorta_verdict_find(&verdict, verdict.findings[i].shares[j].cause))
                fail_msg("%s shares with %s", aorta_cause_name(verdict.findings[i].cause),
                         aorta_cause_name(verdict.findings[i].shares[j].cause));
    assert_null(strstr(said_text(&verdict), "recomputation"));
}

/* On a device whose rates are not known, products in fp32 are a finding without a gain. */
static void products_in_fp32_without_rates(void **state) {
    (void)state;
    const struct aorta_finding *wide = aorta_verdict_find(&verdict, AORTA_CAUSE_PRECISION);
    assert_non_null(wide);
    const struct aorta_fact *touched = aorta_facts_find(&wide->facts, AORTA_FACT_TOUCHED);
    assert_true(fabs(touched->value - LAYERS * kernels[0].us / 1e3) < 1e-6);
    assert_true(aorta_facts_has(&wide->facts, AORTA_FACT_GAIN_UNKNOWN) && !aorta_finding_gains(wide));
    const char *text = said_text(&verdict);
    said_expect(text, "       1.29 ms  precision higher than needed (precision), cost\n"
                      "      30 operations take 1.29 of 1.59 ms; gain unknown without the device's peak rates\n"
                      "      fix    torch.set_float32_matmul_precision(\"high\")");
}

int main(void) {
#define ON(setup, test) cmocka_unit_test_setup_teardown(test, setup, end)
    const struct CMUnitTest tests[] = {
        ON(begin, a_pair_says_both_fixes),
        ON(begin, shares_are_with_causes_of_the_verdict),
        ON(begin_faster, a_remedy_that_launches_limit_has_a_partner),
        ON(begin_without_rates, products_in_fp32_without_rates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
