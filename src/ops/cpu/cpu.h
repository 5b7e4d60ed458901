/* The loops of the operations on the CPU, compiled for several instruction sets; one is chosen when they are called. */
#ifndef AORTA_OPS_CPU_CPU_H
#define AORTA_OPS_CPU_CPU_H

#include "base/philox.h"
#include "base/status.h"
#include "ops/types.h"

/* One instruction set's functions. A function with `const void *args` has the signature of a kernel and gets the struct
 * of types.h with its name. */
typedef aorta_status aorta_cpu_op(const void *args);
struct aorta_cpu_ops {
    const char *isa; /* "generic", and on x86-64 "v3", "v4" for the levels x86-64-v3 and -v4 */
#define LOOP(name) aorta_cpu_op *name;
#include "ops/kernels.def"
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

/* The best instruction set that this processor supports, and its functions with the signature of a kernel. */
const struct aorta_cpu_ops *aorta_cpu_ops(void);
#define LOOP(name) aorta_status aorta_cpu_##name(const void *args);
#include "ops/kernels.def"
/* All compiled instruction sets that this processor supports, best first; for tests and benchmarks. */
const struct aorta_cpu_ops *const *aorta_cpu_ops_list(int *count);

/* Dropout masks from counter-based random numbers.
 *
 * Element i of a tensor uses 16-bit sample i mod 8 of block i / 8 (each of a block's four words gives two samples, the
 * low half first) and is dropped when the sample is below round(p·65536). Remaining elements are scaled by the exact
 * 65536 / (65536 − threshold), so that the expectation is unchanged. A block is Philox4x32-10 of the counter (block,
 * step), both 64 bits, low word first. Its key is the first two words of Philox4x32-10 of the counter (site, rank,
 * micro, 0) under the run's seed. */

#define AORTA_PHILOX_SAMPLES 8                                         /* of one block */
#define AORTA_PHILOX_LANES 16                                          /* blocks made side by side */
#define AORTA_PHILOX_GROUP (AORTA_PHILOX_SAMPLES * AORTA_PHILOX_LANES) /* samples made at a time */

/* The parameters of a dropout, everything except the element's index. */
struct aorta_dropout {
    uint32_t key[2];
    uint64_t step;
    int32_t threshold; /* samples below it are dropped; 0: no dropout */
    float scale;       /* of remaining elements; 0 when all are dropped */
};

/* Runs on the device: reads rng->state. */
struct aorta_dropout aorta_dropout_begin(float probability, const struct aorta_rng *rng);

#endif
