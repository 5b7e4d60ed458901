/* How long the collectives that ranks share would take: at the bandwidth that their size reaches elsewhere in the run,
 * or on this link. */
#include "analysis/links.h"
#include "analysis/steps.h"
#include "replay/trace_graph.h"

#include <stdlib.h>
#include <string.h>

enum {
    FEW_BLOCKS = 4, /* a kernel of so few blocks has too few channels for a link of this sort */
    LINK_LATENCY_NS = 20000,
    PIECE_BYTES = 25 << 20, /* a bucket of gradients, as PyTorch's DDP makes them */
};

/* Of a link's peak large collectives of NCCL reach so much as bus bandwidth (measured on two H200: docs/results.md). */
static const double REACHED = 0.57;

/* ---- one collective ---- */

struct sample {
    int kind, group_size;
    int64_t bytes, transfer_ns;
    size_t collective;
};

static int sort_order(const struct sample *a, const struct sample *b) {
    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    if (a->group_size != b->group_size) return a->group_size < b->group_size ? -1 : 1;
    return (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

static int sample_order(const void *left, const void *right) {
    const struct sample *a = left, *b = right;
    int order = sort_order(a, b);
    return order ? order : (a->transfer_ns > b->transfer_ns) - (a->transfer_ns < b->transfer_ns);
}

/* From the last arrival to the first end, as ends differ by no more than clocks do. */
static int64_t transfer_of(const struct aorta_align_shared *shared) {
    int64_t last_ns = INT64_MIN, end_ns = INT64_MAX;
    for (size_t i = 0; i < shared->part_count; i++) {
        if (shared->parts[i].start_ns > last_ns) last_ns = shared->parts[i].start_ns;
        if (shared->parts[i].end_ns < end_ns) end_ns = shared->parts[i].end_ns;
    }
    return end_ns > last_ns ? end_ns - last_ns : 0;
}

/* Channels are thread blocks; only the kernel's grid says how many there were. */
static bool has_few_channels(const struct aorta_trace *trace, const struct aorta_align_part *part) {
    uint32_t row = trace->work[part->first].collective;
    if (row == AORTA_TRACE_NONE) return false;
    int64_t blocks = trace->collectives[row].blocks;
    return blocks > 0 && blocks <= FEW_BLOCKS;
}

/* On the link at its bandwidth; -1: not known, or not far less. */
static int64_t best_on_link(const struct aorta_trace_analysis *analysis, const struct sample *sample) {
    const struct aorta_align_shared *shared = &analysis->alignment.shared[sample->collective];
    const struct aorta_trace_rank *rank = &analysis->ranks[shared->parts[0].rank];
    double gbps = REACHED * aorta_link_gbps(rank->trace, rank->device);
    double factor = aorta_collective_bus_factor((enum aorta_collective)sample->kind, sample->group_size);
    if (gbps <= 0 || factor <= 0 || sample->group_size > AORTA_LINK_RANKS ||
        !has_few_channels(rank->trace, shared->parts))
        return -1;
    int64_t best_ns = LINK_LATENCY_NS + (int64_t)(factor * (double)sample->bytes / gbps);
    return sample->transfer_ns > 2 * best_ns ? best_ns : -1;
}

/* A large reduction in pieces: all but the last piece can be done before all of it is needed. */
static int64_t last_piece(const struct sample *sample) {
    bool reduces = sample->kind == AORTA_ALL_REDUCE || sample->kind == AORTA_REDUCE_SCATTER;
    if (!reduces || sample->bytes <= PIECE_BYTES) return -1;
    return LINK_LATENCY_NS + (int64_t)((double)sample->transfer_ns * PIECE_BYTES / (double)sample->bytes);
}

/* ---- all of them ---- */

static size_t collect(const struct aorta_trace_analysis *analysis, struct sample *samples) {
    size_t count = 0;
    for (size_t i = 0; i < analysis->alignment.shared_count; i++) {
        const struct aorta_align_shared *shared = &analysis->alignment.shared[i];
        if (!analysis->shared_collectives[i].complete || shared->bytes <= 0 || shared->part_count < 2) continue;
        samples[count++] = (struct sample){.kind = (int)analysis->shared_collectives[i].kind,
                                           .group_size = (int)shared->part_count,
                                           .bytes = shared->bytes,
                                           .transfer_ns = transfer_of(shared),
                                           .collective = i};
    }
    return count;
}

void aorta_replay_collectives_make(const struct aorta_trace_analysis *analysis,
                                   struct aorta_replay_collective *collectives, struct aorta_arena *memory) {
    size_t limit = analysis->alignment.shared_count;
    struct sample *samples = aorta_arena_raw(memory, (limit + 1) * sizeof *samples);
    if (!samples) return;
    for (size_t i = 0; i < limit; i++)
        collectives[i] = (struct aorta_replay_collective){
            .parts = (uint32_t)analysis->alignment.shared[i].part_count, .best_ns = -1, .piece_ns = -1};
    size_t count = collect(analysis, samples);
    if (count) qsort(samples, count, sizeof *samples, sample_order);
    for (size_t begin = 0, end; begin < count; begin = end) {
        for (end = begin; end < count && sort_order(&samples[begin], &samples[end]) == 0; end++) {
        }
        const size_t parts = (end - begin) * (size_t)samples[begin].group_size; /* as transfers.c counts */
        int64_t tenth_ns = parts < AORTA_TRANSFER_SAMPLES ? -1 : samples[begin + (end - begin) / 10].transfer_ns;
        for (size_t i = begin; i < end; i++) {
            struct aorta_replay_collective *collective = &collectives[samples[i].collective];
            bool slow = tenth_ns >= 0 && samples[i].transfer_ns > AORTA_TRANSFER_SLOWER * tenth_ns;
            int64_t link_ns = best_on_link(analysis, &samples[i]);
            collective->best_ns = slow && (link_ns < 0 || tenth_ns < link_ns) ? tenth_ns : link_ns;
            collective->piece_ns = last_piece(&samples[i]);
        }
    }
}
