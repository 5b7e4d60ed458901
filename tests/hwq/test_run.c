/* The harness: passes, gates and gaps, on the CPU device, and the workloads of P0 and comms_compute_overlap. */
#include "check.h"
#include "flat.h"

#include "hwq/graph.h"
#include "hwq/limit.h"
#include "hwq/run.h"
#include "hwq/workload.h"

#include <jansson.h>
#include <math.h>

/* ---- gaps ---- */

static void add(struct aorta_hwq_spans *spans, int stream, int64_t start, int64_t end) {
    const struct aorta_span span = {.stream = stream, .name = "k", .start_ns = start, .end_ns = end};
    check_ok(aorta_hwq_spans_add(spans, &span));
}

/* Stream 0: 0–10, 13–20; stream 1: 12–30, 35–40; stream 0 again 50–60.
 * intra: 13−10, 50−20, 35−30; inter: 12 after 0's 10, 35 after 1's own 30 (none), 50 after 1's 40. */
static void test_gaps_of_a_known_iteration(void **state) {
    struct aorta_hwq_spans spans = {0};
    struct aorta_hwq_gaps gaps = {0};
    (void)state;
    add(&spans, 1, 12, 30); /* the order of noting does not matter */
    add(&spans, 0, 0, 10);
    add(&spans, 0, 13, 20);
    add(&spans, 0, 50, 60);
    add(&spans, 1, 35, 40);
    aorta_hwq_gaps_add(&gaps, &spans);
    assert_int_equal(gaps.intra.count, 3);
    assert_true(aorta_hwq_samples_median(&gaps.intra) == 5);
    assert_int_equal(gaps.inter.count, 2);
    assert_true(gaps.inter.items[0] == 2 && gaps.inter.items[1] == 10);
    aorta_arena_free(&gaps.memory);
    aorta_hwq_spans_free(&spans);
}

/* As above, launched one by one: work after 13 on stream 0 was launched when the device was idle already. */
static void test_gaps_of_the_host_are_separate(void **state) {
    static const struct aorta_span items[] = {
        {.stream = 0, .name = "k", .start_ns = 0, .end_ns = 10, .launch_ns = -5},
        {.stream = 0, .name = "k", .start_ns = 13, .end_ns = 20, .launch_ns = 10},  /* just when the first ended */
        {.stream = 1, .name = "k", .start_ns = 35, .end_ns = 40, .launch_ns = 21},  /* 1 after the end */
        {.stream = 1, .name = "k", .start_ns = 60, .end_ns = 70, .launch_ns = 50}}; /* 10 after it */
    struct aorta_hwq_spans spans = {0};
    struct aorta_hwq_gaps gaps = {0}, replayed = {0};
    (void)state;
    for (size_t i = 0; i < sizeof items / sizeof *items; i++) check_ok(aorta_hwq_spans_add(&spans, &items[i]));
    aorta_hwq_gaps_add(&gaps, &spans);
    assert_int_equal(gaps.intra.count, 1);
    assert_true(gaps.intra.items[0] == 3);
    assert_int_equal(gaps.inter.count, 0);
    assert_int_equal(gaps.host_intra.count, 1);
    assert_true(gaps.host_intra.items[0] == 20);
    assert_int_equal(gaps.host_inter.count, 1);
    assert_true(gaps.host_inter.items[0] == 15);
    for (size_t i = 0; i < spans.count; i++) spans.items[i].launch_ns = INT64_MIN; /* a replay */
    aorta_hwq_gaps_add(&replayed, &spans);
    assert_int_equal(replayed.intra.count, 2);
    assert_int_equal(replayed.inter.count, 1);
    assert_int_equal(replayed.host_intra.count + replayed.host_inter.count, 0);
    aorta_arena_free(&gaps.memory);
    aorta_arena_free(&replayed.memory);
    aorta_hwq_spans_free(&spans);
}

/* A replay with a call of the host that returns at 45: it caused the gap around that time, and no other gap. */
static void test_gaps_around_calls_of_the_host(void **state) {
    static const struct aorta_span items[] = {
        {.stream = 0, .name = "k", .start_ns = 0, .end_ns = 10, .launch_ns = INT64_MIN},
        {.stream = 2, .name = "adamw", .kind = AORTA_SPAN_HOST, .start_ns = 12, .end_ns = 45, .launch_ns = INT64_MIN},
        {.stream = 0, .name = "k", .start_ns = 13, .end_ns = 20, .launch_ns = INT64_MIN},
        {.stream = 1, .name = "k", .start_ns = 50, .end_ns = 60, .launch_ns = INT64_MIN},
        {.stream = 1, .name = "k", .start_ns = 64, .end_ns = 70, .launch_ns = INT64_MIN}};
    struct aorta_hwq_spans spans = {0};
    struct aorta_hwq_gaps gaps = {0};
    (void)state;
    for (size_t i = 0; i < sizeof items / sizeof *items; i++) check_ok(aorta_hwq_spans_add(&spans, &items[i]));
    aorta_hwq_gaps_add(&gaps, &spans);
    assert_int_equal(gaps.intra.count, 2);
    assert_true(gaps.intra.items[0] == 3 && gaps.intra.items[1] == 4);
    assert_int_equal(gaps.inter.count, 0);
    assert_int_equal(gaps.host_inter.count, 1);
    assert_true(gaps.host_inter.items[0] == 30);
    aorta_arena_free(&gaps.memory);
    aorta_hwq_spans_free(&spans);
}

