/* What must be true of a reader of traces for any bytes. */
#ifndef AORTA_TESTS_FUZZ_READER_H
#define AORTA_TESTS_FUZZ_READER_H

#include "fuzz.h"
#include "trace/reader.h"

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

/* A reader of the bytes as a file of this name: with recovery nothing is refused that was taken without. */
static inline void fuzz_reader(const struct aorta_trace_reader *reader, const char *name, const uint8_t *data,
                               size_t size) {
    char path[FUZZ_PATH];
    struct aorta_trace_list whole = {0}, recovered = {0};
    fuzz_path(path, name);
    fuzz_write(path, data, size);
    (void)reader->recognises((const char *)data, size < 4096 ? size : 4096);
    aorta_status first = fuzz_read(reader, path, false, &whole), second = fuzz_read(reader, path, true, &recovered);
    unlink(path);
    if (!first && second) abort();
    aorta_status_free(first);
    aorta_status_free(second);
    aorta_trace_list_free(&whole);
    aorta_trace_list_free(&recovered);
}

#endif
