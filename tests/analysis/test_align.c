/* Traces with planted clocks and planted lateness: what alignment must find again. */
#include "analysis/align.h"
#include "check.h"
#include "random.h"

#include <stdlib.h>

enum { MOST_RANKS = 9, COLLECTIVES = 240, NOISE_NS = 2000, PERIOD_NS = 900000 };

/* What a test plants. */
struct plan {
    uint64_t seed;
    size_t ranks;
    bool sequences;             /* the traces number their collectives */
    bool even;                  /* all collectives of one size: order alone does not distinguish them */
    bool outliers;              /* every 20th end is off by 0.3 ms on one rank */
    size_t missing[MOST_RANKS]; /* collectives left out at the start of each rank's trace */
    int64_t clock[MOST_RANKS];  /* own − common */
    size_t lost;                /* the last rank lacks every so manieth collective; 0: none */
    bool chain;                 /* collective c is only between ranks c % (ranks - 1) and the next */
};

struct world {
    struct aorta_trace traces[MOST_RANKS];
    struct aorta_trace_work work[MOST_RANKS][COLLECTIVES * 2];
    struct aorta_trace_collective facts[MOST_RANKS][COLLECTIVES];
    struct aorta_trace_group groups[MOST_RANKS][MOST_RANKS];
    struct aorta_align_rank ranks[MOST_RANKS];
    int last[COLLECTIVES]; /* planted: who comes last, and why */
    bool device_late[COLLECTIVES];
};

static bool takes_part(const struct plan *plan, size_t collective, size_t rank) {
    if (collective < plan->missing[rank]) return false;
    if (plan->lost && rank == plan->ranks - 1 && collective % plan->lost == plan->lost - 1) return false;
    if (!plan->chain) return true;
    size_t left = collective % (plan->ranks - 1);
    return rank == left || rank == left + 1;
}

static void add(struct aorta_trace *trace, int64_t start, int64_t end, uint32_t facts) {
    trace->work[trace->work_count++] = (struct aorta_trace_work){
        .start_ns = start,
        .end_ns = end,
        .bytes = -1,
        .name = AORTA_TRACE_NONE,
        .call = AORTA_TRACE_NONE,
        .collective = facts,
        .kind = AORTA_TRACE_KERNEL,
        .class = facts == AORTA_TRACE_NONE ? AORTA_KERNEL_COMPUTE : AORTA_KERNEL_COLLECTIVE,
    };
}

/* Collective c: all ranks arrive within 20 us but the last, who comes 100 us to 300 us later; before that its device
 * computes (late by its device) or is idle (late by its host). Gaps between collectives vary, as they do. */
