#include "hwq/graph_internal.h"
#include "hwq/iterations.h"
#include "hwq/kernels/kernels.h"

#include <string.h>

enum { ARGUMENT_BYTES = 256 }; /* of a kernel that is stamped */

const char *hwq_operation_name(const struct hwq_operation *o) {
    return o->name ? o->name : o->kind->name;
}

void hwq_fail(struct hwq_graph *g, aorta_status status) {
    g->status = aorta_status_join(g->status, status);
}

void *hwq_state(struct hwq_graph *g, size_t bytes) {
    void *memory = g->status ? NULL : aorta_arena_alloc(g->hwq->arena, bytes);
    if (!memory && !g->status) g->status = AORTA_ERROR(AORTA_MEMORY, "no host memory for a workload's graph");
    return memory;
}

void hwq_owns(struct hwq_graph *g, void (*end)(void *object), void *object) {
    struct hwq_owned *owned = aorta_arena_alloc(g->hwq->arena, sizeof *owned);
    if (!owned) {
        end(object);
        hwq_fail(g, AORTA_ERROR(AORTA_MEMORY, "no host memory for a workload's graph"));
        return;
    }
    *owned = (struct hwq_owned){end, object, g->owned};
    g->owned = owned;
}

static void close_group(void *group) {
    aorta_comm_close(group);
}

struct aorta_comm *hwq_split(struct hwq_graph *g, const int *ranks, int count) {
    struct aorta_comm *group = NULL;
    if (g->status) return NULL;
    hwq_fail(g, aorta_comm_split(g->hwq->world, ranks, count, &group));
    if (group) hwq_owns(g, close_group, group);
    return group;
}

int hwq_stream(const struct hwq_graph *g, int role, int roles, int64_t index) {
    const int count = (g->hwq->stream_count - role + roles - 1) / roles;
    return role + roles * (int)(index % count);
}

struct hwq_part hwq_part(int64_t all, int64_t parts, int64_t index) {
    const int64_t first = all * index / parts;
    return (struct hwq_part){first, all * (index + 1) / parts - first};
}

/* ---- tensors ---- */

static struct hwq_memory *add_memory(struct hwq_graph *g, const struct hwq_memory *of) {
    struct hwq_memory *memory = hwq_state(g, sizeof *memory);
    if (!memory) return NULL;
    *memory = *of;
    memory->next = g->memories;
    g->memories = memory;
    return memory;
}

static struct hwq_tensor make(struct hwq_graph *g, enum aorta_dtype dtype, int64_t rows, int64_t columns, bool pinned,
                              const char *name) {
    struct hwq_tensor t = {.dtype = dtype,
                           .size = (int64_t)aorta_dtype_size(dtype),
                           .rows = rows,
                           .columns = columns,
                           .stride = columns,
                           .width = columns,
                           .period = columns};
    struct hwq_memory memory = {.name = name, .dtype = dtype, .pinned = pinned, .bytes = hwq_bytes(t)};
    void *made = NULL;
    if (g->status) return (struct hwq_tensor){0};
    hwq_fail(g, pinned ? aorta_own_pinned(&g->hwq->owned, memory.bytes, name, &made)
                       : aorta_own_memory(&g->hwq->owned, memory.bytes, name, &made));
    memory.address = made;
    t.memory = add_memory(g, &memory);
    return t.memory ? t : (struct hwq_tensor){0};
}

struct hwq_tensor hwq_result(struct hwq_graph *g, enum aorta_dtype dtype, int64_t rows, int64_t columns,
                             const char *name) {
    const struct hwq_tensor t = make(g, dtype, rows, columns, false, name);
    if (!t.memory) return t;
    t.memory->result = true;
    if (dtype > AORTA_BF16) hwq_fail(g, aorta_fill_bytes(g->hwq->streams[0], t.memory->address, 0, t.memory->bytes));
    return t;
}

struct hwq_tensor hwq_typed_input(struct hwq_graph *g, uint64_t id, enum aorta_dtype dtype, int64_t rows,
                                  int64_t columns, float scale, const char *name) {
    const struct hwq_tensor t = make(g, dtype, rows, columns, false, name);
    if (t.memory) hwq_fail(g, aorta_hwq_fill(g->hwq, 0, id, dtype, rows * columns, scale, t.memory->address));
    return t;
}

