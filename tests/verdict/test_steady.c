/* Figures are of steps in which the program does what it does for long: compilation, autotuning and the opening of
 * libraries lie before them. */
#include "analysis/analysis.h"
#include "report/trace_report.h"
#include "said.h"
#include "samples/kineto.h"
#include "trace/infer.h"
#include "verdict/verdict.h"

#include <string.h>

struct run {
    struct aorta_trace_list list;
    struct aorta_trace_analysis analysis;
    struct aorta_verdict verdict;
};

static void analyze(struct run *run, const struct aorta_trace_analysis_options *options) {
    check_ok(aorta_trace_infer_steps(&run->list));
    check_ok(aorta_trace_analyze(&run->list, options, &run->analysis));
    said_make(&run->analysis, &run->verdict);
}

static void end(struct run *run) {
    aorta_verdict_free(&run->verdict);
    aorta_trace_analysis_free(&run->analysis);
    aorta_trace_list_free(&run->list);
}

static void print(const struct run *run, struct aorta_text *text) {
    aorta_trace_report_text(&(struct aorta_trace_report){.analysis = &run->analysis, .verdict = &run->verdict}, NULL,
                            text);
    check_ok(aorta_text_check(text));
}

enum { STEPS = 12 };
static const char *const step_kernels[] = {"embed", "gemm", "norm", "loss", "gemm_backward", "multi_tensor_adam"};
enum { KERNELS = sizeof step_kernels / sizeof *step_kernels };

static const char to_device[] = "Memcpy HtoD (Pageable -> Device)", to_host[] = "Memcpy DtoH (Device -> Pageable)";

/* A call of 5 us, and the copy on stream 7 that it launches. */
static void add_copy(struct sample_kineto *sample, const char *name, int correlation, double call_us, double at_us,
                     double lasts_us, int bytes) {
    char args[128];
    snprintf(args, sizeof args, "\"correlation\": %d", correlation);
    sample_kineto_event(sample, "cuda_runtime", "cudaMemcpyAsync", 1, call_us, 5, args);
    snprintf(args, sizeof args, "\"device\": 0, \"stream\": 7, \"bytes\": %d, \"correlation\": %d", bytes, correlation);
    sample_kineto_event(sample, "gpu_memcpy", name, 7, at_us, lasts_us, args);
}

/* Steps of 36 ms, 2.5 ms of each kernel: 15 ms of compute. Before kernel 3 of step `i` the host stands still for
 * late_ms[i] more. */
static void loop(struct run *run, const double *late_ms) {
    struct sample_kineto sample;
    double at_us = 1000;
    sample_kineto_begin(&sample, 0, 1);
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < KERNELS; i++) {
            if (i == 3) at_us += 1e3 * late_ms[step];
            sample_kineto_kernel(&sample, step_kernels[i], 7, at_us, at_us + 10, 2500, "");
            at_us += 6000;
        }
    }
    sample_kineto_open(&sample, &run->list);
}

/* In the first step kernels are compiled: 877 ms; in the third one more. A step takes 36 ms, 21 of them idle:
 *
 *   |embed gemm norm ______________ compiles ______________ loss ...|embed gemm norm  loss ...|...
 *   |                    step 0: 913 ms                             |   step 1: 36 ms         |
 */
static void compilation_is_no_pause_of_the_host(void **state) {
    (void)state;
    static const double late_ms[STEPS] = {877, 0, 120};
    struct run run = {0};
    loop(&run, late_ms);
    analyze(&run, NULL);
    assert_true(run.analysis.stepped);
    assert_int_equal(run.analysis.warmup, 3);
    assert_int_equal(run.verdict.iterations, run.analysis.ranks[0].steps);
    assert_float_equal(run.verdict.step_ms_mean, 36, 0.01);
    assert_float_equal(run.verdict.idle_ms, 21, 0.1);
    said_expect(said_words(&run.verdict), "steps of 1 rank after 3 of warm-up");
    struct aorta_text text = {0};
    print(&run, &text);
    said_expect(said_unwrapped(text.data), "steps found by repeating kernels, as none are marked");
    aorta_text_free(&text);
    for (size_t i = 0; i < run.verdict.finding_count; i++) {
        const struct aorta_facts *facts = &run.verdict.findings[i].facts;
        for (size_t j = 0; j < facts->count; j++)
            if (aorta_fact_rows[facts->items[j].key].unit == AORTA_UNIT_MS) assert_true(facts->items[j].value <= 36.01);
    }
    end(&run);
}

/* A delay that recurs is no warm-up: every fourth step has an evaluation, from the first step on. */
static void what_recurs_is_no_warmup(void **state) {
    (void)state;
    static const double late_ms[STEPS] = {100, 0, 0, 0, 100, 0, 0, 0, 100};
    struct run run = {0};
    loop(&run, late_ms);
    analyze(&run, NULL);
    assert_true(run.analysis.stepped);
    assert_int_equal(run.analysis.warmup, 0);
    assert_true(run.verdict.step_ms_mean > 50);
    end(&run);
}

/* A pause in the middle is a pause. */
static void a_late_pause_is_no_warmup(void **state) {
    (void)state;
    static const double late_ms[STEPS] = {0, 0, 0, 0, 0, 300};
    struct run run = {0};
    loop(&run, late_ms);
    analyze(&run, NULL);
    assert_int_equal(run.analysis.warmup, 0);
    assert_true(run.verdict.step_ms_mean > 50);
    end(&run);
}

/* Steps that were asked for are analysed. */
static void chosen_steps_are_no_warmup(void **state) {
    (void)state;
    static const double late_ms[STEPS] = {877};
    struct run run = {0};
    loop(&run, late_ms);
    analyze(&run, &(struct aorta_trace_analysis_options){.all_steps = true});
    assert_int_equal(run.analysis.warmup, 0);
    assert_true(run.verdict.step_ms_mean > 100);
    end(&run);
}

/* The kernel of the first step takes four times as long. Tables per step leave out this warm-up. All other tables say
 * that they cover the whole recording.
 *
 *   |        gemm 400        |gemm 100|gemm 100| …
 */
static void tables_say_what_they_are_of(void **state) {
    (void)state;
    for (int all = 0; all < 2; all++) {
        struct run run = {0};
        struct sample_kineto sample;
        struct aorta_text text = {0};
        sample_kineto_begin(&sample, 0, 1);
        for (int i = 0; i < 10; i++) {
            const double at = i ? 1000 + 150 * i : 100, takes = i ? 100 : 400;
            char name[32];
            snprintf(name, sizeof name, "ProfilerStep#%d", i);
            sample_kineto_event(&sample, "user_annotation", name, 1, at, i ? 149 : 1040, "");
            sample_kineto_kernel(&sample, "gemm", 7, at + 5, at + 10, takes, "");
        }
        sample_kineto_open(&sample, &run.list);
        analyze(&run, all ? &(struct aorta_trace_analysis_options){.all_steps = true} : NULL);
        assert_true((run.analysis.warmup > 0) == !all);
        assert_true(aorta_trace_beyond_steps(&run.analysis) == !all);
        const struct aorta_trace_kernel_row *row = &run.analysis.ranks[0].kernels[0];
        assert_float_equal(row->times.p95_ns, 265000, 1);
        assert_float_equal(row->step_p95_ns, all ? 265000 : 100000, 1);
        assert_float_equal(row->step_p50_ns, 100000, 1);
        print(&run, &text);
        said_expect(text.data, "streams  7: 1.300"); /* of all steps */
        assert_int_equal(strstr(text.data, "(2 warm-up steps) are not in the steps below") != NULL, !all);
        said_expect(text.data, "Whole recording, ms\n");
        said_expect(text.data, "Per step, ms\n");
        aorta_text_clear(&text);
        const struct aorta_trace_report report = {
            .analysis = &run.analysis, .verdict = &run.verdict, .by = 1u << AORTA_BY_CATEGORY, .top = 5};
        aorta_trace_report_by(&report, NULL, &text);
        assert_true((strstr(text.data, "By category, whole recording") != NULL) == !all);
        aorta_text_free(&text);
        end(&run);
    }
}

/* The host prepares a batch for 250 ms in each of two steps, before the GPU's first work. `adam`: a kernel of the step
 * before the recording, which the first step's wait follows:
 *
 *   step           | batch ____ | launch |  batch ____ | launch |
 *   GPU     | adam |              | gemm |               | gemm |    the span begins with adam or gemm */
static void steps_that_begin_with_a_wait(bool adam, struct run *run, struct aorta_text *text) {
    struct sample_kineto sample;
    sample_kineto_begin(&sample, 0, 1);
    if (adam) sample_kineto_kernel(&sample, "adam", 7, 900, 910, 40, "");
    for (int i = 0; i < 2; i++) {
        char name[32];
        const double at = 1000 + 300000 * i;
        snprintf(name, sizeof name, "ProfilerStep#%d", i);
        sample_kineto_event(&sample, "user_annotation", name, 1, at, 299990, "");
        sample_kineto_kernel(&sample, "gemm", 7, at + 250000, at + 250010, 49000, "");
    }
    sample_kineto_open(&sample, &run->list);
    analyze(run, NULL);
    print(run, text);
    said_near(run->verdict.step_ms_mean, 299, 1);
}

