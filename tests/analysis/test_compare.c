/* aorta trace compare: planted differences come out as they were planted. */
#include "base/json.h"
#include "check.h"
#include "report/trace_report.h"
#include "samples/dump.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

/* What a recording is made of. Times in us. */
struct plan {
    int steps, ranks;    /* steps 0: none are marked */
    int compute, jitter; /* one kernel a step, by turns longer and shorter by jitter */
    int gather;          /* an all-gather after it */
    int copy;            /* 0: none */
    int idle;            /* more of a step, in which nothing is launched */
    const char *kernel;  /* its name */
};

enum { STEP_US = 1000 };

struct recording {
    struct aorta_trace_list list;
    struct aorta_trace_analysis analysis;
};

static void add_event(struct aorta_text *text, const char *category, const char *name, int start, int length, int tid,
                      const char *args) {
    aorta_text_printf(text,
                      ",\n{\"ph\": \"X\", \"cat\": \"%s\", \"name\": \"%s\", \"pid\": 1, \"tid\": %d, \"ts\": %d, "
                      "\"dur\": %d, \"args\": {%s}}",
                      category, name, tid, start, length, args);
}

static void write_rank(const struct plan *plan, int rank, struct aorta_text *text) {
    aorta_text_printf(text, "{\"distributedInfo\": {\"rank\": %d}, \"traceEvents\": [{\"ph\": \"M\", \"name\": \"x\"}",
                      rank);
    int steps = plan->steps ? plan->steps : 4, correlation = 0;
    if (plan->steps) add_event(text, "kernel", "before", 10, 10, 101, "\"device\": 0, \"stream\": 1");
    for (int step = 0; step < steps; step++) {
        int begin = step * (STEP_US + plan->idle), length = plan->compute + (step % 2 ? plan->jitter : -plan->jitter);
        char args[512], name[32];
        snprintf(name, sizeof name, "ProfilerStep#%d", step + 3);
        if (plan->steps) add_event(text, "user_annotation", name, begin, STEP_US + plan->idle, 7, "");
        const int starts[] = {begin + 20, begin + 40 + length, begin + 700};
        for (int i = 0; i < 3; i++) {
            snprintf(args, sizeof args, "\"correlation\": %d", ++correlation);
            if (i < 2 || plan->copy) add_event(text, "cuda_runtime", "cudaLaunchKernel", begin + 2 + i, 1, 7, args);
            const char *more =
                i == 1 ? ", \"Collective name\": \"_allgather_base\", \"Group size\": 2, \"In msg nelems\": 8, "
                         "\"Out msg nelems\": 16, \"dtype\": \"Float\", \"Process Group Name\": \"0\""
                       : ", \"External id\": 5";
            snprintf(args, sizeof args, "\"device\": 0, \"stream\": %d, \"correlation\": %d%s", i + 1, correlation,
                     more);
            if (i == 0) add_event(text, "kernel", plan->kernel, starts[0], length, 101, args);
            if (i == 1)
                add_event(text, "kernel", "ncclDevKernel_AllGather_RING_LL", starts[1], plan->gather, 102, args);
            if (i == 2 && plan->copy) add_event(text, "gpu_memcpy", "Memcpy HtoD", starts[2], plan->copy, 103, args);
        }
    }
    aorta_text_puts(
        text, ",\n{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::mm\", \"pid\": 1, \"tid\": 7, \"ts\": 1, "
              "\"dur\": 5, \"args\": {\"External id\": 5, \"Input Dims\": [[4, 8], [8, 16]], \"Input type\": "
              "[\"float\", \"float\"]}}]}");
}

static void record(const struct plan *plan, struct recording *recording) {
    *recording = (struct recording){0};
    for (int rank = 0; rank < plan->ranks; rank++) {
        struct aorta_text text = {0};
        write_rank(plan, rank, &text);
        check_ok(aorta_text_check(&text));
        check_ok(read_memory(text.data, text.length, 0, false, &recording->list));
        aorta_text_free(&text);
    }
    check_ok(aorta_trace_analyze(&recording->list, NULL, &recording->analysis));
}

static void end_recording(struct recording *recording) {
    aorta_trace_analysis_free(&recording->analysis);
    aorta_trace_list_free(&recording->list);
}

