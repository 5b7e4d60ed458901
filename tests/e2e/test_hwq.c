/* aorta hwq as a user runs it, on the CPU device. */
#include "base/files.h"
#include "check.h"
#include "report/page.h"
#include "run.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static void expect(const char *words, int exit_code, const char *part) {
    struct e2e_run run = {0};
    e2e_start_command(&run, words);
    e2e_finish(&run);
    e2e_expect_output(&run, exit_code, part);
    e2e_free(&run);
}

static void expect_with_file(const char *format, const char *name, int exit_code, const char *part) {
    char words[1024];
    snprintf(words, sizeof words, format, e2e_workspace(), name, e2e_workspace(), name);
    expect(words, exit_code, part);
}

static void test_list_shows_the_workloads(void **state) {
    (void)state;
    expect("hwq list", 0, "tiny_kernel_stress");
    expect("hwq list --json", 0, "\"recommended_streams\": 16");
}

static void test_a_run_explains_itself_and_leaves_a_file(void **state) {
    (void)state;
    expect_with_file("hwq run tiny_kernel_stress --chains 3 --iterations 4 --device cpu --verify -o %s/%s", "one.json",
                     0, "verified    passed");
    expect_with_file("hwq compare --baseline %s/%s --test %s/%s", "one.json", 0, "tiny_kernel_stress");
    expect("hwq run hetero_kernels --size 32 --streams 4 --iterations 3 --gate --graph --device cpu", 0,
           "convoy factor");
    expect("hwq run comms_compute_overlap --mm-dim 16 --comm-size 1K --iterations 3 --device cpu", 0, "simulated");
}

/* A command makes the page of its kind; without pages in the build it says so before anything runs. */
static void expect_page(const char *words, const char *kind) {
    char line[1200], path[512], wanted[64], *page;
    size_t length;
    snprintf(path, sizeof path, "%s/%s.html", e2e_workspace(), kind);
    snprintf(line, sizeof line, "%s --html %s", words, path);
    if (!aorta_page_available()) {
        expect(line, 1, "this build writes no pages");
        return;
    }
    expect(line, 0, "");
    check_ok(aorta_file_read(path, &page, &length));
    snprintf(wanted, sizeof wanted, "\"kind\": \"%s\"", kind);
    assert_non_null(strstr(page, wanted));
    free(page);
}

static void test_pages(void **state) {
    (void)state;
    char words[512];
    const char *at = e2e_workspace();
    const char *tiny = "tiny_kernel_stress --chains 3 --iterations 4 --device cpu";
    snprintf(words, sizeof words, "hwq run %s --verify -q", tiny);
    expect_page(words, "hwq");
    snprintf(words, sizeof words, "hwq sweep %s --streams 1,2 -o %s/swept.json", tiny, at);
    expect_page(words, "hwq");
    snprintf(words, sizeof words, "hwq compare --baseline %s/swept.json --test %s/swept.json", at, at);
    expect_page(words, "hwq_comparison");
    expect("hwq map --streams 2 --copy-mb 0 --device cpu --html /proc/x/y.html", aorta_page_available() ? 2 : 1,
           "html");
    expect_page("hwq map --streams 2 --copy-streams 0 --comm-streams 0 --copy-mb 1 --device cpu", "hwq_map");
    expect_page("sdma --device cpu --matrix-size 32 --copy-mb 1 --iterations 3", "sdma");
    snprintf(words, sizeof words, "hwq compare --baseline %s/swept.json --test %s/swept.json --html %s/swept.json", at,
             at, at);
    expect(words, 2, "is one of the files to read");
}

/* Where a sentence is cut into lines depends on its figures. */
static void join_lines(char *text) {
    char *to = text;
    for (const char *from = text; *from; from++) {
        const char letter = *from == '\n' ? ' ' : *from;
        if (letter != ' ' || to == text || to[-1] != ' ') *to++ = letter;
    }
    *to = '\0';
}

