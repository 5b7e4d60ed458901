/* Readings of the device's timer that kernels of a capture leave in device memory, in a cell each; one kernel at the
 * end of the graph turns all of them into times. Outside captures the same is done where timestamps are deferred
 * (held.c), by a kernel when they are delivered. What waits for a timestamp's kernel then waits for a store, not for
 * the host's memory.
 *
 * Kernels of our own tell their times themselves (src/ops/kernels/times.h): no kernel of a timestamp's has to find room
 * beside them, so that the time is not later than what it is of, and the graph has a node less. They are asked through
 * their second parameter, for the beginning at the launch, for the end afterwards. */
#include "device/gpu/driver.h"

#include <stdlib.h>
#include <string.h>

enum { CELLS = 1024, FIRST_ROWS = 64 };

struct cells {
    struct cells *next;
    unsigned long long *memory; /* device memory, CELLS readings */
    size_t used;
    bool cleared; /* else of no use yet */
};

struct gpu_told {
    struct cells *cells;       /* owned; the last ones made come first, and are full last */
    struct gpu_told_row *rows; /* owned */
    size_t count, room;
};

/* The zeros nobody could wait for may be on their way still. */
static void free_memory(const struct gpu_device *device, const struct cells *cells) {
    if (!cells->cleared) device->driver.api.stream_synchronize(device->clock.stream);
    device->driver.api.memory_free(cells->memory);
}

void aorta_gpu_told_free(struct gpu_device *device, struct gpu_told *told) {
    if (!told) return;
    aorta_status_free(aorta_gpu_make_current(&device->base)); /* a lost device: what it held is gone anyway */
    while (told->cells) {
        struct cells *cells = told->cells;
        told->cells = cells->next;
        if (!aorta_gpu_given_up(device)) free_memory(device, cells);
        free(cells);
    }
    free(told->rows);
    free(told);
}

/* Not cleared yet; NULL: there is no memory. */
static struct cells *add_cells(struct gpu_device *device, struct gpu_told *told) {
    struct cells *cells = calloc(1, sizeof *cells);
    void *memory;
    if (!cells || device->driver.api.memory_alloc(&memory, CELLS * sizeof *cells->memory)) {
        free(cells);
        return NULL;
    }
    cells->memory = memory;
    cells->next = told->cells;
    told->cells = cells;
    return cells;
}

/* Zeros, before anybody can replay the capture. After a failure, when they may still be on their way, it is tried again
 * with the next question. */
