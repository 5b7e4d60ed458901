/* The operations of the framework as they ran: nested with the ranges of the program, and each piece of device work
 * linked to the innermost that launched it. */
#include "timeline/builder_internal.h"

#include "timeline/nest.h"

#include <stdlib.h>
#include <string.h>

/* ---- rows ---- */

static int64_t two(uint32_t high, uint32_t low) {
    return (int64_t)((uint64_t)high << 32 | low);
}

uint32_t aorta_trace_add_inputs(struct aorta_trace_builder *builder, const struct aorta_operation *operation,
                                bool keeps_values) {
    struct aorta_trace_inputs inputs = {.dims = aorta_trace_list_text(builder, operation->dims),
                                        .types = aorta_trace_list_text(builder, operation->types),
                                        .strides = aorta_trace_list_text(builder, operation->strides),
                                        .values = AORTA_TRACE_NONE};
    if (keeps_values) inputs.values = aorta_trace_list_text(builder, operation->values);
    const uint32_t number = aorta_trace_add_key(builder, &builder->input_keys, two(inputs.dims, inputs.types),
                                                two(inputs.strides, inputs.values), 0);
    if (number != builder->inputs.count) return number;
    struct aorta_trace_inputs *row = aorta_trace_rows_add(builder, &builder->inputs, sizeof *row);
    if (row) *row = inputs;
    return row ? number : AORTA_TRACE_NONE;
}

/* ---- nesting ---- */

/* Ranges of each thread lie together, in the file's order, which mostly is that of time. */
static struct aorta_nest_range *collect(const struct aorta_trace_builder *builder, size_t count) {
    const struct trace_run *runs = builder->runs.items;
    const struct aorta_trace_annotation *annotations = builder->annotations.items;
    const size_t run_count = builder->runs.count, thread_count = builder->threads.count;
    struct aorta_nest_range *nest = malloc((count + 1) * sizeof *nest);
    size_t *place = calloc(thread_count + 2, sizeof *place);
    if (!nest || !place) {
        free(nest);
        free(place);
        return NULL;
    }
    for (size_t i = 0; i < run_count; i++) place[runs[i].frame.thread + 1]++;
    for (size_t i = 0; i < builder->annotations.count; i++) place[annotations[i].thread + 1]++;
    for (size_t i = 0; i < thread_count; i++) place[i + 1] += place[i];
    for (size_t i = 0; i < count; i++) {
        const struct aorta_trace_annotation *frame = i < run_count ? &runs[i].frame : &annotations[i - run_count];
        nest[place[frame->thread]++] =
            (struct aorta_nest_range){frame->start_ns, frame->end_ns, frame->thread, (uint32_t)i, 0};
    }
    free(place);
    return nest;
}

static struct aorta_trace_operation row_of(const struct aorta_trace_builder *builder,
                                           const struct aorta_nest_range *range) {
    struct aorta_trace_operation row = {.start_ns = range->start_ns,
                                        .end_ns = range->end_ns,
                                        .sequence = -1,
                                        .thread = range->thread,
                                        .inputs = AORTA_TRACE_NONE,
                                        .parent = range->parent ? range->parent - 1 : AORTA_TRACE_NONE,
                                        .range = range->number >= builder->runs.count};
    if (row.range) {
        const struct aorta_trace_annotation *annotations = builder->annotations.items;
        row.name = annotations[range->number - builder->runs.count].name;
        return row;
    }
    const struct trace_run *run = (const struct trace_run *)builder->runs.items + range->number;
    row.name = run->frame.name;
    row.sequence = run->sequence;
    row.inputs = run->inputs;
    row.gradient = run->gradient;
    return row;
}

static void link_work(struct aorta_trace_builder *builder, const struct aorta_nest_range *nest, size_t count) {
    struct trace_pending *rows = builder->pending.items;
    const struct aorta_trace_call *calls = builder->calls.items;
    for (size_t i = 0; i < builder->pending.count; i++) {
        struct aorta_trace_work *work = &rows[i].work;
        if (work->call == AORTA_TRACE_NONE) continue;
        const struct aorta_trace_call *call = &calls[work->call];
        const struct aorta_nest_range *around = aorta_nest_find(nest, count, call->thread, call->start_ns);
        if (around) work->operation = (uint32_t)(around - nest);
    }
}

void aorta_trace_link_operations(struct aorta_trace_builder *builder) {
    struct aorta_trace *trace = builder->trace;
    const size_t count = builder->runs.count + builder->annotations.count;
    if (!builder->runs.count) return;
    struct aorta_nest_range *nest = collect(builder, count);
    trace->operations = malloc((count + 1) * sizeof *trace->operations);
    if (!nest || !trace->operations) {
        builder->failed = true;
        free(nest);
        return;
    }
    aorta_nest_make(nest, count);
    link_work(builder, nest, count);
    for (size_t i = 0; i < count; i++) trace->operations[i] = row_of(builder, &nest[i]);
    trace->operation_count = count;
    free(nest);
}
