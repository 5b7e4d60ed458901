/* The table of a rank's collectives, by kind and process group. */
#include "timeline/analysis_parts.h"

#include <math.h>
#include <stdlib.h>

static int compare(int64_t a, int64_t b) {
    return (a > b) - (a < b);
}

static int row_order(const struct aorta_trace_part *a, const struct aorta_trace_part *b) {
    int order = compare(a->kind, b->kind);
    return order ? order : compare(a->group, b->group);
}

/* By row, then by time. */
static int part_order(const void *left, const void *right) {
    const struct aorta_trace_part *a = *(const struct aorta_trace_part *const *)left;
    const struct aorta_trace_part *b = *(const struct aorta_trace_part *const *)right;
    int order = row_order(a, b);
    return order ? order : compare(a->work, b->work);
}

static int longest_first(const void *left, const void *right) {
    const struct aorta_trace_collective_row *a = left, *b = right;
    int order = compare(b->times.total_ns, a->times.total_ns);
    if (!order) order = compare(a->kind, b->kind);
    return order ? order : compare(a->group, b->group);
}

/* GB/s of 10^9 bytes: bytes per ns. */
static double rate(int64_t bytes, int64_t ns) {
    return bytes > 0 && ns > 0 ? (double)bytes / (double)ns : NAN;
}

static void measure_bandwidth(const struct aorta_trace_part *const *parts, size_t count, int64_t waited_bytes,
                              int64_t transfer_ns, struct aorta_trace_collective_row *row) {
    bool one_size = parts[0]->group_size > 1;
    for (size_t i = 1; i < count; i++) one_size &= parts[i]->group_size == parts[0]->group_size;
    double factor = one_size ? aorta_collective_bus_factor(row->kind, parts[0]->group_size) : NAN;
    if (factor <= 0) factor = NAN; /* a barrier, or of no known kind */
    row->algbw_gbps = rate(row->bytes, row->times.total_ns);
    row->busbw_gbps = row->algbw_gbps * factor;
    row->transfer_busbw_gbps = rate(waited_bytes, transfer_ns) * factor;
}

/* parts: those of one row, by time. */
static aorta_status make_row(const struct aorta_trace_rank *rank, const struct aorta_trace_part *const *parts,
                             size_t count, const struct aorta_trace_busy *busy, int64_t *scratch,
                             struct aorta_trace_collective_row *row) {
    struct aorta_intervals comm = {0};
    aorta_status status = NULL;
    int64_t waited_bytes = 0, transfer_ns = 0;
    *row = (struct aorta_trace_collective_row){.kind = parts[0]->kind, .group = parts[0]->group};
    for (size_t i = 0; !status && i < count; i++) {
        const struct aorta_trace_work *work = &rank->work[parts[i]->work];
        scratch[i] = work->end_ns - work->start_ns;
        row->bytes = parts[i]->bytes < 0 || row->bytes < 0 ? -1 : row->bytes + parts[i]->bytes;
        row->blamed_ns += parts[i]->blamed_ns;
        status = aorta_intervals_add(&comm, work->start_ns, work->end_ns);
        if (parts[i]->wait_ns < 0) continue;
        row->waits_known++;
        row->wait_ns += parts[i]->wait_ns;
        waited_bytes += parts[i]->bytes > 0 ? parts[i]->bytes : 0;
        transfer_ns += scratch[i] - parts[i]->wait_ns;
    }
    row->times = aorta_trace_times_of(scratch, count);
    row->comm_ns = aorta_intervals_length(&comm);
    for (size_t i = 0; i < comm.count; i++)
        row->overlap_ns += aorta_intervals_within(&busy->compute, comm.items[i].start_ns, comm.items[i].end_ns);
    row->exposed_ns = row->comm_ns - row->overlap_ns;
    measure_bandwidth(parts, count, waited_bytes, transfer_ns, row);
    aorta_intervals_free(&comm);
    return status;
}

aorta_status aorta_trace_collectives_make(struct aorta_trace_rank *rank, const struct aorta_trace_part *parts,
                                          size_t part_count, const struct aorta_trace_busy *busy) {
    const struct aorta_trace_part **sorted = malloc((part_count + 1) * sizeof(*sorted));
    int64_t *scratch = malloc((part_count + 1) * sizeof *scratch);
    aorta_status status = NULL;
    size_t rows = 0;
    for (size_t i = 0; sorted && i < part_count; i++) sorted[i] = &parts[i];
    if (sorted) qsort(sorted, part_count, sizeof(*sorted), part_order);
    for (size_t i = 0; sorted && i < part_count; i++) rows += i == 0 || row_order(sorted[i - 1], sorted[i]) != 0;
    rank->collectives = calloc(rows + 1, sizeof *rank->collectives);
    if (!sorted || !scratch || !rank->collectives)
        status = AORTA_ERROR(AORTA_MEMORY, "no memory for %zu collectives", part_count);
    for (size_t i = 0; !status && i < part_count;) {
        size_t same = 1;
        while (i + same < part_count && row_order(sorted[i], sorted[i + same]) == 0) same++;
        status = make_row(rank, sorted + i, same, busy, scratch, &rank->collectives[rank->collective_count++]);
        i += same;
    }
    if (!status) qsort(rank->collectives, rank->collective_count, sizeof *rank->collectives, longest_first);
    free(sorted);
    free(scratch);
    return status;
}
