/* Kernels: from an entry to a loaded function, and onto a stream. */
#include "device/gpu/driver.h"
#include "device/gpu/stream.h"

#include <stdlib.h>
#include <string.h>

struct gpu_module { /* one loaded source */
    struct gpu_module *next;
    const struct aorta_gpu_source *source;
    void *handle;
};

/* ---- the table ---- */

/* The place of the entry's function, or the free place where it would be stored. Open addressing with linear probing;
 * the hash is Knuth's (The Art of Computer Programming 3, section 6.4: the multiplier is 2^64 / golden ratio). */
static _Atomic(struct gpu_function *) *place_of(struct gpu_functions *functions, const struct aorta_gpu_entry *entry) {
    size_t at = (size_t)(((uint64_t)(uintptr_t)entry * 0x9E3779B97F4A7C15u) >> 32) % GPU_FUNCTIONS_MOST;
    for (;; at = (at + 1) % GPU_FUNCTIONS_MOST) {
        struct gpu_function *function = atomic_load_explicit(&functions->places[at], memory_order_acquire);
        if (!function || function->entry == entry) return &functions->places[at];
    }
}

void aorta_gpu_functions_begin(struct gpu_functions *functions) {
    pthread_mutex_init(&functions->lock, NULL);
}

void aorta_gpu_functions_end(struct gpu_device *device) {
    struct gpu_functions *functions = &device->functions;
    aorta_gpu_expected_end(functions);
    for (size_t i = 0; i < GPU_FUNCTIONS_MOST; i++) free(atomic_load(&functions->places[i]));
    while (functions->modules) {
        struct gpu_module *module = functions->modules;
        functions->modules = module->next;
        device->driver.api.module_unload(module->handle);
        free(module);
    }
    pthread_mutex_destroy(&functions->lock);
}

/* ---- loading ---- */

static aorta_status load_module(struct gpu_device *device, const struct aorta_gpu_source *source,
                                struct gpu_module **loaded) {
    struct gpu_functions *functions = &device->functions;
    for (*loaded = functions->modules; *loaded; *loaded = (*loaded)->next)
        if ((*loaded)->source == source) return NULL;
    struct gpu_module *module = malloc(sizeof *module);
    if (!module) return AORTA_ERROR(AORTA_MEMORY, "no host memory to load %s", source->name);
    char *code;
    size_t bytes;
    aorta_status status;
    if (!aorta_gpu_take_expected(functions, source, &code, &bytes, &status))
        status = aorta_gpu_compile(device, source, &code, &bytes);
    if (!status) {
        int result = device->driver.api.module_load(&module->handle, code);
        if (result) status = aorta_gpu_error(device, result, "%s cannot be loaded", source->name);
        free(code);
    }
    if (status) {
        free(module);
        return status;
    }
    module->source = source;
    module->next = functions->modules;
    functions->modules = *loaded = module;
    return NULL;
}

/* Bytes of the kernel's first parameter, 0 when it has none, SIZE_MAX when the driver does not report it. */
static size_t parameter_bytes(const struct gpu_api *api, void *handle) {
    size_t offset, bytes;
    if (!api->cuda_function_parameter) return SIZE_MAX;
    int result = api->cuda_function_parameter(handle, 0, &offset, &bytes);
    if (result == GPU_INVALID_VALUE) return 0;
    return result ? SIZE_MAX : bytes;
}

static aorta_status load_function(struct gpu_device *device, const struct aorta_gpu_entry *entry,
                                  struct gpu_function **found) {
    const struct gpu_api *api = &device->driver.api;
    struct gpu_functions *functions = &device->functions;
    struct gpu_module *module;
    if (functions->count == GPU_FUNCTIONS_MOST - 1) /* a place stays free, where searches end */
        return AORTA_ERROR(AORTA_INTERNAL, "more than %d kernels", functions->count);
    AORTA_TRY(load_module(device, entry->source, &module));
    struct gpu_function *function = calloc(1, sizeof *function);
    if (!function) return AORTA_ERROR(AORTA_MEMORY, "no host memory for kernel %s", entry->name);
    int result = api->module_function(&function->handle, module->handle, entry->name);
    if (!result && api->cuda_function_load) result = api->cuda_function_load(function->handle);
    if (result) {
        free(function);
        return aorta_gpu_error(device, result, "%s", entry->source->name);
    }
    function->entry = entry;
    function->parameter_bytes = parameter_bytes(api, function->handle);
    functions->count++;
    atomic_store_explicit(place_of(functions, entry), function, memory_order_release);
    *found = function;
    return NULL;
}

