/* Unions of a rank's work, its gaps, and the profile of each window. */
#include "analysis/analysis_internal.h"
#include "analysis/phases.h"
#include "base/array.h"
#include "trace/trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Unions and intersections of a rank's work are made in one pass, as the work is sorted by start. */

void aorta_trace_busy_make(const struct aorta_trace_rank *rank, struct aorta_trace_busy *busy) {
    *busy = (struct aorta_trace_busy){0};
    AORTA_EACH (const struct aorta_trace_work, work, rank->work, rank->work_count) {
        struct aorta_intervals *set = work->kind != AORTA_TRACE_KERNEL  ? &busy->copy
                                      : aorta_trace_is_collective(work) ? &busy->comm
                                                                        : &busy->compute;
        aorta_intervals_add(set, work->start_ns, work->end_ns);
        aorta_intervals_add(&busy->all, work->start_ns, work->end_ns);
    }
    busy->compute.failed |= busy->comm.failed || busy->copy.failed || busy->all.failed;
}

void aorta_trace_busy_free(struct aorta_trace_busy *busy) {
    aorta_intervals_free(&busy->compute);
    aorta_intervals_free(&busy->comm);
    aorta_intervals_free(&busy->copy);
    aorta_intervals_free(&busy->all);
}

static int64_t exposed_copies(struct aorta_trace_busy *busy, struct aorta_arena *memory) {
    struct aorta_intervals other = {0}, rest = {0};
    aorta_intervals_union(&busy->compute, &busy->comm, &other);
    aorta_intervals_subtract(&busy->copy, &other, &rest);
    const int64_t exposed_ns = aorta_intervals_length(&rest);
    aorta_intervals_free(&other);
    aorta_intervals_end(&rest, memory);
    return exposed_ns;
}

/* Finds the gap at the end of each chosen step whose successor was not chosen. */
static void find_holes(struct aorta_trace_rank *rank, const struct aorta_intervals *all) {
    for (size_t i = 0; i + 1 < rank->window_count; i++) {
        int64_t end_ns = rank->windows[i].end_ns;
        if (rank->windows[i + 1].start_ns == end_ns) continue;
        size_t next = aorta_intervals_first_after(all, end_ns);
        if (next == 0 || next == all->count) continue;
        aorta_intervals_add(&rank->holes, all->items[next - 1].end_ns, all->items[next].start_ns);
    }
}

void aorta_trace_figures_make(struct aorta_trace_rank *rank, struct aorta_trace_busy *busy) {
    struct aorta_trace_figures *figures = &rank->figures;
    struct aorta_intervals both = {0};
    *figures = (struct aorta_trace_figures){.overlap_ratio = NAN, .compute_overlap_ratio = NAN};
    figures->start_ns = rank->work[0].start_ns;
    figures->end_ns = rank->work[0].end_ns;
    for (size_t i = 0; i < rank->work_count; i++)
        if (rank->work[i].end_ns > figures->end_ns) figures->end_ns = rank->work[i].end_ns;
    aorta_intervals_intersect(&busy->compute, &busy->comm, &both);
    find_holes(rank, &busy->all);
    figures->span_ns = figures->end_ns - figures->start_ns - aorta_intervals_length(&rank->holes);
    figures->compute_ns = aorta_intervals_length(&busy->compute);
    figures->comm_ns = aorta_intervals_length(&busy->comm);
    figures->memcpy_ns = aorta_intervals_length(&busy->copy);
    figures->busy_ns = aorta_intervals_length(&busy->all);
    figures->idle_ns = figures->span_ns - figures->busy_ns;
    figures->overlap_ns = aorta_intervals_length(&both);
    figures->exposed_comm_ns = figures->comm_ns - figures->overlap_ns;
    if (figures->comm_ns) figures->overlap_ratio = (double)figures->overlap_ns / (double)figures->comm_ns;
    if (figures->compute_ns) figures->compute_overlap_ratio = (double)figures->overlap_ns / (double)figures->compute_ns;
    rank->memory.failed |= rank->holes.failed;
    aorta_intervals_end(&both, &rank->memory);
    figures->exposed_copy_ns = exposed_copies(busy, &rank->memory);
}

