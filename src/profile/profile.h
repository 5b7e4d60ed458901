/* What was measured in one iteration on one rank, and how it is recorded.
 *
 * A range is the time between two device timestamps around one operation on one stream. Roles name what a stream is
 * for; several roles may share one stream. Times are int64 ns on the device clock. */
#ifndef AORTA_PROFILE_PROFILE_H
#define AORTA_PROFILE_PROFILE_H

#include "base/collective.h"
#include "base/dtype.h"
#include "base/interval.h"
#include "device/device.h"

enum aorta_role {
    AORTA_ROLE_COMPUTE,
    AORTA_ROLE_ALLREDUCE,
    AORTA_ROLE_REDUCESCATTER,
    AORTA_ROLE_AUX,
    AORTA_ROLE_COUNT
};
const char *aorta_role_name(enum aorta_role role); /* "compute", "allreduce", "reducescatter", "aux" */

enum aorta_range_kind { AORTA_RANGE_COMPUTE, AORTA_RANGE_COLLECTIVE, AORTA_RANGE_COPY };

/* What an operation is; strings are borrowed and outlive the recorder (static, or the caller's arena). */
struct aorta_range_info {
    const char *tag;      /* "encoder.layers.3.linear1" */
    const char *function; /* "linear_forward", "all_gather" */
    enum aorta_role role;
    enum aorta_range_kind kind;
    enum aorta_collective collective; /* when kind is COLLECTIVE */
    int group_size;                   /* ranks of the collective, else 0 */
    int group;              /* lowest world rank among them: tells groups of one size apart (0 for the group of all) */
    int group_stride;       /* distance of neighbours among them; 0 as 1 */
    int layer;              /* encoder layer, -1 for the root unit or none */
    int64_t bytes;          /* collectives: larger buffer of one rank (as nccl-tests); copies: bytes; else 0 */
    double flops;           /* GEMM arithmetic, else 0 */
    const char *alike;      /* products of unknown flops: what tells them apart, dims or grid; NULL: nothing does */
    bool by_grid;           /* it is the grid: the shape is not known */
    bool simulated;         /* local backend: a copy stands for the collective */
    enum aorta_dtype dtype; /* of the elements, where bytes or dims are given */
    int64_t dims[2][3];     /* shapes of the inputs, each up to its first 0; a matrix product: [m, k] and [k, n] */
    const char *within;     /* kernels: tag of the range they belong to; NULL: not certain, or no kernel */
};

struct aorta_range {
    struct aorta_range_info info;
    int64_t start_ns, end_ns;
    int64_t enqueue_ns; /* host time of the launch, on the device clock; INT64_MIN: unknown */
    int64_t sequence;   /* collectives: number among those of the same role, kind and group in this step; pairs ranks */
    int stream;         /* number of the stream it ran on, in order of first use: shows which roles share one */
    bool room;          /* it began when there was room for its kernel; its stream came to it at reached_ns */
    bool witnessed;     /* with `room`: its kernel itself was seen to begin and to end */
    int64_t reached_ns; /* with `room` only; INT64_MIN: not known */
    bool graph;         /* a graph launched it, with all of the graph's other ranges */
    /* Kernel views made of records (kernels.h); meaningless elsewhere. */
    size_t record; /* index of the record */
    int owner;     /* index of the range it belongs to; -1: not certain */
};

/* What the host was doing meanwhile. */
enum aorta_host_kind { AORTA_HOST_DATA_WAIT, AORTA_HOST_SYNC };
struct aorta_host_range {
    enum aorta_host_kind kind;
    int64_t start_ns, end_ns;
};

struct aorta_marker {
    const char *tag;
    enum aorta_role role;
    int64_t time_ns;
};

/* What a profile's ranges are: ranges around operations, or the kernels and copies themselves (kernels.h). */
enum aorta_profile_source { AORTA_SOURCE_RANGE, AORTA_SOURCE_KERNEL };
const char *aorta_profile_source_name(enum aorta_profile_source source); /* "range", "kernel" */

