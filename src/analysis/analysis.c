/* Makes the ranks, one per device of each trace, and runs the parts of the analysis in order.
 */
#include "analysis/analysis_internal.h"
#include "base/parallel.h"
#include "base/sort.h"
#include "trace/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Peak bandwidth of a GPU's links to the other GPUs of its host, by GPU name, in bytes per ns and direction. NVLink:
 * NVIDIA's data sheets (PCIe cards of the same name have no NVLink). Infinity Fabric, seven links: AMD's data sheets of
 * MI300X, MI325X, MI350X and MI355X. */
static const struct {
    const char *name;
    double gbps;
} links[] = {{"H100", 450},   {"H200", 450},   {"GH200", 450},  {"A100", 300},   {"B200", 900},
             {"GB200", 900},  {"B300", 900},   {"MI300X", 448}, {"MI308X", 448}, {"MI325X", 448},
             {"MI350X", 538}, {"MI355X", 538}, {"H800", 200},   {"H20", 450},    {"V100", 150}};

double aorta_link_gbps(const struct aorta_trace *trace, int32_t device) {
    const struct aorta_trace_device *found = aorta_trace_device_of(trace, device);
    const char *name = found ? aorta_trace_text(trace, found->name) : "";
    for (size_t i = 0; i < sizeof links / sizeof *links && !strcasestr(name, "PCIe"); i++)
        if (strcasestr(name, links[i].name)) return links[i].gbps;
    return 0;
}

double aorta_trace_link_of(const struct aorta_trace_analysis *analysis, const struct aorta_trace_rank *rank,
                           const struct aorta_trace_collective_row *row) {
    int32_t size = row->group == AORTA_TRACE_NONE ? -1 : analysis->groups[row->group].size;
    return size > 1 && size <= AORTA_LINK_RANKS ? aorta_link_gbps(rank->trace, rank->device) : 0;
}

enum { UNNUMBERED = -1, MOST_DEVICES = 1024 };

/* ---- the devices of a trace ---- */

/* The trace's devices, sorted and unique. Neighbouring work mostly shares a device, so the unsorted list is short. */
static size_t devices_of(const struct aorta_trace *trace, int32_t *found) {
    size_t used = 0;
    for (size_t i = 0; i < trace->work_count; i++)
        if (!used || found[used - 1] != trace->work[i].device) found[used++] = trace->work[i].device;
    return aorta_sort_unique(found, used, sizeof *found, aorta_by_int32);
}

static bool only_measures(const struct aorta_trace_work *work) {
    return work->kind == AORTA_TRACE_KERNEL && aorta_kernel_only_measures((enum aorta_kernel_class)work->class);
}

/* Uses the trace's own array if all work belongs to the rank, else a copy of the rank's part. */
static void take_work(struct aorta_trace_rank *rank) {
    const struct aorta_trace *trace = rank->trace;
    size_t mine = 0;
    AORTA_EACH (const struct aorta_trace_work, work, trace->work, trace->work_count) {
        if (work->device != rank->device) continue;
        if (!only_measures(work)) {
            mine++;
            continue;
        }
        rank->stamps++;
        rank->stamps_ns += work->end_ns - work->start_ns;
    }
    rank->work = trace->work;
    rank->work_count = mine;
    if (mine == trace->work_count) return;
    struct aorta_trace_work *own = aorta_arena_raw(&rank->memory, mine * sizeof *own);
    rank->source = aorta_arena_raw(&rank->memory, mine * sizeof *rank->source);
    size_t used = 0;
    for (size_t i = 0; rank->source && i < trace->work_count; i++) {
        if (trace->work[i].device != rank->device || only_measures(&trace->work[i])) continue;
        rank->source[used] = (uint32_t)i;
        own[used++] = trace->work[i];
    }
    rank->work = own;
}

/* ---- numbers of ranks ---- */

/* Whether two traces are of one recording, stored twice for two viewers. */
static bool same_recording(const struct aorta_trace *a, const struct aorta_trace *b) {
    if (a->format != b->format || a->rank != b->rank || a->base_ns != b->base_ns) return false;
    if (a->work_count != b->work_count || a->call_count != b->call_count || !a->work_count) return false;
    const struct aorta_trace_work *first = &a->work[0], *last = &a->work[a->work_count - 1];
    return first->start_ns == b->work[0].start_ns && last->start_ns == b->work[b->work_count - 1].start_ns &&
           last->end_ns == b->work[b->work_count - 1].end_ns && first->correlation == b->work[0].correlation;
}

