/* XLA's JSON, as JAX 0.8 wrote it on an H100, a few events of it. In us:
 *
 *   host       cuGraphLaunch 35 [90 100]    nccl 36 [150 155]    MemcpyH2D 246 [170 180]
 *   stream 14                       gemm 35 [110 130]   nccl 36 [160 180]
 *   stream 15                                                      MemcpyH2D 246 [190 246], 2 MiB
 *   XLA Ops                         [110 130]: the same once more */
#include "analysis/analysis.h"
#include "base/files.h"
#include "check.h"
#include "trace/open.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char text[] =
    "{\"displayTimeUnit\":\"ns\",\"metadata\":{\"highres-ticks\":true},\"traceEvents\":["
    "{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"/device:GPU:0\"}},"
    "{\"ph\":\"M\",\"pid\":1,\"name\":\"process_sort_index\",\"args\":{\"sort_index\":1}},"
    "{\"ph\":\"M\",\"pid\":1,\"tid\":14,\"name\":\"thread_name\",\"args\":{\"name\":\"Stream #14(Memset,Compute)\"}},"
    "{\"ph\":\"M\",\"pid\":1,\"tid\":15,\"name\":\"thread_name\",\"args\":{\"name\":\"Stream #15(MemcpyH2D)\"}},"
    "{\"ph\":\"M\",\"pid\":1,\"tid\":99,\"name\":\"thread_name\",\"args\":{\"name\":\"XLA Ops\"}},"
    "{\"ph\":\"M\",\"pid\":701,\"name\":\"process_name\",\"args\":{\"name\":\"/host:CPU\"}},"
    "{\"ph\":\"X\",\"pid\":701,\"tid\":7,\"ts\":80,\"dur\":150,\"name\":\"train\",\"args\":{\"step_num\":\"3\"}},"
    "{\"ph\":\"X\",\"pid\":701,\"tid\":7,\"ts\":85,\"dur\":20,\"name\":\"PjitFunction(step)\"},"
    "{\"ph\":\"X\",\"pid\":701,\"tid\":7,\"ts\":90,\"dur\":10,\"name\":\"cuGraphLaunch (CudaGraph:36)\",\"args\":{"
    "\"context_id\":\"$$1\",\"correlation_id\":\"35\",\"device_id\":\"0\"}},"
    "{\"ph\":\"X\",\"pid\":1,\"tid\":14,\"ts\":110,\"dur\":20,\"name\":\"sm90_xmma_gemm_f32f32_tf32\",\"args\":{"
    "\"correlation_id\":\"35\",\"cuda_graph_node_id\":\"154618822656\",\"kernel_details\":\"regs:168 "
    "static_shared:0 grid:128,2,1 block:384,1,1 occ_pct:18.75\"}},"
    "{\"ph\":\"X\",\"pid\":1,\"tid\":99,\"ts\":110,\"dur\":20,\"name\":\"dot.3\",\"args\":{}},"
    "{\"ph\":\"X\",\"pid\":701,\"tid\":7,\"ts\":150,\"dur\":5,\"name\":\"ncclDevKernel_AllReduce\",\"args\":{"
    "\"correlation_id\":\"36\"}},"
    "{\"ph\":\"X\",\"pid\":1,\"tid\":14,\"ts\":160,\"dur\":20,\"name\":\"ncclDevKernel_AllReduce\",\"args\":{"
    "\"correlation_id\":\"36\"}},"
    "{\"ph\":\"X\",\"pid\":701,\"tid\":7,\"ts\":170,\"dur\":10,\"name\":\"MemcpyH2D\",\"args\":{\"correlation_id\":"
    "\"246\"}},"
    "{\"ph\":\"X\",\"pid\":1,\"tid\":15,\"ts\":190,\"dur\":56,\"name\":\"MemcpyH2D\",\"args\":{\"correlation_id\":"
    "\"246\","
    "\"memcpy_details\":\"kind_src:pinned kind_dst:device size:2097152 dest:0 async:1\"}},"
    "{}]}";

static struct aorta_trace_list read_text(const char *json) {
    char path[] = "/tmp/aorta_xla_XXXXXX.json";
    struct aorta_trace_list list = {0};
    const int file = mkstemps(path, 5);
    assert_true(file >= 0);
    close(file);
    check_ok(aorta_file_replace(path, json, strlen(json)));
    check_ok(aorta_trace_open(path, NULL, &list));
    unlink(path);
    return list;
}

static void streams_of_a_device_are_read(void **state) {
    (void)state;
    struct aorta_trace_list list = read_text(text);
    const struct aorta_trace *t = list.items[0];
    struct aorta_trace_analysis analysis;
    assert_int_equal(t->format, AORTA_TRACE_XLA);
    assert_int_equal(t->work_count, 3);
    assert_string_equal(aorta_trace_text(t, t->work[0].name), "sm90_xmma_gemm_f32f32_tf32");
    assert_string_equal(aorta_trace_text(t, t->work[0].geometry), "128x2x1 of 384x1x1");
    assert_true(t->work[0].graph);
    assert_true(aorta_trace_is_collective(&t->work[1]));
    assert_false(t->work[1].graph);
    assert_int_equal(t->work[2].kind, AORTA_TRACE_COPY);
    assert_int_equal(t->work[2].bytes, 2097152);
    assert_int_equal(t->streams[t->work[2].stream].id, 15);
    static const int64_t launches_us[] = {90, 150, 170};
    for (int i = 0; i < 3; i++) assert_int_equal(t->calls[t->work[i].call].start_ns, 1000 * launches_us[i]);
    assert_int_equal(t->calls[t->work[0].call].kind, AORTA_CALL_GRAPH_LAUNCH);
    assert_int_equal(t->step_count, 1);
    assert_int_equal(t->steps[0].number, 3);
    assert_int_equal(t->annotation_count, 1);
    check_ok(aorta_trace_analyze(&list, NULL, &analysis));
    assert_int_equal(analysis.ranks[0].figures.compute_ns, 20000);
    assert_int_equal(analysis.ranks[0].figures.comm_ns, 20000);
    assert_int_equal(analysis.ranks[0].figures.memcpy_ns, 56000);
    assert_int_equal(analysis.ranks[0].figures.idle_ns, 40000);
    aorta_trace_analysis_free(&analysis);
    aorta_trace_list_free(&list);
}

/* Without the names of processes nothing says what an event is. */
static void unnamed_processes_say_nothing(void **state) {
    (void)state;
    struct aorta_trace_list list =
        read_text("{\"traceEvents\":[{\"ph\":\"X\",\"pid\":1,\"tid\":14,\"ts\":1,\"dur\":2,\"name\":\"gemm\"},"
                  "{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"/device:GPU:99999999999\"}},"
                  "{\"ph\":\"M\",\"pid\":2,\"name\":\"process_name\",\"args\":{\"name\":\"python\"}},"
                  "{\"ph\":\"X\",\"pid\":1,\"tid\":14,\"ts\":1,\"dur\":2,\"name\":\"gemm\"}]}");
    assert_int_equal(list.items[0]->work_count, 0);
    aorta_trace_list_free(&list);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(streams_of_a_device_are_read),
                                       cmocka_unit_test(unnamed_processes_say_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
