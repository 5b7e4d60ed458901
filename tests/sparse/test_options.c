/* The sections of TorchRec's benchmark: what is accepted, what is refused, what is written on the page. */
#include "check.h"

#include "base/files.h"
#include "sparse/tables.h"
#include "verdict/advice.h"

#include <stdlib.h>

static aorta_status load(struct aorta_sparse_options *options, const char *override) {
    return aorta_sparse_options_load(NULL, &override, 1, options);
}

static void test_files(void **state) {
    static const struct {
        const char *name;
        int tables, features, weighted;
        int64_t columns;
    } files[] = {
        {"sparse_data_dist_base.yaml", 203, 203, 100, 203 * 128},
        {"sparse_data_dist_overlap_ineff.yaml", 244, 244, 82, 240 * 64 + 2 * 128 + 2 * 64},
        {"sparse_data_dist_overlap_latency.yaml", 132, 132, 66, 128 * 96 + 2 * 192 + 2 * 96},
        {"sparse_data_dist_queue_contended.yaml", 324, 324, 66, 320 * 128 + 2 * 512 + 2 * 256},
    };
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[512];
        struct aorta_sparse_options options;
        struct aorta_sparse_tables tables;
        snprintf(path, sizeof path, "%s/%s", CONFIGS, files[i].name);
        assert_true(aorta_sparse_is_asked_for(path, NULL, 0));
        check_ok(aorta_sparse_options_load(path, NULL, 0, &options));
        check_ok(aorta_sparse_tables_make(&options, &tables));
        assert_int_equal(tables.groups[0].table_count + tables.groups[1].table_count, files[i].tables);
        assert_int_equal(tables.groups[0].feature_count + tables.groups[1].feature_count, files[i].features);
        assert_int_equal(tables.groups[1].feature_count, files[i].weighted);
        assert_int_equal(tables.columns, files[i].columns);
        aorta_sparse_tables_free(&tables);
        aorta_sparse_options_free(&options);
    }
    char other[512];
    snprintf(other, sizeof other, "%s/../default.yaml", CONFIGS);
    assert_false(aorta_sparse_is_asked_for(other, NULL, 0));
    assert_false(aorta_sparse_is_asked_for("/nowhere.yaml", NULL, 0));
    assert_true(aorta_sparse_is_asked_for(NULL, &(const char *){"RunOptions.world_size=2"}, 1));
    assert_false(aorta_sparse_is_asked_for(NULL, &(const char *){"training.epochs=2"}, 1));
}

static void test_defaults(void **state) {
    struct aorta_sparse_options options;
    struct aorta_sparse_tables tables;
    (void)state;
    check_ok(load(&options, "EmbeddingTablesConfig.num_weighted_features=102"));
    assert_int_equal(aorta_sparse_batch_size(&options, 3), 8192);
    assert_string_equal(options.train.training.output_dir, "artifacts");
    check_ok(aorta_sparse_tables_make(&options, &tables));
    assert_int_equal(tables.groups[1].tables[3].rows, 100000); /* max(i + 1, 100) thousand */
    assert_int_equal(tables.groups[1].tables[101].rows, 102000);
    aorta_sparse_tables_free(&tables);
    aorta_sparse_options_free(&options);
    check_ok(load(&options, "RunOptions.profile_dir=/x"));
    assert_string_equal(options.train.training.output_dir, "/x/sparse");
    aorta_sparse_options_free(&options);
    const char *const both[] = {"RunOptions.profile=/x", "training.output_dir=/y"};
    check_ok(aorta_sparse_options_load(NULL, both, 2, &options));
    assert_string_equal(options.train.training.output_dir, "/y");
    aorta_sparse_options_free(&options);
}

static void test_without_effect(void **state) {
    static const char *const given[] = {"RunOptions.planner_type=hetero", "RunOptions.pooling_factors=[0.3, 0.4]",
                                        "ModelSelectionConfig.pin_memory=false"};
    struct aorta_sparse_options options;
    struct aorta_text text = {0};
    (void)state;
    check_ok(aorta_sparse_options_load(NULL, given, 3, &options));
    aorta_sparse_options_without_effect(&options, &text);
    assert_string_equal(text.data,
                        "RunOptions.planner_type, RunOptions.pooling_factors, ModelSelectionConfig.pin_memory");
    aorta_text_free(&text);
    aorta_sparse_options_free(&options);
}

