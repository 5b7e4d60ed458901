/* Copies the facts of captures to the launches that replay them: each launch gets runs of the operations in which its
 * graph was captured. */
#include "base/intern.h"
#include "trace/captures.h"

#include "base/array.h"
#include "base/sort.h"

#include <stdlib.h>
#include <string.h>

/* A trace with captures. The arrays map its row numbers to those in the trace of the launches; NONE if not copied
 * yet. */
struct source {
    const struct aorta_trace *trace;
    uint32_t *texts, *shapes, *inputs, *groups, *threads, *places, *graphs;
    uint32_t *launches; /* by captured work: its place */
    uint32_t *runs;     /* by operation: its latest run, … */
    uint32_t *stamp;    /* … and that run's replay, + 1 */
};

/* Runs are numbered after the trace's operations, until they are among them. */
struct run {
    struct aorta_trace_operation operation;
    bool launches; /* launches work directly; its place is that of its first launch */
};

struct taking {
    struct aorta_trace *trace;
    struct source *sources;
    size_t source_count;
    struct run *runs;
    size_t run_count, run_capacity;
    uint32_t *chain; /* nested operations, the innermost first */
    size_t chain_capacity;
    size_t collective_capacity, place_count, place_capacity;
    struct aorta_arena memory;
};

static uint32_t *none(struct taking *taking, size_t count) {
    uint32_t *numbers = aorta_arena_raw(&taking->memory, count * sizeof *numbers);
    if (numbers) memset(numbers, 0xFF, count * sizeof *numbers);
    return numbers;
}

/* ---- rows that are stored once ---- */

static uint32_t take_text(struct taking *taking, struct source *source, uint32_t text) {
    if (text == AORTA_TRACE_NONE || source->trace == taking->trace) return text;
    if (source->texts[text] != AORTA_TRACE_NONE) return source->texts[text];
    const struct aorta_text_entry *entry = &source->trace->texts->entries[text];
    source->texts[text] = aorta_texts_add(taking->trace->texts, entry->raw, entry->length);
    taking->memory.failed |= source->texts[text] == AORTA_TRACE_NONE;
    return source->texts[text];
}

/* Appends a row to an array of the trace; NULL if memory is exhausted. */
static void *one_more(struct taking *taking, void *array, size_t *count, size_t size) {
    void *items;
    memcpy(&items, array, sizeof items);
    void *longer = taking->memory.failed ? NULL : realloc(items, (*count + 1) * size);
    taking->memory.failed |= !longer;
    if (!longer) return NULL;
    memcpy(array, &longer, sizeof longer);
    return (char *)longer + (*count)++ * size;
}

static uint32_t take_inputs(struct taking *taking, struct source *source, uint32_t inputs) {
    struct aorta_trace *trace = taking->trace;
    if (inputs == AORTA_TRACE_NONE || source->trace == trace) return inputs;
    uint32_t *number = &source->inputs[inputs];
    if (*number != AORTA_TRACE_NONE) return *number;
    const struct aorta_trace_inputs *of = &source->trace->inputs[inputs];
    const struct aorta_trace_inputs row = {take_text(taking, source, of->dims), take_text(taking, source, of->types),
                                           take_text(taking, source, of->strides),
                                           take_text(taking, source, of->values)};
    for (*number = 0; *number < trace->input_count; ++*number)
        if (!memcmp(&trace->inputs[*number], &row, sizeof row)) return *number;
    struct aorta_trace_inputs *added = one_more(taking, &trace->inputs, &trace->input_count, sizeof row);
    if (added) *added = row;
    return *number;
}

static uint32_t take_shape(struct taking *taking, struct source *source, uint32_t shape) {
    struct aorta_trace *trace = taking->trace;
    if (shape == AORTA_TRACE_NONE || source->trace == trace) return shape;
    uint32_t *number = &source->shapes[shape];
    if (*number != AORTA_TRACE_NONE) return *number;
    struct aorta_trace_shape row = source->trace->shapes[shape];
    row.op = take_text(taking, source, row.op);
    row.dims = take_text(taking, source, row.dims);
    row.types = take_text(taking, source, row.types);
    for (*number = 0; *number < trace->shape_count; ++*number) {
        const struct aorta_trace_shape *there = &trace->shapes[*number];
        if (there->op == row.op && there->dims == row.dims && there->types == row.types &&
            !memcmp(&there->product, &row.product, sizeof row.product))
            return *number;
    }
    struct aorta_trace_shape *added = one_more(taking, &trace->shapes, &trace->shape_count, sizeof row);
    if (added) *added = row;
    return *number;
}

