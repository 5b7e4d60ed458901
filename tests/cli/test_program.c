#include "check.h"
#include "place.h"

#include <jansson.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs the program with these words; both outputs together. */
static int run(const char *words, char output[], size_t capacity) {
    char command[1024];
    snprintf(command, sizeof command, "%s 2>&1 %s", AORTA_PROGRAM, words); /* words may redirect the output again */
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t length = fread(output, 1, capacity - 1, pipe);
    output[length] = '\0';
    int status = pclose(pipe);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static const struct {
    const char *words;
    int exit_code;
    const char *output; /* a part of it */
} calls[] = {
    {"", 2, "Usage: aorta COMMAND"},
    {"--help", 0, "Commands:\n  info "},
    {"help", 0, "Commands:\n  info "},
    {"--version", 0, "aorta 0."},
    {"--version", 0, "\nLicense: MIT, the AORTA authors\n"},
    {"sdma --help | grep -c full-names", 1, "0\n"}, /* it prints no kernels */
    {"trace analyze --help | grep -c full-names", 0, "1\n"},
    {"help info", 0, "Usage: aorta info [--json]"},
    {"info --help", 0, "print one JSON object"},
    {"help serialized_streams", 0, "serialized streams of KIND (serialized_streams)\n"},
    {"help fussion", 2, "unknown command or cause \"fussion\"; did you mean \"aorta help fusion\"?"},
    {"help verdict", 0, "  all fixes     the step with all fixes together;"},
    {"help verdict", 0, "\n  host_launch         late kernel launches\n"},
    {"help", 0, "(aorta help verdict lists them)"},
    {"help 'late kernel launches'", 0, "late kernel launches (host_launch)\n"},
    {"help 'Exposed all_gather'", 0, "exposed KIND (exposed_collective)\n"},
    {"help 'exposed copies'", 0, "exposed copies (copy)\n"},
    {"help 'straggler rank 3'", 0, "straggler (straggler)\n"},
    {"help copy | grep -c pin_memory=true", 0, "1\n"},               /* each fix once */
    {"help host_launch | grep -c '^                - '", 0, "14\n"}, /* one line begins at each label */
    {"help host_launch", 0, "- if the program infers (no backward pass or optimizer) and most attention has one\n"},
    {"help few_blocks", 0, "  C, MPI        - if streams take turns"},
    {"help few_blocks", 0, "- if blocks have fewer threads than a warp: launch blocks of 128"},
    {"help copy", 0, "- if copies take far longer than kernels and the largest copies are of pageable"},
    {"help host_launch", 0, "- if parameters are sharded (FSDP): launch less:"},
    {"help --words help | grep -c '^\\(host_launch\\|verdict\\|trace\\)'", 0, "3\n"},
    {"help --words trace analyze", 0,
     "--color\tcolors; auto: on a terminal, unless NO_COLOR is set\tauto always never\n"},
    {"help --man trace analyze", 0, "\\fB\\-\\-full\\-names\\fR\nprint whole names"},
    {"help straggler", 0, "the device of the late\n"},
    {"help straggler", 0, "straggler (straggler)\n"},
    {"help train", 0, "Usage: aorta train"},
    {"sdma --help", 0, "to this file; its directory is created if\n"},
    {"help launch", 0, "Usage: aorta launch"},
    {"help report", 0, "Usage: aorta report"},
    {"inof", 2, "aorta: unknown command \"inof\"; did you mean \"aorta info\"?"},
    {"hwq", 2, "  compare      compares results, with confidence intervals"},
    {"trace", 2, "aorta: name a command of aorta trace\n"},
    {"hwq run", 2, "aorta: the workload comes first: aorta hwq run WORKLOAD [OPTIONS]"},
    {"hwq --help", 0, "Commands:\n"},
    {"hwq run-priority --help", 0, "      --set WORKLOAD.OPTION=VALUE …\n"},
    {"hwq comapre", 2, "aorta: unknown command \"comapre\"; did you mean \"aorta hwq compare\"?"},
    {"hwq compare --test a.json", 2, "--baseline"},
    {"hwq compare --baseline /nowhere --test a.json", 2, "--baseline: /nowhere: cannot be read: No such file"},
    {"hwq compare --baseline " HWQ_DATA " --test " HWQ_DATA, 0, "  compared    1 pair, 1 unchanged (threshold 5%"},
    {"hwq compare --baseline " HWQ_DATA " --test " HWQ_DATA " --threshold -1", 2, "--threshold: found \"-1\""},
    {"hwq compare --baseline " HWQ_DATA " --test " HWQ_DATA " --json", 0, "\"change\": \"unchanged\""},
    {"hwq compare -q --baseline " HWQ_DATA " --test " HWQ_DATA " --json", 0, "\"key\": \"threshold\""},
    {"hwq compare --baseline " HWQ_DATA " --test $(sed '1s/{/{\"schema_version\": 99,/' " HWQ_DATA
     " > /tmp/aorta_version_$$; echo /tmp/aorta_version_$$); rm /tmp/aorta_version_*",
     0, "schema_version is 99; this program reads up to 1"},
    {"hwq map --device cpu --streams 3 --copy-mb 1", 0, "Queues: no two of 6 streams share one: on the CPU device"},
    {"hwq map --device cpu --streams 3 --copy-mb 1", 0, "copies      2 streams of normal priority: 2 queues"},
    {"train", 2, "--config FILE is needed: config/quickstart.yaml runs without a GPU"},
    {"launch -n 2 -- train --config x.yaml", 2, "train: no such program in PATH; write aorta train"},
    {"trace run --all --dry-run -- true", 0, "true"},
    {"trace run -- /nowhere/python", 2, "/nowhere/python: no such program\n"},
    {"sweep --read .", 2, ". holds no trials.jsonl and no runs; name the directory that a sweep wrote"},
    {"sweep --compare . .", 2, ". holds no trials.jsonl and no runs; name the directory that a sweep wrote"},
    {"sweep --hwq nothing --grid streams=1,2 -o /tmp/aorta_never", 2, "--hwq: unknown workload \"nothing\""},
    {"trace watch $(mktemp -d) --once", 1, " holds no window; aorta trace run --every SECONDS --into /"},
    {"trace analyze " HWQ_DATA, 2,
     " is JSON, but no trace: it has no key traceEvents (PyTorch, Kineto, aorta) or rocprofiler-sdk-tool"},
    {"trace watch /nowhere --once", 2, "/nowhere: no such folder; name the one of aorta trace run --into"},
    {"sweep --read . -o elsewhere", 2, "--output has no effect with --read, which runs nothing"},
    {"sweep --compare . . --repeats 3", 2, "--repeats has no effect with --compare, which runs nothing"},
    {"hwq profile --trace . --output elsewhere", 2, "--output has no effect with --trace, which runs nothing"},
    {"help config compile", 0, "  compile.enabled (default: false)"},
    {"help config fsdp.forward_prefetch", 0, "  fsdp.forward_prefetch (default: true)"},
    {"help config fdsp", 2, "there is no section or key \"fdsp\"; `aorta help config` lists them"},
    {"help config fsdp model", 2, "unexpected argument \"model\""},
    {"hwq list -c games", 2, "--category: found \"games\"; expected latency_sensitive"},
    {"hwq list -v -c pipeline", 0, "zero_offload"},
    {"help config | grep -c '.\\{101\\}'", 1, "0\n"}, /* lines fit a terminal of 100 columns */
    {"info | grep -c '.\\{101\\}'", 1, "0\n"},
    {"hwq list -v | grep -c '.\\{101\\}'", 1, "0\n"},
    {"hwq info | grep -c '.\\{101\\}'", 1, "0\n"},
    {"hwq info", 0, "aorta hwq list shows the workloads"},
    {"hwq info hetero_kernels", 0, "streams      2 to 64, recommended 8"},
    {"hwq sweep tiny_kernel_stress --streams 4,2,2 --device cpu", 2, "--streams: 2 is given twice; remove one of them"},
    {"hwq sweep hetero_kernels --streams 1,100 --device cpu", 2, "--streams 1, 100: hetero_kernels runs on 2 to 64"},
    {"train --override compile.backend=eager", 2, "expected one of graph (or inductor), fused (or aot_eager)"},
    {"hwq run comms_compute_overlap --device cpu --backend nccl --comm-size 64K --mm-dim 16 --iterations 1 --warmup 0",
     0, "there is one rank: its collectives are copies of the same bytes (backend local)"},
    {"hwq run tiny_kernel_stress --device 0 --iterations 1 --warmup 0 --chains 1 --streams 1", 0,
     "--device 0: there is no GPU here, so this runs on the CPU device"},
    {"hwq map --device cpu --streams 1 --copy-streams 0 --comm-streams 0 --json", 2, "2 to 256 streams"},
    {"hwq map --device gpu", 2, "--device: found \"gpu\"; expected auto"},
    {"hwq map --device cpu:3", 2, "there is no device cpu:3; there is 1, counted from 0"},
    {"hwq map --device cpu --priority middle", 2, "--priority: found \"middle\""},
    {"hwq map --device cpu --streams 2 --copy-mb 0 --output /proc/x/y", 2,
     "--output: the directory /proc/x cannot be made"},
    {"sdma --device cpu --matrix-size 64 --copy-mb 1 --iterations 3", 0, "  ideal       "},
    {"sdma --device cpu --direction p2p", 2, "the CPU device has no peer; it needs two GPUs"},
    {"sdma --direction up", 2, "--direction: found \"up\"; expected one of d2h, h2d, d2d, p2p\n"},
    {"sdma --device cpu --peer 1", 2, "--peer goes with --direction p2p"},
    {"--verbose", 2, "aorta: unknown option \"--verbose\"; aorta --help lists the commands"},
    {"info --jsn", 2, "aorta: unknown option --jsn; did you mean --json?"},
    {"info now", 2, "aorta: unexpected argument \"now\"; usage: aorta info [--json]"},
    {"help inof", 2, "unknown command \"inof\""},
    {"help info now", 2, "unexpected argument \"now\""},
    {"help --markdown", 2, "--markdown goes with config"},
    {"help config", 0, "  training.batch_size (default: 8): an integer from 1 to 1000000\n"},
    {"help sparse", 0, "  PipelineConfig.pipeline (default: base): "},
    {"help sparse --markdown", 0, "## EmbeddingTablesConfig\n"},
    {"help config --markdown", 0, "# Configuration of `aorta train`\n"},
    {"info", 0, "Runs on: "},
    {"info -q | grep -c ''", 0, "1\n"},
    {"info", 0, "GPU software\n  cuda "},
    {"info", 0, "Libraries\n  gemm "},
    {"train --config /nowhere/x.yaml", 2,
     "aorta: cannot read /nowhere/x.yaml: No such file or directory; give the path"},
    {"train --override model.num_heads=7", 2, "model.num_heads: 7 heads do not divide model.model_dim 512"},
    {"train --override training.batch_size=0 optimizer.lr=x", 2,
     "aorta: 2 errors:\n--override training.batch_size=0: "},
    {"train --override training.output_dir=/proc/x", 2, "training.output_dir: the directory /proc/x cannot be made"},
    {"info > /dev/full", 1, "aorta: cannot write to the standard output: No space left on device"},
};

static void test_calls(void **state) {
    (void)state;
    static char output[65536];
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        const char *words = calls[i].words;
        int exit_code = run(words, output, sizeof output);
        if (exit_code != calls[i].exit_code || !strstr(output, calls[i].output))
            fail_msg("aorta %s: exit %d, printed %s", words, exit_code, output);
    }
}

