/* State that other modules attach to a device. */
#include "device/backend.h"
#include "device/gpu.h"

#include <pthread.h>
#include <stdlib.h>

struct attachment {
    struct attachment *before;
    const void *key;
    void *state;
    void (*end)(void *state);
};

struct aorta_attachments {
    pthread_mutex_t lock; /* recursive: making one may need another */
    struct attachment *last;
};

aorta_status aorta_attachments_create(struct aorta_attachments **attachments) {
    struct aorta_attachments *made = calloc(1, sizeof *made);
    if (!made) return AORTA_ERROR(AORTA_MEMORY, "no host memory to describe the device");
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&made->lock, &recursive);
    pthread_mutexattr_destroy(&recursive);
    *attachments = made;
    return NULL;
}

void aorta_attachments_destroy(struct aorta_attachments *attachments) {
    if (!attachments) return;
    while (attachments->last) {
        struct attachment *attachment = attachments->last;
        attachments->last = attachment->before;
        attachment->end(attachment->state);
        free(attachment);
    }
    pthread_mutex_destroy(&attachments->lock);
    free(attachments);
}

static aorta_status attach(struct aorta_device *device, const void *key,
                           aorta_status (*make)(struct aorta_device *device, void **state), void (*end)(void *state),
                           void **state) {
    struct attachment *attachment = malloc(sizeof *attachment);
    if (!attachment) return AORTA_ERROR(AORTA_MEMORY, "no host memory to describe the device");
    aorta_status status = make(device, state);
    if (status) {
        free(attachment);
        return status;
    }
    *attachment = (struct attachment){device->attachments->last, key, *state, end};
    device->attachments->last = attachment;
    return NULL;
}

aorta_status aorta_device_attachment(struct aorta_device *device, const void *key,
                                     aorta_status (*make)(struct aorta_device *device, void **state),
                                     void (*end)(void *state), void **state) {
    struct aorta_attachments *attachments = device->attachments;
    pthread_mutex_lock(&attachments->lock);
    struct attachment *found = attachments->last;
    while (found && found->key != key) found = found->before;
    if (found) *state = found->state;
    aorta_status status = found ? NULL : attach(device, key, make, end, state);
    pthread_mutex_unlock(&attachments->lock);
    return status;
}
