#include "ops/check.h"
#include "ops/cpu/cpu.h"
#include "ops/gpu/gpu.h"

static aorta_status forward(const void *args) {
    return aorta_cpu_ops()->attention_forward(args);
}

static aorta_status backward(const void *args) {
    return aorta_cpu_ops()->attention_backward(args);
}

static const struct aorta_kernel forward_kernel = {"attention_forward", forward, aorta_ops_gpu_attention_forward};
static const struct aorta_kernel backward_kernel = {"attention_backward", backward, aorta_ops_gpu_attention_backward};

static aorta_status check_attention(const char *operation, const struct aorta_attention *shape) {
    AORTA_TRY(aorta_check_dtype(operation, shape->dtype));
    AORTA_TRY(aorta_check_size(operation, "batch", shape->batch, 0));
    AORTA_TRY(aorta_check_size(operation, "positions", shape->positions, 1));
    AORTA_TRY(aorta_check_size(operation, "heads", shape->heads, 1));
    AORTA_TRY(aorta_check_size(operation, "head_dim", shape->head_dim, 1));
    return aorta_check_dropout(operation, shape->dropout);
}

/* On the CPU the probabilities of all heads, before dropout. */
size_t aorta_attention_saved_bytes(const struct aorta_device *device, struct aorta_attention shape) {
    if (aorta_device_is_gpu(device)) return aorta_ops_gpu_attention_saved_bytes(&shape);
    return (size_t)(shape.batch * shape.heads * shape.positions * shape.positions) * aorta_dtype_size(shape.dtype);
}

/* On the CPU, for one head: three tiles of weights, and fp32 copies of the seven pieces that backward reads and writes.
 */
size_t aorta_attention_scratch_bytes(const struct aorta_device *device, struct aorta_attention shape) {
    if (aorta_device_is_gpu(device)) return aorta_ops_gpu_attention_scratch_bytes(&shape);
    size_t weights = (size_t)(shape.positions * shape.positions);
    size_t piece = shape.dtype == AORTA_F32 ? 0 : (size_t)(shape.positions * shape.head_dim);
    return (3 * weights + 7 * piece) * sizeof(float);
}

aorta_status aorta_attention_forward(struct aorta_stream *stream, struct aorta_attention shape, const void *qkv,
                                     void *out, void *saved, void *scratch) {
    AORTA_TRY(check_attention(forward_kernel.name, &shape));
    if (shape.batch == 0) return NULL;
    AORTA_TRY(aorta_check_pointers(
        forward_kernel.name,
        (const struct aorta_named_pointer[]){{"qkv", qkv}, {"out", out}, {"saved", saved}, {"scratch", scratch}, {0}}));
    const struct aorta_attention_args args = {
        .shape = shape, .qkv = qkv, .out = out, .saved = saved, .scratch = scratch};
    return aorta_launch(stream, &forward_kernel, &args, sizeof args);
}

/* `out` is for devices that save less than the probabilities. */
aorta_status aorta_attention_backward(struct aorta_stream *stream, struct aorta_attention shape, const void *qkv,
                                      const void *out, const void *saved, const void *dout, void *dqkv, void *scratch,
                                      float *dbias, bool accumulate) {
    AORTA_TRY(check_attention(backward_kernel.name, &shape));
    if (shape.batch == 0) {
        if (!dbias || accumulate) return NULL;
        return aorta_fill_bytes(stream, dbias, 0, (size_t)(3 * shape.heads * shape.head_dim) * sizeof *dbias);
    }
    AORTA_TRY(aorta_check_pointers(
        backward_kernel.name,
        (const struct aorta_named_pointer[]){
            {"qkv", qkv}, {"out", out}, {"saved", saved}, {"dout", dout}, {"dqkv", dqkv}, {"scratch", scratch}, {0}}));
    const struct aorta_attention_args args = {.shape = shape,
                                              .qkv = qkv,
                                              .saved_in = saved,
                                              .out_in = out,
                                              .dout = dout,
                                              .dqkv = dqkv,
                                              .scratch = scratch,
                                              .dbias = dbias,
                                              .accumulate = accumulate};
    return aorta_launch(stream, &backward_kernel, &args, sizeof args);
}
