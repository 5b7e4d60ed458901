/* Steps of all ranks: sorted ranges, clock offsets, paired collectives, slow transfers and best times. */
#include "analysis/steps.h"
#include "analysis/analysis.h"
#include "base/sort.h"
#include "base/statistics.h"

#include <stdlib.h>
#include <string.h>

struct key {
    int64_t start_ns;
    uint32_t range;
    int stream; /* 0 where streams do not matter */
};

struct aorta_order {
    const struct aorta_range *ranges;
    struct key *by_start;
    size_t count;
    struct key *compute; /* of the compute role, by stream, then start */
    size_t compute_count;
    struct aorta_intervals busy; /* in the arena */
};

/* ---- the order of ranges ---- */

static AORTA_ORDER(key_order, struct key, AORTA_UP(stream) AORTA_UP(start_ns) AORTA_UP(range));

static void sort_ranges(const struct aorta_profile *profile, struct aorta_order *order) {
    for (size_t i = 0; i < profile->range_count; i++) {
        const struct aorta_range *range = &profile->ranges[i];
        order->by_start[order->count++] = (struct key){range->start_ns, (uint32_t)i, 0};
        if (range->info.kind == AORTA_RANGE_COMPUTE && range->info.role == AORTA_ROLE_COMPUTE)
            order->compute[order->compute_count++] = (struct key){range->start_ns, (uint32_t)i, range->stream};
    }
    aorta_sort_rows(order->by_start, order->count, sizeof(struct key), key_order);
    aorta_sort_rows(order->compute, order->compute_count, sizeof(struct key), key_order);
}

static struct aorta_intervals collect_busy(const struct aorta_overlap *overlap, struct aorta_arena *memory) {
    struct aorta_intervals busy = {0}, copy;
    for (size_t i = 0; i < overlap->segment_count; i++)
        if (overlap->segments[i].roles)
            aorta_intervals_add(&busy, overlap->segments[i].start_ns, overlap->segments[i].end_ns);
    aorta_intervals_normalise(&busy);
    copy = busy;
    copy.items = aorta_arena_raw(memory, busy.count * sizeof *copy.items);
    if (copy.items && busy.count) memcpy(copy.items, busy.items, busy.count * sizeof *copy.items);
    aorta_intervals_end(&busy, memory);
    return copy;
}

static struct aorta_order *order_make(const struct aorta_iteration *iteration, struct aorta_arena *memory) {
    const struct aorta_profile *profile = iteration->profile;
    const size_t limit = profile->range_count;
    struct aorta_order *made = aorta_arena_alloc(memory, sizeof *made);
    if (!made) return NULL;
    made->by_start = aorta_arena_raw(memory, limit * sizeof *made->by_start);
    made->compute = aorta_arena_raw(memory, limit * sizeof *made->compute);
    made->ranges = profile->ranges;
    if (memory->failed) return made;
    sort_ranges(profile, made);
    made->busy = collect_busy(&profile->overlap, memory);
    return made;
}

struct aorta_rank_step aorta_rank_step_make(const struct aorta_iteration *iteration, struct aorta_arena *memory) {
    return (struct aorta_rank_step){
        .iteration = *iteration,
        .arrivals = aorta_arena_alloc(memory, iteration->profile->range_count * sizeof(struct aorta_arrival)),
        .order = order_make(iteration, memory)};
}

/* ---- searches ---- */

const struct aorta_range *aorta_order_starting(const struct aorta_order *order, int64_t time_ns) {
    const size_t at = aorta_count_before(order->by_start, order->count, sizeof(struct key), 0, time_ns);
    const struct aorta_range *found = at < order->count ? &order->ranges[order->by_start[at].range] : NULL;
    return found && found->start_ns == time_ns ? found : NULL;
}

const struct aorta_range *aorta_order_next_compute(const struct aorta_order *order, int stream, int64_t from_ns) {
    const struct key key = {from_ns, 0, stream};
    const size_t at = aorta_count_below(order->compute, order->compute_count, sizeof key, &key, key_order);
    if (at == order->compute_count || order->compute[at].stream != stream) return NULL;
    return &order->ranges[order->compute[at].range];
}

