/* Device time on the host's clock, CLOCK_MONOTONIC, so that times of host and device, and of all ranks of a host, are
 * one scale.
 *
 * A kernel of one thread and the host exchange a few messages through page-locked memory; the exchange with the
 * shortest round trip bounds the offset of the two clocks to half of it (Cristian 1989), about 1 us on PCIe. Kernels
 * that write timestamps apply the offset themselves, from a line in device memory. It is measured again when the host
 * waits anyway, first after 10 ms, then ever more rarely, down to once a second. The earlier bounds widen by the drift
 * since then. The offset is in their overlap with the new measurement (Marzullo 1984), so that a measurement whose
 * exchanges were all interrupted does no harm. A correction is spread over time (one part in 5000), so that no duration
 * is wrong by more than that and none is negative. */
#include "base/clock.h"
#include "device/gpu/driver.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

enum {
    FIRST_INTERVAL_NS = 10000000,
    LAST_INTERVAL_NS = 1000000000,
    SLEW_SHARE = 5000,
    SHORTEST_SLEW_NS = 1000000,
    START_PATIENCE_NS = 500000, /* if a busy device starts the kernel later, the measurement is postponed */
    GOOD_HALF_NS = 2000,        /* over PCIe a round trip takes about 2 us, unless the host was interrupted */
    SPIN_NS = 5000,             /* an exchange that takes longer is not the best one anyway */
    OPEN_ROUNDS = 32,
};
static const int64_t shortest_baseline_ns = 200000000, longest_baseline_ns = 20000000000;
static const int64_t open_patience_ns = 10000000000; /* other processes may use the device */
/* Relative rates: the largest error of an oscillator's nominal rate, and the largest change of a measured rate with
 * temperature. */
static const double nominal_rate_error = 1e-4, measured_rate_error = 2e-6;

/* When the device's timer was `timer`, the host's clock was host_ns ± half_ns: the middle of an exchange, and half of
 * its duration. The timer may have had this value for up to a tick. */
struct reading {
    int64_t host_ns, timer, half_ns;
};

/* Sends ping `number` and waits for the answer; returns false if none comes. The clock is read after the answer,
 * so that an interruption between the two makes the round trip longer but not wrong. */
static bool send_ping(struct gpu_mailbox *box, int number, int64_t patience_ns, struct reading *reading) {
    const int64_t before = aorta_clock_ns();
    int64_t after = before;
    atomic_store_explicit(&box->request, number, memory_order_release);
    for (bool answered = false; !answered;) {
        if (after - before > patience_ns) return false;
        /* A busy host resumes a thread that slept at once, but one that yielded after all other threads. */
        if (after - before > SPIN_NS) nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL);
        answered = atomic_load_explicit(&box->answer, memory_order_acquire) >= number;
        after = aorta_clock_ns();
    }
    const int64_t half_ns = (after - before + 1) / 2;
    *reading = (struct reading){before + half_ns, box->timers[number], half_ns};
    return true;
}

/* The best of some exchanges; `found` is false when the device was too busy to answer. */
static aorta_status measure(struct gpu_device *device, int64_t patience_ns, struct reading *best, bool *found) {
    struct gpu_clock *clock = &device->clock;
    struct gpu_mailbox *box = clock->mailbox;
    atomic_store(&box->answer, 0);
    atomic_store(&box->request, 0);
    AORTA_TRY(aorta_gpu_launch_own(device, clock->stream, &aorta_gpu_clock_ping, &box));
    *found = false;
    for (int number = 1; number <= GPU_PINGS; number++) {
        struct reading reading;
        if (!send_ping(box, number, patience_ns, &reading)) break;
        if (!*found || reading.half_ns < best->half_ns) *best = reading;
        *found = true;
    }
    atomic_store(&box->request, -1); /* ends a kernel that still waits or starts later */
    return NULL;
}

static aorta_status publish(struct gpu_device *device) {
    struct gpu_clock_set_args args = {device->clock.page, device->clock.line};
    return aorta_gpu_launch_own(device, device->clock.stream, &aorta_gpu_clock_set, &args);
}

/* The line as kernels compute it, extended to times before its start, which kernels do not see. */
static int64_t line_at(const struct gpu_clock_line *line, int64_t timer) {
    double ticks = (double)(timer - line->timer), slewed = fmin(fmax(ticks / line->slew_ticks, 0.0), 1.0);
    return line->host_ns + (int64_t)(ticks * line->ns_per_tick + slewed * line->slew_ns);
}

