/* The injected library in programs that end well, badly, fork, replace themselves, or profile themselves. */
#include "check.h"
#include "fake_cupti/fake_cupti.h"
#include "listed.h"
#include "record/inject/settings.h"
#include "recording.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STEPS = 10 };

/* `steps` steps of the program, nothing more and nothing less. */
static void check_steps(const struct aorta_trace *trace, int steps) {
    struct recorded sums = recorded_of(trace);
    assert_int_equal(sums.kernels, steps);
    assert_int_equal(sums.collectives, steps);
    assert_int_equal(sums.copies, steps);
    assert_int_equal(sums.fills, steps);
    assert_int_equal(sums.compute_us, 100 * steps);
    assert_int_equal(sums.comm_us, 100 * steps);
}

static const struct aorta_trace_run_process *only_process(const struct recording *recording, uint32_t state) {
    assert_int_equal(recording->record.process_count, 1);
    assert_int_equal(recording->record.processes[0].facts.head.state, state);
    return &recording->record.processes[0];
}

static void expect_words(const struct recording *recording, const char *part) {
    struct aorta_text text = {0};
    if (recording->record.traces.count)
        aorta_trace_run_describe(&recording->record, &text);
    else
        aorta_trace_run_explain_nothing(&recording->record, &recording->result, &text);
    listed_lines(&text);
    if (!text.data || !strstr(text.data, part)) fail_msg("expected \"%s\" in: %s", part, text.data ? text.data : "");
    aorta_text_free(&text);
}

static void a_program_is_recorded_whole(void **state) {
    (void)state;
    struct recording r;
    recording_open(&r);
    recording_run(&r, "normal", 0, NULL);
    assert_int_equal(r.result.exit_code, 0);
    const struct aorta_trace_run_process *process = only_process(&r, AORTA_SPOOL_ENDED);
    assert_int_equal(process->rank, 0);
    assert_int_equal(process->facts.head.lost, 0);
    assert_int_equal(process->facts.cut_bytes, 0);
    assert_non_null(strstr(process->facts.command, "normal"));
    assert_non_null(strstr(process->facts.library, "libcupti.so"));
    assert_int_equal(process->facts.process.cupti, 130001);
    const struct aorta_trace *trace = r.record.traces.items[0];
    check_steps(trace, STEPS);
    assert_int_equal(recorded_of(trace).calls, 4 * STEPS); /* three launches and a synchronisation; cudaGetDevice not */
    assert_int_equal(recorded_of(trace).steps, 0);         /* NVTX was not asked for */
    assert_string_equal(aorta_trace_text(trace, trace->work[0].name), "gemm(float const*, float const*, float*)");
    assert_int_not_equal(trace->work[0].call, AORTA_TRACE_NONE);
    assert_string_equal(aorta_trace_text(trace, trace->calls[trace->work[0].call].name), "cudaLaunchKernel");
    assert_int_equal(trace->queue_count, 2);
    assert_int_equal(trace->device_count, 1);
    assert_string_equal(aorta_trace_text(trace, trace->devices[0].name), "Fake GPU 0");
    expect_words(&r, "rank 0: process ");
    expect_words(&r, "CUPTI 13.0.1, driver for CUDA 13.0");
    recording_close(&r);
}

static void ranges_of_nvtx_are_steps(void **state) {
    (void)state;
    struct recording r;
    const struct aorta_trace_run_variable nvtx[] = {{AORTA_INJECT_NVTX, "1"}, {0}};
    recording_open(&r);
    recording_run(&r, "normal", 0, nvtx);
    assert_int_equal(recorded_of(r.record.traces.items[0]).steps, STEPS);
    assert_int_equal(r.record.traces.items[0]->steps[3].number, 3);
    recording_close(&r);
}

