/* Points of all calls, spans and arrivals at collectives; their edges are made by the other files of
 * graph_build_internal.h. */
#include "base/sort.h"
#include "base/statistics.h"
#include "replay/graph_build_internal.h"

#include <math.h>
#include <stdlib.h>

/* ---- orders ---- */

struct key {
    int64_t at;
    uint32_t row;
};

static int key_order(const void *left, const void *right) {
    const struct key *a = left, *b = right;
    if (a->at != b->at) return a->at < b->at ? -1 : 1;
    return (a->row > b->row) - (a->row < b->row);
}

static int64_t launch_key(const struct aorta_replay_span *span) {
    return span->launch; /* NONE is the largest */
}

static int64_t end_key(const struct aorta_replay_span *span) {
    return span->end_ns;
}

static aorta_status sorted_rows(const struct aorta_replay_rank *rank, int64_t (*key)(const struct aorta_replay_span *),
                                uint32_t **rows) {
    struct key *keys = malloc(((size_t)rank->span_count + 1) * sizeof *keys);
    *rows = malloc(((size_t)rank->span_count + 1) * sizeof **rows);
    if (!keys || !*rows) {
        free(keys);
        return AORTA_ERROR(AORTA_MEMORY, "no memory to sort %u spans", rank->span_count);
    }
    for (uint32_t i = 0; i < rank->span_count; i++) keys[i] = (struct key){key(&rank->spans[i]), i};
    if (rank->span_count) qsort(keys, rank->span_count, sizeof *keys, key_order);
    for (uint32_t i = 0; i < rank->span_count; i++) (*rows)[i] = keys[i].row;
    free(keys);
    return NULL;
}

uint32_t aorta_last_ended(const struct aorta_graph_builder *builder, uint32_t rank, int64_t after_ns, int64_t until_ns,
                          uint32_t before, uint32_t except) {
    enum { LOOK_BACK = 64 };
    const struct aorta_replay_rank *one = &builder->recording->ranks[rank];
    const uint32_t *by_end = builder->by_end[rank];
    uint32_t low = 0, high = one->span_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (one->spans[by_end[middle]].end_ns <= until_ns)
            low = middle + 1;
        else
            high = middle;
    }
    for (uint32_t i = 0; i < LOOK_BACK && low > 0; i++) {
        uint32_t row = by_end[--low];
        const struct aorta_replay_span *span = &one->spans[row];
        if (span->end_ns <= after_ns) return AORTA_GRAPH_NONE;
        if (row != except && (before == AORTA_GRAPH_NONE || span->launch == AORTA_GRAPH_NONE || span->launch < before))
            return row;
    }
    return AORTA_GRAPH_NONE;
}

/* ---- usual lags ---- */

enum { SAMPLES = 4096, LONGEST_USUAL_NS = 50000 };

struct samples {
    int64_t values[SAMPLES];
    size_t count;
};

/* The lower quartile, since what else delays a span only adds. */
static int64_t usual(struct samples *samples, int64_t otherwise) {
    if (!samples->count) return otherwise;
    aorta_sort_int64(samples->values, samples->count);
    return llround(aorta_percentile_int64(samples->values, samples->count, 25));
}

static void add_sample(struct samples *samples, int64_t value) {
    if (value >= 0 && value <= LONGEST_USUAL_NS && samples->count < SAMPLES) samples->values[samples->count++] = value;
}

/* A span that was launched well before the one before it ended shows the stream's lag, one launched to an idle stream
 * that of the launch. */
