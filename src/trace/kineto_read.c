/* Reads the array of events, one by one or in parallel spans. An event's keys and category show its kind. */
#include "trace/kineto_read.h"
#include "base/parallel.h"
#include "trace/builder_internal.h"
#include "trace/reader.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- keys ---- */

static inline unsigned slot_of(const char *name, size_t length) {
    unsigned first = (unsigned char)name[0], last = (unsigned char)name[length - 1];
    return ((unsigned)length * 37 + first * 5 + last * 11) % KEY_SLOTS;
}

/* At most 127 rows, borrowed; names differ and have 1 to 255 bytes. */
static void make_keys(struct keys *keys, const struct key_row *rows, size_t count) {
    memset(keys, 0, sizeof *keys);
    keys->rows = rows;
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(rows[i].name);
        unsigned slot = slot_of(rows[i].name, length);
        while (keys->slots[slot]) slot = (slot + 1) % KEY_SLOTS;
        keys->slots[slot] = (uint8_t)(i + 1);
        keys->lengths[i] = (uint8_t)length;
    }
}

/* -1 if the key is unknown. */
static int find_key(const struct keys *keys, struct aorta_json_value key) {
    if (!key.length) return -1;
    for (unsigned slot = slot_of(key.text, key.length); keys->slots[slot]; slot = (slot + 1) % KEY_SLOTS) {
        unsigned row = keys->slots[slot] - 1u;
        if (keys->lengths[row] == key.length && !memcmp(keys->rows[row].name, key.text, key.length))
            return keys->rows[row].number;
    }
    return -1;
}

/* ---- tables ---- */

static const struct key_row field_rows[] = {
    {"ph", FIELD_PHASE},   {"cat", FIELD_CATEGORY}, {"name", FIELD_NAME},    {"pid", FIELD_PROCESS},
    {"tid", FIELD_THREAD}, {"ts", FIELD_START},     {"dur", FIELD_DURATION}, {"args", FIELD_ARGS},
};

static const struct key_row argument_rows[] = {
#define ARGUMENT(id, name) {name, ARGUMENT_##id},
#define ALSO(id, name) {name, ARGUMENT_##id},
#include "trace/kineto_arguments.def"
#undef ARGUMENT
#undef ALSO
};

static const struct key_row category_rows[] = {
    {"kernel", CATEGORY_KERNEL},
    {"Kernel", CATEGORY_KERNEL},
    {"gpu_memcpy", CATEGORY_COPY},
    {"Memcpy", CATEGORY_COPY},
    {"mtia_ccp_events", CATEGORY_MTIA},
    {"mtia_runtime", CATEGORY_CALL},
    {"gpu_memset", CATEGORY_FILL},
    {"Memset", CATEGORY_FILL},
    {"cuda_runtime", CATEGORY_CALL},
    {"cuda_driver", CATEGORY_CALL},
    {"hip_runtime", CATEGORY_CALL},
    {"hip_driver", CATEGORY_CALL},
    {"Runtime", CATEGORY_CALL},
    {"cpu_op", CATEGORY_OPERATION},
    {"Operator", CATEGORY_OPERATION},
    {"user_annotation", CATEGORY_ANNOTATION},
    {"gpu_user_annotation", CATEGORY_DEVICE_ANNOTATION},
    {"python_function", CATEGORY_FUNCTION},
    {"cuda_sync", CATEGORY_WAIT},
    /* These neither occupy nor delay the device. */
    {"overhead", CATEGORY_IGNORED},
    {"Trace", CATEGORY_IGNORED},
    {"ac2g", CATEGORY_IGNORED},
    {"fwdbwd", CATEGORY_IGNORED},
    {"async_cpu_to_gpu", CATEGORY_IGNORED},
    {"async_gpu", CATEGORY_IGNORED},
    {"forward_backward", CATEGORY_IGNORED},
    {"cpu_instant_event", CATEGORY_IGNORED},
    {"cuda_event", CATEGORY_IGNORED},
    {"cuda_profiler_range", CATEGORY_IGNORED},
    {"collective_comm", CATEGORY_IGNORED},
    {"critical_path", CATEGORY_IGNORED}, /* ours (report/merge.c) */
};

