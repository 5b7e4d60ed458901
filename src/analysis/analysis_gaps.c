/* When the host could not launch, and the longest gaps of a rank: why it was idle, and what the host did meanwhile. */
#include "analysis/analysis_internal.h"
#include "trace/copied.h"

#include <string.h>

/* ---- waits of the host: only threads that launch work count, as a watchdog that waits holds nobody up ---- */

static bool is_launch(const struct aorta_trace_call *call) {
    return call->kind == AORTA_CALL_LAUNCH || call->kind == AORTA_CALL_GRAPH_LAUNCH || call->kind == AORTA_CALL_COPY ||
           call->kind == AORTA_CALL_FILL || call->kind == AORTA_CALL_OTHER;
}

bool *aorta_trace_launching_threads(const struct aorta_trace *trace, struct aorta_arena *memory) {
    bool *launching = aorta_arena_alloc(memory, trace->thread_count);
    for (size_t i = 0; launching && i < trace->call_count; i++)
        if (is_launch(&trace->calls[i])) launching[trace->calls[i].thread] = true;
    return launching;
}

bool *aorta_trace_reading_calls(const struct aorta_trace *trace, struct aorta_arena *memory) {
    bool *reads = aorta_arena_alloc(memory, trace->call_count);
    for (size_t i = 0; reads && i < trace->work_count; i++) {
        const struct aorta_trace_work *work = &trace->work[i];
        if (work->kind == AORTA_TRACE_COPY && work->call != AORTA_TRACE_NONE &&
            aorta_copied_how(aorta_trace_text(trace, work->name)) == AORTA_COPIED_TO_HOST)
            reads[work->call] = true;
    }
    return reads;
}

/* The time lost by a wait of length d: the wait itself, and of the time until the thread's next launch what would not
 * have been lost without it, which is d at most. */
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
         next_ns && launching && i-- > 0;) { /* backwards, so that what comes next is known */
        const struct aorta_trace_call *call = &trace->calls[i];
        if (call->kind == AORTA_CALL_DATA_WAIT)
            aorta_intervals_add(&data, call->start_ns, call->end_ns);
        else if (launching[call->thread] && aorta_trace_call_waits(trace, call))
            aorta_intervals_add(&device, call->start_ns, lost_until(call, next_ns[call->thread]));
        if (is_launch(call)) next_ns[call->thread] = call->start_ns;
    }
    aorta_host_waits_make(&data, &device, waits);
    rank->memory.failed |= waits->device.failed;
    aorta_arena_end(&scratch, &rank->memory);
}

/* ---- gaps ---- */

static int64_t launch_of(const struct aorta_trace *trace, const struct aorta_trace_work *work) {
    return work->call == AORTA_TRACE_NONE ? INT64_MIN : trace->calls[work->call].start_ns;
}

/* Of the work that starts where the gap ends, what was launched first. `from`: no work before it starts so late. */
static size_t first_launched(const struct aorta_trace_rank *rank, size_t from) {
    size_t best = from;
    for (size_t i = from + 1; i < rank->work_count && rank->work[i].start_ns == rank->work[from].start_ns; i++)
        if (launch_of(rank->trace, &rank->work[i]) < launch_of(rank->trace, &rank->work[best])) best = i;
    return best;
}

static int64_t length_of(const struct aorta_trace_gap *gap) {
    return gap->end_ns - gap->start_ns;
}

/* Keeps the longest, longest first; the earlier of two alike. */
static void keep_longest(struct aorta_trace_rank *rank, const struct aorta_trace_gap *gap, size_t keep) {
    size_t at = rank->gap_count;
    while (at > 0 && length_of(&rank->gaps[at - 1]) < length_of(gap)) at--;
    if (at == keep) return;
    if (rank->gap_count < keep) rank->gap_count++;
    memmove(rank->gaps + at + 1, rank->gaps + at, (rank->gap_count - at - 1) * sizeof *gap);
    rank->gaps[at] = *gap;
}

/* What the host did longest while the gap lasted, and the innermost range that the program had marked there. */
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

/* Work of no length ends a gap too, and begins the next. */
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
        gap.launch_ns = launch_of(rank->trace, &rank->work[gap.next]);
        gap.idle = aorta_idle_of_gap(waits, gap.start_ns, gap.end_ns, gap.launch_ns);
        aorta_idle_add(&rank->idle, &gap.idle);
        keep_longest(rank, &gap, keep);
    }
    for (size_t i = 0; i < rank->gap_count; i++) {
        rank->gaps[i].step = step_at(rank, rank->gaps[i].end_ns);
        look_at_host(rank->trace, &rank->gaps[i]);
    }
}
