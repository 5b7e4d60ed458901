#include "fake_gpu/objects.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

static struct {
    pthread_mutex_t lock;
    void **things;
    size_t count, size;
} objects = {.lock = PTHREAD_MUTEX_INITIALIZER};

void fake_hold(void *thing) {
    pthread_mutex_lock(&objects.lock);
    if (objects.count == objects.size) {
        objects.size = objects.size ? 2 * objects.size : 64;
        objects.things = realloc(objects.things, objects.size * sizeof *objects.things);
        if (!objects.things) abort();
    }
    objects.things[objects.count++] = thing;
    pthread_mutex_unlock(&objects.lock);
}

void fake_let_go(const void *thing) {
    pthread_mutex_lock(&objects.lock);
    for (size_t i = objects.count; i-- > 0;) { /* mostly the newest goes first */
        if (objects.things[i] != thing) continue;
        objects.things[i] = objects.things[--objects.count];
        break;
    }
    pthread_mutex_unlock(&objects.lock);
}

void fake_objects_end(void) {
    pthread_mutex_lock(&objects.lock);
    free(objects.things);
    objects.things = NULL;
    objects.count = objects.size = 0;
    pthread_mutex_unlock(&objects.lock);
}
