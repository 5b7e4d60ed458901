#include "hwq/objects.h"
#include "hwq/kernels/kernels.h"
#include "hwq/stamps.h"

#include <string.h>

void aorta_hwq_objects_destroy(struct aorta_hwq *hwq) {
    for (; hwq->last; hwq->last = hwq->last->before) aorta_prepared_destroy(hwq->last->prepared);
    aorta_owned_free(&hwq->owned);
}

aorta_status aorta_hwq_prepare(struct aorta_hwq *hwq, int stream, const struct aorta_kernel *kernel, const void *args,
                               size_t bytes, struct aorta_hwq_prepared **out) {
    if (bytes > AORTA_HWQ_ARGUMENT_BYTES)
        return AORTA_ERROR(AORTA_INTERNAL, "kernel %s: %zu bytes of arguments, %d can be stamped", kernel->name, bytes,
                           AORTA_HWQ_ARGUMENT_BYTES);
    struct aorta_hwq_prepared *prepared = aorta_arena_alloc(hwq->arena, sizeof *prepared);
    if (!prepared) return AORTA_ERROR(AORTA_MEMORY, "no host memory to prepare kernel %s", kernel->name);
    *prepared = (struct aorta_hwq_prepared){.before = hwq->last, .stream = stream, .kernel = kernel, .bytes = bytes};
    memcpy(prepared->args, args, bytes);
    AORTA_TRY(aorta_launch_prepare(hwq->streams[stream], kernel, args, bytes, &prepared->prepared));
    *out = hwq->last = prepared;
    return NULL;
}

/* ---- launches ---- */

enum { BATCH = 512 };

/* The arguments with the address of a stamp in their first member. */
static aorta_status launch_stamped(struct aorta_hwq *hwq, const struct aorta_hwq_prepared *p) {
    _Alignas(16) unsigned char stamped[AORTA_HWQ_ARGUMENT_BYTES];
    struct aorta_hwq_stamp *stamp;
    const struct aorta_span span = {.stream = p->stream, .kind = AORTA_SPAN_KERNEL, .name = p->kernel->name};
    AORTA_TRY(aorta_hwq_stamps_next(hwq->stamps, span, &stamp));
    memcpy(stamped, p->args, p->bytes);
    memcpy(stamped, &stamp, sizeof stamp);
    return aorta_launch(hwq->streams[p->stream], p->kernel, stamped, p->bytes);
}

aorta_status aorta_hwq_launch_prepared(struct aorta_hwq *hwq, struct aorta_hwq_prepared *const *launches,
                                       size_t count) {
    hwq->queued += (int64_t)count;
    if (hwq->stamps) {
        for (size_t i = 0; i < count; i++) AORTA_TRY(launch_stamped(hwq, launches[i]));
        return NULL;
    }
    struct aorta_prepared *items[BATCH];
    for (size_t done = 0; done < count;) {
        const size_t piece = count - done < BATCH ? count - done : BATCH;
        for (size_t i = 0; i < piece; i++) items[i] = launches[done + i]->prepared;
        AORTA_TRY(aorta_launch_prepared(items, piece));
        done += piece;
    }
    return NULL;
}

static aorta_status mark(struct aorta_hwq *hwq, int stream, int64_t *slot) {
    const struct aorta_hwq_mark args = {slot};
    return aorta_launch(hwq->streams[stream], &aorta_hwq_kernel_mark, &args, sizeof args);
}

aorta_status aorta_hwq_begin(struct aorta_hwq *hwq, int stream, enum aorta_span_kind kind, const char *name) {
    hwq->queued++;
    if (!hwq->stamps) return NULL;
    struct aorta_hwq_stamp **open = aorta_hwq_stamps_open(hwq->stamps, stream);
    if (*open) return AORTA_ERROR(AORTA_INTERNAL, "%s begins on stream %d before another one has ended", name, stream);
    const struct aorta_span span = {.stream = stream, .kind = kind, .marked = true, .name = name};
    AORTA_TRY(aorta_hwq_stamps_next(hwq->stamps, span, open));
    return mark(hwq, stream, &(*open)->start);
}

aorta_status aorta_hwq_end(struct aorta_hwq *hwq, int stream) {
    if (!hwq->stamps) return NULL;
    struct aorta_hwq_stamp **open = aorta_hwq_stamps_open(hwq->stamps, stream);
    if (!*open) return AORTA_ERROR(AORTA_INTERNAL, "an operation ends on stream %d where none has begun", stream);
    struct aorta_hwq_stamp *stamp = *open;
    *open = NULL;
    return mark(hwq, stream, &stamp->end);
}
