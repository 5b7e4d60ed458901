/* profiling.*: trace files of a run, compared with its metrics lines and read by the program's own reader. */
#include "base/interval.h"
#include "check.h"
#include "kineto/layout.h"
#include "run.h"
#include "trace/open.h"
#include "trace/trace.h"

#include <glob.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRACED "profiling.enabled=true profiling.wait=1 profiling.warmup=1 profiling.active=2 "

enum { FILES = 16 };

struct files {
    size_t count;
    char paths[FILES][512];
};

/* Files below the run's out/ by pattern, in order of their names (of the time in them). */
static struct files find(const struct e2e_run *run, const char *pattern) {
    struct files files = {0};
    char path[512];
    glob_t found;
    snprintf(path, sizeof path, "%s/out/%s", run->directory, pattern);
    if (glob(path, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc && i < FILES; i++)
            snprintf(files.paths[files.count++], sizeof files.paths[0], "%s", found.gl_pathv[i]);
        globfree(&found);
    }
    return files;
}

static struct files traces_of(const struct e2e_run *run, int rank) {
    char pattern[64];
    snprintf(pattern, sizeof pattern, "torch_profiler/rank%d/*_[0-9]*.[0-9]*.pt.trace.json", rank);
    return find(run, pattern);
}

/* The steps that the file marks, on the host. */
static void expect_steps(const json_t *trace, int first, int count) {
    int marked = 0;
    for (int step = 0; step < 64; step++) {
        char name[32];
        snprintf(name, sizeof name, "ProfilerStep#%d", step);
        bool wanted = step >= first && step < first + count;
        int found = layout_count(trace, "X", "user_annotation", name);
        if (found != wanted) fail_msg("%s is marked %d times", name, found);
        assert_true((layout_count(trace, "X", "gpu_user_annotation", name) > 0) == wanted);
        marked += found;
    }
    assert_int_equal(marked, count);
}

/* ---- figures ---- */

/* To the rounding of the metrics line, which has ns. */
static void expect_ms(const char *words, const char *what, int64_t ns, double ms) {
    if (fabs((double)ns / 1e6 - ms) > 1e-6)
        fail_msg("%s: %s is %.6f ms in the trace and %.6f in the metrics", words, what, (double)ns / 1e6, ms);
}

static void compare_step(const char *words, const json_t *trace, const json_t *line) {
    struct layout_figures f = layout_figures(trace, (int64_t)e2e_number(line, "global_step"));
    expect_ms(words, "compute", f.compute, e2e_number(line, "profile.overlap.compute_ms"));
    expect_ms(words, "comm", f.comm, e2e_number(line, "profile.overlap.comm_ms"));
    expect_ms(words, "memcpy", f.memcpy, e2e_number(line, "profile.overlap.memcpy_ms"));
    expect_ms(words, "busy", f.busy, e2e_number(line, "profile.overlap.busy_ms"));
    expect_ms(words, "span", f.span, e2e_number(line, "profile.overlap.span_ms"));
    expect_ms(words, "overlap", f.overlap, e2e_number(line, "profile.overlap.overlap_ms.compute_comm"));
}

