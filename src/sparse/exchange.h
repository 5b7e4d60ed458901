/* One group's tables on this rank, and what travels between the ranks for it: lengths and ids to the owners of rows,
 * pooled rows back, their gradients to the owners again, which update their rows.
 *
 * The id exchange is ordered on the stream of AORTA_FLOW_REDUCE_SCATTER, that of rows on AORTA_FLOW_ALL_REDUCE's.
 * Two batches are in flight, in slots 0 and 1. */
#ifndef AORTA_SPARSE_EXCHANGE_H
#define AORTA_SPARSE_EXCHANGE_H

#include "ops/types.h"
#include "sparse/tables.h"
#include "train/context.h"

enum { AORTA_SPARSE_SLOTS = 2 };

struct aorta_sparse_exchange;

struct aorta_sparse_exchange_settings {
    const struct aorta_train_context *context;
    const struct aorta_sparse_options *options;
    const struct aorta_sparse_tables *tables;
    int group;             /* of the tables */
    struct aorta_comm *id; /* the group of all ranks again, for ids; rows use the context's */
    int64_t samples;       /* of the largest batch */
};

/* Makes the plan, the tables and their start values, and memory for what does not depend on the ids. *exchange is to be
 * destroyed on failure as well. */
AORTA_MUST_USE aorta_status aorta_sparse_exchange_create(const struct aorta_sparse_exchange_settings *settings,
                                                         struct aorta_sparse_exchange **exchange);
void aorta_sparse_exchange_destroy(struct aorta_sparse_exchange *exchange); /* NULL is fine */
/* Memory for the ids of a batch such as those that were counted so far: call it after counting every batch. */
AORTA_MUST_USE aorta_status aorta_sparse_exchange_reserve(struct aorta_sparse_exchange *exchange);

/* A batch's lists on the device. */
struct aorta_sparse_input {
    int64_t samples;
    const int32_t *lengths;
    const int64_t *ids;
    const float *weights;
};

/* Which ids go where, and the lengths to their owners. */
AORTA_MUST_USE aorta_status aorta_sparse_exchange_count(struct aorta_sparse_exchange *exchange, int slot,
                                                        const struct aorta_sparse_input *input);
/* The host waits until the numbers of ids are known. */
AORTA_MUST_USE aorta_status aorta_sparse_exchange_await(struct aorta_sparse_exchange *exchange, int slot);
/* Sends ids and weights to their owners; needs the awaited lengths. */
AORTA_MUST_USE aorta_status aorta_sparse_exchange_ids(struct aorta_sparse_exchange *exchange, int slot,
                                                      const struct aorta_sparse_input *input);

/* Lookups, on the stream of `role`; the pooled rows to the ranks of their samples; into columns of `pooled` [samples,
 * all columns], which compute writes. */
AORTA_MUST_USE aorta_status aorta_sparse_exchange_lookup(struct aorta_sparse_exchange *exchange, int slot,
                                                         enum aorta_role role);
AORTA_MUST_USE aorta_status aorta_sparse_exchange_rows(struct aorta_sparse_exchange *exchange, int slot,
                                                       enum aorta_role role);
AORTA_MUST_USE aorta_status aorta_sparse_exchange_gather(struct aorta_sparse_exchange *exchange, int slot,
                                                         float *pooled);
/* Gradients of pooled rows, which compute has made, to the owners. */
AORTA_MUST_USE aorta_status aorta_sparse_exchange_return(struct aorta_sparse_exchange *exchange, int slot,
                                                         const float *pooled_gradient);
/* Prepares a batch ahead of its step, which waits for this stream: sorts its ids by table row and, for kernels with a
 * cache, brings its rows there, during lookups and updates of the previous batch. Without it the lookup does this. */
AORTA_MUST_USE aorta_status aorta_sparse_exchange_prefetch(struct aorta_sparse_exchange *exchange, int slot,
                                                           enum aorta_role role);
/* The update of the tables, with sorting where it was not done ahead. */
AORTA_MUST_USE aorta_status aorta_sparse_exchange_update(struct aorta_sparse_exchange *exchange, int slot,
                                                         enum aorta_role role);

/* Bytes of the tables on this rank, optimizer state included. */
int64_t aorta_sparse_exchange_bytes(const struct aorta_sparse_exchange *exchange);
/* Rows of all batches so far by their fate in the cache; waits for compute. No cache: zeros. */
AORTA_MUST_USE aorta_status aorta_sparse_exchange_cached(struct aorta_sparse_exchange *exchange,
                                                         uint64_t counts[AORTA_ROW_COUNTS]);

#endif