static void build(const struct plan *plan, struct world *world) {
    static int32_t members[MOST_RANKS][2];
    random_state = plan->seed;
    memset(world, 0, sizeof *world);
    for (size_t r = 0; r < plan->ranks; r++) {
        world->traces[r] = (struct aorta_trace){.base_ns = INT64_MIN,
                                                .work = world->work[r],
                                                .groups = world->groups[r],
                                                .collectives = world->facts[r],
                                                .group_count = MOST_RANKS};
        world->ranks[r] = (struct aorta_align_rank){(int)r, &world->traces[r], 0};
        members[r][0] = (int32_t)r;
        members[r][1] = (int32_t)r + 1;
        for (size_t g = 0; g < MOST_RANKS; g++)
            world->groups[r][g] = (struct aorta_trace_group){.name = AORTA_TRACE_NONE,
                                                             .description = AORTA_TRACE_NONE,
                                                             .size = 2,
                                                             .ranks = members[g],
                                                             .rank_count = 2};
    }
    int64_t now = 1000000000;
    for (size_t c = 0; c < COLLECTIVES; c++) {
        now += PERIOD_NS + random_between(-150000, 150000);
        size_t from = plan->chain ? c % (plan->ranks - 1) : 0, many = plan->chain ? 2 : plan->ranks;
        int last = (int)(from + random_next() % many);
        int64_t lateness = random_between(100000, 300000), duration = random_between(20000, 60000);
        world->last[c] = last;
        world->device_late[c] = random_next() % 2;
        int64_t bytes = plan->even ? 4096 : (int64_t)(1 << (8 + c % 5));
        for (size_t r = 0; r < plan->ranks; r++) {
            int64_t start = now + random_between(0, 20000),
                    end = now + lateness + duration + random_between(-NOISE_NS, NOISE_NS);
            if ((int)r == last) start = now + lateness;
            if (plan->outliers && c % 20 == 3 && r == 1 % plan->ranks) end += 300000;
            if (!takes_part(plan, c, r)) continue;
            struct aorta_trace *trace = &world->traces[r];
            if ((int)r == last && world->device_late[c])
                add(trace, now - 10000 + plan->clock[r], start - 5000 + plan->clock[r], AORTA_TRACE_NONE);
            trace->collectives[trace->collective_count] =
                (struct aorta_trace_collective){.bytes = bytes,
                                                .sequence = plan->sequences ? (int64_t)c : -1,
                                                .peer = -1,
                                                .kind = AORTA_ALL_REDUCE,
                                                .group = plan->chain ? (uint32_t)from : AORTA_TRACE_NONE,
                                                .group_size = (int32_t)many,
                                                .named = true};
            add(trace, start + plan->clock[r], end + plan->clock[r], (uint32_t)trace->collective_count++);
        }
    }
}

static void check_clocks(const struct plan *plan, const struct aorta_alignment *alignment) {
    int64_t allowed = plan->chain ? NOISE_NS : NOISE_NS / 2; /* errors add up along a chain */
    for (size_t r = 0; r < plan->ranks; r++) {
        int64_t planted = plan->clock[r] - plan->clock[0], found = alignment->clocks[r].shift_ns;
        assert_true(alignment->clocks[r].linked);
        if (llabs(found - planted) > allowed)
            print_error("seed %llu, rank %zu: planted %lld, found %lld\n", (unsigned long long)plan->seed, r,
                        (long long)planted, (long long)found);
        assert_true(llabs(found - planted) <= allowed);
        assert_in_range(alignment->clocks[r].residual_ns, 0, 2 * NOISE_NS);
        assert_true(alignment->clocks[r].shared > 0);
    }
    assert_in_range(alignment->residual_ns, 0, 2 * NOISE_NS);
}

/* Every shared collective names the planted last rank and cause. */
static void check_lateness(const struct plan *plan, const struct world *world,
                           const struct aorta_alignment *alignment) {
    size_t checked = 0;
    for (size_t s = 0; s < alignment->shared_count; s++) {
        const struct aorta_align_shared *shared = &alignment->shared[s];
        if (shared->sequence < 0 || shared->part_count != (plan->chain ? 2 : plan->ranks)) continue;
        int64_t c = shared->sequence;
        assert_int_equal(shared->last_rank, world->last[c]);
        assert_in_range(shared->skew_ns, 75000, 305000);
        assert_true(shared->cause_known);
        assert_int_equal(shared->device_late, world->device_late[c]);
        checked++;
    }
    assert_true(!plan->sequences || checked >= COLLECTIVES / 3);
}

static void run(struct plan plan) {
    static struct world world;
    for (plan.seed = 1; plan.seed <= 20; plan.seed++) {
        random_state = plan.seed * 7919;
        for (size_t r = 0; r < plan.ranks; r++) plan.clock[r] = random_between(-4000000000, 4000000000);
        build(&plan, &world);
        struct aorta_arena memory = {0};
        struct aorta_alignment alignment;
        aorta_align(world.ranks, plan.ranks, AORTA_CLOCKS_OF_TRACES, &memory, &alignment);
        check_ok(aorta_arena_check(&memory, "the ranks"));
        check_clocks(&plan, &alignment);
        check_lateness(&plan, &world, &alignment);
        aorta_arena_free(&memory);
    }
}

