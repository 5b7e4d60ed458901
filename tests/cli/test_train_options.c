#include "base/files.h"
#include "check.h"
#include "listed.h"
#include "train/options.h"

#include <stdlib.h>
#include <unistd.h>

/* ---- the rows ---- */

static void test_defaults_are_those_of_the_specification(void **state) {
    (void)state;
    struct aorta_train_options options;
    check_ok(aorta_train_options_load(NULL, NULL, 0, &options));
    assert_int_equal(options.logging.level, AORTA_LOG_INFO);
    assert_int_equal(options.training.batch_size, 8);
    assert_int_equal(options.training.max_steps, 0);
    assert_true(options.training.grad_clip_norm == 1.0);
    assert_int_equal(options.training.mixed_precision, AORTA_PRECISION_BF16);
    assert_string_equal(options.training.output_dir, "artifacts");
    assert_null(options.training.dump_dir);
    assert_null(options.training.dump_steps.items);
    assert_true(options.optimizer.lr == 2e-4 && options.optimizer.eps == 1e-8);
    assert_true(options.optimizer.betas[0] == 0.9 && options.optimizer.betas[1] == 0.98);
    assert_int_equal(options.scheduler.total_steps, 2000);
    assert_int_equal(options.dataset.seed, 13);
    assert_int_equal(options.model.mlp_hidden_dim, 1024);
    assert_int_equal(options.fsdp.sharding_strategy, AORTA_FULL_SHARD);
    assert_int_equal(options.fsdp.backward_prefetch, AORTA_BACKWARD_PRE);
    assert_int_equal(options.fsdp.hybrid_shard_gpus_per_node, 0);
    assert_string_equal(options.distributed.backend, "auto");
    assert_true(options.distributed.bucket_cap_mb == 25 && options.distributed.timeout_s == 180);
    assert_null(options.compile.mode);
    assert_int_equal(options.dataloader.num_workers, 4);
    assert_int_equal(options.streams.count, 4);
    assert_int_equal(options.streams.priorities[AORTA_ROLE_COMPUTE], AORTA_PRIORITY_NORMAL);
    assert_int_equal(options.streams.priorities[AORTA_ROLE_AUX], AORTA_PRIORITY_HIGH);
    assert_int_equal(options.streams.assignment[AORTA_FLOW_REDUCE_SCATTER], AORTA_ROLE_REDUCESCATTER);
    assert_int_equal(options.device.index, -1);
    aorta_train_options_free(&options);
}

/* Setting a key to its own default must leave everything as it is: each default reads as a value of its row. */
static void test_every_default_can_be_written(void **state) {
    (void)state;
    struct aorta_text before = {0}, after = {0};
    struct aorta_train_options options;
    check_ok(aorta_train_options_load(NULL, NULL, 0, &options));
    struct aorta_json json;
    aorta_json_begin(&json, &before, 0);
    aorta_config_write_json(&options.config, &json);
    aorta_train_options_free(&options);
    for (size_t i = 0; i < aorta_train_option_table.count; i++) {
        const struct aorta_option *row = &aorta_train_option_table.rows[i];
        char override[128];
        const char *overrides[] = {override};
        snprintf(override, sizeof override, "%s=%s", row->key, row->fallback);
        check_ok(aorta_train_options_load(NULL, overrides, 1, &options));
        assert_int_equal(aorta_config_origin(&options.config, row->key)->kind, AORTA_FROM_OVERRIDE);
        aorta_text_clear(&after);
        aorta_json_begin(&json, &after, 0);
        aorta_config_write_json(&options.config, &json);
        assert_string_equal(before.data, after.data);
        aorta_train_options_free(&options);
    }
    aorta_text_free(&before);
    aorta_text_free(&after);
}

