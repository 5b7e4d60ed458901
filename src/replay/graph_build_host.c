/* Edges of a host's threads: calls in order, the host's own time between them, and waits.
 *
 *   thread 1   [launch]--gap--[launch]                      [launch]--...
 *   thread 2                          \                    /
 *                                      [launch][  sync  ]--      each continues after the other: a handover
 *   device                [ kernel              ]>>>>>>>^        a wait: the call returns after the kernel */
#include "base/sort.h"
#include "base/statistics.h"
#include "replay/graph_build_internal.h"

#include <stdlib.h>

enum {
    QUIET_NS = 100000,     /* a thread that records nothing for this long may be waiting for another */
    PAUSE_NS = 1000000,    /* a host that records nothing for this long pauses, */
    NATIVE_NS = 100000,    /* … the same without an interpreter */
    LONG_CALL_NS = 50000,  /* launches and frees that last longer may have waited */
    FULL_QUEUE = 512,      /* minimum of pending launches in a full queue; CUDA's has 1024 */
    BATCH_NS = 1000000,    /* minimum wait for data that is limited by the loader, not by the host */
    BATCH_SHARE = 50,      /* … and minimum share of the time per batch (1/50); less is the cost of taking a batch */
    BATCHES = 8,           /* batches that a loader's processes may have ready */
    CLOCK_SLACK_NS = 2000, /* between clocks of host and device */
};

/* State of a thread while its calls are processed. */
struct thread {
    uint32_t open;       /* innermost call that has not ended; NONE */
    uint32_t last_point; /* NONE: none so far */
    uint32_t last_call;  /* call of that point */
    bool reading, read;  /* last_call copies a value to the host; last_call waited for such a copy */
    uint32_t result;     /* point of the end of the last read copy of a result; NONE */
};

/* A thread that records nothing for long after its last call. */
struct silence {
    int64_t since_ns;
    uint32_t thread, call;
};

struct host {
    struct aorta_graph_builder *builder;
    struct aorta_arena memory;
    const struct aorta_replay_rank *rows;
    uint32_t host;
    struct thread *threads;
    uint32_t *around;  /* by call: the call around it; NONE */
    uint32_t *next;    /* by call: the thread's next call; NONE */
    int64_t *begun_ns; /* first start of each launch's spans, ascending */
    uint32_t begun;    /* how many */
    uint32_t launches; /* so far */
    uint32_t *rank;    /* ranks of this host */
    uint32_t ranks;
    uint32_t *cursor; /* by rank of this host: position in launched[] */
    uint32_t *dirty;  /* by stream: the last span launched since the last wait for the device; NULL: the host has
                       * several ranks */
    int64_t usual_gap_ns, pause_ns;
    uint32_t batch, batches; /* end of the last wait for a loader (NONE: none so far); batches since then */
    struct silence *silent;  /* the latest last, of equal ones the first thread; some are over */
    size_t silent_count;
};

/* ---- waits of calls ---- */

static const struct {
    enum aorta_edge_kind own, wait;
} kinds[] = {
    [AORTA_REPLAY_LAUNCH] = {AORTA_EDGE_CALL, AORTA_EDGE_WAIT_QUEUE},
    [AORTA_REPLAY_COPY] = {AORTA_EDGE_CALL, AORTA_EDGE_WAIT_COPY},
    [AORTA_REPLAY_READ] = {AORTA_EDGE_CALL_SYNC, AORTA_EDGE_WAIT},
    [AORTA_REPLAY_VALUE] = {AORTA_EDGE_CALL_SYNC, AORTA_EDGE_WAIT},
    [AORTA_REPLAY_SYNC_DEVICE] = {AORTA_EDGE_CALL_SYNC, AORTA_EDGE_WAIT},
    [AORTA_REPLAY_SYNC] = {AORTA_EDGE_CALL_SYNC, AORTA_EDGE_WAIT},
    [AORTA_REPLAY_MEMORY] = {AORTA_EDGE_CALL_MEMORY, AORTA_EDGE_WAIT_MEMORY},
    [AORTA_REPLAY_FREE] = {AORTA_EDGE_CALL_MEMORY, AORTA_EDGE_WAIT_MEMORY},
    [AORTA_REPLAY_DATA] = {AORTA_EDGE_DATA, AORTA_EDGE_DATA},
    [AORTA_REPLAY_BATCH] = {AORTA_EDGE_DATA, AORTA_EDGE_DATA},
    [AORTA_REPLAY_HOST_COLLECTIVE] = {AORTA_EDGE_COLLECTIVE, AORTA_EDGE_COLLECTIVE},
};

