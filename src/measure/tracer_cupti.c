/* Kernel records of NVIDIA GPUs through CUPTI's activity interface. */
#include "base/array.h"
#include "base/clock.h"
#include "base/sort.h"
#include "device/gpu.h"
#include "measure/cupti_abi.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Small buffers, as CUPTI returns a buffer when all its records are complete, and metrics lines wait for it. */
enum { BUFFER_BYTES = 64 << 10, BUFFER_LIMIT = 512 };

/* A node of a graph: captured and labelled, or cloned from another node. */
struct node {
    uint64_t id;
    uint64_t original; /* 0: it was captured */
    uint64_t label;    /* of a captured one */
};

struct cupti {
    struct aorta_cupti_api api;
    struct aorta_library library;
    void *subscriber;
    struct aorta_tracer_call call;
    _Atomic pthread_t recorder;   /* the thread whose launches are numbered and whose nodes are labelled */
    _Atomic uint32_t last_number; /* of the thread's last call that was made to get a number */
    pthread_mutex_t node_lock;    /* of the following */
    uint64_t label;               /* of nodes from now on */
    struct node *nodes;           /* owned */
    size_t node_count, node_capacity;
    bool nodes_sorted;
    struct aorta_cupti_buffers buffers;
    _Atomic int64_t dropped;
    struct aorta_cupti_version version;
};

/* Global, as CUPTI's callbacks have no user argument and CUPTI serves one client per process. The lock keeps late
 * callbacks from using a tracer that is being closed. */
static pthread_mutex_t active_lock = PTHREAD_MUTEX_INITIALIZER;
static struct cupti *active;

/* ---- the library ---- */

static const struct aorta_symbol symbols[] = {
#define ROW(member, symbol, tracer, ...) {#symbol, offsetof(struct aorta_cupti_api, member), tracer},
#include "measure/cupti.def"
#undef ROW
};

