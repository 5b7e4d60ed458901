/* Derived from launches and copies: captured graphs, missing records, collectives by copy engines or on the host,
 * device clocks that are ahead. */
#include "base/sort.h"
#include "trace/builder_internal.h"

#include <stdio.h>
#include <stdlib.h>

/* Missing and impossible records: launches without work, and work whose recorded end is after the end of later work of
 * its stream. */

/* ---- launches without work ---- */

static bool launches(const struct aorta_trace_call *call) {
    return call->correlation && (call->kind == AORTA_CALL_LAUNCH || call->kind == AORTA_CALL_GRAPH_LAUNCH);
}

/* A launch within another launch is the same launch in a lower interface and is not counted. If the recording stopped
 * before the GPU had finished, the last launches have no work:
 *
 *   host   |launch|launch|launch|launch|launch|launch|
 *   GPU       |kernel|kernel|kernel|  (not written)
 *
 * If much of the recording comes before them, that part counts as complete. */
static void count_unanswered(struct aorta_trace_builder *builder, const uint8_t *answers, struct aorta_arena *memory) {
    static const double MUCH = 0.25;
    struct aorta_trace_coverage *coverage = &builder->trace->coverage;
    const struct aorta_trace_call *calls = builder->calls.items;
    int64_t *until_ns = aorta_trace_times_new(builder->threads.count, INT64_MIN, memory); /* of its last launch */
    size_t last = 0; /* launches after the last one with work */
    for (size_t i = 0; until_ns && i < builder->calls.count; i++) {
        if (!launches(&calls[i]) || answers[i] == TRACE_CAPTURED || calls[i].end_ns <= until_ns[calls[i].thread])
            continue;
        until_ns[calls[i].thread] = calls[i].end_ns;
        coverage->launches++;
        last = answers[i] == TRACE_ANSWERED ? 0 : last + 1;
        coverage->unanswered += answers[i] != TRACE_ANSWERED;
    }
    const double answered = (double)(coverage->launches - coverage->unanswered);
    const bool stopped = last && last == coverage->unanswered && answered >= MUCH * (double)coverage->launches;
    for (size_t i = 0; i < coverage->unanswered; i++)
        aorta_trace_builder_warn(builder, stopped ? AORTA_REASON_STOPPED : AORTA_REASON_NO_WORK, -1);
    if (!stopped) return;
    coverage->launches -= last;
    coverage->unanswered = 0;
}

/* "12 of 12 launches failed (cudaErrorInvalidConfiguration): their kernels did not run". */
static void name_failed(struct aorta_trace_builder *builder) {
    struct aorta_trace_warning *warning = &builder->trace->warnings[AORTA_REASON_FAILED_LAUNCH];
    const struct aorta_trace_coverage *coverage = &builder->trace->coverage;
    char text[128];
    if (!coverage->failed) return;
    const int length = snprintf(text, sizeof text, "%zu of %zu launches failed (%s): %s", coverage->failed,
                                coverage->failed + coverage->launches, aorta_cuda_error(coverage->error).text,
                                coverage->failed > 1 ? "their kernels did not run" : "its kernel did not run");
    warning->words = aorta_trace_text(builder->trace, aorta_trace_builder_text(builder, text, (size_t)length));
}

/* ---- work that cannot have taken so long ---- */

/* The work of a stream with the latest end so far, and the start of the next work after it. */
struct open_work {
    struct trace_pending *row; /* NULL: none */
    int64_t next_ns;           /* INT64_MAX: nothing has begun since */
    size_t ended;              /* later work that ended before it */
};

static void name_first(struct aorta_trace_builder *builder, const struct aorta_trace_work *work) {
    struct aorta_trace_warning *warning = &builder->trace->warnings[AORTA_REASON_IMPOSSIBLE_LENGTH];
    char name[128], text[192];
    if (warning->about) return;
    aorta_kernel_short_name(aorta_trace_text(builder->trace, work->name), name, sizeof name);
    const int length = snprintf(text, sizeof text, "%s, %.4g ms", name, (double)(work->end_ns - work->start_ns) / 1e6);
    const uint32_t number = aorta_trace_builder_text(builder, text, (size_t)length);
    if (number != AORTA_TRACE_NONE) warning->about = aorta_trace_text(builder->trace, number);
}