static void test_a_span_without_length_does_not_precede_itself(void **state) {
    struct aorta_hwq_spans spans = {0};
    struct aorta_hwq_gaps gaps = {0};
    (void)state;
    add(&spans, 0, 0, 4);
    add(&spans, 1, 6, 6);
    aorta_hwq_gaps_add(&gaps, &spans);
    assert_int_equal(gaps.inter.count, 1);
    assert_true(gaps.inter.items[0] == 2);
    assert_true(isnan(aorta_hwq_samples_median(&gaps.intra)));
    aorta_arena_free(&gaps.memory);
    aorta_hwq_spans_free(&spans);
}

/* ---- scaling ---- */

/* How the results scale is in the answer, and the limits of the best and the largest count are in the rows. */
static void expect_scaling(const struct aorta_hwq_result *results, size_t count, struct aorta_hwq_scaling *scaling,
                           const char *words) {
    struct aorta_text text = {0};
    check_ok(aorta_hwq_scaling_make(results, count, scaling));
    aorta_found_text(&scaling->found, &text);
    check_ok(aorta_text_check(&text));
    if (strncmp(text.data, words, strlen(words)) != 0) fail_msg("%s", text.data);
    aorta_text_free(&text);
}

static void test_scaling_finds_peak_and_inflection(void **state) {
    const struct aorta_hwq_limit limit = {.by = AORTA_HWQ_LIMIT_UNSTAMPED};
    const struct aorta_hwq_result results[] = {
        {.workload_name = "moe", .throughput_unit = "steps/s", .stream_count = 1, .throughput = 10, .limit = limit},
        {.workload_name = "moe", .stream_count = 2, .throughput = 19, .limit = limit},
        {.workload_name = "moe", .stream_count = 4, .throughput = 30.4}, /* 0.76 against 0.95: exactly a fifth */
        {.workload_name = "moe", .stream_count = 8, .throughput = 29}};
    const struct aorta_hwq_result unknown = {.workload_name = "moe", .stream_count = 2, .throughput = NAN};
    struct aorta_hwq_scaling scaling;
    (void)state;
    expect_scaling(
        results, 4, &scaling,
        "moe: highest throughput with 4 streams, 30.4 steps/s; throughput per stream falls by a fifth or more\n"
        "  from 4 streams on\n\n"
        "  limit       4 streams: not known: no kernel has timestamps\n"
        "              8 streams: not known: no kernel has timestamps\n"
        "  try         aorta hwq run moe --streams N");
    assert_true(fabs(scaling.efficiencies[1] - 0.95) < 1e-12);
    assert_int_equal(scaling.inflection_point, 4);
    assert_int_equal(scaling.peak_streams, 4);
    aorta_hwq_scaling_free(&scaling);
    expect_scaling(results, 2, &scaling,
                   "moe: highest throughput with 2 streams, 19 steps/s; throughput per stream never falls by a fifth");
    assert_int_equal(scaling.inflection_point, AORTA_ROW_UNKNOWN);
    aorta_hwq_scaling_free(&scaling);
    expect_scaling(results, 1, &scaling, "moe: 10 steps/s with 1 stream; one count shows no scaling\n");
    aorta_hwq_scaling_free(&scaling);
    expect_scaling(&unknown, 1, &scaling, "moe: throughput not known with any number of streams\n");
    assert_int_equal(scaling.peak_streams, AORTA_ROW_UNKNOWN);
    aorta_hwq_scaling_free(&scaling);
}

/* Three digits are measured; the rest of a throughput is noise. */
static void test_the_table_of_a_sweep_has_three_digits(void **state) {
    const struct aorta_hwq_result results[] = {
        {.workload_name = "moe", .throughput_unit = "steps/s", .stream_count = 1, .throughput = 0.076516},
        {.workload_name = "moe", .stream_count = 2, .throughput = NAN}};
    struct aorta_hwq_scaling scaling;
    struct aorta_text text = {0};
    (void)state;
    check_ok(aorta_hwq_scaling_make(results, 2, &scaling));
    aorta_hwq_sweep_text(results, 2, &scaling, &text);
    assert_non_null(strstr(text.data, "\n      1       0.0765 "));
    assert_non_null(strstr(text.data, "\n      2            - "));
    aorta_text_free(&text);
    aorta_hwq_scaling_free(&scaling);
}