/* Two rows must not write to the same place, or one key would change another. */
static void test_rows_have_their_own_place(void **state) {
    (void)state;
    static const size_t sizes[AORTA_OPTION_TYPE_COUNT] = {
        [AORTA_OPTION_BOOL] = sizeof(bool),
        [AORTA_OPTION_INT] = sizeof(int64_t),
        [AORTA_OPTION_DOUBLE] = sizeof(double),
        [AORTA_OPTION_STRING] = sizeof(char *),
        [AORTA_OPTION_CHOICE] = sizeof(int),
        [AORTA_OPTION_DOUBLES_2] = 2 * sizeof(double),
        [AORTA_OPTION_INT_LIST] = sizeof(struct aorta_int_list),
        [AORTA_OPTION_STRING_LIST] = sizeof(struct aorta_string_list),
    };
    const struct aorta_option_table *table = &aorta_train_option_table;
    for (size_t i = 0; i < table->count; i++) {
        for (size_t j = 0; j < i; j++) {
            const struct aorta_option *a = &table->rows[i], *b = &table->rows[j];
            bool apart = a->offset + sizes[a->type] <= b->offset || b->offset + sizes[b->type] <= a->offset;
            if (!apart && sizes[a->type] && sizes[b->type]) fail_msg("%s and %s share memory", a->key, b->key);
            assert_string_not_equal(a->key, b->key);
        }
    }
}

static void test_shipped_files(void **state) {
    (void)state;
    static const struct {
        const char *file;
        int ranks;
    } files[] = {{"default.yaml", 8},
                 {"large.yaml", 8},
                 {"quickstart.yaml", 2},
                 {"distributed.yaml", 8},
                 {"distributed_two_nodes.yaml", 16},
                 {"mi350_overlap_stress.yaml", 8},
                 {"profile_overlap_2gpu.yaml", 2},
                 {"profile_overlap_short.yaml", 8},
                 {"reproduce_hang.yaml", 8},
                 {"reproduce_hang_no_torch_prof.yaml", 8},
                 {"shampoo_opt.yaml", 8},
                 {"tf32_overlap_eval.yaml", 8},
                 {"single_node/gemm_overlap_comm.yaml", 8},
                 {"multi_node/distributed_multinode.yaml", 16}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[512];
        struct aorta_train_options options;
        snprintf(path, sizeof path, "%s/config/%s", AORTA_SOURCE, files[i].file);
        check_ok(aorta_train_options_load(path, NULL, 0, &options));
        if (strstr(path, "multi_node")) options.fsdp.hybrid_shard_gpus_per_node = 8; /* as aorta train does */
        check_ok(aorta_train_options_check(&options, files[i].ranks));
        struct aorta_text keys = {0};
        aorta_train_options_without_effect(&options, files[i].ranks, options.device.kind != AORTA_TRAIN_CPU, &keys);
        if (keys.length) fail_msg("%s: without effect: %s", path, keys.data);
        aorta_train_options_free(&options);
    }
}

static void test_documentation_is_not_stale(void **state) {
    (void)state;
    struct aorta_text page = {0};
    char *bytes;
    size_t length;
    aorta_train_options_page(&page);
    check_ok(aorta_text_check(&page));
    check_ok(aorta_file_read(AORTA_SOURCE "/docs/configuration.md", &bytes, &length));
    if (strcmp(bytes, page.data) != 0) {
        fail_msg("docs/configuration.md is stale; make it again: build/release/aorta help config --markdown > "
                 "docs/configuration.md");
    }
    free(bytes);
    aorta_text_free(&page);
}

/* ---- checks of several keys ---- */

