/* Which views share elements, and the check that operations on shared elements have an order.
 *
 * Time goes to the right. `a` writes what `b` reads on another stream; the order is there when a wait of b's stream
 * leads back to a or a later operation of a's stream, directly or over others:
 *
 *   stream 0   a ──record──────── c
 *   stream 1        └─wait── x ──record
 *   stream 2                      └─wait── b
 *
 * The check walks the steps as they are replayed. Each stream has a clock: how many operations of every stream end
 * before its next one begins. A record stores the clock, a wait adds the stored one. */
#include "hwq/graph_internal.h"
#include "hwq/objects.h"

#include <string.h>

/* ---- views ---- */

/* Bytes from the first element to behind the last. */
static int64_t end_of(const struct hwq_tensor *t) {
    return hwq_address(t, t->rows - 1, t->columns - 1) + t->size;
}

static bool dense(const struct hwq_tensor *t) {
    return t->width >= t->columns && (t->stride == t->columns || t->rows == 1);
}

bool hwq_contains(const struct hwq_tensor *t, int64_t address, int64_t *row, int64_t *column) {
    const int64_t size = t->size, element = (address - t->offset) / size;
    if (address < t->offset || t->rows < 1 || t->columns < 1) return false;
    *row = t->rows == 1 ? 0 : element / t->stride;
    const int64_t within = element - *row * t->stride;
    const int64_t tooth = within / t->period, place = within % t->period;
    *column = tooth * t->width + place;
    return *row < t->rows && place < t->width && *column < t->columns;
}

/* Is any byte of [low, high) in the view? */
static bool hits(const struct hwq_tensor *t, int64_t low, int64_t high) {
    const int64_t size = t->size;
    if (high <= t->offset || low >= end_of(t)) return false;
    if (dense(t)) return true;
    const int64_t stride = t->stride * size, extent = end_of(t) - t->offset - (t->rows - 1) * stride;
    int64_t row = low - t->offset < extent ? 0 : (low - t->offset - extent) / stride + 1;
    for (; row < t->rows && t->offset + row * stride < high; row++)
        for (int64_t column = 0; column < t->columns; column += t->width) {
            const int64_t tooth = hwq_address(t, row, column);
            if (tooth < high && tooth + t->width * size > low) return true;
        }
    return false;
}

bool hwq_overlap(const struct hwq_tensor *a, const struct hwq_tensor *b) {
    if (a->memory != b->memory || a->rows < 1 || b->rows < 1 || a->columns < 1 || b->columns < 1) return false;
    if (a->offset >= end_of(b) || b->offset >= end_of(a)) return false;
    if (hwq_same(a, b)) return true;
    if (dense(a)) return hits(b, a->offset, end_of(a));
    if (dense(b)) return hits(a, b->offset, end_of(b));
    for (int64_t row = 0; row < a->rows; row++)
        for (int64_t column = 0; column < a->columns; column += a->width) {
            const int64_t tooth = hwq_address(a, row, column);
            if (hits(b, tooth, tooth + a->width * a->size)) return true;
        }
    return false;
}

bool hwq_conflict(const struct hwq_access *a, const struct hwq_access *b) {
    return (a->output >= 0 || b->output >= 0) && hwq_overlap(a->tensor, b->tensor);
}

/* ---- the order ---- */

struct clock {
    int64_t of[AORTA_HWQ_MAX_STREAMS];
};

struct stored {
    const struct aorta_event *event;
    struct clock clock;
};

struct walk {
    const struct hwq_graph *g;
    struct clock *now;     /* of each stream */
    struct stored *stored; /* of each event */
    size_t stored_count;
    int64_t *places; /* of each operation, by number, on its stream; 0: it has not run */
};

static aorta_status unordered(const struct walk *walk, const struct hwq_access *first,
                              const struct hwq_access *second) {
    static const char *const verbs[2] = {"reads", "writes"};
    return AORTA_ERROR(AORTA_INTERNAL,
                       "%s on stream %d %s \"%s\", which %s on stream %d %s, and nothing orders the two%s",
                       hwq_operation_name(second->operation), second->operation->stream, verbs[second->output >= 0],
                       second->tensor->memory->name, hwq_operation_name(first->operation), first->operation->stream,
                       verbs[first->output >= 0], walk->g->independent ? ": its workload has independent streams" : "");
}

