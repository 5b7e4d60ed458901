/* The interface between a workload and the harness.
 *
 * A workload is one file in workloads/ with one const struct aorta_hwq_workload, and one line in workloads.def. Its
 * `build` writes its graph (graph.h): tensors, and operations in the order of their launches. The harness (run.c) then
 *
 *   iterates  queues one iteration and returns, without waiting, allocating or creating objects, so that it can be
 *             captured (--graph) and queued completely before it starts (--gate); runs repeatedly: for warm-up, timed
 *             without any stamp, and stamped, with a stamp around every kernel (stamps.h)
 *   work      computes the work of the iterations so far, in the workload's unit times seconds
 *   verify    (--verify) after one more iteration, streams idle: compares results with naive ones in double precision
 *   report    (optional) measures or computes figures of its own, streams idle
 *
 * Before every iteration all streams wait for the one before; after it the harness joins all streams. Within it
 * operations wait for each other. Workloads whose streams exchange nothing set `independent`; under --sync-mode none
 * their streams are not joined.
 *
 * Status: each function returns one, NULL for success. Threads: one host thread runs a workload. */
#ifndef AORTA_HWQ_WORKLOAD_H
#define AORTA_HWQ_WORKLOAD_H

#include "base/arena.h"
#include "base/log.h"
#include "base/random.h"
#include "base/status.h"
#include "comm/comm.h"
#include "config/option.h"
#include "device/owned.h"
#include "hwq/result.h"
#include "hwq/spans.h"

enum { AORTA_HWQ_MAX_STREAMS = 64, AORTA_HWQ_OPTION_BYTES = 512, HWQ_LARGEST = 1 << 20 }; /* limit of most sizes */

enum aorta_hwq_group { AORTA_HWQ_P0, AORTA_HWQ_P1, AORTA_HWQ_P2, AORTA_HWQ_P3, AORTA_HWQ_GROUP_COUNT };
const char *aorta_hwq_group_name(enum aorta_hwq_group group); /* "P0" */

struct aorta_hwq_stamps; /* stamps.h */
struct aorta_hwq_run;    /* run.h */
struct aorta_hwq_runner; /* iterations.h */
struct aorta_hwq_workload;
struct hwq_graph; /* graph.h */

/* The context of a workload. The harness owns everything; a workload changes it only through the helpers below. */
struct aorta_hwq {
    const struct aorta_hwq_workload *workload;
    struct aorta_device *device;
    int stream_count;
    struct aorta_stream *streams[AORTA_HWQ_MAX_STREAMS];
    const void *options;              /* the workload's own struct, filled from its rows */
    struct aorta_ranks ranks;         /* this process's rank and the number of ranks */
    struct aorta_comm *world;         /* group of all ranks; NULL unless the workload has `collectives` */
    uint64_t seed;                    /* of inputs: equal on every device and rank; add the rank where inputs differ */
    const struct aorta_log *log;      /* for messages to the user while it runs */
    struct aorta_arena *arena;        /* host memory that lives as long as the workload */
    struct aorta_owned owned;         /* memory and events of graphs */
    struct aorta_normal_table *table; /* of random inputs; made at first use */
    struct aorta_hwq_stamps *stamps;  /* NULL: iterations are timed */
    int64_t queued;                   /* kernels, operations and copies that iterate has queued so far */
    int64_t gates;                    /* iterations with a gate so far */
    struct aorta_hwq_runner *replay;  /* verify, --graph: replays the iteration; else NULL */
};

/* The largest error over everything that verify compared, each against its own tolerance. */
struct aorta_hwq_check {
    int64_t compared; /* values */
    double worst;     /* largest |got − expected| / allowed; above 1 the workload is wrong */
    char what[96];    /* place of the worst: "y of stream 3, element 17" */
    double got, expected;
    bool no_part; /* this rank has no part in the workload and nothing to compare */
};

struct aorta_hwq_workload {
    const char *name;    /* "hetero_kernels" */
    const char *summary; /* the stress, one sentence without its full stop: "large GEMMs delay tiny kernels" */
    enum aorta_hwq_group group;
    const char *category;    /* "latency_sensitive", "distributed", "inference", "pipeline" */
    const char *sensitivity; /* "low", "medium", "high", "critical": how much queue switches affect throughput */
    struct {
        int min, max, recommended;
    } streams;
    const char *unit;                   /* of throughput: "GFLOPS", "tokens/s" */
    bool collectives;                   /* uses `world`; several ranks make sense */
    bool independent;                   /* streams exchange nothing: they need no join between iterations */
    const struct aorta_option *options; /* its own: sizes and so on; offsets within its options struct */
    size_t option_count, option_bytes;  /* bytes of that struct, AORTA_HWQ_OPTION_BYTES at most */
    const char *try_next; /* the next experiment for a user, one sentence: "--interleave batched shows …" */
    /* Optional: replaces try_next if it depends on the run's settings and figures; may return NULL. */
    const char *(*try_of)(const struct aorta_hwq_run *run, const struct aorta_hwq_result *result);