static const struct plan usual = {
    .steps = 6, .ranks = 2, .compute = 300, .jitter = 4, .gather = 100, .copy = 0, .kernel = "ampere_sgemm_128x64"};

static const struct aorta_trace_compare_row *row_of(const struct aorta_trace_comparison *c,
                                                    enum aorta_trace_section section, const char *name) {
    for (size_t i = 0; i < c->row_count; i++)
        if (c->rows[i].section == section && strcmp(c->rows[i].name, name) == 0) return &c->rows[i];
    print_error("no row \"%s\"\n", name);
    assert_true(false);
    return NULL;
}

static void check_near(double value, double expected) {
    if (fabs(value - expected) > 1e-9) print_error("%.12g, expected %.12g\n", value, expected);
    assert_true(fabs(value - expected) <= 1e-9);
}

struct compared {
    struct recording recordings[2];
    struct aorta_trace_compare_input inputs[2];
    struct aorta_trace_comparison comparison;
};

static void compare(const struct plan *base, const struct plan *test, struct compared *c) {
    record(base, &c->recordings[0]);
    record(test, &c->recordings[1]);
    c->inputs[0] = (struct aorta_trace_compare_input){"base", "base", &c->recordings[0].analysis, false, NAN};
    c->inputs[1] = (struct aorta_trace_compare_input){"test", "test", &c->recordings[1].analysis, false, NAN};
    check_ok(aorta_trace_compare(c->inputs, 2, &c->comparison));
}

static void end_comparison(struct compared *c) {
    aorta_trace_comparison_free(&c->comparison);
    end_recording(&c->recordings[0]);
    end_recording(&c->recordings[1]);
}

static void a_recording_equals_itself(void **state) {
    (void)state;
    struct compared c;
    compare(&usual, &usual, &c);
    assert_true(c.comparison.stepped);
    assert_null(c.comparison.unsure);
    assert_int_equal(c.comparison.sides[0].step_count, 6);
    for (size_t i = 0; i < c.comparison.row_count; i++) {
        const struct aorta_trace_compared *value = &c.comparison.rows[i].values[1];
        check_near(value->change_ms, 0);
        assert_true(value->of.p_value == 1);
    }
    assert_false(aorta_trace_regressed(&c.comparison, 1, 0));
    end_comparison(&c);
}

/* Other numbers of steps and ranks do not matter: all is per step and rank. */
static void planted_changes(void **state) {
    (void)state;
    struct plan other = usual;
    other.steps = 9;
    other.ranks = 1;
    other.compute = 330;
    other.gather = 60;
    other.copy = 25;
    other.jitter = 0;
    struct compared c;
    compare(&usual, &other, &c);
    const struct aorta_trace_compare_row *kernel = row_of(&c.comparison, AORTA_SECTION_KERNEL, usual.kernel);
    check_near(kernel->values[0].ms, 0.300);
    check_near(kernel->values[1].ms, 0.330);
    check_near(kernel->values[1].change_ms, 0.030);
    check_near(kernel->values[1].percent, 10);
    check_near(kernel->values[0].count, 1);
    check_near(kernel->values[1].mean_us, 330);
    assert_true(kernel->values[1].of.p_value < 0.001);
    const struct aorta_trace_compare_row *gather =
        row_of(&c.comparison, AORTA_SECTION_COLLECTIVE, "all_gather, 2 ranks");
    check_near(gather->values[1].change_ms, -0.040);
    const struct aorta_trace_compare_row *exposed =
        row_of(&c.comparison, AORTA_SECTION_COLLECTIVE, "all_gather: exposed");
    check_near(exposed->values[0].ms, 0.100);
    const struct aorta_trace_compare_row *copy = row_of(&c.comparison, AORTA_SECTION_KERNEL, "Memcpy HtoD");
    assert_false(copy->values[0].there);
    check_near(copy->values[1].ms, 0.025);
    assert_true(isnan(copy->values[1].percent));
    const struct aorta_trace_compare_row *product =
        row_of(&c.comparison, AORTA_SECTION_GEMM, "aten::mm [[4, 8], [8, 16]] [\"float\", \"float\"]");
    check_near(product->values[1].change_ms, 0.030);
    check_near(row_of(&c.comparison, AORTA_SECTION_TIMELINE, "compute")->values[1].change_ms, 0.030);
    check_near(row_of(&c.comparison, AORTA_SECTION_TIMELINE, "copies")->values[1].ms, 0.025);
    /* Largest change first, and the timeline in its own order. */
    assert_string_equal(c.comparison.rows[0].name, "step");
    double last = INFINITY;
    for (size_t i = 0; i < c.comparison.row_count; i++) {
        if (c.comparison.rows[i].section != AORTA_SECTION_KERNEL) continue;
        assert_true(c.comparison.rows[i].largest_ms <= last);
        last = c.comparison.rows[i].largest_ms;
    }
    end_comparison(&c);
}

