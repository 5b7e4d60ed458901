/* Every GPU kernel of the operations as a table, made of kernels.def. */
#ifndef AORTA_OPS_GPU_ENTRIES_H
#define AORTA_OPS_GPU_ENTRIES_H

#include "base/dtype.h"
#include "device/gpu.h"

enum aorta_ops_source {
#define SOURCE(source) AORTA_OPS_SOURCE_##source,
#include "ops/kernels.def"
    AORTA_OPS_SOURCE_COUNT
};

/* The entries of a kernel for several element types follow each other in the order of enum aorta_dtype: fp32, fp16,
 * bf16. */
enum aorta_ops_entry {
#define PLAIN(source, name) AORTA_ENTRY_##name,
#define TYPED(source, name) AORTA_ENTRY_##name, AORTA_ENTRY_##name##_fp16, AORTA_ENTRY_##name##_bf16,
#define APART TYPED
#include "ops/kernels.def"
    AORTA_ENTRY_COUNT
};

extern const struct aorta_gpu_source *const aorta_ops_sources[AORTA_OPS_SOURCE_COUNT];
extern const struct aorta_gpu_entry aorta_ops_entries[AORTA_ENTRY_COUNT];

#endif