/* The explained lag from the end of the awaited span to the call's return. A free may take longer, as it returns its
 * memory. */
static int64_t return_lag(const struct aorta_replay_call *call, int64_t last_end_ns) {
    if (last_end_ns <= call->start_ns) return AORTA_USUAL_RETURN_NS;
    int64_t lag_ns = call->end_ns - last_end_ns;
    return lag_ns < AORTA_LAG_RETURN_NS || call->kind == AORTA_REPLAY_FREE ? lag_ns : AORTA_LAG_RETURN_NS;
}

/* Whether the span ended before the call, so that the call can have waited for it. */
static bool ended_before(const struct host *host, uint32_t call, uint32_t rank, uint32_t span) {
    return host->builder->recording->ranks[rank].spans[span].end_ns <= host->rows->calls[call].end_ns + CLOCK_SLACK_NS;
}

/* Adds a wait. True if the call did wait: the span ended after the call began. */
static bool add_wait(struct host *host, uint32_t call, uint32_t rank, uint32_t span, int64_t lag_ns, bool inferred) {
    struct aorta_graph_builder *builder = host->builder;
    const struct aorta_replay_call *row = &host->rows->calls[call];
    aorta_graph_edge(builder->graph, aorta_span_end(builder, rank, span), aorta_call_end(builder, host->host, call),
                     lag_ns, kinds[row->kind].wait, inferred);
    return builder->recording->ranks[rank].spans[span].end_ns > row->start_ns;
}

/* Waits for all spans launched since the last such call: the last span of each stream. */
static bool wait_for_device(struct host *host, uint32_t call) {
    uint32_t number = host->rank[0], *dirty = host->dirty;
    const struct aorta_replay_rank *rank = &host->builder->recording->ranks[number];
    int64_t last_ns = INT64_MIN;
    bool waited = false;
    for (uint32_t i = 0; i < rank->stream_count; i++) {
        if (dirty[i] == AORTA_GRAPH_NONE || !ended_before(host, call, number, dirty[i])) continue;
        if (rank->spans[dirty[i]].end_ns > last_ns) last_ns = rank->spans[dirty[i]].end_ns;
    }
    for (uint32_t i = 0; i < rank->stream_count; i++) {
        uint32_t span = dirty[i];
        dirty[i] = AORTA_GRAPH_NONE;
        if (span == AORTA_GRAPH_NONE || !ended_before(host, call, number, span)) continue;
        waited |= add_wait(host, call, number, span, return_lag(&host->rows->calls[call], last_ns), false);
    }
    return waited;
}

/* Without a recorded stream or event, the wait is for the span that ended last before the call returned. */
static bool wait_for_last(struct host *host, uint32_t call) {
    const struct aorta_replay_call *row = &host->rows->calls[call];
    uint32_t best = AORTA_GRAPH_NONE, best_rank = 0;
    int64_t best_ns = INT64_MIN;
    for (uint32_t i = 0; i < host->ranks; i++) {
        uint32_t rank = host->rank[i];
        uint32_t span =
            aorta_last_ended(host->builder, rank, row->start_ns, row->end_ns + CLOCK_SLACK_NS, call, AORTA_GRAPH_NONE);
        if (span == AORTA_GRAPH_NONE || host->builder->recording->ranks[rank].spans[span].end_ns <= best_ns) continue;
        best = span;
        best_rank = rank;
        best_ns = host->builder->recording->ranks[rank].spans[span].end_ns;
    }
    return best != AORTA_GRAPH_NONE && add_wait(host, call, best_rank, best, return_lag(row, best_ns), true);
}