static void cut(struct aorta_trace_builder *builder, const struct open_work *open) {
    name_first(builder, &open->row->work);
    open->row->work.end_ns = open->next_ns;
    aorta_trace_builder_warn(builder, AORTA_REASON_IMPOSSIBLE_LENGTH, open->row->offset);
}

/* A stream runs its work in order: a kernel may begin early, but never ends before the previous one. Exceptions are
 * nodes of graphs and streams that use several queues. */
static bool ended_before(const struct trace_pending *later, const struct trace_pending *open) {
    return later->work.end_ns < open->work.end_ns && !open->work.graph && !later->work.graph &&
           open->work.queue == later->work.queue;
}

/* AMD's hardware queues can run two kernels at the same time. So this takes three later kernels that ended, or one that
 * ended in the first tenth. */
static bool is_impossible(const struct open_work *open, const struct trace_pending *later) {
    enum { MANY = 3, TIMES = 10 };
    const int64_t start_ns = open->row->work.start_ns, length_ns = open->row->work.end_ns - start_ns;
    return open->ended >= MANY || (later->work.end_ns - start_ns) < length_ns / TIMES;
}

void aorta_trace_cut_impossible(struct aorta_trace_builder *builder) {
    struct trace_pending *rows = builder->pending.items;
    struct aorta_arena scratch = {0};
    struct open_work *open = aorta_arena_alloc(&scratch, builder->streams.count * sizeof *open);
    const bool of_streams = builder->trace->format != AORTA_TRACE_METRICS; /* ranges of a role are not */
    for (size_t i = 0; open && of_streams && i < builder->pending.count; i++) {
        const struct aorta_trace_work *work = &rows[i].work;
        struct open_work *of = &open[work->stream];
        const bool numbered = builder->streams.items[work->stream][2] >= 0;
        if (of->row && numbered && work->start_ns < of->row->work.end_ns) {
            if (of->next_ns > work->start_ns) of->next_ns = work->start_ns;
            of->ended += ended_before(&rows[i], of->row);
            if (of->ended && is_impossible(of, &rows[i]))
                cut(builder, of);
            else if (work->end_ns < of->row->work.end_ns)
                continue;
        }
        *of = (struct open_work){&rows[i], INT64_MAX, 0};
    }
    aorta_arena_end(&scratch, &builder->memory);
}

/* Captured graphs: launches between begin and end of a capture run nothing. They are linked to operations, shapes and
 * collectives as work is, so that launches of the graph can use these links (captures.h). */

static AORTA_ORDER(mark_order, struct trace_capture_mark, AORTA_UP(thread) AORTA_UP(start_ns));

/* By call: whether its launch has work. */
static uint8_t *find_ran(const struct aorta_trace_builder *builder, struct aorta_arena *memory) {
    const struct trace_pending *pending = builder->pending.items;
    uint8_t *ran = aorta_arena_alloc(memory, builder->calls.count * sizeof *ran);
    for (size_t i = 0; ran && i < builder->pending.count; i++)
        if (pending[i].work.call != AORTA_TRACE_NONE) ran[pending[i].work.call] = TRACE_ANSWERED;
    return ran;
}

