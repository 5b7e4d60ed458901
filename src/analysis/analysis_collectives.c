/* Collectives across ranks: groups, matching, tables, arrivals of ranks and unequal all-to-alls. */
#include "analysis/analysis_internal.h"
#include "base/intern.h"
#include "base/sort.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- process groups of all ranks ---- */

/* Numbers a group, identified by name and ranks, in order of arrival. AORTA_TRACE_NONE if memory is exhausted. */
static uint32_t number_group(struct aorta_texts *known, const char *name, const struct aorta_trace_group *group) {
    const size_t length = strlen(name) + 1, bytes = group->rank_count * sizeof *group->ranks;
    char *key = aorta_arena_alloc(&known->arena, length + bytes);
    if (!key) return AORTA_TRACE_NONE;
    memcpy(key, name, length);
    if (bytes) memcpy(key + length, group->ranks, bytes);
    return aorta_texts_add(known, key, length + bytes);
}

static uint32_t world_group(struct aorta_trace_analysis *analysis, struct aorta_texts *known,
                            const struct aorta_trace *trace, const struct aorta_trace_group *group) {
    const char *name = aorta_trace_text(trace, group->name);
    const uint32_t number = number_group(known, name, group);
    if (number < analysis->group_count) return number;
    const struct aorta_trace_world_group row = {
        .name = name,
        .description = aorta_trace_text(trace, group->description),
        .ranks = group->ranks,
        .rank_count = group->rank_count,
        .size = group->size >= 0    ? group->size
                : group->rank_count ? (int32_t)group->rank_count
                                    : -1,
    };
    analysis->memory.failed |= number == AORTA_TRACE_NONE;
    aorta_arena_append(&analysis->memory, &analysis->groups, &analysis->group_capacity, &analysis->group_count, &row,
                       sizeof row);
    return analysis->memory.failed ? AORTA_TRACE_NONE : number;
}

/* ---- one rank's parts ---- */

/* `groups`: the world group of each group of the trace. */
static struct aorta_trace_part part_of(const struct aorta_trace_analysis *analysis, const struct aorta_trace *trace,
                                       const uint32_t *groups, const struct aorta_trace_work *work) {
    struct aorta_trace_part part = {.group = AORTA_TRACE_NONE,
                                    .collective = AORTA_TRACE_NONE,
                                    .kind = AORTA_COLLECTIVE_OTHER,
                                    .group_size = -1,
                                    .bytes = -1,
                                    .channels = -1,
                                    .dtype = AORTA_TRACE_NONE,
                                    .wait_ns = -1};
    const struct aorta_trace_collective *known =
        work->collective == AORTA_TRACE_NONE ? NULL : &trace->collectives[work->collective];
    part.kind = aorta_trace_collective_kind(trace, work);
    if (!known) return part;
    part.bytes = known->bytes;
    part.channels = known->blocks;
    part.dtype = known->dtype;
    part.group_size = known->group_size;
    if (known->group == AORTA_TRACE_NONE) return part;
    part.group = groups[known->group];
    if (part.group_size < 0) part.group_size = analysis->groups[part.group].size;
    return part;
}

static void collect_parts(struct aorta_trace_analysis *analysis, struct aorta_texts *known, size_t rank,
                          struct aorta_trace_parts *parts) {
    const struct aorta_trace_rank *one = &analysis->ranks[rank];
    struct aorta_arena scratch = {0};
    uint32_t *groups = aorta_arena_raw(&scratch, one->trace->group_count * sizeof *groups);
    const struct aorta_trace_step_map map = aorta_trace_step_map_make(one, &scratch);
    for (size_t i = 0; groups && i < one->trace->group_count; i++)
        groups[i] = world_group(analysis, known, one->trace, &one->trace->groups[i]);
    scratch.failed |= analysis->memory.failed;
    for (size_t i = 0; groups && !scratch.failed && i < one->work_count; i++) {
        if (!aorta_trace_is_collective(&one->work[i])) continue;
        struct aorta_trace_part *part = &parts->items[parts->count++];
        *part = part_of(analysis, one->trace, groups, &one->work[i]);
        part->work = (uint32_t)i;
        part->rank = (uint32_t)rank;
        part->step = one->windows[aorta_trace_window_of(&map, &one->work[i])].number;
    }
    aorta_arena_end(&scratch, &analysis->memory);
}

