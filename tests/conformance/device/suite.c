#include "suite.h"

#include "base/clock.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

int suite_open(void **state) {
    const char *wanted = getenv("AORTA_TEST_DEVICE");
    const enum aorta_device_kind kinds[] = {AORTA_DEVICE_CPU, AORTA_DEVICE_CUDA, AORTA_DEVICE_HIP};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(wanted ? wanted : "cpu", aorta_device_kind_name(kinds[i])) != 0) continue;
        struct aorta_device *device;
        check_ok(aorta_device_open(kinds[i], 0, &device));
        *state = device;
        return 0;
    }
    print_error("AORTA_TEST_DEVICE is %s; cpu, cuda and hip are known\n", wanted);
    return -1;
}

int suite_close(void **state) {
    struct aorta_memory_info memory = aorta_device_memory(*state);
    aorta_device_close(*state);
    if (!memory.allocated && !memory.pinned) return 0;
    print_error("%llu bytes and %llu pinned bytes were not freed\n", (unsigned long long)memory.allocated,
                (unsigned long long)memory.pinned);
    return -1;
}

struct aorta_stream *make_stream(struct aorta_device *device, const char *name) {
    struct aorta_stream *stream;
    check_ok(aorta_stream_create(device, name, AORTA_PRIORITY_NORMAL, &stream));
    return stream;
}

struct aorta_event *make_event(struct aorta_device *device) {
    struct aorta_event *event;
    check_ok(aorta_event_create(device, &event));
    return event;
}

void *make_memory(struct aorta_device *device, size_t bytes) {
    void *memory;
    check_ok(aorta_device_alloc(device, bytes, "test memory", &memory));
    return memory;
}

void *make_pinned(struct aorta_device *device, size_t bytes) {
    void *memory;
    check_ok(aorta_pinned_alloc(device, bytes, "test memory", &memory));
    memset(memory, 0, bytes);
    return memory;
}

void sync_stream(struct aorta_stream *stream) {
    check_ok(aorta_stream_synchronize(stream));
}

int64_t mix(int64_t counter, int64_t value) {
    return (int64_t)(31 * (uint64_t)counter + (uint64_t)value);
}

static aorta_status run_mix(const void *args) {
    const struct mix_args *a = args;
    *a->counter = mix(*a->counter, a->value);
    return NULL;
}

aorta_status queue_mix_on(struct aorta_stream *stream, int64_t *counter, int64_t value) {
    static const struct aorta_kernel kernel = {.name = "mix", .cpu = run_mix};
    struct mix_args args = {counter, value};
    aorta_status status = aorta_launch(stream, &kernel, &args, sizeof args);
    memset(&args, 0xFF, sizeof args); /* the call must have copied them */
    return status;
}

void queue_mix(struct aorta_stream *stream, int64_t *counter, int64_t value) {
    check_ok(queue_mix_on(stream, counter, value));
}

struct lock *make_lock(struct aorta_device *device) {
    return make_pinned(device, sizeof(struct lock));
}

static aorta_status run_lock(const void *args) {
    struct lock *lock = *(struct lock *const *)args;
    atomic_store(&lock->entered, 1);
    int64_t deadline = aorta_clock_ns() + 10000000000;
    while (!atomic_load(&lock->open)) {
        if (aorta_clock_ns() > deadline) return AORTA_ERROR(AORTA_TIMEOUT, "nobody opened the lock");
        sched_yield();
    }
    return NULL;
}

void queue_lock(struct aorta_stream *stream, struct lock *lock) {
    static const struct aorta_kernel kernel = {.name = "lock", .cpu = run_lock};
    check_ok(aorta_launch(stream, &kernel, &lock, sizeof lock));
}

void open_lock(struct lock *lock) {
    atomic_store(&lock->open, 1);
}

void wait_for_entry(struct lock *lock) {
    int64_t deadline = aorta_clock_ns() + 10000000000;
    while (!atomic_load(&lock->entered)) {
        if (aorta_clock_ns() > deadline) fail_msg("the kernel was never started");
        sched_yield();
    }
}

struct failure_args {
    char text[64];
};

static aorta_status run_failure(const void *args) {
    const struct failure_args *a = args;
    return AORTA_ERROR(AORTA_DEVICE, "%s", a->text);
}

void queue_failure(struct aorta_stream *stream, const char *text) {
    static const struct aorta_kernel kernel = {.name = "fail", .cpu = run_failure};
    struct failure_args args = {0};
    snprintf(args.text, sizeof args.text, "%s", text);
    check_ok(aorta_launch(stream, &kernel, &args, sizeof args));
}
