/* One recording in all formats of rocprofv3 (make_rocprof.py), and what broken and foreign files get. */
#include "base/files.h"
#include "base/interval.h"
#include "base/text.h"
#include "check.h"
#include "folder.h"
#include "samples/dump.h"
#include "trace/open.h"

#include <fcntl.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[FOLDER_PATH];

static int make_folder(void **state) {
    (void)state;
    folder_make(folder, "rocprof");
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    return folder_remove(folder);
}

static const char *data(const char *name) {
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", TEST_DATA, name);
    return path;
}

static const char *in_folder(const char *name) {
    static char paths[4][128];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static const char *put(const char *name, const char *bytes, size_t length) {
    const char *path = in_folder(name);
    check_ok(aorta_file_replace(path, bytes, length));
    return path;
}

static const char *put_text(const char *name, const char *text) {
    return put(name, text, strlen(text));
}

static aorta_status open_with(const char *path, bool recover, struct aorta_trace_list *list) {
    const struct aorta_trace_options options = {.recover = recover};
    *list = (struct aorta_trace_list){0};
    return aorta_trace_open(path, &options, list);
}

/* What the file cannot be opened for; nothing may be left in the list. */
static void check_refused(const char *path, enum aorta_code code, const char *part) {
    struct aorta_trace_list list;
    check_fails(open_with(path, false, &list), code, part);
    assert_int_equal(list.count, 0);
    aorta_trace_list_free(&list);
}

/* ---- what is in the recording ---- */

/* Figures by make_rocprof.py's own document, computed apart. */
static void check_figures(const struct aorta_trace_list *list) {
    static const struct {
        int64_t device, comm_ns, compute_ns;
        size_t work;
    } expected[] = {{0, 150841, 94600, 33}, {1, 0, 40480, 10}};
    assert_int_equal(list->count, 2);
    for (size_t i = 0; i < 2; i++) {
        const struct aorta_trace *trace = list->items[i];
        struct aorta_intervals comm = {0}, compute = {0};
        assert_int_equal(trace->work_count, expected[i].work);
        for (size_t w = 0; w < trace->work_count; w++) {
            const struct aorta_trace_work *work = &trace->work[w];
            assert_int_equal(work->device, expected[i].device);
            if (work->kind != AORTA_TRACE_KERNEL) continue;
            struct aorta_intervals *set = aorta_trace_is_collective(work) ? &comm : &compute;
            aorta_intervals_add(set, work->start_ns, work->end_ns);
        }
        assert_int_equal(aorta_intervals_length(&comm), expected[i].comm_ns);
        assert_int_equal(aorta_intervals_length(&compute), expected[i].compute_ns);
        aorta_intervals_free(&comm);
        aorta_intervals_free(&compute);
    }
}

static void check_details(const struct aorta_trace *trace, bool with_bytes) {
    size_t graphs = 0, copies = 0, unlaunched = 0, syncs = 0;
    int64_t bytes = 0;
    for (size_t i = 0; i < trace->work_count; i++) {
        const struct aorta_trace_work *work = &trace->work[i];
        graphs += work->graph;
        unlaunched += work->call == AORTA_TRACE_NONE;
        if (work->kind != AORTA_TRACE_COPY) continue;
        copies++;
        bytes += work->bytes;
        assert_memory_equal(aorta_trace_text(trace, work->name), "copy ", 5);
    }
    for (size_t i = 0; i < trace->call_count; i++) syncs += trace->calls[i].kind == AORTA_CALL_SYNC;
    assert_int_equal(graphs, 2);
    assert_int_equal(copies, 3);
    assert_int_equal(bytes, with_bytes ? 4096 + 65536 + 512 : -3);
    assert_int_equal(unlaunched, 0);
    assert_int_equal(syncs, 1);
    assert_int_equal(trace->step_count, 1);
    assert_int_equal(trace->steps[0].number, 7);
    assert_int_equal(trace->annotation_count, 1);
    assert_string_equal(aorta_trace_text(trace, trace->annotations[0].name), "forward \"layer 1\" part 2");
    assert_int_equal(trace->collective_count, 1); /* by RCCL's call around the launch */
    assert_string_equal(aorta_trace_text(trace, trace->collectives[0].name), "ncclAllReduce");
    assert_true(trace->collectives[0].named);
    assert_string_equal(aorta_trace_text(trace, trace->devices[0].name), "AMD Instinct MI350X");
    assert_int_equal(trace->devices[0].multiprocessors, 256);
    assert_int_equal(trace->process, 908);
}

/* All but the format itself: sizes of copies, which CSV has not, and places in the file. */
static void dump_content(struct aorta_trace *trace, struct aorta_text *out) {
    trace->format = AORTA_TRACE_ROCPROF_JSON;
    for (size_t i = 0; i < trace->work_count; i++) trace->work[i].bytes = -1;
    for (int i = 0; i < AORTA_REASON_COUNT; i++) trace->warnings[i].offset = -1;
    dump_trace(trace, out);
}

static void all_formats_say_the_same(void **state) {
    (void)state;
    static const struct {
        const char *name;
        enum aorta_trace_format format;
    } files[] = {
        {"rocprof_results.json", AORTA_TRACE_ROCPROF_JSON},
        {"rocprof_kernel_trace.csv", AORTA_TRACE_ROCPROF_CSV},
        {"rocprof_3.db", AORTA_TRACE_ROCPD},
        {"rocprof_4.db", AORTA_TRACE_ROCPD},
    };
    struct aorta_text first = {0};
    for (size_t f = 0; f < sizeof files / sizeof files[0]; f++) {
        struct aorta_trace_list list;
        struct aorta_text text = {0};
        check_ok(open_with(data(files[f].name), false, &list));
        assert_int_equal(list.items[0]->format, files[f].format);
        check_figures(&list);
        check_details(list.items[0], files[f].format != AORTA_TRACE_ROCPROF_CSV);
        for (size_t i = 0; i < list.count; i++) dump_content(list.items[i], &text);
        if (!f) {
            first = text;
        } else {
            assert_string_equal(text.data, first.data);
            aorta_text_free(&text);
        }
        aorta_trace_list_free(&list);
    }
    aorta_text_free(&first);
}

/* ---- JSON ---- */

static const char reversed[] =
    "{\"rocprofiler-sdk-tool\": [{\"buffer_records\": {\"unknown\": [{\"a\": [1, {}]}],"
    "\"hip_api\": [{\"kind\": 1, \"operation\": 1, \"start_timestamp\": 5, \"end_timestamp\": 8, \"thread_id\": 3,"
    " \"correlation_id\": {\"internal\": 4}}],"
    "\"kernel_dispatch\": [{\"end_timestamp\": 30, \"start_timestamp\": 10, \"dispatch_info\": {\"kernel_id\": 9,"
    " \"queue_id\": {\"handle\": 6}, \"agent_id\": {\"handle\": 77}}, \"correlation_id\": {\"internal\": 4}},"
    " {\"start_timestamp\": 40, \"end_timestamp\": 50, \"dispatch_info\": {\"kernel_id\": 8, \"agent_id\":"
    " {\"handle\": 77}}, \"stream_id\": {\"handle\": 18446744073709551615}},"
    " {\"end_timestamp\": 50, \"dispatch_info\": {\"kernel_id\": 8, \"agent_id\": {\"handle\": 77}}}]},"
    "\"kernel_symbols\": [{\"kernel_id\": 9, \"formatted_kernel_name\": \"nccl\\u004bernel\\\"x\\\"\"}],"
    "\"strings\": {\"buffer_records\": [{\"kind\": \"NONE\"}, {\"kind\": \"HIP_RUNTIME_API\","
    " \"operations\": [\"-\", \"hipLaunchKernel\"]}]},"
    "\"agents\": [{\"id\": {\"handle\": 76}, \"type\": 2}, {\"id\": {\"handle\": 77}, \"type\": 2, \"name\": "
    "\"gfx950\"}]"
    "}], \"later\": null}";

/* Matrix products have blocks and threads; a dispatch's grid is counted in threads, and its last block may be short. */
static void products_have_a_geometry(void **state) {
    (void)state;
    static const struct {
        const char *sizes, *geometry;
    } cases[] = {
        {"\"grid_size\": {\"x\": 3072, \"y\": 8, \"z\": 1}, \"workgroup_size\": {\"x\": 256, \"y\": 4, \"z\": 1}",
         "12x2x1 of 256x4x1"},
        {"\"grid_size\": {\"x\": 2817, \"y\": 1, \"z\": 1}, \"workgroup_size\": {\"x\": 256, \"y\": 1, \"z\": 1}",
         "12x1x1 of 256x1x1"},
        {"\"grid_size\": {\"x\": 2817, \"y\": 1, \"z\": 1}, \"workgroup_size\": {\"x\": 0, \"y\": 1, \"z\": 1}", ""},
        {"\"queue_id\": {\"handle\": 6}", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct aorta_text file = {0};
        struct aorta_trace_list list = {0};
        aorta_text_printf(&file,
                          "{\"rocprofiler-sdk-tool\": [{\"agents\": [{\"id\": {\"handle\": 77}, \"type\": 2}],"
                          "\"kernel_symbols\": [{\"kernel_id\": 9, \"formatted_kernel_name\": \"Cijk_Ailk_Bljk\"}],"
                          "\"buffer_records\": {\"kernel_dispatch\": [{\"start_timestamp\": 10, \"end_timestamp\": 30,"
                          "\"dispatch_info\": {\"kernel_id\": 9, \"agent_id\": {\"handle\": 77}, %s}}]}}]}",
                          cases[i].sizes);
        check_ok(read_memory(file.data, file.length, 1000, false, &list));
        const struct aorta_trace *trace = list.items[0];
        assert_string_equal(aorta_trace_text(trace, trace->work[0].geometry), cases[i].geometry);
        aorta_trace_list_free(&list);
        aorta_text_free(&file);
    }
}

/* Agents, names and operations may come last; a dispatch without stream is on its queue's. */
static void order_does_not_matter(void **state) {
    (void)state;
    for (size_t piece = 0; piece < 40; piece++) {
        struct aorta_trace_list list = {0};
        check_ok(read_memory(reversed, strlen(reversed), piece, false, &list));
        assert_int_equal(list.count, 1);
        const struct aorta_trace *trace = list.items[0];
        assert_int_equal(trace->work_count, 2);
        assert_string_equal(aorta_trace_text(trace, trace->work[0].name), "ncclKernel\"x\"");
        assert_true(aorta_trace_is_collective(&trace->work[0]));
        assert_int_equal(trace->streams[trace->work[0].stream].id, 6);
        assert_int_equal(trace->queues[trace->work[0].queue].id, 6);
        assert_int_equal(trace->work[0].device, 1);
        assert_int_equal(trace->calls[trace->work[0].call].kind, AORTA_CALL_LAUNCH);
        assert_string_equal(aorta_trace_text(trace, trace->work[1].name), "kernel 8");
        assert_int_equal(trace->warnings[AORTA_REASON_UNKNOWN_NAME].count, 1);
        assert_int_equal(trace->warnings[AORTA_REASON_ODD_VALUE].count, 1); /* a stream beyond int64 */
        assert_int_equal(trace->warnings[AORTA_REASON_BAD_EVENT].count, 1); /* no start */
        assert_int_equal(trace->warnings[AORTA_REASON_NO_STREAM].count, 1);
        aorta_trace_list_free(&list);
    }
}

/* Cut at any place: an error with a byte offset, or, recovered, the dispatches before it. */
static void cut_json(void **state) {
    (void)state;
    char *bytes;
    size_t length;
    check_ok(aorta_file_read(data("rocprof_results.json"), &bytes, &length));
    size_t most = 0, dispatches = 0;
    for (size_t cut = 10; cut < length - 3; cut += 131) {
        struct aorta_trace_list list = {0};
        check_fails(read_memory(bytes, cut, 0, false, &list), AORTA_FORMAT, "byte");
        assert_int_equal(list.count, 0);
        aorta_status status = read_memory(bytes, cut, 0, true, &list);
        if (cut > 60) check_ok(status); /* else the reader's own part has not begun */
        if (cut <= 60) aorta_status_free(status);
        dispatches = 0;
        for (size_t i = 0; i < list.count; i++) dispatches += list.items[i]->work_count;
        assert_true(dispatches >= most);
        if (cut > 60) assert_int_equal(list.items[0]->warnings[AORTA_REASON_TRUNCATED].count, 1);
        most = dispatches;
        aorta_trace_list_free(&list);
    }
    assert_true(most >= 41); /* the last copies end just before the last cut */
    free(bytes);
}

/* ---- CSV ---- */

static void columns_in_any_order(void **state) {
    (void)state;
    const char *path = put_text("own.csv", "End_Timestamp,Kernel_Name,\"Start_Timestamp\",Extra,Agent_Id,Stream_Id\r\n"
                                           "20,\"a<int, \"\"b\"\">(char)\",10,,\"Agent 7\",3\r\n"
                                           "\r\n"
                                           "40,\"say \"hello\" twice\",30,\"x\ny\",\"GPU 1\",3\r\n"
                                           "60,\"ncclDevKernel_AllReduce\",50,,4,4");
    struct aorta_trace_list list;
    check_ok(open_with(path, false, &list));
    assert_int_equal(list.count, 3); /* agents 4 and 7, and the GPU counted by type */
    const char *const names[] = {"ncclDevKernel_AllReduce", "a<int, \"b\">(char)", "say \"hello\" twice"};
    const int64_t devices[] = {4, 7, 1}, starts[] = {50, 10, 30};
    for (size_t i = 0; i < 3; i++) {
        const struct aorta_trace *trace = list.items[i];
        assert_int_equal(trace->work_count, 1);
        assert_string_equal(aorta_trace_text(trace, trace->work[0].name), names[i]);
        assert_int_equal(trace->work[0].device, devices[i]);
        assert_int_equal(trace->work[0].start_ns, starts[i]);
        assert_int_equal(trace->work[0].end_ns, starts[i] + 10);
    }
    aorta_trace_list_free(&list);
}

/* 30 rounds of four kernels are steps, unless most kernels in between are missing. */
static void a_loop_has_steps(void **state) {
    (void)state;
    for (int every = 1; every <= 10; every += 9) {
        struct aorta_text text = {0};
        struct aorta_trace_list list = {0};
        aorta_text_puts(&text, "Kernel_Name,Dispatch_Id,Start_Timestamp,End_Timestamp\n");
        for (int i = 0; i < 120; i++)
            aorta_text_printf(&text, "\"%c\",%d,%d,%d\n", "abcd"[i % 4], 1 + i * every, i * 100, i * 100 + 80);
        const char *path = put("loop.csv", text.data, text.length);
        check_ok(aorta_trace_open_inputs(&path, 1, NULL, &list));
        assert_int_equal(list.items[0]->step_count, every == 1 ? 29 : 0);
        aorta_trace_list_free(&list);
        aorta_text_free(&text);
    }
}

/* Given any file of a set, all of it is read, once. */
static void a_set_is_read_once(void **state) {
    (void)state;
    struct aorta_trace_list list;
    check_ok(open_with(data("rocprof_memory_copy_trace.csv"), false, &list));
    check_figures(&list);
    check_ok(aorta_trace_open(data("rocprof_kernel_trace.csv"), NULL, &list));
    check_ok(aorta_trace_open(data("rocprof_agent_info.csv"), NULL, &list));
    assert_int_equal(list.count, 2);
    aorta_trace_list_free(&list);
    const char *const paths[] = {TEST_DATA "/rocprof_hip_api_trace.csv", TEST_DATA "/rocprof_kernel_trace.csv"};
    check_ok(aorta_trace_open_many(paths, 2, NULL, &list));
    assert_int_equal(list.count, 2);
    aorta_trace_list_free(&list);
}

static void packed_set(void **state) {
    (void)state;
    char command[512];
    setenv("DATA", TEST_DATA, 1);
    snprintf(command, sizeof command,
             "cd %s && gzip -c \"$DATA/rocprof_kernel_trace.csv\" >p_kernel_trace.csv.gz && "
             "cp \"$DATA/rocprof_agent_info.csv\" p_agent_info.csv",
             folder);
    assert_int_equal(system(command), 0);
    struct aorta_trace_list list;
    check_ok(open_with(in_folder("p_kernel_trace.csv.gz"), false, &list));
    assert_int_equal(list.count, 2);
    assert_int_equal(list.items[0]->work_count + list.items[1]->work_count, 40);
    assert_string_equal(aorta_trace_text(list.items[0], list.items[0]->devices[0].name), "AMD Instinct MI350X");
    aorta_trace_list_free(&list);
    assert_int_equal(truncate(in_folder("p_kernel_trace.csv.gz"), 700), 0);
    check_refused(in_folder("p_kernel_trace.csv.gz"), AORTA_FORMAT, "byte 700");
}

static void broken_csv(void **state) {
    (void)state;
    static const char head[] = "Kernel_Name,Start_Timestamp,End_Timestamp\n\"a\",1,2\n";
    char text[256];
    snprintf(text, sizeof text, "%s\"b\",3,4,5\n\"c\",5,6\n", head);
    check_refused(put_text("a.csv", text), AORTA_FORMAT, "byte 50: a row of 4 fields under a header of 3 names");
    struct aorta_trace_list list;
    check_ok(open_with(in_folder("a.csv"), true, &list));
    assert_int_equal(list.items[0]->work_count, 1);
    assert_int_equal(list.items[0]->warnings[AORTA_REASON_MALFORMED].count, 1);
    assert_int_equal(list.items[0]->warnings[AORTA_REASON_MALFORMED].offset, 50);
    aorta_trace_list_free(&list);
    snprintf(text, sizeof text, "%s\"b\",3", head);
    check_refused(put_text("a.csv", text), AORTA_FORMAT, "byte 50: the file ends in the middle of the row");
    snprintf(text, sizeof text, "%s\"b,3,4\n", head);
    check_refused(put_text("a.csv", text), AORTA_FORMAT, "byte 50: the file ends within the quotes");
    check_ok(open_with(in_folder("a.csv"), true, &list));
    assert_int_equal(list.items[0]->warnings[AORTA_REASON_TRUNCATED].count, 1);
    aorta_trace_list_free(&list);
    snprintf(text, sizeof text, "%s\"b\",x,4\n", head);
    check_ok(open_with(put_text("a.csv", text), false, &list));
    assert_int_equal(list.items[0]->warnings[AORTA_REASON_BAD_EVENT].count, 1);
    aorta_trace_list_free(&list);
    snprintf(text, sizeof text, "%s\"b\",3,9000000000000000000\n", head);
    check_ok(open_with(put_text("a.csv", text), false, &list));
    assert_int_equal(list.items[0]->work_count, 1);
    assert_int_equal(list.items[0]->warnings[AORTA_REASON_BAD_EVENT].count, 1);
    aorta_trace_list_free(&list);
}

static void tables_that_are_no_trace(void **state) {
    (void)state;
    check_refused(put_text("b.csv", "\"Name\",\"Calls\",\"TotalDurationNs\"\n\"k\",1,2\n"), AORTA_FORMAT,
                  "no events: a trace of rocprofv3 has the columns");
    check_refused(put_text("b.csv", "Kernel_Name,Counter_Name,Counter_Value,Start_Timestamp,End_Timestamp\n"),
                  AORTA_FORMAT, "holds counters");
    check_refused(put_text("b.csv", "a,b\n1,2\n"), AORTA_USAGE, "is no trace");
}

/* ---- rocpd ---- */

static void check_rank(void **state) {
    (void)state;
    sqlite3 *db;
    char *bytes;
    size_t length;
    check_ok(aorta_file_read(data("rocprof_3.db"), &bytes, &length));
    const char *path = put("ranked.db", bytes, length);
    free(bytes);
    /* One GPU only: then the process's rank is the GPU's. */
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db,
                                  "DELETE FROM \"rocpd_kernel_dispatch_00000ac2_6f4e_7a11_8d2b_3c1d5e7f9a01\" "
                                  "WHERE agent_id <> 2",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(db);
    struct aorta_trace_list list;
    check_ok(open_with(path, false, &list));
    assert_int_equal(list.count, 1);
    assert_int_equal(list.items[0]->rank, 3);
    assert_int_equal(list.items[0]->world, 8);
    aorta_trace_list_free(&list);
}

static void cut_database(void **state) {
    (void)state;
    char *bytes;
    size_t length;
    check_ok(aorta_file_read(data("rocprof_3.db"), &bytes, &length));
    for (size_t cut = 64; cut < length; cut += 1777) {
        const char *path = put("cut.db", bytes, cut);
        char part[80];
        snprintf(part, sizeof part, "byte %zu: the file ends in the middle", cut);
        check_refused(path, AORTA_FORMAT, part);
        struct aorta_trace_list list;
        aorta_status status = open_with(path, true, &list); /* what can be read, or an error: no crash */
        if (!status) assert_true(list.items[0]->warnings[AORTA_REASON_TRUNCATED].count == 1);
        aorta_status_free(status);
        aorta_trace_list_free(&list);
    }
    /* The end of the file holds the last records: all before them can be recovered. */
    struct aorta_trace_list list;
    check_ok(open_with(put("cut.db", bytes, length - 1024), true, &list));
    assert_true(list.items[0]->work_count > 0);
    aorta_trace_list_free(&list);
    free(bytes);
}

static void spoilt_database(void **state) {
    (void)state;
    char *bytes;
    size_t length, refused = 0;
    check_ok(aorta_file_read(data("rocprof_4.db"), &bytes, &length));
    for (size_t page = 1024; page + 1024 <= length; page += 1024) {
        char original[1024];
        memcpy(original, bytes + page, sizeof original);
        memset(bytes + page, 0xa5, sizeof original);
        const char *path = put("spoilt.db", bytes, length);
        struct aorta_trace_list list;
        aorta_status status = open_with(path, false, &list);
        if (status) {
            assert_int_equal(aorta_status_code(status), AORTA_FORMAT);
            assert_non_null(strstr(aorta_status_message(status), "spoilt.db"));
            refused++;
        }
        aorta_status_free(status);
        aorta_trace_list_free(&list);
        memcpy(bytes + page, original, sizeof original);
    }
    assert_true(refused > length / 1024 / 2);
    free(bytes);
}

static void make_database(const char *path, const char *statements) {
    sqlite3 *db;
    unlink(path);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, statements, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void foreign_databases(void **state) {
    (void)state;
    const char *path = in_folder("f.db");
    make_database(path, "CREATE TABLE people (name TEXT)");
    check_refused(path, AORTA_USAGE, "is a SQLite database, but no trace");
    make_database(path, "CREATE TABLE rocpd_op (id INTEGER)");
    check_refused(path, AORTA_FORMAT, "rocmProfileData");
    make_database(path, "CREATE TABLE t (id INTEGER); CREATE VIEW rocpd_kernel_dispatch_x AS SELECT * FROM t");
    check_refused(path, AORTA_USAGE, "but no trace");
    /* Columns of another type, and records without them, are counted. */
    make_database(path, "CREATE TABLE rocpd_kernel_dispatch (start TEXT, end BIGINT, agent_id INTEGER);"
                        "INSERT INTO rocpd_kernel_dispatch VALUES ('soon', 5, 1), (NULL, 6, 1)");
    struct aorta_trace_list list;
    check_ok(open_with(path, false, &list));
    assert_int_equal(list.items[0]->warnings[AORTA_REASON_BAD_EVENT].count, 2);
    assert_int_equal(list.items[0]->warnings[AORTA_REASON_ODD_VALUE].count, 1);
    aorta_trace_list_free(&list);
    char command[256];
    snprintf(command, sizeof command, "gzip -c %s > %s/packed.db.gz", path, folder);
    assert_int_equal(system(command), 0);
    check_refused(in_folder("packed.db.gz"), AORTA_FORMAT, "unpack it first");
    put_text("f.db-wal", "something");
    check_refused(path, AORTA_FORMAT, "f.db-wal holds more");
}

/* Odd names are part of the path, not of SQLite's address; and nothing is written beside a database. */
static void path_and_place(void **state) {
    (void)state;
    char *bytes;
    size_t length;
    check_ok(aorta_file_read(data("rocprof_3.db"), &bytes, &length));
    assert_int_equal(mkdir(in_folder("locked"), 0700), 0);
    const char *path = put("locked/50% of #1?mode=rw.db", bytes, length);
    free(bytes);
    assert_int_equal(chmod(path, 0400), 0);
    assert_int_equal(chmod(in_folder("locked"), 0500), 0);
    struct aorta_trace_list list;
    aorta_status status = open_with(path, false, &list);
    assert_int_equal(chmod(in_folder("locked"), 0700), 0);
    check_ok(status);
    check_figures(&list);
    aorta_trace_list_free(&list);
}

/* Two processes in one file, as `rocpd merge` leaves them. */
static void merged_database(void **state) {
    (void)state;
    const char *path = in_folder("two.db");
    make_database(path, "CREATE TABLE rocpd_kernel_dispatch_a (start BIGINT, end BIGINT, agent_id INTEGER);"
                        "CREATE TABLE rocpd_kernel_dispatch_b (start BIGINT, end BIGINT, agent_id INTEGER);"
                        "CREATE TABLE rocpd_info_process_b (pid INTEGER, environment TEXT);"
                        "INSERT INTO rocpd_info_process_b VALUES (17, '{\"RANK\": \"1\"}');"
                        "INSERT INTO rocpd_kernel_dispatch_a VALUES (1, 5, 0);"
                        "INSERT INTO rocpd_kernel_dispatch_b VALUES (2, 6, 0), (7, 9, 0)");
    struct aorta_trace_list list;
    check_ok(open_with(path, false, &list));
    assert_int_equal(list.count, 2);
    assert_int_equal(list.items[0]->work_count, 1);
    assert_int_equal(list.items[1]->work_count, 2);
    assert_int_equal(list.items[1]->process, 17);
    assert_int_equal(list.items[1]->rank, 1);
    aorta_trace_list_free(&list);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_formats_say_the_same),
        cmocka_unit_test(products_have_a_geometry),
        cmocka_unit_test(order_does_not_matter),
        cmocka_unit_test(cut_json),
        cmocka_unit_test(columns_in_any_order),
        cmocka_unit_test(a_loop_has_steps),
        cmocka_unit_test(a_set_is_read_once),
        cmocka_unit_test(packed_set),
        cmocka_unit_test(broken_csv),
        cmocka_unit_test(tables_that_are_no_trace),
        cmocka_unit_test(check_rank),
        cmocka_unit_test(cut_database),
        cmocka_unit_test(spoilt_database),
        cmocka_unit_test(foreign_databases),
        cmocka_unit_test(path_and_place),
        cmocka_unit_test(merged_database),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
