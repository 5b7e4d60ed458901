#include "sparse/options.h"

#include "base/files.h"
#include "sparse/tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- limits and choices ---- */

static const struct aorta_range_limits counts_or_none = {.min = 0, .max = 1e5};
static const struct aorta_range_limits batches = {.min = 1, .max = 1e6};
/* columns_gather: 65535 blocks of AORTA_GATHER_ROWS. */
static const struct aorta_range_limits samples = {.min = 1, .max = 65535 * 8};
static const struct aorta_range_limits columns = {.min = 1, .max = 4096};
static const struct aorta_range_limits pooling = {.min = 0, .max = 1000};
static const struct aorta_range_limits at_least_0 = {.min = 0, .max = 1e9};
static const struct aorta_range_limits above_0 = {.min = 0, .max = 1, .above_min = true};
static const struct aorta_range_limits ranks = {.min = 1, .max = 1024};

static const struct aorta_choice shardings[] = {{"table_wise", AORTA_TABLE_WISE},
                                                {"row_wise", AORTA_ROW_WISE},
                                                {"column_wise", AORTA_COLUMN_WISE},
                                                {"table_row_wise", AORTA_TABLE_ROW_WISE},
                                                {"table_column_wise", AORTA_TABLE_COLUMN_WISE},
                                                {"data_parallel", AORTA_DATA_PARALLEL},
                                                {0}};
static const struct aorta_choice kernels[] = {
    {"fused", AORTA_KERNEL_FUSED},         {"dense", AORTA_KERNEL_DENSE},
    {"fused_uvm", AORTA_KERNEL_FUSED_UVM}, {"fused_uvm_caching", AORTA_KERNEL_FUSED_UVM_CACHING},
    {"quant_uvm", AORTA_KERNEL_QUANT_UVM}, {0}};
static const struct aorta_choice optimizers[] = {
    {"EXACT_ROWWISE_ADAGRAD", AORTA_SPARSE_ROWWISE_ADAGRAD}, {"EXACT_SGD", AORTA_SPARSE_SGD}, {0}};
static const struct aorta_choice pipelines[] = {
    {"base", AORTA_PIPELINE_BASE}, {"sparse", AORTA_PIPELINE_SPARSE},     {"fused", AORTA_PIPELINE_FUSED},
    {"semi", AORTA_PIPELINE_SEMI}, {"prefetch", AORTA_PIPELINE_PREFETCH}, {0}};
static const struct aorta_choice dense_optimizers[] = {{"SGD", 0}, {0}};
static const struct aorta_choice input_types[] = {{"kjt", 0}, {0}};
static const struct aorta_choice models[] = {{"test_sparse_nn", 0}, {0}};

/* ---- rows ---- */

#define AT(member) offsetof(struct aorta_sparse_options, member)