static void a_step_that_begins_before_the_first_work_is_said(void **state) {
    (void)state;
    struct run run = {0};
    struct aorta_text text = {0};
    steps_that_begin_with_a_wait(false, &run, &text);
    said_expect(text.data, "start-up the first step begins 250.010 ms before the GPU's first work, where the span");
    aorta_text_free(&text);
    end(&run);
}

static void the_wait_of_the_first_step_is_in_the_step(void **state) {
    (void)state;
    struct run run = {0};
    struct aorta_text text = {0};
    steps_that_begin_with_a_wait(true, &run, &text);
    assert_null(strstr(text.data, "start-up"));
    aorta_text_free(&text);
    end(&run);
}

/* A kernel is compiled for 1754 ms and runs 400 times, 46 us each:
 *
 *   |normal| ______ compiles ______ |soft|soft|soft| ... 400
 */
static void a_loop_of_one_kernel_has_steps(void **state) {
    (void)state;
    struct run run = {0};
    struct sample_kineto sample;
    struct aorta_text text = {0};
    sample_kineto_begin(&sample, 0, 1);
    sample_kineto_kernel(&sample, "normal", 7, 1000, 1010, 40, "");
    for (int i = 0; i < 400; i++) sample_kineto_kernel(&sample, "soft", 7, 1755050 + 6 * i, 1755060 + 47 * i, 46, "");
    sample_kineto_open(&sample, &run.list);
    analyze(&run, NULL);
    assert_int_equal(run.analysis.ranks[0].steps + run.analysis.warmup, 399); /* of the last the end is not known */
    assert_float_equal(run.verdict.step_ms_p50, 0.047, 1e-9);
    assert_float_equal(run.verdict.idle_ms, 0.001, 1e-4);
    print(&run, &text);
    assert_null(said_finding(&run.verdict, AORTA_CAUSE_HOST_PAUSE));
    said_expect(text.data, "start-up the first 1754.096 of "); /* the step begins with the gap of 1 us before it */
    said_expect(text.data, " are not in the steps below");
    /* tables are of the steps, too */
    const struct aorta_trace_rank *rank = &run.analysis.ranks[0];
    said_expect(text.data, "0.046   100.0%");
    assert_null(strstr(text.data, "  normal\n"));
    assert_int_equal(rank->kernels[0].times.count, 400);
    assert_int_equal(rank->kernels[0].step_count, rank->steps);
    assert_int_equal(rank->kernels[1].step_count, 0);
    said_expect(text.data, "  step       0.0470 ms (p50 0.0470); GPU busy 0.0460\n"); /* not 0.05 of 0.05 */
    aorta_text_free(&text);
    end(&run);
}

/* A step clears its output, computes and copies the result to the host; each third one copies input first:
 *
 *     |in|fill|match|   to host    |          |fill|match|   to host    |          |fill|…       1 ms a step */
static void steps_begin_with_what_clears_their_output(void **state) {
    (void)state;
    struct run run = {0};
    struct sample_kineto sample;
    char args[64];
    sample_kineto_begin(&sample, 0, 1);
    for (int i = 0; i < 30; i++) {
        const double at_us = 1000 + 1000.0 * i;
        if (i % 3 == 0) add_copy(&sample, to_device, 3000 + i, at_us - 20, at_us, 1, 9);
        snprintf(args, sizeof args, "\"correlation\": %d", 1000 + i);
        sample_kineto_event(&sample, "cuda_runtime", "cudaMemsetAsync", 1, at_us - 10, 5, args);
        snprintf(args, sizeof args, "\"device\": 0, \"stream\": 7, \"correlation\": %d", 1000 + i);
        sample_kineto_event(&sample, "gpu_memset", "Memset (Device)", 7, at_us + 5, 3, args);
        sample_kineto_kernel(&sample, "match", 7, at_us - 3, at_us + 10, 20, "");
        add_copy(&sample, to_host, 2000 + i, at_us, at_us + 32, 600, 4000000);
    }
    sample_kineto_open(&sample, &run.list);
    analyze(&run, NULL);
    assert_true(run.analysis.stepped);
    said_near(run.verdict.step_ms_p10, 1, 0.01);
    said_near(run.verdict.step_ms_p90, 1, 0.01);
    end(&run);
}

/* 30 streams take turns, 20 rounds of four kernels each: rounds of the first one are no steps of the program.
 *
 *     stream 8   |abcd|abcd|…|                                       stream 9   …|abcd|abcd|…|         */
static void rounds_of_one_stream_are_no_steps(void **state) {
    (void)state;
    static const char *const names[] = {"a", "b", "c", "d"};
    struct run run = {0};
    struct sample_kineto sample;
    double at_us = 1000;
    sample_kineto_begin(&sample, 0, 1);
    for (int i = 0; i < 30 * 20 * 4; i++, at_us += 50)
        sample_kineto_kernel(&sample, names[i % 4], 8 + i / 80, at_us, at_us + 5, 40, "");
    sample_kineto_open(&sample, &run.list);
    analyze(&run, NULL);
    assert_false(run.analysis.stepped);
    end(&run);
}

/* 300 pairs of a fill and a product while the best of its variants is looked for; then the program: a product and a
 * softmax, 100 times. */
static void autotuning_is_no_step(void **state) {
    (void)state;
    struct run run = {0};
    struct sample_kineto sample;
    double at_us = 1000;
    sample_kineto_begin(&sample, 0, 1);
    for (int i = 0; i < 800; i++, at_us += 150) {
        const bool tries = i < 600;
        sample_kineto_kernel(&sample,
                             i % 2   ? "mm"
                             : tries ? "fill"
                                     : "softmax",
                             7, at_us, at_us + 10, tries ? 80 : 40, "");
    }
    sample_kineto_kernel(&sample, "sum", 7, at_us, at_us + 10, 5, "");
    sample_kineto_open(&sample, &run.list);
    analyze(&run, NULL);
    assert_true(run.analysis.ranks[0].steps >= 98 && run.analysis.ranks[0].steps <= 100);
    assert_float_equal(run.verdict.compute_ms, 0.08, 1e-9);
    end(&run);
}

/* 20 steps of 50 equal kernels and another one are these 20 steps. */
static void equal_kernels_in_a_step_are_no_steps(void **state) {
    (void)state;
    struct run run = {0};
    struct sample_kineto sample;
    double at_us = 1000;
    sample_kineto_begin(&sample, 0, 1);
    for (int i = 0; i < 20 * 51; i++, at_us += 20)
        sample_kineto_kernel(&sample, i % 51 ? "layer" : "input", 7, at_us, at_us + 10, 10, "");
    sample_kineto_open(&sample, &run.list);
    analyze(&run, NULL);
    assert_float_equal(run.verdict.step_ms_p50, 51 * 0.02, 1e-9);
    end(&run);
}

static const struct aorta_finding *finding_of(const struct run *run, enum aorta_cause cause) {
    const struct aorta_finding *finding = said_finding(&run->verdict, cause);
    if (!finding) fail_msg("no finding of %s", aorta_cause_name(cause));
    return finding;
}

/* Kernels are launched at once, and one of each step starts 20 ms late: for the stream's sake in each step, or in the
 * first step alone, when it is loaded. */
static void late_starts(struct run *run, bool each) {
    struct sample_kineto sample;
    double at_us = 1000;
    sample_kineto_begin(&sample, 0, 1);
    sample_kineto_kernel(&sample, "fill", 7, 900, 950, 10, "");
    for (int step = 0; step < 4; step++, at_us += 30000) {
        char name[32];
        const double late_us = each || step == 0 ? 20000 : 0;
        snprintf(name, sizeof name, "ProfilerStep#%d", step);
        sample_kineto_event(&sample, "user_annotation", name, 1, at_us - 5, 29990, "");
        sample_kineto_kernel(&sample, "gemm", 7, at_us, at_us + 10, 3000, "");
        sample_kineto_kernel(&sample, "norm", 7, at_us + 4, at_us + 3012 + late_us, 3000, "");
    }
    sample_kineto_open(&sample, &run->list);
    analyze(run, NULL);
}

static void late_starts_in_each_step_are_no_first_use(void **state) {
    (void)state;
    struct run run = {0};
    late_starts(&run, true);
    const struct aorta_finding *latency = finding_of(&run, AORTA_CAUSE_LAUNCH_LATENCY);
    assert_true(said_has(latency, AORTA_FACT_RECURS));
    assert_null(strstr(said_advice(latency), "first use"));
    said_expect(said_advice(latency), "graphics, another process");
    end(&run);
    run = (struct run){0};
    late_starts(&run, false);
    latency = finding_of(&run, AORTA_CAUSE_LAUNCH_LATENCY);
    assert_false(said_has(latency, AORTA_FACT_RECURS));
    said_expect(said_advice(latency), "first use");
    end(&run);
}

/* An inference engine captures its graphs: each kernel is launched once, late. A captured launch runs nothing:
 *
 *   no capture        gemm norm softmax
 *   mostly captures   [captured] gemm norm softmax
 *   hardly captures   [captured] gemm norm softmax, eight times: the verdict is about what runs
 */
