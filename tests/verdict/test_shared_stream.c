/* Collectives on the compute stream: only the order on the stream keeps them apart from compute that does not need
 * them. Four units a step; a gather comes before its unit's compute, a reduction after it.
 *
 *   gathers     | AG0 | gemm 0 | AG1 | gemm 1 | AG2 | gemm 2 | AG3 | gemm 3 | adam |
 *   reductions  | gemm 0 | AR0 | gemm 1 | AR1 | gemm 2 | AR2 | gemm 3 | AR3 | adam |
 *
 * With a stream of their own AG1 to AG3 and AR0 to AR2 run beside compute: 3 of 4 are hidden, at best. On a H200 a
 * product loses up to 0.78 of the hidden time, and a pointwise kernel 0.33 (tests/gpu/contention.py). A product with a
 * block for each of the 132 multiprocessors loses 0.50 at least. */
#include "check.h"
#include "samples/kineto.h"
#include "trace/open.h"
#include "verdict/facts.h"
#include "verdict/verdict.h"

#include <math.h>

enum { STEPS = 6, UNITS = 4, STREAM = 7 };
static const double GEMM_US = 1000, COMM_US = 600, SMALL_US = 5, ADAM_US = 200, LARGE_US = 800;

struct program {
    const char *device;
    const char *kernel, *collective, *group;
    bool gathers, trains;
    bool small;       /* a small reduction follows each one, as of a bias; their results are divided */
    const char *grid; /* of the products; NULL: not recorded */
};

static const char H200[] = "NVIDIA H200", A100[] = "NVIDIA A100"; /* as long */

static void add_collective_on(struct sample_kineto *sample, const struct program *program, const char *kernel,
                              int stream, double launch, double at, int step, int rank, int *number, double length) {
    const int elements = length > COMM_US ? 200000000 : length > SMALL_US ? 1000000 : 1000;
    char facts[512];
    snprintf(facts, sizeof facts,
             "\"Collective name\": \"%s\", \"In msg nelems\": %d, \"Out msg nelems\": %d, \"dtype\": "
             "\"BFloat16\", \"Group size\": 2, \"Process Group Name\": \"0\", \"Process Group Description\": \"%s\", "
             "\"Seq\": %d, \"Rank\": %d",
             program->collective, elements, elements, program->group, 2 * step * UNITS + ++*number, rank);
    sample_kineto_kernel(sample, kernel, stream, launch, at, length, facts);
}

static double add_collective(struct sample_kineto *sample, const struct program *program, double at, int step, int rank,
                             int *number, double length) {
    add_collective_on(sample, program, program->kernel, STREAM, at - 900, at, step, rank, number, length);
    at += length + 2;
    if (!program->small) return at;
    sample_kineto_kernel(sample, "elementwise_div", STREAM, at - 900, at, SMALL_US, "");
    return at + SMALL_US + 2;
}

static double add_step(struct sample_kineto *sample, const struct program *program, double at, int step, int rank) {
    const double begin = at;
    char name[32];
    int number = 0;
    for (int unit = 0; unit < UNITS; unit++) {
        if (program->gathers) at = add_collective(sample, program, at, step, rank, &number, COMM_US);
        if (program->trains)
            sample_kineto_event(sample, "cpu_op", "autograd::engine::evaluate_function: MmBackward0", 1, at - 880, 5,
                                "");
        else
            sample_kineto_event(sample, "cpu_op", "aten::mm", 1, at - 880, 5, "");
        sample_kineto_kernel(sample, "sm90_xmma_gemm", STREAM, at - 870, at, GEMM_US,
                             program->grid ? program->grid : "");
        at += GEMM_US + 2;
        if (!program->gathers) at = add_collective(sample, program, at, step, rank, &number, COMM_US);
        if (program->small) at = add_collective(sample, program, at, step, rank, &number, SMALL_US);
    }
    sample_kineto_kernel(sample, "elementwise_add", STREAM, at - 880, at, ADAM_US, "");
    at += ADAM_US + 2;
    snprintf(name, sizeof name, "ProfilerStep#%d", step);
    sample_kineto_event(sample, "user_annotation", name, 1, begin - 905, at - begin, "");
    return at;
}

typedef double add_step_fn(struct sample_kineto *sample, const struct program *program, double at, int step, int rank);

