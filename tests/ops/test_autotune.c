/* The choice among several candidates for the same work: by their time in a graph, extra nodes included. */
#include "rig.h"

#include "base/clock.h"
#include "ops/gpu/blas.h"

#include <time.h>

enum { MS = 1000000, MOST = 24 };

/* In place of a library's candidate: it occupies the stream for this long, after a second node that is hidden where
 * nothing is captured. */
struct work {
    int64_t work_ns, extra_ns; /* extra 0: no such node */
    size_t workspace_bytes;
    bool preferred, refused, refused_in_capture, runs_at_once;
};
struct candidates {
    struct rig *rig;
    const struct work *works;
    int queued[MOST], captured[MOST];
};

static int queue(void *context, int which) {
    struct candidates *c = context;
    const struct work *work = &c->works[which];
    const bool capturing = aorta_stream_capturing(c->rig->stream);
    c->queued[which]++;
    c->captured[which] += capturing;
    if (work->refused || (work->refused_in_capture && capturing)) return 15;
    if (work->runs_at_once) {
        if (!capturing) check_ok(aorta_stream_synchronize(c->rig->stream));
        nanosleep(&(struct timespec){.tv_nsec = work->work_ns}, NULL);
        return 0;
    }
    if (capturing && work->extra_ns) check_ok(aorta_spin(c->rig->stream, work->extra_ns, NULL));
    check_ok(aorta_spin(c->rig->stream, work->work_ns, NULL));
    return 0;
}

static int choose(struct rig *rig, const struct work *works, int count, struct aorta_candidate *timings,
                  struct candidates *candidates) {
    *candidates = (struct candidates){.rig = rig, .works = works};
    for (int i = 0; i < count; i++)
        timings[i] =
            (struct aorta_candidate){.workspace_bytes = works[i].workspace_bytes, .preferred = works[i].preferred};
    const struct aorta_memory_info before = aorta_device_memory(rig->device);
    check_ok(aorta_autotune_run(
        &(struct aorta_autotune){.stream = rig->stream, .queue = queue, .context = candidates, .count = count},
        timings));
    assert_int_equal(aorta_device_memory(rig->device).pinned, before.pinned);
    assert_false(aorta_stream_capturing(rig->stream));
    check_ok(aorta_stream_synchronize(rig->stream));
    return aorta_autotune_best(timings, count);
}

/* On a busy machine a measurement may be wrong, but not ten times in a row. */
static void expect(struct rig *rig, const struct work *works, int count, struct aorta_candidate *timings,
                   struct candidates *candidates, int best) {
    int chosen = choose(rig, works, count, timings, candidates);
    for (int i = 0; i < 10 && chosen != best; i++) chosen = choose(rig, works, count, timings, candidates);
    assert_int_equal(chosen, best);
}

/* 1 ms and a node of 2 ms against 2 ms: launched one by one the first would seem faster. */
static void an_extra_node_counts(void **state) {
    static const struct work works[] = {{.work_ns = MS, .extra_ns = 2 * MS, .workspace_bytes = 16},
                                        {.work_ns = 2 * MS}};
    struct aorta_candidate timings[2];
    struct candidates candidates;
    expect(*state, works, 2, timings, &candidates, 1);
    assert_int_equal(timings[0].nodes, 2);
    assert_int_equal(timings[1].nodes, 1);
    assert_true(timings[0].time_ns >= 3 * MS - MS / 10);
    assert_true(candidates.captured[0] > 0 && candidates.captured[1] > 0);
}

static void a_clearly_faster_candidate_may_have_one(void **state) {
    static const struct work works[] = {{.work_ns = 6 * MS, .preferred = true},
                                        {.work_ns = MS, .extra_ns = MS, .workspace_bytes = 16, .preferred = true}};
    struct aorta_candidate timings[2];
    struct candidates candidates;
    expect(*state, works, 2, timings, &candidates, 1);
    assert_int_equal(timings[1].nodes, 2);
}

static void what_is_refused_does_not_run(void **state) {
    static const struct work works[] = {{.work_ns = MS, .refused = true},
                                        {.work_ns = MS, .refused_in_capture = true},
                                        {.work_ns = 3 * MS},
                                        {.work_ns = 9 * MS}};
    struct aorta_candidate timings[4];
    struct candidates candidates;
    expect(*state, works, 4, timings, &candidates, 2);
    assert_true(timings[0].time_ns == INT64_MAX && timings[1].time_ns == INT64_MAX);
    assert_int_equal(candidates.queued[0], 2); /* to guess the length, and to warm up */
    expect(*state, works, 1, timings, &candidates, -1);
}

/* A library whose work cannot be captured: it is refused there, or runs at once instead. */
static void without_graphs_launches_are_timed(void **state) {
    static const struct work refused[] = {{.work_ns = 6 * MS, .preferred = true, .refused_in_capture = true},
                                          {.work_ns = MS, .preferred = true, .refused_in_capture = true}};
    static const struct work at_once[] = {{.work_ns = 6 * MS, .preferred = true, .runs_at_once = true},
                                          {.work_ns = MS, .preferred = true, .runs_at_once = true}};
    const struct work *const both[] = {refused, at_once};
    for (int i = 0; i < 2; i++) {
        struct aorta_candidate timings[2];
        struct candidates candidates;
        expect(*state, both[i], 2, timings, &candidates, 1);
        assert_int_equal(timings[1].nodes, 0);
        assert_true(timings[1].time_ns >= MS - MS / 10 && timings[0].time_ns >= 6 * MS - MS / 10);
    }
}

