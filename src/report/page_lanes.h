/* Streams and hosts over time, as the page draws them: lanes of spans, thinned to what a page can carry. */
#ifndef AORTA_REPORT_PAGE_LANES_H
#define AORTA_REPORT_PAGE_LANES_H

#include "base/collective.h"
#include "base/json.h"
#include "base/table.h"

#include <stdbool.h>
#include <stdint.h>

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
enum aorta_page_kind aorta_page_collective(enum aorta_collective collective);

struct aorta_page_span {
    int64_t start_ns, end_ns; /* clock of the lanes */
    uint32_t name;            /* aorta_page_name's; 0: several spans that were joined */
    uint8_t kind;             /* enum aorta_page_kind */
};

struct aorta_page_lane {
    int rank;
    char label[48];
    bool derived;                  /* of spans that other lanes have */
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
    struct aorta_page_named {
        const char *first, *second;
    } * named; /* number - 1 is the place */
    size_t name_count, named_capacity;
    struct aorta_table table; /* of the names */
    struct aorta_text names;  /* JSON strings, each with a comma in front but the first; fails for all of the lanes */
};

/* The number of a name, "first second" or `first` alone. Equal pointers are one name: strings that are stored once. */
uint32_t aorta_page_name(struct aorta_page_lanes *lanes, const char *first, const char *second);
/* Returns its place; SIZE_MAX, which takes no spans: no memory. */
size_t aorta_page_lane_add(struct aorta_page_lanes *lanes, int rank, const char *label, bool derived);
void aorta_page_span_add(struct aorta_page_lanes *lanes, size_t lane, struct aorta_page_span span);
void aorta_page_step_add(struct aorta_page_lanes *lanes, int64_t start_ns, int64_t number);

/* Leaves what lies between two times. */
void aorta_page_lanes_cut(struct aorta_page_lanes *lanes, int64_t from_ns, int64_t to_ns);

/* At most about `most` spans, neighbours of one kind joined where there are more; one JSON object, which has failed
 * where memory was exhausted. */
void aorta_page_lanes_write(struct aorta_page_lanes *lanes, size_t most, struct aorta_json *json);
void aorta_page_lanes_free(struct aorta_page_lanes *lanes);

/* Of all timelines of a page. */
enum { AORTA_PAGE_SPANS = 300000 };

#endif
