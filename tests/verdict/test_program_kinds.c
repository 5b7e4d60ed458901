/* What advice may assume of a program. Two steps of one rank on an H200, whose host launches a kernel every 60 us:
 *
 *     host  |launch     |launch     |launch     |
 *     GPU       |kernel|    |kernel|    |kernel|    late kernel launches */
#include "check.h"
#include "said.h"
#include "samples/kineto.h"
#include "trace/infer.h"
#include "trace/open.h"
#include "verdict/verdict.h"

enum { STEPS = 4, LAYERS = 20, STREAM = 7 };
static const double EVERY_US = 60, STEP_US = LAYERS * 60 + 200;

/* What each layer runs. NULL: nothing. */
struct program {
    const char *operation, *dims, *kernel;
    const char *once, *once_dims; /* an operation of each step */
};

static void add_operation(struct sample_kineto *sample, const char *name, const char *dims, const char *kernel,
                          double at) {
    char args[256], of[64];
    const unsigned id = sample->correlation + 1;
    snprintf(args, sizeof args, "\"External id\": %u, \"Input Dims\": %s", id, dims ? dims : "[]");
    snprintf(of, sizeof of, "\"External id\": %u", id);
    sample_kineto_event(sample, "cpu_op", name, 1, at - 5, 10, args);
    sample_kineto_kernel(sample, kernel, STREAM, at, at + 6, 20, of);
}

static void add_step(struct sample_kineto *sample, const struct program *program, int step) {
    char name[32];
    const double begin = 10000 + step * STEP_US;
    for (int i = 0; i < LAYERS; i++)
        add_operation(sample, program->operation, program->dims, program->kernel, begin + i * EVERY_US);
    if (program->once)
        add_operation(sample, program->once, program->once_dims, "kernel_of_it", begin + LAYERS * EVERY_US);
    add_operation(sample, "aten::mul", NULL, "elementwise_mul", begin + (LAYERS + 1) * EVERY_US);
    snprintf(name, sizeof name, "ProfilerStep#%d", step);
    sample_kineto_event(sample, "user_annotation", name, 1, begin - 10, STEP_US - 20, "");
}

static struct aorta_trace_list list;
static struct aorta_trace_analysis analysis;
static struct aorta_verdict verdict;

static const struct aorta_finding *begin(const struct program *program, enum aorta_cause cause) {
    struct sample_kineto sample;
    sample_kineto_begin(&sample, 0, 1);
    for (int step = 0; step < STEPS; step++) add_step(&sample, program, step);
    sample_kineto_open(&sample, &list);
    check_ok(aorta_trace_analyze(&list, NULL, &analysis));
    check_ok(aorta_verdict_make(&analysis, &verdict));
    const struct aorta_finding *found = aorta_verdict_find(&verdict, cause);
    assert_non_null(found);
    return found;
}

static void end(void) {
    aorta_verdict_free(&verdict);
    aorta_trace_analysis_free(&analysis);
    aorta_trace_list_free(&list);
    list = (struct aorta_trace_list){0};
}

static bool finds(const struct program *program, enum aorta_fact_key fact) {
    const bool found = aorta_facts_has(&begin(program, AORTA_CAUSE_HOST_LAUNCH)->facts, fact);
    end();
    return found;
}

static const char SDPA[] = "aten::scaled_dot_product_attention", FUSED[] = "fmha_cutlassF", SCORES[] = "softmax_warp";
static const char ALL_QUERIES[] = "[[1, 8, 559, 64], [1, 8, 559, 64]]", ONE[] = "[[1, 8, 1, 64], [1, 8, 559, 64]]";

