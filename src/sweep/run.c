#include "sweep/run.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/printable.h"
#include "report/report.h"
#include "sweep/objective.h"
#include "sweep/process.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct session {
    const struct aorta_sweep_job *job;
    struct aorta_trials *trials;
    struct aorta_sweep_signals *signals;
    char directory[PATH_MAX]; /* absolute */
    int lines;                /* trials.jsonl */
    size_t resumed;
    int64_t start_ns;
};

/* ---- trials.jsonl ---- */

static aorta_status append(struct session *session, struct aorta_text *line) {
    aorta_status status = aorta_text_check(line);
    int error = status ? 0 : aorta_write_all(session->lines, line->data, line->length);
    if (!status && !error && fsync(session->lines)) error = errno;
    if (error) status = AORTA_ERROR(AORTA_IO, "%s/trials.jsonl: %s", session->directory, strerror(error));
    aorta_text_free(line);
    return status;
}

static aorta_status check_same(const struct session *session, const char *path) {
    struct aorta_arena arena = {0};
    struct aorta_sweep_plan plan = {0};
    struct aorta_text ours = {0}, theirs = {0}, target = {0};
    const char *former = "";
    int64_t valid = 0;
    aorta_sweep_target_text(session->job, &target);
    aorta_status status = aorta_text_check(&target);
    if (!status) status = aorta_sweep_read(path, &arena, &plan, &former, session->trials, &valid);
    if (!status) {
        aorta_sweep_header(&session->job->plan, target.data, &ours);
        aorta_sweep_header(&plan, former, &theirs);
        status = aorta_status_join(aorta_text_check(&ours), aorta_text_check(&theirs));
    }
    if (!status && strcmp(ours.data, theirs.data) != 0)
        status = AORTA_ERROR(AORTA_USAGE, "--resume: %s is of another sweep: %s", path, theirs.data);
    if (!status && ftruncate(session->lines, valid)) /* the line that a kill cut */
        status = AORTA_ERROR(AORTA_IO, "%s: %s", path, strerror(errno));
    aorta_text_free(&ours);
    aorta_text_free(&theirs);
    aorta_text_free(&target);
    aorta_arena_free(&arena);
    return status;
}

static aorta_status begin_lines(struct session *session) {
    struct aorta_text target = {0}, line = {0};
    aorta_sweep_target_text(session->job, &target);
    aorta_status status = aorta_text_check(&target);
    if (!status) aorta_sweep_header(&session->job->plan, target.data, &line);
    aorta_text_free(&target);
    return status ? status : append(session, &line);
}

static aorta_status open_lines(struct session *session) {
    char *path = aorta_path_join(session->directory, "trials.jsonl");
    if (!path) return AORTA_ERROR(AORTA_MEMORY, "no memory for a path");
    session->lines = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    const off_t length = session->lines < 0 ? -1 : lseek(session->lines, 0, SEEK_END);
    aorta_status status = NULL;
    if (length < 0) {
        status = AORTA_ERROR(AORTA_IO, "%s: %s", path, strerror(errno));
    } else if (length > 0 && !session->job->resume) {
        status = AORTA_ERROR(AORTA_USAGE, "%s has a sweep; --resume goes on with it", session->job->output);
    } else {
        status = length > 0 ? check_same(session, path) : begin_lines(session);
    }
    session->resumed = session->trials->count;
    free(path);
    return status;
}

/* ---- one trial ---- */

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *place) {
    (void)info, (void)kind, (void)place;
    return remove(path);
}

