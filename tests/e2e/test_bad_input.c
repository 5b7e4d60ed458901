/* Mistakes of the user: exit code 2, one message that names the mistake, its place and what would be right, and nothing
 * written; on one rank and on two. */
#include "check.h"
#include "run.h"

#include "base/files.h"

#include <dirent.h>
#include <stdlib.h>

/* Behind every file; nothing of it may appear. The paths are relative: a run's own directory is the current one. */
#define OUTPUT "training: {output_dir: out, dump_dir: dump, max_steps: 2}\n"
#define SMALL                                                                                                          \
    "dataset: {num_samples: 200, sequence_length: 4, num_dense_features: 2, dense_dim: 4, sparse_features: 2, "        \
    "vocab_size: 11}\n"                                                                                                \
    "model: {vocab_size: 11, embedding_dim: 8, num_dense_features: 2, dense_dim: 4, model_dim: 8, num_heads: 2, "      \
    "num_layers: 1, mlp_hidden_dim: 8}\n"

/* The sparse pipeline's. */
#define SPARSE "training: {output_dir: out, max_steps: 2}\nRunOptions:\n  num_batches: 2\n"
#define TABLE "name: a, embedding_dim: 4, num_embeddings: 9"
#define TABLES "EmbeddingTablesConfig:\n  additional_tables:\n"

