/* Which file is which rank. A run of two ranks in Kineto files of their own, and as tools merge them:
 *
 *   rank 0   host 1000  [launch 101][launch 102] ...      device 0   [gemm 150 us][all_reduce 78 us] ...
 *   rank 1   host 1001  [launch 102][launch 103] ...      device 1   [gemm 150 us][all_reduce 18 us] ...
 *
 * Correlations of the ranks have the same numbers for other launches. */
#include "analysis/analysis.h"
#include "base/files.h"
#include "check.h"
#include "folder.h"
#include "report/merge.h"
#include "trace/builder.h"
#include "trace/open.h"
#include "trace/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static char folder[FOLDER_PATH];

static int make_folder(void **state) {
    (void)state;
    folder_make(folder, "ranks");
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    return folder_remove(folder);
}

/* ---- files ---- */

enum { PAIRS = 10 };

struct written {
    const char *label; /* before processes; NULL: processes are numbers */
    int rank, process, device;
    bool says, named;   /* the rank: in the head; at the names of processes */
    bool marked, mixed; /* the end of its events; they are in the order of time with those of other ranks */
    long long ahead_us; /* of its clock */
    int first_step;
};

static void put_process(const struct written *w, int process, struct aorta_text *out) {
    if (w->label)
        aorta_text_printf(out, "\"pid\": \"%s %d\"", w->label, process);
    else
        aorta_text_printf(out, "\"pid\": %d", process);
}

static void put_event(const struct written *w, const char *category, const char *name, int process, int thread,
                      long long us, int length_us, struct aorta_text *out) {
    aorta_text_printf(out,
                      ",\n{\"ph\": \"X\", \"cat\": \"%s\", \"name\": \"%s\", \"tid\": %d, \"ts\": %lld, \"dur\": %d, ",
                      category, name, thread, us + w->ahead_us, length_us);
    put_process(w, process, out);
}

static void put_launched(const struct written *w, const char *name, int correlation, long long us, int length_us,
                         struct aorta_text *out) {
    put_event(w, "cuda_runtime", "cudaLaunchKernel", w->process, 1, us, 3, out);
    aorta_text_printf(out, ", \"args\": {\"correlation\": %d}}", correlation);
    put_event(w, "kernel", name, w->device, 7, us + 10, length_us, out);
    aorta_text_printf(out, ", \"args\": {\"device\": %d, \"stream\": 7, \"correlation\": %d}}", w->device, correlation);
}

static void put_name(const struct written *w, int process, struct aorta_text *out) {
    aorta_text_puts(out, ",\n{\"ph\": \"M\", \"name\": \"process_name\", \"ts\": 0, \"tid\": 0, ");
    put_process(w, process, out);
    aorta_text_printf(out, ", \"args\": {\"name\": \"python\", \"rank\": %d}}", w->rank);
}

static void put_begin(const struct written *w, struct aorta_text *out) {
    char step[32];
    snprintf(step, sizeof step, "ProfilerStep#%d", w->first_step);
    if (w->named) put_name(w, w->process, out);
    if (w->named) put_name(w, w->device, out);
    put_event(w, "user_annotation", step, w->process, 1, 990, 300 * PAIRS, out);
    aorta_text_puts(out, "}");
}

static void put_pair(const struct written *w, int pair, struct aorta_text *out) {
    const int correlation = 101 + w->rank + 2 * pair;
    put_launched(w, "gemm", correlation, 1000 + 300 * pair, 150 - w->rank, out);
    put_launched(w, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", correlation + 1, 1160 + 300 * pair, 78 - 60 * w->rank,
                 out);
}

/* As the profiler writes them: all events of a rank, and the mark at its end. */
static void put_events(const struct written *w, struct aorta_text *out) {
    put_begin(w, out);
    for (int i = 0; i < PAIRS; i++) put_pair(w, i, out);
    if (w->marked)
        aorta_text_puts(
            out, ",\n{\"ph\": \"i\", \"name\": \"Record Window End\", \"pid\": \"\", \"tid\": \"\", \"ts\": 9000}");
}

/* In the order of time. */
static void put_mixed(const struct written *ranks, size_t count, struct aorta_text *out) {
    for (size_t i = 0; i < count; i++) put_begin(&ranks[i], out);
    for (int pair = 0; pair < PAIRS; pair++)
        for (size_t i = 0; i < count; i++) put_pair(&ranks[i], pair, out);
}

