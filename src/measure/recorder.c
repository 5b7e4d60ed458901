/* Ranges are rows of a table that the host fills while it enqueues; their stamps lie in pinned memory, where the
 * device writes them. Nothing is allocated while a step is recorded. */
#include "measure/recorder.h"

#include <stdlib.h>
#include <string.h>

/* No device clock shows this: a stamp that still has it was never written. */
#define UNWRITTEN INT64_MIN

enum { MARKERS_PER_SLOT = 64, HOST_RANGES_PER_SLOT = 64, STREAM_LIMIT = 32 };

/* Of a range: its stream came to it, it ended, there was room for it or it began (only where that is asked for). */
enum { STAMP_START, STAMP_END, STAMP_ROOM, STAMPS };

/* A range that comes right behind the ends of others begins when the last of them has ended. */
struct origin {
    int ranges[AORTA_FRONTIER_MOST];
    int count; /* 0: the beginning has a stamp */
};

struct slot {
    int64_t index;
    struct aorta_range *ranges; /* start and end are filled in when the slot is collected */
    size_t range_count;
    size_t captured_count; /* ranges of a graph; those behind them belong to one replay only */
    int64_t *range_stamps; /* pinned: STAMPS of each range */
    int *behind;           /* the range that had ended last on its stream when it began; -1: none */
    int last_ended[STREAM_LIMIT];
    struct origin *origins;           /* where each range came from, if its beginning has no stamp */
    struct aorta_frontier *frontiers; /* where each range ended; no commands: not known */
    struct aorta_marker markers[MARKERS_PER_SLOT];
    size_t marker_count;
    int64_t *marker_stamps; /* pinned */
    struct aorta_host_range host[HOST_RANGES_PER_SLOT];
    size_t host_count;
};

struct aorta_recorder {
    struct aorta_device *device;
    struct slot *slots;
    int slot_count, current;
    size_t ranges_per_slot;
    bool enabled;
    bool stamps_inline;                               /* what a stream does next waits for the stamps */
    const struct aorta_stream *streams[STREAM_LIMIT]; /* by their number; only compared */
    int stream_count;
};

static void forget_ends(struct slot *slot) {
    for (int i = 0; i < STREAM_LIMIT; i++) slot->last_ended[i] = -1;
}

static aorta_status slot_init(struct aorta_recorder *recorder, struct slot *slot) {
    size_t ranges = recorder->ranges_per_slot;
    slot->ranges = calloc(ranges, sizeof *slot->ranges);
    slot->behind = calloc(ranges, sizeof *slot->behind);
    slot->origins = calloc(ranges, sizeof *slot->origins);
    slot->frontiers = calloc(ranges, sizeof *slot->frontiers);
    forget_ends(slot);
    if (!slot->ranges || !slot->behind || !slot->origins || !slot->frontiers)
        return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu recorded ranges", ranges);
    void *stamps = NULL;
    AORTA_TRY(aorta_pinned_alloc(recorder->device, (STAMPS * ranges + MARKERS_PER_SLOT) * sizeof(int64_t),
                                 "profile timestamps", &stamps));
    slot->range_stamps = stamps;
    slot->marker_stamps = slot->range_stamps + STAMPS * ranges;
    return NULL;
}

aorta_status aorta_recorder_create(struct aorta_device *device, int slots, size_t ranges_per_slot,
                                   struct aorta_recorder **recorder) {
    *recorder = NULL;
    if (slots < 1 || ranges_per_slot < 1)
        return AORTA_ERROR(AORTA_INTERNAL, "a recorder needs slots and ranges, got %d and %zu", slots, ranges_per_slot);
    struct aorta_recorder *made = calloc(1, sizeof *made);
    struct slot *table = calloc((size_t)slots, sizeof *table);
    if (!made || !table) {
        free(made);
        free(table);
        return AORTA_ERROR(AORTA_MEMORY, "no memory for a recorder of %d slots", slots);
    }
    *made = (struct aorta_recorder){
        .device = device, .slots = table, .slot_count = slots, .ranges_per_slot = ranges_per_slot, .enabled = true};
    for (int i = 0; i < slots; i++) {
        aorta_status status = slot_init(made, &table[i]);
        if (status) {
            aorta_recorder_destroy(made);
            return status;
        }
    }
    *recorder = made;
    return NULL;
}