#define COUNT(rows) (sizeof(rows) / sizeof *(rows))

aorta_status aorta_trace_kineto_create(struct aorta_json_stream *stream, struct aorta_trace_builder *builder,
                                       const struct aorta_trace_options *options, struct trace_kineto **kineto) {
    struct trace_kineto *self = calloc(1, sizeof *self);
    if (!self) return AORTA_ERROR(AORTA_MEMORY, "no memory to read %s", aorta_json_stream_name(stream));
    self->stream = stream;
    self->builder = self->whole = builder;
    self->options = options;
    make_keys(&self->fields, field_rows, COUNT(field_rows));
    make_keys(&self->arguments, argument_rows, COUNT(argument_rows));
    make_keys(&self->categories, category_rows, COUNT(category_rows));
    *kineto = self;
    return NULL;
}

static void free_spans(struct kineto_spans *spans);

void aorta_trace_kineto_destroy(struct trace_kineto *kineto) {
    if (!kineto) return;
    for (size_t i = 0; i < kineto->rank_count; i++) aorta_trace_builder_destroy(kineto->ranks[i].builder);
    aorta_text_free(&kineto->scratch);
    free_spans(kineto->spans);
    aorta_arena_free(&kineto->memory);
    free(kineto);
}

/* ---- one event ---- */

/* Fills the values whose keys are known; false if the object is malformed. */
static bool collect(const struct keys *keys, struct aorta_json_value object, struct aorta_json_value *values,
                    const char **where) {
    struct aorta_json_cursor cursor = aorta_json_members(object);
    struct aorta_json_value key, value;
    while (aorta_json_next_member(&cursor, &key, &value)) {
        int number = find_key(keys, key);
        if (number >= 0) values[number] = value;
    }
    *where = cursor.at;
    return aorta_json_well_formed(&cursor);
}

static aorta_status malformed(struct trace_kineto *kineto, struct aorta_json_value value, const char *where,
                              int64_t offset) {
    return AORTA_ERROR(AORTA_FORMAT, "%s is malformed at byte %" PRId64 ", in the event that begins at byte %" PRId64,
                       aorta_json_stream_name(kineto->stream), offset + (where - value.text), offset);
}

static bool is_letter(struct aorta_json_value value, char letter) {
    return value.length == 3 && value.text[0] == '"' && value.text[1] == letter;
}

/* Reads names of threads, of XLA's processes, and of ranks of a merged file. */
static aorta_status read_metadata(struct trace_kineto *kineto, struct kineto_event *event) {
    struct aorta_json_value name = event->field[FIELD_NAME], args = event->field[FIELD_ARGS];
    const bool of_thread = aorta_json_text_is(name, "thread_name"),
               of_process = aorta_json_text_is(name, "process_name");
    if (!of_thread && !of_process) return NULL;
    const char *where;
    if (args.length && !collect(&kineto->arguments, args, event->argument, &where))
        return malformed(kineto, args, where, event->offset);
    const struct aorta_json_value called = event->argument[ARGUMENT_NAME];
    int64_t process = aorta_trace_kineto_number(event->field[FIELD_PROCESS]),
            thread = aorta_trace_kineto_number(event->field[FIELD_THREAD]);
    uint32_t text = aorta_trace_kineto_text(kineto, called);
    if (of_process) {
        AORTA_TRY(aorta_trace_check_foreign(called.text, called.length, aorta_json_stream_name(kineto->stream)));
        aorta_trace_kineto_name_process(kineto, process,
                                        aorta_trace_text(aorta_trace_builder_head(kineto->builder), text),
                                        event->argument[ARGUMENT_RANK]);
        aorta_trace_kineto_xla_process(kineto, process, called);
        return NULL;
    }
    if (text != AORTA_TRACE_NONE && process >= 0 && thread >= 0)
        aorta_trace_builder_thread_name(kineto->builder, aorta_trace_builder_thread(kineto->builder, process, thread),
                                        text);
    aorta_trace_kineto_xla_thread(kineto, process, thread, called);
    return NULL;
}

