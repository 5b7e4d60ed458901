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

aorta_status aorta_cpu_event_create(struct aorta_device *device, struct aorta_event **event) {
    struct cpu_event *made = calloc(1, sizeof *made);
    if (!made) return AORTA_ERROR(AORTA_MEMORY, "no host memory for an event");
    made->base.device = device;
    pthread_mutex_init(&made->lock, NULL);
    *event = &made->base;
    return NULL;
}

static void forget_capture(struct cpu_event *event) {
    if (!event->capture) return;
    aorta_cpu_capture_release(event->capture);
    event->capture = NULL;
    free(event->reach.counts);
    event->reach = (struct reach){0};
}

/* Queued records and waits hold marks of their own, so the event may go before they are reached. */
void aorta_cpu_event_destroy(struct aorta_event *base) {
    struct cpu_event *event = cpu_event(base);
    forget_capture(event);
    aorta_cpu_mark_release(marks_of(base->device), event->latest);
    pthread_mutex_destroy(&event->lock);
    free(event);
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
    forget_capture(event);
    return NULL;
}

aorta_status aorta_cpu_event_record(struct aorta_event *base, struct aorta_stream *stream_base) {
    struct cpu_event *event = cpu_event(base);
    struct cpu_stream *stream = cpu_stream(stream_base);
    pthread_mutex_lock(&event->lock);
    aorta_status status =
        stream->branch ? aorta_cpu_capture_record(stream->branch, event) : record_queued(event, stream);
    if (!status) memcpy(event->recorded_on, stream_base->name, sizeof event->recorded_on);
    pthread_mutex_unlock(&event->lock);
    return status;
}

static aorta_status wait_queued(struct cpu_stream *stream, struct mark *mark) {
    if (!mark || (is_gate_open(&mark->reached) && !mark->failure)) return NULL;
    struct command command = {.kind = COMMAND_WAIT, .as.mark = aorta_cpu_mark_retain(mark)};
    aorta_status status = aorta_cpu_queue_push(&stream->queue, &command, NULL, 0);
    if (status) aorta_cpu_mark_release(marks_of(stream->base.device), mark);
    return status;
}

aorta_status aorta_cpu_stream_wait(struct aorta_stream *stream_base, struct aorta_event *base) {
    struct cpu_event *event = cpu_event(base);
    struct cpu_stream *stream = cpu_stream(stream_base);
    pthread_mutex_lock(&event->lock);
    bool captured = event->capture || (stream->branch && event->latest);
    aorta_status status = captured ? aorta_cpu_capture_wait(stream, event) : wait_queued(stream, event->latest);
    pthread_mutex_unlock(&event->lock);
    return status;
}

aorta_status aorta_cpu_event_synchronize(struct aorta_event *base) {
    struct cpu_event *event = cpu_event(base);
    aorta_status status = NULL;
    struct mark *mark = NULL;
    pthread_mutex_lock(&event->lock);
    if (event->capture) {
        status = aorta_capture_only_orders(event->recorded_on);
        if (event->capture->state.active) status = aorta_capture_break(&event->capture->state, status);
    } else if (event->latest) {
        mark = aorta_cpu_mark_retain(event->latest);
    }
    pthread_mutex_unlock(&event->lock);
    if (!mark) return status;
    aorta_cpu_gate_wait(&mark->reached);
    status = aorta_status_copy(mark->failure);
    aorta_cpu_mark_release(marks_of(base->device), mark);
    return status;
}

bool aorta_cpu_event_done(struct aorta_event *base) {
    struct cpu_event *event = cpu_event(base);
    pthread_mutex_lock(&event->lock);
    bool done = !event->capture && (!event->latest || is_gate_open(&event->latest->reached));
    pthread_mutex_unlock(&event->lock);
    return done;
}

static aorta_status time_of(struct cpu_event *event, int64_t *time_ns) {
    struct mark *mark = event->latest;
    if (event->capture) return aorta_capture_only_orders(event->recorded_on);
    if (!mark) return AORTA_ERROR(AORTA_DEVICE, "the event has no time: it was never recorded");
    if (!is_gate_open(&mark->reached))
        return AORTA_ERROR(AORTA_DEVICE, "the event has no time yet: stream %s has not reached it", event->recorded_on);
    if (mark->failure) return aorta_status_copy(mark->failure);
    *time_ns = mark->time_ns;
    return NULL;
}

aorta_status aorta_cpu_event_time(struct aorta_event *base, int64_t *time_ns) {
    struct cpu_event *event = cpu_event(base);
    pthread_mutex_lock(&event->lock);
    aorta_status status = time_of(event, time_ns);
    pthread_mutex_unlock(&event->lock);
    return status;
}
