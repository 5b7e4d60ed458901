/* Every sharding, kernel, optimizer and pipeline of the sparse model gives the losses and gradient norms of a plain
 * version in double precision, to 1e-5. Runs as one rank or several: each compares its own losses. The
 * device is that of AORTA_TEST_DEVICE. */
#include "check.h"
#include "folder.h"
#include "reference.h"

#include "sparse/options.h"
#include "train/train.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

enum { STEPS = 7, TABLES = 8, MOST_CUTS = 16, MOST_RANKS = 8 };
static const double tolerance = 1e-5;

/* Tables of few rows, so that ranks and batches meet in them; one of two features, one of fewer rows than ranks. */
#define ADDITIONAL                                                                                                     \
    "EmbeddingTablesConfig.additional_tables=[[{name: a, embedding_dim: 24, num_embeddings: 50, feature_names: [f]}, " \
    "{name: b, embedding_dim: 6, num_embeddings: 31, feature_names: [g, h]}, "                                         \
    "{name: c, embedding_dim: 16, num_embeddings: 3, feature_names: [i]}], "                                           \
    "[{name: d, embedding_dim: 40, num_embeddings: 29, feature_names: [j]}, "                                          \
    "{name: e, embedding_dim: 5, num_embeddings: 64, feature_names: [k, l]}], "                                        \
    "[{name: m, embedding_dim: 8, num_embeddings: 17, feature_names: [n]}]]"

static const char *const common[] = {
    "RunOptions.reduce_on_cpu=false",
    "RunOptions.num_batches=3",
    "ModelSelectionConfig.batch_sizes=[9, 4, 7]",
    "ModelSelectionConfig.feature_pooling_avg=2",
    "ModelSelectionConfig.num_float_features=5",
    "ModelSelectionConfig.dense_arch_layer_sizes=[11, 12]",
    "ModelSelectionConfig.over_arch_layer_sizes=[10]",
    "EmbeddingTablesConfig.num_unweighted_features=0",
    "EmbeddingTablesConfig.num_weighted_features=0",
    ADDITIONAL,
    "training.max_steps=7",
    "logging.level=ERROR",
};
enum { COMMON = sizeof common / sizeof *common, OWN = 5, FEW = -1 };

struct example {
    int ranks; /* 0: any number; FEW: 1 or 2 */
    const char *words[OWN];
};

/* Most lists are empty, most ranks have no part of the one table of one row, one column. */
#define SMALLEST                                                                                                       \
    "EmbeddingTablesConfig.additional_tables=[[], [{name: a, embedding_dim: 1, num_embeddings: 1, feature_names: "     \
    "[f], weight_init_min: 0.25}]]",                                                                                   \
        "ModelSelectionConfig.batch_sizes=[1, 1, 2]", "ModelSelectionConfig.feature_pooling_avg=0"
