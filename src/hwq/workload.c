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

enum { MOST_WORKLOADS = 64 };

static aorta_status unknown(const char *name) {
    const char *names[MOST_WORKLOADS] = {0};
    size_t count = 0;
    for (; aorta_hwq_workloads[count] && count < MOST_WORKLOADS; count++)
        names[count] = aorta_hwq_workloads[count]->name;
    const char *nearest = aorta_nearest(name, names, count);
    if (nearest) return AORTA_ERROR(AORTA_USAGE, "unknown workload \"%s\"; did you mean \"%s\"?", name, nearest);
    return AORTA_ERROR(AORTA_USAGE, "unknown workload \"%s\"; aorta hwq list shows them", name);
}

aorta_status aorta_hwq_find(const char *name, const struct aorta_hwq_workload **workload) {
    for (size_t i = 0; aorta_hwq_workloads[i]; i++) {
        if (strcmp(aorta_hwq_workloads[i]->name, name) != 0) continue;
        *workload = aorta_hwq_workloads[i];
        return NULL;
    }
    return unknown(name);
}
