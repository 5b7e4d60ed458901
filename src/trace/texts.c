#include "trace/texts.h"

#include "base/array.h"
#include "base/printable.h"
#include "base/table.h"

#include <stdlib.h>
#include <string.h>

struct slice {
    const char *text;
    size_t length;
    uint32_t hash;
};

static uint64_t hash_of(const void *of, uint32_t number) {
    const struct aorta_trace_texts *texts = of;
    return texts->entries[number].hash;
}

static bool is_slice(const void *of, uint32_t number, const void *key) {
    const struct aorta_trace_texts *texts = of;
    const struct aorta_trace_text_entry *entry = &texts->entries[number];
    const struct slice *slice = key;
    return entry->hash == slice->hash && entry->length == slice->length &&
           !memcmp(entry->raw, slice->text, slice->length);
}

uint32_t aorta_trace_texts_add(struct aorta_trace_texts *texts, const char *text, size_t length) {
    if (!aorta_table_reserve(&texts->table, texts->count + 1, hash_of, texts)) return UINT32_MAX;
    const struct slice slice = {text, length, (uint32_t)aorta_hash_bytes(text, length)};
    uint32_t *slot = aorta_table_slot(&texts->table, slice.hash, is_slice, texts, &slice);
    if (*slot) return *slot - 1;
    if (length > UINT32_MAX || texts->count >= UINT32_MAX - 1) return UINT32_MAX;
    if (!aorta_array_fit(&texts->entries, &texts->capacity, texts->count + 1, sizeof *texts->entries))
        return UINT32_MAX;
    char *raw = aorta_arena_alloc(&texts->arena, length + 1), *shown = raw;
    if (!raw) return UINT32_MAX;
    memcpy(raw, text, length);
    if (!aorta_is_printable(raw, length, false)) {
        shown = aorta_arena_alloc(&texts->arena, length + 1);
        if (!shown) return UINT32_MAX;
        memcpy(shown, raw, length);
        aorta_make_printable(shown, length, false);
    }
    texts->entries[texts->count] = (struct aorta_trace_text_entry){shown, raw, (uint32_t)length, slice.hash};
    *slot = (uint32_t)++texts->count;
    return *slot - 1;
}

void aorta_trace_texts_free(struct aorta_trace_texts *texts) {
    aorta_arena_free(&texts->arena);
    free(texts->entries);
    aorta_table_free(&texts->table);
    memset(texts, 0, sizeof *texts);
}
