/* Autotuning: see blas.h. */
#include "ops/gpu/blas.h"

#include "base/clock.h"

enum {
    RUNS = 5, /* runs per graph if the work is short */
    ROUNDS = 3,
    SHORT_NS = 400000, /* longer work has fewer runs per graph */
    LONG_NS = 4000000, /* for longer work only preferred candidates are measured */
    FINALISTS = 16,
    ENOUGH_NS = 50000000, /* no third round after this time */
    TIMESTAMPS = 2,       /* nodes of a graph: before its first and after its last run */
};

struct tuning {
    const struct aorta_autotune *autotune;
    struct aorta_candidate *candidates;
    int runs; /* between two timestamps */
    bool live[AORTA_AUTOTUNE_MOST];
    struct aorta_graph *graphs[AORTA_AUTOTUNE_MOST];
    int64_t (*timestamps)[TIMESTAMPS]; /* pinned */
};

/* ---- runs between two timestamps ---- */

static aorta_status queue_between(const struct tuning *tuning, int which, bool *refused) {
    struct aorta_stream *stream = tuning->autotune->stream;
    *refused = false;
    AORTA_TRY(aorta_timestamp(stream, &tuning->timestamps[which][0]));
    for (int i = 0; i < tuning->runs && !*refused; i++)
        *refused = tuning->autotune->queue(tuning->autotune->context, which) != 0;
    return aorta_timestamp(stream, &tuning->timestamps[which][1]);
}

static void read_time(const struct tuning *tuning, int which) {
    const int64_t time = (tuning->timestamps[which][1] - tuning->timestamps[which][0]) / tuning->runs;
    if (time < tuning->candidates[which].time_ns) tuning->candidates[which].time_ns = time;
}

/* Roughly measures the first candidate that runs. *length is 0 if none runs. */
static aorta_status guess_length(struct tuning *tuning, int64_t *length) {
    const struct aorta_autotune *t = tuning->autotune;
    int which = 0;
    *length = 0;
    while (which < t->count && t->queue(t->context, which)) which++;
    if (which == t->count) return NULL;
    bool refused;
    tuning->runs = 1;
    AORTA_TRY(queue_between(tuning, which, &refused));
    AORTA_TRY(aorta_stream_synchronize(t->stream));
    *length = tuning->timestamps[which][1] - tuning->timestamps[which][0];
    return NULL;
}

/* The first run of a kernel loads it, so it is not measured. */
static aorta_status warm_up(struct tuning *tuning, bool preferred_only, int *live_count) {
    const struct aorta_autotune *t = tuning->autotune;
    *live_count = 0;
    for (int i = 0; i < t->count; i++) {
        tuning->live[i] = (tuning->candidates[i].preferred || !preferred_only) && !t->queue(t->context, i);
        *live_count += tuning->live[i];
    }
    return aorta_stream_synchronize(t->stream);
}

/* Launches take host time, too, so these measurements are not exact and preferred candidates are never dropped. */
static aorta_status drop_slow(struct tuning *tuning, int live_count) {
    const int count = tuning->autotune->count;
    bool refused;
    tuning->runs = 2;
    for (int i = 0; i < count; i++)
        if (tuning->live[i]) AORTA_TRY(queue_between(tuning, i, &refused));
    AORTA_TRY(aorta_stream_synchronize(tuning->autotune->stream));
    for (; live_count > FINALISTS; live_count--) {
        int slowest = -1;
        int64_t longest = -1;
        for (int i = 0; i < count; i++) {
            const int64_t time = tuning->timestamps[i][1] - tuning->timestamps[i][0];
            if (!tuning->live[i] || tuning->candidates[i].preferred || time <= longest) continue;
            longest = time;
            slowest = i;
        }
        if (slowest < 0) return NULL;
        tuning->live[slowest] = false;
    }
    return NULL;
}

/* ---- as graphs ---- */

/* A candidate that cannot be captured has no graph. If the device failed, the launch of the candidates reports it. */
static void capture(struct tuning *tuning, int which) {
    struct aorta_stream *stream = tuning->autotune->stream;
    bool refused = false;
    struct aorta_graph *graph = NULL;
    aorta_status status = aorta_capture_begin(stream);
    if (!status) {
        status = queue_between(tuning, which, &refused);
        status = aorta_status_join(status, aorta_capture_end(stream, &graph));
    }
    const int nodes = graph ? (int)aorta_graph_node_count(graph) - TIMESTAMPS : 0;
    if (status || refused || nodes <= 0) { /* without nodes the work was not captured but executed */
        aorta_status_free(status);
        aorta_graph_destroy(graph);
        return;
    }
    tuning->graphs[which] = graph;
    tuning->candidates[which].nodes = (nodes + tuning->runs - 1) / tuning->runs;
}

