/* Every kind of file (formats.def) opens by its name and in its folder, plain and packed; other files of a folder are
 * skipped.
 *
 *     folder/
 *       a.spool a.db a.csv a.json      what the rows say: each alone, then read as FOLDER
 *       b.json                         {"other": [2 MiB], "traceEvents": ...}: the key may be anywhere
 *       c.json                         white space, then [: Chrome's array of events
 *       notes.json d_stats.csv         no traces */
#include "base/files.h"
#include "check.h"
#include "folder.h"
#include "pftrace_sample.h"
#include "trace/nsys_database.h"
#include "trace/open.h"
#include "trace/reader.h"
#include "trace/spool_format.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

static char folder[FOLDER_PATH];

static int make_folder(void **state) {
    (void)state;
    folder_make(folder, "formats");
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    return folder_remove(folder);
}

/* Where a recording of each row is. */
static const struct sample {
    const char *row, *suffix, *from;
} samples[] = {
    {"spool", ".spool", TEST_DATA "/../../fuzz/spool/recorded1"},
    {"xplane", ".xplane.pb", TEST_DATA "/jax.xplane.pb"},
    {"pftrace", ".pftrace", NULL},
    {"csv", ".csv", TEST_DATA "/rocprof_kernel_trace.csv"},
    {"metrics", ".jsonl", TEST_DATA "/../../report/data/original/rank_00_metrics.jsonl"},
    {"\"traceEvents\"", ".json", TEST_DATA "/fsdp2_rank0.json"},
    {"\"rocprofiler-sdk-tool\"", ".json", TEST_DATA "/rocprof_results.json"},
    {"\"rocpd_kernel_dispatch\"", ".db", TEST_DATA "/rocprof_3.db"},
    {"\"StringIds\"", ".sqlite", NULL},
};

static void read_made(const char *row, char **bytes, size_t *length) {
    char path[512];
    if (!strcmp(row, "pftrace")) {
        struct aorta_text text = {0};
        make_pftrace(&text);
        *bytes = text.data;
        *length = text.length;
        return;
    }
    snprintf(path, sizeof path, "%s/made", folder);
    make_nsys_database(path);
    check_ok(aorta_file_read(path, bytes, length));
    assert_int_equal(unlink(path), 0);
}

/* The fuzzer's spools have no head. */
static void read_sample(const struct sample *sample, char **bytes, size_t *length) {
    if (!sample->from) {
        read_made(sample->row, bytes, length);
        return;
    }
    check_ok(aorta_file_read(sample->from, bytes, length));
    if (strcmp(sample->row, "spool") != 0) return;
    const struct aorta_spool_head head = {.magic = AORTA_SPOOL_MAGIC,
                                          .version = AORTA_SPOOL_VERSION,
                                          .bytes = sizeof head,
                                          .byte_order = AORTA_SPOOL_BYTE_ORDER};
    char *whole = malloc(sizeof head + *length);
    assert_non_null(whole);
    memcpy(whole, &head, sizeof head);
    memcpy(whole + sizeof head, *bytes, *length);
    free(*bytes);
    *bytes = whole;
    *length += sizeof head;
}

static const char *const rows[][2] = {
#define READER(symbol, suffix, names) {#symbol, suffix},
#define JSON(key, suffix, names, read) {#key, suffix},
#define SQLITE(table, suffix, names, read) {#table, suffix},
#include "trace/formats.def"
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static void put(const char *name, const char *bytes, size_t length, bool packed) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s%s", folder, name, packed ? ".gz" : "");
    if (!packed) {
        check_ok(aorta_file_replace(path, bytes, length));
        return;
    }
    gzFile file = gzopen(path, "wb1");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, bytes, (unsigned)length), length);
    assert_int_equal(gzclose(file), Z_OK);
}

static void take_away(const char *name, bool packed) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s%s", folder, name, packed ? ".gz" : "");
    assert_int_equal(unlink(path), 0);
}

/* The work of all traces that a path gives; -1: the path holds none. */
static int64_t work_of(const char *path) {
    struct aorta_trace_list list = {0};
    aorta_status status = aorta_trace_open_inputs(&path, 1, NULL, &list);
    if (status) {
        check_fails(status, AORTA_USAGE, "contains no trace; aorta trace analyze --help lists what can be read");
        return -1;
    }
    int64_t work = 0;
    for (size_t i = 0; i < list.count; i++) work += (int64_t)list.items[i]->work_count;
    aorta_trace_list_free(&list);
    return work;
}