struct hwq_tensor hwq_input(struct hwq_graph *g, uint64_t id, int64_t rows, int64_t columns, float scale,
                            const char *name) {
    return hwq_typed_input(g, id, AORTA_F32, rows, columns, scale, name);
}

struct hwq_tensor hwq_constant(struct hwq_graph *g, enum aorta_dtype dtype, int64_t count, const void *values,
                               const char *name) {
    const struct hwq_tensor t = make(g, dtype, 1, count, false, name);
    if (!t.memory) return t;
    hwq_fail(g, values ? aorta_hwq_transfer(g->hwq, t.memory->address, values, t.memory->bytes)
                       : aorta_fill_bytes(g->hwq->streams[0], t.memory->address, 0, t.memory->bytes));
    return t;
}

struct hwq_tensor hwq_pinned(struct hwq_graph *g, enum aorta_dtype dtype, int64_t count, bool result,
                             const char *name) {
    const struct hwq_tensor t = make(g, dtype, 1, count, true, name);
    if (!t.memory) return t;
    t.memory->result = result;
    memset(t.memory->address, 0, t.memory->bytes);
    return t;
}

struct hwq_tensor hwq_cut(struct hwq_tensor t, int64_t *used, int64_t rows, int64_t columns, int64_t unit) {
    const int64_t first = *used;
    *used += (rows * columns + unit - 1) / unit * unit;
    return hwq_piece(t, first, rows, columns);
}

struct hwq_tensor hwq_strided(struct hwq_tensor t, int64_t first, int64_t rows, int64_t columns, int64_t stride) {
    t.offset += first * t.size;
    t.rows = rows;
    t.columns = t.width = t.period = columns;
    t.stride = stride;
    return t;
}

struct hwq_tensor hwq_rows(struct hwq_tensor t, int64_t first, int64_t count) {
    t.offset += first * t.stride * t.size;
    t.rows = count;
    return t;
}

struct hwq_tensor hwq_columns(struct hwq_tensor t, int64_t first, int64_t count) {
    return hwq_strided(t, first, t.rows, count, t.stride);
}

struct hwq_tensor hwq_transposed(struct hwq_tensor t) {
    t.transposed = true;
    return t;
}

struct hwq_tensor hwq_comb(struct hwq_tensor t, int64_t first, int64_t width, int64_t period) {
    const int64_t teeth = t.columns / period;
    t = hwq_strided(t, first, t.rows, teeth * width, t.stride);
    t.width = width;
    t.period = period;
    return t;
}

struct hwq_tensor hwq_shaped(struct hwq_tensor t, int64_t rows, int64_t columns) {
    return hwq_piece(t, 0, rows, columns);
}

struct hwq_tensor hwq_piece(struct hwq_tensor t, int64_t first, int64_t rows, int64_t columns) {
    return t.memory ? hwq_strided(t, first, rows, columns, columns) : t;
}

struct hwq_tensor hwq_retyped(struct hwq_tensor t, int64_t offset, enum aorta_dtype dtype, int64_t count) {
    t.offset += offset;
    t.dtype = dtype;
    t.size = (int64_t)aorta_dtype_size(dtype);
    return hwq_strided(t, 0, 1, count, count);
}

void *hwq_at_device(struct hwq_tensor t) {
    return t.memory ? t.memory->address + t.offset : NULL;
}

float *hwq_floats(struct hwq_tensor t) {
    return hwq_at_device(t);
}

size_t hwq_bytes(struct hwq_tensor t) {
    return (size_t)(t.rows * t.columns) * (size_t)t.size;
}

bool hwq_same(const struct hwq_tensor *a, const struct hwq_tensor *b) {
    return a->memory == b->memory && a->offset == b->offset && a->dtype == b->dtype && a->rows == b->rows &&
           a->columns == b->columns && a->stride == b->stride && a->width == b->width && a->period == b->period;
}

struct hwq_graph *hwq_into(struct hwq_graph *g, struct hwq_tensor output) {
    g->into = output;
    return g;
}

