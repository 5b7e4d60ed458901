/* rocprofv3 --output-format csv: a file per kind of record, all with one prefix: PREFIX_kernel_trace.csv,
 * PREFIX_memory_copy_trace.csv, PREFIX_hip_api_trace.csv, …; PREFIX_agent_info.csv maps agents to GPUs. Given one file,
 * all files of the prefix are read. Columns are found by name, in any order. */
#include "base/arena.h"
#include "trace/csv.h"
#include "trace/reader.h"
#include "trace/rocprof.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* ---- the files of a set ---- */

static const char *const suffixes[] = {
    "_agent_info.csv",    "_kernel_trace.csv",   "_memory_copy_trace.csv", "_hip_api_trace.csv",
    "_hsa_api_trace.csv", "_rccl_api_trace.csv", "_marker_api_trace.csv",
};
enum { SUFFIX_COUNT = sizeof suffixes / sizeof suffixes[0], KERNELS = 1 };

struct set {
    const char *paths[SUFFIX_COUNT]; /* NULL: does not exist */
    const char *name;                /* name of the trace: the kernels' file, or the next one that exists */
    struct aorta_arena memory;       /* of the paths */
};

/* The length of the path without its suffix; 0 if it has none of these suffixes. */
static size_t prefix_length(const char *path, bool *packed) {
    size_t length = strlen(path);
    *packed = length > 3 && strcmp(path + length - 3, ".gz") == 0;
    if (*packed) length -= 3;
    for (size_t i = 0; i < SUFFIX_COUNT; i++) {
        size_t suffix = strlen(suffixes[i]);
        if (length >= suffix && memcmp(path + length - suffix, suffixes[i], suffix) == 0) return length - suffix;
    }
    return 0;
}

static void add_path(struct set *set, size_t index, const char *prefix, size_t length, bool packed) {
    const char *path =
        aorta_arena_printf(&set->memory, "%.*s%s%s", (int)length, prefix, suffixes[index], packed ? ".gz" : "");
    if (path && !set->paths[index] && access(path, R_OK) == 0) set->paths[index] = path;
}

static aorta_status find_set(const char *path, struct set *set) {
    bool packed;
    size_t length = prefix_length(path, &packed);
    set->name = path;
    if (length == 0) set->paths[0] = path;
    for (size_t i = 0; length && i < SUFFIX_COUNT; i++) {
        add_path(set, i, path, length, packed);
        add_path(set, i, path, length, !packed);
    }
    for (size_t i = SUFFIX_COUNT; i-- > KERNELS;)
        if (set->paths[i]) set->name = set->paths[i];
    return aorta_arena_check(&set->memory, "the names of a set of files");
}

/* ---- agents ---- */

/* "Agent 4", "GPU 2" (--agent-index type-relative) or a bare number. Numbers by type get keys of their own. */
enum { GPU_KEYS = 1 << 24, CPU_KEYS = 1 << 25 };

static int64_t agent_key(struct aorta_rocprof *rocprof, const char *text) {
    size_t word = strcspn(text, "0123456789");
    char *end;
    long number = strtol(text + word, &end, 10);
    if (end == text + word || number < 0 || number >= GPU_KEYS) return -1;
    if (strncasecmp(text, "CPU", 3) == 0) return CPU_KEYS + number;
    if (strncasecmp(text, "GPU", 3) != 0) return number;
    const struct aorta_rocprof_agent agent = {
        .key = GPU_KEYS + number, .device = number, .gpu = true, .multiprocessors = -1};
    aorta_rocprof_add_agent(rocprof, &agent);
    return agent.key;
}

