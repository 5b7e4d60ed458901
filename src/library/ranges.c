/* libaorta.so: ranges around somebody's own work (include/aorta/ranges.h). */
#include "aorta/ranges.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/interval.h"
#include "library/failure.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { KINDS = 3 };

struct range {
    enum libaorta_kind kind;
    bool ended;
    int64_t start_ns, end_ns;
    void *events[2];
};

/* The functions needed of CUDA's driver or of HIP, which have the same signatures. */
struct event_api {
    int (*create)(void **event, unsigned flags);
    int (*record)(void *event, void *stream);
    int (*synchronize)(void *event);
    int (*elapsed)(float *ms, void *from, void *to);
    int (*destroy)(void *event);
};

static const struct {
    const char *library, *create, *record, *synchronize, *elapsed, *destroy;
} vendors[] = {
    [LIBAORTA_CUDA] = {"libcuda.so.1", "cuEventCreate", "cuEventRecord", "cuEventSynchronize", "cuEventElapsedTime",
                       "cuEventDestroy_v2"},
    [LIBAORTA_HIP] = {"libamdhip64.so", "hipEventCreateWithFlags", "hipEventRecord", "hipEventSynchronize",
                      "hipEventElapsedTime", "hipEventDestroy"},
};

struct libaorta_ranges {
    enum libaorta_clock clock;
    struct event_api api;
    struct range *items;
    size_t count, capacity;
    pthread_mutex_t lock;
};

