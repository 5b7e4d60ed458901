/* What an analysis says of real traces, and of random ones beside a count of every nanosecond. */
#include "analysis/analysis.h"
#include "report/trace_report.h"
#include "said.h"
#include "samples/dump.h"
#include "samples/profile.h"
#include "trace/builder.h"
#include "trace/open.h"
#include "verdict/verdict.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- real traces ---- */

/* The files of the project's collection of traces. tests/trace/cut_whole cut them to data/whole; their figures stayed
 * what they were. Nanoseconds were counted by a Python program on the whole files with decimal numbers; rounded they
 * are the reference values in milliseconds that the project was given. */
static const struct reference {
    const char *cut, *whole;
    int rank;
    int64_t compute_ns, comm_ns, memcpy_ns, busy_ns, overlap_ns, span_ns;
    size_t work, streams, queues;
} references[] = {
    {"fsdp2_rank0.json.gz", "fsdp2_default_rank0.pt.trace.json.gz", 0, 10230754, 4241679, 431495, 14903928, 0,
     439774019, 2292, 5, 0},
    {"fsdp2_rank1.json.gz", "fsdp2_default_rank1.pt.trace.json.gz", 1, 11362287, 285016050, 551399, 286949492, 9524815,
     443405626, 2298, 5, 0},
    {"mi300_resnet.json.gz", "mi300_resnet_act_checkpoint.json.gz", 0, 25739303, 71516523, 2974246, 84002056, 15891299,
     86567708, 3653, 2, 2},
    {"h100_qwen.json.gz", "h100_qwen.json.gz", 0, 45432698, 0, 214602, 45647300, 0, 49652832, 1707, 1, 0},
    {"mi250_minitoy.json.gz", "mi250_minitoy.json.gz", 0, 110881, 0, 38161, 149042, 0, 8911887, 16, 1, 1},
    {"rocprofv3_908.json.gz", "rocprofv3_908_results.json.gz", 0, 281681933, 4158756678, 0, 4233112334, 207326277,
     15122023494, 43915, 567, 5},
};
enum { REFERENCES = sizeof references / sizeof references[0] };

/* A trace that was read, and what came out of it. */
struct read {
    struct aorta_trace_list list;
    struct aorta_trace_analysis analysis;
    struct aorta_verdict verdict;
};

static void read_paths(const char *const *paths, size_t count, const struct aorta_trace_analysis_options *options,
                       struct read *read) {
    *read = (struct read){0};
    check_ok(aorta_trace_open_inputs(paths, count, NULL, &read->list));
    check_ok(aorta_trace_analyze(&read->list, options, &read->analysis));
    said_make(&read->analysis, &read->verdict);
}

static void end(struct read *read) {
    aorta_verdict_free(&read->verdict);
    aorta_trace_analysis_free(&read->analysis);
    aorta_trace_list_free(&read->list);
}

/* Times of idle causes and of exposed communication, taken apart by windows and by collectives, add up to the whole:
 * that begins with the first work, a first step perhaps at its mark. */
