/* The dependency graph: its arrays and their order, points of calls, spans and arrivals, and dependencies that a
 * recording cannot show. The remaining edges are made by the files listed in graph_build_internal.h. */
#include "base/sort.h"
#include "base/statistics.h"
#include "replay/graph_build_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- growing ---- */

/* The arrays with a row per point, edge or change. The widest come first, as reordering one frees memory for the next
 * ones. */
#define ARRAY(member)                                                                                                  \
    { offsetof(struct aorta_graph, member), sizeof *((struct aorta_graph *)NULL)->member }
static const struct array {
    size_t at, size;
} point_arrays[] = {ARRAY(time_ns), ARRAY(rank), ARRAY(subject), ARRAY(ends), {0}},
  edge_arrays[] = {ARRAY(lag_ns), ARRAY(from), ARRAY(to), ARRAY(kind), ARRAY(inferred), {0}},
  change_arrays[] = {ARRAY(changes), {0}};
#undef ARRAY

static void **array_of(struct aorta_graph *graph, const struct array *array) {
    return (void **)((char *)graph + array->at);
}

/* Grows to `wanted` rows, or by half if that is 0. */
static bool grow(struct aorta_graph *graph, const struct array *arrays, uint32_t *capacity, uint32_t wanted) {
    const uint32_t larger = wanted ? wanted : *capacity < 1024 ? 1024 : *capacity + *capacity / 2;
    for (; arrays->size; arrays++) {
        void *moved = realloc(*array_of(graph, arrays), arrays->size * larger);
        if (!moved) return false;
        *array_of(graph, arrays) = moved;
    }
    *capacity = larger;
    return true;
}

void aorta_graph_begin(struct aorta_graph *graph, const struct aorta_graph_rank *ranks, uint32_t rank_count) {
    *graph = (struct aorta_graph){.longer = 1, .ranks = malloc((rank_count + 1) * sizeof *graph->ranks)};
    graph->failed = !graph->ranks;
    if (graph->failed) return;
    graph->rank_count = rank_count;
    if (rank_count) memcpy(graph->ranks, ranks, rank_count * sizeof *ranks);
    for (uint32_t i = 0; i < rank_count; i++) graph->ranks[i].mark = AORTA_GRAPH_NONE;
}

uint32_t aorta_graph_point(struct aorta_graph *graph, int64_t time_ns, uint32_t rank, uint32_t subject, bool ends) {
    if (graph->point_count == graph->point_capacity && !graph->failed)
        graph->failed = !grow(graph, point_arrays, &graph->point_capacity, 0);
    if (graph->failed) return 0;
    uint32_t point = graph->point_count++;
    graph->time_ns[point] = time_ns;
    graph->rank[point] = rank;
    graph->subject[point] = subject;
    graph->ends[point] = ends;
    return point;
}

uint32_t aorta_graph_edge(struct aorta_graph *graph, uint32_t from, uint32_t to, int64_t lag_ns,
                          enum aorta_edge_kind kind, bool inferred) {
    if (graph->edge_count == graph->edge_capacity && !graph->failed)
        graph->failed = !grow(graph, edge_arrays, &graph->edge_capacity, 0);
    if (graph->failed) return 0;
    uint32_t edge = graph->edge_count++;
    int64_t distance_ns = graph->time_ns[to] - graph->time_ns[from];
    graph->from[edge] = from;
    graph->to[edge] = to;
    graph->lag_ns[edge] = lag_ns < distance_ns ? lag_ns : distance_ns;
    graph->kind[edge] = (uint8_t)kind;
    graph->inferred[edge] = inferred;
    return edge;
}

void aorta_graph_change(struct aorta_graph *graph, uint32_t edge, uint32_t cause, int64_t lag_ns) {
    if (graph->change_count == graph->change_capacity && !graph->failed)
        graph->failed = !grow(graph, change_arrays, &graph->change_capacity, 0);
    if (graph->failed) return;
    graph->changes[graph->change_count++] = (struct aorta_graph_change){edge, cause, lag_ns};
}

/* ---- order of the points ---- */

enum state { UNSEEN, OPEN, DONE };

