/* Which streams share a hardware queue (`aorta hwq map`).
 *
 * A probe of two streams: a long kernel runs on one, the blocker, and a short one is queued after it on that stream.
 * If a short kernel on the other stream starts before the long one ends, the two streams do not share a queue, and one
 * such start is enough. If it starts only afterwards, a shared queue or chance has blocked it. So a blocked result
 * counts only when it repeats `repeats` times in a row.
 *
 * The short kernel after the long one matters. A queue that dispatches in order, but does not wait for dispatched
 * kernels (CUDA's connections), is blocked only by a command that has to wait for its own stream. A queue that waits
 * for every kernel (AQL queues with barrier bits) is blocked in both cases. The map reports which kind it found.
 *
 * A round probes all other streams against one blocker, so n rounds fill the matrix. Then pairs are probed alone: each
 * stream with the first of its group, and the first streams of all groups with each other (or all pairs). If one result
 * differs, all pairs are probed alone, and those results count. */
#ifndef AORTA_HWQ_MAP_H
#define AORTA_HWQ_MAP_H

#include "comm/comm.h"
#include "device/device.h"
#include "hwq/findings.h"

enum { AORTA_MAP_STREAMS = 256 };

enum aorta_map_role { AORTA_MAP_COMPUTE, AORTA_MAP_COPY, AORTA_MAP_COMM, AORTA_MAP_ROLE_COUNT };
const char *aorta_map_priority_name(int priority); /* "low" */

struct aorta_map_stream {
    const char *name; /* "c0"; "high.c0" where there are several levels */
    enum aorta_map_role role;
    enum aorta_priority priority;
    int group; /* counted in order of the streams, from 0 */
};

/* One stream, the blocker, and another one. */
struct aorta_map_pair {
    int probes, blocked; /* valid rounds; those in which the other stream was blocked */
    int streak;          /* equal results in a row, up to the last */
    bool last, differs;  /* the last result; results have differed */
    bool shared;         /* the decision */
};

/* The cause that blocks a queue of several streams. */
enum aorta_map_blocking {
    AORTA_MAP_BLOCKING_UNKNOWN, /* no two streams share one */
    AORTA_MAP_BLOCKING_WAITING, /* only a command that waits for its own stream */
    AORTA_MAP_BLOCKING_RUNNING, /* every kernel that runs */
    AORTA_MAP_BLOCKING_MIXED
};

struct aorta_map {
    struct aorta_arena arena; /* of everything below */
    int count;
    struct aorta_map_stream *streams;
    struct aorta_map_pair *pairs; /* [blocker × count + other]; the diagonal is not used */
    int group_count;
    enum aorta_map_blocking blocking;
    int rounds;               /* probes in all */
    int pairs_alone;          /* directed pairs that were probed alone */
    int corrected;            /* pairs with another result alone */
    int busy_only;            /* of `corrected`: pairs that shared a queue only while all streams had work */
    int busy_queues;          /* busy_only > 0: about how many queues the streams had then; else 0 */
    int unsettled;            /* pairs whose results never repeated often enough: decided by majority */
    int one_sided;            /* pairs in which only one stream blocks the other; counted as separate queues */
    bool transitive;          /* a stream that shares a queue with one of a group shares it with all of the group */
    int64_t hold_ns;          /* length of the long kernel in the last round */
    const char *comm_backend; /* of the communication streams: "nccl", "local"; NULL: none. Static */
};
static inline struct aorta_map_pair *aorta_map_pair_of(const struct aorta_map *map, int blocker, int other) {
    return &map->pairs[(ptrdiff_t)blocker * map->count + other];
}

/* ---- probes (a table, so that tests can plant results) ---- */

struct aorta_map_probe {
    void *context;
    /* blocked[i]: probed[i] was blocked by `blocker`; `followed`: another kernel is queued after its long one. */
    aorta_status (*run)(void *context, int blocker, bool followed, const int *probed, int count, bool *blocked);
    void (*lengthen)(void *context); /* results differ: longer kernels from now on; may be NULL */
};

