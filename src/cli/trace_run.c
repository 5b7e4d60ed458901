/* aorta trace run: an unmodified program, recorded and analyzed. */
#include "cli/trace_run.h"
#include "base/lines.h"
#include "base/printable.h"
#include "device/inventory.h"
#include "record/inject/settings.h"
#include "report/trace_report.h"
#include "trace/infer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT_OF_(x) #x
#define TEXT_OF(x) TEXT_OF_(x)
#define AT(field) offsetof(struct aorta_trace_run_arguments, field)
static const struct aorta_choice tools[] = {
    {"auto", AORTA_TRACE_RUN_AUTO}, {"cuda", AORTA_TRACE_RUN_CUDA}, {"rocm", AORTA_TRACE_RUN_ROCM}, {NULL, 0}};
const struct aorta_choice aorta_trace_run_formats[] = {
    {"auto", AORTA_TRACE_RUN_FORMAT_AUTO}, {"rocpd", 1}, {"json", 2}, {"csv", 3}, {NULL, 0}};
static const struct aorta_choice levels[] = {{"kernels", AORTA_INJECT_KERNELS},
                                             {"kernels,launches", AORTA_INJECT_LAUNCHES},
                                             {"all", AORTA_INJECT_ALL},
                                             {NULL, 0}};
static const char *const files[] = {"analysis.json", "environment.json", "machine.jsonl", "*.spool", NULL};
static const char *const window_files[] = {"window-*/*.spool", NULL};
static const struct aorta_option rows[] = {
    AORTA_CLI_CSV_OPTION(AT(csv)),
    {"output", AORTA_OPTION_STRING, AT(output), "null", .letter = 'o', .argument = "DIR", .path = AORTA_PATH_FOLDER,
     .files = files,
     .help = "directory for the recording and analysis.json; created if needed. Default: the recording is deleted. "
             "aorta trace analyze DIR reads it again"},
    {"json", AORTA_OPTION_BOOL, AT(json), "false",
     .help = "print the analysis as JSON on standard output; the program's own output goes to standard error"},
    AORTA_CLI_QUIET_OPTION(AT(windows.quiet)),
    AORTA_CLI_ALL_OPTION(AT(all)),
    {"whole", AORTA_OPTION_BOOL, AT(windows.whole), "false",
     .help = "analyze the whole recording, start and end included, instead of its steps"},
    {"step-range", AORTA_OPTION_STRING, AT(windows.step_range), "null", .argument = "REGEX",
     .help = "a step begins with each range of the program whose name matches (POSIX extended; CUDA: with --nvtx)"},
    AORTA_CLI_PATTERNS_OPTION(AT(comm_patterns)),
    {"record", AORTA_OPTION_CHOICE, AT(record), "all", .choices = levels, .argument = "kernels|kernels,launches|all",
     .help = "kernels: GPU work only, so causes on the host stay unknown; kernels,launches: also "
             "launches; all: also calls that wait or free memory (CUDA only)"},
    {"delay", AORTA_OPTION_DOUBLE, AT(delay_s), "0", .limits = AORTA_LIMITS(0, 1e6), .argument = "SECONDS",
     .help =
         "begin to record this long after CUDA's start (CUDA only; kernels of graphs made before are not recorded)"},
    {"duration", AORTA_OPTION_DOUBLE, AT(duration_s), "0", .limits = AORTA_LIMITS(0, 1e6), .argument = "SECONDS",
     .help = "record this long, then remove the recorder from the program; 0: to the end (CUDA only)"},
    {"every", AORTA_OPTION_DOUBLE, AT(every_s), "0", .limits = AORTA_LIMITS(0, 1e6), .argument = "SECONDS",
     .help = "evaluate windows of this length while the program runs: one line per window, the verdict "
             "when it changes; each process has at most two files (CUDA only). 0: one recording, "
             "evaluated at the end"},
    {"into", AORTA_OPTION_STRING, AT(into), "null", .argument = "DIR", .path = AORTA_PATH_FOLDER, .files = window_files,
     .help = "with --every: write the windows to this folder for `aorta trace watch DIR`; several nodes "
             "may share it"},
    AORTA_CLI_JSON_LINES_OPTION(AT(windows.json_lines)),
    AORTA_CLI_PROMETHEUS_OPTION(AT(windows.prometheus)),
    AORTA_CLI_TENSORBOARD_OPTION(AT(windows.tensorboard)),
    AORTA_CLI_ANALYZE_MB_OPTION(AT(windows.analyze_mb)),
    {"limit-mb", AORTA_OPTION_INT, AT(limit_mb), TEXT_OF(AORTA_TRACE_RUN_LIMIT_MB), .limits = AORTA_LIMITS(1, 1 << 24),
     .argument = "MB", .help = "stop recording a process when its file has this size (CUDA only)"},
    {"nvtx", AORTA_OPTION_BOOL, AT(nvtx), "false",
     .help = "also record NVTX ranges (CUDA only); a range ProfilerStep#N is a step"},
    {"cupti", AORTA_OPTION_STRING, AT(cupti), "null", .argument = "FILE", .path = AORTA_PATH_READ,
     .help = "libcupti to use if the program has loaded none; default: the one that suits its driver"},
    {"tool", AORTA_OPTION_CHOICE, AT(tool), "auto", .choices = tools, .argument = "auto|cuda|rocm",
     .help = "cuda: AORTA's library in the program; rocm: rocprofv3; auto: what the GPUs of this machine need"},
    {"format", AORTA_OPTION_CHOICE, AT(format), "auto", .choices = aorta_trace_run_formats,
     .argument = "auto|rocpd|json|csv",
     .help = "format that rocprofv3 writes; auto: rocpd if it can, else json (ROCm only)"},
    {"dry-run", AORTA_OPTION_BOOL, AT(dry_run), "false", .help = "print the command and run nothing"},
};
#undef TEXT_OF
#undef TEXT_OF_