static bool seen_before(const struct aorta_trace_list *list, size_t trace) {
    for (size_t i = 0; i < trace; i++)
        if (same_recording(list->items[i], list->items[trace])) return true;
    return false;
}

static aorta_status check_ranks(const struct aorta_trace_analysis *analysis) {
    for (size_t i = 0; i < analysis->rank_count; i++)
        AORTA_EACH (const struct aorta_trace_rank, a, analysis->ranks, i) {
            const struct aorta_trace_rank *b = &analysis->ranks[i];
            if (a->rank == b->rank && b->rank != UNNUMBERED)
                return AORTA_ERROR(AORTA_USAGE,
                                   "%s and %s are both of rank %d: name one file for each rank, not the folder (two "
                                   "runs go to aorta trace compare, by their files)",
                                   a->trace->path, b->trace->path, a->rank);
        }
    return NULL;
}

static bool taken(const struct aorta_trace_analysis *analysis, int number) {
    for (size_t i = 0; i < analysis->rank_count; i++)
        if (analysis->ranks[i].rank == number) return true;
    return false;
}

static void number_the_others(struct aorta_trace_analysis *analysis) {
    int next = 0;
    for (size_t i = 0; i < analysis->rank_count; i++) {
        if (analysis->ranks[i].rank != UNNUMBERED) continue;
        while (taken(analysis, next)) next++;
        analysis->ranks[i].rank = next;
    }
}

/* Drops devices without kernels if other devices of the trace have some, as a program initializes all visible devices.
 * Returns the number of remaining ones. */
static size_t without_idle(const struct aorta_trace *trace, int32_t *devices, size_t count,
                           struct aorta_arena *memory) {
    bool *computes = aorta_arena_alloc(memory, count * sizeof *computes);
    size_t used = 0;
    bool any = false;
    for (size_t i = 0; computes && count > 1 && i < trace->work_count; i++) {
        if (trace->work[i].kind != AORTA_TRACE_KERNEL) continue;
        const int32_t *device = bsearch(&trace->work[i].device, devices, count, sizeof *devices, aorta_by_int32);
        if (device) any = computes[device - devices] = true;
    }
    for (size_t i = 0; any && i < count; i++)
        if (computes[i]) devices[used++] = devices[i];
    return any ? used : count;
}

/* ---- all ranks ---- */

/* `number` is used if the trace has one device. A rank that only measured is skipped. */
static aorta_status add_ranks(const struct aorta_trace *trace, int number, struct aorta_trace_analysis *analysis) {
    struct aorta_arena scratch = {0};
    int32_t *devices = aorta_arena_raw(&scratch, trace->work_count * sizeof *devices);
    const size_t found = devices ? devices_of(trace, devices) : 0;
    const size_t count = found ? without_idle(trace, devices, found, &scratch) : 0;
    aorta_status status = NULL;
    analysis->devices_idle += found - count;
    if (count > MOST_DEVICES)
        status = AORTA_ERROR(AORTA_FORMAT,
                             "%s holds work of %zu devices, of at most %d that a process can have: its device numbers "
                             "are damaged",
                             trace->path, count, MOST_DEVICES);
    for (size_t i = 0; !status && i < count; i++) {
        struct aorta_trace_rank rank = {.rank = count == 1 ? number : UNNUMBERED, .trace = trace, .device = devices[i]};
        take_work(&rank);
        analysis->memory.failed |= rank.memory.failed;
        if (!rank.work_count || !aorta_arena_append(&analysis->memory, &analysis->ranks, &analysis->rank_capacity,
                                                    &analysis->rank_count, &rank, sizeof rank))
            aorta_arena_free(&rank.memory);
    }
    aorta_arena_end(&scratch, &analysis->memory);
    return status;
}

/* Advice for recording kernels; NULL if the format has no option that excludes only kernels. */
static const char by_rocprof[] = "record with rocprofv3 --kernel-trace --memory-copy-trace";
static const char *const kernels_by[AORTA_TRACE_FORMAT_COUNT] = {
    [AORTA_TRACE_ROCPROF_JSON] = by_rocprof,
    [AORTA_TRACE_ROCPROF_CSV] = by_rocprof,
    [AORTA_TRACE_ROCPD] = by_rocprof,
    [AORTA_TRACE_PFTRACE] = by_rocprof,
    [AORTA_TRACE_KINETO] = "record with ProfilerActivity.CUDA",
};

