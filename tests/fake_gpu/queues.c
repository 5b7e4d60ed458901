#include "fake_gpu/queues.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { QUEUES = 64, STREAMS = 512 };

struct member {
    struct aorta_stream *stream;
    int queue;
};

static struct {
    pthread_mutex_t lock; /* locked from enter to leave, so that the order of a queue is the order of the calls */
    bool barrier;
    int pattern[QUEUES], length; /* 0: streams have queues of their own */
    int made;                    /* streams so far, the clock's included */
    struct member members[STREAMS];
    int count;
    struct aorta_event *last[QUEUES]; /* the start or the end of the queue's last command */
    struct aorta_device *device;
} queues = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void read_environment(void) {
    queues.length = 0;
    const char *text = getenv("FAKE_GPU_QUEUES"), *list = text ? strchr(text, ':') : NULL;
    if (!text) return;
    queues.barrier = strncmp(text, "barrier:", 8) == 0;
    while (list && queues.length < QUEUES) {
        int queue = atoi(list + 1);
        if (queue < 0 || queue >= QUEUES) break;
        queues.pattern[queues.length++] = queue;
        list = strchr(list + 1, ',');
    }
    if (!queues.length) fprintf(stderr, "fake GPU: FAKE_GPU_QUEUES=%s says nothing\n", text);
}

static struct member *find(const struct aorta_stream *stream) {
    for (int i = 0; i < queues.count; i++)
        if (queues.members[i].stream == stream) return &queues.members[i];
    return NULL;
}

void fake_queues_add(struct aorta_device *device, struct aorta_stream *stream) {
    pthread_mutex_lock(&queues.lock);
    queues.device = device;
    if (!queues.made) read_environment();
    if (queues.made++ && queues.length && queues.count < STREAMS)
        queues.members[queues.count++] = (struct member){stream, queues.pattern[(queues.made - 2) % queues.length]};
    pthread_mutex_unlock(&queues.lock);
}

void fake_queues_remove(struct aorta_stream *stream) {
    pthread_mutex_lock(&queues.lock);
    struct member *member = find(stream);
    if (member)
        *member = queues.members[--queues.count];
    else
        queues.made = 0; /* the clock's: the device closes, and the next one begins anew */
    /* The last stream takes the events with it, or they would outlive the device. */
    for (int i = 0; i < QUEUES && !queues.count; i++) {
        aorta_event_destroy(queues.last[i]);
        queues.last[i] = NULL;
    }
    pthread_mutex_unlock(&queues.lock);
}

static void mark(struct aorta_stream *stream, int queue) {
    struct aorta_event *event;
    aorta_status status = aorta_event_create(queues.device, &event);
    if (!status) {
        status = aorta_event_record(event, stream);
        aorta_event_destroy(queues.last[queue]);
        queues.last[queue] = event;
    }
    aorta_status_free(status);
}

void fake_queues_enter(struct aorta_stream *stream) {
    pthread_mutex_lock(&queues.lock);
    const struct member *member = aorta_stream_capturing(stream) ? NULL : find(stream);
    if (!member) return;
    if (queues.last[member->queue]) aorta_status_free(aorta_stream_wait(stream, queues.last[member->queue]));
    if (!queues.barrier) mark(stream, member->queue);
}

void fake_queues_leave(struct aorta_stream *stream) {
    const struct member *member = aorta_stream_capturing(stream) ? NULL : find(stream);
    if (member && queues.barrier) mark(stream, member->queue);
    pthread_mutex_unlock(&queues.lock);
}
