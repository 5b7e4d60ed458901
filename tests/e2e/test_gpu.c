/* The trainer on GPUs that do not exist: CUDA's driver, NCCL and cuBLASLt are stand-ins (tests/fake_gpu, fake_nccl,
 * ops/emulator), and kernels do nothing. The tests check what a run does when something is missing or breaks. FAKES
 * are their folders, WRONG is one with libraries by the right names that hold nothing. */
#include "base/files.h"
#include "check.h"
#include "run.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 6 };

static int begin(void **state) {
    (void)state;
    e2e_use_fake_gpu(FAKES);
    unsetenv("FAKE_GPU_STRIKE");
    unsetenv("FAKE_GPU_STRIKE_RANK");
    return 0;
}

#define CUDA "device.kind=cuda "
#define SYMMETRIC "fsdp.symmetric_memory=true fsdp.use_orig_params=false "

/* Compiling takes seconds in which nothing else is to be seen; a second run finds what the first one cached. */
static void test_first_run_reports_compiling(void **state) {
    (void)state;
    char cache[300];
    snprintf(cache, sizeof cache, "%s/first", e2e_workspace());
    setenv("AORTA_CACHE_DIR", cache, 1);
    for (int again = 0; again < 2; again++) {
        struct e2e_run run;
        e2e_train_well(&run, 1, STEPS, CUDA);
        const char *message =
            strstr(run.output, "the first step compiles kernels for this kind of GPU; later runs find them in ");
        if ((message != NULL) == again) fail_msg("run %d: %s", again, run.output);
        if (message) assert_non_null(strstr(message, cache));
        e2e_free(&run);
    }
}

