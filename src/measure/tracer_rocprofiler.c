/* Kernel records of AMD GPUs through rocprofiler-sdk's buffered tracing.
 *
 * The library is configured once per process, before HIP starts, as it replaces HIP's functions. A tracer starts and
 * stops this configuration. The launching thread provides the launch's number, which the library returns with the
 * record, and HIP's stream. Neither nodes of graphs nor hardware queues beyond
 * HSA's are known. */
#include "base/array.h"
#include "base/clock.h"
#include "base/intern.h"
#include "device/gpu.h"
#include "measure/tracer.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The part of rocprofiler-sdk's binary interface that we use, declared here so that no ROCm is needed to build. Facts
 * from AMD's rocprofiler-sdk/fwd.h, registration.h, context.h, buffer.h, buffer_tracing.h, callback_tracing.h and
 * external_correlation.h of version 1.0 (ROCm 7.0), whose structs grow at their end only. Its handles are structs of
 * one uint64_t, which are passed like a uint64_t; enums have 32 bits. */
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

struct aorta_rocprofiler_api {
#define ROW(member, symbol, result, parameters) result(*member) parameters;
#include "measure/rocprofiler.def"
#undef ROW
};

enum {
    BUFFER_BYTES = 1 << 20,
    WATERMARK_BYTES = 64 << 10, /* from this size on the library hands out records without a request */
    RECORD_LIMIT = 1 << 18,     /* that nobody fetched */
    KERNEL_LIMIT = 1 << 20,     /* numbers of kernels whose names are stored */
    DISORDER_NS = 10000000,     /* records of finished work come in any order */
    SETTLE_NS = 5000000,        /* between two looks whether the last ones have come */
    STREAM_DEPTH = 8,           /* HIP functions within each other */
    CLOCK_READINGS = 5
};

struct rocprofiler {
    struct aorta_rocprofiler_api api;
    struct aorta_library library;
    char version[48]; /* "rocprofiler-sdk 1.0.0" */
    uint64_t names_context, context, buffer;
    struct aorta_rocprofiler_tool tool;
    uint32_t refusal; /* of a function within the configuration */
    const char *refused;
    bool open;
    _Atomic uint32_t launches;
    pthread_mutex_t lock; /* of the following */
    struct aorta_texts names;
    const char **kernels; /* by the library's number of the kernel */
    size_t kernel_count;
    struct aorta_activity_record *records; /* in the library's time */
    size_t count, capacity;
    int64_t dropped;
};

/* The library keeps pointers to it until the process ends, and serves one configuration in a process. */
static struct rocprofiler process = {.lock = PTHREAD_MUTEX_INITIALIZER};
static pthread_once_t prepared = PTHREAD_ONCE_INIT;
static aorta_status failure; /* of the preparation, for each tracer that is opened */

/* The streams of HIP functions that this thread is in. */
static _Thread_local struct {
    uint32_t streams[STREAM_DEPTH];
    int depth;
} inside;

/* ---- the library ---- */

static const struct aorta_symbol symbols[] = {
#define ROW(member, symbol, ...) {"rocprofiler_" #symbol, offsetof(struct aorta_rocprofiler_api, member), true},
#include "measure/rocprofiler.def"
#undef ROW
};

static const char *const names[] = {"librocprofiler-sdk.so.1", "librocprofiler-sdk.so", NULL};

const struct aorta_library_description aorta_rocprofiler_library = {
    .purpose = "kernel tracing (rocprofiler-sdk)",
    .names = names,
    .symbols = symbols,
    .symbol_count = sizeof symbols / sizeof symbols[0],
    .install = "it is part of ROCm 7.0 and later (package rocprofiler-sdk); set LD_LIBRARY_PATH to its folder, e.g. "
               "/opt/rocm/lib",
};

static aorta_status refused(const char *call, uint32_t result) {
    const char *reason = process.api.status_string(result);
    return AORTA_ERROR(AORTA_UNSUPPORTED, "kernel tracing: %s (%s) refused: %s (%u)%s", call, process.library.path,
                       reason ? reason : "unknown status", result,
                       result == AORTA_ROCPROFILER_CONFIGURATION_LOCKED
                           ? ": another profiler has rocprofiler-sdk in this process; run without it, or without "
                             "--kernel-timing"
                           : "");
}

static aorta_status check(const char *call, uint32_t result) {
    return result == AORTA_ROCPROFILER_SUCCESS ? NULL : refused(call, result);
}

/* ---- callbacks, on the library's threads and on launching threads ---- */

