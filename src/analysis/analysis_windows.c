/* Steps: comparison of their work, warm-up, and windows on the device. */
#include "analysis/analysis.h"
#include "analysis/analysis_internal.h"
#include "analysis/steps.h"
#include "base/sort.h"
#include "base/statistics.h"

#include <math.h>
#include <stdlib.h>

/* ---- comparison of the steps' work ---- */

/* Minimum share of common kernels of steps with equal work; below 1, as a kernel at a step's border may be in either
 * step. */
static const double EQUAL_SHARE = 0.95;

/* The window's kernels or copies as sorted numbers. Equal numbers have the same name and, for products, the same grid,
 * for copies about the same size. */
static size_t keys_of(const struct aorta_trace_rank *rank, const struct aorta_trace_window *window,
                      enum aorta_trace_kind kind, double *keys) {
    size_t count = 0;
    for (size_t i = 0; i < window->profile.range_count; i++) {
        const struct aorta_trace_work *work = &rank->work[window->work[i]];
        if (work->kind != kind || work->start_ns < window->start_ns) continue;
        uint32_t detail = work->geometry == AORTA_TRACE_NONE ? 0 : work->geometry + 1;
        if (kind == AORTA_TRACE_COPY) detail = work->bytes > 0 ? (uint32_t)ilogb((double)work->bytes) : 0;
        keys[count++] = (double)work->name * 4294967296.0 + (double)detail; /* exact below 2^53: 2^21 names */
    }
    aorta_sort_double(keys, count);
    return count;
}

static bool are_alike(const double *left, size_t left_count, const double *right, size_t right_count) {
    size_t common = 0;
    for (size_t i = 0, j = 0; i < left_count && j < right_count;) {
        const double difference = left[i] - right[j];
        common += !(difference < 0) && !(difference > 0);
        i += !(difference > 0);
        j += !(difference < 0);
    }
    return (double)common >= EQUAL_SHARE * (double)(left_count > right_count ? left_count : right_count);
}

/* Adds the pairs of one rank's neighbouring steps. */
static bool compare_rank(const struct aorta_trace_analysis *analysis, const struct aorta_trace_rank *rank,
                         enum aorta_trace_kind kind, size_t *pairs, size_t *unlike) {
    size_t most = 0, last_count = 0;
    for (size_t i = 0; i < rank->window_count; i++)
        if (rank->windows[i].profile.range_count > most) most = rank->windows[i].profile.range_count;
    double *keys = malloc((2 * most + 1) * sizeof *keys), *last = keys, *now = keys ? keys + most : NULL;
    bool first = true;
    for (const struct aorta_trace_window *window = NULL; keys && (window = aorta_step_after(analysis, rank, window));) {
        const size_t count = keys_of(rank, window, kind, now);
        if (!first) {
            ++*pairs;
            *unlike += !are_alike(last, last_count, now, count);
        }
        double *free_place = last;
        last = now, last_count = count, now = free_place;
        first = false;
    }
    free(keys);
    return keys != NULL;
}

double aorta_trace_steps_unlike(const struct aorta_trace_analysis *analysis, enum aorta_trace_kind kind) {
    size_t pairs = 0, unlike = 0;
    for (size_t i = 0; i < analysis->rank_count; i++)
        if (!compare_rank(analysis, &analysis->ranks[i], kind, &pairs, &unlike)) return NAN;
    return pairs ? (double)unlike / (double)pairs : NAN;
}

/* Warm-up are first steps that differ from later ones: kernels are compiled, algorithms tried, libraries and
 * communicators opened. Measured steps have their own rule. */

enum { FEWEST_STEPS = 3, REGULAR_STEPS = 3, MOST_WARMUP = 3 /* steps that are never a trend */ };
static const double SLOWER = 1.5; /* factor above the median of the second half; */
static const double ALIKE = 1.5;  /* no warm-up if a tenth of that half is at most this factor shorter */
static const double RECURS = 0.1;

