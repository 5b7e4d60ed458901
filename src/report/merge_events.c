/* Copies the events of a Kineto file. Only process, thread, time and ids are rewritten. */
#include "base/array.h"
#include "base/json.h"
#include "base/table.h"
#include "report/merge.h"
#include "trace/execution_trace.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- values ----
 * Copies values of a file as valid JSON, since the scanner looks only at brackets and quotes. Words that JSON does not
 * have (NaN, inf), but some writers use, become texts. Characters that texts must not contain are escaped. Bytes that
 * are no UTF-8 become U+FFFD. White space is dropped. */

enum { DEEPEST = 200 };

struct copier {
    const char *at, *end;
    struct aorta_text *out;
};

static void put(struct copier *c, const char *text, size_t length) {
    aorta_text_append(c->out, text, length);
}

static void skip_space(struct copier *c) {
    while (c->at < c->end && strchr(" \t\r\n", *c->at) && *c->at) c->at++;
}

static bool next_is(struct copier *c, char letter) {
    skip_space(c);
    return c->at < c->end && *c->at == letter;
}

/* Length of the escape after a backslash; 0 if it is no escape. */
static size_t escape_length(const char *at, const char *end) {
    if (at >= end || !*at || !strchr("\"\\/bfnrtu", *at)) return 0;
    if (*at != 'u') return 1;
    for (int i = 1; i <= 4; i++)
        if (at + i >= end || !isxdigit((unsigned char)at[i])) return 0;
    return 5;
}

/* Copies characters of a string up to the first one that must change. */
static void copy_plain(struct copier *c) {
    const char *from = c->at;
    while (c->at < c->end && *c->at != '"' && *c->at != '\\' && (unsigned char)*c->at >= 0x20) {
        size_t length = aorta_utf8_length(c->at, (size_t)(c->end - c->at));
        if (!length) break;
        c->at += length;
    }
    put(c, from, (size_t)(c->at - from));
}

static bool copy_string(struct copier *c) {
    put(c, "\"", 1);
    for (c->at++; c->at < c->end && *c->at != '"';) {
        copy_plain(c);
        if (c->at == c->end || *c->at == '"') break;
        if ((unsigned char)*c->at >= 0x80) {
            aorta_text_puts(c->out, AORTA_JSON_NO_LETTER);
            c->at++;
            continue;
        }
        if ((unsigned char)*c->at < 0x20) {
            aorta_text_printf(c->out, "\\u%04x", (unsigned)(unsigned char)*c->at++);
            continue;
        }
        size_t length = escape_length(c->at + 1, c->end);
        put(c, length ? "\\" : "\\\\", length ? 1 : 2);
        put(c, c->at + 1, length);
        c->at += 1 + length;
    }
    if (c->at >= c->end) return false;
    put(c, "\"", 1);
    c->at++;
    return true;
}

static bool copy_scalar(struct copier *c) {
    const char *from = c->at;
    while (c->at < c->end && (!*c->at || !strchr(" \t\r\n,]}:\"[{", *c->at))) c->at++;
    size_t length = (size_t)(c->at - from);
    if (length == 0) return false;
    if (aorta_value_is_scalar((struct aorta_json_value){from, length})) {
        put(c, from, length);
        return true;
    }
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)from[i] <= 0x20 || from[i] == '\\' || (unsigned char)from[i] >= 0x7f) return false;
    aorta_text_printf(c->out, "\"%.*s\"", (int)length, from);
    return true;
}

static bool copy_value(struct copier *c, int depth);

static bool copy_members(struct copier *c, int depth) {
    bool object = *c->at == '{';
    char close = object ? '}' : ']';
    put(c, c->at++, 1);
    for (bool first = true; !next_is(c, close); first = false) {
        if (!first) {
            if (!next_is(c, ',')) return false;
            c->at++;
            put(c, ", ", 2);
            skip_space(c);
        }
        if (object) {
            if (!next_is(c, '"') || !copy_string(c) || !next_is(c, ':')) return false;
            c->at++;
            put(c, ": ", 2);
        }
        if (!copy_value(c, depth + 1)) return false;
    }
    put(c, c->at++, 1);
    return true;
}

static bool copy_value(struct copier *c, int depth) {
    skip_space(c);
    if (c->at >= c->end || depth > DEEPEST) return false;
    if (*c->at == '"') return copy_string(c);
    return *c->at == '{' || *c->at == '[' ? copy_members(c, depth) : copy_scalar(c);
}

