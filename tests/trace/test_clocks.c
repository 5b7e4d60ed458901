/* Work starts after the call that launched it. Where a file says otherwise, the device's clock is ahead:
 *
 *   host      |launch 0     |launch 1     |launch 2     ...
 *   device  |k 0 |        |k 1 |        |k 2 |              as recorded: each starts before its launch
 *   device    |k 0 |        |k 1 |        |k 2 |            corrected by the largest lead
 */
#include "check.h"
#include "trace/builder.h"

enum { PERIOD_NS = 1000000, LENGTH_NS = 5000 };

struct file {
    struct aorta_trace_builder *builder;
    uint64_t correlation;
};

static uint32_t text(struct file *file, const char *string) {
    return aorta_trace_builder_text(file->builder, string, strlen(string));
}

static struct file begin(void) {
    struct file file = {0};
    check_ok(aorta_trace_builder_create(AORTA_TRACE_KINETO, "test", NULL, &file.builder));
    return file;
}

static void add_call(struct file *file, int64_t start_ns) {
    const struct aorta_trace_call call = {start_ns,
                                          start_ns + 2000,
                                          ++file->correlation,
                                          text(file, "cudaLaunchKernel"),
                                          aorta_trace_builder_thread(file->builder, 1, 1),
                                          AORTA_CALL_OTHER};
    aorta_trace_builder_call(file->builder, &call);
}

/* The call added last launches it. */
static void add_kernel(struct file *file, int32_t device, int64_t start_ns) {
    const struct aorta_trace_work work = {.start_ns = start_ns,
                                          .end_ns = start_ns + LENGTH_NS,
                                          .bytes = -1,
                                          .correlation = file->correlation,
                                          .name = text(file, "gemm"),
                                          .stream = aorta_trace_builder_stream(file->builder, device, 1, 7),
                                          .queue = AORTA_TRACE_NONE,
                                          .device = device,
                                          .kind = AORTA_TRACE_KERNEL};
    aorta_trace_builder_work(file->builder, &work, -1, NULL, -1);
}

/* Launch i at i ms; its kernel leads by leads_us[i]. */
static void add_launches(struct file *file, int32_t device, const double *leads_us, int count) {
    for (int i = 0; i < count; i++) {
        add_call(file, (int64_t)i * PERIOD_NS);
        add_kernel(file, device, (int64_t)i * PERIOD_NS - (int64_t)(leads_us[i] * 1e3));
    }
}

static struct aorta_trace *finish(struct file *file) {
    struct aorta_trace *trace;
    check_ok(aorta_trace_builder_finish(file->builder, &trace));
    return trace;
}

