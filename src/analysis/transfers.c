/* A collective is slow when it takes far longer than the best tenth of its own sort in the same run. */
#include "analysis/steps.h"
#include "base/statistics.h"

#include <stdlib.h>
#include <string.h>

struct aorta_transfer_group {
    enum aorta_collective collective;
    int group_size;
    int64_t bytes, best_ns; /* best_ns 0: too few samples */
};

struct sample {
    struct aorta_transfer_group group;
    double ns;
};

/* Waiting must be known to be left out, and a local copy is no transfer. */
static bool can_compare(const struct aorta_range *range, const struct aorta_arrival *arrival) {
    return range->info.kind == AORTA_RANGE_COLLECTIVE && !range->info.simulated && range->info.group_size > 1 &&
           range->info.bytes > 0 && arrival->complete;
}

static int group_order(const struct aorta_transfer_group *a, const struct aorta_transfer_group *b) {
    if (a->collective != b->collective) return a->collective < b->collective ? -1 : 1;
    if (a->group_size != b->group_size) return a->group_size < b->group_size ? -1 : 1;
    return (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

static int group_search(const void *left, const void *right) {
    return group_order(left, right);
}

static int sample_order(const void *left, const void *right) {
    const struct sample *a = left, *b = right;
    int order = group_order(&a->group, &b->group);
    return order ? order : (a->ns > b->ns) - (a->ns < b->ns);
}

static struct aorta_transfer_group group_of(const struct aorta_range *range) {
    return (struct aorta_transfer_group){
        .collective = range->info.collective, .group_size = range->info.group_size, .bytes = range->info.bytes};
}

static size_t collect_samples(const struct aorta_rank_step *steps, size_t count, struct sample *samples) {
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        const struct aorta_profile *profile = steps[i].iteration.profile;
        for (size_t j = 0; j < profile->range_count; j++) {
            const struct aorta_range *range = &profile->ranges[j];
            if (!can_compare(range, &steps[i].arrivals[j])) continue;
            samples[used++] = (struct sample){group_of(range), (double)(range->end_ns - steps[i].arrivals[j].until_ns)};
        }
    }
    qsort(samples, used, sizeof *samples, sample_order);
    return used;
}

/* Best tenth of samples[0 .. count), which are sorted. */
static int64_t best_decile(const struct sample *samples, size_t count) {
    if (count < AORTA_TRANSFER_SAMPLES) return 0;
    return (int64_t)samples[count / 10].ns;
}

aorta_status aorta_transfers_collect(const struct aorta_rank_step *steps, size_t count,
                                     struct aorta_transfers *transfers) {
    *transfers = (struct aorta_transfers){0};
    size_t limit = 1;
    for (size_t i = 0; i < count; i++) limit += steps[i].iteration.profile->range_count;
    struct sample *samples = malloc(limit * sizeof *samples);
    struct aorta_transfer_group *groups = malloc(limit * sizeof *groups);
    if (!samples || !groups) {
        free(samples);
        free(groups);
        return AORTA_ERROR(AORTA_MEMORY, "no memory for the times of %zu collectives", limit);
    }
    size_t used = collect_samples(steps, count, samples);
    for (size_t i = 0; i < used;) {
        size_t same = 1;
        while (i + same < used && group_order(&samples[i].group, &samples[i + same].group) == 0) same++;
        samples[i].group.best_ns = best_decile(samples + i, same);
        groups[transfers->count++] = samples[i].group;
        i += same;
    }
    transfers->groups = groups;
    free(samples);
    return NULL;
}

void aorta_transfers_free(struct aorta_transfers *transfers) {
    free(transfers->groups);
    *transfers = (struct aorta_transfers){0};
}

int64_t aorta_transfers_best_if_slow(const struct aorta_transfers *transfers, const struct aorta_range *range,
                                     const struct aorta_arrival *arrival) {
    if (!can_compare(range, arrival)) return 0;
    struct aorta_transfer_group wanted = group_of(range);
    const struct aorta_transfer_group *group =
        transfers->count ? bsearch(&wanted, transfers->groups, transfers->count, sizeof wanted, group_search) : NULL;
    return group && range->end_ns - arrival->until_ns > AORTA_TRANSFER_SLOWER * group->best_ns ? group->best_ns : 0;
}