bool aorta_merge_copy(struct aorta_text *out, struct aorta_json_value value) {
    struct copier c = {value.text, value.text + value.length, out};
    if (!copy_value(&c, 0)) return false;
    skip_space(&c);
    return c.at == c.end;
}

static bool copy_key(struct aorta_text *out, struct aorta_json_value key) {
    /* The text of a key is within its quotes. */
    const struct aorta_json_value quoted = {key.text - 1, key.length + 2};
    return aorta_merge_copy(out, quoted);
}

enum { LONGEST_MEMBER = 1 << 20 };
static const int64_t exact_in_double = INT64_C(1) << 53; /* viewers keep numbers as doubles */

/* ---- shared with merge_model.c ---- */

/* The wanted number if it is positive and free, else the next above all used numbers. */
static int64_t choose_number(struct merge_rank *rank, int64_t wanted) {
    enum { FIRST = 1000000 }; /* above those of streams */
    struct merge_threads *threads = &rank->threads;
    const size_t before = threads->taken.count;
    int64_t number = wanted;
    if (threads->highest < FIRST) threads->highest = FIRST;
    if (wanted > 0) (void)aorta_texts_add(&threads->taken, (const char *)&wanted, sizeof wanted);
    if (threads->taken.count == before) {
        number = threads->highest < INT64_MAX ? threads->highest + 1 : (int64_t)threads->count;
        rank->out->failed |= aorta_texts_add(&threads->taken, (const char *)&number, sizeof number) == UINT32_MAX;
    }
    if (number > threads->highest) threads->highest = number;
    return number;
}

int64_t aorta_merge_thread(struct merge_rank *rank, uint64_t key, int64_t wanted, bool *added) {
    struct merge_threads *threads = &rank->threads;
    const uint32_t place = aorta_texts_add(&threads->keys, (const char *)&key, sizeof key);
    *added = place == threads->count;
    if (place < threads->count) return threads->numbers[place];
    const int64_t number = *added ? choose_number(rank, wanted) : 0;
    rank->out->failed |=
        !*added || !aorta_array_append(&threads->numbers, &threads->capacity, &threads->count, &number, sizeof number);
    return rank->out->failed ? 0 : number;
}

void aorta_merge_threads_free(struct merge_threads *threads) {
    aorta_texts_free(&threads->keys);
    aorta_texts_free(&threads->taken);
    free(threads->numbers);
}

/* Begins an event, after a comma unless it is the first. */
static void begin_event(struct merge_rank *rank) {
    aorta_text_puts(rank->out, *rank->first ? "\n" : ",\n");
    *rank->first = false;
}

struct aorta_json *aorta_merge_begin(struct merge_rank *rank, const char *phase, const char *category,
                                     const char *name) {
    struct aorta_json *json = &rank->json;
    aorta_merge_flush(rank->sink);
    begin_event(rank);
    aorta_json_begin(json, rank->out, 0);
    aorta_json_object(json);
    aorta_json_key_string(json, "ph", phase);
    if (category) aorta_json_key_string(json, "cat", category);
    aorta_json_key_string(json, "name", name);
    aorta_json_key_int(json, "pid", rank->source->rank);
    rank->events++;
    return json;
}

void aorta_merge_start(struct merge_rank *rank, int64_t thread, int64_t own_ns) {
    aorta_json_key_int(&rank->json, "tid", thread);
    aorta_text_puts(rank->out, ",\"ts\":");
    aorta_merge_time(rank, own_ns);
}

void aorta_merge_range(struct merge_rank *rank, int64_t thread, int64_t start_ns, int64_t end_ns) {
    uint64_t length = (uint64_t)end_ns - (uint64_t)start_ns; /* end is not before start */
    aorta_merge_start(rank, thread, start_ns);
    aorta_text_printf(rank->out, ",\"dur\":%" PRIu64 ".%03u", length / 1000, (unsigned)(length % 1000));
}

/* `quote`: around the value, or "". */
static void put_metadata(struct merge_rank *rank, const char *name, int64_t thread, const char *key, const char *quote,
                         const char *value) {
    begin_event(rank);
    aorta_text_printf(
        rank->out, "{\"ph\": \"M\", \"name\": \"%s\", \"pid\": %d, \"tid\": %" PRId64 ", \"args\": {\"%s\": %s%s%s}}",
        name, rank->source->rank, thread, key, quote, value, quote);
}

void aorta_merge_process(struct merge_rank *rank) {
    char text[32];
    snprintf(text, sizeof text, "rank %d", rank->source->rank);
    put_metadata(rank, "process_name", 0, "name", "\"", text);
    put_metadata(rank, "process_sort_index", 0, "sort_index", "", text + strlen("rank "));
}