void aorta_recorder_destroy(struct aorta_recorder *recorder) {
    if (!recorder) return;
    for (int i = 0; i < recorder->slot_count; i++) {
        free(recorder->slots[i].ranges);
        free(recorder->slots[i].behind);
        free(recorder->slots[i].origins);
        free(recorder->slots[i].frontiers);
        aorta_pinned_free(recorder->device, recorder->slots[i].range_stamps);
    }
    free(recorder->slots);
    free(recorder);
}

void aorta_recorder_enable(struct aorta_recorder *recorder, bool enabled) {
    recorder->enabled = enabled;
}

void aorta_recorder_wait_for_stamps(struct aorta_recorder *recorder, bool wait) {
    recorder->stamps_inline = wait;
}

bool aorta_recorder_enabled(const struct aorta_recorder *recorder) {
    return recorder->enabled;
}

static struct slot *current_slot(struct aorta_recorder *recorder) {
    return &recorder->slots[recorder->current];
}

static int64_t *stamp_of(const struct slot *slot, size_t range, int which) {
    return &slot->range_stamps[STAMPS * range + (size_t)which];
}

static void clear_stamps(const struct slot *slot, size_t range) {
    for (int i = 0; i < STAMPS; i++) *stamp_of(slot, range, i) = UNWRITTEN;
}

void aorta_recorder_step(struct aorta_recorder *recorder, int slot, int64_t index) {
    recorder->current = slot % recorder->slot_count;
    struct slot *now = current_slot(recorder);
    now->index = index;
    now->range_count = now->captured_count = now->marker_count = now->host_count = 0;
    forget_ends(now);
}

void aorta_recorder_captured(struct aorta_recorder *recorder) {
    struct slot *now = current_slot(recorder);
    now->captured_count = now->range_count;
    int64_t launch_ns = aorta_device_now_ns(recorder->device);
    for (size_t i = 0; i < now->range_count; i++) {
        now->ranges[i].graph = true;
        now->ranges[i].enqueue_ns = launch_ns;
    }
}

void aorta_recorder_replay(struct aorta_recorder *recorder, int slot, int64_t index, int64_t launch_ns) {
    recorder->current = slot % recorder->slot_count;
    struct slot *now = current_slot(recorder);
    now->index = index;
    now->marker_count = now->host_count = 0;
    now->range_count = now->captured_count;
    forget_ends(now);
    for (size_t i = 0; i < now->range_count; i++) {
        now->ranges[i].enqueue_ns = launch_ns;
        clear_stamps(now, i);
    }
}

static int stream_number(struct aorta_recorder *recorder, const struct aorta_stream *stream) {
    for (int i = 0; i < recorder->stream_count; i++)
        if (recorder->streams[i] == stream) return i;
    /* More streams than the table holds share the last number; no caller has that many. */
    if (recorder->stream_count == STREAM_LIMIT) return STREAM_LIMIT - 1;
    recorder->streams[recorder->stream_count] = stream;
    return recorder->stream_count++;
}

/* Ranks enqueue the same collectives in the same order, so counting pairs them. */
static int64_t next_sequence(const struct slot *slot, const struct aorta_range_info *info) {
    for (size_t i = slot->range_count; i-- > 0;) {
        const struct aorta_range_info *other = &slot->ranges[i].info;
        if (other->kind == AORTA_RANGE_COLLECTIVE && other->collective == info->collective &&
            other->role == info->role && other->group_size == info->group_size && other->group == info->group &&
            other->group_stride == info->group_stride)
            return slot->ranges[i].sequence + 1;
    }
    return 0;
}

static aorta_status stamp(const struct aorta_recorder *recorder, struct aorta_stream *stream, int64_t *slot) {
    return recorder->stamps_inline ? aorta_timestamp(stream, slot) : aorta_timestamp_aside(stream, slot);
}

/* ---- beginnings without a stamp ---- */

static bool contains(const struct aorta_frontier *frontier, const void *command) {
    for (size_t i = 0; i < frontier->count; i++)
        if (frontier->commands[i] == command) return true;
    return false;
}

