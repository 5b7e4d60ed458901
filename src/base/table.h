/* Hash table with open addressing: finds the index of an item in the owner's array by a key.
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

/* Capacity for `count` numbers in at most half of the slots. `hash_of` returns the hash of a stored number. False if
 * memory is exhausted; the table is then unchanged. */
bool aorta_table_reserve(struct aorta_table *table, size_t count, uint64_t (*hash_of)(const void *of, uint32_t number),
                         const void *of);
void aorta_table_free(struct aorta_table *table);

/* The slot of the number for which `same` is true, or the free slot for it. The table must have slots. Inline, so that
 * `same` is inlined: this is the inner loop of reading a trace. */
static inline uint32_t *aorta_table_slot(const struct aorta_table *table, uint64_t hash,
                                         bool (*same)(const void *of, uint32_t number, const void *key), const void *of,
                                         const void *key) {
    size_t at = (size_t)hash & (table->slot_count - 1);
    while (table->slots[at] && !same(of, table->slots[at] - 1, key)) at = (at + 1) & (table->slot_count - 1);
    return &table->slots[at];
}

/* ---- hashes ----
 * 64-bit hashes, for tables and for equality checks. Not for security, and not for files that another machine reads:
 * they depend on the byte order. */

/* Adds a value: the halves of the 128-bit product are XORed (the step of wyhash, Wang Yi). */
static inline uint64_t aorta_hash_add(uint64_t hash, uint64_t value) {
    const __uint128_t product = (__uint128_t)(hash ^ 0x9E3779B97F4A7C15u) * (value ^ 0xD1B54A32D192ED03u);
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t aorta_hash_bytes(const void *bytes, size_t length);

#endif