/* Times of counted steps, each from the end of the previous work to the step's last end. */
static size_t step_times(const struct aorta_trace_analysis *analysis, const struct aorta_trace_rank *rank,
                         double *step_ns, int64_t *numbers) {
    size_t count = 0;
    for (const struct aorta_trace_window *window = NULL; (window = aorta_step_after(analysis, rank, window));) {
        numbers[count] = window->number;
        step_ns[count++] = (double)(window->profile.overlap.lead_ns + window->profile.overlap.span_ns);
    }
    return count;
}

/* later[]: the second half of the steps, ascending. */
static bool is_slow(double step_ns, const double *later, size_t count) {
    size_t alike = 0;
    if (step_ns <= SLOWER * aorta_percentile_sorted(later, count, 50)) return false;
    while (alike < count && ALIKE * later[count - 1 - alike] >= step_ns) alike++;
    return (double)alike < RECURS * (double)count;
}

/* Counts the steps up to the last slow one of the first half that has no three regular steps in a row before it. In the
 * first tenth it may have them if it is longer than the whole second half, as libraries may try algorithms in short
 * steps before it. `later` has space for half of the steps and one. */
static size_t count_warmup(const double *step_ns, size_t count, double *later) {
    const size_t half = count / 2;
    size_t warmup = 0, regular = 0;
    double all_ns = 0;
    if (count < FEWEST_STEPS) return 0;
    for (size_t i = half; i < count; i++) {
        later[i - half] = step_ns[i];
        all_ns += step_ns[i];
    }
    aorta_sort_double(later, count - half);
    for (size_t i = 0; i < half && (regular < REGULAR_STEPS || i < count / 10); i++) {
        if (!is_slow(step_ns[i], later, count - half)) {
            regular++;
        } else if (regular < REGULAR_STEPS || step_ns[i] > all_ns) {
            regular = 0;
            warmup = i + 1;
        }
    }
    return warmup;
}

/* Steps that get ever shorter, as in an elimination on a shrinking matrix, are no warm-up:
 *
 *   warm-up   |#######|####|#|#|#|#|#|#|      the second half is even
 *   trend     |#######|######|#####|####|###|##|#|
 *
 * A trend needs more steps than a warm-up, and each quarter must be shorter than the previous one. */
static bool is_trend(const double *step_ns, size_t count, double *space) {
    enum { PARTS = 4, FEWEST = 16 };
    static const double shorter = 0.9;
    double before = INFINITY;
    if (count < FEWEST) return false;
    for (size_t part = 0; part < PARTS; part++) {
        const size_t from = part * count / PARTS, steps = (part + 1) * count / PARTS - from;
        memcpy(space, step_ns + from, steps * sizeof *space);
        aorta_sort_double(space, steps);
        const double median = aorta_percentile_sorted(space, steps, 50);
        if (median > shorter * before) return false;
        before = median;
    }
    return true;
}

static void note_trend(struct aorta_trace_analysis *analysis, const double *step_ns, size_t count) {
    enum { PARTS = 16 };
    const size_t part = count / PARTS;
    for (size_t i = 0; i < part; i++) {
        analysis->trend_ns[0] += step_ns[i] / (double)part;
        analysis->trend_ns[1] += step_ns[count - 1 - i] / (double)part;
    }
}

/* Excludes the first step if its start is unknown: a step begins at the end of the work before it, which may not be
 * recorded. */
static void leave_unled(struct aorta_trace_analysis *analysis) {
    for (size_t i = 0; i < analysis->rank_count && !analysis->warmup && !analysis->unled; i++) {
        const struct aorta_trace_rank *rank = &analysis->ranks[i];
        const struct aorta_trace_window *first = aorta_step_after(analysis, rank, NULL);
        const struct aorta_trace_window *second = first ? aorta_step_after(analysis, rank, first) : NULL;
        size_t count = 0;
        for (const struct aorta_trace_window *window = first; window; window = aorta_step_after(analysis, rank, window))
            count++;
        if (count < AORTA_STEPS_TO_LEAVE_ONE || first->led || !second->led) continue;
        analysis->unled = true;
        analysis->steady_from = second->number;
    }
}

