/* Large files are read in spans, side by side: the trace is that of a file that is read event by event. */
#include "check.h"
#include "samples/dump.h"
#include "trace/open.h"

#include <sched.h>
#include <stdlib.h>

enum { EVENTS = 160000, AT_ONCE = 0, IN_PIECES = 300000 };

/* Events of each kind that makes rows, and texts that look like the beginning of an event and are none. */
static const char *const layouts[] = {
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"gemm_%d\",\"pid\":0,\"tid\":7,\"ts\":%d.5,\"dur\":3,\"args\":{"
    "\"stream\":%d,"
    "\"device\":0,\"context\":1,\"correlation\":%d,\"External id\":%d,\"grid\":[%d,2,1],\"block\":[128,1,1]}}",
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclDevKernel_AllReduce_%d\",\"pid\":0,\"tid\":20,\"ts\":%d,\"dur\":9,"
    "\"args\":{\"stream\":%d,\"device\":0,\"correlation\":%d,\"Collective name\":\"allreduce\",\"dtype\":\"Float\","
    "\"In msg nelems\":%d,\"Group size\":2,\"Process Group Name\":\"g%d\",\"Process Group Ranks\":\"[0, 1]\"}}",
    "{\"ph\":\"X\",\"cat\":\"gpu_memcpy\",\"name\":\"Memcpy %d\",\"pid\":0,\"tid\":7,\"ts\":%d,\"dur\":2,\"args\":"
    "{\"stream\":%d,\"correlation\":%d,\"bytes\":%d,\"channel\":%d,\"channel_type\":\"ASYNC\",\"device\":0}}",
    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":%d,\"tid\":1,\"ts\":%d,\"dur\":1,"
    "\"args\":"
    "{\"cbid\":%d,\"correlation\":%d,\"External id\":%d,\"kernel\":\"k%d\"}}",
    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaStreamWaitEvent\",\"pid\":%d,\"tid\":1,\"ts\":%d,\"dur\":1,"
    "\"args\":{\"cbid\":%d,\"correlation\":%d,\"x\":[%d,%d]}}",
    "{\"ph\":\"X\",\"cat\":\"cuda_sync\",\"name\":\"Stream Wait "
    "Event\",\"pid\":0,\"tid\":%d,\"ts\":%d,\"dur\":1,\"args\":"
    "{\"stream\":%d,\"correlation\":%d,\"device\":0,\"context\":1,\"wait_on_stream\":%d,"
    "\"wait_on_cuda_event_record_corr_id\":%d}}",
    "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"pid\":9,\"tid\":%d,\"ts\":%d,\"dur\":30,\"args\":{\"a\":%"
    "d,"
    "\"External id\":%d,\"Input Dims\":[[%d,8],[8,%d]],\"Input type\":[\"float\",\"float\"]}}",
    "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"record_param_comms\",\"pid\":9,\"tid\":%d,\"ts\":%d,\"dur\":3,"
    "\"args\":"
    "{\"a\":%d,\"b\":%d,\"Collective name\":\"allgather\",\"In msg nelems\":%d,\"Process Group Name\":\"p%d\"}}",
    "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#%d\",\"pid\":9,\"tid\":1,\"ts\":%d,\"dur\":5,"
    "\"args\":{\"a\":[%d,%d,%d,%d]}}",
    "{\"ph\":\"X\",\"cat\":\"gpu_user_annotation\",\"name\":\"ProfilerStep#%d\",\"pid\":0,\"tid\":7,\"ts\":%d,\"dur\":"
    "5,"
    "\"args\":{\"a\":[%d,%d,%d,%d]}}",
    "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"part %d }, { "
    "\\\"ph\\\"\",\"pid\":9,\"tid\":1,\"ts\":%d,\"dur\":5,"
    "\"args\":{\"a\":[%d,%d,%d,%d]}}",
    "{\"ph\":\"X\",\"cat\":\"python_function\",\"name\":\"nn.Module: "
    "Linear_%d\",\"pid\":9,\"tid\":1,\"ts\":%d,\"dur\":7,"
    "\"args\":{\"list\":[{\"a\":%d}, {\"b\":%d}, {\"c\":%d}, {\"d\":%d}]}}",
    "{\"ph\":\"X\",\"cat\":\"python_function\",\"name\":\"train.py(%d): step\",\"pid\":9,\"tid\":1,\"ts\":%d,\"dur\":7,"
    "\"args\":{\"a\":[%d,%d,%d,%d]}}",
    "{\"ph\":\"i\",\"name\":\"[memory]\",\"pid\":%d,\"tid\":2,\"ts\":%d,\"args\":{\"Device Type\":1,\"Device Id\":0,"
    "\"Addr\":%d,\"Bytes\":%d,\"Total Allocated\":%d,\"Total Reserved\":%d}}",
    "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":\"thread %d\",\"b\":[%d,%d,%d]}}",
    "{\"ph\":\"X\",\"cat\":\"new_%d\",\"name\":\"x\",\"ts\":%d,\"dur\":\"?\",\"args\":{\"a\":[%d,%d,%d,%d]}}",
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"no time %d\",\"tx\":%d,\"args\":{\"a\":[%d,%d,%d,%d]}}",
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"ts\":1,\"dur\":2,\"name\":\"again "
    "%d\",\"args\":{\"stream\":%d,\"correlation\":%d,"
    "\"a\":[%d,%d,%d]},\"cat\":\"gpu_memset\"}",
    "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::relu "
    "%d\",\"pid\":9,\"tid\":1,\"ts\":%d,\"dur\":30,\"args\":{\"a\":%d,"
    "\"External id\":%d,\"Input Dims\":[[%d,8],[%d]],\"Sequence number\":5,\"Fwd thread id\":1}}",
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

/* One event in many places: each number recurs in its own rhythm, so that some of what spans find is new to them, some
 * only to them. */
static void add_event(struct aorta_text *text, int i) {
    const int time = i * 3;
    if (i) aorta_text_append(text, i % 7 ? ",\n" : " , ", i % 7 ? 2 : 3);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    aorta_text_printf(text, layouts[(i * 7 + i / 50) % LAYOUTS], i / 900 + i % 11, time, i % 5, i / 2 + 1, i % 3000,
                      i % 13 + 1);
#pragma GCC diagnostic pop
}

/* `odd` stands after half of the events. */
static void make_file(const char *odd, struct aorta_text *text) {
    static const char begin[] = "{\"traceEvents\":[", end[] = "],\"baseTimeNanoseconds\":5}";
    aorta_text_append(text, begin, sizeof begin - 1);
    for (int i = 0; i < EVENTS; i++) {
        if (i == EVENTS / 2) aorta_text_append(text, odd, strlen(odd));
        add_event(text, i);
    }
    aorta_text_append(text, end, sizeof end - 1);
}

static void dump_list(const struct aorta_text *file, size_t piece, const struct aorta_trace_options *options,
                      struct aorta_text *dump) {
    struct aorta_trace_list list = {0};
    aorta_status status = read_with(file->data, file->length, piece, options, &list);
    aorta_text_printf(dump, "%s\n", aorta_status_message(status));
    for (size_t i = 0; i < list.count; i++) {
        aorta_text_printf(dump, "rank %d, process %lld, events %lld, %lld bytes\n", (int)list.items[i]->rank,
                          (long long)list.items[i]->process, (long long)list.items[i]->events,
                          (long long)list.items[i]->bytes_read);
        dump_trace(list.items[i], dump);
        dump_framework(list.items[i], dump);
    }
    aorta_status_free(status);
    aorta_trace_list_free(&list);
}

/* On one processor nothing is read side by side. */
static void dump_by_event(const struct aorta_text *file, const struct aorta_trace_options *options,
                          struct aorta_text *dump) {
    cpu_set_t all, one;
    CPU_ZERO(&one);
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    for (int i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
        if (CPU_ISSET(i, &all)) CPU_SET(i, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    dump_list(file, AT_ONCE, options, dump);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

static void check_equal(const struct aorta_text *file, size_t piece, const struct aorta_trace_options *options,
                        const struct aorta_text *by_event) {
    struct aorta_text dump = {0};
    dump_list(file, piece, options, &dump);
    assert_true(dump.length == by_event->length && !memcmp(dump.data, by_event->data, dump.length));
    aorta_text_free(&dump);
}

static void check_file(const char *odd, const struct aorta_trace_options *options, const char *wanted) {
    struct aorta_text file = {0}, by_event = {0};
    make_file(odd, &file);
    dump_by_event(&file, options, &by_event);
    assert_true(file.length > 20 << 20);
    assert_non_null(strstr(by_event.data, wanted));
    check_equal(&file, AT_ONCE, options, &by_event);
    check_equal(&file, IN_PIECES, options, &by_event);
    aorta_text_free(&file);
    aorta_text_free(&by_event);
}

static void the_same_trace(void **state) {
    (void)state;
    check_file("", NULL, "events 160000");
}

static void with_functions(void **state) {
    (void)state;
    const struct aorta_trace_options options = {.functions = true};
    check_file("", &options, "nn.Module");
}

static void what_comes_before_decides(void **state) {
    (void)state;
    check_file(
        ",{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaStreamBeginCapture\",\"pid\":1,\"tid\":1,\"ts\":1,"
        "\"dur\":1,\"args\":{\"correlation\":3}}",
        NULL, "events 160001");
    check_file(",{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":9,\"tid\":0,\"args\":{\"name\":\"rank 9\"}}", NULL,
               "rank 9,");
}

static void a_break_is_placed(void **state) {
    (void)state;
    const struct aorta_trace_options recover = {.recover = true};
    check_file(",{\"ph\":\"X\",\"cat\" \"kernel\"}", NULL, "is malformed at byte");
    check_file(",{\"ph\":\"X\",\"cat\" \"kernel\"}", &recover, "events 80001");
    check_file(",{\"args\":{\"stream\" 7},\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"a\",\"ts\":1,\"dur\":1}", NULL,
               "is malformed at byte");
    check_file(" 5 ", &recover, "events 80000");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_trace),
        cmocka_unit_test(with_functions),
        cmocka_unit_test(what_comes_before_decides),
        cmocka_unit_test(a_break_is_placed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
