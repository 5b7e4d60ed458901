/* Facts about the place in the program where a cause begins. */
#include "base/interval.h"
#include "trace/trace.h"
#include "verdict/verdict_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The first work that a call launched; NULL: none, or no call. */
static const struct aorta_trace_work *launched_by(const struct aorta_trace *trace,
                                                  const struct aorta_trace_call *call) {
    for (size_t i = 0; call && i < trace->work_count; i++)
        if (trace->work[i].call == (uint32_t)(call - trace->calls)) return &trace->work[i];
    return NULL;
}

static const char *launched_name(const struct aorta_trace *trace, const struct aorta_trace_call *call) {
    const struct aorta_trace_work *work = launched_by(trace, call);
    return work ? aorta_trace_text(trace, work->name) : NULL;
}

/* The name of the work that a call launched, else the name of the call. Calls of our own recorder have no names: they
 * get the name of the next launch, or of the previous launch if `before` is set. NULL: none. */
static const char *name_of_call(const struct aorta_trace *trace, const struct aorta_trace_call *call, bool before) {
    const char *name = launched_name(trace, call);
    if (!trace->measured) return name ? name : aorta_trace_text(trace, call->name);
    if (before) {
        while (!name && call > trace->calls) name = launched_name(trace, --call);
        return name;
    }
    while (!name && ++call < trace->calls + trace->call_count) name = launched_name(trace, call);
    return name ? name : "the end";
}

static const char *name_of_point(const struct gains *gains, uint32_t point) {
    const struct aorta_trace_call *call = aorta_trace_graph_call(gains->built, point);
    return call ? name_of_call(aorta_trace_graph_trace(gains->built, point), call, false)
                : aorta_trace_graph_name(gains->built, point);
}

/* Time of collectives on the hosts, and their time without compute: means per step and rank, in the steps that count.
 * `name`: recorded name of one of them. */
static void sum_host_collectives(const struct aorta_trace_analysis *analysis, double *ran_ms, double *exposed_ms,
                                 const char **name, struct aorta_arena *memory) {
    *ran_ms = *exposed_ms = 0;
    AORTA_EACH (const struct aorta_trace_rank, rank, analysis->ranks, analysis->rank_count) {
        struct aorta_intervals ran = {0}, compute = {0}, alone = {0};
        AORTA_EACH (const struct aorta_trace_call, call, rank->trace->calls, rank->trace->call_count) {
            if (call->kind != AORTA_CALL_COLLECTIVE) continue;
            if (!strchr(*name, ':')) *name = aorta_trace_text(rank->trace, call->name); /* "gloo:all_reduce", if any */
            aorta_intervals_add(&ran, call->start_ns, call->end_ns);
        }
        for (size_t j = 0; j < rank->work_count; j++)
            if (rank->work[j].kind == AORTA_TRACE_KERNEL)
                aorta_intervals_add(&compute, rank->work[j].start_ns, rank->work[j].end_ns);
        aorta_intervals_subtract(&ran, &compute, &alone);
        const double share = 1e6 * (double)rank->steps * (double)analysis->rank_count;
        for (const struct aorta_trace_window *window = NULL; (window = aorta_step_after(analysis, rank, window));) {
            *ran_ms += (double)aorta_intervals_within(&ran, window->start_ns, window->end_ns) / share;
            *exposed_ms += (double)aorta_intervals_within(&alone, window->start_ns, window->end_ns) / share;
        }
        aorta_intervals_free(&ran);
        aorta_intervals_free(&compute);
        aorta_intervals_end(&alone, memory);
    }
}

/* ---- collectives of a recording without a device ---- */

/* `ran`: gloo's ranges. `compute`: operations of the program that are neither ranges nor collectives. */
static void collect_ran(const struct aorta_trace *trace, struct aorta_intervals *ran, struct aorta_intervals *compute,
                        const char **name) {
    AORTA_EACH (const struct aorta_trace_annotation, range, trace->annotations, trace->annotation_count) {
        if (!aorta_trace_is_gloo_range(aorta_trace_text(trace, range->name))) continue;
        *name = aorta_trace_text(trace, range->name);
        aorta_intervals_add(ran, range->start_ns, range->end_ns);
    }
    AORTA_EACH (const struct aorta_trace_operation, operation, trace->operations, trace->operation_count) {
        if (operation->range || strncmp(aorta_trace_text(trace, operation->name), "c10d::", 6) == 0) continue;
        aorta_intervals_add(compute, operation->start_ns, operation->end_ns);
    }
}