#define SHARDING "RunOptions.sharding_type="
#define PIPELINE "PipelineConfig.pipeline="
#define CACHED "RunOptions.compute_kernel=fused_uvm_caching"
#define QUANTISED "RunOptions.compute_kernel=quant_uvm"
static const struct example examples[] = {
    {0, {SHARDING "table_wise"}},
    {FEW, {SHARDING "row_wise"}},
    {0, {SHARDING "column_wise"}},
    {FEW, {SHARDING "data_parallel"}},
    {FEW, {SHARDING "table_row_wise"}},
    {FEW, {SHARDING "table_column_wise"}},
    {4, {SHARDING "table_row_wise", "RunOptions.local_world_size=2"}},
    {4, {SHARDING "table_column_wise", "RunOptions.local_world_size=2"}},
    {FEW, {SHARDING "table_wise", PIPELINE "sparse"}},
    {0, {SHARDING "row_wise", PIPELINE "sparse"}},
    {FEW, {SHARDING "column_wise", PIPELINE "sparse"}},
    {0, {SHARDING "data_parallel", PIPELINE "sparse"}},
    {FEW, {SHARDING "table_wise", PIPELINE "fused"}},
    {FEW, {SHARDING "row_wise", PIPELINE "fused"}},
    {FEW, {SHARDING "data_parallel", PIPELINE "fused"}},
    {FEW, {SHARDING "table_wise", PIPELINE "semi"}},
    {0, {SHARDING "row_wise", PIPELINE "semi"}},
    {FEW, {SHARDING "column_wise", PIPELINE "semi", "RunOptions.compute_kernel=dense"}},
    {FEW, {SHARDING "data_parallel", PIPELINE "semi"}},
    {FEW, {SHARDING "table_wise", PIPELINE "prefetch"}},
    {FEW, {SHARDING "table_row_wise", PIPELINE "prefetch"}},
    {FEW, {SHARDING "row_wise", PIPELINE "sparse", "RunOptions.compute_kernel=dense"}},
    {FEW, {SHARDING "row_wise", PIPELINE "prefetch", "RunOptions.compute_kernel=fused_uvm"}},
    {0, {SHARDING "table_wise", PIPELINE "base", CACHED}},
    {FEW, {SHARDING "row_wise", PIPELINE "sparse", CACHED}},
    {FEW, {SHARDING "column_wise", PIPELINE "semi", CACHED}},
    {0, {SHARDING "table_row_wise", PIPELINE "prefetch", CACHED}},
    {FEW, {SHARDING "row_wise", PIPELINE "prefetch", CACHED, "RunOptions.cache_load_factor=1", "streams.count=1"}},
    {FEW, {SHARDING "table_wise", PIPELINE "base", QUANTISED}},
    {0, {SHARDING "table_row_wise", PIPELINE "prefetch", QUANTISED}},
    {FEW, {SHARDING "column_wise", PIPELINE "fused", QUANTISED, "RunOptions.sparse_optimizer=EXACT_SGD"}},
    {FEW, {SHARDING "row_wise", PIPELINE "sparse", "RunOptions.sparse_optimizer=EXACT_SGD"}},
    {FEW, {SHARDING "data_parallel", PIPELINE "sparse", "RunOptions.sparse_optimizer=EXACT_SGD"}},
    {0, {SHARDING "column_wise", PIPELINE "semi", SMALLEST}},
    {FEW, {SHARDING "row_wise", PIPELINE "prefetch", SMALLEST}},
    {FEW, {SHARDING "row_wise", PIPELINE "semi", "streams.count=1"}},
    {FEW, {SHARDING "table_wise", PIPELINE "prefetch", "streams.count=2", "training.seed=5"}},
};

struct lines {
    size_t count;
    double loss[STEPS], norm[STEPS];
};

static void read_lines(const char *folder, int rank, struct lines *lines) {
    char path[128], *text = NULL;
    size_t capacity = 0;
    snprintf(path, sizeof path, "%s/rank_%02d_metrics.jsonl", folder, rank);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    *lines = (struct lines){0};
    while (getline(&text, &capacity, file) > 0) {
        json_t *line = json_loads(text, 0, NULL);
        assert_non_null(line);
        assert_true(lines->count < STEPS);
        lines->loss[lines->count] = json_number_value(json_object_get(line, "loss"));
        lines->norm[lines->count++] = json_number_value(json_object_get(line, "grad_norm"));
        json_decref(line);
    }
    free(text);
    fclose(file);
}

/* Where the plan cuts the columns of each table. */
static void find_cuts(const struct aorta_sparse_options *o, const struct aorta_sparse_tables *tables, int ranks,
                      int local_ranks, int64_t cuts[TABLES][MOST_CUTS]) {
    const int local = o->run.local_world_size ? (int)o->run.local_world_size : local_ranks;
    for (int g = 0; g < AORTA_SPARSE_GROUPS; g++) {
        struct aorta_arena arena = {0};
        struct aorta_sparse_plan plan;
        check_ok(aorta_sparse_plan_make(&tables->groups[g], o->run.sharding, ranks, local, &arena, &plan));
        for (int t = 0; t < tables->groups[g].table_count; t++) {
            const struct aorta_sparse_table *table = &tables->groups[g].tables[t];
            int64_t *ends = cuts[table->number];
            for (int64_t column = 1, count = 0; column <= table->columns; column++) {
                bool ends_here = false;
                for (int p = 0; p < plan.part_count; p++)
                    ends_here = ends_here || (tables->groups[g].features[plan.parts[p].feature].table == t &&
                                              plan.parts[p].first_column + plan.parts[p].columns == column);
                if (ends_here) ends[count++] = column;
            }
        }
        aorta_arena_free(&arena);
    }
}

