/* `aorta train` on the sparse model: a workload of the trainer. */
#ifndef AORTA_SPARSE_SPARSE_H
#define AORTA_SPARSE_SPARSE_H

#include "sparse/options.h"
#include "train/train.h"

/* For aorta_train_run.workload, with &options->train as its options. Sizes of *options are reduced on a CPU.
 * aorta_train closes what it opens; aorta_sparse_destroy frees the workload. */
AORTA_MUST_USE aorta_status aorta_sparse_create(struct aorta_sparse_options *options, const struct aorta_ranks *ranks,
                                                struct aorta_train_workload **workload);
void aorta_sparse_destroy(struct aorta_train_workload *workload); /* NULL is fine */

#endif