/* ---- waits of the host: only of threads that launch work, as a waiting watchdog delays nothing ---- */

/* The end of the time lost by a wait of length d: it includes up to d of the time until the thread's next launch. */
static int64_t lost_until(const struct aorta_trace_call *call, int64_t next_launch_ns) {
    int64_t until_ns = call->end_ns + (call->end_ns - call->start_ns);
    if (next_launch_ns < until_ns) until_ns = next_launch_ns;
    return until_ns > call->end_ns ? until_ns : call->end_ns;
}

void aorta_trace_waits_make(struct aorta_trace_rank *rank, struct aorta_host_waits *waits) {
    const struct aorta_trace *trace = rank->trace;
    struct aorta_arena scratch = {0};
    int64_t *next_ns = aorta_arena_raw(&scratch, trace->thread_count * sizeof *next_ns); /* the thread's next launch */
    bool *launching = aorta_trace_launching_threads(trace, &scratch);
    struct aorta_intervals data = {0}, device = {0};
    for (size_t i = 0; next_ns && i < trace->thread_count; i++) next_ns[i] = INT64_MAX;
    for (size_t i = trace->call_count;
         next_ns && launching && i-- > 0;) { /* backwards, so that the next launch is known */
        const struct aorta_trace_call *call = &trace->calls[i];
        if (call->kind == AORTA_CALL_DATA_WAIT)
            aorta_intervals_add(&data, call->start_ns, call->end_ns);
        else if (launching[call->thread] && aorta_trace_call_waits(trace, call))
            aorta_intervals_add(&device, call->start_ns, lost_until(call, next_ns[call->thread]));
        if (aorta_trace_call_launches(call)) next_ns[call->thread] = call->start_ns;
    }
    aorta_host_waits_make(&data, &device, waits);
    rank->memory.failed |= waits->device.failed;
    aorta_arena_end(&scratch, &rank->memory);
}

/* ---- gaps ---- */

/* The work with the earliest launch among the work that starts at the gap's end. `from`: first row with that start. */
static size_t first_launched(const struct aorta_trace_rank *rank, size_t from) {
    size_t best = from;
    for (size_t i = from + 1; i < rank->work_count && rank->work[i].start_ns == rank->work[from].start_ns; i++)
        if (aorta_trace_launched_ns(rank->trace, &rank->work[i]) <
            aorta_trace_launched_ns(rank->trace, &rank->work[best]))
            best = i;
    return best;
}

static int64_t length_of(const struct aorta_trace_gap *gap) {
    return gap->end_ns - gap->start_ns;
}

/* Stores the gap if it is among the longest. Sorted, longest first; of equal gaps the earlier one first. */
static void keep_longest(struct aorta_trace_rank *rank, const struct aorta_trace_gap *gap, size_t keep) {
    size_t at = rank->gap_count;
    while (at > 0 && length_of(&rank->gaps[at - 1]) < length_of(gap)) at--;
    if (at == keep) return;
    if (rank->gap_count < keep) rank->gap_count++;
    memmove(rank->gaps + at + 1, rank->gaps + at, (rank->gap_count - at - 1) * sizeof *gap);
    rank->gaps[at] = *gap;
}

/* Sets the host's longest call during the gap, and the program's innermost range there. */
static void look_at_host(const struct aorta_trace *trace, struct aorta_trace_gap *gap) {
    int64_t until_ns = gap->launch_ns == INT64_MIN || gap->launch_ns > gap->end_ns ? gap->end_ns : gap->launch_ns;
    int64_t longest_ns = 0;
    for (size_t i = 0; i < trace->call_count && trace->calls[i].start_ns < until_ns; i++) {
        const struct aorta_trace_call *call = &trace->calls[i];
        int64_t from_ns = call->start_ns > gap->start_ns ? call->start_ns : gap->start_ns;
        int64_t to_ns = call->end_ns < until_ns ? call->end_ns : until_ns;
        if (to_ns - from_ns <= longest_ns) continue;
        longest_ns = to_ns - from_ns;
        gap->call = (uint32_t)i;
    }
    int64_t middle_ns = gap->start_ns + (until_ns - gap->start_ns) / 2;
    for (size_t i = 0; i < trace->annotation_count && trace->annotations[i].start_ns <= middle_ns; i++)
        if (middle_ns < trace->annotations[i].end_ns) gap->annotation = (uint32_t)i; /* later starts are further in */
}