/* A collective that runs on into the next step is one, in one row; its time lies where it ran. */
static void a_collective_over_a_boundary_counts_once(void **state) {
    (void)state;
    struct plan over = usual;
    over.compute = 700;
    over.jitter = 0;
    over.gather = 400;
    struct compared c;
    compare(&over, &over, &c);
    const struct aorta_trace_compare_row *gather =
        row_of(&c.comparison, AORTA_SECTION_COLLECTIVE, "all_gather, 2 ranks");
    const struct aorta_trace_compare_row *kernel =
        row_of(&c.comparison, AORTA_SECTION_KERNEL, "ncclDevKernel_AllGather_RING_LL");
    check_near(gather->values[0].ms, 0.400);
    check_near(gather->values[0].count, 1);
    check_near(gather->values[0].mean_us, 400);
    check_near(kernel->values[0].count, 1);
    check_near(kernel->values[0].mean_us, 400);
    for (size_t i = 0; i < c.comparison.row_count; i++)
        assert_string_not_equal(c.comparison.rows[i].name, "all_gather");
    end_comparison(&c);
}

/* The gap before a step belongs to it and to its idle time, as in the verdict. */
static void the_timeline_adds_up(void **state) {
    (void)state;
    static const char *const causes[] = {"idle: waiting for data", "idle: host waits for the GPU",
                                         "idle: late kernel launches", "idle: launch latency",
                                         "idle: unexplained gaps"};
    struct compared c;
    compare(&usual, &usual, &c);
    double idle = row_of(&c.comparison, AORTA_SECTION_TIMELINE, "idle")->values[0].ms, sum = 0;
    for (size_t i = 0; i < sizeof causes / sizeof causes[0]; i++)
        sum += row_of(&c.comparison, AORTA_SECTION_TIMELINE, causes[i])->values[0].ms;
    check_near(sum, idle);
    double busy = row_of(&c.comparison, AORTA_SECTION_TIMELINE, "busy")->values[0].ms;
    double step = row_of(&c.comparison, AORTA_SECTION_TIMELINE, "step")->values[0].ms;
    check_near(busy + idle, step);
    /* from the first start to the last end, over six steps */
    check_near(step, (5 * 1.0 + 0.020 + 0.304 + 0.100) / 6);
    end_comparison(&c);
}

/* Kernels are called something else: the shape still says what changed. */
static void kernels_of_another_name(void **state) {
    (void)state;
    struct plan other = usual;
    other.kernel = "nvjet_hsh_128x64_gemm";
    struct compared c;
    compare(&usual, &other, &c);
    assert_false(row_of(&c.comparison, AORTA_SECTION_KERNEL, usual.kernel)->values[1].there);
    assert_false(row_of(&c.comparison, AORTA_SECTION_KERNEL, other.kernel)->values[0].there);
    const struct aorta_trace_compare_row *product =
        row_of(&c.comparison, AORTA_SECTION_GEMM, "aten::mm [[4, 8], [8, 16]] [\"float\", \"float\"]");
    check_near(product->values[1].change_ms, 0);
    end_comparison(&c);
}

