#include "trace/layers.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

enum {
    LONGEST = 64, /* period */
    FEWEST = 4    /* steps that show it */
};
/* By chance one of 3 million series is as regular. A recording has a few hundred, and each is tried with 63 periods. */
static const double LEAST_STRENGTH = 5;
static const double AS_STRONG = 0.9; /* twice a period shows as much as the period */
static const double MOST_TIES =
    0.9; /* a share of the variance; clocks of coarse resolution make periods of their own */

struct value {
    int64_t value;
    size_t place;
};

static int by_value(const void *left, const void *right) {
    const struct value *a = left, *b = right;
    if (a->value != b->value) return a->value < b->value ? -1 : 1;
    return (a->place > b->place) - (a->place < b->place);
}

/* Ranks around 0, equal values share theirs. Returns the share of the variance that ties take away. */
static double rank(struct value *values, size_t count, double *ranks) {
    const double middle = (double)(count - 1) / 2, n = (double)count;
    double ties = 0;
    qsort(values, count, sizeof *values, by_value);
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && values[end].value == values[i].value; end++) {
        }
        const double equal = (double)(end - i);
        for (size_t j = i; j < end; j++) ranks[values[j].place] = (double)(i + end - 1) / 2 - middle;
        ties += equal * equal * equal - equal;
    }
    return ties / (n * n * n - n);
}

/* A sum of squares with so many degrees of freedom (the cube root of Wilson and Hilferty). */
static double deviations(double squares, double freedom) {
    const double spread = 2 / (9 * freedom);
    return (cbrt(squares / freedom) - (1 - spread)) / sqrt(spread);
}

/* What a period explains. */
struct tried {
    struct aorta_layers layers;
    double squares; /* with period - 1 degrees of freedom */
};

static struct tried try_period(const double *ranks, size_t count, size_t period, double ties) {
    const double n = (double)count;
    double squares = 0, highest = -INFINITY;
    struct aorta_layers found = {.period = period};
    for (size_t phase = 0; phase < period; phase++) {
        double sum = 0, members = 0;
        for (size_t i = phase; i < count; i += period, members++) sum += ranks[i];
        squares += sum * sum / members;
        if (sum / members <= highest) continue;
        highest = sum / members;
        found.first = (int64_t)phase;
    }
    squares *= 12 / (n * (n + 1) * (1 - ties));
    found.strength = deviations(squares, (double)(period - 1));
    return (struct tried){found, squares};
}

/* Of a period the part that explains as much: what the whole explains beyond it is as by chance. */
static size_t shortest(const struct tried *tried, size_t period) {
    for (size_t part = 3; 2 * part <= period; part++) {
        if (period % part || tried[part].layers.strength < LEAST_STRENGTH) continue;
        const double beyond = tried[period].squares - tried[part].squares;
        if (deviations(beyond, (double)(period - part)) < LEAST_STRENGTH) return part;
    }
    return period;
}

static void find(const double *ranks, size_t count, double ties, struct aorta_layers *best) {
    struct tried tried[LONGEST + 1];
    double strongest = LEAST_STRENGTH;
    size_t end = 2, chosen = 2;
    for (; end <= LONGEST && end * FEWEST <= count; end++) {
        tried[end] = try_period(ranks, count, end, ties);
        if (tried[end].layers.strength > strongest) strongest = tried[end].layers.strength;
    }
    while (chosen < end && tried[chosen].layers.strength < AS_STRONG * strongest) chosen++;
    if (chosen <= 2 || chosen >= end) return;
    chosen = shortest(tried, chosen);
    if (tried[chosen].layers.strength > best->strength) *best = tried[chosen].layers;
}

void aorta_layers_find(const int64_t *values, size_t count, struct aorta_arena *memory, struct aorta_layers *best) {
    if (count < FEWEST * 2) return;
    struct aorta_arena scratch = {0};
    struct value *sorted = aorta_arena_raw(&scratch, count * sizeof *sorted);
    double *ranks = aorta_arena_raw(&scratch, count * sizeof *ranks);
    for (size_t i = 0; ranks && i < count; i++) sorted[i] = (struct value){values[i], i};
    const double ties = ranks ? rank(sorted, count, ranks) : 1;
    if (ties < MOST_TIES) find(ranks, count, ties, best);
    aorta_arena_end(&scratch, memory);
}