static void leads_decide(void **state) {
    (void)state;
    static const struct {
        const char *what;
        double leads_us[8];
        int count;
        double ahead_us;
        int early; /* work that starts before its launch even then */
    } rows[] = {
        {"each launch finds the device idle", {28, 31, 29, 30, 27, 30}, 6, 31, 0},
        {"the device is mostly behind, so that few show it", {-900, -800, 60, 45, -990, 40, -700, -650}, 8, 60, 0},
        {"the clock drifts", {10, 20, 30, 40, 50, 60, 70, 80}, 8, 80, 0},
        {"work after its launch", {-4, -5, -6, -4}, 4, 0, 0},
        {"rounded to microseconds", {1, 1, 0, 1, -2, -3}, 6, 0, 3},
        {"two alone are too few", {40, 38, -5, -5, -5, -5}, 6, 0, 2},
        {"a damaged record", {5e6, 30, 25, 28, -5, -5}, 6, 30, 1},
        {"damaged records that agree", {5e6, 5e6, 5e6, 5e6, -5, -5, -5, -5}, 8, 0, 4},
        {"the same, of a device that is ahead", {5e6, 5e6, 5e6, 30, 25, 28, 20, 20}, 8, 30, 3},
        {"clocks without relation", {3.6e9, 3.6e9 - 7, 3.6e9 - 5, 3.6e9 - 3}, 4, 3.6e9, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct file file = begin();
        add_launches(&file, 0, rows[i].leads_us, rows[i].count);
        struct aorta_trace *trace = finish(&file);
        const int64_t ahead_ns = aorta_trace_device_ahead(trace, 0);
        const int64_t early = trace->warnings[AORTA_REASON_LAUNCH_AFTER_START].count;
        if (ahead_ns != (int64_t)(rows[i].ahead_us * 1e3) || early != rows[i].early)
            fail_msg("%s: %lld ns, %lld early", rows[i].what, (long long)ahead_ns, (long long)early);
        assert_int_equal(trace->work_count, rows[i].count);
        for (size_t j = 0; j < trace->work_count; j++) {
            const struct aorta_trace_work *work = &trace->work[j];
            assert_int_equal(work->end_ns - work->start_ns, LENGTH_NS);
            if (j) assert_true(work->start_ns >= work[-1].start_ns);
        }
        aorta_trace_free(trace);
    }
}

/* Each device has a clock. Steps that the file marks on devices move with the device that moves least. */
static void devices_have_their_own_clock(void **state) {
    (void)state;
    static const double first_us[] = {30, 20, 25}, second_us[] = {-4, -5, -6}, third_us[] = {12, 11, 14};
    struct file file = begin();
    add_launches(&file, 0, first_us, 3);
    add_launches(&file, 1, second_us, 3);
    struct aorta_trace *trace = finish(&file);
    assert_int_equal(aorta_trace_device_ahead(trace, 0), 30000);
    assert_int_equal(aorta_trace_device_ahead(trace, 1), 0);
    for (size_t i = 0; i < trace->work_count; i++)
        assert_true(trace->work[i].start_ns >= trace->calls[trace->work[i].call].start_ns);
    aorta_trace_free(trace);
    file = begin();
    add_launches(&file, 0, first_us, 3);
    add_launches(&file, 1, third_us, 3);
    aorta_trace_builder_device_annotation(file.builder, text(&file, "ProfilerStep#4"), 1000, 5000);
    trace = finish(&file);
    assert_int_equal(trace->clock_count, 2);
    assert_int_equal(trace->step_count, 1);
    assert_int_equal(trace->steps[0].device_start_ns, 15000);
    assert_int_equal(trace->steps[0].device_end_ns, 19000);
    aorta_trace_free(trace);
}

/* A graph is launched once, however many kernels it has: one record, which may be damaged. */
static void graphs_count_once(void **state) {
    (void)state;
    for (int graphs = 1; graphs <= 3; graphs += 2) {
        struct file file = begin();
        for (int i = 0; i < graphs; i++) {
            add_call(&file, (int64_t)i * PERIOD_NS);
            for (int k = 0; k < 20; k++) add_kernel(&file, 0, (int64_t)i * PERIOD_NS - 40000 + (int64_t)k * LENGTH_NS);
        }
        struct aorta_trace *trace = finish(&file);
        assert_int_equal(aorta_trace_device_ahead(trace, 0), graphs == 1 ? 0 : 40000);
        aorta_trace_free(trace);
    }
}

/* Launches that `aorta train` divides a range's time into, those of its captured steps, and numbers that several
 * launches share, do not count. */
static void made_up_launches_do_not_count(void **state) {
    (void)state;
    static const double leads_us[] = {30, 31, 32, 33};
    struct file file = begin();
    aorta_trace_builder_head(file.builder)->own = true;
    add_launches(&file, 0, leads_us, 4);
    struct aorta_trace *trace = finish(&file);
    assert_int_equal(trace->clock_count, 0);
    aorta_trace_free(trace);
    check_ok(aorta_trace_builder_create(AORTA_TRACE_METRICS, "test", NULL, &file.builder));
    file.correlation = 0;
    add_launches(&file, 0, leads_us, 4);
    trace = finish(&file);
    assert_int_equal(trace->clock_count, 0);
    aorta_trace_free(trace);
    file = begin();
    add_launches(&file, 0, leads_us, 4);
    file.correlation = 0;
    add_call(&file, 8 * (int64_t)PERIOD_NS);
    trace = finish(&file);
    assert_int_equal(trace->clock_count, 0);
    aorta_trace_free(trace);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leads_decide),
        cmocka_unit_test(devices_have_their_own_clock),
        cmocka_unit_test(graphs_count_once),
        cmocka_unit_test(made_up_launches_do_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