/* Advice does not name what the run has already. */
static void test_advice_is_for_what_is_left(void **state) {
    (void)state;
    static const struct {
        const char *words, *advice, *not ;
    } rows[] = {
        {"tiny_kernel_stress --chains 3 --iterations 4 --graph", "aorta hwq sweep shows", "--graph"},
        {"hetero_kernels --size 32 --streams 4 --iterations 3", "--interleave batched shows", "nothing"},
        {"hetero_kernels --size 32 --streams 4 --iterations 3 --interleave batched", "aorta hwq map shows",
         "--interleave batched"},
        {"torch_compile --width 8 --batch 2 --positions 4 --iterations 3", "--compiled=false shows",
         "--compiled false"},
        {"comms_compute_overlap --mm-dim 16 --comm-size 1K --iterations 3", "aorta launch -n 2 -- ", "NCCL"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct e2e_run run = {0};
        char words[256];
        snprintf(words, sizeof words, "hwq run %s --device cpu", rows[i].words);
        e2e_start_command(&run, words);
        e2e_finish(&run);
        join_lines(run.output);
        e2e_expect_output(&run, 0, rows[i].advice);
        const char *advice = strstr(run.output, " try ");
        assert_non_null(advice);
        if (strstr(advice, rows[i].not )) fail_msg("%s: %s", rows[i].words, advice);
        e2e_free(&run);
    }
}

static void test_a_sweep_shows_scaling(void **state) {
    (void)state;
    expect_with_file("hwq sweep tiny_kernel_stress --chains 3 --streams 2,1 --iterations 4 --device cpu -o %s/%s",
                     "sweep.json", 0, "highest throughput");
    expect_with_file("hwq compare --baseline %s/%s --test %s/%s", "sweep.json", 0, "tiny_kernel_stress");
}

static void test_ranks_really_communicate(void **state) {
    (void)state;
    expect("launch -n 2 -- " AORTA_PROGRAM
           " hwq run comms_compute_overlap --mm-dim 16 --comm-size 4K --iterations 3 --device cpu --verify "
           "--real-collectives --process-groups [0,1]",
           0, "busbw alone");
    expect("launch -n 2 -- " AORTA_PROGRAM " hwq run comms_compute_overlap --mm-dim 16 --comm-size 4K --iterations 3 "
           "--device cpu --process-groups [0],[1]",
           0, "simulated   the collectives are copies on one rank");
}

static void check_bandwidth(const json_t *root, const char *kind, bool carried) {
    char name[64];
    snprintf(name, sizeof name, "%s_busbw_alone", kind);
    const json_t *figure = json_object_get(json_object_get(root, "figures"), name);
    const json_t *value = json_object_get(figure, "value");
    if (!(carried ? json_number_value(value) > 0 : json_is_null(value))) fail_msg("%s: carried %d", name, carried);
}

/* fsdp_tp has the bandwidth of each kind of collective; a kind without other ranks has no figure. */
static void test_collectives_alone(void **state) {
    (void)state;
    char words[512], path[256];
    for (int tensor = 1; tensor <= 2; tensor++) {
        snprintf(path, sizeof path, "%s/fsdp_tp_%d.json", e2e_workspace(), tensor);
        snprintf(words, sizeof words,
                 "launch -n 2 -- " AORTA_PROGRAM " hwq run fsdp_tp --blocks 2 --width 16 --heads 2 --batch 4 "
                 "--positions 8 --streams 4 --iterations 3 --device cpu --verify --tensor %d -o %s",
                 tensor, path);
        expect(words, 0, "verified    passed");
        json_t *root = json_load_file(path, 0, NULL);
        assert_non_null(root);
        check_bandwidth(root, "gather", tensor == 1);
        check_bandwidth(root, "reduction", tensor == 1);
        check_bandwidth(root, "exchange", tensor == 2);
        json_decref(root);
    }
}

/* Every rank is in two of the three groups. */
static void test_groups_may_overlap(void **state) {
    static const char *const kinds[] = {"all_reduce", "all_to_all"};
    char words[1024];
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        snprintf(words, sizeof words,
                 "launch -n 3 -- " AORTA_PROGRAM
                 " hwq run comms_compute_overlap --mm-dim 16 --comm-size 4K --iterations 3 --device cpu --verify "
                 "--real-collectives --num-coll 2 --collective %s --process-groups [0,1],[1,2],[2,0]",
                 kinds[i]);
        expect(words, 0, "busbw alone 2 0 ");
        expect(words, 0, "verified    passed");
    }
    expect("launch -n 3 -- " AORTA_PROGRAM " hwq run comms_compute_overlap --mm-dim 16 --comm-size 4K --iterations 3 "
           "--device cpu --verify --mode comms_only --process-groups [1,2]",
           0, "verified    passed: this rank has no part in the workload");
}

