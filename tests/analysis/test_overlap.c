#include "check.h"
#include "samples/profile.h"

#include <math.h>
#include <stdlib.h>

/* Compute 0..100 and 150..250; an all-gather 80..160 (20 hidden, then 50 alone, then 10 hidden); idle 250..300 ended
 * by a reduce-scatter 300..340 that was launched at 270; a copy 340..350. */
static void known_figures(void **state) {
    (void)state;
    struct sample sample;
    sample_begin(&sample, 7);
    sample_compute(&sample, 0, 100, -20);
    sample_collective(&sample, AORTA_ALL_GATHER, 80, 160, -10);
    sample_compute(&sample, 150, 250, 120);
    sample_collective(&sample, AORTA_REDUCE_SCATTER, 300, 340, 270);
    sample_copy(&sample, 340, 350, 280);
    sample_host(&sample, AORTA_HOST_DATA_WAIT, 255, 260);
    sample_host(&sample, AORTA_HOST_SYNC, 258, 268);
    sample_done(&sample, -50);
    const struct aorta_overlap *o = &sample.profile.overlap;
    assert_int_equal(o->span_ns, 350);
    assert_int_equal(o->lead_ns, 50);
    assert_int_equal(o->compute_ns, 200);
    assert_int_equal(o->comm_ns, 120);
    assert_int_equal(o->memcpy_ns, 10);
    assert_int_equal(o->busy_ns, 300);
    assert_int_equal(o->idle_ns, 50);
    assert_int_equal(o->overlap_ns, 30);
    assert_int_equal(o->exposed_comm_ns, 90);
    assert_int_equal(o->exposed_copy_ns, 10);
    assert_true(fabs(o->overlap_ratio - 0.25) < 1e-15);
    assert_true(fabs(o->compute_overlap_ratio - 0.15) < 1e-15);
    assert_int_equal(o->kind[AORTA_ALL_GATHER].exposed_ns, 50);
    assert_int_equal(o->kind[AORTA_ALL_GATHER].overlap_ns, 30);
    assert_int_equal(o->kind[AORTA_ALL_GATHER].count, 1);
    assert_int_equal(o->kind[AORTA_ALL_GATHER].bytes, 1000);
    assert_int_equal(o->kind[AORTA_REDUCE_SCATTER].blamed_ns, 40);
    assert_int_equal(o->dependency_ns, 30); /* the second compute was launched at 120 and waited until 150 */
    assert_int_equal(o->idle.ns[AORTA_IDLE_DATA_WAIT], 5);
    assert_int_equal(o->idle.ns[AORTA_IDLE_HOST_SYNC], 8);
    /* lead: launched at -20, so 30 late and 20 latency; gap: 20 until 270 less 13 of waits, then 30 latency */
    assert_int_equal(o->idle.ns[AORTA_IDLE_HOST_LAUNCH], 30 + 7);
    assert_int_equal(o->idle.ns[AORTA_IDLE_LAUNCH_LATENCY], 20 + 30);
    assert_int_equal(o->idle.ns[AORTA_IDLE_UNKNOWN], 0);
    assert_int_equal(o->segment_count, 8);
    assert_int_equal(o->segments[1].start_ns, 80);
    assert_int_equal(o->segments[1].end_ns, 100);
    assert_int_equal(o->segments[1].roles, 1u << AORTA_ROLE_COMPUTE | 1u << AORTA_ROLE_AUX);
    assert_int_equal(o->segments[4].roles, 1u << AORTA_ROLE_COMPUTE);
    assert_int_equal(o->segments[5].roles, 0);
    assert_int_equal(o->exposed_count, 2);
    assert_int_equal(o->exposed[0].start_ns, 100);
    assert_int_equal(o->exposed[0].end_ns, 150);
    assert_int_equal(o->exposed[0].range, 1);
    assert_true(fabs(o->utilization[AORTA_ROLE_COMPUTE] - 200.0 / 350) < 1e-15);
    sample_free(&sample);
}