/* Waits for the span that the file names: the last before an event, or of a stream. */
static bool wait_for_awaited(struct host *host, uint32_t call) {
    const struct aorta_replay_call *row = &host->rows->calls[call];
    uint32_t span = row->awaited - 1;
    if (!ended_before(host, call, host->rank[0], span)) return wait_for_last(host, call);
    int64_t end_ns = host->builder->recording->ranks[host->rank[0]].spans[span].end_ns;
    return add_wait(host, call, host->rank[0], span, return_lag(row, end_ns), false);
}

static bool wait_for_own(struct host *host, uint32_t call) {
    const struct aorta_replay_call *row = &host->rows->calls[call];
    bool waited = false;
    for (uint32_t i = 0; i < host->ranks; i++) {
        uint32_t rank = host->rank[i], at = host->cursor[i];
        const struct aorta_replay_rank *one = &host->builder->recording->ranks[rank];
        const uint32_t *launched = host->builder->launched[rank];
        for (; at < one->span_count && one->spans[launched[at]].launch == call; at++) {
            int64_t end_ns = one->spans[launched[at]].end_ns;
            if (end_ns <= row->start_ns || !ended_before(host, call, rank, launched[at])) continue;
            waited |= add_wait(host, call, rank, launched[at], return_lag(row, end_ns), false);
        }
    }
    return waited;
}

static bool queue_full(const struct host *host, uint32_t call) {
    const size_t begun =
        aorta_count_until(host->begun_ns, host->begun, sizeof *host->begun_ns, 0, host->rows->calls[call].end_ns);
    return host->launches > begun && host->launches - begun >= FULL_QUEUE;
}

/* Adds the edges of the call's waits. False if it did not wait. */
static bool add_waits(struct host *host, uint32_t call) {
    const struct aorta_replay_call *row = &host->rows->calls[call];
    bool is_long = row->end_ns - row->start_ns > LONG_CALL_NS;
    switch ((enum aorta_replay_call_kind)row->kind) {
    case AORTA_REPLAY_SYNC_DEVICE:
        return host->dirty ? wait_for_device(host, call) : wait_for_last(host, call);
    case AORTA_REPLAY_SYNC:
        return row->awaited ? wait_for_awaited(host, call) : wait_for_last(host, call);
    case AORTA_REPLAY_COPY:
    case AORTA_REPLAY_READ:
    case AORTA_REPLAY_VALUE:
        return wait_for_own(host, call) || (is_long && queue_full(host, call) && wait_for_last(host, call));
    case AORTA_REPLAY_LAUNCH:
        return is_long && queue_full(host, call) && wait_for_last(host, call);
    case AORTA_REPLAY_FREE:
        return is_long && wait_for_last(host, call);
    case AORTA_REPLAY_MEMORY:
    case AORTA_REPLAY_DATA:
    case AORTA_REPLAY_BATCH:
    case AORTA_REPLAY_HOST_COLLECTIVE:
        break;
    }
    return false;
}

/* ---- order within a thread ---- */

static bool is_read(const struct host *host, uint32_t call) {
    return host->rows->calls[call].kind == AORTA_REPLAY_READ;
}

/* The kind of time before a call: within an open call, within a read's calls, or a gap. */
static enum aorta_edge_kind time_within(const struct host *host, const struct thread *thread) {
    if (thread->open != AORTA_GRAPH_NONE) return kinds[host->rows->calls[thread->open].kind].own;
    return is_read(host, thread->last_call) ? AORTA_EDGE_CALL_SYNC : AORTA_EDGE_GAP;
}

static uint32_t name_at(const struct host *host, uint32_t point) {
    return host->rows->calls[(point - host->builder->first_call[host->host]) / 2].name;
}

static void add_pause(struct host *host, struct aorta_pause pause) {
    struct aorta_graph_builder *builder = host->builder;
    aorta_arena_append(&builder->memory, &builder->pauses, &builder->pause_capacity, &builder->pause_count, &pause,
                       sizeof pause);
}

/* A host that pauses after reading a result may compute with it. So even without the wait, the pause begins no earlier
 * than the copy's end. */
