#include "base/clock.h"
#include "base/files.h"
#include "base/lines.h"
#include "base/signals.h"
#include "base/thread.h"
#include "cli/trace_run.h"
#include "report/summary.h"
#include "report/verdict_text.h"
#include "trace/infer.h"

#include <errno.h>
#include <malloc.h>
#include <math.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_NS = 200000000, NICE = 10 };

static void close_windows(struct aorta_trace_windows *windows) {
    if (windows->json_lines) fclose(windows->json_lines);
    aorta_tensorboard_close(&windows->board);
    aorta_arena_free(&windows->processes.arena);
    aorta_status_free(windows->unwritten);
}

aorta_status aorta_trace_windows_open(const struct aorta_trace_windows_options *options,
                                      struct aorta_trace_windows *windows) {
    aorta_status status = NULL;
    AORTA_TRY(aorta_file_prepare(options->json_lines, "--json-lines"));
    AORTA_TRY(aorta_file_prepare(options->prometheus, "--prometheus"));
    *windows = (struct aorta_trace_windows){
        .options = *options, .evaluated_ms = -1, .day_ms = aorta_clock_day() / 1000000 - aorta_clock_ns() / 1000000};
    if (options->json_lines) {
        windows->json_lines = fopen(options->json_lines, "ae");
        if (!windows->json_lines)
            status = AORTA_ERROR(AORTA_IO, "--json-lines %s: %s", options->json_lines, strerror(errno));
    }
    if (!status && options->tensorboard) status = aorta_tensorboard_open(options->tensorboard, &windows->board);
    if (status) close_windows(windows);
    return status;
}

/* ---- output ---- */

/* Reports a failed write; the program goes on. */
static void report(struct aorta_trace_windows *windows, aorta_status status) {
    if (status) fprintf(stderr, "%s: %s\n", windows->options.command, aorta_status_message(status));
    windows->unwritten = aorta_status_join(windows->unwritten, status);
}

static void write_files(struct aorta_trace_windows *windows, const struct aorta_live_window *window,
                        const struct aorta_live_said *said) {
    if (windows->board.file)
        report(windows, aorta_tensorboard_write(&windows->board, (double)(window->start_ms + window->length_ms) * 1e-3,
                                                said->number, said->scalars, said->scalar_count));
    const char *const path = windows->options.json_lines;
    if (windows->json_lines && (fputs(said->json.data, windows->json_lines) < 0 || fflush(windows->json_lines) != 0)) {
        report(windows, AORTA_ERROR(AORTA_IO, "--json-lines %s: %s", path, strerror(errno)));
        clearerr(windows->json_lines);
    }
    if (windows->options.prometheus)
        report(windows, aorta_file_replace(windows->options.prometheus, said->gauges.data, said->gauges.length));
}

/* Prints the whole verdict for the first window and after a change, else only its headline. Quiet: no more than
 * headlines, of the first window and of changes. */
static void print(const struct aorta_trace_windows *windows, const struct aorta_live_window *window,
                  const struct aorta_live_said *said) {
    struct aorta_text text = {0};
    const bool quiet = windows->options.quiet, is_news = said->first || said->change.length;
    const bool whole = window->verdict && is_news && !quiet;
    aorta_trace_run_put_lines(windows->options.command, &window->gone);
    if (quiet && window->verdict && !is_news) return;
    if (said->change.length) fprintf(stderr, "%s: %s\n", windows->options.command, said->change.data);
    if (!whole) fprintf(stderr, "%s: %s\n", windows->options.command, said->headline.data);
    if (!whole) return;
    struct aorta_verdict_style style = windows->options.style;
    style.all = "aorta trace analyze DIR";
    aorta_verdict_text(window->verdict, &style, &text);
    aorta_status_free(aorta_cli_print(&text, "-", style.color));
}

/* ---- one window ---- */

const char *const aorta_trace_windows_events[] = {"events.out.tfevents.*", NULL};
const struct aorta_range_limits aorta_trace_windows_mb = {.min = 1, .max = 1 << 20};

struct evaluated {
    struct aorta_trace_run_record record;
    struct aorta_recorded recorded; /* of its traces, which are the record's */
    struct aorta_text words, gone;
    const char *reason;
};

static bool has_steps(const struct aorta_trace_list *list) {
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i]->step_count) return true;
    return false;
}

