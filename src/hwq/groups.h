/* Process groups as they are written on a command line, and sizes with K, M and G. */
#ifndef AORTA_HWQ_GROUPS_H
#define AORTA_HWQ_GROUPS_H

#include "base/status.h"

#include <stdint.h>

enum { AORTA_HWQ_MOST_RANKS = 1024 };

struct aorta_hwq_group_list {
    int ranks[AORTA_HWQ_MOST_RANKS]; /* of the group that has `rank` in it, in the order written */
    int count;                       /* 0: it is in none */
    int groups;                      /* that were written */
};
/* "[0,1],[2,3]". AORTA_USAGE says what is wrong and at which place: a rank beyond world_size, or in two groups, too. */
AORTA_MUST_USE aorta_status aorta_hwq_groups_parse(const char *text, int rank, int world_size,
                                                   struct aorta_hwq_group_list *list);
/* "128M": K, M, G are powers of 1024; also "128MB", "128MiB". `option` is named in the message. */
AORTA_MUST_USE aorta_status aorta_hwq_size_parse(const char *option, const char *text, int64_t *bytes);
/* "1024", "1024,2048,512": M, N, K; one value stands for all three. */
AORTA_MUST_USE aorta_status aorta_hwq_shape_parse(const char *option, const char *text, int64_t shape[3]);

#endif
