/* Synthetic batches: dense features N(0, 1), labels in [0, 1), lists of |N(average, 1)| ids each (rounded down), ids
 * uniform over their table, weights in [0, 1). A batch depends on (training.seed, its number, the rank) alone.
 *
 * All are made before the first step, in pinned memory, each in one piece that is copied to the device as it is. */
#ifndef AORTA_SPARSE_BATCH_H
#define AORTA_SPARSE_BATCH_H

#include "base/random.h"
#include "base/signals.h"
#include "sparse/tables.h"

/* Where the parts of a batch lie in its memory. */
struct aorta_sparse_layout {
    int64_t samples;
    size_t dense, labels; /* [samples, num_float_features], [samples] */
    struct aorta_sparse_lists {
        int64_t ids;
        size_t lengths_at, ids_at, weights_at; /* [features, samples] int32, ids int64, weights fp32 */
    } groups[AORTA_SPARSE_GROUPS];
    size_t bytes;
};

struct aorta_sparse_maker {
    const struct aorta_sparse_options *options;
    const struct aorta_sparse_tables *tables;
    int world_size;
    const struct aorta_signals *signals; /* end the making; NULL: nothing does */
    struct aorta_normal_table normal;
};

void aorta_sparse_maker_begin(struct aorta_sparse_maker *maker, const struct aorta_sparse_options *options,
                              const struct aorta_sparse_tables *tables, int world_size);
/* Of batch `number` of a rank. AORTA_MEMORY, AORTA_INTERRUPTED. */
AORTA_MUST_USE aorta_status aorta_sparse_batch_layout(const struct aorta_sparse_maker *maker, int64_t number, int rank,
                                                      struct aorta_sparse_layout *layout);
/* AORTA_INTERRUPTED. */
AORTA_MUST_USE aorta_status aorta_sparse_batch_fill(const struct aorta_sparse_maker *maker, int64_t number, int rank,
                                                    const struct aorta_sparse_layout *layout, void *memory);

#endif