#define SMALL_P0 "--set hetero_kernels.size=32 large_gemm_only.size=32 tiny_kernel_stress.chains=3"

static double result_of(const char *folder, const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s/%s", e2e_workspace(), folder, name);
    json_t *root = json_load_file(path, 0, NULL);
    if (!root) fail_msg("%s is no JSON", path);
    assert_string_equal(json_string_value(json_object_get(root, "verified")), "passed");
    const double p50 = json_number_value(json_object_get(json_object_get(root, "latency_ms"), "p50"));
    json_decref(root);
    return p50;
}

static void run_p0(const char *folder, int exit_code, const char *part) {
    char words[1024];
    snprintf(words, sizeof words, "hwq run-priority P0 -s 8 --iterations 3 --device cpu --verify -o %s/%s " SMALL_P0,
             e2e_workspace(), folder);
    expect(words, exit_code, part);
}

static void test_a_group_runs(void **state) {
    (void)state;
    run_p0("well", 0, "3 of 3 workloads ran well");
    run_p0("well", 0, "switch us limit     verified\nhetero_kernels ");
    assert_true(result_of("well", "hetero_kernels_streams8.json") > 0.0);
    assert_true(result_of("well", "tiny_kernel_stress_streams8.json") > 0.0);
    assert_true(result_of("well", "large_gemm_only_streams8.json") > 0.0);
}

static json_t *load(const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", e2e_workspace(), name);
    json_t *root = json_load_file(path, 0, NULL);
    if (!root) fail_msg("%s is no JSON", path);
    return root;
}

static void expect_counts(const char *name, const char *counts) {
    json_t *sweep = load(name);
    char *text = json_dumps(json_object_get(json_object_get(sweep, "analysis"), "stream_counts"), JSON_COMPACT);
    assert_string_equal(text, counts);
    free(text);
    json_decref(sweep);
}

/* Each workload on those counts that it serves; one that serves none on the nearest. */
static void test_a_group_sweeps(void **state) {
    char words[1024];
    (void)state;
    snprintf(words, sizeof words, "hwq run-priority P0 -i 2 -w 0 -d cpu -o %s/usual " SMALL_P0, e2e_workspace());
    expect(words, 0, "3 of 3 workloads ran well");
    expect_counts("usual/tiny_kernel_stress_sweep.json", "[1,2,4,8,16]");
    expect_counts("usual/hetero_kernels_sweep.json", "[2,4,8,16]");
    snprintf(words, sizeof words, "hwq run-priority P0 --streams 32,20 -i 2 -w 0 -d cpu -o %s/many " SMALL_P0,
             e2e_workspace());
    expect(words, 0, "3 of 3 workloads ran well");
    expect_counts("many/hetero_kernels_sweep.json", "[20,32]");
    expect_counts("many/large_gemm_only_sweep.json", "[16]");
}

static json_int_t config_of(const char *name, const char *key) {
    json_t *result = load(name);
    const json_t *value = json_object_get(json_object_get(json_object_get(result, "metadata"), "workload_config"), key);
    assert_true(json_is_integer(value));
    const json_int_t number = json_integer_value(value);
    json_decref(result);
    return number;
}

/* A CPU takes sizes of its own, unless they are given or the published ones are asked for. */
static void test_sizes_of_a_cpu(void **state) {
    char words[1024];
    (void)state;
    snprintf(words, sizeof words, "hwq run graph_subgraphs -i 1 -w 0 -d cpu --in 64 -o %s/small.json", e2e_workspace());
    expect(words, 0, "sizes for a CPU (hidden 512 instead of 2048, out 128 instead of 512); --full-size");
    assert_int_equal(config_of("small.json", "in"), 64);
    assert_int_equal(config_of("small.json", "hidden"), 512);
    snprintf(words, sizeof words, "hwq run graph_subgraphs -i 1 -w 0 -d cpu --full-size -o %s/full.json",
             e2e_workspace());
    expect(words, 0, "throughput");
    assert_int_equal(config_of("full.json", "hidden"), 2048);
    struct e2e_run run = {0};
    e2e_start_command(&run, "hwq run-priority P0 -s 4 -i 1 -w 0 -d cpu " SMALL_P0);
    e2e_finish(&run);
    e2e_expect_output(&run, 0, "3 of 3 workloads ran well");
    assert_null(strstr(run.output, "sizes for a CPU"));
    e2e_free(&run);
}

