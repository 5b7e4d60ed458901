/* Operations with a range around each. */
#include "model/model_internal.h"

#include <string.h>

static aorta_status begin(struct op op, struct aorta_range_info info, int *range) {
    *range = -1;
    if (!op.pass->recorder) return NULL;
    info.tag = op.tag;
    info.role = op.pass->role;
    info.kind = AORTA_RANGE_COMPUTE;
    info.layer = op.layer;
    info.inner = op.pass->inner;
    return aorta_range_begin(op.pass->recorder, op.pass->stream, &info, range);
}

aorta_status aorta_op_begin(struct op op, const char *function, struct op_work work, int *range) {
    struct aorta_range_info info = {
        .function = function, .dtype = work.dtype, .flops = work.flops, .bytes = work.bytes};
    memcpy(info.dims[0], work.dims, sizeof work.dims);
    return begin(op, info, range);
}

void aorta_op_add_product(struct aorta_model_work *work, const struct aorta_linear *shape, int times) {
    const int64_t elements = shape->rows * shape->in + shape->in * shape->out + shape->rows * shape->out;
    work->flops += 2.0 * (double)shape->rows * (double)shape->in * (double)shape->out * times;
    work->bytes += elements * (int64_t)aorta_dtype_size(shape->dtype) * times;
}

aorta_status aorta_op_begin_product(struct op op, const char *function, enum aorta_dtype dtype, int64_t m, int64_t k,
                                    int64_t n, int64_t moved, int *range) {
    struct aorta_range_info info = {.function = function,
                                    .flops = 2.0 * (double)m * (double)k * (double)n,
                                    .bytes = (m * k + k * n + (1 + moved) * m * n) * (int64_t)aorta_dtype_size(dtype),
                                    .dtype = dtype,
                                    .dims = {{m, k}, {k, n}}};
    return begin(op, info, range);
}

aorta_status aorta_op_end(struct op op, int range) {
    if (!op.pass->recorder) return NULL;
    return aorta_range_end(op.pass->recorder, op.pass->stream, range);
}

/* Rows [first, first + count) of a product that is cut into `of` launches. Where a piece has at least eight rows it
 * begins at a multiple of eight: matrices keep the alignment that the matrix library's fast kernels need. There are no
 * empty pieces: of rows too few, each is a piece. */
struct piece {
    int index, of;
    int64_t first, count;
};

static int64_t piece_start(int64_t rows, int index, int of) {
    if (index == of) return rows;
    int64_t start = rows * index / of;
    return rows / of >= 8 ? start / 8 * 8 : start;
}

static struct piece first_piece(struct op op, int64_t rows) {
    int64_t of = op.pass->gemm_chunks < rows ? op.pass->gemm_chunks : rows;
    if (of < 1) of = 1;
    return (struct piece){.of = (int)of, .count = piece_start(rows, 1, (int)of)};
}

static void next_piece(struct piece *piece, int64_t rows) {
    piece->index++;
    piece->first += piece->count;
    piece->count = piece->index < piece->of ? piece_start(rows, piece->index + 1, piece->of) - piece->first : 0;
}

/* Bytes of a matrix [rows, width] before the piece. */
static size_t before(const struct piece *piece, enum aorta_dtype dtype, int64_t width) {
    return (size_t)(piece->first * width) * aorta_dtype_size(dtype);
}

static struct aorta_linear shape_of(struct aorta_linear shape, const struct piece *piece) {
    shape.rows = piece->count;
    return shape;
}

aorta_status aorta_op_linear(struct op op, struct aorta_linear shape, const void *x, const void *weight,
                             const void *bias, void *y) {
    int range;
    for (struct piece p = first_piece(op, shape.rows); p.index < p.of; next_piece(&p, shape.rows)) {
        struct aorta_linear part = shape_of(shape, &p);
        AORTA_TRY(aorta_op_begin_product(op, "linear_forward", part.dtype, part.rows, part.in, part.out, 0, &range));
        AORTA_TRY(aorta_linear_forward(
            op.pass->stream, &(struct aorta_linear_args){.shape = part,
                                                         .x = (const char *)x + before(&p, shape.dtype, shape.in),
                                                         .weight = weight,
                                                         .bias = bias,
                                                         .y = (char *)y + before(&p, shape.dtype, shape.out)}));
        AORTA_TRY(aorta_op_end(op, range));
    }
    return NULL;
}

aorta_status aorta_op_linear_input(struct op op, struct aorta_linear shape, const void *dy, const void *weight,
                                   void *dx, bool accumulate) {
    int range;
    for (struct piece p = first_piece(op, shape.rows); p.index < p.of; next_piece(&p, shape.rows)) {
        struct aorta_linear part = shape_of(shape, &p);
        AORTA_TRY(
            aorta_op_begin_product(op, "linear_backward_input", part.dtype, part.rows, part.out, part.in, 0, &range));
        AORTA_TRY(aorta_linear_backward_input(
            op.pass->stream, &(struct aorta_linear_args){.shape = part,
                                                         .dy = (const char *)dy + before(&p, shape.dtype, shape.out),
                                                         .weight = weight,
                                                         .dx = (char *)dx + before(&p, shape.dtype, shape.in),
                                                         .accumulate = accumulate}));
        AORTA_TRY(aorta_op_end(op, range));
    }
    return NULL;
}

/* The pieces are added up in the order of the rows. */
aorta_status aorta_op_linear_weight(struct op op, struct aorta_linear shape, const void *x, const void *dy,
                                    float *dweight, float *dbias) {
    int range;
    for (struct piece p = first_piece(op, shape.rows); p.index < p.of; next_piece(&p, shape.rows)) {
        struct aorta_linear part = shape_of(shape, &p);
        AORTA_TRY(
            aorta_op_begin_product(op, "linear_backward_weight", part.dtype, part.out, part.rows, part.in, 0, &range));
        AORTA_TRY(aorta_linear_backward_weight(
            op.pass->stream, &(struct aorta_linear_args){.shape = part,
                                                         .x = (const char *)x + before(&p, shape.dtype, shape.in),
                                                         .dy = (const char *)dy + before(&p, shape.dtype, shape.out),
                                                         .dweight = dweight,
                                                         .dbias = dbias,
                                                         .accumulate = op.pass->accumulate || p.index > 0}));
        AORTA_TRY(aorta_op_end(op, range));
    }
    return NULL;
}

aorta_status aorta_op_ready(struct aorta_model *model, const struct aorta_pass *pass, int unit, int slot, int count) {
    if (!pass->gradient_ready) return NULL;
    for (int s = slot + count - 1; s >= slot; s--)
        AORTA_TRY(pass->gradient_ready(pass->user, aorta_model_parameter_index(model, unit, s)));
    return NULL;
}

aorta_status aorta_op_output(const struct aorta_model *model, const struct aorta_pass *pass, int layer,
                             const void **output) {
    struct aorta_layer_output o = aorta_model_output(model, layer);
    *output = o.copy ? o.copy : o.made;
    return o.copy && pass->output_needed ? pass->output_needed(pass->user, layer) : NULL;
}
