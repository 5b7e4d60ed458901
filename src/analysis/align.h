/* Aligns the clocks of the ranks and finds late ranks.
 *
 * A collective ends on all its ranks at nearly the same time, even if they began it at different times. So the ends of
 * shared collectives show the offsets of the clocks (steps.c). The difference that remains is the
 * residual. Broadcasts are not used, because they end at different times on different ranks: the root does not wait.
 * A broadcast counts as shared by the ranks that were in it at the same time, which shows the late rank. Sends and
 * receives end at nearly the same time; they are used only if ranks share nothing else.
 *
 * A collective is identified by process group and sequence number, if the traces have them, else by its order within
 * the group; then kinds and sizes must agree. If traces begin or end at different times, the shift of the order with
 * the smallest residual is used. */
#ifndef AORTA_ANALYSIS_ALIGN_H
#define AORTA_ANALYSIS_ALIGN_H

#include "trace/trace.h"

/* A rank: one device of a trace. Borrowed. */
struct aorta_align_rank {
    int rank;
    const struct aorta_trace *trace;
    int32_t device; /* the file's number; work of other devices is ignored */
};

/* A rank's part of a shared collective, which may have several kernels: first start to last end. */
struct aorta_align_part {
    uint32_t rank;            /* index of the rank */
    uint32_t first;           /* row of the trace's work[]: its first kernel */
    int64_t start_ns, end_ns; /* common clock */
};

struct aorta_align_shared {
    int64_t first_ns, skew_ns;            /* first start, and last start − first start */
    const struct aorta_align_part *parts; /* ascending index; two or more */
    size_t part_count;
    size_t left;                    /* further ranks that left a broadcast before the last rank came */
    bool pair;                      /* a send and its receive */
    bool broadcast;                 /* its root does not wait */
    int group_size;                 /* -1: not known */
    int64_t bytes;                  /* -1: not known */
    int64_t sequence;               /* from the file; -1: none */
    uint32_t first_rank, last_rank; /* indices of the ranks that started first and last */
    bool cause_known, device_late;  /* the last rank's device was still busy; else its host launched late */
    /* Set by an analysis. */
    enum aorta_collective kind;
    uint32_t group;     /* of aorta_trace_analysis.groups; NONE: not known */
    int64_t step;       /* number of the step; INT64_MIN: in none */
    bool complete;      /* all ranks of its group recorded it */
    bool chosen;        /* within the analyzed part of the recording, so that these members are set */
    int64_t exposed_ns; /* exposed time of this collective, summed over ranks */
};

/* The result for one rank. */
struct aorta_align_clock {
    int64_t shift_ns;    /* own clock − common clock, which is the first rank's */
    int64_t residual_ns; /* median over its shared collectives of |end − median end of the ranks|; -1: none are
                          * shared */
    int64_t p95_ns;      /* 95th percentile of these */
    size_t shared;       /* number of these collectives */
    bool linked;         /* collectives link it with the first rank, directly or through further ranks; else `shift_ns`
                          * comes from the time of day in the files (0 where they have none) */
    size_t late;         /* shared collectives in which it was last */
    int64_t late_ns;     /* total time that the first rank waited for it */
    size_t late_by_device;
};

struct aorta_alignment {
    struct aorta_align_clock *clocks; /* one per rank */
    size_t rank_count;
    struct aorta_align_shared *shared; /* ascending first start */
    size_t shared_count;
    struct aorta_align_part *parts; /* of all of them */
    int64_t residual_ns;            /* as in aorta_align_clock, of all ranks; -1: nothing is shared */
    int64_t p95_ns;
    /* Residual at which collectives without numbers were rejected as mismatched. Then nothing is shared, and clocks are
     * aligned only by the time of day. -1: not rejected. */
    int64_t mismatch_ns;
};

/* Relation of the ranks' clocks. */
enum aorta_align_clocks {
    AORTA_CLOCKS_OF_TRACES, /* each rank has its own clock: collectives show the shift */
    AORTA_CLOCKS_ONE,       /* all ranks share one clock: there is no shift */
    AORTA_CLOCKS_OF_STEPS,  /* each step has its own clock: ranks share nothing, and times are not comparable */
};

/* Aligns the ranks. If they share nothing, shifts come from the time of day. */
void aorta_align(const struct aorta_align_rank *ranks, size_t count, enum aorta_align_clocks clocks,
                 struct aorta_arena *memory, struct aorta_alignment *alignment);

/* The rank that caused clearly more waiting than any other, by more than the residual; -1 if there is none. */
int aorta_alignment_straggler(const struct aorta_alignment *alignment);

/* The clock of `trace` − that of `reference`, from their base_ns; 0 unless both are known. */
int64_t aorta_align_wall_shift(const struct aorta_trace *trace, const struct aorta_trace *reference);

/* ---- offsets of the ranks' clocks (steps.c) ---- */

/* The end of a collective on one rank, by its own clock. */
struct aorta_rank_end {
    uint32_t rank; /* index */
    int64_t end_ns;
};

/* Collective c has the ends ends[first[c] .. first[c + 1]). Borrowed. */
struct aorta_rank_ends {
    const struct aorta_rank_end *ends;
    const size_t *first; /* one more than there are collectives */
    size_t collectives, ranks;
};

/* shift_ns[r]: clock of rank r − common clock, which is the clock of rank 0. On entry it has a first guess, which stays
 * for ranks without shared collectives. root[r]: the first rank to which r is linked, directly or through further
 * ranks. */
void aorta_clock_shifts(const struct aorta_rank_ends *ends, struct aorta_arena *memory, int64_t *shift_ns,
                        uint32_t *root);

/* Why a rank was late to a collective. The last rank to start is late by its device if that was busy for most of the
 * time since the first start; otherwise its host was late. */
static inline bool aorta_late_by_device(int64_t late_ns, int64_t busy_ns) {
    return busy_ns > late_ns - busy_ns;
}

#endif