static void test_keys_of_the_original(void **state) {
    char words[1024];
    (void)state;
    snprintf(words, sizeof words, "hwq run hetero_kernels -s 3 -i 2 -w 0 -d cpu --size 64 -o %s/keys.json",
             e2e_workspace());
    expect(words, 0, "throughput");
    json_t *result = load("keys.json"), *times = json_object_get(result, "per_stream_times_ms");
    const json_t *memory = json_object_get(result, "memory");
    assert_int_equal(json_array_size(times), 3);
    for (size_t i = 0; i < 3; i++) assert_true(json_number_value(json_array_get(times, i)) > 0);
    assert_true(json_number_value(json_object_get(memory, "peak_reserved_gb")) >=
                json_number_value(json_object_get(memory, "final_reserved_gb")));
    assert_true(json_number_value(json_object_get(memory, "final_reserved_gb")) > 0);
    assert_true(
        json_is_integer(json_object_get(json_object_get(json_object_get(result, "metadata"), "config"), "seed")));
    json_decref(result);
}

static void test_a_directory_belongs_to_one_job(void **state) {
    char path[512];
    (void)state;
    snprintf(path, sizeof path, "%s/taken", e2e_workspace());
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/taken/.aorta.lock", e2e_workspace());
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(file >= 0 && flock(file, LOCK_EX) == 0);
    run_p0("taken", 2, "--output: another job writes into ");
    close(file);
    run_p0("taken", 0, "3 of 3 workloads ran well");
    assert_int_equal(access(path, F_OK), -1);
}

/* grad_accum is the only workload with collectives. */
static void test_a_backend_is_for_those_that_have_collectives(void **state) {
    (void)state;
    expect("hwq run-priority P2 --backend local --device cpu --iterations 2 --warmup 0 --set "
           "graph_subgraphs.in=8 graph_subgraphs.hidden=8 graph_subgraphs.out=8 "
           "grad_accum.in=8 grad_accum.hidden=8 grad_accum.classes=8 "
           "activation_ckpt.width=8 activation_ckpt.hidden=8 activation_ckpt.positions=4 "
           "rag_pipeline.width=12 rag_pipeline.embedding=8 rag_pipeline.layers=1 rag_pipeline.vocab=50",
           0, "4 of 4 workloads ran well");
    expect("hwq run-priority P0 --backend local --device cpu", 2, "has no collectives");
}

/* The file of one workload cannot be written: a folder has its name. */
static void test_a_group_goes_on_after_a_failure(void **state) {
    char path[512];
    (void)state;
    snprintf(path, sizeof path, "%s/broken/hetero_kernels_streams8.json/x", e2e_workspace());
    check_ok(aorta_directory_make(path));
    run_p0("broken", 1, "continuing with the next workload");
    run_p0("broken", 1, "2 of 3 workloads ran well; failed: hetero_kernels\n\n  limits ");
    run_p0("broken", 1, "1 of 3 workloads failed: hetero_kernels");
    json_t *summary = load("broken/run_priority.json");
    assert_string_equal(json_string_value(json_object_get(summary, "headline")),
                        "2 of 3 workloads ran well; failed: hetero_kernels");
    json_decref(summary);
    assert_true(result_of("broken", "tiny_kernel_stress_streams8.json") > 0.0);
    assert_true(result_of("broken", "large_gemm_only_streams8.json") > 0.0);
}

/* The other rank waits in a collective: it must not do so until the timeout of 180 s. */
static void expect_soon(const char *words, int exit_code, const char *part) {
    struct e2e_run run = {0};
    e2e_start_command(&run, words);
    e2e_finish(&run);
    e2e_expect_output(&run, exit_code, part);
    assert_true(run.seconds < 30.0);
    e2e_free(&run);
}

#define SMALL_OVERLAP " hwq run comms_compute_overlap --mm-dim 16 --iterations 3 --device cpu --verify "

