#include "base/clock.h"
#include "base/files.h"
#include "base/printable.h"
#include "base/text.h"
#include "base/thread.h"
#include "sweep/run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char place[] = "{command}", directive[] = "#SBATCH";
static const double folder_delay_s = 60; /* until a file of another node is seen, at most */
static const double cancel_s = 90;       /* Slurm gives processes 30 s to end (KillWait) */

/* ---- the template ---- */

static const struct {
    const char *directive, *scheduler;
} others[] = {{"#PBS", "PBS"}, {"#BSUB", "LSF"}, {"#$ ", "Grid Engine"}, {"#FLUX:", "Flux"}, {"#OAR", "OAR"}};

/* The next line at or after `at` that begins with `word`; NULL: none. */
static const char *line_with(const char *at, const char *word) {
    while (at && strncmp(at, word, strlen(word)) != 0) {
        at = strchr(at, '\n');
        if (at) at++;
    }
    return at;
}

static aorta_status check_template(const char *path, const char *text) {
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (line_with(text, others[i].directive))
            return AORTA_ERROR(AORTA_USAGE, "--submit %s: lines %s are for %s; of schedulers aorta knows Slurm (%s)",
                               path, others[i].directive, others[i].scheduler, directive);
    if (strncmp(text, "#!", 2) != 0)
        return AORTA_ERROR(AORTA_USAGE, "--submit %s: is no script: its first line does not begin with #!", path);
    if (!line_with(text, directive))
        return AORTA_ERROR(AORTA_USAGE, "--submit %s: no line begins with %s: of schedulers aorta knows Slurm", path,
                           directive);
    if (!strstr(text, place))
        return AORTA_ERROR(AORTA_USAGE, "--submit %s: write %s where the trial's command goes, as in srun %s", path,
                           place, place);
    return NULL;
}

aorta_status aorta_sweep_template_read(const char *path, struct aorta_arena *arena, const char **template) {
    enum { MOST_BYTES = 1 << 20 };
    char *bytes;
    size_t length;
    AORTA_TRY(aorta_file_read_small(path, MOST_BYTES, &bytes, &length));
    aorta_status status = check_template(path, bytes);
    *template = status ? NULL : aorta_arena_strdup(arena, bytes);
    if (!status && !*template) status = AORTA_ERROR(AORTA_MEMORY, "no memory for %s", path);
    free(bytes);
    return status;
}

/* ---- the scheduler's programs ---- */

/* Runs a shell command; gives its outputs and its exit code. The command inherits the blocked signals that end a
 * sweep, so submissions are not interrupted. */
static aorta_status ask(const struct aorta_text *line, struct aorta_text *answer, int *code) {
    AORTA_TRY(aorta_text_check(line));
    char part[4096];
    size_t got;
    FILE *pipe = popen(line->data, "re");
    if (!pipe) return AORTA_ERROR(AORTA_IO, "cannot run %s", line->data);
    while ((got = fread(part, 1, sizeof part, pipe)) > 0) aorta_text_append(answer, part, got);
    const int ended = pclose(pipe);
    *code = WIFEXITED(ended) ? WEXITSTATUS(ended) : -1;
    aorta_text_puts(answer, "");
    return aorta_text_check(answer);
}

/* ---- submitting ---- */

void aorta_sweep_export(const struct aorta_sweep_variable *variable, struct aorta_text *text) {
    aorta_text_printf(text, variable->value ? "export %s=" : "unset %s", variable->name);
    if (variable->value) aorta_text_shell_word(text, variable->value);
    aorta_text_puts(text, "\n");
}

/* command.sh */
static void write_command(const struct aorta_sweep_process *process, struct aorta_text *text) {
    aorta_text_puts(text, "#!/bin/sh\n");
    for (int i = 0; i < process->variable_count; i++) aorta_sweep_export(&process->variables[i], text);
    aorta_text_puts(text, "exec");
    for (char *const *word = process->command; *word; word++) {
        aorta_text_puts(text, " ");
        aorta_text_shell_word(text, *word);
    }
    aorta_text_puts(text, "\n");
}

