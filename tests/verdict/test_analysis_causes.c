/* Small traces made by hand: each cause of lost time is found and named. */
#include "analysis/analysis.h"
#include "analysis/analysis_internal.h"
#include "report/trace_report.h"
#include "said.h"
#include "samples/dump.h"
#include "trace/builder.h"
#include "verdict/verdict.h"

/* A trace under construction, and its analysis. */
struct made {
    struct aorta_trace_builder *builder;
    uint64_t correlation;
    struct aorta_trace_list list;
    struct aorta_trace_analysis analysis;
    struct aorta_verdict verdict;
};

static uint32_t text(const struct made *made, const char *string) {
    return aorta_trace_builder_text(made->builder, string, strlen(string));
}

static void begin_format(struct made *made, int rank, enum aorta_trace_format format) {
    check_ok(aorta_trace_builder_create(format, "made", NULL, &made->builder));
    aorta_trace_builder_head(made->builder)->rank = rank;
    made->correlation = 0;
}

static void begin(struct made *made, int rank) {
    begin_format(made, rank, AORTA_TRACE_KINETO);
}

/* A rank on a device of an H100's size. */
static void begin_on(struct made *made, const char *name) {
    begin(made, 0);
    const struct aorta_trace_device device = {
        .name = text(made, name), .memory_bytes = 85018279936, .multiprocessors = 132, .major = 9};
    aorta_trace_builder_device(made->builder, &device);
}

static void call(struct made *made, const char *name, int64_t thread, int64_t start, int64_t end, bool launch) {
    const struct aorta_trace_call one = {.start_ns = start,
                                         .end_ns = end,
                                         .correlation = launch ? made->correlation : 0,
                                         .name = text(made, name),
                                         .thread = aorta_trace_builder_thread(made->builder, 1, thread)};
    struct aorta_trace_call sorted = one;
    enum aorta_trace_call_kind kind;
    assert_true(aorta_trace_call_classify(name, &kind));
    sorted.kind = (uint8_t)kind;
    aorta_trace_builder_call(made->builder, &sorted);
}

/* A kernel with its launch. `operation` -1: of none. */
static void kernel(struct made *made, const char *name, int64_t stream, int64_t launch, int64_t start, int64_t end,
                   int64_t operation, const struct aorta_trace_collective *facts) {
    made->correlation++;
    const struct aorta_trace_work work = {.start_ns = start,
                                          .end_ns = end,
                                          .bytes = -1,
                                          .correlation = made->correlation,
                                          .name = text(made, name),
                                          .stream = aorta_trace_builder_stream(made->builder, 0, -1, stream),
                                          .queue = AORTA_TRACE_NONE,
                                          .kind = AORTA_TRACE_KERNEL};
    aorta_trace_builder_work(made->builder, &work, operation, facts, -1);
    call(made, "cudaLaunchKernel", 1, launch, launch + 2, true);
}

static void add(struct made *made) {
    struct aorta_trace *trace;
    check_ok(aorta_trace_builder_finish(made->builder, &trace));
    check_ok(aorta_trace_list_add(&made->list, trace));
}

static void analyze(struct made *made) {
    check_ok(aorta_trace_analyze(&made->list, NULL, &made->analysis));
    said_make(&made->analysis, &made->verdict);
}

static void end(struct made *made) {
    aorta_verdict_free(&made->verdict);
    aorta_trace_analysis_free(&made->analysis);
    aorta_trace_list_free(&made->list);
}

static const struct aorta_finding *find(const struct made *made, enum aorta_cause cause) {
    return said_finding(&made->verdict, cause);
}

/* The cause costs so much, and there is something to do about it. */
static const struct aorta_finding *expect(const struct made *made, enum aorta_cause cause, int64_t ns) {
    const struct aorta_finding *finding = find(made, cause);
    assert_non_null(finding);
    if (llround(finding->cost_ms * 1e6) != ns || !finding->fix_count)
        fail_msg("%s: %.6f ms, \"%s\"; expected %lld ns", aorta_cause_name(cause), finding->cost_ms,
                 said_evidence(&made->verdict, finding), (long long)ns);
    return finding;
}

static void expect_place(const struct aorta_finding *finding, enum aorta_fact_key key, const char *name) {
    assert_string_equal(said_place(finding, key), name);
}

/* The host waited from long before the device ran dry until then: all of the time up to the next launch is lost to it.
 */
static void a_long_wait_takes_the_gap(void **state) {
    (void)state;
    struct made made = {0};
    begin(&made, 0);
    kernel(&made, "relu", 7, 900, 1000, 2000, -1, NULL);
    call(&made, "cudaStreamSynchronize", 1, 950, 2010, false);
    kernel(&made, "gelu", 7, 3000, 3010, 4000, -1, NULL);
    add(&made);
    analyze(&made);
    const struct aorta_fact *gap = said_fact(expect(&made, AORTA_CAUSE_HOST_SYNC, 1000), AORTA_FACT_GAP);
    assert_string_equal(gap->place.name, "gelu");
    assert_string_equal(gap->place.host, "cudaStreamSynchronize");
    assert_int_equal(gap->place.stream, 7);
    assert_int_equal(gap->place.rank, -1); /* there is one */
    said_near(gap->value, 1000e-6, 1e-12);
    const struct aorta_finding *latency = expect(&made, AORTA_CAUSE_LAUNCH_LATENCY, 10);
    said_near(said_value(latency, AORTA_FACT_IDLE_STARTED), 10e-6, 1e-12);
    const struct aorta_fact *largest = said_fact(expect(&made, AORTA_CAUSE_COMPUTE, 1990), AORTA_FACT_KERNEL);
    assert_string_equal(largest->place.name, "relu");
    said_near(largest->place.count, 1, 0);
    said_near(largest->value, 1000e-6, 1e-12);
    expect_place(find(&made, AORTA_CAUSE_COMPUTE), AORTA_FACT_KERNEL_2, "gelu");
    assert_false(said_has(find(&made, AORTA_CAUSE_COMPUTE), AORTA_FACT_KERNEL_3));
    assert_int_equal(made.analysis.ranks[0].gap_count, 1);
    assert_int_equal(aorta_idle_largest(&made.analysis.ranks[0].gaps[0].idle), AORTA_IDLE_HOST_SYNC);
    end(&made);
}

/* A wait of 20 ns costs itself and 20 ns of what follows; the rest the host took for other things. */
static void a_short_wait_takes_its_length(void **state) {
    (void)state;
    struct made made = {0};
    begin(&made, 0);
    kernel(&made, "relu", 7, 900, 1000, 2000, -1, NULL);
    call(&made, "cudaStreamSynchronize", 1, 1990, 2010, false);
    call(&made, "cudaStreamSynchronize", 2, 2000, 2900, false); /* a thread that launches nothing */
    kernel(&made, "gelu", 7, 3000, 3010, 4000, -1, NULL);
    add(&made);
    analyze(&made);
    (void)expect(&made, AORTA_CAUSE_HOST_SYNC, 30);
    const struct aorta_finding *late = expect(&made, AORTA_CAUSE_HOST_LAUNCH, 970);
    said_near(said_value(late, AORTA_FACT_IDLE_UNQUEUED), 970e-6, 1e-12);
    expect_place(expect(&made, AORTA_CAUSE_LAUNCH_LATENCY, 10), AORTA_FACT_GAP, "gelu");
    end(&made);
}

