/* Tables of one rank: kernels by name, matrix products by shape, calls that wait, streams and queues. */
#include "analysis/analysis_internal.h"
#include "analysis/steps.h"
#include "base/sort.h"
#include "base/statistics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct aorta_trace_times aorta_trace_times_of(int64_t *durations, size_t count) {
    struct aorta_trace_times times = {.count = count, .mean_ns = NAN, .p50_ns = NAN, .p95_ns = NAN};
    if (!count) return times;
    aorta_sort_int64(durations, count);
    for (size_t i = 0; i < count; i++) times.total_ns += durations[i];
    times.min_ns = durations[0];
    times.max_ns = durations[count - 1];
    times.mean_ns = (double)times.total_ns / (double)count;
    times.p50_ns = aorta_percentile_int64(durations, count, 50);
    times.p95_ns = aorta_percentile_int64(durations, count, 95);
    return times;
}

/* ---- by name ---- */

static AORTA_ORDER(larger_kernel_first, struct aorta_trace_kernel_row,
                   AORTA_DOWN(step_ns) AORTA_DOWN(times.total_ns) AORTA_UP(name));

/* Whether the row is a later part of work that a window's end cut, so that both parts are one run.
 */
static bool continues(const struct aorta_trace_rank *rank, size_t row) {
    const struct aorta_trace_work *work = &rank->work[row];
    if (!rank->source || rank->trace->work[rank->source[row]].start_ns >= work->start_ns) return false;
    const size_t ended = aorta_count_until(rank->windows, rank->window_count, sizeof *rank->windows,
                                           offsetof(struct aorta_trace_window, end_ns), work->start_ns);
    return ended && rank->windows[ended - 1].end_ns == work->start_ns;
}

/* The times of each row of kernels, of marked work. `row_of`: by name. NULL if memory is exhausted. */
static struct aorta_trace_times *times_of_rows(const struct aorta_trace_rank *rank, const uint32_t *row_of,
                                               const bool *marked, struct aorta_arena *memory) {
    struct aorta_trace_times *times = aorta_arena_raw(memory, rank->kernel_count * sizeof *times);
    int64_t *durations = aorta_arena_raw(memory, rank->work_count * sizeof *durations);
    size_t *ends = aorta_arena_alloc(memory, (rank->kernel_count + 1) * sizeof *ends); /* first the beginnings of the
                                                                                        * rows */
    if (memory->failed) return NULL;
    for (size_t i = 0; i < rank->work_count; i++) ends[row_of[rank->work[i].name] + 1] += marked[i];
    for (size_t i = 0; i < rank->kernel_count; i++) ends[i + 1] += ends[i];
    for (size_t i = 0; i < rank->work_count; i++)
        if (marked[i]) durations[ends[row_of[rank->work[i].name]]++] = rank->work[i].end_ns - rank->work[i].start_ns;
    for (size_t i = 0; i < rank->kernel_count; i++) {
        const size_t begin = i ? ends[i - 1] : 0;
        times[i] = aorta_trace_times_of(durations + begin, ends[i] - begin);
    }
    return times;
}

/* Adds a row for each name of work. All of row_of[] is 0 before. */
static void add_rows(struct aorta_trace_rank *rank, uint32_t *row_of) {
    const size_t names = aorta_trace_text_count(rank->trace);
    size_t used = 0;
    for (size_t i = 0; i < rank->work_count; i++) row_of[rank->work[i].name] = 1;
    for (size_t i = 0; i < names; i++) used += row_of[i];
    rank->kernels = aorta_arena_alloc(&rank->memory, used * sizeof *rank->kernels);
    for (size_t i = 0; rank->kernels && i < names; i++) {
        if (!row_of[i]) continue;
        row_of[i] = (uint32_t)rank->kernel_count;
        rank->kernels[rank->kernel_count++].name = (uint32_t)i;
    }
}

