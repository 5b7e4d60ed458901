/* The little of rocprofiler-sdk's binary interface that we use, declared here so that no ROCm is needed to build. Facts
 * from AMD's rocprofiler-sdk/fwd.h, registration.h, context.h, buffer.h, buffer_tracing.h, callback_tracing.h and
 * external_correlation.h of version 1.0 (ROCm 7.0), whose structs grow at their end only. Handles are structs of one
 * uint64_t there, which are passed as one; enums have 32 bits. */
#ifndef AORTA_MEASURE_ROCPROFILER_ABI_H
#define AORTA_MEASURE_ROCPROFILER_ABI_H

#include <stddef.h>
#include <stdint.h>

enum {
    AORTA_ROCPROFILER_OLDEST = 10000,      /* major, minor, patch: 1.0.0 */
    AORTA_ROCPROFILER_STARTS_LATE = 10300, /* 1.3.0 may be configured after HIP has begun */

    AORTA_ROCPROFILER_SUCCESS = 0,
    AORTA_ROCPROFILER_CONFIGURATION_LOCKED = 16,

    AORTA_ROCPROFILER_CATEGORY_TRACING = 1,    /* of a record's header */
    AORTA_ROCPROFILER_BUFFER_MEMORY_COPY = 10, /* kinds of records */
    AORTA_ROCPROFILER_BUFFER_KERNEL_DISPATCH = 11,
    AORTA_ROCPROFILER_POLICY_LOSSLESS = 2,

    AORTA_ROCPROFILER_CALLBACK_CODE_OBJECT = 10, /* kinds of callbacks */
    AORTA_ROCPROFILER_CALLBACK_HIP_STREAM = 20,
    AORTA_ROCPROFILER_KERNEL_SYMBOL = 2, /* operation of code objects */
    AORTA_ROCPROFILER_STREAM_SET = 3,    /* operation of streams */
    AORTA_ROCPROFILER_PHASE_ENTER = 1,
    AORTA_ROCPROFILER_PHASE_EXIT = 2,

    AORTA_ROCPROFILER_REQUEST_MEMORY_COPY = 10, /* kinds of requests for an external number */
    AORTA_ROCPROFILER_REQUEST_KERNEL_DISPATCH = 11,
};

struct aorta_rocprofiler_header { /* rocprofiler_record_header_t */
    uint32_t category, kind;
    const void *payload;
};

struct aorta_rocprofiler_dispatch { /* rocprofiler_buffer_tracing_kernel_dispatch_record_t */
    uint64_t size;
    uint32_t kind, operation;
    uint64_t internal, external; /* numbers: the library's, and the caller's */
    uint64_t thread, start, end; /* ns of rocprofiler_get_timestamp */
    uint64_t info_size, agent, queue, kernel, dispatch;
    uint32_t private_bytes, group_bytes;
    uint32_t workgroup[3], grid[3]; /* both in work-items */
};
_Static_assert(offsetof(struct aorta_rocprofiler_dispatch, info_size) == 56, "rocprofiler_kernel_dispatch_info_t");
_Static_assert(offsetof(struct aorta_rocprofiler_dispatch, grid) == 56 + 60, "its grid");

struct aorta_rocprofiler_copy { /* rocprofiler_buffer_tracing_memory_copy_record_t */
    uint64_t size;
    uint32_t kind, operation; /* 1 … 4: host to host, host to device, device to host, device to device */
    uint64_t internal, external, thread, start, end;
    uint64_t target_agent, source_agent, bytes;
};
_Static_assert(offsetof(struct aorta_rocprofiler_copy, bytes) == 72, "as in AMD's header");

struct aorta_rocprofiler_callback { /* rocprofiler_callback_tracing_record_t, passed by value */
    uint64_t context, thread;
    uint64_t internal, external, ancestor;
    uint32_t kind, operation, phase;
    const void *payload;
};
_Static_assert(sizeof(struct aorta_rocprofiler_callback) == 64, "as in AMD's header");

struct aorta_rocprofiler_symbol { /* rocprofiler_callback_tracing_code_object_kernel_symbol_register_data_t */
    uint64_t size, kernel, code_object;
    const char *name;
};

struct aorta_rocprofiler_stream { /* rocprofiler_callback_tracing_hip_stream_data_t */
    uint64_t size, stream;
};

typedef int (*aorta_rocprofiler_initialize)(void (*finalize)(void), void *user);
struct aorta_rocprofiler_tool { /* rocprofiler_tool_configure_result_t */
    size_t size;
    aorta_rocprofiler_initialize initialize;
    void (*finalize)(void *user); /* may be NULL */
    void *user;
};

typedef struct aorta_rocprofiler_tool *(*aorta_rocprofiler_configure)(uint32_t version, const char *text,
                                                                      uint32_t priority, void *client);
typedef void (*aorta_rocprofiler_on_records)(uint64_t context, uint64_t buffer,
                                             struct aorta_rocprofiler_header **headers, size_t count, void *user,
                                             uint64_t dropped);
typedef void (*aorta_rocprofiler_on_event)(struct aorta_rocprofiler_callback event, uint64_t *between, void *user);
typedef int (*aorta_rocprofiler_on_request)(uint64_t thread, uint64_t context, uint32_t kind, int32_t operation,
                                            uint64_t internal, uint64_t *external, void *user);

/* Each returns a rocprofiler_status_t but for status_string. */
struct aorta_rocprofiler_api {
    uint32_t (*get_version)(uint32_t *major, uint32_t *minor, uint32_t *patch);
    uint32_t (*get_timestamp)(uint64_t *ns);
    const char *(*status_string)(uint32_t status);
    uint32_t (*force_configure)(aorta_rocprofiler_configure configure);
    uint32_t (*create_context)(uint64_t *context);
    uint32_t (*start_context)(uint64_t context);
    uint32_t (*stop_context)(uint64_t context);
    uint32_t (*create_buffer)(uint64_t context, size_t bytes, size_t watermark, uint32_t policy,
                              aorta_rocprofiler_on_records on_records, void *user, uint64_t *buffer);
    uint32_t (*flush_buffer)(uint64_t buffer); /* returns when all its records have been handed out */
    uint32_t (*configure_buffer)(uint64_t context, uint32_t kind, const int32_t *operations, size_t count,
                                 uint64_t buffer);
    uint32_t (*configure_callback)(uint64_t context, uint32_t kind, const int32_t *operations, size_t count,
                                   aorta_rocprofiler_on_event on_event, void *user);
    uint32_t (*configure_request)(uint64_t context, const uint32_t *kinds, size_t count,
                                  aorta_rocprofiler_on_request on_request, void *user);
};

#endif
