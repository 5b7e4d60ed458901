/* The tables of a rank's collectives: by kind and process group, and by their sizes as well. */
#include "analysis/analysis_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare(int64_t a, int64_t b) {
    return (a > b) - (a < b);
}

static int row_order(const struct aorta_trace_part *a, const struct aorta_trace_part *b) {
    int order = compare(a->kind, b->kind);
    return order ? order : compare(a->group, b->group);
}

static int size_order(const struct aorta_trace_part *a, const struct aorta_trace_part *b) {
    int order = row_order(a, b);
    if (!order) order = compare(b->bytes, a->bytes);
    if (!order) order = compare(a->dtype, b->dtype);
    return order ? order : compare(a->channels, b->channels);
}

/* By row of the finer table, then by time. */
static int part_order(const void *left, const void *right) {
    const struct aorta_trace_part *a = *(const struct aorta_trace_part *const *)left;
    const struct aorta_trace_part *b = *(const struct aorta_trace_part *const *)right;
    int order = size_order(a, b);
    return order ? order : compare(a->work, b->work);
}

static int longest_first(const void *left, const void *right) {
    const struct aorta_trace_collective_row *a = left, *b = right;
    int order = compare(b->steps.ns, a->steps.ns);
    if (!order) order = compare(b->times.total_ns, a->times.total_ns);
    if (!order) order = compare(a->kind, b->kind);
    if (!order) order = compare(a->group, b->group);
    if (!order) order = compare(b->bytes_each, a->bytes_each);
    if (!order) order = compare(a->dtype, b->dtype);
    return order ? order : compare(a->channels, b->channels);
}

/* GB/s of 10^9 bytes: bytes per ns. */
static double rate(int64_t bytes, int64_t ns) {
    return bytes > 0 && ns > 0 ? (double)bytes / (double)ns : NAN;
}

static void measure_bandwidth(const struct aorta_trace_part *const *parts, size_t count, int64_t waited_bytes,
                              struct aorta_trace_collective_row *row) {
    bool one_size = parts[0]->group_size > 1;
    for (size_t i = 1; i < count; i++) one_size &= parts[i]->group_size == parts[0]->group_size;
    double factor = one_size ? aorta_collective_bus_factor(row->kind, parts[0]->group_size) : NAN;
    if (factor <= 0) factor = NAN; /* a barrier, or of no known kind */
    row->algbw_gbps = rate(row->bytes, row->times.total_ns);
    row->busbw_gbps = row->algbw_gbps * factor;
    row->transfer_busbw_gbps = rate(waited_bytes, row->transfer_ns) * factor;
}

/* What rows are made of. */
struct making {
    const struct aorta_trace_analysis *analysis;
    struct aorta_trace_rank *rank;
    const struct aorta_trace_busy *busy;
};

static void add_in_steps(const struct aorta_trace_part *part, int64_t ns, struct aorta_trace_collective_row *row) {
    row->steps.count++;
    row->steps.ns += ns;
    row->steps.blamed_ns += part->blamed_ns;
    if (part->wait_ns < 0) return;
    row->steps.wait_ns += part->wait_ns;
    row->steps.transfer_ns += ns - part->wait_ns;
}

/* parts: those of one row. */
static void make_row(const struct making *making, const struct aorta_trace_part *const *parts, size_t count,
                     int64_t *scratch, struct aorta_trace_collective_row *row) {
    struct aorta_intervals comm = {0};
    int64_t waited_bytes = 0;
    *row = (struct aorta_trace_collective_row){
        .kind = parts[0]->kind, .group = parts[0]->group, .bytes_each = -1, .channels = -1, .dtype = AORTA_TRACE_NONE};
    for (size_t i = 0; i < count; i++) {
        const struct aorta_trace_work *work = &making->rank->work[parts[i]->work];
        scratch[i] = work->end_ns - work->start_ns;
        row->bytes = parts[i]->bytes < 0 || row->bytes < 0 ? -1 : row->bytes + parts[i]->bytes;
        row->blamed_ns += parts[i]->blamed_ns;
        aorta_intervals_add(&comm, work->start_ns, work->end_ns);
        if (aorta_trace_step_counts(making->analysis, parts[i]->step)) add_in_steps(parts[i], scratch[i], row);
        if (parts[i]->wait_ns < 0) continue;
        row->waits_known++;
        row->wait_ns += parts[i]->wait_ns;
        waited_bytes += parts[i]->bytes > 0 ? parts[i]->bytes : 0;
        row->transfer_ns += scratch[i] - parts[i]->wait_ns;
    }
    row->times = aorta_trace_times_of(scratch, count);
    row->comm_ns = aorta_intervals_length(&comm);
    for (size_t i = 0; i < comm.count; i++)
        row->overlap_ns += aorta_intervals_within(&making->busy->compute, comm.items[i].start_ns, comm.items[i].end_ns);
    row->exposed_ns = row->comm_ns - row->overlap_ns;
    measure_bandwidth(parts, count, waited_bytes, row);
    aorta_intervals_end(&comm, &making->rank->memory);
}

