#include "rig.h"

#include <math.h>

static void top(void **state) {
    static const int64_t shapes[][3] = {{1, 1, 1}, {7, 100, 10}, {3, 4096, 5}, {2, 12, 12}};
    for (int s = 0; s < 4; s++) {
        struct rig *rig = *state;
        const int64_t rows = shapes[s][0], width = shapes[s][1], count = shapes[s][2];
        double *x = rig_random(rig, AORTA_F32, rows * width, 1);
        if (width > 5) x[4] = x[2] = x[5] = 1.5; /* equals: the first comes first */
        int64_t *places = rig_alloc(rig, (size_t)(rows * count) * sizeof *places), got[128];
        float *values = rig_alloc(rig, (size_t)(rows * count) * sizeof *values);
        check_ok(aorta_top(rig->stream, &(struct aorta_top_args){.rows = rows,
                                                                 .width = width,
                                                                 .top = count,
                                                                 .x = rig_put(rig, AORTA_F32, x, rows * width),
                                                                 .places = places,
                                                                 .values = values}));
        rig_get_bytes(rig, got, places, (size_t)(rows * count) * sizeof *got);
        const double *most = rig_get(rig, AORTA_F32, values, rows * count);
        if (width > 5) assert_true(got[0] == 2 && got[1] == 4 && got[2] == 5);
        for (int64_t row = 0; row < rows; row++)
            for (int64_t k = 0; k < count; k++) {
                const int64_t place = got[row * count + k];
                const double value = x[row * width + place];
                int64_t before = 0;
                for (int64_t i = 0; i < width; i++)
                    before += x[row * width + i] > value || (x[row * width + i] == value && i < place);
                assert_int_equal(before, k);
                assert_true(most[row * count + k] == value);
            }
        rig_reset(state);
    }
}

static void normalise(void **state) {
    static const int64_t shapes[][2] = {{1, 1}, {5, 33}, {9, 256}, {2, 1000}};
    for (int s = 0; s < 4; s++) {
        struct rig *rig = *state;
        const int64_t rows = shapes[s][0], width = shapes[s][1];
        double *x = rig_random(rig, AORTA_F32, rows * width, 3), *expected = rig_values(rig, rows * width);
        for (int64_t row = 0; row < rows; row++) {
            double square = 0.0;
            for (int64_t i = 0; i < width; i++) square += x[row * width + i] * x[row * width + i];
            for (int64_t i = 0; i < width; i++) expected[row * width + i] = x[row * width + i] / sqrt(square);
        }
        float *y = rig_put(rig, AORTA_F32, x, rows * width);
        check_ok(aorta_normalise_rows(rig->stream,
                                      &(struct aorta_normalise_args){.rows = rows, .width = width, .x = y, .y = y}));
        rig_close_to("y", rig_get(rig, AORTA_F32, y, rows * width), expected, rows * width, 2e-6, 1e-7);
        rig_reset(state);
    }
}

static void wrong_arguments(void **state) {
    struct rig *rig = *state;
    float some[4] = {0};
    int64_t place;
    check_fails(aorta_top(rig->stream,
                          &(struct aorta_top_args){
                              .rows = 1, .width = 4, .top = 5, .x = some, .places = &place, .values = some}),
                AORTA_INTERNAL, "width is 4, must be at least 5");
    check_fails(aorta_top(rig->stream,
                          &(struct aorta_top_args){
                              .rows = 1, .width = 4097, .top = 5, .x = some, .places = &place, .values = some}),
                AORTA_UNSUPPORTED, "at most 4096");
    check_fails(aorta_normalise_rows(rig->stream, &(struct aorta_normalise_args){.rows = 1, .x = some, .y = some}),
                AORTA_INTERNAL, "width is 0");
}

int main(void) {
    const struct CMUnitTest tests[] = {rig_test(top), rig_test(normalise), rig_test(wrong_arguments)};
    return rig_run_tests("ops: ranking", tests);
}
