#include "analysis/rank_clocks.h"
#include "base/statistics.h"

#include <stdlib.h>

struct work {
    const struct aorta_rank_ends *in;
    int64_t *shift_ns;
    uint32_t *root;    /* UINT32_MAX: not known yet */
    int64_t *values;   /* to take medians of */
    int64_t *moments;  /* of each collective: its end on the common clock */
    bool *known;       /* whether it has one */
    size_t *shared_of; /* of each end: its collective */
    size_t *by_rank;   /* indices of the ends, rank after rank; those of rank r from begins[r] on */
    size_t *begins;
};

static aorta_status prepare(struct work *w) {
    const struct aorta_rank_ends *in = w->in;
    size_t ends = in->first[in->collectives], ranks = in->ranks;
    w->values = malloc((ends + 1) * sizeof *w->values);
    w->moments = calloc(in->collectives + 1, sizeof *w->moments);
    w->known = calloc(in->collectives + 1, sizeof *w->known);
    w->shared_of = malloc((ends + 1) * sizeof *w->shared_of);
    w->by_rank = malloc((ends + 1) * sizeof *w->by_rank);
    w->begins = calloc(ranks + 2, sizeof *w->begins);
    if (!w->values || !w->moments || !w->known || !w->shared_of || !w->by_rank || !w->begins)
        return AORTA_ERROR(AORTA_MEMORY, "no memory to align %zu collectives", in->collectives);
    for (size_t c = 0; c < in->collectives; c++)
        for (size_t i = in->first[c]; i < in->first[c + 1]; i++) w->shared_of[i] = c;
    for (size_t i = 0; i < ends; i++) w->begins[in->ends[i].rank + 2]++;
    for (size_t r = 2; r <= ranks; r++) w->begins[r] += w->begins[r - 1];
    for (size_t i = 0; i < ends; i++) w->by_rank[w->begins[in->ends[i].rank + 1]++] = i;
    for (size_t r = 0; r < ranks; r++) w->root[r] = UINT32_MAX;
    return NULL;
}

static void release(struct work *w) {
    free(w->values);
    free(w->moments);
    free(w->known);
    free(w->shared_of);
    free(w->by_rank);
    free(w->begins);
}

/* The ends of collectives on the common clock: medians over the ranks that `root` is linked with. */
static void find_moments(struct work *w, uint32_t root) {
    for (size_t c = 0; c < w->in->collectives; c++) {
        size_t count = 0;
        for (size_t i = w->in->first[c]; i < w->in->first[c + 1]; i++) {
            const struct aorta_rank_end *end = &w->in->ends[i];
            if (w->root[end->rank] == root) w->values[count++] = end->end_ns - w->shift_ns[end->rank];
        }
        w->moments[c] = aorta_median_int64(w->values, count);
        w->known[c] = count > 0;
    }
}

/* The median difference between a rank's ends and the known moments. False: there is none. */
static bool shift_of(struct work *w, size_t rank, int64_t *shift) {
    size_t count = 0;
    for (size_t i = w->begins[rank]; i < w->begins[rank + 1]; i++) {
        size_t end = w->by_rank[i], collective = w->shared_of[end];
        if (w->known[collective]) w->values[count++] = w->in->ends[end].end_ns - w->moments[collective];
    }
    if (count) *shift = aorta_median_int64(w->values, count);
    return count > 0;
}

/* Links all ranks that share collectives with the root, nearest first. */
static void link_ranks(struct work *w, uint32_t root) {
    w->root[root] = root;
    for (bool found = true; found;) {
        found = false;
        find_moments(w, root);
        for (size_t r = 0; r < w->in->ranks; r++) {
            if (w->root[r] != UINT32_MAX || !shift_of(w, r, &w->shift_ns[r])) continue;
            w->root[r] = root;
            found = true;
        }
    }
}

/* Alternating medians until nothing moves. The root's clock stays what it is. */
static void polish(struct work *w, uint32_t root) {
    enum { ROUNDS = 50 };
    int64_t fixed = w->shift_ns[root];
    for (int round = 0; round < ROUNDS; round++) {
        find_moments(w, root);
        int64_t moved = 0;
        for (size_t r = 0; r < w->in->ranks; r++) {
            int64_t shift, *own = &w->shift_ns[r];
            if (w->root[r] != root || !shift_of(w, r, &shift)) continue;
            int64_t change = shift > *own ? shift - *own : *own - shift;
            if (change > moved) moved = change;
            *own = shift;
        }
        int64_t drift = w->shift_ns[root] - fixed;
        for (size_t r = 0; r < w->in->ranks; r++)
            if (w->root[r] == root) w->shift_ns[r] -= drift;
        if (moved == 0) break;
    }
}

aorta_status aorta_clock_shifts(const struct aorta_rank_ends *ends, int64_t *shift_ns, uint32_t *root) {
    struct work w = {.in = ends, .shift_ns = shift_ns, .root = root};
    aorta_status status = prepare(&w);
    for (size_t r = 0; !status && r < ends->ranks; r++) {
        if (root[r] != UINT32_MAX) continue;
        link_ranks(&w, (uint32_t)r);
        polish(&w, (uint32_t)r);
    }
    release(&w);
    return status;
}