static void put_head(const struct written *w, struct aorta_text *out) {
    aorta_text_printf(out,
                      "{\"baseTimeNanoseconds\": 0, \"deviceProperties\": [{\"id\": 0, \"name\": \"NVIDIA H100\"}], ");
    if (w->says) aorta_text_printf(out, "\"distributedInfo\": {\"rank\": %d, \"world_size\": 2}, ", w->rank);
    aorta_text_puts(out, "\"traceEvents\": [{}");
}

/* A file of these ranks in one. */
static void write_file(const char *name, const struct written *ranks, size_t count) {
    char path[128];
    struct aorta_text text = {0};
    put_head(&ranks[0], &text);
    if (ranks[0].mixed) put_mixed(ranks, count, &text);
    for (size_t i = 0; !ranks[0].mixed && i < count; i++) put_events(&ranks[i], &text);
    aorta_text_puts(&text, "]}\n");
    snprintf(path, sizeof path, "%s/%s", folder, name);
    check_ok(aorta_file_replace(path, text.data, text.length));
    aorta_text_free(&text);
}

static const struct written apart[] = {{.rank = 0, .process = 1000, .device = 0, .says = true},
                                       {.rank = 1, .process = 1001, .device = 1, .says = true}};

static void write_parts(void) {
    write_file("run-TP-0.trace.json", &apart[0], 1);
    write_file("run-TP-1.trace.json", &apart[1], 1);
}

/* ---- what is read ---- */

struct read {
    struct aorta_trace_list list;
    struct aorta_trace_analysis analysis;
};

static void analyze(struct read *read) {
    *read = (struct read){0};
    check_ok(aorta_trace_open_inputs(&(const char *){folder}, 1, NULL, &read->list));
    check_ok(aorta_trace_analyze(&read->list, NULL, &read->analysis));
}

static void end(struct read *read) {
    aorta_trace_analysis_free(&read->analysis);
    aorta_trace_list_free(&read->list);
}

/* Two ranks: each has its own work, behind its own launches. */
static void check_ranks(const struct read *read) {
    assert_int_equal(read->analysis.rank_count, 2);
    for (int i = 0; i < 2; i++) {
        const struct aorta_trace_rank *rank = &read->analysis.ranks[i];
        assert_int_equal(rank->rank, i);
        assert_int_equal(rank->work_count, 2 * PAIRS);
        assert_int_equal(rank->figures.comm_ns, (78 - 60 * i) * 1000 * PAIRS);
        assert_int_equal(rank->figures.compute_ns, (150 - i) * 1000 * PAIRS);
        assert_int_equal(rank->trace->call_count, 2 * PAIRS);
        assert_int_equal(rank->trace->step_count, 1);
        assert_int_equal(rank->trace->device_count, 1);
        assert_int_equal(rank->trace->warnings[AORTA_REASON_LAUNCH_AFTER_START].count, 0);
        for (size_t j = 0; j < rank->work_count; j++)
            assert_int_equal(rank->work[j].start_ns - rank->trace->calls[rank->work[j].call].start_ns, 10000);
    }
}

static void check_repeated(const struct read *read, const char *name) {
    const struct aorta_trace_warning *warning = &read->list.items[0]->warnings[AORTA_REASON_REPEATED];
    assert_int_equal(warning->count, 1);
    assert_non_null(strstr(warning->about, name));
    for (size_t i = 1; i < read->list.count; i++)
        assert_int_equal(read->list.items[i]->warnings[AORTA_REASON_REPEATED].count, 0);
}

/* ---- merged files ---- */

static void a_labelled_file_has_its_ranks(void **state) {
    (void)state;
    static const struct written labelled[] = {
        {.label = "[TP00]", .rank = 0, .process = 1000, .device = 0, .says = true},
        {.label = "[TP01]", .rank = 1, .process = 1001, .device = 1}};
    struct read read;
    write_file("merged.trace.json", labelled, 2);
    analyze(&read);
    check_ranks(&read);
    end(&read);
}

/* Stages and copies of the model have the same number of TP: ranks are in the order of stage, copy, part. */
static void labels_of_several_dimensions(void **state) {
    (void)state;
    static const struct written labelled[] = {{.label = "[TP00-PP01]", .rank = 1, .process = 1001, .device = 1},
                                              {.label = "[TP00-PP00]", .rank = 0, .process = 1000, .device = 0}};
    struct read read;
    write_file("merged.trace.json", labelled, 2);
    analyze(&read);
    check_ranks(&read);
    end(&read);
}

