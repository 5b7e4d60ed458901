/* Where a rank's time is cut. On the device a step reaches from the first start of what was launched within its range
 * on the host to the first start of the next step's; the last one to the end of what was launched in it, as does each
 * one where steps are iterations measured one by one: what lies between those is left out. What runs across a cut
 * counts on each side with the part that lies there, so that windows add up to the whole. */
#include "analysis/analysis_internal.h"
#include "base/sort.h"

#include <stdlib.h>
#include <string.h>

/* What was launched within a step. */
struct reach {
    int64_t first_start_ns, last_end_ns;
};

/* The step whose host range holds the time; step_count: none. Steps are sorted and do not overlap. */
static size_t step_at(const struct aorta_trace *trace, int64_t time_ns) {
    size_t low = aorta_count_until(trace->steps, trace->step_count, sizeof *trace->steps,
                                   offsetof(struct aorta_trace_step, start_ns), time_ns);
    return low && time_ns < trace->steps[low - 1].end_ns ? low - 1 : trace->step_count;
}

static void measure_reaches(const struct aorta_trace_rank *rank, struct reach *reaches) {
    const struct aorta_trace *trace = rank->trace;
    for (size_t i = 0; i < trace->step_count; i++) reaches[i] = (struct reach){INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < rank->work_count; i++) {
        const struct aorta_trace_work *work = &rank->work[i];
        if (work->call == AORTA_TRACE_NONE && !trace->host_only) continue;
        size_t step = step_at(trace, trace->host_only ? work->start_ns : trace->calls[work->call].start_ns);
        if (step == trace->step_count) continue;
        if (work->start_ns < reaches[step].first_start_ns) reaches[step].first_start_ns = work->start_ns;
        if (work->end_ns > reaches[step].last_end_ns) reaches[step].last_end_ns = work->end_ns;
    }
    for (size_t i = 0; i < trace->step_count; i++) { /* what the file says of the device, where launches are unknown */
        const struct aorta_trace_step *step = &trace->steps[i];
        if (step->device_start_ns == INT64_MIN) continue;
        if (reaches[i].first_start_ns == INT64_MAX) reaches[i].first_start_ns = step->device_start_ns;
        if (reaches[i].last_end_ns < step->device_end_ns) reaches[i].last_end_ns = step->device_end_ns;
    }
}

static void add_window(struct aorta_trace_rank *rank, int64_t number, int64_t start_ns, int64_t end_ns) {
    if (start_ns < end_ns)
        rank->windows[rank->window_count++] =
            (struct aorta_trace_window){.number = number, .start_ns = start_ns, .end_ns = end_ns};
}

/* Iterations measured one by one. */
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
    add_window(rank, open_number, at_ns, last_ns + 1); /* the last nanosecond's empty work included */
}

static aorta_status cut(struct aorta_trace_rank *rank) {
    const struct aorta_trace *trace = rank->trace;
    struct reach *reaches = calloc(trace->step_count + 1, sizeof *reaches);
    rank->windows = calloc(trace->step_count + 3, sizeof *rank->windows);
    if (!reaches || !rank->windows) {
        free(reaches);
        return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu steps", trace->step_count);
    }
    int64_t last_ns = INT64_MIN;
    for (size_t i = 0; i < rank->work_count; i++)
        if (rank->work[i].end_ns > last_ns) last_ns = rank->work[i].end_ns;
    measure_reaches(rank, reaches);
    if (trace->steps_by == AORTA_STEPS_APART)
        place_iterations(rank, reaches);
    else if (rank->work_count)
        place_windows(rank, reaches, rank->work[0].start_ns, last_ns);
    free(reaches);
    return NULL;
}

/* ---- choosing ---- */

static bool chosen(const struct aorta_trace_window *window, const struct aorta_trace_analysis_options *options) {
    if (options->all_steps) return window->number != INT64_MIN;
    for (size_t i = 0; i < options->step_count; i++)
        if (options->steps[i] == window->number) return true;
    return false;
}

/* The part of the work that lies in a window; false: none. */
static bool clip(const struct aorta_trace_work *work, const struct aorta_trace_window *window,
                 struct aorta_trace_work *part) {
    if (work->start_ns >= window->end_ns) return false;
    if (work->end_ns <= window->start_ns && work->start_ns < window->start_ns) return false;
    *part = *work;
    if (part->start_ns < window->start_ns) {
        part->start_ns = window->start_ns;
        part->leads = false; /* the first part has */
    }
    if (part->end_ns > window->end_ns) part->end_ns = window->end_ns;
    return true;
}

/* A part of the rank's work that lies in a window. */
struct piece {
    struct aorta_trace_work work;
    uint32_t source;
};