/* Offsets of the ranks' clocks, from the ends of shared collectives. (Device clock rates: measure/clocks.h.)
 *
 * Rank r's clock shows e(r,c) at the end of collective c; the shifts o(r) and the times T(c) minimize |e(r,c) - o(r) -
 * T(c)| by alternating medians, a robust form of least squares with one constant per rank and one per collective. The
 * first guess comes from medians of pairs of ranks. */

struct shifting {
    const struct aorta_rank_ends *in;
    int64_t *shift_ns;
    uint32_t *root;    /* UINT32_MAX: not known yet */
    int64_t *values;   /* scratch for medians */
    int64_t *moments;  /* by collective: its end on the common clock */
    bool *known;       /* by collective: whether moments[] is set */
    size_t *shared_of; /* by end: its collective */
    size_t *by_rank;   /* indices of the ends, by rank; rank r begins at begins[r] */
    size_t *begins;
};

static void prepare_shifts(struct shifting *w, struct aorta_arena *memory) {
    const struct aorta_rank_ends *in = w->in;
    size_t ends = in->first[in->collectives], ranks = in->ranks;
    w->values = aorta_arena_raw(memory, ends * sizeof *w->values);
    w->moments = aorta_arena_alloc(memory, in->collectives * sizeof *w->moments);
    w->known = aorta_arena_alloc(memory, in->collectives);
    w->shared_of = aorta_arena_raw(memory, ends * sizeof *w->shared_of);
    w->by_rank = aorta_arena_raw(memory, ends * sizeof *w->by_rank);
    w->begins = aorta_arena_alloc(memory, (ranks + 2) * sizeof *w->begins);
    for (size_t r = 0; r < ranks; r++) w->root[r] = UINT32_MAX;
    if (memory->failed) return;
    for (size_t c = 0; c < in->collectives; c++)
        for (size_t i = in->first[c]; i < in->first[c + 1]; i++) w->shared_of[i] = c;
    for (size_t i = 0; i < ends; i++) w->begins[in->ends[i].rank + 2]++;
    for (size_t r = 2; r <= ranks; r++) w->begins[r] += w->begins[r - 1];
    for (size_t i = 0; i < ends; i++) w->by_rank[w->begins[in->ends[i].rank + 1]++] = i;
}

/* Sets the ends of collectives on the common clock: medians over the ranks linked to `root`. */
static void find_moments(struct shifting *w, uint32_t root) {
    for (size_t c = 0; c < w->in->collectives; c++) {
        size_t count = 0;
        for (size_t i = w->in->first[c]; i < w->in->first[c + 1]; i++) {
            const struct aorta_rank_end *end = &w->in->ends[i];
            if (w->root[end->rank] == root) w->values[count++] = end->end_ns - w->shift_ns[end->rank];
        }
        w->moments[c] = aorta_median_int64(w->values, count);
        w->known[c] = count > 0;
    }
}

/* The median difference between a rank's ends and the known moments. False if there are none. */
static bool shift_of(struct shifting *w, size_t rank, int64_t *shift) {
    size_t count = 0;
    for (size_t i = w->begins[rank]; i < w->begins[rank + 1]; i++) {
        size_t end = w->by_rank[i], collective = w->shared_of[end];
        if (w->known[collective]) w->values[count++] = w->in->ends[end].end_ns - w->moments[collective];
    }
    if (count) *shift = aorta_median_int64(w->values, count);
    return count > 0;
}

/* Links all ranks that share collectives with the root, nearest first. */
static void link_ranks(struct shifting *w, uint32_t root) {
    w->root[root] = root;
    for (bool found = true; found;) {
        found = false;
        find_moments(w, root);
        for (size_t r = 0; r < w->in->ranks; r++) {
            if (w->root[r] != UINT32_MAX || !shift_of(w, r, &w->shift_ns[r])) continue;
            w->root[r] = root;
            found = true;
        }
    }
}