static int64_t host_time(const struct aorta_trace *trace, int64_t number) {
    AORTA_EACH (const struct aorta_trace_step, step, trace->steps, trace->step_count)
        if (step->number == number && step->start_ns != INT64_MIN) return step->end_ns - step->start_ns;
    return INT64_MAX;
}

/* Returns the last step if queued work of earlier steps ends in it, else NULL. It is longer than all other steps, and
 * than its time on the host:
 *
 *   copies    |1   |2   |3   |
 *   compute        |1   |2   |3   |    step 3 has the compute of two steps */
static const struct aorta_trace_window *find_drained(const struct aorta_trace_analysis *analysis,
                                                     const struct aorta_trace_rank *rank) {
    static const double longer = 1.25;
    const struct aorta_trace_window *last = NULL;
    int64_t longest_ns = 0, last_ns = 0;
    size_t count = 0;
    for (const struct aorta_trace_window *window = NULL; (window = aorta_step_after(analysis, rank, window)); count++) {
        if (last_ns > longest_ns) longest_ns = last_ns;
        last_ns = window->profile.overlap.lead_ns + window->profile.overlap.span_ns;
        last = window;
    }
    if (count < AORTA_STEPS_TO_LEAVE_ONE || (double)last_ns <= longer * (double)longest_ns) return NULL;
    return (double)last_ns > longer * (double)host_time(rank->trace, last->number) ? last : NULL;
}

static void leave_drained(struct aorta_trace_analysis *analysis) {
    for (size_t i = 0; i < analysis->rank_count && !analysis->drained; i++) {
        const struct aorta_trace_window *last = find_drained(analysis, &analysis->ranks[i]);
        if (!last) continue;
        analysis->drained = true;
        analysis->steady_end = last->number;
    }
}

void aorta_trace_warmup_find(struct aorta_trace_analysis *analysis) {
    AORTA_EACH (const struct aorta_trace_rank, rank, analysis->ranks, analysis->rank_count) {
        struct aorta_arena scratch = {0};
        double *step_ns = aorta_arena_raw(&scratch, (2 * rank->window_count + 1) * sizeof *step_ns);
        int64_t *numbers = aorta_arena_raw(&scratch, rank->window_count * sizeof *numbers);
        const size_t count = numbers ? step_times(analysis, rank, step_ns, numbers) : 0;
        double *space = step_ns + rank->window_count;
        const size_t warmup = count ? count_warmup(step_ns, count, space) : 0;
        if (warmup > MOST_WARMUP && is_trend(step_ns, count, space)) {
            if (!analysis->trend_ns[0]) note_trend(analysis, step_ns, count);
        } else if (warmup > analysis->warmup) {
            analysis->warmup = warmup;
            analysis->steady_from = numbers[warmup];
        }
        aorta_arena_end(&scratch, &analysis->memory);
    }
    leave_unled(analysis);
    leave_drained(analysis);
}

/* Ranks with measured steps (aorta_trace_measured): each measured step is a window. */

/* ---- warm-up ---- */

size_t aorta_analysis_warmup(size_t steps) {
    return steps < 4 ? 0 : steps < 10 ? 1 : 3;
}

void aorta_trace_warmup_choose(struct aorta_trace_analysis *analysis,
                               const struct aorta_trace_analysis_options *options) {
    for (size_t i = 0; i < analysis->rank_count && !analysis->measured; i++) {
        const struct aorta_trace *trace = analysis->ranks[i].trace;
        if (!trace->measured) continue;
        analysis->measured = true;
        analysis->warmup = options->warmup_given ? options->warmup : aorta_analysis_warmup(trace->step_count);
    }
}

/* ---- windows ---- */

static bool is_chosen(int64_t number, const struct aorta_trace_analysis_options *options) {
    if (options->all_steps) return number != INT64_MIN;
    for (size_t i = 0; i < options->step_count; i++)
        if (options->steps[i] == number) return true;
    return !options->step_count;
}