/* Puts a file into the empty folder, reads it by name and by folder, and takes it away. */
static int64_t work_both_ways(const char *name, const char *bytes, size_t length, bool packed) {
    char path[512];
    put(name, bytes, length, packed);
    snprintf(path, sizeof path, "%s/%s%s", folder, name, packed ? ".gz" : "");
    const int64_t work = work_of(path);
    assert_int_equal(work_of(folder), work);
    take_away(name, packed);
    return work;
}

#define ASCEND                                                                                                         \
    "[{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":2147,\"args\":{\"name\":\"Ascend Hardware\"}},\n"                \
    "{\"name\":\"MatMulV3\",\"pid\":2147,\"tid\":2,\"ts\":\"1.1\",\"dur\":5.0,\"ph\":\"X\"}]"
#define AFTER "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":2},\n"
#define OLD_ROCPROF                                                                                                    \
    "{ \"traceEvents\":[{}\n,{\"args\":{\"name\":\"CPU HIP API\"},\"ph\":\"M\",\"pid\":2,\"name\":\"process_name\"}]}"
#define OLD_TABLE "Index,KernelName,gpu-id,queue-id,BeginNs,EndNs\n0,\"add(int*)\",0,0,1,2\n"
#define ROCM_PROFILE_DATA                                                                                              \
    "[ {}\n,{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":\"7\",\"tid\":\"7\",\"args\":{\"name\":\"Hip 7\"}}\n"       \
    ",{\"name\":\"thread_sort_index\",\"ph\":\"M\",\"pid\":\"7\",\"tid\":\"7\",\"args\":{\"sort_index\":\"14\"}}\n]"
#define FLIGHT "{\"version\":\"2.10\",\"pg_config\":{},\"entries\":[{\"profiling_name\":\"nccl:all_reduce\"}]}"
#define INSPECTOR                                                                                                      \
    "{\"header\":{\"rank\":0},\"coll_perf\":{\"coll\":\"AllReduce\"}}\n{\"header\":{\"rank\":0},\"coll_perf\":{}}\n"
#define PLUGIN                                                                                                         \
    "[\n{\"name\": \"Group API\", \"cat\": \"GROUP_API\", \"ph\": \"b\", \"id\": 0, \"pid\": 4100, \"tid\": 1, "       \
    "\"ts\": 1.5}]"
#define TENSORFLOW_1                                                                                                   \
    "{\"traceEvents\": [{\"ph\": \"M\", \"args\": {\"name\": \"/job:localhost/replica:0/task:0/gpu:7 Compute\"}, "     \
    "\"pid\": 3, \"name\": \"process_name\"}, {\"name\": \"MatMul\", \"pid\": 3, \"ts\": 5, \"cat\": \"Op\", "         \
    "\"tid\": 0, "                                                                                                     \
    "\"ph\": \"X\", \"dur\": 32}]}"
#define AUTOGRAD                                                                                                       \
    "[{\"name\": \"aten::slice\", \"ph\": \"X\", \"ts\": 136.73, \"dur\": 184.65, \"tid\": 1, \"pid\": \"CPU "         \
    "functions\","                                                                                                     \
    " \"args\": {}}]"
#define FOREIGN(text) text, sizeof(text) - 1