/* The batch was copied from -500 to -450, while the iterations before ran, and the last of them ended at -20: the
 * iteration is what passed since then, not since the copy.
 *
 *   before  |=====================|
 *   this      copy                |  compute 0..100
 *          -500 -450             -20                 */
static void copied_far_ahead(void **state) {
    (void)state;
    struct sample sample;
    sample_begin(&sample, 7);
    sample_copy(&sample, -500, -450, -510);
    sample_compute(&sample, 0, 100, -5);
    sample_done(&sample, -20);
    const struct aorta_overlap *o = &sample.profile.overlap;
    assert_int_equal(o->span_ns, 120);
    assert_int_equal(o->lead_ns, 0);
    assert_int_equal(o->compute_ns, 100);
    assert_int_equal(o->memcpy_ns, 0);
    assert_int_equal(o->idle_ns, 20);
    assert_int_equal(o->idle.ns[AORTA_IDLE_HOST_LAUNCH], 15);
    assert_int_equal(o->idle.ns[AORTA_IDLE_LAUNCH_LATENCY], 5);
    sample_free(&sample);
}

/* No collective: the ratio is not a number, never zero. */
static void nothing_to_overlap(void **state) {
    (void)state;
    struct sample sample;
    sample_begin(&sample, 0);
    sample_compute(&sample, 5, 10, INT64_MIN);
    sample_compute(&sample, 20, 25, INT64_MIN);
    sample_done(&sample, INT64_MIN);
    assert_true(isnan(sample.profile.overlap.overlap_ratio));
    assert_true(sample.profile.overlap.compute_overlap_ratio == 0);
    assert_int_equal(sample.profile.overlap.idle.ns[AORTA_IDLE_UNKNOWN], 10);
    assert_int_equal(sample.profile.overlap.lead_ns, 0);
    sample_free(&sample);

    sample_begin(&sample, 0);
    sample_done(&sample, 100);
    assert_int_equal(sample.profile.overlap.span_ns, 0);
    assert_true(isnan(sample.profile.overlap.compute_overlap_ratio));
    assert_true(isnan(sample.profile.overlap.utilization[0]));
    sample_free(&sample);
}

/* The wait ends when compute goes on: a collective that runs on past it (a prefetch) is not to blame. */
static void blame_goes_to_what_ended_the_wait(void **state) {
    (void)state;
    struct sample sample;
    sample_begin(&sample, 0);
    sample_compute(&sample, 0, 10, 0);
    sample_collective(&sample, AORTA_ALL_GATHER, 10, 40, 0);
    sample_collective(&sample, AORTA_REDUCE_SCATTER, 10, 20, 0);
    sample_collective(&sample, AORTA_ALL_REDUCE, 12, 90, 0);
    sample_compute(&sample, 40, 100, 0);
    sample_done(&sample, INT64_MIN);
    assert_int_equal(sample.profile.overlap.kind[AORTA_ALL_GATHER].blamed_ns, 30);
    assert_int_equal(sample.profile.overlap.kind[AORTA_REDUCE_SCATTER].blamed_ns, 0);
    assert_int_equal(sample.profile.overlap.kind[AORTA_REDUCE_SCATTER].exposed_ns, 10);
    assert_int_equal(sample.profile.overlap.kind[AORTA_ALL_REDUCE].blamed_ns, 0);
    assert_int_equal(sample.profile.overlap.kind[AORTA_ALL_REDUCE].exposed_ns, 28);
    sample_free(&sample);
}

/* ---- the same figures, nanosecond by nanosecond ---- */

struct moment {
    bool compute, copy;
    unsigned roles, collectives;
};

