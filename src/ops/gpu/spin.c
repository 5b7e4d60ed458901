/* Spinning. */
#include "ops/gpu/gpu.h"

aorta_status aorta_ops_gpu_spin(struct aorta_stream *stream, const void *args) {
    struct aorta_spin_args spin = *(const struct aorta_spin_args *)args;
    spin.clock = aorta_gpu_clock_page(aorta_stream_device(stream));
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_spin, (struct aorta_gpu_grid){.blocks = {1}}, &spin, sizeof spin);
}
