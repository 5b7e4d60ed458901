/* Device time on the host's clock, and the driver's own kernels, which write it. */
#ifndef AORTA_DEVICE_GPU_CLOCK_H
#define AORTA_DEVICE_GPU_CLOCK_H

#include "device/gpu.h"

#include <pthread.h>
#include <stdatomic.h>

struct gpu_device;

/* A straight line from the device's timer to the host's clock, with a correction that sets in over `slew_ticks`, so
 * that device time never jumps. Kernels read it: driver.cu repeats the structs of this header. */
struct gpu_clock_line {
    int64_t timer, host_ns;
    double ns_per_tick, slew_ns, slew_ticks;
};

struct gpu_clock {
    pthread_mutex_t lock;
    void *page;                  /* device memory: which of two lines holds, and the two */
    struct gpu_mailbox *mailbox; /* pinned */
    void *stream;
    struct gpu_clock_line line;
    int64_t first_timer, first_ns, first_half_ns; /* the reading that the rate is taken from */
    int64_t last_ns, half_ns;                     /* when the line was last measured, and how well that is known */
    double rate_error;                            /* of ns_per_tick, as a share of it */
    _Atomic int64_t next_ns;                      /* when to measure again */
    int64_t interval_ns, tick_ns;                 /* between measurements; of the timer */
};
aorta_status aorta_gpu_clock_open(struct gpu_device *device);
void aorta_gpu_clock_close(struct gpu_device *device);
int64_t aorta_gpu_clock_error_ns(struct aorta_device *device);
void aorta_gpu_clock_refresh(
    struct gpu_device *device); /* measures again when it is time; called where the host waits */

/* ---- kernels (driver.cu) ---- */

enum { GPU_STAMPS = 4 }; /* timestamps that one kernel writes */
struct gpu_stamp_args {
    void *clock;
    int64_t *slots[GPU_STAMPS]; /* NULL: none */
};
struct gpu_clock_set_args {
    void *clock;
    struct gpu_clock_line line;
};
enum { GPU_PINGS = 8 };
struct gpu_mailbox {
    _Atomic int request, answer; /* host: the ping wanted, -1 gives up; device: the ping answered */
    int64_t tick;                /* smallest step of the timer that was seen, in ticks */
    int64_t timers[GPU_PINGS + 1];
};
extern const struct aorta_gpu_entry aorta_gpu_stamp, aorta_gpu_clock_set, aorta_gpu_clock_ping;
enum { GPU_CLOCK_PAGE_BYTES = 256 };

#endif
