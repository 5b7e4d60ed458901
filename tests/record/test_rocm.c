/* `aorta trace run` on ROCm and scripts/rocprof_capture.sh, with a rocprofv3 that writes what a real one wrote. */
#include "check.h"
#include "shell.h"

#include <jansson.h>
#include <stdlib.h>

/* Puts a rocprofv3 into PATH. It notes its arguments, runs the command after --, and copies $RECORDED to where a real
 * one writes; with $NEWER it is one that knows rocpd. */
#define TOOL                                                                                                           \
    "mkdir bin; cat >bin/rocprofv3 <<'END'\n"                                                                          \
    "#!/bin/sh\n"                                                                                                      \
    "if [ \"$1\" = --help ]; then echo \"--output-format {csv,json,pftrace,otf2${NEWER:+,rocpd}}\"; exit; fi\n"        \
    "echo \"$*\" >>$ARGUMENTS\n"                                                                                       \
    "folder=.\n"                                                                                                       \
    "while [ \"$1\" != -- ]; do [ \"$1\" = -d ] && folder=$2; shift; done\n"                                           \
    "shift\n"                                                                                                          \
    "\"$@\"; status=$?\n"                                                                                              \
    "[ -n \"$RECORDED\" ] && mkdir -p $folder/host && cp $RECORDED $folder/host/1234_results.${RECORDED##*.}\n"        \
    "exit $status\n"                                                                                                   \
    "END\n"                                                                                                            \
    "chmod +x bin/rocprofv3; PATH=$PWD/bin:$PATH; export PATH; export ARGUMENTS=$PWD/arguments; "

static json_t *parse(const char *text) {
    json_error_t error;
    json_t *object = json_loads(text, 0, &error);
    if (!object) fail_msg("no JSON: %s: %s", error.text, text);
    return object;
}

static void expect_arguments(const struct shell *shell, const char *part) {
    char *text = shell_read(shell, "arguments");
    if (!strstr(text, part)) fail_msg("\"%s\" is not in: %s", part, text);
    free(text);
}

/* The output of `aorta trace analyze` for this file. */
static void expect_figures_of(const struct shell *shell, struct shell *other, const char *file) {
    char words[128];
    json_t *ours = parse(shell->output);
    snprintf(words, sizeof words, "$A trace analyze --json $D/%s", file);
    shell_run(other, words);
    json_t *theirs = parse(other->output);
    const json_t *a = json_array_get(json_object_get(ours, "ranks"), 0);
    const json_t *b = json_array_get(json_object_get(theirs, "ranks"), 0);
    static const char *const keys[] = {"compute_ms", "comm_ms", "overlap_ms", "span_ms", "busy_ms"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        assert_true(json_is_number(json_object_get(a, keys[i])));
        assert_true(json_equal(json_object_get(a, keys[i]), json_object_get(b, keys[i])));
    }
    json_decref(ours);
    json_decref(theirs);
}

static void an_older_tool_writes_json(void **state) {
    struct shell *shell = *state, *other;
    assert_int_equal(shell_open((void **)&other), 0);
    shell_run(shell, TOOL "RECORDED=$D/rocprof_results.json; export RECORDED\n"
                          "$A trace run --json --tool rocm -- sh -c 'echo working; exit 3'");
    shell_expect(shell, 3, "{", "working");
    shell_expect(shell, 3, "", "aorta trace run: read ");
    expect_arguments(shell, "--kernel-trace --memory-copy-trace --rccl-trace --hip-runtime-trace --marker-trace "
                            "--output-format json -d /");
    expect_arguments(shell, "-- sh -c echo working; exit 3");
    expect_figures_of(shell, other, "rocprof_results.json");
    void *of_other = other;
    shell_close(&of_other);
}

