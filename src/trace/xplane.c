#include "trace/xplane.h"
#include "base/sort.h"
#include "trace/reader.h"
#include "trace/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "… size:2097152 dest:0 …": the number after the word; -1 if the word is not there. */
static int64_t number_of(struct aorta_proto details, const char *word) {
    const char *at = details.at ? memmem(details.at, aorta_proto_length(details), word, strlen(word)) : NULL;
    return at ? strtoll(at + strlen(word), NULL, 10) : -1;
}

/* Reads "grid:40,1,1". False if the word is absent. */
static bool extents_of(struct aorta_proto details, const char *word, int64_t extents[3]) {
    const char *at = details.at ? memmem(details.at, aorta_proto_length(details), word, strlen(word)) : NULL;
    if (!at) return false;
    at += strlen(word);
    for (int i = 0; i < 3; i++) {
        char *end;
        extents[i] = strtoll(at, &end, 10);
        if (end == at || extents[i] < 1 || (i < 2 && *end != ',')) return false;
        at = end + 1;
    }
    return true;
}

/* Whether a copy to another device is part of a collective of XLA, "all-gather-start.3". */
static bool copies_for_collective(struct aorta_trace_builder *builder, const struct aorta_xla_event *event,
                                  int64_t device, struct aorta_trace_collective *facts) {
    char name[64];
    size_t length = 0;
    const int64_t to = number_of(event->details, "dest:");
    const bool peers = aorta_proto_begins(event->name, "MemcpyP2P") ||
                       (aorta_proto_begins(event->name, "MemcpyD2D") && to >= 0 && to != device);
    if (!peers || !event->hlo.at) return false;
    for (const char *at = event->hlo.at; at < event->hlo.end && length < sizeof name - 1 && *at != '.'; at++)
        name[length++] = *at == '-' ? '_' : *at;
    name[length] = '\0';
    *facts = aorta_trace_unknown_collective;
    facts->named = aorta_collective_in(name, &facts->kind);
    facts->name = aorta_trace_builder_text(builder, event->hlo.at, length);
    return facts->named || aorta_proto_begins(event->hlo, "collective-");
}

void aorta_xla_add_work(struct aorta_trace_builder *builder, const struct aorta_xla_event *event, int64_t device,
                        int64_t stream) {
    const bool copy = aorta_proto_begins(event->name, "Memcpy"), fill = aorta_proto_begins(event->name, "Memset");
    int64_t blocks[3], threads[3];
    const struct aorta_trace_work work = {
        .start_ns = event->start_ns,
        .end_ns = event->end_ns,
        .bytes = copy || fill ? number_of(event->details, "size:") : -1,
        .correlation = event->correlation,
        .name = event->text,
        .stream = aorta_trace_builder_stream(builder, device, -1, stream),
        .queue = AORTA_TRACE_NONE,
        .device = (int32_t)device,
        .kind = copy   ? AORTA_TRACE_COPY
                : fill ? AORTA_TRACE_FILL
                       : AORTA_TRACE_KERNEL,
        .graph = event->graph,
    };
    struct aorta_trace_collective facts;
    const bool collective = copy && copies_for_collective(builder, event, device, &facts);
    aorta_trace_builder_work(builder, &work, -1, collective ? &facts : NULL, event->offset);
    if (work.kind == AORTA_TRACE_KERNEL && extents_of(event->details, "grid:", blocks) &&
        extents_of(event->details, "block:", threads))
        aorta_trace_builder_geometry(builder, blocks, threads);
}

void aorta_xla_add_host(struct aorta_trace_builder *builder, const struct aorta_xla_event *event, uint32_t thread) {
    struct aorta_trace_annotation frame = {event->start_ns, event->end_ns, event->text, thread};
    if (event->step >= 0) {
        char text[48];
        const int length = snprintf(text, sizeof text, "ProfilerStep#%lld", (long long)event->step);
        frame.name = aorta_trace_builder_text(builder, text, (size_t)length);
    }
    if (event->correlation) {
        const struct aorta_trace_call call = {event->start_ns, event->end_ns, event->correlation,
                                              frame.name,      thread,        0};
        aorta_trace_builder_call(builder, &call);
    } else if (aorta_proto_begins(event->name, "$")) {
        aorta_trace_builder_function(builder, &frame);
    } else {
        aorta_trace_builder_annotation(builder, &frame);
    }
}