static void add_use_of_result(struct host *host, uint32_t from, uint32_t to, uint32_t result) {
    struct aorta_graph *graph = host->builder->graph;
    const int64_t lag_ns = graph->time_ns[to] - graph->time_ns[result];
    const uint32_t edge = aorta_graph_edge(graph, result, to, lag_ns, AORTA_EDGE_PAUSE, true);
    add_pause(host, (struct aorta_pause){edge, name_at(host, from), name_at(host, to), 0, host->usual_gap_ns});
}

/* Adds an edge of the host's own time. True if it is a pause: long time between calls. */
static bool add_time(struct host *host, uint32_t from, uint32_t to, enum aorta_edge_kind kind, bool inferred) {
    struct aorta_graph *graph = host->builder->graph;
    int64_t lag_ns = graph->time_ns[to] - graph->time_ns[from];
    bool pause = kind == AORTA_EDGE_PAUSE ||
                 ((kind == AORTA_EDGE_GAP || kind == AORTA_EDGE_HANDOVER) && lag_ns >= host->pause_ns);
    if (pause) kind = AORTA_EDGE_PAUSE;
    uint32_t edge = aorta_graph_edge(graph, from, to, lag_ns, kind, inferred);
    if (pause)
        add_pause(host, (struct aorta_pause){edge, name_at(host, from), name_at(host, to), lag_ns, host->usual_gap_ns});
    return pause;
}

/* Keeps the time between batches of a slow loader: a host that comes earlier does not get its batch earlier. */
static void add_batch(struct host *host, uint32_t call, uint32_t point) {
    struct aorta_graph *graph = host->builder->graph;
    const struct aorta_replay_call *row = &host->rows->calls[call];
    const int64_t waited_ns = row->end_ns - row->start_ns;
    host->batches++;
    if (waited_ns < BATCH_NS) return;
    if (host->batch != AORTA_GRAPH_NONE) {
        const int64_t since_ns = graph->time_ns[point] - graph->time_ns[host->batch];
        if (waited_ns * BATCH_SHARE < since_ns) return;
        if (host->batches <= BATCHES) aorta_graph_edge(graph, host->batch, point, since_ns, AORTA_EDGE_BATCH, true);
    }
    host->batch = point;
    host->batches = 0;
}

/* The end of the copy of a result that this call launches; NONE if it launches none. */
static uint32_t result_of(const struct host *host, uint32_t call) {
    for (uint32_t i = 0; i < host->ranks; i++) {
        const struct aorta_replay_rank *one = &host->builder->recording->ranks[host->rank[i]];
        const uint32_t *launched = host->builder->launched[host->rank[i]];
        for (uint32_t at = host->cursor[i]; at < one->span_count && one->spans[launched[at]].launch == call; at++)
            if (one->spans[launched[at]].result) return aorta_span_end(host->builder, host->rank[i], launched[at]);
    }
    return AORTA_GRAPH_NONE;
}

static void end_call(struct host *host, struct thread *thread) {
    struct aorta_graph_builder *builder = host->builder;
    uint32_t call = thread->open, point = aorta_call_end(builder, host->host, call);
    enum aorta_edge_kind own = kinds[host->rows->calls[call].kind].own;
    int64_t lag_ns = builder->graph->time_ns[point] - builder->graph->time_ns[thread->last_point];
    if (add_waits(host, call) && lag_ns > AORTA_CALL_OWN_NS)
        lag_ns = AORTA_CALL_OWN_NS;
    else if (host->rows->calls[call].kind == AORTA_REPLAY_COPY && lag_ns > AORTA_STAGED_NS)
        own = AORTA_EDGE_CALL_COPY;
    if (host->rows->calls[call].blocked)
        (void)add_time(host, thread->last_point, point, AORTA_EDGE_PAUSE, false);
    else
        aorta_graph_edge(builder->graph, thread->last_point, point, lag_ns, own, false);
    if (host->rows->calls[call].kind == AORTA_REPLAY_BATCH) add_batch(host, call, point);
    thread->open = host->around[call];
    thread->last_point = point;
    thread->read = !is_read(host, call) && (thread->reading || host->rows->calls[call].kind == AORTA_REPLAY_VALUE);
    if (!thread->read) thread->result = is_read(host, call) ? result_of(host, call) : AORTA_GRAPH_NONE;
    thread->reading = is_read(host, call);
    thread->last_call = call;
}

