/* Directories that only one process uses: temporary directories, and directories for its outputs. */
#ifndef AORTA_BASE_DIRECTORIES_H
#define AORTA_BASE_DIRECTORIES_H

#include "base/status.h"

#include <limits.h>

/* ---- temporary directories ----
 * Directories with access for their owner only, which are removed at the end of the process. A directory is locked as
 * long as its process lives; those of killed processes are removed by the next process that makes such a directory. */

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
/* Makes SIGINT and SIGTERM remove the directory before they end the process. Call it before other threads start, as
 * aorta_signals_begin. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_temporary_guard(struct aorta_temporary *directory);
/* Removes the directory with its contents. */
void aorta_temporary_remove(struct aorta_temporary *directory);

/* ---- locked directories ----
 * One job at a time writes into a directory. The lock is the system's (flock) on the file ".aorta.lock", which names
 * its holder; it ends with the process in any case. On file systems without locks nothing is locked, without an error.
 * A program that the holder started is part of its job and takes no lock. */

struct aorta_directory_lock;
/* Makes the directory if it does not exist. AORTA_CONFIG names `key` and the holder; AORTA_IO; AORTA_MEMORY. *lock is
 * NULL if the file system has no locks, or if a parent process has the lock. */
AORTA_MUST_USE aorta_status aorta_directory_lock(const char *directory, const char *key,
                                                 struct aorta_directory_lock **lock);
/* Removes the file, and a directory that was made for it and is still empty. NULL is fine. */
void aorta_directory_unlock(struct aorta_directory_lock *lock);

#endif