struct walk {
    struct aorta_arena memory;
    uint32_t *first; /* edges[first[i] .. first[i + 1]) lead to point i, by its old number */
    uint32_t *edges;
    uint32_t *cursor;
    uint8_t *state;
    uint32_t *order; /* old numbers in the new order; a stack of open points at the end */
    uint32_t done;
    uint32_t *rows; /* remaining edges in order of the points' new numbers */
};

static void walk_make(const struct aorta_graph *graph, struct walk *walk) {
    const size_t points = (size_t)graph->point_count + 2, edges = (size_t)graph->edge_count + 1;
    walk->first = aorta_arena_alloc(&walk->memory, points * sizeof *walk->first);
    walk->edges = aorta_arena_raw(&walk->memory, edges * sizeof *walk->edges);
    walk->cursor = aorta_arena_raw(&walk->memory, points * sizeof *walk->cursor);
    walk->state = aorta_arena_alloc(&walk->memory, points * sizeof *walk->state);
    walk->order = aorta_arena_alloc(&walk->memory, points * sizeof *walk->order);
    if (walk->memory.failed) return;
    for (uint32_t i = 0; i < graph->edge_count; i++) walk->first[graph->to[i] + 2]++;
    for (uint32_t i = 2; i < graph->point_count + 2; i++) walk->first[i] += walk->first[i - 1];
    for (uint32_t i = 0; i < graph->edge_count; i++) walk->edges[walk->first[graph->to[i] + 1]++] = i;
    walk->rows = graph->to; /* `to` is no longer needed */
}

/* Orders a point after all points that it depends on. An edge that would close a cycle is dropped by removing its
 * source.
 */
static void visit_from(struct aorta_graph *graph, struct walk *walk, uint32_t point) {
    uint32_t *const end = walk->order + graph->point_count, *open = end;
    *--open = point;
    walk->cursor[point] = walk->first[point];
    walk->state[point] = OPEN;
    while (open < end) {
        const uint32_t top = *open;
        if (walk->cursor[top] == walk->first[top + 1]) {
            walk->state[top] = DONE;
            open++;
            walk->order[walk->done++] = top;
            continue;
        }
        uint32_t edge = walk->edges[walk->cursor[top]++], from = graph->from[edge];
        if (walk->state[from] == OPEN) {
            graph->from[edge] = AORTA_GRAPH_NONE;
            graph->dropped++;
        } else if (walk->state[from] == UNSEEN) {
            walk->state[from] = OPEN;
            walk->cursor[from] = walk->first[from];
            *--open = from;
        }
    }
}

/* Also trims the arrays to their rows. */
static bool reorder(struct aorta_graph *graph, const struct array *arrays, const uint32_t *order, uint32_t count) {
    for (; count && arrays->size; arrays++) {
        const char *rows = *array_of(graph, arrays);
        if (rows == (const char *)order) continue; /* `rows` uses the memory of `to` */
        char *sorted = malloc(count * arrays->size);
        if (!sorted) return false;
        for (uint32_t i = 0; i < count; i++)
            memcpy(sorted + i * arrays->size, rows + order[i] * arrays->size, arrays->size);
        free(*array_of(graph, arrays));
        *array_of(graph, arrays) = sorted;
    }
    return true;
}

static void move_changes(struct aorta_graph *graph, struct walk *walk) {
    uint32_t *places = walk->edges, used = 0; /* the edges' new numbers */
    for (uint32_t i = 0; i < graph->edge_count; i++) places[i] = AORTA_GRAPH_NONE;
    for (uint32_t i = 0; i < graph->first_edge[graph->point_count]; i++) places[walk->rows[i]] = i;
    for (uint32_t i = 0; i < graph->change_count; i++) {
        struct aorta_graph_change change = graph->changes[i];
        change.edge = places[change.edge];
        if (change.edge != AORTA_GRAPH_NONE) graph->changes[used++] = change;
    }
    graph->change_count = used;
    if (used) qsort(graph->changes, used, sizeof *graph->changes, aorta_by_uint32_pair);
}

