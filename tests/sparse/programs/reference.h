/* The sparse model in double precision on one host: no shards, no streams, all ranks' samples one after the other. */
#ifndef AORTA_TESTS_SPARSE_REFERENCE_H
#define AORTA_TESTS_SPARSE_REFERENCE_H

#include "sparse/dense.h"
#include "sparse/tables.h"

struct reference;

/* cuts[table number]: the columns where its shards end, the last one its number of columns: each shard has a sum of
 * squares of its own. */
struct reference *reference_make(const struct aorta_sparse_options *options, const struct aorta_sparse_tables *tables,
                                 int ranks, const int64_t *const *cuts);
void reference_free(struct reference *reference);
/* One step; losses[rank]. Returns the norm of the dense gradients. */
double reference_step(struct reference *reference, int64_t step, double *losses);

#endif