struct hwq_tensor hwq_output(struct hwq_graph *g, int64_t rows, int64_t columns, const char *name) {
    const struct hwq_tensor into = g->into;
    g->into = (struct hwq_tensor){0};
    return into.memory ? into : hwq_result(g, AORTA_F32, rows, columns, name);
}

/* ---- appending ---- */

/* The next operation of `stream` needs this one. */
static void need(struct hwq_graph *g, int stream, const struct hwq_operation *o) {
    struct hwq_operation **latest = &g->needs[stream][o->stream];
    if (!*latest || (*latest)->number < o->number) *latest = (struct hwq_operation *)o; /* it belongs to this graph */
}

static void access_memory(struct hwq_graph *g, const struct hwq_operation *o, const struct hwq_tensor *tensor,
                          int output) {
    if (!tensor->memory) return;
    struct hwq_access *access = hwq_state(g, sizeof *access);
    if (!access) return;
    struct hwq_memory *memory = tensor->memory;
    *access = (struct hwq_access){o, tensor, output, memory->last, memory->last_write};
    for (const struct hwq_access *a = hwq_access_of(access->before, g); a; a = hwq_access_of(a->before, g))
        if (a->operation->stream != o->stream && hwq_conflict(a, access)) need(g, o->stream, a->operation);
    memory->last = access;
    if (output >= 0) memory->last_write = access;
}

/* A group of ranks runs one operation at a time. */
static void access_group(struct hwq_graph *g, struct hwq_operation *o) {
    struct hwq_memory *group = g->memories;
    while (group && group->group != o->comm) group = group->next;
    if (!group) group = add_memory(g, &(struct hwq_memory){.name = "the group of ranks", .group = o->comm});
    o->group = (struct hwq_tensor){group, AORTA_U8, 1, 0, 1, 1, 1, 1, 1, false};
    access_memory(g, o, &o->group, 0);
}

static void add_wait(struct hwq_graph *g, struct hwq_operation *o, struct hwq_operation *operation) {
    struct hwq_wait *wait = hwq_state(g, sizeof *wait);
    if (!wait) return;
    *wait = (struct hwq_wait){operation, o->waits};
    o->waits = wait;
    if (!operation->done) hwq_fail(g, aorta_own_event(&g->hwq->owned, &operation->done));
}

/* Waits for the latest operation first, as this often covers the earlier ones. */
static void order(struct hwq_graph *g, struct hwq_operation *o) {
    int64_t *known = g->known[o->stream];
    for (;;) {
        struct hwq_operation *latest = NULL;
        for (int s = 0; s < g->hwq->stream_count; s++) {
            struct hwq_operation *other = g->needs[o->stream][s];
            if (!other || other->clock[s] <= known[s]) continue;
            if (!latest || latest->number < other->number) latest = other;
        }
        if (!latest) break;
        add_wait(g, o, latest);
        for (int s = 0; s < g->hwq->stream_count; s++)
            if (latest->clock[s] > known[s]) known[s] = latest->clock[s];
    }
    memset(g->needs[o->stream], 0, sizeof g->needs[o->stream]);
}

static void add_launch(struct hwq_graph *g, struct hwq_operation *o) {
    int64_t *known = g->known[o->stream];
    aorta_arena_append(g->hwq->arena, &g->launches, &g->launch_capacity, &g->launch_count, &o, sizeof o);
    known[o->stream]++;
    memcpy(o->clock, known, sizeof o->clock);
}

struct hwq_operation *hwq_append(struct hwq_graph *g, const struct hwq_operation *operation, const void *shape,
                                 size_t bytes) {
    struct hwq_operation *o = hwq_state(g, sizeof *o);
    void *copy = bytes ? hwq_state(g, bytes) : NULL;
    if (g->status) return NULL;
    *o = *operation;
    if (bytes) o->shape = memcpy(copy, shape, bytes);
    o->graph = g;
    o->done = NULL;
    o->waits = NULL;
    o->next = NULL;
    o->number = g->last ? g->last->number + 1 : 1;
    o->region = g->region;
    for (int i = 0; i < HWQ_MOST_IN; i++) access_memory(g, o, &o->in[i], -1);
    for (int i = 0; i < HWQ_MOST_OUT; i++) access_memory(g, o, &o->out[i], i);
    if (o->comm) access_group(g, o);
    order(g, o);
    add_launch(g, o);
    *(g->last ? &g->last->next : &g->first) = o;
    g->last = g->last_on[o->stream] = o;
    return o;
}

