/* The kernel tracer: what the device really did. The vendor's profiler library (CUPTI; the interface also fits
 * rocprofiler-sdk) tells start and end of every kernel, copy and fill, whoever launched it.
 *
 * Records arrive late: only when everything launched around them has finished too. So a step's records are taken once
 * aorta_tracer_reached says so (metrics_lines.h holds the lines of finished steps back until then).
 *
 * One tracer per process, because the vendors' libraries serve one. Thread-safe from open to close. Memory is bounded:
 * what is not taken in time is dropped, oldest first, and counted. */
#ifndef AORTA_MEASURE_TRACER_H
#define AORTA_MEASURE_TRACER_H

#include "device/device.h"
#include "timeline/profile.h"
#include "timeline/trace.h"

/* Strings live as long as the tracer. */
struct aorta_trace_record {
    enum aorta_trace_kind kind;
    const char *name;           /* the kernel's, demangled where the library does so; "copy host to device", "fill" */
    int64_t start_ns, end_ns;   /* device clock */
    uint32_t stream;            /* the library's number of the stream */
    uint32_t device, context;   /* the library's numbers */
    uint32_t correlation;       /* of the launch; 0: unknown */
    uint32_t graph;             /* 0: not from a graph */
    uint64_t graph_node;        /* 0: not from a graph */
    int64_t bytes;              /* copies and fills */
    uint32_t grid[3], block[3]; /* kernels */
    uint32_t registers, shared_bytes;
    uint32_t channel;      /* the hardware queue it came through, by the library's number */
    uint32_t channel_type; /* CUpti_ChannelType: 1 compute, 2 copy engine, 3 decompression; 0: channel unknown */
};

struct aorta_tracer_facts {
    const char *library; /* "CUPTI 13.0" */
    const char *path;    /* of the library's file */
    int64_t records;     /* received since the start */
    int64_t dropped;     /* known to be lost: by the library, or because nobody took them in time */
};

struct aorta_tracer;

/* Whether a device of this kind can be traced at all, without opening anything. AORTA_CONFIG for the CPU device: its
 * ranges are the operations. */
AORTA_MUST_USE aorta_status aorta_tracer_check(enum aorta_device_kind kind);

/* What `aorta info` shows: whether the library for devices of this kind loads and is new enough, without touching the
 * device or claiming anything. Fails as open does. */
struct aorta_tracer_library {
    char version[32]; /* "CUPTI 13.0.1" */
    char path[256];
};
AORTA_MUST_USE aorta_status aorta_tracer_probe(enum aorta_device_kind kind, struct aorta_tracer_library *library);

/* Opens the library and starts tracing; before graphs are captured, so that the library knows their nodes.
 * AORTA_CONFIG: a CPU device; AORTA_UNSUPPORTED: the library is missing, too old or refused, with what to do about it;
 * AORTA_USAGE: the process has a tracer already. */
AORTA_MUST_USE aorta_status aorta_tracer_open(struct aorta_device *device, struct aorta_tracer **tracer);
/* Stops tracing and drops what was not taken. NULL is fine. Profiles taken from it end with it: they borrow names. */
void aorta_tracer_close(struct aorta_tracer *tracer);

/* More kernels that are collectives (kernel_names.h); borrowed until the tracer is closed. */
void aorta_tracer_use_patterns(struct aorta_tracer *tracer, const struct aorta_kernel_patterns *patterns);

/* Stopped, the program runs at its own speed and nothing is recorded. Open starts. */
AORTA_MUST_USE aorta_status aorta_tracer_start(struct aorta_tracer *tracer);
AORTA_MUST_USE aorta_status aorta_tracer_stop(struct aorta_tracer *tracer);

/* Fetches what the library has finished. `all`: also what it would still wait for; the device must be idle then. */
AORTA_MUST_USE aorta_status aorta_tracer_flush(struct aorta_tracer *tracer, bool all);
/* Fetches, then says whether all records of work that ended before to_ns have arrived. */
AORTA_MUST_USE aorta_status aorta_tracer_reached(struct aorta_tracer *tracer, int64_t to_ns, bool *reached);

/* Moves the records whose middle lies in [from_ns, to_ns) out of the tracer, by start; drops older ones. The caller
 * frees *records. */
AORTA_MUST_USE aorta_status aorta_tracer_records(struct aorta_tracer *tracer, int64_t from_ns, int64_t to_ns,
                                                 struct aorta_trace_record **records, size_t *count);
/* The same as the kernel view of one iteration (kernels.h), not yet attributed to ranges. */
AORTA_MUST_USE aorta_status aorta_tracer_take(struct aorta_tracer *tracer, int64_t from_ns, int64_t to_ns,
                                              struct aorta_profile *profile);
/* The same with the records that the view was made of, by start; the caller frees both. */
AORTA_MUST_USE aorta_status aorta_tracer_take_both(struct aorta_tracer *tracer, int64_t from_ns, int64_t to_ns,
                                                   struct aorta_profile *profile, struct aorta_trace_record **records,
                                                   size_t *count);

struct aorta_tracer_facts aorta_tracer_get_facts(struct aorta_tracer *tracer);

#endif