static bool clear(struct gpu_device *device, struct cells *cells) {
    const struct gpu_api *api = &device->driver.api;
    cells->cleared = !api->fill(cells->memory, 0, CELLS * sizeof *cells->memory, device->clock.stream) &&
                     !api->stream_synchronize(device->clock.stream);
    return cells->cleared;
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

/* The capture's or the stream's own; NULL: there is no memory. */
static struct gpu_told *told_of(struct gpu_stream *stream) {
    struct gpu_told **told = stream->branch ? &stream->branch->capture->told : &stream->told[stream->telling];
    if (!*told) *told = calloc(1, sizeof **told);
    return *told;
}

/* Nobody's yet; NULL: there is no memory. */
static unsigned long long *take_cell(struct gpu_stream *stream) {
    struct gpu_told *told = told_of(stream);
    if (!told) return NULL;
    struct cells *cells = told->cells;
    while (cells && cells->used == CELLS) cells = cells->next;
    if (!cells) cells = add_cells(device_of(stream), told);
    if (!cells || (!cells->cleared && !clear(device_of(stream), cells))) return NULL;
    return cells->memory + cells->used++;
}

unsigned long long *aorta_gpu_told_cell(struct gpu_stream *stream, int64_t *slot) {
    unsigned long long *cell = take_cell(stream);
    return cell && aorta_gpu_told_also(stream, cell, slot) ? cell : NULL;
}

bool aorta_gpu_told_also(struct gpu_stream *stream, unsigned long long *cell, int64_t *slot) {
    struct gpu_told *told = told_of(stream);
    if (!told || !reserve_row(told)) return false;
    told->rows[told->count++] = (struct gpu_told_row){slot, cell};
    return true;
}

void aorta_gpu_told_stamp(struct gpu_stream *stream, struct gpu_stamp_args *args) {
    unsigned long long *cell = stream->held && !stream->branch ? aorta_gpu_told_cell(stream, args->slots[0]) : NULL;
    if (!cell) return;
    *args = (struct gpu_stamp_args){.slots = {(int64_t *)cell}};
}

/* ---- asking ---- */

/* In a capture; where kernels cannot be asked for their ends they are not asked for their beginnings. */
static bool can_ask(const struct gpu_api *api) {
    return api->cuda_capture_info && api->cuda_graph_node_type && api->cuda_graph_kernel && api->cuda_graph_kernel_set;
}

bool aorta_gpu_told_begin(struct gpu_stream *stream, const struct gpu_function *function, int64_t *slot,
                          struct gpu_times *times) {
    if (!function->tells_times || !(stream->branch ? can_ask(api_of(stream)) : stream->held != NULL)) return false;
    times->begun = aorta_gpu_told_cell(stream, slot);
    return times->begun != NULL;
}

/* Where the kernel tells its end, which is asked of it unless it is already; NULL: it cannot be. */
static unsigned long long *ask_node(struct gpu_stream *stream, void *node) {
    const struct gpu_api *api = api_of(stream);
    struct gpu_kernel_node kernel;
    if (!aorta_gpu_read_kernel(api, node, &kernel) || !kernel.parameters) return NULL;
    const struct gpu_function *function = aorta_gpu_function_of(device_of(stream), kernel.function);
    if (!function || !function->tells_times || function->parameter_bytes > GPU_PARAMETERS_MOST) return NULL;
    struct gpu_times times = *(const struct gpu_times *)kernel.parameters[1];
    if (times.ended) return times.ended;
    times.ended = take_cell(stream);
    if (!times.ended) return NULL;
    /* The node's own memory is about to be written. */
    _Alignas(16) unsigned char args[GPU_PARAMETERS_MOST];
    memcpy(args, kernel.parameters[0], function->parameter_bytes);
    void *parameters[] = {args, &times};
    kernel.parameters = parameters;
    return api->cuda_graph_kernel_set(node, &kernel) ? NULL : times.ended;
}

static unsigned long long *ask_captured(struct gpu_stream *stream) {
    struct aorta_frontier last;
    if (!can_ask(api_of(stream))) return NULL;
    aorta_status_free(aorta_gpu_make_current(stream->base.device)); /* a lost device: the question fails */
    if (aorta_gpu_find_frontier(api_of(stream), stream->handle, &last) || last.count != 1) return NULL;
    return ask_node(stream, last.commands[0]);
}

/* Of the launch held back. */
static unsigned long long *ask_held(struct gpu_stream *stream) {
    struct gpu_held *held = stream->held;
    if (held && held->function && !held->times.ended) held->times.ended = take_cell(stream);
    return held ? held->times.ended : NULL;
}

bool aorta_gpu_told_end(struct gpu_stream *stream, int64_t *slot) {
    unsigned long long *cell = stream->branch ? ask_captured(stream) : ask_held(stream);
    return cell && aorta_gpu_told_also(stream, cell, slot);
}

/* ---- what was told ---- */

/* Its cells are free again. */
static void forget(struct gpu_told *told) {
    if (told) told->count = 0;
    for (struct cells *cells = told ? told->cells : NULL; cells; cells = cells->next) cells->used = 0;
}

/* All rows by as few kernels as can be. */
struct delivery {
    struct gpu_stream *stream;
    struct gpu_told_args args;
};

static aorta_status send(struct delivery *delivery) {
    struct gpu_device *device = device_of(delivery->stream);
    if (!delivery->args.count) return NULL;
    aorta_status status =
        aorta_gpu_launch_wide(device, delivery->stream->handle, &aorta_gpu_told, GPU_TOLD, &delivery->args);
    delivery->args.count = 0;
    return status;
}

static aorta_status add(struct delivery *delivery, const struct gpu_told *told) {
    struct gpu_told_args *args = &delivery->args;
    for (size_t i = 0; told && i < told->count; i++) {
        if (args->count == GPU_TOLD) AORTA_TRY(send(delivery));
        args->rows[args->count++] = told->rows[i];
    }
    return NULL;
}

aorta_status aorta_gpu_told_write(const struct gpu_told *told, struct gpu_stream *stream) {
    struct delivery delivery = {.stream = stream, .args.clock = device_of(stream)->clock.page};
    AORTA_TRY(add(&delivery, told));
    return send(&delivery);
}

/* The cells delivered before this time are asked for next: who reads these is on its way still. */
static aorta_status deliver(struct gpu_stream *stream, struct aorta_stream *const *of, size_t count) {
    struct delivery delivery = {.stream = stream, .args.clock = device_of(stream)->clock.page};
    for (size_t i = 0; i < count; i++) {
        struct gpu_stream *from = of[i] ? gpu_stream(of[i]) : NULL;
        if (!from) continue;
        AORTA_TRY(add(&delivery, from->told[from->telling]));
        from->telling = 1 - from->telling;
        forget(from->told[from->telling]);
    }
    return send(&delivery);
}

aorta_status aorta_gpu_timestamps_deliver(struct aorta_stream *base, struct aorta_stream *const *of, size_t count) {
    struct gpu_stream *stream = gpu_stream(base);
    bool skip;
    aorta_status status = aorta_gpu_stream_enter(stream, &skip);
    if (!status && !skip) status = deliver(stream, of, count);
    return aorta_gpu_stream_keep(stream, aorta_annotate(status, "stream %s: timestamps", base->name));
}
