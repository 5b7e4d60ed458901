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
    const struct aorta_trace_rank *rank = &gains->analysis->ranks[0];
    struct aorta_arena *memory = gains->verdict->arena, scratch = {0};
    struct aorta_launched_work launched;
    const int reduced = aorta_verdict_reduced_again(gains->analysis, rank, AORTA_REDUCE_SCATTER, memory);
    aorta_launched_in_middle(gains->analysis, rank, &scratch, &launched);
    const struct passes passes = count_passes(&launched, (size_t)reduced);
    aorta_arena_end(&scratch, memory);
    *times = passes.units ? (int)lround((double)passes.gathers / (double)passes.units) : 0;
    return *times > 1 ? aorta_gain_without_work(gains, 0, drop_gathers, &passes.units) : 0;
}