static void end_prepared(void *prepared) {
    aorta_prepared_destroy(prepared);
}

struct hwq_operation *hwq_append_kernel(struct hwq_graph *g, const struct hwq_operation *operation,
                                        const struct aorta_kernel *kernel, const void *args, size_t bytes) {
    struct hwq_operation with = *operation;
    if (bytes > ARGUMENT_BYTES)
        hwq_fail(g, AORTA_ERROR(AORTA_INTERNAL, "kernel %s: %zu bytes of arguments, %d can be stamped", kernel->name,
                                bytes, ARGUMENT_BYTES));
    if (g->status) return NULL;
    with.kernel = kernel;
    with.bytes = bytes;
    hwq_fail(g, aorta_launch_prepare(g->hwq->streams[with.stream], kernel, args, bytes, &with.prepared));
    if (with.prepared) hwq_owns(g, end_prepared, with.prepared);
    return hwq_append(g, &with, args, bytes);
}

void hwq_after(struct hwq_graph *g, int stream, int before) {
    if (stream != before && g->last_on[before]) need(g, stream, g->last_on[before]);
}

void hwq_again(struct hwq_graph *g, struct hwq_operation *operation) {
    if (!g->status) add_launch(g, operation);
}

void hwq_region_begin(struct hwq_graph *g, int stream, const char *name) {
    struct hwq_region *region = hwq_state(g, sizeof *region);
    if (!region) return;
    *region = (struct hwq_region){.name = name, .stream = stream, .next = g->regions};
    g->region = g->regions = region;
}

void hwq_region_end(struct hwq_graph *g) {
    g->region = NULL;
}

/* ---- steps ---- */

static void add_step(struct hwq_graph *g, struct hwq_step step) {
    aorta_arena_append(g->hwq->arena, &g->steps, &g->step_capacity, &g->step_count, &step, sizeof step);
}

static void add_waits(struct hwq_graph *g, const struct hwq_operation *o) {
    for (const struct hwq_wait *wait = o->waits; wait; wait = wait->next)
        add_step(g, (struct hwq_step){.kind = HWQ_WAIT, .stream = o->stream, .event = wait->operation->done});
}

static void add_record(struct hwq_graph *g, const struct hwq_operation *o) {
    if (o->done) add_step(g, (struct hwq_step){.kind = HWQ_RECORD, .stream = o->stream, .event = o->done});
}

static void add_operation(struct hwq_graph *g, struct hwq_operation *o) {
    add_step(g, (struct hwq_step){.kind = HWQ_OPERATION, .stream = o->stream, .operation = o});
}

/* Prepared kernels in a row are one step, which launches them all. */
static void add_prepared(struct hwq_graph *g, struct hwq_operation **launch) {
    const bool joins = g->step_count && g->steps[g->step_count - 1].kind == HWQ_LAUNCHES;
    if (joins)
        g->steps[g->step_count - 1].count++;
    else
        add_step(g,
                 (struct hwq_step){.kind = HWQ_LAUNCHES, .stream = (*launch)->stream, .count = 1, .launches = launch});
}

/* A region waits as a whole, before it begins. */
static void add_region(struct hwq_graph *g, struct hwq_operation *first) {
    struct hwq_operation *end = first;
    size_t count = 0;
    for (; end && end->region == first->region; end = end->next, count++) add_waits(g, end);
    add_step(g,
             (struct hwq_step){.kind = HWQ_REGION, .stream = first->stream, .count = count, .region = first->region});
    for (struct hwq_operation *o = first; o != end; o = o->next) add_operation(g, o);
    for (struct hwq_operation *o = first; o != end; o = o->next) add_record(g, o);
}

