/* Opening trace files of any format. */
#ifndef AORTA_TRACE_OPEN_H
#define AORTA_TRACE_OPEN_H

#include "trace/builder.h"
#include "trace/trace.h"

/* Reads one file, plain or gzip, by its content, and appends a trace for each process in it (mostly one). AORTA_IO:
 * cannot be read; AORTA_FORMAT: no trace of a known kind, or broken at the byte offset named. The list keeps what it
 * had before. */
AORTA_MUST_USE aorta_status aorta_trace_open(const char *path, const struct aorta_trace_options *options,
                                             struct aorta_trace_list *list);
/* Whether a file of a folder is one of these, by its name's suffix and by its content; of files that are read together
 * one is. What breaks before it says what it is, is none. *pointer: its content is still on Git LFS's server.
 * AORTA_IO. */
AORTA_MUST_USE aorta_status aorta_trace_recognise(const char *path, bool *trace, bool *pointer);
/* Whether it is no trace but adds facts to one (execution_trace.h). AORTA_IO. */
AORTA_MUST_USE aorta_status aorta_trace_is_companion(const char *path, bool *companion);
/* Reads several files, side by side on as many threads as there are processors; the list is in the order of the
 * paths. Fails with the first failure of any; the list then keeps what it had before. */
AORTA_MUST_USE aorta_status aorta_trace_open_many(const char *const *paths, size_t count,
                                                  const struct aorta_trace_options *options,
                                                  struct aorta_trace_list *list);

/* ---- what a command line names: trace files, and folders of them ---- */

/* Reads files, "-" (the standard input), and of folders (with those in them) and archives what aorta_trace_recognise
 * finds. Traces are in the order of the paths, within a folder ranks in the order of their numbers. A file that has two
 * names, or a copy in another place, is read once, and its first trace says so (AORTA_REASON_SAME_FILE). Traces without
 * marked steps get those that infer.h finds, from repetition only spools and Nsight Systems'. AORTA_USAGE: a path that
 * is not there or a folder without traces; else as aorta_trace_open. */
AORTA_MUST_USE aorta_status aorta_trace_open_inputs(const char *const *paths, size_t count,
                                                    const struct aorta_trace_options *options,
                                                    struct aorta_trace_list *list);

/* AORTA_USAGE when a folder, which exists, holds what aorta_trace_open_inputs would read of it: a new recording there
 * would be analysed together with the old one. `option` names it in the message, as in "-o". */
AORTA_MUST_USE aorta_status aorta_trace_check_unused(const char *folder, const char *option);

#endif