static aorta_status measure_usual(const struct aorta_graph_builder *builder, uint32_t rank, struct aorta_usual *lags) {
    enum { STREAM_NS = 1000, LAUNCH_NS = 5000 };
    const struct aorta_replay_rank *one = &builder->recording->ranks[rank];
    struct samples *samples = calloc(2, sizeof *samples);
    int64_t *end_ns = malloc(((size_t)one->stream_count + 1) * sizeof *end_ns);
    if (!samples || !end_ns) {
        free(samples);
        free(end_ns);
        return AORTA_ERROR(AORTA_MEMORY, "no memory for the lags of %u streams", one->stream_count);
    }
    for (uint32_t i = 0; i < one->stream_count; i++) end_ns[i] = INT64_MIN;
    for (uint32_t i = 0; i < one->span_count; i++) {
        const struct aorta_replay_span *span = &one->spans[i];
        int64_t before_ns = end_ns[span->stream];
        end_ns[span->stream] = span->end_ns;
        bool waits = one->first_wait && one->first_wait[i] < one->first_wait[i + 1];
        if (span->launch == AORTA_GRAPH_NONE || before_ns == INT64_MIN || waits) continue;
        int64_t launch_ns = builder->recording->hosts[one->host].calls[span->launch].start_ns;
        if (launch_ns > before_ns)
            add_sample(&samples[1], span->start_ns - launch_ns);
        else if (launch_ns + 2 * LAUNCH_NS < before_ns)
            add_sample(&samples[0], span->start_ns - before_ns);
    }
    lags->stream_ns = lags->dependency_ns = usual(&samples[0], STREAM_NS);
    lags->launch_ns = usual(&samples[1], LAUNCH_NS);
    free(samples);
    free(end_ns);
    return NULL;
}

/* ---- points ---- */

static void add_host_points(struct aorta_graph_builder *builder, uint32_t host) {
    const struct aorta_replay_host *one = &builder->recording->hosts[host];
    for (uint32_t i = 0; i < one->call_count; i++) {
        uint32_t subject = aorta_subject_make(AORTA_SUBJECT_CALL, i);
        uint32_t point = aorta_graph_point(builder->graph, one->calls[i].start_ns, one->rank, subject, false);
        if (!i) builder->first_call[host] = point;
        (void)aorta_graph_point(builder->graph, one->calls[i].end_ns, one->rank, subject, false);
    }
}

static void add_span_points(struct aorta_graph_builder *builder, uint32_t rank) {
    const struct aorta_replay_rank *one = &builder->recording->ranks[rank];
    for (uint32_t i = 0; i < one->span_count; i++) {
        uint32_t subject = aorta_subject_make(AORTA_SUBJECT_SPAN, i);
        uint32_t point = aorta_graph_point(builder->graph, one->spans[i].start_ns, rank, subject, false);
        if (!i) builder->first_span[rank] = point;
        (void)aorta_graph_point(builder->graph, one->spans[i].end_ns, rank, subject, true);
    }
}

static void set_mark(struct aorta_graph_builder *builder, uint32_t rank) {
    const struct aorta_replay_rank *one = &builder->recording->ranks[rank];
    if (one->bounds.from_ns <= one->bounds.start_ns) return;
    for (uint32_t i = 0; i < one->span_count; i++) {
        if (one->spans[i].end_ns != one->bounds.from_ns) continue;
        aorta_graph_mark(builder->graph, rank, aorta_span_end(builder, rank, i));
        return;
    }
}

/* The moment when the last rank has arrived; its point belongs to that rank. */
static aorta_status add_arrivals(struct aorta_graph_builder *builder) {
    const struct aorta_recording *recording = builder->recording;
    struct key *last = malloc(((size_t)recording->collective_count + 1) * sizeof *last);
    if (!last) return AORTA_ERROR(AORTA_MEMORY, "no memory for %u collectives", recording->collective_count);
    for (uint32_t i = 0; i < recording->collective_count; i++) last[i] = (struct key){INT64_MIN, 0};
    for (uint32_t r = 0; r < recording->rank_count; r++) {
        for (uint32_t i = 0; i < recording->ranks[r].span_count; i++) {
            const struct aorta_replay_span *span = &recording->ranks[r].spans[i];
            if (span->collective != AORTA_GRAPH_NONE && span->start_ns > last[span->collective].at)
                last[span->collective] = (struct key){span->start_ns, r};
        }
    }
    for (uint32_t i = 0; i < recording->collective_count; i++) {
        uint32_t subject = aorta_subject_make(AORTA_SUBJECT_ARRIVAL, i);
        uint32_t point = aorta_graph_point(builder->graph, last[i].at, last[i].row, subject, false);
        if (!i) builder->first_arrival = point;
    }
    free(last);
    return NULL;
}

/* ---- all of it ---- */

/* Calls and spans, which have two points each. */
static uint64_t count_rows(const struct aorta_recording *recording) {
    uint64_t rows = 0;
    for (uint32_t i = 0; i < recording->host_count; i++) rows += recording->hosts[i].call_count;
    for (uint32_t i = 0; i < recording->rank_count; i++) rows += recording->ranks[i].span_count;
    return rows;
}