/* Devices have the same number on each node. */
static void devices_are_numbered_per_node(void **state) {
    (void)state;
    static const struct written labelled[] = {{.label = "[TP00]", .rank = 0, .process = 1000},
                                              {.label = "[TP01]", .rank = 1, .process = 1000}};
    struct read read;
    write_file("merged.trace.json", labelled, 2);
    analyze(&read);
    check_ranks(&read);
    end(&read);
}

/* As TraceLens merges: processes moved apart, their rank beside their names. */
static void processes_with_a_rank(void **state) {
    (void)state;
    static const struct written moved[] = {{.rank = 0, .process = 1000, .device = 0, .named = true},
                                           {.rank = 1, .process = 11001, .device = 10001, .named = true}};
    struct read read;
    write_file("merged.trace.json", moved, 2);
    analyze(&read);
    assert_int_equal(read.analysis.rank_count, 2);
    check_ranks(&read);
    end(&read);
}

/* ---- merged files without labels ---- */

/* Two ranks in one file: on their devices and on devices numbered per node, one after the other and in the order of
 * time. Events of the second rank first: devices number the ranks, or else processes do. */
static void joined_files_have_their_ranks(void **state) {
    (void)state;
    for (int way = 0; way < 8; way++) {
        const int device = way & 1;
        const bool mixed = way & 2;
        const struct written ranks[] = {{.rank = 0, .process = 1000, .device = 0, .mixed = mixed},
                                        {.rank = 1, .process = 1001, .device = device, .mixed = mixed}};
        const struct written swapped[] = {ranks[1], ranks[0]};
        struct read read;
        write_file("all.trace.json", way & 4 ? swapped : ranks, 2);
        analyze(&read);
        check_ranks(&read);
        end(&read);
    }
}

/* In containers processes have the same number: the marks at the ends of the ranks' events say where ranks begin. */
static void processes_with_one_number(void **state) {
    (void)state;
    for (int device = 0; device < 2; device++) {
        const struct written ranks[] = {{.rank = 0, .process = 1, .device = 0, .marked = true},
                                        {.rank = 1, .process = 1, .device = device, .marked = true}};
        struct read read;
        write_file("all.trace.json", ranks, 2);
        analyze(&read);
        check_ranks(&read);
        end(&read);
    }
}

/* Two recordings of one process, an hour apart, stay one. */
static void cycles_in_one_file(void **state) {
    (void)state;
    const struct written cycles[] = {{.process = 1, .marked = true},
                                     {.process = 1, .marked = true, .ahead_us = 3600000000ll, .first_step = 5}};
    struct read read;
    write_file("all.trace.json", cycles, 2);
    analyze(&read);
    assert_int_equal(read.analysis.rank_count, 1);
    assert_int_equal(read.analysis.mixed, 0);
    assert_int_equal(read.analysis.ranks[0].trace->step_count, 2);
    end(&read);
}

/* Nothing distinguishes the ranks: there is no verdict. */
static void ranks_that_stay_mixed(void **state) {
    (void)state;
    static const struct written same_process[] = {{.rank = 0, .process = 1}, {.rank = 1, .process = 1}};
    static const struct written same_numbers[] = {{.process = 1, .mixed = true}, {.process = 2, .mixed = true}};
    const struct written *const files[] = {same_process, same_numbers};
    for (size_t i = 0; i < 2; i++) {
        struct read read;
        write_file("all.trace.json", files[i], 2);
        analyze(&read);
        assert_int_equal(read.analysis.rank_count, 1);
        assert_int_equal(read.analysis.mixed, 2);
        end(&read);
    }
}

static void a_merged_file_beside_its_ranks_is_left_out(void **state) {
    (void)state;
    static const struct written labelled[] = {
        {.label = "[TP00]", .rank = 0, .process = 1000, .device = 0, .says = true},
        {.label = "[TP01]", .rank = 1, .process = 1001, .device = 1, .ahead_us = 5}};
    struct read read;
    write_parts();
    write_file("merged.trace.json", labelled, 2);
    analyze(&read);
    check_ranks(&read);
    check_repeated(&read, "merged.trace.json");
    end(&read);
}

static void an_unlabelled_file_beside_its_ranks_is_left_out(void **state) {
    (void)state;
    struct read read;
    write_parts();
    write_file("all.trace.json", apart, 2);
    analyze(&read);
    check_ranks(&read);
    check_repeated(&read, "all.trace.json");
    end(&read);
}