static aorta_status read_agents(struct aorta_csv *csv, struct aorta_rocprof *rocprof) {
    int node = aorta_csv_column(csv, "Node_Id"), logical = aorta_csv_column(csv, "Logical_Node_Id");
    int type = aorta_csv_column(csv, "Agent_Type"), units = aorta_csv_column(csv, "Cu_Count");
    int product = aorta_csv_column(csv, "Product_Name"), name = aorta_csv_column(csv, "Name");
    bool more;
    for (;;) {
        AORTA_TRY(aorta_csv_next(csv, &more));
        if (!more) return NULL;
        struct aorta_rocprof_agent agent = {.device = -1, .multiprocessors = -1};
        if (!aorta_csv_int(csv, logical >= 0 ? logical : node, &agent.key)) continue;
        agent.gpu = strcmp(aorta_csv_text(csv, type), "GPU") == 0;
        agent.name = aorta_csv_text(csv, product >= 0 ? product : name);
        aorta_csv_int(csv, units, &agent.multiprocessors);
        aorta_rocprof_add_agent(rocprof, &agent);
    }
}

/* ---- records ---- */

struct columns {
    int fields[AORTA_ROCPROF_FIELDS]; /* -1: the file lacks it */
    int name, domain, process;        /* domain -1: all records are of `fixed` */
    enum aorta_rocprof_domain fixed;
};

/* Finds the columns, which show the kind of records. */
static aorta_status find_columns(const struct aorta_csv *csv, const char *path, struct columns *columns) {
    int kernel = aorta_csv_column(csv, "Kernel_Name"), direction = aorta_csv_column(csv, "Direction");
    int function = aorta_csv_column(csv, "Function");
    columns->domain = aorta_csv_column(csv, "Domain");
    if (aorta_csv_column(csv, "Counter_Name") >= 0)
        return AORTA_ERROR(AORTA_FORMAT,
                           "%s: holds counters, not a timeline; give the file *_kernel_trace.csv "
                           "(rocprofv3 --kernel-trace writes it)",
                           path);
    bool timed = aorta_csv_column(csv, "Start_Timestamp") >= 0 && aorta_csv_column(csv, "End_Timestamp") >= 0;
    bool calls = function >= 0 && columns->domain >= 0;
    if (!timed || (kernel < 0 && direction < 0 && !calls))
        return AORTA_ERROR(AORTA_FORMAT,
                           "%s: no events: a trace of rocprofv3 has the columns Start_Timestamp and End_Timestamp, and "
                           "Kernel_Name, Direction, or Domain and Function; give the file *_kernel_trace.csv",
                           path);
    columns->name = kernel >= 0 ? kernel : direction >= 0 ? direction : function;
    columns->fixed = kernel >= 0 ? AORTA_ROCPROF_DISPATCH : AORTA_ROCPROF_COPY;
    if (kernel >= 0 || direction >= 0) columns->domain = -1;
    columns->process = aorta_csv_column(csv, "Process_Id");
    for (int i = 0; i < AORTA_ROCPROF_FIELDS; i++)
        columns->fields[i] = aorta_rocprof_fields[i].csv ? aorta_csv_column(csv, aorta_rocprof_fields[i].csv) : -1;
    return NULL;
}

static void read_record(struct aorta_csv *csv, const struct columns *columns, struct aorta_rocprof *rocprof) {
    const char *kind = aorta_csv_text(csv, columns->domain);
    struct aorta_rocprof_record record = aorta_rocprof_nothing;
    record.domain = columns->fixed;
    if (columns->domain >= 0 && !aorta_rocprof_domain_of(kind, strlen(kind), &record.domain)) return;
    record.offset = aorta_csv_offset(csv);
    for (int i = 0; i < AORTA_ROCPROF_FIELDS; i++) {
        int64_t number;
        if (i < AORTA_ROCPROF_AGENTS)
            aorta_rocprof_set(&record, i, agent_key(rocprof, aorta_csv_text(csv, columns->fields[i])));
        else if (aorta_csv_int(csv, columns->fields[i], &number))
            aorta_rocprof_set(&record, i, number);
        else if (columns->fields[i] >= 0)
            aorta_rocprof_warn(rocprof, AORTA_REASON_ODD_VALUE, record.offset);
    }
    int64_t process;
    if (aorta_csv_int(csv, columns->process, &process)) aorta_rocprof_process(rocprof, process);
    record.name = aorta_csv_text(csv, columns->name);
    record.name_length = strlen(record.name);
    if (record.name_length == 0) record.name = NULL;
    aorta_rocprof_add(rocprof, &record);
}

