#include "sweep/run.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/printable.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double look_s = 2; /* between two looks at a scheduler's queue */

/* A trial that has started and is not recorded yet. */
struct flight {
    struct aorta_trial trial;
    struct aorta_sweep_submission job;
    bool ended;
};

struct session {
    const struct aorta_sweep_job *job;
    struct aorta_trials *trials;
    struct aorta_sweep_signals signals;
    char directory[PATH_MAX];  /* absolute */
    int lines;                 /* trials.jsonl */
    struct aorta_trials again; /* those of before that run again, from `again_next` on */
    size_t again_next;
    int64_t next_number;
    size_t resumed;
    int64_t start_ns, look_ns;
    struct flight *flights; /* in the order of their starts */
    size_t flight_count, flight_capacity;
    struct aorta_arena arena;
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
    struct aorta_text ours = {0}, theirs = {0};
    int64_t valid = 0;
    aorta_status status = aorta_sweep_read(path, &arena, &plan, session->trials, &valid);
    if (!status) {
        aorta_sweep_header(&session->job->plan, &ours);
        aorta_sweep_header(&plan, &theirs);
        status = aorta_status_join(aorta_text_check(&ours), aorta_text_check(&theirs));
    }
    if (!status && strcmp(ours.data, theirs.data) != 0)
        status = AORTA_ERROR(AORTA_USAGE,
                             "--resume: %s is of another sweep; repeat its command, or name another --output\n  %.*s",
                             path, (int)theirs.length - 1, theirs.data);
    if (!status && session->trials->count)
        session->next_number = session->trials->items[session->trials->count - 1].number + 1;
    if (!status)
        status = aorta_trials_take(session->trials, session->job->retry | 1u << AORTA_TRIAL_DISK_FULL, &session->again);
    if (!status && ftruncate(session->lines, valid)) /* the line that a kill cut */
        status = AORTA_ERROR(AORTA_IO, "%s: %s", path, strerror(errno));
    aorta_text_free(&ours);
    aorta_text_free(&theirs);
    aorta_arena_free(&arena);
    return status;
}

static aorta_status begin_lines(struct session *session) {
    struct aorta_text line = {0};
    aorta_sweep_header(&session->job->plan, &line);
    return append(session, &line);
}

