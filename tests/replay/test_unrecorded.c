/* What recording cost a host is found from the recording and taken out of its step.
 *
 * A unit of the host's work, as a profiler records it (o: what stamping an operation costs, c: CUPTI's part of a call):
 *
 *     own time  o[aten::t o[aten::transpose]o ]o  c[cudaLaunchKernel c]c   own time ...
 *                                                        \
 *     device                                              [ kernel ]
 *
 * All that is not stamping runs `pace` times as long as without the recording. */
#include "analysis/analysis.h"
#include "check.h"
#include "replay/unrecorded.h"
#include "replaying.h"
#include "trace/builder.h"

#include <math.h>
#include <stdio.h>

enum { STEPS = 6, UNITS = 30, LATENCY_NS = 3000, NEXT_NS = 1000 };

struct program {
    int64_t own_ns, kernel_ns;            /* of each unit, without the recording */
    int64_t enter_ns, leave_ns, cupti_ns; /* what recording costs: an operation, before and after; a launch, within */
    double pace;
    bool by_engine;    /* every second step's half runs on a thread of autograd's, which the first one waits for */
    int64_t batch_ns;  /* a data loader's processes bring a batch each; 0: none */
    int64_t taking_ns; /* that a batch costs which is ready; 0: 10 us */
    int64_t sleep_ns;  /* of the host, before a step; 0: it does not sleep */
    bool calls_only;   /* `aorta trace run` records; every second step is `pace` times as long, recorded or not */
};

struct made {
    const struct program *program;
    struct aorta_trace_builder *builder;
    uint64_t correlation;
    uint32_t threads[2];
    int thread;
    bool slow;                    /* a step of calls_only */
    double now_ns, unrecorded_ns; /* the host's time as recorded, and without */
    double slept_ns;              /* since when */
    double device_ns;
    struct aorta_trace_list list;
    struct aorta_trace_analysis analysis;
    struct aorta_trace_graph graph;
    struct aorta_unrecorded unrecorded;
};

static uint32_t text(const struct made *made, const char *string) {
    return aorta_trace_builder_text(made->builder, string, strlen(string));
}

static void own(struct made *made, int64_t ns) {
    const bool calls = made->program->calls_only;
    const double recorded_ns = (calls && !made->slow ? 1 : made->program->pace) * (double)ns;
    made->now_ns += recorded_ns;
    made->unrecorded_ns += calls ? recorded_ns : (double)ns;
}

static void cost(struct made *made, int64_t ns) {
    made->now_ns += (double)ns;
}

static struct aorta_trace_annotation frame(const struct made *made, const char *name, double start_ns) {
    return (struct aorta_trace_annotation){(int64_t)start_ns, (int64_t)made->now_ns, text(made, name),
                                           made->threads[made->thread]};
}

static void operation(const struct made *made, const char *name, double start_ns) {
    const struct aorta_operation facts = {.name = name, .name_length = strlen(name), .sequence = -1};
    const struct aorta_trace_annotation row = frame(made, name, start_ns);
    aorta_trace_builder_operation(made->builder, &row, -1, &facts);
}

static void pass_through(struct made *made) {
    const struct program *program = made->program;
    cost(made, program->enter_ns);
    const double outer_ns = made->now_ns;
    own(made, 150);
    cost(made, program->enter_ns);
    const double inner_ns = made->now_ns;
    operation(made, "aten::transpose", inner_ns);
    cost(made, program->leave_ns);
    own(made, 50);
    operation(made, "aten::t", outer_ns);
    cost(made, program->leave_ns);
}

