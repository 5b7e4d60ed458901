/* The rates that the run itself reaches, from which rules compute. */
#include "base/sort.h"
#include "base/statistics.h"
#include "roofline/remedy_internal.h"

#include <math.h>
#include <stdlib.h>

static const double BEYOND_CACHES = 100e6; /* bytes: an operation that moves more does so at the memory's rate */
static const double LARGE_FLOPS = 2e10;
/* Where the run has too few operations to say, and at most: of the peaks. */
static const double STREAM_USUAL = 0.85, STREAM_MOST = 0.92;
static const double PRODUCT_USUAL = 0.72, PRODUCT_MOST = 0.8;
/* Of the streaming rate: kernels that compilers generate for chains (2.7 to 3.0 of 4.4 TB/s on an H200). */
static const double GENERATED = 0.67;

/* The rate at a place of the sorted samples, 0 … 1; NaN: fewer than `least`. */
static double at_place(double *samples, size_t count, size_t least, double place) {
    if (count < least) return NAN;
    aorta_sort_double(samples, count);
    return aorta_percentile_sorted(samples, count, 100 * place);
}

static double find_stream(const struct remedy_model *model, double *samples) {
    const double memory = model->peaks.gbytes_per_s;
    size_t count = 0;
    for (size_t i = 0; i < model->leaf_count; i++) {
        const struct leaf *leaf = &model->leaves[i];
        const bool streams = leaf->kind == LEAF_STREAM || leaf->kind == LEAF_COPY || leaf->kind == LEAF_OPTIMIZER;
        if (!streams || aorta_leaf_work(leaf) != 1 || !(leaf->bytes > BEYOND_CACHES) || !(leaf->ns > 0)) continue;
        if (leaf->bytes / leaf->ns < memory) samples[count++] = leaf->bytes / leaf->ns;
    }
    const double found = at_place(samples, count, 8, 0.9);
    return isnan(found) ? STREAM_USUAL * memory : fmin(found, STREAM_MOST * memory);
}

static double find_best(const struct remedy_model *model, enum leaf_math math, double *samples) {
    size_t count = 0;
    for (size_t i = 0; i < model->leaf_count; i++) {
        const struct leaf *leaf = &model->leaves[i];
        if (leaf->kind == LEAF_PRODUCT && leaf->math == math && leaf->flops > LARGE_FLOPS && leaf->ns > 0 &&
            aorta_remedy_aligned(leaf))
            samples[count++] = leaf->flops / leaf->ns;
    }
    const double found = at_place(samples, count, 3, 0.5);
    return isnan(found) ? PRODUCT_USUAL * model->peak[math] : fmin(found, PRODUCT_MOST * model->peak[math]);
}

aorta_status aorta_remedy_rates(struct remedy_model *model) {
    enum aorta_arithmetic arithmetic[MATH_COUNT] = {AORTA_ARITHMETIC_UNKNOWN, AORTA_IN_FP32, AORTA_IN_TF32,
                                                    AORTA_IN_BF16, AORTA_IN_FP8};
    double *samples = malloc((model->leaf_count + 1) * sizeof *samples);
    if (!samples) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu operations", model->leaf_count);
    for (int i = 0; i < MATH_COUNT; i++) {
        const bool known = arithmetic[i] != AORTA_ARITHMETIC_UNKNOWN;
        if (i == MATH_HALF && isnan(model->peaks.tflops[AORTA_IN_BF16]))
            arithmetic[i] = AORTA_IN_FP16; /* before Ampere */
        model->peak[i] = known ? 1e3 * model->peaks.tflops[arithmetic[i]] : NAN;
        model->best[i] = known ? find_best(model, (enum leaf_math)i, samples) : NAN;
    }
    model->stream = find_stream(model, samples);
    model->fused = GENERATED * model->stream;
    free(samples);
    return NULL;
}
