/* Gaps and busy time of planted spans. */
#include "check.h"
#include "timeline/spans.h"

#define SPAN(of, start, end)                                                                                           \
    { .start_ns = (start), .end_ns = (end), .stream = (of) }

struct found {
    int64_t gaps[16];
    size_t count;
};

static aorta_status add(void *user, const struct aorta_span *before, const struct aorta_span *after) {
    struct found *found = user;
    assert_true(found->count < sizeof found->gaps / sizeof *found->gaps);
    found->gaps[found->count++] = after->start_ns - before->end_ns;
    return NULL;
}

static void check_gaps(const struct found *found, const int64_t *expected, size_t count) {
    assert_int_equal(found->count, count);
    for (size_t i = 0; i < count; i++) assert_int_equal(found->gaps[i], expected[i]);
}

/* time     0   10  20  30  40  50  60
 * stream 0 [----]  [--]         [----]     0–10, 13–20, 50–60
 * stream 1      [-------] [--]             12–30, 35–40          in no order */
static const struct aorta_span planted[] = {SPAN(1, 12, 30), SPAN(0, 0, 10), SPAN(0, 13, 20), SPAN(0, 50, 60),
                                            SPAN(1, 35, 40)};
enum { PLANTED = sizeof planted / sizeof *planted };

static void gaps_on_streams(void **state) {
    struct found found = {.count = 0};
    (void)state;
    check_ok(aorta_gaps_on_streams(planted, PLANTED, add, &found));
    check_gaps(&found, (const int64_t[]){3, 30, 5}, 3); /* 10→13, 20→50; 30→35 */
}

static void gaps_between_streams(void **state) {
    struct found found = {.count = 0};
    (void)state;
    check_ok(aorta_gaps_between_streams(planted, PLANTED, add, &found));
    check_gaps(&found, (const int64_t[]){2, 10}, 2); /* 10→12, 40→50; before 13 and 35 the same stream ended last */
}

static void overlapping_spans_of_a_stream(void **state) {
    static const struct aorta_span spans[] = {SPAN(3, 0, 10), SPAN(3, 8, 20)};
    struct found found = {.count = 0};
    (void)state;
    check_ok(aorta_gaps_on_streams(spans, 2, add, &found));
    check_ok(aorta_gaps_between_streams(spans, 2, add, &found));
    check_gaps(&found, (const int64_t[]){-2}, 1);
}

static void a_span_without_length_does_not_precede_itself(void **state) {
    static const struct aorta_span spans[] = {SPAN(0, 0, 4), SPAN(1, 6, 6)};
    struct found found = {.count = 0};
    (void)state;
    check_ok(aorta_gaps_between_streams(spans, 2, add, &found));
    check_gaps(&found, (const int64_t[]){2}, 1);
    check_ok(aorta_gaps_between_streams(spans, 0, add, &found));
    assert_int_equal(found.count, 1);
}

/* A visitor's failure ends the walk and is returned. */
static aorta_status fail_once(void *user, const struct aorta_span *before, const struct aorta_span *after) {
    (void)before;
    (void)after;
    ++*(int *)user;
    return AORTA_ERROR(AORTA_MEMORY, "full");
}

static void a_visitor_fails(void **state) {
    int visits = 0;
    (void)state;
    check_fails(aorta_gaps_on_streams(planted, PLANTED, fail_once, &visits), AORTA_MEMORY, "full");
    check_fails(aorta_gaps_between_streams(planted, PLANTED, fail_once, &visits), AORTA_MEMORY, "full");
    assert_int_equal(visits, 2);
}

/* work     [----]      [--]        100–200, 300–350
 * work        [----]               150–250
 * host            [-------------]  220–500: alone 250–300, 350–500 */
static void busy_time(void **state) {
    const struct aorta_span spans[] = {SPAN(0, 100, 200),
                                       SPAN(1, 150, 250),
                                       SPAN(0, 300, 350),
                                       {.start_ns = 220, .end_ns = 500, .kind = AORTA_SPAN_HOST},
                                       SPAN(2, 600, 610)};
    struct aorta_span_times times;
    (void)state;
    check_ok(aorta_spans_measure(spans, 5, &times));
    assert_int_equal(times.span_ns, 510);
    assert_int_equal(times.busy_ns, 150 + 50 + 10);
    assert_int_equal(times.host_ns, 50 + 150);
    assert_int_equal(times.idle_ns, 100);
    assert_int_equal(times.sum_ns, 100 + 100 + 50 + 10);
    check_ok(aorta_spans_measure(spans, 0, &times));
    assert_int_equal(times.span_ns + times.busy_ns + times.idle_ns, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gaps_on_streams),
        cmocka_unit_test(gaps_between_streams),
        cmocka_unit_test(overlapping_spans_of_a_stream),
        cmocka_unit_test(a_span_without_length_does_not_precede_itself),
        cmocka_unit_test(a_visitor_fails),
        cmocka_unit_test(busy_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