static json_t *info_json(const char *environment) {
    char command[1024];
    snprintf(command, sizeof command, "%s %s info --json", environment, AORTA_PROGRAM);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    json_error_t error;
    json_t *root = json_loadf(pipe, JSON_REJECT_DUPLICATES, &error);
    assert_int_equal(pclose(pipe), 0);
    if (!root) fail_msg("line %d: %s", error.line, error.text);
    return root;
}

static void test_info_as_json(void **state) {
    (void)state;
    json_t *root =
        info_json("RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=29500 "
                  "NCCL_DEBUG=INFO");
    json_t *cpu = json_array_get(json_object_get(root, "devices"), 0);
    assert_string_equal(json_string_value(json_object_get(cpu, "kind")), "cpu");
    assert_true(json_integer_value(json_object_get(cpu, "threads")) >= 1);
    assert_true(json_integer_value(json_object_get(cpu, "memory_bytes")) > 0);
    assert_string_equal(json_string_value(json_object_get(json_object_get(root, "environment"), "NCCL_DEBUG")), "INFO");
    assert_int_equal(json_integer_value(json_object_get(json_object_get(root, "ranks"), "rank")), 1);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(root, "ranks"), "world_size")), 2);
    json_decref(root);
}

/* On the fake GPUs of tests/fake_gpu. */
static void test_info_lists_gpus(void **state) {
    (void)state;
    json_t *root = info_json("AORTA_LIBRARY_PATH=" FAKE_GPU);
    json_t *gpu = json_array_get(json_object_get(root, "devices"), 1);
    assert_string_equal(json_string_value(json_object_get(gpu, "kind")), "cuda");
    assert_string_equal(json_string_value(json_object_get(gpu, "name")), "Fake GPU 0");
    assert_string_equal(json_string_value(json_object_get(gpu, "isa")), "sm_90");
    json_t *cuda = json_object_get(json_object_get(root, "gpu_software"), "cuda");
    assert_true(json_is_null(json_object_get(cuda, "failure")));
    json_t *driver = json_object_get(cuda, "driver");
    assert_string_equal(json_string_value(json_object_get(driver, "version")), "13.0");
    assert_non_null(strstr(json_string_value(json_object_get(driver, "path")), "/tests/fake_gpu/cuda/libcuda.so"));
    assert_int_equal(json_array_size(json_object_get(cuda, "links")), 1);
    json_decref(root);
}

