/* Records are laid out byte by byte at the offsets of NVIDIA's structs of CUDA 13.0 (CUpti_ActivityKernel10, Memcpy6,
 * MemcpyPtoP4, Memset4), not with the program's own declarations, which are under test. */
#include "fake_cupti/fake_cupti.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_PARAMETER = 1, MAX_LIMIT_REACHED = 12, INVALID_KIND = 21, MULTIPLE_SUBSCRIBERS = 39 };
enum {
    MEMCPY = 1,
    MEMSET = 2,
    DRIVER = 4,
    RUNTIME = 5,
    CONCURRENT_KERNEL = 10,
    MARKER = 12,
    MEMCPY_PEER = 22,
    KIND_COUNT = 64,
    CALL_COUNT = 1024
};

typedef void request_function(uint8_t **buffer, size_t *size, size_t *limit);
typedef void complete_function(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid);

static struct {
    pthread_mutex_t lock;
    request_function *request;
    complete_function *complete;
    uint64_t (*clock)(void);
    uint8_t enabled[KIND_COUNT];
    uint8_t calls[2][CALL_COUNT]; /* [RUNTIME?][number]: enabled one by one */
    uint8_t context;              /* something ran: the program has a context */
    uint8_t armed[2];             /* [RUNTIME?]: see switch_call */
    int subscribers, lent, flushes, attribute, uses, finalized;
    void (*event)(void *, uint32_t, uint32_t, const void *); /* of the subscriber */
    void *event_user;
    uint8_t domains[8];
    uint32_t callbacks[8]; /* bits: enabled one by one, of the domain */
    uint32_t number;       /* of the last call of CUDA's */
    uint8_t *buffer;       /* being filled */
    size_t size, used;
    int unfinished; /* records in it */
    size_t dropped;
    char refused[64];
    uint32_t refusal, version;
} cupti = {.lock = PTHREAD_MUTEX_INITIALIZER, .version = 130001};

/* ---- the interface; each function as NVIDIA's headers declare it ---- */

#define EXPORT __attribute__((visibility("default")))

EXPORT uint32_t cuptiGetVersion(uint32_t *version);
EXPORT uint32_t cuptiGetResultString(uint32_t result, const char **string);
EXPORT uint32_t cuptiSubscribe(void **subscriber, void (*callback)(void *, uint32_t, uint32_t, const void *),
                               void *user);
EXPORT uint32_t cuptiUnsubscribe(void *subscriber);
EXPORT uint32_t cuptiEnableDomain(uint32_t on, void *subscriber, uint32_t domain);
EXPORT uint32_t cuptiEnableCallback(uint32_t on, void *subscriber, uint32_t domain, uint32_t id);
EXPORT uint32_t cuptiGetGraphNodeId(void *node, uint64_t *id);
EXPORT uint32_t cuptiFinalize(void);
EXPORT uint32_t cuptiActivityRegisterCallbacks(request_function *request, complete_function *complete);
EXPORT uint32_t cuptiActivityRegisterTimestampCallback(uint64_t (*clock)(void));
EXPORT uint32_t cuptiActivityEnable(uint32_t kind);
EXPORT uint32_t cuptiActivityDisable(uint32_t kind);
EXPORT uint32_t cuptiActivityFlushAll(uint32_t flag);
EXPORT uint32_t cuptiActivitySetAttribute(uint32_t attribute, size_t *bytes, void *value);
EXPORT uint32_t cuptiActivityEnableRuntimeApi(uint32_t call, uint8_t on);
EXPORT uint32_t cuptiActivityEnableDriverApi(uint32_t call, uint8_t on);
EXPORT uint32_t cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, uint8_t **record);
EXPORT uint32_t cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *dropped);

static uint32_t refusal_of(const char *function) {
    return strcmp(cupti.refused, function) == 0 ? cupti.refusal : SUCCESS;
}

uint32_t cuptiGetVersion(uint32_t *version) {
    *version = cupti.version;
    return refusal_of(__func__);
}

uint32_t cuptiGetResultString(uint32_t result, const char **string) {
    *string = result == 35 ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES" : "CUPTI_ERROR_OF_SOME_SORT";
    return SUCCESS;
}

uint32_t cuptiSubscribe(void **subscriber, void (*callback)(void *, uint32_t, uint32_t, const void *), void *user) {
    if (refusal_of(__func__)) return refusal_of(__func__);
    if (!callback) return INVALID_PARAMETER;
    pthread_mutex_lock(&cupti.lock);
    bool taken = cupti.subscribers > 0;
    cupti.subscribers += !taken;
    cupti.uses |= FAKE_CUPTI_SUBSCRIBED;
    if (!taken) {
        cupti.event = callback;
        cupti.event_user = user;
    }
    pthread_mutex_unlock(&cupti.lock);
    if (taken) return MULTIPLE_SUBSCRIBERS;
    *subscriber = &cupti;
    return SUCCESS;
}

