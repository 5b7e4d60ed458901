/* Which streams share a hardware queue (`aorta hwq map`).
 *
 * The question to a pair of streams: a long kernel runs on one, and a short one is queued behind it there; does a short
 * kernel on the other start before the long one has ended? If so the two run apart, and one such start proves it. If it
 * starts only afterwards, something held it back: a queue they share, or an accident. Only what is found again and
 * again counts, so every answer has to come `repeats` times in a row.
 *
 * The short one behind the long one matters: a queue that hands out work in order, but does not wait for what it has
 * handed out (CUDA's connections), is held up only by a command that has to wait for its own stream. Queues that wait
 * for every kernel (AQL queues with barrier bits) hold back in both cases; which kind it is comes out as well.
 *
 * A round asks all streams about one that holds, so that n rounds fill the matrix; then pairs are asked alone: each
 * stream with the first of its group, and the first ones of all groups with each other (or all pairs). Where an answer
 * differs all pairs are asked alone, and those answers count. */
#ifndef AORTA_HWQ_MAP_H
#define AORTA_HWQ_MAP_H

#include "base/arena.h"
#include "base/json.h"
#include "comm/comm.h"
#include "device/device.h"

enum { AORTA_MAP_STREAMS = 256 };

enum aorta_map_role { AORTA_MAP_COMPUTE, AORTA_MAP_COPY, AORTA_MAP_COMM, AORTA_MAP_ROLE_COUNT };
const char *aorta_map_role_name(enum aorta_map_role role); /* "compute", "copy", "communication" */
const char *aorta_map_priority_name(enum aorta_priority priority);

struct aorta_map_stream {
    char name[24]; /* "c0"; "high.c0" where there are several levels */
    enum aorta_map_role role;
    enum aorta_priority priority;
    int group; /* counted in order of the streams, from 0 */
};

/* What one stream does to another. */
struct aorta_map_pair {
    int asked, held;    /* valid rounds; those in which the other one was held back */
    int streak;         /* equal answers in a row, up to the last */
    bool last, differs; /* the last answer; answers have differed */
    bool shared;        /* the verdict */
};

/* How a queue of several streams holds back. */
enum aorta_map_blocking {
    AORTA_MAP_BLOCKING_UNKNOWN, /* no two streams share one */
    AORTA_MAP_BLOCKING_WAITING, /* only behind a command that waits for its own stream */
    AORTA_MAP_BLOCKING_RUNNING, /* behind every kernel that runs */
    AORTA_MAP_BLOCKING_MIXED
};

struct aorta_map {
    struct aorta_arena arena; /* holds everything below */
    int count;
    struct aorta_map_stream *streams;
    struct aorta_map_pair *pairs; /* [holder × count + other]; the diagonal is not used */
    int group_count;
    enum aorta_map_blocking blocking;
    int rounds;               /* all questions asked */
    int pairs_alone;          /* directed pairs that were asked alone */
    int corrected;            /* pairs whose answer alone was another one */
    int busy_only;            /* of these, pairs that shared a queue while all streams had work, but not alone */
    int busy_queues;          /* busy_only > 0: how many queues the streams had then, about; else 0 */
    int unsettled;            /* pairs that never gave the same answer often enough in a row: verdict by majority */
    int one_sided;            /* pairs of which only one holds back the other: counted as apart */
    bool transitive;          /* whoever shares with one of a group shares with all of it */
    int64_t hold_ns;          /* how long the long kernel was in the end */
    const char *comm_backend; /* of the communication streams: "nccl", "local"; NULL: there are none. Static */
};

/* ---- asking (a table, so that tests can answer) ---- */

struct aorta_map_prober {
    void *context;
    /* held[i]: others[i] was held back by `holder`, `behind` whose long kernel another one waits. */
    aorta_status (*ask)(void *context, int holder, bool behind, const int *others, int count, bool *held);
    void (*doubt)(void *context); /* answers differ: ask more patiently from now on; may be NULL */
};

struct aorta_map_survey {
    int repeats; /* equal answers in a row that settle a question; at least 1 */
    bool all_pairs;
};

/* Fills everything but streams[].name, role and priority, and count, which are given. */
AORTA_MUST_USE aorta_status aorta_map_find_pairs(const struct aorta_map_survey *survey,
                                                 const struct aorta_map_prober *prober, struct aorta_map *map);

/* ---- on a device ---- */

struct aorta_map_options {
    struct aorta_device *device;
    struct aorta_comm *comm; /* of one rank; NULL: no communication streams */
    int compute_streams;     /* of each level */
    int copy_streams, comm_streams;
    const enum aorta_priority *priorities; /* levels of the compute streams; the others are normal */
    int priority_count;
    struct aorta_map_survey survey;
};

/* Makes the streams in the order compute (level by level), copy, communication, asks, and destroys them. AORTA_USAGE
 * for numbers that make no sense. */
AORTA_MUST_USE aorta_status aorta_map_run(const struct aorta_map_options *options, struct aorta_map *map);
void aorta_map_free(struct aorta_map *map);

/* ---- copy engines ---- */

enum aorta_map_copy { AORTA_MAP_H2D, AORTA_MAP_D2H, AORTA_MAP_D2D, AORTA_MAP_COPY_COUNT };
enum { AORTA_MAP_COPY_PAIRS = 6 };                         /* of kinds, each with itself too */
const char *aorta_map_copy_name(enum aorta_map_copy kind); /* "h2d" */

enum aorta_map_copies_verdict {
    AORTA_MAP_SIDE_BY_SIDE,     /* together they take clearly less than one after the other */
    AORTA_MAP_SHARED_BANDWIDTH, /* both move on at the same time, and the sum is no faster */
    AORTA_MAP_SERIAL            /* one waits until the other is done */
};
const char *aorta_map_copies_verdict_name(enum aorta_map_copies_verdict verdict);

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

/* From the four figures. */
enum aorta_map_copies_verdict aorta_map_copies_evaluate(const struct aorta_map_copy_pair *pair);

/* ---- results ---- */

/* What a reader sees: groups, counts, the matrix, what it means. `copies` may be NULL. */
void aorta_map_text(const struct aorta_map *map, const struct aorta_map_copies *copies,
                    const struct aorta_device_info *device, struct aorta_text *text);
void aorta_map_json(const struct aorta_map *map, const struct aorta_map_copies *copies,
                    const struct aorta_device_info *device, struct aorta_json *json);

/* The variables that decide how streams come to queues, in the process's environment; ends with NULL. */
extern const char *const aorta_map_variables[];

#endif
