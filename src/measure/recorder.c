/* Ranges are rows of a table that the host fills while it enqueues. Their times are timestamps, which the device writes
 * to pinned memory, or come later from the tracer's records. Nothing is allocated while a step is recorded. */
#include "measure/recorder.h"
#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

/* No device clock reaches this: a timestamp with this value was never written. */
#define UNWRITTEN INT64_MIN

enum { STREAM_LIMIT = 32, OPEN_LIMIT = 8 };

struct open_range {
    int number;    /* −1: it is not recorded */
    int innermost; /* innermost recorded range, itself or around it; −1: none */
    struct aorta_stream *stream;
};

struct slot {
    int64_t index;
    struct aorta_tracer *tracer; /* NULL: timestamps */
    struct aorta_range *ranges;  /* start and end are filled in when the slot is collected */
    size_t range_count;
    size_t captured_count; /* ranges of the graph; later ranges belong to one replay only */
    int64_t *stamps;       /* pinned: two of each range */
    struct aorta_range_launches *launches;
    struct open_range open[OPEN_LIMIT]; /* from the outermost to the innermost */
    int open_count;
    const char *begins;           /* name of the part that the next range begins; NULL: none */
    struct aorta_marker *markers; /* of parts of the step; time_ns is the number of their first range */
    size_t marker_count, captured_markers;
    uint64_t first_label;          /* of range 0; later ranges follow */
    uint32_t after, until;         /* launches of the step: after + 1 to until */
    struct aorta_host_range *host; /* as many places as for ranges */
    size_t host_count;
};

struct aorta_recorder {
    struct aorta_device *device;
    struct aorta_arena arena; /* of the slots, without their timestamps */
    struct slot *slots;
    int slot_count, current;
    size_t ranges_per_slot;
    bool enabled;
    struct aorta_tracer *tracer;                      /* of the next step */
    uint64_t next_label;                              /* nobody's yet */
    const struct aorta_stream *streams[STREAM_LIMIT]; /* by their number; only compared */
    int stream_count;
};

static aorta_status slot_init(struct aorta_recorder *recorder, struct slot *slot) {
    size_t ranges = recorder->ranges_per_slot;
    struct aorta_arena *arena = &recorder->arena;
    slot->ranges = aorta_arena_alloc(arena, ranges * sizeof *slot->ranges);
    slot->launches = aorta_arena_alloc(arena, ranges * sizeof *slot->launches);
    slot->host = aorta_arena_alloc(arena, ranges * sizeof *slot->host);
    slot->markers = aorta_arena_alloc(arena, ranges * sizeof *slot->markers);
    void *stamps = NULL;
    AORTA_TRY(aorta_pinned_alloc(recorder->device, 2 * ranges * sizeof(int64_t), "profile timestamps", &stamps));
    slot->stamps = stamps;
    return NULL;
}

aorta_status aorta_recorder_create(struct aorta_device *device, int slots, size_t ranges_per_slot,
                                   struct aorta_recorder **recorder) {
    *recorder = NULL;
    if (slots < 1 || ranges_per_slot < 1)
        return AORTA_ERROR(AORTA_INTERNAL, "a recorder needs slots and ranges, got %d and %zu", slots, ranges_per_slot);
    struct aorta_recorder *made = calloc(1, sizeof *made);
    if (!made) return AORTA_ERROR(AORTA_MEMORY, "no memory for a recorder of %d slots", slots);
    *made =
        (struct aorta_recorder){.device = device, .ranges_per_slot = ranges_per_slot, .enabled = true, .next_label = 1};
    made->slots = aorta_arena_alloc(&made->arena, (size_t)slots * sizeof *made->slots);
    aorta_status status = aorta_arena_check(&made->arena, "a recorder");
    for (made->slot_count = 0; !status && made->slot_count < slots; made->slot_count++)
        status = slot_init(made, &made->slots[made->slot_count]);
    if (!status) status = aorta_arena_check(&made->arena, "a recorder");
    if (status)
        aorta_recorder_destroy(made);
    else
        *recorder = made;
    return status;
}

void aorta_recorder_destroy(struct aorta_recorder *recorder) {
    if (!recorder) return;
    for (int i = 0; i < recorder->slot_count; i++) aorta_pinned_free(recorder->device, recorder->slots[i].stamps);
    aorta_arena_free(&recorder->arena);
    free(recorder);
}

void aorta_recorder_enable(struct aorta_recorder *recorder, bool enabled) {
    recorder->enabled = enabled;
}

void aorta_recorder_trace(struct aorta_recorder *recorder, struct aorta_tracer *tracer) {
    recorder->tracer = tracer;
}

/* ---- steps ---- */

static struct slot *current_slot(struct aorta_recorder *recorder) {
    return &recorder->slots[recorder->current];
}

