/* Prepared launches: the kernel's own launch function runs once, and its launches are stored. */
#include "base/array.h"
#include "device/gpu/stream.h"

#include <stdlib.h>
#include <string.h>

aorta_status aorta_gpu_prepared_add(struct gpu_stream *stream, const struct aorta_gpu_entry *entry,
                                    const struct aorta_gpu_grid *grid, const void *args, size_t bytes) {
    struct gpu_prepared *prepared = stream->preparing;
    struct gpu_prepared_launch launch = {.grid = *grid};
    AORTA_TRY(aorta_gpu_function(device_of(stream), entry, &launch.function));
    AORTA_TRY(aorta_gpu_check_parameters(launch.function, bytes));
    if (grid->shared_bytes) AORTA_TRY(aorta_gpu_allow_shared(device_of(stream), launch.function, grid->shared_bytes));
    for (int i = 0; i < 3; i++) {
        if (!launch.grid.blocks[i]) launch.grid.blocks[i] = 1;
        if (!launch.grid.threads[i]) launch.grid.threads[i] = 1;
    }
    const bool fits =
        aorta_array_fit(&prepared->launches, &prepared->capacity, prepared->count + 1, sizeof *prepared->launches);
    launch.args = fits ? aligned_alloc(16, (bytes + 16) / 16 * 16) : NULL;
    if (!launch.args) return AORTA_ERROR(AORTA_MEMORY, "no host memory to prepare kernel %s", entry->name);
    memcpy(launch.args, args, bytes);
    prepared->launches[prepared->count++] = launch;
    return NULL;
}

aorta_status aorta_gpu_prepared_make(struct aorta_prepared *base) {
    struct gpu_prepared *prepared = (struct gpu_prepared *)base;
    struct gpu_stream *stream = gpu_stream(base->stream);
    if (!base->kernel->gpu) return AORTA_ERROR(AORTA_UNSUPPORTED, "it has no version for GPUs");
    AORTA_TRY(aorta_gpu_make_current(base->stream->device));
    stream->preparing = prepared;
    aorta_status status = base->kernel->gpu(base->stream, base->args);
    stream->preparing = NULL;
    return status;
}

void aorta_gpu_prepared_end(struct aorta_prepared *base) {
    struct gpu_prepared *prepared = (struct gpu_prepared *)base;
    for (size_t i = 0; i < prepared->count; i++) free(prepared->launches[i].args);
    free(prepared->launches);
}

static aorta_status refused(struct gpu_stream *stream, const struct gpu_prepared_launch *launch, int result) {
    return aorta_gpu_stream_keep(stream, aorta_gpu_error(device_of(stream), result, "stream %s: kernel %s",
                                                         stream->base.name, launch->function->entry->name));
}

static aorta_status launch_all(const struct gpu_api *api, struct gpu_stream *stream,
                               const struct gpu_prepared *prepared) {
    for (size_t i = 0; i < prepared->count; i++) {
        const struct gpu_prepared_launch *launch = &prepared->launches[i];
        const struct aorta_gpu_grid *grid = &launch->grid;
        void *parameters[] = {launch->args};
        int result =
            api->launch(launch->function->handle, grid->blocks[0], grid->blocks[1], grid->blocks[2], grid->threads[0],
                        grid->threads[1], grid->threads[2], grid->shared_bytes, stream->handle, parameters, NULL);
        if (result) return refused(stream, launch, result);
        stream->last = launch->function->entry->name;
    }
    return NULL;
}

/* Nothing has to be done before a launch on this stream: no capture that counts it, no timestamp to write, no failure.
 */
static bool is_plain(const struct gpu_stream *stream) {
    return !stream->branch && !stream->stamp_count && !stream->failure &&
           !(stream->outcome && atomic_load_explicit(&stream->outcome->failed, memory_order_acquire));
}

aorta_status aorta_gpu_prepared_launch(struct aorta_prepared *const *items, size_t count) {
    const struct gpu_api *api = api_of(gpu_stream(items[0]->stream));
    AORTA_TRY(aorta_gpu_make_current(items[0]->stream->device));
    for (size_t i = 0; i < count; i++) {
        struct gpu_stream *stream = gpu_stream(items[i]->stream);
        if (is_plain(stream))
            AORTA_TRY(launch_all(api, stream, (const struct gpu_prepared *)items[i]));
        else
            AORTA_TRY(aorta_gpu_stream_launch(items[i]->stream, items[i]->kernel, items[i]->args, items[i]->bytes));
    }
    return NULL;
}