static struct moment look(const struct aorta_profile *profile, int64_t time) {
    struct moment moment = {0};
    for (size_t i = 0; i < profile->range_count; i++) {
        const struct aorta_range *range = &profile->ranges[i];
        if (range->start_ns > time || time >= range->end_ns) continue;
        moment.roles |= 1u << range->info.role;
        moment.compute |= range->info.kind == AORTA_RANGE_COMPUTE;
        moment.copy |= range->info.kind == AORTA_RANGE_COPY;
        if (range->info.kind == AORTA_RANGE_COLLECTIVE) moment.collectives |= 1u << range->info.collective;
    }
    return moment;
}

/* Earliest launch among what starts next at or after `time`; false when nothing does. */
static bool next_launch(const struct aorta_profile *profile, int64_t time, bool compute_only, int64_t *launch) {
    int64_t start = INT64_MAX;
    for (size_t i = 0; i < profile->range_count; i++) {
        const struct aorta_range *range = &profile->ranges[i];
        if (range->start_ns < time || (compute_only && range->info.kind != AORTA_RANGE_COMPUTE)) continue;
        if (range->start_ns > start || (range->start_ns == start && range->enqueue_ns >= *launch)) continue;
        start = range->start_ns;
        *launch = range->enqueue_ns;
    }
    return start != INT64_MAX;
}

static bool host_did(const struct aorta_profile *profile, enum aorta_host_kind kind, int64_t time) {
    for (size_t i = 0; i < profile->host_count; i++)
        if (profile->host[i].kind == kind && profile->host[i].start_ns <= time && time < profile->host[i].end_ns)
            return true;
    return false;
}

static void explain_moment(const struct aorta_profile *profile, int64_t time, struct aorta_idle *idle) {
    int64_t launch = 0;
    assert_true(next_launch(profile, time + 1, false, &launch));
    if (launch != INT64_MIN && launch <= time)
        idle->ns[AORTA_IDLE_LAUNCH_LATENCY]++;
    else if (host_did(profile, AORTA_HOST_DATA_WAIT, time))
        idle->ns[AORTA_IDLE_DATA_WAIT]++;
    else if (host_did(profile, AORTA_HOST_SYNC, time))
        idle->ns[AORTA_IDLE_HOST_SYNC]++;
    else if (launch == INT64_MIN)
        idle->ns[AORTA_IDLE_UNKNOWN]++;
    else
        idle->ns[AORTA_IDLE_HOST_LAUNCH]++;
}

static enum aorta_collective blame_moment(const struct aorta_profile *profile, int64_t time) {
    int64_t wait_end = time;
    for (;; wait_end++) {
        struct moment moment = look(profile, wait_end);
        if (moment.compute || !moment.collectives) break;
    }
    const struct aorta_range *within = NULL, *past = NULL;
    for (size_t i = 0; i < profile->range_count; i++) {
        const struct aorta_range *range = &profile->ranges[i];
        if (range->info.kind != AORTA_RANGE_COLLECTIVE || range->start_ns > time || time >= range->end_ns) continue;
        if (range->end_ns <= wait_end && (!within || range->end_ns > within->end_ns)) within = range;
        if (range->end_ns > wait_end && (!past || range->end_ns < past->end_ns)) past = range;
    }
    const struct aorta_range *blamed = within ? within : past;
    assert_non_null(blamed);
    return blamed ? blamed->info.collective : AORTA_COLLECTIVE_COUNT;
}

static void count_moment(const struct aorta_profile *profile, int64_t time, struct aorta_overlap *sum) {
    struct moment moment = look(profile, time);
    int64_t launch = 0;
    bool comm = moment.collectives != 0;
    sum->compute_ns += moment.compute;
    sum->comm_ns += comm;
    sum->memcpy_ns += moment.copy;
    sum->busy_ns += moment.roles != 0;
    sum->overlap_ns += comm && moment.compute;
    sum->exposed_copy_ns += moment.copy && !comm && !moment.compute;
    for (int role = 0; role < AORTA_ROLE_COUNT; role++) sum->role_ns[role] += moment.roles >> role & 1;
    for (int kind = 0; kind < AORTA_COLLECTIVE_COUNT; kind++) {
        sum->kind[kind].comm_ns += moment.collectives >> kind & 1;
        sum->kind[kind].overlap_ns += (moment.collectives >> kind & 1) && moment.compute;
    }
    if (comm && !moment.compute) sum->kind[blame_moment(profile, time)].blamed_ns++;
    if (moment.roles && !moment.compute && next_launch(profile, time + 1, true, &launch) && launch != INT64_MIN)
        sum->dependency_ns += launch <= time;
    if (!moment.roles) explain_moment(profile, time, &sum->idle);
}