static void who_captures_graphs_is_not_asked_to(void **state) {
    (void)state;
    enum { NONE, MOSTLY, HARDLY, COUNT };
    for (int captures = 0; captures < COUNT; captures++) {
        struct run run = {0};
        struct sample_kineto sample;
        sample_kineto_begin(&sample, 0, 1);
        if (captures) {
            sample_kineto_event(&sample, "cuda_runtime", "cudaStreamBeginCapture", 1, 990, 3, "");
            sample_kineto_event(&sample, "cuda_runtime", "cudaLaunchKernel", 1, 994, 2, "\"correlation\": 777777");
            sample_kineto_event(&sample, "cuda_runtime", "cudaStreamEndCapture", 1, 997, 2, "");
        }
        for (int i = 0; i < (captures == HARDLY ? 24 : 3); i++) {
            static const char *const names[] = {"gemm", "norm", "softmax"};
            sample_kineto_kernel(&sample, names[i % 3], 7, 1000 + 500 * i, 1010 + 500 * i, 20, "");
        }
        sample_kineto_open(&sample, &run.list);
        analyze(&run, NULL);
        const struct aorta_finding *launches = finding_of(&run, AORTA_CAUSE_HOST_LAUNCH);
        const bool said = captures == MOSTLY;
        assert_int_equal(said_has(launches, AORTA_FACT_CAPTURES), said);
        assert_int_equal(strstr(said_advice(launches), "capture the launches in a graph") == NULL, said);
        said_expect(said_advice(launches), said ? "a capture happens once" : "fewer, larger kernels");
        struct aorta_text headline = {0};
        aorta_verdict_headline(&run.verdict, &headline);
        assert_int_equal(strstr(headline.data, "record it while it replays them") != NULL, said);
        aorta_text_free(&headline);
        end(&run);
    }
}

/* Every second piece of work is an exposed copy within the GPU:
 *
 *   |gemm copy gemm copy gemm copy|...
 */
static void copies_within_the_gpu_need_no_pinned_memory(void **state) {
    (void)state;
    struct run run = {0};
    struct sample_kineto sample;
    char args[64];
    sample_kineto_begin(&sample, 0, 1);
    sample_kineto_event(&sample, "cpu_op", "aten::mm", 1, 990, 2, "");
    for (int i = 0; i < 40; i++) {
        const double at_us = 1000 + 400 * i;
        sample_kineto_kernel(&sample, "gemm", 7, 1000 + 20 * i, at_us, 200, "");
        snprintf(args, sizeof args, "\"correlation\": %u, \"stream\": 7, \"device\": 0", ++sample.correlation);
        sample_kineto_event(&sample, "cuda_runtime", "cudaMemcpyAsync", 1, 1010 + 20 * i, 5, args);
        sample_kineto_event(&sample, "gpu_memcpy", "Memcpy DtoD (Device -> Device)", 7, at_us + 200, 200, args);
    }
    sample_kineto_open(&sample, &run.list);
    analyze(&run, NULL);
    const struct aorta_finding *copies = finding_of(&run, AORTA_CAUSE_COPY);
    said_near(said_value(copies, AORTA_FACT_COPY_ALONE), 0.2, 0.01);
    assert_true(said_has(copies, AORTA_FACT_COPIES_WITHIN));
    said_expect(said_advice(copies), "fewer copies within the GPU");
    end(&run);
}

/* Two ranks in one file whose launches and kernels have the same numbers: there is no answer. */
static void mixed_processes_have_no_verdict(void **state) {
    (void)state;
    for (int processes = 1; processes <= 2; processes++) {
        struct run run = {0};
        struct sample_kineto sample;
        struct aorta_text headline = {0};
        sample_kineto_begin(&sample, 0, 1);
        for (int i = 0; i < 40; i++) {
            sample.process = 9 + i % processes;
            sample.correlation = (unsigned)(i / processes);
            sample_kineto_kernel(&sample, "gemm", 7, 1000 + 1000 * (i / 2) + i % 2 * 3, 1010 + 500 * i, 100, "");
        }
        sample_kineto_open(&sample, &run.list);
        analyze(&run, NULL);
        aorta_verdict_headline(&run.verdict, &headline);
        assert_int_equal(strstr(headline.data, "unknown: the file mixes events of 2 processes") != NULL,
                         processes == 2);
        aorta_text_free(&headline);
        end(&run);
    }
}

/* Every second step has sizes that are new, for which a library plans 40 ms; it has more kernels, too. */
static void stalls_of_steps_that_differ_come_with_new_sizes(void **state) {
    (void)state;
    struct run run = {0};
    struct sample_kineto sample;
    double at_us = 1000;
    sample_kineto_begin(&sample, 0, 1);
    for (int step = 0; step < 14; step++) {
        char name[32];
        const double from_us = at_us;
        const int kernels = step % 2 ? 16 : 8;
        for (int i = 0; i < kernels; i++) {
            if (step % 2 && i == 4) at_us += 40000;
            sample_kineto_event(&sample, "cpu_op", "aten::mm", 1, at_us - 5, 10, "");
            sample_kineto_kernel(&sample, i % 2 ? "gemm" : "norm", 7, at_us, at_us + 10, 900, "");
            at_us += 1000;
        }
        snprintf(name, sizeof name, "ProfilerStep#%d", step);
        sample_kineto_event(&sample, "user_annotation", name, 1, from_us - 10, at_us - from_us, "");
    }
    sample_kineto_open(&sample, &run.list);
    analyze(&run, NULL);
    const struct aorta_finding *stall = finding_of(&run, AORTA_CAUSE_HOST_PAUSE);
    assert_true(said_has(stall, AORTA_FACT_PAUSE_SIZES));
    said_expect(said_evidence(&run.verdict, stall), "may plan or compile for new sizes");
    said_expect(said_advice(stall), "pad to a few fixed sizes");
    end(&run);
}

/* The host makes a batch for 10 ms, copies it to the device and launches; 12 ms a step. Or it computes there on
 * gradients that were copied to the host, as many bytes as it copies back. Or what it copies are arguments of `first`.
 */
static void pause_before_a_copy(bool offloaded, const char *first) {
    const bool input = !offloaded && !first;
    struct run run = {0};
    struct sample_kineto sample;
    sample_kineto_begin(&sample, 0, 1);
    sample_kineto_event(&sample, "cpu_op", "aten::to", 1, 10, 1, ""); /* a program of PyTorch */
    for (int step = 0; step < 8; step++) {
        const double at_us = 1000 + 12000 * step;
        if (step && input) sample_kineto_event(&sample, "cpu_op", "aten::randn", 1, at_us - 9000, 8000, "");
        add_copy(&sample, to_device, 1000 + step, at_us, at_us + 5, 100, 8000000);
        for (int i = 0; i < KERNELS; i++)
            sample_kineto_kernel(&sample, i || !first ? step_kernels[i] : first, 7, at_us + 10 + 5 * i,
                                 at_us + 110 + 250 * i, 240, "");
        if (!offloaded) continue;
        add_copy(&sample, to_host, 2000 + step, at_us + 60, at_us + 1900, 100, 8000000);
    }
    sample_kineto_open(&sample, &run.list);
    analyze(&run, NULL);
    const struct aorta_finding *pause = finding_of(&run, input ? AORTA_CAUSE_DATA_WAIT : AORTA_CAUSE_HOST_PAUSE);
    assert_int_equal(said_has(pause, AORTA_FACT_PAUSE_OFFLOAD), offloaded);
    assert_int_equal(said_has(pause, AORTA_FACT_PAUSE_INPUT), input);
    if (input) assert_string_equal(said_fact(pause, AORTA_FACT_PAUSE)->place.host, "aten::randn");
    said_expect(said_advice(pause), offloaded ? "OMP_NUM_THREADS"
                                    : input   ? "DataLoader workers"
                                              : "find what the host");
    end(&run);
}

/* Two batches a step, as for a second network: the host makes each for 8 ms, so neither stall is most of the gain. */
static void a_pause_before_each_batch_is_of_the_input(void **state) {
    (void)state;
    struct run run = {0};
    struct sample_kineto sample;
    sample_kineto_begin(&sample, 0, 1);
    for (int batch = 0; batch < 16; batch++) {
        const double at_us = 1000 + 10000 * batch;
        add_copy(&sample, to_device, 1000 + batch, at_us, at_us + 5, 100, 8000000);
        for (int i = 0; i < KERNELS; i++)
            sample_kineto_kernel(&sample, batch % 2 || i < KERNELS - 1 ? step_kernels[i] : "second_network", 7,
                                 at_us + 10 + 5 * i, at_us + 110 + 250 * i, 240, "");
    }
    sample_kineto_open(&sample, &run.list);
    analyze(&run, NULL);
    assert_true(said_has(finding_of(&run, AORTA_CAUSE_DATA_WAIT), AORTA_FACT_PAUSE_INPUT));
    end(&run);
}

/* XLA's host is silent for 10 ms a step: it compiles, loads what it has compiled, and copies constants to the device.
 * Or it works on weights, whose copy to the host has begun before; no call shows that it waits for the copy. */
