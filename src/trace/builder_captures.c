/* Graphs that the program captured: launches between the begin and the end of a capture run nothing. They are linked
 * to operations, shapes and collectives as work is, for the launches of the graph (captures.h). */
#include "trace/builder_internal.h"

#include "base/sort.h"

#include <stddef.h>
#include <stdlib.h>

static int mark_order(const void *left, const void *right) {
    const struct trace_capture_mark *a = left, *b = right;
    if (a->thread != b->thread) return a->thread < b->thread ? -1 : 1;
    return aorta_order_int64(a->start_ns, b->start_ns);
}

static int launch_order(const void *left, const void *right) {
    const struct trace_launch *a = left, *b = right;
    return aorta_order_uint64(a->correlation, b->correlation);
}

/* By call: whether it launched something that ran. NULL: no memory. */
static uint8_t *find_ran(const struct aorta_trace_builder *builder) {
    const struct trace_pending *pending = builder->pending.items;
    uint8_t *ran = calloc(builder->calls.count + 1, sizeof *ran);
    for (size_t i = 0; ran && i < builder->pending.count; i++)
        if (pending[i].work.call != AORTA_TRACE_NONE) ran[pending[i].work.call] = TRACE_ANSWERED;
    return ran;
}

static void add_captured(struct aorta_trace_builder *builder, uint32_t number, enum aorta_trace_kind kind) {
    const struct aorta_trace_call *call = (const struct aorta_trace_call *)builder->calls.items + number;
    const struct trace_launch key = {.correlation = call->correlation};
    const struct trace_launch *launch =
        bsearch(&key, builder->launches.items, builder->launches.count, sizeof key, launch_order);
    struct trace_pending *row = aorta_trace_rows_add(builder, &builder->captured, sizeof *row);
    if (!row) return;
    row->operation = launch ? launch->operation : -1;
    row->offset = -1;
    row->work = (struct aorta_trace_work){.start_ns = call->start_ns,
                                          .end_ns = call->start_ns,
                                          .bytes = -1,
                                          .correlation = call->correlation,
                                          .name = launch ? launch->kernel : AORTA_TRACE_NONE,
                                          .stream = AORTA_TRACE_NONE,
                                          .queue = AORTA_TRACE_NONE,
                                          .call = number,
                                          .collective = AORTA_TRACE_NONE,
                                          .shape = AORTA_TRACE_NONE,
                                          .operation = AORTA_TRACE_NONE,
                                          .geometry = AORTA_TRACE_NONE,
                                          .device = -1,
                                          .kind = (uint8_t)kind,
                                          .graph = true};
}

/* A graph within the graph leaves open what it holds: then nothing is said of it. */
static void add_graph(struct aorta_trace_builder *builder, const struct trace_capture_mark *begin,
                      const struct trace_capture_mark *end, uint8_t *ran) {
    static const int kinds[AORTA_CALL_KIND_COUNT] = {
        [AORTA_CALL_LAUNCH] = AORTA_TRACE_KERNEL + 1,
        [AORTA_CALL_COPY] = AORTA_TRACE_COPY + 1,
        [AORTA_CALL_FILL] = AORTA_TRACE_FILL + 1,
    };
    const struct aorta_trace_call *calls = builder->calls.items;
    const size_t first = builder->captured.count;
    bool nested = false;
    size_t i = aorta_count_before(calls, builder->calls.count, sizeof *calls,
                                  offsetof(struct aorta_trace_call, start_ns), begin->end_ns);
    for (; i < builder->calls.count && calls[i].start_ns < end->start_ns; i++) {
        if (calls[i].thread != begin->thread || ran[i]) continue;
        ran[i] = TRACE_CAPTURED;
        nested |= calls[i].kind == AORTA_CALL_GRAPH_LAUNCH;
        if (kinds[calls[i].kind]) add_captured(builder, (uint32_t)i, (enum aorta_trace_kind)(kinds[calls[i].kind] - 1));
    }
    if (nested) builder->captured.count = first;
    if (builder->failed || builder->captured.count == first) return;
    struct aorta_captured_graph *graph = aorta_trace_rows_add(builder, &builder->graphs, sizeof *graph);
    if (graph)
        *graph = (struct aorta_captured_graph){begin->start_ns, end->end_ns, (uint32_t)first,
                                               (uint32_t)(builder->captured.count - first)};
}

void aorta_trace_find_captures(struct aorta_trace_builder *builder) {
    const struct trace_rows *marks = &builder->capture_marks;
    if (builder->failed) return;
    uint8_t *ran = find_ran(builder);
    if (!ran) {
        builder->failed = true;
        return;
    }
    aorta_trace_rows_sort(&builder->capture_marks, sizeof(struct trace_capture_mark), mark_order);
    aorta_trace_rows_sort(&builder->launches, sizeof(struct trace_launch), launch_order);
    const struct trace_capture_mark *mark = marks->items, *open = NULL;
    for (size_t i = 0; i < marks->count && !builder->failed; i++, mark++) {
        if (open && open->thread == mark->thread && !mark->begins) add_graph(builder, open, mark, ran);
        open = mark->begins ? mark : NULL;
    }
    if (!builder->trace->no_launches) aorta_trace_count_unanswered(builder, ran);
    free(ran);
}