static void end_until(struct host *host, struct thread *thread, int64_t time_ns) {
    while (thread->open != AORTA_GRAPH_NONE && host->rows->calls[thread->open].end_ns <= time_ns)
        end_call(host, thread);
}

static bool is_later(const struct silence *a, const struct silence *b) {
    return a->since_ns != b->since_ns ? a->since_ns > b->since_ns : a->thread < b->thread;
}

/* Few are later: those of calls that other threads are in. */
static void add_silence(struct host *host, struct silence silence) {
    size_t at = host->silent_count++;
    for (; at && is_later(&host->silent[at - 1], &silence); at--) host->silent[at] = host->silent[at - 1];
    host->silent[at] = silence;
}

/* Adds the thread's silence after its last call, if it is long. */
static void note_silence(struct host *host, uint32_t number) {
    const struct thread *thread = &host->threads[number];
    if (thread->open != AORTA_GRAPH_NONE) return;
    const int64_t since_ns = host->builder->graph->time_ns[thread->last_point];
    const uint32_t next = host->next[thread->last_call];
    if (next != AORTA_GRAPH_NONE && host->rows->calls[next].start_ns - since_ns < QUIET_NS) return;
    add_silence(host, (struct silence){since_ns, number, thread->last_call});
}

/* The thread that most recently became silent before this call, within the silence of the call's own thread; NULL if
 * none. */
static const struct thread *handed_over_by(struct host *host, const struct thread *thread, uint32_t call) {
    const int64_t *time_ns = host->builder->graph->time_ns;
    const struct aorta_replay_call *calls = host->rows->calls;
    int64_t latest_ns = thread->last_point == AORTA_GRAPH_NONE ? INT64_MIN : time_ns[thread->last_point];
    int64_t start_ns = calls[call].start_ns;
    if (latest_ns != INT64_MIN && start_ns - latest_ns < QUIET_NS) return NULL;
    while (host->silent_count) {
        const struct silence *latest = &host->silent[host->silent_count - 1];
        const struct thread *other = &host->threads[latest->thread];
        if (other != thread && other->last_call == latest->call) return latest->since_ns > latest_ns ? other : NULL;
        host->silent_count--; /* its silence has ended */
    }
    return NULL;
}

/* Without a read, the host continues from the launch before it to the launch after it with one usual gap. As the gap
 * before the read already counts, the gap after it is reduced by the usual gap. */
static void end_read(struct host *host, uint32_t point) {
    struct aorta_graph *graph = host->builder->graph;
    const uint32_t edge = graph->edge_count - 1;
    if (graph->to[edge] != point || graph->kind[edge] != AORTA_EDGE_GAP) return;
    const int64_t left_ns = graph->lag_ns[edge] - host->usual_gap_ns;
    aorta_graph_change(graph, edge, AORTA_WITHOUT_HOST_SYNC, left_ns > 0 ? left_ns : 0);
}

static void begin_call(struct host *host, uint32_t call) {
    struct aorta_graph_builder *builder = host->builder;
    struct thread *thread = &host->threads[host->rows->calls[call].thread];
    end_until(host, thread, host->rows->calls[call].start_ns);
    uint32_t point = aorta_call_start(builder, host->host, call);
    const struct thread *before = thread->open == AORTA_GRAPH_NONE ? handed_over_by(host, thread, call) : NULL;
    const struct thread *last = before ? before : thread;
    if (last->last_point != AORTA_GRAPH_NONE) {
        const enum aorta_edge_kind kind = before ? AORTA_EDGE_HANDOVER : time_within(host, thread);
        const bool pause = add_time(host, last->last_point, point, kind, before);
        if (!before && thread->read) end_read(host, point);
        if (pause && last->read && last->result != AORTA_GRAPH_NONE)
            add_use_of_result(host, last->last_point, point, last->result);
    }
    if (before && thread->last_point != AORTA_GRAPH_NONE)
        aorta_graph_edge(builder->graph, thread->last_point, point, 0, AORTA_EDGE_HANDOVER, false);
    host->around[call] = thread->open;
    thread->open = call;
    thread->last_point = point;
    thread->last_call = call;
}

