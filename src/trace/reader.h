/* One reader per kind of file (formats.def). For the readers of this folder. */
#ifndef AORTA_TRACE_READER_H
#define AORTA_TRACE_READER_H

#include "trace/json_stream.h"
#include "trace/open.h"
#include "trace/trace.h"

/* A file by its first bytes (unpacked). */
struct aorta_trace_reader {
    bool (*recognises)(const char *head, size_t length); /* up to 4096 bytes; fewer when the file is shorter */
    /* Appends to the list. Opens the path itself: SQLite needs a name. */
    aorta_status (*read)(const char *path, const struct aorta_trace_options *options, struct aorta_trace_list *list);
    /* Whether a file that is recognised in a folder is the one by which its set is read. NULL: each file is alone. */
    bool (*leads)(const char *path, const char *head, size_t length);
    bool plain;  /* opens the file itself, which may not be packed */
    bool yields; /* in a folder only where nothing else is: traces of a run say more than its lines */
    bool json;   /* its files begin as JSON does; the files of other readers do not */
};

/* JSON files say what they are by a key of the outermost object, which may stand anywhere in it. The stream stands
 * before that key's value; the reader reads just this value. On an error with options->recover it keeps what it has,
 * counts the reason and returns success. */
typedef aorta_status aorta_trace_json_reader(struct aorta_json_stream *stream,
                                             const struct aorta_trace_options *options, struct aorta_trace_list *list);

#define READER(symbol, suffix, names) extern const struct aorta_trace_reader aorta_trace_reader_##symbol;
#define JSON(key, suffix, names, read) aorta_trace_json_reader read;
#include "trace/formats.def"
extern const struct aorta_trace_reader aorta_trace_reader_sqlite; /* of all rows SQLITE */

/* Whether the file broke and what is before the break is used (options->recover); *status is freed and NULL then. */
bool aorta_trace_recovers(const struct aorta_trace_options *options, aorta_status *status);

/* Whether a file yields to other files by its name; and whether it has any of the rows' suffixes, packed or not. */
bool aorta_trace_yields(const char *path);
bool aorta_trace_is_name(const char *path);
/* Whether bytes at the beginning of a file are of a reader that needs it plain. */
bool aorta_trace_needs_plain(const char *bytes, size_t length);

/* Whether bytes at the beginning of an input may be of a trace, packed or not: JSON, packed data, or what a reader
 * recognises. */
bool aorta_trace_may_be(const char *bytes, size_t length);

/* AORTA_USAGE where the bytes, a file's first or the name of a process in it, are of a tool that is not read. */
AORTA_MUST_USE aorta_status aorta_trace_check_foreign(const char *bytes, size_t length, const char *path);

/* The names of what is read, for messages. */
extern const char *const aorta_trace_formats;

/* A whole JSON file of any of these kinds, from a stream that stands at its beginning. */
aorta_trace_json_reader aorta_trace_read_json;

#endif