/* Steps 0 1 2 [3 4 5 6] 7 [8 9] 10 11 of a program that begins and ends its recordings itself. */
static void a_program_records_parts_of_itself(void **state) {
    (void)state;
    struct recording r;
    recording_open(&r);
    recording_run(&r, "records-itself", 5, NULL);
    assert_int_equal(r.result.exit_code, 5);
    assert_int_equal(r.record.process_count, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(r.record.processes[i].facts.head.state, AORTA_SPOOL_STOPPED);
        const int steps = i == 0 ? 4 : 2;
        check_steps(r.record.traces.items[i], steps);
        assert_int_equal(recorded_of(r.record.traces.items[i]).calls, 4 * steps);
    }
    recording_close(&r);
}

static void the_exit_code_is_the_programs(void **state) {
    (void)state;
    struct recording r;
    recording_open(&r);
    recording_run(&r, "normal", 17, NULL);
    assert_int_equal(r.result.exit_code, 17);
    recording_close(&r);
}

static void a_forked_child_leaves_the_file_alone(void **state) {
    (void)state;
    struct recording r;
    recording_open(&r);
    recording_run(&r, "forked", 0, NULL);
    assert_int_equal(r.result.exit_code, 0);
    only_process(&r, AORTA_SPOOL_ENDED);
    check_steps(r.record.traces.items[0], STEPS);
    recording_close(&r);
}

static void workers_made_by_fork_are_recorded(void **state) {
    (void)state;
    struct recording r;
    recording_open(&r);
    recording_run(&r, "workers", 3, NULL);
    assert_int_equal(r.result.exit_code, 0);
    assert_int_equal(r.record.traces.count, 3);
    for (int i = 0; i < 3; i++) {
        const struct aorta_trace *trace = r.record.traces.items[i];
        assert_int_equal(trace->rank, i);
        assert_int_equal(trace->work[0].device, i);
        assert_int_equal(r.record.processes[i].facts.head.state, AORTA_SPOOL_ENDED);
        check_steps(trace, STEPS);
    }
    recording_close(&r);
}

static void a_process_with_several_gpus_is_recorded_whole(void **state) {
    (void)state;
    struct recording r;
    recording_open(&r);
    recording_run(&r, "devices", 2, NULL);
    only_process(&r, AORTA_SPOOL_ENDED);
    const struct aorta_trace *trace = r.record.traces.items[0];
    check_steps(trace, 2 * STEPS);
    int64_t busy[2] = {0};
    for (size_t i = 0; i < trace->work_count; i++) busy[trace->work[i].device != 0]++;
    assert_true(busy[0] == busy[1]);
    recording_close(&r);
}

static void a_process_that_replaces_itself_has_two_files(void **state) {
    (void)state;
    struct recording r;
    recording_open(&r);
    recording_run(&r, "replaced", 5, NULL);
    assert_int_equal(r.result.exit_code, 5);
    assert_int_equal(r.record.process_count, 2);
    assert_int_equal(r.record.processes[0].facts.process.pid, r.record.processes[1].facts.process.pid);
    check_steps(r.record.traces.items[0], STEPS / 2);
    check_steps(r.record.traces.items[1], STEPS);
    assert_int_equal(r.record.processes[0].facts.head.state, AORTA_SPOOL_RECORDING);
    assert_int_equal(r.record.processes[1].facts.head.state, AORTA_SPOOL_ENDED);
    recording_close(&r);
}

static void closed_descriptors_cost_nothing_and_harm_nothing(void **state) {
    (void)state;
    struct recording r;
    recording_open(&r);
    recording_run(&r, "closing", 6, NULL);
    assert_int_equal(r.result.exit_code, 6);
    only_process(&r, AORTA_SPOOL_ENDED);
    check_steps(r.record.traces.items[0], STEPS);
    recording_close(&r);
}

static void a_daemon_that_becomes_another_user_is_recorded(void **state) {
    (void)state;
    const int user = geteuid() == 0 ? 65534 : 0;
    struct recording r;
    recording_open(&r);
    recording_run(&r, "daemon", user, NULL);
    assert_int_equal(r.result.exit_code, 0);
    only_process(&r, AORTA_SPOOL_ENDED);
    check_steps(r.record.traces.items[0], STEPS);
    recording_close(&r);
}

