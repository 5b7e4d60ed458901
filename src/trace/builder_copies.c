/* Collectives that copy engines carry out: NCCL without CTAs, symmetric memory, XLA. What shows of them are copies
 * between devices that were launched for a collective. They become its kernels, the copies of one collective on a
 * stream one piece; copies within the device count where the collective has no kernel that they could belong to. */
#include "trace/builder_internal.h"

#include "trace/copied.h"
#include "trace/nest.h"

#include <stdlib.h>
#include <string.h>

/* What a copy may have been launched for: a request, a range of the backend or an operation. */
struct purpose {
    uint32_t collective; /* row of collectives; NONE: not made yet */
    bool kernels;        /* it has some */
};

struct copying {
    struct aorta_trace_builder *builder;
    const struct trace_surroundings *around;
    struct purpose *requests, *backend, *operations;
    size_t *last; /* by stream: 1 + the row of its last work; 0: none */
};

static enum aorta_copied direction_of(const struct aorta_trace_builder *builder, const struct aorta_trace_work *work) {
    return aorta_copied_how(aorta_trace_text(builder->trace, work->name));
}

static bool stays_on_devices(enum aorta_copied direction) {
    return direction == AORTA_COPIED_WITHIN || direction == AORTA_COPIED_BETWEEN;
}

/* ---- purposes ---- */

/* The innermost operation of symmetric memory around the work whose name is a collective's. Operations of c10d have
 * requests, and copy their inputs beside them. */
static uint32_t operation_for(const struct copying *copying, uint32_t row, enum aorta_collective *kind) {
    const struct aorta_trace *trace = copying->builder->trace;
    for (; row != AORTA_TRACE_NONE; row = trace->operations[row].parent) {
        const char *name = aorta_trace_text(trace, trace->operations[row].name);
        if (!strncmp(name, "symm_mem::", 10) && aorta_collective_in(name, kind)) return row;
    }
    return AORTA_TRACE_NONE;
}

static struct purpose *purpose_of(const struct copying *copying, const struct aorta_trace_work *work,
                                  struct aorta_trace_collective *facts) {
    const struct aorta_trace_builder *builder = copying->builder;
    const struct trace_surroundings *around = copying->around;
    const struct aorta_trace_call *call = (const struct aorta_trace_call *)builder->calls.items + work->call;
    const uint32_t request = aorta_nest_find(around->requests, builder->requests.count, sizeof *around->requests,
                                             call->thread, call->start_ns);
    if (request != AORTA_NEST_NONE) {
        *facts =
            ((const struct aorta_trace_collective *)builder->request_facts.items)[around->requests[request].number];
        return &copying->requests[request];
    }
    const uint32_t range =
        aorta_nest_find(around->backend, around->backend_count, sizeof *around->backend, call->thread, call->start_ns);
    *facts = aorta_trace_unknown_collective;
    if (range != AORTA_NEST_NONE) {
        const struct aorta_trace_annotation *annotations = builder->annotations.items;
        facts->name = annotations[around->backend[range].number].name;
        facts->named = aorta_collective_in(aorta_trace_text(builder->trace, facts->name), &facts->kind);
        return &copying->backend[range];
    }
    const uint32_t operation = operation_for(copying, work->operation, &facts->kind);
    if (operation == AORTA_TRACE_NONE) return NULL;
    facts->named = true;
    facts->name = builder->trace->operations[operation].name;
    return &copying->operations[operation];
}

static bool is_collective_kernel(struct aorta_trace_builder *builder, const struct aorta_trace_work *work) {
    if (work->kind != AORTA_TRACE_KERNEL) return false;
    return work->collective != AORTA_TRACE_NONE ||
           aorta_trace_kernel_kind(builder, work->name).class == AORTA_KERNEL_COLLECTIVE;
}

static void mark_kernels(struct copying *copying) {
    const struct trace_pending *rows = copying->builder->pending.items;
    struct aorta_trace_collective facts;
    for (size_t i = 0; i < copying->builder->pending.count; i++) {
        const struct aorta_trace_work *work = &rows[i].work;
        if (work->call == AORTA_TRACE_NONE || !is_collective_kernel(copying->builder, work)) continue;
        struct purpose *purpose = purpose_of(copying, work, &facts);
        if (purpose) purpose->kernels = true;
    }
}

