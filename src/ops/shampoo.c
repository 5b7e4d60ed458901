/* Shampoo: factors and their roots, directions, and the step along a direction. */
#include "ops/check.h"
#include "ops/cpu/cpu.h"
#include "ops/gpu/gpu.h"

int64_t aorta_shampoo_blocks(int64_t rows, int64_t columns) {
    return aorta_ops_blocks(rows, AORTA_SHAMPOO_BLOCK) * (int64_t)aorta_ops_blocks(columns, AORTA_SHAMPOO_BLOCK);
}

/* ---- on GPUs ---- */

static aorta_status factors_gpu(struct aorta_stream *stream, const void *args) {
    const struct aorta_shampoo_args *a = args;
    const uint32_t sides = a->shape.columns > 1 ? 2 : 1;
    const struct aorta_gpu_grid grid = {
        .blocks = {(uint32_t)aorta_shampoo_blocks(a->shape.rows, a->shape.columns), sides},
        .threads = {AORTA_SHAMPOO_THREADS}};
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_shampoo_factors, grid, a, sizeof *a);
}

static aorta_status direction_gpu(struct aorta_stream *stream, const void *args) {
    const struct aorta_shampoo_args *a = args;
    const struct aorta_gpu_grid grid = {.blocks = {(uint32_t)aorta_shampoo_blocks(a->shape.rows, a->shape.columns)},
                                        .threads = {AORTA_SHAMPOO_THREADS}};
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_shampoo_direction, grid, a, sizeof *a);
}

static aorta_status descent_gpu(struct aorta_stream *stream, const void *args) {
    const struct aorta_descent_args *a = args;
    const struct aorta_gpu_grid grid = {.blocks = {aorta_ops_blocks(a->shape.count, AORTA_TILE)},
                                        .threads = {AORTA_POINTWISE_THREADS}};
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_descent, grid, a, sizeof *a);
}

/* ---- both ---- */

static const struct aorta_kernel factors_kernel = {"shampoo_factors", aorta_cpu_shampoo_factors, factors_gpu};
static const struct aorta_kernel direction_kernel = {"shampoo_direction", aorta_cpu_shampoo_direction, direction_gpu};
static const struct aorta_kernel descent_kernel = {"descent", aorta_cpu_descent, descent_gpu};

static aorta_status check(const struct aorta_shampoo *shape) {
    const char *name = direction_kernel.name;
    AORTA_TRY(aorta_check_size(name, "rows", shape->rows, 1));
    AORTA_TRY(aorta_check_size(name, "columns", shape->columns, 1));
    AORTA_TRY(aorta_check_size(name, "frequency", shape->frequency, 1));
    AORTA_TRY(aorta_check_pointer(name, "state", shape->state));
    if (aorta_shampoo_blocks(shape->rows, shape->columns) <= INT32_MAX) return NULL;
    return AORTA_ERROR(AORTA_INTERNAL, "%s: %lld x %lld elements are too many blocks", name, (long long)shape->rows,
                       (long long)shape->columns);
}

aorta_status aorta_shampoo_direction(struct aorta_stream *stream, const struct aorta_shampoo_args *a) {
    AORTA_TRY(check(&a->shape));
    AORTA_TRY(
        aorta_check_pointers(direction_kernel.name, AORTA_POINTERS({"gradient", a->gradient}, {"m", a->m}, {"v", a->v},
                                                                   {"factors", a->factors}, {"roots", a->roots},
                                                                   {"direction", a->direction})));
    AORTA_TRY(aorta_launch(stream, &factors_kernel, a, sizeof *a));
    return aorta_launch(stream, &direction_kernel, a, sizeof *a);
}

aorta_status aorta_descent_step(struct aorta_stream *stream, const struct aorta_descent_args *a) {
    AORTA_TRY(aorta_check_size(descent_kernel.name, "count", a->shape.count, 0));
    if (a->shape.count == 0) return NULL;
    AORTA_TRY(
        aorta_check_pointers(descent_kernel.name, AORTA_POINTERS({"state", a->shape.state}, {"parameter", a->parameter},
                                                                 {"direction", a->direction})));
    if (a->copy) AORTA_TRY(aorta_check_dtype(descent_kernel.name, a->shape.copy_dtype));
    return aorta_launch(stream, &descent_kernel, a, sizeof *a);
}