/* XSpace, the own format of XLA's profiler (HOST.xplane.pb): planes (a device, the host), their lines (a stream, a
 * thread) and events, whose names and arguments are numbers of the plane's tables. Source:
 * tsl/profiler/protobuf/xplane.proto, and files of JAX on an H100 and eight MI300X.
 *
 *     XSpace   1 planes, 4 hostnames
 *     XPlane   2 name, 3 lines, 4 event_metadata, 5 stat_metadata (maps: 1 key, 2 value), 6 stats
 *     XLine    1 id, 2 name, 3 timestamp_ns, 4 events
 *     XEvent   1 metadata_id, 2 offset_ps, 3 duration_ps, 4 stats
 *     XStat    1 metadata_id, 2 double, 3 uint64, 4 int64, 5 text, 7 number of a name in stat_metadata
 *     X…Metadata  1 id, 2 name
 *
 * A plane's tables follow its lines, so a plane is read twice, and the whole file is in memory. */

enum { PLANES = 1 };
enum { PLANE_NAME = 2, PLANE_LINES, PLANE_EVENT_NAMES, PLANE_STAT_NAMES, PLANE_STATS };
enum { LINE_ID = 1, LINE_NAME, LINE_START, LINE_EVENTS };
enum { EVENT_NAME = 1, EVENT_OFFSET, EVENT_DURATION, EVENT_STATS };
enum { STAT_NAME = 1, STAT_DOUBLE, STAT_UNSIGNED, STAT_SIGNED, STAT_TEXT, STAT_BYTES, STAT_REFERENCE };
enum { KEY = 1, VALUE = 2, METADATA_NAME = 2 };

/* A name in a plane's table. `number`: its text in the builder, set at first use. */
struct name {
    uint64_t id;
    struct aorta_proto text;
    uint32_t number;
};
struct names {
    struct name *items; /* ascending id */
    size_t count, capacity;
};

/* The arguments that are read. */
enum stat { STEP, DETAILS, GRAPH_NODE, CORRELATION, HLO, STATS };
static const struct {
    const char *name;
    enum stat stat;
} stat_names[] = {
    {"correlation_id", CORRELATION}, {"cuda_graph_node_id", GRAPH_NODE}, {"kernel_details", DETAILS}, {"hlo_op", HLO},
    {"memcpy_details", DETAILS},     {"memset_details", DETAILS},        {"step_num", STEP},
};
enum { STAT_NAMES = sizeof stat_names / sizeof *stat_names };

struct xplane {
    const char *path, *bytes;
    size_t length;
    struct aorta_trace_builder *builder;
    struct names events, stats;  /* of the current plane */
    uint64_t wanted[STAT_NAMES]; /* ids of stat_names in the plane; 0: absent */
    int64_t device;              /* -1: the host */
    struct aorta_arena arena;    /* of the names */
};

static aorta_status broken(const struct xplane *x, const char *at, const char *what) {
    return AORTA_ERROR(AORTA_FORMAT, "%s: byte %lld: %s is broken, or the file ends in the middle", x->path,
                       (long long)(at - x->bytes), what);
}

/* Fails unless the message was read to its end. */
static aorta_status check_end(const struct xplane *x, struct aorta_proto message, const char *what) {
    return message.at == message.end ? NULL : broken(x, message.at, what);
}

/* ---- names ---- */

static void add_name(struct xplane *x, struct names *names, struct aorta_proto entry) {
    struct aorta_proto_field key, value, text;
    if (!aorta_proto_find(entry, VALUE, &value) || !value.bytes.at) return;
    aorta_proto_find(entry, KEY, &key);
    aorta_proto_find(value.bytes, METADATA_NAME, &text);
    const struct name name = {key.value, text.bytes, AORTA_TRACE_NONE};
    aorta_arena_append(&x->arena, &names->items, &names->capacity, &names->count, &name, sizeof name);
}

static struct name *find_name(const struct names *names, uint64_t id) {
    const struct name key = {.id = id};
    return names->count ? bsearch(&key, names->items, names->count, sizeof key, aorta_by_uint64) : NULL;
}