static void add_times(struct aorta_trace_rank *rank, const uint32_t *row_of, struct aorta_arena *memory) {
    int64_t all_ns = 0;
    bool *begins = aorta_arena_raw(memory, rank->work_count * sizeof *begins);
    for (size_t i = 0; begins && i < rank->work_count; i++) begins[i] = !continues(rank, i);
    const struct aorta_trace_times *times = times_of_rows(rank, row_of, begins, memory);
    for (size_t i = 0; times && i < rank->kernel_count; i++) all_ns += times[i].total_ns;
    for (size_t i = 0; times && i < rank->kernel_count; i++) {
        rank->kernels[i].times = times[i];
        rank->kernels[i].share = all_ns ? (double)times[i].total_ns / (double)all_ns : 0;
    }
}

static void add_launch(const struct aorta_trace *trace, const struct aorta_trace_work *work,
                       struct aorta_trace_kernel_row *row) {
    if (work->kind != AORTA_TRACE_KERNEL || work->graph || work->call == AORTA_TRACE_NONE) return;
    const struct aorta_trace_call *call = &trace->calls[work->call];
    row->launched++;
    row->shorter += work->end_ns - work->start_ns < call->end_ns - call->start_ns;
    row->launch_ns += call->end_ns - call->start_ns;
}

/* Sets kinds and sums of the rows. All work of a name has the same kind and class. */
static void add_kinds(struct aorta_trace_rank *rank, const uint32_t *row_of) {
    for (size_t i = 0; i < rank->work_count; i++) {
        const struct aorta_trace_work *work = &rank->work[i];
        struct aorta_trace_kernel_row *row = &rank->kernels[row_of[work->name]];
        row->kind = (enum aorta_trace_kind)work->kind;
        row->class = (enum aorta_kernel_class)work->class;
        if (continues(rank, i)) {
            row->times.total_ns += work->end_ns - work->start_ns;
            row->times.mean_ns = (double)row->times.total_ns / (double)row->times.count;
            continue;
        }
        row->bytes = work->bytes < 0 || row->bytes < 0 ? -1 : row->bytes + work->bytes;
        add_launch(rank->trace, work, row);
    }
}

void aorta_trace_kernels_make(struct aorta_trace_rank *rank) {
    struct aorta_arena scratch = {0};
    uint32_t *row_of = aorta_arena_alloc(&scratch, aorta_trace_text_count(rank->trace) * sizeof *row_of);
    if (row_of) add_rows(rank, row_of);
    if (row_of && rank->kernels) {
        add_times(rank, row_of, &scratch);
        add_kinds(rank, row_of);
        qsort(rank->kernels, rank->kernel_count, sizeof *rank->kernels, larger_kernel_first);
    }
    aorta_arena_end(&scratch, &rank->memory);
}

/* Adds the parts of kernels in the window, and marks those that begin in it. */
static void add_window(struct aorta_trace_rank *rank, const struct aorta_trace_window *window, const uint32_t *row_of,
                       bool *begins) {
    for (size_t j = 0; j < window->profile.range_count; j++) {
        const struct aorta_trace_work *work = &rank->work[window->work[j]];
        struct aorta_trace_kernel_row *row = &rank->kernels[row_of[work->name]];
        const int64_t ns = window->profile.ranges[j].end_ns - window->profile.ranges[j].start_ns;
        row->step_ns += ns;
        rank->step_work_ns += ns;
        begins[window->work[j]] |= work->start_ns >= window->start_ns && !continues(rank, window->work[j]);
    }
}

void aorta_trace_kernels_in_steps(const struct aorta_trace_analysis *analysis, struct aorta_trace_rank *rank) {
    if (!analysis->stepped) return;
    struct aorta_arena scratch = {0};
    uint32_t *row_of = aorta_arena_raw(&scratch, aorta_trace_text_count(rank->trace) * sizeof *row_of);
    bool *begins = aorta_arena_alloc(&scratch, rank->work_count);
    for (size_t i = 0; row_of && i < rank->kernel_count; i++) row_of[rank->kernels[i].name] = (uint32_t)i;
    for (size_t i = 0; !scratch.failed && i < rank->window_count; i++)
        if (aorta_trace_window_counts(analysis, &rank->windows[i])) add_window(rank, &rank->windows[i], row_of, begins);
    const struct aorta_trace_times *times = times_of_rows(rank, row_of, begins, &scratch);
    for (size_t i = 0; times && i < rank->kernel_count; i++) {
        rank->kernels[i].step_count = times[i].count;
        rank->kernels[i].step_p50_ns = times[i].p50_ns;
        rank->kernels[i].step_p95_ns = times[i].p95_ns;
    }
    qsort(rank->kernels, rank->kernel_count, sizeof *rank->kernels, larger_kernel_first);
    aorta_arena_end(&scratch, &rank->memory);
}

