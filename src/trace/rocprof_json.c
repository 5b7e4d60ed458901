/* rocprofv3 --output-format json: {"rocprofiler-sdk-tool": [{metadata, agents, strings, kernel_symbols, …,
 * buffer_records: {kernel_dispatch: […], memory_copy: […], hip_api: […], …}}]}, one object for each process. */
#include "trace/reader.h"
#include "trace/rocprof.h"

#include <string.h>

struct reading {
    struct aorta_json_stream *stream;
    struct aorta_rocprof *rocprof;
    struct aorta_text scratch; /* of strings with escapes */
    int64_t place;             /* of the current element in its array */
    enum aorta_rocprof_domain domain;
};

/* ---- fields ---- */

#define AT(member) offsetof(struct aorta_rocprof_record, member)
const struct aorta_rocprof_field aorta_rocprof_fields[AORTA_ROCPROF_FIELDS] = {
    {AT(agent), "Agent_Id", "agent_id", "agent_id", "handle", "agent"},
    {AT(source), "Source_Agent_Id", "src_agent_id", "src_agent_id", "handle", "src_agent"},
    {AT(destination), "Destination_Agent_Id", "dst_agent_id", "dst_agent_id", "handle", "dst_agent"},
    {AT(start_ns), "Start_Timestamp", "start", "", "start_timestamp", NULL},
    {AT(end_ns), "End_Timestamp", "end", "", "end_timestamp", NULL},
    {AT(thread), "Thread_Id", "tid", "", "thread_id", "tid"},
    {AT(kind), NULL, NULL, "", "kind", NULL},
    {AT(operation), NULL, NULL, "", "operation", NULL},
    {AT(bytes), NULL, "size", "", "bytes", "copy_bytes"},
    {AT(correlation), "Correlation_Id", NULL, "correlation_id", "internal", "corr_id"},
    {AT(queue), "Queue_Id", "queue_id", "queue_id", "handle", "queue"},
    {AT(stream), "Stream_Id", "stream_id", "stream_id", "handle", NULL},
    {AT(kernel), "Kernel_Id", "kernel_id", "dispatch_info", "kernel_id", "kernel_id"},
    {AT(dispatch), "Dispatch_Id", "dispatch_id", "dispatch_info", "dispatch_id", NULL},
    {AT(group[0]), "Workgroup_Size_X", "workgroup_size_x", "workgroup_size", "x", NULL},
    {AT(group[1]), "Workgroup_Size_Y", "workgroup_size_y", "workgroup_size", "y", NULL},
    {AT(group[2]), "Workgroup_Size_Z", "workgroup_size_z", "workgroup_size", "z", NULL},
    {AT(grid[0]), "Grid_Size_X", "grid_size_x", "grid_size", "x", NULL},
    {AT(grid[1]), "Grid_Size_Y", "grid_size_y", "grid_size", "y", NULL},
    {AT(grid[2]), "Grid_Size_Z", "grid_size_z", "grid_size", "z", NULL},
};
#undef AT

enum { DEEPEST = 4 }; /* dispatch_info, agent_id, handle */

/* False if a value is no number. */
static bool read_fields(struct aorta_json_value value, const char *parent, int depth,
                        struct aorta_rocprof_record *record) {
    struct aorta_json_cursor cursor = aorta_json_members(value);
    struct aorta_json_value key, member;
    bool good = true;
    while (aorta_json_next_member(&cursor, &key, &member)) {
        for (int i = 0; i < AORTA_ROCPROF_FIELDS; i++) {
            const struct aorta_rocprof_field *field = &aorta_rocprof_fields[i];
            bool nested = member.text[0] == '{';
            if (nested && depth < DEEPEST && aorta_json_key_is(key, field->parent)) {
                good = read_fields(member, field->parent, depth + 1, record) && good;
                break;
            }
            if (nested || strcmp(field->parent, parent) != 0 || !aorta_json_key_is(key, field->json)) continue;
            int64_t number;
            bool read = aorta_json_get_int(member, &number);
            if (read) aorta_rocprof_set(record, i, number);
            good = good && read;
            break;
        }
    }
    return good && aorta_json_well_formed(&cursor);
}

