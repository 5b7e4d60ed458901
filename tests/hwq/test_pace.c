/* Ranks of different speed run as many iterations where they wait for each other. All ranks run this at once. */
#include "check.h"

#include "hwq/run.h"
#include "hwq/verify.h"

#include <time.h>

static aorta_status setup(struct aorta_hwq *hwq, void **made) {
    void *memory;
    AORTA_TRY(aorta_hwq_alloc(hwq, 2 * sizeof(float), "numbers of iterations", &memory));
    *made = memory;
    return NULL;
}

static aorta_status be_slow(void *user) {
    const struct timespec pause = {.tv_nsec = 10000000L * (1 + *(const int *)user)};
    nanosleep(&pause, NULL);
    return NULL;
}

/* The second rank takes twice as long as the first. */
static aorta_status iterate(struct aorta_hwq *hwq, void *state) {
    (void)state;
    AORTA_TRY(aorta_hwq_begin(hwq, 0, AORTA_SPAN_HOST, "sleep"));
    AORTA_TRY(aorta_host_call(hwq->streams[0], be_slow, &hwq->ranks.rank));
    return aorta_hwq_end(hwq, 0);
}

static aorta_status work(struct aorta_hwq *hwq, void *state, int64_t iterations, double *amount) {
    (void)hwq, (void)state;
    *amount = (double)iterations;
    return NULL;
}

static aorta_status report(struct aorta_hwq *hwq, void *state, struct aorta_hwq_result *result) {
    float *memory = state, own = (float)aorta_hwq_result_iterations(result, 100, 20), most;
    AORTA_TRY(aorta_hwq_upload(hwq, memory, &own, sizeof own));
    AORTA_TRY(aorta_all_reduce(hwq->world, hwq->streams[0], memory, memory + 1, 1, AORTA_F32, AORTA_MAX));
    AORTA_TRY(aorta_hwq_download(hwq, &most, memory + 1, sizeof most));
    assert_int_equal((int)own, (int)most);
    return NULL;
}

static const struct aorta_hwq_workload uneven = {.name = "uneven",
                                                 .summary = "one rank is slower than the other",
                                                 .min_streams = 1,
                                                 .max_streams = 1,
                                                 .recommended_streams = 1,
                                                 .unit = "iterations/s",
                                                 .collectives = true,
                                                 .setup = setup,
                                                 .iterate = iterate,
                                                 .work = work,
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