/* ---- matrix products ---- */

struct run {
    uint32_t shape, geometry, name;
    enum aorta_beside beside;
    int64_t ns;
};

static AORTA_ORDER(run_order, struct run,
                   AORTA_UP(shape) AORTA_UP(geometry) AORTA_UP(name) AORTA_UP(beside) AORTA_UP(ns));

static bool alike(const struct run *a, const struct run *b) {
    return a->shape == b->shape && a->geometry == b->geometry && a->name == b->name;
}

/* Memory for the times of as many runs. */
struct scratch {
    int64_t *all;
    double *ordered; /* those alone, then those during collectives */
};

/* runs[0 .. count) are of one kernel and shape. */
static struct aorta_trace_gemm_row gemm_row(const struct aorta_trace *trace, const struct run *runs, size_t count,
                                            const struct scratch *scratch) {
    struct aorta_trace_gemm_row row = {.name = runs[0].name, .shape = runs[0].shape, .geometry = runs[0].geometry};
    for (size_t i = 0; i < count; i++) {
        scratch->all[i] = runs[i].ns;
        scratch->ordered[i] = (double)runs[i].ns;
        row.alone += runs[i].beside == AORTA_BESIDE_ALONE;
        row.beside += runs[i].beside == AORTA_BESIDE_COLLECTIVE;
    }
    row.flops = aorta_trace_flops(trace, row.shape);
    struct aorta_product_slowdown slowdown =
        aorta_product_slowdown_of(scratch->ordered, row.alone, scratch->ordered + row.alone, row.beside, row.flops > 0);
    row.alone_p50_ns = slowdown.alone_p50_ns;
    row.beside_p50_ns = slowdown.beside_p50_ns;
    row.slowdown = slowdown.ratio;
    row.lost = slowdown.lost;
    row.times = aorta_trace_times_of(scratch->all, count);
    return row;
}

/* By name: whether it is a matrix product, looked up once per name. */
static bool *gemm_names(const struct aorta_trace_rank *rank, struct aorta_arena *memory) {
    bool *gemm = aorta_arena_alloc(memory, aorta_trace_text_count(rank->trace));
    for (size_t i = 0; gemm && i < rank->kernel_count; i++) {
        const struct aorta_trace_kernel_row *row = &rank->kernels[i];
        if (row->kind == AORTA_TRACE_KERNEL && row->class == AORTA_KERNEL_COMPUTE)
            gemm[row->name] = aorta_kernel_is_gemm(aorta_trace_text(rank->trace, row->name));
    }
    return gemm;
}

static AORTA_ORDER(larger_gemm_first, struct aorta_trace_gemm_row,
                   AORTA_DOWN(times.total_ns) AORTA_UP(name) AORTA_UP(geometry) AORTA_UP(shape));

static void group_runs(struct aorta_trace_rank *rank, struct run *runs, size_t count, struct aorta_arena *memory) {
    qsort(runs, count, sizeof *runs, run_order);
    size_t rows = 0;
    for (size_t i = 0; i < count; i++) rows += i == 0 || !alike(&runs[i], &runs[i - 1]);
    const struct scratch scratch = {aorta_arena_raw(memory, count * sizeof *scratch.all),
                                    aorta_arena_raw(memory, count * sizeof *scratch.ordered)};
    rank->gemms = aorta_arena_alloc(&rank->memory, rows * sizeof *rank->gemms);
    if (memory->failed || !rank->gemms) return;
    for (size_t i = 0, same; i < count; i += same) {
        for (same = 1; i + same < count && alike(&runs[i + same], &runs[i]);) same++;
        rank->gemms[rank->gemm_count++] = gemm_row(rank->trace, runs + i, same, &scratch);
    }
    qsort(rank->gemms, rank->gemm_count, sizeof *rank->gemms, larger_gemm_first);
}

