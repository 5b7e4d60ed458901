#include "sweep/run.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/printable.h"
#include "report/report.h"
#include "sweep/objective.h"
#include "sweep/process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct session {
    const struct aorta_sweep_job *job;
    struct aorta_trials *trials;
    struct aorta_sweep_signals *signals;
    char directory[PATH_MAX];  /* absolute */
    int lines;                 /* trials.jsonl */
    struct aorta_trials again; /* those of before that run again, from `again_next` on */
    size_t again_next;
    int64_t next_number;
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

static aorta_status check_same(struct session *session, const char *path) {
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
    if (!status && session->trials->count)
        session->next_number = session->trials->items[session->trials->count - 1].number + 1;
    if (!status)
        status = aorta_trials_take(session->trials, session->job->retry | 1u << AORTA_TRIAL_DISK_FULL, &session->again);
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

/* The end of what the program said. */
struct tail {
    char text[2048];
    size_t length;
};

static void read_tail(const char *log, struct tail *tail) {
    const int file = aorta_file_open_regular(log);
    tail->length = 0;
    if (file >= 0) {
        const off_t length = lseek(file, 0, SEEK_END), most = sizeof tail->text - 1;
        const ssize_t got = pread(file, tail->text, sizeof tail->text - 1, length > most ? length - most : 0);
        close(file);
        if (got > 0) tail->length = (size_t)got;
    }
    tail->text[tail->length] = '\0';
}

/* What it said last; "" where it said nothing. */
static void last_line(struct tail *from, char *out, size_t size) {
    char *tail = from->text;
    size_t end = from->length, begin;
    while (end && strchr("\r\n \t", tail[end - 1])) end--;
    for (begin = end; begin && tail[begin - 1] != '\n'; begin--) {
    }
    tail[end] = '\0';
    aorta_make_printable(tail + begin, end - begin, false);
    snprintf(out, size, "%.*s", (int)size - 1, tail + begin);
    /* A cut letter of several bytes is none. */
    aorta_make_printable(out, strlen(out), false);
}

/* What reading a trial's files found, in memory that the reading process and this one share. */
struct reading {
    const struct aorta_sweep_job *job;
    const char *directory;
    double figures[AORTA_SWEEP_OBJECTIVE_COUNT];
    char device[sizeof((struct aorta_trial *)0)->device];
    char failure[sizeof((struct aorta_trial *)0)->reason];
};

/* Reads a file where it exists. */
static aorta_status read_figures(const char *directory, const char *name, enum aorta_sweep_source source,
                                 struct reading *reading) {
    char *path = aorta_path_join(directory, name);
    if (!path) return AORTA_ERROR(AORTA_MEMORY, "no memory for a path");
    aorta_status status =
        access(path, F_OK) ? NULL : aorta_sweep_figures_read(path, source, reading->figures, reading->device);
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

static aorta_status measure(struct reading *reading) {
    const struct aorta_sweep_job *job = reading->job;
    const char *directory = reading->directory;
    if (job->target == AORTA_SWEEP_TRAIN) {
        AORTA_TRY(summarise_run(directory));
        return read_figures(directory, "out/summary.json", AORTA_SWEEP_FROM_SUMMARY, reading);
    }
    if (job->target == AORTA_SWEEP_HWQ) return read_figures(directory, "hwq.json", AORTA_SWEEP_FROM_HWQ, reading);
    AORTA_TRY(read_figures(directory, "trace/analysis.json", AORTA_SWEEP_FROM_ANALYSIS, reading));
    /* a trace has steps a second, whatever is in a step */
    if (aorta_sweep_changes_work(&job->plan.space)) reading->figures[AORTA_SWEEP_THROUGHPUT] = NAN;
    return read_figures(directory, "result.json", AORTA_SWEEP_FROM_RESULT, reading);
}

static void read_all_figures(void *user) {
    struct reading *reading = user;
    aorta_status status = measure(reading);
    if (status) snprintf(reading->failure, sizeof reading->failure, "%s", aorta_status_message(status));
    aorta_status_free(status);
}

/* Whatever the trial left, reading it is a process of its own: it ends as a trial does. */
static aorta_status read_in_process(const struct session *session, struct reading *reading, int *interrupted) {
    const struct aorta_sweep_process process = {
        .work = read_all_figures, .user = reading, .timeout_s = session->job->timeout_s};
    struct aorta_sweep_end end;
    AORTA_TRY(aorta_sweep_process_run(session->signals, &process, &end));
    *interrupted = end.interrupted;
    if (end.timed_out)
        snprintf(reading->failure, sizeof reading->failure, "reading its results took longer than %.6g s (--timeout-s)",
                 session->job->timeout_s);
    else if (end.signal)
        snprintf(reading->failure, sizeof reading->failure, "reading its results was ended by a signal (%s)",
                 strsignal(end.signal));
    return NULL;
}

static aorta_status read_trial(const struct session *session, const char *directory, struct aorta_trial *trial,
                               int *interrupted) {
    const struct aorta_sweep_job *job = session->job;
    struct reading *reading = mmap(NULL, sizeof *reading, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (reading == MAP_FAILED) return AORTA_ERROR(AORTA_MEMORY, "no memory for the figures of a trial");
    *reading = (struct reading){.job = job, .directory = directory};
    memcpy(reading->figures, trial->figures, sizeof reading->figures);
    aorta_status status = read_in_process(session, reading, interrupted);
    memcpy(trial->figures, reading->figures, sizeof trial->figures);
    memcpy(trial->device, reading->device, sizeof trial->device);
    if (*reading->failure || !isfinite(trial->figures[job->plan.objective])) {
        trial->state = AORTA_TRIAL_NO_FIGURE;
        snprintf(trial->reason, sizeof trial->reason, "%s was not measured%s%.130s",
                 aorta_sweep_objectives[job->plan.objective].key, *reading->failure ? ": " : "", reading->failure);
        aorta_make_printable(trial->reason, strlen(trial->reason), false);
    }
    munmap(reading, sizeof *reading);
    return status;
}

/* The reason of a trial that ended badly: its last words, else how it ended. */
static void say_end(const struct aorta_sweep_job *job, const struct aorta_sweep_end *end, struct tail *tail,
                    struct aorta_trial *trial) {
    char *reason = trial->reason;
    const size_t size = sizeof trial->reason;
    *reason = '\0';
    if (end->timed_out)
        snprintf(reason, size, "ended after %.6g s (--timeout-s)", job->timeout_s);
    else
        last_line(tail, reason, size);
    if (*reason) return;
    if (trial->signal)
        snprintf(reason, size, "ended by signal %d (%s), without a word", trial->signal, strsignal(trial->signal));
    else
        snprintf(reason, size, "ended with exit code %d, without a word", trial->exit_code);
}

/* A trial that found no space has not failed: it runs again. Where the disk is full now, nothing more can be recorded.
 */
static aorta_status check_disk(const struct session *session, const char *directory, const struct tail *tail,
                               struct aorta_trial *trial) {
    enum { PROBE_BYTES = 64 << 10 };
    static const int errors[] = {ENOSPC, EDQUOT};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        const char *words = strerror(errors[i]);
        if (strstr(tail->text, words) || strstr(trial->reason, words)) trial->state = AORTA_TRIAL_DISK_FULL;
    }
    const int error = aorta_directory_try(directory, PROBE_BYTES);
    if (error != ENOSPC && error != EDQUOT) return NULL;
    return AORTA_ERROR(AORTA_IO, "%s: %s; trial %lld is not recorded: free some space, then --resume goes on",
                       session->job->output, strerror(error), (long long)trial->number);
}

static aorta_status conclude(const struct session *session, const char *directory, const char *log,
                             const struct aorta_sweep_end *end, struct aorta_trial *trial, int *interrupted) {
    struct tail tail;
    trial->seconds = end->seconds;
    trial->exit_code = end->exit_code;
    /* A shell or launcher reports the signal that ended its program as 128 + signal. */
    trial->signal = end->signal ? end->signal : end->exit_code > 128 ? end->exit_code - 128 : 0;
    for (int i = 0; i < AORTA_SWEEP_OBJECTIVE_COUNT; i++) trial->figures[i] = NAN;
    trial->state = end->timed_out   ? AORTA_TRIAL_HUNG
                   : trial->signal  ? AORTA_TRIAL_CRASHED
                   : end->exit_code ? AORTA_TRIAL_FAILED
                                    : AORTA_TRIAL_DONE;
    read_tail(log, &tail);
    if (trial->state == AORTA_TRIAL_DONE) AORTA_TRY(read_trial(session, directory, trial, interrupted));
    if (trial->state == AORTA_TRIAL_DONE || *interrupted) return NULL;
    if (trial->state != AORTA_TRIAL_NO_FIGURE) say_end(session->job, end, &tail, trial);
    return check_disk(session, directory, &tail, trial);
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
    aorta_directory_remove(directory); /* of a trial that was killed with its sweep */
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
    return *interrupted ? NULL : conclude(session, directory, log, &end, trial, interrupted);
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

/* First what runs again, in the order of before. */
static aorta_status choose_next(struct session *session, struct aorta_sweep_next *next, int64_t *again, bool *more) {
    *more = session->again_next < session->again.count;
    if (!*more) return aorta_sweep_choose(&session->job->plan, session->trials, next, more);
    const struct aorta_trial *former = &session->again.items[session->again_next++];
    *next = (struct aorta_sweep_next){.cell = former->cell, .steps = former->steps, .repeat = former->repeat};
    *again = former->number;
    return NULL;
}

static aorta_status run_next(struct session *session, bool *more, int *interrupted) {
    struct aorta_sweep_next next;
    struct aorta_arena arena = {0};
    struct aorta_text line = {0};
    struct aorta_trial trial = {.again = -1};
    AORTA_TRY(choose_next(session, &next, &trial.again, more));
    if (!*more) return NULL;
    trial.number = session->next_number;
    trial.cell = next.cell;
    trial.repeat = next.repeat;
    trial.steps = next.steps;
    aorta_status status = run_trial(session, &next, &arena, &trial, interrupted);
    aorta_arena_free(&arena);
    if (status || *interrupted) return status;
    aorta_sweep_trial_line(&session->job->plan, &trial, &line);
    AORTA_TRY(append(session, &line));
    session->next_number++;
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
    AORTA_TRY(aorta_directory_make(job->output));
    if (!realpath(job->output, session.directory)) return AORTA_ERROR(AORTA_IO, "%s: %s", job->output, strerror(errno));
    aorta_status status = run_all(&session, interrupted);
    if (session.lines >= 0) close(session.lines);
    aorta_trials_free(&session.again);
    return status;
}
