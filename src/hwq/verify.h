/* Verification of workloads, stage by stage: all results are overwritten with NaN, one more iteration computes them
 * again, and each stage's output is compared with one computed from the stage's input on the device, in double
 * precision, for a sample of elements. So full sizes are verified in seconds, and an input that is read before it is
 * ready shows as NaN.
 *
 * Sums of products are allowed an error of `tolerance` times the sum of the products' magnitudes. */
#ifndef AORTA_HWQ_VERIFY_H
#define AORTA_HWQ_VERIFY_H

#include "hwq/operations.h"

#define AORTA_HWQ_FP32 1e-5
#define AORTA_HWQ_TF32 2e-3
enum { AORTA_HWQ_SAMPLES = 97 };

/* The buffers that an iteration writes. Created in setup; in the arena. */
struct aorta_hwq_results {
    struct aorta_hwq_result_buffer *last;
};
/* Memory for a result. */
AORTA_MUST_USE aorta_status aorta_hwq_output(struct aorta_hwq *hwq, struct aorta_hwq_results *results, int64_t count,
                                             const char *what, float **memory);
AORTA_MUST_USE aorta_status aorta_hwq_output_bytes(struct aorta_hwq *hwq, struct aorta_hwq_results *results,
                                                   size_t bytes, const char *what, void **memory);
/* Copies of device memory on the host, for as long as a verification lasts. */
struct aorta_hwq_verifier {
    struct aorta_hwq *hwq;
    struct aorta_hwq_check *check;
    struct aorta_hwq_fetched *last;
};
AORTA_MUST_USE aorta_status aorta_hwq_fetch(struct aorta_hwq_verifier *verifier, const float *memory, int64_t count,
                                            const float **copy);
AORTA_MUST_USE aorta_status aorta_hwq_fetch_bytes(struct aorta_hwq_verifier *verifier, const void *memory, size_t bytes,
                                                  const void **copy);
void aorta_hwq_verifier_end(struct aorta_hwq_verifier *verifier); /* frees the copies */
/* Overwrites all results, queues one iteration (with --graph as a replay), waits for all streams, and calls `compare`.
 */
AORTA_MUST_USE aorta_status aorta_hwq_verify_iteration(struct aorta_hwq *hwq, struct aorta_hwq_check *check,
                                                       const struct aorta_hwq_results *results, void *state,
                                                       aorta_status (*iterate)(struct aorta_hwq *hwq, void *state),
                                                       aorta_status (*compare)(struct aorta_hwq_verifier *verifier,
                                                                               void *state));

/* Index of sample number i of `count` elements: all of them where they are few. */
int64_t aorta_hwq_sample_count(int64_t count);
int64_t aorta_hwq_sample(int64_t i, int64_t count);

enum aorta_hwq_activation { AORTA_HWQ_PLAIN, AORTA_HWQ_RELU };
/* y [rows, out] against x [rows, in]; all in device memory. */
AORTA_MUST_USE aorta_status aorta_hwq_verify_linear(struct aorta_hwq_verifier *verifier, const char *what,
                                                    const struct aorta_hwq_layer *layer, int64_t rows, const float *x,
                                                    const float *y, enum aorta_hwq_activation activation,
                                                    double tolerance);
/* dx = dy·weight, plus `added` (may be NULL). */
AORTA_MUST_USE aorta_status aorta_hwq_verify_input(struct aorta_hwq_verifier *verifier, const char *what,
                                                   const struct aorta_hwq_layer *layer, int64_t rows, const float *dy,
                                                   const float *dx, const float *added);
/* dweight and dbias (may be NULL) = factor · (dyᵀ·x, Σ dy). */
AORTA_MUST_USE aorta_status aorta_hwq_verify_weight(struct aorta_hwq_verifier *verifier, const char *what,
                                                    const struct aorta_hwq_layer *layer, int64_t rows, const float *x,
                                                    const float *dy, double factor);
AORTA_MUST_USE aorta_status aorta_hwq_verify_products(struct aorta_hwq_verifier *verifier, const char *what,
                                                      const struct aorta_products *p, const float *a, const float *b,
                                                      const float *c);
AORTA_MUST_USE aorta_status aorta_hwq_verify_gelu(struct aorta_hwq_verifier *verifier, const char *what, int64_t count,
                                                  const float *x, const float *y);
/* dx = dy · gelu'(x). */
AORTA_MUST_USE aorta_status aorta_hwq_verify_gelu_backward(struct aorta_hwq_verifier *verifier, const char *what,
                                                           int64_t count, const float *x, const float *dy,
                                                           const float *dx);
/* y = LayerNorm(x + residual), x and residual given as their sum. */
AORTA_MUST_USE aorta_status aorta_hwq_verify_norm(struct aorta_hwq_verifier *verifier, const char *what,
                                                  const struct aorta_hwq_norm *norm, int64_t rows, const float *sum,
                                                  const float *y);
AORTA_MUST_USE aorta_status aorta_hwq_verify_norm_backward(struct aorta_hwq_verifier *verifier, const char *what,
                                                           const struct aorta_hwq_norm *norm, int64_t rows,
                                                           const float *sum, const float *dy, const float *extra,
                                                           const float *dsum);

/* One sequence's part of a cache as it was before the iteration, which writes to it: on the host, in the arena. */
struct aorta_hwq_sequence {
    float *keys, *values; /* [window, E] of one layer */
    int64_t position;
};
AORTA_MUST_USE aorta_status aorta_hwq_sequence_fetch(struct aorta_hwq *hwq, const struct aorta_cache *cache,
                                                     int64_t layer, int64_t sequence, const float *keys,
                                                     const float *values, const int64_t *positions,
                                                     struct aorta_hwq_sequence *copy);
/* The result of aorta_cache_attend: out [queries, batch, E] from qkv [fresh, batch, 3E]. */
AORTA_MUST_USE aorta_status aorta_hwq_verify_attend(struct aorta_hwq_verifier *verifier, const char *what,
                                                    const struct aorta_cache *cache, int64_t first, int64_t queries,
                                                    int64_t sequence, const struct aorta_hwq_sequence *copy,
                                                    const float *qkv, const float *out);
/* One new row as aorta_cache_append wrote it. */
AORTA_MUST_USE aorta_status aorta_hwq_verify_append(struct aorta_hwq_verifier *verifier,
                                                    const struct aorta_cache *cache, int64_t layer, int64_t sequence,
                                                    int64_t fresh, int64_t position, const float *qkv,
                                                    const float *keys, const float *values);

#endif
