/* How a launcher's job ended, in words. */
#include "job/launch_internal.h"

#include "base/clock.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* mpirun continues a stopped rank in order to end it, perhaps before the launcher has seen which rank failed. */
#define STOPPED_NS (3 * (int64_t)STATE_NS)

/* "rank 1 (process 4711)" */
static const char *name_stopped(const struct stop *stop, char text[64]) {
    if (stop->rank < 0)
        snprintf(text, 64, "mpirun (process %d)", (int)stop->pid);
    else
        snprintf(text, 64, "%srank %d (process %d)", stop->wrapper ? "the wrapper of " : "", stop->rank,
                 (int)stop->pid);
    return text;
}

void job_report_stopped(struct stop *stop, int64_t limit_ns) {
    char name[64];
    if (stop->reported) return;
    stop->reported = true;
    fprintf(stderr, "aorta launch: %s is stopped (SIGSTOP, or a debugger)", name_stopped(stop, name));
    if (limit_ns > 0) fprintf(stderr, "; the job ends if it does not go on within %.0f s", (double)limit_ns * 1e-9);
    fputs(".\n", stderr);
}

static void report_operation(const struct aorta_beacon_state *state) {
    if (state->step >= 0) fprintf(stderr, ", in step %lld", (long long)state->step);
    if (!state->reported_ns) {
        if (!state->failed_ns) fprintf(stderr, "; it had reported no operation");
        return;
    }
    int64_t until_ns = state->ended ? state->ended_ns : aorta_clock_ns();
    double ago_s = (double)(until_ns - state->reported_ns) * 1e-9;
    /* The ended process can be a script around the rank, which went on until it was ended with the other ranks. */
    fprintf(stderr, "; last operation, begun %.1f s %s: %s", fabs(ago_s), ago_s < 0 ? "after that" : "before",
            state->text);
}

/* It ended as the user had asked, so its last operation explains nothing. */
static bool ended_as_asked(const struct job *job, const struct aorta_beacon_state *state) {
    return job->signals && WIFEXITED(state->wait_status) && state->ended_ns > job->signal_ns;
}

static bool all_ended_so(const struct job *job, int wait_status) {
    for (int rank = 0; rank < job->options->ranks; rank++) {
        struct aorta_beacon_state state = aorta_beacon_read(job->beacon, rank);
        if (!state.ended || state.wait_status != wait_status) return false;
    }
    return true;
}

static void report_failure(const struct job *job, int rank, const struct aorta_beacon_state *state) {
    if (ended_as_asked(job, state)) {
        fputs("aorta launch: interrupted; ", stderr);
        if (all_ended_so(job, state->wait_status))
            fputs(job->options->ranks > 1 ? "the ranks" : "the rank", stderr);
        else
            fprintf(stderr, "rank %d", rank);
        fprintf(stderr, " ended with exit status %d.\n", WEXITSTATUS(state->wait_status));
        return;
    }
    if (WIFSIGNALED(state->wait_status)) {
        int signal = WTERMSIG(state->wait_status);
        fprintf(stderr, "aorta launch: rank %d %s by signal %d (%s)", rank,
                state->failed_ns ? "failed, and was ended" : "was ended", signal, strsignal(signal));
    } else {
        fprintf(stderr, "aorta launch: rank %d ended with exit status %d", rank, WEXITSTATUS(state->wait_status));
    }
    /* A wrong command line or configuration: nothing had begun, and the rank has printed the error. */
    bool mistake = WIFEXITED(state->wait_status) && WEXITSTATUS(state->wait_status) == 2;
    if (!mistake || state->reported_ns) report_operation(state);
    bool ended_others = job->options->ranks > 1 && !job->signals;
    fprintf(stderr, "%s\n", ended_others ? ". The other ranks were ended." : ".");
    if (!job->stop.pid || job->stop.rank == rank || state->ended_ns > job->stop.seen_ns + STOPPED_NS) return;
    char name[64];
    fprintf(stderr, "aorta launch: %s was stopped (SIGSTOP, or a debugger), and the other ranks waited for it.\n",
            name_stopped(&job->stop, name));
}

static void report_stopped_out(const struct job *job) {
    const struct stop *stop = &job->stop;
    char name[64];
    fprintf(stderr, "aorta launch: %s was stopped (SIGSTOP, or a debugger) for %.1f s, and the job was ended",
            name_stopped(stop, name), (double)(stop->seen_ns - stop->since_ns) * 1e-9);
    if (stop->rank >= 0) {
        struct aorta_beacon_state state = aorta_beacon_read(job->beacon, stop->rank);
        report_operation(&state);
    }
    fputs(".\n", stderr);
}

static void report_lost(const struct job *job) {
    struct aorta_beacon_state state = aorta_beacon_read(job->beacon, job->lost);
    fprintf(stderr, "aorta launch: rank %d was lost: its wrapper", job->lost);
    if (state.group) fprintf(stderr, " (process %d)", state.group);
    fputs(" ended", stderr);
    if (!job->mpirun[0]) fprintf(stderr, " with exit status %d", job->child_failure);
    fputs(", and the rank with it", stderr);
    report_operation(&state);
    fprintf(stderr, "%s\n", job->options->ranks > 1 ? ". The other ranks were ended." : ".");
}

static void report_timeout(const struct job *job) {
    fprintf(stderr, "aorta launch: the job did not end within %g s (--timeout-s) and was ended\n",
            job->options->timeout_s);
    for (int rank = 0; rank < job->options->ranks; rank++) {
        struct aorta_beacon_state state = aorta_beacon_read(job->beacon, rank);
        fprintf(stderr, "aorta launch: rank %d", rank);
        report_operation(&state);
        fputs(".\n", stderr);
    }
}

/* Signals that the user sends through us, and the one that follows. */
static bool is_ending_signal(int wait_status) {
    if (!WIFSIGNALED(wait_status)) return false;
    const int signal = WTERMSIG(wait_status);
    return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGKILL;
}

static int at_least_1(int exit_code) {
    return exit_code ? exit_code : 1;
}

/* No rank failed first, and yet not all ended with 0. */
static int report_end(const struct job *job) {
    if (job->signals)
        fputs("aorta launch: interrupted before all ranks had started.\n", stderr);
    else
        fprintf(stderr, "aorta launch: %s ended with exit status %d before all ranks had started\n",
                job->mpirun[0] ? job->mpirun : "a wrapper", job->child_failure);
    return at_least_1(job->child_failure);
}

int job_report(const struct job *job) {
    struct aorta_beacon_state state;
    if (job->stuck)
        fputs("aorta launch: all ranks have ended and mpirun did not (a connection to one of its ports that sends "
              "nothing "
              "holds it up): it was ended; the ranks' last output may be missing\n",
              stderr);
    if (job->timed_out) {
        report_timeout(job);
        return 1;
    }
    if (job->stopped_out) {
        report_stopped_out(job);
        return 1;
    }
    if (job->lost >= 0 && !job->signals) {
        report_lost(job);
        return at_least_1(job->child_failure);
    }
    int rank = job_first_failure(job, &state);
    if (rank >= 0 && job->signals && is_ending_signal(state.wait_status)) {
        fprintf(stderr, "aorta launch: interrupted; the ranks were ended by signal %d (%s).\n",
                WTERMSIG(state.wait_status), strsignal(WTERMSIG(state.wait_status)));
        return job_exit_code(state.wait_status);
    }
    if (rank >= 0) {
        report_failure(job, rank, &state);
        return job_exit_code(state.wait_status);
    }
    return job_all_ended_ns(job) ? 0 : report_end(job);
}
