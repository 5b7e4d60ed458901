/* Reading the files of `aorta trace run` (spool_format.h). */
#ifndef AORTA_TRACE_SPOOL_H
#define AORTA_TRACE_SPOOL_H

#include "base/arena.h"
#include "trace/open.h"
#include "trace/reader.h"
#include "trace/spool_format.h"

#include <stdio.h>

/* What a spool says of its process and of the recording. Zero-initialise; ends with aorta_spool_facts_free. */
struct aorta_spool_facts {
    struct aorta_spool_head head;
    struct aorta_spool_process process;
    struct aorta_arena memory;
    const char *command, *library, *host; /* "" where the spool does not say */
    const char *note;                     /* the last one; "" without */
    int64_t work;                         /* kernels, copies, fills */
    int64_t end_ns;                       /* of the last of it; 0: none */
    int64_t cut_bytes;                    /* behind the last whole record */
};
void aorta_spool_facts_free(struct aorta_spool_facts *facts);

/* A regular file, opened without waiting for anybody: in shared folders a pipe can have a spool's name. NULL and errno.
 */
FILE *aorta_spool_stream(const char *path);

/* Reads a spool from where the file stands, its beginning. A record that is cut at the end is left out and counted
 * (AORTA_REASON_TRUNCATED): the program may have been killed. AORTA_FORMAT: no spool, of another version or byte order,
 * or damaged at the byte offset named (with options->recover what stands before is read). `facts` may be NULL. */
AORTA_MUST_USE aorta_status aorta_spool_read(FILE *file, const char *path, const struct aorta_trace_options *options,
                                             struct aorta_spool_facts *facts, struct aorta_trace **trace);

#endif