static void test_numbered(void **unused) {
    (void)unused;
    for (size_t ranks = 2; ranks <= MOST_RANKS; ranks++) run((struct plan){.ranks = ranks, .sequences = true});
}

static void test_by_order(void **unused) {
    (void)unused;
    run((struct plan){.ranks = 2});
    run((struct plan){.ranks = 8});
}

static void test_outliers(void **unused) {
    (void)unused;
    run((struct plan){.ranks = 4, .sequences = true, .outliers = true});
    run((struct plan){.ranks = 3, .outliers = true});
}

/* Traces that begin at different collectives, without sequence numbers. */
static void test_begins_later(void **unused) {
    (void)unused;
    run((struct plan){.ranks = 3, .missing = {0, 7, 3}});
    run((struct plan){.ranks = 3, .missing = {11, 0, 40}, .even = true});
    run((struct plan){.ranks = 2, .missing = {0, 60}, .even = true, .outliers = true});
    run((struct plan){.ranks = 4, .missing = {5, 0, 9, 30}, .sequences = true});
}

/* A rank lost records. Without numbers its collectives pair by their order, with the wrong ones, whose ends are far
 * apart. With numbers they pair with the right ones. */
static void test_lost_records(void **unused) {
    (void)unused;
    static struct world world;
    struct aorta_arena memory = {0};
    struct aorta_alignment alignment;
    struct plan plan = {.ranks = 2, .even = true, .lost = 12, .seed = 3};
    build(&plan, &world);
    aorta_align(world.ranks, 2, AORTA_CLOCKS_OF_TRACES, &memory, &alignment);
    assert_int_equal(alignment.shared_count, 0);
    assert_true(alignment.mismatch_ns > 250000);
    assert_int_equal(alignment.residual_ns, -1);
    assert_false(alignment.clocks[1].linked);
    assert_int_equal(aorta_alignment_straggler(&alignment), -1);
    check_ok(aorta_arena_check(&memory, "the ranks"));
    aorta_arena_free(&memory);
    run((struct plan){.ranks = 2, .even = true, .lost = 12, .sequences = true});
}

/* Only neighbours share collectives: clocks must be carried from one to the next. */
static void test_chain(void **unused) {
    (void)unused;
    run((struct plan){.ranks = 5, .sequences = true, .chain = true});
    run((struct plan){.ranks = 3, .chain = true});
}

/* Late to every collective, now by its host, now by its device: this rank is the straggler. */
static void test_straggler(void **unused) {
    (void)unused;
    static struct world world;
    struct plan plan = {.ranks = 4, .sequences = true, .seed = 5};
    build(&plan, &world);
    for (size_t i = 0; i < world.traces[2].work_count; i++) {
        struct aorta_trace_work *work = &world.traces[2].work[i];
        if (aorta_trace_is_collective(work)) work->start_ns = work->end_ns - 10000;
    }
    struct aorta_arena memory = {0};
    struct aorta_alignment alignment;
    aorta_align(world.ranks, 4, AORTA_CLOCKS_OF_TRACES, &memory, &alignment);
    assert_int_equal(aorta_alignment_straggler(&alignment), 2);
    assert_true(alignment.clocks[2].late > COLLECTIVES * 9 / 10);
    check_ok(aorta_arena_check(&memory, "the ranks"));
    aorta_arena_free(&memory);
}

/* Two ranks that are late about as often: none is the straggler. */
static void test_late_in_turn(void **unused) {
    (void)unused;
    struct aorta_align_clock clocks[3] = {{.late_ns = 700}, {.late_ns = 1000}, {.late_ns = 100}};
    struct aorta_alignment alignment = {.clocks = clocks, .rank_count = 3};
    assert_int_equal(aorta_alignment_straggler(&alignment), 1);
    clocks[0].late_ns = 900;
    assert_int_equal(aorta_alignment_straggler(&alignment), -1);
    clocks[0].late_ns = 1300;
    assert_int_equal(aorta_alignment_straggler(&alignment), 0);
}

