#include "replay/trace_graph.h"

#include "analysis/phases.h"
#include "base/intern.h"
#include "base/sort.h"
#include "replay/replay.h"
#include "trace/trace.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

enum { FEWEST_STEPS = 3 }; /* measured steps; the first one only provides the host's lead at its end */

/* State while a recording is built. */
struct build {
    struct aorta_arena memory;
    const struct aorta_trace_analysis *analysis;
    struct aorta_replay_rank *ranks;
    struct aorta_collective_times *collectives;
    uint32_t name_count;
    uint32_t **call_rows;       /* of the first rank of each trace and row of its calls[]: the rank's call; NONE */
    uint32_t **names;           /* by first rank of each trace and text: number of the name, the same on all ranks */
    int64_t from_step, to_step; /* measured steps that are replayed; other recordings are replayed as a whole */
};

size_t aorta_first_of_trace(const struct aorta_trace_analysis *analysis, size_t rank) {
    size_t first = 0;
    while (analysis->ranks[first].trace != analysis->ranks[rank].trace) first++;
    return first;
}

bool aorta_is_only_of_trace(const struct aorta_trace_analysis *analysis, size_t rank) {
    for (size_t i = 0; i < analysis->rank_count; i++)
        if (i != rank && analysis->ranks[i].trace == analysis->ranks[rank].trace) return false;
    return true;
}

static const struct aorta_trace *trace_of(const struct build *build, size_t rank) {
    return build->analysis->ranks[rank].trace;
}

static bool is_replayed(const struct build *build, const struct aorta_trace_window *window) {
    return !build->analysis->measured || (window->number >= build->from_step && window->number < build->to_step);
}

static int64_t shift_of(const struct build *build, size_t rank) {
    return build->analysis->alignment.clocks[rank].shift_ns;
}

/* ---- names on all ranks ---- */

/* 0 means no name. */
static uint32_t name_of(const struct build *build, size_t rank, uint32_t text) {
    return text == AORTA_TRACE_NONE ? 0 : build->names[build->ranks[rank].host][text];
}

static void number_names(struct build *build) {
    struct aorta_texts texts = {0};
    for (size_t i = 0; i < build->analysis->rank_count; i++) {
        const struct aorta_trace *trace = trace_of(build, i);
        const uint32_t count = build->ranks[i].host == i ? (uint32_t)aorta_trace_text_count(trace) : 0;
        build->names[i] = aorta_arena_raw(&build->memory, count * sizeof **build->names);
        for (uint32_t j = 0; !build->memory.failed && j < count; j++) {
            const char *text = aorta_trace_text(trace, j);
            build->names[i][j] = aorta_texts_add(&texts, text, strlen(text)) + 1;
            build->memory.failed = !build->names[i][j]; /* aorta_texts_add returned UINT32_MAX */
        }
    }
    build->name_count = (uint32_t)texts.count + 1;
    aorta_texts_free(&texts);
}

/* ---- hosts ---- */

static enum aorta_replay_call_kind kind_of_call(const struct aorta_trace *trace, const struct aorta_trace_call *call) {
    const char *name = aorta_trace_text(trace, call->name);
    switch ((enum aorta_trace_call_kind)call->kind) {
    case AORTA_CALL_COPY:
        return AORTA_REPLAY_COPY;
    case AORTA_CALL_SYNC:
        return strstr(name, "StreamSync") || strstr(name, "EventSync") ? AORTA_REPLAY_SYNC : AORTA_REPLAY_SYNC_DEVICE;
    case AORTA_CALL_MEMORY:
        return strstr(name, "Free") ? AORTA_REPLAY_FREE : AORTA_REPLAY_MEMORY;
    case AORTA_CALL_DATA_WAIT:
        return strstr(name, "MultiProcessing") || trace->measured ? AORTA_REPLAY_BATCH : AORTA_REPLAY_DATA;
    case AORTA_CALL_COLLECTIVE:
        return AORTA_REPLAY_HOST_COLLECTIVE;
    default:
        return AORTA_REPLAY_LAUNCH;
    }
}

size_t aorta_trace_cache_emptied(const struct aorta_trace *trace, size_t call) {
    enum { FREES = 3, REACH = 64 };
    size_t first = 0, frees = 0;
    if (kind_of_call(trace, &trace->calls[call]) != AORTA_REPLAY_MEMORY) return 0;
    for (size_t i = call + 1; i < trace->call_count && i <= call + REACH && frees < FREES; i++) {
        if (trace->calls[i].thread != trace->calls[call].thread) continue;
        if (kind_of_call(trace, &trace->calls[i]) != AORTA_REPLAY_FREE) return 0;
        if (!frees++) first = i;
    }
    return frees == FREES ? first : 0;
}

