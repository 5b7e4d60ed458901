/* What the file says that spans and calls wait for: the last span of a stream that was launched before the event was
 * recorded, or before the host asked for the wait. */
#include "replay/trace_graph.h"

#include <stdlib.h>

/* A span by its stream and launch. */
struct placed {
    int64_t launch_ns;
    uint32_t stream, span;
};

static int placed_order(const void *left, const void *right) {
    const struct placed *a = left, *b = right;
    if (a->stream != b->stream) return a->stream < b->stream ? -1 : 1;
    if (a->launch_ns != b->launch_ns) return a->launch_ns < b->launch_ns ? -1 : 1;
    return (a->span > b->span) - (a->span < b->span);
}

struct launches {
    struct placed *items;
    uint32_t count;
};

static struct launches place_spans(const struct aorta_replay_host *host, const struct aorta_replay_rank *rank,
                                   struct aorta_arena *memory) {
    struct launches launches = {aorta_arena_raw(memory, ((size_t)rank->span_count + 1) * sizeof *launches.items), 0};
    if (!launches.items) return launches;
    for (uint32_t i = 0; i < rank->span_count; i++)
        if (rank->spans[i].launch != AORTA_GRAPH_NONE)
            launches.items[launches.count++] =
                (struct placed){host->calls[rank->spans[i].launch].start_ns, rank->spans[i].stream, i};
    if (launches.count) qsort(launches.items, launches.count, sizeof *launches.items, placed_order);
    return launches;
}

/* How many of the launches are before this one: of lower streams, or of the stream before this time. */
static uint32_t count_before(const struct launches *launches, uint32_t stream, int64_t time_ns) {
    uint32_t low = 0, high = launches->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct placed *placed = &launches->items[middle];
        if (placed->stream < stream || (placed->stream == stream && placed->launch_ns < time_ns))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static uint32_t last_before(const struct launches *launches, uint32_t stream, int64_t time_ns) {
    uint32_t at = count_before(launches, stream, time_ns);
    return at && launches->items[at - 1].stream == stream ? launches->items[at - 1].span : AORTA_GRAPH_NONE;
}

static uint32_t first_after(const struct launches *launches, uint32_t stream, int64_t time_ns) {
    uint32_t at = count_before(launches, stream, time_ns);
    return at < launches->count && launches->items[at].stream == stream ? launches->items[at].span : AORTA_GRAPH_NONE;
}

/* ---- spans ---- */

struct pair {
    uint32_t span, awaited;
};

static int pair_order(const void *left, const void *right) {
    const struct pair *a = left, *b = right;
    if (a->span != b->span) return a->span < b->span ? -1 : 1;
    return (a->awaited > b->awaited) - (a->awaited < b->awaited);
}

/* The span that waits and the one it waits for; false: they are not in the recording, or it did not wait. */
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
    qsort(pairs, count, sizeof *pairs, pair_order);
    uint32_t *first = aorta_arena_alloc(memory, ((size_t)rank->span_count + 2) * sizeof *first);
    uint32_t *waits = aorta_arena_raw(memory, (count + 1) * sizeof *waits);
    if (memory->failed) return;
    for (size_t i = 0; i < count; i++) {
        first[pairs[i].span + 1]++;
        waits[i] = pairs[i].awaited;
    }
    for (uint32_t i = 0; i < rank->span_count; i++) first[i + 1] += first[i];
    rank->first_wait = first;
    rank->waits = waits;
}

/* ---- calls ---- */

static void add_awaited(const struct aorta_trace *trace, const struct launches *launches, int64_t shift_ns,
                        const uint32_t *call_rows, struct aorta_replay_call *calls) {
    for (size_t i = 0; i < trace->wait_count; i++) {
        const struct aorta_trace_wait *wait = &trace->waits[i];
        if (wait->call == AORTA_TRACE_NONE || call_rows[wait->call] == AORTA_GRAPH_NONE) continue;
        int64_t until_ns = wait->recorded_ns == INT64_MIN ? wait->asked_ns : wait->recorded_ns;
        uint32_t span = last_before(launches, wait->on, until_ns - shift_ns);
        if (span != AORTA_GRAPH_NONE) calls[call_rows[wait->call]].awaited = span + 1;
    }
}

/* ---- all of it ---- */

static void add_unknown(const struct aorta_trace *trace, int64_t shift_ns, struct aorta_replay_rank *rank,
                        struct aorta_arena *memory) {
    int64_t *waits = aorta_arena_raw(memory, (trace->wait_count + 1) * sizeof *waits);
    for (size_t i = 0; waits && i < trace->wait_count; i++)
        if (trace->waits[i].on == AORTA_TRACE_NONE)
            waits[rank->event_wait_count++] = trace->waits[i].asked_ns - shift_ns;
    rank->event_waits = waits;
}

void aorta_recorded_waits_make(const struct aorta_trace *trace, int64_t shift_ns, const struct aorta_replay_host *host,
                               bool only_rank, const uint32_t *call_rows, struct aorta_replay_call *calls,
                               struct aorta_replay_rank *rank, struct aorta_arena *memory) {
    bool known = false;
    for (size_t i = 0; i < trace->wait_count && !known; i++) known = trace->waits[i].on != AORTA_TRACE_NONE;
    if (!trace->wait_count) return;
    add_unknown(trace, shift_ns, rank, memory);
    if (!known) return;
    const struct launches launches = place_spans(host, rank, memory);
    add_pairs(trace, &launches, shift_ns, rank, memory);
    if (only_rank) add_awaited(trace, &launches, shift_ns, call_rows, calls);
}
