/* An unbounded queue of commands between one producing and one consuming thread.
 *
 * Commands follow each other in chunks. The producer publishes by storing the used length of a chunk; the consumer
 * returns empty chunks for reuse, so that the steady state allocates nothing. A wake-up is sent only to a sleeping
 * consumer: it announces its sleep, then looks once more, while the producer publishes, then looks for the
 * announcement. One of the two sees the other, as these accesses are sequentially consistent. */
#include "device/cpu/cpu.h"

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

bool aorta_cpu_queue_idle(struct queue *queue) {
    if (queue->known == queue->pushed) return true;
    queue->known = atomic_load_explicit(&queue->popped, memory_order_acquire);
    return queue->known == queue->pushed;
}
