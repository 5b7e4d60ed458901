/* Ranges around one's own work on a GPU or on the host, and how much of the communication they hide.
 *
 *     struct libaorta_ranges *ranges;
 *     libaorta_ranges_create(LIBAORTA_CUDA, &ranges, NULL, 0);
 *     int compute = libaorta_range_begin(ranges, LIBAORTA_COMPUTE, stream);   work on the stream
 *     libaorta_range_end(ranges, compute, stream);
 *     …
 *     libaorta_ranges_overlap(ranges, &overlap, NULL, 0);                     waits for the ranges' ends
 *
 * On a GPU each end is an event on the stream (a CUstream, cudaStream_t or hipStream_t; NULL is the default stream): it
 * costs the host about a microsecond, and includes what waits in the stream. Event times have some 0.5 us, and less
 * beyond 8 s. A set of ranges belongs to one thread at a time on the GPU; on the host any threads may begin and end. */
#ifndef LIBAORTA_RANGES_H
#define LIBAORTA_RANGES_H

#include "aorta.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum libaorta_clock {
    LIBAORTA_HOST, /* CLOCK_MONOTONIC at begin and end; streams are ignored */
    LIBAORTA_CUDA, /* events of the driver that the process has loaded, in its current context */
    LIBAORTA_HIP   /* has not run on AMD hardware */
};

enum libaorta_kind { LIBAORTA_COMPUTE, LIBAORTA_COMMUNICATION, LIBAORTA_COPY };

/* In ns; unions of ranges of a kind, as docs/metrics.md defines them. */
struct libaorta_overlap {
    int64_t span_ns; /* first begin to last end */
    int64_t compute_ns, comm_ns, copy_ns;
    int64_t overlap_ns;      /* communication while compute runs */
    int64_t exposed_comm_ns; /* not hidden */
    int64_t idle_ns;         /* no range at all */
    double overlap_ratio;    /* overlap_ns / comm_ns; NaN without communication */
};

struct libaorta_ranges;
/* LIBAORTA_UNSUPPORTED: the process has not loaded that driver. The caller ends *ranges with libaorta_ranges_free. */
enum libaorta_result libaorta_ranges_create(enum libaorta_clock clock, struct libaorta_ranges **ranges, char *message,
                                            size_t size);
void libaorta_ranges_free(struct libaorta_ranges *ranges); /* NULL is fine */

/* The range's number for libaorta_range_end; -1: no memory, or the driver refused. */
int libaorta_range_begin(struct libaorta_ranges *ranges, enum libaorta_kind kind, void *stream);
/* LIBAORTA_INVALID: no such range, or it has ended. */
enum libaorta_result libaorta_range_end(struct libaorta_ranges *ranges, int range, void *stream);

/* Overlap of all ranges that have ended; waits for their ends on the GPU. The set is empty afterwards. */
enum libaorta_result libaorta_ranges_overlap(struct libaorta_ranges *ranges, struct libaorta_overlap *overlap,
                                             char *message, size_t size);

#ifdef __cplusplus
}
#endif

#endif
