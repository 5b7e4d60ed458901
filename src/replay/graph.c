#include "replay/graph.h"

#include <stdlib.h>
#include <string.h>

/* ---- growing ---- */

static bool grow(void **array, size_t size, uint32_t capacity) {
    void *moved = realloc(*array, size * capacity);
    if (moved) *array = moved;
    return moved != NULL;
}

static uint32_t next_capacity(uint32_t capacity) {
    return capacity < 1024 ? 1024 : capacity + capacity / 2;
}

static bool grow_points(struct aorta_graph *graph, uint32_t capacity) {
    bool grown = grow((void **)&graph->time_ns, sizeof *graph->time_ns, capacity) &&
                 grow((void **)&graph->rank, sizeof *graph->rank, capacity) &&
                 grow((void **)&graph->subject, sizeof *graph->subject, capacity) &&
                 grow((void **)&graph->ends, sizeof *graph->ends, capacity);
    if (grown) graph->point_capacity = capacity;
    return grown;
}

static bool grow_edges(struct aorta_graph *graph, uint32_t capacity) {
    bool grown = grow((void **)&graph->from, sizeof *graph->from, capacity) &&
                 grow((void **)&graph->to, sizeof *graph->to, capacity) &&
                 grow((void **)&graph->lag_ns, sizeof *graph->lag_ns, capacity) &&
                 grow((void **)&graph->kind, sizeof *graph->kind, capacity) &&
                 grow((void **)&graph->inferred, sizeof *graph->inferred, capacity);
    if (grown) graph->edge_capacity = capacity;
    return grown;
}

void aorta_graph_begin(struct aorta_graph *graph, const struct aorta_graph_rank *ranks, uint32_t rank_count) {
    *graph = (struct aorta_graph){.longer = 1, .ranks = malloc((rank_count + 1) * sizeof *graph->ranks)};
    graph->failed = !graph->ranks;
    if (graph->failed) return;
    graph->rank_count = rank_count;
    if (rank_count) memcpy(graph->ranks, ranks, rank_count * sizeof *ranks);
    for (uint32_t i = 0; i < rank_count; i++) graph->ranks[i].mark = AORTA_GRAPH_NONE;
}

void aorta_graph_reserve(struct aorta_graph *graph, uint32_t points, uint32_t edges) {
    graph->failed = graph->failed || !grow_points(graph, points) || !grow_edges(graph, edges);
}

void aorta_graph_mark(struct aorta_graph *graph, uint32_t rank, uint32_t point) {
    graph->ranks[rank].mark = point;
}

uint32_t aorta_graph_point(struct aorta_graph *graph, int64_t time_ns, uint32_t rank, uint32_t subject, bool ends) {
    if (graph->point_count == graph->point_capacity && !graph->failed)
        graph->failed = !grow_points(graph, next_capacity(graph->point_capacity));
    if (graph->failed) return 0;
    uint32_t point = graph->point_count++;
    graph->time_ns[point] = time_ns;
    graph->rank[point] = rank;
    graph->subject[point] = subject;
    graph->ends[point] = ends;
    return point;
}

uint32_t aorta_graph_edge(struct aorta_graph *graph, uint32_t from, uint32_t to, int64_t lag_ns,
                          enum aorta_edge_kind kind, bool inferred) {
    if (graph->edge_count == graph->edge_capacity && !graph->failed)
        graph->failed = !grow_edges(graph, next_capacity(graph->edge_capacity));
    if (graph->failed) return 0;
    uint32_t edge = graph->edge_count++;
    int64_t distance_ns = graph->time_ns[to] - graph->time_ns[from];
    graph->from[edge] = from;
    graph->to[edge] = to;
    graph->lag_ns[edge] = lag_ns < distance_ns ? lag_ns : distance_ns;
    graph->kind[edge] = (uint8_t)kind;
    graph->inferred[edge] = inferred;
    return edge;
}

void aorta_graph_change(struct aorta_graph *graph, uint32_t edge, uint32_t cause, int64_t lag_ns) {
    if (graph->change_count == graph->change_capacity && !graph->failed) {
        graph->change_capacity = next_capacity(graph->change_capacity);
        graph->failed = !grow((void **)&graph->changes, sizeof *graph->changes, graph->change_capacity);
    }
    if (graph->failed) return;
    graph->changes[graph->change_count++] = (struct aorta_graph_change){edge, cause, lag_ns};
}

/* ---- order ---- */

/* Edges by the point that they lead to, before points are numbered anew. */
struct by_target {
    uint32_t *first; /* of each point, one more than there are */
    uint32_t *edges;
};