static void waiting_for_data_has_its_own_cause(void **state) {
    (void)state;
    struct made made = {0};
    begin(&made, 0);
    kernel(&made, "relu", 7, 900, 1000, 2000, -1, NULL);
    const struct aorta_trace_annotation wait = {
        2100, 2800, text(&made, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"),
        aorta_trace_builder_thread(made.builder, 1, 1)};
    aorta_trace_builder_annotation(made.builder, &wait);
    kernel(&made, "gelu", 7, 3000, 3010, 4000, -1, NULL);
    add(&made);
    analyze(&made);
    const struct aorta_finding *waits = expect(&made, AORTA_CAUSE_DATA_WAIT, 700);
    expect_place(waits, AORTA_FACT_GAP, "gelu");
    said_near(said_value(waits, AORTA_FACT_IDLE_DATA), 700e-6, 1e-12);
    (void)expect(&made, AORTA_CAUSE_HOST_LAUNCH, 300);
    end(&made);
}

/* Ten products alone, ten beside a collective that makes them half as long again. */
static void products_slow_down_beside_collectives(void **state) {
    (void)state;
    static const char dims[] = "[[64, 32], [32, 16]]", types[] = "[\"float\", \"float\"]";
    struct made made = {0};
    begin(&made, 0);
    for (int64_t i = 0; i < 20; i++) {
        int64_t start = 1000 + i * 200;
        const struct aorta_trace_annotation frame = {0, 0, text(&made, "aten::mm"), 0};
        const struct aorta_operation operation = {.name = "aten::mm",
                                                  .name_length = strlen("aten::mm"),
                                                  .dims = {dims, strlen(dims)},
                                                  .types = {types, strlen(types)}};
        aorta_trace_builder_operation(made.builder, &frame, i, &operation);
        kernel(&made, "nvjet_sm90_tst", 7, start - 50, start, start + (i < 10 ? 100 : 150), i, NULL);
    }
    kernel(&made, "ncclDevKernel_AllGather_RING_LL", 9, 2900, 3000, 5000, -1, NULL);
    add(&made);
    analyze(&made);
    const struct aorta_trace_rank *rank = &made.analysis.ranks[0];
    assert_int_equal(rank->gemm_count, 1);
    assert_int_equal(rank->gemms[0].alone, 10);
    assert_int_equal(rank->gemms[0].beside, 10);
    assert_true(fabs(rank->gemms[0].slowdown - 1.5) < 1e-12);
    assert_true(fabs(rank->gemms[0].flops - 2.0 * 64 * 32 * 16) < 1e-6);
    assert_int_equal(rank->figures.overlap_ns, 1500);
    const struct aorta_finding *slower = expect(&made, AORTA_CAUSE_CONTENTION, 500);
    expect_place(slower, AORTA_FACT_GEMM_SLOWER, "nvjet_sm90_tst");
    said_near(said_value(slower, AORTA_FACT_GEMM_SLOWER), 0.5, 1e-9);
    said_near(said_value(slower, AORTA_FACT_SAMPLES_BESIDE), 10, 0);
    assert_false(said_has(slower, AORTA_FACT_BY_GRID));
    assert_int_equal(expect(&made, AORTA_CAUSE_EXPOSED_COLLECTIVE, 500)->collective, AORTA_ALL_GATHER);
    end(&made);
}

/* Without shapes (rocprofv3, recorded programs): a kernel and its grid. Two grids of one kernel, whose times differ by
 * more than what the collective costs, are not mixed up. */
static void products_without_shapes_differ_by_their_grids(void **state) {
    (void)state;
    static const int64_t blocks[2][3] = {{12, 4, 1}, {3, 1, 1}}, threads[3] = {256, 1, 1};
    struct made made = {0};
    begin(&made, 0);
    for (int64_t i = 0; i < 40; i++) {
        int64_t start = 1000 + i * 200, alone = i % 2 ? 20 : 100;
        kernel(&made, "nvjet_sm90_tst", 7, start - 50, start, start + alone * (i < 20 ? 2 : 3) / 2, -1, NULL);
        aorta_trace_builder_geometry(made.builder, blocks[i % 2], threads);
    }
    kernel(&made, "not_a_product", 7, 8980, 8990, 8995, -1, NULL);
    aorta_trace_builder_geometry(made.builder, blocks[0], threads);
    kernel(&made, "ncclDevKernel_AllGather_RING_LL", 9, 4900, 5000, 9000, -1, NULL);
    add(&made);
    analyze(&made);
    const struct aorta_trace_rank *rank = &made.analysis.ranks[0];
    assert_int_equal(rank->work[41].geometry, AORTA_TRACE_NONE); /* the last */
    assert_int_equal(rank->gemm_count, 2);
    assert_string_equal(aorta_trace_text(rank->trace, rank->gemms[0].geometry), "12x4x1 of 256x1x1");
    assert_string_equal(aorta_trace_text(rank->trace, rank->gemms[1].geometry), "3x1x1 of 256x1x1");
    for (int i = 0; i < 2; i++) assert_true(fabs(rank->gemms[i].slowdown - 1.5) < 1e-12);
    const struct aorta_slowdown *slowdown = &made.verdict.slowdown;
    assert_true(fabs(slowdown->ratio - 1.5) < 1e-12);
    assert_int_equal(slowdown->shapes, 2);
    assert_int_equal(slowdown->by_grid, 2);
    const struct aorta_finding *slower = expect(&made, AORTA_CAUSE_CONTENTION, 600);
    said_near(said_value(slower, AORTA_FACT_SLOWER), 0.5, 1e-9);
    assert_true(said_has(slower, AORTA_FACT_BY_GRID));
    said_expect(said_evidence(&made.verdict, slower), "by kernel and grid, as shapes are not recorded");
    said_expect(said_words(&made.verdict), "GEMMs 50% slower during communication");
    end(&made);
}

/* A kernel that stays on the device has one grid for products of all sizes. */
static void products_of_one_grid_may_have_other_shapes(void **state) {
    (void)state;
    static const int64_t blocks[3] = {112, 1, 1}, threads[3] = {384, 1, 1};
    struct made made = {0};
    begin(&made, 0);
    for (int64_t i = 0; i < 40; i++) {
        const int64_t start = 1000 + i * 200, size = 20 * (1 + i % 4);
        kernel(&made, "grouped_gemm::GemmKernel", 7, start - 50, start, start + size * (i < 20 ? 1 : 2), -1, NULL);
        aorta_trace_builder_geometry(made.builder, blocks, threads);
    }
    kernel(&made, "ncclDevKernel_AllGather_RING_LL", 9, 4900, 5000, 9000, -1, NULL);
    add(&made);
    analyze(&made);
    assert_int_equal(made.analysis.ranks[0].gemms[0].alone, 20);
    assert_true(isnan(made.analysis.ranks[0].gemms[0].slowdown));
    assert_true(isnan(made.verdict.slowdown.ratio));
    assert_non_null(strstr(made.verdict.slowdown.reason, "each time as long"));
    assert_true(isnan(made.verdict.slowdown.lost_per_ns));
    end(&made);
}

/* Three collectives of two ranks. Rank 1 comes 400 ns late to the second, with a device that had nothing to do. */
static void the_last_rank_is_named(void **state) {
    (void)state;
    struct made made = {0};
    for (int rank = 0; rank < 2; rank++) {
        begin(&made, rank);
        const int32_t ranks[] = {0, 1};
        struct aorta_trace_collective facts = aorta_trace_unknown_collective;
        facts.in_elements = facts.out_elements = 1000;
        facts.bytes = 4000;
        facts.name = text(&made, "allreduce");
        facts.dtype = text(&made, "Float");
        facts.group = aorta_trace_builder_group(made.builder, text(&made, "0"), text(&made, "all"), 2, ranks, 2);
        facts.group_size = 2;
        facts.kind = AORTA_ALL_REDUCE;
        facts.named = true;
        for (int i = 0; i < 5; i++) {
            int64_t start = 1000 + 2000 * i, late = rank == 1 && i == 1 ? 400 : 0;
            facts.sequence = i;
            kernel(&made, "relu", 7, start - 20, start, start + 500, -1, NULL);
            kernel(&made, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 9, start + 500 + late, start + 600 + late,
                   start + 1600, -1, &facts);
        }
        add(&made);
    }
    analyze(&made);
    const struct aorta_trace_analysis *analysis = &made.analysis;
    assert_int_equal(analysis->rank_count, 2);
    assert_int_equal(analysis->alignment.shared_count, 5);
    assert_int_equal(analysis->alignment.clocks[1].shift_ns, 0);
    const struct aorta_finding *late = expect(&made, AORTA_CAUSE_STRAGGLER, 200);
    assert_int_equal(late->rank, 1);
    assert_true(said_has(late, AORTA_FACT_LATE_HOST) && !said_has(late, AORTA_FACT_LATE_DEVICE));
    const struct aorta_fact *skew = said_fact(late, AORTA_FACT_SKEW);
    said_near(skew->value, 400e-6, 1e-12);
    assert_int_equal(skew->place.rank, 1);
    assert_string_equal(skew->place.name, "all_reduce");
    const struct aorta_trace_collective_row *row = &analysis->ranks[0].collectives[0];
    assert_int_equal(row->waits_known, 5);
    assert_int_equal(row->wait_ns, 400);
    assert_int_equal(row->bytes, 20000);
    assert_true(fabs(row->algbw_gbps - 20000.0 / 5000) < 1e-12);
    assert_true(fabs(row->busbw_gbps - row->algbw_gbps) < 1e-12); /* 2 (n − 1) / n with two ranks is 1 */
    assert_true(fabs(row->transfer_busbw_gbps - 20000.0 / 4600) < 1e-12);
    end(&made);
}

/* Without launches idle time has no cause, and the verdict says what to record. */
static void what_is_not_recorded_is_not_blamed(void **state) {
    (void)state;
    struct made made = {0};
    begin(&made, 0);
    for (int64_t i = 0; i < 4; i++) {
        const struct aorta_trace_work work = {.start_ns = 1000 + i * 1000,
                                              .end_ns = 1100 + i * 1000,
                                              .bytes = -1,
                                              .name = text(&made, "relu"),
                                              .stream = aorta_trace_builder_stream(made.builder, 0, -1, 7),
                                              .queue = AORTA_TRACE_NONE,
                                              .kind = AORTA_TRACE_KERNEL};
        aorta_trace_builder_work(made.builder, &work, -1, NULL, -1);
    }
    add(&made);
    analyze(&made);
    const struct aorta_finding *gaps = find(&made, AORTA_CAUSE_HOST_LAUNCH);
    said_expect(said_words(&made.verdict), "unexplained gaps");
    assert_null(strstr(said_text(&made.verdict), "late kernel launches"));
    assert_true(said_has(gaps, AORTA_FACT_UNEXPLAINED) && !said_has(gaps, AORTA_FACT_IDLE_UNQUEUED));
    said_expect(said_advice(gaps), "record launches, too");
    assert_int_equal(made.analysis.ranks[0].idle.ns[AORTA_IDLE_UNKNOWN], 2700);
    end(&made);
}

/* 40 kernels, launched one by one: each call takes 5.7 us, of which CUPTI 3.5 where it recorded, and the host 10.3 us
 * more until the next. */
static void make_late(struct made *made, enum aorta_trace_format format, int64_t kernel_ns) {
    enum { FIRST = 1000000, CALL_NS = 5700, UNIT_NS = 16000, LATENCY_NS = 3000 };
    *made = (struct made){0};
    begin_format(made, 0, format);
    for (int64_t i = 0, free_ns = 0; i < 40; i++) {
        const int64_t launched = FIRST + i * UNIT_NS + CALL_NS, ready = launched + LATENCY_NS;
        const int64_t start = ready > free_ns ? ready : free_ns;
        made->correlation++;
        const struct aorta_trace_work work = {.start_ns = start,
                                              .end_ns = free_ns = start + kernel_ns,
                                              .bytes = -1,
                                              .correlation = made->correlation,
                                              .name = text(made, "relu"),
                                              .stream = aorta_trace_builder_stream(made->builder, 0, -1, 7),
                                              .queue = AORTA_TRACE_NONE,
                                              .kind = AORTA_TRACE_KERNEL};
        aorta_trace_builder_work(made->builder, &work, -1, NULL, -1);
        call(made, "cudaLaunchKernel", 1, launched - CALL_NS, launched, true);
    }
    add(made);
    analyze(made);
}

static void expect_text(const struct made *made, const char *part) {
    said_expect(said_words(&made->verdict), part);
}

/* The host waits for each kernel, then takes 80 us to the next launch:
 *
 *     host    [launch][ wait           ]      80 us      [launch][ wait ...
 *     device        10 us [ 60 us ] 5 us
 *
 * Without the waits it would run ahead and take 82 us a kernel; if launches cost nothing, 75. The waits take most of
 * what launches would, so they come first, and launches get what is left. */
static void a_specific_cause_comes_before_launches(void **state) {
    (void)state;
    struct made made = {0};
    begin(&made, 0);
    for (int64_t i = 0; i < 20; i++) {
        const int64_t at = 1000000 + i * 155000;
        kernel(&made, "relu", 7, at, at + 10000, at + 70000, -1, NULL);
        call(&made, "cudaStreamSynchronize", 1, at + 1000, at + 75000, false);
    }
    add(&made);
    analyze(&made);
    const struct aorta_finding *waits = find(&made, AORTA_CAUSE_HOST_SYNC),
                               *launches = find(&made, AORTA_CAUSE_HOST_LAUNCH);
    assert_ptr_equal(waits, &made.verdict.findings[0]);
    assert_true(waits->gain_ms > 1.2 && waits->gain_ms < 1.5); /* 19 x 73 us */
    assert_true(launches && launches->gain_ms > 0.2 && launches->gain_ms < 0.5);
    end(&made);
}

/* .item() in a file without operations: a copy to the host, and a call that waits for it.
 *
 *     host    [launch][launch copy][ wait     ]      80 us      [launch][launch copy][ wait …
 *     device          [ 60 us ][copy]                                   [ 60 us ][copy] */
static void reads_are_recognised_by_their_copies(void **state) {
    (void)state;
    struct made made = {0};
    begin(&made, 0);
    for (int64_t i = 0; i < 20; i++) {
        const int64_t at = 1000000 + i * 165000;
        kernel(&made, "relu", 7, at, at + 10000, at + 70000, -1, NULL);
        made.correlation++;
        const struct aorta_trace_work copy = {.start_ns = at + 71000,
                                              .end_ns = at + 72000,
                                              .bytes = 4,
                                              .correlation = made.correlation,
                                              .name = text(&made, "Memcpy DtoH"),
                                              .stream = aorta_trace_builder_stream(made.builder, 0, -1, 7),
                                              .queue = AORTA_TRACE_NONE,
                                              .kind = AORTA_TRACE_COPY};
        aorta_trace_builder_work(made.builder, &copy, -1, NULL, -1);
        call(&made, "cudaMemcpyAsync", 1, at + 500, at + 1000, true);
        call(&made, "cudaStreamSynchronize", 1, at + 1500, at + 77000, false);
    }
    add(&made);
    analyze(&made);
    const struct aorta_finding *waits = find(&made, AORTA_CAUSE_HOST_SYNC);
    said_near(said_value(waits, AORTA_FACT_IDLE_SYNCED), 1.55, 0.05);
    said_near(said_value(waits, AORTA_FACT_CALLER), 20, 0);
    expect_place(waits, AORTA_FACT_CALLER, "cudaStreamSynchronize");
    assert_true(said_has(waits, AORTA_FACT_VALUES));
    expect_text(&made, "20 calls in all in cudaStreamSynchronize, for copies of a few bytes to the host");
    end(&made);
}

static void copy_by(struct made *made, const char *by, int64_t bytes, int64_t launch, int64_t returns, int64_t start,
                    int64_t end) {
    made->correlation++;
    const struct aorta_trace_work work = {.start_ns = start,
                                          .end_ns = end,
                                          .bytes = bytes,
                                          .correlation = made->correlation,
                                          .name = text(made, "Memcpy DtoH"),
                                          .stream = aorta_trace_builder_stream(made->builder, 0, -1, 7),
                                          .queue = AORTA_TRACE_NONE,
                                          .kind = AORTA_TRACE_COPY};
    aorta_trace_builder_work(made->builder, &work, -1, NULL, -1);
    call(made, by, 1, launch, returns, true);
}

static void copy(struct made *made, int64_t launch, int64_t returns, int64_t start, int64_t end) {
    copy_by(made, "cudaMemcpy", 4096, launch, returns, start, end);
}

/* A value is read after each kernel; what the read takes besides the wait is the read's, too:
 *
 *     host    [launch]10[launch copy]4[ wait ]  20 us  [launch] …       16 us a read, 6 of it the wait, of 46
 *     device      [ 8 us     ][copy]
 *
 * Without reads a launch follows 10 us after another (the usual gap): 12 us. */
static void a_read_is_more_than_its_wait(void **state) {
    (void)state;
    struct made made = {0};
    begin(&made, 0);
    for (int64_t i = 0; i < 100; i++) {
        const int64_t at = 1000000 + i * 46000;
        kernel(&made, "norm", 7, at, at + 4000, at + 12000, -1, NULL);
        copy_by(&made, "cudaMemcpyAsync", 4, at + 12000, at + 18000, at + 19000, at + 20000);
        call(&made, "cudaStreamSynchronize", 1, at + 22000, at + 26000, false);
        kernel(&made, "relu", 7, at + 36000, at + 40000, at + 41000, -1, NULL);
    }
    add(&made);
    analyze(&made);
    const struct aorta_finding *waits = find(&made, AORTA_CAUSE_HOST_SYNC);
    assert_ptr_equal(waits, &made.verdict.findings[0]);
    assert_true(waits->gain_ms > 0.3 * 4.6);
    end(&made);
}

/* A copy of 1 us that returns when it is done, behind a kernel of 60 us:
 *
 *     host    [launch][ cudaMemcpy        ]      80 us      [launch][ cudaMemcpy …
 *     device          [ 60 us ][1 us] 5 us */
static void wait_in_copies(struct made *made, const char *call_name, int64_t bytes) {
    begin(made, 0);
    for (int64_t i = 0; i < 20; i++) {
        const int64_t at = 1000000 + i * 165000;
        kernel(made, "relu", 7, at, at + 10000, at + 70000, -1, NULL);
        copy_by(made, call_name, bytes, at + 500, at + 77000, at + 71000, at + 72000);
    }
    add(made);
    analyze(made);
}

/* The host's lead is lost, not the copy's microsecond: the row says so, and advises against waiting. */
static void a_copy_that_waits_says_so(void **state) {
    (void)state;
    struct made made = {0};
    wait_in_copies(&made, "cudaMemcpy", 4096);
    const struct aorta_finding *first = &made.verdict.findings[0];
    assert_int_equal(first->cause, AORTA_CAUSE_COPY);
    assert_true(first->gain_ms > 1.2 && first->gain_ms < 1.7 && first->cost_ms < 0.03);
    assert_true(said_has(first, AORTA_FACT_HOST_WAITS));
    said_expect(said_evidence(&made.verdict, first), "the host waits inside the copy and launches late afterwards");
    said_expect(said_advice(first), "asynchronous copies from pinned memory");
    end(&made);
}

/* The same loop reads a flag of 4 bytes, which decides what is launched next: it is no data that could come in parts.
 * The reads wait, and no copy of theirs can be hidden. */
static void a_flag_that_is_read_is_a_wait(void **state) {
    (void)state;
    struct made made = {0};
    wait_in_copies(&made, "cudaMemcpyFromSymbol", 4);
    const struct aorta_finding *first = &made.verdict.findings[0];
    assert_int_equal(first->cause, AORTA_CAUSE_HOST_SYNC);
    assert_true(first->gain_ms > 1.2 && first->gain_ms < 1.7);
    assert_true(said_has(first, AORTA_FACT_VALUES));
    said_expect(said_evidence(&made.verdict, first), "20 calls in all in cudaMemcpyFromSymbol, for copies of a few");
    said_expect(said_advice(first), "read the value every tenth iteration");
    assert_false(aorta_finding_gains(find(&made, AORTA_CAUSE_COPY)));
    end(&made);
}

/* Launches, copies and waits in any order, of any length: a gain is within the step, and where that of copies is above
 * what they cost, the host waits in them. */
static void gains_above_costs_are_explained(void **state) {
    (void)state;
    uint64_t seed = 1;
    size_t above = 0;
    for (int round = 0; round < 200; round++) {
        struct made made = {0};
        begin_format(&made, 0, round % 2 ? AORTA_TRACE_SPOOL : AORTA_TRACE_KINETO);
        int64_t host = 1000000, device = 0;
        for (int i = 0; i < 60; i++) {
            seed = seed * 6364136223846793005U + 1442695040888963407U;
            const int64_t start = host + 8000 > device ? host + 8000 : device,
                          long_ns = 2000 + (int64_t)(seed >> 33) % 90000;
            const int kind = (int)(seed >> 20) % 4;
            device = start + long_ns;
            if (kind == 0) {
                copy(&made, host, device + 4000, start, device);
                host = device + 4000;
            } else {
                kernel(&made, "relu", 7, host, start, device, -1, NULL);
                host += 4000;
            }
            if (kind == 1) {
                call(&made, "cudaDeviceSynchronize", 1, host + 100, device + 5000, false);
                host = device + 5000;
            }
            host += 500 + (int64_t)(seed >> 40) % 60000;
        }
        add(&made);
        analyze(&made);
        const double step_ms = aorta_verdict_gained_ms(&made.verdict);
        for (size_t i = 0; i < made.verdict.finding_count; i++) {
            const struct aorta_finding *finding = &made.verdict.findings[i];
            double range_ms[2];
            aorta_finding_shown_range(finding, range_ms);
            assert_true(finding->gain_ms <= step_ms && finding->alone_ms <= step_ms);
            assert_true(range_ms[0] <= range_ms[1] && aorta_finding_shown_ms(finding) <= step_ms);
            if (finding->cause != AORTA_CAUSE_COPY) continue;
            if (finding->gain_ms <= 1.25 * finding->cost_ms + 0.01 * step_ms) continue;
            above++;
            if (!said_has(finding, AORTA_FACT_HOST_WAITS))
                fail_msg("round %d gains %g of %g ms and costs %g", round, finding->gain_ms, step_ms, finding->cost_ms);
        }
        end(&made);
    }
    assert_true(above > 20);
}

/* As where JAX reads a value: the host records nothing until the device has finished, and the recording has its cost.
 */
static void a_wait_without_a_call_is_said(void **state) {
    (void)state;
    enum { TURN_NS = 2100000, CALL_NS = 5700, UNIT_NS = 16000, UNITS = 4 };
    struct made made = {0};
    begin_format(&made, 0, AORTA_TRACE_SPOOL);
    for (int64_t i = 0; i < 20 * UNITS; i++) {
        const int64_t at = 1000000 + i / UNITS * TURN_NS + i % UNITS * UNIT_NS;
        const bool last = i % UNITS == UNITS - 1;
        made.correlation++;
        const struct aorta_trace_work work = {.start_ns = at + CALL_NS + 3000,
                                              .end_ns = at + (last ? 1950000 : CALL_NS + 5000),
                                              .bytes = -1,
                                              .correlation = made.correlation,
                                              .name = text(&made, last ? "gemm" : "relu"),
                                              .stream = aorta_trace_builder_stream(made.builder, 0, -1, 7),
                                              .queue = AORTA_TRACE_NONE,
                                              .kind = AORTA_TRACE_KERNEL};
        aorta_trace_builder_work(made.builder, &work, -1, NULL, -1);
        call(&made, "cudaLaunchKernel", 1, at, at + CALL_NS, true);
    }
    add(&made);
    analyze(&made);
    assert_true(made.verdict.replay.unrecorded_ms > 0);
    assert_int_equal(made.verdict.findings[0].cause, AORTA_CAUSE_HOST_SYNC);
    expect_place(&made.verdict.findings[0], AORTA_FACT_WAIT_BEFORE, "relu");
    end(&made);
}

/* What `aorta trace run` recorded holds its own cost: causes and gains are of the step without it. */
static void the_recordings_own_part_is_no_cause(void **state) {
    (void)state;
    struct made made;
    make_late(&made, AORTA_TRACE_SPOOL, 2000); /* the host is the limit, also without */
    const struct aorta_verdict_replay *replay = &made.verdict.replay;
    assert_true(replay->measured_ms > 0.62 && replay->measured_ms < 0.64);
    assert_true(replay->unrecorded_ms > 0.43 && replay->unrecorded_ms < 0.48); /* 11.9 us a launch, and the pace */
    assert_true(replay->unrecorded_range_ms[0] < replay->unrecorded_ms);
    assert_true(replay->unrecorded_range_ms[1] > replay->unrecorded_ms);
    const struct aorta_finding *late = &made.verdict.findings[0];
    assert_int_equal(late->cause, AORTA_CAUSE_HOST_LAUNCH);
    said_near(said_value(late, AORTA_FACT_RECORDED_STEP), replay->measured_ms, 1e-9);
    said_near(said_value(late, AORTA_FACT_LAUNCHES), 40, 0);
    said_near(said_value(late, AORTA_FACT_LAUNCH_PERIOD), 15.7, 0.05);
    said_near(said_value(late, AORTA_FACT_LAUNCH_WORK), 2, 1e-9);
    double costs_ms = 0;
    for (size_t i = 0; i < made.verdict.finding_count; i++) costs_ms += made.verdict.findings[i].cost_ms;
    said_near(costs_ms, replay->unrecorded_ms, 0.01 * replay->unrecorded_ms);
    expect_text(&made, "Verdict: late kernel launches: 0.4");
    expect_text(&made, " ms without the profiler (0.");
    expect_text(&made, "as recorded (0.626 ms): GPU idle ");
    expect_text(&made, "; 40 launches, one every 15.7 us, 2.00 us of work each");
    struct aorta_text text = {0};
    aorta_trace_report_json(&(struct aorta_trace_report){.analysis = &made.analysis, .verdict = &made.verdict}, 0,
                            &text);
    check_ok(aorta_text_check(&text));
    assert_non_null(strstr(text.data, "\"unrecorded_ms\": 0."));
    assert_non_null(strstr(text.data, "\"unrecorded_range_ms\": [0."));
    aorta_text_free(&text);
    end(&made);
    make_late(&made, AORTA_TRACE_SPOOL, 11000); /* without the device is */
    assert_true(made.verdict.replay.unrecorded_ms < made.verdict.replay.measured_ms);
    expect_text(&made, "Verdict: compute-bound: 9");
    end(&made);
}

/* Operations of a graph, each of which begins a moment before the one before it has ended: what is left is compute, and
 * the path has no other piece.
 *
 *   stream 7   [---- 50 us ----]
 *                             [---- 50 us ----]
 *                                            [---- 50 us ----]
 */
static void kernels_that_overlap_a_little_are_compute(void **state) {
    (void)state;
    struct made made = {0};
    begin(&made, 0);
    for (int64_t i = 0; i < 40; i++)
        kernel(&made, "relu", 7, 1000000 + i * 1000, 1100000 + i * 50000, 1150100 + i * 50000, -1, NULL);
    add(&made);
    analyze(&made);
    const struct aorta_verdict_left *left = &made.verdict.replay.left;
    assert_true(left->compute_ms > 1.95 && left->compute_ms < 2.01); /* 40 kernels, 50 us each */
    assert_true(left->starts_ms < 0.02);
    end(&made);
}

/* Advice is in the words of the framework that made the kernels; a program of nobody's gets none of PyTorch's. */
static void advice_is_in_the_frameworks_words(void **state) {
    (void)state;
    static const char *const names[] = {"relu", "void at::native::relu", "loop_add_fusion_7",
                                        "cupy_add__float32_float32_float32"};
    static const char *const words[] = {"cudaStreamBeginCapture", "torch.compile", "jax.jit around the whole step",
                                        "cupy.fuse"};
    for (int k = 0; k < 4; k++) {
        struct made made = {0};
        begin(&made, 0);
        for (int64_t i = 0; i < 20; i++)
            kernel(&made, names[k], 7, 1000000 + i * 50000, 1008000 + i * 50000, 1018000 + i * 50000, -1, NULL);
        add(&made);
        analyze(&made);
        const char *advice = said_advice(find(&made, AORTA_CAUSE_HOST_LAUNCH));
        said_expect(advice, words[k]);
        assert_int_equal(strstr(advice, "torch") != NULL, k == 1);
        end(&made);
    }
}

/* Remedies have the words of the framework, too. Only PyTorch's profiler can record sizes. */
static void remedies_are_in_the_frameworks_words(void **state) {
    (void)state;
    static const char *const names[] = {"relu", "void at::native::relu", "loop_add_fusion_7",
                                        "cupy_add__float32_float32_float32"};
    static const char *const words[] = {"TF32 as compute type", "torch.set_float32_matmul_precision",
                                        "jax.config.update", "CUPY_TF32=1"};
    static const int64_t MS = 1000000;
    for (int k = 0; k < 4; k++) {
        struct made made = {0};
        begin_on(&made, "NVIDIA H100 80GB HBM3");
        kernel(&made, "cutlass_80_simt_sgemm_128x128_8x4_nn_align1", 7, 0, 100, 100 + 6 * MS, 1, NULL);
        kernel(&made, names[k], 7, 10, 100 + 6 * MS, 100 + 7 * MS, 2, NULL);
        add(&made);
        analyze(&made);
        bool said = false;
        for (size_t i = 0; i < made.verdict.finding_count; i++)
            said |= strstr(said_advice(&made.verdict.findings[i]), words[k]) != NULL;
        if (!said) fail_msg("no %s in:\n%s", words[k], said_text(&made.verdict));
        const struct aorta_finding *precision = find(&made, AORTA_CAUSE_PRECISION);
        assert_true(said_has(precision, AORTA_FACT_UNSIZED));
        const bool torch = k == 1;
        const char *once = strstr(said_text(&made.verdict), "missing    sizes of operations");
        assert_non_null(once);
        assert_null(strstr(once + 20, "sizes of operations"));
        assert_int_equal(strstr(once, "record_shapes=True") != NULL, torch);
        assert_int_equal(said_has(find(&made, AORTA_CAUSE_COMPUTE), AORTA_FACT_LACKS), torch);
        assert_int_equal(strstr(said_evidence(&made.verdict, find(&made, AORTA_CAUSE_COMPUTE)),
                                "record_shapes=True) more fixes can be found") != NULL,
                         torch);
        end(&made);
    }
}

/* Without sizes half of what kernels would save is certain, and all launches that an optimizer does not need. The host
 * launches one kernel each 20 us. */
static void launches_of_an_optimizer_are_certain_without_sizes(void **state) {
    (void)state;
    enum { PARAMETERS = 60, EACH = 4 };
    static const char *const adam[EACH] = {"void at::native::vectorized_elementwise_kernel<4, lerp>",
                                           "void at::native::vectorized_elementwise_kernel<4, sqrt>",
                                           "void at::native::vectorized_elementwise_kernel<4, add>",
                                           "void at::native::vectorized_elementwise_kernel<4, addcdiv_cuda_kernel>"};
    struct made made = {0};
    int64_t at = 0, number = 0;
    begin_on(&made, "NVIDIA H100 80GB HBM3");
    kernel(&made, "cutlass_80_simt_sgemm_128x128_8x4_nn_align1", 7, at, at + 5000, at + 505000, number++, NULL);
    for (at = 600000; number <= PARAMETERS * EACH; at += 20000, number++)
        kernel(&made, adam[number % EACH], 7, at, at + 5000, at + 9000, number, NULL);
    add(&made);
    analyze(&made);
    const struct aorta_finding *optimizer = find(&made, AORTA_CAUSE_OPTIMIZER);
    const double launches_ms = said_value(optimizer, AORTA_FACT_LAUNCH_GAIN);
    assert_true(said_has(optimizer, AORTA_FACT_UNSIZED));
    assert_true(launches_ms > 0.6 * optimizer->gain_range_ms[1]);
    assert_true(optimizer->gain_range_ms[0] > launches_ms);
    assert_true(optimizer->gain_range_ms[0] < optimizer->gain_range_ms[1]);
    end(&made);
}

/* The cost of other recorders is not known. Late launches are then no verdict. */
static void what_recording_cost_may_not_be_known(void **state) {
    (void)state;
    struct made made;
    make_late(&made, AORTA_TRACE_ROCPROF_CSV, 2000);
    assert_true(made.verdict.replay.unrecorded_ms == 0);
    expect_text(&made, "Verdict: unknown: late kernel launches take up to ");
    assert_non_null(made.verdict.replay.unrecorded_reason);
    expect_text(&made, made.verdict.replay.unrecorded_reason);
    end(&made);
}

/* Launches take 2 ns each; two of three tiny kernels take less, the large one does not:
 *
 *     launches |==  |==  |==  |==
 *     tiny        =    =    =====
 *     large                          ========== */
static void kernels_shorter_than_their_launch(void **state) {
    (void)state;
    struct made made = {0};
    struct aorta_text json = {0};
    begin(&made, 0);
    kernel(&made, "tiny", 7, 100, 110, 111, -1, NULL);
    kernel(&made, "tiny", 7, 120, 130, 131, -1, NULL);
    kernel(&made, "tiny", 7, 140, 150, 155, -1, NULL);
    kernel(&made, "large", 7, 160, 170, 180, -1, NULL);
    add(&made);
    analyze(&made);
    for (size_t i = 0; i < made.analysis.ranks[0].kernel_count; i++) {
        const struct aorta_trace_kernel_row *row = &made.analysis.ranks[0].kernels[i];
        const bool large = row->times.count == 1;
        assert_int_equal(row->launched, large ? 1 : 3);
        assert_int_equal(row->shorter, large ? 0 : 2);
        assert_int_equal(row->launch_ns, large ? 2 : 6);
    }
    aorta_trace_report_json(&(struct aorta_trace_report){.analysis = &made.analysis, .verdict = &made.verdict}, 0,
                            &json);
    assert_non_null(strstr(json.data, "\"short_kernels\": [{\"kernel\": \"tiny\", \"launched\": 3, \"shorter\": 2, "
                                      "\"shorter_share\": 0.666667, \"mean_ms\": 0.000002333, "
                                      "\"launch_mean_ms\": 0.000002}]"));
    aorta_text_free(&json);
    end(&made);
}

/* One process with two devices, as rocprofv3 records it; kernels that only measure are no work. */
static void each_device_is_a_rank(void **state) {
    (void)state;
    struct made made = {0};
    begin(&made, -1);
    static const char *const names[] = {"relu", "relu", "aorta_stamp", "hwq_hold"}; /* on each of two devices */
    for (int64_t i = 0; i < 8; i++) {
        int64_t device = 3 + 4 * (i % 2);
        const struct aorta_trace_work work = {
            .start_ns = 1000 + i * 100,
            .end_ns = 1050 + i * 100,
            .bytes = -1,
            .name = text(&made, names[i / 2]),
            .stream = aorta_trace_builder_stream(made.builder, device, -1, 1),
            .queue = aorta_trace_builder_queue(made.builder, device, 9, AORTA_TRACE_NONE),
            .device = (int32_t)device,
            .kind = AORTA_TRACE_KERNEL,
        };
        aorta_trace_builder_work(made.builder, &work, -1, NULL, -1);
    }
    add(&made);
    analyze(&made);
    assert_int_equal(made.analysis.rank_count, 2);
    for (int i = 0; i < 2; i++) {
        const struct aorta_trace_rank *rank = &made.analysis.ranks[i];
        assert_int_equal(rank->rank, i);
        assert_int_equal(rank->device, 3 + 4 * i);
        assert_int_equal(rank->work_count, 2);
        assert_int_equal(rank->figures.busy_ns, 100);
        assert_int_equal(rank->figures.span_ns, 250);
        assert_int_equal(rank->stamps, 2);
        assert_int_equal(rank->stamps_ns, 100);
        assert_int_equal(rank->stream_count, 1);
        assert_int_equal(rank->queue_count, 1);
    }
    end(&made);
}

/* ---- gains ---- */

enum { STEPS = 4, KERNELS = 50 };

/* Steps of 50 kernels of 100 us, then an all-reduce that the host waits for. On rank 1 it stands still for `pause`
 * before it asks for that: rank 0   KKKK…K CCCCCCCCCCCCCC rank 1   KKKK…K ~~~~~~~~~~~ CC       both lose what the
 * kernels do not hide */
static int64_t add_step(struct made *made, int rank, int step, int64_t start, int64_t pause, bool named) {
    char name[32];
    int64_t arrival[2];
    snprintf(name, sizeof name, "ProfilerStep#%d", step);
    for (int i = 0; i < KERNELS; i++)
        kernel(made, "gemm", 7, start + i * 10000, start + 10000 + i * 101000, start + 110000 + i * 101000, -1, NULL);
    int64_t idle = start + 10000 + KERNELS * 101000;
    for (int r = 0; r < 2; r++) {
        int64_t launch = start + KERNELS * 10000 + (r ? pause : 0);
        arrival[r] = launch + 10000 > idle ? launch + 10000 : idle;
    }
    struct aorta_trace_collective facts = aorta_trace_unknown_collective;
    facts.bytes = 1 << 20;
    facts.sequence = step;
    facts.group_size = 2;
    facts.kind = AORTA_ALL_REDUCE;
    facts.named = true;
    const struct aorta_trace_collective *known = named ? &facts : NULL;
    int64_t last = arrival[0] > arrival[1] ? arrival[0] : arrival[1];
    kernel(made, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 7, start + KERNELS * 10000 + (rank ? pause : 0),
           arrival[rank], last + 200000, -1, known);
    call(made, "cudaDeviceSynchronize", 1, start + KERNELS * 10000 + (rank ? pause : 0) + 10, last + 203000, false);
    const struct aorta_trace_annotation one = {
        .start_ns = start, .end_ns = last + 200000 + 4000, .name = text(made, name)};
    aorta_trace_builder_annotation(made->builder, &one);
    return last + 200000 + 5000;
}

static void make_steps_of(struct made *made, int64_t pause, bool named) {
    *made = (struct made){0};
    for (int rank = 0; rank < 2; rank++) {
        int64_t at = 1000000;
        begin(made, rank);
        for (int step = 0; step < STEPS; step++) at = add_step(made, rank, step, at, pause, named);
        add(made);
    }
    analyze(made);
}

static void make_steps(struct made *made, int64_t pause) {
    make_steps_of(made, pause, true);
}

static void a_pause_comes_first_with_its_rank_and_gain(void **state) {
    (void)state;
    struct made made;
    make_steps(&made, 20000000);
    const struct aorta_verdict *verdict = &made.verdict;
    assert_true(verdict->replay.known);
    assert_true(fabs(verdict->replay.measured_ms - verdict->replay.replayed_ms) < 1e-9);
    assert_true(verdict->replay.unexplained_share < 0.01);
    const struct aorta_finding *first = &verdict->findings[0];
    assert_int_equal(first->cause, AORTA_CAUSE_HOST_PAUSE);
    assert_int_equal(first->rank, 1);
    /* The kernels (5.05 ms) hide the part of the 20 ms by which the host is ahead. */
    assert_true(first->gain_ms > 15 && first->gain_ms < 16);
    const struct aorta_fact *pause = said_fact(first, AORTA_FACT_PAUSE);
    said_near(pause->value, 20, 0.1);
    assert_string_equal(pause->place.after, "gemm");
    assert_string_equal(pause->place.name, "ncclDevKernel_AllReduce_Sum_f32_RING_LL");
    assert_int_equal(pause->place.rank, 1);
    assert_true(first->fix_count > 0);
    double rest = verdict->replay.replayed_ms - verdict->replay.floor_ms;
    for (size_t i = 0; i < verdict->finding_count; i++) rest -= verdict->findings[i].gain_ms;
    assert_true(rest > -0.001 && rest < 0.02 * verdict->replay.replayed_ms);
    struct aorta_text words = {0};
    expect_text(&made, "Verdict: host stall: 2");
    expect_text(&made, "ms before ncclDevKernel_AllReduce_Sum_f32_RING_LL, after gemm, rank 1");
    aorta_trace_report_json(&(struct aorta_trace_report){.analysis = &made.analysis, .verdict = verdict}, 0, &words);
    assert_non_null(strstr(words.data, "\"replay\":"));
    assert_non_null(strstr(words.data, "\"floor_ms\":"));
    assert_non_null(strstr(words.data, "\"gain_ms\":"));
    aorta_text_free(&words);
    end(&made);
}

/* The host waits for the device, which it learns 80 us late, and then stalls for 5 ms:
 *
 *     host    [launches][ wait ................ ]--- 5 ms ---[launches][ wait ...
 *     device    KKKKKKKKKKKKKKKKKKKKKKKK  80 us                KKKKKKKK
 *
 * Without the stall a step is 5 ms shorter, without the wait 4.6 ms. The 80 us that only the wait costs are too few to
 * be shown, but the wait is named. */
static void a_wait_that_saves_the_same_is_named(void **state) {
    (void)state;
    struct made made = {0};
    int64_t at = 1000000;
    begin(&made, 0);
    for (int step = 0; step < STEPS; step++) {
        char name[32];
        snprintf(name, sizeof name, "ProfilerStep#%d", step);
        for (int64_t i = 0; i < KERNELS; i++)
            kernel(&made, "gemm", 7, at + i * 10000, at + 10000 + i * 101000, at + 110000 + i * 101000, -1, NULL);
        const int64_t idle = at + 9000 + KERNELS * 101000;
        call(&made, "cudaDeviceSynchronize", 1, at + KERNELS * 10000, idle + 80000, false);
        const struct aorta_trace_annotation one = {.start_ns = at, .end_ns = idle + 5079000, .name = text(&made, name)};
        aorta_trace_builder_annotation(made.builder, &one);
        at = idle + 5080000;
    }
    add(&made);
    analyze(&made);
    const struct aorta_finding *first = &made.verdict.findings[0];
    assert_int_equal(first->cause, AORTA_CAUSE_HOST_PAUSE);
    said_near(first->gain_ms, 5, 0.1);
    assert_int_equal(first->share_count, 1);
    assert_int_equal(first->shares[0].cause, AORTA_CAUSE_HOST_SYNC);
    said_near(first->shares[0].ms, 4.6, 0.1);
    end(&made);
}

/* The same where the file says nothing of collectives but their names, as of recorded programs: they are those of all
 * ranks, and none of the wait for the rank that pauses is left without the pause. */
static void collectives_of_all_ranks_wait_for_the_last(void **state) {
    (void)state;
    struct made made;
    make_steps_of(&made, 20000000, false);
    const struct aorta_verdict_replay *replay = &made.verdict.replay;
    const struct aorta_finding *first = &made.verdict.findings[0];
    assert_int_equal(first->cause, AORTA_CAUSE_HOST_PAUSE);
    assert_int_equal(first->rank, 1);
    assert_true(first->gain_ms > 15 && first->gain_ms < 16);
    assert_true(replay->left.compute_ms > 4.9 && replay->left.compute_ms < 5.1); /* 50 kernels of 100 us */
    assert_true(replay->left.collective_ms[AORTA_ALL_REDUCE] > 0.19 &&
                replay->left.collective_ms[AORTA_ALL_REDUCE] < 0.21);
    assert_true(replay->left.alone_ms < 0.01);
    double sum_ms = replay->left.compute_ms + replay->left.collective_ms[AORTA_ALL_REDUCE] + replay->left.copy_ms +
                    replay->left.starts_ms + replay->left.host_ms + replay->left.unexplained_ms;
    assert_true(fabs(sum_ms - replay->floor_ms) < 1e-6);
    end(&made);
}

/* Ranks that compute 6 ms and 1 ms, by turns, before each of a step's collectives:
 *
 *     rank 0   KKKKKKKKKKKKKKKKK C K..............C
 *     rank 1   K............... C KKKKKKKKKKKKKKKK C     each waits 5 ms of a step for the other's compute */
static void make_turns(struct made *made, const char *collective, int of_step) {
    *made = (struct made){0};
    for (int rank = 0; rank < 2; rank++) {
        begin(made, rank);
        for (int64_t i = 0; i < 12; i++) {
            const int64_t launch = 1000000 + i * 20000, start = 2000000 + i * 6300000;
            const int64_t own_ns = (i + rank) % 2 ? 1000000 : 6000000;
            char name[32];
            snprintf(name, sizeof name, "ProfilerStep#%d", (int)i / of_step);
            kernel(made, own_ns > 1000000 ? "long_gemm" : "gemm", 7, launch, start, start + own_ns, -1, NULL);
            kernel(made, collective, 7, launch + 5000, start + own_ns + 1000, start + 6200000, -1, NULL);
            const struct aorta_trace_annotation one = {
                .start_ns = launch - 1000, .end_ns = launch + 30000, .name = text(made, name)};
            if (i % of_step == 0) aorta_trace_builder_annotation(made->builder, &one);
        }
        add(made);
    }
    analyze(made);
}

/* Steps of other lengths, in which one rank has 4 ms more to do than the other one, in turn. With equal work each step
 * is 2 ms shorter. */
static void unequal_steps_gain_what_ranks_wait(void **state) {
    (void)state;
    struct made made = {0};
    int64_t end_ns = 2000000;
    for (int rank = 0; rank < 2; rank++) {
        begin(&made, rank);
        end_ns = 2000000;
        for (int64_t i = 0; i < 12; i++) {
            const int64_t launch = 1000000 + i * 20000, least_ns = 1000000 + 3000000 * (i % 3);
            const int64_t own_ns = least_ns + ((i + rank) % 2 ? 0 : 4000000);
            char name[32], gemm[32];
            snprintf(name, sizeof name, "ProfilerStep#%d", (int)i);
            snprintf(gemm, sizeof gemm, "gemm_%d", (int)(own_ns / 1000000));
            kernel(&made, gemm, 7, launch, end_ns, end_ns + own_ns, -1, NULL);
            kernel(&made, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 7, launch + 5000, end_ns + own_ns + 1000,
                   end_ns + least_ns + 4200000, -1, NULL);
            end_ns += least_ns + 4300000;
            const struct aorta_trace_annotation one = {
                .start_ns = launch - 1000, .end_ns = launch + 10000, .name = text(&made, name)};
            aorta_trace_builder_annotation(made.builder, &one);
        }
        add(&made);
    }
    analyze(&made);
    const struct aorta_finding *turns = find(&made, AORTA_CAUSE_STRAGGLER);
    said_near(turns->alone_ms, 2, 0.1);
    assert_int_equal(turns->rank, -1);
    expect_text(&made, "fix batches of equal work");
    end(&made);
}

static void ranks_wait_for_each_others_work(void **state) {
    (void)state;
    struct made made;
    make_turns(&made, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 1);
    const struct aorta_finding *turns = find(&made, AORTA_CAUSE_STRAGGLER);
    said_near(said_value(turns, AORTA_FACT_WAITED), 2.5, 0.1);
    assert_true(said_has(turns, AORTA_FACT_OWN_WORK));
    said_near(said_value(turns, AORTA_FACT_LONE_COMPUTE), made.verdict.replay.left.alone_ms, 1e-9);
    assert_int_equal(turns->rank, -1);
    expect_text(&made, "% 2.50 ms straggler (straggler) ranks wait 2.50 ms per step for each other, each rank in turn; "
                       "2.50 ms of it is compute of one rank");
    expect_text(&made, "fix batches of equal work");
    assert_true(made.verdict.replay.left.alone_ms > 2.4 && made.verdict.replay.left.alone_ms < 2.6);
    end(&made);
    make_turns(&made, "ncclDevKernel_SendRecv", 2); /* stages of a pipeline */
    assert_non_null(find(&made, AORTA_CAUSE_PIPELINE_BUBBLE));
    expect_text(&made, "fix more, smaller micro-batches per step");
    end(&made);
}

/* 3 ms of pause during 5 ms of kernels lose nothing, so there is no finding. */
static void a_pause_that_is_hidden_is_no_finding(void **state) {
    (void)state;
    struct made made;
    make_steps(&made, 3000000);
    assert_true(made.verdict.replay.known);
    assert_null(find(&made, AORTA_CAUSE_HOST_PAUSE));
    assert_int_equal(made.verdict.findings[0].cause, AORTA_CAUSE_COMPUTE);
    expect_text(&made, "Verdict: compute-bound");
    end(&made);
}

static void count_operation(struct made *made, int64_t number, const char *name, const char *dims, const char *types) {
    const struct aorta_trace_annotation frame = {0, 0, text(made, name),
                                                 aorta_trace_builder_thread(made->builder, 1, 1)};
    const struct aorta_operation operation = {
        .name = name, .name_length = strlen(name), .dims = {dims, strlen(dims)}, .types = {types, strlen(types)}};
    aorta_trace_builder_operation(made->builder, &frame, number, &operation);
}

/* The kernels of a class in the roofline of the first rank: how many, their TFLOP/s or GB/s, and the share of the peak
 * (0: not known). */
static void expect_rate(const struct made *made, enum aorta_work_class class, size_t kernels, double rate,
                        double share) {
    const struct aorta_roofline_class *found = &made->verdict.rooflines[0].classes[class];
    const bool product = class == AORTA_WORK_GEMM;
    assert_int_equal(found->kernels, kernels);
    said_near(product ? aorta_roofline_tflops(found) : aorta_roofline_gbytes_per_s(found), rate, 0.5);
    if (product) assert_int_equal(found->arithmetic, AORTA_IN_BF16);
    if (share > 0)
        said_near(aorta_roofline_share(found), share, 0.005);
    else
        assert_true(isnan(aorta_roofline_share(found)));
}

/* Compute says what it is made of, of an H100 with shares; what mostly moves data is not advised to compute faster. */
static void compute_says_what_it_is_made_of(void **state) {
    (void)state;
    static const struct {
        int64_t product_ns, pointwise_ns;
        const char *device;
        double of_peak, gbytes_per_s, of_memory, mfu;
        const char *advice;
    } rows[] = {
        {200000, 60000, "NVIDIA H100 80GB HBM3", 0.69, 1678, 0.50, 0.534, "faster kernels"},
        {200000, 800000, "NVIDIA H100 80GB HBM3", 0.69, 126, 0.04, 0.139, "fuse operations that only move data"},
        {200000, 60000, "a device of nobody", 0, 1678, 0, 0, "faster kernels"},
    };
    static const char dims[] = "[[4096, 4096], [4096, 4096]]", types[] = "[\"c10::BFloat16\", \"c10::BFloat16\"]";
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct made made = {0};
        begin_on(&made, rows[i].device);
        count_operation(&made, 1, "aten::mm", dims, types);
        count_operation(&made, 2, "aten::mul", dims, types);
        const int64_t middle = 1000 + rows[i].product_ns;
        kernel(&made, "nvjet_sm90_tst", 7, 900, 1000, middle, 1, NULL);
        kernel(&made, "vectorized_elementwise_kernel", 7, 910, middle, middle + rows[i].pointwise_ns, 2, NULL);
        add(&made);
        analyze(&made);
        const struct aorta_finding *compute =
            expect(&made, AORTA_CAUSE_COMPUTE, rows[i].product_ns + rows[i].pointwise_ns);
        expect_rate(&made, AORTA_WORK_GEMM, 1, 687, rows[i].of_peak);
        expect_rate(&made, AORTA_WORK_POINTWISE, 1, rows[i].gbytes_per_s, rows[i].of_memory);
        double covered;
        const double mfu = aorta_roofline_mfu(&made.verdict.rooflines[0], &covered);
        if (rows[i].mfu > 0)
            said_near(mfu, rows[i].mfu, 0.0005);
        else
            assert_true(isnan(mfu));
        said_expect(said_advice(compute), rows[i].advice);
        assert_int_equal(said_has(compute, AORTA_FACT_MOVES_DATA), rows[i].pointwise_ns > rows[i].product_ns);
        end(&made);
    }
}

