#include "trace/json_stream.h"

#include "trace/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_WINDOW = 1 << 20, MAX_DEPTH = 64, MARGIN = 64 << 10, FIRST_READ = 64 << 10 };
static const size_t MAX_WINDOW = (size_t)128 << 20;

struct aorta_json_stream {
    struct aorta_source *source;
    const char *name;
    char *window;
    size_t capacity;
    size_t at, end;        /* window[at … end) is not passed yet */
    int64_t window_offset; /* of window[0] in the file */
    int64_t offset;        /* of the last value */
    struct {               /* the next window: MARGIN bytes for the rest of the current one, then bytes read ahead */
        char *window;
        size_t capacity, end; /* 0: nothing was read */
    } ahead;
    bool ended; /* nothing comes after window[end] */
    bool failed, truncated;
    aorta_status deferred; /* error of a read ahead, returned by the next read */
    int depth;             /* brackets entered */
    bool first[MAX_DEPTH]; /* no item was read yet at this depth */
    char close[MAX_DEPTH];
};

aorta_status aorta_json_stream_of(struct aorta_source *source, const char *name, struct aorta_json_stream **stream) {
    struct aorta_json_stream *self = calloc(1, sizeof *self);
    char *window = malloc(FIRST_WINDOW);
    if (!self || !window) {
        free(self);
        free(window);
        aorta_source_close(source);
        return AORTA_ERROR(AORTA_MEMORY, "no memory to read %s", name);
    }
    *self = (struct aorta_json_stream){.source = source, .name = name, .window = window, .capacity = FIRST_WINDOW};
    *stream = self;
    return NULL;
}

aorta_status aorta_json_stream_open(const char *path, struct aorta_json_stream **stream) {
    struct aorta_source *source;
    AORTA_TRY(aorta_source_open(path, &source));
    return aorta_json_stream_of(source, path, stream);
}

void aorta_json_stream_close(struct aorta_json_stream *stream) {
    if (!stream) return;
    aorta_source_close(stream->source);
    aorta_status_free(stream->deferred);
    free(stream->window);
    free(stream->ahead.window);
    free(stream);
}

int64_t aorta_json_stream_offset(const struct aorta_json_stream *stream) {
    return stream->offset;
}
int64_t aorta_json_stream_bytes(const struct aorta_json_stream *stream) {
    return stream->window_offset + (int64_t)stream->at;
}
const char *aorta_json_stream_name(const struct aorta_json_stream *stream) {
    return stream->name;
}
const char *aorta_json_stream_window(const struct aorta_json_stream *stream, size_t *length) {
    *length = stream->window_offset ? 0 : stream->end;
    return stream->window;
}
bool aorta_json_stream_failed(const struct aorta_json_stream *stream) {
    return stream->failed;
}
bool aorta_json_stream_truncated(const struct aorta_json_stream *stream) {
    return stream->truncated;
}

/* The file breaks at window[at]: it ends there, or has something else than `expected`. */
static aorta_status broken(struct aorta_json_stream *stream, const char *expected) {
    stream->offset = aorta_json_stream_bytes(stream);
    long long place = (long long)stream->offset;
    stream->failed = true;
    if (stream->at == stream->end) {
        stream->truncated = true;
        return AORTA_ERROR(AORTA_FORMAT, "%s is cut off: it ends at byte %lld where %s should follow", stream->name,
                           place, expected);
    }
    unsigned char found = (unsigned char)stream->window[stream->at];
    if (found < ' ' || found > '~')
        return AORTA_ERROR(AORTA_FORMAT, "%s is malformed at byte %lld: %s is expected, not byte 0x%02x", stream->name,
                           place, expected, found);
    return AORTA_ERROR(AORTA_FORMAT, "%s is malformed at byte %lld: %s is expected, not '%c'", stream->name, place,
                       expected, found);
}

static aorta_status grow(struct aorta_json_stream *stream) {
    size_t capacity = stream->capacity * 2;
    stream->failed = capacity > MAX_WINDOW || capacity < FIRST_WINDOW;
    if (stream->failed)
        return AORTA_ERROR(AORTA_FORMAT, "%s is malformed at byte %lld: a value that does not end within %zu MiB",
                           stream->name, (long long)aorta_json_stream_bytes(stream), stream->capacity >> 20);
    char *window = realloc(stream->window, capacity);
    if (!window)
        return AORTA_ERROR(AORTA_MEMORY, "no memory for a value of %s longer than %zu bytes", stream->name,
                           stream->capacity);
    stream->window = window;
    stream->capacity = capacity;
    return NULL;
}

/* window[at … end) moves to the front. */
static void bring_forward(struct aorta_json_stream *stream) {
    memmove(stream->window, stream->window + stream->at, stream->end - stream->at);
    stream->window_offset += (int64_t)stream->at;
    stream->end -= stream->at;
    stream->at = 0;
}