static void pauses_of_xla_have_reasons(void **state) {
    (void)state;
    for (int compiles = 0; compiles < 2; compiles++) {
        struct run run = {0};
        struct sample_kineto sample;
        sample_kineto_begin(&sample, 0, 1);
        for (int step = 0; step < 8; step++) {
            const double at_us = 1000 + 12000 * step;
            if (compiles && step)
                sample_kineto_event(&sample, "cuda_driver", "cuModuleLoadData", 1, at_us - 900, 500, "");
            if (compiles) add_copy(&sample, to_device, 1000 + step, at_us, at_us + 5, 100, 8000000);
            for (int i = 0; i < KERNELS; i++)
                sample_kineto_kernel(&sample, "loop_add_fusion", 7, at_us + 10 + 5 * i, at_us + 110 + 250 * i, 240, "");
            if (!compiles) add_copy(&sample, to_host, 2000 + step, at_us + 60, at_us + 1700, 100, 8000000);
        }
        sample_kineto_open(&sample, &run.list);
        analyze(&run, NULL);
        const struct aorta_finding *pause = finding_of(&run, AORTA_CAUSE_HOST_PAUSE);
        assert_true(said_has(pause, compiles ? AORTA_FACT_PAUSE_COMPILED : AORTA_FACT_PAUSE_RESULT));
        assert_null(aorta_verdict_find(&run.verdict, AORTA_CAUSE_DATA_WAIT));
        said_expect(said_advice(pause), compiles ? "jit outside the loop" : "do on the device what the host does");
        end(&run);
    }
}

static void a_pause_before_the_batch_is_copied_is_of_the_input(void **state) {
    (void)state;
    pause_before_a_copy(false, NULL);
    pause_before_a_copy(true, NULL);
    pause_before_a_copy(false, "at::native::detail::chunk_cat_cuda_kernel"); /* FSDP2 */
}

/* A step: six kernels of 500 us, a copy to the host that it waits for, and 5 ms of the host alone. With a result of 1
 * MB the host may compute, so the device cannot go on meanwhile; a value of 4 bytes may be printed later.
 *
 *   host    [launch][wait for the copy]............5 ms............[launch][wait
 *   device   [       3 ms      ][copy]                              [      3 ms */
static void a_pause_after_a_copy_computes_with_it(void **state) {
    (void)state;
    for (int bytes = 4; bytes <= 1000000; bytes += 999996) {
        struct run run = {0};
        struct sample_kineto sample;
        sample_kineto_begin(&sample, 0, 1);
        sample_kineto_event(&sample, "cpu_op", "aten::to", 1, 10, 1, ""); /* a program of PyTorch */
        for (int step = 0; step < 8; step++) {
            const double at_us = 1000 + 8300 * step;
            for (int i = 0; i < KERNELS; i++)
                sample_kineto_kernel(&sample, step_kernels[i], 7, at_us + 5 * i, at_us + 40 + 505 * i, 500, "");
            add_copy(&sample, to_host, 2000 + step, at_us + 60, at_us + 3090, 100, bytes);
            sample_kineto_event(&sample, "cuda_runtime", "cudaStreamSynchronize", 1, at_us + 70, 3130, "");
        }
        sample_kineto_open(&sample, &run.list);
        analyze(&run, NULL);
        const struct aorta_finding *pause = aorta_verdict_find(&run.verdict, AORTA_CAUSE_HOST_PAUSE),
                                   *wait = aorta_verdict_find(&run.verdict, AORTA_CAUSE_HOST_SYNC);
        const bool result = bytes > 4;
        assert_true(pause && wait);
        said_near(pause->alone_ms, 5.1, 0.2);
        said_near(wait->alone_ms, result ? 0 : 3.1, 0.2);
        assert_int_equal(said_has(pause, AORTA_FACT_PAUSE_RESULT), result);
        if (result) said_expect(said_advice(pause), "do on the device");
        end(&run);
    }
}

/* The same with one call, as cudaMemcpy, which returns after the copy. Nothing is copied back that could stay. */
static void a_pause_after_a_blocking_copy_computes_with_it(void **state) {
    (void)state;
    struct run run = {0};
    struct sample_kineto sample;
    sample_kineto_begin(&sample, 0, 1);
    for (int step = 0; step < 8; step++) {
        const double at_us = 1000 + 12300 * step;
        char args[64];
        for (int i = 0; i < KERNELS; i++)
            sample_kineto_kernel(&sample, step_kernels[i], 7, at_us + 5 * i, at_us + 40 + 505 * i, 500, "");
        snprintf(args, sizeof args, "\"correlation\": %d", 2000 + step);
        sample_kineto_event(&sample, "cuda_runtime", "cudaMemcpy", 1, at_us + 60, 7040, args);
        snprintf(args, sizeof args, "\"device\":0,\"stream\":7,\"correlation\":%d,\"bytes\":8000000", 2000 + step);
        sample_kineto_event(&sample, "gpu_memcpy", to_host, 7, at_us + 3090, 4000, args);
    }
    sample_kineto_open(&sample, &run.list);
    analyze(&run, NULL);
    const struct aorta_finding *pause = finding_of(&run, AORTA_CAUSE_HOST_PAUSE);
    assert_true(said_has(pause, AORTA_FACT_PAUSE_RESULT));
    said_near(pause->alone_ms, 5.1, 0.2);
    said_expect(said_advice(pause), "do on the device what the host does with the copy");
    assert_false(said_has(finding_of(&run, AORTA_CAUSE_COPY), AORTA_FACT_COPIES_RETURN));
    end(&run);
}

/* A step: 3 ms of kernels, 8 MB copied to the host in 4 ms, 5 ms of the host's work, 8 MB copied back in 2 ms. */
static void copy_there_and_back(struct sample_kineto *sample) {
    for (int step = 0; step < 8; step++) {
        const double at_us = 1000 + 14200 * step;
        for (int i = 0; i < KERNELS; i++)
            sample_kineto_kernel(sample, step_kernels[i], 7, at_us + 5 * i, at_us + 40 + 505 * i, 500, "");
        add_copy(sample, to_host, 2000 + step, at_us + 60, at_us + 3090, 4000, 8000000);
        sample_kineto_event(sample, "cuda_runtime", "cudaStreamSynchronize", 1, at_us + 70, 7030, "");
        add_copy(sample, to_device, 3000 + step, at_us + 12100, at_us + 12120, 2000, 8000000);
        sample_kineto_event(sample, "cuda_runtime", "cudaStreamSynchronize", 1, at_us + 12110, 2015, "");
    }
}

/* On the device the step takes 3 ms. */
static void what_is_copied_to_the_host_and_back_stays_on_the_device(void **state) {
    (void)state;
    struct run run = {0};
    struct sample_kineto sample;
    sample_kineto_begin(&sample, 0, 1);
    sample_kineto_event(&sample, "cpu_op", "aten::to", 1, 10, 1, ""); /* a program of PyTorch */
    copy_there_and_back(&sample);
    sample_kineto_open(&sample, &run.list);
    analyze(&run, NULL);
    const struct aorta_finding *copy = finding_of(&run, AORTA_CAUSE_COPY);
    said_near(aorta_finding_shown_ms(copy), 11, 0.4);
    said_near(said_value(copy, AORTA_FACT_COPIES_RETURN), 11, 0.4);
    said_expect(said_advice(copy), "keep on the device");
    assert_int_equal(copy->shares[0].cause, AORTA_CAUSE_HOST_PAUSE);
    end(&run);
}

/* Two ranks of a program in C have no collectives: they may exchange the 8 MB. The 3 ms of kernels can hide as much of
 * the host's 5 ms, and the other 2 ms stay. */
static void ranks_may_exchange_what_they_copy(void **state) {
    (void)state;
    struct run run = {0};
    for (int rank = 0; rank < 2; rank++) {
        struct sample_kineto sample;
        sample_kineto_begin(&sample, rank, 2);
        copy_there_and_back(&sample);
        sample_kineto_open(&sample, &run.list);
    }
    analyze(&run, NULL);
    const struct aorta_finding *pause = finding_of(&run, AORTA_CAUSE_HOST_PAUSE);
    said_near(aorta_finding_shown_ms(pause), 3, 0.1);
    said_expect(said_evidence(&run.verdict, pause), "ranks may exchange data there");
    said_expect(said_advice(pause), "MPI_Isend");
    assert_true(run.verdict.replay.floor_ms > 2);
    end(&run);
}

/* The host makes a batch for 6 ms and then launches each of 24 kernels after the one before has ended. */
static void launches_share_with_the_wait_for_input(void **state) {
    (void)state;
    struct run run = {0};
    struct sample_kineto sample;
    int shared = 0;
    sample_kineto_begin(&sample, 0, 1);
    sample_kineto_event(&sample, "cpu_op", "aten::to", 1, 10, 1, ""); /* a program of PyTorch */
    for (int step = 0; step < 8; step++) {
        const double at_us = 1000 + 12000 * step;
        add_copy(&sample, to_device, 1000 + step, at_us, at_us + 5, 100, 8000000);
        for (int i = 0; i < 4 * KERNELS; i++)
            sample_kineto_kernel(&sample, step_kernels[i / 4], 7, at_us + 110 + 240 * i, at_us + 116 + 240 * i, 100,
                                 "");
    }
    sample_kineto_open(&sample, &run.list);
    analyze(&run, NULL);
    (void)finding_of(&run, AORTA_CAUSE_DATA_WAIT);
    for (size_t i = 0; i < run.verdict.finding_count; i++)
        for (int j = 0; j < run.verdict.findings[i].share_count; j++) {
            assert_int_not_equal(run.verdict.findings[i].shares[j].cause, AORTA_CAUSE_HOST_PAUSE);
            shared += run.verdict.findings[i].shares[j].cause == AORTA_CAUSE_DATA_WAIT;
        }
    assert_int_equal(shared, 1);
    end(&run);
}