/* An error if launches are recorded without their work; NULL if there are no such launches. */
static aorta_status launches_alone(const struct aorta_trace_list *list) {
    size_t launches = 0;
    for (size_t i = 0; i < list->count; i++) launches += list->items[i]->coverage.unanswered;
    if (!launches) return NULL;
    const char *by = kernels_by[list->items[0]->format];
    return AORTA_ERROR(
        AORTA_FORMAT, "nothing ran on a device in %s%s: %zu launches are recorded without their kernels%s%s",
        list->items[0]->path, list->count > 1 ? " and the other files" : "", launches, by ? ": " : "", by ? by : "");
}

/* Advice for a trace without work. PyTorch's files have devices and the time of day, or calls. */
static const char *how_to_record(const struct aorta_trace *trace) {
    const char *by = kernels_by[trace->format];
    if (trace->format == AORTA_TRACE_KINETO && trace->base_ns == INT64_MIN && !trace->device_count &&
        !trace->call_count)
        return "AORTA knows kernels of torch.profiler, JAX, rocprofv3, nsys and aorta trace run";
    return by ? by : "record the GPU's activity, too";
}

static aorta_status nothing_ran(const struct aorta_trace_list *list) {
    for (size_t i = 0; i < list->count; i++) { /* there was work, but all of it was invalid */
        const struct aorta_trace_warning *bad = &list->items[i]->warnings[AORTA_REASON_BAD_EVENT];
        char place[48] = "";
        if (!bad->count) continue;
        if (bad->offset >= 0) snprintf(place, sizeof place, " (first at byte %lld)", (long long)bad->offset);
        return AORTA_ERROR(AORTA_FORMAT, "nothing ran on a device in %s: %lld × %s%s", list->items[i]->path,
                           (long long)bad->count, aorta_trace_warning_text(list->items[i], AORTA_REASON_BAD_EVENT),
                           place);
    }
    AORTA_TRY(launches_alone(list));
    const char *note = list->count ? aorta_trace_text(list->items[0], list->items[0]->note) : "";
    if (list->count && !*note) note = how_to_record(list->items[0]);
    return AORTA_ERROR(AORTA_FORMAT, "nothing ran on a device in %s%s: no kernels, copies or fills are recorded; %s",
                       list->count ? list->items[0]->path : "the list", list->count > 1 ? " and the other files" : "",
                       note);
}

static aorta_status make_ranks(const struct aorta_trace_list *list, struct aorta_trace_analysis *analysis) {
    const int *numbers = aorta_trace_ranks_known(list, &analysis->memory);
    for (size_t i = 0; numbers && i < list->count; i++)
        if (!seen_before(list, i)) AORTA_TRY(add_ranks(list->items[i], numbers[i], analysis));
    AORTA_TRY(aorta_arena_check(&analysis->memory, "the ranks"));
    if (!analysis->rank_count) return nothing_ran(list);
    AORTA_TRY(check_ranks(analysis));
    number_the_others(analysis);
    qsort(analysis->ranks, analysis->rank_count, sizeof *analysis->ranks, aorta_by_int32);
    return NULL;
}

/* ---- the analysis ---- */

enum { LONGEST_GAPS = 10 };
static const char no_memory[] = "the analysis";

/* Temporary data of one analysis; arrays have one entry per rank. */
struct work {
    struct aorta_trace_busy *busy;
    struct aorta_host_waits *waits;
    struct aorta_trace_parts parts;
    struct aorta_trace_analysis *analysis;
    size_t gaps; /* to store per rank */
    struct aorta_arena memory;
};

/* Whether a step has this number. Sets *low and *high to the lowest and highest number. */
static bool is_marked(const struct aorta_trace_analysis *analysis, int64_t number, int64_t *low, int64_t *high) {
    bool found = false;
    *low = INT64_MAX;
    *high = INT64_MIN;
    for (size_t i = 0; i < analysis->rank_count; i++) {
        const struct aorta_trace *trace = analysis->ranks[i].trace;
        for (size_t j = 0; j < trace->step_count; j++) {
            found |= trace->steps[j].number == number;
            if (trace->steps[j].number < *low) *low = trace->steps[j].number;
            if (trace->steps[j].number > *high) *high = trace->steps[j].number;
        }
    }
    return found;
}