static const struct aorta_cli_syntax syntax = {
    .usage = "aorta trace run [-o DIR] [--json] [--csv DIR] [OPTIONS] -- COMMAND [ARGUMENT …]",
    .about = "Runs an unmodified program, a PyTorch job for example, with all its children and ranks, "
             "records every kernel and copy on its GPUs, and says at its end what limits it. Messages "
             "about the recording go to standard error.",
    AORTA_CLI_OPTIONS(rows),
    .operands = true,
    .command = true,
    .styled = true,
    .footer = "Steps are analyzed: those that the program marks with NVTX (--nvtx), else those found by "
              "the repetition of its kernels. If nothing repeats, the whole recording is analyzed.\nExit "
              "code: the program's own (128 + signal when a signal ended it).",
};

/* ---- which tool ---- */

static bool is_there(const char *path) {
    return access(path, F_OK) == 0;
}

enum aorta_trace_run_tool aorta_trace_run_choose(int wish) {
    if (wish != AORTA_TRACE_RUN_AUTO) return (enum aorta_trace_run_tool)wish;
    bool nvidia = is_there("/dev/nvidiactl") || is_there("/proc/driver/nvidia") || is_there("/dev/dxg");
    return is_there("/dev/kfd") && !nvidia ? AORTA_TRACE_RUN_ROCM : AORTA_TRACE_RUN_CUDA;
}

void aorta_trace_run_quote(struct aorta_text *out, char *const *words) {
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%_-+=:,./";
    for (; *words; words++) {
        if (**words && strspn(*words, safe) == strlen(*words))
            aorta_text_puts(out, *words);
        else
            aorta_text_shell_word(out, *words);
        if (words[1]) aorta_text_puts(out, " ");
    }
}

/* ---- the end ---- */

/* The shape of an analysis, for readers by machine. */
static void empty_json(const char *reason, struct aorta_text *json) {
    struct aorta_json writer;
    aorta_json_output(&writer, json, 2, 2);
    aorta_json_key_array(&writer, "ranks");
    aorta_json_array_end(&writer);
    aorta_json_key_array(&writer, "verdict");
    aorta_json_array_end(&writer);
    aorta_json_key_string(&writer, "reason", reason);
    aorta_json_output_end(&writer);
}

static aorta_status analyze(const struct aorta_trace_run_outcome *outcome,
                            const struct aorta_trace_run_arguments *arguments, struct aorta_text *text,
                            struct aorta_text *json) {
    struct aorta_recorded recorded = {0};
    const struct aorta_trace_analysis_options options = {.whole = arguments->windows.whole};
    if (!outcome->traces.count) {
        struct aorta_text reason = {0};
        aorta_trace_run_join(&outcome->words, " ", &reason);
        empty_json(reason.data ? reason.data : "", json);
        aorta_status status = aorta_text_check(&reason);
        aorta_text_free(&reason);
        return status ? status : aorta_text_check(json);
    }
    aorta_status status = aorta_trace_analyze(&outcome->traces, &options, &recorded.analysis), unread = NULL;
    if (!status) unread = aorta_recorded_machine_read(outcome->machine, &recorded.analysis, &recorded.machine);
    if (!status) status = aorta_recorded_evaluate(&recorded);
    if (!status) {
        const struct aorta_trace_report report = {
            .analysis = &recorded.analysis, .verdict = &recorded.verdict, .machine = &recorded.machine};
        struct aorta_verdict_style style = arguments->windows.style;
        style.answer = arguments->windows.quiet;
        style.view.all = arguments->all;
        if (arguments->windows.quiet)
            aorta_trace_report_verdict(&report, &style, text);
        else
            aorta_trace_report_text(&report, &style, text);
        aorta_trace_report_json(&report, 2, json);
        if (!unread && arguments->csv) status = aorta_trace_report_csv(&report, arguments->csv);
    }
    aorta_recorded_free(&recorded);
    AORTA_TRY(aorta_status_join(unread, status));
    AORTA_TRY(aorta_text_check(text));
    return aorta_text_check(json);
}