/* ---- the same collective on other ranks ---- */

/* By row of the trace's work[]: the rank's row; NONE if it is not the rank's, or in no chosen step. NULL if the rank
 * has all of the trace's work. */
static uint32_t *rows_of_trace(const struct aorta_trace_rank *rank, struct aorta_arena *memory) {
    if (!rank->source) return NULL;
    uint32_t *rows = aorta_arena_raw(memory, rank->trace->work_count * sizeof *rows);
    for (size_t i = 0; rows && i < rank->trace->work_count; i++) rows[i] = AORTA_TRACE_NONE;
    for (size_t i = rank->work_count; rows && i-- > 0;)
        rows[rank->source[i]] = (uint32_t)i; /* of a cut kernel: its first part */
    return rows;
}

struct aorta_trace_part *aorta_trace_part_of(struct aorta_trace_part *parts, size_t count, uint32_t work) {
    return count ? bsearch(&work, parts, count, sizeof *parts, aorta_by_uint32) : NULL;
}

static void link_part(const struct aorta_trace_analysis *analysis, struct aorta_trace_part *part, size_t number) {
    struct aorta_align_shared *shared = &analysis->alignment.shared[number];
    part->collective = (uint32_t)number;
    if (part->group_size < 0) part->group_size = shared->group_size;
    shared->group = part->group;
    shared->step = part->step;
    shared->kind = part->kind;
    /* If the file has no group size (recorded programs), all ranks are expected. */
    const size_t size = shared->pair ? 2 : part->group_size > 0 ? (size_t)part->group_size : analysis->rank_count;
    shared->complete = size == shared->part_count + shared->left;
    shared->chosen = true;
}

static void link_parts(struct aorta_trace_analysis *analysis, struct aorta_trace_parts *parts) {
    const struct aorta_alignment *alignment = &analysis->alignment;
    struct aorta_arena scratch = {0};
    uint32_t **rows = aorta_arena_alloc(&scratch, analysis->rank_count * sizeof *rows);
    for (size_t i = 0; rows && i < analysis->rank_count; i++) rows[i] = rows_of_trace(&analysis->ranks[i], &scratch);
    scratch.failed |= analysis->memory.failed;
    for (size_t i = 0; rows && !scratch.failed && i < alignment->shared_count; i++) {
        AORTA_EACH (const struct aorta_align_part, one, alignment->shared[i].parts, alignment->shared[i].part_count) {
            uint32_t row = rows[one->rank] ? rows[one->rank][one->first] : one->first;
            const size_t first = parts->first[one->rank], count = parts->first[one->rank + 1] - first;
            struct aorta_trace_part *part = aorta_trace_part_of(parts->items + first, count, row);
            if (part) link_part(analysis, part, i);
        }
    }
    aorta_arena_end(&scratch, &analysis->memory);
}

static void align_ranks(struct aorta_trace_analysis *analysis) {
    struct aorta_arena scratch = {0};
    struct aorta_align_rank *ranks = aorta_arena_alloc(&scratch, analysis->rank_count * sizeof *ranks);
    const enum aorta_align_clocks clocks = !analysis->measured      ? AORTA_CLOCKS_OF_TRACES
                                           : analysis->common_clock ? AORTA_CLOCKS_ONE
                                                                    : AORTA_CLOCKS_OF_STEPS;
    for (size_t i = 0; ranks && i < analysis->rank_count; i++)
        ranks[i] =
            (struct aorta_align_rank){analysis->ranks[i].rank, analysis->ranks[i].trace, analysis->ranks[i].device};
    if (ranks) aorta_align(ranks, analysis->rank_count, clocks, &analysis->memory, &analysis->alignment);
    aorta_arena_end(&scratch, &analysis->memory);
}