static void number_edges(struct aorta_graph *graph, const struct walk *walk) {
    uint32_t used = 0;
    for (uint32_t i = 0; i < graph->point_count; i++) {
        uint32_t old = walk->order[i];
        graph->first_edge[i] = used;
        for (uint32_t j = walk->first[old]; j < walk->first[old + 1]; j++) {
            uint32_t edge = walk->edges[j];
            if (graph->from[edge] != AORTA_GRAPH_NONE) walk->rows[used++] = edge;
        }
    }
    graph->first_edge[graph->point_count] = used;
}

/* Renumbers the points of edges and marks. */
static void name_points(struct aorta_graph *graph, struct walk *walk) {
    uint32_t *number = walk->cursor;
    for (uint32_t i = 0; i < graph->point_count; i++) number[walk->order[i]] = i;
    for (uint32_t i = 0; i < graph->edge_count; i++)
        if (graph->from[i] != AORTA_GRAPH_NONE) graph->from[i] = number[graph->from[i]];
    for (uint32_t i = 0; i < graph->rank_count; i++)
        if (graph->ranks[i].mark != AORTA_GRAPH_NONE) graph->ranks[i].mark = number[graph->ranks[i].mark];
}

static bool renumber(struct aorta_graph *graph, struct walk *walk) {
    number_edges(graph, walk);
    move_changes(graph, walk);
    name_points(graph, walk);
    graph->edge_count = graph->first_edge[graph->point_count];
    return reorder(graph, edge_arrays, walk->rows, graph->edge_count) &&
           reorder(graph, point_arrays, walk->order, graph->point_count);
}

/* ---- residuals ---- */

static int64_t explained(const struct aorta_graph *graph, uint32_t point) {
    int64_t latest_ns = INT64_MIN;
    for (uint32_t i = graph->first_edge[point]; i < graph->first_edge[point + 1]; i++) {
        int64_t at_ns = graph->time_ns[graph->from[i]] + graph->lag_ns[i];
        if (!aorta_edge_is_alternative((enum aorta_edge_kind)graph->kind[i]) && at_ns > latest_ns) latest_ns = at_ns;
    }
    return latest_ns == INT64_MIN ? graph->time_ns[point] : latest_ns;
}

aorta_status aorta_graph_finish(struct aorta_graph *graph) {
    struct walk walk = {0};
    walk_make(graph, &walk);
    graph->first_edge = malloc(((size_t)graph->point_count + 1) * sizeof *graph->first_edge);
    graph->residual_ns = malloc(((size_t)graph->point_count + 1) * sizeof *graph->residual_ns);
    graph->failed |= walk.memory.failed || !graph->first_edge || !graph->residual_ns;
    for (uint32_t i = 0; !graph->failed && i < graph->point_count; i++)
        if (walk.state[i] == UNSEEN) visit_from(graph, &walk, i);
    if (!graph->failed) graph->failed = !renumber(graph, &walk);
    aorta_arena_free(&walk.memory);
    free(graph->to);
    graph->to = NULL;
    if (graph->failed)
        return AORTA_ERROR(AORTA_MEMORY, "no memory for a graph of %u points and %u edges", graph->point_count,
                           graph->edge_count);
    for (uint32_t i = 0; i < graph->point_count; i++) graph->residual_ns[i] = graph->time_ns[i] - explained(graph, i);
    return NULL;
}

void aorta_graph_free(struct aorta_graph *graph) {
    for (const struct array *array = point_arrays; array->size; array++) free(*array_of(graph, array));
    for (const struct array *array = edge_arrays; array->size; array++) free(*array_of(graph, array));
    free(graph->changes);
    free(graph->ranks);
    free(graph->residual_ns);
    free(graph->first_edge);
    *graph = (struct aorta_graph){0};
}

/* ---- dependencies that a recording cannot show ----
 *
 * If the host launches too slowly, streams never overlap, and the recording does not show dependencies between them.
 * They matter if launches are no longer the limit.
 *
 * A span is assumed to depend on the span launched before it on another stream, if that had ended before it began. Not
 * between two streams that overlap in the recording in this direction. */

enum { MOST_STREAMS = 64, SIDE_BY_SIDE_SHARE = 20 }; /* share of overlaps that is enough: 1/20 */

