/* Many ranks' traces as one, on one clock: a Kineto (Chrome) trace with a process for each rank, as Perfetto,
 * chrome://tracing and `aorta trace` read it.
 *
 * Kineto files are copied event by event. Only process, thread, time and the ids of flows and asynchronous events are
 * rewritten. Other members of the file become the rank's "head" in the member "ranks". Traces of other formats are
 * written from memory: device work, its calls, flows between them, marked ranges. Memory does not grow with the size of
 * Kineto files, except for alignment: a few hundred bytes per kernel. */
#ifndef AORTA_REPORT_MERGE_H
#define AORTA_REPORT_MERGE_H

#include "analysis/align.h"
#include "analysis/series.h"
#include "base/intern.h"
#include "base/json.h"
#include "base/text.h"
#include "replay/critical_path.h"
#include "trace/open.h"

/* Tracks that the analysis of the same files adds to the trace. Borrowed. */
struct aorta_merge_tracks {
    const struct aorta_trace_list *traces; /* of the paths, already read, as the standard input can be read only once */
    const struct aorta_critical_path *path; /* its ranks are places in counters[] */
    const struct aorta_counters *counters;  /* of each rank of the analysis, in its order */
    size_t count;
};

/* Reads the files, or those of folders (open.h), aligns the ranks (align.h), writes `output`: packed if its name ends
 * in .gz, under a temporary name until it is whole. `report` gets the offsets, the residual and who was late, as lines
 * of text; `answer`: line 1 alone. Traces that do not know their rank get the lowest numbers free, in order. `tracks`:
 * NULL: none. AORTA_USAGE: two files of one rank, or `output` is one of the files. */
AORTA_MUST_USE aorta_status aorta_trace_merge(const char *const *paths, size_t count, const char *output,
                                              const struct aorta_trace_options *options,
                                              const struct aorta_merge_tracks *tracks, bool answer,
                                              struct aorta_text *report);

/* Inside `aorta trace merge`: merge.c (the whole, and the file), merge_events.c (Kineto files, event by event),
 * merge_model.c (other traces). */

/* ---- the file that is written ---- */
struct aorta_merge_sink {
    struct aorta_file_writer *file;
    struct z_stream_s *packer; /* NULL: it is not packed */
    struct aorta_text text;    /* what comes next */
    aorta_status failure;      /* the first one; then nothing more is written. Its owner's to return */
};
/* Call it between events: writes once the buffer is large enough. */
void aorta_merge_flush(struct aorta_merge_sink *sink);

/* ---- threads of a rank ----
 * A rank's processes (host, GPU 0, …) become one: their threads get numbers that differ. A thread keeps its number
 * where that is positive and free. */
struct merge_threads {              /* zero-initialise */
    struct aorta_texts keys, taken; /* the bytes of each key, and of each number */
    int64_t *numbers;               /* by the number of the key */
    size_t count, capacity;
    int64_t highest;
};
void aorta_merge_threads_free(struct merge_threads *threads);

/* ---- values ----
 * Copies a value as valid JSON. False if it is no value: the caller then discards the partial output. */
bool aorta_merge_copy(struct aorta_text *out, struct aorta_json_value value);

/* ---- one rank's events ---- */
struct merge_rank {
    const struct aorta_align_rank *source;
    const struct aorta_align_clock *clock;
    size_t index, count;  /* among all ranks: makes ids of flows unique */
    bool several_devices; /* names of streams say on which */
    const struct aorta_trace_options *options;
    struct aorta_execution_traces *executed; /* source of shapes that the events lack; or NULL */
    struct aorta_merge_sink *sink;
    struct aorta_text *out; /* the sink's; fails if memory is exhausted */
    bool *first;            /* no event has been written yet: no comma before the next */
    struct aorta_json json; /* of aorta_merge_begin's event */
    struct merge_threads threads;
    struct aorta_text members; /* of the file's outermost object, besides the events: "key": value, … */
    struct aorta_text scratch;
    int64_t events, odd, lost; /* written; without a readable time; not readable after the break */
};

/* `key`: a hash of process and thread. `wanted` <= 0: any number. *added: the thread is new. */
int64_t aorta_merge_thread(struct merge_rank *rank, uint64_t key, int64_t wanted, bool *added);
/* An event of the rank, as an open object: `category` may be NULL. Then its thread and time, or its begin and end. */
struct aorta_json *aorta_merge_begin(struct merge_rank *rank, const char *phase, const char *category,
                                     const char *name);
void aorta_merge_start(struct merge_rank *rank, int64_t thread, int64_t own_ns);
void aorta_merge_range(struct merge_rank *rank, int64_t thread, int64_t start_ns, int64_t end_ns);
/* {"ph": "M", "name": "process_name", …}: "name", "labels", "sort_index" of the rank's process. */
void aorta_merge_process(struct merge_rank *rank);
void aorta_merge_thread_name(struct merge_rank *rank, int64_t thread, const char *name);
/* A time of the rank's own clock, as microseconds of the common one. */
void aorta_merge_time(struct merge_rank *rank, int64_t own_ns);
/* The id of a flow, unique among ranks. */
void aorta_merge_id(struct merge_rank *rank, int64_t id);

AORTA_MUST_USE aorta_status aorta_merge_kineto(struct merge_rank *rank);
void aorta_merge_model(struct merge_rank *rank);

#endif