/* Skips arguments where possible, as files have many operations: views launch nothing. */
static bool wants_arguments(enum kineto_category category, struct aorta_json_value name) {
    if (category == CATEGORY_DEVICE_ANNOTATION || category == CATEGORY_FUNCTION) return false;
    if (category == CATEGORY_ANNOTATION) return aorta_trace_kineto_is_product(name);
    if (category != CATEGORY_OPERATION) return true;
    return name.length > 2 && !aorta_operation_is_view(name.text + 1, name.length - 2);
}

static void bad_event(struct trace_kineto *kineto, enum kineto_category category, int64_t offset) {
    bool device = category <= CATEGORY_FILL;
    aorta_trace_builder_warn(kineto->builder, device ? AORTA_REASON_BAD_EVENT : AORTA_REASON_ODD_VALUE, offset);
}

/* -1: not known. */
static int find_category(const struct trace_kineto *kineto, const struct kineto_event *event) {
    const struct aorta_json_value text = event->field[FIELD_CATEGORY];
    if (!aorta_json_is_string(text)) return CATEGORY_IGNORED;
    return find_key(&kineto->categories, (struct aorta_json_value){text.text + 1, text.length - 2});
}

static enum kineto_category get_category(struct trace_kineto *kineto, const struct kineto_event *event) {
    const int category = find_category(kineto, event);
    if (category >= 0) return (enum kineto_category)category;
    aorta_trace_builder_warn(kineto->builder, AORTA_REASON_UNKNOWN_CATEGORY, event->offset);
    return CATEGORY_IGNORED;
}

/* Fills the arguments, unless the walk over the event already did. */
static aorta_status take_arguments(struct trace_kineto *kineto, struct kineto_event *event) {
    const struct aorta_json_value args = event->field[FIELD_ARGS];
    const char *where;
    if (event->walked) return NULL;
    memset(event->argument, 0, sizeof event->argument);
    if (!args.length || collect(&kineto->arguments, args, event->argument, &where)) return NULL;
    return malformed(kineto, args, where, event->offset + (args.text - event->text));
}

/* Events without a duration: only allocations and the mark at the end of a recording are read. */
static aorta_status read_instant(struct trace_kineto *kineto, struct kineto_event *event) {
    kineto->marks += aorta_json_text_is(event->field[FIELD_NAME], "Record Window End");
    if (!aorta_json_text_is(event->field[FIELD_NAME], "[memory]")) return NULL;
    AORTA_TRY(take_arguments(kineto, event));
    aorta_trace_kineto_add_allocation(kineto, event);
    return NULL;
}

static aorta_status add_xla_event(struct trace_kineto *kineto, struct kineto_event *event) {
    if (!aorta_json_is_string(event->field[FIELD_NAME]) || !aorta_trace_kineto_times(event)) {
        bad_event(kineto, CATEGORY_KERNEL, event->offset);
        return NULL;
    }
    AORTA_TRY(take_arguments(kineto, event));
    aorta_trace_kineto_xla_event(kineto, event);
    return NULL;
}

static aorta_status add_event(struct trace_kineto *kineto, struct kineto_event *event) {
    if (kineto->scratch.length) aorta_text_clear(&kineto->scratch);
    aorta_trace_kineto_choose_rank(kineto, event);
    if (!is_letter(event->field[FIELD_PHASE], 'X')) {
        /* Kineto does not write device work as two events, begin and end: counted, not read. */
        if (is_letter(event->field[FIELD_PHASE], 'B') && get_category(kineto, event) <= CATEGORY_FILL)
            bad_event(kineto, CATEGORY_KERNEL, event->offset);
        if (is_letter(event->field[FIELD_PHASE], 'i')) return read_instant(kineto, event);
        if (!is_letter(event->field[FIELD_PHASE], 'M')) return NULL;
        memset(event->argument, 0, sizeof event->argument);
        return read_metadata(kineto, event);
    }
    const enum kineto_category category = get_category(kineto, event);
    if (category == CATEGORY_IGNORED)
        return kineto->place_count && !event->field[FIELD_CATEGORY].length ? add_xla_event(kineto, event) : NULL;
    const struct aorta_json_value name = event->field[FIELD_NAME];
    if (!aorta_json_is_string(name) || !aorta_trace_kineto_times(event)) {
        bad_event(kineto, category, event->offset);
        return NULL;
    }
    if (wants_arguments(category, name))
        AORTA_TRY(take_arguments(kineto, event));
    else
        memset(event->argument, 0, sizeof event->argument);
    if (kineto->mixed) aorta_trace_kineto_place(kineto, event, category <= CATEGORY_DEVICE_ANNOTATION);
    aorta_trace_kineto_add(kineto, event, category);
    return NULL;
}