static aorta_status read_records(struct aorta_csv *csv, const char *path, struct aorta_rocprof *rocprof) {
    struct columns columns = {0};
    AORTA_TRY(find_columns(csv, path, &columns));
    bool more;
    for (;;) {
        AORTA_TRY(aorta_csv_next(csv, &more));
        if (!more) return NULL;
        read_record(csv, &columns, rocprof);
    }
}

/* With `recover`, the rows before the break are used. */
static aorta_status read_file(const char *path, const struct aorta_trace_options *options,
                              struct aorta_rocprof *rocprof, int64_t *bytes) {
    struct aorta_csv *csv;
    AORTA_TRY(aorta_csv_open(path, &csv));
    bool about_agents = aorta_csv_column(csv, "Node_Id") >= 0 && aorta_csv_column(csv, "Agent_Type") >= 0;
    aorta_status status = about_agents ? read_agents(csv, rocprof) : read_records(csv, path, rocprof);
    *bytes += aorta_csv_bytes(csv);
    bool begun = aorta_csv_offset(csv) > 0; /* else the header is wrong, and no row can be used */
    if (begun && aorta_trace_recovers(options, &status))
        aorta_rocprof_warn(rocprof, aorta_csv_truncated(csv) ? AORTA_REASON_TRUNCATED : AORTA_REASON_MALFORMED,
                           aorta_csv_offset(csv));
    aorta_csv_close(csv);
    return status;
}

static aorta_status read_set(const struct set *set, const struct aorta_trace_options *options,
                             struct aorta_trace_list *list) {
    struct aorta_rocprof *rocprof;
    int64_t bytes = 0;
    AORTA_TRY(aorta_rocprof_create(AORTA_TRACE_ROCPROF_CSV, set->name, options, &rocprof));
    aorta_status status = NULL;
    for (size_t i = 0; i < SUFFIX_COUNT && !status; i++)
        if (set->paths[i]) status = read_file(set->paths[i], options, rocprof, &bytes);
    return aorta_rocprof_finish(rocprof, status, bytes, list);
}

static bool is_read(const struct aorta_trace_list *list, const char *name) {
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i]->format == AORTA_TRACE_ROCPROF_CSV && strcmp(list->items[i]->path, name) == 0) return true;
    return false;
}

static aorta_status read_csv(const char *path, const struct aorta_trace_options *options,
                             struct aorta_trace_list *list) {
    struct set set = {0};
    aorta_status status = find_set(path, &set);
    if (!status && !is_read(list, set.name)) status = read_set(&set, options, list);
    aorta_arena_free(&set.memory);
    return status;
}

static bool has(const char *head, size_t length, const char *name) {
    return memmem(head, length, name, strlen(name)) != NULL;
}

/* By names in the first line of every file that rocprofv3 writes. */
static bool recognises(const char *head, size_t length) {
    static const char *const names[] = {"Start_Timestamp", "Agent_Type", "TotalDurationNs"};
    const char *end = memchr(head, '\n', length);
    size_t line = end ? (size_t)(end - head) : length;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (has(head, line, names[i])) return true;
    return false;
}

/* rocprofv3 writes statistics and counters next to a set, too. */
static bool leads(const char *path, const char *head, size_t length) {
    bool packed;
    if (prefix_length(path, &packed) == 0)
        return has(head, length, "Start_Timestamp") && !has(head, length, "Counter_Name");
    struct set set = {0};
    aorta_status status = find_set(path, &set);
    bool first = !status && strcmp(set.name, path) == 0;
    aorta_status_free(status); /* no memory: the next call reports it */
    aorta_arena_free(&set.memory);
    return first;
}

const struct aorta_trace_reader aorta_trace_reader_csv = {recognises, read_csv, leads, false, false, false};