uint32_t cuptiUnsubscribe(void *subscriber) {
    pthread_mutex_lock(&cupti.lock);
    bool there = subscriber == &cupti && cupti.subscribers > 0;
    cupti.subscribers -= there;
    memset(cupti.domains, 0, sizeof cupti.domains);
    memset(cupti.callbacks, 0, sizeof cupti.callbacks);
    pthread_mutex_unlock(&cupti.lock);
    return there ? SUCCESS : INVALID_PARAMETER;
}

uint32_t cuptiEnableDomain(uint32_t on, void *subscriber, uint32_t domain) {
    if (refusal_of(__func__)) return refusal_of(__func__);
    if (subscriber != &cupti || !cupti.subscribers || domain >= sizeof cupti.domains) return INVALID_PARAMETER;
    pthread_mutex_lock(&cupti.lock);
    cupti.domains[domain] = on != 0;
    pthread_mutex_unlock(&cupti.lock);
    return SUCCESS;
}

uint32_t cuptiEnableCallback(uint32_t on, void *subscriber, uint32_t domain, uint32_t id) {
    if (refusal_of(__func__)) return refusal_of(__func__);
    if (subscriber != &cupti || !cupti.subscribers || domain >= sizeof cupti.domains || id >= 32)
        return INVALID_PARAMETER;
    pthread_mutex_lock(&cupti.lock);
    cupti.callbacks[domain] &= ~(1u << id);
    cupti.callbacks[domain] |= (uint32_t)(on != 0) << id;
    pthread_mutex_unlock(&cupti.lock);
    return SUCCESS;
}

/* A node is its number here. */
uint32_t cuptiGetGraphNodeId(void *node, uint64_t *id) {
    *id = (uintptr_t)node;
    return node ? refusal_of(__func__) : INVALID_PARAMETER;
}

/* Another's subscription would end with it, so the call is refused. */
uint32_t cuptiFinalize(void) {
    if (cupti.subscribers) return MULTIPLE_SUBSCRIBERS;
    if (refusal_of(__func__)) return refusal_of(__func__);
    pthread_mutex_lock(&cupti.lock);
    memset(cupti.enabled, 0, sizeof cupti.enabled);
    memset(cupti.calls, 0, sizeof cupti.calls);
    memset(cupti.armed, 0, sizeof cupti.armed);
    cupti.request = NULL;
    cupti.complete = NULL;
    cupti.uses = 0;
    cupti.finalized++;
    pthread_mutex_unlock(&cupti.lock);
    return SUCCESS;
}

uint32_t cuptiActivityRegisterCallbacks(request_function *request, complete_function *complete) {
    if (refusal_of(__func__)) return refusal_of(__func__);
    pthread_mutex_lock(&cupti.lock);
    cupti.request = request;
    cupti.complete = complete;
    cupti.uses |= FAKE_CUPTI_REGISTERED;
    pthread_mutex_unlock(&cupti.lock);
    return SUCCESS;
}

uint32_t cuptiActivityRegisterTimestampCallback(uint64_t (*clock)(void)) {
    if (refusal_of(__func__)) return refusal_of(__func__);
    cupti.clock = clock;
    return SUCCESS;
}

/* For tests of whole programs: what was switched when, a line each, in the file that FAKE_CUPTI_LOG names. */
static void log_switch(uint32_t kind, uint8_t on) {
    const char *path = getenv("FAKE_CUPTI_LOG");
    FILE *file = path && kind == CONCURRENT_KERNEL ? fopen(path, "ae") : NULL;
    if (!file) return;
    fputs(on ? "on\n" : "off\n", file);
    fclose(file);
}

static uint32_t switch_kind(uint32_t kind, uint8_t on) {
    static const uint32_t known[] = {MEMCPY, MEMSET, DRIVER, RUNTIME, CONCURRENT_KERNEL, MARKER, MEMCPY_PEER};
    size_t i = 0, count = sizeof known / sizeof *known;
    while (i < count && known[i] != kind) i++;
    if (i == count) return INVALID_KIND;
    log_switch(kind, on);
    pthread_mutex_lock(&cupti.lock);
    cupti.enabled[kind] = on;
    if (on) cupti.uses |= FAKE_CUPTI_ENABLED;
    if (kind == DRIVER || kind == RUNTIME) {
        memset(cupti.calls[kind == RUNTIME], on, CALL_COUNT);
        cupti.armed[kind == RUNTIME] = on;
    }
    pthread_mutex_unlock(&cupti.lock);
    return SUCCESS;
}

