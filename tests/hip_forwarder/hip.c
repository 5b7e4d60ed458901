/* libamdhip64 on a machine with NVIDIA's driver: every HIP function that we call, forwarded to CUDA's. It runs the
 * rows of vendor.def and checks our calls; it says nothing about AMD's hardware. */
#include "device/gpu/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static struct gpu_api api;
static aorta_status failure;
static int (*function_attribute)(int *value, int attribute, void *function); /* NULL: missing */

static void load(void) {
    struct aorta_library library;
    failure = aorta_library_open(&aorta_gpu_cuda.driver, &api, &library);
    if (failure) fprintf(stderr, "HIP forwarder: %s\n", aorta_status_message(failure));
    void *symbol = failure ? NULL : dlsym(library.handle, "cuFuncGetAttribute");
    memcpy(&function_attribute, &symbol, sizeof symbol);
}

/* Opened at the first call, hipInit or hipDriverGetVersion. */
static const struct gpu_api *cuda(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return failure ? NULL : &api;
}

enum { NO_DEVICE = 100, VERSION = 60000000 };

/* FORWARD(HIP's name, member of struct gpu_api, parameters, arguments) */
#define FORWARD(name, member, parameters, arguments)                                                                   \
    EXPORT int name parameters;                                                                                        \
    int name parameters {                                                                                              \
        return cuda() ? api.member arguments : NO_DEVICE;                                                              \
    }

FORWARD(hipInit, init, (unsigned flags), (flags))
FORWARD(hipGetDeviceCount, device_count, (int *count), (count))
FORWARD(hipDeviceGet, device_get, (int *device, int ordinal), (device, ordinal))
FORWARD(hipDeviceTotalMem, device_memory, (size_t * bytes, int device), (bytes, device))
FORWARD(hipDeviceGetPCIBusId, device_bus_id, (char *id, int length, int device), (id, length, device))
FORWARD(hipDeviceCanAccessPeer, peer_possible, (int *possible, int device, int peer), (possible, device, peer))
FORWARD(hipCtxEnablePeerAccess, peer_enable, (void *context, unsigned flags), (context, flags))
FORWARD(hipDevicePrimaryCtxRetain, context_retain, (void **context, int device), (context, device))
FORWARD(hipDevicePrimaryCtxRelease, context_release, (int device), (device))
FORWARD(hipCtxSetCurrent, context_set, (void *context), (context))
FORWARD(hipDeviceGetStreamPriorityRange, priority_range, (int *least, int *greatest), (least, greatest))
FORWARD(hipMalloc, memory_alloc, (void **memory, size_t bytes), (memory, bytes))
FORWARD(hipFree, memory_free, (void *memory), (memory))
FORWARD(hipMemGetInfo, memory_info, (size_t * free_bytes, size_t *total_bytes), (free_bytes, total_bytes))
FORWARD(hipHostMalloc, host_alloc, (void **memory, size_t bytes, unsigned flags), (memory, bytes, flags))
FORWARD(hipHostFree, host_free, (void *memory), (memory))
FORWARD(hipStreamCreateWithPriority, stream_create, (void **stream, unsigned flags, int priority),
        (stream, flags, priority))
FORWARD(hipStreamDestroy, stream_destroy, (void *stream), (stream))
FORWARD(hipStreamSynchronize, stream_synchronize, (void *stream), (stream))
FORWARD(hipStreamQuery, stream_query, (void *stream), (stream))
FORWARD(hipStreamWaitEvent, stream_wait, (void *stream, void *event, unsigned flags), (stream, event, flags))
FORWARD(hipEventCreateWithFlags, event_create, (void **event, unsigned flags), (event, flags))
FORWARD(hipEventDestroy, event_destroy, (void *event), (event))
FORWARD(hipEventRecord, event_record, (void *event, void *stream), (event, stream))
FORWARD(hipEventSynchronize, event_synchronize, (void *event), (event))
FORWARD(hipEventQuery, event_query, (void *event), (event))
FORWARD(hipMemsetD8Async, fill, (void *to, unsigned char value, size_t bytes, void *stream), (to, value, bytes, stream))
FORWARD(hipLaunchHostFunc, host_call, (void *stream, void (*function)(void *user), void *user),
        (stream, function, user))
