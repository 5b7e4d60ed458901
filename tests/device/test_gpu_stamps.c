/* The GPU driver on the fake CUDA: timestamps, events, which launch none, and the clock that timestamps are read from.
 */
#include "base/clock.h"
#include "device/gpu_rig.h"

#include <stdlib.h>
#include <unistd.h>

/* ---- timestamps ---- */

static aorta_status queue_stamps(struct aorta_stream *stream, int64_t *stamps, int64_t *sum) {
    AORTA_TRY(aorta_timestamp(stream, &stamps[0]));
    AORTA_TRY(aorta_timestamp(stream, &stamps[1]));
    AORTA_TRY(queue_add(stream, sum, 1));
    for (int i = 2; i < 7; i++) AORTA_TRY(aorta_timestamp(stream, &stamps[i]));
    return NULL;
}

static void check_stamps(int64_t *stamps) {
    for (int i = 1; i < 7; i++) assert_true(stamps[i - 1] && stamps[i - 1] <= stamps[i]);
    memset(stamps, 0, 7 * sizeof *stamps);
}

/* In a graph. Outside, each is written at once: the host may be late with what comes next. */
static void test_timestamps_in_a_row_share_a_kernel(void **state) {
    (void)state;
    struct aorta_device *device = open_gpu();
    struct aorta_stream *stream = open_stream(device, "stamps");
    struct aorta_graph *graph;
    void *memory;
    check_ok(aorta_pinned_alloc(device, 8 * sizeof(int64_t), "stamps", &memory));
    int64_t *stamps = memory;
    memset(stamps, 0, 8 * sizeof *stamps);
    control()->strike("cuLaunchKernel", 0, 0, 0);
    check_ok(queue_stamps(stream, stamps, &stamps[7]));
    assert_int_equal(control()->calls(), 8);
    check_ok(aorta_stream_synchronize(stream));
    check_stamps(stamps);
    check_ok(aorta_capture_begin(stream));
    control()->strike("cuLaunchKernel", 0, 0, 0);
    check_ok(queue_stamps(stream, stamps, &stamps[7]));
    check_ok(aorta_capture_end(stream, &graph));
    assert_int_equal(control()->calls(), 4); /* 2 together, the add, 4 together and 1 */
    check_ok(aorta_graph_launch(graph, stream));
    check_ok(aorta_stream_synchronize(stream));
    assert_int_equal(stamps[0], stamps[1]);
    check_stamps(stamps);
    aorta_graph_destroy(graph);
    aorta_stream_destroy(stream);
    aorta_pinned_free(device, memory);
    aorta_device_close(device);
}

/* ---- events ---- */

static void test_events_launch_nothing(void **state) {
    (void)state;
    struct aorta_device *device = open_gpu();
    struct aorta_stream *stream = open_stream(device, "s");
    struct aorta_event *event;
    check_ok(aorta_event_create(device, &event));
    control()->strike("cuLaunchKernel", 0, 0, 0);
    check_ok(aorta_event_record(event, stream));
    assert_int_equal(control()->calls(), 0); /* waiting may launch the clock's own */
    check_ok(aorta_event_synchronize(event));
    aorta_event_destroy(event);
    aorta_stream_destroy(stream);
    aorta_device_close(device);
}

/* ---- the clock ---- */

/* The least error of a stamp: never more than the device's bound. */
static int64_t look_at_the_clock(struct aorta_device *device, struct aorta_stream *stream, int64_t *stamp) {
    int64_t allowed = aorta_device_clock_error_ns(device), before = aorta_clock_ns();
    check_ok(aorta_timestamp(stream, stamp));
    check_ok(aorta_stream_synchronize(stream));
    int64_t after = aorta_clock_ns(), early = before - *stamp, late = *stamp - after;
    int64_t off = early > late ? early : late, allowed_then = aorta_device_clock_error_ns(device);
    assert_true(off <= (allowed > allowed_then ? allowed : allowed_then));
    return off;
}

/* Stamps for a second; then what the device's clock is off by at least, the best of many looks. */
static int64_t run_the_clock(struct aorta_device *device, struct aorta_stream *stream, int64_t *stamp) {
    int64_t best = INT64_MAX;
    for (int i = 0; i < 200; i++) {
        look_at_the_clock(device, stream, stamp);
        usleep(5000);
    }
    for (int i = 0; i < 200; i++) {
        int64_t off = look_at_the_clock(device, stream, stamp);
        if (off < best) best = off;
    }
    return best;
}

/* A value of the fake's timer, and the host's time just before and after it was read. */
struct old_time {
    int64_t timer, before_ns, after_ns;
};

/* By how much device time is outside of what the host saw. */
static int64_t old_time_is_off(struct aorta_device *device, const struct old_time *old) {
    int64_t time_ns = aorta_gpu_timer_time(device, old->timer);
    if (time_ns < old->before_ns) return old->before_ns - time_ns;
    return time_ns > old->after_ns ? time_ns - old->after_ns : 0;
}

/* The fake's timer runs 40 in a million too fast: after a while device time is the host's all the same, and a time
 * before all but the first measurement is none the worse. Without care it would be off by 40 us after the first round
 * and by more after each. On a busy machine no measurement of a round may be good; a later one is. */
static void test_the_clocks_stay_together(void **state) {
    (void)state;
    struct aorta_device *device = open_gpu();
    struct aorta_stream *stream = open_stream(device, "clock");
    void *stamp;
    struct old_time old = {.before_ns = aorta_clock_ns()};
    old.timer = control()->timer();
    old.after_ns = aorta_clock_ns();
    const int64_t allowed = 2 * aorta_device_clock_error_ns(device);
    int64_t off = INT64_MAX, old_off = INT64_MAX;
    check_ok(aorta_pinned_alloc(device, sizeof(int64_t), "stamp", &stamp));
    for (int round = 0; round < 60 && (off >= 15000 || old_off >= allowed); round++) {
        off = run_the_clock(device, stream, stamp);
        old_off = old_time_is_off(device, &old);
    }
    assert_true(off < 15000);
    assert_true(old_off < allowed);
    aorta_stream_destroy(stream);
    aorta_pinned_free(device, stamp);
    aorta_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_timestamps_in_a_row_share_a_kernel, reset_fake),
        cmocka_unit_test_setup(test_events_launch_nothing, reset_fake),
        cmocka_unit_test_setup(test_the_clocks_stay_together, reset_fake),
    };
    return cmocka_run_group_tests(tests, make_cache, remove_cache);
}
