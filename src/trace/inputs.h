/* What a command line names: trace files, and folders of them. */
#ifndef AORTA_TRACE_INPUTS_H
#define AORTA_TRACE_INPUTS_H

#include "trace/open.h"
#include "trace/trace.h"

/* Reads files, "-" (the standard input), and of folders (with those in them) and archives what aorta_trace_recognise
 * finds. In order of the paths; within a
 * folder ranks in order of their numbers. A file that has two names, or a copy in another place, is read once, and its
 * first trace says so (AORTA_REASON_SAME_FILE). Traces without marked steps get those that infer.h finds, from
 * repetition only spools and Nsight Systems'. AORTA_USAGE: a path that is not there or a folder without traces; else as
 * aorta_trace_open.
 */
AORTA_MUST_USE aorta_status aorta_trace_open_inputs(const char *const *paths, size_t count,
                                                    const struct aorta_trace_options *options,
                                                    struct aorta_trace_list *list);

/* AORTA_USAGE when a folder, which exists, holds what aorta_trace_open_inputs would read of it: a new recording there
 * would be analysed together with the old one. `option` names it in the message, as in "-o". */
AORTA_MUST_USE aorta_status aorta_trace_check_unused(const char *folder, const char *option);

#endif
