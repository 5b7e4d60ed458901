/* The fake libcuda: opening it, devices and their context, memory, errors. */
#include "fake_gpu/cuda.h"
#include "fake_gpu/objects.h"
#include "fake_gpu/records.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MEMORY_BYTES = 1 << 30 };

/* ---- the device ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what follows, and of the texts of errors */
static struct aorta_device *device;
static int context_count;

struct aorta_device *fake_device(void) {
    return device;
}

/* As NVIDIA's driver does: the library named by CUDA_INJECTION64_PATH is loaded and called once, before anything
 * else. */
static void inject(void) {
    const char *path = getenv("CUDA_INJECTION64_PATH");
    void *library = path && *path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    void *symbol = library ? dlsym(library, "InitializeInjection") : NULL;
    int (*initialise)(void);
    memcpy(&initialise, &symbol, sizeof initialise);
    if (initialise) initialise();
}

EXPORT int cuInit(unsigned flags);
int cuInit(unsigned flags) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    ENTER();
    pthread_once(&once, inject);
    return flags ? INVALID_VALUE : 0;
}

EXPORT int cuDriverGetVersion(int *version);
int cuDriverGetVersion(int *version) {
    ENTER();
    *version = fake_version();
    return 0;
}

EXPORT int cuDeviceGetCount(int *count);
int cuDeviceGetCount(int *count) {
    ENTER();
    *count = fake_device_count();
    return 0;
}

EXPORT int cuDeviceGet(int *handle, int ordinal);
int cuDeviceGet(int *handle, int ordinal) {
    ENTER();
    if (ordinal >= fake_device_count()) return INVALID_DEVICE;
    *handle = ordinal;
    return 0;
}

EXPORT int cuDeviceGetName(char *name, int length, int handle);
int cuDeviceGetName(char *name, int length, int handle) {
    ENTER();
    snprintf(name, (size_t)length, "Fake GPU %d", handle);
    return 0;
}

EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int handle);
int cuDeviceTotalMem_v2(size_t *bytes, int handle) {
    ENTER();
    (void)handle;
    *bytes = MEMORY_BYTES;
    return 0;
}

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int handle);
int cuDeviceGetAttribute(int *value, int attribute, int handle) {
    static const int values[][2] = {{16, 4},        {10, 32},      {1, 1024}, {39, 2048}, {97, 227 * 1024},
                                    {8, 48 * 1024}, {38, 1 << 20}, {75, 9},   {76, 0},    {41, 1}};
    ENTER();
    (void)handle;
    fake_records_call(9); /* cuDeviceGetAttribute in cupti_driver_cbid.h */
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        if (values[i][0] != attribute) continue;
        *value = values[i][1];
        return 0;
    }
    return INVALID_VALUE;
}

EXPORT int cuDeviceGetPCIBusId(char *id, int length, int handle);
int cuDeviceGetPCIBusId(char *id, int length, int handle) {
    ENTER();
    snprintf(id, (size_t)length, "0000:%02X:00.0", handle + 1);
    return 0;
}

EXPORT int cuDeviceCanAccessPeer(int *possible, int handle, int peer);
int cuDeviceCanAccessPeer(int *possible, int handle, int peer) {
    ENTER();
    *possible = handle != peer;
    return 0;
}

EXPORT int cuCtxEnablePeerAccess(void *context, unsigned flags);
int cuCtxEnablePeerAccess(void *context, unsigned flags) {
    ENTER();
    return context && !flags ? 0 : INVALID_VALUE;
}

EXPORT int cuDevicePrimaryCtxRetain(void **context, int handle);
int cuDevicePrimaryCtxRetain(void **context, int handle) {
    ENTER();
    (void)handle;
    pthread_mutex_lock(&lock);
    int result = 0;
    if (!context_count) {
        result = fake_code(aorta_device_open(AORTA_DEVICE_CPU, 0, &device));
        if (!result) aorta_device_limit_memory(device, MEMORY_BYTES);
    }
    if (!result) context_count++;
    *context = device;
    pthread_mutex_unlock(&lock);
    return result;
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int handle);
int cuDevicePrimaryCtxRelease_v2(int handle) {
    int wanted = fake_check(__func__); /* what is destroyed is gone all the same */
    (void)handle;
    pthread_mutex_lock(&lock);
    if (--context_count == 0) {
        fake_objects_end();
        aorta_device_close(device);
    }
    pthread_mutex_unlock(&lock);
    return wanted;
}

EXPORT int cuCtxSetCurrent(void *context);
int cuCtxSetCurrent(void *context) {
    ENTER();
    return context == device ? 0 : INVALID_VALUE;
}

EXPORT int cuCtxGetStreamPriorityRange(int *least, int *greatest);
int cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    ENTER();
    *least = 0;
    *greatest = -5;
    return 0;
}

EXPORT int cuGetErrorName(int error, const char **name);
int cuGetErrorName(int error, const char **name) {
    static const struct {
        int code;
        const char *name;
    } names[] = {{INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"}, {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
                 {NO_DEVICE, "CUDA_ERROR_NO_DEVICE"},         {INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE"},
                 {NOT_FOUND, "CUDA_ERROR_NOT_FOUND"},         {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
                 {LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (names[i].code != error) continue;
        *name = names[i].name;
        return 0;
    }
    return INVALID_VALUE;
}

EXPORT int cuGetErrorString(int error, const char **text);
int cuGetErrorString(int error, const char **text) {
    static char texts[1000][32];
    if (error < 0 || error >= 1000) return INVALID_VALUE;
    pthread_mutex_lock(&lock);
    snprintf(texts[error], sizeof texts[error], "text of error %d", error);
    pthread_mutex_unlock(&lock);
    *text = texts[error];
    return 0;
}

/* ---- memory ---- */

/* Memory that is not cleared contains something. */
enum { DIRTY = 65536 };

EXPORT int cuMemAlloc_v2(void **memory, size_t bytes);
int cuMemAlloc_v2(void **memory, size_t bytes) {
    ENTER();
    const int code = fake_code(aorta_device_alloc(device, bytes, "fake", memory));
    if (!code) memset(*memory, 0xFF, bytes < DIRTY ? bytes : DIRTY);
    return code;
}

EXPORT int cuMemFree_v2(void *memory);
int cuMemFree_v2(void *memory) {
    int wanted = fake_check(__func__); /* what is destroyed is gone all the same */
    aorta_device_free(device, memory);
    return wanted;
}

EXPORT int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes);
int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
    ENTER();
    *total_bytes = MEMORY_BYTES;
    *free_bytes = MEMORY_BYTES - aorta_device_memory(device).allocated;
    return 0;
}

EXPORT int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags);
int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
    ENTER();
    (void)flags;
    return fake_code(aorta_pinned_alloc(device, bytes, "fake", memory));
}

EXPORT int cuMemFreeHost(void *memory);
int cuMemFreeHost(void *memory) {
    int wanted = fake_check(__func__); /* what is destroyed is gone all the same */
    aorta_pinned_free(device, memory);
    return wanted;
}
