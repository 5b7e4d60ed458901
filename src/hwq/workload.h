/* What a workload is, and what it is given.
 *
 * A workload is one file in workloads/ with one const struct aorta_hwq_workload, and one line in workloads.def. The
 * harness (run.c) calls, in this order:
 *
 *   setup     allocates and fills through the helpers below; nothing needs to be given back, the harness does
 *   iterate   queues one iteration and returns; no waiting for the device, no allocation, no new objects, so that it
 *             can be captured (--graph) and held (--gate). Called again and again: at first for warm-up, in the timing
 *             pass without any stamp, in the stamped pass with a stamp around every kernel
 *   work      how much one iteration has done, in the workload's unit times seconds
 *   verify    (--verify) after one more iteration, streams idle: compares results with naive ones in double precision
 *   report    (optional) measures or works out figures of its own, streams idle
 *   teardown  (optional) for what the helpers do not cover
 *
 * Before every iterate all streams have been ordered behind the iteration before, and behind it all streams are joined
 * by the harness; a workload orders its streams among each other only, with events from aorta_hwq_event. Workloads
 * whose streams exchange nothing set `independent` and run on without being joined under --sync-mode none.
 *
 * How kernels are launched so that they are stamped: everything queued in iterate goes through one of three.
 *
 *   aorta_hwq_fire        a kernel of our own that was prepared in setup: the thinnest way to the device's queue
 *   aorta_hwq_launch      a kernel of our own with arguments made now
 *   aorta_hwq_begin, _end around one operation of src/ops, a collective, a copy or a host call
 *
 * Kernels of our own stamp themselves: the first member of their arguments is `struct aorta_hwq_stamp *stamp`, NULL in
 * the timing pass (src/hwq/kernels/stamp.h has what they call). Around everything else stamps are queued in the
 * stamped pass; in the timing pass begin and end queue nothing.
 *
 * Status: each function returns one, NULL for success. Threads: one host thread runs a workload. */
#ifndef AORTA_HWQ_WORKLOAD_H
#define AORTA_HWQ_WORKLOAD_H

#include "base/arena.h"
#include "base/log.h"
#include "comm/comm.h"
#include "config/option.h"
#include "device/device.h"
#include "hwq/result.h"
#include "hwq/stamp.h"

enum { AORTA_HWQ_MAX_STREAMS = 64, AORTA_HWQ_OPTION_BYTES = 512 };

enum aorta_hwq_group { AORTA_HWQ_P0, AORTA_HWQ_P1, AORTA_HWQ_P2, AORTA_HWQ_P3, AORTA_HWQ_GROUP_COUNT };
enum aorta_hwq_category {
    AORTA_HWQ_LATENCY_SENSITIVE,
    AORTA_HWQ_DISTRIBUTED,
    AORTA_HWQ_INFERENCE,
    AORTA_HWQ_PIPELINE,
    AORTA_HWQ_CATEGORY_COUNT
};
/* How much the cost of switching queues shows in this workload's throughput. */
enum aorta_hwq_sensitivity {
    AORTA_HWQ_LOW,
    AORTA_HWQ_MEDIUM,
    AORTA_HWQ_HIGH,
    AORTA_HWQ_CRITICAL,
    AORTA_HWQ_SENSITIVITY_COUNT
};
const char *aorta_hwq_group_name(enum aorta_hwq_group group);             /* "P0" */
const char *aorta_hwq_category_name(enum aorta_hwq_category category);    /* "latency_sensitive" */
const char *aorta_hwq_sensitivity_name(enum aorta_hwq_sensitivity level); /* "critical" */

struct aorta_hwq_stamps; /* stamps.h */
struct aorta_hwq_run;    /* run.h */
struct aorta_hwq_frame;  /* frame.h */

