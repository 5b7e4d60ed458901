/* A pipeline of two stages with four micro-batches: all forward, then all backward; S: a send and its receive.
 *
 *   stage 0   |F S F S F S F S . . S B S B S B S B|
 *   stage 1   |. S F S F S F S F B S B S B S B    |
 *
 * Each stage waits for one forward and one backward of the other. Twice as many micro-batches leave half of that. */
#include "check.h"
#include "samples/kineto.h"
#include "trace/open.h"
#include "verdict/advice.h"
#include "verdict/facts.h"
#include "verdict/verdict.h"

#include <math.h>
#include <string.h>

enum { STEPS = 6, MICROS = 4 };
static const double FORWARD_US = 1000, BACKWARD_US = 2000, SEND_US = 20;
/* The recording begins with the first forward, so its first step has no backward to wait for. */
static const double BUBBLE_US = ((STEPS - 1) * (1000.0 + 2000) + 1000) / STEPS;

struct stage {
    struct sample_kineto sample;
    double at, launch, longer; /* its device is busy until then; times what a stage computes */
};

static void compute(struct stage *stage, double us) {
    sample_kineto_kernel(&stage->sample, "sm90_xmma_gemm", 7, stage->launch += 4, stage->at, us * stage->longer, "");
    stage->at += us * stage->longer + 2;
}

/* Both begin to wait when they are ready, and end together. */
static void send(struct stage stages[2]) {
    const double end = fmax(stages[0].at, stages[1].at) + SEND_US;
    for (int i = 0; i < 2; i++) {
        sample_kineto_kernel(&stages[i].sample, "ncclDevKernel_SendRecv", 7, stages[i].launch += 4, stages[i].at,
                             end - stages[i].at, "");
        stages[i].at = end + 2;
    }
}

static void run_step(struct stage stages[2], int step) {
    char name[32];
    const double launch[2] = {stages[0].launch, stages[1].launch};
    for (int micro = 0; micro < MICROS; micro++) {
        compute(&stages[0], FORWARD_US);
        send(stages);
        compute(&stages[1], FORWARD_US);
    }
    for (int micro = 0; micro < MICROS; micro++) {
        compute(&stages[1], BACKWARD_US);
        send(stages);
        compute(&stages[0], BACKWARD_US);
    }
    snprintf(name, sizeof name, "ProfilerStep#%d", step);
    for (int i = 0; i < 2; i++)
        sample_kineto_event(&stages[i].sample, "user_annotation", name, 1, launch[i] + 1, stages[i].launch - launch[i],
                            "");
}

static const struct aorta_finding *find(const struct aorta_verdict *verdict, enum aorta_cause cause) {
    for (size_t i = 0; i < verdict->finding_count; i++)
        if (verdict->findings[i].cause == cause) return &verdict->findings[i];
    return NULL;
}

static double value(const struct aorta_finding *finding, enum aorta_fact_key key) {
    const struct aorta_fact *fact = aorta_facts_find(&finding->facts, key);
    assert_non_null(fact);
    return fact->value;
}

/* `longer`: what the second stage computes, to the first. */
static void check_bubble(double longer, double bubble_us) {
    struct stage stages[2];
    struct aorta_trace_list list = {0};
    struct aorta_trace_analysis analysis;
    struct aorta_verdict verdict;
    for (int i = 0; i < 2; i++) {
        stages[i] = (struct stage){.at = 10000, .launch = 1000, .longer = i ? longer : 1};
        sample_kineto_begin(&stages[i].sample, i, 2);
    }
    for (int step = 0; step < STEPS; step++) run_step(stages, step);
    for (int i = 0; i < 2; i++) sample_kineto_open(&stages[i].sample, &list);
    check_ok(aorta_trace_analyze(&list, NULL, &analysis));
    check_ok(aorta_verdict_make(&analysis, &verdict));
    const struct aorta_finding *bubble = find(&verdict, AORTA_CAUSE_PIPELINE_BUBBLE);
    assert_non_null(bubble);
    if (fabs(bubble->cost_ms * 1e3 - bubble_us) > 0.1 * bubble_us)
        fail_msg("%f us, not %f", bubble->cost_ms * 1e3, bubble_us);
    assert_true(fabs(value(bubble, AORTA_FACT_MICRO_BATCHES) - MICROS) < 1e-9);
    assert_true(fabs(bubble->gain_ms - bubble->cost_ms / 2) < 1e-9);
    assert_true(fabs(value(bubble, AORTA_FACT_GAIN_OF_FOUR_TIMES) - 0.75 * bubble->cost_ms) < 1e-9);
    const struct aorta_finding *straggler = find(&verdict, AORTA_CAUSE_STRAGGLER);
    assert_true((longer > 1) == (straggler && straggler->cost_ms > 0.5));
    aorta_verdict_free(&verdict);
    aorta_trace_analysis_free(&analysis);
    aorta_trace_list_free(&list);
}

