/* Operations with a range around each. */
#include "model/internal.h"

aorta_status aorta_op_begin(struct op op, const char *function, double flops, int *range) {
    *range = -1;
    if (!op.pass->recorder) return NULL;
    struct aorta_range_info info = {.tag = op.tag,
                                    .function = function,
                                    .role = op.pass->role,
                                    .kind = AORTA_RANGE_COMPUTE,
                                    .layer = op.layer,
                                    .flops = flops};
    return aorta_range_begin(op.pass->recorder, op.pass->stream, &info, range);
}

aorta_status aorta_op_end(struct op op, int range) {
    if (!op.pass->recorder) return NULL;
    return aorta_range_end(op.pass->recorder, op.pass->stream, range);
}

static double linear_flops(struct aorta_linear shape) {
    return 2.0 * (double)shape.rows * (double)shape.in * (double)shape.out;
}

aorta_status aorta_op_linear(struct op op, struct aorta_linear shape, const void *x, const void *weight,
                             const void *bias, void *y) {
    int range;
    AORTA_TRY(aorta_op_begin(op, "linear_forward", linear_flops(shape), &range));
    AORTA_TRY(aorta_linear_forward(op.pass->stream, shape, x, weight, bias, y));
    return aorta_op_end(op, range);
}

aorta_status aorta_op_linear_input(struct op op, struct aorta_linear shape, const void *dy, const void *weight,
                                   void *dx, bool accumulate) {
    int range;
    AORTA_TRY(aorta_op_begin(op, "linear_backward_input", linear_flops(shape), &range));
    AORTA_TRY(aorta_linear_backward_input(op.pass->stream, shape, dy, weight, dx, accumulate));
    return aorta_op_end(op, range);
}

aorta_status aorta_op_linear_weight(struct op op, struct aorta_linear shape, const void *x, const void *dy,
                                    float *dweight, float *dbias) {
    int range;
    AORTA_TRY(aorta_op_begin(op, "linear_backward_weight", linear_flops(shape), &range));
    AORTA_TRY(aorta_linear_backward_weight(op.pass->stream, shape, x, dy, dweight, dbias, op.pass->accumulate));
    return aorta_op_end(op, range);
}

aorta_status aorta_op_ready(struct aorta_model *model, const struct aorta_pass *pass, int unit, int slot, int count) {
    if (!pass->gradient_ready) return NULL;
    for (int s = slot + count - 1; s >= slot; s--)
        AORTA_TRY(pass->gradient_ready(pass->user, aorta_model_parameter_index(model, unit, s)));
    return NULL;
}