/* ---- copies ---- */

/* The collective that a copy belongs to; NONE: it is a copy. */
static uint32_t collective_of(struct copying *copying, const struct aorta_trace_work *work) {
    struct aorta_trace_builder *builder = copying->builder;
    if (work->collective != AORTA_TRACE_NONE) return work->collective; /* the file says so */
    const enum aorta_copied direction = direction_of(builder, work);
    struct aorta_trace_collective facts;
    if (!stays_on_devices(direction) || work->call == AORTA_TRACE_NONE) return AORTA_TRACE_NONE;
    struct purpose *purpose = purpose_of(copying, work, &facts);
    if (!purpose || facts.group_size == 1 || (direction == AORTA_COPIED_WITHIN && purpose->kernels))
        return AORTA_TRACE_NONE;
    if (purpose->collective != AORTA_TRACE_NONE) return purpose->collective;
    struct aorta_trace_collective *row = aorta_trace_rows_add(builder, &builder->collectives, sizeof *row);
    if (!row) return AORTA_TRACE_NONE;
    *row = facts;
    return purpose->collective = (uint32_t)builder->collectives.count - 1;
}

/* True: the copy went into the piece before it on its stream. */
static bool take_copy(struct copying *copying, struct trace_pending *rows, size_t i) {
    struct aorta_trace_work *work = &rows[i].work;
    const uint32_t collective = collective_of(copying, work);
    if (collective == AORTA_TRACE_NONE) return false;
    work->collective = collective;
    work->kind = AORTA_TRACE_KERNEL;
    const size_t last = copying->last[work->stream];
    struct aorta_trace_work *before = last ? &rows[last - 1].work : NULL;
    if (!before || before->collective != collective || before->bytes < 0) return false;
    if (work->end_ns > before->end_ns) before->end_ns = work->end_ns;
    before->bytes += work->bytes > 0 ? work->bytes : 0;
    return true;
}

static void take_copies(struct copying *copying) {
    struct trace_rows *pending = &copying->builder->pending;
    struct trace_pending *rows = pending->items;
    size_t count = 0;
    for (size_t i = 0; i < pending->count && !copying->builder->failed; i++) {
        rows[count] = rows[i];
        if (rows[count].work.kind == AORTA_TRACE_COPY && take_copy(copying, rows, count)) continue;
        copying->last[rows[count].work.stream] = count + 1;
        count++;
    }
    if (!copying->builder->failed) pending->count = count;
}

static struct purpose *make_purposes(size_t count) {
    struct purpose *purposes = malloc((count + 1) * sizeof *purposes);
    for (size_t i = 0; purposes && i < count; i++) purposes[i] = (struct purpose){AORTA_TRACE_NONE, false};
    return purposes;
}

static bool has_copies(const struct aorta_trace_builder *builder) {
    const struct trace_pending *rows = builder->pending.items;
    for (size_t i = 0; i < builder->pending.count; i++)
        if (rows[i].work.kind == AORTA_TRACE_COPY && stays_on_devices(direction_of(builder, &rows[i].work)))
            return true;
    return false;
}

void aorta_trace_take_copies(struct aorta_trace_builder *builder, const struct trace_surroundings *around) {
    if (!has_copies(builder)) return;
    struct copying copying = {.builder = builder,
                              .around = around,
                              .requests = make_purposes(builder->requests.count),
                              .backend = make_purposes(around->backend_count),
                              .operations = make_purposes(builder->trace->operation_count),
                              .last = calloc(builder->streams.count + 1, sizeof *copying.last)};
    if (copying.requests && copying.backend && copying.operations && copying.last) {
        mark_kernels(&copying);
        take_copies(&copying);
    } else {
        builder->failed = true;
    }
    free(copying.requests);
    free(copying.backend);
    free(copying.operations);
    free(copying.last);
}
