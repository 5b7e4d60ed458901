/* The queue of a CPU stream. */
#include "check.h"

#include "device/cpu/cpu.h"

/* A stream that is destroyed does what was queued before. */
static void test_the_last_command_is_found_beside_the_end(void **state) {
    (void)state;
    const struct command last = {.kind = COMMAND_HOST_CALL};
    struct queue queue;
    aorta_cpu_queue_create(&queue);
    assert_true(aorta_cpu_queue_idle(&queue));
    check_ok(aorta_cpu_queue_push(&queue, &last, NULL, 0));
    aorta_cpu_queue_close(&queue);
    assert_false(aorta_cpu_queue_idle(&queue));
    const struct command *command = aorta_cpu_queue_next(&queue);
    assert_non_null(command);
    assert_int_equal(command->kind, COMMAND_HOST_CALL);
    assert_null(aorta_cpu_queue_next(&queue));
    aorta_cpu_queue_destroy(&queue);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_last_command_is_found_beside_the_end)};
    return cmocka_run_group_tests_name("cpu_queue", tests, NULL, NULL);
}