/* What it is and what to do instead, said by content or by name; packed files say what is in them. */
static void what_is_not_read_is_named(void **state) {
    (void)state;
    static char tar[512];
    memcpy(tar + 257, "ustar", 5);
    const struct {
        const char *name, *bytes;
        size_t length;
        const char *says;
    } files[] = {
        {"run.nsys-rep", "NVDA", 4,
         "is a report of Nsight Systems, which is not read; export it: nsys export --type sqlite"},
        {"run.qdstrm", "\0\377", 2, "is a raw report of Nsight Systems, which is not read; import it: QdstrmImporter"},
        {"a.sqlite", "version https://git-lfs.github.com/spec/v1\n", 43,
         "is a pointer of Git LFS, not the file, which is not read; fetch it: git lfs pull"},
        {"a.json", "PK\3\4 …", 8, "is a zip archive, which is not read; unpack it"},
        {"a.tar", tar, sizeof tar, "is a tar archive, which is not read; unpack it, and name the folder"},
        {"a.json", "neither", 7, "is no trace; AORTA reads"},
        {"trace_view.json", FOREIGN(ASCEND),
         "is a trace of Ascend's profiler, and is not read; AORTA reads recordings of"},
        {"results.json", FOREIGN(OLD_ROCPROF), "is a recording of rocprof, and is not read; record the program with"},
        {"results.csv", FOREIGN(OLD_TABLE), "is a recording of rocprof, and is not read; record the program with"},
        {"matmul.json", FOREIGN(ROCM_PROFILE_DATA),
         "is a trace of rocmProfileData, and is not read; record the program with rocprofv3"},
        {"train.log", FOREIGN("==7== NVPROF is profiling process 7, command: python train.py\n"),
         "is a log of nvprof, and is not read; record the program with nsys profile"},
        {"pmc_dispatch_info.csv", FOREIGN("Dispatch_ID,Kernel_Name,GPU_ID\n0,gemm,0\n"),
         "is a table of rocprof-compute, and is not read; record the program with rocprofv3"},
        {"timeline.json", FOREIGN(TENSORFLOW_1),
         "is a timeline of TensorFlow 1, which has operations but no kernels, and is not read; record the program with "
         "nsys, or TensorFlow 2"},
        {"trace.json", FOREIGN(AUTOGRAD),
         "is a trace of the old torch.autograd.profiler, which names no kernels, and is not read; record the program "
         "with torch.profiler, nsys"},
        {"flight.json", FOREIGN(FLIGHT), "is a dump of PyTorch's flight recorder"},
        {"rank0.jsonl", FOREIGN(INSPECTOR), "is a file of NCCL's inspector"},
        {"plugin.json", FOREIGN(PLUGIN), "is a trace of NCCL's profiler plugin"},
        {"et.json", "{\"schema\":\"1.1.1-chakra.0.0.4\",\"nodes\":[]}", 42, "is an execution trace (Chakra)"},
    };
    for (size_t i = 0; i < 2 * sizeof files / sizeof *files; i++) {
        const bool packed = i % 2;
        char path[512];
        struct aorta_trace_list list = {0};
        if (packed && strstr(files[i / 2].says, "Nsight")) continue; /* its name has to end so */
        put(files[i / 2].name, files[i / 2].bytes, files[i / 2].length, packed);
        snprintf(path, sizeof path, "%s/%s%s", folder, files[i / 2].name, packed ? ".gz" : "");
        check_fails(aorta_trace_open(path, NULL, &list), AORTA_USAGE, files[i / 2].says);
        take_away(files[i / 2].name, packed);
    }
}

static void each_row_opens_by_name_and_in_its_folder(void **state) {
    (void)state;
    assert_int_equal(ROWS, sizeof samples / sizeof samples[0]);
    for (size_t i = 0; i < ROWS; i++) {
        char name[64], *bytes;
        size_t length;
        assert_string_equal(rows[i][0], samples[i].row);
        assert_string_equal(rows[i][1], samples[i].suffix);
        snprintf(name, sizeof name, "a%s", samples[i].suffix);
        read_sample(&samples[i], &bytes, &length);
        const int64_t work = work_both_ways(name, bytes, length, false);
        assert_true(work > 0);
        if (strcmp(rows[i][0], "spool") != 0 && memcmp(bytes, "SQLite", 6) != 0) /* these are not packed */
            assert_int_equal(work_both_ways(name, bytes, length, true), work);
        free(bytes);
    }
}

#define EVENT                                                                                                          \
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":0,\"tid\":7,\"ts\":1,\"dur\":2,\"args\":"                 \
    "{\"device\":0,\"stream\":7,\"correlation\":1}}"

/* Two MiB stand before the key: more than is in memory at once. */
static void a_key_stands_anywhere(void **state) {
    (void)state;
    enum { BEFORE = 2 << 20 };
    char *text = malloc(BEFORE + 1024);
    assert_non_null(text);
    int length = sprintf(text, "\n {\"other\":[\"");
    memset(text + length, 'x', BEFORE);
    length += BEFORE;
    length += sprintf(text + length, "\"],\"traceEvents\":[" EVENT "]}");
    assert_int_equal(work_both_ways("b.json", text, (size_t)length, false), 1);
    assert_int_equal(work_both_ways("b.json", text, (size_t)length, true), 1);
    free(text);
}

