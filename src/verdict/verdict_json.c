#include "verdict/verdict.h"

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
