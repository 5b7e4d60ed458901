/* One sweep over the sorted starts and ends cuts the iteration into cells in which the set of running operations does
 * not change; every figure is a sum over cells. */
#include "analysis/overlap.h"
#include "base/array.h"
#include "base/sort.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A start or an end of one range. */
struct edge {
    int64_t time_ns;
    uint32_t range;
    bool end;
};

/* A stretch in which the same operations ran. Bit sets of what ran. */
struct cell {
    int64_t start_ns, end_ns;
    uint8_t roles, collectives;
    bool compute, copy;
};

struct cells {
    struct cell *items;
    size_t count;
};

/* How many ranges of each sort are running. */
struct running {
    int roles[AORTA_ROLE_COUNT], collectives[AORTA_COLLECTIVE_COUNT];
    int compute, copy;
};

static int edge_order(const void *left, const void *right) {
    const struct edge *a = left, *b = right;
    return (a->time_ns > b->time_ns) - (a->time_ns < b->time_ns);
}

static void running_add(struct running *running, const struct aorta_range *range, int change) {
    running->roles[range->info.role] += change;
    if (range->info.kind == AORTA_RANGE_COLLECTIVE)
        running->collectives[range->info.collective] += change;
    else if (range->info.kind == AORTA_RANGE_COPY)
        running->copy += change;
    else
        running->compute += change;
}

static uint8_t bits_of(const int *counts, int count) {
    unsigned bits = 0;
    for (int i = 0; i < count; i++) bits |= (unsigned)(counts[i] > 0) << i;
    return (uint8_t)bits;
}

/* An empty range is a start and an end at one time: it makes no cell, but bounds those beside it. */
static size_t sorted_edges(const struct aorta_profile *profile, struct edge *edges) {
    size_t count = 0;
    for (size_t i = 0; i < profile->range_count; i++) {
        const struct aorta_range *range = &profile->ranges[i];
        edges[count++] = (struct edge){range->start_ns, (uint32_t)i, false};
        edges[count++] = (struct edge){range->end_ns, (uint32_t)i, true};
    }
    qsort(edges, count, sizeof *edges, edge_order);
    return count;
}

/* From `from_ns` on: what runs earlier runs in the iteration before. */
static aorta_status cut_cells(const struct aorta_profile *profile, int64_t from_ns, struct cells *cells) {
    size_t limit = 2 * profile->range_count + 1;
    struct edge *edges = malloc(limit * sizeof *edges);
    cells->items = malloc(limit * sizeof *cells->items);
    if (!edges || !cells->items) {
        free(edges);
        return AORTA_ERROR(AORTA_MEMORY, "no memory to analyse %zu ranges", profile->range_count);
    }
    size_t edge_count = sorted_edges(profile, edges);
    struct running running = {0};
    for (size_t i = 0; i < edge_count; i++) {
        running_add(&running, &profile->ranges[edges[i].range], edges[i].end ? -1 : 1);
        if (i + 1 == edge_count || edges[i + 1].time_ns == edges[i].time_ns) continue;
        if (edges[i + 1].time_ns <= from_ns) continue;
        cells->items[cells->count++] = (struct cell){
            .start_ns = edges[i].time_ns > from_ns ? edges[i].time_ns : from_ns,
            .end_ns = edges[i + 1].time_ns,
            .roles = bits_of(running.roles, AORTA_ROLE_COUNT),
            .collectives = bits_of(running.collectives, AORTA_COLLECTIVE_COUNT),
            .compute = running.compute > 0,
            .copy = running.copy > 0,
        };
    }
    free(edges);
    return NULL;
}

/* ---- sums ---- */

static void add_cell(struct aorta_overlap *overlap, const struct cell *cell) {
    int64_t length = cell->end_ns - cell->start_ns;
    bool comm = cell->collectives != 0;
    if (cell->compute) overlap->compute_ns += length;
    if (comm) overlap->comm_ns += length;
    if (cell->copy) overlap->memcpy_ns += length;
    if (cell->roles) overlap->busy_ns += length;
    if (comm && cell->compute) overlap->overlap_ns += length;
    if (cell->copy && !cell->compute && !comm) overlap->exposed_copy_ns += length;
    for (int role = 0; role < AORTA_ROLE_COUNT; role++)
        if (cell->roles >> role & 1) overlap->role_ns[role] += length;
    for (int kind = 0; kind < AORTA_COLLECTIVE_COUNT; kind++) {
        if (!(cell->collectives >> kind & 1)) continue;
        overlap->kind[kind].comm_ns += length;
        if (cell->compute) overlap->kind[kind].overlap_ns += length;
    }
}