/* What the program said last. */
static void last_line(const char *log, char *out, size_t size) {
    char tail[2048];
    int file = open(log, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    const off_t length = lseek(file, 0, SEEK_END), most = sizeof tail - 1;
    const ssize_t got = pread(file, tail, sizeof tail - 1, length > most ? length - most : 0);
    close(file);
    size_t end = got > 0 ? (size_t)got : 0, begin;
    while (end && strchr("\r\n \t", tail[end - 1])) end--;
    for (begin = end; begin && tail[begin - 1] != '\n'; begin--) {
    }
    tail[end] = '\0';
    aorta_make_printable(tail + begin, end - begin, false);
    snprintf(out, size, "%.*s", (int)size - 1, tail + begin);
    /* A cut letter of several bytes is none. */
    aorta_make_printable(out, strlen(out), false);
}

/* Reads a file where it exists. */
static aorta_status read_figures(const char *directory, const char *name, enum aorta_sweep_source source,
                                 double *figures) {
    char *path = aorta_path_join(directory, name);
    if (!path) return AORTA_ERROR(AORTA_MEMORY, "no memory for a path");
    aorta_status status = access(path, F_OK) ? NULL : aorta_sweep_figures_read(path, source, figures);
    free(path);
    return status;
}

static aorta_status summarise_run(const char *directory) {
    const struct aorta_log log = {.level = AORTA_LOG_ERROR, .rank = -1};
    char *out = aorta_path_join(directory, "out");
    if (!out) return AORTA_ERROR(AORTA_MEMORY, "no memory for a path");
    const struct aorta_report_input input = {.directory = out, .label = "run"};
    const struct aorta_report_options options = {.inputs = &input, .input_count = 1, .output = out, .warmup = -1};
    aorta_status status = aorta_report_make(&options, &log, NULL, NULL);
    free(out);
    return status;
}

static aorta_status measure(const struct aorta_sweep_job *job, const char *directory, double *figures) {
    if (job->target == AORTA_SWEEP_TRAIN) {
        AORTA_TRY(summarise_run(directory));
        return read_figures(directory, "out/summary.json", AORTA_SWEEP_FROM_SUMMARY, figures);
    }
    if (job->target == AORTA_SWEEP_HWQ) return read_figures(directory, "hwq.json", AORTA_SWEEP_FROM_HWQ, figures);
    AORTA_TRY(read_figures(directory, "trace/analysis.json", AORTA_SWEEP_FROM_ANALYSIS, figures));
    return read_figures(directory, "result.json", AORTA_SWEEP_FROM_RESULT, figures);
}

static void conclude(const struct aorta_sweep_job *job, const char *directory, const char *log,
                     const struct aorta_sweep_end *end, struct aorta_trial *trial) {
    trial->seconds = end->seconds;
    trial->exit_code = end->exit_code;
    /* A shell or launcher reports the signal that ended its program as 128 + signal. */
    trial->signal = end->signal ? end->signal : end->exit_code > 128 ? end->exit_code - 128 : 0;
    for (int i = 0; i < AORTA_SWEEP_OBJECTIVE_COUNT; i++) trial->figures[i] = NAN;
    trial->state = end->timed_out   ? AORTA_TRIAL_HUNG
                   : trial->signal  ? AORTA_TRIAL_CRASHED
                   : end->exit_code ? AORTA_TRIAL_FAILED
                                    : AORTA_TRIAL_DONE;
    if (trial->state == AORTA_TRIAL_HUNG) {
        snprintf(trial->reason, sizeof trial->reason, "ended after %.6g s (--timeout-s)", job->timeout_s);
        return;
    }
    if (trial->state != AORTA_TRIAL_DONE) {
        last_line(log, trial->reason, sizeof trial->reason);
        return;
    }
    aorta_status status = measure(job, directory, trial->figures);
    if (!status && isfinite(trial->figures[job->plan.objective])) return;
    trial->state = AORTA_TRIAL_NO_FIGURE;
    const char *key = aorta_sweep_objectives[job->plan.objective].key;
    snprintf(trial->reason, sizeof trial->reason, "%s was not measured%s%s", key, status ? ": " : "",
             aorta_status_message(status));
    aorta_make_printable(trial->reason, strlen(trial->reason), false);
    aorta_status_free(status);
}

enum { OWN_VARIABLES = 4 };

static int set_variables(const struct aorta_sweep_job *job, const struct aorta_sweep_next *next, const char *directory,
                         struct aorta_arena *arena, struct aorta_sweep_variable *variables) {
    const struct aorta_sweep_space *space = &job->plan.space;
    int count = 0;
    for (int i = 0; i < space->count; i++) {
        const char *value = aorta_sweep_value(space, next->cell, i);
        if (!space->knobs[i].environment || !value) continue;
        variables[count++] = (struct aorta_sweep_variable){space->knobs[i].name, strcmp(value, "unset") ? value : NULL};
    }
    variables[count++] = (struct aorta_sweep_variable){"AORTA_SWEEP_DIR", directory};
    variables[count++] =
        (struct aorta_sweep_variable){"AORTA_SWEEP_RESULT", aorta_arena_printf(arena, "%s/result.json", directory)};
    variables[count++] = (struct aorta_sweep_variable){
        "AORTA_SWEEP_STEPS", next->steps ? aorta_arena_printf(arena, "%lld", (long long)next->steps) : NULL};
    variables[count++] =
        (struct aorta_sweep_variable){"AORTA_SWEEP_REPEAT", aorta_arena_printf(arena, "%d", next->repeat)};
    return count;
}

static aorta_status run_trial(struct session *session, const struct aorta_sweep_next *next, struct aorta_arena *arena,
                              struct aorta_trial *trial, int *interrupted) {
    const struct aorta_sweep_job *job = session->job;
    struct aorta_sweep_variable variables[AORTA_SWEEP_MOST_KNOBS + OWN_VARIABLES];
    struct aorta_sweep_end end;
    char **words;
    char *directory = aorta_arena_printf(arena, "%s/trials/%04lld", session->directory, (long long)trial->number);
    char *log = aorta_arena_printf(arena, "%s/log", directory);
    if (!directory || !log) return AORTA_ERROR(AORTA_MEMORY, "no memory for a trial");
    nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS); /* of a trial that was killed with its sweep */
    AORTA_TRY(aorta_directory_make(directory));
    AORTA_TRY(aorta_sweep_command(job, next, directory, arena, &words));
    const struct aorta_sweep_process process = {
        .command = words,
        .variables = variables,
        .variable_count = set_variables(job, next, directory, arena, variables),
        .log = log,
        .timeout_s = job->timeout_s,
    };
    AORTA_TRY(aorta_sweep_process_run(session->signals, &process, &end));
    *interrupted = end.interrupted;
    if (!*interrupted) conclude(job, directory, log, &end, trial);
    return NULL;
}

