/* The exports of this folder's files. They are compiled once for each instruction set; AORTA_ISA is its short name, and
 * exported names end with it: AORTA_ISA_NAME(cast) is aorta_cast_generic, aorta_cast_v3 or aorta_cast_v4. */
#ifndef AORTA_OPS_CPU_ENTRIES_H
#define AORTA_OPS_CPU_ENTRIES_H

#include "ops/cpu/cpu.h"

#ifndef AORTA_ISA
#define AORTA_ISA generic
#endif
#define AORTA_ISA_PASTE(name, isa) aorta_##name##_##isa
#define AORTA_ISA_EXPAND(name, isa) AORTA_ISA_PASTE(name, isa)
#define AORTA_ISA_NAME(name) AORTA_ISA_EXPAND(name, AORTA_ISA)

extern const struct aorta_cpu_ops AORTA_ISA_NAME(cpu_ops);

#define LOOP(name) aorta_status AORTA_ISA_NAME(name)(const void *args);
#include "ops/kernels.def"

/* As the members of struct aorta_cpu_ops. */
void AORTA_ISA_NAME(bias_rows)(const struct aorta_linear *shape, const void *bias, void *y);
void AORTA_ISA_NAME(column_sums)(const struct aorta_linear *shape, const void *dy, float *dbias, bool accumulate);
void AORTA_ISA_NAME(relu)(void *y, enum aorta_dtype dtype, int64_t count);
void AORTA_ISA_NAME(to_float)(float *to, const void *from, enum aorta_dtype dtype, int64_t count);
void AORTA_ISA_NAME(from_float)(void *to, const float *from, enum aorta_dtype dtype, int64_t count);
void AORTA_ISA_NAME(philox)(const uint32_t key[2], uint64_t step, uint64_t first, int64_t count, uint32_t *words);

#endif
