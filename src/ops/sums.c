#include "ops/gpu/gpu.h"
#include "ops/ops.h"

aorta_status aorta_sums_gather(struct aorta_stream *stream) {
    return aorta_device_is_gpu(aorta_stream_device(stream)) ? aorta_ops_gpu_sums_gather(stream) : NULL;
}

aorta_status aorta_sums_finish(struct aorta_stream *stream) {
    return aorta_device_is_gpu(aorta_stream_device(stream)) ? aorta_ops_gpu_sums_finish(stream) : NULL;
}
