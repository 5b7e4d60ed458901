#include "base/arena.h"
#include "base/sort.h"
#include "base/statistics.h"
#include "replay/whatif.h"

#include <math.h>
#include <stdlib.h>

/* ---- the model ---- */

/* Consecutive messages and their total bytes. */
struct work {
    double messages, bytes;
};

struct cost {
    struct work within, between;
};

static double time_of(struct work work, struct aorta_link link) {
    return work.messages * link.latency_ns + work.bytes * link.ns_per_byte;
}

static struct work shorter(struct work a, struct work b, struct aorta_link link) {
    return time_of(b, link) < time_of(a, link) ? b : a;
}

static struct work sum(struct work a, struct work b) {
    return (struct work){a.messages + b.messages, a.bytes + b.bytes};
}

static struct work scaled(struct work work, double factor) {
    return (struct work){factor * work.messages, factor * work.bytes};
}

static struct work ring(double ranks, double bytes) {
    return (struct work){ranks - 1, bytes * (ranks - 1) / ranks};
}

static struct work flat(enum aorta_collective kind, double ranks, double bytes, struct aorta_link link) {
    double levels = ceil(log2(ranks));
    struct work around = ring(ranks, bytes);
    switch (kind) {
    case AORTA_ALL_REDUCE:
        return shorter(scaled(around, 2), (struct work){2 * levels, 2 * bytes}, link);
    case AORTA_BARRIER:
        return (struct work){2 * levels, 0};
    case AORTA_BROADCAST:
        return shorter((struct work){levels, bytes * levels}, sum((struct work){levels, around.bytes}, around), link);
    case AORTA_ALL_GATHER:
    case AORTA_REDUCE_SCATTER:
    case AORTA_ALL_TO_ALL:
        return around;
    case AORTA_COLLECTIVE_OTHER:
    case AORTA_COLLECTIVE_COUNT:
        break;
    }
    return (struct work){0, 0};
}

static struct cost in_nodes(const struct aorta_network *network, enum aorta_collective kind, int ranks, double bytes) {
    int within = network->ranks_per_node, nodes = (ranks + within - 1) / within;
    double part = kind == AORTA_BROADCAST ? bytes : bytes / within;
    struct work beyond = {ranks - within, bytes * (ranks - within) / ranks};
    switch (kind) {
    case AORTA_ALL_REDUCE:
        return (struct cost){scaled(ring(within, bytes), 2), flat(kind, nodes, part, network->between)};
    case AORTA_ALL_TO_ALL:
        return (struct cost){{within - 1, bytes * (within - 1) / ranks}, beyond};
    default:
        return (struct cost){flat(kind, within, bytes, network->within), flat(kind, nodes, part, network->between)};
    }
}

static struct cost cost_of(const struct aorta_network *network, enum aorta_collective kind, int ranks, int64_t bytes) {
    double size = bytes > 0 ? (double)bytes : 0;
    if (ranks < 2 || (size <= 0 && kind != AORTA_BARRIER)) return (struct cost){{0, 0}, {0, 0}};
    if (ranks > network->ranks_per_node) return in_nodes(network, kind, ranks, size);
    return (struct cost){flat(kind, ranks, size, network->within), {0, 0}};
}

struct aorta_collective_time aorta_collective_model(const struct aorta_network *network, enum aorta_collective kind,
                                                    int ranks, int64_t bytes) {
    struct cost cost = cost_of(network, kind, ranks, bytes);
    return (struct aorta_collective_time){
        cost.within.messages * network->within.latency_ns + cost.between.messages * network->between.latency_ns,
        cost.within.bytes * network->within.ns_per_byte + cost.between.bytes * network->between.ns_per_byte};
}

/* ---- the fit ---- */

enum {
    ROUNDS = 4,       /* repeated, as the faster algorithm depends on the link, and the fitted link on the algorithm */
    MOST_SIZES = 512, /* limited, as the number of pairs grows with the square */
};
static const double SPREAD = 2; /* minimum ratio of the largest to the smallest size; else they count as one size */

/* Samples of one kind and size. Per message: time_ns / messages = α + bytes / messages · β. */
struct size {
    const struct aorta_collective_sample *sample;
    double time_ns;
    double x, y;
};

struct weighted {
    double value, weight;
};

struct fitting {
    struct size *sizes;
    struct weighted *values; /* by pair of sizes */
    double *times_ns;        /* of one size */
    size_t count;
    int ranks_per_node;
};

/* The weighted median. */
static double median(struct weighted *values, size_t count) {
    double total = 0, passed = 0;
    qsort(values, count, sizeof *values, aorta_by_double);
    for (size_t i = 0; i < count; i++) total += values[i].weight;
    for (size_t i = 0; i < count; i++) {
        passed += values[i].weight;
        if (2 * passed < total) continue;
        bool between = 2 * passed <= total && i + 1 < count;
        return between ? (values[i].value + values[i + 1].value) / 2 : values[i].value;
    }
    return 0;
}

static bool fits(const struct aorta_collective_sample *sample) {
    return sample->ranks > 1 && sample->bytes > 0 && sample->time_ns > 0 &&
           aorta_collective_bus_factor(sample->kind, sample->ranks) > 0;
}

