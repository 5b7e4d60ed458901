/* Steps that we record of ourselves: ranges with their launches, of two ranks. Times in us; S_n is the start of step n.
 *
 *     host   [wait for data      ][L L L][wait for the step's end          ]
 *     compute                      K======|     K======|
 *     gather                       C===|        waits for the compute before it (no prefetch) */
#include "check.h"
#include "replay/trace_graph.h"
#include "replaying.h"
#include "samples/measured.h"
#include "samples/profile.h"

#include <math.h>

enum { US = 1000, STEPS = 6, RANKS = 2, LAYERS = 4 };

struct case_of {
    int64_t data_us;    /* the host waits so long for data in each step */
    int64_t late_us[2]; /* a rank's compute of a layer is so much longer */
    int64_t pause_us;   /* the host pauses between the launches of the second and the third layer */
    int64_t lead_us;    /* the host pauses so long before each step */
    bool stamped;       /* each step has a kernel of less than a microsecond first, which starts with its launch */
    bool ahead;         /* gathers run beside the compute before theirs */
    bool graph;         /* the step has one launch */
    int64_t ahead_us;   /* the batch is copied so long before the step begins; 0: no copy */
    const char *moves;  /* runs for 400 between the last layer's gather and its compute; NULL: nothing */
};

struct run {
    struct sample samples[RANKS * STEPS];
    struct sample_recording recording;
};

static struct aorta_range *place(struct aorta_range *range, int stream, int layer) {
    range->stream = stream;
    range->info.layer = layer;
    range->info.group_size = RANKS;
    return range;
}

/* One step of one rank from `begin` on; returns its end. Collectives end on both ranks at `end_of_gather[layer]`, which
 * the later rank decides. */
static int64_t add_step(struct sample *sample, const struct case_of *c, int rank, int64_t begin_us,
                        int64_t gather_us[LAYERS], int64_t launch_us) {
    int64_t compute_end = launch_us + (c->stamped ? 20 : 0);
    if (c->ahead_us)
        place(sample_copy(sample, (begin_us - c->ahead_us) * US, (begin_us - c->ahead_us + 20) * US,
                          (begin_us - c->ahead_us - 1) * US),
              2, -1);
    if (c->data_us) sample_host(sample, AORTA_HOST_DATA_WAIT, begin_us * US, (begin_us + c->data_us) * US);
    if (c->stamped) place(sample_compute(sample, launch_us * US, launch_us * US + 900, launch_us * US), 0, -1);
    for (int layer = 0; layer < LAYERS; layer++) {
        int64_t pause_us = layer >= 2 ? c->pause_us : 0;
        int64_t queued = (c->graph ? launch_us : launch_us + 2 * layer + pause_us) * US;
        int64_t ready = c->ahead && layer ? compute_end - 300 : compute_end; /* a layer takes 300 */
        if (pause_us && ready * US < queued + 5 * US) ready = queued / US + 5;
        int64_t end = gather_us[layer] > ready + 100 ? gather_us[layer] : ready + 100;
        gather_us[layer] = end;
        struct aorta_range *gather = sample_collective(sample, AORTA_ALL_GATHER, ready * US, end * US, queued);
        place(gather, 1, layer)->sequence = layer;
        int64_t start = end > compute_end ? end : compute_end;
        if (c->moves && layer == LAYERS - 1) {
            struct aorta_range *moved = sample_copy(sample, start * US, (start + 400) * US, queued + US);
            place(moved, 0, -1)->info.tag = c->moves;
            start += 400;
        }
        compute_end = start + 300 + c->late_us[rank];
        place(sample_compute(sample, start * US, compute_end * US, queued + (c->graph ? 0 : US)), 0, layer);
    }
    sample_host(sample, AORTA_HOST_SYNC, (launch_us + 2 * LAYERS + c->pause_us) * US, (compute_end + 5) * US);
    return compute_end;
}