static aorta_status check_size(const struct aorta_recording *recording) {
    const uint64_t limit = UINT64_C(1) << 29; /* a span has up to three points, a point's edges are some four */
    const uint64_t rows = count_rows(recording) + recording->collective_count;
    if (rows < limit) return NULL;
    return AORTA_ERROR(AORTA_UNSUPPORTED, "%llu calls and spans are more than a replay can number",
                       (unsigned long long)rows);
}

/* Points are as many as that; edges are mostly fewer than seven for four points. What grows instead leaves holes of the
 * sizes that it had. */
static void reserve(struct aorta_graph_builder *builder) {
    const uint64_t points = 2 * count_rows(builder->recording) + builder->recording->collective_count;
    aorta_graph_reserve(builder->graph, (uint32_t)points, (uint32_t)(points * 7 / 4));
}

static aorta_status assemble(struct aorta_graph_builder *builder) {
    const struct aorta_recording *recording = builder->recording;
    for (uint32_t i = 0; i < recording->rank_count; i++) {
        AORTA_TRY(sorted_rows(&recording->ranks[i], launch_key, &builder->launched[i]));
        AORTA_TRY(sorted_rows(&recording->ranks[i], end_key, &builder->by_end[i]));
        AORTA_TRY(measure_usual(builder, i, &builder->usual[i]));
    }
    for (uint32_t i = 0; i < recording->host_count; i++) add_host_points(builder, i);
    for (uint32_t i = 0; i < recording->rank_count; i++) {
        add_span_points(builder, i);
        set_mark(builder, i);
    }
    AORTA_TRY(add_arrivals(builder));
    AORTA_TRY(aorta_compare_runs(builder));
    for (uint32_t i = 0; i < recording->host_count; i++) AORTA_TRY(aorta_graph_add_host(builder, i));
    aorta_place_pauses(builder);
    for (uint32_t i = 0; i < recording->rank_count; i++) {
        AORTA_TRY(aorta_graph_add_spans(builder, i));
        AORTA_TRY(aorta_graph_add_order(builder, i));
    }
    return NULL;
}

aorta_status aorta_graph_make_unfinished(const struct aorta_recording *recording, struct aorta_graph *graph) {
    uint32_t ranks = recording->rank_count;
    *graph = (struct aorta_graph){0};
    AORTA_TRY(check_size(recording));
    struct aorta_graph_builder builder = {.recording = recording,
                                          .graph = graph,
                                          .first_call = calloc((size_t)recording->host_count + 1, sizeof(uint32_t)),
                                          .first_span = calloc((size_t)ranks + 1, sizeof(uint32_t)),
                                          .launched = calloc((size_t)ranks + 1, sizeof(uint32_t *)),
                                          .by_end = calloc((size_t)ranks + 1, sizeof(uint32_t *)),
                                          .runs = calloc((size_t)ranks + 1, sizeof *builder.runs),
                                          .usual = calloc((size_t)ranks + 1, sizeof *builder.usual)};
    struct aorta_graph_rank *bounds = calloc((size_t)ranks + 1, sizeof *bounds);
    aorta_status status = NULL;
    if (!builder.first_call || !builder.first_span || !builder.launched || !builder.by_end || !builder.usual ||
        !builder.runs || !bounds)
        status = AORTA_ERROR(AORTA_MEMORY, "no memory for the graph of %u ranks", ranks);
    for (uint32_t i = 0; !status && i < ranks; i++) bounds[i] = recording->ranks[i].bounds;
    if (!status) status = aorta_graph_begin(graph, bounds, ranks);
    if (!status) reserve(&builder);
    if (!status) status = assemble(&builder);
    for (uint32_t i = 0; i < ranks && builder.launched && builder.by_end && builder.runs; i++) {
        free(builder.runs[i]);
        free(builder.launched[i]);
        free(builder.by_end[i]);
    }
    free(builder.first_call);
    free(builder.first_span);
    free(builder.launched);
    free(builder.by_end);
    free(builder.usual);
    free(builder.runs);
    free(builder.pauses);
    free(bounds);
    if (status) aorta_graph_free(graph);
    return status;
}

aorta_status aorta_graph_make(const struct aorta_recording *recording, struct aorta_graph *graph) {
    AORTA_TRY(aorta_graph_make_unfinished(recording, graph));
    aorta_status status = aorta_graph_finish(graph);
    if (status) aorta_graph_free(graph);
    return status;
}
