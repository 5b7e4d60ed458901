/* Embedding tables and features of a run, and how their parts are divided among ranks. */
#ifndef AORTA_SPARSE_TABLES_H
#define AORTA_SPARSE_TABLES_H

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

/* AORTA_CONFIG names what is wrong in additional_tables, or that there are no features. */
AORTA_MUST_USE aorta_status aorta_sparse_tables_make(const struct aorta_sparse_options *options,
                                                     struct aorta_sparse_tables *tables);
void aorta_sparse_tables_free(struct aorta_sparse_tables *tables);

/* ---- the plan ---- */

/* What one rank serves of one feature. */
struct aorta_sparse_part {
    int feature, owner;
    int64_t first_row, rows, first_column, columns;
};

/* Parts of a group by owner, features of an owner in order. */
struct aorta_sparse_plan {
    struct aorta_sparse_part *parts;
    int part_count, owners;
    int *first;      /* [owners + 1]: parts of each owner */
    int64_t *widths; /* [owners]: columns that it serves */
};

/* The largest table goes to the rank (or host) that has least; rows and columns are cut into equal parts, columns at
 * multiples of 4 where there are enough. data_parallel: `rank` owns everything and is the only owner, 0. */
AORTA_MUST_USE aorta_status aorta_sparse_plan_make(const struct aorta_sparse_group *group,
                                                   enum aorta_sparse_sharding sharding, int ranks, int local_ranks,
                                                   struct aorta_sparse_plan *plan);
void aorta_sparse_plan_free(struct aorta_sparse_plan *plan);

#endif