static bool find_int(struct aorta_json_value object, const char *name, int64_t *number) {
    return aorta_json_get_int(aorta_json_find(object, name), number);
}

/* Finds a string and resolves its escapes; valid until the next call. */
static bool find_string(struct reading *r, struct aorta_json_value object, const char *name,
                        struct aorta_json_value *string) {
    aorta_text_clear(&r->scratch);
    return aorta_json_get_string(aorta_json_find(object, name), &r->scratch, string);
}

/* ---- the parts ---- */

static void read_agent(struct reading *r, struct aorta_json_value value) {
    struct aorta_rocprof_agent agent = {.device = -1, .multiprocessors = -1};
    struct aorta_json_value name;
    int64_t type;
    if (!find_int(aorta_json_find(value, "id"), "handle", &agent.key)) return;
    agent.gpu = find_int(value, "type", &type) && type == 2; /* 1: a CPU */
    find_int(value, "cu_count", &agent.multiprocessors);
    char copy[128] = "";
    if (find_string(r, value, "product_name", &name) || find_string(r, value, "name", &name)) {
        size_t length = name.length < sizeof copy ? name.length : sizeof copy - 1;
        memcpy(copy, name.text, length);
        agent.name = copy;
    }
    aorta_rocprof_add_agent(r->rocprof, &agent);
}

static void read_symbol(struct reading *r, struct aorta_json_value value) {
    static const char *const names[] = {"formatted_kernel_name", "demangled_kernel_name", "kernel_name"};
    struct aorta_json_value name;
    int64_t kernel;
    if (!find_int(value, "kernel_id", &kernel)) return;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!find_string(r, value, names[i], &name) || name.length == 0) continue;
        aorta_rocprof_add_name(r->rocprof, AORTA_ROCPROF_KERNELS, kernel, 0, name.text, name.length);
        return;
    }
}

/* {"kind": "MEMORY_COPY", "operations": ["MEMORY_COPY_NONE", …]}; its place in the array is the kind's number. */
static void read_operations(struct reading *r, struct aorta_json_value value) {
    struct aorta_json_value element, name;
    struct aorta_json_cursor cursor = aorta_json_elements(aorta_json_find(value, "operations"));
    for (int64_t operation = 0; aorta_json_next_element(&cursor, &element); operation++) {
        aorta_text_clear(&r->scratch);
        if (aorta_json_get_string(element, &r->scratch, &name))
            aorta_rocprof_add_name(r->rocprof, AORTA_ROCPROF_OPERATIONS, r->place, operation, name.text, name.length);
    }
}

static void read_message(struct reading *r, struct aorta_json_value value) {
    struct aorta_json_value message;
    int64_t correlation;
    if (find_int(value, "key", &correlation) && find_string(r, value, "value", &message))
        aorta_rocprof_add_name(r->rocprof, AORTA_ROCPROF_MESSAGES, correlation, 0, message.text, message.length);
}

static void read_record(struct reading *r, struct aorta_json_value value) {
    struct aorta_rocprof_record record = aorta_rocprof_nothing;
    record.domain = r->domain;
    record.offset = aorta_json_stream_offset(r->stream);
    if (!read_fields(value, "", 0, &record)) aorta_rocprof_warn(r->rocprof, AORTA_REASON_ODD_VALUE, record.offset);
    aorta_rocprof_add(r->rocprof, &record);
}

static void read_metadata(struct reading *r, struct aorta_json_value value) {
    int64_t process;
    if (find_int(value, "pid", &process)) aorta_rocprof_process(r->rocprof, process);
}

/* ---- the file ---- */

/* A member of an object: an object of such members, an array whose elements are read one by one, or a whole value. */
struct part {
    const char *key; /* NULL ends the list */
    void (*read)(struct reading *r, struct aorta_json_value value);
    const struct part *members; /* NULL: not an object */
    enum aorta_rocprof_domain domain;
    bool whole;
};

