/* Flags between two streams. */
#include "device/gpu.h"
#include "rig.h"

static int32_t *make_flag(struct rig *rig) {
    int32_t *flag = rig_alloc(rig, sizeof *flag);
    check_ok(aorta_fill_bytes(rig->stream, flag, 0, sizeof *flag));
    check_ok(aorta_stream_synchronize(rig->stream));
    return flag;
}

static int32_t value_of(struct rig *rig, const int32_t *flag) {
    int32_t value;
    rig_get_bytes(rig, &value, flag, sizeof value);
    return value;
}

static void raising_and_taking_down(void **state) {
    struct rig *rig = *state;
    int32_t *flag = make_flag(rig);
    for (int round = 0; round < 3; round++) {
        check_ok(aorta_flag_raise(rig->stream, flag));
        assert_int_equal(value_of(rig, flag), 1);
        check_ok(aorta_flag_await(rig->stream, flag, 10));
        assert_int_equal(value_of(rig, flag), 0);
    }
}

/* Data copied before the flag is raised are read by the other stream after the wait: many rounds on one buffer. */
static void copies_are_seen(void **state) {
    enum { ROUNDS = 30, COUNT = 1000 };
    struct rig *rig = *state;
    struct aorta_stream *other;
    struct aorta_event *read;
    check_ok(aorta_stream_create(rig->device, "copies", AORTA_PRIORITY_HIGH, &other));
    check_ok(aorta_event_create(rig->device, &read));
    int32_t *flag = make_flag(rig);
    float *from = rig_alloc(rig, COUNT * sizeof(float)), *copy = rig_alloc(rig, COUNT * sizeof(float));
    float *sum = rig_alloc(rig, COUNT * sizeof(float));
    check_ok(aorta_fill(rig->stream, sum, AORTA_F32, COUNT, 0));
    for (int round = 1; round <= ROUNDS; round++) {
        check_ok(aorta_fill(rig->stream, from, AORTA_F32, COUNT, (float)round));
        check_ok(aorta_event_record(read, rig->stream));
        check_ok(aorta_stream_wait(other, read));
        check_ok(aorta_copy(other, copy, from, COUNT * sizeof(float)));
        check_ok(aorta_flag_raise(other, flag));
        check_ok(aorta_flag_await(rig->stream, flag, 10));
        check_ok(aorta_add(rig->stream, sum, copy, AORTA_F32, COUNT, 1));
    }
    check_ok(aorta_stream_synchronize(rig->stream));
    double *got = rig_get(rig, AORTA_F32, sum, COUNT), expected = ROUNDS * (ROUNDS + 1) / 2.0;
    for (int i = 0; i < COUNT; i++) rig_close_to("sum of copies", &got[i], &expected, 1, 0, 0);
    aorta_event_destroy(read);
    aorta_stream_destroy(other);
}

/* On the CPU device only: elsewhere the device would be lost to the tests that follow. */
static void waiting_has_an_end(void **state) {
    struct rig *rig = *state;
    if (aorta_device_is_gpu(rig->device)) skip();
    int32_t *flag = make_flag(rig);
    check_ok(aorta_flag_await(rig->stream, flag, 0.02));
    check_fails(aorta_stream_synchronize(rig->stream), AORTA_TIMEOUT,
                "flag_await: the flag was not raised within 0.02");
}

static void wrong_arguments(void **state) {
    struct rig *rig = *state;
    check_fails(aorta_flag_raise(rig->stream, NULL), AORTA_INTERNAL, "flag_raise: flag is NULL");
    check_fails(aorta_flag_await(rig->stream, NULL, 1), AORTA_INTERNAL, "flag_await: flag is NULL");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        rig_test(raising_and_taking_down),
        rig_test(copies_are_seen),
        rig_test(waiting_has_an_end),
        rig_test(wrong_arguments),
    };
    return rig_run_tests("flags", tests);
}