static bool find(void *library, const char *name, void *function) {
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static aorta_status load(enum libaorta_clock clock, struct event_api *api) {
    if (clock == LIBAORTA_HOST) return NULL;
    if (clock != LIBAORTA_CUDA && clock != LIBAORTA_HIP) return AORTA_ERROR(AORTA_USAGE, "clock %d", (int)clock);
    void *library = dlopen(vendors[clock].library, RTLD_NOW | RTLD_NOLOAD);
    if (!library)
        return AORTA_ERROR(AORTA_UNSUPPORTED, "this process has not loaded %s: nothing of it has used that GPU yet",
                           vendors[clock].library);
    const bool whole =
        find(library, vendors[clock].create, &api->create) && find(library, vendors[clock].record, &api->record) &&
        find(library, vendors[clock].synchronize, &api->synchronize) &&
        find(library, vendors[clock].elapsed, &api->elapsed) && find(library, vendors[clock].destroy, &api->destroy);
    dlclose(library); /* the process keeps it */
    return whole ? NULL : AORTA_ERROR(AORTA_UNSUPPORTED, "%s has no events", vendors[clock].library);
}

enum libaorta_result libaorta_ranges_create(enum libaorta_clock clock, struct libaorta_ranges **ranges, char *message,
                                            size_t size) {
    if (!ranges) return aorta_library_failure(aorta_library_null("ranges"), message, size);
    struct libaorta_ranges *made = calloc(1, sizeof *made);
    *ranges = NULL;
    aorta_status status = made ? load(clock, &made->api) : AORTA_ERROR(AORTA_MEMORY, "no memory for ranges");
    if (status) {
        free(made);
        return aorta_library_failure(status, message, size);
    }
    made->clock = clock;
    pthread_mutex_init(&made->lock, NULL);
    *ranges = made;
    return LIBAORTA_OK;
}

static void forget(struct libaorta_ranges *ranges) {
    for (size_t i = 0; i < ranges->count; i++)
        for (int j = 0; j < 2; j++)
            if (ranges->items[i].events[j]) ranges->api.destroy(ranges->items[i].events[j]);
    ranges->count = 0;
}

void libaorta_ranges_free(struct libaorta_ranges *ranges) {
    if (!ranges) return;
    forget(ranges);
    free(ranges->items);
    pthread_mutex_destroy(&ranges->lock);
    free(ranges);
}

/* Notes the time, or has the stream note it. */
static bool mark(const struct libaorta_ranges *ranges, void *stream, int64_t *time_ns, void **event) {
    if (ranges->clock == LIBAORTA_HOST) {
        *time_ns = aorta_clock_ns();
        return true;
    }
    if (ranges->api.create(event, 0) != 0) *event = NULL;
    return *event && ranges->api.record(*event, stream) == 0;
}

int libaorta_range_begin(struct libaorta_ranges *ranges, enum libaorta_kind kind, void *stream) {
    struct range range = {.kind = kind};
    int number = -1;
    if (!ranges || (int)kind < 0 || (int)kind >= KINDS) return -1;
    pthread_mutex_lock(&ranges->lock);
    if (ranges->count < INT32_MAX &&
        aorta_array_fit(&ranges->items, &ranges->capacity, ranges->count + 1, sizeof *ranges->items)) {
        const bool marked = mark(ranges, stream, &range.start_ns, &range.events[0]);
        if (marked) number = (int)ranges->count;
        if (!marked && range.events[0]) ranges->api.destroy(range.events[0]);
        if (marked) ranges->items[ranges->count++] = range;
    }
    pthread_mutex_unlock(&ranges->lock);
    return number;
}

enum libaorta_result libaorta_range_end(struct libaorta_ranges *ranges, int number, void *stream) {
    enum libaorta_result result = LIBAORTA_INVALID;
    if (!ranges) return result;
    pthread_mutex_lock(&ranges->lock);
    if (number >= 0 && (size_t)number < ranges->count && !ranges->items[number].ended) {
        struct range *range = &ranges->items[number];
        range->ended = mark(ranges, stream, &range->end_ns, &range->events[1]);
        result = range->ended ? LIBAORTA_OK : LIBAORTA_FAILED;
        if (!range->ended && range->events[1]) ranges->api.destroy(range->events[1]);
        if (!range->ended) range->events[1] = NULL;
    }
    pthread_mutex_unlock(&ranges->lock);
    return result;
}

/* ---- the answer ---- */

/* Times of all events from the first range's begin on. */
static aorta_status read_events(struct libaorta_ranges *ranges) {
    void *first = ranges->count ? ranges->items[0].events[0] : NULL;
    for (size_t i = 0; i < ranges->count && ranges->clock != LIBAORTA_HOST; i++) {
        struct range *range = &ranges->items[i];
        int64_t *const times[2] = {&range->start_ns, &range->end_ns};
        for (int j = 0; j < 2 && range->ended; j++) {
            float ms = 0;
            int code = ranges->api.synchronize(range->events[j]);
            if (!code) code = ranges->api.elapsed(&ms, first, range->events[j]);
            if (code)
                return AORTA_ERROR(AORTA_DEVICE, "an event of range %zu failed: the driver's code is %d", i, code);
            *times[j] = llround((double)ms * 1e6);
        }
    }
    return NULL;
}

static void sort_out(const struct libaorta_ranges *ranges, struct aorta_intervals kinds[KINDS],
                     struct libaorta_overlap *overlap) {
    int64_t first_ns = INT64_MAX, last_ns = INT64_MIN;
    AORTA_EACH (const struct range, range, ranges->items, ranges->count) {
        if (!range->ended) continue;
        aorta_intervals_add(&kinds[range->kind], range->start_ns, range->end_ns);
        if (range->start_ns < first_ns) first_ns = range->start_ns;
        if (range->end_ns > last_ns) last_ns = range->end_ns;
    }
    overlap->span_ns = last_ns > first_ns ? last_ns - first_ns : 0;
}

static aorta_status measure(struct aorta_intervals kinds[KINDS], struct libaorta_overlap *overlap) {
    struct aorta_intervals both = {0}, work = {0}, busy = {0};
    overlap->compute_ns = aorta_intervals_length(&kinds[LIBAORTA_COMPUTE]);
    overlap->comm_ns = aorta_intervals_length(&kinds[LIBAORTA_COMMUNICATION]);
    overlap->copy_ns = aorta_intervals_length(&kinds[LIBAORTA_COPY]);
    aorta_intervals_intersect(&kinds[LIBAORTA_COMMUNICATION], &kinds[LIBAORTA_COMPUTE], &both);
    aorta_intervals_union(&kinds[LIBAORTA_COMMUNICATION], &kinds[LIBAORTA_COMPUTE], &work);
    aorta_intervals_union(&work, &kinds[LIBAORTA_COPY], &busy);
    overlap->overlap_ns = aorta_intervals_length(&both);
    overlap->exposed_comm_ns = overlap->comm_ns - overlap->overlap_ns;
    overlap->idle_ns = overlap->span_ns - aorta_intervals_length(&busy);
    overlap->overlap_ratio = overlap->comm_ns ? (double)overlap->overlap_ns / (double)overlap->comm_ns : NAN;
    aorta_status status = aorta_status_join(aorta_intervals_check(&both), aorta_intervals_check(&busy));
    aorta_intervals_free(&both);
    aorta_intervals_free(&work);
    aorta_intervals_free(&busy);
    return status;
}

enum libaorta_result libaorta_ranges_overlap(struct libaorta_ranges *ranges, struct libaorta_overlap *overlap,
                                             char *message, size_t size) {
    struct aorta_intervals kinds[KINDS] = {0};
    if (!ranges || !overlap)
        return aorta_library_failure(aorta_library_null(ranges ? "overlap" : "ranges"), message, size);
    *overlap = (struct libaorta_overlap){.overlap_ratio = NAN};
    pthread_mutex_lock(&ranges->lock);
    aorta_status status = read_events(ranges);
    if (!status) {
        sort_out(ranges, kinds, overlap);
        status = measure(kinds, overlap);
    }
    forget(ranges);
    pthread_mutex_unlock(&ranges->lock);
    for (int i = 0; i < KINDS; i++) aorta_intervals_free(&kinds[i]);
    return aorta_library_failure(status, message, size);
}
