/* Edges for the starts and durations of a rank's spans.
 *
 * A span begins after the previous span on its stream, after its launch, and after the spans that it waits for
 * according to the file. If none of these explains its start, a dependency is inferred: on the span that ended last
 * before it and was launched before it. The edge that explains the start best gets the recorded lag, all other edges
 * their usual lag. */
#include "base/sort.h"
#include "replay/graph_build_internal.h"

enum {
    NEAR_NS = 3000, /* a start that is at most this much later than usual is explained */
    CLOCK_NS = 500, /* tolerance for an end that appears after a start */
};

/* The latest spans of a stream. */
struct lane {
    uint32_t span;   /* NONE: nothing so far */
    uint32_t last;   /* the span that ends last; differs from `span` if nodes of a graph overlap */
    uint32_t ready;  /* point at which its last gather was ready; NONE */
    uint32_t gather; /* that gather */
    uint32_t reduction;
    uint32_t compute, collective; /* the last of either: a stream may have both */
};

struct spans {
    struct aorta_graph_builder *builder;
    const struct aorta_replay_rank *rows;
    const struct aorta_replay_call *calls;
    uint32_t rank;
    struct lane *lanes;
    uint32_t *reduction_before; /* by reduction: the previous one on its stream in its step; NONE */
    bool *last_reduction;       /* by span: the last reduction of its stream in its step */
    uint32_t (*of_launch)[2];   /* by call: its compute and its collective that end last; NONE */
    uint32_t full;              /* the last kernel that fills the device; NONE */
};

/* A possible reason for the start of a span. */
struct reason {
    uint32_t from; /* point */
    int64_t from_ns, usual_ns;
    enum aorta_edge_kind kind;
    bool inferred;
    bool same_stream;
};

enum { MOST_REASONS = 64 };
struct reasons {
    struct reason items[MOST_REASONS];
    uint32_t count;
};

static void add_reason(struct reasons *reasons, struct reason reason) {
    if (reasons->count < MOST_REASONS) reasons->items[reasons->count++] = reason;
}

/* How much later than usual the span began for this reason; the reason with the minimum counts. */
static int64_t beyond(const struct reason *reason, int64_t start_ns) {
    return start_ns - reason->from_ns - reason->usual_ns;
}

static const struct reason *best_reason(const struct reasons *reasons, int64_t start_ns) {
    const struct reason *best = NULL;
    for (uint32_t i = 0; i < reasons->count; i++)
        if (!best || beyond(&reasons->items[i], start_ns) < beyond(best, start_ns)) best = &reasons->items[i];
    return best;
}

/* ---- reasons ---- */

static bool is_collective(const struct spans *spans, uint32_t row) {
    return spans->rows->spans[row].kind == AORTA_REPLAY_COLLECTIVE;
}

/* Whether only the order on their common stream separates the two: a gather after compute, unless it is the first of
 * its step, or compute after a reduction, unless that is the last one. */
static bool shares_stream_only(const struct spans *spans, uint32_t row, uint32_t before) {
    const struct aorta_replay_span *span = &spans->rows->spans[row], *other = &spans->rows->spans[before];
    if (is_collective(spans, row) == is_collective(spans, before)) return false;
    if (!is_collective(spans, row)) return other->role == AORTA_REPLAY_REDUCE && !spans->last_reduction[before];
    const uint32_t gather = spans->lanes[span->stream].gather;
    return span->role == AORTA_REPLAY_GATHER && gather != AORTA_GRAPH_NONE &&
           spans->rows->spans[gather].step == span->step;
}

static void add_stream_end(const struct spans *spans, uint32_t row, uint32_t other, struct reasons *reasons) {
    add_reason(reasons,
               (struct reason){.from = aorta_span_end(spans->builder, spans->rank, other),
                               .from_ns = spans->rows->spans[other].end_ns,
                               .usual_ns = spans->builder->usual[spans->rank].stream_ns,
                               .kind = shares_stream_only(spans, row, other) ? AORTA_EDGE_QUEUE : AORTA_EDGE_STREAM,
                               .same_stream = true});
}

/* If compute and collectives share a stream, compute also follows compute, and collectives follow collectives. In a
 * graph they may be on any stream: the recording does not show which of its nodes are independent. */
