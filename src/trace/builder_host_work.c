/* Files of programs without a device, or recorded without it: the time that each operation of the host took itself,
 * without those within it, is a piece of work, and a thread is its stream. Time between operations is nobody's. */
#include "trace/builder_internal.h"

#include "base/array.h"

#include <stdlib.h>

struct sweep {
    struct aorta_trace_builder *builder;
    uint32_t *open; /* operations around each other, the innermost last */
    int64_t *ends;  /* of these, none beyond that of the one around it */
    size_t depth, capacity, end_capacity;
    int64_t at_ns; /* until here all is given away */
};

static void add_until(struct sweep *sweep, int64_t until_ns) {
    const uint32_t row = sweep->open[sweep->depth - 1];
    const struct aorta_trace *trace = sweep->builder->trace;
    const struct aorta_trace_operation *operation = &trace->operations[row];
    const int64_t from_ns = sweep->at_ns;
    sweep->at_ns = until_ns;
    if (operation->range || from_ns >= until_ns) return;
    const int64_t thread = sweep->builder->threads.keys[operation->thread][1];
    const struct aorta_trace_work work = {.start_ns = from_ns,
                                          .end_ns = until_ns,
                                          .bytes = -1,
                                          .name = operation->name,
                                          .stream = aorta_trace_builder_stream(sweep->builder, 0, -1, thread),
                                          .queue = AORTA_TRACE_NONE,
                                          .kind = AORTA_TRACE_KERNEL};
    const size_t before = sweep->builder->pending.count;
    aorta_trace_builder_work(sweep->builder, &work, -1, NULL, -1);
    struct trace_pending *rows = sweep->builder->pending.items;
    if (sweep->builder->pending.count > before) rows[before].work.operation = row;
}

static void close_until(struct sweep *sweep, int64_t until_ns) {
    while (sweep->depth && sweep->ends[sweep->depth - 1] <= until_ns) {
        add_until(sweep, sweep->ends[sweep->depth - 1]);
        sweep->depth--;
    }
}

static bool open_one(struct sweep *sweep, uint32_t row) {
    const struct aorta_trace_operation *operation = &sweep->builder->trace->operations[row];
    if (sweep->depth && operation->start_ns > sweep->at_ns) add_until(sweep, operation->start_ns);
    if (operation->start_ns > sweep->at_ns || !sweep->depth) sweep->at_ns = operation->start_ns;
    if (!aorta_array_fit(&sweep->open, &sweep->capacity, sweep->depth + 1, sizeof *sweep->open) ||
        !aorta_array_fit(&sweep->ends, &sweep->end_capacity, sweep->depth + 1, sizeof *sweep->ends))
        return false;
    const int64_t around_ns = sweep->depth ? sweep->ends[sweep->depth - 1] : INT64_MAX;
    sweep->ends[sweep->depth] = operation->end_ns < around_ns ? operation->end_ns : around_ns;
    sweep->open[sweep->depth++] = row;
    return true;
}

void aorta_trace_add_host_work(struct aorta_trace_builder *builder) {
    const struct aorta_trace *trace = builder->trace;
    struct sweep sweep = {.builder = builder};
    if (builder->pending.count || builder->captured.count || builder->failed) return;
    for (size_t i = 0; i < trace->operation_count && !builder->failed; i++) {
        const bool same = i > 0 && trace->operations[i - 1].thread == trace->operations[i].thread;
        close_until(&sweep, same ? trace->operations[i].start_ns : INT64_MAX);
        builder->failed |= !open_one(&sweep, (uint32_t)i);
    }
    close_until(&sweep, INT64_MAX);
    builder->trace->host_only = builder->pending.count > 0;
    free(sweep.open);
    free(sweep.ends);
}