static int piece_order(const void *left, const void *right) {
    const struct aorta_trace_work *a = &((const struct piece *)left)->work, *b = &((const struct piece *)right)->work;
    if (a->start_ns != b->start_ns) return a->start_ns < b->start_ns ? -1 : 1;
    return (a->end_ns > b->end_ns) - (a->end_ns < b->end_ns);
}

/* Returns how many there are; fills `pieces` unless it is NULL. Windows are disjoint and sorted, as is the work. */
static size_t cut_work(const struct aorta_trace_rank *rank, struct piece *pieces) {
    struct piece piece;
    size_t count = 0, from = 0;
    for (size_t i = 0; i < rank->work_count; i++) {
        while (from < rank->window_count && rank->windows[from].end_ns <= rank->work[i].start_ns) from++;
        for (size_t j = from; j < rank->window_count && clip(&rank->work[i], &rank->windows[j], &piece.work); j++) {
            piece.source = rank->source ? rank->source[i] : (uint32_t)i;
            if (pieces) pieces[count] = piece;
            count++;
        }
    }
    return count;
}

static aorta_status keep_work(struct aorta_trace_rank *rank) {
    size_t count = cut_work(rank, NULL);
    struct piece *pieces = malloc((count + 1) * sizeof *pieces);
    struct aorta_trace_work *remaining = malloc((count + 1) * sizeof *remaining);
    uint32_t *source = malloc((count + 1) * sizeof *source);
    if (!pieces || !remaining || !source) {
        free(pieces);
        free(remaining);
        free(source);
        return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu kernels", count);
    }
    cut_work(rank, pieces);
    qsort(pieces, count, sizeof *pieces, piece_order); /* what is cut starts anew */
    for (size_t i = 0; i < count; i++) {
        remaining[i] = pieces[i].work;
        source[i] = pieces[i].source;
    }
    free(pieces);
    free(rank->owned);
    free(rank->source);
    rank->work = rank->owned = remaining;
    rank->source = source;
    rank->work_count = count;
    return NULL;
}

static bool any_step_ran(const struct aorta_trace_rank *rank) {
    struct aorta_trace_work part;
    size_t from = 0;
    for (size_t i = 0; i < rank->work_count; i++) {
        while (from < rank->window_count && rank->windows[from].end_ns <= rank->work[i].start_ns) from++;
        for (size_t j = from; j < rank->window_count && clip(&rank->work[i], &rank->windows[j], &part); j++)
            if (rank->windows[j].number != INT64_MIN) return true;
    }
    return false;
}

/* Steps may be marked where nothing ran, before or after all work: the whole is then one recording without steps. */
static void merge_windows(struct aorta_trace_rank *rank) {
    if (!rank->window_count || any_step_ran(rank)) return;
    const int64_t start_ns = rank->windows[0].start_ns, end_ns = rank->windows[rank->window_count - 1].end_ns;
    rank->window_count = 0;
    add_window(rank, INT64_MIN, start_ns, end_ns);
}

aorta_status aorta_trace_windows_cut(struct aorta_trace_rank *rank,
                                     const struct aorta_trace_analysis_options *options) {
    AORTA_TRY(cut(rank));
    merge_windows(rank);
    const bool all = !options->all_steps && !options->step_count;
    if (all && rank->trace->steps_by != AORTA_STEPS_APART) return NULL;
    size_t remaining = 0;
    for (size_t i = 0; i < rank->window_count; i++)
        if (all || chosen(&rank->windows[i], options)) rank->windows[remaining++] = rank->windows[i];
    rank->window_count = remaining;
    return keep_work(rank);
}

/* ---- asking ---- */

/* Windows come in the order of their steps. */
aorta_status aorta_trace_step_map_make(const struct aorta_trace_rank *rank, struct aorta_trace_step_map *map) {
    const struct aorta_trace *trace = rank->trace;
    *map = (struct aorta_trace_step_map){.rank = rank, .window = malloc((trace->step_count + 1) * sizeof *map->window)};
    if (!map->window) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu steps", trace->step_count);
    size_t at = 0;
    for (size_t i = 0; i < trace->step_count; i++) {
        size_t found = at;
        while (found < rank->window_count && rank->windows[found].number != trace->steps[i].number) found++;
        map->window[i] = found < rank->window_count ? found : SIZE_MAX;
        if (found < rank->window_count) at = found + 1;
    }
    if (!trace->measured) return NULL;
    map->of_work = calloc(rank->work_count + 1, sizeof *map->of_work);
    if (!map->of_work) return AORTA_ERROR(AORTA_MEMORY, "no memory for the steps of %zu operations", rank->work_count);
    for (size_t i = 0; i < rank->window_count; i++)
        for (size_t j = 0; j < rank->windows[i].profile.range_count; j++)
            map->of_work[rank->windows[i].work[j]] = (uint32_t)i;
    return NULL;
}

void aorta_trace_step_map_free(struct aorta_trace_step_map *map) {
    free(map->window);
    free(map->of_work);
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
