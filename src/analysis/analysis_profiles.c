/* Each window as the engine's kernel view (measure/kernels.h): one range per kernel and copy, times on the ranks'
 * common clock, launches from the calls of the host. */
#include "analysis/analysis_internal.h"
#include "analysis/gradients.h"
#include "base/array.h"

#include <stdlib.h>
#include <string.h>

/* While the windows of a rank are filled. */
struct filling {
    struct aorta_trace_rank *rank;
    int64_t shift_ns;                         /* own clock − common clock */
    const struct aorta_trace_part *all_parts; /* of all ranks: a part's place there is its own number */
    struct aorta_trace_part *parts;
    size_t part_count;
    const struct aorta_host_waits *waits;
    uint32_t *carried; /* work that began in an earlier window and still ran at its end */
    size_t carried_count, next;
};

static struct aorta_trace_part *part_of(const struct filling *filling, uint32_t work) {
    return aorta_trace_part_of(filling->parts, filling->part_count, work);
}

/* ---- one range ---- */

/* What distinguishes matrix products: their arithmetic, else the dims of their inputs, else how they were launched. */
static void describe_product(const struct aorta_trace *trace, const struct aorta_trace_work *work,
                             struct aorta_range_info *info) {
    double flops = aorta_trace_flops(trace, work->shape);
    info->flops = flops > 0 ? flops : 0;
    if (info->flops > 0 || work->geometry == AORTA_TRACE_NONE) return; /* only matrix products have a geometry */
    info->by_grid = work->shape == AORTA_TRACE_NONE;
    info->alike = aorta_trace_text(trace, info->by_grid ? work->geometry : trace->shapes[work->shape].dims);
}

/* `whole`: the range is not the rest of a kernel that began in the window before. */
static void describe_collective(const struct filling *filling, uint32_t work, bool whole, struct aorta_range *range) {
    const struct aorta_trace_part *part = part_of(filling, work);
    range->info.kind = AORTA_RANGE_COLLECTIVE;
    range->info.collective = part->kind;
    range->info.bytes = part->bytes > 0 ? part->bytes : 0;
    range->info.group = part->group == AORTA_TRACE_NONE ? -1 : (int)part->group;
    range->info.activations = aorta_brings_activations(filling->rank, &filling->rank->work[work]);
    range->info.group_size = part->group_size > 0 ? part->group_size : 0;
    /* A rest is paired with nothing: its group never counts as complete, and its bandwidth is not compared. */
    bool paired = whole && part->collective != AORTA_TRACE_NONE;
    range->sequence = paired ? (int64_t)part->collective : -1 - (int64_t)(part - filling->all_parts);
}

static struct aorta_range range_of(const struct filling *filling, uint32_t row,
                                   const struct aorta_trace_window *window) {
    const struct aorta_trace *trace = filling->rank->trace;
    const struct aorta_trace_work *work = &filling->rank->work[row];
    const char *name = aorta_trace_text(trace, work->name);
    bool whole = work->start_ns >= window->start_ns;
    int64_t start_ns = whole ? work->start_ns : window->start_ns;
    int64_t end_ns = work->end_ns < window->end_ns ? work->end_ns : window->end_ns;
    struct aorta_range range = {
        .info = {.tag = name, .function = name, .layer = -1, .flops = 0},
        .start_ns = start_ns - filling->shift_ns,
        .end_ns = end_ns - filling->shift_ns,
        .enqueue_ns =
            work->call == AORTA_TRACE_NONE ? INT64_MIN : trace->calls[work->call].start_ns - filling->shift_ns,
        .stream = (int)work->stream,
    };
    if (work->kind != AORTA_TRACE_KERNEL) {
        range.info.kind = AORTA_RANGE_COPY;
        range.info.bytes = work->bytes > 0 ? work->bytes : 0;
    } else if (aorta_trace_is_collective(work))
        describe_collective(filling, row, whole, &range);
    else
        describe_product(trace, work, &range.info);
    range.info.role = aorta_usual_role(range.info.kind, range.info.collective);
    return range;
}