static const struct {
    const char *file;  /* its text; NULL: there is no such file */
    const char *words; /* behind train --config FILE */
    const char *messages[3];
} cases[] = {
    {OUTPUT "model:\n  heads: 7\n", "", {"mistake.yaml:3", "model.heads: unknown key", "num_heads"}},
    {OUTPUT "modle: {}\n", "", {"mistake.yaml:2", "modle: unknown key", "model"}},
    {OUTPUT "model:\n  num_layers: many\n", "", {"mistake.yaml:3", "model.num_layers", "an integer"}},
    {OUTPUT "optimizer: {betas: 0.9}\n", "", {"mistake.yaml:2", "optimizer.betas", "two numbers"}},
    {OUTPUT "fsdp:\n  sharding_strategy: ful_shard\n", "", {"mistake.yaml:3", "fsdp.sharding_strategy", "full_shard"}},
    {NULL, "", {"cannot read", "mistake.yaml: No such file or directory", "give the path"}},
    {OUTPUT "model: {num_layers: 2\noptimizer: [", "", {"mistake.yaml:", NULL}},
    {OUTPUT "model:\n\tnum_layers: 2\n", "", {"mistake.yaml:3", NULL}},
    {OUTPUT "model: {num_heads: 7}\n",
     "",
     {"mistake.yaml:2: model.num_heads: 7 heads do not divide model.model_dim 512"}},
    {"training: {batch_size: 0, output_dir: out}\n", "", {"mistake.yaml:1: training.batch_size", "from 1"}},
    {OUTPUT "distributed: {timeout: 5, timeout_s: 5}\n", "", {"distributed.timeout_s: given twice, first on line 2"}},
    {OUTPUT "profiling: {trace_filename: \"\"}\n", "", {"mistake.yaml:2: profiling.trace_filename", "give a name"}},
    {OUTPUT "workload: {gemm_chunks: 0}\n", "", {"mistake.yaml:2", "workload.gemm_chunks", "from 1 to 1024"}},
    {OUTPUT "device: {kind: cpu, allow_tf32: true}\n", "", {"mistake.yaml:2: device.allow_tf32: true needs a GPU"}},
    {OUTPUT "compile: {options: [a]}\n", "", {"mistake.yaml:2: compile.options: found [a]; expected a map", NULL}},
    {OUTPUT "optimizer: {name: adam}\n", "", {"mistake.yaml:2", "optimizer.name", "adamw"}},
    {OUTPUT "dataset: {num_samples: 5}\n", "", {"mistake.yaml:2: dataset.num_samples: 5 samples", "make it at least"}},
    {OUTPUT "fsdp: {sharding_strategy: hybrid_shard, hybrid_shard_gpus_per_node: 3}\n",
     "",
     {"mistake.yaml:2: fsdp.hybrid_shard_gpus_per_node: groups of 3 do not divide"}},
    {OUTPUT SMALL, "--override training.output_dir=/proc/x", {"training.output_dir", "/proc/x cannot be made"}},
    {OUTPUT SMALL, "--override training.output_dir=../mistake.yaml/x", {"training.output_dir", "mistake.yaml"}},
    {OUTPUT SMALL, "--override training.dump_dir=/proc/x", {"training.dump_dir", "/proc/x cannot be made"}},
    {OUTPUT SMALL, "--override training.output_dir=", {"training.output_dir: found null", NULL}},
    {OUTPUT SMALL, "--override training.batch_size", {"--override training.batch_size: expected KEY=VALUE"}},
    {OUTPUT SMALL, "--override model.layers=2", {"--override model.layers=2: model.layers: unknown key"}},
    {OUTPUT SMALL, "--override optimizer.lr=fast", {"--override optimizer.lr=fast: optimizer.lr"}},
    {OUTPUT SMALL, "--override training.init_from=/nowhere/x", {"training.init_from: cannot read /nowhere/x", NULL}},
    {OUTPUT SMALL,
     "--override training.init_from=../mistake.yaml",
     {"training.init_from: ../mistake.yaml: the header", NULL}},
    {OUTPUT SMALL, "--overide x=1", {"unknown option --overide", "--override"}},
    {OUTPUT SMALL, "surplus", {"unexpected argument \"surplus\"", NULL}},
    {OUTPUT SMALL, "--config", {"--config needs a value", NULL}},
    {SPARSE "  sharding_type: grid\n", "", {"mistake.yaml:4: RunOptions.sharding_type", "table_wise, row_wise"}},
    {SPARSE "  batches: 2\n", "", {"mistake.yaml:4: RunOptions.batches: unknown key", "RunOptions.num_batches"}},
    {SPARSE "model: {num_layers: 2}\n", "", {"mistake.yaml:4: model", "ModelSelectionConfig"}},
    {SPARSE "  local_world_size: 3\n", "", {"mistake.yaml:4: RunOptions.local_world_size: hosts of 3 ranks do not"}},
    {SPARSE TABLES "    - - {" TABLE ", feature_names: [f], data_type: INT8}\n",
     "",
     {"mistake.yaml:5: EmbeddingTablesConfig.additional_tables: list 0, table 0: data_type: only FP32"}},
    {SPARSE TABLES "    - null\n", "", {"mistake.yaml:5", "item 0: expected a list of tables"}},
    {"RunOptions:\n  profile_dir: x\n  name: ..\n", "", {"mistake.yaml:3: RunOptions.name: the name of a folder"}},
};

static int count_of(const char *text, const char *part) {
    int count = 0;
    for (; (text = strstr(text, part)); text += strlen(part)) count++;
    return count;
}

static int entries(const char *directory) {
    int count = 0;
    DIR *stream = opendir(directory);
    assert_non_null(stream);
    for (const struct dirent *entry; (entry = readdir(stream));) count += entry->d_name[0] != '.';
    closedir(stream);
    return count;
}

/* Beside what it printed (the file "output"). */
static void check_nothing_written(const struct e2e_run *run, const char *words) {
    if (entries(run->directory) != 1) fail_msg("%s: something was written into %s", words, run->directory);
}

static void start(struct e2e_run *run, int ranks, const char *words) {
    char command[1024], launch[512] = "";
    if (ranks > 1) snprintf(launch, sizeof launch, "launch -n %d -- %s ", ranks, AORTA_PROGRAM);
    snprintf(command, sizeof command, "%strain --config ../mistake.yaml %s", launch, words);
    e2e_start_command(run, command);
    e2e_finish(run);
}