static void lay_out(struct hwq_graph *g) {
    const struct hwq_region *region = NULL;
    int64_t number = 0;
    for (size_t i = 0; i < g->launch_count; i++) {
        struct hwq_operation *o = g->launches[i];
        if (o->region && o->region == region) continue;
        region = o->region;
        if (region) {
            add_region(g, o);
            continue;
        }
        if (o->number > number) add_waits(g, o); /* a repeated operation has its waits already */
        if (o->number > number) number = o->number;
        if (o->prepared)
            add_prepared(g, &g->launches[i]);
        else
            add_operation(g, o);
        add_record(g, o);
    }
}

/* The first pass runs uncaptured: a capture does not allow the allocations of the first use. */
static aorta_status capture(struct aorta_hwq *hwq, const struct hwq_step *region) {
    struct aorta_stream *stream = hwq->streams[region->stream];
    aorta_status inside = NULL;
    for (int pass = 0; pass < 2; pass++) {
        if (pass) AORTA_TRY(aorta_capture_begin(stream));
        for (size_t i = 1; i <= region->count && !inside; i++)
            inside = region[i].operation->kind->run(region[i].operation, stream);
        if (!pass) AORTA_TRY(aorta_status_join(inside, aorta_stream_synchronize(stream)));
    }
    aorta_status status = aorta_status_join(inside, aorta_capture_end(stream, &region->region->captured));
    return aorta_annotate(status, "%s cannot be captured", region->region->name);
}

aorta_status hwq_graph_finish(struct hwq_graph *g) {
    if (!g->status) lay_out(g);
    hwq_fail(g, aorta_arena_check(g->hwq->arena, "a workload's graph"));
    if (!g->status && g->regions) hwq_fail(g, aorta_stream_synchronize(g->hwq->streams[0])); /* inputs are ready */
    for (size_t i = 0; i < g->step_count && !g->status; i++)
        if (g->steps[i].kind == HWQ_REGION) hwq_fail(g, capture(g->hwq, &g->steps[i]));
    aorta_status status = g->status;
    g->status = NULL;
    return status;
}

aorta_status hwq_graph_create(struct aorta_hwq *hwq, const struct aorta_hwq_workload *workload,
                              struct hwq_graph **graph) {
    *graph = aorta_arena_alloc(hwq->arena, sizeof **graph);
    if (!*graph) return AORTA_ERROR(AORTA_MEMORY, "no host memory for a workload's graph");
    (*graph)->hwq = hwq;
    (*graph)->options = hwq->options;
    if (!workload) return NULL;
    (*graph)->independent = workload->independent;
    workload->build(*graph);
    return hwq_graph_finish(*graph);
}

void hwq_graph_destroy(struct hwq_graph *g) {
    for (struct hwq_region *r = g ? g->regions : NULL; r; r = r->next)
        if (r->captured) aorta_graph_destroy(r->captured);
    for (struct hwq_owned *owned = g ? g->owned : NULL; owned; owned = owned->next) owned->end(owned->object);
}

aorta_status hwq_graph_start(struct hwq_graph *g) {
    const struct aorta_hwq_workload *workload = g->hwq->workload;
    if (workload->start) AORTA_TRY(workload->start(g));
    return aorta_hwq_wait_for_streams(g->hwq);
}

/* Work of one iteration; unit "GFLOPS", "samples/s". */
static double work_of(const struct hwq_graph *g, const char *unit) {
    const double scale = unit[0] == 'T' ? 1e-12 : 1e-9; /* TFLOPS, GFLOPS */
    double flops = 0.0;
    if (g->work > 0.0) return g->work;
    for (size_t i = 0; i < g->launch_count; i++)
        if (g->launches[i]->kind->flops) flops += g->launches[i]->kind->flops(g->launches[i]);
    return flops * scale;
}

aorta_status hwq_graph_amount(struct hwq_graph *g, int64_t iterations, double *amount) {
    const struct aorta_hwq_workload *workload = g->hwq->workload;
    if (workload->work) return workload->work(g, iterations, amount);
    *amount = (double)iterations * work_of(g, workload->unit);
    return NULL;
}

aorta_status hwq_graph_check(struct hwq_graph *g, struct aorta_hwq_check *check) {
    const struct aorta_hwq_workload *workload = g->hwq->workload;
    return workload->verify ? workload->verify(g, check) : hwq_graph_verify(g, check);
}

