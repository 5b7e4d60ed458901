/* Whether all gradients are reduced several times a step: once for each micro-batch, where once would do.
 *
 *     launched  forward backward R backward R | forward backward R backward R | optimizer
 *
 * The same kernels lie before the same reductions in each part, and before the first of a part as many as between the
 * step's last and the next step's first. Pointwise kernels do not count: sums into gradients and an optimizer's. */
#include "timeline/gradients.h"
#include "verdict/verdict_internal.h"

#include <stdlib.h>
#include <string.h>

static const double AS_MANY = 0.7; /* of the kernels from step to step: a forward pass is among them */

/* Kernels launched before a reduction, since the one before. */
struct before {
    uint64_t hash;
    size_t count;
};

static bool is_pointwise(const char *name) {
    return strstr(name, "elementwise") || strstr(name, "multi_tensor") || strstr(name, "CatArray");
}

static bool is_reduction(const struct aorta_trace *trace, const struct aorta_trace_work *work,
                         enum aorta_collective kind) {
    const uint32_t facts = work->collective;
    return aorta_trace_is_collective(work) && aorta_trace_collective_kind(trace, work) == kind &&
           (facts == AORTA_TRACE_NONE || aorta_group_may_copy_model(trace, trace->collectives[facts].group));
}

static int by_launch(const void *left, const void *right) {
    const struct aorta_trace_work *a = *(const struct aorta_trace_work *const *)left;
    const struct aorta_trace_work *b = *(const struct aorta_trace_work *const *)right;
    if (a->call != b->call) return a->call < b->call ? -1 : 1;
    return (a->start_ns > b->start_ns) - (a->start_ns < b->start_ns);
}

/* found[]: one more than there are reductions, the last for what is launched after the last. */
static size_t collect(const struct aorta_trace *trace, const struct aorta_trace_work **work, size_t count,
                      enum aorta_collective kind, struct before *found) {
    size_t reductions = 0;
    qsort(work, count, sizeof *work, by_launch);
    found[0] = (struct before){0};
    for (size_t i = 0; i < count; i++) {
        if (is_reduction(trace, work[i], kind)) {
            found[++reductions] = (struct before){0};
        } else if (work[i]->kind == AORTA_TRACE_KERNEL && !is_pointwise(aorta_trace_text(trace, work[i]->name))) {
            found[reductions].hash = 31 * found[reductions].hash + work[i]->name + 1;
            found[reductions].count++;
        }
    }
    return reductions;
}

/* The parts that a step's reductions repeat in; 1: they do not. */
static size_t parts_of(const struct before *found, size_t count) {
    const size_t around = found[0].count + found[count].count;
    for (size_t length = 1; 2 * length <= count; length++) {
        bool same = count % length == 0 && (double)found[length].count >= AS_MANY * (double)around && around;
        for (size_t i = 1; same && i + length < count; i++)
            same = found[i].hash == found[i + length].hash && found[i].count == found[i + length].count;
        if (same) return count / length;
    }
    return 1;
}

int aorta_verdict_reduced_again(const struct aorta_trace_analysis *analysis, const struct aorta_trace_rank *rank,
                                enum aorta_collective kind, struct aorta_arena *memory) {
    const struct aorta_trace_window *window = rank->window_count ? &rank->windows[rank->window_count / 2] : NULL;
    if (!window || !analysis->stepped || analysis->measured) return 1;
    bool gradients = false;
    aorta_status status = aorta_trace_reduces_gradients(rank, kind, &gradients);
    memory->failed |= status != NULL;
    aorta_status_free(status);
    if (!gradients) return 1;
    const size_t limit = window->profile.range_count;
    struct aorta_arena scratch = {0};
    const struct aorta_trace_work **work = aorta_arena_raw(&scratch, (limit + 1) * sizeof *work);
    struct before *found = aorta_arena_raw(&scratch, (limit + 1) * sizeof *found);
    size_t count = 0, parts = 1;
    for (size_t i = 0; work && i < limit; i++)
        if (rank->work[window->work[i]].start_ns >= window->start_ns) work[count++] = &rank->work[window->work[i]];
    if (work && found) parts = parts_of(found, collect(rank->trace, work, count, kind, found));
    aorta_arena_end(&scratch, memory);
    return (int)parts;
}
