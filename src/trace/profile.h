/* Measurements of one iteration on one rank.
 *
 * A range is the time of one operation on one stream: from the start of its first kernel to the end of its last or,
 * without kernel records, between two timestamps around it. Roles name what a stream is for; several roles may share
 * one stream. Times are int64 ns on the device clock. */
#ifndef AORTA_TRACE_PROFILE_H
#define AORTA_TRACE_PROFILE_H

#include "base/collective.h"
#include "base/dtype.h"
#include "base/interval.h"
#include "base/status.h"

enum aorta_role {
    AORTA_ROLE_COMPUTE,
    AORTA_ROLE_ALLREDUCE,
    AORTA_ROLE_REDUCESCATTER,
    AORTA_ROLE_AUX,
    AORTA_ROLE_COUNT
};
const char *aorta_role_name(int role); /* "compute", "allreduce", "reducescatter", "aux" */

enum aorta_range_kind { AORTA_RANGE_COMPUTE, AORTA_RANGE_COLLECTIVE, AORTA_RANGE_COPY };

/* The role of the stream on which such work usually runs, used if the role is unknown. */
enum aorta_role aorta_usual_role(enum aorta_range_kind kind, enum aorta_collective collective);

enum { AORTA_RANGE_DIMS = 4 };

/* Describes an operation. Strings are borrowed and outlive the recorder (static, or in the caller's arena). */
struct aorta_range_info {   /* small, as each recorded kernel has one */
    const char *tag;        /* "encoder.layers.3.linear1" */
    const char *function;   /* "linear_forward", "all_gather" */
    const char *alike;      /* products of unknown flops: dims or grid, which distinguish them; NULL if unknown */
    const char *within;     /* kernels: tag of the range they belong to; NULL: not certain, or no kernel */
    const char *operation;  /* kernels: the inner range around them ("linear_forward"); NULL: none */
    int64_t bytes;          /* collectives: larger buffer of one rank (as nccl-tests); copies: bytes; compute: read and
                               written at least; 0: not known */
    double flops;           /* arithmetic of products and attention, else 0 */
    double attention_flops; /* attention's part of flops, and below of bytes, if a range has products and attention */
    int64_t attention_bytes;
    int group_size;   /* ranks of the collective, else 0 */
    int group;        /* lowest world rank of the group: distinguishes groups of equal size (0 for the group of all) */
    int group_stride; /* distance between its ranks; 0 means 1 */
    int layer;        /* encoder layer, -1 for the root unit or none */
    int number;       /* kernels: number of their operation in the iteration, shared by its kernels; 0: unknown */
    /* Shapes of the inputs, each ends at its first 0. Matrix product: [m, k] and [k, n]; attention: [batch, heads,
     * positions, elements of a head]. */
    int32_t dims[2][AORTA_RANGE_DIMS];
    enum aorta_role role : 8;
    enum aorta_range_kind kind : 8;
    enum aorta_collective collective : 8; /* when kind is COLLECTIVE */
    enum aorta_dtype dtype : 8;           /* of the elements, if bytes or dims are set; AORTA_DTYPE_COUNT: unknown */
    bool by_grid;                         /* `alike` is the grid: the shape is not known */
    bool activations;                     /* collectives: of activations, which compute needs at once */
    bool page_read;                       /* copies: fetches a page of managed memory that the host reads */
    bool simulated;                       /* local backend: a copy replaces the collective */
    bool inner; /* an operation within the open range: it shows only through its kernels' records */
};

/* Shapes as text: "[[768, 512], [512, 768]]"; "" without shapes. */
enum { AORTA_RANGE_DIMS_TEXT = 2 * (AORTA_RANGE_DIMS * 12 + 4) + 4 };
const char *aorta_range_dims_text(const struct aorta_range_info *info, char text[AORTA_RANGE_DIMS_TEXT]);
/* False if the text is malformed or has too many shapes or sizes. */
bool aorta_range_dims_parse(const char *text, struct aorta_range_info *info);

struct aorta_range {
    struct aorta_range_info info;
    int64_t start_ns, end_ns;
    int64_t enqueue_ns; /* host time of the launch, on the device clock; INT64_MIN: unknown */
    int64_t sequence;   /* collectives: number among those of the same role, kind and group in this step; pairs ranks */
    int stream;         /* number of its stream, in order of first use; roles that share a stream have the same */
    /* Only of kernel views, made of records (measure/kernels.c). */
    uint32_t record; /* index of the record */
    int owner;       /* index of the range it belongs to; -1: not certain */
    bool graph;      /* launched by a graph, together with all of its ranges */
};

/* Activities of the host that can delay launches. */
enum aorta_host_kind { AORTA_HOST_DATA_WAIT, AORTA_HOST_SYNC, AORTA_HOST_ALLOCATION, AORTA_HOST_KIND_COUNT };
const char *aorta_host_kind_name(int kind); /* "data_wait", "host_sync", "allocation" */

struct aorta_host_range {
    enum aorta_host_kind kind;
    int64_t start_ns, end_ns;
};

struct aorta_marker {
    const char *tag;
    enum aorta_role role;
    int64_t time_ns;
};

