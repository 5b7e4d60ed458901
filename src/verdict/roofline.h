/* The operations of a step compared with the peaks of the device.
 *
 * Each operation of known shape has arithmetic (flops) and a least number of bytes. Its bound is the longer of two
 * times: of the arithmetic at the peak of its type, and of the bytes at the peak bandwidth. Sums are over the steps of
 * one rank. Times are unions of the kernels' times. Definitions: docs/metrics.md. */
#ifndef AORTA_VERDICT_ROOFLINE_H
#define AORTA_VERDICT_ROOFLINE_H

#include "analysis/analysis.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/result_table.h"
#include "verdict/devices.h"

enum aorta_bound { AORTA_BOUND_NOT_KNOWN, AORTA_BOUND_ARITHMETIC, AORTA_BOUND_MEMORY };

/* Kernels of one class. Flops and bytes are known only for `covered_ns` of their time. */
struct aorta_roofline_class {
    size_t kernels;
    int64_t ns, covered_ns;
    double flops, bytes;              /* of the covered time */
    double arithmetic_ns, memory_ns;  /* at the peaks; NaN: a peak is unknown */
    double bound_ns;                  /* sum over operations of the longer of the two; NaN: a peak is unknown */
    enum aorta_arithmetic arithmetic; /* type of most flops */
};

/* Runs of one operation with one shape. */
struct aorta_roofline_row {
    const char *operation, *dims, *kernel; /* kernel: its longest; dims NULL: unknown */
    enum aorta_work_class class;
    enum aorta_arithmetic arithmetic;
    size_t runs;
    int64_t ns;          /* sum over kernels */
    double flops, bytes; /* of all runs */
    double arithmetic_ns, memory_ns, bound_ns;
};

enum { AORTA_ROOFLINE_ROWS = 10 };

/* One rank, or several together. aorta_roofline_free. */
struct aorta_roofline {
    struct aorta_arena texts; /* of the device and the rows */
    const char *device_name;  /* as recorded; NULL: unknown */
    struct aorta_peaks peaks;
    bool lower_bound; /* rates are lower bounds, as times of ranges contain gaps */
    size_t steps;
    int64_t step_ns; /* sum of all steps */
    double loose_ns; /* arithmetic of unknown kernels, at the peaks */
    struct aorta_roofline_class classes[AORTA_WORK_CLASS_COUNT];
    struct aorta_roofline_row rows[AORTA_ROOFLINE_ROWS]; /* operations farthest above their bound, worst first */
    size_t row_count;
};

/* Makes the roofline of a recorded rank's steps, or of the whole recording if it has no steps. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_roofline_of_trace(const struct aorta_trace_analysis *analysis, size_t rank,
                                                    struct aorta_roofline *roofline);
void aorta_roofline_free(struct aorta_roofline *roofline);

/* Sums of several ranks, without rows. `joined` owns nothing. Its peaks are those of the first rank. */
void aorta_roofline_join(const struct aorta_roofline *ranks, size_t count, struct aorta_roofline *joined);

/* Rates of the covered time; NaN: nothing is covered. */
double aorta_roofline_tflops(const struct aorta_roofline_class *class);
double aorta_roofline_gbytes_per_s(const struct aorta_roofline_class *class);
enum aorta_bound aorta_roofline_bound(const struct aorta_roofline_class *class);
/* Share of the peak that bounds the class; NaN: unknown. Above 1 if data comes from a cache. */
double aorta_roofline_share(const struct aorta_roofline_class *class);
double aorta_roofline_covered(const struct aorta_roofline_class *class); /* covered share of its time */
/* The covered share is large enough for a meaningful rate. */
bool aorta_roofline_rated(const struct aorta_roofline_class *class);
/* MFU: time of the step's arithmetic at the peak of each type, as a share of the step; NaN: unknown. `covered`: share
 * of the time of products, convolutions and attention with known arithmetic. */
double aorta_roofline_mfu(const struct aorta_roofline *roofline, double *covered);

/* Writes key "roofline" with its object; null if `roofline` is NULL. */
void aorta_roofline_write(const struct aorta_roofline *roofline, struct aorta_json *json);
/* Rows of the object, of its peaks and of its classes, for the docs. Tables of a roofline: classes of kernels, and the
 * operations farthest above their bound; NULL ends the list. */
extern const struct aorta_row aorta_roofline_head_rows[], aorta_roofline_peak_rows[], aorta_roofline_class_rows[];
extern const struct aorta_result_table *const aorta_roofline_tables[];

#endif
