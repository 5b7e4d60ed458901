#include "verdict/verdict.h"

#include <math.h>

void aorta_verdict_findings(const struct aorta_verdict *verdict, struct aorta_json *json) {
    aorta_json_key(json, "verdict");
    aorta_json_array(json);
    for (size_t i = 0; i < verdict->finding_count; i++) {
        const struct aorta_finding *finding = &verdict->findings[i];
        bool by_kind = finding->cause == AORTA_CAUSE_SLOW_COLLECTIVE ||
                       finding->cause == AORTA_CAUSE_SERIALIZED_STREAMS ||
                       finding->cause == AORTA_CAUSE_EXPOSED_COLLECTIVE;
        aorta_json_object(json);
        aorta_json_key_string(json, "cause", aorta_cause_name(finding->cause));
        if (by_kind) aorta_json_key_string(json, "collective", aorta_collective_name(finding->collective));
        if (verdict->replay.known || verdict->replay.reason) {
            aorta_json_key_double(json, "gain_ms", verdict->replay.known ? finding->gain_ms : NAN);
            aorta_json_key_double(json, "gain_share", verdict->replay.known ? finding->gain_share : NAN);
        }
        aorta_json_key_double(json, "cost_ms", finding->cost_ms);
        aorta_json_key_double(json, "share", finding->share);
        aorta_json_key(json, "rank");
        if (finding->rank >= 0)
            aorta_json_int(json, finding->rank);
        else
            aorta_json_null(json);
        aorta_json_key_string(json, "evidence", finding->evidence);
        aorta_json_key_string(json, "advice", finding->advice);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
}

void aorta_verdict_replay_write(const struct aorta_verdict *verdict, struct aorta_json *json) {
    const struct aorta_verdict_replay *replay = &verdict->replay;
    aorta_json_key(json, "replay");
    aorta_json_object(json);
    aorta_json_key_double(json, "measured_ms", replay->measured_ms);
    aorta_json_key_double(json, "replayed_ms", replay->replayed_ms);
    aorta_json_key_double(json, "inferred_share", replay->inferred_share);
    aorta_json_key_double(json, "unexplained_share", replay->unexplained_share);
    aorta_json_key_string(json, "reason", replay->reason);
    aorta_json_object_end(json);
    aorta_json_key_double(json, "floor_ms", replay->known ? replay->floor_ms : NAN);
}
