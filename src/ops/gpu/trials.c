#include "ops/gpu/trials.h"

#include "base/clock.h"

enum {
    RUNS = 5, /* of short work, in one graph */
    ROUNDS = 3,
    SHORT_NS = 400000, /* longer work is run less often in a graph */
    LONG_NS = 4000000, /* longer work is tried in favoured ways only */
    FINALISTS = 16,
    PATIENCE_NS = 50000000, /* after so long two rounds are enough */
    STAMPS = 2,             /* nodes of a graph: the times before its first and behind its last run */
};

struct race {
    const struct aorta_trials *trials;
    struct aorta_trial *ways;
    int runs; /* between two stamps */
    bool live[AORTA_MOST_TRIALS];
    struct aorta_graph *graphs[AORTA_MOST_TRIALS];
    int64_t (*stamps)[STAMPS]; /* pinned */
};

/* ---- runs between two timestamps ---- */

static aorta_status queue_between(const struct race *race, int which, bool *refused) {
    struct aorta_stream *stream = race->trials->stream;
    *refused = false;
    AORTA_TRY(aorta_timestamp(stream, &race->stamps[which][0]));
    for (int i = 0; i < race->runs && !*refused; i++) *refused = race->trials->queue(race->trials->context, which) != 0;
    return aorta_timestamp(stream, &race->stamps[which][1]);
}

static void read_time(const struct race *race, int which) {
    const int64_t time = (race->stamps[which][1] - race->stamps[which][0]) / race->runs;
    if (time < race->ways[which].time_ns) race->ways[which].time_ns = time;
}

/* How long the first way that runs takes, roughly; 0: none runs. */
static aorta_status guess_length(struct race *race, int64_t *length) {
    const struct aorta_trials *t = race->trials;
    int which = 0;
    *length = 0;
    while (which < t->count && t->queue(t->context, which)) which++;
    if (which == t->count) return NULL;
    bool refused;
    race->runs = 1;
    AORTA_TRY(queue_between(race, which, &refused));
    AORTA_TRY(aorta_stream_synchronize(t->stream));
    *length = race->stamps[which][1] - race->stamps[which][0];
    return NULL;
}

/* Kernels are loaded at their first run, which therefore counts for nothing. */
static aorta_status warm_up(struct race *race, bool favoured_only, int *live_count) {
    const struct aorta_trials *t = race->trials;
    *live_count = 0;
    for (int i = 0; i < t->count; i++) {
        race->live[i] = (race->ways[i].favoured || !favoured_only) && !t->queue(t->context, i);
        *live_count += race->live[i];
    }
    return aorta_stream_synchronize(t->stream);
}

/* As launched, where the host may be what takes the time: so none is left out that is favoured. */
static aorta_status leave_out_slow(struct race *race, int live_count) {
    const int count = race->trials->count;
    bool refused;
    race->runs = 2;
    for (int i = 0; i < count; i++)
        if (race->live[i]) AORTA_TRY(queue_between(race, i, &refused));
    AORTA_TRY(aorta_stream_synchronize(race->trials->stream));
    for (; live_count > FINALISTS; live_count--) {
        int slowest = -1;
        int64_t longest = -1;
        for (int i = 0; i < count; i++) {
            const int64_t time = race->stamps[i][1] - race->stamps[i][0];
            if (!race->live[i] || race->ways[i].favoured || time <= longest) continue;
            longest = time;
            slowest = i;
        }
        if (slowest < 0) return NULL;
        race->live[slowest] = false;
    }
    return NULL;
}

/* ---- as graphs ---- */

/* Leaves the way without a graph where it cannot be captured, whatever the reason: then nothing is lost, and what is
 * wrong with the device shows when the ways are launched. */
static void capture(struct race *race, int which) {
    struct aorta_stream *stream = race->trials->stream;
    bool refused = false;
    struct aorta_graph *graph = NULL;
    aorta_status status = aorta_capture_begin(stream);
    if (!status) {
        status = queue_between(race, which, &refused);
        status = aorta_status_join(status, aorta_capture_end(stream, &graph));
    }
    const int nodes = graph ? (int)aorta_graph_node_count(graph) - STAMPS : 0;
    if (status || refused || nodes <= 0) { /* no nodes: what was queued ran at once instead */
        aorta_status_free(status);
        aorta_graph_destroy(graph);
        return;
    }
    race->graphs[which] = graph;
    race->ways[which].nodes = (nodes + race->runs - 1) / race->runs;
}