/* The host's time range of the replayed measured steps; unlimited for other traces. */
static void bound_calls(const struct build *build, const struct aorta_trace *trace, int64_t *from_ns, int64_t *to_ns) {
    *from_ns = INT64_MIN;
    *to_ns = INT64_MAX;
    for (size_t i = 0; trace->measured && i < trace->step_count; i++) {
        if (trace->steps[i].number == build->from_step) *from_ns = trace->steps[i].start_ns;
        if (trace->steps[i].number == build->to_step - 1) *to_ns = trace->steps[i].end_ns;
    }
}

/* A copy to the host is a read if the thread's next call waits for it. A small copy that waits is a read, too. */
static void mark_reads(const struct aorta_trace *trace, struct aorta_replay_call *calls, uint32_t count,
                       struct aorta_arena *memory) {
    if (trace->measured) return;
    uint32_t *next = aorta_arena_alloc(memory, (trace->thread_count + 1) * sizeof *next);
    const bool *reads = aorta_trace_reading_calls(trace, false, memory);
    const bool *values = aorta_trace_reading_calls(trace, true, memory);
    for (size_t i = 0; next && i < trace->thread_count; i++) next[i] = AORTA_GRAPH_NONE;
    for (uint32_t i = count; next && reads && values && i-- > 0;) {
        const uint32_t after = next[calls[i].thread];
        next[calls[i].thread] = i;
        if (calls[i].kind == AORTA_REPLAY_COPY && reads[calls[i].row] && after != AORTA_GRAPH_NONE &&
            calls[after].kind == AORTA_REPLAY_SYNC)
            calls[i].kind = AORTA_REPLAY_READ;
        else if (calls[i].kind == AORTA_REPLAY_COPY && values[calls[i].row] &&
                 aorta_trace_call_waits(trace, &trace->calls[calls[i].row]))
            calls[i].kind = AORTA_REPLAY_VALUE;
    }
}

/* The first window that is replayed as a step; NULL if there is none. */
static const struct aorta_trace_window *first_step(const struct build *build, size_t rank) {
    const struct aorta_trace_rank *one = &build->analysis->ranks[rank];
    const struct aorta_trace_window *window = aorta_step_after(build->analysis, one, NULL);
    while (window && !is_replayed(build, window)) window = aorta_step_after(build->analysis, one, window);
    return window;
}

/* The start of a step including its lead, as in the figures of steps. */
static int64_t begin_of(const struct build *build, size_t rank, const struct aorta_trace_window *window) {
    const struct aorta_profile *profile = &window->profile;
    if (build->analysis->measured) return window->start_ns - shift_of(build, rank);
    return profile->end_ns - profile->overlap.span_ns - profile->overlap.lead_ns;
}

/* The host's mark at the start of the first step. INT64_MIN if the step begins at the end of other work, or with its
 * own work. */
static int64_t mark_of(const struct build *build, size_t rank) {
    const struct aorta_trace *trace = trace_of(build, rank);
    const struct aorta_trace_window *first = first_step(build, rank);
    for (size_t i = 0; first && first->profile.overlap.lead_ns && i < trace->step_count; i++)
        if (trace->steps[i].start_ns - shift_of(build, rank) == begin_of(build, rank, first))
            return trace->steps[i].start_ns;
    return INT64_MIN;
}

/* Adds calls of threads that launch, and waits for data. The mark becomes a call of length 0, so that the host's time
 * from the mark to the first call is part of the step. */
static void add_calls(struct build *build, size_t rank) {
    const struct aorta_trace *trace = trace_of(build, rank);
    int64_t shift_ns = shift_of(build, rank);
    const bool *launching = aorta_trace_launching_threads(trace, &build->memory);
    struct aorta_replay_call *calls = aorta_arena_raw(&build->memory, (trace->call_count + 2) * sizeof *calls);
    uint32_t *rows = aorta_arena_raw(&build->memory, (trace->call_count + 1) * sizeof *rows), count = 0;
    int64_t from_ns, to_ns, mark_ns = mark_of(build, rank);
    bound_calls(build, trace, &from_ns, &to_ns);
    for (size_t i = 0; !build->memory.failed && i < trace->call_count; i++) {
        const struct aorta_trace_call *call = &trace->calls[i];
        rows[i] = AORTA_GRAPH_NONE;
        if (call->start_ns < from_ns || call->start_ns >= to_ns) continue;
        if (!launching[call->thread] && call->kind != AORTA_CALL_DATA_WAIT) continue;
        if (mark_ns != INT64_MIN && call->start_ns > mark_ns) {
            calls[count++] = (struct aorta_replay_call){.start_ns = mark_ns - shift_ns,
                                                        .end_ns = mark_ns - shift_ns,
                                                        .row = AORTA_GRAPH_NONE,
                                                        .thread = call->thread};
            mark_ns = INT64_MIN;
        }
        rows[i] = count;
        const size_t freed = aorta_trace_cache_emptied(trace, i); /* the call waits until then, as a free does */
        calls[count++] =
            (struct aorta_replay_call){.start_ns = call->start_ns - shift_ns,
                                       .end_ns = (freed ? trace->calls[freed].start_ns : call->end_ns) - shift_ns,
                                       .row = (uint32_t)i,
                                       .thread = call->thread,
                                       .name = name_of(build, rank, call->name),
                                       .kind = (uint8_t)(freed ? AORTA_REPLAY_FREE : kind_of_call(trace, call))};
    }
    mark_reads(trace, calls, count, &build->memory);
    build->call_rows[rank] = rows;
    build->ranks[rank].calls = calls;
    build->ranks[rank].call_count = count;
    build->ranks[rank].thread_count = (uint32_t)trace->thread_count;
}

