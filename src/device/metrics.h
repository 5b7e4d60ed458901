/* What the management library of the vendor (NVML, ROCm SMI) says of a device: clocks, temperature, power, load. */
#ifndef AORTA_DEVICE_METRICS_H
#define AORTA_DEVICE_METRICS_H

#include "device/device.h"

/* NaN: not measured, and `reason` says why (of the first one missing). */
struct aorta_device_metrics {
    double temperature_c;
    double power_w;
    double sm_clock_mhz, memory_clock_mhz;
    double utilization;       /* 0 to 1: share of the last sampling period in which a kernel ran */
    double memory_used_bytes; /* by all processes */
    char reason[192];         /* empty when everything was measured */
};

/* Cheap enough for once a step (some 10 us). The library is opened at the first call and kept with the device.
 * Everything is NaN on the CPU device. */
struct aorta_device_metrics aorta_device_measure(struct aorta_device *device);

#endif
