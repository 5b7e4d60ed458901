/* Embedding. On a GPU the backward pass sorts the places of the ids by id and adds up the rows of equal ids. */
#include "ops/cpu/cpu.h"
#include "ops/gpu/gpu.h"

/* The CPU adds rows in their given order and needs no sorting. */
static aorta_status keep_order(const void *args) {
    (void)args;
    return NULL;
}

static aorta_status check_fault(void *user) {
    struct aorta_gpu_fault met;
    if (!aorta_ops_take_fault(user, &met)) return NULL;
    return AORTA_ERROR(AORTA_DEVICE, "embedding: id %lld of row %lld, feature %lld is outside [0, %lld)",
                       (long long)met.id, (long long)met.row, (long long)met.feature, (long long)met.vocab);
}

static struct aorta_gpu_grid gather_grid(int64_t rows, int64_t dim) {
    return (struct aorta_gpu_grid){
        .blocks = {aorta_ops_blocks(rows, AORTA_GATHER_ROWS), aorta_ops_blocks(dim, (int64_t)AORTA_GATHER_LANES * 8)},
        .threads = {AORTA_GATHER_LANES, AORTA_GATHER_ROWS}};
}

static aorta_status embedding_forward_gpu(struct aorta_stream *stream, const void *args) {
    const struct aorta_embedding_args *a = args;
    struct aorta_ops_workspace workspace;
    AORTA_TRY(aorta_ops_workspace(stream, 0, &workspace));
    const struct aorta_gpu_embedding_args gpu = {.op = *a, .fault = workspace.fault};
    AORTA_TRY(aorta_ops_gpu_run_typed(stream, AORTA_ENTRY_embedding_forward, a->shape.dtype,
                                      gather_grid(a->shape.rows, a->shape.dim), &gpu, sizeof gpu));
    return aorta_gpu_note(stream, check_fault, workspace.fault);
}

/* The parts of the workspace. The sorted pairs are in the memory of `order`, if there is any. */
struct plan {
    int64_t count, blocks, range, ranges;
    int passes; /* bytes of the greatest key */
    uint32_t *keys[2], *values[2], *histogram, *totals;
    uint32_t *sorted_keys, *sorted_values; /* results of the last pass */
    float *head, *tail;
};

static void *take(char *memory, size_t *used, size_t bytes) {
    void *taken = memory ? memory + *used : NULL;
    *used += (bytes + 255) / 256 * 256;
    return taken;
}

static int passes_of(int64_t vocab) {
    int passes = 1;
    while (vocab >> (8 * passes) > 0) passes++;
    return passes;
}

/* With few ids the ranges are short, so that there are enough ranges for all multiprocessors. */
static int64_t range_of(int64_t count) {
    if (count < 64 * 1024) return 8;
    return count < 512 * 1024 ? 32 : 128;
}

/* Returns the bytes that the plan needs. If `memory` is NULL, it does nothing else. */
static size_t plan_make(struct plan *plan, const struct aorta_embedding *shape, uint32_t *order, void *memory) {
    size_t used = 0;
    plan->count = shape->rows * shape->features;
    plan->blocks = (plan->count + AORTA_SORT_THREADS * AORTA_SORT_ITEMS - 1) / (AORTA_SORT_THREADS * AORTA_SORT_ITEMS);
    plan->range = range_of(plan->count);
    plan->ranges = (plan->count + plan->range - 1) / plan->range;
    plan->passes = passes_of(shape->vocab);
    const int last = (plan->passes - 1) % 2;
    for (int i = 0; i < 2; i++) {
        plan->keys[i] = take(memory, &used, (size_t)plan->count * sizeof(uint32_t));
        plan->values[i] = take(memory, &used, (size_t)plan->count * sizeof(uint32_t));
    }
    if (order) {
        plan->keys[last] = order;
        plan->values[last] = order + plan->count;
    }
    plan->sorted_keys = plan->keys[last];
    plan->sorted_values = plan->values[last];
    plan->histogram = take(memory, &used, (size_t)(plan->blocks * AORTA_SORT_DIGITS) * sizeof(uint32_t));
    plan->totals = take(memory, &used, AORTA_SORT_DIGITS * sizeof(uint32_t));
    plan->head = take(memory, &used, (size_t)(plan->ranges * shape->dim) * sizeof(float));
    plan->tail = take(memory, &used, (size_t)(plan->ranges * shape->dim) * sizeof(float));
    return used;
}