static void check_sums(const struct aorta_trace_rank *rank) {
    const struct aorta_trace_figures *figures = &rank->figures;
    const struct aorta_idle *idle = &rank->idle;
    struct aorta_trace_figures windows = {0};
    struct aorta_idle causes = {0};
    int64_t lead_ns = 0, blamed_ns = 0, kernels_ns = 0, names_ns = 0;
    const int64_t before_ns = rank->window_count ? rank->windows[0].profile.overlap.lead_ns : 0;
    for (size_t i = 0; i < rank->window_count; i++) {
        const struct aorta_overlap *overlap = &rank->windows[i].profile.overlap;
        windows.span_ns += overlap->span_ns;
        windows.busy_ns += overlap->busy_ns;
        windows.compute_ns += overlap->compute_ns;
        windows.comm_ns += overlap->comm_ns;
        windows.memcpy_ns += overlap->memcpy_ns;
        windows.overlap_ns += overlap->overlap_ns;
        windows.idle_ns += overlap->idle_ns;
        lead_ns += overlap->lead_ns;
        aorta_idle_add(&causes, &overlap->idle);
    }
    assert_int_equal(windows.span_ns + lead_ns - before_ns, figures->span_ns);
    assert_int_equal(windows.idle_ns + lead_ns - before_ns, figures->idle_ns);
    assert_int_equal(windows.busy_ns, figures->busy_ns);
    assert_int_equal(windows.compute_ns, figures->compute_ns);
    assert_int_equal(windows.comm_ns, figures->comm_ns);
    assert_int_equal(windows.memcpy_ns, figures->memcpy_ns);
    assert_int_equal(windows.overlap_ns, figures->overlap_ns);
    if (!before_ns) assert_memory_equal(&causes, idle, sizeof causes);
    assert_int_equal(aorta_idle_total(&causes) - before_ns, aorta_idle_total(idle));
    assert_int_equal(aorta_idle_total(idle), figures->idle_ns);
    for (size_t i = 0; i < rank->collective_count; i++) blamed_ns += rank->collectives[i].blamed_ns;
    assert_int_equal(blamed_ns, figures->exposed_comm_ns);
    for (size_t i = 0; i < rank->work_count; i++) kernels_ns += rank->work[i].end_ns - rank->work[i].start_ns;
    for (size_t i = 0; i < rank->kernel_count; i++) names_ns += rank->kernels[i].times.total_ns;
    assert_int_equal(names_ns, kernels_ns);
}

static void check_verdict(const struct aorta_verdict *verdict) {
    for (size_t i = 0; i < verdict->rank_count; i++) {
        int64_t sum = 0;
        for (int cause = 0; cause < AORTA_CAUSE_COUNT; cause++) {
            assert_true(verdict->ranks[i].cause_ns[cause] >= 0);
            sum += verdict->ranks[i].cause_ns[cause];
        }
        assert_int_equal(sum, verdict->ranks[i].step_ns);
    }
}

static void check_reference(const struct reference *wanted, const char *folder, const char *name) {
    char path[4096];
    struct read read;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    read_paths((const char *[]){path}, 1, NULL, &read);
    assert_int_equal(read.analysis.rank_count, 1);
    const struct aorta_trace_rank *rank = &read.analysis.ranks[0];
    assert_int_equal(rank->rank, wanted->rank);
    assert_int_equal(rank->work_count, wanted->work);
    assert_int_equal(rank->stream_count, wanted->streams);
    assert_int_equal(rank->queue_count, wanted->queues);
    assert_int_equal(rank->figures.compute_ns, wanted->compute_ns);
    assert_int_equal(rank->figures.comm_ns, wanted->comm_ns);
    assert_int_equal(rank->figures.memcpy_ns, wanted->memcpy_ns);
    assert_int_equal(rank->figures.busy_ns, wanted->busy_ns);
    assert_int_equal(rank->figures.overlap_ns, wanted->overlap_ns);
    assert_int_equal(rank->figures.span_ns, wanted->span_ns);
    check_sums(rank);
    check_verdict(&read.verdict);
    end(&read);
}

static void cut_traces_have_the_reference_values(void **state) {
    (void)state;
    for (size_t i = 0; i < REFERENCES; i++) check_reference(&references[i], RECORDED "/whole", references[i].cut);
}

/* The whole files are not part of the repository: AORTA_TRACES names their folder. */
static void whole_traces_have_the_reference_values(void **state) {
    (void)state;
    const char *folder = getenv("AORTA_TRACES");
    if (!folder) skip();
    for (size_t i = 0; i < REFERENCES; i++) check_reference(&references[i], folder, references[i].whole);
}

