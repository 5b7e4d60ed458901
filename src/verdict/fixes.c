/* Gains of fixes that remove or change work, in addition to the causes that a replay removes. */
#include "base/interval.h"
#include "base/sort.h"
#include "trace/kernel_names.h"
#include "trace/trace.h"
#include "verdict/verdict_internal.h"

#include <math.h>
#include <string.h>

/* ---- data that is copied to the host and back: by an optimizer or a table on the host ---- */

static const double LEAST = 4e6; /* bytes per step: less may be figures that the program prints */

/* Adds the bytes that the ranks copy in the steps that count, by direction. */
static void sum_copied(const struct aorta_trace_analysis *analysis, double copied[AORTA_COPIED_COUNT]) {
    AORTA_EACH (const struct aorta_trace_rank, rank, analysis->ranks, analysis->rank_count) {
        const struct aorta_trace *trace = rank->trace;
        size_t next = 0;
        for (const struct aorta_trace_window *window = NULL; (window = aorta_step_after(analysis, rank, window));) {
            for (; next < trace->work_count && trace->work[next].start_ns < window->end_ns; next++) {
                const struct aorta_trace_work *work = &trace->work[next];
                if (work->start_ns < window->start_ns || work->kind != AORTA_TRACE_COPY || work->bytes <= 0) continue;
                const enum aorta_copied how = aorta_copied_how(aorta_trace_text(trace, work->name));
                if (how != AORTA_COPIED_UNKNOWN) copied[how] += (double)work->bytes;
            }
        }
    }
}

/* Example: gradients and parameters of an optimizer on the host. */
bool aorta_verdict_is_offloaded(const struct gains *gains) {
    double copied[AORTA_COPIED_COUNT] = {0};
    sum_copied(gains->analysis, copied);
    return copied[AORTA_COPIED_TO_HOST] > LEAST * aorta_gains_steps(gains) &&
           copied[AORTA_COPIED_TO_HOST] > 0.25 * copied[AORTA_COPIED_TO_DEVICE] &&
           copied[AORTA_COPIED_TO_DEVICE] > 0.25 * copied[AORTA_COPIED_TO_HOST];
}

/* Stalls are rare if most steps have none: the mean step is then longer than the median step. */
static bool are_rare(const struct gains *gains, const struct aorta_origin *origin) {
    const double stall_ms = (double)origin->total_ns / 1e6 / aorta_gains_steps(gains);
    return gains->verdict->step_ms_mean - gains->verdict->step_ms_p50 > stall_ms / 2;
}

bool aorta_verdict_saves(const struct gains *gains, const struct aorta_origin *origin) {
    double copied[AORTA_COPIED_COUNT] = {0};
    if (gains->verdict->whole || !are_rare(gains, origin)) return false;
    sum_copied(gains->analysis, copied);
    return copied[AORTA_COPIED_TO_HOST] > LEAST && copied[AORTA_COPIED_TO_HOST] > copied[AORTA_COPIED_TO_DEVICE];
}

/* ---- pages of managed memory ----
 *
 * A kernel that accesses a page on the host waits until the page has arrived:
 *
 *     kernel   | fault | page | fault | page | compute |      with prefetched pages:   | compute |  */

enum { FAULT_NS = 50000 }; /* until the driver begins to move the page */

/* How long the kernel waited for pages, including `fault_ns` before each page. Adds their bytes to *bytes, which may be
 * NULL. */
static double faults_ns(const struct aorta_trace_rank *rank, const struct aorta_trace_work *kernel, int64_t fault_ns,
                        double *bytes) {
    int64_t until_ns = kernel->start_ns, waited_ns = 0;
    size_t at = aorta_count_until(rank->work, rank->work_count, sizeof *kernel,
                                  offsetof(struct aorta_trace_work, start_ns), kernel->start_ns);
    for (; at < rank->work_count && rank->work[at].start_ns < kernel->end_ns; at++) {
        const struct aorta_trace_work *page = &rank->work[at];
        if (aorta_trace_page_moved(rank->trace, page) != AORTA_COPIED_TO_DEVICE) continue;
        const int64_t end_ns = page->end_ns < kernel->end_ns ? page->end_ns : kernel->end_ns;
        const int64_t from_ns = page->start_ns - fault_ns > until_ns ? page->start_ns - fault_ns : until_ns;
        if (end_ns > from_ns) waited_ns += end_ns - from_ns;
        if (end_ns > until_ns) until_ns = end_ns;
        if (bytes) *bytes += (double)page->bytes;
    }
    return (double)waited_ns;
}