/* A pause of 20 ms between products: without it a product of 6 ms is left. */
static void what_is_left_is_said(void **state) {
    (void)state;
    static const int64_t MS = 1000000;
    struct made made = {0};
    begin_on(&made, "NVIDIA H100 80GB HBM3");
    for (int64_t i = 0; i < 2; i++) {
        count_operation(&made, i, "aten::mm", "[[16384, 8192], [8192, 8192]]",
                        "[\"c10::BFloat16\", \"c10::BFloat16\"]");
        kernel(&made, "nvjet_sm90_tst", 7, 23 * MS * i, 23 * MS * i + 100, 23 * MS * i + 100 + 3 * MS, i, NULL);
    }
    add(&made);
    analyze(&made);
    const struct aorta_verdict_replay *replay = &made.verdict.replay;
    said_near(replay->left.compute_ms, 6, 0.01);
    said_near(replay->floor_ms, 6, 0.01);
    expect_rate(&made, AORTA_WORK_GEMM, 2, 733, 0.74);
    end(&made);
}

/* The same with one product in fp32: what is left has it in fewer bits, and is not less than its compute. */
static void what_remedies_leave_is_said(void **state) {
    (void)state;
    static const int64_t MS = 1000000;
    struct made made = {0};
    begin_on(&made, "NVIDIA H100 80GB HBM3");
    count_operation(&made, 1, "aten::mm", "[[4096, 8192], [8192, 4096]]", "[\"float\", \"float\"]");
    count_operation(&made, 2, "aten::mm", "[[65536, 8192], [8192, 16384]]", "[\"c10::BFloat16\", \"c10::BFloat16\"]");
    kernel(&made, "cutlass_80_simt_sgemm_128x128_8x4_nn_align1", 7, 0, 100, 100 + 6 * MS, 1, NULL);
    kernel(&made, "nvjet_sm90_tst", 7, 33 * MS, 33 * MS + 100, 33 * MS + 100 + 24 * MS, 2, NULL);
    add(&made);
    analyze(&made);
    const struct aorta_verdict_replay *replay = &made.verdict.replay;
    assert_true(replay->left.compute_ms > 20 && replay->left.compute_ms <= replay->floor_ms);
    expect_text(&made, "all fixes 2");
    /* The pause hides it: first is what gains alone. */
    const struct aorta_finding *library = find(&made, AORTA_CAUSE_LIBRARY);
    if (!library) fail_msg("%s", said_text(&made.verdict));
    assert_true(library && library->gain_ms > 4 && library->alone_ms < 0.1 && library != &made.verdict.findings[0]);
    assert_true(library && library->only_after);
    end(&made);
}

