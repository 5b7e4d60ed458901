/* The loops of the operations on the CPU, compiled for several instruction sets; one is chosen when they are called. */
#ifndef AORTA_OPS_CPU_CPU_H
#define AORTA_OPS_CPU_CPU_H

#include "base/status.h"
#include "ops/types.h"

/* One instruction set's functions. A function with `const void *args` has the signature of a kernel and gets the struct
 * of types.h with its name. */
typedef aorta_status aorta_cpu_op(const void *args);
struct aorta_cpu_ops {
    const char *isa; /* "generic", and on x86-64 "v3", "v4" for the levels x86-64-v3 and -v4 */
#define LOOP(name) aorta_cpu_op *name;
#include "ops/kernels.def"
    /* y [rows, out] = bias in every row */
    void (*bias_rows)(const struct aorta_linear *shape, const void *bias, void *y);
    /* dbias [out] = (or +=) the column sums of dy [rows, out] */
    void (*column_sums)(const struct aorta_linear *shape, const void *dy, float *dbias, bool accumulate);
    /* negative elements become 0, in place */
    void (*relu)(void *y, enum aorta_dtype dtype, int64_t count);
    /* fp32 from and to the type given; rounds to nearest even */
    void (*to_float)(float *to, const void *from, enum aorta_dtype dtype, int64_t count);
    void (*from_float)(void *to, const float *from, enum aorta_dtype dtype, int64_t count);
    /* Philox blocks first … first + count − 1 of a dropout stream, 4 words each; count is a multiple of 16 */
    void (*philox)(const uint32_t key[2], uint64_t step, uint64_t first, int64_t count, uint32_t *words);
};

/* The best that this processor runs, and its functions as those of a kernel. */
const struct aorta_cpu_ops *aorta_cpu_ops(void);
#define LOOP(name) aorta_status aorta_cpu_##name(const void *args);
#include "ops/kernels.def"
/* All that were compiled and that this processor runs, best first; for tests and benchmarks. */
const struct aorta_cpu_ops *const *aorta_cpu_ops_list(int *count);

#endif
