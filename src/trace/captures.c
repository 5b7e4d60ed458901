#include "trace/captures.h"

#include "base/sort.h"

#include <stdlib.h>
#include <string.h>

/* ---- what a graph runs ---- */

/* The features of work by which graphs are compared, and its place in the graph. */
struct piece {
    const char *name; /* of kernels; "": not known */
    uint32_t kind, place;
};

static AORTA_ORDER(piece_order, struct piece, AORTA_UP(kind) AORTA_TEXT(name) AORTA_UP(place));

static struct piece piece_of(const struct aorta_trace *trace, const struct aorta_trace_work *work, size_t place) {
    const char *name = work->kind == AORTA_TRACE_KERNEL ? aorta_trace_text(trace, work->name) : "";
    return (struct piece){name, work->kind, (uint32_t)place};
}

/* A captured graph with its pieces. */
struct capture {
    const struct aorta_trace *trace;
    const struct aorta_captured_graph *graph;
    struct piece *pieces; /* sorted; in launch order if names are unknown */
    bool named;
    bool unknown; /* only some names are known: no launch can match */
};

struct captures {
    struct capture *items;
    size_t count;
};

static struct capture make_capture(const struct aorta_trace *trace, const struct aorta_captured_graph *graph,
                                   struct aorta_arena *memory) {
    const struct aorta_trace_work *captured = &trace->captured[graph->first];
    size_t kernels = 0, named = 0;
    struct piece *pieces = aorta_arena_raw(memory, graph->count * sizeof *pieces);
    for (size_t i = 0; pieces && i < graph->count; i++) {
        pieces[i] = piece_of(trace, &captured[i], i);
        kernels += captured[i].kind == AORTA_TRACE_KERNEL;
        named += pieces[i].name[0] != '\0';
    }
    const bool ordered = named > 0 || kernels == 0;
    if (pieces && ordered) qsort(pieces, graph->count, sizeof *pieces, piece_order);
    return (struct capture){
        .trace = trace, .graph = graph, .pieces = pieces, .named = ordered, .unknown = named && named != kernels};
}

/* ---- launches ---- */

struct replays {
    struct graph_replay *items; /* in the order of their calls */
    size_t count;
};

static struct replays find_replays(const struct aorta_trace *trace, struct aorta_arena *memory) {
    struct replayed {
        int64_t call, work;
    } *all = aorta_arena_raw(memory, trace->work_count * sizeof *all);
    struct replays replays = {0};
    size_t count = 0;
    for (size_t i = 0; all && i < trace->work_count; i++) {
        const uint32_t call = trace->work[i].call;
        if (trace->work[i].graph && call != AORTA_TRACE_NONE && trace->calls[call].kind == AORTA_CALL_GRAPH_LAUNCH)
            all[count++] = (struct replayed){call, (int64_t)i};
    }
    aorta_sort_rows(all, count, sizeof *all, aorta_by_int64_pair);
    replays.items = aorta_arena_alloc(memory, count * sizeof *replays.items);
    uint32_t *work = aorta_arena_raw(memory, count * sizeof *work);
    uint32_t *pairs = aorta_arena_raw(memory, count * sizeof *pairs);
    for (size_t i = 0; !memory->failed && i < count; i++) {
        if (!i || all[i].call != all[i - 1].call)
            replays.items[replays.count++] =
                (struct graph_replay){.call = (uint32_t)all[i].call, .work = work + i, .pair = pairs + i};
        work[i] = (uint32_t)all[i].work;
        replays.items[replays.count - 1].count++;
    }
    return replays;
}

/* ---- which capture ---- */

/* The first kernel of each captured operation must have a class that fits, as a matrix product for aten::mm. */
static bool classes_agree(const struct capture *capture, const struct aorta_trace *trace,
                          const struct graph_replay *replay) {
    for (size_t i = 0; i < replay->count; i++) {
        const struct aorta_trace_work *captured = &capture->trace->captured[capture->graph->first + i];
        const struct aorta_trace_work *work = &trace->work[replay->work[i]];
        if (captured->kind != work->kind || trace->work[replay->work[0]].stream != work->stream) return false;
        if (captured->shape == AORTA_TRACE_NONE) continue;
        const enum aorta_work_class wanted = capture->trace->shapes[captured->shape].amount.class;
        const enum aorta_work_class is = aorta_kernel_work_class(aorta_trace_text(trace, work->name));
        if (captured->leads && is <= AORTA_WORK_ATTENTION && !aorta_work_class_fits(is, wanted)) return false;
    }
    return true;
}