static void ranks_are_those_of_the_environment(void **state) {
    (void)state;
    struct recording r;
    recording_open(&r);
    recording_run(&r, "ranks", 2, NULL);
    assert_int_equal(r.result.exit_code, 0);
    assert_int_equal(r.record.traces.count, 2);
    for (int i = 0; i < 2; i++) {
        const struct aorta_trace *trace = r.record.traces.items[i];
        assert_int_equal(trace->rank, i);
        assert_int_equal(trace->world, 2);
        assert_int_equal(trace->work[0].device, i);
        check_steps(trace, STEPS);
    }
    recording_close(&r);
}

static void two_processes_of_one_rank_stay_separate(void **state) {
    (void)state;
    struct recording r;
    const struct aorta_trace_run_variable rank[] = {{"RANK", "4"}, {0}};
    recording_open(&r);
    recording_run(&r, "replaced", 0, rank); /* the second image did more */
    assert_int_equal(r.record.traces.count, 2);
    assert_int_equal(r.record.traces.items[0]->rank, 4);
    check_steps(r.record.traces.items[0], STEPS);
    assert_int_equal(r.record.traces.items[1]->rank, 5);
    expect_words(&r, "calls itself rank 4, as another process with more work does");
    recording_close(&r);
}

static void signals_leave_what_was_there(void **state) {
    (void)state;
    static const int signals[] = {SIGKILL, SIGABRT, SIGSEGV, SIGTERM};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct recording r;
        recording_open(&r);
        recording_run(&r, "die-of", signals[i], NULL);
        assert_int_equal(r.result.exit_code, 128 + signals[i]);
        assert_int_equal(r.result.signal, signals[i]);
        only_process(&r, AORTA_SPOOL_RECORDING);
        check_steps(r.record.traces.items[0], STEPS);
        expect_words(&r, "ended by a signal, exec or _exit");
        recording_close(&r);
    }
}

static void an_end_without_handlers_leaves_what_was_there(void **state) {
    (void)state;
    struct recording r;
    recording_open(&r);
    recording_run(&r, "own-exit", 9, NULL);
    assert_int_equal(r.result.exit_code, 9);
    only_process(&r, AORTA_SPOOL_RECORDING);
    check_steps(r.record.traces.items[0], STEPS);
    recording_close(&r);
}

static void a_process_that_is_left_behind_is_said_to_go_on(void **state) {
    (void)state;
    struct recording r;
    recording_open(&r);
    recording_run(&r, "left-behind", 2, NULL);
    assert_int_equal(r.result.exit_code, 2);
    check_steps(r.record.traces.items[0], STEPS);
    expect_words(&r, "still runs: its later work is not in these figures");
    recording_close(&r);
}

/* ---- other users of CUPTI ---- */

static void a_profiler_that_was_there_first_is_left_alone(void **state) {
    (void)state;
    struct recording r;
    recording_open(&r);
    recording_run(&r, "profiled-first", 6, NULL);
    assert_int_equal(r.result.exit_code, 6);
    only_process(&r, AORTA_SPOOL_TAKEN);
    assert_int_equal(r.record.traces.count, 0);
    expect_words(&r, "another profiler has CUPTI in this process");
    expect_words(&r, "torch.profiler");
    recording_close(&r);
}

static void a_profiler_that_comes_later_gets_cupti(void **state) {
    (void)state;
    struct recording r;
    recording_open(&r);
    recording_run(&r, "profiled-later", 6, NULL);
    assert_int_equal(r.result.exit_code, 6);
    only_process(&r, AORTA_SPOOL_TAKEN);
    check_steps(r.record.traces.items[0], STEPS / 2);
    expect_words(&r, "it took it over from the recording");
    recording_close(&r);
}

