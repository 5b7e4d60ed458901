/* How the clocks of ranks differ, from the ends of the collectives that they share. (Device clock rates:
 * measure/clocks.h.)
 *
 * Rank r's clock shows e(r,c) at the end of collective c; the shifts o(r) and the moments T(c) are those that make
 * |e(r,c) - o(r) - T(c)| small, by alternating medians (the robust form of least squares with one constant per rank and
 * one per collective), beginning with the medians of pairs of ranks. */
#include "analysis/align.h"
#include "base/statistics.h"

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

static void prepare(struct work *w, struct aorta_arena *memory) {
    const struct aorta_rank_ends *in = w->in;
    size_t ends = in->first[in->collectives], ranks = in->ranks;
    w->values = aorta_arena_raw(memory, ends * sizeof *w->values);
    w->moments = aorta_arena_alloc(memory, in->collectives * sizeof *w->moments);
    w->known = aorta_arena_alloc(memory, in->collectives);
    w->shared_of = aorta_arena_raw(memory, ends * sizeof *w->shared_of);
    w->by_rank = aorta_arena_raw(memory, ends * sizeof *w->by_rank);
    w->begins = aorta_arena_alloc(memory, (ranks + 2) * sizeof *w->begins);
    for (size_t r = 0; r < ranks; r++) w->root[r] = UINT32_MAX;
    if (memory->failed) return;
    for (size_t c = 0; c < in->collectives; c++)
        for (size_t i = in->first[c]; i < in->first[c + 1]; i++) w->shared_of[i] = c;
    for (size_t i = 0; i < ends; i++) w->begins[in->ends[i].rank + 2]++;
    for (size_t r = 2; r <= ranks; r++) w->begins[r] += w->begins[r - 1];
    for (size_t i = 0; i < ends; i++) w->by_rank[w->begins[in->ends[i].rank + 1]++] = i;
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

void aorta_clock_shifts(const struct aorta_rank_ends *ends, struct aorta_arena *memory, int64_t *shift_ns,
                        uint32_t *root) {
    struct work w = {.in = ends, .shift_ns = shift_ns, .root = root};
    struct aorta_arena scratch = {0};
    prepare(&w, &scratch);
    for (size_t r = 0; !scratch.failed && r < ends->ranks; r++) {
        if (root[r] != UINT32_MAX) continue;
        link_ranks(&w, (uint32_t)r);
        polish(&w, (uint32_t)r);
    }
    aorta_arena_end(&scratch, memory);
}
