#include "device/owned.h"
#include "base/array.h"

#include <stdlib.h>
#include <string.h>

struct aorta_owned_item {
    void *memory; /* NULL: an event */
    struct aorta_event *event;
};

static aorta_status reserve(struct aorta_owned *owned, const char *what) {
    if (aorta_array_fit(&owned->items, &owned->capacity, owned->count + 1, sizeof *owned->items)) return NULL;
    return AORTA_ERROR(AORTA_MEMORY, "%s: no host memory for the list of what is allocated", what);
}

static aorta_status keep(struct aorta_owned *owned, void *memory, void *place) {
    owned->items[owned->count++] = (struct aorta_owned_item){.memory = memory};
    memcpy(place, &memory, sizeof memory);
    return NULL;
}

aorta_status aorta_own_memory(struct aorta_owned *owned, size_t bytes, const char *what, void *place) {
    void *memory;
    AORTA_TRY(reserve(owned, what));
    AORTA_TRY(aorta_device_alloc(owned->device, bytes, what, &memory));
    return keep(owned, memory, place);
}

aorta_status aorta_own_pinned(struct aorta_owned *owned, size_t bytes, const char *what, void *place) {
    void *memory;
    AORTA_TRY(reserve(owned, what));
    AORTA_TRY(aorta_pinned_alloc(owned->device, bytes, what, &memory));
    return keep(owned, memory, place);
}

aorta_status aorta_own_zeros(struct aorta_owned *owned, struct aorta_stream *stream, size_t bytes, const char *what,
                             void *place) {
    AORTA_TRY(aorta_own_memory(owned, bytes, what, place));
    return aorta_fill_bytes(stream, owned->items[owned->count - 1].memory, 0, bytes);
}

aorta_status aorta_own_given(struct aorta_owned *owned, void *memory) {
    aorta_status status = reserve(owned, "memory");
    if (!status) return keep(owned, memory, &memory);
    aorta_device_free(owned->device, memory);
    return status;
}

aorta_status aorta_own_event(struct aorta_owned *owned, struct aorta_event **event) {
    AORTA_TRY(reserve(owned, "an event"));
    AORTA_TRY(aorta_event_create(owned->device, event));
    owned->items[owned->count++] = (struct aorta_owned_item){.event = *event};
    return NULL;
}

void aorta_owned_free(struct aorta_owned *owned) {
    while (owned->count) {
        const struct aorta_owned_item *item = &owned->items[--owned->count];
        aorta_event_destroy(item->event);
        aorta_device_free(owned->device, item->memory); /* it knows which kind of memory it is */
    }
    free(owned->items);
    *owned = (struct aorta_owned){0};
}