static void make(const struct case_of *c, struct run *run) {
    int64_t begin_us[RANKS] = {0}, previous[RANKS] = {INT64_MIN, INT64_MIN};
    *run = (struct run){0};
    for (int step = 0; step < STEPS; step++) {
        int64_t gather_us[LAYERS] = {0}, launch_us[RANKS];
        struct sample scratch;
        for (int rank = 0; rank < RANKS; rank++) launch_us[rank] = begin_us[rank] + c->data_us + c->lead_us + 10;
        for (int round = 0; round < 8; round++) /* until both ranks agree when gathers end */
            for (int rank = 0; rank < RANKS; rank++) {
                sample_begin(&scratch, step);
                add_step(&scratch, c, rank, begin_us[rank], gather_us, launch_us[rank]);
                sample_done(&scratch, INT64_MIN);
                sample_free(&scratch);
            }
        for (int rank = 0; rank < RANKS; rank++) {
            struct sample *sample = &run->samples[rank * STEPS + step];
            sample_begin(sample, step);
            begin_us[rank] = add_step(sample, c, rank, begin_us[rank], gather_us, launch_us[rank]) + 5;
            sample_done(sample, previous[rank]);
            previous[rank] = sample->profile.end_ns;
        }
    }
}

static aorta_status analyze(struct run *run, int warmup) {
    struct aorta_iteration iterations[RANKS * STEPS];
    for (int i = 0; i < RANKS * STEPS; i++)
        iterations[i] =
            (struct aorta_iteration){.rank = i / STEPS, .step = i % STEPS, .profile = &run->samples[i].profile};
    return sample_analyze(iterations, RANKS * STEPS, warmup, NULL, &run->recording);
}

static void end(struct run *run) {
    sample_recording_free(&run->recording);
    for (int i = 0; i < RANKS * STEPS; i++) sample_free(&run->samples[i]);
}

/* The mean of all steps, also of the first, which is not measured in the replay. */
static double step_us(const struct run *run) {
    double sum = 0;
    for (int i = 0; i < RANKS * STEPS; i++)
        sum += (double)(run->samples[i].profile.overlap.span_ns + run->samples[i].profile.overlap.lead_ns);
    return sum / RANKS / STEPS / US;
}

static struct aorta_gains gains_of(struct run *run) {
    struct aorta_trace_graph built;
    struct aorta_gains gains;
    check_ok(analyze(run, 0));
    assert_true(run->recording.analysis.common_clock);
    check_ok(aorta_trace_graph_make(&run->recording.analysis, &built));
    measure_gains(&built.graph, &gains);
    aorta_trace_graph_free(&built);
    assert_true(gains.replayed_ns == gains.measured_ns);
    assert_true(fabs(gains.measured_ns - step_us(run) * US) < 1);
    return gains;
}

/* What the removal gains, and what the same run without the cause really takes. */
static void check_gain(const struct case_of *with, const struct case_of *without, enum aorta_removal removal) {
    struct run run, other;
    make(with, &run);
    make(without, &other);
    struct aorta_gains gains = gains_of(&run);
    double truth_us = step_us(&run) - step_us(&other), gain_us = gains.gain_ns[removal] / US;
    assert_true(truth_us > 0);
    if (gain_us < 0.8 * truth_us || gain_us > 1.2 * truth_us)
        fail_msg("%s: %.1f us instead of %.1f", aorta_removal_cause(removal), gain_us, truth_us);
    for (int i = 0; i < AORTA_REMOVAL_COUNT; i++) /* a host that does not wait for the device hides everything else */
        if (i != AORTA_WITHOUT_HOST_SYNC && gains.gain_ns[i] > gains.gain_ns[removal])
            fail_msg("%s gains more than %s", aorta_removal_cause((enum aorta_removal)i), aorta_removal_cause(removal));
    end(&run);
    end(&other);
}

static void data_is_waited_for(void **state) {
    (void)state;
    check_gain(&(struct case_of){.data_us = 900, .ahead = true}, &(struct case_of){.ahead = true},
               AORTA_WITHOUT_DATA_WAIT);
}

static void a_rank_computes_longer(void **state) {
    (void)state;
    check_gain(&(struct case_of){.late_us = {0, 200}, .ahead = true}, &(struct case_of){.ahead = true},
               AORTA_WITHOUT_STRAGGLER);
}

/* Nothing says when the launch before the pause was over. */
static void the_host_pauses_between_launches(void **state) {
    (void)state;
    check_gain(&(struct case_of){.pause_us = 3000, .ahead = true}, &(struct case_of){.ahead = true},
               AORTA_WITHOUT_HOST_PAUSE);
}

