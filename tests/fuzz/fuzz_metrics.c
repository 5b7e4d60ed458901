/* Lines of rank_RR_metrics.jsonl: whatever they hold, the reader returns, and what it accepts adds up. */
#include "fuzz.h"
#include "profile/agreement.h"
#include "report/run.h"

#include <stdlib.h>
#include <string.h>

static void check_view(const struct aorta_run_step *step, const struct aorta_profile *profile,
                       const struct aorta_overlap *o) {
    int64_t idle = o->idle.data_wait_ns + o->idle.host_sync_ns + o->idle.host_launch_ns + o->idle.launch_latency_ns +
                   o->idle.unknown_ns;
    if (profile->range_count && idle != o->idle_ns + o->lead_ns) abort();
    if (o->overlap_ns > o->comm_ns || o->busy_ns > o->span_ns) abort();
    if (!profile->range_count) return;
    struct aorta_iteration iteration = {step->rank, step->global_step, profile, o};
    struct aorta_verdict verdict;
    aorta_status status = aorta_verdict_make(&iteration, 1, 0, &verdict);
    if (status) abort();
    int64_t costs = 0;
    for (int cause = 0; cause < AORTA_CAUSE_COUNT; cause++) costs += verdict.ranks[0].cause_ns[cause];
    if (costs != o->span_ns + o->lead_ns) abort();
    aorta_verdict_free(&verdict);
}

static void check(const struct aorta_run_step *step) {
    check_view(step, &step->profile, &step->overlap);
    check_view(step, &step->kernel_profile, &step->kernel_overlap);
    if (!step->traced) return;
    struct aorta_agreement agreement = {0};
    aorta_status status = aorta_agreement_add(&agreement, &step->profile, &step->kernel_profile);
    if (status) abort();
    for (int i = 0; i < 2; i++)
        if (agreement.range_ns[i] - agreement.kernel_ns[i] != agreement.gap_ns[i] - agreement.outside_ns[i]) abort();
}

/* The input is two lines, so that strings and gaps between iterations are shared between them. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct aorta_run run = {0};
    struct aorta_run_step first = {0}, second = {0};
    const char *text = (const char *)data, *line_break = size ? memchr(text, '\n', size) : NULL;
    size_t length = line_break ? (size_t)(line_break - text) : size;
    aorta_status status = aorta_run_parse_line(size ? text : "", length, &run, NULL, &first);
    bool have_first = !status;
    aorta_status_free(status);
    if (have_first) check(&first);
    if (line_break) {
        status = aorta_run_parse_line(line_break + 1, size - length - 1, &run, have_first ? &first : NULL, &second);
        if (!status) check(&second);
        aorta_status_free(status);
    }
    aorta_run_step_free(&second);
    aorta_run_step_free(&first);
    aorta_arena_free(&run.arena);
    aorta_intern_free(&run.strings);
    return 0;
}