/* Our own recorder knows which operations are matrix products. */
static bool is_measured_product(const struct aorta_trace *trace, const struct aorta_trace_work *work) {
    return trace->measured && work->shape != AORTA_TRACE_NONE &&
           trace->shapes[work->shape].extent != AORTA_SHAPE_PASS &&
           trace->shapes[work->shape].amount.class == AORTA_WORK_GEMM;
}

uint32_t aorta_trace_product_name(const struct aorta_trace *trace, const struct aorta_trace_work *work) {
    const bool operation = trace->measured && work->shape != AORTA_TRACE_NONE &&
                           trace->shapes[work->shape].extent == AORTA_SHAPE_OPERATION;
    return operation ? trace->shapes[work->shape].op : work->name;
}

void aorta_trace_gemms_make(struct aorta_trace_rank *rank, const struct aorta_intervals *comm) {
    struct aorta_arena scratch = {0};
    bool *gemm = gemm_names(rank, &scratch);
    struct run *runs = aorta_arena_raw(&scratch, rank->work_count * sizeof *runs);
    size_t count = 0;
    for (size_t i = 0; !scratch.failed && i < rank->work_count; i++) {
        const struct aorta_trace_work *work = &rank->work[i];
        if (work->kind != AORTA_TRACE_KERNEL || !(gemm[work->name] || is_measured_product(rank->trace, work))) continue;
        uint32_t geometry = work->shape == AORTA_TRACE_NONE ? work->geometry : AORTA_TRACE_NONE;
        enum aorta_beside beside = aorta_beside_of(comm, work->start_ns, work->end_ns);
        runs[count++] = (struct run){work->shape, geometry, aorta_trace_product_name(rank->trace, work), beside,
                                     work->end_ns - work->start_ns};
    }
    if (!scratch.failed) group_runs(rank, runs, count, &scratch);
    aorta_arena_end(&scratch, &rank->memory);
}

/* ---- the table of calls that wait for the device, by caller ---- */

/* Whether operation or function of a call are known, so that its range is not needed. */
static bool is_placed(const struct aorta_trace_sync_row *row) {
    return row->operation != AORTA_TRACE_NONE || row->function != AORTA_TRACE_NONE;
}

/* Orders rows by place. Calls of one place are one row, even in different ranges. In a row of one call, total_ns is its
 * time. */
static int place_order(const struct aorta_trace_sync_row *a, const struct aorta_trace_sync_row *b) {
    int order = aorta_order_int64(a->name, b->name);
    if (!order) order = aorta_order_int64(a->operation, b->operation);
    if (!order) order = aorta_order_int64(a->function, b->function);
    return order || is_placed(a) ? order : aorta_order_int64(a->range, b->range);
}

static AORTA_ORDER(sync_order, struct aorta_trace_sync_row, AORTA_THEN(place_order) AORTA_UP(times.total_ns));

static AORTA_ORDER(longest_first, struct aorta_trace_sync_row, AORTA_DOWN(times.total_ns) AORTA_THEN(place_order));

/* Finds the call's row among the trace's callers, from *next on. Calls must ascend: *next moves up with them. */
static struct aorta_trace_caller caller_of(const struct aorta_trace *trace, uint32_t call, size_t *next) {
    while (*next < trace->caller_count && trace->callers[*next].call < call) (*next)++;
    if (*next < trace->caller_count && trace->callers[*next].call == call) return trace->callers[*next];
    return (struct aorta_trace_caller){call, AORTA_TRACE_NONE, AORTA_TRACE_NONE, AORTA_TRACE_NONE};
}

/* Collects the waiting calls. Without steps, only the part of a call within the device's time counts, as nothing
 * recorded is waited for outside it. */
