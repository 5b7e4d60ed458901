/* Each cause in a run in which it holds and in one in which it does not: the picture, then the numbers. Time goes to
 * the right; `[L]` is a launch, `K` a kernel, `C` a collective, `.` waiting. Costs are the simulator's: 4 us for a
 * launch, 5 us until its kernel begins, 1 us between kernels, 5 us for a call that waits and as much for its return. */
#include "check.h"
#include "replaying.h"
#include "simulator.h"

enum { US = 1000, MS = 1000000 };

/* ---- building and asking ---- */

static int kernel(struct sim *sim, int rank, int stream, int64_t ns, int after) {
    return sim_add(sim, rank, (struct sim_op){.kind = SIM_KERNEL, .stream = stream, .ns = ns, .after = after});
}

static int collective(struct sim *sim, int rank, int stream, int64_t ns, int after, int role) {
    return sim_add(sim, rank,
                   (struct sim_op){.kind = SIM_COLLECTIVE, .stream = stream, .ns = ns, .after = after, .role = role});
}

static void host(struct sim *sim, int rank, enum sim_kind kind, int64_t ns) {
    sim_add(sim, rank, (struct sim_op){.kind = kind, .ns = ns, .after = SIM_NONE});
}

static double longest(const struct sim *sim) {
    double sum = 0;
    for (int r = 0; r < sim->rank_count; r++) sum += (double)sim->end_ns[r];
    return sum / sim->rank_count;
}

static struct aorta_gains gains_of(struct sim *sim) {
    struct sim_recording recording;
    struct aorta_graph graph;
    struct aorta_gains gains;
    sim_run(sim);
    sim_record(sim, &recording);
    check_ok(aorta_graph_make(&recording.recording, &graph));
    check_ok(aorta_graph_finish(&graph));
    sim_recording_free(&recording);
    measure_gains(&graph, &gains);
    aorta_graph_free(&graph);
    assert_true(gains.measured_ns == longest(sim));
    assert_true(gains.replayed_ns == gains.measured_ns);
    return gains;
}

static double truth(const struct sim *sim, enum aorta_removal removal) {
    struct sim other;
    sim_copy(sim, &other);
    sim_remove(&other, removal, 3 * US);
    sim_run(&other);
    double gain = longest(sim) - longest(&other);
    sim_free(&other);
    return gain;
}

static void close_to(double value, double expected, double tolerance) {
    if (value < expected - tolerance || value > expected + tolerance)
        fail_msg("%.0f instead of %.0f ± %.0f", value, expected, tolerance);
}

/* Gain and truth agree to the ns, and are `expected` within a tenth of it or 10 us. */
static struct aorta_gains check_gain(struct sim *sim, enum aorta_removal removal, double expected) {
    struct aorta_gains gains = gains_of(sim);
    double tolerance = expected / 10 > 10 * US ? expected / 10 : 10 * US;
    close_to(gains.gain_ns[removal], truth(sim, removal), 1);
    close_to(gains.gain_ns[removal], expected, tolerance);
    return gains;
}

/* ---- launches ---- */

/* host   [L]--30--[L]--30--[L]--30-- …      34 us each
 * device      KK       KK       KK          10 us each: the device waits. As a graph 100 × 11 us, not 100 × 34. */
static void launches_that_the_device_waits_for(void **unused) {
    (void)unused;
    struct sim sim = {.rank_count = 1, .recorded = true};
    for (int i = 0; i < 100; i++) {
        kernel(&sim, 0, 0, 10 * US, SIM_NONE);
        host(&sim, 0, SIM_OWN, 30 * US);
    }
    check_gain(&sim, AORTA_WITHOUT_HOST_LAUNCH, 99 * 23 * US);
    sim_free(&sim);
}

/* host   [L]--30--[L]--30--[L]     the kernels take 100 us: the host is ahead from the second on, nothing is gained
 * device      KKKKKKKKKKKKKKKKKKKKKKK… */
static void launches_that_the_device_hides(void **unused) {
    (void)unused;
    struct sim sim = {.rank_count = 1, .recorded = true};
    for (int i = 0; i < 100; i++) {
        kernel(&sim, 0, 0, 100 * US, SIM_NONE);
        host(&sim, 0, SIM_OWN, 30 * US);
    }
    check_gain(&sim, AORTA_WITHOUT_HOST_LAUNCH, 0);
    sim_free(&sim);
}

/* stream 0   AA  BB  …   each B depends on the A before it, but the file does not say so, and the host is so slow that
 * stream 1     bb  bb    nothing ever waits. Without launches all of it would still be one chain of 20 × 11 us. */
static void what_the_host_hides_is_not_taken_for_parallel(void **unused) {
    (void)unused;
    struct sim sim = {.rank_count = 1};
    int before = SIM_NONE;
    for (int i = 0; i < 20; i++) {
        before = kernel(&sim, 0, i % 2, 10 * US, before);
        host(&sim, 0, SIM_OWN, 30 * US);
    }
    struct aorta_gains gains = check_gain(&sim, AORTA_WITHOUT_HOST_LAUNCH, 19 * 23 * US);
    assert_true(gains.measured_ns - gains.gain_ns[AORTA_WITHOUT_HOST_LAUNCH] >= 20 * 11 * US);
    sim_free(&sim);
}

/* ---- synchronisation ---- */

/* host   [L][L][ sync     ]--40--[L][L][ sync    ]    Without it the host runs ahead by 20 us a turn.
 * device      KKKKKKKKKKKK             KKKKKKKKKKKK   The kernels' 100 us a turn stay; 62 of 162 go. */
static void waits_take_the_lead_of_the_host_away(void **unused) {
    (void)unused;
    struct sim sim = {.rank_count = 1, .recorded = true};
    for (int i = 0; i < 50; i++) {
        for (int j = 0; j < 2; j++) kernel(&sim, 0, 0, 50 * US, SIM_NONE);
        host(&sim, 0, SIM_SYNC, 0);
        host(&sim, 0, SIM_OWN, 40 * US);
    }
    check_gain(&sim, AORTA_WITHOUT_HOST_SYNC, 49 * 49 * US);
    sim_free(&sim);
}