aorta_status aorta_gpu_function(struct gpu_device *device, const struct aorta_gpu_entry *entry,
                                struct gpu_function **function) {
    struct gpu_functions *functions = &device->functions;
    *function = atomic_load_explicit(place_of(functions, entry), memory_order_acquire);
    if (*function) return NULL;
    pthread_mutex_lock(&functions->lock);
    aorta_status status = NULL;
    *function = atomic_load(place_of(functions, entry)); /* another thread may have been faster */
    if (!*function) status = load_function(device, entry, function);
    pthread_mutex_unlock(&functions->lock);
    return aorta_annotate(status, "kernel %s", entry->name);
}

aorta_status aorta_gpu_prepare(struct aorta_device *device, const struct aorta_gpu_entry *entry) {
    struct gpu_function *function;
    AORTA_TRY(aorta_gpu_make_current(device));
    return aorta_gpu_function(gpu_device(device), entry, &function);
}

/* ---- launching ---- */

/* The function is allowed this much dynamic shared memory. */
static aorta_status allow_shared(struct gpu_device *device, struct gpu_function *function, uint32_t bytes) {
    const struct gpu_vendor *vendor = device->driver.vendor;
    if (!vendor->shared_opt_in || bytes <= vendor->shared_opt_in ||
        bytes <= atomic_load_explicit(&function->shared_max, memory_order_relaxed))
        return NULL;
    int result = device->driver.api.cuda_function_set(function->handle, vendor->shared_attribute, (int)bytes);
    if (result) {
        return aorta_gpu_error(device, result, "kernel %s: %u bytes of shared memory (a block may have %u)",
                               function->entry->name, bytes, device->properties.shared_bytes_per_block);
    }
    atomic_store_explicit(&function->shared_max, bytes, memory_order_relaxed);
    return NULL;
}

static aorta_status check_parameters(const struct gpu_function *function, size_t bytes) {
    if (function->parameter_bytes == SIZE_MAX || function->parameter_bytes == bytes) return NULL;
    return AORTA_ERROR(AORTA_INTERNAL, "kernel %s takes %zu bytes of arguments and is given %zu", function->entry->name,
                       function->parameter_bytes, bytes);
}

/* Replaces zeros in the grid as the vendor requires, and allows the function its shared memory. */
static aorta_status complete_grid(struct gpu_device *device, struct gpu_function *function,
                                  struct aorta_gpu_grid *grid) {
    for (int i = 0; i < 3; i++) {
        if (!grid->blocks[i]) grid->blocks[i] = 1;
        if (!grid->threads[i]) grid->threads[i] = 1;
    }
    return grid->shared_bytes ? allow_shared(device, function, grid->shared_bytes) : NULL;
}

static aorta_status launch_complete(const struct gpu_device *device, void *stream, const struct gpu_function *function,
                                    const struct aorta_gpu_grid *grid, void *args) {
    const uint32_t *b = grid->blocks, *t = grid->threads;
    void *parameters[] = {args};
    int result = device->driver.api.launch(function->handle, b[0], b[1], b[2], t[0], t[1], t[2], grid->shared_bytes,
                                           stream, parameters, NULL);
    if (!result) return NULL;
    return aorta_gpu_error(device, result, "kernel %s (%u x %u x %u blocks of %u x %u x %u threads, %u bytes)",
                           function->entry->name, b[0], b[1], b[2], t[0], t[1], t[2], grid->shared_bytes);
}

