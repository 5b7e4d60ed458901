#include "hwq/crew.h"
#include "base/clock.h"
#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* A piece is large enough that taking it costs nothing beside its work, and small enough that threads end together. */
enum { PIECE = 1 << 16, MOST_WORTH = 16 };

struct aorta_hwq_crew {
    pthread_mutex_t turn; /* held by the loop that runs; of `spent_ns` */
    int64_t spent_ns;
    pthread_mutex_t lock; /* of everything below but `next` */
    pthread_cond_t begun, ended;
    aorta_hwq_piece piece;
    void *user;
    int64_t total;
    _Atomic int64_t next; /* first element that nobody has taken */
    uint64_t loops;       /* that have begun */
    int busy;             /* helpers that have not ended the loop */
    aorta_status failure; /* of helpers */
    bool ending;
    int helper_count;
    pthread_t helpers[];
};

int aorta_hwq_crew_size(void) {
    cpu_set_t allowed;
    const int count = sched_getaffinity(0, sizeof allowed, &allowed) ? 1 : CPU_COUNT(&allowed);
    return count < MOST_WORTH ? count : MOST_WORTH;
}

static aorta_status take_pieces(struct aorta_hwq_crew *crew) {
    for (;;) {
        const int64_t first = atomic_fetch_add(&crew->next, PIECE);
        if (first >= crew->total) return NULL;
        const int64_t count = crew->total - first < PIECE ? crew->total - first : PIECE;
        aorta_status status = crew->piece(crew->user, first, count);
        if (!status) continue;
        atomic_store(&crew->next, crew->total);
        return status;
    }
}

static void *help(void *user) {
    struct aorta_hwq_crew *crew = user;
    uint64_t seen = 0;
    pthread_mutex_lock(&crew->lock);
    for (;;) {
        while (!crew->ending && crew->loops == seen) pthread_cond_wait(&crew->begun, &crew->lock);
        if (crew->ending) break;
        seen = crew->loops;
        pthread_mutex_unlock(&crew->lock);
        aorta_status status = take_pieces(crew);
        pthread_mutex_lock(&crew->lock);
        crew->failure = aorta_status_join(crew->failure, status);
        if (--crew->busy == 0) pthread_cond_signal(&crew->ended);
    }
    pthread_mutex_unlock(&crew->lock);
    return NULL;
}

aorta_status aorta_hwq_crew_create(int threads, struct aorta_hwq_crew **made) {
    *made = NULL;
    struct aorta_hwq_crew *crew = calloc(1, sizeof *crew + (size_t)threads * sizeof *crew->helpers);
    if (!crew) return AORTA_ERROR(AORTA_MEMORY, "no host memory for %d threads", threads);
    pthread_mutex_init(&crew->turn, NULL);
    pthread_mutex_init(&crew->lock, NULL);
    pthread_cond_init(&crew->begun, NULL);
    pthread_cond_init(&crew->ended, NULL);
    int error = 0;
    for (; crew->helper_count < threads - 1; crew->helper_count++) {
        error = aorta_thread_start(&crew->helpers[crew->helper_count], help, crew);
        if (error) break;
    }
    if (!error) {
        *made = crew;
        return NULL;
    }
    aorta_status status = AORTA_ERROR(AORTA_MEMORY, "thread %d of %d could not be started: %s; choose fewer",
                                      crew->helper_count + 2, threads, strerror(error));
    aorta_hwq_crew_destroy(crew);
    return status;
}

aorta_status aorta_hwq_crew_run(struct aorta_hwq_crew *crew, aorta_hwq_piece piece, void *user, int64_t total) {
    pthread_mutex_lock(&crew->turn);
    const int64_t begun = aorta_clock_ns();
    pthread_mutex_lock(&crew->lock);
    crew->piece = piece;
    crew->user = user;
    crew->total = total;
    atomic_store(&crew->next, 0);
    crew->busy = crew->helper_count;
    crew->loops++;
    pthread_cond_broadcast(&crew->begun);
    pthread_mutex_unlock(&crew->lock);
    aorta_status status = take_pieces(crew);
    pthread_mutex_lock(&crew->lock);
    while (crew->busy) pthread_cond_wait(&crew->ended, &crew->lock);
    status = aorta_status_join(status, crew->failure);
    crew->failure = NULL;
    pthread_mutex_unlock(&crew->lock);
    crew->spent_ns += aorta_clock_ns() - begun;
    pthread_mutex_unlock(&crew->turn);
    return status;
}

int64_t aorta_hwq_crew_spent_ns(struct aorta_hwq_crew *crew) {
    pthread_mutex_lock(&crew->turn);
    const int64_t spent_ns = crew->spent_ns;
    pthread_mutex_unlock(&crew->turn);
    return spent_ns;
}

void aorta_hwq_crew_destroy(struct aorta_hwq_crew *crew) {
    if (!crew) return;
    pthread_mutex_lock(&crew->lock);
    crew->ending = true;
    pthread_cond_broadcast(&crew->begun);
    pthread_mutex_unlock(&crew->lock);
    for (int i = 0; i < crew->helper_count; i++) pthread_join(crew->helpers[i], NULL);
    pthread_cond_destroy(&crew->ended);
    pthread_cond_destroy(&crew->begun);
    pthread_mutex_destroy(&crew->lock);
    pthread_mutex_destroy(&crew->turn);
    free(crew);
}
