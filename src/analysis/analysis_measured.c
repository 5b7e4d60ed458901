/* Ranks whose steps a recorder of ours measured (aorta_trace_measured): a window is a step as it was measured. */
#include "analysis/analysis_internal.h"
#include "analysis/steps.h"

/* ---- warm-up ---- */

size_t aorta_analysis_warmup(size_t steps) {
    return steps < 4 ? 0 : steps < 10 ? 1 : 3;
}

static const struct aorta_trace *first_measured(const struct aorta_trace_analysis *analysis) {
    for (size_t i = 0; i < analysis->rank_count; i++)
        if (analysis->ranks[i].trace->measured) return analysis->ranks[i].trace;
    return NULL;
}

void aorta_trace_warmup_choose(struct aorta_trace_analysis *analysis,
                               const struct aorta_trace_analysis_options *options) {
    const struct aorta_trace *trace = first_measured(analysis);
    analysis->measured = trace != NULL;
    if (trace) analysis->warmup = options->warmup_given ? options->warmup : aorta_analysis_warmup(trace->step_count);
}

/* ---- windows ---- */

static bool is_chosen(const struct aorta_trace_step *step, const struct aorta_trace_analysis_options *options) {
    if (options->all_steps || !options->step_count) return true;
    for (size_t i = 0; i < options->step_count; i++)
        if (options->steps[i] == step->number) return true;
    return false;
}

/* Up to the next step where that was measured too, so that there is no hole between them; a step whose batch is copied
 * long before begins within this one. */
static int64_t end_of(const struct aorta_trace *trace, size_t step) {
    const struct aorta_trace_step *this = &trace->steps[step], *next = this + 1;
    const bool follows = step + 1 < trace->step_count && next->number == this->number + 1 &&
                         !trace->measured[step + 1].profile->own_clock &&
                         trace->measured[step + 1].profile->range_count && next->device_start_ns > this->device_end_ns;
    return follows ? next->device_start_ns : this->device_end_ns + 1;
}

/* In the order of the work; `row_of`: of each row of the trace's work. */
static void keep_work(struct aorta_trace_rank *rank, uint32_t *row_of, size_t count) {
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

static void add_window(struct aorta_trace_rank *rank, size_t step, const uint32_t *row_of) {
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
                                                                      .overlap = *measured->overlap,
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
        wanted[i] = measured->profile->range_count && is_chosen(&trace->steps[i], options);
        for (size_t j = 0; wanted[i] && j < measured->profile->range_count; j++, stored++)
            row_of[measured->work[j]] = measured->work[j];
    }
    if (row_of && wanted) keep_work(rank, row_of, stored);
    for (size_t i = 0; row_of && wanted && !rank->memory.failed && i < trace->step_count; i++)
        if (wanted[i]) add_window(rank, i, row_of);
    aorta_arena_end(&scratch, &rank->memory);
}

aorta_status aorta_trace_measured_check(const struct aorta_trace_analysis *analysis,
                                        const struct aorta_trace_analysis_options *options, size_t steps) {
    if (options->step_count) return NULL; /* those that are missing are named */
    for (size_t i = 0; i < analysis->rank_count; i++)
        if (analysis->ranks[i].window_count) return NULL;
    return AORTA_ERROR(
        AORTA_USAGE,
        "no iteration is left to analyse: %zu recorded, %zu of each rank are warm-up, all other iterations hold "
        "no ranges; leave out fewer (--warmup), or record more steps",
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
