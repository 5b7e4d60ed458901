#include "train/readings.h"
#include "base/clock.h"
#include "measure/metrics.h"
#include "ops/ops.h"
#include "verdict/verdict.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Clocks follow power and heat in tenths of a second; a reading may cost the driver a millisecond. */
static const int64_t clocks_every_ns = 1000000000;

aorta_status aorta_readings_open(const struct aorta_train_run *run, const struct aorta_train_context *context,
                                 struct aorta_readings *readings) {
    enum aorta_device_kind kind = aorta_device_get_info(context->device)->kind;
    *readings = (struct aorta_readings){.device = run->device_metrics,
                                        .rocm = run->rocm_metrics && kind == AORTA_DEVICE_HIP,
                                        .clocks = kind != AORTA_DEVICE_CPU};
    if (run->rocm_metrics && !readings->rocm) {
        char reason[128];
        snprintf(reason, sizeof reason, "ROCm SMI reads AMD GPUs; this run is on the %s device",
                 aorta_device_kind_name(kind));
        readings->no_rocm = (struct aorta_device_reading){.wanted = true, .values = aorta_device_unmeasured(reason)};
        if (context->ranks.rank == 0) aorta_log(context->log, AORTA_LOG_WARNING, "--enable-rocm-metrics: %s", reason);
    }
    bool each_line = readings->device || readings->rocm;
    if (!each_line && !readings->clocks) return NULL;
    return aorta_sampler_open(context->device, each_line, context->options->training.log_interval, &readings->sampler);
}

void aorta_readings_close(struct aorta_readings *readings) {
    aorta_sampler_close(readings->sampler);
    readings->sampler = NULL;
}

/* When the step after the warm-up's last is queued, the first one that counts is about to run; when the last one is,
 * the one before it runs. */
void aorta_readings_expect(struct aorta_readings *readings, int64_t total_steps) {
    int64_t first = (int64_t)aorta_analysis_warmup((size_t)total_steps) + 1;
    readings->last_step = total_steps - 1;
    readings->first_step = first < readings->last_step ? first : readings->last_step;
}

void aorta_readings_step(struct aorta_readings *readings, int64_t step) {
    if (readings->device || readings->rocm) aorta_sampler_ask(readings->sampler);
    if (!readings->clocks || step < readings->first_step) return;
    int64_t now_ns = aorta_clock_ns();
    if (readings->since_ns && step < readings->last_step && now_ns - readings->asked_ns < clocks_every_ns) return;
    if (!readings->since_ns) readings->since_ns = now_ns;
    readings->asked_ns = now_ns;
    aorta_sampler_ask_always(readings->sampler);
}

/* A reading made while measured steps ran goes into one line; of a device that reports nothing the reason does. */
static void report_clocks(struct aorta_readings *readings, bool last, struct aorta_step_metrics *metrics) {
    if (!readings->clocks || !readings->since_ns) return;
    if (last) aorta_sampler_drain(readings->sampler);
    struct aorta_device_reading reading = aorta_sampler_latest(readings->sampler);
    bool silent = reading.at_ns && !aorta_device_measured(&reading.values);
    bool in_time = reading.at_ns - (int64_t)(reading.read_ms * 1e6) >= readings->since_ns;
    if (reading.at_ns == readings->reported_ns || !(silent || in_time)) return;
    readings->reported_ns = reading.at_ns;
    metrics->clocks = reading;
}

void aorta_readings_report(struct aorta_readings *readings, bool last, struct aorta_step_metrics *metrics) {
    if (readings->device) metrics->device_metrics = aorta_sampler_latest(readings->sampler);
    metrics->rocm_smi_output = readings->rocm ? aorta_sampler_latest(readings->sampler) : readings->no_rocm;
    report_clocks(readings, last, metrics);
}

/* ---- peaks ---- */

enum { WIDTH = 512, COPIED = 32 << 20, HUGE_PAGE = 2 << 20, LEAST_RUNS = 2, MOST_RUNS = 6, ENOUGH_NS = 20000000 };

