/* Runs a program with the recording library in it, and reads the spools of its processes. */
#include "record/run.h"
#include "base/files.h"
#include "measure/cupti_abi.h"
#include "measure/machine.h"
#include "record/inject/settings.h"
#include "trace/open.h"
#include "trace/ranks.h"

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- does the program use CUDA? ---- */

/* Whether a part of a file in /proc/PID contains the text, or with `begins` begins with it. Parts are separated by
 * `end`. */
static bool has_text(pid_t pid, const char *name, int end, const char *text, bool begins) {
    char path[64], *part = NULL;
    size_t capacity = 0;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    FILE *file = fopen(path, "re");
    while (file && !found && getdelim(&part, &capacity, end, file) > 0) {
        const char *at = strstr(part, text);
        found = at && (at == part || !begins);
    }
    if (file) fclose(file);
    free(part);
    return found;
}

/* Looks at `root` and its descendants (through /proc): whether one has libcuda.so.1, and our variable. Costs some
 * milliseconds at most. */
static void look_for_cuda(struct aorta_cuda_search *search, pid_t root) {
    enum { MOST = 4096 };
    int64_t family[MOST];
    size_t count;
    aorta_machine_tree(root, family, MOST, &count);
    for (size_t i = 0; i < count && !search->driver_pid; i++) {
        const pid_t pid = (pid_t)family[i];
        if (!has_text(pid, "maps", '\n', "/libcuda.so", false)) continue;
        search->driver_pid = pid;
        search->dropped = !has_text(pid, "environ", '\0', AORTA_INJECT_DIRECTORY "=", true);
    }
}

/* ---- reading ---- */

static aorta_status read_one(const char *path, const struct aorta_trace_options *options,
                             struct aorta_trace_run_process *process, struct aorta_trace_list *traces) {
    struct aorta_trace_options lenient = {.recover = true};
    if (options) lenient.patterns = options->patterns, lenient.until_ns = options->until_ns;
    struct aorta_trace *trace = NULL;
    process->rank = -1;
    FILE *file = aorta_spool_stream(path);
    if (!file) return AORTA_ERROR(AORTA_IO, "%s: %s", path, strerror(errno));
    aorta_status status = aorta_spool_read(file, path, &lenient, &process->facts, &trace);
    fclose(file);
    if (status) return status;
    if (process->facts.work) {
        process->trace = trace;
        return aorta_trace_list_add(traces, trace);
    }
    aorta_trace_free(trace);
    return NULL;
}

static aorta_status read_all(const glob_t *found, const struct aorta_trace_options *options,
                             struct aorta_trace_run_record *record) {
    record->processes = calloc(found->gl_pathc + 1, sizeof *record->processes);
    if (!record->processes) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu processes", found->gl_pathc);
    for (size_t i = 0; i < found->gl_pathc; i++) {
        record->process_count++;
        AORTA_TRY(read_one(found->gl_pathv[i], options, &record->processes[i], &record->traces));
    }
    return NULL;
}

/* ---- ranks ---- */