/* The same where the host needs 200 us of its own for each turn: it would be late without the call as well. */
static void waits_of_a_host_that_is_late_anyhow(void **unused) {
    (void)unused;
    struct sim sim = {.rank_count = 1, .recorded = true};
    for (int i = 0; i < 50; i++) {
        kernel(&sim, 0, 0, 10 * US, SIM_NONE);
        host(&sim, 0, SIM_OWN, 200 * US);
        host(&sim, 0, SIM_SYNC, 0);
    }
    struct aorta_gains gains = check_gain(&sim, AORTA_WITHOUT_HOST_SYNC, 49 * 5 * US); /* the calls themselves */
    assert_true(gains.gain_ns[AORTA_WITHOUT_HOST_SYNC] < 0.03 * gains.measured_ns);
    sim_free(&sim);
}

/* ---- pauses, data, allocation ---- */

/* rank 0   KK C....................CCC    The host of rank 1 pauses for 20 ms: both ranks lose it.
 * rank 1   KK ~~~~~~~~ 20 ms ~~~~~ CCC */
static struct sim two_ranks(enum sim_kind kind, int64_t ns, int64_t lead_ns) {
    struct sim sim = {.rank_count = 2, .recorded = true};
    for (int r = 0; r < 2; r++) {
        for (int i = 0; i < 10; i++) {
            kernel(&sim, r, 0, 50 * US, SIM_NONE);
            host(&sim, r, SIM_OWN, 3 * US);
        }
        kernel(&sim, r, 0, 50 * US + lead_ns, SIM_NONE);
        if (r == 1) host(&sim, r, kind, ns);
        collective(&sim, r, 0, 100 * US, SIM_NONE, AORTA_REPLAY_OTHER);
    }
    return sim;
}

static uint32_t rank_at_fault(struct sim *sim, enum aorta_removal removal) {
    struct sim_recording recording;
    struct aorta_graph graph;
    struct aorta_origin origin;
    sim_run(sim);
    sim_record(sim, &recording);
    check_ok(aorta_graph_make(&recording.recording, &graph));
    check_ok(aorta_graph_finish(&graph));
    find_origin(&graph, removal, &origin);
    assert_int_not_equal(origin.point, AORTA_GRAPH_NONE);
    assert_int_equal(graph.rank[origin.point], origin.rank);
    sim_recording_free(&recording);
    aorta_graph_free(&graph);
    return origin.rank;
}

static const struct {
    enum sim_kind kind;
    enum aorta_removal removal;
} host_causes[] = {
    {SIM_PAUSE, AORTA_WITHOUT_HOST_PAUSE},
    {SIM_DATA, AORTA_WITHOUT_DATA_WAIT},
    {SIM_ALLOCATE, AORTA_WITHOUT_ALLOCATION},
};

static void a_late_host_costs_all_ranks(void **unused) {
    (void)unused;
    for (size_t i = 0; i < sizeof host_causes / sizeof *host_causes; i++) {
        struct sim sim = two_ranks(host_causes[i].kind, 20 * MS, 0);
        struct aorta_gains gains = check_gain(&sim, host_causes[i].removal, 19.5 * MS);
        for (int j = 0; j < AORTA_REMOVAL_COUNT; j++) /* one root, one row */
            if (j != (int)host_causes[i].removal) assert_true(gains.gain_ns[j] < 0.05 * gains.measured_ns);
        assert_int_equal(rank_at_fault(&sim, host_causes[i].removal), 1);
        sim_free(&sim);
    }
}

/* The same where both ranks' devices are busy for 30 ms before the collective: the lead of the host hides all of it. */
static void a_late_host_that_its_lead_hides_costs_nothing(void **unused) {
    (void)unused;
    for (size_t i = 0; i < sizeof host_causes / sizeof *host_causes; i++) {
        struct sim sim = two_ranks(host_causes[i].kind, 20 * MS, 30 * MS);
        check_gain(&sim, host_causes[i].removal, 0);
        sim_free(&sim);
    }
}

/* [L1]~ 9 ms ~[L2]--[L3]~~ 5 ms ~~[L4]~ 3 ms ~[L5]~ 2 ms ~[L6]   Each place has a reason of its own, and a row. */
static void pauses_have_places(void **unused) {
    (void)unused;
    static const int64_t pauses_ms[] = {9, 0, 5, 3, 2};
    struct sim sim = {.rank_count = 1, .recorded = true};
    for (int turn = 0; turn < 4; turn++) {
        for (int i = 0; i < 5; i++) {
            sim_add(&sim, 0, (struct sim_op){.kind = SIM_KERNEL, .ns = 10 * US, .after = SIM_NONE, .place = i + 1});
            host(&sim, 0, SIM_OWN, 3 * US);
            sim_add(&sim, 0, (struct sim_op){.kind = SIM_KERNEL, .ns = 10 * US, .after = SIM_NONE, .place = i + 10});
            host(&sim, 0, pauses_ms[i] ? SIM_PAUSE : SIM_OWN, pauses_ms[i] ? pauses_ms[i] * MS : 3 * US);
        }
        kernel(&sim, 0, 0, 10 * US, SIM_NONE);
    }
    struct aorta_gains gains = gains_of(&sim);
    close_to(gains.gain_ns[AORTA_WITHOUT_HOST_PAUSE], 4 * 9 * MS, 50 * US);
    close_to(gains.gain_ns[AORTA_WITHOUT_HOST_PAUSE_2], 4 * 5 * MS, 50 * US);
    close_to(gains.gain_ns[AORTA_WITHOUT_HOST_PAUSE_3], 4 * 3 * MS, 50 * US);
    close_to(gains.gain_ns[AORTA_WITHOUT_HOST_PAUSE_ELSE], 4 * 2 * MS, 50 * US);
    sim_free(&sim);
}

/* host    [L]-- 300 us --[L]-- 300 us --[L]   An interpreter may take that long from one launch to the next; a host
 * without device     K              K              K   one does something else. */