/* job.sh: the template with its places filled. */
static void write_job(const char *template, const char *directory, struct aorta_text *text) {
    const char *at = template;
    for (const char *next; (next = strstr(at, place)); at = next + sizeof place - 1) {
        aorta_text_append(text, at, (size_t)(next - at));
        aorta_text_puts(text, "sh ");
        aorta_text_shell_word(text, aorta_path_in(directory, "command.sh").text);
    }
    aorta_text_puts(text, at);
}

/* The script for sbatch. It exits if its number is not in the file "id": the sweep may have been killed before it knew
 * the job, and then another job uses the directory. */
static void write_wrapper(const char *template, const char *directory, struct aorta_text *text) {
    aorta_text_puts(text, "#!/bin/sh\n");
    for (const char *at = line_with(template, directive); at; at = line_with(at + 1, directive))
        aorta_text_printf(text, "%.*s\n", (int)strcspn(at, "\n"), at);
    aorta_text_puts(text, "d=");
    aorta_text_shell_word(text, directory);
    aorta_text_puts(text, "\n"
                          "for second in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do\n"
                          "    [ -s \"$d/id\" ] && break\n"
                          "    sleep 1\n"
                          "done\n"
                          "[ \"$(cat \"$d/id\")\" = \"$SLURM_JOB_ID\" ] || exit 1\n"
                          "begin=$(date +%s.%N)\n");
    aorta_text_printf(text, "%.*s \"$d/job.sh\"\n", (int)strcspn(template, "\n") - 2, template + 2);
    aorta_text_puts(text, "code=$?\n"
                          "echo \"$code $begin $(date +%s.%N)\" >\"$d/exit.new\" && mv \"$d/exit.new\" \"$d/exit\"\n"
                          "exit $code\n");
}

enum { COMMAND, JOB, WRAPPER, SCRIPTS };
static const char *const script_names[SCRIPTS] = {"command.sh", "job.sh", "aorta-sweep"};

/* A file of at most `most` bytes; NULL where it is missing or larger. The caller frees it. */
static char *read_small(const char *directory, const char *name, size_t most, size_t *length) {
    char *bytes = NULL;
    *length = 0;
    aorta_status_free(aorta_file_read_regular(aorta_path_in(directory, "%s", name).text, most, &bytes, length));
    return bytes;
}

static bool same_file(const char *directory, const char *name, const struct aorta_text *text) {
    size_t length;
    char *bytes = read_small(directory, name, text->length, &length);
    const bool same = bytes && length == text->length && memcmp(bytes, text->data, length) == 0;
    free(bytes);
    return same;
}

/* The number that a sweep of before has written. */
static bool read_id(struct aorta_sweep_submission *job) {
    size_t length;
    char *bytes = read_small(job->directory, "id", sizeof job->id - 1, &length);
    snprintf(job->id, sizeof job->id, "%.*s", bytes ? (int)strspn(bytes, "0123456789") : 0, bytes ? bytes : "");
    free(bytes);
    return *job->id;
}

static aorta_status send(struct aorta_sweep_submission *job) {
    struct aorta_text line = {0}, answer = {0};
    int code;
    aorta_text_puts(&line, "d=");
    aorta_text_shell_word(&line, job->directory);
    aorta_text_puts(&line, "; sbatch --parsable --output=\"$d/log\" --error=\"$d/log\" --open-mode=append "
                           "\"$d/aorta-sweep\" 2>&1 </dev/null");
    aorta_status status = ask(&line, &answer, &code);
    const char *last = answer.data ? answer.data : "";
    for (const char *end; (end = strchr(last, '\n')) && end[1];) last = end + 1;
    const size_t digits = strspn(last, "0123456789");
    if (!status && (code || !digits || digits >= sizeof job->id)) {
        aorta_make_printable(answer.data, answer.length, false);
        status = AORTA_ERROR(AORTA_IO, "sbatch took no job: %.300s", answer.data);
    }
    if (!status) {
        snprintf(job->id, sizeof job->id, "%.*s", (int)digits, last);
        const struct aorta_text id = {.data = job->id, .length = digits};
        status = aorta_file_put(aorta_path_in(job->directory, "id").text, &id);
    }
    aorta_text_free(&line);
    aorta_text_free(&answer);
    return status;
}