/* About a kernel view. */
struct aorta_kernel_facts {
    int64_t dropped;         /* records lost since the view before */
    int64_t attributed;      /* ranges whose `within` is known */
    int64_t clock_offset_ns; /* added to the library's times so that they agree with the recorder's stamps */
    int64_t stamp_count;     /* kernels that measured: timestamps and clocks; not among the ranges */
    int64_t stamp_ns;        /* their time */
    int64_t *stamps;         /* owned: when those of timestamps began (where these are few, witnesses, too), ascending;
                                NULL in a view read from a file */
    int64_t stamps_kept;     /* number of these */
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
};
void aorta_profile_free(struct aorta_profile *profile);
/* All of it; names are still borrowed. AORTA_MEMORY leaves *copy empty. */
AORTA_MUST_USE aorta_status aorta_profile_copy(const struct aorta_profile *profile, struct aorta_profile *copy);

/* When the host had launched all of a range at the latest: when it came to the next one, or turned to waiting. Its own
 * launch, where that says nothing (the last range; a graph). */
int64_t aorta_range_launched_by(const struct aorta_profile *profile, size_t range);

/* ---- recorder ----
 * Slots: timestamps of up to `slots` iterations are in flight; the host collects one while the device fills another.
 * One host thread records. */
struct aorta_recorder;

AORTA_MUST_USE aorta_status aorta_recorder_create(struct aorta_device *device, int slots, size_t ranges_per_slot,
                                                  struct aorta_recorder **recorder);
void aorta_recorder_destroy(struct aorta_recorder *recorder);
/* Switched off, begin and end queue nothing (for measuring the cost of recording). */
void aorta_recorder_enable(struct aorta_recorder *recorder, bool enabled);
/* Whether a stream in a captured step waits for the stamps of its ranges (aorta_timestamp); it does not before this is
 * called (aorta_timestamp_next, aorta_timestamp_aside). Stamps of collectives that begin with room for them are waited
 * for in any case. */
void aorta_recorder_wait_for_stamps(struct aorta_recorder *recorder, bool wait);
bool aorta_recorder_enabled(const struct aorta_recorder *recorder);
/* Starts iteration `index` in a slot; the slot's former content is dropped. */
void aorta_recorder_step(struct aorta_recorder *recorder, int slot, int64_t index);
/* What was recorded in the slot since its step began has been captured into a graph, which is launched now. */
void aorta_recorder_captured(struct aorta_recorder *recorder);
/* Starts an iteration that replays the graph captured in this slot: its ranges stay, their launches date from
 * launch_ns; host ranges, markers and what else was recorded beside an earlier replay are dropped. */
void aorta_recorder_replay(struct aorta_recorder *recorder, int slot, int64_t index, int64_t launch_ns);
/* Asks for the start stamp, unless it is known from the ranges that this one comes right behind (collectives of
 * captured steps); *range is handed to end. AORTA_INTERNAL when the slot is full (names the limit). */
AORTA_MUST_USE aorta_status aorta_range_begin(struct aorta_recorder *recorder, struct aorta_stream *stream,
                                              const struct aorta_range_info *info, int *range);
/* The kernel of an operation may find no room beside others for long after its stream has come to it. Where such a
 * range is to begin when the kernel can, a stamp as large as the kernel waits for room as well, on a stream of its own
 * and so behind nothing but what the operation is behind. Whoever waits for the range waits for that stream, too. */
struct aorta_room {
    struct aorta_footprint footprint; /* of the operation's kernel */
    struct aorta_stream *stream;      /* of the same priority as the operation's; that itself: the stamp comes first */
    struct aorta_event *event;        /* untimed; carries the operation's place to the other stream */
    bool alone;                       /* with that stream itself: nothing tells when it came to the operation */
    bool witness;                     /* in a capture: the operation is one kernel, and is witnessed (aorta_witness) */
};
AORTA_MUST_USE aorta_status aorta_range_begin_room(struct aorta_recorder *recorder, struct aorta_stream *stream,
                                                   const struct aorta_range_info *info, const struct aorta_room *room,
                                                   int *range);
AORTA_MUST_USE aorta_status aorta_range_end(struct aorta_recorder *recorder, struct aorta_stream *stream, int range);
AORTA_MUST_USE aorta_status aorta_recorder_mark(struct aorta_recorder *recorder, struct aorta_stream *stream,
                                                enum aorta_role role, const char *tag);
/* What the host did, by its own clock; belongs to the slot being recorded. */
AORTA_MUST_USE aorta_status aorta_recorder_host(struct aorta_recorder *recorder, enum aorta_host_kind kind,
                                                int64_t start_ns, int64_t end_ns);
/* After the device has finished the slot's work. The caller frees the profile. */
AORTA_MUST_USE aorta_status aorta_recorder_collect(struct aorta_recorder *recorder, int slot,
                                                   struct aorta_profile *profile);

#endif