void aorta_trace_parts_make(struct aorta_trace_analysis *analysis, struct aorta_trace_parts *parts,
                            struct aorta_arena *memory) {
    size_t limit = 0;
    for (size_t i = 0; i < analysis->rank_count; i++)
        for (size_t k = 0; k < analysis->ranks[i].work_count; k++)
            limit += aorta_trace_is_collective(&analysis->ranks[i].work[k]);
    parts->items = aorta_arena_raw(memory, limit * sizeof *parts->items);
    parts->first = aorta_arena_alloc(memory, (analysis->rank_count + 1) * sizeof *parts->first);
    struct aorta_texts known = {0}; /* groups, by the keys of number_group */
    for (size_t i = 0; parts->first && i < analysis->rank_count; i++) {
        collect_parts(analysis, &known, i, parts);
        parts->first[i + 1] = parts->count;
    }
    aorta_texts_free(&known);
    if (!parts->first || analysis->memory.failed) return;
    align_ranks(analysis);
    link_parts(analysis, parts);
}

/* ---- waits for the last rank ---- */

/* The time that a kernel ran before the last rank started the collective. */
static int64_t wait_of(const struct aorta_trace_analysis *analysis, const struct aorta_trace_part *part) {
    const struct aorta_align_shared *shared = &analysis->alignment.shared[part->collective];
    const struct aorta_trace_work *work = &analysis->ranks[part->rank].work[part->work];
    const int64_t last_ns = shared->first_ns + shared->skew_ns;
    int64_t length_ns = work->end_ns - work->start_ns;
    int64_t wait_ns = last_ns + analysis->alignment.clocks[part->rank].shift_ns - work->start_ns;
    return wait_ns < 0 ? 0 : wait_ns > length_ns ? length_ns : wait_ns;
}

void aorta_trace_shared_finish(struct aorta_trace_analysis *analysis, struct aorta_trace_parts *parts) {
    AORTA_EACH (struct aorta_trace_part, part, parts->items, parts->count) {
        if (part->collective == AORTA_TRACE_NONE) continue;
        struct aorta_align_shared *shared = &analysis->alignment.shared[part->collective];
        shared->exposed_ns += part->blamed_ns;
        if (shared->complete) part->wait_ns = wait_of(analysis, part);
    }
}

/* ---- tables of a rank's collectives: by kind and process group, and also by size ---- */

static int row_order(const struct aorta_trace_part *a, const struct aorta_trace_part *b) {
    int order = aorta_order_int64(a->kind, b->kind);
    return order ? order : aorta_order_int64(a->group, b->group);
}

static int size_order(const struct aorta_trace_part *a, const struct aorta_trace_part *b) {
    int order = row_order(a, b);
    if (!order) order = aorta_order_int64(b->bytes, a->bytes);
    if (!order) order = aorta_order_int64(a->dtype, b->dtype);
    return order ? order : aorta_order_int64(a->channels, b->channels);
}

/* By row of the finer table, then by time. */
static AORTA_POINTER_ORDER(part_order, struct aorta_trace_part, AORTA_THEN(size_order) AORTA_UP(work));

static AORTA_ORDER(longest_first, struct aorta_trace_collective_row,
                   AORTA_DOWN(steps.ns) AORTA_DOWN(times.total_ns) AORTA_UP(kind) AORTA_UP(group) AORTA_DOWN(bytes_each)
                       AORTA_UP(dtype) AORTA_UP(channels));

/* GB/s of 10^9 bytes: bytes per ns. */
static double rate(int64_t bytes, int64_t ns) {
    return bytes > 0 && ns > 0 ? (double)bytes / (double)ns : NAN;
}

static void measure_bandwidth(const struct aorta_trace_part *const *parts, size_t count, int64_t waited_bytes,
                              struct aorta_trace_collective_row *row) {
    bool one_size = parts[0]->group_size > 1;
    for (size_t i = 1; i < count; i++) one_size &= parts[i]->group_size == parts[0]->group_size;
    double factor = one_size ? aorta_collective_bus_factor(row->kind, parts[0]->group_size) : NAN;
    if (factor <= 0) factor = NAN; /* a barrier, or of unknown kind */
    row->algbw_gbps = rate(row->bytes, row->times.total_ns);
    row->busbw_gbps = row->algbw_gbps * factor;
    row->transfer_busbw_gbps = rate(waited_bytes, row->transfer_ns) * factor;
}

/* Inputs of the rows. */
struct making {
    const struct aorta_trace_analysis *analysis;
    struct aorta_trace_rank *rank;
    const struct aorta_trace_busy *busy;
};