static int compare_traces(const void *a, const void *b) {
    const struct aorta_trace *x = *(struct aorta_trace *const *)a, *y = *(struct aorta_trace *const *)b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static int compare_processes(const void *a, const void *b) {
    const struct aorta_trace_run_process *x = a, *y = b;
    if ((x->rank < 0) != (y->rank < 0)) return x->rank < 0 ? 1 : -1;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    int64_t i = x->facts.process.start_ns, j = y->facts.process.start_ns;
    return i < j ? -1 : i > j;
}

aorta_status aorta_trace_run_read(const char *directory, const struct aorta_trace_options *options,
                                  struct aorta_trace_run_record *record) {
    char pattern[2 * PATH_MAX + 16], *end = pattern;
    glob_t found;
    *record = (struct aorta_trace_run_record){0};
    if (strlen(directory) >= PATH_MAX) return AORTA_ERROR(AORTA_IO, "%s: the path is too long", directory);
    for (const char *c = directory; *c; *end++ = *c++)
        if (strchr("*?[]\\", *c)) *end++ = '\\';
    strcpy(end, "/*" AORTA_SPOOL_SUFFIX);
    int result = glob(pattern, 0, NULL, &found);
    if (result == GLOB_NOMATCH) return NULL;
    if (result != 0) return AORTA_ERROR(AORTA_IO, "%s: cannot be listed", directory);
    aorta_status status = read_all(&found, options, record);
    globfree(&found);
    if (status) return status;
    aorta_spool_number_ranks(&record->traces);
    for (size_t i = 0; i < record->process_count; i++)
        if (record->processes[i].trace) record->processes[i].rank = record->processes[i].trace->rank;
    if (record->traces.count)
        qsort(record->traces.items, record->traces.count, sizeof *record->traces.items, compare_traces);
    qsort(record->processes, record->process_count, sizeof *record->processes, compare_processes);
    return NULL;
}

void aorta_trace_run_record_free(struct aorta_trace_run_record *record) {
    for (size_t i = 0; i < record->process_count; i++) aorta_spool_facts_free(&record->processes[i].facts);
    free(record->processes);
    aorta_trace_list_free(&record->traces);
    *record = (struct aorta_trace_run_record){0};
}

/* ---- the summary ---- */

enum { COMMAND_SHOWN = 60 };

static void put_command(const struct aorta_spool_facts *facts, struct aorta_text *out) {
    bool cut = strlen(facts->command) > COMMAND_SHOWN;
    aorta_text_printf(out, "process %d", facts->process.pid);
    if (facts->command[0]) aorta_text_printf(out, " (%.*s%s)", COMMAND_SHOWN, facts->command, cut ? " …" : "");
}

static void put_version(const struct aorta_spool_process *process, struct aorta_text *out) {
    aorta_text_puts(out, aorta_cupti_version(process->cupti).text);
    if (process->driver)
        aorta_text_printf(out, ", driver for CUDA %u.%u", process->driver / 1000, process->driver % 1000 / 10);
}

static double seconds_before(int64_t from_ns, int64_t to_ns) {
    return (double)(to_ns - from_ns) * 1e-9;
}

/* Whether the process still runs and writes: the program may not have waited for it. */
static bool still_runs(const struct aorta_spool_facts *facts) {
    return facts->head.state == AORTA_SPOOL_RECORDING && facts->process.pid > 0 &&
           (kill(facts->process.pid, 0) == 0 || errno == EPERM);
}

static void put_ending(const struct aorta_spool_facts *facts, struct aorta_text *out) {
    int64_t begun_ns = facts->head.begun_ns ? facts->head.begun_ns : facts->process.start_ns;
    double until_s = seconds_before(begun_ns, facts->head.last_ns);
    double delay_s = seconds_before(facts->process.start_ns, begun_ns);
    if (delay_s >= 0.1) aorta_text_printf(out, "; recording began %.1f s after CUDA's start", delay_s);
    switch (facts->head.state) {
    case AORTA_SPOOL_RECORDING:
        if (still_runs(facts))
            aorta_text_puts(out, "; still runs: its later work is not in these figures");
        else
            aorta_text_puts(out, "; ended by a signal, exec or _exit: its last moments are missing");
        break;
    case AORTA_SPOOL_TAKEN:
        aorta_text_printf(out, "; recorded for %.1f s, then %s", until_s, facts->note);
        break;
    case AORTA_SPOOL_FAILED:
        aorta_text_printf(out, "; recorded for %.1f s, then writing failed: %s", until_s,
                          strerror((int)facts->head.result));
        break;
    case AORTA_SPOOL_FULL:
        aorta_text_printf(out, "; recorded for %.1f s, then its file was full (--limit-mb)", until_s);
        break;
    case AORTA_SPOOL_STOPPED:
        aorta_text_printf(out, "; recorded for %.1f s, as --duration says", until_s);
        break;
    }
    uint32_t parts = facts->process.parts;
    if ((parts & AORTA_SPOOL_PARTS_KNOWN) && !(parts & AORTA_SPOOL_WAITS))
        aorta_text_puts(out, parts & AORTA_SPOOL_LAUNCHES ? "; calls that wait were not recorded, as --record says"
                                                          : "; the host's calls were not recorded, as --record says");
    if (facts->note[0] && facts->head.state != AORTA_SPOOL_TAKEN) aorta_text_printf(out, "; %s", facts->note);
    if (facts->head.lost)
        aorta_text_printf(out, "; %llu records were lost, because they came faster than they could be written",
                          (unsigned long long)facts->head.lost);
    if (facts->cut_bytes) aorta_text_puts(out, "; the last record was cut");
}

void aorta_trace_run_describe(const struct aorta_trace_run_record *record, struct aorta_text *out) {
    for (size_t i = 0; i < record->process_count; i++) {
        const struct aorta_trace_run_process *process = &record->processes[i];
        if (process->rank < 0) continue;
        aorta_text_printf(out, "rank %d: ", process->rank);
        put_command(&process->facts, out);
        aorta_text_printf(out, ", %lld kernels and copies", (long long)process->facts.work);
        if (i == 0) {
            aorta_text_puts(out, ", ");
            put_version(&process->facts.process, out);
        }
        int32_t named = process->facts.process.rank;
        if (named >= 0 && named != process->rank)
            aorta_text_printf(out, "; calls itself rank %d, as another process with more work does", named);
        put_ending(&process->facts, out);
        aorta_text_append(out, "", 1);
    }
}

/* ---- nothing ---- */

static void put_why(const struct aorta_spool_facts *facts, struct aorta_text *out) {
    const char *advice = aorta_cupti_advice(facts->head.result);
    put_command(facts, out);
    switch (facts->head.state) {
    case AORTA_SPOOL_MISSING:
        aorta_text_printf(out,
                          " uses CUDA, but no libcupti that suits it was found (%s). Install it (pip install "
                          "nvidia-cuda-cupti-cu12 or nvidia-cuda-cupti, or the toolkit's package cuda-cupti-13-0), or "
                          "name one with --cupti FILE",
                          facts->note);
        break;
    case AORTA_SPOOL_REFUSED:
        aorta_text_printf(out, ": CUPTI (%s) refused to record: %s%s%s", facts->library, facts->note,
                          advice ? ": " : "", advice ? advice : "");
        break;
    case AORTA_SPOOL_TAKEN:
        aorta_text_printf(out,
                          ": %s; only one profiler can have it. Run the program without its own profiler "
                          "(torch.profiler, Nsight Systems, DCGM profiling), or analyze the trace which that one "
                          "writes (aorta trace analyze)",
                          facts->note);
        break;
    case AORTA_SPOOL_FAILED:
        aorta_text_printf(out, ": nothing could be written: %s (-o names another place)",
                          strerror((int)facts->head.result));
        break;
    default:
        aorta_text_printf(out, " initialized CUDA, but no kernel, copy or fill ended while it was recorded%s%s",
                          facts->note[0] ? "; " : "", facts->note);
    }
    aorta_text_append(out, "", 1);
}

static void put_unseen(const struct aorta_cuda_search *search, struct aorta_text *out) {
    if (!search->driver_pid) {
        aorta_text_puts(out,
                        "no process of the program loaded CUDA's driver (libcuda.so.1): the program ran on the CPU, "
                        "or ended at once. For PyTorch see torch.cuda.is_available(); `aorta info` shows which "
                        "devices are there");
        return;
    }
    aorta_text_printf(out, "process %d loaded CUDA's driver, but the driver did not load the recording library: ",
                      (int)search->driver_pid);
    if (search->dropped)
        aorta_text_puts(out, "CUDA_INJECTION64_PATH had been taken out of its environment. sudo, env -i, ssh, srun and "
                             "containers do that: pass the variables on, or start `aorta trace run` inside");
    else
        aorta_text_puts(out, "the driver was never initialized (cuInit), or the process has more rights than its user "
                             "(setuid), in which case the driver ignores CUDA_INJECTION64_PATH");
}

void aorta_trace_run_explain_nothing(const struct aorta_trace_run_record *record,
                                     const struct aorta_trace_run_result *result, struct aorta_text *out) {
    aorta_text_puts(out, "no GPU activity was recorded: ");
    for (size_t i = 0; i < record->process_count; i++) put_why(&record->processes[i].facts, out);
    if (record->process_count) return;
    put_unseen(&result->search, out);
    aorta_text_append(out, "", 1);
}

/* ---- the run ---- */

enum { LOOK_NS = 100000000, LOOKS_AT_FIRST = 20, LOOK_EVERY = 20 };

static const int passed_on[] = {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGINT, SIGQUIT};

static _Noreturn void become(const struct aorta_trace_run_options *options, const sigset_t *mask) {
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* should this process be killed */
    sigprocmask(SIG_SETMASK, mask, NULL);
    if (options->output_to_error) dup2(STDERR_FILENO, STDOUT_FILENO);
    for (size_t i = 0; i < options->variable_count; i++)
        setenv(options->variables[i].name, options->variables[i].value, 1);
    execvp(options->command[0], options->command);
    int error = errno;
    fprintf(stderr, "aorta trace run: %s: %s\n", options->command[0], strerror(error));
    _exit(error == ENOENT ? 127 : 126); /* as shells do */
}

static bool any_spool(const char *directory) {
    char pattern[4096];
    static const char *const levels[] = {"", "window-*/"};
    bool any = false;
    for (size_t i = 0; i < sizeof levels / sizeof *levels && !any; i++) {
        glob_t found;
        snprintf(pattern, sizeof pattern, "%s/%s*" AORTA_SPOOL_SUFFIX, directory, levels[i]);
        any = glob(pattern, GLOB_NOSORT, NULL, &found) == 0;
        globfree(&found);
    }
    return any;
}

/* Often at first, for short programs, then seldom; no more once something is recorded. */
static void watch(const struct aorta_trace_run_options *options, pid_t child, int round,
                  struct aorta_cuda_search *search) {
    if (!options->spools || search->driver_pid) return;
    if (round > LOOKS_AT_FIRST && round % LOOK_EVERY) return;
    if (!any_spool(options->spools)) look_for_cuda(search, child);
}

static void pass_on(pid_t child, const siginfo_t *info) {
    bool terminals = (info->si_signo == SIGINT || info->si_signo == SIGQUIT) && info->si_code == SI_KERNEL;
    if (info->si_signo != SIGCHLD && !terminals) kill(child, info->si_signo);
}

/* Processor seconds of all descendants that have ended and were waited for. */
static double children_s(void) {
    struct rusage usage;
    if (getrusage(RUSAGE_CHILDREN, &usage)) return NAN;
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static aorta_status wait_for(const struct aorta_trace_run_options *options, pid_t child, const sigset_t *watched,
                             struct aorta_machine_watch *machine, struct aorta_trace_run_result *result) {
    const struct timespec pause = {.tv_nsec = LOOK_NS};
    int wait_status = 0;
    pid_t ended = 0;
    for (int round = 0; ended == 0; round++) {
        siginfo_t info;
        if (sigtimedwait(watched, &info, &pause) > 0) pass_on(child, &info);
        ended = waitpid(child, &wait_status, WNOHANG);
        if (ended == 0) watch(options, child, round, &result->search);
        if (ended == 0) aorta_machine_watch_look(machine);
    }
    if (ended < 0) return AORTA_ERROR(AORTA_INTERNAL, "waitpid: %s", strerror(errno));
    result->signal = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;
    result->exit_code = result->signal ? 128 + result->signal : WEXITSTATUS(wait_status);
    return NULL;
}

/* If the machine's readings cannot be written, the recording still goes on. */
static aorta_status wait_watching(const struct aorta_trace_run_options *options, pid_t child, const sigset_t *watched,
                                  struct aorta_trace_run_result *result) {
    struct aorta_machine_watch *machine = NULL;
    const double before_s = children_s();
    aorta_status unwatched =
        options->machine ? aorta_machine_watch_open(options->machine, child, true, &machine) : NULL;
    if (unwatched)
        fprintf(stderr, "aorta trace run: the machine is not watched: %s\n", aorta_status_message(unwatched));
    aorta_status_free(unwatched);
    aorta_status status = wait_for(options, child, watched, machine, result);
    aorta_machine_watch_close(machine, status ? NAN : children_s() - before_s);
    return status;
}

aorta_status aorta_trace_run_program(const struct aorta_trace_run_options *options,
                                     struct aorta_trace_run_result *result) {
    sigset_t watched, former;
    *result = (struct aorta_trace_run_result){0};
    sigemptyset(&watched);
    sigaddset(&watched, SIGCHLD);
    for (size_t i = 0; i < sizeof passed_on / sizeof *passed_on; i++) sigaddset(&watched, passed_on[i]);
    fflush(NULL);
    sigprocmask(SIG_BLOCK, &watched, &former);
    pid_t child = fork();
    if (child == 0) become(options, &former);
    aorta_status status = NULL, started = NULL;
    if (child < 0) {
        status = AORTA_ERROR(AORTA_IO, "cannot start %s: %s", options->command[0], strerror(errno));
    } else {
        if (options->started) started = options->started(options->user);
        status = wait_watching(options, child, &watched, result);
    }
    status = aorta_status_join(status, started);
    sigprocmask(SIG_SETMASK, &former, NULL);
    return status;
}
