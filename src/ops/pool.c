/* Pooled rows of tables, their gradients, and joining pooled columns of several ranks into one row. */
#include "base/sort.h"
#include "ops/gpu/gpu.h"

#include <math.h>
#include <stdlib.h>
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

/* The values of a row: in place, or decoded into `values` [columns]. */
static const float *row_values(const struct aorta_pool_slot *slot, const unsigned char *row, float *values) {
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

/* The number of a place's row. Lookups and updates of a batch read numbers while rows of the next batch are brought
 * in, which does not change the numbers of this batch's rows. */
static uint32_t row_in(const struct aorta_row_cache *cache, int64_t place) {
    return __atomic_load_n(&cache->rows[place], __ATOMIC_RELAXED);
}

/* Returns the place of a row in its set, or AORTA_ROW_WAYS if it has none. */
static int64_t way_of(const struct aorta_row_cache *cache, int64_t set, uint32_t row) {
    int64_t way = 0;
    while (way < AORTA_ROW_WAYS && row_in(cache, set * AORTA_ROW_WAYS + way) != row + 1) way++;
    return way;
}

static unsigned char *values_at(const struct aorta_row_cache *cache, int64_t set, int64_t way) {
    return cache->values + (set * AORTA_ROW_WAYS + way) * cache->row_bytes;
}

/* The newest version of row `number` of the slot's table: in the cache or in the table. */
static unsigned char *row_at(const struct aorta_row_cache *cache, const struct aorta_pool_slot *slot, int64_t number) {
    if (!cache->sets) return in_table(slot, number);
    const int64_t row = slot->base + number, set = row / cache->per_set;
    const int64_t way = way_of(cache, set, (uint32_t)row);
    return way < AORTA_ROW_WAYS ? values_at(cache, set, way) : in_table(slot, number);
}

/* ---- filling ---- */

/* Replaces the least recently used row, which is written back, by this row. Returns false if all places are in use. */
static bool bring(const struct aorta_gpu_pool_args *s, int64_t set, int64_t i) {
    const struct aorta_row_cache *cache = &s->op.cache;
    uint32_t *used = cache->used + set * AORTA_ROW_WAYS;
    int64_t way = 0;
    for (int64_t w = 1; w < AORTA_ROW_WAYS; w++)
        if (used[w] < used[way]) way = w;
    if (used[way] + 1 >= s->batch) return false;
    const int64_t place = set * AORTA_ROW_WAYS + way;
    if (cache->rows[place]) {
        const struct aorta_pool_slot *old = &s->op.slot[cache->slots[place]];
        memcpy(in_table(old, (int64_t)cache->rows[place] - 1 - old->base), values_at(cache, set, way),
               (size_t)old->row_bytes);
        cache->counts[AORTA_ROWS_WRITTEN_BACK]++;
    }
    const int now = (int)(s->order.passes % 2);
    const uint32_t row = s->order.rows[now][i], cell = s->order.cells[s->order.places[now][i]];
    const int64_t number = cell / s->op.shape.batch % s->op.shape.slots;
    const struct aorta_pool_slot *slot = &s->op.slot[number];
    memcpy(values_at(cache, set, way), in_table(slot, (int64_t)row - slot->base), (size_t)slot->row_bytes);
    __atomic_store_n(&cache->rows[place], row + 1, __ATOMIC_RELAXED);
    cache->slots[place] = (uint32_t)number, used[way] = s->batch;
    return true;
}

/* Brings sorted rows [first, end), all of one set, into the cache. Rows that are already cached stay. */
static void fill_set(const struct aorta_gpu_pool_args *s, int64_t set, int64_t first, int64_t end) {
    const struct aorta_row_cache *cache = &s->op.cache;
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
        const bool occurred =
            s->before_count && bsearch(&rows[i], s->before, (size_t)s->before_count, sizeof rows[i], aorta_by_uint32);
        const bool brought = !occurred && bring(s, set, i);
        cache->counts[brought ? AORTA_ROWS_BROUGHT : AORTA_ROWS_WITHOUT_PLACE]++;
    }
}

/* Brings the rows of the batch into the cache: see aorta_pool_cache. */
static aorta_status run_cache(const void *args) {
    const struct aorta_gpu_pool_args *s = args;
    const uint32_t *rows = s->order.rows[s->order.passes % 2];
    for (int64_t first = 0, end; first < s->count; first = end) {
        const int64_t set = rows[first] / s->op.cache.per_set;
        for (end = first + 1; end < s->count && rows[end] / s->op.cache.per_set == set;) end++;
        fill_set(s, set, first, end);
    }
    return NULL;
}