static void test_nothing_shared(void **unused) {
    (void)unused;
    static struct world world;
    struct plan plan = {.ranks = 3, .sequences = true, .seed = 1};
    build(&plan, &world);
    world.traces[0].base_ns = 1000;
    world.traces[1].base_ns = 800;
    world.traces[1].work_count = 0;
    struct aorta_arena memory = {0};
    struct aorta_alignment alignment;
    aorta_align(world.ranks, 3, AORTA_CLOCKS_OF_TRACES, &memory, &alignment);
    assert_false(alignment.clocks[1].linked);
    assert_int_equal(alignment.clocks[1].shift_ns, 200);
    assert_int_equal(alignment.clocks[1].residual_ns, -1);
    assert_true(alignment.clocks[2].linked);
    aorta_arena_free(&memory);
    aorta_align(world.ranks + 1, 1, AORTA_CLOCKS_OF_TRACES, &memory, &alignment);
    assert_int_equal(alignment.residual_ns, -1);
    assert_int_equal(aorta_alignment_straggler(&alignment), -1);
    check_ok(aorta_arena_check(&memory, "the ranks"));
    aorta_arena_free(&memory);
}

/* Collectives of two ranks, all alike and 1 ms apart. Rank 1 has those from `first` to `end`. Its clock is `clock_ns`
 * ahead, which no file says. */
static void expect_lag(size_t first, size_t end, int64_t clock_ns, int64_t shift_ns, size_t shared) {
    static struct world world;
    struct plan plan = {.ranks = 2, .even = true, .seed = 3};
    build(&plan, &world);
    for (size_t r = 0; r < 2; r++) {
        struct aorta_trace *trace = &world.traces[r];
        trace->work_count = 0;
        trace->base_ns = r ? 500 : 0;
        const int64_t ahead_ns = r ? clock_ns : 0;
        for (size_t c = r ? first : 0; c < (r ? end : 100); c++) {
            const int64_t at_ns = (int64_t)c * 1000000 + ahead_ns;
            add(trace, at_ns, at_ns + 50000, (uint32_t)(r ? c - first : c));
        }
    }
    struct aorta_arena memory = {0};
    struct aorta_alignment alignment;
    aorta_align(world.ranks, 2, AORTA_CLOCKS_OF_TRACES, &memory, &alignment);
    assert_int_equal(alignment.clocks[1].shift_ns, shift_ns);
    assert_int_equal(alignment.shared_count, shared);
    check_ok(aorta_arena_check(&memory, "the ranks"));
    aorta_arena_free(&memory);
}

/* A program that repeats itself exactly fits at any lag: the time of day decides. As many collectives on both are the
 * same ones, unless the clocks say exactly that they are not, as those of one host do:
 *
 *   rank 0   0 1 2 3 … 99
 *   rank 1           4 … 103   on the same clock */
static void test_time_of_day_decides(void **unused) {
    (void)unused;
    expect_lag(4, 100, 0, 0, 96);
    expect_lag(4, 104, 0, 0, 96);
    expect_lag(0, 100, 0, 0, 100);
    expect_lag(0, 100, 3400000, 3400000, 100);
}

/* The work of a rank's collective c is so much earlier. */
static void move_earlier(struct aorta_trace *trace, uint32_t c, int64_t ns) {
    for (size_t i = 0; i < trace->work_count; i++) {
        if (trace->work[i].collective != c) continue;
        trace->work[i].start_ns -= ns;
        trace->work[i].end_ns -= ns;
    }
}

/* A broadcast whose root was early is not shared, one that all ranks were in at one time is, and sends have no receive:
 *
 *   c % 6     0            3               1, 4       2, 5
 *   rank 0    broadcast    broadcast       send       all_reduce
 *   rank 1    broadcast        broadcast   send       all_reduce */
