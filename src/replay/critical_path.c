#include "replay/critical_path.h"
#include "base/arena.h"
#include "base/array.h"
#include "base/sort.h"
#include "replay/replay.h"
#include "replay/trace_graph.h"

#include <stdlib.h>
#include <string.h>

const char *aorta_path_kind_name(int kind) {
    static const char *const names[] = {"kernel", "collective", "copy", "launch",    "behind",
                                        "call",   "return",     "host", "data_wait", "unexplained"};
    return names[kind];
}

void aorta_critical_path_free(struct aorta_critical_path *path) {
    free(path->pieces);
    *path = (struct aorta_critical_path){0};
}

static int by_name(const void *left, const void *right) {
    const struct aorta_path_row *a = left, *b = right;
    if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    if (!a->name || !b->name) return (a->name != NULL) - (b->name != NULL);
    return strcmp(a->name, b->name);
}

static AORTA_ORDER(longest_first, struct aorta_path_row, AORTA_DOWN(ns) AORTA_THEN(by_name));

void aorta_path_rows_make(const struct aorta_critical_path *path, uint32_t rank, struct aorta_arena *arena,
                          struct aorta_path_rows *rows) {
    size_t joined = 0;
    *rows = (struct aorta_path_rows){.reason = path->reason,
                                     .rows = aorta_arena_raw(arena, path->count * sizeof *rows->rows)};
    for (size_t i = 0; rows->rows && i < path->count; i++) {
        const struct aorta_path_piece *piece = &path->pieces[i];
        const int64_t ns = piece->end_ns - piece->start_ns;
        rows->total_ns += ns;
        if (rank == UINT32_MAX || piece->rank == rank)
            rows->rows[rows->count++] = (struct aorta_path_row){piece->rank, piece->kind, piece->name, 1, ns};
    }
    if (rows->count) qsort(rows->rows, rows->count, sizeof *rows->rows, by_name);
    for (size_t i = 0; i < rows->count; i++) {
        struct aorta_path_row *last = joined ? &rows->rows[joined - 1] : NULL;
        if (last && !by_name(last, &rows->rows[i])) {
            last->count++;
            last->ns += rows->rows[i].ns;
        } else {
            rows->rows[joined++] = rows->rows[i];
        }
    }
    rows->count = joined;
    if (joined) qsort(rows->rows, joined, sizeof *rows->rows, longest_first);
}

struct walking {
    const struct aorta_trace_graph *built;
    struct aorta_critical_path *path;
    size_t capacity;
    int64_t until_ns; /* start of the pieces so far */
    bool failed;
};

static enum aorta_path_kind kind_of(enum aorta_edge_kind kind) {
    static const uint8_t kinds[AORTA_EDGE_KIND_COUNT] = {
        [AORTA_EDGE_GAP] = AORTA_PATH_HOST,
        [AORTA_EDGE_PAUSE] = AORTA_PATH_HOST,
        [AORTA_EDGE_DATA] = AORTA_PATH_DATA,
        [AORTA_EDGE_COLLECTIVE] = AORTA_PATH_CALL,
        [AORTA_EDGE_HANDOVER] = AORTA_PATH_HOST,
        [AORTA_EDGE_CALL] = AORTA_PATH_CALL,
        [AORTA_EDGE_CALL_SYNC] = AORTA_PATH_CALL,
        [AORTA_EDGE_CALL_MEMORY] = AORTA_PATH_CALL,
        [AORTA_EDGE_CALL_COPY] = AORTA_PATH_CALL,
        [AORTA_EDGE_WAIT] = AORTA_PATH_RETURN,
        [AORTA_EDGE_WAIT_COPY] = AORTA_PATH_RETURN,
        [AORTA_EDGE_WAIT_MEMORY] = AORTA_PATH_RETURN,
        [AORTA_EDGE_WAIT_QUEUE] = AORTA_PATH_RETURN,
        [AORTA_EDGE_LAUNCH] = AORTA_PATH_LAUNCH,
        [AORTA_EDGE_STREAM] = AORTA_PATH_BEHIND,
        [AORTA_EDGE_DEPENDENCY] = AORTA_PATH_BEHIND,
        [AORTA_EDGE_QUEUE] = AORTA_PATH_BEHIND,
        [AORTA_EDGE_ORDER] = AORTA_PATH_BEHIND,
        [AORTA_EDGE_READY] = AORTA_PATH_BEHIND,
        [AORTA_EDGE_EARLIER] = AORTA_PATH_BEHIND,
        [AORTA_EDGE_CONSUME] = AORTA_PATH_BEHIND,
        [AORTA_EDGE_ARRIVAL] = AORTA_PATH_BEHIND,
        [AORTA_EDGE_TRANSFER] = AORTA_PATH_COLLECTIVE,
        [AORTA_EDGE_KERNEL] = AORTA_PATH_KERNEL,
        [AORTA_EDGE_COPY] = AORTA_PATH_COPY,
    };
    return (enum aorta_path_kind)kinds[kind];
}

