/* One reader per kind of file; aorta_trace_open asks them in turn. For the readers of this folder. */
#ifndef AORTA_FORMATS_READER_H
#define AORTA_FORMATS_READER_H

#include "formats/json_stream.h"
#include "formats/open.h"
#include "timeline/trace.h"

/* A file that is no JSON, by its first bytes (unpacked): rocpd, CSV. */
struct aorta_trace_reader {
    const char *name;
    bool (*recognises)(const char *head, size_t length); /* up to 4096 bytes; fewer when the file is shorter */
    /* Appends to the list. Opens the path itself: SQLite needs a name. */
    aorta_status (*read)(const char *path, const struct aorta_trace_options *options, struct aorta_trace_list *list);
};
extern const struct aorta_trace_reader aorta_trace_reader_rocpd;
extern const struct aorta_trace_reader aorta_trace_reader_csv;

/* JSON files say what they are by a key of the outermost object, which may stand anywhere in it. The stream stands
 * before that key's value; the reader reads just this value. On an error with options->recover it keeps what it has,
 * counts the reason and returns success. */
aorta_status aorta_trace_read_rocprof(struct aorta_json_stream *stream, const struct aorta_trace_options *options,
                                      struct aorta_trace_list *list);

/* A whole JSON file of any of these kinds, from a stream that stands at its beginning. */
aorta_status aorta_trace_read_json(struct aorta_json_stream *stream, const struct aorta_trace_options *options,
                                   struct aorta_trace_list *list);

#endif