/* Alternates medians until the shifts are stable. The root's clock is fixed. */
static void polish(struct shifting *w, uint32_t root) {
    enum { ROUNDS = 50 };
    int64_t fixed = w->shift_ns[root];
    for (int round = 0; round < ROUNDS; round++) {
        find_moments(w, root);
        int64_t moved = 0;
        for (size_t r = 0; r < w->in->ranks; r++) {
            int64_t shift, *own = &w->shift_ns[r];
            if (w->root[r] != root || !shift_of(w, r, &shift)) continue;
            int64_t change = shift > *own ? shift - *own : *own - shift;
            if (change > moved) moved = change;
            *own = shift;
        }
        int64_t drift = w->shift_ns[root] - fixed;
        for (size_t r = 0; r < w->in->ranks; r++)
            if (w->root[r] == root) w->shift_ns[r] -= drift;
        if (moved == 0) break;
    }
}

void aorta_clock_shifts(const struct aorta_rank_ends *ends, struct aorta_arena *memory, int64_t *shift_ns,
                        uint32_t *root) {
    struct shifting w = {.in = ends, .shift_ns = shift_ns, .root = root};
    struct aorta_arena scratch = {0};
    prepare_shifts(&w, &scratch);
    for (size_t r = 0; !scratch.failed && r < ends->ranks; r++) {
        if (root[r] != UINT32_MAX) continue;
        link_ranks(&w, (uint32_t)r);
        polish(&w, (uint32_t)r);
    }
    aorta_arena_end(&scratch, memory);
}

/* Ranks enqueue the same collectives in the same order, so they are paired by role, kind, group and sequence. All ranks
 * wait for the rank that starts last. */

/* One rank's part in a collective. */
struct part {
    const struct aorta_range *range;
    struct aorta_rank_step *item;
    struct aorta_arrival *arrival;
    uint32_t number;  /* index of the rank-step */
    int64_t shift_ns; /* own clock − common clock */
};

/* The stride separates groups such as ranks 0, 1 and ranks 0, 2. */
static int stride_of(const struct aorta_range *range) {
    return range->info.group_stride ? range->info.group_stride : 1;
}

static AORTA_ORDER(compare_keys, struct aorta_range,
                   AORTA_UP(info.collective) AORTA_UP(info.role) AORTA_UP(info.group_size) AORTA_UP(info.group)
                       AORTA_BY(aorta_order_int64(stride_of(a), stride_of(b))) AORTA_UP(sequence));

static AORTA_ORDER(by_shared, struct part, AORTA_BY(compare_keys(a->range, b->range)));

static AORTA_ORDER(part_order, struct part, AORTA_THEN(by_shared) AORTA_UP(item->iteration.rank));

static AORTA_ORDER(by_step, struct aorta_iteration, AORTA_UP(step));

static AORTA_ORDER(iteration_order, struct aorta_iteration, AORTA_THEN(by_step) AORTA_UP(rank));

static AORTA_POINTER_ORDER(step_order, struct aorta_rank_step, AORTA_UP(iteration.step) AORTA_UP(iteration.rank));

static int64_t common_start(const struct part *part) {
    return part->range->start_ns - part->shift_ns;
}

/* Sets the arrivals of a collective, of which `parts` are all recorded parts. */
static void find_last(struct part *parts, size_t count) {
    const struct part *first = parts, *last = parts;
    for (size_t i = 1; i < count; i++) {
        if (common_start(&parts[i]) < common_start(first)) first = &parts[i];
        if (common_start(&parts[i]) > common_start(last)) last = &parts[i];
    }
    int64_t late_ns = common_start(last) - common_start(first);
    const int64_t start_ns = last->range->start_ns;
    const int64_t busy_ns = aorta_intervals_within(&last->item->order->busy, start_ns - late_ns, start_ns);
    for (size_t i = 0; i < count; i++) {
        int64_t until = common_start(last) + parts[i].shift_ns;
        if (until > parts[i].range->end_ns) until = parts[i].range->end_ns;
        *parts[i].arrival = (struct aorta_arrival){
            .until_ns = until,
            .late_rank = &parts[i] == last ? -1 : last->item->iteration.rank,
            .late_device = aorta_late_by_device(late_ns, busy_ns),
            .complete = (size_t)parts[i].range->info.group_size == count,
        };
    }
}

/* ---- clocks ---- */