/* What the reader makes of the whole file, by the same unions over its own rows. */
static void compare_reader(const char *words, const char *path, const json_t *trace, int rank, int ranks) {
    struct aorta_trace_list list = {0};
    struct layout_figures f = layout_figures(trace, -1);
    struct aorta_intervals compute = {0}, comm = {0}, both = {0};
    check_ok(aorta_trace_open(path, NULL, &list));
    assert_int_equal(list.count, 1);
    const struct aorta_trace *read = list.items[0];
    assert_int_equal(read->rank, rank);
    assert_int_equal(read->world, ranks);
    assert_int_equal(read->step_count, 2);
    for (size_t i = 0; i < read->work_count; i++) {
        const struct aorta_trace_work *work = &read->work[i];
        if (work->call == AORTA_TRACE_NONE) fail_msg("%s: %s has no launch", words, aorta_trace_text(read, work->name));
        if (work->kind != AORTA_TRACE_KERNEL) continue;
        bool collective = aorta_trace_is_collective(work);
        aorta_intervals_add(collective ? &comm : &compute, work->start_ns, work->end_ns);
        if (!collective) continue;
        const struct aorta_trace_collective *facts = &read->collectives[work->collective];
        if (!facts->named || facts->bytes <= 0 || facts->sequence < 0 || facts->group == AORTA_TRACE_NONE)
            fail_msg("%s: a collective without its facts", words);
        assert_int_equal(read->groups[facts->group].rank_count, facts->group_size);
    }
    aorta_intervals_normalise(&compute);
    aorta_intervals_normalise(&comm);
    aorta_intervals_intersect(&compute, &comm, &both);
    assert_int_equal(aorta_intervals_length(&compute), f.compute);
    assert_int_equal(aorta_intervals_length(&comm), f.comm);
    assert_int_equal(aorta_intervals_length(&both), f.overlap);
    for (int reason = 0; reason < AORTA_REASON_COUNT; reason++)
        if (read->warnings[reason].count && reason != AORTA_REASON_LAUNCH_AFTER_START)
            fail_msg("%s: the reader warns of %lld events %s", words, (long long)read->warnings[reason].count,
                     aorta_trace_warning_text(read, (enum aorta_trace_reason)reason));
    aorta_intervals_free(&compute);
    aorta_intervals_free(&comm);
    aorta_intervals_free(&both);
    aorta_trace_list_free(&list);
}

