/* `aorta trace run` as a user types it: its output, exit codes and files. */
#include "base/files.h"
#include "check.h"
#include "shell.h"

#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static json_t *parse(const char *text) {
    json_error_t error;
    json_t *object = json_loads(text, 0, &error);
    if (!object) fail_msg("no JSON: %s: %s", error.text, text);
    return object;
}

static double number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value)) fail_msg("%s is no number", key);
    return json_number_value(value);
}

static void check_figures(const char *text, size_t ranks) {
    json_t *analysis = parse(text);
    const json_t *list = json_object_get(analysis, "ranks");
    assert_int_equal(json_array_size(list), ranks);
    for (size_t i = 0; i < ranks; i++) {
        const json_t *rank = json_array_get(list, i);
        assert_int_equal(json_integer_value(json_object_get(rank, "rank")), i);
        assert_true(number(rank, "compute_ms") == 1.0 && number(rank, "comm_ms") == 1.0);
        assert_true(number(rank, "overlap_ms") == 0.5 && number(rank, "overlap_ratio") == 0.5);
        assert_true(number(rank, "memcpy_ms") == 0.3 && number(rank, "exposed_comm_ms") == 0.5);
    }
    assert_true(json_array_size(json_object_get(analysis, "verdict")) > 0);
    json_decref(analysis);
}

/* ---- what it prints ---- */

static void the_verdict_follows_the_program(void **state) {
    struct shell *shell = *state;
    shell_run(shell, "$A trace run -- $P normal 3");
    shell_expect(shell, 3, "trained 10 steps\n", "Verdict: ");
    shell_expect(shell, 3, "", "aorta trace run: rank 0: process ");
    shell_expect(shell, 3, "", "50.0%");
    shell_expect(shell, 3, "", "; 9.18 recorded; GPU computing ");
    shell_expect(shell, 3, "", "basis      whole recording of 1 rank");
    assert_string_equal(shell->output, "trained 10 steps\n"); /* nothing of ours */
}

static void quiet_prints_the_verdict_alone(void **state) {
    struct shell *shell = *state;
    shell_run(shell, "$A trace run -q -- $P normal 2>words; head -c 9 words; grep -c 'aorta trace run' words");
    shell_expect(shell, 1, "Verdict: 0\n", "");
}

static void color_and_names_are_asked_for(void **state) {
    struct shell *shell = *state;
    shell_run(shell, "$A trace run -q --color always -- $P normal 2>words; grep -c '^.\\[1mVerdict: ' words; "
                     "$A trace run --help");
    shell_expect(shell, 0, "1\nUsage: aorta trace run", "");
    shell_expect(shell, 0, "--full-names", "");
}

static void what_cannot_be_written_is_printed(void **state) {
    struct shell *shell = *state;
    shell_run(shell, "$A trace run -o rec -- sh -c \"$P normal && mkdir rec/analysis.json\"");
    shell_expect(shell, 0, "trained 10 steps\n", "cannot put ");
    shell_expect(shell, 0, "", "Verdict: ");
}

static void json_has_standard_output_to_itself(void **state) {
    struct shell *shell = *state;
    shell_run(shell, "$A trace run --json -- $P ranks 2");
    shell_expect(shell, 0, "{", "trained 10 steps");
    check_figures(shell->output, 2);
    shell_run(shell,
              "$A trace run --json -- $P devices 2"); /* one process; work of one GPU hides none of the other's */
    shell_expect(shell, 0, "{", "");
    check_figures(shell->output, 2);
}