/* Most recordings have no such pages, which makes faults_ns unnecessary. */
static bool fetches_pages(const struct aorta_trace_rank *rank) {
    for (size_t i = 0; i < rank->work_count; i++)
        if (aorta_trace_page_moved(rank->trace, &rank->work[i]) == AORTA_COPIED_TO_DEVICE) return true;
    return false;
}

static void drop_faults(const struct aorta_launched_work *launched) {
    for (size_t i = 0; i < launched->count; i++) {
        const struct aorta_trace_work *work = launched->work[i];
        if (work->kind != AORTA_TRACE_KERNEL || work->end_ns <= work->start_ns) continue;
        const double waited_ns = faults_ns(launched->rank, work, FAULT_NS, NULL);
        aorta_launched_scale(launched, i)->left = (float)(1 - waited_ns / (double)(work->end_ns - work->start_ns));
    }
}

static const double RATES[] = {12, 25}; /* GB/s: copies of pinned memory on PCIe 3 and 4 */

static double gain_of_prefetching(const struct gains *gains, double range_ms[2]) {
    const double steps = 1e6 * aorta_gains_steps(gains) * (double)gains->analysis->rank_count;
    double waited_ns = 0, bytes = 0;
    AORTA_EACH (const struct aorta_trace_rank, rank, gains->analysis->ranks, gains->analysis->rank_count) {
        if (!fetches_pages(rank)) continue;
        for (size_t j = 0; j < rank->work_count; j++)
            if (rank->work[j].kind == AORTA_TRACE_KERNEL)
                waited_ns += faults_ns(rank, &rank->work[j], FAULT_NS, &bytes);
    }
    if (!(waited_ns > 0)) return 0;
    const double all_ms = aorta_gain_without_work(gains, aorta_removal_bit(AORTA_WITHOUT_COPY), drop_faults, NULL);
    for (int i = 0; i < 2; i++) range_ms[i] = fmax(all_ms - bytes / RATES[i] / steps, 0);
    return waited_ns / steps;
}

/* ---- data that crosses the link once ---- */

bool aorta_verdict_copies_once(const struct aorta_trace_analysis *analysis) {
    static const double HARDLY = 0.25;
    double again = 0, all = 0;
    AORTA_EACH (const struct aorta_trace_rank, rank, analysis->ranks, analysis->rank_count) {
        bool read = false;
        AORTA_EACH (const struct aorta_trace_work, work, rank->work, rank->work_count) {
            if (work->kind != AORTA_TRACE_COPY || work->bytes <= AORTA_VALUE_BYTES) continue;
            const enum aorta_copied how = aorta_copied_how(aorta_trace_text(rank->trace, work->name));
            read |= how == AORTA_COPIED_TO_HOST;
            if (how != AORTA_COPIED_TO_DEVICE) continue;
            all += (double)work->bytes;
            again += read ? (double)work->bytes : 0;
        }
    }
    return !analysis->stepped && again <= HARDLY * all;
}

/* The time of copies in the recording, ms. `rate`: of copies of unpinned memory, bytes per ns; 0: as recorded.
 * `at_ends`: only copies of input before the first kernel, and of results after the last one. */
static double copied_ms(const struct aorta_trace_analysis *analysis, double rate, bool at_ends) {
    double copied_ns = 0;
    AORTA_EACH (const struct aorta_trace_rank, rank, analysis->ranks, analysis->rank_count) {
        size_t first = 0, last = rank->work_count;
        while (first < last && rank->work[first].kind != AORTA_TRACE_KERNEL) first++;
        while (first < last && rank->work[last - 1].kind != AORTA_TRACE_KERNEL) last--;
        for (size_t j = 0; j < rank->work_count; j++) {
            const struct aorta_trace_work *work = &rank->work[j];
            const char *name = aorta_trace_text(rank->trace, work->name);
            const enum aorta_copied how = aorta_copied_how(name);
            if (work->kind != AORTA_TRACE_COPY || how > AORTA_COPIED_TO_HOST) continue;
            if (at_ends && !(how == AORTA_COPIED_TO_DEVICE ? j < first : j >= last)) continue;
            const double ran_ns = (double)(work->end_ns - work->start_ns);
            const bool faster = rate > 0 && work->bytes > 0 && !strstr(name, "Pinned");
            copied_ns += faster ? fmin(ran_ns, (double)work->bytes / rate) : ran_ns;
        }
    }
    return copied_ns / 1e6 / (double)analysis->rank_count;
}

