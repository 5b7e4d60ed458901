/* Readings of the device's timer that kernels of a capture leave in device memory, in a cell each; one kernel at the
 * end of the graph turns all of them into times. What waits for a timestamp's kernel then waits for a store, not for
 * the host's memory.
 *
 * Kernels of our own tell their times themselves (src/ops/kernels/times.h): no kernel of a timestamp's has to find room
 * beside them, so that the time is not later than what it is of, and the graph has a node less. They are asked through
 * their second parameter, for the beginning at the launch, for the end afterwards. */
#include "device/gpu/driver.h"

#include <stdlib.h>
#include <string.h>

enum { CELLS = 1024, PARAMETERS_MOST = 4096, FIRST_ROWS = 64 };

struct cells {
    struct cells *next;
    unsigned long long *memory; /* device memory, CELLS readings */
    size_t used;
};

struct gpu_told {
    struct cells *cells;       /* owned; the last ones made come first */
    struct gpu_told_row *rows; /* owned */
    size_t count, room;
};

void aorta_gpu_told_free(struct gpu_device *device, struct gpu_told *told) {
    if (!told) return;
    aorta_status_free(aorta_gpu_make_current(&device->base)); /* a lost device: what it held is gone anyway */
    while (told->cells) {
        struct cells *cells = told->cells;
        told->cells = cells->next;
        device->driver.api.memory_free(cells->memory);
        free(cells);
    }
    free(told->rows);
    free(told);
}

/* Zeros, before anybody can replay the capture. False: there is no memory. */
static bool add_cells(struct gpu_device *device, struct gpu_told *told) {
    const struct gpu_api *api = &device->driver.api;
    struct cells *cells = calloc(1, sizeof *cells);
    void *memory;
    if (!cells || api->memory_alloc(&memory, CELLS * sizeof *cells->memory)) {
        free(cells);
        return false;
    }
    cells->memory = memory;
    cells->next = told->cells;
    told->cells = cells;
    return !api->fill(memory, 0, CELLS * sizeof *cells->memory, device->clock.stream) &&
           !api->stream_synchronize(device->clock.stream);
}

static bool reserve_row(struct gpu_told *told) {
    if (told->count < told->room) return true;
    const size_t room = told->room ? 2 * told->room : FIRST_ROWS;
    struct gpu_told_row *grown = realloc(told->rows, room * sizeof *grown);
    if (!grown) return false;
    told->rows = grown;
    told->room = room;
    return true;
}

/* NULL: there is no memory. */
static struct gpu_told *told_of(struct gpu_capture *capture) {
    if (!capture->told) capture->told = calloc(1, sizeof *capture->told);
    return capture->told;
}

/* A cell that is nobody's yet, and stays so until it is used; NULL: there is no memory. */
static unsigned long long *next_cell(struct gpu_capture *capture) {
    struct gpu_told *told = told_of(capture);
    if (!told) return NULL;
    const bool full = !told->cells || told->cells->used == CELLS;
    if (full && !add_cells(gpu_device(capture->state.device), told)) return NULL;
    return told->cells->memory + told->cells->used;
}

unsigned long long *aorta_gpu_told_cell(struct gpu_capture *capture, int64_t *slot) {
    unsigned long long *cell = next_cell(capture);
    if (!cell || !aorta_gpu_told_also(capture, cell, slot)) return NULL;
    capture->told->cells->used++;
    return cell;
}

bool aorta_gpu_told_also(struct gpu_capture *capture, unsigned long long *cell, int64_t *slot) {
    struct gpu_told *told = capture->told;
    if (!reserve_row(told)) return false;
    told->rows[told->count++] = (struct gpu_told_row){slot, cell};
    return true;
}

/* Where kernels cannot be asked for their ends they are not asked for their beginnings. */
static bool can_ask(const struct gpu_api *api) {
    return api->cuda_capture_info && api->cuda_graph_node_type && api->cuda_graph_kernel && api->cuda_graph_kernel_set;
}

bool aorta_gpu_told_begin(struct gpu_stream *stream, const struct gpu_function *function, int64_t *slot,
                          struct gpu_times *times) {
    if (!function->tells_times || !can_ask(api_of(stream))) return false;
    times->begun = aorta_gpu_told_cell(stream->branch->capture, slot);
    return times->begun != NULL;
}

/* Where the kernel tells its end, which is asked of it unless it is already; NULL: it cannot be. */
static unsigned long long *ask_end(const struct gpu_stream *stream, void *node) {
    const struct gpu_api *api = api_of(stream);
    struct gpu_kernel_node kernel;
    if (!aorta_gpu_read_kernel(api, node, &kernel) || !kernel.parameters) return NULL;
    const struct gpu_function *function = aorta_gpu_function_of(device_of(stream), kernel.function);
    if (!function || !function->tells_times || function->parameter_bytes > PARAMETERS_MOST) return NULL;
    struct gpu_times times = *(const struct gpu_times *)kernel.parameters[1];
    if (times.ended) return times.ended;
    times.ended = next_cell(stream->branch->capture);
    if (!times.ended) return NULL;
    /* The node's own memory is about to be written. */
    _Alignas(16) unsigned char args[PARAMETERS_MOST];
    memcpy(args, kernel.parameters[0], function->parameter_bytes);
    void *parameters[] = {args, &times};
    kernel.parameters = parameters;
    if (api->cuda_graph_kernel_set(node, &kernel)) return NULL;
    stream->branch->capture->told->cells->used++;
    return times.ended;
}

bool aorta_gpu_told_end(struct gpu_stream *stream, int64_t *slot) {
    struct aorta_frontier last;
    if (!can_ask(api_of(stream))) return false;
    aorta_status_free(aorta_gpu_make_current(stream->base.device)); /* a lost device: the question fails */
    if (aorta_gpu_find_frontier(api_of(stream), stream->handle, &last) || last.count != 1) return false;
    unsigned long long *cell = ask_end(stream, last.commands[0]);
    return cell && aorta_gpu_told_also(stream->branch->capture, cell, slot);
}

aorta_status aorta_gpu_told_write(struct gpu_capture *capture, struct gpu_stream *origin) {
    const struct gpu_told *told = capture->told;
    if (!told) return NULL;
    struct gpu_device *device = device_of(origin);
    for (size_t first = 0; first < told->count; first += GPU_TOLD) {
        const size_t left = told->count - first, count = left < GPU_TOLD ? left : GPU_TOLD;
        struct gpu_told_args args = {.clock = device->clock.page, .count = (int64_t)count};
        memcpy(args.rows, told->rows + first, count * sizeof *args.rows);
        AORTA_TRY(aorta_gpu_launch_wide(device, origin->handle, &aorta_gpu_told, GPU_TOLD, &args));
    }
    return NULL;
}