/* ---- spans ---- */

/* Copies within a device, and fills, compete with kernels for the device's memory: overlapping them with kernels gains
 * nothing. */
static bool crosses_link(const struct aorta_trace *trace, const struct aorta_trace_work *work) {
    return work->kind == AORTA_TRACE_COPY &&
           aorta_copied_how(aorta_trace_text(trace, work->name)) != AORTA_COPIED_WITHIN;
}

/* Without the calls that wait for events a shared queue looks like such a wait, and `aorta trace run` does not record
 * these calls. */
static uint32_t queue_of(const struct aorta_trace *trace, const struct aorta_trace_work *work) {
    bool events = trace->format != AORTA_TRACE_SPOOL && trace->call_count;
    return events && work->queue != AORTA_TRACE_NONE ? work->queue : AORTA_GRAPH_NONE;
}

/* A distinct number: even from the communicator's id if the file has one, else odd from its process group. */
static uint32_t communicator_of(const struct aorta_trace *trace, const struct aorta_trace_work *work) {
    if (work->collective == AORTA_TRACE_NONE) return AORTA_GRAPH_NONE;
    const struct aorta_trace_collective *known = &trace->collectives[work->collective];
    if (known->communicator != AORTA_TRACE_NONE) return 2 * known->communicator;
    return known->group == AORTA_TRACE_NONE ? AORTA_GRAPH_NONE : 2 * known->group + 1;
}

/* Copies of few bytes are values, not results: the host prints them or branches on them, but does not compute long with
 * them. */
static bool is_result(const struct aorta_trace *trace, const struct aorta_trace_work *work) {
    return work->kind == AORTA_TRACE_COPY && work->bytes > AORTA_VALUE_BYTES &&
           aorta_copied_how(aorta_trace_text(trace, work->name)) == AORTA_COPIED_TO_HOST;
}

static uint8_t page_of(const struct aorta_trace *trace, const struct aorta_trace_work *work) {
    const enum aorta_copied moved = aorta_trace_page_moved(trace, work);
    return moved == AORTA_COPIED_UNKNOWN ? 0 : (uint8_t)(1 + moved);
}

static struct aorta_replay_span span_of(const struct build *build, size_t rank, uint32_t row) {
    const struct aorta_trace *trace = trace_of(build, rank);
    const struct aorta_trace_work *work = &trace->work[row];
    const uint32_t sizes = work->shape == AORTA_TRACE_NONE ? work->geometry : trace->shapes[work->shape].dims;
    return (struct aorta_replay_span){
        .start_ns = work->start_ns - shift_of(build, rank),
        .end_ns = work->end_ns - shift_of(build, rank),
        .alone_ns = -1,
        .row = row,
        .stream = work->stream,
        .queue = queue_of(trace, work),
        .communicator = communicator_of(trace, work),
        .launch =
            work->call == AORTA_TRACE_NONE ? AORTA_GRAPH_NONE : build->call_rows[build->ranks[rank].host][work->call],
        .name = name_of(build, rank, work->name),
        .sizes = name_of(build, rank, sizes),
        .collective = AORTA_GRAPH_NONE,
        .step = AORTA_GRAPH_NONE,
        .kind = (uint8_t)(aorta_trace_is_collective(work) ? AORTA_REPLAY_COLLECTIVE
                          : crosses_link(trace, work)     ? AORTA_REPLAY_TRANSFER
                                                          : AORTA_REPLAY_KERNEL),
        .page = page_of(trace, work),
        .result = is_result(trace, work),
    };
}

/* The role of a collective for dependent work. */
static const uint8_t roles[AORTA_COLLECTIVE_COUNT] = {
    [AORTA_ALL_REDUCE] = AORTA_REPLAY_REDUCE,
    [AORTA_REDUCE_SCATTER] = AORTA_REPLAY_REDUCE,
    [AORTA_ALL_GATHER] = AORTA_REPLAY_GATHER,
};

