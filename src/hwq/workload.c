/* The table of workloads, and the names of what they are. */
#include "hwq/workload.h"

#include <string.h>

#define WORKLOAD(name) extern const struct aorta_hwq_workload aorta_hwq_##name;
#include "hwq/workloads.def"
#undef WORKLOAD

const struct aorta_hwq_workload *const aorta_hwq_workloads[] = {
#define WORKLOAD(name) &aorta_hwq_##name,
#include "hwq/workloads.def"
#undef WORKLOAD
    NULL};

const char *aorta_hwq_group_name(enum aorta_hwq_group group) {
    static const char *const names[AORTA_HWQ_GROUP_COUNT] = {"P0", "P1", "P2", "P3"};
    return names[group];
}

const char *aorta_hwq_category_name(enum aorta_hwq_category category) {
    static const char *const names[AORTA_HWQ_CATEGORY_COUNT] = {"latency_sensitive", "distributed", "inference",
                                                                "pipeline"};
    return names[category];
}

const char *aorta_hwq_sensitivity_name(enum aorta_hwq_sensitivity level) {
    static const char *const names[AORTA_HWQ_SENSITIVITY_COUNT] = {"low", "medium", "high", "critical"};
    return names[level];
}

const char *aorta_hwq_role(const struct aorta_hwq *hwq, const struct aorta_hwq_workload *workload, int stream) {
    int count = 0;
    if (workload->role) return workload->role(hwq, stream);
    while (workload->roles && workload->roles[count]) count++;
    return count ? workload->roles[stream % count] : NULL;
}

/* From the word to the name, or to as much of its beginning as was typed; SIZE_MAX: neither is near. */
static size_t distance_of(const char *word, const char *name) {
    char beginning[64];
    const size_t whole = aorta_near_distance(word, name), length = strlen(word);
    if (length >= sizeof beginning || length >= strlen(name)) return whole;
    memcpy(beginning, name, length);
    beginning[length] = '\0';
    const size_t begun = aorta_near_distance(word, beginning);
    return begun < whole ? begun : whole;
}

static aorta_status unknown(const char *word) {
    const char *nearest = NULL;
    size_t least = SIZE_MAX;
    for (size_t i = 0; aorta_hwq_workloads[i]; i++) {
        const size_t distance = distance_of(word, aorta_hwq_workloads[i]->name);
        if (distance >= least) continue;
        least = distance;
        nearest = aorta_hwq_workloads[i]->name;
    }
    return AORTA_ERROR(AORTA_USAGE, "unknown workload \"%s\"%s%s%s; aorta hwq list shows them all", word,
                       nearest ? "; did you mean \"" : "", nearest ? nearest : "", nearest ? "\"?" : "");
}

aorta_status aorta_hwq_find(const char *name, const struct aorta_hwq_workload **workload) {
    for (size_t i = 0; aorta_hwq_workloads[i]; i++) {
        if (strcmp(aorta_hwq_workloads[i]->name, name) != 0) continue;
        *workload = aorta_hwq_workloads[i];
        return NULL;
    }
    return unknown(name);
}