static void make_verdict(const struct program *program, add_step_fn *add, struct aorta_trace_list *list,
                         struct aorta_trace_analysis *analysis, struct aorta_verdict *verdict) {
    *list = (struct aorta_trace_list){0};
    for (int rank = 0; rank < 2; rank++) {
        struct sample_kineto sample;
        double at = 10000;
        sample_kineto_begin(&sample, rank, 2);
        memcpy(strstr(sample.text.data, H200), program->device, strlen(H200));
        for (int step = 0; step < STEPS; step++) at = add(&sample, program, at, step, rank);
        sample_kineto_open(&sample, list);
    }
    check_ok(aorta_trace_analyze(list, NULL, analysis));
    check_ok(aorta_verdict_make(analysis, verdict));
}

/* `lost`: of the hidden time. */
static void check_first(const struct program *program, enum aorta_cause cause, double at_best_us, double lost,
                        enum aorta_fact_key fact) {
    struct aorta_trace_list list;
    struct aorta_trace_analysis analysis;
    struct aorta_verdict verdict;
    make_verdict(program, add_step, &list, &analysis, &verdict);
    const struct aorta_finding *first = &verdict.findings[0];
    assert_int_equal(first->cause, cause);
    if (!(fabs(first->at_best_ms * 1e3 - at_best_us) < 0.02 * at_best_us)) fail_msg("%f ms at best", first->at_best_ms);
    if (!(fabs(first->slowed_ms / first->at_best_ms - (1 - lost)) < 0.01)) fail_msg("%f ms slowed", first->slowed_ms);
    assert_true(aorta_facts_has(&first->facts, fact));
    aorta_verdict_free(&verdict);
    aorta_trace_analysis_free(&analysis);
    aorta_trace_list_free(&list);
}

static const double LOST = (0.78 * UNITS * 1000 + 0.33 * 200) / (UNITS * 1000 + 200);

/* The pointwise kernels have no grid. */
static const double LEAST =
    (0.50 * UNITS * 1000 + 0.33 * 200) / (UNITS * 1000 + 200) * UNITS * 1000 / (UNITS * 1000 + 200);

static void gathers_on_the_compute_stream(void **state) {
    (void)state;
    struct program program = {H200, "ncclDevKernel_AllGather_RING_LL", "_allgather_base", "fsdp", true, true, false,
                              NULL};
    check_first(&program, AORTA_CAUSE_SERIALIZED_STREAMS, (UNITS - 1) * COMM_US, LOST, AORTA_FACT_OWN_STREAM);
    program.grid = "\"grid\": [131, 1, 1], \"block\": [128, 1, 1]";
    check_first(&program, AORTA_CAUSE_SERIALIZED_STREAMS, (UNITS - 1) * COMM_US, LOST, AORTA_FACT_OWN_STREAM);
    program.grid = "\"grid\": [132, 1, 1], \"block\": [128, 1, 1]";
    check_first(&program, AORTA_CAUSE_SERIALIZED_STREAMS, (1 - LEAST) * (UNITS - 1) * COMM_US,
                1 - (1 - LOST) / (1 - LEAST), AORTA_FACT_OWN_STREAM);
    program.device = A100; /* not known */
    check_first(&program, AORTA_CAUSE_SERIALIZED_STREAMS, (UNITS - 1) * COMM_US, 0, AORTA_FACT_OWN_STREAM);
}

/* What follows needs all that is exchanged. In parts it could run meanwhile: at best all of it is hidden. */
static void exchanges_on_the_compute_stream(void **state) {
    (void)state;
    check_first(&(struct program){H200, "ncclDevKernel_SendRecv", "all_to_allv", "ep", false, false, false, NULL},
                AORTA_CAUSE_SERIALIZED_STREAMS, UNITS * COMM_US, LOST, AORTA_FACT_OWN_STREAM);
}

static void reductions_of_gradients_on_the_compute_stream(void **state) {
    (void)state;
    for (int small = 0; small < 2; small++)
        check_first(&(struct program){H200, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "allreduce", "default_pg",
                                      false, true, small, NULL},
                    AORTA_CAUSE_SERIALIZED_STREAMS, (UNITS - 1) * COMM_US, LOST, AORTA_FACT_OWN_STREAM);
}

/* Gradients are scattered on a stream of their own, and the step ends with one large reduction on the compute stream:
 *
 *   compute  | gemm 0 | gemm 1 | gemm 2 | gemm 3 |    all-reduce     | adam |
 *   stream 20         |RS0|    |RS1|    |RS2|    |RS3|
 *   host    ||||||||||[                     sync                           ] */
