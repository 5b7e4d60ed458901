/* The common part of rocprofv3's four formats: the records of one process, on one or more devices ("agents"). Each
 * agent with work becomes a trace, with the host calls that concern it.
 *
 * Records may come in any order, before or after the agents, symbols and names they refer to, and are joined at the
 * end. If memory runs out, finish fails. Used by one thread.
 *
 * Source of the formats: what rocprofiler-sdk 1.0 (ROCm 7.0) writes, by its source/lib/output/generateJSON.cpp,
 * generateCSV.cpp, generateRocpd.cpp, and source/share/rocprofiler-sdk-rocpd/ (tables of schema 3.0 to 4.1); and, for
 * JSON, a file that rocprofv3 wrote on eight MI350X. Times are ns of the host's boot clock, which all processes of a
 * host share; correlation ids number the calls of a process from 1, and device work has the id of its call. */
#ifndef AORTA_TRACE_ROCPROF_H
#define AORTA_TRACE_ROCPROF_H

#include "trace/open.h"

struct aorta_rocprof;

/* The path is borrowed. */
AORTA_MUST_USE aorta_status aorta_rocprof_create(enum aorta_trace_format format, const char *path,
                                                 const struct aorta_trace_options *options,
                                                 struct aorta_rocprof **rocprof);

void aorta_rocprof_process(struct aorta_rocprof *rocprof, int64_t process);
void aorta_rocprof_rank(struct aorta_rocprof *rocprof, int32_t rank, int32_t world); /* -1: not known */

struct aorta_rocprof_agent {
    int64_t key;    /* its id in records */
    int64_t device; /* number of the GPU; -1: its place among the GPUs by key */
    bool gpu;
    const char *name;        /* copied; NULL: not known */
    int64_t multiprocessors; /* negative or too large: unknown */
};
/* The first of a key counts. */
void aorta_rocprof_add_agent(struct aorta_rocprof *rocprof, const struct aorta_rocprof_agent *agent);

/* Names of kernels by their id, of operations by their kind and number, and messages of markers by their correlation
 * id. */
enum aorta_rocprof_named {
    AORTA_ROCPROF_KERNELS,
    AORTA_ROCPROF_OPERATIONS,
    AORTA_ROCPROF_MESSAGES,
    AORTA_ROCPROF_NAMED
};
/* `second`: the number of an operation; else 0. Copied; the first of a key counts. */
void aorta_rocprof_add_name(struct aorta_rocprof *rocprof, enum aorta_rocprof_named of, int64_t first, int64_t second,
                            const char *name, size_t length);

enum aorta_rocprof_domain {
    AORTA_ROCPROF_DISPATCH,
    AORTA_ROCPROF_COPY,
    AORTA_ROCPROF_HIP,
    AORTA_ROCPROF_HSA,
    AORTA_ROCPROF_RCCL,
    AORTA_ROCPROF_MARKER,
    AORTA_ROCPROF_DOMAIN_COUNT
};
/* The domain of a kind ("HIP_RUNTIME_API_EXT", "kernel_dispatch"). False if it is not read. */
bool aorta_rocprof_domain_of(const char *kind, size_t length, enum aorta_rocprof_domain *domain);

/* A record. Members that the file lacks keep the values of aorta_rocprof_nothing. */
struct aorta_rocprof_record {
    enum aorta_rocprof_domain domain;
    int64_t start_ns, end_ns;    /* INT64_MIN: missing; the record is counted and dropped */
    int64_t correlation, thread; /* -1 */
    int64_t kind, operation;     /* numbers of the name if `name` is NULL */
    const char *name;            /* copied, `name_length` long; NULL: see kernel, or kind and operation */
    size_t name_length;
    int64_t kernel;               /* dispatches: id of the symbol; -1 */
    int64_t dispatch;             /* dispatches: number in the process; -1 */
    int64_t agent, queue, stream; /* -1; a dispatch without stream gets the queue's number */
    int64_t source, destination;  /* copies: agents; -1 */
    int64_t bytes;                /* copies; -1 */
    int64_t group[3], grid[3];    /* dispatches, in work items; 0: not known */
    int64_t offset;               /* in the file, -1: no such thing */
};
extern const struct aorta_rocprof_record aorta_rocprof_nothing;

/* The names of a record's numbers in each format (rocprof_json.c). NULL if the format lacks it or stores it
 * differently. */
struct aorta_rocprof_field {
    size_t offset;             /* in the record */
    const char *csv, *sql;     /* columns; an agent is a text in CSV */
    const char *parent, *json; /* the member `json` of the object `parent`; "": of the record itself */
    const char *argument;      /* in pftrace files */
};
enum { AORTA_ROCPROF_FIELDS = 20, AORTA_ROCPROF_AGENTS = 3 }; /* those of agents come first */
extern const struct aorta_rocprof_field aorta_rocprof_fields[AORTA_ROCPROF_FIELDS];
static inline void aorta_rocprof_set(struct aorta_rocprof_record *record, int field, int64_t number) {
    memcpy((char *)record + aorta_rocprof_fields[field].offset, &number, sizeof number);
}

void aorta_rocprof_add(struct aorta_rocprof *rocprof, const struct aorta_rocprof_record *record);

/* Counts a warning for the first trace. */
void aorta_rocprof_warn(struct aorta_rocprof *rocprof, enum aorta_trace_reason reason, int64_t offset);

/* Appends a trace for each agent with work, or one trace if no agent has work. If reading failed, only returns its
 * `status`. `bytes`: read from the file. Destroys `rocprof`, also on failure. */
AORTA_MUST_USE aorta_status aorta_rocprof_finish(struct aorta_rocprof *rocprof, aorta_status status, int64_t bytes,
                                                 struct aorta_trace_list *list);

#endif
