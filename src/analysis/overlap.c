#include "analysis/overlap.h"
#include "base/array.h"
#include "base/sort.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct aorta_idle_words aorta_idle_words[AORTA_IDLE_CAUSE_COUNT] = {
    [AORTA_IDLE_DATA_WAIT] = {"data_wait", "waiting for data", "until the next batch"},
    [AORTA_IDLE_HOST_SYNC] = {"host_sync", "host waits for the GPU", "after host waits"},
    [AORTA_IDLE_HOST_LAUNCH] = {"host_launch", "late kernel launches", "with nothing queued"},
    [AORTA_IDLE_LAUNCH_LATENCY] = {"launch_latency", "launch latency", "between launch and start"},
    [AORTA_IDLE_UNKNOWN] = {"unknown", "unexplained gaps", "of unknown reason"},
};

const char *aorta_idle_name(int cause) {
    return aorta_idle_words[cause].key;
}

int64_t aorta_idle_total(const struct aorta_idle *idle) {
    int64_t total = 0;
    for (int i = 0; i < AORTA_IDLE_CAUSE_COUNT; i++) total += idle->ns[i];
    return total;
}

int64_t aorta_idle_host(const struct aorta_idle *idle) {
    return idle->ns[AORTA_IDLE_DATA_WAIT] + idle->ns[AORTA_IDLE_HOST_SYNC] + idle->ns[AORTA_IDLE_HOST_LAUNCH];
}

void aorta_idle_add(struct aorta_idle *sum, const struct aorta_idle *idle) {
    for (int i = 0; i < AORTA_IDLE_CAUSE_COUNT; i++) sum->ns[i] += idle->ns[i];
}

enum aorta_idle_cause aorta_idle_largest(const struct aorta_idle *idle) {
    int largest = 0;
    for (int i = 1; i < AORTA_IDLE_CAUSE_COUNT; i++)
        if (idle->ns[i] > idle->ns[largest]) largest = i;
    return (enum aorta_idle_cause)largest;
}

void aorta_host_waits_free(struct aorta_host_waits *waits) {
    aorta_intervals_free(&waits->data);
    aorta_intervals_free(&waits->device);
}

void aorta_host_waits_make(struct aorta_intervals *data, struct aorta_intervals *device,
                           struct aorta_host_waits *waits) {
    *waits = (struct aorta_host_waits){.data = *data};
    *data = (struct aorta_intervals){0};
    aorta_intervals_normalise(&waits->data);
    aorta_intervals_normalise(device);
    aorta_intervals_subtract(device, &waits->data, &waits->device);
    aorta_intervals_free(device);
}

struct aorta_idle aorta_idle_of_gap(const struct aorta_host_waits *waits, int64_t start_ns, int64_t end_ns,
                                    int64_t launch_ns) {
    bool known = launch_ns != INT64_MIN;
    int64_t until_ns = !known || launch_ns > end_ns ? end_ns : launch_ns;
    if (until_ns < start_ns) until_ns = start_ns;
    struct aorta_idle idle = {0};
    idle.ns[AORTA_IDLE_DATA_WAIT] = aorta_intervals_within(&waits->data, start_ns, until_ns);
    idle.ns[AORTA_IDLE_HOST_SYNC] = aorta_intervals_within(&waits->device, start_ns, until_ns);
    idle.ns[known ? AORTA_IDLE_HOST_LAUNCH : AORTA_IDLE_UNKNOWN] =
        until_ns - start_ns - idle.ns[AORTA_IDLE_DATA_WAIT] - idle.ns[AORTA_IDLE_HOST_SYNC];
    idle.ns[AORTA_IDLE_LAUNCH_LATENCY] = end_ns - until_ns;
    return idle;
}

/* One sweep over the sorted starts and ends cuts the iteration into cells in which the set of running operations does
 * not change; every figure is a sum over cells. */

/* A start or an end of one range. */
struct edge {
    int64_t time_ns;
    uint32_t range;
    bool end;
};

/* A stretch in which the same operations ran, as bit sets. */
struct cell {
    int64_t start_ns, end_ns;
    uint8_t roles, collectives;
    bool compute, copy;
};

struct cells {
    struct cell *items;
    size_t count;
};

/* The number of running ranges of each kind. */
struct running {
    int roles[AORTA_ROLE_COUNT], collectives[AORTA_COLLECTIVE_COUNT];
    int compute, copy;
};

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

/* An empty range starts and ends at one time. It makes no cell of its own, but it separates its neighbours. */
static size_t sorted_edges(const struct aorta_profile *profile, struct edge *edges) {
    size_t count = 0;
    for (size_t i = 0; i < profile->range_count; i++) {
        const struct aorta_range *range = &profile->ranges[i];
        edges[count++] = (struct edge){range->start_ns, (uint32_t)i, false};
        edges[count++] = (struct edge){range->end_ns, (uint32_t)i, true};
    }
    qsort(edges, count, sizeof *edges, aorta_by_int64);
    return count;
}