static const char *const names[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so", NULL};

const struct aorta_library_description aorta_cupti_library = {
    .purpose = "kernel tracing (CUPTI)",
    .names = names,
    .symbols = symbols,
    .symbol_count = sizeof symbols / sizeof symbols[0],
    .install = "it is part of the CUDA toolkit (package cuda-cupti-13-0 or cuda-cupti-12-x); set LD_LIBRARY_PATH to "
               "its folder, e.g. /usr/local/cuda/extras/CUPTI/lib64",
};

static aorta_status refused(const struct cupti *cupti, const char *call, uint32_t result) {
    const char *reason = aorta_cupti_reason(&cupti->api, result), *advice = aorta_cupti_advice(result);
    if (advice)
        return AORTA_ERROR(AORTA_UNSUPPORTED, "kernel tracing: %s (%s) refused: %s (%u): %s", call, cupti->library.path,
                           reason, result, advice);
    return AORTA_ERROR(AORTA_DEVICE, "kernel tracing: %s (%s) failed: %s (%u)", call, cupti->library.path, reason,
                       result);
}

static aorta_status check(const struct cupti *cupti, const char *call, uint32_t result) {
    return result == AORTA_CUPTI_SUCCESS ? NULL : refused(cupti, call, result);
}

/* ---- callbacks, on any thread ---- */

static void request_buffer(uint8_t **bytes, size_t *size, size_t *record_limit) {
    *record_limit = 0;
    pthread_mutex_lock(&active_lock);
    *bytes = active ? aorta_cupti_buffers_lend(&active->buffers, &active->api, &active->dropped) : NULL;
    *size = *bytes ? active->buffers.bytes : 0;
    pthread_mutex_unlock(&active_lock);
}

static void complete_buffer(void *context, uint32_t stream, uint8_t *bytes, size_t size, size_t valid) {
    (void)context, (void)stream, (void)size;
    pthread_mutex_lock(&active_lock);
    if (active && bytes) aorta_cupti_buffers_return(&active->buffers, bytes, valid);
    pthread_mutex_unlock(&active_lock);
}

/* Makes CUPTI convert GPU times to CLOCK_MONOTONIC, the device clock of device.h. */
static uint64_t device_clock(void) {
    return (uint64_t)aorta_clock_ns();
}

/* ---- what work belongs to: callbacks on the thread that launches or captures ---- */

/* If memory is exhausted the node gets no label. */
static void note_node(struct cupti *cupti, uint32_t id, const struct aorta_cupti_graph *graph) {
    const bool cloned = id == AORTA_CUPTI_GRAPHNODE_CLONED;
    struct node node = {0};
    if (cupti->api.graph_node_id(graph->node, &node.id)) return;
    if (cloned && cupti->api.graph_node_id(graph->original_node, &node.original)) return;
    pthread_mutex_lock(&cupti->node_lock);
    if (!cloned) node.label = cupti->label;
    if ((node.original || node.label) &&
        aorta_array_append(&cupti->nodes, &cupti->node_capacity, &cupti->node_count, &node, sizeof node))
        cupti->nodes_sorted = false;
    pthread_mutex_unlock(&cupti->node_lock);
}

static void on_event(void *user, uint32_t domain, uint32_t id, const void *data) {
    struct cupti *cupti = user;
    if (!pthread_equal(pthread_self(), atomic_load(&cupti->recorder))) return;
    if (domain == AORTA_CUPTI_DOMAIN_DRIVER) {
        const struct aorta_cupti_callback *call = data;
        if (call->site == AORTA_CUPTI_SITE_ENTER) atomic_store(&cupti->last_number, call->correlation);
    } else if (domain == AORTA_CUPTI_DOMAIN_RESOURCE) {
        const struct aorta_cupti_resource *resource = data;
        note_node(cupti, id, resource->descriptor);
    }
}

static uint32_t cupti_launches(void *state) {
    struct cupti *cupti = state;
    atomic_store(&cupti->recorder, pthread_self());
    cupti->call.call(cupti->call.user);
    return atomic_load(&cupti->last_number);
}

static void cupti_label(void *state, uint64_t label) {
    struct cupti *cupti = state;
    atomic_store(&cupti->recorder, pthread_self());
    pthread_mutex_lock(&cupti->node_lock);
    cupti->label = label;
    pthread_mutex_unlock(&cupti->node_lock);
}

static const struct node *find_node(const struct cupti *cupti, uint64_t id) {
    const struct node key = {.id = id};
    return cupti->node_count ? bsearch(&key, cupti->nodes, cupti->node_count, sizeof key, aorta_by_uint64) : NULL;
}

static uint64_t cupti_label_of(void *state, uint64_t id) {
    struct cupti *cupti = state;
    pthread_mutex_lock(&cupti->node_lock);
    if (!cupti->nodes_sorted && cupti->node_count)
        qsort(cupti->nodes, cupti->node_count, sizeof *cupti->nodes, aorta_by_uint64);
    cupti->nodes_sorted = true;
    const struct node *node = find_node(cupti, id);
    while (node && node->original) node = find_node(cupti, node->original);
    uint64_t label = node ? node->label : 0;
    pthread_mutex_unlock(&cupti->node_lock);
    return label;
}

/* ---- records ---- */

static aorta_status read_buffer(struct cupti *cupti, struct aorta_cupti_buffer *buffer, struct aorta_tracer *tracer) {
    struct aorta_cupti_activity *activity = NULL;
    uint32_t result;
    while ((result = cupti->api.next_record(buffer->bytes, buffer->valid, &activity)) == AORTA_CUPTI_SUCCESS) {
        struct aorta_activity_record record;
        if (!aorta_cupti_decode(activity, &record)) continue;
        if (!aorta_cupti_is_finished(&record)) {
            atomic_fetch_add(&cupti->dropped, 1);
            continue;
        }
        AORTA_TRY(aorta_tracer_receive(tracer, &record));
    }
    return result == AORTA_CUPTI_MAX_LIMIT_REACHED ? NULL : refused(cupti, "cuptiActivityGetNextRecord", result);
}

static aorta_status read_buffers(struct cupti *cupti, struct aorta_tracer *tracer, bool *any) {
    aorta_status status = NULL;
    for (struct aorta_cupti_buffer *buffer; !status && (buffer = aorta_cupti_buffers_take(&cupti->buffers));) {
        status = read_buffer(cupti, buffer, tracer);
        aorta_cupti_buffers_recycle(&cupti->buffers, buffer);
        *any = true;
    }
    return status;
}

/* Launches may wait while CUPTI flushes, and full buffers arrive anyway; so CUPTI is flushed only when none has
 * arrived. */
static aorta_status cupti_fetch(void *state, bool all, struct aorta_tracer *tracer) {
    struct cupti *cupti = state;
    bool any = false;
    aorta_status status = read_buffers(cupti, tracer, &any);
    if (!status && (all || !any)) {
        status = check(cupti, "cuptiActivityFlushAll", cupti->api.flush(all ? AORTA_CUPTI_FLUSH_FORCED : 0));
        if (!status) status = read_buffers(cupti, tracer, &any);
    }
    size_t dropped = 0; /* since it was last asked */
    if (cupti->api.dropped(NULL, 0, &dropped) == AORTA_CUPTI_SUCCESS)
        atomic_fetch_add(&cupti->dropped, (int64_t)dropped);
    return status;
}

static int64_t cupti_dropped(void *state) {
    struct cupti *cupti = state;
    return atomic_load(&cupti->dropped);
}

/* ---- on and off ---- */

static aorta_status cupti_stop(void *state) {
    struct cupti *cupti = state;
    aorta_status status = NULL;
    for (int i = AORTA_CUPTI_KIND_COUNT; i-- > 0;)
        status =
            aorta_status_join(status, check(cupti, "cuptiActivityDisable", cupti->api.disable(aorta_cupti_kinds[i])));
    return status;
}

static aorta_status cupti_start(void *state) {
    struct cupti *cupti = state;
    for (int i = 0; i < AORTA_CUPTI_KIND_COUNT; i++) {
        aorta_status status = check(cupti, "cuptiActivityEnable", cupti->api.enable(aorta_cupti_kinds[i]));
        if (!status) continue;
        while (i-- > 0) cupti->api.disable(aorta_cupti_kinds[i]);
        return status;
    }
    return NULL;
}

static aorta_status check_version(struct cupti *cupti) {
    uint32_t version = 0;
    AORTA_TRY(check(cupti, "cuptiGetVersion", cupti->api.get_version(&version)));
    if (version < AORTA_CUPTI_OLDEST)
        return AORTA_ERROR(AORTA_UNSUPPORTED,
                           "kernel tracing: %s is too old (interface %u); CUPTI of CUDA 12.0 or later is needed (%s)",
                           cupti->library.path, version, aorta_cupti_library.install);
    cupti->version = aorta_cupti_version(version);
    return NULL;
}

static aorta_status claim(struct cupti *cupti) {
    pthread_mutex_lock(&active_lock);
    bool taken = active != NULL;
    if (!taken) active = cupti;
    pthread_mutex_unlock(&active_lock);
    if (taken) return AORTA_ERROR(AORTA_USAGE, "this process has a kernel tracer already; close it first");
    return NULL;
}

static void free_state(struct cupti *cupti) {
    aorta_cupti_buffers_free(&cupti->buffers);
    pthread_mutex_destroy(&cupti->node_lock);
    free(cupti->nodes);
    free(cupti);
}

static void cupti_close(void *state) {
    struct cupti *cupti = state;
    cupti->api.flush(AORTA_CUPTI_FLUSH_FORCED); /* so that CUPTI returns its buffers */
    pthread_mutex_lock(&active_lock);
    active = NULL;
    pthread_mutex_unlock(&active_lock);
    if (cupti->subscriber) cupti->api.unsubscribe(cupti->subscriber);
    free_state(cupti);
}

static aorta_status enable_callback(struct cupti *cupti, uint32_t domain, uint32_t id) {
    return check(cupti, "cuptiEnableCallback", cupti->api.enable_callback(1, cupti->subscriber, domain, id));
}

/* Checks that launches are numbered: each call has a larger number than the call before. */
static aorta_status check_numbers(struct cupti *cupti) {
    const uint32_t first = cupti_launches(cupti), second = cupti_launches(cupti);
    if (first && aorta_launched_after(second, first)) return NULL;
    return AORTA_ERROR(AORTA_UNSUPPORTED, "kernel tracing: %s numbers no launches (%u, then %u)", cupti->library.path,
                       first, second);
}

static aorta_status prepare(struct cupti *cupti) {
    AORTA_TRY(check(cupti, "cuptiSubscribe", cupti->api.subscribe(&cupti->subscriber, on_event, cupti)));
    AORTA_TRY(enable_callback(cupti, AORTA_CUPTI_DOMAIN_DRIVER, AORTA_CUPTI_DEVICE_GET_ATTRIBUTE));
    AORTA_TRY(enable_callback(cupti, AORTA_CUPTI_DOMAIN_RESOURCE, AORTA_CUPTI_GRAPHNODE_CREATED));
    AORTA_TRY(enable_callback(cupti, AORTA_CUPTI_DOMAIN_RESOURCE, AORTA_CUPTI_GRAPHNODE_CLONED));
    AORTA_TRY(check_numbers(cupti));
    AORTA_TRY(check(cupti, "cuptiActivityRegisterTimestampCallback", cupti->api.register_clock(device_clock)));
    return check(cupti, "cuptiActivityRegisterCallbacks",
                 cupti->api.register_callbacks(request_buffer, complete_buffer));
}

static aorta_status cupti_open(const struct aorta_tracer_call *call, void **state, struct aorta_tracer_facts *facts) {
    struct cupti *cupti = calloc(1, sizeof *cupti);
    if (!cupti) return AORTA_ERROR(AORTA_MEMORY, "no memory for the kernel tracer");
    aorta_status status = aorta_library_open(&aorta_cupti_library, &cupti->api, &cupti->library);
    if (!status) status = check_version(cupti);
    cupti->call = *call;
    pthread_mutex_init(&cupti->node_lock, NULL);
    aorta_cupti_buffers_init(&cupti->buffers, BUFFER_BYTES, BUFFER_LIMIT);
    if (!status) status = claim(cupti);
    if (status) {
        free_state(cupti);
        return status;
    }
    status = prepare(cupti);
    if (status) {
        cupti_close(cupti);
        return status;
    }
    facts->library = cupti->version.text;
    facts->path = cupti->library.path;
    *state = cupti;
    return NULL;
}

const struct aorta_tracer_backend aorta_tracer_cupti = {
    .open = cupti_open,
    .close = cupti_close,
    .start = cupti_start,
    .stop = cupti_stop,
    .fetch = cupti_fetch,
    .dropped = cupti_dropped,
    .launches = cupti_launches,
    .label = cupti_label,
    .label_of = cupti_label_of,
};
