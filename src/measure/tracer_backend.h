/* The interface of a vendor's profiler library, for the tracers of this folder and their tests. */
#ifndef AORTA_MEASURE_TRACER_BACKEND_H
#define AORTA_MEASURE_TRACER_BACKEND_H

#include "measure/tracer.h"

/* A call of the driver that does nothing else: its number says where in the order of launches it is. */
struct aorta_tracer_call {
    void (*call)(void *user);
    void *user;
};

struct aorta_tracer_backend {
    int64_t disorder_ns;   /* records of work so much earlier may still follow one; 0: in the order of launches */
    void (*prepare)(void); /* called before the first use of a device; NULL: nothing */
    /* Loads the library and prepares it; nothing is recorded yet. Fills library and path of *facts (strings live as
     * long as the state). */
    aorta_status (*open)(const struct aorta_tracer_call *call, void **state, struct aorta_tracer_facts *facts);
    void (*close)(void *state); /* stopped */
    aorta_status (*start)(void *state);
    aorta_status (*stop)(void *state);
    /* Hands finished records of the library (all: every record) to aorta_tracer_receive, on this thread. */
    aorta_status (*fetch)(void *state, bool all, struct aorta_tracer *tracer);
    int64_t (*dropped)(void *state);                  /* records known to be lost since open */
    uint32_t (*launches)(void *state);                /* the number of now */
    void (*label)(void *state, uint64_t label);       /* of nodes from now on; NULL: nodes are not known */
    uint64_t (*label_of)(void *state, uint64_t node); /* 0: none */
};

extern const struct aorta_tracer_backend aorta_tracer_cupti, aorta_tracer_rocprofiler;

/* Called by fetch for each record; record->name may be short-lived. */
AORTA_MUST_USE aorta_status aorta_tracer_receive(struct aorta_tracer *tracer,
                                                 const struct aorta_activity_record *record);

/* aorta_tracer_open with the backend chosen. */
AORTA_MUST_USE aorta_status aorta_tracer_open_backend(const struct aorta_tracer_backend *backend,
                                                      const struct aorta_tracer_call *call,
                                                      struct aorta_tracer **tracer);

#endif