/* Rank 1 of the two waited in each collective for rank 0, whose host launched late. */
static void two_ranks_are_aligned_and_the_late_one_is_named(void **state) {
    (void)state;
    struct read read;
    const char *paths[] = {RECORDED "/whole/fsdp2_rank1.json.gz", RECORDED "/whole/fsdp2_rank0.json.gz"};
    read_paths(paths, 2, NULL, &read);
    const struct aorta_trace_analysis *analysis = &read.analysis;
    assert_int_equal(analysis->rank_count, 2);
    assert_int_equal(analysis->ranks[0].rank, 0);
    assert_int_equal(analysis->alignment.shared_count, 81);
    assert_true(analysis->alignment.residual_ns < 5000);
    const struct aorta_finding *late = said_finding(&read.verdict, AORTA_CAUSE_STRAGGLER);
    assert_non_null(late);
    assert_int_equal(late->rank, 0);
    assert_true(late->cost_ms > 130 && late->cost_ms < 140);
    assert_true(said_has(late, AORTA_FACT_LATE_HOST) && !said_has(late, AORTA_FACT_LATE_DEVICE));
    assert_int_equal(read.verdict.findings[0].cause, AORTA_CAUSE_HOST_LAUNCH);
    int64_t waited = 0;
    for (size_t i = 0; i < analysis->ranks[1].collective_count; i++) {
        const struct aorta_trace_collective_row *row = &analysis->ranks[1].collectives[i];
        assert_int_equal(row->waits_known, row->times.count);
        assert_true(row->transfer_busbw_gbps > row->busbw_gbps);
        waited += row->wait_ns;
    }
    assert_true(waited > 270000000 && waited < analysis->ranks[1].figures.comm_ns);
    for (size_t i = 0; i < analysis->rank_count; i++) check_sums(&analysis->ranks[i]);
    check_verdict(&read.verdict);
    end(&read);
}

/* Which rank was waited for is in the other rank's file: the text asks for the file where it is missing. */
static void missing_ranks_are_asked_for(void **state) {
    (void)state;
    const char *paths[] = {RECORDED "/whole/fsdp2_rank1.json.gz", RECORDED "/whole/fsdp2_rank0.json.gz"};
    for (size_t count = 1; count <= 2; count++) {
        struct read read;
        read_paths(paths, count, NULL, &read);
        assert_int_equal(read.verdict.ranks_missing, 2 - (int)count);
        const bool asked = strstr(said_text(&read.verdict), "\n  missing    files of 1 of 2 ranks;") != NULL;
        assert_int_equal(asked, count == 1);
        end(&read);
    }
}

/* Windows meet without a gap, so that the steps of a file are as long as the part of it that they cover. */
static void steps_cut_the_time(void **state) {
    (void)state;
    struct read whole, steps, one;
    const char *path[] = {RECORDED "/whole/mi300_resnet.json.gz"};
    const int64_t numbers[] = {16};
    read_paths(path, 1, NULL, &whole);
    read_paths(path, 1, &(struct aorta_trace_analysis_options){.all_steps = true}, &steps);
    read_paths(path, 1, &(struct aorta_trace_analysis_options){.steps = numbers, .step_count = 1}, &one);
    assert_true(whole.analysis.stepped);
    assert_int_equal(steps.analysis.ranks[0].window_count, 3);
    assert_int_equal(one.analysis.ranks[0].window_count, 1);
    int64_t sum = 0;
    for (size_t i = 0; i < 3; i++) {
        const struct aorta_trace_window *window = &steps.analysis.ranks[0].windows[i];
        assert_int_equal(window->number, 15 + (int64_t)i);
        if (i) assert_int_equal(window->start_ns, window[-1].end_ns);
        sum += window->profile.overlap.span_ns + window->profile.overlap.lead_ns;
        if (i == 1) assert_int_equal(one.analysis.ranks[0].figures.busy_ns, window->profile.overlap.busy_ns);
        if (i == 1) assert_int_equal(one.analysis.ranks[0].figures.overlap_ns, window->profile.overlap.overlap_ns);
    }
    assert_int_equal(steps.analysis.ranks[0].figures.span_ns, sum);
    assert_true(steps.analysis.ranks[0].figures.span_ns < whole.analysis.ranks[0].figures.span_ns);
    check_sums(&steps.analysis.ranks[0]);
    check_sums(&one.analysis.ranks[0]);
    end(&whole);
    end(&steps);
    end(&one);
}

/* One of eight ranks: all of 11.7 ms may go, which the headline is about. Two buckets of one pass are not reduced
 * twice. */