/* Sets step, role and shared collective of work that begins in a window. `span_of_row`: by row of the trace's work. */
static void add_facts(struct build *build, size_t rank, const uint32_t *span_of_row) {
    const struct aorta_trace_rank *one = &build->analysis->ranks[rank];
    struct aorta_replay_span *spans = build->ranks[rank].spans;
    for (size_t i = 0; i < one->window_count; i++) {
        const struct aorta_trace_window *window = &one->windows[i];
        for (size_t j = 0; is_replayed(build, window) && j < window->profile.range_count; j++) {
            const struct aorta_trace_work *work = &one->work[window->work[j]];
            uint32_t row = one->source ? one->source[window->work[j]] : window->work[j];
            uint32_t collective = window->shared[j];
            struct aorta_replay_span *span = &spans[span_of_row[row]];
            if (!window->borrowed && work->start_ns < window->start_ns) continue; /* it began in the window before */
            span->step = (uint32_t)i;
            if (span->kind != AORTA_REPLAY_COLLECTIVE) continue;
            if (!aorta_brings_activations(one, work)) span->role = roles[aorta_trace_collective_kind(one->trace, work)];
            if (collective != AORTA_TRACE_NONE && build->analysis->alignment.shared[collective].complete)
                span->collective = collective;
        }
    }
}

/* ---- alone ---- */

/* Intervals of the rank in collectives, on the common clock. */
static void collective_time(const struct build *build, size_t rank, struct aorta_intervals *comm) {
    const struct aorta_replay_rank *one = &build->ranks[rank];
    for (uint32_t i = 0; i < one->span_count; i++)
        if (one->spans[i].kind == AORTA_REPLAY_COLLECTIVE)
            aorta_intervals_add(comm, one->spans[i].start_ns, one->spans[i].end_ns);
    aorta_intervals_normalise(comm);
}

static double lost_share(const struct aorta_trace_rank *rank, const struct aorta_trace_work *work) {
    const uint32_t name = aorta_trace_product_name(rank->trace, work);
    for (size_t i = 0; i < rank->gemm_count; i++)
        if (rank->gemms[i].lost > 0 && rank->gemms[i].shape == work->shape && rank->gemms[i].name == name)
            return rank->gemms[i].lost;
    return 0;
}

/* Sets how long products of known shapes take without a concurrent collective, where collectives slow them down
 * significantly. */
static void set_alone(struct build *build, size_t rank) {
    const struct aorta_trace_rank *one = &build->analysis->ranks[rank];
    struct aorta_replay_span *spans = build->ranks[rank].spans;
    struct aorta_intervals comm = {0};
    bool any = false;
    for (size_t i = 0; i < one->gemm_count; i++)
        any = any || (one->gemms[i].lost > 0 && one->gemms[i].shape != AORTA_TRACE_NONE);
    if (!any) return;
    collective_time(build, rank, &comm);
    for (uint32_t i = 0; i < build->ranks[rank].span_count; i++) {
        const struct aorta_trace_work *work = &one->trace->work[spans[i].row];
        if (work->shape == AORTA_TRACE_NONE || spans[i].kind != AORTA_REPLAY_KERNEL) continue;
        int64_t beside_ns = aorta_intervals_within(&comm, spans[i].start_ns, spans[i].end_ns);
        if (!beside_ns) continue;
        double lost = lost_share(one, work);
        if (lost > 0) spans[i].alone_ns = spans[i].end_ns - spans[i].start_ns - (int64_t)(lost * (double)beside_ns);
    }
    aorta_intervals_end(&comm, &build->memory);
}

/* ---- waits in the file: spans and calls wait for the stream's last span that was launched before the event was
 * recorded, or before the host asked for the wait ---- */

/* A span with the sort key of its stream and launch. */
struct placed {
    int64_t launch_ns;
    uint32_t stream, span;
};

static AORTA_ORDER(placed_order, struct placed, AORTA_UP(stream) AORTA_UP(launch_ns) AORTA_UP(span));

struct launches {
    struct placed *items;
    uint32_t count;
};

static struct launches place_spans(const struct aorta_replay_call *calls, const struct aorta_replay_rank *rank,
                                   struct aorta_arena *memory) {
    struct launches launches = {aorta_arena_raw(memory, ((size_t)rank->span_count + 1) * sizeof *launches.items), 0};
    if (!launches.items) return launches;
    for (uint32_t i = 0; i < rank->span_count; i++)
        if (rank->spans[i].launch != AORTA_GRAPH_NONE)
            launches.items[launches.count++] =
                (struct placed){calls[rank->spans[i].launch].start_ns, rank->spans[i].stream, i};
    if (launches.count) qsort(launches.items, launches.count, sizeof *launches.items, placed_order);
    return launches;
}

/* The number of launches on lower streams, or on this stream before the time. */
static uint32_t count_before(const struct launches *launches, uint32_t stream, int64_t time_ns) {
    const struct placed key = {.launch_ns = time_ns, .stream = stream};
    return (uint32_t)aorta_count_below(launches->items, launches->count, sizeof key, &key, placed_order);
}