static const struct {
    const char *override, *message;
} wrong[] = {
    {"model.num_heads=7",
     "--override model.num_heads=7: model.num_heads: 7 heads do not divide model.model_dim 512; make "
     "model_dim 511 or choose a divisor (model.model_dim: default)"},
    {"model.model_dim=3",
     "model.num_heads (by default): 8 heads do not divide model.model_dim 3; make model_dim 8 or choose a "
     "divisor (model.model_dim: --override model.model_dim=3)"},
    {"training.batch_size=0",
     "--override training.batch_size=0: training.batch_size: found 0; expected an integer from 1 "
     "to 1000000 (default: 8)"},
    {"dataset.vocab_size=50001",
     "--override dataset.vocab_size=50001: dataset.vocab_size: ids up to 50000 do not fit the "
     "50000 rows of the embedding; make it at most 50000 (model.vocab_size: default)"},
    {"dataset.dense_dim=64", "--override dataset.dense_dim=64: dataset.dense_dim: 64 differs from model.dense_dim 128; "
                             "make them equal (model.dense_dim: default)"},
    {"model.num_dense_features=4",
     "dataset.num_dense_features (by default): 8 differs from model.num_dense_features 4; make "
     "them equal (model.num_dense_features: --override model.num_dense_features=4)"},
    {"model.dropout=1",
     "--override model.dropout=1: model.dropout: found 1; expected a number in [0, 1) (default: 0.1)"},
    {"optimizer.betas=[0.9, 1]",
     "--override optimizer.betas=[0.9, 1]: optimizer.betas: found [0.9, 1]; expected a list of "
     "two numbers in [0, 1), as in [0.9, 0.98] (default: [0.9, 0.98])"},
    {"scheduler.warmup_steps=-1", "--override scheduler.warmup_steps=-1: scheduler.warmup_steps: found -1; expected an "
                                  "integer from 0 to 2147483647 (default: 200)"},
    {"training.epochs=1000000000000000000",
     "--override training.epochs=1000000000000000000: training.epochs: found 1000000000000000000; expected an integer "
     "from 1 to 2147483647 (default: 1)"},
    {"profiling.wait=9223372036854775807",
     "--override profiling.wait=9223372036854775807: profiling.wait: found 9223372036854775807; expected an integer "
     "from 0 to 2147483647 (default: 1)"},
    {"optimizer.betas=[0.9, 0.99999999]",
     "--override optimizer.betas=[0.9, 0.99999999]: optimizer.betas: 0.99999999 is 1 in single precision; make it at "
     "most 0.9999999"},
    {"optimizer.eps=1e-46",
     "--override optimizer.eps=1e-46: optimizer.eps: 1e-46 is 0 in single precision; make it at least 1e-45"},
    {"optimizer.lr=1e39",
     "--override optimizer.lr=1e39: optimizer.lr: 1e+39 is infinite in single precision; make it smaller"},
    {"profiling.trace_filename=..", "--override profiling.trace_filename=..: profiling.trace_filename: that is a "
                                    "folder; choose a name that ends in .json"},
    {"profiling.trace_filename=a/b.json",
     "--override profiling.trace_filename=a/b.json: profiling.trace_filename: a name without a folder is needed: the "
     "file is put into training.output_dir, in chrome_trace/rankN; remove the \"/\""},
    {"profiling.trace_filename=trace.json.gz",
     "--override profiling.trace_filename=trace.json.gz: profiling.trace_filename: traces are written without "
     "compression; choose a name that ends in .json, and compress the file later if need be"},
    {"compile.options=[max_autotune]", "--override compile.options=[max_autotune]: compile.options: found "
                                       "[max_autotune]; expected a map, or null (default: {})"},
    {"workload.gemm_chunks=0",
     "--override workload.gemm_chunks=0: workload.gemm_chunks: found 0; expected an integer from 1 to 1024 (default: "
     "1)"},
    {"workload.occupancy_cap=0",
     "--override workload.occupancy_cap=0: workload.occupancy_cap: found 0; expected a number in (0, 1] (default: 1)"},
    {"device={kind: cpu, allow_tf32: true}",
     "--override device={kind: cpu, allow_tf32: true}: device.allow_tf32: true needs a GPU, and this run is on the CPU "
     "device; set it to false"},
    {"training.output_dir=\"\"",
     "--override training.output_dir=\"\": training.output_dir: the empty text names no file; "
     "give a name"},
    {"dataset.sequence_length=1000000",
     "training.batch_size (by default): the attention weights (batch_size x num_heads x "
     "sequence_length squared) would have "
     "6.4e+13 elements (at most 1.1e+12); make it smaller"},
    {"training.lr=1", "--override training.lr=1: training.lr: unknown key; did you mean optimizer.lr?"},
};

