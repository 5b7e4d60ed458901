/* What a step with several micro-batches repeats, where once would do. First: all gradients are reduced for each of
 * them.
 *
 *     launched  forward backward R backward R | forward backward R backward R | optimizer
 *
 * The same kernels lie before the same reductions in each part, and before the first of a part as many as between the
 * step's last and the next step's first. Pointwise kernels do not count: sums into gradients and an optimizer's. */
#include "analysis/phases.h"
#include "replay/trace_graph.h"
#include "trace/trace.h"
#include "verdict/verdict_internal.h"

#include <math.h>
#include <string.h>

static const double ALMOST_ALL = 0.9; /* of the reductions follow the kernel that fills a bucket */
static const double AS_MANY = 0.7;    /* of the kernels from step to step: a forward pass is among them */

/* Kernels launched before a reduction, since the one before. */
struct before {
    uint64_t hash;
    size_t count;
};

/* found[]: one more than there are reductions, the last for what is launched after the last. */
static size_t collect(const struct aorta_launched_work *launched, enum aorta_collective kind, struct before *found) {
    size_t reductions = 0;
    found[0] = (struct before){0};
    for (size_t i = 0; i < launched->count; i++) {
        const struct aorta_trace_work *work = launched->work[i];
        if (aorta_launches_reduction(launched, i, kind)) {
            found[++reductions] = (struct before){0};
        } else if (work->kind == AORTA_TRACE_KERNEL && !aorta_launches_pointwise(launched, i)) {
            found[reductions].hash = 31 * found[reductions].hash + work->name + 1;
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
    if (!aorta_trace_reduces_gradients(rank, kind)) return 1;
    struct aorta_arena scratch = {0};
    struct aorta_launched_work launched;
    aorta_launched_in_middle(analysis, rank, &scratch, &launched);
    struct before *found = aorta_arena_raw(&scratch, (launched.count + 1) * sizeof *found);
    const size_t parts = scratch.failed ? 1 : parts_of(found, collect(&launched, kind, found));
    aorta_arena_end(&scratch, memory);
    return (int)parts;
}

/* ---- what reducing once saves ---- */

/* What of a window's work serves reductions. */
struct launched {
    const struct aorta_launched_work *all;
    enum aorta_collective kind;
    size_t reductions, removed; /* of them the first ones are gone */
    uint32_t fills;             /* name of the kernels that put gradients into buckets; NONE */
    uint32_t stream;            /* of reductions, where only they and pointwise kernels run; NONE */
};

static uint32_t thread_of(const struct launched *launched, size_t at) {
    const uint32_t call = launched->all->work[at]->call;
    return call == AORTA_TRACE_NONE ? AORTA_TRACE_NONE : launched->all->rank->trace->calls[call].thread;
}

static bool reduces(const struct launched *launched, size_t at) {
    return aorta_launches_reduction(launched->all, at, launched->kind);
}

/* DDP scales each gradient into its bucket, so the same kernel is launched before each reduction. */
static uint32_t find_fills(const struct launched *launched) {
    uint32_t name = AORTA_TRACE_NONE;
    size_t same = 0;
    for (size_t i = 1; i < launched->all->count; i++) {
        if (!reduces(launched, i)) continue;
        const struct aorta_trace_work *before = launched->all->work[i - 1];
        if (name == AORTA_TRACE_NONE && aorta_launches_pointwise(launched->all, i - 1)) name = before->name;
        same += before->name == name && thread_of(launched, i) == thread_of(launched, i - 1);
    }
    return (double)same >= ALMOST_ALL * (double)launched->reductions ? name : AORTA_TRACE_NONE;
}

/* FSDP2 adds what a reduction brings to the sharded gradients on the reductions' stream. */
static uint32_t find_stream(const struct launched *launched) {
    uint32_t stream = AORTA_TRACE_NONE;
    for (size_t i = 0; i < launched->all->count && stream == AORTA_TRACE_NONE; i++)
        if (reduces(launched, i)) stream = launched->all->work[i]->stream;
    for (size_t i = 0; i < launched->all->count; i++) {
        const struct aorta_trace_work *work = launched->all->work[i];
        if (work->stream == stream && work->kind == AORTA_TRACE_KERNEL && !reduces(launched, i) &&
            !aorta_launches_pointwise(launched->all, i))
            return AORTA_TRACE_NONE;
    }
    return stream;
}

/* The kernel that fills a bucket, or the copy of its arguments. */
static bool fills(const struct launched *launched, size_t at, uint32_t thread) {
    if (at + 1 < launched->all->count && aorta_launches_copy(launched->all, at, AORTA_COPIED_TO_DEVICE)) at++;
    return launched->all->work[at]->name == launched->fills && thread_of(launched, at) == thread;
}

/* The reductions of all parts but the last, what fills their buckets and takes their results, and, directly after the
 * last of a part, the copies of the results. */
static void drop_parts(const struct launched *launched, size_t part) {
    size_t passed = 0, last = part, first = 0;
    bool copied = false;
    while (!reduces(launched, first)) first++;
    const uint32_t thread = thread_of(launched, first);
    for (size_t i = 0; i < launched->all->count; i++) {
        const bool reduced = reduces(launched, i), filled = !reduced && fills(launched, i, thread);
        passed += reduced;
        copied = (reduced && passed == last) || (copied && aorta_launches_copy(launched->all, i, AORTA_COPIED_WITHIN));
        if (reduced && passed == last) last += part;
        const bool serves = filled || copied || launched->all->work[i]->stream == launched->stream;
        if (passed + filled <= launched->removed && (reduced || serves)) aorta_drop_work(launched->all, i);
    }
}

struct repeated {
    enum aorta_collective kind;
    size_t times;
};

static void drop_repeats(const struct aorta_launched_work *all, const void *context) {
    const struct repeated *repeated = context;
    struct launched launched = {.all = all, .kind = repeated->kind};
    for (size_t i = 0; i < all->count; i++) launched.reductions += reduces(&launched, i);
    if (!repeated->times || launched.reductions < repeated->times) return;
    launched.removed = launched.reductions - launched.reductions / repeated->times;
    launched.fills = find_fills(&launched);
    launched.stream = find_stream(&launched);
    drop_parts(&launched, launched.reductions / repeated->times);
}

double aorta_gain_of_reducing_once(const struct gains *gains, enum aorta_collective kind, int times) {
    const struct repeated repeated = {kind, (size_t)times};
    return aorta_gain_without_work(gains, 0, drop_repeats, &repeated);
}

/* ---- parameters that are gathered again ----
 *
 * They are gathered for each micro-batch: once before its forward pass, once before its backward pass.
 *
 *     launched   copies G copy-out forward … | copies G copy-out backward … | copies G copy-out forward … | R R
 *
 * A unit of FSDP has as many gathers as passes, and one reduction. Before a gather, shards are copied on another stream
 * than that of compute. FSDP2 copies the result out afterwards. All that goes with the gathers after the first pass. */

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
