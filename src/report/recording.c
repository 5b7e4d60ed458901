/* What recording ranges costs, in a run that leaves them out in some steps: these are compared with the others. */
#include "report/recording.h"
#include "report/comparison.h"

#include "verdict/verdict.h"

#include <math.h>

static double get_recorded(const struct aorta_run_step *step) {
    return step->recorded ? step->step_ms : NAN;
}

static double get_unrecorded(const struct aorta_run_step *step) {
    return step->recorded ? NAN : step->step_ms;
}

/* `reference`: measured steps without ranges, `candidate`: those with. */
static struct aorta_comparison compare(const struct aorta_labelled *labelled, struct aorta_text *out) {
    static const struct aorta_metric recorded = {.get = get_recorded}, unrecorded = {.get = get_unrecorded};
    struct aorta_arena memory = {0};
    const struct aorta_comparison cost = aorta_run_compare(labelled, &unrecorded, &recorded, &memory);
    out->failed |= memory.failed;
    aorta_arena_free(&memory);
    return cost;
}

static bool known(const struct aorta_comparison *cost) {
    return cost->reference.count > 0 && cost->candidate.count > 0;
}

static double share(const struct aorta_comparison *cost) {
    return cost->candidate.p50 / cost->reference.p50 - 1;
}

struct cost_values {
    int64_t recorded, unrecorded;
    double recorded_ms, unrecorded_ms, percent, p_value;
};

#define AT(member) offsetof(struct cost_values, member)
const struct aorta_row aorta_recording_rows[] = {
    {"recorded_steps", AORTA_ROW_INT, AT(recorded), .help = "with ranges"},
    {"unrecorded_steps", AORTA_ROW_INT, AT(unrecorded), .help = "without"},
    {"recorded_step_ms_p50", AORTA_ROW_NUMBER, AT(recorded_ms), "ms", .help = "the median of the former"},
    {"unrecorded_step_ms_p50", AORTA_ROW_NUMBER, AT(unrecorded_ms), "ms", .help = "and of the latter"},
    {"percent", AORTA_ROW_NUMBER, AT(percent), "percent", .help = "by which it is longer"},
    {"p_value", AORTA_ROW_NUMBER, AT(p_value), .help = "that this is chance"},
    {0}};
#undef AT

void aorta_recording_json(const struct aorta_labelled *labelled, struct aorta_json *json) {
    const struct aorta_comparison cost = compare(labelled, json->out);
    if (!known(&cost)) return;
    const struct cost_values values = {(int64_t)cost.candidate.count,
                                       (int64_t)cost.reference.count,
                                       cost.candidate.p50,
                                       cost.reference.p50,
                                       100 * share(&cost),
                                       cost.p_value};
    aorta_rows_object("recording_cost", aorta_recording_rows, &values, 0, json);
}

/* Records cost the host time at each launch. */
static void say_share(const struct aorta_labelled *labelled, struct aorta_text *out) {
    const struct aorta_records *records = &labelled->records;
    if (!labelled->by_kernels || !records->iterations) return;
    const double launches = (double)records->launches / (double)records->iterations;
    const double own_ms = aorta_recording_share(&labelled->verdict, launches);
    if (own_ms > 0)
        aorta_text_printf(out,
                          "recording: up to %s ms of late launches are the recording's own cost (%.0f launches per "
                          "step); compile.enabled=true makes one launch per step",
                          aorta_brief(own_ms).text, launches);
}

void aorta_recording_text(const struct aorta_labelled *labelled, struct aorta_text *out) {
    const struct aorta_comparison cost = compare(labelled, out);
    if (!known(&cost)) {
        say_share(labelled, out);
        return;
    }
    aorta_text_printf(out, "recording: steps took %.3f ms with ranges (p50 of %zu), %.3f ms without (%zu): %+.1f%%, ",
                      cost.candidate.p50, cost.candidate.count, cost.reference.p50, cost.reference.count,
                      100 * share(&cost));
    aorta_compare_chance(&cost, "step", out);
}
