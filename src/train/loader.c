/* A ring of pinned buffers: worker threads fill them in any order, the training thread takes them in step order. */
#include "base/clock.h"
#include "base/thread.h"
#include "train/data.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* A batch is given back when its step has ended on the device; up to two steps are queued and one more is copied. */
enum { BATCHES_IN_USE = 3 };

enum slot_state { SLOT_FREE, SLOT_FILLING, SLOT_FULL };

struct loader_slot {
    void *memory;
    enum slot_state state;
};

struct aorta_loader {
    struct aorta_device *device;
    const struct aorta_dataset *dataset;
    bool pinned;
    int64_t steps;    /* in all */
    int64_t started;  /* next step a worker begins */
    int64_t taken;    /* next step the consumer gets */
    int64_t released; /* next step the consumer gives back */
    int64_t slot_count;
    struct loader_slot *slots; /* step s uses slot s mod slot_count */
    int64_t thread_count;
    pthread_t *threads;
    pthread_mutex_t mutex;
    pthread_cond_t filled, freed;
    bool ending;
};

static struct loader_slot *slot_of(struct aorta_loader *loader, int64_t step) {
    return &loader->slots[step % loader->slot_count];
}

static bool may_start(const struct aorta_loader *loader) {
    return loader->started < loader->steps && loader->started - loader->released < loader->slot_count;
}

static void *work(void *user) {
    struct aorta_loader *loader = user;
    pthread_mutex_lock(&loader->mutex);
    for (;;) {
        while (!loader->ending && loader->started < loader->steps && !may_start(loader))
            pthread_cond_wait(&loader->freed, &loader->mutex);
        if (loader->ending || loader->started == loader->steps) break;
        int64_t step = loader->started++;
        struct loader_slot *slot = slot_of(loader, step);
        slot->state = SLOT_FILLING;
        pthread_mutex_unlock(&loader->mutex);
        aorta_dataset_fill(loader->dataset, step, slot->memory);
        pthread_mutex_lock(&loader->mutex);
        slot->state = SLOT_FULL;
        pthread_cond_broadcast(&loader->filled);
    }
    pthread_mutex_unlock(&loader->mutex);
    return NULL;
}

static aorta_status start_threads(struct aorta_loader *loader, int64_t count) {
    for (; loader->thread_count < count; loader->thread_count++) {
        if (aorta_thread_start(&loader->threads[loader->thread_count], work, loader)) break;
        char name[16];
        snprintf(name, sizeof name, "loader %d", (int)loader->thread_count % 1000);
        pthread_setname_np(loader->threads[loader->thread_count], name);
    }
    if (loader->thread_count == count) return NULL;
    return AORTA_ERROR(AORTA_MEMORY,
                       "data loader thread %lld of %lld could not be started; lower dataloader.num_workers",
                       (long long)loader->thread_count + 1, (long long)count);
}

static aorta_status build(struct aorta_loader *loader, const struct aorta_train_options *options) {
    int64_t workers = options->dataloader.num_workers;
    size_t bytes = aorta_batch_layout(options).bytes;
    int64_t wanted = workers * options->dataloader.prefetch_factor + BATCHES_IN_USE;
    loader->slots = calloc((size_t)wanted, sizeof *loader->slots);
    loader->threads = calloc((size_t)(workers ? workers : 1), sizeof *loader->threads);
    if (!loader->slots || !loader->threads) return AORTA_ERROR(AORTA_MEMORY, "the data loader's tables did not fit");
    for (; loader->slot_count < wanted; loader->slot_count++) {
        void **memory = &loader->slots[loader->slot_count].memory;
        if (loader->pinned)
            AORTA_TRY(aorta_pinned_alloc(loader->device, bytes, "input batch", memory));
        else if (posix_memalign(memory, 256, bytes))
            return AORTA_ERROR(AORTA_MEMORY, "an input batch of %zu bytes did not fit in memory", bytes);
    }
    return start_threads(loader, workers);
}

aorta_status aorta_loader_create(struct aorta_device *device, const struct aorta_train_options *options,
                                 const struct aorta_dataset *dataset, int64_t steps, struct aorta_loader **out) {
    *out = NULL;
    struct aorta_loader *loader = calloc(1, sizeof *loader);
    if (!loader) return AORTA_ERROR(AORTA_MEMORY, "the data loader did not fit in memory");
    loader->device = device, loader->dataset = dataset, loader->steps = steps;
    loader->pinned = options->dataloader.pin_memory;
    pthread_mutex_init(&loader->mutex, NULL);
    pthread_cond_init(&loader->filled, NULL);
    pthread_cond_init(&loader->freed, NULL);
    aorta_status status = build(loader, options);
    if (status) {
        aorta_loader_destroy(loader);
        return aorta_annotate(status, "data loader");
    }
    *out = loader;
    return NULL;
}

void aorta_loader_destroy(struct aorta_loader *loader) {
    if (!loader) return;
    pthread_mutex_lock(&loader->mutex);
    loader->ending = true;
    pthread_cond_broadcast(&loader->freed);
    pthread_mutex_unlock(&loader->mutex);
    for (int64_t i = 0; i < loader->thread_count; i++) pthread_join(loader->threads[i], NULL);
    for (int64_t i = 0; i < loader->slot_count; i++) {
        if (loader->pinned)
            aorta_pinned_free(loader->device, loader->slots[i].memory);
        else
            free(loader->slots[i].memory);
    }
    pthread_cond_destroy(&loader->freed);
    pthread_cond_destroy(&loader->filled);
    pthread_mutex_destroy(&loader->mutex);
    free(loader->slots);
    free(loader->threads);
    free(loader);
}

bool aorta_loader_ready(struct aorta_loader *loader) {
    pthread_mutex_lock(&loader->mutex);
    bool ready = loader->taken < loader->started && slot_of(loader, loader->taken)->state == SLOT_FULL;
    pthread_mutex_unlock(&loader->mutex);
    return ready;
}

aorta_status aorta_loader_next(struct aorta_loader *loader, const void **memory) {
    if (loader->taken == loader->steps || loader->taken - loader->released == loader->slot_count)
        return AORTA_ERROR(AORTA_INTERNAL, "batch %lld was asked for beyond the last, or none was given back",
                           (long long)loader->taken);
    struct loader_slot *slot = slot_of(loader, loader->taken);
    if (loader->thread_count == 0) {
        aorta_dataset_fill(loader->dataset, loader->started++, slot->memory);
    } else {
        pthread_mutex_lock(&loader->mutex);
        while (loader->taken >= loader->started || slot->state != SLOT_FULL)
            pthread_cond_wait(&loader->filled, &loader->mutex);
        pthread_mutex_unlock(&loader->mutex);
    }
    loader->taken++;
    *memory = slot->memory;
    return NULL;
}

void aorta_loader_release(struct aorta_loader *loader) {
    pthread_mutex_lock(&loader->mutex);
    slot_of(loader, loader->released)->state = SLOT_FREE;
    loader->released++;
    pthread_cond_broadcast(&loader->freed);
    pthread_mutex_unlock(&loader->mutex);
}
