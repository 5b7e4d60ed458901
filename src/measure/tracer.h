/* The kernel tracer: records of the device's work. The vendor's profiler library (CUPTI, rocprofiler-sdk) records start
 * and end of every kernel, copy and fill, from any launcher.
 *
 * Records arrive late, only after neighbouring launches have finished, too. So a step's records are taken once
 * aorta_tracer_reached returns true (measure/metrics.h then writes the step's line).
 *
 * One tracer per process, because the vendors' libraries allow one. Thread-safe from open to close. Memory is bounded:
 * records that are not taken in time are dropped, oldest first, and counted. */
#ifndef AORTA_MEASURE_TRACER_H
#define AORTA_MEASURE_TRACER_H

#include "device/device.h"
#include "trace/kernel_names.h"
#include "trace/profile.h"
#include "trace/trace.h"

/* Strings live as long as the tracer. */
struct aorta_activity_record {
    int64_t start_ns, end_ns; /* device clock */
    enum aorta_trace_kind kind;
    const char *name;           /* kernel's name, demangled; "copy host to device", "fill" */
    uint32_t stream;            /* the library's number of the stream */
    uint32_t device, context;   /* the library's numbers */
    uint32_t correlation;       /* of the launch; 0: unknown */
    uint32_t graph;             /* 0: not from a graph */
    uint64_t graph_node;        /* 0: not from a graph */
    uint64_t label;             /* of the node; 0: it has none */
    int64_t bytes;              /* copies and fills */
    uint8_t copy_kind;          /* CUpti_ActivityMemcpyKind; 0: not known */
    uint32_t grid[3], block[3]; /* kernels */
    uint32_t registers, shared_bytes;
    uint32_t channel;      /* the library's number of the hardware queue */
    uint32_t channel_type; /* CUpti_ChannelType: 1 compute, 2 copy engine, 3 decompression; 0: channel unknown */
};

/* "copy host to device", … by CUPTI's kind of copy. */
const char *aorta_copy_words(uint8_t kind);

struct aorta_tracer_facts {
    const char *library; /* "CUPTI 13.0" */
    const char *path;    /* of the library's file */
    int64_t records;     /* received since the start */
    int64_t dropped;     /* known to be lost: by the library, or because nobody took them in time */
};

struct aorta_tracer;

/* Called before the first use of a device by a process that may open a tracer: rocprofiler-sdk must be loaded when HIP
 * begins. aorta_tracer_open reports failures. */
void aorta_tracer_prepare(void);

/* Whether a device of this kind can be traced at all, which the CPU device cannot: its ranges are the operations. And
 * whether the work of a captured graph's nodes has their label. */
bool aorta_tracer_exists(enum aorta_device_kind kind);
bool aorta_tracer_labels(enum aorta_device_kind kind);

extern const struct aorta_library_description aorta_cupti_library, aorta_rocprofiler_library; /* CUDA's, HIP's */

/* Opens the library and starts tracing; before graphs are captured, so that the library knows their nodes.
 * AORTA_CONFIG: a CPU device; AORTA_UNSUPPORTED: the library is missing, too old or refused, with what to do about it;
 * AORTA_USAGE: the process has a tracer already. */
AORTA_MUST_USE aorta_status aorta_tracer_open(struct aorta_device *device, struct aorta_tracer **tracer);
/* Stops tracing and drops records that were not taken. NULL is fine. Profiles taken from the tracer borrow its names
 * and must not be used afterwards. */
void aorta_tracer_close(struct aorta_tracer *tracer);

/* While stopped, the program runs at full speed and nothing is recorded. Open starts. */
AORTA_MUST_USE aorta_status aorta_tracer_start(struct aorta_tracer *tracer);
AORTA_MUST_USE aorta_status aorta_tracer_stop(struct aorta_tracer *tracer);

/* Fetches finished records from the library. `all`: also records that the library would deliver later; the device must
 * be idle. */
AORTA_MUST_USE aorta_status aorta_tracer_flush(struct aorta_tracer *tracer, bool all);
/* Fetches, then says whether all records of work that ended before to_ns have arrived. */
AORTA_MUST_USE aorta_status aorta_tracer_reached(struct aorta_tracer *tracer, int64_t to_ns, bool *reached);