static void shorter_pauses_of_native_hosts(void **unused) {
    (void)unused;
    enum { TURNS = 20 };
    for (int native = 0; native < 2; native++) {
        struct sim sim = {.rank_count = 1, .recorded = true, .native = native};
        for (int i = 0; i < TURNS; i++) {
            for (int j = 0; j < 3; j++) kernel(&sim, 0, 0, 10 * US, SIM_NONE);
            host(&sim, 0, SIM_PAUSE, 300 * US);
        }
        kernel(&sim, 0, 0, 10 * US, SIM_NONE);
        struct aorta_gains gains = gains_of(&sim);
        close_to(gains.gain_ns[AORTA_WITHOUT_HOST_PAUSE], native ? TURNS * 280 * US : 0, TURNS * 5 * US);
        sim_free(&sim);
    }
}

/* ---- copies ---- */

/* host    [copy ............]--[L]…   A copy that the host waits for, and the kernels after it on its stream.
 * device   >>>>>>>>>>>>>>>>>       KKK */
static void copies_in_the_way(void **unused) {
    (void)unused;
    struct sim sim = {.rank_count = 1, .recorded = true};
    kernel(&sim, 0, 0, 10 * US, SIM_NONE);
    for (int i = 0; i < 10; i++) {
        sim_add(&sim, 0, (struct sim_op){.kind = SIM_COPY_SYNC, .ns = 2 * MS, .after = SIM_NONE});
        kernel(&sim, 0, 0, 300 * US, SIM_NONE);
    }
    check_gain(&sim, AORTA_WITHOUT_COPY, 10 * 2 * MS);
    sim_free(&sim);
}

/* On a stream of its own and waited for by nobody it costs nothing. */
static void copies_beside_compute(void **unused) {
    (void)unused;
    struct sim sim = {.rank_count = 1, .recorded = true};
    for (int i = 0; i < 10; i++) {
        sim_add(&sim, 0, (struct sim_op){.kind = SIM_COPY, .stream = 1, .ns = 200 * US, .after = SIM_NONE});
        kernel(&sim, 0, 0, 300 * US, SIM_NONE);
    }
    check_gain(&sim, AORTA_WITHOUT_COPY, 0);
    sim_free(&sim);
}

/* ---- stragglers ---- */

/* rank 0   KKK C..........CC      Rank 1 runs a kernel that nobody else runs.
 * rank 1   KKK EEEEEEEEEE CC */
static struct sim with_extra(bool on_all) {
    struct sim sim = {.rank_count = 3, .recorded = true};
    for (int i = 0; i < 5; i++) {
        for (int r = 0; r < 3; r++) {
            kernel(&sim, r, 0, 2 * MS, SIM_NONE);
            if (r == 1 || on_all) sim_add(&sim, r, (struct sim_op){.kind = SIM_EXTRA, .ns = 5 * MS, .after = SIM_NONE});
            collective(&sim, r, 0, 100 * US, SIM_NONE, AORTA_REPLAY_OTHER);
        }
    }
    return sim;
}

static void a_rank_that_computes_longer(void **unused) {
    (void)unused;
    struct sim sim = with_extra(false);
    check_gain(&sim, AORTA_WITHOUT_STRAGGLER, 25 * MS);
    assert_int_equal(rank_at_fault(&sim, AORTA_WITHOUT_STRAGGLER), 1);
    sim_free(&sim);
    struct sim even = with_extra(true); /* all of them run it: nobody is late */
    struct aorta_gains gains = gains_of(&even);
    close_to(gains.gain_ns[AORTA_WITHOUT_STRAGGLER], 0, 1);
    sim_free(&even);
}

/* Each rank has its own variant of a kernel, as long as the other's: no rank computes longer. */
static void variants_of_a_kernel_are_no_straggler(void **unused) {
    (void)unused;
    struct sim sim = {.rank_count = 2, .recorded = true};
    for (int i = 0; i < 10; i++) {
        for (int r = 0; r < 2; r++) {
            sim_add(&sim, r, (struct sim_op){.kind = SIM_KERNEL, .ns = 3 * MS, .after = SIM_NONE, .name = r});
            collective(&sim, r, 0, 100 * US, SIM_NONE, AORTA_REPLAY_OTHER);
        }
    }
    close_to(gains_of(&sim).gain_ns[AORTA_WITHOUT_STRAGGLER], 0, 1);
    sim_free(&sim);
}

/* ---- collectives ---- */

/* stream 0   KKKK         KKKK        1 ms of compute, then a collective of 3 ms that would take 1 ms elsewhere
 * stream 1       CCCCCCCCC    CCCC    */
static void collectives_below_their_bandwidth(void **unused) {
    (void)unused;
    for (int hidden = 0; hidden < 2; hidden++) {
        struct sim sim = {.rank_count = 2, .recorded = true};
        for (int r = 0; r < 2; r++) {
            int before = SIM_NONE;
            for (int i = 0; i < 10; i++) {
                int compute = kernel(&sim, r, 0, (hidden ? 9 : 1) * MS, hidden ? SIM_NONE : before);
                before = collective(&sim, r, 1, 3 * MS, hidden ? SIM_NONE : compute, AORTA_REPLAY_OTHER);
                sim.ranks[r].ops[before].best_ns = 1 * MS;
            }
        }
        check_gain(&sim, AORTA_WITHOUT_SLOW_COLLECTIVE, hidden ? 0 : 10 * 2 * MS);
        sim_free(&sim);
    }
}

/* One step of a sharded model: layer i waits for gather i; gather i is asked for after layer i − 1, or, with prefetch,
 * after layer i − 2.
 *   gathers  G0   .   G1   .   G2           with prefetch   G0 G1 .  G2 .  G3
 *   compute     L0      L1      L2                             L0    L1    L2    */
