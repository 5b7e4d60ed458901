/* Work that only serves values for which the host waits. In order of launch:
 *
 *     x[mask], nonzero      count, copy to the host | the host waits | offsets, select        index
 *     a check of values     compare, fill, any or all, copy to the host | the host waits
 *     SyncBatchNorm         statistics | gather, three selections, … | transform     likewise backward
 */
#include "trace/trace.h"
#include "verdict/verdict_internal.h"

#include <string.h>

/* Kernels that show what the host asks for, and how many of the waits they have to be. */
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

/* ---- what goes with the wait ---- */

static bool is_read(const struct aorta_launched_work *launched, size_t at) {
    return aorta_launches_copy(launched, at, AORTA_COPIED_TO_HOST);
}

static void drop_selection(const struct aorta_launched_work *launched, size_t at) {
    aorta_drop_work(launched, at);
    for (; at && (aorta_launches_named(launched, at - 1, "DeviceCompactInit") ||
                  aorta_launches_named(launched, at - 1, "DeviceReduce") || is_read(launched, at - 1));
         at--)
        aorta_drop_work(launched, at - 1);
}

static bool is_any_or_all(const struct aorta_launched_work *launched, size_t at) {
    return aorta_launches_named(launched, at, "or_kernel_cuda") ||
           aorta_launches_named(launched, at, "and_kernel_cuda");
}

/* `at`: the copy to the host. It goes with the wait, as does the host's time from there to the next launch. */
static void drop_check(const struct aorta_launched_work *launched, size_t at) {
    for (; at && (is_any_or_all(launched, at - 1) || launched->work[at - 1]->kind == AORTA_TRACE_FILL); at--)
        aorta_drop_work(launched, at - 1);
    if (at && aorta_launches_named(launched, at - 1, "Compare")) aorta_drop_work(launched, at - 1);
}

/* Batch norms that each rank has of its own launch nothing between their kernels. */
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

static void drop_values(const struct aorta_launched_work *launched, const void *context) {
    const enum aorta_fact_key fact = *(const enum aorta_fact_key *)context;
    for (size_t i = 0; i < launched->count; i++) {
        if (fact == AORTA_FACT_SYNC_NORMS) i = drop_exchange(launched, i);
        if (fact == AORTA_FACT_SELECTS && aorta_launches_named(launched, i, "DeviceSelectSweep"))
            drop_selection(launched, i);
        if (fact == AORTA_FACT_CHECKS && i && is_read(launched, i) && is_any_or_all(launched, i - 1))
            drop_check(launched, i);
    }
}

double aorta_gain_of_awaited(const struct gains *gains, const struct aorta_facts *facts) {
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (aorta_facts_has(facts, values[i].fact))
            return aorta_gain_without_work(gains, aorta_removal_bit(AORTA_WITHOUT_HOST_SYNC), drop_values,
                                           &values[i].fact);
    return 0;
}
