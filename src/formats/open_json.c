/* A JSON file says by a key of its outermost object what it is; that may stand anywhere in it. */
#include "formats/kineto_read.h"
#include "formats/open.h"
#include "formats/reader.h"

static const struct row {
    const char *key;
    aorta_trace_json_reader *read; /* NULL: Kineto's */
} rows[] = {
#define READER(symbol, suffix, names)
#define SQLITE(table, suffix, names, read)
#define JSON(key, suffix, names, read) {key, read},
#include "formats/formats.def"
#undef READER
#undef JSON
#undef SQLITE
};

static const char json_formats[] =
#define READER(symbol, suffix, names)
#define SQLITE(table, suffix, names, read)
#define JSON(key, suffix, names, read) " " key " (" names ")"
#include "formats/formats.def"
#undef READER
#undef JSON
#undef SQLITE
    ;

static const struct row *row_of(struct aorta_json_value key) {
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (aorta_json_key_is(key, rows[i].key)) return &rows[i];
    return NULL;
}

struct json_reading {
    struct aorta_json_stream *stream;
    const struct aorta_trace_options *options;
    struct aorta_trace_list *list;
    struct aorta_trace_builder *builder;
    struct trace_kineto *kineto;
    bool events, other; /* Kineto's events, or another reader's part, were met */
    bool nodes;         /* of an execution trace */
};

static aorta_status read_events(struct json_reading *r) {
    char letter;
    AORTA_TRY(aorta_json_stream_peek(r->stream, &letter));
    r->events |= letter == '[';
    return aorta_trace_kineto_events(r->kineto);
}

static aorta_status read_object(struct json_reading *r) {
    struct aorta_json_value key;
    bool more;
    AORTA_TRY(aorta_json_stream_enter(r->stream, '{'));
    for (;;) {
        AORTA_TRY(aorta_json_stream_member(r->stream, &key, &more));
        if (!more) return aorta_json_stream_finish(r->stream);
        const struct row *row = row_of(key);
        r->nodes |= aorta_json_key_is(key, "nodes");
        if (!row) {
            AORTA_TRY(aorta_trace_kineto_member(r->kineto, key));
        } else if (row->read == aorta_trace_read_json) {
            AORTA_TRY(read_events(r));
        } else {
            r->other = true;
            AORTA_TRY(row->read(r->stream, r->options, r->list));
            if (aorta_json_stream_failed(r->stream)) return NULL; /* broken there; what was before it stays */
        }
    }
}

/* Chrome's trace format may also be just the array of events. */
static aorta_status read_json(struct json_reading *r) {
    char letter;
    AORTA_TRY(aorta_json_stream_peek(r->stream, &letter));
    if (letter == '{') return read_object(r);
    AORTA_TRY(read_events(r));
    return aorta_json_stream_finish(r->stream);
}

/* With `recover`, a file that breaks after its events began is what stands before the break. */
static aorta_status recover(struct json_reading *r, aorta_status status) {
    bool wanted = r->options && r->options->recover && r->events;
    if (!wanted || aorta_status_code(status) != AORTA_FORMAT) return status;
    aorta_trace_builder_warn(r->builder,
                             aorta_json_stream_truncated(r->stream) ? AORTA_REASON_TRUNCATED : AORTA_REASON_MALFORMED,
                             aorta_json_stream_offset(r->stream));
    aorta_status_free(status);
    return NULL;
}

/* Times that are nanoseconds since 1970 already say so by their size (from 2001 on). */
static void complete_head(struct aorta_trace *trace) {
    static const int64_t SINCE_1970 = 1000000000000000000;
    if (trace->base_ns == INT64_MIN && trace->work_count && trace->work[0].start_ns > SINCE_1970) trace->base_ns = 0;
}

/* Ranks of a merged file have the file's clock. The whole is one more trace where work is of none of them. */
static aorta_status finish_ranks(struct json_reading *r, const struct aorta_trace *whole) {
    struct aorta_trace_builder *builder;
    aorta_trace_kineto_number_ranks(r->kineto, whole);
    for (size_t i = 0; (builder = aorta_trace_kineto_take_rank(r->kineto, i)); i++) {
        struct aorta_trace *trace;
        AORTA_TRY(aorta_trace_builder_finish(builder, &trace));
        trace->base_ns = whole->base_ns;
        trace->own = whole->own;
        if (trace->step_count == 0 || whole->steps_by == AORTA_STEPS_APART) trace->steps_by = whole->steps_by;
        complete_head(trace);
        AORTA_TRY(aorta_trace_list_add(r->list, trace));
    }
    return NULL;
}

static aorta_status finish_kineto(struct json_reading *r) {
    struct aorta_trace *trace;
    const size_t before = r->list->count;
    aorta_trace_builder_head(r->builder)->bytes_read = aorta_json_stream_bytes(r->stream);
    struct aorta_trace_builder *builder = r->builder;
    r->builder = NULL; /* finish ends it */
    AORTA_TRY(aorta_trace_builder_finish(builder, &trace));
    complete_head(trace);
    aorta_status status = finish_ranks(r, trace);
    if (!status && (r->list->count == before || trace->work_count)) return aorta_trace_list_add(r->list, trace);
    if (!status) r->list->items[before]->bytes_read = trace->bytes_read;
    aorta_trace_free(trace);
    return status;
}

static aorta_status read_stream(struct json_reading *r) {
    const char *name = aorta_json_stream_name(r->stream);
    AORTA_TRY(aorta_trace_builder_create(AORTA_TRACE_KINETO, name, r->options, &r->builder));
    AORTA_TRY(aorta_trace_kineto_create(r->stream, r->builder, r->options, &r->kineto));
    aorta_status status = read_json(r);
    if (status) status = recover(r, status);
    if (status) return status;
    if (r->events) return finish_kineto(r);
    if (r->other) return NULL;
    if (r->nodes)
        return AORTA_ERROR(AORTA_USAGE,
                           "%s is an execution trace (Chakra): operations without times; name the trace of "
                           "torch.profiler of the same process, too",
                           name);
    return AORTA_ERROR(AORTA_USAGE, "%s is JSON but no trace: its outermost object has none of the keys%s", name,
                       json_formats);
}

aorta_status aorta_trace_read_json(struct aorta_json_stream *stream, const struct aorta_trace_options *options,
                                   struct aorta_trace_list *list) {
    struct json_reading r = {.stream = stream, .options = options, .list = list};
    aorta_status status = read_stream(&r);
    aorta_trace_kineto_destroy(r.kineto);
    aorta_trace_builder_destroy(r.builder);
    return status;
}

/* ---- is it one? ---- */

static aorta_status find_key(struct aorta_json_stream *stream, bool *trace) {
    struct aorta_json_value key;
    bool more = true;
    AORTA_TRY(aorta_json_stream_enter(stream, '{'));
    for (;;) {
        AORTA_TRY(aorta_json_stream_member(stream, &key, &more));
        *trace = more && row_of(key);
        if (!more || *trace) return NULL;
        AORTA_TRY(aorta_json_stream_skip(stream));
    }
}

aorta_status aorta_trace_is_json(struct aorta_json_stream *stream, bool *trace) {
    char letter;
    aorta_status status = aorta_json_stream_peek(stream, &letter);
    *trace = !status && letter == '[';
    if (!status && letter == '{') status = find_key(stream, trace);
    if (aorta_status_code(status) != AORTA_FORMAT) return status;
    aorta_status_free(status);
    return NULL;
}
