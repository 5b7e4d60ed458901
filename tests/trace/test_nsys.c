/* An export of Nsight Systems: three devices of two processes.
 *
 *     process 4711, its device 0 (the machine's GPU 1, an H100); rank 3 by MPI_RANKS
 *       stream 7      copy 100-600, fill 700-800, gemm 1000-3000, node of a graph 5200-5300, whole graph 6000-8000
 *       stream 13     all-reduce 2000-5000
 *       host          launches; 460: stream 7 waits for the event that stream 13 recorded at 400; 500-5400: waits for
 *                     stream 7
 *       ranges        ProfilerStep#3 10-5500, forward 150-490; a mark, a domain and an open range are none
 *     process 4712, devices 0 and 1: a gemm each, launched from one thread */
#include "trace/nsys_database.h"
#include "trace/open.h"

#include "base/interval.h"
#include "folder.h"

static char folder[FOLDER_PATH], path[FOLDER_PATH + 16];

static int make_folder(void **state) {
    (void)state;
    folder_make(folder, "nsys");
    snprintf(path, sizeof path, "%s/a.sqlite", folder);
    make_nsys_database(path);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    return folder_remove(folder);
}

static const char *name_of(const struct aorta_trace *trace, size_t work) {
    return aorta_trace_text(trace, trace->work[work].name);
}