static void launch(struct made *made) {
    const struct program *program = made->program;
    const int64_t outside_ns = program->cupti_ns < 300 ? program->cupti_ns : 300;
    cost(made, outside_ns);
    const double start_ns = made->now_ns;
    own(made, 2200);
    cost(made, program->cupti_ns);
    const struct aorta_trace_annotation row = frame(made, "cudaLaunchKernel", start_ns);
    const struct aorta_trace_call call = {.start_ns = row.start_ns,
                                          .end_ns = row.end_ns,
                                          .correlation = ++made->correlation,
                                          .name = row.name,
                                          .thread = row.thread,
                                          .kind = AORTA_CALL_LAUNCH};
    aorta_trace_builder_frame(made->builder, &row, AORTA_FRAME_CALL);
    aorta_trace_builder_call(made->builder, &call);
    cost(made, outside_ns);
    double begin_ns = (double)call.end_ns + LATENCY_NS;
    if (made->device_ns + NEXT_NS > begin_ns) begin_ns = made->device_ns + NEXT_NS;
    made->device_ns = begin_ns + (double)program->kernel_ns;
    const struct aorta_trace_work work = {.start_ns = (int64_t)begin_ns,
                                          .end_ns = (int64_t)made->device_ns,
                                          .bytes = -1,
                                          .correlation = made->correlation,
                                          .name = text(made, "relu"),
                                          .stream = aorta_trace_builder_stream(made->builder, 0, -1, 7),
                                          .queue = AORTA_TRACE_NONE,
                                          .kind = AORTA_TRACE_KERNEL};
    aorta_trace_builder_work(made->builder, &work, -1, NULL, -1);
}

