#include "ops/row_cache.h"

#include "ops/jagged.h"

#include <math.h>
#include <string.h>

/* ---- rows ---- */

static int64_t code_bytes(int64_t columns) {
    return (columns + 3) / 4 * 4;
}

int64_t aorta_row_bytes(int64_t columns, bool coded) {
    return coded ? code_bytes(columns) + 2 * (int64_t)sizeof(float) : columns * (int64_t)sizeof(float);
}

void aorta_row_encode(const float *values, int64_t columns, unsigned char *row) {
    float least = values[0], most = values[0];
    for (int64_t c = 1; c < columns; c++) {
        least = fminf(least, values[c]);
        most = fmaxf(most, values[c]);
    }
    const float about[] = {(most - least) / 255.0f, least};
    for (int64_t c = 0; c < columns; c++)
        row[c] = about[0] > 0 ? (unsigned char)rintf((values[c] - least) / about[0]) : 0;
    memcpy(row + code_bytes(columns), about, sizeof about);
}

const float *aorta_row_values(const struct aorta_pool_slot *slot, const unsigned char *row, float *values) {
    float about[2];
    if (!slot->coded) return (const float *)(const void *)row;
    memcpy(about, row + code_bytes(slot->columns), sizeof about);
    for (int64_t c = 0; c < slot->columns; c++) values[c] = about[1] + about[0] * (float)row[c];
    return values;
}

static unsigned char *in_table(const struct aorta_pool_slot *slot, int64_t number) {
    return (unsigned char *)slot->table + number * slot->row_bytes;
}

/* ---- places ---- */

/* The number of a place's row. Lookups and updates of a batch read numbers while the next batch is brought: those of
 * their own rows do not change then. */
static uint32_t row_in(const struct aorta_row_cache *cache, int64_t place) {
    return __atomic_load_n(&cache->rows[place], __ATOMIC_RELAXED);
}

/* The place of a row in its set; AORTA_ROW_WAYS: it has none. */
static int64_t way_of(const struct aorta_row_cache *cache, int64_t set, uint32_t row) {
    int64_t way = 0;
    while (way < AORTA_ROW_WAYS && row_in(cache, set * AORTA_ROW_WAYS + way) != row + 1) way++;
    return way;
}

static unsigned char *values_at(const struct aorta_row_cache *cache, int64_t set, int64_t way) {
    return cache->values + (set * AORTA_ROW_WAYS + way) * cache->row_bytes;
}

unsigned char *aorta_row_at(const struct aorta_row_cache *cache, const struct aorta_pool_slot *slot, int64_t number) {
    if (!cache->sets) return in_table(slot, number);
    const int64_t row = slot->base + number, set = row / cache->per_set;
    const int64_t way = way_of(cache, set, (uint32_t)row);
    return way < AORTA_ROW_WAYS ? values_at(cache, set, way) : in_table(slot, number);
}

/* ---- filling ---- */

static bool occurs(const uint32_t *rows, int64_t count, uint32_t row) {
    int64_t first = 0;
    while (count > 0) {
        const int64_t half = count / 2;
        if (rows[first + half] == row) return true;
        if (rows[first + half] < row)
            first += half + 1, count -= half + 1;
        else
            count = half;
    }
    return false;
}

/* The row replaces the least recently used one, which is written back. False: all places are in use. */
static bool bring(const struct aorta_pool_sorted *s, int64_t set, int64_t i) {
    const struct aorta_row_cache *cache = &s->pool.cache;
    uint32_t *used = cache->used + set * AORTA_ROW_WAYS;
    int64_t way = 0;
    for (int64_t w = 1; w < AORTA_ROW_WAYS; w++)
        if (used[w] < used[way]) way = w;
    if (used[way] + 1 >= s->batch) return false;
    const int64_t place = set * AORTA_ROW_WAYS + way;
    if (cache->rows[place]) {
        const struct aorta_pool_slot *old = &s->pool.slot[cache->slots[place]];
        memcpy(in_table(old, (int64_t)cache->rows[place] - 1 - old->base), values_at(cache, set, way),
               (size_t)old->row_bytes);
        cache->counts[AORTA_ROWS_WRITTEN_BACK]++;
    }
    const int now = (int)(s->order.passes % 2);
    const uint32_t row = s->order.rows[now][i], cell = s->order.cells[s->order.places[now][i]];
    const int64_t number = cell / s->pool.shape.batch % s->pool.shape.slots;
    const struct aorta_pool_slot *slot = &s->pool.slot[number];
    memcpy(values_at(cache, set, way), in_table(slot, (int64_t)row - slot->base), (size_t)slot->row_bytes);
    __atomic_store_n(&cache->rows[place], row + 1, __ATOMIC_RELAXED);
    cache->slots[place] = (uint32_t)number, used[way] = s->batch;
    return true;
}

/* Rows [first, end) of the sorted ones, all of one set: those that are there stay. */
static void fill_set(const struct aorta_pool_sorted *s, int64_t set, int64_t first, int64_t end) {
    const struct aorta_row_cache *cache = &s->pool.cache;
    const uint32_t *rows = s->order.rows[s->order.passes % 2];
    for (int64_t i = first; i < end; i++) {
        const int64_t way = way_of(cache, set, rows[i]);
        if (way < AORTA_ROW_WAYS) cache->used[set * AORTA_ROW_WAYS + way] = s->batch;
    }
    for (int64_t i = first; i < end; i++) {
        if (i > first && rows[i - 1] == rows[i]) continue;
        if (way_of(cache, set, rows[i]) < AORTA_ROW_WAYS) {
            cache->counts[AORTA_ROWS_CACHED]++;
            continue;
        }
        const bool brought = !occurs(s->before, s->before_count, rows[i]) && bring(s, set, i);
        cache->counts[brought ? AORTA_ROWS_BROUGHT : AORTA_ROWS_WITHOUT_PLACE]++;
    }
}

void aorta_row_cache_fill(const struct aorta_pool_sorted *s) {
    const uint32_t *rows = s->order.rows[s->order.passes % 2];
    for (int64_t first = 0, end; first < s->count; first = end) {
        const int64_t set = rows[first] / s->pool.cache.per_set;
        for (end = first + 1; end < s->count && rows[end] / s->pool.cache.per_set == set;) end++;
        fill_set(s, set, first, end);
    }
}