/* ---- one window ---- */

/* How many ranges each window has at most: work belongs to the first that ends after its start, and its rest to those
 * that it still runs in. */
static void count_ranges(struct aorta_trace_rank *rank) {
    struct aorta_trace_window *window = rank->windows, *const end = window + rank->window_count;
    for (size_t i = 0; i < rank->work_count; i++) {
        while (window + 1 < end && window->end_ns <= rank->work[i].start_ns) window++;
        window->profile.range_count++;
        for (struct aorta_trace_window *next = window + 1; next < end && next->start_ns < rank->work[i].end_ns; next++)
            next->profile.range_count++;
    }
}

aorta_status aorta_trace_ranges_reserve(struct aorta_trace_rank *rank) {
    if (!rank->window_count || rank->windows[0].borrowed) return NULL;
    count_ranges(rank);
    for (size_t i = 0; i < rank->window_count; i++) {
        struct aorta_profile *profile = &rank->windows[i].profile;
        profile->ranges = malloc((profile->range_count + 1) * sizeof *profile->ranges);
        if (!profile->ranges) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu kernels", profile->range_count);
    }
    return NULL;
}

static void add_range(struct filling *filling, uint32_t row, struct aorta_trace_window *window) {
    struct aorta_profile *profile = &window->profile;
    struct aorta_range *range = &profile->ranges[profile->range_count];
    *range = range_of(filling, row, window);
    window->shared[profile->range_count] = range->sequence < 0 || range->info.kind != AORTA_RANGE_COLLECTIVE
                                               ? AORTA_TRACE_NONE
                                               : (uint32_t)range->sequence;
    window->work[profile->range_count++] = row;
    if (profile->range_count == 1 || range->start_ns < profile->start_ns) profile->start_ns = range->start_ns;
    if (profile->range_count == 1 || range->end_ns > profile->end_ns) profile->end_ns = range->end_ns;
}

static void fill_ranges(struct filling *filling, struct aorta_trace_window *window) {
    const struct aorta_trace_work *work = filling->rank->work;
    size_t count = 0;
    for (size_t i = 0; i < filling->carried_count; i++) {
        uint32_t row = filling->carried[i];
        if (work[row].end_ns <= window->start_ns) continue;
        add_range(filling, row, window);
        if (work[row].end_ns > window->end_ns) filling->carried[count++] = row;
    }
    filling->carried_count = count;
    for (; filling->next < filling->rank->work_count && work[filling->next].start_ns < window->end_ns;
         filling->next++) {
        uint32_t row = (uint32_t)filling->next;
        add_range(filling, row, window);
        if (work[row].end_ns > window->end_ns) filling->carried[filling->carried_count++] = row;
    }
}

/* The waits of the host from `from_ns` on. */
static void add_host(struct aorta_profile *profile, enum aorta_host_kind kind, const struct aorta_intervals *set,
                     int64_t from_ns, int64_t shift_ns) {
    for (size_t i = aorta_intervals_first_after(set, from_ns + shift_ns); i < set->count; i++) {
        if (set->items[i].start_ns >= profile->end_ns + shift_ns) break;
        profile->host[profile->host_count++] =
            (struct aorta_host_range){kind, set->items[i].start_ns - shift_ns, set->items[i].end_ns - shift_ns};
    }
}

static size_t count_host(const struct aorta_intervals *set, int64_t from_ns, int64_t to_ns) {
    size_t first = aorta_intervals_first_after(set, from_ns), last = aorta_intervals_first_after(set, to_ns);
    return last - first + 1;
}

