/* Every GPU kernel of the operations as a table, their launch, and which are compiled ahead. */
#include "ops/gpu/gpu.h"
#include "ops/ops.h"

_Static_assert(AORTA_F32 == 0 && AORTA_F16 == 1 && AORTA_BF16 == 2, "entries of a typed kernel stand in this order");

/* Defined by the files that cmake/embed.cmake makes of kernels/. */
#define SOURCE(source) extern const struct aorta_gpu_source aorta_source_##source;
#include "ops/kernels.def"

const struct aorta_gpu_source *const aorta_ops_sources[AORTA_OPS_SOURCE_COUNT] = {
#define SOURCE(source) &aorta_source_##source,
#include "ops/kernels.def"
};

const struct aorta_gpu_entry aorta_ops_entries[AORTA_ENTRY_COUNT] = {
#define PLAIN(source, name) {&aorta_source_##source, #name},
#define TYPED(source, name)                                                                                            \
    {&aorta_source_##source, #name "_fp32"}, {&aorta_source_##source, #name "_fp16"},                                  \
        {&aorta_source_##source, #name "_bf16"},
#define APART(source, name)                                                                                            \
    {&aorta_source_##source##_fp32, #name "_fp32"}, {&aorta_source_##source##_fp16, #name "_fp16"},                    \
        {&aorta_source_##source##_bf16, #name "_bf16"},
#include "ops/kernels.def"
};

aorta_status aorta_ops_gpu_run(struct aorta_stream *stream, enum aorta_ops_entry entry, struct aorta_gpu_grid grid,
                               const void *args, size_t bytes) {
    return aorta_gpu_launch(stream, &aorta_ops_entries[entry], grid, args, bytes);
}

aorta_status aorta_ops_gpu_run_typed(struct aorta_stream *stream, enum aorta_ops_entry entry, enum aorta_dtype dtype,
                                     struct aorta_gpu_grid grid, const void *args, size_t bytes) {
    return aorta_gpu_launch(stream, &aorta_ops_entries[(int)entry + (int)dtype], grid, args, bytes);
}

static const struct aorta_gpu_source *source_of(enum aorta_ops_entry entry, enum aorta_dtype dtype) {
    return aorta_ops_entries[(int)entry + (int)dtype].source;
}

aorta_status aorta_ops_expect_transformer(struct aorta_device *device, const struct aorta_linear *linear1,
                                          int64_t head_dim) {
    if (!aorta_device_is_gpu(device)) return NULL;
    const enum aorta_dtype dtype = linear1->dtype;
    bool fused;
    AORTA_TRY(aorta_linear_gelu_fits(device, linear1, &fused));
    const struct aorta_gpu_source *const wanted[] = {
        source_of(AORTA_ENTRY_norm_forward, dtype),
        source_of(AORTA_ENTRY_embedding_forward, dtype),
        source_of(AORTA_ENTRY_gelu_forward, dtype),
        source_of(AORTA_ENTRY_bce, dtype),
        source_of(AORTA_ENTRY_column_sums, dtype),
        aorta_ops_gpu_attention_source(dtype, head_dim), /* NULL: it will be refused */
        fused ? aorta_ops_entries[AORTA_ENTRY_linear_gelu_forward].source : NULL,
    };
    const struct aorta_gpu_source *sources[sizeof wanted / sizeof *wanted];
    size_t count = 0;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (wanted[i]) sources[count++] = wanted[i];
    aorta_gpu_expect(device, sources, count);
    return NULL;
}

struct aorta_ops_limits aorta_ops_limits(const struct aorta_device *device) {
    if (!aorta_device_is_gpu(device)) return (struct aorta_ops_limits){INT64_MAX, INT64_MAX};
    return (struct aorta_ops_limits){aorta_ops_gpu_most_head_dim(), aorta_ops_gpu_most_norm_row()};
}