static void gain_of_pinning(const struct gains *gains, double copies_ms, double range_ms[2]) {
    const double recorded_ms = copied_ms(gains->analysis, 0, false);
    const double most_ms = recorded_ms - copied_ms(gains->analysis, RATES[1], false);
    range_ms[0] = fmin(recorded_ms - copied_ms(gains->analysis, RATES[0], false), copies_ms);
    range_ms[1] = fmin(most_ms + fmin(gains->verdict->compute_ms, fmax(copies_ms - most_ms, 0)), copies_ms);
}

/* If data stays on the device, the host neither copies it, nor waits for it, nor uses it. */
static double gain_of_keeping(const struct gains *gains) {
    uint32_t removed = aorta_removal_bit(AORTA_WITHOUT_COPY) | aorta_removal_bit(AORTA_WITHOUT_HOST_SYNC);
    for (uint32_t i = AORTA_WITHOUT_HOST_PAUSE; i <= AORTA_WITHOUT_HOST_PAUSE_ELSE; i++)
        removed |= aorta_removal_bit((enum aorta_removal)i);
    return aorta_gain_without(gains, removed);
}

/* ---- kernels with few threads ---- */

struct narrow {
    int64_t ran_ns;   /* time in which at least one of them runs */
    double needed_ns; /* time of their work on the whole device, or of their pages' copies if longer */
    const struct aorta_trace_rank *rank; /* of `longest` */
    const struct aorta_trace_work *longest;
};

enum { WARP = 32 };

static bool has_small_blocks(const struct aorta_trace_work *work) {
    return work->threads && work->threads < WARP;
}

/* Largest part of the device that a kernel can use. A multiprocessor with one block runs four warps at once. Blocks of
 * less than a warp use a whole warp each, and half of a multiprocessor's warps: at most 16 blocks for 32 warps, 32 for
 * 64. */
static double part_used(const struct aorta_trace_work *work, int32_t multiprocessors) {
    if (work->blocks >= multiprocessors) return has_small_blocks(work) ? work->threads / (2.0 * WARP) : 1;
    return (work->threads ? fmin(work->threads / (4.0 * WARP), 1) : 1) * work->blocks / multiprocessors;
}

/* A long kernel with few blocks or small blocks. Short kernels have little work anyway. */
static bool is_narrow(const struct aorta_trace_work *work, int32_t multiprocessors) {
    static const int64_t LONG_NS = 100000;
    return work->kind == AORTA_TRACE_KERNEL && work->blocks &&
           (has_small_blocks(work) || aorta_has_few_blocks(work, multiprocessors)) &&
           work->end_ns - work->start_ns >= LONG_NS && !aorta_trace_is_collective(work);
}

static void add_narrow(const struct gains *gains, const struct aorta_trace_rank *rank, struct narrow *narrow) {
    const int32_t multiprocessors = aorta_trace_multiprocessors(rank->trace, rank->device);
    struct aorta_intervals ran = {0};
    for (const struct aorta_trace_window *window = NULL; (window = aorta_step_after(gains->analysis, rank, window));) {
        for (size_t j = 0; j < window->profile.range_count; j++) {
            const struct aorta_trace_work *work = &rank->work[window->work[j]], *longest = narrow->longest;
            const int64_t ns = work->end_ns - work->start_ns;
            if (work->start_ns < window->start_ns || !is_narrow(work, multiprocessors)) continue;
            aorta_intervals_add(&ran, work->start_ns, work->end_ns);
            narrow->needed_ns += fmax((double)ns * part_used(work, multiprocessors), faults_ns(rank, work, 0, NULL));
            if (longest && ns <= longest->end_ns - longest->start_ns) continue;
            narrow->longest = work;
            narrow->rank = rank;
        }
    }
    narrow->ran_ns += aorta_intervals_length(&ran);
    aorta_intervals_end(&ran, gains->verdict->arena);
}

