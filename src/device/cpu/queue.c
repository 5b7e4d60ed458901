/* An unbounded queue of commands between one producing and one consuming thread. The consumer takes all that is queued
 * at once, so that the two seldom meet at the lock. */
#include "base/array.h"
#include "device/cpu/cpu.h"

#include <stdlib.h>
#include <string.h>

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

/* False: nothing is queued, and nothing will be. */
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

bool aorta_cpu_queue_idle(struct queue *queue) {
    pthread_mutex_lock(&queue->lock);
    const bool idle = !queue->busy;
    pthread_mutex_unlock(&queue->lock);
    return idle;
}

void aorta_cpu_queue_wait(struct queue *queue) {
    pthread_mutex_lock(&queue->lock);
    while (queue->busy) pthread_cond_wait(&queue->changed, &queue->lock);
    pthread_mutex_unlock(&queue->lock);
}