static aorta_status submit(const struct aorta_text scripts[SCRIPTS], const struct aorta_sweep_signals *signals,
                           struct aorta_sweep_submission *job) {
    for (int i = COMMAND; i < WRAPPER; i++) AORTA_TRY(aorta_text_check(&scripts[i]));
    const bool former = read_id(job);
    bool same = former;
    snprintf(job->state, sizeof job->state, "PENDING");
    for (int i = COMMAND; i < WRAPPER; i++) same = same && same_file(job->directory, script_names[i], &scripts[i]);
    if (same) return NULL;
    if (former) AORTA_TRY(aorta_sweep_submissions_cancel(&job, 1, signals));
    aorta_directory_remove(job->directory);
    AORTA_TRY(aorta_directory_make(job->directory));
    for (int i = 0; i < SCRIPTS; i++)
        AORTA_TRY(aorta_file_put(aorta_path_in(job->directory, "%s", script_names[i]).text, &scripts[i]));
    return send(job);
}

aorta_status aorta_sweep_submit(const char *template, const struct aorta_sweep_process *process,
                                const struct aorta_sweep_signals *signals, struct aorta_sweep_submission *job) {
    struct aorta_text scripts[SCRIPTS] = {0};
    write_command(process, &scripts[COMMAND]);
    write_job(template, job->directory, &scripts[JOB]);
    write_wrapper(template, job->directory, &scripts[WRAPPER]);
    aorta_status status = submit(scripts, signals, job);
    for (int i = 0; i < SCRIPTS; i++) aorta_text_free(&scripts[i]);
    return status;
}

/* ---- looking ---- */

/* The state of a job among lines "ID STATE"; "": none. */
static void find_state(const char *lines, const char *id, char state[32]) {
    const size_t length = strlen(id);
    *state = '\0';
    for (const char *at = lines; at; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (strncmp(at, id, length) == 0 && at[length] == ' ') sscanf(at + length, " %31[A-Z_]", state);
    }
}

void aorta_sweep_submissions_look(struct aorta_sweep_submission *const *jobs, size_t count) {
    static const char words[] = "squeue -h --me -o '%A %T' 2>/dev/null";
    const struct aorta_text line = {.data = (char *)words, .length = sizeof words - 1};
    struct aorta_text answer = {0};
    int code = 0;
    aorta_status failed = ask(&line, &answer, &code);
    const int64_t now = aorta_clock_ns();
    for (size_t i = 0; !failed && !code && i < count; i++) {
        find_state(answer.data, jobs[i]->id, jobs[i]->state);
        if (!strcmp(jobs[i]->state, "RUNNING") && !jobs[i]->running_ns) jobs[i]->running_ns = now;
        if (!*jobs[i]->state && !jobs[i]->gone_ns) jobs[i]->gone_ns = now;
        if (*jobs[i]->state) jobs[i]->gone_ns = 0, jobs[i]->asked = false; /* queued again after its node failed */
    }
    aorta_status_free(failed);
    aorta_text_free(&answer);
}

static bool read_exit(const struct aorta_sweep_submission *job, struct aorta_sweep_end *end) {
    enum { MOST_BYTES = 256 };
    size_t length;
    double begin = 0, until = 0;
    char *bytes = read_small(job->directory, "exit", MOST_BYTES, &length);
    const bool whole = bytes && sscanf(bytes, "%d %lf %lf", &end->exit_code, &begin, &until) == 3;
    free(bytes);
    if (whole) end->seconds = until > begin ? until - begin : 0;
    return whole;
}

/* Asks Slurm how a job ended, which it remembers by default for some minutes after the job left the queue. */
static void ask_for_end(struct aorta_sweep_submission *job) {
    struct aorta_sweep_end *end = &job->remembered;
    struct aorta_text line = {0}, answer = {0};
    char state[32] = "";
    int code = 0;
    aorta_text_printf(&line, "scontrol -o show job %s 2>/dev/null", job->id);
    aorta_status failed = ask(&line, &answer, &code);
    const char *at = failed || code ? NULL : strstr(answer.data, "JobState=");
    if (at) sscanf(at, "JobState=%31[A-Z_]", state);
    at = at ? strstr(at, "ExitCode=") : NULL;
    if (at) sscanf(at, "ExitCode=%d:%d", &end->exit_code, &end->signal);
    end->timed_out = !strcmp(state, "TIMEOUT");
    if (*state && strcmp(state, "COMPLETED") != 0 && strcmp(state, "FAILED") != 0)
        snprintf(end->by, sizeof end->by, "Slurm ended its job %s: %s", job->id, state);
    job->asked = true;
    job->forgotten = !*state;
    aorta_status_free(failed);
    aorta_text_free(&line);
    aorta_text_free(&answer);
}

