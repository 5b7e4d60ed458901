/* Device memory: blocks in use, and the limit on them. Blocks are in a list, as a GPU's memory cannot hold headers that
 * the host reads. Freed blocks go back to the system: nothing allocates in its steps. */
#include "base/array.h"
#include "base/clock.h"
#include "device/backend.h"
#include "device/device.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 256, FREE_AGE_NS = 100000000 };

struct block {
    void *memory;
    size_t bytes;                           /* asked for, rounded up */
    bool pinned;                            /* page-locked host memory */
    void (*put)(void *owner, void *memory); /* of adopted memory; else NULL */
    void *owner;
};

struct aorta_memory {
    struct aorta_device *device;
    pthread_mutex_t lock;
    struct block *live;
    size_t live_count, live_size;
    struct aorta_memory_info info; /* without `reserved` and `free` */
    uint64_t limit;
    struct aorta_memory_event *events; /* in order */
    size_t event_count, event_capacity;
    uint64_t system_free; /* free memory of the system when last read */
    int64_t asked_ns;     /* by the device clock; 0: never */
};

/* ---- live blocks ---- */

/* Makes a place for one more. */
static bool reserve_place(struct aorta_memory *memory) {
    return aorta_array_fit(&memory->live, &memory->live_size, memory->live_count + 1, sizeof *memory->live);
}

/* Takes a block out of the list; the result's memory is NULL if the address is not in it. The search begins with the
 * newest block, which is usually freed first. */
static struct block take_live(struct aorta_memory *memory, const void *address) {
    size_t at = memory->live_count;
    while (at > 0 && memory->live[at - 1].memory != address) at--;
    if (!at) return (struct block){0};
    const struct block found = memory->live[at - 1];
    memory->live[at - 1] = memory->live[--memory->live_count];
    return found;
}

/* ---- messages ---- */

static const char *readable(uint64_t bytes, char *text, size_t size) {
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < sizeof units / sizeof *units) {
        value /= 1024;
        unit++;
    }
    snprintf(text, size, unit ? "%.2f %s" : "%.0f %s", value, units[unit]);
    return text;
}

/* Asking the system costs up to some hundred microseconds, so an answer serves for `age_ns`. */
static uint64_t system_free(struct aorta_memory *memory, int64_t age_ns) {
    struct aorta_device *device = memory->device;
    int64_t now = aorta_clock_ns();
    if (!memory->asked_ns || now - memory->asked_ns > age_ns) {
        memory->system_free = device->backend->memory_free(device);
        memory->asked_ns = now;
    }
    return memory->system_free;
}

/* Memory for new allocations: the system's free memory, up to the limit. */
static uint64_t left(struct aorta_memory *memory, int64_t age_ns) {
    uint64_t rest = system_free(memory, age_ns);
    if (!memory->limit) return rest;
    uint64_t allowed = memory->limit > memory->info.allocated ? memory->limit - memory->info.allocated : 0;
    return allowed < rest ? allowed : rest;
}

static aorta_status full(struct aorta_memory *memory, const char *kind, const char *what, size_t bytes) {
    char size[32], rest[32], used[32];
    const struct aorta_device_info *info = &memory->device->info;
    return AORTA_ERROR(AORTA_MEMORY, "%s: %s of %s memory do not fit on %s:%d: %s free, %s in use", what,
                       readable(bytes, size, sizeof size), kind, aorta_device_kind_name(info->kind), info->index,
                       readable(left(memory, 0), rest, sizeof rest),
                       readable(memory->info.allocated, used, sizeof used));
}

/* ---- the calls ---- */

aorta_status aorta_memory_create(struct aorta_device *device, struct aorta_memory **memory) {
    struct aorta_memory *made = calloc(1, sizeof *made);
    if (!made) return AORTA_ERROR(AORTA_MEMORY, "no host memory to describe the device's");
    made->device = device;
    pthread_mutex_init(&made->lock, NULL);
    *memory = made;
    return NULL;
}

static void give_back(struct aorta_memory *memory, struct block block) {
    const struct aorta_backend *backend = memory->device->backend;
    if (block.pinned)
        backend->pinned_put(memory->device, block.memory, block.bytes);
    else
        backend->memory_put(memory->device, block.memory);
}

/* Adopted memory should have been freed before. Its owner may no longer exist, so it is not returned. */
void aorta_memory_destroy(struct aorta_memory *memory) {
    for (size_t i = 0; i < memory->live_count; i++)
        if (!memory->live[i].put) give_back(memory, memory->live[i]);
    pthread_mutex_destroy(&memory->lock);
    free(memory->live);
    free(memory->events);
    free(memory);
}

/* Records an event of device memory; dropped when the table is full. */
static void record_event(struct aorta_memory *memory, const struct block *block, int64_t bytes) {
    enum { MOST_EVENTS = 65536 };
    if (memory->event_count == MOST_EVENTS ||
        !aorta_array_fit(&memory->events, &memory->event_capacity, memory->event_count + 1, sizeof *memory->events))
        return;
    memory->events[memory->event_count++] = (struct aorta_memory_event){.time_ns = aorta_clock_ns(),
                                                                        .bytes = bytes,
                                                                        .address = (uint64_t)(uintptr_t)block->memory,
                                                                        .allocated = memory->info.allocated,
                                                                        .reserved = memory->info.allocated};
}

