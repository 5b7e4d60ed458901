/* Work by what launched it. One step of a training program, in us; > launches.
 *
 *   train.py     [0                                                                100]
 *   Net_0          [5                              ........ 60]
 *   Linear_0          [10      30]
 *   aten::linear        [12  28]    7
 *   aten::addmm          [14 26]    7
 *   range                              loss [40 50]    Optimizer.step [70      80]
 *   aten::_foreach_add_                                                 [72 78]
 *   launches                >15                 >42                      >73         >90
 *   work                   sgemm 2             softmax 3           multi_tensor 4   copy 7
 *
 *   autograd     evaluate_function, AddmmBackward0 [50                 68]   of 7
 *                           aten::mm [52 58]  aten::relu [60 66]  9: run again
 *   launches                  >53               >61
 *   work                     sgemm 5          elementwise 6 */
#include "analysis/breakdown.h"
#include "base/files.h"
#include "check.h"
#include "report/trace_report.h"
#include "trace/open.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void host(struct aorta_text *out, const char *category, const char *name, int thread, double ts, double dur,
                 const char *args) {
    aorta_text_printf(out, "{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\",\"pid\":1,\"tid\":%d,\"ts\":%g,\"dur\":%g,",
                      category, name, thread, ts, dur);
    aorta_text_printf(out, "\"args\":{%s}},\n", args);
}

/* A launch, and what it launched, which runs 100 us later. */
static void launch(struct aorta_text *out, int number, int thread, double ts, double dur, const char *category,
                   const char *name) {
    char args[64];
    snprintf(args, sizeof args, "\"correlation\":%d", number);
    host(out, "cuda_runtime", "cudaLaunchKernel", thread, ts, 1, args);
    aorta_text_printf(out, "{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\",\"pid\":0,\"tid\":7,\"ts\":%g,\"dur\":%g,",
                      category, name, ts + 100, dur);
    aorta_text_printf(out, "\"args\":{\"device\":0,\"stream\":7,%s}},\n", args);
}

static void write_step(struct aorta_text *out, bool frames) {
    static const char shape[] =
        "\"Sequence number\":7,\"Input Dims\":[[4,8],[2,8]],\"Input type\":[\"float\",\"float\"]";
    aorta_text_puts(out, "{\"traceEvents\":[\n");
    if (frames) {
        host(out, "python_function", "train.py(45): step", 1, 0, 100, "");
        host(out, "python_function", "nn.Module: Net_0", 1, 5, 55, "");
        host(out, "python_function", "nn.Module: Linear_0", 1, 10, 20, "");
    }
    host(out, "cpu_op", "aten::linear", 1, 12, 16, shape);
    host(out, "cpu_op", "aten::addmm", 1, 14, 12, shape);
    launch(out, 1, 1, 15, 2, "kernel", "sgemm");
    host(out, "user_annotation", "loss", 1, 40, 10, "");
    launch(out, 2, 1, 42, 3, "kernel", "softmax");
    host(out, "cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", 2, 50, 18,
         "\"Sequence number\":7,\"Fwd thread id\":1");
    host(out, "cpu_op", "AddmmBackward0", 2, 51, 16, "\"Sequence number\":7,\"Fwd thread id\":1");
    host(out, "cpu_op", "aten::mm", 2, 52, 6, "");
    launch(out, 3, 2, 53, 5, "kernel", "sgemm");
    host(out, "cpu_op", "aten::relu", 2, 60, 6, "\"Sequence number\":9");
    launch(out, 4, 2, 61, 6, "kernel", "elementwise");
    host(out, "user_annotation", "Optimizer.step#SGD.step", 1, 70, 10, "");
    host(out, "cpu_op", "aten::_foreach_add_", 1, 72, 6, "");
    launch(out, 5, 1, 73, 4, "kernel", "multi_tensor_apply_kernel");
    launch(out, 6, 1, 90, 7, "gpu_memcpy", "Memcpy DtoH");
    host(out, "cuda_runtime", "cudaDeviceSynchronize", 1, 98, 1, "");
    out->length -= 2; /* the last comma */
    aorta_text_puts(out, "\n]}\n");
}

struct read {
    struct aorta_trace_list list;
    struct aorta_trace_analysis analysis;
};

static void read_step(struct read *read, bool frames) {
    static const struct aorta_trace_options options = {.functions = true};
    char path[] = "/tmp/aorta_by_XXXXXX.json";
    struct aorta_text text = {0};
    *read = (struct read){0};
    const int file = mkstemps(path, 5);
    assert_true(file >= 0);
    close(file);
    write_step(&text, frames);
    check_ok(aorta_file_replace(path, text.data, text.length));
    check_ok(aorta_trace_open(path, &options, &read->list));
    check_ok(aorta_trace_analyze(&read->list, NULL, &read->analysis));
    unlink(path);
    aorta_text_free(&text);
}

