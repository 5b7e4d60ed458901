/* Tests control the fake libcuda: calls that fail, and another machine. */
#include "fake_gpu/cuda.h"
#include "strike.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what fails ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    struct strike strike;
    int devices, version, fill_rate;
} control = {.devices = 1, .version = 13000};

static void set_failure(const char *symbol, int nth, int code, int lasting) {
    pthread_mutex_lock(&lock);
    strike_set(&control.strike, symbol, nth, code, lasting);
    pthread_mutex_unlock(&lock);
}

static int count_calls(void) {
    pthread_mutex_lock(&lock);
    int calls = control.strike.calls;
    pthread_mutex_unlock(&lock);
    return calls;
}

static const char *last_failed(void) {
    return control.strike.failed;
}

static void set_devices(int count) {
    control.devices = count;
}

static void set_version(int version) {
    control.version = version;
}

static void set_fill_rate(int bytes_per_ms) {
    control.fill_rate = bytes_per_ms;
}

int fake_fill_rate(void) {
    return control.fill_rate;
}

int fake_device_count(void) {
    return control.devices;
}

int fake_version(void) {
    return control.version;
}

static void read_environment(void) {
    strike_read(&control.strike, "FAKE_GPU_STRIKE");
}

int fake_check(const char *symbol) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_environment);
    pthread_mutex_lock(&lock);
    int code = strike_check(&control.strike, symbol);
    pthread_mutex_unlock(&lock);
    return code;
}

int fake_code(aorta_status status) {
    if (!status) return 0;
    int code = aorta_status_code(status) == AORTA_MEMORY ? OUT_OF_MEMORY : LAUNCH_FAILED;
    aorta_status_free(status);
    return code;
}

EXPORT extern const struct fake_gpu_control fake_gpu_control;
const struct fake_gpu_control fake_gpu_control = {
    .strike = set_failure,
    .calls = count_calls,
    .failed = last_failed,
    .set_devices = set_devices,
    .set_version = set_version,
    .set_fill_rate = set_fill_rate,
    .green_contexts = fake_green_contexts,
    .graph_flags = fake_graph_flags,
    .timer = fake_timer,
    .launch_as_kernel = fake_launch_as_kernel,
};