static void add_live(struct aorta_memory *memory, struct block block) {
    memory->live[memory->live_count++] = block;
    if (block.pinned) {
        memory->info.pinned += block.bytes;
        return;
    }
    memory->info.allocated += block.bytes;
    if (memory->info.allocated > memory->info.peak) memory->info.peak = memory->info.allocated;
    record_event(memory, &block, (int64_t)block.bytes);
}

static bool within_limit(const struct aorta_memory *memory, size_t bytes) {
    return !memory->limit || (bytes <= memory->limit && memory->info.allocated <= memory->limit - bytes);
}

/* The block's memory is NULL when there is no more. */
static aorta_status obtain(struct aorta_memory *memory, struct block *block) {
    struct aorta_device *device = memory->device;
    if (block->pinned) return device->backend->pinned_get(device, block->bytes, &block->memory);
    return within_limit(memory, block->bytes) ? device->backend->memory_get(device, block->bytes, &block->memory)
                                              : NULL;
}

/* Rounds up to the alignment, 0 when that is too much to count. No bytes still make a block, so that every address is
 * distinct. */
static size_t round_up(size_t bytes) {
    if (bytes > SIZE_MAX - ALIGNMENT) return 0;
    return bytes ? (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT : ALIGNMENT;
}

static aorta_status allocate(struct aorta_device *device, bool pinned, size_t bytes, const char *what, void **result) {
    struct aorta_memory *memory = device->memory;
    struct block block = {.pinned = pinned, .bytes = round_up(bytes)};
    aorta_status status = NULL;
    pthread_mutex_lock(&memory->lock);
    if (block.bytes && reserve_place(memory)) status = aorta_annotate(obtain(memory, &block), "%s", what);
    if (!status && !block.memory) status = full(memory, pinned ? "page-locked" : "device", what, bytes);
    if (!status) {
        add_live(memory, block);
        *result = block.memory;
    }
    pthread_mutex_unlock(&memory->lock);
    return status;
}

aorta_status aorta_device_alloc(struct aorta_device *device, size_t bytes, const char *what, void **result) {
    return allocate(device, false, bytes, what, result);
}

aorta_status aorta_pinned_alloc(struct aorta_device *device, size_t bytes, const char *what, void **result) {
    return allocate(device, true, bytes, what, result);
}

aorta_status aorta_device_adopt(struct aorta_device *device, void *adopted, size_t bytes, const char *what,
                                void (*put)(void *owner, void *memory), void *owner) {
    struct aorta_memory *memory = device->memory;
    const struct block block = {.memory = adopted, .bytes = bytes, .put = put, .owner = owner};
    aorta_status status = NULL;
    pthread_mutex_lock(&memory->lock);
    if (adopted && within_limit(memory, bytes) && reserve_place(memory))
        add_live(memory, block);
    else
        status = full(memory, "device", what, bytes);
    pthread_mutex_unlock(&memory->lock);
    return status;
}

/* The block knows which kind of memory it is. */
void aorta_device_free(struct aorta_device *device, void *address) {
    struct aorta_memory *memory = device->memory;
    if (!address) return;
    pthread_mutex_lock(&memory->lock);
    struct block block = take_live(memory, address);
    *(block.pinned ? &memory->info.pinned : &memory->info.allocated) -= block.bytes;
    if (block.memory && !block.pinned) record_event(memory, &block, -(int64_t)block.bytes);
    if (block.memory && !block.put) give_back(memory, block);
    pthread_mutex_unlock(&memory->lock);
    if (block.put) block.put(block.owner, block.memory); /* may take long */
}

void aorta_pinned_free(struct aorta_device *device, void *address) {
    aorta_device_free(device, address);
}

struct aorta_memory_info aorta_device_memory(struct aorta_device *device) {
    struct aorta_memory *memory = device->memory;
    pthread_mutex_lock(&memory->lock);
    struct aorta_memory_info info = memory->info;
    info.reserved = info.allocated;
    info.peak_reserved = info.peak;
    info.free = left(memory, FREE_AGE_NS);
    pthread_mutex_unlock(&memory->lock);
    return info;
}

size_t aorta_device_memory_events(struct aorta_device *device, size_t from, struct aorta_memory_event *events,
                                  size_t capacity) {
    struct aorta_memory *memory = device->memory;
    pthread_mutex_lock(&memory->lock);
    size_t count = from < memory->event_count ? memory->event_count - from : 0;
    if (count > capacity) count = capacity;
    if (count) memcpy(events, memory->events + from, count * sizeof *events);
    pthread_mutex_unlock(&memory->lock);
    return count;
}

void aorta_device_reset_peak(struct aorta_device *device) {
    pthread_mutex_lock(&device->memory->lock);
    device->memory->info.peak = device->memory->info.allocated;
    pthread_mutex_unlock(&device->memory->lock);
}

void aorta_device_limit_memory(struct aorta_device *device, uint64_t bytes) {
    struct aorta_memory *memory = device->memory;
    pthread_mutex_lock(&memory->lock);
    memory->limit = bytes;
    pthread_mutex_unlock(&memory->lock);
}