static void a_refusal_of_cupti_is_reported_with_its_remedy(void **state) {
    (void)state;
    struct recording r;
    const struct aorta_trace_run_variable refusal[] = {{"FAKE_CUPTI_REFUSE", "kernels:35"}, {0}};
    recording_open(&r);
    recording_run(&r, "normal", 0, refusal);
    assert_int_equal(r.result.exit_code, 0);
    assert_int_equal(only_process(&r, AORTA_SPOOL_REFUSED)->facts.head.result, 35);
    expect_words(&r, "cuptiActivityEnable(10): CUPTI_ERROR_INSUFFICIENT_PRIVILEGES");
    expect_words(&r, "NVreg_RestrictProfilingToAdminUsers");
    recording_close(&r);
}

static void a_cupti_that_cannot_choose_calls_records_the_same(void **state) {
    (void)state;
    struct recording r;
    const struct aorta_trace_run_variable refusal[] = {{"FAKE_CUPTI_REFUSE", "calls:1"}, {0}};
    recording_open(&r);
    recording_run(&r, "normal", 0, refusal);
    check_steps(r.record.traces.items[0], STEPS);
    assert_int_equal(recorded_of(r.record.traces.items[0]).calls, 4 * STEPS);
    recording_close(&r);
}

/* ---- what is recorded, and at what cost ---- */

static struct recorded recorded_at(const char *level, const char *refusal) {
    struct recording r;
    const struct aorta_trace_run_variable wish[] = {{AORTA_INJECT_RECORD, level}, {"FAKE_CUPTI_REFUSE", refusal}, {0}};
    recording_open(&r);
    recording_run(&r, "normal", 0, wish);
    const struct aorta_trace *trace = r.record.traces.items[0];
    check_steps(trace, STEPS);
    struct recorded sums = recorded_of(trace);
    assert_int_equal(trace->no_launches, strcmp(level, "kernels") == 0);
    assert_int_equal(trace->no_waits, strcmp(level, "all") != 0);
    /* Calls that were not recorded on purpose give no warning. */
    assert_int_equal(trace->warnings[AORTA_REASON_NO_LAUNCH].count, 0);
    recording_close(&r);
    return sums;
}

static void only_the_calls_asked_for_are_recorded(void **state) {
    (void)state;
    static const char *const refusals[] = {"nothing:0", "calls:1"}; /* CUPTI before CUDA 12.5 cannot choose */
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        assert_int_equal(recorded_at("kernels", refusals[i]).calls, 0);
        assert_int_equal(recorded_at("kernels,launches", refusals[i]).calls, 3 * STEPS);
        assert_int_equal(recorded_at("all", refusals[i]).calls, 4 * STEPS);
    }
}

static void a_busy_program_is_seldom_made_to_wait_for_a_flush(void **state) {
    (void)state;
    enum { BUSY_MS = 1500, LOOKS = BUSY_MS / 100 };
    struct recording r;
    const struct aorta_trace_run_variable often[] = {{AORTA_INJECT_FLUSH, "100"}, {AORTA_INJECT_BUFFER, "16"}, {0}};
    recording_open(&r);
    recording_run(&r, "paced", BUSY_MS, often);
    if (r.result.exit_code > LOOKS / 3) fail_msg("%d flushes in %d looks", r.result.exit_code, LOOKS);
    struct recorded sums = recorded_of(r.record.traces.items[0]);
    assert_true(sums.kernels > 100 && sums.kernels % 100 == 0);
    assert_int_equal(r.record.processes[0].facts.head.lost, 0);
    recording_close(&r);
}

static void threads_get_buffers_of_their_own(void **state) {
    (void)state;
    struct recording r;
    const struct aorta_trace_run_variable refusal[] = {{"FAKE_CUPTI_REFUSE", "cuptiActivitySetAttribute:1"}, {0}};
    recording_open(&r);
    recording_run(&r, "attribute", 20, NULL);
    assert_int_equal(r.result.exit_code, 20 + 9 + 1);
    recording_close(&r);
    recording_open(&r);
    recording_run(&r, "attribute", 20, refusal); /* before CUDA 12.3 */
    assert_int_equal(r.result.exit_code, 20);
    check_steps(r.record.traces.items[0], STEPS);
    recording_close(&r);
}