aorta_status aorta_ops_gpu_sort(struct aorta_stream *stream, struct aorta_gpu_sort_args args, int passes,
                                uint32_t *const keys[2], uint32_t *const values[2]) {
    const struct aorta_gpu_grid grid = aorta_ops_grid(args.blocks, AORTA_SORT_THREADS);
    const struct aorta_gpu_grid digits = aorta_ops_grid(AORTA_SORT_DIGITS / AORTA_SCAN_DIGITS, AORTA_SORT_THREADS);
    for (int pass = 0; pass < passes; pass++) {
        args.shift = pass * 8;
        args.keys_out = keys[pass % 2];
        args.values_out = values[pass % 2];
        AORTA_TRY(aorta_ops_gpu_run(stream, AORTA_ENTRY_sort_count, grid, &args, sizeof args));
        AORTA_TRY(aorta_ops_gpu_run(stream, AORTA_ENTRY_sort_scan, digits, &args, sizeof args));
        AORTA_TRY(aorta_ops_gpu_run(stream, AORTA_ENTRY_sort_move, grid, &args, sizeof args));
        args.keys = args.keys_out;
        args.values = args.values_out;
    }
    return NULL;
}

static aorta_status sort(struct aorta_stream *stream, const struct aorta_embedding_args *a, const struct plan *plan,
                         struct aorta_gpu_fault *fault) {
    const struct aorta_gpu_sort_args args = {.histogram = plan->histogram,
                                             .totals = plan->totals,
                                             .count = plan->count,
                                             .blocks = plan->blocks,
                                             .ids = a->ids,
                                             .vocab = a->shape.vocab,
                                             .features = a->shape.features,
                                             .fault = fault};
    return aorta_ops_gpu_sort(stream, args, plan->passes, plan->keys, plan->values);
}

/* Checks the sizes and places the plan in the workspace. */
static aorta_status plan_in_workspace(struct aorta_stream *stream, const struct aorta_embedding_args *a,
                                      struct plan *plan, struct aorta_ops_workspace *workspace) {
    if (a->shape.rows * a->shape.features > INT32_MAX || a->shape.vocab > INT32_MAX)
        return AORTA_ERROR(AORTA_UNSUPPORTED, "embedding: %lld ids of %lld; on a GPU both must be below 2^31",
                           (long long)(a->shape.rows * a->shape.features), (long long)a->shape.vocab);
    AORTA_TRY(aorta_ops_workspace(stream, plan_make(plan, &a->shape, a->order, NULL), workspace));
    plan_make(plan, &a->shape, a->order, workspace->memory);
    return NULL;
}

static aorta_status embedding_order_gpu(struct aorta_stream *stream, const void *args) {
    const struct aorta_embedding_args *a = args;
    struct plan plan;
    struct aorta_ops_workspace workspace;
    AORTA_TRY(plan_in_workspace(stream, a, &plan, &workspace));
    AORTA_TRY(sort(stream, a, &plan, workspace.fault));
    return aorta_gpu_note(stream, check_fault, workspace.fault);
}

static aorta_status embedding_backward_gpu(struct aorta_stream *stream, const void *args) {
    const struct aorta_embedding_args *a = args;
    struct plan plan;
    struct aorta_ops_workspace workspace;
    AORTA_TRY(plan_in_workspace(stream, a, &plan, &workspace));
    if (!a->order) AORTA_TRY(sort(stream, a, &plan, workspace.fault));
    const struct aorta_gpu_gather_args gather = {.op = *a,
                                                 .keys = plan.sorted_keys,
                                                 .values = plan.sorted_values,
                                                 .count = plan.count,
                                                 .range = plan.range,
                                                 .head = plan.head,
                                                 .tail = plan.tail};
    const struct aorta_gpu_grid grid = gather_grid(plan.ranges, a->shape.dim);
    AORTA_TRY(aorta_ops_gpu_run_typed(stream, AORTA_ENTRY_gather_ranges, a->shape.dtype, grid, &gather, sizeof gather));
    AORTA_TRY(aorta_ops_gpu_run(stream, AORTA_ENTRY_gather_runs, grid, &gather, sizeof gather));
    return a->order ? NULL : aorta_gpu_note(stream, check_fault, workspace.fault);
}

