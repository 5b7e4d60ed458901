#include "ops/check.h"
#include "ops/cpu/cpu.h"
#include "ops/gpu/gpu.h"

static aorta_status cast(const void *args) {
    return aorta_cpu_ops()->cast(args);
}

static aorta_status fill(const void *args) {
    return aorta_cpu_ops()->fill(args);
}

static aorta_status add(const void *args) {
    return aorta_cpu_ops()->add(args);
}

static aorta_status cast_pieces(const void *args) {
    const struct aorta_cast_pieces_args *a = args;
    const struct aorta_cpu_ops *ops = aorta_cpu_ops();
    for (int64_t i = 0; i < a->piece_count; i++) {
        const struct aorta_cast_args one = {
            .piece = a->pieces[i], .to_dtype = a->to_dtype, .from_dtype = a->from_dtype, .scale = a->scale};
        AORTA_TRY(ops->cast(&one));
    }
    return NULL;
}

static const struct aorta_kernel cast_kernel = {"cast", cast, aorta_ops_gpu_cast};
static const struct aorta_kernel fill_kernel = {"fill", fill, aorta_ops_gpu_fill};
static const struct aorta_kernel add_kernel = {"add", add, aorta_ops_gpu_add};
static const struct aorta_kernel pieces_kernel = {"cast_pieces", cast_pieces, aorta_ops_gpu_cast_pieces};

aorta_status aorta_cast(struct aorta_stream *stream, void *to, enum aorta_dtype to_dtype, const void *from,
                        enum aorta_dtype from_dtype, int64_t count, float scale) {
    AORTA_TRY(aorta_check_dtype(cast_kernel.name, to_dtype));
    AORTA_TRY(aorta_check_dtype(cast_kernel.name, from_dtype));
    AORTA_TRY(aorta_check_size(cast_kernel.name, "count", count, 0));
    if (count == 0) return NULL;
    AORTA_TRY(
        aorta_check_pointers(cast_kernel.name, (const struct aorta_named_pointer[]){{"to", to}, {"from", from}, {0}}));
    const struct aorta_cast_args args = {.piece = {.from = from, .to = to, .count = count},
                                         .to_dtype = to_dtype,
                                         .from_dtype = from_dtype,
                                         .scale = scale};
    return aorta_launch(stream, &cast_kernel, &args, sizeof args);
}

aorta_status aorta_fill(struct aorta_stream *stream, void *to, enum aorta_dtype dtype, int64_t count, float value) {
    AORTA_TRY(aorta_check_dtype(fill_kernel.name, dtype));
    AORTA_TRY(aorta_check_size(fill_kernel.name, "count", count, 0));
    if (count == 0) return NULL;
    AORTA_TRY(aorta_check_pointer(fill_kernel.name, "to", to));
    const struct aorta_fill_args args = {.to = to, .dtype = dtype, .count = count, .value = value};
    return aorta_launch(stream, &fill_kernel, &args, sizeof args);
}

aorta_status aorta_add(struct aorta_stream *stream, void *to, const void *from, enum aorta_dtype dtype, int64_t count,
                       float scale) {
    AORTA_TRY(aorta_check_dtype(add_kernel.name, dtype));
    AORTA_TRY(aorta_check_size(add_kernel.name, "count", count, 0));
    if (count == 0) return NULL;
    AORTA_TRY(
        aorta_check_pointers(add_kernel.name, (const struct aorta_named_pointer[]){{"to", to}, {"from", from}, {0}}));
    const struct aorta_cast_args args = {
        .piece = {.from = from, .to = to, .count = count}, .to_dtype = dtype, .from_dtype = dtype, .scale = scale};
    return aorta_launch(stream, &add_kernel, &args, sizeof args);
}

aorta_status aorta_cast_pieces(struct aorta_stream *stream, const struct aorta_piece *pieces, int64_t piece_count,
                               enum aorta_dtype to_dtype, enum aorta_dtype from_dtype, float scale) {
    AORTA_TRY(aorta_check_dtype(pieces_kernel.name, to_dtype));
    AORTA_TRY(aorta_check_dtype(pieces_kernel.name, from_dtype));
    AORTA_TRY(aorta_check_size(pieces_kernel.name, "piece_count", piece_count, 0));
    if (piece_count == 0) return NULL;
    AORTA_TRY(aorta_check_pointer(pieces_kernel.name, "pieces", pieces));
    const struct aorta_cast_pieces_args args = {
        .pieces = pieces, .piece_count = piece_count, .to_dtype = to_dtype, .from_dtype = from_dtype, .scale = scale};
    return aorta_launch(stream, &pieces_kernel, &args, sizeof args);
}