static void test_figures(void **state) {
    (void)state;
    static const struct {
        int ranks;
        const char *words;
    } cases[] = {
        {2, ""},
        {2, "compile.enabled=true"},
        {2, "distributed.mode=ddp distributed.bucket_cap_mb=0.01"},
        {2, "distributed.mode=ddp compile.enabled=true"},
        {2, "streams.count=1"},
        {2, "training.gradient_accumulation=2 workload.gemm_chunks=2 workload.async_wait=true"},
        {2, "fsdp.use_orig_params=false fsdp.sharding_strategy=shard_grad_op training.mixed_precision=bf16"},
        {4, "fsdp.sharding_strategy=hybrid_shard fsdp.hybrid_shard_gpus_per_node=2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct e2e_run run;
        char words[512];
        snprintf(words, sizeof words, TRACED "%s", cases[i].words);
        e2e_train_well(&run, cases[i].ranks, 6, words);
        for (int rank = 0; rank < cases[i].ranks; rank++) {
            struct files files = traces_of(&run, rank);
            assert_int_equal(files.count, 1);
            json_t *trace = layout_read(files.paths[0]);
            expect_steps(trace, 2, 2);
            compare_step(words, trace, e2e_line(&run, rank, 2));
            compare_step(words, trace, e2e_line(&run, rank, 3));
            compare_reader(words, files.paths[0], trace, rank, cases[i].ranks);
            json_decref(trace);
        }
        e2e_free(&run);
    }
}

/* The collectives of one group have the same numbers, kinds and sizes on all of its ranks. */
static void test_ranks_pair(void **state) {
    (void)state;
    struct e2e_run run;
    e2e_train_well(&run, 2, 6, TRACED);
    json_t *traces[2];
    int collectives = 0;
    for (int rank = 0; rank < 2; rank++) traces[rank] = layout_read(traces_of(&run, rank).paths[0]);
    assert_int_equal(layout_count(traces[0], "X", "kernel", NULL), layout_count(traces[1], "X", "kernel", NULL));
    for (int i = 0; i < layout_count(traces[0], "X", "kernel", NULL); i++) {
        const json_t *event = layout_event(traces[0], "X", "kernel", NULL, i);
        const json_t *other = layout_event(traces[1], "X", "kernel", NULL, i);
        if (!layout_has(event, "Collective name")) continue;
        assert_int_equal(layout_number(event, "Seq"), collectives++);
        assert_int_equal(layout_number(other, "Seq"), layout_number(event, "Seq"));
        assert_string_equal(layout_text(other, "Collective name"), layout_text(event, "Collective name"));
        assert_int_equal(layout_number(other, "In msg nelems"), layout_number(event, "In msg nelems"));
        assert_string_equal(layout_text(event, "Process Group Name"), "0");
        assert_string_equal(layout_text(event, "Process Group Ranks"), "[0, 1]");
    }
    assert_true(collectives > 4);
    for (int rank = 0; rank < 2; rank++) json_decref(traces[rank]);
    e2e_free(&run);
}

/* ---- the schedule ---- */

static void test_schedule(void **state) {
    (void)state;
    static const struct {
        const char *words;
        size_t files;
        int first[4], steps[4];
    } cases[] = {
        {"profiling.wait=0 profiling.warmup=0 profiling.active=1 profiling.repeat=1", 1, {0}, {1}},
        {"profiling.wait=1 profiling.warmup=2 profiling.active=1 profiling.repeat=2", 2, {3, 7}, {1, 1}},
        {"profiling.wait=2 profiling.warmup=0 profiling.active=2 profiling.repeat=0", 3, {2, 6, 10}, {2, 2, 2}},
        {"profiling.wait=4 profiling.warmup=1 profiling.active=5 profiling.repeat=0", 1, {5}, {5}},  /* 10, 11: out */
        {"profiling.wait=9 profiling.warmup=1 profiling.active=5 profiling.repeat=1", 1, {10}, {2}}, /* cut short */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct e2e_run run;
        char words[512];
        snprintf(words, sizeof words, "training.max_steps=12 profiling.enabled=true %s", cases[i].words);
        e2e_train_well(&run, 1, 12, words);
        struct files files = traces_of(&run, 0);
        assert_int_equal(files.count, cases[i].files);
        for (size_t file = 0; file < files.count; file++) {
            json_t *trace = layout_read(files.paths[file]);
            expect_steps(trace, cases[i].first[file], cases[i].steps[file]);
            json_decref(trace);
        }
        e2e_free(&run);
    }
}

static void test_too_short(void **state) {
    (void)state;
    struct e2e_run run;
    e2e_train_well(&run, 1, 6, "profiling.enabled=true profiling.wait=6");
    e2e_expect_output(&run, 0, "profiling: no trace will be written: the first step traced is number 7");
    assert_int_equal(traces_of(&run, 0).count, 0);
    e2e_free(&run);
}

/* ---- what else the keys do ---- */

static json_t *only_trace(const struct e2e_run *run) {
    struct files files = traces_of(run, 0);
    assert_int_equal(files.count, 1);
    return layout_read(files.paths[0]);
}

static bool has_dims(const json_t *trace) {
    return layout_has(layout_event(trace, "X", "cpu_op", "aorta::linear_forward", 0), "Input Dims");
}

static bool has_flops(const json_t *trace) {
    return layout_has(layout_event(trace, "X", "kernel", "linear_forward", 0), "flops");
}

/* Each allocation since the start has an event; they add up to what is allocated. */
static void check_allocations(const json_t *trace) {
    const int count = (int)layout_count(trace, "i", "cpu_instant_event", "[memory]");
    double allocated = 0;
    assert_true(count > 10);
    for (int i = 0; i < count; i++) {
        const json_t *event = layout_event(trace, "i", "cpu_instant_event", "[memory]", (size_t)i);
        assert_true(layout_number(event, "Addr") != 0);
        allocated += layout_number(event, "Bytes");
        assert_true(allocated == layout_number(event, "Total Allocated"));
    }
    assert_true(allocated == layout_number(layout_event(trace, "C", NULL, "device memory (bytes)", 1), "allocated"));
}

static void test_contents(void **state) {
    (void)state;
    struct e2e_run plain, full;
    e2e_train_well(&plain, 1, 6, TRACED "profiling.record_shapes=false profiling.profile_memory=false");
    e2e_train_well(&full, 1, 6, TRACED "profiling.with_flops=true");
    json_t *without = only_trace(&plain), *with = only_trace(&full);
    assert_false(has_dims(without));
    assert_true(has_dims(with));
    assert_false(has_flops(without));
    assert_true(has_flops(with));
    assert_int_equal(layout_count(without, "C", NULL, NULL), 0);
    assert_int_equal(layout_count(with, "C", NULL, "device memory (bytes)"), 2);
    assert_true(layout_number(layout_event(with, "C", NULL, "device memory (bytes)", 0), "allocated") > 0);
    assert_int_equal(layout_count(without, "i", "cpu_instant_event", "[memory]"), 0);
    check_allocations(with);
    /* a local copy replaces the collective, and says so */
    assert_true(json_is_true(json_object_get(json_object_get(with, "aorta"), "simulated")));
    json_decref(without);
    json_decref(with);
    e2e_free(&plain);
    e2e_free(&full);
}

static void test_files(void **state) {
    (void)state;
    struct e2e_run both, board, chrome, cycles;
    e2e_train_well(&both, 1, 6, TRACED);
    e2e_train_well(&board, 1, 6, TRACED "profiling.chrome_trace=false");
    e2e_train_well(&chrome, 1, 6, TRACED "profiling.tensorboard=false profiling.trace_filename=mine.json");
    e2e_train_well(&cycles, 1, 6, TRACED "profiling.wait=0 profiling.repeat=2");
    assert_int_equal(traces_of(&both, 0).count, 1);
    json_decref(layout_read(find(&both, "chrome_trace/rank0/trace.json").paths[0]));
    assert_int_equal(traces_of(&board, 0).count, 1);
    assert_int_equal(find(&board, "chrome_trace*").count, 0);
    assert_int_equal(find(&chrome, "torch_profiler*").count, 0);
    json_t *trace = layout_read(find(&chrome, "chrome_trace/rank0/mine.json").paths[0]);
    expect_steps(trace, 2, 2);
    assert_int_equal(find(&cycles, "chrome_trace/rank0/trace_step1.json").count, 1);
    assert_int_equal(find(&cycles, "chrome_trace/rank0/trace_step4.json").count, 1);
    assert_int_equal(find(&cycles, "chrome_trace/rank0/*").count, 2); /* no temporary file is left */
    json_decref(trace);
    e2e_free(&both);
    e2e_free(&board);
    e2e_free(&chrome);
    e2e_free(&cycles);
}

/* ---- some steps recorded only ---- */

/* Recorded or not, captured or not: the same losses; a line says why it has no profile. */
static void check_record_every(int ranks, const char *more) {
    char words[256];
    struct e2e_run all, some;
    snprintf(words, sizeof words, "training.max_steps=16 dataset.num_samples=400 %s", more);
    e2e_train_well(&all, ranks, 16, words);
    snprintf(words, sizeof words, "training.max_steps=16 dataset.num_samples=400 profiling.record_every=3 %s", more);
    e2e_train_well(&some, ranks, 16, words);
    for (int rank = 0; rank < ranks; rank++)
        for (size_t step = 0; step < 16; step++) {
            const json_t *line = e2e_line(&some, rank, step), *other = e2e_line(&all, rank, step);
            assert_true(e2e_number(line, "loss") == e2e_number(other, "loss"));
            if (step % 3) {
                assert_true(json_is_null(e2e_get(line, "profile")));
                assert_string_equal(json_string_value(e2e_get(line, "null_reasons.profile")),
                                    "profiling.record_every leaves this step out");
                continue;
            }
            /* not copies: an input that is late is copied in the step that needs it, before the one before has ended */
            const struct e2e_filter copies = {.kind = "copy"}, computing = {.kind = "compute"},
                                    communicating = {.kind = "collective"};
            assert_int_equal(e2e_count(line, computing), e2e_count(other, computing));
            assert_int_equal(e2e_count(line, communicating), e2e_count(other, communicating));
            const bool late = e2e_count(line, copies) && e2e_start_ms(e2e_range(line, copies, 0)) <= 0.0;
            /* the step before is not recorded, but when it was done is known */
            if (!late)
                assert_true(e2e_number(line, "profile.overlap.lead_ms") + e2e_number(line, "profile.overlap.span_ms") <=
                            e2e_number(line, "step_ms") + 1e-6);
        }
    e2e_free(&all);
    e2e_free(&some);
}

static void test_record_every(void **state) {
    (void)state;
    for (int ranks = 1; ranks <= 2; ranks++) {
        check_record_every(ranks, "");
        check_record_every(ranks, "compile.enabled=true compile.fullgraph=true");
    }
}

/* ---- ends that were not planned ---- */

static void test_interrupted(void **state) {
    (void)state;
    struct e2e_run run;
    e2e_start(&run, 2,
              "training.epochs=10000 training.max_steps=20000 dataset.num_samples=400 profiling.enabled=true "
              "profiling.wait=0 profiling.active=20000");
    for (int rank = 0; rank < 2; rank++) e2e_wait_for_lines(&run, rank, 5);
    kill(run.pid, SIGINT);
    e2e_finish(&run);
    e2e_expect_output(&run, 1, "aorta: interrupted");
    e2e_read_lines(&run, false);
    for (int rank = 0; rank < 2; rank++) {
        struct files files = traces_of(&run, rank);
        assert_int_equal(files.count, 1);
        json_t *trace = layout_read(files.paths[0]);
        size_t steps = e2e_steps(&run, rank);
        compare_step("interrupted", trace, e2e_line(&run, rank, 1));
        compare_step("interrupted", trace, e2e_line(&run, rank, steps - 1));
        json_decref(trace);
    }
    e2e_free(&run);
}

static void test_refused(void **state) {
    (void)state;
    struct e2e_run run;
    char words[512], path[512];
    snprintf(words, sizeof words, "train --config %s/base.yaml --no-record --override profiling.enabled=true",
             e2e_workspace());
    e2e_start_command(&run, words);
    e2e_finish(&run);
    e2e_expect_output(&run, 2, "--no-record and profiling.enabled exclude each other");
    struct e2e_run every;
    e2e_train(&every, 1, TRACED "profiling.record_every=2");
    e2e_expect_output(&every, 2, "set profiling.record_every to 1");
    e2e_free(&every);
    snprintf(words, sizeof words, "train --config %s/base.yaml --kernel-timing --override profiling.record_every=2",
             e2e_workspace());
    e2e_start_command(&every, words);
    e2e_finish(&every);
    e2e_expect_output(&every, 2, "--kernel-timing and profiling.record_every above 1 exclude each other");
    e2e_free(&every);
    /* a file where the folder should be */
    snprintf(path, sizeof path, "%s/in_the_way", run.directory);
    assert_int_equal(mkdir(path, 0777), 0);
    snprintf(path, sizeof path, "%s/in_the_way/torch_profiler", run.directory);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
    struct e2e_run blocked;
    snprintf(words, sizeof words, TRACED "training.output_dir=%s/in_the_way", run.directory);
    e2e_train(&blocked, 1, words);
    e2e_expect_output(&blocked, 1, "torch_profiler: a file of that name is in the way");
    e2e_free(&blocked);
    e2e_free(&run);
}

static void run_again(const struct e2e_run *before) {
    struct e2e_run again = {0};
    char words[1400];
    snprintf(words, sizeof words,
             "train --config %s/base.yaml --override device.kind=cpu training.max_steps=6 training.output_dir=%s/out "
             "profiling.enabled=true profiling.wait=1",
             e2e_workspace(), before->directory);
    e2e_start_command(&again, words);
    e2e_finish(&again);
    e2e_expect_output(&again, 0, "profiling: 2 traces of earlier runs in ");
    e2e_free(&again);
}

/* The folder's traces are those of the last run, and can be read as one; the earlier ones are not lost. */
static void test_runs_do_not_mix(void **state) {
    (void)state;
    struct e2e_run run, read = {0};
    char words[1400];
    e2e_train_well(&run, 3, 6, TRACED " profiling.wait=0 profiling.active=1 profiling.repeat=2");
    assert_int_equal(find(&run, "chrome_trace/rank*/trace_step*.json").count, 6);
    run_again(&run);
    assert_int_equal(traces_of(&run, 0).count, 1);
    assert_int_equal(find(&run, "torch_profiler/rank*/*.pt.trace.json").count, 1);
    assert_int_equal(find(&run, "torch_profiler/rank*/*.pt.trace.json.old").count, 6);
    assert_int_equal(find(&run, "chrome_trace/rank*/*.json").count, 1);
    assert_int_equal(find(&run, "chrome_trace/rank*/trace_step*.json.old").count, 6);
    snprintf(words, sizeof words, "trace analyze --step all %s/out", run.directory);
    e2e_start_command(&read, words);
    e2e_finish(&read);
    e2e_expect_output(&read, 0, "Verdict: ");
    e2e_expect_output(&read, 0, "basis      6 steps of 1 rank"); /* warm-up included */
    e2e_free(&read);
    e2e_free(&run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_figures),         cmocka_unit_test(test_ranks_pair),  cmocka_unit_test(test_schedule),
        cmocka_unit_test(test_too_short),       cmocka_unit_test(test_contents),    cmocka_unit_test(test_files),
        cmocka_unit_test(test_runs_do_not_mix), cmocka_unit_test(test_interrupted), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_record_every),
    };
    return cmocka_run_group_tests(tests, e2e_open, e2e_close);
}