/* ---- lookups ---- */

static aorta_status out_of_table(int64_t id, int64_t slot, int64_t rows) {
    return AORTA_ERROR(AORTA_DEVICE, "pool_forward: id %lld of slot %lld is not in [0, %lld)", (long long)id,
                       (long long)slot, (long long)rows);
}

static int64_t lists_of(const struct aorta_pool *s) {
    return s->sources * s->slots * s->batch;
}

enum { WIDEST = 4096 };

static aorta_status run_forward(const void *args) {
    const struct aorta_pool_args *a = args;
    const struct aorta_pool *s = &a->shape;
    float decoded[WIDEST];
    for (int64_t cell = 0; cell < lists_of(s); cell++) {
        const int64_t source = cell / (s->slots * s->batch), number = cell / s->batch % s->slots;
        const struct aorta_pool_slot *slot = &a->slot[number];
        float *to = a->pooled + (source * s->batch + cell % s->batch) * s->width + slot->column;
        memset(to, 0, (size_t)slot->columns * sizeof(float));
        for (int64_t i = a->offsets[cell]; i < a->offsets[cell + 1]; i++) {
            if (a->ids[i] < 0 || a->ids[i] >= slot->rows) return out_of_table(a->ids[i], number, slot->rows);
            const float *row = row_values(slot, row_at(&a->cache, slot, a->ids[i]), decoded);
            const float weight = a->weights ? a->weights[i] : 1.0f;
            for (int64_t c = 0; c < slot->columns; c++) to[c] += weight * row[c];
        }
    }
    return NULL;
}

/* ---- order ---- */

enum { DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS };

static void sort_by_digit(const struct aorta_gpu_pool_args *a, int pass) {
    const int shift = pass * DIGIT_BITS, from = pass % 2;
    int64_t starts[DIGITS + 1] = {0};
    const uint32_t *rows = a->order.rows[from], *places = a->order.places[from];
    for (int64_t i = 0; i < a->count; i++) starts[(rows[i] >> shift & (DIGITS - 1)) + 1]++;
    for (int d = 0; d < DIGITS; d++) starts[d + 1] += starts[d];
    for (int64_t i = 0; i < a->count; i++) {
        const int64_t to = starts[rows[i] >> shift & (DIGITS - 1)]++;
        a->order.rows[1 - from][to] = rows[i];
        a->order.places[1 - from][to] = places[i];
    }
}

static aorta_status run_sort(const void *args) {
    const struct aorta_gpu_pool_args *a = args;
    const struct aorta_pool *s = &a->op.shape;
    for (int64_t cell = 0; cell < lists_of(s); cell++) {
        const struct aorta_pool_slot *slot = &a->op.slot[cell / s->batch % s->slots];
        for (int64_t i = a->op.offsets[cell]; i < a->op.offsets[cell + 1]; i++) {
            a->order.rows[0][i] = (uint32_t)(slot->base + a->op.ids[i]);
            a->order.places[0][i] = (uint32_t)i;
            a->order.cells[i] = (uint32_t)cell;
        }
    }
    for (int pass = 0; pass < (int)a->order.passes; pass++) sort_by_digit(a, pass);
    return NULL;
}

/* ---- updates ---- */

/* `to` may be `row`. */
static void apply(const float *row, float *to, float *state, const float *gradient, int64_t columns, float lr,
                  float eps) {
    float factor = lr;
    if (state) {
        double squares = 0;
        for (int64_t c = 0; c < columns; c++) squares += (double)gradient[c] * gradient[c];
        *state += (float)(squares / (double)columns);
        factor = lr / (sqrtf(*state) + eps);
    }
    for (int64_t c = 0; c < columns; c++) to[c] = row[c] - factor * gradient[c];
}

/* The gradient of the row of sorted ids [first, end). */
static void sum_row(const struct aorta_gpu_pool_args *a, const struct aorta_pool_slot *slot, int64_t first, int64_t end,
                    float *sum) {
    const struct aorta_pool *s = &a->op.shape;
    memset(sum, 0, (size_t)slot->columns * sizeof *sum);
    for (int64_t i = first; i < end; i++) {
        const uint32_t place = a->order.places[a->order.passes % 2][i], cell = a->order.cells[place];
        const int64_t source = cell / (s->slots * s->batch);
        const struct aorta_pool_slot *own = &a->op.slot[cell / s->batch % s->slots]; /* features share tables */
        const float *gradient = a->op.pooled + (source * s->batch + cell % s->batch) * s->width + own->column;
        const float weight = a->op.weights ? a->op.weights[place] : 1.0f;
        for (int64_t c = 0; c < slot->columns; c++) sum[c] += weight * gradient[c];
    }
}