static void add_same_kind(const struct spans *spans, uint32_t row, struct reasons *reasons) {
    const struct aorta_replay_span *span = &spans->rows->spans[row];
    const struct lane *lane = &spans->lanes[span->stream];
    const bool kind = is_collective(spans, row);
    uint32_t own = kind ? lane->collective : lane->compute;
    if (span->launch != AORTA_GRAPH_NONE && spans->of_launch[span->launch][kind] != AORTA_GRAPH_NONE)
        own = spans->of_launch[span->launch][kind];
    else if (own != AORTA_GRAPH_NONE && spans->rows->spans[own].launch != AORTA_GRAPH_NONE)
        own = spans->of_launch[spans->rows->spans[own].launch][kind]; /* the end of the graph before */
    if (own == AORTA_GRAPH_NONE || own == lane->span || kind == is_collective(spans, lane->span)) return;
    if (spans->rows->spans[own].end_ns <= span->start_ns) add_stream_end(spans, row, own, reasons);
}

static void add_stream(struct spans *spans, uint32_t row, struct reasons *reasons) {
    const struct aorta_replay_span *span = &spans->rows->spans[row];
    const struct lane *lane = &spans->lanes[span->stream];
    if (lane->span == AORTA_GRAPH_NONE) return;
    const struct aorta_replay_span *other = &spans->rows->spans[lane->span];
    if (other->end_ns > span->start_ns) { /* graphs, and kernels that begin before their predecessor ends */
        add_reason(reasons, (struct reason){.from = aorta_span_start(spans->builder, spans->rank, lane->span),
                                            .from_ns = other->start_ns,
                                            .usual_ns = span->start_ns - other->start_ns,
                                            .kind = AORTA_EDGE_STREAM,
                                            .same_stream = true});
        return;
    }
    add_stream_end(spans, row, lane->span, reasons);
    add_same_kind(spans, row, reasons);
    if (lane->last != lane->span && spans->rows->spans[lane->last].end_ns <= span->start_ns)
        add_stream_end(spans, row, lane->last, reasons);
}

static void add_launch(const struct spans *spans, uint32_t row, struct reasons *reasons) {
    const struct aorta_replay_span *span = &spans->rows->spans[row];
    if (span->launch == AORTA_GRAPH_NONE) return;
    const struct aorta_replay_call *call = &spans->calls[span->launch];
    int64_t launch_ns = call->blocked ? call->end_ns : call->start_ns, end_ns = call->end_ns;
    if (launch_ns > span->start_ns) return; /* clocks that differ */
    int64_t usual_ns = spans->builder->usual[spans->rank].launch_ns;
    uint32_t from = aorta_call_start(spans->builder, spans->rows->host, span->launch);
    if (call->blocked) from = aorta_call_end(spans->builder, spans->rows->host, span->launch);
    if (end_ns < span->start_ns && end_ns - launch_ns > usual_ns) usual_ns = end_ns - launch_ns; /* a long call */
    add_reason(reasons,
               (struct reason){.from = from, .from_ns = launch_ns, .usual_ns = usual_ns, .kind = AORTA_EDGE_LAUNCH});
}

static bool share_queue(const struct aorta_replay_span *a, const struct aorta_replay_span *b) {
    if (a->queue != AORTA_GRAPH_NONE && a->queue == b->queue) return true;
    bool collectives = a->kind == AORTA_REPLAY_COLLECTIVE && b->kind == AORTA_REPLAY_COLLECTIVE;
    return collectives && a->communicator != AORTA_GRAPH_NONE && a->communicator == b->communicator;
}

/* Whether the host requested a wait for an event between the two launches. */
static bool event_between(const struct spans *spans, const struct aorta_replay_span *span,
                          const struct aorta_replay_span *other) {
    const struct aorta_replay_rank *rows = spans->rows;
    const size_t count = rows->event_wait_count;
    if (!count || span->launch == AORTA_GRAPH_NONE || other->launch == AORTA_GRAPH_NONE) return count > 0;
    int64_t from_ns = spans->calls[other->launch].start_ns, to_ns = spans->calls[span->launch].start_ns;
    const size_t next = aorta_count_until(rows->event_waits, count, sizeof *rows->event_waits, 0, from_ns);
    return next < count && rows->event_waits[next] < to_ns;
}

/* The kind of a wait for a span, mostly of another stream. Recorded waits are never caused by queues.
 */
