/* Shared by the files of an exchange: exchange.c (memory, batches in flight, ids, lookups and updates),
 * exchange_tables.c (tables and the lists that kernels read). */
#ifndef AORTA_SPARSE_EXCHANGE_INTERNAL_H
#define AORTA_SPARSE_EXCHANGE_INTERNAL_H

#include "ops/ops.h"
#include "sparse/exchange.h"

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
    bool sorted; /* the ids are, or will be, before the step that updates with them; with a cache, its rows are there */
};

struct aorta_sparse_exchange {
    struct aorta_sparse_exchange_settings s;
    const struct aorta_sparse_group *group;
    struct aorta_sparse_plan plan;
    struct aorta_comm *comm, *id_comm; /* NULL: this rank owns all that it needs */
    int me, owners, parts;             /* this rank among the owners; its parts */
    const struct aorta_sparse_part *own;
    int64_t width, widest; /* columns that it serves; of the widest part */
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
    int64_t cached_batches;              /* whose rows were brought into it */
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

/* Device memory for `count` values of `each` bytes; *place is a pointer to it. The exchange's destroy frees it. */
aorta_status exchange_take(struct aorta_sparse_exchange *x, size_t count, size_t each, const char *what, void *place);
static inline aorta_status exchange_no_memory(void) {
    return AORTA_ERROR(AORTA_MEMORY, "the tables of an exchange did not fit in host memory");
}
struct aorta_stream *exchange_compute(const struct aorta_sparse_exchange *x);
bool exchange_coded(const struct aorta_sparse_exchange *x); /* rows are stored in 8 bits */
bool exchange_has_cache(const struct aorta_sparse_exchange *x);
bool exchange_in_host_memory(const struct aorta_sparse_exchange *x); /* tables are */

/* ---- exchange_tables.c ---- */

/* Memory of the tables on this rank, and the places of their rows. */
aorta_status exchange_take_tables(struct aorta_sparse_exchange *x);
aorta_status exchange_start_tables(struct aorta_sparse_exchange *x);
/* Features that share a table share its part: the first of them, of this rank's parts. */
int exchange_owner_of_table(const struct aorta_sparse_exchange *x, int part);
/* Which ids of a feature go to which part; which columns of samples come from which owner. */
aorta_status exchange_make_split(struct aorta_sparse_exchange *x);
aorta_status exchange_make_blocks(struct aorta_sparse_exchange *x);

#endif
