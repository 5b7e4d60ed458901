/* A linear layer, GELU and dropout in one kernel, and the gradient before them, on NVIDIA's Hopper only. One pass saves
 * one write and one read of a transformer's widest activations. */
#include "ops/check.h"
#include "ops/gpu/blas.h"
#include "ops/gpu/gpu.h"

enum { HOPPER = 9, ELEMENTS = 8 /* of 16 bytes */, BLOCKS = 2 /* of a cluster, with a pair of tiles */ };

static int64_t pairs_of(int64_t rows, int64_t columns) {
    return aorta_ops_blocks(rows, BLOCKS * AORTA_FUSED_ROWS) * (int64_t)aorta_ops_blocks(columns, AORTA_FUSED_COLUMNS);
}

/* Each multiprocessor has a block, and each block two groups of threads that take turns. */
static bool device_fits(const struct aorta_device *device, int64_t pairs) {
    if (!aorta_device_is_gpu(device) || aorta_device_get_info(device)->kind != AORTA_DEVICE_CUDA) return false;
    const struct aorta_gpu_properties *gpu = aorta_gpu_get_properties(device);
    return gpu->major == HOPPER && aorta_gpu_has_tiles(device) && gpu->shared_bytes_per_block >= AORTA_FUSED_SHARED &&
           pairs >= gpu->multiprocessors;
}

aorta_status aorta_linear_gelu_fits(struct aorta_device *device, const struct aorta_linear *shape, bool *fits) {
    *fits = shape->dtype == AORTA_BF16 && shape->in % ELEMENTS == 0 && shape->out % ELEMENTS == 0 &&
            device_fits(device, pairs_of(shape->rows, shape->out));
    if (!*fits) return NULL;
    struct aorta_ops_settings settings;
    AORTA_TRY(aorta_blas_settings(device, &settings));
    *fits = !settings.own_products;
    return NULL;
}

/* The product sums over `depth`; `columns` are those of the result. */
static aorta_status run(struct aorta_stream *stream, const struct aorta_linear_gelu_args *a, enum aorta_ops_entry entry,
                        int64_t depth, int64_t columns, struct aorta_gpu_linear_gelu_args *args) {
    const bool backward = entry == AORTA_ENTRY_linear_gelu_backward;
    struct aorta_device *device = aorta_stream_device(stream);
    const struct aorta_gpu_matrix x = {a->x, a->linear.rows, depth, AORTA_FUSED_ROWS, AORTA_FUSED_DEPTH};
    const struct aorta_gpu_matrix weight = {a->weight, a->linear.out, a->linear.in,
                                            backward ? AORTA_FUSED_DEPTH : AORTA_FUSED_COLUMNS / BLOCKS,
                                            AORTA_FUSED_DEPTH};
    AORTA_TRY(aorta_gpu_describe_tiles(device, &x, &args->x_tiles));
    AORTA_TRY(aorta_gpu_describe_tiles(device, &weight, &args->weight_tiles));
    args->rows = a->linear.rows;
    args->in = depth;
    args->out = columns;
    args->bias = a->bias;
    args->slope = a->slope;
    args->y = a->y;
    args->dropout = a->gelu.dropout;
    args->rng = aorta_ops_gpu_key(a->gelu.rng);
    const int64_t clusters = aorta_gpu_get_properties(device)->multiprocessors / BLOCKS,
                  pairs = pairs_of(args->rows, columns);
    const struct aorta_gpu_grid grid = {.blocks = {(uint32_t)(BLOCKS * (pairs < clusters ? pairs : clusters))},
                                        .threads = {AORTA_FUSED_THREADS},
                                        .shared_bytes = AORTA_FUSED_SHARED};
    return aorta_ops_gpu_run(stream, entry, grid, args, sizeof *args);
}

static aorta_status forward_gpu(struct aorta_stream *stream, const void *user) {
    const struct aorta_linear_gelu_args *a = user;
    struct aorta_gpu_linear_gelu_args args = {0};
    return run(stream, a, AORTA_ENTRY_linear_gelu_forward, a->linear.in, a->linear.out, &args);
}

static aorta_status backward_gpu(struct aorta_stream *stream, const void *user) {
    const struct aorta_linear_gelu_args *a = user;
    const int64_t columns = a->linear.in, tiles = aorta_ops_blocks(a->linear.rows, AORTA_FUSED_ROWS);
    struct aorta_gpu_linear_gelu_args args = {0};
    AORTA_TRY(aorta_ops_gpu_partial(stream, (size_t)(tiles * columns) * sizeof(float), &args.partial));
    AORTA_TRY(run(stream, a, AORTA_ENTRY_linear_gelu_backward, a->linear.out, columns, &args));
    const struct aorta_gpu_column_sums finish = {.partial = args.partial,
                                                 .rows = tiles,
                                                 .columns = columns,
                                                 .split = columns,
                                                 .sums = {a->dbias},
                                                 .accumulate = a->accumulate};
    return aorta_ops_gpu_column_finish(stream, &finish);
}

static aorta_status refuse(const void *args) {
    (void)args;
    return AORTA_ERROR(AORTA_UNSUPPORTED, "a CPU makes a linear layer and its GELU one after the other");
}

static const struct aorta_kernel forward_kernel = {"linear_gelu_forward", refuse, forward_gpu};
static const struct aorta_kernel backward_kernel = {"linear_gelu_backward", refuse, backward_gpu};

static aorta_status check(struct aorta_stream *stream, const char *name, const struct aorta_linear *before,
                          const struct aorta_named_pointer *pointers) {
    bool fits;
    AORTA_TRY(aorta_linear_gelu_fits(aorta_stream_device(stream), before, &fits));
    if (!fits)
        return AORTA_ERROR(AORTA_UNSUPPORTED, "%s: %lld x %lld x %lld in %s has no kernel on this device", name,
                           (long long)before->rows, (long long)before->in, (long long)before->out,
                           aorta_dtype_name(before->dtype));
    AORTA_TRY(aorta_check_pointers(name, pointers));
    for (; pointers->name; pointers++)
        if ((uintptr_t)pointers->pointer % 16)
            return AORTA_ERROR(AORTA_INTERNAL, "%s: %s is not aligned to 16 bytes", name, pointers->name);
    return NULL;
}

aorta_status aorta_linear_gelu_forward(struct aorta_stream *stream, const struct aorta_linear_gelu_args *a) {
    AORTA_TRY(
        check(stream, forward_kernel.name, &a->linear,
              AORTA_POINTERS({"x", a->x}, {"weight", a->weight}, {"bias", a->bias}, {"slope", a->slope}, {"y", a->y})));
    AORTA_TRY(aorta_check_dropout(forward_kernel.name, a->gelu.dropout));
    return aorta_launch(stream, &forward_kernel, a, sizeof *a);
}

aorta_status aorta_linear_gelu_backward(struct aorta_stream *stream, const struct aorta_linear_gelu_args *a) {
    const struct aorta_linear before = {a->linear.dtype, a->linear.rows, a->linear.out, a->linear.in};
    AORTA_TRY(check(
        stream, backward_kernel.name, &before,
        AORTA_POINTERS({"dy", a->x}, {"weight", a->weight}, {"slope", a->slope}, {"dx", a->y}, {"dbias", a->dbias})));
    return aorta_launch(stream, &backward_kernel, a, sizeof *a);
}