/* Cuts the cells from `from_ns` on; earlier time belongs to the previous iteration. */
static void cut_cells(const struct aorta_profile *profile, int64_t from_ns, struct cells *cells,
                      struct aorta_arena *memory) {
    const size_t limit = 2 * profile->range_count;
    struct aorta_arena scratch = {0};
    struct edge *edges = aorta_arena_raw(&scratch, limit * sizeof *edges);
    cells->items = aorta_arena_raw(memory, limit * sizeof *cells->items);
    const size_t edge_count = edges && cells->items ? sorted_edges(profile, edges) : 0;
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
    aorta_arena_end(&scratch, memory);
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

static void merge_segments(const struct cells *cells, struct aorta_overlap *overlap, struct aorta_arena *memory) {
    overlap->segments = malloc((cells->count + 1) * sizeof *overlap->segments);
    memory->failed |= !overlap->segments;
    for (size_t i = 0; overlap->segments && i < cells->count; i++) {
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
}

/* ---- the collective that caused exposed communication ---- */

/* The running collectives at a time that only advances, in order of their ends. A Fenwick tree counts how many of them
 * end before a given one, so that thousands of concurrent collectives stay cheap. */
struct active {
    struct mark *begins, *ends; /* [total], by time; equal ends: the first range last */
    uint32_t *place;            /* of each range in `ends` */
    uint32_t *counts;           /* [total + 1]: the tree */
    size_t next, total;         /* collectives from `next` on have not begun */
};

struct mark {
    int64_t time_ns, range;
};

static AORTA_ORDER(end_order, struct mark, AORTA_UP(time_ns) AORTA_DOWN(range));

static struct active active_begin(const struct aorta_profile *profile, struct aorta_arena *memory) {
    const size_t limit = profile->range_count;
    struct active active = {.begins = aorta_arena_raw(memory, limit * sizeof *active.begins),
                            .ends = aorta_arena_raw(memory, limit * sizeof *active.ends),
                            .place = aorta_arena_raw(memory, limit * sizeof *active.place),
                            .counts = aorta_arena_alloc(memory, (limit + 1) * sizeof *active.counts)};
    for (size_t i = 0; active.counts && i < limit; i++) {
        const struct aorta_range *range = &profile->ranges[i];
        if (range->info.kind != AORTA_RANGE_COLLECTIVE) continue;
        active.begins[active.total] = (struct mark){range->start_ns, (int64_t)i};
        active.ends[active.total++] = (struct mark){range->end_ns, (int64_t)i};
    }
    if (active.total) qsort(active.begins, active.total, sizeof *active.begins, aorta_by_int64_pair);
    if (active.total) qsort(active.ends, active.total, sizeof *active.ends, end_order);
    for (size_t i = 0; i < active.total; i++) active.place[active.ends[i].range] = (uint32_t)i;
    return active;
}

static void active_move(struct active *active, int64_t time_ns) {
    for (; active->next < active->total && active->begins[active->next].time_ns <= time_ns; active->next++)
        for (size_t i = active->place[active->begins[active->next].range] + 1; i <= active->total; i += i & -i)
            active->counts[i]++;
}

/* The number of begun collectives that end at or before this time. */
static size_t begun_until(const struct active *active, int64_t end_ns) {
    const size_t until =
        aorta_count_until(active->ends, active->total, sizeof *active->ends, offsetof(struct mark, time_ns), end_ns);
    size_t count = 0;
    for (size_t i = until; i; i -= i & -i) count += active->counts[i];
    return count;
}

/* The begun collective with exactly `before` earlier ends. */
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

/* The running collective that ends last within the wait. If none ends within the wait, the one that ends first. Among
 * equal ends, the first range. */
static size_t collective_to_blame(const struct active *active, int64_t time_ns, int64_t wait_end_ns) {
    const size_t within = begun_until(active, wait_end_ns);
    const struct mark *last = within ? begun_at(active, within - 1) : NULL;
    if (last && last->time_ns > time_ns) return (size_t)last->range;
    const int64_t first_ns = begun_at(active, within)->time_ns;
    return (size_t)begun_at(active, begun_until(active, first_ns) - 1)->range;
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

static void blame_collectives(const struct aorta_profile *profile, const struct cells *cells,
                              struct aorta_overlap *overlap, struct aorta_arena *memory) {
    overlap->exposed = malloc((cells->count + 1) * sizeof *overlap->exposed);
    struct aorta_arena scratch = {0};
    struct active active = active_begin(profile, &scratch);
    scratch.failed |= !overlap->exposed;
    size_t end = 0; /* end of the wait that contains cell i */
    for (size_t i = 0; !scratch.failed && i < cells->count; i++) {
        const struct cell *cell = &cells->items[i];
        if (!cell_exposed(cell)) continue;
        if (end <= i)
            for (end = i + 1; end < cells->count && cell_exposed(&cells->items[end]);) end++;
        active_move(&active, cell->start_ns);
        size_t range = collective_to_blame(&active, cell->start_ns, cells->items[end - 1].end_ns);
        overlap->kind[profile->ranges[range].info.collective].blamed_ns += cell->end_ns - cell->start_ns;
        add_exposed(overlap, cell, range);
    }
    aorta_arena_end(&scratch, memory);
    aorta_array_trim(&overlap->exposed, overlap->exposed_count, sizeof *overlap->exposed);
}

/* ---- causes of idle time ---- */

static void collect_waits(const struct aorta_profile *profile, struct aorta_host_waits *waits) {
    struct aorta_intervals data = {0}, device = {0};
    AORTA_EACH (const struct aorta_host_range, range, profile->host, profile->host_count) {
        if (range->kind == AORTA_HOST_ALLOCATION) continue; /* counts as late launches */
        struct aorta_intervals *set = range->kind == AORTA_HOST_DATA_WAIT ? &data : &device;
        aorta_intervals_add(set, range->start_ns, range->end_ns);
    }
    aorta_host_waits_make(&data, &device, waits);
}

static void explain_gap(const struct aorta_host_waits *waits, int64_t start_ns, int64_t end_ns, int64_t launch_ns,
                        struct aorta_idle *idle) {
    struct aorta_idle gap = aorta_idle_of_gap(waits, start_ns, end_ns, launch_ns);
    aorta_idle_add(idle, &gap);
}

static AORTA_POINTER_ORDER(by_start, struct aorta_range, AORTA_UP(start_ns) AORTA_UP(enqueue_ns));

/* Time without compute after the next compute was launched: it waited for another stream. */
static int64_t dependency_within(const struct cell *cell, const struct aorta_range *next) {
    if (cell->compute || !cell->roles || !next || next->enqueue_ns == INT64_MIN) return 0;
    int64_t from = next->enqueue_ns > cell->start_ns ? next->enqueue_ns : cell->start_ns;
    return from < cell->end_ns ? cell->end_ns - from : 0;
}

static void explain_idle(const struct aorta_profile *profile, const struct cells *cells, struct aorta_overlap *overlap,
                         struct aorta_arena *memory) {
    struct aorta_host_waits waits;
    size_t count = profile->range_count;
    const struct aorta_range **order = aorta_arena_raw(memory, count * sizeof *order);
    collect_waits(profile, &waits);
    if (order && count) {
        for (size_t i = 0; i < count; i++) order[i] = &profile->ranges[i];
        qsort(order, count, sizeof *order, by_start);
        explain_gap(&waits, profile->start_ns - overlap->lead_ns, profile->start_ns, order[0]->enqueue_ns,
                    &overlap->idle);
        const struct aorta_range *next_compute = NULL;
        for (size_t i = cells->count; i-- > 0;) { /* backwards, so that the next range is known */
            const struct cell *cell = &cells->items[i];
            while (count && order[count - 1]->start_ns >= cell->end_ns) {
                count--;
                if (order[count]->info.kind == AORTA_RANGE_COMPUTE) next_compute = order[count];
            }
            overlap->dependency_ns += dependency_within(cell, next_compute);
            if (cell->roles) continue;
            explain_gap(&waits, cell->start_ns, cell->end_ns, order[count]->enqueue_ns, &overlap->idle);
            if (count && order[count]->info.page_read && order[count - 1]->info.page_read)
                explain_gap(&waits, cell->start_ns, cell->end_ns, order[count]->enqueue_ns, &overlap->page_reads);
        }
    }
    memory->failed |= waits.device.failed;
    aorta_host_waits_free(&waits);
}

void aorta_overlap_make(struct aorta_profile *profile, int64_t previous_end_ns, struct aorta_arena *memory) {
    struct aorta_overlap *overlap = &profile->overlap;
    free(overlap->segments);
    free(overlap->exposed);
    *overlap = (struct aorta_overlap){0};
    int64_t from_ns = profile->start_ns;
    if (previous_end_ns != INT64_MIN && previous_end_ns < profile->start_ns)
        overlap->lead_ns = profile->start_ns - previous_end_ns;
    else if (previous_end_ns > from_ns) /* the next batch was copied early */
        from_ns = previous_end_ns < profile->end_ns ? previous_end_ns : profile->end_ns;
    overlap->span_ns = profile->end_ns - from_ns;
    struct cells cells = {0};
    struct aorta_arena scratch = {0};
    cut_cells(profile, from_ns, &cells, &scratch);
    sum_cells(profile, &cells, overlap);
    merge_segments(&cells, overlap, &scratch);
    blame_collectives(profile, &cells, overlap, &scratch);
    explain_idle(profile, &cells, overlap, &scratch);
    aorta_arena_end(&scratch, memory);
}

aorta_status aorta_overlap_compute(struct aorta_profile *profile, int64_t previous_end_ns) {
    struct aorta_arena memory = {0};
    aorta_overlap_make(profile, previous_end_ns, &memory);
    return aorta_arena_check(&memory, "the overlap of a step");
}
