#include "rig.h"

#include <math.h>

static int64_t counting(struct aorta_softmax s, int64_t row) {
    return s.causal ? row % s.width + 1 : s.width;
}

static void softmax_naive(struct aorta_softmax s, const double *x, double *p) {
    for (int64_t row = 0; row < s.rows; row++) {
        double sum = 0.0;
        for (int64_t i = 0; i < counting(s, row); i++) sum += exp((double)s.scale * x[row * s.width + i]);
        for (int64_t i = 0; i < s.width; i++)
            p[row * s.width + i] = i < counting(s, row) ? exp((double)s.scale * x[row * s.width + i]) / sum : 0.0;
    }
}

static struct aorta_softmax shape_now;
static double *weights, *inputs, *outputs;

static double loss(void *context) {
    (void)context;
    double total = 0.0;
    softmax_naive(shape_now, inputs, outputs);
    for (int64_t i = 0; i < shape_now.rows * shape_now.width; i++) total += weights[i] * outputs[i];
    return total;
}

static void softmax(void **state) {
    static const struct aorta_softmax shapes[] = {
        {3, 1, 1.0f, false},    {4, 37, 0.3f, false},  {66, 33, 0.5f, true},    {2, 700, 2.0f, false},
        {260, 130, 1.0f, true}, {5, 4, 1.0f, false},   {7, 512, 0.125f, false}, {72, 36, 1.0f, true},
        {2, 1024, 1.0f, false}, {1, 1028, 1.0f, false}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct rig *rig = *state;
        const struct aorta_softmax s = shape_now = shapes[i];
        const int64_t count = s.rows * s.width;
        inputs = rig_random(rig, AORTA_F32, count, 5), outputs = rig_values(rig, count);
        weights = rig_random(rig, AORTA_F32, count, 1);
        float *x = rig_put(rig, AORTA_F32, inputs, count), *dp = rig_put(rig, AORTA_F32, weights, count);
        check_ok(aorta_softmax_forward(rig->stream,
                                       &(struct aorta_softmax_args){.shape = s, .x = x, .out = x})); /* in place */
        softmax_naive(s, inputs, outputs);
        rig_close_to("p", rig_get(rig, AORTA_F32, x, count), outputs, count, 3e-6, 1e-7);
        check_ok(
            aorta_softmax_backward(rig->stream, &(struct aorta_softmax_args){.shape = s, .x = x, .dp = dp, .out = dp}));
        rig_gradient("dx", loss, NULL, inputs, count, rig_get(rig, AORTA_F32, dp, count), 1e-5, 1e-6);
        rig_reset(state);
    }
}

static void cross_entropy(void **state) {
    static const int64_t shapes[][2] = {{1, 1}, {5, 7}, {32, 1000}};
    for (int s = 0; s < 3; s++) {
        struct rig *rig = *state;
        const int64_t rows = shapes[s][0], classes = shapes[s][1], count = rows * classes;
        double *x = rig_random(rig, AORTA_F32, count, 6), *losses = rig_values(rig, rows), *dx = rig_values(rig, count);
        int64_t labels[32];
        for (int64_t row = 0; row < rows; row++) {
            double sum = 0.0;
            labels[row] = row * 37 % classes;
            for (int64_t i = 0; i < classes; i++) sum += exp(x[row * classes + i]);
            losses[row] = log(sum) - x[row * classes + labels[row]];
            for (int64_t i = 0; i < classes; i++)
                dx[row * classes + i] = 0.25 * (exp(x[row * classes + i]) / sum - (i == labels[row] ? 1.0 : 0.0));
        }
        float *device = rig_put(rig, AORTA_F32, x, count), *got = rig_alloc(rig, (size_t)rows * sizeof(float));
        const int64_t *put = rig_put_bytes(rig, labels, (size_t)rows * sizeof *labels);
        check_ok(aorta_cross_entropy(rig->stream, &(struct aorta_cross_entropy_args){.rows = rows,
                                                                                     .classes = classes,
                                                                                     .x = device,
                                                                                     .labels = put,
                                                                                     .weight = 0.25f,
                                                                                     .losses = got,
                                                                                     .dx = device}));
        rig_close_to("loss", rig_get(rig, AORTA_F32, got, rows), losses, rows, 2e-6, 2e-6);
        rig_close_to("dx", rig_get(rig, AORTA_F32, device, count), dx, count, 1e-5, 1e-7);
        rig_reset(state);
    }
}

static void wrong_arguments(void **state) {
    struct rig *rig = *state;
    float some[4] = {0};
    int64_t label = 0;
    check_fails(aorta_softmax_forward(
                    rig->stream,
                    &(struct aorta_softmax_args){.shape = (struct aorta_softmax){.rows = 1}, .x = some, .out = some}),
                AORTA_INTERNAL, "width is 0");
    check_fails(
        aorta_softmax_backward(rig->stream,
                               &(struct aorta_softmax_args){
                                   .shape = (struct aorta_softmax){.rows = 1, .width = 4}, .x = some, .out = some}),
        AORTA_INTERNAL, "dp is NULL");
    check_fails(
        aorta_cross_entropy(rig->stream,
                            &(struct aorta_cross_entropy_args){
                                .rows = 1, .x = some, .labels = &label, .weight = 1, .losses = some, .dx = some}),
        AORTA_INTERNAL, "classes is 0");
}

/* On a GPU the row is NaN, and nothing is read there. */
static void label_out_of_range(void **state) {
    struct rig *rig = *state;
    const double x[3] = {1, 2, 3};
    const int64_t label = 3;
    float *device = rig_put(rig, AORTA_F32, x, 3), *got = rig_alloc(rig, sizeof(float));
    check_ok(aorta_cross_entropy(rig->stream,
                                 &(struct aorta_cross_entropy_args){.rows = 1,
                                                                    .classes = 3,
                                                                    .x = device,
                                                                    .labels = rig_put_bytes(rig, &label, sizeof label),
                                                                    .weight = 1,
                                                                    .losses = got,
                                                                    .dx = device}));
    aorta_status status = aorta_stream_synchronize(rig->stream);
    if (status) {
        check_fails(status, AORTA_DEVICE, "label 3 of row 0 is not in [0, 3)");
        return;
    }
    assert_true(isnan(rig_get(rig, AORTA_F32, got, 1)[0]) && isnan(rig_get(rig, AORTA_F32, device, 3)[2]));
}

int main(void) {
    const struct CMUnitTest tests[] = {rig_test(softmax), rig_test(cross_entropy), rig_test(label_out_of_range),
                                       rig_test(wrong_arguments)};
    return rig_run_tests("ops: softmax", tests);
}