/* ---- words on the command line ---- */

static void test_process_groups(void **state) {
    struct aorta_hwq_group_list list;
    (void)state;
    check_ok(aorta_hwq_groups_parse(" [0,1], [3 ,1,2]", 4, &list)); /* rank 1 is in both */
    assert_int_equal(list.groups, 2);
    assert_int_equal(aorta_hwq_group_size(&list, 0), 2);
    assert_int_equal(aorta_hwq_group_size(&list, 1), 3);
    assert_int_equal(list.ranks[list.first[1]], 3);
    assert_true(aorta_hwq_group_has(&list, 0, 1) && aorta_hwq_group_has(&list, 1, 1));
    assert_false(aorta_hwq_group_has(&list, 0, 3));
    check_fails(aorta_hwq_groups_parse("[0,1", 4, &list), AORTA_USAGE, "\"]\" is missing at character 5");
    check_fails(aorta_hwq_groups_parse("0,1", 4, &list), AORTA_USAGE, "\"[\" is missing");
    check_fails(aorta_hwq_groups_parse("[0,,1]", 4, &list), AORTA_USAGE, "a rank is missing at character 4");
    check_fails(aorta_hwq_groups_parse("[]", 4, &list), AORTA_USAGE, "a rank is missing");
    check_fails(aorta_hwq_groups_parse("[0,4]", 4, &list), AORTA_USAGE, "there is no rank 4");
    char many[5 * AORTA_HWQ_MOST_GROUPS] = "";
    for (int g = 0; g < AORTA_HWQ_MOST_GROUPS; g++) strcat(many, g ? ",[0]" : "[0]");
    check_ok(aorta_hwq_groups_parse(many, 4, &list));
    strcat(many, ",[1]");
    check_fails(aorta_hwq_groups_parse(many, 4, &list), AORTA_USAGE, "a 65th group begins at character 257");
    check_fails(aorta_hwq_groups_parse("[0,1,1]", 4, &list), AORTA_USAGE, "rank 1 is listed twice in one group");
    check_fails(aorta_hwq_groups_parse("[0] x", 4, &list), AORTA_USAGE, "or the end is missing");
}

static void test_sizes_and_shapes(void **state) {
    int64_t bytes, shape[3];
    (void)state;
    check_ok(aorta_hwq_size_parse("comm-size", "128M", &bytes));
    assert_int_equal(bytes, 128 << 20);
    check_ok(aorta_hwq_size_parse("comm-size", "1.5k", &bytes));
    assert_int_equal(bytes, 1536);
    check_fails(aorta_hwq_size_parse("comm-size", "12X", &bytes), AORTA_USAGE, "--comm-size \"12X\"");
    check_fails(aorta_hwq_size_parse("comm-size", "-1", &bytes), AORTA_USAGE, "a number of bytes");
    check_ok(aorta_hwq_shape_parse("mm-dim", "64", shape));
    assert_int_equal(shape[2], 64);
    check_ok(aorta_hwq_shape_parse("mm-dim", "8,16,32", shape));
    assert_int_equal(shape[1], 16);
    check_fails(aorta_hwq_shape_parse("mm-dim", "8,16", shape), AORTA_USAGE, "--mm-dim \"8,16\"");
    check_fails(aorta_hwq_shape_parse("mm-dim", "0", shape), AORTA_USAGE, "one size or three");
    check_fails(aorta_hwq_shape_parse("mm-dim", "8,16,32,1", shape), AORTA_USAGE, "one size or three");
}

static void test_unknown_workloads_name_the_nearest(void **state) {
    const struct aorta_hwq_workload *found;
    (void)state;
    check_fails(aorta_hwq_find("tiny_kernl", &found), AORTA_USAGE, "did you mean \"tiny_kernel_stress\"");
    check_fails(aorta_hwq_find("large_gem_only", &found), AORTA_USAGE, "did you mean \"large_gemm_only\"");
    check_fails(aorta_hwq_find("meo", &found), AORTA_USAGE, "did you mean \"moe\"");
    check_fails(aorta_hwq_find("nosuch", &found), AORTA_USAGE,
                "unknown workload \"nosuch\"; aorta hwq list shows them");
    check_fails(aorta_hwq_find("", &found), AORTA_USAGE, "unknown workload \"\"; aorta hwq list shows them");
    check_ok(aorta_hwq_find("hetero_kernels", &found));
}

