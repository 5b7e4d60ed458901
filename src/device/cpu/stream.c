/* A stream: its queue, its worker, the commands that it runs, and the events that order it. */
#include "base/array.h"
#include "base/clock.h"
#include "base/thread.h"
#include "device/cpu/cpu.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- the queue ---- */

bool aorta_cpu_program_append(struct program *program, const struct command *command, const void *arguments,
                              size_t bytes) {
    const size_t whole = sizeof *command + (bytes + 15) / 16 * 16;
    if (!aorta_array_fit(&program->commands, &program->capacity, program->length + whole, 1)) return false;
    struct command *written = (struct command *)(program->commands + program->length);
    *written = *command;
    written->bytes = (uint32_t)whole;
    if (bytes) memcpy(written + 1, arguments, bytes);
    program->length += whole;
    return true;
}

void aorta_cpu_queue_create(struct queue *queue) {
    *queue = (struct queue){0};
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->changed, NULL);
}

void aorta_cpu_queue_destroy(struct queue *queue) {
    free(queue->queued.commands);
    free(queue->running.commands);
    pthread_cond_destroy(&queue->changed);
    pthread_mutex_destroy(&queue->lock);
}

aorta_status aorta_cpu_queue_push(struct queue *queue, const struct command *command, const void *arguments,
                                  size_t bytes) {
    pthread_mutex_lock(&queue->lock);
    const bool fits = aorta_cpu_program_append(&queue->queued, command, arguments, bytes), wakes = !queue->busy;
    queue->busy |= fits;
    pthread_mutex_unlock(&queue->lock);
    if (!fits) return AORTA_ERROR(AORTA_MEMORY, "no host memory for %zu bytes of a stream's queue", bytes);
    if (wakes) pthread_cond_broadcast(&queue->changed);
    return NULL;
}

