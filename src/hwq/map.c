/* The map of a device's streams: creates and probes them, with kernels that stamp themselves. */
#include "hwq/map.h"
#include "base/clock.h"
#include "base/statistics.h"
#include "device/gpu.h"
#include "device/owned.h"
#include "ops/ops.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

enum {
    TOUCH_BYTES = 4096, /* size of the copies and collectives that replace a short kernel */
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
    struct aorta_owned own;
    struct aorta_stream *streams[AORTA_MAP_STREAMS];
    struct aorta_event *done[AORTA_MAP_STREAMS]; /* GPUs, not for compute: recorded after the work */
    int64_t (*stamps)[2];                        /* pinned: start and end of the kernel that each stream ran last */
    void *host, *memory[2];                      /* pinned, and device memory with a piece for each stream */
    int64_t hold_ns;
};

const char *aorta_map_priority_name(int priority) {
    static const char *const names[] = {"low", "normal", "high"};
    return names[priority];
}

/* ---- one probe ---- */

/* Queues the work of the stream's role, without a stamp. */
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

/* Queues the work and writes its time to the stream's stamps. On a GPU a stamping kernel after a copy would probe the
 * queue of kernels, not of copies. So the host polls for the copy's end there (poll_ends). */
static aorta_status touch(struct bench *bench, int index) {
    struct aorta_stream *stream = bench->streams[index];
    if (bench->map->streams[index].role == AORTA_MAP_COMPUTE) return aorta_spin(stream, 0, bench->stamps[index]);
    AORTA_TRY(work(bench, index));
    if (bench->done[index]) return aorta_event_record(bench->done[index], stream);
    return aorta_timestamp(stream, &bench->stamps[index][0]);
}

/* The host polls for the end of work without stamps. The stamps are the last poll before the end (0: none) and the poll
 * that found the end. */
static void poll_ends(struct bench *bench, const int *probed, int count) {
    for (int i = 0; i < count; i++)
        if (bench->done[probed[i]]) memset(bench->stamps[probed[i]], 0, sizeof *bench->stamps);
    for (bool missing = true; missing;) {
        missing = false;
        for (int i = 0; i < count; i++) {
            struct aorta_event *done = bench->done[probed[i]];
            int64_t *stamps = bench->stamps[probed[i]];
            if (!done || stamps[1]) continue;
            int64_t before_ns = aorta_clock_ns();
            if (aorta_event_done(done)) {
                stamps[1] = aorta_clock_ns();
            } else {
                stamps[0] = before_ns;
                missing = true;
            }
        }
        if (missing) sched_yield();
    }
}

enum outcome { STARTED, BLOCKED, UNKNOWN };

/* The host's clock may be a little ahead of the device's. Work that was not blocked ended long before the blocker, and
 * blocked work had not ended then. If the host polled at neither time, the result is unknown. */
static enum outcome outcome_of(const struct bench *bench, int blocker, int other) {
    const int64_t *stamps = bench->stamps[other], end_ns = bench->stamps[blocker][1];
    if (!bench->done[other]) return stamps[0] >= end_ns ? BLOCKED : STARTED;
    const int64_t border_ns = end_ns - bench->hold_ns / 6;
    if (stamps[0] >= border_ns) return BLOCKED;
    return stamps[1] < border_ns ? STARTED : UNKNOWN;
}

static aorta_status queue_round(struct bench *bench, int blocker, bool followed, const int *probed, int count) {
    AORTA_TRY(aorta_spin(bench->streams[blocker], bench->hold_ns, bench->stamps[blocker]));
    if (followed) AORTA_TRY(work(bench, blocker));
    for (int i = 0; i < count; i++) AORTA_TRY(touch(bench, probed[i]));
    return NULL;
}

/* *valid is true if everything was queued well before the long kernel ended and every result is known. */
static aorta_status try_round(struct bench *bench, int blocker, bool followed, const int *probed, int count,
                              bool *blocked, bool *valid) {
    AORTA_TRY(queue_round(bench, blocker, followed, probed, count));
    int64_t launch_ns = aorta_clock_ns();
    poll_ends(bench, probed, count);
    AORTA_TRY(aorta_stream_synchronize(bench->streams[blocker]));
    for (int i = 0; i < count; i++) AORTA_TRY(aorta_stream_synchronize(bench->streams[probed[i]]));
    *valid = launch_ns < bench->stamps[blocker][1] - bench->hold_ns / 3;
    for (int i = 0; i < count; i++) {
        enum outcome outcome = outcome_of(bench, blocker, probed[i]);
        blocked[i] = outcome == BLOCKED;
        if (outcome == UNKNOWN) *valid = false;
    }
    return NULL;
}

