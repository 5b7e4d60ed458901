/* How each rank comes to the collectives that it shares with others, and what all-to-alls with unequal parts move
 * between which ranks. */
#include "analysis/analysis_internal.h"
#include "base/array.h"
#include "base/sort.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- arrivals ---- */

static void add_arrival(const struct aorta_align_shared *shared, const struct aorta_align_part *part, int64_t first_ns,
                        struct aorta_trace_arrivals *arrivals) {
    const int64_t after_ns = part->start_ns - first_ns;
    arrivals->collectives++;
    arrivals->first += part->rank == shared->first_rank;
    arrivals->last += part->rank == shared->last_rank;
    arrivals->after_first_ns += after_ns;
    if (after_ns > arrivals->after_first_most_ns) arrivals->after_first_most_ns = after_ns;
    arrivals->wait_ns += shared->skew_ns - after_ns;
    arrivals->ns += part->end_ns - part->start_ns;
    if (part->rank == shared->last_rank) arrivals->late_ns += shared->skew_ns;
}

static int latest_first(const void *left, const void *right) {
    const struct aorta_trace_arrivals *a = left, *b = right;
    if (a->late_ns != b->late_ns) return a->late_ns > b->late_ns ? -1 : 1;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

static aorta_status make_arrivals(struct aorta_trace_analysis *analysis) {
    const struct aorta_alignment *alignment = &analysis->alignment;
    if (!alignment->shared_count) return NULL;
    analysis->arrivals = calloc(analysis->rank_count + 1, sizeof *analysis->arrivals);
    if (!analysis->arrivals) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu ranks", analysis->rank_count);
    analysis->arrival_count = analysis->rank_count;
    for (size_t i = 0; i < analysis->rank_count; i++) analysis->arrivals[i].rank = (uint32_t)i;
    for (size_t i = 0; i < alignment->shared_count; i++) {
        const struct aorta_align_shared *shared = &alignment->shared[i];
        int64_t first_ns = INT64_MAX;
        if (!analysis->shared_collectives[i].chosen) continue;
        for (size_t p = 0; p < shared->part_count; p++)
            if (shared->parts[p].start_ns < first_ns) first_ns = shared->parts[p].start_ns;
        for (size_t p = 0; p < shared->part_count; p++)
            add_arrival(shared, &shared->parts[p], first_ns, &analysis->arrivals[shared->parts[p].rank]);
    }
    qsort(analysis->arrivals, analysis->arrival_count, sizeof *analysis->arrivals, latest_first);
    return NULL;
}

/* ---- unequal parts ---- */

/* "[3, 0, 12]". How many numbers it has, `most` at most; 0: it is no such list. */
static size_t parse_splits(const char *text, int64_t *splits, size_t most) {
    size_t count = 0;
    if (*text++ != '[') return 0;
    while (count < most) {
        char *end;
        const long long value = strtoll(text, &end, 10);
        if (end == text || value < 0) return 0;
        splits[count++] = value;
        text = end;
        if (*text == ']') return count;
        if (*text++ != ',') return 0;
    }
    return 0;
}

enum { MOST_PARTS = 4096 };

struct splits {
    struct aorta_trace_analysis *analysis;
    size_t uneven_capacity, pair_capacity;
    int64_t sent[MOST_PARTS], received[MOST_PARTS];
};

static double imbalance(const int64_t *parts, size_t count, int64_t sum) {
    int64_t most = 0;
    for (size_t i = 0; i < count; i++)
        if (parts[i] > most) most = parts[i];
    return sum > 0 ? (double)most * (double)count / (double)sum : NAN;
}

/* A part of more elements than a device has bytes is damage, and so is a size that does not fit them. */
static int64_t bytes_of(const int64_t *parts, size_t count, double element) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += (double)parts[i] * element;
    return sum < 1e15 ? (int64_t)sum : -1;
}

static aorta_status add_pair(struct splits *splits, int from, int to, int64_t bytes) {
    struct aorta_trace_analysis *analysis = splits->analysis;
    AORTA_TRY(aorta_array_reserve(&analysis->pairs, &splits->pair_capacity, analysis->pair_count + 1,
                                  sizeof *analysis->pairs, "pairs of ranks"));
    analysis->pairs[analysis->pair_count++] = (struct aorta_trace_pair){from, to, 1, bytes};
    return NULL;
}

