/* Directories that end with their process, for their owner alone. A directory is locked as long as its process lives;
 * those of killed processes are removed by the next process that makes such a directory. */
#ifndef AORTA_BASE_TEMPORARY_H
#define AORTA_BASE_TEMPORARY_H

#include "base/status.h"

#include <limits.h>

struct aorta_temporary {
    char path[PATH_MAX];                  /* absolute; "": none */
    int lock;                             /* the directory itself */
    struct aorta_temporary_guard *guards; /* or NULL */
};

/* In TMPDIR or /tmp, named `prefix` and six letters. AORTA_IO. */
AORTA_MUST_USE aorta_status aorta_temporary_make(const char *prefix, struct aorta_temporary *directory);
/* As aorta_temporary_make, in `parent`. */
AORTA_MUST_USE aorta_status aorta_temporary_make_in(const char *parent, const char *prefix,
                                                    struct aorta_temporary *directory);
/* Until it is removed, SIGINT and SIGTERM remove it before they end the process; as aorta_signals_begin, this comes
 * before other threads. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_temporary_guard(struct aorta_temporary *directory);
/* With all that is in it. */
void aorta_temporary_remove(struct aorta_temporary *directory);

#endif