/* What a workload is given. Everything is the harness's; read only but for what the helpers below change. */
struct aorta_hwq {
    struct aorta_device *device;
    int stream_count;
    struct aorta_stream *streams[AORTA_HWQ_MAX_STREAMS];
    const void *options;             /* the workload's own struct, filled from its rows */
    struct aorta_ranks ranks;        /* who this process is */
    struct aorta_comm *world;        /* group of all ranks; NULL unless the workload has `collectives` */
    uint64_t seed;                   /* of inputs: the same on every device and rank; add the rank where they differ */
    const struct aorta_log *log;     /* for what a user should know while it runs */
    struct aorta_arena *arena;       /* host memory that lives as long as the workload */
    struct aorta_hwq_stamps *stamps; /* NULL: the timing pass */
    struct aorta_hwq_kept *kept;     /* what the helpers made (kept.c) */
    int64_t queued;                  /* kernels, operations and copies that iterate has queued so far */
    int64_t gates;                   /* gates that have been closed so far */
    struct aorta_hwq_frame *replay;  /* verify, --graph: what runs an iteration as it was measured; else NULL */
};

/* What verify found: the largest error over everything that was compared, each against its own tolerance. */
struct aorta_hwq_check {
    int64_t compared; /* values */
    double worst;     /* largest |got − expected| / allowed; above 1 the workload is wrong */
    char what[96];    /* where the worst was: "y of stream 3, element 17" */
    double got, expected;
    bool no_part; /* this rank has nothing to do in the workload: there is nothing to compare */
};

struct aorta_hwq_workload {
    const char *name; /* "hetero_kernels" */
    const char
        *summary; /* what it stresses, one sentence without its full stop: "large GEMMs hold back tiny kernels" */
    enum aorta_hwq_group group;
    enum aorta_hwq_category category;
    enum aorta_hwq_sensitivity sensitivity;
    int min_streams, max_streams, recommended_streams;
    const char *unit; /* of throughput: "GFLOPS", "tokens/s" */
    bool collectives; /* wants `world`; several ranks make sense */
    bool independent; /* streams exchange nothing: iterations may follow each other without being joined */
    const struct aorta_option *options; /* its own: sizes and so on; offsets within its options struct */
    size_t option_count, option_bytes;  /* bytes of that struct, AORTA_HWQ_OPTION_BYTES at most */
    const char *try_next; /* what a user could try to learn more, one sentence: "--interleave batched" and so on */
    /* Optional: that sentence where it depends on what the run has already; NULL: nothing of its own is left. */
    const char *(*try_of)(const struct aorta_hwq_run *run, const struct aorta_hwq_result *result);

    /* Optional: AORTA_USAGE for options that do not go together, before anything is made. */
    aorta_status (*check)(const struct aorta_hwq *hwq);
    /* Optional: the priority and the role ("all-gather") of a stream; default: normal, NULL. */
    enum aorta_priority (*priority)(const struct aorta_hwq *hwq, int stream);
    const char *(*role)(const struct aorta_hwq *hwq, int stream);
    aorta_status (*setup)(struct aorta_hwq *hwq, void **state);
    /* Optional: streams idle, before each pass: sets counters to 0. */
    aorta_status (*start)(struct aorta_hwq *hwq, void *state);
    aorta_status (*iterate)(struct aorta_hwq *hwq, void *state);
    /* *amount: what the last `iterations` iterations have done since `start`, in `unit` × seconds (GFLOP, tokens,
     * samples); streams idle. */
    aorta_status (*work)(struct aorta_hwq *hwq, void *state, int64_t iterations, double *amount);
    aorta_status (*verify)(struct aorta_hwq *hwq, void *state, struct aorta_hwq_check *check);
    /* Optional: figures of its own (aorta_hwq_result_figure), from `result` and from measurements it makes through
     * measure.h; streams idle. */
    aorta_status (*report)(struct aorta_hwq *hwq, void *state, struct aorta_hwq_result *result);
    void (*teardown)(struct aorta_hwq *hwq, void *state);
};

