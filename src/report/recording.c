/* What recording ranges cost, in a run that left them away in some steps: those are what the others are held against.
 */
#include "report/recording.h"

#include <math.h>
#include <stdlib.h>

static double get_recorded(const struct aorta_run_step *step) {
    return step->recorded ? step->step_ms : NAN;
}

static double get_unrecorded(const struct aorta_run_step *step) {
    return step->recorded ? NAN : step->step_ms;
}

/* `reference`: measured steps without ranges, `candidate`: those with; one sample per iteration, the mean over ranks.
 * *known: there are both. */
static aorta_status compare(const struct aorta_labelled *labelled, struct aorta_comparison *cost, bool *known) {
    static const struct aorta_metric recorded = {.get = get_recorded}, unrecorded = {.get = get_unrecorded};
    double *without = NULL, *with = NULL;
    size_t without_count = 0, with_count = 0;
    aorta_status status = aorta_metric_samples(labelled, &unrecorded, &without, &without_count);
    if (!status) status = aorta_metric_samples(labelled, &recorded, &with, &with_count);
    *known = without_count > 0 && with_count > 0;
    if (!status) *cost = aorta_compare(without, without_count, with, with_count);
    free(without);
    free(with);
    return status;
}

static double share(const struct aorta_comparison *cost) {
    return cost->candidate.p50 / cost->reference.p50 - 1;
}

aorta_status aorta_recording_json(const struct aorta_labelled *labelled, struct aorta_json *json) {
    struct aorta_comparison cost;
    bool known;
    AORTA_TRY(compare(labelled, &cost, &known));
    if (!known) return NULL;
    aorta_json_key(json, "recording_cost");
    aorta_json_object(json);
    aorta_json_key_int(json, "recorded_steps", (int64_t)cost.candidate.count);
    aorta_json_key_int(json, "unrecorded_steps", (int64_t)cost.reference.count);
    aorta_json_key_double(json, "recorded_step_ms_p50", cost.candidate.p50);
    aorta_json_key_double(json, "unrecorded_step_ms_p50", cost.reference.p50);
    aorta_json_key_double(json, "percent", 100 * share(&cost));
    aorta_json_key_double(json, "p_value", cost.p_value);
    aorta_json_object_end(json);
    return NULL;
}

aorta_status aorta_recording_text(const struct aorta_labelled *labelled, struct aorta_text *out) {
    struct aorta_comparison cost;
    bool known;
    AORTA_TRY(compare(labelled, &cost, &known));
    if (!known) return NULL;
    aorta_text_printf(out, "recording: steps took %.3f ms with ranges (p50 of %zu), %.3f ms without (%zu): %+.1f%%, ",
                      cost.candidate.p50, cost.candidate.count, cost.reference.p50, cost.reference.count,
                      100 * share(&cost));
    if (isnan(cost.p_value))
        aorta_text_puts(out, "too few to tell from noise");
    else
        aorta_text_printf(out, "%s (p = %.2g)",
                          cost.p_value < aorta_significance ? "significant" : "not to be told from noise",
                          cost.p_value);
    return NULL;
}
