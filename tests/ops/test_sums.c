/* Sums over rows, made at once and gathered for one launch: the same bits. */
#include "rig.h"

#include "device/gpu.h"

#include <math.h>
#include <string.h>

enum { ROWS = 37, WIDTH = 40, TIMES = 6 }; /* more sums than one launch takes */

struct tensors {
    void *x, *dy, *gamma, *mean, *rstd, *dx, *spare;
};

static struct tensors take(struct rig *rig) {
    const int64_t count = ROWS * WIDTH;
    double *rstd = rig_random(rig, AORTA_F32, ROWS, 1);
    for (int i = 0; i < ROWS; i++) rstd[i] = 1.0 + fabs(rstd[i]);
    return (struct tensors){.x = rig_put(rig, AORTA_F32, rig_random(rig, AORTA_F32, count, 1), count),
                            .dy = rig_put(rig, AORTA_F32, rig_random(rig, AORTA_F32, count, 1), count),
                            .gamma = rig_put(rig, AORTA_F32, rig_random(rig, AORTA_F32, WIDTH, 1), WIDTH),
                            .mean = rig_put(rig, AORTA_F32, rig_random(rig, AORTA_F32, ROWS, 1), ROWS),
                            .rstd = rig_put(rig, AORTA_F32, rstd, ROWS),
                            .dx = rig_alloc(rig, (size_t)count * sizeof(float)),
                            .spare = rig_alloc(rig, (size_t)count * sizeof(float))};
}

/* Three sums of a norm, one of GELU, again and again; the last adds to the first's. */
static void make_sums(struct rig *rig, const struct tensors *t, float *to) {
    const struct aorta_norm norm = {.dtype = AORTA_F32, .rows = ROWS, .width = WIDTH, .eps = 1e-5f};
    const struct aorta_gelu gelu = {.dtype = AORTA_F32, .count = ROWS * WIDTH, .width = WIDTH};
    for (int i = 0; i < TIMES; i++) {
        const bool last = i + 1 == TIMES;
        float *sums = last ? to : to + i * 4 * WIDTH;
        check_ok(aorta_norm_backward(rig->stream, &(struct aorta_norm_backward_args){.shape = norm,
                                                                                     .dy = t->dy,
                                                                                     .sum = t->x,
                                                                                     .gamma = t->gamma,
                                                                                     .mean = t->mean,
                                                                                     .rstd = t->rstd,
                                                                                     .dsum = t->dx,
                                                                                     .dgamma = sums,
                                                                                     .dbeta = sums + WIDTH,
                                                                                     .dbias = sums + 2 * WIDTH,
                                                                                     .accumulate = last}));
        check_ok(aorta_gelu_backward(rig->stream, &(struct aorta_gelu_args){.shape = gelu,
                                                                            .x = t->x,
                                                                            .dy = t->dy,
                                                                            .out = t->spare,
                                                                            .dbias = sums + 3 * WIDTH,
                                                                            .accumulate = last}));
    }
}

static void gathered(void **state) {
    struct rig *rig = *state;
    const struct tensors t = take(rig);
    const int64_t count = TIMES * 4 * WIDTH;
    float *at_once = rig_alloc(rig, (size_t)count * sizeof(float)),
          *later = rig_alloc(rig, (size_t)count * sizeof(float));
    make_sums(rig, &t, at_once);
    check_ok(aorta_sums_gather(rig->stream));
    make_sums(rig, &t, later);
    check_ok(aorta_sums_finish(rig->stream));
    const double *expected = rig_get(rig, AORTA_F32, at_once, count), *got = rig_get(rig, AORTA_F32, later, count);
    for (int64_t i = 0; i < count - 4 * WIDTH; i++) /* the last part was not written */
        if (!(got[i] == expected[i])) fail_msg("sum %lld: %g, gathered %g", (long long)i, expected[i], got[i]);
}

/* A GPU makes none before the end; a failure in between leaves nothing for the next. */
static void not_before_the_end(void **state) {
    struct rig *rig = *state;
    const struct tensors t = take(rig);
    const struct aorta_norm norm = {.dtype = AORTA_F32, .rows = ROWS, .width = WIDTH, .eps = 1e-5f};
    float *sums = rig_alloc(rig, 2 * WIDTH * sizeof(float));
    for (int i = 0; i < 2; i++) {
        check_ok(aorta_sums_gather(rig->stream));
        if (i == 0)
            check_ok(aorta_norm_backward(rig->stream, &(struct aorta_norm_backward_args){.shape = norm,
                                                                                         .dy = t.dy,
                                                                                         .sum = t.x,
                                                                                         .gamma = t.gamma,
                                                                                         .mean = t.mean,
                                                                                         .rstd = t.rstd,
                                                                                         .dsum = t.dx,
                                                                                         .dgamma = sums,
                                                                                         .dbeta = sums + WIDTH}));
        const bool there = !isnan(rig_get(rig, AORTA_F32, sums, 1)[0]);
        assert_int_equal(there, !aorta_device_is_gpu(rig->device));
    }
    check_ok(aorta_sums_finish(rig->stream));
    check_ok(aorta_stream_synchronize(rig->stream));
    assert_int_equal(isnan(rig_get(rig, AORTA_F32, sums, 1)[0]), aorta_device_is_gpu(rig->device));
}

int main(void) {
    const struct CMUnitTest tests[] = {rig_test(gathered), rig_test(not_before_the_end)};
    return rig_run_tests("ops: sums", tests);
}
