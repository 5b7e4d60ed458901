/* Kernels: from an entry to a loaded function, and onto a stream. */
#include "device/gpu/stream.h"

#include <stdlib.h>

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
    for (*loaded = functions->modules; *loaded; *loaded = (*loaded)->next) {
        if ((*loaded)->source == source) return NULL;
    }
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

aorta_status aorta_gpu_allow_shared(struct gpu_device *device, struct gpu_function *function, uint32_t bytes) {
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

aorta_status aorta_gpu_check_parameters(const struct gpu_function *function, size_t bytes) {
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
    if (grid->shared_bytes) AORTA_TRY(aorta_gpu_allow_shared(device, function, grid->shared_bytes));
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
    AORTA_TRY(aorta_gpu_check_parameters(function, bytes));
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