static bool is_part(const struct aorta_frontier *part, const struct aorta_frontier *of) {
    for (size_t i = 0; i < part->count; i++)
        if (!contains(of, part->commands[i])) return false;
    return true;
}

/* The last range that ended right behind the command, and behind nothing else than who asks; -1: none. */
static int ended_behind(const struct slot *slot, const void *command, const struct aorta_frontier *asking) {
    for (size_t i = slot->range_count; i-- > 0;)
        if (contains(&slot->frontiers[i], command) && is_part(&slot->frontiers[i], asking)) return (int)i;
    return -1;
}

/* In a capture, where all that the stream comes behind ended ranges. */
static struct origin find_origin(const struct slot *slot, struct aorta_stream *stream) {
    struct origin origin = {.count = 0};
    struct aorta_frontier frontier;
    if (!aorta_stream_frontier(stream, &frontier)) return origin;
    for (size_t i = 0; i < frontier.count; i++) {
        origin.ranges[i] = ended_behind(slot, frontier.commands[i], &frontier);
        if (origin.ranges[i] < 0) return origin;
    }
    origin.count = (int)frontier.count;
    return origin;
}

static void note_frontier(struct slot *slot, size_t range, struct aorta_stream *stream) {
    struct aorta_frontier *frontier = &slot->frontiers[range];
    if (!aorta_stream_frontier(stream, frontier)) frontier->count = 0;
}

/* Compute begins with its first kernel. Of others the stamp of when the stream came to them is asked for, unless that
 * is known from where it came. */
static aorta_status stamp_start(struct aorta_recorder *recorder, struct aorta_stream *stream, struct slot *slot,
                                size_t at) {
    int64_t *start = stamp_of(slot, at, STAMP_START);
    if (recorder->stamps_inline) return aorta_timestamp(stream, start);
    if (slot->ranges[at].info.kind == AORTA_RANGE_COMPUTE) return aorta_timestamp_next(stream, start);
    slot->origins[at] = find_origin(slot, stream);
    return slot->origins[at].count ? NULL : aorta_timestamp_aside(stream, start);
}

/* When the last of what the range comes behind has ended; UNWRITTEN: one of them has no end. */
static int64_t origin_ns(const struct slot *slot, const struct origin *origin) {
    int64_t latest_ns = UNWRITTEN;
    for (int i = 0; i < origin->count; i++) {
        const int64_t end_ns = *stamp_of(slot, (size_t)origin->ranges[i], STAMP_END);
        if (end_ns == UNWRITTEN) return UNWRITTEN;
        if (end_ns > latest_ns) latest_ns = end_ns;
    }
    return latest_ns;
}

/* Ends are all known by then. A stamp written aside may be later than the whole of a short range behind it. */
static void read_starts(const struct slot *slot, bool stamps_inline) {
    for (size_t i = 0; i < slot->range_count; i++) {
        int64_t *start = stamp_of(slot, i, STAMP_START);
        const int64_t end_ns = *stamp_of(slot, i, STAMP_END);
        if (slot->origins[i].count) *start = origin_ns(slot, &slot->origins[i]);
        if (slot->ranges[i].graph && !stamps_inline && end_ns != UNWRITTEN && *start > end_ns) *start = end_ns;
    }
}

/* The stamp goes first to where the operation's stream is now: the other stream then has it while this one is still
 * writing its own. */
static aorta_status stamp_room(struct aorta_stream *stream, const struct aorta_room *room, int64_t *slot) {
    if (room->stream != stream) {
        AORTA_TRY(aorta_event_record(room->event, stream));
        AORTA_TRY(aorta_stream_wait(room->stream, room->event));
    }
    return aorta_timestamp_room(room->stream, &room->footprint, slot);
}

aorta_status aorta_range_begin(struct aorta_recorder *recorder, struct aorta_stream *stream,
                               const struct aorta_range_info *info, int *range) {
    return aorta_range_begin_room(recorder, stream, info, NULL, range);
}

