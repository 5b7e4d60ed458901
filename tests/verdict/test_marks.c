/* Steps of traces without ProfilerStep: from the optimizer's ranges, an engine's, and ranges of the user's choice. */
#include "analysis/analysis.h"
#include "check.h"
#include "samples/kineto.h"
#include "trace/infer.h"

#include <stdlib.h>

enum { STEP_US = 1000 };

/* Three and a half steps of forward, backward and optimizer; `late_us`: another clock. */
static void train(struct aorta_trace_list *list, int rank, double late_us, int steps, const char *optimizer) {
    struct sample_kineto sample;
    sample_kineto_begin(&sample, rank, 2);
    for (int i = 0; i < steps; i++) {
        double at = late_us + STEP_US * (i + 1);
        sample_kineto_event(&sample, "user_annotation", "forward", 1, at, 300, "");
        sample_kineto_kernel(&sample, "gemm", 7, at + 10, at + 20, 500, "");
        sample_kineto_event(&sample, "user_annotation", "Optimizer.zero_grad#AdamW.zero_grad", 1, at + 600, 20, "");
        sample_kineto_event(&sample, "user_annotation", optimizer, 1, at + 700, 100, "");
        sample_kineto_kernel(&sample, "adamw", 7, at + 710, at + 720, 100, "");
    }
    sample_kineto_kernel(&sample, "gemm", 7, late_us + STEP_US * (steps + 1), late_us + STEP_US * (steps + 1) + 10, 500,
                         "");
    sample_kineto_open(&sample, list);
}

static void steps_end_with_the_optimizer(void **state) {
    (void)state;
    struct aorta_trace_list list = {0};
    struct aorta_trace_analysis analysis;
    train(&list, 0, 0, 4, "Optimizer.step#AdamW.step");
    check_ok(aorta_trace_mark_steps(&list, NULL));
    const struct aorta_trace *trace = list.items[0];
    assert_int_equal(trace->steps_by, AORTA_STEPS_BY_OPTIMIZER);
    assert_int_equal(trace->step_count, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(trace->steps[i].number, i);
        assert_int_equal(trace->steps[i].start_ns, (STEP_US * (i + 1) + 800) * 1000);
        assert_int_equal(trace->steps[i].end_ns, (STEP_US * (i + 2) + 800) * 1000);
    }
    check_ok(aorta_trace_analyze(&list, NULL, &analysis));
    assert_true(analysis.stepped);
    assert_int_equal(analysis.ranks[0].steps, 3);
    aorta_trace_analysis_free(&analysis);
    aorta_trace_list_free(&list);
}

/* The generator's optimizer runs once, after the discriminator's two. */
static void of_several_optimizers_the_last_ends_a_step(void **state) {
    (void)state;
    struct aorta_trace_list list = {0};
    struct sample_kineto sample;
    sample_kineto_begin(&sample, 0, 1);
    for (int i = 0; i < 4; i++) {
        double at = STEP_US * (i + 1);
        sample_kineto_kernel(&sample, "gemm", 7, at, at + 10, 500, "");
        sample_kineto_event(&sample, "user_annotation", "Optimizer.step#SGD.step", 1, at + 100, 10, "");
        sample_kineto_event(&sample, "user_annotation", "Optimizer.step#SGD.step", 1, at + 200, 10, "");
        sample_kineto_event(&sample, "user_annotation", "Optimizer.step#AdamW.step", 1, at + 300, 10, "");
    }
    sample_kineto_open(&sample, &list);
    check_ok(aorta_trace_mark_steps(&list, NULL));
    assert_int_equal(list.items[0]->step_count, 3);
    assert_int_equal(list.items[0]->steps[0].start_ns, (STEP_US + 310) * 1000);
    aorta_trace_list_free(&list);
}

/* Rank 1 began a step later, on the clock of the same host; its first step is the other's second. */
static void ranks_number_steps_alike(void **state) {
    (void)state;
    struct aorta_trace_list list = {0};
    train(&list, 0, 0, 5, "Optimizer.step#AdamW.step");
    train(&list, 1, STEP_US + 30, 4, "Optimizer.step#AdamW.step");
    check_ok(aorta_trace_mark_steps(&list, NULL));
    assert_int_equal(list.items[0]->step_count, 4);
    assert_int_equal(list.items[1]->step_count, 3);
    assert_int_equal(list.items[1]->steps[0].number, 1);
    aorta_trace_list_free(&list);
    train(&list, 0, 0, 5, "Optimizer.step#AdamW.step");
    train(&list, 1, 1e6, 5, "Optimizer.step#AdamW.step"); /* another host: as many are the same */
    check_ok(aorta_trace_mark_steps(&list, NULL));
    assert_int_equal(list.items[1]->steps[0].number, 0);
    aorta_trace_list_free(&list);
}