/* Without steps the time is that of all host events. Time without an operation is idle. */
static void widen_to_host(const struct aorta_trace *trace, const struct aorta_intervals *ran,
                          struct aorta_verdict *verdict) {
    int64_t first_ns = ran->items[0].start_ns, last_ns = ran->items[ran->count - 1].end_ns;
    for (size_t i = 0; i < trace->operation_count; i++) {
        if (trace->operations[i].start_ns < first_ns) first_ns = trace->operations[i].start_ns;
        if (trace->operations[i].end_ns > last_ns) last_ns = trace->operations[i].end_ns;
    }
    const double more_ms = (double)(last_ns - first_ns) / 1e6 - verdict->step_ms_mean;
    struct aorta_finding *idle = aorta_verdict_find(verdict, AORTA_CAUSE_HOST_LAUNCH);
    if (more_ms <= 0 || verdict->rank_count != 1) return;
    verdict->step_ms_mean += more_ms;
    verdict->idle_ms += more_ms;
    verdict->ranks[0].step_ns += llround(more_ms * 1e6);
    verdict->ranks[0].cause_ns[AORTA_CAUSE_HOST_LAUNCH] += llround(more_ms * 1e6);
    if (idle) idle->cost_ms += more_ms;
    for (size_t i = 0; i < verdict->finding_count; i++)
        verdict->findings[i].share = verdict->findings[i].cost_ms / verdict->step_ms_mean;
}

void aorta_verdict_host_collectives(const struct aorta_trace *trace, struct aorta_verdict *verdict) {
    struct aorta_intervals ran = {0}, compute = {0}, alone = {0};
    const char *name = NULL;
    collect_ran(trace, &ran, &compute, &name);
    aorta_intervals_subtract(&ran, &compute, &alone);
    double ran_ns = 0, alone_ns = 0, all_ns = 0;
    const size_t step_count = verdict->whole ? 0 : trace->step_count; /* steps may hold no operation */
    for (size_t i = 0; i < step_count; i++) {
        ran_ns += (double)aorta_intervals_within(&ran, trace->steps[i].start_ns, trace->steps[i].end_ns);
        alone_ns += (double)aorta_intervals_within(&alone, trace->steps[i].start_ns, trace->steps[i].end_ns);
        all_ns += (double)(trace->steps[i].end_ns - trace->steps[i].start_ns);
    }
    if (!step_count) {
        if (ran.count) widen_to_host(trace, &ran, verdict);
        ran_ns = (double)aorta_intervals_length(&ran);
        alone_ns = (double)aorta_intervals_length(&alone);
        all_ns = verdict->step_ms_mean * 1e6;
    }
    if (all_ns > 0) verdict->host_alone = alone_ns / all_ns;
    const double steps = step_count ? (double)step_count : 1;
    verdict->host_collectives.name = name ? aorta_arena_strdup(verdict->arena, name) : NULL;
    verdict->host_collectives.ran_ms = ran_ns / 1e6 / steps;
    verdict->host_collectives.alone_ms = alone_ns / 1e6 / steps;
    aorta_intervals_free(&ran);
    aorta_intervals_free(&compute);
    aorta_intervals_end(&alone, verdict->arena);
}

static void add_host_collectives(const struct gains *gains, struct aorta_finding *finding) {
    double ran_ms, exposed_ms;
    const char *name = "";
    sum_host_collectives(gains->analysis, &ran_ms, &exposed_ms, &name, gains->verdict->arena);
    (void)aorta_facts_set_named(&finding->facts, AORTA_FACT_HOST_COMM, ran_ms, name);
    (void)aorta_facts_set(&finding->facts, AORTA_FACT_HOST_EXPOSED, exposed_ms);
}

/* The name of the call on the same thread, or copy to the host, that comes before the pause; NULL: unknown. */
static const char *name_before(const struct gains *gains, const struct aorta_origin *origin) {
    const struct aorta_trace_work *copy = aorta_trace_graph_work(gains->built, origin->from);
    if (copy) return aorta_trace_text(aorta_trace_graph_trace(gains->built, origin->from), copy->name);
    const struct aorta_trace_call *call = aorta_trace_graph_call(gains->built, origin->from);
    return call ? name_of_call(aorta_trace_graph_trace(gains->built, origin->from), call, true) : NULL;
}

/* A pause, which ends with a call. */
struct pause {
    const struct aorta_trace *trace;
    const struct aorta_trace_call *call;
    int64_t ns;
    const struct aorta_trace_call *after; /* it follows this call, of another thread if that hands over; NULL: none */
};

