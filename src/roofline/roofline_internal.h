/* How a roofline is filled; for this folder only. */
#ifndef AORTA_ROOFLINE_ROOFLINE_INTERNAL_H
#define AORTA_ROOFLINE_ROOFLINE_INTERNAL_H

#include "base/interval.h"
#include "base/table.h"
#include "roofline/roofline.h"

/* A kernel, or the part of it that lies in a step. Texts are compared by address and borrowed until the end. */
struct aorta_roofline_work {
    int64_t start_ns, end_ns;
    enum aorta_work_class class;
    enum aorta_arithmetic arithmetic;
    bool covered;                          /* its operation's flops and bytes are known */
    bool runs;                             /* counts as a run of its operation: the first of its kernels */
    double flops, bytes;                   /* 0 but on the operation's first kernel */
    const char *operation, *dims, *kernel; /* dims NULL: not known */
};

struct aorta_roofline_group; /* runs of one operation and shape */
struct aorta_roofline_build {
    struct aorta_roofline *roofline;
    struct aorta_roofline_group *groups; /* in order of arrival */
    size_t group_count, group_capacity;
    struct aorta_table table;                                                            /* of the groups */
    struct aorta_intervals all[AORTA_WORK_CLASS_COUNT], covered[AORTA_WORK_CLASS_COUNT]; /* of the step */
};

/* Of an empty *roofline. Ends with aorta_roofline_build_end, also after a failure. */
void aorta_roofline_build_begin(struct aorta_roofline_build *build, struct aorta_roofline *roofline);
AORTA_MUST_USE aorta_status aorta_roofline_build_work(struct aorta_roofline_build *build,
                                                      const struct aorta_roofline_work *work);
/* What kernels of this class and operation do that are added apart, as kernels without flops and bytes. */
AORTA_MUST_USE aorta_status aorta_roofline_build_amount(struct aorta_roofline_build *build,
                                                        const struct aorta_roofline_work *work);
/* Arithmetic of a step that belongs to no kernel in particular: it counts for MFU only. */
void aorta_roofline_build_flops(struct aorta_roofline_build *build, enum aorta_arithmetic arithmetic, double flops);
/* What was added since the last step lies in one of this length. */
void aorta_roofline_build_step(struct aorta_roofline_build *build, int64_t step_ns);
/* Takes `status` on: a roofline after a failure is empty. */
AORTA_MUST_USE aorta_status aorta_roofline_build_end(struct aorta_roofline_build *build, aorta_status status);

/* So much of the class has known shapes that its rate is not that of a few. */
/* The shapes of so much of the time are known that a rate of it says something. (text.c) */
bool aorta_roofline_share_rated(double covered);
bool aorta_roofline_rated(const struct aorta_roofline_class *class);

#endif
