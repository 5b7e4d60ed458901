/* Ranks enqueue the same collectives in the same order, so role, kind, group and sequence pair them. The last rank to
 * start is the one the others waited for. */
#include "analysis/rank_clocks.h"
#include "analysis/steps.h"

#include <stdlib.h>
#include <string.h>

/* One rank's part in a collective. */
struct part {
    const struct aorta_range *range;
    struct aorta_rank_step *item;
    struct aorta_arrival *arrival;
    int64_t shift_ns; /* own clock − common clock */
};

static int compare(int64_t a, int64_t b) {
    return (a > b) - (a < b);
}

/* The ranks 0 and 1 are another group than 0 and 2. */
static int stride_of(const struct aorta_range *range) {
    return range->info.group_stride ? range->info.group_stride : 1;
}

static int compare_keys(const struct aorta_range *a, const struct aorta_range *b) {
    int order = compare(a->info.collective, b->info.collective);
    if (!order) order = compare(a->info.role, b->info.role);
    if (!order) order = compare(a->info.group_size, b->info.group_size);
    if (!order) order = compare(a->info.group, b->info.group);
    if (!order) order = compare(stride_of(a), stride_of(b));
    return order ? order : compare(a->sequence, b->sequence);
}

static int part_order(const void *left, const void *right) {
    const struct part *a = left, *b = right;
    int order = compare_keys(a->range, b->range);
    return order ? order : compare(a->item->iteration.rank, b->item->iteration.rank);
}

static int iteration_order(const void *left, const void *right) {
    const struct aorta_iteration *a = left, *b = right;
    int order = compare(a->step, b->step);
    return order ? order : compare(a->rank, b->rank);
}

static int step_order(const void *left, const void *right) {
    return iteration_order(&(*(struct aorta_rank_step *const *)left)->iteration,
                           &(*(struct aorta_rank_step *const *)right)->iteration);
}

static int64_t common_start(const struct part *part) {
    return part->range->start_ns - part->shift_ns;
}

/* `parts` are all that was seen of one collective. */
static void find_last(struct part *parts, size_t count, uint32_t number) {
    const struct part *first = parts, *last = parts;
    for (size_t i = 1; i < count; i++) {
        if (common_start(&parts[i]) < common_start(first)) first = &parts[i];
        if (common_start(&parts[i]) > common_start(last)) last = &parts[i];
    }
    int64_t late_ns = common_start(last) - common_start(first);
    int64_t busy_ns = aorta_order_busy(last->item->order, last->range->start_ns - late_ns, last->range->start_ns);
    for (size_t i = 0; i < count; i++) {
        int64_t until = common_start(last) + parts[i].shift_ns;
        if (until > parts[i].range->end_ns) until = parts[i].range->end_ns;
        *parts[i].arrival = (struct aorta_arrival){
            .until_ns = until,
            .late_rank = &parts[i] == last ? -1 : last->item->iteration.rank,
            .late_device = aorta_late_by_device(late_ns, busy_ns),
            .complete = (size_t)parts[i].range->info.group_size == count,
            .number = number,
        };
    }
}

static size_t same_collective(const struct part *parts, size_t count) {
    size_t same = 1;
    while (same < count && compare_keys(parts[0].range, parts[same].range) == 0) same++;
    return same;
}

/* ---- clocks ---- */

static bool spans_meet(const struct aorta_profile *a, const struct aorta_profile *b) {
    return a->start_ns < b->end_ns && b->start_ns < a->end_ns;
}

static size_t same_step(const struct aorta_iteration *by_step, size_t count) {
    size_t same = 1;
    while (same < count && by_step[same].step == by_step[0].step) same++;
    return same;
}

static bool all_meet(const struct aorta_iteration *iterations, size_t count) {
    for (size_t i = 1; i < count; i++)
        if (!spans_meet(iterations[i].profile, iterations[i - 1].profile)) return false;
    return true;
}

/* One clock unless iterations count from their own start, or never meet in time. That those of one host do says nothing
 * of another host: steps that all ranks were seen in decide. */
