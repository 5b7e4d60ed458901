/* The part of CUPTI's binary interface that we use, declared here so that no toolkit is needed to build. Facts from
 * NVIDIA's cupti_activity.h, cupti_result.h and cupti_version.h; tests/measure/test_cupti_abi.c compares them with the
 * headers where these are installed. Activity records have grown at their end from version to version; the declared
 * part is common to all since CUDA 11.6. */
#ifndef AORTA_MEASURE_CUPTI_ABI_H
#define AORTA_MEASURE_CUPTI_ABI_H

#include "measure/tracer.h"

#include <pthread.h>

enum {
    AORTA_CUPTI_OLDEST = 19,   /* cuptiGetVersion of CUDA 12.0 */
    AORTA_CUPTI_DETACHES = 24, /* of CUDA 12.6: cuptiFinalize is safe with graphs */

    AORTA_CUPTI_KIND_MEMCPY = 1,
    AORTA_CUPTI_KIND_MEMSET = 2,
    AORTA_CUPTI_KIND_KERNEL = 3,  /* runs that CUPTI had to serialise */
    AORTA_CUPTI_KIND_DRIVER = 4,  /* calls of the driver's interface */
    AORTA_CUPTI_KIND_RUNTIME = 5, /* calls of the runtime's interface */
    AORTA_CUPTI_KIND_CONCURRENT_KERNEL = 10,
    AORTA_CUPTI_KIND_MARKER = 12,      /* NVTX */
    AORTA_CUPTI_KIND_MEMCPY_PEER = 22, /* CUPTI_ACTIVITY_KIND_MEMCPY2 */

    AORTA_CUPTI_FLUSH_FORCED = 1,

    AORTA_CUPTI_ATTRIBUTE_BUFFER_PER_THREAD = 9, /* since CUDA 12.3; uint8_t */

    AORTA_CUPTI_DOMAIN_DRIVER = 1, /* of callbacks, for cuptiEnableDomain */
    AORTA_CUPTI_DOMAIN_RUNTIME = 2,
    AORTA_CUPTI_DOMAIN_RESOURCE = 3,
    AORTA_CUPTI_DEVICE_GET_ATTRIBUTE = 9, /* driver: the callback's number of cuDeviceGetAttribute */
    AORTA_CUPTI_GRAPHNODE_CREATED = 13,   /* resource: struct aorta_cupti_resource, whose descriptor is a … */
    AORTA_CUPTI_GRAPHNODE_CLONED = 20,    /* … struct aorta_cupti_graph */
    AORTA_CUPTI_SITE_ENTER = 0,
    AORTA_CUPTI_SITE_EXIT = 1, /* of CUpti_CallbackData.callbackSite, its first field */

    AORTA_CUPTI_MARKER_START = 2,
    AORTA_CUPTI_MARKER_END = 4,

    AORTA_CUPTI_SUCCESS = 0,
    AORTA_CUPTI_MAX_LIMIT_REACHED = 12, /* also: the end of a buffer */
    AORTA_CUPTI_NOT_COMPATIBLE = 14,
    AORTA_CUPTI_NOT_INITIALIZED = 15,
    AORTA_CUPTI_VIRTUALIZED = 33,
    AORTA_CUPTI_INSUFFICIENT_PRIVILEGES = 35,
    AORTA_CUPTI_OLD_PROFILER_API = 36,
    AORTA_CUPTI_MULTIPLE_SUBSCRIBERS = 39,
    AORTA_CUPTI_VIRTUALIZED_PRIVILEGES = 40,
    AORTA_CUPTI_CONFIDENTIAL_COMPUTING = 41,
    AORTA_CUPTI_MIG_DEVICE = 43,
    AORTA_CUPTI_WSL_DEVICE = 45,
};

struct aorta_cupti_activity { /* CUpti_Activity: how every record begins */
    uint32_t kind;
};

struct aorta_cupti_kernel { /* CUpti_ActivityKernel7 and later */
    uint32_t kind;
    uint8_t cache_config, shared_memory_config;
    uint16_t registers_per_thread;
    uint32_t partitioned_cache_requested, partitioned_cache_executed;
    uint64_t start, end, completed; /* ns; 0: unknown */
    uint32_t device, context, stream;
    int32_t grid[3], block[3];
    int32_t static_shared, dynamic_shared;
    uint32_t local_per_thread, local_total;
    uint32_t correlation;
    int64_t grid_id;
    const char *name;
    void *reserved;
    uint64_t queued, submitted;
    uint8_t launch_type, carveout_requested_set, carveout_requested, padding;
    uint32_t shared_executed;
    uint64_t graph_node;
    uint32_t shared_limit_config;
    uint32_t graph;
    void *access_policy;
    uint32_t channel, channel_type; /* hardware queue of the kernel; type 0: unknown */
};

struct aorta_cupti_memcpy { /* CUpti_ActivityMemcpy5 and later */
    uint32_t kind;
    uint8_t copy_kind, source_kind, target_kind, flags;
    uint64_t bytes, start, end;
    uint32_t device, context, stream, correlation, runtime_correlation;
    uint32_t padding;
    void *reserved;
    uint64_t graph_node;
    uint32_t graph;
    uint32_t channel, channel_type;
};

struct aorta_cupti_memcpy_peer { /* CUpti_ActivityMemcpyPtoP4 and later */
    uint32_t kind;
    uint8_t copy_kind, source_kind, target_kind, flags;
    uint64_t bytes, start, end;
    uint32_t device, context, stream;
    uint32_t source_device, source_context, target_device, target_context;
    uint32_t correlation;
    void *reserved;
    uint64_t graph_node;
    uint32_t graph;
    uint32_t channel, channel_type;
};