/* The null members of `idle_causes_ms`, each with its reason. */
static void check_nulls(const char *text, const char *nulls) {
    static const char *const causes[] = {"host_sync", "host_launch", "launch_latency", "unknown"};
    json_t *analysis = parse(text);
    const json_t *rank = json_array_get(json_object_get(analysis, "ranks"), 0);
    const json_t *idle = json_object_get(rank, "idle_causes_ms"), *reasons = json_object_get(idle, "null_reasons");
    for (size_t i = 0; i < sizeof causes / sizeof *causes; i++) {
        bool null = strstr(nulls, causes[i]) != NULL;
        assert_int_equal(json_is_null(json_object_get(idle, causes[i])), null);
        assert_int_equal(json_is_string(json_object_get(reasons, causes[i])), null);
    }
    json_decref(analysis);
}

static void what_is_not_recorded_is_null_with_a_reason(void **state) {
    struct shell *shell = *state;
    shell_run(shell, "$A trace run --json --record kernels -- $P normal");
    shell_expect(shell, 0, "{", "the host's calls were not recorded, as --record says");
    check_figures(shell->output, 1);
    check_nulls(shell->output, "host_sync host_launch launch_latency");
    shell_run(shell, "$A trace run --json --record kernels,launches -- $P normal");
    shell_expect(shell, 0, "{", "calls that wait were not recorded, as --record says");
    check_nulls(shell->output, "host_sync");
    shell_run(shell, "$A trace run --json --record all -- $P normal");
    check_nulls(shell->output, "");
    shell_run(shell, "$A trace run --record kernels,launches -- $P normal");
    shell_expect(shell, 0, "", "with nothing queued or after host waits");
    shell_run(shell, "$A trace run --record launches -- $P normal");
    shell_expect(shell, 2, "", "kernels,launches");
    shell_expect(shell, 2, "", "--record");
}

/* The analysis contains the machine's load during the program; `disturbed`: the beginning of its sentence. */
static void check_machine(const char *text, const char *disturbed) {
    json_t *analysis = parse(text);
    const json_t *machine = json_object_get(analysis, "machine");
    assert_true(json_is_object(machine) && number(machine, "readings") >= 2);
    if (number(machine, "seconds") >= 1)
        assert_true(number(machine, "stolen_share") >= 0 && number(machine, "own_share") >= 0);
    else
        assert_true(json_is_string(json_object_get(machine, "shares_reason")));
    if (disturbed) {
        const char *said = json_string_value(json_object_get(machine, "disturbed"));
        if (!said || strncmp(said, disturbed, strlen(disturbed)) != 0) fail_msg("disturbed: %s", said);
    }
    json_decref(analysis);
}

/* The sentence comes before the verdict, at once and whenever the recording is read again. */
static void a_disturbed_machine_is_said_first(void **state) {
    struct shell *shell = *state;
    shell_run(shell, "$A trace run -o calm -- $P normal && rm calm/machine.jsonl calm/analysis.json && "
                     "printf '%s\\n%s\\n' "
                     "'{\"schema_version\": 1, \"host\": \"node7\", \"processors\": 4, \"at_ns\": 1000000000, "
                     "\"processor_s\": 10, \"idle_s\": 1, \"stolen_s\": 2, \"own_s\": 1}' "
                     "'{\"schema_version\": 1, \"at_ns\": 9000000000, \"processor_s\": 42, \"idle_s\": 18, "
                     "\"stolen_s\": 5.84, \"own_s\": 8}' >calm/machine.jsonl && "
                     "$A trace analyze --json calm >a.json && $A trace analyze calm");
    shell_expect(shell, 0, "disturbed: 12% of processor time stolen (node7, 8 s)", "");
    assert_non_null(strstr(strstr(shell->output, "Verdict: "), "\n  machine    disturbed: "));
    char *json = shell_read(shell, "a.json");
    check_machine(json, "disturbed: 12% of processor time stolen");
    free(json);
    shell_run(shell, "echo broken >>calm/machine.jsonl; $A trace analyze calm");
    shell_expect(shell, 1, "", "calm/machine.jsonl: line 3");
}