static aorta_status read_names(struct xplane *x, struct aorta_proto plane) {
    struct aorta_proto_field field;
    x->events.count = x->stats.count = 0;
    while (aorta_proto_next(&plane, &field)) {
        if (field.number == PLANE_EVENT_NAMES && field.bytes.at) add_name(x, &x->events, field.bytes);
        if (field.number == PLANE_STAT_NAMES && field.bytes.at) add_name(x, &x->stats, field.bytes);
    }
    AORTA_TRY(check_end(x, plane, "a plane"));
    if (x->arena.failed) return AORTA_ERROR(AORTA_MEMORY, "no memory to read %s", x->path);
    if (x->events.count) qsort(x->events.items, x->events.count, sizeof *x->events.items, aorta_by_uint64);
    if (x->stats.count) qsort(x->stats.items, x->stats.count, sizeof *x->stats.items, aorta_by_uint64);
    memset(x->wanted, 0, sizeof x->wanted);
    for (size_t i = 0; i < x->stats.count; i++)
        for (size_t k = 0; k < STAT_NAMES; k++)
            if (aorta_proto_is(x->stats.items[i].text, stat_names[k].name)) x->wanted[k] = x->stats.items[i].id;
    return NULL;
}

/* A stat's text: stored in it, or the name that it refers to. */
static struct aorta_proto stat_text(const struct xplane *x, struct aorta_proto_field value) {
    if (value.number == STAT_TEXT && value.bytes.at) return value.bytes;
    const struct name *name = value.number == STAT_REFERENCE ? find_name(&x->stats, value.value) : NULL;
    return name ? name->text : (struct aorta_proto){0};
}

/* A stat's number, also if written as text; -1 if absent or too large. */
static int64_t stat_number(const struct xplane *x, struct aorta_proto_field value) {
    const bool number = value.number == STAT_UNSIGNED || value.number == STAT_SIGNED;
    if (number && !value.bytes.at) return value.value <= INT64_MAX ? (int64_t)value.value : -1;
    return aorta_proto_number_after(stat_text(x, value), "");
}

/* ---- events ---- */

/* Stores one stat of an event in `values`, by enum stat. Absent stats stay 0. */
static aorta_status read_stats(struct xplane *x, struct aorta_proto stat, struct aorta_proto_field values[STATS]) {
    struct aorta_proto_field field, value = {0};
    uint64_t id = 0;
    while (aorta_proto_next(&stat, &field))
        if (field.number == STAT_NAME)
            id = field.value;
        else
            value = field;
    for (size_t k = 0; id && k < STAT_NAMES; k++)
        if (x->wanted[k] == id) values[stat_names[k].stat] = value;
    return check_end(x, stat, "an argument of an event");
}

struct raw_event {
    uint64_t name, offset_ps, duration_ps;
    bool lasts; /* else an instant */
    struct aorta_proto_field stats[STATS];
};

static aorta_status read_event(struct xplane *x, struct aorta_proto event, struct raw_event *raw) {
    struct aorta_proto_field field;
    *raw = (struct raw_event){0};
    while (aorta_proto_next(&event, &field)) {
        if (field.number == EVENT_NAME) raw->name = field.value;
        if (field.number == EVENT_OFFSET) raw->offset_ps = field.value;
        if (field.number == EVENT_DURATION) {
            raw->duration_ps = field.value;
            raw->lasts = true;
        }
        if (field.number == EVENT_STATS && field.bytes.at) AORTA_TRY(read_stats(x, field.bytes, raw->stats));
    }
    return check_end(x, event, "an event");
}

/* A line: the stream of a device or the thread of the host. */
struct line {
    int64_t start_ns, stream;
    uint32_t thread;
};

/* Times in ns, without picoseconds as in XLA's JSON. False if out of range. */
static bool times_of(const struct line *line, const struct raw_event *raw, struct aorta_xla_event *event) {
    enum { PS = 1000 };
    if (!aorta_trace_times_fit(line->start_ns, line->start_ns)) return false;
    if (raw->offset_ps > INT64_MAX / 4 || raw->duration_ps > INT64_MAX / 4) return false;
    event->start_ns = line->start_ns + (int64_t)(raw->offset_ps / PS);
    event->end_ns = event->start_ns + (int64_t)(raw->duration_ps / PS);
    return aorta_trace_times_fit(event->start_ns, event->end_ns);
}

