/* Process groups as they are written on a command line, and sizes with K, M and G. */
#ifndef AORTA_HWQ_GROUPS_H
#define AORTA_HWQ_GROUPS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

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
