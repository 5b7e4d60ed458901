/* Ranks enqueue the same collectives in the same order, so role, kind, group and sequence pair them. The last rank to
 * start is the one the others waited for. */
#include "verdict/verdict_parts.h"

#include <stdlib.h>
#include <string.h>

/* One rank's part in a collective. */
struct part {
    const struct aorta_range *range;
    struct aorta_judged *item;
    struct aorta_wait *wait;
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

static int step_order(const void *left, const void *right) {
    const struct aorta_iteration *a = &(*(struct aorta_judged *const *)left)->iteration;
    const struct aorta_iteration *b = &(*(struct aorta_judged *const *)right)->iteration;
    int order = compare(a->step, b->step);
    return order ? order : compare(a->rank, b->rank);
}

static int64_t common_start(const struct part *part) {
    return part->range->start_ns - part->shift_ns;
}

/* `parts` are all that was seen of one collective. */
static void judge_collective(struct part *parts, size_t count) {
    const struct part *first = parts, *last = parts;
    for (size_t i = 1; i < count; i++) {
        if (common_start(&parts[i]) < common_start(first)) first = &parts[i];
        if (common_start(&parts[i]) > common_start(last)) last = &parts[i];
    }
    int64_t late_ns = common_start(last) - common_start(first);
    int64_t idle_ns = aorta_order_idle(last->item->order, last->range->start_ns - late_ns, last->range->start_ns);
    for (size_t i = 0; i < count; i++) {
        int64_t until = common_start(last) + parts[i].shift_ns;
        if (until > parts[i].range->end_ns) until = parts[i].range->end_ns;
        *parts[i].wait = (struct aorta_wait){
            .until_ns = until,
            .late_rank = &parts[i] == last ? -1 : last->item->iteration.rank,
            .late_device = idle_ns < late_ns - idle_ns,
            .complete = (size_t)parts[i].range->info.group_size == count,
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

static size_t same_step(struct aorta_judged *const *by_step, size_t count) {
    size_t same = 1;
    while (same < count && by_step[same]->iteration.step == by_step[0]->iteration.step) same++;
    return same;
}

static bool all_meet(struct aorta_judged *const *items, size_t count) {
    for (size_t i = 1; i < count; i++)
        if (!spans_meet(items[i]->iteration.profile, items[i - 1]->iteration.profile)) return false;
    return true;
}

/* One clock unless iterations count from their own start, or never meet in time. That those of one host do says nothing
 * of another host: steps that all ranks were seen in tell. */
static bool clocks_are_one(struct aorta_judged *const *by_step, size_t count) {
    size_t most = 0;
    for (size_t i = 0, same; i < count; i += same) {
        same = same_step(by_step + i, count - i);
        if (same > most) most = same;
    }
    for (size_t i = 0; i < count; i++)
        if (by_step[i]->iteration.profile->own_clock) return false;
    for (size_t i = 0, same; i < count; i += same) {
        same = same_step(by_step + i, count - i);
        if (same == most && all_meet(by_step + i, same)) return true;
    }
    return most < 2;
}

static int number_order(const void *left, const void *right) {
    return compare(*(const int64_t *)left, *(const int64_t *)right);
}

/* A collective ends on all ranks at about the same time: the median difference of the ends between `item` and the
 * first rank whose clock is known already is taken for the difference from the common clock. */
static int64_t clock_shift(const struct part *parts, size_t count, const struct aorta_judged *item, int64_t *scratch) {
    size_t found = 0;
    for (size_t i = 0, same; i < count; i += same) {
        const struct part *own = NULL, *known = NULL;
        same = same_collective(parts + i, count - i);
        for (size_t j = i; j < i + same; j++) {
            if (parts[j].item == item) own = &parts[j];
            if (!known && parts[j].shift_ns != INT64_MIN) known = &parts[j];
        }
        if (own && known) scratch[found++] = own->range->end_ns - (known->range->end_ns - known->shift_ns);
    }
    qsort(scratch, found, sizeof *scratch, number_order);
    return found ? scratch[found / 2] : 0;
}

static aorta_status align_clocks(struct part *parts, size_t count) {
    int64_t *scratch = malloc((count + 1) * sizeof *scratch);
    if (!scratch) return AORTA_ERROR(AORTA_MEMORY, "no memory to align %zu collectives", count);
    struct aorta_judged *done = NULL;
    for (size_t i = 0; i < count; i++) {
        struct aorta_judged *item = parts[i].item;
        if (item == done || parts[i].shift_ns != INT64_MIN) continue;
        int64_t shift = clock_shift(parts, count, item, scratch);
        for (size_t j = 0; j < count; j++)
            if (parts[j].item == item) parts[j].shift_ns = shift;
        done = item;
    }
    free(scratch);
    return NULL;
}

/* ---- one step of all ranks ---- */

static aorta_status pair_step(struct aorta_judged *const *items, size_t count, bool common_clock) {
    size_t limit = 0, used = 0;
    for (size_t i = 0; i < count; i++) limit += items[i]->iteration.profile->range_count;
    struct part *parts = malloc((limit + 1) * sizeof *parts);
    if (!parts) return AORTA_ERROR(AORTA_MEMORY, "no memory to pair %zu ranges", limit);
    for (size_t i = 0; i < count; i++) {
        const struct aorta_profile *profile = items[i]->iteration.profile;
        for (size_t j = 0; j < profile->range_count; j++)
            if (profile->ranges[j].info.kind == AORTA_RANGE_COLLECTIVE)
                parts[used++] =
                    (struct part){&profile->ranges[j], items[i], &items[i]->waits[j], common_clock ? 0 : INT64_MIN};
    }
    qsort(parts, used, sizeof *parts, part_order);
    aorta_status status = common_clock ? NULL : align_clocks(parts, used);
    for (size_t i = 0; !status && i < used;) {
        size_t same = same_collective(parts + i, used - i);
        judge_collective(parts + i, same);
        i += same;
    }
    free(parts);
    return status;
}

aorta_status aorta_pair_collectives(struct aorta_judged *items, size_t count, bool *common_clock) {
    struct aorta_judged **by_step = malloc((count + 1) * sizeof(*by_step));
    if (!by_step) return AORTA_ERROR(AORTA_MEMORY, "no memory to order %zu iterations", count);
    for (size_t i = 0; i < count; i++) by_step[i] = &items[i];
    qsort(by_step, count, sizeof(*by_step), step_order);
    *common_clock = clocks_are_one(by_step, count);
    aorta_status status = NULL;
    for (size_t i = 0; !status && i < count;) {
        size_t same = same_step(by_step + i, count - i);
        status = pair_step(by_step + i, same, *common_clock);
        i += same;
    }
    free(by_step);
    return status;
}