/* ---- nothing to record ---- */

static void a_program_without_cuda_is_said_to_have_none(void **state) {
    (void)state;
    struct recording r;
    recording_open(&r);
    recording_run(&r, "without-cuda", 3, NULL);
    assert_int_equal(r.result.exit_code, 3);
    assert_int_equal(r.record.process_count, 0);
    expect_words(&r, "no process of the program loaded CUDA's driver");
    recording_close(&r);
}

static void cuda_that_was_never_initialised_is_seen(void **state) {
    (void)state;
    struct recording r;
    recording_open(&r);
    recording_run(&r, "uninitialised", 0, NULL);
    assert_int_equal(r.record.process_count, 0);
    assert_true(r.result.search.driver_pid > 0);
    assert_false(r.result.search.dropped);
    expect_words(&r, "never initialized (cuInit)");
    recording_close(&r);
}

static void cuda_without_work_is_reported(void **state) {
    (void)state;
    struct recording r;
    recording_open(&r);
    recording_run(&r, "idle", 0, NULL);
    only_process(&r, AORTA_SPOOL_ENDED);
    expect_words(&r, "initialized CUDA, but no kernel, copy or fill ended");
    recording_close(&r);
}

/* ---- limits ---- */

static void a_full_file_ends_the_recording_and_not_the_program(void **state) {
    (void)state;
    struct recording r;
    const struct aorta_trace_run_variable limit[] = {{AORTA_INJECT_LIMIT, "1"}, {0}};
    recording_open(&r);
    recording_run(&r, "flood", 20000, limit);
    assert_int_equal(r.result.exit_code, 0);
    only_process(&r, AORTA_SPOOL_FULL);
    expect_words(&r, "--limit-mb");
    struct stat info;
    assert_int_equal(stat(r.record.traces.items[0]->path, &info), 0);
    assert_true(info.st_size > 900 << 10 && info.st_size <= 1 << 20);
    recording_close(&r);
}

/* 300 000 launches, of which a MiB of the file takes nine thousand. */
static void a_long_recording_keeps_its_limit_and_its_memory(void **state) {
    (void)state;
    struct recording r;
    struct stat info;
    const struct aorta_trace_run_variable small[] = {{AORTA_INJECT_LIMIT, "8"}, {AORTA_INJECT_FLUSH, "10"}, {0}};
    recording_open(&r);
    recording_run(&r, "hours", 300, small);
    assert_int_equal(r.result.exit_code, 0);
    only_process(&r, AORTA_SPOOL_FULL);
    char path[128];
    snprintf(path, sizeof path, "%s/%d-0.spool", r.directory, r.record.processes[0].facts.process.pid);
    assert_int_equal(stat(path, &info), 0);
    assert_true(info.st_size <= 8 << 20 && info.st_size > 7 << 20);
    recording_close(&r);
}

static void a_full_disk_ends_the_recording_and_not_the_program(void **state) {
    (void)state;
    struct recording r;
    recording_open(&r);
    recording_run(&r, "limited", 8, NULL);
    assert_int_equal(r.result.exit_code, 8);
    assert_int_equal(only_process(&r, AORTA_SPOOL_FAILED)->facts.head.result, EFBIG);
    assert_int_equal(r.record.processes[0].facts.cut_bytes, 0); /* the record that did not fit was taken back */
    recording_close(&r);
}

static void what_comes_too_fast_is_counted(void **state) {
    (void)state;
    struct recording r;
    const struct aorta_trace_run_variable slow[] = {{AORTA_INJECT_FLUSH, "60000"}, {AORTA_INJECT_BUFFER, "64"}, {0}};
    enum { FLOOD = 60000 };
    recording_open(&r);
    recording_run(&r, "flood", FLOOD, slow); /* more than the buffers hold before the first look */
    const struct aorta_trace_run_process *process = only_process(&r, AORTA_SPOOL_ENDED);
    const struct aorta_trace *trace = r.record.traces.items[0];
    assert_true(process->facts.head.lost > 0);
    /* Four pieces of work and four calls a step. */
    assert_int_equal(process->facts.head.lost + trace->work_count + trace->call_count, 8 * FLOOD);
    assert_int_equal(trace->warnings[AORTA_REASON_LOST].count, process->facts.head.lost);
    recording_close(&r);
}

