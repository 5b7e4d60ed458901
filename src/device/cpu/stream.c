/* An unbounded queue of commands between one producing and one consuming thread.
 *
 * Commands follow each other in chunks. The producer publishes by storing the used length of a chunk; the consumer
 * returns empty chunks for reuse, so that the steady state allocates nothing. A wake-up is sent only to a sleeping
 * consumer: it announces its sleep, then looks once more, while the producer publishes, then looks for the
 * announcement. One of the two sees the other, as these accesses are sequentially consistent. */
#include "base/clock.h"
#include "device/cpu/cpu.h"

#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 64 * 1024, MOST_IDLE_CHUNKS = 16 };

struct chunk {
    _Atomic(struct chunk *) next;
    _Atomic size_t used;
    size_t capacity;
    struct chunk *below; /* in the lists of spare and returned chunks */
    struct command commands[];
};

size_t aorta_cpu_command_bytes(size_t argument_bytes) {
    if (argument_bytes > UINT32_MAX / 2) return 0;
    return sizeof(struct command) + (argument_bytes + 15) / 16 * 16;
}

void aorta_cpu_command_write(void *place, const struct command *command, const void *arguments, size_t argument_bytes) {
    struct command *written = place;
    *written = *command;
    written->bytes = (uint32_t)aorta_cpu_command_bytes(argument_bytes);
    if (argument_bytes) memcpy(written + 1, arguments, argument_bytes);
}

static struct chunk *make_chunk(size_t capacity) {
    size_t bytes = (sizeof(struct chunk) + capacity + 63) / 64 * 64;
    struct chunk *chunk = aligned_alloc(64, bytes);
    if (!chunk) return NULL;
    atomic_init(&chunk->next, NULL);
    atomic_init(&chunk->used, 0);
    chunk->capacity = capacity;
    return chunk;
}

aorta_status aorta_cpu_queue_create(struct queue *queue) {
    *queue = (struct queue){0};
    queue->tail = queue->head = make_chunk(CHUNK_BYTES);
    if (!queue->tail) return AORTA_ERROR(AORTA_MEMORY, "no host memory for a stream's queue");
    return NULL;
}

static void free_chunks(struct chunk *chunk) {
    while (chunk) {
        struct chunk *below = chunk->below;
        free(chunk);
        chunk = below;
    }
}

void aorta_cpu_queue_destroy(struct queue *queue) {
    free_chunks(queue->spare);
    free_chunks(atomic_load(&queue->returned));
    for (struct chunk *chunk = queue->head; chunk;) {
        struct chunk *next = atomic_load(&chunk->next);
        free(chunk);
        chunk = next;
    }
}

/* An empty chunk: a returned one if it is large enough. */
static struct chunk *take_chunk(struct queue *queue, size_t bytes) {
    if (bytes > CHUNK_BYTES) return make_chunk(bytes);
    if (!queue->spare) queue->spare = atomic_exchange(&queue->returned, NULL);
    struct chunk *chunk = queue->spare;
    if (!chunk) return make_chunk(CHUNK_BYTES);
    queue->spare = chunk->below;
    atomic_fetch_sub(&queue->idle_chunks, 1);
    atomic_store_explicit(&chunk->next, NULL, memory_order_relaxed);
    atomic_store_explicit(&chunk->used, 0, memory_order_relaxed);
    return chunk;
}

static void return_chunk(struct queue *queue, struct chunk *chunk) {
    if (chunk->capacity != CHUNK_BYTES || atomic_load(&queue->idle_chunks) >= MOST_IDLE_CHUNKS) {
        free(chunk);
        return;
    }
    atomic_fetch_add(&queue->idle_chunks, 1);
    chunk->below = atomic_load(&queue->returned);
    while (!atomic_compare_exchange_weak(&queue->returned, &chunk->below, chunk)) continue;
}

static void wake_consumer(struct queue *queue) {
    if (atomic_load(&queue->asleep) && atomic_exchange(&queue->asleep, 0)) aorta_cpu_futex_wake(&queue->asleep);
}

