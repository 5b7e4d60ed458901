/* Points of all calls, spans and arrivals at collectives, and the dependencies that a recording cannot show. The other
 * edges are made by the other files of graph_build_internal.h. */
#include "base/sort.h"
#include "base/statistics.h"
#include "replay/graph_build_internal.h"

#include <math.h>
#include <stdlib.h>

/* Dependencies that a recording cannot show: where the host launches too slowly, streams never meet, and what waits for
 * what is not seen. They matter once launches are no limit any more.
 *
 * A span is taken to depend on the one launched before it on another stream, if that one had ended before it began; but
 * not between two streams that the recording shows side by side in this direction. */

enum { MOST_STREAMS = 64, SIDE_BY_SIDE_SHARE = 20 }; /* one in so many is enough */

/* Counts for spans of stream `to` launched after one of stream `from`. */
struct pair {
    uint32_t together, all;
};

/* The last span of the launches so far, and the last one of any other stream than that. */
struct recent {
    uint32_t last, other;
};

static uint32_t launched_before(const struct aorta_replay_rank *rank, const struct recent *recent, uint32_t row) {
    if (recent->last == AORTA_GRAPH_NONE) return AORTA_GRAPH_NONE;
    return rank->spans[recent->last].stream != rank->spans[row].stream ? recent->last : recent->other;
}

static void remember(const struct aorta_replay_rank *rank, struct recent *recent, uint32_t row) {
    if (recent->last != AORTA_GRAPH_NONE && rank->spans[recent->last].stream != rank->spans[row].stream)
        recent->other = recent->last;
    recent->last = row;
}

static void add_order_edge(struct aorta_graph_builder *builder, uint32_t rank, uint32_t before, uint32_t row,
                           const struct pair *pair) {
    const struct aorta_replay_span *spans = builder->recording->ranks[rank].spans;
    if (spans[before].end_ns > spans[row].start_ns || pair->together * SIDE_BY_SIDE_SHARE > pair->all) return;
    aorta_graph_edge(builder->graph, aorta_span_end(builder, rank, before), aorta_span_start(builder, rank, row),
                     builder->usual[rank].dependency_ns, AORTA_EDGE_ORDER, true);
}

/* Counts pairs, or adds the edges of those that were counted. */
static void walk(struct aorta_graph_builder *builder, uint32_t rank, struct pair *pairs, bool adds) {
    const struct aorta_replay_rank *one = &builder->recording->ranks[rank];
    struct recent recent = {AORTA_GRAPH_NONE, AORTA_GRAPH_NONE};
    for (uint32_t i = 0; i < one->span_count; i++) {
        const uint32_t row = builder->launched[rank][i], before = launched_before(one, &recent, row);
        if (one->spans[row].launch == AORTA_GRAPH_NONE) return;
        remember(one, &recent, row);
        if (before == AORTA_GRAPH_NONE) continue;
        struct pair *pair = &pairs[one->spans[before].stream * one->stream_count + one->spans[row].stream];
        if (adds) add_order_edge(builder, rank, before, row, pair);
        pair->all += !adds;
        pair->together += !adds && one->spans[before].end_ns > one->spans[row].start_ns;
    }
}

static void graph_add_order(struct aorta_graph_builder *builder, uint32_t rank) {
    const struct aorta_replay_rank *one = &builder->recording->ranks[rank];
    if (one->first_wait || one->stream_count > MOST_STREAMS) return;
    struct pair *pairs =
        aorta_arena_alloc(&builder->memory, ((size_t)one->stream_count * one->stream_count + 1) * sizeof *pairs);
    if (!pairs) return;
    walk(builder, rank, pairs, false);
    walk(builder, rank, pairs, true);
}

/* Points of all calls, spans and arrivals at collectives; their edges are made by the other files of
 * graph_build_internal.h. */

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

