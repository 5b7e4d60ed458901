/* The tracer on a stand-in for librocprofiler-sdk (tests/fake_rocprofiler): real callbacks, known records. The library
 * is configured once in a process; what fails in that is tried in processes of its own. */
#include "base/clock.h"
#include "check.h"
#include "fake_rocprofiler/fake_rocprofiler.h"
#include "measure/tracer.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KERNEL_A = 3, KERNEL_B = 900, MS = 1000000 };

static const struct fake_rocprofiler *fake;
static void *library;
static const struct aorta_tracer_call no_call;

static struct aorta_tracer *open_tracer(void) {
    struct aorta_tracer *tracer = NULL;
    check_ok(aorta_tracer_open_backend(&aorta_tracer_rocprofiler, &no_call, &tracer));
    return tracer;
}

/* A kernel of 1 us at this time of the device clock, launched now on the stream. */
static void run_kernel(uint64_t kernel, uint64_t stream, int64_t start_ns) {
    fake->enter(stream);
    const struct fake_dispatch work = {.start = (uint64_t)start_ns + FAKE_CLOCK_AHEAD_NS,
                                       .end = (uint64_t)start_ns + 1000 + FAKE_CLOCK_AHEAD_NS,
                                       .external = fake->launch(),
                                       .agent = 5,
                                       .queue = 9,
                                       .kernel = kernel,
                                       .group_bytes = 4096,
                                       .workgroup = {256, 2, 1},
                                       .grid = {1000, 2, 1}};
    fake->leave();
    fake->finish(&work);
}

static size_t take(struct aorta_tracer *tracer, struct aorta_activity_record **records) {
    size_t count;
    check_ok(aorta_tracer_records(tracer, 0, INT64_MAX, records, &count));
    return count;
}

static void test_every_field(void **state) {
    (void)state;
    struct aorta_tracer *tracer = open_tracer();
    struct aorta_activity_record *records;
    const int64_t begin = aorta_clock_ns();
    assert_true(fake->running());
    fake->load(KERNEL_A, "gemm_kernel");
    run_kernel(KERNEL_A, 4, begin);
    run_kernel(KERNEL_B, 0, begin + 2000);
    const struct fake_dispatch copy = {.start = (uint64_t)begin + 5000 + FAKE_CLOCK_AHEAD_NS,
                                       .end = (uint64_t)begin + 7000 + FAKE_CLOCK_AHEAD_NS,
                                       .external = fake->launch(),
                                       .agent = 5,
                                       .copy = 2,
                                       .bytes = 1 << 20};
    fake->finish(&copy);
    check_ok(aorta_tracer_flush(tracer, true));
    assert_int_equal(take(tracer, &records), 3);
    assert_int_equal(records[0].kind, AORTA_TRACE_KERNEL);
    assert_string_equal(records[0].name, "gemm_kernel");
    assert_in_range(llabs(records[0].start_ns - begin), 0, 100000); /* its clock is a second ahead */
    assert_int_equal(records[0].end_ns - records[0].start_ns, 1000);
    assert_int_equal(records[0].stream, 4);
    assert_int_equal(records[0].device, 5);
    assert_int_equal(records[0].channel, 9);
    assert_int_equal(records[0].shared_bytes, 4096);
    assert_int_equal(records[0].block[0], 256);
    assert_int_equal(records[0].grid[0], 4); /* 1000 work-items */
    assert_int_equal(records[0].grid[1], 1);
    assert_string_equal(records[1].name, "unnamed kernel");
    assert_int_equal(records[1].stream, 0);
    assert_int_equal(records[2].kind, AORTA_TRACE_COPY);
    assert_string_equal(records[2].name, "copy host to device");
    assert_int_equal(records[2].bytes, 1 << 20);
    free(records);
    const struct aorta_tracer_facts facts = aorta_tracer_get_facts(tracer);
    assert_string_equal(facts.library, "rocprofiler-sdk 1.0.0");
    assert_int_equal(facts.records, 3);
    assert_int_equal(facts.dropped, 0);
    aorta_tracer_close(tracer);
    assert_false(fake->running());
}

/* Launches are numbered on the thread that makes them, so that an iteration gets its own work. */
static void test_launches_are_numbered(void **state) {
    (void)state;
    struct aorta_tracer *tracer = open_tracer();
    struct aorta_profile profile;
    struct aorta_activity_record *records;
    size_t count;
    const int64_t begin = aorta_clock_ns();
    run_kernel(KERNEL_A, 1, begin);
    struct aorta_launches launches = {.after = aorta_tracer_launches(tracer)};
    run_kernel(KERNEL_A, 1, begin + 10000);
    run_kernel(KERNEL_A, 2, begin + 20000);
    launches.until = aorta_tracer_launches(tracer);
    run_kernel(KERNEL_A, 1, begin + 30000);
    check_ok(aorta_tracer_flush(tracer, true));
    check_ok(aorta_tracer_take(tracer, &launches, &profile, &records, &count));
    assert_int_equal(count, 2);
    assert_int_equal(records[0].correlation, launches.after + 1);
    assert_int_equal(records[1].correlation, launches.until);
    aorta_profile_free(&profile);
    free(records);
    aorta_tracer_close(tracer);
}

