/* The time of a step without some of its work, and without the launches of this work. */
#include "analysis/phases.h"
#include "base/sort.h"
#include "trace/trace.h"
#include "verdict/verdict_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static AORTA_POINTER_ORDER(by_launch, struct aorta_trace_work, AORTA_UP(call) AORTA_UP(start_ns));

bool aorta_launches_named(const struct aorta_launched_work *launched, size_t at, const char *part) {
    return strstr(aorta_trace_text(launched->rank->trace, launched->work[at]->name), part) != NULL;
}

/* By PyTorch's names of kernels. */
static bool is_pointwise(const struct aorta_launched_work *launched, size_t at) {
    static const char *const parts[] = {"elementwise", "multi_tensor", "CatArray", "chunk_cat"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (aorta_launches_named(launched, at, parts[i])) return true;
    return false;
}

bool aorta_launches_copy(const struct aorta_launched_work *launched, size_t at, enum aorta_copied how) {
    const struct aorta_trace_work *work = launched->work[at];
    return work->kind == AORTA_TRACE_COPY &&
           aorta_copied_how(aorta_trace_text(launched->rank->trace, work->name)) == how &&
           aorta_trace_page_moved(launched->rank->trace, work) == AORTA_COPIED_UNKNOWN;
}

bool aorta_launches_collective(const struct aorta_launched_work *launched, size_t at, enum aorta_collective kind) {
    const struct aorta_trace_work *work = launched->work[at];
    return aorta_trace_is_collective(work) && aorta_trace_collective_kind(launched->rank->trace, work) == kind;
}

/* A collective of this kind, in a group whose ranks may have copies of the model. */
static bool is_reduction(const struct aorta_launched_work *launched, size_t at, enum aorta_collective kind) {
    const struct aorta_trace *trace = launched->rank->trace;
    const uint32_t facts = launched->work[at]->collective;
    return aorta_launches_collective(launched, at, kind) &&
           (facts == AORTA_TRACE_NONE || aorta_group_may_copy_model(trace, trace->collectives[facts].group));
}

static uint32_t main_stream(const struct aorta_launched_work *launched) {
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

/* The work that begins in the window, without scales. */
static struct aorta_launched_work launched_of(const struct aorta_trace_rank *rank,
                                              const struct aorta_trace_window *window, struct aorta_arena *memory) {
    const size_t limit = window->profile.range_count;
    const struct aorta_trace_work **work = aorta_arena_raw(memory, (limit + 1) * sizeof *work);
    size_t count = 0;
    for (size_t i = 0; work && i < limit; i++)
        if (rank->work[window->work[i]].start_ns >= window->start_ns) work[count++] = &rank->work[window->work[i]];
    if (count) qsort(work, count, sizeof *work, by_launch);
    struct aorta_launched_work launched = {.rank = rank, .work = work, .count = count};
    launched.main_stream = main_stream(&launched);
    return launched;
}

/* The work of the middle step, without scales. No work if steps or launches are unknown. */
static struct aorta_launched_work launched_in_middle(const struct aorta_trace_analysis *analysis,
                                                     const struct aorta_trace_rank *rank, struct aorta_arena *memory) {
    if (!rank->window_count || !analysis->stepped || analysis->measured)
        return (struct aorta_launched_work){.rank = rank};
    return launched_of(rank, &rank->windows[rank->window_count / 2], memory);
}

static void drop_of_rank(const struct aorta_trace_rank *rank, aorta_work_dropper *drop, const void *context,
                         struct aorta_work_scale *scales, struct aorta_arena *memory) {
    for (size_t i = 0; i < rank->window_count; i++) {
        struct aorta_arena scratch = {0};
        struct aorta_launched_work launched = launched_of(rank, &rank->windows[i], &scratch);
        launched.scales = scales;
        launched.context = context;
        if (!scratch.failed) drop(&launched);
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

/* ---- all gradients are reduced for each micro-batch ----
 *
 *     launched  forward backward R backward R | forward backward R backward R | optimizer
 *
 * In each part the same kernels come before the same reductions. Before the first reduction of a part there are about
 * as many kernels as between the last reduction of a step and the first of the next step. Pointwise kernels do not
 * count, as they sum gradients or belong to the optimizer. */

static const double ALMOST_ALL = 0.9; /* of the reductions follow a kernel that fills a bucket */
static const double AS_MANY = 0.7;    /* of the kernels between two steps: this includes a forward pass */

/* A reduction, and the kernels that are launched between the previous reduction and this one. */
struct before {
    uint64_t hash;
    size_t count;
    int64_t bytes; /* of the reduction; -1: unknown */
};

static int64_t bytes_of(const struct aorta_launched_work *launched, size_t at) {
    const uint32_t row = launched->work[at]->collective;
    return row == AORTA_TRACE_NONE ? -1 : launched->rank->trace->collectives[row].bytes;
}

/* found[] has one row per reduction, and one for the kernels after the last reduction. Returns the reductions. */
static size_t collect(const struct aorta_launched_work *launched, enum aorta_collective kind, struct before *found) {
    size_t reductions = 0;
    found[0] = (struct before){0};
    for (size_t i = 0; i < launched->count; i++) {
        const struct aorta_trace_work *work = launched->work[i];
        if (is_reduction(launched, i, kind)) {
            found[reductions++].bytes = bytes_of(launched, i);
            found[reductions] = (struct before){0};
        } else if (work->kind == AORTA_TRACE_KERNEL && !is_pointwise(launched, i)) {
            found[reductions].hash = 31 * found[reductions].hash + work->name + 1;
            found[reductions].count++;
        }
    }
    return reductions;
}

/* Reductions at a distance of `length` have the same size and follow the same kernels. Kernels before the first
 * reduction of a step are not compared, as there are more of them. False if nothing could be compared: one reduction of
 * unknown size. */
static bool repeats(const struct before *found, size_t count, size_t length) {
    bool compared = false;
    for (size_t i = 0; i + length < count; i++) {
        const struct before *a = &found[i], *b = &found[i + length];
        if (a->bytes != b->bytes || (i && (a->hash != b->hash || a->count != b->count))) return false;
        compared |= i || a->bytes >= 0;
    }
    return compared;
}

/* The number of equal parts of a step's reductions; 1: they do not repeat. */
static size_t parts_of(const struct before *found, size_t count) {
    const size_t around = found[0].count + found[count].count;
    for (size_t length = 1; 2 * length <= count && around; length++)
        if (count % length == 0 && (double)found[length].count >= AS_MANY * (double)around &&
            repeats(found, count, length))
            return count / length;
    return 1;
}

int aorta_verdict_reduced_again(const struct aorta_trace_analysis *analysis, const struct aorta_trace_rank *rank,
                                enum aorta_collective kind, struct aorta_arena *memory) {
    if (!aorta_trace_reduces_gradients(rank, kind)) return 1;
    struct aorta_arena scratch = {0};
    const struct aorta_launched_work launched = launched_in_middle(analysis, rank, &scratch);
    struct before *found = aorta_arena_raw(&scratch, (launched.count + 1) * sizeof *found);
    const size_t parts = scratch.failed ? 1 : parts_of(found, collect(&launched, kind, found));
    aorta_arena_end(&scratch, memory);
    return (int)parts;
}

/* ---- gradients are reduced after the backward pass ----
 *
 *     launched  forward backward | R R R R | optimizer        each could be reduced during the backward pass
 *
 * The backward pass takes at least half of the kernels before the reductions. */

double aorta_limit_of_earlier_reductions(const struct gains *gains, enum aorta_collective kind) {
    const struct aorta_trace_rank *rank = &gains->analysis->ranks[0];
    struct aorta_arena scratch = {0};
    if (!aorta_trace_reduces_gradients(rank, kind)) return 0;
    const struct aorta_launched_work launched = launched_in_middle(gains->analysis, rank, &scratch);
    double before_ns = 0, reduced_ns = 0, count = 0;
    bool in_a_row = true, after = false;
    for (size_t i = 0; i < launched.count; i++) {
        const struct aorta_trace_work *work = launched.work[i];
        const double ns = (double)(work->end_ns - work->start_ns);
        if (is_reduction(&launched, i, kind)) {
            in_a_row &= !after;
            reduced_ns += ns;
            count++;
        } else if (work->kind == AORTA_TRACE_KERNEL && !is_pointwise(&launched, i)) {
            after = count > 0;
            before_ns += after ? 0 : ns;
        }
    }
    aorta_arena_end(&scratch, gains->verdict->arena);
    return in_a_row && count > 1 ? fmin(reduced_ns * (1 - 1 / count), before_ns / 2) / 1e6 : 0;
}

/* ---- the gain of reducing once ---- */

/* The work of a step, and how to find the part of it that only supports reductions. */
struct launched {
    const struct aorta_launched_work *all;
    enum aorta_collective kind;
    size_t times;               /* that all gradients are reduced */
    size_t reductions, removed; /* removed: the first reductions disappear */
    uint32_t fills;             /* name of the kernels that copy gradients into buckets; NONE */
    uint32_t stream;            /* stream with reductions and pointwise kernels only; NONE */
};

static uint32_t thread_of(const struct launched *launched, size_t at) {
    const uint32_t call = launched->all->work[at]->call;
    return call == AORTA_TRACE_NONE ? AORTA_TRACE_NONE : launched->all->rank->trace->calls[call].thread;
}

static bool reduces(const struct launched *launched, size_t at) {
    return is_reduction(launched->all, at, launched->kind);
}

/* DDP scales each gradient into its bucket. The same kernel is therefore launched before each reduction. */
static uint32_t find_fills(const struct launched *launched) {
    uint32_t name = AORTA_TRACE_NONE;
    size_t same = 0;
    for (size_t i = 1; i < launched->all->count; i++) {
        if (!reduces(launched, i)) continue;
        const struct aorta_trace_work *before = launched->all->work[i - 1];
        if (name == AORTA_TRACE_NONE && is_pointwise(launched->all, i - 1)) name = before->name;
        same += before->name == name && thread_of(launched, i) == thread_of(launched, i - 1);
    }
    return (double)same >= ALMOST_ALL * (double)launched->reductions ? name : AORTA_TRACE_NONE;
}

/* FSDP2 adds results of reductions to the sharded gradients, on the stream of the reductions. */
static uint32_t find_stream(const struct launched *launched) {
    uint32_t stream = AORTA_TRACE_NONE;
    for (size_t i = 0; i < launched->all->count && stream == AORTA_TRACE_NONE; i++)
        if (reduces(launched, i)) stream = launched->all->work[i]->stream;
    for (size_t i = 0; i < launched->all->count; i++) {
        const struct aorta_trace_work *work = launched->all->work[i];
        if (work->stream == stream && work->kind == AORTA_TRACE_KERNEL && !reduces(launched, i) &&
            !is_pointwise(launched->all, i))
            return AORTA_TRACE_NONE;
    }
    return stream;
}

/* A kernel that fills a bucket, or the copy of its arguments. */
static bool fills(const struct launched *launched, size_t at, uint32_t thread) {
    if (at + 1 < launched->all->count && aorta_launches_copy(launched->all, at, AORTA_COPIED_TO_DEVICE)) at++;
    return launched->all->work[at]->name == launched->fills && thread_of(launched, at) == thread;
}

/* Drops the reductions of all parts except the last, kernels that fill their buckets or add their results, and copies
 * of results directly after the last reduction of a part. */
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

static void drop_repeats(const struct aorta_launched_work *all) {
    struct launched launched = *(const struct launched *)all->context;
    launched.all = all;
    for (size_t i = 0; i < all->count; i++) launched.reductions += reduces(&launched, i);
    if (!launched.times || launched.reductions < launched.times) return;
    launched.removed = launched.reductions - launched.reductions / launched.times;
    launched.fills = find_fills(&launched);
    launched.stream = find_stream(&launched);
    drop_parts(&launched, launched.reductions / launched.times);
}

double aorta_gain_of_reducing_once(const struct gains *gains, enum aorta_collective kind, int times) {
    return aorta_gain_without_work(gains, 0, drop_repeats, &(struct launched){.kind = kind, .times = (size_t)times});
}

/* ---- parameters that are gathered again ----
 *
 * Parameters are gathered before the forward pass and before the backward pass of each micro-batch.
 *
 *     launched   copies G copy-out forward … | copies G copy-out backward … | copies G copy-out forward … | R R
 *
 * A unit of FSDP has one gather per pass and one reduction. Before a gather, shards are copied on a stream other than
 * that of compute. FSDP2 copies the result out after the gather. Gathers after the first pass are dropped with these
 * copies. */

struct passes {
    size_t gathers, units;
};

static struct passes count_passes(const struct aorta_launched_work *launched, size_t reduced) {
    struct passes passes = {0};
    for (size_t i = 0; i < launched->count; i++) {
        passes.gathers += is_reduction(launched, i, AORTA_ALL_GATHER);
        passes.units += is_reduction(launched, i, AORTA_REDUCE_SCATTER);
    }
    passes.units /= reduced;
    return passes;
}

static void drop_copies_in(const struct aorta_launched_work *launched, size_t gather) {
    for (size_t i = gather; i-- > 0 && launched->work[i]->stream != launched->main_stream;) {
        if (aorta_trace_is_collective(launched->work[i])) return;
        aorta_drop_work(launched, i);
    }
}

static void drop_copy_out(const struct aorta_launched_work *launched, size_t at) {
    aorta_drop_work(launched, at);
    if (at && aorta_launches_copy(launched, at - 1, AORTA_COPIED_TO_DEVICE)) aorta_drop_work(launched, at - 1);
}

/* Keeps the gathers of the first pass. */
static void drop_gathers(const struct aorta_launched_work *launched) {
    const size_t units = *(const size_t *)launched->context;
    size_t gathers = 0, copies = 0;
    for (size_t i = 0; i < launched->count; i++) {
        if (aorta_launches_named(launched, i, "split_with_sizes_copy_out") && ++copies > units)
            drop_copy_out(launched, i);
        if (!is_reduction(launched, i, AORTA_ALL_GATHER) || ++gathers <= units) continue;
        aorta_drop_work(launched, i);
        drop_copies_in(launched, i);
    }
}

double aorta_gain_of_gathering_once(const struct gains *gains, int *times) {
    const struct aorta_trace_rank *rank = &gains->analysis->ranks[0];
    struct aorta_arena *memory = gains->verdict->arena, scratch = {0};
    const int reduced = aorta_verdict_reduced_again(gains->analysis, rank, AORTA_REDUCE_SCATTER, memory);
    const struct aorta_launched_work launched = launched_in_middle(gains->analysis, rank, &scratch);
    const struct passes passes = count_passes(&launched, (size_t)reduced);
    aorta_arena_end(&scratch, memory);
    *times = passes.units ? (int)lround((double)passes.gathers / (double)passes.units) : 0;
    return *times > 1 ? aorta_gain_without_work(gains, 0, drop_gathers, &passes.units) : 0;
}

/* ---- many small collectives or copies ----
 *
 * One collective could replace many small ones: for a list of tensors, or for gradients in small buckets. One copy
 * could replace many small copies to the device, for each of which the host may wait.
 *
 *     launched   … adam | broadcast broadcast broadcast … | forward       instead of   | broadcast |
 *     launched   dgrad wgrad all_reduce dgrad wgrad all_reduce …          one all_reduce after several layers
 *
 * Collectives are joined with the next one of their kind if only pointwise kernels and copies are between them.
 * Reductions of gradients are joined across all kernels, as they are asynchronous. Unlike reductions of activations or
 * of batch norms, they do not occur in the forward pass. */

enum {
    FEWEST = 24,       /* joined collectives of a step */
    TOGETHER = 32,     /* most collectives in one, if sizes are unknown */
    BUCKET = 25 << 20, /* most bytes in one, as in PyTorch's DDP */
    SMALL_BYTES = 4 << 20,
    SMALL_NS = 200000, /* without the wait for a late rank; if sizes are unknown */
};

static const double FORWARD = 0.2; /* of a step's launches, at least */

struct coalescing {
    bool copies; /* small copies to the device, not collectives */
    enum aorta_collective kind;
    bool gradients; /* only reductions of gradients, on a stream other than that of compute */
};

static bool is_small_copy(const struct aorta_launched_work *launched, size_t at) {
    enum { FEW_BYTES = 1 << 16 };
    const int64_t bytes = launched->work[at]->bytes;
    return bytes >= 0 && bytes <= FEW_BYTES && aorta_launches_copy(launched, at, AORTA_COPIED_TO_DEVICE);
}

static bool is_of_kind(const struct aorta_launched_work *launched, size_t at, const struct coalescing *what) {
    if (what->copies) return is_small_copy(launched, at);
    if (!what->gradients) return aorta_launches_collective(launched, at, what->kind);
    return launched->work[at]->stream != launched->main_stream && is_reduction(launched, at, what->kind);
}

/* The forward pass has no such collective: many launches in a row have none, wherever the step begins. */
static bool leaves_forward_out(const struct aorta_launched_work *launched, const struct coalescing *what) {
    size_t first = SIZE_MAX, last = 0, longest = 0;
    for (size_t i = 0; i < launched->count; i++) {
        if (!is_of_kind(launched, i, what)) continue;
        if (first == SIZE_MAX) first = last = i;
        if (i - last > longest) longest = i - last;
        last = i;
    }
    if (first == SIZE_MAX) return false;
    const size_t around = first + launched->count - last;
    return (double)(around > longest ? around : longest) >= FORWARD * (double)launched->count;
}

static bool is_small(const struct aorta_launched_work *launched, size_t at) {
    const int64_t bytes = bytes_of(launched, at);
    return bytes >= 0 ? bytes <= SMALL_BYTES : launched->work[at]->end_ns - launched->work[at]->start_ns <= SMALL_NS;
}

/* Work that may be between two collectives of a list: it prepares a tensor or uses the result. */
static bool is_between(const struct aorta_launched_work *launched, size_t at) {
    return launched->work[at]->kind != AORTA_TRACE_KERNEL || is_pointwise(launched, at);
}

/* Goes back from the last collective of each bucket, which is launched when all tensors of the bucket are ready. The
 * collectives before it disappear. Returns their number. */
static size_t join(const struct aorta_launched_work *launched, const struct coalescing *what, bool drops) {
    size_t gone = 0, together = 0; /* together: in the bucket so far; 0: no bucket */
    int64_t bytes = 0;
    for (size_t i = launched->count; i-- > 0;) {
        if (!is_of_kind(launched, i, what)) {
            if (!what->gradients && !is_between(launched, i)) together = 0;
            continue;
        }
        const int64_t own = bytes_of(launched, i);
        const bool full = own >= 0 ? bytes + own > BUCKET : together >= TOGETHER;
        if (!together || (!what->copies && (full || !is_small(launched, i)))) {
            bytes = own;
            together = 1;
            continue;
        }
        bytes += own;
        together++;
        gone++;
        if (drops) aorta_drop_work(launched, i);
    }
    return gone;
}

static void drop_joined(const struct aorta_launched_work *launched) {
    (void)join(launched, launched->context, true);
}

/* The time of a small collective without waiting, ns: that of the best tenth, at most what its bytes need at 8 Gbit/s.
 */
static int64_t transfer_of(const struct aorta_launched_work *launched, const struct coalescing *what,
                           struct aorta_arena *memory) {
    int64_t *times_ns = aorta_arena_raw(memory, (launched->count + 1) * sizeof *times_ns);
    size_t count = 0;
    for (size_t i = 0; times_ns && i < launched->count; i++)
        if (is_of_kind(launched, i, what) && is_small(launched, i)) {
            const int64_t ns = launched->work[i]->end_ns - launched->work[i]->start_ns, bytes = bytes_of(launched, i);
            times_ns[count++] = bytes >= 0 && bytes < ns ? bytes : ns; /* a byte per ns */
        }
    aorta_sort_int64(times_ns, count);
    return count ? times_ns[count / 10] : 0;
}

/* How many collectives of the middle step disappear; 0: few. *each_ms: time that the data of each still needs. */
static double count_joined(const struct gains *gains, const struct coalescing *what, double *each_ms) {
    struct aorta_arena scratch = {0};
    const struct aorta_launched_work launched =
        launched_in_middle(gains->analysis, &gains->analysis->ranks[0], &scratch);
    const bool can = !what->gradients || leaves_forward_out(&launched, what);
    const size_t count = can ? join(&launched, what, false) : 0;
    *each_ms = (double)transfer_of(&launched, what, &scratch) / 1e6;
    aorta_arena_end(&scratch, gains->verdict->arena);
    return count < FEWEST ? 0 : (double)count;
}

static double gain_of(const struct gains *gains, const struct coalescing *what) {
    double each_ms;
    const double count = count_joined(gains, what, &each_ms);
    return count > 0 ? fmax(aorta_gain_without_work(gains, 0, drop_joined, what) - count * each_ms, 0) : 0;
}

/* Gradients are reduced in buckets during the backward pass, or as a list after it, on any stream. */
double aorta_gain_of_coalescing(const struct gains *gains, enum aorta_collective kind) {
    const struct coalescing list = {.kind = kind}, buckets = {.kind = kind, .gradients = true};
    const double gain_ms = gain_of(gains, &list);
    if (kind != AORTA_ALL_REDUCE || !aorta_trace_reduces_gradients(&gains->analysis->ranks[0], kind)) return gain_ms;
    return fmax(gain_ms, gain_of(gains, &buckets));
}

/* The host waits for copies from pageable memory. If nearly all waits are of this kind, they disappear with the copies.
 */
double aorta_gain_of_joined_copies(const struct gains *gains, double *copies) {
    static const double MORE = 1.2;
    static const struct coalescing what = {.copies = true};
    const struct aorta_trace_rank *rank = &gains->analysis->ranks[0];
    double waits = 0, each_ms;
    *copies = count_joined(gains, &what, &each_ms);
    if (!(*copies > 0)) return 0;
    for (size_t i = 0; i < rank->sync_count; i++) waits += (double)rank->syncs[i].times.count;
    const bool awaited = waits <= MORE * *copies * (double)rank->steps;
    return aorta_gain_without_work(gains, awaited ? aorta_removal_bit(AORTA_WITHOUT_HOST_SYNC) : 0, drop_joined, &what);
}
