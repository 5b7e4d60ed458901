#include "cli/train_finish.h"
#include "base/lines.h"
#include "base/thread.h"
#include "cli/cli.h"
#include "comm/comm.h"
#include "report/report.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

/* ---- signals ---- */

struct watch {
    const struct aorta_train_finish *finish;
    pthread_t thread;
    bool started;
    atomic_bool over;
};

/* Programs that are started do not inherit a handler, as they would that a signal is ignored. */
static void no_death(int signal) {
    (void)signal;
}

void aorta_train_finish_prepare(void) {
    sigset_t set = aorta_ending_signals();
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    sigaction(SIGPIPE, &(struct sigaction){.sa_handler = no_death, .sa_flags = SA_RESTART}, NULL);
}

static bool is_ignored(int signal) {
    struct sigaction action;
    return sigaction(signal, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

static void say_unfinished(const struct aorta_train_finish *finish, int signal) {
    if (!finish->rank_0) return;
    const char *directory = finish->directory;
    if (finish->report)
        aorta_log(finish->log, AORTA_LOG_ERROR,
                  "%s: the report is not finished; the metrics in %s are complete: aorta report --log-dir %s",
                  strsignal(signal), directory, directory);
    else
        aorta_log(finish->log, AORTA_LOG_ERROR, "%s at the end of the run; the files in %s are complete",
                  strsignal(signal), directory);
}

static void *wait_for_signal(void *user) {
    struct watch *watch = user;
    sigset_t set = aorta_ending_signals();
    for (;;) {
        int signal = 0;
        if (sigwait(&set, &signal)) continue;
        if (atomic_load(&watch->over)) return NULL;
        if (is_ignored(signal)) continue;
        say_unfinished(watch->finish, signal);
        pthread_sigmask(SIG_UNBLOCK, &set, NULL);
        raise(signal); /* its action ends the process */
    }
}

static void watch_begin(struct watch *watch) {
    watch->started = aorta_thread_start(&watch->thread, wait_for_signal, watch) == 0;
    if (watch->started) return;
    sigset_t set = aorta_ending_signals();
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* What comes now changes nothing any more: the signals stay blocked until the process ends. */
static void watch_end(struct watch *watch) {
    if (!watch->started) return;
    atomic_store(&watch->over, true);
    pthread_kill(watch->thread, SIGTERM);
    pthread_join(watch->thread, NULL);
}

/* ---- the end ---- */

static aorta_status report(const struct aorta_train_finish *finish) {
    struct aorta_text text = {0};
    aorta_status status =
        aorta_report_after_run(finish->directory, NULL, aorta_terminal_width(stdout), finish->log, &text);
    if (!status)
        status = aorta_cli_print_text(&text);
    else
        aorta_text_free(&text);
    if (!status) return NULL;
    return aorta_annotate(status, "the metrics in %s are complete, the report is not", finish->directory);
}

aorta_status aorta_train_finish(const struct aorta_train_finish *finish) {
    struct watch watch = {.finish = finish};
    struct aorta_leave *leave;
    watch_begin(&watch);
    aorta_status left = aorta_comm_leave_begin(finish->ranks, finish->timeout_s, &leave);
    aorta_status status = finish->report ? report(finish) : NULL;
    left = aorta_status_join(left, aorta_leave_end(leave));
    watch_end(&watch);
    if (!left) return status;
    if (status) aorta_log(finish->log, AORTA_LOG_ERROR, "%s", aorta_status_message(status));
    aorta_status_free(status);
    aorta_log(finish->log, AORTA_LOG_ERROR, "%s", aorta_status_message(left));
    aorta_comm_abort(NULL, aorta_code_exit(aorta_status_code(left)));
}