/* The loader takes its time, which the host's does not change. */
static void load(struct made *made, double last_ns) {
    const double start_ns = made->now_ns, ready_ns = last_ns + (double)made->program->batch_ns;
    const double taken_ns = start_ns + (double)(made->program->taking_ns ? made->program->taking_ns : 10000);
    made->now_ns = ready_ns > taken_ns ? ready_ns : taken_ns;
    const struct aorta_trace_annotation row =
        frame(made, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", start_ns);
    aorta_trace_builder_annotation(made->builder, &row);
}

static void record(struct made *made, const struct program *program) {
    *made = (struct made){.program = program, .now_ns = 1e6};
    const enum aorta_trace_format format = program->calls_only ? AORTA_TRACE_SPOOL : AORTA_TRACE_KINETO;
    check_ok(aorta_trace_builder_create(format, "made", NULL, &made->builder));
    aorta_trace_builder_head(made->builder)->rank = 0;
    for (int i = 0; i < 2; i++) made->threads[i] = aorta_trace_builder_thread(made->builder, 1, 100 + i);
    double batch_ns = made->now_ns;
    for (int step = 0; step < STEPS; step++) {
        char name[32];
        snprintf(name, sizeof name, "ProfilerStep#%d", step);
        const double start_ns = made->now_ns;
        made->slow = step % 2;
        if (step == STEPS / 2) {
            made->slept_ns = made->now_ns;
            cost(made, program->sleep_ns);
        }
        if (program->batch_ns) load(made, batch_ns);
        batch_ns = made->now_ns;
        for (int unit = 0; unit < UNITS; unit++) {
            made->thread = program->by_engine && unit >= UNITS / 2;
            own(made, program->own_ns);
            if (!program->calls_only) pass_through(made);
            launch(made);
        }
        made->thread = 0;
        const struct aorta_trace_annotation row = frame(made, name, start_ns);
        aorta_trace_builder_annotation(made->builder, &row);
    }
    struct aorta_trace *trace;
    check_ok(aorta_trace_builder_finish(made->builder, &trace));
    check_ok(aorta_trace_list_add(&made->list, trace));
    check_ok(aorta_trace_analyze(&made->list, NULL, &made->analysis));
    check_ok(aorta_trace_graph_make(&made->analysis, &made->graph));
    check_ok(aorta_trace_graph_unrecord(&made->graph, &made->unrecorded));
}

static void end(struct made *made) {
    aorta_trace_graph_free(&made->graph);
    aorta_trace_analysis_free(&made->analysis);
    aorta_trace_list_free(&made->list);
}

static void expect_near(double found, double expected, double tolerance) {
    if (fabs(found - expected) > tolerance * expected) fail_msg("%f, expected %f", found, expected);
}

/* The calibration: pairs of operations show what stamping costs, launches what CUPTI does. */
static void costs_are_found(void **state) {
    (void)state;
    const struct program program = {
        .own_ns = 16900, .kernel_ns = 2000, .enter_ns = 850, .leave_ns = 350, .cupti_ns = 2800, .pace = 1};
    struct made made;
    struct aorta_recording_cost *cost;
    record(&made, &program);
    check_ok(aorta_recording_cost_make(made.list.items[0], &cost));
    aorta_recording_cost_weigh(cost, (struct aorta_recording_weight){1, 1});
    const struct aorta_recording_costs *found = aorta_recording_costs(cost);
    expect_near(found->stamp[AORTA_STAMPED_OPERATION].enter_ns, 850, 0.01);
    expect_near(found->stamp[AORTA_STAMPED_OPERATION].leave_ns, 350, 0.01);
    expect_near(found->within_ns, 2800, 0.01);
    expect_near(found->spread, 1, 0.01);
    /* 2 x (850 + 350) + 2800 + 2 x 300 of 16900 + 200 + 2200 + 5800 ns */
    expect_near(found->share, 5800.0 / 25100, 0.02);
    assert_true(found->pace > 1.3 && found->pace < 1.5);
    const int64_t unit_ns = aorta_recording_cost_between(cost, made.threads[0], 2000000, 3000000);
    expect_near((double)unit_ns, 1e6 - (1e6 - 1e6 * found->share) / found->pace, 0.02);
    assert_int_equal(aorta_recording_cost_between(cost, made.threads[1], 2000000, 3000000), 0);
    aorta_recording_cost_free(cost);
    end(&made);
}

/* A host that sleeps for ten seconds between two stamps: recording cost it something in the last 4.29 s alone.
 *
 *     stamp |---- 5.7 s: nothing ----|---- 2^32 ns: in proportion ----| stamp */
static void a_long_sleep(void **state) {
    (void)state;
    const int64_t slept_ns = 10000000000, last_ns = UINT32_MAX;
    const struct program program = {.own_ns = 16900,
                                    .kernel_ns = 2000,
                                    .enter_ns = 850,
                                    .leave_ns = 350,
                                    .cupti_ns = 2800,
                                    .pace = 1,
                                    .sleep_ns = slept_ns};
    struct made made;
    struct aorta_recording_cost *cost;
    record(&made, &program);
    check_ok(aorta_recording_cost_make(made.list.items[0], &cost));
    aorta_recording_cost_weigh(cost, (struct aorta_recording_weight){1, 1});
    const int64_t from_ns = (int64_t)made.slept_ns, to_ns = from_ns + slept_ns;
    const int64_t all_ns = aorta_recording_cost_between(cost, made.threads[0], from_ns, to_ns);
    assert_true(all_ns > 10000 && all_ns < 500000);
    assert_int_equal(aorta_recording_cost_between(cost, made.threads[0], from_ns, to_ns - last_ns - 100000), 0);
    expect_near((double)aorta_recording_cost_between(cost, made.threads[0], from_ns, to_ns - last_ns / 2),
                (double)all_ns / 2, 0.01);
    aorta_recording_cost_free(cost);
    end(&made);
}

/* The host is the limit: with stamps of 5.8 us in 31 us of a unit the rest runs 1.3 times as long. */
static void a_host_bound_step_is_found(void **state) {
    (void)state;
    struct program program = {
        .own_ns = 16900, .kernel_ns = 2000, .enter_ns = 850, .leave_ns = 350, .cupti_ns = 2800, .pace = 1.3};
    struct made made;
    for (int engine = 0; engine < 2; engine++) {
        program.by_engine = engine;
        record(&made, &program);
        assert_true(made.unrecorded.known);
        expect_near(made.unrecorded.recorded_ns, (made.now_ns - 1e6) / STEPS, 0.01);
        expect_near(made.unrecorded.step_ns, made.unrecorded_ns / STEPS, 0.08);
        assert_true(made.unrecorded.range_ns[0] < made.unrecorded_ns / STEPS);
        assert_true(made.unrecorded.range_ns[1] > made.unrecorded_ns / STEPS);
        end(&made);
    }
}

/* What steps of calls differ by is the program's and the machine's: only the calls' cost goes. */
static void steps_of_calls_stay_apart(void **state) {
    (void)state;
    const struct program program = {
        .own_ns = 16900, .kernel_ns = 2000, .cupti_ns = 2800, .pace = 1.6, .calls_only = true};
    struct made made;
    record(&made, &program);
    assert_true(made.unrecorded.known);
    expect_near(made.unrecorded.recorded_ns, (made.now_ns - 1e6) / STEPS, 0.05);
    expect_near(made.unrecorded.step_ns / made.unrecorded.recorded_ns, made.unrecorded_ns / (made.now_ns - 1e6), 0.05);
    end(&made);
}

/* The device is the limit, recorded or not. */
static void a_device_bound_step_stays(void **state) {
    (void)state;
    const struct program program = {
        .own_ns = 16900, .kernel_ns = 60000, .enter_ns = 850, .leave_ns = 350, .cupti_ns = 2800, .pace = 1.3};
    struct made made;
    record(&made, &program);
    assert_true(made.unrecorded.known);
    assert_true(made.unrecorded.step_ns == made.unrecorded.recorded_ns);
    expect_near(made.unrecorded.range_ns[0], 0.98 * made.unrecorded.recorded_ns, 1e-6); /* as devices vary */
    expect_near(made.unrecorded.range_ns[1], 1.02 * made.unrecorded.recorded_ns, 1e-6);
    end(&made);
}

/* The same with a stall of 30 ms, which varies as the host's own time does. */
static void a_stall_varies_with_the_host(void **state) {
    (void)state;
    const struct program program = {.own_ns = 16900,
                                    .kernel_ns = 60000,
                                    .enter_ns = 850,
                                    .leave_ns = 350,
                                    .cupti_ns = 2800,
                                    .pace = 1.3,
                                    .sleep_ns = 30000000};
    struct made made;
    record(&made, &program);
    const double stall_ns = (double)program.sleep_ns / STEPS;
    assert_true(made.unrecorded.range_ns[0] < made.unrecorded.step_ns - 0.12 * stall_ns);
    assert_true(made.unrecorded.range_ns[1] > made.unrecorded.step_ns + 0.15 * stall_ns);
    end(&made);
}

/* Recording makes the host the limit; without it the device is: 25 us a unit. */
static void the_limit_changes(void **state) {
    (void)state;
    const struct program program = {
        .own_ns = 16900, .kernel_ns = 24000, .enter_ns = 850, .leave_ns = 350, .cupti_ns = 2800, .pace = 1.3};
    struct made made;
    record(&made, &program);
    expect_near(made.unrecorded.recorded_ns, (made.now_ns - 1e6) / STEPS, 0.01);
    expect_near(made.unrecorded.step_ns, UNITS * 25000.0, 0.01);
    end(&made);
}

static void what_costs_nothing_stays(void **state) {
    (void)state;
    const struct program program = {.own_ns = 16900, .kernel_ns = 2000, .pace = 1};
    struct made made;
    record(&made, &program);
    assert_true(made.unrecorded.known);
    assert_true(made.unrecorded.step_ns == made.unrecorded.recorded_ns);
    end(&made);
}

/* A batch each 2 ms, of which the recorded host works 0.93: the wait for it grows, the step stays. */
static void a_loader_is_no_faster(void **state) {
    (void)state;
    const struct program program = {.own_ns = 16900,
                                    .kernel_ns = 2000,
                                    .enter_ns = 850,
                                    .leave_ns = 350,
                                    .cupti_ns = 2800,
                                    .pace = 1.3,
                                    .batch_ns = 2000000};
    struct made made;
    record(&made, &program);
    expect_near(made.unrecorded.recorded_ns, 2e6, 0.01);
    expect_near(made.unrecorded.step_ns, 2e6, 0.01);
    assert_true(made.unrecorded.range_ns[0] < 0.95 * 2e6 &&
                made.unrecorded.range_ns[1] > 1.05 * 2e6); /* so do loaders */
    end(&made);
}

/* Taking a batch that is ready costs 0.15 or 0.45 ms of each step, as its tensors are mapped: the host says when the
 * next one is taken. */
static void ready_batches(int64_t taking_ns) {
    struct program program = {.own_ns = 250000,
                              .kernel_ns = 2000,
                              .enter_ns = 20000,
                              .leave_ns = 20000,
                              .cupti_ns = 20000,
                              .pace = 1.3,
                              .batch_ns = 1,
                              .taking_ns = taking_ns};
    struct made made;
    record(&made, &program);
    const double ready_ns = made.unrecorded.step_ns;
    assert_true(ready_ns < 0.95 * made.unrecorded.recorded_ns);
    end(&made);
    program.batch_ns = 0;
    record(&made, &program);
    expect_near(ready_ns - made.unrecorded.step_ns, (double)taking_ns, 0.3);
    end(&made);
}

static void batches_that_are_ready_do_not_wait(void **state) {
    (void)state;
    ready_batches(150000);
    ready_batches(450000);
}

static int64_t draw(uint64_t *seed, int64_t most) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((*seed >> 33) % (uint64_t)(most + 1));
}