/* ---- reading an event before its end is known ---- */

static bool collect_walk(const struct keys *keys, struct aorta_json_walk *walk, struct aorta_json_value *values) {
    struct aorta_json_value key, value;
    while (aorta_json_walk_key(walk, &key)) {
        const int number = find_key(keys, key);
        if (!aorta_json_walk_value(walk, &value)) return false;
        if (number >= 0) values[number] = value;
    }
    return walk->closed;
}

/* Whether the fields read so far show that the arguments are wanted. */
static bool wants_next(const struct trace_kineto *kineto, const struct kineto_event *event) {
    const struct aorta_json_value name = event->field[FIELD_NAME];
    if (!is_letter(event->field[FIELD_PHASE], 'X') || !aorta_json_is_string(name)) return false;
    const int category = find_category(kineto, event);
    return category >= 0 && category != CATEGORY_IGNORED && wants_arguments((enum kineto_category)category, name);
}

static bool walk_arguments(const struct trace_kineto *kineto, struct aorta_json_walk *walk,
                           struct kineto_event *event) {
    struct aorta_json_walk inner;
    const char *begin = walk->at;
    memset(event->argument, 0, sizeof event->argument);
    if (!aorta_json_walk_begin(&inner, begin, walk->end)) return false;
    if (!collect_walk(&kineto->arguments, &inner, event->argument) || !aorta_json_walk_out(walk, &inner)) return false;
    event->field[FIELD_ARGS] = (struct aorta_json_value){begin, (size_t)(inner.at - begin)};
    event->walked = true;
    return true;
}

/* False if a field comes after the arguments that could change whether they were wanted. */
static bool walk_event(const struct trace_kineto *kineto, struct kineto_event *event, struct aorta_json_walk *walk) {
    struct aorta_json_value key, value;
    while (aorta_json_walk_key(walk, &key)) {
        const int number = find_key(&kineto->fields, key);
        if (event->walked && number >= 0 && number != FIELD_START && number != FIELD_DURATION) return false;
        if (number == FIELD_ARGS && wants_next(kineto, event)) {
            if (!walk_arguments(kineto, walk, event)) return false;
            continue;
        }
        if (!aorta_json_walk_value(walk, &value)) return false;
        if (number >= 0) event->field[number] = value;
    }
    return walk->closed;
}

static void begin_event(struct kineto_event *event, const char *text) {
    memset(event->field, 0, sizeof event->field);
    event->walked = false;
    event->text = text;
}

/* Fills the event at `begin`, except its offset, in one pass and returns its end. NULL if it does not end before `end`,
 * or is unusual. */
static const char *walk(const struct trace_kineto *kineto, const char *begin, const char *end,
                        struct kineto_event *event) {
    struct aorta_json_walk walk;
    begin_event(event, begin);
    return aorta_json_walk_begin(&walk, begin, end) && walk_event(kineto, event, &walk) ? walk.at : NULL;
}

/* If `walk` cannot read an event, its end is searched first. */
static aorta_status read_next(struct trace_kineto *kineto) {
    struct kineto_event event;
    struct aorta_json_value value;
    const char *end, *where;
    char letter;
    AORTA_TRY(aorta_json_stream_peek(kineto->stream, &letter));
    const char *begin = aorta_json_stream_ahead(kineto->stream, &end);
    const char *behind = walk(kineto, begin, end, &event);
    if (behind) {
        aorta_json_stream_pass(kineto->stream, behind);
    } else {
        AORTA_TRY(aorta_json_stream_value(kineto->stream, &value));
        begin_event(&event, value.text);
    }
    event.offset = aorta_json_stream_offset(kineto->stream);
    if (!behind && !collect(&kineto->fields, value, event.field, &where))
        return malformed(kineto, value, where, event.offset);
    return add_event(kineto, &event);
}