static bool all_meet(const struct aorta_iteration *iterations, size_t count) {
    for (size_t i = 1; i < count; i++) {
        const struct aorta_profile *a = iterations[i].profile, *b = iterations[i - 1].profile;
        if (a->start_ns >= b->end_ns || b->start_ns >= a->end_ns) return false;
    }
    return true;
}

/* Only steps recorded by the most ranks are tested for overlap, as ranks of one host always share a clock. */
bool aorta_clocks_are_one(struct aorta_iteration *iterations, size_t count) {
    size_t most = 0;
    if (count) qsort(iterations, count, sizeof *iterations, iteration_order);
    for (size_t i = 0, same; i < count; i += same) {
        same = aorta_count_equal(&iterations[i], count - i, sizeof *iterations, by_step);
        if (same > most) most = same;
    }
    for (size_t i = 0; i < count; i++)
        if (iterations[i].profile->own_clock) return false;
    for (size_t i = 0, same; i < count; i += same) {
        same = aorta_count_equal(&iterations[i], count - i, sizeof *iterations, by_step);
        if (same == most && all_meet(iterations + i, same)) return true;
    }
    return most < 2;
}

/* Sets the shifts of parts[0 .. count), sorted by collective. `ranks`: number of rank-steps, each with its own
 * clock. */
static void align_clocks(struct part *parts, size_t count, size_t ranks, struct aorta_arena *memory) {
    struct aorta_rank_end *ends = aorta_arena_raw(memory, count * sizeof *ends);
    size_t *first = aorta_arena_raw(memory, (count + 1) * sizeof *first);
    int64_t *shifts = aorta_arena_alloc(memory, ranks * sizeof *shifts);
    uint32_t *roots = aorta_arena_raw(memory, ranks * sizeof *roots);
    size_t collectives = 0;
    if (memory->failed) return;
    for (size_t i = 0, same; i < count; i += same) {
        same = aorta_count_equal(&parts[i], count - i, sizeof *parts, by_shared);
        first[collectives++] = i;
        for (size_t j = i; j < i + same; j++)
            ends[j] = (struct aorta_rank_end){parts[j].number, parts[j].range->end_ns};
    }
    first[collectives] = count;
    const struct aorta_rank_ends all = {ends, first, collectives, ranks};
    aorta_clock_shifts(&all, memory, shifts, roots);
    for (size_t i = 0; i < count; i++) parts[i].shift_ns = shifts[ends[i].rank];
}

/* ---- one step of all ranks ---- */

static void pair_step(struct aorta_rank_step *const *items, size_t count, bool common_clock,
                      struct aorta_arena *memory) {
    size_t limit = 0, used = 0;
    for (size_t i = 0; i < count; i++) limit += items[i]->iteration.profile->range_count;
    struct aorta_arena scratch = {0};
    struct part *parts = aorta_arena_raw(&scratch, limit * sizeof *parts);
    for (size_t i = 0; parts && i < count; i++) {
        const struct aorta_profile *profile = items[i]->iteration.profile;
        for (size_t j = 0; j < profile->range_count; j++)
            if (profile->ranges[j].info.kind == AORTA_RANGE_COLLECTIVE)
                parts[used++] = (struct part){&profile->ranges[j], items[i], &items[i]->arrivals[j], (uint32_t)i, 0};
    }
    if (used) qsort(parts, used, sizeof *parts, part_order);
    if (!common_clock) align_clocks(parts, used, count, &scratch);
    for (size_t i = 0, same; i < used; i += same) {
        same = aorta_count_equal(&parts[i], used - i, sizeof *parts, by_shared);
        find_last(parts + i, same);
    }
    aorta_arena_end(&scratch, memory);
}