/* The end of a step's window: the start of the next step if that was measured too and begins after this one's end, so
 * that there is no hole between them. A next step whose batch is copied early begins within this step. */
static int64_t end_of(const struct aorta_trace *trace, size_t step) {
    const struct aorta_trace_step *this = &trace->steps[step], *next = this + 1;
    const bool follows = step + 1 < trace->step_count && next->number == this->number + 1 &&
                         !trace->measured[step + 1].profile->own_clock &&
                         trace->measured[step + 1].profile->range_count && next->device_start_ns > this->device_end_ns;
    return follows ? next->device_start_ns : this->device_end_ns + 1;
}

/* Keeps the work with a row in `row_of`, in order, and renumbers `row_of`, which is by row of the trace's work. */
static void keep_measured_work(struct aorta_trace_rank *rank, uint32_t *row_of, size_t count) {
    if (count == rank->work_count) return;
    struct aorta_trace_work *work = aorta_arena_raw(&rank->memory, count * sizeof *work);
    uint32_t *source = aorta_arena_raw(&rank->memory, count * sizeof *source);
    size_t used = 0;
    for (size_t i = 0; source && i < rank->work_count; i++) {
        if (row_of[i] == AORTA_TRACE_NONE) continue;
        row_of[i] = (uint32_t)used;
        source[used] = (uint32_t)i;
        work[used++] = rank->work[i];
    }
    rank->work = work;
    rank->source = source;
    rank->work_count = used;
}

static void add_measured_window(struct aorta_trace_rank *rank, size_t step, const uint32_t *row_of) {
    const struct aorta_trace *trace = rank->trace;
    const struct aorta_trace_measured *measured = &trace->measured[step];
    const size_t count = measured->profile->range_count;
    uint32_t *work = aorta_arena_raw(&rank->memory, count * sizeof *work);
    for (size_t i = 0; work && i < count; i++) work[i] = row_of[measured->work[i]];
    rank->windows[rank->window_count++] = (struct aorta_trace_window){.number = trace->steps[step].number,
                                                                      .start_ns = trace->steps[step].device_start_ns,
                                                                      .end_ns = end_of(trace, step),
                                                                      .step_ns = measured->step_ns,
                                                                      .profile = *measured->profile,
                                                                      .borrowed = true,
                                                                      .work = work};
}

void aorta_trace_windows_measured(struct aorta_trace_rank *rank, const struct aorta_trace_analysis_options *options,
                                  size_t warmup) {
    const struct aorta_trace *trace = rank->trace;
    struct aorta_arena scratch = {0};
    uint32_t *row_of = aorta_arena_raw(&scratch, rank->work_count * sizeof *row_of);
    bool *wanted = aorta_arena_alloc(&scratch, trace->step_count);
    rank->windows = aorta_arena_alloc(&rank->memory, trace->step_count * sizeof *rank->windows);
    size_t stored = 0;
    for (size_t i = 0; row_of && i < rank->work_count; i++) row_of[i] = AORTA_TRACE_NONE;
    for (size_t i = warmup; row_of && wanted && i < trace->step_count; i++) {
        const struct aorta_trace_measured *measured = &trace->measured[i];
        wanted[i] = measured->profile->range_count && is_chosen(trace->steps[i].number, options);
        for (size_t j = 0; wanted[i] && j < measured->profile->range_count; j++, stored++)
            row_of[measured->work[j]] = measured->work[j];
    }
    if (row_of && wanted) keep_measured_work(rank, row_of, stored);
    for (size_t i = 0; row_of && wanted && !rank->memory.failed && i < trace->step_count; i++)
        if (wanted[i]) add_measured_window(rank, i, row_of);
    aorta_arena_end(&scratch, &rank->memory);
}

aorta_status aorta_trace_measured_check(const struct aorta_trace_analysis *analysis,
                                        const struct aorta_trace_analysis_options *options, size_t steps) {
    if (options->step_count) return NULL; /* missing steps were reported */
    for (size_t i = 0; i < analysis->rank_count; i++)
        if (analysis->ranks[i].window_count) return NULL;
    return AORTA_ERROR(
        AORTA_USAGE,
        "no iteration is left to analyze: %zu are recorded, the first %zu of each rank are warm-up, and no other one "
        "has ranges; lower --warmup, or record more steps",
        steps, analysis->warmup);
}

