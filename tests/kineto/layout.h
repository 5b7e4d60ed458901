/* A trace file in the layout of PyTorch's profiler, read without this program's code. */
#ifndef AORTA_TESTS_KINETO_LAYOUT_H
#define AORTA_TESTS_KINETO_LAYOUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Parses the file and fails the test unless it has the layout: head, keys of every event by its phase, one launch for
 * every arrow and arrow for every launch, ranges on one track nested or apart. Free it with json_decref. */
json_t *layout_read(const char *path);

/* How many events have this phase, category and name; NULL: anything. */
int layout_count(const json_t *trace, const char *phase, const char *category, const char *name);
/* The nth such event, from 0; fails when there is none. */
const json_t *layout_event(const json_t *trace, const char *phase, const char *category, const char *name, int nth);
int64_t layout_start_ns(const json_t *event);
int64_t layout_end_ns(const json_t *event);
const char *layout_text(const json_t *event, const char *arg); /* fails when there is no such text */
int64_t layout_number(const json_t *event, const char *arg);   /* fails when there is no such integer */
bool layout_has(const json_t *event, const char *arg);

/* Unions of intervals over the device's events, in ns: by category and by the one table of collective kernels. */
struct layout_figures {
    int64_t compute, comm, memcpy, busy, span, overlap;
};
/* Events of one step (arg "step"); -1: of all. */
struct layout_figures layout_figures(const json_t *trace, int64_t step);

#endif