/* ---- one function per fix ---- */

/* Ranks wait for each other's compute in turn, which the replay cannot remove. If the work of the steps differs (for
 * example batches of unequal length), equal work saves the mean wait: all ranks then take the mean time. Otherwise the
 * finding has a cost, but no gain. */
static void add_own_work(struct gains *gains) {
    static const double MUCH = 0.05;
    struct aorta_finding *finding = aorta_verdict_find(gains->verdict, AORTA_CAUSE_STRAGGLER);
    const double alone_ms = gains->verdict->replay.left.alone_ms;
    if (!finding || finding->cost_ms < MUCH * aorta_gains_step_ms(gains) || finding->alone_ms >= finding->cost_ms)
        return;
    const struct aorta_facts *facts = &finding->facts;
    const bool unequal = aorta_verdict_work_differs(gains->verdict) &&
                         aorta_facts_has(facts, AORTA_FACT_LATE_CHANGES) &&
                         aorta_facts_has(facts, AORTA_FACT_LATE_DEVICE);
    if (!unequal && (alone_ms < MUCH * aorta_gains_step_ms(gains) || aorta_finding_gains(finding))) return;
    aorta_facts_flag(&finding->facts, AORTA_FACT_OWN_WORK);
    aorta_facts_flag(&finding->facts, AORTA_FACT_LATE_CHANGES);
    aorta_facts_set(&finding->facts, AORTA_FACT_LONE_COMPUTE, alone_ms);
    finding->rank = -1;
    if (!unequal) return;
    aorta_gains_replace(gains, finding, finding->cost_ms);
    aorta_facts_remove(&finding->facts, AORTA_FACT_LONGER);
}

/* If gradients are reduced for each micro-batch, reducing them once saves more than hiding the reductions. */
static void add_reducing_once(struct gains *gains) {
    struct aorta_verdict *verdict = gains->verdict;
    AORTA_EACH (struct aorta_finding, finding, verdict->findings, verdict->finding_count) {
        const struct aorta_fact *again = aorta_facts_find(&finding->facts, AORTA_FACT_REDUCED_AGAIN);
        if (!again) continue;
        const double once_ms = aorta_gain_of_reducing_once(gains, finding->collective, (int)again->value);
        aorta_facts_set(&finding->facts, AORTA_FACT_GAIN_OF_ONCE, once_ms);
        if (once_ms > fmax(finding->alone_ms, finding->gain_ms)) aorta_gains_replace(gains, finding, once_ms);
    }
}

/* NULL: no collective of this kind is exposed. */
static struct aorta_finding *find_exposed(struct aorta_verdict *verdict, enum aorta_collective kind) {
    for (size_t i = 0; i < verdict->finding_count; i++)
        if (verdict->findings[i].cause == AORTA_CAUSE_EXPOSED_COLLECTIVE && verdict->findings[i].collective == kind)
            return &verdict->findings[i];
    return NULL;
}

/* If parameters are gathered for each micro-batch, gathering them once is enough, but needs more memory. */
static void add_gathering_once(struct gains *gains) {
    enum { USUAL = 2 }; /* for the forward and the backward pass */
    int times;
    const double gain_ms = aorta_gain_of_gathering_once(gains, &times);
    struct aorta_finding *finding = find_exposed(gains->verdict, AORTA_ALL_GATHER);
    if (gain_ms < AORTA_GAINS_LITTLE * aorta_gains_step_ms(gains)) return;
    if (finding && times == USUAL) aorta_facts_set(&finding->facts, AORTA_FACT_GAIN_OF_STAYING, gain_ms);
    if (times <= USUAL) return;
    if (finding && gain_ms <= fmax(finding->alone_ms, finding->gain_ms)) return;
    if (!finding) finding = aorta_gains_new_finding(gains->verdict, AORTA_CAUSE_EXPOSED_COLLECTIVE);
    finding->collective = AORTA_ALL_GATHER;
    aorta_facts_set(&finding->facts, AORTA_FACT_GATHERED_AGAIN, times);
    aorta_facts_set(&finding->facts, AORTA_FACT_GAIN_OF_ONCE, gain_ms);
    aorta_gains_replace(gains, finding, gain_ms);
    aorta_gains_share(finding, AORTA_CAUSE_HOST_LAUNCH, gain_ms - finding->cost_ms);
}