static void sum_cells(const struct aorta_profile *profile, const struct cells *cells, struct aorta_overlap *overlap) {
    for (size_t i = 0; i < cells->count; i++) add_cell(overlap, &cells->items[i]);
    for (size_t i = 0; i < profile->range_count; i++) {
        const struct aorta_range_info *info = &profile->ranges[i].info;
        if (info->kind != AORTA_RANGE_COLLECTIVE) continue;
        overlap->kind[info->collective].count++;
        overlap->kind[info->collective].bytes += info->bytes;
        overlap->simulated |= info->simulated;
    }
    for (int kind = 0; kind < AORTA_COLLECTIVE_COUNT; kind++)
        overlap->kind[kind].exposed_ns = overlap->kind[kind].comm_ns - overlap->kind[kind].overlap_ns;
    overlap->idle_ns = overlap->span_ns - overlap->busy_ns;
    overlap->exposed_comm_ns = overlap->comm_ns - overlap->overlap_ns;
    overlap->overlap_ratio = overlap->comm_ns ? (double)overlap->overlap_ns / (double)overlap->comm_ns : NAN;
    overlap->compute_overlap_ratio =
        overlap->compute_ns ? (double)overlap->overlap_ns / (double)overlap->compute_ns : NAN;
    for (int role = 0; role < AORTA_ROLE_COUNT; role++)
        overlap->utilization[role] = overlap->span_ns ? (double)overlap->role_ns[role] / (double)overlap->span_ns : NAN;
}

static aorta_status merge_segments(const struct cells *cells, struct aorta_overlap *overlap) {
    overlap->segments = malloc((cells->count + 1) * sizeof *overlap->segments);
    if (!overlap->segments) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu segments", cells->count);
    for (size_t i = 0; i < cells->count; i++) {
        const struct cell *cell = &cells->items[i];
        struct aorta_segment *last = overlap->segments + overlap->segment_count;
        if (overlap->segment_count && last[-1].roles == cell->roles)
            last[-1].end_ns = cell->end_ns;
        else {
            *last = (struct aorta_segment){cell->start_ns, cell->end_ns, cell->roles};
            overlap->segment_count++;
        }
    }
    aorta_array_trim(&overlap->segments, overlap->segment_count, sizeof *overlap->segments);
    return NULL;
}

/* ---- which collective is to blame for exposed communication ---- */

/* The collectives that run at a time that only moves on, in the order of their ends. Of those that have begun a tree of
 * counts (Fenwick) knows how many end before another, so that thousands at a time take no more than a few. */
struct active {
    const struct aorta_profile *profile;
    struct mark *begins, *ends; /* [total], by time; equal ends: the first range last */
    uint32_t *place;            /* of each range in `ends` */
    uint32_t *counts;           /* [total + 1]: the tree */
    size_t next, total;         /* begins from `next` on have not begun */
};

struct mark {
    int64_t time_ns;
    uint32_t range;
};

static int begin_order(const void *left, const void *right) {
    const struct mark *a = left, *b = right;
    if (a->time_ns != b->time_ns) return a->time_ns < b->time_ns ? -1 : 1;
    return (a->range > b->range) - (a->range < b->range);
}

static int end_order(const void *left, const void *right) {
    const struct mark *a = left, *b = right;
    if (a->time_ns != b->time_ns) return a->time_ns < b->time_ns ? -1 : 1;
    return (a->range < b->range) - (a->range > b->range);
}

static aorta_status active_begin(const struct aorta_profile *profile, struct active *active) {
    *active = (struct active){.profile = profile};
    size_t limit = profile->range_count + 1;
    active->begins = malloc(limit * sizeof *active->begins);
    active->ends = malloc(limit * sizeof *active->ends);
    active->place = malloc(limit * sizeof *active->place);
    active->counts = calloc(limit, sizeof *active->counts);
    if (!active->begins || !active->ends || !active->place || !active->counts)
        return AORTA_ERROR(AORTA_MEMORY, "no memory to order %zu ranges", profile->range_count);
    for (size_t i = 0; i < profile->range_count; i++) {
        const struct aorta_range *range = &profile->ranges[i];
        if (range->info.kind != AORTA_RANGE_COLLECTIVE) continue;
        active->begins[active->total] = (struct mark){range->start_ns, (uint32_t)i};
        active->ends[active->total++] = (struct mark){range->end_ns, (uint32_t)i};
    }
    qsort(active->begins, active->total, sizeof *active->begins, begin_order);
    qsort(active->ends, active->total, sizeof *active->ends, end_order);
    for (size_t i = 0; i < active->total; i++) active->place[active->ends[i].range] = (uint32_t)i;
    return NULL;
}