static struct sim layers(bool prefetch) {
    enum { LAYERS = 12 };
    struct sim sim = {.rank_count = 2, .recorded = true};
    for (int r = 0; r < 2; r++) {
        int gather[LAYERS], layer[LAYERS];
        for (int i = 0; i < LAYERS; i++) {
            int lead = prefetch ? 2 : 1;
            gather[i] = collective(&sim, r, 1, 400 * US, i >= lead ? layer[i - lead] : SIM_NONE, AORTA_REPLAY_GATHER);
            if (prefetch && i > 0) layer[i - 1] = kernel(&sim, r, 0, 600 * US, gather[i - 1]);
            if (!prefetch) layer[i] = kernel(&sim, r, 0, 600 * US, gather[i]);
        }
        if (prefetch) kernel(&sim, r, 0, 600 * US, gather[LAYERS - 1]);
    }
    return sim;
}

static void gathers_without_prefetch(void **unused) {
    (void)unused;
    struct sim sim = layers(false), ahead = layers(true);
    struct aorta_gains gains = gains_of(&sim);
    sim_run(&ahead);
    close_to(gains.gain_ns[AORTA_WITHOUT_EXPOSED_COLLECTIVE], longest(&sim) - longest(&ahead), 10 * US);
    close_to(gains.gain_ns[AORTA_WITHOUT_EXPOSED_COLLECTIVE], 11 * 401 * US, 50 * US);
    /* With prefetch only the first gather is exposed, and nothing can hide that. */
    close_to(gains_of(&ahead).gain_ns[AORTA_WITHOUT_EXPOSED_COLLECTIVE], 0, 10 * US);
    sim_free(&sim);
    sim_free(&ahead);
}

/* Gradients: layer i + 1 waits for the reduction of layer i, or of layer i − 1. The last one is waited for by the
 * optimizer, which nothing changes.
 *   compute     L0      L1      L2      opt
 *   reductions     R0  .   R1  .   R2  .      */
static struct sim reductions(bool slack) {
    enum { LAYERS = 12 };
    struct sim sim = {.rank_count = 2, .recorded = true};
    for (int r = 0; r < 2; r++) {
        int reduction[LAYERS];
        for (int i = 0; i < LAYERS; i++) {
            int lead = slack ? 2 : 1;
            int layer = kernel(&sim, r, 0, 600 * US, i >= lead ? reduction[i - lead] : SIM_NONE);
            reduction[i] = collective(&sim, r, 1, 400 * US, layer, AORTA_REPLAY_REDUCE);
        }
        kernel(&sim, r, 0, 200 * US, reduction[LAYERS - 1]);
    }
    return sim;
}

static void reductions_without_slack(void **unused) {
    (void)unused;
    struct sim sim = reductions(false), ahead = reductions(true);
    struct aorta_gains gains = gains_of(&sim);
    sim_run(&ahead);
    close_to(gains.gain_ns[AORTA_WITHOUT_EXPOSED_COLLECTIVE], longest(&sim) - longest(&ahead), 10 * US);
    close_to(gains.gain_ns[AORTA_WITHOUT_EXPOSED_COLLECTIVE], 11 * 401 * US, 50 * US);
    close_to(gains_of(&ahead).gain_ns[AORTA_WITHOUT_EXPOSED_COLLECTIVE], 0, 10 * US);
    sim_free(&sim);
    sim_free(&ahead);
}

/* One reduction of 10 ms at the end, of what was made long before: in pieces, all but the last would be done by then.
 *   compute     L0 L1 L2 …        opt
 *   reductions             RRRRRR     */
static void one_large_reduction(void **unused) {
    (void)unused;
    struct sim sim = {.rank_count = 2, .recorded = true};
    for (int r = 0; r < 2; r++) {
        int layer = SIM_NONE;
        for (int i = 0; i < 10; i++) layer = kernel(&sim, r, 0, 2 * MS, SIM_NONE);
        kernel(&sim, r, 0, 200 * US, collective(&sim, r, 1, 10 * MS, layer, AORTA_REPLAY_REDUCE));
    }
    struct sim_recording recording;
    struct aorta_graph graph;
    struct aorta_gains gains;
    for (int pieces = 0; pieces < 2; pieces++) {
        sim_run(&sim);
        sim_record(&sim, &recording);
        recording.collectives[0].piece_ns = pieces ? 1 * MS : -1;
        check_ok(aorta_graph_make(&recording.recording, &graph));
        check_ok(aorta_graph_finish(&graph));
        measure_gains(&graph, &gains);
        close_to(gains.gain_ns[AORTA_WITHOUT_EXPOSED_COLLECTIVE], pieces ? 9 * MS : 0, 1);
        sim_recording_free(&recording);
        aorta_graph_free(&graph);
    }
    sim_free(&sim);
}

/* A late host makes launches look expensive: with the pause gone, they gain nothing, and their row is a symptom. */
static void a_symptom_gains_nothing_beyond_its_origin(void **unused) {
    (void)unused;
    struct sim sim = {.rank_count = 1, .recorded = true};
    for (int i = 0; i < 400; i++) {
        kernel(&sim, 0, 0, 100 * US, SIM_NONE);
        host(&sim, 0, SIM_OWN, 60 * US);
        if (i == 100) host(&sim, 0, SIM_PAUSE, 30 * MS);
    }
    struct aorta_gains gains = gains_of(&sim);
    assert_int_equal(gains.order[0], AORTA_WITHOUT_HOST_PAUSE);
    assert_true(gains.gain_ns[AORTA_WITHOUT_HOST_LAUNCH] > 3 * MS);
    close_to(gains.beyond_ns[AORTA_WITHOUT_HOST_LAUNCH], 0, 1);
    close_to(gains.beyond_ns[AORTA_WITHOUT_HOST_PAUSE], gains.gain_ns[AORTA_WITHOUT_HOST_PAUSE], 1);
    sim_free(&sim);
}

/* Rank 0 waits 20 ms for rank 1; its product beside the collective that waits takes half as long again as the one of
 * the step before, in which nobody waited. Without the waiting it takes as long as that one. rank 0   KKKK CC   step 1
 * KKKKKK        15 ms instead of 10 C........CC rank 1   KKKK CC            EEEEEEEE KKKK CC                        */
