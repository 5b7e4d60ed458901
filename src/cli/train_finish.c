#include "cli/train_finish.h"
#include "base/lines.h"
#include "base/signals.h"
#include "base/thread.h"
#include "cli/cli.h"
#include "comm/comm.h"
#include "report/report.h"

#include <signal.h>
#include <string.h>

/* ---- signals ---- */

void aorta_train_finish_prepare(void) {
    sigset_t set = aorta_ending_signals();
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    aorta_cli_outlive_readers();
}

/* A signal that comes here ends the process. */
static bool say_unfinished(void *user, int signal) {
    const struct aorta_train_finish *finish = user;
    if (!finish->rank_0) return true;
    const char *directory = finish->directory;
    if (finish->report)
        aorta_log(finish->log, AORTA_LOG_ERROR,
                  "%s: the report is not finished; the metrics in %s are complete: aorta report --log-dir %s",
                  strsignal(signal), directory, directory);
    else
        aorta_log(finish->log, AORTA_LOG_ERROR, "%s at the end of the run; the files in %s are complete",
                  strsignal(signal), directory);
    return true;
}

static void unblock_signals(void) {
    sigset_t set = aorta_ending_signals();
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* ---- the end ---- */

static aorta_status report(const struct aorta_train_finish *finish) {
    const struct aorta_verdict_style style = {.width = aorta_terminal_width(stdout), .answer = finish->quiet};
    struct aorta_text text = {0};
    aorta_status status = aorta_report_after_run(finish->directory, NULL, &style, finish->log, &text);
    if (text.length) status = aorta_status_join(status, aorta_cli_print_text(&text));
    aorta_text_free(&text);
    if (!status) return NULL;
    status = aorta_annotate(status, "the metrics in %s are complete, the report is not", finish->directory);
    if (aorta_code_exit(aorta_status_code(status)) != 2) return status;
    /* No mistake of the user: the folder is gone by now. */
    aorta_status failed = AORTA_ERROR(AORTA_IO, "%s", aorta_status_message(status));
    aorta_status_free(status);
    return failed;
}

aorta_status aorta_train_finish(const struct aorta_train_finish *finish) {
    struct aorta_signals *signals = NULL;
    struct aorta_leave *leave;
    aorta_status blind = aorta_signals_begin(say_unfinished, (void *)finish, &signals);
    if (blind) unblock_signals();
    aorta_status_free(blind);
    aorta_status left = aorta_comm_leave_begin(finish->ranks, finish->timeout_s, &leave);
    aorta_status status = finish->report ? report(finish) : NULL;
    left = aorta_status_join(left, aorta_leave_end(leave));
    aorta_signals_end(signals); /* what comes now changes nothing any more: they stay blocked until the process ends */
    if (!left) return status;
    if (status) aorta_log(finish->log, AORTA_LOG_ERROR, "%s", aorta_status_message(status));
    aorta_status_free(status);
    aorta_log(finish->log, AORTA_LOG_ERROR, "%s", aorta_status_message(left));
    aorta_comm_abort(NULL, aorta_code_exit(aorta_status_code(left)));
}
