/* The operations of the framework as they ran: nested with the ranges of the program, and each piece of device work
 * linked to the innermost that launched it. */
#include "trace/builder_internal.h"

#include "base/array.h"
#include "base/sort.h"
#include "trace/nest.h"

#include <stddef.h>
#include <stdlib.h>

/* ---- rows ---- */

static int64_t two(uint32_t high, uint32_t low) {
    return (int64_t)((uint64_t)high << 32 | low);
}

uint32_t aorta_trace_add_inputs_row(struct aorta_trace_builder *builder, const struct aorta_trace_inputs *inputs) {
    const uint32_t number = aorta_trace_add_key(builder, &builder->input_keys, two(inputs->dims, inputs->types),
                                                two(inputs->strides, inputs->values), 0);
    if (number != builder->inputs.count) return number;
    struct aorta_trace_inputs *row = aorta_trace_rows_add(builder, &builder->inputs, sizeof *row);
    if (row) *row = *inputs;
    return row ? number : AORTA_TRACE_NONE;
}

uint32_t aorta_trace_add_inputs(struct aorta_trace_builder *builder, const struct aorta_operation *operation,
                                bool keeps_values) {
    struct aorta_trace_inputs inputs = {.dims = aorta_trace_list_text(builder, operation->dims),
                                        .types = aorta_trace_list_text(builder, operation->types),
                                        .strides = aorta_trace_list_text(builder, operation->strides),
                                        .values = AORTA_TRACE_NONE};
    if (keeps_values) inputs.values = aorta_trace_list_text(builder, operation->values);
    return aorta_trace_add_inputs_row(builder, &inputs);
}

/* ---- nesting ---- */

/* The members by which operations nest. */
_Static_assert(offsetof(struct aorta_trace_operation, start_ns) == offsetof(struct aorta_nest_range, start_ns) &&
                   offsetof(struct aorta_trace_operation, end_ns) == offsetof(struct aorta_nest_range, end_ns) &&
                   offsetof(struct aorta_trace_operation, thread) == offsetof(struct aorta_nest_range, thread) &&
                   offsetof(struct aorta_trace_operation, parent) == offsetof(struct aorta_nest_range, parent),
               "operations begin as ranges do");

static int outer_first(const void *left, const void *right) {
    const struct aorta_trace_operation *a = left, *b = right;
    if (a->thread != b->thread) return a->thread < b->thread ? -1 : 1;
    if (a->start_ns != b->start_ns) return a->start_ns < b->start_ns ? -1 : 1;
    return (a->end_ns < b->end_ns) - (a->end_ns > b->end_ns);
}

static struct aorta_trace_operation *ranges_of(const struct aorta_trace_builder *builder) {
    const struct aorta_trace_annotation *annotations = builder->annotations.items;
    const size_t count = builder->annotations.count;
    struct aorta_trace_operation *ranges = malloc((count + 1) * sizeof *ranges);
    for (size_t i = 0; ranges && i < count; i++)
        ranges[i] = (struct aorta_trace_operation){.start_ns = annotations[i].start_ns,
                                                   .end_ns = annotations[i].end_ns,
                                                   .thread = annotations[i].thread,
                                                   .name = annotations[i].name,
                                                   .inputs = AORTA_TRACE_NONE,
                                                   .sequence = -1,
                                                   .range = true,
                                                   .captured = AORTA_TRACE_NONE};
    if (ranges) aorta_sort_rows(ranges, count, sizeof *ranges, outer_first);
    return ranges;
}

/* Ranges go among the operations, which have place for them behind. Of those alike the operation is first. */
static void merge_ranges(struct aorta_trace_operation *operations, size_t count,
                         const struct aorta_trace_operation *ranges, size_t range_count) {
    for (size_t place = count + range_count; range_count; place--)
        operations[place - 1] = count && outer_first(&operations[count - 1], &ranges[range_count - 1]) > 0
                                    ? operations[--count]
                                    : ranges[--range_count];
}

static void link_work(const struct aorta_trace_builder *builder, const struct trace_rows *of) {
    const struct aorta_trace *trace = builder->trace;
    struct trace_pending *rows = of->items;
    const struct aorta_trace_call *calls = builder->calls.items;
    for (size_t i = 0; i < of->count; i++) {
        struct aorta_trace_work *work = &rows[i].work;
        if (work->call == AORTA_TRACE_NONE) continue;
        const struct aorta_trace_call *call = &calls[work->call];
        work->operation = aorta_nest_find(trace->operations, trace->operation_count, sizeof *trace->operations,
                                          call->thread, call->start_ns);
    }
}

void aorta_trace_link_operations(struct aorta_trace_builder *builder) {
    struct aorta_trace *trace = builder->trace;
    struct trace_rows *runs = &builder->runs;
    const size_t count = runs->count, range_count = builder->annotations.count;
    if (!count) return;
    struct aorta_trace_operation *ranges = ranges_of(builder);
    if (!ranges ||
        !aorta_array_fit(&runs->items, &runs->capacity, count + range_count, sizeof(struct aorta_trace_operation))) {
        builder->failed = true;
        free(ranges);
        return;
    }
    aorta_sort_rows(runs->items, count, sizeof(struct aorta_trace_operation), outer_first);
    trace->operations = runs->items;
    trace->operation_count = count + range_count;
    *runs = (struct trace_rows){0};
    merge_ranges(trace->operations, count, ranges, range_count);
    free(ranges);
    aorta_array_trim(&trace->operations, trace->operation_count, sizeof *trace->operations);
    aorta_nest_parents(trace->operations, trace->operation_count, sizeof *trace->operations);
    link_work(builder, &builder->pending);
    link_work(builder, &builder->captured);
}