/* Each `period`th of 24 steps of 12 ms ends with twelve copies of 20 MB to the host, each with 15 ms in which the host
 * uses it. */
static void copies_that_the_host_uses(struct sample_kineto *sample, int period) {
    char args[128];
    double at_us = 1000;
    sample_kineto_event(sample, "cpu_op", "aten::to", 1, 10, 1, ""); /* a program of PyTorch */
    for (int step = 0; step < 24; step++) {
        const bool used = step % period == period - 1;
        snprintf(args, sizeof args, "ProfilerStep#%d", step);
        sample_kineto_event(sample, "user_annotation", args, 1, at_us, used ? 204000 : 12000, "");
        for (int i = 0; i < KERNELS; i++)
            sample_kineto_kernel(sample, step_kernels[i], 7, at_us + 10 + 5 * i, at_us + 110 + 1900 * i, 1890, "");
        at_us += 12000;
        for (int i = 0; used && i < 12; i++, at_us += 16000) {
            add_copy(sample, to_host, 5000 + 20 * step + i, at_us + 10, at_us + 20, 1000, 20000000);
            sample_kineto_event(sample, "cuda_runtime", "cudaStreamSynchronize", 1, at_us + 20, 1100, "");
        }
    }
}

/* Where each step has such stalls, they are no checkpoints. */
static void rare_stalls_after_copies_are_a_checkpoint(void **state) {
    (void)state;
    for (int period = 1; period <= 6; period += 5) {
        struct run run = {0};
        struct sample_kineto sample;
        sample_kineto_begin(&sample, 0, 1);
        copies_that_the_host_uses(&sample, period);
        sample_kineto_open(&sample, &run.list);
        analyze(&run, NULL);
        const struct aorta_finding *pause = finding_of(&run, AORTA_CAUSE_HOST_PAUSE);
        assert_true(said_has(pause, AORTA_FACT_PAUSE_SAVE) == (period > 1));
        assert_true(said_has(pause, AORTA_FACT_PAUSE_RESULT) == (period == 1));
        assert_false(said_has(pause, AORTA_FACT_PAUSE_OFFLOAD));
        said_near(said_value(pause, AORTA_FACT_PAUSE), 15, 1);
        if (period > 1) said_expect(said_evidence(&run.verdict, pause), "rare, with large copies to the host");
        said_expect(said_advice(pause), period > 1 ? "async_save" : "do on the device what the host does");
        end(&run);
    }
}

/* One thread launches 5 ms of kernels and the copies of two buckets to the host; threads of gloo sum and copy back,
 * which the first one waits for before it launches the optimizer. 45 ms a step.
 *
 *   thread 1   |kernels, copies to host|............ waits ............|optimizer|
 *   thread 2    |sync|==== sums ====|copy back|
 *   thread 3    |sync|============== sums =================|copy back|
 */
static void data_parallel_over_gloo(struct sample_kineto *sample, bool ranges) {
    enum { BUCKETS = 2 };
    char args[96];
    int correlation = 5000;
    for (int step = 0; step < 6; step++) {
        const double at_us = 1000 + 45000 * step;
        for (int i = 0; i < 5; i++)
            sample_kineto_kernel(sample, step_kernels[i], 7, at_us + 6 * i, at_us + 10 + 1000 * i, 990, "");
        for (int i = 0; i < BUCKETS; i++) {
            const int thread = 2 + i;
            const double back_us = at_us + 20000 * (i + 1), bytes = 4e6 * (i + 1);
            for (int to = 0; to < 2; to++, correlation++) {
                snprintf(args, sizeof args, "\"correlation\": %d", correlation);
                sample_kineto_event(sample, "cuda_runtime", "cudaMemcpyAsync", to ? thread : 1,
                                    to ? back_us : at_us + 40 + 5 * i, 4, args);
                snprintf(args, sizeof args, "\"device\": 0, \"stream\": %d, \"bytes\": %.0f, \"correlation\": %d",
                         40 + i, bytes, correlation);
                sample_kineto_event(sample, "gpu_memcpy",
                                    to ? "Memcpy HtoD (Pinned -> Device)" : "Memcpy DtoH (Device -> Pinned)", 40 + i,
                                    to ? back_us + 10 : at_us + 5010 + 300 * i, 200, args);
            }
            sample_kineto_event(sample, "cuda_runtime", "cudaStreamSynchronize", thread, at_us + 50, 5500, "");
            if (ranges)
                sample_kineto_event(sample, "user_annotation", "gloo:all_reduce", thread, at_us + 45,
                                    back_us + 10 - at_us - 45, "");
        }
        sample_kineto_kernel(sample, step_kernels[KERNELS - 1], 7, at_us + 40300, at_us + 40310, 1000, "");
    }
}

static void collectives_on_the_host_are_named(void **state) {
    (void)state;
    for (int ranges = 0; ranges < 2; ranges++) {
        struct run run = {0};
        struct sample_kineto sample;
        struct aorta_text text = {0};
        sample_kineto_begin(&sample, 0, 1);
        data_parallel_over_gloo(&sample, ranges);
        sample_kineto_open(&sample, &run.list);
        analyze(&run, NULL);
        const struct aorta_finding *first = &run.verdict.findings[0];
        assert_int_equal(first->cause, AORTA_CAUSE_HOST_COLLECTIVE);
        assert_float_equal(first->gain_ms, 34, 1);
        assert_string_equal(said_place(first, AORTA_FACT_HOST_COMM),
                            ranges ? "gloo:all_reduce" : "collective on the host");
        assert_true(said_value(first, AORTA_FACT_HOST_EXPOSED) <= said_value(first, AORTA_FACT_HOST_COMM));
        said_near(said_value(first, AORTA_FACT_HOST_EXPOSED), 35, 1);
        said_expect(said_advice(first), ranges ? "backend \"nccl\"" : "NCCL");
        print(&run, &text);
        assert_null(strstr(text.data, "no collectives"));
        aorta_text_free(&text);
        end(&run);
    }
}

/* Threads that copy batches to the device bring what never came to the host. */
static void threads_that_copy_batches_are_no_collectives(void **state) {
    (void)state;
    struct run run = {0};
    struct sample_kineto sample;
    char args[96];
    sample_kineto_begin(&sample, 0, 1);
    for (int step = 0; step < 6; step++) {
        const double at_us = 1000 + 9000 * step;
        for (int i = 0; i < KERNELS; i++)
            sample_kineto_kernel(&sample, step_kernels[i], 7, at_us + 6 * i, at_us + 10 + 1000 * i, 990, "");
        for (int to = 0; to < 2; to++) {
            snprintf(args, sizeof args, "\"correlation\": %d", 5000 + 2 * step + to);
            sample_kineto_event(&sample, "cuda_runtime", "cudaMemcpyAsync", to ? 2 : 1, at_us + 100, 4, args);
            snprintf(args, sizeof args, "\"device\": 0, \"stream\": %d, \"bytes\": %d, \"correlation\": %d", 40 + to,
                     to ? 4000000 : 5000, 5000 + 2 * step + to);
            sample_kineto_event(&sample, "gpu_memcpy",
                                to ? "Memcpy HtoD (Pinned -> Device)" : "Memcpy DtoH (Device -> Pinned)", 40 + to,
                                at_us + 7000, 100, args);
        }
    }
    sample_kineto_open(&sample, &run.list);
    analyze(&run, NULL);
    for (size_t i = 0; i < run.list.items[0]->call_count; i++)
        assert_true(run.list.items[0]->calls[i].kind != AORTA_CALL_COLLECTIVE);
    end(&run);
}

/* Steps of 36 ms, of which a quarter takes 20 ms more. */
static void steps_that_differ_are_said(void **state) {
    (void)state;
    for (int disturbed = 0; disturbed < 2; disturbed++) {
        struct run run = {0};
        double late_ms[STEPS] = {0};
        for (int i = 2; disturbed && i < STEPS; i += 4) late_ms[i] = 20;
        loop(&run, late_ms);
        analyze(&run, NULL);
        const char *said = strstr(said_words(&run.verdict), "spread 36.0 to 56.0 ms (p10 to p90); rerun on an idle");
        assert_int_equal(said != NULL, disturbed);
        if (disturbed) said_expect(said_words(&run.verdict), "; gains below 10 ms are uncertain");
        end(&run);
    }
}

/* Some steps have longer sequences, for which other products are chosen and which take longer: no disturbance.
 *
 *   |embed gemm_64 norm loss …|embed gemm_256      norm     loss     …|embed gemm_64 …
 */