/* A dumped value is not captured, so it must not be demanded. */
static void test_fullgraph_with_dumps(void **state) {
    (void)state;
    static const char *const overrides[] = {"compile={enabled: true, fullgraph: true}", "training.dump_dir=d",
                                            "training.dump_steps=[1]"};
    struct aorta_train_options options;
    check_fails(aorta_train_options_load(NULL, overrides, 3, &options), AORTA_CONFIG,
                "--override compile={enabled: true, fullgraph: true}: compile.fullgraph: dumped steps cannot be "
                "captured; set compile.fullgraph to false (training.dump_dir: --override training.dump_dir=d)");
}

static void test_wrong_combinations(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct aorta_train_options options;
        aorta_status status = aorta_train_options_load(NULL, &wrong[i].override, 1, &options);
        assert_non_null(status);
        assert_string_equal(aorta_status_message(status), wrong[i].message);
        assert_int_equal(aorta_status_code(status), AORTA_CONFIG);
        aorta_status_free(status);
    }
}

static void test_place_in_a_file(void **state) {
    (void)state;
    char path[] = "/tmp/aorta_options_XXXXXX", message[256];
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    const char content[] = "model:\n  model_dim: 10\n  num_heads: 4\n";
    check_ok(aorta_file_replace(path, content, strlen(content)));
    struct aorta_train_options options;
    snprintf(message, sizeof message,
             "%s:3: model.num_heads: 4 heads do not divide model.model_dim 10; make model_dim 8 or choose a divisor "
             "(model.model_dim: %s:2)",
             path, path);
    check_fails(aorta_train_options_load(path, NULL, 0, &options), AORTA_CONFIG, message);
    unlink(path);
}

/* ---- checks against the number of ranks ---- */

static const struct {
    const char *overrides[4];
    int ranks;
    const char *message; /* NULL: accepted */
} worlds[] = {
    {{"dataset.num_samples=64", "training.gradient_accumulation=2"}, 4, NULL},
    {{"dataset.num_samples=63", "training.gradient_accumulation=2"},
     4,
     "--override dataset.num_samples=63: dataset.num_samples: 63 samples give each of 4 ranks 15, but one step takes "
     "16 of "
     "each rank (training.batch_size 8 x training.gradient_accumulation 2); make it at least 64"},
    {{"fsdp.sharding_strategy=hybrid_shard"},
     4,
     "fsdp.hybrid_shard_gpus_per_node (by default): hybrid_shard needs the number of ranks in one group; set it to a "
     "divisor "
     "of the number of ranks (fsdp.sharding_strategy: --override fsdp.sharding_strategy=hybrid_shard)"},
    {{"fsdp.sharding_strategy=hybrid_shard", "fsdp.hybrid_shard_gpus_per_node=2"}, 4, NULL},
    {{"fsdp.sharding_strategy=hybrid_shard", "fsdp.hybrid_shard_gpus_per_node=3"},
     4,
     "--override fsdp.hybrid_shard_gpus_per_node=3: fsdp.hybrid_shard_gpus_per_node: groups of 3 do not divide 4 "
     "ranks; "
     "choose a divisor of 4 or start a multiple of 3 ranks"},
    {{"fsdp.sharding_strategy=hybrid_shard", "fsdp.hybrid_shard_gpus_per_node=8"},
     4,
     "groups of 8 do not divide 4 ranks"},
    {{"model.model_dim=2", "model.num_heads=1", "model.mlp_hidden_dim=7"}, 7, NULL},
    {{"model.model_dim=2", "model.num_heads=1", "model.mlp_hidden_dim=7"},
     8,
     "--override model.mlp_hidden_dim=7: model.mlp_hidden_dim: more shards than rows: an encoder layer has at most 7 "
     "rows "
     "(linear1.weight), so that 8 shards leave rank 7 with none; widen the model, shard over fewer ranks "
     "(fsdp.sharding_strategy hybrid_shard) or set fsdp.use_orig_params to false"},
    {{"model.model_dim=1", "model.num_heads=1", "model.mlp_hidden_dim=2"}, 4, "model.model_dim: more shards than rows"},
    {{"model.model_dim=1", "model.num_heads=1", "model.mlp_hidden_dim=2", "distributed.mode=ddp"}, 4, NULL},
    {{"model.model_dim=1", "model.num_heads=1", "model.mlp_hidden_dim=2", "fsdp.use_orig_params=false"}, 4, NULL},
    {{"fsdp.symmetric_memory=true", "fsdp.use_orig_params=false"}, 2, NULL},
    {{"fsdp.symmetric_memory=true"}, 1, NULL}, /* nothing is gathered */
    {{"fsdp.symmetric_memory=true"},
     2,
     "--override fsdp.symmetric_memory=true: fsdp.symmetric_memory: NCCL does not gather several pieces of symmetric "
     "memory at once; set use_orig_params to false, which makes each unit one piece (fsdp.use_orig_params: default)"},
    {{"fsdp.symmetric_memory=true", "fsdp.use_orig_params=false", "distributed.mode=ddp"},
     2,
     "fsdp.symmetric_memory: nothing is sharded, so nothing is gathered: it goes with distributed.mode fsdp"},
    {{"fsdp.symmetric_memory=true", "fsdp.use_orig_params=false", "fsdp.sharding_strategy=no_shard"},
     2,
     "fsdp.symmetric_memory: nothing is sharded"},
    {{"fsdp.symmetric_memory=true", "distributed.mode=ddp"}, 2, "fsdp.symmetric_memory: nothing is sharded"},
    {{"fsdp.symmetric_memory=true", "fsdp.use_orig_params=false", "device.kind=cpu"},
     2,
     "fsdp.symmetric_memory: true needs GPUs"},
};

