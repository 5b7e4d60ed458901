#include "measure/cupti_buffers.h"

#include <stdlib.h>
#include <string.h>

void aorta_cupti_buffers_init(struct aorta_cupti_buffers *buffers, size_t bytes, int limit) {
    memset(buffers, 0, sizeof *buffers);
    buffers->bytes = bytes;
    buffers->limit = limit;
    pthread_mutex_init(&buffers->lock, NULL);
    buffers->filled_end = &buffers->filled;
}

static void free_list(struct aorta_cupti_buffer *list) {
    while (list) {
        struct aorta_cupti_buffer *next = list->next;
        free(list);
        list = next;
    }
}

void aorta_cupti_buffers_free(struct aorta_cupti_buffers *buffers) {
    free_list(buffers->empty);
    free_list(buffers->filled);
    pthread_mutex_destroy(&buffers->lock);
}

static struct aorta_cupti_buffer *pop_filled(struct aorta_cupti_buffers *buffers) {
    struct aorta_cupti_buffer *buffer = buffers->filled;
    if (!buffer) return NULL;
    buffers->filled = buffer->next;
    if (!buffers->filled) buffers->filled_end = &buffers->filled;
    return buffer;
}

struct aorta_cupti_buffer *aorta_cupti_buffers_lend(struct aorta_cupti_buffers *buffers, bool *overwritten) {
    *overwritten = false;
    pthread_mutex_lock(&buffers->lock);
    struct aorta_cupti_buffer *buffer = buffers->empty;
    if (buffer)
        buffers->empty = buffer->next;
    else if (buffers->made < buffers->limit && (buffer = malloc(sizeof *buffer + buffers->bytes)))
        buffers->made++;
    else
        *overwritten = (buffer = pop_filled(buffers)) != NULL;
    buffers->lent += buffer != NULL;
    pthread_mutex_unlock(&buffers->lock);
    return buffer;
}

void aorta_cupti_buffers_return(struct aorta_cupti_buffers *buffers, uint8_t *bytes, size_t valid) {
    struct aorta_cupti_buffer *buffer = (void *)(bytes - offsetof(struct aorta_cupti_buffer, bytes));
    buffer->valid = valid;
    buffer->next = NULL;
    pthread_mutex_lock(&buffers->lock);
    buffers->lent--;
    if (valid) {
        *buffers->filled_end = buffer;
        buffers->filled_end = &buffer->next;
    } else {
        buffer->next = buffers->empty;
        buffers->empty = buffer;
    }
    pthread_mutex_unlock(&buffers->lock);
}

struct aorta_cupti_buffer *aorta_cupti_buffers_take(struct aorta_cupti_buffers *buffers) {
    pthread_mutex_lock(&buffers->lock);
    struct aorta_cupti_buffer *buffer = pop_filled(buffers);
    pthread_mutex_unlock(&buffers->lock);
    return buffer;
}

void aorta_cupti_buffers_recycle(struct aorta_cupti_buffers *buffers, struct aorta_cupti_buffer *buffer) {
    pthread_mutex_lock(&buffers->lock);
    buffer->next = buffers->empty;
    buffers->empty = buffer;
    pthread_mutex_unlock(&buffers->lock);
}

int aorta_cupti_buffers_lent(struct aorta_cupti_buffers *buffers) {
    pthread_mutex_lock(&buffers->lock);
    int lent = buffers->lent;
    pthread_mutex_unlock(&buffers->lock);
    return lent;
}
