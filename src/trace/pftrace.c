/* Reads the output of rocprofv3 with `--output-format pftrace`: Perfetto's binary trace. Source: rocprofiler-sdk 1.0,
 * source/lib/output/generatePerfetto.cpp, and Perfetto's protos/perfetto/trace (trace_packet, track_event/…,
 * interned_data, clock_snapshot).
 *
 *     Trace         1 packets
 *     TracePacket   6 clock_snapshot, 8 timestamp, 10 sequence, 11 track_event, 12 interned_data, 13 sequence_flags,
 *                   58 clock, 59 defaults, 60 track_descriptor
 *     TrackEvent    3 categories (numbers), 4 annotations, 9 type, 10 name (number), 11 track, 22 category, 23 name
 *     …Descriptor   1 uuid, 2 name, 10 static_name
 *     Annotation    1 name (number), 3 unsigned, 4 signed, 6 text, 10 name, 17 text (number)
 *     interned      2 event names, 1 categories, 3 annotation names, 29 texts: each 1 number, 2 text
 *
 * The packets of a writer form a sequence with tables of its own. Times of its clock 64 are relative to the previous
 * packet. The whole file is in memory. */
#include "base/arena.h"
#include "trace/proto.h"
#include "trace/reader.h"
#include "trace/rocprof.h"
#include "trace/source.h"

#include <stdlib.h>
#include <string.h>

enum { PACKETS = 1 };
enum {
    PACKET_SNAPSHOT = 6,
    PACKET_TIME = 8,
    PACKET_SEQUENCE = 10,
    PACKET_EVENT = 11,
    PACKET_INTERNED = 12,
    PACKET_FLAGS = 13,
    PACKET_CLOCK = 58,
    PACKET_DEFAULTS = 59,
    PACKET_TRACK = 60
};
enum { EVENT_CATEGORY_NUMBER = 3, EVENT_ANNOTATION = 4, EVENT_TYPE = 9, EVENT_NAME_NUMBER, EVENT_TRACK };
enum { EVENT_CATEGORY = 22, EVENT_NAME };
enum { TYPE_BEGIN = 1, TYPE_END };
enum { TRACK_UUID = 1, TRACK_NAME, TRACK_STATIC_NAME = 10 };
enum { ANNOTATION_NAME_NUMBER = 1, ANNOTATION_UNSIGNED = 3, ANNOTATION_SIGNED, ANNOTATION_TEXT = 6 };
enum { ANNOTATION_NAME = 10, ANNOTATION_TEXT_NUMBER = 17 };
enum { INTERNED_CATEGORIES = 1, INTERNED_EVENTS, INTERNED_ANNOTATIONS, INTERNED_TEXTS = 29 };
enum { SNAPSHOT_CLOCKS = 1, CLOCK_ID = 1, CLOCK_TIME, CLOCK_UNIT = 4, DEFAULT_TRACK = 11 };
enum { BOOT_CLOCK = 6, COUNTING_CLOCK = 64, CLEARED = 1 };

/* Texts by number. A later text of the same number replaces the earlier one. */
struct texts {
    struct numbered {
        uint64_t number;
        struct aorta_proto text;
    } * items;
    size_t count, capacity;
};
enum table { CATEGORIES, EVENTS, ANNOTATIONS, TEXTS, TABLES };

struct sequence {
    uint64_t id;
    struct texts tables[TABLES];
    uint64_t clock, track;    /* for packets without them */
    int64_t last_ns, unit_ns; /* of the relative clock */
};

struct track {
    uint64_t uuid;
    struct aorta_proto name;
    struct aorta_rocprof_record *open; /* the innermost last; domain COUNT: not read */
    size_t depth, capacity;
};

struct pftrace {
    const char *path, *bytes;
    size_t length;
    struct aorta_rocprof *rocprof;
    struct sequence *sequences;
    size_t sequence_count, sequence_capacity;
    struct track *tracks;
    size_t track_count, track_capacity, last_track;
    struct aorta_arena arena; /* of all arrays */
};

