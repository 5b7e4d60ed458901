/* The fake libnvidia-ml: two devices, joined by four links. Variables of the environment, read at each call, say what
 * they report: FAKE_NVML_CLOCK (MHz, of at most 1980), FAKE_NVML_POWER (W, of at most 700), FAKE_NVML_REASONS (bits of
 * why the clock is low), FAKE_NVML_POWER_SHARE and FAKE_NVML_THERMAL_SHARE (of the time, as its counters say;
 * "none": there are no counters). FAKE_NVML_AT_REST: how many times the clock is 345 at first. FAKE_NVML_DELAY: how
 * many us a call takes. FAKE_NVML_PROCESSES: "4242:1024:45,17:8:" (number, MiB and percent of the multiprocessors,
 * which may be missing) compute on the first device. FAKE_NVML_RANK: only for this rank. FAKE_NVML_OLD leaves out what
 * old drivers lack.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
enum { NOT_SUPPORTED = 3, NOT_FOUND = 6 };

static const char *variable_of_rank(const char *variable) {
    const char *only = getenv("FAKE_NVML_RANK"), *rank = getenv("RANK");
    return only && rank && strcmp(only, rank) != 0 ? NULL : getenv(variable);
}

static double number(const char *variable, double usual) {
    const char *text = variable_of_rank(variable);
    return text ? atof(text) : usual;
}

EXPORT int nvmlInit_v2(void);
int nvmlInit_v2(void) {
    return 0;
}

EXPORT int nvmlShutdown(void);
int nvmlShutdown(void) {
    return 0;
}

EXPORT const char *nvmlErrorString(int error);
const char *nvmlErrorString(int error) {
    return error == NOT_FOUND ? "Not Found" : "Not Supported";
}

EXPORT int nvmlSystemGetDriverVersion(char *version, unsigned length);
int nvmlSystemGetDriverVersion(char *version, unsigned length) {
    snprintf(version, length, "580.00.fake");
    return 0;
}

EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **device);
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **device) {
    static char devices[2];
    if (strcmp(bus_id, "0000:01:00.0") != 0 && strcmp(bus_id, "0000:02:00.0") != 0) return NOT_FOUND;
    *device = &devices[bus_id[6] - '1'];
    return 0;
}

EXPORT int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = 2;
    return 0;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    return nvmlDeviceGetHandleByPciBusId_v2(index ? "0000:02:00.0" : "0000:01:00.0", device);
}

/* Calls take(number, MiB, percent; -1: missing) for each, as long as there is space. */
static unsigned for_each_process(void *device, unsigned most, void (*take)(void *list, unsigned i, long long *values),
                                 void *list) {
    const char *at = variable_of_rank("FAKE_NVML_PROCESSES");
    void *first;
    unsigned count = 0;
    nvmlDeviceGetHandleByPciBusId_v2("0000:01:00.0", &first);
    for (; at && *at && device == first && count < most; count++) {
        long long values[3] = {0, 0, -1};
        sscanf(at, "%lld:%lld:%lld", &values[0], &values[1], &values[2]);
        take(list, count, values);
        at = strchr(at, ',');
        if (at) at++;
    }
    return count;
}

struct process_info {
    uint32_t pid;
    uint64_t memory_bytes;
    uint32_t instances[2];
};

static void take_process(void *list, unsigned i, long long *values) {
    ((struct process_info *)list)[i] =
        (struct process_info){.pid = (uint32_t)values[0], .memory_bytes = (uint64_t)values[1] << 20};
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v2(void *device, unsigned *count, void *infos);
int nvmlDeviceGetComputeRunningProcesses_v2(void *device, unsigned *count, void *infos) {
    *count = for_each_process(device, *count, take_process, infos);
    return 0;
}

struct process_sample {
    uint32_t pid;
    uint64_t at_us;
    uint32_t percent[4];
};

static void take_sample(void *list, unsigned i, long long *values) {
    if (values[2] < 0) values[0] = 0; /* nobody's */
    ((struct process_sample *)list)[i] =
        (struct process_sample){.pid = (uint32_t)values[0], .at_us = 1, .percent = {(uint32_t)values[2]}};
}

EXPORT int nvmlDeviceGetProcessUtilization(void *device, void *samples, unsigned *count, unsigned long long since_us);
int nvmlDeviceGetProcessUtilization(void *device, void *samples, unsigned *count, unsigned long long since_us) {
    (void)since_us;
    *count = for_each_process(device, *count, take_sample, samples);
    return *count ? 0 : NOT_FOUND;
}

EXPORT int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius);
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius) {
    (void)device;
    *celsius = 41;
    return sensor;
}