aorta_status aorta_range_begin_room(struct aorta_recorder *recorder, struct aorta_stream *stream,
                                    const struct aorta_range_info *info, const struct aorta_room *room, int *range) {
    *range = -1;
    if (!recorder->enabled) return NULL;
    struct slot *slot = current_slot(recorder);
    if (slot->range_count == recorder->ranges_per_slot)
        return AORTA_ERROR(AORTA_INTERNAL, "iteration %lld has more than %zu ranges; no room to record '%s'",
                           (long long)slot->index, recorder->ranges_per_slot, info->tag);
    size_t at = slot->range_count;
    slot->ranges[at] = (struct aorta_range){
        .info = *info,
        .enqueue_ns = aorta_device_now_ns(recorder->device),
        .sequence = info->kind == AORTA_RANGE_COLLECTIVE ? next_sequence(slot, info) : 0,
        .stream = stream_number(recorder, stream),
        .room = room && (room->footprint.threads || room->witness),
        .witnessed = room && room->witness,
        .reached_ns = room && room->alone ? INT64_MIN : 0,
    };
    clear_stamps(slot, at);
    slot->behind[at] = slot->last_ended[slot->ranges[at].stream];
    slot->origins[at].count = 0;
    slot->frontiers[at].count = 0;
    slot->range_count++;
    *range = (int)at;
    if (slot->ranges[at].witnessed || !room || !slot->ranges[at].room) return stamp_start(recorder, stream, slot, at);
    if (room->alone) return stamp_room(stream, room, stamp_of(slot, at, STAMP_START));
    if (room->stream != stream) AORTA_TRY(stamp_room(stream, room, stamp_of(slot, at, STAMP_ROOM)));
    AORTA_TRY(stamp(recorder, stream, stamp_of(slot, at, STAMP_START)));
    return room->stream == stream ? stamp_room(stream, room, stamp_of(slot, at, STAMP_ROOM)) : NULL;
}

aorta_status aorta_range_end(struct aorta_recorder *recorder, struct aorta_stream *stream, int range) {
    if (range < 0) return NULL; /* begun while switched off */
    struct slot *slot = current_slot(recorder);
    int64_t *end = stamp_of(slot, (size_t)range, STAMP_END);
    slot->last_ended[slot->ranges[range].stream] = range;
    note_frontier(slot, (size_t)range, stream);
    if (slot->ranges[range].witnessed) return aorta_witness(stream, stamp_of(slot, (size_t)range, STAMP_ROOM), end);
    return stamp(recorder, stream, end);
}

aorta_status aorta_recorder_mark(struct aorta_recorder *recorder, struct aorta_stream *stream, enum aorta_role role,
                                 const char *tag) {
    if (!recorder->enabled) return NULL;
    struct slot *slot = current_slot(recorder);
    if (slot->marker_count == MARKERS_PER_SLOT)
        return AORTA_ERROR(AORTA_INTERNAL, "iteration %lld has more than %d markers; no room for '%s'",
                           (long long)slot->index, MARKERS_PER_SLOT, tag);
    size_t at = slot->marker_count++;
    slot->markers[at] = (struct aorta_marker){.tag = tag, .role = role};
    slot->marker_stamps[at] = UNWRITTEN;
    return aorta_timestamp(stream, &slot->marker_stamps[at]);
}

aorta_status aorta_recorder_host(struct aorta_recorder *recorder, enum aorta_host_kind kind, int64_t start_ns,
                                 int64_t end_ns) {
    if (!recorder->enabled) return NULL;
    struct slot *slot = current_slot(recorder);
    if (slot->host_count == HOST_RANGES_PER_SLOT)
        return AORTA_ERROR(AORTA_INTERNAL, "iteration %lld has more than %d host ranges", (long long)slot->index,
                           HOST_RANGES_PER_SLOT);
    slot->host[slot->host_count++] = (struct aorta_host_range){kind, start_ns, end_ns};
    return NULL;
}

/* A stamp that found room only when the operation itself had come and gone says nothing. */
static void read_room(const struct slot *slot, size_t at, struct aorta_range *range) {
    int64_t room_ns = *stamp_of(slot, at, STAMP_ROOM);
    range->room = room_ns != UNWRITTEN && room_ns <= range->end_ns;
    if (!range->room) return;
    range->reached_ns = range->start_ns;
    if (room_ns > range->start_ns) range->start_ns = room_ns;
}