static void check_work(const struct aorta_trace *trace) {
    static const struct {
        const char *name, *call;
        int64_t start_ns, end_ns, stream, bytes;
        bool graph;
    } expected[] = {
        {"Memcpy HtoD (Pageable -> Device)", "cudaMemcpyAsync", 100, 600, 7, 65536, false},
        {"Memset", "cudaMemsetAsync", 700, 800, 7, 4096, false},
        {"ampere_bf16_s16816gemm_bf16_128x128_ldg8_tn", "cudaLaunchKernel", 1000, 3000, 7, -1, false},
        {"ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "cudaLaunchKernel", 2000, 5000, 13, -1, false},
        {"void vectorized<4, add>(int)", "cudaGraphLaunch", 5200, 5300, 7, -1, true},
        {"CUDA graph 5", "cudaGraphLaunch", 6000, 8000, 7, -1, true},
    };
    assert_int_equal(trace->work_count, 6);
    for (size_t i = 0; i < 6; i++) {
        const struct aorta_trace_work *work = &trace->work[i];
        assert_string_equal(name_of(trace, i), expected[i].name);
        assert_int_equal(work->start_ns, expected[i].start_ns);
        assert_int_equal(work->end_ns, expected[i].end_ns);
        assert_int_equal(work->bytes, expected[i].bytes);
        assert_int_equal(work->graph, expected[i].graph);
        assert_int_equal(trace->streams[work->stream].id, expected[i].stream);
        assert_int_not_equal(work->call, AORTA_TRACE_NONE);
        assert_string_equal(aorta_trace_text(trace, trace->calls[work->call].name), expected[i].call);
    }
    assert_string_equal(aorta_trace_text(trace, trace->work[2].geometry), "64x2x1 of 256x1x1");
    assert_true(aorta_trace_is_collective(&trace->work[3]));
}

static void check_host(const struct aorta_trace *trace) {
    assert_int_equal(trace->call_count, 7); /* not cudaGetDevice, cudaEventRecord, cudaStreamWaitEvent */
    assert_int_equal(trace->calls[6].kind, AORTA_CALL_SYNC);
    assert_int_equal(trace->step_count, 1);
    assert_int_equal(trace->steps[0].number, 3);
    assert_int_equal(trace->annotation_count, 1);
    assert_string_equal(aorta_trace_text(trace, trace->annotations[0].name), "forward");
    const struct aorta_trace_thread *thread = &trace->threads[trace->calls[0].thread];
    assert_int_equal(thread->process, 4711);
    assert_int_equal(thread->id, 4711);
    assert_string_equal(aorta_trace_text(trace, thread->name), "pt_main_thread");
}

/* Event 5 of context 1 was recorded by calls 98, 104 and 110: the wait of call 105 is for that of 104. */
static void check_waits(const struct aorta_trace *trace) {
    assert_int_equal(trace->wait_count, 2);
    const struct aorta_trace_wait *stream = &trace->waits[0], *host = &trace->waits[1];
    assert_int_equal(stream->asked_ns, 460);
    assert_int_equal(stream->recorded_ns, 400);
    assert_int_equal(trace->streams[stream->stream].id, 7);
    assert_int_equal(trace->streams[stream->on].id, 13);
    assert_int_equal(host->asked_ns, 500);
    assert_int_equal(host->stream, AORTA_TRACE_NONE);
    assert_int_equal(trace->streams[host->on].id, 7);
    assert_int_equal(host->call, 6);
}

static void pages_of_unified_memory_have_their_name(void **state) {
    (void)state;
    struct aorta_trace_list list = {0};
    const char *const input = path;
    sqlite3 *database;
    assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
    assert_int_equal(sqlite3_exec(database,
                                  "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET copyKind = 11, srcKind = 7, dstKind = 7, "
                                  "correlationId = 0",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(database);
    check_ok(aorta_trace_open_inputs(&input, 1, NULL, &list));
    assert_string_equal(name_of(list.items[0], 0), "Memcpy HtoD (Unified memory)");
    assert_int_equal(aorta_copied_how(name_of(list.items[0], 0)), AORTA_COPIED_TO_DEVICE);
    assert_int_equal(list.items[0]->warnings[AORTA_REASON_NO_CORRELATION].count, 0); /* no call moves them */
    aorta_trace_list_free(&list);
}

static void one_trace_for_each_device_of_each_process(void **state) {
    (void)state;
    static const struct {
        int64_t process, device, rank, units;
        const char *name;
        size_t work, calls;
    } expected[] = {{4711, 0, 3, 132, "NVIDIA H100 80GB HBM3", 6, 7},
                    {4712, 0, -1, 108, "NVIDIA A100-SXM4-80GB", 1, 1},
                    {4712, 1, -1, 132, "NVIDIA H100 80GB HBM3", 1, 1}};
    struct aorta_trace_list list = {0};
    const char *const input = path;
    check_ok(aorta_trace_open_inputs(&input, 1, NULL, &list));
    assert_int_equal(list.count, 3);
    for (size_t i = 0; i < 3; i++) {
        const struct aorta_trace *trace = list.items[i];
        assert_int_equal(trace->format, AORTA_TRACE_NSYS);
        assert_int_equal(trace->process, expected[i].process);
        assert_int_equal(trace->rank, expected[i].rank);
        assert_int_equal(trace->base_ns, 1700000000000000000);
        assert_int_equal(trace->work_count, expected[i].work);
        assert_int_equal(trace->call_count, expected[i].calls);
        assert_int_equal(trace->work[0].device, expected[i].device);
        const struct aorta_trace_device *device = aorta_trace_device_of(trace, trace->work[0].device);
        assert_non_null(device);
        assert_string_equal(aorta_trace_text(trace, device->name), expected[i].name);
        assert_int_equal(device->multiprocessors, expected[i].units);
        assert_int_equal(trace->warnings[AORTA_REASON_WHOLE_GRAPH].count, i == 0);
        assert_int_equal(trace->warnings[AORTA_REASON_NO_LAUNCH].count, 0);
        assert_int_equal(trace->warnings[AORTA_REASON_ODD_VALUE].count, 0);
    }
    check_work(list.items[0]);
    check_host(list.items[0]);
    check_waits(list.items[0]);
    aorta_trace_list_free(&list);
}

/* TARGET_INFO_GPU without `id`, and what process 4712 saw of its GPUs, as old versions of nsys wrote. One row
 * is in MiB. */
static void old_exports_name_their_devices(void **state) {
    (void)state;
    static const char *const names[] = {"GeForce RTX 3080", "Tesla V100-PCIE-32GB", "GeForce RTX 3080"};
    static const int64_t bytes[] = {-1, INT64_C(32510) << 20, 10501423104};
    char old[FOLDER_PATH + 16];
    struct aorta_trace_list list = {0};
    const char *const input = old;
    snprintf(old, sizeof old, "%s/old.sqlite", folder);
    make_nsys_database(old);
    run_statements(old, "DROP TABLE TARGET_INFO_CUDA_DEVICE; DROP TABLE TARGET_INFO_GPU;"
                        "CREATE TABLE TARGET_INFO_GPU (vmId, deviceId, name, busLocation, isDiscrete);"
                        "INSERT INTO TARGET_INFO_GPU VALUES (1, 1, 'Tesla V100-PCIE-32GB', '', 1),"
                        " (1, 0, 'GeForce RTX 3080', '', 1);"
                        "CREATE TABLE TARGET_INFO_CUDA_GPU (name, globalMemorySize, numMultiprocessors,"
                        " computeCapabilityMajor, computeCapabilityMinor, deviceId, pid);"
                        "INSERT INTO TARGET_INFO_CUDA_GPU VALUES ('Tesla V100-PCIE-32GB', 32510, 80, 7, 0, 0, 4712),"
                        " ('GeForce RTX 3080', 10501423104, 68, 8, 6, 1, 4712);");
    check_ok(aorta_trace_open_inputs(&input, 1, NULL, &list));
    assert_int_equal(list.count, 3);
    for (size_t i = 0; i < list.count; i++) {
        const struct aorta_trace_device *device = aorta_trace_device_of(list.items[i], list.items[i]->work[0].device);
        assert_non_null(device);
        assert_string_equal(aorta_trace_text(list.items[i], device->name), names[i]);
        assert_int_equal(device->memory_bytes, bytes[i]);
        assert_int_equal(device->minor, i == 0 ? -1 : i == 1 ? 0 : 6);
    }
    aorta_trace_list_free(&list);
    assert_int_equal(unlink(old), 0);
}

/* A launch and a copy fail; an event that is not ready, and a context that is gone at the end, are no failures. */
static void failed_calls_are_named(void **state) {
    (void)state;
    char failed[FOLDER_PATH + 16];
    const char *const input = failed;
    struct aorta_trace_list list = {0};
    snprintf(failed, sizeof failed, "%s/failed.sqlite", folder);
    make_nsys_database(failed);
    run_statements(failed, "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (5500, 5505, 0, 79037469287, 120, 3, 9),"
                           " (5510, 5515, 0, 79037469287, 121, 4, 1), (5520, 5525, 0, 79037469287, 122, 13, 600),"
                           " (5530, 5535, 0, 79037469287, 123, 7, 709), (5540, 5545, 0, 79037469287, 124, 4, 1);");
    check_ok(aorta_trace_open_inputs(&input, 1, NULL, &list));
    const struct aorta_trace *trace = list.items[0];
    assert_int_equal(trace->warnings[AORTA_REASON_FAILED_LAUNCH].count, 1);
    assert_string_equal(aorta_trace_warning_text(trace, AORTA_REASON_FAILED_LAUNCH),
                        "1 of 5 launches failed (cudaErrorInvalidConfiguration): its kernel did not run");
    assert_int_equal(trace->warnings[AORTA_REASON_FAILED].count, 2);
    assert_string_equal(aorta_trace_warning_text(trace, AORTA_REASON_FAILED),
                        "failed calls: cudaMemcpyAsync (cudaErrorInvalidValue)");
    assert_int_equal(trace->warnings[AORTA_REASON_STOPPED].count + trace->warnings[AORTA_REASON_NO_WORK].count, 0);
    assert_false(aorta_trace_is_too_thin(trace));
    assert_int_equal(list.items[1]->warnings[AORTA_REASON_FAILED].count, 0);
    aorta_trace_list_free(&list);
    run_statements(failed, "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET returnValue = 9 WHERE nameId IN (3, 8)");
    check_ok(aorta_trace_open_inputs(&input, 1, NULL, &list));
    assert_true(aorta_trace_is_too_thin(list.items[0]));
    assert_string_equal(aorta_trace_warning_text(list.items[0], AORTA_REASON_FAILED_LAUNCH),
                        "5 of 5 launches failed (cudaErrorInvalidConfiguration): their kernels did not run");
    aorta_trace_list_free(&list);
    assert_int_equal(unlink(failed), 0);
}

/* The oldest columns: no processes, short names alone, device and launch unknown. */
static void columns_may_be_missing(void **state) {
    (void)state;
    char old[FOLDER_PATH + 16];
    struct aorta_trace_list list = {0};
    snprintf(old, sizeof old, "%s/old.sqlite", folder);
    run_statements(old, "CREATE TABLE StringIds (id INTEGER, value TEXT); INSERT INTO StringIds VALUES (4, 'k');"
                        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, shortName INTEGER);"
                        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5, 9, 4), (10, 12, 5), (NULL, 3, 4);");
    check_ok(aorta_trace_open(old, NULL, &list));
    assert_int_equal(list.count, 1);
    assert_int_equal(list.items[0]->work_count, 2);
    assert_string_equal(name_of(list.items[0], 0), "k");
    assert_string_equal(name_of(list.items[0], 1), "(unknown)");
    assert_int_equal(list.items[0]->warnings[AORTA_REASON_UNKNOWN_NAME].count, 1);
    assert_int_equal(list.items[0]->warnings[AORTA_REASON_BAD_EVENT].count, 1);
    aorta_trace_list_free(&list);
    assert_int_equal(unlink(old), 0);
}

#define CALLS                                                                                                          \
    "CREATE TABLE StringIds (id INTEGER, value TEXT); CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (nameId INTEGER);"      \
    "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1);"
#define DIAGNOSTICS                                                                                                    \
    "CREATE TABLE DIAGNOSTIC_EVENT (severity INTEGER, source INTEGER, text TEXT); INSERT INTO DIAGNOSTIC_EVENT "       \
    "VALUES "

static void what_cannot_be_read_says_what_to_record(void **state) {
    (void)state;
    static const struct {
        const char *statements, *says;
    } files[] = {
        {"CREATE TABLE StringIds (id INTEGER, value TEXT);",
         "without work of a GPU: record with `nsys profile --trace"},
        /* Launches, one of them within another interface, and none of their kernels. */
        {"CREATE TABLE StringIds (id INTEGER, value TEXT); INSERT INTO StringIds VALUES (1, 'cudaLaunchKernel_v7000'), "
         "(2, 'cudaMalloc_v3020'), (3, 'cudaGraphLaunch_v10000');"
         "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (nameId INTEGER);"
         "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1), (1), (2), (3), (9), (NULL);",
         "without kernels, though launches are recorded (3): record until the program ends"},
        {"CREATE TABLE StringIds (id INTEGER, value TEXT); INSERT INTO StringIds VALUES (1, 'cudaLaunchKernel_v7000'), "
         "(2, 'cudaDeviceSynchronize_v3020'), (3, 'cuCtxSynchronize');"
         "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (nameId INTEGER, returnValue INTEGER);"
         "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1, 0), (2, 700), (2, 700), (3, 709), (3, 201);",
         "launches are recorded (1); 2 calls failed, the first is cudaDeviceSynchronize (cudaErrorIllegalAddress): "
         "correct these calls, then record until"},
        {CALLS DIAGNOSTICS "(2, 2, 'Unable to collect CPU samples.'), (1, 1, 'Loaded CUPTI for CUDA'), (2, 3, 'No CUDA "
                           "events collected.'), (2, 1, 'Installed CUDA driver\n(13.3) is\033[31m not supported.'), "
                           "(3, 1, 'CUDA failed later.'), (2, 1, NULL);",
         "without work of a GPU, though calls of CUDA are recorded (1); Nsight Systems says \"Installed CUDA "
         "driver?(13.3) "
         "is?[31m not supported.\": record until"},
        {DIAGNOSTICS "(2, 3, 'CUDA profiling might have not been started correctly.'), (2, 3, 'No CUDA events.');"
                     "CREATE TABLE StringIds (id INTEGER);",
         "Nsight Systems says \"CUDA profiling might have not been started correctly.\": record with `nsys profile"},
        {DIAGNOSTICS "(2, 1, 'Installed CUDA driver version (13.1) is not supported by this build.');"
                     "CREATE TABLE StringIds (id INTEGER);",
         "is not supported by this build.\": record until the program ends, with a version of nsys that knows the "
         "driver"},
        {CALLS DIAGNOSTICS "(2, 1, 'CUDA device 0: Unified Memory cannot be traced on devices without peers.');",
         "though calls of CUDA are recorded (1): record until"},
        {CALLS "CREATE TABLE TARGET_INFO_SYSTEM_ENV (name TEXT, value TEXT); INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES "
               "('HasCudaEvents', 1), ('SoftwareReleaseVersion', '6.6.36.3-microsoft-standard-WSL2');",
         "though calls of CUDA are recorded (1): record on Linux itself: "},
        {"CREATE TABLE StringIds (id INTEGER); CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, deviceId "
         "INTEGER);"
         "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 9999999999);",
         "work of a device 9999999999, which is no device's number"},
        {"CREATE TABLE StringTable (id INTEGER, value TEXT);", "written by nvprof"},
        {"CREATE TABLE rocpd_op (id INTEGER);", "not by rocprofv3: record the program with rocprofv3"},
        {"CREATE TABLE CANN_API (name INTEGER);", "written by Ascend's profiler: AORTA reads recordings of"},
        {"CREATE TABLE notes (id INTEGER);",
         "it has no table rocpd_kernel_dispatch… (rocprofv3's rocpd) or StringIds…"},
    };
    char other[FOLDER_PATH + 16];
    snprintf(other, sizeof other, "%s/other.sqlite", folder);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct aorta_trace_list list = {0};
        run_statements(other, files[i].statements);
        const bool foreign = strstr(files[i].says, "it has no table") != NULL;
        check_fails(aorta_trace_open(other, NULL, &list), foreign ? AORTA_USAGE : AORTA_FORMAT, files[i].says);
        assert_int_equal(list.count, 0);
        assert_int_equal(unlink(other), 0);
    }
}

/* Another program's database in the folder is passed over. */
static void a_folder_has_the_export_alone(void **state) {
    (void)state;
    char other[FOLDER_PATH + 16];
    const char *const input = folder;
    struct aorta_trace_list list = {0};
    snprintf(other, sizeof other, "%s/b.sqlite", folder);
    run_statements(other, "CREATE TABLE notes (id INTEGER);");
    check_ok(aorta_trace_open_inputs(&input, 1, NULL, &list));
    assert_int_equal(list.count, 3);
    aorta_trace_list_free(&list);
    assert_int_equal(unlink(other), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_trace_for_each_device_of_each_process),
        cmocka_unit_test(columns_may_be_missing),
        cmocka_unit_test(what_cannot_be_read_says_what_to_record),
        cmocka_unit_test(a_folder_has_the_export_alone),
        cmocka_unit_test(old_exports_name_their_devices),
        cmocka_unit_test(failed_calls_are_named),
        cmocka_unit_test(pages_of_unified_memory_have_their_name), /* changes the database */
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