static uint32_t take_thread(struct taking *taking, struct source *source, uint32_t thread) {
    struct aorta_trace *trace = taking->trace;
    if (source->trace == trace || source->threads[thread] != AORTA_TRACE_NONE)
        return source->trace == trace ? thread : source->threads[thread];
    struct aorta_trace_thread *added = one_more(taking, &trace->threads, &trace->thread_count, sizeof *added);
    if (!added) return 0;
    *added = source->trace->threads[thread];
    added->name = take_text(taking, source, added->name);
    return source->threads[thread] = (uint32_t)trace->thread_count - 1;
}

static uint32_t take_group(struct taking *taking, struct source *source, uint32_t group) {
    struct aorta_trace *trace = taking->trace;
    if (group == AORTA_TRACE_NONE || source->trace == trace) return group;
    if (source->groups[group] != AORTA_TRACE_NONE) return source->groups[group];
    struct aorta_trace_group row = source->trace->groups[group];
    row.name = take_text(taking, source, row.name);
    row.description = take_text(taking, source, row.description);
    if (row.ranks) {
        row.ranks = aorta_array_copy(row.ranks, row.rank_count, sizeof *row.ranks);
        taking->memory.failed |= !row.ranks;
    }
    struct aorta_trace_group *added = one_more(taking, &trace->groups, &trace->group_count, sizeof *added);
    if (!added) {
        free(row.ranks);
        return AORTA_TRACE_NONE;
    }
    *added = row;
    return source->groups[group] = (uint32_t)trace->group_count - 1;
}

/* `known` stores the place's number; NONE if it has none yet. */
static uint32_t take_place(struct taking *taking, struct source *source, int64_t at_ns, uint32_t thread,
                           uint32_t *known) {
    struct aorta_trace *trace = taking->trace;
    if (*known != AORTA_TRACE_NONE) return *known;
    const struct aorta_trace_place place = {at_ns, take_thread(taking, source, thread)};
    taking->memory.failed |= !aorta_array_append(&trace->captured_places, &taking->place_capacity, &taking->place_count,
                                                 &place, sizeof place);
    return taking->memory.failed ? AORTA_TRACE_NONE : (*known = (uint32_t)taking->place_count - 1);
}

/* ---- one launch ---- */

struct replaying {
    const struct graph_replay *replay;
    struct source *source;
    uint32_t number; /* of the replay, + 1 */
    uint32_t around; /* row of the trace's operations[]: around the launch */
};

/* A time of the capture, scaled to the duration of the launch. */
static int64_t drawn(const struct taking *taking, const struct graph_replay *replay, int64_t at_ns) {
    const struct aorta_trace_call *call = &taking->trace->calls[replay->call];
    const struct aorta_captured_graph *graph = replay->graph;
    if (at_ns <= graph->start_ns) return call->start_ns;
    if (at_ns >= graph->end_ns) return call->end_ns;
    const double part = (double)(at_ns - graph->start_ns) / (double)(graph->end_ns - graph->start_ns);
    return call->start_ns + (int64_t)(part * (double)(call->end_ns - call->start_ns));
}

static struct run run_of(struct taking *taking, const struct replaying *at, uint32_t operation) {
    struct source *source = at->source;
    const struct aorta_trace_operation *of = &source->trace->operations[operation];
    const bool inner = of->parent != AORTA_TRACE_NONE;
    struct run run = {.operation = *of};
    run.operation.start_ns = drawn(taking, at->replay, of->start_ns);
    run.operation.end_ns = drawn(taking, at->replay, of->end_ns);
    run.operation.thread = taking->trace->calls[at->replay->call].thread;
    run.operation.name = take_text(taking, source, of->name);
    run.operation.parent = inner ? source->runs[of->parent] : at->around;
    run.operation.inputs = take_inputs(taking, source, of->inputs);
    run.operation.captured = take_place(taking, source, of->start_ns, of->thread, &source->places[operation]);
    return run;
}