static enum aorta_edge_kind kind_of(const struct spans *spans, uint32_t row, uint32_t other_row, bool inferred) {
    const struct aorta_replay_span *span = &spans->rows->spans[row], *other = &spans->rows->spans[other_row];
    if (span->stream == other->stream) return AORTA_EDGE_DEPENDENCY;
    if (inferred && share_queue(span, other) && !event_between(spans, span, other)) return AORTA_EDGE_QUEUE;
    bool consumes = other->role == AORTA_REPLAY_REDUCE && span->kind != AORTA_REPLAY_COLLECTIVE &&
                    !spans->last_reduction[other_row];
    return consumes ? AORTA_EDGE_CONSUME : AORTA_EDGE_DEPENDENCY;
}

static void add_dependency(const struct spans *spans, uint32_t row, uint32_t other, bool inferred,
                           struct reasons *reasons) {
    add_reason(reasons, (struct reason){.from = aorta_span_end(spans->builder, spans->rank, other),
                                        .from_ns = spans->rows->spans[other].end_ns,
                                        .usual_ns = spans->builder->usual[spans->rank].dependency_ns,
                                        .kind = kind_of(spans, row, other, inferred),
                                        .inferred = inferred});
}

static void add_recorded(const struct spans *spans, uint32_t row, struct reasons *reasons) {
    const struct aorta_replay_rank *rows = spans->rows;
    if (!rows->first_wait) return;
    for (uint32_t i = rows->first_wait[row]; i < rows->first_wait[row + 1]; i++)
        add_dependency(spans, row, rows->waits[i], false, reasons);
}

static void infer_dependency(const struct spans *spans, uint32_t row, struct reasons *reasons) {
    const struct aorta_replay_span *span = &spans->rows->spans[row];
    const struct reason *best = best_reason(reasons, span->start_ns);
    if (best && beyond(best, span->start_ns) <= NEAR_NS) return;
    int64_t after_ns = best ? best->from_ns : INT64_MIN;
    /* Spans of a graph share a launch and may wait for each other. */
    uint32_t before = span->launch == AORTA_GRAPH_NONE ? AORTA_GRAPH_NONE : span->launch + 1;
    uint32_t found = aorta_last_ended(spans->builder, spans->rank, after_ns, span->start_ns + CLOCK_NS, before, row);
    if (found != AORTA_GRAPH_NONE && spans->rows->spans[found].start_ns < span->start_ns)
        add_dependency(spans, row, found, true, reasons);
}

/* ---- edges ---- */

static int64_t lag_of(const struct reason *reason, const struct reason *best, int64_t start_ns) {
    if (reason != best) return reason->usual_ns;
    int64_t lag_ns = start_ns - reason->from_ns, limit_ns = reason->usual_ns + AORTA_LAG_EXPLAINED_NS;
    return lag_ns < limit_ns ? lag_ns : reason->usual_ns;
}

/* Whether a gather can be prefetched, which means to begin when the previous gather of its stream and step was ready.
 * The first gather of a step cannot. */
static bool is_ahead(const struct spans *spans, const struct aorta_replay_span *span) {
    const struct lane *lane = &spans->lanes[span->stream];
    return span->role == AORTA_REPLAY_GATHER && lane->ready != AORTA_GRAPH_NONE &&
           spans->rows->spans[lane->gather].step == span->step;
}

/* Adds a point at which a gather is ready, with all its reasons except the order of its stream; NONE if it has none. */
static uint32_t add_ready(struct spans *spans, uint32_t row, const struct reasons *reasons, const struct reason *best) {
    struct aorta_graph *graph = spans->builder->graph;
    int64_t start_ns = spans->rows->spans[row].start_ns, ready_ns = INT64_MIN;
    AORTA_EACH (const struct reason, reason, reasons->items, reasons->count) {
        int64_t at_ns = reason->from_ns + lag_of(reason, best, start_ns);
        if (!reason->same_stream && at_ns > ready_ns) ready_ns = at_ns;
    }
    if (ready_ns == INT64_MIN) return AORTA_GRAPH_NONE;
    if (ready_ns > start_ns) ready_ns = start_ns;
    uint32_t ready = aorta_graph_point(graph, ready_ns, spans->rank,
                                       aorta_subject_make(AORTA_SUBJECT_SPAN, spans->rows->spans[row].row), false);
    AORTA_EACH (const struct reason, reason, reasons->items, reasons->count) {
        if (!reason->same_stream)
            aorta_graph_edge(graph, reason->from, ready, lag_of(reason, best, start_ns), reason->kind,
                             reason->inferred);
    }
    return ready;
}

