/* A scanner for large JSON files: no tree, one piece of the file in memory at a time.
 *
 * Outer levels are walked with a stream; what it hands out are values that lie in one piece in memory, and these are
 * walked with a cursor, which never fails half-way: the stream has checked that strings and brackets close. So a
 * reader enters the outer arrays and objects with the stream and takes each record (some hundred bytes) as a value.
 *
 *     aorta_json_stream_enter(stream, '[')
 *     while (aorta_json_stream_element(stream, &value, &more), more) {
 *         struct aorta_json_cursor cursor = aorta_json_members(value);
 *         while (aorta_json_next_member(&cursor, &key, &member)) …
 *     } */
#ifndef AORTA_TRACE_JSON_STREAM_H
#define AORTA_TRACE_JSON_STREAM_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A value as it stands in the file, without white space around it: begins with { [ " or a scalar's first letter. */
struct aorta_json_value {
    const char *text;
    size_t length;
};

struct aorta_json_stream;

/* From a file, plain or gzip (by content). AORTA_IO names path and reason. */
AORTA_MUST_USE aorta_status aorta_json_stream_open(const char *path, struct aorta_json_stream **stream);
/* From memory, handed over in pieces of at most `piece` bytes (0: at once); for tests. Borrowed. */
AORTA_MUST_USE aorta_status aorta_json_stream_memory(const char *bytes, size_t length, size_t piece, const char *name,
                                                     struct aorta_json_stream **stream);
void aorta_json_stream_close(struct aorta_json_stream *stream); /* NULL is fine */

/* All of these: AORTA_FORMAT names the file, the byte offset (unpacked) and what was expected; AORTA_IO when reading
 * fails. After a failure only the calls that never fail may follow. */

/* Steps into the object or array that comes next. */
AORTA_MUST_USE aorta_status aorta_json_stream_enter(struct aorta_json_stream *stream, char open);
/* The next member's key in the object entered, its value comes next; or leaves the object (*more = false). The key is
 * as in the file, without quotes, escapes kept; valid until the next call. */
AORTA_MUST_USE aorta_status aorta_json_stream_member(struct aorta_json_stream *stream, struct aorta_json_value *key,
                                                     bool *more);
/* Whether another element comes in the array entered; leaves the array if not. */
AORTA_MUST_USE aorta_status aorta_json_stream_more(struct aorta_json_stream *stream, bool *more);
/* The whole value that comes next, valid until the next call. AORTA_FORMAT too for one above 128 MiB. */
AORTA_MUST_USE aorta_status aorta_json_stream_value(struct aorta_json_stream *stream, struct aorta_json_value *value);
/* more and value in one call: the fast way over an array of records. */
AORTA_MUST_USE aorta_status aorta_json_stream_element(struct aorta_json_stream *stream, struct aorta_json_value *value,
                                                      bool *more);
/* Passes over the value that comes next, of any size, in bounded memory. */
AORTA_MUST_USE aorta_status aorta_json_stream_skip(struct aorta_json_stream *stream);
/* The first letter of what comes next, 0 at the end of the file. */
AORTA_MUST_USE aorta_status aorta_json_stream_peek(struct aorta_json_stream *stream, char *letter);

/* After the outermost value: nothing but white space may follow. */
AORTA_MUST_USE aorta_status aorta_json_stream_finish(struct aorta_json_stream *stream);

int64_t
aorta_json_stream_offset(const struct aorta_json_stream *stream); /* of the value handed out last, or where it failed */
int64_t aorta_json_stream_bytes(const struct aorta_json_stream *stream); /* passed so far, unpacked */
const char *aorta_json_stream_name(const struct aorta_json_stream *stream);
bool aorta_json_stream_failed(const struct aorta_json_stream *stream);    /* it was broken, or could not be read */
bool aorta_json_stream_truncated(const struct aorta_json_stream *stream); /* it failed because the file ended */

/* ---- values in memory: these do not fail ---- */
struct aorta_json_cursor {
    const char *at, *end;
};

/* Over the members or elements of a value; nothing comes if it is no object or array. A member that is malformed (no
 * colon, say) ends the walk; `well_formed` says so afterwards: the cursor then stands at its end. */
struct aorta_json_cursor aorta_json_members(struct aorta_json_value value);
bool aorta_json_next_member(struct aorta_json_cursor *cursor, struct aorta_json_value *key,
                            struct aorta_json_value *value);
struct aorta_json_cursor aorta_json_elements(struct aorta_json_value value);
bool aorta_json_next_element(struct aorta_json_cursor *cursor, struct aorta_json_value *value);
static inline bool aorta_json_well_formed(const struct aorta_json_cursor *cursor) {
    return cursor->at == cursor->end;
}

/* Whether a key (as handed out, without quotes) is this one. */
bool aorta_json_key_is(struct aorta_json_value key, const char *name);
static inline bool aorta_json_is_string(struct aorta_json_value value) {
    return value.length && value.text[0] == '"';
}
/* A string's text without quotes and with escapes resolved, appended to `scratch` only if there are any; else it
 * points into the file. Half surrogates become U+FFFD. False when it is no string. */
bool aorta_json_get_string(struct aorta_json_value value, struct aorta_text *scratch, struct aorta_json_value *string);
/* A whole number in the range of int64, also in quotes ("0x1f" and "31") and as 31.0. */
bool aorta_json_get_int(struct aorta_json_value value, int64_t *number);
/* A decimal number times 10^`shift` (in quotes too), as the nearest integer, half away from zero, computed exactly:
 * microseconds with shift 3 are ns. */
bool aorta_json_get_scaled(struct aorta_json_value value, int shift, int64_t *number);

#endif
