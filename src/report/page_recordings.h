/* The page of recordings: one, or several side by side. A recording is what was analysed as a trace, whoever made it;
 * a run of `aorta train` has its lines and summary besides. */
#ifndef AORTA_REPORT_PAGE_RECORDINGS_H
#define AORTA_REPORT_PAGE_RECORDINGS_H

#include "report/comparison.h"
#include "report/recorded.h"
#include "report/trace_report.h"

/* Borrowed. */
struct aorta_page_recording {
    const char *label;
    struct aorta_trace_report report; /* analysis NULL: a run whose steps hold no ranges */
    const struct aorta_labelled *run; /* NULL: it is none */
};

/* Borrowed; each text one JSON value, or empty. */
struct aorta_page_recordings {
    const char *title;
    const struct aorta_page_recording *items;
    size_t count;
    const struct aorta_text *comparisons; /* of runs: an array of aorta_label_comparison_json */
    const struct aorta_text *comparison;  /* aorta_trace_comparison_json */
};

/* Tables of work (bits 1 << enum aorta_by) that the page of one recording shows where nothing is asked for. */
extern const unsigned aorta_page_by;

struct aorta_page_recording aorta_page_recording_of_run(const struct aorta_labelled *run);
/* With its verdict (aorta_recorded_evaluate). */
struct aorta_page_recording aorta_page_recording_of(const char *label, const struct aorta_recorded *recorded);

/* AORTA_UNSUPPORTED, AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_page_of_recordings(const struct aorta_page_recordings *page, struct aorta_text *out);

/* Lanes of the critical path, where there is one, of the threads that launch, of streams and exposed communication, as
 * JSON of at most about `most` spans. (page_timeline.c) */
void aorta_page_timeline(const struct aorta_trace_report *report, size_t most, struct aorta_json *json);

/* The timeline of one step of the first rank. `window`: its place in the rank's windows. */
void aorta_page_step(const struct aorta_trace_analysis *analysis, size_t window, size_t most, struct aorta_json *json);

/* Key and value of "flame", where anything is known of what launched the work. (page_flame.c) */
void aorta_page_flame(const struct aorta_trace_analysis *analysis, struct aorta_json *json);

#endif