static void begin_gather(struct spans *spans, uint32_t row, const struct reasons *reasons, const struct reason *best) {
    struct aorta_graph *graph = spans->builder->graph;
    const struct aorta_replay_span *span = &spans->rows->spans[row];
    struct lane *lane = &spans->lanes[span->stream];
    uint32_t start = aorta_span_start(spans->builder, spans->rank, row), ready = add_ready(spans, row, reasons, best);
    bool ahead = is_ahead(spans, span);
    if (ready != AORTA_GRAPH_NONE)
        aorta_graph_edge(graph, ready, start, 0, ahead ? AORTA_EDGE_READY : AORTA_EDGE_DEPENDENCY, false);
    if (ready != AORTA_GRAPH_NONE && ahead) aorta_graph_edge(graph, lane->ready, start, 0, AORTA_EDGE_EARLIER, false);
    lane->ready = ready;
    lane->gather = row;
}

/* With slack, a span that waits for a reduction only waits for the previous reduction. */
static void add_slack(const struct spans *spans, uint32_t start, const struct reason *reason) {
    struct aorta_graph *graph = spans->builder->graph;
    uint32_t before = spans->reduction_before[(reason->from - spans->builder->first_span[spans->rank]) / 2];
    if (before != AORTA_GRAPH_NONE)
        aorta_graph_edge(graph, aorta_span_end(spans->builder, spans->rank, before), start, reason->usual_ns,
                         AORTA_EDGE_EARLIER, reason->inferred);
}

/* Whether the host makes the copy within its call, as from pageable memory: the copy starts late, and the call lasts as
 * long. Not if another reason is later than the call's start, as the copy may have waited for that. */
static bool is_staged(const struct spans *spans, const struct aorta_replay_span *span, const struct reasons *reasons) {
    if (span->launch == AORTA_GRAPH_NONE) return false;
    const struct aorta_replay_call *call = &spans->calls[span->launch];
    if (call->kind != AORTA_REPLAY_COPY || call->end_ns < span->start_ns) return false;
    if (span->start_ns - call->start_ns <= AORTA_STAGED_NS) return false;
    for (uint32_t i = 0; i < reasons->count; i++)
        if (reasons->items[i].from_ns > call->start_ns) return false;
    return true;
}

static void stage_copy(const struct spans *spans, const struct aorta_replay_span *span, struct reasons *reasons) {
    if (!is_staged(spans, span, reasons)) return;
    AORTA_EACH (struct reason, reason, reasons->items, reasons->count) {
        if (reason->kind != AORTA_EDGE_LAUNCH) continue;
        reason->usual_ns = span->start_ns - reason->from_ns;
        reason->kind = AORTA_EDGE_CALL_COPY;
    }
}

/* Kernels that fill the device run one after another, even on different streams. */
static void follow_full(struct spans *spans, uint32_t row) {
    const struct aorta_replay_span *span = &spans->rows->spans[row];
    if (!span->fills) return;
    const struct aorta_replay_span *full = spans->full == AORTA_GRAPH_NONE ? NULL : &spans->rows->spans[spans->full];
    if (full && full->stream != span->stream && full->end_ns <= span->start_ns)
        aorta_graph_edge(spans->builder->graph, aorta_span_end(spans->builder, spans->rank, spans->full),
                         aorta_span_start(spans->builder, spans->rank, row),
                         spans->builder->usual[spans->rank].stream_ns, AORTA_EDGE_STREAM, true);
    if (!full || span->end_ns >= full->end_ns) spans->full = row;
}

/* The span that began last among those that still run on other streams; NONE: there is none. */
static uint32_t running_at(const struct spans *spans, uint32_t row) {
    uint32_t running = AORTA_GRAPH_NONE;
    const struct aorta_replay_span *rows = spans->rows->spans;
    for (uint32_t i = 0; i < spans->rows->stream_count; i++) {
        const uint32_t last = spans->lanes[i].span;
        if (i == rows[row].stream || last == AORTA_GRAPH_NONE || rows[last].end_ns <= rows[row].start_ns) continue;
        if (running == AORTA_GRAPH_NONE || last > running) running = last;
    }
    return running;
}

