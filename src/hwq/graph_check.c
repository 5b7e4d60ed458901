/* Which views share elements, and the check that operations on shared elements have an order.
 *
 * Time goes to the right. `a` writes what `b` reads on another stream. They are ordered when a wait of b's stream leads
 * back to a or a later operation of a's stream, directly or through more streams:
 *
 *   stream 0   a ──record──────── c
 *   stream 1        └─wait── x ──record
 *   stream 2                      └─wait── b
 *
 * The check walks the steps as they are replayed. Each stream has a clock: how many operations of every stream end
 * before its next one begins. A record stores the clock, a wait adds the stored one. */
#include "base/half.h"
#include "hwq/graph_internal.h"
#include "hwq/iterations.h"

#include <math.h>
#include <string.h>

/* ---- views ---- */

/* In bytes of the allocation. */
static int64_t address_of(const struct hwq_tensor *t, int64_t row, int64_t column) {
    const int64_t within = column < t->width ? column : column / t->width * t->period + column % t->width;
    return t->offset + (row * t->stride + within) * t->size;
}

/* Bytes from the start of the allocation to the end of the last element. */
static int64_t end_of(const struct hwq_tensor *t) {
    return address_of(t, t->rows - 1, t->columns - 1) + t->size;
}

static bool dense(const struct hwq_tensor *t) {
    return t->width >= t->columns && (t->stride == t->columns || t->rows == 1);
}