static void steps_of_other_work_are_no_disturbance(void **state) {
    (void)state;
    struct run run = {0};
    struct sample_kineto sample;
    double at_us = 1000;
    sample_kineto_begin(&sample, 0, 1);
    for (const char *at = "01101001110100010110"; *at; at++) {
        const bool longer = *at == '1';
        for (int i = 0; i < KERNELS; i++) {
            const char *name = i == 1 && longer ? "gemm_256x128" : step_kernels[i];
            sample_kineto_kernel(&sample, name, 7, at_us, at_us + 10, longer ? 7000 : 2500, "");
            at_us += longer ? 12000 : 6000;
        }
    }
    sample_kineto_open(&sample, &run.list);
    analyze(&run, NULL);
    said_expect(said_words(&run.verdict), "(p10 to p90), as their work differs; gains below ");
    assert_null(strstr(said_words(&run.verdict), "rerun"));
    end(&run);
}

/* Each step copies twice as much as the one before, 4 KiB to 64 MiB: no disturbance. Copies of one size are one. */
static void steps_of_other_copies_are_no_disturbance(void **state) {
    (void)state;
    for (int grows = 0; grows < 2; grows++) {
        struct run run = {0};
        struct sample_kineto sample;
        double at_us = 1000;
        sample_kineto_begin(&sample, 0, 1);
        for (int step = 0; step < 15; step++) {
            const double copy_us = (double)(1 << step);
            add_copy(&sample, to_device, 1000 + step, at_us, at_us + 10, copy_us, 4096 << (grows ? step : 0));
            at_us += copy_us + 100;
            for (int i = 0; i < KERNELS; i++, at_us += 30)
                sample_kineto_kernel(&sample, step_kernels[i], 7, at_us, at_us + 10, 15, "");
        }
        sample_kineto_open(&sample, &run.list);
        analyze(&run, NULL);
        said_expect(said_words(&run.verdict), grows ? "(p10 to p90), as their copies differ; gains below "
                                                    : "(p10 to p90); rerun on an idle machine; gains below ");
        end(&run);
    }
}

/* One process: device 0 works from 1 to 1.2 ms, device 1 from 1.3 to 2 ms, which takes 1 ms and not the mean, 0.45. */
static void devices_of_a_process_have_a_time_together(void **state) {
    (void)state;
    struct run run = {0};
    struct sample_kineto sample;
    sample_kineto_begin(&sample, 0, 1);
    for (int i = 0; i < 9; i++) {
        char args[64];
        snprintf(args, sizeof args, "\"device\": %d, \"stream\": 7, \"correlation\": %d", i >= 2, i + 1);
        sample_kineto_event(&sample, "cuda_runtime", "cudaLaunchKernel", 1, 900 + 6 * i, 5, strstr(args, "\"corr"));
        sample_kineto_event(&sample, "kernel", "gemm", 7, i < 2 ? 1000 + 100 * i : 1300 + 100 * (i - 2), 100, args);
    }
    sample_kineto_open(&sample, &run.list);
    analyze(&run, NULL);
    assert_int_equal(run.verdict.rank_count, 2);
    said_near(run.verdict.together_ms, 1, 1e-6);
    said_expect(said_words(&run.verdict), "step 0.450 ms in all (mean of 2 devices; 1.00 together)");
    end(&run);
}

/* Gloo on tensors of the CPU: two steps of 1 ms, 0.5 of it a collective, of which 0.1 beside an operation. */
static void without_a_device_collectives_are_named(void **state) {
    (void)state;
    struct sample_kineto sample;
    struct run run = {0};
    struct aorta_text text = {0};
    sample_kineto_begin(&sample, 0, 2);
    for (int i = 0; i < 2; i++) {
        const double at_us = 1000 + 1000.0 * i;
        sample_kineto_event(&sample, "user_annotation", i ? "ProfilerStep#2" : "ProfilerStep#1", 1, at_us, 1000, "");
        sample_kineto_event(&sample, "cpu_op", "aten::addmm", 1, at_us + 10, 290, "");
        sample_kineto_event(&sample, "cpu_op", "c10d::allreduce_", 1, at_us + 300, 20, "");
        sample_kineto_event(&sample, "user_annotation", "gloo:all_reduce", 2, at_us + 320, 500, "");
        sample_kineto_event(&sample, "cpu_op", "aten::add", 1, at_us + 400, 100, "");
    }
    sample_kineto_open(&sample, &run.list);
    analyze(&run, NULL);
    print(&run, &text);
    said_expect(said_unwrapped(text.data), ", collectives on the host alone 40% step "); /* the headline names them */
    assert_null(strstr(text.data, "does not name its device"));                          /* there is none */
    assert_string_equal(run.verdict.host_collectives.name, "gloo:all_reduce");
    said_near(run.verdict.host_collectives.ran_ms, 0.5, 1e-9);
    said_near(run.verdict.host_collectives.alone_ms, 0.4, 1e-9);
    said_expect(text.data, "gloo:all_reduce on the host for 0.500 ms, 0.400 of it without other operations");
    aorta_text_free(&text);
    end(&run);
}

/* A loop of long kernels, then one of more and shorter ones, whose steps are found:
 *
 *     40 times   | 4 kernels of 300 us |      60 times   | 5 kernels of 10 us |       3 of 51 ms
 */
static void steps_say_how_little_of_the_work_they_are(void **state) {
    (void)state;
    struct sample_kineto sample;
    struct run run = {0};
    double at_us = 1000;
    sample_kineto_begin(&sample, 0, 1);
    for (int i = 0; i < 40 * 4 + 60 * 5; i++) {
        char name[32];
        const bool second = i >= 40 * 4;
        snprintf(name, sizeof name, "%s_%d", second ? "second" : "first", second ? i % 5 : i % 4);
        sample_kineto_kernel(&sample, name, 7, at_us, at_us + 4, second ? 10 : 300, "");
        at_us += second ? 20 : 310;
    }
    sample_kineto_open(&sample, &run.list);
    analyze(&run, NULL);
    assert_false(run.verdict.whole);
    said_near(run.verdict.outside, 48.0 / 51, 0.01);
    said_expect(said_words(&run.verdict), "; steps are 6% of the work");
    said_expect(said_words(&run.verdict), "; --whole analyzes all work");
    aorta_verdict_free(&run.verdict);
    aorta_trace_analysis_free(&run.analysis);
    analyze(&run, &(struct aorta_trace_analysis_options){.whole = true});
    assert_true(run.verdict.whole);
    said_near(run.verdict.outside, 0, 0);
    assert_null(strstr(said_words(&run.verdict), "; steps are"));
    end(&run);
}

/* cuDNN has no operations of the host: the program used a GPU, which was not recorded. */
static void operations_of_the_gpu_say_that_there_is_one(void **state) {
    (void)state;
    static const char *const names[] = {"aten::mkldnn_convolution", "aten::cudnn_convolution"};
    static const char *const rows[] = {"missing the GPU; if the program uses one: ProfilerActivity.CUDA",
                                       "missing the GPU, which aten::cudnn_convolution uses: ProfilerActivity.CUDA"};
    for (int i = 0; i < 2; i++) {
        struct sample_kineto sample;
        struct run run = {0};
        sample_kineto_begin(&sample, 0, 1);
        sample_kineto_event(&sample, "cpu_op", names[i], 1, 1000, 300, "");
        sample_kineto_event(&sample, "cpu_op", "aten::add", 1, 1400, 100, "");
        sample_kineto_open(&sample, &run.list);
        analyze(&run, NULL);
        said_expect(said_words(&run.verdict), rows[i]);
        end(&run);
    }
}

/* Nothing of the program ran in its only step. The time is that of all events, and all collectives in it count:
 *
 *   thread 1   |ProfilerStep, 200 ms|                                      |aten::empty, 1 ms
 *   thread 2        |gloo, 300 ms |    |gloo, 300 ms|                      |
 *   time            |<-------------------- 1000 ms ------------------------->|
 */
static void without_a_device_or_steps_all_collectives_count(void **state) {
    (void)state;
    struct sample_kineto sample;
    struct run run = {0};
    sample_kineto_begin(&sample, 0, 2);
    sample_kineto_event(&sample, "user_annotation", "ProfilerStep#1", 1, 0, 200000, "");
    sample_kineto_event(&sample, "user_annotation", "gloo:all_reduce", 2, 10000, 300000, "");
    sample_kineto_event(&sample, "user_annotation", "gloo:all_reduce", 2, 410000, 300000, "");
    sample_kineto_event(&sample, "cpu_op", "aten::empty", 1, 1009000, 1000, "");
    sample_kineto_open(&sample, &run.list);
    analyze(&run, NULL);
    assert_true(run.verdict.whole);
    said_near(run.verdict.step_ms_mean, 1000, 1e-6);
    said_near(run.verdict.host_collectives.ran_ms, 600, 1e-6);
    said_near(run.verdict.host_alone, 0.6, 1e-6);
    said_near(finding_of(&run, AORTA_CAUSE_COMPUTE)->share, 0.001, 1e-6);
    end(&run);
}

