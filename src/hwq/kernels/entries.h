/* Every kernel of this room as a table, made of kernels.def. */
#ifndef AORTA_HWQ_KERNELS_ENTRIES_H
#define AORTA_HWQ_KERNELS_ENTRIES_H

#include "device/gpu.h"

enum aorta_hwq_source {
#define SOURCE(source) AORTA_HWQ_SOURCE_##source,
#define ENTRY(source, name)
#include "hwq/kernels/kernels.def"
#undef SOURCE
#undef ENTRY
    AORTA_HWQ_SOURCE_COUNT
};

enum aorta_hwq_entry {
#define SOURCE(source)
#define ENTRY(source, name) AORTA_HWQ_ENTRY_##name,
#include "hwq/kernels/kernels.def"
#undef SOURCE
#undef ENTRY
    AORTA_HWQ_ENTRY_COUNT
};

extern const struct aorta_gpu_source *const aorta_hwq_sources[AORTA_HWQ_SOURCE_COUNT];
extern const struct aorta_gpu_entry aorta_hwq_entries[AORTA_HWQ_ENTRY_COUNT];

#endif