static json_t *missing_of(json_t *root, const char *name) {
    json_t *missing = json_object_get(root, "missing");
    for (size_t i = 0; i < json_array_size(missing); i++) {
        json_t *row = json_array_get(missing, i);
        if (!strcmp(json_string_value(json_object_get(row, "name")), name)) return row;
    }
    return NULL;
}

/* On a machine with a GPU each library is either found or missing; a missing one is listed with the paths tried. */
static void test_info_looks_for_each_library(void **state) {
    static const struct {
        const char *kind, *library;
    } rows[] = {{"cuda", "cuBLASLt"}, {"cuda", "NCCL"}, {"cuda", "CUPTI"},
                {"hip", "hipBLASLt"}, {"hip", "RCCL"},  {"hip", "rocprofiler-sdk"}};
    (void)state;
    json_t *root = info_json("AORTA_LIBRARY_PATH=" FORWARDER ":" FAKE_GPU),
           *software = json_object_get(root, "gpu_software");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *library = json_object_get(json_object_get(software, rows[i].kind), rows[i].library);
        json_t *missing = missing_of(root, rows[i].library);
        assert_true(json_is_object(library));
        assert_true(json_is_null(json_object_get(library, "path")) == (missing != NULL));
        if (!missing) continue;
        const char *where = json_string_value(json_object_get(missing, "get"));
        assert_non_null(strstr(where, "could not be loaded; "));
        assert_non_null(strstr(json_string_value(json_object_get(missing, "searched")), "nothing of it in " FORWARDER));
    }
    json_decref(root);
}