struct aorta_cupti_memset { /* CUpti_ActivityMemset4 and later */
    uint32_t kind, value;
    uint64_t bytes, start, end;
    uint32_t device, context, stream, correlation;
    uint16_t flags, memory_kind;
    uint32_t padding;
    void *reserved;
    uint64_t graph_node;
    uint32_t graph;
    uint32_t channel, channel_type;
};

/* The part that the records of copies and fills share, at different places. */
struct aorta_cupti_transfer {
    uint64_t bytes, start, end, graph_node;
    uint32_t device, context, stream, correlation, graph, channel, channel_type;
};
#define AORTA_CUPTI_TRANSFER(r)                                                                                        \
    ((struct aorta_cupti_transfer){(r)->bytes, (r)->start, (r)->end, (r)->graph_node, (r)->device, (r)->context,       \
                                   (r)->stream, (r)->correlation, (r)->graph, (r)->channel, (r)->channel_type})

struct aorta_cupti_call { /* CUpti_ActivityAPI */
    uint32_t kind, id;    /* id: the callback's number in cupti_runtime_cbid.h or cupti_driver_cbid.h */
    uint64_t start, end;
    uint32_t process, thread, correlation, result;
};

struct aorta_cupti_marker { /* CUpti_ActivityMarker2, which is packed, but with the same offsets */
    uint32_t kind, flags;
    uint64_t timestamp;
    uint32_t id; /* shared by the beginning and the end of a range */
    uint32_t object_kind;
    uint32_t object[3]; /* process, thread, … */
    uint32_t padding;
    const char *name; /* NULL at the end of a range */
    const char *domain;
};

struct aorta_cupti_callback { /* CUpti_CallbackData */
    uint32_t site;
    const char *function;
    const void *parameters;
    void *result;
    const char *symbol;
    void *context;
    uint32_t context_number;
    uint64_t *correlation_data;
    uint32_t correlation;
};

struct aorta_cupti_resource { /* CUpti_ResourceData */
    void *context, *handle, *descriptor;
};

struct aorta_cupti_graph { /* CUpti_GraphData */
    void *graph, *original_graph, *node, *original_node;
};

/* CUptiResult and CUpti_ActivityKind are enums of 32 bits; CUcontext and the subscriber are pointers. */
typedef void (*aorta_cupti_request)(uint8_t **buffer, size_t *size, size_t *record_limit);
typedef void (*aorta_cupti_complete)(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid);
typedef uint64_t (*aorta_cupti_clock)(void);
typedef void (*aorta_cupti_event)(void *user, uint32_t domain, uint32_t id, const void *data);

struct aorta_cupti_api {
#define ROW(member, symbol, tracer, recording, parameters) uint32_t(*member) parameters;
#include "measure/cupti.def"
#undef ROW
};

/* Converts CUPTI's records of device work to ours, for the tracer and for the injected library. */

/* False if the record is no device work. A kernel's name is CUPTI's and valid as long as the buffer. */
bool aorta_cupti_decode(const struct aorta_cupti_activity *activity, struct aorta_activity_record *record);
/* The kinds of device work. A recording needs the first, that of kernels. */
enum { AORTA_CUPTI_KIND_COUNT = 4 };
extern const uint32_t aorta_cupti_kinds[AORTA_CUPTI_KIND_COUNT];
/* False if CUPTI delivered the record before the work ended, so its times are invalid. */
bool aorta_cupti_is_finished(const struct aorta_activity_record *record);

/* ---- buffers of records ----
 * The buffers that CUPTI fills: pooled, recycled, bounded. Callbacks of CUPTI's own threads only move them from list
 * to list. */

struct aorta_cupti_buffer {
    struct aorta_cupti_buffer *next;
    size_t valid; /* bytes that hold records */
    _Alignas(16) uint8_t bytes[];
};

struct aorta_cupti_buffers {
    pthread_mutex_t lock;
    size_t bytes; /* of each */
    int limit;    /* so many are made at most */
    struct aorta_cupti_buffer *empty;
    struct aorta_cupti_buffer *filled, **filled_end; /* oldest first */
    int made, lent;                                  /* in all; with CUPTI now */
};

void aorta_cupti_buffers_init(struct aorta_cupti_buffers *buffers, size_t bytes, int limit);
/* Buffers that CUPTI still has are not freed, as it may write into them. */
void aorta_cupti_buffers_free(struct aorta_cupti_buffers *buffers);

/* Returns a buffer for CUPTI: an empty buffer, or if all are full the oldest filled buffer, whose records are added to
 * *lost. NULL if there is none. */
uint8_t *aorta_cupti_buffers_lend(struct aorta_cupti_buffers *buffers, const struct aorta_cupti_api *api,
                                  _Atomic int64_t *lost);
void aorta_cupti_buffers_return(struct aorta_cupti_buffers *buffers, uint8_t *bytes, size_t valid);
struct aorta_cupti_buffer *aorta_cupti_buffers_take(struct aorta_cupti_buffers *buffers); /* oldest filled, or NULL */
int aorta_cupti_buffers_lent(struct aorta_cupti_buffers *buffers);
void aorta_cupti_buffers_recycle(struct aorta_cupti_buffers *buffers, struct aorta_cupti_buffer *buffer);

/* ---- words ---- */

/* "CUPTI 13.0.1", by the number of cuptiGetVersion. */
struct aorta_cupti_version {
    char text[40];
};
struct aorta_cupti_version aorta_cupti_version(uint32_t version);

const char *aorta_cupti_reason(const struct aorta_cupti_api *api, uint32_t result);
const char *aorta_cupti_advice(uint32_t result); /* NULL if no remedy is known */

#endif