/* Names are given once, when the code is loaded. */
static void on_symbol(const struct aorta_rocprofiler_symbol *symbol) {
    if (symbol->kernel >= KERNEL_LIMIT || !symbol->name) return;
    pthread_mutex_lock(&process.lock);
    if (aorta_array_extend(&process.kernels, &process.kernel_count, symbol->kernel + 1, sizeof *process.kernels))
        process.kernels[symbol->kernel] = aorta_intern(&process.names, symbol->name);
    pthread_mutex_unlock(&process.lock);
}

static void on_stream(const struct aorta_rocprofiler_callback *event) {
    const struct aorta_rocprofiler_stream *stream = event->payload;
    if (event->phase == AORTA_ROCPROFILER_PHASE_ENTER && inside.depth++ < STREAM_DEPTH)
        inside.streams[inside.depth - 1] = (uint32_t)stream->stream;
    else if (event->phase == AORTA_ROCPROFILER_PHASE_EXIT && inside.depth > 0)
        inside.depth--;
}

static void on_event(struct aorta_rocprofiler_callback event, uint64_t *between, void *user) {
    (void)between, (void)user;
    if (event.kind == AORTA_ROCPROFILER_CALLBACK_CODE_OBJECT && event.operation == AORTA_ROCPROFILER_KERNEL_SYMBOL &&
        event.phase == AORTA_ROCPROFILER_PHASE_ENTER)
        on_symbol(event.payload);
    else if (event.kind == AORTA_ROCPROFILER_CALLBACK_HIP_STREAM && event.operation == AORTA_ROCPROFILER_STREAM_SET)
        on_stream(&event);
}

/* Called on the launching thread. The record gets this value: the stream in the upper 32 bits, the launch's number in
 * the lower. */
static int on_request(uint64_t thread, uint64_t context, uint32_t kind, int32_t operation, uint64_t internal,
                      uint64_t *external, void *user) {
    (void)thread, (void)context, (void)kind, (void)operation, (void)internal, (void)user;
    const int depth = inside.depth < STREAM_DEPTH ? inside.depth : STREAM_DEPTH;
    const uint64_t stream = depth ? inside.streams[depth - 1] : 0;
    *external = stream << 32 | (atomic_fetch_add(&process.launches, 1) + 1);
    return 0;
}

static void add_record(const struct aorta_activity_record *record) {
    if (process.count == RECORD_LIMIT ||
        !aorta_array_append(&process.records, &process.capacity, &process.count, record, sizeof *record))
        process.dropped++;
}

static void add_dispatch(const struct aorta_rocprofiler_dispatch *dispatch) {
    struct aorta_activity_record record = {
        .kind = AORTA_TRACE_KERNEL,
        .name = dispatch->kernel < process.kernel_count ? process.kernels[dispatch->kernel] : NULL,
        .start_ns = (int64_t)dispatch->start,
        .end_ns = (int64_t)dispatch->end,
        .stream = (uint32_t)(dispatch->external >> 32),
        .device = (uint32_t)dispatch->agent,
        .correlation = (uint32_t)dispatch->external,
        .shared_bytes = dispatch->group_bytes,
        .channel = (uint32_t)dispatch->queue,
        .channel_type = 1, /* compute */
    };
    for (int i = 0; i < 3; i++) {
        const uint32_t group = dispatch->workgroup[i];
        record.block[i] = group;
        record.grid[i] = group ? dispatch->grid[i] / group + (dispatch->grid[i] % group != 0) : 0;
    }
    add_record(&record);
}

static void add_copy(const struct aorta_rocprofiler_copy *copy) {
    static const uint8_t kinds[] = {0, 9, 1, 2, 8}; /* CUPTI's */
    enum { KINDS = sizeof kinds / sizeof kinds[0], DEVICE_TO_HOST = 3 };
    const uint8_t kind = kinds[copy->operation < KINDS ? copy->operation : 0];
    add_record(&(struct aorta_activity_record){
        .kind = AORTA_TRACE_COPY,
        .copy_kind = kind,
        .name = aorta_copy_words(kind),
        .start_ns = (int64_t)copy->start,
        .end_ns = (int64_t)copy->end,
        .stream = (uint32_t)(copy->external >> 32),
        .device = (uint32_t)(copy->operation == DEVICE_TO_HOST ? copy->source_agent : copy->target_agent),
        .correlation = (uint32_t)copy->external,
        .bytes = (int64_t)copy->bytes,
    });
}

