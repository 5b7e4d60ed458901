#include "analysis/idle.h"

const struct aorta_idle_words aorta_idle_words[AORTA_IDLE_CAUSE_COUNT] = {
    [AORTA_IDLE_DATA_WAIT] = {"data_wait", "data wait", "waiting for data", true},
    [AORTA_IDLE_HOST_SYNC] = {"host_sync", "host sync", "host waited for the device", true},
    [AORTA_IDLE_HOST_LAUNCH] = {"host_launch", "host launch", "host launched late", true},
    [AORTA_IDLE_LAUNCH_LATENCY] = {"launch_latency", "launch latency", "launched but not started", false},
    [AORTA_IDLE_UNKNOWN] = {"unknown", "not known", "launch not recorded", false},
};

int64_t aorta_idle_total(const struct aorta_idle *idle) {
    int64_t total = 0;
    for (int i = 0; i < AORTA_IDLE_CAUSE_COUNT; i++) total += idle->ns[i];
    return total;
}

int64_t aorta_idle_host(const struct aorta_idle *idle) {
    int64_t host = 0;
    for (int i = 0; i < AORTA_IDLE_CAUSE_COUNT; i++) host += aorta_idle_words[i].host ? idle->ns[i] : 0;
    return host;
}

void aorta_idle_add(struct aorta_idle *sum, const struct aorta_idle *idle) {
    for (int i = 0; i < AORTA_IDLE_CAUSE_COUNT; i++) sum->ns[i] += idle->ns[i];
}

enum aorta_idle_cause aorta_idle_largest(const struct aorta_idle *idle) {
    int largest = 0;
    for (int i = 1; i < AORTA_IDLE_CAUSE_COUNT; i++)
        if (idle->ns[i] > idle->ns[largest]) largest = i;
    return (enum aorta_idle_cause)largest;
}

void aorta_host_waits_free(struct aorta_host_waits *waits) {
    aorta_intervals_free(&waits->data);
    aorta_intervals_free(&waits->device);
}

aorta_status aorta_host_waits_make(struct aorta_intervals *data, struct aorta_intervals *device,
                                   struct aorta_host_waits *waits) {
    *waits = (struct aorta_host_waits){.data = *data};
    *data = (struct aorta_intervals){0};
    aorta_intervals_normalise(&waits->data);
    aorta_intervals_normalise(device);
    aorta_intervals_subtract(device, &waits->data, &waits->device);
    aorta_status status = aorta_intervals_check(&waits->device);
    aorta_intervals_free(device);
    if (status) aorta_host_waits_free(waits);
    return status;
}

struct aorta_idle aorta_idle_of_gap(const struct aorta_host_waits *waits, int64_t start_ns, int64_t end_ns,
                                    int64_t launch_ns) {
    bool known = launch_ns != INT64_MIN;
    int64_t until_ns = !known || launch_ns > end_ns ? end_ns : launch_ns;
    if (until_ns < start_ns) until_ns = start_ns;
    struct aorta_idle idle = {0};
    idle.ns[AORTA_IDLE_DATA_WAIT] = aorta_intervals_within(&waits->data, start_ns, until_ns);
    idle.ns[AORTA_IDLE_HOST_SYNC] = aorta_intervals_within(&waits->device, start_ns, until_ns);
    idle.ns[known ? AORTA_IDLE_HOST_LAUNCH : AORTA_IDLE_UNKNOWN] =
        until_ns - start_ns - idle.ns[AORTA_IDLE_DATA_WAIT] - idle.ns[AORTA_IDLE_HOST_SYNC];
    idle.ns[AORTA_IDLE_LAUNCH_LATENCY] = end_ns - until_ns;
    return idle;
}
