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
static aorta_status compare(const struct aorta_labelled *labelled, struct aorta_comparison *cost) {
    static const struct aorta_metric recorded = {.get = get_recorded}, unrecorded = {.get = get_unrecorded};
    return aorta_run_compare(labelled, &unrecorded, &recorded, cost);
}

static bool known(const struct aorta_comparison *cost) {
    return cost->reference.count > 0 && cost->candidate.count > 0;
}

static double share(const struct aorta_comparison *cost) {
    return cost->candidate.p50 / cost->reference.p50 - 1;
}

aorta_status aorta_recording_json(const struct aorta_labelled *labelled, struct aorta_json *json) {
    struct aorta_comparison cost;
    AORTA_TRY(compare(labelled, &cost));
    if (!known(&cost)) return NULL;
    aorta_json_key_object(json, "recording_cost");
    aorta_json_key_int(json, "recorded_steps", (int64_t)cost.candidate.count);
    aorta_json_key_int(json, "unrecorded_steps", (int64_t)cost.reference.count);
    aorta_json_key_double(json, "recorded_step_ms_p50", cost.candidate.p50);
    aorta_json_key_double(json, "unrecorded_step_ms_p50", cost.reference.p50);
    aorta_json_key_double(json, "percent", 100 * share(&cost));
    aorta_json_key_double(json, "p_value", cost.p_value);
    aorta_json_object_end(json);
    return NULL;
}

/* Records cost the host time at each launch. */
static void say_share(const struct aorta_labelled *labelled, struct aorta_text *out) {
    const struct aorta_records *records = &labelled->records;
    char sentence[192];
    if (!labelled->by_kernels || !records->iterations) return;
    const double launches = (double)records->launches / (double)records->iterations;
    if (!aorta_recording_share(&labelled->verdict, launches, sentence, sizeof sentence)) return;
    aorta_text_printf(out, "recording: %s; compile.enabled=true makes one launch of a step", sentence);
}

aorta_status aorta_recording_text(const struct aorta_labelled *labelled, struct aorta_text *out) {
    struct aorta_comparison cost;
    AORTA_TRY(compare(labelled, &cost));
    if (!known(&cost)) {
        say_share(labelled, out);
        return NULL;
    }
    aorta_text_printf(out, "recording: steps took %.3f ms with ranges (p50 of %zu), %.3f ms without (%zu): %+.1f%%, ",
                      cost.candidate.p50, cost.candidate.count, cost.reference.p50, cost.reference.count,
                      100 * share(&cost));
    aorta_compare_chance(&cost, "step", out);
    return NULL;
}
