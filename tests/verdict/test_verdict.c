#include "said.h"
#include "samples/measured.h"
#include "samples/profile.h"

#include <stdlib.h>

enum { MS = 1000000 };

/* Iterations of several ranks; freed together. */
struct run {
    struct sample samples[512];
    struct aorta_iteration iterations[512];
    size_t count;
};

static struct run *new_run(void) {
    struct run *run = calloc(1, sizeof *run);
    assert_non_null(run);
    return run;
}

static struct sample *begin(struct run *run, int rank, int64_t step) {
    struct sample *sample = &run->samples[run->count];
    sample_begin(sample, step);
    run->iterations[run->count++] = (struct aorta_iteration){.rank = rank, .step = step, .profile = &sample->profile};
    return sample;
}

static struct aorta_verdict verdict_of(const struct run *run, int warmup) {
    struct sample_recording recording;
    struct aorta_verdict verdict;
    check_ok(sample_analyze(run->iterations, run->count, warmup, NULL, &recording));
    said_make(&recording.analysis, &verdict);
    sample_recording_free(&recording);
    return verdict;
}

static void end(struct run *run, struct aorta_verdict *verdict) {
    aorta_verdict_free(verdict);
    for (size_t i = 0; i < run->count; i++) sample_free(&run->samples[i]);
    free(run);
}

static void expect_cost(const struct aorta_verdict *verdict, enum aorta_cause cause, double ms) {
    const struct aorta_finding *finding = said_finding(verdict, cause);
    double cost = finding ? finding->cost_ms : 0;
    if (fabs(cost - ms) > 1e-9) {
        print_error("%s costs %.9g ms, expected %.9g\n", aorta_cause_name(cause), cost, ms);
        fail();
    }
}

/* The finding's measurement, and a part of what is advised; NULL: anything. */
static void expect_fact(const struct aorta_verdict *verdict, enum aorta_cause cause, enum aorta_fact_key key,
                        double value, const char *advice) {
    const struct aorta_finding *finding = said_finding(verdict, cause);
    said_near(said_value(finding, key), value, 1e-9);
    if (advice) said_expect(said_advice(finding), advice);
}

static void expect_place(const struct aorta_verdict *verdict, enum aorta_cause cause, enum aorta_fact_key key,
                         const char *name) {
    assert_string_equal(said_place(said_finding(verdict, cause), key), name);
}

/* Whatever was recorded: the causes of a rank add up to its step time, and none is negative. */
static void costs_add_up(void **state) {
    (void)state;
    uint64_t random = 4101842887655102017u;
    for (int round = 0; round < 60; round++) {
        struct run *run = new_run();
        int ranks = 1 + (int)sample_random(&random, 3), steps = 1 + (int)sample_random(&random, 20);
        bool own_clock = sample_random(&random, 4) == 0;
        for (int rank = 0; rank < ranks; rank++) {
            int64_t previous = INT64_MIN;
            for (int step = 0; step < steps; step++) {
                struct sample *sample = begin(run, rank, step);
                sample_fill_random(sample, &random, 1 + (int)sample_random(&random, 40), own_clock ? 0 : step * 500,
                                   300);
                sample->profile.own_clock = own_clock;
                sample_done(sample, own_clock ? INT64_MIN : previous);
                previous = sample->profile.end_ns;
            }
        }
        struct aorta_verdict verdict = verdict_of(run, (int)sample_random(&random, (uint64_t)steps));
        assert_int_equal(verdict.rank_count, ranks);
        double sum = 0;
        for (size_t i = 0; i < verdict.rank_count; i++) {
            const struct aorta_rank_costs *costs = &verdict.ranks[i];
            int64_t all = 0;
            for (int cause = 0; cause < AORTA_CAUSE_COUNT; cause++) {
                assert_true(costs->cause_ns[cause] >= 0);
                all += costs->cause_ns[cause];
                int64_t kinds = 0;
                for (int kind = 0; kind < AORTA_COLLECTIVE_COUNT; kind++) {
                    assert_true(costs->collective_ns[cause][kind] >= 0);
                    kinds += costs->collective_ns[cause][kind];
                }
                if (cause >= AORTA_CAUSE_STRAGGLER && cause <= AORTA_CAUSE_EXPOSED_COLLECTIVE)
                    assert_int_equal(kinds, costs->cause_ns[cause]);
            }
            assert_int_equal(all, costs->step_ns);
            assert_int_equal(costs->iterations + verdict.warmup, steps);
        }
        for (size_t i = 0; i < verdict.finding_count; i++) {
            sum += verdict.findings[i].cost_ms;
            if (i && !verdict.replay.known) /* else by what they gain */
                assert_true(verdict.findings[i].cost_ms <= verdict.findings[i - 1].cost_ms);
        }
        assert_true(fabs(sum - verdict.step_ms_mean) <= 1e-9 * (1 + sum));
        end(run, &verdict);
    }
}

