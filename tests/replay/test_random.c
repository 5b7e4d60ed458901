/* Properties of a replay on random programs of which the simulator knows the truth. Dependencies between streams are
 * part of these recordings, and all calls that wait do so for the whole device, so that nothing has to be inferred and
 * every removal is exact. */
#include "check.h"
#include "random.h"
#include "replaying.h"
#include "simulator.h"

enum { PROGRAMS = 300, OWN_NS = 3000, PAUSE_NS = 2000000 };

static bool chance(int percent) {
    return random_between(1, 100) <= percent;
}

/* ---- random programs ---- */

/* How often each thing happens, in percent; a program draws its own. */
struct mix {
    int own, wait, sync, data, allocate, copy, collective, pause, extra;
    int64_t longest_ns; /* of a kernel: short ones wait for the host, long ones let it run ahead */
};

static struct sim_op random_span(const struct mix *mix, int index, const int *spans, int span_count) {
    struct sim_op op = {.kind = SIM_KERNEL, .after = SIM_NONE, .stream = (int)random_between(0, SIM_STREAMS - 1)};
    op.ns = random_between(1000, mix->longest_ns);
    op.name = index % 20;
    if (chance(mix->collective)) {
        op.kind = SIM_COLLECTIVE;
        op.best_ns = op.ns - op.ns / random_between(2, 9);
    } else if (chance(mix->copy)) {
        op.kind = chance(50) ? SIM_COPY : SIM_COPY_SYNC;
    } else if (chance(30)) {
        op.best_ns = op.ns - op.ns / random_between(2, 9);
    }
    if (span_count && chance(mix->wait)) op.after = spans[random_between(0, span_count - 1)];
    return op;
}

static void add_all(struct sim *sim, struct sim_op op) {
    for (int r = 0; r < sim->rank_count; r++) sim_add(sim, r, op);
}

/* All ranks run the same; only what is planted differs, at the same places so that op numbers stay the same: a rank
 * without it has nothing that takes time there. */
static void plant(struct sim *sim, enum sim_kind kind, int64_t ns, int rank) {
    for (int r = 0; r < sim->rank_count; r++) {
        bool here = r == rank || rank == SIM_NONE;
        sim_add(sim, r, (struct sim_op){.kind = here ? kind : SIM_OWN, .ns = here ? ns : 0, .after = SIM_NONE});
    }
}

static void make_program(struct sim *sim, uint64_t seed) {
    int spans[200], span_count = 0;
    random_state = seed;
    *sim = (struct sim){.rank_count = (int)random_between(1, SIM_RANKS), .recorded = true};
    struct mix mix = {(int)random_between(10, 60), (int)random_between(0, 60), (int)random_between(0, 20),
                      (int)random_between(0, 5),   (int)random_between(0, 10), (int)random_between(0, 15),
                      (int)random_between(0, 30),  (int)random_between(0, 5),  (int)random_between(0, 5),
                      random_between(2000, 200000)};
    int late = (int)random_between(0, sim->rank_count - 1);
    if (sim->rank_count == 1) mix.collective = 0; /* of which the waiting would not be known */
    for (int i = 0; i < 120; i++) {
        struct sim_op op = random_span(&mix, i, spans, span_count);
        spans[span_count++] = sim->ranks[0].count;
        add_all(sim, op);
        if (chance(mix.own)) {
            plant(sim, SIM_OWN, OWN_NS, SIM_NONE);
            add_all(sim, (struct sim_op){.kind = SIM_KERNEL, .ns = 1500, .after = SIM_NONE, .name = 30});
        }
        if (chance(mix.sync)) plant(sim, SIM_SYNC, 0, chance(50) ? late : SIM_NONE);
        if (chance(mix.data)) plant(sim, SIM_DATA, random_between(1000, 900000), late);
        if (chance(mix.allocate)) plant(sim, SIM_ALLOCATE, random_between(1000, 300000), SIM_NONE);
        if (chance(mix.extra) && sim->rank_count > 1) plant(sim, SIM_EXTRA, random_between(10000, 900000), late);
        if (chance(mix.pause)) {
            plant(sim, SIM_PAUSE, PAUSE_NS, late);
            add_all(sim, (struct sim_op){.kind = SIM_KERNEL, .ns = 1500, .after = SIM_NONE, .name = 31});
        }
    }
}

/* ---- truth ---- */

static double mean_end(const struct sim *sim) {
    double sum = 0;
    for (int r = 0; r < sim->rank_count; r++) sum += (double)sim->end_ns[r];
    return sum / sim->rank_count;
}

static double truth_without(const struct sim *sim, enum aorta_removal removal) {
    struct sim other;
    sim_copy(sim, &other);
    sim_remove(&other, removal, OWN_NS);
    sim_run(&other);
    double end = mean_end(&other);
    sim_free(&other);
    return end;
}

static void make_graph(const struct sim *sim, struct aorta_graph *graph) {
    struct sim_recording recording;
    sim_record(sim, &recording);
    check_ok(aorta_graph_make(&recording.recording, graph));
    check_ok(aorta_graph_finish(graph));
    sim_recording_free(&recording);
    assert_int_equal(graph->dropped, 0);
}

/* ---- properties ---- */