static void one_rank_has_an_upper_bound(void **state) {
    (void)state;
    struct read read;
    const char *path[] = {RECORDED "/whole/mi300_resnet.json.gz"};
    read_paths(path, 1, NULL, &read);
    const struct aorta_finding *first = &read.verdict.findings[0];
    assert_int_equal(first->cause, AORTA_CAUSE_EXPOSED_COLLECTIVE);
    said_near(first->at_best_ms, 11.7, 0.1);
    assert_false(said_has(first, AORTA_FACT_REDUCED_AGAIN));
    said_expect(said_words(&read.verdict), "take 3.31 of 7.07 ms; gain limited by waits for the host or a collective");
    said_near(read.verdict.replay.floor_ms, 4.96, 0.1); /* without what names and times say of compute, too */
    end(&read);
}

static void steps_apart_leave_out_what_is_between(void **state) {
    (void)state;
    struct read apart, steps;
    const char *path[] = {RECORDED "/whole/mi300_resnet.json.gz"};
    const int64_t numbers[] = {17, 15};
    read_paths(path, 1, &(struct aorta_trace_analysis_options){.all_steps = true}, &steps);
    read_paths(path, 1, &(struct aorta_trace_analysis_options){.steps = numbers, .step_count = 2}, &apart);
    const struct aorta_trace_rank *rank = &apart.analysis.ranks[0];
    const struct aorta_trace_window *all = steps.analysis.ranks[0].windows;
    assert_int_equal(rank->window_count, 2);
    assert_int_equal(rank->figures.busy_ns, all[0].profile.overlap.busy_ns + all[2].profile.overlap.busy_ns);
    assert_int_equal(rank->figures.idle_ns, all[0].profile.overlap.idle_ns + all[2].profile.overlap.idle_ns);
    assert_int_equal(rank->figures.span_ns, all[0].profile.overlap.span_ns + all[2].profile.overlap.span_ns);
    check_sums(rank);
    end(&apart);
    end(&steps);
}

/* As in the folder of a run, which holds each trace for TensorBoard and for Perfetto. */
static void one_recording_counts_once(void **state) {
    (void)state;
    struct read read;
    const char *paths[] = {RECORDED "/whole/fsdp2_rank0.json.gz", RECORDED "/whole/fsdp2_rank0.json.gz"};
    read_paths(paths, 2, NULL, &read);
    assert_int_equal(read.analysis.rank_count, 1);
    assert_int_equal(read.analysis.ranks[0].work_count, references[0].work);
    end(&read);
}

/* Steps that the device's ranges mark after the last kernel: the recording is one without steps. */
static void work_before_the_first_step(void **state) {
    (void)state;
    static const char text[] =
        "[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"gemm\",\"ts\":10,\"dur\":5,\"args\":{\"device\":0,\"stream\":7}},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"relu\",\"ts\":20,\"dur\":5,\"args\":{\"device\":0,\"stream\":7}},"
        "{\"ph\":\"X\",\"cat\":\"gpu_user_annotation\",\"name\":\"ProfilerStep#5\",\"ts\":100,\"dur\":50},"
        "{\"ph\":\"X\",\"cat\":\"gpu_user_annotation\",\"name\":\"ProfilerStep#6\",\"ts\":150,\"dur\":50}]";
    struct read read = {0};
    check_ok(read_memory(text, strlen(text), 0, false, &read.list));
    const struct aorta_trace_analysis_options all = {.all_steps = true};
    check_fails(aorta_trace_analyze(&read.list, &all, &read.analysis), AORTA_USAGE, "belongs to any step");
    check_ok(aorta_trace_analyze(&read.list, NULL, &read.analysis));
    said_make(&read.analysis, &read.verdict);
    assert_false(read.analysis.stepped);
    assert_int_equal(read.analysis.ranks[0].window_count, 1);
    assert_int_equal(read.analysis.ranks[0].figures.busy_ns, 10000);
    check_sums(&read.analysis.ranks[0]);
    end(&read);
}