/* ---- launches so far ---- */

/* Updates the last launched span of each stream after the call. */
static void count_launches(struct host *host, uint32_t call) {
    bool any = false;
    for (uint32_t i = 0; i < host->ranks; i++) {
        uint32_t rank = host->rank[i];
        const struct aorta_replay_rank *one = &host->builder->recording->ranks[rank];
        const uint32_t *launched = host->builder->launched[rank];
        while (host->cursor[i] < one->span_count && one->spans[launched[host->cursor[i]]].launch <= call) {
            uint32_t span = launched[host->cursor[i]++];
            if (host->dirty) host->dirty[one->spans[span].stream] = span;
            any = true;
        }
    }
    host->launches += any;
}

static void find_begun(struct host *host) {
    const struct aorta_recording *recording = host->builder->recording;
    size_t limit = 1;
    for (uint32_t i = 0; i < host->ranks; i++) limit += recording->ranks[host->rank[i]].span_count;
    host->begun_ns = aorta_arena_raw(&host->memory, limit * sizeof *host->begun_ns);
    if (!host->begun_ns) return;
    for (uint32_t i = 0; i < host->ranks; i++) {
        const struct aorta_replay_rank *rank = &recording->ranks[host->rank[i]];
        const uint32_t *launched = host->builder->launched[host->rank[i]];
        uint32_t before = AORTA_GRAPH_NONE;
        for (uint32_t j = 0; j < rank->span_count; j++) {
            const struct aorta_replay_span *span = &rank->spans[launched[j]];
            if (span->launch != AORTA_GRAPH_NONE && span->launch != before)
                host->begun_ns[host->begun++] = span->start_ns;
            before = span->launch;
        }
    }
    aorta_sort_int64(host->begun_ns, host->begun);
}

/* The median of the first gaps between calls. */
static int64_t usual_gap(const struct host *host) {
    enum { SAMPLES = 1024 };
    int64_t gaps[SAMPLES];
    uint32_t count = 0;
    for (uint32_t i = 0; i < host->rows->call_count && count < SAMPLES; i++) {
        uint32_t next = host->next[i];
        if (next == AORTA_GRAPH_NONE) continue;
        int64_t gap_ns = host->rows->calls[next].start_ns - host->rows->calls[i].end_ns;
        if (gap_ns > 0) gaps[count++] = gap_ns;
    }
    return aorta_median_int64(gaps, count);
}

/* ---- a host ---- */

static void host_make(struct host *host) {
    const struct aorta_recording *recording = host->builder->recording;
    size_t calls = (size_t)host->rows->call_count + 1, ranks = (size_t)recording->rank_count + 1;
    host->threads = aorta_arena_alloc(&host->memory, ((size_t)host->rows->thread_count + 1) * sizeof *host->threads);
    host->around = aorta_arena_raw(&host->memory, calls * sizeof *host->around);
    host->next = aorta_arena_raw(&host->memory, calls * sizeof *host->next);
    host->silent = aorta_arena_raw(&host->memory, calls * sizeof *host->silent);
    host->rank = aorta_arena_alloc(&host->memory, ranks * sizeof *host->rank);
    host->cursor = aorta_arena_alloc(&host->memory, ranks * sizeof *host->cursor);
    if (host->memory.failed) return;
    for (uint32_t i = 0; i < host->rows->thread_count; i++)
        host->threads[i] =
            (struct thread){AORTA_GRAPH_NONE, AORTA_GRAPH_NONE, AORTA_GRAPH_NONE, false, false, AORTA_GRAPH_NONE};
    for (uint32_t i = 0; i < recording->rank_count; i++)
        if (recording->ranks[i].host == host->host) host->rank[host->ranks++] = i;
    find_begun(host);
    if (host->ranks > 1) return;
    host->dirty = aorta_arena_alloc(&host->memory, ((size_t)host->rows->stream_count + 1) * sizeof *host->dirty);
    for (uint32_t i = 0; host->dirty && i < host->rows->stream_count; i++) host->dirty[i] = AORTA_GRAPH_NONE;
}