/* Reports all missing numbers in one error. */
static aorta_status check_numbers(const struct aorta_trace_analysis *analysis,
                                  const struct aorta_trace_analysis_options *options) {
    struct aorta_text missing = {0};
    int64_t low = 0, high = 0;
    size_t count = 0;
    for (size_t i = 0; i < options->step_count; i++)
        if (!is_marked(analysis, options->steps[i], &low, &high))
            aorta_text_printf(&missing, "%s%lld", count++ ? ", " : "", (long long)options->steps[i]);
    aorta_status status = aorta_text_check(&missing);
    if (!status && count)
        status = AORTA_ERROR(AORTA_USAGE,
                             low < high ? "--step %s: no such step; there are %lld to %lld"
                                        : "--step %s: no such step; there is only %lld",
                             missing.data, (long long)low, (long long)high);
    aorta_text_free(&missing);
    return status;
}

static aorta_status check_steps(const struct aorta_trace_analysis *analysis,
                                const struct aorta_trace_analysis_options *options) {
    size_t marked = 0, found = 0;
    if (!options->all_steps && !options->step_count) return NULL;
    for (size_t i = 0; i < analysis->rank_count; i++) {
        marked += analysis->ranks[i].trace->step_count;
        found += analysis->ranks[i].window_count;
    }
    if (!marked)
        return AORTA_ERROR(AORTA_USAGE, "--step: %s marks no steps (ProfilerStep#N); leave the option out",
                           analysis->ranks[0].trace->path);
    AORTA_TRY(check_numbers(analysis, options));
    if (found) return NULL;
    return AORTA_ERROR(AORTA_USAGE, "--step: nothing on the device belongs to any step%s",
                       options->all_steps ? "" : " asked for");
}

static aorta_status measure_rank(void *user, size_t place) {
    const struct work *work = user;
    struct aorta_trace_rank *rank = &work->analysis->ranks[place];
    struct aorta_trace_busy *busy = &work->busy[place];
    aorta_trace_busy_make(rank, busy);
    aorta_trace_figures_make(rank, busy);
    aorta_trace_lanes_make(rank);
    aorta_trace_kernels_make(rank);
    aorta_trace_gemms_make(rank, &busy->comm);
    aorta_trace_waits_make(rank, &work->waits[place]);
    if (!rank->memory.failed) aorta_trace_gaps_make(rank, &work->waits[place], work->gaps);
    return aorta_arena_check(&rank->memory, no_memory);
}

static aorta_status make_profiles(void *user, size_t place) {
    const struct work *work = user;
    const struct aorta_trace_analysis *analysis = work->analysis;
    struct aorta_trace_rank *rank = &analysis->ranks[place];
    const int64_t shift_ns = analysis->alignment.clocks[place].shift_ns;
    aorta_trace_profiles_make(rank, shift_ns, &work->parts, place, &work->waits[place]);
    return aorta_arena_check(&rank->memory, no_memory);
}

static void free_rank(struct aorta_trace_rank *rank) {
    for (size_t i = 0; i < rank->window_count; i++)
        if (!rank->windows[i].borrowed) aorta_profile_free(&rank->windows[i].profile);
    aorta_intervals_free(&rank->holes);
    aorta_arena_free(&rank->memory);
}

void aorta_trace_ranges_free(struct aorta_trace_analysis *analysis) {
    for (size_t i = 0; i < analysis->rank_count; i++) {
        AORTA_EACH (struct aorta_trace_window, window, analysis->ranks[i].windows, analysis->ranks[i].window_count) {
            if (window->borrowed) continue;
            free(window->profile.ranges);
            free(window->profile.overlap.segments);
            window->profile.ranges = NULL;
            window->profile.overlap.segments = NULL;
            window->profile.overlap.segment_count = 0;
        }
    }
}

static bool has_step(const struct aorta_trace_rank *rank) {
    for (size_t i = 0; i < rank->window_count; i++)
        if (rank->windows[i].number != INT64_MIN) return true;
    return false;
}

/* Drops ranks without a chosen step. Also drops ranks that ran only outside their marked steps, if other ranks ran
 * within theirs, as they would be compared with those steps. */