static void add_in_steps(const struct aorta_trace_part *part, int64_t ns, struct aorta_trace_collective_row *row) {
    row->steps.count++;
    row->steps.ns += ns;
    row->steps.blamed_ns += part->blamed_ns;
    if (part->wait_ns < 0) return;
    row->steps.wait_ns += part->wait_ns;
    row->steps.transfer_ns += ns - part->wait_ns;
}

/* parts: those of one row. */
static void make_row(const struct making *making, const struct aorta_trace_part *const *parts, size_t count,
                     int64_t *scratch, struct aorta_trace_collective_row *row) {
    struct aorta_intervals comm = {0};
    int64_t waited_bytes = 0;
    *row = (struct aorta_trace_collective_row){
        .kind = parts[0]->kind, .group = parts[0]->group, .bytes_each = -1, .channels = -1, .dtype = AORTA_TRACE_NONE};
    for (size_t i = 0; i < count; i++) {
        const struct aorta_trace_work *work = &making->rank->work[parts[i]->work];
        scratch[i] = work->end_ns - work->start_ns;
        row->bytes = parts[i]->bytes < 0 || row->bytes < 0 ? -1 : row->bytes + parts[i]->bytes;
        row->blamed_ns += parts[i]->blamed_ns;
        aorta_intervals_add(&comm, work->start_ns, work->end_ns);
        if (aorta_trace_step_counts(making->analysis, parts[i]->step)) add_in_steps(parts[i], scratch[i], row);
        if (parts[i]->wait_ns < 0) continue;
        row->waits_known++;
        row->wait_ns += parts[i]->wait_ns;
        waited_bytes += parts[i]->bytes > 0 ? parts[i]->bytes : 0;
        row->transfer_ns += scratch[i] - parts[i]->wait_ns;
    }
    row->times = aorta_trace_times_of(scratch, count);
    row->comm_ns = aorta_intervals_length(&comm);
    for (size_t i = 0; i < comm.count; i++)
        row->overlap_ns += aorta_intervals_within(&making->busy->compute, comm.items[i].start_ns, comm.items[i].end_ns);
    row->exposed_ns = row->comm_ns - row->overlap_ns;
    measure_bandwidth(parts, count, waited_bytes, row);
    aorta_intervals_end(&comm, &making->rank->memory);
}

typedef int (*part_comparison)(const struct aorta_trace_part *a, const struct aorta_trace_part *b);

/* Makes a row per run of parts in `sorted` that `same` finds equal. */
static struct aorta_trace_collective_row *make_rows(const struct making *making,
                                                    const struct aorta_trace_part *const *sorted, size_t part_count,
                                                    part_comparison same, int64_t *scratch, size_t *count) {
    size_t limit = 0;
    for (size_t i = 0; i < part_count; i++) limit += i == 0 || same(sorted[i - 1], sorted[i]) != 0;
    struct aorta_trace_collective_row *rows = aorta_arena_alloc(&making->rank->memory, limit * sizeof *rows);
    for (size_t i = 0, equal; rows && i < part_count; i += equal) {
        for (equal = 1; i + equal < part_count && same(sorted[i], sorted[i + equal]) == 0;) equal++;
        struct aorta_trace_collective_row *row = &rows[(*count)++];
        make_row(making, sorted + i, equal, scratch, row);
        if (same != size_order) continue;
        row->bytes_each = sorted[i]->bytes;
        row->channels = sorted[i]->channels;
        row->dtype = sorted[i]->dtype;
    }
    if (rows) qsort(rows, *count, sizeof *rows, longest_first);
    return rows;
}

void aorta_trace_collectives_make(const struct aorta_trace_analysis *analysis, struct aorta_trace_rank *rank,
                                  const struct aorta_trace_part *parts, size_t part_count,
                                  const struct aorta_trace_busy *busy) {
    const struct making making = {analysis, rank, busy};
    struct aorta_arena memory = {0};
    const struct aorta_trace_part **sorted = aorta_arena_raw(&memory, part_count * sizeof *sorted);
    int64_t *scratch = aorta_arena_raw(&memory, part_count * sizeof *scratch);
    for (size_t i = 0; sorted && i < part_count; i++) sorted[i] = &parts[i];
    if (sorted && scratch) {
        qsort(sorted, part_count, sizeof *sorted, part_order);
        rank->collectives = make_rows(&making, sorted, part_count, row_order, scratch, &rank->collective_count);
        rank->collective_sizes =
            make_rows(&making, sorted, part_count, size_order, scratch, &rank->collective_size_count);
    }
    aorta_arena_end(&memory, &rank->memory);
}