/* ---- a large file, on all processors ----
 *
 * The part of the array in memory is cut into spans where an event seems to begin. Each span has its own builder; the
 * first uses that of the file. A span counts only if the previous span ends where it begins, so a wrong cut does no
 * harm. Anything unusual ends a span; reading continues there event by event. */

enum { FIRST_AFTER = 16 << 20, SPAN = 1 << 20, MOST = 8 };

struct span {
    const char *begin, *limit, *end; /* `limit`: the next span's beginning; `end`: of the memory */
    int64_t offset;                  /* of `begin` in the file */
    const char *last, *behind;       /* the last event and its end; NULL if none was read */
    bool joins;                      /* the next event begins at `limit` */
};

struct kineto_spans {
    size_t count, cut; /* maximum and current number of spans */
    size_t window;     /* bytes, a power of two */
    struct span spans[MOST];
    struct trace_kineto *readers[MOST]; /* with their builders; the first is `whole` */
    int64_t again;                      /* spans are tried again from this offset */
    struct trace_kineto *whole;
};

static void free_reader(struct trace_kineto *reader) {
    if (reader) aorta_trace_builder_destroy(reader->whole);
    aorta_trace_kineto_destroy(reader);
}

static void free_spans(struct kineto_spans *spans) {
    if (!spans) return;
    for (size_t i = 1; i < spans->count; i++) free_reader(spans->readers[i]);
    free(spans);
}

static struct kineto_spans *make_spans(struct trace_kineto *kineto) {
    struct kineto_spans *spans = calloc(1, sizeof *spans);
    if (!spans) return NULL;
    const size_t width = aorta_parallel_width();
    spans->count = width < MOST ? width : MOST;
    for (spans->window = SPAN; spans->window < spans->count * SPAN; spans->window *= 2) continue;
    spans->readers[0] = spans->whole = kineto;
    spans->again = FIRST_AFTER;
    return spans;
}

/* False if memory is exhausted; then fewer spans are read. */
static bool make_reader(struct kineto_spans *spans, size_t i) {
    struct trace_kineto *whole = spans->whole;
    struct aorta_trace_builder *builder;
    if (spans->readers[i]) return true;
    aorta_status status =
        aorta_trace_builder_create(whole->whole->trace->format, whole->whole->trace->path, whole->options, &builder);
    if (!status) {
        status = aorta_trace_kineto_create(whole->stream, builder, whole->options, &spans->readers[i]);
        if (status) aorta_trace_builder_destroy(builder);
    }
    const bool made = !status;
    aorta_status_free(status);
    return made;
}

static const char *pass_spaces(const char *at, const char *end) {
    while (at < end && aorta_json_space(*at)) at++;
    return at;
}

/* The event after a comma; NULL if none is in memory. */
static const char *next_event(const char *at, const char *end) {
    at = pass_spaces(at, end);
    if (at == end || *at != ',') return NULL;
    at = pass_spaces(at + 1, end);
    return at < end && *at == '{' ? at : NULL;
}

/* Whether an event must be read in order: names and labels of processes, which make ranks, and ends of recordings. */
static bool is_for_one(const struct kineto_event *event) {
    return aorta_json_text_is(event->field[FIELD_NAME], "process_name") ||
           aorta_json_text_is(event->field[FIELD_NAME], "Record Window End") ||
           aorta_trace_kineto_label(event->field[FIELD_PROCESS]);
}

