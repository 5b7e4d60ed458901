/* Reads a device's temperature, power, clocks, load and memory (device/inventory.h) during the work, on its own thread:
 * a reading takes from ten microseconds to some milliseconds, which must not delay the next step's launch. While
 * readings take longer than 0.2 ms they become rarer, since the driver is shared. */
#ifndef AORTA_MEASURE_SAMPLER_H
#define AORTA_MEASURE_SAMPLER_H

#include "base/status.h"
#include "device/device.h"
#include "device/inventory.h"

/* A reading of the device by the management library. */
struct aorta_device_reading {
    bool wanted;                        /* false: its key is omitted */
    struct aorta_device_metrics values; /* all NaN: its key is null, for the reason in it */
    double age_ms;                      /* when it was taken, before now */
    double read_ms;                     /* how long that took */
    int64_t at_ns;                      /* host time at which it was complete */
};

struct aorta_sampler;

/* `at_once`: takes the first reading before it returns; else the thread does, which opens the library. `rarely`: how
 * many times it must be asked for each reading that takes long. Close it before the device. */
AORTA_MUST_USE aorta_status aorta_sampler_open(struct aorta_device *device, bool at_once, int64_t rarely,
                                               struct aorta_sampler **sampler);
void aorta_sampler_close(struct aorta_sampler *sampler); /* NULL is fine */
/* Asks for a reading that begins from now on; returns at once. */
void aorta_sampler_ask(struct aorta_sampler *sampler);
/* As aorta_sampler_ask, for any duration of readings. */
void aorta_sampler_ask_always(struct aorta_sampler *sampler);
/* Waits until nothing more is asked for, half a second at most. */
void aorta_sampler_drain(struct aorta_sampler *sampler);
/* The last one that is complete, with `wanted` set; at_ns 0: there is none. */
struct aorta_device_reading aorta_sampler_latest(struct aorta_sampler *sampler);

#endif
