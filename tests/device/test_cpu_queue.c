/* The queue of a CPU stream, with the producer running at every possible moment of the consumer: the test includes the
 * queue's source and lets the producer run at each atomic load. */
#include "check.h"

#include "device/cpu/cpu.h"

static void (*before_load)(const void *place);

#undef atomic_load
#define atomic_load(place)                                                                                             \
    ((before_load ? before_load(place) : (void)0), atomic_load_explicit(place, memory_order_seq_cst))
#include "device/cpu/queue.c" // NOLINT(bugprone-suspicious-include): its loads are to be seen
#undef atomic_load

static struct queue queue;
static const struct command last = {.kind = COMMAND_HOST_CALL};

/* Once, when the consumer is about to see whether the queue is closed: it has found nothing so far. */
static void queue_and_close(const void *place) {
    if (place != &queue.closed) return;
    before_load = NULL;
    check_ok(aorta_cpu_queue_push(&queue, &last, NULL, 0));
    aorta_cpu_queue_close(&queue);
}

/* A stream that is destroyed does what was queued before. */
static void test_the_last_command_is_found_beside_the_end(void **state) {
    (void)state;
    check_ok(aorta_cpu_queue_create(&queue));
    before_load = queue_and_close;
    const struct command *command = aorta_cpu_queue_next(&queue);
    assert_null(before_load);
    assert_non_null(command);
    assert_int_equal(command->kind, COMMAND_HOST_CALL);
    aorta_cpu_queue_done(&queue, command);
    assert_null(aorta_cpu_queue_next(&queue));
    aorta_cpu_queue_destroy(&queue);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_last_command_is_found_beside_the_end)};
    return cmocka_run_group_tests_name("cpu_queue", tests, NULL, NULL);
}