/* ---- runs ---- */

struct setting {
    const char *key, *value;
};

struct rig {
    struct aorta_device *device;
    struct aorta_comm *world;
    struct aorta_arena arena;
    _Alignas(16) unsigned char options[AORTA_HWQ_OPTION_BYTES];
    struct aorta_hwq_run run;
};

static void open_rig(struct rig *rig, const char *name, const struct setting *settings) {
    memset(rig, 0, sizeof *rig);
    check_ok(aorta_device_open(AORTA_DEVICE_CPU, 0, &rig->device));
    rig->run = (struct aorta_hwq_run){.options = rig->options,
                                      .device = rig->device,
                                      .iterations = 4,
                                      .warmup = 1,
                                      .verify = true,
                                      .ranks = {.world_size = 1, .local_world_size = 1}};
    check_ok(aorta_hwq_find(name, &rig->run.workload));
    const struct aorta_hwq_workload *w = rig->run.workload;
    for (size_t i = 0; i < w->option_count; i++) {
        check_ok(aorta_option_store_default(&w->options[i], rig->options, &rig->arena));
        for (const struct setting *s = settings; s && s->key; s++) {
            const struct aorta_scalar scalar = {s->value, false};
            if (strcmp(s->key, w->options[i].key) != 0) continue;
            assert_true(aorta_option_store(&w->options[i], &scalar, 1, false, rig->options, &rig->arena));
        }
    }
    if (!w->collectives) return;
    const struct aorta_comm_options options = {
        .device = rig->device, .backend = "local", .ranks = rig->run.ranks, .timeout_s = 30};
    check_ok(aorta_comm_open(&options, &rig->world));
    rig->run.world = rig->world;
}

static void close_rig(struct rig *rig) {
    aorta_comm_close(rig->world);
    aorta_device_close(rig->device);
    aorta_arena_free(&rig->arena);
}

static void check_result(const struct aorta_hwq_result *result, const struct aorta_hwq_run *run) {
    assert_non_null(result->verified);
    assert_string_equal(result->verified, "passed");
    assert_int_equal(result->iteration_count, run->iterations);
    for (size_t i = 0; i < result->iteration_count; i++) assert_true(result->iteration_times_ms[i] > 0.0);
    assert_true(result->throughput > 0.0);
    const struct aorta_hwq_switch *found = &result->switch_latency;
    assert_null(found->reason);
    assert_true(found->inter_samples > 0 && found->intra_samples > 0 && found->probe.chosen.samples > 100);
    if (run->gate || run->graph) assert_int_equal(found->host.inter_samples + found->host.intra_samples, 0);
    assert_true(isfinite(found->inter_gap_ms) && isfinite(found->intra_gap_ms) && isfinite(found->overhead_ms));
    assert_true(aorta_hwq_result_find(result, "launches_per_second")->value > 0.0);
    assert_true(result->memory.peak >= result->memory.allocated && result->memory.allocated > 0);
}

static void run_well(struct rig *rig, int64_t streams) {
    struct aorta_hwq_result result;
    rig->run.streams = streams;
    check_ok(aorta_hwq_run_execute(&rig->run, &result));
    check_result(&result, &rig->run);
    aorta_hwq_result_free(&result);
}

/* Eager, as a graph, with a gate and both; all ways to wait; on the fewest and on many streams. */
static void run_every_way(const char *name, const struct setting *settings) {
    struct rig rig;
    open_rig(&rig, name, settings);
    for (int way = 0; way < 4; way++) {
        rig.run.graph = way & 1;
        rig.run.gate = way & 2;
        run_well(&rig, rig.run.workload->streams.min);
        run_well(&rig, 8);
    }
    rig.run.gate = false;
    for (int graph = 0; graph < 2; graph++)
        for (int sync = AORTA_HWQ_END_ONLY; sync <= AORTA_HWQ_NONE; sync++) {
            rig.run.graph = graph;
            rig.run.sync = (enum aorta_hwq_sync)sync;
            run_well(&rig, 4);
        }
    close_rig(&rig);
}

static void test_tiny_kernel_stress(void **state) {
    const struct setting settings[] = {{"chains", "5"}, {0}};
    (void)state;
    run_every_way("tiny_kernel_stress", settings);
}

static void test_large_gemm_only(void **state) {
    const struct setting settings[] = {{"size", "48"}, {0}};
    (void)state;
    run_every_way("large_gemm_only", settings);
}

static void test_hetero_kernels(void **state) {
    const char *const orders[] = {"alternating", "batched", "random"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        const struct setting settings[] = {{"size", "48"}, {"interleave", orders[i]}, {0}};
        run_every_way("hetero_kernels", settings);
    }
}

