/* How a test controls the stand-in for libcupti; found in it with dlsym. */
#ifndef AORTA_TESTS_FAKE_CUPTI_H
#define AORTA_TESTS_FAKE_CUPTI_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* One activity. Recorded only while its kind is enabled, as the library does. */
struct fake_activity {
    uint32_t kind; /* CUpti_ActivityKind */
    const char *name;
    uint64_t start, end;
    uint32_t device, context, stream, correlation, graph;
    uint64_t graph_node, bytes;
    uint8_t copy_kind;
    int32_t grid[3], block[3], shared;
    uint16_t registers;
    int unfinished; /* its buffer stays in the library until a flush is forced */
    uint32_t channel, channel_type;
    uint32_t call;          /* of a call: its number in cupti_runtime_cbid.h or cupti_driver_cbid.h */
    uint32_t thread;        /* of a call or marker */
    uint32_t marker, flags; /* CUpti_ActivityMarker2: id, CUpti_ActivityFlag */
};

enum fake_cupti_use {
    FAKE_CUPTI_SUBSCRIBED = 1,
    FAKE_CUPTI_REGISTERED = 2,
    FAKE_CUPTI_ENABLED = 4,
    FAKE_CUPTI_FLUSHED = 8
};

struct fake_cupti {
    void (*record)(const struct fake_activity *activity);  /* from any thread */
    void (*finish)(void);                                  /* ends the unfinished: times are taken from the records */
    void (*refuse)(const char *function, uint32_t result); /* from now on; NULL: nothing is refused */
    void (*set_version)(uint32_t version);
    uint64_t (*now)(void); /* the clock that the client registered; 0: none */
    int (*enabled)(void);  /* kinds */
    int (*subscribers)(void);
    int (*lent)(void);      /* buffers that the client gave and has not back */
    int (*flushes)(void);   /* calls of cuptiActivityFlushAll */
    int (*attribute)(void); /* what was set last, + 1, before callbacks were registered; 0: none */
    int (*uses)(void);      /* enum fake_cupti_use, since the start or the last cuptiFinalize */
    int (*finalized)(void); /* calls of cuptiFinalize */
    /* A call of the driver's, by its number in cupti_driver_cbid.h: the callback is called if it is enabled. The number
     * that the call has in the order of all. */
    uint32_t (*call)(uint32_t id);
    void (*node)(uint64_t id, uint64_t original); /* of a graph: captured (original 0) or made of another one */
    void (*set_number)(uint32_t number);          /* of the last call */
    void (*reset)(void);
};

/* Exported as "fake_cupti". */
const struct fake_cupti *fake_cupti(void);

/* The one of the library in this folder, which a client finds through AORTA_LIBRARY_PATH. Without it the test ends. */
static inline const struct fake_cupti *fake_cupti_open(const char *folder) {
    char path[4096];
    snprintf(path, sizeof path, "%s/libcupti.so.13", folder);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const struct fake_cupti *(*get)(void) = NULL;
    if (library) *(void **)&get = dlsym(library, "fake_cupti");
    if (get) return get();
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
}

#endif