EXPORT int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts);
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) {
    (void)device;
    *milliwatts = (unsigned)(1e3 * number("FAKE_NVML_POWER", 123.5));
    return 0;
}

EXPORT int nvmlDeviceGetClockInfo(void *device, int clock, unsigned *mhz);
int nvmlDeviceGetClockInfo(void *device, int clock, unsigned *mhz) {
    static atomic_int calls;
    (void)device;
    usleep((useconds_t)number("FAKE_NVML_DELAY", 0));
    *mhz = clock == 1 ? (unsigned)number("FAKE_NVML_CLOCK", 1980) : 2619;
    if (clock == 1 && calls++ < number("FAKE_NVML_AT_REST", 0)) *mhz = 345;
    return clock == 1 || clock == 2 ? 0 : NOT_SUPPORTED;
}

#ifndef FAKE_NVML_OLD
EXPORT int nvmlDeviceGetMaxClockInfo(void *device, int clock, unsigned *mhz);
int nvmlDeviceGetMaxClockInfo(void *device, int clock, unsigned *mhz) {
    (void)device;
    *mhz = 1980;
    return clock == 1 ? 0 : NOT_SUPPORTED;
}

EXPORT int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *milliwatts);
int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *milliwatts) {
    (void)device;
    *milliwatts = 700000;
    return 0;
}

EXPORT int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *reasons);
int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *reasons) {
    (void)device;
    *reasons = (unsigned long long)number("FAKE_NVML_REASONS", 0);
    return 0;
}

EXPORT int nvmlDeviceGetViolationStatus(void *device, int policy, unsigned long long times[2]);
int nvmlDeviceGetViolationStatus(void *device, int policy, unsigned long long times[2]) {
    static const char *const shares[] = {"FAKE_NVML_POWER_SHARE", "FAKE_NVML_THERMAL_SHARE"};
    struct timespec now;
    (void)device;
    if (policy > 1 || (variable_of_rank(shares[policy]) && !strcmp(variable_of_rank(shares[policy]), "none")))
        return NOT_SUPPORTED;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const double ns = 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
    times[0] = (unsigned long long)(ns / 1e3);
    times[1] = (unsigned long long)(ns * number(shares[policy], 0));
    return 0;
}
#endif

EXPORT int nvmlDeviceGetUtilizationRates(void *device, unsigned percent[2]);
int nvmlDeviceGetUtilizationRates(void *device, unsigned percent[2]) {
    (void)device, (void)percent;
    return NOT_SUPPORTED; /* as with MIG */
}

EXPORT int nvmlDeviceGetMemoryInfo(void *device, unsigned long long bytes[3]);
int nvmlDeviceGetMemoryInfo(void *device, unsigned long long bytes[3]) {
    (void)device;
    bytes[0] = 1 << 30;
    bytes[2] = 12345678;
    bytes[1] = bytes[0] - bytes[2];
    return 0;
}

EXPORT int nvmlDeviceGetTopologyCommonAncestor(void *device, void *other, int *level);
int nvmlDeviceGetTopologyCommonAncestor(void *device, void *other, int *level) {
    (void)device, (void)other;
    *level = 50;
    return 0;
}

EXPORT int nvmlDeviceGetP2PStatus(void *device, void *other, int capability, int *status);
int nvmlDeviceGetP2PStatus(void *device, void *other, int capability, int *status) {
    *status = capability == 2 && device != other ? 0 : 1;
    return 0;
}

EXPORT int nvmlDeviceGetNvLinkState(void *device, unsigned link, int *active);
int nvmlDeviceGetNvLinkState(void *device, unsigned link, int *active) {
    (void)device;
    *active = link < 4;
    return link < 18 ? 0 : NOT_SUPPORTED;
}
