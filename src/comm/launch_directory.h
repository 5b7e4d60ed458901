/* The directory of a launcher's job, in TMPDIR or /tmp: `aorta-launch-XXXXXX`, for its owner alone. */
#ifndef AORTA_COMM_LAUNCH_DIRECTORY_H
#define AORTA_COMM_LAUNCH_DIRECTORY_H

#include "base/status.h"

#include <limits.h>

struct launch_directory {
    char path[PATH_MAX]; /* "": none */
    int lock;            /* the directory itself, locked as long as its launcher lives */
};

/* Also removes those that killed launchers of this user have left there. */
AORTA_MUST_USE aorta_status launch_directory_make(struct launch_directory *directory);
/* With what Open MPI and the launcher put into it. */
void launch_directory_remove(struct launch_directory *directory);

#endif
