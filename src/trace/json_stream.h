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

#include "base/json_value.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct aorta_json_stream;
struct aorta_source;

/* From a file, plain or gzip (by content). The path is borrowed. AORTA_IO names path and reason. */
AORTA_MUST_USE aorta_status aorta_json_stream_open(const char *path, struct aorta_json_stream **stream);
/* From a source, which it closes, also when it fails. The name is borrowed. */
AORTA_MUST_USE aorta_status aorta_json_stream_of(struct aorta_source *source, const char *name,
                                                 struct aorta_json_stream **stream);
void aorta_json_stream_close(struct aorta_json_stream *stream); /* NULL is fine */

/* All of these: AORTA_FORMAT names the file, the byte offset (unpacked) and what was expected; AORTA_IO when reading
 * fails. After a failure only the calls that never fail may follow. */

/* Steps into the object or array that comes next. */
AORTA_MUST_USE aorta_status aorta_json_stream_enter(struct aorta_json_stream *stream, char open);
/* The next member's key in the object entered, its value comes next; or leaves the object (*more = false). The key is
 * as in the file, without quotes, with its escapes; valid until the next call. */
AORTA_MUST_USE aorta_status aorta_json_stream_member(struct aorta_json_stream *stream, struct aorta_json_value *key,
                                                     bool *more);
/* Whether another element comes in the array entered; leaves the array if not. */
AORTA_MUST_USE aorta_status aorta_json_stream_more(struct aorta_json_stream *stream, bool *more);
/* The whole value that comes next, valid until the next call. AORTA_FORMAT too for one above 128 MiB. */
AORTA_MUST_USE aorta_status aorta_json_stream_value(struct aorta_json_stream *stream, struct aorta_json_value *value);
/* more and value in one call: the fast way over an array of records. */
AORTA_MUST_USE aorta_status aorta_json_stream_element(struct aorta_json_stream *stream, struct aorta_json_value *value,
                                                      bool *more);
/* The bytes in memory that come next, and their end, for a value of the caller's own walk. Spaces before it are passed
 * if peek was called. */
const char *aorta_json_stream_ahead(const struct aorta_json_stream *stream, const char **end);
/* The caller took the value that came next, which ends before `behind`; what it points to stays until the next call. */
void aorta_json_stream_pass(struct aorta_json_stream *stream, const char *behind);
/* Brings as much as a window of `size` bytes (a power of two) has place for into memory, where less than half of it is
 * there, and returns whether half of it is now. Where reading fails, the call that needs the bytes says so. */
bool aorta_json_stream_fill(struct aorta_json_stream *stream, size_t size);
/* Reads as much again for the next time, while other threads use what is in memory now. */
void aorta_json_stream_fill_next(struct aorta_json_stream *stream);
/* Passes over the value that comes next, of any size, in bounded memory. */
AORTA_MUST_USE aorta_status aorta_json_stream_skip(struct aorta_json_stream *stream);
/* The first letter of what comes next, 0 at the end of the file. */
AORTA_MUST_USE aorta_status aorta_json_stream_peek(struct aorta_json_stream *stream, char *letter);

/* The part of the file's beginning that is in memory; 0 bytes before anything was asked for. */
const char *aorta_json_stream_window(const struct aorta_json_stream *stream, size_t *length);

/* After the outermost value: nothing but white space may follow. */
AORTA_MUST_USE aorta_status aorta_json_stream_finish(struct aorta_json_stream *stream);

int64_t
aorta_json_stream_offset(const struct aorta_json_stream *stream); /* of the value handed out last, or where it failed */
int64_t aorta_json_stream_bytes(const struct aorta_json_stream *stream); /* passed so far, unpacked */
const char *aorta_json_stream_name(const struct aorta_json_stream *stream);
bool aorta_json_stream_failed(const struct aorta_json_stream *stream);    /* it was broken, or could not be read */
bool aorta_json_stream_truncated(const struct aorta_json_stream *stream); /* it failed because the file ended */

#endif
