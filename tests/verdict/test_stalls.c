/* Where a recording says what the host does in a stall, the verdict says it, too. */
#include "folder.h"
#include "said.h"
#include "samples/kineto.h"
#include "trace/nsys_database.h"
#include "trace/open.h"
#include "verdict/verdict.h"

#include <string.h>

struct run {
    struct aorta_trace_list list;
    struct aorta_trace_analysis analysis;
    struct aorta_verdict verdict;
};

/* The finding of the stalls. */
static const struct aorta_finding *analyze(struct run *run) {
    check_ok(aorta_trace_analyze(&run->list, NULL, &run->analysis));
    said_make(&run->analysis, &run->verdict);
    return said_finding(&run->verdict, AORTA_CAUSE_HOST_PAUSE);
}

static void end(struct run *run) {
    aorta_verdict_free(&run->verdict);
    aorta_trace_analysis_free(&run->analysis);
    aorta_trace_list_free(&run->list);
}

/* An export of nsys: 20 launches, 20 us apart, and a stall of 100 ms before the last one, whose kernel is new. Times of
 * `more`, rows of OSRT_API and NVTX_EVENTS, are ms after the beginning of the stall.
 *
 *   host   |l|l|l| … |l|______ 100 ms: poll, fsync, a range … ______|l|
 *   GPU     |k|k|k| … |k|                                           |new|   */
static const struct aorta_finding *open_export(struct run *run, const char *more) {
    enum { LAUNCHES = 20, THREAD = 16777217 };
    static const char tables[] =
        "CREATE TABLE StringIds (id INTEGER, value TEXT);"
        "INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'new'), (3, 'cudaLaunchKernel_v7000'), (4, 'poll'), (5, "
        "'fsync'),"
        " (6, 'posix_spawn');"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER,"
        " streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId "
        "INTEGER,"
        " nameId INTEGER);"
        "CREATE TABLE OSRT_API (start INTEGER, end INTEGER, globalTid INTEGER, nameId INTEGER);"
        "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, globalTid INTEGER);";
    char folder[FOLDER_PATH], path[FOLDER_PATH + 16];
    const char *const input = path;
    struct aorta_text text = {0};
    folder_make(folder, "stalls");
    snprintf(path, sizeof path, "%s/a.sqlite", folder);
    aorta_text_puts(&text, tables);
    for (int i = 0; i < LAUNCHES; i++) {
        const int at = i * 20000 + (i == LAUNCHES - 1 ? 100000000 : 0);
        aorta_text_printf(&text,
                          "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (%d, %d, %d, %d, 3);"
                          "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (%d, %d, 0, 1, 7, %d, 16777216, %d);",
                          at, at + 5000, THREAD, i + 1, at + 10000, at + 25000, i + 1, i == LAUNCHES - 1 ? 2 : 1);
    }
    aorta_text_puts(&text, more);
    aorta_text_puts(&text, "UPDATE OSRT_API SET start = start * 1000000 + 365000, end = end * 1000000 + 365000;"
                           "UPDATE NVTX_EVENTS SET start = start * 1000000 + 365000, end = end * 1000000 + 365000;");
    check_ok(aorta_text_check(&text));
    run_statements(path, text.data);
    aorta_text_free(&text);
    check_ok(aorta_trace_open_inputs(&input, 1, NULL, &run->list));
    assert_int_equal(folder_remove(folder), 0);
    return analyze(run);
}

/* `host`: what the host is in; "": not known. */
static void expect(const char *more, const char *host, enum aorta_fact_key flag, const char *advice) {
    static const enum aorta_fact_key flags[] = {AORTA_FACT_PAUSE_COMPILED, AORTA_FACT_PAUSE_COMPUTES};
    struct run run = {0};
    const struct aorta_finding *stall = open_export(&run, more);
    const struct aorta_fact *pause = said_fact(stall, AORTA_FACT_PAUSE);
    said_near(pause->value, 100, 0.1);
    assert_string_equal(pause->place.host ? pause->place.host : "", host);
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        assert_int_equal(said_has(stall, flags[i]), flags[i] == flag);
    said_expect(said_advice(stall), advice);
    end(&run);
}

#define OSRT(start, end, name) "INSERT INTO OSRT_API VALUES (" #start ", " #end ", 16777217, " #name ");"
#define RANGE(start, end, name) "INSERT INTO NVTX_EVENTS VALUES (" #start ", " #end ", 59, '" name "', 16777217);"

