/* Parameters that are gathered for each micro-batch: once before its forward pass, once before its backward pass.
 *
 *     launched   copies G copy-out forward … | copies G copy-out backward … | copies G copy-out forward … | R R
 *
 * A unit of FSDP has as many gathers as passes, and one reduction. Before a gather, shards are copied on another stream
 * than that of compute. FSDP2 copies the result out afterwards. All that goes with the gathers after the first pass. */
#include "trace/trace.h"
#include "verdict/verdict_internal.h"

#include <math.h>

struct passes {
    size_t gathers, units;
};

static struct passes count_passes(const struct aorta_launched_work *launched, size_t reduced) {
    struct passes passes = {0};
    for (size_t i = 0; i < launched->count; i++) {
        passes.gathers += aorta_launches_reduction(launched, i, AORTA_ALL_GATHER);
        passes.units += aorta_launches_reduction(launched, i, AORTA_REDUCE_SCATTER);
    }
    passes.units /= reduced;
    return passes;
}

static void drop_copies_in(const struct aorta_launched_work *launched, size_t gather, uint32_t compute) {
    for (size_t i = gather; i-- > 0 && launched->work[i]->stream != compute;) {
        if (aorta_trace_is_collective(launched->work[i])) return;
        aorta_drop_work(launched, i);
    }
}

static void drop_copy_out(const struct aorta_launched_work *launched, size_t at) {
    aorta_drop_work(launched, at);
    if (at && aorta_launches_copy(launched, at - 1, AORTA_COPIED_TO_DEVICE)) aorta_drop_work(launched, at - 1);
}

/* Keeps the gathers of the first pass. */
static void drop_gathers(const struct aorta_launched_work *launched, const void *context) {
    const size_t units = *(const size_t *)context;
    const uint32_t compute = aorta_launched_main_stream(launched);
    size_t gathers = 0, copies = 0;
    for (size_t i = 0; i < launched->count; i++) {
        if (aorta_launches_named(launched, i, "split_with_sizes_copy_out") && ++copies > units)
            drop_copy_out(launched, i);
        if (!aorta_launches_reduction(launched, i, AORTA_ALL_GATHER) || ++gathers <= units) continue;
        aorta_drop_work(launched, i);
        drop_copies_in(launched, i, compute);
    }
}

double aorta_gain_of_gathering_once(const struct gains *gains, int *times) {
    const struct aorta_trace_analysis *analysis = gains->analysis;
    const struct aorta_trace_rank *rank = &analysis->ranks[0];
    struct aorta_arena scratch = {0};
    struct aorta_launched_work launched = {.rank = rank};
    *times = 0;
    if (!rank->window_count || !analysis->stepped || analysis->measured) return 0;
    const int reduced = aorta_verdict_reduced_again(analysis, rank, AORTA_REDUCE_SCATTER, gains->verdict->arena);
    aorta_launched_work_of(rank, &rank->windows[rank->window_count / 2], &scratch, &launched);
    const struct passes passes = scratch.failed ? (struct passes){0} : count_passes(&launched, (size_t)reduced);
    aorta_arena_end(&scratch, gains->verdict->arena);
    if (!passes.units) return 0;
    *times = (int)lround((double)passes.gathers / (double)passes.units);
    return *times > 1 ? aorta_gain_without_work(gains, 0, drop_gathers, &passes.units) : 0;
}