static void a_directory_that_cannot_be_written_is_no_harm(void **state) {
    (void)state;
    struct recording r;
    const struct aorta_trace_run_variable nowhere[] = {{AORTA_INJECT_DIRECTORY, "/nowhere/at/all"}, {0}};
    recording_open(&r);
    recording_run(&r, "normal", 4, nowhere);
    assert_int_equal(r.result.exit_code, 4);
    assert_int_equal(r.record.process_count, 0);
    recording_close(&r);
}

static void a_delay_and_a_duration_are_respected(void **state) {
    (void)state;
    struct recording r;
    const struct aorta_trace_run_variable late[] = {{AORTA_INJECT_DELAY, "60000"}, {0}};
    const struct aorta_trace_run_variable brief[] = {{AORTA_INJECT_DURATION, "600"}, {0}};
    recording_open(&r);
    recording_run(&r, "normal", 0, late);
    assert_int_equal(r.record.traces.count, 0);
    only_process(&r, AORTA_SPOOL_ENDED);
    recording_close(&r);
    recording_open(&r);
    recording_run(&r, "die-later", SIGKILL, brief);
    only_process(&r, AORTA_SPOOL_STOPPED);
    check_steps(r.record.traces.items[0], STEPS);
    recording_close(&r);
}

/* ---- what is touched when ---- */

