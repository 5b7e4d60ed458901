/* Timestamps of kernels that others launch, in captures. CUDA's graphs know an edge that is passed when all blocks of a
 * kernel have begun (CUDA driver API, CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER); a kernel behind such an edge can itself
 * wait for the end of the one it comes behind (griddepcontrol.wait, compute capability 9.0). So one kernel of one
 * thread sees both ends of another, of whose code nothing is known. */
#include "device/gpu/driver.h"

enum { CAPABILITY = 9 };

bool aorta_gpu_witnesses(const struct aorta_device *base) {
    const struct gpu_device *device = gpu_device(base);
    const struct gpu_api *api = &device->driver.api;
    return api->cuda_capture_info && api->cuda_capture_update && api->cuda_graph_node_type &&
           device->properties.major >= CAPABILITY;
}

static aorta_status find_last(const struct gpu_stream *stream, struct aorta_frontier *last) {
    int result = aorta_gpu_find_frontier(api_of(stream), stream->handle, last);
    if (result) return aorta_gpu_error(device_of(stream), result, "stream %s: what was captured", stream->base.name);
    for (size_t i = 0; i < last->count && i < AORTA_FRONTIER_MOST; i++) {
        if (aorta_gpu_is_kernel(api_of(stream), last->commands[i])) continue;
        return AORTA_ERROR(AORTA_DEVICE, "stream %s: what was queued last is no kernel", stream->base.name);
    }
    if (!last->count || last->count > AORTA_FRONTIER_MOST)
        return AORTA_ERROR(AORTA_DEVICE, "stream %s: what comes next would come behind %zu kernels", stream->base.name,
                           last->count);
    return NULL;
}

static aorta_status check_captured(const struct gpu_stream *stream) {
    if (stream->branch) return NULL;
    return AORTA_ERROR(AORTA_INTERNAL, "stream %s is not captured: nobody sees its kernels begin", stream->base.name);
}

static aorta_status watch(struct gpu_stream *stream, int64_t *begin, int64_t *end) {
    struct aorta_frontier last;
    AORTA_TRY(aorta_gpu_make_current(stream->base.device));
    AORTA_TRY(aorta_gpu_stream_write_stamps(stream));
    AORTA_TRY(find_last(stream, &last));
    struct gpu_times readings = {aorta_gpu_told_cell(stream, begin), aorta_gpu_told_cell(stream, end)};
    if (!readings.begun || !readings.ended)
        return AORTA_ERROR(AORTA_MEMORY, "stream %s: no memory for the times of a kernel", stream->base.name);
    return aorta_gpu_aside_note(stream, &aorta_gpu_witness, &last, readings);
}

aorta_status aorta_gpu_witness_kernel(struct aorta_stream *base, int64_t *begin, int64_t *end) {
    struct gpu_stream *stream = gpu_stream(base);
    AORTA_TRY(check_captured(stream));
    return aorta_gpu_stream_keep(stream, watch(stream, begin, end));
}