/* The step's first kernel ends as soon as the pause does, which does not wait for it. */
static void the_host_pauses_before_a_step(void **state) {
    (void)state;
    check_gain(&(struct case_of){.lead_us = 3000, .stamped = true, .ahead = true},
               &(struct case_of){.stamped = true, .ahead = true}, AORTA_WITHOUT_HOST_PAUSE);
}

static void gathers_are_not_prefetched(void **state) {
    (void)state;
    check_gain(&(struct case_of){0}, &(struct case_of){.ahead = true}, AORTA_WITHOUT_EXPOSED_COLLECTIVE);
    check_gain(&(struct case_of){.graph = true}, &(struct case_of){.graph = true, .ahead = true},
               AORTA_WITHOUT_EXPOSED_COLLECTIVE);
}

static void nothing_is_lost(void **state) {
    (void)state;
    struct run run;
    make(&(struct case_of){.ahead = true}, &run);
    struct aorta_gains gains = gains_of(&run);
    for (int i = 0; i < AORTA_REMOVAL_COUNT; i++)
        if (gains.gain_ns[i] > 0.10 * gains.measured_ns) /* the step's first gather, behind the host's wait */
            fail_msg("%s gains %.1f us", aorta_removal_cause((enum aorta_removal)i), gains.gain_ns[i] / US);
    end(&run);
}

/* The first step, whose batch was copied long before anything else was recorded, is replayed and not measured: what
 * nothing explains in it is no part of the path. */
static void the_first_step_is_not_on_the_path(void **state) {
    (void)state;
    struct run run;
    make(&(struct case_of){.ahead = true, .ahead_us = 1500}, &run);
    struct aorta_gains gains = gains_of(&run);
    assert_true(gains.unexplained_share < 0.01);
    assert_true((double)gains.path.length_ns < 1.02 * STEPS * gains.measured_ns);
    assert_true((double)gains.path.length_ns <
                (double)(run.samples[STEPS - 1].profile.end_ns - run.samples[0].profile.end_ns) * 1.02);
    end(&run);
}

/* Fills and copies within a device take its memory's time, wherever they run; a copy over a link does not. */
static void only_copies_over_links_gain(void **state) {
    (void)state;
    static const struct {
        const char *moves;
        bool gains;
    } cases[] = {{"copy host to device", true}, {"copy device to device", false}, {"fill", false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct run run;
        make(&(struct case_of){.ahead = true, .graph = true, .moves = cases[i].moves}, &run);
        struct aorta_gains gains = gains_of(&run);
        if ((gains.gain_ns[AORTA_WITHOUT_COPY] > 100 * US) != cases[i].gains)
            fail_msg("%s: %.1f us", cases[i].moves, gains.gain_ns[AORTA_WITHOUT_COPY] / US);
        end(&run);
    }
}

static void what_cannot_be_replayed_says_why(void **state) {
    (void)state;
    struct run run;
    struct aorta_trace_graph built;
    make(&(struct case_of){.ahead = true}, &run);
    check_ok(analyze(&run, STEPS - 2));
    check_fails(aorta_trace_graph_make(&run.recording.analysis, &built), AORTA_UNSUPPORTED, "fewer than 3 steps");
    sample_recording_free(&run.recording);
    for (int i = 0; i < RANKS * STEPS; i++) run.samples[i].profile.own_clock = true;
    check_ok(analyze(&run, 0));
    check_fails(aorta_trace_graph_make(&run.recording.analysis, &built), AORTA_UNSUPPORTED, "clocks are not one");
    end(&run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_is_waited_for),
        cmocka_unit_test(a_rank_computes_longer),
        cmocka_unit_test(the_host_pauses_between_launches),
        cmocka_unit_test(the_host_pauses_before_a_step),
        cmocka_unit_test(gathers_are_not_prefetched),
        cmocka_unit_test(nothing_is_lost),
        cmocka_unit_test(the_first_step_is_not_on_the_path),
        cmocka_unit_test(only_copies_over_links_gain),
        cmocka_unit_test(what_cannot_be_replayed_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