static bool sort_by_target(const struct aorta_graph *graph, struct by_target *in) {
    in->first = calloc((size_t)graph->point_count + 2, sizeof *in->first);
    in->edges = malloc(((size_t)graph->edge_count + 1) * sizeof *in->edges);
    if (!in->first || !in->edges) return false;
    for (uint32_t i = 0; i < graph->edge_count; i++) in->first[graph->to[i] + 2]++;
    for (uint32_t i = 2; i < graph->point_count + 2; i++) in->first[i] += in->first[i - 1];
    for (uint32_t i = 0; i < graph->edge_count; i++) in->edges[in->first[graph->to[i] + 1]++] = i;
    return true;
}

enum state { UNSEEN, OPEN, DONE };

struct walk {
    struct by_target in;
    uint32_t *cursor;
    uint8_t *state;
    uint32_t *order; /* old numbers, in the new order; behind them, from the end on, points that are open */
    uint32_t done;
};

static bool walk_make(const struct aorta_graph *graph, struct walk *walk) {
    size_t count = (size_t)graph->point_count + 1;
    *walk = (struct walk){.cursor = malloc(count * sizeof *walk->cursor),
                          .state = calloc(count, sizeof *walk->state),
                          .order = calloc(count, sizeof *walk->order)};
    return sort_by_target(graph, &walk->in) && walk->cursor && walk->state && walk->order;
}

/* Frees what only the ordering needs: a graph of millions of points needs the memory. */
static void walk_settle(struct walk *walk) {
    free(walk->cursor);
    free(walk->state);
    walk->cursor = NULL;
    walk->state = NULL;
}

static void by_target_free(struct by_target *in) {
    free(in->first);
    free(in->edges);
    *in = (struct by_target){0};
}

static void walk_free(struct walk *walk) {
    walk_settle(walk);
    by_target_free(&walk->in);
    free(walk->order);
}

/* Everything that a point depends on goes before it. An edge that would close a circle is dropped: it gets no source.
 */
static void visit_from(struct aorta_graph *graph, struct walk *walk, uint32_t point) {
    uint32_t *const end = walk->order + graph->point_count, *open = end;
    *--open = point;
    walk->cursor[point] = walk->in.first[point];
    walk->state[point] = OPEN;
    while (open < end) {
        const uint32_t top = *open;
        if (walk->cursor[top] == walk->in.first[top + 1]) {
            walk->state[top] = DONE;
            open++;
            walk->order[walk->done++] = top;
            continue;
        }
        uint32_t edge = walk->in.edges[walk->cursor[top]++], from = graph->from[edge];
        if (walk->state[from] == OPEN) {
            graph->from[edge] = AORTA_GRAPH_NONE;
            graph->dropped++;
        } else if (walk->state[from] == UNSEEN) {
            walk->state[from] = OPEN;
            walk->cursor[from] = walk->in.first[from];
            *--open = from;
        }
    }
}

/* The array takes no more than its rows then, where it had grown by half of them. */
static bool reorder(void **array, size_t size, const uint32_t *order, uint32_t count) {
    if (!count) return true; /* the array may be NULL */
    char *sorted = malloc((size_t)count * size + 1);
    if (!sorted) return false;
    for (uint32_t i = 0; i < count; i++)
        memcpy(sorted + (size_t)i * size, (const char *)*array + (size_t)order[i] * size, size);
    free(*array);
    *array = sorted;
    return true;
}

static bool order_points(struct aorta_graph *graph, const uint32_t *order) {
    uint32_t count = graph->point_count;
    return reorder((void **)&graph->time_ns, sizeof *graph->time_ns, order, count) &&
           reorder((void **)&graph->rank, sizeof *graph->rank, order, count) &&
           reorder((void **)&graph->subject, sizeof *graph->subject, order, count) &&
           reorder((void **)&graph->ends, sizeof *graph->ends, order, count);
}

static int change_order(const void *left, const void *right) {
    const struct aorta_graph_change *a = left, *b = right;
    if (a->edge != b->edge) return a->edge < b->edge ? -1 : 1;
    return (a->cause > b->cause) - (a->cause < b->cause);
}

/* rows: the edges in their new order. */
static bool move_changes(struct aorta_graph *graph, const uint32_t *rows) {
    uint32_t *places = malloc(((size_t)graph->edge_count + 1) * sizeof *places), used = 0; /* the edges' new numbers */
    if (!places) return false;
    for (uint32_t i = 0; i < graph->edge_count; i++) places[i] = AORTA_GRAPH_NONE;
    for (uint32_t i = 0; i < graph->first_edge[graph->point_count]; i++) places[rows[i]] = i;
    for (uint32_t i = 0; i < graph->change_count; i++) {
        struct aorta_graph_change change = graph->changes[i];
        change.edge = places[change.edge];
        if (change.edge != AORTA_GRAPH_NONE) graph->changes[used++] = change;
    }
    graph->change_count = used;
    if (used) qsort(graph->changes, used, sizeof *graph->changes, change_order);
    free(places);
    return true;
}

