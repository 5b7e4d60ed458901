/* Stamps that take as much room as another kernel: what a captured kernel needs, and a stamp that needs the same. */
#include "device/gpu/driver.h"

#include <stdlib.h>

enum { REGISTERS_PER_BLOCK = 65536, WARP = 32, CLUSTER_MOST = 8 /* that every device grants */ };
enum { ATTRIBUTE_CLUSTER = 4, ATTRIBUTE_SPREAD = 5, POLICY_SPREAD = 1 };

/* CUlaunchAttribute and CUlaunchConfig of cuda.h; tests/device/signatures.cc compares. */
struct launch_attribute {
    int id;
    char unused[4];
    union {
        unsigned cluster[3];
        int policy;
        char bytes[64];
    } value;
};
struct launch_shape {
    unsigned grid[3], block[3], shared_bytes;
    void *stream;
    struct launch_attribute *attributes;
    unsigned attribute_count;
};

_Static_assert(sizeof(struct launch_attribute) == 72 && sizeof(struct launch_shape) == 56, "as cuda.h has them");

/* ---- what a kernel needs ---- */

bool aorta_gpu_tells_footprints(const struct aorta_device *device) {
    const struct gpu_api *api = &gpu_device(device)->driver.api;
    return api->cuda_graph_node_type && api->cuda_graph_kernel && api->cuda_graph_kernel_attribute &&
           api->cuda_launch_shaped;
}

/* The driver gives out registers by warps, in multiples of eight a thread. */
static uint32_t registers_of(uint32_t threads, uint32_t registers) {
    return (threads + WARP - 1) / WARP * WARP * ((registers + 7) / 8 * 8);
}

/* False when the node is no kernel, or the driver does not tell. */
static bool read_node(const struct gpu_api *api, void *node, struct aorta_footprint *footprint) {
    int registers, shared;
    struct gpu_kernel_node kernel;
    if (!aorta_gpu_read_kernel(api, node, &kernel)) return false;
    if (api->function_attribute(&registers, GPU_FUNCTION_REGISTERS, kernel.function)) return false;
    if (api->function_attribute(&shared, GPU_FUNCTION_SHARED_BYTES, kernel.function)) return false;
    struct launch_attribute cluster = {0};
    if (api->cuda_graph_kernel_attribute(node, ATTRIBUTE_CLUSTER, &cluster.value)) cluster.value.cluster[0] = 0;
    const unsigned *blocks = cluster.value.cluster;
    *footprint = (struct aorta_footprint){
        .threads = kernel.block[0] * kernel.block[1] * kernel.block[2],
        .registers = (uint32_t)registers,
        .shared_bytes = kernel.shared_bytes + (uint32_t)shared,
        .cluster = blocks[0] > 1 || blocks[1] > 1 || blocks[2] > 1 ? blocks[0] * blocks[1] * blocks[2] : 1,
    };
    return true;
}

static void find_largest(const struct gpu_api *api, void *const *nodes, size_t count,
                         struct aorta_footprint *footprint) {
    for (size_t i = 0; i < count; i++) {
        struct aorta_footprint one;
        if (!read_node(api, nodes[i], &one)) continue;
        if (registers_of(one.threads, one.registers) > registers_of(footprint->threads, footprint->registers))
            *footprint = one;
    }
}

/* ---- a stamp that needs the same ---- */

/* The kernel with as many registers or, where such a block would be too large, with as many as possible. */
static aorta_status choose(struct gpu_device *device, const struct aorta_footprint *footprint,
                           struct gpu_function **chosen) {
    const uint32_t wanted = registers_of(footprint->threads, footprint->registers);
    *chosen = NULL;
    for (int i = 0; i < GPU_ROOM_STAMPS; i++) {
        struct gpu_function *function;
        AORTA_TRY(aorta_gpu_function(device, &aorta_gpu_room_stamps[i], &function));
        uint32_t taken = registers_of(footprint->threads, (uint32_t)function->registers);
        if (*chosen && taken > REGISTERS_PER_BLOCK) break;
        *chosen = function;
        if (taken >= wanted) break;
    }
    return NULL;
}