static aorta_status broken(const struct pftrace *p, const char *at, const char *what) {
    return AORTA_ERROR(AORTA_FORMAT, "%s: byte %lld: %s is broken, or the file ends in the middle", p->path,
                       (long long)(at - p->bytes), what);
}

/* ---- tables ---- */

static void add_text(struct pftrace *p, struct texts *texts, struct aorta_proto entry) {
    struct aorta_proto_field number, text;
    if (!aorta_proto_find(entry, 1, &number) || !aorta_proto_find(entry, 2, &text) || !text.bytes.at) return;
    const struct numbered row = {number.value, text.bytes};
    aorta_arena_append(&p->arena, &texts->items, &texts->capacity, &texts->count, &row, sizeof row);
}

/* Mostly the numbers count from 1 in the order of the entries, which is fast. */
static struct aorta_proto text_of(const struct texts *texts, uint64_t number) {
    if (number && number <= texts->count && texts->items[number - 1].number == number)
        return texts->items[number - 1].text;
    for (size_t i = texts->count; i > 0; i--)
        if (texts->items[i - 1].number == number) return texts->items[i - 1].text;
    return (struct aorta_proto){0};
}

static void read_interned(struct pftrace *p, struct sequence *sequence, struct aorta_proto interned) {
    static const enum table tables[INTERNED_TEXTS + 1] = {[INTERNED_CATEGORIES] = CATEGORIES + 1,
                                                          [INTERNED_EVENTS] = EVENTS + 1,
                                                          [INTERNED_ANNOTATIONS] = ANNOTATIONS + 1,
                                                          [INTERNED_TEXTS] = TEXTS + 1};
    struct aorta_proto_field field;
    while (aorta_proto_next(&interned, &field))
        if (field.number <= INTERNED_TEXTS && tables[field.number] && field.bytes.at)
            add_text(p, &sequence->tables[tables[field.number] - 1], field.bytes);
}

/* NULL (and failed) if memory is exhausted. */
static struct sequence *sequence_of(struct pftrace *p, uint64_t id) {
    for (size_t i = p->sequence_count; i > 0; i--)
        if (p->sequences[i - 1].id == id) return &p->sequences[i - 1];
    const struct sequence row = {.id = id, .clock = BOOT_CLOCK, .unit_ns = 1};
    return aorta_arena_append(&p->arena, &p->sequences, &p->sequence_capacity, &p->sequence_count, &row, sizeof row);
}

static struct track *track_of(struct pftrace *p, uint64_t uuid) {
    if (p->track_count && p->tracks[p->last_track].uuid == uuid) return &p->tracks[p->last_track];
    size_t i = 0;
    while (i < p->track_count && p->tracks[i].uuid != uuid) i++;
    const struct track row = {.uuid = uuid};
    if (i == p->track_count)
        aorta_arena_append(&p->arena, &p->tracks, &p->track_capacity, &p->track_count, &row, sizeof row);
    if (p->arena.failed) return NULL;
    p->last_track = i;
    return &p->tracks[i];
}

static void read_track(struct pftrace *p, struct aorta_proto descriptor) {
    struct aorta_proto_field uuid, name;
    if (!aorta_proto_find(descriptor, TRACK_UUID, &uuid)) return;
    if (!aorta_proto_find(descriptor, TRACK_NAME, &name) && !aorta_proto_find(descriptor, TRACK_STATIC_NAME, &name))
        return;
    struct track *track = track_of(p, uuid.value);
    if (track && name.bytes.at) track->name = name.bytes;
}

/* ---- clocks ---- */

