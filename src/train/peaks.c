#include "train/peaks.h"

#include "base/clock.h"
#include "ops/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

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