static void active_move(struct active *active, int64_t time_ns) {
    for (; active->next < active->total && active->begins[active->next].time_ns <= time_ns; active->next++)
        for (size_t i = active->place[active->begins[active->next].range] + 1; i <= active->total; i += i & -i)
            active->counts[i]++;
}

static void active_free(struct active *active) {
    free(active->begins);
    free(active->ends);
    free(active->place);
    free(active->counts);
}

/* How many have begun of those that end at this time or before. */
static size_t begun_until(const struct active *active, int64_t end_ns) {
    const size_t until =
        aorta_count_until(active->ends, active->total, sizeof *active->ends, offsetof(struct mark, time_ns), end_ns);
    size_t count = 0;
    for (size_t i = until; i; i -= i & -i) count += active->counts[i];
    return count;
}

/* That of which `before` others that have begun end before. */
static const struct mark *begun_at(const struct active *active, size_t before) {
    size_t at = 0, step = 1;
    while (2 * step <= active->total) step *= 2;
    for (; step; step /= 2) {
        if (at + step > active->total || active->counts[at + step] > before) continue;
        at += step;
        before -= active->counts[at];
    }
    return &active->ends[at];
}

/* Of those that run, the last that ends within the wait; where none does, the first that ends. Of equal ones the first
 * range. */
static size_t collective_to_blame(const struct active *active, int64_t time_ns, int64_t wait_end_ns) {
    const size_t within = begun_until(active, wait_end_ns);
    const struct mark *last = within ? begun_at(active, within - 1) : NULL;
    if (last && last->time_ns > time_ns) return last->range;
    const int64_t first_ns = begun_at(active, within)->time_ns;
    return begun_at(active, begun_until(active, first_ns) - 1)->range;
}

static bool cell_exposed(const struct cell *cell) {
    return cell->collectives && !cell->compute;
}

static void add_exposed(struct aorta_overlap *overlap, const struct cell *cell, size_t range) {
    struct aorta_exposed *next = overlap->exposed + overlap->exposed_count;
    if (overlap->exposed_count && next[-1].range == range && next[-1].end_ns == cell->start_ns) {
        next[-1].end_ns = cell->end_ns;
        return;
    }
    *next = (struct aorta_exposed){cell->start_ns, cell->end_ns, range};
    overlap->exposed_count++;
}

static aorta_status blame_collectives(const struct aorta_profile *profile, const struct cells *cells,
                                      struct aorta_overlap *overlap) {
    overlap->exposed = malloc((cells->count + 1) * sizeof *overlap->exposed);
    if (!overlap->exposed) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu exposed stretches", cells->count);
    struct active active;
    aorta_status status = active_begin(profile, &active);
    size_t end = 0; /* one past the last cell of the wait that cell i is in */
    for (size_t i = 0; !status && i < cells->count; i++) {
        const struct cell *cell = &cells->items[i];
        if (!cell_exposed(cell)) continue;
        if (end <= i)
            for (end = i + 1; end < cells->count && cell_exposed(&cells->items[end]);) end++;
        active_move(&active, cell->start_ns);
        size_t range = collective_to_blame(&active, cell->start_ns, cells->items[end - 1].end_ns);
        overlap->kind[profile->ranges[range].info.collective].blamed_ns += cell->end_ns - cell->start_ns;
        add_exposed(overlap, cell, range);
    }
    active_free(&active);
    aorta_array_trim(&overlap->exposed, overlap->exposed_count, sizeof *overlap->exposed);
    return status;
}

/* ---- why the device was idle ---- */