static size_t collect(const struct aorta_trace_analysis *analysis, const struct aorta_trace_rank *rank,
                      struct aorta_trace_sync_row *syncs, struct aorta_arena *memory) {
    const struct aorta_trace *trace = rank->trace;
    const int64_t first_ns = analysis->stepped ? INT64_MIN : rank->figures.start_ns;
    const int64_t last_ns = analysis->stepped ? INT64_MAX : first_ns + rank->figures.span_ns;
    const bool *launching = aorta_trace_launching_threads(trace, memory);
    const struct aorta_trace_step_map map = aorta_trace_step_map_make(rank, memory);
    size_t count = 0, next = 0;
    for (size_t i = 0; !memory->failed && i < trace->call_count; i++) {
        const struct aorta_trace_call *call = &trace->calls[i];
        if (!launching[call->thread] || !aorta_trace_call_waits(trace, call)) continue;
        if (analysis->stepped) {
            const size_t window = aorta_trace_window_at(&map, call->start_ns);
            if (window == SIZE_MAX || !aorta_trace_step_counts(analysis, rank->windows[window].number)) continue;
        }
        const int64_t from_ns = call->start_ns > first_ns ? call->start_ns : first_ns;
        const int64_t until_ns = call->end_ns < last_ns ? call->end_ns : last_ns;
        if (until_ns < from_ns) continue;
        const struct aorta_trace_caller caller = caller_of(trace, (uint32_t)i, &next);
        syncs[count++] = (struct aorta_trace_sync_row){
            call->name, caller.operation, caller.function, caller.range, {.total_ns = until_ns - from_ns}};
    }
    return count;
}

void aorta_trace_syncs_make(const struct aorta_trace_analysis *analysis, struct aorta_trace_rank *rank) {
    const struct aorta_trace *trace = rank->trace;
    struct aorta_arena memory = {0};
    size_t limit = 0;
    for (size_t i = 0; i < trace->call_count; i++) limit += aorta_trace_call_waits(trace, &trace->calls[i]);
    struct aorta_trace_sync_row *syncs = aorta_arena_raw(&memory, limit * sizeof *syncs);
    int64_t *scratch = aorta_arena_raw(&memory, limit * sizeof *scratch);
    const size_t count = collect(analysis, rank, syncs, &memory);
    if (count) qsort(syncs, count, sizeof *syncs, sync_order);
    rank->syncs = aorta_arena_alloc(&rank->memory, count * sizeof *rank->syncs);
    for (size_t i = 0, same; rank->syncs && i < count; i += same) {
        const uint32_t range = syncs[i].range;
        for (same = 0; i + same < count && place_order(&syncs[i], &syncs[i + same]) == 0; same++) {
            scratch[same] = syncs[i + same].times.total_ns;
            if (syncs[i + same].range != range) syncs[i].range = AORTA_TRACE_NONE;
        }
        syncs[i].times = aorta_trace_times_of(scratch, same);
        rank->syncs[rank->sync_count++] = syncs[i];
    }
    if (rank->syncs) qsort(rank->syncs, rank->sync_count, sizeof *rank->syncs, longest_first);
    aorta_arena_end(&memory, &rank->memory);
}

/* The bytes of a text that are shown: ranges of PyProf are dictionaries of all arguments and longer than a line. */
static int shown_bytes(const char *text) {
    enum { MOST = 60 };
    size_t length = strlen(text);
    if (length <= MOST) return (int)length;
    for (length = MOST; length && ((unsigned char)text[length] & 0xc0) == 0x80;) length--; /* within a letter */
    return (int)length;
}

const char *aorta_trace_sync_name(const struct aorta_trace *trace, const struct aorta_trace_sync_row *row, char *name,
                                  size_t size) {
    const uint32_t operation = is_placed(row) ? row->operation : row->range;
    const char *where = aorta_trace_text(trace, operation);
    const int shown = shown_bytes(where);
    snprintf(name, size, "%s%s%.*s%s%s%s", aorta_trace_text(trace, row->name),
             operation != AORTA_TRACE_NONE ? " in " : "", shown, where, where[shown] ? "…" : "",
             row->function != AORTA_TRACE_NONE ? " at " : "", aorta_trace_text(trace, row->function));
    return name;
}

/* ---- streams and hardware queues: how busy each was, and which streams shared which queues ---- */

/* A stream or queue. The times are the ends so far of all its work, compute, collectives and copies. */
struct lane {
    struct aorta_trace_lane_row row;
    int64_t all_ns, compute_ns, comm_ns, copy_ns;
};