static aorta_status open_lines(struct session *session) {
    const struct aorta_file_path path = aorta_path_in(session->directory, "trials.jsonl");
    session->lines = open(path.text, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    const off_t length = session->lines < 0 ? -1 : lseek(session->lines, 0, SEEK_END);
    aorta_status status = NULL;
    if (length < 0)
        status = AORTA_ERROR(AORTA_IO, "%s: %s", path.text, strerror(errno));
    else if (length > 0 && !session->job->resume)
        status = AORTA_ERROR(AORTA_USAGE, "%s has a sweep; --resume goes on with it", session->job->output);
    else
        status = length > 0 ? check_same(session, path.text) : begin_lines(session);
    session->resumed = session->trials->count;
    return status;
}

/* ---- one trial ---- */

static aorta_status conclude(const struct session *session, struct flight *flight, const struct aorta_sweep_end *end,
                             int *interrupted) {
    const struct aorta_sweep_ended ended = {session->job, &session->signals, flight->job.directory, *end};
    AORTA_TRY(aorta_sweep_conclude(&ended, &flight->trial, interrupted));
    flight->ended = !*interrupted;
    return NULL;
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

/* Runs it here, to its end. */
static aorta_status run_here(struct session *session, const struct aorta_sweep_process *process, struct flight *flight,
                             int *interrupted) {
    struct aorta_sweep_end end;
    aorta_directory_remove(flight->job.directory); /* of a trial that was killed with its sweep */
    AORTA_TRY(aorta_directory_make(flight->job.directory));
    AORTA_TRY(aorta_sweep_process_run(&session->signals, process, &end));
    *interrupted = end.interrupted;
    return *interrupted ? NULL : conclude(session, flight, &end, interrupted);
}

static aorta_status start_trial(struct session *session, const struct aorta_sweep_next *next, struct aorta_arena *arena,
                                struct flight *flight, int *interrupted) {
    const struct aorta_sweep_job *job = session->job;
    const char *directory = flight->job.directory;
    struct aorta_sweep_variable variables[AORTA_SWEEP_MOST_KNOBS + OWN_VARIABLES];
    char **words;
    char *log = aorta_arena_printf(arena, "%s/log", directory);
    if (!log) return AORTA_ERROR(AORTA_MEMORY, "no memory for a trial");
    AORTA_TRY(aorta_sweep_command(job, next, directory, arena, &words));
    const struct aorta_sweep_process process = {
        .command = words,
        .variables = variables,
        .variable_count = set_variables(job, next, directory, arena, variables),
        .log = log,
        .timeout_s = job->timeout_s,
    };
    return job->submit ? aorta_sweep_submit(job->submit, &process, &session->signals, &flight->job)
                       : run_here(session, &process, flight, interrupted);
}

/* ---- progress ---- */

/* Number of planned trials. Failed points have no repeats. */
static int64_t planned_trials(const struct session *session) {
    const struct aorta_sweep_plan *plan = &session->job->plan;
    int64_t planned = aorta_sweep_planned(plan);
    if (plan->method != AORTA_SWEEP_GRID && plan->method != AORTA_SWEEP_RANDOM) return planned;
    AORTA_EACH (const struct aorta_trial, trial, session->trials->items, session->trials->count)
        if (!trial->repeat && !aorta_trial_has(trial, plan->objective)) planned -= plan->repeats - 1;
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

/* Chooses trials that run again first, in their earlier order. */
static aorta_status choose_next(struct session *session, struct aorta_sweep_next *next, int64_t *again, bool *more) {
    *more = session->again_next < session->again.count;
    if (!*more) {
        const size_t recorded = session->trials->count;
        aorta_status status = NULL;
        for (size_t i = 0; !status && i < session->flight_count; i++)
            status = aorta_trials_add(session->trials, &session->flights[i].trial);
        if (!status) status = aorta_sweep_choose(&session->job->plan, session->trials, next, more);
        session->trials->count = recorded;
        *more = *more && !next->waits;
        return status;
    }
    const struct aorta_trial *former = &session->again.items[session->again_next++];
    *next = (struct aorta_sweep_next){.cell = former->cell, .steps = former->steps, .repeat = former->repeat};
    *again = former->number;
    return NULL;
}

static aorta_status start_next(struct session *session, bool *more, int *interrupted) {
    struct aorta_sweep_next next;
    struct aorta_arena arena = {0};
    struct aorta_trial trial = {.again = -1, .state = AORTA_TRIAL_PENDING};
    AORTA_TRY(choose_next(session, &next, &trial.again, more));
    if (!*more) return NULL;
    trial.number = session->next_number++;
    trial.cell = next.cell;
    trial.repeat = next.repeat;
    trial.steps = next.steps;
    AORTA_TRY(aorta_array_reserve(&session->flights, &session->flight_capacity, session->flight_count + 1,
                                  sizeof *session->flights, "trials"));
    struct flight *flight = &session->flights[session->flight_count];
    *flight = (struct flight){.trial = trial};
    flight->job.directory =
        aorta_arena_printf(&session->arena, "%s/trials/%04lld", session->directory, (long long)trial.number);
    if (!flight->job.directory) return AORTA_ERROR(AORTA_MEMORY, "no memory for a trial");
    aorta_status status = start_trial(session, &next, &arena, flight, interrupted);
    aorta_arena_free(&arena);
    if (!status && !*interrupted) session->flight_count++;
    return status;
}

/* The jobs that have not ended. The caller frees them. */
static aorta_status list_jobs(const struct session *session, struct aorta_sweep_submission ***jobs, size_t *count) {
    *count = 0;
    *jobs = calloc(session->flight_count + 1, sizeof **jobs);
    if (!*jobs) return AORTA_ERROR(AORTA_MEMORY, "no memory for the jobs of a sweep");
    for (size_t i = 0; i < session->flight_count; i++)
        if (!session->flights[i].ended) (*jobs)[(*count)++] = &session->flights[i].job;
    return NULL;
}

static aorta_status start_some(struct session *session, int *interrupted) {
    bool more = true;
    aorta_status status = NULL;
    while (!status && more && !*interrupted) {
        int64_t pending = 0;
        for (size_t i = 0; i < session->flight_count; i++) pending += !session->flights[i].ended;
        if (pending >= session->job->jobs || (!session->job->submit && session->flight_count)) break;
        status = start_next(session, &more, interrupted);
    }
    return status;
}

/* A look at the files of each job, and now and then at the queue. */
static aorta_status look(struct session *session, int *interrupted) {
    struct aorta_sweep_submission **jobs;
    size_t count;
    *interrupted = aorta_sweep_signals_wait(&session->signals);
    const int64_t now = aorta_clock_ns();
    AORTA_TRY(list_jobs(session, &jobs, &count));
    if (count && now > session->look_ns + (int64_t)(look_s * 1e9)) {
        aorta_sweep_submissions_look(jobs, count);
        session->look_ns = now;
    }
    free(jobs);
    aorta_status status = NULL;
    for (size_t i = 0; !status && !*interrupted && i < session->flight_count; i++) {
        struct flight *flight = &session->flights[i];
        struct aorta_sweep_end end;
        bool ended = false;
        if (flight->ended) continue;
        status = aorta_sweep_submission_ended(&flight->job, session->job->timeout_s, &session->signals, &ended, &end);
        if (!status && ended) status = conclude(session, flight, &end, interrupted);
    }
    return status;
}

/* Records ended trials up to the first that still runs, so that trials stay in the order of their starts. */
static aorta_status record(struct session *session) {
    size_t count = 0;
    for (; count < session->flight_count && session->flights[count].ended; count++) {
        const struct aorta_trial *trial = &session->flights[count].trial;
        struct aorta_text line = {0};
        aorta_sweep_trial_line(&session->job->plan, trial, &line);
        AORTA_TRY(append(session, &line));
        AORTA_TRY(aorta_trials_add(session->trials, trial));
        say(session, trial);
    }
    session->flight_count -= count;
    if (count) memmove(session->flights, session->flights + count, session->flight_count * sizeof *session->flights);
    return NULL;
}

static aorta_status cancel(const struct session *session) {
    struct aorta_sweep_submission **jobs;
    size_t count;
    AORTA_TRY(list_jobs(session, &jobs, &count));
    if (count && session->job->progress)
        fprintf(session->job->progress, "aorta sweep: cancels %s\n", aorta_counted((long long)count, "job").text);
    aorta_status status = count ? aorta_sweep_submissions_cancel(jobs, count, &session->signals) : NULL;
    free(jobs);
    return status;
}

static aorta_status run_all(struct session *session, int *interrupted) {
    AORTA_TRY(open_lines(session));
    aorta_sweep_signals_begin(&session->signals);
    aorta_status status = NULL;
    session->start_ns = aorta_clock_ns();
    while (!status && !*interrupted) {
        status = start_some(session, interrupted);
        if (status || *interrupted || !session->flight_count) break;
        if (session->job->submit) status = look(session, interrupted);
        if (!status) status = record(session);
    }
    if (session->job->submit) status = aorta_status_join(status, cancel(session));
    aorta_sweep_signals_end(&session->signals);
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
    free(session.flights);
    aorta_arena_free(&session.arena);
    return status;
}