/* The part of [start_ns, end_ns) within the pause. */
static int64_t ran_ns(const struct pause *pause, int64_t start_ns, int64_t end_ns) {
    const int64_t until_ns = pause->call->start_ns, since_ns = until_ns - pause->ns;
    const int64_t ns = (end_ns < until_ns ? end_ns : until_ns) - (start_ns > since_ns ? start_ns : since_ns);
    return ns > 0 ? ns : 0;
}

/* It ran on a thread of the pause for half of the pause or more. */
static bool fills(const struct pause *pause, uint32_t thread, int64_t start_ns, int64_t end_ns) {
    const bool own = thread == pause->call->thread || (pause->after && thread == pause->after->thread);
    return own && 2 * ran_ns(pause, start_ns, end_ns) >= pause->ns;
}

/* The shortest range that fills the pause; NULL: none. XLA's launching thread waits for other threads, whose ranges
 * count, too. *around: such a range of the launching thread continues after the pause. */
static const char *range_within(const struct pause *pause, bool *around) {
    const struct aorta_trace *trace = pause->trace;
    const bool any = aorta_trace_framework(trace) == AORTA_FRAMEWORK_XLA;
    const struct aorta_trace_annotation *shortest = NULL;
    for (size_t i = 0; i < trace->annotation_count && trace->annotations[i].start_ns < pause->call->start_ns; i++) {
        const struct aorta_trace_annotation *range = &trace->annotations[i];
        if (!fills(pause, any ? pause->call->thread : range->thread, range->start_ns, range->end_ns)) continue;
        *around |= range->thread == pause->call->thread && range->end_ns > pause->call->start_ns;
        if (!shortest || range->end_ns - range->start_ns <= shortest->end_ns - shortest->start_ns) shortest = range;
    }
    return shortest ? aorta_trace_text(trace, shortest->name) : NULL;
}

/* The outermost operation of the host that fills the pause and ends within it, for example aten::randn on the CPU.
 * *around: the innermost operation that ends later. NULL: none. */
static const char *operation_within(const struct pause *pause, const char **around) {
    const struct aorta_trace *trace = pause->trace;
    *around = NULL;
    AORTA_EACH (const struct aorta_trace_operation, operation, trace->operations, trace->operation_count) {
        if (operation->range || !fills(pause, operation->thread, operation->start_ns, operation->end_ns)) continue;
        const char *name = aorta_trace_text(trace, operation->name);
        if (operation->end_ns <= pause->call->start_ns) return name;
        *around = name;
    }
    return NULL;
}

/* Recorded calls in the pause that neither launch nor wait for the device, and functions of Python. */
struct calls_within {
    const char *name;     /* calls of this name fill the pause; NULL: none */
    const char *function; /* innermost function of Python that fills the pause; NULL: none recorded */
    bool inside;          /* `function` ends within the pause */
    bool loads;           /* modules of kernels are loaded */
    bool starts;          /* the program starts a process, or waits for one */
    bool computes;        /* the recording has system calls, and all calls take less than a tenth of the pause */
};

static struct calls_within calls_within(const struct pause *pause, struct aorta_arena *memory) {
    static const char *const starters[] = {"posix_spawn", "fork", "vfork", "wait4", "waitpid"};
    const struct aorta_trace *trace = pause->trace;
    struct calls_within within = {0};
    int64_t innermost_ns = INT64_MIN;
    int64_t *of_name = aorta_arena_alloc(memory, (aorta_trace_text_count(trace) + 1) * sizeof *of_name), all_ns = 0;
    for (size_t i = 0; of_name && i < trace->frame_count; i++) {
        const struct aorta_trace_frame *frame = &trace->frames[i];
        if (frame->thread != pause->call->thread || frame->name == AORTA_TRACE_NONE) continue;
        if (frame->kind == AORTA_FRAME_FUNCTION && frame->start_ns >= innermost_ns &&
            fills(pause, frame->thread, frame->start_ns, frame->end_ns)) {
            innermost_ns = frame->start_ns;
            within.function = aorta_trace_text(trace, frame->name);
            within.inside = frame->end_ns <= pause->call->start_ns;
        }
        if (frame->kind < AORTA_FRAME_CALL) continue;
        const int64_t ns = ran_ns(pause, frame->start_ns, frame->end_ns);
        const char *name = aorta_trace_text(trace, frame->name);
        within.computes |= frame->kind == AORTA_FRAME_SYSTEM;
        within.loads |= ns && (strstr(name, "ModuleLoad") || strstr(name, "LibraryLoad"));
        all_ns += ns;
        of_name[frame->name] += ns;
        if (2 * of_name[frame->name] >= pause->ns) within.name = name;
        within.starts |= ns && aorta_is_one_of(name, starters, sizeof starters / sizeof *starters);
    }
    within.computes &= 10 * all_ns < pause->ns;
    return within;
}