/* The number of small collectives costs more than their exposed time. */
static void add_coalescing(struct gains *gains) {
    static const enum aorta_collective kinds[] = {AORTA_ALL_REDUCE, AORTA_BROADCAST};
    struct aorta_verdict *verdict = gains->verdict;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const double gain_ms = aorta_gain_of_coalescing(gains, kinds[i]);
        struct aorta_finding *finding = find_exposed(verdict, kinds[i]);
        if (gain_ms < AORTA_GAINS_LITTLE * aorta_gains_step_ms(gains)) continue;
        if (finding && (verdict->ranks_missing || gain_ms <= fmax(finding->alone_ms, finding->gain_ms))) continue;
        if (!finding) finding = aorta_gains_new_finding(verdict, AORTA_CAUSE_EXPOSED_COLLECTIVE);
        finding->collective = kinds[i];
        aorta_facts_set(&finding->facts, AORTA_FACT_GAIN_OF_ONE, gain_ms);
        aorta_gains_replace(gains, finding, gain_ms);
        aorta_gains_share(finding, AORTA_CAUSE_HOST_LAUNCH, gain_ms - finding->cost_ms);
    }
}

static void drop_broadcasts(const struct aorta_launched_work *launched) {
    for (size_t i = 0; i < launched->count; i++)
        if (aorta_launches_collective(launched, i, AORTA_BROADCAST)) aorta_drop_work(launched, i);
}

/* Steps may broadcast the same data again, for example constant buffers of DDP. One broadcast is then enough. */
static void add_broadcasting_once(const struct gains *gains) {
    struct aorta_finding *finding = find_exposed(gains->verdict, AORTA_BROADCAST);
    if (!finding || !gains->analysis->stepped || gains->verdict->ranks_missing) return;
    if (aorta_facts_has(&finding->facts, AORTA_FACT_GAIN_OF_ONE)) return;
    const double most_ms = aorta_gain_without_work(gains, 0, drop_broadcasts, NULL);
    if (most_ms < AORTA_GAINS_LITTLE * aorta_gains_step_ms(gains)) return;
    finding->at_best_ms = finding->slowed_ms = most_ms;
    aorta_facts_remove(&finding->facts, AORTA_FACT_LOST_AGAIN);
}

enum { ARGUMENTS = 4096 }; /* most bytes of a kernel's arguments */

static bool is_parameters(const struct aorta_trace *trace, const struct aorta_trace_work *work) {
    return work->kind == AORTA_TRACE_COPY && work->bytes > 0 && work->bytes <= ARGUMENTS &&
           aorta_copied_how(aorta_trace_text(trace, work->name)) == AORTA_COPIED_TO_DEVICE &&
           aorta_trace_page_moved(trace, work) == AORTA_COPIED_UNKNOWN;
}

static void drop_parameters(const struct aorta_launched_work *launched) {
    for (size_t i = 0; i < launched->count; i++)
        if (is_parameters(launched->rank->trace, launched->work[i])) aorta_drop_work(launched, i);
}

/* Gain if parameters become arguments of kernels. A program without a framework copies them before each launch. */
static double gain_of_arguments(const struct gains *gains, double *copies) {
    static const double MOST = 0.5; /* of the kernels */
    const struct aorta_trace_rank *rank = &gains->analysis->ranks[0];
    double kernels = 0, small = 0;
    if (!rank->steps || gains->verdict->program != AORTA_PROGRAM_NATIVE) return 0;
    AORTA_EACH (const struct aorta_trace_work, work, rank->work, rank->work_count) {
        kernels += work->kind == AORTA_TRACE_KERNEL;
        small += is_parameters(rank->trace, work);
    }
    if (small < MOST * kernels) return 0;
    *copies = small / (double)rank->steps;
    return aorta_gain_without_work(gains, aorta_removal_bit(AORTA_WITHOUT_HOST_SYNC), drop_parameters, NULL);
}

