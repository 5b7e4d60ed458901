/* The time of collectives by hand, and the link that recorded ones show. */
#include "check.h"
#include "replay/whatif.h"

#include <math.h>

enum { US = 1000 };

static void close_to(double value, double expected, double share) {
    if (fabs(value - expected) > share * fabs(expected) + 1e-9) fail_msg("%.9g instead of %.9g", value, expected);
}

/* Latency 1 and 100 within and between, a byte 1 and 10: so that each part of a sum shows. Rings are cheaper with
 * 800000 bytes, trees with 8. */
static void times_by_hand(void **state) {
    (void)state;
    static const struct {
        enum aorta_collective kind;
        int ranks, per_node;
        int64_t bytes;
        double latency, transfer;
    } rows[] = {
        {AORTA_ALL_REDUCE, 1, 8, 800000, 0, 0},
        {AORTA_ALL_REDUCE, 2, 8, 800000, 2, 800000},
        {AORTA_ALL_REDUCE, 8, 8, 800000, 14, 1400000},                  /* 2·7/8 n */
        {AORTA_ALL_REDUCE, 64, 64, 8, 12, 16},                          /* tree: 2·6 messages, 2 n */
        {AORTA_ALL_REDUCE, 32, 8, 800000, 14 + 600, 1400000 + 1500000}, /* 4 nodes, n/8: 2·3·100, 2·3/4·100000·10 */
        {AORTA_ALL_REDUCE, 4, 1, 800000, 600, 12000000},                /* all links are between nodes */
        {AORTA_ALL_GATHER, 8, 8, 800000, 7, 700000},
        {AORTA_ALL_GATHER, 32, 8, 800000, 7 + 300, 700000 + 750000}, /* 3·100, 3/4·100000·10 */
        {AORTA_REDUCE_SCATTER, 8, 8, 800000, 7, 700000},
        {AORTA_REDUCE_SCATTER, 12, 8, 800000, 7 + 100, 700000 + 500000}, /* 2 nodes, one of them half used */
        {AORTA_BROADCAST, 8, 8, 1, 3, 3},                                /* binomial */
        {AORTA_BROADCAST, 8, 8, 800000, 10, 1400000},                    /* scatter and all-gather */
        {AORTA_BROADCAST, 16, 8, 1, 3 + 100, 3 + 10},
        {AORTA_ALL_TO_ALL, 8, 8, 800000, 7, 700000},
        {AORTA_ALL_TO_ALL, 16, 8, 800000, 7 + 800, 350000 + 4000000}, /* 8 of 16 are beyond */
        {AORTA_BARRIER, 8, 8, 0, 6, 0},
        {AORTA_COLLECTIVE_OTHER, 8, 8, 800000, 0, 0},
        {AORTA_ALL_REDUCE, 8, 8, 0, 0, 0}, /* of unknown size */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct aorta_network network = {{1, 1}, {100, 10}, rows[i].per_node};
        struct aorta_collective_time time =
            aorta_collective_model(&network, rows[i].kind, rows[i].ranks, rows[i].bytes);
        close_to(time.latency_ns, rows[i].latency, 1e-12);
        close_to(time.transfer_ns, rows[i].transfer, 1e-12);
    }
}

/* ---- the fit ---- */

enum { REPEATS = 9, SIZES = 4, KINDS = 3 };
static const enum aorta_collective kinds[KINDS] = {AORTA_ALL_REDUCE, AORTA_ALL_GATHER, AORTA_REDUCE_SCATTER};

/* All kinds and sizes of a link of 8 us and 50 GB/s; of nine samples two take far longer, one a little less. */
static size_t make(int ranks, int per_node, struct aorta_collective_sample *samples) {
    const struct aorta_network network = {{8 * US, 0.02}, {8 * US, 0.02}, per_node};
    size_t count = 0;
    for (int kind = 0; kind < KINDS; kind++)
        for (int size = 0; size < SIZES; size++)
            for (int i = 0; i < REPEATS; i++) {
                int64_t bytes = INT64_C(100000) << (3 * size);
                struct aorta_collective_time time = aorta_collective_model(&network, kinds[kind], ranks, bytes);
                double noise = i < 2 ? 5 : i == 2 ? 0.9 : 1;
                samples[count++] = (struct aorta_collective_sample){kinds[kind], ranks, bytes,
                                                                    noise * (time.latency_ns + time.transfer_ns), 0};
            }
    return count;
}

