#include "base/table.h"

#include <stdlib.h>

bool aorta_table_reserve(struct aorta_table *table, size_t count, uint64_t (*hash_of)(const void *of, uint32_t number),
                         const void *of) {
    enum { FIRST = 64 };
    size_t slot_count = table->slot_count ? table->slot_count : FIRST;
    while (slot_count / 2 < count) slot_count *= 2;
    if (slot_count == table->slot_count) return true;
    uint32_t *slots = calloc(slot_count, sizeof *slots);
    if (!slots) return false;
    for (size_t i = 0; i < table->slot_count; i++) {
        if (!table->slots[i]) continue;
        size_t at = (size_t)hash_of(of, table->slots[i] - 1) & (slot_count - 1);
        while (slots[at]) at = (at + 1) & (slot_count - 1);
        slots[at] = table->slots[i];
    }
    free(table->slots);
    table->slots = slots;
    table->slot_count = slot_count;
    return true;
}

void aorta_table_free(struct aorta_table *table) {
    free(table->slots);
    *table = (struct aorta_table){0};
}
