#include "timeline/texts.h"
#include "base/printable.h"

#include <stdlib.h>
#include <string.h>

static uint64_t mix(uint64_t a, uint64_t b) {
    __uint128_t product = (__uint128_t)(a ^ 0x9E3779B97F4A7C15u) * (b ^ 0xD1B54A32D192ED03u);
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Multiplies 16 bytes at a time into one word. Not meant against an adversary: tables grow by count, not by luck. */
uint64_t aorta_trace_hash(const void *bytes, size_t length) {
    const unsigned char *at = bytes;
    uint64_t hash = length, a, b;
    for (size_t left = length; left >= 16; left -= 16, at += 16) {
        memcpy(&a, at, 8);
        memcpy(&b, at + 8, 8);
        hash = mix(a ^ hash, b);
    }
    unsigned char rest[16] = {0};
    memcpy(rest, at, length % 16);
    memcpy(&a, rest, 8);
    memcpy(&b, rest + 8, 8);
    return mix(a ^ hash, b);
}

static int grow_slots(struct aorta_trace_texts *texts) {
    size_t slot_count = texts->slot_count ? texts->slot_count * 2 : 1024;
    uint32_t *slots = calloc(slot_count, sizeof *slots);
    if (!slots) return 0;
    for (size_t i = 0; i < texts->count; i++) {
        size_t slot = texts->entries[i].hash & (slot_count - 1);
        while (slots[slot]) slot = (slot + 1) & (slot_count - 1);
        slots[slot] = (uint32_t)i + 1;
    }
    free(texts->slots);
    texts->slots = slots;
    texts->slot_count = slot_count;
    return 1;
}

static int grow_entries(struct aorta_trace_texts *texts) {
    size_t capacity = texts->capacity ? texts->capacity * 2 : 512;
    struct aorta_trace_text_entry *entries = realloc(texts->entries, capacity * sizeof *entries);
    if (!entries) return 0;
    texts->entries = entries;
    texts->capacity = capacity;
    return 1;
}

uint32_t aorta_trace_texts_add(struct aorta_trace_texts *texts, const char *text, size_t length) {
    if (texts->count * 2 >= texts->slot_count && !grow_slots(texts)) return UINT32_MAX;
    uint32_t hash = (uint32_t)aorta_trace_hash(text, length);
    size_t slot = hash & (texts->slot_count - 1);
    for (; texts->slots[slot]; slot = (slot + 1) & (texts->slot_count - 1)) {
        const struct aorta_trace_text_entry *entry = &texts->entries[texts->slots[slot] - 1];
        if (entry->hash == hash && entry->length == length && !memcmp(entry->raw, text, length))
            return texts->slots[slot] - 1;
    }
    if (length > UINT32_MAX || texts->count >= UINT32_MAX - 1) return UINT32_MAX;
    if (texts->count == texts->capacity && !grow_entries(texts)) return UINT32_MAX;
    char *raw = aorta_arena_alloc(&texts->arena, length + 1), *shown = raw;
    if (!raw) return UINT32_MAX;
    memcpy(raw, text, length);
    if (!aorta_is_printable(raw, length, false)) {
        shown = aorta_arena_alloc(&texts->arena, length + 1);
        if (!shown) return UINT32_MAX;
        memcpy(shown, raw, length);
        aorta_make_printable(shown, length, false);
    }
    texts->entries[texts->count] = (struct aorta_trace_text_entry){shown, raw, (uint32_t)length, hash};
    texts->slots[slot] = (uint32_t)++texts->count;
    return (uint32_t)texts->count - 1;
}

void aorta_trace_texts_free(struct aorta_trace_texts *texts) {
    aorta_arena_free(&texts->arena);
    free(texts->entries);
    free(texts->slots);
    memset(texts, 0, sizeof *texts);
}
