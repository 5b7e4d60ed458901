/* A rank that computes longer: because it has more of the work that the ranks share, or because it is slower.
 *
 *   rank 0   | gemm gemm gemm gemm      | all_reduce |
 *   rank 1   | gemm gemm gemm gemm | .. | all_reduce |
 *
 * To balance work takes away half of the difference of two ranks, a faster device all of it. */
#include "check.h"
#include "samples/kineto.h"
#include "trace/open.h"
#include "verdict/facts.h"
#include "verdict/verdict.h"

#include <math.h>

enum { STEPS = 6, GEMMS = 4, STREAM = 7 };
static const double SHORT_US = 500, LONG_US = 900, COMM_US = 100;

struct program {
    const char *sizes[2]; /* of each rank's products */
    int gemms[2];
    double us[2];   /* of each product */
    double pace_us; /* from launch to launch; 0: the host is far ahead */
};

/* When the host launches the number-th product of a step, or after all of them the collective. */
static double launch_at(const struct program *program, int step, int rank, int number) {
    if (!(program->pace_us > 0)) return 1000 + 200 * step + 10 * number;
    return 1000 + (step * (program->gemms[rank] + 1) + number) * program->pace_us;
}

static double add_step(struct sample_kineto *sample, const struct program *program, double at, int step, int rank) {
    char facts[512], name[32];
    const double begin = at, length = fmax(program->gemms[0] * program->us[0], program->gemms[1] * program->us[1]);
    for (int i = 0; i < program->gemms[rank]; i++, at += program->us[rank] + 2) {
        char shape[256];
        const double launch = launch_at(program, step, rank, i);
        snprintf(shape, sizeof shape, "\"External id\": %d, \"Input Dims\": %s, \"Input type\": [\"float\", \"float\"]",
                 1 + 100 * step + i, program->sizes[rank]);
        sample_kineto_event(sample, "cpu_op", "aten::mm", 1, launch, 8, shape);
        snprintf(shape, sizeof shape, "\"External id\": %d", 1 + 100 * step + i);
        at = fmax(at, launch + 5);
        sample_kineto_kernel(sample, "sm90_xmma_gemm", STREAM, launch + 2, at, program->us[rank], shape);
    }
    const double launch = launch_at(program, step, rank, program->gemms[rank]);
    const double all = fmax(begin + length, launch_at(program, step, 0, program->gemms[0])); /* rank 0 has most */
    const double end = all + 20 + COMM_US, first = launch_at(program, step, rank, 0) - 5;
    at = fmax(at, launch + 5);
    snprintf(facts, sizeof facts,
             "\"Collective name\": \"allreduce\", \"In msg nelems\": 1000, \"Out msg nelems\": 1000, \"dtype\": "
             "\"Float\", \"Group size\": 2, \"Process Group Name\": \"0\", \"Process Group Description\": "
             "\"default_pg\", \"Seq\": %d, \"Rank\": %d",
             step + 1, rank);
    sample_kineto_kernel(sample, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", STREAM, launch, at, end - at, facts);
    snprintf(name, sizeof name, "ProfilerStep#%d", step);
    sample_kineto_event(sample, "user_annotation", name, 1, first, launch_at(program, step + 1, rank, 0) - 6 - first,
                        "");
    return end + 5;
}

/* What the straggler costs a step. */
static double straggler_us(const struct program *program, bool unequal, double more_runs) {
    struct aorta_trace_list list = {0};
    struct aorta_trace_analysis analysis;
    struct aorta_verdict verdict;
    for (int rank = 0; rank < 2; rank++) {
        struct sample_kineto sample;
        double at = 10000;
        sample_kineto_begin(&sample, rank, 2);
        for (int step = 0; step < STEPS; step++) at = add_step(&sample, program, at, step, rank);
        sample_kineto_open(&sample, &list);
    }
    check_ok(aorta_trace_analyze(&list, NULL, &analysis));
    check_ok(aorta_verdict_make(&analysis, &verdict));
    const struct aorta_finding *found = NULL;
    for (size_t i = 0; i < verdict.finding_count; i++)
        if (verdict.findings[i].cause == AORTA_CAUSE_STRAGGLER) found = &verdict.findings[i];
    assert_non_null(found);
    assert_int_equal(found->rank, 0);
    const double gain_us = found->alone_ms * 1e3;
    const struct aorta_finding *precision = aorta_verdict_find(&verdict, AORTA_CAUSE_PRECISION);
    if (!(program->pace_us > 0)) { /* both are of the late rank's products */
        assert_non_null(precision);
        assert_int_equal(precision->share_count, 1);
        assert_int_equal(aorta_facts_find(&precision->facts, AORTA_FACT_KERNELS)->place.rank, 0);
        assert_int_equal(precision->shares[0].cause, AORTA_CAUSE_STRAGGLER);
        assert_true(precision->shares[0].ms <= fmin(found->alone_ms, precision->alone_ms) * 1.001);
    }
    assert_int_equal(aorta_facts_has(&found->facts, AORTA_FACT_UNEQUAL_WORK), unequal);
    const struct aorta_fact *more = aorta_facts_find(&found->facts, AORTA_FACT_MORE_RUNS);
    assert_true((more ? more->place.count : 0) == more_runs);
    if (more) assert_true(found->gain_range_ms[0] <= 0.501 * found->gain_ms); /* where the two ranks share them */
    aorta_verdict_free(&verdict);
    aorta_trace_analysis_free(&analysis);
    aorta_trace_list_free(&list);
    return gain_us;
}

static void check_straggler(const struct program *program, double gain_us, bool unequal, double more_runs) {
    const double found_us = straggler_us(program, unequal, more_runs);
    if (fabs(found_us - gain_us) > 0.05 * gain_us) fail_msg("%f us, not %f", found_us, gain_us);
}

#define SMALL "[[512, 4096], [4096, 4096]]"
#define LARGE "[[1024, 4096], [4096, 4096]]"

static void larger_products_are_balanced(void **state) {
    (void)state;
    check_straggler(&(struct program){{LARGE, SMALL}, {GEMMS, GEMMS}, {LONG_US, SHORT_US}, 0},
                    GEMMS * (LONG_US - SHORT_US) / 2, true, 0);
}

/* Nothing is exchanged that these could be the other rank's part of. */
static void more_products_can_all_go(void **state) {
    (void)state;
    check_straggler(&(struct program){{SMALL, SMALL}, {2 * GEMMS, GEMMS}, {SHORT_US, SHORT_US}, 0}, GEMMS * SHORT_US,
                    false, GEMMS);
}

static void slower_products_can_all_be_faster(void **state) {
    (void)state;
    check_straggler(&(struct program){{SMALL, SMALL}, {GEMMS, GEMMS}, {LONG_US, SHORT_US}, 0},
                    GEMMS * (LONG_US - SHORT_US), false, 0);
}

/* The other rank launches half as many, which takes its host half as long. */
static void more_launches_go_with_their_work(void **state) {
    (void)state;
    static const double PACE_US = 700;
    const struct program program = {{SMALL, SMALL}, {2 * GEMMS, GEMMS}, {SHORT_US, SHORT_US}, PACE_US};
    const double gain_us = straggler_us(&program, false, GEMMS);
    assert_true(gain_us > 0.8 * GEMMS * PACE_US && gain_us < 1.05 * GEMMS * PACE_US);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(larger_products_are_balanced), cmocka_unit_test(more_products_can_all_go),
        cmocka_unit_test(more_launches_go_with_their_work), cmocka_unit_test(slower_products_can_all_be_faster)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