static void update_row(const struct aorta_pool_args *a, const struct aorta_pool_slot *slot, int64_t number,
                       const float *gradient) {
    unsigned char *row = row_at(&a->cache, slot, number);
    float *state = slot->state ? slot->state + number : NULL, decoded[WIDEST];
    const float *values = row_values(slot, row, decoded);
    if (!slot->coded) {
        apply(values, (float *)(void *)row, state, gradient, slot->columns, a->lr, a->eps);
        return;
    }
    apply(values, decoded, state, gradient, slot->columns, a->lr, a->eps);
    aorta_row_encode(decoded, slot->columns, row);
}

static aorta_status run_update(const void *args) {
    const struct aorta_gpu_pool_args *a = args;
    const struct aorta_pool *s = &a->op.shape;
    const uint32_t *rows = a->order.rows[a->order.passes % 2], *places = a->order.places[a->order.passes % 2];
    float sum[WIDEST];
    for (int64_t first = 0, end; first < a->count; first = end) {
        for (end = first + 1; end < a->count && rows[end] == rows[first];) end++;
        const uint32_t cell = a->order.cells[places[first]];
        const struct aorta_pool_slot *slot = &a->op.slot[cell / s->batch % s->slots];
        const int64_t row = rows[first] - slot->base;
        sum_row(a, slot, first, end, sum);
        if (slot->gradient)
            memcpy(slot->gradient + row * slot->columns, sum, (size_t)slot->columns * sizeof *sum);
        else
            update_row(&a->op, slot, row, sum);
    }
    return NULL;
}

static aorta_status run_rows(const void *args) {
    const struct aorta_rows_args *a = args;
    for (int64_t number = 0; number < a->rows; number++) {
        float *row = a->table + number * a->columns;
        apply(row, row, a->state ? a->state + number : NULL, a->gradient + number * a->columns, a->columns, a->lr,
              a->eps);
    }
    return NULL;
}

/* ---- columns ---- */

/* Between a row of all columns and the pieces of its blocks: pieces are summed, or each gets the block's columns. */
static void move_columns(const struct aorta_columns_args *a, bool gather) {
    for (int64_t b = 0; b < a->shape.batch; b++) {
        for (int64_t i = 0; i < a->shape.blocks; i++) {
            const struct aorta_columns_block *block = &a->block[i];
            float *row = a->row + b * a->shape.width + block->to;
            for (int64_t p = 0; p < block->pieces; p++) {
                const struct aorta_columns_piece *piece = &a->piece[block->first + p];
                float *part = a->buffer + piece->before * a->shape.batch + b * piece->stride + piece->column;
                if (gather)
                    for (int64_t c = 0; c < block->columns; c++) row[c] = p ? row[c] + part[c] : part[c];
                else
                    memcpy(part, row, (size_t)block->columns * sizeof *row);
            }
        }
    }
}

static aorta_status run_gather(const void *args) {
    move_columns(args, true);
    return NULL;
}

static aorta_status run_scatter(const void *args) {
    move_columns(args, false);
    return NULL;
}

/* ---- the interaction of dense part and pooled rows ---- */

static aorta_status run_gate_forward(const void *args) {
    const struct aorta_gate_args *a = args;
    for (int64_t i = 0; i < a->count; i++) a->y[i] = a->z[i] * (1.0f + a->d[i]);
    return NULL;
}

static aorta_status run_gate_backward(const void *args) {
    const struct aorta_gate_args *a = args;
    for (int64_t i = 0; i < a->count; i++) {
        a->dz[i] = a->dy[i] * (1.0f + a->d[i]);
        a->dd[i] = a->dy[i] * a->z[i];
    }
    return NULL;
}

/* ---- on a GPU ---- */

static aorta_status check_fault(void *user) {
    struct aorta_gpu_fault met;
    return aorta_ops_take_fault(user, &met) ? out_of_table(met.id, met.row, met.vocab) : NULL;
}

static struct aorta_gpu_grid jagged_grid(int64_t count) {
    return aorta_ops_grid(aorta_ops_blocks(count, AORTA_JAGGED_THREADS), AORTA_JAGGED_THREADS);
}

/* 32 threads for each of `count`. */
static struct aorta_gpu_grid lane_grid(int64_t count) {
    return (struct aorta_gpu_grid){.blocks = {aorta_ops_blocks(count, AORTA_GATHER_ROWS)},
                                   .threads = {AORTA_GATHER_LANES, AORTA_GATHER_ROWS}};
}

