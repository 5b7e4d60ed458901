/* Input on its way to the device: whole or in parts, every byte arrives, in memory whose last step has ended. */
#include "check.h"

#include "train/data.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STEPS = 6 };

struct fixture {
    struct aorta_train_options options;
    struct aorta_train_context context;
    struct aorta_dataset *dataset;
    struct aorta_event *done[AORTA_INPUT_SLOTS];
    struct aorta_input *input;
    char *expected;
};

/* Batches of some KiB, so that the parts of a copy all hold something, or of less than one part. */
static void set_up(struct fixture *f, enum aorta_device_kind kind, enum aorta_batch_maker maker, bool replayed,
                   int64_t positions) {
    *f = (struct fixture){0};
    f->options = (struct aorta_train_options){
        .training = {.batch_size = 2, .gradient_accumulation = 1},
        .compile = {.enabled = replayed, .backend = AORTA_COMPILE_GRAPH},
        .dataset = {.num_samples = 2 * STEPS,
                    .sequence_length = positions,
                    .dense_dim = 5,
                    .sparse_features = 3,
                    .vocab_size = 11,
                    .num_dense_features = 7,
                    .seed = 13},
        .dataloader = {.device = maker, .num_workers = 2, .pin_memory = true, .prefetch_factor = 2},
    };
    f->context.options = &f->options;
    check_ok(aorta_device_open(kind, 0, &f->context.device));
    f->context.owned.device = f->context.device;
    check_ok(aorta_train_open_stream(&f->context, "all", AORTA_PRIORITY_NORMAL, &f->context.own_streams[0]));
    for (int role = 0; role < AORTA_ROLE_COUNT; role++) f->context.streams[role] = f->context.own_streams[0];
    check_ok(aorta_recorder_create(f->context.device, AORTA_INPUT_SLOTS, 8, &f->context.recorder));
    check_ok(aorta_dataset_create(&f->options, 0, 1, &f->dataset));
    for (int i = 0; i < AORTA_INPUT_SLOTS; i++) check_ok(aorta_event_create(f->context.device, &f->done[i]));
    check_ok(aorta_input_create(&f->context, f->dataset, STEPS, f->done, &f->input));
    f->expected = calloc(1, aorta_input_layout(f->input)->bytes);
    assert_non_null(f->expected);
}

static void tear_down(struct fixture *f) {
    aorta_train_settle(&f->context);
    aorta_input_end(f->input);
    aorta_dataset_destroy(f->dataset);
    for (int i = 0; i < AORTA_INPUT_SLOTS; i++) aorta_event_destroy(f->done[i]);
    aorta_train_context_close(&f->context);
    free(f->expected);
}

static void check_arrival(struct fixture *f, int64_t step, char *arrived) {
    struct aorta_stream *stream = f->context.own_streams[0];
    const size_t bytes = aorta_input_layout(f->input)->bytes;
    memset(f->expected, 0, bytes);
    aorta_dataset_fill(f->dataset, step, f->expected);
    check_ok(aorta_input_wait(f->input, step, stream));
    check_ok(aorta_copy(stream, arrived, aorta_input_memory(f->input, step), bytes));
    check_ok(aorta_event_record(f->done[step % AORTA_INPUT_SLOTS], stream));
    check_ok(aorta_stream_synchronize(stream));
    const struct aorta_batch want = aorta_batch_at(aorta_input_layout(f->input), f->expected, 0),
                             have = aorta_batch_at(aorta_input_layout(f->input), arrived, 0);
    const size_t rows = (size_t)aorta_input_layout(f->input)->rows;
    assert_memory_equal(want.dense, have.dense, rows * 35 * sizeof(float));
    assert_memory_equal(want.categorical, have.categorical, rows * 3 * sizeof(int64_t));
    assert_memory_equal(want.target, have.target, rows * sizeof(float));
    assert_memory_equal(want.importance, have.importance, rows * sizeof(float));
}

