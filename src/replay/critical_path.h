/* The critical path of recorded ranks: the chain of work, calls and waits that ends with the last work, in which each
 * piece waited for the one before it. Names live as long as the analysis. */
#ifndef AORTA_REPLAY_CRITICAL_PATH_H
#define AORTA_REPLAY_CRITICAL_PATH_H

#include "analysis/analysis.h"
#include "base/arena.h"

#include <stddef.h>
#include <stdint.h>

enum aorta_path_kind {
    AORTA_PATH_KERNEL,     /* a kernel runs */
    AORTA_PATH_COLLECTIVE, /* a collective moves data after all ranks have arrived */
    AORTA_PATH_COPY,       /* a copy or fill runs */
    AORTA_PATH_LAUNCH,     /* from a launch to the start of its work */
    AORTA_PATH_BEHIND,     /* from the end of work to the start of work that waited for it, on its stream or queue or
                            * another stream */
    AORTA_PATH_CALL,       /* a call of the host */
    AORTA_PATH_RETURN,     /* a call returns after the work that it waited for */
    AORTA_PATH_HOST,       /* the host between two calls */
    AORTA_PATH_DATA,       /* the host waits for data */
    AORTA_PATH_UNEXPLAINED,
    AORTA_PATH_KIND_COUNT
};
const char *aorta_path_kind_name(int kind); /* "kernel", "collective", … */

struct aorta_path_piece {
    int64_t start_ns, end_ns; /* on the clock of the rank's trace */
    uint32_t rank;            /* place in the analysis */
    uint8_t kind;             /* enum aorta_path_kind */
    const char *name;         /* of the work or call that runs or starts then; NULL: none */
};

struct aorta_critical_path {
    struct aorta_path_piece *pieces; /* earliest first; none is empty */
    size_t count;
    const char *reason; /* why there is none; NULL */
};
/* The path through all ranks of the recording as it is. Its pieces are contiguous from the start of measuring (the end
 * of the first step's lead) to the last end. If no graph can be made, path->reason says why, which is no
 * error. AORTA_MEMORY.
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
/* `rank`: index; UINT32_MAX: all. */
void aorta_path_rows_make(const struct aorta_critical_path *path, uint32_t rank, struct aorta_arena *arena,
                          struct aorta_path_rows *rows);

#endif