uint32_t cuptiActivityEnable(uint32_t kind) {
    /* The last kind is refused, so that those enabled before it must be taken back. */
    if (kind == MEMSET && refusal_of(__func__)) return refusal_of(__func__);
    if (kind == CONCURRENT_KERNEL && refusal_of("kernels")) return refusal_of("kernels");
    return switch_kind(kind, 1);
}

/* As on an RTX 3060 with CUDA 13.0: calls that are switched on once a context is there are not recorded unless one of
 * their interface was on before, or all of it is. */
static uint32_t switch_call(uint32_t kind, uint32_t call, uint8_t on) {
    if (call >= CALL_COUNT) return INVALID_PARAMETER;
    pthread_mutex_lock(&cupti.lock);
    cupti.calls[kind == RUNTIME][call] = on;
    if (on && !cupti.context) cupti.armed[kind == RUNTIME] = 1;
    pthread_mutex_unlock(&cupti.lock);
    return SUCCESS;
}

uint32_t cuptiActivityEnableRuntimeApi(uint32_t call, uint8_t on) {
    return refusal_of("calls") ? refusal_of("calls") : switch_call(RUNTIME, call, on);
}

uint32_t cuptiActivityEnableDriverApi(uint32_t call, uint8_t on) {
    return refusal_of("calls") ? refusal_of("calls") : switch_call(DRIVER, call, on);
}

uint32_t cuptiActivityDisable(uint32_t kind) {
    return refusal_of(__func__) ? refusal_of(__func__) : switch_kind(kind, 0);
}

/* Called with the lock. */
static void give_back(void) {
    if (!cupti.buffer) return;
    cupti.complete(NULL, 0, cupti.buffer, cupti.size, cupti.used);
    cupti.buffer = NULL;
    cupti.lent--;
}

uint32_t cuptiActivityFlushAll(uint32_t flag) {
    if (refusal_of(__func__)) return refusal_of(__func__);
    pthread_mutex_lock(&cupti.lock);
    cupti.flushes++;
    cupti.uses |= FAKE_CUPTI_FLUSHED;
    if (flag || !cupti.unfinished) give_back();
    pthread_mutex_unlock(&cupti.lock);
    return SUCCESS;
}

/* All those that a client of ours sets are switches of one byte. */
uint32_t cuptiActivitySetAttribute(uint32_t attribute, size_t *bytes, void *value) {
    if (refusal_of(__func__)) return refusal_of(__func__);
    if (*bytes != 1 || *(uint8_t *)value != 1 || cupti.request) return INVALID_PARAMETER;
    cupti.attribute = (int)attribute + 1;
    return SUCCESS;
}

static size_t size_of(uint32_t kind) {
    switch (kind) {
    case CONCURRENT_KERNEL:
        return 216;
    case MEMSET:
        return 88;
    case RUNTIME:
    case DRIVER:
        return 40;
    case MARKER:
        return 56;
    default:
        return 96;
    }
}

uint32_t cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, uint8_t **record) {
    if (refusal_of(__func__)) return refusal_of(__func__);
    uint8_t *next = buffer;
    if (*record) {
        uint32_t kind;
        memcpy(&kind, *record, sizeof kind);
        next = *record + size_of(kind);
    }
    if (next >= buffer + valid) return MAX_LIMIT_REACHED;
    *record = next;
    return SUCCESS;
}

uint32_t cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *dropped) {
    if (context || stream) return INVALID_PARAMETER;
    pthread_mutex_lock(&cupti.lock);
    *dropped = cupti.dropped;
    cupti.dropped = 0;
    pthread_mutex_unlock(&cupti.lock);
    return SUCCESS;
}

/* ---- what the test calls ---- */

static void put(uint8_t *record, size_t offset, const void *value, size_t size) {
    memcpy(record + offset, value, size);
}

static void put_kernel(uint8_t *record, const struct fake_activity *a) {
    put(record, 6, &a->registers, 2);
    put(record, 16, &a->start, 8);
    put(record, 24, &a->end, 8);
    put(record, 40, &a->device, 4);
    put(record, 44, &a->context, 4);
    put(record, 48, &a->stream, 4);
    put(record, 52, a->grid, 12);
    put(record, 64, a->block, 12);
    put(record, 80, &a->shared, 4);
    put(record, 92, &a->correlation, 4);
    put(record, 104, &a->name, 8);
    put(record, 144, &a->graph_node, 8);
    put(record, 156, &a->graph, 4);
    put(record, 168, &a->channel, 4);
    put(record, 172, &a->channel_type, 4);
}