static void add_captured(struct aorta_trace_builder *builder, uint32_t number, enum aorta_trace_kind kind) {
    const struct aorta_trace_call *call = (const struct aorta_trace_call *)builder->calls.items + number;
    const struct trace_launch key = {.correlation = call->correlation};
    const struct trace_rows *launches = &builder->launches;
    const struct trace_launch *launch =
        launches->count ? bsearch(&key, launches->items, launches->count, sizeof key, aorta_by_uint64) : NULL;
    struct trace_pending row = {.operation = launch ? launch->operation : -1,
                                .offset = -1,
                                .work = {.start_ns = call->start_ns,
                                         .end_ns = call->start_ns,
                                         .bytes = -1,
                                         .correlation = call->correlation,
                                         .name = launch ? launch->kernel : AORTA_TRACE_NONE,
                                         .call = number,
                                         .device = -1,
                                         .kind = (uint8_t)kind,
                                         .graph = true}};
    row.work.stream = row.work.queue = row.work.collective = AORTA_TRACE_NONE;
    row.work.shape = row.work.operation = row.work.geometry = AORTA_TRACE_NONE;
    aorta_trace_rows_put(builder, &builder->captured, &row, sizeof row);
}

/* The content of a nested graph is unknown, so a graph with a nested one is dropped. */
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
    const struct aorta_captured_graph graph = {begin->start_ns, end->end_ns, (uint32_t)first,
                                               (uint32_t)(builder->captured.count - first)};
    if (graph.count) aorta_trace_rows_put(builder, &builder->graphs, &graph, sizeof graph);
}

void aorta_trace_find_captures(struct aorta_trace_builder *builder) {
    const struct trace_rows *marks = &builder->capture_marks;
    struct aorta_arena scratch = {0};
    uint8_t *ran = find_ran(builder, &scratch);
    aorta_trace_rows_sort(&builder->capture_marks, sizeof(struct trace_capture_mark), mark_order);
    aorta_trace_rows_sort(&builder->launches, sizeof(struct trace_launch), aorta_by_uint64);
    const struct trace_capture_mark *mark = marks->items, *open = NULL;
    for (size_t i = 0; ran && i < marks->count; i++, mark++) {
        if (open && open->thread == mark->thread && !mark->begins) add_graph(builder, open, mark, ran);
        open = mark->begins ? mark : NULL;
    }
    if (ran && !builder->trace->no_launches) count_unanswered(builder, ran, &scratch);
    name_failed(builder);
    aorta_arena_end(&scratch, &builder->memory);
}

/* Collectives that copy engines carry out: NCCL without CTAs, symmetric memory, XLA. The trace has only copies between
 * devices that were launched for a collective. The copies of one collective on a stream become one kernel of it. Copies
 * within the device also count if the collective has no kernel. */

