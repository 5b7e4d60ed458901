/* Memory that ranks reach on each other's GPU: collectives in it, eagerly and in graphs, and ranks without it. */
#include "suite.h"

#include "fake_nccl/fake_nccl.h"

static int all_ranks[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

struct fixture {
    struct suite *suite;
    struct aorta_comm *comms[2]; /* both of all ranks */
};

static bool has_shared_memory(const struct suite *suite) {
    return strcmp(aorta_comm_backend(suite->world), "nccl") == 0;
}

static struct fixture begin(struct suite *suite) {
    struct fixture fixture = {.suite = suite};
    for (int i = 0; i < 2; i++) check_ok(aorta_comm_split(suite->world, all_ranks, suite->size, &fixture.comms[i]));
    return fixture;
}

static void end(struct fixture *fixture) {
    for (int i = 0; i < 2; i++) aorta_comm_close(fixture->comms[i]);
}

static void *shared(const struct fixture *fixture, size_t count, enum aorta_dtype dtype) {
    return suite_shared_buffer(fixture->suite, fixture->comms, 2, count, dtype);
}

/* Windows of this rank, if they can be counted. */
static void expect_windows(int count) {
    const struct fake_nccl_control *fake = suite_fake_nccl();
    if (fake) assert_int_equal(fake->windows(), count);
}

static void test_other_backends_have_none(void **state) {
    struct suite *suite = *state;
    void *memory = suite;
    if (has_shared_memory(suite)) skip();
    check_fails(aorta_comm_alloc(&suite->world, 1, 4096, "weights", &memory), AORTA_UNSUPPORTED,
                "weights: ranks of the backend");
    assert_null(memory);
}

/* As a sharded trainer does: shards are gathered, sums of whole gradients scattered, on a group each. */
static void gather_and_scatter(struct fixture *fixture, size_t count, enum aorta_dtype dtype) {
    struct suite *suite = fixture->suite;
    const size_t size = (size_t)suite->size;
    void *shard = shared(fixture, count, dtype), *whole = shared(fixture, size * count, dtype);
    float *gradients = shared(fixture, size * count, AORTA_F32), *sums = shared(fixture, count, AORTA_F32);
    suite_fill(suite, shard, 0, count, dtype, suite->rank);
    suite_fill(suite, gradients, 0, size * count, AORTA_F32, suite->rank);
    check_ok(suite_all_gather(fixture->comms[0], suite->stream, shard, whole, count, dtype));
    check_ok(suite_reduce_scatter(fixture->comms[1], suite->stream, gradients, sums, count, AORTA_F32, AORTA_SUM));
    suite_finish(suite, suite->stream);
    for (size_t i = 0; i < count; i++) {
        for (size_t rank = 0; rank < size; rank++)
            suite_expect(suite, whole, rank * count + i, dtype, suite_value((int)rank, i, dtype), "gathered");
        const size_t own = (size_t)suite->rank * count + i;
        suite_expect(suite, sums, i, AORTA_F32, suite_reduced(all_ranks, suite->size, own, AORTA_F32, AORTA_SUM),
                     "summed");
    }
    suite_expect(suite, whole, size * count, dtype, 111, "after the gathered values");
    suite_expect(suite, sums, count, AORTA_F32, 111, "after the sums");
    suite_free(suite, sums);
    suite_free(suite, gradients);
    suite_free(suite, whole);
    suite_free(suite, shard);
}

static void test_collectives(void **state) {
    static const size_t counts[] = {16, 4112, 200000, 1500000};
    struct suite *suite = *state;
    if (!has_shared_memory(suite)) skip();
    struct fixture fixture = begin(suite);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        gather_and_scatter(&fixture, counts[i], AORTA_BF16);
        gather_and_scatter(&fixture, counts[i], AORTA_F32);
    }
    expect_windows(0);
    end(&fixture);
}

/* Two gathers into two slots and two sums in one graph, replayed with other values each time. */
static void test_graph(void **state) {
    enum { COUNT = 98304, REPLAYS = 20 };
    struct suite *suite = *state;
    if (!has_shared_memory(suite)) skip();
    struct fixture fixture = begin(suite);
    const size_t size = (size_t)suite->size;
    float *shard = shared(&fixture, COUNT, AORTA_F32), *sums[2], *slots[2];
    for (int i = 0; i < 2; i++) {
        slots[i] = shared(&fixture, size * COUNT, AORTA_F32);
        sums[i] = shared(&fixture, COUNT, AORTA_F32);
    }
    struct aorta_graph *graph;
    check_ok(suite_all_gather(fixture.comms[0], suite->stream, shard, slots[0], COUNT, AORTA_F32)); /* connects */
    check_ok(suite_reduce_scatter(fixture.comms[1], suite->stream, slots[0], sums[0], COUNT, AORTA_F32, AORTA_SUM));
    suite_finish(suite, suite->stream);
    check_ok(aorta_capture_begin(suite->stream));
    for (int i = 0; i < 2; i++) {
        check_ok(suite_all_gather(fixture.comms[0], suite->stream, shard, slots[i], COUNT, AORTA_F32));
        check_ok(suite_reduce_scatter(fixture.comms[1], suite->stream, slots[i], sums[i], COUNT, AORTA_F32, AORTA_SUM));
    }
    check_ok(aorta_capture_end(suite->stream, &graph));
    for (int replay = 0; replay < REPLAYS; replay++) {
        suite_fill(suite, shard, 0, COUNT, AORTA_F32, suite->rank + replay);
        check_ok(aorta_graph_launch(graph, suite->stream));
        suite_finish(suite, suite->stream);
        for (int i = 0; i < 2; i++) {
            for (size_t at = 0; at < COUNT; at += 997)
                for (size_t rank = 0; rank < size; rank++)
                    suite_expect(suite, slots[i], rank * COUNT + at, AORTA_F32,
                                 suite_value((int)rank + replay, at, AORTA_F32), "gathered in a graph");
            for (size_t at = 0; at < COUNT; at += 997)
                suite_expect(suite, sums[i], at, AORTA_F32,
                             (double)size * suite_value(suite->rank + replay, at, AORTA_F32), "summed in a graph");
        }
    }
    aorta_graph_destroy(graph);
    for (int i = 0; i < 2; i++) {
        suite_free(suite, slots[i]);
        suite_free(suite, sums[i]);
    }
    suite_free(suite, shard);
    end(&fixture);
}

static void test_it_counts_as_the_devices(void **state) {
    enum { BYTES = 1000000 };
    struct suite *suite = *state;
    if (!has_shared_memory(suite)) skip();
    struct fixture fixture = begin(suite);
    const uint64_t before = aorta_device_memory(suite->device).allocated;
    void *memory, *more;
    check_ok(aorta_comm_alloc(fixture.comms, 2, BYTES, "weights", &memory));
    expect_windows(2);
    assert_true(aorta_device_memory(suite->device).allocated >= before + BYTES);
    aorta_device_limit_memory(suite->device, before + 3 * (uint64_t)BYTES / 2);
    check_fails(aorta_comm_alloc(fixture.comms, 2, BYTES, "gradients", &more), AORTA_MEMORY, "gradients");
    assert_null(more);
    aorta_device_limit_memory(suite->device, 0);
    aorta_device_free(suite->device, memory);
    assert_int_equal(aorta_device_memory(suite->device).allocated, before);
    expect_windows(0);
    end(&fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_backends_have_none),
        cmocka_unit_test(test_collectives),
        cmocka_unit_test(test_graph),
        cmocka_unit_test(test_it_counts_as_the_devices),
    };
    return cmocka_run_group_tests(tests, suite_setup, suite_teardown);
}
