/* Which rank each process of a run is. */
#include "formats/spool.h"

#include <stdlib.h>

static int compare(const void *a, const void *b) {
    const struct aorta_trace *x = *(struct aorta_trace *const *)a, *y = *(struct aorta_trace *const *)b;
    if ((x->rank < 0) != (y->rank < 0)) return x->rank < 0 ? 1 : -1;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    if (x->rank >= 0 && x->work_count != y->work_count) return x->work_count > y->work_count ? -1 : 1;
    if (!x->work_count || !y->work_count) return (x->work_count < y->work_count) - (x->work_count > y->work_count);
    if (x->work[0].device != y->work[0].device) return x->work[0].device < y->work[0].device ? -1 : 1;
    return (x->work[0].start_ns > y->work[0].start_ns) - (x->work[0].start_ns < y->work[0].start_ns);
}

void aorta_spool_number_ranks(struct aorta_trace_list *list) {
    int32_t next = 0, former = -1;
    size_t count = 0;
    struct aorta_trace **spools = calloc(list->count + 1, sizeof *spools);
    if (!spools) return; /* they keep the ranks they have; who needs different ones says so */
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i]->rank >= next) next = list->items[i]->rank + 1;
        if (list->items[i]->format == AORTA_TRACE_SPOOL) spools[count++] = list->items[i];
    }
    qsort(spools, count, sizeof *spools, compare);
    for (size_t i = 0; i < count; i++) {
        int32_t named = spools[i]->rank;
        if (named < 0 || named == former) spools[i]->rank = next++;
        former = named;
    }
    free(spools);
}