/* Reads the start of the relative clock, in time of the boot clock, and its unit. */
static void read_snapshot(struct sequence *sequence, struct aorta_proto snapshot) {
    struct aorta_proto_field field, id, time, unit;
    while (aorta_proto_next(&snapshot, &field)) {
        if (field.number != SNAPSHOT_CLOCKS || !field.bytes.at || !aorta_proto_find(field.bytes, CLOCK_ID, &id) ||
            !aorta_proto_find(field.bytes, CLOCK_TIME, &time) || time.value > INT64_MAX)
            continue;
        if (id.value == BOOT_CLOCK) sequence->last_ns = (int64_t)time.value;
        if (id.value == COUNTING_CLOCK && aorta_proto_find(field.bytes, CLOCK_UNIT, &unit) && unit.value &&
            unit.value <= 1000000000)
            sequence->unit_ns = (int64_t)unit.value;
    }
}

/* INT64_MIN if the time overflows. */
static int64_t time_of(struct sequence *sequence, uint64_t clock, uint64_t value) {
    int64_t ns;
    if (value > INT64_MAX ||
        __builtin_mul_overflow((int64_t)value, clock >= COUNTING_CLOCK ? sequence->unit_ns : 1, &ns))
        return INT64_MIN;
    if (clock != COUNTING_CLOCK) return ns;
    if (__builtin_add_overflow(ns, sequence->last_ns, &ns)) return INT64_MIN;
    return sequence->last_ns = ns;
}

/* ---- events ---- */

/* An event of the file. */
struct event {
    struct aorta_proto name, category;
    uint64_t type, track;
    int64_t at_ns, offset;
};

/* The first number of "AGENT [4] STREAM [2]" after a word; -1: none. */
static int64_t number_behind(struct aorta_proto text, const char *word) {
    const char *at = text.at ? memmem(text.at, aorta_proto_length(text), word, strlen(word)) : NULL;
    for (at = at ? at + strlen(word) : text.end; at < text.end && (*at == ' ' || *at == '[' || *at == '-'); at++)
        continue;
    return aorta_proto_number_after((struct aorta_proto){at, text.end}, "");
}

/* "GPU-4", "Agent [4]", "4": the number in it. */
static int64_t number_in(struct aorta_proto text) {
    while (text.at < text.end && (*text.at < '0' || *text.at > '9')) text.at++;
    return number_behind(text, "");
}

struct argument {
    struct aorta_proto name, text;
    int64_t number; /* -1: none */
};

static struct argument read_argument(const struct sequence *sequence, struct aorta_proto annotation) {
    struct argument argument = {.number = -1};
    struct aorta_proto_field field;
    while (aorta_proto_next(&annotation, &field)) {
        if (field.number == ANNOTATION_NAME_NUMBER)
            argument.name = text_of(&sequence->tables[ANNOTATIONS], field.value);
        if (field.number == ANNOTATION_NAME && field.bytes.at) argument.name = field.bytes;
        if (field.number == ANNOTATION_UNSIGNED || field.number == ANNOTATION_SIGNED)
            argument.number = field.value <= INT64_MAX ? (int64_t)field.value : -1;
        if (field.number == ANNOTATION_TEXT && field.bytes.at) argument.text = field.bytes;
        if (field.number == ANNOTATION_TEXT_NUMBER) argument.text = text_of(&sequence->tables[TEXTS], field.value);
    }
    return argument;
}

static void take_argument(struct aorta_rocprof_record *record, const struct argument *argument) {
    const int64_t number = aorta_proto_length(argument->text) ? number_in(argument->text) : argument->number;
    for (int i = 0; i < AORTA_ROCPROF_FIELDS; i++)
        if (aorta_rocprof_fields[i].argument && aorta_proto_is(argument->name, aorta_rocprof_fields[i].argument))
            aorta_rocprof_set(record, i, number);
}

