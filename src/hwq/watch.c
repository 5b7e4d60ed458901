#include "hwq/watch.h"
#include "base/clock.h"
#include "base/thread.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const int64_t every_ns = 500000000;

struct reading {
    struct aorta_device_metrics values;
    int64_t at_ns;
    bool working;
};

struct aorta_hwq_watch {
    struct aorta_device *device;
    struct reading *readings; /* of the thread while it runs */
    size_t count, capacity;
    bool exhausted; /* no memory for one */
    pthread_t thread;
    bool running;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool ending;
};

static void take_reading(struct aorta_hwq_watch *watch, bool working) {
    if (watch->count == watch->capacity) {
        size_t capacity = watch->capacity ? 2 * watch->capacity : 16;
        struct reading *grown = reallocarray(watch->readings, capacity, sizeof *grown);
        watch->exhausted |= !grown;
        if (!grown) return;
        watch->readings = grown;
        watch->capacity = capacity;
    }
    struct reading *reading = &watch->readings[watch->count++];
    reading->values = aorta_device_measure(watch->device);
    reading->at_ns = aorta_clock_ns();
    reading->working = working;
}

/* True when the time is over; false when the watch ends. */
static bool wait_until(struct aorta_hwq_watch *watch, int64_t due_ns) {
    const struct timespec due = {due_ns / 1000000000, due_ns % 1000000000};
    int timed_out = 0;
    pthread_mutex_lock(&watch->lock);
    while (!watch->ending && !timed_out) timed_out = pthread_cond_timedwait(&watch->changed, &watch->lock, &due);
    bool ending = watch->ending;
    pthread_mutex_unlock(&watch->lock);
    return !ending;
}

static void *work(void *user) {
    struct aorta_hwq_watch *watch = user;
    pthread_setname_np(pthread_self(), "clocks");
    while (wait_until(watch, aorta_clock_ns() + every_ns)) take_reading(watch, true);
    return NULL;
}

static void stop(struct aorta_hwq_watch *watch) {
    if (!watch->running) return;
    pthread_mutex_lock(&watch->lock);
    watch->ending = true;
    pthread_cond_signal(&watch->changed);
    pthread_mutex_unlock(&watch->lock);
    pthread_join(watch->thread, NULL);
    watch->running = false;
}

aorta_status aorta_hwq_watch_open(struct aorta_device *device, struct aorta_hwq_watch **out) {
    struct aorta_hwq_watch *watch = *out = calloc(1, sizeof *watch);
    if (!watch) return AORTA_ERROR(AORTA_MEMORY, "no host memory to watch the clock of the device");
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&watch->lock, NULL);
    pthread_cond_init(&watch->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    watch->device = device;
    take_reading(watch, false);
    return NULL;
}

aorta_status aorta_hwq_watch_begin(struct aorta_hwq_watch *watch) {
    if (!watch->count || !aorta_device_measured(&watch->readings[0].values)) return NULL;
    watch->count = 0;
    watch->ending = false;
    take_reading(watch, false);
    int error = aorta_thread_start(&watch->thread, work, watch);
    watch->running = !error;
    if (!error) return NULL;
    return AORTA_ERROR(AORTA_DEVICE, "the thread that reads the device's clock cannot be started: %s", strerror(error));
}

/* The device has just come to rest: its clock is still that of the work, but the reason may be that it rests. */
static void take_last_reading(struct aorta_hwq_watch *watch) {
    take_reading(watch, true);
    if (watch->exhausted) return;
    struct aorta_device_metrics *values = &watch->readings[watch->count - 1].values;
    if (values->clock_limits == 1U << AORTA_CLOCK_IDLE) values->clock_limits_known = false;
}

aorta_status aorta_hwq_watch_end(struct aorta_hwq_watch *watch, struct aorta_clocks *clocks) {
    if (watch->running) {
        stop(watch);
        take_last_reading(watch);
    }
    struct aorta_clock_sample *samples = calloc(watch->count + 1, sizeof *samples);
    if (!samples || watch->exhausted) {
        free(samples);
        return AORTA_ERROR(AORTA_MEMORY, "no host memory for readings of the device's clock");
    }
    for (size_t i = 0; i < watch->count; i++) {
        const struct reading *reading = &watch->readings[i];
        samples[i] = (struct aorta_clock_sample){&reading->values, reading->at_ns, reading->working};
    }
    aorta_status status = aorta_clocks_make(samples, watch->count, clocks);
    free(samples);
    return status;
}

void aorta_hwq_watch_close(struct aorta_hwq_watch *watch) {
    if (!watch) return;
    stop(watch);
    pthread_cond_destroy(&watch->changed);
    pthread_mutex_destroy(&watch->lock);
    free(watch->readings);
    free(watch);
}
