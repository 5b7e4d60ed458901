/* Some device work only computes values that the host waits for. Removing the wait removes this work, too. In order of
 * launch:
 *
 *     x[mask], nonzero      count, copy to the host | the host waits | offsets, select        index
 *     a check of values     compare, fill, any or all, copy to the host | the host waits
 *     SyncBatchNorm         statistics | gather, three selections, … | transform     the same in the backward pass
 */
#include "trace/kernel_names.h"
#include "trace/trace.h"
#include "verdict/verdict_internal.h"

#include <math.h>
#include <string.h>

/* Kernels that show what the host waits for. There must be more of them than this share of the waits. */
static const struct {
    const char *kernel;
    enum aorta_fact_key fact;
    double share;
} values[] = {
    {"batch_norm_reduce_statistics", AORTA_FACT_SYNC_NORMS, 0.2},
    {"DeviceSelectSweep", AORTA_FACT_SELECTS, 0.5},
    {"or_kernel_cuda", AORTA_FACT_CHECKS, 0.5},
    {"and_kernel_cuda", AORTA_FACT_CHECKS, 0.5},
};

bool aorta_verdict_find_awaited(const struct aorta_trace_rank *rank, struct aorta_facts *facts) {
    double waits = 0;
    for (size_t i = 0; i < rank->sync_count; i++) waits += (double)rank->syncs[i].times.count;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        double count = 0;
        for (size_t j = 0; j < rank->kernel_count; j++)
            if (strstr(aorta_trace_text(rank->trace, rank->kernels[j].name), values[i].kernel))
                count += (double)rank->kernels[j].times.count;
        if (count <= values[i].share * waits) continue;
        aorta_facts_flag(facts, values[i].fact);
        return true;
    }
    return false;
}

/* ---- work that is removed with the wait ---- */

static void drop_selection(const struct aorta_launched_work *launched, size_t at) {
    aorta_drop_work(launched, at);
    for (; at && (aorta_launches_named(launched, at - 1, "DeviceCompactInit") ||
                  aorta_launches_named(launched, at - 1, "DeviceReduce") ||
                  aorta_launches_copy(launched, at - 1, AORTA_COPIED_TO_HOST));
         at--)
        aorta_drop_work(launched, at - 1);
}

static bool is_any_or_all(const struct aorta_launched_work *launched, size_t at) {
    return aorta_launches_named(launched, at, "or_kernel_cuda") ||
           aorta_launches_named(launched, at, "and_kernel_cuda");
}

/* `at`: the copy to the host. Removing the wait also removes this copy, and the host's time until the next launch. */
static void drop_check(const struct aorta_launched_work *launched, size_t at) {
    for (; at && (is_any_or_all(launched, at - 1) || launched->work[at - 1]->kind == AORTA_TRACE_FILL); at--)
        aorta_drop_work(launched, at - 1);
    if (at && aorta_launches_named(launched, at - 1, "Compare")) aorta_drop_work(launched, at - 1);
}

/* Batch norms without synchronization launch nothing between these two kernels. */
static size_t drop_exchange(const struct aorta_launched_work *launched, size_t at) {
    enum { REACH = 40 };
    static const char *const kernels[][2] = {{"batch_norm_collect_statistics", "batch_norm_transform_input"},
                                             {"batch_norm_backward_reduce", "batch_norm_backward_elemt"}};
    const bool backward = aorta_launches_named(launched, at, kernels[1][0]);
    if (!backward && !aorta_launches_named(launched, at, kernels[0][0])) return at;
    size_t end = at + 1;
    bool exchanges = false;
    for (; end < launched->count && end - at < REACH && !aorta_launches_named(launched, end, kernels[backward][1]);
         end++)
        exchanges |= aorta_trace_is_collective(launched->work[end]);
    if (!exchanges || end == launched->count || end - at == REACH) return at;
    for (size_t i = at + 1; i < end; i++) aorta_drop_work(launched, i);
    return end;
}

static void drop_values(const struct aorta_launched_work *launched) {
    const enum aorta_fact_key fact = *(const enum aorta_fact_key *)launched->context;
    for (size_t i = 0; i < launched->count; i++) {
        if (fact == AORTA_FACT_SYNC_NORMS) i = drop_exchange(launched, i);
        if (fact == AORTA_FACT_SELECTS && aorta_launches_named(launched, i, "DeviceSelectSweep"))
            drop_selection(launched, i);
        const bool read = aorta_launches_copy(launched, i, AORTA_COPIED_TO_HOST);
        if (fact == AORTA_FACT_CHECKS && i && read && is_any_or_all(launched, i - 1)) drop_check(launched, i);
    }
}

static double gain_of_awaited(const struct gains *gains, const struct aorta_facts *facts) {
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (aorta_facts_has(facts, values[i].fact))
            return aorta_gain_without_work(gains, aorta_removal_bit(AORTA_WITHOUT_HOST_SYNC), drop_values,
                                           &values[i].fact);
    return 0;
}

