/* Peak rates of devices: dense arithmetic by type, and memory bandwidth. */
#ifndef AORTA_VERDICT_DEVICES_H
#define AORTA_VERDICT_DEVICES_H

#include "analysis/analysis.h"
#include "base/arena.h"
#include "trace/operations.h"

/* A device as a recording describes it. */
struct aorta_device_facts {
    const char *name;        /* from the runtime or the tool; NULL: unknown */
    int64_t memory_bytes;    /* this and the next three: -1: unknown */
    int32_t multiprocessors; /* compute units */
    int32_t major, minor;
};

/* Rates are NaN if unknown. Texts are static unless the function that sets them says otherwise. */
struct aorta_peaks {
    const char *device; /* name in the table; NULL: see reason */
    const char *source;
    const char *reason;                    /* NULL: the peaks are known */
    const char *clock;                     /* "boost": the vendor's rates; NULL: measured */
    double tflops[AORTA_ARITHMETIC_COUNT]; /* without sparsity */
    double gbytes_per_s;                   /* of the device's memory */
};

/* Looks the device up in devices.def: by name, else by architecture. Number of multiprocessors and memory must fit,
 * too. Peaks are unknown if several rows with different peaks fit. */
void aorta_peaks_find(const struct aorta_device_facts *device, struct aorta_peaks *peaks);

/* The peaks of the rank's device. Texts are static. */
void aorta_rank_peaks(const struct aorta_trace_analysis *analysis, size_t rank, struct aorta_peaks *peaks);
/* The device's recorded name, in `memory`. If it is empty: compute units and memory. NULL: unknown. */
const char *aorta_rank_device_name(const struct aorta_trace_analysis *analysis, size_t rank,
                                   const struct aorta_peaks *peaks, struct aorta_arena *memory);

#endif