static double add_inline_step(struct sample_kineto *sample, const struct program *program, double at, int step,
                              int rank) {
    const struct program scatters = {.collective = "reduce_scatter", .group = "default_pg"},
                         reduces = {.collective = "allreduce", .group = "default_pg"};
    const double begin = at, launch = at - 100;
    char name[32];
    int number = 0;
    (void)program;
    for (int unit = 0; unit < UNITS; unit++) {
        sample_kineto_event(sample, "cpu_op", "autograd::engine::evaluate_function: MmBackward0", 1, launch + 10 * unit,
                            5, "");
        sample_kineto_kernel(sample, "sm90_xmma_gemm", STREAM, launch + 10 * unit + 1, at, GEMM_US, "");
        at += GEMM_US + 2;
        add_collective_on(sample, &scatters, "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", 20, launch + 10 * unit + 6,
                          at, step, rank, &number, 200);
    }
    add_collective_on(sample, &reduces, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", STREAM, launch + 50, at, step, rank,
                      &number, LARGE_US);
    at += LARGE_US + 2;
    sample_kineto_kernel(sample, "elementwise_add", STREAM, launch + 60, at, ADAM_US, "");
    at += ADAM_US + 5;
    sample_kineto_event(sample, "cuda_runtime", "cudaDeviceSynchronize", 1, launch + 70, at - launch - 70, "");
    snprintf(name, sizeof name, "ProfilerStep#%d", step);
    sample_kineto_event(sample, "user_annotation", name, 1, begin - 105, at - begin + 105, "");
    return at + 120;
}

static void the_gain_is_of_the_collective_that_runs_last(void **state) {
    (void)state;
    struct aorta_trace_list list;
    struct aorta_trace_analysis analysis;
    struct aorta_verdict verdict;
    make_verdict(&(struct program){.device = H200}, add_inline_step, &list, &analysis, &verdict);
    assert_int_equal(verdict.findings[0].cause, AORTA_CAUSE_SERIALIZED_STREAMS);
    assert_int_equal(verdict.findings[0].collective, AORTA_ALL_REDUCE);
    aorta_verdict_free(&verdict);
    aorta_trace_analysis_free(&analysis);
    aorta_trace_list_free(&list);
}

/* Gradients are reduced in a row, on the compute stream or on another for which compute waits:
 *
 *   compute  | gemm 0 | gemm 1 | gemm 2 | gemm 3 | AR0 | AR1 | AR2 | AR3 | adam |
 *
 * During the backward pass, which takes half of the products at least, all but the last could run. */
static double add_late_step(struct sample_kineto *sample, const struct program *program, double at, int step,
                            int rank) {
    const double begin = at;
    char name[32];
    int number = 0;
    for (int unit = 0; unit < UNITS; unit++) {
        sample_kineto_event(sample, "cpu_op", "autograd::engine::evaluate_function: MmBackward0", 1,
                            begin - 880 + 9 * unit, 5, "");
        sample_kineto_kernel(sample, "sm90_xmma_gemm", STREAM, begin - 876 + 9 * unit, at, GEMM_US, "");
        at += GEMM_US + 2;
    }
    for (int unit = 0; unit < UNITS; unit++) {
        add_collective_on(sample, program, program->kernel, program->small ? 20 : STREAM, begin - 800 + 9 * unit, at,
                          step, rank, &number, COMM_US);
        at += COMM_US + 2;
    }
    sample_kineto_kernel(sample, "elementwise_add", STREAM, begin - 700, at, ADAM_US, "");
    at += ADAM_US + 2;
    snprintf(name, sizeof name, "ProfilerStep#%d", step);
    sample_kineto_event(sample, "user_annotation", name, 1, begin - 905, at - begin, "");
    return at;
}

static void reductions_after_the_backward_pass(void **state) {
    (void)state;
    for (int own = 0; own < 2; own++) {
        struct aorta_trace_list list;
        struct aorta_trace_analysis analysis;
        struct aorta_verdict verdict;
        const struct program program = {.device = A100,
                                        .kernel = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
                                        .collective = "allreduce",
                                        .group = "default_pg",
                                        .small = own};
        make_verdict(&program, add_late_step, &list, &analysis, &verdict);
        const struct aorta_finding *first = &verdict.findings[0];
        assert_int_equal(first->cause, own ? AORTA_CAUSE_EXPOSED_COLLECTIVE : AORTA_CAUSE_SERIALIZED_STREAMS);
        assert_true(aorta_facts_has(&first->facts, AORTA_FACT_AFTER_BACKWARD));
        if (!(fabs(first->at_best_ms * 1e3 - (UNITS - 1) * COMM_US) < 0.02 * COMM_US))
            fail_msg("%f ms at best", first->at_best_ms);
        aorta_verdict_free(&verdict);
        aorta_trace_analysis_free(&analysis);
        aorta_trace_list_free(&list);
    }
}

/* A graph's nodes on two streams, one after the other:
 *
 *   stream 7   | RS0 | gemm 0 |                | RS2 | gemm 2 |                …
 *   stream 20                 | RS1 | gemm 1 |                | RS3 | gemm 3 |
 *
 * The edges of the graph are not recorded. Without the reductions the products still follow each other. */