static void describe_size(const struct aorta_trace_part *part, struct aorta_trace_collective_row *row) {
    row->bytes_each = part->bytes;
    row->channels = part->channels;
    row->dtype = part->dtype;
}

typedef int (*part_comparison)(const struct aorta_trace_part *a, const struct aorta_trace_part *b);

/* A row for the parts that `same` finds equal, which are neighbours in `sorted`. */
static struct aorta_trace_collective_row *make_rows(const struct making *making,
                                                    const struct aorta_trace_part *const *sorted, size_t part_count,
                                                    part_comparison same, int64_t *scratch, size_t *count) {
    size_t limit = 0;
    for (size_t i = 0; i < part_count; i++) limit += i == 0 || same(sorted[i - 1], sorted[i]) != 0;
    struct aorta_trace_collective_row *rows = aorta_arena_alloc(&making->rank->memory, limit * sizeof *rows);
    for (size_t i = 0, equal; rows && i < part_count; i += equal) {
        for (equal = 1; i + equal < part_count && same(sorted[i], sorted[i + equal]) == 0;) equal++;
        make_row(making, sorted + i, equal, scratch, &rows[(*count)++]);
        if (same == size_order) describe_size(sorted[i], &rows[*count - 1]);
    }
    if (rows) qsort(rows, *count, sizeof *rows, longest_first);
    return rows;
}

void aorta_trace_collectives_make(const struct aorta_trace_analysis *analysis, struct aorta_trace_rank *rank,
                                  const struct aorta_trace_part *parts, size_t part_count,
                                  const struct aorta_trace_busy *busy) {
    const struct making making = {analysis, rank, busy};
    struct aorta_arena memory = {0};
    const struct aorta_trace_part **sorted = aorta_arena_raw(&memory, part_count * sizeof *sorted);
    int64_t *scratch = aorta_arena_raw(&memory, part_count * sizeof *scratch);
    for (size_t i = 0; sorted && i < part_count; i++) sorted[i] = &parts[i];
    if (sorted && scratch) {
        qsort(sorted, part_count, sizeof *sorted, part_order);
        rank->collectives = make_rows(&making, sorted, part_count, row_order, scratch, &rank->collective_count);
        rank->collective_sizes =
            make_rows(&making, sorted, part_count, size_order, scratch, &rank->collective_size_count);
    }
    aorta_arena_end(&memory, &rank->memory);
}

/* ---- sends and receives ---- */

bool aorta_trace_are_sends(const struct aorta_trace_analysis *analysis) {
    bool any = false;
    for (size_t i = 0; i < analysis->rank_count && !analysis->measured; i++) {
        const struct aorta_trace_rank *rank = &analysis->ranks[i];
        for (size_t j = 0; j < rank->work_count; j++) {
            const struct aorta_trace_work *work = &rank->work[j];
            if (!work->named || work->by_name != AORTA_ALL_TO_ALL) continue;
            const uint32_t name = work->collective == AORTA_TRACE_NONE
                                      ? AORTA_TRACE_NONE
                                      : rank->trace->collectives[work->collective].name;
            const bool known = name != AORTA_TRACE_NONE && strcasestr(aorta_trace_text(rank->trace, name), "all");
            const char *kernel = aorta_trace_text(rank->trace, work->name);
            if (known || (!strstr(kernel, "SendRecv") && !strstr(kernel, "userbuffers"))) return false;
            any = true;
        }
    }
    return any;
}

const char *aorta_trace_kind_name(const struct aorta_trace_analysis *analysis, enum aorta_collective kind) {
    return aorta_collective_words(kind, analysis->sends);
}
