/* The fake libnvidia-ml: two devices, joined by four links. */
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
enum { NOT_SUPPORTED = 3, NOT_FOUND = 6 };

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

EXPORT int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius);
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius) {
    (void)device;
    *celsius = 41;
    return sensor;
}

EXPORT int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts);
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) {
    (void)device;
    *milliwatts = 123500;
    return 0;
}

EXPORT int nvmlDeviceGetClockInfo(void *device, int clock, unsigned *mhz);
int nvmlDeviceGetClockInfo(void *device, int clock, unsigned *mhz) {
    (void)device;
    *mhz = clock == 1 ? 1980 : 2619;
    return clock == 1 || clock == 2 ? 0 : NOT_SUPPORTED;
}

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
