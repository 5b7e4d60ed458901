/* Ranks of different speed run as many iterations where they wait for each other. All ranks run this at once. */
#include "check.h"

#include "hwq/graph.h"
#include "hwq/run.h"

#include <time.h>

static void be_slow(void *user) {
    const struct timespec pause = {.tv_nsec = 10000000L * (1 + *(const int *)user)};
    nanosleep(&pause, NULL);
}

static aorta_status run_slowly(const struct hwq_operation *o, struct aorta_stream *stream) {
    return aorta_host_call(stream, be_slow, *(int *const *)o->shape);
}

/* The second rank takes twice as long as the first. */
static void build(struct hwq_graph *g) {
    static const struct hwq_kind sleeping = {.name = "sleep", .span = AORTA_SPAN_HOST, .run = run_slowly};
    const int *rank = &g->hwq->ranks.rank;
    struct hwq_tensor *counts = g->state = hwq_state(g, sizeof *counts);
    if (counts) *counts = hwq_constant(g, AORTA_F32, 2, NULL, "numbers of iterations");
    hwq_append(g, &(struct hwq_operation){.kind = &sleeping}, &rank, sizeof rank);
    g->work = 1.0;
}

static aorta_status report(struct hwq_graph *g, struct aorta_hwq_result *result) {
    struct aorta_hwq *hwq = g->hwq;
    float *memory = hwq_floats(*(const struct hwq_tensor *)g->state),
          own = (float)aorta_hwq_result_iterations(result, 100, 20), most;
    AORTA_TRY(aorta_hwq_transfer(hwq, memory, &own, sizeof own));
    AORTA_TRY(aorta_all_reduce(hwq->world, hwq->streams[0], memory, memory + 1, 1, AORTA_F32, AORTA_MAX));
    AORTA_TRY(aorta_hwq_transfer(hwq, &most, memory + 1, sizeof most));
    assert_int_equal((int)own, (int)most);
    return NULL;
}

static const struct aorta_hwq_workload uneven = {.name = "uneven",
                                                 .summary = "one rank is slower than the other",
                                                 .streams = {.min = 1, .max = 1, .recommended = 1},
                                                 .unit = "iterations/s",
                                                 .collectives = true,
                                                 .build = build,
                                                 .report = report};

static void test_ranks_run_as_many_iterations(void **state) {
    struct aorta_device *device;
    struct aorta_comm *world;
    struct aorta_hwq_result result;
    struct aorta_hwq_run run = {.workload = &uneven, .iterations = 3};
    (void)state;
    check_ok(aorta_ranks_detect(&run.ranks));
    check_ok(aorta_device_open(AORTA_DEVICE_CPU, 0, &device));
    const struct aorta_comm_options options = {
        .device = device, .backend = "auto", .ranks = run.ranks, .timeout_s = 60};
    check_ok(aorta_comm_open(&options, &world));
    run.device = device;
    run.world = world;
    check_ok(aorta_hwq_run_execute(&run, &result));
    aorta_hwq_result_free(&result);
    aorta_comm_close(world);
    aorta_device_close(device);
    check_ok(aorta_comm_shutdown(&run.ranks, 60));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ranks_run_as_many_iterations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