static void calls_of_the_system_say_what_a_stall_is(void **state) {
    (void)state;
    const enum aorta_fact_key none = AORTA_FACT_COUNT;
    expect("", "", none, "find what the host does");
    expect(OSRT(10, 40, 4) OSRT(41, 71, 4) OSRT(72, 92, 5), "poll", none, "find what the host does"); /* two of poll */
    expect(OSRT(10, 30, 4) OSRT(72, 92, 5), "", none, "find what the host does");
    expect(OSRT(10, 12, 4), "", AORTA_FACT_PAUSE_COMPUTES, "make the host's code there faster");
    expect("INSERT INTO OSRT_API VALUES (10, 12, 16777218, 4);", "", none, "find what the host does"); /* a thread */
    expect(OSRT(10, 11, 6) OSRT(12, 92, 4), "poll", AORTA_FACT_PAUSE_COMPILED, "are compiled once");
}

/* The innermost range that lasts for half of the stall, also one that ends before the next launch. */
static void ranges_within_a_stall_are_named(void **state) {
    (void)state;
    const enum aorta_fact_key none = AORTA_FACT_COUNT;
    expect(RANGE(-1, 102, "step"), "step", none, "find what the host does");
    expect(RANGE(-1, 102, "step") RANGE(5, 60, "load layer") RANGE(6, 40, "read"), "load layer", none,
           "find what the host does");
    expect(RANGE(5, 90, "Nvrtc::CompileProgram"), "Nvrtc::CompileProgram", AORTA_FACT_PAUSE_COMPILED, "compiled once");
    expect(RANGE(5, 90, "CompiledFxGraph"), "CompiledFxGraph", none,
           "find what the host does"); /* runs, compiled before */
    const char other[] = "INSERT INTO NVTX_EVENTS VALUES (5, 60, 59, 'Alloc', 16777218);";
    char xla[256];
    expect(other, "", none, "find what the host does");
    snprintf(xla, sizeof xla, "%sUPDATE StringIds SET value = 'loop_add_fusion' WHERE id = 1;", other);
    expect(xla, "Alloc", none, "see whether jit compiles again"); /* its threads wait for each other */
}

/* A kernel of PyTorch after each stall, each at a place of its own; the host waits `ms` before it. */
static const struct aorta_finding *open_stalls(struct run *run, const char *prefix, const double *ms, int count) {
    struct sample_kineto sample;
    double at_us = 1000;
    char name[64];
    sample_kineto_begin(&sample, 0, 1);
    for (int i = 0; i < 40; i++) {
        const bool stalls = i % 5 == 4 && i / 5 < count;
        snprintf(name, sizeof name, "%s%d", prefix, stalls ? i : 0);
        if (stalls) at_us += 1e3 * ms[i / 5];
        sample_kineto_kernel(&sample, name, 7, at_us, at_us + 5, 15, "");
        at_us += 20;
    }
    sample_kineto_open(&sample, &run->list);
    return analyze(run);
}

static void stalls_are_counted(void **state) {
    (void)state;
    static const double ms[] = {3, 7, 8.2, 12.3, 2.5};
    struct run run = {0};
    const struct aorta_finding *stall = open_stalls(&run, "at::native::add", ms, 5);
    said_near(said_value(stall, AORTA_FACT_STALLS), 5, 0);
    said_expect(said_text(&run.verdict), "host stall (host_pause), 5 stalls at 4 places or more\n");
    end(&run);
    stall = open_stalls(&run, "at::native::add", ms, 1);
    assert_false(said_has(stall, AORTA_FACT_STALLS));
    end(&run);
}

/* PyTorch's kernels, 20 us apart, and a stall of 30 ms in the middle:
 *
 *   operation                    [    aten::…, if there is one    ]
 *   host    |launch|launch| … |launch|____ 30 ms ____|call|launch| …   */
static void what_surrounds_a_stall_gives_its_fix(void **state) {
    (void)state;
    static const struct {
        const char *call, *operation, *kernel; /* NULL: none, a kernel that ran before */
        enum aorta_fact_key flag;
        const char *fix;
    } rows[] = {{"cudaMalloc", NULL, NULL, AORTA_FACT_PAUSE_MEMORY, "expandable_segments"},
                {"cudaFree", "aten::addmm", NULL, AORTA_FACT_COUNT, "who shares its cores"}, /* starts cuBLAS */
                {"cudaMalloc", NULL, "nvfuser_pointwise_f0", AORTA_FACT_PAUSE_COMPILED, "compiled once"},
                {NULL, "aten::cudnn_convolution", NULL, AORTA_FACT_PAUSE_PLANS, "a few fixed sizes"},
                {NULL, "aten::mul", NULL, AORTA_FACT_COUNT, "who shares its cores"}};
    static const enum aorta_fact_key flags[] = {AORTA_FACT_PAUSE_MEMORY, AORTA_FACT_PAUSE_COMPILED,
                                                AORTA_FACT_PAUSE_PLANS};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sample_kineto sample;
        struct run run = {0};
        sample_kineto_begin(&sample, 0, 1);
        for (int j = 0; j < 20; j++) {
            const double at_us = 1000 + 20 * j + (j >= 10 ? 30000 : 0);
            const char *kernel = j == 10 && rows[i].kernel ? rows[i].kernel : "at::native::add";
            if (j == 10 && rows[i].operation)
                sample_kineto_event(&sample, "cpu_op", rows[i].operation, 1, at_us - 29900, 29910, "");
            if (j == 10 && rows[i].call)
                sample_kineto_event(&sample, "cuda_runtime", rows[i].call, 1, at_us - 10, 8, "");
            sample_kineto_kernel(&sample, kernel, 7, at_us, at_us + 5, 15, "");
        }
        sample_kineto_open(&sample, &run.list);
        const struct aorta_finding *stall = analyze(&run);
        for (size_t j = 0; j < sizeof flags / sizeof *flags; j++)
            assert_int_equal(said_has(stall, flags[j]), flags[j] == rows[i].flag);
        said_expect(said_advice(stall), rows[i].fix);
        end(&run);
    }
}