static const struct aorta_kernel forward_kernel = {"embedding_forward", aorta_cpu_embedding_forward,
                                                   embedding_forward_gpu};
static const struct aorta_kernel backward_kernel = {"embedding_backward", aorta_cpu_embedding_backward,
                                                    embedding_backward_gpu};
static const struct aorta_kernel order_kernel = {"embedding_order", keep_order, embedding_order_gpu};

static aorta_status check_embedding(const char *operation, const struct aorta_embedding *shape) {
    AORTA_TRY(aorta_check_dtype(operation, shape->dtype));
    return aorta_check_sizes(operation, AORTA_SIZES({"rows", shape->rows, 0}, {"features", shape->features, 1},
                                                    {"vocab", shape->vocab, 1}, {"dim", shape->dim, 1}));
}

aorta_status aorta_embedding_forward(struct aorta_stream *stream, const struct aorta_embedding_args *a) {
    AORTA_TRY(check_embedding(forward_kernel.name, &a->shape));
    return aorta_ops_launch(stream, &forward_kernel, a->shape.rows, a, sizeof *a,
                            AORTA_POINTERS(a->ids, a->table, a->y));
}

size_t aorta_embedding_order_bytes(const struct aorta_device *device, struct aorta_embedding shape) {
    return aorta_device_is_gpu(device) ? (size_t)(2 * shape.rows * shape.features) * sizeof(uint32_t) : 0;
}

aorta_status aorta_embedding_order(struct aorta_stream *stream, const struct aorta_embedding_args *a) {
    AORTA_TRY(check_embedding(order_kernel.name, &a->shape));
    return aorta_ops_launch(stream, &order_kernel, a->shape.rows, a, sizeof *a, AORTA_POINTERS(a->ids, a->order));
}

aorta_status aorta_embedding_backward(struct aorta_stream *stream, const struct aorta_embedding_args *a) {
    AORTA_TRY(check_embedding(backward_kernel.name, &a->shape));
    return aorta_ops_launch(stream, &backward_kernel, a->shape.rows, a, sizeof *a,
                            AORTA_POINTERS(a->ids, a->dy, a->dtable));
}

/* ---- jagged lists of ids ---- */

static aorta_status run_offsets(const void *args) {
    const struct aorta_jagged_offsets_args *a = args;
    int64_t sum = 0;
    for (int64_t i = 0; i < a->count; i++) {
        a->offsets[i] = sum;
        sum += a->lengths[i];
    }
    a->offsets[a->count] = sum;
    return NULL;
}

static bool is_in(const struct aorta_jagged_part *part, int64_t id) {
    return id >= part->first_row && id < part->first_row + part->rows;
}

static aorta_status run_count(const void *args) {
    const struct aorta_jagged_split_args *a = args;
    for (int64_t p = 0; p < a->parts; p++) {
        const struct aorta_jagged_part *part = &a->part[p];
        const int64_t *offsets = a->offsets + part->feature * a->batch;
        for (int64_t b = 0; b < a->batch; b++) {
            int32_t count = 0;
            for (int64_t i = offsets[b]; i < offsets[b + 1]; i++) count += is_in(part, a->ids[i]);
            a->lengths[p * a->batch + b] = count;
        }
    }
    return NULL;
}

static aorta_status run_split(const void *args) {
    const struct aorta_jagged_split_args *a = args;
    for (int64_t p = 0; p < a->parts; p++) {
        const struct aorta_jagged_part *part = &a->part[p];
        const int64_t *offsets = a->offsets + part->feature * a->batch;
        for (int64_t b = 0; b < a->batch; b++) {
            int64_t to = a->part_offsets[p * a->batch + b];
            for (int64_t i = offsets[b]; i < offsets[b + 1]; i++) {
                if (!is_in(part, a->ids[i])) continue;
                if (a->weights) a->part_weights[to] = a->weights[i];
                a->part_ids[to++] = a->ids[i] - part->first_row;
            }
        }
    }
    return NULL;
}