static void waiting_slows_down_what_runs_beside_it(void **unused) {
    (void)unused;
    struct sim sim = {.rank_count = 2, .recorded = true};
    for (int step = 0; step < 2; step++) {
        for (int r = 0; r < 2; r++) {
            int64_t ns = step && r == 0 ? 15 * MS : 10 * MS;
            if (step && r == 1) sim_add(&sim, 1, (struct sim_op){.kind = SIM_EXTRA, .ns = 20 * MS, .after = SIM_NONE});
            struct sim_op product = {.kind = SIM_KERNEL, .ns = ns, .after = SIM_NONE, .step = step};
            struct sim_op meet = {.kind = SIM_COLLECTIVE, .ns = 1 * MS, .after = SIM_NONE, .stream = 1, .step = step};
            if (step == 0) meet.after = sim_add(&sim, r, product);
            int met = sim_add(&sim, r, meet);
            if (step == 0) kernel(&sim, r, 0, 10 * US, met);
            if (step && r == 1) sim.ranks[1].ops[met].after = met - 1;
            if (step) sim_add(&sim, r, product);
        }
    }
    struct aorta_gains gains = gains_of(&sim);
    /* Rank 1 is done 20 ms earlier. Rank 0, which was done with the collective 21 ms after the step began, is with a
     * product of 10 ms then; of 15 ms it would gain 6. */
    close_to(gains.gain_ns[AORTA_WITHOUT_STRAGGLER], (20 + 11) / 2.0 * MS, 20 * US);
    sim_free(&sim);
}

/* queue      KKKKKK CCC KKKKKK CCC    Two streams that share a queue run one after the other,
 * apart      KKKKKKKKKKKKKKKKKK       although nothing of one needs anything of the other. */
static void streams_that_share_a_queue(void **unused) {
    (void)unused;
    for (int shared = 0; shared < 2; shared++) {
        struct sim sim = {.rank_count = 2, .one_queue = shared == 1};
        for (int r = 0; r < 2; r++) {
            for (int i = 0; i < 20; i++) {
                kernel(&sim, r, 0, 900 * US, SIM_NONE);
                collective(&sim, r, 1, 500 * US, SIM_NONE, AORTA_REPLAY_OTHER);
            }
        }
        struct aorta_gains gains = check_gain(&sim, AORTA_WITHOUT_SERIALIZED_STREAMS, shared ? 20 * 500 * US : 0);
        assert_true(gains.unexplained_share < 0.01);
        sim_free(&sim);
    }
}

/* ---- contention ---- */

static void kernels_that_are_slower_beside_collectives(void **unused) {
    (void)unused;
    struct sim sim = {.rank_count = 1, .recorded = true};
    for (int i = 0; i < 20; i++)
        sim_add(&sim, 0,
                (struct sim_op){.kind = SIM_KERNEL, .ns = 500 * US, .best_ns = 400 * US * (i % 2), .after = SIM_NONE});
    check_gain(&sim, AORTA_WITHOUT_CONTENTION, 10 * 100 * US);
    sim_free(&sim);
}

/* ---- what has to be inferred ---- */

/* stream 0  KKKKKK      KKKKKK          The file has no events: that stream 1 waits for stream 0, and stream 0 for
 * stream 1        CCCCC       CCCCC     stream 1, follows from the times. */
static void dependencies_that_the_file_does_not_name(void **unused) {
    (void)unused;
    struct sim sim = {.rank_count = 2};
    for (int r = 0; r < 2; r++) {
        int before = SIM_NONE;
        for (int i = 0; i < 20; i++) {
            int compute = kernel(&sim, r, 0, 700 * US, before);
            before = collective(&sim, r, 1, 300 * US, compute, AORTA_REPLAY_OTHER);
            sim.ranks[r].ops[before].best_ns = 100 * US;
        }
    }
    struct aorta_gains gains = check_gain(&sim, AORTA_WITHOUT_SLOW_COLLECTIVE, 20 * 200 * US);
    assert_true(gains.inferred_share > 0.9);
    assert_true(gains.unexplained_share < 0.01);
    sim_free(&sim);
}

/* thread 0  [L][L]                  [L][L]      A backward pass has a thread of its own, and the first one waits for
 * thread 1         [L][sync][L]…                it. A turn with a synchronisation takes 50 us, one without the 41 of
 * its kernel. */
static void threads_that_wait_for_each_other(void **unused) {
    (void)unused;
    struct sim sim = {.rank_count = 1};
    for (int turn = 0; turn < 6; turn++) {
        for (int i = 0; i < 20; i++) {
            sim_add(&sim, 0, (struct sim_op){.kind = SIM_KERNEL, .ns = 40 * US, .after = SIM_NONE, .thread = turn % 2});
            sim_add(&sim, 0, (struct sim_op){.kind = SIM_OWN, .ns = 30 * US, .after = SIM_NONE});
            if (turn % 2) sim_add(&sim, 0, (struct sim_op){.kind = SIM_SYNC, .after = SIM_NONE, .thread = turn % 2});
        }
    }
    struct aorta_gains gains = check_gain(&sim, AORTA_WITHOUT_HOST_SYNC, 60 * 9 * US);
    assert_true(gains.unexplained_share < 0.01);
    sim_free(&sim);
}

/* The host is 1024 launches ahead and blocks; each launch then takes as long as a kernel. A rank whose kernels are
 * planted longer is late by its device, not by its host, whose launches become quicker with the kernels. */
static void launches_that_find_the_queue_full(void **unused) {
    (void)unused;
    struct sim sim = {.rank_count = 2, .recorded = true};
    for (int i = 0; i < 2500; i++) {
        for (int r = 0; r < 2; r++) {
            kernel(&sim, r, 0, 100 * US, SIM_NONE);
            enum sim_kind kind = r == 1 ? SIM_EXTRA : SIM_OWN;
            sim_add(&sim, r, (struct sim_op){.kind = kind, .ns = r == 1 ? 50 * US : 0, .after = SIM_NONE});
        }
    }
    for (int r = 0; r < 2; r++) collective(&sim, r, 0, 100 * US, SIM_NONE, AORTA_REPLAY_OTHER);
    struct aorta_gains gains = gains_of(&sim);
    close_to(gains.gain_ns[AORTA_WITHOUT_STRAGGLER], truth(&sim, AORTA_WITHOUT_STRAGGLER), 0.01 * gains.measured_ns);
    close_to(gains.gain_ns[AORTA_WITHOUT_HOST_LAUNCH], 0, 10 * US);
    sim_free(&sim);
}