static void a_directory_keeps_everything(void **state) {
    struct shell *shell = *state;
    shell_run(shell, "$A trace run -o a/b -- $P ranks 2 && $A trace analyze --json a/b");
    shell_expect(shell, 0, "{", "Verdict: ");
    char *before = shell_read(shell, "a/b/analysis.json");
    check_figures(before, 2);
    check_figures(strchr(shell->output, '{'), 2);
    check_machine(before, NULL);
    free(before);
    shell_run(shell, "$A trace run -o a/b -- $P normal");
    shell_expect(shell, 2, "", "-o a/b: holds the recording of another run");
}

static void nothing_is_left_behind_without_one(void **state) {
    struct shell *shell = *state;
    shell_run(shell, "mkdir tmp; TMPDIR=$PWD/tmp $A trace run -- $P normal && ls -A tmp | wc -l");
    shell_expect(shell, 0, "0\n", "Verdict: ");
}

static void steps_are_those_of_nvtx(void **state) {
    struct shell *shell = *state;
    shell_run(shell, "$A trace run --step-range 'a(' -- $P normal");
    shell_expect(shell, 2, "", "--step-range: \"a(\" is not a regular expression");
    shell_run(shell, "$A trace run --nvtx -- $P normal");
    shell_expect(shell, 0, "", "basis      9 steps of 1 rank, without the first");
}

static void steps_that_nobody_marked_are_found(void **state) {
    struct shell *shell = *state;
    shell_run(
        shell,
        "$A trace run -o rec -- $P layers 20 2>run; $A trace analyze rec >analyze 2>&1; "
        "grep -v '^aorta trace' run | diff - analyze && $A trace analyze --json $PWD/rec | diff rec/analysis.json -");
    shell_expect(shell, 0, "", "");
    shell_run(shell, "$A trace run --json -- $P layers 20");
    json_t *analysis = parse(shell->output);
    const json_t *rank = json_array_get(json_object_get(analysis, "ranks"), 0);
    assert_true(number(rank, "compute_ms") == 16.0); /* start and end are of the recording, not of its steps */
    json_decref(analysis);
    shell_run(shell, "$A trace analyze --step all rec");
    shell_expect(shell, 0, "basis      19 steps of 1 rank", "");
    shell_run(shell, "$A trace run --json --whole -- $P layers 20");
    analysis = parse(shell->output);
    rank = json_array_get(json_object_get(analysis, "ranks"), 0);
    assert_true(number(rank, "compute_ms") == 16.0);
    json_decref(analysis);
}

static void merged_it_is_a_trace_for_viewers(void **state) {
    struct shell *shell = *state;
    shell_run(shell, "$A trace run -o rec -- $P ranks 2 && $A trace merge rec/*.spool -o all.json");
    shell_expect(shell, 0, "", "");
    char *text = shell_read(shell, "all.json");
    json_t *trace = parse(text);
    size_t kernels = 0, i;
    const json_t *event;
    json_array_foreach(json_object_get(trace, "traceEvents"), i, event) {
        const char *kind = json_string_value(json_object_get(event, "cat"));
        kernels += kind && strcmp(kind, "kernel") == 0;
    }
    assert_int_equal(kernels, 40);
    json_decref(trace);
    free(text);
}

static void a_directory_belongs_to_one_job(void **state) {
    struct shell *shell = *state;
    shell_run(shell, "$A trace run -o rec -- sh -c 'touch up; until [ -e go ]; do sleep 0.01; done' & "
                     "until [ -e up ]; do sleep 0.01; done; $A trace run -o rec -- $P normal; code=$?; touch go; wait; "
                     "ls -A rec; exit $code");
    shell_expect(shell, 2, "analysis.json\n", "-o: another job writes into rec: process ");
}

/* ---- ends ---- */

static void an_end_by_signal_is_reported_and_passed_on(void **state) {
    struct shell *shell = *state;
    shell_run(shell, "$A trace run -- $P die-of 9");
    shell_expect(shell, 137, "", "ended by a signal, exec or _exit: its last moments are missing");
    shell_expect(shell, 137, "", "Verdict: ");
}

