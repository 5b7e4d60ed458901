/* The tracer on a stand-in for libcupti (tests/fake_cupti): real callbacks, known records. */
#include "base/clock.h"
#include "check.h"
#include "device/device.h"
#include "device/gpu.h"
#include "fake_cupti/fake_cupti.h"
#include "measure/tracer.h"
#include "trace/kernel_names.h"

#include <pthread.h>
#include <stdlib.h>

enum { KERNEL = 10, MEMCPY = 1, MEMSET = 2, PEER = 22 };

static const struct fake_cupti *fake;

static void call_driver(void *user) {
    (void)user;
    fake->call(9); /* cuDeviceGetAttribute in cupti_driver_cbid.h */
}

static const struct aorta_tracer_call driver_call = {.call = call_driver};

static struct aorta_tracer *open_tracer(void) {
    struct aorta_tracer *tracer = NULL;
    fake->reset();
    check_ok(aorta_tracer_open_backend(&aorta_tracer_cupti, &driver_call, &tracer));
    return tracer;
}

static void add_kernel(const char *name, uint64_t start, uint64_t end, uint32_t stream) {
    struct fake_activity activity = {.kind = KERNEL, .name = name, .start = start, .end = end, .stream = stream};
    fake->record(&activity);
}

static void every_field(void **state) {
    (void)state;
    struct aorta_tracer *tracer = open_tracer();
    assert_int_equal(fake->enabled(), 4);
    char name[] = "gemm_kernel"; /* short-lived: the library's name ends with its module */
    struct fake_activity rows[] = {
        {.kind = KERNEL,
         .name = name,
         .start = 1000,
         .end = 2500,
         .device = 3,
         .context = 4,
         .stream = 7,
         .correlation = 99,
         .graph = 5,
         .graph_node = 0x500000007,
         .grid = {10, 20, 30},
         .block = {128, 2, 1},
         .shared = 49152,
         .registers = 168,
         .channel = 11,
         .channel_type = 1},
        {.kind = MEMCPY,
         .start = 3000,
         .end = 3100,
         .stream = 8,
         .correlation = 100,
         .bytes = 4096,
         .copy_kind = 1,
         .channel = 12,
         .channel_type = 2},
        {.kind = PEER,
         .start = 3200,
         .end = 3300,
         .device = 1,
         .context = 2,
         .stream = 9,
         .correlation = 101,
         .graph = 6,
         .graph_node = 12,
         .bytes = 8192,
         .copy_kind = 10,
         .channel = 13,
         .channel_type = 2},
        {.kind = MEMSET,
         .start = 3400,
         .end = 3500,
         .stream = 8,
         .correlation = 102,
         .bytes = 512,
         .graph_node = 77,
         .channel = 14,
         .channel_type = 1},
    };
    static const uint32_t types[] = {1, 2, 2, 1};
    for (size_t i = 0; i < 4; i++) fake->record(&rows[i]);
    check_ok(aorta_tracer_flush(tracer, false));
    memset(name, 'x', sizeof name - 1);
    struct aorta_activity_record *records;
    size_t count;
    check_ok(aorta_tracer_records(tracer, 0, 10000, &records, &count));
    assert_int_equal(count, 4);
    const struct aorta_activity_record *r = &records[0];
    assert_int_equal(r->kind, AORTA_TRACE_KERNEL);
    assert_string_equal(r->name, "gemm_kernel");
    assert_int_equal(r->start_ns, 1000);
    assert_int_equal(r->end_ns, 2500);
    assert_int_equal(r->device, 3);
    assert_int_equal(r->context, 4);
    assert_int_equal(r->stream, 7);
    assert_int_equal(r->correlation, 99);
    assert_int_equal(r->graph, 5);
    assert_int_equal(r->graph_node, 0x500000007);
    assert_int_equal(r->grid[0], 10);
    assert_int_equal(r->grid[2], 30);
    assert_int_equal(r->block[0], 128);
    assert_int_equal(r->block[1], 2);
    assert_int_equal(r->shared_bytes, 49152);
    assert_int_equal(r->registers, 168);
    assert_int_equal(records[1].kind, AORTA_TRACE_COPY);
    assert_string_equal(records[1].name, "copy host to device");
    assert_int_equal(records[1].bytes, 4096);
    assert_int_equal(records[1].correlation, 100);
    assert_string_equal(records[2].name, "copy peer to peer");
    assert_int_equal(records[2].correlation, 101);
    assert_int_equal(records[2].graph_node, 12);
    assert_int_equal(records[2].graph, 6);
    assert_int_equal(records[3].kind, AORTA_TRACE_FILL);
    assert_int_equal(records[3].bytes, 512);
    assert_int_equal(records[3].graph_node, 77);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(records[i].channel, 11 + i);
        assert_int_equal(records[i].channel_type, types[i]);
    }
    free(records);
    struct aorta_tracer_facts facts = aorta_tracer_get_facts(tracer);
    assert_string_equal(facts.library, "CUPTI 13.0.1");
    assert_non_null(strstr(facts.path, "fake_cupti/libcupti.so"));
    assert_int_equal(facts.records, 4);
    assert_int_equal(facts.dropped, 0);
    aorta_tracer_close(tracer);
    assert_int_equal(fake->enabled(), 0);
    assert_int_equal(fake->subscribers(), 0);
    assert_int_equal(fake->lent(), 0);
}

