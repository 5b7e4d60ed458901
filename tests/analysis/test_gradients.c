/* Gradients are reduced where there is a backward pass, and by groups that hold copies of the model. */
#include "analysis/analysis.h"
#include "analysis/phases.h"
#include "check.h"
#include "samples/kineto.h"

#include <stdio.h>

/* A kernel, an all_reduce of this group, and one operation. */
static bool reduces(const char *kernel, const char *operation, const char *group) {
    char args[256];
    struct sample_kineto sample;
    struct aorta_trace_list list = {0};
    struct aorta_trace_analysis analysis;
    snprintf(args, sizeof args,
             "\"Collective name\": \"allreduce\", \"In msg nelems\": 64, \"Out msg nelems\": 64, \"dtype\": \"Float\", "
             "\"Group size\": 2, \"Process Group Name\": \"3\", \"Process Group Description\": \"%s\"",
             group);
    sample_kineto_begin(&sample, 0, 2);
    if (operation) sample_kineto_event(&sample, "cpu_op", operation, 1, 0, 30, "");
    sample_kineto_kernel(&sample, kernel, 7, 5, 20, 50, "");
    sample_kineto_kernel(&sample, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 20, 50, 80, 20, args);
    sample_kineto_open(&sample, &list);
    check_ok(aorta_trace_analyze(&list, NULL, &analysis));
    const bool gradients = aorta_trace_reduces_gradients(&analysis.ranks[0], AORTA_ALL_REDUCE);
    aorta_trace_analysis_free(&analysis);
    aorta_trace_list_free(&list);
    return gradients;
}

static void only_where_there_is_a_backward_pass(void **state) {
    (void)state;
    assert_true(reduces("gemm", "autograd::engine::evaluate_function: AddmmBackward0", "default_pg"));
    assert_true(reduces("fmha_bwd_kernel", NULL, "default_pg"));
    assert_true(reduces("multi_tensor_apply_kernel", NULL, ""));
    assert_false(reduces("gemm", "aten::addmm", "default_pg"));
    assert_false(reduces("fmha_fwd_kernel", NULL, "default_pg"));
    assert_false(reduces("fmha_bwd_kernel", "aten::addmm", "default_pg")); /* operations say it better */
}

static void only_by_copies_of_the_model(void **state) {
    (void)state;
    static const struct {
        const char *group;
        bool copies;
    } rows[] = {{"DATA_PARALLEL_GROUP_WITH_CP", true},
                {"EXPERT_DATA_PARALLEL_GROUP", true},
                {"mesh_dp_shard", true},
                {"ddp_group", true},
                {"default_pg", true},
                {"undefined", true},
                {"http_pool", true},
                {"TENSOR_MODEL_PARALLEL_GROUP", false},
                {"PIPELINE_MODEL_PARALLEL_GROUP", false},
                {"EXPERT_MODEL_PARALLEL_GROUP", false},
                {"CONTEXT_PARALLEL_GROUP", false},
                {"mesh_tp", false},
                {"tp:0", false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (reduces("gemm", "autograd::engine::evaluate_function: X", rows[i].group) != rows[i].copies)
            fail_msg("%s: expected %d", rows[i].group, rows[i].copies);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_where_there_is_a_backward_pass),
        cmocka_unit_test(only_by_copies_of_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