/* ---- the graph itself ---- */

/* Two points that claim to come after each other: one claim is dropped, and the recording is still reproduced. */
static void circles_are_broken(void **unused) {
    (void)unused;
    struct aorta_graph graph;
    struct aorta_graph_rank rank = {.end_ns = 100, .steps = 1};
    struct aorta_replay replay = {0};
    aorta_graph_begin(&graph, &rank, 1);
    uint32_t a = aorta_graph_point(&graph, 10, 0, 0, false), b = aorta_graph_point(&graph, 30, 0, 1, true);
    aorta_graph_edge(&graph, a, b, 20, AORTA_EDGE_KERNEL, false);
    aorta_graph_edge(&graph, b, a, 5, AORTA_EDGE_DEPENDENCY, true);
    check_ok(aorta_graph_finish(&graph));
    assert_int_equal(graph.dropped, 1);
    aorta_replay_run(&graph, 0, &replay);
    assert_true(replay.rank_ns[0] == 30);
    aorta_replay_free(&replay);
    aorta_graph_free(&graph);
}

/* host   [ wait      50|  ]      The wait began 50 ns before the rank's time did: only what it lasts within that time
 * is device           |100   [K]    gained. */
static void nothing_is_gained_before_the_start(void **unused) {
    (void)unused;
    struct aorta_graph graph;
    struct aorta_graph_rank rank = {.start_ns = 50, .end_ns = 130, .steps = 1};
    struct aorta_replay replay = {0};
    aorta_graph_begin(&graph, &rank, 1);
    const uint32_t call = aorta_graph_point(&graph, 0, 0, 0, false),
                   returns = aorta_graph_point(&graph, 70, 0, 1, false),
                   kernel_ends = aorta_graph_point(&graph, 130, 0, 2, true);
    aorta_graph_edge(&graph, call, returns, 70, AORTA_EDGE_CALL_SYNC, false);
    aorta_graph_edge(&graph, returns, kernel_ends, 60, AORTA_EDGE_KERNEL, false);
    check_ok(aorta_graph_finish(&graph));
    aorta_replay_run(&graph, aorta_removal_bit(AORTA_WITHOUT_HOST_SYNC), &replay);
    assert_true(replay.rank_ns[0] == 60);
    aorta_replay_free(&replay);
    aorta_graph_free(&graph);
}

static void nothing_recorded_is_no_failure(void **unused) {
    (void)unused;
    struct aorta_recording recording = {0};
    struct aorta_graph graph;
    struct aorta_gains gains;
    check_ok(aorta_graph_make(&recording, &graph));
    check_ok(aorta_graph_finish(&graph));
    measure_gains(&graph, &gains);
    assert_true(gains.measured_ns == 0 && gains.floor_ns == 0 && gains.path.length_ns == 0);
    aorta_graph_free(&graph);
}

/* host       [L]--- data ---[L] [L]--- data ---[L]   kernels wait for a copy and for the host, which waits for data
 * stream 1    CCCCCCCCCCCCCCC    CCCCCCCCCCCCCCC     as long: without one of them nothing is gained, without both
 * stream 0                    KK                KK   nearly all. That is the gain of the one that is removed second. */
static void two_that_gain_together(void **unused) {
    (void)unused;
    enum { TURNS = 50 };
    struct sim sim = {.rank_count = 1, .recorded = true};
    for (int i = 0; i < TURNS; i++) {
        int copy = sim_add(&sim, 0, (struct sim_op){.kind = SIM_COPY, .stream = 1, .ns = 207 * US, .after = SIM_NONE});
        host(&sim, 0, SIM_DATA, 200 * US);
        kernel(&sim, 0, 0, 50 * US, copy);
    }
    struct aorta_gains gains = gains_of(&sim);
    const double both = gains.beyond_ns[AORTA_WITHOUT_DATA_WAIT] + gains.beyond_ns[AORTA_WITHOUT_COPY];
    close_to(gains.gain_ns[AORTA_WITHOUT_DATA_WAIT], 0, 10 * US);
    close_to(gains.gain_ns[AORTA_WITHOUT_COPY], 0, 10 * US);
    assert_true(both > TURNS * 120 * US);
    close_to(gains.beyond_ns[AORTA_WITHOUT_CONTENTION], 0, 1); /* there is none */
    sim_free(&sim);
}

/* host    [L][sync         ]--- pause ---[L][sync         ]--- pause ---   the pause is what is lost; without the wait
 * device      KKKKKKKKKKKKKK                 KKKKKKKKKKKKKK                   the host would be ahead of it. Both gain
 * all of it: the pause, which is the origin, comes first. */
static void a_pause_behind_a_wait(void **unused) {
    (void)unused;
    enum { TURNS = 30 };
    struct sim sim = {.rank_count = 1, .recorded = true};
    for (int i = 0; i < TURNS; i++) {
        for (int j = 0; j < 4; j++) kernel(&sim, 0, 0, 10000 * US, SIM_NONE);
        host(&sim, 0, SIM_SYNC, SIM_WAIT);
        host(&sim, 0, SIM_PAUSE, 30000 * US);
    }
    struct aorta_gains gains = gains_of(&sim);
    const double lost = (TURNS - 2) * 29000.0 * US;
    assert_true(gains.gain_ns[AORTA_WITHOUT_HOST_SYNC] > lost && gains.gain_ns[AORTA_WITHOUT_HOST_PAUSE] > lost);
    assert_int_equal(gains.order[0], AORTA_WITHOUT_HOST_PAUSE);
    assert_true(gains.beyond_ns[AORTA_WITHOUT_HOST_PAUSE] > lost);
    assert_true(gains.beyond_ns[AORTA_WITHOUT_HOST_SYNC] < 0.1 * lost);
    sim_free(&sim);
}