static void stages_go_as_far_as_they_say(void **state) {
    (void)state;
    static const struct {
        const char *stage;
        int uses;
        bool opened;
    } rows[] = {{"loaded", 0, false},
                {"opened", 0, true},
                {"subscribed", FAKE_CUPTI_SUBSCRIBED, true},
                {"registered", FAKE_CUPTI_SUBSCRIBED | FAKE_CUPTI_REGISTERED, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct recording r;
        const struct aorta_trace_run_variable stage[] = {{AORTA_INJECT_STAGE, rows[i].stage}, {0}};
        recording_open(&r);
        recording_run(&r, "used", 150, stage);
        assert_int_equal(r.result.exit_code, rows[i].uses);
        assert_int_equal(r.record.traces.count, 0);
        const struct aorta_trace_run_process *process = only_process(&r, AORTA_SPOOL_ENDED);
        assert_int_equal(process->facts.process.cupti, rows[i].opened ? 130001 : 0);
        assert_int_equal(process->facts.head.begun_ns, 0);
        expect_words(&r, "AORTA_TRACE_STAGE=");
        expect_words(&r, rows[i].stage);
        recording_close(&r);
    }
    struct recording r;
    const struct aorta_trace_run_variable last[] = {{AORTA_INJECT_STAGE, "recording"}, {0}};
    recording_open(&r);
    recording_run(&r, "normal", 0, last);
    check_steps(r.record.traces.items[0], STEPS);
    recording_close(&r);
}

static void cupti_is_not_touched_before_its_time(void **state) {
    (void)state;
    struct recording r;
    const struct aorta_trace_run_variable late[] = {{AORTA_INJECT_DELAY, "60000"}, {0}};
    recording_open(&r);
    recording_run(&r, "used", 200, late);
    assert_int_equal(r.result.exit_code, 0);
    recording_close(&r);
}

/* Steps before, in and after the time to record: those in it are recorded, the one at its edge may be. */
static void expect_a_part(const struct aorta_trace_run_variable *window) {
    enum { MOST = 80 };
    struct recording r;
    recording_open(&r);
    recording_run(&r, "surrounded", MOST, window);
    only_process(&r, AORTA_SPOOL_STOPPED);
    assert_int_equal(r.record.traces.count, 1);
    struct recorded sums = recorded_of(r.record.traces.items[0]);
    assert_true(r.result.exit_code < MOST);
    assert_in_range(sums.kernels, 1, r.result.exit_code);
    assert_in_range(sums.kernels, r.result.exit_code - 2, r.result.exit_code);
    recording_close(&r);
}

/* Were it counted from CUDA's start, it would be over before the delay. */
static void a_duration_begins_with_the_recording(void **state) {
    (void)state;
    expect_a_part(
        (const struct aorta_trace_run_variable[]){{AORTA_INJECT_DELAY, "600"}, {AORTA_INJECT_DURATION, "500"}, {0}});
}

static void the_time_to_record_does_not_wait_for_a_look(void **state) {
    (void)state;
    expect_a_part((const struct aorta_trace_run_variable[]){
        {AORTA_INJECT_DELAY, "600"}, {AORTA_INJECT_DURATION, "400"}, {AORTA_INJECT_FLUSH, "60000"}, {0}});
}

static void a_late_recording_says_when_it_began(void **state) {
    (void)state;
    struct recording r;
    const struct aorta_trace_run_variable late[] = {{AORTA_INJECT_DELAY, "600"}, {0}};
    recording_open(&r);
    recording_run(&r, "surrounded", STEPS, late); /* the first steps are too early */
    only_process(&r, AORTA_SPOOL_ENDED);
    struct recorded sums = recorded_of(r.record.traces.items[0]);
    assert_int_equal(sums.kernels, STEPS);
    assert_int_equal(sums.calls, 4 * STEPS);
    int64_t delay_ns = r.record.processes[0].facts.head.begun_ns - r.record.processes[0].facts.process.start_ns;
    assert_true(delay_ns > 100000000 && delay_ns < 60000000000); /* its start is when the library came */
    expect_words(&r, "recording began ");
    recording_close(&r);
}

static void cupti_leaves_when_the_time_is_over(void **state) {
    (void)state;
    struct recording r;
    const struct aorta_trace_run_variable brief[] = {{AORTA_INJECT_DURATION, "600"}, {0}};
    recording_open(&r);
    recording_run(&r, "windowed", 0, brief);
    assert_int_equal(r.result.exit_code, 10); /* once, and nothing was called after it */
    only_process(&r, AORTA_SPOOL_STOPPED);
    check_steps(r.record.traces.items[0], STEPS);
    expect_words(&r, "as --duration says");
    recording_close(&r);
}

static void a_forked_child_does_not_let_cupti_go(void **state) {
    (void)state;
    struct recording r;
    const struct aorta_trace_run_variable brief[] = {{AORTA_INJECT_DURATION, "600"}, {0}};
    recording_open(&r);
    recording_run(&r, "forked-late", 0, brief);
    assert_int_equal(r.result.exit_code, 10);
    check_steps(r.record.traces.items[0], STEPS);
    recording_close(&r);
}

static void cupti_stays_where_it_cannot_leave_or_must_not(void **state) {
    (void)state;
    static const struct aorta_trace_run_variable reasons[] = {{"FAKE_CUPTI_REFUSE", "version:23"},
                                                              {"FAKE_CUPTI_REFUSE", "cuptiEnableDomain:1"},
                                                              {"FAKE_CUPTI_REFUSE", "cuptiSubscribe:1"},
                                                              {"FAKE_CUPTI_REFUSE", "cuptiFinalize:1"},
                                                              {AORTA_INJECT_DETACH, "0"}};
    static const char *const words[] = {"until CUDA 12.6", "refused callbacks of calls", "refused a subscription",
                                        "cuptiFinalize (1)", "as --duration says"};
    const int used = FAKE_CUPTI_REGISTERED | FAKE_CUPTI_ENABLED | FAKE_CUPTI_FLUSHED;
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        struct recording r;
        const struct aorta_trace_run_variable brief[] = {{AORTA_INJECT_DURATION, "600"}, reasons[i], {0}};
        recording_open(&r);
        recording_run(&r, "windowed", 0, brief);
        assert_int_equal(r.result.exit_code & ~FAKE_CUPTI_SUBSCRIBED, used);
        check_steps(r.record.traces.items[0], STEPS);
        expect_words(&r, words[i]);
        recording_close(&r);
    }
}