static void compare(const struct aorta_sparse_options *o, const struct aorta_ranks *ranks, const struct lines *lines,
                    const char *name) {
    int64_t cuts[TABLES][MOST_CUTS] = {{0}};
    const int64_t *rows[TABLES];
    struct aorta_sparse_tables tables;
    double losses[MOST_RANKS];
    check_ok(aorta_sparse_tables_make(o, &tables));
    find_cuts(o, &tables, ranks->world_size, ranks->local_world_size, cuts);
    for (int t = 0; t < TABLES; t++) rows[t] = cuts[t];
    struct reference *reference = reference_make(o, &tables, ranks->world_size, rows);
    assert_int_equal(lines->count, STEPS);
    for (int step = 0; step < STEPS; step++) {
        const double norm = reference_step(reference, step, losses), loss = losses[ranks->rank];
        if (fabs(lines->loss[step] - loss) > tolerance * loss || fabs(lines->norm[step] - norm) > tolerance * norm)
            fail_msg("%s, step %d: loss %.9g and norm %.9g, expected %.9g and %.9g", name, step, lines->loss[step],
                     lines->norm[step], loss, norm);
    }
    reference_free(reference);
    aorta_sparse_tables_free(&tables);
}

static void run_example(const struct aorta_ranks *ranks, const struct example *example, const char *folder) {
    const char *overrides[COMMON + OWN + 2], *kind = getenv("AORTA_TEST_DEVICE");
    char output[64], device[64], name[512] = "";
    size_t count = 0;
    for (; count < COMMON; count++) overrides[count] = common[count];
    for (int i = 0; i < OWN && example->words[i]; i++) {
        overrides[count++] = example->words[i];
        strcat(strcat(name, i ? " " : ""), example->words[i]);
    }
    snprintf(output, sizeof output, "training.output_dir=%s", folder);
    snprintf(device, sizeof device, "device.kind=%s", kind ? kind : "cpu");
    overrides[count++] = output;
    overrides[count++] = device;
    struct aorta_sparse_options options;
    struct aorta_train_workload *workload;
    check_ok(aorta_sparse_options_load(NULL, overrides, count, &options));
    check_ok(aorta_sparse_create(&options, ranks, &workload));
    const struct aorta_log log = {.level = AORTA_LOG_ERROR, .rank = ranks->rank};
    struct aorta_directory_lock *lock = NULL;
    const struct aorta_train_run run = {
        .options = &options.train, .workload = workload, .ranks = *ranks, .log = &log, .lock = &lock, .record = true};
    struct aorta_train_outcome outcome;
    struct lines lines;
    check_ok(aorta_train(&run, &outcome));
    read_lines(folder, ranks->rank, &lines);
    compare(&options, ranks, &lines, name);
    aorta_sparse_destroy(workload);
    aorta_sparse_options_free(&options);
}

static bool is_for(const struct example *example, int ranks) {
    return example->ranks == FEW ? ranks <= 2 : !example->ranks || example->ranks == ranks;
}

static void test_pipelines(void **state) {
    struct aorta_ranks ranks;
    char folder[FOLDER_PATH]; /* each rank has one: only its own lines are read */
    (void)state;
    check_ok(aorta_ranks_detect(&ranks));
    folder_make(folder, "sparse");
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
        if (is_for(&examples[i], ranks.world_size)) run_example(&ranks, &examples[i], folder);
    assert_int_equal(folder_remove(folder), 0);
    check_ok(aorta_comm_shutdown(&ranks, 60));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pipelines)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
