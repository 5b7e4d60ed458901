/* Kernels: from an entry to a loaded function, and onto a stream. */
#include "base/array.h"
#include "device/gpu/driver.h"
#include "device/gpu/stream.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_TABLE_SIZE = 128 };

/* Open addressing with linear probing; the size is a power of two. Readers need no lock: places only ever go from empty
 * to filled, and a table that has become too small stays readable until the device is closed. */
struct gpu_function_table {
    struct gpu_function_table *before; /* the smaller one that this replaced */
    size_t size, count;
    _Atomic(struct gpu_function *) places[];
};

struct gpu_module { /* one loaded source */
    struct gpu_module *next;
    const struct aorta_gpu_source *source;
    void *handle;
};

/* ---- the table ---- */

static size_t home_of(const struct gpu_function_table *table, const struct aorta_gpu_entry *entry) {
    return (size_t)(((uint64_t)(uintptr_t)entry * 0x9E3779B97F4A7C15u) >> 32) & (table->size - 1); /* see memory.c */
}

static struct gpu_function *find(const struct gpu_function_table *table, const struct aorta_gpu_entry *entry) {
    if (!table) return NULL;
    for (size_t at = home_of(table, entry);; at = (at + 1) & (table->size - 1)) {
        struct gpu_function *function = atomic_load_explicit(&table->places[at], memory_order_acquire);
        if (!function || function->entry == entry) return function;
    }
}

static void insert(struct gpu_function_table *table, struct gpu_function *function) {
    size_t at = home_of(table, function->entry);
    while (atomic_load_explicit(&table->places[at], memory_order_relaxed)) at = (at + 1) & (table->size - 1);
    atomic_store_explicit(&table->places[at], function, memory_order_release);
    table->count++;
}

/* A table with a free place for one more; NULL when memory is exhausted. */
static struct gpu_function_table *with_place(struct gpu_functions *functions) {
    struct gpu_function_table *table = atomic_load(&functions->table);
    if (table && 2 * (table->count + 1) <= table->size) return table;
    size_t size = table ? 2 * table->size : FIRST_TABLE_SIZE;
    struct gpu_function_table *grown = calloc(1, sizeof *grown + size * sizeof grown->places[0]);
    if (!grown) return NULL;
    grown->before = table;
    grown->size = size;
    for (size_t i = 0; table && i < table->size; i++) {
        struct gpu_function *function = atomic_load(&table->places[i]);
        if (function) insert(grown, function);
    }
    atomic_store_explicit(&functions->table, grown, memory_order_release);
    return grown;
}

void aorta_gpu_functions_begin(struct gpu_functions *functions) {
    pthread_mutex_init(&functions->lock, NULL);
}

void aorta_gpu_functions_end(struct gpu_device *device) {
    struct gpu_functions *functions = &device->functions;
    struct gpu_function_table *table = atomic_load(&functions->table);
    aorta_gpu_expected_end(functions);
    for (size_t i = 0; table && i < table->size; i++) free(atomic_load(&table->places[i]));
    while (table) {
        struct gpu_function_table *before = table->before;
        free(table);
        table = before;
    }
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
    struct gpu_module *module;
    AORTA_TRY(load_module(device, entry->source, &module));
    struct gpu_function_table *table = with_place(&device->functions);
    struct gpu_function *function = table ? calloc(1, sizeof *function) : NULL;
    if (!function) return AORTA_ERROR(AORTA_MEMORY, "no host memory for kernel %s", entry->name);
    int result = api->module_function(&function->handle, module->handle, entry->name);
    if (!result && api->cuda_function_load) result = api->cuda_function_load(function->handle);
    if (result) {
        free(function);
        return aorta_gpu_error(device, result, "%s", entry->source->name);
    }
    function->entry = entry;
    function->parameter_bytes = parameter_bytes(api, function->handle);
    insert(table, function);
    *found = function;
    return NULL;
}

aorta_status aorta_gpu_function(struct gpu_device *device, const struct aorta_gpu_entry *entry,
                                struct gpu_function **function) {
    struct gpu_functions *functions = &device->functions;
    *function = find(atomic_load_explicit(&functions->table, memory_order_acquire), entry);
    if (*function) return NULL;
    pthread_mutex_lock(&functions->lock);
    aorta_status status = NULL;
    *function = find(atomic_load(&functions->table), entry); /* another thread may have been faster */
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

static aorta_status launch_now(struct gpu_device *device, void *stream, struct gpu_function *function,
                               const struct aorta_gpu_grid *grid, void *args) {
    uint32_t b[3], t[3];
    void *parameters[] = {args};
    for (int i = 0; i < 3; i++) {
        b[i] = grid->blocks[i] ? grid->blocks[i] : 1;
        t[i] = grid->threads[i] ? grid->threads[i] : 1;
    }
    if (grid->shared_bytes) AORTA_TRY(allow_shared(device, function, grid->shared_bytes));
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
    return launch_now(device, stream, function, &(struct aorta_gpu_grid){.blocks = {1}}, args);
}

static aorta_status launch_entry(struct gpu_stream *stream, const struct aorta_gpu_entry *entry,
                                 const struct aorta_gpu_grid *grid, const void *args, size_t bytes) {
    struct gpu_function *function;
    bool skip;
    AORTA_TRY(aorta_gpu_stream_enter(stream, &skip));
    if (skip) return NULL;
    AORTA_TRY(aorta_gpu_function(device_of(stream), entry, &function));
    AORTA_TRY(check_parameters(function, bytes));
    stream->last = entry->name;
    return launch_now(device_of(stream), stream->handle, function, grid, (void *)(uintptr_t)args);
}

aorta_status aorta_gpu_launch(struct aorta_stream *base, const struct aorta_gpu_entry *entry,
                              struct aorta_gpu_grid grid, const void *args, size_t bytes) {
    struct gpu_stream *stream = gpu_stream(base);
    if (!grid.blocks[0]) return NULL;
    if (stream->preparing) return aorta_gpu_prepared_add(stream, entry, &grid, args, bytes);
    aorta_status status = launch_entry(stream, entry, &grid, args, bytes);
    return status && stream->branch ? aorta_capture_break(&stream->branch->capture->state, status) : status;
}

/* ---- the driver's own kernels ---- */

extern const struct aorta_gpu_source aorta_source_driver;

const struct aorta_gpu_entry aorta_gpu_stamp = {&aorta_source_driver, "aorta_stamp"};
const struct aorta_gpu_entry aorta_gpu_clock_set = {&aorta_source_driver, "aorta_clock_set"};
const struct aorta_gpu_entry aorta_gpu_clock_ping = {&aorta_source_driver, "aorta_clock_ping"};

/* ---- prepared launches ---- */

aorta_status aorta_gpu_prepared_add(struct gpu_stream *stream, const struct aorta_gpu_entry *entry,
                                    const struct aorta_gpu_grid *grid, const void *args, size_t bytes) {
    struct gpu_prepared *prepared = stream->preparing;
    struct gpu_prepared_launch launch = {.grid = *grid};
    AORTA_TRY(aorta_gpu_function(device_of(stream), entry, &launch.function));
    AORTA_TRY(check_parameters(launch.function, bytes));
    if (grid->shared_bytes) AORTA_TRY(allow_shared(device_of(stream), launch.function, grid->shared_bytes));
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