    /* Optional: replaces `summary` if it depends on the run's settings. */
    const char *(*summary_of)(const struct aorta_hwq_run *run);
    /* Optional: streams that the options need; a run with fewer streams takes this number. */
    int64_t (*needs_streams)(const void *options);
    /* Optional: AORTA_USAGE for options that contradict each other, before anything is created. */
    aorta_status (*check)(const struct aorta_hwq *hwq);
    /* Optional: names ("all-gather"), ended by NULL; stream s of n names has role s modulo n. */
    const char *const *roles;
    /* Optional: the priority and the role of a stream; default: normal; by `roles`, or NULL. */
    enum aorta_priority (*priority)(const struct aorta_hwq *hwq, int stream);
    const char *(*role)(const struct aorta_hwq *hwq, int stream);
    void (*build)(struct hwq_graph *g);
    /* Optional: streams idle, before the timed iterations and before verification: sets counters to 0. */
    aorta_status (*start)(struct hwq_graph *g);
    /* Optional, instead of the graph's work of one iteration: *amount is what the last `iterations` iterations have
     * done since `start`, in `unit` × seconds (GFLOP, tokens, samples); streams idle. */
    aorta_status (*work)(struct hwq_graph *g, int64_t iterations, double *amount);
    /* Optional, instead of hwq_graph_verify. */
    aorta_status (*verify)(struct hwq_graph *g, struct aorta_hwq_check *check);
    /* Optional: figures of its own (aorta_hwq_result_figure), from `result` and from more iterations (iterations.h);
     * streams idle. */
    aorta_status (*report)(struct hwq_graph *g, struct aorta_hwq_result *result);
};

/* A row of options, a whole number from `least` to `most`: member of struct `owner`. `small`: the default on a CPU,
 * where 100 iterations then need seconds (struct aorta_option's on_cpu); NULL: the common default. */
#define AORTA_HWQ_ROW(owner, member, text, small, least, most, words)                                                  \
    {                                                                                                                  \
        .key = #member, .type = AORTA_OPTION_INT, .offset = offsetof(owner, member), .fallback = (text),               \
        .on_cpu = (small), .limits = AORTA_LIMITS(least, most), .help = (words)                                        \
    }
#define AORTA_HWQ_OPTIONS(rows, owner)                                                                                 \
    .options = (rows), .option_count = sizeof(rows) / sizeof *(rows), .option_bytes = sizeof(owner)

extern const struct aorta_hwq_workload *const aorta_hwq_workloads[]; /* in the order of workloads.def; NULL ends */
static inline bool aorta_hwq_serves(const struct aorta_hwq_workload *workload, int64_t streams) {
    return streams >= workload->streams.min && streams <= workload->streams.max;
}
/* The role of a stream; NULL: all streams are alike. Its priority. */
const char *aorta_hwq_role(const struct aorta_hwq *hwq, int stream);
enum aorta_priority aorta_hwq_priority(const struct aorta_hwq *hwq, int stream);
/* AORTA_USAGE names the workload with the nearest name. */
AORTA_MUST_USE aorta_status aorta_hwq_find(const char *name, const struct aorta_hwq_workload **workload);

/* ---- inputs and results on the host ---- */

/* Pseudo-random inputs: value(i) = scale · normal(seed, id, i modulo AORTA_HWQ_PERIOD), rounded to dtype. The second
 * gives the same values, before rounding, to the host, for [first, first + count). Each tensor has its own
 * `id`. Fill queues on `stream`. */
enum { AORTA_HWQ_PERIOD = 1048573 }; /* the largest prime below 2^20: no two rows of a matrix are equal */
AORTA_MUST_USE aorta_status aorta_hwq_fill(struct aorta_hwq *hwq, int stream, uint64_t id, enum aorta_dtype dtype,
                                           int64_t count, float scale, void *memory);
AORTA_MUST_USE aorta_status aorta_hwq_values(struct aorta_hwq *hwq, uint64_t id, int64_t first, int64_t count,
                                             float scale, float *values);
/* Copies bytes between device and plain host memory and waits; for setup, start, work and verify. */
AORTA_MUST_USE aorta_status aorta_hwq_transfer(struct aorta_hwq *hwq, void *to, const void *from, size_t bytes);

/* Counts one comparison. NaN counts as infinitely wrong. `format` names the place; only the worst place is stored. */
void aorta_hwq_compare(struct aorta_hwq_check *check, double got, double expected, double allowed, const char *format,
                       ...) AORTA_PRINTF(5, 6);

/* ---- process groups as they are written on a command line, and sizes with K, M and G ---- */

enum { AORTA_HWQ_MOST_GROUPS = 64, AORTA_HWQ_MOST_MEMBERS = 4096 };

/* Groups in the order written; they may overlap. The members of group g are ranks[first[g]] … ranks[first[g + 1] - 1].
 */
struct aorta_hwq_group_list {
    int groups;
    int first[AORTA_HWQ_MOST_GROUPS + 1];
    int ranks[AORTA_HWQ_MOST_MEMBERS];
};
/* "[0,1],[1,2]". AORTA_USAGE names the problem and its place; a rank may not exceed world_size or repeat in a group.
 */
AORTA_MUST_USE aorta_status aorta_hwq_groups_parse(const char *text, int world_size, struct aorta_hwq_group_list *list);
int aorta_hwq_group_size(const struct aorta_hwq_group_list *list, int group);
bool aorta_hwq_group_has(const struct aorta_hwq_group_list *list, int group, int rank);
/* "128M": K, M, G are powers of 1024; also "128MB", "128MiB". `option` is named in the message. */
AORTA_MUST_USE aorta_status aorta_hwq_size_parse(const char *option, const char *text, int64_t *bytes);
/* "1024,2048,512": M, N, K; or "1024" for all three. */
AORTA_MUST_USE aorta_status aorta_hwq_shape_parse(const char *option, const char *text, int64_t shape[3]);

#endif