/* Host memory, which is the CPU device's own: the device's figures of memory do not change. */
struct scratch {
    char *from, *to; /* COPIED bytes each, which hold the matrices too */
};

typedef aorta_status (*queue_work)(const struct aorta_train_context *context, const struct scratch *scratch);

static aorta_status queue_product(const struct aorta_train_context *context, const struct scratch *scratch) {
    const struct aorta_linear shape = {context->dtype, WIDTH, WIDTH, WIDTH};
    const char *weight = scratch->from + (size_t)WIDTH * WIDTH * sizeof(float);
    return aorta_linear_forward(
        aorta_train_compute(context),
        &(struct aorta_linear_args){.shape = shape, .x = scratch->from, .weight = weight, .y = scratch->to});
}

static aorta_status queue_copy(const struct aorta_train_context *context, const struct scratch *scratch) {
    return aorta_copy(aorta_train_compute(context), scratch->to, scratch->from, COPIED);
}

/* The shortest of some runs; a slow or busy machine makes fewer. */
static aorta_status time_work(const struct aorta_train_context *context, const struct scratch *scratch,
                              queue_work queue, int64_t *best_ns) {
    const int64_t begun_ns = aorta_clock_ns();
    *best_ns = INT64_MAX;
    for (int i = 0; i < MOST_RUNS && (i < LEAST_RUNS || aorta_clock_ns() - begun_ns < ENOUGH_NS); i++) {
        const int64_t start_ns = aorta_clock_ns();
        AORTA_TRY(queue(context, scratch));
        AORTA_TRY(aorta_stream_synchronize(aorta_train_compute(context)));
        const int64_t ns = aorta_clock_ns() - start_ns;
        if (ns < *best_ns) *best_ns = ns;
    }
    return NULL;
}

static aorta_status measure(const struct aorta_train_context *context, const struct scratch *scratch,
                            struct aorta_measured_peaks *peaks) {
    int64_t product_ns, copy_ns;
    AORTA_TRY(time_work(context, scratch, queue_product, &product_ns));
    AORTA_TRY(time_work(context, scratch, queue_copy, &copy_ns));
    const enum aorta_arithmetic arithmetic = aorta_arithmetic_of(context->dtype);
    if (arithmetic != AORTA_ARITHMETIC_UNKNOWN)
        peaks->tflops[arithmetic] = 2.0 * WIDTH * WIDTH * WIDTH / (double)product_ns / 1e3;
    peaks->gbytes_per_s = 2.0 * COPIED / (double)copy_ns; /* read and written */
    return NULL;
}

/* Huge pages, if available: on virtual machines faults of small ones take longer than all the copies. */
static char *make_buffer(void) {
    char *buffer = aligned_alloc(HUGE_PAGE, COPIED);
    if (buffer) madvise(buffer, COPIED, MADV_HUGEPAGE);
    return buffer;
}

aorta_status aorta_train_measure_peaks(const struct aorta_train_context *context, struct aorta_measured_peaks *peaks) {
    const int64_t start_ns = aorta_clock_ns();
    *peaks = (struct aorta_measured_peaks){.gbytes_per_s = NAN};
    for (int i = 0; i < AORTA_ARITHMETIC_COUNT; i++) peaks->tflops[i] = NAN;
    if (aorta_device_get_info(context->device)->kind != AORTA_DEVICE_CPU) return NULL;
    const struct scratch scratch = {make_buffer(), make_buffer()};
    aorta_status status = NULL;
    if (!scratch.from || !scratch.to) status = AORTA_ERROR(AORTA_MEMORY, "no memory to measure the device's peaks");
    if (!status) {
        memset(scratch.from, 0, COPIED);
        status = measure(context, &scratch, peaks);
    }
    free(scratch.from);
    free(scratch.to);
    peaks->cost_ms = (double)(aorta_clock_ns() - start_ns) / 1e6;
    return status;
}
