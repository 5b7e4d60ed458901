/* What a trace says about edges: how long collectives take at best, and what spans and calls wait for. */
#include "analysis/analysis.h"
#include "analysis/steps.h"
#include "base/sort.h"
#include "replay/trace_graph.h"

#include <stdlib.h>

/* How long the collectives that ranks share would take: at the bandwidth that their size reaches elsewhere in the run,
 * or on this link. */

enum {
    FEW_BLOCKS = 4, /* a kernel of so few blocks has too few channels for a link of this sort */
    LINK_LATENCY_NS = 20000,
    PIECE_BYTES = 25 << 20, /* a bucket of gradients, as PyTorch's DDP makes them */
};

/* Bus bandwidth of large NCCL collectives, as a share of the link's peak (measured on two H200: docs/results.md). */
static const double REACHED = 0.57;

/* ---- one collective ---- */

/* Channels are thread blocks; only the kernel's grid says how many there were. */
static bool has_few_channels(const struct aorta_trace *trace, const struct aorta_align_part *part) {
    uint32_t row = trace->work[part->first].collective;
    if (row == AORTA_TRACE_NONE) return false;
    int64_t blocks = trace->collectives[row].blocks;
    return blocks > 0 && blocks <= FEW_BLOCKS;
}

/* On the link at its bandwidth; -1: not known, or not far less. */
static int64_t best_on_link(const struct aorta_trace_analysis *analysis, const struct aorta_collective_sample *sample) {
    const struct aorta_align_shared *shared = &analysis->alignment.shared[sample->of];
    const struct aorta_trace_rank *rank = &analysis->ranks[shared->parts[0].rank];
    double gbps = REACHED * aorta_link_gbps(rank->trace, rank->device);
    double factor = aorta_collective_bus_factor(sample->kind, sample->ranks);
    if (gbps <= 0 || factor <= 0 || sample->ranks > AORTA_LINK_RANKS || !has_few_channels(rank->trace, shared->parts))
        return -1;
    int64_t best_ns = LINK_LATENCY_NS + (int64_t)(factor * (double)sample->bytes / gbps);
    return sample->time_ns > 2 * (double)best_ns ? best_ns : -1;
}

/* A large reduction in pieces: all but the last piece can be done before all of it is needed. */
static int64_t last_piece(const struct aorta_collective_sample *sample) {
    bool reduces = sample->kind == AORTA_ALL_REDUCE || sample->kind == AORTA_REDUCE_SCATTER;
    if (!reduces || sample->bytes <= PIECE_BYTES) return -1;
    return LINK_LATENCY_NS + (int64_t)(sample->time_ns * PIECE_BYTES / (double)sample->bytes);
}

/* ---- all of them ---- */

static size_t collect(const struct aorta_trace_analysis *analysis, struct aorta_collective_sample *samples) {
    size_t count = 0;
    for (size_t i = 0; i < analysis->alignment.shared_count; i++) {
        const struct aorta_align_shared *shared = &analysis->alignment.shared[i];
        if (!shared->complete || shared->bytes <= 0 || shared->part_count < 2) continue;
        const int64_t transfer_ns = aorta_align_transfer(shared);
        samples[count++] = (struct aorta_collective_sample){shared->kind, (int)shared->part_count, shared->bytes,
                                                            transfer_ns > 0 ? (double)transfer_ns : 0, i};
    }
    return count;
}

void aorta_replay_collectives_make(const struct aorta_trace_analysis *analysis,
                                   struct aorta_replay_collective *collectives, struct aorta_arena *memory) {
    size_t limit = analysis->alignment.shared_count;
    struct aorta_collective_sample *samples = aorta_arena_raw(memory, (limit + 1) * sizeof *samples);
    if (!samples) return;
    for (size_t i = 0; i < limit; i++)
        collectives[i] = (struct aorta_replay_collective){
            .parts = (uint32_t)analysis->alignment.shared[i].part_count, .best_ns = -1, .piece_ns = -1};
    size_t count = collect(analysis, samples);
    if (count) qsort(samples, count, sizeof *samples, aorta_by_collective_and_time);
    for (size_t begin = 0, end; begin < count; begin = end) {
        for (end = begin; end < count && !aorta_by_collective(&samples[begin], &samples[end]); end++) {
        }
        const size_t parts = (end - begin) * (size_t)samples[begin].ranks; /* as steps.c counts */
        int64_t tenth_ns = parts < AORTA_TRANSFER_SAMPLES ? -1 : (int64_t)samples[begin + (end - begin) / 10].time_ns;
        for (size_t i = begin; i < end; i++) {
            struct aorta_replay_collective *collective = &collectives[samples[i].of];
            bool slow = tenth_ns >= 0 && samples[i].time_ns > AORTA_TRANSFER_SLOWER * (double)tenth_ns;
            int64_t link_ns = best_on_link(analysis, &samples[i]);
            collective->best_ns = slow && (link_ns < 0 || tenth_ns < link_ns) ? tenth_ns : link_ns;
            collective->piece_ns = last_piece(&samples[i]);
        }
    }
}

/* What the file says that spans and calls wait for: the last span of a stream that was launched before the event was
 * recorded, or before the host asked for the wait. */

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

/* How many of the launches are before this one: of lower streams, or of the stream before this time. */
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

void aorta_recorded_waits_make(const struct aorta_trace *trace, int64_t shift_ns, struct aorta_replay_call *calls,
                               bool only_rank, const uint32_t *call_rows, struct aorta_replay_rank *rank,
                               struct aorta_arena *memory) {
    bool known = false;
    for (size_t i = 0; i < trace->wait_count && !known; i++) known = trace->waits[i].on != AORTA_TRACE_NONE;
    if (!trace->wait_count) return;
    add_unknown(trace, shift_ns, rank, memory);
    if (!known) return;
    const struct launches launches = place_spans(calls, rank, memory);
    add_pairs(trace, &launches, shift_ns, rank, memory);
    if (only_rank) add_awaited(trace, &launches, shift_ns, call_rows, calls);
}