static void test_left_out(void **unused) {
    (void)unused;
    enum { EARLIER_NS = 500000 };
    static struct world world;
    struct plan plan = {.ranks = 2, .sequences = true, .seed = 3, .clock = {0, 12345}};
    build(&plan, &world);
    for (size_t c = 0; c < COLLECTIVES; c++)
        for (size_t r = 0; r < 2; r++) {
            if (c % 3 == 0) world.facts[r][c].kind = AORTA_BROADCAST;
            if (c % 6 == 3 && !r) move_earlier(&world.traces[r], (uint32_t)c, EARLIER_NS);
            if (c % 3 == 1) world.facts[r][c].peer = 1 - (int32_t)r;
            world.facts[r][c].name = AORTA_TRACE_NONE; /* sends, of which no other rank has the receive */
        }
    struct aorta_arena memory = {0};
    struct aorta_alignment alignment;
    aorta_align(world.ranks, 2, AORTA_CLOCKS_OF_TRACES, &memory, &alignment);
    assert_int_equal(alignment.shared_count, COLLECTIVES / 3 + COLLECTIVES / 6);
    check_clocks(&plan, &alignment);
    check_lateness(&plan, &world, &alignment);
    check_ok(aorta_arena_check(&memory, "the ranks"));
    aorta_arena_free(&memory);
}

/* Ranks that wait in a broadcast for the last one share it. The root, which left before, does not:
 *
 *   rank 0    #broadcast#                     all_reduce
 *   rank 1        #########broadcast#         all_reduce
 *   rank 2                      #####         all_reduce */
static void test_early_root(void **unused) {
    (void)unused;
    enum { EARLIER_NS = 500000 };
    static struct world world;
    struct plan plan = {.ranks = 3, .sequences = true, .seed = 3, .clock = {0, 12345, -6789}};
    build(&plan, &world);
    for (size_t c = 0; c < COLLECTIVES; c += 2) {
        for (size_t r = 0; r < 3; r++) world.facts[r][c].kind = AORTA_BROADCAST;
        if (world.last[c]) move_earlier(&world.traces[0], (uint32_t)c, EARLIER_NS);
    }
    struct aorta_arena memory = {0};
    struct aorta_alignment alignment;
    aorta_align(world.ranks, 3, AORTA_CLOCKS_OF_TRACES, &memory, &alignment);
    assert_int_equal(alignment.shared_count, COLLECTIVES);
    check_clocks(&plan, &alignment);
    for (size_t i = 0; i < alignment.shared_count; i++) {
        const struct aorta_align_shared *shared = &alignment.shared[i];
        const bool early = shared->sequence % 2 == 0 && world.last[shared->sequence];
        assert_int_equal(shared->left, early);
        assert_int_equal(shared->part_count, 3 - early);
        assert_int_equal(shared->parts[0].rank, early);
        assert_int_equal(shared->last_rank, world.last[shared->sequence]);
        assert_in_range(shared->skew_ns, 75000, 305000);
    }
    check_ok(aorta_arena_check(&memory, "the ranks"));
    aorta_arena_free(&memory);
}

/* Kernels without any facts on two streams of each rank. Their groups:
 *
 *   stream 1   ranks 0 1 | 2 3      ends of the right pair are 3 ms after those of the left one
 *   stream 2   ranks 0 2 | 1 3      ends of ranks 1 and 3 are 0.2 ms after those of ranks 0 and 2 */
static void build_teams(struct world *world, const size_t *missing) {
    const struct plan none = {.ranks = 4};
    build(&none, world);
    for (size_t r = 0; r < 4; r++) world->traces[r].work_count = 0;
    random_state = 11;
    for (size_t c = 0; c < 100; c++) {
        const int64_t now = (int64_t)c * 10000000 + random_between(0, 500000), much = random_between(0, 300000),
                      apart = random_between(0, 2000000);
        for (size_t r = 0; r < 4; r++) {
            struct aorta_trace *trace = &world->traces[r];
            const int64_t ends[2] = {now + 1000000 + (r >= 2 ? 3000000 + 5 * much : 0),
                                     now + 6000000 + apart + (r % 2 ? 200000 + much / 10 : 0)};
            for (uint32_t stream = 0; stream < 2 && c >= missing[r]; stream++) {
                const int64_t start = ends[stream] - random_between(50000, 400000);
                add(trace, start, ends[stream] + random_between(-500, 500), AORTA_TRACE_NONE);
                struct aorta_trace_work *work = &trace->work[trace->work_count - 1];
                work->class = AORTA_KERNEL_COLLECTIVE;
                work->stream = stream;
                work->named = true;
                work->by_name = AORTA_ALL_REDUCE;
            }
        }
    }
}