static void test_refused(void **state) {
    static const struct {
        const char *override, *message;
    } wrong[] = {
        {"RunOptions.compute_kernel=quantum", "expected one of fused, dense, fused_uvm"},
        {"RunOptions.cache_load_factor=0", "RunOptions.cache_load_factor"},
        {"PipelineConfig.pipeline=fast", "expected one of base, sparse, fused, semi, prefetch"},
        {"RunOptions.sharding_type=grid", "expected one of table_wise, row_wise, column_wise"},
        {"ModelSelectionConfig.batch_sizes=[1, 2]", "2 sizes for 10 batches (RunOptions.num_batches)"},
        {"ModelSelectionConfig.dense_arch_layer_sizes=[]", "at least one width is needed"},
        {"RunOptions.batches=2", "RunOptions.batches: unknown key; did you mean RunOptions.num_batches?"},
        {"fsdp.sharding_strategy=full_shard", "the sparse pipeline has RunOptions.sharding_type"},
        {"profiling.trace_filename=", "expected text"},
        {"EmbeddingTablesConfig.additional_tables={}", "found a section; expected a list"},
    };
    struct aorta_sparse_options options;
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        check_fails(load(&options, wrong[i].override), AORTA_CONFIG, wrong[i].message);
    const char *const every[] = {"RunOptions.compute_kernel=quant_uvm", "RunOptions.sharding_type=data_parallel"};
    check_fails(aorta_sparse_options_load(NULL, every, 2, &options), AORTA_CONFIG, "data_parallel updates all rows");
    const char *const slash[] = {"RunOptions.profile_dir=/x", "RunOptions.name=a/b"};
    check_fails(aorta_sparse_options_load(NULL, slash, 2, &options), AORTA_CONFIG, "a name without \"/\" is needed");
}

static void test_wrong_tables(void **state) {
    static const struct {
        const char *value, *message;
    } wrong[] = {
        {"[1]", "item 0: expected a list of tables"},
        {"[[], [2]]", "list 1, table 0: expected name, embedding_dim"},
        {"[[{name: a}]]", "embedding_dim: expected an integer from 1 to 4096"},
        {"[[{name: a, embedding_dim: 5000, num_embeddings: 2}]]", "embedding_dim: expected an integer from 1 to 4096"},
        {"[[{name: a, embedding_dim: 5, num_embeddings: many}]]", "num_embeddings: expected an integer"},
        {"[[{name: a, embedding_dim: 5, num_embeddings: 2}]]", "feature_names: expected a list of texts"},
        {"[[{name: a, embedding_dim: 5, num_embeddings: 2, feature_names: [f], pooling: MEAN}]]", "only SUM"},
        {"[[{name: a, dim: 5}]]", "unknown key dim"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char override[256];
        struct aorta_sparse_options options;
        struct aorta_sparse_tables tables;
        snprintf(override, sizeof override, "EmbeddingTablesConfig.additional_tables=%s", wrong[i].value);
        check_ok(load(&options, override));
        check_fails(aorta_sparse_tables_make(&options, &tables), AORTA_CONFIG, wrong[i].message);
        aorta_sparse_options_free(&options);
    }
    const char *const none[] = {"EmbeddingTablesConfig.num_unweighted_features=0",
                                "EmbeddingTablesConfig.num_weighted_features=0"};
    struct aorta_sparse_options options;
    struct aorta_sparse_tables tables;
    check_ok(aorta_sparse_options_load(NULL, none, 2, &options));
    check_fails(aorta_sparse_tables_make(&options, &tables), AORTA_CONFIG, "there are no features");
    aorta_sparse_options_free(&options);
}

/* Advice names keys that exist, and values that they take. */
static void test_advice(void **state) {
    size_t count, keys = 0;
    const struct aorta_advice_row *rows = aorta_advice_rows(&count);
    (void)state;
    for (size_t i = 0; i < count; i++) {
        struct aorta_sparse_options options;
        char override[128];
        if (rows[i].program != AORTA_SPARSE || !rows[i].key) continue;
        check_ok(load(&options, "training.seed=1"));
        assert_non_null(aorta_config_origin(&options.train.config, rows[i].key));
        aorta_sparse_options_free(&options);
        keys++;
        if (rows[i].value == aorta_advice_larger || rows[i].value == aorta_advice_another) continue;
        snprintf(override, sizeof override, "%s=%s", rows[i].key, rows[i].value);
        check_ok(load(&options, override));
        aorta_sparse_options_free(&options);
    }
    assert_true(keys > 5);
}

/* The page's tables are those of the rows: test_options_sparse --page prints them. */
static void test_page(void **state) {
    struct aorta_text text = {0};
    char *page;
    size_t length;
    (void)state;
    aorta_options_markdown(&aorta_sparse_option_table, &text);
    check_ok(aorta_file_read_small(PAGE, 1 << 20, &page, &length));
    char *ended = strndup(page, length);
    assert_non_null(strstr(ended, text.data));
    free(ended);
    free(page);
    aorta_text_free(&text);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),   cmocka_unit_test(test_defaults),     cmocka_unit_test(test_without_effect),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_wrong_tables), cmocka_unit_test(test_advice),
        cmocka_unit_test(test_page)};
    if (argc == 2 && strcmp(argv[1], "--page") == 0) {
        struct aorta_text text = {0};
        aorta_options_markdown(&aorta_sparse_option_table, &text);
        printf("%s", text.data);
        aorta_text_free(&text);
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
