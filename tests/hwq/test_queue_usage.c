/* Queues, streams and gaps of recorded work. */
#include "check.h"
#include "hwq/spans.h"

#include <math.h>
#include <stdlib.h>

#define KERNEL(start, end, of, through)                                                                                \
    { .start_ns = (start), .end_ns = (end), .stream = (of), .queue = (through) }

static void expect_text(const struct aorta_queue_usage *queues, const char *name, const char *start) {
    struct aorta_found_list found = {0};
    struct aorta_text text = {0};
    aorta_queue_usage_find(queues, name, &found);
    aorta_found_text(&found, &text);
    aorta_queue_usage_text(queues, name, &text);
    check_ok(aorta_text_check(&text));
    if (strncmp(text.data, start, strlen(start)) != 0) fail_msg("%s", text.data);
    aorta_text_free(&text);
    aorta_found_free(&found);
}

/* Streams 7 and 8 share queue 100; stream 9 is alone on 200. In no order. */
static void planted_work(void **state) {
    (void)state;
    struct aorta_span work[] = {
        KERNEL(2000, 2500, 8, 100),
        KERNEL(0, 1000, 7, 100),
        KERNEL(1100, 1900, 7, 100),
        KERNEL(500, 3000, 9, 200),
        KERNEL(2450, 2600, 7, 100),
        {.start_ns = 3100, .end_ns = 3200, .stream = 9, .queue = 300, .kind = AORTA_SPAN_COPY},
    };
    struct aorta_queue_usage queues;
    check_ok(aorta_queue_usage_measure(work, 6, &queues));
    assert_int_equal(queues.kernels, 5);
    assert_int_equal(queues.transfers, 1);
    assert_int_equal(queues.count, 3);
    assert_int_equal(queues.stream_count, 3);
    assert_int_equal(queues.streams_on_several, 1); /* 9: its copy */
    assert_int_equal(queues.span_ns, 3200);
    assert_int_equal(queues.busy_ns, 3100);
    const struct aorta_queue *first = &queues.items[0];
    assert_int_equal(first->id, 100);
    assert_int_equal(first->kernels, 4);
    assert_int_equal(first->streams, 2);
    assert_int_equal(first->busy_ns, 1000 + 800 + 600);
    assert_int_equal(first->changes, 2);
    /* 1000 → 1100 the same stream; 1900 → 2000 another; 2500 → 2450 overlaps */
    assert_int_equal(first->same_stream.ns.count, 1);
    assert_true(first->same_stream.ns.p50 == 100);
    assert_int_equal(first->other_stream.ns.count, 1);
    assert_true(first->other_stream.ns.p50 == 100);
    assert_int_equal(first->other_stream.overlapping, 1);
    /* stream 7: 1000 → 1100, 1900 → 2450 */
    assert_int_equal(queues.intra.ns.count, 2);
    assert_true(queues.intra.ns.max == 550);
    /* last to end before: 2000: 1900 of 7; 1100: 1000 of 7, the same stream; 2450: 1900 of 7, the same */
    assert_int_equal(queues.inter.ns.count, 1);
    assert_true(queues.inter.ns.p50 == 100);
    assert_true(fabs(queues.parallel - (1000 + 800 + 500 + 150 + 2500) / 3000.0) < 1e-12);
    expect_text(&queues, "channel",
                "Queues: 3 streams used 3 channels, busy 97% of 3.2 us\n\n"
                "  work        5 kernels and 1 transfer (copies and fills)\n"
                "  at once     1.65 on average while any kernel ran\n"
                "  switch      0 us to another stream of a channel: 0.100 us instead of 0.100 us (median gaps, late\n"
                "              launches included)\n"
                "  several     1 of 3 streams used more than one channel\n\n"
                "  channel");
    aorta_queue_usage_free(&queues);
}

static void queues_that_are_not_known(void **state) {
    (void)state;
    struct aorta_span work[] = {
        {.start_ns = 0, .end_ns = 10, .stream = 1, .queue = AORTA_SPAN_NO_QUEUE},
        {.start_ns = 20, .end_ns = 30, .stream = 2, .queue = AORTA_SPAN_NO_QUEUE},
    };
    struct aorta_queue_usage queues;
    check_ok(aorta_queue_usage_measure(work, 2, &queues));
    assert_int_equal(queues.count, 0);
    assert_int_equal(queues.unqueued, 2);
    assert_true(queues.inter.ns.p50 == 10);
    expect_text(&queues, "queue",
                "Queues: 2 streams used an unknown number of queues, busy 67% of 0.03 us\n\n"
                "  work        2 kernels and 0 transfers (copies and fills)\n"
                "  not known   the recording does not say which queue ran 2 kernels\n");
    aorta_queue_usage_free(&queues);
    check_ok(aorta_queue_usage_measure(work, 0, &queues));
    assert_int_equal(queues.kernels, 0);
    assert_true(isnan(queues.parallel));
    aorta_queue_usage_free(&queues);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planted_work),
        cmocka_unit_test(queues_that_are_not_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