static aorta_status add_uneven(struct splits *splits, size_t place, const struct aorta_trace_work *work) {
    struct aorta_trace_analysis *analysis = splits->analysis;
    const struct aorta_trace *trace = analysis->ranks[place].trace;
    const struct aorta_trace_collective *facts = &trace->collectives[work->collective];
    const int64_t elements = facts->in_elements > facts->out_elements ? facts->in_elements : facts->out_elements;
    const size_t sent = parse_splits(aorta_trace_text(trace, facts->in_splits), splits->sent, MOST_PARTS);
    const size_t received = parse_splits(aorta_trace_text(trace, facts->out_splits), splits->received, MOST_PARTS);
    if (!(sent + received) || elements <= 0 || facts->bytes <= 0) return NULL;
    const double element = (double)facts->bytes / (double)elements;
    const struct aorta_trace_group *group = facts->group == AORTA_TRACE_NONE ? NULL : &trace->groups[facts->group];
    const int64_t sent_bytes = bytes_of(splits->sent, sent, element);
    const int64_t received_bytes = bytes_of(splits->received, received, element);
    if (sent_bytes < 0 || received_bytes < 0) return NULL;
    AORTA_TRY(aorta_array_reserve(&analysis->uneven, &splits->uneven_capacity, analysis->uneven_count + 1,
                                  sizeof *analysis->uneven, "all-to-alls"));
    analysis->uneven[analysis->uneven_count++] = (struct aorta_trace_uneven){
        .rank = (uint32_t)place,
        .work = (uint32_t)(work - analysis->ranks[place].work),
        .sent = sent ? sent_bytes : -1,
        .received = received ? received_bytes : -1,
        .parts = sent > received ? sent : received,
        .imbalance = imbalance(sent ? splits->sent : splits->received, sent ? sent : received,
                               (int64_t)((double)(sent ? sent_bytes : received_bytes) / element))};
    for (size_t i = 0; i < sent; i++) {
        const int to = group && group->ranks && i < group->rank_count ? group->ranks[i] : (int)i;
        AORTA_TRY(add_pair(splits, analysis->ranks[place].rank, to, (int64_t)((double)splits->sent[i] * element)));
    }
    return NULL;
}

static int by_ranks(const void *left, const void *right) {
    const struct aorta_trace_pair *a = left, *b = right;
    if (a->from != b->from) return a->from < b->from ? -1 : 1;
    return (a->to > b->to) - (a->to < b->to);
}

static void join_pairs(struct aorta_trace_analysis *analysis) {
    size_t joined = 0;
    if (analysis->pair_count) qsort(analysis->pairs, analysis->pair_count, sizeof *analysis->pairs, by_ranks);
    for (size_t i = 0; i < analysis->pair_count; i++) {
        struct aorta_trace_pair *last = joined ? &analysis->pairs[joined - 1] : NULL;
        if (last && !by_ranks(last, &analysis->pairs[i])) {
            last->count++;
            last->bytes += analysis->pairs[i].bytes;
        } else {
            analysis->pairs[joined++] = analysis->pairs[i];
        }
    }
    analysis->pair_count = joined;
}

static bool any_splits(const struct aorta_trace *trace) {
    for (size_t i = 0; i < trace->collective_count; i++)
        if (trace->collectives[i].in_splits != AORTA_TRACE_NONE || trace->collectives[i].out_splits != AORTA_TRACE_NONE)
            return true;
    return false;
}

static aorta_status make_splits(struct aorta_trace_analysis *analysis) {
    struct splits *splits = NULL;
    aorta_status status = NULL;
    for (size_t i = 0; i < analysis->rank_count && !status; i++) {
        const struct aorta_trace_rank *rank = &analysis->ranks[i];
        if (!any_splits(rank->trace)) continue;
        if (!splits) splits = calloc(1, sizeof *splits);
        if (!splits) return AORTA_ERROR(AORTA_MEMORY, "no memory for the parts of all-to-alls");
        splits->analysis = analysis;
        for (size_t w = 0; w < rank->work_count && !status; w++) {
            const uint32_t collective = rank->work[w].collective;
            if (collective == AORTA_TRACE_NONE) continue;
            const struct aorta_trace_collective *facts = &rank->trace->collectives[collective];
            if (facts->in_splits != AORTA_TRACE_NONE || facts->out_splits != AORTA_TRACE_NONE)
                status = add_uneven(splits, i, &rank->work[w]);
        }
    }
    join_pairs(analysis);
    free(splits);
    return status;
}

/* ---- nodes ---- */

/* Files that list more than one device list those of the node; all must agree. */
static void find_nodes(struct aorta_trace_analysis *analysis, int32_t given) {
    analysis->gpus_per_node = given;
    for (size_t i = 0; i < analysis->rank_count && !given; i++) {
        const int32_t devices = (int32_t)analysis->ranks[i].trace->device_count;
        if (devices < 2 || (i > 0 && devices != analysis->gpus_per_node)) {
            analysis->gpus_per_node = 0;
            return;
        }
        analysis->gpus_per_node = devices;
    }
}

int32_t aorta_trace_nodes_of(const struct aorta_trace_analysis *analysis, uint32_t group) {
    const struct aorta_trace_world_group *of = group == AORTA_TRACE_NONE ? NULL : &analysis->groups[group];
    int32_t nodes = 0, last = -1;
    if (!of || !of->ranks || !analysis->gpus_per_node) return -1;
    for (size_t i = 0; i < of->rank_count; i++) { /* ascending */
        const int32_t node = of->ranks[i] / analysis->gpus_per_node;
        nodes += node != last;
        last = node;
    }
    return nodes;
}

aorta_status aorta_trace_arrivals_make(struct aorta_trace_analysis *analysis, int32_t gpus_per_node) {
    find_nodes(analysis, gpus_per_node);
    AORTA_TRY(make_arrivals(analysis));
    return make_splits(analysis);
}
