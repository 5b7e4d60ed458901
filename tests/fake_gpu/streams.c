/* The fake libcuda: streams, partitions of a device that they may have, events, copies and host calls. */
#include "device/cpu/cpu.h"
#include "fake_gpu/cuda.h"
#include "fake_gpu/objects.h"
#include "fake_gpu/queues.h"
#include "fake_gpu/records.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the number of green contexts */

/* ---- streams ---- */

EXPORT int cuStreamCreateWithPriority(void **stream, unsigned flags, int priority);
int cuStreamCreateWithPriority(void **stream, unsigned flags, int priority) {
    ENTER();
    (void)flags;
    enum aorta_priority own = priority == 0 ? AORTA_PRIORITY_LOW : AORTA_PRIORITY_NORMAL;
    int result = fake_code(aorta_stream_create(fake_device(), "fake", own, (struct aorta_stream **)stream));
    if (!result) fake_queues_add(fake_device(), *stream);
    return result;
}

EXPORT int cuStreamDestroy_v2(void *stream);
int cuStreamDestroy_v2(void *stream) {
    int wanted = fake_check(__func__); /* what is destroyed is gone all the same */
    fake_queues_remove(stream);
    aorta_stream_destroy(stream);
    return wanted;
}

EXPORT int cuStreamSynchronize(void *stream);
int cuStreamSynchronize(void *stream) {
    ENTER();
    return fake_code(aorta_stream_synchronize(stream));
}

EXPORT int cuStreamQuery(void *stream);
int cuStreamQuery(void *stream) {
    ENTER();
    struct queue *queue = &cpu_stream(stream)->queue;
    pthread_mutex_lock(&queue->lock);
    const bool busy = queue->busy;
    pthread_mutex_unlock(&queue->lock);
    return busy ? NOT_READY : 0;
}

EXPORT int cuStreamWaitEvent(void *stream, void *event, unsigned flags);
int cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
    ENTER();
    if (flags) return INVALID_VALUE;
    return fake_code(aorta_stream_wait(stream, event));
}

/* ---- partitions of a device ---- */

/* Any two of four multiprocessors. */
struct fake_resource {
    int type;
    unsigned char internal[92];
    unsigned count, smallest, step;
};

EXPORT int cuDeviceGetDevResource(int handle, struct fake_resource *resource, int type);
int cuDeviceGetDevResource(int handle, struct fake_resource *resource, int type) {
    ENTER();
    (void)handle;
    if (type != 1) return INVALID_VALUE;
    *resource = (struct fake_resource){.type = type, .count = 4, .smallest = 2, .step = 2};
    return 0;
}

EXPORT int cuDevSmResourceSplitByCount(struct fake_resource *result, unsigned *groups,
                                       const struct fake_resource *input, struct fake_resource *remaining,
                                       unsigned flags, unsigned count);
int cuDevSmResourceSplitByCount(struct fake_resource *result, unsigned *groups, const struct fake_resource *input,
                                struct fake_resource *remaining, unsigned flags, unsigned count) {
    ENTER();
    (void)remaining;
    if (input->type != 1 || flags || count > input->count || *groups != 1) return INVALID_VALUE;
    *result = *input;
    result->count = (count + 1) / 2 * 2;
    return 0;
}

EXPORT int cuDevResourceGenerateDesc(void **description, struct fake_resource *resources, unsigned count);
int cuDevResourceGenerateDesc(void **description, struct fake_resource *resources, unsigned count) {
    ENTER();
    if (count != 1 || resources->type != 1) return INVALID_VALUE;
    *description = (void *)(uintptr_t)resources->count;
    return 0;
}

static int green_contexts;

EXPORT int cuGreenCtxCreate(void **context, void *description, int handle, unsigned flags);
int cuGreenCtxCreate(void **context, void *description, int handle, unsigned flags) {
    ENTER();
    (void)handle;
    if (flags != 1) return INVALID_VALUE;
    pthread_mutex_lock(&lock);
    green_contexts++;
    pthread_mutex_unlock(&lock);
    *context = description;
    return 0;
}