/* ---- from records to work ----
 *
 * Launches are numbered in order, and every record has the number of its launch (correlation). Nodes of graphs get a
 * label when they are captured, and every record of such a node has it. One thread records. */

/* The current launch number. Later launches of this thread have larger numbers. */
uint32_t aorta_tracer_launches(struct aorta_tracer *tracer);
static inline bool aorta_launched_after(uint32_t launch, uint32_t number) {
    return (int32_t)(launch - number) > 0; /* numbers begin anew after the largest */
}
/* Nodes that this thread captures from now on, and the nodes of graphs made of them, have this label; 0: none. */
void aorta_tracer_label(struct aorta_tracer *tracer, uint64_t label);

/* Identifies the records of an iteration and of its ranges. */
struct aorta_launches {
    uint32_t after, until; /* launches numbered after + 1 to until */
    uint64_t first_label;  /* label of range 0's graph nodes; the labels of later ranges follow */
    struct aorta_range_launches {
        uint32_t after, until; /* launched outside of graphs */
    } * ranges;                /* owned; NULL: the iteration was not traced */
};

/* Moves the records whose middle is in [from_ns, to_ns) out of the tracer, by start; drops older ones. The caller frees
 * *records. */
AORTA_MUST_USE aorta_status aorta_tracer_records(struct aorta_tracer *tracer, int64_t from_ns, int64_t to_ns,
                                                 struct aorta_activity_record **records, size_t *count);
/* Takes the records of one iteration by its launches, with the kernel view (kernels.c) made of them, not yet joined
 * with ranges. The caller frees both. */
AORTA_MUST_USE aorta_status aorta_tracer_take(struct aorta_tracer *tracer, const struct aorta_launches *launches,
                                              struct aorta_profile *profile, struct aorta_activity_record **records,
                                              size_t *count);

struct aorta_tracer_facts aorta_tracer_get_facts(struct aorta_tracer *tracer);

/* ---- backends ---- */

/* A driver call without effect. Its number shows its position in the order of launches. */
struct aorta_tracer_call {
    void (*call)(void *user);
    void *user;
};

struct aorta_tracer_backend {
    int64_t disorder_ns;   /* records may arrive out of order by this time; 0: in the order of launches */
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

AORTA_MUST_USE aorta_status aorta_tracer_open_backend(const struct aorta_tracer_backend *backend,
                                                      const struct aorta_tracer_call *call,
                                                      struct aorta_tracer **tracer);

/* The kernel view of an iteration: a profile whose ranges are the kernels and copies that ran. aorta_overlap_compute
 * works on it unchanged. Rules: docs/metrics.md. */

/* Ranges of *profile: tag is the kernel's name, kind follows from the name, role is the usual role of that kind until
 * aorta_kernels_join sets the range's, stream numbers the library's streams in order of first use. Timestamps that the
 * recorder queued are removed and counted (profile->kernels). Records need no order. */
AORTA_MUST_USE aorta_status aorta_kernels_profile(const struct aorta_activity_record *records, size_t count,
                                                  struct aorta_profile *profile);

void aorta_number_collectives(struct aorta_range *ranges, size_t count);

/* Joins the kernels of an iteration with its ranges: a kernel belongs to the range in which it was launched, or its
 * node captured. Kernels get the range's facts: role, function, layer, group, bytes, flops, launch time and tag
 * (info.within). The kernel view also gets the host's ranges and the markers. Ranges get their times, from their first
 * kernel's start to their last kernel's end; ranges without a kernel are dropped. `records`: the records of *kernels.
 * done_ns: the time that the iteration's last timestamp wrote, by which the records' clock is shifted to the device's
 * (profile->kernels.clock_offset_ns); INT64_MIN: no shift. */
AORTA_MUST_USE aorta_status aorta_kernels_join(struct aorta_profile *kernels,
                                               const struct aorta_activity_record *records,
                                               struct aorta_profile *ranges, const struct aorta_launches *launches,
                                               int64_t done_ns);

#endif