static int64_t step_at(const struct aorta_trace_rank *rank, int64_t time_ns) {
    for (size_t i = 0; i < rank->window_count; i++)
        if (rank->windows[i].start_ns <= time_ns && time_ns < rank->windows[i].end_ns) return rank->windows[i].number;
    return INT64_MIN;
}

/* Work of length 0 also ends a gap and begins the next. */
void aorta_trace_gaps_make(struct aorta_trace_rank *rank, const struct aorta_host_waits *waits, size_t keep) {
    rank->gaps = aorta_arena_alloc(&rank->memory, (keep + 1) * sizeof *rank->gaps);
    if (!rank->gaps) return;
    int64_t busy_until_ns = rank->figures.start_ns;
    for (size_t i = 0; i < rank->work_count; i++) {
        const struct aorta_trace_work *work = &rank->work[i];
        struct aorta_trace_gap gap = {.start_ns = busy_until_ns,
                                      .end_ns = work->start_ns,
                                      .call = AORTA_TRACE_NONE,
                                      .annotation = AORTA_TRACE_NONE};
        if (work->end_ns > busy_until_ns) busy_until_ns = work->end_ns;
        if (gap.end_ns <= gap.start_ns || aorta_intervals_within(&rank->holes, gap.start_ns, gap.end_ns)) continue;
        gap.next = first_launched(rank, i);
        gap.launch_ns = aorta_trace_launched_ns(rank->trace, &rank->work[gap.next]);
        gap.idle = aorta_idle_of_gap(waits, gap.start_ns, gap.end_ns, gap.launch_ns);
        aorta_idle_add(&rank->idle, &gap.idle);
        keep_longest(rank, &gap, keep);
    }
    for (size_t i = 0; i < rank->gap_count; i++) {
        rank->gaps[i].step = step_at(rank, rank->gaps[i].end_ns);
        look_at_host(rank->trace, &rank->gaps[i]);
    }
}

/* Profiles of windows are kernel views (measure/kernels.c): one range per kernel and copy, times on the ranks' common
 * clock, launches from the host's calls. */

/* State while the windows of a rank are filled. */
struct filling {
    struct aorta_trace_rank *rank;
    int64_t shift_ns;                         /* own clock − common clock */
    const struct aorta_trace_part *all_parts; /* of all ranks: a part's index here is its number */
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

/* Sets what distinguishes matrix products: flops, else the dims of inputs, else the launch geometry. */
static void describe_product(const struct aorta_trace *trace, const struct aorta_trace_work *work,
                             struct aorta_range_info *info) {
    double flops = aorta_trace_flops(trace, work->shape);
    info->flops = flops > 0 ? flops : 0;
    if (info->flops > 0 || work->geometry == AORTA_TRACE_NONE) return; /* only matrix products have a geometry */
    info->by_grid = work->shape == AORTA_TRACE_NONE;
    info->alike = aorta_trace_text(trace, info->by_grid ? work->geometry : trace->shapes[work->shape].dims);
}

/* `whole` is false for the rest of a kernel that began in an earlier window. */
static void describe_collective(const struct filling *filling, uint32_t work, bool whole, struct aorta_range *range) {
    const struct aorta_trace_part *part = part_of(filling, work);
    range->info.kind = AORTA_RANGE_COLLECTIVE;
    range->info.collective = part->kind;
    range->info.bytes = part->bytes > 0 ? part->bytes : 0;
    range->info.group = part->group == AORTA_TRACE_NONE ? -1 : (int)part->group;
    range->info.activations = aorta_brings_activations(filling->rank, &filling->rank->work[work]);
    range->info.group_size = part->group_size > 0 ? part->group_size : 0;
    /* A rest is not paired, so that its group is incomplete and its bandwidth is not compared. */
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
            work->call == AORTA_TRACE_NONE ? INT64_MIN : aorta_trace_launched_ns(trace, work) - filling->shift_ns,
        .stream = (int)work->stream,
    };
    if (work->kind != AORTA_TRACE_KERNEL) {
        range.info.kind = AORTA_RANGE_COPY;
        range.info.page_read = aorta_trace_page_moved(trace, work) == AORTA_COPIED_TO_HOST;
        range.info.bytes = work->bytes > 0 ? work->bytes : 0;
    } else if (aorta_trace_is_collective(work))
        describe_collective(filling, row, whole, &range);
    else
        describe_product(trace, work, &range.info);
    range.info.role = aorta_usual_role(range.info.kind, range.info.collective);
    return range;
}

