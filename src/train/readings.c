#include "train/readings.h"

#include "base/clock.h"
#include "formats/metrics.h"
#include "verdict/verdict.h"

#include <stdio.h>

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
