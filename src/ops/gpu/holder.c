#include "ops/gpu/holder.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct aorta_holder {
    struct aorta_device *device;
    struct aorta_beside beside;
    struct aorta_stream *streams[AORTA_BESIDE_MOST];
    struct aorta_hold *holds; /* pinned, one for each kernel */
};

static aorta_status build(struct aorta_holder *holder) {
    void *holds;
    const int count = holder->beside.count;
    AORTA_TRY(aorta_pinned_alloc(holder->device, (size_t)count * sizeof *holder->holds, "held room", &holds));
    holder->holds = holds;
    for (int i = 0; i < count; i++)
        AORTA_TRY(aorta_stream_create(holder->device, "held room", AORTA_PRIORITY_HIGH, &holder->streams[i]));
    return NULL;
}

aorta_status aorta_holder_create(struct aorta_device *device, const struct aorta_beside *beside,
                                 struct aorta_holder **out) {
    *out = NULL;
    if (!beside || !beside->count) return NULL;
    struct aorta_holder *holder = calloc(1, sizeof *holder);
    if (!holder) return AORTA_ERROR(AORTA_MEMORY, "no host memory for kernels that hold room");
    holder->device = device;
    holder->beside = *beside;
    aorta_status status = build(holder);
    if (status)
        aorta_holder_destroy(holder);
    else
        *out = holder;
    return status;
}

void aorta_holder_destroy(struct aorta_holder *holder) {
    if (!holder) return;
    for (int i = 0; i < holder->beside.count; i++)
        if (holder->streams[i]) aorta_stream_destroy(holder->streams[i]);
    if (holder->holds) aorta_pinned_free(holder->device, holder->holds);
    free(holder);
}

static uint32_t count_begun(const struct aorta_holder *holder, int kernel) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < holder->beside.kernels[kernel].blocks; i++)
        count += __atomic_load_n(&holder->holds[kernel].begun[i], __ATOMIC_ACQUIRE) != 0;
    return count;
}

/* By the host's clock no longer than the blocks stay: what began first is still there then. */
static aorta_status await_blocks(const struct aorta_holder *holder, int64_t limit_ns) {
    const int64_t begin = aorta_clock_ns();
    for (int i = 0; i < holder->beside.count; i++) {
        const uint32_t wanted = holder->beside.kernels[i].blocks;
        uint32_t begun;
        while ((begun = count_begun(holder, i)) < wanted) {
            if (aorta_clock_ns() - begin > limit_ns)
                return AORTA_ERROR(AORTA_DEVICE, "of %u blocks that were to hold room %u found it within %.1f ms",
                                   wanted, begun, (double)limit_ns * 1e-6);
            nanosleep(&(struct timespec){.tv_nsec = 5000}, NULL);
        }
    }
    return NULL;
}

static aorta_status start(struct aorta_holder *holder, int64_t limit_ns) {
    memset(holder->holds, 0, (size_t)holder->beside.count * sizeof *holder->holds);
    for (int i = 0; i < holder->beside.count; i++)
        AORTA_TRY(aorta_hold_room(holder->streams[i], &holder->beside.kernels[i], &holder->holds[i], limit_ns));
    return await_blocks(holder, limit_ns);
}

aorta_status aorta_holder_begin(struct aorta_holder *holder, int64_t limit_ns) {
    if (!holder) return NULL;
    aorta_status status = start(holder, limit_ns);
    return status ? aorta_status_join(aorta_holder_end(holder), status) : NULL;
}

aorta_status aorta_holder_end(struct aorta_holder *holder) {
    aorta_status status = NULL;
    for (int i = 0; holder && i < holder->beside.count; i++)
        __atomic_store_n(&holder->holds[i].release, 1, __ATOMIC_RELEASE);
    for (int i = 0; holder && i < holder->beside.count; i++)
        status = aorta_status_join(status, aorta_stream_synchronize(holder->streams[i]));
    return status;
}
