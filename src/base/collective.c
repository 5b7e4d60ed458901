#include "base/collective.h"

/* factor = ring_passes × (n − 1)/n + constant */
static const struct {
    const char *name;
    double ring_passes, constant;
} collectives[AORTA_COLLECTIVE_COUNT] = {
    [AORTA_ALL_REDUCE] = {"all_reduce", 2, 0},       [AORTA_REDUCE_SCATTER] = {"reduce_scatter", 1, 0},
    [AORTA_ALL_GATHER] = {"all_gather", 1, 0},       [AORTA_BROADCAST] = {"broadcast", 0, 1},
    [AORTA_ALL_TO_ALL] = {"all_to_all", 1, 0},       [AORTA_BARRIER] = {"barrier", 0, 0},
    [AORTA_COLLECTIVE_OTHER] = {"collective", 0, 0},
};

const char *aorta_collective_name(enum aorta_collective kind) {
    return collectives[kind].name;
}

const char *aorta_collective_words(enum aorta_collective kind, bool sends) {
    return sends && kind == AORTA_ALL_TO_ALL ? "sends and receives" : aorta_collective_name(kind);
}

double aorta_collective_bus_factor(enum aorta_collective kind, int ranks) {
    return collectives[kind].ring_passes * (ranks - 1) / ranks + collectives[kind].constant;
}