void aorta_merge_thread_name(struct merge_rank *rank, int64_t thread, const char *name) {
    put_metadata(rank, "thread_name", thread, "name", "\"", name);
}

void aorta_merge_time(struct merge_rank *rank, int64_t own_ns) {
    int64_t ns;
    if (__builtin_sub_overflow(own_ns, rank->clock->shift_ns, &ns))
        ns = own_ns; /* a time out of range stays as it is */
    uint64_t size = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;
    aorta_text_printf(rank->out, "%s%" PRIu64 ".%03u", ns < 0 ? "-" : "", size / 1000, (unsigned)(size % 1000));
}

void aorta_merge_id(struct merge_rank *rank, int64_t id) {
    struct aorta_text *out = rank->out;
    int64_t count = (int64_t)rank->count, index = (int64_t)rank->index;
    if (id >= 0 && id < exact_in_double / count)
        aorta_text_printf(out, "%" PRId64, id * count + index);
    else
        aorta_text_printf(out, "\"%d:%" PRId64 "\"", rank->source->rank, id);
}

/* ---- one event ---- */

/* Members that are rewritten. Length 0: the event has none. */
struct event {
    struct aorta_json_value phase, name, category, process, thread, time, id, bound, args;
};

static struct aorta_json_value *rewritten(struct event *event, struct aorta_json_value key) {
    if (aorta_json_key_is(key, "pid")) return &event->process;
    if (aorta_json_key_is(key, "tid")) return &event->thread;
    if (aorta_json_key_is(key, "ts")) return &event->time;
    if (aorta_json_key_is(key, "id")) return &event->id;
    if (aorta_json_key_is(key, "bind_id")) return &event->bound;
    if (aorta_json_key_is(key, "args")) return &event->args;
    return NULL;
}

/* A text's content without quotes, as valid JSON; NULL if it is no text. Valid until the next call. */
static const char *content_of(struct merge_rank *rank, struct aorta_json_value text) {
    struct aorta_text *scratch = &rank->scratch;
    aorta_text_clear(scratch);
    if (!aorta_json_is_string(text) || !aorta_merge_copy(scratch, text) || scratch->failed) return NULL;
    scratch->data[scratch->length - 1] = '\0';
    return scratch->data + 1;
}

static bool put_id(struct merge_rank *rank, const char *key, struct aorta_json_value value) {
    struct aorta_text *out = rank->out;
    int64_t number;
    if (!value.length) return true;
    aorta_text_printf(out, ", \"%s\": ", key);
    if (aorta_json_is_string(value)) {
        const char *id = content_of(rank, value);
        aorta_text_printf(out, "\"%d:%s\"", rank->source->rank, id ? id : "");
        return id != NULL;
    }
    if (!aorta_json_get_int(value, &number)) return aorta_merge_copy(out, value);
    aorta_merge_id(rank, number);
    return true;
}

static uint64_t hash_of(struct aorta_json_value value) {
    return value.length ? aorta_hash_bytes(value.text, value.length) : 0;
}

/* Threads that are named, not numbered ("tid": "PyTorch Profiler"), keep the name: *name_it. */
static int64_t put_thread(struct merge_rank *rank, const struct event *event, bool *name_it) {
    int64_t wanted = 0;
    bool numbered = !aorta_json_is_string(event->thread) && aorta_json_get_int(event->thread, &wanted), added;
    if (!event->thread.length) return 0;
    const uint64_t key = hash_of(event->process) * 31 + hash_of(event->thread);
    const int64_t number = aorta_merge_thread(rank, key, numbered ? wanted : 0, &added);
    *name_it = added && aorta_json_is_string(event->thread) && event->thread.length > 2;
    aorta_text_printf(rank->out, ", \"tid\": %" PRId64, number);
    return number;
}

static bool put_time(struct merge_rank *rank, const struct event *event) {
    struct aorta_text *out = rank->out;
    int64_t ns;
    if (!event->time.length) return true;
    aorta_text_puts(out, ", \"ts\": ");
    if (!aorta_json_get_scaled(event->time, 3, &ns)) {
        rank->odd++;
        return aorta_merge_copy(out, event->time);
    }
    aorta_merge_time(rank, ns);
    return true;
}

static bool is_metadata_of_process(const struct event *event) {
    return aorta_json_text_is(event->phase, "M") && event->name.length > 9 &&
           memcmp(event->name.text, "\"process_", 9) == 0;
}

