/* Settings that `aorta trace run` passes to the injected library, by environment variables: only these reach every
 * child. */
#ifndef AORTA_RECORD_INJECT_SETTINGS_H
#define AORTA_RECORD_INJECT_SETTINGS_H

#include "trace/spool_format.h"

#define AORTA_INJECT_DIRECTORY "AORTA_TRACE_SPOOL"      /* where the files go; without it nothing is recorded */
#define AORTA_INJECT_CUPTI "AORTA_TRACE_CUPTI"          /* libcupti to take when the process has none loaded */
#define AORTA_INJECT_DELAY "AORTA_TRACE_DELAY_MS"       /* after CUDA's start before recording begins (0) */
#define AORTA_INJECT_DURATION "AORTA_TRACE_DURATION_MS" /* how long to record (0: to the end) */
#define AORTA_INJECT_LIMIT "AORTA_TRACE_LIMIT_MB"       /* of each file (2048) */
#define AORTA_INJECT_FLUSH "AORTA_TRACE_FLUSH_MS"       /* between two looks for records (200) */
#define AORTA_INJECT_WINDOW "AORTA_TRACE_WINDOW_MS"     /* length of a window (0: one file), see spool_format.h */
#define AORTA_INJECT_RECORD "AORTA_TRACE_RECORD"        /* a row of aorta_inject_levels (all) */
#define AORTA_INJECT_BUFFER "AORTA_TRACE_BUFFER_KB"     /* size of a buffer for CUPTI's records (256) */
#define AORTA_INJECT_NVTX "AORTA_TRACE_NVTX"            /* 1: ranges of NVTX too */
#define AORTA_INJECT_DETACH "AORTA_TRACE_DETACH"        /* 0: CUPTI stays when recording is over (1) */
#define AORTA_INJECT_STAGE "AORTA_TRACE_STAGE"          /* for bench/trace_run_cost.py: enum aorta_inject_stage */

/* The last stage to run, to measure each stage's cost. Only the last stage records. */
enum aorta_inject_stage {
    AORTA_INJECT_LOADED,     /* this library, and a file */
    AORTA_INJECT_OPENED,     /* libcupti is loaded and says its version */
    AORTA_INJECT_SUBSCRIBED, /* the subscription was taken and given back, to find another client */
    AORTA_INJECT_REGISTERED, /* CUPTI knows where to get buffers, and the thread runs */
    AORTA_INJECT_RECORDING,
    AORTA_INJECT_STAGES
};

static const char *const aorta_inject_stages[AORTA_INJECT_STAGES] = {"loaded", "opened", "subscribed", "registered",
                                                                     "recording"};

/* The recorded parts. Kernels, copies and fills are always recorded; calls of the host cost more. */
enum { AORTA_INJECT_ALL, AORTA_INJECT_LAUNCHES, AORTA_INJECT_KERNELS, AORTA_INJECT_LEVELS };

static const struct aorta_inject_level {
    const char *name;
    uint32_t parts; /* enum aorta_spool_part */
} aorta_inject_levels[AORTA_INJECT_LEVELS] = {
    [AORTA_INJECT_KERNELS] = {"kernels", 0},
    [AORTA_INJECT_LAUNCHES] = {"kernels,launches", AORTA_SPOOL_LAUNCHES},
    [AORTA_INJECT_ALL] = {"all", AORTA_SPOOL_LAUNCHES | AORTA_SPOOL_WAITS},
};

#endif