/* The search runs in the forward pass' thread, and the backward pass launches from another:
 *
 *   thread 1  |launch| … |launch|[ search_unused_parameters ]
 *   thread 2                                                  |launch| … |launch|   */
static void a_search_before_the_backward_pass_is_named(void **state) {
    (void)state;
    static const char search[] = "torch.distributed.ddp.reducer::search_unused_parameters";
    struct sample_kineto sample;
    struct run run = {0};
    char args[96];
    sample_kineto_begin(&sample, 0, 1);
    for (int i = 0; i < 20; i++) {
        const double at_us = 1000 + 20 * i + (i >= 10 ? 30000 : 0);
        if (i == 10) sample_kineto_event(&sample, "cpu_op", search, 1, at_us - 29900, 29800, "");
        snprintf(args, sizeof args, "\"correlation\": %u", ++sample.correlation);
        sample_kineto_event(&sample, "cuda_runtime", "cudaLaunchKernel", i < 10 ? 1 : 2, at_us, 2, args);
        snprintf(args, sizeof args, "\"device\": 0, \"stream\": 7, \"correlation\": %u", sample.correlation);
        sample_kineto_event(&sample, "kernel", "at::native::add", 7, at_us + 5, 15, args);
    }
    sample_kineto_open(&sample, &run.list);
    const struct aorta_finding *stall = analyze(&run);
    assert_true(said_has(stall, AORTA_FACT_PAUSE_UNUSED));
    said_expect(said_advice(stall), "find_unused_parameters=False");
    end(&run);
}

/* Stacks of Python say what the host does in a stall of 30 ms, and keep the allocator out of it:
 *
 *   Python  [ train.py(7): step                                              ]
 *                          [   <built-in function collect>   ]
 *   host    |launch| … |launch|_________ 30 ms ______________|cudaMalloc|launch| …   */
static void functions_within_a_stall_are_named(void **state) {
    (void)state;
    static const struct {
        double after_us; /* the inner function ends this long after the stall began; 0: there is none */
        const char *host;
        bool memory;
    } rows[] = {{29000, "<built-in function collect>", false},
                {10000, "train.py(7): step", true}, /* too short for this stall */
                {0, "train.py(7): step", true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sample_kineto sample;
        struct run run = {0};
        sample_kineto_begin(&sample, 0, 1);
        sample_kineto_event(&sample, "python_function", "train.py(7): step", 1, 900, 32000, "");
        if (rows[i].after_us > 0)
            sample_kineto_event(&sample, "python_function", "<built-in function collect>", 1, 1200, rows[i].after_us,
                                "");
        for (int j = 0; j < 20; j++) {
            const double at_us = 1000 + 20 * j + (j >= 10 ? 30000 : 0);
            if (j == 10) sample_kineto_event(&sample, "cuda_runtime", "cudaMalloc", 1, at_us - 10, 8, "");
            sample_kineto_kernel(&sample, "at::native::add", 7, at_us, at_us + 5, 15, "");
        }
        sample_kineto_open(&sample, &run.list);
        const struct aorta_finding *stall = analyze(&run);
        assert_string_equal(said_fact(stall, AORTA_FACT_PAUSE)->place.host, rows[i].host);
        assert_int_equal(said_has(stall, AORTA_FACT_PAUSE_MEMORY), rows[i].memory);
        end(&run);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_of_the_system_say_what_a_stall_is),
        cmocka_unit_test(ranges_within_a_stall_are_named),
        cmocka_unit_test(stalls_are_counted),
        cmocka_unit_test(what_surrounds_a_stall_gives_its_fix),
        cmocka_unit_test(a_search_before_the_backward_pass_is_named),
        cmocka_unit_test(functions_within_a_stall_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