static void the_link_is_found_again(void **state) {
    (void)state;
    static const int worlds[][2] = {{2, 8}, {8, 8}, {32, 8}, {64, 64}, {4, 1}};
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
        struct aorta_collective_sample samples[KINDS * SIZES * REPEATS + 2];
        struct aorta_link_fit fit;
        size_t count = make(worlds[i][0], worlds[i][1], samples);
        samples[count++] = (struct aorta_collective_sample){AORTA_BARRIER, worlds[i][0], 0, 1e9, 0}; /* of no size */
        samples[count++] = (struct aorta_collective_sample){AORTA_ALL_REDUCE, worlds[i][0], 0, 1e9, 0};
        check_ok(aorta_link_fit_make(samples, count, worlds[i][1], 50, -1, &fit));
        assert_false(fit.one_size);
        assert_int_equal(fit.samples, KINDS * SIZES * REPEATS);
        assert_int_equal(fit.sizes, KINDS * SIZES);
        close_to(fit.link.latency_ns, 8 * US, 1e-6);
        close_to(fit.link.ns_per_byte, 0.02, 1e-6);
        close_to(fit.error, 0, 1e-6);
    }
}

/* Each collective takes 30 us to begin: 17 us seem to be the message's between two ranks. The one of 8 bytes takes
 * 5 us in all, so that no message takes more than 2.5. */
static void beginning_is_no_latency(void **state) {
    (void)state;
    struct aorta_collective_sample samples[6];
    struct aorta_link_fit fit;
    for (int i = 0; i < 5; i++) {
        int64_t bytes = INT64_C(10000000) * (i + 1);
        samples[i] = (struct aorta_collective_sample){AORTA_ALL_REDUCE, 2, bytes, 34 * US + (double)bytes * 0.005, 0};
    }
    samples[5] = (struct aorta_collective_sample){AORTA_ALL_REDUCE, 2, 8, 5 * US, 0};
    check_ok(aorta_link_fit_make(samples, 6, 8, 50, -1, &fit));
    close_to(fit.link.ns_per_byte, 0.005, 0.05);
    close_to(fit.link.latency_ns, 2.5 * US, 1e-9);
    assert_true(fit.error < 0.01);
}

/* 2 (α + n/2 β) = 1.016 ms: α is what was given, else 0. */
static void one_size_shows_no_latency(void **state) {
    (void)state;
    struct aorta_collective_sample samples[3];
    struct aorta_link_fit fit;
    for (int i = 0; i < 3; i++)
        samples[i] = (struct aorta_collective_sample){AORTA_ALL_REDUCE, 2, 50000000, 1016 * US, 0};
    check_ok(aorta_link_fit_make(samples, 3, 8, 50, 8 * US, &fit));
    assert_true(fit.one_size);
    close_to(fit.link.latency_ns, 8 * US, 1e-9);
    close_to(fit.link.ns_per_byte, 0.02, 1e-9);
    check_ok(aorta_link_fit_make(samples, 3, 8, 50, -1, &fit));
    close_to(fit.link.latency_ns, 0, 0);
    close_to(fit.link.ns_per_byte, 0.02032, 1e-9);
}

static void nothing_to_fit(void **state) {
    (void)state;
    struct aorta_collective_sample alone = {AORTA_ALL_REDUCE, 1, 1000, 1000, 0};
    struct aorta_link_fit fit;
    check_ok(aorta_link_fit_make(&alone, 1, 8, 50, -1, &fit));
    assert_int_equal(fit.samples, 0);
    check_ok(aorta_link_fit_make(NULL, 0, 8, 50, -1, &fit));
    assert_int_equal(fit.samples, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_by_hand),           cmocka_unit_test(the_link_is_found_again),
        cmocka_unit_test(beginning_is_no_latency), cmocka_unit_test(one_size_shows_no_latency),
        cmocka_unit_test(nothing_to_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
