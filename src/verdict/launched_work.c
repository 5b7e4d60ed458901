/* What a step takes without some of its work and the launches of that work. */
#include "analysis/phases.h"
#include "replay/trace_graph.h"
#include "trace/trace.h"
#include "verdict/verdict_internal.h"

#include <stdlib.h>
#include <string.h>

static int by_launch(const void *left, const void *right) {
    const struct aorta_trace_work *a = *(const struct aorta_trace_work *const *)left;
    const struct aorta_trace_work *b = *(const struct aorta_trace_work *const *)right;
    if (a->call != b->call) return a->call < b->call ? -1 : 1;
    return (a->start_ns > b->start_ns) - (a->start_ns < b->start_ns);
}

bool aorta_launches_named(const struct aorta_launched_work *launched, size_t at, const char *part) {
    return strstr(aorta_trace_text(launched->rank->trace, launched->work[at]->name), part) != NULL;
}

bool aorta_launches_pointwise(const struct aorta_launched_work *launched, size_t at) {
    static const char *const parts[] = {"elementwise", "multi_tensor", "CatArray", "chunk_cat"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (aorta_launches_named(launched, at, parts[i])) return true;
    return false;
}

bool aorta_launches_copy(const struct aorta_launched_work *launched, size_t at, enum aorta_copied how) {
    const struct aorta_trace_work *work = launched->work[at];
    return work->kind == AORTA_TRACE_COPY &&
           aorta_copied_how(aorta_trace_text(launched->rank->trace, work->name)) == how;
}

bool aorta_launches_collective(const struct aorta_launched_work *launched, size_t at, enum aorta_collective kind) {
    const struct aorta_trace_work *work = launched->work[at];
    return aorta_trace_is_collective(work) && aorta_trace_collective_kind(launched->rank->trace, work) == kind;
}

bool aorta_launches_reduction(const struct aorta_launched_work *launched, size_t at, enum aorta_collective kind) {
    const struct aorta_trace *trace = launched->rank->trace;
    const uint32_t facts = launched->work[at]->collective;
    return aorta_launches_collective(launched, at, kind) &&
           (facts == AORTA_TRACE_NONE || aorta_group_may_copy_model(trace, trace->collectives[facts].group));
}

uint32_t aorta_launched_main_stream(const struct aorta_launched_work *launched) {
    uint32_t stream = AORTA_TRACE_NONE;
    size_t votes = 0;
    for (size_t i = 0; i < launched->count; i++) {
        const uint32_t own = launched->work[i]->stream;
        if (!votes) stream = own;
        votes = own == stream ? votes + 1 : votes - 1;
    }
    return votes ? stream : AORTA_TRACE_NONE;
}

struct aorta_work_scale *aorta_launched_scale(const struct aorta_launched_work *launched, size_t at) {
    const struct aorta_trace_rank *rank = launched->rank;
    const size_t row = (size_t)(launched->work[at] - rank->work);
    return &launched->scales[rank->source ? rank->source[row] : row];
}

void aorta_drop_work(const struct aorta_launched_work *launched, size_t at) {
    *aorta_launched_scale(launched, at) = (struct aorta_work_scale){.left = 0, .gone = true, .prepared = true};
}

/* The work that began in the window; without scales. */
static void launched_of(const struct aorta_trace_rank *rank, const struct aorta_trace_window *window,
                        struct aorta_arena *memory, struct aorta_launched_work *launched) {
    const size_t limit = window->profile.range_count;
    const struct aorta_trace_work **work = aorta_arena_raw(memory, (limit + 1) * sizeof *work);
    size_t count = 0;
    for (size_t i = 0; work && i < limit; i++)
        if (rank->work[window->work[i]].start_ns >= window->start_ns) work[count++] = &rank->work[window->work[i]];
    if (count) qsort(work, count, sizeof *work, by_launch);
    *launched = (struct aorta_launched_work){rank, work, count, NULL};
}

void aorta_launched_in_middle(const struct aorta_trace_analysis *analysis, const struct aorta_trace_rank *rank,
                              struct aorta_arena *memory, struct aorta_launched_work *launched) {
    *launched = (struct aorta_launched_work){.rank = rank};
    if (rank->window_count && analysis->stepped && !analysis->measured)
        launched_of(rank, &rank->windows[rank->window_count / 2], memory, launched);
}

static void drop_of_rank(const struct aorta_trace_rank *rank, aorta_work_dropper *drop, const void *context,
                         struct aorta_work_scale *scales, struct aorta_arena *memory) {
    for (size_t i = 0; i < rank->window_count; i++) {
        struct aorta_arena scratch = {0};
        struct aorta_launched_work launched;
        launched_of(rank, &rank->windows[i], &scratch, &launched);
        launched.scales = scales;
        if (!scratch.failed) drop(&launched, context);
        aorta_arena_end(&scratch, memory);
    }
}

double aorta_gain_without_work(const struct gains *gains, uint32_t removed, aorta_work_dropper *drop,
                               const void *context) {
    const struct aorta_trace_analysis *analysis = gains->analysis;
    struct aorta_arena memory = {0};
    struct aorta_graph scaled = {0};
    struct aorta_replay replay = {0};
    double gain_ns = 0;
    struct aorta_work_scale **scales = aorta_arena_alloc(&memory, (analysis->rank_count + 1) * sizeof(void *));
    for (size_t i = 0; scales && i < analysis->rank_count; i++) {
        const size_t count = analysis->ranks[i].trace->work_count;
        scales[i] = aorta_arena_raw(&memory, (count + 1) * sizeof **scales);
        for (size_t j = 0; scales[i] && j < count; j++) scales[i][j] = (struct aorta_work_scale){.left = 1};
        if (scales[i]) drop_of_rank(&analysis->ranks[i], drop, context, scales[i], &memory);
    }
    if (!memory.failed) {
        aorta_graph_scale(gains->built, (const struct aorta_work_scale *const *)scales, &scaled);
        aorta_replay_run(&scaled, removed, &replay);
        gain_ns = gains->found.replayed_ns - replay.step_ns;
        memory.failed |= replay.memory.failed;
    }
    aorta_replay_free(&replay);
    aorta_graph_scaled_free(&scaled);
    aorta_arena_end(&memory, gains->verdict->arena);
    return gain_ns > 0 && !gains->verdict->arena->failed ? gain_ns / 1e6 : 0;
}