static aorta_status collect_waits(const struct aorta_profile *profile, struct aorta_host_waits *waits) {
    struct aorta_intervals data = {0}, device = {0};
    for (size_t i = 0; i < profile->host_count; i++) {
        const struct aorta_host_range *range = &profile->host[i];
        if (range->kind == AORTA_HOST_ALLOCATION) continue; /* the host's own doing: launches are late */
        struct aorta_intervals *set = range->kind == AORTA_HOST_DATA_WAIT ? &data : &device;
        aorta_intervals_add(set, range->start_ns, range->end_ns);
    }
    return aorta_host_waits_make(&data, &device, waits);
}

static void explain_gap(const struct aorta_host_waits *waits, int64_t start_ns, int64_t end_ns, int64_t launch_ns,
                        struct aorta_idle *idle) {
    struct aorta_idle gap = aorta_idle_of_gap(waits, start_ns, end_ns, launch_ns);
    aorta_idle_add(idle, &gap);
}

static int by_start(const void *left, const void *right) {
    const struct aorta_range *a = *(const struct aorta_range *const *)left;
    const struct aorta_range *b = *(const struct aorta_range *const *)right;
    if (a->start_ns != b->start_ns) return a->start_ns < b->start_ns ? -1 : 1;
    return (a->enqueue_ns > b->enqueue_ns) - (a->enqueue_ns < b->enqueue_ns);
}

/* Time without compute although the next compute had been launched: it waited for what ran on another stream. */
static int64_t dependency_within(const struct cell *cell, const struct aorta_range *next) {
    if (cell->compute || !cell->roles || !next || next->enqueue_ns == INT64_MIN) return 0;
    int64_t from = next->enqueue_ns > cell->start_ns ? next->enqueue_ns : cell->start_ns;
    return from < cell->end_ns ? cell->end_ns - from : 0;
}

static aorta_status explain_idle(const struct aorta_profile *profile, const struct cells *cells,
                                 struct aorta_overlap *overlap) {
    struct aorta_host_waits waits = {0};
    const struct aorta_range **order = malloc((profile->range_count + 1) * sizeof(*order));
    aorta_status status = order ? collect_waits(profile, &waits)
                                : AORTA_ERROR(AORTA_MEMORY, "no memory to order %zu ranges", profile->range_count);
    size_t count = 0;
    for (; !status && count < profile->range_count; count++) order[count] = &profile->ranges[count];
    if (!status && count) {
        qsort(order, count, sizeof(*order), by_start);
        explain_gap(&waits, profile->start_ns - overlap->lead_ns, profile->start_ns, order[0]->enqueue_ns,
                    &overlap->idle);
        const struct aorta_range *next_compute = NULL;
        for (size_t i = cells->count; i-- > 0;) { /* backwards, so that what comes next is known */
            const struct cell *cell = &cells->items[i];
            while (count && order[count - 1]->start_ns >= cell->end_ns) {
                count--;
                if (order[count]->info.kind == AORTA_RANGE_COMPUTE) next_compute = order[count];
            }
            overlap->dependency_ns += dependency_within(cell, next_compute);
            if (!cell->roles)
                explain_gap(&waits, cell->start_ns, cell->end_ns, order[count]->enqueue_ns, &overlap->idle);
        }
    }
    aorta_host_waits_free(&waits);
    free(order);
    return status;
}

aorta_status aorta_overlap_compute(const struct aorta_profile *profile, int64_t previous_end_ns,
                                   struct aorta_overlap *overlap) {
    memset(overlap, 0, sizeof *overlap);
    int64_t from_ns = profile->start_ns;
    if (previous_end_ns != INT64_MIN && previous_end_ns < profile->start_ns)
        overlap->lead_ns = profile->start_ns - previous_end_ns;
    else if (previous_end_ns > from_ns) /* the next batch is copied ahead, far ahead even */
        from_ns = previous_end_ns < profile->end_ns ? previous_end_ns : profile->end_ns;
    overlap->span_ns = profile->end_ns - from_ns;
    struct cells cells = {0};
    aorta_status status = cut_cells(profile, from_ns, &cells);
    if (!status) {
        sum_cells(profile, &cells, overlap);
        status = merge_segments(&cells, overlap);
    }
    if (!status) status = blame_collectives(profile, &cells, overlap);
    if (!status) status = explain_idle(profile, &cells, overlap);
    free(cells.items);
    if (status) aorta_overlap_free(overlap);
    return status;
}

void aorta_overlap_free(struct aorta_overlap *overlap) {
    free(overlap->segments);
    free(overlap->exposed);
    memset(overlap, 0, sizeof *overlap);
}
