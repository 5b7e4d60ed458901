/* Series over a rank's time, counters, and repeating kernel sequences. */
#include "analysis/series.h"
#include "analysis/analysis_internal.h"
#include "base/intern.h"
#include "base/sort.h"

#include <math.h>
#include <stdlib.h>

enum { FULL_QUEUE = 1024 };

/* The wait from a launch to the start of its first work. */
struct waiting {
    int64_t stream, to_ns, from_ns;
};

struct making {
    const struct aorta_trace_rank *rank;
    struct aorta_series *series;
    struct waiting *waiting; /* ascending to_ns; later sorted by stream */
    size_t count;
    int64_t *from; /* scratch: starts in order */
    struct aorta_trace_busy busy;
    struct aorta_intervals both;
    struct aorta_arena scratch;
};

/* ---- parts ---- */

static int64_t bound(const struct making *making, size_t part) {
    const struct aorta_trace_figures *figures = &making->rank->figures;
    const double share = (double)part / (double)making->series->count;
    return part == making->series->count ? figures->end_ns
                                         : figures->start_ns + (int64_t)(share * (double)figures->span_ns);
}

static size_t part_at(const struct making *making, int64_t time_ns) {
    const struct aorta_series_part *parts = making->series->parts;
    const size_t after = aorta_count_until(parts, making->series->count, sizeof *parts,
                                           offsetof(struct aorta_series_part, start_ns), time_ns);
    return after ? after - 1 : 0;
}

static void measure_parts(struct making *making) {
    for (size_t i = 0; i < making->series->count; i++) {
        struct aorta_series_part *part = &making->series->parts[i];
        part->start_ns = bound(making, i);
        part->end_ns = bound(making, i + 1);
        part->compute_ns = aorta_intervals_within(&making->busy.compute, part->start_ns, part->end_ns);
        part->comm_ns = aorta_intervals_within(&making->busy.comm, part->start_ns, part->end_ns);
        part->copy_ns = aorta_intervals_within(&making->busy.copy, part->start_ns, part->end_ns);
        part->overlap_ns = aorta_intervals_within(&making->both, part->start_ns, part->end_ns);
        part->idle_ns = part->end_ns - part->start_ns -
                        aorta_intervals_within(&making->busy.all, part->start_ns, part->end_ns) -
                        aorta_intervals_within(&making->rank->holes, part->start_ns, part->end_ns);
    }
}

/* ---- bytes ---- */

/* Bytes of a copy, fill or collective (larger buffer of the rank); -1 if unknown or for other work. */
static int64_t bytes_of(const struct aorta_trace *trace, const struct aorta_trace_work *work) {
    if (work->kind != AORTA_TRACE_KERNEL) return work->bytes;
    if (!aorta_trace_is_collective(work) || work->collective == AORTA_TRACE_NONE) return -1;
    return trace->collectives[work->collective].bytes;
}

static void add_bytes(struct making *making, const struct aorta_trace_work *work) {
    const struct aorta_trace *trace = making->rank->trace;
    const int64_t bytes = bytes_of(trace, work);
    const double length_ns = (double)(work->end_ns - work->start_ns);
    if (bytes <= 0) return;
    enum aorta_copied how = AORTA_COPIED_FILLED;
    if (work->kind == AORTA_TRACE_COPY) how = aorta_copied_how(aorta_trace_text(trace, work->name));
    if (how == AORTA_COPIED_UNKNOWN) how = AORTA_COPIED_BETWEEN;
    for (size_t i = part_at(making, work->start_ns); i < making->series->count; i++) {
        struct aorta_series_part *part = &making->series->parts[i];
        const int64_t from_ns = work->start_ns > part->start_ns ? work->start_ns : part->start_ns;
        const int64_t to_ns = work->end_ns < part->end_ns ? work->end_ns : part->end_ns;
        const double share = length_ns > 0 ? (double)(to_ns - from_ns) / length_ns : 1;
        *(work->kind == AORTA_TRACE_KERNEL ? &part->sent : &part->copied[how]) += share * (double)bytes;
        if (work->end_ns <= part->end_ns) return;
    }
}

/* ---- queues ---- */

