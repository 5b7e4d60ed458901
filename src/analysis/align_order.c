/* Matches collectives without numbers by their order on each rank and their end times. */
#include "analysis/align_internal.h"
#include "base/sort.h"
#include "base/statistics.h"

#include <stdlib.h>

/* ---- the lag between the orders of two ranks ---- */

enum { MOST_LAGS = 256, SAMPLES = 512, FEW = 4 };

struct fit {
    size_t pairs, agreeing;
    int64_t lag, shift_ns, spread_ns; /* median difference of the ends, and median distance from it */
};

/* How well the runs fit if op i of `other` is op i + lag of the reference, measured on samples. */
static struct fit fit_of(struct aorta_align_run reference, struct aorta_align_run other, int64_t lag, int64_t samples,
                         int64_t *differences) {
    struct fit fit = {.lag = lag};
    int64_t from = lag < 0 ? -lag : 0, to = (int64_t)other.count;
    if (to + lag > (int64_t)reference.count) to = (int64_t)reference.count - lag;
    int64_t stride = to > from ? (to - from) / samples + 1 : 1;
    for (int64_t i = from; i < to; i += stride, fit.pairs++) {
        const struct aorta_align_op *a = &reference.items[i + lag], *b = &other.items[i];
        if (a->kind == b->kind && a->named == b->named && a->bytes == b->bytes)
            differences[fit.agreeing++] = b->end_ns - a->end_ns;
    }
    fit.shift_ns = aorta_median_int64(differences, fit.agreeing);
    for (size_t i = 0; i < fit.agreeing; i++) differences[i] = llabs(differences[i] - fit.shift_ns);
    fit.spread_ns = aorta_median_int64(differences, fit.agreeing);
    return fit;
}

/* Whether there are enough pairs, and nearly all agree in kind and size. */
static bool plausible(const struct fit *fit, size_t shorter) {
    return fit->agreeing * 10 >= fit->pairs * 9 && fit->pairs * 2 >= (shorter < SAMPLES ? shorter : SAMPLES);
}

/* Finds the lag with the smallest spread. An exactly repeating program fits at several lags; of those that fit nearly
 * as well, the lag closest to `wall_ns`, the shift by the times of day, is used. If both have equally many collectives,
 * as recordings of the same steps do, the lag is 0 unless another lag agrees within the error of one host's clock. */
int64_t aorta_align_lag(struct aorta_align_run reference, struct aorta_align_run other, int64_t wall_ns) {
    enum { SLACK_NS = 20000, ONE_CLOCK_NS = 250000 };
    bool same_steps = false;
    int64_t differences[SAMPLES + 1];
    size_t shorter = reference.count < other.count ? reference.count : other.count;
    size_t longer = reference.count > other.count ? reference.count : other.count;
    int64_t reach = (int64_t)(longer < MOST_LAGS ? longer : MOST_LAGS), best = 0;
    int64_t spread = INT64_MAX, distance = INT64_MAX;
    for (int64_t lag = -reach; lag <= reach && shorter >= FEW; lag++) {
        struct fit fit = fit_of(reference, other, lag, SAMPLES, differences);
        if (fit.agreeing >= FEW && plausible(&fit, shorter) && fit.spread_ns < spread) spread = fit.spread_ns;
    }
    for (int64_t lag = -reach; lag <= reach; lag++) {
        struct fit fit = fit_of(reference, other, lag, SAMPLES, differences);
        if (!fit.agreeing || !plausible(&fit, shorter)) continue;
        if (spread != INT64_MAX && (fit.agreeing < FEW || fit.spread_ns > 2 * spread + SLACK_NS)) continue;
        if (lag == 0 && reference.count == other.count) same_steps = true;
        if (llabs(fit.shift_ns - wall_ns) >= distance) continue;
        distance = llabs(fit.shift_ns - wall_ns);
        best = lag;
    }
    return same_steps && distance > ONE_CLOCK_NS ? 0 : best;
}

/* ---- teams of streams ---- */

