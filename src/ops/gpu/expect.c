#include "ops/gpu/gpu.h"
#include "ops/ops.h"

enum { MOST_SOURCES = 6 };

static const struct aorta_gpu_source *source_of(enum aorta_ops_entry entry, enum aorta_dtype dtype) {
    return aorta_ops_entries[(int)entry + (int)dtype].source;
}

void aorta_ops_expect_transformer(struct aorta_device *device, enum aorta_dtype dtype, int64_t head_dim) {
    if (!aorta_device_is_gpu(device)) return;
    const struct aorta_gpu_source *sources[MOST_SOURCES] = {
        source_of(AORTA_ENTRY_norm_forward, dtype), source_of(AORTA_ENTRY_embedding_forward, dtype),
        source_of(AORTA_ENTRY_gelu_forward, dtype), source_of(AORTA_ENTRY_bce, dtype),
        source_of(AORTA_ENTRY_column_sums, dtype),  aorta_ops_gpu_attention_source(dtype, head_dim)};
    const bool attention = sources[MOST_SOURCES - 1] != NULL; /* else it will be refused */
    aorta_gpu_expect(device, sources, MOST_SOURCES - !attention);
}

struct aorta_ops_limits aorta_ops_limits(const struct aorta_device *device) {
    if (!aorta_device_is_gpu(device)) return (struct aorta_ops_limits){INT64_MAX, INT64_MAX};
    return (struct aorta_ops_limits){aorta_ops_gpu_most_head_dim(), aorta_ops_gpu_most_norm_row()};
}