/* A batch is a range of vLLM or SGLang; what lies within it begins no other. */
static void engines_mark_their_batches(void **state) {
    (void)state;
    static const char *const names[] = {"step[DECODE bs=8]", "execute_model_7", "execute_context_1(16)_generation_0(0)",
                                        "execute_32_context_0(sq0sk0)_generation_32(sq32)"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        struct aorta_trace_list list = {0};
        struct sample_kineto sample;
        sample_kineto_begin(&sample, 0, 1);
        for (int i = 0; i < 3; i++) {
            double at = STEP_US * (i + 1);
            if (n == 0) sample_kineto_event(&sample, "user_annotation", "execute_15_context_1", 1, at - 20, 430, "");
            sample_kineto_event(&sample, "user_annotation", names[n], 1, at, 400, "");
            sample_kineto_event(&sample, "user_annotation", "execute_model", 1, at + 50, 200, "");
            sample_kineto_kernel(&sample, "gemm", 7, at + 60, at + 70, 500, "");
        }
        sample_kineto_open(&sample, &list);
        check_ok(aorta_trace_mark_steps(&list, NULL));
        assert_int_equal(list.items[0]->steps_by, AORTA_STEPS_BY_ENGINE);
        assert_int_equal(list.items[0]->step_count, 3);
        assert_int_equal(list.items[0]->steps[1].start_ns, 2 * STEP_US * 1000);
        assert_int_equal(list.items[0]->steps[1].end_ns, 3 * STEP_US * 1000);
        assert_int_equal(list.items[0]->steps[2].end_ns, (3 * STEP_US + 400) * 1000);
        aorta_trace_list_free(&list);
    }
}

static void marked_steps_and_the_users_choice_come_first(void **state) {
    (void)state;
    struct aorta_trace_list list = {0};
    struct sample_kineto sample;
    sample_kineto_begin(&sample, 0, 1);
    for (int i = 0; i < 4; i++) {
        char name[32];
        double at = STEP_US * (i + 1);
        snprintf(name, sizeof name, "ProfilerStep#%d", i / 2);
        if (i % 2 == 0) sample_kineto_event(&sample, "user_annotation", name, 1, at, 2 * STEP_US, "");
        sample_kineto_event(&sample, "user_annotation", "my batch", 1, at + 5, 900, "");
        sample_kineto_event(&sample, "user_annotation", "Optimizer.step#AdamW.step", 1, at + 700, 100, "");
        sample_kineto_kernel(&sample, "gemm", 7, at + 10, at + 20, 500, "");
    }
    sample_kineto_open(&sample, &list);
    check_ok(aorta_trace_mark_steps(&list, NULL));
    assert_int_equal(list.items[0]->steps_by, AORTA_STEPS_MARKED);
    assert_int_equal(list.items[0]->step_count, 2);
    check_ok(aorta_trace_mark_steps(&list, "^my b"));
    assert_int_equal(list.items[0]->steps_by, AORTA_STEPS_BY_RANGE);
    assert_int_equal(list.items[0]->step_count, 4);
    assert_int_equal(list.items[0]->steps[1].start_ns, (2 * STEP_US + 5) * 1000);
    check_fails(aorta_trace_mark_steps(&list, "nothing"), AORTA_USAGE, "--step-range nothing: no range of ");
    check_fails(aorta_trace_mark_steps(&list, "a("), AORTA_USAGE, "--step-range");
    check_fails(aorta_trace_check_step_range("a("), AORTA_USAGE, "--step-range");
    check_ok(aorta_trace_check_step_range("a|b"));
    check_ok(aorta_trace_check_step_range(NULL));
    assert_int_equal(list.items[0]->step_count, 4);
    aorta_trace_list_free(&list);
}

/* One rank without such ranges leaves all without; one without device work does not. */
static void all_ranks_or_none_have_steps(void **state) {
    (void)state;
    struct aorta_trace_list list = {0};
    struct sample_kineto sample;
    train(&list, 0, 0, 4, "Optimizer.step#AdamW.step");
    train(&list, 1, 0, 4, "update");
    check_ok(aorta_trace_mark_steps(&list, NULL));
    assert_int_equal(list.items[0]->step_count + list.items[1]->step_count, 0);
    aorta_trace_list_free(&list);
    train(&list, 0, 0, 4, "Optimizer.step#AdamW.step");
    sample_kineto_begin(&sample, 1, 2);
    sample_kineto_open(&sample, &list);
    check_ok(aorta_trace_mark_steps(&list, NULL));
    assert_int_equal(list.items[0]->step_count, 3);
    aorta_trace_list_free(&list);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_end_with_the_optimizer),
        cmocka_unit_test(of_several_optimizers_the_last_ends_a_step),
        cmocka_unit_test(ranks_number_steps_alike),
        cmocka_unit_test(engines_mark_their_batches),
        cmocka_unit_test(marked_steps_and_the_users_choice_come_first),
        cmocka_unit_test(all_ranks_or_none_have_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