static void signals_reach_the_program(void **state) {
    struct shell *shell = *state;
    static const int signals[] = {SIGTERM, SIGUSR1};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        char said[32];
        pid_t pid =
            shell_start(shell, "rm -f ready; exec $A trace run -o rec$$ -- sh -c 'exec $0 until-signal 5 >said' $P");
        for (int round = 0; round < 1000; round++) { /* until the program says it is ready */
            char *text = shell_has(shell, "said") ? shell_read(shell, "said") : strdup("");
            bool ready = strstr(text, "ready") != NULL;
            free(text);
            if (ready) break;
            nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        }
        kill(pid, signals[i]);
        shell_finish(shell, pid);
        shell_expect(shell, 5, "", "Verdict: ");
        char *text = shell_read(shell, "said");
        snprintf(said, sizeof said, "caught %d", signals[i]);
        assert_non_null(strstr(text, said));
        free(text);
        unlink(aorta_path_in(shell->directory, "said").text);
    }
}

/* ---- nothing recorded ---- */

static void no_gpu_at_all_is_said_and_the_exit_code_passed_on(void **state) {
    struct shell *shell = *state;
    shell_run(shell, "$A trace run -- $P without-cuda 4");
    shell_expect(shell, 4, "nothing to do",
                 "no GPU activity was recorded: no process of the program loaded CUDA's driver");
    shell_run(shell, "$A trace run --json -- $P without-cuda 4");
    json_t *object = parse(shell->output);
    assert_int_equal(json_array_size(json_object_get(object, "ranks")), 0);
    assert_int_equal(json_integer_value(json_object_get(object, "schema_version")), 2); /* as of an analysis */
    const char *reason = json_string_value(json_object_get(object, "reason"));
    assert_non_null(strstr(reason, "no GPU activity"));
    assert_null(strchr(reason, '\n'));
    assert_true(reason[strlen(reason) - 1] != ' ');
    json_decref(object);
}

static void a_program_that_loses_the_variables_is_seen(void **state) {
    struct shell *shell = *state;
    shell_run(shell, "$A trace run -- env -u AORTA_TRACE_SPOOL -u CUDA_INJECTION64_PATH $P uninitialised 4");
    shell_expect(shell, 4, "", "CUDA_INJECTION64_PATH had been taken out of its environment");
}

static void its_own_profiler_goes_before_ours(void **state) {
    struct shell *shell = *state;
    shell_run(shell, "$A trace run -- $P profiled-first 1");
    shell_expect(shell, 1, "own profile: 4320 bytes", "another profiler has CUPTI in this process");
}

/* ---- mistakes ---- */

static void mistakes_are_named(void **state) {
    struct shell *shell = *state;
    static const struct {
        const char *words, *errors;
    } mistakes[] = {
        {"$A trace run", "no program: write it after --"},
        {"$A trace run -- no-such-program", "no-such-program: no such program in PATH"},
        {"$A trace run --cupti no/where.so -- $P normal", "--cupti no/where.so: No such file"},
        {"CUDA_INJECTION64_PATH=/opt/other.so $A trace run -- $P normal", "another tool records this program already"},
        {"$A trace run --comm-pattern '(' -- $P normal", "--comm-pattern"},
        {"$A trace run -o /proc/x -- $P normal", "/proc/x"},
        {"$A trace run --limit-mb 0 -- $P normal", "limit-mb"},
        {"$A trace run --tool cuda --format csv -- $P normal", "--format is for ROCm"},
        {"$A trace run --tool metal -- $P normal", "tool"},
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        shell_run(shell, mistakes[i].words);
        shell_expect(shell, 2, "", mistakes[i].errors);
    }
}