/* `pieces`: those of the replay, sorted. */
static bool fits(const struct capture *capture, const struct aorta_trace *trace, const struct graph_replay *replay,
                 const struct piece *pieces) {
    if (capture->unknown || capture->graph->count != replay->count) return false;
    if (!capture->named) return classes_agree(capture, trace, replay);
    for (size_t i = 0; i < replay->count; i++)
        if (pieces[i].kind != capture->pieces[i].kind || strcmp(pieces[i].name, capture->pieces[i].name) != 0)
            return false;
    return true;
}

/* The outermost range around an operation; "": none. */
static const char *range_around(const struct aorta_trace *trace, uint32_t operation) {
    const char *name = "";
    for (; operation != AORTA_TRACE_NONE; operation = trace->operations[operation].parent)
        if (trace->operations[operation].range) name = aorta_trace_text(trace, trace->operations[operation].name);
    return name;
}

/* The first number in a text; -1: none. */
static long first_number(const char *text) {
    text += strcspn(text, "0123456789");
    return *text ? strtol(text, NULL, 10) : -1;
}

static bool same_shape(const struct aorta_trace *a, uint32_t left, const struct aorta_trace *b, uint32_t right) {
    if (left == AORTA_TRACE_NONE || right == AORTA_TRACE_NONE) return left == right;
    const struct aorta_trace_shape *x = &a->shapes[left], *y = &b->shapes[right];
    return !strcmp(aorta_trace_text(a, x->op), aorta_trace_text(b, y->op)) &&
           !strcmp(aorta_trace_text(a, x->dims), aorta_trace_text(b, y->dims)) &&
           !strcmp(aorta_trace_text(a, x->types), aorta_trace_text(b, y->types));
}

static bool same_shapes(const struct capture *a, const struct capture *b) {
    for (size_t i = 0; i < a->graph->count; i++)
        if (!same_shape(a->trace, a->trace->captured[a->graph->first + i].shape, b->trace,
                        b->trace->captured[b->graph->first + i].shape))
            return false;
    return true;
}

/* The captures that fit one launch. */
struct choice {
    const struct capture **fitting;
    size_t count;
    bool differ; /* in their shapes */
};

static void keep_numbered(struct choice *choice, long number) {
    size_t used = 0;
    for (size_t i = 0; number >= 0 && i < choice->count; i++) {
        const struct capture *capture = choice->fitting[i];
        const uint32_t operation = capture->trace->captured[capture->graph->first].operation;
        if (first_number(range_around(capture->trace, operation)) == number) choice->fitting[used++] = capture;
    }
    if (used) choice->count = used;
}

static void keep_trace(struct choice *choice, const struct aorta_trace *trace) {
    size_t used = 0;
    for (size_t i = 0; i < choice->count; i++)
        if (choice->fitting[i]->trace == trace) choice->fitting[used++] = choice->fitting[i];
    if (used) choice->count = used;
}

static bool all_alike(const struct choice *choice) {
    for (size_t i = 1; i < choice->count; i++)
        if (!same_shapes(choice->fitting[0], choice->fitting[i])) return false;
    return true;
}

/* Prefers captures in the same trace, then of the same rank. (vLLM records captures only on rank 0.) */
static void choose(struct choice *choice, const struct captures *captures, const struct aorta_trace *trace,
                   const struct graph_replay *replay, const struct piece *pieces) {
    choice->count = 0;
    for (size_t i = 0; i < captures->count; i++)
        if (fits(&captures->items[i], trace, replay, pieces)) choice->fitting[choice->count++] = &captures->items[i];
    if (choice->count > 1) keep_trace(choice, trace);
    for (size_t i = 0; choice->count > 1 && i < choice->count; i++)
        if (choice->fitting[i]->trace->rank == trace->rank) {
            keep_trace(choice, choice->fitting[i]->trace);
            break;
        }
    if (choice->count > 1 && !all_alike(choice))
        keep_numbered(choice, first_number(range_around(trace, trace->work[replay->work[0]].operation)));
    choice->differ = choice->count > 1 && !all_alike(choice);
}

/* ---- one trace ---- */

struct joining {
    const struct captures *captures;
    struct aorta_trace *trace;
    struct choice choice;
    struct piece *pieces; /* of one launch */
    uint32_t *taken;      /* by capture: launches in the range at hand */
    const char *range;    /* of the previous launches */
    uint32_t last_operation;
};