static void test_comms_compute_overlap(void **state) {
    const char *const kinds[] = {"all_reduce", "reduce_scatter", "all_gather", "all_to_all"};
    (void)state;
    for (int i = 0; i < 4; i++) {
        const struct setting settings[] = {
            {"mm_dim", "32,16,48"}, {"comm_size", "4K"}, {"collective", kinds[i]}, {"num_compute", "3"}, {0}};
        run_every_way("comms_compute_overlap", settings);
    }
}

static void test_launches_are_counted(void **state) {
    const struct setting settings[] = {{"chains", "5"}, {0}};
    struct rig rig;
    (void)state;
    open_rig(&rig, "tiny_kernel_stress", settings);
    for (int graph = 0; graph < 2; graph++) {
        struct aorta_hwq_result result;
        rig.run.graph = graph;
        rig.run.streams = 3;
        check_ok(aorta_hwq_run_execute(&rig.run, &result));
        assert_true(aorta_hwq_result_find(&result, "launches_per_iteration")->value == 5 * 4 * 3);
        struct aorta_text text = {0};
        aorta_hwq_run_text(&rig.run, &result, false, &text);
        const bool by_kernels = result.limit.by == AORTA_HWQ_LIMIT_KERNELS; /* on a loaded machine */
        assert_true(text_has(text.data, "  device      busy ") || by_kernels);
        assert_false(text_has(text.data, "host work")); /* the workload has none, although its launches limit */
        aorta_text_free(&text);
        aorta_hwq_result_free(&result);
    }
    close_rig(&rig);
}

static void check_text(const struct aorta_hwq_run *run, const struct aorta_hwq_result *result, const char *part) {
    struct aorta_text text = {0};
    aorta_hwq_run_text(run, result, false, &text);
    check_ok(aorta_text_check(&text));
    if (!text_has(text.data, part)) fail_msg("\"%s\" is not in:\n%s", part, text.data);
    aorta_text_free(&text);
}

/* --compute-streams adds the streams that --streams has not; products alone have nothing to do with collectives. */
static void test_compute_alone(void **state) {
    const struct setting settings[] = {{"mm_dim", "16"}, {"mode", "compute_only"}, {"compute_streams", "3"}, {0}};
    struct aorta_text text = {0};
    struct aorta_hwq_result result;
    struct rig rig;
    (void)state;
    open_rig(&rig, "comms_compute_overlap", settings);
    rig.run.streams = 2;
    check_ok(aorta_hwq_run_execute(&rig.run, &result));
    assert_int_equal(result.stream_count, 4);
    assert_false(result.simulated);
    aorta_hwq_run_text(&rig.run, &result, false, &text);
    check_ok(aorta_text_check(&text));
    if (!strstr(text.data, "4 streams of ") || strstr(text.data, "ollectives share") || strstr(text.data, "simulated"))
        fail_msg("%s", text.data);
    aorta_text_free(&text);
    aorta_hwq_result_free(&result);
    close_rig(&rig);
}

/* A verification that cannot fail would show nothing: here an operation more changes a value. */
static aorta_status run_spoiler(const struct hwq_operation *o, struct aorta_stream *stream) {
    return aorta_fill_bytes(stream, hwq_floats(o->out[0]), 0, sizeof(float));
}

static const struct hwq_kind spoiler = {.name = "spoiler", .span = AORTA_SPAN_KERNEL, .run = run_spoiler};
static const struct aorta_hwq_workload *unspoilt;
static const struct hwq_kind *unspoilt_kind;

static void build_spoilt(struct hwq_graph *g) {
    unspoilt->build(g);
    if (g->first) hwq_append(g, &(struct hwq_operation){.kind = &spoiler, .out = {g->first->out[0]}}, NULL, 0);
}

static void test_wrong_results_are_found(void **state) {
    const struct setting settings[] = {{"chains", "5"}, {0}};
    struct aorta_hwq_result result;
    struct aorta_hwq_workload spoilt;
    struct rig rig;
    (void)state;
    open_rig(&rig, "tiny_kernel_stress", settings);
    unspoilt = rig.run.workload;
    spoilt = *rig.run.workload;
    spoilt.build = build_spoilt;
    rig.run.workload = &spoilt;
    check_ok(aorta_hwq_run_execute(&rig.run, &result));
    assert_string_equal(result.verified, "failed");
    assert_non_null(result.worst_at);
    check_text(&rig.run, &result, "tiny_kernel_stress: verification failed: ");
    check_text(&rig.run, &result, result.worst_at);
    check_text(&rig.run, &result, ", expected ");
    aorta_hwq_result_free(&result);
    close_rig(&rig);
}

/* ---- what figures mean ---- */

