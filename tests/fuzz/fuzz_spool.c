/* Spools of `aorta trace run`: the reader returns for any records, and records that it accepts are in order. The input
 * follows a head; the lowest bit of its length asks for --recover. */
#include "fuzz.h"
#include "trace/kernel_names.h"
#include "trace/open.h"
#include "trace/spool.h"

#include <stdlib.h>
#include <string.h>

/* The C++ library's own reader of names is not what is tried here. */
char *aorta_demangle(const char *name) {
    (void)name;
    return NULL;
}

static void check(const struct aorta_trace *trace, const struct aorta_spool_facts *facts) {
    if ((int64_t)trace->work_count > facts->work) abort();
    for (size_t i = 0; i < trace->work_count; i++) {
        const struct aorta_trace_work *work = &trace->work[i];
        if (work->end_ns < work->start_ns || work->stream >= trace->stream_count) abort();
        if (work->call != AORTA_TRACE_NONE && work->call >= trace->call_count) abort();
        if (work->name >= aorta_trace_text_count(trace)) abort();
        if (i && work[-1].start_ns > work->start_ns) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct aorta_spool_head head = {
        .version = AORTA_SPOOL_VERSION, .bytes = sizeof head, .byte_order = AORTA_SPOOL_BYTE_ORDER};
    memcpy(head.magic, AORTA_SPOOL_MAGIC, sizeof head.magic);
    const struct aorta_trace_options options = {.recover = size & 1};
    struct aorta_spool_facts facts = {0};
    struct aorta_trace *trace = NULL;
    uint8_t *file = malloc(sizeof head + size);
    if (!file) return 0;
    memcpy(file, &head, sizeof head);
    memcpy(file + sizeof head, data, size);
    FILE *stream = fmemopen(file, sizeof head + size, "rb");
    if (!stream) abort();
    aorta_status status = aorta_spool_read(stream, "fuzz", &options, &facts, &trace);
    if (!status) check(trace, &facts);
    aorta_status_free(status);
    aorta_trace_free(trace);
    aorta_spool_facts_free(&facts);
    fclose(stream);
    free(file);
    return 0;
}