/* The copy has arguments of FSDP2's kernels that pack or unpack many tensors. */
static bool copies_arguments(const struct gains *gains, uint32_t point) {
    const struct aorta_trace *trace = aorta_trace_graph_trace(gains->built, point);
    const struct aorta_trace_call *call = aorta_trace_graph_call(gains->built, point);
    const struct aorta_trace_work *copy = launched_by(trace, call);
    const struct aorta_trace_work *next = copy, *end = trace->work + trace->work_count;
    while (next && ++next < end && next->stream != copy->stream) {
    }
    if (!next || next >= end) return false;
    const char *name = aorta_trace_text(trace, next->name);
    return strstr(name, "chunk_cat") || strstr(name, "split_with_sizes_copy");
}

static struct pause pause_of(const struct gains *gains, const struct aorta_origin *origin) {
    const struct aorta_trace *trace = aorta_trace_graph_trace(gains->built, origin->point);
    const bool known = origin->from != AORTA_GRAPH_NONE && aorta_trace_graph_trace(gains->built, origin->from) == trace;
    return (struct pause){trace, aorta_trace_graph_call(gains->built, origin->point), origin->largest_ns,
                          known ? aorta_trace_graph_call(gains->built, origin->from) : NULL};
}

/* XLA loads kernels directly after it has compiled them. */
static bool xla_compiles(const struct pause *pause, const struct calls_within *within) {
    return within->loads && aorta_trace_framework(pause->trace) == AORTA_FRAMEWORK_XLA;
}

/* The pause ends with the launch of a copy to the device, in at least half of the steps. */
static bool brings_input(const struct gains *gains, const struct aorta_origin *origin, const char *where) {
    if (gains->verdict->whole || strncmp(where, "Memcpy", 6) != 0 ||
        aorta_copied_how(where) != AORTA_COPIED_TO_DEVICE || 2 * origin->count < aorta_gains_steps(gains) ||
        copies_arguments(gains, origin->point))
        return false;
    const struct pause pause = pause_of(gains, origin);
    if (!pause.call || aorta_trace_framework(pause.trace) != AORTA_FRAMEWORK_XLA) return true;
    const struct calls_within within = calls_within(&pause, gains->verdict->arena);
    return !xla_compiles(&pause, &within);
}

bool aorta_gains_input(const struct gains *gains, enum aorta_removal pause) {
    struct aorta_origin origin;
    aorta_replay_origin(gains->graph, pause, &origin, gains->verdict->arena);
    return origin.point != AORTA_GRAPH_NONE && brings_input(gains, &origin, name_of_point(gains, origin.point));
}

static const double NOTABLE = 0.02; /* of a gain: smaller waits are not named */
static bool is_within_one_call(const struct gains *gains, const struct aorta_origin *origin) {
    const struct aorta_trace_call *call = aorta_trace_graph_call(gains->built, origin->point);
    return call && origin->from != AORTA_GRAPH_NONE && call == aorta_trace_graph_call(gains->built, origin->from);
}

/* cublasCreate and similar functions make a long free before the first kernel. */
static bool starts_library(const struct aorta_trace *trace, const struct aorta_trace_call *call) {
    static const int64_t LONG_NS = 50000000;
    const struct aorta_trace_work *work = trace->work, *end = work + trace->work_count;
    if (!call || call->end_ns - call->start_ns < LONG_NS || !strstr(aorta_trace_text(trace, call->name), "Free"))
        return false;
    while (work < end && work->kind != AORTA_TRACE_KERNEL) work++;
    return work == end || work->start_ns >= call->end_ns;
}

/* A caching allocator runs out of memory and empties its cache in the steps of a rank. */
static bool empties_cache(const struct aorta_trace_analysis *analysis) {
    AORTA_EACH (const struct aorta_trace_rank, rank, analysis->ranks, analysis->rank_count) {
        for (size_t j = 0; j < rank->trace->call_count; j++)
            for (const struct aorta_trace_window *window = NULL;
                 aorta_trace_cache_emptied(rank->trace, j) && (window = aorta_step_after(analysis, rank, window));)
                if (rank->trace->calls[j].start_ns >= window->start_ns &&
                    rank->trace->calls[j].start_ns < window->end_ns)
                    return true;
    }
    return false;
}