static void free_read(struct read *read) {
    aorta_trace_analysis_free(&read->analysis);
    aorta_trace_list_free(&read->list);
}

struct expected {
    const char *name; /* NULL: the rest */
    int us, us_within, runs;
};

static void check(const struct read *read, enum aorta_by by, const struct expected *rows, size_t count) {
    struct aorta_arena arena = {0};
    struct aorta_breakdown breakdown;
    check_ok(aorta_breakdown_make(&read->analysis.ranks[0], by, (struct aorta_breakdown_of){0}, &arena, &breakdown));
    assert_null(breakdown.reason);
    assert_int_equal(breakdown.total_ns, 27000);
    assert_int_equal(breakdown.count, count);
    int64_t sum_ns = 0;
    for (size_t i = 0; i < count; i++) {
        const struct aorta_breakdown_row *row = &breakdown.rows[i];
        const char *name = row->name ? row->name : "-", *wanted = rows[i].name ? rows[i].name : "-";
        if (strcmp(name, wanted) != 0 || row->ns != 1000 * rows[i].us || row->ns_within != 1000 * rows[i].us_within ||
            (int)row->runs != rows[i].runs)
            fail_msg("by %s, row %zu: %s %lld %lld %zu, not %s", aorta_by_name(by), i, name, (long long)row->ns,
                     (long long)row->ns_within, row->runs, wanted);
        sum_ns += row->ns;
    }
    assert_int_equal(sum_ns, breakdown.total_ns);
    check_ok(aorta_arena_check(&arena, "a test"));
    aorta_arena_free(&arena);
}
#define CHECK(by, rows) check(&read, by, rows, sizeof(rows) / sizeof *(rows))

static void each_way_adds_up(void **state) {
    (void)state;
    struct read read;
    read_step(&read, true);
    const struct expected operations[] = {
        {"AddmmBackward0", 0, 11, 1},     {"autograd::engine::evaluate_function: AddmmBackward0", 0, 11, 1},
        {"aten::relu", 6, 6, 1},          {"aten::mm", 5, 5, 1},
        {"aten::_foreach_add_", 4, 4, 1}, {"aten::addmm", 2, 2, 1},
        {"aten::linear", 0, 2, 1},        {NULL, 10, 10, 0}};
    CHECK(AORTA_BY_OPERATION, operations);
    /* The gradient counts for the module of its forward pass, and so does what runs again for it. */
    const struct expected modules[] = {{"Net_0", 3, 16, 1}, {"Linear_0", 13, 13, 1}, {NULL, 11, 11, 0}};
    CHECK(AORTA_BY_MODULE, modules);
    const struct expected functions[] = {{"train.py(45): step", 27, 27, 1}};
    CHECK(AORTA_BY_FUNCTION, functions);
    const struct expected annotations[] = {{"Optimizer.step#SGD.step", 4, 4, 1}, {"loss", 3, 3, 1}, {NULL, 20, 20, 0}};
    CHECK(AORTA_BY_ANNOTATION, annotations);
    const struct expected categories[] = {
        {"copy", 7, 7, 0}, {"gemm", 7, 7, 0}, {"elementwise", 6, 6, 0}, {"optimizer", 4, 4, 0}, {"softmax", 3, 3, 0}};
    CHECK(AORTA_BY_CATEGORY, categories);
    const struct expected phases[] = {{"recomputation", 6, 6, 0},
                                      {"backward", 5, 5, 0},
                                      {"forward", 5, 5, 0},
                                      {"optimizer", 4, 4, 0},
                                      {NULL, 7, 7, 0}};
    CHECK(AORTA_BY_PHASE, phases);
    const struct expected kernels[] = {{"Memcpy DtoH", 7, 7, 0},
                                       {"sgemm", 7, 7, 0},
                                       {"elementwise", 6, 6, 0},
                                       {"multi_tensor_apply_kernel", 4, 4, 0},
                                       {"softmax", 3, 3, 0}};
    CHECK(AORTA_BY_KERNEL, kernels);
    free_read(&read);
}

static void what_is_not_recorded_is_said(void **state) {
    (void)state;
    struct read read;
    struct aorta_arena arena = {0};
    struct aorta_breakdown breakdown;
    read_step(&read, false);
    check_ok(aorta_breakdown_make(&read.analysis.ranks[0], AORTA_BY_MODULE, (struct aorta_breakdown_of){0}, &arena,
                                  &breakdown));
    assert_non_null(strstr(breakdown.reason, "with_stack=True"));
    assert_int_equal(breakdown.count, 1);
    assert_int_equal(breakdown.rows[0].ns, 27000);
    check_ok(aorta_arena_check(&arena, "a test"));
    aorta_arena_free(&arena);
    free_read(&read);
}