/* Whatever a recording costs: the step without it is no longer than with it, in its range, and what a replay of the
 * graph gives from then on; no removal makes it longer. */
static void any_program_is_no_slower_unrecorded(void **state) {
    (void)state;
    uint64_t seed = 33;
    for (int round = 0; round < 60; round++) {
        const struct program program = {.own_ns = draw(&seed, 30000),
                                        .kernel_ns = 1000 + draw(&seed, 50000),
                                        .enter_ns = draw(&seed, 2000),
                                        .leave_ns = draw(&seed, 800),
                                        .cupti_ns = draw(&seed, 6000),
                                        .pace = 1 + (double)draw(&seed, 80) / 100,
                                        .by_engine = draw(&seed, 1),
                                        .batch_ns = draw(&seed, 3) ? 0 : 1000000 + draw(&seed, 2000000)};
        struct made made;
        struct aorta_gains gains;
        record(&made, &program);
        const struct aorta_unrecorded *found = &made.unrecorded;
        assert_true(found->known && found->step_ns > 0);
        if (found->step_ns > found->recorded_ns * 1.0001)
            fail_msg("%d: %f > %f", round, found->step_ns, found->recorded_ns);
        assert_true(found->range_ns[0] <= found->step_ns && found->step_ns <= found->range_ns[1]);
        measure_gains(&made.graph.graph, &gains);
        assert_true(gains.replayed_ns == found->step_ns && gains.measured_ns == found->step_ns);
        assert_true(gains.floor_ns <= gains.replayed_ns && gains.floor_ns >= 0);
        end(&made);
    }
}