static struct slot *begin_step(struct aorta_recorder *recorder, int slot, int64_t index) {
    recorder->current = slot % recorder->slot_count;
    struct slot *now = current_slot(recorder);
    now->index = index;
    now->tracer = recorder->tracer;
    now->host_count = 0;
    now->open_count = 0;
    now->begins = NULL;
    if (now->tracer) now->after = now->until = aorta_tracer_launches(now->tracer);
    return now;
}

void aorta_recorder_step(struct aorta_recorder *recorder, int slot, int64_t index) {
    struct slot *now = begin_step(recorder, slot, index);
    now->range_count = now->captured_count = 0;
    now->marker_count = now->captured_markers = 0;
    now->first_label = recorder->next_label;
    recorder->next_label += recorder->ranges_per_slot;
}

void aorta_recorder_captured(struct aorta_recorder *recorder) {
    struct slot *now = current_slot(recorder);
    now->captured_count = now->range_count;
    now->captured_markers = now->marker_count;
    for (size_t i = 0; i < now->range_count; i++) now->ranges[i].graph = true;
}

void aorta_recorder_launched(struct aorta_recorder *recorder) {
    struct slot *now = current_slot(recorder);
    int64_t launch_ns = aorta_clock_ns();
    for (size_t i = 0; i < now->captured_count; i++) now->ranges[i].enqueue_ns = launch_ns;
}

static void clear_stamps(const struct slot *slot, size_t range) {
    slot->stamps[2 * range] = slot->stamps[2 * range + 1] = UNWRITTEN;
}

void aorta_recorder_replay(struct aorta_recorder *recorder, int slot, int64_t index) {
    struct slot *now = begin_step(recorder, slot, index);
    now->range_count = now->captured_count;
    now->marker_count = now->captured_markers;
    for (size_t i = 0; i < now->range_count; i++) clear_stamps(now, i);
}

void aorta_recorder_queued(struct aorta_recorder *recorder) {
    struct slot *now = current_slot(recorder);
    if (recorder->enabled && now->tracer) now->until = aorta_tracer_launches(now->tracer);
}

/* ---- ranges ---- */

static int stream_number(struct aorta_recorder *recorder, const struct aorta_stream *stream) {
    for (int i = 0; i < recorder->stream_count; i++)
        if (recorder->streams[i] == stream) return i;
    /* More streams than the table holds share the last number; no caller has that many. */
    if (recorder->stream_count == STREAM_LIMIT) return STREAM_LIMIT - 1;
    recorder->streams[recorder->stream_count] = stream;
    return recorder->stream_count++;
}

static int innermost(const struct slot *slot) {
    return slot->open_count ? slot->open[slot->open_count - 1].innermost : -1;
}

/* The nodes that a capture gets from now on are of the innermost open range. */
static void label_nodes(const struct slot *slot) {
    const int open = innermost(slot);
    aorta_tracer_label(slot->tracer, open < 0 ? 0 : slot->first_label + (uint64_t)open);
}

static aorta_status open_range(struct slot *slot, int number, struct aorta_stream *stream) {
    if (slot->open_count == OPEN_LIMIT)
        return AORTA_ERROR(AORTA_INTERNAL, "iteration %lld: more than %d ranges are open", (long long)slot->index,
                           OPEN_LIMIT);
    slot->open[slot->open_count++] = (struct open_range){number, number < 0 ? innermost(slot) : number, stream};
    return NULL;
}

aorta_status aorta_range_begin(struct aorta_recorder *recorder, struct aorta_stream *stream,
                               const struct aorta_range_info *info) {
    if (!recorder) return NULL;
    struct slot *slot = current_slot(recorder);
    const int outer = innermost(slot);
    if (!recorder->enabled || (info->inner && (!slot->tracer || outer < 0))) return open_range(slot, -1, stream);
    if (slot->range_count == recorder->ranges_per_slot)
        return AORTA_ERROR(AORTA_INTERNAL, "iteration %lld has more than %zu ranges; no place to record '%s'",
                           (long long)slot->index, recorder->ranges_per_slot, info->tag);
    size_t at = slot->range_count;
    slot->ranges[at] = (struct aorta_range){
        .info = *info,
        .enqueue_ns = aorta_clock_ns(),
        .stream = stream_number(recorder, stream),
        .owner = info->inner ? outer : -1,
    };
    if (slot->begins)
        slot->markers[slot->marker_count++] =
            (struct aorta_marker){.tag = slot->begins, .role = info->role, .time_ns = (int64_t)at};
    slot->begins = NULL;
    clear_stamps(slot, at);
    slot->range_count++;
    AORTA_TRY(open_range(slot, (int)at, stream));
    if (!slot->tracer) return aorta_timestamp(stream, &slot->stamps[2 * at]);
    label_nodes(slot);
    slot->launches[at].after = slot->launches[at].until = aorta_tracer_launches(slot->tracer);
    return NULL;
}

