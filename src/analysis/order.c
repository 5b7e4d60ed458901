#include "analysis/steps.h"
#include "base/sort.h"

#include <stdlib.h>

struct aorta_order {
    const struct aorta_range *ranges;
    uint32_t *by_start;
    size_t count;
    uint32_t *compute; /* of the compute role, by stream, then start */
    size_t compute_count;
    struct aorta_intervals busy;
};

/* ---- making ---- */

struct key {
    int64_t start_ns;
    uint32_t range;
    int stream; /* 0 where streams do not matter */
};

static int key_order(const void *left, const void *right) {
    const struct key *a = left, *b = right;
    if (a->stream != b->stream) return a->stream < b->stream ? -1 : 1;
    if (a->start_ns != b->start_ns) return a->start_ns < b->start_ns ? -1 : 1;
    return (a->range > b->range) - (a->range < b->range);
}

static void take_keys(struct key *keys, size_t count, uint32_t *ranges) {
    aorta_sort_rows(keys, count, sizeof *keys, key_order);
    for (size_t i = 0; i < count; i++) ranges[i] = keys[i].range;
}

static void sort_ranges(const struct aorta_profile *profile, struct aorta_order *order, struct key *keys) {
    for (size_t i = 0; i < profile->range_count; i++)
        keys[order->count++] = (struct key){profile->ranges[i].start_ns, (uint32_t)i, 0};
    take_keys(keys, order->count, order->by_start);
    for (size_t i = 0; i < profile->range_count; i++) {
        const struct aorta_range *range = &profile->ranges[i];
        if (range->info.kind != AORTA_RANGE_COMPUTE || range->info.role != AORTA_ROLE_COMPUTE) continue;
        keys[order->compute_count++] = (struct key){range->start_ns, (uint32_t)i, range->stream};
    }
    take_keys(keys, order->compute_count, order->compute);
}

static void collect_busy(const struct aorta_overlap *overlap, struct aorta_intervals *busy) {
    for (size_t i = 0; i < overlap->segment_count; i++)
        if (overlap->segments[i].roles)
            aorta_intervals_add(busy, overlap->segments[i].start_ns, overlap->segments[i].end_ns);
    aorta_intervals_normalise(busy);
}

static void order_free(struct aorta_order *order) {
    if (!order) return;
    aorta_intervals_free(&order->busy);
    free(order->by_start);
    free(order->compute);
    free(order);
}

static aorta_status order_make(const struct aorta_iteration *iteration, struct aorta_order **order) {
    const struct aorta_profile *profile = iteration->profile;
    size_t limit = profile->range_count + 1;
    struct key *keys = malloc(limit * sizeof *keys);
    struct aorta_order *made = calloc(1, sizeof *made);
    aorta_status status = NULL;
    if (made) {
        made->by_start = malloc(limit * sizeof *made->by_start);
        made->compute = malloc(limit * sizeof *made->compute);
        made->ranges = profile->ranges;
    }
    if (!keys || !made || !made->by_start || !made->compute)
        status = AORTA_ERROR(AORTA_MEMORY, "no memory to order %zu ranges", profile->range_count);
    if (!status) {
        sort_ranges(profile, made, keys);
        collect_busy(iteration->overlap, &made->busy);
        status = aorta_intervals_check(&made->busy);
    }
    free(keys);
    if (status) {
        order_free(made);
        made = NULL;
    }
    *order = made;
    return status;
}

aorta_status aorta_rank_step_make(const struct aorta_iteration *iteration, struct aorta_rank_step *step) {
    *step = (struct aorta_rank_step){.iteration = *iteration};
    step->arrivals = calloc(iteration->profile->range_count + 1, sizeof *step->arrivals);
    if (!step->arrivals) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu ranges", iteration->profile->range_count);
    return order_make(iteration, &step->order);
}

void aorta_rank_step_free(struct aorta_rank_step *step) {
    free(step->arrivals);
    order_free(step->order);
    *step = (struct aorta_rank_step){0};
}

/* ---- asking ---- */

const struct aorta_range *aorta_order_starting(const struct aorta_order *order, int64_t time_ns) {
    size_t low = 0, high = order->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (order->ranges[order->by_start[middle]].start_ns < time_ns)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == order->count) return NULL;
    const struct aorta_range *found = &order->ranges[order->by_start[low]];
    return found->start_ns == time_ns ? found : NULL;
}

const struct aorta_range *aorta_order_next_compute(const struct aorta_order *order, int stream, int64_t from_ns) {
    size_t low = 0, high = order->compute_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct aorta_range *range = &order->ranges[order->compute[middle]];
        if (range->stream < stream || (range->stream == stream && range->start_ns < from_ns))
            low = middle + 1;
        else
            high = middle;
    }
    if (low == order->compute_count) return NULL;
    const struct aorta_range *found = &order->ranges[order->compute[low]];
    return found->stream == stream ? found : NULL;
}

int64_t aorta_order_busy(const struct aorta_order *order, int64_t start_ns, int64_t end_ns) {
    return aorta_intervals_within(&order->busy, start_ns, end_ns);
}
