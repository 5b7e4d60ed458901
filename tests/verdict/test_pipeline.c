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
    double host;               /* what a launch takes, in us; 0: 4 */
};

static double launch(struct stage *stage) {
    return stage->launch += stage->host > 0 ? stage->host : 4;
}

static void compute(struct stage *stage, double us) {
    sample_kineto_kernel(&stage->sample, "sm90_xmma_gemm", 7, launch(stage), stage->at, us * stage->longer, "");
    stage->at += us * stage->longer + 2;
}

/* Both begin to wait when they are ready, and end together. */
static void send(struct stage stages[2]) {
    const double end = fmax(stages[0].at, stages[1].at) + SEND_US;
    for (int i = 0; i < 2; i++) {
        sample_kineto_kernel(&stages[i].sample, "ncclDevKernel_SendRecv", 7, launch(&stages[i]), stages[i].at,
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

/* `longer`: what the second stage computes, to the first. `host_us`: of a launch; `twice` and `four_times`: the parts
 * of the bubble that more micro-batches save. */
static void check_bubble(double longer, double bubble_us, double host_us, double twice, double four_times) {
    struct stage stages[2];
    struct aorta_trace_list list = {0};
    struct aorta_trace_analysis analysis;
    struct aorta_verdict verdict;
    for (int i = 0; i < 2; i++) {
        stages[i] = (struct stage){.at = 10000, .launch = 1000, .longer = i ? longer : 1, .host = host_us};
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
    assert_true(fabs(bubble->gain_ms - twice * bubble->cost_ms) < 1e-9);
    assert_true(fabs(value(bubble, AORTA_FACT_GAIN_OF_FOUR_TIMES) - four_times * bubble->cost_ms) < 1e-9);
    const struct aorta_fact *limit = aorta_facts_find(&bubble->facts, AORTA_FACT_HOST_STEP);
    assert_int_equal(limit != NULL, four_times < 0.75);
    assert_int_equal(strstr(bubble->fixes[0].row->text, "first launch less") != NULL, twice < 0.5);
    const struct aorta_finding *straggler = find(&verdict, AORTA_CAUSE_STRAGGLER);
    assert_true((longer > 1) == (straggler && straggler->cost_ms > 0.5));
    aorta_verdict_free(&verdict);
    aorta_trace_analysis_free(&analysis);
    aorta_trace_list_free(&list);
}

static void equal_stages_wait_for_one_micro_batch(void **state) {
    (void)state;
    check_bubble(1, BUBBLE_US, 0, 0.5, 0.75);
}

/* The longer stage waits for the shorter one's micro-batch only; what that one waits more is no bubble. */
static void unequal_stages_are_stragglers_too(void **state) {
    (void)state;
    check_bubble(1.5, BUBBLE_US, 0, 0.5, 0.75);
}

/* 16 launches in a step of 15 ms: four times as many take 26 ms of a host that needs 0.4 ms for each. Twice as many
 * take 29 ms of one that needs 0.9 ms. */
static void the_host_limits_more_micro_batches(void **state) {
    (void)state;
    check_bubble(1, BUBBLE_US, 400, 0.5, 0);
    check_bubble(1, BUBBLE_US, 900, 0, 0);
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
    assert_null(aorta_facts_find(&bubble->facts, AORTA_FACT_SPLIT_BACKWARD));
    aorta_verdict_free(&verdict);
    aorta_trace_analysis_free(&analysis);
    aorta_trace_list_free(&list);
}

/* ---- zero-bubble ---- */

/* Three stages, six micro-batches; F: forward; B: backward, of the inputs alone where W is that of the weights; sends
 * do not block. The whole backward, 1F1B, and the split one (ZB-H1: the last stage is two backwards ahead of its
 * weights):
 *
 *   stage 0   |F F F . . . . B B F B B F B B F B B . B B . B B|     |F F F . . B W F B W F B W F B W B W B W|
 *   stage 1   |. F F . . B B F B B F B B F B B F B B . B B    |     |. F F . B F B W F B W F B W F B W B W W|
 *   stage 2   |. . F B B F B B F B B F B B F B B F B B        |     |. . F B F B F B W F B W F B W F B W W W|
 *
 * Each stage waits for (p - 1) (F + B + W) = 6 ms, or for (p - 1) (F + B - W) = 2 ms. Twice as many micro-batches of
 * half the size leave half of it. */
enum { MOST_MICROS = 12, MOST_OPERATIONS = 3 * MOST_MICROS };

struct schedule {
    bool split, first; /* the backward; all forwards come first */
    int micros;
    double part_us;
};

struct message {
    double at, launch; /* the send is ready, and was launched; 0: not yet */
};

struct planned {
    char kinds[MOST_OPERATIONS + 1]; /* F, B, W */
    int next, forward, backward;     /* operations that ran; micro-batches begun */
    double waited;
};

static void plan(struct planned *planned, int stage, const struct schedule *schedule) {
    int forward = 0, weights = 0;
    char *at = planned->kinds;
    for (; forward < (schedule->first ? schedule->micros : RANKS - stage); forward++) *at++ = 'F';
    for (int backward = 1; backward <= schedule->micros; backward++) {
        *at++ = 'B';
        if (schedule->split && backward - weights > stage) {
            weights++;
            *at++ = 'W';
        }
        if (forward++ < schedule->micros) *at++ = 'F';
    }
    for (; schedule->split && weights < schedule->micros; weights++) *at++ = 'W';
    *at = '\0';
    planned->next = planned->forward = planned->backward = 0;
}

static void put_exchange(struct stage *stage, const char *name, int from, int to, double launch, double start,
                         double end) {
    char facts[256];
    snprintf(facts, sizeof facts,
             "\"Collective name\": \"%s\", \"Src Rank\": %d, \"Dst Rank\": %d, \"Group size\": %d, \"In msg nelems\": "
             "1000, \"Out msg nelems\": 1000, \"dtype\": \"Float\"",
             name, from, to, RANKS);
    sample_kineto_kernel(&stage->sample, "ncclDevKernel_Generic_4" /* RCCL */,
                         name[0] == 's' ? 8 + (from < to) : 10 + (from < to), launch, start, end - start, facts);
}

static void receive(struct stage *stages, struct planned *planned, int from, int to, const struct message *message) {
    struct stage *stage = &stages[to];
    const double end = fmax(message->at, stage->at) + SEND_US;
    put_exchange(&stages[from], "send", from, to, message->launch, message->at, end);
    put_exchange(stage, "recv", from, to, stage->launch += 4, stage->at, end);
    planned->waited += end - SEND_US - stage->at;
    stage->at = end + 2;
}

/* Runs the next operation of the stage if what it needs was sent. */
static bool advance(struct stage *stages, struct planned *planned, int i, const struct schedule *schedule,
                    struct message sent[2][RANKS][MOST_MICROS]) {
    struct planned *own = &planned[i];
    const char kind = own->kinds[own->next];
    const bool forward = kind == 'F';
    const int from = forward ? i - 1 : i + 1, micro = forward ? own->forward : own->backward;
    const bool needs = kind != 'W' && from >= 0 && from < RANKS;
    if (!kind || (needs && sent[forward][from][micro].launch <= 0)) return false;
    if (needs) receive(stages, own, from, i, &sent[forward][from][micro]);
    compute(&stages[i], kind == 'B' && !schedule->split ? 2 * schedule->part_us : schedule->part_us);
    if (kind != 'W' && (forward ? i < RANKS - 1 : i > 0))
        sent[forward][i][micro] = (struct message){stages[i].at, stages[i].launch += 4};
    own->forward += kind == 'F';
    own->backward += kind == 'B';
    own->next++;
    return true;
}

/* Returns what a stage waits for at least, in a step. */
static double run_schedule(struct stage *stages, const struct schedule *schedule) {
    struct planned planned[RANKS] = {0};
    char name[32];
    for (int step = 0; step < STEPS; step++) {
        struct message sent[2][RANKS][MOST_MICROS] = {0};
        double launch[RANKS];
        for (int i = 0; i < RANKS; i++) {
            plan(&planned[i], i, schedule);
            launch[i] = stages[i].launch;
        }
        for (bool more = true; more;) {
            more = false;
            for (int i = 0; i < RANKS; i++) more |= advance(stages, planned, i, schedule, sent);
        }
        snprintf(name, sizeof name, "ProfilerStep#%d", step);
        for (int i = 0; i < RANKS; i++) {
            assert_int_equal(planned[i].kinds[planned[i].next], 0);
            sample_kineto_event(&stages[i].sample, "user_annotation", name, 1, launch[i] + 1,
                                stages[i].launch - launch[i], "");
        }
    }
    return fmin(fmin(planned[0].waited, planned[1].waited), planned[2].waited) / STEPS;
}

/* Sets what each stage waits for at least, and the verdict. */
static double analyze_schedule(const struct schedule *schedule, struct aorta_verdict *verdict) {
    struct stage stages[RANKS];
    struct aorta_trace_list list = {0};
    struct aorta_trace_analysis analysis;
    for (int i = 0; i < RANKS; i++) {
        stages[i] = (struct stage){.at = 10000, .launch = 1000, .longer = 1};
        sample_kineto_begin(&stages[i].sample, i, RANKS);
        sample_kineto_kernel(&stages[i].sample, "fill", 7, 900, 9990, 10, ""); /* where the first step begins */
    }
    const double waited_us = run_schedule(stages, schedule);
    for (int i = 0; i < RANKS; i++) sample_kineto_open(&stages[i].sample, &list);
    check_ok(aorta_trace_analyze(&list, NULL, &analysis));
    check_ok(aorta_verdict_make(&analysis, verdict));
    aorta_trace_analysis_free(&analysis);
    aorta_trace_list_free(&list);
    return waited_us / 1e3;
}

static void a_zero_bubble_schedule_waits_for_less(void **state) {
    (void)state;
    static const double drawn_ms[] = {6, 2, 6}; /* without the overlap of steps */
    for (int way = 0; way < 3; way++) {
        const bool split = way == 1;
        const struct schedule schedule = {split, way == 2, MOST_MICROS / 2, 1000},
                              finer = {split, way == 2, MOST_MICROS, 500};
        struct aorta_verdict verdict, other;
        const double waited_ms = analyze_schedule(&schedule, &verdict), left_ms = analyze_schedule(&finer, &other);
        const struct aorta_finding *bubble = find(&verdict, AORTA_CAUSE_PIPELINE_BUBBLE);
        assert_non_null(bubble);
        assert_true(fabs(bubble->cost_ms - waited_ms) < 0.05 * waited_ms);
        assert_true(fabs(bubble->cost_ms - drawn_ms[way]) < 0.15 * drawn_ms[way]);
        assert_true(fabs(bubble->gain_ms - (waited_ms - left_ms)) < 0.1 * bubble->gain_ms);
        assert_true(fabs(value(bubble, AORTA_FACT_MICRO_BATCHES) - schedule.micros) < 1e-9);
        assert_int_equal(aorta_facts_find(&bubble->facts, AORTA_FACT_SPLIT_BACKWARD) != NULL, split);
        assert_int_equal(strstr(bubble->fixes[0].row->also, "or a longer warm-up") != NULL, split);
        aorta_verdict_free(&verdict);
        aorta_verdict_free(&other);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(equal_stages_wait_for_one_micro_batch),
                                       cmocka_unit_test(an_interleaved_schedule_is_known_by_the_last_ranks_sends),
                                       cmocka_unit_test(a_zero_bubble_schedule_waits_for_less),
                                       cmocka_unit_test(unequal_stages_are_stragglers_too),
                                       cmocka_unit_test(the_host_limits_more_micro_batches)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