/* Everything that the trainer asks of a GPU's driver, in a run that ends well. */
static void test_runs(void **state) {
    (void)state;
    static const struct {
        int ranks;
        const char *words;
    } cases[] = {
        {1, ""},
        {2, "compile.enabled=true compile.fullgraph=true"},
        {2, "distributed.mode=ddp compile.enabled=true compile.fullgraph=true training.mixed_precision=bf16"},
        {2, "workload.gemm_chunks=3 workload.async_wait=true workload.occupancy_cap=0.5"},
        {2, "workload.async_wait=true compile.enabled=true compile.fullgraph=true"},
        {2, SYMMETRIC},
        {2, SYMMETRIC "compile.enabled=true compile.fullgraph=true training.mixed_precision=bf16"},
        {2, SYMMETRIC "fsdp.sharding_strategy=hybrid_shard fsdp.hybrid_shard_gpus_per_node=2"},
        {2, SYMMETRIC "training.gradient_accumulation=2 training.batch_size=2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct e2e_run run;
        char words[256];
        snprintf(words, sizeof words, CUDA "%s", cases[i].words);
        e2e_train_well(&run, cases[i].ranks, STEPS, words);
        assert_string_equal(json_string_value(e2e_get(e2e_line(&run, 0, 0), "device")), "cuda");
        e2e_free(&run);
    }
}

/* ---- times from records ---- */

static int64_t time_of(const json_t *profile, size_t range, const char *key) {
    const json_t *at = json_array_get(e2e_get(profile, "ranges"), range);
    return json_integer_value(e2e_get(profile, "origin_ns")) + llround(e2e_number(at, key) * 1e6);
}

/* A line's ranges begin with their first kernel and end with their last one; the number of its kernels. */
static int check_records(const json_t *line) {
    const json_t *ranges = e2e_get(line, "profile"), *kernels = e2e_get(line, "kernel_profile");
    const size_t count = json_array_size(e2e_get(kernels, "ranges"));
    int within = 0;
    for (size_t r = 0; r < json_array_size(e2e_get(ranges, "ranges")); r++) {
        bool begins = false, ends = false;
        for (size_t k = 0; k < count; k++) {
            begins |= time_of(kernels, k, "start_ms") == time_of(ranges, r, "start_ms");
            ends |= time_of(kernels, k, "end_ms") == time_of(ranges, r, "end_ms");
        }
        assert_true(begins && ends);
    }
    for (size_t k = 0; k < count; k++)
        within += json_object_get(e2e_get(json_array_get(e2e_get(kernels, "ranges"), k), "metadata"), "range") != NULL;
    assert_int_equal(within, (int)e2e_number(line, "kernel_profile.attributed"));
    assert_true(within > (int)count * 2 / 3); /* what begins and ends a step is in no range */
    return (int)count;
}

/* The last step draws no batch for a next one. */
static int model_ranges(const json_t *line) {
    const struct e2e_filter computing = {.kind = "compute"}, drawing = {.function = "draw_batch"};
    return e2e_count(line, computing) - e2e_count(line, drawing);
}

/* Captured or not, all steps do the same, and every kernel but those between the ranges is known by its range. */
static void test_times_come_from_records(void **state) {
    (void)state;
    static const struct {
        int ranks;
        const char *words;
    } rows[] = {
        {1, "--kernel-timing"},
        {2, "--kernel-timing"},
        {1, "compile.enabled=true compile.fullgraph=true"},
        {2, "compile.enabled=true compile.fullgraph=true"},
        {2, "distributed.mode=ddp compile.enabled=true compile.fullgraph=true --kernel-timing"},
        {2, "streams.count=1 compile.enabled=true"},
        {2, "workload.async_wait=true training.gradient_accumulation=2 training.batch_size=2 compile.enabled=true"},
    };
    setenv("AORTA_LIBRARY_PATH", FAKES ":" FAKE_CUPTI, 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct e2e_run run;
        char words[256];
        snprintf(words, sizeof words, CUDA "%s", rows[i].words);
        e2e_train_well(&run, rows[i].ranks, STEPS, words);
        const struct e2e_filter communicating = {.kind = "collective"};
        for (int rank = 0; rank < rows[i].ranks; rank++) {
            const json_t *second = e2e_line(&run, rank, 1);
            const int kernels = check_records(second);
            for (size_t step = 2; step < STEPS; step++) {
                const json_t *line = e2e_line(&run, rank, step);
                assert_true(check_records(line) >= kernels - 4); /* copies of inputs come and go */
                assert_int_equal(model_ranges(line), model_ranges(second));
                assert_int_equal(e2e_count(line, communicating), e2e_count(second, communicating));
            }
        }
        e2e_free(&run);
    }
}

/* On HIP from rocprofiler-sdk, which numbers no nodes: steps that are captured have timestamps. */
static void test_times_come_from_rocprofiler(void **state) {
    (void)state;
    static const char hip[] = HIP_FORWARDER ":" FAKES;
    struct e2e_run run;
    setenv("AORTA_LIBRARY_PATH", HIP_FORWARDER ":" FAKES ":" FAKE_ROCPROFILER, 1);
    e2e_train_well(&run, 1, STEPS, "device.kind=hip");
    for (size_t step = 1; step < STEPS; step++) assert_true(check_records(e2e_line(&run, 0, step)) > 20);
    assert_string_equal(json_string_value(e2e_get(e2e_line(&run, 0, 0), "device")), "hip");
    e2e_free(&run);
    e2e_train_well(&run, 1, STEPS, "device.kind=hip compile.enabled=true");
    assert_null(json_object_get(e2e_line(&run, 0, 2), "kernel_profile"));
    e2e_expect_output(&run, 0, "records do not say which node of a captured step they are of");
    e2e_free(&run);
    setenv("AORTA_LIBRARY_PATH", hip, 1);
    e2e_train(&run, 1, "device.kind=hip --kernel-timing");
    e2e_expect_output(&run, 1, "kernel tracing (rocprofiler-sdk)");
    e2e_free(&run);
}

/* Records are taken unless some steps are not recorded, or somebody else records. Without them the ranges are measured
 * by timestamps. */
static void test_when_kernels_are_recorded(void **state) {
    (void)state;
    static const struct {
        const char *words, *libraries, *injection;
        bool records;
    } rows[] = {
        {"", FAKES ":" FAKE_CUPTI, NULL, true},
        {"compile.enabled=true", FAKES ":" FAKE_CUPTI, NULL, true},
        {"--no-kernel-timing", FAKES ":" FAKE_CUPTI, NULL, false},
        {"compile.enabled=true --no-kernel-timing", FAKES ":" FAKE_CUPTI, NULL, false},
        {"compile.enabled=true profiling.record_every=2", FAKES ":" FAKE_CUPTI, NULL, false},
        {"compile.enabled=true", WRONG "/cupti:" FAKES, NULL, false},
        {"compile.enabled=true", FAKES ":" FAKE_CUPTI, "/nowhere/libother.so", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct e2e_run run;
        char words[256];
        setenv("AORTA_LIBRARY_PATH", rows[i].libraries, 1);
        if (rows[i].injection) setenv("CUDA_INJECTION64_PATH", rows[i].injection, 1);
        snprintf(words, sizeof words, CUDA "%s", rows[i].words);
        e2e_train_well(&run, 1, STEPS, words);
        unsetenv("CUDA_INJECTION64_PATH");
        for (size_t step = 0; step < STEPS; step += 2) {
            const json_t *line = e2e_line(&run, 0, step);
            if (json_is_object(json_object_get(line, "kernel_profile")) != rows[i].records)
                fail_msg("case %zu, step %zu", i, step);
            assert_true(e2e_count(line, (struct e2e_filter){.kind = "compute"}) > 0);
        }
        if (strstr(rows[i].libraries, WRONG))
            e2e_expect_output(&run, 0, "ranges are measured by timestamps, which are upper bounds: ");
        e2e_free(&run);
    }
    struct e2e_run run;
    setenv("AORTA_LIBRARY_PATH", WRONG "/cupti:" FAKES, 1);
    e2e_train(&run, 1, CUDA "compile.enabled=true --kernel-timing");
    e2e_expect_output(&run, 1, "kernel tracing (CUPTI)");
    e2e_free(&run);
}

/* The device is out of memory for graphs, or a capture breaks: steps go on one by one, and all are recorded. */
static void test_what_cannot_be_captured_runs_eagerly(void **state) {
    (void)state;
    static const char *const strikes[] = {"cuGraphInstantiateWithFlags:1:2:1", "cuStreamEndCapture:1:2:1"};
    for (size_t i = 0; i < sizeof strikes / sizeof *strikes; i++) {
        struct e2e_run run;
        setenv("FAKE_GPU_STRIKE", strikes[i], 1);
        e2e_train_well(&run, 1, STEPS, CUDA "compile.enabled=true");
        e2e_expect_output(&run, 0, "the step is not captured and runs eagerly: ");
        assert_int_equal(e2e_count(e2e_line(&run, 0, STEPS - 1), (struct e2e_filter){.tag = "root"}),
                         e2e_count(e2e_line(&run, 0, 1), (struct e2e_filter){.tag = "root"}));
        e2e_free(&run);
    }
    unsetenv("FAKE_GPU_STRIKE");
}

/* The next step's input is copied beside the first step, which is not captured, and takes longer than that. */
static void test_a_step_ends_with_its_copies(void **state) {
    (void)state;
    struct e2e_run run;
    e2e_train_well(&run, 1, STEPS,
                   CUDA
                   "dataloader.device=host compile.enabled=true dataset.sparse_features=10000 training.batch_size=200 "
                   "dataset.num_samples=2000 dataloader.num_workers=2 dataloader.prefetch_factor=3 "
                   "model.model_dim=1 model.num_heads=1 model.mlp_hidden_dim=1 model.num_layers=1 "
                   "model.embedding_dim=1 model.num_dense_features=1 model.dense_dim=1 "
                   "dataset.num_dense_features=1 dataset.dense_dim=1");
    e2e_free(&run);
}

/* Products as small as these do not pay for one more concurrent collective. */
static void test_a_small_root_unit_is_reduced_at_once(void **state) {
    (void)state;
    const struct e2e_filter root = {.function = "reduce_scatter", .tag = "root"};
    struct e2e_run run;
    e2e_train_well(&run, 2, STEPS, CUDA);
    for (size_t step = 0; step < STEPS; step++) assert_int_equal(e2e_count(e2e_line(&run, 0, step), root), 1);
    e2e_free(&run);
}

/* Every third step: either slot has recorded and unrecorded steps, and a graph for each, which is replayed. */
static void test_some_steps_recorded(void **state) {
    (void)state;
    enum { MANY = 16 };
    struct e2e_run run;
    e2e_train_well(&run, 2, MANY,
                   CUDA "training.max_steps=16 dataset.num_samples=400 profiling.record_every=3 compile.enabled=true "
                        "compile.fullgraph=true");
    for (size_t step = 0; step < MANY; step++) {
        const json_t *line = e2e_line(&run, 0, step);
        assert_int_equal(json_is_null(e2e_get(line, "profile")), step % 3 != 0);
        if (step % 3 == 0) assert_true(e2e_count(line, (struct e2e_filter){.kind = "collective"}) > 0);
    }
    e2e_free(&run);
}

static void test_copies_beside_compute(void **state) {
    (void)state;
    struct e2e_run run;
    e2e_train_well(&run, 1, STEPS, CUDA "workload.async_wait=true");
    const json_t *line = e2e_line(&run, 0, 4);
    assert_int_equal(e2e_count(line, (struct e2e_filter){"copy_output", NULL, "aux", "copy"}), 3);
    assert_int_equal(e2e_count(line, (struct e2e_filter){"await_copy", NULL, "compute", "compute"}), 3);
    e2e_free(&run);
}

static void test_a_share_too_small(void **state) {
    (void)state;
    struct e2e_run run;
    e2e_train(&run, 1, CUDA "workload.occupancy_cap=0.3");
    e2e_expect_output(&run, 1,
                      "workload.occupancy_cap: stream compute: a share of 0.3 of the device's 4 multiprocessors is "
                      "less than it can set apart: 2, a share of 0.5");
    e2e_free(&run);
}

static void test_device_metrics(void **state) {
    (void)state;
    struct e2e_run run;
    e2e_train_well(&run, 2, STEPS, CUDA "--device-metrics --enable-rocm-metrics");
    for (int rank = 0; rank < 2; rank++) {
        const json_t *line = e2e_line(&run, rank, STEPS - 1);
        assert_true(e2e_number(line, "device_metrics.temperature_c") == 41);
        assert_true(e2e_number(line, "device_metrics.power_w") == 123.5);
        assert_true(e2e_number(line, "device_metrics.age_ms") >= 0);
        assert_true(json_is_null(e2e_get(line, "device_metrics.utilization")));
        assert_non_null(e2e_get(line, "device_metrics.null_reasons.utilization"));
        assert_true(json_is_null(e2e_get(line, "rocm_smi_output")));
        assert_string_equal(json_string_value(e2e_get(line, "null_reasons.rocm_smi_output")),
                            "ROCm SMI reads AMD GPUs; this run is on the cuda device");
    }
    e2e_free(&run);
}

/* ---- what is missing, and what breaks ---- */

static const struct {
    const char *what, *strike; /* the latter on the last rank; NULL: nothing */
    const char *wrong;         /* the library that is not what its name says */
    int ranks;
    const char *words;
    const char *messages[3];
} cases[] = {
    {"a model too large",
     NULL,
     NULL,
     1,
     "model.vocab_size=20000000",
     {"parameter shards: 1.49 GiB of device memory do not fit on cuda:0", "MiB free"}},
    {"a model too large",
     NULL,
     NULL,
     2,
     "model.vocab_size=20000000",
     {"of device memory do not fit on cuda:0", "MiB free", "shards"}},
    {"a batch too large",
     NULL,
     NULL,
     1,
     "training.batch_size=4000 dataset.num_samples=4000 model.model_dim=768 model.num_heads=6",
     {"model (batch 4000", "activations", "MiB free"}},
    {"a device that others fill",
     "cuMemAlloc_v2:14:2:1",
     NULL,
     1,
     "",
     {"activations", "of device memory do not fit on cuda:0", "free"}},
    {"a device that others fill",
     "cuMemAlloc_v2:5:2:1",
     NULL,
     2,
     "",
     {"[rank 1] error: step state: ", "of device memory do not fit on cuda:0", "rank 1 ended with exit status 1"}},
    {"no page-locked memory", "cuMemHostAlloc:6:2:1", NULL, 1, "", {"page-locked"}},
    {"no NCCL",
     NULL,
     "nccl",
     2,
     "",
     {"collectives between NVIDIA GPUs", "libnccl.so.2 is too old or not the right library", "apt install libnccl2"}},
    {"no NVRTC",
     NULL,
     "nvrtc",
     1,
     "",
     {"compiler of GPU kernels", "libnvrtc.so.13 is too old or not the right library", "device.kind cpu"}},
    {"no cuBLASLt",
     NULL,
     "blas",
     1,
     "",
     {"matrix products", "libcublasLt.so.13 is too old or not the right library", "libcublas"}},
    {"a launch fails", "cuLaunchKernel:300:719:1", NULL, 1, "", {"step ", ": kernel ", "CUDA_ERROR_LAUNCH_FAILED"}},
    {"a launch fails",
     "cuLaunchKernel:300:719:1",
     NULL,
     2,
     "",
     {"[rank 1] error: step ", "CUDA_ERROR_LAUNCH_FAILED", "rank 1 ended with exit status 1, in step "}},
    {"a copy fails",
     "cuMemcpyAsync:60:700:1",
     NULL,
     2,
     "",
     {"[rank 1] error: ", "CUDA_ERROR_ILLEGAL_ADDRESS", "rank 1 ended with exit status 1"}},
    {"a graph fails",
     "cuGraphLaunch:2:719:1",
     NULL,
     1,
     "compile.enabled=true",
     {"step 2: stream compute: graph: CUDA_ERROR_LAUNCH_FAILED"}},
    {"a graph fails",
     "cuGraphLaunch:2:719:1",
     NULL,
     2,
     "compile.enabled=true distributed.mode=ddp",
     {"[rank 1] error: step 2: stream compute: graph: CUDA_ERROR_LAUNCH_FAILED", "[rank 0] error: step ",
      "rank 1 ended with exit status 1, in step 3"}},
    {"the device is lost",
     "cuEventSynchronize:3:700:1",
     NULL,
     1,
     "",
     {"step ", "stream end of the step failed", "CUDA_ERROR_ILLEGAL_ADDRESS"}},
    {"the device is lost",
     "cuEventSynchronize:3:700:1",
     NULL,
     2,
     "",
     {"[rank 1] error: step ", "CUDA_ERROR_ILLEGAL_ADDRESS", "rank 1 is gone"}},
};

static void prepare(size_t i) {
    char text[6 * PATH_MAX];
    begin(NULL);
    if (cases[i].strike) setenv("FAKE_GPU_STRIKE", cases[i].strike, 1);
    if (cases[i].ranks > 1) setenv("FAKE_GPU_STRIKE_RANK", "1", 1);
    if (!cases[i].wrong) return;
    snprintf(text, sizeof text, "%s/cache_without", e2e_workspace()); /* no kernel is compiled yet */
    setenv("AORTA_CACHE_DIR", text, 1);
    snprintf(text, sizeof text, "%s/%s:%s", WRONG, cases[i].wrong, FAKES);
    setenv("AORTA_LIBRARY_PATH", text, 1);
}

static void test_failures(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct e2e_run run;
        char words[256];
        snprintf(words, sizeof words, CUDA "distributed.timeout_s=120 %s", cases[i].words);
        prepare(i);
        e2e_train(&run, cases[i].ranks, words);
        for (int m = 0; m < 3 && cases[i].messages[m]; m++)
            if (!strstr(run.output, cases[i].messages[m]))
                fail_msg("%s, %d ranks: no \"%s\" in: %s", cases[i].what, cases[i].ranks, cases[i].messages[m],
                         run.output);
        if (run.exit_code != 1) fail_msg("%s: exit %d, printed: %s", cases[i].what, run.exit_code, run.output);
        if (run.seconds > 60) fail_msg("%s, %d ranks: took %.1f s", cases[i].what, cases[i].ranks, run.seconds);
        e2e_free(&run);
    }
}

static void test_what_kernels_cannot_take(void **state) {
    (void)state;
    struct e2e_run run;
    e2e_train(&run, 1, CUDA "model.model_dim=256 model.num_heads=1");
    e2e_expect_output(&run, 2, "model.num_heads: heads of 256 elements");
    e2e_free(&run);
}

/* Where symmetric memory is asked for and not available, the message says why. */
static void test_no_symmetric_memory(void **state) {
    (void)state;
    static const struct {
        const char *libraries, *message;
    } rows[] = {
        {FAKES, "NCCL makes no symmetric memory here: the GPUs of the 2 ranks cannot reach each other's"},
        {OLD_NCCL ":" FAKES, "symmetric memory needs the windows of NCCL 2.27, which version 2.17.8 has not"},
    };
    setenv("FAKE_NCCL_NO_WINDOWS", "1", 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct e2e_run run;
        setenv("AORTA_LIBRARY_PATH", rows[i].libraries, 1);
        e2e_train(&run, 2, CUDA SYMMETRIC);
        e2e_expect_output(&run, 1, rows[i].message);
        e2e_expect_output(&run, 1, "fsdp.symmetric_memory: parameter shards: ");
        e2e_free(&run);
    }
    unsetenv("FAKE_NCCL_NO_WINDOWS");
}

/* Without its tracer a workload is measured, its result is written, and the exit code says so. */
static void test_no_recording(void **state) {
    (void)state;
    struct e2e_run run;
    char text[1024];
    begin(NULL);
    setenv("AORTA_LIBRARY_PATH", WRONG "/cupti:" FAKES, 1);
    snprintf(text, sizeof text,
             "hwq run tiny_kernel_stress --device cuda --iterations 2 --warmup 1 --chains 2 --profile --profile-dir "
             "%s/recorded --output %s/result.json",
             e2e_workspace(), e2e_workspace());
    e2e_start_command(&run, text);
    e2e_finish(&run);
    e2e_expect_output(&run, 1, "nothing was recorded (--profile): tiny_kernel_stress:");
    snprintf(text, sizeof text, "%s/result.json", e2e_workspace());
    json_t *result = json_load_file(text, 0, NULL);
    assert_int_equal(json_array_size(json_object_get(result, "iteration_times_ms")), 2);
    json_decref(result);
    snprintf(text, sizeof text, "%s/recorded", e2e_workspace());
    assert_int_not_equal(access(text, F_OK), 0);
    e2e_free(&run);
}

/* The tracer runs from the warm-up of a cycle to its last step, and not in the steps between: their lines have no
 * kernels, and the library was switched once for each cycle. */
static void test_tracer_follows_the_schedule(void **state) {
    (void)state;
    static const struct {
        const char *words, *steps, *switches;
    } rows[] = {
        {"profiling.wait=2 profiling.warmup=1 profiling.active=1 profiling.repeat=1 --no-kernel-timing", "--kk----",
         "on off on off "},
        {"profiling.wait=2 profiling.warmup=0 profiling.active=1 profiling.repeat=0 --no-kernel-timing", "--k--k--",
         "on off on off on off "},
        {"profiling.wait=0 profiling.warmup=1 profiling.active=1 profiling.repeat=1 --no-kernel-timing", "kk------",
         "on off "},
        {"profiling.wait=3 profiling.warmup=2 profiling.active=9 profiling.repeat=1 --no-kernel-timing", "---kkkkk",
         "on off on off "},
        {"profiling.wait=2 profiling.warmup=1 profiling.active=1 profiling.repeat=1 compile.enabled=true "
         "--no-kernel-timing",
         "kkkk----", "on off "}, /* graphs are captured early on, and anew with timestamps */
        {"profiling.wait=2 profiling.warmup=1 profiling.active=1 profiling.repeat=1 compile.enabled=true", "kkkkkkkk",
         "on off "},
    };
    setenv("AORTA_LIBRARY_PATH", FAKES ":" FAKE_CUPTI, 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct e2e_run run;
        char words[256], log[300], *text;
        size_t length;
        snprintf(log, sizeof log, "%s/switches_%zu", e2e_workspace(), i);
        setenv("FAKE_CUPTI_LOG", log, 1);
        snprintf(words, sizeof words, CUDA "training.epochs=4 training.max_steps=8 profiling.enabled=true %s",
                 rows[i].words);
        e2e_train_well(&run, 1, (int)strlen(rows[i].steps), words);
        for (int step = 0; rows[i].steps[step]; step++) {
            const json_t *kernels = json_object_get(e2e_line(&run, 0, step), "kernel_profile");
            bool traced = json_is_object(kernels);
            if (traced != (rows[i].steps[step] == 'k')) fail_msg("case %zu, step %d", i, step);
            if (e2e_count(e2e_line(&run, 0, (size_t)step), (struct e2e_filter){.kind = "compute"}) < 4)
                fail_msg("case %zu, step %d has few ranges", i, step);
        }
        check_ok(aorta_file_read(log, &text, &length));
        for (size_t at = 0; at < length; at++)
            if (text[at] == '\n') text[at] = ' ';
        assert_string_equal(text, rows[i].switches); /* opening it switches it on, to see whether it is available */
        free(text);
        e2e_free(&run);
    }
    unsetenv("FAKE_CUPTI_LOG");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_first_run_reports_compiling, begin),
        cmocka_unit_test_setup(test_runs, begin),
        cmocka_unit_test_setup(test_times_come_from_records, begin),
        cmocka_unit_test_setup(test_times_come_from_rocprofiler, begin),
        cmocka_unit_test_setup(test_when_kernels_are_recorded, begin),
        cmocka_unit_test_setup(test_what_cannot_be_captured_runs_eagerly, begin),
        cmocka_unit_test_setup(test_a_step_ends_with_its_copies, begin),
        cmocka_unit_test_setup(test_a_small_root_unit_is_reduced_at_once, begin),
        cmocka_unit_test_setup(test_some_steps_recorded, begin),
        cmocka_unit_test_setup(test_copies_beside_compute, begin),
        cmocka_unit_test_setup(test_a_share_too_small, begin),
        cmocka_unit_test_setup(test_what_kernels_cannot_take, begin),
        cmocka_unit_test_setup(test_no_symmetric_memory, begin),
        cmocka_unit_test_setup(test_device_metrics, begin),
        cmocka_unit_test_setup(test_tracer_follows_the_schedule, begin),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_no_recording),
    };
    return cmocka_run_group_tests(tests, e2e_open, e2e_close);
}
