/* Cycles of a profile schedule, a file each:
 *
 *   rank0/trace_step2.json: steps 2 and 3      rank0/trace_step6.json: steps 6 and 7
 */
#include "check.h"
#include "trace/builder.h"
#include "trace/ranks.h"

#include <stdlib.h>

static int rank; /* of the files; -1: a program on its own */

static struct aorta_trace *cycle(const char *path, int64_t first_step, const char *device) {
    struct aorta_trace_builder *builder;
    struct aorta_trace *trace;
    check_ok(aorta_trace_builder_create(AORTA_TRACE_KINETO, path, NULL, &builder));
    aorta_trace_builder_head(builder)->rank = rank;
    const struct aorta_trace_device row = {.id = 0, .name = aorta_trace_builder_text(builder, device, strlen(device))};
    aorta_trace_builder_device(builder, &row);
    check_ok(aorta_trace_builder_finish(builder, &trace));
    trace->steps = calloc(2, sizeof *trace->steps); /* the trace's own */
    assert_non_null(trace->steps);
    trace->step_count = 2;
    for (int64_t i = 0; i < 2; i++)
        trace->steps[i] =
            (struct aorta_trace_step){.number = first_step + i, .start_ns = 1000 * i, .end_ns = 1000 * i + 900};
    return trace;
}

/* What is left of the first and the second. */
static void check_left(const char *path, int64_t step, const char *device, size_t cycles, size_t left) {
    struct aorta_trace_list list = {0};
    check_ok(aorta_trace_list_add(&list, cycle("run/rank0/trace_step6.json", 6, "H100")));
    check_ok(aorta_trace_list_add(&list, cycle(path, step, device)));
    assert_int_equal(aorta_trace_take_last_cycle(&list), cycles);
    assert_int_equal(list.count, left);
    assert_int_equal(list.items[0]->steps[0].number, 6);
    aorta_trace_list_free(&list);
}

static void the_last_cycle_is_taken(void **state) {
    (void)state;
    check_left("run/rank0/trace_step2.json", 2, "H100", 2, 1);
}

/* Without ranks, as a program on its own writes them: cycles, and no two ranks. */
static void cycles_need_no_rank(void **state) {
    (void)state;
    struct aorta_trace_list list = {0};
    rank = -1;
    check_ok(aorta_trace_list_add(&list, cycle("run/trace_step4.json", 3, "H100")));
    check_ok(aorta_trace_list_add(&list, cycle("run/trace_step8.json", 7, "H100")));
    assert_int_equal(aorta_trace_later_cycles(&list, 0), 1);
    assert_int_equal(aorta_trace_take_last_cycle(&list), 2);
    assert_int_equal(list.count, 1);
    assert_int_equal(list.items[0]->steps[0].number, 7);
    aorta_trace_list_free(&list);
    rank = 0;
}

/* Two runs have the same steps, other folders or other devices: they stay, and the analysis refuses them. */
static void two_runs_stay(void **state) {
    (void)state;
    check_left("run/rank0/trace_step7.json", 7, "H100", 1, 2);
    check_left("other/rank0/trace_step2.json", 2, "H100", 1, 2);
    check_left("run/rank0/trace_step2.json", 2, "MI300X", 1, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_cycle_is_taken),
        cmocka_unit_test(two_runs_stay),
        cmocka_unit_test(cycles_need_no_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
