/* Gates that threads wait at, and events made of them. */
#include "base/clock.h"
#include "device/cpu/cpu.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- gates ----
 * Waiting without a lock: the word says whether anybody sleeps, so that opening an unwatched gate costs one exchange.
 * futex(2), and "Futexes Are Tricky" (Drepper, 2011), section 5. */

enum { SHUT, SHUT_AND_WATCHED, OPEN };

void aorta_cpu_gate_shut(struct gate *gate) {
    atomic_store_explicit(&gate->state, SHUT, memory_order_relaxed);
}

void aorta_cpu_gate_open(struct gate *gate) {
    if (atomic_exchange_explicit(&gate->state, OPEN, memory_order_release) == SHUT_AND_WATCHED)
        syscall(SYS_futex, &gate->state, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static bool is_gate_open(struct gate *gate) {
    return atomic_load_explicit(&gate->state, memory_order_acquire) == OPEN;
}

void aorta_cpu_gate_wait(struct gate *gate) {
    while (!is_gate_open(gate)) {
        uint32_t shut = SHUT;
        if (!atomic_compare_exchange_strong(&gate->state, &shut, SHUT_AND_WATCHED) && shut == OPEN) continue;
        syscall(SYS_futex, &gate->state, FUTEX_WAIT_PRIVATE, SHUT_AND_WATCHED, NULL, NULL, 0);
    }
}

/* ---- marks ---- */

struct mark *aorta_cpu_mark_make(void) {
    struct mark *mark = calloc(1, sizeof *mark);
    if (mark) mark->references = 1;
    return mark;
}

struct mark *aorta_cpu_mark_retain(struct mark *mark) {
    atomic_fetch_add_explicit(&mark->references, 1, memory_order_relaxed);
    return mark;
}

void aorta_cpu_mark_release(struct mark *mark) {
    if (!mark || atomic_fetch_sub_explicit(&mark->references, 1, memory_order_acq_rel) > 1) return;
    aorta_status_free(mark->failure);
    free(mark);
}

void aorta_cpu_mark_reach(struct mark *mark, aorta_status failure) {
    mark->failure = aorta_status_copy(failure);
    mark->time_ns = aorta_clock_ns();
    aorta_cpu_gate_open(&mark->reached);
}

/* ---- events ---- */

/* Queued records and waits hold marks of their own, so the event may go before they are reached. */
void aorta_cpu_event_end(struct aorta_event *event) {
    aorta_cpu_mark_release(cpu_event(event)->latest);
}

static aorta_status record_queued(struct cpu_event *event, struct cpu_stream *stream) {
    struct mark *mark = aorta_cpu_mark_make();
    if (!mark) return AORTA_ERROR(AORTA_MEMORY, "no host memory to record an event on stream %s", stream->base.name);
    struct command command = {.kind = COMMAND_RECORD, .as.mark = aorta_cpu_mark_retain(mark)};
    aorta_status status = aorta_cpu_queue_push(&stream->queue, &command, NULL, 0);
    if (status) {
        aorta_cpu_mark_release(mark);
        aorta_cpu_mark_release(mark);
        return status;
    }
    aorta_cpu_mark_release(event->latest);
    event->latest = mark;
    return NULL;
}

aorta_status aorta_cpu_event_record(struct aorta_event *event, struct aorta_stream *stream) {
    return stream->branch ? aorta_cpu_capture_record(stream, cpu_event(event))
                          : record_queued(cpu_event(event), cpu_stream(stream));
}

static aorta_status wait_queued(struct cpu_stream *stream, struct mark *mark) {
    if (is_gate_open(&mark->reached) && !mark->failure) return NULL;
    struct command command = {.kind = COMMAND_WAIT, .as.mark = aorta_cpu_mark_retain(mark)};
    aorta_status status = aorta_cpu_queue_push(&stream->queue, &command, NULL, 0);
    if (status) aorta_cpu_mark_release(mark);
    return status;
}

aorta_status aorta_cpu_stream_wait(struct aorta_stream *stream, struct aorta_event *event) {
    const struct command command = {.kind = COMMAND_WAIT, .as.mark = cpu_event(event)->latest};
    if (stream->branch) return aorta_cpu_capture_append(stream, &command, NULL, 0);
    return wait_queued(cpu_stream(stream), cpu_event(event)->latest);
}

aorta_status aorta_cpu_event_synchronize(struct aorta_event *event) {
    pthread_mutex_lock(&event->lock);
    struct mark *mark = aorta_cpu_mark_retain(cpu_event(event)->latest);
    pthread_mutex_unlock(&event->lock);
    aorta_cpu_gate_wait(&mark->reached);
    aorta_status status = aorta_status_copy(mark->failure);
    aorta_cpu_mark_release(mark);
    return status;
}

bool aorta_cpu_event_done(struct aorta_event *event) {
    return is_gate_open(&cpu_event(event)->latest->reached);
}

aorta_status aorta_cpu_event_time(struct aorta_event *event, int64_t *time_ns) {
    const struct mark *mark = cpu_event(event)->latest;
    if (!aorta_cpu_event_done(event))
        return AORTA_ERROR(AORTA_DEVICE, "the event has no time yet: stream %s has not reached it", event->recorded_on);
    *time_ns = mark->time_ns;
    return aorta_status_copy(mark->failure);
}
