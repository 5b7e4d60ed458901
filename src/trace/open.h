/* Opening trace files of any format. */
#ifndef AORTA_TRACE_OPEN_H
#define AORTA_TRACE_OPEN_H

#include "trace/builder.h"

/* Reads one file, plain or gzip, by its content, and appends a trace for each process in it (mostly one). AORTA_IO:
 * cannot be read; AORTA_FORMAT: no trace of a known kind, or broken at the byte offset named. On failure the list is
 * unchanged. */
AORTA_MUST_USE aorta_status aorta_trace_open(const char *path, const struct aorta_trace_options *options,
                                             struct aorta_trace_list *list);
/* Whether a file of a folder is a trace, by its suffix and content. Only one file of a set that is read together
 * counts. A file that breaks before its kind is known is none. *pointer: its content is still on Git LFS's server.
 * AORTA_IO. */
AORTA_MUST_USE aorta_status aorta_trace_recognise(const char *path, bool *trace, bool *pointer);
/* Whether a file is no trace but adds facts to a trace (execution_trace.h). AORTA_IO. */
AORTA_MUST_USE aorta_status aorta_trace_is_companion(const char *path, bool *companion);
/* Reads several files in parallel on all processors. The list is in the order of the paths. Returns the first failure;
 * the list is then unchanged. */
AORTA_MUST_USE aorta_status aorta_trace_open_many(const char *const *paths, size_t count,
                                                  const struct aorta_trace_options *options,
                                                  struct aorta_trace_list *list);

/* ---- inputs of a command line: trace files and folders ---- */

/* Reads files, "-" (the standard input), and the traces that aorta_trace_recognise finds in archives and, recursively,
 * in folders. Traces are in the order of the paths, within a folder in the order of rank numbers. A file with two names
 * or a copy is read once, with a warning in its first trace (AORTA_REASON_SAME_FILE). Traces without marked steps get
 * those that infer.h finds, from repetition only if no trace is of Kineto, XLA or metrics lines. AORTA_USAGE for a
 * missing path or a folder without traces; else as aorta_trace_open. */
AORTA_MUST_USE aorta_status aorta_trace_open_inputs(const char *const *paths, size_t count,
                                                    const struct aorta_trace_options *options,
                                                    struct aorta_trace_list *list);

/* The last part of aorta_trace_open_inputs, for traces that were read otherwise: joins the captures of a program,
 * counts requests, numbers ranks, and finds steps. */
AORTA_MUST_USE aorta_status aorta_trace_finish(struct aorta_trace_list *list,
                                               const struct aorta_trace_options *options);

/* AORTA_USAGE if an existing folder contains traces, as a new recording there would be analysed together with the old
 * one. `option` names the folder in the message, as in "-o". */
AORTA_MUST_USE aorta_status aorta_trace_check_unused(const char *folder, const char *option);

#endif