static void equal_stages_wait_for_one_micro_batch(void **state) {
    (void)state;
    check_bubble(1, BUBBLE_US);
}

/* The longer stage waits for the shorter one's micro-batch only; what that one waits more is no bubble. */
static void unequal_stages_are_stragglers_too(void **state) {
    (void)state;
    check_bubble(1.5, BUBBLE_US);
}

/* ---- interleaved ---- */

enum { RANKS = 3, PARTS = 2 };

static void send_to(struct stage *stages, int from, int to) {
    const double end = fmax(stages[from].at, stages[to].at) + SEND_US;
    const int ends[2] = {from, to};
    for (int i = 0; i < 2; i++) {
        struct stage *stage = &stages[ends[i]];
        char facts[256];
        snprintf(
            facts, sizeof facts,
            "\"Collective name\": \"%s\", \"Src Rank\": %d, \"Dst Rank\": %d, \"Group size\": %d, \"In msg nelems\": "
            "1000, \"Out msg nelems\": 1000, \"dtype\": \"Float\"",
            i ? "recv" : "send", from, to, RANKS);
        sample_kineto_kernel(&stage->sample, "ncclDevKernel_SendRecv", 7, stage->launch += 4, stage->at,
                             end - stage->at, facts);
        stage->at = end + 2;
    }
}

/* The model in six parts: rank r has the parts r and r + 3. The last rank sends to the first one where the second part
 * of a micro-batch begins. */
static void run_interleaved(struct stage stages[RANKS], int step) {
    char name[32];
    double launch[RANKS];
    for (int i = 0; i < RANKS; i++) launch[i] = stages[i].launch;
    for (int part = 0; part < PARTS; part++)
        for (int micro = 0; micro < MICROS; micro++)
            for (int i = 0; i < RANKS; i++) {
                if (i || part) send_to(stages, (i + RANKS - 1) % RANKS, i);
                compute(&stages[i], FORWARD_US);
            }
    for (int part = PARTS; part-- > 0;)
        for (int micro = 0; micro < MICROS; micro++)
            for (int i = RANKS; i-- > 0;) {
                if (i < RANKS - 1 || part < PARTS - 1) send_to(stages, (i + 1) % RANKS, i);
                compute(&stages[i], BACKWARD_US);
            }
    snprintf(name, sizeof name, "ProfilerStep#%d", step);
    for (int i = 0; i < RANKS; i++)
        sample_kineto_event(&stages[i].sample, "user_annotation", name, 1, launch[i] + 1, stages[i].launch - launch[i],
                            "");
}

static void an_interleaved_schedule_is_known_by_the_last_ranks_sends(void **state) {
    (void)state;
    struct stage stages[RANKS];
    struct aorta_trace_list list = {0};
    struct aorta_trace_analysis analysis;
    struct aorta_verdict verdict;
    for (int i = 0; i < RANKS; i++) {
        stages[i] = (struct stage){.at = 10000, .launch = 1000, .longer = 1};
        sample_kineto_begin(&stages[i].sample, i, RANKS);
    }
    for (int step = 0; step < STEPS; step++) run_interleaved(stages, step);
    for (int i = 0; i < RANKS; i++) sample_kineto_open(&stages[i].sample, &list);
    check_ok(aorta_trace_analyze(&list, NULL, &analysis));
    check_ok(aorta_verdict_make(&analysis, &verdict));
    const struct aorta_finding *bubble = find(&verdict, AORTA_CAUSE_PIPELINE_BUBBLE);
    assert_non_null(bubble);
    assert_true(fabs(value(bubble, AORTA_FACT_MODEL_PARTS) - PARTS) < 1e-9);
    assert_true(fabs(value(bubble, AORTA_FACT_MICRO_BATCHES) - MICROS) < 1e-9);
    assert_non_null(strstr(bubble->fixes[0].row->also, "more parts"));
    aorta_verdict_free(&verdict);
    aorta_trace_analysis_free(&analysis);
    aorta_trace_list_free(&list);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(equal_stages_wait_for_one_micro_batch),
                                       cmocka_unit_test(an_interleaved_schedule_is_known_by_the_last_ranks_sends),
                                       cmocka_unit_test(unequal_stages_are_stragglers_too)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
