/* Device time on the host's clock, CLOCK_MONOTONIC, so that times of host and device, and of all ranks of a host, are
 * one scale.
 *
 * A kernel of one thread and the host exchange a few messages through page-locked memory; the exchange with the
 * shortest round trip bounds the offset of the two clocks to half of it (Cristian 1989), about 1 us on PCIe. Kernels
 * that write timestamps apply the offset themselves, from a line in device memory. It is measured again where the host
 * waits anyway, first after 10 ms, then ever more rarely, down to once a second, and what the line was off by then sets
 * in slowly (one part in 5000 of the time), so that no duration is wrong by more than that and none is negative. */
#include "base/clock.h"
#include "device/gpu/driver.h"

#include <math.h>
#include <sched.h>
#include <stdlib.h>

enum {
    FIRST_INTERVAL_NS = 10000000,
    LAST_INTERVAL_NS = 1000000000,
    SLEW_SHARE = 5000,
    SHORTEST_SLEW_NS = 1000000,
    START_PATIENCE_NS = 500000, /* a busy device starts the kernel late: then the measurement is put off */
    GOOD_ROUND_TRIP_NS = 4000,  /* over PCIe it takes about 2 us, unless the host was interrupted */
    YIELD_NS = 5000,
    OPEN_ROUNDS = 32,
    WORSE = 4, /* a later measurement is used when its round trip is good, or at most so many times the first one's */
};
static const int64_t shortest_baseline_ns = 200000000, longest_baseline_ns = 20000000000;
static const int64_t open_patience_ns = 10000000000; /* others may have the device */

/* One exchange: the host's clock at the middle of it, and how long it took. */
struct ping {
    int64_t host_ns, timer, round_trip_ns;
};

/* Sends ping `number` and waits for the answer; false when none comes. */
static bool send_ping(struct gpu_mailbox *box, int number, int64_t patience_ns, struct ping *ping) {
    int64_t before = aorta_clock_ns(), after;
    atomic_store_explicit(&box->request, number, memory_order_release);
    do {
        after = aorta_clock_ns();
        if (after - before > patience_ns) return false;
        if (after - before > YIELD_NS) sched_yield(); /* this one is spoilt anyway */
    } while (atomic_load_explicit(&box->answer, memory_order_acquire) < number);
    *ping = (struct ping){before + (after - before) / 2, box->timers[number], after - before};
    return true;
}

/* The best of some exchanges; `found` is false when the device was too busy to answer. */
static aorta_status measure(struct gpu_device *device, int64_t patience_ns, struct ping *best, bool *found) {
    struct gpu_clock *clock = &device->clock;
    struct gpu_mailbox *box = clock->mailbox;
    atomic_store(&box->answer, 0);
    atomic_store(&box->request, 0);
    AORTA_TRY(aorta_gpu_launch_own(device, clock->stream, &aorta_gpu_clock_ping, &box));
    *found = false;
    for (int number = 1; number <= GPU_PINGS; number++) {
        struct ping ping;
        if (!send_ping(box, number, patience_ns, &ping)) break;
        if (!*found || ping.round_trip_ns < best->round_trip_ns) *best = ping;
        *found = true;
    }
    atomic_store(&box->request, -1); /* a kernel that starts later, or waits, ends at once */
    return NULL;
}

static aorta_status publish(struct gpu_device *device) {
    struct gpu_clock_set_args args = {device->clock.page, device->clock.line};
    return aorta_gpu_launch_own(device, device->clock.stream, &aorta_gpu_clock_set, &args);
}

static int64_t line_at(const struct gpu_clock_line *line, int64_t timer) {
    double ticks = (double)(timer - line->timer), slewed = ticks < line->slew_ticks ? ticks / line->slew_ticks : 1.0;
    return line->host_ns + (int64_t)(ticks * line->ns_per_tick + slewed * line->slew_ns);
}

/* The rate comes from the first and the last measurement, once they lie far enough apart that their errors do not
 * matter; the first is taken anew from time to time, as rates change with temperature. */
static void take_rate(struct gpu_clock *clock, const struct ping *ping) {
    int64_t baseline = ping->host_ns - clock->first_ns;
    if (baseline < shortest_baseline_ns) return;
    clock->line.ns_per_tick = (double)baseline / (double)(ping->timer - clock->first_timer);
    if (baseline < longest_baseline_ns) return;
    clock->first_timer = ping->timer;
    clock->first_ns = ping->host_ns;
}

static void adjust(struct gpu_clock *clock, const struct ping *ping) {
    int64_t shown = line_at(&clock->line, ping->timer), error = ping->host_ns - shown;
    take_rate(clock, ping);
    double slew_ns = fmax(SHORTEST_SLEW_NS, fabs((double)error) * SLEW_SHARE);
    clock->line.timer = ping->timer;
    clock->line.host_ns = shown;
    clock->line.slew_ns = (double)error;
    clock->line.slew_ticks = slew_ns / clock->line.ns_per_tick;
    clock->residual_ns = error < 0 ? -error : error;
    clock->round_trip_ns = ping->round_trip_ns;
}

static bool is_good(const struct gpu_clock *clock, const struct ping *ping) {
    return ping->round_trip_ns <= GOOD_ROUND_TRIP_NS || ping->round_trip_ns <= WORSE * clock->good_ns;
}

static void tend(struct gpu_device *device) {
    struct gpu_clock *clock = &device->clock;
    struct ping ping;
    bool found;
    if (device->driver.api.stream_query(clock->stream)) return; /* the last one is still under way */
    aorta_status status = measure(device, START_PATIENCE_NS, &ping, &found);
    if (!status && found && is_good(clock, &ping)) {
        adjust(clock, &ping);
        status = publish(device);
    }
    if (clock->interval_ns < LAST_INTERVAL_NS) clock->interval_ns *= 2;
    aorta_status_free(status); /* the line goes on as it was; a lost device is reported by the caller's own calls */
}

void aorta_gpu_clock_tend(struct gpu_device *device) {
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
static aorta_status measure_first(struct gpu_device *device, struct ping *best) {
    *best = (struct ping){.round_trip_ns = INT64_MAX};
    for (int round = 0; round < OPEN_ROUNDS && (round < 2 || best->round_trip_ns > GOOD_ROUND_TRIP_NS); round++) {
        struct ping ping;
        bool found;
        AORTA_TRY(measure(device, open_patience_ns, &ping, &found));
        int result = device->driver.api.stream_synchronize(device->clock.stream);
        if (result) return aorta_gpu_error(device, result, "a first kernel failed");
        if (!found) return AORTA_ERROR(AORTA_DEVICE, "a first kernel was started and did not answer");
        if (ping.round_trip_ns < best->round_trip_ns) *best = ping;
    }
    return NULL;
}

static aorta_status start(struct gpu_device *device) {
    struct gpu_clock *clock = &device->clock;
    struct ping ping;
    double nominal = nominal_tick_ns(device);
    AORTA_TRY(make_parts(device));
    AORTA_TRY(measure_first(device, &ping));
    clock->line =
        (struct gpu_clock_line){.timer = ping.timer, .host_ns = ping.host_ns, .ns_per_tick = nominal, .slew_ticks = 1};
    clock->first_timer = ping.timer;
    clock->first_ns = ping.host_ns;
    clock->round_trip_ns = clock->good_ns = ping.round_trip_ns;
    clock->interval_ns = FIRST_INTERVAL_NS;
    clock->next_ns = ping.host_ns + FIRST_INTERVAL_NS;
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
    int64_t error = clock->residual_ns + clock->round_trip_ns / 2 + clock->tick_ns;
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
