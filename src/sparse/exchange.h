/* One group's tables on this rank, and their exchange between the ranks: lengths and ids go to the owners of rows,
 * pooled rows come back, and their gradients go to the owners, which update their rows.
 *
 * The id exchange runs on the stream of AORTA_FLOW_REDUCE_SCATTER, the row exchange on that of AORTA_FLOW_ALL_REDUCE.
 * Two batches are in flight, in slots 0 and 1. */
#ifndef AORTA_SPARSE_EXCHANGE_H
#define AORTA_SPARSE_EXCHANGE_H

#include "ops/types.h"
#include "sparse/tables.h"
#include "train/context.h"

enum { AORTA_SPARSE_SLOTS = 2 };

struct aorta_sparse_exchange;

struct aorta_sparse_exchange_settings {
    struct aorta_train_context *context;
    const struct aorta_sparse_options *options;
    const struct aorta_sparse_tables *tables;
    int group;             /* of the tables */
    struct aorta_comm *id; /* a second group of all ranks, for ids; rows use the context's */
    int64_t samples;       /* of the largest batch */
};

/* Makes the plan, the tables and their start values, and the memory whose size does not depend on the ids. It ends
 * with the context. */
AORTA_MUST_USE aorta_status aorta_sparse_exchange_create(const struct aorta_sparse_exchange_settings *settings,
                                                         struct aorta_sparse_exchange **exchange);
/* Allocates memory for the ids of the largest batch counted so far. Call it after all batches were counted. */
AORTA_MUST_USE aorta_status aorta_sparse_exchange_reserve(struct aorta_sparse_exchange *exchange);

/* A batch's lists on the device. */
struct aorta_sparse_input {
    int64_t samples;
    const int32_t *lengths;
    const int64_t *ids;
    const float *weights;
};

/* Counts the ids for each owner and sends the lengths to the owners. */
AORTA_MUST_USE aorta_status aorta_sparse_exchange_count(struct aorta_sparse_exchange *exchange, int slot,
                                                        const struct aorta_sparse_input *input);
/* The host waits until the numbers of ids are known. */
AORTA_MUST_USE aorta_status aorta_sparse_exchange_await(struct aorta_sparse_exchange *exchange, int slot);
/* Sends ids and weights to their owners; needs the awaited lengths. */
AORTA_MUST_USE aorta_status aorta_sparse_exchange_ids(struct aorta_sparse_exchange *exchange, int slot,
                                                      const struct aorta_sparse_input *input);

/* Three parts: lookups on the stream of `role`; sending pooled rows to the ranks of their samples; on compute, copying
 * them into columns of `pooled` [samples, all columns]. */
AORTA_MUST_USE aorta_status aorta_sparse_exchange_lookup(struct aorta_sparse_exchange *exchange, int slot,
                                                         enum aorta_role role);
AORTA_MUST_USE aorta_status aorta_sparse_exchange_rows(struct aorta_sparse_exchange *exchange, int slot,
                                                       enum aorta_role role);
AORTA_MUST_USE aorta_status aorta_sparse_exchange_gather(struct aorta_sparse_exchange *exchange, int slot,
                                                         float *pooled);
/* Sends gradients of pooled rows, which compute has made, to the owners. */
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
/* Counts of all batches' rows in the cache so far (AORTA_ROWS_…); zeros without a cache. Waits for compute. */
AORTA_MUST_USE aorta_status aorta_sparse_exchange_cached(struct aorta_sparse_exchange *exchange,
                                                         uint64_t counts[AORTA_ROW_COUNTS]);

/* ---- inside an exchange: exchange.c, exchange_tables.c ---- */

/* A batch in flight. */
struct exchange_flight {
    int64_t samples;
    int64_t *offsets;                /* of the lists of this rank's samples */
    int32_t *sent_lengths, *lengths; /* [all parts, samples]; [owners, own parts, samples] */
    int64_t *sent_offsets, *own_offsets;
    int64_t *sent_ids, *ids;
    float *sent_weights, *weights;
    struct aorta_pool_order order;
    int64_t *sent_bounds, *bounds; /* [owners + 1]: first id of each rank; pinned */
    /* [6, owners]: lengths sent and received, ids sent and received, elements of pooled rows sent and received */
    size_t *counts;
    struct aorta_event *counted, *arrived;
    bool sorted; /* sorting is queued before the batch's update, and with a cache also the copy of its rows */
};

struct aorta_sparse_exchange {
    struct aorta_sparse_exchange_settings s;
    const struct aorta_sparse_group *group;
    struct aorta_sparse_plan plan;
    struct aorta_comm *comm, *id_comm; /* NULL: this rank owns all that it needs */
    int me, owners, parts;             /* this rank's number among the owners; count of owners; this rank's parts */
    const struct aorta_sparse_part *own;
    int64_t width, widest;    /* columns that this rank serves; columns of its widest part */
    int64_t received_columns; /* that all owners serve */
    const char *tag;
    /* device memory */
    struct aorta_jagged_part *split;
    struct aorta_pool_slot *slots;
    struct aorta_columns_block *blocks;
    struct aorta_columns_piece *pieces;
    unsigned char *table;
    float *state, *gradient;
    int64_t rows, elements, table_bytes; /* of all tables here */
    struct aorta_row_cache cache;        /* sets 0: none */
    int64_t cached_batches;              /* batches whose rows were copied to the cache */
    struct exchange_flight *cached;      /* the last of them; NULL: none */
    struct aorta_event *filled;          /* with its rows; each batch waits for the previous one, on any stream */
    float *pooled, *received;            /* rows as looked up here; as they come from the owners */
    struct aorta_pool_slot *host_slots;
    int block_count;
    int64_t most_sent, most_ids;
    struct aorta_event *looked_up, *collected, *ready, *returned;
    struct exchange_flight flights[AORTA_SPARSE_SLOTS];
};

/* ---- exchange.c ---- */

/* Device memory for `count` values of `each` bytes: see aorta_own_memory. */
aorta_status exchange_take(struct aorta_sparse_exchange *x, size_t count, size_t each, const char *what, void *place);
/* Host memory for `count` values of `each` bytes; `place` is a pointer to a pointer of any type. */
aorta_status exchange_list(struct aorta_sparse_exchange *x, size_t count, size_t each, void *place);
struct aorta_stream *exchange_compute(const struct aorta_sparse_exchange *x);
bool exchange_coded(const struct aorta_sparse_exchange *x);          /* rows are stored in 8 bits */
bool exchange_in_host_memory(const struct aorta_sparse_exchange *x); /* tables are */

/* ---- exchange_tables.c ---- */

/* Memory of the tables on this rank, and the places of their rows. */
aorta_status exchange_take_tables(struct aorta_sparse_exchange *x);
aorta_status exchange_start_tables(struct aorta_sparse_exchange *x);
/* Features with the same table share one part. Returns the first of this rank's parts with the table of `part`. */
int exchange_owner_of_table(const struct aorta_sparse_exchange *x, int part);
/* Make the lists of which ids go to which part, and of which columns come from which owner. */
aorta_status exchange_make_split(struct aorta_sparse_exchange *x);
aorta_status exchange_make_blocks(struct aorta_sparse_exchange *x);

#endif
