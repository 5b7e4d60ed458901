/* Small collectives that could be one: the tensors of a list one by one, or gradients in many small buckets. Likewise
 * small copies to the device, which the host may wait for one by one.
 *
 *     launched   … adam | broadcast broadcast broadcast … | forward       instead of   | broadcast |
 *     launched   dgrad wgrad all_reduce dgrad wgrad all_reduce …          one all_reduce after several layers
 *
 * The host launches each of them. Collectives join the next one of their kind where nothing but pointwise kernels and
 * copies comes between them. Reductions of gradients join over any kernels: they are asynchronous, and the forward pass
 * has none, unlike reductions of activations and of batch norms. */
#include "analysis/phases.h"
#include "base/sort.h"
#include "trace/trace.h"
#include "verdict/verdict_internal.h"

#include <math.h>

enum {
    FEWEST = 24,       /* of a step that can be joined */
    TOGETHER = 32,     /* in one, where their sizes are not known */
    BUCKET = 25 << 20, /* bytes in one, as PyTorch's DDP has them */
    SMALL_BYTES = 4 << 20,
    SMALL_NS = 200000, /* without the wait for a late rank; where sizes are not known */
};

static const double FORWARD = 0.2; /* of a step's launches, at least */

struct coalescing {
    enum aorta_collective kind;
    bool gradients; /* reductions of this kind are of gradients */
};

/* `compute`: the stream whose collectives of gradients do not count. */
static bool is_of_kind(const struct aorta_launched_work *launched, size_t at, const struct coalescing *what,
                       uint32_t compute) {
    if (!what->gradients) return aorta_launches_collective(launched, at, what->kind);
    return launched->work[at]->stream != compute && aorta_launches_reduction(launched, at, what->kind);
}

/* A forward pass has none of them: wherever the step was cut, many launches in a row are without any. */
static bool leaves_forward_out(const struct aorta_launched_work *launched, const struct coalescing *what) {
    const uint32_t compute = aorta_launched_main_stream(launched);
    size_t first = SIZE_MAX, last = 0, longest = 0;
    for (size_t i = 0; i < launched->count; i++) {
        if (!is_of_kind(launched, i, what, compute)) continue;
        if (first == SIZE_MAX) first = last = i;
        if (i - last > longest) longest = i - last;
        last = i;
    }
    if (first == SIZE_MAX) return false;
    const size_t around = first + launched->count - last;
    return (double)(around > longest ? around : longest) >= FORWARD * (double)launched->count;
}

static int64_t bytes_of(const struct aorta_launched_work *launched, size_t at) {
    const uint32_t row = launched->work[at]->collective;
    return row == AORTA_TRACE_NONE ? -1 : launched->rank->trace->collectives[row].bytes;
}

static bool is_small(const struct aorta_launched_work *launched, size_t at) {
    const int64_t bytes = bytes_of(launched, at);
    return bytes >= 0 ? bytes <= SMALL_BYTES : launched->work[at]->end_ns - launched->work[at]->start_ns <= SMALL_NS;
}

/* Between two collectives of a list comes no more than what prepares a tensor or takes the result. */
static bool is_between(const struct aorta_launched_work *launched, size_t at) {
    return launched->work[at]->kind != AORTA_TRACE_KERNEL || aorta_launches_pointwise(launched, at);
}

/* Goes back from the last of each bucket, which is launched when all its tensors are ready: the ones before it go.
 * Returns how many. */
