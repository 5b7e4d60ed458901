#include "hwq/operations.h"

#include <math.h>

static aorta_status run(const struct hwq_operation *o, struct aorta_stream *stream) {
    const int64_t count = o->in[0].rows * o->in[0].columns;
    const int64_t blocks = o->kind->collective == AORTA_ALL_TO_ALL ? aorta_comm_size(o->comm) : 1;
    const struct aorta_comm_call call = {
        .kind = o->kind->collective,
        .dtype = AORTA_F32,
        .reduction = AORTA_SUM,
        .piece_count = 1,
        .pieces = {{hwq_floats(o->in[0]), hwq_floats(o->out[0]), (size_t)(count / blocks)}}};
    return aorta_collective(o->comm, stream, &call);
}

/* ---- all-reduce ---- */

static struct hwq_value all_reduce_element(const struct hwq_element *e) {
    const bool alike = *(const bool *)e->o->shape;
    const double size = (double)aorta_comm_size(e->o->comm);
    const struct hwq_value own = hwq_at(e, 0, e->row, e->column);
    if (aorta_comm_size(e->o->comm) == 1) return own;
    return alike ? (struct hwq_value){size * own.value, size * (1e-6 * fabs(own.value) + own.allowed)} : hwq_unknown();
}

static const struct hwq_kind all_reduce = {.name = "all_reduce",
                                           .span = AORTA_SPAN_COLLECTIVE,
                                           .collective = AORTA_ALL_REDUCE,
                                           .run = run,
                                           .element = all_reduce_element};

struct hwq_tensor hwq_all_reduce(struct hwq_graph *g, int s, struct aorta_comm *comm, const char *name,
                                 struct hwq_tensor from, bool alike) {
    const struct hwq_tensor to = hwq_output(g, from.rows, from.columns, "sum over the ranks");
    const struct hwq_operation o = {
        .kind = &all_reduce, .name = name, .stream = s, .in = {from}, .out = {to}, .comm = comm};
    hwq_append(g, &o, &alike, sizeof alike);
    return to;
}

/* ---- all-gather ---- */

static struct hwq_value all_gather_element(const struct hwq_element *e) {
    if (e->o->in[1].memory) return hwq_at(e, 1, e->row, e->column);
    return e->row == aorta_comm_rank(e->o->comm) ? hwq_at(e, 0, 0, e->column) : hwq_unknown();
}

static const struct hwq_kind all_gather = {.name = "all_gather",
                                           .span = AORTA_SPAN_COLLECTIVE,
                                           .collective = AORTA_ALL_GATHER,
                                           .run = run,
                                           .element = all_gather_element,
                                           .moves = true};

struct hwq_tensor hwq_all_gather(struct hwq_graph *g, int s, struct aorta_comm *comm, struct hwq_tensor from,
                                 struct hwq_tensor whole) {
    const struct hwq_tensor to = hwq_output(g, aorta_comm_size(comm), from.columns, "gathered from the ranks");
    const struct hwq_operation o = {.kind = &all_gather, .stream = s, .in = {from, whole}, .out = {to}, .comm = comm};
    hwq_append(g, &o, NULL, 0);
    return to;
}

/* ---- all-to-all ---- */

/* This rank knows only the rows that it sends to itself; with one rank these are all rows. */
static struct hwq_value all_to_all_element(const struct hwq_element *e) {
    if (e->row / (e->o->in[0].rows / aorta_comm_size(e->o->comm)) != aorta_comm_rank(e->o->comm)) return hwq_unknown();
    return hwq_at(e, 0, e->row, e->column);
}

static const struct hwq_kind all_to_all = {.name = "all_to_all",
                                           .span = AORTA_SPAN_COLLECTIVE,
                                           .collective = AORTA_ALL_TO_ALL,
                                           .run = run,
                                           .element = all_to_all_element,
                                           .moves = true};

struct hwq_tensor hwq_all_to_all(struct hwq_graph *g, int s, struct aorta_comm *comm, struct hwq_tensor from) {
    const struct hwq_tensor to = hwq_output(g, from.rows, from.columns, "rows from the ranks");
    const struct hwq_operation o = {.kind = &all_to_all, .stream = s, .in = {from}, .out = {to}, .comm = comm};
    hwq_append(g, &o, NULL, 0);
    return to;
}
