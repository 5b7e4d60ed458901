/* Where in the program hosts pause: between which calls, by what these launched. The three places at which they pause
 * longest in all have a removal each, since each has a reason of its own. */
#include "replay/graph_build_internal.h"

#include <stdlib.h>

enum { PLACES = AORTA_WITHOUT_HOST_PAUSE_ELSE - AORTA_WITHOUT_HOST_PAUSE };

struct place {
    size_t begin, end; /* of the sorted pauses */
    int64_t sum_ns;
};

static int by_place(const void *left, const void *right) {
    const struct aorta_pause *a = left, *b = right;
    if (a->before != b->before) return a->before < b->before ? -1 : 1;
    if (a->after != b->after) return a->after < b->after ? -1 : 1;
    return (a->edge > b->edge) - (a->edge < b->edge);
}

/* Keeps the longest places, longest first. */
static void keep_longest(struct place *longest, struct place place) {
    for (int i = 0; i < PLACES; i++) {
        if (longest[i].sum_ns >= place.sum_ns) continue;
        struct place shorter = longest[i];
        longest[i] = place;
        place = shorter;
    }
}

static uint32_t removal_of(const struct place *longest, size_t pause) {
    for (int i = 0; i < PLACES; i++)
        if (pause >= longest[i].begin && pause < longest[i].end) return (uint32_t)(AORTA_WITHOUT_HOST_PAUSE + i);
    return AORTA_WITHOUT_HOST_PAUSE_ELSE;
}

void aorta_place_pauses(struct aorta_graph_builder *builder) {
    struct aorta_pause *pauses = builder->pauses;
    size_t count = builder->pause_count;
    struct place longest[PLACES] = {0};
    if (count) qsort(pauses, count, sizeof *pauses, by_place);
    for (size_t begin = 0, end; begin < count; begin = end) {
        struct place place = {.begin = begin};
        for (end = begin;
             end < count && pauses[end].before == pauses[begin].before && pauses[end].after == pauses[begin].after;
             end++)
            place.sum_ns += pauses[end].lag_ns;
        place.end = end;
        keep_longest(longest, place);
    }
    for (size_t i = 0; i < count; i++)
        aorta_graph_change(builder->graph, pauses[i].edge, removal_of(longest, i), pauses[i].left_ns);
}