static size_t join(const struct aorta_launched_work *launched, const struct coalescing *what, bool drops) {
    enum { NONE = -1 };
    const uint32_t compute = aorta_launched_main_stream(launched);
    size_t gone = 0, together = 0;
    int64_t last = NONE, bytes = 0;
    for (size_t i = launched->count; i-- > 0;) {
        if (!is_of_kind(launched, i, what, compute)) {
            if (!what->gradients && !is_between(launched, i)) last = NONE;
            continue;
        }
        const int64_t own = bytes_of(launched, i);
        const bool full = own >= 0 ? bytes + own > BUCKET : together >= TOGETHER;
        if (!is_small(launched, i) || last == NONE || full) {
            last = (int64_t)i;
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

static void drop_joined(const struct aorta_launched_work *launched, const void *context) {
    (void)join(launched, context, true);
}

/* What the small ones take without waiting, ns: the best tenth of them. */
static int64_t transfer_of(const struct aorta_launched_work *launched, const struct coalescing *what,
                           struct aorta_arena *memory) {
    int64_t *times_ns = aorta_arena_raw(memory, (launched->count + 1) * sizeof *times_ns);
    const uint32_t compute = aorta_launched_main_stream(launched);
    size_t count = 0;
    for (size_t i = 0; times_ns && i < launched->count; i++)
        if (is_of_kind(launched, i, what, compute) && is_small(launched, i))
            times_ns[count++] = launched->work[i]->end_ns - launched->work[i]->start_ns;
    aorta_sort_int64(times_ns, count);
    return count ? times_ns[count / 10] : 0;
}

/* The time to move what goes with the large ones then, of a step; negative: there are few that go. */
static double moved_ms(const struct gains *gains, const struct coalescing *what) {
    struct aorta_arena scratch = {0};
    struct aorta_launched_work launched;
    aorta_launched_in_middle(gains->analysis, &gains->analysis->ranks[0], &scratch, &launched);
    const bool can = !what->gradients || leaves_forward_out(&launched, what);
    const size_t count = can ? join(&launched, what, false) : 0;
    const double ms = count < FEWEST ? -1 : (double)count * (double)transfer_of(&launched, what, &scratch) / 1e6;
    aorta_arena_end(&scratch, gains->verdict->arena);
    return ms;
}

static double gain_of(const struct gains *gains, const struct coalescing *what) {
    const double moved = moved_ms(gains, what);
    return moved < 0 ? 0 : fmax(aorta_gain_without_work(gains, 0, drop_joined, what) - moved, 0);
}

/* Gradients in buckets, or one by one after the backward pass: then they are a list, on whichever stream. */
double aorta_gain_of_coalescing(const struct gains *gains, enum aorta_collective kind) {
    const struct coalescing list = {kind, false}, buckets = {kind, true};
    const double gain_ms = gain_of(gains, &list);
    if (kind != AORTA_ALL_REDUCE || !aorta_trace_reduces_gradients(&gains->analysis->ranks[0], kind)) return gain_ms;
    return fmax(gain_ms, gain_of(gains, &buckets));
}

/* ---- copies ---- */

static bool is_small_copy(const struct aorta_launched_work *launched, size_t at) {
    enum { FEW_BYTES = 1 << 16 };
    const int64_t bytes = launched->work[at]->bytes;
    return bytes >= 0 && bytes <= FEW_BYTES && aorta_launches_copy(launched, at, AORTA_COPIED_TO_DEVICE);
}

/* Keeps the last of each list. Returns how many go. */
static size_t join_copies(const struct aorta_launched_work *launched, bool drops) {
    size_t gone = 0;
    bool listed = false;
    for (size_t i = launched->count; i-- > 0;) {
        const bool small = is_small_copy(launched, i);
        if (small && listed) {
            gone++;
            if (drops) aorta_drop_work(launched, i);
        }
        listed = small || (listed && is_between(launched, i));
    }
    return gone;
}

static void drop_copies(const struct aorta_launched_work *launched, const void *context) {
    (void)context;
    (void)join_copies(launched, true);
}

/* A step in the middle shows how many go. */
static size_t count_copies(const struct gains *gains) {
    struct aorta_arena scratch = {0};
    struct aorta_launched_work launched;
    aorta_launched_in_middle(gains->analysis, &gains->analysis->ranks[0], &scratch, &launched);
    const size_t count = join_copies(&launched, false);
    aorta_arena_end(&scratch, gains->verdict->arena);
    return count;
}

/* A copy from pageable memory is awaited. Where such waits are nearly all there are, they go with their copies. */
double aorta_gain_of_joined_copies(const struct gains *gains, double *copies) {
    static const double MORE = 1.2;
    const struct aorta_trace_rank *rank = &gains->analysis->ranks[0];
    double waits = 0;
    *copies = (double)count_copies(gains);
    if (*copies < FEWEST) return 0;
    for (size_t i = 0; i < rank->sync_count; i++) waits += (double)rank->syncs[i].times.count;
    const bool awaited = waits <= MORE * *copies * (double)rank->steps;
    return aorta_gain_without_work(gains, awaited ? aorta_removal_bit(AORTA_WITHOUT_HOST_SYNC) : 0, drop_copies, NULL);
}