/* host    [L][sync]--- data ---[L][sync]--- data ---   waiting for data, or allocating, gains what the wait for the
 * device      KKKK                 KKKK                  device does: it comes first, the wait gets what is left. */
static void data_behind_a_wait(void **unused) {
    (void)unused;
    enum { TURNS = 30 };
    static const struct {
        enum sim_kind kind;
        enum aorta_removal removal;
    } rows[] = {{SIM_DATA, AORTA_WITHOUT_DATA_WAIT}, {SIM_ALLOCATE, AORTA_WITHOUT_ALLOCATION}};
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        struct sim sim = {.rank_count = 1, .recorded = true};
        for (int i = 0; i < TURNS; i++) {
            kernel(&sim, 0, 0, 1000 * US, SIM_NONE);
            host(&sim, 0, SIM_SYNC, SIM_WAIT);
            host(&sim, 0, rows[row].kind, 500 * US);
        }
        struct aorta_gains gains = gains_of(&sim);
        const double lost = (TURNS - 2) * 490.0 * US;
        assert_true(gains.gain_ns[AORTA_WITHOUT_HOST_SYNC] > lost && gains.gain_ns[rows[row].removal] > lost);
        assert_int_equal(gains.order[0], rows[row].removal);
        assert_true(gains.beyond_ns[AORTA_WITHOUT_HOST_SYNC] < 0.1 * lost);
        sim_free(&sim);
    }
}

/* The same where processes load beside the host: they are no faster for a host that does not wait for the device, and
 * only without the wait for data is anything gained. */
static void a_loader_beside_sets_the_pace(void **unused) {
    (void)unused;
    enum { TURNS = 30 };
    struct sim sim = {.rank_count = 1, .recorded = true};
    struct sim_recording recording;
    struct aorta_graph graph;
    struct aorta_gains gains;
    for (int i = 0; i < TURNS; i++) {
        kernel(&sim, 0, 0, 1000 * US, SIM_NONE);
        host(&sim, 0, SIM_SYNC, SIM_WAIT);
        host(&sim, 0, SIM_DATA, 1500 * US);
    }
    sim_run(&sim);
    sim_record(&sim, &recording);
    struct aorta_replay_call *calls = recording.ranks[0].calls;
    for (uint32_t i = 0; i < recording.ranks[0].call_count; i++)
        if (calls[i].kind == AORTA_REPLAY_DATA) calls[i].kind = AORTA_REPLAY_BATCH;
    check_ok(aorta_graph_make(&recording.recording, &graph));
    check_ok(aorta_graph_finish(&graph));
    measure_gains(&graph, &gains);
    assert_int_equal(gains.order[0], AORTA_WITHOUT_DATA_WAIT);
    assert_true(gains.gain_ns[AORTA_WITHOUT_DATA_WAIT] > (TURNS - 2) * 1490.0 * US);
    close_to(gains.gain_ns[AORTA_WITHOUT_HOST_SYNC], 0, 1100 * US); /* the last kernel */
    close_to(gains.gain_ns[AORTA_WITHOUT_HOST_LAUNCH], 0, 20 * US);
    aorta_graph_free(&graph);
    sim_recording_free(&recording);
    sim_free(&sim);
}

static struct aorta_gains gains_of_rank(const struct aorta_replay_rank *rank) {
    const struct aorta_recording recording = {.ranks = rank, .rank_count = 1, .name_count = 1};
    struct aorta_graph graph;
    struct aorta_gains gains;
    check_ok(aorta_graph_make(&recording, &graph));
    check_ok(aorta_graph_finish(&graph));
    measure_gains(&graph, &gains);
    aorta_graph_free(&graph);
    return gains;
}

/* host    [L]............[L]............[L]   the host records nothing until the kernel has ended, as where JAX reads a
 * device     KKKKKKKKKK     KKKKKKKKKK        value: a wait without a call. After long waits its threads wake up later.
 * A pause that ends a quarter after the kernel may be the host's own work.
 */
static void wait_without_a_call(int64_t kernel_us, int64_t late_us, bool waits) {
    enum { TURNS = 30 };
    const int64_t TURN = (kernel_us + late_us) * US;
    struct aorta_replay_call calls[TURNS];
    struct aorta_replay_span spans[TURNS];
    for (int i = 0; i < TURNS; i++) {
        const int64_t at = (int64_t)(i + 1) * TURN;
        calls[i] = (struct aorta_replay_call){.start_ns = at, .end_ns = at + 4 * US, .kind = AORTA_REPLAY_LAUNCH};
        spans[i] = (struct aorta_replay_span){.start_ns = at + 9 * US,
                                              .end_ns = at + (kernel_us + 9) * US,
                                              .alone_ns = -1,
                                              .queue = AORTA_GRAPH_NONE,
                                              .communicator = AORTA_GRAPH_NONE,
                                              .launch = (uint32_t)i,
                                              .collective = AORTA_GRAPH_NONE};
    }
    struct aorta_replay_rank rank = {.spans = spans,
                                     .span_count = TURNS,
                                     .stream_count = 1,
                                     .calls = calls,
                                     .call_count = TURNS,
                                     .thread_count = 1,
                                     .bounds = {.end_ns = INT64_MAX, .steps = 1}};
    const struct aorta_gains gains = gains_of_rank(&rank);
    close_to(gains.gain_ns[AORTA_WITHOUT_HOST_PAUSE], waits ? 0 : (TURNS - 1) * (late_us - 1) * US, 1);
    /* the time between the kernel's end and the next launch, and the start */
    close_to(gains.gain_ns[AORTA_WITHOUT_HOST_SYNC], waits ? (TURNS - 1) * (late_us - 5) * US : 0, 5 * TURNS * US);
}

static void a_wait_without_a_call(void **unused) {
    (void)unused;
    wait_without_a_call(2000, 100, true);
    wait_without_a_call(60000, 1000, true);
    wait_without_a_call(24000, 800, true); /* a batch of steps in JAX */
    wait_without_a_call(1200, 400, false);
}