/* Adds runs of the operation and those around it, the outermost first. */
static uint32_t add_run(struct taking *taking, const struct replaying *at, uint32_t operation) {
    struct source *source = at->source;
    size_t depth = 0;
    for (uint32_t row = operation; row != AORTA_TRACE_NONE && source->stamp[row] != at->number;
         row = source->trace->operations[row].parent) {
        taking->memory.failed |= !aorta_array_append(&taking->chain, &taking->chain_capacity, &depth, &row, sizeof row);
        if (taking->memory.failed) return 0;
    }
    taking->memory.failed |=
        !aorta_array_fit(&taking->runs, &taking->run_capacity, taking->run_count + depth + 1, sizeof *taking->runs);
    while (depth && !taking->memory.failed) {
        const uint32_t row = taking->chain[--depth];
        taking->runs[taking->run_count] = run_of(taking, at, row);
        source->stamp[row] = at->number;
        source->runs[row] = (uint32_t)(taking->trace->operation_count + taking->run_count++);
    }
    return source->runs[operation];
}

static void take_facts(struct taking *taking, struct source *source, struct aorta_trace_work *work,
                       uint32_t collective) {
    struct aorta_trace *trace = taking->trace;
    if (work->collective != AORTA_TRACE_NONE || collective == AORTA_TRACE_NONE || !aorta_trace_is_collective(work))
        return;
    struct aorta_trace_collective facts = source->trace->collectives[collective];
    facts.name = take_text(taking, source, facts.name);
    facts.dtype = take_text(taking, source, facts.dtype);
    facts.communicator = take_text(taking, source, facts.communicator);
    facts.in_splits = take_text(taking, source, facts.in_splits);
    facts.out_splits = take_text(taking, source, facts.out_splits);
    facts.group = take_group(taking, source, facts.group);
    facts.annotation = AORTA_TRACE_NONE;
    facts.sequence = -1; /* the stored one is that of the capture */
    work->collective = (uint32_t)trace->collective_count;
    taking->memory.failed |= !aorta_array_append(&trace->collectives, &taking->collective_capacity,
                                                 &trace->collective_count, &facts, sizeof facts);
    trace->warnings[AORTA_REASON_NO_COLLECTIVE].count--;
}

static void stand_at_launch(struct taking *taking, struct source *source, const struct aorta_trace_work *captured,
                            struct run *run) {
    uint32_t *known = &source->launches[captured - source->trace->captured];
    if (run->launches) return;
    run->operation.captured =
        take_place(taking, source, captured->start_ns, source->trace->calls[captured->call].thread, known);
    run->launches = true;
}

static void take_replay(struct taking *taking, const struct graph_replay *replay, struct source *source,
                        uint32_t number, uint32_t *row_of) {
    struct aorta_trace *trace = taking->trace;
    for (size_t i = 0; i < replay->count; i++) row_of[replay->pair[i]] = replay->work[i];
    const struct replaying at = {replay, source, number, trace->work[replay->work[0]].operation};
    for (size_t i = 0; i < replay->count && !taking->memory.failed; i++) {
        const struct aorta_trace_work *captured = &source->trace->captured[replay->graph->first + i];
        struct aorta_trace_work *work = &trace->work[row_of[i]];
        work->shape = take_shape(taking, source, captured->shape);
        work->leads = captured->leads;
        take_facts(taking, source, work, captured->collective);
        if (captured->operation == AORTA_TRACE_NONE) continue;
        work->operation = add_run(taking, &at, captured->operation);
        if (taking->memory.failed) return;
        stand_at_launch(taking, source, captured, &taking->runs[work->operation - trace->operation_count]);
    }
}

/* ---- merging the runs into the trace ---- */

struct numbered {
    struct aorta_trace_operation operation;
    uint32_t number; /* before they are sorted */
};

static void renumber(uint32_t *number, const uint32_t *now) {
    if (*number != AORTA_TRACE_NONE) *number = now[*number];
}