/* Swaps the window with the one read ahead and copies the rest into it. False if the rest is too long. */
static bool exchange(struct aorta_json_stream *stream) {
    const size_t left = stream->end - stream->at;
    if (!stream->ahead.end || left > MARGIN) return false;
    char *const window = stream->window;
    const size_t capacity = stream->capacity;
    memcpy(stream->ahead.window + MARGIN - left, window + stream->at, left);
    stream->window_offset = aorta_json_stream_bytes(stream) - (int64_t)(MARGIN - left);
    stream->at = MARGIN - left;
    stream->end = stream->ahead.end;
    stream->window = stream->ahead.window;
    stream->capacity = stream->ahead.capacity;
    stream->ahead.window = window;
    stream->ahead.capacity = capacity;
    stream->ahead.end = 0;
    return true;
}

/* Takes bytes read ahead, else reads the file. The first read is short, as the file may be no trace. */
static aorta_status read_some(struct aorta_json_stream *stream, size_t *got) {
    const bool first = !stream->window_offset && !stream->end;
    const size_t place = first ? FIRST_READ : stream->capacity - stream->end;
    const size_t ahead = stream->ahead.end ? stream->ahead.end - MARGIN : 0;
    char *const to = stream->window + stream->end;
    aorta_status status = stream->deferred;
    *got = ahead < place ? ahead : place;
    if (*got) {
        memcpy(to, stream->ahead.window + MARGIN, *got);
        memmove(stream->ahead.window + MARGIN, stream->ahead.window + MARGIN + *got, ahead - *got);
        stream->ahead.end = ahead > *got ? stream->ahead.end - *got : 0;
        return NULL;
    }
    stream->deferred = NULL;
    return status ? status : aorta_source_read(stream->source, to, place, got);
}

/* Brings more of the file after window[end], keeping window[at … end). */
static aorta_status refill(struct aorta_json_stream *stream) {
    if (exchange(stream)) return NULL;
    if (stream->at && stream->end - stream->at <= stream->capacity / 2) bring_forward(stream);
    if (stream->end == stream->capacity) AORTA_TRY(grow(stream));
    size_t got = 0;
    aorta_status status = read_some(stream, &got);
    if (status) {
        stream->failed = true;
        stream->offset = stream->window_offset + (int64_t)stream->end;
        stream->truncated = aorta_source_truncated(stream->source);
        return status;
    }
    stream->end += got;
    if (!got) stream->ended = true;
    return NULL;
}

aorta_status aorta_json_stream_peek(struct aorta_json_stream *stream, char *letter) {
    for (;;) {
        while (stream->at < stream->end && aorta_json_space(stream->window[stream->at])) stream->at++;
        if (stream->at < stream->end) {
            *letter = stream->window[stream->at];
            return NULL;
        }
        *letter = 0;
        if (stream->ended) return NULL;
        AORTA_TRY(refill(stream));
    }
}

aorta_status aorta_json_stream_enter(struct aorta_json_stream *stream, char open) {
    char letter;
    AORTA_TRY(aorta_json_stream_peek(stream, &letter));
    if (letter != open) return broken(stream, open == '{' ? "an object" : "an array");
    if (stream->depth == MAX_DEPTH)
        return AORTA_ERROR(AORTA_FORMAT, "%s is nested deeper than %d at byte %lld", stream->name, MAX_DEPTH,
                           (long long)aorta_json_stream_bytes(stream));
    stream->at++;
    stream->first[stream->depth] = true;
    stream->close[stream->depth++] = open == '{' ? '}' : ']';
    return NULL;
}

/* Passes the comma before the next item, or the bracket after the last one. */
aorta_status aorta_json_stream_more(struct aorta_json_stream *stream, bool *more) {
    int depth = stream->depth - 1;
    char letter, close = stream->close[depth];
    AORTA_TRY(aorta_json_stream_peek(stream, &letter));
    *more = letter != close;
    if (!*more) {
        stream->at++;
        stream->depth--;
        return NULL;
    }
    if (stream->first[depth]) {
        stream->first[depth] = false;
        return NULL;
    }
    if (letter != ',') return broken(stream, close == '}' ? "',' or '}'" : "',' or ']'");
    stream->at++;
    return NULL;
}

aorta_status aorta_json_stream_member(struct aorta_json_stream *stream, struct aorta_json_value *key, bool *more) {
    char letter;
    AORTA_TRY(aorta_json_stream_more(stream, more));
    if (!*more) return NULL;
    AORTA_TRY(aorta_json_stream_peek(stream, &letter));
    if (letter != '"') return broken(stream, "a key in quotes");
    AORTA_TRY(aorta_json_stream_value(stream, key));
    /* The colon must be in the window together with the key, which peek might move. */
    size_t back = key->length;
    for (;;) {
        for (; stream->at < stream->end && aorta_json_space(stream->window[stream->at]); back++) stream->at++;
        if (stream->at < stream->end || stream->ended) break;
        stream->at -= back;
        AORTA_TRY(refill(stream));
        stream->at += back;
    }
    if (stream->at == stream->end || stream->window[stream->at] != ':') return broken(stream, "':'");
    *key = (struct aorta_json_value){stream->window + stream->at - back + 1, key->length - 2};
    stream->at++;
    return NULL;
}

