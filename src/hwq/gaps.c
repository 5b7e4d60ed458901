#include "hwq/gaps.h"
#include "base/array.h"
#include "base/statistics.h"
#include "hwq/graph.h"
#include "hwq/iterations.h"
#include "hwq/kernels/kernels.h"
#include "hwq/objects.h"

#include <math.h>
#include <stdlib.h>

aorta_status aorta_hwq_samples_add(struct aorta_hwq_samples *samples, double value) {
    AORTA_TRY(aorta_array_reserve(&samples->items, &samples->capacity, samples->count + 1, sizeof *samples->items,
                                  "samples"));
    samples->items[samples->count++] = value;
    return NULL;
}

void aorta_hwq_samples_free(struct aorta_hwq_samples *samples) {
    free(samples->items);
    *samples = (struct aorta_hwq_samples){0};
}

double aorta_hwq_samples_median(const struct aorta_hwq_samples *samples) {
    return aorta_summarise(samples->items, samples->count).p50;
}

void aorta_hwq_gaps_free(struct aorta_hwq_gaps *gaps) {
    aorta_hwq_samples_free(&gaps->inter);
    aorta_hwq_samples_free(&gaps->intra);
    aorta_hwq_samples_free(&gaps->host_inter);
    aorta_hwq_samples_free(&gaps->host_intra);
}

/* ---- one iteration ---- */

struct iteration {
    struct aorta_hwq_gaps *gaps;
    struct aorta_span *work; /* without calls of the host */
    int64_t *call_ends;
    size_t work_count, call_count;
};

static bool is_caused_by_host(const struct iteration *iteration, const struct aorta_span *before,
                              const struct aorta_span *after) {
    if (after->launch_ns > before->end_ns) return true;
    for (size_t i = 0; i < iteration->call_count; i++)
        if (iteration->call_ends[i] > before->end_ns && iteration->call_ends[i] <= after->start_ns) return true;
    return false;
}

static aorta_status add_gap(void *user, const struct aorta_span *before, const struct aorta_span *after) {
    const struct iteration *iteration = user;
    struct aorta_hwq_gaps *gaps = iteration->gaps;
    const bool host = is_caused_by_host(iteration, before, after);
    struct aorta_hwq_samples *intra = host ? &gaps->host_intra : &gaps->intra;
    struct aorta_hwq_samples *inter = host ? &gaps->host_inter : &gaps->inter;
    return aorta_hwq_samples_add(before->stream == after->stream ? intra : inter,
                                 (double)(after->start_ns - before->end_ns));
}

static void split_spans(struct iteration *iteration, const struct aorta_hwq_spans *spans) {
    for (size_t i = 0; i < spans->count; i++)
        if (spans->items[i].kind == AORTA_SPAN_HOST)
            iteration->call_ends[iteration->call_count++] = spans->items[i].end_ns;
        else
            iteration->work[iteration->work_count++] = spans->items[i];
}

aorta_status aorta_hwq_gaps_add(struct aorta_hwq_gaps *gaps, const struct aorta_hwq_spans *spans) {
    struct iteration iteration = {.gaps = gaps};
    iteration.work = malloc((spans->count + 1) * sizeof *iteration.work);
    iteration.call_ends = malloc((spans->count + 1) * sizeof *iteration.call_ends);
    aorta_status status = NULL;
    if (!iteration.work || !iteration.call_ends)
        status = AORTA_ERROR(AORTA_MEMORY, "no host memory for the gaps of %zu kernels", spans->count);
    if (!status) {
        split_spans(&iteration, spans);
        status = aorta_gaps_on_streams(iteration.work, iteration.work_count, add_gap, &iteration);
    }
    if (!status) status = aorta_gaps_between_streams(iteration.work, iteration.work_count, add_gap, &iteration);
    free(iteration.work);
    free(iteration.call_ends);
    return status;
}

/* ---- the probe ----
 * Tiny kernels in a row on one stream, then a chain in which each kernel waits by an event for the
 * previous one on the previous stream. Both run after a gate. The difference of their gaps is the overhead of a switch.
 */

enum { LINKS = 64, ROUNDS = 8, ELEMENTS = 256 };

struct probe {
    const enum aorta_priority *priorities;
    int stream_count;
    struct aorta_hwq_stamps_file *file; /* may be NULL */
    struct aorta_hwq_samples intra, inter, same, across;
    struct aorta_hwq_samples pairs[AORTA_HWQ_MAX_STREAMS]; /* by the second stream */
};

static const struct hwq_kind link_kind = {.name = "aorta_hwq_multiply_add", .span = AORTA_SPAN_KERNEL};

/* Each kernel reads the result of the previous one, and so waits for it. */
static void add_link(struct hwq_graph *g, int stream, struct hwq_tensor values) {
    float *x = hwq_floats(values);
    const struct aorta_hwq_multiply_add args = {.x = x, .y = x, .count = ELEMENTS, .factor = 0.5f, .addend = 1.0f};
    const struct hwq_operation o = {.kind = &link_kind, .stream = stream, .in = {values}, .out = {values}};
    hwq_append_kernel(g, &o, &aorta_hwq_kernel_multiply_add, &args, sizeof args);
}