FORWARD(hipModuleLaunchKernel, launch,
        (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
         void *stream, void **parameters, void **extra),
        (function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra))
FORWARD(hipModuleLoadData, module_load, (void **module, const void *image), (module, image))
FORWARD(hipModuleUnload, module_unload, (void *module), (module))
FORWARD(hipStreamBeginCapture, capture_begin, (void *stream, int mode), (stream, mode))
FORWARD(hipStreamEndCapture, capture_end, (void *stream, void **graph), (stream, graph))
FORWARD(hipGraphGetNodes, graph_nodes, (void *graph, void **nodes, size_t *count), (graph, nodes, count))
FORWARD(hipGraphInstantiateWithFlags, graph_instantiate, (void **executable, void *graph, unsigned long long flags),
        (executable, graph, flags))
FORWARD(hipGraphLaunch, graph_launch, (void *executable, void *stream), (executable, stream))
FORWARD(hipGraphDestroy, graph_destroy, (void *graph), (graph))
FORWARD(hipGraphExecDestroy, graph_executable_destroy, (void *executable), (executable))

/* ---- what differs ---- */

EXPORT int hipDriverGetVersion(int *version);
int hipDriverGetVersion(int *version) {
    *version = VERSION;
    return 0;
}

EXPORT int hipMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream);
int hipMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream) {
    (void)kind;
    return api.cuda_copy(to, (void *)(uintptr_t)from, bytes, stream);
}

EXPORT const char *hipGetErrorName(int error);
const char *hipGetErrorName(int error) {
    const char *name = NULL;
    return !cuda() || api.cuda_error_name(error, &name) ? NULL : name;
}

EXPORT const char *hipGetErrorString(int error);
const char *hipGetErrorString(int error) {
    const char *text = NULL;
    return !cuda() || api.cuda_error_text(error, &text) ? NULL : text;
}

EXPORT int hipDeviceGetName(char *name, int length, int device);
int hipDeviceGetName(char *name, int length, int device) {
    int result = api.device_name(name, length, device);
    size_t used = result ? 0 : strlen(name);
    snprintf(name + used, (size_t)length - used, " (through the CUDA forwarder)");
    return result;
}

EXPORT int hipDeviceGetAttribute(int *value, int attribute, int device);
int hipDeviceGetAttribute(int *value, int attribute, int device) {
    const struct gpu_attributes *hip = &aorta_gpu_hip.attribute, *own = &aorta_gpu_cuda.attribute;
    const int pairs[][2] = {
        {hip->multiprocessors, own->multiprocessors},
        {hip->warp_size, own->warp_size},
        {hip->shared_bytes, own->shared_bytes},
    };
    *value = aorta_gpu_cuda.timer_khz;
    if (attribute == hip->timer_khz) return 0;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (pairs[i][0] == attribute) return api.device_attribute(value, pairs[i][1], device);
    return GPU_INVALID_VALUE;
}

/* The caller looks for a name of an architecture in it. */
EXPORT int hipGetDeviceProperties(void *properties, int device);
int hipGetDeviceProperties(void *properties, int device) {
    (void)device;
    strcpy((char *)properties + 1160, "gfx90a:sramecc+:xnack-");
    return 0;
}

EXPORT int hipGetDevicePropertiesR0600(void *properties, int device);
int hipGetDevicePropertiesR0600(void *properties, int device) {
    return hipGetDeviceProperties(properties, device);
}

/* AMD's kernels need no leave for their shared memory; here each gets it at once. */
EXPORT int hipModuleGetFunction(void **function, void *module, const char *name);
int hipModuleGetFunction(void **function, void *module, const char *name) {
    enum { STATIC_SHARED_BYTES = 1, FIRST_DEVICE = 0 };
    int most = 0, used = 0, result = api.module_function(function, module, name);
    if (result) return result;
    api.device_attribute(&most, aorta_gpu_cuda.attribute.shared_bytes, FIRST_DEVICE);
    if (function_attribute) function_attribute(&used, STATIC_SHARED_BYTES, *function);
    api.cuda_function_set(*function, aorta_gpu_cuda.shared_attribute, most - used);
    return 0;
}