static aorta_status replay_all(struct race *race) {
    for (int i = 0; i < race->trials->count; i++)
        if (race->graphs[i]) AORTA_TRY(aorta_graph_launch(race->graphs[i], race->trials->stream));
    AORTA_TRY(aorta_stream_synchronize(race->trials->stream));
    for (int i = 0; i < race->trials->count; i++)
        if (race->graphs[i]) read_time(race, i);
    return NULL;
}

/* ---- as launched ---- */

static aorta_status launch_all(struct race *race) {
    for (int i = 0; i < race->trials->count; i++) {
        bool refused = false;
        if (!race->live[i]) continue;
        AORTA_TRY(queue_between(race, i, &refused));
        AORTA_TRY(aorta_stream_synchronize(race->trials->stream));
        if (!refused) read_time(race, i);
    }
    return NULL;
}

/* ---- all of them ---- */

/* The ways take turns, so that a clock that rises meanwhile favours none. */
static aorta_status run_rounds(struct race *race) {
    const int64_t begin = aorta_clock_ns();
    bool captured = false;
    for (int i = 0; i < race->trials->count; i++) {
        if (race->live[i]) capture(race, i);
        captured = captured || race->graphs[i];
    }
    for (int round = 0; round < ROUNDS; round++) {
        if (round > 1 && aorta_clock_ns() - begin > PATIENCE_NS) return NULL;
        AORTA_TRY(captured ? replay_all(race) : launch_all(race));
    }
    return NULL;
}

static aorta_status run_all(struct race *race) {
    int64_t length;
    int live_count;
    AORTA_TRY(guess_length(race, &length));
    AORTA_TRY(warm_up(race, length > LONG_NS, &live_count));
    if (live_count > FINALISTS) AORTA_TRY(leave_out_slow(race, live_count));
    race->runs = length > RUNS * SHORT_NS ? 1 : length > SHORT_NS ? 2 : RUNS;
    return run_rounds(race);
}

aorta_status aorta_trials_run(const struct aorta_trials *trials, struct aorta_trial *ways) {
    struct aorta_device *device = aorta_stream_device(trials->stream);
    struct race race = {.trials = trials, .ways = ways};
    if (trials->count < 0 || trials->count > AORTA_MOST_TRIALS)
        return AORTA_ERROR(AORTA_INTERNAL, "%d trials; at most %d", trials->count, AORTA_MOST_TRIALS);
    for (int i = 0; i < trials->count; i++) {
        ways[i].time_ns = INT64_MAX;
        ways[i].nodes = 0;
    }
    void *stamps;
    AORTA_TRY(aorta_pinned_alloc(device, AORTA_MOST_TRIALS * sizeof *race.stamps, "times of trials", &stamps));
    race.stamps = stamps;
    aorta_status status = run_all(&race);
    aorta_status waited = status ? aorta_stream_synchronize(trials->stream) : NULL;
    for (int i = 0; i < trials->count; i++) aorta_graph_destroy(race.graphs[i]);
    aorta_pinned_free(device, stamps);
    return aorta_status_join(status, waited);
}

/* ---- the choice ---- */

static bool is_better(const struct aorta_trial *x, const struct aorta_trial *y) {
    if (x->nodes != y->nodes) return x->nodes < y->nodes;
    if (!x->workspace_bytes != !y->workspace_bytes) return !x->workspace_bytes;
    return x->time_ns < y->time_ns;
}

int aorta_trials_best(const struct aorta_trial *ways, int count) {
    int64_t least = INT64_MAX;
    int best = -1;
    for (int i = 0; i < count; i++)
        if (ways[i].time_ns < least) least = ways[i].time_ns;
    if (least == INT64_MAX) return -1;
    for (int i = 0; i < count; i++) {
        if (ways[i].time_ns == INT64_MAX || ways[i].time_ns > least + least / 50) continue;
        if (best < 0 || is_better(&ways[i], &ways[best])) best = i;
    }
    return best;
}