/* Reduces the sorted samples of each kind and size to one. */
static void collect(struct fitting *fitting, const struct aorta_collective_sample *samples, size_t count,
                    double percentile, struct aorta_link_fit *fit) {
    for (size_t begin = 0, end; begin < count && fitting->count < MOST_SIZES; begin = end) {
        for (end = begin; end < count && !aorta_by_collective(&samples[begin], &samples[end]);) end++;
        size_t first = begin;
        while (first < end && !fits(&samples[first])) first++;
        if (first == end) continue;
        for (size_t i = first; i < end; i++) fitting->times_ns[i - first] = samples[i].time_ns;
        fitting->sizes[fitting->count++] = (struct size){
            .sample = &samples[first], .time_ns = aorta_percentile_sorted(fitting->times_ns, end - first, percentile)};
        fit->samples += end - first;
    }
    fit->sizes = fitting->count;
}

static struct work messages_of(const struct fitting *fitting, const struct aorta_collective_sample *sample,
                               struct aorta_link link) {
    const struct aorta_network network = {link, link, fitting->ranks_per_node};
    struct cost cost = cost_of(&network, sample->kind, sample->ranks, sample->bytes);
    return sum(cost.within, cost.between);
}

static double slope(struct fitting *fitting) {
    size_t pairs = 0;
    for (size_t i = 0; i < fitting->count; i++)
        for (size_t j = i + 1; j < fitting->count; j++) {
            double dx = fitting->sizes[j].x - fitting->sizes[i].x, dy = fitting->sizes[j].y - fitting->sizes[i].y;
            if (dx > 0 || dx < 0) fitting->values[pairs++] = (struct weighted){dy / dx, fabs(dx)};
        }
    return median(fitting->values, pairs);
}

/* The median over sizes of the time per byte after subtracting the latency. */
static double bytes_alone(struct fitting *fitting, double latency_ns) {
    for (size_t i = 0; i < fitting->count; i++) {
        double left_ns = fitting->sizes[i].y - latency_ns;
        fitting->values[i] = (struct weighted){(left_ns > 0 ? left_ns : 0) / fitting->sizes[i].x, 1};
    }
    return median(fitting->values, fitting->count);
}

static bool has_one_size(const struct fitting *fitting) {
    double least = INFINITY, most = 0;
    for (size_t i = 0; i < fitting->count; i++) {
        least = fmin(least, fitting->sizes[i].x);
        most = fmax(most, fitting->sizes[i].x);
    }
    return most < SPREAD * least;
}

static struct aorta_link fit_line(struct fitting *fitting, double latency_ns, bool *one_size) {
    struct aorta_link link = {latency_ns > 0 ? latency_ns : 0, 0};
    *one_size = has_one_size(fitting);
    if (!*one_size) {
        link.ns_per_byte = slope(fitting);
        for (size_t i = 0; i < fitting->count; i++)
            fitting->values[i] = (struct weighted){fitting->sizes[i].y - link.ns_per_byte * fitting->sizes[i].x, 1};
        link.latency_ns = fmax(median(fitting->values, fitting->count), 0);
    }
    if (*one_size || link.ns_per_byte <= 0 || link.latency_ns <= 0)
        link.ns_per_byte = bytes_alone(fitting, link.latency_ns);
    return link;
}

/* With few ranks, the latency includes the time to begin a collective. It is limited to the time per message of the
 * fastest collective. */
static double message_ns(const struct fitting *fitting, double latency_ns) {
    for (size_t i = 0; i < fitting->count; i++) latency_ns = fmin(latency_ns, fitting->sizes[i].y);
    return latency_ns;
}

static double error_of(struct fitting *fitting, struct aorta_link link) {
    for (size_t i = 0; i < fitting->count; i++) {
        const struct size *size = &fitting->sizes[i];
        double model_ns = time_of(messages_of(fitting, size->sample, link), link);
        fitting->values[i] = (struct weighted){fabs(model_ns - size->time_ns) / size->time_ns, 1};
    }
    return median(fitting->values, fitting->count);
}

static void fit_sizes(struct fitting *fitting, double latency_ns, struct aorta_link_fit *fit) {
    if (!fitting->count) return;
    fit->link = (struct aorta_link){10000, 0.1}; /* for the first choice of algorithms */
    for (int round = 0; round < ROUNDS; round++) {
        AORTA_EACH (struct size, size, fitting->sizes, fitting->count) {
            struct work work = messages_of(fitting, size->sample, fit->link);
            size->x = work.bytes / work.messages;
            size->y = size->time_ns / work.messages;
        }
        fit->link = fit_line(fitting, latency_ns, &fit->one_size);
    }
    fit->error = error_of(fitting, fit->link);
    fit->link.latency_ns = message_ns(fitting, fit->link.latency_ns);
}

aorta_status aorta_link_fit_make(struct aorta_collective_sample *samples, size_t count, int ranks_per_node,
                                 double percentile, double latency_ns, struct aorta_link_fit *fit) {
    const size_t limit = count < MOST_SIZES ? count : MOST_SIZES;
    struct aorta_arena memory = {0};
    struct fitting fitting = {.sizes = aorta_arena_raw(&memory, limit * sizeof *fitting.sizes),
                              .values = aorta_arena_raw(&memory, limit * (limit + 1) / 2 * sizeof *fitting.values),
                              .times_ns = aorta_arena_raw(&memory, count * sizeof *fitting.times_ns),
                              .ranks_per_node = ranks_per_node};
    *fit = (struct aorta_link_fit){0};
    if (!memory.failed && count) {
        qsort(samples, count, sizeof *samples, aorta_by_collective_and_time);
        collect(&fitting, samples, count, percentile, fit);
        fit_sizes(&fitting, latency_ns, fit);
    }
    aorta_status status = aorta_arena_check(&memory, "the times of collectives");
    aorta_arena_free(&memory);
    return status;
}