static void host_causes(void **state) {
    (void)state;
    struct run *run = new_run();
    for (int step = 0; step < 3; step++) {
        int64_t t = step * 100 * MS;
        struct sample *sample = begin(run, 0, step);
        sample_compute(sample, t, t + 10 * MS, t);
        sample_compute(sample, t + 20 * MS, t + 50 * MS, t + 19 * MS)->info.function = "adamw"; /* 9 late, 1 latency */
        sample_copy(sample, t + 50 * MS, t + 52 * MS, t + 20 * MS);
        sample_host(sample, AORTA_HOST_SYNC, t + 12 * MS, t + 15 * MS);
        sample_host(sample, AORTA_HOST_DATA_WAIT, t - 40 * MS, t - 4 * MS);
        sample_done(sample, step ? t - 48 * MS : INT64_MIN);
    }
    struct aorta_verdict verdict = verdict_of(run, 1);
    assert_int_equal(verdict.iterations, 2);
    assert_true(fabs(verdict.step_ms_mean - 100) < 1e-9);
    assert_true(fabs(verdict.step_ms_p50 - 100) < 1e-9);
    expect_cost(&verdict, AORTA_CAUSE_DATA_WAIT, 36);
    expect_cost(&verdict, AORTA_CAUSE_HOST_SYNC, 3);
    expect_cost(&verdict, AORTA_CAUSE_HOST_LAUNCH, 48 - 36 + 10 - 3 - 1);
    expect_cost(&verdict, AORTA_CAUSE_LAUNCH_LATENCY, 1);
    expect_cost(&verdict, AORTA_CAUSE_COPY, 2);
    expect_cost(&verdict, AORTA_CAUSE_COMPUTE, 40);
    expect_fact(&verdict, AORTA_CAUSE_DATA_WAIT, AORTA_FACT_IDLE_DATA, 36, "dataloader.num_workers");
    expect_fact(&verdict, AORTA_CAUSE_HOST_SYNC, AORTA_FACT_IDLE_SYNCED, 3, "more work per step (batch size");
    expect_fact(&verdict, AORTA_CAUSE_HOST_LAUNCH, AORTA_FACT_IDLE_UNQUEUED, 18, "compile.enabled=true");
    expect_place(&verdict, AORTA_CAUSE_HOST_LAUNCH, AORTA_FACT_GAP, "adamw");
    expect_fact(&verdict, AORTA_CAUSE_LAUNCH_LATENCY, AORTA_FACT_IDLE_STARTED, 1, "compile.enabled=true");
    expect_fact(&verdict, AORTA_CAUSE_COPY, AORTA_FACT_COPY_ALONE, 2, "dataloader.pin_memory");
    assert_false(said_has(said_finding(&verdict, AORTA_CAUSE_LAUNCH_LATENCY), AORTA_FACT_GRAPH_GAPS));
    assert_true(isnan(verdict.overlap_ratio));
    end(run, &verdict);
}

/* The host waits at the end of each step, or also twice within it. */
static void waits_within_steps_are_counted(void **state) {
    (void)state;
    for (int within = 0; within <= 2; within += 2) {
        struct run *run = new_run();
        for (int step = 0; step < 3; step++) {
            const int64_t t = step * 100 * MS;
            struct sample *sample = begin(run, 0, step);
            sample_compute(sample, t, t + 10 * MS, t);
            sample_compute(sample, t + 20 * MS, t + 50 * MS, t + 19 * MS);
            for (int i = 0; i < within; i++)
                sample_host(sample, AORTA_HOST_SYNC, t + (12 + 2 * i) * MS, t + (13 + 2 * i) * MS);
            sample_host(sample, AORTA_HOST_SYNC, t + 51 * MS, t + 52 * MS);
            sample_done(sample, step ? t - 50 * MS : INT64_MIN);
        }
        struct aorta_verdict verdict = verdict_of(run, 1);
        const struct aorta_finding *waits = said_finding(&verdict, AORTA_CAUSE_HOST_SYNC);
        assert_int_equal(said_has(waits, AORTA_FACT_WAITS), within > 0);
        if (within) expect_fact(&verdict, AORTA_CAUSE_HOST_SYNC, AORTA_FACT_WAITS, 3, "no waits within the step");
        end(run, &verdict);
    }
}

/* A graph's operations are launched as one: what is lost between them is not the host's, nor helped by a graph. */
static void a_graph_has_no_late_launches(void **state) {
    (void)state;
    struct run *run = new_run();
    for (int step = 0; step < 3; step++) {
        const int64_t t = step * 100 * MS;
        struct sample *sample = begin(run, 0, step);
        for (int i = 0; i < 5; i++) sample_compute(sample, t + 20 * i * MS, t + (20 * i + 18) * MS, t - MS);
        sample_done(sample, INT64_MIN);
    }
    struct aorta_verdict verdict = verdict_of(run, 0);
    expect_cost(&verdict, AORTA_CAUSE_HOST_LAUNCH, 0);
    expect_cost(&verdict, AORTA_CAUSE_LAUNCH_LATENCY, 8);
    const struct aorta_finding *latency = said_finding(&verdict, AORTA_CAUSE_LAUNCH_LATENCY);
    expect_fact(&verdict, AORTA_CAUSE_LAUNCH_LATENCY, AORTA_FACT_IDLE_STARTED, 8, "batch size");
    assert_true(said_has(latency, AORTA_FACT_GRAPH_GAPS));
    assert_null(strstr(said_advice(latency), "compile.enabled"));
    end(run, &verdict);
}