/* One access of an operation against those that ran before. */
static aorta_status check_access(const struct walk *walk, const struct hwq_access *access) {
    const struct hwq_operation *o = access->operation;
    const struct hwq_memory *memory = access->tensor->memory;
    bool written = access->output >= 0 || !memory->result;
    const struct hwq_graph *g = walk->g;
    for (const struct hwq_access *a = hwq_access_of(memory->last, g); a; a = hwq_access_of(a->before, g)) {
        const int64_t place = walk->places[a->operation->number];
        const int other = a->operation->stream;
        if (!place) continue;
        written = written || (a->output >= 0 && hwq_overlap(a->tensor, access->tensor));
        if (other == o->stream || (place <= walk->now[o->stream].of[other] && !g->independent)) continue;
        if (hwq_conflict(a, access)) return unordered(walk, a, access);
    }
    if (written) return NULL;
    return AORTA_ERROR(AORTA_INTERNAL, "%s on stream %d reads \"%s\", which no operation has written",
                       hwq_operation_name(o), o->stream, memory->name);
}

static aorta_status check_operation(struct walk *walk, const struct hwq_operation *o) {
    const int s = o->stream;
    for (int i = 0; i < HWQ_MOST_IN; i++) {
        const struct hwq_access access = {o, &o->in[i], -1, NULL, NULL};
        if (access.tensor->memory) AORTA_TRY(check_access(walk, &access));
    }
    for (int i = 0; i < HWQ_MOST_OUT; i++) {
        const struct hwq_access access = {o, &o->out[i], i, NULL, NULL};
        if (access.tensor->memory) AORTA_TRY(check_access(walk, &access));
    }
    if (o->exclusive) {
        const struct hwq_tensor group = {.memory = o->exclusive,
                                         .dtype = AORTA_U8,
                                         .size = 1,
                                         .rows = 1,
                                         .columns = 1,
                                         .stride = 1,
                                         .width = 1,
                                         .period = 1};
        const struct hwq_access access = {o, &group, 0, NULL, NULL};
        AORTA_TRY(check_access(walk, &access));
    }
    walk->places[o->number] = ++walk->now[s].of[s];
    return NULL;
}

static struct clock *stored_clock(struct walk *walk, const struct aorta_event *event) {
    for (size_t i = 0; i < walk->stored_count; i++)
        if (walk->stored[i].event == event) return &walk->stored[i].clock;
    walk->stored[walk->stored_count].event = event;
    return &walk->stored[walk->stored_count++].clock;
}

static aorta_status check_steps(struct walk *walk) {
    const struct hwq_graph *g = walk->g;
    for (size_t i = 0; i < g->step_count; i++) {
        const struct hwq_step *step = &g->steps[i];
        struct clock *now = &walk->now[step->stream];
        if (step->kind == HWQ_OPERATION) AORTA_TRY(check_operation(walk, step->operation));
        for (size_t k = 0; step->kind == HWQ_LAUNCHES && k < step->count; k++)
            AORTA_TRY(check_operation(walk, step->launches[k]->operation));
        if (step->kind == HWQ_RECORD) *stored_clock(walk, step->event) = *now;
        if (step->kind != HWQ_WAIT) continue;
        const struct clock *stored = stored_clock(walk, step->event);
        for (int s = 0; s < g->hwq->stream_count; s++)
            if (stored->of[s] > now->of[s]) now->of[s] = stored->of[s];
    }
    return NULL;
}

aorta_status hwq_graph_check_order(const struct hwq_graph *g) {
    struct aorta_arena arena = {0};
    struct walk walk = {.g = g};
    walk.now = aorta_arena_alloc(&arena, AORTA_HWQ_MAX_STREAMS * sizeof *walk.now);
    walk.stored = aorta_arena_alloc(&arena, (g->step_count + 1) * sizeof *walk.stored);
    walk.places = aorta_arena_alloc(&arena, ((size_t)(g->last ? g->last->number : 0) + 1) * sizeof *walk.places);
    aorta_status status = walk.now && walk.stored && walk.places
                              ? check_steps(&walk)
                              : AORTA_ERROR(AORTA_MEMORY, "no host memory to check the order of operations");
    aorta_arena_free(&arena);
    return status;
}
