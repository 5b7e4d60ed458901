/* Routing to experts, and images. */
#include "ops/gpu/gpu.h"

static struct aorta_gpu_grid flat(int64_t blocks, uint32_t threads) {
    return (struct aorta_gpu_grid){.blocks = {(uint32_t)blocks}, .threads = {threads}};
}

aorta_status aorta_ops_gpu_route_plan(struct aorta_stream *stream, const void *args) {
    const struct aorta_route_args *a = args;
    AORTA_TRY(aorta_ops_gpu_run(stream, AORTA_ENTRY_route_choose,
                                flat(aorta_ops_blocks(a->shape.tokens, AORTA_ROUTE_THREADS), AORTA_ROUTE_THREADS), a,
                                sizeof *a));
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_route_place, flat(a->shape.experts, AORTA_ROUTE_THREADS), a,
                             sizeof *a);
}

aorta_status aorta_ops_gpu_route_dispatch(struct aorta_stream *stream, const void *args) {
    const struct aorta_route_args *a = args;
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_route_dispatch,
                             flat(a->shape.experts * a->shape.capacity, AORTA_ROUTE_THREADS), a, sizeof *a);
}

aorta_status aorta_ops_gpu_route_combine(struct aorta_stream *stream, const void *args) {
    const struct aorta_route_args *a = args;
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_route_combine, flat(a->shape.tokens, AORTA_ROUTE_THREADS), a,
                             sizeof *a);
}

static int64_t pixels(const struct aorta_image *shape) {
    return shape->images * shape->height * shape->width;
}

/* A thread for each of `count` elements. */
static aorta_status run_image(struct aorta_stream *stream, enum aorta_ops_entry entry,
                              const struct aorta_image_args *args, int64_t count) {
    return aorta_ops_gpu_run(stream, entry, flat(aorta_ops_blocks(count, AORTA_IMAGE_THREADS), AORTA_IMAGE_THREADS),
                             args, sizeof *args);
}

aorta_status aorta_ops_gpu_image_prepare(struct aorta_stream *stream, const void *args) {
    const struct aorta_image_args *a = args;
    return run_image(stream, AORTA_ENTRY_image_prepare, a, pixels(&a->shape));
}

/* Four channels for a thread where the kernel can take them so. */
aorta_status aorta_ops_gpu_image_columns(struct aorta_stream *stream, const void *args) {
    const struct aorta_image_args *a = args;
    const bool fours = a->shape.channels % 4 == 0 && ((uintptr_t)a->x | (uintptr_t)a->y) % 16 == 0;
    return run_image(stream, AORTA_ENTRY_image_columns, a, pixels(&a->shape) * 9 * a->shape.channels / (fours ? 4 : 1));
}

aorta_status aorta_ops_gpu_image_pool(struct aorta_stream *stream, const void *args) {
    const struct aorta_image_args *a = args;
    return run_image(stream, AORTA_ENTRY_image_pool, a, pixels(&a->shape) / 4 * a->shape.channels);
}

aorta_status aorta_ops_gpu_image_mean(struct aorta_stream *stream, const void *args) {
    const struct aorta_image_args *a = args;
    const struct aorta_gpu_grid grid = {.blocks = {aorta_ops_blocks(a->shape.channels, 32), (uint32_t)a->shape.images},
                                        .threads = {AORTA_IMAGE_THREADS}};
    return aorta_ops_gpu_run(stream, AORTA_ENTRY_image_mean, grid, a, sizeof *a);
}
