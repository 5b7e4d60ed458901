#include "hwq/probe.h"
#include "hwq/kept.h"
#include "hwq/kernels/kernels.h"
#include "hwq/kernels/tiny.h"
#include "hwq/pass.h"

#include <math.h>

enum { LINKS = 64, ROUNDS = 8, ELEMENTS = 256 };

struct probe {
    float *values; /* device memory; the chain reads and writes it, as one kernel waits for the other */
    struct aorta_event *events[AORTA_HWQ_MAX_STREAMS];
    const enum aorta_priority *priorities;
    int stream_count;
    struct aorta_hwq_book *book; /* NULL: nothing is kept */
    struct aorta_hwq_samples stay, go, same, across;
    struct aorta_hwq_samples pairs[AORTA_HWQ_MAX_STREAMS]; /* by the stream that is gone over to */
};

static aorta_status link_chain(struct aorta_hwq *hwq, const struct probe *probe, int stream) {
    const struct aorta_hwq_multiply_add args = {
        .x = probe->values, .y = probe->values, .count = ELEMENTS, .factor = 0.5f, .addend = 1.0f};
    return aorta_hwq_launch(hwq, stream, &aorta_hwq_kernel_multiply_add, &args, sizeof args);
}

static aorta_status iterate(struct aorta_hwq *hwq, void *state) {
    const struct probe *probe = state;
    for (int i = 0; i < LINKS; i++) AORTA_TRY(link_chain(hwq, probe, 0));
    for (int i = 1; i <= LINKS; i++) {
        const int before = (i - 1) % hwq->stream_count, stream = i % hwq->stream_count;
        AORTA_TRY(aorta_hwq_after(hwq, stream, probe->events[before], before));
        AORTA_TRY(link_chain(hwq, probe, stream));
    }
    return NULL;
}

/* Of a hand-over to `to` from the stream before it. */
static aorta_status add_hand_over(struct probe *probe, int to, double gap) {
    const int from = (to + probe->stream_count - 1) % probe->stream_count;
    struct aorta_hwq_samples *kind = probe->priorities[from] == probe->priorities[to] ? &probe->same : &probe->across;
    AORTA_TRY(aorta_hwq_samples_add(kind, gap));
    AORTA_TRY(aorta_hwq_samples_add(&probe->pairs[to], gap));
    return aorta_hwq_samples_add(&probe->go, gap);
}

/* Stamps come in the order of launches. The first kernel of the second chain goes over, too. */
static aorta_status see(void *user, const struct aorta_hwq_spans *spans) {
    struct probe *probe = user;
    if (spans->unstamped)
        return AORTA_ERROR(AORTA_DEVICE, "%zu of %d kernels left no stamp", spans->unstamped, 2 * LINKS);
    if (probe->book) AORTA_TRY(aorta_hwq_book_add(probe->book, AORTA_HWQ_PASS_PROBE, spans));
    for (size_t i = 1; i < 2 * LINKS; i++) {
        const double gap = (double)(spans->items[i].start_ns - spans->items[i - 1].end_ns);
        if (i == LINKS) continue; /* so that both chains have as many */
        AORTA_TRY(i < LINKS ? aorta_hwq_samples_add(&probe->stay, gap)
                            : add_hand_over(probe, spans->items[i].stream, gap));
    }
    return NULL;
}

static aorta_status measure(struct aorta_hwq *hwq, struct probe *probe) {
    const struct aorta_hwq_plan plan = {.gate = true, .iterations = ROUNDS, .iterate = iterate, .state = probe};
    AORTA_TRY(aorta_hwq_alloc(hwq, ELEMENTS * sizeof(float), "the probe's values", (void **)&probe->values));
    AORTA_TRY(aorta_fill_bytes(hwq->streams[0], probe->values, 0, ELEMENTS * sizeof(float)));
    AORTA_TRY(aorta_stream_synchronize(hwq->streams[0]));
    for (int s = 0; s < hwq->stream_count; s++) AORTA_TRY(aorta_hwq_event(hwq, &probe->events[s]));
    return aorta_hwq_pass_stamp(hwq, &plan, see, probe);
}

static struct aorta_hwq_probe conclude(const struct probe *probe) {
    struct aorta_hwq_probe found = {.stay_ns = aorta_hwq_samples_median(&probe->stay),
                                    .go_ns = aorta_hwq_samples_median(&probe->go),
                                    .samples = probe->go.count,
                                    .same = {aorta_hwq_samples_median(&probe->same), probe->same.count},
                                    .across = {aorta_hwq_samples_median(&probe->across), probe->across.count},
                                    .quickest = {.median_ns = NAN},
                                    .slowest = {.median_ns = NAN}};
    for (int to = 0; to < probe->stream_count; to++) {
        const int from = (to + probe->stream_count - 1) % probe->stream_count;
        const double median = aorta_hwq_samples_median(&probe->pairs[to]);
        if (isnan(median)) continue;
        if (!(found.quickest.median_ns <= median)) {
            found.quickest.from = from, found.quickest.to = to;
            found.quickest.median_ns = median;
        }
        if (!(found.slowest.median_ns >= median)) {
            found.slowest.from = from, found.slowest.to = to;
            found.slowest.median_ns = median;
        }
    }
    return found;
}

static void free_samples(struct probe *probe) {
    aorta_hwq_samples_free(&probe->stay);
    aorta_hwq_samples_free(&probe->go);
    aorta_hwq_samples_free(&probe->same);
    aorta_hwq_samples_free(&probe->across);
    for (int s = 0; s < AORTA_HWQ_MAX_STREAMS; s++) aorta_hwq_samples_free(&probe->pairs[s]);
}

aorta_status aorta_hwq_probe_run(struct aorta_hwq *given, const enum aorta_priority *priorities,
                                 struct aorta_hwq_book *book, struct aorta_hwq_probe *found) {
    struct aorta_hwq hwq = *given; /* what the probe makes is kept apart, and goes with it */
    const enum aorta_priority alone[] = {priorities[0], priorities[0]};
    struct probe probe = {.priorities = priorities, .book = book};
    struct aorta_stream *second = NULL;
    hwq.kept = NULL;
    aorta_status status = aorta_hwq_kept_create(&hwq);
    if (!status && hwq.stream_count == 1) {
        status = aorta_stream_create(hwq.device, "probe", priorities[0], &second);
        probe.priorities = alone;
        hwq.streams[1] = second;
        if (!status) hwq.stream_count = 2;
    }
    probe.stream_count = hwq.stream_count;
    if (!status) status = measure(&hwq, &probe);
    given->gates = hwq.gates;
    *found = conclude(&probe);
    aorta_hwq_kept_destroy(&hwq);
    aorta_stream_destroy(second);
    free_samples(&probe);
    return aorta_annotate(status, "the cost of going over to another stream");
}