static double add_graph_step(struct sample_kineto *sample, const struct program *program, double at, int step,
                             int rank) {
    const double begin = at;
    const unsigned launch = ++sample->correlation;
    char name[32], args[96];
    (void)program;
    (void)rank;
    snprintf(args, sizeof args, "\"correlation\": %u", launch);
    sample_kineto_event(sample, "cuda_runtime", "cudaGraphLaunch", 1, at - 100, 20, args);
    for (int unit = 0; unit < 2 * UNITS; unit++) {
        const int stream = unit % 2 ? 20 : STREAM;
        snprintf(args, sizeof args, "\"device\": 0, \"stream\": %d, \"correlation\": %u", stream, launch);
        sample_kineto_event(sample, "kernel", "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", stream, at, COMM_US,
                            args);
        at += COMM_US + 1;
        sample_kineto_event(sample, "kernel", "sm90_xmma_gemm", stream, at, GEMM_US, args);
        at += GEMM_US + 1;
    }
    snprintf(name, sizeof name, "ProfilerStep#%d", step);
    sample_kineto_event(sample, "user_annotation", name, 1, begin - 110, at - begin, "");
    return at + 2;
}

static void nodes_of_a_graph_follow_each_other(void **state) {
    (void)state;
    struct aorta_trace_list list;
    struct aorta_trace_analysis analysis;
    struct aorta_verdict verdict;
    make_verdict(&(struct program){.device = H200}, add_graph_step, &list, &analysis, &verdict);
    const struct aorta_finding *found = aorta_verdict_find(&verdict, AORTA_CAUSE_SERIALIZED_STREAMS);
    assert_non_null(found);
    if (!(found->alone_ms * 1e3 <= 2 * UNITS * COMM_US)) fail_msg("%f ms alone", found->alone_ms);
    if (!(verdict.replay.floor_ms * 1e3 >= 2 * UNITS * GEMM_US)) fail_msg("%f ms remain", verdict.replay.floor_ms);
    aorta_verdict_free(&verdict);
    aorta_trace_analysis_free(&analysis);
    aorta_trace_list_free(&list);
}

/* The next operation needs the result: another stream changes nothing. */
static void reductions_of_activations(void **state) {
    (void)state;
    const char *kernel = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL";
    check_first(&(struct program){H200, kernel, "allreduce", "TENSOR_MODEL_PARALLEL_GROUP", false, true, false, NULL},
                AORTA_CAUSE_EXPOSED_COLLECTIVE, UNITS * COMM_US, LOST, AORTA_FACT_ACTIVATIONS);
    check_first(&(struct program){H200, kernel, "allreduce", "default_pg", false, false, false, NULL},
                AORTA_CAUSE_EXPOSED_COLLECTIVE, UNITS * COMM_US, LOST, AORTA_FACT_ACTIVATIONS);
}

/* Three steps of `aorta train` with config/quickstart.yaml on one rank of a CPU: a replay without shared queues is
 * shorter, though no launched compute waits in one. What waits is of no kind, so it has no name. */
static void a_queue_without_waits_is_no_cause(void **state) {
    (void)state;
    const char *paths[] = {TEST_DATA "/cpu_one_rank.jsonl.gz"};
    struct aorta_trace_list list = {0};
    struct aorta_trace_analysis analysis;
    struct aorta_verdict verdict;
    check_ok(aorta_trace_open_inputs(paths, 1, NULL, &list));
    check_ok(aorta_trace_analyze(&list, NULL, &analysis));
    check_ok(aorta_verdict_make(&analysis, &verdict));
    assert_non_null(aorta_verdict_find(&verdict, AORTA_CAUSE_EXPOSED_COLLECTIVE));
    assert_null(aorta_verdict_find(&verdict, AORTA_CAUSE_SERIALIZED_STREAMS));
    aorta_verdict_free(&verdict);
    aorta_trace_analysis_free(&analysis);
    aorta_trace_list_free(&list);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_queue_without_waits_is_no_cause),
                                       cmocka_unit_test(gathers_on_the_compute_stream),
                                       cmocka_unit_test(exchanges_on_the_compute_stream),
                                       cmocka_unit_test(reductions_of_gradients_on_the_compute_stream),
                                       cmocka_unit_test(reductions_of_activations),
                                       cmocka_unit_test(nodes_of_a_graph_follow_each_other),
                                       cmocka_unit_test(reductions_after_the_backward_pass),
                                       cmocka_unit_test(the_gain_is_of_the_collective_that_runs_last)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
