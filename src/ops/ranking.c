/* Finding the best of many: the largest elements of rows, and rows of length one to compare by their products. */
#include "ops/check.h"
#include "ops/gpu/gpu.h"

#include <math.h>

static bool among(const int64_t *places, int64_t count, int64_t place) {
    for (int64_t i = 0; i < count; i++)
        if (places[i] == place) return true;
    return false;
}

static aorta_status top(const void *args) {
    const struct aorta_top_args *a = args;
    for (int64_t row = 0; row < a->rows; row++) {
        const float *x = a->x + row * a->width;
        int64_t *places = a->places + row * a->top;
        for (int64_t k = 0; k < a->top; k++) {
            int64_t best = -1;
            for (int64_t i = 0; i < a->width; i++)
                if (!among(places, k, i) && (best < 0 || x[i] > x[best])) best = i;
            places[k] = best;
            a->values[row * a->top + k] = x[best];
        }
    }
    return NULL;
}

static aorta_status normalise(const void *args) {
    const struct aorta_normalise_args *a = args;
    for (int64_t row = 0; row < a->rows; row++) {
        const float *x = a->x + row * a->width;
        float *y = a->y + row * a->width, square = 0.0f;
        for (int64_t i = 0; i < a->width; i++) square += x[i] * x[i];
        const float inverse = 1.0f / fmaxf(sqrtf(square), 1e-8f);
        for (int64_t i = 0; i < a->width; i++) y[i] = x[i] * inverse;
    }
    return NULL;
}

static aorta_status top_gpu(struct aorta_stream *stream, const void *args) {
    const struct aorta_top_args *a = args;
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_top_places, aorta_ops_grid(a->rows, AORTA_ROW_THREADS), a, sizeof *a);
}

static aorta_status normalise_gpu(struct aorta_stream *stream, const void *args) {
    const struct aorta_normalise_args *a = args;
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_normalise_rows, aorta_ops_grid(a->rows, AORTA_ROW_THREADS), a,
                             sizeof *a);
}

static const struct aorta_kernel top_kernel = {"top", top, top_gpu};
static const struct aorta_kernel normalise_kernel = {"normalise_rows", normalise, normalise_gpu};

aorta_status aorta_top(struct aorta_stream *stream, const struct aorta_top_args *a) {
    AORTA_TRY(aorta_check_size(top_kernel.name, "rows", a->rows, 0));
    AORTA_TRY(aorta_check_size(top_kernel.name, "top", a->top, 1));
    AORTA_TRY(aorta_check_size(top_kernel.name, "width", a->width, a->top));
    if (a->width > AORTA_TOP_WIDTH)
        return AORTA_ERROR(AORTA_UNSUPPORTED, "top: rows of %lld; they have at most %d elements", (long long)a->width,
                           AORTA_TOP_WIDTH);
    if (a->rows == 0) return NULL;
    AORTA_TRY(aorta_check_pointers(top_kernel.name,
                                   AORTA_POINTERS({"x", a->x}, {"places", a->places}, {"values", a->values})));
    return aorta_launch(stream, &top_kernel, a, sizeof *a);
}

aorta_status aorta_normalise_rows(struct aorta_stream *stream, const struct aorta_normalise_args *a) {
    AORTA_TRY(aorta_check_size(normalise_kernel.name, "rows", a->rows, 0));
    AORTA_TRY(aorta_check_size(normalise_kernel.name, "width", a->width, 1));
    if (a->rows == 0) return NULL;
    AORTA_TRY(aorta_check_pointers(normalise_kernel.name, AORTA_POINTERS({"x", a->x}, {"y", a->y})));
    return aorta_launch(stream, &normalise_kernel, a, sizeof *a);
}