/* Takes only the first work of each call, as the remaining work of a graph launch follows it. */
static struct waiting *gather(const struct aorta_trace_rank *rank, size_t *count, struct aorta_arena *memory) {
    const struct aorta_trace *trace = rank->trace;
    bool *seen = aorta_arena_alloc(memory, trace->call_count);
    struct waiting *waiting = aorta_arena_raw(memory, rank->work_count * sizeof *waiting);
    for (size_t i = 0; !memory->failed && i < rank->work_count; i++) {
        const struct aorta_trace_work *work = &rank->work[i];
        if (work->call == AORTA_TRACE_NONE || seen[work->call]) continue;
        const int64_t from_ns = trace->calls[work->call].start_ns;
        seen[work->call] = true;
        waiting[(*count)++] =
            (struct waiting){work->stream, work->start_ns, from_ns < work->start_ns ? from_ns : work->start_ns};
    }
    return waiting;
}

/* A queue whose length changes at launches and starts; of both at one moment the start comes first. */
struct queue {
    const int64_t *from; /* launches in order */
    const struct waiting *waiting;
    size_t count, launched, started;
    /* from one moment to another */
    size_t most;
    int64_t full_ns;
    double sum_ns;
};

/* Uses making->from. */
static struct queue queue_of(struct making *making, const struct waiting *waiting, size_t count) {
    for (size_t i = 0; i < count; i++) making->from[i] = waiting[i].from_ns;
    aorta_sort_int64(making->from, count);
    return (struct queue){.from = making->from, .waiting = waiting, .count = count};
}

static void measure(struct queue *q, int64_t now_ns, int64_t end_ns) {
    q->most = 0, q->full_ns = 0, q->sum_ns = 0;
    for (;;) {
        const size_t length = q->launched > q->started ? q->launched - q->started : 0;
        const int64_t start_ns = q->started < q->count ? q->waiting[q->started].to_ns : INT64_MAX;
        const bool launch = q->launched < q->count && q->from[q->launched] < start_ns;
        const int64_t next_ns = launch ? q->from[q->launched] : start_ns,
                      until_ns = next_ns < end_ns ? next_ns : end_ns;
        if (length > q->most) q->most = length;
        if (until_ns > now_ns) {
            q->sum_ns += (double)length * (double)(until_ns - now_ns);
            if (length >= FULL_QUEUE) q->full_ns += until_ns - now_ns;
            now_ns = until_ns;
        }
        if (next_ns >= end_ns) return;
        q->launched += launch;
        q->started += !launch;
    }
}

static void measure_parts_queue(struct making *making) {
    struct aorta_series_part *parts = making->series->parts;
    struct queue queue = queue_of(making, making->waiting, making->count);
    for (size_t i = 0; i < making->count; i++) {
        const struct waiting *waiting = &making->waiting[i];
        const int64_t delay_ns = waiting->to_ns - waiting->from_ns;
        struct aorta_series_part *part = &parts[part_at(making, waiting->to_ns)];
        part->started++;
        part->delay_ns += (double)delay_ns;
        if (delay_ns > part->delay_most_ns) part->delay_most_ns = delay_ns;
        if (waiting->from_ns >= parts[0].start_ns) parts[part_at(making, waiting->from_ns)].launches++;
    }
    for (size_t i = 0; i < making->series->count; i++) {
        const int64_t ns = parts[i].end_ns - parts[i].start_ns;
        measure(&queue, parts[i].start_ns, parts[i].end_ns);
        parts[i].queue_most = queue.most;
        parts[i].queue_mean = ns ? queue.sum_ns / (double)ns : (double)queue.most;
    }
}

/* waiting[0 … count): those of one stream. Uses making->from. */
static struct aorta_series_stream stream_of(struct making *making, const struct waiting *waiting, size_t count) {
    const struct aorta_trace_figures *figures = &making->rank->figures;
    struct queue queue = queue_of(making, waiting, count);
    measure(&queue, figures->start_ns, figures->end_ns);
    for (size_t i = 0; i < count; i++) making->from[i] = waiting[i].to_ns - waiting[i].from_ns;
    return (struct aorta_series_stream){.stream = (uint32_t)waiting->stream,
                                        .queue_mean =
                                            figures->span_ns > 0 ? queue.sum_ns / (double)figures->span_ns : NAN,
                                        .queue_most = queue.most,
                                        .full_ns = queue.full_ns,
                                        .delay = aorta_trace_times_of(making->from, count)};
}

static AORTA_ORDER(most_first, struct aorta_series_stream, AORTA_DOWN(delay.count) AORTA_UP(stream));

