/* The roofline of our own steps: what each operation does stands in its range. */
#include "roofline/roofline_internal.h"

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
    static const char *const parts[] = {"layer_", "input_", "head"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strncmp(info->function, parts[i], strlen(parts[i])) == 0) return true;
    return false;
}

static bool is_typed(const struct aorta_range_info *info) {
    return info->flops <= 0 || info->dtype < AORTA_DTYPE_COUNT;
}

static struct aorta_roofline_work work_of(const struct aorta_range *range) {
    const struct aorta_range_info *info = &range->info;
    return (struct aorta_roofline_work){.start_ns = range->start_ns,
                                        .end_ns = range->end_ns,
                                        .class = aorta_kernel_work_class(info->within ? info->tag : info->function),
                                        .arithmetic = aorta_arithmetic_of(info->dtype),
                                        .flops = info->flops,
                                        .bytes = (double)info->bytes,
                                        .operation = info->function,
                                        .kernel = info->tag};
}

static aorta_status add_operation(const struct aorta_range *range, struct aorta_roofline_build *build) {
    const struct aorta_range_info *info = &range->info;
    struct aorta_roofline_work work = work_of(range);
    work.runs = info->flops > 0 || info->bytes > 0;
    work.covered = work.runs && is_typed(info);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (strncmp(info->function, functions[i].begin, strlen(functions[i].begin)) != 0) continue;
        work.class = functions[i].class;
        work.covered |= functions[i].counted && info->within;
        break;
    }
    if (!work.covered) aorta_roofline_build_flops(build, work.arithmetic, work.flops);
    return aorta_roofline_build_work(build, &work);
}

/* Of a unit's pass the kernels are known by their names. What its products and its attention do together stands on its
 * longest kernel, whichever that is. */
static aorta_status add_kernel_of_part(const struct aorta_range *range, struct aorta_roofline_build *build) {
    const struct aorta_range_info *info = &range->info;
    struct aorta_roofline_work work = work_of(range);
    work.flops = work.bytes = 0;
    work.covered = (work.class == AORTA_WORK_GEMM || work.class == AORTA_WORK_ATTENTION) && is_typed(info);
    AORTA_TRY(aorta_roofline_build_work(build, &work));
    if (!(info->flops > 0) || !is_typed(info)) return NULL;
    work.runs = true;
    work.start_ns = work.end_ns;
    work.class = AORTA_WORK_GEMM;
    work.flops = info->flops - info->attention_flops;
    work.bytes = (double)(info->bytes - info->attention_bytes);
    AORTA_TRY(aorta_roofline_build_amount(build, &work));
    work.class = AORTA_WORK_ATTENTION;
    work.flops = info->attention_flops;
    work.bytes = (double)info->attention_bytes;
    return work.flops > 0 ? aorta_roofline_build_amount(build, &work) : NULL;
}

/* A unit's pass without its kernels. */
static aorta_status add_part(const struct aorta_range *range, struct aorta_roofline_build *build) {
    struct aorta_roofline_work work = work_of(range);
    aorta_roofline_build_flops(build, work.arithmetic, work.flops);
    work.class = AORTA_WORK_OTHER;
    work.flops = work.bytes = 0;
    return aorta_roofline_build_work(build, &work);
}

static aorta_status add_range(const struct aorta_range *range, struct aorta_roofline_build *build) {
    if (!is_part(&range->info)) return add_operation(range, build);
    return range->info.within ? add_kernel_of_part(range, build) : add_part(range, build);
}

static aorta_status add_step(const struct aorta_iteration *iteration, struct aorta_roofline_build *build) {
    const struct aorta_profile *profile = iteration->profile;
    for (size_t i = 0; i < profile->range_count; i++)
        if (profile->ranges[i].info.kind == AORTA_RANGE_COMPUTE) AORTA_TRY(add_range(&profile->ranges[i], build));
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