static uint32_t last_before(const struct launches *launches, uint32_t stream, int64_t time_ns) {
    uint32_t at = count_before(launches, stream, time_ns);
    return at && launches->items[at - 1].stream == stream ? launches->items[at - 1].span : AORTA_GRAPH_NONE;
}

static uint32_t first_after(const struct launches *launches, uint32_t stream, int64_t time_ns) {
    uint32_t at = count_before(launches, stream, time_ns);
    return at < launches->count && launches->items[at].stream == stream ? launches->items[at].span : AORTA_GRAPH_NONE;
}

struct pair {
    int64_t span, awaited;
};

/* Finds the waiting and the awaited span. Returns false if either is not recorded, or if their times contradict a
 * wait. */
static bool find_pair(const struct launches *launches, const struct aorta_replay_rank *rank,
                      const struct aorta_trace_wait *wait, int64_t shift_ns, struct pair *pair) {
    if (wait->stream == AORTA_TRACE_NONE || wait->recorded_ns == INT64_MIN) return false;
    pair->awaited = last_before(launches, wait->on, wait->recorded_ns - shift_ns);
    pair->span = first_after(launches, wait->stream, wait->asked_ns - shift_ns);
    if (pair->awaited == AORTA_GRAPH_NONE || pair->span == AORTA_GRAPH_NONE) return false;
    return rank->spans[pair->awaited].end_ns <= rank->spans[pair->span].start_ns;
}

static void add_pairs(const struct aorta_trace *trace, const struct launches *launches, int64_t shift_ns,
                      struct aorta_replay_rank *rank, struct aorta_arena *memory) {
    struct pair *pairs = aorta_arena_raw(memory, (trace->wait_count + 1) * sizeof *pairs);
    size_t count = 0;
    for (size_t i = 0; pairs && i < trace->wait_count; i++)
        count += find_pair(launches, rank, &trace->waits[i], shift_ns, &pairs[count]);
    if (!count) return;
    qsort(pairs, count, sizeof *pairs, aorta_by_int64_pair);
    uint32_t *first = aorta_arena_alloc(memory, ((size_t)rank->span_count + 2) * sizeof *first);
    uint32_t *waits = aorta_arena_raw(memory, (count + 1) * sizeof *waits);
    if (memory->failed) return;
    for (size_t i = 0; i < count; i++) {
        first[pairs[i].span + 1]++;
        waits[i] = (uint32_t)pairs[i].awaited;
    }
    for (uint32_t i = 0; i < rank->span_count; i++) first[i + 1] += first[i];
    rank->first_wait = first;
    rank->waits = waits;
}

static void add_awaited(const struct aorta_trace *trace, const struct launches *launches, int64_t shift_ns,
                        const uint32_t *call_rows, struct aorta_replay_call *calls) {
    AORTA_EACH (const struct aorta_trace_wait, wait, trace->waits, trace->wait_count) {
        if (wait->call == AORTA_TRACE_NONE || call_rows[wait->call] == AORTA_GRAPH_NONE) continue;
        int64_t until_ns = wait->recorded_ns == INT64_MIN ? wait->asked_ns : wait->recorded_ns;
        uint32_t span = last_before(launches, wait->on, until_ns - shift_ns);
        if (span != AORTA_GRAPH_NONE) calls[call_rows[wait->call]].awaited = span + 1;
    }
}

/* The spans that calls wait for are only known if the host has a single rank. */
static void add_waits(struct build *build, size_t rank) {
    const struct aorta_trace *trace = trace_of(build, rank);
    struct aorta_replay_rank *made = &build->ranks[rank];
    struct aorta_replay_call *calls = build->ranks[made->host].calls;
    struct aorta_arena *memory = &build->memory;
    const int64_t shift_ns = shift_of(build, made->host);
    if (!trace->wait_count) return;
    int64_t *unknown = aorta_arena_raw(memory, trace->wait_count * sizeof *unknown);
    for (size_t i = 0; unknown && i < trace->wait_count; i++)
        if (trace->waits[i].on == AORTA_TRACE_NONE)
            unknown[made->event_wait_count++] = trace->waits[i].asked_ns - shift_ns;
    made->event_waits = unknown;
    if (made->event_wait_count == trace->wait_count) return;
    const struct launches launches = place_spans(calls, made, memory);
    add_pairs(trace, &launches, shift_ns, made, memory);
    if (aorta_is_only_of_trace(build->analysis, rank))
        add_awaited(trace, &launches, shift_ns, build->call_rows[made->host], calls);
}

/* ---- all spans ---- */

