/* The vendor-independent part of tracing: arrived records and their consumers. */
#include "measure/tracer.h"
#include "base/clock.h"
#include "base/intern.h"
#include "base/sort.h"
#include "device/gpu.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { RECORD_LIMIT = 1 << 18 }; /* not taken yet: about 25 MB */

/* A mangled name and its demangled form, both interned. */
struct readable {
    const char *mangled, *name;
};

struct aorta_tracer {
    pthread_mutex_t lock;
    const struct aorta_tracer_backend *backend;
    void *state;
    struct aorta_tracer_facts facts; /* without the records that the backend drops */
    struct aorta_texts names;
    struct readable *readables; /* of the mangled names */
    size_t readable_count, readable_capacity;
    struct aorta_activity_record *records; /* in order of arrival */
    size_t count, capacity;
    int64_t latest_start_ns;  /* of all records received */
    int64_t complete_ns;      /* everything that ended before it has been fetched */
    int64_t dropped_reported; /* in views handed out */
    bool running;
};

static const struct aorta_tracer_backend *const backends[] = {
    [AORTA_DEVICE_CUDA] = &aorta_tracer_cupti,
    [AORTA_DEVICE_HIP] = &aorta_tracer_rocprofiler,
};

static const struct aorta_tracer_backend *backend_of(enum aorta_device_kind kind) {
    return kind < sizeof backends / sizeof backends[0] ? backends[kind] : NULL;
}

void aorta_tracer_prepare(void) {
    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++)
        if (backends[i] && backends[i]->prepare) backends[i]->prepare();
}

bool aorta_tracer_labels(enum aorta_device_kind kind) {
    const struct aorta_tracer_backend *backend = backend_of(kind);
    return backend && backend->label;
}

bool aorta_tracer_exists(enum aorta_device_kind kind) {
    return backend_of(kind) != NULL;
}

static void call_driver(void *device) {
    aorta_gpu_call_driver(device);
}

aorta_status aorta_tracer_open(struct aorta_device *device, struct aorta_tracer **tracer) {
    *tracer = NULL;
    const struct aorta_tracer_backend *backend = backend_of(aorta_device_get_info(device)->kind);
    if (backend) return aorta_tracer_open_backend(backend, &(struct aorta_tracer_call){call_driver, device}, tracer);
    return AORTA_ERROR(AORTA_CONFIG, "the kernel tracer needs a GPU: on the CPU device the ranges are the operations "
                                     "themselves; run without --kernel-timing");
}

aorta_status aorta_tracer_open_backend(const struct aorta_tracer_backend *backend, const struct aorta_tracer_call *call,
                                       struct aorta_tracer **tracer) {
    *tracer = NULL;
    struct aorta_tracer *made = calloc(1, sizeof *made);
    if (!made) return AORTA_ERROR(AORTA_MEMORY, "no memory for the kernel tracer");
    pthread_mutex_init(&made->lock, NULL);
    made->latest_start_ns = made->complete_ns = INT64_MIN;
    aorta_status status = backend->open(call, &made->state, &made->facts);
    if (!status) {
        made->backend = backend;
        status = aorta_tracer_start(made);
    }
    if (status) {
        aorta_tracer_close(made);
        return status;
    }
    *tracer = made;
    return NULL;
}

void aorta_tracer_close(struct aorta_tracer *tracer) {
    if (!tracer) return;
    if (tracer->backend) {
        aorta_status_free(aorta_tracer_stop(tracer)); /* the failure cannot be reported */
        tracer->backend->close(tracer->state);
    }
    aorta_texts_free(&tracer->names);
    pthread_mutex_destroy(&tracer->lock);
    free(tracer->readables);
    free(tracer->records);
    free(tracer);
}

aorta_status aorta_tracer_start(struct aorta_tracer *tracer) {
    pthread_mutex_lock(&tracer->lock);
    aorta_status status = tracer->running ? NULL : tracer->backend->start(tracer->state);
    if (!status) tracer->running = true;
    pthread_mutex_unlock(&tracer->lock);
    return status;
}