static const struct aorta_option own_rows[] = {
    {"RunOptions.world_size", AORTA_OPTION_INT, AT(run.world_size), "2", .limits = &ranks,
     .help = "ranks that the file is made for; the launcher sets their number, and a difference is reported"},
    {"RunOptions.num_batches", AORTA_OPTION_INT, AT(run.num_batches), "10", .limits = &batches,
     .help = "batches that are made before the first step; there are as many steps, unless training.max_steps says "
             "otherwise: then the batches come again"},
    {"RunOptions.sharding_type", AORTA_OPTION_CHOICE, AT(run.sharding), "table_wise", .choices = shardings,
     .help = "how tables are divided among ranks: whole tables, rows, columns, rows or columns among the ranks of one "
             "host, or every table on every rank"},
    {"RunOptions.compute_kernel", AORTA_OPTION_CHOICE, AT(run.kernel), "fused", .choices = kernels,
     .help = "fused: the optimizer updates rows as their gradients are summed; dense: gradients of whole tables are "
             "made first, and all rows updated from these; fused_uvm: as fused, with tables in pinned host memory; "
             "fused_uvm_caching: and some rows cached on the device; quant_uvm: the same with 8 bits a column"},
    {"RunOptions.cache_load_factor", AORTA_OPTION_DOUBLE, AT(run.cache_load_factor), "0.2", .limits = &above_0,
     .help = "share of the rows that fused_uvm_caching and quant_uvm have places for on the device"},
    {"RunOptions.sparse_optimizer", AORTA_OPTION_CHOICE, AT(run.optimizer), "EXACT_ROWWISE_ADAGRAD",
     .choices = optimizers, .help = "optimizer of the tables; a column shard has a sum of squares of its own"},
    {"RunOptions.sparse_lr", AORTA_OPTION_DOUBLE, AT(run.sparse_lr), "0.1", .limits = &at_least_0,
     .help = "its learning rate"},
    {"RunOptions.sparse_eps", AORTA_OPTION_DOUBLE, AT(run.sparse_eps), "1e-8", .limits = &above_0,
     .help = "added to the root of the sum of squares"},
    {"RunOptions.dense_optimizer", AORTA_OPTION_CHOICE, AT(run.dense_optimizer), "SGD", .choices = dense_optimizers,
     .help = "optimizer of the dense layers"},
    {"RunOptions.dense_lr", AORTA_OPTION_DOUBLE, AT(run.dense_lr), "0.1", .limits = &at_least_0,
     .help = "its learning rate"},
    {"RunOptions.profile_dir", AORTA_OPTION_STRING, AT(run.profile_dir), "null",
     .help = "results go into the folder RunOptions.name below it, unless training.output_dir is given; null: into "
             "training.output_dir"},
    {"RunOptions.name", AORTA_OPTION_STRING, AT(run.name), "sparse", .help = "see RunOptions.profile_dir"},
    {"RunOptions.input_type", AORTA_OPTION_CHOICE, AT(run.input_type), "kjt", .choices = input_types,
     .help = "lists of ids are jagged tensors by feature"},
    {"RunOptions.local_world_size", AORTA_OPTION_INT, AT(run.local_world_size), "null", .limits = &ranks,
     .help = "ranks of a host, for table_row_wise and table_column_wise; null: as the launcher says"},
    {"RunOptions.reduce_on_cpu", AORTA_OPTION_BOOL, AT(run.reduce_on_cpu), "true",
     .help = "on a CPU at most 8 made features of each kind, 64 samples, 1000 rows, 64 columns and layers of 64, and "
             "the run says so; false: the sizes of the file"},

    {"PipelineConfig.pipeline", AORTA_OPTION_CHOICE, AT(pipeline), "base", .choices = pipelines,
     .help = "which work runs concurrently; losses are the same"},

    {"ModelSelectionConfig.model_name", AORTA_OPTION_CHOICE, AT(model.model_name), "test_sparse_nn", .choices = models,
     .help = "the one model"},
    {"ModelSelectionConfig.batch_size", AORTA_OPTION_INT, AT(model.batch_size), "8192", .limits = &samples,
     .help = "samples of a batch on one rank"},
    {"ModelSelectionConfig.batch_sizes", AORTA_OPTION_INT_LIST, AT(model.batch_sizes), "null", .limits = &samples,
     .help = "samples of each of the batches, as many as RunOptions.num_batches"},
    {"ModelSelectionConfig.num_float_features", AORTA_OPTION_INT, AT(model.num_float_features), "10",
     .limits = &columns, .help = "dense features"},
    {"ModelSelectionConfig.feature_pooling_avg", AORTA_OPTION_INT, AT(model.feature_pooling_avg), "10",
     .limits = &pooling, .help = "ids of a list: the whole part of |N(this, 1)|"},
    {"ModelSelectionConfig.dense_arch_layer_sizes", AORTA_OPTION_INT_LIST, AT(model.dense_layers), "[512, 1024]",
     .limits = &columns, .help = "widths of the layers on the dense features"},
    {"ModelSelectionConfig.over_arch_layer_sizes", AORTA_OPTION_INT_LIST, AT(model.over_layers), "[1024, 512]",
     .limits = &columns, .help = "widths of the layers after the interaction; one of width 1 follows them"},

    {"EmbeddingTablesConfig.num_unweighted_features", AORTA_OPTION_INT, AT(tables.unweighted), "100",
     .limits = &counts_or_none, .help = "tables of one feature without weights, of max(i + 1, 100) * 1000 rows"},
    {"EmbeddingTablesConfig.num_weighted_features", AORTA_OPTION_INT, AT(tables.weighted), "100",
     .limits = &counts_or_none, .help = "the same with a weight for each id"},
    {"EmbeddingTablesConfig.embedding_feature_dim", AORTA_OPTION_INT, AT(tables.dim), "128", .limits = &columns,
     .help = "columns of these tables"},
    {"EmbeddingTablesConfig.additional_tables", AORTA_OPTION_TREE, AT(tables.additional), "[]",
     .help = "lists of further tables (name, embedding_dim, num_embeddings, feature_names; weight_init_min and "
             "weight_init_max bound the start values, ±1/√rows unless given): only the second list is weighted"},
};

