/* Timestamps of kernels that others launch, in captures. CUDA's graphs know an edge that is passed when all blocks of a
 * kernel have begun (CUDA driver API, CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER); a kernel behind such an edge can itself
 * wait for the end of the one it comes behind (griddepcontrol.wait, compute capability 9.0). So one kernel of one
 * thread sees both ends of another, of whose code nothing is known. */
#include "device/gpu/driver.h"

enum { PORT_LAUNCH_ORDER = 2, EDGE_PROGRAMMATIC = 1, DEPENDENCIES_SET = 1, NODE_KERNEL = 0 };
enum { MOST_KERNELS = 8, CAPABILITY = 9 };

struct edge { /* CUgraphEdgeData */
    uint8_t from_port, to_port, type, reserved[5];
};
_Static_assert(sizeof(struct edge) == 8, "as cuda.h has it");

struct kernels {
    void *nodes[MOST_KERNELS];
    size_t count;
};

bool aorta_gpu_witnesses(const struct aorta_device *base) {
    const struct gpu_device *device = gpu_device(base);
    const struct gpu_api *api = &device->driver.api;
    return api->cuda_capture_info && api->cuda_capture_update && api->cuda_graph_node_type &&
           device->properties.major >= CAPABILITY;
}

/* What the next command of a captured stream would come behind. */
static aorta_status find_last(const struct gpu_stream *stream, struct kernels *last) {
    const struct gpu_api *api = api_of(stream);
    int status;
    unsigned long id;
    void *graph, *const *nodes;
    const void *edges;
    size_t count;
    int result = api->cuda_capture_info(stream->handle, &status, &id, &graph, &nodes, &edges, &count);
    if (result) return aorta_gpu_error(device_of(stream), result, "stream %s: what was captured", stream->base.name);
    last->count = count < MOST_KERNELS ? count : MOST_KERNELS;
    for (size_t i = 0; i < last->count; i++) last->nodes[i] = nodes[i];
    for (size_t i = 0; i < last->count; i++) {
        int type;
        if (!api->cuda_graph_node_type(last->nodes[i], &type) && type == NODE_KERNEL) continue;
        return AORTA_ERROR(AORTA_DEVICE, "stream %s: what was queued last is no kernel", stream->base.name);
    }
    if (!count || count > MOST_KERNELS)
        return AORTA_ERROR(AORTA_DEVICE, "stream %s: what comes next would come behind %zu kernels", stream->base.name,
                           count);
    return NULL;
}

/* `handle`, captured, comes behind the beginning of the kernels. */
static aorta_status come_behind(const struct gpu_stream *stream, void *handle, struct kernels *kernels,
                                unsigned flags) {
    struct edge edges[MOST_KERNELS];
    for (size_t i = 0; i < kernels->count; i++)
        edges[i] = (struct edge){.from_port = PORT_LAUNCH_ORDER, .type = EDGE_PROGRAMMATIC};
    int result = api_of(stream)->cuda_capture_update(handle, kernels->nodes, edges, kernels->count, flags);
    return result
               ? aorta_gpu_error(device_of(stream), result, "stream %s: behind a kernel's beginning", stream->base.name)
               : NULL;
}

static aorta_status check_captured(const struct gpu_stream *stream) {
    if (stream->branch) return NULL;
    return AORTA_ERROR(AORTA_INTERNAL, "stream %s is not captured: nobody sees its kernels begin", stream->base.name);
}

static aorta_status watch(struct gpu_stream *stream, int64_t *begin, int64_t *end) {
    struct gpu_device *device = device_of(stream);
    struct gpu_stamp_args args = {.clock = device->clock.page, .slots = {begin, end}};
    struct kernels last = {0};
    struct gpu_aside *aside;
    AORTA_TRY(aorta_gpu_make_current(&device->base));
    AORTA_TRY(aorta_gpu_stream_write_stamps(stream));
    AORTA_TRY(find_last(stream, &last));
    AORTA_TRY(aorta_gpu_aside_fork(stream, &aside));
    AORTA_TRY(come_behind(stream, aside->stream, &last, DEPENDENCIES_SET));
    return aorta_gpu_launch_own(device, aside->stream, &aorta_gpu_witness, &args);
}

aorta_status aorta_gpu_witness_kernel(struct aorta_stream *base, int64_t *begin, int64_t *end) {
    struct gpu_stream *stream = gpu_stream(base);
    AORTA_TRY(check_captured(stream));
    return aorta_gpu_stream_keep(stream, watch(stream, begin, end));
}