static void compare(const struct aorta_overlap *o, const struct aorta_overlap *sum, int64_t lead) {
    assert_int_equal(o->lead_ns, lead);
    assert_int_equal(o->compute_ns, sum->compute_ns);
    assert_int_equal(o->comm_ns, sum->comm_ns);
    assert_int_equal(o->memcpy_ns, sum->memcpy_ns);
    assert_int_equal(o->busy_ns, sum->busy_ns);
    assert_int_equal(o->overlap_ns, sum->overlap_ns);
    assert_int_equal(o->exposed_copy_ns, sum->exposed_copy_ns);
    assert_int_equal(o->dependency_ns, sum->dependency_ns);
    for (int role = 0; role < AORTA_ROLE_COUNT; role++) assert_int_equal(o->role_ns[role], sum->role_ns[role]);
    for (int kind = 0; kind < AORTA_COLLECTIVE_COUNT; kind++) {
        assert_int_equal(o->kind[kind].comm_ns, sum->kind[kind].comm_ns);
        assert_int_equal(o->kind[kind].overlap_ns, sum->kind[kind].overlap_ns);
        assert_int_equal(o->kind[kind].blamed_ns, sum->kind[kind].blamed_ns);
    }
    assert_memory_equal(&o->idle, &sum->idle, sizeof o->idle);
    assert_int_equal(aorta_idle_total(&o->idle), o->idle_ns + o->lead_ns);
}

static void check_segments(const struct aorta_profile *profile, const struct aorta_overlap *o) {
    int64_t at = profile->start_ns;
    for (size_t i = 0; i < o->segment_count; i++) {
        const struct aorta_segment *segment = &o->segments[i];
        assert_int_equal(segment->start_ns, at);
        if (i) assert_true(segment->roles != segment[-1].roles);
        for (; at < segment->end_ns; at++) assert_int_equal(look(profile, at).roles, segment->roles);
    }
    assert_int_equal(at, profile->end_ns);
}

static void agrees_with_brute_force(void **state) {
    (void)state;
    uint64_t random = 88172645463325252u;
    for (int round = 0; round < 400; round++) {
        struct sample sample;
        sample_begin(&sample, round);
        int64_t origin = (int64_t)sample_random(&random, 2000) - 1000;
        sample_fill_random(&sample, &random, 1 + (int)sample_random(&random, 24), origin,
                           40 + (int64_t)sample_random(&random, 260));
        sample_done(&sample, INT64_MIN);
        int64_t lead = (int64_t)sample_random(&random, 30);
        sample_done(&sample, sample.profile.start_ns - lead);
        struct aorta_overlap sum = {0};
        for (int64_t t = sample.profile.start_ns; t < sample.profile.end_ns; t++)
            count_moment(&sample.profile, t, &sum);
        for (int64_t t = sample.profile.start_ns - lead; t < sample.profile.start_ns; t++)
            explain_moment(&sample.profile, t, &sum.idle);
        compare(&sample.profile.overlap, &sum, lead);
        check_segments(&sample.profile, &sample.profile.overlap);
        sample_free(&sample);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_figures),           cmocka_unit_test(copied_far_ahead),
        cmocka_unit_test(nothing_to_overlap),      cmocka_unit_test(blame_goes_to_what_ended_the_wait),
        cmocka_unit_test(agrees_with_brute_force),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