static void expect_teams(size_t first, size_t ranks, const size_t *missing, const size_t *shared) {
    static struct world world;
    struct aorta_arena memory = {0};
    struct aorta_alignment alignment;
    size_t found[4][4] = {0};
    build_teams(&world, missing);
    aorta_align(world.ranks + first, ranks, AORTA_CLOCKS_OF_TRACES, &memory, &alignment);
    for (size_t i = 0; i < alignment.shared_count; i++) {
        const struct aorta_align_shared *one = &alignment.shared[i];
        assert_int_equal(one->part_count, 2);
        assert_int_equal(one->group_size, 2);
        found[one->parts[0].rank][one->parts[1].rank]++;
    }
    for (size_t i = 0; i < 4; i++)
        for (size_t j = i + 1; j < 4; j++) assert_int_equal(found[i][j], shared[i * 4 + j]);
    assert_in_range(alignment.residual_ns, 0, 1000);
    check_ok(aorta_arena_check(&memory, "the ranks"));
    aorta_arena_free(&memory);
}

static void test_teams(void **unused) {
    (void)unused;
    static const size_t all[4] = {0}, later[4] = {0, 7, 0, 0};
    expect_teams(0, 4, all, (const size_t[16]){0, 100, 100, 0, [4 + 3] = 100, [8 + 3] = 100});
    expect_teams(0, 4, later, (const size_t[16]){0, 93, 100, 0, [4 + 3] = 93, [8 + 3] = 100});
    expect_teams(0, 2, all, (const size_t[16]){0, 100}); /* stream 2 has no partner, and ends nearly together */
    expect_teams(1, 3, all, (const size_t[16]){[2] = 100, [4 + 2] = 100});
}

/* Kernels of one request are one collective: it ends with the last of them. */
static void test_pieces(void **unused) {
    (void)unused;
    static struct world world;
    struct plan plan = {.ranks = 2, .sequences = true, .seed = 3, .clock = {0, 12345}};
    build(&plan, &world);
    for (size_t r = 0; r < 2; r++) {
        struct aorta_trace *trace = &world.traces[r];
        trace->work_count = 0;
        for (size_t c = 0; c < 100; c++)
            for (int piece = 0; piece < 2; piece++) {
                int64_t start = (int64_t)c * 1000000 + piece * 1000 + plan.clock[r];
                add(trace, start, start + 500 + (r && !piece ? 200 : 0), (uint32_t)c);
            }
    }
    struct aorta_arena memory = {0};
    struct aorta_alignment alignment;
    aorta_align(world.ranks, 2, AORTA_CLOCKS_OF_TRACES, &memory, &alignment);
    assert_int_equal(alignment.shared_count, 100);
    assert_int_equal(alignment.clocks[1].shift_ns, 12345);
    assert_int_equal(alignment.p95_ns, 0);
    check_ok(aorta_arena_check(&memory, "the ranks"));
    aorta_arena_free(&memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbered),       cmocka_unit_test(test_by_order),
        cmocka_unit_test(test_outliers),       cmocka_unit_test(test_begins_later),
        cmocka_unit_test(test_lost_records),   cmocka_unit_test(test_chain),
        cmocka_unit_test(test_straggler),      cmocka_unit_test(test_late_in_turn),
        cmocka_unit_test(test_nothing_shared), cmocka_unit_test(test_time_of_day_decides),
        cmocka_unit_test(test_left_out),       cmocka_unit_test(test_early_root),
        cmocka_unit_test(test_pieces),         cmocka_unit_test(test_teams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