void aorta_trace_run_join(const struct aorta_text *lines, const char *between, struct aorta_text *out) {
    for (const char *line = NULL; (line = aorta_text_next(lines, line));) {
        if (line != lines->data) aorta_text_puts(out, between);
        aorta_text_puts(out, line);
    }
}

void aorta_trace_run_put_lines(const char *command, const struct aorta_text *lines) {
    for (const char *line = NULL; (line = aorta_text_next(lines, line));) fprintf(stderr, "%s: %s\n", command, line);
}

static aorta_status show(const struct aorta_trace_run_arguments *arguments, struct aorta_trace_run_outcome *outcome) {
    struct aorta_text text = {0}, json = {0};
    if (!(arguments->windows.quiet && outcome->traces.count))
        aorta_trace_run_put_lines("aorta trace run", &outcome->words);
    aorta_status status = analyze(outcome, arguments, &text, &json);
    if (!status && arguments->output)
        status = aorta_file_put(aorta_path_in(arguments->output, "analysis.json").text, &json);
    if (!status && arguments->output) status = aorta_environment_of_host_save(arguments->output);
    /* Printed even if a file could not be written. */
    if (arguments->json && json.data) status = aorta_status_join(status, aorta_cli_print(&json, NULL, false));
    if (!arguments->json && text.data)
        status = aorta_status_join(status, aorta_cli_print(&text, "-", arguments->windows.style.color));
    aorta_text_free(&text);
    aorta_text_free(&json);
    return status;
}

void aorta_trace_run_outcome_free(struct aorta_trace_run_outcome *outcome) {
    aorta_trace_list_free(&outcome->traces);
    aorta_text_free(&outcome->words);
}

/* ---- the command ---- */

static aorta_status check_command(char *const *command) {
    if (!command[0])
        return AORTA_ERROR(AORTA_USAGE, "no program: write it after --, as in `aorta trace run -- python train.py`");
    return aorta_cli_check_program(command[0]);
}

/* Returns the program's exit code. Once the program has run, failures of the analysis are only printed. */
static int run_in(const struct aorta_trace_run_arguments *arguments, const char *directory,
                  const struct aorta_trace_options *options, aorta_status *status) {
    struct aorta_trace_run_outcome outcome = {0};
    bool ran = false;
    snprintf(outcome.machine, sizeof outcome.machine, "%s/" AORTA_MACHINE_FILE, directory);
    bool rocm = aorta_trace_run_choose(arguments->tool) == AORTA_TRACE_RUN_ROCM;
    const bool windows = arguments->every_s > 0;
    *status = (rocm      ? aorta_trace_run_rocm
               : windows ? aorta_trace_run_cuda_windows
                         : aorta_trace_run_cuda)(arguments, directory, options, &outcome, &ran);
    if (ran && !*status && !windows) *status = show(arguments, &outcome);
    if (ran && windows) aorta_trace_run_put_lines("aorta trace run", &outcome.words);
    if (ran && *status) {
        fprintf(stderr, "aorta trace run: %s\n", aorta_status_message(*status));
        aorta_status_free(*status);
        *status = NULL;
    }
    aorta_trace_run_outcome_free(&outcome);
    return outcome.result.exit_code;
}

/* Checks options that are only for windows, and options that windows do not support. */
static aorta_status check_windows(const struct aorta_trace_run_arguments *arguments) {
    const char *const only = arguments->into                  ? "--into"
                             : arguments->windows.json_lines  ? "--json-lines"
                             : arguments->windows.prometheus  ? "--prometheus"
                             : arguments->windows.tensorboard ? "--tensorboard"
                                                              : NULL;
    if (!(arguments->every_s > 0))
        return only ? AORTA_ERROR(AORTA_USAGE, "%s is for windows: give --every SECONDS too", only) : NULL;
    if (arguments->every_s < 1)
        return AORTA_ERROR(AORTA_USAGE, "--every %g: a window lasts at least 1 second", arguments->every_s);
    if (aorta_trace_run_choose(arguments->tool) == AORTA_TRACE_RUN_ROCM)
        return AORTA_ERROR(AORTA_USAGE, "--every is for CUDA: rocprofv3 writes its records when the program ends");
    if (arguments->json || arguments->csv)
        return AORTA_ERROR(AORTA_USAGE,
                           "--every has no analysis of the whole for %s: --json-lines FILE has a line for "
                           "each window",
                           arguments->json ? "--json" : "--csv");
    if (!arguments->into) return NULL;
    if (arguments->windows.json_lines || arguments->windows.prometheus || arguments->windows.tensorboard ||
        arguments->output)
        return AORTA_ERROR(AORTA_USAGE, "--into leaves analyzing to `aorta trace watch DIR`, which has %s",
                           arguments->output               ? "--keep in place of -o"
                           : arguments->windows.json_lines ? "--json-lines"
                           : arguments->windows.prometheus ? "--prometheus"
                                                           : "--tensorboard");
    return aorta_directory_make(arguments->into);
}