struct aorta_map_pair_options {
    int repeats; /* equal results in a row that settle a pair; at least 1 */
    bool all_pairs;
};

/* Fills everything but streams[].name, role and priority, and count, which are given. */
AORTA_MUST_USE aorta_status aorta_map_find_pairs(const struct aorta_map_pair_options *search,
                                                 const struct aorta_map_probe *probe, struct aorta_map *map);

/* ---- on a device ---- */

struct aorta_map_options {
    struct aorta_device *device;
    struct aorta_comm *comm; /* of one rank; NULL: no communication streams */
    int compute_streams;     /* of each level */
    int copy_streams, comm_streams;
    const enum aorta_priority *priorities; /* levels of the compute streams; other streams are normal */
    int priority_count;
    struct aorta_map_pair_options pairs;
};

/* Creates the streams in the order compute (level by level), copy, communication, probes, and destroys them.
 * AORTA_USAGE for numbers out of range. */
AORTA_MUST_USE aorta_status aorta_map_run(const struct aorta_map_options *options, struct aorta_map *map);
void aorta_map_free(struct aorta_map *map);

/* ---- copy engines ---- */

enum aorta_map_copy { AORTA_MAP_H2D, AORTA_MAP_D2H, AORTA_MAP_D2D, AORTA_MAP_COPY_COUNT };
enum { AORTA_MAP_COPY_PAIRS = 6 }; /* of kinds, each with itself too */

enum aorta_map_copies_verdict {
    AORTA_MAP_SIDE_BY_SIDE,     /* clearly faster together than in turn */
    AORTA_MAP_SHARED_BANDWIDTH, /* both progress at once, but no faster than in turn */
    AORTA_MAP_SERIAL,           /* one waits until the other has ended */
    AORTA_MAP_COPIES_VARY       /* fewer than four of five repeats agree */
};

/* Medians, ms. */
struct aorta_map_copy_pair {
    enum aorta_map_copy kinds[2];
    double alone_ms[2], together_ms; /* from the first start to the last end */
    double first_end_ms;             /* together: until the first of the two has ended */
    enum aorta_map_copies_verdict verdict;
};

struct aorta_map_copies {
    size_t bytes; /* of each copy */
    int samples;
    struct aorta_map_copy_pair pairs[AORTA_MAP_COPY_PAIRS];
};

/* Two streams that copy between pinned and device memory, each kind alone and every two kinds at the same time. */
AORTA_MUST_USE aorta_status aorta_map_copies_measure(struct aorta_device *device, size_t bytes, int samples,
                                                     struct aorta_map_copies *copies);

/* The verdict of one repeat's four times, and the verdict of all repeats. */
enum aorta_map_copies_verdict aorta_map_copies_evaluate(const struct aorta_map_copy_pair *pair);
enum aorta_map_copies_verdict aorta_map_copies_decide(const struct aorta_map_copy_pair *repeats, size_t count);

/* ---- results ---- */

/* The answer and its facts. AORTA_MEMORY; free them in any case. */
AORTA_MUST_USE aorta_status aorta_map_find(const struct aorta_map *map, const struct aorta_device_info *device,
                                           struct aorta_found_list *found);
/* For a terminal: what was found, the groups, the matrix. `copies` may be NULL. */
void aorta_map_text(const struct aorta_map *map, const struct aorta_found_list *found,
                    const struct aorta_map_copies *copies, struct aorta_text *text);
void aorta_map_json(const struct aorta_map *map, const struct aorta_found_list *found,
                    const struct aorta_map_copies *copies, const struct aorta_device_info *device,
                    struct aorta_text *text);
void aorta_map_schema(struct aorta_json *json);

extern const struct aorta_result_table *const aorta_map_tables[]; /* of the page; ends with NULL */
/* streams.csv and, where `copies` is not NULL, copies.csv in the folder. AORTA_IO, AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_map_csv(const struct aorta_map *map, const struct aorta_map_copies *copies,
                                          const char *folder);

#endif