/* rows: the edges in order of the points' new numbers, without those that were dropped. */
static void number_edges(struct aorta_graph *graph, const struct walk *walk, uint32_t *rows) {
    uint32_t used = 0;
    for (uint32_t i = 0; i < graph->point_count; i++) {
        uint32_t old = walk->order[i];
        graph->first_edge[i] = used;
        for (uint32_t j = walk->in.first[old]; j < walk->in.first[old + 1]; j++) {
            uint32_t edge = walk->in.edges[j];
            if (graph->from[edge] != AORTA_GRAPH_NONE) rows[used++] = edge;
        }
    }
    graph->first_edge[graph->point_count] = used;
}

/* Where edges and marks lead, in the points' new numbers. */
static bool name_points(struct aorta_graph *graph, const uint32_t *order) {
    uint32_t *number = calloc((size_t)graph->point_count + 1, sizeof *number);
    if (!number) return false;
    for (uint32_t i = 0; i < graph->point_count; i++) number[order[i]] = i;
    for (uint32_t i = 0; i < graph->edge_count; i++)
        if (graph->from[i] != AORTA_GRAPH_NONE) graph->from[i] = number[graph->from[i]];
    for (uint32_t i = 0; i < graph->rank_count; i++)
        if (graph->ranks[i].mark != AORTA_GRAPH_NONE) graph->ranks[i].mark = number[graph->ranks[i].mark];
    free(number);
    return true;
}

static bool order_edges(struct aorta_graph *graph, const uint32_t *rows) {
    const uint32_t used = graph->first_edge[graph->point_count];
    graph->edge_count = used;
    /* The widest array goes first: the space that it frees is large enough for the next ones. */
    return reorder((void **)&graph->lag_ns, sizeof *graph->lag_ns, rows, used) &&
           reorder((void **)&graph->from, sizeof *graph->from, rows, used) &&
           reorder((void **)&graph->kind, sizeof *graph->kind, rows, used) &&
           reorder((void **)&graph->inferred, sizeof *graph->inferred, rows, used);
}

static bool renumber(struct aorta_graph *graph, struct walk *walk) {
    uint32_t *rows = calloc((size_t)graph->edge_count + 1, sizeof *rows);
    graph->first_edge = malloc(((size_t)graph->point_count + 1) * sizeof *graph->first_edge);
    bool done = rows && graph->first_edge;
    if (done) number_edges(graph, walk, rows);
    by_target_free(&walk->in);
    done = done && move_changes(graph, rows) && name_points(graph, walk->order) && order_edges(graph, rows);
    free(rows);
    return done && order_points(graph, walk->order);
}

/* ---- residuals ---- */

static int64_t explained(const struct aorta_graph *graph, uint32_t point) {
    int64_t latest_ns = INT64_MIN;
    for (uint32_t i = graph->first_edge[point]; i < graph->first_edge[point + 1]; i++) {
        int64_t at_ns = graph->time_ns[graph->from[i]] + graph->lag_ns[i];
        if (!aorta_edge_is_alternative((enum aorta_edge_kind)graph->kind[i]) && at_ns > latest_ns) latest_ns = at_ns;
    }
    return latest_ns == INT64_MIN ? graph->time_ns[point] : latest_ns;
}

aorta_status aorta_graph_finish(struct aorta_graph *graph) {
    struct walk walk = {0};
    bool done = !graph->failed && walk_make(graph, &walk);
    if (done) {
        for (uint32_t i = 0; i < graph->point_count; i++)
            if (walk.state[i] == UNSEEN) visit_from(graph, &walk, i);
        walk_settle(&walk);
        free(graph->to);
        graph->to = NULL;
        done = renumber(graph, &walk);
    }
    walk_free(&walk);
    if (done) graph->residual_ns = malloc(((size_t)graph->point_count + 1) * sizeof *graph->residual_ns);
    if (!done || !graph->residual_ns)
        return AORTA_ERROR(AORTA_MEMORY, "no memory for a graph of %u points and %u edges", graph->point_count,
                           graph->edge_count);
    for (uint32_t i = 0; i < graph->point_count; i++) graph->residual_ns[i] = graph->time_ns[i] - explained(graph, i);
    return NULL;
}

void aorta_graph_free(struct aorta_graph *graph) {
    free(graph->ranks);
    free(graph->time_ns);
    free(graph->residual_ns);
    free(graph->rank);
    free(graph->subject);
    free(graph->ends);
    free(graph->first_edge);
    free(graph->from);
    free(graph->to);
    free(graph->lag_ns);
    free(graph->kind);
    free(graph->inferred);
    free(graph->changes);
    *graph = (struct aorta_graph){0};
}