bool aorta_clocks_are_one(struct aorta_iteration *iterations, size_t count) {
    size_t most = 0;
    if (count) qsort(iterations, count, sizeof *iterations, iteration_order);
    for (size_t i = 0, same; i < count; i += same) {
        same = same_step(iterations + i, count - i);
        if (same > most) most = same;
    }
    for (size_t i = 0; i < count; i++)
        if (iterations[i].profile->own_clock) return false;
    for (size_t i = 0, same; i < count; i += same) {
        same = same_step(iterations + i, count - i);
        if (same == most && all_meet(iterations + i, same)) return true;
    }
    return most < 2;
}

static uint32_t index_of(const struct aorta_rank_step *item, struct aorta_rank_step *const *items, size_t count) {
    uint32_t at = 0;
    while (at + 1 < count && items[at] != item) at++;
    return at;
}

/* parts[0 .. count), by collective, of the ranks `items`: each is shifted by its own clock. */
static aorta_status align_clocks(struct part *parts, size_t count, struct aorta_rank_step *const *items, size_t ranks) {
    struct aorta_rank_end *ends = malloc((count + 1) * sizeof *ends);
    size_t *first = malloc((count + 1) * sizeof *first);
    int64_t *shifts = calloc(ranks + 1, sizeof *shifts);
    uint32_t *roots = malloc((ranks + 1) * sizeof *roots);
    aorta_status status = NULL;
    if (!ends || !first || !shifts || !roots)
        status = AORTA_ERROR(AORTA_MEMORY, "no memory to align %zu collectives", count);
    size_t collectives = 0;
    for (size_t i = 0, same; !status && i < count; i += same) {
        same = same_collective(parts + i, count - i);
        first[collectives++] = i;
        for (size_t j = i; j < i + same; j++)
            ends[j] = (struct aorta_rank_end){index_of(parts[j].item, items, ranks), parts[j].range->end_ns};
    }
    if (!status) {
        first[collectives] = count;
        const struct aorta_rank_ends all = {ends, first, collectives, ranks};
        status = aorta_clock_shifts(&all, shifts, roots);
    }
    for (size_t i = 0; !status && i < count; i++) parts[i].shift_ns = shifts[ends[i].rank];
    free(ends);
    free(first);
    free(shifts);
    free(roots);
    return status;
}

/* ---- one step of all ranks ---- */

static aorta_status pair_step(struct aorta_rank_step *const *items, size_t count, bool common_clock, uint32_t *number) {
    size_t limit = 0, used = 0;
    for (size_t i = 0; i < count; i++) limit += items[i]->iteration.profile->range_count;
    struct part *parts = malloc((limit + 1) * sizeof *parts);
    if (!parts) return AORTA_ERROR(AORTA_MEMORY, "no memory to pair %zu ranges", limit);
    for (size_t i = 0; i < count; i++) {
        const struct aorta_profile *profile = items[i]->iteration.profile;
        for (size_t j = 0; j < profile->range_count; j++)
            if (profile->ranges[j].info.kind == AORTA_RANGE_COLLECTIVE)
                parts[used++] = (struct part){&profile->ranges[j], items[i], &items[i]->arrivals[j], 0};
    }
    qsort(parts, used, sizeof *parts, part_order);
    aorta_status status = common_clock ? NULL : align_clocks(parts, used, items, count);
    for (size_t i = 0; !status && i < used;) {
        size_t same = same_collective(parts + i, used - i);
        find_last(parts + i, same, (*number)++);
        i += same;
    }
    free(parts);
    return status;
}

aorta_status aorta_pair_collectives(struct aorta_rank_step *items, size_t count, bool *common_clock) {
    struct aorta_rank_step **by_step = malloc((count + 1) * sizeof(*by_step));
    struct aorta_iteration *iterations = malloc((count + 1) * sizeof *iterations);
    aorta_status status = NULL;
    if (!by_step || !iterations) status = AORTA_ERROR(AORTA_MEMORY, "no memory to order %zu iterations", count);
    for (size_t i = 0; !status && i < count; i++) {
        by_step[i] = &items[i];
        iterations[i] = items[i].iteration;
    }
    if (!status) {
        qsort(by_step, count, sizeof(*by_step), step_order);
        *common_clock = aorta_clocks_are_one(iterations, count);
    }
    uint32_t number = 0;
    for (size_t i = 0; !status && i < count;) {
        size_t same = same_step(iterations + i, count - i); /* sorted alike */
        status = pair_step(by_step + i, same, *common_clock, &number);
        i += same;
    }
    free(by_step);
    free(iterations);
    return status;
}
