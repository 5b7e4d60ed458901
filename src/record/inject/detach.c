#include "record/inject/detach.h"

#include <string.h>

enum phase { ATTACHED, ASKED, LEAVING, GONE, CANCELLED };

static bool move_on(struct aorta_inject_detach *detach, int from, int to) {
    return atomic_compare_exchange_strong(&detach->phase, &from, to);
}

/* On any thread of the program. The first one whose call ends does it. */
static void at_call(void *user, uint32_t domain, uint32_t id, const void *data) {
    struct aorta_inject_detach *detach = user;
    uint32_t site;
    (void)id;
    if (domain != AORTA_CUPTI_DOMAIN_DRIVER && domain != AORTA_CUPTI_DOMAIN_RUNTIME) return;
    memcpy(&site, data, sizeof site);
    if (site != AORTA_CUPTI_SITE_EXIT || !move_on(detach, ASKED, LEAVING)) return;
    detach->cupti->api.unsubscribe(detach->subscriber);
    detach->result = detach->cupti->finalize();
    atomic_store(&detach->phase, GONE);
}

const char *aorta_inject_detach_ask(struct aorta_inject_detach *detach, const struct aorta_inject_cupti *cupti) {
    if (!cupti->finalize || !cupti->enable_domain || cupti->version < AORTA_CUPTI_DETACHES)
        return "CUPTI stays in the process until CUDA 12.6, and costs a little";
    uint32_t result = cupti->api.subscribe(&detach->subscriber, at_call, detach);
    /* The owner of the subscription is recording; CUPTI must stay for it. */
    if (result == AORTA_CUPTI_MULTIPLE_SUBSCRIBERS) return "CUPTI stays in the process, for another profiler uses it";
    if (result != AORTA_CUPTI_SUCCESS) return "CUPTI stays in the process, for it refused a subscription";
    detach->cupti = cupti;
    uint32_t results[] = {cupti->enable_domain(1, detach->subscriber, AORTA_CUPTI_DOMAIN_DRIVER),
                          cupti->enable_domain(1, detach->subscriber, AORTA_CUPTI_DOMAIN_RUNTIME)};
    atomic_store(&detach->phase, ASKED); /* not before: from now on CUPTI may be gone */
    if (results[0] == AORTA_CUPTI_SUCCESS || results[1] == AORTA_CUPTI_SUCCESS) return NULL;
    aorta_inject_detach_cancel(detach);
    return "CUPTI stays in the process, because it refused callbacks of calls";
}

bool aorta_inject_detach_done(const struct aorta_inject_detach *detach) {
    return atomic_load(&detach->phase) == GONE;
}

void aorta_inject_detach_forget(struct aorta_inject_detach *detach) {
    atomic_store(&detach->phase, CANCELLED);
}

void aorta_inject_detach_cancel(struct aorta_inject_detach *detach) {
    if (move_on(detach, ASKED, CANCELLED)) detach->cupti->api.unsubscribe(detach->subscriber);
}
