/* The map of a device's streams: creates and probes them, with kernels that stamp themselves. */
#include "hwq/map.h"
#include "device/gpu.h"
#include "ops/ops.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TOUCH_BYTES = 4096, /* of the copies and collectives in place of a short kernel */
    TOUCH_FLOATS = 256,
    MOST_ATTEMPTS = 12,
};
static const int64_t first_hold_ns[] = {/* a GPU's host needs about 5 us for a launch, a thread 50 us to wake up */
                                        [AORTA_DEVICE_CPU] = 3000000,
                                        [AORTA_DEVICE_CUDA] = 500000,
                                        [AORTA_DEVICE_HIP] = 500000};
static const int64_t longest_hold_ns = 200000000, longest_lengthened_ns = 20000000;

struct bench {
    const struct aorta_map_options *options;
    struct aorta_map *map;
    struct aorta_stream **streams;
    struct aorta_event **done; /* GPUs, streams that do not compute: after their work */
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

/* ---- one probe ---- */

/* The work of a stream of this role, without a stamp. */
static aorta_status work(struct bench *bench, int index) {
    struct aorta_stream *stream = bench->streams[index];
    char *own[2]; /* pieces of memory: streams run side by side */
    for (int i = 0; i < 2; i++) own[i] = (char *)bench->memory[i] + (size_t)index * TOUCH_BYTES;
    switch (bench->map->streams[index].role) {
    case AORTA_MAP_COPY:
        return aorta_copy(stream, own[0], bench->host, TOUCH_BYTES);
    case AORTA_MAP_COMM:
        return aorta_all_reduce(bench->options->comm, stream, own[0], own[1], TOUCH_FLOATS, AORTA_F32, AORTA_SUM);
    default:
        return aorta_spin(stream, 0, NULL);
    }
}

/* The same with its time in the stream's stamps. On a GPU a copy is no kernel, and a kernel after it that stamps would
 * probe the queue of kernels, not of copies: the host polls for its end instead (poll_ends). */
static aorta_status touch(struct bench *bench, int index) {
    struct aorta_stream *stream = bench->streams[index];
    if (bench->map->streams[index].role == AORTA_MAP_COMPUTE) return aorta_spin(stream, 0, bench->stamps[index]);
    AORTA_TRY(work(bench, index));
    if (bench->done[index]) return aorta_event_record(bench->done[index], stream);
    return aorta_timestamp(stream, &bench->stamps[index][0]);
}

/* The host polls for the end of work without stamps. Its first time is that of the last poll before the end (0: none),
 * the second that of the poll that found it ended. */
static void poll_ends(struct bench *bench, const int *others, int count) {
    struct aorta_device *device = bench->options->device;
    for (int i = 0; i < count; i++)
        if (bench->done[others[i]]) memset(bench->stamps[others[i]], 0, sizeof *bench->stamps);
    for (bool missing = true; missing;) {
        missing = false;
        for (int i = 0; i < count; i++) {
            struct aorta_event *done = bench->done[others[i]];
            int64_t *stamps = bench->stamps[others[i]];
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

enum outcome { STARTED, BLOCKED, UNKNOWN };

/* The host's times are on its own clock, which may be a little ahead of the device's: work that was not blocked ended
 * long before, blocked work had not ended then. If the host polled at neither time, the result is unknown. */
static enum outcome outcome_of(const struct bench *bench, int blocker, int other) {
    const int64_t *stamps = bench->stamps[other], end_ns = bench->stamps[blocker][1];
    if (!bench->done[other]) return stamps[0] >= end_ns ? BLOCKED : STARTED;
    const int64_t border_ns = end_ns - bench->hold_ns / 6;
    if (stamps[0] >= border_ns) return BLOCKED;
    return stamps[1] < border_ns ? STARTED : UNKNOWN;
}

static aorta_status queue_round(struct bench *bench, int blocker, bool followed, const int *others, int count) {
    AORTA_TRY(aorta_spin(bench->streams[blocker], bench->hold_ns, bench->stamps[blocker]));
    if (followed) AORTA_TRY(work(bench, blocker));
    for (int i = 0; i < count; i++) AORTA_TRY(touch(bench, others[i]));
    return NULL;
}

/* *valid: everything was queued well before the long kernel ended, and every result is known. */
static aorta_status try_round(struct bench *bench, int blocker, bool followed, const int *others, int count,
                              bool *blocked, bool *valid) {
    AORTA_TRY(queue_round(bench, blocker, followed, others, count));
    int64_t launch_ns = aorta_device_now_ns(bench->options->device);
    poll_ends(bench, others, count);
    AORTA_TRY(aorta_stream_synchronize(bench->streams[blocker]));
    for (int i = 0; i < count; i++) AORTA_TRY(aorta_stream_synchronize(bench->streams[others[i]]));
    *valid = launch_ns < bench->stamps[blocker][1] - bench->hold_ns / 3;
    for (int i = 0; i < count; i++) {
        enum outcome outcome = outcome_of(bench, blocker, others[i]);
        blocked[i] = outcome == BLOCKED;
        if (outcome == UNKNOWN) *valid = false;
    }
    return NULL;
}

static aorta_status run_probe(void *context, int blocker, bool followed, const int *others, int count, bool *blocked) {
    struct bench *bench = context;
    for (int attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
        bool valid;
        AORTA_TRY(try_round(bench, blocker, followed, others, count, blocked, &valid));
        if (valid) return NULL;
        if (bench->hold_ns < longest_hold_ns) bench->hold_ns *= 2;
    }
    return AORTA_ERROR(AORTA_TIMEOUT,
                       "in %d attempts the host was too late to queue %d kernels, or to see which copies end, while "
                       "the streams were blocked for %.0f ms; is the machine busy?",
                       MOST_ATTEMPTS, count + 2, (double)bench->hold_ns * 1e-6);
}

static void lengthen(void *context) {
    struct bench *bench = context;
    if (bench->hold_ns < longest_lengthened_ns) bench->hold_ns += bench->hold_ns / 4;
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

/* Some drivers assign a stream's queue at its first use: here, in order. */
static aorta_status make_streams(struct bench *bench) {
    for (int i = 0; i < bench->map->count; i++) {
        const struct aorta_map_stream *stream = &bench->map->streams[i];
        AORTA_TRY(aorta_stream_create(bench->options->device, stream->name, stream->priority, &bench->streams[i]));
        if (stream->role != AORTA_MAP_COMPUTE && aorta_device_is_gpu(bench->options->device))
            AORTA_TRY(aorta_event_create_untimed(bench->options->device, &bench->done[i]));
        AORTA_TRY(touch(bench, i));
        AORTA_TRY(aorta_stream_synchronize(bench->streams[i]));
    }
    return NULL;
}

static aorta_status make_memory(struct bench *bench) {
    struct aorta_device *device = bench->options->device;
    size_t count = (size_t)bench->map->count;
    void *stamps;
    AORTA_TRY(aorta_pinned_alloc(device, count * sizeof *bench->stamps, "stamps of the map", &stamps));
    bench->stamps = stamps;
    AORTA_TRY(aorta_pinned_alloc(device, TOUCH_BYTES, "bytes that are copied", &bench->host));
    memset(bench->host, 0, TOUCH_BYTES);
    for (int i = 0; i < 2; i++)
        AORTA_TRY(aorta_device_alloc(device, count * TOUCH_BYTES, "bytes that are copied", &bench->memory[i]));
    return NULL;
}

static void end_bench(struct bench *bench) {
    struct aorta_device *device = bench->options->device;
    for (int i = bench->map->count; i-- > 0;) {
        if (bench->streams[i]) aorta_stream_destroy(bench->streams[i]);
        if (bench->done[i]) aorta_event_destroy(bench->done[i]);
    }
    aorta_pinned_free(device, bench->stamps);
    aorta_pinned_free(device, bench->host);
    for (int i = 0; i < 2; i++) aorta_device_free(device, bench->memory[i]);
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
    struct bench bench = {
        .options = options, .map = map, .hold_ns = first_hold_ns[aorta_device_get_info(options->device)->kind]};
    bench.streams = aorta_arena_alloc(&map->arena, (size_t)map->count * sizeof(struct aorta_stream *));
    bench.done = aorta_arena_alloc(&map->arena, (size_t)map->count * sizeof(struct aorta_event *));
    aorta_status status = NULL;
    if (!map->streams || !bench.streams || !bench.done)
        status = AORTA_ERROR(AORTA_MEMORY, "no memory for the map of %d streams", map->count);
    if (!status) {
        name_streams(options, map);
        status = make_memory(&bench);
        if (!status) status = make_streams(&bench);
        const struct aorta_map_probe probe = {&bench, run_probe, lengthen};
        if (!status) status = aorta_map_find_pairs(&options->pairs, &probe, map);
        end_bench(&bench);
        map->hold_ns = bench.hold_ns;
    }
    if (status) aorta_map_free(map);
    return aorta_annotate(status, "the map of queues");
}

void aorta_map_free(struct aorta_map *map) {
    aorta_arena_free(&map->arena);
    *map = (struct aorta_map){0};
}
