/* The roofline of our own steps: what each operation does stands in its range. */
#include "roofline/build.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Operations of the model and the optimizer by the beginning of their names. Of `counted` ones the recorder always has
 * arithmetic or bytes: all kernels of such a range are covered by the one that bears them. */
static const struct {
    const char *begin;
    enum aorta_work_class class;
    bool counted;
} functions[] = {
    {"linear_", AORTA_WORK_GEMM, true},          {"attention_", AORTA_WORK_ATTENTION, true},
    {"norm_", AORTA_WORK_REDUCTION, true},       {"gelu_", AORTA_WORK_POINTWISE, true},
    {"add", AORTA_WORK_POINTWISE, false},        {"cast", AORTA_WORK_POINTWISE, false},
    {"embedding_", AORTA_WORK_POINTWISE, false}, {"bce_with_logits", AORTA_WORK_REDUCTION, false},
    {"adamw_", AORTA_WORK_POINTWISE, true},      {"square_sum", AORTA_WORK_REDUCTION, true},
};

/* A unit's whole pass, as it is recorded on GPUs. */
static bool is_part(const struct aorta_range_info *info) {
    return strncmp(info->function, "layer_", 6) == 0;
}

static struct aorta_roofline_work work_of(const struct aorta_range *range) {
    const struct aorta_range_info *info = &range->info;
    const bool amount = info->flops > 0 || info->bytes > 0;
    struct aorta_roofline_work work = {
        .start_ns = range->start_ns,
        .end_ns = range->end_ns,
        .class = aorta_kernel_work_class(info->within ? info->tag : info->function),
        .arithmetic = aorta_arithmetic_of(info->dtype),
        .covered = amount && !is_part(info) && (info->flops <= 0 || info->dtype < AORTA_DTYPE_COUNT),
        .runs = amount,
        .flops = info->flops,
        .bytes = (double)info->bytes,
        .operation = info->function,
        .kernel = info->tag,
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (strncmp(info->function, functions[i].begin, strlen(functions[i].begin)) != 0) continue;
        work.class = functions[i].class;
        work.covered |= functions[i].counted && info->within;
        break;
    }
    return work;
}

static aorta_status add_step(const struct aorta_iteration *iteration, struct aorta_roofline_build *build) {
    const struct aorta_profile *profile = iteration->profile;
    for (size_t i = 0; i < profile->range_count; i++) {
        if (profile->ranges[i].info.kind != AORTA_RANGE_COMPUTE) continue;
        const struct aorta_roofline_work work = work_of(&profile->ranges[i]);
        AORTA_TRY(aorta_roofline_build_work(build, &work));
        if (!work.covered) aorta_roofline_build_flops(build, work.arithmetic, work.flops);
    }
    build->roofline->lower_bound |= iteration->on_gpu && profile->source == AORTA_SOURCE_RANGE;
    aorta_roofline_build_step(build, iteration->overlap->lead_ns + iteration->overlap->span_ns);
    return NULL;
}

aorta_status aorta_roofline_of_steps(const struct aorta_iteration *iterations, size_t count, const char *device_name,
                                     const struct aorta_peaks *peaks, struct aorta_roofline *roofline) {
    struct aorta_roofline_build build;
    *roofline = (struct aorta_roofline){.peaks = *peaks, .device_name = device_name ? strdup(device_name) : NULL};
    aorta_roofline_build_begin(&build, roofline);
    aorta_status status =
        device_name && !roofline->device_name ? AORTA_ERROR(AORTA_MEMORY, "no memory for the roofline") : NULL;
    for (size_t i = 0; !status && i < count; i++) status = add_step(&iterations[i], &build);
    return aorta_roofline_build_end(&build, status);
}