/* Sets next[], using threads[].last_call temporarily. */
static void find_next(struct host *host) {
    for (uint32_t i = host->rows->call_count; i-- > 0;) {
        struct thread *thread = &host->threads[host->rows->calls[i].thread];
        host->next[i] = thread->last_call;
        thread->last_call = i;
    }
    for (uint32_t i = 0; i < host->rows->thread_count; i++) host->threads[i].last_call = AORTA_GRAPH_NONE;
}

static void add_calls(struct host *host) {
    const struct aorta_replay_rank *rows = host->rows;
    find_next(host);
    host->usual_gap_ns = usual_gap(host);
    if (host->usual_gap_ns > host->pause_ns / 10) host->usual_gap_ns = host->pause_ns / 10;
    for (uint32_t i = 0; i < rows->call_count; i++) {
        begin_call(host, i);
        end_until(host, &host->threads[rows->calls[i].thread],
                  host->next[i] == AORTA_GRAPH_NONE ? INT64_MAX : rows->calls[host->next[i]].start_ns);
        note_silence(host, rows->calls[i].thread);
        count_launches(host, i);
    }
    for (uint32_t i = 0; i < rows->thread_count; i++) end_until(host, &host->threads[i], INT64_MAX);
}

void aorta_graph_add_host(struct aorta_graph_builder *builder, uint32_t index) {
    struct host host = {.builder = builder,
                        .rows = &builder->recording->ranks[index],
                        .host = index,
                        .pause_ns = builder->recording->native ? NATIVE_NS : PAUSE_NS,
                        .batch = AORTA_GRAPH_NONE};
    host_make(&host);
    if (!host.memory.failed) add_calls(&host);
    aorta_arena_end(&host.memory, &builder->memory);
}

/* Places in the program at which hosts pause: pairs of calls, by the names of their work. The three places with the
 * longest total pause have a removal each, as each has its own reason. Pauses that end when the device has finished are
 * waits that no call shows (XLA waits for its own threads). */

enum { PLACES = AORTA_WITHOUT_HOST_PAUSE_ELSE - AORTA_WITHOUT_HOST_PAUSE };

struct place {
    size_t begin, end; /* range of the sorted pauses */
    int64_t sum_ns;
};

static AORTA_ORDER(by_place, struct aorta_pause, AORTA_UP(before) AORTA_UP(after));

static AORTA_ORDER(by_place_and_edge, struct aorta_pause, AORTA_THEN(by_place) AORTA_UP(edge));

/* Inserts the place if it is among the longest, sorted longest first. */
static void keep_longest(struct place *longest, struct place place) {
    for (int i = 0; i < PLACES; i++) {
        if (longest[i].sum_ns >= place.sum_ns) continue;
        struct place shorter = longest[i];
        longest[i] = place;
        place = shorter;
    }
}

static uint32_t removal_of(const struct place *longest, size_t pause) {
    for (int i = 0; i < PLACES; i++)
        if (pause >= longest[i].begin && pause < longest[i].end) return (uint32_t)(AORTA_WITHOUT_HOST_PAUSE + i);
    return AORTA_WITHOUT_HOST_PAUSE_ELSE;
}

enum {
    ENDS_NS = 500000, /* a wait ends at most this long after the device's work, … */
    ENDS_MOST = 8,    /* … and at most this part (1/8) of its length; a later end is the host's own work. */
    ENDS_PART = 25,   /* A long wait may end this part (1/25) of its length later, as threads that slept long wake up
                       * late. */
    SLACK_NS = 2000,  /* between clocks of host and device */
    FEWEST = 3,       /* minimum number of waits at a place */
    LOOK_BACK = 64,   /* spans */
};

static bool is_busy_at(const struct aorta_replay_rank *rank, int64_t time_ns) {
    const struct aorta_replay_span *spans = rank->spans;
    const size_t next = aorta_count_until(spans, rank->span_count, sizeof *spans,
                                          offsetof(struct aorta_replay_span, start_ns), time_ns);
    for (size_t i = 0; i < LOOK_BACK && i < next; i++)
        if (spans[next - 1 - i].end_ns > time_ns) return true;
    return false;
}