static void measure_streams(struct making *making, struct aorta_arena *arena) {
    struct aorta_series *series = making->series;
    if (making->count) qsort(making->waiting, making->count, sizeof *making->waiting, aorta_by_int64_pair);
    series->streams = aorta_arena_alloc(arena, making->rank->trace->stream_count * sizeof *series->streams);
    for (size_t first = 0, end; series->streams && first < making->count; first = end) {
        const int64_t stream = making->waiting[first].stream;
        for (end = first; end < making->count && making->waiting[end].stream == stream;) end++;
        if (stream != AORTA_TRACE_NONE)
            series->streams[series->stream_count++] = stream_of(making, making->waiting + first, end - first);
    }
    if (series->stream_count) qsort(series->streams, series->stream_count, sizeof *series->streams, most_first);
}

/* ---- memory ---- */

static void measure_memory(struct making *making, struct aorta_arena *arena) {
    struct aorta_series *series = making->series;
    struct aorta_memory memory;
    int64_t *bounds = aorta_arena_raw(&making->scratch, (series->count + 1) * sizeof *bounds);
    series->memory = aorta_arena_alloc(arena, series->count * sizeof *series->memory);
    if (!bounds || !series->memory) return;
    aorta_memory_make(making->rank, &making->scratch, &memory);
    for (size_t i = 0; i < series->count; i++) bounds[i] = series->parts[i].start_ns;
    bounds[series->count] = series->parts[series->count - 1].end_ns;
    aorta_memory_over(&memory, bounds, series->count, &making->scratch, series->memory);
}

/* ---- all of it ---- */

static void make(struct making *making, size_t count, struct aorta_arena *arena) {
    struct aorta_series *series = making->series;
    series->parts = aorta_arena_alloc(arena, count * sizeof *series->parts);
    series->count = series->parts ? count : 0;
    making->waiting = gather(making->rank, &making->count, &making->scratch);
    making->from = aorta_arena_raw(&making->scratch, making->count * sizeof *making->from);
    if (making->scratch.failed || !series->count) return;
    measure_parts(making);
    for (size_t i = 0; i < making->rank->work_count; i++) add_bytes(making, &making->rank->work[i]);
    measure_parts_queue(making);
    series->launched = making->count;
    measure_streams(making, arena);
    if (making->rank->trace->allocation_count) measure_memory(making, arena);
}

void aorta_series_make(const struct aorta_trace_rank *rank, size_t count, struct aorta_arena *arena,
                       struct aorta_series *series) {
    struct making making = {.rank = rank, .series = series};
    *series = (struct aorta_series){0};
    aorta_trace_busy_make(rank, &making.busy);
    aorta_intervals_normalise(&making.busy.copy);
    aorta_intervals_normalise(&making.busy.all);
    aorta_intervals_intersect(&making.busy.compute, &making.busy.comm, &making.both);
    make(&making, count, arena);
    aorta_trace_busy_free(&making.busy);
    aorta_intervals_end(&making.both, arena);
    aorta_arena_end(&making.scratch, arena);
}

const char *aorta_counter_name(int kind) {
    static const char *const names[] = {"queue length", "overlap", "copies GB/s", "collectives GB/s", "memory MB"};
    return names[kind];
}

/* ---- values from changes ---- */

/* Adds a change of a value; make_values sums the changes. */
static void change(struct aorta_counters *counters, enum aorta_counter_kind kind, int64_t at_ns, double by) {
    counters->of[kind].points[counters->of[kind].count++] = (struct aorta_counter_point){at_ns, by};
}

static AORTA_ORDER(by_time, struct aorta_counter_point, AORTA_UP(at_ns) AORTA_UP(value));

static void make_values(struct aorta_counters *counters, enum aorta_counter_kind kind, double value) {
    struct aorta_counter_point *points = counters->of[kind].points;
    size_t moments = 0, count = counters->of[kind].count;
    if (count) qsort(points, count, sizeof *points, by_time);
    for (size_t i = 0; i < count; i++) {
        value += points[i].value;
        if (fabs(value) < 1e-9) value = 0; /* sums of rates do not return to 0 exactly */
        if (moments && points[moments - 1].at_ns == points[i].at_ns) moments--;
        points[moments++] = (struct aorta_counter_point){points[i].at_ns, value};
    }
    counters->of[kind].count = moments;
}

static void reserve(struct aorta_counters *counters, enum aorta_counter_kind kind, size_t changes,
                    struct aorta_arena *arena) {
    counters->of[kind].points = aorta_arena_raw(arena, changes * sizeof *counters->of[kind].points);
}

/* ---- each counter ---- */