static void take_first(struct gpu_clock *clock, const struct reading *reading) {
    clock->first_timer = reading->timer;
    clock->first_ns = reading->host_ns;
    clock->first_half_ns = reading->half_ns;
}

/* The rate comes from the first and the last measurement, once they are so far apart that their errors do not matter.
 * The first is replaced from time to time, as rates change with temperature. */
static void take_rate(struct gpu_clock *clock, const struct reading *reading) {
    int64_t baseline = reading->host_ns - clock->first_ns;
    if (baseline < shortest_baseline_ns) return;
    double error = measured_rate_error + (double)(reading->half_ns + clock->first_half_ns) / (double)baseline;
    if (error > nominal_rate_error) { /* one of the two measurements was disturbed */
        if (reading->half_ns < clock->first_half_ns) take_first(clock, reading);
        return;
    }
    clock->line.ns_per_tick = (double)baseline / (double)(reading->timer - clock->first_timer);
    clock->rate_error = error;
    if (baseline < longest_baseline_ns) return;
    take_first(clock, reading);
}

static int64_t drift_ns(const struct gpu_clock *clock, int64_t now_ns) {
    return (int64_t)ceil((double)(now_ns - clock->last_ns) * clock->rate_error);
}

/* The overlap of the earlier bounds with a new reading; the reading alone if there is none. */
static struct reading combine(const struct gpu_clock *clock, const struct reading *reading) {
    const struct gpu_clock_line *line = &clock->line;
    const double ticks = (double)(reading->timer - line->timer);
    const int64_t known = line->host_ns + (int64_t)(ticks * line->ns_per_tick + line->slew_ns),
                  half = clock->half_ns + clock->tick_ns + drift_ns(clock, reading->host_ns);
    int64_t low = reading->host_ns - reading->half_ns - clock->tick_ns, high = reading->host_ns + reading->half_ns;
    if (known + half < low || known - half > high) return *reading;
    if (low < known - half) low = known - half;
    if (high > known + half) high = known + half;
    return (struct reading){low + (high - low) / 2, reading->timer, (high - low + 1) / 2};
}

static void adjust(struct gpu_clock *clock, const struct reading *measured) {
    const struct reading reading = combine(clock, measured);
    int64_t shown = line_at(&clock->line, reading.timer), error = reading.host_ns - shown;
    take_rate(clock, &reading);
    double slew_ns = fmax(SHORTEST_SLEW_NS, fabs((double)error) * SLEW_SHARE);
    clock->line.timer = reading.timer;
    clock->line.host_ns = shown;
    clock->line.slew_ns = (double)error;
    clock->line.slew_ticks = slew_ns / clock->line.ns_per_tick;
    clock->half_ns = reading.half_ns;
    clock->last_ns = reading.host_ns;
}

static void tend(struct gpu_device *device) {
    struct gpu_clock *clock = &device->clock;
    struct reading reading;
    bool found;
    if (device->driver.api.stream_query(clock->stream)) return; /* the last one is still under way */
    aorta_status status = measure(device, START_PATIENCE_NS, &reading, &found);
    if (!status && found) {
        adjust(clock, &reading);
        status = publish(device);
    }
    if (clock->interval_ns < LAST_INTERVAL_NS) clock->interval_ns *= 2;
    aorta_status_free(status); /* the line stays valid; the caller's own calls report a lost device */
}

void aorta_gpu_clock_refresh(struct gpu_device *device) {
    struct gpu_clock *clock = &device->clock;
    if (aorta_clock_ns() < atomic_load_explicit(&clock->next_ns, memory_order_relaxed)) return;
    if (pthread_mutex_trylock(&clock->lock)) return;
    if (aorta_clock_ns() >= clock->next_ns) {
        tend(device);
        clock->next_ns = aorta_clock_ns() + clock->interval_ns;
    }
    pthread_mutex_unlock(&clock->lock);
}

static aorta_status make_parts(struct gpu_device *device) {
    struct gpu_clock *clock = &device->clock;
    const struct gpu_api *api = &device->driver.api;
    void *mailbox = NULL;
    int result = api->memory_alloc(&clock->page, GPU_CLOCK_PAGE_BYTES);
    if (!result) result = api->host_alloc(&mailbox, sizeof *clock->mailbox, GPU_HOST_PORTABLE | GPU_HOST_MAPPED);
    clock->mailbox = mailbox;
    if (!result) result = api->stream_create(&clock->stream, GPU_STREAM_NON_BLOCKING, device->priority_high);
    if (!result) result = api->fill(clock->page, 0, GPU_CLOCK_PAGE_BYTES, clock->stream);
    return result ? aorta_gpu_error(device, result, "memory and stream") : NULL;
}

