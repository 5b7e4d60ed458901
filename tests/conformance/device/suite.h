/* Shared by the programs of this suite. It uses device.h only, so that it runs on every device. */
#ifndef AORTA_TESTS_CONFORMANCE_DEVICE_SUITE_H
#define AORTA_TESTS_CONFORMANCE_DEVICE_SUITE_H

#include "check.h"
#include "device/device.h"

#include <stdatomic.h>

/* cmocka set-up and tear-down: *state is the device under test (AORTA_TEST_DEVICE: cpu, cuda or hip; cpu if unset).
 * Without such a device, or its driver, the program says so and ends well: nothing is tested. */
int suite_open(void **state);
int suite_close(void **state);

struct aorta_stream *make_stream(struct aorta_device *device, const char *name);
struct aorta_event *make_event(struct aorta_device *device);
void *make_memory(struct aorta_device *device, size_t bytes);
void *make_pinned(struct aorta_device *device, size_t bytes); /* zeroed */
void sync_stream(struct aorta_stream *stream);
void check_busy(struct aorta_stream *stream);

/* ---- kernels ---- */

/* *counter = 31 × *counter + value: the result shows whether all ran, once and in order. Plain integers. */
struct mix_args {
    int64_t *counter;
    int64_t value;
};
extern const struct aorta_kernel mix_kernel; /* takes a struct mix_args */
void queue_mix(struct aorta_stream *stream, int64_t *counter, int64_t value);
aorta_status queue_mix_on(struct aorta_stream *stream, int64_t *counter, int64_t value); /* for other host threads */
int64_t mix(int64_t counter, int64_t value);                                             /* the same on the host */

/* Holds the stream until the host opens it, or for ten seconds: then the kernel fails. */
struct lock { /* in pinned memory */
    _Atomic int entered, open;
};
struct lock *make_lock(struct aorta_device *device);
void queue_lock(struct aorta_stream *stream, struct lock *lock);
void open_lock(struct lock *lock);
void wait_for_entry(struct lock *lock); /* until the kernel runs; fails the test after ten seconds */

/* Each of two kernels, on two streams, waits to see the other; run one after the other they would never end. */
struct meeting { /* in pinned memory */
    _Atomic int *mine, *theirs;
};
void queue_meeting(struct aorta_stream *stream, struct meeting meeting);

/* Sets seen[n] for the multiprocessors (CPU: processors) n below `size` that it runs on: on a GPU so many blocks that
 * all which may run it do. */
struct census {
    int *seen, size; /* pinned memory */
};
void queue_census(struct aorta_stream *stream, struct census census);

/* Fails with AORTA_DEVICE and this text. */
void queue_failure(struct aorta_stream *stream, const char *text);

#endif
