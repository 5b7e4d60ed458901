/* The page of one recording, or of several side by side. A recording is anything that was analyzed as a trace, from any
 * recorder. A run of `aorta train` also has metrics lines and a summary. */
#ifndef AORTA_REPORT_PAGE_RECORDINGS_H
#define AORTA_REPORT_PAGE_RECORDINGS_H

#include "base/intern.h"
#include "base/json.h"
#include "report/summary.h"
#include "report/trace_report.h"

#include <stdbool.h>
#include <stdint.h>

/* Borrowed. */
struct aorta_page_recording {
    const char *label;
    struct aorta_trace_report report; /* analysis NULL: a run whose steps hold no ranges */
    const struct aorta_recorded *run; /* NULL: the recording is no run */
};

/* Borrowed; each text one JSON value, or empty. */
struct aorta_page_recordings {
    const char *title;
    const struct aorta_page_recording *items;
    size_t count;
    const struct aorta_text *comparisons; /* of runs: an array of aorta_label_comparison_json */
    const struct aorta_text *comparison;  /* aorta_trace_comparison_json */
};

/* Tables of work (bits 1 << enum aorta_by) that the page of one recording shows by default. */
extern const unsigned aorta_page_by;

/* With its verdict (aorta_recorded_evaluate), if there is one. */
struct aorta_page_recording aorta_page_recording_of(const char *label, const struct aorta_recorded *recorded);

/* AORTA_UNSUPPORTED, AORTA_MEMORY, AORTA_IO. */
AORTA_MUST_USE aorta_status aorta_page_recordings_write(const struct aorta_page_recordings *page, const char *path);
/* Only the data of the page: one object. */
void aorta_page_recordings_json(const struct aorta_page_recordings *page, struct aorta_json *json);

/* Lanes of the critical path (if known), of threads that launch, of streams and of exposed communication, as JSON of at
 * most about `most` spans. (page_timeline.c) */
void aorta_page_timeline(const struct aorta_trace_report *report, size_t most, struct aorta_json *json);

/* The timeline of one step of the first rank. `window`: its place in the rank's windows. */
void aorta_page_step(const struct aorta_trace_analysis *analysis, size_t window, size_t most, struct aorta_json *json);

/* Key and value of "flame", if operations or modules that launched work are known. */
void aorta_page_flame(const struct aorta_trace_analysis *analysis, struct aorta_json *json);

/* Lanes of the page's timeline: spans of streams and hosts, joined until the page is small enough. */

/* What distinguishes spans by colour; the numbers are the page's (web/timeline.js). */
enum aorta_page_kind {
    AORTA_PAGE_COMPUTE,
    AORTA_PAGE_ALL_GATHER,
    AORTA_PAGE_REDUCE_SCATTER,
    AORTA_PAGE_ALL_REDUCE,
    AORTA_PAGE_OTHER_COLLECTIVE,
    AORTA_PAGE_COPY,
    AORTA_PAGE_FILL,
    AORTA_PAGE_EXPOSED,
    AORTA_PAGE_LAUNCH,
    AORTA_PAGE_WAIT,
    AORTA_PAGE_OTHER_CALL
};

struct aorta_page_span {
    int64_t start_ns, end_ns; /* clock of the lanes */
    uint32_t name;            /* aorta_page_name's; 0: several spans that were joined */
    enum aorta_page_kind kind;
};

struct aorta_page_lane {
    int rank;
    char label[48];
    bool derived;                  /* its spans are also in other lanes */
    struct aorta_page_span *spans; /* in any order */
    size_t count, capacity;
};

/* Zero-initialise; aorta_page_lanes_free. */
struct aorta_page_lanes {
    struct aorta_page_lane *items;
    size_t count, capacity;
    struct aorta_page_step {
        int64_t start_ns, number;
    } * steps; /* ascending */
    size_t step_count, step_capacity;
    struct aorta_texts named; /* the bytes of both pointers of a name */
    struct aorta_text names;  /* JSON strings with commas between them; its failure is that of all lanes */
};

/* The number of a name, "first second" or `first` alone. Equal pointers are one name: strings that are stored once. */
uint32_t aorta_page_name(struct aorta_page_lanes *lanes, const char *first, const char *second);
/* Returns the lane's place; SIZE_MAX, to which no spans can be added, without memory. */
size_t aorta_page_lane_add(struct aorta_page_lanes *lanes, int rank, const char *label, bool derived);
void aorta_page_span_add(struct aorta_page_lanes *lanes, size_t lane, struct aorta_page_span span);

/* Writes one JSON object with at most about `most` spans: if there are more, neighbours of one kind are joined. */
void aorta_page_lanes_write(struct aorta_page_lanes *lanes, size_t most, struct aorta_json *json);
void aorta_page_lanes_free(struct aorta_page_lanes *lanes);

/* Limit for all timelines of a page together. */
enum { AORTA_PAGE_SPANS = 300000 };

#endif
