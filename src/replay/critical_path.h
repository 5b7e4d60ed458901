/* The critical path of recorded ranks: the chain of work, calls and waits, each of which the next had to wait for, that
 * ends with the last work. Names live as long as the analysis. */
#ifndef AORTA_REPLAY_CRITICAL_PATH_H
#define AORTA_REPLAY_CRITICAL_PATH_H

#include "analysis/analysis.h"
#include "base/arena.h"

#include <stddef.h>
#include <stdint.h>

enum aorta_path_kind {
    AORTA_PATH_KERNEL,     /* a kernel runs */
    AORTA_PATH_COLLECTIVE, /* a collective moves data, all ranks have arrived */
    AORTA_PATH_COPY,       /* a copy or fill runs */
    AORTA_PATH_LAUNCH,     /* from a launch to the start of its work */
    AORTA_PATH_BEHIND, /* from the end of work to the start of what waited for it: same stream, another, its queue */
    AORTA_PATH_CALL,   /* a call of the host */
    AORTA_PATH_RETURN, /* a call returns after the work that it waited for */
    AORTA_PATH_HOST,   /* the host between two calls */
    AORTA_PATH_DATA,   /* the host waits for data */
    AORTA_PATH_UNEXPLAINED,
    AORTA_PATH_KIND_COUNT
};
const char *aorta_path_kind_name(int kind); /* "kernel", "collective", … */

struct aorta_path_piece {
    int64_t start_ns, end_ns; /* on the clock of the rank's trace */
    uint32_t rank;            /* place in the analysis */
    uint8_t kind;             /* enum aorta_path_kind */
    const char *name;         /* what runs, is called, or starts then; NULL: nothing has a name there */
};

struct aorta_critical_path {
    struct aorta_path_piece *pieces; /* earliest first; none is empty */
    size_t count;
    const char *reason; /* why there is none; NULL */
};
/* The path of all ranks of the recording as it is: pieces follow each other from where measuring begins (the first
 * step's end of lead) to the last end. A graph that cannot be made is no failure: path->reason says why. AORTA_MEMORY.
 */
AORTA_MUST_USE aorta_status aorta_critical_path_make(const struct aorta_trace_analysis *analysis,
                                                     struct aorta_critical_path *path);
void aorta_critical_path_free(struct aorta_critical_path *path);

/* Pieces of one kind, name and rank. */
struct aorta_path_row {
    uint32_t rank;
    uint8_t kind;
    const char *name;
    size_t count;
    int64_t ns;
};
struct aorta_path_rows {
    struct aorta_path_row *rows; /* longest first */
    size_t count;
    int64_t total_ns; /* of the whole path */
    const char *reason;
};
/* `rank`: place; UINT32_MAX: all. */
void aorta_path_rows_make(const struct aorta_critical_path *path, uint32_t rank, struct aorta_arena *arena,
                          struct aorta_path_rows *rows);

#endif