/* A capture without the work: the captured iteration is the one that is verified. */
static aorta_status run_but_in_graphs(const struct hwq_operation *o, struct aorta_stream *stream) {
    return aorta_stream_capturing(stream) ? NULL : unspoilt_kind->run(o, stream);
}

static void build_hollow(struct hwq_graph *g) {
    static struct hwq_kind hollow;
    unspoilt->build(g);
    for (struct hwq_operation *o = g->first; o; o = o->next) {
        if (o->kind == &hollow) continue;
        unspoilt_kind = o->kind;
        hollow = *o->kind;
        hollow.run = run_but_in_graphs;
        o->kind = &hollow;
    }
}

static void test_with_graphs_the_replay_is_verified(void **state) {
    const struct setting settings[] = {{"size", "16"}, {0}};
    struct aorta_hwq_workload hollow;
    struct rig rig;
    (void)state;
    open_rig(&rig, "large_gemm_only", settings);
    unspoilt = rig.run.workload;
    hollow = *rig.run.workload;
    hollow.build = build_hollow;
    rig.run.workload = &hollow;
    for (int graph = 0; graph < 2; graph++) {
        struct aorta_hwq_result result;
        rig.run.graph = graph;
        check_ok(aorta_hwq_run_execute(&rig.run, &result));
        assert_string_equal(result.verified, graph ? "failed" : "passed");
        aorta_hwq_result_free(&result);
    }
    close_rig(&rig);
}

static void test_overlap_says_who_pays(void **state) {
    const struct setting settings[] = {{"mm_dim", "32"}, {"comm_size", "4K"}, {0}};
    struct aorta_hwq_result result;
    struct rig rig;
    (void)state;
    open_rig(&rig, "comms_compute_overlap", settings);
    rig.run.streams = 4;
    check_ok(aorta_hwq_run_execute(&rig.run, &result));
    assert_int_equal(result.found.count, 1); /* one rank: copies hide nothing */
    assert_true(result.found.items[0].finding > AORTA_HWQ_OVERLAP_UNCLEAR);
    assert_true(isnan(aorta_hwq_result_find(&result, "gain")->value));
    assert_true(isnan(aorta_hwq_result_find(&result, "hidden")->value));
    check_text(&rig.run, &result, "hidden                          not known: one rank: copies replace");
    check_text(&rig.run, &result, "\nAll collectives, from the first start to the last end\n  comms alone ");
    aorta_hwq_result_free(&result);
    close_rig(&rig);
}

/* Each fact of the answer is in the file, with its unit and place. */
static void check_facts(const struct aorta_hwq_result *result) {
    struct aorta_text text = {0};
    struct aorta_json json;
    const char *key, *unit, *place;
    double value;
    aorta_json_begin(&json, &text, 0);
    aorta_hwq_result_json(result, &json);
    check_ok(aorta_text_check(&text));
    json_t *root = json_loads(text.data, 0, NULL);
    assert_non_null(root);
    assert_string_equal(json_string_value(json_object_get(root, "headline")) + strlen("hetero_kernels: "),
                        json_string_value(json_array_get(json_object_get(root, "findings"), 0)));
    assert_int_equal(json_unpack(json_array_get(json_object_get(root, "facts"), 0), "{s:s, s:F, s:s, s:s}", "key", &key,
                                 "value", &value, "unit", &unit, "place", &place),
                     0);
    assert_true(value == aorta_hwq_result_find(result, key)->value);
    assert_string_equal(unit, "us");
    assert_string_equal(place, "Tiny kernels, from one end to the next on their stream");
    json_decref(root);
    aorta_text_free(&text);
}

static void test_convoys_are_reported_or_denied(void **state) {
    const struct setting settings[] = {{"size", "48"}, {0}};
    struct aorta_hwq_result result;
    struct rig rig;
    (void)state;
    open_rig(&rig, "hetero_kernels", settings);
    check_ok(aorta_hwq_run_execute(&rig.run, &result));
    const double alone = aorta_hwq_result_find(&result, "tiny_alone_p50")->value;
    const double during = aorta_hwq_result_find(&result, "tiny_during_gemm_p50")->value;
    assert_int_equal(result.found.count, 1);
    assert_true(aorta_hwq_result_find(&result, "tiny_samples")->value < 1000); /* too few for the p99 */
    /* A difference of a few tenths of a microsecond is the core's clock rate, and a kernel shorter than a microsecond
     * waits as long for its core: of neither a convoy is claimed. */
    const bool longer = during >= 1.2 * alone && during - alone >= 0.5;
    assert_int_equal(result.found.items[0].finding, !longer      ? AORTA_HWQ_NO_CONVOY
                                                    : alone >= 1 ? AORTA_HWQ_CONVOY
                                                                 : AORTA_HWQ_CONVOY_UNCLEAR);
    /* Factor and answer have the same percentile. */
    assert_true(fabs(aorta_hwq_result_find(&result, "convoy_factor")->value - during / alone) < 1e-9);
    check_text(&rig.run, &result, "hetero_kernels: ");
    check_text(&rig.run, &result, "convoy effect");
    check_facts(&result);
    aorta_hwq_result_free(&result);
    close_rig(&rig);
}