/* ---- clocks ---- */

void aorta_trace_clocks_check(struct aorta_trace_analysis *analysis) {
    analysis->common_clock = true;
    if (!analysis->measured) return;
    size_t limit = 0, count = 0;
    for (size_t i = 0; i < analysis->rank_count; i++) limit += analysis->ranks[i].window_count;
    struct aorta_arena scratch = {0};
    struct aorta_iteration *iterations = aorta_arena_alloc(&scratch, limit * sizeof *iterations);
    for (size_t i = 0; iterations && i < analysis->rank_count; i++)
        for (size_t j = 0; j < analysis->ranks[i].window_count; j++)
            iterations[count++] = aorta_iteration_of(analysis, i, j);
    analysis->common_clock = aorta_clocks_are_one(iterations, count);
    aorta_arena_end(&scratch, &analysis->memory);
}

/* Cuts a rank's time. A step reaches on the device from the first start of work launched within its host range to the
 * first start of the next step's work; the last step reaches to the end of its work. Separately measured iterations
 * also reach to the end of their work, and time between them is excluded. Work across a cut counts on each side with
 * its part there, so that windows add up to the whole. */

/* The extent of the work launched within a step. */
struct reach {
    int64_t first_start_ns, last_end_ns;
};

/* The step whose host range contains the time; step_count if none. Steps are sorted and do not overlap. */
static size_t step_at(const struct aorta_trace *trace, int64_t time_ns) {
    size_t low = aorta_count_until(trace->steps, trace->step_count, sizeof *trace->steps,
                                   offsetof(struct aorta_trace_step, start_ns), time_ns);
    return low && time_ns < trace->steps[low - 1].end_ns ? low - 1 : trace->step_count;
}

static void measure_reaches(const struct aorta_trace_rank *rank, struct reach *reaches) {
    const struct aorta_trace *trace = rank->trace;
    for (size_t i = 0; i < trace->step_count; i++) reaches[i] = (struct reach){INT64_MAX, INT64_MIN};
    AORTA_EACH (const struct aorta_trace_work, work, rank->work, rank->work_count) {
        if (work->call == AORTA_TRACE_NONE && !trace->host_only) continue;
        size_t step = step_at(trace, trace->host_only ? work->start_ns : trace->calls[work->call].start_ns);
        if (step == trace->step_count) continue;
        if (work->start_ns < reaches[step].first_start_ns) reaches[step].first_start_ns = work->start_ns;
        if (work->end_ns > reaches[step].last_end_ns) reaches[step].last_end_ns = work->end_ns;
    }
    for (size_t i = 0; i < trace->step_count; i++) { /* the file's device times, as launches may be unknown */
        const struct aorta_trace_step *step = &trace->steps[i];
        if (step->device_start_ns == INT64_MIN || (step->of_device && step->device != rank->device)) continue;
        if (reaches[i].first_start_ns == INT64_MAX) reaches[i].first_start_ns = step->device_start_ns;
        if (reaches[i].last_end_ns < step->device_end_ns) reaches[i].last_end_ns = step->device_end_ns;
    }
}

static void add_window(struct aorta_trace_rank *rank, int64_t number, int64_t start_ns, int64_t end_ns) {
    if (start_ns < end_ns)
        rank->windows[rank->window_count++] =
            (struct aorta_trace_window){.number = number, .start_ns = start_ns, .end_ns = end_ns};
}

/* Windows of separately measured iterations. */
static void place_iterations(struct aorta_trace_rank *rank, const struct reach *reaches) {
    int64_t at_ns = INT64_MIN;
    for (size_t i = 0; i < rank->trace->step_count; i++) {
        if (reaches[i].first_start_ns == INT64_MAX) continue; /* nothing of it ran */
        const int64_t start_ns = reaches[i].first_start_ns > at_ns ? reaches[i].first_start_ns : at_ns;
        add_window(rank, rank->trace->steps[i].number, start_ns, reaches[i].last_end_ns + 1);
        at_ns = reaches[i].last_end_ns + 1;
    }
}

