#include "hwq/operations.h"

#include <math.h>

static size_t count_of(const struct hwq_tensor *t) {
    return (size_t)(t->rows * t->columns);
}

/* ---- all-reduce ---- */

static aorta_status run_all_reduce(const struct hwq_operation *o, struct aorta_stream *stream) {
    return aorta_all_reduce(o->comm, stream, hwq_floats(o->in[0]), hwq_floats(o->out[0]), count_of(&o->in[0]),
                            AORTA_F32, AORTA_SUM);
}

static struct hwq_value all_reduce_element(struct hwq_checker *c, const struct hwq_operation *o, int output,
                                           int64_t row, int64_t column) {
    const bool alike = *(const bool *)o->shape;
    const double size = (double)aorta_comm_size(o->comm);
    const struct hwq_value own = hwq_at(c, o, 0, row, column);
    (void)output;
    if (aorta_comm_size(o->comm) == 1) return own;
    return alike ? (struct hwq_value){size * own.value, size * (1e-6 * fabs(own.value) + own.allowed)} : hwq_unknown();
}

static const struct hwq_kind all_reduce = {
    "all_reduce", AORTA_SPAN_COLLECTIVE, run_all_reduce, all_reduce_element, NULL, 0, false};

struct hwq_tensor hwq_all_reduce(struct hwq_graph *g, int s, struct aorta_comm *comm, const char *name,
                                 struct hwq_tensor from, bool alike) {
    const struct hwq_tensor to = hwq_output(g, from.rows, from.columns, "sum over the ranks");
    const struct hwq_operation o = {
        .kind = &all_reduce, .name = name, .stream = s, .in = {from}, .out = {to}, .comm = comm};
    hwq_append(g, &o, &alike, sizeof alike);
    return to;
}

/* ---- all-gather ---- */

static aorta_status run_all_gather(const struct hwq_operation *o, struct aorta_stream *stream) {
    return aorta_all_gather(o->comm, stream, hwq_floats(o->in[0]), hwq_floats(o->out[0]), count_of(&o->in[0]),
                            AORTA_F32);
}

static struct hwq_value all_gather_element(struct hwq_checker *c, const struct hwq_operation *o, int output,
                                           int64_t row, int64_t column) {
    (void)output;
    if (o->in[1].memory) return hwq_at(c, o, 1, row, column);
    return row == aorta_comm_rank(o->comm) ? hwq_at(c, o, 0, 0, column) : hwq_unknown();
}

static const struct hwq_kind all_gather = {
    "all_gather", AORTA_SPAN_COLLECTIVE, run_all_gather, all_gather_element, NULL, 0, true};

struct hwq_tensor hwq_all_gather(struct hwq_graph *g, int s, struct aorta_comm *comm, struct hwq_tensor from,
                                 struct hwq_tensor whole) {
    const struct hwq_tensor to = hwq_output(g, aorta_comm_size(comm), from.columns, "gathered from the ranks");
    const struct hwq_operation o = {.kind = &all_gather, .stream = s, .in = {from, whole}, .out = {to}, .comm = comm};
    hwq_append(g, &o, NULL, 0);
    return to;
}

/* ---- all-to-all ---- */

static aorta_status run_all_to_all(const struct hwq_operation *o, struct aorta_stream *stream) {
    return aorta_all_to_all(o->comm, stream, hwq_floats(o->in[0]), hwq_floats(o->out[0]),
                            count_of(&o->in[0]) / (size_t)aorta_comm_size(o->comm), AORTA_F32);
}

/* What this rank sends to itself; with one rank that is everything. */
static struct hwq_value all_to_all_element(struct hwq_checker *c, const struct hwq_operation *o, int output,
                                           int64_t row, int64_t column) {
    (void)output;
    if (row / (o->in[0].rows / aorta_comm_size(o->comm)) != aorta_comm_rank(o->comm)) return hwq_unknown();
    return hwq_at(c, o, 0, row, column);
}

static const struct hwq_kind all_to_all = {
    "all_to_all", AORTA_SPAN_COLLECTIVE, run_all_to_all, all_to_all_element, NULL, 0, true};

struct hwq_tensor hwq_all_to_all(struct hwq_graph *g, int s, struct aorta_comm *comm, struct hwq_tensor from) {
    const struct hwq_tensor to = hwq_output(g, from.rows, from.columns, "rows from the ranks");
    const struct hwq_operation o = {.kind = &all_to_all, .stream = s, .in = {from}, .out = {to}, .comm = comm};
    hwq_append(g, &o, NULL, 0);
    return to;
}