static void put_call(uint8_t *record, const struct fake_activity *a) {
    put(record, 4, &a->call, 4);
    put(record, 8, &a->start, 8);
    put(record, 16, &a->end, 8);
    put(record, 28, &a->thread, 4);
    put(record, 32, &a->correlation, 4);
}

static void put_marker(uint8_t *record, const struct fake_activity *a) {
    uint32_t of_thread = 2; /* CUPTI_ACTIVITY_OBJECT_THREAD */
    put(record, 4, &a->flags, 4);
    put(record, 8, &a->start, 8);
    put(record, 16, &a->marker, 4);
    put(record, 20, &of_thread, 4);
    put(record, 28, &a->thread, 4);
    put(record, 40, &a->name, 8);
}

/* Copies and fills: they differ in the place of the correlation and of what follows it. */
static void put_transfer(uint8_t *record, const struct fake_activity *a) {
    size_t shift = a->kind == MEMCPY_PEER ? 16 : 0;
    if (a->kind != MEMSET) put(record, 4, &a->copy_kind, 1);
    put(record, 8, &a->bytes, 8);
    put(record, 16, &a->start, 8);
    put(record, 24, &a->end, 8);
    put(record, 32, &a->device, 4);
    put(record, 36, &a->context, 4);
    put(record, 40, &a->stream, 4);
    put(record, 44 + shift, &a->correlation, 4);
    put(record, shift ? 72 : 64, &a->graph_node, 8);
    put(record, shift ? 80 : 72, &a->graph, 4);
    put(record, shift ? 84 : 76, &a->channel, 4);
    put(record, shift ? 88 : 80, &a->channel_type, 4);
}

/* Space for one record in the buffer; NULL when the client has no buffer to give. */
static uint8_t *space_for(size_t size) {
    size_t limit = 0;
    if (cupti.buffer && cupti.size - cupti.used < size) give_back();
    if (!cupti.buffer) {
        cupti.used = 0;
        cupti.request(&cupti.buffer, &cupti.size, &limit);
        if (!cupti.buffer) return NULL;
        cupti.lent++;
    }
    uint8_t *record = cupti.buffer + cupti.used;
    cupti.used += size;
    return record;
}

static int wanted(const struct fake_activity *activity) {
    if (!cupti.request) return 0;
    if (activity->kind == RUNTIME || activity->kind == DRIVER)
        return cupti.armed[activity->kind == RUNTIME] &&
               cupti.calls[activity->kind == RUNTIME][activity->call % CALL_COUNT];
    return cupti.enabled[activity->kind];
}

static void put_activity(uint8_t *record, const struct fake_activity *activity) {
    int32_t none = 0;
    put(record, 0, &activity->kind, 4);
    switch (activity->kind) {
    case CONCURRENT_KERNEL:
        put(record, 76, &none, 4); /* static shared memory */
        put_kernel(record, activity);
        break;
    case RUNTIME:
    case DRIVER:
        put_call(record, activity);
        break;
    case MARKER:
        put_marker(record, activity);
        break;
    default:
        put_transfer(record, activity);
    }
}

/* As the library does, on the thread that calls: at the beginning of a call of CUDA's, and at its end. */
static void report_call(const struct fake_activity *activity) {
    bool runtime = activity->kind == RUNTIME;
    if (!runtime && activity->kind != DRIVER) return;
    for (uint32_t site = 0; site < 2; site++) {
        pthread_mutex_lock(&cupti.lock);
        uint32_t domain = runtime ? 2 : 1;
        void (*event)(void *, uint32_t, uint32_t, const void *) = cupti.domains[domain] ? cupti.event : NULL;
        void *user = cupti.event_user;
        pthread_mutex_unlock(&cupti.lock);
        if (event) event(user, domain, activity->call, &site);
    }
}

/* CUpti_CallbackData, CUpti_ResourceData and CUpti_GraphData of CUDA 13.0. */
struct call_data {
    uint32_t site;
    void *pointers[5];
    uint32_t context;
    uint64_t *data;
    uint32_t correlation;
};
struct graph_data {
    void *graph, *original_graph, *node, *original;
};

static void call_back(uint32_t domain, uint32_t id, const void *data) {
    pthread_mutex_lock(&cupti.lock);
    const bool on = cupti.subscribers && cupti.callbacks[domain] >> id & 1;
    void (*event)(void *, uint32_t, uint32_t, const void *) = on ? cupti.event : NULL;
    void *user = cupti.event_user;
    pthread_mutex_unlock(&cupti.lock);
    if (event) event(user, domain, id, data);
}

