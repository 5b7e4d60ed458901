/* The vendors' functions that the driver calls: one table that CUDA and HIP both fill.
 *
 * The rows of vendor.def name each vendor's symbol for a member. The two vendors'
 * functions are equal up to the types of handles (void * here) and of addresses (CUdeviceptr is as wide as a pointer).
 * tests/device/signatures.cc compares the members with the vendors' headers. */
#ifndef AORTA_DEVICE_GPU_API_H
#define AORTA_DEVICE_GPU_API_H

#include <stddef.h>
#include <stdint.h>

/* Every function returns 0 for success, and these where they matter; the numbers are the same for both vendors. */
enum {
    GPU_INVALID_VALUE = 1,
    GPU_OUT_OF_MEMORY = 2,
    GPU_STUB_LIBRARY = 34, /* CUDA: the stub that programs are linked with on machines without a driver */
    GPU_NO_DEVICE = 100,
    GPU_NOT_READY = 600,
    GPU_PEER_ALREADY_ENABLED = 704,
};

/* Flags, the same for both vendors. */
enum {
    GPU_STREAM_NON_BLOCKING = 1, /* not ordered by the default stream */
    GPU_EVENT_NO_TIMING = 2,
    GPU_HOST_PORTABLE = 1, /* page-locked for every device */
    GPU_HOST_MAPPED = 2,
    GPU_CAPTURE_RELAXED = 2, /* the capturing thread may allocate and load meanwhile */
};

struct gpu_api {
    int (*init)(unsigned flags);
    int (*driver_version)(int *version);
    int (*device_count)(int *count);
    int (*device_get)(int *device, int ordinal);
    int (*device_name)(char *name, int length, int device);
    int (*device_memory)(size_t *bytes, int device);
    int (*device_attribute)(int *value, int attribute, int device);
    int (*device_bus_id)(char *id, int length, int device);
    int (*peer_possible)(int *possible, int device, int peer);
    int (*peer_enable)(void *context, unsigned flags);

    int (*context_retain)(void **context, int device);
    int (*context_release)(int device);
    int (*context_set)(void *context);
    int (*priority_range)(int *least, int *greatest);

    int (*memory_alloc)(void **memory, size_t bytes);
    int (*memory_free)(void *memory);
    int (*memory_info)(size_t *free_bytes, size_t *total_bytes);
    int (*host_alloc)(void **memory, size_t bytes, unsigned flags);
    int (*host_free)(void *memory);

    int (*stream_create)(void **stream, unsigned flags, int priority);
    int (*stream_destroy)(void *stream);
    int (*stream_synchronize)(void *stream);
    int (*stream_query)(void *stream);
    int (*stream_wait)(void *stream, void *event, unsigned flags);
    int (*event_create)(void **event, unsigned flags);
    int (*event_destroy)(void *event);
    int (*event_record)(void *event, void *stream);
    int (*event_synchronize)(void *event);
    int (*event_query)(void *event);

    int (*fill)(void *to, unsigned char value, size_t bytes, void *stream);
    int (*host_call)(void *stream, void (*function)(void *user), void *user);
    int (*launch)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                  unsigned block_z, unsigned shared_bytes, void *stream, void **parameters, void **extra);

    int (*module_load)(void **module, const void *image);
    int (*module_unload)(void *module);
    int (*module_function)(void **function, void *module, const char *name);

    int (*capture_begin)(void *stream, int mode);
    int (*capture_end)(void *stream, void **graph);
    int (*graph_nodes)(void *graph, void **nodes, size_t *count);
    int (*graph_instantiate)(void **executable, void *graph, unsigned long long flags);
    int (*graph_launch)(void *executable, void *stream);
    int (*graph_destroy)(void *graph);
    int (*graph_executable_destroy)(void *executable);

    /* Functions of one vendor only. */
    int (*cuda_copy)(void *to, void *from, size_t bytes, void *stream);
    int (*cuda_error_name)(int error, const char **name);
    int (*cuda_error_text)(int error, const char **text);
    int (*cuda_function_set)(void *function, int attribute, int value);
    int (*cuda_function_parameter)(void *function, size_t index, size_t *offset, size_t *bytes);
    int (*cuda_function_load)(void *function);
    int (*cuda_resource_get)(int device, void *resource, int type);
    int (*cuda_resource_split)(void *result, unsigned *groups, const void *input, void *remaining, unsigned flags,
                               unsigned count);
    int (*cuda_resource_describe)(void **description, void *resources, unsigned count);
    int (*cuda_green_create)(void **context, void *description, int device, unsigned flags);
    int (*cuda_green_destroy)(void *context);
    int (*cuda_green_stream)(void **stream, void *context, unsigned flags, int priority);
    int (*hip_copy)(void *to, const void *from, size_t bytes, int kind, void *stream);
    const char *(*hip_error_name)(int error);
    const char *(*hip_error_text)(int error);
    int (*hip_properties)(void *properties, int device);
    int (*hip_masked_stream)(void **stream, uint32_t words, const uint32_t *mask);
    int (*hip_properties_r0600)(void *properties, int device); /* ROCm 6 gave the struct a new layout and name */
};

/* NVRTC and hipRTC. */
struct gpu_compiler_api {
    int (*version)(int *major, int *minor);
    int (*program_create)(void **program, const char *source, const char *name, int header_count,
                          const char *const *headers, const char *const *header_names);
    int (*program_destroy)(void **program);
    int (*program_compile)(void *program, int option_count, const char *const *options);
    int (*log_bytes)(void *program, size_t *bytes);
    int (*log)(void *program, char *log);
    int (*code_bytes)(void *program, size_t *bytes);
    int (*code)(void *program, char *code);
    const char *(*error_text)(int error);
};

#endif