static aorta_status evaluate(struct aorta_trace_windows *windows, const struct aorta_window *window,
                             struct evaluated *evaluated) {
    struct aorta_trace_analysis_options options = {0};
    struct aorta_trace_options reading = *windows->options.reading;
    const double part = (double)(windows->options.analyze_mb << 20) / (double)aorta_window_bytes(window);
    if (part < 1) reading.until_ns = window->start_ms * 1000000 + (int64_t)(part * 1e6 * (double)window->length_ms);
    AORTA_TRY(aorta_trace_run_read(window->path, &reading, &evaluated->record));
    AORTA_TRY(aorta_window_processes_take(&windows->processes, window->start_ms, &evaluated->record, &evaluated->gone));
    if (!evaluated->record.traces.count) {
        evaluated->reason = "no GPU activity was recorded in this window";
        return NULL;
    }
    if (!windows->described) aorta_trace_run_describe(&evaluated->record, &evaluated->words);
    windows->described = true;
    if (!windows->options.whole) {
        AORTA_TRY(aorta_trace_mark_steps(&evaluated->record.traces, windows->options.step_range));
        AORTA_TRY(aorta_trace_infer_steps(&evaluated->record.traces));
        options.all_steps = has_steps(&evaluated->record.traces);
    }
    if (options.all_steps) aorta_window_trim_steps(&evaluated->record.traces);
    AORTA_TRY(aorta_trace_analyze(&evaluated->record.traces, &options, &evaluated->recorded.analysis));
    return aorta_recorded_evaluate(&evaluated->recorded);
}

static void evaluated_free(struct evaluated *evaluated) {
    aorta_recorded_free(&evaluated->recorded);
    aorta_trace_run_record_free(&evaluated->record);
    aorta_text_free(&evaluated->words);
    aorta_text_free(&evaluated->gone);
}

static uint64_t count_lost(const struct aorta_trace_run_record *record) {
    uint64_t lost = 0;
    for (size_t i = 0; i < record->process_count; i++) lost += record->processes[i].facts.head.lost;
    return lost;
}

/* Evaluates and prints a window. A window that cannot be evaluated is reported, and the next one is tried. */
static aorta_status take(struct aorta_trace_windows *windows, const struct aorta_window *window) {
    struct evaluated evaluated = {0};
    struct aorta_live_said said = {0};
    const int64_t begin_ns = aorta_clock_ns();
    aorta_status failed = evaluate(windows, window, &evaluated);
    const struct aorta_live_window live = {
        .start_ms = window->start_ms,
        .length_ms = window->length_ms,
        .verdict = evaluated.recorded.has_verdict ? &evaluated.recorded.verdict : NULL,
        .reason = failed ? aorta_status_message(failed) : evaluated.reason,
        .lost = count_lost(&evaluated.record),
        .evaluated_s = (double)(aorta_clock_ns() - begin_ns) * 1e-9,
        .gone = evaluated.gone,
    };
    aorta_status status = aorta_live_take(&windows->live, &live, &said);
    if (!windows->options.quiet) aorta_trace_run_put_lines(windows->options.command, &evaluated.words);
    if (!status) print(windows, &live, &said);
    if (!status) write_files(windows, &live, &said);
    aorta_live_said_free(&said);
    evaluated_free(&evaluated);
    aorta_status_free(failed);
    malloc_trim(0); /* returns the window's memory to the system */
    return status;
}

/* ---- all of them ---- */

static bool is_over(const struct aorta_trace_windows *windows, const struct aorta_window *window) {
    const int64_t late_ms = windows->day_ms + aorta_clock_ns() / 1000000 - window->start_ms - window->length_ms;
    return late_ms >= windows->options.grace_ms || (late_ms >= 0 && aorta_window_is_ready(window));
}

/* Removes evaluated windows except the newest ones (`keep`). The last may still be written until the program ends. */
static void let_go(struct aorta_trace_windows *windows) {
    struct aorta_window_list list;
    aorta_status status = aorta_windows_list(windows->options.directory, -1, &list);
    size_t evaluated = 0;
    while (!status && evaluated < list.count && list.items[evaluated].start_ms <= windows->evaluated_ms) evaluated++;
    for (size_t i = 0; i + (size_t)windows->options.keep < evaluated; i++) aorta_window_remove(&list.items[i]);
    aorta_arena_free(&list.arena);
    report(windows, status);
}

/* Evaluates the windows that exist at the end, until a signal (`signals` may be NULL). Lists the folder once. */
static aorta_status look_at_last(struct aorta_trace_windows *windows, const struct aorta_signals *signals) {
    struct aorta_window_list list;
    size_t removed = 0;
    AORTA_TRY(aorta_windows_list(windows->options.directory, -1, &list));
    aorta_status status = NULL;
    for (size_t i = 0; !status && i < list.count && !(signals && aorta_signals_get(signals)); i++) {
        if (list.items[i].start_ms > windows->evaluated_ms) status = take(windows, &list.items[i]);
        for (; removed + (size_t)windows->options.keep <= i; removed++) aorta_window_remove(&list.items[removed]);
    }
    aorta_arena_free(&list.arena);
    return status;
}