/* The last step ends with its work, so that longer work makes it longer. */
static void regressions(void **state) {
    (void)state;
    struct plan one = usual, longer = usual;
    one.steps = longer.steps = 0;
    longer.compute = 900;
    struct compared c;
    compare(&one, &longer, &c);
    assert_false(c.comparison.stepped);
    assert_non_null(strstr(c.comparison.unsure, "not every recording marks its steps"));
    const struct aorta_trace_compared *whole = &c.comparison.rows[0].values[1];
    assert_string_equal(c.comparison.rows[0].name, "recording");
    assert_true(whole->percent > 10 && whole->percent < 25);
    assert_true(isnan(whole->of.p_value));
    assert_true(aorta_trace_regressed(&c.comparison, 1, 0.10));
    assert_false(aorta_trace_regressed(&c.comparison, 1, 0.25));
    assert_false(aorta_trace_regressed(&c.comparison, 0, 0));
    end_comparison(&c);
    compare(&longer, &one, &c);
    assert_false(aorta_trace_regressed(&c.comparison, 1, 0));
    end_comparison(&c);
}

/* A change within the noise has no small p. */
static void noise_is_no_news(void **state) {
    (void)state;
    struct plan base = usual, test = usual;
    base.jitter = 80;
    test.jitter = 70;
    test.compute = 310;
    struct compared c;
    compare(&base, &test, &c);
    const struct aorta_trace_compared *value = &row_of(&c.comparison, AORTA_SECTION_KERNEL, usual.kernel)->values[1];
    check_near(value->change_ms, 0.010);
    assert_true(value->of.p_value > 0.3);
    end_comparison(&c);
}

static const struct aorta_differences none[3];
static const struct aorta_verdict_style plain;

/* Recordings without steps: each is one sample. Four steps of the kernel each, in us.
 *
 *   base  300  304  308      test  330  334  338      other  300  312 */
static void recordings_are_samples(void **state) {
    (void)state;
    static const struct {
        int compute;
        bool repeats;
        const char *label;
    } runs[] = {{300, false, "base"}, {304, true, "base"}, {308, true, "base"},   {330, false, "test"},
                {334, true, "test"},  {338, true, "test"}, {300, false, "other"}, {312, true, "other"}};
    enum { COUNT = sizeof runs / sizeof *runs };
    struct recording recordings[COUNT];
    struct aorta_trace_compare_input inputs[COUNT];
    struct aorta_trace_comparison c;
    for (int i = 0; i < COUNT; i++) {
        struct plan plan = usual;
        plan.ranks = 1;
        plan.steps = plan.jitter = 0;
        plan.compute = runs[i].compute;
        record(&plan, &recordings[i]);
        inputs[i] =
            (struct aorta_trace_compare_input){"", runs[i].label, &recordings[i].analysis, runs[i].repeats, NAN};
    }
    check_ok(aorta_trace_compare(inputs, 6, &c));
    const struct aorta_trace_compared *test = &row_of(&c, AORTA_SECTION_KERNEL, usual.kernel)->values[1];
    check_near(test->ms, 4 * 0.334);
    check_near(test->change_ms, 4 * 0.030);
    assert_true(!c.stepped && !c.unsure && test->of.p_value < 0.01 && test->of.low > 0.05 && test->of.high < 0.19);
    struct aorta_text text = {0};
    aorta_trace_comparison_text(&c, none, NAN, false, &plain, &text);
    assert_non_null(strstr(text.data, "  chance      significant (p = "));
    assert_non_null(strstr(text.data, "significant (p = "));
    aorta_text_free(&text);
    aorta_trace_comparison_free(&c);
    check_ok(aorta_trace_compare(inputs, COUNT, &c)); /* two recordings are too few */
    assert_non_null(strstr(c.unsure, "three recordings of each --label would show one"));
    assert_true(isnan(row_of(&c, AORTA_SECTION_KERNEL, usual.kernel)->values[2].of.p_value));
    aorta_trace_comparison_free(&c);
    for (int i = 0; i < COUNT; i++) end_recording(&recordings[i]);
}

/* Kernel's time in us, each run of one rank; the mean of a side is that of its runs, however long they are.
 *
 *   base  run 1  300 300 300 300 300 300             run 2  340 × 9      mean 320
 *   test  run 1  336 336 336 336 336 336             run 2  296 × 9      mean 316
 *
 * Runs of a side lie 40 apart, so that what is between the sides may be chance; one run of each would deny it. */