static bool fast_ones_were_replayed(const struct aorta_candidate *timings, const struct candidates *candidates) {
    for (int i = 0; i < MOST; i += 2)
        if (!candidates->captured[i] || timings[i].time_ns == INT64_MAX) return false;
    return true;
}

/* Slow candidates are launched, but not replayed, unless they are preferred. (On a busy machine work of 1 ms may seem
 * long, and then only preferred ones are measured; but not repeatedly.) */
static void the_slowest_of_many_are_dropped(void **state) {
    struct work works[MOST];
    for (int i = 0; i < MOST; i++) works[i] = (struct work){.work_ns = i % 2 ? 12 * MS : MS};
    works[1].preferred = true;
    works[10].work_ns = MS / 10;
    struct aorta_candidate timings[MOST];
    struct candidates candidates;
    expect(*state, works, MOST, timings, &candidates, 10);
    for (int i = 0; i < 10 && !fast_ones_were_replayed(timings, &candidates); i++)
        expect(*state, works, MOST, timings, &candidates, 10);
    assert_true(fast_ones_were_replayed(timings, &candidates));
    int captured = 0;
    for (int i = 0; i < MOST; i++) {
        assert_true(candidates.queued[i] > 0);
        captured += candidates.captured[i] > 0;
        if (!candidates.captured[i]) assert_true(timings[i].time_ns == INT64_MAX);
    }
    assert_true(candidates.captured[1] > 0 && timings[1].time_ns < INT64_MAX);
    assert_int_equal(captured, 16);
}

/* Work of tens of milliseconds is not repeated within a graph, and only preferred candidates are measured. */
static void long_work_is_run_seldom(void **state) {
    static const struct work works[] = {
        {.work_ns = 30 * MS, .preferred = true}, {.work_ns = 20 * MS, .preferred = true}, {.work_ns = MS}};
    struct aorta_candidate timings[3];
    struct candidates candidates;
    const int64_t begin = aorta_clock_ns();
    expect(*state, works, 3, timings, &candidates, 1);
    assert_int_equal(candidates.captured[0], 1);
    assert_int_equal(candidates.queued[2], 0);
    assert_true(aorta_clock_ns() - begin < 1000 * (int64_t)MS); /* guessed, warm, two rounds: 210 ms */
}

static aorta_status break_down(const void *args) {
    (void)args;
    return AORTA_ERROR(AORTA_IO, "broke down");
}

static aorta_status launch_broken(struct aorta_stream *stream, const void *args) {
    (void)stream;
    return break_down(args);
}

static void a_failed_stream_fails_autotuning(void **state) {
    static const struct aorta_kernel breaking = {.name = "break", .cpu = break_down, .gpu = launch_broken};
    struct rig *rig = *state;
    struct candidates candidates = {.rig = rig};
    struct aorta_candidate timings[AORTA_AUTOTUNE_MOST + 1];
    check_fails(aorta_autotune_run(&(struct aorta_autotune){.stream = rig->stream,
                                                            .queue = queue,
                                                            .context = &candidates,
                                                            .count = AORTA_AUTOTUNE_MOST + 1},
                                   timings),
                AORTA_INTERNAL, "49 candidates");
    static const struct work works[] = {{.work_ns = MS}, {.work_ns = MS}};
    candidates.works = works;
    check_ok(aorta_launch(rig->stream, &breaking, NULL, 0));
    check_fails(aorta_autotune_run(
                    &(struct aorta_autotune){.stream = rig->stream, .queue = queue, .context = &candidates, .count = 2},
                    timings),
                AORTA_IO, "broke down");
}

/* ---- the rule, on figures ---- */

static void within_noise_the_simpler_one(void **state) {
    (void)state;
    static const struct {
        struct aorta_candidate timings[3];
        int best;
    } cases[] = {
        {{{0, false, 1000, 1}, {0, false, 990, 1}, {0, false, 1010, 1}}, 1}, /* all equal: the fastest */
        {{{64, false, 1000, 2}, {64, false, 1010, 1}, {0, false, 1030, 1}},
         1}, /* within 2%: fewer nodes; 3% are too much */
        {{{64, false, 1000, 1}, {0, false, 1018, 1}, {64, false, 999, 1}}, 1},        /* without workspace */
        {{{0, false, 1019, 2}, {64, false, 1015, 1}, {0, false, 1000, 2}}, 1},        /* nodes before workspace */
        {{{64, false, 1000, 2}, {0, false, 1021, 1}, {0, false, INT64_MAX, 0}}, 0},   /* clearly faster */
        {{{0, false, INT64_MAX, 0}, {0, false, INT64_MAX, 0}, {64, false, 5, 3}}, 2}, /* the only one that runs */
        {{{0, false, INT64_MAX, 0}, {0, false, INT64_MAX, 0}, {0, false, INT64_MAX, 0}}, -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(aorta_autotune_best(cases[i].timings, 3), cases[i].best);
    assert_int_equal(aorta_autotune_best(NULL, 0), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        rig_test(an_extra_node_counts),
        rig_test(a_clearly_faster_candidate_may_have_one),
        rig_test(what_is_refused_does_not_run),
        rig_test(without_graphs_launches_are_timed),
        rig_test(the_slowest_of_many_are_dropped),
        rig_test(long_work_is_run_seldom),
        rig_test(a_failed_stream_fails_autotuning),
        cmocka_unit_test(within_noise_the_simpler_one),
    };
    return rig_run_tests("timings", tests);
}