static void count_queue(const struct aorta_trace_rank *rank, struct aorta_counters *counters,
                        struct aorta_arena *arena) {
    size_t count = 0;
    const struct waiting *waiting = gather(rank, &count, arena);
    reserve(counters, AORTA_COUNTER_QUEUE, 2 * count, arena);
    for (size_t i = 0; !arena->failed && i < count; i++) {
        if (waiting[i].from_ns == waiting[i].to_ns) continue;
        change(counters, AORTA_COUNTER_QUEUE, waiting[i].from_ns, 1);
        change(counters, AORTA_COUNTER_QUEUE, waiting[i].to_ns, -1);
    }
    make_values(counters, AORTA_COUNTER_QUEUE, 0);
}

static void count_overlap(const struct aorta_trace_rank *rank, struct aorta_counters *counters,
                          struct aorta_arena *arena) {
    struct aorta_trace_busy busy;
    struct aorta_intervals both = {0};
    aorta_trace_busy_make(rank, &busy);
    aorta_intervals_intersect(&busy.compute, &busy.comm, &both);
    reserve(counters, AORTA_COUNTER_OVERLAP, 2 * both.count + 1, arena);
    for (size_t i = 0; i < both.count && !arena->failed; i++) {
        change(counters, AORTA_COUNTER_OVERLAP, both.items[i].start_ns, 1);
        change(counters, AORTA_COUNTER_OVERLAP, both.items[i].end_ns, -1);
    }
    if (!arena->failed && busy.comm.count) change(counters, AORTA_COUNTER_OVERLAP, rank->figures.start_ns, 0);
    make_values(counters, AORTA_COUNTER_OVERLAP, 0);
    aorta_intervals_end(&both, arena);
    aorta_trace_busy_free(&busy);
}

static void count_bytes(const struct aorta_trace_rank *rank, struct aorta_counters *counters,
                        struct aorta_arena *arena) {
    reserve(counters, AORTA_COUNTER_COPIED, 2 * rank->work_count, arena);
    reserve(counters, AORTA_COUNTER_COLLECTIVE, 2 * rank->work_count, arena);
    for (size_t i = 0; !arena->failed && i < rank->work_count; i++) {
        const struct aorta_trace_work *work = &rank->work[i];
        const int64_t bytes = bytes_of(rank->trace, work), ns = work->end_ns - work->start_ns;
        const enum aorta_counter_kind kind =
            work->kind == AORTA_TRACE_KERNEL ? AORTA_COUNTER_COLLECTIVE : AORTA_COUNTER_COPIED;
        if (bytes <= 0 || ns <= 0) continue;
        change(counters, kind, work->start_ns, (double)bytes / (double)ns);
        change(counters, kind, work->end_ns, -(double)bytes / (double)ns);
    }
    make_values(counters, AORTA_COUNTER_COPIED, 0);
    make_values(counters, AORTA_COUNTER_COLLECTIVE, 0);
}

static void count_memory(const struct aorta_trace_rank *rank, struct aorta_counters *counters,
                         struct aorta_arena *arena) {
    struct aorta_arena scratch = {0};
    struct aorta_memory memory;
    double before = 0;
    aorta_memory_make(rank, &scratch, &memory);
    reserve(counters, AORTA_COUNTER_MEMORY, 2 * memory.block_count, arena);
    for (size_t i = 0; !arena->failed && i < memory.block_count; i++) {
        const struct aorta_memory_block *block = &memory.blocks[i];
        const double mb = (double)block->bytes / 1e6;
        if (block->from_ns == INT64_MIN)
            before += mb;
        else
            change(counters, AORTA_COUNTER_MEMORY, block->from_ns, mb);
        if (block->to_ns != INT64_MAX) change(counters, AORTA_COUNTER_MEMORY, block->to_ns, -mb);
    }
    make_values(counters, AORTA_COUNTER_MEMORY, before);
    aorta_arena_end(&scratch, arena);
}

void aorta_counters_make(const struct aorta_trace_rank *rank, struct aorta_arena *arena,
                         struct aorta_counters *counters) {
    *counters = (struct aorta_counters){.rank = rank->rank};
    count_queue(rank, counters, arena);
    count_bytes(rank, counters, arena);
    count_overlap(rank, counters, arena);
    count_memory(rank, counters, arena);
}

/* The work that one run of an operation launched, directly or within it. */
struct run {
    uint64_t hash;
    int64_t ns, start_ns, end_ns;
    uint32_t count; /* counts up to AORTA_SEQUENCE_LONGEST + 1 */
    uint32_t row;   /* of the sequence with this as its first run, + 1 */
};

struct sequence_search {
    const struct aorta_trace_rank *rank;
    const struct aorta_trace *trace;
    struct run *runs; /* one for each operation */
    struct aorta_sequences *sequences;
    struct aorta_keys keys; /* of the rows: hash and count of a run */
    size_t capacity;
    struct aorta_arena scratch;
};