/* The host or a kernel touches pages of managed memory one by one, so time between two such copies counts as
 * copying.
 * The first page that a kernel or a fill touches comes after its beginning. */
static void move_pages(const struct spans *spans, uint32_t row, struct reasons *reasons) {
    const struct aorta_replay_span *span = &spans->rows->spans[row];
    const uint32_t before = spans->lanes[span->stream].span;
    if (!span->page) return;
    const uint32_t running = running_at(spans, row);
    if (running != AORTA_GRAPH_NONE && (before == AORTA_GRAPH_NONE || running > before)) {
        const int64_t from_ns = spans->rows->spans[running].start_ns;
        add_reason(reasons, (struct reason){.from = aorta_span_start(spans->builder, spans->rank, running),
                                            .from_ns = from_ns,
                                            .usual_ns = span->start_ns - from_ns,
                                            .kind = AORTA_EDGE_DEPENDENCY});
    } else if (before != AORTA_GRAPH_NONE && spans->rows->spans[before].page == span->page) {
        reasons->items[0].usual_ns = span->start_ns - reasons->items[0].from_ns;
        reasons->items[0].kind = AORTA_EDGE_CALL_COPY;
    }
}

static void begin_span(struct spans *spans, uint32_t row) {
    struct reasons reasons = {0};
    struct aorta_graph *graph = spans->builder->graph;
    const struct aorta_replay_span *span = &spans->rows->spans[row];
    uint32_t start = aorta_span_start(spans->builder, spans->rank, row);
    bool gather = span->role == AORTA_REPLAY_GATHER;
    add_stream(spans, row, &reasons);
    move_pages(spans, row, &reasons);
    add_launch(spans, row, &reasons);
    add_recorded(spans, row, &reasons);
    infer_dependency(spans, row, &reasons);
    stage_copy(spans, span, &reasons);
    const struct reason *best = best_reason(&reasons, span->start_ns);
    if (gather) begin_gather(spans, row, &reasons, best);
    AORTA_EACH (const struct reason, reason, reasons.items, reasons.count) {
        if (gather && !reason->same_stream) continue;
        aorta_graph_edge(graph, reason->from, start, lag_of(reason, best, span->start_ns), reason->kind,
                         reason->inferred);
        if (reason->kind == AORTA_EDGE_CONSUME) add_slack(spans, start, reason);
    }
    follow_full(spans, row);
    struct lane *lane = &spans->lanes[span->stream];
    *(is_collective(spans, row) ? &lane->collective : &lane->compute) = row;
    lane->span = row;
    if (span->launch != AORTA_GRAPH_NONE) {
        uint32_t *last = &spans->of_launch[span->launch][is_collective(spans, row)];
        if (*last == AORTA_GRAPH_NONE || span->end_ns >= spans->rows->spans[*last].end_ns) *last = row;
    }
    if (lane->last == AORTA_GRAPH_NONE || span->end_ns >= spans->rows->spans[lane->last].end_ns) lane->last = row;
}

/* ---- durations ---- */

static void change_kernel(const struct spans *spans, uint32_t row, uint32_t edge) {
    struct aorta_graph *graph = spans->builder->graph;
    const struct aorta_replay_span *span = &spans->rows->spans[row];
    const struct aorta_runs *runs = &spans->builder->runs[spans->rank][row];
    int64_t lag_ns = span->end_ns - span->start_ns;
    if (span->alone_ns >= 0) aorta_graph_change(graph, edge, AORTA_WITHOUT_CONTENTION, span->alone_ns);
    if (runs->stays < 1)
        aorta_graph_change(graph, edge, AORTA_WITHOUT_STRAGGLER, (int64_t)((double)lag_ns * (double)runs->stays));
    if (runs->apart_ns >= 0) aorta_graph_change(graph, edge, AORTA_WITHOUT_WAITING, runs->apart_ns);
}