static void build(struct hwq_graph *g) {
    const struct hwq_tensor values = hwq_constant(g, AORTA_F32, 1, ELEMENTS, NULL, "the probe's values");
    for (int i = 0; i < LINKS; i++) add_link(g, 0, values);
    for (int i = 1; i <= LINKS; i++) add_link(g, i % g->hwq->stream_count, values);
}

/* A switch to stream `to` from the previous stream. */
static aorta_status add_switch(struct probe *probe, int to, double gap) {
    const int from = (to + probe->stream_count - 1) % probe->stream_count;
    const bool same = probe->priorities[from] == probe->priorities[to];
    AORTA_TRY(aorta_hwq_samples_add(same ? &probe->same : &probe->across, gap));
    AORTA_TRY(aorta_hwq_samples_add(&probe->pairs[to], gap));
    return aorta_hwq_samples_add(&probe->inter, gap);
}

/* Spans are in the order of launches. */
static aorta_status add_spans(void *user, const struct aorta_hwq_spans *spans) {
    struct probe *probe = user;
    if (spans->unstamped)
        return AORTA_ERROR(AORTA_DEVICE, "%zu of %d kernels left no stamp", spans->unstamped, 2 * LINKS);
    if (probe->file) AORTA_TRY(aorta_hwq_stamps_file_add(probe->file, AORTA_HWQ_STAMPS_PROBE, spans));
    for (size_t i = 1; i < 2 * LINKS; i++) {
        const double gap = (double)(spans->items[i].start_ns - spans->items[i - 1].end_ns);
        if (i == LINKS) continue; /* the gap between the two parts belongs to neither */
        AORTA_TRY(i < LINKS ? aorta_hwq_samples_add(&probe->intra, gap)
                            : add_switch(probe, spans->items[i].stream, gap));
    }
    return NULL;
}

static aorta_status measure(struct aorta_hwq *hwq, struct probe *probe) {
    struct hwq_graph *g;
    AORTA_TRY(hwq_graph_create(hwq, NULL, &g));
    build(g);
    AORTA_TRY(hwq_graph_finish(g));
    AORTA_TRY(aorta_stream_synchronize(hwq->streams[0])); /* the values are ready */
    const struct aorta_hwq_plan plan = {.gate = true, .iterations = ROUNDS, .iterate = hwq_graph_iterate, .state = g};
    return aorta_hwq_stamp_iterations(hwq, &plan, add_spans, probe);
}

static struct aorta_hwq_switches switches(const struct aorta_hwq_samples *samples, double intra_ms) {
    const double gap_ms = 1e-6 * aorta_hwq_samples_median(samples);
    return (struct aorta_hwq_switches){gap_ms, gap_ms - intra_ms, samples->count};
}

static struct aorta_hwq_probe medians(const struct probe *probe) {
    struct aorta_hwq_probe found = {.intra_ms = 1e-6 * aorta_hwq_samples_median(&probe->intra),
                                    .quickest = {.gap_ms = NAN},
                                    .slowest = {.gap_ms = NAN}};
    found.all = switches(&probe->inter, found.intra_ms);
    found.same_priority = switches(&probe->same, found.intra_ms);
    found.across_priorities = switches(&probe->across, found.intra_ms);
    for (int to = 0; to < probe->stream_count; to++) {
        const int from = (to + probe->stream_count - 1) % probe->stream_count;
        const struct aorta_hwq_pair pair = {from, to, 1e-6 * aorta_hwq_samples_median(&probe->pairs[to])};
        if (isnan(pair.gap_ms)) continue;
        if (!(found.quickest.gap_ms <= pair.gap_ms)) found.quickest = pair;
        if (!(found.slowest.gap_ms >= pair.gap_ms)) found.slowest = pair;
    }
    return found;
}

static void free_samples(struct probe *probe) {
    aorta_hwq_samples_free(&probe->intra);
    aorta_hwq_samples_free(&probe->inter);
    aorta_hwq_samples_free(&probe->same);
    aorta_hwq_samples_free(&probe->across);
    for (int s = 0; s < AORTA_HWQ_MAX_STREAMS; s++) aorta_hwq_samples_free(&probe->pairs[s]);
}

aorta_status aorta_hwq_probe_run(struct aorta_hwq *given, const enum aorta_priority *priorities,
                                 struct aorta_hwq_stamps_file *file, struct aorta_hwq_probe *found) {
    struct aorta_hwq hwq = *given; /* with its own objects, which end with the probe */
    const enum aorta_priority two[] = {priorities[0], priorities[0]};
    struct probe probe = {.priorities = priorities, .file = file};
    struct aorta_stream *second = NULL;
    hwq.objects = NULL;
    aorta_status status = aorta_hwq_objects_create(&hwq);
    if (!status && hwq.stream_count == 1) {
        status = aorta_stream_create(hwq.device, "probe", priorities[0], &second);
        probe.priorities = two;
        hwq.streams[1] = second;
        if (!status) hwq.stream_count = 2;
    }
    probe.stream_count = hwq.stream_count;
    if (!status) status = measure(&hwq, &probe);
    given->gates = hwq.gates;
    *found = medians(&probe);
    aorta_hwq_objects_destroy(&hwq);
    aorta_stream_destroy(second);
    free_samples(&probe);
    return aorta_annotate(status, "the overhead of a switch to another stream");
}