static aorta_status look_windows(struct aorta_trace_windows *windows, bool *evaluated) {
    struct aorta_window_list list;
    *evaluated = false;
    AORTA_TRY(aorta_windows_list(windows->options.directory, windows->evaluated_ms, &list));
    size_t over = 0;
    while (over < list.count && is_over(windows, &list.items[over])) over++;
    aorta_status status = NULL;
    if (over) {
        const struct aorta_window *window = &list.items[over - 1];
        if (over > 1)
            fprintf(stderr, "%s: %s not evaluated: analyzing takes longer than a window\n", windows->options.command,
                    aorta_counted((long long)over - 1, "window").text);
        windows->evaluated_ms = window->start_ms;
        status = take(windows, window);
        let_go(windows);
        *evaluated = true;
    }
    aorta_arena_free(&list.arena);
    return status;
}

static aorta_status report_gone(struct aorta_trace_windows *windows) {
    struct aorta_text gone = {0};
    aorta_status status = aorta_window_processes_take(&windows->processes, 0, NULL, &gone);
    if (!status) aorta_trace_run_put_lines(windows->options.command, &gone);
    aorta_text_free(&gone);
    return status;
}

/* ---- on a thread ---- */

static void *run(void *user) {
    struct aorta_trace_windows *windows = user;
    const struct timespec pause = {.tv_nsec = LOOK_NS};
    setpriority(PRIO_PROCESS, 0, NICE); /* lowers this thread's priority, so that the program has precedence */
    while (!windows->status && !atomic_load(&windows->ending)) {
        bool evaluated;
        windows->status = look_windows(windows, &evaluated);
        if (!evaluated) nanosleep(&pause, NULL);
    }
    return NULL;
}

aorta_status aorta_trace_windows_start(struct aorta_trace_windows *windows) {
    int error = aorta_thread_start(&windows->thread, run, windows);
    if (error) return AORTA_ERROR(AORTA_INTERNAL, "no thread to evaluate windows: %s", strerror(error));
    windows->threaded = true;
    return NULL;
}

aorta_status aorta_trace_windows_join(struct aorta_trace_windows *windows, bool *any) {
    if (windows->threaded) {
        atomic_store(&windows->ending, true);
        pthread_join(windows->thread, NULL);
    }
    aorta_status status = windows->status;
    if (!status && windows->threaded) status = look_at_last(windows, NULL);
    if (!status && windows->threaded) status = report_gone(windows);
    *any = windows->described;
    close_windows(windows);
    return status;
}

/* aorta trace watch: windows that recorders of several nodes write into a shared folder, evaluated together. */

struct watch_arguments {
    struct aorta_trace_windows_options windows;
    struct aorta_string_list patterns;
    double grace_s, patience_s;
    bool once;
};

#define AT(field) offsetof(struct watch_arguments, field)
static const struct aorta_option rows[] = {
    AORTA_CLI_JSON_LINES_OPTION(AT(windows.json_lines)),
    AORTA_CLI_PROMETHEUS_OPTION(AT(windows.prometheus)),
    AORTA_CLI_TENSORBOARD_OPTION(AT(windows.tensorboard)),
    AORTA_CLI_ANALYZE_MB_OPTION(AT(windows.analyze_mb)),
    {"keep", AORTA_OPTION_INT, AT(windows.keep), "1", .limits = AORTA_LIMITS(0, 1e6), .argument = "N",
     .help = "number of newest windows that stay in the folder; older ones are removed after their "
             "evaluation"},
    {"grace", AORTA_OPTION_DOUBLE, AT(grace_s), "10", .limits = AORTA_LIMITS(0, 1e6), .argument = "SECONDS",
     .help = "how long a window waits for processes that have not closed theirs; then it is evaluated "
             "without them"},
    {"patience", AORTA_OPTION_DOUBLE, AT(patience_s), "120", .limits = AORTA_LIMITS(0, 1e6), .argument = "SECONDS",
     .help = "end when no window has arrived for this time after the first one"},
    {"once", AORTA_OPTION_BOOL, AT(once), "false", .help = "evaluate the existing windows, and end"},
    {"whole", AORTA_OPTION_BOOL, AT(windows.whole), "false", .help = "evaluate whole windows instead of their steps"},
    {"step-range", AORTA_OPTION_STRING, AT(windows.step_range), "null", .argument = "REGEX",
     .help = "a step begins with each range of the program whose name matches (POSIX extended; recorded with --nvtx)"},
    AORTA_CLI_PATTERNS_OPTION(AT(patterns)),
    AORTA_CLI_QUIET_OPTION(AT(windows.quiet)),
};