/* GPUs have the file's numbers. Agents of copies count as GPUs only if a dispatch ran there. */
static void complete_work(struct pftrace *p, const struct track *track, struct aorta_rocprof_record *record) {
    const int64_t in_track = number_behind(track->name, "AGENT");
    const int64_t agent = in_track < 0 ? number_in(track->name) : in_track;
    record->stream = number_behind(track->name, "STREAM");
    if (record->domain == AORTA_ROCPROF_COPY && record->destination < 0) record->destination = agent;
    if (record->domain == AORTA_ROCPROF_COPY) return;
    if (record->agent < 0) record->agent = agent;
    const struct aorta_rocprof_agent gpu = {
        .key = record->agent, .device = record->agent, .gpu = true, .multiprocessors = -1};
    if (record->agent >= 0) aorta_rocprof_add_agent(p->rocprof, &gpu);
}

static void begin_event(struct pftrace *p, const struct sequence *sequence, const struct event *event,
                        struct aorta_proto message) {
    struct track *track = track_of(p, event->track);
    struct aorta_rocprof_record record = aorta_rocprof_nothing;
    struct aorta_proto_field field;
    if (!track) return;
    record.domain = AORTA_ROCPROF_DOMAIN_COUNT;
    const bool read = aorta_rocprof_domain_of(event->category.at, aorta_proto_length(event->category), &record.domain);
    while (read && aorta_proto_next(&message, &field)) {
        if (field.number != EVENT_ANNOTATION || !field.bytes.at) continue;
        const struct argument argument = read_argument(sequence, field.bytes);
        take_argument(&record, &argument);
    }
    record.start_ns = event->at_ns;
    record.name = event->name.at;
    record.name_length = aorta_proto_length(event->name);
    record.offset = event->offset;
    if (record.domain == AORTA_ROCPROF_DISPATCH || record.domain == AORTA_ROCPROF_COPY)
        complete_work(p, track, &record);
    aorta_arena_append(&p->arena, &track->open, &track->capacity, &track->depth, &record, sizeof record);
}

static void end_event(struct pftrace *p, const struct event *event) {
    struct track *track = track_of(p, event->track);
    if (!track || !track->depth) return; /* its begin is not in the file */
    struct aorta_rocprof_record *begun = &track->open[--track->depth];
    begun->end_ns = event->at_ns;
    if (begun->domain < AORTA_ROCPROF_DOMAIN_COUNT) aorta_rocprof_add(p->rocprof, begun);
}

static void read_event(struct pftrace *p, struct sequence *sequence, struct aorta_proto message, int64_t at_ns) {
    struct event event = {.track = sequence->track, .at_ns = at_ns, .offset = message.at - p->bytes};
    struct aorta_proto rest = message;
    struct aorta_proto_field field;
    while (aorta_proto_next(&rest, &field)) {
        if (field.number == EVENT_TYPE) event.type = field.value;
        if (field.number == EVENT_TRACK) event.track = field.value;
        if (field.number == EVENT_NAME_NUMBER) event.name = text_of(&sequence->tables[EVENTS], field.value);
        if (field.number == EVENT_CATEGORY_NUMBER) event.category = text_of(&sequence->tables[CATEGORIES], field.value);
        if (field.number == EVENT_NAME && field.bytes.at) event.name = field.bytes;
        if (field.number == EVENT_CATEGORY && field.bytes.at) event.category = field.bytes;
    }
    if (event.type == TYPE_BEGIN) begin_event(p, sequence, &event, message);
    if (event.type == TYPE_END) end_event(p, &event);
}

/* ---- packets ---- */

static void read_defaults(struct sequence *sequence, struct aorta_proto defaults) {
    struct aorta_proto_field field, track;
    if (aorta_proto_find(defaults, PACKET_CLOCK, &field)) sequence->clock = field.value;
    if (aorta_proto_find(defaults, PACKET_EVENT, &field) && field.bytes.at &&
        aorta_proto_find(field.bytes, DEFAULT_TRACK, &track))
        sequence->track = track.value;
}