static void a_newer_tool_writes_rocpd(void **state) {
    struct shell *shell = *state, *other;
    assert_int_equal(shell_open((void **)&other), 0);
    shell_run(shell, TOOL "RECORDED=$D/rocprof_4.db NEWER=1; export RECORDED NEWER\n"
                          "$A trace run --json --tool rocm -o out -- true");
    shell_expect(shell, 0, "{", "");
    expect_arguments(shell, "--output-format rocpd -d ");
    assert_true(shell_has(shell, "out/host/1234_results.db"));
    assert_true(shell_has(shell, "out/analysis.json"));
    expect_figures_of(shell, other, "rocprof_4.db");
    void *of_other = other;
    shell_close(&of_other);
}

/* Both recordings would be read at the end, as two ranks. */
static void a_directory_is_used_once(void **state) {
    struct shell *shell = *state;
    shell_run(shell, TOOL "RECORDED=$D/rocprof_results.json; export RECORDED\n"
                          "$A trace run --tool rocm -o out -- true && $A trace run --tool rocm -o out -- touch ran");
    shell_expect(shell, 2, "", "-o out: holds the recording of another run (host/1234_results.json); remove it");
    assert_false(shell_has(shell, "ran"));
    shell_run(shell, TOOL "RECORDED=$D/rocprof_results.json; export RECORDED\n"
                          "mkdir other; echo '{\"a\": 1}' >other/notes.json\n"
                          "$A trace run --tool rocm -o other/ -- true");
    shell_expect(shell, 0, "", "Verdict: ");
    shell_run(shell, "$A trace run --tool rocm -o other/ -- true");
    shell_expect(shell, 2, "", "other/: holds the recording of another run (host/1234_results.json)");
}

static void the_format_can_be_chosen(void **state) {
    struct shell *shell = *state;
    shell_run(shell, TOOL "NEWER=1; export NEWER; $A trace run --dry-run --tool rocm --format csv -- train 'a b'");
    shell_expect(shell, 2, "", "train: no such program");
    shell_run(shell, TOOL "NEWER=1; export NEWER; $A trace run --dry-run --tool rocm --format csv -- true 'a b'");
    shell_expect(shell, 0, "/bin/rocprofv3 --kernel-trace", "");
    shell_expect(shell, 0, "--output-format csv -d ", "");
    shell_expect(shell, 0, " -- true 'a b'\n", "");
    assert_false(shell_has(shell, "arguments"));
}

static void an_end_by_signal_is_passed_on(void **state) {
    struct shell *shell = *state;
    shell_run(shell, TOOL "RECORDED=$D/rocprof_results.json; export RECORDED\n"
                          "$A trace run --tool rocm -- sh -c 'kill -TERM $$'");
    shell_expect(shell, 143, "", "Verdict: ");
}

static void nothing_recorded_is_said(void **state) {
    struct shell *shell = *state;
    shell_run(shell, TOOL "$A trace run --tool rocm -- sh -c 'exit 5'");
    shell_expect(shell, 5, "", "no GPU activity was recorded: rocprofv3 wrote no trace");
}

static void a_missing_tool_and_unfit_options_are_errors(void **state) {
    struct shell *shell = *state;
    shell_run(shell, "PATH=/usr/bin:/bin $A trace run --tool rocm -- true");
    shell_expect(shell, 1, "", "rocprofv3 is neither in PATH nor in /opt/rocm/bin");
    shell_run(shell, TOOL "$A trace run --tool rocm --delay 1 -- true");
    shell_expect(shell, 2, "", "--delay is for CUDA");
    shell_run(shell, "$A trace run --tool rocm --record kernels -- $P normal");
    shell_expect(shell, 2, "", "--record is for CUDA");
    shell_run(shell, "$A trace run --tool rocm --limit-mb 1 -- $P normal");
    shell_expect(shell, 2, "", "--limit-mb is for CUDA");
}