/* Launches of small copies, and waits for them, cost more than the copies. */
static void add_small_copies(struct gains *gains) {
    double copies = 0, passed = 0;
    const double joined_ms = aorta_gain_of_joined_copies(gains, &copies);
    const double passed_ms = gain_of_arguments(gains, &passed), gain_ms = fmax(joined_ms, passed_ms);
    struct aorta_finding *finding = aorta_verdict_find(gains->verdict, AORTA_CAUSE_COPY);
    if (gain_ms < AORTA_GAINS_LITTLE * aorta_gains_step_ms(gains)) return;
    if (finding && gain_ms <= fmax(finding->alone_ms, finding->gain_ms)) return;
    if (!finding) finding = aorta_gains_new_finding(gains->verdict, AORTA_CAUSE_COPY);
    aorta_facts_set(&finding->facts, AORTA_FACT_SMALL_COPIES, passed_ms > joined_ms ? passed : copies);
    if (passed_ms > joined_ms) aorta_facts_flag(&finding->facts, AORTA_FACT_PARAMETERS);
    aorta_gains_replace(gains, finding, gain_ms);
    aorta_gains_share(finding, AORTA_CAUSE_HOST_LAUNCH,
                      fmin(gain_ms, gains->found.gain_ns[AORTA_WITHOUT_HOST_LAUNCH] / 1e6));
}

/* Streams take turns, separated by work of the default stream, which runs with no other stream at once. */
static bool take_turns(const struct gains *gains, const struct aorta_trace_rank *rank) {
    enum { FEWEST = 8, CUPTI_DEFAULT = 7, HIP_DEFAULT = 0 }; /* numbers of streams */
    uint32_t stream = AORTA_TRACE_NONE;
    int64_t end_ns = INT64_MIN;
    size_t turns = 0;
    bool separated = false;
    for (const struct aorta_trace_window *window = NULL; (window = aorta_step_after(gains->analysis, rank, window));) {
        for (size_t j = 0; j < window->profile.range_count; j++) {
            const struct aorta_trace_work *work = &rank->work[window->work[j]];
            if (work->start_ns < end_ns) return false;
            end_ns = work->end_ns;
            const int64_t id = rank->trace->streams[work->stream].id;
            if (id == CUPTI_DEFAULT || id == HIP_DEFAULT) {
                separated = true;
                continue;
            }
            if (!separated && stream != AORTA_TRACE_NONE && work->stream != stream) return false;
            turns += separated && work->stream != stream;
            stream = work->stream;
            separated = false;
        }
    }
    return turns >= FEWEST;
}

/* The step without the time to load or compile kernels, which happens only once. */
static double later_ms(const struct gains *gains) {
    const struct aorta_finding *stall = aorta_verdict_find(gains->verdict, AORTA_CAUSE_HOST_PAUSE);
    const bool once = stall && (aorta_facts_has(&stall->facts, AORTA_FACT_PAUSE_LOAD) ||
                                aorta_facts_has(&stall->facts, AORTA_FACT_PAUSE_COMPILED));
    return aorta_gains_step_ms(gains) - (once ? aorta_finding_shown_ms(stall) : 0);
}

/* Upper bound: the work of these kernels can use the whole device. */
static void add_few_blocks(struct gains *gains) {
    static const double MUCH = 0.1;
    struct narrow narrow = {0};
    for (size_t i = 0; i < gains->analysis->rank_count; i++) add_narrow(gains, &gains->analysis->ranks[i], &narrow);
    const double steps = 1e6 * (double)gains->verdict->iterations * (double)gains->analysis->rank_count;
    const double saved_ms = ((double)narrow.ran_ns - narrow.needed_ns) / steps;
    if (!narrow.longest || saved_ms < MUCH * later_ms(gains)) return;
    struct aorta_finding *finding = aorta_gains_new_finding(gains->verdict, AORTA_CAUSE_FEW_BLOCKS);
    finding->at_best_ms = finding->slowed_ms = fmin(saved_ms, aorta_gains_step_ms(gains));
    aorta_facts_set(&finding->facts, AORTA_FACT_FEW_BLOCKS, (double)narrow.ran_ns / steps);
    aorta_facts_set(&finding->facts, AORTA_FACT_MULTIPROCESSORS,
                    aorta_trace_multiprocessors(narrow.rank->trace, narrow.rank->device));
    if (has_small_blocks(narrow.longest))
        aorta_facts_set(&finding->facts, AORTA_FACT_BLOCK_THREADS, narrow.longest->threads);
    else
        aorta_facts_set(&finding->facts, AORTA_FACT_BLOCKS, narrow.longest->blocks);
    if (take_turns(gains, narrow.rank)) aorta_facts_flag(&finding->facts, AORTA_FACT_TAKE_TURNS);
    aorta_facts_set_named(&finding->facts, AORTA_FACT_LEAST_BLOCKS,
                          (double)(narrow.longest->end_ns - narrow.longest->start_ns) / 1e6,
                          aorta_trace_text(narrow.rank->trace, narrow.longest->name));
}