static void test_a_rank_that_fails_ends_the_others(void **state) {
    (void)state;
    /* Rank 1 sends other values than rank 0 expects, so the verification fails. */
    expect_soon("launch -n 2 -- sh -c 'exec " AORTA_PROGRAM SMALL_OVERLAP "--comm-size 4K --seed $RANK'", 1,
                "--verify failed: all_reduce, received values[");
    /* Rank 1 never gets as far as the first collective. */
    expect_soon("launch -n 2 -- sh -c 'test $RANK = 0 && size=4K || size=much; exec " AORTA_PROGRAM SMALL_OVERLAP
                "--comm-size $size'",
                2, "--comm-size \"much\"");
    expect_soon("launch -n 2 -- sh -c 'test $RANK = 0 && size=4K || size=1; exec " AORTA_PROGRAM
                " hwq run-priority P1 --device cpu --iterations 2 --set comms_compute_overlap.mm-dim=16 "
                "comms_compute_overlap.comm-size=$size'",
                2, "several ranks cannot continue with the next workload");
}

static void test_mistakes_are_named(void **state) {
    (void)state;
    expect("hwq run tiny_kernel", 2, "did you mean \"tiny_kernel_stress\"");
    expect("hwq run", 2, "the workload comes first");
    expect("hwq run large_gemm_only --streams 17 --device cpu", 2, "runs on 1 to 16 streams");
    expect("hwq run tiny_kernel_stress --gate --sync-mode none --device cpu", 2, "--gate");
    expect("hwq run tiny_kernel_stress --backend mpi --device cpu", 2, "has no collectives");
    expect("hwq run tiny_kernel_stress --device tpu", 2, "tpu");
    expect("hwq run tiny_kernel_stress -o /proc/nowhere/x.json --device cpu", 2, "--output");
    expect("hwq run tiny_kernel_stress --stamps /proc/nowhere/x.json --device cpu", 2, "--stamps");
    expect("hwq sweep tiny_kernel_stress --stamps x.json --device cpu", 2, "keeps the stamps of one run");
    expect("hwq run-priority P0 --stamps x.json --device cpu", 2, "keeps the stamps of one run");
    expect("hwq run moe --device cpu -o missing/", 2, "--output: missing/ is a directory; name a file");
    expect("hwq info", 0, "GPU_MAX_HW_QUEUES is not set: ROCm has 4 for each priority");
    expect("hwq run comms_compute_overlap --process-groups [0,1 --device cpu", 2, "--process-groups");
    expect("hwq run comms_compute_overlap --comm-size much --device cpu", 2, "--comm-size \"much\"");
    expect("hwq run-priority P9", 2, "unknown group \"P9\"; the groups are P0");
    expect("hwq run large_gemm_only --streams 4,8 --device cpu --iterations 1", 2, "hwq run takes one number");
    expect("hwq run-priority P0 --set size=3", 2, "WORKLOAD.OPTION=VALUE is expected");
    expect("hwq run-priority P0 --set hetero_kernel.size=3", 2, "did you mean \"hetero_kernels\"");
    expect("hwq run-priority P0 --set hetero_kernels.sise=3", 2, "did you mean \"size\"");
    expect("hwq run-priority P0 --set hetero_kernels.size=big", 2, "--set hetero_kernels.size=big: ");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list_shows_the_workloads),
        cmocka_unit_test(test_a_run_explains_itself_and_leaves_a_file),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_advice_is_for_what_is_left),
        cmocka_unit_test(test_a_sweep_shows_scaling),
        cmocka_unit_test(test_ranks_really_communicate),
        cmocka_unit_test(test_collectives_alone),
        cmocka_unit_test(test_groups_may_overlap),
        cmocka_unit_test(test_a_group_runs),
        cmocka_unit_test(test_a_group_sweeps),
        cmocka_unit_test(test_sizes_of_a_cpu),
        cmocka_unit_test(test_keys_of_the_original),
        cmocka_unit_test(test_a_directory_belongs_to_one_job),
        cmocka_unit_test(test_a_backend_is_for_those_that_have_collectives),
        cmocka_unit_test(test_a_group_goes_on_after_a_failure),
        cmocka_unit_test(test_a_rank_that_fails_ends_the_others),
        cmocka_unit_test(test_mistakes_are_named),
    };
    return cmocka_run_group_tests(tests, e2e_open, e2e_close);
}