/* Is the byte in the view, and in which row and column? */
static bool contains(const struct hwq_tensor *t, int64_t address, int64_t *row, int64_t *column) {
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
            const int64_t tooth = address_of(t, row, column);
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
            const int64_t tooth = address_of(a, row, column);
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
    int64_t *places; /* by operation number: place on its stream, 0 if it has not run */
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

/* Compares one access of an operation with the earlier ones. */
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
    const struct hwq_access access = {o, &o->group, 0, NULL, NULL};
    if (o->comm) AORTA_TRY(check_access(walk, &access));
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
            AORTA_TRY(check_operation(walk, step->launches[k]));
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

/* ---- verification ----
 * All results are overwritten with NaN, one more iteration computes them again, and then
 * samples of each operation's outputs are compared with what its `element` computes from its inputs.
 *
 * An input may have been overwritten by then, as memory is reused (slots, caches, sums in place). Its element is then
 * computed from the inputs of the operation that wrote it, and so on. When no operation of the iteration had written it
 * before, the element is the one in memory before the iteration. It is not known beforehand which of these are needed.
 * So all elements are computed once before the iteration, which fetches them and compares nothing.
 *
 *   x ──linear──▶ y ──relu_backward, in place──▶ y        element of the second: from x, through the first
 *
 * The time is bounded: each output may read its share of EVENLY elements, and takes as many samples as that allows.
 * When these are less than FEW, the samples are elements of one row, which share inputs, and read from the common
 * budget MORE. When MORE is used up, the remaining samples are not compared. */

enum { SAMPLES = 97 }; /* of an output */
enum { PAGE = 1 << 16, EVENLY = 40000000, MORE = 40000000, FEW = 8, BEFORE = 0, AFTER = 1 };

struct hwq_checker {
    struct hwq_graph *g;
    struct aorta_hwq_check *check;
    aorta_status status;
    int64_t spent, limit;           /* elements read for an output, and the limit */
    int64_t share, rest;            /* of EVENLY; remaining of MORE */
    bool fetching;                  /* before the iteration */
    struct aorta_arena pages, made; /* copies of memory; elements of operations */
};

struct hwq_value hwq_unknown(void) {
    return (struct hwq_value){0.0, INFINITY};
}

/* ---- sums ---- */

void hwq_sum_product(struct hwq_sum *sum, struct hwq_value a, struct hwq_value b) {
    const double product = a.value * b.value, from_a = a.allowed * b.value, from_b = b.allowed * a.value;
    sum->value += product;
    sum->magnitude += fabs(product);
    sum->square += from_a * from_a + from_b * from_b;
    sum->unknown = sum->unknown || isinf(a.allowed) || isinf(b.allowed);
}

void hwq_sum_add(struct hwq_sum *sum, struct hwq_value a) {
    hwq_sum_product(sum, a, (struct hwq_value){1.0, 0.0});
}

struct hwq_value hwq_sum_end(const struct hwq_sum *sum, double tolerance) {
    if (sum->unknown) return hwq_unknown();
    return (struct hwq_value){sum->value, tolerance * sum->magnitude + sqrt(sum->square) + 1e-30};
}

/* ---- memory ---- */

static void fail(struct hwq_checker *c, aorta_status status) {
    c->status = aorta_status_join(c->status, status);
}

static void *take(struct hwq_checker *c, struct aorta_arena *arena, size_t bytes) {
    void *memory = c->status ? NULL : aorta_arena_alloc(arena, bytes);
    if (!memory && !c->status) c->status = AORTA_ERROR(AORTA_MEMORY, "no host memory to verify");
    return memory;
}

static void *fetch_page(struct hwq_checker *c, struct hwq_memory *memory, size_t index) {
    const size_t bytes = memory->bytes - index * PAGE < PAGE ? memory->bytes - index * PAGE : PAGE;
    void *page = take(c, &c->pages, bytes);
    if (page && memory->pinned)
        memcpy(page, memory->address + index * PAGE, bytes);
    else if (page)
        fail(c, aorta_hwq_transfer(c->g->hwq, page, memory->address + index * PAGE, bytes));
    return page;
}

/* Returns NULL if this page was not fetched in time. */
static const char *page_of(struct hwq_checker *c, struct hwq_memory *memory, int when, size_t index) {
    void ***pages = &memory->pages[when];
    if (!*pages) *pages = take(c, &c->pages, (memory->bytes / PAGE + 1) * sizeof **pages);
    if (!*pages) return NULL;
    if (!(*pages)[index] && c->fetching == (when == BEFORE)) (*pages)[index] = fetch_page(c, memory, index);
    return (*pages)[index];
}

static double read_element(const char *at, const struct hwq_tensor *t) {
    const enum aorta_dtype dtype = t->dtype;
    union {
        float f32;
        int64_t i64;
        int32_t i32;
        uint16_t half;
    } raw = {.i64 = 0};
    memcpy(&raw, at, (size_t)t->size);
    if (dtype == AORTA_F16) return (double)aorta_float_of_f16(raw.half);
    if (dtype == AORTA_BF16) return (double)aorta_float_of_bf16(raw.half);
    if (dtype == AORTA_F32) return (double)raw.f32;
    if (dtype == AORTA_I64) return (double)raw.i64;
    if (dtype == AORTA_I32) return (double)raw.i32;
    return (double)(unsigned char)*at;
}

/* An element in memory before the iteration, or after it. */
static struct hwq_value stored(struct hwq_checker *c, const struct hwq_tensor *t, int64_t address, int when) {
    const char *page = page_of(c, t->memory, when, (size_t)address / PAGE);
    if (!page || c->status) return hwq_unknown();
    return (struct hwq_value){read_element(page + address % PAGE, t), 0.0};
}

/* ---- elements ---- */

static const struct hwq_access *write_of(const struct hwq_access *a, const struct hwq_graph *g) {
    while (a && a->operation->graph != g) a = a->write_before;
    return a;
}

/* The last operation before number `limit` that writes the element; NULL: none. */
static const struct hwq_access *writer_before(const struct hwq_checker *c, const struct hwq_tensor *t, int64_t address,
                                              int64_t limit, int64_t *row, int64_t *column) {
    const struct hwq_graph *g = c->g;
    for (const struct hwq_access *a = write_of(t->memory->last_write, g); a; a = write_of(a->write_before, g))
        if (a->operation->number < limit && contains(a->tensor, address, row, column)) return a;
    return NULL;
}

/* Computes the element that `writer` wrote, once. */
static struct hwq_value made(struct hwq_checker *c, const struct hwq_access *writer, int64_t row, int64_t column) {
    struct hwq_operation *o = (struct hwq_operation *)writer->operation; /* the graph's, which is ours to change */
    const struct hwq_tensor *t = writer->tensor;
    if (o->kind->moves) return o->kind->element(&(struct hwq_element){c, o, writer->output, row, column});
    struct hwq_value **memo = &o->made[writer->output];
    if (!*memo) *memo = take(c, &c->made, (size_t)(t->rows * t->columns) * sizeof **memo); /* allowed 0: not yet */
    if (!*memo) return hwq_unknown();
    struct hwq_value *value = &(*memo)[row * t->columns + column];
    if (value->allowed > 0.0) return *value;
    const struct hwq_value computed = o->kind->element(&(struct hwq_element){c, o, writer->output, row, column});
    if (isfinite(computed.allowed)) *value = computed; /* an unknown value may become known with more budget */
    return computed;
}

static struct hwq_value traced(struct hwq_checker *c, const struct hwq_operation *o, const struct hwq_tensor *t,
                               int64_t address) {
    int64_t row, column;
    const struct hwq_access *last = writer_before(c, t, address, INT64_MAX, &row, &column);
    if (!last || last->operation->number < o->number) return stored(c, t, address, AFTER);
    const struct hwq_access *writer = writer_before(c, t, address, o->number, &row, &column);
    if (writer) return made(c, writer, row, column);
    return t->memory->result ? hwq_unknown() : stored(c, t, address, BEFORE);
}

struct hwq_value hwq_at(const struct hwq_element *e, int input, int64_t row, int64_t column) {
    struct hwq_checker *c = e->checker;
    const struct hwq_operation *o = e->o;
    const struct hwq_tensor *t = &o->in[input];
    const int64_t address = address_of(t, row, column);
    if (++c->spent > c->limit || c->status) return hwq_unknown();
    if (o->overwritten & 1u << input) return traced(c, o, t, address);
    if (c->fetching)
        return t->memory->result || t->dtype <= AORTA_BF16 ? (struct hwq_value){0.0, 0.0}
                                                           : stored(c, t, address, BEFORE);
    const struct hwq_value value = stored(c, t, address, AFTER);
    if (!isnan(value.value) || !t->memory->result) return value;
    const struct hwq_access *writer = writer_before(c, t, address, o->number, &row, &column);
    if (!writer) return hwq_unknown(); /* padding and everything computed from it stay NaN */
    return isinf(made(c, writer, row, column).allowed) ? hwq_unknown() : value;
}

struct hwq_value hwq_written(const struct hwq_element *e, int output, int64_t row, int64_t column) {
    struct hwq_checker *c = e->checker;
    const struct hwq_operation *o = e->o;
    const struct hwq_tensor *t = &o->out[output];
    const int64_t address = address_of(t, row, column);
    if (++c->spent > c->limit || c->status) return hwq_unknown();
    if (c->fetching) return (struct hwq_value){0.0, 0.0};
    const struct hwq_access *last = writer_before(c, t, address, INT64_MAX, &row, &column);
    if (last->operation == o) return stored(c, t, address, AFTER);
    return made(c, &(struct hwq_access){o, t, output, NULL, NULL}, row, column);
}

/* ---- operations ---- */

static void find_overwritten(struct hwq_graph *g) {
    for (struct hwq_operation *o = g->first; o; o = o->next) {
        o->overwritten = 0;
        for (int k = 0; k < HWQ_MOST_IN; k++) {
            const struct hwq_access *a = o->in[k].memory ? write_of(o->in[k].memory->last_write, g) : NULL;
            for (; a && a->operation->number >= o->number; a = write_of(a->write_before, g))
                if (hwq_overlap(a->tensor, &o->in[k])) o->overwritten |= 1u << k;
        }
    }
}

/* Steps of the golden ratio spread evenly. The first and the last element are always included. */
static int64_t sample(int64_t i, int64_t count) {
    if (count <= SAMPLES) return i;
    if (i == 1) return count - 1;
    const double place = (double)i * 0.61803398874989485;
    return (int64_t)((place - floor(place)) * (double)count);
}

static void compare(struct hwq_checker *c, const struct hwq_operation *o, int output, int64_t row, int64_t column) {
    const struct hwq_tensor *t = &o->out[output];
    int64_t other_row, other_column;
    const int64_t address = address_of(t, row, column);
    const struct hwq_access *last = writer_before(c, t, address, INT64_MAX, &other_row, &other_column);
    if (last->operation != o) return; /* not in memory any more */
    const struct hwq_value expected = o->kind->element(&(struct hwq_element){c, o, output, row, column});
    if (c->fetching || isinf(expected.allowed)) return;
    const double got = stored(c, t, address, AFTER).value;
    aorta_hwq_compare(c->check, got, expected.value, expected.allowed, "%s, %s[%lld, %lld], stream %d",
                      hwq_operation_name(o), t->memory->name, (long long)row, (long long)column, o->stream);
}

static void compare_output(struct hwq_checker *c, const struct hwq_operation *o, int output) {
    const struct hwq_tensor *t = &o->out[output];
    const int64_t most = o->kind->samples ? o->kind->samples : SAMPLES, all = t->rows * t->columns;
    int64_t count = all < most ? all : most, row = -1, cost = 0; /* all rows; of the first sample */
    for (int64_t i = 0; i < count && !c->status && c->spent <= c->limit; i++) {
        const int64_t at = sample(i, all);
        if (row >= 0 && c->spent > c->share && c->spent > 2 * cost) return;
        compare(c, o, output, row < 0 ? at / t->columns : row, at % t->columns);
        if (i > 0 || !c->spent || c->spent * count <= c->share) continue;
        cost = c->spent;
        if (c->share / cost >= FEW) {
            count = c->share / cost;
            continue;
        }
        row = o->number % t->rows;
        count = count < FEW ? count : FEW;
    }
}

static void compare_operation(struct hwq_checker *c, const struct hwq_operation *o) {
    if (!o->kind->element || o->overwritten & o->wide || (c->fetching && !o->overwritten)) return;
    for (int i = 0; i < HWQ_MOST_OUT; i++) {
        c->spent = 0;
        c->limit = c->share + c->rest;
        if (o->out[i].memory) compare_output(c, o, i);
        if (c->spent > c->share) c->rest -= c->spent - c->share;
        if (c->rest < 0) c->rest = 0;
    }
}

static aorta_status compare_all(struct hwq_checker *c) {
    int64_t outputs = 1;
    for (const struct hwq_operation *o = c->g->first; o; o = o->next)
        for (int i = 0; i < HWQ_MOST_OUT; i++) outputs += o->out[i].memory != NULL;
    c->share = EVENLY / outputs;
    c->rest = MORE;
    for (const struct hwq_operation *o = c->g->first; o && !c->status; o = o->next) compare_operation(c, o);
    return c->status;
}

static void forget(struct hwq_checker *c) {
    for (struct hwq_operation *o = c->g->first; o; o = o->next) memset(o->made, 0, sizeof o->made);
    aorta_arena_free(&c->made);
}

/* 64-bit integers are ids of rows that kernels read, so they become 0, a valid id. */
static aorta_status spoil_results(const struct hwq_graph *g) {
    for (const struct hwq_memory *m = g->memories; m; m = m->next) {
        const int value = m->dtype == AORTA_I64 ? 0 : 0xFF;
        if (m->result && m->pinned) memset(m->address, value, m->bytes);
        if (m->result && !m->pinned) AORTA_TRY(aorta_fill_bytes(g->hwq->streams[0], m->address, value, m->bytes));
    }
    return aorta_hwq_wait_for_streams(g->hwq);
}

static aorta_status iterate(struct hwq_graph *g) {
    int64_t host_ns;
    aorta_status status = g->hwq->replay ? aorta_hwq_runner_run(g->hwq->replay, -1, &host_ns) : hwq_graph_iterate(g);
    return aorta_status_join(status, aorta_hwq_wait_for_streams(g->hwq));
}

aorta_status hwq_graph_verify(struct hwq_graph *g, struct aorta_hwq_check *check) {
    struct hwq_checker c = {.g = g, .check = check, .fetching = true};
    AORTA_TRY(hwq_graph_check_order(g));
    find_overwritten(g);
    aorta_status status = compare_all(&c);
    c.fetching = false;
    forget(&c);
    if (!status) status = spoil_results(g);
    if (!status) status = iterate(g);
    if (!status) status = compare_all(&c);
    forget(&c);
    for (struct hwq_memory *m = g->memories; m; m = m->next) memset(m->pages, 0, sizeof m->pages);
    aorta_arena_free(&c.pages);
    return status;
}