/* ---- one window ---- */

/* Sets the maximum number of ranges per window: work is in the first window that ends after its start, and in all later
 * windows in which it still runs. */
static void count_ranges(struct aorta_trace_rank *rank) {
    struct aorta_trace_window *window = rank->windows, *const end = window + rank->window_count;
    for (size_t i = 0; i < rank->work_count; i++) {
        while (window + 1 < end && window->end_ns <= rank->work[i].start_ns) window++;
        window->profile.range_count++;
        for (struct aorta_trace_window *next = window + 1; next < end && next->start_ns < rank->work[i].end_ns; next++)
            next->profile.range_count++;
    }
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

/* Adds the host's waits from `from_ns` on. */
static void add_host(struct aorta_profile *profile, enum aorta_host_kind kind, const struct aorta_intervals *set,
                     int64_t from_ns, int64_t shift_ns) {
    for (size_t i = aorta_intervals_first_after(set, from_ns + shift_ns); i < set->count; i++) {
        if (set->items[i].start_ns >= profile->end_ns + shift_ns) break;
        profile->host[profile->host_count++] =
            (struct aorta_host_range){kind, set->items[i].start_ns - shift_ns, set->items[i].end_ns - shift_ns};
    }
}

static void fill_host(const struct filling *filling, int64_t from_ns, struct aorta_profile *profile) {
    const struct aorta_host_waits *waits = filling->waits;
    int64_t shift = filling->shift_ns;
    profile->host = malloc((waits->data.count + waits->device.count + 1) * sizeof *profile->host);
    filling->rank->memory.failed |= !profile->host;
    if (!profile->host) return;
    add_host(profile, AORTA_HOST_DATA_WAIT, &waits->data, from_ns, shift);
    add_host(profile, AORTA_HOST_SYNC, &waits->device, from_ns, shift);
    aorta_array_trim(&profile->host, profile->host_count, sizeof *profile->host);
}

static void fill_window(struct filling *filling, struct aorta_trace_window *window, int64_t previous_end_ns) {
    struct aorta_profile *profile = &window->profile;
    struct aorta_arena *memory = &filling->rank->memory;
    const size_t count = profile->range_count;
    *profile = (struct aorta_profile){.index = window->number,
                                      .source = AORTA_SOURCE_KERNEL,
                                      .ranges = malloc((count + 1) * sizeof *profile->ranges)};
    memory->failed |= !profile->ranges;
    window->work = aorta_arena_raw(memory, count * sizeof *window->work);
    window->shared = aorta_arena_raw(memory, count * sizeof *window->shared);
    if (memory->failed) return;
    fill_ranges(filling, window);
    int64_t from_ns = previous_end_ns == INT64_MIN ? profile->start_ns : previous_end_ns;
    if (profile->range_count) fill_host(filling, from_ns, profile);
    if (!memory->failed) aorta_overlap_make(profile, previous_end_ns, memory);
}

static size_t count_steps(const struct aorta_trace_rank *rank) {
    size_t count = 0;
    for (size_t i = 0; i < rank->window_count; i++) count += rank->windows[i].number != INT64_MIN;
    return count;
}

static const struct aorta_trace_step *step_of(const struct filling *filling, const struct aorta_trace_window *window) {
    const struct aorta_trace *trace = filling->rank->trace;
    AORTA_EACH (const struct aorta_trace_step, step, trace->steps, trace->step_count)
        if (step->number == window->number && (!step->of_device || step->device == filling->rank->device)) return step;
    return NULL;
}

/* The first of one or two steps begins at its mark, or at a later end of the work before it. The host's mark does not
 * count if the first work had to wait, as the device was then busy with unrecorded work. A short wait after a long time
 * without launches is no sign of such work. */
static int64_t first_begin(const struct filling *filling, const struct aorta_trace_window *window,
                           int64_t previous_end_ns) {
    enum { CHANCE = 20 };
    static const int64_t soon_ns = 200000;
    const struct aorta_trace *trace = filling->rank->trace;
    if (window->number == INT64_MIN || trace->steps_by > AORTA_STEPS_BY_ENGINE) return previous_end_ns;
    if (filling->next == filling->rank->work_count || count_steps(filling->rank) >= AORTA_STEPS_TO_LEAVE_ONE)
        return previous_end_ns;
    const struct aorta_trace_step *step = step_of(filling, window);
    const struct aorta_trace_work *first = &filling->rank->work[filling->next];
    const int64_t launched_ns = aorta_trace_launched_ns(trace, first);
    int64_t mark_ns = !step ? INT64_MIN : step->of_device ? step->device_start_ns : step->start_ns;
    if (mark_ns == INT64_MIN) return previous_end_ns;
    if (!step->of_device) {
        const int64_t waited_ns = launched_ns == INT64_MIN ? INT64_MAX : first->start_ns - launched_ns;
        if (waited_ns > soon_ns && (launched_ns == INT64_MIN || waited_ns > (launched_ns - mark_ns) / CHANCE))
            return previous_end_ns;
    }
    mark_ns -= filling->shift_ns;
    return mark_ns > previous_end_ns ? mark_ns : previous_end_ns;
}

static void blame_parts(const struct filling *filling, const struct aorta_trace_window *window) {
    AORTA_EACH (const struct aorta_exposed, exposed, window->profile.overlap.exposed,
                window->profile.overlap.exposed_count) {
        struct aorta_trace_part *part = part_of(filling, window->work[exposed->range]);
        part->blamed_ns += exposed->end_ns - exposed->start_ns;
    }
}

/* Measured steps have ranges already; only links to other ranks are set. */
static void link_shared(const struct filling *filling, struct aorta_trace_window *window) {
    const size_t count = window->profile.range_count;
    window->shared = aorta_arena_raw(&filling->rank->memory, count * sizeof *window->shared);
    for (size_t i = 0; window->shared && i < count; i++) {
        const struct aorta_trace_part *part = part_of(filling, window->work[i]);
        window->shared[i] = part ? part->collective : AORTA_TRACE_NONE;
    }
}

void aorta_trace_profiles_make(struct aorta_trace_rank *rank, int64_t shift_ns, const struct aorta_trace_parts *parts,
                               size_t place, const struct aorta_host_waits *waits) {
    struct aorta_arena scratch = {0};
    struct filling filling = {.rank = rank,
                              .shift_ns = shift_ns,
                              .all_parts = parts->items,
                              .parts = parts->items + parts->first[place],
                              .part_count = parts->first[place + 1] - parts->first[place],
                              .waits = waits,
                              .carried = aorta_arena_raw(&scratch, rank->work_count * sizeof *filling.carried)};
    rank->trains = aorta_trace_trains(rank, &scratch);
    rank->infers = aorta_trace_infers(rank);
    int64_t previous_end_ns = INT64_MIN;
    if (rank->window_count && !rank->windows[0].borrowed) count_ranges(rank);
    for (size_t i = 0; i < rank->window_count; i++) {
        struct aorta_trace_window *window = &rank->windows[i];
        if (scratch.failed || rank->memory.failed) break;
        if (window->borrowed) {
            link_shared(&filling, window);
            blame_parts(&filling, window);
            continue;
        }
        if (i && window[-1].end_ns != window->start_ns) previous_end_ns = INT64_MIN; /* a step between was not chosen */
        if (!i || window[-1].number == INT64_MIN || previous_end_ns == INT64_MIN)
            previous_end_ns = first_begin(&filling, window, previous_end_ns);
        window->led = previous_end_ns != INT64_MIN;
        fill_window(&filling, window, previous_end_ns);
        if (window->profile.range_count) previous_end_ns = window->profile.end_ns;
        blame_parts(&filling, window);
    }
    aorta_arena_end(&scratch, &rank->memory);
}
