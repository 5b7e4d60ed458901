/* aorta trace merge: all events of the inputs are in the output, on one clock. */
#include "analysis/analysis.h"
#include "base/files.h"
#include "check.h"
#include "folder.h"
#include "report/merge.h"
#include "trace/open.h"

#include <dirent.h>
#include <jansson.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

static char folder[FOLDER_PATH];

static int make_folder(void **state) {
    (void)state;
    folder_make(folder, "merge");
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    return folder_remove(folder);
}

static const char *in_folder(const char *name) {
    static char paths[8][128];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static size_t files_in_folder(void) {
    size_t count = 0;
    DIR *open = opendir(folder);
    assert_non_null(open);
    while (readdir(open)) count++;
    closedir(open);
    return count;
}

/* ---- files to merge ---- */

enum { COLLECTIVES = 12 };

/* Collectives that end together on the common clock; this file's is `ahead_ns` ahead of it. Flows have the same ids in
 * every file, as PyTorch numbers them. */
static const char *write_rank(const char *name, int rank, int64_t base_ns, int64_t ahead_ns) {
    struct aorta_text text = {0};
    aorta_text_printf(&text, "{\"schemaVersion\": 1, \"note\": \"a \\\"quoted\\\" \\u00fc\", ");
    if (rank >= 0) aorta_text_printf(&text, "\"distributedInfo\": {\"rank\": %d, \"world_size\": 4}, ", rank);
    aorta_text_printf(&text, "\"baseTimeNanoseconds\": %lld, \"traceEvents\": [\n", (long long)base_ns);
    aorta_text_puts(
        &text,
        "{\"name\": \"process_name\", \"ph\": \"M\", \"ts\": 1.5, \"pid\": 0, \"tid\": 0, \"args\": {\"name\": "
        "\"python\"}},\n"
        "{\"name\": \"thread_name\", \"ph\": \"M\", \"ts\": 1.5, \"pid\": 0, \"tid\": 7, \"args\": {\"name\": "
        "\"stream 7 \"}},\n"
        "{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": 500, \"tid\": 7, \"args\": {\"name\": \"thread 7\"}},\n"
        "{\"ph\": \"i\", \"s\": \"g\", \"name\": \"Record Window End\", \"pid\": \"\", \"tid\": \"\", \"ts\": 3},\n"
        "{\"ph\": \"X\", \"cat\": \"Trace\", \"name\": \"it's \\\"{[\", \"pid\": \"Spans\", \"tid\": \"PyTorch "
        "Profiler\", \"ts\": 2, \"dur\": 1e2, \"odd\": [1, {\"deep\": [null, true]}]},\n"
        "{\"ph\": \"b\", \"cat\": \"async\", \"name\": \"a\", \"id\": \"0x5\", \"pid\": 500, \"tid\": 7, \"ts\": 4},\n"
        "{\"ph\": \"C\", \"name\": \"memory\", \"pid\": 0, \"ts\": 5.25, \"args\": {\"bytes\": 9223372036854775807}}");
    for (int i = 0; i < COLLECTIVES; i++) {
        int64_t end = 4354026433767730 + i * 1000000 + ahead_ns - base_ns % 1000, start = end - 30000 - rank * 500;
        aorta_text_printf(&text,
                          ",\n{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": 500, "
                          "\"tid\": 7, \"ts\": %lld.%03d, \"dur\": 2.5, \"args\": {\"correlation\": %d}},\n"
                          "{\"ph\": \"s\", \"id\": %d, \"pid\": 500, \"tid\": 7, \"ts\": %lld.%03d, \"cat\": \"ac2g\", "
                          "\"name\": \"ac2g\"},\n"
                          "{\"ph\": \"f\", \"id\": %d, \"pid\": 0, \"tid\": 7, \"ts\": %lld.%03d, \"cat\": \"ac2g\", "
                          "\"name\": \"ac2g\", \"bp\": \"e\"},\n",
                          (long long)(start - 9000) / 1000, (int)((start - 9000) % 1000), i + 1, i + 1,
                          (long long)(start - 9000) / 1000, (int)((start - 9000) % 1000), i + 1,
                          (long long)start / 1000, (int)(start % 1000));
        aorta_text_printf(
            &text,
            "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"ncclDevKernel_AllReduce\", \"pid\": 0, \"tid\": 7, "
            "\"ts\": %lld.%03d, \"dur\": %lld.%03d, \"args\": {\"device\": %d, \"stream\": 7, "
            "\"correlation\": %d, \"Collective name\": \"allreduce\", \"In msg nelems\": %d, "
            "\"dtype\": \"Float\", \"Process Group Name\": \"0\", \"Process Group Ranks\": \"[0, 1]\"}}",
            (long long)start / 1000, (int)(start % 1000), (long long)(end - start) / 1000, (int)((end - start) % 1000),
            rank < 0 ? 0 : rank, i + 1, 100 + i % 3);
    }
    aorta_text_puts(&text, "\n], \"traceName\": \"x.json\"}\n");
    check_ok(aorta_text_check(&text));
    const char *path = in_folder(name);
    check_ok(aorta_file_replace(path, text.data, text.length));
    aorta_text_free(&text);
    return path;
}

static char *merge(const char *const *paths, size_t count, const char *output, bool recover) {
    const struct aorta_trace_options options = {.recover = recover};
    struct aorta_text report = {0};
    check_ok(aorta_trace_merge(paths, count, output, &options, NULL, false, &report));
    return report.data;
}

static json_t *load(const char *path) {
    json_error_t error;
    json_t *document = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (!document) print_error("%s:%d: %s\n", path, error.line, error.text);
    assert_non_null(document);
    return document;
}

/* ---- what comes out ---- */

static const char *text_of(json_t *event, const char *key) {
    const char *text = json_string_value(json_object_get(event, key));
    return text ? text : "";
}

/* Events of a process with this phase and name, in order. */
static json_t *event_of(json_t *document, int rank, const char *phase, const char *name, size_t number) {
    json_t *event, *events = json_object_get(document, "traceEvents");
    size_t i;
    json_array_foreach(events, i, event) {
        if (json_integer_value(json_object_get(event, "pid")) != rank) continue;
        if (strcmp(text_of(event, "ph"), phase) != 0 || strcmp(text_of(event, "name"), name) != 0) continue;
        if (number-- == 0) return event;
    }
    return NULL;
}

static double number_of(json_t *event, const char *key) {
    json_t *value = json_object_get(event, key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

static void ranks_come_on_one_clock(void **state) {
    (void)state;
    const char *const paths[] = {write_rank("r1.json", 1, 0, 5000123), write_rank("r0.json", 0, 0, 0)};
    const char *output = in_folder("merged.json");
    char *report = merge(paths, 2, output, false);
    assert_non_null(strstr(report, "rank 0: its clock is the common one; 12 shared collectives, residual 0.000 us"));
    assert_non_null(strstr(report, "rank 1: clock +5000.123 us; 12 shared collectives, residual 0.000 us"));
    free(report);
    json_t *document = load(output);
    for (size_t i = 0; i < COLLECTIVES; i++) {
        json_t *zero = event_of(document, 0, "X", "ncclDevKernel_AllReduce", i);
        json_t *one = event_of(document, 1, "X", "ncclDevKernel_AllReduce", i);
        double ends[] = {number_of(zero, "ts") + number_of(zero, "dur"), number_of(one, "ts") + number_of(one, "dur")};
        assert_true(ends[0] - ends[1] < 0.002 && ends[1] - ends[0] < 0.002);
        assert_true(number_of(zero, "ts") > number_of(one, "ts"));
    }
    json_decref(document);
    /* To the nanosecond, as text: 4354026433737.730 - 0.500 is when rank 1 began on the common clock. */
    char *bytes;
    size_t length;
    check_ok(aorta_file_read(output, &bytes, &length));
    assert_non_null(strstr(bytes, "\"ts\": 4354026433737.230,"));
    free(bytes);
}

static void nothing_is_lost(void **state) {
    (void)state;
    const char *const paths[] = {write_rank("r0.json", 0, 0, 0), write_rank("r1.json", 1, 0, 7)};
    const char *output = in_folder("merged.json");
    free(merge(paths, 2, output, false));
    json_t *before = load(paths[1]), *after = load(output), *event;
    size_t i, events_after = 0, matched = 0, events = json_array_size(json_object_get(before, "traceEvents"));
    json_array_foreach(json_object_get(after, "traceEvents"), i, event) {
        json_t *other;
        size_t k;
        if (json_integer_value(json_object_get(event, "pid")) != 1) continue;
        events_after++;
        static const char *const anew[] = {"pid", "tid", "ts", "id"};
        json_t *copy = json_deep_copy(event);
        for (size_t a = 0; a < 4; a++) json_object_del(copy, anew[a]);
        bool found = false;
        json_array_foreach(json_object_get(before, "traceEvents"), k, other) {
            json_t *rest = json_deep_copy(other);
            for (size_t a = 0; a < 4; a++) json_object_del(rest, anew[a]);
            found = found || json_equal(copy, rest);
            json_decref(rest);
        }
        matched += found;
        json_decref(copy);
    }
    /* Its own process_name gives way to two facts about the rank; the thread with a name instead of a number gets one.
     */
    assert_int_equal(events_after, events - 1 + 3);
    assert_int_equal(matched, events - 1);
    json_t *facts = json_array_get(json_object_get(after, "ranks"), 1);
    json_t *head = json_object_get(facts, "head");
    assert_string_equal(text_of(head, "note"), "a \"quoted\" \xc3\xbc");
    assert_string_equal(text_of(head, "traceName"), "x.json");
    assert_int_equal(json_integer_value(json_object_get(facts, "clock_shift_ns")), 7);
    json_decref(before);
    json_decref(after);
}

static void flows_and_threads_stay_apart(void **state) {
    (void)state;
    const char *const paths[] = {write_rank("r0.json", 0, 0, 0), write_rank("r1.json", 1, 0, 0),
                                 write_rank("r2.json", 2, 0, 0)};
    const char *output = in_folder("merged.json");
    free(merge(paths, 3, output, false));
    json_t *document = load(output);
    for (int rank = 0; rank < 3; rank++) {
        for (size_t i = 0; i < COLLECTIVES; i++) {
            json_t *start = event_of(document, rank, "s", "ac2g", i), *end = event_of(document, rank, "f", "ac2g", i);
            assert_true(json_equal(json_object_get(start, "id"), json_object_get(end, "id")));
            assert_int_equal(json_integer_value(json_object_get(start, "id")), (json_int_t)(i + 1) * 3 + rank);
            /* Stream 7 and thread 7 were threads of two processes. */
            assert_false(json_equal(json_object_get(start, "tid"), json_object_get(end, "tid")));
            json_t *kernel = event_of(document, rank, "X", "ncclDevKernel_AllReduce", i);
            assert_true(json_equal(json_object_get(kernel, "tid"), json_object_get(end, "tid")));
        }
        char id[16];
        snprintf(id, sizeof id, "%d:0x5", rank);
        assert_string_equal(text_of(event_of(document, rank, "b", "a", 0), "id"), id);
        json_t *named = event_of(document, rank, "M", "process_name", 0);
        snprintf(id, sizeof id, "rank %d", rank);
        assert_string_equal(text_of(json_object_get(named, "args"), "name"), id);
    }
    json_decref(document);
}

/* Files that count from different moments of the day. */
/* A path from rank 0 to rank 1 and back has two arrows: they end where the pieces behind them begin. */
static void the_critical_path_has_arrows(void **state) {
    (void)state;
    const char *const paths[] = {write_rank("r0.json", 0, 0, 0), write_rank("r1.json", 1, 0, 0)};
    enum { AT = 1000000000, PIECE = 5000 };
    struct aorta_path_piece pieces[] = {{AT, AT + PIECE, 0, AORTA_PATH_KERNEL, "first"},
                                        {AT + PIECE, AT + 2 * PIECE, 0, AORTA_PATH_KERNEL, "second"},
                                        {AT + 2 * PIECE, AT + 3 * PIECE, 1, AORTA_PATH_COLLECTIVE, "third"},
                                        {AT + 3 * PIECE, AT + 4 * PIECE, 0, AORTA_PATH_KERNEL, "fourth"}};
    const struct aorta_critical_path path = {pieces, sizeof pieces / sizeof *pieces, NULL};
    const struct aorta_counters counters[2] = {{.rank = 0}, {.rank = 1}};
    struct aorta_trace_list list = {0};
    struct aorta_text report = {0};
    check_ok(aorta_trace_open_inputs(paths, 2, NULL, &list));
    const struct aorta_merge_tracks tracks = {&list, &path, counters, 2};
    check_ok(aorta_trace_merge(paths, 2, in_folder("arrows.json"), NULL, &tracks, false, &report));
    json_t *document = load(in_folder("arrows.json"));
    const struct {
        int rank;
        const char *phase;
        size_t number;
        int id;
        double us;
    } arrows[] = {
        {0, "s", 0, 2, 1000009.999}, {1, "f", 0, 2, 1000010}, {1, "s", 0, 3, 1000014.999}, {0, "f", 0, 3, 1000015}};
    for (size_t i = 0; i < sizeof arrows / sizeof *arrows; i++) {
        json_t *event = event_of(document, arrows[i].rank, arrows[i].phase, "critical path", arrows[i].number);
        assert_non_null(event);
        assert_int_equal(json_integer_value(json_object_get(event, "id")), arrows[i].id);
        assert_true(number_of(event, "ts") > arrows[i].us - 1e-4 && number_of(event, "ts") < arrows[i].us + 1e-4);
        assert_null(event_of(document, arrows[i].rank, arrows[i].phase, "critical path", 1));
    }
    json_decref(document);
    aorta_text_free(&report);
    aorta_trace_list_free(&list);
}

static void times_of_day(void **state) {
    (void)state;
    const char *const paths[] = {write_rank("r0.json", 0, 1790857026000000000, 0),
                                 write_rank("r1.json", 1, 1790857026000000400, 0)};
    const char *output = in_folder("merged.json");
    char *report = merge(paths, 2, output, false);
    assert_non_null(strstr(report, "rank 1: clock +0.000 us"));
    free(report);
    json_t *document = load(output);
    assert_int_equal(json_integer_value(json_object_get(document, "baseTimeNanoseconds")), 1790857026000000000);
    json_decref(document);
}

static void packed_is_the_same(void **state) {
    (void)state;
    const char *const paths[] = {write_rank("r0.json", 0, 0, 0), write_rank("r1.json", 1, 0, 99)};
    const char *plain = in_folder("merged.json"), *packed = in_folder("merged.json.gz");
    free(merge(paths, 2, plain, false));
    free(merge(paths, 2, packed, false));
    char *bytes;
    size_t length;
    check_ok(aorta_file_read(plain, &bytes, &length));
    char *unpacked = malloc(length + 1);
    gzFile file = gzopen(packed, "rb");
    assert_false(gzdirect(file));
    assert_int_equal(gzread(file, unpacked, (unsigned)length + 1), length);
    gzclose(file);
    assert_memory_equal(bytes, unpacked, length);
    free(unpacked);
    free(bytes);
}

/* What `aorta trace` makes of the merged file is what it makes of the files. */
static void reads_back(void **state) {
    (void)state;
    const char *const paths[] = {write_rank("r0.json", 0, 0, 0), write_rank("r1.json", 1, 0, -450)};
    const char *output = in_folder("merged.json");
    free(merge(paths, 2, output, false));
    struct aorta_trace_list list = {0};
    check_ok(aorta_trace_open(output, NULL, &list));
    size_t work = 0, calls = 0, linked = 0;
    for (size_t i = 0; i < list.count; i++) {
        work += list.items[i]->work_count;
        calls += list.items[i]->call_count;
        for (size_t w = 0; w < list.items[i]->work_count; w++)
            linked += list.items[i]->work[w].collective != AORTA_TRACE_NONE;
    }
    assert_int_equal(work, 2 * COLLECTIVES);
    assert_int_equal(calls, 2 * COLLECTIVES);
    assert_int_equal(linked, 2 * COLLECTIVES);
    aorta_trace_list_free(&list);
}

static void other_formats(void **state) {
    (void)state;
    const char *const paths[] = {RECORDED "/rocprof_3.db"};
    const char *output = in_folder("merged.json");
    char *report = merge(paths, 1, output, false);
    assert_non_null(strstr(report, "not aligned: it shares no collective with rank 0"));
    free(report);
    struct aorta_trace_list source = {0}, merged = {0};
    check_ok(aorta_trace_open(paths[0], NULL, &source));
    check_ok(aorta_trace_open(output, NULL, &merged));
    assert_int_equal(source.count, 2); /* two GPUs */
    size_t work = 0, flows = 0;
    for (size_t i = 0; i < merged.count; i++) work += merged.items[i]->work_count;
    assert_int_equal(work, 43);
    assert_int_equal(merged.items[0]->work[0].start_ns, source.items[0]->work[0].start_ns);
    json_t *document = load(output), *event;
    size_t i;
    json_array_foreach(json_object_get(document, "traceEvents"), i, event) flows +=
        strcmp(text_of(event, "ph"), "f") == 0;
    assert_int_equal(flows, 43);
    assert_non_null(event_of(document, 0, "X", "ProfilerStep#7", 0));
    assert_non_null(event_of(document, 1, "X", "hipLaunchKernel", 0));
    json_decref(document);
    aorta_trace_list_free(&source);
    aorta_trace_list_free(&merged);
}

/* ROCm runs kernels of one stream side by side: in the file none begins within another on its row and ends behind it.
 */
static void work_that_overlaps_gets_rows(void **state) {
    (void)state;
    static const struct {
        int start_ns, end_ns, row;
    } kernels[] = {{1000, 2000, 0}, {1500, 2500, 1}, {2000, 2600, 0}, {2300, 2400, 2}, {2500, 2700, 1}};
    struct aorta_text text = {0};
    const char *path = in_folder("a_kernel_trace.csv"), *output = in_folder("merged.json");
    aorta_text_puts(&text, "\"Kind\",\"Agent_Id\",\"Queue_Id\",\"Stream_Id\",\"Thread_Id\",\"Kernel_Name\","
                           "\"Correlation_Id\",\"Start_Timestamp\",\"End_Timestamp\"\n");
    for (int i = 0; i < 5; i++)
        aorta_text_printf(&text, "\"KERNEL_DISPATCH\",\"Agent 2\",1,5,9,\"k%d\",%d,%d,%d\n", i, i + 1,
                          kernels[i].start_ns, kernels[i].end_ns);
    check_ok(aorta_file_replace(path, text.data, text.length));
    aorta_text_free(&text);
    free(merge(&path, 1, output, false));
    json_t *document = load(output);
    json_int_t rows[3] = {0};
    for (int i = 0; i < 5; i++) {
        char name[8];
        snprintf(name, sizeof name, "k%d", i);
        json_t *event = event_of(document, 0, "X", name, 0);
        json_int_t row = json_integer_value(json_object_get(event, "tid"));
        assert_int_equal(json_integer_value(json_object_get(json_object_get(event, "args"), "stream")), 5);
        if (!rows[kernels[i].row]) rows[kernels[i].row] = row;
        assert_int_equal(row, rows[kernels[i].row]);
    }
    assert_int_equal(rows[0], 5);
    assert_true(rows[1] != 5 && rows[2] != 5 && rows[1] != rows[2]);
    json_t *named = event_of(document, 0, "M", "thread_name", 2);
    assert_string_equal(text_of(json_object_get(named, "args"), "name"), "stream 5 (3)");
    json_decref(document);
}

/* ---- what is refused ---- */

static void check_refused(const char *const *paths, size_t count, const char *output, enum aorta_code code,
                          const char *part) {
    struct aorta_text report = {0};
    size_t before = files_in_folder();
    check_fails(aorta_trace_merge(paths, count, output, NULL, NULL, false, &report), code, part);
    assert_int_equal(files_in_folder(), before);
    aorta_text_free(&report);
}

static void refused(void **state) {
    (void)state;
    const char *zero = write_rank("r0.json", 0, 0, 0), *again = write_rank("again.json", 0, 0, 1);
    const char *const twice[] = {zero, again}, *const both[] = {zero, in_folder("none.json")};
    check_refused(twice, 2, in_folder("m1.json"), AORTA_USAGE, "are both of rank 0");
    check_refused(both, 2, in_folder("m2.json"), AORTA_USAGE, "none.json");
    check_refused(twice, 1, in_folder("no/such/folder.json"), AORTA_IO, "no/such/folder.json");
}

static void ranks_nobody_knows(void **state) {
    (void)state;
    const char *const paths[] = {write_rank("a.json", -1, 0, 0), write_rank("b.json", 0, 0, 10),
                                 write_rank("c.json", -1, 0, 20), write_rank("x_rank_7.json", -1, 0, 30)};
    char *report = merge(paths, 4, in_folder("merged.json"), false);
    assert_non_null(strstr(report, "x_rank_7.json\n"));
    assert_non_null(strstr(report, "rank 7: "));
    assert_non_null(strstr(report, "b.json\nrank 1:"));
    assert_non_null(strstr(report, "a.json\nrank 2:"));
    free(report);
}

static void cut_off(void **state) {
    (void)state;
    char whole[128], part[128], output[128];
    snprintf(whole, sizeof whole, "%s", write_rank("r0.json", 0, 0, 0));
    snprintf(part, sizeof part, "%s", write_rank("r1.json", 1, 0, 3));
    snprintf(output, sizeof output, "%s", in_folder("merged.json"));
    const char *const paths[] = {whole, part};
    char *bytes;
    size_t length;
    check_ok(aorta_file_read(paths[1], &bytes, &length));
    for (size_t cut = 1500; cut < length - 5; cut += 397) {
        assert_int_equal(truncate(paths[1], (off_t)cut), 0);
        check_refused(paths, 2, in_folder("broken.json"), AORTA_FORMAT, "byte");
        char *report = merge(paths, 2, output, true);
        assert_non_null(strstr(report, "(broken: those before the break)"));
        free(report);
        json_decref(load(output));
        check_ok(aorta_file_replace(paths[1], bytes, length));
    }
    free(bytes);
}

/* Invalid JSON of some writers is corrected, so that every viewer opens the result. */
static void odd_values_become_valid(void **state) {
    (void)state;
    static const char text[] =
        "[{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"tab\tand \\x\", \"pid\": 1, \"tid\": 2, \"ts\": 1, "
        "\"dur\": 1, \"args\": {\"blocks per SM\": inf, \"x\": [NaN, -0.5e3, 01]}}]";
    const char *path = in_folder("odd.json"), *output = in_folder("merged.json");
    check_ok(aorta_file_replace(path, text, strlen(text)));
    free(merge(&path, 1, output, false));
    json_t *document = load(output), *event = event_of(document, 0, "X", "tab\tand \\x", 0);
    assert_non_null(event);
    assert_string_equal(text_of(json_object_get(event, "args"), "blocks per SM"), "inf");
    json_t *list = json_object_get(json_object_get(event, "args"), "x");
    assert_string_equal(json_string_value(json_array_get(list, 0)), "NaN");
    assert_true(json_real_value(json_array_get(list, 1)) == -500);
    assert_string_equal(json_string_value(json_array_get(list, 2)), "01");
    json_decref(document);
    static const char broken[] = "[{\"ph\": \"X\", \"name\": \"a\", \"args\": {\"b\" 5}}]";
    check_ok(aorta_file_replace(path, broken, strlen(broken)));
    check_refused(&path, 1, in_folder("m3.json"), AORTA_FORMAT, "byte 1: an event that is no valid JSON object");
}

/* A name cut within a letter, and bytes of another encoding. */
static void bytes_that_are_no_text_become_valid(void **state) {
    (void)state;
    static const char text[] =
        "[{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k\xC3\xA9 \xE9 \xE2\x82\", \"pid\": 1, "
        "\"tid\": 2, \"ts\": 1, \"dur\": 1, \"args\": {\"\xFF\": \"\xF0\x9F\x9A\x80\"}}]";
    const char *path = in_folder("bytes.json"), *output = in_folder("merged.json");
    check_ok(aorta_file_replace(path, text, strlen(text)));
    free(merge(&path, 1, output, false));
    json_t *document = load(output);
    json_t *event = event_of(document, 0, "X", "k\xC3\xA9 \xEF\xBF\xBD \xEF\xBF\xBD\xEF\xBF\xBD", 0);
    assert_non_null(event);
    assert_string_equal(text_of(json_object_get(event, "args"), "\xEF\xBF\xBD"), "\xF0\x9F\x9A\x80");
    json_decref(document);
}

static void analyze(const char *const *paths, size_t count, struct aorta_trace_list *list,
                    struct aorta_trace_analysis *analysis) {
    check_ok(aorta_trace_open_inputs(paths, count, NULL, list));
    check_ok(aorta_trace_analyze(list, NULL, analysis));
}

/* Launches of both ranks have the same correlations: each belongs to its own process. Only the clocks differ, which
 * merging aligns. */
static void a_merged_file_is_analyzed_as_its_ranks(void **state) {
    (void)state;
    const char *paths[] = {write_rank("m0.json", 0, 1000, 0), write_rank("m1.json", 1, 1000, 70000)};
    const char *output = in_folder("both.json");
    struct aorta_trace_list list[2] = {0};
    struct aorta_trace_analysis analysis[2];
    free(merge(paths, 2, output, false));
    struct aorta_text report = {0};
    check_fails(aorta_trace_merge(&output, 1, in_folder("again.json"), NULL, NULL, false, &report), AORTA_USAGE,
                "is merged already");
    aorta_text_free(&report);
    analyze(paths, 2, &list[0], &analysis[0]);
    analyze(&output, 1, &list[1], &analysis[1]);
    assert_int_equal(analysis[1].rank_count, 2);
    assert_int_equal(analysis[1].alignment.shared_count, analysis[0].alignment.shared_count);
    for (size_t i = 0; i < 2; i++) {
        const struct aorta_trace_rank *separate = &analysis[0].ranks[i], *merged = &analysis[1].ranks[i];
        assert_int_equal(merged->rank, separate->rank);
        assert_int_equal(merged->trace->world, separate->trace->world);
        assert_int_equal(merged->work_count, separate->work_count);
        assert_int_equal(merged->figures.span_ns, separate->figures.span_ns);
        assert_int_equal(merged->figures.busy_ns, separate->figures.busy_ns);
        assert_int_equal(merged->figures.comm_ns, separate->figures.comm_ns);
        assert_int_equal(merged->figures.exposed_comm_ns, separate->figures.exposed_comm_ns);
        assert_memory_equal(&merged->idle, &separate->idle, sizeof merged->idle);
        assert_int_equal(merged->trace->call_count, separate->trace->call_count);
        for (int j = 0; j < AORTA_REASON_COUNT; j++)
            assert_int_equal(merged->trace->warnings[j].count, separate->trace->warnings[j].count);
    }
    for (size_t i = 0; i < 2; i++) {
        aorta_trace_analysis_free(&analysis[i]);
        aorta_trace_list_free(&list[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_come_on_one_clock),
        cmocka_unit_test(nothing_is_lost),
        cmocka_unit_test(flows_and_threads_stay_apart),
        cmocka_unit_test(the_critical_path_has_arrows),
        cmocka_unit_test(times_of_day),
        cmocka_unit_test(packed_is_the_same),
        cmocka_unit_test(reads_back),
        cmocka_unit_test(other_formats),
        cmocka_unit_test(work_that_overlaps_gets_rows),
        cmocka_unit_test(refused),
        cmocka_unit_test(ranks_nobody_knows),
        cmocka_unit_test(cut_off),
        cmocka_unit_test(a_merged_file_is_analyzed_as_its_ranks),
        cmocka_unit_test(odd_values_become_valid),
        cmocka_unit_test(bytes_that_are_no_text_become_valid),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
