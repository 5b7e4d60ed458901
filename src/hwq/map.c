/* The map of a device's streams: makes them, and asks by kernels that stamp themselves. */
#include "hwq/map.h"
#include "device/gpu.h"
#include "ops/ops.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TOUCH_BYTES = 4096, /* of the copies and collectives that stand for a short kernel */
    TOUCH_FLOATS = 256,
    MOST_ATTEMPTS = 12,
};
static const int64_t first_hold_ns[] = {/* a GPU's host needs about 5 us for a launch, a thread 50 us to wake up */
                                        [AORTA_DEVICE_CPU] = 3000000,
                                        [AORTA_DEVICE_CUDA] = 500000,
                                        [AORTA_DEVICE_HIP] = 500000};
static const int64_t longest_hold_ns = 200000000, longest_doubt_ns = 20000000;

struct probe {
    const struct aorta_map_options *options;
    struct aorta_map *map;
    struct aorta_stream **streams;
    struct aorta_event **done; /* GPUs, streams that do not compute: behind what they did */
    int64_t (*stamps)[2];      /* pinned: start and end of the kernel that each stream ran last */
    void *host, *memory[2];    /* pinned, and device memory with a piece for each stream */
    int64_t hold_ns;
};

const char *aorta_map_role_name(enum aorta_map_role role) {
    static const char *const names[AORTA_MAP_ROLE_COUNT] = {"compute", "copy", "communication"};
    return names[role];
}

const char *aorta_map_priority_name(enum aorta_priority priority) {
    static const char *const names[] = {"low", "normal", "high"};
    return names[priority];
}

/* ---- one question ---- */

/* What a stream of this role does, and nothing that stamps it. */
static aorta_status work(struct probe *probe, int index) {
    struct aorta_stream *stream = probe->streams[index];
    char *own[2]; /* pieces of memory: streams run side by side */
    for (int i = 0; i < 2; i++) own[i] = (char *)probe->memory[i] + (size_t)index * TOUCH_BYTES;
    switch (probe->map->streams[index].role) {
    case AORTA_MAP_COPY:
        return aorta_copy(stream, own[0], probe->host, TOUCH_BYTES);
    case AORTA_MAP_COMM:
        return aorta_all_reduce(probe->options->comm, stream, own[0], own[1], TOUCH_FLOATS, AORTA_F32, AORTA_SUM);
    default:
        return aorta_spin(stream, 0, NULL);
    }
}

/* The same, with the time at which it ran in the stream's stamps. On a GPU a copy is no kernel, and a kernel behind it
 * that stamps would ask where kernels are held back, not copies: its end is seen by the host instead (see_ends). */
static aorta_status touch(struct probe *probe, int index) {
    struct aorta_stream *stream = probe->streams[index];
    if (probe->map->streams[index].role == AORTA_MAP_COMPUTE) return aorta_spin(stream, 0, probe->stamps[index]);
    AORTA_TRY(work(probe, index));
    if (probe->done[index]) return aorta_event_record(probe->done[index], stream);
    return aorta_timestamp(stream, &probe->stamps[index][0]);
}

/* What has no stamps is watched by the host: the first of its times is that of the last look at which it had not ended
 * (0: there was none), the second that of the look which found it ended. */
static void see_ends(struct probe *probe, const int *others, int count) {
    struct aorta_device *device = probe->options->device;
    for (int i = 0; i < count; i++)
        if (probe->done[others[i]]) memset(probe->stamps[others[i]], 0, sizeof *probe->stamps);
    for (bool missing = true; missing;) {
        missing = false;
        for (int i = 0; i < count; i++) {
            struct aorta_event *done = probe->done[others[i]];
            int64_t *stamps = probe->stamps[others[i]];
            if (!done || stamps[1]) continue;
            int64_t before_ns = aorta_device_now_ns(device);
            if (aorta_event_done(done)) {
                stamps[1] = aorta_device_now_ns(device);
            } else {
                stamps[0] = before_ns;
                missing = true;
            }
        }
        if (missing) sched_yield();
    }
}

enum answer { FREE, HELD, UNSEEN };

