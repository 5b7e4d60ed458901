/* The interface of readers, one per kind of file (formats.def). Only for files of this folder. */
#ifndef AORTA_TRACE_READER_H
#define AORTA_TRACE_READER_H

#include "trace/json_stream.h"
#include "trace/open.h"

/* A reader of files that are recognized by their first bytes (unpacked). */
struct aorta_trace_reader {
    bool (*recognises)(const char *head, size_t length); /* up to 4096 bytes */
    /* Appends to the list. Opens the path itself: SQLite needs a name. */
    aorta_status (*read)(const char *path, const struct aorta_trace_options *options, struct aorta_trace_list *list);
    /* Whether a recognised file of a folder is the one that is read for its set. NULL if files are not in sets. */
    bool (*leads)(const char *path, const char *head, size_t length);
    bool plain;  /* opens the file by its path, so it must not be packed */
    bool yields; /* read in a folder only without other traces, as a run's traces have more facts than its lines */
    bool json;   /* whether its files begin as JSON does */
};

/* JSON files say what they are by a key of the outermost object, which may be anywhere in it. The stream is
 * before that key's value; the reader reads just this value. On an error with options->recover it keeps what it has,
 * counts the reason and returns success. */
typedef aorta_status aorta_trace_json_reader(struct aorta_json_stream *stream,
                                             const struct aorta_trace_options *options, struct aorta_trace_list *list);

#define READER(symbol, suffix, names) extern const struct aorta_trace_reader aorta_trace_reader_##symbol;
#define JSON(key, suffix, names, read) aorta_trace_json_reader read;
#include "trace/formats.def"
extern const struct aorta_trace_reader aorta_trace_reader_sqlite; /* of all rows SQLITE */

/* Whether *status is AORTA_FORMAT and events before the break are used (options->recover). Then *status is freed and
 * set to NULL. */
bool aorta_trace_recovers(const struct aorta_trace_options *options, aorta_status *status);

/* By a file's name: whether it yields to other files, and whether it has a trace's suffix, packed or not. */
bool aorta_trace_yields(const char *path);
bool aorta_trace_is_name(const char *path);
/* Whether the reader of a file with these first bytes needs it unpacked. */
bool aorta_trace_needs_plain(const char *bytes, size_t length);

/* Whether an input with these first bytes may be a trace: JSON, packed data, or a format that a reader recognises. */
bool aorta_trace_may_be(const char *bytes, size_t length);

/* AORTA_USAGE if the bytes, a file's first or the name of a process in it, show a tool whose files are not read. */
AORTA_MUST_USE aorta_status aorta_trace_check_foreign(const char *bytes, size_t length, const char *path);

/* The names of all formats, for messages. */
extern const char *const aorta_trace_formats;

/* A whole JSON file of any of these kinds, from a stream at its beginning. */
aorta_trace_json_reader aorta_trace_read_json;

#endif