/* The span whose end the pause may have awaited: the device's last one, with nothing after it; NONE if there is
 * none. */
static uint32_t awaited_by(const struct aorta_graph_builder *builder, const struct aorta_pause *pause) {
    const struct aorta_graph *graph = builder->graph;
    const uint32_t to = graph->to[pause->edge], rank = graph->rank[to];
    const int64_t from_ns = graph->time_ns[graph->from[pause->edge]], to_ns = graph->time_ns[to];
    const struct aorta_replay_rank *one = &builder->recording->ranks[rank];
    const uint32_t call = (to - builder->first_call[one->host]) / 2;
    const uint32_t span = aorta_last_ended(builder, rank, from_ns, to_ns + SLACK_NS, call, AORTA_GRAPH_NONE);
    const int64_t length_ns = to_ns - from_ns,
                  most_ns = length_ns / ENDS_MOST < ENDS_NS ? length_ns / ENDS_MOST : ENDS_NS;
    const int64_t latest_ns = length_ns / ENDS_PART > most_ns ? length_ns / ENDS_PART : most_ns;
    if (span == AORTA_GRAPH_NONE || to_ns - one->spans[span].end_ns > latest_ns) return AORTA_GRAPH_NONE;
    return is_busy_at(one, to_ns + SLACK_NS) ? AORTA_GRAPH_NONE : span;
}

static void turn_into_wait(const struct aorta_graph_builder *builder, const struct aorta_pause *pause, uint32_t span) {
    struct aorta_graph *graph = builder->graph;
    const uint32_t to = graph->to[pause->edge], rank = graph->rank[to];
    const int64_t lag_ns = graph->time_ns[to] - builder->recording->ranks[rank].spans[span].end_ns;
    graph->kind[pause->edge] = AORTA_EDGE_GAP;
    if (graph->lag_ns[pause->edge] > pause->left_ns) graph->lag_ns[pause->edge] = pause->left_ns;
    aorta_graph_edge(graph, aorta_span_end(builder, rank, span), to, lag_ns > 0 ? lag_ns : 0, AORTA_EDGE_WAIT, true);
}

/* Turns pauses into waits and removes them, at places where most pauses are waits. `pauses` are sorted by place.
 * Returns the number of remaining pauses. */
static size_t without_waits(const struct aorta_graph_builder *builder, struct aorta_pause *pauses, size_t count) {
    size_t left = 0;
    for (size_t begin = 0, end; begin < count; begin = end) {
        size_t waits = 0;
        end = begin + aorta_count_equal(&pauses[begin], count - begin, sizeof *pauses, by_place);
        for (size_t i = begin; i < end; i++) waits += awaited_by(builder, &pauses[i]) != AORTA_GRAPH_NONE;
        const bool place = waits >= FEWEST && 4 * waits >= 3 * (end - begin);
        for (size_t i = begin; i < end; i++) {
            const uint32_t span = place ? awaited_by(builder, &pauses[i]) : AORTA_GRAPH_NONE;
            if (span != AORTA_GRAPH_NONE)
                turn_into_wait(builder, &pauses[i], span);
            else
                pauses[left++] = pauses[i];
        }
    }
    return left;
}

void aorta_place_pauses(struct aorta_graph_builder *builder) {
    struct aorta_pause *pauses = builder->pauses;
    size_t count = builder->pause_count;
    struct place longest[PLACES] = {0};
    if (count) qsort(pauses, count, sizeof *pauses, by_place_and_edge);
    count = without_waits(builder, pauses, count);
    for (size_t begin = 0, end; begin < count; begin = end) {
        end = begin + aorta_count_equal(&pauses[begin], count - begin, sizeof *pauses, by_place);
        struct place place = {begin, end, 0};
        for (size_t i = begin; i < end; i++) place.sum_ns += pauses[i].lag_ns;
        keep_longest(longest, place);
    }
    for (size_t i = 0; i < count; i++)
        aorta_graph_change(builder->graph, pauses[i].edge, removal_of(longest, i), pauses[i].left_ns);
}