/* ---- runs ---- */

static void add_work(struct sequence_search *making, const struct aorta_trace_work *work) {
    for (uint32_t at = work->operation; at != AORTA_TRACE_NONE; at = making->trace->operations[at].parent) {
        struct run *run = &making->runs[at];
        if (making->trace->operations[at].range || run->count > AORTA_SEQUENCE_LONGEST) continue;
        if (!run->count) run->start_ns = work->start_ns;
        if (!run->count || work->end_ns > run->end_ns) run->end_ns = work->end_ns;
        run->count++;
        run->ns += work->end_ns - work->start_ns;
        run->hash = aorta_hash_add(run->hash, work->name);
    }
}

/* Whether the operation around it launched the same work. */
static bool is_within_equal(const struct sequence_search *making, size_t operation) {
    const struct aorta_trace_operation *operations = making->trace->operations;
    uint32_t around = operations[operation].parent;
    while (around != AORTA_TRACE_NONE && operations[around].range) around = operations[around].parent;
    return around != AORTA_TRACE_NONE && making->runs[around].count == making->runs[operation].count;
}

/* ---- rows ---- */

static void count_run(struct sequence_search *making, size_t operation, struct aorta_arena *arena) {
    struct aorta_sequences *sequences = making->sequences;
    struct run *run = &making->runs[operation];
    const uint32_t number = aorta_keys_add(&making->keys, (int64_t)run->hash, run->count, 0, &making->scratch);
    if (number >= sequences->count) {
        const struct aorta_sequence row = {.operation = making->trace->operations[operation].name};
        aorta_arena_append(arena, &sequences->rows, &making->capacity, &sequences->count, &row, sizeof row);
        if (arena->failed || making->scratch.failed) return;
        run->row = (uint32_t)sequences->count;
    }
    struct aorta_sequence *row = &sequences->rows[number];
    row->runs++;
    row->ns += run->ns;
    row->span_ns += run->end_ns - run->start_ns;
}

static void name_kernels(struct sequence_search *making, const struct aorta_trace_work *work) {
    for (uint32_t at = work->operation; at != AORTA_TRACE_NONE; at = making->trace->operations[at].parent) {
        if (!making->runs[at].row) continue;
        struct aorta_sequence *row = &making->sequences->rows[making->runs[at].row - 1];
        row->kernels[row->length++] = work->name;
    }
}

static AORTA_ORDER(most_kernels_first, struct aorta_sequence,
                   AORTA_BY(aorta_order_int64((int64_t)(b->runs * b->length), (int64_t)(a->runs * a->length)))
                       AORTA_DOWN(ns) AORTA_UP(operation));

static void drop_single(struct aorta_sequences *sequences) {
    size_t left = 0;
    for (size_t i = 0; i < sequences->count; i++)
        if (sequences->rows[i].runs > 1) sequences->rows[left++] = sequences->rows[i];
    sequences->count = left;
    if (left) qsort(sequences->rows, left, sizeof *sequences->rows, most_kernels_first);
}

static void search(struct sequence_search *making, struct aorta_arena *arena) {
    const struct aorta_trace_rank *rank = making->rank;
    making->runs = aorta_arena_alloc(&making->scratch, making->trace->operation_count * sizeof *making->runs);
    if (!making->runs) return;
    for (size_t i = 0; i < rank->work_count; i++) add_work(making, &rank->work[i]);
    for (size_t i = 0; i < making->trace->operation_count; i++) {
        const uint32_t count = making->runs[i].count;
        if (count < AORTA_SEQUENCE_SHORTEST || count > AORTA_SEQUENCE_LONGEST || is_within_equal(making, i)) continue;
        count_run(making, i, arena);
    }
    for (size_t i = 0; i < rank->work_count; i++) name_kernels(making, &rank->work[i]);
}

void aorta_sequences_make(const struct aorta_trace_rank *rank, struct aorta_arena *arena,
                          struct aorta_sequences *sequences) {
    struct sequence_search making = {.rank = rank, .trace = rank->trace, .sequences = sequences};
    *sequences = (struct aorta_sequences){0};
    search(&making, arena);
    drop_single(sequences);
    if (!rank->trace->operation_count)
        sequences->reason = "the file has no operations of a framework that launched this work";
    else if (!sequences->count)
        sequences->reason = "no operation launched the same kernels twice";
    aorta_keys_free(&making.keys);
    aorta_arena_end(&making.scratch, arena);
}
