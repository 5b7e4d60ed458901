/* Steps with other resources: made-up runs are simulated again with the times that the model gives by hand. The link
 * has 10 us and 100 GB/s. Costs of launches and gaps are the simulator's. */
#include "check.h"
#include "replay/whatif.h"
#include "simulator.h"
#include "trace/open.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

enum { US = 1000, MS = 1000000 };

/* ---- made-up runs ---- */

/* all_reduce of 2 ranks: 2 · 10 us + n · 0.01 ns. Two sizes, so that the link can be fitted. */
enum { LARGE = 100000000, SMALL = 10000000 };
static const int64_t sizes[2] = {LARGE, SMALL};
static const struct aorta_link link = {10 * US, 0.01};

struct made {
    int64_t kernel_ns, large_ns, small_ns;
    int64_t late_ns; /* of rank 1's host, before its second kernel */
    int64_t copy_ns; /* before the second kernel */
    bool hidden;     /* the collectives run beside kernels */
};

/* Each of two ranks: kernel, large all_reduce, kernel, small one, kernel. Exposed, each waits for the one before. */
static void make(const struct made *made, struct sim *sim) {
    *sim = (struct sim){.rank_count = 2, .recorded = true};
    for (int rank = 0; rank < 2; rank++) {
        int before = SIM_NONE;
        for (int i = 0; i < 3; i++) {
            if (i == 1 && rank && made->late_ns)
                sim_add(sim, rank, (struct sim_op){.kind = SIM_PAUSE, .ns = made->late_ns, .after = SIM_NONE});
            if (i == 1 && made->copy_ns)
                before = sim_add(sim, rank,
                                 (struct sim_op){.kind = SIM_COPY, .ns = made->copy_ns, .stream = 2, .after = before});
            before = sim_add(sim, rank, (struct sim_op){.kind = SIM_KERNEL, .ns = made->kernel_ns, .after = before});
            if (i == 2) break;
            int collective = sim_add(sim, rank,
                                     (struct sim_op){.kind = SIM_COLLECTIVE,
                                                     .ns = i ? made->small_ns : made->large_ns,
                                                     .stream = 1,
                                                     .after = made->hidden ? SIM_NONE : before,
                                                     .role = AORTA_REPLAY_REDUCE});
            before = made->hidden ? SIM_NONE : collective;
        }
    }
    sim_run(sim);
}

static double step_of(const struct made *made) {
    struct sim sim;
    make(made, &sim);
    double step_ns = (double)(sim.end_ns[0] + sim.end_ns[1]) / 2;
    sim_free(&sim);
    return step_ns;
}

struct run {
    struct aorta_graph graph;
    struct aorta_whatif_collectives collectives;
    struct aorta_whatif whatif;
    double step_ns;
};

/* The n-th collective of a rank is large or small. */
static void find_collectives(const struct sim_recording *recording, struct run *run) {
    const struct aorta_graph *graph = &run->graph;
    struct aorta_whatif_collectives *found = &run->collectives;
    found->items = aorta_arena_raw(&found->memory, (graph->point_count + 1) * sizeof *found->items);
    found->of_point = aorta_arena_raw(&found->memory, (graph->point_count + 1) * sizeof *found->of_point);
    found->ranks = 2;
    for (uint32_t i = 0; i < graph->point_count; i++) {
        found->of_point[i] = AORTA_GRAPH_NONE;
        if (!graph->ends[i] || aorta_subject_kind(graph->subject[i]) != AORTA_SUBJECT_SPAN) continue;
        uint32_t collective = recording->ranks[graph->rank[i]].spans[aorta_subject_row(graph->subject[i])].collective;
        if (collective == AORTA_GRAPH_NONE) continue;
        found->items[found->count] = (struct aorta_whatif_collective){AORTA_ALL_REDUCE, 2, sizes[collective]};
        found->of_point[i] = found->count++;
    }
    assert_int_equal(found->count, 4);
}

static void open_run(const struct made *made, struct run *run) {
    struct sim sim;
    struct sim_recording recording;
    *run = (struct run){.step_ns = step_of(made)};
    make(made, &sim);
    sim_record(&sim, &recording);
    check_ok(aorta_graph_make(&recording.recording, &run->graph));
    check_ok(aorta_graph_finish(&run->graph));
    find_collectives(&recording, run);
    sim_recording_free(&recording);
    sim_free(&sim);
    check_ok(aorta_whatif_begin(&run->graph, &run->collectives, 8, -1, &run->whatif));
    assert_true(run->whatif.measured_ns == run->step_ns);
    assert_true(fabs(run->whatif.fit.link.latency_ns - link.latency_ns) < 1);
    assert_true(fabs(run->whatif.fit.link.ns_per_byte - link.ns_per_byte) < 1e-7);
}

static void close_run(struct run *run) {
    aorta_whatif_collectives_free(&run->collectives);
    aorta_graph_free(&run->graph);
}

