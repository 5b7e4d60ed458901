/* Embedding tables and features of a run, and how their parts are divided among ranks. */
#ifndef AORTA_SPARSE_TABLES_H
#define AORTA_SPARSE_TABLES_H

#include "base/random.h"
#include "base/signals.h"
#include "sparse/options.h"

struct aorta_sparse_table {
    const char *name;
    int64_t rows, columns;
    int number;      /* among all tables: its start values depend on it */
    float low, high; /* start values are uniform in [low, high) */
};

/* A list of ids for each sample, looked up in one table; features can share one. */
struct aorta_sparse_feature {
    int table;      /* in its group */
    int number;     /* among all features: its ids depend on it */
    int64_t column; /* of its pooled columns in a row of all features */
};

/* Features with weights, and those without: each kind is exchanged on its own. */
struct aorta_sparse_group {
    bool weighted;
    struct aorta_sparse_table *tables;
    struct aorta_sparse_feature *features;
    int table_count, feature_count;
};

enum { AORTA_SPARSE_GROUPS = 2 };
struct aorta_sparse_tables {
    struct aorta_sparse_group groups[AORTA_SPARSE_GROUPS]; /* unweighted, weighted; empty ones have no features */
    int64_t columns;                                       /* of all pooled features */
    struct aorta_arena arena;
};

/* AORTA_CONFIG names the problem in additional_tables, or that there are no features. */
AORTA_MUST_USE aorta_status aorta_sparse_tables_make(const struct aorta_sparse_options *options,
                                                     struct aorta_sparse_tables *tables);
void aorta_sparse_tables_free(struct aorta_sparse_tables *tables);

/* ---- the plan ---- */

/* One rank's part of one feature. */
struct aorta_sparse_part {
    int feature, owner;
    int64_t first_row, rows, first_column, columns;
};

/* Parts of a group by owner, features of an owner in order; in an arena. */
struct aorta_sparse_plan {
    struct aorta_sparse_part *parts;
    int part_count, owners;
    int *first;      /* [owners + 1]: parts of each owner */
    int64_t *widths; /* [owners]: columns that it serves */
};

/* The largest table goes to the rank (or host) with the least load. Rows and columns are split into equal parts,
 * columns at multiples of 4 if there are enough. With data_parallel each rank owns everything and is the only owner,
 * number 0. */
AORTA_MUST_USE aorta_status aorta_sparse_plan_make(const struct aorta_sparse_group *group,
                                                   enum aorta_sparse_sharding sharding, int ranks, int local_ranks,
                                                   struct aorta_arena *arena, struct aorta_sparse_plan *plan);

/* ---- batches ----
 * Synthetic batches: dense features N(0, 1), labels in [0, 1), lists of |N(average, 1)| ids each (rounded down), ids
 * uniform over their table, weights in [0, 1). A batch depends on (training.seed, its number, the rank) alone.
 *
 * All are made before the first step, in pinned memory, each in one piece that is copied to the device as it is. */

/* The parts of a batch in its memory. */
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
/* The layout of batch `number` of a rank. AORTA_MEMORY, AORTA_INTERRUPTED. */
AORTA_MUST_USE aorta_status aorta_sparse_batch_layout(const struct aorta_sparse_maker *maker, int64_t number, int rank,
                                                      struct aorta_sparse_layout *layout);
/* AORTA_INTERRUPTED. */
AORTA_MUST_USE aorta_status aorta_sparse_batch_fill(const struct aorta_sparse_maker *maker, int64_t number, int rank,
                                                    const struct aorta_sparse_layout *layout, void *memory);

#endif
