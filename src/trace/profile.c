#include "trace/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *aorta_role_name(enum aorta_role role) {
    static const char *const names[AORTA_ROLE_COUNT] = {"compute", "allreduce", "reducescatter", "aux"};
    return (unsigned)role < AORTA_ROLE_COUNT ? names[role] : "unknown";
}

enum aorta_role aorta_usual_role(enum aorta_range_kind kind, enum aorta_collective collective) {
    if (kind == AORTA_RANGE_COMPUTE) return AORTA_ROLE_COMPUTE;
    if (kind == AORTA_RANGE_COPY) return AORTA_ROLE_AUX;
    if (collective == AORTA_ALL_REDUCE) return AORTA_ROLE_ALLREDUCE;
    return collective == AORTA_REDUCE_SCATTER ? AORTA_ROLE_REDUCESCATTER : AORTA_ROLE_AUX;
}

const char *aorta_profile_source_name(enum aorta_profile_source source) {
    return source == AORTA_SOURCE_KERNEL ? "kernel" : "range";
}

const char *aorta_host_kind_name(enum aorta_host_kind kind) {
    static const char *const names[AORTA_HOST_KIND_COUNT] = {"data_wait", "host_sync", "allocation"};
    return (unsigned)kind < AORTA_HOST_KIND_COUNT ? names[kind] : "unknown";
}

const char *aorta_range_dims_text(const struct aorta_range_info *info, char text[AORTA_RANGE_DIMS_TEXT]) {
    size_t at = 0;
    for (int i = 0; i < 2 && info->dims[i][0]; i++) {
        for (int j = 0; j < AORTA_RANGE_DIMS && info->dims[i][j]; j++)
            at += (size_t)snprintf(text + at, AORTA_RANGE_DIMS_TEXT - at, "%s%lld",
                                   j   ? ", "
                                   : i ? ", ["
                                       : "[[",
                                   (long long)info->dims[i][j]);
        text[at++] = ']';
    }
    if (at) text[at++] = ']';
    text[at] = '\0';
    return text;
}

/* One shape from its bracket on; NULL: it is none. */
static const char *parse_shape(const char *at, int32_t dims[AORTA_RANGE_DIMS]) {
    if (*at++ != '[') return NULL;
    for (int i = 0; i < AORTA_RANGE_DIMS; i++) {
        char *end;
        const long long size = strtoll(at, &end, 10);
        if (end == at || size < 1 || size > INT32_MAX) return NULL;
        dims[i] = (int32_t)size;
        if (*end == ']') return end + 1;
        if (*end != ',') return NULL;
        at = end + 1;
    }
    return NULL;
}

bool aorta_range_dims_parse(const char *text, struct aorta_range_info *info) {
    const char *at = text;
    memset(info->dims, 0, sizeof info->dims);
    if (*at++ != '[') return false;
    for (int i = 0; i < 2; i++) {
        at = parse_shape(at, info->dims[i]);
        if (!at) return false;
        if (*at == ']') return at[1] == '\0';
        if (*at++ != ',') return false;
        while (*at == ' ') at++;
    }
    return false;
}

void aorta_profile_free(struct aorta_profile *profile) {
    free(profile->ranges);
    free(profile->host);
    free(profile->markers);
    free(profile->overlap.segments);
    free(profile->overlap.exposed);
    memset(profile, 0, sizeof *profile);
}

int64_t aorta_range_launched_by(const struct aorta_profile *profile, size_t range) {
    int64_t from = profile->ranges[range].enqueue_ns;
    if (profile->ranges[range].graph) return from; /* one launch for all of it */
    int64_t until = range + 1 < profile->range_count ? profile->ranges[range + 1].enqueue_ns : from;
    for (size_t i = 0; i < profile->host_count; i++)
        if (profile->host[i].start_ns >= from && profile->host[i].start_ns < until) until = profile->host[i].start_ns;
    return until > from ? until : from;
}