static void place_windows(struct aorta_trace_rank *rank, const struct reach *reaches, int64_t first_ns,
                          int64_t last_ns) {
    const struct aorta_trace *trace = rank->trace;
    int64_t at_ns = first_ns, open_number = INT64_MIN, open_end_ns = INT64_MIN;
    for (size_t i = 0; i < trace->step_count; i++) {
        if (reaches[i].first_start_ns == INT64_MAX) continue; /* nothing of it ran */
        int64_t start_ns = reaches[i].first_start_ns > at_ns ? reaches[i].first_start_ns : at_ns;
        add_window(rank, open_number, at_ns, start_ns);
        at_ns = start_ns;
        open_number = trace->steps[i].number;
        open_end_ns = reaches[i].last_end_ns;
    }
    bool rest = open_number != INT64_MIN && open_end_ns > at_ns && open_end_ns < last_ns;
    if (rest) {
        add_window(rank, open_number, at_ns, open_end_ns);
        at_ns = open_end_ns;
        open_number = INT64_MIN;
    }
    add_window(rank, open_number, at_ns, last_ns + 1); /* includes work of length 0 at the end */
}

static void cut(struct aorta_trace_rank *rank) {
    const struct aorta_trace *trace = rank->trace;
    struct aorta_arena scratch = {0};
    struct reach *reaches = aorta_arena_raw(&scratch, trace->step_count * sizeof *reaches);
    rank->windows = aorta_arena_alloc(&rank->memory, (trace->step_count + 3) * sizeof *rank->windows);
    int64_t last_ns = INT64_MIN;
    for (size_t i = 0; i < rank->work_count; i++)
        if (rank->work[i].end_ns > last_ns) last_ns = rank->work[i].end_ns;
    if (reaches && rank->windows) {
        measure_reaches(rank, reaches);
        if (trace->steps_by == AORTA_STEPS_APART)
            place_iterations(rank, reaches);
        else if (rank->work_count)
            place_windows(rank, reaches, rank->work[0].start_ns, last_ns);
    }
    aorta_arena_end(&scratch, &rank->memory);
}

/* ---- choosing ---- */

/* The part of the work within a window. False if there is none. */
static bool clip(const struct aorta_trace_work *work, const struct aorta_trace_window *window,
                 struct aorta_trace_work *part) {
    if (work->start_ns >= window->end_ns) return false;
    if (work->end_ns <= window->start_ns && work->start_ns < window->start_ns) return false;
    *part = *work;
    if (part->start_ns < window->start_ns) {
        part->start_ns = window->start_ns;
        part->leads = false; /* only the first part leads */
    }
    if (part->end_ns > window->end_ns) part->end_ns = window->end_ns;
    return true;
}

/* A part of the rank's work within a window. */
struct piece {
    struct aorta_trace_work work;
    uint32_t source;
};

/* Counts the pieces (with `stepped` only those within steps) and fills `pieces` unless it is NULL. Windows are
 * disjoint; windows and work are sorted. */
static size_t cut_work(const struct aorta_trace_rank *rank, bool stepped, struct piece *pieces) {
    struct piece piece;
    size_t count = 0, from = 0;
    for (size_t i = 0; i < rank->work_count; i++) {
        while (from < rank->window_count && rank->windows[from].end_ns <= rank->work[i].start_ns) from++;
        for (size_t j = from; j < rank->window_count && clip(&rank->work[i], &rank->windows[j], &piece.work); j++) {
            if (stepped && rank->windows[j].number == INT64_MIN) continue;
            piece.source = rank->source ? rank->source[i] : (uint32_t)i;
            if (pieces) pieces[count] = piece;
            count++;
        }
    }
    return count;
}