static const char *skip_some(struct aorta_json_skip *state, char letter, const char *at, const char *end) {
    if (letter == '{' || letter == '[') return aorta_json_skip_nested(state, at, end);
    if (letter == '"') return aorta_json_skip_string(state, at, end);
    while (at < end && *at != ',' && *at != '}' && *at != ']' && !aorta_json_space(*at)) at++;
    return at < end ? at : NULL;
}

static bool begins_value(char c) {
    return c == '{' || c == '[' || c == '"' || c == '-' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
           c == 'N' || c == 'I'; /* NaN and Infinity, which Python writes */
}

/* Finds the end of the next value. With `keep` all of it is in the window, *length bytes from `at`; else `at`
 * moves to its end. */
static aorta_status pass(struct aorta_json_stream *stream, bool keep, size_t *length) {
    char letter;
    AORTA_TRY(aorta_json_stream_peek(stream, &letter));
    if (!begins_value(letter)) return broken(stream, "a value");
    stream->offset = aorta_json_stream_bytes(stream);
    struct aorta_json_skip state = {0};
    size_t scanned = letter == '"';
    for (;;) {
        const char *begin = stream->window + stream->at;
        const char *behind = skip_some(&state, letter, begin + scanned, stream->window + stream->end);
        if (behind || (stream->ended && letter != '"' && letter != '{' && letter != '[')) {
            *length = (size_t)((behind ? behind : stream->window + stream->end) - begin);
            if (!keep) stream->at += *length;
            return NULL;
        }
        scanned = stream->end - stream->at;
        if (!keep) {
            stream->at = stream->end;
            scanned = 0;
        }
        if (stream->ended) {
            char rest[64];
            snprintf(rest, sizeof rest, "the rest of the value from byte %lld", (long long)stream->offset);
            stream->at = stream->end;
            return broken(stream, rest);
        }
        AORTA_TRY(refill(stream));
    }
}

aorta_status aorta_json_stream_value(struct aorta_json_stream *stream, struct aorta_json_value *value) {
    size_t length = 0;
    AORTA_TRY(pass(stream, true, &length));
    *value = (struct aorta_json_value){stream->window + stream->at, length};
    stream->at += length;
    return NULL;
}

bool aorta_json_stream_fill(struct aorta_json_stream *stream, size_t size) {
    if (stream->end - stream->at >= size / 2) return true;
    if (exchange(stream)) return stream->end - stream->at >= size / 2;
    if (stream->capacity < size) {
        char *window = realloc(stream->window, size);
        if (!window) return false;
        stream->window = window;
        stream->capacity = size;
    }
    bring_forward(stream);
    while (stream->end < stream->capacity && !stream->ended && !stream->deferred) {
        size_t got = 0;
        stream->deferred = read_some(stream, &got);
        stream->ended = !stream->deferred && !got;
        stream->end += got;
    }
    return stream->end >= size / 2;
}

void aorta_json_stream_fill_next(struct aorta_json_stream *stream) {
    size_t got = 1;
    if (stream->ahead.end || stream->deferred || stream->ended) return;
    if (stream->ahead.capacity < stream->capacity) {
        free(stream->ahead.window);
        stream->ahead.window = malloc(stream->capacity);
        stream->ahead.capacity = stream->ahead.window ? stream->capacity : 0;
    }
    size_t end = MARGIN;
    while (got && end < stream->ahead.capacity && !stream->deferred) {
        got = 0;
        stream->deferred =
            aorta_source_read(stream->source, stream->ahead.window + end, stream->ahead.capacity - end, &got);
        end += got;
    }
    stream->ahead.end = end > MARGIN ? end : 0;
}

const char *aorta_json_stream_ahead(const struct aorta_json_stream *stream, const char **end) {
    *end = stream->window + stream->end;
    return stream->window + stream->at;
}

void aorta_json_stream_pass(struct aorta_json_stream *stream, const char *behind) {
    stream->offset = aorta_json_stream_bytes(stream);
    stream->at = (size_t)(behind - stream->window);
}

aorta_status aorta_json_stream_skip(struct aorta_json_stream *stream) {
    size_t length;
    return pass(stream, false, &length);
}

aorta_status aorta_json_stream_element(struct aorta_json_stream *stream, struct aorta_json_value *value, bool *more) {
    AORTA_TRY(aorta_json_stream_more(stream, more));
    return *more ? aorta_json_stream_value(stream, value) : NULL;
}

aorta_status aorta_json_stream_finish(struct aorta_json_stream *stream) {
    char letter;
    AORTA_TRY(aorta_json_stream_peek(stream, &letter));
    return stream->at == stream->end ? NULL : broken(stream, "the end of the file");
}
