/* What the files of this folder export for one instruction set. The functions on `const void *args` have the signature
 * of a kernel; what they take is the struct of ops/kernels.h named like them. */
#ifndef AORTA_OPS_CPU_ENTRIES_H
#define AORTA_OPS_CPU_ENTRIES_H

#include "ops/cpu/cpu.h"
#include "ops/cpu/isa.h"

extern const struct aorta_cpu_ops AORTA_ISA_NAME(cpu_ops);

aorta_status AORTA_ISA_NAME(attention_forward)(const void *args);
aorta_status AORTA_ISA_NAME(attention_backward)(const void *args);
aorta_status AORTA_ISA_NAME(norm_forward)(const void *args);
aorta_status AORTA_ISA_NAME(norm_backward)(const void *args);
aorta_status AORTA_ISA_NAME(gelu_forward)(const void *args);
aorta_status AORTA_ISA_NAME(gelu_backward)(const void *args);
aorta_status AORTA_ISA_NAME(embedding_forward)(const void *args);
aorta_status AORTA_ISA_NAME(embedding_backward)(const void *args);
aorta_status AORTA_ISA_NAME(square_sum)(const void *args);
aorta_status AORTA_ISA_NAME(adamw)(const void *args);
aorta_status AORTA_ISA_NAME(cast)(const void *args);
aorta_status AORTA_ISA_NAME(fill)(const void *args);
aorta_status AORTA_ISA_NAME(add)(const void *args);
void AORTA_ISA_NAME(bias_rows)(const struct aorta_linear *shape, const void *bias, void *y);
void AORTA_ISA_NAME(column_sums)(const struct aorta_linear *shape, const void *dy, float *dbias, bool accumulate);
void AORTA_ISA_NAME(relu)(void *y, enum aorta_dtype dtype, int64_t count);
void AORTA_ISA_NAME(to_float)(float *to, const void *from, enum aorta_dtype dtype, int64_t count);
void AORTA_ISA_NAME(from_float)(void *to, const float *from, enum aorta_dtype dtype, int64_t count);
void AORTA_ISA_NAME(philox)(const uint32_t key[2], uint64_t step, uint64_t first, int64_t count, uint32_t *words);

#endif