static aorta_status forward_gpu(struct aorta_stream *stream, const void *args) {
    const struct aorta_pool_args *a = args;
    struct aorta_ops_workspace workspace;
    AORTA_TRY(aorta_ops_workspace(stream, 0, &workspace));
    const struct aorta_gpu_pool_args gpu = {.op = *a, .fault = workspace.fault};
    AORTA_TRY(aorta_ops_gpu_run(stream, a->cache.sets ? AORTA_ENTRY_pool_forward_cached : AORTA_ENTRY_pool_forward,
                                lane_grid(lists_of(&a->shape)), &gpu, sizeof gpu));
    return aorta_gpu_note(stream, check_fault, workspace.fault);
}

static aorta_status sort_gpu(struct aorta_stream *stream, const void *args) {
    const struct aorta_gpu_pool_args *a = args;
    const int64_t blocks = aorta_ops_blocks(a->count, AORTA_SORT_THREADS * AORTA_SORT_ITEMS);
    const size_t histogram = (size_t)(blocks * AORTA_SORT_DIGITS) * sizeof(uint32_t);
    struct aorta_ops_workspace workspace;
    AORTA_TRY(aorta_ops_workspace(stream, histogram + AORTA_SORT_DIGITS * sizeof(uint32_t), &workspace));
    const struct aorta_gpu_sort_args sort = {.keys = a->order.rows[0],
                                             .values = a->order.places[0],
                                             .histogram = workspace.memory,
                                             .totals = (uint32_t *)((char *)workspace.memory + histogram),
                                             .count = a->count,
                                             .blocks = blocks};
    AORTA_TRY(aorta_ops_gpu_run(stream, AORTA_ENTRY_pool_keys, jagged_grid(lists_of(&a->op.shape)), a, sizeof *a));
    return aorta_ops_gpu_sort(stream, sort, (int)a->order.passes, (uint32_t *[]){a->order.rows[1], a->order.rows[0]},
                              (uint32_t *[]){a->order.places[1], a->order.places[0]});
}

static aorta_status check_widest(int64_t columns) {
    if (columns <= AORTA_POOL_WIDEST) return NULL;
    return AORTA_ERROR(AORTA_UNSUPPORTED,
                       "rows of %lld columns on one rank; kernels on a GPU update at most %d: divide tables by columns",
                       (long long)columns, AORTA_POOL_WIDEST);
}

static aorta_status update_gpu(struct aorta_stream *stream, const void *args) {
    const struct aorta_gpu_pool_args *a = args;
    const bool wide = a->op.shape.widest > 128;
    AORTA_TRY(check_widest(a->op.shape.widest));
    static const enum aorta_ops_entry entries[2][2] = {
        {AORTA_ENTRY_pool_update, AORTA_ENTRY_pool_update_wide},
        {AORTA_ENTRY_pool_update_cached, AORTA_ENTRY_pool_update_cached_wide}};
    return aorta_ops_gpu_run(stream, entries[a->op.cache.sets > 0][wide], lane_grid(a->count), a, sizeof *a);
}

static aorta_status rows_gpu(struct aorta_stream *stream, const void *args) {
    const struct aorta_rows_args *a = args;
    AORTA_TRY(check_widest(a->columns));
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_rows_update, lane_grid(a->rows), a, sizeof *a);
}

static struct aorta_gpu_grid columns_grid(const struct aorta_columns *shape) {
    return (struct aorta_gpu_grid){
        .blocks = {(uint32_t)shape->blocks, aorta_ops_blocks(shape->batch, AORTA_GATHER_ROWS)},
        .threads = {AORTA_GATHER_LANES, AORTA_GATHER_ROWS}};
}

AORTA_PLAIN_KERNEL(pool_cache, run_cache, aorta_gpu_pool_args, lane_grid(a->op.cache.sets));
AORTA_PLAIN_KERNEL(columns_gather, run_gather, aorta_columns_args, columns_grid(&a->shape));
AORTA_PLAIN_KERNEL(columns_scatter, run_scatter, aorta_columns_args, columns_grid(&a->shape));
AORTA_PLAIN_KERNEL(gate_forward, run_gate_forward, aorta_gate_args, jagged_grid(a->count));
AORTA_PLAIN_KERNEL(gate_backward, run_gate_backward, aorta_gate_args, jagged_grid(a->count));

/* ---- public ---- */