/* The collectives of one stream of a rank. The channels of a team form a ring (`next`). */
struct channel {
    struct aorta_align_run run;
    uint32_t rank, next;
    int64_t lag;       /* added to a number in the run: the place in the team's order */
    int64_t spread_ns; /* of its closest pair in the team; INT64_MAX: none */
};

struct pair {
    int64_t spread_ns, shift_ns, lag;
    uint32_t left, right;
};

/* A rank's clock as known from pairs: own clock − that of the rank `root`. */
struct clock {
    size_t root;
    int64_t shift_ns;
};

struct teams {
    struct channel *channels;
    size_t channel_count;
    struct pair *pairs;
    size_t pair_count, pair_capacity;
    struct clock *clocks; /* of each rank */
    size_t ranks;
    struct aorta_arena memory;
};

static bool known(const struct aorta_align_op *op) {
    return op->group || op->sequence >= 0;
}

static AORTA_ORDER(by_stream, struct aorta_align_op,
                   AORTA_BY(known(a) - known(b)) AORTA_UP(rank) AORTA_UP(stream) AORTA_UP(start_ns) AORTA_UP(first));

/* Makes the channels. Returns whether a rank has several. */
static bool find_channels(const struct aorta_align_op *ops, size_t count, struct teams *teams) {
    bool several = false;
    for (size_t begin = 0, end; begin < count; begin = end) {
        for (end = begin; end < count && ops[end].rank == ops[begin].rank && ops[end].stream == ops[begin].stream;
             end++) {
        }
        const uint32_t number = (uint32_t)teams->channel_count++;
        teams->channels[number] = (struct channel){{ops + begin, end - begin}, ops[begin].rank, number, 0, INT64_MAX};
        several |= number && teams->channels[number - 1].rank == ops[begin].rank;
    }
    return several;
}

static const int64_t TOGETHER_NS = 100000; /* maximum distance between ends of one collective */

/* The lag at which the ends of two channels are closest. Lags are tried up to the difference of the counts. A few
 * samples exclude most channels of different teams. */
static struct fit closest(struct aorta_align_run left, struct aorta_align_run right) {
    enum { FURTHEST = 32, GLANCE = 16 };
    int64_t differences[SAMPLES + 1];
    struct fit best = {.spread_ns = INT64_MAX};
    const int64_t more = (int64_t)left.count - (int64_t)right.count;
    const size_t shorter = more < 0 ? left.count : right.count;
    const int64_t reach = llabs(more) < FURTHEST ? llabs(more) : FURTHEST;
    for (int64_t lag = -reach; lag <= reach; lag++) {
        struct fit fit = fit_of(left, right, lag, GLANCE, differences);
        if (fit.agreeing < FEW || fit.spread_ns > TOGETHER_NS) continue;
        fit = fit_of(left, right, lag, SAMPLES, differences);
        if (fit.agreeing >= FEW && plausible(&fit, shorter) && fit.spread_ns < best.spread_ns) best = fit;
    }
    return best;
}

static void find_pairs(struct teams *teams) {
    for (uint32_t i = 0; i < teams->channel_count; i++)
        for (uint32_t j = i + 1; j < teams->channel_count; j++) {
            if (teams->channels[i].rank == teams->channels[j].rank) continue;
            const struct fit fit = closest(teams->channels[i].run, teams->channels[j].run);
            if (fit.spread_ns > TOGETHER_NS) continue;
            const struct pair pair = {fit.spread_ns, fit.shift_ns, fit.lag, i, j};
            aorta_arena_append(&teams->memory, &teams->pairs, &teams->pair_capacity, &teams->pair_count, &pair,
                               sizeof pair);
        }
}

/* Whether the teams of two channels have a rank in common, as two channels of one team do. */
static bool meet(const struct teams *teams, uint32_t left, uint32_t right) {
    uint32_t a = left, b = right;
    do {
        do {
            if (teams->channels[a].rank == teams->channels[b].rank) return true;
            b = teams->channels[b].next;
        } while (b != right);
        a = teams->channels[a].next;
    } while (a != left);
    return false;
}

