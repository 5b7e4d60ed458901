/* Both views of the same iterations. */
#include "check.h"
#include "samples/profile.h"
#include "verdict/agreement.h"

#include <math.h>

static double percent(const struct aorta_agreement *agreement, enum aorta_agreement_figure figure) {
    return 100 * aorta_agreement_difference(agreement, figure);
}

/* One compute range with a gap that the host left and one that the launches left, and a collective beside it. */
static void known_gaps(void **state) {
    (void)state;
    struct sample ranges, kernels;
    sample_begin(&ranges, 0);
    sample_begin(&kernels, 0);
    sample_compute(&ranges, 1000, 2000, 900);
    sample_collective(&ranges, AORTA_ALL_GATHER, 1500, 2500, 1300); /* until 1300 the host launched the first */
    kernels.profile.source = AORTA_SOURCE_KERNEL;
    sample_compute(&kernels, 1400, 1900, INT64_MIN);
    sample_collective(&kernels, AORTA_ALL_GATHER, 1600, 2450, INT64_MIN);
    kernels.profile.kernels.attributed = 2;
    kernels.profile.kernels.dropped = 1;
    sample_done(&ranges, INT64_MIN);
    sample_done(&kernels, INT64_MIN);
    struct aorta_agreement agreement = {0};
    check_ok(aorta_agreement_add(&agreement, &ranges.profile, &kernels.profile));
    check_ok(aorta_agreement_add(&agreement, &ranges.profile, &kernels.profile));
    assert_int_equal(agreement.iterations, 2);
    assert_int_equal(agreement.range_ns[AORTA_AGREE_COMPUTE], 2000);
    assert_int_equal(agreement.kernel_ns[AORTA_AGREE_COMPUTE], 1000);
    assert_int_equal(agreement.gap_ns[AORTA_AGREE_COMPUTE], 1000);
    assert_int_equal(agreement.gap_ns[AORTA_AGREE_COMM], 300);
    assert_int_equal(agreement.range_ns[AORTA_AGREE_OVERLAP], 1000);
    assert_int_equal(agreement.kernel_ns[AORTA_AGREE_OVERLAP], 600);
    assert_int_equal(agreement.range_ns[AORTA_AGREE_IDLE], 0);
    assert_int_equal(agreement.kernel_ns[AORTA_AGREE_IDLE], 2 * 450); /* 1000 to 1400, 2450 to 2500 */
    assert_int_equal(agreement.host_gap_ns, 2 * 300);
    assert_int_equal(agreement.latency_gap_ns, 2 * 150);
    assert_true(fabs(percent(&agreement, AORTA_AGREE_COMPUTE) - 100) < 1e-9);
    assert_string_equal(aorta_agreement_range_start(&agreement), "stream");
    struct aorta_agreement roomy = {0};
    assert_null(aorta_agreement_range_start(&roomy));
    ranges.profile.ranges[1].room = true;
    check_ok(aorta_agreement_add(&roomy, &ranges.profile, &kernels.profile));
    assert_string_equal(aorta_agreement_range_start(&roomy), "room");
    ranges.profile.ranges[1].room = false;
    check_ok(aorta_agreement_add(&roomy, &ranges.profile, &kernels.profile));
    assert_string_equal(aorta_agreement_range_start(&roomy), "mixed");
    struct aorta_agreement seen = {0};
    ranges.profile.ranges[1].room = ranges.profile.ranges[1].witnessed = true;
    check_ok(aorta_agreement_add(&seen, &ranges.profile, &kernels.profile));
    assert_string_equal(aorta_agreement_range_start(&seen), "kernel");
    struct aorta_text text = {0};
    aorta_agreement_text(&agreement, &text);
    assert_non_null(strstr(text.data, "(ranges +100.0%)"));
    assert_non_null(strstr(text.data, " ms between the kernels of compute's ranges"));
    assert_non_null(strstr(text.data, "2 kernel records were lost"));
    assert_null(strchr(text.data, '\n'));
    aorta_text_free(&text);
    sample_free(&ranges);
    sample_free(&kernels);
}