/* What the host saw is on its own clock, which may be a little before the device's: what ran freely ended long before,
 * what was held back had not ended then. A host that looked at neither time has seen nothing. */
static enum answer answer_of(const struct probe *probe, int holder, int other) {
    const int64_t *stamps = probe->stamps[other], end_ns = probe->stamps[holder][1];
    if (!probe->done[other]) return stamps[0] >= end_ns ? HELD : FREE;
    const int64_t border_ns = end_ns - probe->hold_ns / 6;
    if (stamps[0] >= border_ns) return HELD;
    return stamps[1] < border_ns ? FREE : UNSEEN;
}

static aorta_status queue_round(struct probe *probe, int holder, bool behind, const int *others, int count) {
    AORTA_TRY(aorta_spin(probe->streams[holder], probe->hold_ns, probe->stamps[holder]));
    if (behind) AORTA_TRY(work(probe, holder));
    for (int i = 0; i < count; i++) AORTA_TRY(touch(probe, others[i]));
    return NULL;
}

/* *valid: everything was queued while the long kernel ran, with time to spare, and every answer was seen. */
static aorta_status try_round(struct probe *probe, int holder, bool behind, const int *others, int count, bool *held,
                              bool *valid) {
    AORTA_TRY(queue_round(probe, holder, behind, others, count));
    int64_t launch_ns = aorta_device_now_ns(probe->options->device);
    see_ends(probe, others, count);
    AORTA_TRY(aorta_stream_synchronize(probe->streams[holder]));
    for (int i = 0; i < count; i++) AORTA_TRY(aorta_stream_synchronize(probe->streams[others[i]]));
    *valid = launch_ns < probe->stamps[holder][1] - probe->hold_ns / 3;
    for (int i = 0; i < count; i++) {
        enum answer answer = answer_of(probe, holder, others[i]);
        held[i] = answer == HELD;
        if (answer == UNSEEN) *valid = false;
    }
    return NULL;
}

static aorta_status ask(void *context, int holder, bool behind, const int *others, int count, bool *held) {
    struct probe *probe = context;
    for (int attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
        bool valid;
        AORTA_TRY(try_round(probe, holder, behind, others, count, held, &valid));
        if (valid) return NULL;
        if (probe->hold_ns < longest_hold_ns) probe->hold_ns *= 2;
    }
    return AORTA_ERROR(AORTA_TIMEOUT,
                       "in %d attempts the host was too late to queue %d kernels, or to see which copies end, while "
                       "the streams were held for %.0f ms; is the machine busy, or CUDA_LAUNCH_BLOCKING set?",
                       MOST_ATTEMPTS, count + 2, (double)probe->hold_ns * 1e-6);
}

static void doubt(void *context) {
    struct probe *probe = context;
    if (probe->hold_ns < longest_doubt_ns) probe->hold_ns += probe->hold_ns / 4;
}

/* ---- streams ---- */

static void name_streams(const struct aorta_map_options *options, struct aorta_map *map) {
    int at = 0;
    for (int level = 0; level < options->priority_count; level++) {
        for (int i = 0; i < options->compute_streams; i++) {
            struct aorta_map_stream *stream = &map->streams[at++];
            *stream = (struct aorta_map_stream){.role = AORTA_MAP_COMPUTE, .priority = options->priorities[level]};
            if (options->priority_count > 1)
                snprintf(stream->name, sizeof stream->name, "%s.c%d", aorta_map_priority_name(stream->priority), i);
            else
                snprintf(stream->name, sizeof stream->name, "c%d", i);
        }
    }
    const struct {
        enum aorta_map_role role;
        int count;
        const char *prefix;
    } others[] = {{AORTA_MAP_COPY, options->copy_streams, "copy"}, {AORTA_MAP_COMM, options->comm_streams, "comm"}};
    for (size_t kind = 0; kind < sizeof others / sizeof *others; kind++) {
        for (int i = 0; i < others[kind].count; i++) {
            struct aorta_map_stream *stream = &map->streams[at++];
            *stream = (struct aorta_map_stream){.role = others[kind].role, .priority = AORTA_PRIORITY_NORMAL};
            snprintf(stream->name, sizeof stream->name, "%s%d", others[kind].prefix, i);
        }
    }
}