static void a_dry_run_prints_the_command(void **state) {
    struct shell *shell = *state;
    shell_run(shell, "$A trace run --tool cuda --dry-run --nvtx -- $P 'a b' \"it's\"");
    shell_expect(shell, 0, "CUDA_INJECTION64_PATH=", "");
    shell_expect(shell, 0, "NVTX_INJECTION64_PATH=", "");
    shell_expect(shell, 0, "'a b' 'it'\\''s'\n", "");
}

/* The printed command can be run, and printing it runs nothing. */
static void a_dry_run_can_be_run_as_shown(void **state) {
    struct shell *shell = *state;
    shell_run(shell,
              "mkdir tmp; TMPDIR=$PWD/tmp $A trace run --tool cuda --dry-run -- $P normal >/dev/null; ls -A tmp");
    shell_expect(shell, 0, "", "");
    assert_string_equal(shell->output, "");
    shell_run(shell, "$A trace run --tool cuda --dry-run -o 'D 2' -- $P normal >shown");
    shell_expect(shell, 0, "", "");
    assert_false(shell_has(shell, "D 2"));
    shell_run(shell, "sh ./shown && ls 'D 2'");
    shell_expect(shell, 0, ".spool\n", "");
    shell_run(shell, "$A trace run --tool cuda --dry-run -o 'D 2' -- $P normal");
    shell_expect(shell, 2, "", "-o D 2: holds the recording of another run");
}

static void a_time_to_record_is_never_rounded_to_nothing(void **state) {
    struct shell *shell = *state;
    shell_run(shell, "$A trace run --tool cuda --dry-run --delay 0.29 --duration 0.0004 -- true");
    shell_expect(shell, 0, "AORTA_TRACE_DELAY_MS=290 AORTA_TRACE_DURATION_MS=1 ", "");
    shell_run(shell, "$A trace run --tool cuda --dry-run --delay 0 --duration 0 -- true");
    assert_null(strstr(shell->output, "AORTA_TRACE_D"));
}

static void patterns_make_kernels_communication(void **state) {
    struct shell *shell = *state;
    shell_run(shell, "$A trace run --json --comm-pattern '^gemm' -- $P normal");
    json_t *analysis = parse(shell->output);
    const json_t *rank = json_array_get(json_object_get(analysis, "ranks"), 0);
    assert_true(number(rank, "compute_ms") == 0.0 && number(rank, "comm_ms") == 1.5);
    json_decref(analysis);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SHELL_TEST(the_verdict_follows_the_program),
        SHELL_TEST(color_and_names_are_asked_for),
        SHELL_TEST(what_cannot_be_written_is_printed),
        SHELL_TEST(json_has_standard_output_to_itself),
        SHELL_TEST(what_is_not_recorded_is_null_with_a_reason),
        SHELL_TEST(quiet_prints_the_verdict_alone),
        SHELL_TEST(a_directory_keeps_everything),
        SHELL_TEST(a_disturbed_machine_is_said_first),
        SHELL_TEST(nothing_is_left_behind_without_one),
        SHELL_TEST(steps_are_those_of_nvtx),
        SHELL_TEST(steps_that_nobody_marked_are_found),
        SHELL_TEST(merged_it_is_a_trace_for_viewers),
        SHELL_TEST(a_directory_belongs_to_one_job),
        SHELL_TEST(an_end_by_signal_is_reported_and_passed_on),
        SHELL_TEST(signals_reach_the_program),
        SHELL_TEST(no_gpu_at_all_is_said_and_the_exit_code_passed_on),
        SHELL_TEST(a_program_that_loses_the_variables_is_seen),
        SHELL_TEST(its_own_profiler_goes_before_ours),
        SHELL_TEST(mistakes_are_named),
        SHELL_TEST(a_dry_run_prints_the_command),
        SHELL_TEST(a_dry_run_can_be_run_as_shown),
        SHELL_TEST(a_time_to_record_is_never_rounded_to_nothing),
        SHELL_TEST(patterns_make_kernels_communication),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