static void test_every_byte_arrives(void **state) {
    (void)state;
    static const struct {
        enum aorta_device_kind kind;
        enum aorta_batch_maker maker;
        bool replayed;
        int64_t positions;
    } rows[] = {{AORTA_DEVICE_CPU, AORTA_BATCHES_AUTO, true, 40},    {AORTA_DEVICE_CPU, AORTA_BATCHES_DEVICE, true, 40},
                {AORTA_DEVICE_CPU, AORTA_BATCHES_DEVICE, false, 13}, {AORTA_DEVICE_CUDA, AORTA_BATCHES_HOST, false, 40},
                {AORTA_DEVICE_CUDA, AORTA_BATCHES_HOST, true, 1},    {AORTA_DEVICE_CUDA, AORTA_BATCHES_HOST, true, 13},
                {AORTA_DEVICE_CUDA, AORTA_BATCHES_HOST, true, 40}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fixture f;
        set_up(&f, rows[i].kind, rows[i].maker, rows[i].replayed, rows[i].positions);
        void *arrived;
        check_ok(aorta_pinned_alloc(f.context.device, aorta_input_layout(f.input)->bytes, "arrived", &arrived));
        aorta_recorder_step(f.context.recorder, 1, -1); /* its timestamps arrive before step 1 has this slot */
        check_ok(aorta_input_queue(f.input));
        for (int64_t step = 0; step < STEPS; step++) {
            aorta_recorder_step(f.context.recorder, (int)(step % AORTA_INPUT_SLOTS), step);
            if (step + 1 < STEPS) check_ok(aorta_input_queue(f.input));
            assert_int_equal(aorta_input_queued(f.input), step + 1 < STEPS ? step + 2 : STEPS);
            check_arrival(&f, step, arrived);
            aorta_input_release(f.input);
        }
        check_ok(aorta_input_prefetch(f.input)); /* there is no next one */
        assert_int_equal(aorta_input_queued(f.input), STEPS);
        check_ok(aorta_input_synchronize(f.input));
        aorta_pinned_free(f.context.device, arrived);
        tear_down(&f);
    }
}

static void nap(long ms) {
    nanosleep(&(struct timespec){0, ms * 1000000}, NULL);
}

static void wait_for_gate(void *user) {
    atomic_int *gate = user;
    while (!atomic_load(gate)) nap(1);
}

/* Memory is not overwritten before the step that reads it has ended, in no part of it. */
static void test_memory_is_waited_for(void **state) {
    (void)state;
    struct fixture f;
    set_up(&f, AORTA_DEVICE_CUDA, AORTA_BATCHES_HOST, true, 40);
    struct aorta_stream *stream = f.context.own_streams[0];
    const size_t bytes = aorta_input_layout(f.input)->bytes;
    void *arrived;
    atomic_int gate = 0;
    check_ok(aorta_pinned_alloc(f.context.device, bytes, "arrived", &arrived));
    aorta_recorder_step(f.context.recorder, 0, 0);
    for (int step = 0; step < AORTA_INPUT_SLOTS; step++) check_ok(aorta_input_queue(f.input));
    check_ok(aorta_input_synchronize(f.input));
    memcpy(f.expected, aorta_input_memory(f.input, 0), bytes); /* the fake device's memory is the host's */
    check_ok(aorta_host_call(stream, wait_for_gate, &gate));
    check_ok(aorta_event_record(f.done[0], stream));
    check_ok(aorta_input_queue(f.input)); /* step 2, into the memory of step 0 */
    nap(20);
    assert_memory_equal(f.expected, aorta_input_memory(f.input, 0), bytes);
    atomic_store(&gate, 1);
    check_ok(aorta_input_synchronize(f.input));
    check_arrival(&f, 2, arrived);
    check_ok(aorta_stream_synchronize(stream));
    aorta_pinned_free(f.context.device, arrived);
    tear_down(&f);
}

int main(void) {
    setenv("AORTA_LIBRARY_PATH", FAKE_GPU, 1);
    setenv("FAKE_GPU_KERNELS", "ignore", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_byte_arrives),
        cmocka_unit_test(test_memory_is_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