/* Marks the trace's rows that are replayed. */
static void mark_work(const struct build *build, const struct aorta_trace_rank *rank, bool *marked) {
    const struct aorta_trace *trace = rank->trace;
    for (size_t i = 0; i < trace->work_count; i++)
        marked[i] = !build->analysis->measured && trace->work[i].device == rank->device;
    for (size_t i = 0; build->analysis->measured && i < rank->window_count; i++) {
        const struct aorta_trace_window *window = &rank->windows[i];
        for (size_t j = 0; is_replayed(build, window) && j < window->profile.range_count; j++)
            marked[rank->source ? rank->source[window->work[j]] : window->work[j]] = true;
    }
}

/* Names the call after the work that it launched. The copy of a value cannot overlap compute. No call waits for a
 * copy within a device, even where the copy ends before the call does. */
static void launch(struct aorta_replay_call *call, struct aorta_replay_span *span, bool blocks) {
    if (span->name) call->name = span->name;
    if (call->kind == AORTA_REPLAY_COPY && span->kind == AORTA_REPLAY_KERNEL) call->kind = AORTA_REPLAY_LAUNCH;
    if (call->kind == AORTA_REPLAY_VALUE) span->kind = AORTA_REPLAY_KERNEL;
    call->blocked |= blocks;
    if (blocks && call->end_ns > span->start_ns) call->end_ns = span->start_ns;
}

/* The number of thread blocks that occupy all multiprocessors; INT32_MAX if unknown. Traces count at most
 * AORTA_MANY_BLOCKS. */
static int32_t full_blocks(const struct aorta_trace_rank *rank) {
    enum { PER_MULTIPROCESSOR = 8 }; /* of 256 threads on devices of the last ten years */
    const int32_t count = aorta_trace_multiprocessors(rank->trace, rank->device);
    return count > 0 ? PER_MULTIPROCESSOR * count : INT32_MAX;
}

/* Adds all work of the device. Work that only measures is included, because it occupies a stream. */
static void add_spans(struct build *build, size_t rank) {
    const struct aorta_trace_rank *one = &build->analysis->ranks[rank];
    const struct aorta_trace *trace = one->trace;
    const int32_t full = full_blocks(one);
    struct aorta_replay_rank *made = &build->ranks[rank];
    const uint32_t host = made->host;
    struct aorta_arena scratch = {0};
    uint32_t *span_of_row = aorta_arena_raw(&scratch, (trace->work_count + 1) * sizeof *span_of_row);
    bool *marked = aorta_arena_raw(&scratch, trace->work_count + 1);
    made->spans = aorta_arena_raw(&build->memory, (trace->work_count + 1) * sizeof *made->spans);
    made->stream_count = (uint32_t)trace->stream_count;
    if (!scratch.failed && !build->memory.failed) {
        mark_work(build, one, marked);
        for (uint32_t i = 0; i < trace->work_count; i++) {
            if (!marked[i]) continue;
            struct aorta_replay_span *span = &made->spans[made->span_count];
            span_of_row[i] = made->span_count++;
            *span = span_of(build, rank, i);
            span->fills = span->kind == AORTA_REPLAY_KERNEL && trace->work[i].blocks >= full;
            if (span->launch != AORTA_GRAPH_NONE)
                launch(&build->ranks[host].calls[span->launch], span,
                       aorta_trace_launch_blocks(trace, &trace->work[i]));
        }
        add_facts(build, rank, span_of_row);
    }
    aorta_arena_end(&scratch, &build->memory);
    if (build->memory.failed) return;
    set_alone(build, rank);
    add_waits(build, rank);
}

/* ---- steps ---- */

/* The first of the rank's consecutive steps before `to`; at most AORTA_REPLAY_STEPS steps.
 */
static int64_t first_of_last(const struct aorta_trace_rank *rank, int64_t to) {
    int64_t from = to;
    for (size_t i = rank->window_count; i-- > 0 && from > to - AORTA_REPLAY_STEPS;) {
        if (rank->windows[i].number >= to) continue;
        if (rank->windows[i].number != from - 1) break;
        from--;
    }
    return from;
}

/* Measured runs are long, so only the last consecutive steps that all ranks have are replayed. */
static aorta_status choose_steps(struct build *build) {
    const struct aorta_trace_analysis *analysis = build->analysis;
    for (size_t i = 0; !analysis->measured && i < analysis->rank_count; i++)
        if (analysis->ranks[i].holes.count)
            return AORTA_ERROR(AORTA_UNSUPPORTED, "the steps of rank %d do not follow each other",
                               analysis->ranks[i].rank);
    if (!analysis->measured) return NULL;
    build->from_step = INT64_MIN;
    build->to_step = INT64_MAX;
    for (size_t i = 0; i < analysis->rank_count; i++) {
        const int64_t to = analysis->ranks[i].windows[analysis->ranks[i].window_count - 1].number + 1;
        if (to < build->to_step) build->to_step = to;
    }
    for (size_t i = 0; i < analysis->rank_count; i++) {
        const int64_t from = first_of_last(&analysis->ranks[i], build->to_step);
        if (from > build->from_step) build->from_step = from;
    }
    if (build->to_step - build->from_step >= FEWEST_STEPS) return NULL;
    return AORTA_ERROR(AORTA_UNSUPPORTED, "fewer than %d steps that follow each other were recorded", FEWEST_STEPS);
}

