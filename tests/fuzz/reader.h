/* What must be true of a reader of traces for any bytes. */
#ifndef AORTA_TESTS_FUZZ_READER_H
#define AORTA_TESTS_FUZZ_READER_H

#include "formats/reader.h"

#include <stdlib.h>
#include <string.h>

/* An error names the file; the rows of what is read are in order. */
static inline aorta_status fuzz_read(const struct aorta_trace_reader *reader, const char *path, bool recover,
                                     struct aorta_trace_list *list) {
    const struct aorta_trace_options options = {.recover = recover};
    aorta_status status = reader->read(path, &options, list);
    if (status && !strstr(aorta_status_message(status), path)) abort();
    for (size_t i = 0; i < list->count; i++) {
        const struct aorta_trace *trace = list->items[i];
        for (size_t w = 0; w < trace->work_count; w++) {
            const struct aorta_trace_work *work = &trace->work[w];
            if (work->end_ns < work->start_ns || work->stream >= trace->stream_count) abort();
            if (w && work->start_ns < trace->work[w - 1].start_ns) abort();
        }
    }
    return status;
}

#endif
