/* Waiting for messages without taking the processor from compute.
 *
 * MPI moves data only inside its calls, so a thread has to poll. A thread that polls all the time takes the core from
 * compute; one that sleeps long leaves the link idle between the pieces of a message. So it polls again at once after a
 * poll that did work and for a moment afterwards, then sleeps in growing steps. Yielding would be worse for both: on a
 * busy core the thread loses its turn, which is milliseconds, while a thread that slept for 20 µs runs at once when it
 * wakes. (So mpi_yield_when_idle is left to Open MPI, which sets it for more ranks than cores.) */
#include "comm/mpi_internal.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#define WORKED_NS 30000 /* processor time of a poll that moved data; an idle one needs 1 to 10 µs */
#define POLL_NS 10000   /* after the last work, polls follow each other for so long */
#define SLEEP_FIRST_NS 20000
#define SLEEP_LAST_NS 250000
#define TIMER_SLACK_NS 1000 /* Linux's default of 50 µs would more than double the short sleeps */

static int64_t thread_time_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* `idle_ns`: since when nothing has moved. The sleep is a sixteenth of that, within its bounds: a long wait gets no
 * more than that much longer by it, and costs some 3% of a core. */
static void back_off(int64_t idle_ns) {
    if (idle_ns < POLL_NS) return;
    int64_t sleep_ns = idle_ns / 16;
    if (sleep_ns < SLEEP_FIRST_NS) sleep_ns = SLEEP_FIRST_NS;
    if (sleep_ns > SLEEP_LAST_NS) sleep_ns = SLEEP_LAST_NS;
    nanosleep(&(struct timespec){.tv_nsec = sleep_ns}, NULL);
}

aorta_status mpi_check(const struct mpi_api *api, int error, const char *function) {
    if (error == MPI_SUCCESS) return NULL;
    char text[MPI_MAX_ERROR_STRING];
    int length;
    /* Before MPI_Init and after MPI_Finalize MPI ends the process that asks. */
    if (!mpi_joined(api) || api->Error_string(error, text, &length) != MPI_SUCCESS)
        length = snprintf(text, sizeof text, "it failed");
    return AORTA_ERROR(AORTA_COMM, "%s: %.*s (error %d)", function, length, text, error);
}

aorta_status mpi_wait(struct mpi_requests *requests, double timeout_s) {
    const int64_t start_ns = aorta_clock_ns();
    int64_t worked_ns = start_ns, before_ns = thread_time_ns();
    prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
    for (;;) {
        int done = 0;
        int error = requests->api->Testall(requests->count, requests->items, &done, MPI_STATUSES_IGNORE);
        AORTA_TRY(mpi_check(requests->api, error, "MPI_Testall"));
        if (done) break;
        int64_t after_ns = thread_time_ns(), now_ns = aorta_clock_ns();
        double waited_s = (double)(now_ns - start_ns) * 1e-9;
        if (waited_s > timeout_s) return AORTA_ERROR(AORTA_TIMEOUT, "waited %.1f s for its peers", waited_s);
        if (after_ns - before_ns > WORKED_NS)
            worked_ns = now_ns;
        else
            back_off(now_ns - worked_ns);
        before_ns = thread_time_ns();
    }
    requests->count = 0;
    return NULL;
}

MPI_Request *mpi_request_add(struct mpi_requests *requests) {
    if (requests->count == requests->capacity) {
        int capacity = requests->capacity ? 2 * requests->capacity : 16;
        MPI_Request *grown = realloc(requests->items, (size_t)capacity * sizeof *grown);
        if (!grown) return NULL;
        requests->items = grown;
        requests->capacity = capacity;
    }
    MPI_Request *added = &requests->items[requests->count++];
    *added = requests->api->request_null;
    return added;
}
