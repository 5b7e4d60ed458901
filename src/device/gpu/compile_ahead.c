/* Sources that will be needed are compiled in parallel on their own threads, which touch neither the device nor its
 * context. The first user of a source waits for its thread and gets its failure. */
#include "base/thread.h"
#include "device/gpu/driver.h"

#include <stdlib.h>

struct gpu_ahead {
    struct gpu_ahead *next;
    struct gpu_device *device;
    const struct aorta_gpu_source *source;
    pthread_t thread;
    char *code; /* owned until it is taken */
    size_t bytes;
    aorta_status status;
};

static void *compile(void *user) {
    struct gpu_ahead *ahead = user;
    ahead->status = aorta_gpu_compile(ahead->device, ahead->source, &ahead->code, &ahead->bytes);
    return NULL;
}

void aorta_gpu_expect(struct aorta_device *base, const struct aorta_gpu_source *const *sources, size_t count) {
    struct gpu_device *device = gpu_device(base);
    if (!device->driver.vendor->compiles_side_by_side) return;
    for (size_t i = 0; i < count; i++) {
        struct gpu_ahead *ahead = calloc(1, sizeof *ahead);
        if (!ahead) return; /* they are compiled when they are needed */
        ahead->device = device;
        ahead->source = sources[i];
        pthread_mutex_lock(&device->functions.lock);
        if (aorta_thread_start(&ahead->thread, compile, ahead) == 0) {
            ahead->next = device->functions.ahead;
            device->functions.ahead = ahead;
            ahead = NULL;
        }
        pthread_mutex_unlock(&device->functions.lock);
        free(ahead);
    }
}

bool aorta_gpu_take_expected(struct gpu_functions *functions, const struct aorta_gpu_source *source, char **code,
                             size_t *bytes, aorta_status *status) {
    struct gpu_ahead **link = &functions->ahead;
    while (*link && (*link)->source != source) link = &(*link)->next;
    struct gpu_ahead *ahead = *link;
    if (!ahead) return false;
    *link = ahead->next;
    pthread_join(ahead->thread, NULL);
    *code = ahead->code;
    *bytes = ahead->bytes;
    *status = ahead->status;
    free(ahead);
    return true;
}

void aorta_gpu_expected_end(struct gpu_functions *functions) {
    while (functions->ahead) {
        char *code = NULL;
        size_t bytes;
        aorta_status status;
        aorta_gpu_take_expected(functions, functions->ahead->source, &code, &bytes, &status);
        if (!status) free(code);
        aorta_status_free(status);
    }
}