static double seconds_since(int64_t ns) {
    return ns ? (double)(aorta_clock_ns() - ns) / 1e9 : 0;
}

aorta_status aorta_sweep_submission_ended(struct aorta_sweep_submission *job, double timeout_s,
                                          const struct aorta_sweep_signals *signals, bool *ended,
                                          struct aorta_sweep_end *end) {
    *end = (struct aorta_sweep_end){0};
    *ended = read_exit(job, end);
    if (*ended) return NULL;
    end->seconds = seconds_since(job->running_ns);
    if (timeout_s > 0 && end->seconds > timeout_s && *job->state) {
        *ended = end->timed_out = true;
        return aorta_sweep_submissions_cancel(&job, 1, signals);
    }
    if (*job->state || !job->gone_ns) return NULL;
    if (!job->asked) ask_for_end(job);
    /* A job that ended normally wrote its exit code after its figures, but both may become visible late. */
    *ended = *job->remembered.by || seconds_since(job->gone_ns) > folder_delay_s;
    if (!*ended) return NULL;
    if (job->forgotten)
        snprintf(job->remembered.by, sizeof job->remembered.by,
                 "its job %s has left Slurm's queue without an exit code", job->id);
    job->remembered.seconds = end->seconds;
    *end = job->remembered;
    return NULL;
}

/* ---- cancelling ---- */

static size_t in_queue(struct aorta_sweep_submission *const *jobs, size_t count) {
    size_t left = 0;
    for (size_t i = 0; i < count; i++) left += *jobs[i]->state != '\0';
    return left;
}

static aorta_status name_left(struct aorta_sweep_submission *const *jobs, size_t count, const char *answer) {
    struct aorta_text text = {0};
    aorta_text_puts(&text, "jobs are still in Slurm's queue: scancel");
    for (size_t i = 0; i < count; i++)
        if (*jobs[i]->state) aorta_text_printf(&text, " %s", jobs[i]->id);
    aorta_text_printf(&text, "%s%.200s", *answer ? "; " : "", answer);
    return aorta_text_error(&text, AORTA_IO);
}

/* Waits for half a second. False if a signal that ends the sweep arrived. */
static bool wait_a_little(const struct aorta_sweep_signals *signals) {
    const int64_t start_ns = aorta_clock_ns();
    while (seconds_since(start_ns) < 0.5)
        if (aorta_sweep_signals_wait(signals)) return false;
    return true;
}

aorta_status aorta_sweep_submissions_cancel(struct aorta_sweep_submission *const *jobs, size_t count,
                                            const struct aorta_sweep_signals *signals) {
    struct aorta_text line = {0}, answer = {0};
    int code = 0;
    aorta_text_puts(&line, "scancel");
    for (size_t i = 0; i < count; i++) {
        unlink(aorta_path_in(jobs[i]->directory, "id").text);
        aorta_text_printf(&line, " %s", jobs[i]->id);
    }
    aorta_text_puts(&line, " 2>&1");
    aorta_status status = count ? ask(&line, &answer, &code) : NULL;
    const int64_t start_ns = aorta_clock_ns();
    if (!status) aorta_sweep_submissions_look(jobs, count);
    while (!status && in_queue(jobs, count) && seconds_since(start_ns) < cancel_s && wait_a_little(signals))
        aorta_sweep_submissions_look(jobs, count);
    if (answer.data) aorta_make_printable(answer.data, answer.length, false);
    if (!status && in_queue(jobs, count)) status = name_left(jobs, count, answer.data ? answer.data : "");
    aorta_text_free(&line);
    aorta_text_free(&answer);
    return status;
}

static const double grace_s = 5;
static const struct timespec pause_time = {.tv_nsec = 100000000};