/* A collective recorded by several ranks moves data after all have arrived. */
static void end_collective(const struct spans *spans, uint32_t row, uint32_t start, uint32_t end) {
    struct aorta_graph *graph = spans->builder->graph;
    const struct aorta_replay_span *span = &spans->rows->spans[row];
    const struct aorta_collective_times *collective = &spans->builder->recording->collectives[span->collective];
    uint32_t point = spans->builder->first_arrival + span->collective;
    aorta_graph_edge(graph, start, point, 0, AORTA_EDGE_ARRIVAL, false);
    uint32_t edge = aorta_graph_edge(graph, point, end, INT64_MAX, AORTA_EDGE_TRANSFER, false);
    if (collective->best_ns >= 0) aorta_graph_change(graph, edge, AORTA_WITHOUT_SLOW_COLLECTIVE, collective->best_ns);
    if (collective->piece_ns >= 0 && spans->last_reduction[row])
        aorta_graph_change(graph, edge, AORTA_WITHOUT_EXPOSED_COLLECTIVE, collective->piece_ns);
    aorta_graph_edge(graph, start, end, 0, AORTA_EDGE_KERNEL, false);
}

static void end_span(const struct spans *spans, uint32_t row) {
    const struct aorta_replay_span *span = &spans->rows->spans[row];
    uint32_t start = aorta_span_start(spans->builder, spans->rank, row);
    uint32_t end = aorta_span_end(spans->builder, spans->rank, row);
    if (span->collective != AORTA_GRAPH_NONE && spans->builder->recording->collectives[span->collective].parts > 1) {
        end_collective(spans, row, start, end);
        return;
    }
    bool transfer = span->kind == AORTA_REPLAY_TRANSFER;
    uint32_t edge = aorta_graph_edge(spans->builder->graph, start, end, INT64_MAX,
                                     transfer ? AORTA_EDGE_COPY : AORTA_EDGE_KERNEL, false);
    if (span->kind == AORTA_REPLAY_KERNEL) change_kernel(spans, row, edge);
}

/* ---- reductions ---- */

static void find_reductions(struct spans *spans) {
    const struct aorta_replay_rank *rows = spans->rows;
    for (uint32_t i = 0; i < rows->span_count; i++) {
        spans->reduction_before[i] = AORTA_GRAPH_NONE;
        if (rows->spans[i].role != AORTA_REPLAY_REDUCE) continue;
        struct lane *lane = &spans->lanes[rows->spans[i].stream];
        bool same = lane->reduction != AORTA_GRAPH_NONE && rows->spans[lane->reduction].step == rows->spans[i].step;
        if (same) spans->reduction_before[i] = lane->reduction;
        if (same) spans->last_reduction[lane->reduction] = false;
        spans->last_reduction[i] = true;
        lane->reduction = i;
    }
}

/* ---- a rank ---- */

static void assemble(struct spans *spans, struct aorta_arena *memory) {
    const struct aorta_replay_rank *rows = spans->rows;
    spans->lanes = aorta_arena_alloc(memory, ((size_t)rows->stream_count + 1) * sizeof *spans->lanes);
    spans->reduction_before = aorta_arena_raw(memory, ((size_t)rows->span_count + 1) * sizeof *spans->reduction_before);
    spans->last_reduction = aorta_arena_alloc(memory, ((size_t)rows->span_count + 1) * sizeof *spans->last_reduction);
    const uint32_t calls = spans->builder->recording->ranks[rows->host].call_count;
    spans->of_launch = aorta_arena_raw(memory, ((size_t)calls + 1) * sizeof *spans->of_launch);
    if (memory->failed) return;
    for (uint32_t i = 0; i < calls; i++) spans->of_launch[i][0] = spans->of_launch[i][1] = AORTA_GRAPH_NONE;
    for (uint32_t i = 0; i < rows->stream_count; i++)
        spans->lanes[i] = (struct lane){AORTA_GRAPH_NONE, AORTA_GRAPH_NONE, AORTA_GRAPH_NONE, AORTA_GRAPH_NONE,
                                        AORTA_GRAPH_NONE, AORTA_GRAPH_NONE, AORTA_GRAPH_NONE};
    find_reductions(spans);
    for (uint32_t i = 0; i < rows->span_count; i++) {
        begin_span(spans, i);
        end_span(spans, i);
    }
}

void aorta_graph_add_spans(struct aorta_graph_builder *builder, uint32_t rank) {
    const struct aorta_recording *recording = builder->recording;
    struct spans spans = {.builder = builder,
                          .rows = &recording->ranks[rank],
                          .calls = recording->ranks[recording->ranks[rank].host].calls,
                          .rank = rank,
                          .full = AORTA_GRAPH_NONE};
    struct aorta_arena scratch = {0};
    assemble(&spans, &scratch);
    aorta_arena_end(&scratch, &builder->memory);
}
