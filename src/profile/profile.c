#include "profile/profile.h"

#include <stdlib.h>
#include <string.h>

const char *aorta_role_name(enum aorta_role role) {
    static const char *const names[AORTA_ROLE_COUNT] = {"compute", "allreduce", "reducescatter", "aux"};
    return (unsigned)role < AORTA_ROLE_COUNT ? names[role] : "unknown";
}

const char *aorta_profile_source_name(enum aorta_profile_source source) {
    return source == AORTA_SOURCE_KERNEL ? "kernel" : "range";
}

void aorta_profile_free(struct aorta_profile *profile) {
    free(profile->ranges);
    free(profile->host);
    free(profile->markers);
    free(profile->kernels.stamps);
    memset(profile, 0, sizeof *profile);
}

int64_t aorta_range_launched_by(const struct aorta_profile *profile, size_t range) {
    int64_t from = profile->ranges[range].enqueue_ns;
    int64_t until = range + 1 < profile->range_count ? profile->ranges[range + 1].enqueue_ns : from;
    for (size_t i = 0; i < profile->host_count; i++)
        if (profile->host[i].start_ns >= from && profile->host[i].start_ns < until) until = profile->host[i].start_ns;
    return until > from ? until : from;
}