static const struct aorta_cli_syntax syntax = {
    .usage = "aorta trace watch DIR [--json-lines FILE] [--prometheus FILE] [OPTIONS]",
    .about = "Evaluates the windows that `aorta trace run --every SECONDS --into DIR` writes on one "
             "node or many: all ranks together, on one clock, while the program runs. Prints a line for "
             "each window, the verdict when it changes, and processes that stop writing.",
    AORTA_CLI_OPTIONS(rows),
    .operands = true,
    .reads_operands = true,
    .styled = true,
    .footer = "It ends when all processes have ended, when no window arrives (--patience), or with "
              "Ctrl-C.",
};

static aorta_status watch(struct aorta_trace_windows *windows, const struct watch_arguments *arguments,
                          const struct aorta_signals *signals) {
    static const struct timespec pause = {.tv_nsec = 200000000};
    const int64_t patience_ns = (int64_t)(arguments->patience_s * 1e9);
    int64_t came_ns = 0;                                        /* 0: none yet */
    if (arguments->once) return look_at_last(windows, signals); /* with --once it is unknown which processes continue */
    for (bool over = false; !over;) {
        bool evaluated;
        AORTA_TRY(look_windows(windows, &evaluated));
        if (evaluated) came_ns = aorta_clock_ns();
        if (!evaluated) nanosleep(&pause, NULL);
        if (aorta_signals_get(signals)) return NULL;
        over = came_ns && !evaluated && !aorta_window_processes_run(&windows->processes);
        over |= came_ns && aorta_clock_ns() - came_ns > patience_ns;
    }
    return report_gone(windows);
}

/* A failed write makes the watch a failure, at its end. */
static aorta_status written(struct aorta_trace_windows *windows) {
    aorta_status status = windows->unwritten;
    windows->unwritten = NULL;
    if (status || (fflush(stderr) == 0 && !ferror(stderr))) return status;
    return AORTA_ERROR(AORTA_IO, "the standard error cannot be written");
}

/* A watch starts before the program; with --once the windows are there. */
static aorta_status check_windows(const char *directory, bool once, bool quiet) {
    struct aorta_window_list list;
    aorta_status status = aorta_windows_list(directory, -1, &list);
    if (!status && !list.count && once)
        status = AORTA_ERROR(AORTA_IO, "%s holds no window; aorta trace run --every SECONDS --into %s writes them",
                             directory, directory);
    else if (!status && !list.count && !quiet)
        fprintf(stderr, "aorta trace watch: waiting for windows of aorta trace run --every SECONDS --into %s\n",
                directory);
    aorta_arena_free(&list.arena);
    return status;
}

static aorta_status watch_with(const struct watch_arguments *arguments, const char *directory,
                               const struct aorta_trace_options *reading) {
    struct aorta_trace_windows_options options = arguments->windows;
    options.command = "aorta trace watch";
    options.directory = directory;
    options.reading = reading;
    options.grace_ms = (int64_t)(arguments->grace_s * 1e3);
    struct aorta_trace_windows windows;
    struct aorta_signals *signals;
    if (arguments->once && access(directory, F_OK) != 0)
        return AORTA_ERROR(AORTA_USAGE, "%s: no such folder; name the one of aorta trace run --into", directory);
    AORTA_TRY(aorta_directory_make(directory));
    AORTA_TRY(check_windows(directory, arguments->once, options.quiet));
    AORTA_TRY(aorta_signals_begin(NULL, NULL, &signals));
    aorta_status status = aorta_trace_windows_open(&options, &windows);
    if (!status) {
        status = watch(&windows, arguments, signals);
        if (!status) status = written(&windows);
        close_windows(&windows);
    }
    aorta_signals_end(signals);
    return status;
}

static aorta_status watch_run(struct aorta_cli_line *line, void *values) {
    struct watch_arguments *arguments = values;
    arguments->windows.style = aorta_cli_style(line, stderr);
    if (line->operand_count != 1)
        return AORTA_ERROR(AORTA_USAGE, "name one folder of windows; usage: %s", syntax.usage);
    AORTA_TRY(aorta_trace_check_step_range(arguments->windows.step_range));
    AORTA_TRY(aorta_cli_comm_patterns(line, &arguments->patterns));
    const struct aorta_trace_options reading = {
        .recover = true, .patterns = line->patterns, .step_range = arguments->windows.step_range};
    return watch_with(arguments, line->operands[0], &reading);
}

const struct aorta_cli_entry aorta_cli_trace_watch = {&syntax, watch_run, .size = sizeof(struct watch_arguments)};