static void check_refused(int ranks, const char *words, const char *const messages[3]) {
    struct e2e_run run;
    start(&run, ranks, words);
    for (int i = 0; i < 3 && messages[i]; i++) e2e_expect_output(&run, 2, messages[i]);
    if (count_of(run.output, messages[0]) != 1) fail_msg("%d ranks: not said once: %s", ranks, run.output);
    if (strstr(run.output, "nternal")) fail_msg("%s", run.output);
    check_nothing_written(&run, words);
    e2e_free(&run);
}

static void write_file(const char *text) {
    char path[128];
    snprintf(path, sizeof path, "%s/mistake.yaml", e2e_workspace());
    if (text)
        check_ok(aorta_file_replace(path, text, strlen(text)));
    else
        remove(path);
}

static void test_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_file(cases[i].file);
        check_refused(1, cases[i].words, cases[i].messages);
        check_refused(2, cases[i].words, cases[i].messages);
    }
}

static void test_more_shards_than_rows(void **state) {
    (void)state;
    static const char *const messages[] = {"more shards than rows: an encoder layer has at most 3 rows",
                                           "fsdp.use_orig_params", "model.model_dim"};
    write_file(OUTPUT SMALL);
    check_refused(4, "--override model.model_dim=1 model.num_heads=1 model.mlp_hidden_dim=1 training.batch_size=1",
                  messages);
}

static void test_too_few_samples_for_two_ranks(void **state) {
    (void)state;
    static const char *const messages[] = {"dataset.num_samples: 200 samples give each of 2 ranks 100",
                                           "make it at least 202", NULL};
    write_file(OUTPUT SMALL);
    check_refused(2, "--override training.batch_size=101", messages);
}

/* As many ranks as the message says is right do run: three rows on three ranks, one flat parameter on four. */
static void test_as_many_shards_as_rows(void **state) {
    (void)state;
    static const char words[] = "model.model_dim=1 model.num_heads=1 model.mlp_hidden_dim=1 training.max_steps=3 "
                                "training.batch_size=1 ";
    char flat[256];
    struct e2e_run run;
    e2e_train_well(&run, 3, 3, words);
    e2e_free(&run);
    snprintf(flat, sizeof flat, "%sfsdp.use_orig_params=false", words);
    e2e_train_well(&run, 4, 3, flat);
    e2e_free(&run);
}

/* A device that is not there is no mistake in the file: exit code 1, and still nothing written. */
static void test_missing_device(void **state) {
    (void)state;
    struct e2e_run run;
    write_file(OUTPUT SMALL);
    start(&run, 1, "--override device.kind=cuda");
    e2e_expect_output(&run, 1, "device.kind=cuda: CUDA driver: libcuda.so.1 could not be loaded");
    e2e_expect_output(&run, 1, "device.kind=cpu runs without a GPU");
    assert_null(strstr(run.output, "metrics in ")); /* nothing is announced */
    check_nothing_written(&run, "device.kind=cuda");
    e2e_free(&run);
    start(&run, 1, "--override device.index=1");
    e2e_expect_output(&run, 1, "device.index: no device cpu:1: there is one cpu device");
    check_nothing_written(&run, "device.index=1");
    e2e_free(&run);
}

/* Several mistakes are reported at once. */
static void test_all_mistakes_at_once(void **state) {
    (void)state;
    struct e2e_run run;
    write_file(OUTPUT "model: {num_layers: 0, heads: 3}\noptimizer: {lr: -1}\n");
    start(&run, 1, "");
    e2e_expect_output(&run, 2, "3 errors:");
    e2e_expect_output(&run, 2, "mistake.yaml:2: model.num_layers");
    e2e_expect_output(&run, 2, "mistake.yaml:2: model.heads: unknown key");
    e2e_expect_output(&run, 2, "mistake.yaml:3: optimizer.lr");
    e2e_free(&run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_more_shards_than_rows),
        cmocka_unit_test(test_too_few_samples_for_two_ranks),
        cmocka_unit_test(test_as_many_shards_as_rows),
        cmocka_unit_test(test_missing_device),
        cmocka_unit_test(test_all_mistakes_at_once),
    };
    return cmocka_run_group_tests(tests, e2e_open, e2e_close);
}
