/* A scanner for large JSON files: no tree, one piece of the file in memory at a time.
 *
 * Outer levels are walked with a stream; it hands out values, each contiguous in memory, and these are
 * walked with a cursor, which never fails, as the stream has checked that strings and brackets close. A reader enters
 * the outer arrays and objects with the stream and takes each record (some hundred bytes) as a value.
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

struct aorta_json_stream;
struct aorta_source;

/* From a file, plain or gzip (by content). The path is borrowed. AORTA_IO names path and reason. */
AORTA_MUST_USE aorta_status aorta_json_stream_open(const char *path, struct aorta_json_stream **stream);
/* From a source, which it closes, also when it fails. The name is borrowed. */
AORTA_MUST_USE aorta_status aorta_json_stream_of(struct aorta_source *source, const char *name,
                                                 struct aorta_json_stream **stream);
void aorta_json_stream_close(struct aorta_json_stream *stream); /* NULL is fine */

/* Errors of the following calls: AORTA_FORMAT with file, byte offset (unpacked) and what was expected; AORTA_IO if
 * reading fails. After an error only calls without a status may follow. */

/* Enters the next value, an object or array. */
AORTA_MUST_USE aorta_status aorta_json_stream_enter(struct aorta_json_stream *stream, char open);
/* Reads the key of the object's next member, whose value comes next, or leaves the object (*more = false). The key is
 * as in the file, without quotes, with its escapes; valid until the next call. */
AORTA_MUST_USE aorta_status aorta_json_stream_member(struct aorta_json_stream *stream, struct aorta_json_value *key,
                                                     bool *more);
/* Whether another element comes in the array entered; leaves the array if not. */
AORTA_MUST_USE aorta_status aorta_json_stream_more(struct aorta_json_stream *stream, bool *more);
/* Reads the next value, valid until the next call. AORTA_FORMAT if it exceeds 128 MiB. */
AORTA_MUST_USE aorta_status aorta_json_stream_value(struct aorta_json_stream *stream, struct aorta_json_value *value);
/* more and value in one call: the fast way over an array of records. */
AORTA_MUST_USE aorta_status aorta_json_stream_element(struct aorta_json_stream *stream, struct aorta_json_value *value,
                                                      bool *more);
/* The next bytes in memory and their end, for callers that parse a value themselves. Call peek first to skip spaces. */
const char *aorta_json_stream_ahead(const struct aorta_json_stream *stream, const char **end);
/* Passes a value that the caller parsed; it ends before `behind`. Its bytes are valid until the next call. */
void aorta_json_stream_pass(struct aorta_json_stream *stream, const char *behind);
/* Fills a window of `size` bytes (a power of two) if it is less than half full. Returns whether it is at least half
 * full. A read error is returned by the next call that needs the bytes. */
bool aorta_json_stream_fill(struct aorta_json_stream *stream, size_t size);
/* Reads the next window ahead, while other threads use the bytes in memory. */
void aorta_json_stream_fill_next(struct aorta_json_stream *stream);
/* Skips the next value, of any size, in bounded memory. */
AORTA_MUST_USE aorta_status aorta_json_stream_skip(struct aorta_json_stream *stream);
/* The next letter after spaces, 0 at the end of the file. */
AORTA_MUST_USE aorta_status aorta_json_stream_peek(struct aorta_json_stream *stream, char *letter);

/* The part of the file's beginning that is in memory; 0 bytes before the first read. */
const char *aorta_json_stream_window(const struct aorta_json_stream *stream, size_t *length);

/* Checks that only white space follows the outermost value. */
AORTA_MUST_USE aorta_status aorta_json_stream_finish(struct aorta_json_stream *stream);

int64_t aorta_json_stream_offset(const struct aorta_json_stream *stream); /* of the last value, or of the error */
int64_t aorta_json_stream_bytes(const struct aorta_json_stream *stream);  /* passed so far, unpacked */
const char *aorta_json_stream_name(const struct aorta_json_stream *stream);
bool aorta_json_stream_failed(const struct aorta_json_stream *stream);    /* an error occurred */
bool aorta_json_stream_truncated(const struct aorta_json_stream *stream); /* it failed because the file ended */

#endif
