/* What a device can do at most: dense arithmetic by type, and the bandwidth of its memory. */
#ifndef AORTA_VERDICT_DEVICES_H
#define AORTA_VERDICT_DEVICES_H

#include "analysis/analysis.h"
#include "base/arena.h"
#include "trace/operations.h"

/* A device as a recording describes it. */
struct aorta_device_facts {
    const char *name;        /* the runtime's or the tool's; NULL: not known */
    int64_t memory_bytes;    /* -1: not known, as the rest */
    int32_t multiprocessors; /* compute units */
    int32_t major, minor;
};

/* Rates are NaN where they are not known. Texts are static unless the maker says otherwise. */
struct aorta_peaks {
    const char *device; /* the table's name; NULL: see reason */
    const char *source;
    const char *reason;                    /* NULL: the peaks are known */
    const char *clock;                     /* "boost": the vendor's rates; NULL: measured */
    double tflops[AORTA_ARITHMETIC_COUNT]; /* without sparsity */
    double gbytes_per_s;                   /* of the device's memory */
};

/* Looks the device up in devices.def: by name, else by architecture, and never against its number of multiprocessors or
 * its memory. What fits several rows with different peaks is not known. */
void aorta_peaks_find(const struct aorta_device_facts *device, struct aorta_peaks *peaks);

/* The peaks of the rank's device, as recorded; their texts are static. */
void aorta_rank_peaks(const struct aorta_trace_analysis *analysis, size_t rank, struct aorta_peaks *peaks);
/* The device's name as recorded, else what is known of it, in `memory`; NULL: nothing is. */
const char *aorta_rank_device_name(const struct aorta_trace_analysis *analysis, size_t rank,
                                   const struct aorta_peaks *peaks, struct aorta_arena *memory);

#endif