static void runs_of_a_side(void **state) {
    (void)state;
    static const struct {
        int steps, compute;
        bool repeats;
        const char *label;
    } runs[] = {{6, 300, false, "base"}, {9, 340, true, "base"}, {6, 336, false, "test"}, {9, 296, true, "test"}};
    struct recording recordings[4];
    struct aorta_trace_compare_input inputs[4];
    struct aorta_trace_comparison c;
    for (int i = 0; i < 4; i++) {
        struct plan plan = usual;
        plan.ranks = 1;
        plan.jitter = 0;
        plan.steps = runs[i].steps;
        plan.compute = runs[i].compute;
        record(&plan, &recordings[i]);
        inputs[i] =
            (struct aorta_trace_compare_input){"", runs[i].label, &recordings[i].analysis, runs[i].repeats, NAN};
    }
    check_ok(aorta_trace_compare(inputs, 4, &c));
    assert_int_equal(c.side_count, 2);
    assert_true(c.sides[1].inputs == &inputs[2] && c.sides[1].count == 2 && c.sides[1].step_count == 15);
    const struct aorta_trace_compared *values = row_of(&c, AORTA_SECTION_KERNEL, usual.kernel)->values;
    check_near(values[0].ms, 0.320);
    check_near(values[1].ms, 0.316);
    check_near(values[1].change_ms, -0.004);
    check_near(values[1].count, 1);
    check_near(values[0].mean_us, (6 * 300 + 9 * 340) / 15.0);
    assert_true(values[1].of.repeats == 2 && !values[1].of.assumed);
    assert_true(values[1].of.p_value > 0.5);
    struct aorta_text text = {0}, json = {0};
    aorta_trace_comparison_text(&c, none, NAN, false, &plain, &text);
    assert_non_null(strstr(text.data, "  base        base: 1 rank, 15 steps in 2 recordings\n"));
    assert_non_null(strstr(text.data, " (2 repeats)."));
    aorta_trace_comparison_json(&c, none, NAN, &json);
    json_t *document = json_loads(json.data, JSON_REJECT_DUPLICATES, NULL);
    const json_t *test = json_array_get(json_object_get(document, "tests"), 0);
    const json_t *second = json_array_get(json_object_get(test, "recordings"), 1);
    assert_int_equal(json_array_size(json_object_get(document, "tests")), 1);
    assert_int_equal(json_integer_value(json_object_get(second, "steps")), 9);
    assert_int_equal(json_integer_value(json_object_get(test, "repeats")), 2);
    json_decref(document);
    aorta_text_free(&text);
    aorta_text_free(&json);
    aorta_trace_comparison_free(&c);
    check_ok(aorta_trace_compare((struct aorta_trace_compare_input[]){inputs[0], inputs[2]}, 2, &c));
    assert_true(row_of(&c, AORTA_SECTION_KERNEL, usual.kernel)->values[1].of.p_value < 0.001);
    aorta_trace_comparison_free(&c);
    for (int i = 0; i < 4; i++) end_recording(&recordings[i]);
}

/* Ten steps a side, of which the last of a rank lacks the idle time: no row stands out from all rows, but what makes
 * half of the step's change is named. */
static void what_makes_half_of_the_change_is_named(void **state) {
    (void)state;
    struct plan base = usual, test = usual;
    base.steps = test.steps = 5;
    test.idle = 2000;
    struct compared c;
    compare(&base, &test, &c);
    assert_true(c.comparison.rows[0].values[1].of.p_value > 0.01);
    assert_non_null(c.comparison.sides[1].longer);
    assert_string_equal(c.comparison.sides[1].longer->name, "idle: late kernel launches");
    struct aorta_text text = {0};
    aorta_trace_comparison_text(&c.comparison, none, NAN, false, &plain, &text);
    assert_non_null(strstr(text.data, "mostly idle: late"));
    aorta_text_free(&text);
    end_comparison(&c);
}