static uint32_t *sorted_rows(struct aorta_graph_builder *builder, const struct aorta_replay_rank *rank,
                             int64_t (*key)(const struct aorta_replay_span *)) {
    struct aorta_arena scratch = {0};
    uint32_t *rows = aorta_arena_raw(&builder->memory, ((size_t)rank->span_count + 1) * sizeof *rows);
    struct key *keys = aorta_arena_raw(&scratch, ((size_t)rank->span_count + 1) * sizeof *keys);
    for (uint32_t i = 0; keys && i < rank->span_count; i++) keys[i] = (struct key){key(&rank->spans[i]), i};
    if (keys && rank->span_count) qsort(keys, rank->span_count, sizeof *keys, key_order);
    for (uint32_t i = 0; rows && keys && i < rank->span_count; i++) rows[i] = keys[i].row;
    aorta_arena_end(&scratch, &builder->memory);
    return rows;
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
static void measure_usual(struct aorta_graph_builder *builder, uint32_t rank, struct aorta_usual *lags) {
    enum { STREAM_NS = 1000, LAUNCH_NS = 5000 };
    const struct aorta_replay_rank *one = &builder->recording->ranks[rank];
    struct samples *samples = aorta_arena_alloc(&builder->memory, 2 * sizeof *samples);
    int64_t *end_ns = aorta_arena_alloc(&builder->memory, ((size_t)one->stream_count + 1) * sizeof *end_ns);
    if (builder->memory.failed) return;
    for (uint32_t i = 0; i < one->stream_count; i++) end_ns[i] = INT64_MIN;
    for (uint32_t i = 0; i < one->span_count; i++) {
        const struct aorta_replay_span *span = &one->spans[i];
        int64_t before_ns = end_ns[span->stream];
        end_ns[span->stream] = span->end_ns;
        bool waits = one->first_wait && one->first_wait[i] < one->first_wait[i + 1];
        if (span->launch == AORTA_GRAPH_NONE || before_ns == INT64_MIN || waits) continue;
        int64_t launch_ns = builder->recording->ranks[one->host].calls[span->launch].start_ns;
        if (launch_ns > before_ns)
            add_sample(&samples[1], span->start_ns - launch_ns);
        else if (launch_ns + 2 * LAUNCH_NS < before_ns)
            add_sample(&samples[0], span->start_ns - before_ns);
    }
    lags->stream_ns = lags->dependency_ns = usual(&samples[0], STREAM_NS);
    lags->launch_ns = usual(&samples[1], LAUNCH_NS);
}

/* ---- points ---- */

static void add_points(struct aorta_graph_builder *builder, uint32_t rank, int64_t start_ns, int64_t end_ns,
                       uint32_t subject) {
    const bool ends = aorta_subject_kind(subject) == AORTA_SUBJECT_SPAN;
    (void)aorta_graph_point(builder->graph, start_ns, rank, subject, false);
    (void)aorta_graph_point(builder->graph, end_ns, rank, subject, ends);
}

static void add_call_points(struct aorta_graph_builder *builder, uint32_t rank) {
    const struct aorta_replay_rank *one = &builder->recording->ranks[rank];
    builder->first_call[rank] = builder->graph->point_count;
    for (const struct aorta_replay_call *call = one->calls; call < one->calls + one->call_count; call++)
        add_points(builder, rank, call->start_ns, call->end_ns, aorta_subject_make(AORTA_SUBJECT_CALL, call->row));
}

static void add_span_points(struct aorta_graph_builder *builder, uint32_t rank) {
    const struct aorta_replay_rank *one = &builder->recording->ranks[rank];
    builder->first_span[rank] = builder->graph->point_count;
    for (const struct aorta_replay_span *span = one->spans; span < one->spans + one->span_count; span++)
        add_points(builder, rank, span->start_ns, span->end_ns, aorta_subject_make(AORTA_SUBJECT_SPAN, span->row));
}

static void set_mark(struct aorta_graph_builder *builder, uint32_t rank) {
    const struct aorta_replay_rank *one = &builder->recording->ranks[rank];
    if (one->bounds.from_ns <= one->bounds.start_ns) return;
    for (uint32_t i = 0; i < one->span_count; i++) {
        if (one->spans[i].end_ns != one->bounds.from_ns) continue;
        builder->graph->ranks[rank].mark = aorta_span_end(builder, rank, i);
        return;
    }
}

/* The moment when the last rank has arrived; its point belongs to that rank. */
static void add_arrivals(struct aorta_graph_builder *builder) {
    const struct aorta_recording *recording = builder->recording;
    struct key *last = aorta_arena_alloc(&builder->memory, ((size_t)recording->collective_count + 1) * sizeof *last);
    if (!last) return;
    for (uint32_t i = 0; i < recording->collective_count; i++) last[i] = (struct key){INT64_MIN, 0};
    for (uint32_t r = 0; r < recording->rank_count; r++) {
        for (uint32_t i = 0; i < recording->ranks[r].span_count; i++) {
            const struct aorta_replay_span *span = &recording->ranks[r].spans[i];
            if (span->collective != AORTA_GRAPH_NONE && span->start_ns > last[span->collective].at)
                last[span->collective] = (struct key){span->start_ns, r};
        }
    }
    builder->first_arrival = builder->graph->point_count;
    for (uint32_t i = 0; i < recording->collective_count; i++)
        (void)aorta_graph_point(builder->graph, last[i].at, last[i].row, aorta_subject_make(AORTA_SUBJECT_ARRIVAL, i),
                                false);
}

/* ---- all of it ---- */

/* Calls and spans have two points each, and gathers one more. */
static uint64_t count_points(const struct aorta_recording *recording) {
    uint64_t points = recording->collective_count;
    for (uint32_t i = 0; i < recording->rank_count; i++) {
        const struct aorta_replay_rank *rank = &recording->ranks[i];
        points += 2 * ((uint64_t)rank->call_count + rank->span_count);
        for (uint32_t j = 0; j < rank->span_count; j++) points += rank->spans[j].role == AORTA_REPLAY_GATHER;
    }
    return points;
}

static bool has_failed(const struct aorta_graph_builder *builder) {
    return builder->memory.failed || builder->graph->failed;
}

static void assemble(struct aorta_graph_builder *builder) {
    const struct aorta_recording *recording = builder->recording;
    for (uint32_t i = 0; i < recording->rank_count; i++) {
        builder->launched[i] = sorted_rows(builder, &recording->ranks[i], launch_key);
        builder->by_end[i] = sorted_rows(builder, &recording->ranks[i], end_key);
        measure_usual(builder, i, &builder->usual[i]);
    }
    for (uint32_t i = 0; i < recording->rank_count; i++) add_call_points(builder, i);
    for (uint32_t i = 0; i < recording->rank_count; i++) {
        add_span_points(builder, i);
        set_mark(builder, i);
    }
    add_arrivals(builder);
    if (has_failed(builder)) return; /* there are not all points */
    aorta_compare_runs(builder);
    for (uint32_t i = 0; i < recording->rank_count; i++) aorta_graph_add_host(builder, i);
    if (has_failed(builder)) return; /* there are not all pauses and runs */
    aorta_place_pauses(builder);
    aorta_balance_launches(builder);
    for (uint32_t i = 0; i < recording->rank_count; i++) {
        aorta_graph_add_spans(builder, i);
        graph_add_order(builder, i);
    }
}

static void begin(struct aorta_graph_builder *builder, uint32_t points) {
    const struct aorta_recording *recording = builder->recording;
    const size_t ranks = (size_t)recording->rank_count + 1;
    struct aorta_arena *memory = &builder->memory;
    struct aorta_graph_rank *bounds = aorta_arena_alloc(memory, ranks * sizeof *bounds);
    builder->first_call = aorta_arena_alloc(memory, ranks * sizeof(uint32_t));
    builder->first_span = aorta_arena_alloc(memory, ranks * sizeof(uint32_t));
    builder->launched = aorta_arena_alloc(memory, ranks * sizeof(uint32_t *));
    builder->by_end = aorta_arena_alloc(memory, ranks * sizeof(uint32_t *));
    builder->runs = aorta_arena_alloc(memory, ranks * sizeof(struct aorta_runs *));
    builder->usual = aorta_arena_alloc(memory, ranks * sizeof *builder->usual);
    if (memory->failed) return;
    for (uint32_t i = 0; i < recording->rank_count; i++) bounds[i] = recording->ranks[i].bounds;
    aorta_graph_begin(builder->graph, bounds, recording->rank_count);
    aorta_graph_reserve(builder->graph, points, points / 4 * 7); /* edges are mostly fewer than seven for four points */
}

aorta_status aorta_graph_make(const struct aorta_recording *recording, struct aorta_graph *graph) {
    struct aorta_graph_builder builder = {.recording = recording, .graph = graph};
    *graph = (struct aorta_graph){0};
    const uint64_t points = count_points(recording), limit = UINT64_C(1) << 30; /* a point's edges are some four */
    if (points >= limit)
        return AORTA_ERROR(AORTA_UNSUPPORTED, "%llu calls and spans are more than a replay can number",
                           (unsigned long long)points / 2);
    begin(&builder, (uint32_t)points);
    if (!has_failed(&builder)) assemble(&builder);
    builder.memory.failed |= graph->failed;
    aorta_status status = aorta_arena_check(&builder.memory, "the graph of the ranks");
    aorta_arena_free(&builder.memory);
    if (status) aorta_graph_free(graph);
    return status;
}