/* An operation around a launch comes before its runs, which are no longer. */
static void put_runs(struct taking *taking) {
    struct aorta_trace *trace = taking->trace;
    const size_t before = trace->operation_count, count = before + taking->run_count;
    struct numbered *rows = aorta_arena_raw(&taking->memory, count * sizeof *rows);
    uint32_t *now = aorta_arena_raw(&taking->memory, count * sizeof *now);
    size_t capacity = before;
    taking->memory.failed |= !aorta_array_fit(&trace->operations, &capacity, count, sizeof *trace->operations);
    if (taking->memory.failed) return;
    trace->operation_count = count;
    for (size_t i = 0; i < count; i++)
        rows[i] =
            (struct numbered){i < before ? trace->operations[i] : taking->runs[i - before].operation, (uint32_t)i};
    aorta_sort_rows(rows, count, sizeof *rows, aorta_nest_order);
    for (size_t i = 0; i < count; i++) now[rows[i].number] = (uint32_t)i;
    for (size_t i = 0; i < count; i++) {
        trace->operations[i] = rows[i].operation;
        renumber(&trace->operations[i].parent, now);
    }
    for (size_t i = 0; i < trace->work_count; i++) renumber(&trace->work[i].operation, now);
    for (size_t i = 0; i < trace->captured_count; i++) renumber(&trace->captured[i].operation, now);
}

/* Copies the modules and functions in which a graph was captured, unless the capture is in the same trace. */
static void take_functions(struct taking *taking, struct source *source, const struct aorta_captured_graph *graph) {
    struct aorta_trace *trace = taking->trace;
    const struct aorta_trace *from = source->trace;
    const uint32_t thread = from->calls[from->captured[graph->first].call].thread;
    uint32_t *taken = &source->graphs[graph - from->graphs];
    size_t capacity = trace->function_count;
    if (from == trace || *taken != AORTA_TRACE_NONE) return;
    *taken = 0;
    for (size_t i = 0; i < from->function_count && !taking->memory.failed; i++) {
        struct aorta_trace_annotation frame = from->functions[i];
        if (frame.thread != thread || frame.end_ns < graph->start_ns || frame.start_ns > graph->end_ns) continue;
        frame.name = take_text(taking, source, frame.name);
        frame.thread = take_thread(taking, source, frame.thread);
        taking->memory.failed |=
            !aorta_array_append(&trace->functions, &capacity, &trace->function_count, &frame, sizeof frame);
    }
}

/* ---- all launches ---- */

static struct source *source_of(struct taking *taking, const struct aorta_trace *trace) {
    struct source *source = taking->sources;
    for (size_t i = 0; i < taking->source_count; i++, source++)
        if (source->trace == trace) return source;
    taking->source_count++;
    *source = (struct source){.trace = trace,
                              .texts = none(taking, aorta_trace_text_count(trace)),
                              .shapes = none(taking, trace->shape_count),
                              .inputs = none(taking, trace->input_count),
                              .groups = none(taking, trace->group_count),
                              .threads = none(taking, trace->thread_count),
                              .graphs = none(taking, trace->graph_count),
                              .places = none(taking, trace->operation_count),
                              .launches = none(taking, trace->captured_count),
                              .runs = none(taking, trace->operation_count),
                              .stamp = none(taking, trace->operation_count)};
    return source;
}

/* `row_of` has space for the work of the longest launch, `sources` for one trace per launch. */
static void take_all(struct taking *taking, const struct graph_replay *replays, size_t count, uint32_t *row_of) {
    for (size_t i = 0; i < count && !taking->memory.failed; i++) {
        if (!replays[i].source) continue;
        struct source *source = source_of(taking, replays[i].source);
        if (taking->memory.failed) return;
        take_replay(taking, &replays[i], source, (uint32_t)i + 1, row_of);
        take_functions(taking, source, replays[i].graph);
    }
    if (!taking->memory.failed && taking->run_count) put_runs(taking);
}

aorta_status aorta_trace_take_captures(struct aorta_trace *trace, const struct graph_replay *replays, size_t count) {
    struct taking taking = {.trace = trace, .collective_capacity = trace->collective_count};
    size_t known = 0;
    for (size_t i = 0; i < count; i++) known += replays[i].source != NULL;
    if (!known) return NULL;
    taking.sources = aorta_arena_alloc(&taking.memory, known * sizeof *taking.sources);
    take_all(&taking, replays, count, none(&taking, trace->work_count));
    aorta_status status = aorta_arena_check(&taking.memory, "the captured operations");
    free(taking.runs);
    free(taking.chain);
    aorta_arena_free(&taking.memory);
    return aorta_annotate(status, "%s", trace->path);
}