/* Adds work to a union of sorted work. */
static void extend(const struct aorta_trace_work *work, int64_t *until_ns, int64_t *length_ns) {
    const int64_t from = work->start_ns > *until_ns ? work->start_ns : *until_ns;
    if (work->end_ns <= from) return;
    *length_ns += work->end_ns - from;
    *until_ns = work->end_ns;
}

static void lane_add(struct lane *lane, const struct aorta_trace_work *work) {
    extend(work, &lane->all_ns, &lane->row.busy_ns);
    if (work->kind != AORTA_TRACE_KERNEL)
        extend(work, &lane->copy_ns, &lane->row.memcpy_ns);
    else if (aorta_trace_is_collective(work))
        extend(work, &lane->comm_ns, &lane->row.comm_ns);
    else
        extend(work, &lane->compute_ns, &lane->row.compute_ns);
    lane->row.overlapped_ns += work->end_ns - work->start_ns; /* take_rows subtracts the busy time */
    lane->row.count++;
}

static struct lane *new_lanes(size_t count, struct aorta_arena *memory) {
    struct lane *lanes = aorta_arena_raw(memory, count * sizeof *lanes);
    for (size_t i = 0; lanes && i < count; i++)
        lanes[i] = (struct lane){{.row = (uint32_t)i}, INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN};
    return lanes;
}

static AORTA_ORDER(busiest_first, struct aorta_trace_lane_row, AORTA_DOWN(busy_ns) AORTA_UP(row));

static struct aorta_trace_lane_row *take_rows(const struct lane *lanes, size_t count, size_t *row_count,
                                              struct aorta_arena *memory) {
    struct aorta_trace_lane_row *rows = aorta_arena_alloc(memory, count * sizeof *rows);
    for (size_t i = 0; rows && i < count; i++) {
        if (!lanes[i].row.count) continue;
        rows[*row_count] = lanes[i].row;
        rows[(*row_count)++].overlapped_ns -= lanes[i].row.busy_ns;
    }
    if (rows) qsort(rows, *row_count, sizeof *rows, busiest_first);
    return rows;
}

/* ---- which streams use which queues ---- */

struct use {
    uint32_t stream, queue;
};

/* Consecutive work mostly uses one pair, so the list of changes is short. */
static void count_uses(const struct aorta_trace_rank *rank, struct lane *streams, struct lane *queues,
                       struct aorta_arena *memory) {
    struct use *uses = aorta_arena_raw(memory, rank->work_count * sizeof *uses);
    size_t count = 0;
    if (!uses) return;
    for (size_t i = 0; i < rank->work_count; i++) {
        struct use use = {rank->work[i].stream, rank->work[i].queue};
        if (use.queue == AORTA_TRACE_NONE || use.stream == AORTA_TRACE_NONE) continue;
        if (count && aorta_by_uint32_pair(&uses[count - 1], &use) == 0) continue;
        uses[count++] = use;
    }
    count = aorta_sort_unique(uses, count, sizeof *uses, aorta_by_uint32_pair);
    for (size_t i = 0; i < count; i++) {
        streams[uses[i].stream].row.others++;
        queues[uses[i].queue].row.others++;
    }
}

void aorta_trace_lanes_make(struct aorta_trace_rank *rank) {
    const struct aorta_trace *trace = rank->trace;
    struct aorta_arena scratch = {0};
    struct lane *streams = new_lanes(trace->stream_count, &scratch), *queues = new_lanes(trace->queue_count, &scratch);
    for (size_t i = 0; !scratch.failed && i < rank->work_count; i++) {
        const struct aorta_trace_work *work = &rank->work[i];
        if (work->stream != AORTA_TRACE_NONE) lane_add(&streams[work->stream], work);
        if (work->queue != AORTA_TRACE_NONE) lane_add(&queues[work->queue], work);
    }
    if (!scratch.failed && trace->queue_count) count_uses(rank, streams, queues, &scratch);
    if (!scratch.failed) {
        rank->streams = take_rows(streams, trace->stream_count, &rank->stream_count, &rank->memory);
        rank->queues = take_rows(queues, trace->queue_count, &rank->queue_count, &rank->memory);
    }
    aorta_arena_end(&scratch, &rank->memory);
}
