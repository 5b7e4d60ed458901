/* The CPU device passes for a GPU whose kernels are emulated: the linker sends these calls here (--wrap). Without a
 * matrix library the plain kernel multiplies. */
#include "check.h"
#include "ops/gpu/blas.h"
#include "ops/gpu/gpu.h"
#include "run.h"

#include <dlfcn.h>

/* NOLINTBEGIN(bugprone-reserved-identifier): so ld's --wrap calls them. */
aorta_status __real_aorta_launch(struct aorta_stream *stream, const struct aorta_kernel *kernel, const void *args,
                                 size_t bytes);
aorta_status __wrap_aorta_launch(struct aorta_stream *stream, const struct aorta_kernel *kernel, const void *args,
                                 size_t bytes);
aorta_status __wrap_aorta_gpu_launch(struct aorta_stream *stream, const struct aorta_gpu_entry *entry,
                                     struct aorta_gpu_grid grid, const void *args, size_t bytes);
const struct aorta_gpu_properties *__wrap_aorta_gpu_get_properties(const struct aorta_device *device);
bool __wrap_aorta_device_is_gpu(const struct aorta_device *device);
aorta_status __wrap_aorta_blas_multiply(struct aorta_stream *stream, const struct aorta_blas_product *product,
                                        const struct aorta_blas_operands *operands, bool *done);

void *__wrap_aorta_gpu_stream_handle(struct aorta_stream *stream);
aorta_status __wrap_aorta_gpu_make_current(struct aorta_device *device);
aorta_status __wrap_aorta_gpu_note(struct aorta_stream *stream, aorta_status (*check)(void *user), void *user);
/* NOLINTEND(bugprone-reserved-identifier) */

/* The caller queues work that runs at once, even if it should have been captured. */
void *__wrap_aorta_gpu_stream_handle(struct aorta_stream *stream) {
    if (!aorta_stream_capturing(stream)) check_ok(aorta_stream_synchronize(stream));
    return stream;
}

aorta_status __wrap_aorta_gpu_make_current(struct aorta_device *device) {
    (void)device;
    return NULL;
}

struct note {
    aorta_status (*check)(void *user);
    void *user;
};

static aorta_status read_note(const void *args) {
    const struct note *note = args;
    return note->check(note->user);
}

aorta_status __wrap_aorta_gpu_note(struct aorta_stream *stream, aorta_status (*check)(void *user), void *user) {
    static const struct aorta_kernel kernel = {.name = "note", .cpu = read_note};
    const struct note note = {check, user};
    return __real_aorta_launch(stream, &kernel, &note, sizeof note);
}

aorta_status __wrap_aorta_launch(struct aorta_stream *stream, const struct aorta_kernel *kernel, const void *args,
                                 size_t bytes) {
    if (!kernel->gpu) return __real_aorta_launch(stream, kernel, args, bytes);
    return kernel->gpu(stream, args);
}

/* Runs at once, after the queued work. */
aorta_status __wrap_aorta_gpu_launch(struct aorta_stream *stream, const struct aorta_gpu_entry *entry,
                                     struct aorta_gpu_grid grid, const void *args, size_t bytes) {
    (void)bytes;
    AORTA_TRY(aorta_stream_synchronize(stream));
    if (grid.blocks[0] == 0) return NULL;
    for (int i = 0; i < 3; i++) {
        if (grid.blocks[i] == 0) grid.blocks[i] = 1;
        if (grid.threads[i] == 0) grid.threads[i] = 1;
    }
    char name[128];
    snprintf(name, sizeof name, "%s_threads", entry->name);
    void (*function)(const void *);
    *(void **)&function = dlsym(RTLD_DEFAULT, entry->name);
    const int *most = dlsym(RTLD_DEFAULT, name);
    if (!function || !most) return AORTA_ERROR(AORTA_DEVICE, "no kernel %s in the emulator", entry->name);
    if (grid.threads[0] * grid.threads[1] * grid.threads[2] > (unsigned)*most)
        return AORTA_ERROR(AORTA_DEVICE, "kernel %s: %u x %u x %u threads, at most %d", entry->name, grid.threads[0],
                           grid.threads[1], grid.threads[2], *most);
    if (grid.shared_bytes > __wrap_aorta_gpu_get_properties(NULL)->shared_bytes_per_block)
        return AORTA_ERROR(AORTA_DEVICE, "kernel %s: %u bytes of shared memory", entry->name, grid.shared_bytes);
    emulated_run(function, args, grid.blocks, grid.threads);
    return NULL;
}

const struct aorta_gpu_properties *__wrap_aorta_gpu_get_properties(const struct aorta_device *device) {
    static const struct aorta_gpu_properties properties = {
        .multiprocessors = 3, .warp_size = 32, .shared_bytes_per_block = 227 << 10, .architecture = "emulated"};
    (void)device;
    return &properties;
}

bool __wrap_aorta_device_is_gpu(const struct aorta_device *device) {
    (void)device;
    return true;
}

aorta_status __wrap_aorta_blas_multiply(struct aorta_stream *stream, const struct aorta_blas_product *product,
                                        const struct aorta_blas_operands *operands, bool *done) {
    (void)stream, (void)product, (void)operands;
    *done = false;
    return NULL;
}
