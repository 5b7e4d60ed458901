#include "samples/profile.h"
#include "check.h"
#include "measure/tracer.h"

#include <stdlib.h>
#include <string.h>

void sample_begin(struct sample *sample, int64_t index) {
    memset(sample, 0, sizeof *sample);
    sample->profile.index = index;
    sample->profile.ranges = calloc(SAMPLE_RANGES, sizeof *sample->profile.ranges);
    sample->profile.host = calloc(SAMPLE_RANGES, sizeof *sample->profile.host);
    sample->profile.markers = calloc(4, sizeof *sample->profile.markers);
    assert_non_null(sample->profile.ranges);
    assert_non_null(sample->profile.host);
    assert_non_null(sample->profile.markers);
}

static struct aorta_range *add(struct sample *sample, struct aorta_range range) {
    assert_true(sample->profile.range_count < SAMPLE_RANGES);
    struct aorta_range *at = &sample->profile.ranges[sample->profile.range_count++];
    *at = range;
    return at;
}

struct aorta_range *sample_compute(struct sample *sample, int64_t start_ns, int64_t end_ns, int64_t enqueue_ns) {
    struct aorta_range_info info = {
        .tag = "layer", .function = "linear_forward", .role = AORTA_ROLE_COMPUTE, .kind = AORTA_RANGE_COMPUTE};
    return add(sample,
               (struct aorta_range){.info = info, .start_ns = start_ns, .end_ns = end_ns, .enqueue_ns = enqueue_ns});
}

struct aorta_range *sample_copy(struct sample *sample, int64_t start_ns, int64_t end_ns, int64_t enqueue_ns) {
    struct aorta_range_info info = {
        .tag = "batch", .function = "copy", .role = AORTA_ROLE_AUX, .kind = AORTA_RANGE_COPY, .layer = -1, .bytes = 64};
    return add(sample,
               (struct aorta_range){
                   .info = info, .start_ns = start_ns, .end_ns = end_ns, .enqueue_ns = enqueue_ns, .stream = 1});
}

struct aorta_range *sample_collective(struct sample *sample, enum aorta_collective kind, int64_t start_ns,
                                      int64_t end_ns, int64_t enqueue_ns) {
    enum aorta_role role = kind == AORTA_ALL_REDUCE       ? AORTA_ROLE_ALLREDUCE
                           : kind == AORTA_REDUCE_SCATTER ? AORTA_ROLE_REDUCESCATTER
                                                          : AORTA_ROLE_AUX;
    int64_t sequence = 0;
    for (size_t i = 0; i < sample->profile.range_count; i++)
        sequence += sample->profile.ranges[i].info.kind == AORTA_RANGE_COLLECTIVE &&
                    sample->profile.ranges[i].info.collective == kind;
    struct aorta_range_info info = {.tag = "unit",
                                    .function = aorta_collective_name(kind),
                                    .role = role,
                                    .kind = AORTA_RANGE_COLLECTIVE,
                                    .collective = kind,
                                    .group_size = 2,
                                    .layer = (int)(sequence % 4),
                                    .bytes = 1000};
    return add(sample, (struct aorta_range){.info = info,
                                            .start_ns = start_ns,
                                            .end_ns = end_ns,
                                            .enqueue_ns = enqueue_ns,
                                            .sequence = sequence,
                                            .stream = 2});
}

void sample_host(struct sample *sample, enum aorta_host_kind kind, int64_t start_ns, int64_t end_ns) {
    sample->profile.host[sample->profile.host_count++] = (struct aorta_host_range){kind, start_ns, end_ns};
}

void sample_done(struct sample *sample, int64_t previous_end_ns) {
    struct aorta_profile *profile = &sample->profile;
    for (size_t i = 0; i < profile->range_count; i++) {
        const struct aorta_range *range = &profile->ranges[i];
        if (i == 0 || range->start_ns < profile->start_ns) profile->start_ns = range->start_ns;
        if (i == 0 || range->end_ns > profile->end_ns) profile->end_ns = range->end_ns;
    }
    check_ok(aorta_overlap_compute(profile, previous_end_ns));
}

void sample_free(struct sample *sample) {
    aorta_profile_free(&sample->profile);
}

void sample_join(struct aorta_activity_record *records, size_t count, const int *owners,
                 const struct aorta_profile *ranges, struct aorta_profile *kernels) {
    struct aorta_profile copy = *ranges; /* whose ranges get their times from the kernels */
    struct aorta_launches launches = {.first_label = 1};
    launches.ranges = calloc(ranges->range_count + 1, sizeof *launches.ranges);
    copy.ranges = calloc(ranges->range_count + 1, sizeof *copy.ranges);
    assert_true(launches.ranges && copy.ranges);
    if (ranges->range_count) memcpy(copy.ranges, ranges->ranges, ranges->range_count * sizeof *copy.ranges);
    for (size_t i = 0; i < count; i++) records[i].label = (uint64_t)owners[i] + 1;
    check_ok(aorta_kernels_profile(records, count, kernels));
    check_ok(aorta_kernels_join(kernels, records, &copy, &launches, INT64_MIN));
    free(copy.ranges);
    free(launches.ranges);
}

uint64_t sample_random(uint64_t *state, uint64_t below) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state % below;
}

void sample_fill_random(struct sample *sample, uint64_t *state, int ranges, int64_t origin_ns, int64_t length_ns) {
    for (int i = 0; i < ranges; i++) {
        int64_t start = origin_ns + (int64_t)sample_random(state, (uint64_t)length_ns);
        int64_t end = start + (int64_t)sample_random(state, (uint64_t)length_ns / 6 + 1); /* may be empty */
        int64_t enqueue = sample_random(state, 8) ? start - (int64_t)sample_random(state, 30) : INT64_MIN;
        uint64_t sort = sample_random(state, 10);
        struct aorta_range *range =
            sort < 4   ? sample_compute(sample, start, end, enqueue)
            : sort < 5 ? sample_copy(sample, start, end, enqueue)
                       : sample_collective(sample, (enum aorta_collective)sample_random(state, AORTA_COLLECTIVE_COUNT),
                                           start, end, enqueue);
        if (sample_random(state, 4) == 0) range->info.role = (enum aorta_role)sample_random(state, AORTA_ROLE_COUNT);
        if (range->info.kind == AORTA_RANGE_COMPUTE && sample_random(state, 2)) range->info.flops = 1e6;
        range->stream = (int)sample_random(state, 3);
    }
    for (int i = 0; i < ranges / 4; i++) {
        int64_t start = origin_ns + (int64_t)sample_random(state, (uint64_t)length_ns) - 10;
        sample_host(sample, (enum aorta_host_kind)sample_random(state, 2), start,
                    start + (int64_t)sample_random(state, 40));
    }
}