/* Data that the host reads, uses and copies back could stay on the device. The copies and the host's work between them
 * become one gain, of the finding that gains more alone. */
static void add_keeping(struct gains *gains) {
    struct aorta_finding *copy = aorta_verdict_find(gains->verdict, AORTA_CAUSE_COPY);
    struct aorta_finding *pause = aorta_verdict_find(gains->verdict, AORTA_CAUSE_HOST_PAUSE);
    const bool uses = pause && (aorta_facts_has(&pause->facts, AORTA_FACT_PAUSE_RESULT) ||
                                aorta_facts_has(&pause->facts, AORTA_FACT_PAUSE_OFFLOAD));
    if (!copy || !uses || gains->verdict->whole || !aorta_verdict_is_offloaded(gains)) return;
    struct aorta_finding *largest = copy->alone_ms > pause->alone_ms ? copy : pause;
    const struct aorta_finding *other = largest == copy ? pause : copy;
    const double gain_ms = gain_of_keeping(gains), shared_ms = gain_ms - fmax(largest->alone_ms, largest->gain_ms);
    if (shared_ms < AORTA_GAINS_LITTLE * aorta_gains_step_ms(gains)) return;
    aorta_gains_replace(gains, largest, gain_ms);
    aorta_gains_share(largest, other->cause, shared_ms);
    aorta_facts_set(&copy->facts, AORTA_FACT_COPIES_RETURN, gain_ms);
    aorta_facts_remove(&copy->facts, AORTA_FACT_COPIES_OUT);
}

/* Several ranks have no collectives on the device, and their hosts use copied data: the hosts may exchange it, for
 * example by MPI. Compute can hide the exchange, but the exchange stays necessary. */
static void add_exchange(struct gains *gains) {
    struct aorta_verdict *verdict = gains->verdict;
    struct aorta_finding *pause = aorta_verdict_find(verdict, AORTA_CAUSE_HOST_PAUSE);
    if (!(verdict->program & AORTA_PROGRAM_NATIVE) || gains->analysis->rank_count < 2 || verdict->comm_ms > 0) return;
    if (!pause || verdict->whole ||
        !(aorta_facts_has(&pause->facts, AORTA_FACT_PAUSE_RESULT) ||
          aorta_facts_has(&pause->facts, AORTA_FACT_PAUSE_OFFLOAD)))
        return;
    const double hidden_ms = fmin(pause->alone_ms, verdict->compute_ms), stays_ms = pause->alone_ms - hidden_ms;
    aorta_facts_remove(&pause->facts, AORTA_FACT_PAUSE_RESULT);
    aorta_facts_remove(&pause->facts, AORTA_FACT_PAUSE_OFFLOAD);
    aorta_facts_flag(&pause->facts, AORTA_FACT_PAUSE_EXCHANGE);
    aorta_gains_replace(gains, pause, hidden_ms);
    verdict->replay.floor_ms = fmin(verdict->replay.floor_ms + stays_ms, aorta_gains_step_ms(gains));
}

/* Data that is copied to the host and back could stay on the device. Copies of input before the first kernel, and of
 * results after the last kernel, remain (upper end of the range: at the best rate). */