bool aorta_pair_collectives(struct aorta_rank_step *items, size_t count, struct aorta_arena *memory) {
    struct aorta_arena scratch = {0};
    struct aorta_rank_step **ordered = aorta_arena_raw(&scratch, count * sizeof *ordered);
    struct aorta_iteration *iterations = aorta_arena_raw(&scratch, count * sizeof *iterations);
    bool common_clock = true;
    for (size_t i = 0; iterations && i < count; i++) {
        ordered[i] = &items[i];
        iterations[i] = items[i].iteration;
    }
    if (iterations) {
        qsort(ordered, count, sizeof *ordered, step_order);
        common_clock = aorta_clocks_are_one(iterations, count);
    }
    for (size_t i = 0, same; iterations && i < count; i += same) {
        same = aorta_count_equal(&iterations[i], count - i, sizeof *iterations, by_step); /* sorted in the same order */
        pair_step(ordered + i, same, common_clock, memory);
    }
    aorta_arena_end(&scratch, memory);
    return common_clock;
}

/* A collective is slow when it takes far longer than the best tenth of its own sort in the same run. */

/* The wait must be known to be excluded, and a local copy is no transfer. */
static bool can_compare(const struct aorta_range *range, const struct aorta_arrival *arrival) {
    return range->info.kind == AORTA_RANGE_COLLECTIVE && !range->info.simulated && range->info.group_size > 1 &&
           range->info.bytes > 0 && arrival->complete;
}

AORTA_ORDER(aorta_by_collective, struct aorta_collective_sample, AORTA_UP(kind) AORTA_UP(ranks) AORTA_UP(bytes));

AORTA_ORDER(aorta_by_collective_and_time, struct aorta_collective_sample,
            AORTA_THEN(aorta_by_collective) AORTA_UP(time_ns));

static struct aorta_collective_sample sample_of(const struct aorta_range *range, const struct aorta_arrival *arrival) {
    return (struct aorta_collective_sample){.kind = range->info.collective,
                                            .ranks = range->info.group_size,
                                            .bytes = range->info.bytes,
                                            .time_ns = (double)(range->end_ns - arrival->until_ns)};
}

static size_t collect_samples(const struct aorta_rank_step *steps, size_t count,
                              struct aorta_collective_sample *samples) {
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        const struct aorta_profile *profile = steps[i].iteration.profile;
        for (size_t j = 0; j < profile->range_count; j++)
            if (can_compare(&profile->ranges[j], &steps[i].arrivals[j]))
                samples[used++] = sample_of(&profile->ranges[j], &steps[i].arrivals[j]);
    }
    qsort(samples, used, sizeof *samples, aorta_by_collective_and_time);
    return used;
}

struct aorta_transfers aorta_transfers_collect(const struct aorta_rank_step *steps, size_t count,
                                               struct aorta_arena *memory) {
    size_t limit = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < steps[i].iteration.profile->range_count; j++)
            limit += can_compare(&steps[i].iteration.profile->ranges[j], &steps[i].arrivals[j]);
    struct aorta_arena scratch = {0};
    struct aorta_collective_sample *samples = aorta_arena_raw(&scratch, limit * sizeof *samples);
    struct aorta_transfers transfers = {.groups = aorta_arena_raw(memory, limit * sizeof *transfers.groups)};
    const size_t used = samples && transfers.groups ? collect_samples(steps, count, samples) : 0;
    for (size_t i = 0, same; i < used; i += same) {
        same = aorta_count_equal(&samples[i], used - i, sizeof *samples, aorta_by_collective);
        samples[i].time_ns = same < AORTA_TRANSFER_SAMPLES ? 0 : samples[i + same / 10].time_ns;
        transfers.groups[transfers.count++] = samples[i];
    }
    aorta_arena_end(&scratch, memory);
    return transfers;
}

int64_t aorta_transfers_best_if_slow(const struct aorta_transfers *transfers, const struct aorta_range *range,
                                     const struct aorta_arrival *arrival) {
    if (!can_compare(range, arrival)) return 0;
    const struct aorta_collective_sample wanted = sample_of(range, arrival);
    const struct aorta_collective_sample *group =
        transfers->count ? bsearch(&wanted, transfers->groups, transfers->count, sizeof wanted, aorta_by_collective)
                         : NULL;
    return group && wanted.time_ns > AORTA_TRANSFER_SLOWER * group->time_ns ? (int64_t)group->time_ns : 0;
}

/* ---- best times of shared collectives: at the bandwidth that their size reaches in the run, or of the link ---- */