static const struct aorta_option_absent own_ignored[] = {
    {"RunOptions.export_stacks", "there are no Python stacks"},
    {"RunOptions.planner_type", "one planner serves: the largest part goes to the rank with least"},
    {"RunOptions.pooling_factors", "see RunOptions.planner_type"},
    {"RunOptions.num_poolings", "see RunOptions.planner_type"},
    {"RunOptions.num_benchmarks", "training.max_steps sets it"},
    {"RunOptions.num_profiles", "profiling.* sets it"},
    {"RunOptions.debug_mode", "there is no Python debugger"},
    {"PipelineConfig.emb_lookup_stream", "the pipeline sets it"},
    {"PipelineConfig.apply_jit", "there is no Python to compile"},
    {"ModelSelectionConfig.use_offsets", "lengths are sent, offsets made where they are needed"},
    {"ModelSelectionConfig.dev_str", "device.kind sets it"},
    {"ModelSelectionConfig.long_kjt_indices", "ids have 64 bits"},
    {"ModelSelectionConfig.long_kjt_offsets", "offsets have 64 bits"},
    {"ModelSelectionConfig.long_kjt_lengths", "lengths have 32 bits"},
    {"ModelSelectionConfig.pin_memory", "batches are in pinned memory"},
};

/* Sections of the ranking transformer. */
static const struct aorta_option_absent own_absent[] = {
    {"dataset", "the sparse pipeline has ModelSelectionConfig and EmbeddingTablesConfig"},
    {"model", "the sparse pipeline has ModelSelectionConfig"},
    {"optimizer", "the sparse pipeline has RunOptions.dense_optimizer and sparse_optimizer"},
    {"scheduler", "the sparse pipeline has constant learning rates, RunOptions.dense_lr and sparse_lr"},
    {"fsdp", "the sparse pipeline has RunOptions.sharding_type"},
    {"dataloader", "the sparse pipeline makes its batches before the first step"},
    {"compile", "steps of the sparse pipeline are not captured: sizes differ from batch to batch"},
    {"workload", "not part of the sparse pipeline"},
};

static const struct aorta_option_alias own_aliases[] = {{"RunOptions.profile", "RunOptions.profile_dir"},
                                                        {"distributed.timeout", "distributed.timeout_s"}};

enum { OWN_ROWS = sizeof own_rows / sizeof *own_rows };

const struct aorta_option_table aorta_sparse_option_table = {.rows = own_rows, .count = OWN_ROWS};

static const char page_head[] =
    "# Keys of the sparse pipeline\n\n"
    "`aorta help sparse --markdown` makes this page, docs/sparse-keys.md, from the program's table of options.\n\n"
    "`aorta train` reads these keys of TorchRec's benchmark for [the sparse pipeline](sparse.md). The keys "
    "`logging.*`,\n"
    "`profiling.*`, `device.*`, `training.max_steps`, `log_interval`, `output_dir`, `seed`, `inject`,\n"
    "`distributed.backend`, `timeout_s`, `streams.count` and `streams.priorities.*` are those of the\n"
    "[ranking transformer](configuration.md). Keys of TorchRec without a meaning here are named when a run begins.\n";

void aorta_sparse_options_page(struct aorta_text *text) {
    aorta_text_puts(text, page_head);
    aorta_options_markdown(&aorta_sparse_option_table, text);
}

/* ---- the rows of `aorta train` that have a meaning here ---- */

