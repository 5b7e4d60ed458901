/* Rows in any order become a trace in order; names of calls; shapes of products; ranges within ranges. */
#include "check.h"
#include "trace/builder.h"

#include <stdlib.h>

static void calls_are_known_by_name(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int kind; /* -1: none that matters */
    } rows[] = {
        {"cudaLaunchKernel", AORTA_CALL_LAUNCH},
        {"cudaLaunchKernelExC_v11060", AORTA_CALL_LAUNCH},
        {"cuLaunchKernelEx", AORTA_CALL_LAUNCH},
        {"hipExtModuleLaunchKernel", AORTA_CALL_LAUNCH},
        {"hipModuleLaunchKernel", AORTA_CALL_LAUNCH},
        {"cudaGraphLaunch_v10000", AORTA_CALL_GRAPH_LAUNCH},
        {"hipMemcpyWithStream", AORTA_CALL_COPY},
        {"cuMemcpyHtoDAsync_v2", AORTA_CALL_COPY},
        {"cudaMemsetAsync", AORTA_CALL_FILL},
        {"hipDeviceSynchronize", AORTA_CALL_SYNC},
        {"cuCtxSynchronize", AORTA_CALL_SYNC},
        {"cudaFree", AORTA_CALL_MEMORY},
        {"cuMemAlloc_v2", AORTA_CALL_MEMORY},
        {"cudaEventQuery", -1},
        {"cudaLaunchHostFunc", -1},
        {"cudaEventRecord", -1},
        {"hipGetDevice", -1},
        {"launch", -1},
        {"", -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        enum aorta_trace_call_kind kind = AORTA_CALL_OTHER;
        bool matters = aorta_trace_call_classify(rows[i].name, &kind);
        if (matters != (rows[i].kind >= 0) || (matters && (int)kind != rows[i].kind))
            fail_msg("%s: %d %d", rows[i].name, matters, kind);
    }
}

static void innermost_ranges_are_found(void **state) {
    (void)state;
    struct aorta_nest_range ranges[] = {
        {50, 60, 1, 4, 0}, {0, 100, 1, 1, 0}, {10, 20, 1, 2, 0}, {30, 90, 1, 3, 0},
        {30, 40, 1, 5, 0}, {0, 5, 2, 6, 0},   {0, 0, 2, 7, 0},
    };
    static const struct {
        uint32_t thread;
        int64_t time_ns;
        int number; /* 0: none */
    } rows[] = {{1, 15, 2},  {1, 25, 1}, {1, 30, 5}, {1, 45, 3}, {1, 60, 4}, {1, 61, 3}, {1, 95, 1},
                {1, 101, 0}, {2, 0, 7},  {2, 3, 6},  {2, 6, 0},  {0, 15, 0}, {3, 15, 0}, {1, -1, 0}};
    aorta_nest_make(ranges, sizeof ranges / sizeof *ranges);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const uint32_t found =
            aorta_nest_find(ranges, sizeof ranges / sizeof *ranges, sizeof *ranges, rows[i].thread, rows[i].time_ns);
        assert_int_equal(found == AORTA_NEST_NONE ? 0 : (int)ranges[found].number, rows[i].number);
    }
    assert_int_equal(aorta_nest_find(NULL, 0, sizeof *ranges, 1, 1), AORTA_NEST_NONE);
}

static uint32_t text(struct aorta_trace_builder *builder, const char *string) {
    return aorta_trace_builder_text(builder, string, strlen(string));
}

static void operation(struct aorta_trace_builder *builder, int64_t number, const char *name, const char *dims) {
    const struct aorta_trace_annotation frame = {0, 0, text(builder, name), 0};
    const struct aorta_operation operation = {.name = name, .name_length = strlen(name), .dims = {dims, strlen(dims)}};
    aorta_trace_builder_operation(builder, &frame, number, &operation);
}

static void add_kernel(struct aorta_trace_builder *builder, int64_t start_ns, int64_t number) {
    const struct aorta_trace_work work = {.start_ns = start_ns,
                                          .end_ns = start_ns + 5,
                                          .bytes = -1,
                                          .correlation = (uint64_t)number,
                                          .name = text(builder, "gemm"),
                                          .stream = aorta_trace_builder_stream(builder, 0, 1, 7),
                                          .queue = AORTA_TRACE_NONE,
                                          .kind = AORTA_TRACE_KERNEL};
    aorta_trace_builder_work(builder, &work, number, NULL, 1000 - start_ns);
}

static struct aorta_trace *finish(struct aorta_trace_builder *builder) {
    struct aorta_trace *trace;
    check_ok(aorta_trace_builder_finish(builder, &trace));
    return trace;
}

