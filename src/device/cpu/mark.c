/* Marks and their pool. */
#include "base/clock.h"
#include "device/cpu/cpu.h"

#include <stdlib.h>

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