static void drop_empty_ranks(struct aorta_trace_analysis *analysis) {
    size_t remaining = 0;
    bool stepped = false;
    for (size_t i = 0; i < analysis->rank_count; i++) stepped |= has_step(&analysis->ranks[i]);
    for (size_t i = 0; i < analysis->rank_count; i++) {
        const struct aorta_trace_rank *rank = &analysis->ranks[i];
        const bool outside = stepped && rank->work_count && rank->trace->step_count && !has_step(rank);
        if (rank->work_count && !outside) {
            analysis->ranks[remaining++] = *rank;
            continue;
        }
        analysis->ranks_outside += outside;
        free_rank(&analysis->ranks[i]);
    }
    analysis->rank_count = remaining;
}

static aorta_status make_tables(void *user, size_t place) {
    const struct work *work = user;
    const struct aorta_trace_parts *parts = &work->parts;
    struct aorta_trace_rank *rank = &work->analysis->ranks[place];
    aorta_trace_collectives_make(work->analysis, rank, parts->items + parts->first[place],
                                 parts->first[place + 1] - parts->first[place], &work->busy[place]);
    aorta_trace_kernels_in_steps(work->analysis, rank);
    aorta_trace_syncs_make(work->analysis, rank);
    for (size_t i = 0; i < rank->window_count; i++)
        rank->steps += aorta_trace_window_counts(work->analysis, &rank->windows[i]);
    if (!rank->steps) rank->steps = 1;
    return aorta_arena_check(&rank->memory, no_memory);
}

static aorta_status make_windows(struct aorta_trace_analysis *analysis,
                                 const struct aorta_trace_analysis_options *options) {
    size_t measured = 0;
    aorta_trace_warmup_choose(analysis, options);
    AORTA_EACH (struct aorta_trace_rank, rank, analysis->ranks, analysis->rank_count) {
        if (rank->trace->measured)
            aorta_trace_windows_measured(rank, options, analysis->warmup);
        else
            aorta_trace_windows_cut(rank, options);
        AORTA_TRY(aorta_arena_check(&rank->memory, no_memory));
        if (rank->trace->measured) measured += rank->trace->step_count;
    }
    return analysis->measured ? aorta_trace_measured_check(analysis, options, measured) : NULL;
}

/* Whether so little ran in the steps that figures would be meaningless: a memset of microseconds does not show slow
 * copies. */
static bool is_almost_empty(const struct aorta_trace_analysis *analysis) {
    enum { FEWEST = 3, SHORTEST_NS = 100000 };
    size_t count = 0;
    int64_t ns = 0;
    AORTA_EACH (const struct aorta_trace_rank, rank, analysis->ranks, analysis->rank_count) {
        if (rank->trace->host_only || rank->trace->measured) return false;
        for (const struct aorta_trace_window *window = NULL; (window = aorta_step_after(analysis, rank, window));) {
            const struct aorta_profile *profile = &window->profile;
            count += profile->range_count;
            for (size_t k = 0; k < profile->range_count && count < FEWEST; k++)
                ns += profile->ranges[k].end_ns - profile->ranges[k].start_ns;
        }
    }
    return count < FEWEST && ns < SHORTEST_NS;
}

static void find_thin(struct aorta_trace_analysis *analysis) {
    for (size_t i = analysis->rank_count; i-- > 0;) {
        const struct aorta_trace *trace = analysis->ranks[i].trace;
        const size_t mixed = trace->processes > 1 ? trace->processes : 0;
        if (!mixed && !aorta_trace_is_too_thin(trace)) continue;
        analysis->thin = trace;
        analysis->mixed = mixed;
    }
}

