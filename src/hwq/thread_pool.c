#include "hwq/thread_pool.h"
#include "base/clock.h"
#include "base/thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Elements of a piece: enough that the atomic counter costs nothing, few enough that threads end together. */
enum { PIECE = 1 << 16 };

struct aorta_hwq_thread_pool {
    pthread_mutex_t loop; /* locked by the loop that runs */
    int64_t busy_ns;
    pthread_mutex_t start;          /* locked until the barriers know how many workers there are */
    pthread_barrier_t begun, ended; /* of a loop, for the workers and its caller */
    aorta_hwq_loop_body body;
    void *user;
    int64_t total;
    _Atomic int64_t next; /* first element of the next piece */
    bool ending;
    int worker_count;
    pthread_t workers[];
};

static void run_pieces(struct aorta_hwq_thread_pool *pool) {
    for (;;) {
        const int64_t first = atomic_fetch_add(&pool->next, PIECE);
        if (first >= pool->total) return;
        pool->body(pool->user, first, pool->total - first < PIECE ? pool->total - first : PIECE);
    }
}

static void *work(void *user) {
    struct aorta_hwq_thread_pool *pool = user;
    pthread_mutex_lock(&pool->start);
    pthread_mutex_unlock(&pool->start);
    for (;;) {
        pthread_barrier_wait(&pool->begun);
        if (pool->ending) return NULL;
        run_pieces(pool);
        pthread_barrier_wait(&pool->ended);
    }
}

aorta_status aorta_hwq_thread_pool_create(int threads, struct aorta_hwq_thread_pool **made) {
    *made = NULL;
    struct aorta_hwq_thread_pool *pool = calloc(1, sizeof *pool + (size_t)threads * sizeof *pool->workers);
    if (!pool) return AORTA_ERROR(AORTA_MEMORY, "no host memory for %d threads", threads);
    int error = 0;
    pthread_mutex_init(&pool->loop, NULL);
    pthread_mutex_init(&pool->start, NULL);
    pthread_mutex_lock(&pool->start);
    for (; pool->worker_count < threads - 1; pool->worker_count++) {
        error = aorta_thread_start(&pool->workers[pool->worker_count], work, pool);
        if (error) break;
    }
    pthread_barrier_init(&pool->begun, NULL, (unsigned)pool->worker_count + 1);
    pthread_barrier_init(&pool->ended, NULL, (unsigned)pool->worker_count + 1);
    pthread_mutex_unlock(&pool->start);
    if (!error) {
        *made = pool;
        return NULL;
    }
    aorta_status status = AORTA_ERROR(AORTA_MEMORY, "thread %d of %d could not be started: %s; choose fewer",
                                      pool->worker_count + 2, threads, strerror(error));
    aorta_hwq_thread_pool_destroy(pool);
    return status;
}

void aorta_hwq_thread_pool_run(struct aorta_hwq_thread_pool *pool, aorta_hwq_loop_body body, void *user,
                               int64_t total) {
    pthread_mutex_lock(&pool->loop);
    const int64_t begun = aorta_clock_ns();
    pool->body = body;
    pool->user = user;
    pool->total = total;
    atomic_store(&pool->next, 0);
    pthread_barrier_wait(&pool->begun);
    run_pieces(pool);
    pthread_barrier_wait(&pool->ended);
    pool->busy_ns += aorta_clock_ns() - begun;
    pthread_mutex_unlock(&pool->loop);
}

int64_t aorta_hwq_thread_pool_busy_ns(struct aorta_hwq_thread_pool *pool) {
    pthread_mutex_lock(&pool->loop);
    const int64_t busy_ns = pool->busy_ns;
    pthread_mutex_unlock(&pool->loop);
    return busy_ns;
}

void aorta_hwq_thread_pool_destroy(struct aorta_hwq_thread_pool *pool) {
    if (!pool) return;
    pool->ending = true;
    pthread_barrier_wait(&pool->begun);
    for (int i = 0; i < pool->worker_count; i++) pthread_join(pool->workers[i], NULL);
    pthread_barrier_destroy(&pool->ended);
    pthread_barrier_destroy(&pool->begun);
    pthread_mutex_destroy(&pool->start);
    pthread_mutex_destroy(&pool->loop);
    free(pool);
}