void aorta_cpu_queue_close(struct queue *queue) {
    pthread_mutex_lock(&queue->lock);
    queue->closed = true;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

/* Returns false if nothing is queued and the queue is closed. */
static bool take_queued(struct queue *queue) {
    pthread_mutex_lock(&queue->lock);
    while (!queue->queued.length && !queue->closed) {
        queue->busy = false;
        pthread_cond_broadcast(&queue->changed);
        pthread_cond_wait(&queue->changed, &queue->lock);
    }
    struct program taken = queue->queued;
    queue->queued = (struct program){queue->running.commands, 0, queue->running.capacity};
    pthread_mutex_unlock(&queue->lock);
    queue->running = taken;
    queue->read = 0;
    return taken.length > 0;
}

const struct command *aorta_cpu_queue_next(struct queue *queue) {
    if (queue->read == queue->running.length && !take_queued(queue)) return NULL;
    const struct command *command = (const struct command *)(queue->running.commands + queue->read);
    queue->read += command->bytes;
    return command;
}

void aorta_cpu_queue_wait(struct queue *queue) {
    pthread_mutex_lock(&queue->lock);
    while (queue->busy) pthread_cond_wait(&queue->changed, &queue->lock);
    pthread_mutex_unlock(&queue->lock);
}

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

static void reach(struct mark *mark, aorta_status failure) {
    mark->failure = aorta_status_copy(failure);
    aorta_cpu_gate_open(&mark->reached);
}

/* ---- threads ---- */

/* Steps below the process's own niceness. A higher priority needs a privilege that is rarely granted. */
static const int niceness[] = {
    [AORTA_PRIORITY_LOW] = 5,
    [AORTA_PRIORITY_NORMAL] = 1,
    [AORTA_PRIORITY_HIGH] = 0,
};

aorta_status aorta_cpu_thread_start(pthread_t *thread, void *(*function)(void *), void *user, const char *what) {
    int error = aorta_thread_start(thread, function, user);
    if (!error) return NULL;
    return AORTA_ERROR(AORTA_DEVICE, "stream %s: its thread could not be started: %s", what, strerror(error));
}

void aorta_cpu_thread_configure(const char *name, enum aorta_priority priority) {
    char shown[16]; /* what Linux keeps of a thread's name */
    snprintf(shown, sizeof shown, "%.15s", name);
    pthread_setname_np(pthread_self(), shown);
    int base = getpriority(PRIO_PROCESS, (id_t)getpid());
    setpriority(PRIO_PROCESS, (id_t)gettid(), base + niceness[priority]); /* a refusal leaves it as it was */
}

aorta_status aorta_cpu_thread_bind(pthread_t thread, double share, int part) {
    cpu_set_t allowed, own;
    if (sched_getaffinity(getpid(), sizeof allowed, &allowed))
        return AORTA_ERROR(AORTA_DEVICE, "the processors of this process are not known: %s", strerror(errno));
    const int total = CPU_COUNT(&allowed), count = (int)ceil(share * total - 1e-9);
    const int first = (int)((int64_t)part * count % total);
    CPU_ZERO(&own);
    for (int processor = 0, place = 0; place < total; processor++) {
        if (!CPU_ISSET(processor, &allowed)) continue;
        if ((place - first + total) % total < count) CPU_SET(processor, &own);
        place++;
    }
    int error = pthread_setaffinity_np(thread, sizeof own, &own);
    if (!error) return NULL;
    return AORTA_ERROR(AORTA_DEVICE, "its thread cannot be bound to %d processors: %s", count, strerror(error));
}

/* ---- running commands ---- */

static aorta_status run_kernel(struct runner *runner, const struct command *command) {
    const struct aorta_kernel *kernel = command->as.kernel;
    return aorta_annotate(kernel->cpu(command + 1), "stream %s: kernel %s", runner->name, kernel->name);
}

static aorta_status run_host_call(struct runner *runner, const struct command *command) {
    (void)runner;
    command->as.host_call.function(command->as.host_call.user);
    return NULL;
}

static aorta_status run_copy(struct runner *runner, const struct command *command) {
    (void)runner;
    memmove(command->as.copy.to, command->as.copy.from, command->as.copy.bytes);
    return NULL;
}

static aorta_status run_fill(struct runner *runner, const struct command *command) {
    (void)runner;
    memset(command->as.fill.to, command->as.fill.value, command->as.fill.bytes);
    return NULL;
}

static aorta_status run_timestamp(struct runner *runner, const struct command *command) {
    (void)runner;
    *command->as.timestamp = aorta_clock_ns();
    return NULL;
}

static aorta_status run_record(struct runner *runner, const struct command *command) {
    reach(command->as.mark, runner->failure);
    return NULL;
}

static aorta_status run_wait(struct runner *runner, const struct command *command) {
    (void)runner;
    aorta_cpu_gate_wait(&command->as.mark->reached);
    return aorta_status_copy(command->as.mark->failure);
}

/* Runs of one graph follow each other in the order of their launches, on any streams. A failed run stops only its own
 * stream. The next run starts without the failure. */
static aorta_status run_replay(struct runner *runner, const struct command *command) {
    if (command->as.replay.before) aorta_cpu_gate_wait(&command->as.replay.before->reached);
    if (!runner->failure) aorta_cpu_graph_run(command->as.replay.graph, runner);
    reach(command->as.replay.after, NULL);
    return NULL;
}

/* A failed stream still orders other streams, which would wait for ever otherwise. */
static const struct {
    aorta_status (*run)(struct runner *runner, const struct command *command);
    bool after_failure;
} command_kinds[COMMAND_KIND_COUNT] = {
    [COMMAND_KERNEL] = {run_kernel, false},
    [COMMAND_HOST_CALL] = {run_host_call, false},
    [COMMAND_COPY] = {run_copy, false},
    [COMMAND_FILL] = {run_fill, false},
    [COMMAND_TIMESTAMP] = {run_timestamp, false},
    [COMMAND_RECORD] = {run_record, true},
    [COMMAND_WAIT] = {run_wait, true},
    [COMMAND_REPLAY] = {run_replay, true},
};

void aorta_cpu_run_command(struct runner *runner, const struct command *command) {
    if (runner->failure && !command_kinds[command->kind].after_failure) return;
    aorta_status status = command_kinds[command->kind].run(runner, command);
    if (status) runner->failure = aorta_status_join(runner->failure, status);
}

static void release_command(const struct command *command) {
    if (command->kind == COMMAND_RECORD || command->kind == COMMAND_WAIT) aorta_cpu_mark_release(command->as.mark);
    if (command->kind == COMMAND_REPLAY) {
        aorta_cpu_mark_release(command->as.replay.before);
        aorta_cpu_mark_release(command->as.replay.after);
    }
}

static void *work(void *user) {
    struct cpu_stream *stream = user;
    aorta_cpu_thread_configure(stream->base.name, stream->base.priority);
    for (const struct command *command; (command = aorta_cpu_queue_next(&stream->queue));) {
        aorta_cpu_run_command(&stream->runner, command);
        release_command(command);
    }
    return NULL;
}

/* ---- the stream ---- */

aorta_status aorta_cpu_stream_create(struct aorta_device *device, const char *name, enum aorta_priority priority,
                                     struct aorta_stream **stream) {
    struct cpu_stream *made = calloc(1, sizeof *made);
    if (!made) return AORTA_ERROR(AORTA_MEMORY, "no host memory for stream %s", name);
    made->base = (struct aorta_stream){.device = device, .priority = priority};
    snprintf(made->base.name, sizeof made->base.name, "%s", name);
    made->runner.name = made->base.name;
    aorta_cpu_queue_create(&made->queue);
    aorta_status status = aorta_cpu_thread_start(&made->thread, work, made, name);
    if (status) {
        aorta_cpu_queue_destroy(&made->queue);
        free(made);
        return status;
    }
    *stream = &made->base;
    return NULL;
}

aorta_status aorta_cpu_stream_limit(struct aorta_stream *stream, double share, int part) {
    return aorta_cpu_thread_bind(cpu_stream(stream)->thread, share, part);
}

void aorta_cpu_stream_destroy(struct aorta_stream *base) {
    struct cpu_stream *stream = cpu_stream(base);
    aorta_cpu_queue_close(&stream->queue);
    pthread_join(stream->thread, NULL);
    aorta_cpu_queue_destroy(&stream->queue);
    aorta_status_free(stream->runner.failure);
    free(stream);
}

aorta_status aorta_cpu_stream_synchronize(struct aorta_stream *base) {
    struct cpu_stream *stream = cpu_stream(base);
    aorta_cpu_queue_wait(&stream->queue);
    return aorta_status_copy(stream->runner.failure);
}

/* ---- work that can be queued or captured ---- */

static aorta_status submit(struct aorta_stream *base, const struct command *command, const void *args, size_t bytes) {
    if (base->branch) return aorta_cpu_capture_append(base, command, args, bytes);
    return aorta_cpu_queue_push(&cpu_stream(base)->queue, command, args, bytes);
}

aorta_status aorta_cpu_launch(struct aorta_stream *stream, const struct aorta_kernel *kernel, const void *args,
                              size_t bytes) {
    if (!kernel->cpu) {
        return AORTA_ERROR(AORTA_UNSUPPORTED, "stream %s: kernel %s has no version for the CPU", stream->name,
                           kernel->name);
    }
    if (bytes > UINT32_MAX / 2) {
        aorta_status status = AORTA_ERROR(AORTA_INTERNAL, "%zu bytes of kernel arguments are too many", bytes);
        return stream->branch ? aorta_capture_break(stream->branch->capture, status) : status;
    }
    struct command command = {.kind = COMMAND_KERNEL, .as.kernel = kernel};
    return submit(stream, &command, args, bytes);
}

aorta_status aorta_cpu_host_call(struct aorta_stream *stream, void (*function)(void *user), void *user) {
    struct command command = {.kind = COMMAND_HOST_CALL, .as.host_call = {function, user}};
    return submit(stream, &command, NULL, 0);
}

aorta_status aorta_cpu_copy(struct aorta_stream *stream, void *to, const void *from, size_t bytes) {
    if (!bytes) return NULL;
    struct command command = {.kind = COMMAND_COPY, .as.copy = {to, from, bytes}};
    return submit(stream, &command, NULL, 0);
}

aorta_status aorta_cpu_fill_bytes(struct aorta_stream *stream, void *to, int value, size_t bytes) {
    if (!bytes) return NULL;
    struct command command = {.kind = COMMAND_FILL, .as.fill = {to, bytes, value}};
    return submit(stream, &command, NULL, 0);
}

aorta_status aorta_cpu_timestamp(struct aorta_stream *stream, int64_t *slot) {
    struct command command = {.kind = COMMAND_TIMESTAMP, .as.timestamp = slot};
    return submit(stream, &command, NULL, 0);
}

/* ---- events ---- */

/* Queued records and waits have their own references to marks, so the event may be destroyed before. */
void aorta_cpu_event_end(struct aorta_event *event) {
    aorta_cpu_mark_release(cpu_event(event)->latest);
}

static aorta_status record_queued(struct cpu_event *event, struct cpu_stream *stream) {
    struct mark *mark = aorta_cpu_mark_make();
    if (!mark) return AORTA_ERROR(AORTA_MEMORY, "no host memory to record an event on stream %s", stream->base.name);
    struct command command = {.kind = COMMAND_RECORD, .as.mark = aorta_cpu_mark_retain(mark)};
    aorta_status status = aorta_cpu_queue_push(&stream->queue, &command, NULL, 0);
    if (status) {
        free(mark); /* no other thread knows it */
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