/* Some drivers give a stream its queue when it is first used: that happens here, in order. */
static aorta_status make_streams(struct probe *probe) {
    for (int i = 0; i < probe->map->count; i++) {
        const struct aorta_map_stream *stream = &probe->map->streams[i];
        AORTA_TRY(aorta_stream_create(probe->options->device, stream->name, stream->priority, &probe->streams[i]));
        if (stream->role != AORTA_MAP_COMPUTE && aorta_device_is_gpu(probe->options->device))
            AORTA_TRY(aorta_event_create_untimed(probe->options->device, &probe->done[i]));
        AORTA_TRY(touch(probe, i));
        AORTA_TRY(aorta_stream_synchronize(probe->streams[i]));
    }
    return NULL;
}

static aorta_status make_memory(struct probe *probe) {
    struct aorta_device *device = probe->options->device;
    size_t count = (size_t)probe->map->count;
    void *stamps;
    AORTA_TRY(aorta_pinned_alloc(device, count * sizeof *probe->stamps, "stamps of the map", &stamps));
    probe->stamps = stamps;
    AORTA_TRY(aorta_pinned_alloc(device, TOUCH_BYTES, "bytes that are copied", &probe->host));
    memset(probe->host, 0, TOUCH_BYTES);
    for (int i = 0; i < 2; i++)
        AORTA_TRY(aorta_device_alloc(device, count * TOUCH_BYTES, "bytes that are copied", &probe->memory[i]));
    return NULL;
}

static void end_probe(struct probe *probe) {
    struct aorta_device *device = probe->options->device;
    for (int i = probe->map->count; i-- > 0;) {
        if (probe->streams[i]) aorta_stream_destroy(probe->streams[i]);
        if (probe->done[i]) aorta_event_destroy(probe->done[i]);
    }
    aorta_pinned_free(device, probe->stamps);
    aorta_pinned_free(device, probe->host);
    for (int i = 0; i < 2; i++) aorta_device_free(device, probe->memory[i]);
}

static aorta_status check(const struct aorta_map_options *options) {
    int count = options->compute_streams * options->priority_count + options->copy_streams + options->comm_streams;
    if (count < 2 || count > AORTA_MAP_STREAMS)
        return AORTA_ERROR(AORTA_USAGE, "a map needs 2 to %d streams in all; these are %d", AORTA_MAP_STREAMS, count);
    if (options->comm_streams && !options->comm)
        return AORTA_ERROR(AORTA_INTERNAL, "communication streams need a communicator");
    return NULL;
}

aorta_status aorta_map_run(const struct aorta_map_options *options, struct aorta_map *map) {
    *map = (struct aorta_map){0};
    AORTA_TRY(check(options));
    map->count = options->compute_streams * options->priority_count + options->copy_streams + options->comm_streams;
    map->comm_backend = options->comm_streams ? aorta_comm_backend(options->comm) : NULL;
    map->streams = aorta_arena_alloc(&map->arena, (size_t)map->count * sizeof *map->streams);
    struct probe probe = {
        .options = options, .map = map, .hold_ns = first_hold_ns[aorta_device_get_info(options->device)->kind]};
    probe.streams = aorta_arena_alloc(&map->arena, (size_t)map->count * sizeof(struct aorta_stream *));
    probe.done = aorta_arena_alloc(&map->arena, (size_t)map->count * sizeof(struct aorta_event *));
    aorta_status status = NULL;
    if (!map->streams || !probe.streams || !probe.done)
        status = AORTA_ERROR(AORTA_MEMORY, "no memory for the map of %d streams", map->count);
    if (!status) {
        name_streams(options, map);
        status = make_memory(&probe);
        if (!status) status = make_streams(&probe);
        const struct aorta_map_prober prober = {&probe, ask, doubt};
        if (!status) status = aorta_map_find_pairs(&options->survey, &prober, map);
        end_probe(&probe);
        map->hold_ns = probe.hold_ns;
    }
    if (status) aorta_map_free(map);
    return aorta_annotate(status, "the map of queues");
}

void aorta_map_free(struct aorta_map *map) {
    aorta_arena_free(&map->arena);
    *map = (struct aorta_map){0};
}