/* ---- a loop over experts ----
 *
 * Each turn selects the tokens of an expert, multiplies them and adds the result. One grouped product replaces the
 * loop: only the products of the later turns still take time.
 *
 *     launched  select gather product … add | select gather product … add | …      the same in the backward pass
 */

/* Finds the markers of the second and the last turn. `first`: the first turn's marker. False: too few turns. */
static bool find_turns(const struct aorta_launched_work *launched, size_t first, const char *marker, size_t *second,
                       size_t *last) {
    enum { REACH = 48, FEWEST = 8 };
    size_t turns = 1;
    *second = *last = first;
    for (size_t i = first + 1; i < launched->count && i - *last <= REACH; i++) {
        if (!aorta_launches_named(launched, i, marker)) continue;
        *last = i;
        if (++turns == 2) *second = i;
    }
    return turns >= FEWEST;
}

/* Products keep their time, but lose their launches. */
static void drop_turns(const struct aorta_launched_work *launched) {
    static const char *const markers[] = {"DeviceSelectSweep", "indexing_backward"};
    for (size_t k = 0; k < sizeof markers / sizeof *markers; k++)
        for (size_t i = 0, second, last; i < launched->count; i++) {
            if (!aorta_launches_named(launched, i, markers[k])) continue;
            const bool loop = find_turns(launched, i, markers[k], &second, &last);
            for (size_t j = second; loop && j < last; j++) {
                aorta_drop_work(launched, j);
                if (aorta_kernel_is_gemm(aorta_trace_text(launched->rank->trace, launched->work[j]->name)))
                    aorta_launched_scale(launched, j)->left = 1;
            }
            i = last;
        }
}

/* ---- values one by one ----
 *
 * Example: metrics of each class. Short kernels compute a value, which the host reads. All values computed at once take
 * as long as one value.
 *
 *     launched  compare and sum copy | compare and sum copy | …
 */

enum { VALUE_WORK = 8, FEWEST_VALUES = 8 };

/* Returns the last copy of a value in the loop that begins with the copy `first`; `first` if there is no loop. */
static size_t last_value(const struct aorta_launched_work *launched, size_t first, size_t *count) {
    static const int64_t SHORT_NS = 10000;
    size_t last = first;
    *count = 1;
    for (size_t i = first + 1; i < launched->count && i - last <= VALUE_WORK; i++) {
        const struct aorta_trace_work *work = launched->work[i];
        const char *name = aorta_trace_text(launched->rank->trace, work->name);
        if (work->end_ns - work->start_ns > SHORT_NS || aorta_kernel_is_gemm(name)) break;
        if (!aorta_trace_is_value(launched->rank->trace, work)) continue;
        last = i;
        ++*count;
    }
    return last;
}

static void drop_all_but_one_value(const struct aorta_launched_work *launched) {
    for (size_t i = 0, count; i < launched->count; i++) {
        if (!aorta_trace_is_value(launched->rank->trace, launched->work[i])) continue;
        const size_t last = last_value(launched, i, &count);
        for (size_t j = i + 1; count >= FEWEST_VALUES && j <= last; j++) aorta_drop_work(launched, j);
        i = last;
    }
}

/* Waits together with the work that they need. The gain beyond the waits is shared with late launches. */
void aorta_gains_add_awaited(struct gains *gains) {
    static const double MORE = 1.05;
    const uint32_t waits = aorta_removal_bit(AORTA_WITHOUT_HOST_SYNC);
    struct aorta_finding *finding = aorta_verdict_find(gains->verdict, AORTA_CAUSE_HOST_SYNC);
    if (!finding) return;
    double gain_ms = gain_of_awaited(gains, &finding->facts);
    if (aorta_verdict_loops_over_experts(&gains->analysis->ranks[0]))
        gain_ms = fmax(gain_ms, aorta_gain_without_work(gains, waits, drop_turns, NULL));
    if (aorta_facts_has(&finding->facts, AORTA_FACT_VALUES)) {
        const double values_ms = aorta_gain_without_work(gains, waits, drop_all_but_one_value, NULL);
        if (values_ms > fmax(gain_ms, MORE * finding->alone_ms))
            aorta_facts_flag(&finding->facts, AORTA_FACT_ONE_BY_ONE);
        gain_ms = fmax(gain_ms, values_ms);
    }
    if (gain_ms <= fmax(finding->alone_ms, finding->gain_ms)) return;
    const double launches_ms = gain_ms - finding->alone_ms;
    aorta_gains_replace(gains, finding, gain_ms);
    aorta_gains_share(finding, AORTA_CAUSE_HOST_LAUNCH, launches_ms);
    if (aorta_facts_has(&finding->facts, AORTA_FACT_LATE_AFTER))
        aorta_facts_set(&finding->facts, AORTA_FACT_LATE_AFTER, gain_ms - launches_ms - finding->cost_ms);
}
