#include "analysis/series.h"

#include "analysis/analysis_internal.h"
#include "base/sort.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FULL_QUEUE = 1024 };

/* From a launch to the start of its first work. */
struct waiting {
    int64_t from_ns, to_ns;
    uint32_t stream;
};

struct making {
    const struct aorta_trace_rank *rank;
    struct aorta_series *series;
    struct waiting *waiting; /* ascending to_ns; those of a stream side by side once they are sorted by it */
    size_t count;
    int64_t *from;       /* scratch: starts in order */
    int64_t *throughout; /* by part: what waits in all of it, more than in all of the part before */
    struct aorta_trace_busy busy;
    struct aorta_intervals both;
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

int64_t aorta_trace_bytes_of(const struct aorta_trace *trace, const struct aorta_trace_work *work) {
    if (work->kind != AORTA_TRACE_KERNEL) return work->bytes;
    if (!aorta_trace_is_collective(work) || work->collective == AORTA_TRACE_NONE) return -1;
    return trace->collectives[work->collective].bytes;
}

static void add_bytes(struct making *making, const struct aorta_trace_work *work) {
    const struct aorta_trace *trace = making->rank->trace;
    const int64_t bytes = aorta_trace_bytes_of(trace, work);
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

/* The first work of each call: the others of a graph follow it. */
static bool gather(struct making *making) {
    const struct aorta_trace *trace = making->rank->trace;
    bool *seen = calloc(trace->call_count + 1, sizeof *seen);
    making->waiting = malloc((making->rank->work_count + 1) * sizeof *making->waiting);
    making->from = malloc((making->rank->work_count + 1) * sizeof *making->from);
    for (size_t i = 0; seen && making->waiting && i < making->rank->work_count; i++) {
        const struct aorta_trace_work *work = &making->rank->work[i];
        if (work->call == AORTA_TRACE_NONE || seen[work->call]) continue;
        const int64_t from_ns = trace->calls[work->call].start_ns;
        seen[work->call] = true;
        making->waiting[making->count++] =
            (struct waiting){from_ns < work->start_ns ? from_ns : work->start_ns, work->start_ns, work->stream};
    }
    free(seen);
    return seen && making->waiting && making->from;
}

static int by_stream(const void *left, const void *right) {
    const struct waiting *a = left, *b = right;
    if (a->stream != b->stream) return a->stream < b->stream ? -1 : 1;
    return aorta_order_int64(a->to_ns, b->to_ns);
}

static void sort_starts(struct making *making, const struct waiting *waiting, size_t count) {
    for (size_t i = 0; i < count; i++) making->from[i] = waiting[i].from_ns;
    aorta_sort_int64(making->from, count);
}

/* The length of the queue changes at launches and starts; of both at one moment the start comes first. */
static void most_of_parts(struct making *making) {
    size_t launched = 0, started = 0;
    sort_starts(making, making->waiting, making->count);
    for (size_t i = 0; i < making->series->count; i++) {
        struct aorta_series_part *part = &making->series->parts[i];
        const bool last = i + 1 == making->series->count;
        while (started < making->count && making->waiting[started].to_ns < part->start_ns) started++;
        while (launched < making->count && making->from[launched] < part->start_ns) launched++;
        part->queue_most = launched > started ? launched - started : 0;
        while (launched < making->count && (last || making->from[launched] < part->end_ns)) {
            while (started < making->count && making->waiting[started].to_ns <= making->from[launched]) started++;
            launched++;
            if (launched - started > part->queue_most) part->queue_most = launched - started;
        }
    }
}

static double share_of(const struct aorta_series_part *part, const struct waiting *waiting) {
    const int64_t from_ns = waiting->from_ns > part->start_ns ? waiting->from_ns : part->start_ns;
    const int64_t to_ns = waiting->to_ns < part->end_ns ? waiting->to_ns : part->end_ns;
    return to_ns > from_ns ? (double)(to_ns - from_ns) / (double)(part->end_ns - part->start_ns) : 0;
}

static void add_waiting(struct making *making, const struct waiting *waiting) {
    const int64_t delay_ns = waiting->to_ns - waiting->from_ns;
    struct aorta_series_part *parts = making->series->parts;
    const size_t first = part_at(making, waiting->from_ns), last = part_at(making, waiting->to_ns);
    parts[last].started++;
    parts[last].delay_ns += (double)delay_ns;
    if (delay_ns > parts[last].delay_most_ns) parts[last].delay_most_ns = delay_ns;
    if (waiting->from_ns >= parts[0].start_ns) parts[first].launches++;
    parts[first].queue_mean += share_of(&parts[first], waiting);
    if (first == last) return;
    parts[last].queue_mean += share_of(&parts[last], waiting);
    making->throughout[first + 1]++;
    making->throughout[last]--;
}

static void measure_queue(struct making *making) {
    int64_t throughout = 0;
    for (size_t i = 0; i < making->count; i++) add_waiting(making, &making->waiting[i]);
    for (size_t i = 0; i < making->series->count; i++) {
        throughout += making->throughout[i];
        making->series->parts[i].queue_mean += (double)throughout;
    }
    most_of_parts(making);
}

/* waiting[0 … count): those of one stream. Uses their from_ns up. */
static struct aorta_series_stream stream_of(struct making *making, struct waiting *waiting, size_t count) {
    const int64_t first_ns = making->rank->figures.start_ns, span_ns = making->rank->figures.span_ns;
    struct aorta_series_stream stream = {.stream = waiting->stream};
    int64_t before_ns = INT64_MIN;
    size_t launched = 0, length = 0;
    double sum_ns = 0;
    sort_starts(making, waiting, count);
    for (size_t started = 0; started < count;) {
        const bool launch = launched < count && making->from[launched] < waiting[started].to_ns;
        const int64_t at_ns = launch ? making->from[launched] : waiting[started].to_ns;
        const int64_t since_ns = before_ns > first_ns ? before_ns : first_ns;
        if (length && at_ns > since_ns) sum_ns += (double)length * (double)(at_ns - since_ns);
        if (length >= FULL_QUEUE && at_ns > since_ns) stream.full_ns += at_ns - since_ns;
        before_ns = at_ns;
        launched += launch;
        started += !launch;
        length = launched > started ? launched - started : 0;
        if (length > stream.queue_most) stream.queue_most = length;
    }
    stream.queue_mean = span_ns > 0 ? sum_ns / (double)span_ns : NAN;
    for (size_t i = 0; i < count; i++) making->from[i] = waiting[i].to_ns - waiting[i].from_ns;
    stream.delay = aorta_trace_times_of(making->from, count);
    return stream;
}

static int most_first(const void *left, const void *right) {
    const struct aorta_series_stream *a = left, *b = right;
    if (a->delay.count != b->delay.count) return a->delay.count > b->delay.count ? -1 : 1;
    return (a->stream > b->stream) - (a->stream < b->stream);
}

static bool measure_streams(struct making *making) {
    struct aorta_series *series = making->series;
    if (making->count) qsort(making->waiting, making->count, sizeof *making->waiting, by_stream);
    series->streams = calloc(making->rank->trace->stream_count + 1, sizeof *series->streams);
    if (!series->streams) return false;
    for (size_t first = 0, end; first < making->count; first = end) {
        const uint32_t stream = making->waiting[first].stream;
        for (end = first; end < making->count && making->waiting[end].stream == stream;) end++;
        if (stream != AORTA_TRACE_NONE)
            series->streams[series->stream_count++] = stream_of(making, making->waiting + first, end - first);
    }
    if (series->stream_count) qsort(series->streams, series->stream_count, sizeof *series->streams, most_first);
    return true;
}

/* ---- memory ---- */

static aorta_status measure_memory(const struct aorta_trace_rank *rank, struct aorta_series *series) {
    struct aorta_memory memory;
    int64_t *bounds = malloc((series->count + 1) * sizeof *bounds);
    series->memory = calloc(series->count + 1, sizeof *series->memory);
    aorta_status status = bounds && series->memory
                              ? aorta_memory_make(rank, &memory)
                              : AORTA_ERROR(AORTA_MEMORY, "no memory for %zu parts", series->count);
    if (!status) {
        for (size_t i = 0; i < series->count; i++) bounds[i] = series->parts[i].start_ns;
        bounds[series->count] = series->parts[series->count - 1].end_ns;
        status = aorta_memory_over(&memory, bounds, series->count, series->memory);
        aorta_memory_free(&memory);
    }
    free(bounds);
    return status;
}

/* ---- all of it ---- */

static bool make(struct making *making, size_t count) {
    struct aorta_series *series = making->series;
    series->parts = calloc(count, sizeof *series->parts);
    series->count = count;
    making->throughout = calloc(count + 1, sizeof *making->throughout);
    if (!series->parts || !making->throughout || !gather(making)) return false;
    measure_parts(making);
    for (size_t i = 0; i < making->rank->work_count; i++) add_bytes(making, &making->rank->work[i]);
    measure_queue(making);
    series->launched = making->count;
    return measure_streams(making);
}

aorta_status aorta_series_make(const struct aorta_trace_rank *rank, size_t count, struct aorta_series *series) {
    struct making making = {.rank = rank, .series = series};
    *series = (struct aorta_series){0};
    aorta_trace_busy_make(rank, &making.busy);
    aorta_intervals_normalise(&making.busy.copy);
    aorta_intervals_normalise(&making.busy.all);
    aorta_intervals_intersect(&making.busy.compute, &making.busy.comm, &making.both);
    aorta_status status = aorta_intervals_check(&making.both);
    if (!status && !make(&making, count))
        status = AORTA_ERROR(AORTA_MEMORY, "no memory for %zu parts of %zu kernels", count, rank->work_count);
    if (!status && rank->trace->allocation_count) status = measure_memory(rank, series);
    aorta_trace_busy_free(&making.busy);
    aorta_intervals_free(&making.both);
    free(making.waiting);
    free(making.from);
    free(making.throughout);
    if (status) aorta_series_free(series);
    return status;
}

void aorta_series_free(struct aorta_series *series) {
    free(series->parts);
    free(series->memory);
    free(series->streams);
    *series = (struct aorta_series){0};
}