void aorta_recorder_begins(struct aorta_recorder *recorder, const char *part) {
    current_slot(recorder)->begins = part;
}

aorta_status aorta_range_end(struct aorta_recorder *recorder) {
    if (!recorder) return NULL;
    struct slot *slot = current_slot(recorder);
    if (slot->open_count == 0)
        return AORTA_ERROR(AORTA_INTERNAL, "iteration %lld: no range is open", (long long)slot->index);
    const struct open_range ended = slot->open[--slot->open_count];
    if (ended.number < 0) return NULL;
    if (!slot->tracer) return aorta_timestamp(ended.stream, &slot->stamps[2 * ended.number + 1]);
    slot->launches[ended.number].until = aorta_tracer_launches(slot->tracer);
    label_nodes(slot);
    return NULL;
}

aorta_status aorta_recorder_host(struct aorta_recorder *recorder, enum aorta_host_kind kind, int64_t start_ns,
                                 int64_t end_ns) {
    if (!recorder->enabled) return NULL;
    struct slot *slot = current_slot(recorder);
    if (slot->host_count == recorder->ranges_per_slot)
        return AORTA_ERROR(AORTA_INTERNAL, "iteration %lld has more than %zu host ranges", (long long)slot->index,
                           recorder->ranges_per_slot);
    slot->host[slot->host_count++] = (struct aorta_host_range){kind, start_ns, end_ns};
    return NULL;
}

/* ---- results ---- */

static aorta_status check_stamps(const struct slot *slot, size_t at, const struct aorta_range *range) {
    const bool started = range->start_ns != UNWRITTEN;
    if (!started || range->end_ns == UNWRITTEN)
        return AORTA_ERROR(AORTA_INTERNAL, "iteration %lld: range %zu ('%s') has no %s timestamp",
                           (long long)slot->index, at, range->info.tag, started ? "end" : "start");
    if (range->end_ns >= range->start_ns) return NULL;
    return AORTA_ERROR(AORTA_INTERNAL, "iteration %lld: range %zu ('%s') ends %lld ns before it begins",
                       (long long)slot->index, at, range->info.tag, (long long)(range->start_ns - range->end_ns));
}

static aorta_status read_ranges(const struct slot *slot, struct aorta_profile *profile) {
    for (size_t i = 0; i < profile->range_count; i++) {
        struct aorta_range *range = &profile->ranges[i];
        range->start_ns = slot->stamps[2 * i];
        range->end_ns = slot->stamps[2 * i + 1];
        AORTA_TRY(check_stamps(slot, i, range));
        if (i == 0 || range->start_ns < profile->start_ns) profile->start_ns = range->start_ns;
        if (i == 0 || range->end_ns > profile->end_ns) profile->end_ns = range->end_ns;
    }
    for (size_t i = 0; i < profile->marker_count; i++)
        profile->markers[i].time_ns = profile->ranges[profile->markers[i].time_ns].start_ns;
    return NULL;
}

aorta_status aorta_recorder_collect(struct aorta_recorder *recorder, int slot_index, struct aorta_profile *profile) {
    const struct slot *slot = &recorder->slots[slot_index % recorder->slot_count];
    *profile = (struct aorta_profile){
        .index = slot->index,
        .ranges = aorta_array_copy(slot->ranges, slot->range_count, sizeof *slot->ranges),
        .range_count = slot->range_count,
        .host = aorta_array_copy(slot->host, slot->host_count, sizeof *slot->host),
        .host_count = slot->host_count,
        .markers = aorta_array_copy(slot->markers, slot->marker_count, sizeof *slot->markers),
        .marker_count = slot->marker_count,
    };
    aorta_status status = NULL;
    if (!profile->ranges || !profile->host || !profile->markers)
        status = AORTA_ERROR(AORTA_MEMORY, "no memory for the profile of iteration %lld", (long long)slot->index);
    if (!status) aorta_number_collectives(profile->ranges, profile->range_count);
    if (!status && !slot->tracer) status = read_ranges(slot, profile);
    if (status) aorta_profile_free(profile);
    return status;
}

aorta_status aorta_recorder_launches(const struct aorta_recorder *recorder, int slot_index,
                                     struct aorta_launches *launches) {
    const struct slot *slot = &recorder->slots[slot_index % recorder->slot_count];
    *launches = (struct aorta_launches){0};
    if (!slot->tracer) return NULL;
    *launches =
        (struct aorta_launches){.after = slot->after,
                                .until = slot->until,
                                .first_label = slot->first_label,
                                .ranges = aorta_array_copy(slot->launches, slot->range_count, sizeof *slot->launches)};
    if (launches->ranges) return NULL;
    return AORTA_ERROR(AORTA_MEMORY, "no memory for the launches of iteration %lld", (long long)slot->index);
}