/* A value is read after each kernel. Its copy begins 4 us after the kernel; the next kernel does not need that long:
 *
 *     host    [L][V                        ]---[L][V
 *     device    KKKKKKKKKKKKKKKKKKKK    C         KKKKKK */
static void a_copy_begins_later_than_a_kernel(void **unused) {
    (void)unused;
    enum { TURNS = 50, TURN = 60 * US, KERNEL = 26 * US, COPY = 2 * US, LAG = 4 * US };
    struct aorta_replay_call calls[2 * TURNS];
    struct aorta_replay_span spans[2 * TURNS];
    for (int i = 0; i < TURNS; i++) {
        const int64_t at = (i + 1) * (int64_t)TURN, ended = at + 8 * US + KERNEL;
        const struct aorta_replay_span span = {.start_ns = at + 8 * US,
                                               .end_ns = ended,
                                               .alone_ns = -1,
                                               .queue = AORTA_GRAPH_NONE,
                                               .communicator = AORTA_GRAPH_NONE,
                                               .launch = 2 * (uint32_t)i,
                                               .collective = AORTA_GRAPH_NONE};
        calls[2 * i] = (struct aorta_replay_call){.start_ns = at, .end_ns = at + 3 * US, .kind = AORTA_REPLAY_LAUNCH};
        calls[2 * i + 1] = (struct aorta_replay_call){
            .start_ns = at + 4 * US, .end_ns = ended + LAG + COPY + 6 * US, .kind = AORTA_REPLAY_VALUE};
        spans[2 * i] = spans[2 * i + 1] = span;
        spans[2 * i + 1].start_ns = ended + LAG;
        spans[2 * i + 1].end_ns = ended + LAG + COPY;
        spans[2 * i + 1].launch++;
    }
    struct aorta_replay_rank rank = {.spans = spans,
                                     .span_count = 2 * TURNS,
                                     .stream_count = 1,
                                     .calls = calls,
                                     .call_count = 2 * TURNS,
                                     .thread_count = 1,
                                     .bounds = {.end_ns = INT64_MAX, .steps = 1}};
    const struct aorta_gains gains = gains_of_rank(&rank);
    close_to(gains.gain_ns[AORTA_WITHOUT_HOST_SYNC], (TURNS - 1) * (TURN - KERNEL - LAG - COPY - 1 * US), TURNS * US);
}

/* A start that no edge explains: 300 us between a launch and its kernel, with nothing before it. */
static void lags_without_a_reason_are_counted(void **unused) {
    (void)unused;
    struct aorta_replay_call call = {.end_ns = 4 * US, .kind = AORTA_REPLAY_LAUNCH};
    struct aorta_replay_span span = {.start_ns = 300 * US,
                                     .end_ns = 1000 * US,
                                     .alone_ns = -1,
                                     .queue = AORTA_GRAPH_NONE,
                                     .communicator = AORTA_GRAPH_NONE,
                                     .collective = AORTA_GRAPH_NONE};
    struct aorta_replay_rank rank = {.spans = &span,
                                     .span_count = 1,
                                     .stream_count = 1,
                                     .calls = &call,
                                     .call_count = 1,
                                     .thread_count = 1,
                                     .bounds = {.end_ns = 1000 * US, .steps = 1}};
    const struct aorta_gains gains = gains_of_rank(&rank);
    close_to(gains.unexplained_share, 0.295, 0.001);
}

static void every_removal_has_a_name(void **unused) {
    (void)unused;
    for (int i = 0; i < AORTA_REMOVAL_COUNT; i++) {
        assert_non_null(aorta_removal_cause((enum aorta_removal)i));
        assert_true(strlen(aorta_removal_description((enum aorta_removal)i)) > 10);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launches_that_the_device_waits_for),
        cmocka_unit_test(launches_that_the_device_hides),
        cmocka_unit_test(what_the_host_hides_is_not_taken_for_parallel),
        cmocka_unit_test(waits_take_the_lead_of_the_host_away),
        cmocka_unit_test(waits_of_a_host_that_is_late_anyhow),
        cmocka_unit_test(a_late_host_costs_all_ranks),
        cmocka_unit_test(a_late_host_that_its_lead_hides_costs_nothing),
        cmocka_unit_test(pauses_have_places),
        cmocka_unit_test(shorter_pauses_of_native_hosts),
        cmocka_unit_test(copies_in_the_way),
        cmocka_unit_test(copies_beside_compute),
        cmocka_unit_test(a_rank_that_computes_longer),
        cmocka_unit_test(variants_of_a_kernel_are_no_straggler),
        cmocka_unit_test(collectives_below_their_bandwidth),
        cmocka_unit_test(gathers_without_prefetch),
        cmocka_unit_test(reductions_without_slack),
        cmocka_unit_test(one_large_reduction),
        cmocka_unit_test(a_symptom_gains_nothing_beyond_its_origin),
        cmocka_unit_test(waiting_slows_down_what_runs_beside_it),
        cmocka_unit_test(streams_that_share_a_queue),
        cmocka_unit_test(kernels_that_are_slower_beside_collectives),
        cmocka_unit_test(dependencies_that_the_file_does_not_name),
        cmocka_unit_test(threads_that_wait_for_each_other),
        cmocka_unit_test(launches_that_find_the_queue_full),
        cmocka_unit_test(circles_are_broken),
        cmocka_unit_test(nothing_is_gained_before_the_start),
        cmocka_unit_test(nothing_recorded_is_no_failure),
        cmocka_unit_test(two_that_gain_together),
        cmocka_unit_test(a_pause_behind_a_wait),
        cmocka_unit_test(data_behind_a_wait),
        cmocka_unit_test(a_wait_without_a_call),
        cmocka_unit_test(a_loader_beside_sets_the_pace),
        cmocka_unit_test(a_copy_begins_later_than_a_kernel),
        cmocka_unit_test(lags_without_a_reason_are_counted),
        cmocka_unit_test(every_removal_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