/* Names the first step's mark after the host's last launch before the next mark, because every step begins after this
 * launch. */
static void name_mark(const struct build *build, size_t rank) {
    const struct aorta_trace *trace = trace_of(build, rank);
    struct aorta_replay_call *calls = build->ranks[rank].calls, *mark = NULL;
    size_t next = 0;
    for (uint32_t i = 0; i < build->ranks[rank].call_count; i++) {
        if (calls[i].row == AORTA_GRAPH_NONE) mark = &calls[i];
        while (mark && next < trace->step_count &&
               trace->steps[next].start_ns - shift_of(build, rank) <= mark->start_ns)
            next++;
        if (!mark || next == trace->step_count) continue;
        if (calls[i].start_ns >= trace->steps[next].start_ns - shift_of(build, rank)) return;
        if (calls[i].thread == mark->thread) mark->name = calls[i].name;
    }
}

/* When the last work that began in the window ended. */
static int64_t end_of_window(const struct build *build, size_t rank, size_t window) {
    const struct aorta_replay_rank *one = &build->ranks[rank];
    int64_t end_ns = INT64_MIN;
    for (uint32_t i = 0; i < one->span_count; i++)
        if (one->spans[i].step == window && one->spans[i].end_ns > end_ns) end_ns = one->spans[i].end_ns;
    return end_ns;
}

/* The measured time begins at the end of the step before the first one that counts. That step is replayed, too, because
 * the host's lead at its end depends on it. In measured runs it is the first step. */
static void set_bounds(struct build *build, size_t rank) {
    const struct aorta_trace_rank *one = &build->analysis->ranks[rank];
    const struct aorta_trace_window *first = first_step(build, rank), *before = first, *last = first;
    struct aorta_graph_rank *bounds = &build->ranks[rank].bounds;
    uint32_t steps = 0;
    for (size_t i = 0; first && i < one->window_count; i++) {
        const struct aorta_trace_window *window = &one->windows[i];
        if (!is_replayed(build, window)) continue;
        if (window < first && window->number != INT64_MIN && window->profile.range_count) before = window;
        if (!aorta_trace_window_counts(build->analysis, window)) continue;
        steps++;
        last = window;
    }
    if (!first) return;
    const int64_t before_ns = end_of_window(build, rank, (size_t)(before - one->windows));
    const bool led = build->analysis->measured ? steps >= FEWEST_STEPS
                                               : before != first && begin_of(build, rank, first) <= before_ns;
    bounds->start_ns = begin_of(build, rank, led ? before : first);
    bounds->end_ns = end_of_window(build, rank, (size_t)(last - one->windows));
    bounds->from_ns = led ? before_ns : bounds->start_ns;
    bounds->steps = led && before == first ? steps - 1 : steps;
}

/* ---- all of it ---- */

static void reserve(struct build *build) {
    const size_t ranks = build->analysis->rank_count + 1;
    struct aorta_arena *memory = &build->memory;
    build->ranks = aorta_arena_alloc(memory, ranks * sizeof *build->ranks);
    build->collectives =
        aorta_arena_alloc(memory, (build->analysis->alignment.shared_count + 1) * sizeof *build->collectives);
    build->call_rows = aorta_arena_alloc(memory, ranks * sizeof(uint32_t *));
    build->names = aorta_arena_alloc(memory, ranks * sizeof(uint32_t *));
}

static bool exchanges_work(const struct aorta_trace_analysis *analysis) {
    for (size_t i = 0; i < analysis->alignment.shared_count; i++)
        if (analysis->alignment.shared[i].chosen && analysis->alignment.shared[i].kind == AORTA_ALL_TO_ALL) return true;
    return false;
}

static void add_ranks(struct build *build) {
    const size_t ranks = build->analysis->rank_count;
    for (size_t i = 0; i < ranks; i++) build->ranks[i].host = (uint32_t)aorta_first_of_trace(build->analysis, i);
    number_names(build);
    for (size_t i = 0; !build->memory.failed && i < ranks; i++)
        if (build->ranks[i].host == i) add_calls(build, i);
    for (size_t i = 0; !build->memory.failed && i < ranks; i++) {
        add_spans(build, i);
        set_bounds(build, i);
    }
    for (size_t i = 0; !build->memory.failed && i < ranks; i++) name_mark(build, i);
    aorta_collective_times_make(build->analysis, build->collectives, &build->memory);
}