/* Only one kernel of six steps has its operation. The comparison names all other kernels by their own names. */
static void operations_of_little_work_say_little(void **state) {
    (void)state;
    struct plan test = usual;
    struct compared c;
    test.compute = 400;
    compare(&usual, &test, &c);
    assert_true(row_of(&c.comparison, AORTA_SECTION_OPERATION, "mm")->values[1].ms < 0.1);
    assert_string_equal(c.comparison.sides[1].longer->name, "gemm");
    assert_null(c.comparison.sides[1].shorter);
    struct aorta_text text = {0};
    aorta_trace_comparison_text(&c.comparison, none, NAN, false, &plain, &text);
    assert_non_null(strstr(text.data, "  largest     gemm 0.3"));
    assert_null(strstr(text.data, "  category ")); /* it would say the same again */
    assert_non_null(strstr(text.data, "\n  mm [4,8]x[8,16]  "));
    assert_null(strstr(text.data, "+0.000")); /* rows and tables that did not change */
    assert_non_null(strstr(text.data, "\nunchanged: collectives (--json has all)\n"));
    aorta_text_free(&text);
    end_comparison(&c);
}

/* Two steps do not separate a change from chance: the headline calls nothing faster or slower. */
static void few_steps_decide_nothing(void **state) {
    (void)state;
    struct plan one = usual, longer = usual;
    one.steps = longer.steps = 2;
    longer.compute = 900;
    struct compared c;
    compare(&one, &longer, &c);
    struct aorta_text text = {0};
    aorta_trace_comparison_text(&c.comparison, none, NAN, true, &plain, &text);
    static const char begin[] =
        "not decided between base and test (2 steps per recording are too few, about 20 needed): ";
    assert_int_equal(strncmp(text.data, begin, sizeof begin - 30), 0); /* which is wrapped */
    aorta_text_clear(&text);
    aorta_trace_comparison_text(&c.comparison, none, NAN, false, &plain, &text);
    assert_null(strstr(text.data, "  chance ")); /* it would say the same again */
    aorta_text_free(&text);
    end_comparison(&c);
}

static void a_bandwidth_counts_by_its_part_of_the_step(void **state) {
    (void)state;
    for (int tenths = 1; tenths <= 10; tenths += 9) {
        struct plan base = usual, test = usual;
        base.gather = 10 * tenths, test.gather = 16 * tenths;
        struct compared c;
        compare(&base, &test, &c);
        struct aorta_text text = {0};
        aorta_trace_comparison_text(&c.comparison, none, NAN, false, &plain, &text);
        assert_int_equal(strstr(text.data, "  bandwidth   all_gather of ") != NULL, tenths == 10);
        aorta_text_free(&text);
        end_comparison(&c);
    }
}

static void text_and_json(void **state) {
    (void)state;
    struct plan other = usual;
    other.gather = 160;
    struct compared c;
    compare(&usual, &other, &c);
    struct aorta_text text = {0}, json = {0};
    aorta_trace_comparison_text(&c.comparison, none, 0.05, false, &plain, &text);
    assert_non_null(strstr(text.data, "  base        base: 2 ranks, 6 steps\n"));
    assert_non_null(strstr(text.data, "\nRecorded ms per step and rank "));
    assert_non_null(strstr(text.data, "+0.060  +60.0%  p<0.001"));
    assert_non_null(strstr(text.data, "  threshold   passed: takes no more than 5% longer\n"));
    aorta_trace_comparison_json(&c.comparison, none, NAN, &json);
    json_t *document = json_loads(json.data, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(document);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(document, "base"), "steps")), 6);
    static const char *const sections[] = {"timeline", "kernels", "gemms", "collectives"};
    for (size_t i = 0; i < 4; i++) assert_true(json_array_size(json_object_get(document, sections[i])) > 0);
    json_t *first = json_array_get(json_object_get(document, "kernels"), 0);
    assert_string_equal(json_string_value(json_object_get(first, "name")), "ncclDevKernel_AllGather_RING_LL");
    json_t *test = json_array_get(json_object_get(first, "tests"), 0);
    check_near(json_real_value(json_object_get(test, "change_ms")), 0.060);
    assert_true(json_is_number(json_object_get(test, "p")));
    const json_t *interval = json_object_get(test, "ci_ms");
    assert_int_equal(json_array_size(interval), 2);
    assert_true(json_number_value(json_array_get(interval, 0)) <= 0.0601 &&
                json_number_value(json_array_get(interval, 0)) > 0.05);
    assert_true(json_number_value(json_array_get(interval, 1)) >= 0.0599 &&
                json_number_value(json_array_get(interval, 1)) < 0.07);
    json_decref(document);
    aorta_text_free(&text);
    aorta_text_free(&json);
    end_comparison(&c);
}

