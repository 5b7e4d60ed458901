/* Reading the files of `aorta trace run` (spool_format.h). */
#ifndef AORTA_TRACE_SPOOL_H
#define AORTA_TRACE_SPOOL_H

#include "base/arena.h"
#include "trace/reader.h"
#include "trace/spool_format.h"

#include <stdio.h>

/* Facts about the process and the recording. Zero-initialise; free with aorta_spool_facts_free. */
struct aorta_spool_facts {
    struct aorta_spool_head head;
    struct aorta_spool_process process;
    struct aorta_arena memory;
    const char *command, *library, *host; /* "" if not in the spool */
    const char *note;                     /* the last one; "" without */
    int64_t work;                         /* kernels, copies, fills */
    int64_t end_ns;                       /* of the last work; 0: none */
    int64_t cut_bytes;                    /* after the last whole record */
};
void aorta_spool_facts_free(struct aorta_spool_facts *facts);

/* Opens a regular file without blocking, as in shared folders a pipe can have a spool's name. NULL and errno on
 * failure.
 */
FILE *aorta_spool_stream(const char *path);

/* Reads a spool from the beginning of the file. A record that is cut at the end, as of a killed program, is
 * skipped and counted (AORTA_REASON_TRUNCATED). AORTA_FORMAT: no spool, another version or byte order, or damaged at
 * the byte offset named (with options->recover everything before is read). `facts` may be NULL. */
AORTA_MUST_USE aorta_status aorta_spool_read(FILE *file, const char *path, const struct aorta_trace_options *options,
                                             struct aorta_spool_facts *facts, struct aorta_trace **trace);

#endif
