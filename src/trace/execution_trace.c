#include "trace/execution_trace.h"
#include "base/sort.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* One operation that ran. The lists are JSON in the arena. */
struct node {
    int64_t process, number; /* of its file; of its record function */
    uint32_t file;
    const char *name;
    struct aorta_json_value dims, types, values, strides;
};

struct file {
    const char *name;
    int64_t process; /* -1: not known */
    atomic_size_t used;
};

struct aorta_execution_traces {
    struct aorta_arena arena;
    struct node *nodes; /* ascending; of equal numbers the first file's first */
    size_t count, capacity;
    struct file *files;
    size_t file_count, file_capacity;
    struct aorta_text text; /* scratch for a list */
};

bool aorta_execution_trace_is(const char *head, size_t length) {
    static const char schema[] = "\"schema\"", nodes[] = "\"nodes\"";
    return memmem(head, length, schema, sizeof schema - 1) && memmem(head, length, nodes, sizeof nodes - 1);
}

/* ---- the nodes of a file ---- */

/* Members of a node; length 0 if absent. Schemas before 1.0.2 have all members in the node itself. */
struct parts {
    struct aorta_json_value name, number, dims, types, values, strides;
};

static void read_attributes(struct aorta_json_value list, struct parts *parts) {
    struct aorta_json_cursor cursor = aorta_json_elements(list);
    struct aorta_json_value attribute;
    while (aorta_json_next_element(&cursor, &attribute))
        if (aorta_json_text_is(aorta_json_find(attribute, "name"), "rf_id"))
            parts->number = aorta_json_find(attribute, "value");
}

static void read_inputs(struct aorta_json_value inputs, struct parts *parts) {
    parts->dims = aorta_json_find(inputs, "shapes");
    parts->types = aorta_json_find(inputs, "types");
    parts->values = aorta_json_find(inputs, "values");
    parts->strides = aorta_json_find(inputs, "strides");
}

static void read_parts(struct aorta_json_value node, struct parts *parts) {
    struct aorta_json_cursor cursor = aorta_json_members(node);
    struct aorta_json_value key, value;
    *parts = (struct parts){0};
    while (aorta_json_next_member(&cursor, &key, &value)) {
        if (aorta_json_key_is(key, "name")) parts->name = value;
        if (aorta_json_key_is(key, "rf_id")) parts->number = value;
        if (aorta_json_key_is(key, "attrs")) read_attributes(value, parts);
        if (aorta_json_key_is(key, "input_shapes")) parts->dims = value;
        if (aorta_json_key_is(key, "input_types")) parts->types = value;
        if (aorta_json_key_is(key, "inputs") && value.text[0] == '{') read_inputs(value, parts);
        if (aorta_json_key_is(key, "inputs") && value.text[0] == '[') parts->values = value;
    }
}

/* ---- conversion to the profiler's format ---- */

/* "Tensor(float)" is "float", "GenericList[Tensor(float),…]" a "TensorList", "Int" a "Scalar". */
static void put_type(struct aorta_json_value type, struct aorta_text *out) {
    static const struct {
        const char *begin, *is;
    } rows[] = {{"\"GenericList[Tensor(", "TensorList"}, {"\"GenericList[", "ScalarList"}, {"\"None", ""}};
    static const char tensor[] = "\"Tensor(";
    const size_t skip = sizeof tensor - 1;
    if (type.length > skip + 2 && !memcmp(type.text, tensor, skip) && type.text[type.length - 2] == ')') {
        aorta_text_printf(out, "\"%.*s\"", (int)(type.length - skip - 2), type.text + skip);
        return;
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const size_t length = strlen(rows[i].begin);
        if (type.length < length || memcmp(type.text, rows[i].begin, length) != 0) continue;
        aorta_text_printf(out, "\"%s\"", rows[i].is);
        return;
    }
    aorta_text_puts(out, "\"Scalar\"");
}

/* A value that is no tensor becomes a text: "1", "True", "[3, 1]". */
static void put_value(struct aorta_json_value value, struct aorta_json_value type, struct aorta_text *out) {
    const bool tensor =
        type.length > 8 && (!memcmp(type.text, "\"Tensor(", 8) || memmem(type.text, type.length, "[Tensor(", 8));
    if (tensor || aorta_json_text_is(value, "<None>") ||
        (!aorta_json_is_string(value) && memchr(value.text, '"', value.length)))
        aorta_text_puts(out, "\"\"");
    else if (aorta_json_key_is(value, "true") || aorta_json_key_is(value, "false"))
        aorta_text_puts(out, value.text[0] == 't' ? "\"True\"" : "\"False\"");
    else
        aorta_text_printf(out, aorta_json_is_string(value) ? "%.*s" : "\"%.*s\"", (int)value.length, value.text);
}

static struct aorta_json_value keep(struct aorta_execution_traces *traces, const char *text, size_t length) {
    char *copy = aorta_arena_alloc(&traces->arena, length + 1);
    if (copy) memcpy(copy, text, length);
    return (struct aorta_json_value){copy, length};
}