static bool is_shared(const char *key) {
    static const char *const shared[] = {
        "logging.",      "training.max_steps", "training.log_interval", "training.output_dir",
        "training.seed", "training.inject",    "distributed.backend",   "distributed.timeout_s",
        "profiling.",    "streams.count",      "streams.priorities.",   "device."};
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
        const size_t length = strlen(shared[i]);
        const bool section = shared[i][length - 1] == '.';
        if (strncmp(key, shared[i], section ? length : length + 1) == 0) return true;
    }
    return false;
}

static aorta_status make_table(struct aorta_sparse_options *options) {
    const struct aorta_option_table *train = &aorta_train_option_table;
    struct aorta_option *rows = calloc(train->count + OWN_ROWS, sizeof *rows);
    if (!rows) return AORTA_ERROR(AORTA_MEMORY, "the table of options did not fit in memory");
    memcpy(rows, own_rows, sizeof own_rows);
    size_t count = OWN_ROWS;
    for (size_t i = 0; i < train->count; i++)
        if (is_shared(train->rows[i].key)) rows[count++] = train->rows[i];
    options->table = (struct aorta_option_table){
        .rows = rows,
        .count = count,
        .absent = own_absent,
        .absent_count = sizeof own_absent / sizeof *own_absent,
        .ignored = own_ignored,
        .ignored_count = sizeof own_ignored / sizeof *own_ignored,
        .aliases = own_aliases,
        .alias_count = sizeof own_aliases / sizeof *own_aliases,
    };
    return NULL;
}

/* Options that shared parts of the trainer read and no key here sets. */
static aorta_status set_internal_options(struct aorta_sparse_options *options) {
    const struct aorta_option_table *train = &aorta_train_option_table;
    for (size_t i = 0; i < train->count; i++)
        if (!is_shared(train->rows[i].key))
            AORTA_TRY(aorta_option_store_default(&train->rows[i], &options->train, &options->train.config.arena));
    options->train.training.mixed_precision = AORTA_PRECISION_NONE;
    options->train.optimizer.lr = options->run.dense_lr;
    return NULL;
}

/* ---- which model a file asks for ---- */

static const char *const sections[] = {"RunOptions", "PipelineConfig", "ModelSelectionConfig", "EmbeddingTablesConfig"};
enum { SECTIONS = sizeof sections / sizeof *sections };

bool aorta_sparse_is_asked_for(const char *path, const char *const *overrides, size_t override_count) {
    for (int s = 0; s < SECTIONS; s++) {
        for (size_t i = 0; i < override_count; i++)
            if (strncmp(overrides[i], sections[s], strlen(sections[s])) == 0) return true;
        if (path && aorta_config_has_section(path, sections[s])) return true;
    }
    return false;
}

/* ---- loading ---- */

bool aorta_sparse_has_cache(const struct aorta_sparse_options *options) {
    const enum aorta_sparse_kernel kernel = options->run.kernel;
    return kernel == AORTA_KERNEL_FUSED_UVM_CACHING || kernel == AORTA_KERNEL_QUANT_UVM;
}

/* A cache contains only the rows of a batch, but data_parallel updates whole tables from summed gradients. */
static aorta_status check_cache(const struct aorta_sparse_options *options) {
    if (!aorta_sparse_has_cache(options) || options->run.sharding != AORTA_DATA_PARALLEL) return NULL;
    return aorta_config_error(&options->train.config, "RunOptions.compute_kernel",
                              "data_parallel updates all rows, and a cache has some; use fused, dense or fused_uvm, or "
                              "another RunOptions.sharding_type");
}

static aorta_status check_lists(const struct aorta_sparse_options *options) {
    const struct aorta_sparse_model *model = &options->model;
    const struct aorta_config *config = &options->train.config;
    if (model->batch_sizes.items && (int64_t)model->batch_sizes.count != options->run.num_batches)
        return aorta_config_error(config, "ModelSelectionConfig.batch_sizes",
                                  "%zu sizes for %lld batches (RunOptions.num_batches); give one for each",
                                  model->batch_sizes.count, (long long)options->run.num_batches);
    if (!model->dense_layers.count)
        return aorta_config_error(config, "ModelSelectionConfig.dense_arch_layer_sizes",
                                  "at least one width is needed");
    return NULL;
}