static void our_own_merge_beside_a_rank(void **state) {
    (void)state;
    char merged[64], part[64];
    struct aorta_text report = {0};
    struct read read;
    write_parts();
    snprintf(merged, sizeof merged, "%s/merged.json", folder);
    snprintf(part, sizeof part, "%s/run-TP-1.trace.json", folder);
    check_ok(aorta_trace_merge(&(const char *){folder}, 1, merged, NULL, NULL, false, &report));
    aorta_text_free(&report);
    analyze(&read);
    check_ranks(&read);
    check_repeated(&read, "merged.json");
    end(&read);
    assert_int_equal(remove(part), 0); /* now the merged file has more ranks */
    analyze(&read);
    check_ranks(&read);
    check_repeated(&read, "run-TP-0.trace.json");
    end(&read);
}

/* ---- hosts ---- */

/* Names of files have the number of the rank on its host. Both recorded at the same time. */
static void local_ranks_of_two_hosts(void **state) {
    (void)state;
    static const struct written hosts[] = {{.rank = 0, .process = 1}, {.rank = 1, .process = 1}};
    struct read read;
    write_file("host_a-rank0.json", &hosts[0], 1);
    write_file("host_b-rank0.json", &hosts[1], 1);
    analyze(&read);
    check_ranks(&read);
    end(&read);
}

/* The same names an hour apart are two runs. */
static void two_runs_of_a_rank_are_refused(void **state) {
    (void)state;
    static const struct written runs[] = {{.rank = 0, .process = 1},
                                          {.rank = 1, .process = 1, .ahead_us = 3600000000ll}};
    struct aorta_trace_list list = {0};
    struct aorta_trace_analysis analysis;
    write_file("run_a-rank0.json", &runs[0], 1);
    write_file("run_b-rank0.json", &runs[1], 1);
    check_ok(aorta_trace_open_inputs(&(const char *){folder}, 1, NULL, &list));
    check_fails(aorta_trace_analyze(&list, NULL, &analysis), AORTA_USAGE, "both of rank 0");
    aorta_trace_analysis_free(&analysis);
    aorta_trace_list_free(&list);
}

/* In containers processes have the same numbers: what was recorded at the same time is no earlier cycle. */
static void hosts_are_no_cycles(void **state) {
    (void)state;
    static const struct written hosts[] = {{.rank = 0, .process = 1}, {.rank = 1, .process = 1, .first_step = 5}};
    struct read read;
    write_file("a_1.100.pt.trace.json", &hosts[0], 1);
    write_file("b_1.100.pt.trace.json", &hosts[1], 1);
    analyze(&read);
    assert_int_equal(aorta_trace_take_last_cycle(&read.list), 1);
    check_ranks(&read);
    end(&read);
}

/* Cycles of a profile schedule, a file each:
 *
 *   rank0/trace_step2.json: steps 2 and 3      rank0/trace_step6.json: steps 6 and 7
 */

static int cycle_rank; /* of the files; -1: a program on its own */

static struct aorta_trace *cycle(const char *path, int64_t first_step, const char *device) {
    struct aorta_trace_builder *builder;
    struct aorta_trace *trace;
    check_ok(aorta_trace_builder_create(AORTA_TRACE_KINETO, path, NULL, &builder));
    aorta_trace_builder_head(builder)->rank = cycle_rank;
    const struct aorta_trace_device row = {.id = 0, .name = aorta_trace_builder_text(builder, device, strlen(device))};
    aorta_trace_builder_device(builder, &row);
    check_ok(aorta_trace_builder_finish(builder, &trace));
    trace->steps = calloc(2, sizeof *trace->steps); /* the trace's own */
    assert_non_null(trace->steps);
    trace->step_count = 2;
    for (int64_t i = 0; i < 2; i++)
        trace->steps[i] =
            (struct aorta_trace_step){.number = first_step + i, .start_ns = 1000 * i, .end_ns = 1000 * i + 900};
    return trace;
}

/* Takes the last cycle of two files: there are `cycles` cycles, and `left` files remain. */
static void check_left(const char *path, int64_t step, const char *device, size_t cycles, size_t left) {
    struct aorta_trace_list list = {0};
    check_ok(aorta_trace_list_add(&list, cycle("run/rank0/trace_step6.json", 6, "H100")));
    check_ok(aorta_trace_list_add(&list, cycle(path, step, device)));
    assert_int_equal(aorta_trace_take_last_cycle(&list), cycles);
    assert_int_equal(list.count, left);
    assert_int_equal(list.items[0]->steps[0].number, 6);
    aorta_trace_list_free(&list);
}

static void the_last_cycle_is_taken(void **state) {
    (void)state;
    check_left("run/rank0/trace_step2.json", 2, "H100", 2, 1);
}