/* A record says nothing about work that ended up to 10 ms before it began: that may come later. */
static void test_records_come_in_any_order(void **state) {
    (void)state;
    struct aorta_tracer *tracer = open_tracer();
    const int64_t begin = aorta_clock_ns();
    bool reached;
    run_kernel(KERNEL_A, 1, begin + 5 * MS);
    check_ok(aorta_tracer_reached(tracer, begin, &reached));
    assert_false(reached);
    run_kernel(KERNEL_A, 1, begin);
    run_kernel(KERNEL_A, 1, begin + 20 * MS);
    check_ok(aorta_tracer_reached(tracer, begin + 6 * MS, &reached));
    assert_true(reached);
    aorta_tracer_close(tracer);
}

static void test_lost_records_are_counted(void **state) {
    (void)state;
    struct aorta_tracer *tracer = open_tracer();
    const struct fake_dispatch unfinished = {.start = 0, .end = 0};
    fake->lose(7);
    fake->finish(&unfinished);
    check_ok(aorta_tracer_flush(tracer, true));
    assert_int_equal(aorta_tracer_get_facts(tracer).dropped, 8);
    aorta_tracer_close(tracer);
    tracer = open_tracer();
    assert_int_equal(aorta_tracer_get_facts(tracer).dropped, 0);
    aorta_tracer_close(tracer);
}

static void test_one_at_a_time(void **state) {
    (void)state;
    struct aorta_tracer *tracer = open_tracer(), *second = NULL;
    check_fails(aorta_tracer_open_backend(&aorta_tracer_rocprofiler, &no_call, &second), AORTA_USAGE, "already");
    check_ok(aorta_tracer_stop(tracer));
    assert_false(fake->running());
    assert_int_equal(fake->launch(), 0);
    check_ok(aorta_tracer_start(tracer));
    fake->refuse("rocprofiler_flush_buffer", 1);
    check_fails(aorta_tracer_flush(tracer, true), AORTA_UNSUPPORTED, "rocprofiler_flush_buffer");
    fake->refuse(NULL, 0);
    aorta_tracer_close(tracer);
}

/* ---- what fails when the library is configured ---- */

static void locked(void) {
    fake->refuse("rocprofiler_force_configure", 16);
}

static void no_buffer(void) {
    fake->refuse("rocprofiler_create_buffer", 1);
}

static void too_old(void) {
    fake->set_version(0, 6, 0);
}

static void missing(void) {
    dlclose(library);
    setenv("AORTA_LIBRARY_PATH", "/nowhere", 1);
}

static void hip_first(void) {
    assert_non_null(dlopen(FAKE_HIP "/libamdhip64.so.6", RTLD_NOW));
}

static void hip_first_and_new(void) {
    hip_first();
    fake->set_version(1, 3, 0);
}

/* In a child: the exit status says whether opening failed with the text; NULL: whether it went well. */
static void expect_in_child(void (*change)(void), const char *text) {
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        struct aorta_tracer *tracer = NULL;
        change();
        aorta_tracer_prepare();
        aorta_status status = aorta_tracer_open_backend(&aorta_tracer_rocprofiler, &no_call, &tracer);
        const char *message = aorta_status_message(status);
        if (status) fprintf(stderr, "%s\n", message);
        const bool said = text && (strstr(message, text) || strstr(aorta_status_detail(status), text));
        const bool expected = text ? said : !status;
        _exit(expected && (!text || aorta_status_code(status) == AORTA_UNSUPPORTED) ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status) fail_msg("not \"%s\"", text ? text : "opened");
}

static void test_refusals(void **state) {
    (void)state;
    expect_in_child(locked, "another profiler has rocprofiler-sdk in this process");
    expect_in_child(no_buffer, "rocprofiler_create_buffer");
    expect_in_child(too_old, "is too old (rocprofiler-sdk 0.6.0); that of ROCm 7.0 or later is needed");
    expect_in_child(missing, "nothing of it in /nowhere");
    expect_in_child(hip_first, "HIP had begun before");
    expect_in_child(hip_first_and_new, NULL);
}

static void open_fake(void) {
    library = dlopen(FAKE_ROCPROFILER "/librocprofiler-sdk.so.1", RTLD_NOW | RTLD_LOCAL);
    const struct fake_rocprofiler *(*get)(void) = NULL;
    if (library) *(void **)&get = dlsym(library, "fake_rocprofiler");
    if (get) fake = get();
    if (fake) return;
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals), /* first: later tests configure this process */
        cmocka_unit_test(test_every_field),
        cmocka_unit_test(test_launches_are_numbered),
        cmocka_unit_test(test_records_come_in_any_order),
        cmocka_unit_test(test_lost_records_are_counted),
        cmocka_unit_test(test_one_at_a_time),
    };
    setenv("AORTA_LIBRARY_PATH", FAKE_ROCPROFILER, 1);
    open_fake();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
