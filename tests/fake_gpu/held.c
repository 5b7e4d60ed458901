#include "fake_gpu/held.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

static struct {
    pthread_mutex_t lock;
    void **things;
    size_t count, size;
} held = {.lock = PTHREAD_MUTEX_INITIALIZER};

void fake_hold(void *thing) {
    pthread_mutex_lock(&held.lock);
    if (held.count == held.size) {
        held.size = held.size ? 2 * held.size : 64;
        held.things = realloc(held.things, held.size * sizeof *held.things);
        if (!held.things) abort();
    }
    held.things[held.count++] = thing;
    pthread_mutex_unlock(&held.lock);
}

void fake_let_go(const void *thing) {
    pthread_mutex_lock(&held.lock);
    for (size_t i = held.count; i-- > 0;) { /* mostly the newest goes first */
        if (held.things[i] != thing) continue;
        held.things[i] = held.things[--held.count];
        break;
    }
    pthread_mutex_unlock(&held.lock);
}

void fake_held_end(void) {
    pthread_mutex_lock(&held.lock);
    free(held.things);
    held.things = NULL;
    held.count = held.size = 0;
    pthread_mutex_unlock(&held.lock);
}