/* Without a PATH no tool is found: each is reported with its cost and its remedy. */
static void test_info_names_what_is_missing(void **state) {
    (void)state;
    json_t *root = info_json("env -u RANK -u WORLD_SIZE PATH=/nowhere");
    json_t *missing = json_object_get(root, "missing");
    assert_int_equal(json_array_size(missing), 2);
    for (size_t i = 0; i < 2; i++) {
        assert_non_null(json_string_value(json_object_get(json_array_get(missing, i), "cost")));
        assert_non_null(strstr(json_string_value(json_object_get(json_array_get(missing, i), "get")), "apt install"));
    }
    json_decref(root);
}

/* A page is one write, so that those of several ranks are whole: each write is a message here. */
static void test_pages_are_whole(void **state) {
    static const char *const words[] = {"hwq list --json", "help config", "hwq list"};
    enum { CAPACITY = 1 << 20, STDIO_BUFFER = 4096, OUTPUT = 9 };
    char *page = malloc(CAPACITY), command[1024];
    (void)state;
    assert_non_null(page);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        int ends[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
        assert_int_equal(dup2(ends[1], OUTPUT), OUTPUT);
        snprintf(command, sizeof command, "%s %s >&%d", AORTA_PROGRAM, words[i], OUTPUT);
        assert_int_equal(system(command), 0);
        close(OUTPUT);
        close(ends[1]);
        ssize_t length = recv(ends[0], page, CAPACITY, 0);
        if (i < 2) assert_true(length > STDIO_BUFFER);
        assert_true(length > 0 && page[length - 1] == '\n');
        assert_int_equal(recv(ends[0], page, CAPACITY, 0), 0); /* nothing more */
        close(ends[0]);
    }
    free(page);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_pages_are_whole),
        cmocka_unit_test(test_info_as_json),
        cmocka_unit_test(test_info_lists_gpus),
        cmocka_unit_test(test_info_looks_for_each_library),
        cmocka_unit_test(test_info_names_what_is_missing),
    };
    return cmocka_run_group_tests(tests, place_enter, place_leave);
}