/* Graphs captured for equal parts of a model are alike, so the launches of a step use them in turn. */
static const struct capture *next_of(struct joining *joining, const struct graph_replay *replay) {
    const struct choice *choice = &joining->choice;
    uint32_t operation = joining->trace->work[replay->work[0]].operation;
    while (operation != AORTA_TRACE_NONE && joining->trace->operations[operation].parent != AORTA_TRACE_NONE)
        operation = joining->trace->operations[operation].parent;
    if (operation != joining->last_operation)
        memset(joining->taken, 0, joining->captures->count * sizeof *joining->taken);
    joining->last_operation = operation;
    const size_t first = (size_t)(choice->fitting[0] - joining->captures->items);
    return choice->fitting[joining->taken[first]++ % choice->count];
}

static void pair_up(const struct capture *capture, const struct piece *pieces, struct graph_replay *replay) {
    replay->source = capture->trace;
    replay->graph = capture->graph;
    for (size_t i = 0; i < replay->count; i++)
        replay->pair[capture->named ? pieces[i].place : i] = capture->named ? capture->pieces[i].place : (uint32_t)i;
}

static void join_replay(struct joining *joining, struct graph_replay *replay) {
    const struct aorta_trace *trace = joining->trace;
    for (size_t i = 0; i < replay->count; i++) joining->pieces[i] = piece_of(trace, &trace->work[replay->work[i]], i);
    qsort(joining->pieces, replay->count, sizeof *joining->pieces, piece_order);
    choose(&joining->choice, joining->captures, trace, replay, joining->pieces);
    const struct choice *choice = &joining->choice;
    if (choice->count && !choice->differ) pair_up(next_of(joining, replay), joining->pieces, replay);
    aorta_trace_warn(joining->trace->warnings,
                     replay->source  ? AORTA_REASON_CAPTURED
                     : choice->count ? AORTA_REASON_SEVERAL_CAPTURES
                                     : AORTA_REASON_NO_CAPTURE,
                     -1);
}

static aorta_status join_trace(struct aorta_trace *trace, const struct captures *captures) {
    struct aorta_arena memory = {0};
    const struct replays replays = find_replays(trace, &memory);
    struct joining joining = {.captures = captures,
                              .trace = trace,
                              .last_operation = AORTA_TRACE_NONE,
                              .choice.fitting =
                                  aorta_arena_raw(&memory, captures->count * sizeof(const struct capture *)),
                              .pieces = aorta_arena_raw(&memory, trace->work_count * sizeof *joining.pieces),
                              .taken = aorta_arena_alloc(&memory, captures->count * sizeof *joining.taken)};
    for (size_t i = 0; !memory.failed && i < replays.count; i++) join_replay(&joining, &replays.items[i]);
    aorta_status status = aorta_arena_check(&memory, "the graphs of a trace");
    if (!status) status = aorta_trace_take_captures(trace, replays.items, replays.count);
    aorta_arena_free(&memory);
    return status;
}

/* ---- all traces ---- */

static struct captures make_captures(const struct aorta_trace_list *list, struct aorta_arena *memory) {
    size_t count = 0;
    for (size_t i = 0; i < list->count; i++) count += list->items[i]->graph_count;
    struct captures captures = {.items = aorta_arena_raw(memory, count * sizeof *captures.items)};
    for (size_t i = 0; captures.items && i < list->count; i++)
        for (size_t k = 0; k < list->items[i]->graph_count; k++)
            captures.items[captures.count++] = make_capture(list->items[i], &list->items[i]->graphs[k], memory);
    return captures;
}

static bool launches_graphs(const struct aorta_trace *trace) {
    for (size_t i = 0; i < trace->work_count; i++)
        if (trace->work[i].graph) return true;
    return false;
}

void aorta_trace_drop_captures(struct aorta_trace_list *list) {
    size_t used = 0, launching = 0, capturing = 0;
    for (size_t i = 0; i < list->count; i++) capturing += list->items[i]->graph_count > 0;
    for (size_t i = 0; capturing && i < list->count; i++) launching += launches_graphs(list->items[i]);
    for (size_t i = 0; i < list->count; i++) {
        struct aorta_trace *trace = list->items[i];
        if (launching && trace->graph_count && !launches_graphs(trace))
            aorta_trace_free(trace);
        else
            list->items[used++] = trace;
    }
    list->count = used;
}

aorta_status aorta_trace_join_captures(struct aorta_trace_list *list) {
    struct aorta_arena memory = {0};
    const struct captures captures = make_captures(list, &memory);
    aorta_status status = aorta_arena_check(&memory, "the captured graphs");
    for (size_t i = 0; !status && captures.count && i < list->count; i++)
        status = join_trace(list->items[i], &captures);
    aorta_arena_free(&memory);
    if (!status) aorta_trace_drop_captures(list);
    return status;
}