static void test_limits_of_gpus(void **state) {
    (void)state;
    static const struct {
        const char *dim, *heads, *message;
    } rows[] = {
        {"model.model_dim=256", "model.num_heads=2", NULL},
        {"model.model_dim=256", "model.num_heads=1",
         "model.num_heads: heads of 256 elements (model.model_dim 256 / 1) are more than kernels on a GPU take, "
         "128; choose at least 2 heads"},
        {"model.model_dim=8256", "model.num_heads=86",
         "model.model_dim: 8256 is more than kernels on a GPU take, 8192; make it smaller"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct aorta_train_options options;
        check_ok(aorta_train_options_load(NULL, (const char *const[]){rows[i].dim, rows[i].heads}, 2, &options));
        aorta_status status = aorta_train_options_check_gpu(&options, 128, 8192);
        if (rows[i].message)
            check_fails(status, AORTA_CONFIG, rows[i].message);
        else
            check_ok(status);
        aorta_train_options_free(&options);
    }
}

/* Keys of the original Python toolkit: keys with a meaning act, ignored keys are named in one line. */
static void test_keys_of_the_original(void **state) {
    (void)state;
    static const char *const overrides[] = {
        "distributed.timeout=5",
        "training.mixed_precision=tf32",
        "torch_titan={checkpointing: {async: true}}",
        "streams.stream_assignments={compute: [dev6_stream3, dev6_stream9]}",
        "streams.num_streams=8",
        "profiling={enabled: true, tensorboard: false, chrome_trace: false, with_stack: true}"};
    struct aorta_train_options options;
    struct aorta_text keys = {0};
    check_ok(aorta_train_options_load(NULL, overrides, sizeof overrides / sizeof *overrides, &options));
    assert_true(options.distributed.timeout_s == 5);
    assert_int_equal(options.training.mixed_precision, AORTA_PRECISION_TF32);
    aorta_train_options_without_effect(&options, 2, false, &keys);
    listed_lines(&keys);
    check_ok(aorta_text_check(&keys));
    assert_string_equal(keys.data,
                        "profiling.enabled, with_stack (tensorboard and chrome_trace are false: no trace is written)\n"
                        "streams.num_streams (streams.count sets it: one stream for each of four roles)\n"
                        "streams.stream_assignments (the names are those of streams in a recording; streams.assignment "
                        "sets it)\n"
                        "torch_titan (no checkpoints are written)\n");
    aorta_text_free(&keys);
    aorta_train_options_free(&options);
}

/* Keys that change nothing are named where they are set, once, with a reason. */
static void test_without_effect(void **state) {
    (void)state;
    static const struct {
        const char *overrides[3];
        const char *keys;
    } rows[] = {
        {{0}, ""},
        {{"training.batch_size=4", "compile.enabled=true"}, ""},
        {{"compile.mode=max-autotune"}, "compile.mode (compile.enabled is false)\n"},
        {{"compile.mode=max-autotune", "compile.enabled=true"}, "compile.mode (every mode is the same capture)\n"},
        {{"compile.mode=default", "compile.enabled=true", "compile.dynamic=false"}, ""}, /* as asked for */
        {{"compile.options={max_autotune: true}", "compile.options={}", "profiling.with_stack=true"},
         "profiling.with_stack (profiling.enabled is false)\n"},
        {{"fsdp={forward_prefetch: false, limit_all_gathers: false}", "streams.assignment.all_gather=compute",
          "distributed.mode=ddp"},
         "fsdp.limit_all_gathers, forward_prefetch (distributed.mode=ddp shards nothing)\n"
         "streams.assignment.all_gather (nothing is gathered)\n"},
        {{"compile.backend=aot_eager", "compile.enabled=true", "compile.dynamic=true"},
         "compile.enabled (compile.backend=fused captures no steps)\n"
         "compile.dynamic (the shapes of a captured step are fixed)\n"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct aorta_train_options options;
        struct aorta_text keys = {0};
        size_t count = 0;
        while (count < 3 && rows[i].overrides[count]) count++;
        check_ok(aorta_train_options_load(NULL, rows[i].overrides, count, &options));
        aorta_train_options_without_effect(&options, 2, false, &keys);
        listed_lines(&keys);
        check_ok(aorta_text_check(&keys));
        assert_string_equal(keys.length ? keys.data : "", rows[i].keys);
        aorta_text_free(&keys);
        aorta_train_options_free(&options);
    }
}

static void test_worlds(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
        struct aorta_train_options options;
        size_t count = 0;
        while (count < 4 && worlds[i].overrides[count]) count++;
        check_ok(aorta_train_options_load(NULL, worlds[i].overrides, count, &options));
        aorta_status status = aorta_train_options_check(&options, worlds[i].ranks);
        if (worlds[i].message)
            check_fails(status, AORTA_CONFIG, worlds[i].message);
        else
            check_ok(status);
        aorta_train_options_free(&options);
    }
}

static void test_streams(void **state) {
    (void)state;
    for (int count = 1; count <= 4; count++) {
        char override[32];
        const char *overrides[] = {override};
        struct aorta_train_options options;
        snprintf(override, sizeof override, "streams.count=%d", count);
        check_ok(aorta_train_options_load(NULL, overrides, 1, &options));
        int highest = 0;
        for (int role = 0; role < AORTA_ROLE_COUNT; role++) {
            int stream = aorta_train_stream_of(&options, (enum aorta_role)role);
            if (stream > highest) highest = stream;
        }
        assert_int_equal(highest, count - 1);
        aorta_train_options_free(&options);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_are_those_of_the_specification),
        cmocka_unit_test(test_every_default_can_be_written),
        cmocka_unit_test(test_rows_have_their_own_place),
        cmocka_unit_test(test_shipped_files),
        cmocka_unit_test(test_documentation_is_not_stale),
        cmocka_unit_test(test_wrong_combinations),
        cmocka_unit_test(test_fullgraph_with_dumps),
        cmocka_unit_test(test_place_in_a_file),
        cmocka_unit_test(test_keys_of_the_original),
        cmocka_unit_test(test_without_effect),
        cmocka_unit_test(test_worlds),
        cmocka_unit_test(test_limits_of_gpus),
        cmocka_unit_test(test_streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