static aorta_status check_tables(const struct aorta_sparse_options *options) {
    struct aorta_sparse_tables tables;
    AORTA_TRY(aorta_sparse_tables_make(options, &tables));
    aorta_sparse_tables_free(&tables);
    return NULL;
}

static aorta_status check(const struct aorta_sparse_options *options) {
    AORTA_TRY(aorta_train_options_check_shared(&options->train));
    AORTA_TRY(check_lists(options));
    AORTA_TRY(check_tables(options));
    return check_cache(options);
}

/* An explicit training.output_dir takes precedence. */
static aorta_status choose_output(struct aorta_sparse_options *options) {
    const bool given = aorta_config_origin(&options->train.config, "training.output_dir")->kind != AORTA_FROM_DEFAULT;
    if (given || !options->run.profile_dir) return NULL;
    const char *name = options->run.name;
    if (!*name || strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return aorta_config_error(&options->train.config, "RunOptions.name",
                                  "the name of a folder is needed, without \"/\"");
    options->output_dir = strdup(aorta_path_in(options->run.profile_dir, "%s", options->run.name).text);
    if (!options->output_dir) return AORTA_ERROR(AORTA_MEMORY, "a file name did not fit in memory");
    options->train.training.output_dir = options->output_dir;
    return NULL;
}

aorta_status aorta_sparse_options_read(const char *path, const char *const *overrides, size_t override_count,
                                       struct aorta_sparse_options *options) {
    *options = (struct aorta_sparse_options){0};
    AORTA_TRY(make_table(options));
    aorta_status status =
        aorta_config_load(&options->table, path, overrides, override_count, options, &options->train.config);
    if (!status) status = set_internal_options(options);
    if (status) aorta_sparse_options_free(options);
    return status;
}

aorta_status aorta_sparse_options_load(const char *path, const char *const *overrides, size_t override_count,
                                       struct aorta_sparse_options *options) {
    AORTA_TRY(aorta_sparse_options_read(path, overrides, override_count, options));
    aorta_status status = check(options);
    if (!status) status = choose_output(options);
    if (status) aorta_sparse_options_free(options);
    return status;
}

void aorta_sparse_options_free(struct aorta_sparse_options *options) {
    aorta_config_free(&options->train.config);
    free((void *)options->table.rows);
    free(options->output_dir);
    *options = (struct aorta_sparse_options){0};
}

/* ---- keys without effect ---- */

void aorta_sparse_options_without_effect(const struct aorta_sparse_options *options, bool gpu,
                                         struct aorta_text *lines) {
    const enum aorta_sparse_sharding sharding = options->run.sharding;
    const bool by_host = sharding == AORTA_TABLE_ROW_WISE || sharding == AORTA_TABLE_COLUMN_WISE;
    const struct aorta_option_reason reasons[] = {
        {!aorta_sparse_has_cache(options), "RunOptions.compute_kernel has no cache", {"RunOptions.cache_load_factor"}},
        {options->run.optimizer == AORTA_SPARSE_SGD,
         "RunOptions.sparse_optimizer=EXACT_SGD has none",
         {"RunOptions.sparse_eps"}},
        {!options->output_dir,
         "training.output_dir or no RunOptions.profile_dir is given",
         {"RunOptions.profile_dir", "RunOptions.name"}},
        {!by_host, "RunOptions.sharding_type does not divide by host", {"RunOptions.local_world_size"}},
        {options->model.batch_sizes.items,
         "ModelSelectionConfig.batch_sizes decides",
         {"ModelSelectionConfig.batch_size"}},
        {!options->tables.unweighted && !options->tables.weighted,
         "all tables are additional ones",
         {"EmbeddingTablesConfig.embedding_feature_dim"}},
        {gpu, "the device is a GPU", {"RunOptions.reduce_on_cpu"}},
    };
    aorta_config_without_effect(&options->train.config, reasons, sizeof reasons / sizeof *reasons, lines);
    aorta_train_options_without_effect(&options->train, (int)options->run.world_size, gpu, lines);
}

int64_t aorta_sparse_batch_size(const struct aorta_sparse_options *options, int64_t number) {
    const struct aorta_int_list *sizes = &options->model.batch_sizes;
    return sizes->items ? sizes->items[number % (int64_t)sizes->count] : options->model.batch_size;
}