/* comms_compute_overlap has one stream of high priority: of 4 switches in turn 2 are between priorities. */
static void test_switches_by_priority(void **state) {
    const struct setting settings[] = {{"mm_dim", "16"}, {"comm_size", "1K"}, {0}};
    struct aorta_hwq_result result;
    struct rig rig;
    (void)state;
    open_rig(&rig, "comms_compute_overlap", settings);
    rig.run.streams = 4;
    check_ok(aorta_hwq_run_execute(&rig.run, &result));
    const struct aorta_hwq_switch *found = &result.switch_latency;
    assert_true(found->probe.same_priority.samples > 200 && found->probe.across_priorities.samples > 200);
    assert_true(found->overhead_ms == found->probe.same_priority.overhead_ms);
    assert_true(found->probe.quickest.gap_ms <= found->probe.slowest.gap_ms);
    check_text(&rig.run, &result, "to a stream of another priority");
    aorta_hwq_result_free(&result);
    rig.run.streams = 2; /* now each one does */
    check_ok(aorta_hwq_run_execute(&rig.run, &result));
    assert_int_equal(found->probe.same_priority.samples, 0);
    assert_true(isnan(found->probe.same_priority.gap_ms));
    assert_true(found->overhead_ms == found->probe.across_priorities.overhead_ms);
    aorta_hwq_result_free(&result);
    close_rig(&rig);
}

static void test_streams_that_differ_are_named(void **state) {
    struct aorta_hwq_result result = {.workload_name = "tiny_kernel_stress", .stream_count = 4, .throughput_unit = "x"};
    struct rig rig;
    (void)state;
    open_rig(&rig, "tiny_kernel_stress", NULL);
    result.switch_latency = (struct aorta_hwq_switch){
        .inter_samples = 1,
        .intra_samples = 1,
        .overhead_ms = 0.02,
        .probe = {.same_priority = {0.021, 0.02, 500}, .quickest = {0, 1, 0.0015}, .slowest = {2, 3, 0.040}}};
    result.throughput = 5105432;
    check_text(&rig.run, &result, "  throughput  5105432 x");
    check_text(&rig.run, &result,
               "  pairs       fastest 1.5 us, from stream 0 to 1; slowest 40 us, from stream 2 to 3");
    result.limit = (struct aorta_hwq_limit){
        .key = "waiting", .by = AORTA_HWQ_LIMIT_WAITING, .busy_share = 0.997, .waiting_share = 0.003};
    check_text(&rig.run, &result, "  device      busy 100% of the iteration\n");
    result.limit.by = AORTA_HWQ_LIMIT_KERNELS; /* says how long kernels run */
    result.limit.waiting_share = 0.02;
    check_text(&rig.run, &result, "  device      busy 100%, waiting 2% of the iteration\n");
    result.limit.waiting_share = 0;
    struct aorta_text text = {0};
    aorta_hwq_run_text(&rig.run, &result, false, &text);
    assert_false(text_has(text.data, "  device      busy"));
    aorta_text_free(&text);
    result.limit.by = AORTA_HWQ_LIMIT_WAITING;
    check_text(&rig.run, &result,
               "  try         --graph makes launches and waits between streams cheaper; aorta hwq sweep shows");
    close_rig(&rig);
}

static void test_settings_that_do_not_fit(void **state) {
    struct aorta_hwq_result result;
    struct rig rig;
    (void)state;
    open_rig(&rig, "large_gemm_only", NULL);
    rig.run.streams = 17;
    check_fails(aorta_hwq_run_execute(&rig.run, &result), AORTA_USAGE, "runs on 1 to 16 streams (4 recommended)");
    aorta_hwq_result_free(&result);
    close_rig(&rig);
    const struct setting settings[] = {{"real_collectives", "true"}, {0}};
    open_rig(&rig, "comms_compute_overlap", settings);
    check_fails(aorta_hwq_run_execute(&rig.run, &result), AORTA_USAGE, "--real-collectives needs several ranks");
    aorta_hwq_result_free(&result);
    close_rig(&rig);
}

