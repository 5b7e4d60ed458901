/* How near the operations of a step come to what the device can do.
 *
 * Each operation of known shape has arithmetic (flops) and moves bytes at least. At the peak of its type the arithmetic
 * takes some time, at the peak bandwidth the bytes take another; the longer of the two is the operation's bound. Sums
 * are over the steps of one rank, times unions of the kernels' times. Definitions: docs/metrics.md. */
#ifndef AORTA_VERDICT_ROOFLINE_H
#define AORTA_VERDICT_ROOFLINE_H

#include "analysis/analysis.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/result_table.h"
#include "verdict/devices.h"

enum aorta_bound { AORTA_BOUND_NOT_KNOWN, AORTA_BOUND_ARITHMETIC, AORTA_BOUND_MEMORY };

/* Kernels of one class. Flops and bytes are known for `covered_ns` of their time only. */
struct aorta_roofline_class {
    size_t kernels;
    int64_t ns, covered_ns;
    double flops, bytes;              /* of what is covered */
    double arithmetic_ns, memory_ns;  /* at the peaks; NaN: a peak is not known */
    double bound_ns;                  /* sum of the longer of the two, operation by operation; NaN likewise */
    enum aorta_arithmetic arithmetic; /* of most flops */
};

/* Runs of one operation with one shape. */
struct aorta_roofline_row {
    const char *operation, *dims, *kernel; /* kernel: the longest of its kernels; dims NULL: not known */
    enum aorta_work_class class;
    enum aorta_arithmetic arithmetic;
    size_t runs;
    int64_t ns;          /* sum over its kernels */
    double flops, bytes; /* of all runs */
    double arithmetic_ns, memory_ns, bound_ns;
};

enum { AORTA_ROOFLINE_ROWS = 10 };

/* One rank, or several together. aorta_roofline_free. */
struct aorta_roofline {
    struct aorta_arena texts; /* of the device and the rows */
    const char *device_name;  /* as recorded; NULL: not known */
    struct aorta_peaks peaks;
    bool lower_bound; /* times of ranges contain gaps, so that rates are lower bounds */
    size_t steps;
    int64_t step_ns; /* of all steps */
    double loose_ns; /* at the peaks: arithmetic of which the kernels are not known */
    struct aorta_roofline_class classes[AORTA_WORK_CLASS_COUNT];
    struct aorta_roofline_row rows[AORTA_ROOFLINE_ROWS]; /* those that lose most against their bound, worst first */
    size_t row_count;
};

/* Makes the roofline of a recorded rank's steps, or of the whole recording if it has no steps. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_roofline_of_trace(const struct aorta_trace_analysis *analysis, size_t rank,
                                                    struct aorta_roofline *roofline);
void aorta_roofline_free(struct aorta_roofline *roofline);

/* Sums of several ranks, without rows; nothing is owned. Peaks: those of the first rank if all have the same. */
void aorta_roofline_join(const struct aorta_roofline *ranks, size_t count, struct aorta_roofline *joined);

double aorta_roofline_tflops(const struct aorta_roofline_class *class);       /* of what is covered; NaN: nothing is */
double aorta_roofline_gbytes_per_s(const struct aorta_roofline_class *class); /* likewise */
enum aorta_bound aorta_roofline_bound(const struct aorta_roofline_class *class);
/* Share of the peak that bounds the class; NaN: not known. Above 1 where the data comes from a cache. */
double aorta_roofline_share(const struct aorta_roofline_class *class);
double aorta_roofline_covered(const struct aorta_roofline_class *class); /* share of its time */
/* The covered share of the time is large enough for a meaningful rate. */
bool aorta_roofline_rated(const struct aorta_roofline_class *class);
/* Arithmetic of the step at the peak of each type, as a share of the step; NaN: not known. `covered`: share of the time
 * of products, convolutions and attention whose arithmetic is known. */
double aorta_roofline_mfu(const struct aorta_roofline *roofline, double *covered);

/* Key "roofline" and its object. NULL: null. */
void aorta_roofline_write(const struct aorta_roofline *roofline, struct aorta_json *json);
/* The rows of the object and of its peaks, for the docs; and its tables, of a roofline: classes of kernels, and the
 * operations that lose most. NULL ends the list. */
extern const struct aorta_row aorta_roofline_head_rows[], aorta_roofline_peak_rows[], aorta_roofline_class_rows[];
extern const struct aorta_result_table *const aorta_roofline_tables[];

#endif