static aorta_status run(struct aorta_trace_analysis *analysis, struct work *work,
                        const struct aorta_trace_analysis_options *options) {
    AORTA_TRY(make_windows(analysis, options));
    AORTA_TRY(check_steps(analysis, options));
    drop_empty_ranks(analysis);
    aorta_trace_clocks_check(analysis);
    analysis->sends = aorta_trace_are_sends(analysis);
    find_thin(analysis);
    work->busy = aorta_arena_alloc(&work->memory, analysis->rank_count * sizeof *work->busy);
    work->waits = aorta_arena_alloc(&work->memory, analysis->rank_count * sizeof *work->waits);
    AORTA_TRY(aorta_arena_check(&work->memory, no_memory));
    work->gaps = options->gaps ? options->gaps : LONGEST_GAPS;
    AORTA_TRY(aorta_parallel(analysis->rank_count, measure_rank, work));
    aorta_trace_parts_make(analysis, &work->parts, &work->memory);
    analysis->memory.failed |= work->memory.failed;
    AORTA_TRY(aorta_arena_check(&analysis->memory, no_memory));
    AORTA_TRY(aorta_parallel(analysis->rank_count, make_profiles, work));
    for (size_t i = 0; i < analysis->rank_count; i++)
        for (size_t j = 0; j < analysis->ranks[i].window_count; j++)
            if (analysis->ranks[i].windows[j].number != INT64_MIN) analysis->stepped = true;
    const bool any = !analysis->measured && !options->all_steps && !options->step_count && !options->warmup_given;
    if (analysis->stepped && any) aorta_trace_warmup_find(analysis);
    if (!analysis->thin && is_almost_empty(analysis)) analysis->thin = analysis->ranks[0].trace;
    aorta_trace_shared_finish(analysis, &work->parts);
    AORTA_TRY(aorta_parallel(analysis->rank_count, make_tables, work));
    aorta_trace_arrivals_make(analysis, options->gpus_per_node);
    aorta_trace_differences_make(analysis, work->busy);
    return aorta_arena_check(&analysis->memory, no_memory);
}

aorta_status aorta_trace_analyze(const struct aorta_trace_list *list,
                                 const struct aorta_trace_analysis_options *options,
                                 struct aorta_trace_analysis *analysis) {
    static const struct aorta_trace_analysis_options defaults = {0};
    struct work work = {.analysis = analysis};
    if (!options) options = &defaults;
    *analysis = (struct aorta_trace_analysis){
        .whole = options->whole, .chosen = options->step_count > 0, .steady_from = INT64_MIN, .steady_end = INT64_MAX};
    aorta_status status = make_ranks(list, analysis);
    if (!status) status = run(analysis, &work, options);
    for (size_t i = 0; work.waits && i < analysis->rank_count; i++) {
        aorta_trace_busy_free(&work.busy[i]);
        aorta_host_waits_free(&work.waits[i]);
    }
    aorta_arena_free(&work.memory);
    if (status) aorta_trace_analysis_free(analysis);
    return status;
}

void aorta_trace_analysis_free(struct aorta_trace_analysis *analysis) {
    for (size_t i = 0; i < analysis->rank_count; i++) free_rank(&analysis->ranks[i]);
    aorta_arena_free(&analysis->memory);
    *analysis = (struct aorta_trace_analysis){0};
}

bool aorta_trace_step_counts(const struct aorta_trace_analysis *analysis, int64_t number) {
    return !analysis->stepped ||
           (number != INT64_MIN && number >= analysis->steady_from && number < analysis->steady_end);
}

bool aorta_trace_beyond_steps(const struct aorta_trace_analysis *analysis) {
    for (size_t i = 0; analysis->stepped && i < analysis->rank_count; i++)
        AORTA_EACH (const struct aorta_trace_window, window, analysis->ranks[i].windows,
                    analysis->ranks[i].window_count)
            if (window->profile.range_count && !aorta_trace_window_counts(analysis, window)) return true;
    return false;
}

bool aorta_trace_window_counts(const struct aorta_trace_analysis *analysis, const struct aorta_trace_window *window) {
    return window->profile.range_count && aorta_trace_step_counts(analysis, window->number);
}

const struct aorta_trace_window *aorta_step_after(const struct aorta_trace_analysis *analysis,
                                                  const struct aorta_trace_rank *rank,
                                                  const struct aorta_trace_window *before) {
    for (size_t i = before ? (size_t)(before - rank->windows) + 1 : 0; i < rank->window_count; i++)
        if (aorta_trace_window_counts(analysis, &rank->windows[i])) return &rank->windows[i];
    return NULL;
}

struct aorta_iteration aorta_iteration_of(const struct aorta_trace_analysis *analysis, size_t rank, size_t window) {
    const struct aorta_trace_rank *one = &analysis->ranks[rank];
    return (struct aorta_iteration){.rank = one->rank,
                                    .step = analysis->stepped || analysis->measured ? one->windows[window].number : 0,
                                    .profile = &one->windows[window].profile,
                                    .on_gpu = one->trace->on_gpu};
}
