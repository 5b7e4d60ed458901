/* Collectives on the host (gloo): the program copies to the host, threads of the library sum there and copy back. What
 * shows of them are those threads, which launch nothing but copies; PyTorch's profiler also has ranges "gloo:…". Each
 * becomes a call of its thread, from the thread's call before it to its copy back, or as long as its range; and so does
 * the time that a thread which launches work waits for them. */
#include "base/array.h"
#include "base/interval.h"
#include "base/sort.h"
#include "trace/builder_internal.h"
#include "trace/trace.h"

#include <stdlib.h>
#include <string.h>

enum { SMALLEST_BYTES = 4096, FEWEST_COPIES = 3 }; /* copies of a thread, to be sure what it is for */

enum { LONG_NS = 1000000, SOON_NS = 2000000 }; /* a wait, and how soon after the collective's end it ends */
static const double COVERED = 0.8;             /* of a wait, by collectives */

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
    size_t back, matched; /* copies to the device, and of them those of as many bytes as came to the host before */
};

static int by_launch(const void *left, const void *right) {
    const struct copy *a = left, *b = right;
    return (a->launched_ns > b->launched_ns) - (a->launched_ns < b->launched_ns);
}

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
    for (size_t i = 0; i < builder->calls.count; i++) {
        const struct aorta_trace_call *call = &calls[i];
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

/* Sizes that came to the host: a batch that goes to the device never did. */
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

static bool is_collective_range(const struct aorta_trace_builder *builder, const struct aorta_trace_annotation *range) {
    return aorta_trace_is_gloo_range(aorta_trace_text(builder->trace, range->name));
}

/* The range around a time of the thread; NULL: none. */
static const struct aorta_trace_annotation *range_around(const struct aorta_trace_builder *builder, uint32_t thread,
                                                         int64_t time_ns) {
    const struct aorta_trace_annotation *ranges = builder->annotations.items, *found = NULL;
    for (size_t i = 0; i < builder->annotations.count; i++)
        if (ranges[i].thread == thread && ranges[i].start_ns <= time_ns && time_ns <= ranges[i].end_ns &&
            is_collective_range(builder, &ranges[i]))
            found = &ranges[i];
    return found;
}

/* From the thread's call before, which waited for the copy to the host, to the copy back. */
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

/* When the collective that the thread waited for from `from_ns` to `to_ns` ended; INT64_MIN: it did not wait for one.
 */
static int64_t awaited_end(const struct aorta_intervals *ran, int64_t from_ns, int64_t to_ns) {
    int64_t end_ns = INT64_MIN;
    for (size_t i = aorta_intervals_first_after(ran, from_ns); i < ran->count && ran->items[i].start_ns < to_ns; i++)
        end_ns = ran->items[i].end_ns;
    if (end_ns > to_ns) end_ns = to_ns;
    if (end_ns < to_ns - SOON_NS || end_ns <= from_ns) return INT64_MIN;
    const double covered = (double)aorta_intervals_within(ran, from_ns, end_ns);
    return covered >= COVERED * (double)(end_ns - from_ns) ? end_ns : INT64_MIN;
}

/* Threads that launch work, between two calls. */
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

/* Files of programs without a device, or recorded without it: the time that each operation of the host took itself,
 * without those within it, is a piece of work, and a thread is its stream. Time between operations is nobody's. */

struct sweep {
    struct aorta_trace_builder *builder;
    struct open {       /* operations around each other, the innermost last */
        int64_t end_ns; /* not beyond that of the one around it */
        uint32_t row;
    } * open;
    size_t depth, capacity;
    int64_t at_ns; /* until here all is given away */
};

static void add_until(struct sweep *sweep, int64_t until_ns) {
    const uint32_t row = sweep->open[sweep->depth - 1].row;
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
    while (sweep->depth && sweep->open[sweep->depth - 1].end_ns <= until_ns) {
        add_until(sweep, sweep->open[sweep->depth - 1].end_ns);
        sweep->depth--;
    }
}

static void open_one(struct sweep *sweep, uint32_t row) {
    const struct aorta_trace_operation *operation = &sweep->builder->trace->operations[row];
    if (sweep->depth && operation->start_ns > sweep->at_ns) add_until(sweep, operation->start_ns);
    if (operation->start_ns > sweep->at_ns || !sweep->depth) sweep->at_ns = operation->start_ns;
    const int64_t around_ns = sweep->depth ? sweep->open[sweep->depth - 1].end_ns : INT64_MAX;
    const struct open open = {operation->end_ns < around_ns ? operation->end_ns : around_ns, row};
    sweep->builder->memory.failed |=
        !aorta_array_append(&sweep->open, &sweep->capacity, &sweep->depth, &open, sizeof open);
}

void aorta_trace_add_host_work(struct aorta_trace_builder *builder) {
    const struct aorta_trace *trace = builder->trace;
    struct sweep sweep = {.builder = builder};
    if (builder->pending.count || builder->captured.count || builder->memory.failed) return;
    for (size_t i = 0; i < trace->operation_count && !builder->memory.failed; i++) {
        const bool same = i > 0 && trace->operations[i - 1].thread == trace->operations[i].thread;
        close_until(&sweep, same ? trace->operations[i].start_ns : INT64_MAX);
        open_one(&sweep, (uint32_t)i);
    }
    close_until(&sweep, INT64_MAX);
    builder->trace->host_only = builder->pending.count > 0;
    free(sweep.open);
}
