#include "hwq/objects.h"
#include "base/random.h"
#include "hwq/kernels/kernels.h"
#include "hwq/stamps.h"

#include <stdlib.h>
#include <string.h>

enum kind { MEMORY, PINNED, EVENT, PREPARED };

struct item {
    struct item *before;
    enum kind kind;
    void *object;
};

struct aorta_hwq_objects {
    struct item *last;
    struct aorta_normal_table *table;
};

aorta_status aorta_hwq_objects_create(struct aorta_hwq *hwq) {
    hwq->objects = calloc(1, sizeof *hwq->objects);
    return hwq->objects ? NULL : AORTA_ERROR(AORTA_MEMORY, "no host memory for a workload");
}

const struct aorta_normal_table *aorta_hwq_objects_table(const struct aorta_hwq *hwq) {
    if (hwq->objects->table) return hwq->objects->table;
    hwq->objects->table = malloc(sizeof *hwq->objects->table);
    if (hwq->objects->table) aorta_normal_table_fill(hwq->objects->table);
    return hwq->objects->table;
}

static void destroy_item(struct aorta_hwq *hwq, const struct item *item) {
    if (item->kind == MEMORY) aorta_device_free(hwq->device, item->object);
    if (item->kind == PINNED) aorta_pinned_free(hwq->device, item->object);
    if (item->kind == EVENT) aorta_event_destroy(item->object);
    if (item->kind == PREPARED) {
        struct aorta_hwq_prepared *prepared = item->object;
        aorta_prepared_destroy(prepared->prepared);
        free(prepared);
    }
}

void aorta_hwq_objects_destroy(struct aorta_hwq *hwq) {
    while (hwq->objects && hwq->objects->last) {
        struct item *item = hwq->objects->last;
        hwq->objects->last = item->before;
        destroy_item(hwq, item);
        free(item);
    }
    if (hwq->objects) free(hwq->objects->table);
    free(hwq->objects);
    hwq->objects = NULL;
}

/* Allocated before the object, so that the object cannot be lost. */
static aorta_status create_item(struct item **item) {
    *item = calloc(1, sizeof **item);
    return *item ? NULL : AORTA_ERROR(AORTA_MEMORY, "no host memory for a workload's objects");
}

/* Adds the object to the list when it was created; frees the item otherwise. */
static aorta_status add(struct aorta_hwq *hwq, struct item *item, enum kind kind, void *object, aorta_status created) {
    if (created) {
        free(item);
        return created;
    }
    *item = (struct item){.before = hwq->objects->last, .kind = kind, .object = object};
    hwq->objects->last = item;
    return NULL;
}

aorta_status aorta_hwq_alloc(struct aorta_hwq *hwq, size_t bytes, const char *what, void **memory) {
    struct item *item;
    AORTA_TRY(create_item(&item));
    *memory = NULL;
    aorta_status created = aorta_device_alloc(hwq->device, bytes, what, memory);
    return add(hwq, item, MEMORY, *memory, created);
}

aorta_status aorta_hwq_pinned(struct aorta_hwq *hwq, size_t bytes, const char *what, void **memory) {
    struct item *item;
    AORTA_TRY(create_item(&item));
    *memory = NULL;
    aorta_status created = aorta_pinned_alloc(hwq->device, bytes, what, memory);
    return add(hwq, item, PINNED, *memory, created);
}

aorta_status aorta_hwq_event(struct aorta_hwq *hwq, struct aorta_event **event) {
    struct item *item;
    AORTA_TRY(create_item(&item));
    *event = NULL;
    aorta_status created = aorta_event_create_untimed(hwq->device, event);
    return add(hwq, item, EVENT, *event, created);
}

static aorta_status create_prepared(struct aorta_hwq *hwq, int stream, const struct aorta_kernel *kernel,
                                    const void *args, size_t bytes, struct aorta_hwq_prepared **out) {
    if (bytes > AORTA_HWQ_ARGUMENT_BYTES)
        return AORTA_ERROR(AORTA_INTERNAL, "kernel %s: %zu bytes of arguments, %d can be stamped", kernel->name, bytes,
                           AORTA_HWQ_ARGUMENT_BYTES);
    struct aorta_hwq_prepared *prepared = aligned_alloc(16, (sizeof *prepared + 15) / 16 * 16);
    if (!prepared) return AORTA_ERROR(AORTA_MEMORY, "no host memory to prepare kernel %s", kernel->name);
    *prepared = (struct aorta_hwq_prepared){.stream = stream, .kernel = kernel, .bytes = bytes};
    memcpy(prepared->args, args, bytes);
    aorta_status status = aorta_launch_prepare(hwq->streams[stream], kernel, args, bytes, &prepared->prepared);
    if (status) {
        free(prepared);
        return status;
    }
    *out = prepared;
    return NULL;
}

aorta_status aorta_hwq_prepare(struct aorta_hwq *hwq, int stream, const struct aorta_kernel *kernel, const void *args,
                               size_t bytes, struct aorta_hwq_prepared **prepared) {
    struct item *item;
    AORTA_TRY(create_item(&item));
    *prepared = NULL;
    aorta_status created = create_prepared(hwq, stream, kernel, args, bytes, prepared);
    return add(hwq, item, PREPARED, *prepared, created);
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