enum {
    FEW_BLOCKS = 4, /* at most this many blocks are too few channels for the link */
    LINK_LATENCY_NS = 20000,
    PIECE_BYTES = 25 << 20, /* as a bucket of gradients of PyTorch's DDP */
};

/* Bus bandwidth of large NCCL collectives, as a share of the link's peak (measured on two H200: docs/results.md). */
static const double REACHED = 0.57;

/* Channels are thread blocks, known from the kernel's grid. */
static bool has_few_channels(const struct aorta_trace *trace, const struct aorta_align_part *part) {
    uint32_t row = trace->work[part->first].collective;
    if (row == AORTA_TRACE_NONE) return false;
    int64_t blocks = trace->collectives[row].blocks;
    return blocks > 0 && blocks <= FEW_BLOCKS;
}

/* The time at the link's bandwidth; -1 if unknown or not far less. */
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

/* The time of the last piece of a large reduction, as earlier pieces can run before the whole is ready; -1 if it is too
 * small. */
static int64_t last_piece(const struct aorta_collective_sample *sample) {
    bool reduces = sample->kind == AORTA_ALL_REDUCE || sample->kind == AORTA_REDUCE_SCATTER;
    if (!reduces || sample->bytes <= PIECE_BYTES) return -1;
    return LINK_LATENCY_NS + (int64_t)(sample->time_ns * PIECE_BYTES / (double)sample->bytes);
}

/* From the last start to the first end, as ends differ only by the error of the clocks. */
static int64_t transfer_of(const struct aorta_align_shared *shared) {
    int64_t end_ns = INT64_MAX;
    for (size_t i = 0; i < shared->part_count; i++)
        if (shared->parts[i].end_ns < end_ns) end_ns = shared->parts[i].end_ns;
    return end_ns - (shared->first_ns + shared->skew_ns);
}

static size_t collect_shared(const struct aorta_trace_analysis *analysis, struct aorta_collective_sample *samples) {
    size_t count = 0;
    for (size_t i = 0; i < analysis->alignment.shared_count; i++) {
        const struct aorta_align_shared *shared = &analysis->alignment.shared[i];
        if (!shared->complete || shared->bytes <= 0 || shared->part_count < 2) continue;
        const int64_t transfer_ns = transfer_of(shared);
        samples[count++] = (struct aorta_collective_sample){shared->kind, (int)shared->part_count, shared->bytes,
                                                            transfer_ns > 0 ? (double)transfer_ns : 0, i};
    }
    return count;
}

void aorta_collective_times_make(const struct aorta_trace_analysis *analysis, struct aorta_collective_times *times,
                                 struct aorta_arena *memory) {
    size_t limit = analysis->alignment.shared_count;
    struct aorta_collective_sample *samples = aorta_arena_raw(memory, (limit + 1) * sizeof *samples);
    if (!samples) return;
    for (size_t i = 0; i < limit; i++)
        times[i] = (struct aorta_collective_times){
            .parts = (uint32_t)analysis->alignment.shared[i].part_count, .best_ns = -1, .piece_ns = -1};
    size_t count = collect_shared(analysis, samples);
    if (count) qsort(samples, count, sizeof *samples, aorta_by_collective_and_time);
    for (size_t begin = 0, end; begin < count; begin = end) {
        end = begin + aorta_count_equal(&samples[begin], count - begin, sizeof *samples, aorta_by_collective);
        const size_t parts = (end - begin) * (size_t)samples[begin].ranks;
        int64_t tenth_ns = parts < AORTA_TRANSFER_SAMPLES ? -1 : (int64_t)samples[begin + (end - begin) / 10].time_ns;
        for (size_t i = begin; i < end; i++) {
            struct aorta_collective_times *one = &times[samples[i].of];
            bool slow = tenth_ns >= 0 && samples[i].time_ns > AORTA_TRANSFER_SLOWER * (double)tenth_ns;
            int64_t link_ns = best_on_link(analysis, &samples[i]);
            one->best_ns = slow && (link_ns < 0 || tenth_ns < link_ns) ? tenth_ns : link_ns;
            one->piece_ns = last_piece(&samples[i]);
        }
    }
}
