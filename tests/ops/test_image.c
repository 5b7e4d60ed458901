#include "rig.h"

#include <math.h>

static const struct aorta_image shapes[] = {{1, 2, 2, 1}, {2, 6, 4, 3}, {3, 4, 10, 8}, {1, 8, 8, 64}};
#define SHAPES (sizeof shapes / sizeof *shapes)

static int64_t count_of(struct aorta_image s) {
    return s.images * s.height * s.width * s.channels;
}

/* Element of x [images, height, width, channels]; 0 outside. */
static double at(struct aorta_image s, const double *x, int64_t n, int64_t h, int64_t w, int64_t c) {
    if (h < 0 || h >= s.height || w < 0 || w >= s.width) return 0.0;
    return x[((n * s.height + h) * s.width + w) * s.channels + c];
}

static void prepare(void **state) {
    static const float mean[] = {0.5f, 0.25f, -1.0f}, deviation[] = {2.0f, 0.5f, 4.0f};
    for (size_t i = 0; i < 2; i++) {
        struct rig *rig = *state;
        const struct aorta_image s = shapes[i];
        double *x = rig_random(rig, AORTA_F32, count_of(s), 1), *expected = rig_values(rig, count_of(s));
        const uint8_t flips[2] = {1, 0};
        for (int64_t e = 0; e < count_of(s); e++) {
            const int64_t c = e % s.channels, w = e / s.channels % s.width, h = e / s.channels / s.width % s.height;
            const int64_t n = e / s.channels / s.width / s.height, column = flips[n] ? s.width - 1 - w : w;
            expected[e] =
                (x[((n * s.channels + c) * s.height + h) * s.width + column] - (double)mean[c]) / (double)deviation[c];
        }
        float *y = rig_alloc(rig, (size_t)count_of(s) * sizeof(float));
        check_ok(aorta_image_prepare(rig->stream,
                                     &(struct aorta_image_args){.shape = s,
                                                                .x = rig_put(rig, AORTA_F32, x, count_of(s)),
                                                                .flips = rig_put_bytes(rig, flips, sizeof flips),
                                                                .mean = {mean[0], mean[1], mean[2]},
                                                                .deviation = {deviation[0], deviation[1], deviation[2]},
                                                                .y = y}));
        rig_close_to("y", rig_get(rig, AORTA_F32, y, count_of(s)), expected, count_of(s), 3e-7, 1e-7);
        rig_reset(state);
    }
}

static void columns(void **state) {
    for (size_t i = 0; i < SHAPES; i++) {
        struct rig *rig = *state;
        const struct aorta_image s = shapes[i];
        double *x = rig_random(rig, AORTA_F32, count_of(s), 1), *expected = rig_values(rig, 9 * count_of(s)),
               *to = expected;
        for (int64_t pixel = 0; pixel < s.images * s.height * s.width; pixel++)
            for (int64_t k = 0; k < 9; k++)
                for (int64_t c = 0; c < s.channels; c++)
                    *to++ = at(s, x, pixel / s.width / s.height, pixel / s.width % s.height + k / 3 - 1,
                               pixel % s.width + k % 3 - 1, c);
        float *y = rig_alloc(rig, (size_t)(9 * count_of(s)) * sizeof(float));
        check_ok(aorta_image_columns(
            rig->stream, &(struct aorta_image_args){.shape = s, .x = rig_put(rig, AORTA_F32, x, count_of(s)), .y = y}));
        rig_close_to("y", rig_get(rig, AORTA_F32, y, 9 * count_of(s)), expected, 9 * count_of(s), 0, 0);
        rig_reset(state);
    }
}

static void pool_and_mean(void **state) {
    for (size_t i = 0; i < SHAPES; i++) {
        struct rig *rig = *state;
        const struct aorta_image s = shapes[i], half = {s.images, s.height / 2, s.width / 2, s.channels};
        double *x = rig_random(rig, AORTA_F32, count_of(s), 1), *most = rig_values(rig, count_of(half)), *to = most;
        double *mean = rig_values(rig, s.images * s.channels);
        for (int64_t n = 0; n < s.images; n++)
            for (int64_t h = 0; h < s.height; h += 2)
                for (int64_t w = 0; w < s.width; w += 2)
                    for (int64_t c = 0; c < s.channels; c++) {
                        const double a = at(s, x, n, h, w, c), b = at(s, x, n, h, w + 1, c);
                        const double d = at(s, x, n, h + 1, w, c), e = at(s, x, n, h + 1, w + 1, c);
                        *to++ = fmax(fmax(a, b), fmax(d, e));
                        mean[n * s.channels + c] += (a + b + d + e) / (double)(s.height * s.width);
                    }
        const float *device = rig_put(rig, AORTA_F32, x, count_of(s));
        float *y = rig_alloc(rig, (size_t)count_of(half) * sizeof(float));
        float *z = rig_alloc(rig, (size_t)(s.images * s.channels) * sizeof(float));
        check_ok(aorta_image_pool(rig->stream, &(struct aorta_image_args){.shape = s, .x = device, .y = y}));
        check_ok(aorta_image_mean(rig->stream, &(struct aorta_image_args){.shape = s, .x = device, .y = z}));
        rig_close_to("largest", rig_get(rig, AORTA_F32, y, count_of(half)), most, count_of(half), 0, 0);
        rig_close_to("mean", rig_get(rig, AORTA_F32, z, s.images * s.channels), mean, s.images * s.channels, 1e-6,
                     1e-6);
        rig_reset(state);
    }
}

static void wrong_arguments(void **state) {
    struct rig *rig = *state;
    float some[8] = {0};
    const uint8_t flips[1] = {0};
    check_fails(
        aorta_image_pool(rig->stream,
                         &(struct aorta_image_args){.shape = (struct aorta_image){1, 3, 2, 1}, .x = some, .y = some}),
        AORTA_INTERNAL, "3 x 2 pixels; both must be even");
    check_fails(aorta_image_prepare(rig->stream, &(struct aorta_image_args){.shape = (struct aorta_image){1, 1, 1, 5},
                                                                            .x = some,
                                                                            .flips = flips,
                                                                            .y = some}),
                AORTA_INTERNAL, "channels is 5, at most 4");
    check_fails(
        aorta_image_columns(
            rig->stream, &(struct aorta_image_args){.shape = (struct aorta_image){1, 0, 1, 1}, .x = some, .y = some}),
        AORTA_INTERNAL, "height is 0");
}

int main(void) {
    const struct CMUnitTest tests[] = {rig_test(prepare), rig_test(columns), rig_test(pool_and_mean),
                                       rig_test(wrong_arguments)};
    return rig_run_tests("ops: image", tests);
}