/* Kernels of two vendors, and products in two forms: what they do is the same. Times in us.
 *
 *   base   aten::addmm > ampere_sgemm 20   aten::cudnn_convolution > implicit_conv 30
 *   test   aten::mm > Cijk_gemm 50         aten::miopen_convolution > igemm_fwd 10    */
static void other_kernels_line_up(void **state) {
    (void)state;
    static const struct {
        const char *operation, *kernel;
        int us;
    } work[2][2] = {{{"aten::addmm", "ampere_sgemm_64x64", 20}, {"aten::cudnn_convolution", "implicit_convolve_1", 30}},
                    {{"aten::mm", "Cijk_Ailk_Bljk", 50}, {"aten::miopen_convolution", "igemm_fwd_gtcx3", 10}}};
    struct compared c;
    for (int side = 0; side < 2; side++) {
        struct aorta_text text = {0};
        aorta_text_puts(&text, "{\"traceEvents\": [{\"ph\": \"M\", \"name\": \"x\"}");
        for (int i = 0; i < 2; i++) {
            char args[32];
            snprintf(args, sizeof args, "\"correlation\": %d", i + 1);
            add_event(&text, "cpu_op", work[side][i].operation, 100 * i, 50, 7, "");
            add_event(&text, "cuda_runtime", "cudaLaunchKernel", 100 * i + 10, 5, 7, args);
            add_event(&text, "kernel", work[side][i].kernel, 100 * i + 20, work[side][i].us, 1, args);
        }
        aorta_text_puts(&text, "]}");
        c.recordings[side] = (struct recording){0};
        check_ok(read_memory(text.data, text.length, 0, false, &c.recordings[side].list));
        check_ok(aorta_trace_analyze(&c.recordings[side].list, NULL, &c.recordings[side].analysis));
        c.inputs[side] = (struct aorta_trace_compare_input){side ? "test" : "base", side ? "test" : "base",
                                                            &c.recordings[side].analysis, false, NAN};
        aorta_text_free(&text);
    }
    check_ok(aorta_trace_compare(c.inputs, 2, &c.comparison));
    const struct aorta_trace_compare_row *mm = row_of(&c.comparison, AORTA_SECTION_OPERATION, "mm");
    check_near(mm->values[0].ms, 0.020);
    check_near(mm->values[1].ms, 0.050);
    check_near(row_of(&c.comparison, AORTA_SECTION_OPERATION, "convolution")->values[1].change_ms, -0.020);
    check_near(row_of(&c.comparison, AORTA_SECTION_CATEGORY, "gemm")->values[1].change_ms, 0.030);
    check_near(row_of(&c.comparison, AORTA_SECTION_CATEGORY, "convolution")->values[1].change_ms, -0.020);
    struct aorta_text text = {0};
    aorta_trace_comparison_text(&c.comparison, none, NAN, false, &plain, &text);
    assert_non_null(strstr(text.data, "  opposite    mm 0.0200 -> 0.0500 ms (+150%)\n"));
    assert_non_null(strstr(text.data, "  category    gemm 0.0200 -> 0.0500 ms (+150%)\n"));
    aorta_text_free(&text);
    aorta_trace_comparison_free(&c.comparison);
    for (int side = 0; side < 2; side++) end_recording(&c.recordings[side]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_kernels_line_up),
        cmocka_unit_test(a_recording_equals_itself),
        cmocka_unit_test(planted_changes),
        cmocka_unit_test(a_collective_over_a_boundary_counts_once),
        cmocka_unit_test(the_timeline_adds_up),
        cmocka_unit_test(kernels_of_another_name),
        cmocka_unit_test(regressions),
        cmocka_unit_test(what_makes_half_of_the_change_is_named),
        cmocka_unit_test(noise_is_no_news),
        cmocka_unit_test(operations_of_little_work_say_little),
        cmocka_unit_test(few_steps_decide_nothing),
        cmocka_unit_test(a_bandwidth_counts_by_its_part_of_the_step),
        cmocka_unit_test(text_and_json),
        cmocka_unit_test(runs_of_a_side),
        cmocka_unit_test(recordings_are_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