/* Nothing of the host: nobody knows. */
static void without_a_host_it_is_not_known(void **state) {
    (void)state;
    struct made made = {0};
    check_ok(aorta_trace_builder_create(AORTA_TRACE_ROCPROF_JSON, "made", NULL, &made.builder));
    const struct aorta_trace_work work = {.start_ns = 1000,
                                          .end_ns = 2000,
                                          .bytes = -1,
                                          .name = text(&made, "relu"),
                                          .stream = aorta_trace_builder_stream(made.builder, 0, -1, 7),
                                          .queue = AORTA_TRACE_NONE,
                                          .kind = AORTA_TRACE_KERNEL};
    aorta_trace_builder_work(made.builder, &work, -1, NULL, -1);
    struct aorta_trace *trace;
    check_ok(aorta_trace_builder_finish(made.builder, &trace));
    check_ok(aorta_trace_list_add(&made.list, trace));
    check_ok(aorta_trace_analyze(&made.list, NULL, &made.analysis));
    check_ok(aorta_trace_graph_make(&made.analysis, &made.graph));
    check_ok(aorta_trace_graph_unrecord(&made.graph, &made.unrecorded));
    assert_false(made.unrecorded.known);
    assert_non_null(made.unrecorded.reason);
    end(&made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(costs_are_found),
        cmocka_unit_test(a_long_sleep),
        cmocka_unit_test(a_host_bound_step_is_found),
        cmocka_unit_test(steps_of_calls_stay_apart),
        cmocka_unit_test(a_device_bound_step_stays),
        cmocka_unit_test(a_stall_varies_with_the_host),
        cmocka_unit_test(the_limit_changes),
        cmocka_unit_test(what_costs_nothing_stays),
        cmocka_unit_test(a_loader_is_no_faster),
        cmocka_unit_test(batches_that_are_ready_do_not_wait),
        cmocka_unit_test(any_program_is_no_slower_unrecorded),
        cmocka_unit_test(without_a_host_it_is_not_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
