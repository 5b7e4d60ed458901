/* Reads events of a large file on all processors. The part of the array that is in memory is cut into spans where an
 * event seems to begin. Each span has its own builder, the first that of the file. A span counts if the span before
 * it ends where it begins, so no cut is wrong. Anything odd ends a span, which is read again from there, event by
 * event. */
#include "base/parallel.h"
#include "trace/kineto_read_internal.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_AFTER = 16 << 20, SPAN = 1 << 20, MOST = 8 };

struct span {
    const char *begin, *limit, *end; /* the next span's beginning; that of what is in memory */
    int64_t offset;                  /* of `begin` in the file */
    const char *last, *behind;       /* the last event that was read, and what follows it; NULL: none was */
    bool joins;                      /* the next event is that at `limit` */
};

struct kineto_spans {
    size_t count, cut; /* at most; now */
    size_t window;     /* bytes, a power of two */
    struct span spans[MOST];
    struct trace_kineto *readers[MOST]; /* of all but the first, with their builders */
    int64_t again;                      /* not before this place in the file */
    struct trace_kineto *whole;
};

static void free_reader(struct trace_kineto *reader) {
    if (reader) aorta_trace_builder_destroy(reader->whole);
    aorta_trace_kineto_destroy(reader);
}

void aorta_trace_kineto_spans_free(struct kineto_spans *spans) {
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

/* False: memory is exhausted, and what is to be read is read without it. */
static bool make_reader(struct kineto_spans *spans, size_t i) {
    struct trace_kineto *whole = spans->whole;
    struct aorta_trace_builder *builder;
    if (spans->readers[i]) return true;
    aorta_status status = aorta_trace_builder_part(whole->whole, whole->options, &builder);
    if (!status) {
        status = aorta_trace_kineto_create(whole->stream, builder, whole->options, &spans->readers[i]);
        if (status) aorta_trace_builder_destroy(builder);
    }
    const bool made = !status;
    aorta_status_free(status);
    return made;
}

/* ---- one span ---- */

static const char *pass_spaces(const char *at, const char *end) {
    while (at < end && aorta_json_space(*at)) at++;
    return at;
}

/* The event behind a comma; NULL: none is in memory. */
static const char *next_event(const char *at, const char *end) {
    at = pass_spaces(at, end);
    if (at == end || *at != ',') return NULL;
    at = pass_spaces(at + 1, end);
    return at < end && *at == '{' ? at : NULL;
}

/* Names and labels of processes make ranks, for which events are read otherwise; ends of recordings are counted. */
static bool is_for_one(const struct kineto_event *event) {
    return aorta_json_text_is(event->field[FIELD_NAME], "process_name") ||
           aorta_json_text_is(event->field[FIELD_NAME], "Record Window End") ||
           aorta_trace_kineto_label(event->field[FIELD_PROCESS]);
}

/* The last piece of all is to read on in the file. */
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
        const char *behind = aorta_trace_kineto_walk(reader, at, span->end, &event);
        if (!behind || is_for_one(&event)) return NULL;
        event.offset = span->offset + (at - span->begin);
        aorta_status status = aorta_trace_kineto_add_event(reader, &event);
        if (status) { /* it is met again */
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

/* ---- all of them ---- */

/* Where an event seems to begin: a bracket that opens behind one that closes and a comma. */
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

/* How many there are. */
static size_t cut(struct kineto_spans *spans, const char *begin, const char *end, int64_t offset) {
    const size_t length = (size_t)(end - begin);
    size_t count = 0;
    for (size_t i = 0; i < spans->count; i++) {
        const char *at = i ? find_begin(begin, begin + length / spans->count * i, end) : begin;
        if (!at || (i && !make_reader(spans, i))) break;
        if (i) spans->spans[i - 1].limit = at;
        spans->spans[count++] = (struct span){.begin = at, .limit = end, .end = end, .offset = offset + (at - begin)};
        if (i) aorta_trace_builder_part_begins(spans->whole->whole, spans->readers[i]->whole);
    }
    return count;
}

/* The last span that counts: readers of later spans may have seen events that are not there. */
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

void aorta_trace_kineto_read_spans(struct trace_kineto *kineto) {
    if (!kineto->spans) kineto->spans = make_spans(kineto);
    struct kineto_spans *spans = kineto->spans;
    struct aorta_json_stream *stream = kineto->stream;
    const int64_t offset = aorta_json_stream_bytes(stream);
    if (!spans || spans->count < 2 || offset < spans->again || kineto->rank_count || kineto->mixed || kineto->xla)
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