/* ---- progress ---- */

/* Trials that the plan still has: repeats of a point that failed are none. */
static int64_t planned_trials(const struct session *session) {
    const struct aorta_sweep_plan *plan = &session->job->plan;
    int64_t planned = aorta_sweep_planned(plan);
    if (plan->method != AORTA_SWEEP_GRID && plan->method != AORTA_SWEEP_RANDOM) return planned;
    for (size_t i = 0; i < session->trials->count; i++) {
        const struct aorta_trial *trial = &session->trials->items[i];
        if (!trial->repeat && !aorta_trial_has(trial, plan->objective)) planned -= plan->repeats - 1;
    }
    return planned;
}

/* "3/12 key=value: step_ms 12.3 (2.1 s), ETA 0:35" */
static void say(const struct session *session, const struct aorta_trial *trial) {
    const struct aorta_sweep_job *job = session->job;
    const int64_t planned = planned_trials(session), done = (int64_t)session->trials->count;
    struct aorta_text text = {0};
    if (!job->progress) return;
    aorta_text_printf(&text, "%lld/%lld ", (long long)done, (long long)planned);
    aorta_sweep_point_text(&job->plan.space, trial->cell, &text);
    if (trial->state == AORTA_TRIAL_DONE)
        aorta_text_printf(&text, ": %s %s", aorta_sweep_objectives[job->plan.objective].key,
                          aorta_brief(trial->figures[job->plan.objective]).text);
    else
        aorta_text_printf(&text, ": %s: %s", aorta_trial_state_name(trial->state), trial->reason);
    aorta_text_printf(&text, " (%s s)", aorta_brief(trial->seconds).text);
    const double spent_s = (double)(aorta_clock_ns() - session->start_ns) / 1e9;
    const double left = (double)(planned - done) * spent_s / (double)(session->trials->count - session->resumed);
    const long long seconds = llround(left);
    if (planned > done)
        aorta_text_printf(&text, ", ETA %lld:%02lld:%02lld", seconds / 3600, seconds / 60 % 60, seconds % 60);
    aorta_text_puts(&text, "\n");
    if (!text.failed) {
        aorta_make_printable(text.data, text.length, true);
        fputs(text.data, job->progress);
        fflush(job->progress);
    }
    aorta_text_free(&text);
}

/* ---- all ---- */

static aorta_status run_next(struct session *session, bool *more, int *interrupted) {
    struct aorta_sweep_next next;
    struct aorta_arena arena = {0};
    struct aorta_text line = {0};
    AORTA_TRY(aorta_sweep_choose(&session->job->plan, session->trials, &next, more));
    if (!*more) return NULL;
    struct aorta_trial trial = {
        .number = (int64_t)session->trials->count, .cell = next.cell, .repeat = next.repeat, .steps = next.steps};
    aorta_status status = run_trial(session, &next, &arena, &trial, interrupted);
    aorta_arena_free(&arena);
    if (status || *interrupted) return status;
    aorta_sweep_trial_line(&session->job->plan, &trial, &line);
    AORTA_TRY(append(session, &line));
    AORTA_TRY(aorta_trials_add(session->trials, &trial));
    say(session, &trial);
    return NULL;
}

static aorta_status run_all(struct session *session, int *interrupted) {
    bool more = true;
    aorta_status status = open_lines(session);
    if (!status) status = aorta_sweep_signals_begin(&session->signals);
    session->start_ns = aorta_clock_ns();
    while (!status && more && !*interrupted) status = run_next(session, &more, interrupted);
    aorta_sweep_signals_end(session->signals);
    return status;
}

aorta_status aorta_sweep_run(const struct aorta_sweep_job *job, struct aorta_trials *trials, int *interrupted) {
    struct session session = {.job = job, .trials = trials, .lines = -1};
    *interrupted = 0;
    AORTA_TRY(aorta_directory_check_writable(job->output, "--output"));
    AORTA_TRY(aorta_directory_make(job->output));
    if (!realpath(job->output, session.directory)) return AORTA_ERROR(AORTA_IO, "%s: %s", job->output, strerror(errno));
    aorta_status status = run_all(&session, interrupted);
    if (session.lines >= 0) close(session.lines);
    return status;
}