/* The same view twice agrees to the nanosecond; a replayed graph has no gaps of the host. */
static void same_views(void **state) {
    (void)state;
    uint64_t random = 99;
    struct sample ranges;
    sample_begin(&ranges, 0);
    sample_fill_random(&ranges, &random, 100, 0, 4000);
    for (size_t i = 0; i < ranges.profile.range_count; i++) ranges.profile.ranges[i].enqueue_ns = -50;
    sample_done(&ranges, INT64_MIN);
    struct aorta_agreement agreement = {0};
    check_ok(aorta_agreement_add(&agreement, &ranges.profile, &ranges.profile));
    for (int figure = 0; figure < AORTA_AGREE_COUNT; figure++)
        assert_true(aorta_agreement_difference(&agreement, (enum aorta_agreement_figure)figure) == 0);
    assert_int_equal(agreement.gap_ns[0] + agreement.gap_ns[1] + agreement.outside_ns[0] + agreement.outside_ns[1], 0);
    assert_int_equal(agreement.host_gap_ns + agreement.latency_gap_ns, 0);
    struct aorta_profile nothing = {0};
    struct aorta_agreement lost = {0};
    check_ok(aorta_agreement_add(&lost, &ranges.profile, &nothing));
    assert_true(isnan(aorta_agreement_difference(&lost, AORTA_AGREE_COMPUTE)));
    assert_int_equal(lost.host_gap_ns, 0);
    assert_int_equal(lost.latency_gap_ns, ranges.overlap.busy_ns);
    sample_free(&ranges);
}

/* Whatever the views, nothing of their difference is left unexplained. */
static void identities(void **state) {
    (void)state;
    uint64_t random = 12345;
    for (int round = 0; round < 200; round++) {
        struct sample ranges, kernels;
        sample_begin(&ranges, 0);
        sample_begin(&kernels, 0);
        sample_fill_random(&ranges, &random, 1 + (int)sample_random(&random, 40), 0, 3000);
        sample_fill_random(&kernels, &random, (int)sample_random(&random, 80), 0, 3000);
        sample_done(&ranges, INT64_MIN);
        sample_done(&kernels, INT64_MIN);
        struct aorta_agreement a = {0};
        check_ok(aorta_agreement_add(&a, &ranges.profile, &kernels.profile));
        assert_int_equal(a.range_ns[AORTA_AGREE_COMPUTE], ranges.overlap.compute_ns);
        assert_int_equal(a.kernel_ns[AORTA_AGREE_COMPUTE], kernels.overlap.compute_ns);
        assert_int_equal(a.range_ns[AORTA_AGREE_COMM], ranges.overlap.comm_ns);
        assert_int_equal(a.kernel_ns[AORTA_AGREE_COMM], kernels.overlap.comm_ns);
        assert_int_equal(a.range_ns[AORTA_AGREE_OVERLAP], ranges.overlap.overlap_ns);
        assert_int_equal(a.kernel_ns[AORTA_AGREE_OVERLAP], kernels.overlap.overlap_ns);
        assert_int_equal(a.range_ns[AORTA_AGREE_IDLE], ranges.overlap.idle_ns);
        for (int i = 0; i < 2; i++) assert_int_equal(a.range_ns[i] - a.kernel_ns[i], a.gap_ns[i] - a.outside_ns[i]);
        /* what is idle to the kernels and not to the ranges is gaps in ranges, less kernels in the ranges' idle time */
        assert_true(a.kernel_ns[AORTA_AGREE_IDLE] - a.range_ns[AORTA_AGREE_IDLE] <= a.host_gap_ns + a.latency_gap_ns);
        assert_true(a.host_gap_ns >= 0 && a.latency_gap_ns >= 0);
        sample_free(&ranges);
        sample_free(&kernels);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_gaps),
        cmocka_unit_test(same_views),
        cmocka_unit_test(identities),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