aorta_status aorta_tracer_stop(struct aorta_tracer *tracer) {
    pthread_mutex_lock(&tracer->lock);
    aorta_status status = tracer->running ? tracer->backend->stop(tracer->state) : NULL;
    tracer->running = false;
    pthread_mutex_unlock(&tracer->lock);
    return status;
}

/* ---- records that have arrived ---- */

static aorta_status grow_buffer(struct aorta_tracer *tracer) {
    if (tracer->count == RECORD_LIMIT) { /* records were not taken: drops the older half */
        size_t half = tracer->count / 2;
        memmove(tracer->records, tracer->records + half, (tracer->count - half) * sizeof *tracer->records);
        tracer->count -= half;
        tracer->facts.dropped += (int64_t)half;
        return NULL;
    }
    return aorta_array_reserve(&tracer->records, &tracer->capacity, tracer->count + 1, sizeof *tracer->records,
                               "kernel records");
}

/* Demangles names, as users and other tools' files have them. A linear search is enough, as few names are mangled and
 * new names are rare. */
static const char *intern_name(struct aorta_tracer *tracer, const char *given) {
    const char *mangled = aorta_intern(&tracer->names, given);
    if (!mangled || strncmp(mangled, "_Z", 2) != 0) return mangled;
    for (size_t i = 0; i < tracer->readable_count; i++)
        if (tracer->readables[i].mangled == mangled) return tracer->readables[i].name;
    if (!aorta_array_fit(&tracer->readables, &tracer->readable_capacity, tracer->readable_count + 1,
                         sizeof *tracer->readables))
        return NULL;
    char *demangled = aorta_demangle(mangled);
    const char *name = demangled ? aorta_intern(&tracer->names, demangled) : mangled;
    free(demangled);
    tracer->readables[tracer->readable_count++] = (struct readable){mangled, name};
    return name;
}

aorta_status aorta_tracer_receive(struct aorta_tracer *tracer, const struct aorta_activity_record *record) {
    AORTA_TRY(grow_buffer(tracer));
    const char *name = intern_name(tracer, record->name ? record->name : "unnamed kernel");
    if (!name) return AORTA_ERROR(AORTA_MEMORY, "no memory for the name of a kernel");
    struct aorta_activity_record *added = &tracer->records[tracer->count++];
    *added = *record;
    added->name = name;
    tracer->facts.records++;
    if (record->start_ns > tracer->latest_start_ns) tracer->latest_start_ns = record->start_ns;
    return NULL;
}

static aorta_status fetch(struct aorta_tracer *tracer, bool all) {
    AORTA_TRY(tracer->backend->fetch(tracer->state, all, tracer));
    /* Libraries deliver records roughly in the order of launches. So when a record arrives, all work that ended before
     * its start has arrived. */
    int64_t complete_ns = tracer->latest_start_ns;
    if (complete_ns > INT64_MIN) complete_ns -= tracer->backend->disorder_ns;
    if (all) complete_ns = aorta_clock_ns();
    if (complete_ns > tracer->complete_ns) tracer->complete_ns = complete_ns;
    return NULL;
}

aorta_status aorta_tracer_flush(struct aorta_tracer *tracer, bool all) {
    pthread_mutex_lock(&tracer->lock);
    aorta_status status = fetch(tracer, all);
    pthread_mutex_unlock(&tracer->lock);
    return status;
}

aorta_status aorta_tracer_reached(struct aorta_tracer *tracer, int64_t to_ns, bool *reached) {
    pthread_mutex_lock(&tracer->lock);
    aorta_status status = tracer->complete_ns < to_ns ? fetch(tracer, false) : NULL;
    *reached = tracer->complete_ns >= to_ns;
    pthread_mutex_unlock(&tracer->lock);
    return status;
}