static void add_event(struct xplane *x, const struct line *line, const struct raw_event *raw, int64_t offset) {
    struct aorta_xla_event event = {.offset = offset};
    struct name *name = find_name(&x->events, raw->name);
    const bool work = x->device >= 0;
    const int64_t correlation = stat_number(x, raw->stats[CORRELATION]);
    aorta_trace_builder_head(x->builder)->events++;
    if (!raw->lasts && !work) return;
    if (!name || !name->text.at || !times_of(line, raw, &event)) {
        aorta_trace_builder_warn(x->builder, work ? AORTA_REASON_BAD_EVENT : AORTA_REASON_ODD_VALUE, offset);
        return;
    }
    if (name->number == AORTA_TRACE_NONE)
        name->number = aorta_trace_builder_text(x->builder, name->text.at, aorta_proto_length(name->text));
    event.name = name->text;
    event.text = name->number;
    event.correlation = correlation > 0 ? (uint64_t)correlation : 0;
    event.graph = raw->stats[GRAPH_NODE].value > 0;
    event.details = stat_text(x, raw->stats[DETAILS]);
    event.hlo = stat_text(x, raw->stats[HLO]);
    event.step = stat_number(x, raw->stats[STEP]);
    if (work)
        aorta_xla_add_work(x->builder, &event, x->device, line->stream);
    else
        aorta_xla_add_host(x->builder, &event, line->thread);
}

/* ---- planes ---- */

/* Adds a step of TensorFlow on a device, from the start of its first kernel to the end of its last. Names "0", "1" are
 * step numbers; a step with another name gets the next number. */
static void add_step(struct xplane *x, const struct line *line, const struct raw_event *raw, int64_t *next) {
    struct aorta_xla_event event = {0};
    const struct name *name = find_name(&x->events, raw->name);
    const int64_t number = name ? aorta_proto_number_after(name->text, "") : -1;
    if (!raw->lasts || !times_of(line, raw, &event)) return;
    if (number >= 0) *next = number;
    aorta_trace_builder_device_step(x->builder, (int32_t)x->device, (*next)++, event.start_ns, event.end_ns);
}

static aorta_status read_events(struct xplane *x, struct aorta_proto message, const struct line *line, bool steps) {
    struct aorta_proto_field field;
    int64_t next = 0;
    while (aorta_proto_next(&message, &field)) {
        struct raw_event raw;
        if (field.number != LINE_EVENTS || !field.bytes.at) continue;
        AORTA_TRY(read_event(x, field.bytes, &raw));
        if (steps)
            add_step(x, line, &raw, &next);
        else
            add_event(x, line, &raw, field.bytes.at - x->bytes);
    }
    return check_end(x, message, "a line of a plane");
}

/* Reads a line. A device's work is on the lines of streams; its further lines, except "Steps", repeat the work by
 * module and operation. */
static aorta_status read_line(struct xplane *x, struct aorta_proto message) {
    struct aorta_proto_field id, name, start;
    aorta_proto_find(message, LINE_NAME, &name);
    aorta_proto_find(message, LINE_ID, &id);
    aorta_proto_find(message, LINE_START, &start);
    const struct aorta_proto text = name.bytes;
    struct line line = {.start_ns = (int64_t)start.value,
                        .stream = aorta_proto_number_after(text, "Stream #"),
                        .thread = AORTA_TRACE_NONE};
    const bool steps = x->device >= 0 && aorta_proto_is(text, "Steps");
    if (x->device >= 0 && line.stream < 0 && !steps) return NULL;
    if (x->device < 0) {
        line.thread = aorta_trace_builder_thread(x->builder, -1, (int64_t)id.value);
        if (aorta_proto_length(text))
            aorta_trace_builder_thread_name(x->builder, line.thread,
                                            aorta_trace_builder_text(x->builder, text.at, aorta_proto_length(text)));
    }
    return read_events(x, message, &line, steps);
}

/* An argument of the plane itself; number 0 if it has none of this name. */
static struct aorta_proto_field plane_stat(const struct xplane *x, struct aorta_proto plane, const char *name) {
    struct aorta_proto_field field, id;
    while (aorta_proto_next(&plane, &field)) {
        if (field.number != PLANE_STATS || !field.bytes.at || !aorta_proto_find(field.bytes, STAT_NAME, &id)) continue;
        const struct name *found = find_name(&x->stats, id.value);
        struct aorta_proto stat = field.bytes;
        if (!found || !aorta_proto_is(found->text, name)) continue;
        while (aorta_proto_next(&stat, &field))
            if (field.number != STAT_NAME) return field;
    }
    return (struct aorta_proto_field){0};
}

static int32_t small_stat(const struct xplane *x, struct aorta_proto plane, const char *name) {
    const int64_t number = stat_number(x, plane_stat(x, plane, name));
    return number >= 0 && number <= INT32_MAX ? (int32_t)number : -1;
}