static void add(struct walking *w, uint32_t point, enum aorta_path_kind kind, int64_t start_ns, int64_t end_ns) {
    struct aorta_critical_path *path = w->path;
    const uint32_t rank = w->built->graph.rank[point];
    const int64_t shift_ns = aorta_trace_graph_shift(w->built, point);
    if (end_ns > w->until_ns) end_ns = w->until_ns;
    if (end_ns <= start_ns || w->failed) return;
    w->until_ns = start_ns;
    const bool named = kind != AORTA_PATH_HOST && kind != AORTA_PATH_DATA;
    const struct aorta_path_piece piece = {start_ns + shift_ns, end_ns + shift_ns, rank, (uint8_t)kind,
                                           named ? aorta_trace_graph_name(w->built, point) : NULL};
    w->failed = !aorta_array_append(&path->pieces, &w->capacity, &path->count, &piece, sizeof piece);
}

/* Latest first: the residual is before the point, the edge before that. A lag below 0 (a call that returns a moment
 * before what it waits for ends, by their clocks) has no length; what is before it ends where it does. */
static void visit(void *user, uint32_t point, uint32_t edge, int64_t lag_ns, int64_t residual_ns) {
    struct walking *w = user;
    const struct aorta_graph *graph = &w->built->graph;
    const int64_t at_ns = graph->time_ns[point], from_ns = graph->time_ns[graph->from[edge]];
    const int64_t explained_ns = lag_ns > 0 ? at_ns - residual_ns : from_ns;
    add(w, point, AORTA_PATH_UNEXPLAINED, explained_ns, at_ns);
    const bool within = aorta_graph_begins_within(graph, edge); /* it begins relative to its predecessor's start */
    add(w, within ? graph->from[edge] : point,
        within ? AORTA_PATH_KERNEL : kind_of((enum aorta_edge_kind)graph->kind[edge]), from_ns, explained_ns);
}

static void earliest_first(struct aorta_critical_path *path) {
    for (size_t i = 0; i < path->count / 2; i++) {
        const struct aorta_path_piece piece = path->pieces[i];
        path->pieces[i] = path->pieces[path->count - 1 - i];
        path->pieces[path->count - 1 - i] = piece;
    }
}

aorta_status aorta_critical_path_make(const struct aorta_trace_analysis *analysis, struct aorta_critical_path *path) {
    struct aorta_trace_graph built;
    *path = (struct aorta_critical_path){0};
    aorta_status status = aorta_trace_graph_make(analysis, &built);
    if (aorta_status_code(status) == AORTA_UNSUPPORTED) {
        aorta_status_free(status);
        path->reason = "no replay can be made: the ranks' clocks are not one, or the steps do not follow each other";
        return NULL;
    }
    AORTA_TRY(status);
    struct walking w = {.built = &built, .path = path, .until_ns = INT64_MAX};
    aorta_graph_walk(&built.graph, visit, &w);
    aorta_trace_graph_free(&built);
    if (w.failed) {
        aorta_critical_path_free(path);
        return AORTA_ERROR(AORTA_MEMORY, "no memory for the critical path");
    }
    earliest_first(path);
    if (!path->count) path->reason = "nothing ran that could be replayed";
    return NULL;
}
