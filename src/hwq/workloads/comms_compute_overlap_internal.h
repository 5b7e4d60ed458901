/* Shared by comms_compute_overlap.c and its report. */
#ifndef AORTA_HWQ_WORKLOADS_COMMS_COMPUTE_OVERLAP_INTERNAL_H
#define AORTA_HWQ_WORKLOADS_COMMS_COMPUTE_OVERLAP_INTERNAL_H

#include "hwq/groups.h"
#include "hwq/operations.h"

enum overlap_mode { OVERLAP_BOTH, OVERLAP_COMPUTE_ONLY, OVERLAP_COMMS_ONLY };
enum {
    OVERLAP_INPUT = 500,
    CHECKED = 997
}; /* id of rank 0's input; the other ranks' follow; compared elements of a collective */

struct overlap_options {
    int mode, comp_dtype, comm_dtype, collective;
    const char *mm_dim, *comm_size, *process_groups;
    int64_t num_compute, num_coll, compute_streams;
    bool real_collectives, async_op;
};

/* A group that this rank is in. */
struct overlap_group {
    struct aorta_comm *comm;
    const int *ranks;
    int size;
    int64_t bytes; /* of the larger buffer of a rank, as nccl-tests count */
    size_t count;  /* elements as the collective takes them */
    struct hwq_tensor receive;
};

struct overlap_state {
    int64_t shape[3];   /* M, N, K */
    int64_t bytes;      /* requested */
    int first, streams; /* that compute */
    struct aorta_hwq_group_list list;
    struct overlap_group groups[AORTA_HWQ_MOST_GROUPS]; /* in the order written, the same on all ranks */
    int group_count;                                    /* 0: this rank is in none */
    struct hwq_tensor send;
    bool compute, comms; /* which sides there are */
};

/* Both sides alone and together. (comms_compute_overlap_report.c) */
AORTA_MUST_USE aorta_status aorta_hwq_overlap_report(struct hwq_graph *g, struct aorta_hwq_result *result);

#endif