static double nominal_tick_ns(const struct gpu_device *device) {
    int khz = 0, number = device->driver.vendor->attribute.timer_khz;
    if (number < 0 || device->driver.api.device_attribute(&khz, number, device->handle) || khz <= 0)
        khz = device->driver.vendor->timer_khz;
    return 1e6 / khz;
}

/* The first round warms up; more follow only while the host is interrupted in all exchanges of a round. */
static aorta_status measure_first(struct gpu_device *device, struct reading *best) {
    *best = (struct reading){.half_ns = INT64_MAX};
    for (int round = 0; round < OPEN_ROUNDS && (round < 2 || best->half_ns > GOOD_HALF_NS); round++) {
        struct reading reading;
        bool found;
        AORTA_TRY(measure(device, open_patience_ns, &reading, &found));
        int result = device->driver.api.stream_synchronize(device->clock.stream);
        if (result) return aorta_gpu_error(device, result, "a first kernel failed");
        if (!found) return AORTA_ERROR(AORTA_DEVICE, "a first kernel was started and did not answer");
        if (reading.half_ns < best->half_ns) *best = reading;
    }
    return NULL;
}

static aorta_status start(struct gpu_device *device) {
    struct gpu_clock *clock = &device->clock;
    struct reading first;
    double nominal = nominal_tick_ns(device);
    AORTA_TRY(make_parts(device));
    AORTA_TRY(measure_first(device, &first));
    clock->line = (struct gpu_clock_line){
        .timer = first.timer, .host_ns = first.host_ns, .ns_per_tick = nominal, .slew_ticks = 1};
    take_first(clock, &first);
    clock->half_ns = first.half_ns;
    clock->last_ns = first.host_ns;
    clock->rate_error = nominal_rate_error;
    clock->interval_ns = FIRST_INTERVAL_NS;
    clock->next_ns = first.host_ns + FIRST_INTERVAL_NS;
    clock->tick_ns = (int64_t)ceil((double)clock->mailbox->tick * nominal);
    if (clock->tick_ns < 1) clock->tick_ns = 1;
    device->base.info.timestamp_tick = clock->tick_ns;
    AORTA_TRY(publish(device));
    struct gpu_function *stamp;
    AORTA_TRY(aorta_gpu_function(device, &aorta_gpu_stamp, &stamp)); /* so that captures find it loaded */
    int result = device->driver.api.stream_synchronize(clock->stream);
    return result ? aorta_gpu_error(device, result, "a first kernel failed") : NULL;
}

aorta_status aorta_gpu_clock_open(struct gpu_device *device) {
    pthread_mutex_init(&device->clock.lock, NULL);
    return aorta_annotate(start(device), "the device's clock");
}

void aorta_gpu_clock_close(struct gpu_device *device) {
    struct gpu_clock *clock = &device->clock;
    const struct gpu_api *api = &device->driver.api;
    if (clock->stream) {
        api->stream_synchronize(clock->stream);
        api->stream_destroy(clock->stream);
    }
    if (clock->mailbox) api->host_free(clock->mailbox);
    if (clock->page) api->memory_free(clock->page);
    pthread_mutex_destroy(&clock->lock);
}

int64_t aorta_gpu_clock_error_ns(struct aorta_device *base) {
    struct gpu_clock *clock = &gpu_device(base)->clock;
    pthread_mutex_lock(&clock->lock);
    int64_t error =
        (int64_t)ceil(fabs(clock->line.slew_ns)) + clock->half_ns + clock->tick_ns + drift_ns(clock, aorta_clock_ns());
    pthread_mutex_unlock(&clock->lock);
    return error;
}

const void *aorta_gpu_clock_page(struct aorta_device *device) {
    return gpu_device(device)->clock.page;
}

double aorta_gpu_ns_per_tick(struct aorta_device *base) {
    struct gpu_clock *clock = &gpu_device(base)->clock;
    pthread_mutex_lock(&clock->lock);
    double ns = clock->line.ns_per_tick;
    pthread_mutex_unlock(&clock->lock);
    return ns;
}

int64_t aorta_gpu_timer_time(struct aorta_device *base, int64_t timer) {
    struct gpu_clock *clock = &gpu_device(base)->clock;
    pthread_mutex_lock(&clock->lock);
    int64_t time_ns = line_at(&clock->line, timer);
    pthread_mutex_unlock(&clock->lock);
    return time_ns;
}
