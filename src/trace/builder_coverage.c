/* Records that are missing, and such as cannot be: launches without work, and work that runs, as it was recorded, when
 * later work of its stream has ended already. */
#include "trace/builder_internal.h"

#include "trace/kernel_names.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- launches without work ---- */

static bool launches(const struct aorta_trace_call *call) {
    return call->correlation && (call->kind == AORTA_CALL_LAUNCH || call->kind == AORTA_CALL_GRAPH_LAUNCH);
}

/* A launch within another is its part in a lower interface. */
void aorta_trace_count_unanswered(struct aorta_trace_builder *builder, const uint8_t *answers) {
    struct aorta_trace_coverage *coverage = &builder->trace->coverage;
    const struct aorta_trace_call *calls = builder->calls.items;
    int64_t *until_ns = malloc((builder->threads.count + 1) * sizeof *until_ns); /* of the thread's last launch */
    if (!until_ns) builder->failed = true;
    for (size_t i = 0; until_ns && i < builder->threads.count; i++) until_ns[i] = INT64_MIN;
    for (size_t i = 0; until_ns && i < builder->calls.count; i++) {
        if (!launches(&calls[i]) || answers[i] == TRACE_CAPTURED || calls[i].end_ns <= until_ns[calls[i].thread])
            continue;
        until_ns[calls[i].thread] = calls[i].end_ns;
        coverage->launches++;
        if (answers[i] == TRACE_ANSWERED) continue;
        coverage->unanswered++;
        aorta_trace_builder_warn(builder, AORTA_REASON_NO_WORK, -1);
    }
    free(until_ns);
}

/* ---- work that cannot have taken so long ---- */

/* The work of a stream that ends last so far, and where the work after it begins. */
struct open_work {
    struct trace_pending *row; /* NULL: none */
    int64_t next_ns;           /* INT64_MAX: nothing has begun since */
    size_t ended;              /* later work that ended before it */
};

static void name_first(struct aorta_trace_builder *builder, const struct aorta_trace_work *work) {
    struct aorta_trace_warning *warning = &builder->trace->warnings[AORTA_REASON_IMPOSSIBLE_LENGTH];
    char name[128], text[192];
    if (warning->about) return;
    aorta_kernel_short_name(aorta_trace_text(builder->trace, work->name), name, sizeof name);
    const int length = snprintf(text, sizeof text, "%s, %.4g ms", name, (double)(work->end_ns - work->start_ns) / 1e6);
    const uint32_t number = aorta_trace_builder_text(builder, text, (size_t)length);
    if (number != AORTA_TRACE_NONE) warning->about = aorta_trace_text(builder->trace, number);
}

static void cut(struct aorta_trace_builder *builder, const struct open_work *open) {
    name_first(builder, &open->row->work);
    open->row->work.end_ns = open->next_ns;
    aorta_trace_builder_warn(builder, AORTA_REASON_IMPOSSIBLE_LENGTH, open->row->offset);
}

/* Streams run one piece after the other. What a graph launched may run side by side, as may what a stream puts into
 * several queues, and kernels may begin early, but none ends before the one ahead of it. */
static bool ended_before(const struct trace_pending *later, const struct trace_pending *open) {
    return later->work.end_ns < open->work.end_ns && !open->work.graph && !later->work.graph &&
           open->work.queue == later->work.queue;
}

/* Hardware queues of AMD can run two kernels side by side: more of them, or one in the first tenth, are none that can.
 */
static bool is_impossible(const struct open_work *open, const struct trace_pending *later) {
    enum { MANY = 3, TIMES = 10 };
    const int64_t start_ns = open->row->work.start_ns, length_ns = open->row->work.end_ns - start_ns;
    return open->ended >= MANY || (later->work.end_ns - start_ns) < length_ns / TIMES;
}

void aorta_trace_cut_impossible(struct aorta_trace_builder *builder) {
    struct trace_pending *rows = builder->pending.items;
    struct open_work *open = calloc(builder->streams.count + 1, sizeof *open);
    if (!open) builder->failed = true;
    const bool of_streams = builder->trace->format != AORTA_TRACE_METRICS; /* ranges of a role are not */
    for (size_t i = 0; open && of_streams && i < builder->pending.count; i++) {
        const struct aorta_trace_work *work = &rows[i].work;
        struct open_work *of = &open[work->stream];
        const bool numbered = builder->streams.keys[work->stream][2] >= 0;
        if (of->row && numbered && work->start_ns < of->row->work.end_ns) {
            if (of->next_ns > work->start_ns) of->next_ns = work->start_ns;
            of->ended += ended_before(&rows[i], of->row);
            if (of->ended && is_impossible(of, &rows[i]))
                cut(builder, of);
            else if (work->end_ns < of->row->work.end_ns)
                continue;
        }
        *of = (struct open_work){&rows[i], INT64_MAX, 0};
    }
    free(open);
}