/* Whether hosts run no interpreter; Kineto's files come from PyTorch. */
static bool is_native(const struct aorta_trace_analysis *analysis) {
    const struct aorta_trace *trace = analysis->rank_count ? analysis->ranks[0].trace : NULL;
    if (!trace || analysis->measured || trace->format == AORTA_TRACE_KINETO) return false;
    const enum aorta_framework framework = aorta_trace_framework(trace);
    return framework == AORTA_FRAMEWORK_OTHER || framework == AORTA_FRAMEWORK_DIRECTIVES;
}

static aorta_status build_ranks(struct build *build, struct aorta_graph *graph) {
    const struct aorta_trace_analysis *analysis = build->analysis;
    AORTA_TRY(choose_steps(build));
    reserve(build);
    if (!build->memory.failed) add_ranks(build);
    AORTA_TRY(aorta_arena_check(&build->memory, "the spans and calls of the ranks"));
    const struct aorta_recording recording = {
        .ranks = build->ranks,
        .collectives = build->collectives,
        .rank_count = (uint32_t)analysis->rank_count,
        .collective_count = (uint32_t)analysis->alignment.shared_count,
        .name_count = build->name_count,
        .native = is_native(analysis),
        .shares_work = !analysis->measured,
        .exchanges = exchanges_work(analysis),
    };
    return aorta_graph_make(&recording, graph);
}

/* Sets how long a step of all measured ones is, relative to the replayed ones: only the last measured steps are
 * replayed, but a step is the mean of all of them everywhere. */
static aorta_status set_longer(const struct aorta_trace_analysis *analysis, struct aorta_graph *graph) {
    struct aorta_arena scratch = {0};
    double all_ns = 0;
    if (!analysis->measured) return NULL;
    AORTA_EACH (const struct aorta_trace_rank, rank, analysis->ranks, analysis->rank_count) {
        double rank_ns = 0;
        for (const struct aorta_trace_window *window = NULL; (window = aorta_step_after(analysis, rank, window));)
            rank_ns += (double)(window->profile.overlap.span_ns + window->profile.overlap.lead_ns);
        all_ns += rank_ns / (double)rank->steps / (double)analysis->rank_count;
    }
    const double recorded_ns = aorta_replay_recorded(graph, &scratch);
    if (recorded_ns > 0 && all_ns > 0) graph->longer = all_ns / recorded_ns;
    aorta_status status = aorta_arena_check(&scratch, "the recorded times");
    aorta_arena_free(&scratch);
    return status;
}

aorta_status aorta_trace_graph_make(const struct aorta_trace_analysis *analysis, struct aorta_trace_graph *built) {
    struct build build = {.analysis = analysis};
    *built = (struct aorta_trace_graph){.analysis = analysis};
    malloc_trim(0); /* the arrays of a graph do not fit where the analysis gave memory back */
    if (!analysis->common_clock)
        return AORTA_ERROR(AORTA_UNSUPPORTED, "the ranks' clocks are not one: their steps cannot be replayed");
    aorta_status status = build_ranks(&build, &built->graph);
    aorta_arena_free(&build.memory);
    if (!status) status = aorta_graph_finish(&built->graph);
    if (!status) status = set_longer(analysis, &built->graph);
    if (status) aorta_trace_graph_free(built);
    return status;
}

static bool is_subject(const struct aorta_trace_graph *built, uint32_t point, enum aorta_subject kind) {
    return point != AORTA_GRAPH_NONE && aorta_subject_kind(built->graph.subject[point]) == kind;
}

const struct aorta_trace_call *aorta_trace_graph_call(const struct aorta_trace_graph *built, uint32_t point) {
    if (!is_subject(built, point, AORTA_SUBJECT_CALL)) return NULL;
    return &aorta_trace_graph_trace(built, point)->calls[aorta_subject_row(built->graph.subject[point])];
}

const struct aorta_trace_work *aorta_trace_graph_work(const struct aorta_trace_graph *built, uint32_t point) {
    if (!is_subject(built, point, AORTA_SUBJECT_SPAN)) return NULL;
    return &aorta_trace_graph_trace(built, point)->work[aorta_subject_row(built->graph.subject[point])];
}

const char *aorta_trace_graph_name(const struct aorta_trace_graph *built, uint32_t point) {
    const struct aorta_trace_call *call = aorta_trace_graph_call(built, point);
    const struct aorta_trace_work *work = aorta_trace_graph_work(built, point);
    if (call || work) return aorta_trace_text(aorta_trace_graph_trace(built, point), call ? call->name : work->name);
    const uint32_t collective = aorta_subject_row(built->graph.subject[point]);
    return aorta_trace_kind_name(built->analysis, built->analysis->alignment.shared[collective].kind);
}

void aorta_trace_graph_free(struct aorta_trace_graph *built) {
    aorta_graph_free(&built->graph);
    *built = (struct aorta_trace_graph){0};
}
