/* Measures whether copies on two streams run side by side. */
#include "base/statistics.h"
#include "hwq/map.h"
#include "ops/ops.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_SAMPLES = 128 };
static const int64_t head_start_ns = 300000; /* both copies are queued before this kernel ends */

struct lane { /* one of the two streams */
    struct aorta_stream *stream;
    void *host, *memory[2];
};

struct copies {
    struct aorta_device *device;
    size_t bytes;
    struct lane lanes[2];
    struct aorta_stream *gate;
    struct aorta_event *open;
    int64_t (*stamps)[2]; /* pinned, of each lane */
};

const char *aorta_map_copy_name(enum aorta_map_copy kind) {
    static const char *const names[AORTA_MAP_COPY_COUNT] = {"h2d", "d2h", "d2d"};
    return names[kind];
}

const char *aorta_map_copies_verdict_name(enum aorta_map_copies_verdict verdict) {
    static const char *const names[] = {"side by side", "share the bandwidth", "one after the other",
                                        "differs between repeats"};
    return names[verdict];
}

/* Serial copies: the first one ends as if it were alone. Copies that share a path: both end late. */
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

/* kinds[1] AORTA_MAP_COPY_COUNT: the first one alone. Times are from the first start: *first the earlier end. */
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

/* Each alone and both together in turn, so that what changes meanwhile, a clock or other load, changes all alike. */
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
    void *stamps;
    AORTA_TRY(aorta_pinned_alloc(copies->device, 2 * sizeof *copies->stamps, "stamps of copies", &stamps));
    copies->stamps = stamps;
    AORTA_TRY(aorta_stream_create(copies->device, "gate", AORTA_PRIORITY_NORMAL, &copies->gate));
    AORTA_TRY(aorta_event_create_untimed(copies->device, &copies->open));
    for (int i = 0; i < 2; i++) {
        struct lane *lane = &copies->lanes[i];
        AORTA_TRY(aorta_stream_create(copies->device, "copies", AORTA_PRIORITY_NORMAL, &lane->stream));
        AORTA_TRY(aorta_pinned_alloc(copies->device, copies->bytes, "bytes that are copied", &lane->host));
        for (int k = 0; k < 2; k++) {
            AORTA_TRY(aorta_device_alloc(copies->device, copies->bytes, "bytes that are copied", &lane->memory[k]));
            AORTA_TRY(aorta_fill_bytes(lane->stream, lane->memory[k], 1, copies->bytes)); /* its pages exist */
        }
        AORTA_TRY(aorta_copy(lane->stream, lane->host, lane->memory[0], copies->bytes));
        AORTA_TRY(aorta_stream_synchronize(lane->stream));
    }
    return NULL;
}

static void close(struct copies *copies) {
    for (int i = 0; i < 2; i++) {
        struct lane *lane = &copies->lanes[i];
        if (lane->stream) aorta_stream_destroy(lane->stream);
        aorta_pinned_free(copies->device, lane->host);
        for (int k = 0; k < 2; k++) aorta_device_free(copies->device, lane->memory[k]);
    }
    if (copies->open) aorta_event_destroy(copies->open);
    if (copies->gate) aorta_stream_destroy(copies->gate);
    aorta_pinned_free(copies->device, copies->stamps);
}

aorta_status aorta_map_copies_measure(struct aorta_device *device, size_t bytes, int samples,
                                      struct aorta_map_copies *found) {
    if (samples < 1 || samples > MOST_SAMPLES)
        return AORTA_ERROR(AORTA_USAGE, "copies are measured 1 to %d times, not %d", MOST_SAMPLES, samples);
    *found = (struct aorta_map_copies){.bytes = bytes, .samples = samples};
    struct copies copies = {.device = device, .bytes = bytes};
    aorta_status status = open(&copies);
    if (!status) status = measure_all(&copies, samples, found);
    close(&copies);
    return aorta_annotate(status, "copies on two streams");
}
