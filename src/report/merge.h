/* Many ranks' traces as one, on one clock: a Kineto (Chrome) trace with a process for each rank, as Perfetto,
 * chrome://tracing and `aorta trace` read it.
 *
 * Kineto files are passed through event by event, with all they hold; only process, thread, time and the ids of flows
 * and asynchronous events are written anew. What else the file says goes into the member
 * "ranks", as the rank's "head". Traces of other formats are written from memory: device work, the calls behind it,
 * flows between them, marked ranges. Memory does not grow with the size of Kineto files, but for what alignment needs:
 * some hundred bytes for each kernel. */
#ifndef AORTA_REPORT_MERGE_H
#define AORTA_REPORT_MERGE_H

#include "analysis/align.h"
#include "analysis/series.h"
#include "base/text.h"
#include "replay/critical_path.h"
#include "trace/open.h"

struct aorta_merge_source {
    const char *path;
    const struct aorta_trace *trace;
    int rank;
    const struct aorta_align_clock *clock;
};

/* What the analysis of the same files adds to the trace. Borrowed. */
struct aorta_merge_tracks {
    const struct aorta_trace_list *traces;  /* of the paths, read already: the standard input is there once */
    const struct aorta_critical_path *path; /* its ranks are places in counters[] */
    const struct aorta_counters *counters;  /* of each rank of the analysis, in its order */
    size_t count;
};

/* Reads the files, or those of folders (open.h), aligns the ranks (align.h), writes `output`: packed if its name ends
 * in .gz, under a temporary name until it is whole. `report` gets the offsets, the residual and who was late, as lines
 * of text. Traces that do not know their rank get the lowest numbers free, in order. `tracks`: NULL: none. AORTA_USAGE:
 * two files of one rank, or `output` is one of the files. */
AORTA_MUST_USE aorta_status aorta_trace_merge(const char *const *paths, size_t count, const char *output,
                                              const struct aorta_trace_options *options,
                                              const struct aorta_merge_tracks *tracks, struct aorta_text *report);

#endif