/* One rank has steps. The other rank ran before all of its own steps: it is left out, with a note. */
static void a_rank_outside_of_all_steps(void **state) {
    (void)state;
    struct read read = {0};
    struct aorta_text text = {0}, words = {0};
    for (int rank = 0; rank < 2; rank++) {
        aorta_text_clear(&text);
        aorta_text_printf(
            &text,
            "{\"distributedInfo\":{\"rank\":%d,\"world_size\":2},\"traceEvents\":["
            "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"gemm\",\"ts\":10,\"dur\":5,\"args\":{\"device\":0,\"stream\":"
            "7}},"
            "{\"ph\":\"X\",\"cat\":\"gpu_user_annotation\",\"name\":\"ProfilerStep#5\",\"ts\":%d,\"dur\":50},"
            "{\"ph\":\"X\",\"cat\":\"gpu_user_annotation\",\"name\":\"ProfilerStep#6\",\"ts\":%d,\"dur\":50}]}",
            rank, 10 + 90 * rank, 100 + 90 * rank);
        check_ok(read_memory(text.data, text.length, 0, false, &read.list));
    }
    check_ok(aorta_trace_analyze(&read.list, NULL, &read.analysis));
    said_make(&read.analysis, &read.verdict);
    assert_int_equal(read.analysis.rank_count, 1);
    assert_int_equal(read.analysis.ranks[0].rank, 0);
    assert_int_equal(read.analysis.ranks_outside, 1);
    aorta_trace_report_text(&(struct aorta_trace_report){.analysis = &read.analysis, .verdict = &read.verdict}, NULL,
                            &words);
    said_expect(words.data, "note     1 rank without work in a marked step: left out");
    aorta_text_free(&text);
    aorta_text_free(&words);
    end(&read);
}

/* Damaged numbers of devices: what a rank costs must not be paid for each of them. */
static void more_devices_than_there_are(void **state) {
    (void)state;
    struct aorta_text text = {0};
    struct aorta_trace_list list = {0};
    struct aorta_trace_analysis analysis;
    for (int i = 0; i < 2000; i++)
        aorta_text_printf(
            &text, "%s{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":%d,\"dur\":1,\"args\":{\"device\":%d}}",
            i ? "," : "[", i, i);
    aorta_text_puts(&text, "]");
    check_ok(read_memory(text.data, text.length, 0, false, &list));
    check_fails(aorta_trace_analyze(&list, NULL, &analysis), AORTA_FORMAT, "holds work of 2000 devices");
    aorta_trace_list_free(&list);
    aorta_text_free(&text);
}

static uint32_t text(struct aorta_trace_builder *builder, const char *string) {
    return aorta_trace_builder_text(builder, string, strlen(string));
}

static void mistakes_are_named(void **state) {
    (void)state;
    struct aorta_trace_list list = {0};
    struct aorta_trace_analysis analysis;
    const int64_t number = 3;
    const char *twice[] = {RECORDED "/whole/fsdp2_rank0.json.gz", RECORDED "/whole/mi300_resnet.json.gz"};
    check_ok(aorta_trace_open_inputs(twice, 2, NULL, &list));
    check_fails(aorta_trace_analyze(&list, NULL, &analysis), AORTA_USAGE, "are both of rank 0");
    aorta_trace_free(list.items[--list.count]);
    const struct aorta_trace_analysis_options steps = {.steps = &number, .step_count = 1};
    check_fails(aorta_trace_analyze(&list, &steps, &analysis), AORTA_USAGE, "marks no steps");
    aorta_trace_list_free(&list);
    const char *stepped[] = {RECORDED "/whole/mi300_resnet.json.gz"};
    check_ok(aorta_trace_open_inputs(stepped, 1, NULL, &list));
    check_fails(aorta_trace_analyze(&list, &steps, &analysis), AORTA_USAGE, "there are 15 to 17");
    aorta_trace_list_free(&list);
    const char *nothing[] = {"/nowhere/at/all.json"}, *folder[] = {RECORDED "/../../lint"};
    check_fails(aorta_trace_open_inputs(nothing, 1, NULL, &list), AORTA_USAGE, "cannot open /nowhere/at/all.json");
    check_fails(aorta_trace_open_inputs(folder, 1, NULL, &list), AORTA_USAGE, "contains no trace");
    static const char far[] = "[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":-9e15,\"dur\":1}]";
    check_ok(read_memory(far, strlen(far), 0, false, &list));
    check_fails(aorta_trace_analyze(&list, NULL, &analysis), AORTA_FORMAT, "at an impossible time: left out (first");
    aorta_trace_list_free(&list);
}