/* The request, range of the backend or operation for which a copy may have been launched. */
struct purpose {
    uint32_t collective; /* row of collectives; NONE: not made yet */
    bool kernels;        /* the collective also has kernels */
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

/* The innermost symmetric-memory operation around the work whose name is that of a collective. Operations of c10d do
 * not count: they have requests, and their copies only move inputs. */
static uint32_t operation_for(const struct copying *copying, uint32_t row, enum aorta_collective *kind) {
    const struct aorta_trace *trace = copying->builder->trace;
    for (; row != AORTA_TRACE_NONE; row = trace->operations[row].parent) {
        const char *name = aorta_trace_text(trace, trace->operations[row].name);
        if (aorta_begins(name, "symm_mem::") && aorta_collective_in(name, kind)) return row;
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

/* The collective that a copy belongs to; NONE if it is a plain copy. */
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
    return purpose->collective = aorta_trace_add_facts(builder, &facts);
}

/* True if the copy was merged into the work before it on its stream. */
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
    for (size_t i = 0; i < pending->count && !copying->builder->memory.failed; i++) {
        rows[count] = rows[i];
        if (rows[count].work.kind == AORTA_TRACE_COPY && take_copy(copying, rows, count)) continue;
        copying->last[rows[count].work.stream] = count + 1;
        count++;
    }
    if (!copying->builder->memory.failed) pending->count = count;
}

static struct purpose *make_purposes(size_t count, struct aorta_arena *memory) {
    struct purpose *purposes = aorta_arena_raw(memory, count * sizeof *purposes);
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
    struct aorta_arena scratch = {0};
    if (!has_copies(builder)) return;
    struct copying copying = {.builder = builder,
                              .around = around,
                              .requests = make_purposes(builder->requests.count, &scratch),
                              .backend = make_purposes(around->backend_count, &scratch),
                              .operations = make_purposes(builder->trace->operation_count, &scratch),
                              .last = aorta_arena_alloc(&scratch, builder->streams.count * sizeof *copying.last)};
    if (!scratch.failed) {
        mark_kernels(&copying);
        take_copies(&copying);
    }
    aorta_arena_end(&scratch, &builder->memory);
}

/* Collectives on the host (gloo): the program copies to the host, threads of the library sum there and copy back. In
 * the trace these threads launch nothing but copies; PyTorch's profiler also has ranges "gloo:…". Each collective
 * becomes a call of its thread, from the start of its range or the end of the thread's previous call to the copy back.
 * The wait of a thread that launches work for them becomes a call, too. */

enum { SMALLEST_BYTES = 4096, FEWEST_COPIES = 3 }; /* copies by which a thread is recognized */

enum {
    LONG_NS = 1000000,
    SOON_NS = 2000000
};                                 /* the shortest wait; the longest time from a collective's end to the
                                    * wait's end */
static const double COVERED = 0.8; /* of a wait, by collectives */

static const char plain_name[] = "collective on the host";

/* A copy, and the call that launched it. */
struct copy {
    uint64_t correlation;
    int64_t bytes, start_ns, launched_ns;
    uint32_t thread; /* NONE: its call is not in the file */
    bool to_host, from_host;
};

struct copies {
    struct copy *items;
    size_t count;
};

/* ---- threads ---- */

/* Per thread of the host. */
struct thread {
    bool launches_work;   /* kernels, graphs, fills */
    size_t back, matched; /* copies to the device; those with the size of an earlier copy to the host */
};

static AORTA_ORDER(by_launch, struct copy, AORTA_UP(launched_ns));

static void collect(const struct aorta_trace_builder *builder, struct copies *copies, struct aorta_arena *memory) {
    const struct trace_pending *rows = builder->pending.items;
    bool to_host = false, from_host = false;
    copies->items = aorta_arena_raw(memory, builder->pending.count * sizeof *copies->items);
    for (size_t i = 0; copies->items && i < builder->pending.count; i++) {
        const struct aorta_trace_work *work = &rows[i].work;
        if (work->kind != AORTA_TRACE_COPY || work->bytes < SMALLEST_BYTES || !work->correlation) continue;
        const enum aorta_copied how = aorta_copied_how(aorta_trace_text(builder->trace, work->name));
        struct copy copy = {.correlation = work->correlation,
                            .bytes = work->bytes,
                            .start_ns = work->start_ns,
                            .thread = AORTA_TRACE_NONE,
                            .to_host = how == AORTA_COPIED_TO_HOST,
                            .from_host = how == AORTA_COPIED_TO_DEVICE};
        if (copy.to_host == copy.from_host) continue;
        to_host |= copy.to_host;
        from_host |= copy.from_host;
        copies->items[copies->count++] = copy;
    }
    if (!to_host || !from_host) copies->count = 0;
}

/* The threads of the copies' calls, and which threads launch other work. */
static void find_threads(const struct aorta_trace_builder *builder, struct copies *copies, struct thread *threads) {
    const struct aorta_trace_call *calls = builder->calls.items;
    qsort(copies->items, copies->count, sizeof *copies->items, aorta_by_uint64);
    AORTA_EACH (const struct aorta_trace_call, call, calls, builder->calls.count) {
        if (call->kind == AORTA_CALL_LAUNCH || call->kind == AORTA_CALL_GRAPH_LAUNCH || call->kind == AORTA_CALL_FILL)
            threads[call->thread].launches_work = true;
        if (call->kind != AORTA_CALL_COPY) continue;
        const struct copy key = {.correlation = call->correlation};
        struct copy *copy = bsearch(&key, copies->items, copies->count, sizeof key, aorta_by_uint64);
        if (!copy) continue;
        copy->thread = call->thread;
        copy->launched_ns = call->start_ns;
    }
    qsort(copies->items, copies->count, sizeof *copies->items, by_launch);
}

/* Whether bytes of this size were copied to the host before. An input batch was not. */
static bool came_to_host(const struct copies *copies, size_t before, int64_t bytes) {
    enum { LOOK_BACK = 64 };
    for (size_t i = before; i-- > 0 && i + LOOK_BACK >= before;)
        if (copies->items[i].to_host && copies->items[i].bytes == bytes) return true;
    return false;
}

static void match(const struct copies *copies, struct thread *threads) {
    for (size_t i = 0; i < copies->count; i++) {
        const struct copy *copy = &copies->items[i];
        if (copy->thread == AORTA_TRACE_NONE || !copy->from_host) continue;
        threads[copy->thread].back++;
        threads[copy->thread].matched += came_to_host(copies, i, copy->bytes);
    }
}

static bool communicates(const struct thread *thread) {
    return !thread->launches_work && thread->back >= FEWEST_COPIES && 4 * thread->matched >= 3 * thread->back;
}

/* ---- calls ---- */

static void add_call(struct aorta_trace_builder *builder, int64_t start_ns, int64_t end_ns, uint32_t name,
                     uint32_t thread) {
    const struct aorta_trace_call call = {start_ns, end_ns, 0, name, thread, AORTA_CALL_COLLECTIVE};
    aorta_trace_rows_put(builder, &builder->calls, &call, sizeof call);
}

/* The range around a time of the thread; NULL: none. */
static const struct aorta_trace_annotation *range_around(const struct aorta_trace_builder *builder, uint32_t thread,
                                                         int64_t time_ns) {
    const struct aorta_trace_annotation *ranges = builder->annotations.items, *found = NULL;
    for (size_t i = 0; i < builder->annotations.count; i++)
        if (ranges[i].thread == thread && ranges[i].start_ns <= time_ns && time_ns <= ranges[i].end_ns &&
            aorta_trace_is_gloo_range(aorta_trace_text(builder->trace, ranges[i].name)))
            found = &ranges[i];
    return found;
}

/* From the end of the thread's previous call, which waited for the copy to the host, to the copy back. */
static void add_between_calls(struct aorta_trace_builder *builder, const struct thread *threads, uint32_t plain,
                              struct aorta_arena *memory) {
    const size_t count = builder->calls.count;
    int64_t *since_ns = aorta_trace_times_new(builder->threads.count, INT64_MIN, memory);
    for (size_t i = 0; since_ns && i < count && !builder->memory.failed; i++) {
        const struct aorta_trace_call call = ((const struct aorta_trace_call *)builder->calls.items)[i];
        if (!aorta_trace_call_is_known(&call)) continue;
        int64_t start_ns = since_ns[call.thread];
        since_ns[call.thread] = call.end_ns;
        if (!communicates(&threads[call.thread]) || call.kind != AORTA_CALL_COPY) continue;
        const struct aorta_trace_annotation *range = range_around(builder, call.thread, call.start_ns);
        if (range && range->start_ns > start_ns) start_ns = range->start_ns;
        if (start_ns == INT64_MIN || start_ns >= call.start_ns) continue;
        add_call(builder, start_ns, call.start_ns, range ? range->name : plain, call.thread);
    }
}

/* The end of the collective that the thread waited for from `from_ns` to `to_ns`; INT64_MIN if it waited for none. */
static int64_t awaited_end(const struct aorta_intervals *ran, int64_t from_ns, int64_t to_ns) {
    int64_t end_ns = INT64_MIN;
    for (size_t i = aorta_intervals_first_after(ran, from_ns); i < ran->count && ran->items[i].start_ns < to_ns; i++)
        end_ns = ran->items[i].end_ns;
    if (end_ns > to_ns) end_ns = to_ns;
    if (end_ns < to_ns - SOON_NS || end_ns <= from_ns) return INT64_MIN;
    const double covered = (double)aorta_intervals_within(ran, from_ns, end_ns);
    return covered >= COVERED * (double)(end_ns - from_ns) ? end_ns : INT64_MIN;
}

/* Waits of threads that launch work are long gaps between two of their calls. */
static void add_waits(struct aorta_trace_builder *builder, const struct thread *threads, size_t count, uint32_t name,
                      struct aorta_arena *memory) {
    struct aorta_intervals ran = {0};
    int64_t *since_ns = aorta_trace_times_new(builder->threads.count, INT64_MAX, memory);
    for (size_t i = count; i < builder->calls.count; i++) {
        const struct aorta_trace_call *call = (const struct aorta_trace_call *)builder->calls.items + i;
        aorta_intervals_add(&ran, call->start_ns, call->end_ns);
    }
    aorta_intervals_normalise(&ran);
    for (size_t i = 0; since_ns && i < count && !builder->memory.failed; i++) {
        const struct aorta_trace_call call = ((const struct aorta_trace_call *)builder->calls.items)[i];
        if (!aorta_trace_call_is_known(&call)) continue;
        const int64_t from_ns = since_ns[call.thread];
        since_ns[call.thread] = call.end_ns;
        if (!threads[call.thread].launches_work || call.start_ns < from_ns || call.start_ns - from_ns < LONG_NS)
            continue;
        const int64_t end_ns = awaited_end(&ran, from_ns, call.start_ns);
        if (end_ns != INT64_MIN) add_call(builder, from_ns, end_ns, name, call.thread);
    }
    aorta_intervals_end(&ran, memory);
}

void aorta_trace_add_host_collectives(struct aorta_trace_builder *builder) {
    struct aorta_arena scratch = {0};
    struct copies copies = {0};
    struct thread *threads = aorta_arena_alloc(&scratch, builder->threads.count * sizeof *threads);
    bool any = false;
    collect(builder, &copies, &scratch);
    if (!scratch.failed && copies.count) {
        find_threads(builder, &copies, threads);
        match(&copies, threads);
        for (size_t i = 0; i < builder->threads.count; i++) any |= communicates(&threads[i]);
    }
    if (any) {
        const uint32_t plain = aorta_trace_builder_text(builder, plain_name, sizeof plain_name - 1);
        aorta_trace_rows_sort(&builder->calls, sizeof(struct aorta_trace_call), aorta_by_int64);
        const size_t count = builder->calls.count;
        add_between_calls(builder, threads, plain, &scratch);
        add_waits(builder, threads, count, plain, &scratch);
    }
    aorta_arena_end(&scratch, &builder->memory);
}

/* ---- clocks ----
 *
 * Device clocks that are ahead of the host's. Work cannot start before its launch. If a record does, its device's clock
 * is ahead by at least that much, the lead. Profilers convert device times to the host's clock with an error of
 * microseconds, sometimes far more.
 *
 * All times of the device move by the largest lead. Where the clock is less ahead, as clocks drift, work then seems to
 * start later than it did, but never before its launch. A launch of a graph counts once, by its first work. */

/* As records can be damaged, a lead counts only if enough calls have at least half of it: a few if a conversion can
 * explain it, most calls of the device if it is larger (unrelated clocks). Times in whole microseconds can lead by
 * one. */
enum { ROUNDING_NS = 1000, CONVERSION_NS = 1000000, FEWEST_CALLS = 3 };

struct lead {
    int64_t ns; /* below 0: the work started after its launch */
    int32_t device;
};

static AORTA_ORDER(by_device, struct lead, AORTA_UP(device) AORTA_DOWN(ns));

/* One for each call that launched work. The work is in order of time. */
static struct lead *find_leads(const struct aorta_trace_builder *builder, size_t *count, struct aorta_arena *memory) {
    const struct trace_pending *rows = builder->pending.items;
    const struct aorta_trace_call *calls = builder->calls.items;
    bool *seen = aorta_arena_alloc(memory, builder->calls.count * sizeof *seen);
    struct lead *leads = aorta_arena_raw(memory, builder->calls.count * sizeof *leads);
    *count = 0;
    for (size_t i = 0; !memory->failed && i < builder->pending.count; i++) {
        const struct aorta_trace_work *work = &rows[i].work;
        if (work->call == AORTA_TRACE_NONE || seen[work->call]) continue;
        seen[work->call] = true;
        leads[(*count)++] = (struct lead){calls[work->call].start_ns - work->start_ns, work->device};
    }
    if (*count) aorta_sort_rows(leads, *count, sizeof *leads, by_device);
    return leads;
}

/* The largest lead of one device that counts; 0 if none. The leads are sorted, largest first. */
static int64_t largest_lead(const struct lead *leads, size_t count) {
    for (size_t i = 0, half = 0; i < count && leads[i].ns > ROUNDING_NS; i++) {
        while (half < count && leads[half].ns >= leads[i].ns / 2) half++;
        const size_t most = count / 2 + 1;
        const size_t needed = leads[i].ns <= CONVERSION_NS || most < FEWEST_CALLS ? FEWEST_CALLS : most;
        if (half >= needed) return leads[i].ns;
    }
    return 0;
}

/* Whether all times of the device remain times when they are moved. */
static bool can_move(const struct aorta_trace_builder *builder, struct aorta_device_clock clock) {
    const struct trace_pending *rows = builder->pending.items;
    for (size_t i = 0; i < builder->pending.count; i++)
        if (rows[i].work.device == clock.device && rows[i].work.end_ns > INT64_MAX / 2 - clock.ahead_ns) return false;
    return true;
}

/* A step's times on all devices move by the smallest shift of any device. */
static void move_steps(struct aorta_trace_builder *builder, int64_t least_ns) {
    struct aorta_trace_step *steps = builder->steps.items;
    for (size_t i = 0; i < builder->steps.count; i++) {
        const int64_t ns = steps[i].of_device ? aorta_trace_device_ahead(builder->trace, steps[i].device) : least_ns;
        if (steps[i].device_start_ns == INT64_MIN || steps[i].device_end_ns > INT64_MAX / 2 - ns) continue;
        steps[i].device_start_ns += ns;
        steps[i].device_end_ns += ns;
    }
}

static void move_work(struct aorta_trace_builder *builder) {
    struct trace_pending *rows = builder->pending.items;
    int64_t least_ns = INT64_MAX;
    for (size_t i = 0; i < builder->pending.count; i++) {
        const int64_t ahead_ns = aorta_trace_device_ahead(builder->trace, rows[i].work.device);
        rows[i].work.start_ns += ahead_ns;
        rows[i].work.end_ns += ahead_ns;
        if (ahead_ns < least_ns) least_ns = ahead_ns;
    }
    move_steps(builder, least_ns);
}

void aorta_trace_set_clocks(struct aorta_trace_builder *builder) {
    struct aorta_arena scratch = {0};
    struct aorta_trace *trace = builder->trace;
    size_t count, same, capacity = 0;
    /* Not if launches are unreliable: invented by a writer, of our own captured steps, or with correlations that calls
     * share. */
    if (trace->own || trace->format == AORTA_TRACE_METRICS || trace->repeated) return;
    const struct lead *leads = find_leads(builder, &count, &scratch);
    for (size_t i = 0; !scratch.failed && i < count; i += same) {
        for (same = 1; i + same < count && leads[i + same].device == leads[i].device;) same++;
        const struct aorta_device_clock clock = {leads[i].device, largest_lead(leads + i, same)};
        if (clock.ahead_ns && can_move(builder, clock))
            scratch.failed |= !aorta_array_append(&trace->clocks, &capacity, &trace->clock_count, &clock, sizeof clock);
    }
    aorta_arena_end(&scratch, &builder->memory);
    if (!trace->clock_count || builder->memory.failed) return;
    move_work(builder);
    aorta_trace_sort_work(builder);
}
