/* One run of a workload, from its streams to its result. */
#ifndef AORTA_HWQ_RUN_H
#define AORTA_HWQ_RUN_H

#include "hwq/book.h"
#include "hwq/pass.h"

struct aorta_hwq_run {
    const struct aorta_hwq_workload *workload;
    const void *options; /* the workload's own struct */
    struct aorta_device *device;
    struct aorta_comm *world; /* group of all ranks; NULL where the workload has no collectives */
    struct aorta_ranks ranks;
    const struct aorta_log *log;
    int64_t streams; /* 0: as many as are recommended */
    int64_t iterations, warmup;
    enum aorta_hwq_sync sync;
    bool graph, gate, verify;
    uint64_t seed;
    struct aorta_hwq_book *book;            /* keeps every stamp; NULL: none is kept */
    void (*tell)(void *user, int64_t done); /* progress of the timing pass; may be NULL */
    void *user;
};

/* AORTA_USAGE for streams out of the workload's range, and for settings that do not go together. */
AORTA_MUST_USE aorta_status aorta_hwq_run_check(const struct aorta_hwq_run *run);
/* A verification that fails is no error of this call: result->verified says "failed". Free *result in both cases. */
AORTA_MUST_USE aorta_status aorta_hwq_run_execute(const struct aorta_hwq_run *run, struct aorta_hwq_result *result);
/* Makes the streams and the workload's setup, hands both to `use`, and takes them down again. */
typedef aorta_status (*aorta_hwq_use)(const struct aorta_hwq_run *run, struct aorta_hwq *hwq, void *state, void *user);
AORTA_MUST_USE aorta_status aorta_hwq_run_with(const struct aorta_hwq_run *run, aorta_hwq_use use, void *user);
/* Runs the workload anew and writes a few of its iterations as a trace file below `directory` (docs/queues.md): on GPUs
 * from the kernel tracer, on the CPU device from the stamped pass. Nothing that is measured before is touched. The
 * caller frees *path. AORTA_UNSUPPORTED: the tracer cannot be opened. (record.c) */
AORTA_MUST_USE aorta_status aorta_hwq_run_record(const struct aorta_hwq_run *run, const char *directory, char **path);
const char *aorta_hwq_sync_name(enum aorta_hwq_sync sync); /* "per_iteration" */

/* What the run says of itself on a terminal: what is stressed, the figures, their meaning, what to try next. (words.c)
 */
void aorta_hwq_run_text(const struct aorta_hwq_run *run, const struct aorta_hwq_result *result, struct aorta_text *out);

/* What is known of the device, the settings and the environment, for the metadata. (facts.c) */
AORTA_MUST_USE aorta_status aorta_hwq_facts(const struct aorta_hwq_run *run, const struct aorta_hwq *hwq,
                                            struct aorta_hwq_result *result);

#endif