/* Counts of spans of one stream that were launched after a span of another stream. */
struct pair {
    uint32_t together, all;
};

/* The last launched span, and the last one of any other stream. */
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

/* Counts the pairs, or with `adds` adds their edges. */
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

/* ---- orders ---- */

struct key {
    int64_t at;
    uint32_t row;
};

static AORTA_ORDER(key_order, struct key, AORTA_UP(at) AORTA_UP(row));

/* Spans by end, or by launch with NONE last. */
static uint32_t *sorted_rows(struct aorta_graph_builder *builder, const struct aorta_replay_rank *rank, bool by_end) {
    struct aorta_arena scratch = {0};
    uint32_t *rows = aorta_arena_raw(&builder->memory, ((size_t)rank->span_count + 1) * sizeof *rows);
    struct key *keys = aorta_arena_raw(&scratch, ((size_t)rank->span_count + 1) * sizeof *keys);
    for (uint32_t i = 0; keys && i < rank->span_count; i++)
        keys[i] = (struct key){by_end ? rank->spans[i].end_ns : (int64_t)rank->spans[i].launch, i};
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

enum { SAMPLES = 4096, FEWEST_SAMPLES = 4, LONGEST_USUAL_NS = 50000 };

struct samples {
    int64_t values[SAMPLES];
    size_t count;
};

/* The lower quartile, as other causes only increase the delay. */
static int64_t usual(struct samples *samples, int64_t otherwise) {
    if (samples->count < FEWEST_SAMPLES) return otherwise;
    aorta_sort_int64(samples->values, samples->count);
    return llround(aorta_percentile_int64(samples->values, samples->count, 25));
}

static void add_sample(struct samples *samples, int64_t value) {
    if (value >= 0 && value <= LONGEST_USUAL_NS && samples->count < SAMPLES) samples->values[samples->count++] = value;
}

/* Measures the usual lags: of the stream from spans launched well before their predecessor ended, of the launch from
 * spans launched to an idle stream. Copies are excluded from the stream's lag, as they begin later than kernels. */
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
        const struct aorta_replay_call *call = &builder->recording->ranks[one->host].calls[span->launch];
        if (call->start_ns > before_ns)
            add_sample(&samples[1], span->start_ns - call->start_ns);
        else if (call->start_ns + 2 * LAUNCH_NS < before_ns && call->kind == AORTA_REPLAY_LAUNCH)
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
    for (const struct aorta_replay_call *call = one->calls; call < one->calls + one->call_count; call++) {
        const bool mark = call->row == AORTA_GRAPH_NONE;
        add_points(builder, rank, call->start_ns, call->end_ns,
                   mark ? aorta_subject_make(AORTA_SUBJECT_MARK, 0)
                        : aorta_subject_make(AORTA_SUBJECT_CALL, call->row));
    }
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

/* Adds points for the arrival of the last rank; they belong to that rank. */
static void add_arrivals(struct aorta_graph_builder *builder) {
    const struct aorta_recording *recording = builder->recording;
    struct key *last = aorta_arena_alloc(&builder->memory, ((size_t)recording->collective_count + 1) * sizeof *last);
    if (!last) return;
    for (uint32_t i = 0; i < recording->collective_count; i++) last[i] = (struct key){INT64_MIN, 0};
    for (uint32_t r = 0; r < recording->rank_count; r++) {
        AORTA_EACH (const struct aorta_replay_span, span, recording->ranks[r].spans, recording->ranks[r].span_count)
            if (span->collective != AORTA_GRAPH_NONE && span->start_ns > last[span->collective].at)
                last[span->collective] = (struct key){span->start_ns, r};
    }
    builder->first_arrival = builder->graph->point_count;
    for (uint32_t i = 0; i < recording->collective_count; i++)
        (void)aorta_graph_point(builder->graph, last[i].at, last[i].row, aorta_subject_make(AORTA_SUBJECT_ARRIVAL, i),
                                false);
}

/* ---- all of it ---- */

/* The number of points: two per call and span, one more per gather, one per collective. */
static uint64_t count_points(const struct aorta_recording *recording) {
    uint64_t points = recording->collective_count;
    AORTA_EACH (const struct aorta_replay_rank, rank, recording->ranks, recording->rank_count) {
        points += 2 * ((uint64_t)rank->call_count + rank->span_count);
        for (uint32_t j = 0; j < rank->span_count; j++) points += rank->spans[j].role == AORTA_REPLAY_GATHER;
    }
    return points;
}

static bool has_failed(const struct aorta_graph_builder *builder) {
    return builder->memory.failed || builder->graph->failed;
}

/* Runs without comparison to other ranks. */
static struct aorta_runs *own_runs(struct aorta_graph_builder *builder, uint32_t rank) {
    const size_t count = builder->recording->ranks[rank].span_count;
    struct aorta_runs *runs = aorta_arena_raw(&builder->memory, (count + 1) * sizeof *runs);
    for (size_t i = 0; runs && i < count; i++) runs[i] = (struct aorta_runs){.stays = 1, .apart_ns = -1};
    return runs;
}

static void assemble(struct aorta_graph_builder *builder) {
    const struct aorta_recording *recording = builder->recording;
    for (uint32_t i = 0; i < recording->rank_count; i++) {
        builder->launched[i] = sorted_rows(builder, &recording->ranks[i], false);
        builder->by_end[i] = sorted_rows(builder, &recording->ranks[i], true);
        builder->runs[i] = own_runs(builder, i);
        measure_usual(builder, i, &builder->usual[i]);
    }
    for (uint32_t i = 0; i < recording->rank_count; i++) add_call_points(builder, i);
    for (uint32_t i = 0; i < recording->rank_count; i++) {
        add_span_points(builder, i);
        set_mark(builder, i);
    }
    add_arrivals(builder);
    if (has_failed(builder)) return; /* points are missing */
    if (recording->rank_count > 1) aorta_compare_runs(builder);
    for (uint32_t i = 0; i < recording->rank_count; i++) aorta_graph_add_host(builder, i);
    if (has_failed(builder)) return; /* pauses or runs are missing */
    aorta_place_pauses(builder);
    if (recording->rank_count > 1) aorta_balance_launches(builder);
    for (uint32_t i = 0; i < recording->rank_count; i++) {
        aorta_graph_add_spans(builder, i);
        graph_add_order(builder, i);
    }
}

static void begin(struct aorta_graph_builder *builder, uint32_t points) {
    const struct aorta_recording *recording = builder->recording;
    const size_t ranks = (size_t)recording->rank_count + 1;
    struct aorta_arena *memory = &builder->memory;
    struct aorta_graph *graph = builder->graph;
    struct aorta_graph_rank *bounds = aorta_arena_alloc(memory, ranks * sizeof *bounds);
    builder->first_call = aorta_arena_alloc(memory, ranks * sizeof(uint32_t));
    builder->first_span = aorta_arena_alloc(memory, ranks * sizeof(uint32_t));
    builder->launched = aorta_arena_alloc(memory, ranks * sizeof(uint32_t *));
    builder->by_end = aorta_arena_alloc(memory, ranks * sizeof(uint32_t *));
    builder->runs = aorta_arena_alloc(memory, ranks * sizeof(struct aorta_runs *));
    builder->usual = aorta_arena_alloc(memory, ranks * sizeof *builder->usual);
    if (memory->failed) return;
    for (uint32_t i = 0; i < recording->rank_count; i++) bounds[i] = recording->ranks[i].bounds;
    aorta_graph_begin(graph, bounds, recording->rank_count);
    if (!graph->failed) /* usually there are fewer than 7 edges per 4 points */
        graph->failed = !grow(graph, point_arrays, &graph->point_capacity, points) ||
                        !grow(graph, edge_arrays, &graph->edge_capacity, points / 4 * 7);
}

aorta_status aorta_graph_make(const struct aorta_recording *recording, struct aorta_graph *graph) {
    struct aorta_graph_builder builder = {.recording = recording, .graph = graph};
    *graph = (struct aorta_graph){0};
    const uint64_t points = count_points(recording), limit = UINT64_C(1) << 30; /* a point has about four edges */
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
