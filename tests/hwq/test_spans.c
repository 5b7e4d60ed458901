/* Gaps and busy time of planted spans. */
#include "check.h"
#include "hwq/spans.h"
#include "random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SPAN(of, start, end)                                                                                           \
    { .start_ns = (start), .end_ns = (end), .stream = (of) }

struct found {
    int64_t gaps[16];
    size_t count;
};

static void add(void *user, const struct aorta_span *before, const struct aorta_span *after) {
    struct found *found = user;
    assert_true(found->count < sizeof found->gaps / sizeof *found->gaps);
    found->gaps[found->count++] = after->start_ns - before->end_ns;
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

static struct aorta_arena scratch;

static void gaps_on_streams(void **state) {
    struct found found = {.count = 0};
    (void)state;
    aorta_gaps_on_streams(planted, PLANTED, add, &found, &scratch);
    check_gaps(&found, (const int64_t[]){3, 30, 5}, 3); /* 10→13, 20→50; 30→35 */
    aorta_arena_free(&scratch);
}

static void gaps_between_streams(void **state) {
    struct found found = {.count = 0};
    (void)state;
    aorta_gaps_between_streams(planted, PLANTED, add, &found, &scratch);
    check_gaps(&found, (const int64_t[]){2, 10}, 2); /* 10→12, 40→50; before 13 and 35 the same stream ended last */
    aorta_arena_free(&scratch);
}

static void overlapping_spans_of_a_stream(void **state) {
    static const struct aorta_span spans[] = {SPAN(3, 0, 10), SPAN(3, 8, 20)};
    struct found found = {.count = 0};
    (void)state;
    aorta_gaps_on_streams(spans, 2, add, &found, &scratch);
    aorta_gaps_between_streams(spans, 2, add, &found, &scratch);
    check_gaps(&found, (const int64_t[]){-2}, 1);
    aorta_arena_free(&scratch);
}

static void a_span_without_length_does_not_precede_itself(void **state) {
    static const struct aorta_span spans[] = {SPAN(0, 0, 4), SPAN(1, 6, 6)};
    struct found found = {.count = 0};
    (void)state;
    aorta_gaps_between_streams(spans, 2, add, &found, &scratch);
    check_gaps(&found, (const int64_t[]){2}, 1);
    aorta_gaps_between_streams(spans, 0, add, &found, &scratch);
    assert_int_equal(found.count, 1);
    aorta_arena_free(&scratch);
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
    times = aorta_spans_measure(spans, 5, &scratch);
    assert_int_equal(times.span_ns, 510);
    assert_int_equal(times.busy_ns, 150 + 50 + 10);
    assert_int_equal(times.host_ns, 50 + 150);
    assert_int_equal(times.idle_ns, 100);
    assert_int_equal(times.sum_ns, 100 + 100 + 50 + 10);
    times = aorta_spans_measure(spans, 0, &scratch);
    assert_int_equal(times.span_ns + times.busy_ns + times.idle_ns, 0);
    aorta_arena_free(&scratch);
}

/* ---- random spans beside a count of every nanosecond ---- */

enum { LENGTH = 240, MOST = 24, QUEUES = 3 };

/* All starts and ends differ, so that which span is the last one is never open. */
static size_t random_spans(struct aorta_span *spans, bool host) {
    bool taken[LENGTH] = {false};
    size_t count = (size_t)random_between(1, MOST);
    for (size_t i = 0; i < count; i++) {
        int64_t ends[2];
        for (int e = 0; e < 2; e++) {
            do ends[e] = random_between(0, LENGTH - 1);
            while (taken[ends[e]]);
            taken[ends[e]] = true;
        }
        const bool swapped = ends[1] < ends[0];
        spans[i] = (struct aorta_span){.start_ns = ends[swapped],
                                       .end_ns = ends[!swapped],
                                       .stream = random_between(0, 3),
                                       .queue = random_between(0, QUEUES - 1),
                                       .kind = host && !random_between(0, 3) ? AORTA_SPAN_HOST : AORTA_SPAN_KERNEL};
    }
    return count;
}

static int ascending(const void *left, const void *right) {
    const int64_t *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

struct many {
    int64_t gaps[MOST];
    size_t count;
};

static void add_many(void *user, const struct aorta_span *before, const struct aorta_span *after) {
    struct many *many = user;
    assert_true(many->count < MOST);
    many->gaps[many->count++] = after->start_ns - before->end_ns;
}

static void check_equal(struct many *found, struct many *counted) {
    qsort(found->gaps, found->count, sizeof *found->gaps, ascending);
    qsort(counted->gaps, counted->count, sizeof *counted->gaps, ascending);
    assert_int_equal(found->count, counted->count);
    for (size_t i = 0; i < found->count; i++) assert_int_equal(found->gaps[i], counted->gaps[i]);
}

/* The latest start before it on its stream; the latest end before its start on any. */
static void count_gaps(const struct aorta_span *spans, size_t count, struct many *on, struct many *between) {
    *on = *between = (struct many){.count = 0};
    for (size_t i = 0; i < count; i++) {
        const struct aorta_span *former = NULL, *last = NULL;
        for (size_t j = 0; j < count; j++) {
            const struct aorta_span *other = &spans[j];
            if (other->start_ns < spans[i].start_ns && other->stream == spans[i].stream)
                former = former && former->start_ns > other->start_ns ? former : other;
            if (other->end_ns <= spans[i].start_ns) last = last && last->end_ns > other->end_ns ? last : other;
        }
        if (former) add_many(on, former, &spans[i]);
        if (last && last->stream != spans[i].stream) add_many(between, last, &spans[i]);
    }
}

static bool runs_at(const struct aorta_span *span, int64_t time_ns) {
    return span->start_ns <= time_ns && time_ns < span->end_ns;
}

static void count_times(const struct aorta_span *spans, size_t count, struct aorta_span_times *times) {
    int64_t first_ns = LENGTH, last_ns = 0;
    *times = (struct aorta_span_times){0};
    for (size_t i = 0; i < count; i++) {
        if (spans[i].start_ns < first_ns) first_ns = spans[i].start_ns;
        if (spans[i].end_ns > last_ns) last_ns = spans[i].end_ns;
    }
    times->span_ns = last_ns - first_ns;
    for (int64_t t = first_ns; t < last_ns; t++) {
        int work = 0, calls = 0;
        for (size_t i = 0; i < count; i++) {
            work += spans[i].kind != AORTA_SPAN_HOST && runs_at(&spans[i], t);
            calls += spans[i].kind == AORTA_SPAN_HOST && runs_at(&spans[i], t);
        }
        times->sum_ns += work;
        times->busy_ns += work > 0;
        times->host_ns += !work && calls;
        times->idle_ns += !work && !calls;
    }
}

static void random_spans_agree_with_counting(void **state) {
    (void)state;
    random_state = 11;
    for (int round = 0; round < 500; round++) {
        struct aorta_span spans[MOST];
        struct many on, between, found = {.count = 0};
        struct aorta_span_times times, counted;
        const size_t count = random_spans(spans, true);
        count_gaps(spans, count, &on, &between);
        aorta_gaps_on_streams(spans, count, add_many, &found, &scratch);
        check_equal(&found, &on);
        found.count = 0;
        aorta_gaps_between_streams(spans, count, add_many, &found, &scratch);
        check_equal(&found, &between);
        count_times(spans, count, &counted);
        times = aorta_spans_measure(spans, count, &scratch);
        assert_memory_equal(&times, &counted, sizeof times);
    }
    aorta_arena_free(&scratch);
}

static void check_queue(const struct aorta_queue *queue, const struct aorta_span *spans, size_t count) {
    int64_t busy_ns = 0;
    size_t kernels = 0, streams = 0, changes = 0;
    bool used[4] = {false};
    for (int64_t t = 0; t < LENGTH; t++) {
        bool busy = false;
        for (size_t i = 0; i < count; i++) busy |= spans[i].queue == queue->id && runs_at(&spans[i], t);
        busy_ns += busy;
    }
    for (size_t i = 0; i < count; i++) {
        const struct aorta_span *former = NULL;
        if (spans[i].queue != queue->id) continue;
        kernels++;
        used[spans[i].stream] = true;
        for (size_t j = 0; j < count; j++)
            if (spans[j].queue == queue->id && spans[j].start_ns < spans[i].start_ns &&
                (!former || former->start_ns < spans[j].start_ns))
                former = &spans[j];
        changes += former && former->stream != spans[i].stream;
    }
    for (int i = 0; i < 4; i++) streams += used[i];
    assert_int_equal(queue->busy_ns, busy_ns);
    assert_int_equal(queue->kernels, kernels);
    assert_int_equal(queue->streams, streams);
    assert_int_equal(queue->changes, changes);
}

static void random_queues_agree_with_counting(void **state) {
    (void)state;
    random_state = 12;
    for (int round = 0; round < 500; round++) {
        struct aorta_span spans[MOST];
        struct aorta_span_times counted;
        struct aorta_queue_usage queues;
        struct many on, between;
        const size_t count = random_spans(spans, false);
        size_t kernels = 0;
        count_times(spans, count, &counted);
        count_gaps(spans, count, &on, &between);
        check_ok(aorta_queue_usage_measure(spans, count, &queues));
        for (size_t i = 0; i < queues.count; i++) {
            check_queue(&queues.items[i], spans, count);
            kernels += queues.items[i].kernels;
            if (i) assert_true(queues.items[i - 1].kernels >= queues.items[i].kernels);
        }
        assert_int_equal(kernels, count);
        assert_int_equal(queues.span_ns, counted.span_ns);
        assert_int_equal(queues.busy_ns, counted.busy_ns);
        assert_int_equal(queues.intra.ns.count + queues.intra.overlapping, on.count);
        assert_int_equal(queues.inter.ns.count + queues.inter.overlapping, between.count);
        assert_true(fabs(queues.parallel - (double)counted.sum_ns / (double)counted.busy_ns) < 1e-12);
        aorta_queue_usage_free(&queues);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gaps_on_streams),
        cmocka_unit_test(gaps_between_streams),
        cmocka_unit_test(overlapping_spans_of_a_stream),
        cmocka_unit_test(a_span_without_length_does_not_precede_itself),
        cmocka_unit_test(busy_time),
        cmocka_unit_test(random_spans_agree_with_counting),
        cmocka_unit_test(random_queues_agree_with_counting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