static uint32_t call(uint32_t id) {
    pthread_mutex_lock(&cupti.lock);
    const uint32_t number = ++cupti.number;
    pthread_mutex_unlock(&cupti.lock);
    for (uint32_t site = 0; site < 2; site++)
        call_back(1, id, &(struct call_data){.site = site, .correlation = number});
    return number;
}

static void node(uint64_t id, uint64_t original) {
    struct graph_data data = {.node = (void *)(uintptr_t)id, .original = (void *)(uintptr_t)original};
    void *const resource[] = {NULL, NULL, &data};
    call_back(3, original ? 20 : 13, resource);
}

static void set_number(uint32_t number) {
    pthread_mutex_lock(&cupti.lock);
    cupti.number = number;
    pthread_mutex_unlock(&cupti.lock);
}

static void record_activity(const struct fake_activity *activity) {
    pthread_mutex_lock(&cupti.lock);
    cupti.context = 1;
    if (wanted(activity)) {
        size_t size = size_of(activity->kind);
        uint8_t *record = space_for(size);
        cupti.dropped += !record;
        if (record) {
            memset(record, 0xee, size); /* what nobody fills is not zero */
            put_activity(record, activity);
            cupti.unfinished += activity->unfinished;
        }
    }
    pthread_mutex_unlock(&cupti.lock);
    report_call(activity);
}

static void finish(void) {
    pthread_mutex_lock(&cupti.lock);
    cupti.unfinished = 0;
    pthread_mutex_unlock(&cupti.lock);
}

static void refuse(const char *function, uint32_t result) {
    cupti.refused[0] = '\0';
    if (function) strncpy(cupti.refused, function, sizeof cupti.refused - 1);
    cupti.refusal = result;
}

static void set_version(uint32_t version) {
    cupti.version = version;
}

static uint64_t now(void) {
    return cupti.clock ? cupti.clock() : 0;
}

static int enabled(void) {
    int count = 0;
    pthread_mutex_lock(&cupti.lock);
    for (int i = 0; i < KIND_COUNT; i++) count += cupti.enabled[i];
    pthread_mutex_unlock(&cupti.lock);
    return count;
}

static int subscribers(void) {
    return cupti.subscribers;
}

static int lent(void) {
    pthread_mutex_lock(&cupti.lock);
    const int buffers = cupti.lent;
    pthread_mutex_unlock(&cupti.lock);
    return buffers;
}

static void lock(void) {
    pthread_mutex_lock(&cupti.lock);
}

static void unlock(void) {
    pthread_mutex_unlock(&cupti.lock);
}

/* A child that was forked while another thread flushed would find the lock taken for ever. */
static __attribute__((constructor)) void keep_whole_over_fork(void) {
    pthread_atfork(lock, unlock, unlock);
}

/* For programs that tests cannot call: FAKE_CUPTI_REFUSE=function:result, or version:N, which is then its own.
 */
static __attribute__((constructor)) void read_environment(void) {
    const char *wish = getenv("FAKE_CUPTI_REFUSE"), *colon = wish ? strchr(wish, ':') : NULL;
    if (!colon) return;
    snprintf(cupti.refused, sizeof cupti.refused, "%.*s", (int)(colon - wish), wish);
    cupti.refusal = (uint32_t)atoi(colon + 1);
    if (strcmp(cupti.refused, "version") == 0) cupti.version = cupti.refusal;
}

static int flushes(void) {
    pthread_mutex_lock(&cupti.lock);
    int count = cupti.flushes;
    pthread_mutex_unlock(&cupti.lock);
    return count;
}

static int attribute(void) {
    return cupti.attribute;
}

static int uses(void) {
    pthread_mutex_lock(&cupti.lock);
    int value = cupti.uses;
    pthread_mutex_unlock(&cupti.lock);
    return value;
}

static int finalized(void) {
    pthread_mutex_lock(&cupti.lock);
    int value = cupti.finalized;
    pthread_mutex_unlock(&cupti.lock);
    return value;
}

static void reset(void) {
    refuse(NULL, 0);
    finish();
    cupti.version = 130001;
    cupti.dropped = 0;
}

EXPORT const struct fake_cupti *fake_cupti(void) {
    static const struct fake_cupti functions = {
        record_activity, finish,    refuse, set_version, now,  enabled, subscribers, lent,
        flushes,         attribute, uses,   finalized,   call, node,    set_number,  reset};
    return &functions;
}