/* The last piece reads ahead in the file. */
static aorta_status read_span(void *user, size_t piece) {
    struct kineto_spans *spans = user;
    if (piece == spans->cut) {
        aorta_json_stream_fill_next(spans->whole->stream);
        return NULL;
    }
    struct trace_kineto *reader = spans->readers[piece];
    struct span *span = &spans->spans[piece];
    struct kineto_event event;
    const char *at = span->begin;
    while (at && at < span->limit) {
        const char *behind = walk(reader, at, span->end, &event);
        if (!behind || is_for_one(&event)) return NULL;
        event.offset = span->offset + (at - span->begin);
        aorta_status status = add_event(reader, &event);
        if (status) { /* the event is read again later */
            aorta_status_free(status);
            return NULL;
        }
        aorta_trace_builder_head(reader->whole)->events++;
        span->last = at;
        span->behind = behind;
        at = next_event(behind, span->end);
    }
    span->joins = at == span->limit;
    return NULL;
}

/* The place where an event seems to begin: an opening bracket after a closing one and a comma. */
static const char *find_begin(const char *from, const char *at, const char *end) {
    while (at < end && (at = memchr(at, '{', (size_t)(end - at)))) {
        const char *before = at - 1;
        while (before > from && aorta_json_space(*before)) before--;
        if (before > from && *before == ',') {
            for (before--; before > from && aorta_json_space(*before);) before--;
            if (*before == '}') return at;
        }
        at++;
    }
    return NULL;
}

/* Cuts the bytes into spans and returns their number. */
static size_t cut(struct kineto_spans *spans, const char *begin, const char *end, int64_t offset) {
    const size_t length = (size_t)(end - begin);
    size_t count = 0;
    for (size_t i = 0; i < spans->count; i++) {
        const char *at = i ? find_begin(begin, begin + length / spans->count * i, end) : begin;
        if (!at || (i && !make_reader(spans, i))) break;
        if (i) spans->spans[i - 1].limit = at;
        spans->spans[count++] = (struct span){.begin = at, .limit = end, .end = end, .offset = offset + (at - begin)};
        if (i) spans->readers[i]->whole->captures_before = aorta_trace_builder_captures(spans->whole->whole);
    }
    return count;
}

/* Appends the spans that join and returns the last one with events. Later readers are freed, as they may have read
 * invalid events. */
static struct span *join(struct kineto_spans *spans, size_t count) {
    size_t last = 0;
    while (last + 1 < count && spans->spans[last].joins &&
           aorta_trace_builder_append(spans->whole->whole, spans->readers[last + 1]->whole))
        last++;
    for (size_t i = last + 1; i < count; i++) {
        free_reader(spans->readers[i]);
        spans->readers[i] = NULL;
    }
    while (last && !spans->spans[last].behind) last--;
    return &spans->spans[last];
}

static void read_spans(struct trace_kineto *kineto) {
    if (!kineto->spans) kineto->spans = make_spans(kineto);
    struct kineto_spans *spans = kineto->spans;
    struct aorta_json_stream *stream = kineto->stream;
    const int64_t offset = aorta_json_stream_bytes(stream);
    if (!spans || spans->count < 2 || offset < spans->again || kineto->rank_count || kineto->mixed ||
        kineto->place_count)
        return;
    const bool filled = aorta_json_stream_fill(stream, spans->window);
    const char *end, *ahead = aorta_json_stream_ahead(stream, &end), *begin = filled ? next_event(ahead, end) : NULL;
    spans->again = offset + (int64_t)spans->window / 2;
    if (!begin) return;
    spans->cut = cut(spans, begin, end, offset + (begin - ahead));
    aorta_status_free(aorta_parallel(spans->cut + 1, read_span, spans));
    const struct span *last = join(spans, spans->cut);
    if (!last->behind) return;
    aorta_json_stream_pass(stream, last->last);
    aorta_json_stream_pass(stream, last->behind);
    if (last->behind - ahead >= (ptrdiff_t)(spans->window / 4)) spans->again = 0;
}

aorta_status aorta_trace_kineto_events(struct trace_kineto *kineto) {
    struct aorta_trace *head = aorta_trace_builder_head(kineto->builder);
    AORTA_TRY(aorta_json_stream_enter(kineto->stream, '['));
    for (;;) {
        bool more;
        AORTA_TRY(aorta_json_stream_more(kineto->stream, &more));
        if (!more) return NULL;
        head->events++;
        AORTA_TRY(read_next(kineto));
        read_spans(kineto);
    }
}