static void one_query_is_decoding(void **state) {
    (void)state;
    static const struct {
        struct program program;
        bool decodes;
    } rows[] = {
        {{SDPA, ALL_QUERIES, FUSED, NULL, NULL}, false},
        {{SDPA, ONE, FUSED, NULL, NULL}, true},
        {{SDPA, ALL_QUERIES, FUSED, SDPA, ONE}, false}, /* a class token */
        {{"aten::_softmax", "[[1, 8, 1, 559], [], []]", SCORES, NULL, NULL}, true},
        {{"aten::_softmax", "[[1, 8, 559, 559], [], []]", SCORES, NULL, NULL}, false},
        {{"aten::_softmax", "[[1, 1000], [], []]", SCORES, NULL, NULL}, false}, /* of classes */
        {{"aten::cudnn_convolution", "[[32, 3, 8, 8], [16, 3, 3, 3]]", "implicit_convolve_sgemm", NULL, NULL}, false},
        {{"attend", NULL, "flash_fwd_splitkv_kernel", NULL, NULL}, true},
        {{"vllm::attend", NULL, "reshape_and_cache_flash_kernel", NULL, NULL}, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (finds(&rows[i].program, AORTA_FACT_DECODES) != rows[i].decodes) fail_msg("row %zu", i);
}

static void optimizers_are_seen(void **state) {
    (void)state;
    static const char backward[] = "autograd::engine::evaluate_function: MulBackward0";
    static const struct {
        struct program program;
        bool optimizes;
    } rows[] = {
        {{"aten::mul", NULL, "elementwise_mul", NULL, NULL}, false},
        {{backward, NULL, "elementwise_mul", NULL, NULL}, false}, /* gradients alone */
        {{backward, NULL, "elementwise_mul", "Optimizer.step#AdamW.step", NULL}, true},
        {{backward, NULL, "elementwise_mul", "aten::_foreach_add_", NULL}, true},
        {{backward, NULL, "multi_tensor_apply_kernel", NULL, NULL}, true},
        {{"aten::mul", NULL, "addcmul_cuda_scalar", NULL, NULL}, false}, /* as diffusion models do */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (finds(&rows[i].program, AORTA_FACT_OPTIMIZES) != rows[i].optimizes) fail_msg("row %zu", i);
}

static void sharding_is_seen(void **state) {
    (void)state;
    static const struct program plain = {"aten::mul", NULL, "elementwise_mul", "Redistribute", NULL},
                                sharded = {"aten::mul", NULL, "elementwise_mul", "FSDP::pre_forward (layers.0)", NULL};
    assert_false(finds(&plain, AORTA_FACT_SHARDED));
    assert_true(finds(&sharded, AORTA_FACT_SHARDED));
}

/* Each layer has an all_gather that runs alone. DTensor gathers activations by Redistribute. */
static void gathers_are_of_parameters_where_they_are_sharded(void **state) {
    (void)state;
    static const char gather[] = "ncclDevKernel_AllGather_RING_LL", once[] = "aten::mul";
    static const char backward[] = "autograd::engine::evaluate_function: MulBackward0";
    static const struct {
        const char *operation, *once, *advice;
        bool activations;
    } rows[] = {{"FSDP::pre_forward (layers.0)", once, "forward_prefetch=True", false},
                {"FSDP::pre_forward (layers.0)", backward, "forward_prefetch=True", false},
                {"Redistribute", once, "split it and the products around it", true},
                {"c10d::_allgather_base_", backward, "start it earlier, on a separate stream", false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct program program = {rows[i].operation, NULL, gather, rows[i].once, NULL};
        const struct aorta_finding *found = begin(&program, AORTA_CAUSE_EXPOSED_COLLECTIVE);
        assert_int_equal(found->collective, AORTA_ALL_GATHER);
        assert_int_equal(aorta_facts_has(&found->facts, AORTA_FACT_ACTIVATIONS), rows[i].activations);
        said_expect(said_advice(found), rows[i].advice);
        end();
    }
}

/* Loops of OpenACC and OpenMP have names of their own; who writes them captures no graph. A step of 20 loops, each
 * launched 60 us after the one before it. */
static void loops_of_compilers_have_their_own_advice(void **state) {
    (void)state;
    static const struct {
        const char *kernel, *advice;
    } rows[] = {{"solve_42_gpu", "OpenACC's async"},
                {"nvkernel_main_F1L13_1", "OpenACC's async"},
                {"__omp_offloading_10302_main_l18", "OpenMP's nowait"},
                {"solve(float*)", "cudaStreamBeginCapture"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sample_kineto sample;
        sample_kineto_begin(&sample, 0, 1);
        for (int j = 0; j < LAYERS; j++)
            sample_kineto_kernel(&sample, rows[i].kernel, STREAM, 10000 + j * EVERY_US, 10006 + j * EVERY_US, 20, "");
        sample_kineto_open(&sample, &list);
        check_ok(aorta_trace_analyze(&list, NULL, &analysis));
        check_ok(aorta_verdict_make(&analysis, &verdict));
        said_expect(said_advice(said_finding(&verdict, AORTA_CAUSE_HOST_LAUNCH)), rows[i].advice);
        end();
    }
}

/* Experts of a mixture one after the other: a selection, a product, and index_add_. Without one of them masks select
 * for another reason. */
static void loops_over_experts_have_their_own_advice(void **state) {
    (void)state;
#define SELECT "at_cuda_detail::cub::detail::select::DeviceSelectSweepKernel"
#define ADD "at::native::indexFuncLargeIndex"
    static const struct {
        const char *turn[3];
        bool experts;
        const char *advice;
    } rows[] = {{{SELECT, "nvjet_sm90_tst_TNN", ADD}, true, "one grouped product for all experts"},
                {{SELECT, "nvjet_sm90_tst_TNN", "at::native::copy"}, false, "capture the step"},
                {{SELECT, "at::native::copy", ADD}, false, "capture the step"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sample_kineto sample;
        sample_kineto_begin(&sample, 0, 1);
        for (int j = 0; j < 3 * LAYERS; j++)
            sample_kineto_kernel(&sample, rows[i].turn[j % 3], STREAM, 10000 + j * EVERY_US, 10006 + j * EVERY_US, 20,
                                 "");
        sample_kineto_open(&sample, &list);
        check_ok(aorta_trace_analyze(&list, NULL, &analysis));
        check_ok(aorta_verdict_make(&analysis, &verdict));
        const struct aorta_finding *found = said_finding(&verdict, AORTA_CAUSE_HOST_LAUNCH);
        assert_int_equal(aorta_facts_has(&found->facts, AORTA_FACT_EXPERTS), rows[i].experts);
        said_expect(said_advice(found), rows[i].advice);
        end();
    }
}

/* A step of JAX: one graph of three kernels of 40 us; then a loss comes back, and 400 us later the next graph follows.
 */
static void losses_that_are_read_are_named(void **state) {
    (void)state;
    struct sample_kineto sample;
    sample_kineto_begin(&sample, 0, 1);
    for (int i = 0; i < LAYERS; i++) {
        const double at = 10000 + i * 550.0;
        char of_launch[128];
        sample_kineto_kernel(&sample, "loop_multiply_fusion", STREAM, at, at + 5, 40, "");
        snprintf(of_launch, sizeof of_launch, "\"device\": 0, \"stream\": %d, \"correlation\": %u", STREAM,
                 sample.correlation);
        sample_kineto_event(&sample, "kernel", "gemm_fusion_dot_1", STREAM, at + 45, 40, of_launch);
        sample_kineto_event(&sample, "kernel", "input_reduce_fusion", STREAM, at + 85, 40, of_launch);
        snprintf(of_launch, sizeof of_launch, "\"correlation\": %u", ++sample.correlation);
        sample_kineto_event(&sample, "cuda_runtime", "cudaMemcpyAsync", 2, at + 130, 10, of_launch);
        snprintf(of_launch, sizeof of_launch, "\"device\": 0, \"stream\": 8, \"correlation\": %u, \"bytes\": 4",
                 sample.correlation);
        sample_kineto_event(&sample, "gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 8, at + 145, 2, of_launch);
    }
    sample_kineto_open(&sample, &list);
    check_ok(aorta_trace_analyze(&list, NULL, &analysis));
    check_ok(aorta_verdict_make(&analysis, &verdict));
    const struct aorta_finding *found = said_finding(&verdict, AORTA_CAUSE_HOST_LAUNCH);
    said_expect(said_advice(found), "read values a step later");
    assert_true(aorta_facts_has(&found->facts, AORTA_FACT_STEP_VALUES));
    assert_float_equal(aorta_facts_find(&found->facts, AORTA_FACT_LAUNCHES)->value, 2 * LAYERS, 0.1);
    end();
}

/* A launch of a graph, whose kernels run one after the other. */
static void add_graph(struct sample_kineto *sample, const char *kernel, double launch_us) {
    enum { KERNELS = 12 };
    char args[96];
    snprintf(args, sizeof args, "\"correlation\": %u", ++sample->correlation);
    sample_kineto_event(sample, "cuda_runtime", "cudaGraphLaunch", 1, launch_us, 5, args);
    snprintf(args, sizeof args, "\"device\": 0, \"stream\": %d, \"correlation\": %u", STREAM, sample->correlation);
    for (int i = 0; i < KERNELS; i++)
        sample_kineto_event(sample, "kernel", kernel, STREAM, launch_us + 10 + i * EVERY_US, EVERY_US, args);
}

/* xDiT marks its steps as vLLM does. Only a kernel of vLLM makes it an engine. Where a step replays a graph, the
 * launches before the graph are late:
 *
 *   host   launch launch launch launch graph
 *   GPU    kernel ...... kernel ...... |kernel kernel kernel …
 */
static void engines_are_known_by_their_kernels(void **state) {
    (void)state;
    enum { ALONE = 4 };
    static const struct {
        const char *range, *kernel;
        bool replays;
        const char *advice;
    } rows[] = {{"execute_diffusion_1", "at::native::mul", false, "capture the step"},
                {"execute_diffusion_1", "at::native::mul", true, "outside the graphs"},
                {"execute_model_1", "vllm::silu_and_mul", false, "let the engine replay graphs"},
                {"execute_model_1", "vllm::silu_and_mul", true, "while a graph runs"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sample_kineto sample;
        sample_kineto_begin(&sample, 0, 1);
        for (int j = 0; j < STEPS * LAYERS; j++) {
            const double at = 10000 + j * EVERY_US;
            const int layer = j % LAYERS;
            if (!rows[i].replays || layer < ALONE)
                sample_kineto_kernel(&sample, rows[i].kernel, STREAM, at, at + 6, 20, "");
            else if (layer == ALONE)
                add_graph(&sample, rows[i].kernel, at);
            if (layer == 0)
                sample_kineto_event(&sample, "user_annotation", rows[i].range, 1, at - 5, LAYERS * EVERY_US - 10, "");
        }
        sample_kineto_open(&sample, &list);
        check_ok(aorta_trace_mark_steps(&list, NULL));
        check_ok(aorta_trace_analyze(&list, NULL, &analysis));
        check_ok(aorta_verdict_make(&analysis, &verdict));
        assert_int_equal(analysis.ranks[0].trace->steps_by, AORTA_STEPS_BY_ENGINE);
        const struct aorta_finding *found = said_finding(&verdict, AORTA_CAUSE_HOST_LAUNCH);
        assert_int_equal(aorta_facts_has(&found->facts, AORTA_FACT_REPLAYS), rows[i].replays);
        said_expect(said_advice(found), rows[i].advice);
        end();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_query_is_decoding),
        cmocka_unit_test(optimizers_are_seen),
        cmocka_unit_test(sharding_is_seen),
        cmocka_unit_test(gathers_are_of_parameters_where_they_are_sharded),
        cmocka_unit_test(loops_of_compilers_have_their_own_advice),
        cmocka_unit_test(loops_over_experts_have_their_own_advice),
        cmocka_unit_test(losses_that_are_read_are_named),
        cmocka_unit_test(engines_are_known_by_their_kernels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