static void products_by_their_inputs(void **state) {
    (void)state;
    static const struct {
        const char *name, *dims;
        int64_t batch, m, n, k;
        bool stored;
    } rows[] = {
        {"aten::mm", "[[2304, 512], [512, 768]]", 1, 2304, 768, 512, true},
        {"aten::addmm", "[[768], [512, 64], [64, 768], [], []]", 1, 512, 768, 64, true},
        {"aten::bmm", "[[8, 16, 32], [8, 32, 4]]", 8, 16, 4, 32, true},
        {"aten::baddbmm", "[[1], [8, 16, 32], [8, 32, 4]]", 8, 16, 4, 32, true},
        {"aten::linear", "[[4, 8, 32], [10, 32], [10]]", 1, 32, 10, 32, true},
        {"aten::mv", "[[4, 8], [8]]", 1, 4, 1, 8, true},
        {"aorta::linear_backward_weight", "[[4, 8], [8, 2]]", 1, 4, 2, 8, true},
        {"aten::mm", "[[2304, 512], [513, 768]]", -1, -1, -1, -1, true}, /* does not fit together */
        {"aten::mm", "[[1, 2, 3, 4, 5, 6, 7, 8, 9], [1]]", -1, -1, -1, -1, true},
        {"aten::mm", "[[\"a\"], 7", -1, -1, -1, -1, true},
        {"aten::linear", "[[9223372036854775807, 3, 32], [10, 32]]", -1, -1, -1, -1, true},
        {"aten::_flash_attention_forward", "[[16, 559, 16, 64]]", -1, -1, -1, -1, true},
        {"aten::mm_like", "[[2, 2], [2, 2]]", 0, 0, 0, 0, false},
        {"aten::add", "[[2, 2], [2, 2]]", -1, -1, -1, -1, true},
        {"aten::multinomial", "[[2, 2], []]", 0, 0, 0, 0, false},
        {"mm", "[[2, 2], [2, 2]]", 0, 0, 0, 0, false},
    };
    enum { ROWS = sizeof rows / sizeof *rows };
    struct aorta_trace_builder *builder;
    check_ok(aorta_trace_builder_create(AORTA_TRACE_KINETO, "test", NULL, &builder));
    for (int i = ROWS; i-- > 0;) operation(builder, i + 1, rows[i].name, rows[i].dims); /* in any order */
    for (int i = 0; i < ROWS; i++) add_kernel(builder, 10 * i, i + 1);
    struct aorta_trace *trace = finish(builder);
    for (int i = 0; i < ROWS; i++) {
        if (!rows[i].stored) {
            assert_int_equal(trace->work[i].shape, AORTA_TRACE_NONE);
            continue;
        }
        const struct aorta_trace_shape *shape = &trace->shapes[trace->work[i].shape];
        assert_string_equal(aorta_trace_text(trace, shape->op), rows[i].name);
        assert_int_equal(shape->product.batch, rows[i].batch);
        assert_int_equal(shape->product.m, rows[i].m);
        assert_int_equal(shape->product.n, rows[i].n);
        assert_int_equal(shape->product.k, rows[i].k);
    }
    aorta_trace_free(trace);
}

static void rows_come_in_any_order(void **state) {
    (void)state;
    enum { COUNT = 2000 };
    struct aorta_trace_builder *builder;
    check_ok(aorta_trace_builder_create(AORTA_TRACE_SPOOL, "test", NULL, &builder));
    uint32_t name = text(builder, "cudaLaunchKernel"), thread = aorta_trace_builder_thread(builder, 1, 2);
    for (int i = 0; i < COUNT; i++) {
        int number = i * 773 % COUNT; /* every number once */
        const struct aorta_trace_call call = {10 * number - 7, 10 * number - 4, (uint64_t)number + 1, name, thread, 0};
        add_kernel(builder, 10 * ((i * 1187 + 5) % COUNT), (i * 1187 + 5) % COUNT + 1);
        aorta_trace_builder_call(builder, &call);
    }
    struct aorta_trace *trace = finish(builder);
    assert_int_equal(trace->work_count, COUNT);
    assert_int_equal(trace->call_count, COUNT);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(trace->work[i].start_ns, 10 * i);
        assert_int_equal(trace->work[i].call, i);
        assert_int_equal(trace->calls[i].correlation, i + 1);
    }
    for (int reason = 0; reason < AORTA_REASON_COUNT; reason++) assert_int_equal(trace->warnings[reason].count, 0);
    aorta_trace_free(trace);
}

