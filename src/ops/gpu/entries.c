#include "ops/gpu/entries.h"

_Static_assert(AORTA_F32 == 0 && AORTA_F16 == 1 && AORTA_BF16 == 2, "entries of a typed kernel stand in this order");

/* Defined by the files that cmake/embed.cmake makes of kernels/. */
#define SOURCE(source) extern const struct aorta_gpu_source aorta_source_##source;
#define TYPED(source, name)
#define APART(source, name)
#define PLAIN(source, name)
#include "ops/gpu/kernels.def"
#undef SOURCE
#undef TYPED
#undef APART
#undef PLAIN

const struct aorta_gpu_source *const aorta_ops_sources[AORTA_SOURCE_COUNT] = {
#define SOURCE(source) &aorta_source_##source,
#define TYPED(source, name)
#define APART(source, name)
#define PLAIN(source, name)
#include "ops/gpu/kernels.def"
#undef SOURCE
#undef TYPED
#undef APART
#undef PLAIN
};

const struct aorta_gpu_entry aorta_ops_entries[AORTA_ENTRY_COUNT] = {
#define SOURCE(source)
#define TYPED(source, name)                                                                                            \
    {&aorta_source_##source, #name "_fp32"}, {&aorta_source_##source, #name "_fp16"},                                  \
        {&aorta_source_##source, #name "_bf16"},
#define APART(source, name)                                                                                            \
    {&aorta_source_##source##_fp32, #name "_fp32"}, {&aorta_source_##source##_fp16, #name "_fp16"},                    \
        {&aorta_source_##source##_bf16, #name "_bf16"},
#define PLAIN(source, name) {&aorta_source_##source, #name},
#include "ops/gpu/kernels.def"
#undef SOURCE
#undef TYPED
#undef APART
#undef PLAIN
};