static void white_space_before_an_array_of_events(void **state) {
    (void)state;
    static const char text[] = " \n[" EVENT "]";
    assert_int_equal(work_both_ways("c.JSON", text, sizeof text - 1, false), 1);
}

/* Letters that read like a packet of a pftrace: key and length, a field of 32 bytes, then the number of a sequence. */
static void a_line_end_before_an_object_is_no_packet(void **state) {
    (void)state;
    static const char text[] = "\n{\n \"other\":\"xxxxxxxxxxxxxxxxxxxxxxxP\",\"traceEvents\":[" EVENT "]}";
    assert_int_equal(work_both_ways("d.json", text, sizeof text - 1, false), 1);
}

/* More than the beginning of a file is before the name of Ascend's process. */
static void a_foreign_process_is_named_wherever_it_is(void **state) {
    (void)state;
    enum { EVENTS = 100 };
    static char text[EVENTS * sizeof AFTER + sizeof ASCEND];
    char path[512];
    struct aorta_trace_list list = {0};
    char *end = text + sprintf(text, "[");
    for (int i = 0; i < EVENTS; i++) end += sprintf(end, "%s", AFTER);
    end += sprintf(end, "%s", &ASCEND[1]);
    put("trace_view.json", text, (size_t)(end - text), false);
    snprintf(path, sizeof path, "%s/trace_view.json", folder);
    check_fails(aorta_trace_open(path, NULL, &list), AORTA_USAGE, "is a trace of Ascend's profiler");
    take_away("trace_view.json", false);
}

static void what_is_no_trace_is_passed_over(void **state) {
    (void)state;
    static const struct {
        const char *name, *text;
    } others[] = {
        {"notes.json", "{\"a\":{\"traceEvents\":1}, \"b\":\"traceEvents\"}"},
        {"broken.json", "{\"a\":"},
        {"lines.json", "{\"a\":1}\n{\"traceEvents\":[]}\n"},
        {"empty.json", ""},
        {"d_kernel_stats.csv", "\"Name\",\"Calls\",\"TotalDurationNs\"\n\"k\",1,2\n"},
        {"d_counter_collection.csv", "Kernel_Name,Counter_Name,Counter_Value,Start_Timestamp,End_Timestamp\n"},
        {"list.csv", "a,b\n1,2\n"},
        {"other.db", "no database"},
        {"a.json.old", "{\"traceEvents\":[" EVENT "]}"},
        {"trace_view.json", ASCEND},
        {"flight.json", FLIGHT},
        {"rank0.jsonl", INSPECTOR},
        {"plugin.json", PLUGIN},
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        put(others[i].name, others[i].text, strlen(others[i].text), false);
    assert_int_equal(work_of(folder), -1);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) take_away(others[i].name, false);
}

/* A set of CSV files is read once: by its kernels, and where there are none by the copies. */
static void a_set_of_tables_is_one_trace(void **state) {
    (void)state;
    static const char *const names[] = {"rocprof_agent_info.csv", "rocprof_memory_copy_trace.csv",
                                        "rocprof_hip_api_trace.csv", "rocprof_kernel_trace.csv"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[PATH_MAX], *bytes;
        size_t length;
        snprintf(path, sizeof path, "%s/%s", TEST_DATA, names[i]);
        check_ok(aorta_file_read(path, &bytes, &length));
        put(names[i], bytes, length, false);
        free(bytes);
    }
    char copies[512];
    snprintf(copies, sizeof copies, "%s/%s", folder, names[1]);
    const int64_t all = work_of(folder);
    assert_int_equal(work_of(copies), all);
    take_away(names[3], false);
    const int64_t copied = work_of(folder);
    assert_true(copied > 0 && copied < all);
    assert_int_equal(work_of(copies), copied);
    for (size_t i = 0; i < 3; i++) take_away(names[i], false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_row_opens_by_name_and_in_its_folder),
        cmocka_unit_test(what_is_not_read_is_named),
        cmocka_unit_test(a_key_stands_anywhere),
        cmocka_unit_test(white_space_before_an_array_of_events),
        cmocka_unit_test(a_line_end_before_an_object_is_no_packet),
        cmocka_unit_test(a_foreign_process_is_named_wherever_it_is),
        cmocka_unit_test(what_is_no_trace_is_passed_over),
        cmocka_unit_test(a_set_of_tables_is_one_trace),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