static void the_script_records_training(void **state) {
    struct shell *shell = *state;
    shell_run(shell,
              TOOL "RECORDED=$D/rocprof_results.json; export RECORDED\n"
                   "cat >aorta <<'END'\n#!/bin/sh\necho \"aorta $*\"\n[ $1 = trace ] && exec $REAL \"$@\"\nexit 0\n"
                   "END\nchmod +x aorta; touch c.yaml\n"
                   "REAL=$A; export REAL; AORTA=$PWD/aorta ROCPROF_OUTPUT_DIR=out ROCPROF_ARGS='--kernel-trace' "
                   "\"$SCRIPTS/rocprof_capture.sh\" c.yaml 1");
    shell_expect(shell, 0, "aorta train --config c.yaml --enable-rocm-metrics\n", "");
    shell_expect(shell, 0, "aorta trace analyze out/run_", "");
    shell_expect(shell, 0, "Verdict: ", "");
    expect_arguments(shell, "--kernel-trace --output-format json -d out/run_");
    shell_run(shell,
              "PATH=$PWD/bin:$PATH; export PATH; ARGUMENTS=$PWD/arguments RECORDED=$D/rocprof_results.json REAL=$A; "
              "export ARGUMENTS RECORDED REAL; AORTA=$PWD/aorta ROCPROF_OUTPUT_DIR=out \"$SCRIPTS/rocprof_capture.sh\" "
              "c.yaml 1 --override training.max_steps=3 --enable-rocm-metrics; ls out | wc -l");
    shell_expect(shell, 0, "aorta train --config c.yaml --enable-rocm-metrics --override training.max_steps=3\n", "");
    shell_expect(shell, 0, "\n2\n", "");
    shell_run(shell,
              "PATH=$PWD/bin:$PATH; export PATH; ARGUMENTS=$PWD/arguments RECORDED=$D/rocprof_results.json REAL=$A; "
              "export ARGUMENTS RECORDED REAL; AORTA=$PWD/aorta ROCPROF_ARGS='-s -f csv' "
              "\"$SCRIPTS/rocprof_capture.sh\" --enable-rocm-metrics --override a=1");
    shell_expect(shell, 0, "config/default.yaml --enable-rocm-metrics --override a=1\n", "");
    expect_arguments(shell, "\n-s -f csv -d ");
    shell_run(shell, "ROCPROF_ARGS='--output-format otf2' AORTA=/bin/true \"$SCRIPTS/rocprof_capture.sh\" c.yaml 1");
    shell_expect(shell, 2, "", "asks for otf2, which aorta trace does not read");
    shell_run(shell, "\"$SCRIPTS/rocprof_capture.sh\" nowhere.yaml");
    shell_expect(shell, 2, "", "nowhere.yaml: no such configuration");
    shell_run(shell, "\"$SCRIPTS/rocprof_capture.sh\" c.yaml 0");
    shell_expect(shell, 2, "", "RANKS is \"0\"");
}

static void the_script_records_every_rank(void **state) {
    struct shell *shell = *state;
    shell_run(shell, TOOL "cat >aorta <<'END'\n#!/bin/sh\n[ $1 = launch ] || exit 0\necho \"aorta $*\"; shift 4\n"
                          "\"$@\" && \"$@\"\nEND\nchmod +x aorta; touch c.yaml\n"
                          "AORTA=$PWD/aorta \"$SCRIPTS/rocprof_capture.sh\" c.yaml 2");
    shell_expect(shell, 0, "aorta launch -n 2 -- ", "");
    expect_arguments(shell, "-d rocprof_traces/run_");
    expect_arguments(shell, "aorta train --config c.yaml --enable-rocm-metrics\n--kernel-trace");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SHELL_TEST(an_older_tool_writes_json),
        SHELL_TEST(a_newer_tool_writes_rocpd),
        SHELL_TEST(a_directory_is_used_once),
        SHELL_TEST(the_format_can_be_chosen),
        SHELL_TEST(an_end_by_signal_is_passed_on),
        SHELL_TEST(nothing_recorded_is_said),
        SHELL_TEST(a_missing_tool_and_unfit_options_are_errors),
        SHELL_TEST(the_script_records_training),
        SHELL_TEST(the_script_records_every_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
