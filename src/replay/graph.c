#include "replay/graph.h"

#include "base/arena.h"

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

enum state { UNSEEN, OPEN, DONE };

struct walk {
    struct aorta_arena memory;
    uint32_t *first; /* edges[first[i] .. first[i + 1]) lead to point i, by its old number */
    uint32_t *edges;
    uint32_t *cursor;
    uint8_t *state;
    uint32_t *order; /* old numbers, in the new order; from the end on, points that are open */
    uint32_t done;
    uint32_t *rows; /* edges in order of the points' new numbers, without those that were dropped */
};

static void walk_make(const struct aorta_graph *graph, struct walk *walk) {
    const size_t points = (size_t)graph->point_count + 2, edges = (size_t)graph->edge_count + 1;
    walk->first = aorta_arena_alloc(&walk->memory, points * sizeof *walk->first);
    walk->edges = aorta_arena_raw(&walk->memory, edges * sizeof *walk->edges);
    walk->cursor = aorta_arena_raw(&walk->memory, points * sizeof *walk->cursor);
    walk->state = aorta_arena_alloc(&walk->memory, points * sizeof *walk->state);
    walk->order = aorta_arena_alloc(&walk->memory, points * sizeof *walk->order);
    if (walk->memory.failed) return;
    for (uint32_t i = 0; i < graph->edge_count; i++) walk->first[graph->to[i] + 2]++;
    for (uint32_t i = 2; i < graph->point_count + 2; i++) walk->first[i] += walk->first[i - 1];
    for (uint32_t i = 0; i < graph->edge_count; i++) walk->edges[walk->first[graph->to[i] + 1]++] = i;
    walk->rows = graph->to; /* which is not needed any more */
}

/* Everything that a point depends on goes before it. An edge that would close a circle is dropped: it gets no source.
 */
static void visit_from(struct aorta_graph *graph, struct walk *walk, uint32_t point) {
    uint32_t *const end = walk->order + graph->point_count, *open = end;
    *--open = point;
    walk->cursor[point] = walk->first[point];
    walk->state[point] = OPEN;
    while (open < end) {
        const uint32_t top = *open;
        if (walk->cursor[top] == walk->first[top + 1]) {
            walk->state[top] = DONE;
            open++;
            walk->order[walk->done++] = top;
            continue;
        }
        uint32_t edge = walk->edges[walk->cursor[top]++], from = graph->from[edge];
        if (walk->state[from] == OPEN) {
            graph->from[edge] = AORTA_GRAPH_NONE;
            graph->dropped++;
        } else if (walk->state[from] == UNSEEN) {
            walk->state[from] = OPEN;
            walk->cursor[from] = walk->first[from];
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

static void move_changes(struct aorta_graph *graph, struct walk *walk) {
    uint32_t *places = walk->edges, used = 0; /* the edges' new numbers */
    for (uint32_t i = 0; i < graph->edge_count; i++) places[i] = AORTA_GRAPH_NONE;
    for (uint32_t i = 0; i < graph->first_edge[graph->point_count]; i++) places[walk->rows[i]] = i;
    for (uint32_t i = 0; i < graph->change_count; i++) {
        struct aorta_graph_change change = graph->changes[i];
        change.edge = places[change.edge];
        if (change.edge != AORTA_GRAPH_NONE) graph->changes[used++] = change;
    }
    graph->change_count = used;
    if (used) qsort(graph->changes, used, sizeof *graph->changes, change_order);
}

static void number_edges(struct aorta_graph *graph, const struct walk *walk) {
    uint32_t used = 0;
    for (uint32_t i = 0; i < graph->point_count; i++) {
        uint32_t old = walk->order[i];
        graph->first_edge[i] = used;
        for (uint32_t j = walk->first[old]; j < walk->first[old + 1]; j++) {
            uint32_t edge = walk->edges[j];
            if (graph->from[edge] != AORTA_GRAPH_NONE) walk->rows[used++] = edge;
        }
    }
    graph->first_edge[graph->point_count] = used;
}

/* Where edges and marks lead, in the points' new numbers. */
static void name_points(struct aorta_graph *graph, struct walk *walk) {
    uint32_t *number = walk->cursor;
    for (uint32_t i = 0; i < graph->point_count; i++) number[walk->order[i]] = i;
    for (uint32_t i = 0; i < graph->edge_count; i++)
        if (graph->from[i] != AORTA_GRAPH_NONE) graph->from[i] = number[graph->from[i]];
    for (uint32_t i = 0; i < graph->rank_count; i++)
        if (graph->ranks[i].mark != AORTA_GRAPH_NONE) graph->ranks[i].mark = number[graph->ranks[i].mark];
}

static bool order_edges(struct aorta_graph *graph, const uint32_t *rows) {
    const uint32_t used = graph->edge_count = graph->first_edge[graph->point_count];
    /* The widest array goes first: the space that it frees is large enough for the next ones. */
    return reorder((void **)&graph->lag_ns, sizeof *graph->lag_ns, rows, used) &&
           reorder((void **)&graph->from, sizeof *graph->from, rows, used) &&
           reorder((void **)&graph->kind, sizeof *graph->kind, rows, used) &&
           reorder((void **)&graph->inferred, sizeof *graph->inferred, rows, used);
}

static bool renumber(struct aorta_graph *graph, struct walk *walk) {
    number_edges(graph, walk);
    move_changes(graph, walk);
    name_points(graph, walk);
    return order_edges(graph, walk->rows) && order_points(graph, walk->order);
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
    walk_make(graph, &walk);
    graph->first_edge = malloc(((size_t)graph->point_count + 1) * sizeof *graph->first_edge);
    graph->residual_ns = malloc(((size_t)graph->point_count + 1) * sizeof *graph->residual_ns);
    graph->failed |= walk.memory.failed || !graph->first_edge || !graph->residual_ns;
    for (uint32_t i = 0; !graph->failed && i < graph->point_count; i++)
        if (walk.state[i] == UNSEEN) visit_from(graph, &walk, i);
    if (!graph->failed) graph->failed = !renumber(graph, &walk);
    aorta_arena_free(&walk.memory);
    free(graph->to);
    graph->to = NULL;
    if (graph->failed)
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