static void gain_of_staying(const struct gains *gains, struct aorta_finding *copy, double range_ms[2]) {
    const double ends_ms = copied_ms(gains->analysis, 0, true);
    aorta_finding_shown_range(copy, range_ms);
    if (ends_ms > 0) aorta_facts_set(&copy->facts, AORTA_FACT_COPIES_ENDS, ends_ms);
    range_ms[0] = fmax(range_ms[0] - ends_ms, 0);
    range_ms[1] = fmax(range_ms[1] - copied_ms(gains->analysis, RATES[1], true), range_ms[0]);
}

/* Copies that take far longer than kernels cannot be hidden. They can be faster, or data can stay on the device. */
static void add_pinning(struct gains *gains) {
    struct aorta_verdict *verdict = gains->verdict;
    struct aorta_finding *copy = aorta_verdict_find(verdict, AORTA_CAUSE_COPY);
    if (!copy || gains->analysis->stepped || !aorta_facts_has(&copy->facts, AORTA_FACT_OVERLAP_LIMIT)) return;
    if (aorta_facts_has(&copy->facts, AORTA_FACT_MIGRATIONS) || aorta_facts_has(&copy->facts, AORTA_FACT_PEER_COPIES))
        return;
    if (aorta_facts_has(&copy->facts, AORTA_FACT_HOST_WAITS)) { /* asynchronous copies have precedence */
        aorta_facts_remove(&copy->facts, AORTA_FACT_COPIES_ONCE);
        return;
    }
    const double copies_ms = fmax(copy->alone_ms, copy->gain_ms);
    const struct aorta_shared_gain shared = copy->share_count ? copy->shares[0] : (struct aorta_shared_gain){0};
    const bool once = aorta_facts_has(&copy->facts, AORTA_FACT_COPIES_ONCE);
    double range_ms[2];
    if (once)
        gain_of_pinning(gains, copies_ms, range_ms);
    else
        gain_of_staying(gains, copy, range_ms);
    aorta_gains_replace(gains, copy, (range_ms[0] + range_ms[1]) / 2);
    memcpy(copy->gain_range_ms, range_ms, sizeof range_ms);
    if (!once) aorta_gains_share(copy, shared.cause, fmin(shared.ms, copy->gain_ms));
    const double left_ms =
        fmin(fmax(copies_ms - range_ms[1], 0), aorta_gains_step_ms(gains) - verdict->replay.floor_ms);
    verdict->replay.floor_ms += left_ms;
    verdict->replay.left.copy_ms += left_ms;
    AORTA_EACH (struct aorta_finding, finding, verdict->findings, verdict->finding_count)
        if (finding->partner == AORTA_CAUSE_COPY && finding->joint_ms > left_ms) finding->joint_ms -= left_ms;
}

/* Kernels that wait for pages of managed memory lose more time than the copies take. */
static void add_faults(struct gains *gains) {
    struct aorta_finding *copy = aorta_verdict_find(gains->verdict, AORTA_CAUSE_COPY);
    double range_ms[2] = {0};
    const double waited_ms = gain_of_prefetching(gains, range_ms);
    if (waited_ms < AORTA_GAINS_LITTLE * aorta_gains_step_ms(gains) ||
        range_ms[1] < AORTA_GAINS_LITTLE * aorta_gains_step_ms(gains))
        return;
    if (copy && range_ms[1] <= fmax(copy->alone_ms, copy->gain_ms)) return;
    if (!copy) copy = aorta_gains_new_finding(gains->verdict, AORTA_CAUSE_COPY);
    range_ms[0] = fmax(range_ms[0], fmax(copy->alone_ms, copy->gain_ms));
    aorta_facts_flag(&copy->facts, AORTA_FACT_MIGRATIONS);
    aorta_facts_set(&copy->facts, AORTA_FACT_PAGE_FAULTS, waited_ms);
    aorta_gains_replace(gains, copy, (range_ms[0] + range_ms[1]) / 2);
    memcpy(copy->gain_range_ms, range_ms, sizeof range_ms);
}

void aorta_gains_add_fixes(struct gains *gains) {
    add_own_work(gains);
    add_reducing_once(gains);
    add_gathering_once(gains);
    add_coalescing(gains);
    add_broadcasting_once(gains);
    add_small_copies(gains);
    add_few_blocks(gains);
    add_exchange(gains);
    add_keeping(gains);
    add_pinning(gains);
    add_faults(gains);
    aorta_gains_add_awaited(gains);
}