/* The library converts the device's times with our clock. */
static void clock_is_the_device_clock(void **state) {
    (void)state;
    struct aorta_tracer *tracer = open_tracer();
    int64_t before = aorta_clock_ns(), asked = (int64_t)fake->now(), after = aorta_clock_ns();
    assert_true(before <= asked && asked <= after);
    aorta_tracer_close(tracer);
}

/* Each record goes to one window, by its middle; older ones nobody asked for are dropped silently. */
static void windows(void **state) {
    (void)state;
    struct aorta_tracer *tracer = open_tracer();
    add_kernel("before", 10, 20, 1);
    add_kernel("early", 90, 130, 1); /* begins before, middle inside */
    add_kernel("late", 180, 210, 1);
    add_kernel("next", 190, 220, 1);
    struct aorta_activity_record *records;
    size_t count;
    check_ok(aorta_tracer_flush(tracer, false));
    check_ok(aorta_tracer_records(tracer, 100, 200, &records, &count));
    assert_int_equal(count, 2);
    assert_string_equal(records[0].name, "early");
    assert_string_equal(records[1].name, "late");
    free(records);
    check_ok(aorta_tracer_records(tracer, 0, 300, &records, &count));
    assert_int_equal(count, 1);
    assert_string_equal(records[0].name, "next");
    free(records);
    assert_int_equal(aorta_tracer_get_facts(tracer).dropped, 0);
    aorta_tracer_close(tracer);
}

/* While later work runs, a buffer stays in the library; a step has been reached when something later has arrived. */
static void a_buffer_arrives_late(void **state) {
    (void)state;
    struct aorta_tracer *tracer = open_tracer();
    bool reached = true;
    add_kernel("step 1", 100, 200, 1);
    check_ok(aorta_tracer_reached(tracer, 250, &reached));
    assert_false(reached); /* it has arrived, but one that ended earlier might still come */
    struct fake_activity running = {.kind = KERNEL, .name = "step 2", .start = 300, .end = 400, .unfinished = 1};
    fake->record(&running);
    check_ok(aorta_tracer_reached(tracer, 250, &reached));
    assert_false(reached);
    fake->finish();
    check_ok(aorta_tracer_reached(tracer, 250, &reached));
    assert_true(reached);
    check_ok(aorta_tracer_reached(tracer, 350, &reached));
    assert_false(reached);
    check_ok(aorta_tracer_flush(tracer, true)); /* the device is idle: all that ended by now has come */
    check_ok(aorta_tracer_reached(tracer, aorta_clock_ns() - 1000000, &reached));
    assert_true(reached);
    aorta_tracer_close(tracer);
}

/* Memory is bounded: the oldest go, and every one of them is counted. */
static void bounded(void **state) {
    (void)state;
    struct aorta_tracer *tracer = open_tracer();
    enum { MANY = 400000 };
    for (int i = 0; i < MANY; i++) add_kernel("k", 1000 + 10 * (uint64_t)i, 1005 + 10 * (uint64_t)i, 1);
    check_ok(aorta_tracer_flush(tracer, true));
    struct aorta_activity_record *records;
    size_t count;
    check_ok(aorta_tracer_records(tracer, 0, INT64_MAX, &records, &count));
    assert_true(count > 0 && count < MANY);
    assert_int_equal(records[count - 1].start_ns, 1000 + 10 * (int64_t)(MANY - 1)); /* the newest is among them */
    const int64_t lost = aorta_tracer_get_facts(tracer).dropped;
    assert_int_equal((int64_t)count + lost, MANY);
    free(records);
    const struct aorta_launches launches = {.after = 0, .until = 10};
    struct aorta_profile profile;
    for (int again = 0; again < 2; again++) {
        check_ok(aorta_tracer_take(tracer, &launches, &profile, &records, &count));
        assert_int_equal(profile.kernels.dropped, again ? 0 : lost); /* reported once */
        aorta_profile_free(&profile);
        free(records);
    }
    aorta_tracer_close(tracer);
    assert_int_equal(fake->lent(), 0);
}