/* ---- one iteration ---- */

/* Launches with the address of a stamp in the first member of the arguments. */
static aorta_status launch_stamped(struct aorta_hwq *hwq, const struct hwq_operation *o) {
    _Alignas(16) unsigned char stamped[ARGUMENT_BYTES];
    struct aorta_hwq_stamp *stamp;
    const struct aorta_span span = {.stream = o->stream, .kind = AORTA_SPAN_KERNEL, .name = o->kernel->name};
    AORTA_TRY(aorta_hwq_stamps_next(hwq->stamps, span, &stamp));
    memcpy(stamped, o->shape, o->bytes);
    memcpy(stamped, &stamp, sizeof stamp);
    return aorta_launch(hwq->streams[o->stream], o->kernel, stamped, o->bytes);
}

/* One call for many launches costs the host less. */
static aorta_status launch(struct aorta_hwq *hwq, struct hwq_operation *const *launches, size_t count) {
    enum { BATCH = 512 };
    hwq->queued += (int64_t)count;
    if (hwq->stamps) {
        for (size_t i = 0; i < count; i++) AORTA_TRY(launch_stamped(hwq, launches[i]));
        return NULL;
    }
    struct aorta_prepared *items[BATCH];
    for (size_t done = 0; done < count;) {
        const size_t piece = count - done < BATCH ? count - done : BATCH;
        for (size_t i = 0; i < piece; i++) items[i] = launches[done + i]->prepared;
        AORTA_TRY(aorta_launch_prepared(items, piece));
        done += piece;
    }
    return NULL;
}

static aorta_status mark(struct aorta_hwq *hwq, int stream, int64_t *slot) {
    const struct aorta_hwq_mark args = {slot};
    return aorta_launch(hwq->streams[stream], &aorta_hwq_kernel_mark, &args, sizeof args);
}

/* Runs an operation, or replays a region (a step of that kind). While iterations are stamped, kernels before and after
 * it write the time. */
static aorta_status run_marked(struct aorta_hwq *hwq, const struct hwq_step *step) {
    struct aorta_stream *stream = hwq->streams[step->stream];
    const struct hwq_operation *o = step->kind == HWQ_OPERATION ? step->operation : NULL;
    struct aorta_hwq_stamp *stamp = NULL;
    const struct aorta_span span = {.stream = step->stream,
                                    .kind = o ? o->kind->span : AORTA_SPAN_KERNEL,
                                    .marked = true,
                                    .name = o ? hwq_operation_name(o) : step->region->name};
    hwq->queued++;
    if (hwq->stamps) AORTA_TRY(aorta_hwq_stamps_next(hwq->stamps, span, &stamp));
    if (stamp) AORTA_TRY(mark(hwq, step->stream, &stamp->start));
    AORTA_TRY(o ? o->kind->run(o, stream) : aorta_graph_launch(step->region->captured, stream));
    return stamp ? mark(hwq, step->stream, &stamp->end) : NULL;
}

aorta_status hwq_graph_iterate(struct hwq_graph *g) {
    struct aorta_hwq *hwq = g->hwq;
    for (size_t i = 0; i < g->step_count; i++) {
        const struct hwq_step *step = &g->steps[i];
        if (step->kind == HWQ_LAUNCHES) {
            if (g->without & 1u << AORTA_SPAN_KERNEL) continue;
            AORTA_TRY(launch(hwq, step->launches, step->count));
        } else if (step->kind == HWQ_OPERATION) {
            if (g->without & 1u << step->operation->kind->span) continue;
            AORTA_TRY(run_marked(hwq, step));
        } else if (step->kind == HWQ_RECORD) {
            AORTA_TRY(aorta_event_record(step->event, hwq->streams[step->stream]));
        } else if (step->kind == HWQ_WAIT) {
            AORTA_TRY(aorta_stream_wait(hwq->streams[step->stream], step->event));
        } else if (step->kind == HWQ_REGION && !aorta_stream_capturing(hwq->streams[step->stream])) {
            AORTA_TRY(run_marked(hwq, step));
            i += step->count;
        }
    }
    return NULL;
}
