/* What captures tell of the commands in them. */
#include "device/gpu/driver.h"

enum { NODE_KERNEL = 0 };

_Static_assert(sizeof(struct gpu_kernel_node) == 72, "as cuda.h has it");

bool aorta_gpu_is_kernel(const struct gpu_api *api, void *node) {
    int type;
    return !api->cuda_graph_node_type(node, &type) && type == NODE_KERNEL;
}

bool aorta_gpu_read_kernel(const struct gpu_api *api, void *node, struct gpu_kernel_node *kernel) {
    *kernel = (struct gpu_kernel_node){0};
    if (!aorta_gpu_is_kernel(api, node) || api->cuda_graph_kernel(node, kernel)) return false;
    if (kernel->function || !kernel->kernel) return kernel->function != NULL;
    return api->cuda_kernel_function && !api->cuda_kernel_function(&kernel->function, kernel->kernel);
}

int aorta_gpu_find_frontier(const struct gpu_api *api, void *stream, struct aorta_frontier *frontier) {
    int status;
    unsigned long id;
    void *graph, *const *nodes;
    const void *edges;
    int result = api->cuda_capture_info(stream, &status, &id, &graph, &nodes, &edges, &frontier->count);
    if (result) return result;
    for (size_t i = 0; i < frontier->count && i < AORTA_FRONTIER_MOST; i++) frontier->commands[i] = nodes[i];
    return 0;
}

/* A timestamp that is still to be written, and waited for, would come between. */
bool aorta_gpu_frontier(struct aorta_stream *base, struct aorta_frontier *frontier) {
    const struct gpu_stream *stream = gpu_stream(base);
    if (!stream->branch || !api_of(stream)->cuda_capture_info) return false;
    if (stream->stamp_count && !stream->stamps_aside) return false;
    aorta_status_free(aorta_gpu_make_current(base->device)); /* a lost device: the question fails */
    return !aorta_gpu_find_frontier(api_of(stream), stream->handle, frontier);
}