extern const struct aorta_hwq_workload *const aorta_hwq_workloads[]; /* in the order of workloads.def; NULL ends */
/* AORTA_USAGE names the nearest. */
AORTA_MUST_USE aorta_status aorta_hwq_find(const char *name, const struct aorta_hwq_workload **workload);

/* ---- setup: what is made here lives until the workload ends, and is destroyed by the harness ---- */

/* Device memory, undefined contents. `what` names it when memory runs out. */
AORTA_MUST_USE aorta_status aorta_hwq_alloc(struct aorta_hwq *hwq, size_t bytes, const char *what, void **memory);
AORTA_MUST_USE aorta_status aorta_hwq_pinned(struct aorta_hwq *hwq, size_t bytes, const char *what, void **memory);
/* An event that orders streams (it has no time). */
AORTA_MUST_USE aorta_status aorta_hwq_event(struct aorta_hwq *hwq, struct aorta_event **event);

/* Pseudo-random inputs: value(i) = scale · normal(seed, id, i modulo AORTA_HWQ_PERIOD), rounded to dtype. The second
 * gives the same values, before rounding, to the host, for [first, first + count). `id` tells tensors apart. Fill
 * queues on `stream`. */
enum { AORTA_HWQ_PERIOD = 1048573 }; /* the largest prime below 2^20: no row of a matrix is like the next */
AORTA_MUST_USE aorta_status aorta_hwq_fill(struct aorta_hwq *hwq, int stream, uint64_t id, enum aorta_dtype dtype,
                                           int64_t count, float scale, void *memory);
AORTA_MUST_USE aorta_status aorta_hwq_values(const struct aorta_hwq *hwq, uint64_t id, int64_t first, int64_t count,
                                             float scale, float *values);
/* Copies bytes between device and plain host memory and waits; for setup, start, work and verify. */
AORTA_MUST_USE aorta_status aorta_hwq_upload(struct aorta_hwq *hwq, void *to, const void *from, size_t bytes);
AORTA_MUST_USE aorta_status aorta_hwq_download(struct aorta_hwq *hwq, void *to, const void *from, size_t bytes);

/* A launch with everything worked out beforehand. `bytes` of *args are copied, AORTA_HWQ_ARGUMENT_BYTES at most. */
enum { AORTA_HWQ_ARGUMENT_BYTES = 256 };
struct aorta_hwq_shot; /* kept.c */
AORTA_MUST_USE aorta_status aorta_hwq_prepare(struct aorta_hwq *hwq, int stream, const struct aorta_kernel *kernel,
                                              const void *args, size_t bytes, struct aorta_hwq_shot **shot);

/* ---- iterate ---- */

/* Queues prepared launches in this order. The more in one call the better. */
AORTA_MUST_USE aorta_status aorta_hwq_fire(struct aorta_hwq *hwq, struct aorta_hwq_shot *const *shots, size_t count);
AORTA_MUST_USE aorta_status aorta_hwq_launch(struct aorta_hwq *hwq, int stream, const struct aorta_kernel *kernel,
                                             const void *args, size_t bytes);
/* Around one operation on `stream`; not nested. `name` is static ("linear", "all_gather"). */
AORTA_MUST_USE aorta_status aorta_hwq_begin(struct aorta_hwq *hwq, int stream, enum aorta_hwq_work kind,
                                            const char *name);
AORTA_MUST_USE aorta_status aorta_hwq_end(struct aorta_hwq *hwq, int stream);
/* `stream` waits for what is queued on `before` by now: records `event` there and waits for it here. */
AORTA_MUST_USE aorta_status aorta_hwq_after(struct aorta_hwq *hwq, int stream, struct aorta_event *event, int before);

/* ---- verify ---- */

/* Counts one comparison: allowed = absolute + relative · |expected|. NaN counts as infinitely wrong. `format` says
 * where, for the worst only. */
void aorta_hwq_compare(struct aorta_hwq_check *check, double got, double expected, double absolute, double relative,
                       const char *format, ...) AORTA_PRINTF(6, 7);

#endif