static void unchanged_replay_is_the_recording(void **unused) {
    (void)unused;
    for (uint64_t seed = 1; seed <= PROGRAMS; seed++) {
        struct sim sim;
        struct aorta_graph graph;
        struct aorta_replay replay = {0};
        make_program(&sim, seed);
        sim_run(&sim);
        make_graph(&sim, &graph);
        aorta_replay_run(&graph, 0, &replay);
        for (uint32_t i = 0; i < graph.point_count; i++) assert_true(replay.point_ns[i] == graph.time_ns[i]);
        for (int r = 0; r < sim.rank_count; r++) assert_true(replay.rank_ns[r] == sim.end_ns[r]);
        aorta_replay_free(&replay);
        aorta_graph_free(&graph);
        sim_free(&sim);
    }
}

/* Everything is recorded here: nothing is inferred, and no lag lacks an explanation. */
static void complete_recordings_leave_nothing_unexplained(void **unused) {
    (void)unused;
    for (uint64_t seed = 1; seed <= PROGRAMS; seed++) {
        struct sim sim;
        struct aorta_graph graph;
        make_program(&sim, seed);
        sim_run(&sim);
        make_graph(&sim, &graph);
        struct aorta_graph_path path = aorta_graph_critical(&graph);
        assert_true(path.length_ns > 0);
        assert_true(path.unexplained_ns == 0);
        assert_true(path.recorded_ns + path.inferred_ns + path.unexplained_ns == path.length_ns);
        aorta_graph_free(&graph);
        sim_free(&sim);
    }
}

/* Removals that a changed program shows the truth of. Prefetch needs another program: test_causes.c. */
static const enum aorta_removal exact[] = {
    AORTA_WITHOUT_HOST_LAUNCH, AORTA_WITHOUT_HOST_SYNC,       AORTA_WITHOUT_HOST_PAUSE,
    AORTA_WITHOUT_DATA_WAIT,   AORTA_WITHOUT_ALLOCATION,      AORTA_WITHOUT_COPY,
    AORTA_WITHOUT_STRAGGLER,   AORTA_WITHOUT_SLOW_COLLECTIVE, AORTA_WITHOUT_CONTENTION,
};

static void every_removal_gives_what_the_program_without_it_does(void **unused) {
    (void)unused;
    size_t positive[AORTA_REMOVAL_COUNT] = {0};
    for (uint64_t seed = 1; seed <= PROGRAMS; seed++) {
        struct sim sim;
        struct aorta_graph graph;
        struct aorta_gains gains;
        make_program(&sim, seed);
        sim_run(&sim);
        make_graph(&sim, &graph);
        measure_gains(&graph, &gains);
        for (size_t i = 0; i < sizeof exact / sizeof *exact; i++) {
            double truth = mean_end(&sim) - truth_without(&sim, exact[i]);
            double error = gains.gain_ns[exact[i]] - truth;
            /* What a rank computes longer by less than a hundredth of the step makes it no straggler. */
            double tolerance = exact[i] == AORTA_WITHOUT_STRAGGLER ? 0.01 * gains.measured_ns : 1;
            if (error < -tolerance || error > tolerance)
                fail_msg("program %llu, without %s: %.0f ns instead of %.0f", (unsigned long long)seed,
                         aorta_removal_cause(exact[i]), gains.gain_ns[exact[i]], truth);
            positive[exact[i]] += truth > 0;
        }
        aorta_graph_free(&graph);
        sim_free(&sim);
    }
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++) assert_true(positive[exact[i]] > PROGRAMS / 20);
}

static void gains_are_never_negative_nor_above_the_step(void **unused) {
    (void)unused;
    for (uint64_t seed = 1; seed <= PROGRAMS; seed++) {
        struct sim sim;
        struct aorta_graph graph;
        struct aorta_gains gains;
        make_program(&sim, seed);
        sim.recorded = seed % 2; /* also where dependencies are inferred */
        sim.one_queue = seed % 3 == 0;
        sim_run(&sim);
        make_graph(&sim, &graph);
        measure_gains(&graph, &gains);
        assert_true(gains.measured_ns == gains.replayed_ns);
        for (int i = 0; i < AORTA_REMOVAL_COUNT; i++)
            assert_true(gains.gain_ns[i] >= 0 && gains.gain_ns[i] <= gains.measured_ns);
        double sum = gains.floor_ns;
        for (int i = 0; i < AORTA_REMOVAL_COUNT; i++) {
            assert_true(gains.beyond_ns[i] >= 0);
            sum += gains.beyond_ns[i];
            /* Before launches, and waits for the device, may come what takes most of their gain. */
            const bool hides = gains.order[i] == AORTA_WITHOUT_HOST_LAUNCH || gains.order[i] == AORTA_WITHOUT_HOST_SYNC;
            if (i) assert_true(gains.gain_ns[gains.order[i - 1]] >= (hides ? 0.5 : 1) * gains.gain_ns[gains.order[i]]);
        }
        assert_true(sum > gains.replayed_ns - 1 && sum < gains.replayed_ns + 1);
        assert_true(gains.floor_ns >= 0 && gains.floor_ns <= gains.measured_ns);
        assert_true(gains.inferred_share >= 0 && gains.inferred_share + gains.unexplained_share <= 1);
        aorta_graph_free(&graph);
        sim_free(&sim);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unchanged_replay_is_the_recording),
        cmocka_unit_test(complete_recordings_leave_nothing_unexplained),
        cmocka_unit_test(every_removal_gives_what_the_program_without_it_does),
        cmocka_unit_test(gains_are_never_negative_nor_above_the_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
