/* Replays that have memory. */
#ifndef AORTA_TESTS_REPLAY_REPLAYING_H
#define AORTA_TESTS_REPLAY_REPLAYING_H

#include "check.h"
#include "replay/replay.h"

static inline void measure_gains(const struct aorta_graph *graph, struct aorta_gains *gains) {
    struct aorta_arena memory = {0};
    aorta_gains_measure(graph, gains, &memory);
    check_ok(aorta_arena_check(&memory, "the gains"));
    aorta_arena_free(&memory);
}

static inline void find_origin(const struct aorta_graph *graph, enum aorta_removal removal,
                               struct aorta_origin *origin) {
    struct aorta_arena memory = {0};
    aorta_replay_origin(graph, removal, origin, &memory);
    check_ok(aorta_arena_check(&memory, "the origin"));
    aorta_arena_free(&memory);
}

#endif
