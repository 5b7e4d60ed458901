/* Lists of ids: counted, split over ranks. */
#include "ops/jagged.h"

#include "ops/check.h"

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

static const struct aorta_kernel offsets_kernel = {.name = "jagged_offsets", .cpu = run_offsets};
static const struct aorta_kernel count_kernel = {.name = "jagged_count", .cpu = run_count};
static const struct aorta_kernel split_kernel = {.name = "jagged_split", .cpu = run_split};

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