aorta_status aorta_gpu_launch_own(struct gpu_device *device, void *stream, const struct aorta_gpu_entry *entry,
                                  void *args) {
    struct gpu_function *function;
    AORTA_TRY(aorta_gpu_function(device, entry, &function));
    const struct aorta_gpu_grid grid = {.blocks = {1, 1, 1}, .threads = {1, 1, 1}};
    return launch_complete(device, stream, function, &grid, args);
}

static aorta_status launch_entry(struct gpu_stream *stream, const struct aorta_gpu_entry *entry,
                                 struct aorta_gpu_grid grid, const void *args, size_t bytes) {
    struct gpu_function *function;
    bool skip;
    AORTA_TRY(aorta_gpu_stream_enter(stream, &skip));
    if (skip) return NULL;
    AORTA_TRY(aorta_gpu_function(device_of(stream), entry, &function));
    AORTA_TRY(check_parameters(function, bytes));
    AORTA_TRY(complete_grid(device_of(stream), function, &grid));
    stream->last = entry->name;
    return launch_complete(device_of(stream), stream->handle, function, &grid, (void *)(uintptr_t)args);
}

/* On a stream that prepares. */
static aorta_status add_prepared(struct gpu_stream *stream, const struct aorta_gpu_entry *entry,
                                 const struct aorta_gpu_grid *grid, const void *args, size_t bytes) {
    struct gpu_prepared *prepared = stream->preparing;
    if (prepared->function || args != prepared->base.args)
        return AORTA_ERROR(AORTA_INTERNAL, "a prepared launch is of one kernel, with its own arguments");
    prepared->grid = *grid;
    AORTA_TRY(aorta_gpu_function(device_of(stream), entry, &prepared->function));
    AORTA_TRY(check_parameters(prepared->function, bytes));
    return complete_grid(device_of(stream), prepared->function, &prepared->grid);
}

aorta_status aorta_gpu_launch(struct aorta_stream *base, const struct aorta_gpu_entry *entry,
                              struct aorta_gpu_grid grid, const void *args, size_t bytes) {
    struct gpu_stream *stream = gpu_stream(base);
    if (!grid.blocks[0]) return NULL;
    if (stream->preparing) return add_prepared(stream, entry, &grid, args, bytes);
    aorta_status status = launch_entry(stream, entry, grid, args, bytes);
    return status && stream->base.branch ? aorta_capture_break(stream->base.branch->capture, status) : status;
}

/* ---- the driver's own kernels ---- */

extern const struct aorta_gpu_source aorta_source_driver;

const struct aorta_gpu_entry aorta_gpu_stamp = {&aorta_source_driver, "aorta_stamp"};
const struct aorta_gpu_entry aorta_gpu_clock_set = {&aorta_source_driver, "aorta_clock_set"};
const struct aorta_gpu_entry aorta_gpu_clock_ping = {&aorta_source_driver, "aorta_clock_ping"};

/* ---- prepared launches ---- */

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

static aorta_status launch_ready(struct gpu_stream *stream, const struct gpu_prepared *prepared) {
    if (!prepared->function) return NULL;
    aorta_status status = launch_complete(device_of(stream), stream->handle, prepared->function, &prepared->grid,
                                          (void *)(uintptr_t)prepared->base.args);
    if (status) return aorta_gpu_stream_keep(stream, aorta_annotate(status, "stream %s", stream->base.name));
    stream->last = prepared->function->entry->name;
    return NULL;
}

/* Whether a launch on this stream needs no other work: it is in no capture, no timestamp to write and no failure.
 */
static bool is_plain(const struct gpu_stream *stream) {
    return !stream->base.branch && !stream->stamp_count && !stream->failure;
}

aorta_status aorta_gpu_prepared_launch(struct aorta_prepared *const *items, size_t count) {
    AORTA_TRY(aorta_gpu_make_current(items[0]->stream->device));
    for (size_t i = 0; i < count; i++) {
        struct gpu_stream *stream = gpu_stream(items[i]->stream);
        if (is_plain(stream))
            AORTA_TRY(launch_ready(stream, (const struct gpu_prepared *)items[i]));
        else
            AORTA_TRY(aorta_gpu_stream_launch(items[i]->stream, items[i]->kernel, items[i]->args, items[i]->bytes));
    }
    return NULL;
}
