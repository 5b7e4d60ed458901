/* Finds numbered things by a key: open addressing over the numbers 0, 1, 2, … of an array that the owner keeps.
 *
 *     uint32_t *slot = aorta_table_slot(&table, hash, same, context, key);
 *     if (!*slot) *slot = number + 1;   (after aorta_table_reserve)
 */
#ifndef AORTA_BASE_TABLE_H
#define AORTA_BASE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct aorta_table { /* zero-initialise */
    uint32_t *slots; /* number + 1; 0: free. slot_count is a power of two */
    size_t slot_count;
};

/* Capacity for `count` numbers in at most half of the slots. `hash_of` gives the hash of one that is in already. False
 * when memory is exhausted: the table is then as before. */
bool aorta_table_reserve(struct aorta_table *table, size_t count, uint64_t (*hash_of)(const void *of, uint32_t number),
                         const void *of);
void aorta_table_free(struct aorta_table *table);

/* The slot of the number for which `same` holds, or the free one where it belongs. The table has slots. Inline, so that
 * `same` is: it is the inner loop of reading a trace. */
static inline uint32_t *aorta_table_slot(const struct aorta_table *table, uint64_t hash,
                                         bool (*same)(const void *of, uint32_t number, const void *key), const void *of,
                                         const void *key) {
    size_t at = (size_t)hash & (table->slot_count - 1);
    while (table->slots[at] && !same(of, table->slots[at] - 1, key)) at = (at + 1) & (table->slot_count - 1);
    return &table->slots[at];
}

/* ---- hashes ----
 * Hashes of 64 bits, for tables and to find out whether things agree. Not meant against an adversary, nor for files
 * that another machine reads: the bytes' order is this one's. */

/* One more value. The two words are multiplied to 128 bits, whose halves are joined (the step of wyhash, Wang Yi). */
static inline uint64_t aorta_hash_add(uint64_t hash, uint64_t value) {
    const __uint128_t product = (__uint128_t)(hash ^ 0x9E3779B97F4A7C15u) * (value ^ 0xD1B54A32D192ED03u);
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t aorta_hash_bytes(const void *bytes, size_t length);

#endif