static aorta_status replay_all(struct tuning *tuning) {
    for (int i = 0; i < tuning->autotune->count; i++)
        if (tuning->graphs[i]) AORTA_TRY(aorta_graph_launch(tuning->graphs[i], tuning->autotune->stream));
    AORTA_TRY(aorta_stream_synchronize(tuning->autotune->stream));
    for (int i = 0; i < tuning->autotune->count; i++)
        if (tuning->graphs[i]) read_time(tuning, i);
    return NULL;
}

/* ---- as launched ---- */

static aorta_status launch_all(struct tuning *tuning) {
    for (int i = 0; i < tuning->autotune->count; i++) {
        bool refused = false;
        if (!tuning->live[i]) continue;
        AORTA_TRY(queue_between(tuning, i, &refused));
        AORTA_TRY(aorta_stream_synchronize(tuning->autotune->stream));
        if (!refused) read_time(tuning, i);
    }
    return NULL;
}

/* ---- all of them ---- */

/* The candidates alternate, so that a rising clock frequency favours none of them. */
static aorta_status run_rounds(struct tuning *tuning) {
    const int64_t begin = aorta_clock_ns();
    bool captured = false;
    for (int i = 0; i < tuning->autotune->count; i++) {
        if (tuning->live[i]) capture(tuning, i);
        captured = captured || tuning->graphs[i];
    }
    for (int round = 0; round < ROUNDS; round++) {
        if (round > 1 && aorta_clock_ns() - begin > ENOUGH_NS) return NULL;
        AORTA_TRY(captured ? replay_all(tuning) : launch_all(tuning));
    }
    return NULL;
}

static aorta_status run_all(struct tuning *tuning) {
    int64_t length;
    int live_count;
    AORTA_TRY(guess_length(tuning, &length));
    AORTA_TRY(warm_up(tuning, length > LONG_NS, &live_count));
    if (live_count > FINALISTS) AORTA_TRY(drop_slow(tuning, live_count));
    tuning->runs = length > RUNS * SHORT_NS ? 1 : length > SHORT_NS ? 2 : RUNS;
    return run_rounds(tuning);
}

aorta_status aorta_autotune_run(const struct aorta_autotune *autotune, struct aorta_candidate *candidates) {
    struct aorta_device *device = aorta_stream_device(autotune->stream);
    struct tuning tuning = {.autotune = autotune, .candidates = candidates};
    if (autotune->count < 0 || autotune->count > AORTA_AUTOTUNE_MOST)
        return AORTA_ERROR(AORTA_INTERNAL, "%d candidates to autotune; at most %d", autotune->count,
                           AORTA_AUTOTUNE_MOST);
    for (int i = 0; i < autotune->count; i++) {
        candidates[i].time_ns = INT64_MAX;
        candidates[i].nodes = 0;
    }
    void *timestamps;
    AORTA_TRY(aorta_pinned_alloc(device, AORTA_AUTOTUNE_MOST * sizeof *tuning.timestamps, "timestamps of autotuning",
                                 &timestamps));
    tuning.timestamps = timestamps;
    aorta_status status = run_all(&tuning);
    aorta_status waited = status ? aorta_stream_synchronize(autotune->stream) : NULL;
    for (int i = 0; i < autotune->count; i++) aorta_graph_destroy(tuning.graphs[i]);
    aorta_pinned_free(device, timestamps);
    return aorta_status_join(status, waited);
}

/* ---- the choice ---- */

static bool is_better(const struct aorta_candidate *x, const struct aorta_candidate *y) {
    if (x->nodes != y->nodes) return x->nodes < y->nodes;
    if (!x->workspace_bytes != !y->workspace_bytes) return !x->workspace_bytes;
    return x->time_ns < y->time_ns;
}

int aorta_autotune_best(const struct aorta_candidate *candidates, int count) {
    int64_t least = INT64_MAX;
    int best = -1;
    for (int i = 0; i < count; i++)
        if (candidates[i].time_ns < least) least = candidates[i].time_ns;
    if (least == INT64_MAX) return -1;
    for (int i = 0; i < count; i++) {
        if (candidates[i].time_ns == INT64_MAX || candidates[i].time_ns > least + least / 50) continue;
        if (best < 0 || is_better(&candidates[i], &candidates[best])) best = i;
    }
    return best;
}