/* ---- sends and receives ---- */

bool aorta_trace_are_sends(const struct aorta_trace_analysis *analysis) {
    bool any = false;
    for (size_t i = 0; i < analysis->rank_count && !analysis->measured; i++) {
        const struct aorta_trace_rank *rank = &analysis->ranks[i];
        AORTA_EACH (const struct aorta_trace_work, work, rank->work, rank->work_count) {
            const uint32_t facts = work->collective;
            const char *kernel = aorta_trace_text(rank->trace, work->name), *name = "";
            if (!aorta_trace_is_collective(work) || aorta_trace_collective_kind(rank->trace, work) != AORTA_ALL_TO_ALL)
                continue;
            if (facts != AORTA_TRACE_NONE && rank->trace->collectives[facts].name != AORTA_TRACE_NONE)
                name = aorta_trace_text(rank->trace, rank->trace->collectives[facts].name);
            const bool sends = strstr(name, "send") || strstr(name, "recv") || strstr(kernel, "SendRecv") ||
                               strstr(kernel, "userbuffers");
            if (strcasestr(name, "all") || !sends) return false;
            any = true;
        }
    }
    return any;
}

const char *aorta_trace_kind_name(const struct aorta_trace_analysis *analysis, enum aorta_collective kind) {
    return aorta_collective_words(kind, analysis->sends);
}

/* ---- arrivals ---- */

static void add_arrival(const struct aorta_align_shared *shared, const struct aorta_align_part *part,
                        struct aorta_trace_arrivals *arrivals) {
    const int64_t after_ns = part->start_ns - shared->first_ns;
    arrivals->collectives++;
    arrivals->first += part->rank == shared->first_rank;
    arrivals->last += part->rank == shared->last_rank;
    arrivals->after_first_ns += after_ns;
    if (after_ns > arrivals->after_first_most_ns) arrivals->after_first_most_ns = after_ns;
    arrivals->wait_ns += shared->skew_ns - after_ns;
    arrivals->ns += part->end_ns - part->start_ns;
    if (part->rank == shared->last_rank) arrivals->late_ns += shared->skew_ns;
}

static AORTA_ORDER(latest_first, struct aorta_trace_arrivals, AORTA_DOWN(late_ns) AORTA_UP(rank));

static void make_arrivals(struct aorta_trace_analysis *analysis) {
    const struct aorta_alignment *alignment = &analysis->alignment;
    if (!alignment->shared_count) return;
    analysis->arrivals = aorta_arena_alloc(&analysis->memory, analysis->rank_count * sizeof *analysis->arrivals);
    if (!analysis->arrivals) return;
    analysis->arrival_count = analysis->rank_count;
    for (size_t i = 0; i < analysis->rank_count; i++) analysis->arrivals[i].rank = (uint32_t)i;
    AORTA_EACH (const struct aorta_align_shared, shared, alignment->shared, alignment->shared_count) {
        if (!shared->chosen) continue;
        for (size_t p = 0; p < shared->part_count; p++)
            add_arrival(shared, &shared->parts[p], &analysis->arrivals[shared->parts[p].rank]);
    }
    qsort(analysis->arrivals, analysis->arrival_count, sizeof *analysis->arrivals, latest_first);
}

/* ---- unequal parts ---- */

enum { MOST_PARTS = 4096 };