/* Shapes distinguish operations of one name. */
static void shapes_are_named(void **state) {
    (void)state;
    struct read read;
    struct aorta_arena arena = {0};
    struct aorta_breakdown breakdown;
    read_step(&read, true);
    check_ok(aorta_breakdown_make(&read.analysis.ranks[0], AORTA_BY_SHAPE, (struct aorta_breakdown_of){0}, &arena,
                                  &breakdown));
    const struct aorta_breakdown_row *row = breakdown.rows;
    while (strcmp(row->name ? row->name : "", "aten::addmm") != 0) row++;
    const struct aorta_trace *trace = read.analysis.ranks[0].trace;
    assert_string_equal(aorta_trace_text(trace, trace->inputs[row->inputs].dims), "[[4,8],[2,8]]");
    check_ok(aorta_arena_check(&arena, "a test"));
    aorta_arena_free(&arena);
    free_read(&read);
}

/* Batches of inference engines as they mark them; kernels are of the range that launched them. */
static void engines_have_phases(void **state) {
    (void)state;
    static const struct {
        const char *range, *phase;
    } rows[] = {{"execute_8192_context_9(sq8155sk8430)_generation_37(sq37sk34489)", "prefill and decode"},
                {"execute_context_1(888_788544)_generation_0(0)", "prefill"},
                {"execute_32_context_0(0)_generation_32(32)", "decode"},
                {"execute_new_2_cached_0", "prefill"},
                {"step[EXTEND bs=15 toks=15360]", "prefill"},
                {"step[DECODE bs=15]", "decode"},
                {"warm up", NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char path[] = "/tmp/aorta_by_XXXXXX.json";
        struct aorta_text text = {0};
        struct read read = {0};
        struct aorta_arena arena = {0};
        struct aorta_breakdown breakdown;
        const int file = mkstemps(path, 5);
        assert_true(file >= 0);
        close(file);
        aorta_text_puts(&text, "{\"traceEvents\":[");
        host(&text, "user_annotation", rows[i].range, 1, 0, 10, "");
        launch(&text, 1, 1, 2, 3, "kernel", "k");
        text.length -= 2;
        aorta_text_puts(&text, "]}");
        check_ok(aorta_file_replace(path, text.data, text.length));
        check_ok(aorta_trace_open(path, NULL, &read.list));
        check_ok(aorta_trace_analyze(&read.list, NULL, &read.analysis));
        check_ok(aorta_breakdown_make(&read.analysis.ranks[0], AORTA_BY_PHASE, (struct aorta_breakdown_of){0}, &arena,
                                      &breakdown));
        if (rows[i].phase)
            assert_string_equal(breakdown.rows[0].name, rows[i].phase);
        else
            assert_non_null(strstr(breakdown.reason, "inference engine"));
        check_ok(aorta_arena_check(&arena, "a test"));
        aorta_arena_free(&arena);
        free_read(&read);
        aorta_text_free(&text);
        unlink(path);
    }
}

/* Only one phase is asked for: other work is in no row, and not in the total. */
static void a_phase_alone(void **state) {
    (void)state;
    struct read read;
    struct aorta_arena arena = {0};
    struct aorta_breakdown breakdown;
    read_step(&read, true);
    check_ok(aorta_breakdown_make(&read.analysis.ranks[0], AORTA_BY_KERNEL,
                                  (struct aorta_breakdown_of){.phase = "backward"}, &arena, &breakdown));
    assert_int_equal(breakdown.count, 1);
    assert_string_equal(breakdown.rows[0].name, "sgemm");
    assert_int_equal(breakdown.rows[0].ns, 5000);
    assert_int_equal(breakdown.total_ns, 5000);
    check_ok(aorta_breakdown_make(&read.analysis.ranks[0], AORTA_BY_OPERATION,
                                  (struct aorta_breakdown_of){.phase = "decode"}, &arena, &breakdown));
    assert_int_equal(breakdown.count, 0);
    assert_non_null(strstr(breakdown.reason, "no work is of this phase"));
    check_ok(aorta_arena_check(&arena, "a test"));
    aorta_arena_free(&arena);
    free_read(&read);
}

/* [N, N] x [N, N] twice, in two kernels the second time, beside what is not counted. */
static void shapes_have_amounts(void **state) {
    (void)state;
    enum { N = 4096 };
    static const char shape[] =
        "\"Input Dims\":[[4096,4096],[4096,4096]],\"Input type\":[\"float\",\"float\"],\"External id\":%d";
    struct aorta_text text = {0};
    char args[128], path[] = "/tmp/aorta_by_XXXXXX.json";
    struct read read = {0};
    aorta_text_puts(&text, "{\"traceEvents\":[\n");
    for (int i = 0; i < 3; i++) {
        snprintf(args, sizeof args, shape, i);
        host(&text, "cpu_op", i < 2 ? "aten::mm" : "mine::mm", 1, 20 * i, 12, args);
        launch(&text, 2 * i + 1, 1, 20 * i + 1, 2, "kernel", "sgemm");
        if (i) launch(&text, 2 * i + 2, 1, 20 * i + 4, 3, "kernel", "splitKreduce_kernel");
    }
    text.length -= 2;
    aorta_text_puts(&text, "\n]}\n");
    const int file = mkstemps(path, 5);
    assert_true(file >= 0);
    close(file);
    check_ok(aorta_file_replace(path, text.data, text.length));
    check_ok(aorta_trace_open(path, NULL, &read.list));
    check_ok(aorta_trace_analyze(&read.list, NULL, &read.analysis));
    for (int by = AORTA_BY_OPERATION; by <= AORTA_BY_SHAPE; by++) {
        struct aorta_arena arena = {0};
        struct aorta_breakdown breakdown;
        check_ok(aorta_breakdown_make(&read.analysis.ranks[0], (enum aorta_by)by, (struct aorta_breakdown_of){0},
                                      &arena, &breakdown));
        assert_int_equal(breakdown.count, 2);
        for (size_t i = 0; i < 2; i++) {
            const struct aorta_breakdown_row *row = &breakdown.rows[i];
            const bool counted = by == AORTA_BY_SHAPE && !strcmp(row->name, "aten::mm");
            assert_int_equal(row->counted_runs, counted ? 2 : 0);
            assert_int_equal(row->counted_ns, counted ? 2000 + 2000 + 3000 : 0);
            assert_true(row->flops == (counted ? 2 * 2.0 * N * N * N : 0));
            assert_true(row->bytes == (counted ? 2 * 4 * 3.0 * N * N : 0));
            assert_int_equal(row->arithmetic, counted ? AORTA_IN_FP32 : AORTA_ARITHMETIC_UNKNOWN);
        }
        check_ok(aorta_arena_check(&arena, "a test"));
        aorta_arena_free(&arena);
    }
    const struct aorta_trace_report report = {.analysis = &read.analysis, .by = 1u << AORTA_BY_SHAPE, .top = 9};
    aorta_text_clear(&text);
    aorta_trace_report_by(&report, NULL, &text); /* 2 * 2 * N * N * N in 7 us; 2 * 3 * N * N of 4 bytes */
    assert_non_null(strstr(text.data, " 58.3%      0.007  39268.3  57521.9  aten::mm [[4096,4096],[4096,4096]]\n"));
    assert_non_null(strstr(text.data, " 41.7%      0.005        -        -  mine::mm [[4096,4096],[4096,4096]]\n"));
    unlink(path);
    aorta_text_free(&text);
    free_read(&read);
}

/* Launched within what has the name; gradients lie within the modules of their forward pass. */
static void what_lies_within(void **state) {
    (void)state;
    static const struct {
        const char *within, *phase;
        int us;
    } rows[] = {
        {"Linear_0$", NULL, 2 + 5 + 6},   {"Linear_0$", "backward", 5},     {"^aten::(linear|relu)$", NULL, 2 + 6},
        {"linear \\[\\[4,8\\]", NULL, 2}, {"linear \\[\\[8,4\\]", NULL, 0}, {"^loss$", NULL, 3},
        {"Optimizer", NULL, 4},           {"train.py", NULL, 27},           {"sgemm", NULL, 0}};
    struct read read;
    read_step(&read, true);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct aorta_breakdown_of of = {rows[i].phase, rows[i].within};
        struct aorta_arena arena = {0};
        struct aorta_breakdown breakdown;
        check_ok(aorta_breakdown_make(&read.analysis.ranks[0], AORTA_BY_KERNEL, of, &arena, &breakdown));
        if (breakdown.total_ns != 1000 * rows[i].us)
            fail_msg("within %s: %lld ns, not %d us", rows[i].within, (long long)breakdown.total_ns, rows[i].us);
        if (!rows[i].us) assert_string_equal(breakdown.reason, "no work is within what --within matches");
        check_ok(aorta_arena_check(&arena, "a test"));
        aorta_arena_free(&arena);
    }
    struct aorta_arena arena = {0};
    struct aorta_breakdown breakdown;
    check_fails(aorta_breakdown_make(&read.analysis.ranks[0], AORTA_BY_KERNEL,
                                     (struct aorta_breakdown_of){.within = "("}, &arena, &breakdown),
                AORTA_USAGE, "regular expression");
    free_read(&read);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_way_adds_up),
                                       cmocka_unit_test(a_phase_alone),
                                       cmocka_unit_test(what_lies_within),
                                       cmocka_unit_test(shapes_have_amounts),
                                       cmocka_unit_test(what_is_not_recorded_is_said),
                                       cmocka_unit_test(shapes_are_named),
                                       cmocka_unit_test(engines_have_phases)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