static void on_records(uint64_t context, uint64_t buffer, struct aorta_rocprofiler_header **headers, size_t count,
                       void *user, uint64_t dropped) {
    (void)context, (void)buffer, (void)user;
    pthread_mutex_lock(&process.lock);
    process.dropped += (int64_t)dropped;
    for (size_t i = 0; i < count; i++) {
        if (headers[i]->category != AORTA_ROCPROFILER_CATEGORY_TRACING) continue;
        if (headers[i]->kind == AORTA_ROCPROFILER_BUFFER_KERNEL_DISPATCH) add_dispatch(headers[i]->payload);
        if (headers[i]->kind == AORTA_ROCPROFILER_BUFFER_MEMORY_COPY) add_copy(headers[i]->payload);
    }
    pthread_mutex_unlock(&process.lock);
}

/* ---- the configuration ---- */

/* The first refusal is remembered; the library calls this from force_configure. */
static bool take(const char *call, uint32_t result) {
    if (result == AORTA_ROCPROFILER_SUCCESS) return true;
    process.refused = call;
    process.refusal = result;
    return false;
}

/* Returns -1 to make the library drop the configuration. Names are reported from now on, records while a tracer runs.
 */
static int initialise(void (*finalize)(void), void *user) {
    static const int32_t symbol = AORTA_ROCPROFILER_KERNEL_SYMBOL, set = AORTA_ROCPROFILER_STREAM_SET;
    static const uint32_t requests[] = {AORTA_ROCPROFILER_REQUEST_MEMORY_COPY,
                                        AORTA_ROCPROFILER_REQUEST_KERNEL_DISPATCH};
    struct rocprofiler *p = user;
    const struct aorta_rocprofiler_api *api = &p->api;
    (void)finalize;
    const bool named =
        take("rocprofiler_create_context", api->create_context(&p->names_context)) &&
        take("code objects", api->configure_callback(p->names_context, AORTA_ROCPROFILER_CALLBACK_CODE_OBJECT, &symbol,
                                                     1, on_event, NULL)) &&
        take("streams", api->configure_callback(p->names_context, AORTA_ROCPROFILER_CALLBACK_HIP_STREAM, &set, 1,
                                                on_event, NULL)) &&
        take("rocprofiler_start_context", api->start_context(p->names_context));
    const bool recorded =
        named && take("rocprofiler_create_context", api->create_context(&p->context)) &&
        take("rocprofiler_create_buffer",
             api->create_buffer(p->context, BUFFER_BYTES, WATERMARK_BYTES, AORTA_ROCPROFILER_POLICY_LOSSLESS,
                                on_records, NULL, &p->buffer)) &&
        take("kernels",
             api->configure_buffer(p->context, AORTA_ROCPROFILER_BUFFER_KERNEL_DISPATCH, NULL, 0, p->buffer)) &&
        take("copies", api->configure_buffer(p->context, AORTA_ROCPROFILER_BUFFER_MEMORY_COPY, NULL, 0, p->buffer)) &&
        take("numbers of launches", api->configure_request(p->context, requests, 2, on_request, NULL));
    return recorded ? 0 : -1;
}

static struct aorta_rocprofiler_tool *configure(uint32_t version, const char *text, uint32_t priority, void *client) {
    (void)version, (void)text, (void)priority, (void)client;
    process.tool = (struct aorta_rocprofiler_tool){sizeof process.tool, initialise, NULL, &process};
    return &process.tool;
}

