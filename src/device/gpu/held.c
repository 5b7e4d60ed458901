/* Launches held back, outside captures: whether a kernel has to tell its end is known only when the timestamp behind it
 * is asked for, and by then it would have been launched. So where timestamps are deferred a stream keeps its last
 * launch until something else is asked of it. Who waits for such a kernel through an event or on the host asks for
 * something; who waits on the device does not, and the kernel it waits for needs aorta_gpu_flush behind it. */
#include "device/gpu/driver.h"

#include <stdlib.h>
#include <string.h>

aorta_status aorta_gpu_timestamps_defer(struct aorta_stream *base) {
    struct gpu_stream *stream = gpu_stream(base);
    if (!stream->held) stream->held = calloc(1, sizeof *stream->held);
    return stream->held ? NULL : AORTA_ERROR(AORTA_MEMORY, "no host memory for the launches of stream %s", base->name);
}

aorta_status aorta_gpu_flush(struct aorta_stream *base) {
    struct gpu_stream *stream = gpu_stream(base);
    bool skip;
    return stream->held && !stream->branch ? aorta_gpu_stream_enter(stream, &skip) : NULL;
}

bool aorta_gpu_hold(struct gpu_stream *stream, struct gpu_function *function, const struct aorta_gpu_grid *grid,
                    const void *args, size_t bytes, struct gpu_times times) {
    struct gpu_held *held = stream->held;
    if (!held || stream->branch || !function->tells_times || bytes > sizeof held->args) return false;
    held->function = function;
    held->grid = *grid;
    held->times = times;
    memcpy(held->args, args, bytes);
    return true;
}

aorta_status aorta_gpu_launch_held(struct gpu_stream *stream) {
    struct gpu_held *held = stream->held;
    struct gpu_function *function = held ? held->function : NULL;
    if (!function) return NULL;
    held->function = NULL;
    return aorta_gpu_launch_now(device_of(stream), stream->handle, function, &held->grid, held->args, held->times);
}

aorta_status aorta_gpu_release_held(struct gpu_stream *stream) {
    if (!stream->held) return NULL;
    aorta_status status = aorta_gpu_launch_held(stream);
    stream->held->times = (struct gpu_times){0}; /* the stream goes on: another end is of something else */
    return status;
}
