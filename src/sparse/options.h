/* The configuration of the sparse pipeline: the sections and keys of TorchRec's benchmark_train_pipeline, and the keys
 * of `aorta train` that have a meaning here. The rows are in options.c; docs/sparse-keys.md is made from them. */
#ifndef AORTA_SPARSE_OPTIONS_H
#define AORTA_SPARSE_OPTIONS_H

#include "train/options.h"
#include "train/train.h"

enum aorta_sparse_sharding {
    AORTA_TABLE_WISE,
    AORTA_ROW_WISE,
    AORTA_COLUMN_WISE,
    AORTA_TABLE_ROW_WISE,
    AORTA_TABLE_COLUMN_WISE,
    AORTA_DATA_PARALLEL
};
enum aorta_sparse_kernel {
    AORTA_KERNEL_DENSE,
    AORTA_KERNEL_FUSED,
    AORTA_KERNEL_FUSED_UVM,
    AORTA_KERNEL_FUSED_UVM_CACHING,
    AORTA_KERNEL_QUANT_UVM
};
enum aorta_sparse_optimizer { AORTA_SPARSE_ROWWISE_ADAGRAD, AORTA_SPARSE_SGD };
enum aorta_sparse_pipeline {
    AORTA_PIPELINE_BASE,
    AORTA_PIPELINE_SPARSE,
    AORTA_PIPELINE_FUSED,
    AORTA_PIPELINE_SEMI,
    AORTA_PIPELINE_PREFETCH
};

struct aorta_sparse_run {
    int64_t world_size; /* ranks that the file is made for */
    int64_t num_batches;
    enum aorta_sparse_sharding sharding;
    enum aorta_sparse_kernel kernel;
    enum aorta_sparse_optimizer optimizer;
    double dense_lr, sparse_lr, sparse_eps, cache_load_factor;
    const char *profile_dir, *name;
    int64_t local_world_size; /* ranks of a host; 0: as the launcher reports */
    bool reduce_on_cpu;
    int dense_optimizer, input_type; /* one choice each */
};

struct aorta_sparse_model {
    int model_name; /* one choice */
    int64_t batch_size;
    struct aorta_int_list batch_sizes; /* by batch; items NULL: batch_size */
    int64_t num_float_features, feature_pooling_avg;
    struct aorta_int_list dense_layers, over_layers; /* widths */
};

struct aorta_sparse_tables_options {
    int64_t unweighted, weighted, dim;
    const char *additional;          /* JSON: a list of lists of tables; NULL: none */
    int64_t most_rows, most_columns; /* of any table, where sizes are reduced; 0: no limit */
};

struct aorta_sparse_options {
    struct aorta_train_options train; /* first: its rows' offsets stay as they are; owns the strings */
    struct aorta_sparse_run run;
    enum aorta_sparse_pipeline pipeline;
    struct aorta_sparse_model model;
    struct aorta_sparse_tables_options tables;
    struct aorta_option_table table;
    char *output_dir; /* made of profile_dir and name; NULL: training.output_dir was given */
};

/* The rows of the four sections alone, for the page. */
extern const struct aorta_option_table aorta_sparse_option_table;

/* The page docs/sparse-keys.md, made from the rows. */
void aorta_sparse_options_page(struct aorta_text *text);

/* Whether the file, or an override, has one of the four sections. A file that cannot be read has none: its later
 * loading reports the error. */
bool aorta_sparse_is_asked_for(const char *path, const char *const *overrides, size_t override_count);

/* As aorta_train_options_load. */
AORTA_MUST_USE aorta_status aorta_sparse_options_load(const char *path, const char *const *overrides,
                                                      size_t override_count, struct aorta_sparse_options *options);
/* As aorta_sparse_options_load, but checks only each value against its key, not the values against each other. */
AORTA_MUST_USE aorta_status aorta_sparse_options_read(const char *path, const char *const *overrides,
                                                      size_t override_count, struct aorta_sparse_options *options);
void aorta_sparse_options_free(struct aorta_sparse_options *options);

/* As aorta_train_options_without_effect. */
void aorta_sparse_options_without_effect(const struct aorta_sparse_options *options, bool gpu,
                                         struct aorta_text *lines);

/* Whether the kernel keeps some rows on the device, and all in host memory. */
bool aorta_sparse_has_cache(const struct aorta_sparse_options *options);

/* Samples of batch `number` on each rank. */
int64_t aorta_sparse_batch_size(const struct aorta_sparse_options *options, int64_t number);

/* ---- the workload ---- */

/* For aorta_train_run.workload, with &options->train as its options. Sizes of *options are reduced on a CPU.
 * aorta_train closes what it opens; aorta_sparse_destroy frees the workload. */
AORTA_MUST_USE aorta_status aorta_sparse_create(struct aorta_sparse_options *options, const struct aorta_ranks *ranks,
                                                struct aorta_train_workload **workload);
void aorta_sparse_destroy(struct aorta_train_workload *workload); /* NULL is fine */

#endif