/* Attention written out in TF32: in 16 bits the softmax stays in fp32, and in fp32 one kernel is no faster. The row of
 * 16 bits has both together, and says so. */
static void attention_and_half_go_together(void **state) {
    (void)state;
    static const struct {
        const char *name, *dims, *kernel;
        int from_us, to_us;
    } rows[] = {{"aten::bmm", "[[96, 1024, 64], [96, 64, 1024]]", "sm90_xmma_gemm_f32f32_tf32f32_f32", 100, 600},
                {"aten::mul", "[[8, 12, 1024, 1024], [8, 12, 1024, 1024]]", "elementwise_kernel<mul>", 600, 870},
                {"aten::_softmax", "[[8, 12, 1024, 1024]]", "softmax_warp_forward", 870, 1150},
                {"aten::bmm", "[[96, 1024, 1024], [96, 1024, 64]]", "sm90_xmma_gemm_f32f32_tf32f32_f32", 1150, 1650}};
    struct aorta_text text = {0};
    aorta_text_puts(&text,
                    "{\"deviceProperties\": [{\"id\": 0, \"name\": \"NVIDIA H100 80GB HBM3\", \"totalGlobalMem\": "
                    "85018279936, \"computeMajor\": 9, \"computeMinor\": 0, \"numSms\": 132}], "
                    "\"traceEvents\": [\n");
    for (int i = 0; i < 4; i++)
        aorta_text_printf(
            &text,
            "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"%s\", \"pid\": 1, \"tid\": 1, \"ts\": %d, \"dur\": 8, "
            "\"args\": {\"Input Dims\": %s, \"Input type\": [\"float\", \"float\"], \"Input Strides\": []}},\n"
            "{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": 1, \"tid\": 1, "
            "\"ts\": %d, \"dur\": 2, \"args\": {\"correlation\": %d}},\n"
            "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"%s\", \"pid\": 0, \"tid\": 7, \"ts\": %d, \"dur\": %d, "
            "\"args\": {\"device\": 0, \"context\": 1, \"stream\": 7, \"correlation\": %d}},\n",
            rows[i].name, 10 * i, rows[i].dims, 10 * i + 2, i + 1, rows[i].kernel, rows[i].from_us,
            rows[i].to_us - rows[i].from_us, i + 1);
    aorta_text_puts(&text, "{\"ph\": \"M\", \"name\": \"x\"}]}");
    struct made made = {0};
    check_ok(aorta_trace_list_add(&made.list, read_text(text.data)));
    analyze(&made);
    const struct aorta_finding *half = find(&made, AORTA_CAUSE_PRECISION);
    if (!half || !(half->gain_ms > 1 && half->then_ms > 1 && half->alone_ms < 0.2))
        fail_msg("%f ms, alone %f", half ? half->gain_ms : 0, half ? half->alone_ms : 0);
    assert_true(said_has(half, AORTA_FACT_WITH_ATTENTION));
    said_expect(said_evidence(&made.verdict, half), "together with fused attention, which needs 16 bits");
    said_expect(said_advice(half), "torch.bfloat16) around forward and loss");
    said_expect(said_advice(half), "; with torch.nn.functional.scaled_dot_product_attention");
    aorta_text_free(&text);
    end(&made);
}

