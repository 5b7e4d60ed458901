/* From a kernel's source to code for this device: the vendor's compiler, and the cache on disk. */
#ifndef AORTA_DEVICE_GPU_COMPILE_H
#define AORTA_DEVICE_GPU_COMPILE_H

#include "device/gpu.h"
#include "device/gpu/api.h"

#include <pthread.h>

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

/* ---- cache.c ---- */

struct gpu_cache_key {
    const char *name; /* of the source */
    const char *text; /* everything that the code depends on */
    size_t length;
};
char *aorta_gpu_cache_folder(char *note, size_t note_size); /* NULL, and why, when there is none */
bool aorta_gpu_cache_load(const char *folder, const struct gpu_cache_key *key, char **code, size_t *bytes);
aorta_status aorta_gpu_cache_store(const char *folder, const struct gpu_cache_key *key, const char *code, size_t bytes);

#endif
