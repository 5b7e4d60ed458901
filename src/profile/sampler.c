#include "profile/sampler.h"

#include "base/clock.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static const int64_t long_ns = 200000;

struct aorta_sampler {
    struct aorta_device *device;
    int64_t rarely;
    bool running; /* there is a thread: the device tells something */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct aorta_device_metrics last;
    int64_t last_ns, took_ns; /* when it was complete, how long it took */
    int64_t asked;            /* since then */
    bool wanted, ending;
};

static void take_reading(struct aorta_sampler *sampler) {
    int64_t start_ns = aorta_clock_ns();
    struct aorta_device_metrics metrics = aorta_device_measure(sampler->device);
    int64_t end_ns = aorta_clock_ns();
    pthread_mutex_lock(&sampler->lock);
    sampler->last = metrics;
    sampler->last_ns = end_ns;
    sampler->took_ns = end_ns - start_ns;
    sampler->asked = 0;
    sampler->wanted = false;
    pthread_mutex_unlock(&sampler->lock);
}

static bool wait_for_work(struct aorta_sampler *sampler) {
    pthread_mutex_lock(&sampler->lock);
    while (!sampler->wanted && !sampler->ending) pthread_cond_wait(&sampler->changed, &sampler->lock);
    bool ending = sampler->ending;
    pthread_mutex_unlock(&sampler->lock);
    return !ending;
}

static void *work(void *user) {
    struct aorta_sampler *sampler = user;
    pthread_setname_np(pthread_self(), "metrics");
    while (wait_for_work(sampler)) take_reading(sampler);
    return NULL;
}

static bool tells_something(const struct aorta_device_metrics *m) {
    const double values[] = {m->temperature_c,    m->power_w,     m->sm_clock_mhz,
                             m->memory_clock_mhz, m->utilization, m->memory_used_bytes};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (!isnan(values[i])) return true;
    return false;
}

/* Signals are for the program's own threads. */
static int start(struct aorta_sampler *sampler) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&sampler->thread, NULL, work, sampler);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

aorta_status aorta_sampler_open(struct aorta_device *device, int64_t rarely, struct aorta_sampler **out) {
    *out = NULL;
    struct aorta_sampler *sampler = calloc(1, sizeof *sampler);
    if (!sampler) return AORTA_ERROR(AORTA_MEMORY, "no host memory for the device's metrics");
    sampler->device = device, sampler->rarely = rarely;
    pthread_mutex_init(&sampler->lock, NULL);
    pthread_cond_init(&sampler->changed, NULL);
    take_reading(sampler); /* opens the library */
    if (tells_something(&sampler->last)) {
        take_reading(sampler); /* how long it takes without that */
        int error = start(sampler);
        sampler->running = !error;
        if (error) {
            aorta_sampler_close(sampler);
            return AORTA_ERROR(AORTA_DEVICE, "the thread that reads the device's metrics cannot be started: %s",
                               strerror(error));
        }
    }
    *out = sampler;
    return NULL;
}

void aorta_sampler_close(struct aorta_sampler *sampler) {
    if (!sampler) return;
    if (sampler->running) {
        pthread_mutex_lock(&sampler->lock);
        sampler->ending = true;
        pthread_cond_signal(&sampler->changed);
        pthread_mutex_unlock(&sampler->lock);
        pthread_join(sampler->thread, NULL);
    }
    pthread_cond_destroy(&sampler->changed);
    pthread_mutex_destroy(&sampler->lock);
    free(sampler);
}

void aorta_sampler_ask(struct aorta_sampler *sampler) {
    if (!sampler->running) return;
    pthread_mutex_lock(&sampler->lock);
    sampler->asked++;
    if (sampler->took_ns <= long_ns || sampler->asked >= sampler->rarely) {
        sampler->wanted = true;
        pthread_cond_signal(&sampler->changed);
    }
    pthread_mutex_unlock(&sampler->lock);
}

struct aorta_device_reading aorta_sampler_latest(struct aorta_sampler *sampler) {
    pthread_mutex_lock(&sampler->lock);
    struct aorta_device_reading reading = {.wanted = true,
                                           .values = sampler->last,
                                           .age_ms = (double)(aorta_clock_ns() - sampler->last_ns) / 1e6,
                                           .read_ms = (double)sampler->took_ns / 1e6};
    pthread_mutex_unlock(&sampler->lock);
    return reading;
}