static void groups_are_stored_once(void **state) {
    (void)state;
    static const int32_t ranks[] = {3, 1}, same[] = {1, 3}, other[] = {1, 2};
    struct aorta_trace_builder *builder;
    check_ok(aorta_trace_builder_create(AORTA_TRACE_KINETO, "test", NULL, &builder));
    uint32_t name = text(builder, "0");
    assert_int_equal(aorta_trace_builder_group(builder, name, AORTA_TRACE_NONE, 2, ranks, 2), 0);
    assert_int_equal(aorta_trace_builder_group(builder, name, AORTA_TRACE_NONE, 2, same, 2), 0);
    assert_int_equal(aorta_trace_builder_group(builder, name, AORTA_TRACE_NONE, 2, other, 2), 1);
    assert_int_equal(aorta_trace_builder_group(builder, name, AORTA_TRACE_NONE, 2, NULL, 0), 2);
    assert_int_equal(aorta_trace_builder_group(builder, name, name, 2, NULL, 0), 3);
    struct aorta_trace *trace = finish(builder);
    assert_int_equal(trace->group_count, 4);
    assert_int_equal(trace->groups[0].ranks[0], 1);
    aorta_trace_free(trace);
}

static void an_unfinished_builder_can_be_dropped(void **state) {
    (void)state;
    struct aorta_trace_builder *builder;
    check_ok(aorta_trace_builder_create(AORTA_TRACE_KINETO, "test", NULL, &builder));
    add_kernel(builder, 1, 1);
    aorta_trace_builder_destroy(builder);
    aorta_trace_builder_destroy(NULL);
    check_ok(aorta_trace_builder_create(AORTA_TRACE_KINETO, "empty", NULL, &builder));
    struct aorta_trace *trace = finish(builder);
    assert_int_equal(trace->work_count, 0);
    assert_string_equal(aorta_trace_text(trace, AORTA_TRACE_NONE), "");
    aorta_trace_free(trace);
}

/* Work on these devices, of a host with `sockets` processors before its cards, which the list numbers from 0 on. */
static const struct aorta_trace_device *device_of(const char *const *names, const int32_t *units, size_t count,
                                                  const int32_t *with_work, size_t work_count, int32_t device,
                                                  struct aorta_trace **trace) {
    struct aorta_trace_builder *builder;
    check_ok(aorta_trace_builder_create(AORTA_TRACE_KINETO, "x.json", NULL, &builder));
    for (size_t i = 0; i < count; i++)
        aorta_trace_builder_device(
            builder, &(struct aorta_trace_device){.id = (int64_t)i,
                                                  .name = aorta_trace_builder_text(builder, names[i], strlen(names[i])),
                                                  .memory_bytes = 206141652992,
                                                  .multiprocessors = units[i],
                                                  .major = 9,
                                                  .minor = 4});
    for (size_t i = 0; i < work_count; i++) aorta_trace_builder_stream(builder, with_work[i], -1, 7);
    check_ok(aorta_trace_builder_finish(builder, trace));
    return aorta_trace_device_of(*trace, device);
}

/* list:  0  1  2  3          numbers of a host with two sockets:  2  3  4  5 */
static void cards_behind_processors_are_found(void **state) {
    (void)state;
    static const struct {
        const char *names[4];
        int32_t units[4];
        size_t count;
        int32_t with_work[3];
        size_t work_count;
        int32_t device;
        int found; /* place in the list; -1: not known; -2: any, as all are alike */
    } rows[] = {
        {{"AMD Instinct MI300X"}, {304}, 1, {2}, 1, 2, 0},
        {{"AMD Instinct MI300X"}, {304}, 1, {9}, 1, 9, 0},
        {{"", "", "", ""}, {304, 304, 304, 304}, 4, {2, 3}, 2, 3, -2},
        {{"AMD Instinct MI300X", "AMD Instinct MI308X"}, {304, 80}, 2, {2, 3}, 2, 2, 0}, /* only a shift of 2 fits */
        {{"AMD Instinct MI300X", "AMD Instinct MI308X"}, {304, 80}, 2, {2, 3}, 2, 3, 1},
        {{"AMD Instinct MI300X", "AMD Instinct MI308X"}, {304, 80}, 2, {2}, 1, 2, -1}, /* which one? */
        {{"AMD Instinct MI300X", "AMD Instinct MI308X"}, {304, 80}, 2, {0}, 1, 0, 0},
        {{"NVIDIA H100", "NVIDIA H20"}, {132, 78}, 2, {1}, 1, 1, 1},
        {{"NVIDIA H100"}, {132}, 1, {2}, 1, 2, -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct aorta_trace *trace;
        const struct aorta_trace_device *found = device_of(
            rows[i].names, rows[i].units, rows[i].count, rows[i].with_work, rows[i].work_count, rows[i].device, &trace);
        const int place = found ? (int)(found - trace->devices) : -1;
        if (rows[i].found == -2 ? place < 0 : place != rows[i].found) fail_msg("row %zu: %d", i, place);
        aorta_trace_free(trace);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_are_known_by_name),
        cmocka_unit_test(innermost_ranges_are_found),
        cmocka_unit_test(products_by_their_inputs),
        cmocka_unit_test(rows_come_in_any_order),
        cmocka_unit_test(groups_are_stored_once),
        cmocka_unit_test(an_unfinished_builder_can_be_dropped),
        cmocka_unit_test(cards_behind_processors_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