aorta_status aorta_cpu_queue_push(struct queue *queue, const struct command *command, const void *arguments,
                                  size_t bytes) {
    size_t needed = aorta_cpu_command_bytes(bytes);
    if (!needed) return AORTA_ERROR(AORTA_INTERNAL, "%zu bytes of kernel arguments are too many", bytes);
    struct chunk *chunk = queue->tail;
    size_t used = atomic_load_explicit(&chunk->used, memory_order_relaxed);
    if (chunk->capacity - used < needed) {
        struct chunk *fresh = take_chunk(queue, needed);
        if (!fresh) return AORTA_ERROR(AORTA_MEMORY, "no host memory for %zu bytes of a stream's queue", needed);
        atomic_store(&chunk->next, fresh);
        queue->tail = chunk = fresh;
        used = 0;
    }
    aorta_cpu_command_write((char *)chunk->commands + used, command, arguments, bytes);
    queue->pushed++;
    atomic_store(&chunk->used, used + needed);
    wake_consumer(queue);
    return NULL;
}

/* The next command, or NULL when there is none now. */
static const struct command *peek(struct queue *queue) {
    for (;;) {
        struct chunk *head = queue->head;
        if (queue->read < atomic_load(&head->used)) break;
        struct chunk *next = atomic_load(&head->next);
        if (!next) return NULL;
        if (queue->read < atomic_load(&head->used)) break; /* published between the two looks */
        queue->head = next;
        queue->read = 0;
        return_chunk(queue, head);
    }
    return (const struct command *)((char *)queue->head->commands + queue->read);
}

const struct command *aorta_cpu_queue_next(struct queue *queue) {
    for (;;) {
        const struct command *command = peek(queue);
        if (command) return command;
        atomic_store(&queue->asleep, 1);
        bool closed =
            atomic_load(&queue->closed); /* before the look, which then finds everything queued before the end */
        command = peek(queue);
        if (command || closed) {
            atomic_store(&queue->asleep, 0);
            return command;
        }
        aorta_cpu_futex_sleep(&queue->asleep, 1);
    }
}

void aorta_cpu_queue_close(struct queue *queue) {
    atomic_store(&queue->closed, true);
    wake_consumer(queue);
}

void aorta_cpu_queue_done(struct queue *queue, const struct command *command) {
    queue->read += command->bytes;
    uint64_t popped = atomic_load_explicit(&queue->popped, memory_order_relaxed);
    atomic_store_explicit(&queue->popped, popped + 1, memory_order_release);
}

/* asked by the producer */
static bool is_queue_idle(struct queue *queue) {
    if (queue->known == queue->pushed) return true;
    queue->known = atomic_load_explicit(&queue->popped, memory_order_acquire);
    return queue->known == queue->pushed;
}

/* ---- the worker ---- */

/* ---- running commands ---- */

static aorta_status run_kernel(struct runner *runner, const struct command *command) {
    const struct aorta_kernel *kernel = command->as.kernel;
    return aorta_annotate(kernel->cpu(command + 1), "stream %s: kernel %s", runner->name, kernel->name);
}

static aorta_status run_host_call(struct runner *runner, const struct command *command) {
    aorta_status status = command->as.host_call.function(command->as.host_call.user);
    return aorta_annotate(status, "stream %s: host call", runner->name);
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
    aorta_cpu_mark_reach(command->as.mark, runner->failure);
    return NULL;
}

static aorta_status run_wait(struct runner *runner, const struct command *command) {
    (void)runner;
    aorta_cpu_gate_wait(&command->as.mark->reached);
    return aorta_status_copy(command->as.mark->failure);
}

/* Runs of one graph follow each other in the order of their launches, on any streams. A run that failed stops its own
 * stream only: the next run starts afresh. */