static bool is_device_work(const struct event *event) {
    static const char *const categories[] = {"kernel", "gpu_memcpy", "gpu_memset",     "Kernel",
                                             "Memcpy", "Memset",     "mtia_ccp_events"};
    for (size_t i = 0; i < sizeof categories / sizeof *categories; i++)
        if (aorta_json_text_is(event->category, categories[i])) return true;
    return false;
}

/* Writes device and stream if only the process and thread, which are rewritten, say them. */
static void put_place(struct merge_rank *rank, const struct event *event, const char *comma) {
    struct aorta_text *out = rank->out;
    const struct {
        const char *name;
        struct aorta_json_value value;
    } places[] = {{"device", event->process}, {"stream", event->thread}};
    int64_t number;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (aorta_json_find(event->args, places[i].name).length || !aorta_json_get_int(places[i].value, &number))
            continue;
        aorta_text_printf(out, "%s\"%s\": %" PRId64, comma, places[i].name, number);
        comma = ", ";
    }
}

static void put_list(struct aorta_text *out, const char *name, struct aorta_json_value list) {
    const size_t mark = out->length;
    if (!list.length) return;
    aorta_text_printf(out, ", \"%s\": ", name);
    if (!aorta_merge_copy(out, list) && !out->failed) out->length = mark;
}

/* Inputs of an operation that only the execution trace of the process has. */
static void put_inputs(struct merge_rank *rank, const struct event *event) {
    struct aorta_operation operation = {.name = event->name.text + 1, .name_length = event->name.length - 2};
    struct aorta_text *out = rank->out;
    int64_t process;
    if (!aorta_json_is_string(event->name) || aorta_json_find(event->args, "Input Dims").length ||
        !aorta_json_get_int(event->process, &process))
        return;
    aorta_execution_traces_find(rank->executed, process, aorta_json_find(event->args, "Record function id"),
                                aorta_json_find(event->args, "External id"), &operation);
    put_list(out, "Input Dims", operation.dims);
    put_list(out, "Input type", operation.types);
    put_list(out, "Concrete Inputs", operation.values);
    put_list(out, "Input Strides", operation.strides);
}

static bool copy_args(struct merge_rank *rank, const struct event *event) {
    struct aorta_text *out = rank->out;
    const bool good = aorta_merge_copy(out, event->args);
    if (!good || out->failed || out->data[out->length - 1] != '}') return good;
    out->length--; /* the bracket that closes them */
    if (is_device_work(event)) put_place(rank, event, out->data[out->length - 1] == '{' ? "" : ", ");
    if (rank->executed && aorta_json_text_is(event->category, "cpu_op")) put_inputs(rank, event);
    aorta_text_puts(out, "}");
    return true;
}

/* Names of streams on several devices: {"name": "stream 7"} becomes {"name": "GPU 1 stream 7"}. */
static bool put_args(struct merge_rank *rank, const struct event *event) {
    struct aorta_text *out = rank->out;
    int64_t device;
    if (!event->args.length) return true;
    aorta_text_puts(out, ", \"args\": ");
    bool names_thread = rank->several_devices && aorta_json_text_is(event->phase, "M") &&
                        aorta_json_text_is(event->name, "thread_name");
    if (!names_thread || aorta_json_is_string(event->process) || !aorta_json_get_int(event->process, &device))
        return copy_args(rank, event);
    struct aorta_json_cursor cursor = aorta_json_members(event->args);
    struct aorta_json_value key, value;
    while (aorta_json_next_member(&cursor, &key, &value)) {
        const char *name = aorta_json_key_is(key, "name") ? content_of(rank, value) : NULL;
        if (!name || strncmp(name, "stream ", 7) != 0) continue;
        aorta_text_printf(out, "{\"name\": \"GPU %" PRId64 " %s\"}", device, name);
        return true;
    }
    return aorta_merge_copy(out, event->args);
}

/* Writes the members that stay as they are, each followed by a comma; *event gets the other members. */
static bool put_members(struct merge_rank *rank, struct aorta_json_value value, struct event *event) {
    struct aorta_text *out = rank->out;
    struct aorta_json_value key, member;
    struct aorta_json_cursor cursor = aorta_json_members(value);
    if (value.text[0] != '{') return false;
    while (aorta_json_next_member(&cursor, &key, &member)) {
        struct aorta_json_value *place = rewritten(event, key);
        if (place) {
            *place = member;
            continue;
        }
        if (aorta_json_key_is(key, "ph")) event->phase = member;
        if (aorta_json_key_is(key, "name")) event->name = member;
        if (aorta_json_key_is(key, "cat")) event->category = member;
        if (!copy_key(out, key)) return false;
        aorta_text_puts(out, ": ");
        if (!aorta_merge_copy(out, member)) return false;
        aorta_text_puts(out, ", ");
    }
    return aorta_json_well_formed(&cursor);
}

