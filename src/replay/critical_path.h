/* Walks the replay's graph along its critical path (graph.h) and names what lies on it. */
#ifndef AORTA_REPLAY_CRITICAL_PATH_H
#define AORTA_REPLAY_CRITICAL_PATH_H

#include "analysis/analysis.h"
#include "analysis/critical_path.h"

/* Of the recording as it is, of all ranks: pieces follow each other from where measuring begins (the first step's end
 * of lead) to the last end. A graph that cannot be made is no failure: path->reason says why. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_critical_path_make(const struct aorta_trace_analysis *analysis,
                                                     struct aorta_critical_path *path);

#endif
