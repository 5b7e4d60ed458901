/* From a kernel's source to code for this device: the vendor's compiler, and the cache on disk. */
#ifndef AORTA_DEVICE_GPU_LAUNCH_H
#define AORTA_DEVICE_GPU_LAUNCH_H

#include "device/backend.h"
#include "device/gpu.h"
#include "device/gpu/api.h"

#include <pthread.h>
#include <stdatomic.h>

struct gpu_device;

/* ---- compile.c ---- */

struct gpu_compiler {
    pthread_mutex_t lock;
    bool open;
    struct gpu_compiler_api api;
    struct aorta_library library;
    int major, minor;
    char *cache;                  /* folder, owned; NULL: nothing is cached */
    char note[256];               /* why nothing is cached, or the cache's last failure */
    uint64_t compiled, from_disk; /* sources */
};
void aorta_gpu_compiler_begin(struct gpu_compiler *compiler);
void aorta_gpu_compiler_end(struct gpu_compiler *compiler);
/* Machine code for this device, from the cache or compiled; the caller frees it. */
aorta_status aorta_gpu_compile(struct gpu_device *device, const struct aorta_gpu_source *source, char **code,
                               size_t *bytes);

/* ---- the cache on disk ---- */

struct gpu_cache_key {
    const char *name; /* of the source */
    const char *text; /* everything that the code depends on */
    size_t length;
};
char *aorta_gpu_cache_folder(char *note, size_t note_size); /* NULL, and why, when there is none */

/* ---- launches ---- */

struct gpu_device;
struct gpu_stream;

/* ---- launch.c ---- */

struct gpu_function {
    const struct aorta_gpu_entry *entry;
    void *handle;
    size_t parameter_bytes;      /* of the first parameter; SIZE_MAX: not known */
    _Atomic uint32_t shared_max; /* dynamic shared memory that it may ask for by now */
};

struct gpu_functions {
    pthread_mutex_t lock;
    _Atomic(struct gpu_function_table *) table; /* read without the lock */
    struct gpu_module *modules;                 /* loaded sources */
    struct gpu_ahead *ahead;                    /* sources being compiled, or compiled and not loaded yet */
};

void aorta_gpu_functions_begin(struct gpu_functions *functions);
void aorta_gpu_functions_end(struct gpu_device *device);
/* Finds the function, compiling and loading it when need be. */
aorta_status aorta_gpu_function(struct gpu_device *device, const struct aorta_gpu_entry *entry,
                                struct gpu_function **function);
/* Launches a kernel of the driver itself, of one thread. */
aorta_status aorta_gpu_launch_own(struct gpu_device *device, void *stream, const struct aorta_gpu_entry *entry,
                                  void *args);

/* ---- ahead of use: the caller has the lock of the functions ---- */

/* Waits for the source's thread, if there is one: true, and *status and the results of aorta_gpu_compile. */
bool aorta_gpu_take_expected(struct gpu_functions *functions, const struct aorta_gpu_source *source, char **code,
                             size_t *bytes, aorta_status *status);
void aorta_gpu_expected_end(struct gpu_functions *functions);

/* ---- prepared launches ---- */

struct gpu_prepared_launch { /* one launch with everything that the vendor's call takes */
    struct gpu_function *function;
    struct aorta_gpu_grid grid; /* no zeros */
    void *args;                 /* owned */
};

struct gpu_prepared {
    struct aorta_prepared base;
    struct gpu_prepared_launch *launches;
    size_t count, capacity;
};
/* aorta_gpu_launch calls this on a stream that prepares. */
aorta_status aorta_gpu_prepared_add(struct gpu_stream *stream, const struct aorta_gpu_entry *entry,
                                    const struct aorta_gpu_grid *grid, const void *args, size_t bytes);
aorta_status aorta_gpu_prepared_make(struct aorta_prepared *prepared);
aorta_status aorta_gpu_prepared_launch(struct aorta_prepared *const *items, size_t count);
void aorta_gpu_prepared_end(struct aorta_prepared *prepared);

#endif