/* Three steps of one rank, each four operations; of a graph: launched at once. */
static struct run *run_of_compute(bool on_gpu, enum aorta_profile_source source, bool graph) {
    struct run *run = new_run();
    for (int step = 0; step < 3; step++) {
        const int64_t t = step * 80 * MS;
        struct sample *sample = begin(run, 0, step);
        sample->profile.source = source;
        run->iterations[step].on_gpu = on_gpu;
        for (int i = 0; i < 4; i++)
            sample_compute(sample, t + 20 * i * MS, t + 20 * (i + 1) * MS, t - (graph ? 9 : 9 - i) * MS);
        sample_done(sample, INT64_MIN);
    }
    return run;
}

/* What a range holds between kernels that are launched one by one is nobody's operation, and the verdict says so. */
static void gaps_are_not_operations(void **state) {
    (void)state;
    static const struct {
        bool on_gpu;
        enum aorta_profile_source source;
        bool graph, gaps;
    } rows[] = {{true, AORTA_SOURCE_RANGE, false, true},
                {true, AORTA_SOURCE_RANGE, true, false},
                {true, AORTA_SOURCE_KERNEL, false, false},
                {false, AORTA_SOURCE_RANGE, false, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct run *run = run_of_compute(rows[i].on_gpu, rows[i].source, rows[i].graph);
        struct aorta_verdict verdict = verdict_of(run, 0);
        const struct aorta_finding *compute = said_finding(&verdict, AORTA_CAUSE_COMPUTE);
        assert_int_equal(verdict.gaps, rows[i].gaps);
        said_expect(said_words(&verdict), rows[i].gaps ? "Verdict: at most 100% of the step is compute, gaps between "
                                                         "kernels included; --kernel-timing separates them"
                                                       : "Verdict: compute-bound: 100% of the step is compute");
        expect_fact(&verdict, AORTA_CAUSE_COMPUTE, AORTA_FACT_COMPUTE, 80,
                    rows[i].gaps ? "compile.enabled=true" : NULL);
        assert_int_equal(said_has(compute, AORTA_FACT_GAPS), rows[i].gaps);
        assert_int_equal(strstr(said_evidence(&verdict, compute), "an upper bound") != NULL, rows[i].gaps);
        end(run, &verdict);
    }
}

/* Rank 1 comes 6 ms late, first because its device still computes, then because its host was late. */
static void add_pair(struct run *run, int64_t step, int64_t offset, bool host_late) {
    int64_t t = step * 100 * MS;
    struct sample *early = begin(run, 0, step);
    sample_compute(early, t, t + 20 * MS, t);
    sample_collective(early, AORTA_ALL_REDUCE, t + 20 * MS, t + 30 * MS, t + 5 * MS);
    sample_compute(early, t + 30 * MS, t + 40 * MS, t + 5 * MS);
    sample_done(early, INT64_MIN);
    struct sample *late = begin(run, 1, step);
    t += offset;
    sample_compute(late, t, t + (host_late ? 20 : 26) * MS, t);
    sample_collective(late, AORTA_ALL_REDUCE, t + 26 * MS, t + 30 * MS, t + (host_late ? 26 : 5) * MS);
    sample_compute(late, t + 30 * MS, t + 40 * MS, t + 5 * MS);
    sample_done(late, INT64_MIN);
}

static void straggler(bool host_late, int64_t offset, const char *advice) {
    struct run *run = new_run();
    for (int step = 0; step < 5; step++) add_pair(run, step, offset, host_late);
    struct aorta_verdict verdict = verdict_of(run, 0);
    assert_int_equal(verdict.common_clock, offset == 0);
    expect_cost(&verdict, AORTA_CAUSE_STRAGGLER, 3); /* 6 on rank 0, none on rank 1 */
    expect_cost(&verdict, AORTA_CAUSE_EXPOSED_COLLECTIVE, 4);
    assert_int_equal(said_finding(&verdict, AORTA_CAUSE_STRAGGLER)->rank, 1);
    const struct aorta_finding *late = said_finding(&verdict, AORTA_CAUSE_STRAGGLER);
    expect_fact(&verdict, AORTA_CAUSE_STRAGGLER, AORTA_FACT_WAITED, 3, advice);
    expect_fact(&verdict, AORTA_CAUSE_STRAGGLER, AORTA_FACT_WAITED_MOST, 6, NULL);
    expect_fact(&verdict, AORTA_CAUSE_STRAGGLER, AORTA_FACT_LATE_SHARE, 1, NULL);
    assert_int_equal(said_has(late, AORTA_FACT_LATE_HOST), host_late);
    assert_int_equal(said_has(late, AORTA_FACT_LATE_DEVICE), !host_late);
    assert_int_equal(said_has(late, AORTA_FACT_ALIGNED), offset != 0);
    assert_int_equal(verdict.ranks[0].cause_ns[AORTA_CAUSE_STRAGGLER], 5 * 6 * (int64_t)MS);
    assert_int_equal(verdict.ranks[1].cause_ns[AORTA_CAUSE_STRAGGLER], 0);
    assert_int_equal(verdict.ranks[1].cause_ns[AORTA_CAUSE_HOST_LAUNCH], host_late ? 5 * 6 * (int64_t)MS : 0);
    end(run, &verdict);
}

static void straggler_device(void **state) {
    (void)state;
    straggler(false, 0, "device of rank 1");
}

static void straggler_host(void **state) {
    (void)state;
    straggler(true, 0, "host of rank 1");
}

/* The clock of rank 1 is three hours ahead: the ends of the collectives align it. */
static void straggler_on_another_clock(void **state) {
    (void)state;
    straggler(false, 3 * 3600 * 1000 * (int64_t)MS, "device of rank 1");
}

/* Four ranks on two hosts, the clock of the second three hours ahead. Ranks 2 i and 2 i + 1 gather, i and i + 2 sum,
 * for which rank 3 comes 6 ms late. */
static void add_hosts(struct run *run, int64_t step) {
    for (int rank = 0; rank < 4; rank++) {
        struct sample *sample = begin(run, rank, step);
        const int64_t t = step * 100 * MS + (rank < 2 ? 0 : 3 * 3600 * 1000 * (int64_t)MS);
        const int64_t late = rank == 3 ? 6 * MS : 0, waits = rank % 2 ? 6 * MS : 0;
        for (int i = 0; i < 3; i++)
            sample_collective(sample, AORTA_ALL_GATHER, t + i * 2 * MS, t + (i * 2 + 1) * MS, t)->info.group =
                rank / 2 * 2;
        sample_compute(sample, t + 6 * MS, t + 10 * MS + late, t);
        struct aorta_range *sum =
            sample_collective(sample, AORTA_ALL_REDUCE, t + 10 * MS + late, t + 14 * MS + waits, t);
        sum->info.group = rank % 2, sum->info.group_stride = 2;
        sample_done(sample, INT64_MIN);
    }
}

static void straggler_on_another_host(void **state) {
    (void)state;
    struct run *run = new_run();
    for (int step = 0; step < 5; step++) add_hosts(run, step);
    struct aorta_verdict verdict = verdict_of(run, 0);
    assert_false(verdict.common_clock);
    expect_cost(&verdict, AORTA_CAUSE_STRAGGLER, 6.0 / 4); /* of rank 1 */
    assert_int_equal(verdict.ranks[1].cause_ns[AORTA_CAUSE_STRAGGLER], 5 * 6 * (int64_t)MS);
    assert_int_equal(said_finding(&verdict, AORTA_CAUSE_STRAGGLER)->rank, 3);
    end(run, &verdict);
}

/* Times count from each rank's own start, and rank 1 began 6 ms later: same collective, same wait. */
static void straggler_without_clock(void **state) {
    (void)state;
    struct run *run = new_run();
    for (int step = 0; step < 3; step++) {
        for (int rank = 0; rank < 2; rank++) {
            struct sample *sample = begin(run, rank, step);
            sample->profile.own_clock = true;
            int64_t wait = rank ? 0 : 6 * MS;
            sample_compute(sample, 0, 20 * MS, INT64_MIN);
            sample_collective(sample, AORTA_ALL_REDUCE, 20 * MS, 24 * MS + wait, INT64_MIN);
            sample_done(sample, INT64_MIN);
        }
    }
    struct aorta_verdict verdict = verdict_of(run, 0);
    assert_false(verdict.common_clock);
    expect_cost(&verdict, AORTA_CAUSE_STRAGGLER, 3);
    expect_cost(&verdict, AORTA_CAUSE_EXPOSED_COLLECTIVE, 4);
    end(run, &verdict);
}

/* Groups of one size are different groups: {0, 1} and {2, 3} do not wait for each other. */
static void groups_do_not_mix(void **state) {
    (void)state;
    struct run *run = new_run();
    for (int rank = 0; rank < 4; rank++) {
        struct sample *sample = begin(run, rank, 0);
        int64_t start = rank < 2 ? 10 : 50;
        sample_compute(sample, 0, start * MS, 0);
        sample_collective(sample, AORTA_ALL_REDUCE, start * MS, 60 * MS, 0)->info.group = rank / 2 * 2;
        sample_done(sample, INT64_MIN);
    }
    struct aorta_verdict verdict = verdict_of(run, 0);
    expect_cost(&verdict, AORTA_CAUSE_STRAGGLER, 0);
    expect_cost(&verdict, AORTA_CAUSE_EXPOSED_COLLECTIVE, 30);
    end(run, &verdict);
}

/* Nor do {0, 1} and {0, 2}, though their lowest rank is the same. */
static void strides_do_not_mix(void **state) {
    (void)state;
    struct run *run = new_run();
    for (int rank = 0; rank < 4; rank++) {
        struct sample *sample = begin(run, rank, 0);
        sample_compute(sample, 0, 10 * MS, 0);
        struct aorta_range *across = sample_collective(sample, AORTA_ALL_REDUCE, 10 * MS, 20 * MS, 0);
        across->info.group = rank % 2, across->info.group_stride = 2;
        sample_compute(sample, 20 * MS, 30 * MS, 0);
        struct aorta_range *beside = sample_collective(sample, AORTA_ALL_REDUCE, 30 * MS, 40 * MS, 0);
        beside->info.group = rank / 2 * 2, beside->sequence = 0; /* the first of its group */
        sample_done(sample, INT64_MIN);
    }
    struct aorta_verdict verdict = verdict_of(run, 0);
    expect_cost(&verdict, AORTA_CAUSE_STRAGGLER, 0);
    expect_cost(&verdict, AORTA_CAUSE_EXPOSED_COLLECTIVE, 20);
    end(run, &verdict);
}

/* Each cause says where the device was idle. */
static void where_idle(void **state) {
    (void)state;
    struct run *run = new_run();
    struct sample *sample = begin(run, 0, 0);
    sample_compute(sample, 0, 10 * MS, 0);
    sample_compute(sample, 20 * MS, 30 * MS, 10 * MS)->info.function = "started_late";
    sample_compute(sample, 33 * MS, 40 * MS, 33 * MS)->info.function = "launched_late";
    sample_compute(sample, 60 * MS, 70 * MS, 60 * MS)->info.function = "without_data"; /* for 1 ms of its own */
    sample_host(sample, AORTA_HOST_DATA_WAIT, 39 * MS, 59 * MS);
    sample_done(sample, INT64_MIN);
    struct aorta_verdict verdict = verdict_of(run, 0);
    expect_cost(&verdict, AORTA_CAUSE_HOST_LAUNCH, 4);
    expect_cost(&verdict, AORTA_CAUSE_LAUNCH_LATENCY, 10);
    expect_cost(&verdict, AORTA_CAUSE_DATA_WAIT, 19);
    expect_place(&verdict, AORTA_CAUSE_HOST_LAUNCH, AORTA_FACT_GAP, "launched_late");
    expect_place(&verdict, AORTA_CAUSE_LAUNCH_LATENCY, AORTA_FACT_GAP, "started_late");
    end(run, &verdict);
}

/* A collective on the compute stream delays launched compute of another layer. */
static void serialized(void **state) {
    (void)state;
    struct run *run = new_run();
    struct sample *sample = begin(run, 0, 0);
    sample_compute(sample, 0, 10 * MS, 0);
    sample_collective(sample, AORTA_REDUCE_SCATTER, 10 * MS, 20 * MS, 0)->stream = 0;
    sample_compute(sample, 20 * MS, 30 * MS, 12 * MS)->info.layer = 2;
    sample_collective(sample, AORTA_ALL_GATHER, 30 * MS, 35 * MS, 0)->stream = 0; /* layer 0 */
    sample_compute(sample, 35 * MS, 40 * MS, 12 * MS)->info.layer = 0;            /* needs it */
    sample_done(sample, INT64_MIN);
    struct aorta_verdict verdict = verdict_of(run, 0);
    expect_cost(&verdict, AORTA_CAUSE_SERIALIZED_STREAMS, 8);
    assert_int_equal(said_finding(&verdict, AORTA_CAUSE_SERIALIZED_STREAMS)->collective, AORTA_REDUCE_SCATTER);
    expect_cost(&verdict, AORTA_CAUSE_COMPUTE, 25);
    assert_int_equal(verdict.ranks[0].cause_ns[AORTA_CAUSE_EXPOSED_COLLECTIVE], 7 * MS);
    expect_fact(&verdict, AORTA_CAUSE_SERIALIZED_STREAMS, AORTA_FACT_SERIALIZED, 8, "streams.");
    end(run, &verdict);
}

/* The fact on the largest part of a cost is a part of that cost. It contains no time of queued compute or slow
 * transfers. */
static void check_part_of_exposed(bool kernels) {
    struct run *run = new_run();
    struct sample *sample = begin(run, 0, 0);
    sample_compute(sample, 0, 10 * MS, 0);
    struct aorta_range *first = sample_collective(sample, AORTA_REDUCE_SCATTER, 10 * MS, 20 * MS, 0);
    first->stream = 0, first->info.tag = "first";
    sample_compute(sample, 20 * MS, 30 * MS, 12 * MS);
    struct aorta_range *second = sample_collective(sample, AORTA_REDUCE_SCATTER, 30 * MS, 33 * MS, 0);
    second->stream = 0, second->info.tag = "second";
    if (kernels) first->info.within = "first", first->info.tag = "ncclDevKernel";
    if (kernels) second->info.within = "second", second->info.tag = "ncclDevKernel";
    sample_compute(sample, 33 * MS, 40 * MS, 33 * MS);
    sample_done(sample, INT64_MIN);
    struct aorta_verdict verdict = verdict_of(run, 0);
    expect_cost(&verdict, AORTA_CAUSE_SERIALIZED_STREAMS, 8);
    expect_cost(&verdict, AORTA_CAUSE_EXPOSED_COLLECTIVE, 5);
    expect_fact(&verdict, AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_FACT_EXPOSED, 5, NULL);
    expect_fact(&verdict, AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_FACT_EXPOSED_UNIT, 3, NULL);
    expect_place(&verdict, AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_FACT_EXPOSED_UNIT, "second");
    end(run, &verdict);
}

/* Kernel records name the kernel; the unit is the range that it belongs to. */
static void part_of_exposed(void **state) {
    (void)state;
    check_part_of_exposed(false);
    check_part_of_exposed(true);
}

/* A unit that has almost all of the exposed time says no more than the whole: 10 of 10.2 ms. */
static void whole_of_exposed(void **state) {
    (void)state;
    struct run *run = new_run();
    struct sample *sample = begin(run, 0, 0);
    sample_compute(sample, 0, 10 * MS, 0);
    sample_collective(sample, AORTA_ALL_REDUCE, 10 * MS, 20 * MS, 0)->info.tag = "first";
    sample_compute(sample, 20 * MS, 30 * MS, 20 * MS);
    sample_collective(sample, AORTA_ALL_REDUCE, 30 * MS, 30 * MS + MS / 5, 0)->info.tag = "second";
    sample_compute(sample, 30 * MS + MS / 5, 40 * MS, 30 * MS + MS / 5);
    sample_done(sample, INT64_MIN);
    struct aorta_verdict verdict = verdict_of(run, 0);
    expect_cost(&verdict, AORTA_CAUSE_EXPOSED_COLLECTIVE, 10.2);
    assert_false(said_has(said_finding(&verdict, AORTA_CAUSE_EXPOSED_COLLECTIVE), AORTA_FACT_EXPOSED_UNIT));
    end(run, &verdict);
}

/* On a stream of its own the same timing is no serialization. */
static void not_serialized(void **state) {
    (void)state;
    struct run *run = new_run();
    struct sample *sample = begin(run, 0, 0);
    sample_compute(sample, 0, 10 * MS, 0);
    sample_collective(sample, AORTA_REDUCE_SCATTER, 10 * MS, 20 * MS, 0);
    sample_compute(sample, 20 * MS, 30 * MS, 12 * MS)->info.layer = 2;
    sample_done(sample, INT64_MIN);
    struct aorta_verdict verdict = verdict_of(run, 0);
    expect_cost(&verdict, AORTA_CAUSE_SERIALIZED_STREAMS, 0);
    expect_cost(&verdict, AORTA_CAUSE_EXPOSED_COLLECTIVE, 10);
    expect_fact(&verdict, AORTA_CAUSE_EXPOSED_COLLECTIVE, AORTA_FACT_EXPOSED, 10, "gradient_accumulation");
    assert_int_equal(said_finding(&verdict, AORTA_CAUSE_EXPOSED_COLLECTIVE)->collective, AORTA_REDUCE_SCATTER);
    end(run, &verdict);
}

/* Thirty all-gathers of one size on two ranks: 1 ms each, five of them 11 ms. */
static void slow_collective(void **state) {
    (void)state;
    struct run *run = new_run();
    for (int rank = 0; rank < 2; rank++) {
        struct sample *sample = begin(run, rank, 0);
        int64_t t = 0;
        for (int i = 0; i < 30; i++) {
            sample_compute(sample, t, t + MS, 0);
            int64_t length = (i % 6 == 0 ? 11 : 1) * MS;
            sample_collective(sample, AORTA_ALL_GATHER, t + MS, t + MS + length, 0);
            t += MS + length;
        }
        sample_done(sample, INT64_MIN);
    }
    struct aorta_verdict verdict = verdict_of(run, 0);
    expect_cost(&verdict, AORTA_CAUSE_SLOW_COLLECTIVE, 50);
    expect_cost(&verdict, AORTA_CAUSE_EXPOSED_COLLECTIVE, 30);
    expect_cost(&verdict, AORTA_CAUSE_COMPUTE, 30);
    const struct aorta_finding *slow = said_finding(&verdict, AORTA_CAUSE_SLOW_COLLECTIVE);
    assert_int_equal(slow->collective, AORTA_ALL_GATHER);
    said_near(said_value(slow, AORTA_FACT_BEST_BANDWIDTH), 11 * said_value(slow, AORTA_FACT_BANDWIDTH), 1e-9);
    said_expect(said_advice(slow), "leave a core free");
    end(run, &verdict);
}

/* Half of the GEMMs run alone and take 1 ms. The other half takes 1.25 ms while a collective runs. */
static void contention(void **state) {
    (void)state;
    struct run *run = new_run();
    for (int step = 0; step < 10; step++) {
        struct sample *sample = begin(run, 0, step);
        int64_t t = step * 100 * MS;
        sample_compute(sample, t, t + MS, t)->info.flops = 2e9;
        sample_compute(sample, t + MS, t + MS + 5 * MS / 4, t)->info.flops = 2e9;
        sample_collective(sample, AORTA_ALL_REDUCE, t + MS, t + MS + 5 * MS / 4, t);
        sample_compute(sample, t + 10 * MS, t + 20 * MS, t)->info.flops = 7e9; /* never beside one */
        sample_done(sample, INT64_MIN);
    }
    struct aorta_verdict verdict = verdict_of(run, 0);
    assert_int_equal(verdict.slowdown.shapes, 1);
    assert_int_equal(verdict.slowdown.samples_alone, 20);
    assert_int_equal(verdict.slowdown.samples_beside, 10);
    assert_true(fabs(verdict.slowdown.ratio - 1.25) < 1e-12);
    assert_null(verdict.slowdown.reason);
    expect_cost(&verdict, AORTA_CAUSE_CONTENTION, 0.25);
    expect_cost(&verdict, AORTA_CAUSE_COMPUTE, 12);
    expect_fact(&verdict, AORTA_CAUSE_CONTENTION, AORTA_FACT_SLOWER, 0.25, "fewer compute threads");
    expect_fact(&verdict, AORTA_CAUSE_CONTENTION, AORTA_FACT_LOST, 0.25, NULL);
    expect_fact(&verdict, AORTA_CAUSE_CONTENTION, AORTA_FACT_SAMPLES_BESIDE, 10, NULL);
    expect_fact(&verdict, AORTA_CAUSE_CONTENTION, AORTA_FACT_SAMPLES_ALONE, 20, NULL);
    aorta_verdict_free(&verdict);
    verdict = verdict_of(run, 3); /* seven samples beside are too few */
    assert_true(isnan(verdict.slowdown.ratio));
    assert_non_null(strstr(verdict.slowdown.reason, "at least 8 times"));
    expect_cost(&verdict, AORTA_CAUSE_CONTENTION, 0);
    end(run, &verdict);
}

/* Where both streams share the cores of a host each ms of a transfer costs products a third of a ms; while it waits for
 * the other rank it costs nothing:
 *
 *   rank 0  product, 4 ms | product, 5 ms |
 *                          .====           1 ms of waiting, 3 ms of transfer
 *   rank 1                  ==== */
static void products_lose_to_transfers(void **state) {
    (void)state;
    struct run *run = new_run();
    for (int rank = 0; rank < 2; rank++)
        for (int step = 0; step < 10; step++) {
            struct sample *sample = begin(run, rank, step);
            const int64_t t = step * 100 * MS, noise = step % 2 ? MS / 100 : 0;
            sample_compute(sample, t, t + 4 * MS + noise, t)->info.flops = 8e9;
            sample_compute(sample, t + 10 * MS, t + 15 * MS + noise, t)->info.flops = 8e9;
            sample_compute(sample, t + 20 * MS, t + 29 * MS + 2 * noise, t); /* half of compute is not products */
            sample_collective(sample, AORTA_ALL_REDUCE, t + (rank ? 11 : 10) * MS, t + 14 * MS, t);
            sample_done(sample, INT64_MIN);
        }
    struct aorta_verdict verdict = verdict_of(run, 0);
    assert_true(fabs(verdict.slowdown.lost_per_ns - 1.0 / 6) < 1e-9);
    end(run, &verdict);
}

/* Files without launch times: the idle time is reported as not explained. */
static void launch_times_unknown(void **state) {
    (void)state;
    struct run *run = new_run();
    struct sample *sample = begin(run, 0, 0);
    sample_compute(sample, 0, 10, INT64_MIN);
    sample_compute(sample, 30, 40, INT64_MIN);
    sample_done(sample, INT64_MIN);
    struct aorta_verdict verdict = verdict_of(run, -1);
    expect_fact(&verdict, AORTA_CAUSE_HOST_LAUNCH, AORTA_FACT_IDLE_UNKNOWN, 20e-6, NULL);
    assert_true(said_has(said_finding(&verdict, AORTA_CAUSE_HOST_LAUNCH), AORTA_FACT_UNEXPLAINED));
    end(run, &verdict);
}

/* The host launches eight kernels in 7.2 ms of each step of 8 and is always one step ahead. Without the copy it would
 * be the slower of the two, but the copy is what the step waits for:
 *
 *   host  |1|2|3|4|5|6|7|8|.wait.|1|2|3|4|5|6|7|8|.wait.|
 *   GPU   [ copy 4 ms ][1][2][..][8][ copy 4 ms ][1][2][..][8] */
static void launches_that_bind_next_come_second(void **state) {
    enum { STEP = 8 * MS, COPY = 4 * MS, LAUNCH = 900000, KERNELS = 8 };
    (void)state;
    struct run *run = new_run();
    int64_t previous = INT64_MIN;
    for (int step = 0; step < 12; step++) {
        struct sample *sample = begin(run, 0, step);
        const int64_t t = step * STEP, launched = t - STEP;
        sample_copy(sample, t, t + COPY, launched);
        for (int i = 0; i < KERNELS; i++)
            sample_compute(sample, t + COPY + i * MS / 2, t + COPY + (i + 1) * MS / 2, launched + i * LAUNCH);
        sample_host(sample, AORTA_HOST_SYNC, launched + KERNELS * LAUNCH, t);
        sample_done(sample, previous);
        previous = sample->profile.end_ns;
    }
    struct aorta_verdict verdict = verdict_of(run, -1);
    const struct aorta_finding *copy = &verdict.findings[0];
    const struct aorta_finding *launches = said_finding(&verdict, AORTA_CAUSE_HOST_LAUNCH);
    assert_int_equal(copy->cause, AORTA_CAUSE_COPY);
    assert_non_null(launches);
    assert_int_equal(copy->partner, AORTA_CAUSE_HOST_LAUNCH);
    said_near(copy->joint_ms, 4, 0.1);
    assert_true(launches->only_after && !(launches->joint_ms > 0));
    assert_true(said_has(launches, AORTA_FACT_LIMIT_NEXT) && !said_has(launches, AORTA_FACT_IDLE_UNKNOWN));
    end(run, &verdict);
}

static void warmup_is_chosen_and_said(void **state) {
    (void)state;
    static const struct {
        int steps;
        size_t warmup;
    } rows[] = {{3, 0}, {4, 1}, {9, 1}, {10, 3}, {40, 3}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct run *run = new_run();
        for (int step = rows[i].steps; step-- > 0;) { /* any order */
            struct sample *sample = begin(run, 0, step);
            sample_compute(sample, step * 100, step * 100 + (step < 3 ? 90 : 10), 0);
            sample_done(sample, INT64_MIN);
        }
        struct aorta_verdict verdict = verdict_of(run, -1);
        assert_int_equal(verdict.warmup, rows[i].warmup);
        assert_int_equal(verdict.iterations, rows[i].steps - (int)rows[i].warmup);
        if (rows[i].warmup == 3) assert_true(fabs(verdict.step_ms_mean - 10e-6) < 1e-15);
        end(run, &verdict);
    }
    struct run *run = new_run();
    struct sample_recording recording;
    struct sample *sample = begin(run, 0, 0);
    sample_compute(sample, 0, 10, 0);
    sample_done(sample, INT64_MIN);
    check_fails(sample_analyze(run->iterations, 1, 5, NULL, &recording), AORTA_USAGE, "5 of each rank are warm-up");
    sample_recording_free(&recording);
    end(run, &(struct aorta_verdict){0});
}

/* Random steps: whatever is found, the text has all of it, and says what the figures are of. */
static void text_is_whole_and_honest(void **state) {
    (void)state;
    struct run *run = new_run();
    uint64_t random = 99991;
    for (int step = 0; step < 12; step++) {
        struct sample *sample = begin(run, 0, step);
        sample_fill_random(sample, &random, 300, step * (int64_t)5 * MS, 3 * MS);
        for (size_t i = 0; i < sample->profile.range_count; i++) sample->profile.ranges[i].info.simulated = true;
        sample_done(sample, INT64_MIN);
    }
    struct aorta_verdict verdict = verdict_of(run, -1);
    said_whole(&verdict);
    said_expect(said_words(&verdict), "9 steps of 1 rank after 3 of warm-up");
    said_expect(said_words(&verdict), "simulated: collectives are copies on one rank");
    said_expect(said_text(&verdict), "      fix    ");
    /* The text replaces the one before, and is whole. */
    check_ok(aorta_verdict_clocks(&verdict, "first"));
    check_ok(aorta_verdict_clocks(
        &verdict, "1545 of 1980 MHz (78%): at the power limit (698 of 700 W) 96% of the time, and so on "
                  "to the end of the second line, which is here"));
    said_whole(&verdict);
    said_expect(said_text(&verdict), "\n  clocks     1545 of");
    said_expect(said_text(&verdict), "which is here\n");
    assert_null(strstr(said_text(&verdict), "first\n"));
    end(run, &verdict);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(costs_add_up),
        cmocka_unit_test(host_causes),
        cmocka_unit_test(waits_within_steps_are_counted),
        cmocka_unit_test(a_graph_has_no_late_launches),
        cmocka_unit_test(gaps_are_not_operations),
        cmocka_unit_test(straggler_device),
        cmocka_unit_test(straggler_host),
        cmocka_unit_test(straggler_on_another_clock),
        cmocka_unit_test(straggler_on_another_host),
        cmocka_unit_test(straggler_without_clock),
        cmocka_unit_test(groups_do_not_mix),
        cmocka_unit_test(strides_do_not_mix),
        cmocka_unit_test(serialized),
        cmocka_unit_test(where_idle),
        cmocka_unit_test(part_of_exposed),
        cmocka_unit_test(whole_of_exposed),
        cmocka_unit_test(not_serialized),
        cmocka_unit_test(slow_collective),
        cmocka_unit_test(contention),
        cmocka_unit_test(products_lose_to_transfers),
        cmocka_unit_test(launch_times_unknown),
        cmocka_unit_test(launches_that_bind_next_come_second),
        cmocka_unit_test(warmup_is_chosen_and_said),
        cmocka_unit_test(text_is_whole_and_honest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