/* A collective takes most of the time and gains nothing: the headline has its share. */
static void compute_beside_a_larger_cause(void **state) {
    (void)state;
    static const int64_t MS = 1000000;
    struct made made = {0};
    begin_on(&made, "NVIDIA H100 80GB HBM3");
    count_operation(&made, 1, "aten::mm", "[[8192, 8192], [8192, 8192]]", "[\"c10::BFloat16\", \"c10::BFloat16\"]");
    kernel(&made, "nvjet_sm90_tst", 7, 0, 100, 100 + 2 * MS, 1, NULL);
    kernel(&made, "ncclDevKernel_Broadcast_RING_LL", 7, 10, 100 + 2 * MS, 100 + 6 * MS, -1, NULL);
    add(&made);
    analyze(&made);
    said_near(said_value(find(&made, AORTA_CAUSE_COMPUTE), AORTA_FACT_COMPUTE), 2, 1e-9);
    expect_text(&made, "33% compute");
    expect_rate(&made, AORTA_WORK_GEMM, 1, 550, 0.56);
    end(&made);
}

/* A convolutional network has odd sizes, and no vocabulary. */
static void only_programs_with_tables_have_a_vocabulary(void **state) {
    (void)state;
    static const char *const names[] = {"void at::native::relu", "void at::native::vectorized_gather_kernel<16, long>"};
    static const int64_t MS = 1000000;
    for (int k = 0; k < 3; k++) { /* last, a batched product: its sizes are of activations */
        struct made made = {0};
        begin_on(&made, "NVIDIA H100 80GB HBM3");
        if (k == 2)
            count_operation(&made, 1, "aten::bmm", "[[16, 5185, 64], [16, 64, 5185]]",
                            "[\"c10::BFloat16\", \"c10::BFloat16\"]");
        kernel(&made, "cutlass_80_wmma_tensorop_bf16_s16816gemm_bf16_128x128_32x1_tn_align2", 7, 0, 100, 100 + 6 * MS,
               1, NULL);
        kernel(&made, names[k > 0], 7, 10, 100 + 6 * MS, 100 + 7 * MS, 2, NULL);
        add(&made);
        analyze(&made);
        const char *advice = said_advice(find(&made, AORTA_CAUSE_ALIGNMENT));
        said_expect(advice, "pad sizes to multiples of 8");
        assert_int_equal(strstr(advice, "vocabulary") != NULL, k == 1);
        end(&made);
    }
}