/* Opens the recording's directory. The folder of --into is shared by nodes, so it is not locked. */
static aorta_status open_directory(const struct aorta_trace_run_arguments *arguments,
                                   struct aorta_trace_run_directory *directory) {
    if (!arguments->into) return aorta_trace_run_directory_open(arguments->output, "-o", arguments->dry_run, directory);
    *directory = (struct aorta_trace_run_directory){0};
    if (realpath(arguments->into, directory->path)) return NULL;
    return AORTA_ERROR(AORTA_IO, "--into %s: %s", arguments->into, strerror(errno));
}

static aorta_status run(struct aorta_cli_line *line, void *values) {
    struct aorta_trace_run_arguments *arguments = values;
    struct aorta_trace_run_directory directory;
    arguments->command = line->operands; /* the list of operands ends with NULL */
    arguments->windows.style = aorta_cli_style(line, stderr);
    AORTA_TRY(check_command(arguments->command));
    AORTA_TRY(aorta_trace_check_step_range(arguments->windows.step_range));
    AORTA_TRY(aorta_cli_csv_prepare(arguments->csv));
    AORTA_TRY(check_windows(arguments));
    AORTA_TRY(aorta_cli_comm_patterns(line, &arguments->comm_patterns));
    AORTA_TRY(open_directory(arguments, &directory));
    const struct aorta_trace_options options = {
        .recover = true, .patterns = line->patterns, .step_range = arguments->windows.step_range};
    aorta_status status;
    int exit_code = run_in(arguments, directory.path, &options, &status);
    aorta_trace_run_directory_close(&directory);
    if (!status && exit_code) exit(exit_code); /* the program's own, which no status could carry */
    return status;
}

const struct aorta_cli_entry aorta_cli_trace_run = {&syntax, run, .size = sizeof(struct aorta_trace_run_arguments)};

/* ---- the directory of a recording: the user's, or one that is removed at the end ---- */

static aorta_status make_temporary(const char *option, bool dry_run, char path[PATH_MAX]) {
    char made[PATH_MAX];
    const char *parent = getenv("TMPDIR");
    snprintf(path, PATH_MAX, "%s/aorta-trace-XXXXXX", parent && *parent ? parent : "/tmp");
    snprintf(made, sizeof made, "%s", path);
    if (dry_run || (mkdtemp(made) && realpath(made, path))) return NULL;
    return AORTA_ERROR(AORTA_IO, "%s: %s (TMPDIR names the place, or %s another)", aorta_shown(path).text,
                       strerror(errno), option);
}

/* Absolute, as the program may go elsewhere before it records. */
static aorta_status name_missing(const char *output, const char *option, char path[PATH_MAX]) {
    char here[PATH_MAX] = "";
    if (*output != '/' && !getcwd(here, sizeof here))
        return AORTA_ERROR(AORTA_IO, "%s %s: %s", option, output, strerror(errno));
    if (snprintf(path, PATH_MAX, "%s%s%s", here, *here ? "/" : "", output) < PATH_MAX) return NULL;
    return AORTA_ERROR(AORTA_USAGE, "%s %s: the path is too long", option, output);
}

static aorta_status use(const char *output, const char *option, bool dry_run, char path[PATH_MAX]) {
    if (realpath(output, path)) return aorta_trace_check_unused(output, option);
    if (dry_run) return name_missing(output, option, path);
    return AORTA_ERROR(AORTA_IO, "%s %s: %s", option, output, strerror(errno));
}

aorta_status aorta_trace_run_directory_open(const char *output, const char *option, bool dry_run,
                                            struct aorta_trace_run_directory *directory) {
    *directory = (struct aorta_trace_run_directory){.temporary = !output && !dry_run};
    if (!output) return make_temporary(option, dry_run, directory->path);
    AORTA_TRY(aorta_directory_check_writable(output, option));
    if (!dry_run) AORTA_TRY(aorta_directory_lock(output, option, &directory->lock));
    aorta_status status = use(output, option, dry_run, directory->path);
    if (status) aorta_directory_unlock(directory->lock);
    return status;
}

void aorta_trace_run_directory_close(struct aorta_trace_run_directory *directory) {
    aorta_directory_unlock(directory->lock);
    if (directory->temporary) aorta_directory_remove(directory->path);
}