static struct aorta_whatif_resources same(const struct aorta_whatif *whatif) {
    return (struct aorta_whatif_resources){whatif->collectives->ranks, whatif->recorded, 1, 1, 0, 0};
}

static struct aorta_whatif_step run_with(const struct run *run, struct aorta_whatif_resources resources) {
    struct aorta_whatif_step step;
    check_ok(aorta_whatif_run(&run->whatif, &resources, &step));
    return step;
}

static void close_to(double value, double expected) {
    if (fabs(value - expected) > 5) fail_msg("%.1f instead of %.1f ns", value, expected);
}

static const struct made two_ranks = {.kernel_ns = 500 * US, .large_ns = 1020 * US, .small_ns = 120 * US};

/* ---- what is replayed ---- */

/* The large one as a ring of 8: 2 · 7 · 10 us + 2 · 7/8 · n · 0.01 ns = 1890 us. The small one as a tree: 2 · 3 · 10 us
 * + 2 · n · 0.01 ns = 260 us, as a ring 315. */
static void eight_ranks_for_two(void **state) {
    (void)state;
    struct made eight = two_ranks;
    struct run run;
    eight.large_ns = 1890 * US;
    eight.small_ns = 260 * US;
    open_run(&two_ranks, &run);
    struct aorta_whatif_resources resources = same(&run.whatif);
    resources.ranks = 8;
    struct aorta_whatif_step step = run_with(&run, resources), before = run_with(&run, same(&run.whatif));
    close_to(step.step_ns, step_of(&eight));
    close_to(before.exposed_ns, 1140 * US);
    close_to(step.exposed_ns, 2150 * US);
    close_to(step.latency_ns, 200 * US);
    close_to(step.transfer_ns, 1950 * US);
    struct aorta_whatif_limit limit;
    check_ok(aorta_whatif_find_limit(&run.whatif, &resources, &limit));
    assert_int_equal(limit.kind, AORTA_ALL_REDUCE);
    close_to(limit.more_ns, step.step_ns - before.step_ns);
    assert_false(limit.latency); /* 850 us of bytes, 160 us of messages */
    close_run(&run);
}

/* 16 ranks in two nodes over 25 GB/s and 100 us: within as with 8 ranks; between 2 · 100 us + n/8 · 0.04 ns. */
static void two_nodes(void **state) {
    (void)state;
    struct made nodes = two_ranks;
    struct run run;
    nodes.large_ns = (1890 + 200 + 500) * US;
    nodes.small_ns = (315 + 200 + 50) * US;
    open_run(&two_ranks, &run);
    struct aorta_whatif_resources resources = same(&run.whatif);
    resources.ranks = 16;
    resources.network.between = (struct aorta_link){100 * US, 0.04};
    close_to(run_with(&run, resources).step_ns, step_of(&nodes));
    close_run(&run);
}

/* Kernels that are 10 ms long hide 8 ranks as they hide 2; of 4096 in nodes of one rank the small one still is hidden.
 */
static void hidden_collectives(void **state) {
    (void)state;
    struct made hidden = two_ranks;
    struct run run;
    hidden.kernel_ns = 10 * MS;
    hidden.hidden = true;
    open_run(&hidden, &run);
    struct aorta_whatif_resources resources = same(&run.whatif);
    resources.ranks = 8;
    struct aorta_whatif_step step = run_with(&run, resources);
    assert_true(step.step_ns == run.step_ns);
    assert_true(step.exposed_ns < 20 * US); /* between two kernels */
    struct aorta_whatif_limit limit;
    check_ok(aorta_whatif_find_limit(&run.whatif, &resources, &limit));
    assert_int_equal(limit.kind, AORTA_COLLECTIVE_COUNT);
    close_run(&run);
}

static void kernels_twice_as_fast(void **state) {
    (void)state;
    struct made fast = two_ranks;
    struct run run;
    fast.kernel_ns /= 2;
    open_run(&two_ranks, &run);
    struct aorta_whatif_resources resources = same(&run.whatif);
    resources.compute = 2;
    close_to(run_with(&run, resources).step_ns, step_of(&fast));
    close_run(&run);
}

/* Copies have a factor of their own. */
static void copies_twice_as_fast(void **state) {
    (void)state;
    struct made copies = two_ranks, fast;
    struct run run;
    copies.copy_ns = 400 * US;
    fast = copies;
    fast.copy_ns /= 2;
    open_run(&copies, &run);
    struct aorta_whatif_resources resources = same(&run.whatif);
    resources.copies = 2;
    close_to(run_with(&run, resources).step_ns, step_of(&fast));
    resources.compute = 2;
    fast.kernel_ns /= 2;
    close_to(run_with(&run, resources).step_ns, step_of(&fast));
    close_run(&run);
}