static bool hip_has_begun(void) {
    static const char *const libraries[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"};
    void *found = NULL;
    for (size_t i = 0; i < sizeof libraries / sizeof libraries[0] && !found; i++)
        found = dlopen(libraries[i], RTLD_NOW | RTLD_NOLOAD);
    if (found) dlclose(found); /* the program's own reference keeps it loaded */
    return found != NULL;
}

static aorta_status try_prepare(void) {
    uint32_t major = 0, minor = 0, patch = 0;
    AORTA_TRY(aorta_library_open(&aorta_rocprofiler_library, &process.api, &process.library));
    AORTA_TRY(check("rocprofiler_get_version", process.api.get_version(&major, &minor, &patch)));
    const uint32_t version = 10000 * major + 100 * minor + patch;
    snprintf(process.version, sizeof process.version, "rocprofiler-sdk %u.%u.%u", major, minor, patch);
    if (version < AORTA_ROCPROFILER_OLDEST)
        return AORTA_ERROR(AORTA_UNSUPPORTED,
                           "kernel tracing: %s is too old (%s); that of ROCm 7.0 or later is needed (%s)",
                           process.library.path, process.version, aorta_rocprofiler_library.install);
    if (version < AORTA_ROCPROFILER_STARTS_LATE && hip_has_begun())
        return AORTA_ERROR(AORTA_UNSUPPORTED,
                           "kernel tracing: HIP had begun before %s (%s) was configured, which that version cannot do",
                           process.library.path, process.version);
    AORTA_TRY(check("rocprofiler_force_configure", process.api.force_configure(configure)));
    if (process.refused) return refused(process.refused, process.refusal);
    if (process.context) return NULL;
    return AORTA_ERROR(AORTA_UNSUPPORTED, "kernel tracing: %s configured nothing", process.library.path);
}

static void prepare_once(void) {
    failure = try_prepare();
}

static void rocprofiler_prepare(void) {
    pthread_once(&prepared, prepare_once);
}

/* ---- a tracer ---- */

/* The difference of the library's clock to the device clock of device.h, from the shortest of some readings. */
static int64_t clock_difference(void) {
    int64_t best_ns = INT64_MAX, difference = 0;
    for (int i = 0; i < CLOCK_READINGS; i++) {
        uint64_t theirs = 0;
        const int64_t before = aorta_clock_ns();
        if (process.api.get_timestamp(&theirs) != AORTA_ROCPROFILER_SUCCESS) continue;
        const int64_t took_ns = aorta_clock_ns() - before;
        if (took_ns >= best_ns) continue;
        best_ns = took_ns;
        difference = before + took_ns / 2 - (int64_t)theirs;
    }
    return difference;
}

static aorta_status hand_over(struct aorta_tracer *tracer, bool *any) {
    const int64_t difference = clock_difference();
    aorta_status status = NULL;
    pthread_mutex_lock(&process.lock);
    *any = process.count > 0;
    for (size_t i = 0; !status && i < process.count; i++) {
        struct aorta_activity_record *record = &process.records[i];
        if (record->start_ns <= 0 || record->end_ns < record->start_ns) {
            process.dropped++;
            continue;
        }
        record->start_ns += difference;
        record->end_ns += difference;
        status = aorta_tracer_receive(tracer, record);
    }
    process.count = 0;
    pthread_mutex_unlock(&process.lock);
    return status;
}

static aorta_status flush_and_hand_over(struct aorta_tracer *tracer, bool *any) {
    AORTA_TRY(check("rocprofiler_flush_buffer", process.api.flush_buffer(process.buffer)));
    return hand_over(tracer, any);
}

/* The library learns of the end of work on a thread of its own, some time after the device is idle. */
static aorta_status rocprofiler_fetch(void *state, bool all, struct aorta_tracer *tracer) {
    (void)state;
    bool any;
    AORTA_TRY(hand_over(tracer, &any));
    if (!all) return any ? NULL : flush_and_hand_over(tracer, &any);
    do {
        const struct timespec pause = {.tv_nsec = SETTLE_NS};
        nanosleep(&pause, NULL);
        AORTA_TRY(flush_and_hand_over(tracer, &any));
    } while (any);
    return NULL;
}

static int64_t rocprofiler_dropped(void *state) {
    (void)state;
    pthread_mutex_lock(&process.lock);
    const int64_t dropped = process.dropped;
    pthread_mutex_unlock(&process.lock);
    return dropped;
}

static uint32_t rocprofiler_launches(void *state) {
    (void)state;
    return atomic_load(&process.launches);
}

static aorta_status rocprofiler_start(void *state) {
    (void)state;
    return check("rocprofiler_start_context", process.api.start_context(process.context));
}

static aorta_status rocprofiler_stop(void *state) {
    (void)state;
    return check("rocprofiler_stop_context", process.api.stop_context(process.context));
}

static void forget_records(void) {
    pthread_mutex_lock(&process.lock);
    free(process.records);
    process.records = NULL;
    process.count = process.capacity = 0;
    process.dropped = 0;
    pthread_mutex_unlock(&process.lock);
}

static aorta_status rocprofiler_open(const struct aorta_tracer_call *call, void **state,
                                     struct aorta_tracer_facts *facts) {
    (void)call;
    rocprofiler_prepare();
    if (failure) return aorta_status_copy(failure);
    if (process.open) return AORTA_ERROR(AORTA_USAGE, "this process has a kernel tracer already; close it first");
    process.open = true;
    facts->library = process.version;
    facts->path = process.library.path;
    *state = &process;
    return NULL;
}

static void rocprofiler_close(void *state) {
    (void)state;
    process.api.flush_buffer(process.buffer); /* later records would count as the next tracer's */
    forget_records();
    process.open = false;
}

const struct aorta_tracer_backend aorta_tracer_rocprofiler = {
    .disorder_ns = DISORDER_NS,
    .prepare = rocprofiler_prepare,
    .open = rocprofiler_open,
    .close = rocprofiler_close,
    .start = rocprofiler_start,
    .stop = rocprofiler_stop,
    .fetch = rocprofiler_fetch,
    .dropped = rocprofiler_dropped,
    .launches = rocprofiler_launches,
};
