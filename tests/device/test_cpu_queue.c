/* The queue of a CPU stream. */
#include "check.h"

#include "device/cpu/cpu.h"

enum { COMMANDS = 20000, ROUNDS = 1000 };

/* A stream that is destroyed does what was queued before. */
static void test_the_last_command_is_found_before_the_end(void **state) {
    (void)state;
    const struct command last = {.kind = COMMAND_HOST_CALL};
    struct queue queue;
    aorta_cpu_queue_create(&queue);
    assert_false(queue.busy);
    check_ok(aorta_cpu_queue_push(&queue, &last, NULL, 0));
    aorta_cpu_queue_close(&queue);
    assert_true(queue.busy);
    const struct command *command = aorta_cpu_queue_next(&queue);
    assert_non_null(command);
    assert_int_equal(command->kind, COMMAND_HOST_CALL);
    assert_null(aorta_cpu_queue_next(&queue));
    aorta_cpu_queue_destroy(&queue);
}

struct consumer {
    struct queue queue;
    pthread_t thread;
    int commands, wrong; /* read after aorta_cpu_queue_wait, or when the thread has ended */
};

/* The arguments of a command: so many copies of its number. */
static size_t argument_count(int number) {
    return (size_t)(number % 5);
}

static void *consume(void *user) {
    struct consumer *consumer = user;
    for (const struct command *command; (command = aorta_cpu_queue_next(&consumer->queue)); consumer->commands++) {
        const int *arguments = (const int *)(command + 1);
        for (size_t i = 0; i < argument_count(consumer->commands); i++)
            consumer->wrong += arguments[i] != consumer->commands;
        consumer->wrong += command->kind != COMMAND_KERNEL;
    }
    return NULL;
}

static void start(struct consumer *consumer) {
    *consumer = (struct consumer){0};
    aorta_cpu_queue_create(&consumer->queue);
    assert_int_equal(pthread_create(&consumer->thread, NULL, consume, consumer), 0);
}

static void push(struct consumer *consumer, int number) {
    const struct command command = {.kind = COMMAND_KERNEL};
    const int arguments[] = {number, number, number, number};
    check_ok(aorta_cpu_queue_push(&consumer->queue, &command, arguments, argument_count(number) * sizeof *arguments));
}

static void end(struct consumer *consumer, int commands) {
    aorta_cpu_queue_close(&consumer->queue);
    pthread_join(consumer->thread, NULL);
    assert_int_equal(consumer->commands, commands);
    assert_int_equal(consumer->wrong, 0);
    aorta_cpu_queue_destroy(&consumer->queue);
}

static void test_commands_arrive_in_order_while_more_are_queued(void **state) {
    (void)state;
    struct consumer consumer;
    start(&consumer);
    for (int i = 0; i < COMMANDS; i++) {
        push(&consumer, i);
        if (i % 100) continue;
        aorta_cpu_queue_wait(&consumer.queue);
        assert_int_equal(consumer.commands, i + 1);
        assert_false(consumer.queue.busy);
    }
    end(&consumer, COMMANDS);
}

/* The consumer starts, looks or sleeps when the last command and the end come. */
static void test_the_end_comes_at_any_moment_of_the_consumer(void **state) {
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        struct consumer consumer;
        start(&consumer);
        if (i % 2) aorta_cpu_queue_wait(&consumer.queue);
        for (int number = 0; number < i % 3; number++) push(&consumer, number);
        if (i % 5 == 0) aorta_cpu_queue_wait(&consumer.queue);
        end(&consumer, i % 3);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_last_command_is_found_before_the_end),
        cmocka_unit_test(test_commands_arrive_in_order_while_more_are_queued),
        cmocka_unit_test(test_the_end_comes_at_any_moment_of_the_consumer),
    };
    return cmocka_run_group_tests_name("cpu_queue", tests, NULL, NULL);
}