/* Reads "[3, 0, 12]" and returns the count; 0 if it is no such list. */
static size_t parse_splits(const char *text, int64_t splits[MOST_PARTS]) {
    size_t count = 0;
    if (*text++ != '[') return 0;
    while (count < MOST_PARTS) {
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

/* -1 if there are more bytes than a device has, which is damage. */
static int64_t bytes_of(const int64_t *parts, size_t count, double element) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += (double)parts[i] * element;
    return sum < 1e15 ? (int64_t)sum : -1;
}

static void add_pair(struct splits *splits, int from, int to, int64_t bytes) {
    struct aorta_trace_analysis *analysis = splits->analysis;
    const struct aorta_trace_pair pair = {from, to, 1, bytes};
    aorta_arena_append(&analysis->memory, &analysis->pairs, &splits->pair_capacity, &analysis->pair_count, &pair,
                       sizeof pair);
}

static void add_uneven(struct splits *splits, size_t place, const struct aorta_trace_work *work) {
    struct aorta_trace_analysis *analysis = splits->analysis;
    const struct aorta_trace *trace = analysis->ranks[place].trace;
    const struct aorta_trace_collective *facts = &trace->collectives[work->collective];
    const int64_t elements = facts->in_elements > facts->out_elements ? facts->in_elements : facts->out_elements;
    const size_t sent = parse_splits(aorta_trace_text(trace, facts->in_splits), splits->sent);
    const size_t received = parse_splits(aorta_trace_text(trace, facts->out_splits), splits->received);
    if (!(sent + received) || elements <= 0 || facts->bytes <= 0) return;
    const double element = (double)facts->bytes / (double)elements;
    const struct aorta_trace_group *group = facts->group == AORTA_TRACE_NONE ? NULL : &trace->groups[facts->group];
    const int64_t sent_bytes = bytes_of(splits->sent, sent, element);
    const int64_t received_bytes = bytes_of(splits->received, received, element);
    if (sent_bytes < 0 || received_bytes < 0) return;
    const struct aorta_trace_uneven uneven = {
        .rank = (uint32_t)place,
        .work = (uint32_t)(work - analysis->ranks[place].work),
        .sent = sent ? sent_bytes : -1,
        .received = received ? received_bytes : -1,
        .parts = sent > received ? sent : received,
        .imbalance = imbalance(sent ? splits->sent : splits->received, sent ? sent : received,
                               (int64_t)((double)(sent ? sent_bytes : received_bytes) / element))};
    aorta_arena_append(&analysis->memory, &analysis->uneven, &splits->uneven_capacity, &analysis->uneven_count, &uneven,
                       sizeof uneven);
    for (size_t i = 0; i < sent; i++) {
        const int to = group && group->ranks && i < group->rank_count ? group->ranks[i] : (int)i;
        add_pair(splits, analysis->ranks[place].rank, to, (int64_t)((double)splits->sent[i] * element));
    }
}

static void join_pairs(struct aorta_trace_analysis *analysis) {
    size_t joined = 0;
    if (analysis->pair_count)
        qsort(analysis->pairs, analysis->pair_count, sizeof *analysis->pairs, aorta_by_uint32_pair);
    for (size_t i = 0; i < analysis->pair_count; i++) {
        struct aorta_trace_pair *last = joined ? &analysis->pairs[joined - 1] : NULL;
        if (last && !aorta_by_uint32_pair(last, &analysis->pairs[i])) {
            last->count++;
            last->bytes += analysis->pairs[i].bytes;
        } else {
            analysis->pairs[joined++] = analysis->pairs[i];
        }
    }
    analysis->pair_count = joined;
}

static void make_splits(struct aorta_trace_analysis *analysis) {
    struct aorta_arena scratch = {0};
    struct splits *splits = aorta_arena_alloc(&scratch, sizeof *splits);
    if (splits) splits->analysis = analysis;
    for (size_t i = 0; splits && i < analysis->rank_count; i++) {
        const struct aorta_trace_rank *rank = &analysis->ranks[i];
        for (size_t w = 0; w < rank->work_count; w++)
            if (rank->work[w].collective != AORTA_TRACE_NONE) add_uneven(splits, i, &rank->work[w]);
    }
    join_pairs(analysis);
    aorta_arena_end(&scratch, &analysis->memory);
}

/* ---- nodes ---- */

/* Files with more than one device list the node's devices; all files must agree. */
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

void aorta_trace_arrivals_make(struct aorta_trace_analysis *analysis, int32_t gpus_per_node) {
    find_nodes(analysis, gpus_per_node);
    make_arrivals(analysis);
    make_splits(analysis);
}