static aorta_status run_replay(struct runner *runner, const struct command *command) {
    if (command->as.replay.before) aorta_cpu_gate_wait(&command->as.replay.before->reached);
    if (!runner->failure) aorta_cpu_graph_run(command->as.replay.graph, runner);
    aorta_cpu_mark_reach(command->as.replay.after, NULL);
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

static void release_command(struct mark_pool *pool, const struct command *command) {
    if (command->kind == COMMAND_RECORD || command->kind == COMMAND_WAIT)
        aorta_cpu_mark_release(pool, command->as.mark);
    if (command->kind == COMMAND_REPLAY) {
        aorta_cpu_mark_release(pool, command->as.replay.before);
        aorta_cpu_mark_release(pool, command->as.replay.after);
    }
}

static void *work(void *user) {
    struct cpu_stream *stream = user;
    struct mark_pool *pool = marks_of(stream->base.device);
    aorta_cpu_thread_configure(stream->base.name, stream->base.priority);
    for (;;) {
        const struct command *command = aorta_cpu_queue_next(&stream->queue);
        if (!command) return NULL;
        aorta_cpu_run_command(&stream->runner, command);
        release_command(pool, command);
        aorta_cpu_queue_done(&stream->queue, command);
    }
}

/* ---- the stream ---- */

aorta_status aorta_cpu_stream_create(struct aorta_device *device, const char *name, enum aorta_priority priority,
                                     struct aorta_stream **stream) {
    struct cpu_stream *made = aligned_alloc(alignof(struct cpu_stream), sizeof *made);
    if (!made) return AORTA_ERROR(AORTA_MEMORY, "no host memory for stream %s", name);
    *made = (struct cpu_stream){0};
    made->base = (struct aorta_stream){.device = device, .priority = priority};
    snprintf(made->base.name, sizeof made->base.name, "%s", name);
    made->runner.name = made->base.name;
    aorta_status status = aorta_cpu_queue_create(&made->queue);
    if (!status) status = aorta_cpu_thread_start(&made->thread, work, made, name);
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
    if (stream->branch) aorta_cpu_capture_leave(stream);
    aorta_cpu_queue_close(&stream->queue);
    pthread_join(stream->thread, NULL);
    aorta_cpu_queue_destroy(&stream->queue);
    aorta_status_free(stream->runner.failure);
    free(stream);
}

bool aorta_cpu_stream_idle(struct aorta_stream *stream) {
    return is_queue_idle(&cpu_stream(stream)->queue);
}

aorta_status aorta_cpu_stream_synchronize(struct aorta_stream *base) {
    struct cpu_stream *stream = cpu_stream(base);
    if (stream->branch) {
        return aorta_capture_break(
            &stream->branch->capture->state,
            AORTA_ERROR(AORTA_DEVICE, "stream %s cannot be synchronised while it is captured", base->name));
    }
    if (is_queue_idle(&stream->queue)) return aorta_status_copy(stream->runner.failure);
    struct mark_pool *pool = marks_of(base->device);
    struct mark *end = aorta_cpu_mark_take(pool);
    if (!end) return AORTA_ERROR(AORTA_MEMORY, "no host memory to synchronise stream %s", base->name);
    struct command command = {.kind = COMMAND_RECORD, .as.mark = aorta_cpu_mark_retain(end)};
    aorta_status status = aorta_cpu_queue_push(&stream->queue, &command, NULL, 0);
    if (status) {
        aorta_cpu_mark_release(pool, end);
    } else {
        aorta_cpu_gate_wait(&end->reached);
        stream->queue.known = stream->queue.pushed; /* the worker may not have counted the record itself yet */
        status = aorta_status_copy(end->failure);
    }
    aorta_cpu_mark_release(pool, end);
    return status;
}

/* ---- work that can be queued or captured ---- */

static aorta_status submit(struct aorta_stream *base, const struct command *command, const void *args, size_t bytes) {
    struct cpu_stream *stream = cpu_stream(base);
    if (stream->branch) return aorta_cpu_capture_append(stream->branch, command, args, bytes);
    return aorta_cpu_queue_push(&stream->queue, command, args, bytes);
}

aorta_status aorta_cpu_launch(struct aorta_stream *stream, const struct aorta_kernel *kernel, const void *args,
                              size_t bytes) {
    if (!kernel->cpu) {
        return AORTA_ERROR(AORTA_UNSUPPORTED, "stream %s: kernel %s has no version for the CPU", stream->name,
                           kernel->name);
    }
    struct command command = {.kind = COMMAND_KERNEL, .as.kernel = kernel};
    return submit(stream, &command, args, bytes);
}

aorta_status aorta_cpu_host_call(struct aorta_stream *stream, aorta_status (*function)(void *user), void *user) {
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