void aorta_sweep_signals_begin(struct aorta_sweep_signals *signals) {
    signals->watched = aorta_ending_signals();
    sigaddset(&signals->watched, SIGHUP);
    sigaddset(&signals->watched, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals->watched, &signals->former);
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* what a trial leaves behind becomes our child */
}

void aorta_sweep_signals_end(const struct aorta_sweep_signals *signals) {
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    sigprocmask(SIG_SETMASK, &signals->former, NULL);
}

/* ---- the child ---- */

static _Noreturn void become(const struct aorta_sweep_signals *signals, const struct aorta_sweep_process *process,
                             pid_t parent) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* should the sweep be killed */
    if (getppid() != parent) _exit(127);
    sigprocmask(SIG_SETMASK, &signals->former, NULL);
    if (process->work) {
        process->work(process->user);
        _exit(0);
    }
    int null = open("/dev/null", O_RDONLY), log = open(process->log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0666);
    if (null >= 0) dup2(null, STDIN_FILENO);
    if (log >= 0) {
        dup2(log, STDOUT_FILENO);
        dup2(log, STDERR_FILENO);
        close(log);
    }
    for (int i = 0; i < process->variable_count; i++) {
        const struct aorta_sweep_variable *variable = &process->variables[i];
        if (variable->value)
            setenv(variable->name, variable->value, 1);
        else
            unsetenv(variable->name);
    }
    execvp(process->command[0], process->command);
    fprintf(stderr, "aorta sweep: %s: %s\n", process->command[0], strerror(errno));
    _exit(127);
}

/* ---- its end ---- */

/* Kills all children of this process: children of the trial's dead processes are ours, too. */
static int kill_children(void) {
    char path[64];
    int pid, killed = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    while (fscanf(file, "%d", &pid) == 1) killed += kill(pid, SIGKILL) == 0;
    fclose(file);
    return killed;
}

static void end_descendants(pid_t group) {
    const int64_t until_ns = aorta_clock_ns() + (int64_t)(grace_s * 1e9);
    kill(-group, SIGKILL);
    while (aorta_clock_ns() < until_ns) {
        int killed = kill_children();
        while (waitpid(-1, NULL, WNOHANG) > 0) {
        }
        if (!killed) return;
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
}

int aorta_sweep_signals_wait(const struct aorta_sweep_signals *signals) {
    const int signal = sigtimedwait(&signals->watched, NULL, &pause_time);
    return signal < 0 || signal == SIGCHLD ? 0 : signal;
}

/* Sends SIGTERM twice before SIGKILL, as after a second SIGTERM a launcher ends its ranks at once and cleans up, which
 * a killed launcher cannot. */
static void watch(const struct aorta_sweep_signals *signals, const struct aorta_sweep_process *process, pid_t child,
                  struct aorta_sweep_end *end) {
    const int64_t start_ns = aorta_clock_ns();
    double sent_s = 0;
    int sent = 0, wait_status = 0;
    while (waitpid(child, &wait_status, WNOHANG) != child) {
        const int signal = aorta_sweep_signals_wait(signals);
        end->seconds = seconds_since(start_ns);
        if (signal) end->interrupted = signal;
        const bool late =
            sent ? end->seconds > sent_s + grace_s : process->timeout_s > 0 && end->seconds > process->timeout_s;
        if (!late && !signal) continue;
        if (!sent) end->timed_out = !signal;
        kill(-child, sent < 2 ? SIGTERM : SIGKILL);
        sent++;
        sent_s = end->seconds;
    }
    end->seconds = seconds_since(start_ns);
    end->exit_code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 0;
    end->signal = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;
}

aorta_status aorta_sweep_process_run(const struct aorta_sweep_signals *signals,
                                     const struct aorta_sweep_process *process, struct aorta_sweep_end *end) {
    *end = (struct aorta_sweep_end){0};
    const pid_t self = getpid(), child = fork();
    if (child == 0) become(signals, process, self);
    if (child < 0)
        return AORTA_ERROR(AORTA_IO, "cannot start %s: %s", process->work ? "a process" : process->command[0],
                           strerror(errno));
    setpgid(child, child); /* as the child does: either may be first */
    watch(signals, process, child, end);
    end_descendants(child);
    return NULL;
}