/* Whether a launch with this footprint would be taken; what it needs is compiled and loaded then. */
static aorta_status try(struct gpu_device *device, const struct aorta_footprint *footprint, bool *fits) {
    struct gpu_function *function;
    int blocks = 0;
    *fits = false;
    AORTA_TRY(choose(device, footprint, &function));
    AORTA_TRY(aorta_gpu_allow_shared(device, function, footprint->shared_bytes));
    int result =
        device->driver.api.occupancy(&blocks, function->handle, (int)footprint->threads, footprint->shared_bytes);
    *fits = !result && blocks > 0 && footprint->cluster <= CLUSTER_MOST;
    return NULL;
}

aorta_status aorta_gpu_graph_footprint(struct gpu_device *device, void *graph, struct aorta_footprint *footprint) {
    const struct gpu_api *api = &device->driver.api;
    size_t count = 0;
    *footprint = (struct aorta_footprint){0};
    if (!aorta_gpu_tells_footprints(&device->base) || api->graph_nodes(graph, NULL, &count) || !count) return NULL;
    void **nodes = calloc(count, sizeof *nodes);
    if (!nodes) return AORTA_ERROR(AORTA_MEMORY, "no host memory for the %zu nodes of a graph", count);
    if (!api->graph_nodes(graph, nodes, &count)) find_largest(api, nodes, count, footprint);
    free(nodes);
    bool fits = false;
    if (footprint->threads) aorta_status_free(try(device, footprint, &fits)); /* then plain stamps do */
    if (!fits) *footprint = (struct aorta_footprint){0};
    return NULL;
}

static int launch(const struct gpu_stream *stream, void *function, const struct aorta_footprint *footprint,
                  void *args) {
    const struct gpu_api *api = api_of(stream);
    void *parameters[] = {args};
    if (footprint->cluster <= 1)
        return api->launch(function, 1, 1, 1, footprint->threads, 1, 1, footprint->shared_bytes, stream->handle,
                           parameters, NULL);
    struct launch_attribute attributes[] = {
        {.id = ATTRIBUTE_CLUSTER, .value.cluster = {footprint->cluster, 1, 1}},
        {.id = ATTRIBUTE_SPREAD, .value.policy = POLICY_SPREAD},
    };
    const struct launch_shape shape = {.grid = {footprint->cluster, 1, 1},
                                       .block = {footprint->threads, 1, 1},
                                       .shared_bytes = footprint->shared_bytes,
                                       .stream = stream->handle,
                                       .attributes = attributes,
                                       .attribute_count = sizeof attributes / sizeof *attributes};
    return api->cuda_launch_shaped(&shape, function, parameters, NULL);
}

static aorta_status stamp(struct gpu_stream *stream, const struct aorta_footprint *footprint, int64_t *slot) {
    struct gpu_device *device = device_of(stream);
    struct gpu_room_args args = {.stamp = {.clock = device->clock.page, .slots = {slot}}};
    struct gpu_function *function;
    bool skip;
    AORTA_TRY(aorta_gpu_stream_enter(stream, &skip));
    if (skip) return NULL;
    aorta_gpu_told_stamp(stream, &args.stamp);
    AORTA_TRY(choose(device, footprint, &function));
    AORTA_TRY(aorta_gpu_allow_shared(device, function, footprint->shared_bytes));
    stream->last = function->entry->name;
    int result = launch(stream, function->handle, footprint, &args);
    if (!result) return NULL;
    return aorta_gpu_error(device, result, "kernel %s (%u threads, %u bytes, %u blocks)", function->entry->name,
                           footprint->threads, footprint->shared_bytes,
                           footprint->cluster > 1 ? footprint->cluster : 1);
}

aorta_status aorta_gpu_timestamp_room(struct aorta_stream *base, const struct aorta_footprint *footprint,
                                      int64_t *slot) {
    struct gpu_stream *stream = gpu_stream(base);
    return aorta_gpu_stream_keep(stream,
                                 aorta_annotate(stamp(stream, footprint, slot), "stream %s: timestamp", base->name));
}