/* Without ranks, as a program on its own writes them: cycles, and no two ranks. */
static void cycles_need_no_rank(void **state) {
    (void)state;
    struct aorta_trace_list list = {0};
    cycle_rank = -1;
    check_ok(aorta_trace_list_add(&list, cycle("run/trace_step4.json", 3, "H100")));
    check_ok(aorta_trace_list_add(&list, cycle("run/trace_step8.json", 7, "H100")));
    assert_int_equal(aorta_trace_later_cycles(&list, 0), 1);
    assert_int_equal(aorta_trace_take_last_cycle(&list), 2);
    assert_int_equal(list.count, 1);
    assert_int_equal(list.items[0]->steps[0].number, 7);
    aorta_trace_list_free(&list);
    cycle_rank = 0;
}

/* Two runs have the same steps, other folders or other devices: they stay, and the analysis refuses them. */
static void two_runs_stay(void **state) {
    (void)state;
    check_left("run/rank0/trace_step7.json", 7, "H100", 1, 2);
    check_left("other/rank0/trace_step2.json", 2, "H100", 1, 2);
    check_left("run/rank0/trace_step2.json", 2, "MI300X", 1, 2);
}

/* ---- separate runs ---- */

/*  amp   |====|
 *  fp32           |====|      no rank, no collective: two programs. Ranks would run side by side, or say who they are.
 */
static void runs_one_after_the_other_are_separate(void **state) {
    (void)state;
    struct aorta_trace_work work[] = {
        {.start_ns = 0, .end_ns = 1000, .kind = AORTA_TRACE_KERNEL, .collective = AORTA_TRACE_NONE}};
    struct aorta_trace traces[2];
    for (int i = 0; i < 2; i++)
        traces[i] = (struct aorta_trace){.path = i ? "fp32.json" : "amp.json",
                                         .rank = -1,
                                         .world = -1,
                                         .base_ns = i * 5000,
                                         .work = work,
                                         .work_count = 1};
    struct aorta_trace *items[] = {&traces[0], &traces[1]};
    const struct aorta_trace_list both = {.items = items, .count = 2};
    const struct aorta_trace *found[2];
    assert_true(aorta_trace_find_separate(&both, found));
    assert_ptr_equal(found[0], &traces[0]);
    assert_ptr_equal(found[1], &traces[1]);
    traces[1].base_ns = 500; /* at one time */
    assert_false(aorta_trace_find_separate(&both, found));
    traces[1].base_ns = traces[0].base_ns; /* in the same nanosecond: times that were made up */
    assert_true(aorta_trace_find_separate(&both, found));
    traces[1].base_ns = INT64_MIN; /* not known */
    assert_false(aorta_trace_find_separate(&both, found));
    traces[1].format = AORTA_TRACE_NSYS; /* an old export, which has no time */
    assert_true(aorta_trace_find_separate(&both, found));
    traces[1].format = traces[0].format;
    traces[1].base_ns = 5000;
    traces[1].path = "run.rank1.json";
    assert_false(aorta_trace_find_separate(&both, found));
    traces[1].base_ns = 4 * INT64_C(3600000000000); /* a job of another time of the day */
    assert_true(aorta_trace_find_separate(&both, found));
    traces[1].base_ns = 5000;
    traces[1].path = "fp32.json";
    work[0].class = AORTA_KERNEL_COLLECTIVE;
    assert_false(aorta_trace_find_separate(&both, found));
}

int main(void) {
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_labelled_file_has_its_ranks),
        IN_FOLDER(labels_of_several_dimensions),
        IN_FOLDER(devices_are_numbered_per_node),
        IN_FOLDER(processes_with_a_rank),
        IN_FOLDER(joined_files_have_their_ranks),
        IN_FOLDER(processes_with_one_number),
        IN_FOLDER(cycles_in_one_file),
        IN_FOLDER(ranks_that_stay_mixed),
        IN_FOLDER(a_merged_file_beside_its_ranks_is_left_out),
        IN_FOLDER(an_unlabelled_file_beside_its_ranks_is_left_out),
        IN_FOLDER(our_own_merge_beside_a_rank),
        IN_FOLDER(local_ranks_of_two_hosts),
        IN_FOLDER(two_runs_of_a_rank_are_refused),
        IN_FOLDER(hosts_are_no_cycles),
        cmocka_unit_test(the_last_cycle_is_taken),
        cmocka_unit_test(two_runs_stay),
        cmocka_unit_test(cycles_need_no_rank),
        cmocka_unit_test(runs_one_after_the_other_are_separate),
    };
#undef IN_FOLDER
    return cmocka_run_group_tests(tests, NULL, NULL);
}