/* A file of another tool gets no advice of PyTorch. */
static void a_file_without_work_names_what_records_it(void **state) {
    (void)state;
    static const struct {
        const char *file, *says;
    } rows[] = {
        {"{\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"dynamo_timed\",\"name\":\"compile\",\"ts\":1,\"dur\":1}]}",
         "no kernels, copies or fills are recorded; AORTA knows kernels of torch.profiler, JAX"},
        {"{\"baseTimeNanoseconds\":1700000000000000000,\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"Trace\","
         "\"name\":\"x\",\"ts\":1,\"dur\":1}]}",
         "no kernels, copies or fills are recorded; record with ProfilerActivity.CUDA"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct aorta_trace_list list = {0};
        struct aorta_trace_analysis analysis;
        check_ok(read_memory(rows[i].file, strlen(rows[i].file), 0, false, &list));
        check_fails(aorta_trace_analyze(&list, NULL, &analysis), AORTA_FORMAT, rows[i].says);
        aorta_trace_list_free(&list);
    }
}

/* The host launches kernels, and the file has none of them. */
static void launches_without_kernels_are_counted(void **state) {
    (void)state;
    static const struct {
        enum aorta_trace_format format;
        const char *says;
    } rows[] = {
        {AORTA_TRACE_PFTRACE, "2 launches are recorded without their kernels: record with rocprofv3 --kernel-trace"},
        {AORTA_TRACE_KINETO, "2 launches are recorded without their kernels: record with ProfilerActivity.CUDA"},
        {AORTA_TRACE_SPOOL, "2 launches are recorded without their kernels"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct aorta_trace_list list = {0};
        struct aorta_trace_analysis analysis;
        struct aorta_trace_builder *builder;
        check_ok(aorta_trace_builder_create(rows[i].format, "test", NULL, &builder));
        for (int call = 0; call < 2; call++)
            aorta_trace_builder_call(builder,
                                     &(struct aorta_trace_call){.start_ns = 100 * call,
                                                                .end_ns = 100 * call + 5,
                                                                .correlation = (uint64_t)call + 1,
                                                                .name = text(builder, "hipModuleLaunchKernel"),
                                                                .thread = aorta_trace_builder_thread(builder, 1, 1)});
        check_ok(aorta_trace_builder_finish_into(builder, &list));
        check_fails(aorta_trace_analyze(&list, NULL, &analysis), AORTA_FORMAT, rows[i].says);
        aorta_trace_list_free(&list);
    }
}

/* ---- random traces ---- */

enum { LENGTH = 400, MOST_WORK = 60, STREAMS = 4, QUEUES = 2 };

static uint64_t state_of_chance;
static int64_t chance(int64_t below) {
    return (int64_t)sample_random(&state_of_chance, (uint64_t)below);
}

/* Some of the work has a launch, some steps are marked, the host waits at times. */
static struct aorta_trace *random_trace(void) {
    static const char *const names[] = {"gemm_a", "relu", "ncclDevKernel_AllReduce_Sum", "ncclDevKernel_AllGather",
                                        "Memcpy HtoD"};
    struct aorta_trace_builder *builder;
    check_ok(aorta_trace_builder_create(AORTA_TRACE_KINETO, "random", NULL, &builder));
    uint32_t thread = aorta_trace_builder_thread(builder, 1, 1);
    int64_t work = 1 + chance(MOST_WORK), step_ns = chance(2) ? 20 + chance(100) : 0;
    for (int64_t i = 0; i < work; i++) {
        int sort = (int)chance(5);
        int64_t start = 1000 + chance(LENGTH), end = start + chance(40); /* may be empty */
        int64_t stream = chance(STREAMS);
        struct aorta_trace_work one = {
            .start_ns = start,
            .end_ns = end,
            .bytes = sort == 4 ? 64 : -1,
            .correlation = (uint64_t)i + 1,
            .name = text(builder, names[sort]),
            .stream = aorta_trace_builder_stream(builder, 0, -1, stream),
            .queue = aorta_trace_builder_queue(builder, 0, stream % QUEUES, AORTA_TRACE_NONE),
            .kind = sort == 4 ? AORTA_TRACE_COPY : AORTA_TRACE_KERNEL,
        };
        aorta_trace_builder_work(builder, &one, -1, NULL, -1);
        if (chance(4) == 0) continue; /* launched before the recording began */
        int64_t launch = start - chance(60);
        const struct aorta_trace_call call = {.start_ns = launch,
                                              .end_ns = launch + 1,
                                              .correlation = (uint64_t)i + 1,
                                              .name = text(builder, "cudaLaunchKernel"),
                                              .thread = thread,
                                              .kind = AORTA_CALL_LAUNCH};
        aorta_trace_builder_call(builder, &call);
    }
    for (int64_t i = 0; i < work / 8; i++) {
        int64_t start = 1000 + chance(LENGTH);
        const struct aorta_trace_call call = {.start_ns = start,
                                              .end_ns = start + chance(30),
                                              .name = text(builder, "cudaStreamSynchronize"),
                                              .thread = thread,
                                              .kind = AORTA_CALL_SYNC};
        aorta_trace_builder_call(builder, &call);
    }
    for (int64_t at = 950, number = 7; step_ns && at < 1000 + LENGTH; at += step_ns, number++) {
        char name[40];
        snprintf(name, sizeof name, "ProfilerStep#%" PRId64, number);
        const struct aorta_trace_annotation step = {
            .start_ns = at, .end_ns = at + step_ns - 5, .name = text(builder, name)};
        aorta_trace_builder_annotation(builder, &step);
    }
    struct aorta_trace *trace;
    check_ok(aorta_trace_builder_finish(builder, &trace));
    return trace;
}

/* Each nanosecond and each kernel looked at on its own. */
static void count_moments(const struct aorta_trace *trace, struct aorta_trace_figures *figures, int64_t *streams) {
    *figures = (struct aorta_trace_figures){.start_ns = INT64_MAX, .end_ns = INT64_MIN};
    for (size_t i = 0; i < trace->work_count; i++) {
        if (trace->work[i].start_ns < figures->start_ns) figures->start_ns = trace->work[i].start_ns;
        if (trace->work[i].end_ns > figures->end_ns) figures->end_ns = trace->work[i].end_ns;
    }
    for (int64_t t = figures->start_ns; t < figures->end_ns; t++) {
        bool compute = false, comm = false, copy = false, stream[STREAMS] = {false};
        for (size_t i = 0; i < trace->work_count; i++) {
            const struct aorta_trace_work *work = &trace->work[i];
            if (t < work->start_ns || t >= work->end_ns) continue;
            if (work->kind == AORTA_TRACE_COPY)
                copy = true;
            else
                *(strstr(aorta_trace_text(trace, work->name), "nccl") ? &comm : &compute) = true;
            stream[trace->streams[work->stream].id] = true;
        }
        figures->span_ns++;
        figures->compute_ns += compute;
        figures->comm_ns += comm;
        figures->memcpy_ns += copy;
        figures->busy_ns += compute || comm || copy;
        figures->idle_ns += !(compute || comm || copy);
        figures->overlap_ns += compute && comm;
        figures->exposed_comm_ns += comm && !compute;
        figures->exposed_copy_ns += copy && !compute && !comm;
        for (int i = 0; i < STREAMS; i++) streams[i] += stream[i];
    }
}

static void check_lanes(const struct aorta_trace_rank *rank, const int64_t *streams) {
    for (size_t i = 0; i < rank->stream_count; i++) {
        const struct aorta_trace_lane_row *row = &rank->streams[i];
        assert_int_equal(row->busy_ns, streams[rank->trace->streams[row->row].id]);
        assert_int_equal(row->others, 1); /* the plan: stream % QUEUES */
        if (i) assert_true(row->busy_ns <= row[-1].busy_ns);
    }
    size_t served = 0;
    for (size_t i = 0; i < rank->queue_count; i++) served += rank->queues[i].others;
    assert_int_equal(served, rank->stream_count);
}

/* Durations of one name, sorted the slow way. */
static void check_kernel_row(const struct aorta_trace_rank *rank, const struct aorta_trace_kernel_row *row) {
    double sorted[MOST_WORK + 1] = {0};
    size_t count = 0;
    for (size_t i = 0; i < rank->work_count; i++) {
        if (rank->work[i].name != row->name) continue;
        double ns = (double)(rank->work[i].end_ns - rank->work[i].start_ns);
        size_t at = count++;
        for (; at > 0 && sorted[at - 1] > ns; at--) sorted[at] = sorted[at - 1];
        sorted[at] = ns;
    }
    assert_int_equal(row->times.count, count);
    double middle = count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
    assert_true(fabs(row->times.p50_ns - middle) < 1e-9);
    assert_true(row->times.p95_ns <= sorted[count - 1] && row->times.p95_ns >= middle);
}

static void check_figures(const struct aorta_trace_figures *figures, const struct aorta_trace_figures *counted) {
    assert_int_equal(figures->span_ns, counted->span_ns);
    assert_int_equal(figures->busy_ns, counted->busy_ns);
    assert_int_equal(figures->compute_ns, counted->compute_ns);
    assert_int_equal(figures->comm_ns, counted->comm_ns);
    assert_int_equal(figures->memcpy_ns, counted->memcpy_ns);
    assert_int_equal(figures->idle_ns, counted->idle_ns);
    assert_int_equal(figures->overlap_ns, counted->overlap_ns);
    assert_int_equal(figures->exposed_comm_ns, counted->exposed_comm_ns);
    assert_int_equal(figures->exposed_copy_ns, counted->exposed_copy_ns);
    if (counted->comm_ns)
        assert_true(fabs(figures->overlap_ratio - (double)counted->overlap_ns / (double)counted->comm_ns) < 1e-12);
    else
        assert_true(isnan(figures->overlap_ratio));
}

static void random_traces_agree_with_counting(void **state) {
    (void)state;
    state_of_chance = 88172645463325252u;
    for (int round = 0; round < 400; round++) {
        struct aorta_trace_list list = {0};
        struct aorta_trace_analysis analysis;
        struct aorta_trace_figures counted;
        int64_t streams[STREAMS] = {0};
        check_ok(aorta_trace_list_add(&list, random_trace()));
        check_ok(aorta_trace_analyze(&list, &(struct aorta_trace_analysis_options){.gaps = 1000}, &analysis));
        const struct aorta_trace_rank *rank = &analysis.ranks[0];
        count_moments(list.items[0], &counted, streams);
        check_figures(&rank->figures, &counted);
        check_lanes(rank, streams);
        check_sums(rank);
        struct aorta_verdict verdict;
        said_make(&analysis, &verdict);
        check_verdict(&verdict);
        aorta_verdict_free(&verdict);
        for (size_t i = 0; i < rank->kernel_count; i++) check_kernel_row(rank, &rank->kernels[i]);
        int64_t gaps_ns = 0;
        for (size_t i = 0; i < rank->gap_count; i++) gaps_ns += rank->gaps[i].end_ns - rank->gaps[i].start_ns;
        assert_int_equal(gaps_ns, counted.idle_ns);
        aorta_trace_analysis_free(&analysis);
        aorta_trace_list_free(&list);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_traces_have_the_reference_values),
        cmocka_unit_test(whole_traces_have_the_reference_values),
        cmocka_unit_test(two_ranks_are_aligned_and_the_late_one_is_named),
        cmocka_unit_test(missing_ranks_are_asked_for),
        cmocka_unit_test(steps_cut_the_time),
        cmocka_unit_test(one_rank_has_an_upper_bound),
        cmocka_unit_test(steps_apart_leave_out_what_is_between),
        cmocka_unit_test(one_recording_counts_once),
        cmocka_unit_test(work_before_the_first_step),
        cmocka_unit_test(a_rank_outside_of_all_steps),
        cmocka_unit_test(more_devices_than_there_are),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(a_file_without_work_names_what_records_it),
        cmocka_unit_test(launches_without_kernels_are_counted),
        cmocka_unit_test(random_traces_agree_with_counting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
