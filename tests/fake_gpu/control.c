/* What tests ask of the fake libcuda: calls that fail, and another machine. */
#include "fake_gpu/cuda.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what fails ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    char symbol[64], failed[64];
    int nth, code, lasting, calls, devices, version, fill_rate;
} control = {.devices = 1, .version = 13000};

static void set_failure(const char *symbol, int nth, int code, int lasting) {
    pthread_mutex_lock(&lock);
    snprintf(control.symbol, sizeof control.symbol, "%s", symbol ? symbol : "");
    control.failed[0] = '\0';
    control.nth = nth;
    control.code = code;
    control.lasting = lasting;
    control.calls = 0;
    pthread_mutex_unlock(&lock);
}

static int count_calls(void) {
    pthread_mutex_lock(&lock);
    int calls = control.calls;
    pthread_mutex_unlock(&lock);
    return calls;
}

static const char *last_failed(void) {
    return control.failed;
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

/* FAKE_GPU_STRIKE=symbol:nth:code[:lasting], for programs that tests cannot call; of several ranks only
 * FAKE_GPU_STRIKE_RANK. */
static void read_environment(void) {
    const char *strike = getenv("FAKE_GPU_STRIKE"), *only = getenv("FAKE_GPU_STRIKE_RANK"), *rank = getenv("RANK");
    char symbol[64];
    int nth, code, lasting = 0;
    if (!strike || (only && rank && strcmp(only, rank) != 0)) return;
    if (sscanf(strike, "%63[^:]:%d:%d:%d", symbol, &nth, &code, &lasting) >= 3)
        set_failure(symbol, nth, code, lasting);
    else
        fprintf(stderr, "fake GPU: FAKE_GPU_STRIKE=%s says nothing\n", strike);
}

int fake_check(const char *symbol) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int code = 0;
    pthread_once(&once, read_environment);
    pthread_mutex_lock(&lock);
    bool any = strcmp(control.symbol, "*") == 0;
    if (any) control.calls++;
    if (!any && strcmp(control.symbol, symbol) == 0) control.calls++, any = true;
    if (any && control.nth && (control.calls == control.nth || (control.lasting && control.calls > control.nth))) {
        code = control.code;
        snprintf(control.failed, sizeof control.failed, "%s", symbol);
    }
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