/* The stamp of where the stream came to it is written aside, perhaps later than the witness's. */
static void read_witness(const struct slot *slot, size_t at, struct aorta_range *range) {
    int64_t reached_ns = *stamp_of(slot, at, STAMP_START);
    range->reached_ns = reached_ns != UNWRITTEN && reached_ns < range->start_ns ? reached_ns : range->start_ns;
}

/* A stamp written aside may come later than what followed on the stream: by then the range had ended. */
static void end_before_next(const struct slot *slot, struct aorta_profile *profile) {
    for (size_t i = 0; i < profile->range_count; i++) {
        if (slot->behind[i] < 0) continue;
        struct aorta_range *before = &profile->ranges[slot->behind[i]];
        int64_t began_ns = *stamp_of(slot, i, STAMP_START);
        if (before->end_ns > began_ns && began_ns >= before->start_ns) before->end_ns = began_ns;
    }
}

static aorta_status check_stamps(const struct slot *slot, size_t at, const struct aorta_range *range) {
    const bool started = range->start_ns != UNWRITTEN;
    if (!started || range->end_ns == UNWRITTEN)
        return AORTA_ERROR(AORTA_INTERNAL, "iteration %lld: range %zu ('%s') has no %s timestamp",
                           (long long)slot->index, at, range->info.tag, started ? "end" : "start");
    if (range->end_ns >= range->start_ns) return NULL;
    return AORTA_ERROR(AORTA_INTERNAL, "iteration %lld: range %zu ('%s') ends %lld ns before it begins",
                       (long long)slot->index, at, range->info.tag, (long long)(range->start_ns - range->end_ns));
}

static aorta_status read_stamps(const struct slot *slot, bool stamps_inline, struct aorta_profile *profile) {
    read_starts(slot, stamps_inline);
    for (size_t i = 0; i < profile->range_count; i++) {
        struct aorta_range *range = &profile->ranges[i];
        range->start_ns = *stamp_of(slot, i, range->witnessed ? STAMP_ROOM : STAMP_START);
        range->end_ns = *stamp_of(slot, i, STAMP_END);
        AORTA_TRY(check_stamps(slot, i, range));
    }
    end_before_next(slot, profile);
    for (size_t i = 0; i < profile->range_count; i++) {
        struct aorta_range *range = &profile->ranges[i];
        if (range->witnessed)
            read_witness(slot, i, range);
        else if (range->room && range->reached_ns != INT64_MIN)
            read_room(slot, i, range);
        if (i == 0 || range->start_ns < profile->start_ns) profile->start_ns = range->start_ns;
        if (i == 0 || range->end_ns > profile->end_ns) profile->end_ns = range->end_ns;
    }
    for (size_t i = 0; i < profile->marker_count; i++) {
        profile->markers[i].time_ns = slot->marker_stamps[i];
        if (profile->markers[i].time_ns == UNWRITTEN)
            return AORTA_ERROR(AORTA_INTERNAL, "iteration %lld: marker '%s' was never reached", (long long)slot->index,
                               profile->markers[i].tag);
    }
    return NULL;
}

static void *copy_of(const void *items, size_t count, size_t size) {
    void *copy = malloc(count ? count * size : 1);
    if (copy && count) memcpy(copy, items, count * size);
    return copy;
}

aorta_status aorta_recorder_collect(struct aorta_recorder *recorder, int slot_index, struct aorta_profile *profile) {
    const struct slot *slot = &recorder->slots[slot_index % recorder->slot_count];
    *profile = (struct aorta_profile){
        .index = slot->index,
        .ranges = copy_of(slot->ranges, slot->range_count, sizeof *slot->ranges),
        .range_count = slot->range_count,
        .host = copy_of(slot->host, slot->host_count, sizeof *slot->host),
        .host_count = slot->host_count,
        .markers = copy_of(slot->markers, slot->marker_count, sizeof *slot->markers),
        .marker_count = slot->marker_count,
    };
    aorta_status status = NULL;
    if (!profile->ranges || !profile->host || !profile->markers)
        status = AORTA_ERROR(AORTA_MEMORY, "no memory for the profile of iteration %lld", (long long)slot->index);
    else
        status = read_stamps(slot, recorder->stamps_inline, profile);
    if (status) aorta_profile_free(profile);
    return status;
}