/* Half the bandwidth, between nodes of one rank: 20 us + n · 0.02 ns. And back. */
static void another_bandwidth(void **state) {
    (void)state;
    struct made slow = two_ranks;
    struct run run;
    slow.large_ns = 2020 * US;
    slow.small_ns = 220 * US;
    open_run(&two_ranks, &run);
    struct aorta_whatif_resources resources = same(&run.whatif);
    resources.network.ranks_per_node = 1;
    close_to(run_with(&run, resources).step_ns, run.step_ns);
    resources.network.between.ns_per_byte *= 2;
    close_to(run_with(&run, resources).step_ns, step_of(&slow));
    close_run(&run);
}

/* A host's pause of 5 ms stays, whatever the link; without its pause the step is the removal's. */
static void without_a_cause(void **state) {
    (void)state;
    struct made late = two_ranks;
    struct run run;
    struct aorta_replay replay = {0};
    late.late_ns = 5 * MS;
    open_run(&late, &run);
    struct aorta_whatif_resources resources = same(&run.whatif);
    for (int i = 0; i < AORTA_REMOVAL_COUNT; i++) {
        resources.removed = aorta_removal_bit((enum aorta_removal)i);
        aorta_replay_run(&run.graph, resources.removed, &replay);
        assert_true(run_with(&run, resources).step_ns == replay.step_ns);
    }
    resources.removed = aorta_removal_bit(AORTA_WITHOUT_HOST_PAUSE);
    assert_true(run_with(&run, resources).step_ns < run.step_ns - 2 * MS);
    resources.removed = 0;
    late.large_ns = 1890 * US;
    late.small_ns = 260 * US;
    resources.ranks = 8;
    close_to(run_with(&run, resources).step_ns, step_of(&late));
    aorta_replay_free(&replay);
    close_run(&run);
}

/* ---- real recordings ---- */

static void check_orders(const struct aorta_whatif *whatif) {
    struct aorta_whatif_step step;
    double before_ns = INFINITY;
    for (int doublings = -2; doublings <= 6; doublings++) {
        struct aorta_whatif_resources resources = same(whatif);
        resources.compute = ldexp(1, doublings);
        check_ok(aorta_whatif_run(whatif, &resources, &step));
        assert_true(step.step_ns <= before_ns);
        before_ns = step.step_ns;
        if (doublings == 0) assert_true(step.step_ns == whatif->measured_ns);
    }
    before_ns = 0;
    for (int ranks = whatif->collectives->ranks; ranks < 1 << 20; ranks *= 2) {
        struct aorta_whatif_resources resources = same(whatif);
        resources.ranks = ranks;
        check_ok(aorta_whatif_run(whatif, &resources, &step));
        assert_true(step.step_ns >= before_ns && step.exposed_ns <= step.comm_ns);
        before_ns = step.step_ns;
    }
    before_ns = 0;
    for (int slower = 1; slower < 1000; slower *= 3) {
        struct aorta_whatif_resources resources = same(whatif);
        resources.ranks = 64;
        resources.network.between.ns_per_byte *= slower;
        resources.network.between.latency_ns *= slower;
        check_ok(aorta_whatif_run(whatif, &resources, &step));
        assert_true(step.step_ns >= before_ns);
        before_ns = step.step_ns;
    }
}

static void recorded_ranks(void **state) {
    (void)state;
    struct aorta_trace_list list = {0};
    struct aorta_trace_analysis analysis;
    struct aorta_trace_graph built;
    struct aorta_whatif_collectives collectives;
    struct aorta_whatif whatif;
    for (int rank = 0; rank < 2; rank++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/fsdp2_rank%d.json.gz", TEST_TRACES, rank);
        check_ok(aorta_trace_open(path, &(struct aorta_trace_options){0}, &list));
    }
    check_ok(aorta_trace_analyze(&list, NULL, &analysis));
    check_ok(aorta_trace_graph_make(&analysis, &built));
    check_ok(aorta_whatif_of_trace(&analysis, &built, &collectives));
    check_ok(aorta_whatif_begin(&built.graph, &collectives, 8, -1, &whatif));
    assert_int_equal(collectives.ranks, 2);
    assert_true(whatif.fit.sizes > 3 && whatif.fit.error < 0.2 && !whatif.waits && !whatif.subgroups);
    assert_true(whatif.fit.link.ns_per_byte > 1 / 450.0 && whatif.fit.link.ns_per_byte < 1 / 100.0); /* NVLink */
    assert_true(whatif.fit.link.latency_ns <= 5700); /* these collectives take 13 us to begin */
    check_orders(&whatif);
    aorta_whatif_collectives_free(&collectives);
    aorta_trace_graph_free(&built);
    aorta_trace_analysis_free(&analysis);
    aorta_trace_list_free(&list);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eight_ranks_for_two),  cmocka_unit_test(two_nodes),
        cmocka_unit_test(hidden_collectives),   cmocka_unit_test(kernels_twice_as_fast),
        cmocka_unit_test(copies_twice_as_fast), cmocka_unit_test(another_bandwidth),
        cmocka_unit_test(without_a_cause),      cmocka_unit_test(recorded_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
