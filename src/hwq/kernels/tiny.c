/* The tiny kernels on the CPU, and their grids on a GPU. */
#include "hwq/kernels/tiny.h"
#include "hwq/kernels/entries.h"
#include "hwq/kernels/host.h"
#include "hwq/kernels/kernels.h"

#include <math.h>

static aorta_status cpu_multiply_add(const void *args) {
    const struct aorta_hwq_multiply_add *a = args;
    aorta_hwq_stamp_begin(a->stamp);
    for (int64_t i = 0; i < a->count; i++) a->y[i] = a->x[i] * a->factor + a->addend;
    aorta_hwq_stamp_end(a->stamp);
    return NULL;
}

static float link_of(const struct aorta_hwq_chain *a, float x) {
    switch (a->link) {
    case AORTA_HWQ_MULTIPLY:
        return x * a->a;
    case AORTA_HWQ_ADD:
        return x + a->a;
    case AORTA_HWQ_ABS:
        return fabsf(x);
    default:
        return x < a->a ? a->a : x > a->b ? a->b : x;
    }
}

static aorta_status cpu_chain(const void *args) {
    const struct aorta_hwq_chain *a = args;
    aorta_hwq_stamp_begin(a->stamp);
    for (int64_t i = 0; i < a->count; i++) a->x[i] = link_of(a, a->x[i]);
    aorta_hwq_stamp_end(a->stamp);
    return NULL;
}

static aorta_status gpu_multiply_add(struct aorta_stream *stream, const void *args) {
    const struct aorta_hwq_multiply_add *a = args;
    const int entry = a->stamp ? AORTA_HWQ_ENTRY_multiply_add_stamped : AORTA_HWQ_ENTRY_multiply_add;
    return aorta_gpu_launch(stream, &aorta_hwq_entries[entry], aorta_hwq_grid(a->count, 256), a, sizeof *a);
}

static aorta_status gpu_chain(struct aorta_stream *stream, const void *args) {
    const struct aorta_hwq_chain *a = args;
    const int entry = a->stamp ? AORTA_HWQ_ENTRY_chain_stamped : AORTA_HWQ_ENTRY_chain;
    return aorta_gpu_launch(stream, &aorta_hwq_entries[entry], aorta_hwq_grid(a->count, 256), a, sizeof *a);
}

const struct aorta_kernel aorta_hwq_kernel_multiply_add = {"hwq_multiply_add", cpu_multiply_add, gpu_multiply_add};
const struct aorta_kernel aorta_hwq_kernel_chain = {"hwq_chain", cpu_chain, gpu_chain};
