/* Aligns the clocks of the ranks, and finds which rank was late.
 *
 * A collective ends on all its ranks at nearly the same moment, whenever they began it. So the ends of shared
 * collectives show how the clocks differ (steps.c). The difference that remains after the alignment is the
 * residual. Broadcasts are not used, because they end at different times on different ranks: the root does not wait.
 * They are shared by the ranks that met, which says who was late. Sends and receives end at nearly the same time; they
 * are used where ranks share nothing else.
 *
 * Process group and sequence number identify a collective where the traces have them. Otherwise its order within the
 * process group does, and kinds and sizes must agree. Where one trace begins or ends earlier than another, the offset
 * with the smallest residual is used. */
#ifndef AORTA_ANALYSIS_ALIGN_H
#define AORTA_ANALYSIS_ALIGN_H

#include "trace/trace.h"

/* One rank: what one device of a trace did. Borrowed. */
struct aorta_align_rank {
    int rank;
    const struct aorta_trace *trace;
    int32_t device; /* the file's number; work of other devices is ignored */
};

/* A rank's part in a shared collective. Its kernels may be several; times are from the first start to the last end. */
struct aorta_align_part {
    uint32_t rank;            /* index among the ranks given */
    uint32_t first;           /* row of the trace's work[]: its first kernel */
    int64_t start_ns, end_ns; /* common clock */
};

struct aorta_align_shared {
    int64_t first_ns, skew_ns;            /* first start, and last start − first start */
    const struct aorta_align_part *parts; /* ascending index; two or more */
    size_t part_count;
    size_t left;                    /* further ranks, which left a broadcast before the last rank came */
    bool pair;                      /* a send and its receive */
    bool broadcast;                 /* its root does not wait */
    int group_size;                 /* -1: not known */
    int64_t bytes;                  /* -1: not known */
    int64_t sequence;               /* the file's, -1: it has none */
    uint32_t first_rank, last_rank; /* indices: started first and last */
    bool cause_known, device_late;  /* the last rank's device was still busy; else its host launched late */
    /* What an analysis adds. */
    enum aorta_collective kind;
    uint32_t group;     /* of aorta_trace_analysis.groups; NONE: not known */
    int64_t step;       /* number; INT64_MIN: in none */
    bool complete;      /* all ranks of its group recorded it */
    bool chosen;        /* within the analyzed part of the recording; false: nothing was added */
    int64_t exposed_ns; /* blamed on it, summed over ranks */
};

/* How one rank came out. */
struct aorta_align_clock {
    int64_t shift_ns;    /* own clock − common clock, which is that of the first rank given */
    int64_t residual_ns; /* median over its shared collectives of |end − the ranks' median end|; -1: none are shared */
    int64_t p95_ns;      /* 95th percentile of the same */
    size_t shared;       /* collectives it rests on */
    bool linked;         /* collectives link it with the first rank, directly or through further ranks; else `shift_ns`
                          * comes from the time of day in the files (0 where they have none) */
    size_t late;         /* shared collectives that it came to last */
    int64_t late_ns;     /* and how long the first rank had waited then, in all */
    size_t late_by_device;
};

struct aorta_alignment {
    struct aorta_align_clock *clocks; /* one for each rank given */
    size_t rank_count;
    struct aorta_align_shared *shared; /* ascending first start */
    size_t shared_count;
    struct aorta_align_part *parts; /* of all of them */
    int64_t residual_ns;            /* as of one rank, over all; -1: nothing is shared */
    int64_t p95_ns;
    /* Collectives without numbers whose ends lay this far apart, so that they were not the same ones: nothing is shared
     * then, and clocks agree by the time of day alone. -1: there was no such thing. */
    int64_t mismatch_ns;
};

/* How the ranks' clocks relate. */
enum aorta_align_clocks {
    AORTA_CLOCKS_OF_TRACES, /* each rank has its own clock: collectives show the shift */
    AORTA_CLOCKS_ONE,       /* all ranks share one clock: there is no shift */
    AORTA_CLOCKS_OF_STEPS,  /* each step has its own clock: ranks share nothing, and times are not comparable */
};

/* Ranks that share nothing are no failure. */
void aorta_align(const struct aorta_align_rank *ranks, size_t count, enum aorta_align_clocks clocks,
                 struct aorta_arena *memory, struct aorta_alignment *alignment);

/* The rank that caused clearly more waiting than any other, by more than the residual; -1: none. */
int aorta_alignment_straggler(const struct aorta_alignment *alignment);

/* The clock of `trace` − that of `reference`, from the times of day when they began; 0 unless both know theirs. */
int64_t aorta_align_wall_shift(const struct aorta_trace *trace, const struct aorta_trace *reference);

/* ---- how the clocks of ranks differ (steps.c) ---- */

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

/* shift_ns[r]: clock of rank r − common clock, which is the clock of rank 0. On entry it holds a first guess, which
 * stays for ranks that share no collective. root[r]: the first rank that r is linked with, directly or through further
 * ranks. */
void aorta_clock_shifts(const struct aorta_rank_ends *ends, struct aorta_arena *memory, int64_t *shift_ns,
                        uint32_t *root);

/* Why a rank was late to a collective. The last rank to start is late by its device if that was busy for most of the
 * time since the first start; otherwise its host was late. */
static inline bool aorta_late_by_device(int64_t late_ns, int64_t busy_ns) {
    return busy_ns > late_ns - busy_ns;
}

#endif