/* Triton's kernels, which the driver launches: nothing that torch.compile can do. */
static void own_kernels_are_not_compiled(void **state) {
    (void)state;
    for (int own = 0; own < 2; own++) {
        struct sample_kineto sample;
        struct run run = {0};
        sample_kineto_begin(&sample, 0, 1);
        if (!own) sample_kineto_event(&sample, "cpu_op", "aten::to", 1, 10, 1, ""); /* a program of PyTorch */
        for (int i = 0; i < 100; i++) {
            char args[64];
            const double at_us = 1000 + 60.0 * i;
            snprintf(args, sizeof args, "\"correlation\": %d", 1000 + i);
            sample_kineto_event(&sample, "cuda_driver", own ? "cuLaunchKernelEx" : "cudaLaunchKernel", 1, at_us, 3,
                                args);
            snprintf(args, sizeof args, "\"correlation\": %d, \"device\": 0, \"stream\": 7", 1000 + i);
            sample_kineto_event(&sample, "kernel", i % 2 ? "softmax" : "blend", 7, at_us + 10, 5, args);
        }
        sample_kineto_open(&sample, &run.list);
        analyze(&run, NULL);
        const char *words = said_words(&run.verdict);
        said_expect(words, "late kernel launches");
        assert_int_equal(strstr(words, "torch.compile") == NULL, own);
        assert_int_equal(strstr(words, "one kernel instead of several") != NULL, own);
        end(&run);
    }
}

/* An elimination has less left in each step: 3 ms fall to 0.1 ms. No step is warm-up, though those of the first half
 * take more than twice as long as those of the second. A program that compiles has an even second half:
 *
 *   elimination   |##########|#########|########|#######|######|#####|####|###|##|#|
 *   compiles      |##########|#########|########|#######|#|#|#|#|#|#|#|#|
 */
static void work_that_shrinks_is_no_warmup(void **state) {
    (void)state;
    enum { SHRINKING = 60 };
    for (int compiles = 0; compiles < 2; compiles++) {
        struct run run = {0};
        struct sample_kineto sample;
        struct aorta_text text = {0};
        double at_us = 1000;
        sample_kineto_begin(&sample, 0, 1);
        for (int step = 0; step < SHRINKING; step++) {
            const int left = compiles && step >= 20 ? 1 : SHRINKING - step;
            char name[32];
            snprintf(name, sizeof name, "ProfilerStep#%d", step);
            sample_kineto_event(&sample, "user_annotation", name, 1, at_us, 50.0 * left + 30, "");
            sample_kineto_kernel(&sample, "Fan2", 7, at_us + 5, at_us + 12, 50.0 * left, "");
            at_us += 50.0 * left + 40;
        }
        sample_kineto_open(&sample, &run.list);
        analyze(&run, NULL);
        assert_int_equal(run.analysis.warmup, compiles ? 20 : 0);
        print(&run, &text);
        if (!compiles) said_expect(said_unwrapped(text.data), "steps get shorter from 2.98 to 0.140 ms");
        if (!compiles) assert_null(strstr(text.data, "idle machine"));
        aorta_text_free(&text);
        end(&run);
    }
}

/* Libraries try algorithms in short steps of their own before the program compiles. 60 steps take 1 ms, and one of them
 * takes longer:
 *
 *   |#|#|#|#|########## 100 ms ##########|#|#| …      warm-up in the first tenth, if longer than the second half (30
 * ms)
 */
static void a_long_step_among_the_first_ends_the_warmup(void **state) {
    (void)state;
    enum { COUNT = 60 };
    static const struct {
        int slow, us;
        size_t warmup;
    } rows[] = {{4, 100000, 5}, {4, 20000, 0}, {20, 100000, 0}};
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        struct run run = {0};
        struct sample_kineto sample;
        double at_us = 1000;
        sample_kineto_begin(&sample, 0, 1);
        for (int step = 0; step < COUNT; step++) {
            const double us = step == rows[row].slow ? rows[row].us : 1000;
            char name[32];
            snprintf(name, sizeof name, "ProfilerStep#%d", step);
            sample_kineto_event(&sample, "user_annotation", name, 1, at_us, us - 10, "");
            sample_kineto_kernel(&sample, "gemm", 7, at_us + us - 900, at_us + us - 890, 800, "");
            at_us += us;
        }
        sample_kineto_open(&sample, &run.list);
        analyze(&run, NULL);
        assert_int_equal(run.analysis.warmup, rows[row].warmup);
        end(&run);
    }
}

/* A program that is asked for its GPU and computes nothing. Shares of microseconds say nothing about a program:
 *
 *   stream 7     |memset, 1.5 us|          |2 kernels, 120 us each     |          |3 kernels of 1 us |
 *   verdict      nothing to analyze           as for every recording                 the same
 *
 * The start-up before the only step is no work of the step:
 *
 *   stream 7     |8 copies|  [step  |kernel, 4 us|  ]
 */
static void almost_nothing_is_not_analyzed(void **state) {
    (void)state;
    static const struct {
        int count;
        double length_us;
        bool known;
        int copies;
    } rows[] = {{1, 1.5, false, 0}, {2, 20, false, 0}, {2, 120, true, 0}, {3, 1, true, 0},
                {1, 4, false, 8},   {1, 150, true, 8}, {3, 4, true, 8}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct run run = {0};
        struct sample_kineto sample;
        sample_kineto_begin(&sample, 0, 1);
        for (int k = 0; k < rows[i].copies; k++)
            sample_kineto_kernel(&sample, "fill", 7, 1000 * k, 1000 * k + 10, 50, "");
        if (rows[i].copies) sample_kineto_event(&sample, "user_annotation", "ProfilerStep#1", 1, 9990, 9000, "");
        for (int k = 0; k < rows[i].count; k++)
            sample_kineto_kernel(&sample, "fill", 7, 10000 + 1000 * k, 10010 + 1000 * k, rows[i].length_us, "");
        sample_kineto_open(&sample, &run.list);
        analyze(&run, NULL);
        const bool known = !strstr(said_words(&run.verdict), "nothing to analyze: almost no work of the GPU");
        if (known != rows[i].known) fail_msg("%d kernels: %s", rows[i].count, said_words(&run.verdict));
        end(&run);
    }
}

/* Two steps of 600 ms on the host and 50 ms of the GPU. Each begins at its mark, the first one, too:
 *
 *   host   | step 0: batch ......... copy, launch | step 1: batch ......... copy, launch |
 *   GPU                              [copy][gemm]                           [copy][gemm]
 *          |<------------- 650 ms ------------->|<------------ 650 ms ------------>|
 *
 * Where the first copy starts long after its call, work that is not recorded delays it: the step begins with the copy.
 * A millisecond after 600 without launches is no sign of such work: the copy prepares its memory.
 */
static void the_first_step_begins_at_its_mark(void **state) {
    (void)state;
    static const double late_times_us[] = {0, 1000, 50000};
    for (int late = 0; late < 3; late++) {
        const bool behind = late == 2;
        struct run run = {0};
        struct sample_kineto sample;
        sample_kineto_begin(&sample, 0, 1);
        for (int step = 0; step < 2; step++) {
            char name[32];
            const double mark_us = 1000 + 650000.0 * step, late_us = step ? 0 : late_times_us[late];
            snprintf(name, sizeof name, "ProfilerStep#%d", step);
            sample_kineto_event(&sample, "user_annotation", name, 1, mark_us, 649900, "");
            add_copy(&sample, to_device, 1000 + step, mark_us + 600000 - late_us, mark_us + 600010, 29900, 8000000);
            sample_kineto_kernel(&sample, "gemm", 7, mark_us + 600020, mark_us + 630000, 20000, "");
        }
        sample_kineto_open(&sample, &run.list);
        analyze(&run, NULL);
        const double first_ms = behind ? 49.99 : 650;
        said_near(run.verdict.step_ms_mean, (first_ms + 650) / 2, 0.01);
        said_near(run.verdict.replay.measured_ms, run.verdict.step_ms_mean, 1e-6);
        if (!behind) said_near(run.verdict.findings[0].gain_ms, 600, 2);
        end(&run);
    }
}

/* A step lasts from the end of the work before it, which is not known of the first one. Three steps or more are counted
 * without it, and tables, mean and gains are of the same steps.
 *
 *   GPU    [gemm 9 ms].....[gemm 5].....[gemm 5].....[gemm 5]          each after 5 ms of the host
 *          | left out | 10 ms       | 10 ms      | 10 ms    |
 */
static void all_figures_are_of_the_same_steps(void **state) {
    (void)state;
    struct run run = {0};
    struct sample_kineto sample;
    struct aorta_text text = {0};
    double at_us = 1000;
    sample_kineto_begin(&sample, 0, 1);
    for (int step = 0; step < 4; step++) {
        char name[32];
        const double gemm_us = step ? 5000 : 9000;
        snprintf(name, sizeof name, "ProfilerStep#%d", step);
        sample_kineto_event(&sample, "user_annotation", name, 1, at_us, gemm_us + 4900, "");
        sample_kineto_kernel(&sample, "gemm", 7, at_us + 5, at_us + 15, gemm_us, "");
        at_us += gemm_us + 5000;
    }
    sample_kineto_open(&sample, &run.list);
    analyze(&run, NULL);
    assert_int_equal(run.verdict.iterations, 3);
    assert_int_equal(run.analysis.ranks[0].steps, 3);
    said_near(run.verdict.step_ms_mean, 10, 1e-6);
    said_near(run.verdict.step_ms_p90, 10, 1e-6);
    said_near(run.verdict.replay.measured_ms, 10, 1e-6);
    said_near((double)run.analysis.ranks[0].kernels[0].step_ns / 3e6, 5, 1e-6);
    print(&run, &text);
    said_expect(text.data, "3 steps of 1 rank, without the first, whose start is not recorded");
    aorta_text_free(&text);
    end(&run);
}