EXPORT int cuGreenCtxDestroy(void *context);
int cuGreenCtxDestroy(void *context) {
    int wanted = fake_check(__func__); /* what is destroyed is gone all the same */
    pthread_mutex_lock(&lock);
    green_contexts--;
    pthread_mutex_unlock(&lock);
    return context ? wanted : INVALID_VALUE;
}

int fake_green_contexts(void) {
    pthread_mutex_lock(&lock);
    int count = green_contexts;
    pthread_mutex_unlock(&lock);
    return count;
}

EXPORT int cuGreenCtxStreamCreate(void **stream, void *context, unsigned flags, int priority);
int cuGreenCtxStreamCreate(void **stream, void *context, unsigned flags, int priority) {
    ENTER();
    if (!context || flags != 1) return INVALID_VALUE;
    enum aorta_priority own = priority == 0 ? AORTA_PRIORITY_LOW : AORTA_PRIORITY_NORMAL;
    return fake_code(aorta_stream_create(fake_device(), "fake", own, (struct aorta_stream **)stream));
}

/* ---- events ---- */

EXPORT int cuEventCreate(void **event, unsigned flags);
int cuEventCreate(void **event, unsigned flags) {
    ENTER();
    (void)flags;
    int result = fake_code(aorta_event_create(fake_device(), (struct aorta_event **)event));
    if (!result) fake_hold(*event);
    return result;
}

EXPORT int cuEventDestroy_v2(void *event);
int cuEventDestroy_v2(void *event) {
    int wanted = fake_check(__func__); /* what is destroyed is gone all the same */
    fake_let_go(event);
    aorta_event_destroy(event);
    return wanted;
}

EXPORT int cuEventRecord(void *event, void *stream);
int cuEventRecord(void *event, void *stream) {
    ENTER();
    return fake_code(aorta_event_record(event, stream));
}

EXPORT int cuEventSynchronize(void *event);
int cuEventSynchronize(void *event) {
    ENTER();
    return fake_code(aorta_event_synchronize(event));
}

EXPORT int cuEventQuery(void *event);
int cuEventQuery(void *event) {
    ENTER();
    return aorta_event_done(event) ? 0 : NOT_READY;
}

/* ---- copies and host calls ---- */

EXPORT int cuMemcpyAsync(void *to, void *from, size_t bytes, void *stream);
int cuMemcpyAsync(void *to, void *from, size_t bytes, void *stream) {
    ENTER();
    fake_queues_enter(stream);
    struct fake_record *record = fake_record_begin(stream, FAKE_COPY, "", bytes);
    int result = fake_code(aorta_copy(stream, to, from, bytes));
    fake_record_end(stream, record);
    fake_queues_leave(stream);
    return result;
}

static void nap(void *bytes) {
    const int64_t ns = (intptr_t)bytes * INT64_C(1000000) / fake_fill_rate();
    nanosleep(&(struct timespec){ns / 1000000000, ns % 1000000000}, NULL);
}

EXPORT int cuMemsetD8Async(void *to, unsigned char value, size_t bytes, void *stream);
int cuMemsetD8Async(void *to, unsigned char value, size_t bytes, void *stream) {
    ENTER();
    struct fake_record *record = fake_record_begin(stream, FAKE_FILL, "", bytes);
    int result = fake_fill_rate() ? fake_code(aorta_host_call(stream, nap, (void *)(intptr_t)bytes)) : 0;
    if (!result) result = fake_code(aorta_fill_bytes(stream, to, value, bytes));
    fake_record_end(stream, record);
    return result;
}

int fake_queue_call(void *stream, void (*function)(void *user), void *user) {
    return fake_code(aorta_host_call(stream, function, user));
}

EXPORT int cuLaunchHostFunc(void *stream, void (*function)(void *user), void *user);
int cuLaunchHostFunc(void *stream, void (*function)(void *user), void *user) {
    ENTER();
    return fake_queue_call(stream, function, user);
}
