/* Which kernels a rank runs longer than the others do: more of them, slower ones, or ones that only it runs.
 *
 * Of each name the rank's time in all is compared with the median of the other ranks'. What is more is removed, but no
 * more in all than the rank computes longer than the others: where one rank has one variant of a kernel and another
 * rank a second one, both are needed. */
#include "replay/assembly.h"

#include <stdlib.h>

static const double MATTERS = 0.01; /* of the rank's time: less is noise */

static int ascending(const void *left, const void *right) {
    const double *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

/* The median of `column` over all ranks but one; `values`: scratch. Of two the lower, to be careful. */
static double median_of_others(const double *column, size_t stride, uint32_t ranks, uint32_t except, double *values) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < ranks; i++)
        if (i != except) values[count++] = column[i * stride];
    qsort(values, count, sizeof *values, ascending);
    return values[count / 2];
}

static void sum_times(const struct aorta_recording *recording, double *times, double *totals) {
    for (uint32_t r = 0; r < recording->rank_count; r++) {
        const struct aorta_replay_rank *rank = &recording->ranks[r];
        double steps = rank->bounds.steps ? rank->bounds.steps : 1;
        for (uint32_t i = 0; i < rank->span_count; i++) {
            const struct aorta_replay_span *span = &rank->spans[i];
            bool counts = span->start_ns >= rank->bounds.start_ns && span->start_ns < rank->bounds.end_ns;
            if (span->kind != AORTA_REPLAY_KERNEL || !counts) continue;
            double length = (double)(span->end_ns - span->start_ns) / steps;
            times[(size_t)r * recording->name_count + span->name] += length;
            totals[r] += length;
        }
    }
}

/* Names of which the rank has more than the others; turns `shares` from times into what stays. */
static void find_shares(const struct aorta_recording *recording, const double *times, uint32_t rank, double excess,
                        double *values, double *shares) {
    double sum = 0;
    uint32_t names = recording->name_count;
    for (uint32_t i = 0; i < names; i++) {
        double mine = times[(size_t)rank * names + i];
        double others = median_of_others(times + i, names, recording->rank_count, rank, values);
        shares[(size_t)rank * names + i] = mine > others ? mine - others : 0;
        sum += shares[(size_t)rank * names + i];
    }
    double part = excess < sum ? excess / sum : 1;
    for (uint32_t i = 0; i < names; i++) {
        double mine = times[(size_t)rank * names + i], *share = &shares[(size_t)rank * names + i];
        *share = excess > 0 && mine > 0 ? 1 - part * *share / mine : 1;
    }
}

aorta_status aorta_straggler_shares(const struct aorta_recording *recording, double **shares) {
    uint32_t ranks = recording->rank_count;
    *shares = NULL;
    if (ranks < 2) return NULL;
    size_t cells = (size_t)ranks * recording->name_count + 1;
    double *times = calloc(cells, sizeof *times), *totals = calloc(ranks, sizeof *totals);
    double *values = malloc(ranks * sizeof *values);
    *shares = malloc(cells * sizeof **shares);
    aorta_status status = NULL;
    if (!times || !totals || !values || !*shares)
        status = AORTA_ERROR(AORTA_MEMORY, "no memory for %u kernels of %u ranks", recording->name_count, ranks);
    if (!status) sum_times(recording, times, totals);
    for (uint32_t i = 0; !status && i < ranks; i++) {
        const struct aorta_graph_rank *bounds = &recording->ranks[i].bounds;
        double length = (double)(bounds->end_ns - bounds->start_ns) / (bounds->steps ? bounds->steps : 1);
        double excess = totals[i] - median_of_others(totals, 1, ranks, i, values);
        find_shares(recording, times, i, excess > MATTERS * length ? excess : 0, values, *shares);
    }
    free(times);
    free(totals);
    free(values);
    return status;
}
