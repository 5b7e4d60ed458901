#include "hwq/kept.h"

#include "base/random.h"

#include <stdlib.h>
#include <string.h>

enum kept_kind { KEPT_MEMORY, KEPT_PINNED, KEPT_EVENT, KEPT_SHOT };

struct kept_item {
    struct kept_item *before;
    enum kept_kind kind;
    void *object;
};

struct aorta_hwq_kept {
    struct kept_item *last;
    struct aorta_normal_table *table;
};

aorta_status aorta_hwq_kept_create(struct aorta_hwq *hwq) {
    hwq->kept = calloc(1, sizeof *hwq->kept);
    return hwq->kept ? NULL : AORTA_ERROR(AORTA_MEMORY, "no host memory for a workload");
}

const struct aorta_normal_table *aorta_hwq_kept_table(const struct aorta_hwq *hwq) {
    if (hwq->kept->table) return hwq->kept->table;
    hwq->kept->table = malloc(sizeof *hwq->kept->table);
    if (hwq->kept->table) aorta_normal_table_fill(hwq->kept->table);
    return hwq->kept->table;
}

static void destroy_item(struct aorta_hwq *hwq, const struct kept_item *item) {
    if (item->kind == KEPT_MEMORY) aorta_device_free(hwq->device, item->object);
    if (item->kind == KEPT_PINNED) aorta_pinned_free(hwq->device, item->object);
    if (item->kind == KEPT_EVENT) aorta_event_destroy(item->object);
    if (item->kind == KEPT_SHOT) {
        struct aorta_hwq_shot *shot = item->object;
        aorta_prepared_destroy(shot->prepared);
        free(shot);
    }
}

void aorta_hwq_kept_destroy(struct aorta_hwq *hwq) {
    while (hwq->kept && hwq->kept->last) {
        struct kept_item *item = hwq->kept->last;
        hwq->kept->last = item->before;
        destroy_item(hwq, item);
        free(item);
    }
    if (hwq->kept) free(hwq->kept->table);
    free(hwq->kept);
    hwq->kept = NULL;
}

/* Room for one more, made before the object, so that the object cannot be lost. */
static aorta_status make_room(struct kept_item **item) {
    *item = calloc(1, sizeof **item);
    return *item ? NULL : AORTA_ERROR(AORTA_MEMORY, "no host memory for a workload's objects");
}

/* Keeps the object when it was made; frees the room otherwise. */
static aorta_status keep(struct aorta_hwq *hwq, struct kept_item *item, enum kept_kind kind, void *object,
                         aorta_status made) {
    if (made) {
        free(item);
        return made;
    }
    *item = (struct kept_item){.before = hwq->kept->last, .kind = kind, .object = object};
    hwq->kept->last = item;
    return NULL;
}

aorta_status aorta_hwq_alloc(struct aorta_hwq *hwq, size_t bytes, const char *what, void **memory) {
    struct kept_item *item;
    AORTA_TRY(make_room(&item));
    *memory = NULL;
    aorta_status made = aorta_device_alloc(hwq->device, bytes, what, memory);
    return keep(hwq, item, KEPT_MEMORY, *memory, made);
}

aorta_status aorta_hwq_pinned(struct aorta_hwq *hwq, size_t bytes, const char *what, void **memory) {
    struct kept_item *item;
    AORTA_TRY(make_room(&item));
    *memory = NULL;
    aorta_status made = aorta_pinned_alloc(hwq->device, bytes, what, memory);
    return keep(hwq, item, KEPT_PINNED, *memory, made);
}

aorta_status aorta_hwq_event(struct aorta_hwq *hwq, struct aorta_event **event) {
    struct kept_item *item;
    AORTA_TRY(make_room(&item));
    *event = NULL;
    aorta_status made = aorta_event_create_untimed(hwq->device, event);
    return keep(hwq, item, KEPT_EVENT, *event, made);
}

static aorta_status make_shot(struct aorta_hwq *hwq, int stream, const struct aorta_kernel *kernel, const void *args,
                              size_t bytes, struct aorta_hwq_shot **made) {
    if (bytes > AORTA_HWQ_ARGUMENT_BYTES)
        return AORTA_ERROR(AORTA_INTERNAL, "kernel %s: %zu bytes of arguments, %d can be stamped", kernel->name, bytes,
                           AORTA_HWQ_ARGUMENT_BYTES);
    struct aorta_hwq_shot *shot = aligned_alloc(16, (sizeof *shot + 15) / 16 * 16);
    if (!shot) return AORTA_ERROR(AORTA_MEMORY, "no host memory to prepare kernel %s", kernel->name);
    *shot = (struct aorta_hwq_shot){.stream = stream, .kernel = kernel, .bytes = bytes};
    memcpy(shot->args, args, bytes);
    aorta_status status = aorta_launch_prepare(hwq->streams[stream], kernel, args, bytes, &shot->prepared);
    if (status) {
        free(shot);
        return status;
    }
    *made = shot;
    return NULL;
}

aorta_status aorta_hwq_prepare(struct aorta_hwq *hwq, int stream, const struct aorta_kernel *kernel, const void *args,
                               size_t bytes, struct aorta_hwq_shot **shot) {
    struct kept_item *item;
    AORTA_TRY(make_room(&item));
    *shot = NULL;
    aorta_status made = make_shot(hwq, stream, kernel, args, bytes, shot);
    return keep(hwq, item, KEPT_SHOT, *shot, made);
}