static void cupti_is_not_taken_from_another_profiler(void **state) {
    (void)state;
    struct recording r;
    const struct aorta_trace_run_variable brief[] = {{AORTA_INJECT_DURATION, "1500"}, {0}};
    recording_open(&r);
    recording_run(&r, "profiled-windowed", 1700, brief);
    assert_int_equal(r.result.exit_code, 0);
    check_steps(r.record.traces.items[0], STEPS);
    only_process(&r, AORTA_SPOOL_TAKEN);
    expect_words(&r, "another profiler has CUPTI");
    recording_close(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_is_recorded_whole),
        cmocka_unit_test(ranges_of_nvtx_are_steps),
        cmocka_unit_test(a_program_records_parts_of_itself),
        cmocka_unit_test(the_exit_code_is_the_programs),
        cmocka_unit_test(a_forked_child_leaves_the_file_alone),
        cmocka_unit_test(workers_made_by_fork_are_recorded),
        cmocka_unit_test(a_process_with_several_gpus_is_recorded_whole),
        cmocka_unit_test(a_process_that_replaces_itself_has_two_files),
        cmocka_unit_test(closed_descriptors_cost_nothing_and_harm_nothing),
        cmocka_unit_test(a_daemon_that_becomes_another_user_is_recorded),
        cmocka_unit_test(ranks_are_those_of_the_environment),
        cmocka_unit_test(two_processes_of_one_rank_stay_separate),
        cmocka_unit_test(signals_leave_what_was_there),
        cmocka_unit_test(an_end_without_handlers_leaves_what_was_there),
        cmocka_unit_test(a_process_that_is_left_behind_is_said_to_go_on),
        cmocka_unit_test(a_profiler_that_was_there_first_is_left_alone),
        cmocka_unit_test(a_profiler_that_comes_later_gets_cupti),
        cmocka_unit_test(a_refusal_of_cupti_is_reported_with_its_remedy),
        cmocka_unit_test(a_cupti_that_cannot_choose_calls_records_the_same),
        cmocka_unit_test(only_the_calls_asked_for_are_recorded),
        cmocka_unit_test(a_busy_program_is_seldom_made_to_wait_for_a_flush),
        cmocka_unit_test(threads_get_buffers_of_their_own),
        cmocka_unit_test(a_program_without_cuda_is_said_to_have_none),
        cmocka_unit_test(cuda_that_was_never_initialised_is_seen),
        cmocka_unit_test(cuda_without_work_is_reported),
        cmocka_unit_test(a_full_file_ends_the_recording_and_not_the_program),
        cmocka_unit_test(a_long_recording_keeps_its_limit_and_its_memory),
        cmocka_unit_test(a_full_disk_ends_the_recording_and_not_the_program),
        cmocka_unit_test(what_comes_too_fast_is_counted),
        cmocka_unit_test(a_directory_that_cannot_be_written_is_no_harm),
        cmocka_unit_test(a_delay_and_a_duration_are_respected),
        cmocka_unit_test(stages_go_as_far_as_they_say),
        cmocka_unit_test(cupti_is_not_touched_before_its_time),
        cmocka_unit_test(a_duration_begins_with_the_recording),
        cmocka_unit_test(the_time_to_record_does_not_wait_for_a_look),
        cmocka_unit_test(a_late_recording_says_when_it_began),
        cmocka_unit_test(cupti_leaves_when_the_time_is_over),
        cmocka_unit_test(a_forked_child_does_not_let_cupti_go),
        cmocka_unit_test(cupti_stays_where_it_cannot_leave_or_must_not),
        cmocka_unit_test(cupti_is_not_taken_from_another_profiler),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