/* A record without its times was given out before it was finished. */
static void without_times(void **state) {
    (void)state;
    struct aorta_tracer *tracer = open_tracer();
    add_kernel("unfinished", 0, 0, 1);
    add_kernel("reversed", 50, 40, 1);
    add_kernel("good", 50, 60, 1);
    check_ok(aorta_tracer_flush(tracer, true));
    struct aorta_tracer_facts facts = aorta_tracer_get_facts(tracer);
    assert_int_equal(facts.records, 1);
    assert_int_equal(facts.dropped, 2);
    aorta_tracer_close(tracer);
}

static void stop_and_start(void **state) {
    (void)state;
    struct aorta_tracer *tracer = open_tracer();
    check_ok(aorta_tracer_stop(tracer));
    check_ok(aorta_tracer_stop(tracer));
    assert_int_equal(fake->enabled(), 0);
    add_kernel("unseen", 10, 20, 1);
    check_ok(aorta_tracer_start(tracer));
    check_ok(aorta_tracer_start(tracer));
    add_kernel("seen", 30, 40, 1);
    check_ok(aorta_tracer_flush(tracer, true));
    assert_int_equal(aorta_tracer_get_facts(tracer).records, 1);
    aorta_tracer_close(tracer);
}

static void one_per_process(void **state) {
    (void)state;
    struct aorta_tracer *tracer = open_tracer(), *second = NULL;
    check_fails(aorta_tracer_open_backend(&aorta_tracer_cupti, &driver_call, &second), AORTA_USAGE,
                "a kernel tracer already");
    assert_null(second);
    add_kernel("still traced", 10, 20, 1);
    check_ok(aorta_tracer_flush(tracer, true));
    assert_int_equal(aorta_tracer_get_facts(tracer).records, 1);
    aorta_tracer_close(tracer);
    tracer = open_tracer(); /* after the first is closed there can be another */
    aorta_tracer_close(tracer);
}

/* Refusals name the call, the library and what to do; nothing stays switched on. */
static void refusals(void **state) {
    (void)state;
    static const struct {
        const char *function;
        uint32_t result;
        enum aorta_code code;
        const char *part;
    } rows[] = {
        {"cuptiActivityEnable", 35, AORTA_UNSUPPORTED, "NVreg_RestrictProfilingToAdminUsers=0"},
        {"cuptiActivityEnable", 35, AORTA_UNSUPPORTED, "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES (35)"},
        {"cuptiSubscribe", 39, AORTA_UNSUPPORTED, "another profiler has CUPTI in this process"},
        {"cuptiEnableCallback", 35, AORTA_UNSUPPORTED, "cuptiEnableCallback ("},
        {"cuptiActivityRegisterCallbacks", 43, AORTA_UNSUPPORTED, "MIG"},
        {"cuptiActivityRegisterTimestampCallback", 15, AORTA_UNSUPPORTED, "could not initialize"},
        {"cuptiGetVersion", 999, AORTA_DEVICE, "cuptiGetVersion ("},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct aorta_tracer *tracer = NULL;
        fake->reset();
        fake->refuse(rows[i].function, rows[i].result);
        check_fails(aorta_tracer_open_backend(&aorta_tracer_cupti, &driver_call, &tracer), rows[i].code, rows[i].part);
        assert_null(tracer);
        assert_int_equal(fake->enabled(), 0);
        assert_int_equal(fake->subscribers(), 0);
    }
    struct aorta_tracer *tracer = NULL;
    fake->reset();
    fake->set_version(18);
    check_fails(aorta_tracer_open_backend(&aorta_tracer_cupti, &driver_call, &tracer), AORTA_UNSUPPORTED,
                "too old (interface 18)");
    tracer = open_tracer();
    add_kernel("k", 10, 20, 1);
    fake->refuse("cuptiActivityFlushAll", 999);
    check_fails(aorta_tracer_flush(tracer, false), AORTA_DEVICE, "cuptiActivityFlushAll");
    fake->refuse("cuptiActivityGetNextRecord", 1);
    check_fails(aorta_tracer_flush(tracer, true), AORTA_DEVICE, "cuptiActivityGetNextRecord");
    fake->reset();
    aorta_tracer_close(tracer);
}