static const struct part buffers[] = {
    {"kernel_dispatch", .read = read_record, .domain = AORTA_ROCPROF_DISPATCH},
    {"memory_copy", .read = read_record, .domain = AORTA_ROCPROF_COPY},
    {"hip_api", .read = read_record, .domain = AORTA_ROCPROF_HIP},
    {"hsa_api", .read = read_record, .domain = AORTA_ROCPROF_HSA},
    {"rccl_api", .read = read_record, .domain = AORTA_ROCPROF_RCCL},
    {"marker_api", .read = read_record, .domain = AORTA_ROCPROF_MARKER},
    {0},
};
static const struct part strings[] = {
    {"marker_api", .read = read_message}, {"buffer_records", .read = read_operations}, {0}};
static const struct part process[] = {
    {"metadata", .read = read_metadata, .whole = true},
    {"agents", .read = read_agent},
    {"strings", .members = strings},
    {"kernel_symbols", .read = read_symbol},
    {"buffer_records", .members = buffers},
    {0},
};

static aorta_status read_elements(struct reading *r, const struct part *part) {
    struct aorta_json_value value;
    bool more;
    r->domain = part->domain;
    AORTA_TRY(aorta_json_stream_enter(r->stream, '['));
    for (r->place = 0;; r->place++) {
        AORTA_TRY(aorta_json_stream_element(r->stream, &value, &more));
        if (!more) return NULL;
        part->read(r, value);
    }
}

static aorta_status read_whole(struct reading *r, const struct part *part) {
    struct aorta_json_value value;
    AORTA_TRY(aorta_json_stream_value(r->stream, &value));
    part->read(r, value);
    return NULL;
}

/* Reads the next object; members that are no part are skipped. */
static aorta_status read_members(struct reading *r, const struct part *parts) {
    struct aorta_json_value key;
    bool more;
    AORTA_TRY(aorta_json_stream_enter(r->stream, '{'));
    for (;;) {
        AORTA_TRY(aorta_json_stream_member(r->stream, &key, &more));
        if (!more) return NULL;
        const struct part *part = parts;
        while (part->key && !aorta_json_key_is(key, part->key)) part++;
        AORTA_TRY(!part->key      ? aorta_json_stream_skip(r->stream)
                  : part->members ? read_members(r, part->members)
                  : part->whole   ? read_whole(r, part)
                                  : read_elements(r, part));
    }
}

static enum aorta_trace_reason reason_of(const struct aorta_json_stream *stream) {
    return aorta_json_stream_truncated(stream) ? AORTA_REASON_TRUNCATED : AORTA_REASON_MALFORMED;
}

/* *broken is set if the file is broken; then the trace has the records before the break. */
static aorta_status read_one(struct aorta_json_stream *stream, const struct aorta_trace_options *options,
                             struct aorta_trace_list *list, bool *broken) {
    struct reading r = {.stream = stream};
    AORTA_TRY(aorta_rocprof_create(AORTA_TRACE_ROCPROF_JSON, aorta_json_stream_name(stream), options, &r.rocprof));
    int64_t before = aorta_json_stream_bytes(stream);
    aorta_status status = read_members(&r, process);
    *broken = aorta_trace_recovers(options, &status);
    if (*broken) aorta_rocprof_warn(r.rocprof, reason_of(stream), aorta_json_stream_bytes(stream));
    if (!status) status = aorta_text_check(&r.scratch);
    aorta_text_free(&r.scratch);
    return aorta_rocprof_finish(r.rocprof, status, aorta_json_stream_bytes(stream) - before, list);
}

aorta_status aorta_trace_read_rocprof(struct aorta_json_stream *stream, const struct aorta_trace_options *options,
                                      struct aorta_trace_list *list) {
    size_t before = list->count;
    bool more = true, broken = false;
    aorta_status status = aorta_json_stream_enter(stream, '[');
    while (!status && !broken) {
        status = aorta_json_stream_more(stream, &more);
        if (!status && !more) return NULL;
        if (!status) status = read_one(stream, options, list, &broken);
    }
    if (list->count > before && aorta_trace_recovers(options, &status))
        list->items[list->count - 1]->warnings[reason_of(stream)].count++;
    return status;
}