/* Whether a profile has ranges around operations, or the kernels and copies themselves (measure/kernels.c). */
enum aorta_profile_source { AORTA_SOURCE_RANGE, AORTA_SOURCE_KERNEL };
const char *aorta_profile_source_name(int source); /* "range", "kernel" */

/* About a kernel view. */
struct aorta_kernel_facts {
    int64_t dropped;         /* records lost since the view before */
    int64_t attributed;      /* ranges whose `within` is known */
    int64_t launches;        /* host calls that launched the ranges; a replayed graph counts once */
    int64_t clock_offset_ns; /* added to the library's times so that they agree with the device's timestamps */
    int64_t stamp_count;     /* kernels of the measurement (timestamps, clocks), which are not ranges */
    int64_t stamp_ns;        /* their time */
    int64_t last_stamp_ns;   /* when the timestamp launched last began; INT64_MIN: there was none */
};

/* Why the device was idle (docs/metrics.md). */
enum aorta_idle_cause {
    AORTA_IDLE_DATA_WAIT,      /* the host waited for input before it launched on */
    AORTA_IDLE_HOST_SYNC,      /* the host waited for the device before it launched on */
    AORTA_IDLE_HOST_LAUNCH,    /* the host had not launched the next operation, for any other reason */
    AORTA_IDLE_LAUNCH_LATENCY, /* the operation was launched, nothing ran before it, but it had not started */
    AORTA_IDLE_UNKNOWN,        /* the launch is not recorded */
    AORTA_IDLE_CAUSE_COUNT
};

struct aorta_idle {
    int64_t ns[AORTA_IDLE_CAUSE_COUNT];
};

/* One kind of collective within the iteration. */
struct aorta_collective_overlap {
    int64_t count;      /* collectives of this kind */
    int64_t bytes;      /* sum of their sizes */
    int64_t comm_ns;    /* U(kind) */
    int64_t overlap_ns; /* U(kind) ∩ U(compute) */
    int64_t exposed_ns; /* comm − overlap */
    int64_t blamed_ns;  /* this kind's part of exposed_comm_ns; the parts of all kinds add up to it exactly */
};

/* A stretch of time and the roles whose streams were active in it. */
struct aorta_segment {
    int64_t start_ns, end_ns;
    unsigned roles; /* bit r: enum aorta_role r; 0: idle */
};

/* A stretch in which a collective ran without concurrent compute. Where several ran, `range` is the collective that
 * ended the wait: the last to end before compute continued, else the first to end afterwards. Stretches are disjoint
 * and sorted by time. */
struct aorta_exposed {
    int64_t start_ns, end_ns;
    size_t range; /* index in the profile */
};

/* What an iteration's ranges say about overlap (analysis/overlap.h). */
struct aorta_overlap {
    int64_t span_ns;    /* first start, or the previous iteration's end where that is later, to last end */
    int64_t lead_ns;    /* gap between the previous iteration's end and this one's start; 0: none or not known */
    int64_t compute_ns; /* U(ranges that are neither collectives nor copies) */
    int64_t comm_ns, memcpy_ns, busy_ns, idle_ns;
    int64_t overlap_ns, exposed_comm_ns;
    int64_t exposed_copy_ns;      /* copies without concurrent compute or collectives */
    int64_t dependency_ns;        /* the next compute was launched but waited for another stream */
    double overlap_ratio;         /* NaN when comm_ns is 0 */
    double compute_overlap_ratio; /* NaN when compute_ns is 0 */
    int64_t role_ns[AORTA_ROLE_COUNT];
    double utilization[AORTA_ROLE_COUNT]; /* role_ns / span; NaN when the span is 0 */
    struct aorta_collective_overlap kind[AORTA_COLLECTIVE_COUNT];
    struct aorta_idle idle;         /* by cause, over idle_ns + lead_ns; adds up to it exactly */
    struct aorta_idle page_reads;   /* the part of `idle` between pages that the host reads one by one */
    struct aorta_segment *segments; /* owned */
    size_t segment_count;
    struct aorta_exposed *exposed; /* owned */
    size_t exposed_count;
    bool simulated; /* a collective was a local copy */
};

/* One iteration. Owned arrays; aorta_profile_free. Ranges are in order of enqueueing. */
struct aorta_profile {
    int64_t index;
    int64_t start_ns, end_ns; /* first start to last end over all ranges */
    enum aorta_profile_source source;
    struct aorta_kernel_facts kernels; /* zero for AORTA_SOURCE_RANGE */
    bool own_clock;                    /* times count from the iteration's own start: a file without the device clock */
    struct aorta_range *ranges;
    size_t range_count;
    struct aorta_host_range *host;
    size_t host_count;
    struct aorta_marker *markers;
    size_t marker_count;
    struct aorta_overlap overlap; /* zero until aorta_overlap_compute */
};
void aorta_profile_free(struct aorta_profile *profile);

/* The latest time at which the host had launched all of a range: when it came to the next range, or began to wait. The
 * range's own launch if that is unknown (the last range, or in a graph). */
int64_t aorta_range_launched_by(const struct aorta_profile *profile, size_t range);

#endif