static void not_on_a_cpu(void **state) {
    (void)state;
    struct aorta_device *device;
    struct aorta_tracer *tracer = NULL;
    check_ok(aorta_device_open(AORTA_DEVICE_CPU, 0, &device));
    check_fails(aorta_tracer_open(device, &tracer), AORTA_CONFIG, "on the CPU device the ranges are the operations");
    assert_null(tracer);
    aorta_device_close(device);
    assert_true(aorta_tracer_exists(AORTA_DEVICE_HIP) && aorta_tracer_exists(AORTA_DEVICE_CUDA));
    aorta_tracer_close(NULL);
}

/* ---- what work belongs to ---- */

static void add_launch(const char *name, uint32_t correlation, uint64_t node) {
    struct fake_activity activity = {.kind = KERNEL,
                                     .name = name,
                                     .start = 1000 + 10 * (uint64_t)correlation,
                                     .end = 1005 + 10 * (uint64_t)correlation,
                                     .correlation = correlation,
                                     .graph_node = node};
    fake->record(&activity);
}

static void expect_taken(struct aorta_tracer *tracer, uint32_t after, uint32_t until, const char *names) {
    const struct aorta_launches launches = {.after = after, .until = until};
    struct aorta_profile profile;
    struct aorta_activity_record *records;
    size_t count;
    char taken[64] = "";
    check_ok(aorta_tracer_take(tracer, &launches, &profile, &records, &count));
    for (size_t i = 0; i < count; i++) strncat(taken, records[i].name, 8);
    assert_string_equal(taken, names);
    assert_int_equal(profile.range_count, count);
    aorta_profile_free(&profile);
    free(records);
}

/* An iteration's records are those of its launches, whenever they ran; also where the numbers begin anew. */
static void iterations_by_their_launches(void **state) {
    (void)state;
    static const uint32_t starts[] = {100, UINT32_MAX - 5};
    for (size_t i = 0; i < 2; i++) {
        struct aorta_tracer *tracer = open_tracer();
        uint32_t marks[4];
        fake->set_number(starts[i]);
        add_launch("x", fake->call(0), 0); /* before the first iteration: nobody's */
        for (int step = 0; step < 3; step++) {
            static const char *const names[] = {"a", "b", "c"};
            marks[step] = aorta_tracer_launches(tracer);
            add_launch(names[step], fake->call(0), 0);
            add_launch("+", fake->call(0), 0);
        }
        marks[3] = aorta_tracer_launches(tracer);
        check_ok(aorta_tracer_flush(tracer, true));
        if (i == 0) expect_taken(tracer, marks[0], marks[1], "a+");
        if (i == 0) expect_taken(tracer, marks[0], marks[1], ""); /* each goes out once */
        if (i == 0) expect_taken(tracer, marks[1], marks[2], "b+");
        expect_taken(tracer, marks[2], marks[3], "c+");
        assert_int_equal(aorta_tracer_get_facts(tracer).dropped, 0);
        aorta_tracer_close(tracer);
    }
}

static void *launch_elsewhere(void *unused) {
    (void)unused;
    fake->call(9);
    fake->node(77, 0);
    return NULL;
}

static uint64_t label_of(struct aorta_tracer *tracer, uint64_t node) {
    const uint32_t after = aorta_tracer_launches(tracer);
    add_launch("node", fake->call(0), node);
    const struct aorta_launches launches = {.after = after, .until = aorta_tracer_launches(tracer)};
    struct aorta_profile profile;
    struct aorta_activity_record *records;
    size_t count;
    check_ok(aorta_tracer_flush(tracer, true));
    check_ok(aorta_tracer_take(tracer, &launches, &profile, &records, &count));
    assert_int_equal(count, 1);
    const uint64_t label = records[0].label;
    aorta_profile_free(&profile);
    free(records);
    return label;
}

/* Nodes have the label that was set when they were captured, and so have those made of them, and of these; not the
 * nodes that another thread captures meanwhile. */