static bool launches_first(const struct aorta_trace *trace, const struct aorta_trace_call *call) {
    const struct aorta_trace_work *launched = launched_by(trace, call);
    return launched && launched->first;
}

/* The host pauses for more than half as long before a later launch of the same kernel. */
static bool comes_again(const struct aorta_trace *trace, const struct aorta_trace_work *first, int64_t pause_ns) {
    for (const struct aorta_trace_work *work = first + 1; work < trace->work + trace->work_count; work++) {
        if (work->name != first->name || work->call == AORTA_TRACE_NONE || !work->call) continue;
        const struct aorta_trace_call *call = &trace->calls[work->call];
        if (call[-1].thread == call->thread && 2 * (call->start_ns - call[-1].end_ns) > pause_ns) return true;
    }
    return false;
}

/* A compiler runs in the pause. Either a range shows it (not "CompiledFxGraph", which runs compiled code). Or the next
 * launch is the first of a kernel that a compiler named, or follows the start of a process. A pause that recurs, or
 * that another call fills, compiles nothing. */
static bool compiles(const struct pause *pause, const char *range, const struct calls_within *within) {
    enum { SOON = 4 }; /* calls, of which the first may allocate */
    static const char *const makers[] = {"triton_", "fused_", "nvfuser", "cudapy", "cupy_"};
    const struct aorta_trace *trace = pause->trace;
    const struct aorta_trace_call *call = pause->call, *end = trace->calls + trace->call_count;
    const struct aorta_trace_work *work = launched_by(trace, call);
    const char *compiler = range ? strcasestr(range, "compile") : NULL;
    bool starts = within->starts;
    if (xla_compiles(pause, within)) return true;
    if (compiler && compiler[strlen("compile")] != 'd') return true;
    for (int i = 1; call && !work && !within->name && i < SOON && call + i < end; i++)
        if (call[i].thread == call->thread) work = launched_by(trace, call + i);
    for (size_t i = 0; work && i < sizeof makers / sizeof *makers; i++)
        starts |= aorta_begins(aorta_trace_text(trace, work->name), makers[i]);
    return work && starts && work->first && !comes_again(trace, work, pause->ns);
}

/* The call in the pause loads a kernel for its first launch. */
static bool loads(const struct pause *pause, const char *within) {
    return within && (strstr(within, "ModuleLoad") || strstr(within, "LibraryLoad")) &&
           launches_first(pause->trace, pause->call);
}

/* The host has just waited for a copy to the host that is larger than single values. No call shows XLA's wait. */
static bool follows_result(const struct gains *gains, const struct aorta_origin *origin) {
    if (aorta_trace_graph_work(gains->built, origin->from)) return true; /* this copy */
    const struct aorta_trace_call *call = aorta_trace_graph_call(gains->built, origin->from);
    const struct aorta_trace *trace = aorta_trace_graph_trace(gains->built, origin->from);
    const struct aorta_trace_work *work = call ? launched_by(trace, call) : NULL;
    if (!work) return false;
    const bool xla = aorta_trace_framework(trace) == AORTA_FRAMEWORK_XLA;
    const bool ended = work->end_ns <= call->end_ns + (xla ? origin->largest_ns / 2 : 0);
    return ended && work->kind == AORTA_TRACE_COPY && work->bytes > AORTA_VALUE_BYTES &&
           aorta_copied_how(aorta_trace_text(trace, work->name)) == AORTA_COPIED_TO_HOST;
}

/* Host activity in and around a pause. Names are the trace's; NULL: none. */
struct surroundings {
    const char *range, *operation, *around; /* see range_within, operation_within */
    bool marked;                            /* a range continues after the pause */
    struct calls_within calls;
};

static struct surroundings surroundings_of(const struct gains *gains, const struct pause *pause) {
    struct surroundings found = {0};
    if (!pause->call) return found;
    found.range = range_within(pause, &found.marked);
    found.operation = operation_within(pause, &found.around);
    found.calls = calls_within(pause, gains->verdict->arena);
    return found;
}

/* The host's activity in the pause, by the most specific record. NULL: unknown. */
static const char *host_of(const struct surroundings *found) {
    const char *names[] = {found->operation, found->calls.name, found->calls.inside ? found->calls.function : NULL,
                           found->range,     found->around,     found->calls.function};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i]) return names[i];
    return NULL;
}

