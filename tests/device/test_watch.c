/* A watchdog's view of a device, and the device after it was declared failed. */
#include "check.h"

#include "device/device.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

struct gate {
    _Atomic int entered, open;
};

static void wait_at_gate(void *user) {
    struct gate *gate = user;
    atomic_store(&gate->entered, 1);
    while (!atomic_load(&gate->open)) usleep(1000);
}

static void *synchronize(void *stream) {
    return aorta_stream_synchronize(stream);
}

static void test_calls_are_counted(void **state) {
    (void)state;
    struct aorta_device *device;
    struct aorta_stream *stream;
    struct gate gate = {0};
    check_ok(aorta_device_open(AORTA_DEVICE_CPU, 0, &device));
    check_ok(aorta_stream_create(device, "waiting", AORTA_PRIORITY_NORMAL, &stream));
    check_ok(aorta_host_call(stream, wait_at_gate, &gate));
    struct aorta_device_calls before = aorta_device_count_calls(device);
    assert_int_equal(before.begun, before.ended);
    pthread_t thread;
    void *result;
    assert_int_equal(pthread_create(&thread, NULL, synchronize, stream), 0);
    while (aorta_device_count_calls(device).begun == before.begun) usleep(1000);
    struct aorta_device_calls during = aorta_device_count_calls(device);
    assert_int_equal(during.ended, before.ended);
    atomic_store(&gate.open, 1);
    assert_int_equal(pthread_join(thread, &result), 0);
    check_ok(result);
    assert_int_equal(aorta_device_count_calls(device).ended, during.begun);
    aorta_stream_destroy(stream);
    aorta_device_close(device);
}

static void test_failed_device(void **state) {
    (void)state;
    struct aorta_device *device;
    struct aorta_stream *stream;
    struct aorta_event *event;
    struct gate gate = {0};
    check_ok(aorta_device_open(AORTA_DEVICE_CPU, 0, &device));
    check_ok(aorta_stream_create(device, "waiting", AORTA_PRIORITY_NORMAL, &stream));
    check_ok(aorta_event_create(device, &event));
    check_ok(aorta_host_call(stream, wait_at_gate, &gate));
    check_ok(aorta_event_record(event, stream));
    aorta_device_fail(device, AORTA_ERROR(AORTA_TIMEOUT, "rank 7 never came"));
    aorta_device_fail(device, AORTA_ERROR(AORTA_COMM, "too late to matter"));
    atomic_store(&gate.open, 1);
    check_fails(aorta_event_synchronize(event), AORTA_TIMEOUT, "rank 7 never came");
    check_fails(aorta_stream_synchronize(stream), AORTA_TIMEOUT, "rank 7 never came");
    check_fails(aorta_host_call(stream, wait_at_gate, &gate), AORTA_TIMEOUT, "rank 7 never came");
    aorta_event_destroy(event);
    aorta_stream_destroy(stream);
    aorta_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_are_counted),
        cmocka_unit_test(test_failed_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
