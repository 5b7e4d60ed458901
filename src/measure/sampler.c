#include "measure/sampler.h"

#include "base/clock.h"
#include "base/thread.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const int64_t long_ns = 200000, settle_ns = 500000000;

struct aorta_sampler {
    struct aorta_device *device;
    int64_t rarely;
    bool running; /* there is a thread */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct aorta_device_metrics last;
    int64_t last_ns, took_ns; /* when it was complete, how long it took */
    int64_t asked;            /* since then */
    bool wanted, reading, ending;
    bool silent; /* the device reports nothing: the thread has ended, or was not needed */
};

static void take_reading(struct aorta_sampler *sampler) {
    pthread_mutex_lock(&sampler->lock);
    sampler->wanted = false;
    sampler->reading = true;
    sampler->asked = 0;
    pthread_mutex_unlock(&sampler->lock);
    int64_t start_ns = aorta_clock_ns();
    struct aorta_device_metrics metrics = aorta_device_measure(sampler->device);
    int64_t end_ns = aorta_clock_ns();
    pthread_mutex_lock(&sampler->lock);
    sampler->last = metrics;
    sampler->last_ns = end_ns;
    sampler->took_ns = end_ns - start_ns;
    sampler->reading = false;
    sampler->silent = !aorta_device_measured(&metrics);
    pthread_cond_broadcast(&sampler->changed);
    pthread_mutex_unlock(&sampler->lock);
}

static bool wait_for_work(struct aorta_sampler *sampler) {
    pthread_mutex_lock(&sampler->lock);
    while (!sampler->wanted && !sampler->ending) pthread_cond_wait(&sampler->changed, &sampler->lock);
    bool ending = sampler->ending;
    pthread_mutex_unlock(&sampler->lock);
    return !ending;
}

/* The first reading opens the library; the second is how long it takes without that. */
static void take_first_readings(struct aorta_sampler *sampler) {
    take_reading(sampler);
    if (!sampler->silent) take_reading(sampler);
}

static void *work(void *user) {
    struct aorta_sampler *sampler = user;
    pthread_setname_np(pthread_self(), "metrics");
    if (!sampler->last_ns) take_first_readings(sampler);
    while (!sampler->silent && wait_for_work(sampler)) take_reading(sampler);
    return NULL;
}

aorta_status aorta_sampler_open(struct aorta_device *device, bool at_once, int64_t rarely, struct aorta_sampler **out) {
    *out = NULL;
    struct aorta_sampler *sampler = calloc(1, sizeof *sampler);
    if (!sampler) return AORTA_ERROR(AORTA_MEMORY, "no host memory for the device's metrics");
    sampler->device = device, sampler->rarely = rarely;
    pthread_mutex_init(&sampler->lock, NULL);
    aorta_cond_init(&sampler->changed);
    if (at_once) take_first_readings(sampler);
    bool needed = !sampler->silent; /* from its start the thread may change that */
    sampler->wanted = !at_once;
    int error = needed ? aorta_thread_start(&sampler->thread, work, sampler) : 0;
    sampler->running = needed && !error;
    if (error) {
        aorta_sampler_close(sampler);
        return AORTA_ERROR(AORTA_DEVICE, "the thread that reads the device's metrics cannot be started: %s",
                           strerror(error));
    }
    *out = sampler;
    return NULL;
}

void aorta_sampler_close(struct aorta_sampler *sampler) {
    if (!sampler) return;
    if (sampler->running) {
        pthread_mutex_lock(&sampler->lock);
        sampler->ending = true;
        pthread_cond_broadcast(&sampler->changed);
        pthread_mutex_unlock(&sampler->lock);
        pthread_join(sampler->thread, NULL);
    }
    pthread_cond_destroy(&sampler->changed);
    pthread_mutex_destroy(&sampler->lock);
    free(sampler);
}

static void ask(struct aorta_sampler *sampler, bool surely) {
    if (!sampler->running) return;
    pthread_mutex_lock(&sampler->lock);
    sampler->asked++;
    if (surely || sampler->took_ns <= long_ns || sampler->asked >= sampler->rarely) {
        sampler->wanted = true;
        pthread_cond_broadcast(&sampler->changed);
    }
    pthread_mutex_unlock(&sampler->lock);
}

void aorta_sampler_ask(struct aorta_sampler *sampler) {
    ask(sampler, false);
}

void aorta_sampler_ask_always(struct aorta_sampler *sampler) {
    ask(sampler, true);
}

void aorta_sampler_drain(struct aorta_sampler *sampler) {
    const int64_t until_ns = aorta_clock_ns() + settle_ns;
    int timed_out = 0;
    if (!sampler->running) return;
    pthread_mutex_lock(&sampler->lock);
    while (!timed_out && !sampler->silent && (sampler->wanted || sampler->reading))
        timed_out = aorta_cond_wait_until(&sampler->changed, &sampler->lock, until_ns);
    pthread_mutex_unlock(&sampler->lock);
}

struct aorta_device_reading aorta_sampler_latest(struct aorta_sampler *sampler) {
    pthread_mutex_lock(&sampler->lock);
    struct aorta_device_reading reading = {.wanted = true,
                                           .values = sampler->last,
                                           .age_ms = (double)(aorta_clock_ns() - sampler->last_ns) / 1e6,
                                           .read_ms = (double)sampler->took_ns / 1e6,
                                           .at_ns = sampler->last_ns};
    pthread_mutex_unlock(&sampler->lock);
    return reading;
}