/* The list of types, or of values if `values`. */
static struct aorta_json_value converted(struct aorta_execution_traces *traces, const struct parts *parts,
                                         bool values) {
    struct aorta_json_cursor types = aorta_json_elements(parts->types), at = aorta_json_elements(parts->values);
    struct aorta_json_value type, value;
    struct aorta_text *text = &traces->text;
    aorta_text_clear(text);
    aorta_text_puts(text, "[");
    for (const char *comma = ""; aorta_json_next_element(&types, &type); comma = ", ") {
        if (values && !aorta_json_next_element(&at, &value)) break;
        aorta_text_puts(text, comma);
        if (values)
            put_value(value, type, text);
        else
            put_type(type, text);
    }
    aorta_text_puts(text, "]");
    traces->arena.failed |= text->failed;
    return keep(traces, text->data, text->length);
}

/* Nodes without shapes or number are skipped. */
static void add_node(struct aorta_execution_traces *traces, struct aorta_json_value value) {
    struct parts parts;
    struct node node = {.file = (uint32_t)traces->file_count - 1};
    read_parts(value, &parts);
    if (!aorta_json_is_string(parts.name) || !aorta_json_get_int(parts.number, &node.number) || node.number < 0 ||
        parts.dims.length < 3)
        return;
    node.name = keep(traces, parts.name.text + 1, parts.name.length - 2).text;
    node.dims = keep(traces, parts.dims.text, parts.dims.length);
    if (parts.strides.length) node.strides = keep(traces, parts.strides.text, parts.strides.length);
    node.types = converted(traces, &parts, false);
    node.values = converted(traces, &parts, true);
    aorta_arena_append(&traces->arena, &traces->nodes, &traces->capacity, &traces->count, &node, sizeof node);
}

/* ---- one file ---- */

static aorta_status no_memory(const struct aorta_json_stream *stream) {
    return AORTA_ERROR(AORTA_MEMORY, "no memory for the operations of %s", aorta_json_stream_name(stream));
}

static aorta_status read_nodes(struct aorta_execution_traces *traces, struct aorta_json_stream *stream) {
    struct aorta_json_value value;
    bool more;
    AORTA_TRY(aorta_json_stream_enter(stream, '['));
    for (;;) {
        AORTA_TRY(aorta_json_stream_element(stream, &value, &more));
        if (!more) return NULL;
        add_node(traces, value);
        if (traces->arena.failed) return no_memory(stream);
    }
}

static aorta_status read_file(struct aorta_execution_traces *traces, struct aorta_json_stream *stream) {
    struct file *file = &traces->files[traces->file_count - 1];
    struct aorta_json_value key, value;
    bool more;
    AORTA_TRY(aorta_json_stream_enter(stream, '{'));
    for (;;) {
        AORTA_TRY(aorta_json_stream_member(stream, &key, &more));
        if (!more) return aorta_json_stream_finish(stream);
        if (aorta_json_key_is(key, "nodes")) {
            AORTA_TRY(read_nodes(traces, stream));
        } else if (aorta_json_key_is(key, "pid")) {
            AORTA_TRY(aorta_json_stream_value(stream, &value));
            if (!aorta_json_get_int(value, &file->process)) file->process = -1;
        } else {
            AORTA_TRY(aorta_json_stream_skip(stream));
        }
    }
}

static bool add_file(struct aorta_execution_traces *traces, const char *name) {
    const struct file file = {.name = aorta_arena_strdup(&traces->arena, name), .process = -1};
    return aorta_arena_append(&traces->arena, &traces->files, &traces->file_capacity, &traces->file_count, &file,
                              sizeof file) &&
           file.name;
}

aorta_status aorta_execution_traces_add(struct aorta_execution_traces **traces, struct aorta_json_stream *stream) {
    if (!*traces) *traces = calloc(1, sizeof **traces);
    if (!*traces || !add_file(*traces, aorta_json_stream_name(stream))) return no_memory(stream);
    const size_t first = (*traces)->count;
    AORTA_TRY(read_file(*traces, stream));
    struct node *nodes = (*traces)->nodes; /* the file says at its end which process they are of */
    for (size_t i = first; i < (*traces)->count; i++) nodes[i].process = (*traces)->files[nodes[i].file].process;
    (*traces)->count = aorta_sort_unique(nodes, (*traces)->count, sizeof *nodes, aorta_by_int64_pair);
    return NULL;
}

void aorta_execution_traces_free(struct aorta_execution_traces *traces) {
    aorta_text_free(&traces->text);
    aorta_arena_free(&traces->arena);
    free(traces);
}

void aorta_execution_traces_find(struct aorta_execution_traces *traces, int64_t process,
                                 struct aorta_json_value function, struct aorta_json_value external,
                                 struct aorta_operation *operation) {
    int64_t key[] = {process, 0};
    if (!aorta_json_get_int(function, &key[1])) {
        if (!aorta_json_get_int(external, &key[1])) return;
        key[1]--;
    }
    if (!traces->count || key[1] < 0) return;
    const struct node *node = bsearch(key, traces->nodes, traces->count, sizeof *node, aorta_by_int64_pair);
    if (!node || strlen(node->name) != operation->name_length ||
        memcmp(node->name, operation->name, operation->name_length) != 0)
        return;
    atomic_fetch_add(&traces->files[node->file].used, 1);
    operation->dims = node->dims;
    operation->types = node->types;
    operation->values = node->values;
    operation->strides = node->strides;
}

void aorta_execution_traces_note_unused(const struct aorta_execution_traces *traces, struct aorta_trace *trace) {
    for (size_t i = 0; i < traces->file_count; i++)
        if (!atomic_load(&traces->files[i].used))
            aorta_trace_warn_of_file(trace, AORTA_REASON_NO_PARTNER, traces->files[i].name);
}