static void keep_work(struct aorta_trace_rank *rank) {
    const size_t count = cut_work(rank, false, NULL);
    struct aorta_arena scratch = {0};
    struct piece *pieces = aorta_arena_raw(&scratch, count * sizeof *pieces);
    struct aorta_trace_work *remaining = aorta_arena_raw(&rank->memory, count * sizeof *remaining);
    uint32_t *source = aorta_arena_raw(&rank->memory, count * sizeof *source);
    if (pieces && source) {
        cut_work(rank, false, pieces);
        qsort(pieces, count, sizeof *pieces, aorta_by_int64_pair); /* cut pieces have new starts */
        for (size_t i = 0; i < count; i++) {
            remaining[i] = pieces[i].work;
            source[i] = pieces[i].source;
        }
        rank->work = remaining;
        rank->source = source;
        rank->work_count = count;
    }
    aorta_arena_end(&scratch, &rank->memory);
}

/* Makes everything one window without steps, if requested (`whole`) or if no work is within the marked steps. */
static void merge_windows(struct aorta_trace_rank *rank, bool whole) {
    if (!rank->window_count || (!whole && cut_work(rank, true, NULL))) return;
    const int64_t start_ns = rank->windows[0].start_ns, end_ns = rank->windows[rank->window_count - 1].end_ns;
    rank->window_count = 0;
    add_window(rank, INT64_MIN, start_ns, end_ns);
}

void aorta_trace_windows_cut(struct aorta_trace_rank *rank, const struct aorta_trace_analysis_options *options) {
    cut(rank);
    merge_windows(rank, options->whole);
    const bool all = !options->all_steps && !options->step_count;
    if (all && rank->trace->steps_by != AORTA_STEPS_APART) return;
    size_t remaining = 0;
    for (size_t i = 0; i < rank->window_count; i++)
        if (is_chosen(rank->windows[i].number, options)) rank->windows[remaining++] = rank->windows[i];
    rank->window_count = remaining;
    keep_work(rank);
}

/* ---- windows of work ---- */

/* Windows come in the order of their steps. */
struct aorta_trace_step_map aorta_trace_step_map_make(const struct aorta_trace_rank *rank, struct aorta_arena *memory) {
    const struct aorta_trace *trace = rank->trace;
    struct aorta_trace_step_map map = {rank, aorta_arena_raw(memory, trace->step_count * sizeof *map.window), NULL};
    size_t at = 0;
    for (size_t i = 0; map.window && i < trace->step_count; i++) {
        size_t found = at;
        while (found < rank->window_count && rank->windows[found].number != trace->steps[i].number) found++;
        map.window[i] = found < rank->window_count ? found : SIZE_MAX;
        if (found < rank->window_count) at = found + 1;
    }
    if (!trace->measured) return map;
    map.of_work = aorta_arena_alloc(memory, rank->work_count * sizeof *map.of_work);
    for (size_t i = 0; map.of_work && i < rank->window_count; i++)
        for (size_t j = 0; j < rank->windows[i].profile.range_count; j++)
            map.of_work[rank->windows[i].work[j]] = (uint32_t)i;
    return map;
}

size_t aorta_trace_window_at(const struct aorta_trace_step_map *map, int64_t host_ns) {
    size_t step = step_at(map->rank->trace, host_ns);
    return step < map->rank->trace->step_count ? map->window[step] : SIZE_MAX;
}

size_t aorta_trace_window_of(const struct aorta_trace_step_map *map, const struct aorta_trace_work *work) {
    const struct aorta_trace_rank *rank = map->rank;
    if (map->of_work) return map->of_work[work - rank->work];
    if (work->call != AORTA_TRACE_NONE) {
        size_t window = aorta_trace_window_at(map, rank->trace->calls[work->call].start_ns);
        if (window != SIZE_MAX) return window;
    }
    size_t low = aorta_count_until(rank->windows, rank->window_count, sizeof *rank->windows,
                                   offsetof(struct aorta_trace_window, end_ns), work->start_ns);
    return low < rank->window_count ? low : rank->window_count - 1;
}