/* Numbers of gates are those of the whole run: the timing pass has closed four before. */
static void test_stamps_are_written_by_gate(void **state) {
    const struct setting settings[] = {{"size", "16"}, {0}};
    struct aorta_hwq_stamps_file stamps_file = {0};
    struct aorta_hwq_result result;
    struct rig rig;
    (void)state;
    open_rig(&rig, "hetero_kernels", settings);
    rig.run.streams = 2;
    rig.run.gate = true;
    rig.run.stamps_file = &stamps_file;
    check_ok(aorta_hwq_run_execute(&rig.run, &result));
    assert_true(stamps_file.tick_ns > 0);
    aorta_text_puts(&stamps_file.iterations, "]");
    json_t *iterations = json_loads(stamps_file.iterations.data, 0, NULL);
    assert_int_equal(json_array_size(iterations), 4 + 8);
    for (size_t i = 0; i < 4 + 8; i++) {
        static const char *const passes[] = {"workload", "probe"};
        static const size_t stamps[] = {11, 2 * 64}, marks[] = {1, 0};
        const json_t *iteration = json_array_get(iterations, i), *all = json_object_get(iteration, "stamps");
        const int pass = i >= 4;
        json_int_t marked = 0;
        assert_string_equal(json_string_value(json_object_get(iteration, "pass")), passes[pass]);
        assert_int_equal(json_integer_value(json_object_get(iteration, "gate")), i + 5);
        assert_int_equal(json_array_size(all), stamps[pass]);
        for (size_t k = 0; k < stamps[pass]; k++)
            marked += json_integer_value(json_array_get(json_array_get(all, k), 2));
        assert_int_equal(marked, marks[pass]);
    }
    json_decref(iterations);
    aorta_hwq_stamps_file_free(&stamps_file);
    aorta_hwq_result_free(&result);
    close_rig(&rig);
}

static void test_the_json_has_the_originals_keys(void **state) {
    static const char *const keys[] = {"schema_version",  "workload_name", "stream_count", "throughput",
                                       "throughput_unit", "total_time_ms", "timestamp"};
    const struct setting settings[] = {{"chains", "2"}, {0}};
    struct aorta_hwq_result result;
    struct aorta_text text = {0};
    struct aorta_json json;
    struct rig rig;
    (void)state;
    open_rig(&rig, "tiny_kernel_stress", settings);
    check_ok(aorta_hwq_run_execute(&rig.run, &result));
    aorta_json_begin(&json, &text, 2);
    aorta_hwq_result_json(&result, &json);
    json_t *root = json_loads(text.data, 0, NULL);
    assert_non_null(root);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) assert_non_null(json_object_get(root, keys[i]));
    assert_int_equal(json_array_size(json_object_get(root, "iteration_times_ms")), 4);
    assert_true(json_is_number(json_object_get(json_object_get(root, "latency_ms"), "p99")));
    assert_true(
        json_is_number(json_object_get(json_object_get(root, "switch_latency"), "estimated_switch_overhead_ms")));
    const json_t *metadata = json_object_get(root, "metadata");
    assert_string_equal(json_string_value(json_object_get(json_object_get(metadata, "config"), "device")), "cpu:0");
    assert_int_equal(json_number_value(json_object_get(json_object_get(metadata, "workload_config"), "chains")), 2);
    json_decref(root);
    aorta_text_free(&text);
    aorta_hwq_result_free(&result);
    close_rig(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gaps_of_a_known_iteration),
        cmocka_unit_test(test_gaps_of_the_host_are_separate),
        cmocka_unit_test(test_gaps_around_calls_of_the_host),
        cmocka_unit_test(test_a_span_without_length_does_not_precede_itself),
        cmocka_unit_test(test_scaling_finds_peak_and_inflection),
        cmocka_unit_test(test_the_table_of_a_sweep_has_three_digits),
        cmocka_unit_test(test_process_groups),
        cmocka_unit_test(test_sizes_and_shapes),
        cmocka_unit_test(test_unknown_workloads_name_the_nearest),
        cmocka_unit_test(test_tiny_kernel_stress),
        cmocka_unit_test(test_large_gemm_only),
        cmocka_unit_test(test_hetero_kernels),
        cmocka_unit_test(test_comms_compute_overlap),
        cmocka_unit_test(test_compute_alone),
        cmocka_unit_test(test_launches_are_counted),
        cmocka_unit_test(test_wrong_results_are_found),
        cmocka_unit_test(test_with_graphs_the_replay_is_verified),
        cmocka_unit_test(test_overlap_says_who_pays),
        cmocka_unit_test(test_convoys_are_reported_or_denied),
        cmocka_unit_test(test_switches_by_priority),
        cmocka_unit_test(test_streams_that_differ_are_named),
        cmocka_unit_test(test_settings_that_do_not_fit),
        cmocka_unit_test(test_stamps_are_written_by_gate),
        cmocka_unit_test(test_the_json_has_the_originals_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