/* The small kernels that begin the steps run at once, the products 11 ms after their launch. The queued product of step
 * 3 makes step 4 longer:
 *
 *   stream 13   |0    |1    |2    |3    |4         |
 *   stream 7          |0    |1    |2    |3    |4   |
 */
static void queued_work_does_not_lengthen_the_step(void **state) {
    (void)state;
    struct run run = {0};
    struct sample_kineto sample;
    sample_kineto_begin(&sample, 0, 1);
    sample_kineto_kernel(&sample, "gemm", 7, 500, 2000, 8000, ""); /* of the step before the recording */
    for (int step = 0; step < 5; step++) {
        char name[32];
        const double at_us = 1000 + 10000.0 * step;
        snprintf(name, sizeof name, "ProfilerStep#%d", step);
        sample_kineto_event(&sample, "user_annotation", name, 1, at_us, 9990, "");
        sample_kineto_kernel(&sample, "fill", 13, at_us + 5, at_us + 15, 100, "");
        sample_kineto_kernel(&sample, "gemm", 7, at_us + 20, at_us + 11000, 8000, "");
    }
    sample_kineto_open(&sample, &run.list);
    analyze(&run, NULL);
    said_near(run.verdict.step_ms_mean, 10, 1e-6);
    said_expect(said_words(&run.verdict), ", and without the last, in which queued work of earlier steps ends");
    end(&run);
}

/* A lag of 25 ms makes a gain of 30 ms unsure by 13.6. The 104 ms that it gains alone, most of them shared, are unsure
 * by no more than the lag. */
static void a_shared_gain_is_no_less_sure(void **state) {
    (void)state;
    const double unsure_ms = 30.0 * 25 / (30 + 25);
    const struct aorta_finding finding = {
        .gain_ms = 30, .alone_ms = 104, .lag_ms = 25, .gain_range_ms = {30 - unsure_ms, 30 + unsure_ms}};
    double range_ms[2];
    aorta_finding_shown_range(&finding, range_ms);
    said_near(range_ms[0], 104 - 20.2, 0.1);
    said_near(range_ms[1], 104 + 20.2, 0.1);
}

/* What an earlier recording launched is not of this one, unless the time between is as short as a program's own:
 *
 *   host                                [cudaLaunchKernel, 4 times]
 *   GPU    |gemm, 20 ms| 3 s or 5 ms    |gemm|gemm|gemm|gemm|
 */
static void work_of_an_earlier_recording_is_left_out(void **state) {
    (void)state;
    for (int earlier = 0; earlier < 2; earlier++) {
        struct run run = {0};
        struct sample_kineto sample;
        const double at_us = earlier ? 3020000 : 25000;
        sample_kineto_begin(&sample, 0, 1);
        sample_kineto_event(&sample, "kernel", "gemm", 7, 0, 20000,
                            "\"device\": 0, \"stream\": 7, \"correlation\": 900");
        for (int i = 0; i < 4; i++)
            sample_kineto_kernel(&sample, "gemm", 7, at_us + 10 * i, at_us + 20 + 2000 * i, 1990, "");
        sample_kineto_open(&sample, &run.list);
        analyze(&run, NULL);
        const struct aorta_trace_warning *warnings = run.list.items[0]->warnings;
        assert_int_equal(run.list.items[0]->work_count, earlier ? 4 : 5);
        assert_int_equal(warnings[AORTA_REASON_EARLIER].count, earlier);
        assert_int_equal(warnings[AORTA_REASON_NO_LAUNCH].count, !earlier);
        said_near(run.verdict.step_ms_mean, earlier ? 7.99 : 33.01, 0.01);
        end(&run);
    }
}

/* The recording stopped before the GPU had finished: what it has of the GPU is analyzed. With launches that miss their
 * kernels among the first, it is not known what is missing:
 *
 *   host   |launch|launch|launch|launch|launch|launch|launch|
 *   GPU       |kernel|kernel|kernel|   4 are not written       or   |kernel| |kernel| |kernel|
 */
static void what_ran_before_the_recording_stopped_is_analyzed(void **state) {
    (void)state;
    for (int among = 0; among < 2; among++) {
        struct run run = {0};
        struct sample_kineto sample;
        sample_kineto_begin(&sample, 0, 1);
        for (int i = 0; i < 7; i++) {
            const double at_us = 1000 + 10.0 * i;
            char args[64];
            snprintf(args, sizeof args, "\"correlation\": %d", 900 + i);
            if (among ? i % 2 : i < 3)
                sample_kineto_kernel(&sample, "gemm", 7, at_us, at_us + 10 + 1990 * i, 2000, "");
            else
                sample_kineto_event(&sample, "cuda_runtime", "cudaLaunchKernel", 1, at_us, 5, args);
        }
        sample_kineto_open(&sample, &run.list);
        analyze(&run, NULL);
        const struct aorta_trace *trace = run.list.items[0];
        assert_int_equal(run.verdict.incomplete, among);
        assert_int_equal(trace->coverage.unanswered, among ? 4 : 0);
        assert_int_equal(trace->warnings[AORTA_REASON_STOPPED].count, among ? 0 : 4);
        end(&run);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_of_other_work_are_no_disturbance),
        cmocka_unit_test(devices_of_a_process_have_a_time_together),
        cmocka_unit_test(steps_of_other_copies_are_no_disturbance),
        cmocka_unit_test(own_kernels_are_not_compiled),
        cmocka_unit_test(without_a_device_collectives_are_named),
        cmocka_unit_test(steps_say_how_little_of_the_work_they_are),
        cmocka_unit_test(operations_of_the_gpu_say_that_there_is_one),
        cmocka_unit_test(compilation_is_no_pause_of_the_host),
        cmocka_unit_test(what_recurs_is_no_warmup),
        cmocka_unit_test(a_late_pause_is_no_warmup),
        cmocka_unit_test(chosen_steps_are_no_warmup),
        cmocka_unit_test(tables_say_what_they_are_of),
        cmocka_unit_test(a_step_that_begins_before_the_first_work_is_said),
        cmocka_unit_test(the_wait_of_the_first_step_is_in_the_step),
        cmocka_unit_test(a_loop_of_one_kernel_has_steps),
        cmocka_unit_test(late_starts_in_each_step_are_no_first_use),
        cmocka_unit_test(who_captures_graphs_is_not_asked_to),
        cmocka_unit_test(copies_within_the_gpu_need_no_pinned_memory),
        cmocka_unit_test(stalls_of_steps_that_differ_come_with_new_sizes),
        cmocka_unit_test(mixed_processes_have_no_verdict),
        cmocka_unit_test(a_pause_after_a_copy_computes_with_it),
        cmocka_unit_test(a_pause_after_a_blocking_copy_computes_with_it),
        cmocka_unit_test(what_is_copied_to_the_host_and_back_stays_on_the_device),
        cmocka_unit_test(ranks_may_exchange_what_they_copy),
        cmocka_unit_test(launches_share_with_the_wait_for_input),
        cmocka_unit_test(pauses_of_xla_have_reasons),
        cmocka_unit_test(a_pause_before_the_batch_is_copied_is_of_the_input),
        cmocka_unit_test(a_pause_before_each_batch_is_of_the_input),
        cmocka_unit_test(rare_stalls_after_copies_are_a_checkpoint),
        cmocka_unit_test(collectives_on_the_host_are_named),
        cmocka_unit_test(threads_that_copy_batches_are_no_collectives),
        cmocka_unit_test(steps_that_differ_are_said),
        cmocka_unit_test(steps_begin_with_what_clears_their_output),
        cmocka_unit_test(rounds_of_one_stream_are_no_steps),
        cmocka_unit_test(autotuning_is_no_step),
        cmocka_unit_test(equal_kernels_in_a_step_are_no_steps),
        cmocka_unit_test(almost_nothing_is_not_analyzed),
        cmocka_unit_test(work_that_shrinks_is_no_warmup),
        cmocka_unit_test(a_long_step_among_the_first_ends_the_warmup),
        cmocka_unit_test(the_first_step_begins_at_its_mark),
        cmocka_unit_test(all_figures_are_of_the_same_steps),
        cmocka_unit_test(queued_work_does_not_lengthen_the_step),
        cmocka_unit_test(a_shared_gain_is_no_less_sure),
        cmocka_unit_test(what_ran_before_the_recording_stopped_is_analyzed),
        cmocka_unit_test(without_a_device_or_steps_all_collectives_count),
        cmocka_unit_test(work_of_an_earlier_recording_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