/* False if it is no event: nothing was written. */
static bool put_event(struct merge_rank *rank, struct aorta_json_value value) {
    struct aorta_text *out = rank->out;
    const size_t mark = out->length;
    const bool was_first = *rank->first;
    bool name_it = false;
    int64_t thread = 0;
    struct event event = {0};
    begin_event(rank);
    aorta_text_puts(out, "{");
    bool readable = put_members(rank, value, &event);
    const bool wanted = readable && !is_metadata_of_process(&event);
    if (wanted) {
        aorta_text_printf(out, "\"pid\": %d", rank->source->rank);
        thread = put_thread(rank, &event, &name_it);
        readable = put_time(rank, &event) && put_id(rank, "id", event.id) && put_id(rank, "bind_id", event.bound) &&
                   put_args(rank, &event);
        aorta_text_puts(out, "}");
    }
    if (!wanted || !readable) {
        if (!out->failed) out->length = mark;
        *rank->first = was_first;
        return readable;
    }
    rank->events++;
    const char *name = name_it ? content_of(rank, event.thread) : NULL;
    if (name) aorta_merge_thread_name(rank, thread, name);
    return true;
}

/* ---- the file ---- */

static aorta_status put_events(struct merge_rank *rank, struct aorta_json_stream *stream) {
    struct aorta_json_value value;
    bool more;
    AORTA_TRY(aorta_json_stream_enter(stream, '['));
    while (!rank->sink->failure) {
        AORTA_TRY(aorta_json_stream_element(stream, &value, &more));
        if (!more) return NULL;
        if (!put_event(rank, value))
            return AORTA_ERROR(AORTA_FORMAT, "%s: byte %lld: an event that is no valid JSON object",
                               rank->source->trace->path, (long long)aorta_json_stream_offset(stream));
        aorta_merge_flush(rank->sink);
    }
    return NULL;
}

/* Copies facts about the rank. Members that are too long (all stack frames, say) are only named. */
static aorta_status keep_member(struct merge_rank *rank, struct aorta_json_stream *stream,
                                struct aorta_json_value key) {
    struct aorta_json_value value;
    struct aorta_text *members = &rank->members;
    size_t mark = members->length;
    aorta_text_puts(members, ", ");
    bool good = copy_key(members, key);
    aorta_text_puts(members, ": ");
    aorta_status status = aorta_json_stream_value(stream, &value);
    if (!status && value.length > LONGEST_MEMBER)
        aorta_text_printf(members, "\"left out: %zu bytes\"", value.length);
    else if (!status)
        good = aorta_merge_copy(members, value) && good;
    if (!status && !good)
        status = AORTA_ERROR(AORTA_FORMAT, "%s: byte %lld: no valid JSON", rank->source->trace->path,
                             (long long)aorta_json_stream_offset(stream));
    if (!status) return aorta_text_check(members);
    if (!members->failed) members->length = mark;
    return status;
}

static aorta_status put_file(struct merge_rank *rank, struct aorta_json_stream *stream) {
    char letter;
    AORTA_TRY(aorta_json_stream_peek(stream, &letter));
    if (letter == '[') return put_events(rank, stream); /* events alone: Chrome's other layout */
    struct aorta_json_value key;
    bool more;
    AORTA_TRY(aorta_json_stream_enter(stream, '{'));
    while (!rank->sink->failure) {
        AORTA_TRY(aorta_json_stream_member(stream, &key, &more));
        if (!more) return NULL;
        AORTA_TRY(aorta_json_key_is(key, "traceEvents") ? put_events(rank, stream) : keep_member(rank, stream, key));
    }
    return NULL;
}

aorta_status aorta_merge_kineto(struct merge_rank *rank) {
    struct aorta_json_stream *stream;
    const char *path = rank->source->trace->unpacked ? rank->source->trace->unpacked : rank->source->trace->path;
    AORTA_TRY(aorta_json_stream_open(path, &stream));
    aorta_merge_process(rank);
    aorta_status status = put_file(rank, stream);
    if (status && rank->options && rank->options->recover && aorta_status_code(status) == AORTA_FORMAT) {
        aorta_status_free(status);
        status = NULL;
        rank->lost++;
    }
    aorta_json_stream_close(stream);
    return status;
}