static void add_device(struct xplane *x, struct aorta_proto plane) {
    const struct aorta_proto name = stat_text(x, plane_stat(x, plane, "gpu_device_name"));
    const struct aorta_trace_device device = {
        .id = x->device,
        .name = aorta_proto_length(name) ? aorta_trace_builder_text(x->builder, name.at, aorta_proto_length(name))
                                         : AORTA_TRACE_NONE,
        .memory_bytes = stat_number(x, plane_stat(x, plane, "memory_size")),
        .multiprocessors = small_stat(x, plane, "core_count"),
        .major = small_stat(x, plane, "compute_cap_major"),
        .minor = small_stat(x, plane, "compute_cap_minor"),
    };
    aorta_trace_builder_device(x->builder, &device);
}

/* Times of lines are relative to the start of the profile, whose time of day is in this plane. */
static void set_base(struct xplane *x, struct aorta_proto plane) {
    const int64_t start_ns = stat_number(x, plane_stat(x, plane, "profile_start_time"));
    if (start_ns > 0 && aorta_trace_times_fit(start_ns, start_ns))
        aorta_trace_builder_head(x->builder)->base_ns = start_ns;
}

static aorta_status read_plane(struct xplane *x, struct aorta_proto plane) {
    struct aorta_proto_field field;
    if (!aorta_proto_find(plane, PLANE_NAME, &field) || !field.bytes.at) return NULL;
    const struct aorta_proto name = field.bytes;
    const bool base = aorta_proto_is(name, "Task Environment"), host = aorta_proto_is(name, "/host:CPU");
    x->device = aorta_proto_number_after(name, "/device:GPU:");
    if (x->device < 0 && !host && !base) return NULL;
    AORTA_TRY(read_names(x, plane));
    if (base) set_base(x, plane);
    if (x->device >= 0) add_device(x, plane);
    while (!base && aorta_proto_next(&plane, &field))
        if (field.number == PLANE_LINES && field.bytes.at) AORTA_TRY(read_line(x, field.bytes));
    return NULL;
}

/* With `recover`, all events before a break are used. */
static aorta_status read_space(struct xplane *x, const struct aorta_trace_options *options) {
    struct aorta_proto space = {x->bytes, x->bytes + x->length};
    struct aorta_proto_field field;
    aorta_status status = NULL;
    while (!status && aorta_proto_next(&space, &field))
        if (field.number == PLANES && field.bytes.at) status = read_plane(x, field.bytes);
    const bool cut = !status && space.at < space.end;
    if (cut) status = broken(x, space.at, "a plane");
    if (aorta_trace_recovers(options, &status))
        aorta_trace_builder_warn(x->builder, cut ? AORTA_REASON_TRUNCATED : AORTA_REASON_MALFORMED,
                                 space.at - x->bytes);
    return status;
}

/* ---- the file ---- */

static aorta_status read_file(const char *path, const struct aorta_trace_options *options,
                              struct aorta_trace_list *list) {
    struct xplane x = {.path = path};
    char *bytes = NULL;
    AORTA_TRY(aorta_trace_builder_create(AORTA_TRACE_XPLANE, path, options, &x.builder));
    aorta_status status = aorta_source_load(path, &bytes, &x.length);
    x.bytes = bytes;
    aorta_trace_builder_head(x.builder)->bytes_read = (int64_t)x.length;
    if (!status) status = read_space(&x, options);
    if (status)
        aorta_trace_builder_destroy(x.builder);
    else
        status = aorta_trace_builder_finish_into(x.builder, list);
    free(bytes);
    aorta_arena_free(&x.arena);
    return status;
}

/* By the name of the first plane, which follows its id. */
static bool recognises(const char *head, size_t length) {
    static const char *const begins[] = {"/host:", "/device:", "Task Environment"};
    struct aorta_proto plane;
    if (!aorta_proto_first(head, length, PLANES, &plane)) return false;
    struct aorta_proto_field field = {0};
    while (field.number < PLANE_NAME && aorta_proto_next(&plane, &field))
        if (field.number == PLANE_NAME && field.bytes.at)
            for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
                if (aorta_proto_begins(field.bytes, begins[i])) return true;
    return false;
}

/* Yields to the JSON of the same run, which JAX writes into the same folder. */
const struct aorta_trace_reader aorta_trace_reader_xplane = {recognises, read_file, NULL, false, true, false};
