/* Readings of a device by the vendor's management library (NVML, ROCm SMI): clocks, temperature, power, load. */
#ifndef AORTA_DEVICE_METRICS_H
#define AORTA_DEVICE_METRICS_H

#include "device/device.h"

/* Why a clock is below its maximum: the "clocks event reasons" of NVML, the gravest first. Several can hold at once. */
enum aorta_clock_limit {
    AORTA_CLOCK_POWER_CAP,    /* the power limit */
    AORTA_CLOCK_SW_THERMAL,   /* the driver keeps a temperature down */
    AORTA_CLOCK_HW_THERMAL,   /* the hardware does, by a half or more */
    AORTA_CLOCK_POWER_BRAKE,  /* the machine asks for less, say a power supply */
    AORTA_CLOCK_HW_SLOWDOWN,  /* one of the two before, or power drawn too fast */
    AORTA_CLOCK_APPLICATIONS, /* applications clocks, set by somebody */
    AORTA_CLOCK_SYNC_BOOST,   /* devices of a group keep to the slowest one */
    AORTA_CLOCK_DISPLAY,
    AORTA_CLOCK_IDLE, /* nothing ran */
    AORTA_CLOCK_LIMITS
};

/* NaN: not measured, and `reason` says why (of the first one missing). */
struct aorta_device_metrics {
    double temperature_c;
    double power_w, power_limit_w; /* the limit that is enforced */
    double sm_clock_mhz, sm_clock_max_mhz, memory_clock_mhz;
    double utilization;       /* 0 to 1: share of the last sampling period in which a kernel ran */
    double memory_used_bytes; /* by all processes */
    /* Time that the clock was limited for power and for heat; only differences mean something. No word on them in
     * `reason`: many drivers do not count. */
    double power_capped_ms, thermal_capped_ms;
    bool clock_limits_known;
    unsigned clock_limits; /* 1 << enum aorta_clock_limit of each that holds */
    char reason[192];      /* empty when everything was measured */
};

/* Nothing measured, for this reason. */
struct aorta_device_metrics aorta_device_unmeasured(const char *reason);
/* False when nothing of what `reason` speaks of was. */
bool aorta_device_measured(const struct aorta_device_metrics *metrics);

/* Cheap enough for once a step (some 10 us). The library is opened at the first call and closed with the device.
 * Everything is NaN on the CPU device. */
struct aorta_device_metrics aorta_device_measure(struct aorta_device *device);

#endif