static const struct aorta_kernel forward_kernel = {"pool_forward", run_forward, forward_gpu};
static const struct aorta_kernel sort_kernel = {"pool_sort", run_sort, sort_gpu};
static const struct aorta_kernel update_kernel = {"pool_update", run_update, update_gpu};
static const struct aorta_kernel rows_kernel = {"rows_update", run_rows, rows_gpu};

static aorta_status check_pool(const char *operation, const struct aorta_pool_args *args) {
    AORTA_TRY(
        aorta_check_sizes(operation, AORTA_SIZES({"sources", args->shape.sources, 1}, {"slots", args->shape.slots, 0},
                                                 {"batch", args->shape.batch, 1})));
    if (args->shape.slots == 0) return NULL;
    return aorta_check_pointers(operation, AORTA_POINTERS(args->slot, args->offsets, args->ids, args->pooled));
}

aorta_status aorta_pool_forward(struct aorta_stream *stream, const struct aorta_pool_args *args) {
    AORTA_TRY(check_pool(forward_kernel.name, args));
    return args->shape.slots ? aorta_launch(stream, &forward_kernel, args, sizeof *args) : NULL;
}

static aorta_status launch_sorted(struct aorta_stream *stream, const struct aorta_kernel *kernel,
                                  const struct aorta_gpu_pool_args *sorted) {
    AORTA_TRY(check_pool(kernel->name, &sorted->op));
    if (sorted->count > sorted->order.capacity)
        return AORTA_ERROR(AORTA_INTERNAL, "%s: %lld ids, but memory for %lld", kernel->name, (long long)sorted->count,
                           (long long)sorted->order.capacity);
    return sorted->count ? aorta_launch(stream, kernel, sorted, sizeof *sorted) : NULL;
}

aorta_status aorta_pool_sort(struct aorta_stream *stream, const struct aorta_pool_args *args, int64_t count) {
    const struct aorta_gpu_pool_args sorted = {.op = *args, .order = *args->order, .count = count};
    return launch_sorted(stream, &sort_kernel, &sorted);
}

aorta_status aorta_pool_update(struct aorta_stream *stream, const struct aorta_pool_args *args, int64_t count) {
    const struct aorta_gpu_pool_args sorted = {.op = *args, .order = *args->order, .count = count};
    return launch_sorted(stream, &update_kernel, &sorted);
}

aorta_status aorta_pool_cache(struct aorta_stream *stream, const struct aorta_pool_args *args, int64_t count,
                              const struct aorta_pool_order *before, int64_t before_count, int64_t batch) {
    const struct aorta_gpu_pool_args sorted = {.op = *args,
                                               .order = *args->order,
                                               .count = count,
                                               .before = before->rows[before->passes % 2],
                                               .before_count = before_count,
                                               .batch = (uint32_t)batch};
    AORTA_TRY(
        aorta_check_sizes(pool_cache_kernel.name, AORTA_SIZES({"sets", args->cache.sets, 1}, {"batch", batch, 2})));
    return launch_sorted(stream, &pool_cache_kernel, &sorted);
}

aorta_status aorta_rows_update(struct aorta_stream *stream, const struct aorta_rows_args *args) {
    AORTA_TRY(aorta_check_pointers(rows_kernel.name, AORTA_POINTERS(args->table, args->gradient)));
    return args->rows ? aorta_launch(stream, &rows_kernel, args, sizeof *args) : NULL;
}

aorta_status aorta_columns_gather(struct aorta_stream *stream, const struct aorta_columns_args *args) {
    return args->shape.blocks ? aorta_launch(stream, &columns_gather_kernel, args, sizeof *args) : NULL;
}

aorta_status aorta_columns_scatter(struct aorta_stream *stream, const struct aorta_columns_args *args) {
    return args->shape.blocks ? aorta_launch(stream, &columns_scatter_kernel, args, sizeof *args) : NULL;
}

aorta_status aorta_gate_forward(struct aorta_stream *stream, const struct aorta_gate_args *a) {
    AORTA_TRY(aorta_check_pointers(gate_forward_kernel.name, AORTA_POINTERS(a->z, a->d, a->y)));
    return a->count ? aorta_launch(stream, &gate_forward_kernel, a, sizeof *a) : NULL;
}

aorta_status aorta_gate_backward(struct aorta_stream *stream, const struct aorta_gate_args *a) {
    AORTA_TRY(aorta_check_pointers(gate_backward_kernel.name, AORTA_POINTERS(a->z, a->d, a->dy, a->dz, a->dd)));
    return a->count ? aorta_launch(stream, &gate_backward_kernel, a, sizeof *a) : NULL;
}
