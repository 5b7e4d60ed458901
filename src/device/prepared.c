/* Prepared launches. A device that gains nothing by preparing launches them as any other. */
#include "device/backend.h"

#include <stdlib.h>
#include <string.h>

/* The copy of the arguments is at a multiple of 16, as kernels may expect. */
static aorta_status allocate(const struct aorta_backend *backend, const struct aorta_kernel *kernel, size_t bytes,
                             struct aorta_prepared **prepared, void **args) {
    const size_t size = backend->prepared_bytes ? backend->prepared_bytes : sizeof **prepared;
    *prepared = calloc(1, size);
    *args = *prepared ? aligned_alloc(16, (bytes + 16) / 16 * 16) : NULL;
    if (*args) return NULL;
    free(*prepared);
    return AORTA_ERROR(AORTA_MEMORY, "no host memory to prepare kernel %s", kernel->name);
}

aorta_status aorta_launch_prepare(struct aorta_stream *stream, const struct aorta_kernel *kernel, const void *args,
                                  size_t bytes, struct aorta_prepared **prepared) {
    const struct aorta_backend *backend = stream->device->backend;
    struct aorta_prepared *made;
    void *copy;
    AORTA_TRY(allocate(backend, kernel, bytes, &made, &copy));
    memcpy(copy, args, bytes);
    *made = (struct aorta_prepared){.stream = stream, .kernel = kernel, .args = copy, .bytes = bytes};
    aorta_status status = backend->prepare ? backend->prepare(made) : NULL;
    if (status) {
        aorta_prepared_destroy(made);
        return aorta_annotate(status, "stream %s: kernel %s", stream->name, kernel->name);
    }
    *prepared = made;
    return NULL;
}

void aorta_prepared_destroy(struct aorta_prepared *prepared) {
    if (!prepared) return;
    const struct aorta_backend *backend = prepared->stream->device->backend;
    if (backend->prepared_end) backend->prepared_end(prepared);
    free((void *)(uintptr_t)prepared->args);
    free(prepared);
}

static aorta_status launch_plainly(struct aorta_prepared *const *items, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const struct aorta_prepared *item = items[i];
        AORTA_TRY(item->stream->device->backend->launch(item->stream, item->kernel, item->args, item->bytes));
    }
    return NULL;
}

aorta_status aorta_launch_prepared(struct aorta_prepared *const *items, size_t count) {
    if (!count) return NULL;
    struct aorta_device *device = items[0]->stream->device;
    aorta_watch_begin(device);
    return aorta_watch_end(device, device->backend->launch_prepared ? device->backend->launch_prepared(items, count)
                                                                    : launch_plainly(items, count));
}