/* What runs within a graph that is one piece is not known. */
static void graphs_of_one_piece_are_no_known_compute(void **state) {
    (void)state;
    static const int64_t MS = 1000000;
    for (int whole = 0; whole < 2; whole++) {
        struct made made = {0};
        begin_on(&made, "NVIDIA H100 80GB HBM3");
        kernel(&made, whole ? "CUDA graph 4" : "sm90_xmma_gemm", 7, 0, 100, 100 + 20 * MS, -1, NULL);
        add(&made);
        analyze(&made);
        assert_true(said_has(find(&made, AORTA_CAUSE_COMPUTE), AORTA_FACT_WHOLE_GRAPHS) == whole);
        if (whole) expect_text(&made, "gains of compute unknown");
        if (whole) expect_text(&made, "--cuda-graph-trace=node");
        end(&made);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graphs_of_one_piece_are_no_known_compute),
        cmocka_unit_test(a_long_wait_takes_the_gap),
        cmocka_unit_test(a_short_wait_takes_its_length),
        cmocka_unit_test(waiting_for_data_has_its_own_cause),
        cmocka_unit_test(products_slow_down_beside_collectives),
        cmocka_unit_test(products_without_shapes_differ_by_their_grids),
        cmocka_unit_test(products_of_one_grid_may_have_other_shapes),
        cmocka_unit_test(the_last_rank_is_named),
        cmocka_unit_test(what_is_not_recorded_is_not_blamed),
        cmocka_unit_test(a_specific_cause_comes_before_launches),
        cmocka_unit_test(reads_are_recognised_by_their_copies),
        cmocka_unit_test(a_read_is_more_than_its_wait),
        cmocka_unit_test(a_copy_that_waits_says_so),
        cmocka_unit_test(a_flag_that_is_read_is_a_wait),
        cmocka_unit_test(kernels_that_overlap_a_little_are_compute),
        cmocka_unit_test(advice_is_in_the_frameworks_words),
        cmocka_unit_test(remedies_are_in_the_frameworks_words),
        cmocka_unit_test(gains_above_costs_are_explained),
        cmocka_unit_test(a_wait_without_a_call_is_said),
        cmocka_unit_test(the_recordings_own_part_is_no_cause),
        cmocka_unit_test(only_programs_with_tables_have_a_vocabulary),
        cmocka_unit_test(launches_of_an_optimizer_are_certain_without_sizes),
        cmocka_unit_test(what_recording_cost_may_not_be_known),
        cmocka_unit_test(kernels_shorter_than_their_launch),
        cmocka_unit_test(each_device_is_a_rank),
        cmocka_unit_test(a_pause_comes_first_with_its_rank_and_gain),
        cmocka_unit_test(a_pause_that_is_hidden_is_no_finding),
        cmocka_unit_test(a_wait_that_saves_the_same_is_named),
        cmocka_unit_test(collectives_of_all_ranks_wait_for_the_last),
        cmocka_unit_test(ranks_wait_for_each_others_work),
        cmocka_unit_test(unequal_steps_gain_what_ranks_wait),
        cmocka_unit_test(compute_says_what_it_is_made_of),
        cmocka_unit_test(what_is_left_is_said),
        cmocka_unit_test(what_remedies_leave_is_said),
        cmocka_unit_test(attention_and_half_go_together),
        cmocka_unit_test(compute_beside_a_larger_cause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