/* A packet's parts come in any order: what it defines is read before its event. */
static aorta_status read_packet(struct pftrace *p, struct aorta_proto packet) {
    struct aorta_proto_field field, parts[PACKET_TRACK + 1] = {{0}};
    while (aorta_proto_next(&packet, &field))
        if (field.number <= PACKET_TRACK) parts[field.number] = field;
    if (packet.at != packet.end) return broken(p, packet.at, "a packet");
    struct sequence *sequence = sequence_of(p, parts[PACKET_SEQUENCE].value);
    if (!sequence) return NULL;
    if (parts[PACKET_FLAGS].value & CLEARED) {
        for (int i = 0; i < TABLES; i++) sequence->tables[i].count = 0;
        sequence->clock = BOOT_CLOCK;
        sequence->track = 0;
    }
    if (parts[PACKET_INTERNED].bytes.at) read_interned(p, sequence, parts[PACKET_INTERNED].bytes);
    if (parts[PACKET_DEFAULTS].bytes.at) read_defaults(sequence, parts[PACKET_DEFAULTS].bytes);
    if (parts[PACKET_SNAPSHOT].bytes.at) read_snapshot(sequence, parts[PACKET_SNAPSHOT].bytes);
    if (parts[PACKET_TRACK].bytes.at) read_track(p, parts[PACKET_TRACK].bytes);
    const uint64_t clock = parts[PACKET_CLOCK].number ? parts[PACKET_CLOCK].value : sequence->clock;
    const int64_t at_ns = parts[PACKET_TIME].number ? time_of(sequence, clock, parts[PACKET_TIME].value) : INT64_MIN;
    const struct aorta_proto event = parts[PACKET_EVENT].bytes;
    if (event.at) read_event(p, sequence, event, at_ns);
    return NULL;
}

/* With `recover` the packets before a break are used. */
static aorta_status read_packets(struct pftrace *p, const struct aorta_trace_options *options) {
    struct aorta_proto file = {p->bytes, p->bytes + p->length};
    struct aorta_proto_field field;
    aorta_status status = NULL;
    while (!status && !p->arena.failed && aorta_proto_next(&file, &field))
        if (field.number == PACKETS && field.bytes.at) status = read_packet(p, field.bytes);
    const bool cut = !status && !p->arena.failed && file.at < file.end;
    if (cut) status = broken(p, file.at, "a packet");
    if (p->arena.failed) return AORTA_ERROR(AORTA_MEMORY, "%s: no memory for its packets", p->path);
    if (aorta_trace_recovers(options, &status))
        aorta_rocprof_warn(p->rocprof, cut ? AORTA_REASON_TRUNCATED : AORTA_REASON_MALFORMED, file.at - p->bytes);
    return status;
}

static aorta_status read_file(const char *path, const struct aorta_trace_options *options,
                              struct aorta_trace_list *list) {
    struct pftrace p = {.path = path};
    char *bytes = NULL;
    AORTA_TRY(aorta_rocprof_create(AORTA_TRACE_PFTRACE, path, options, &p.rocprof));
    aorta_status status = aorta_source_load(path, &bytes, &p.length);
    p.bytes = bytes;
    if (!status) status = read_packets(&p, options);
    status = aorta_rocprof_finish(p.rocprof, status, (int64_t)p.length, list);
    aorta_arena_free(&p.arena);
    free(bytes);
    return status;
}

/* Excludes text, as JSON that begins with a line end looks like the key of a packet. */
static bool is_text(const char *head, size_t length) {
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)head[i] < ' ' && !aorta_json_space(head[i])) return false;
    return true;
}

/* The first packet must have the number of its sequence or user. */
static bool recognises(const char *head, size_t length) {
    enum { PACKET_USER = 3 };
    struct aorta_proto packet;
    if (is_text(head, length) || !aorta_proto_first(head, length, PACKETS, &packet)) return false;
    struct aorta_proto_field field;
    while (aorta_proto_next(&packet, &field))
        if ((field.number == PACKET_SEQUENCE || field.number == PACKET_USER) && !field.bytes.at) return true;
    return false;
}

const struct aorta_trace_reader aorta_trace_reader_pftrace = {recognises, read_file, NULL, false, false, false};