static void nodes_are_labelled(void **state) {
    (void)state;
    pthread_t thread;
    struct aorta_tracer *tracer = open_tracer();
    fake->node(1, 0);
    aorta_tracer_label(tracer, 40);
    fake->node(3, 0);
    fake->node(2, 0);
    assert_int_equal(pthread_create(&thread, NULL, launch_elsewhere, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    aorta_tracer_label(tracer, 41);
    fake->node(4, 0);
    aorta_tracer_label(tracer, 0);
    fake->node(5, 0);
    for (uint64_t node = 1; node <= 5; node++) fake->node(100 + node, node);
    fake->node(203, 103);
    static const uint64_t expected[][2] = {{1, 0},    {2, 40},   {3, 40},   {4, 41},  {5, 0},  {101, 0},
                                           {102, 40}, {103, 40}, {104, 41}, {105, 0}, {77, 0}, {203, 40}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        assert_int_equal(label_of(tracer, expected[i][0]), expected[i][1]);
    fake->node(6, 0);
    fake->node(106, 4); /* known after the earlier nodes were fetched */
    assert_int_equal(label_of(tracer, 106), 41);
    aorta_tracer_close(tracer);
}

/* Without numbers nothing could be joined: it is refused, and nothing stays switched on. */
static void launches_without_numbers(void **state) {
    (void)state;
    struct aorta_tracer *tracer = NULL;
    fake->reset();
    check_fails(aorta_tracer_open_backend(&aorta_tracer_cupti, &(struct aorta_tracer_call){.call = free}, &tracer),
                AORTA_UNSUPPORTED, "numbers no launches (0, then 0)");
    assert_int_equal(fake->subscribers(), 0);
}

static void *launch(void *unused) {
    (void)unused;
    for (int i = 0; i < 20000; i++) add_kernel(i % 2 ? "even" : "odd", 100 + (uint64_t)i, 101 + (uint64_t)i, 1);
    return NULL;
}

/* The library's threads hand in while ours takes: nothing is lost or counted twice. */
static void side_by_side(void **state) {
    (void)state;
    struct aorta_tracer *tracer = open_tracer();
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, launch, NULL), 0);
    for (int i = 0; i < 50; i++) check_ok(aorta_tracer_flush(tracer, false));
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    check_ok(aorta_tracer_flush(tracer, true));
    struct aorta_tracer_facts facts = aorta_tracer_get_facts(tracer);
    assert_int_equal(facts.records, 40000);
    assert_int_equal(facts.dropped, 0);
    aorta_tracer_close(tracer);
}

/* CUPTI gives mangled names; records have names as people read them, the same string for the same kernel. */
static void names_are_demangled(void **state) {
    (void)state;
    static const char mangled[] = "_Z31ncclDevKernel_AllGather_RING_LL24ncclDevKernelArgsStorageILm4096EE";
    char *expected = aorta_demangle(mangled);
    struct aorta_tracer *tracer = open_tracer();
    struct aorta_activity_record *records;
    size_t count;
    for (uint64_t i = 0; i < 3; i++) add_kernel(i == 1 ? "fill" : mangled, 1000 + 100 * i, 1050 + 100 * i, 7);
    check_ok(aorta_tracer_flush(tracer, true));
    check_ok(aorta_tracer_records(tracer, 0, INT64_MAX, &records, &count));
    assert_int_equal(count, 3);
    assert_string_equal(records[0].name, expected ? expected : mangled);
    assert_ptr_equal(records[0].name, records[2].name);
    assert_string_equal(records[1].name, "fill");
    free(expected);
    free(records);
    aorta_tracer_close(tracer);
}

int main(void) {
    setenv("AORTA_LIBRARY_PATH", FAKE_CUPTI, 1);
    fake = fake_cupti_open(FAKE_CUPTI);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_demangled),
        cmocka_unit_test(every_field),
        cmocka_unit_test(clock_is_the_device_clock),
        cmocka_unit_test(windows),
        cmocka_unit_test(a_buffer_arrives_late),
        cmocka_unit_test(bounded),
        cmocka_unit_test(without_times),
        cmocka_unit_test(stop_and_start),
        cmocka_unit_test(one_per_process),
        cmocka_unit_test(refusals),
        cmocka_unit_test(not_on_a_cpu),
        cmocka_unit_test(side_by_side),
        cmocka_unit_test(iterations_by_their_launches),
        cmocka_unit_test(nodes_are_labelled),
        cmocka_unit_test(launches_without_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
