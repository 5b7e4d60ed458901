/* The sections of TorchRec's benchmark: accepted and refused values, and the page of the options. */
#include "check.h"
#include "folder.h"
#include "listed.h"

#include "base/files.h"
#include "sparse/tables.h"
#include "verdict/advice.h"

#include <limits.h>
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
        char path[PATH_MAX];
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
    assert_false(aorta_sparse_is_asked_for(CONFIGS "/../default.yaml", NULL, 0));
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
    static const char *const given[] = {"RunOptions.planner_type=hetero",   "ModelSelectionConfig.pin_memory=false",
                                        "RunOptions.cache_load_factor=0.5", "RunOptions.profile=/x",
                                        "training.output_dir=/y",           "profiling.active=3"};
    struct aorta_sparse_options options;
    struct aorta_text text = {0};
    (void)state;
    check_ok(aorta_sparse_options_load(NULL, given, 6, &options));
    aorta_sparse_options_without_effect(&options, false, &text);
    listed_lines(&text);
    assert_string_equal(text.data,
                        "RunOptions.cache_load_factor (RunOptions.compute_kernel has no cache)\n"
                        "RunOptions.profile_dir (training.output_dir or no RunOptions.profile_dir is given)\n"
                        "profiling.active (profiling.enabled is false)\n"
                        "RunOptions.planner_type (one planner serves: the largest part goes to the rank with "
                        "least)\n"
                        "ModelSelectionConfig.pin_memory (batches are in pinned memory)\n");
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
        {"training.inject_allreduce_copies=true", "training.inject_allreduce_copies: unknown key"},
        {"RunOptions.batches=2", "RunOptions.batches: unknown key; did you mean RunOptions.num_batches?"},
        {"fsdp.sharding_strategy=full_shard", "the sparse pipeline has RunOptions.sharding_type"},
        {"profiling.trace_filename=", "expected text"},
        {"RunOptions.sparse_lr=nan", "found nan; expected a number from 0"},
        {"ModelSelectionConfig.batch_size=524281", "expected an integer from 1 to 524280"},
        {"RunOptions.num_batches=1e3", "found 1e3; expected an integer from 1"},
        {"ModelSelectionConfig.feature_pooling_avg=-1", "found -1; expected an integer from 0 to 1000"},
        {"EmbeddingTablesConfig.additional_tables={}", "found a section; expected a list"},
    };
    struct aorta_sparse_options options;
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        check_fails(load(&options, wrong[i].override), AORTA_CONFIG, wrong[i].message);
    const char *const every[] = {"RunOptions.compute_kernel=quant_uvm", "RunOptions.sharding_type=data_parallel"};
    check_fails(aorta_sparse_options_load(NULL, every, 2, &options), AORTA_CONFIG, "data_parallel updates all rows");
    static const char *const names[] = {"RunOptions.name=a/b", "RunOptions.name=.", "RunOptions.name=..",
                                        "RunOptions.name=''"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *const both[] = {"RunOptions.profile_dir=/x", names[i]};
        check_fails(aorta_sparse_options_load(NULL, both, 2, &options), AORTA_CONFIG,
                    "the name of a folder is needed, without \"/\"");
    }
}

#define TABLE "name: a, embedding_dim: 4, num_embeddings: 9"

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
        {"[[{" TABLE ", feature_names: []}]]", "feature_names: expected a list of texts"},
        {"[[{" TABLE ", feature_names: [1]}]]", "feature_names: expected a list of texts"},
        {"[[{" TABLE ", feature_names: [f, g, f]}]]", "feature_names: one is given twice"},
        {"[[{" TABLE ", feature_names: [f], pooling: 3}]]", "pooling: only SUM is possible"},
        {"[[{" TABLE ", feature_names: [f], data_type: FP16}]]", "data_type: only FP32 is possible"},
        {"[[{" TABLE ", feature_names: [f], name: b}]]", "duplicate object key"},
        {"[[{" TABLE ", feature_names: [f]}, {" TABLE ", feature_names: [g]}]]",
         "list 0, table 1: name: another table has it"},
        {"[[{" TABLE ", feature_names: [f], weight_init_max: many}]]", "weight_init_max: expected two numbers"},
        {"[[{" TABLE ", feature_names: [f], weight_init_max: -1}]]", "weight_init_max: expected two numbers"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char override[256];
        struct aorta_sparse_options options;
        snprintf(override, sizeof override, "EmbeddingTablesConfig.additional_tables=%s", wrong[i].value);
        check_fails(load(&options, override), AORTA_CONFIG, wrong[i].message);
    }
    const char *const none[] = {"EmbeddingTablesConfig.num_unweighted_features=0",
                                "EmbeddingTablesConfig.num_weighted_features=0"};
    struct aorta_sparse_options options;
    check_fails(aorta_sparse_options_load(NULL, none, 2, &options), AORTA_CONFIG, "there are no features");
}