/* Whether the pair's shift agrees with the known shift of its ranks. If none is known, the clocks are set from the
 * pair. */
static bool fits_clocks(struct teams *teams, const struct pair *pair) {
    enum { DRIFT_NS = 50000 };
    const struct clock left = teams->clocks[teams->channels[pair->left].rank];
    const struct clock right = teams->clocks[teams->channels[pair->right].rank];
    const int64_t more_ns = left.shift_ns + pair->shift_ns - right.shift_ns;
    if (left.root == right.root) return llabs(more_ns) <= DRIFT_NS;
    for (size_t i = 0; i < teams->ranks; i++)
        if (teams->clocks[i].root == right.root)
            teams->clocks[i] = (struct clock){left.root, teams->clocks[i].shift_ns + more_ns};
    return true;
}

/* Joins the teams of a pair; closer pairs come first. Streams of different groups may end nearly together, but with
 * another shift of the clocks or further apart than members of a team. */
static bool join(struct teams *teams, const struct pair *pair) {
    enum { SLACK_NS = 20000 };
    struct channel *left = &teams->channels[pair->left], *right = &teams->channels[pair->right];
    const int64_t spread_ns = left->spread_ns < right->spread_ns ? left->spread_ns : right->spread_ns;
    if (spread_ns != INT64_MAX && pair->spread_ns > SLACK_NS + 2 * spread_ns) return false;
    if (meet(teams, pair->left, pair->right) || !fits_clocks(teams, pair)) return false;
    if (left->spread_ns == INT64_MAX) left->spread_ns = pair->spread_ns;
    if (right->spread_ns == INT64_MAX) right->spread_ns = pair->spread_ns;
    const int64_t more = left->lag + pair->lag - right->lag;
    const uint32_t next = left->next;
    uint32_t moved = pair->right;
    do {
        teams->channels[moved].lag += more;
        moved = teams->channels[moved].next;
    } while (moved != pair->right);
    left->next = right->next;
    right->next = next;
    return true;
}

static int32_t size_of(const struct teams *teams, uint32_t channel, uint32_t *least) {
    int32_t size = 1;
    *least = channel;
    for (uint32_t i = teams->channels[channel].next; i != channel; i = teams->channels[i].next, size++)
        if (i < *least) *least = i;
    return size;
}

static void name_teams(const struct teams *teams, struct aorta_align_op *ops) {
    for (uint32_t i = 0; i < teams->channel_count; i++) {
        uint32_t least;
        const int32_t size = size_of(teams, i, &least);
        struct aorta_align_op *own = ops + (teams->channels[i].run.items - ops);
        for (size_t j = 0; j < teams->channels[i].run.count; j++) {
            own[j].group = (uint64_t)least + 1;
            own[j].placed = true;
            own[j].place = (int64_t)j + teams->channels[i].lag;
            if (own[j].group_size < 0) own[j].group_size = size;
        }
    }
}

void aorta_align_teams(size_t rank_count, struct aorta_align_op *ops, size_t count, struct aorta_arena *memory) {
    struct teams teams = {.ranks = rank_count};
    size_t unknown = 0;
    bool joined = false;
    qsort(ops, count, sizeof *ops, by_stream);
    while (unknown < count && !known(&ops[unknown])) unknown++;
    teams.channels = aorta_arena_raw(&teams.memory, unknown * sizeof *teams.channels);
    teams.clocks = aorta_arena_raw(&teams.memory, rank_count * sizeof *teams.clocks);
    if (!teams.memory.failed && find_channels(ops, unknown, &teams)) {
        for (size_t i = 0; i < rank_count; i++) teams.clocks[i] = (struct clock){i, 0};
        find_pairs(&teams);
        aorta_sort_rows(teams.pairs, teams.pair_count, sizeof *teams.pairs, aorta_by_int64);
        for (size_t i = 0; i < teams.pair_count; i++) joined |= join(&teams, &teams.pairs[i]);
        if (joined) name_teams(&teams, ops);
    }
    aorta_arena_end(&teams.memory, memory);
}
