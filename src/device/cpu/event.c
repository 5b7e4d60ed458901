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

void aorta_cpu_futex_sleep(_Atomic uint32_t *word, uint32_t value) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

void aorta_cpu_futex_wake(_Atomic uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void aorta_cpu_gate_shut(struct gate *gate) {
    atomic_store_explicit(&gate->state, SHUT, memory_order_relaxed);
}

void aorta_cpu_gate_open(struct gate *gate) {
    if (atomic_exchange_explicit(&gate->state, OPEN, memory_order_release) == SHUT_AND_WATCHED)
        aorta_cpu_futex_wake(&gate->state);
}

static bool is_gate_open(struct gate *gate) {
    return atomic_load_explicit(&gate->state, memory_order_acquire) == OPEN;
}

void aorta_cpu_gate_wait(struct gate *gate) {
    while (!is_gate_open(gate)) {
        uint32_t shut = SHUT;
        if (!atomic_compare_exchange_strong(&gate->state, &shut, SHUT_AND_WATCHED) && shut == OPEN) continue;
        aorta_cpu_futex_sleep(&gate->state, SHUT_AND_WATCHED);
    }
}

/* ---- marks ---- */

void aorta_cpu_mark_pool_create(struct mark_pool *pool) {
    *pool = (struct mark_pool){0};
    pthread_mutex_init(&pool->lock, NULL);
}

void aorta_cpu_mark_pool_destroy(struct mark_pool *pool) {
    while (pool->free) {
        struct mark *mark = pool->free;
        pool->free = mark->next;
        free(mark);
    }
    pthread_mutex_destroy(&pool->lock);
}

struct mark *aorta_cpu_mark_take(struct mark_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    struct mark *mark = pool->free;
    if (mark) pool->free = mark->next;
    pthread_mutex_unlock(&pool->lock);
    if (!mark) mark = calloc(1, sizeof *mark);
    if (!mark) return NULL;
    aorta_cpu_gate_shut(&mark->reached);
    mark->time_ns = 0;
    mark->next = NULL;
    atomic_store_explicit(&mark->references, 1, memory_order_relaxed);
    return mark;
}

struct mark *aorta_cpu_mark_retain(struct mark *mark) {
    atomic_fetch_add_explicit(&mark->references, 1, memory_order_relaxed);
    return mark;
}

void aorta_cpu_mark_release(struct mark_pool *pool, struct mark *mark) {
    if (!mark || atomic_fetch_sub_explicit(&mark->references, 1, memory_order_acq_rel) > 1) return;
    aorta_status_free(mark->failure);
    mark->failure = NULL;
    pthread_mutex_lock(&pool->lock);
    mark->next = pool->free;
    pool->free = mark;
    pthread_mutex_unlock(&pool->lock);
}

void aorta_cpu_mark_reach(struct mark *mark, aorta_status failure) {
    mark->failure = aorta_status_copy(failure);
    mark->time_ns = aorta_clock_ns();
    aorta_cpu_gate_open(&mark->reached);
}

/* ---- events ---- */

/* Queued records and waits hold marks of their own, so the event may go before they are reached. */
void aorta_cpu_event_end(struct aorta_event *event) {
    aorta_cpu_mark_release(marks_of(event->device), cpu_event(event)->latest);
}

static aorta_status record_queued(struct cpu_event *event, struct cpu_stream *stream) {
    struct mark_pool *pool = marks_of(event->base.device);
    struct mark *mark = aorta_cpu_mark_take(pool);
    if (!mark) return AORTA_ERROR(AORTA_MEMORY, "no host memory to record an event on stream %s", stream->base.name);
    struct command command = {.kind = COMMAND_RECORD, .as.mark = aorta_cpu_mark_retain(mark)};
    aorta_status status = aorta_cpu_queue_push(&stream->queue, &command, NULL, 0);
    if (status) {
        aorta_cpu_mark_release(pool, mark);
        aorta_cpu_mark_release(pool, mark);
        return status;
    }
    aorta_cpu_mark_release(pool, event->latest);
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
    if (status) aorta_cpu_mark_release(marks_of(stream->base.device), mark);
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
    aorta_cpu_mark_release(marks_of(event->device), mark);
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