static aorta_status run_probe(void *context, int blocker, bool followed, const int *probed, int count, bool *blocked) {
    struct bench *bench = context;
    for (int attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
        bool valid;
        AORTA_TRY(try_round(bench, blocker, followed, probed, count, blocked, &valid));
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

static void add_streams(struct aorta_map *map, enum aorta_map_role role, enum aorta_priority priority, int count,
                        const char *prefix) {
    for (int i = 0; i < count; i++)
        map->streams[map->count++] = (struct aorta_map_stream){
            .name = aorta_arena_printf(&map->arena, "%s%d", prefix, i), .role = role, .priority = priority};
}

static void name_streams(const struct aorta_map_options *options, struct aorta_map *map) {
    for (int level = 0; level < options->priority_count; level++) {
        const enum aorta_priority priority = options->priorities[level];
        char prefix[16] = "c";
        if (options->priority_count > 1)
            snprintf(prefix, sizeof prefix, "%s.c", aorta_map_priority_name((int)priority));
        add_streams(map, AORTA_MAP_COMPUTE, priority, options->compute_streams, prefix);
    }
    add_streams(map, AORTA_MAP_COPY, AORTA_PRIORITY_NORMAL, options->copy_streams, "copy");
    add_streams(map, AORTA_MAP_COMM, AORTA_PRIORITY_NORMAL, options->comm_streams, "comm");
}

/* Some drivers assign a stream's queue at its first use, which must happen in order. */
static aorta_status make_streams(struct bench *bench) {
    for (int i = 0; i < bench->map->count; i++) {
        const struct aorta_map_stream *stream = &bench->map->streams[i];
        AORTA_TRY(aorta_stream_create(bench->options->device, stream->name, stream->priority, &bench->streams[i]));
        if (stream->role != AORTA_MAP_COMPUTE && aorta_device_is_gpu(bench->options->device))
            AORTA_TRY(aorta_own_event(&bench->own, &bench->done[i]));
        AORTA_TRY(touch(bench, i));
        AORTA_TRY(aorta_stream_synchronize(bench->streams[i]));
    }
    return NULL;
}

static aorta_status make_memory(struct bench *bench) {
    struct aorta_owned *own = &bench->own;
    size_t count = (size_t)bench->map->count;
    AORTA_TRY(aorta_own_pinned(own, count * sizeof *bench->stamps, "stamps of the map", &bench->stamps));
    AORTA_TRY(aorta_own_pinned(own, TOUCH_BYTES, "bytes that are copied", &bench->host));
    memset(bench->host, 0, TOUCH_BYTES);
    for (int i = 0; i < 2; i++)
        AORTA_TRY(aorta_own_memory(own, count * TOUCH_BYTES, "bytes that are copied", &bench->memory[i]));
    return NULL;
}

static void end_bench(struct bench *bench) {
    for (int i = bench->map->count; i-- > 0;) aorta_stream_destroy(bench->streams[i]);
    aorta_owned_free(&bench->own);
}

aorta_status aorta_map_run(const struct aorta_map_options *options, struct aorta_map *map) {
    const int count =
        options->compute_streams * options->priority_count + options->copy_streams + options->comm_streams;
    *map = (struct aorta_map){0};
    if (count < 2 || count > AORTA_MAP_STREAMS)
        return AORTA_ERROR(AORTA_USAGE, "a map needs 2 to %d streams in all; these are %d", AORTA_MAP_STREAMS, count);
    map->comm_backend = options->comm_streams ? aorta_comm_backend(options->comm) : NULL;
    map->streams = aorta_arena_alloc(&map->arena, (size_t)count * sizeof *map->streams);
    if (map->streams) name_streams(options, map);
    struct bench bench = {.options = options,
                          .map = map,
                          .own = {.device = options->device},
                          .hold_ns = first_hold_ns[aorta_device_get_info(options->device)->kind]};
    const struct aorta_map_probe probe = {&bench, run_probe, lengthen};
    aorta_status status = aorta_arena_check(&map->arena, "the map of streams");
    if (!status) status = make_memory(&bench);
    if (!status) status = make_streams(&bench);
    if (!status) status = aorta_map_find_pairs(&options->pairs, &probe, map);
    end_bench(&bench);
    map->hold_ns = bench.hold_ns;
    if (status) aorta_map_free(map);
    return aorta_annotate(status, "the map of queues");
}

void aorta_map_free(struct aorta_map *map) {
    aorta_arena_free(&map->arena);
    *map = (struct aorta_map){0};
}

/* ---- copies ---- */

enum { MOST_SAMPLES = 128 };
static const int64_t head_start_ns = 300000; /* both copies are queued before this kernel ends */

struct lane { /* one of the two streams */
    struct aorta_stream *stream;
    void *host, *memory[2];
};

struct copies {
    struct aorta_owned own;
    size_t bytes;
    struct lane lanes[2];
    struct aorta_stream *gate;
    struct aorta_event *open;
    int64_t (*stamps)[2]; /* pinned, of each lane */
};

/* With serial copies the first one ends as if it were alone. With a shared path both end late. */
enum aorta_map_copies_verdict aorta_map_copies_evaluate(const struct aorta_map_copy_pair *pair) {
    double sum = pair->alone_ms[0] + pair->alone_ms[1], shorter = fmin(pair->alone_ms[0], pair->alone_ms[1]);
    if (sum - pair->together_ms > 0.4 * shorter) return AORTA_MAP_SIDE_BY_SIDE;
    return pair->first_end_ms > 1.4 * fmax(pair->alone_ms[0], pair->alone_ms[1]) ? AORTA_MAP_SHARED_BANDWIDTH
                                                                                 : AORTA_MAP_SERIAL;
}

enum aorta_map_copies_verdict aorta_map_copies_decide(const struct aorta_map_copy_pair *repeats, size_t count) {
    static const double MOST = 0.8; /* of the repeats */
    size_t votes[AORTA_MAP_COPIES_VARY] = {0};
    for (size_t i = 0; i < count; i++) votes[aorta_map_copies_evaluate(&repeats[i])]++;
    for (int i = 0; i < AORTA_MAP_COPIES_VARY; i++)
        if ((double)votes[i] >= MOST * (double)count) return (enum aorta_map_copies_verdict)i;
    return AORTA_MAP_COPIES_VARY;
}

static aorta_status queue_copy(struct copies *copies, int at, enum aorta_map_copy kind) {
    const struct lane *lane = &copies->lanes[at];
    void *const to[] = {lane->memory[0], lane->host, lane->memory[1]};
    const void *const from[] = {lane->host, lane->memory[0], lane->memory[0]};
    AORTA_TRY(aorta_stream_wait(lane->stream, copies->open));
    AORTA_TRY(aorta_timestamp(lane->stream, &copies->stamps[at][0]));
    AORTA_TRY(aorta_copy(lane->stream, to[kind], from[kind], copies->bytes));
    return aorta_timestamp(lane->stream, &copies->stamps[at][1]);
}

/* kinds[1] AORTA_MAP_COPY_COUNT: the first copy alone. Times are from the first start; *first is the earlier end. */
static aorta_status copy_once(struct copies *copies, const enum aorta_map_copy kinds[2], double *first, double *last) {
    int count = kinds[1] == AORTA_MAP_COPY_COUNT ? 1 : 2;
    AORTA_TRY(aorta_spin(copies->gate, head_start_ns, NULL));
    AORTA_TRY(aorta_event_record(copies->open, copies->gate));
    for (int i = 0; i < count; i++) AORTA_TRY(queue_copy(copies, i, kinds[i]));
    for (int i = 0; i < count; i++) AORTA_TRY(aorta_stream_synchronize(copies->lanes[i].stream));
    AORTA_TRY(aorta_stream_synchronize(copies->gate));
    int64_t start = copies->stamps[0][0], ends[2] = {copies->stamps[0][1], copies->stamps[0][1]};
    if (count == 2) {
        if (copies->stamps[1][0] < start) start = copies->stamps[1][0];
        ends[copies->stamps[1][1] > ends[0]] = copies->stamps[1][1];
    }
    *first = (double)(ends[0] - start) * 1e-6;
    *last = (double)(ends[1] - start) * 1e-6;
    return NULL;
}

/* Each alone and both together in turn, so that a changing clock or load affects all measurements alike. */
static aorta_status measure(struct copies *copies, int samples, struct aorta_map_copy_pair *pair) {
    double firsts[MOST_SAMPLES], lasts[MOST_SAMPLES], alone[2][MOST_SAMPLES], unused;
    struct aorta_map_copy_pair repeats[MOST_SAMPLES];
    for (int i = -1; i < samples; i++) { /* the first warms up */
        const int place = i < 0 ? 0 : i;
        for (int k = 0; k < 2; k++) {
            const enum aorta_map_copy one[2] = {pair->kinds[k], AORTA_MAP_COPY_COUNT};
            AORTA_TRY(copy_once(copies, one, &unused, &alone[k][place]));
        }
        AORTA_TRY(copy_once(copies, pair->kinds, &firsts[place], &lasts[place]));
        repeats[place] = (struct aorta_map_copy_pair){
            .alone_ms = {alone[0][place], alone[1][place]}, .first_end_ms = firsts[place], .together_ms = lasts[place]};
    }
    for (int k = 0; k < 2; k++) pair->alone_ms[k] = aorta_summarise(alone[k], (size_t)samples).p50;
    pair->first_end_ms = aorta_summarise(firsts, (size_t)samples).p50;
    pair->together_ms = aorta_summarise(lasts, (size_t)samples).p50;
    pair->verdict = aorta_map_copies_decide(repeats, (size_t)samples);
    return NULL;
}

static aorta_status measure_all(struct copies *copies, int samples, struct aorta_map_copies *found) {
    struct aorta_map_copy_pair *pair = found->pairs;
    for (enum aorta_map_copy a = 0; a < AORTA_MAP_COPY_COUNT; a++) {
        for (enum aorta_map_copy b = a; b < AORTA_MAP_COPY_COUNT; b++, pair++) {
            *pair = (struct aorta_map_copy_pair){.kinds = {a, b}};
            AORTA_TRY(measure(copies, samples, pair));
        }
    }
    return NULL;
}

static aorta_status open(struct copies *copies) {
    struct aorta_owned *own = &copies->own;
    AORTA_TRY(aorta_own_pinned(own, 2 * sizeof *copies->stamps, "stamps of copies", &copies->stamps));
    AORTA_TRY(aorta_stream_create(own->device, "gate", AORTA_PRIORITY_NORMAL, &copies->gate));
    AORTA_TRY(aorta_own_event(own, &copies->open));
    for (int i = 0; i < 2; i++) {
        struct lane *lane = &copies->lanes[i];
        AORTA_TRY(aorta_stream_create(own->device, "copies", AORTA_PRIORITY_NORMAL, &lane->stream));
        AORTA_TRY(aorta_own_pinned(own, copies->bytes, "bytes that are copied", &lane->host));
        for (int k = 0; k < 2; k++) {
            AORTA_TRY(aorta_own_memory(own, copies->bytes, "bytes that are copied", &lane->memory[k]));
            AORTA_TRY(aorta_fill_bytes(lane->stream, lane->memory[k], 1, copies->bytes)); /* its pages exist */
        }
        AORTA_TRY(aorta_copy(lane->stream, lane->host, lane->memory[0], copies->bytes));
        AORTA_TRY(aorta_stream_synchronize(lane->stream));
    }
    return NULL;
}

static void close(struct copies *copies) {
    for (int i = 0; i < 2; i++) aorta_stream_destroy(copies->lanes[i].stream);
    aorta_stream_destroy(copies->gate);
    aorta_owned_free(&copies->own);
}

aorta_status aorta_map_copies_measure(struct aorta_device *device, size_t bytes, int samples,
                                      struct aorta_map_copies *found) {
    if (samples < 1 || samples > MOST_SAMPLES)
        return AORTA_ERROR(AORTA_USAGE, "copies are measured 1 to %d times, not %d", MOST_SAMPLES, samples);
    *found = (struct aorta_map_copies){.bytes = bytes, .samples = samples};
    struct copies copies = {.own = {.device = device}, .bytes = bytes};
    aorta_status status = open(&copies);
    if (!status) status = measure_all(&copies, samples, found);
    close(&copies);
    return aorta_annotate(status, "copies on two streams");
}