static void test_start_values(void **state) {
    static const char override[] =
        "EmbeddingTablesConfig.additional_tables=[[{" TABLE ", feature_names: [f]}, {name: b, embedding_dim: 4, "
        "num_embeddings: 9, feature_names: [f], weight_init_min: -2, weight_init_max: 0.5, data_type: FP32}], "
        "[{" TABLE ", feature_names: [f], pooling: SUM, weight_init_max: 1}]]";
    struct aorta_sparse_options options;
    struct aorta_sparse_tables tables;
    (void)state;
    check_ok(load(&options, override));
    check_ok(aorta_sparse_tables_make(&options, &tables));
    const struct aorta_sparse_table *plain = &tables.groups[0].tables[100], *weighted = &tables.groups[1].tables[100];
    assert_true(plain[0].low == -1.0f / 3 && plain[0].high == 1.0f / 3);
    assert_true(plain[1].low == -2 && plain[1].high == 0.5f);
    assert_true(weighted[0].low == -1.0f / 3 && weighted[0].high == 1);
    aorta_sparse_tables_free(&tables);
    aorta_sparse_options_free(&options);
}

/* However YAML or JSON is written. */
static void test_sections(void **state) {
    static const struct {
        const char *text;
        bool sparse;
    } files[] = {
        {"RunOptions:\r\n  num_batches: 2\r\n", true},
        {"{training: {seed: 1}, RunOptions: {num_batches: 2}}", true},
        {"{\"training\":{},\"ModelSelectionConfig\":{}}", true},
        {"--- {'PipelineConfig': }", true},
        {"\xef\xbb\xbfRunOptions:\n", true},
        {"training:\n  seed: 1\n&a EmbeddingTablesConfig : {}\n", true},
        {"# RunOptions: {}\ntraining: {seed: 1}", false},
        {"training:\n  RunOptions: 1\n", false},
        {"logging: {level: \"\nRunOptions: 3\"}", false},
        {"RunOptionsOfMine: {}", false},
        {"RunOptions: [", false},
        {"[RunOptions]", false},
        {"", false},
    };
    char folder[FOLDER_PATH], path[FOLDER_PATH + 16];
    (void)state;
    folder_make(folder, "sections");
    snprintf(path, sizeof path, "%s/file", folder);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        check_ok(aorta_file_replace(path, files[i].text, strlen(files[i].text)));
        if (aorta_sparse_is_asked_for(path, NULL, 0) != files[i].sparse) fail_msg("%s", files[i].text);
    }
    assert_int_equal(folder_remove(folder), 0);
}

/* Advice names keys that exist, and values that they take. */
static void test_advice(void **state) {
    size_t count, keys = 0;
    const struct aorta_advice_row *rows = aorta_advice_rows(&count);
    (void)state;
    for (size_t i = 0; i < count; i++) {
        struct aorta_sparse_options options;
        char override[128];
        if (rows[i].programs != AORTA_PROGRAM_SPARSE || !rows[i].key) continue;
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

static void test_page(void **state) {
    struct aorta_text text = {0};
    char *page;
    size_t length;
    (void)state;
    aorta_sparse_options_page(&text);
    check_ok(aorta_file_read(PAGE, &page, &length));
    if (strcmp(page, text.data) != 0)
        fail_msg(PAGE " is stale; make it again: build/release/aorta help sparse --markdown > " PAGE);
    free(page);
    aorta_text_free(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),   cmocka_unit_test(test_defaults),     cmocka_unit_test(test_without_effect),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_wrong_tables), cmocka_unit_test(test_advice),
        cmocka_unit_test(test_page),    cmocka_unit_test(test_start_values), cmocka_unit_test(test_sections)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
