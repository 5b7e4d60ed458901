#include "device/capture.h"

#include <stdio.h>

bool aorta_capture_branch_open(struct capture_branch *branch, size_t index, const char *name) {
    *branch = (struct capture_branch){.index = index};
    if (!aorta_reach_extend(&branch->reach, index + 1)) return false;
    branch->reach.counts[index] = 1; /* the fork itself, so that a branch without nodes must be joined too */
    snprintf(branch->name, sizeof branch->name, "%s", name);
    return true;
}

aorta_status aorta_capture_break(struct capture_state *capture, aorta_status error) {
    if (!capture->broken) capture->broken = aorta_status_copy(error);
    return error;
}

aorta_status aorta_capture_no_memory(void) {
    return AORTA_ERROR(AORTA_MEMORY, "no host memory for the graph being captured");
}

aorta_status aorta_capture_check_wait(const char *name, const struct capture_state *own,
                                      const struct capture_state *recorded, const char *recorded_on) {
    if (!recorded) {
        return AORTA_ERROR(AORTA_DEVICE,
                           "stream %s is being captured and cannot wait for an event that was recorded on stream %s "
                           "outside the capture",
                           name, recorded_on);
    }
    if (!recorded->active) {
        return AORTA_ERROR(AORTA_DEVICE,
                           "stream %s cannot wait for an event that was recorded on stream %s in a capture that has "
                           "ended: it orders that graph only",
                           name, recorded_on);
    }
    if (own && own != recorded) {
        return AORTA_ERROR(AORTA_DEVICE,
                           "stream %s cannot wait for an event recorded on stream %s: they belong to two captures",
                           name, recorded_on);
    }
    return NULL;
}

aorta_status aorta_capture_check_joined(const struct capture_branch *origin, const struct capture_branch *branch) {
    if (aorta_reach_of(&origin->reach, branch->index) >= aorta_reach_of(&branch->reach, branch->index)) return NULL;
    return AORTA_ERROR(AORTA_DEVICE,
                       "the capture on stream %s ended while stream %s was not joined: record an event on %s and "
                       "let %s wait for it first",
                       origin->name, branch->name, branch->name, origin->name);
}

aorta_status aorta_capture_begun_already(const char *name) {
    return AORTA_ERROR(AORTA_DEVICE, "stream %s is being captured already", name);
}

aorta_status aorta_capture_not_begun(const char *name) {
    return AORTA_ERROR(AORTA_DEVICE, "stream %s is not being captured", name);
}

aorta_status aorta_capture_begun_elsewhere(const char *name, const struct capture_branch *origin) {
    return AORTA_ERROR(AORTA_DEVICE, "stream %s cannot end the capture: it began on stream %s", name, origin->name);
}

aorta_status aorta_capture_stream_destroyed(const char *name) {
    return AORTA_ERROR(AORTA_DEVICE, "stream %s was destroyed while it was captured", name);
}

aorta_status aorta_capture_only_orders(const char *recorded_on) {
    return AORTA_ERROR(AORTA_DEVICE,
                       "the event was last recorded in a capture, on stream %s: it orders the graph and has no time or "
                       "end of its own; record it outside, or use a timestamp",
                       recorded_on);
}