/* A fact that explains the pause by the host's activity; AORTA_FACT_COUNT: none. */
static enum aorta_fact_key doing(const struct gains *gains, const struct pause *pause, const struct surroundings *found,
                                 const char *where) {
    const struct calls_within *calls = &found->calls;
    const unsigned no_allocator = AORTA_PROGRAM_NATIVE | AORTA_PROGRAM_DIRECTIVES;
    if (compiles(pause, found->range, calls)) return AORTA_FACT_PAUSE_COMPILED;
    if (calls->name && strstr(calls->name, "GraphInstantiate")) return AORTA_FACT_PAUSE_INSTANTIATES;
    if (loads(pause, calls->name)) return AORTA_FACT_PAUSE_LOAD;
    if (calls->computes) return AORTA_FACT_PAUSE_COMPUTES;
    if (found->around && strstr(found->around, "convolution")) return AORTA_FACT_PAUSE_PLANS;
    if (found->operation && strstr(found->operation, "search_unused")) return AORTA_FACT_PAUSE_UNUSED;
    if (!calls->name && !calls->inside && aorta_trace_changes_memory(where) && strcasestr(where, "alloc") &&
        !(gains->verdict->program & no_allocator))
        return AORTA_FACT_PAUSE_MEMORY;
    return AORTA_FACT_COUNT;
}

/* A fact that explains the pause by the copies around it; AORTA_FACT_COUNT: none. */
static enum aorta_fact_key serving(const struct gains *gains, const struct aorta_origin *origin, const char *where) {
    const bool copies = strncmp(where, "Memcpy", 6) == 0 && aorta_copied_how(where) <= AORTA_COPIED_TO_HOST;
    if (aorta_verdict_saves(gains, origin)) return AORTA_FACT_PAUSE_SAVE;
    if (!gains->verdict->whole && copies && aorta_verdict_is_offloaded(gains)) return AORTA_FACT_PAUSE_OFFLOAD;
    if (brings_input(gains, origin, where)) return AORTA_FACT_PAUSE_INPUT;
    return follows_result(gains, origin) ? AORTA_FACT_PAUSE_RESULT : AORTA_FACT_COUNT;
}

static void add_pause(const struct gains *gains, struct aorta_finding *finding, const struct aorta_origin *origin,
                      const char *where) {
    const struct pause pause = pause_of(gains, origin);
    struct aorta_fact *fact =
        aorta_facts_set_named(&finding->facts, AORTA_FACT_PAUSE, (double)origin->largest_ns / 1e6, where);
    fact->place.rank = finding->rank;
    if (is_within_one_call(gains, origin)) {
        fact->place.host = aorta_facts_text(&finding->facts, aorta_trace_text(pause.trace, pause.call->name));
        if (launches_first(pause.trace, pause.call)) aorta_facts_flag(&finding->facts, AORTA_FACT_PAUSE_LOAD);
        return;
    }
    const struct surroundings found = surroundings_of(gains, &pause);
    fact->place.after = aorta_facts_text(&finding->facts, name_before(gains, origin));
    fact->place.host = aorta_facts_text(&finding->facts, host_of(&found));
    const enum aorta_fact_key flags[] = {doing(gains, &pause, &found, where),
                                         found.marked ? AORTA_FACT_COUNT : serving(gains, origin, where)};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (flags[i] != AORTA_FACT_COUNT) aorta_facts_flag(&finding->facts, flags[i]);
}

/* A call has two points. Its start has the lower number. Times cannot be compared, as the recorder's cost may be
 * subtracted. */
static bool begins_call(const struct aorta_graph *graph, uint32_t point) {
    for (uint32_t i = 0; i < point; i++)
        if (graph->subject[i] == graph->subject[point] && graph->rank[i] == graph->rank[point]) return false;
    return true;
}

/* If no call shows the wait, the fact names the work that the next call launches. */
static void add_wait(const struct gains *gains, struct aorta_finding *finding, const struct aorta_origin *origin,
                     const char *where) {
    const bool waits = aorta_trace_graph_work(gains->built, origin->from) != NULL; /* for the device */
    const struct aorta_trace_call *call = aorta_trace_graph_call(gains->built, origin->point);
    const bool unseen = waits && call && call->kind != AORTA_CALL_SYNC && begins_call(gains->graph, origin->point);
    if (gains->analysis->measured || unseen)
        (void)aorta_facts_set_named(&finding->facts, AORTA_FACT_WAIT_BEFORE, 1, where);
}

