#include "train/readings.h"

#include <math.h>
#include <stdio.h>

aorta_status aorta_readings_open(const struct aorta_train_run *run, const struct aorta_train_context *context,
                                 struct aorta_readings *readings) {
    enum aorta_device_kind kind = aorta_device_get_info(context->device)->kind;
    *readings =
        (struct aorta_readings){.device = run->device_metrics, .rocm = run->rocm_metrics && kind == AORTA_DEVICE_HIP};
    if (run->rocm_metrics && !readings->rocm) {
        char reason[128];
        snprintf(reason, sizeof reason, "ROCm SMI reads AMD GPUs; this run is on the %s device",
                 aorta_device_kind_name(kind));
        readings->no_rocm = (struct aorta_device_reading){.wanted = true, .values = aorta_device_unmeasured(reason)};
        if (context->ranks.rank == 0) aorta_log(context->log, AORTA_LOG_WARNING, "--enable-rocm-metrics: %s", reason);
    }
    if (!readings->device && !readings->rocm) return NULL;
    return aorta_sampler_open(context->device, context->options->training.log_interval, &readings->sampler);
}

void aorta_readings_close(struct aorta_readings *readings) {
    aorta_sampler_close(readings->sampler);
    readings->sampler = NULL;
}

void aorta_readings_step(struct aorta_readings *readings) {
    if (readings->sampler) aorta_sampler_ask(readings->sampler);
}

void aorta_readings_tell(struct aorta_readings *readings, struct aorta_step_metrics *metrics) {
    if (readings->device) metrics->device_metrics = aorta_sampler_latest(readings->sampler);
    metrics->rocm_smi_output = readings->rocm ? aorta_sampler_latest(readings->sampler) : readings->no_rocm;
}