/* ---- handing them out ---- */

/* Which records are asked for: by their middle or by their launches. */
struct window {
    int64_t from_ns, to_ns;
    const struct aorta_launches *launches; /* NULL: by time */
};
enum place { BEFORE, WITHIN, BEHIND };

static enum place place_of(const struct window *window, const struct aorta_activity_record *record) {
    if (window->launches) {
        if (aorta_launched_after(record->correlation, window->launches->until)) return BEHIND;
        return aorta_launched_after(record->correlation, window->launches->after) ? WITHIN : BEFORE;
    }
    const int64_t middle = record->start_ns + (record->end_ns - record->start_ns) / 2;
    return middle >= window->to_ns ? BEHIND : middle >= window->from_ns ? WITHIN : BEFORE;
}

static aorta_status take_records(struct aorta_tracer *tracer, const struct window *window,
                                 struct aorta_activity_record **records, size_t *count) {
    *count = 0;
    for (size_t i = 0; i < tracer->count; i++) *count += place_of(window, &tracer->records[i]) == WITHIN;
    *records = malloc((*count + 1) * sizeof **records);
    if (!*records) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu kernel records", *count);
    size_t taken = 0, left = 0;
    for (size_t i = 0; i < tracer->count; i++) {
        struct aorta_activity_record *record = &tracer->records[i];
        const enum place place = place_of(window, record);
        if (place == BEHIND) tracer->records[left++] = *record;
        if (place != WITHIN) continue;
        if (record->graph_node) record->label = tracer->backend->label_of(tracer->state, record->graph_node);
        (*records)[taken++] = *record;
    }
    tracer->count = left;
    return NULL;
}

static aorta_status hand_out(struct aorta_tracer *tracer, const struct window *window,
                             struct aorta_activity_record **records, size_t *count) {
    pthread_mutex_lock(&tracer->lock);
    aorta_status status = take_records(tracer, window, records, count);
    pthread_mutex_unlock(&tracer->lock);
    if (!status) qsort(*records, *count, sizeof **records, aorta_by_int64_pair);
    return status;
}

aorta_status aorta_tracer_records(struct aorta_tracer *tracer, int64_t from_ns, int64_t to_ns,
                                  struct aorta_activity_record **records, size_t *count) {
    return hand_out(tracer, &(struct window){.from_ns = from_ns, .to_ns = to_ns}, records, count);
}

aorta_status aorta_tracer_take(struct aorta_tracer *tracer, const struct aorta_launches *launches,
                               struct aorta_profile *profile, struct aorta_activity_record **records, size_t *count) {
    memset(profile, 0, sizeof *profile);
    AORTA_TRY(hand_out(tracer, &(struct window){.launches = launches}, records, count));
    aorta_status status = aorta_kernels_profile(*records, *count, profile);
    if (status) {
        free(*records);
        *records = NULL;
        return status;
    }
    int64_t dropped = aorta_tracer_get_facts(tracer).dropped;
    pthread_mutex_lock(&tracer->lock);
    profile->kernels.dropped = dropped - tracer->dropped_reported;
    tracer->dropped_reported = dropped;
    pthread_mutex_unlock(&tracer->lock);
    return NULL;
}

/* ---- what work belongs to ---- */

uint32_t aorta_tracer_launches(struct aorta_tracer *tracer) {
    return tracer->backend->launches(tracer->state);
}

void aorta_tracer_label(struct aorta_tracer *tracer, uint64_t label) {
    if (tracer->backend->label) tracer->backend->label(tracer->state, label);
}

struct aorta_tracer_facts aorta_tracer_get_facts(struct aorta_tracer *tracer) {
    pthread_mutex_lock(&tracer->lock);
    struct aorta_tracer_facts facts = tracer->facts;
    facts.dropped += tracer->backend->dropped(tracer->state);
    pthread_mutex_unlock(&tracer->lock);
    return facts;
}
