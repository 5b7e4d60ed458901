/* Traces that the program writes itself are read back as what was recorded. */
#include "check.h"
#include "measure/kineto_write.h"
#include "samples/dump.h"
#include "trace/open.h"

#include <stdlib.h>
#include <unistd.h>

static const struct aorta_range_info product = {.tag = "encoder.layers.3.linear1",
                                                .function = "linear_forward",
                                                .role = AORTA_ROLE_COMPUTE,
                                                .kind = AORTA_RANGE_COMPUTE,
                                                .layer = 3,
                                                .dtype = AORTA_BF16,
                                                .dims = {{512, 768}, {768, 2048}}};
static const struct aorta_range_info gather = {.tag = "encoder.layers.4",
                                               .function = "all_gather",
                                               .role = AORTA_ROLE_AUX,
                                               .kind = AORTA_RANGE_COLLECTIVE,
                                               .collective = AORTA_ALL_GATHER,
                                               .group_size = 2,
                                               .layer = 4,
                                               .dtype = AORTA_BF16,
                                               .bytes = 4096,
                                               .simulated = true};

static struct aorta_trace *write_and_read(const struct aorta_kineto_step *step) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/aorta_own_%d.json", (int)getpid());
    const struct aorta_kineto_about about = {.rank = 1,
                                             .world_size = 2,
                                             .backend = "local",
                                             .simulated = true,
                                             .groups = {{0, 2, 1}},
                                             .group_count = 1,
                                             .clock_offset_ns = 1790000000000000000,
                                             .shapes = true};
    struct aorta_kineto *kineto;
    check_ok(aorta_kineto_open(path, &about, &kineto));
    check_ok(aorta_kineto_add(kineto, step));
    check_ok(aorta_kineto_close(kineto));
    struct aorta_trace_list list = {0};
    check_ok(aorta_trace_open(path, NULL, &list));
    unlink(path);
    assert_int_equal(list.count, 1);
    struct aorta_trace *trace = list.items[0];
    free(list.items);
    return trace;
}

static void a_step_comes_back(void **state) {
    (void)state;
    struct aorta_range ranges[] = {
        {.info = product, .start_ns = 9000000001003, .end_ns = 9000000501007, .enqueue_ns = 9000000000500, .stream = 0},
        {.info = gather, .start_ns = 9000000101009, .end_ns = 9000000301013, .enqueue_ns = 9000000000700, .stream = 1},
    };
    struct aorta_host_range host[] = {{AORTA_HOST_DATA_WAIT, 8999999000000, 9000000000400},
                                      {AORTA_HOST_SYNC, 9000000001000, 9000000501500}};
    const struct aorta_profile profile = {.index = 7,
                                          .start_ns = 9000000001003,
                                          .end_ns = 9000000501007,
                                          .source = AORTA_SOURCE_RANGE,
                                          .ranges = ranges,
                                          .range_count = 2,
                                          .host = host,
                                          .host_count = 2};
    const struct aorta_kineto_step step = {.number = 7, .ranges = &profile};
    struct aorta_trace *trace = write_and_read(&step);
    assert_int_equal(trace->rank, 1);
    assert_int_equal(trace->world, 2);
    assert_int_equal(trace->work_count, 2);
    const struct aorta_trace_work *first = &trace->work[0], *second = &trace->work[1];
    assert_int_equal(first->end_ns - first->start_ns, 500004);
    assert_int_equal(second->end_ns - second->start_ns, 200004);
    assert_int_equal(second->start_ns - first->start_ns, 100006);
    assert_int_equal(trace->base_ns + first->start_ns, 1790000000000000000 + 9000000001003);
    assert_int_not_equal(first->stream, second->stream);
    assert_false(aorta_trace_is_collective(first));
    assert_true(aorta_trace_is_collective(second));
    for (int reason = 0; reason < AORTA_REASON_COUNT; reason++)
        if (trace->warnings[reason].count) fail_msg("%s", aorta_trace_reason_key(reason));

    assert_int_not_equal(first->shape, AORTA_TRACE_NONE);
    const struct aorta_trace_shape *shape = &trace->shapes[first->shape];
    assert_int_equal(shape->product.m, 512);
    assert_int_equal(shape->product.k, 768);
    assert_int_equal(shape->product.n, 2048);
    const struct aorta_trace_collective *c = &trace->collectives[second->collective];
    assert_int_equal(c->kind, AORTA_ALL_GATHER);
    assert_int_equal(c->bytes, 4096);
    assert_int_equal(c->group_size, 2);
    assert_true(c->simulated);
    assert_int_equal(trace->groups[c->group].rank_count, 2);
    assert_int_equal(trace->step_count, 1);
    assert_int_equal(trace->steps[0].number, 7);
    int kinds[AORTA_CALL_KIND_COUNT] = {0};
    for (size_t i = 0; i < trace->call_count; i++) kinds[trace->calls[i].kind]++;
    assert_int_equal(kinds[AORTA_CALL_LAUNCH], 2);
    assert_int_equal(kinds[AORTA_CALL_DATA_WAIT], 1);
    assert_int_equal(kinds[AORTA_CALL_SYNC], 1);
    aorta_trace_free(trace);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_step_comes_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
