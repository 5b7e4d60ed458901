/* Lists of ids: counted, split over ranks. */
#include "ops/jagged.h"

#include "ops/check.h"
#include "ops/gpu/gpu.h"
#include "ops/gpu/workspace.h"

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
    AORTA_TRY(aorta_check_pointer(offsets_kernel.name, "offsets", offsets));
    const struct aorta_jagged_offsets_args args = {count, lengths, offsets};
    return aorta_launch(stream, &offsets_kernel, &args, sizeof args);
}

static aorta_status launch_split(struct aorta_stream *stream, const struct aorta_kernel *kernel,
                                 const struct aorta_jagged_split_args *args) {
    AORTA_TRY(aorta_check_size(kernel->name, "batch", args->batch, 1));
    AORTA_TRY(aorta_check_size(kernel->name, "parts", args->parts, 0));
    return args->parts ? aorta_launch(stream, kernel, args, sizeof *args) : NULL;
}

aorta_status aorta_jagged_count(struct aorta_stream *stream, const struct aorta_jagged_split_args *args) {
    return launch_split(stream, &count_kernel, args);
}

aorta_status aorta_jagged_split(struct aorta_stream *stream, const struct aorta_jagged_split_args *args) {
    return launch_split(stream, &split_kernel, args);
}