/* The call that contains the wait. The wait ends with the call, or with the start of the call's copy. NULL: the call
 * only follows the wait. */
static const struct aorta_trace_call *call_of_wait(const struct gains *gains, const struct aorta_origin *origin) {
    const struct aorta_trace_call *call = aorta_trace_graph_call(gains->built, origin->point);
    if (call) return begins_call(gains->graph, origin->point) ? NULL : call;
    const struct aorta_trace_work *work = aorta_trace_graph_work(gains->built, origin->point);
    if (!work || work->call == AORTA_TRACE_NONE) return NULL;
    call = &aorta_trace_graph_trace(gains->built, origin->point)->calls[work->call];
    return call == aorta_trace_graph_call(gains->built, origin->from) ? call : NULL;
}

static void add_copy_wait(const struct gains *gains, struct aorta_finding *finding, const struct aorta_origin *origin,
                          const char *where) {
    const struct aorta_trace *trace = aorta_trace_graph_trace(gains->built, origin->point);
    const struct aorta_trace_call *call = call_of_wait(gains, origin);
    struct aorta_fact *wait =
        aorta_facts_set_named(&finding->facts, AORTA_FACT_COPY_WAIT, (double)origin->largest_ns / 1e6, where);
    if (call) wait->place.host = aorta_facts_text(&finding->facts, aorta_trace_text(trace, call->name));
}

/* Names kernels that the late rank runs more often than the other ranks, if they are most of the loss. */
static void add_more_runs(const struct gains *gains, struct aorta_finding *finding) {
    static const double MORE = 1.5, MOST = 0.5;
    const struct aorta_trace_difference *largest = NULL;
    double more_ns = 0, common_ns = 0;
    AORTA_EACH (const struct aorta_trace_difference, one, gains->analysis->differences,
                gains->analysis->difference_count) {
        if (gains->analysis->ranks[one->rank].rank != finding->rank || one->count < MORE * one->others_count) continue;
        if (!largest) largest = one; /* sorted, largest first */
        more_ns += one->excess_ns;
        if (one->others_count > 0) common_ns += one->excess_ns;
    }
    if (!largest || more_ns / 1e6 < MOST * finding->alone_ms) return;
    /* Work that all ranks can do may disappear, or all ranks may share it equally: the lower end of the range. */
    if (common_ns >= MOST * more_ns && !aorta_facts_has(&finding->facts, AORTA_FACT_UNEQUAL_WORK))
        finding->gain_range_ms[0] =
            fmin(finding->gain_range_ms[0], finding->gain_ms * (1 - 1 / (double)gains->verdict->rank_count));
    aorta_facts_set_named(&finding->facts, AORTA_FACT_MORE_RUNS, more_ns / 1e6, largest->name)->place.count =
        largest->count - largest->others_count;
}

void aorta_gains_add_origin(const struct gains *gains, struct aorta_finding *finding,
                            const struct aorta_origin *origin) {
    const char *where = name_of_point(gains, origin->point);
    const double largest_ms = (double)origin->largest_ns / 1e6;
    const double calls_ms = (double)origin->total_ns / 1e6 / aorta_gains_steps(gains);
    switch (finding->cause) {
    case AORTA_CAUSE_HOST_PAUSE:
        add_pause(gains, finding, origin, where);
        break;
    case AORTA_CAUSE_HOST_COLLECTIVE:
        add_host_collectives(gains, finding);
        break;
    case AORTA_CAUSE_HOST_SYNC:
        add_wait(gains, finding, origin, where);
        break;
    case AORTA_CAUSE_COPY:
        if (aorta_facts_has(&finding->facts, AORTA_FACT_HOST_WAITS) && largest_ms >= NOTABLE * finding->alone_ms)
            add_copy_wait(gains, finding, origin, where);
        break;
    case AORTA_CAUSE_ALLOCATION:
        (void)aorta_facts_set(&finding->facts, AORTA_FACT_ALLOCATING, calls_ms);
        (void)aorta_facts_set_named(&finding->facts, AORTA_FACT_ALLOCATION, largest_ms, where);
        if (starts_library(aorta_trace_graph_trace(gains->built, origin->point),
                           aorta_trace_graph_call(gains->built, origin->point)))
            aorta_facts_flag(&finding->facts, AORTA_FACT_LIBRARY_STARTS);
        if (empties_cache(gains->analysis)) aorta_facts_flag(&finding->facts, AORTA_FACT_CACHE_EMPTIED);
        finding->gain_range_ms[1] = fmin(finding->gain_range_ms[1], fmax(finding->gain_ms, calls_ms));
        break;
    case AORTA_CAUSE_STRAGGLER:
        (void)aorta_facts_set_named(&finding->facts, AORTA_FACT_LONGER, largest_ms, where);
        add_more_runs(gains, finding);
        break;
    default:
        break;
    }
}

