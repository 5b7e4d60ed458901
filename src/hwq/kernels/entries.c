#include "hwq/kernels/entries.h"

/* Defined by the files that cmake/embed.cmake makes of the .cu files. */
#define SOURCE(source) extern const struct aorta_gpu_source aorta_source_hwq_##source;
#define ENTRY(source, name)
#include "hwq/kernels/kernels.def"
#undef SOURCE
#undef ENTRY

const struct aorta_gpu_source *const aorta_hwq_sources[AORTA_HWQ_SOURCE_COUNT] = {
#define SOURCE(source) &aorta_source_hwq_##source,
#define ENTRY(source, name)
#include "hwq/kernels/kernels.def"
#undef SOURCE
#undef ENTRY
};

const struct aorta_gpu_entry aorta_hwq_entries[AORTA_HWQ_ENTRY_COUNT] = {
#define SOURCE(source)
#define ENTRY(source, name) {&aorta_source_hwq_##source, "hwq_" #name},
#include "hwq/kernels/kernels.def"
#undef SOURCE
#undef ENTRY
};
