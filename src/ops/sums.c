#include "ops/gpu/gpu.h"
#include "ops/ops.h"

/* Queued on GPUs only. */
static const struct aorta_kernel finish_kernel = {"sums_finish", NULL, aorta_ops_gpu_sums_finish};

aorta_status aorta_sums_gather(struct aorta_stream *stream) {
    return aorta_device_is_gpu(aorta_stream_device(stream)) ? aorta_ops_gpu_sums_gather(stream) : NULL;
}

aorta_status aorta_sums_finish(struct aorta_stream *stream) {
    return aorta_device_is_gpu(aorta_stream_device(stream)) ? aorta_launch(stream, &finish_kernel, NULL, 0) : NULL;
}