/* ---- the critical path of the step without all causes, by kind of work ---- */

struct walk {
    const struct aorta_trace_graph *built;
    const struct aorta_graph *graph;
    struct aorta_verdict_left sums; /* ns */
};

static double *sum_of(struct walk *walk, uint32_t point, uint32_t edge) {
    struct aorta_verdict_left *sums = &walk->sums;
    /* If the work starts before its predecessor ends, the predecessor runs until then. */
    const bool within = aorta_graph_begins_within(walk->graph, edge);
    const uint32_t runs = within ? walk->graph->from[edge] : point;
    const struct aorta_trace_work *work = aorta_trace_graph_work(walk->built, runs);
    const bool copies = work && work->kind != AORTA_TRACE_KERNEL;
    const int kind = within ? (copies ? AORTA_EDGE_COPY : AORTA_EDGE_KERNEL) : walk->graph->kind[edge];
    if (kind < AORTA_EDGE_LAUNCH) return &sums->host_ms;     /* kinds of the host come first, */
    if (kind < AORTA_EDGE_TRANSFER) return &sums->starts_ms; /* then those of starts */
    if (kind == AORTA_EDGE_COPY) return &sums->copy_ms;
    return work && aorta_trace_is_collective(work)
               ? &sums->collective_ms[aorta_trace_collective_kind(aorta_trace_graph_trace(walk->built, runs), work)]
               : &sums->compute_ms;
}

static void visit(void *user, uint32_t point, uint32_t edge, int64_t lag_ns, int64_t residual_ns) {
    struct walk *walk = user;
    *sum_of(walk, point, edge) += (double)lag_ns;
    walk->sums.unexplained_ms += (double)residual_ns;
}

/* Measured time of kernels that are no collectives, mean of the ranks. */
static double own_compute_ns(const struct walk *walk) {
    const struct aorta_graph *graph = walk->graph;
    double sum_ns = 0;
    for (uint32_t i = 0; i < graph->point_count; i++) {
        const bool first = graph->time_ns[i] <= graph->ranks[graph->rank[i]].from_ns; /* replayed, not measured */
        const struct aorta_trace_work *work =
            aorta_graph_measured(graph, i) && !first ? aorta_trace_graph_work(walk->built, i) : NULL;
        if (!work || work->kind != AORTA_TRACE_KERNEL || aorta_trace_is_collective(work)) continue;
        for (uint32_t j = graph->first_edge[i]; j < graph->first_edge[i + 1]; j++)
            if (graph->kind[j] == AORTA_EDGE_KERNEL && graph->lag_ns[j] > 0) sum_ns += (double)graph->lag_ns[j];
    }
    return graph->rank_count ? sum_ns / graph->rank_count : 0;
}

void aorta_verdict_walk_left(const struct aorta_trace_graph *built, const struct aorta_graph *graph, double floor_ms,
                             struct aorta_verdict_left *left, struct aorta_arena *memory) {
    struct walk walk = {.built = built, .graph = graph};
    *left = (struct aorta_verdict_left){0};
    aorta_replay_walk(graph, aorta_removal_bit(AORTA_REMOVAL_COUNT) - 1, visit, &walk, memory);
    double total_ns =
        walk.sums.compute_ms + walk.sums.copy_ms + walk.sums.starts_ms + walk.sums.host_ms + walk.sums.unexplained_ms;
    for (int i = 0; i < AORTA_COLLECTIVE_COUNT; i++) total_ns += walk.sums.collective_ms[i];
    if (!(total_ns > 0)) return;
    const double scale = floor_ms / total_ns, alone_ns = walk.sums.compute_ms - own_compute_ns(&walk);
    *left = walk.sums;
    double *const parts[] = {&left->compute_ms, &left->copy_ms, &left->starts_ms, &left->host_ms,
                             &left->unexplained_ms};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) *parts[i] *= scale;
    for (int i = 0; i < AORTA_COLLECTIVE_COUNT; i++) left->collective_ms[i] *= scale;
    left->alone_ms = graph->rank_count > 1 && alone_ns > 0 ? scale * alone_ns : 0;
}
