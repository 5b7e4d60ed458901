#include "hwq/clock_samples.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/thread.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const int64_t every_ns = 500000000;

struct sample {
    struct aorta_device_metrics values;
    int64_t at_ns;
    bool working;
};

struct aorta_hwq_clock_sampler {
    struct aorta_device *device;
    struct sample *samples; /* of the thread while it runs */
    size_t count, capacity;
    bool exhausted; /* no memory for one */
    pthread_t thread;
    bool running;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool ending;
};

static void take_sample(struct aorta_hwq_clock_sampler *sampler, bool working) {
    if (!aorta_array_fit(&sampler->samples, &sampler->capacity, sampler->count + 1, sizeof *sampler->samples)) {
        sampler->exhausted = true;
        return;
    }
    struct sample *sample = &sampler->samples[sampler->count++];
    sample->values = aorta_device_measure(sampler->device);
    sample->at_ns = aorta_clock_ns();
    sample->working = working;
}

/* False when the sampler ends before. */
static bool wait_until(struct aorta_hwq_clock_sampler *sampler, int64_t due_ns) {
    int timed_out = 0;
    pthread_mutex_lock(&sampler->lock);
    while (!sampler->ending && !timed_out) timed_out = aorta_cond_wait_until(&sampler->changed, &sampler->lock, due_ns);
    bool ending = sampler->ending;
    pthread_mutex_unlock(&sampler->lock);
    return !ending;
}

static void *work(void *user) {
    struct aorta_hwq_clock_sampler *sampler = user;
    pthread_setname_np(pthread_self(), "clocks");
    while (wait_until(sampler, aorta_clock_ns() + every_ns)) take_sample(sampler, true);
    return NULL;
}

static void stop(struct aorta_hwq_clock_sampler *sampler) {
    if (!sampler->running) return;
    pthread_mutex_lock(&sampler->lock);
    sampler->ending = true;
    pthread_cond_signal(&sampler->changed);
    pthread_mutex_unlock(&sampler->lock);
    pthread_join(sampler->thread, NULL);
    sampler->running = false;
}

aorta_status aorta_hwq_clock_sampler_open(struct aorta_device *device, struct aorta_hwq_clock_sampler **out) {
    struct aorta_hwq_clock_sampler *sampler = *out = calloc(1, sizeof *sampler);
    if (!sampler) return AORTA_ERROR(AORTA_MEMORY, "no host memory to sample the clock of the device");
    pthread_mutex_init(&sampler->lock, NULL);
    aorta_cond_init(&sampler->changed);
    sampler->device = device;
    take_sample(sampler, false);
    return NULL;
}

aorta_status aorta_hwq_clock_sampler_begin(struct aorta_hwq_clock_sampler *sampler) {
    if (!sampler->count || !aorta_device_measured(&sampler->samples[0].values)) return NULL;
    sampler->count = 0;
    sampler->ending = false;
    take_sample(sampler, false);
    int error = aorta_thread_start(&sampler->thread, work, sampler);
    sampler->running = !error;
    if (!error) return NULL;
    return AORTA_ERROR(AORTA_DEVICE, "the thread that reads the device's clock cannot be started: %s", strerror(error));
}

/* The device is idle since a moment: its clock is still that of the work, but the reason for it may be idleness. */
static void take_last_sample(struct aorta_hwq_clock_sampler *sampler) {
    take_sample(sampler, true);
    if (sampler->exhausted) return;
    struct aorta_device_metrics *values = &sampler->samples[sampler->count - 1].values;
    if (values->clock_limits == 1U << AORTA_CLOCK_IDLE) values->clock_limits_known = false;
}

aorta_status aorta_hwq_clock_sampler_end(struct aorta_hwq_clock_sampler *sampler, struct aorta_clocks *clocks) {
    if (sampler->running) {
        stop(sampler);
        take_last_sample(sampler);
    }
    struct aorta_clock_sample *all = calloc(sampler->count + 1, sizeof *all);
    if (!all || sampler->exhausted) {
        free(all);
        return AORTA_ERROR(AORTA_MEMORY, "no host memory for samples of the device's clock");
    }
    for (size_t i = 0; i < sampler->count; i++) {
        const struct sample *sample = &sampler->samples[i];
        all[i] = (struct aorta_clock_sample){&sample->values, sample->at_ns, sample->working};
    }
    aorta_status status = aorta_clocks_make(all, sampler->count, clocks);
    free(all);
    return status;
}

void aorta_hwq_clock_sampler_close(struct aorta_hwq_clock_sampler *sampler) {
    if (!sampler) return;
    stop(sampler);
    pthread_cond_destroy(&sampler->changed);
    pthread_mutex_destroy(&sampler->lock);
    free(sampler->samples);
    free(sampler);
}