static aorta_status offsets_gpu(struct aorta_stream *stream, const void *args) {
    const struct aorta_jagged_offsets_args *a = args;
    const int64_t tiles = aorta_ops_blocks(a->count, AORTA_JAGGED_THREADS * AORTA_JAGGED_ITEMS);
    struct aorta_ops_workspace workspace;
    AORTA_TRY(aorta_ops_workspace(stream, (size_t)tiles * sizeof(int64_t), &workspace));
    const struct aorta_gpu_offsets_args gpu = {*a, workspace.memory, tiles};
    const struct aorta_gpu_grid grid = aorta_ops_grid(tiles, AORTA_JAGGED_THREADS);
    if (tiles) AORTA_TRY(aorta_ops_gpu_run(stream, AORTA_ENTRY_jagged_tiles, grid, &gpu, sizeof gpu));
    AORTA_TRY(aorta_ops_gpu_run(stream, AORTA_ENTRY_jagged_starts, aorta_ops_grid(1, AORTA_JAGGED_THREADS), &gpu,
                                sizeof gpu));
    return tiles ? aorta_ops_gpu_run(stream, AORTA_ENTRY_jagged_offsets, grid, &gpu, sizeof gpu) : NULL;
}

enum { MOST_PARTS = 65535 }; /* blocks of a grid in its second dimension */

static aorta_status split_lists(struct aorta_stream *stream, enum aorta_ops_entry entry, const void *args) {
    const struct aorta_jagged_split_args *a = args;
    if (a->parts > MOST_PARTS)
        return AORTA_ERROR(AORTA_UNSUPPORTED,
                           "%lld parts of features on all ranks; a GPU divides ids among at most %d: use fewer "
                           "features, or table_wise",
                           (long long)a->parts, MOST_PARTS);
    const struct aorta_gpu_grid grid = {
        .blocks = {aorta_ops_blocks(a->batch, AORTA_JAGGED_THREADS), (uint32_t)a->parts},
        .threads = {AORTA_JAGGED_THREADS}};
    return aorta_ops_gpu_run(stream, entry, grid, a, sizeof *a);
}

static aorta_status count_gpu(struct aorta_stream *stream, const void *args) {
    return split_lists(stream, AORTA_ENTRY_jagged_count, args);
}

static aorta_status split_gpu(struct aorta_stream *stream, const void *args) {
    return split_lists(stream, AORTA_ENTRY_jagged_split, args);
}

static const struct aorta_kernel offsets_kernel = {"jagged_offsets", run_offsets, offsets_gpu};
static const struct aorta_kernel count_kernel = {"jagged_count", run_count, count_gpu};
static const struct aorta_kernel split_kernel = {"jagged_split", run_split, split_gpu};

aorta_status aorta_jagged_offsets(struct aorta_stream *stream, int64_t count, const int32_t *lengths,
                                  int64_t *offsets) {
    AORTA_TRY(aorta_check_size(offsets_kernel.name, "count", count, 0));
    AORTA_TRY(aorta_check_pointers(offsets_kernel.name, AORTA_POINTERS(offsets)));
    const struct aorta_jagged_offsets_args args = {count, lengths, offsets};
    return aorta_launch(stream, &offsets_kernel, &args, sizeof args);
}

static aorta_status launch_split(struct aorta_stream *stream, const struct aorta_kernel *kernel,
                                 const struct aorta_jagged_split_args *args) {
    AORTA_TRY(aorta_check_sizes(kernel->name, AORTA_SIZES({"batch", args->batch, 1}, {"parts", args->parts, 0})));
    return args->parts ? aorta_launch(stream, kernel, args, sizeof *args) : NULL;
}

aorta_status aorta_jagged_count(struct aorta_stream *stream, const struct aorta_jagged_split_args *args) {
    return launch_split(stream, &count_kernel, args);
}

aorta_status aorta_jagged_split(struct aorta_stream *stream, const struct aorta_jagged_split_args *args) {
    return launch_split(stream, &split_kernel, args);
}