static aorta_status fill_host(const struct filling *filling, int64_t from_ns, struct aorta_profile *profile) {
    const struct aorta_host_waits *waits = filling->waits;
    int64_t shift = filling->shift_ns;
    size_t limit = count_host(&waits->data, from_ns + shift, profile->end_ns + shift) +
                   count_host(&waits->device, from_ns + shift, profile->end_ns + shift);
    profile->host = malloc((limit + 1) * sizeof *profile->host);
    if (!profile->host) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu waits", limit);
    add_host(profile, AORTA_HOST_DATA_WAIT, &waits->data, from_ns, shift);
    add_host(profile, AORTA_HOST_SYNC, &waits->device, from_ns, shift);
    aorta_array_trim(&profile->host, profile->host_count, sizeof *profile->host);
    return NULL;
}

static aorta_status fill_window(struct filling *filling, struct aorta_trace_window *window, int64_t previous_end_ns) {
    struct aorta_profile *profile = &window->profile;
    const size_t limit = profile->range_count + 1;
    *profile =
        (struct aorta_profile){.index = window->number, .source = AORTA_SOURCE_KERNEL, .ranges = profile->ranges};
    window->work = malloc(limit * sizeof *window->work);
    window->shared = malloc(limit * sizeof *window->shared);
    if (!window->work || !window->shared) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu kernels", limit);
    fill_ranges(filling, window);
    int64_t from_ns = previous_end_ns == INT64_MIN ? profile->start_ns : previous_end_ns;
    if (profile->range_count) AORTA_TRY(fill_host(filling, from_ns, profile));
    return aorta_overlap_compute(profile, previous_end_ns, &window->overlap);
}

static void blame_parts(const struct filling *filling, const struct aorta_trace_window *window) {
    for (size_t i = 0; i < window->overlap.exposed_count; i++) {
        const struct aorta_exposed *exposed = &window->overlap.exposed[i];
        struct aorta_trace_part *part = part_of(filling, window->work[exposed->range]);
        part->blamed_ns += exposed->end_ns - exposed->start_ns;
    }
}

/* Measured steps have their ranges; which of them other ranks recorded as well is new. */
static aorta_status link_shared(const struct filling *filling, struct aorta_trace_window *window) {
    const size_t count = window->profile.range_count;
    window->shared = malloc((count + 1) * sizeof *window->shared);
    if (!window->shared) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu ranges", count);
    for (size_t i = 0; i < count; i++) {
        const struct aorta_trace_part *part = part_of(filling, window->work[i]);
        window->shared[i] = part ? part->collective : AORTA_TRACE_NONE;
    }
    return NULL;
}

aorta_status aorta_trace_profiles_make(struct aorta_trace_rank *rank, int64_t shift_ns,
                                       const struct aorta_trace_parts *parts, size_t place,
                                       const struct aorta_host_waits *waits) {
    struct filling filling = {.rank = rank,
                              .shift_ns = shift_ns,
                              .all_parts = parts->items,
                              .parts = parts->items + parts->first[place],
                              .part_count = parts->first[place + 1] - parts->first[place],
                              .waits = waits,
                              .carried = malloc((rank->work_count + 1) * sizeof *filling.carried)};
    if (!filling.carried) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu kernels", rank->work_count);
    aorta_status status = filling.part_count ? aorta_trace_infers(rank, &rank->infers) : NULL;
    int64_t previous_end_ns = INT64_MIN;
    for (size_t i = 0; !status && i < rank->window_count; i++) {
        struct aorta_trace_window *window = &rank->windows[i];
        if (window->borrowed) {
            status = link_shared(&filling, window);
            if (!status) blame_parts(&filling, window);
            continue;
        }
        if (i && window[-1].end_ns != window->start_ns) previous_end_ns = INT64_MIN; /* a step was left out between */
        status = fill_window(&filling, window, previous_end_ns);
        if (status) break;
        if (window->profile.range_count) previous_end_ns = window->profile.end_ns;
        blame_parts(&filling, window);
    }
    free(filling.carried);
    return status;
}
