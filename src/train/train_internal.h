/* Shared by the files of the training loop: train.c (the tracer's schedule, a step onto the device, set-up, the loop),
 * train_output.c (the directory, the lines of metrics, readings, trace files). */
#ifndef AORTA_TRAIN_TRAIN_INTERNAL_H
#define AORTA_TRAIN_TRAIN_INTERNAL_H

#include "base/progress.h"
#include "base/signals.h"
#include "job/beacon.h"
#include "measure/clocks.h"
#include "measure/metrics.h"
#include "train/context.h"
#include "train/data.h"
#include "train/step.h"
#include "train/train.h"
#include "train/weights.h"

#include <stdatomic.h>

/* ---- readings of the device ---- */

struct aorta_readings {
    struct aorta_sampler *sampler;       /* NULL: nothing is asked for, or nothing serves it */
    struct aorta_device_reading no_rocm; /* rocm_smi_output where ROCm SMI does not serve: null, and why */
    bool device, rocm;                   /* whether these keys get readings */
    bool clocks;                         /* the device is a GPU */
    int64_t first_step, last_step;       /* steps whose clocks are always read */
    int64_t since_ns;                    /* when clocks were asked for first; 0: not yet */
    int64_t asked_ns, reported_ns;       /* last request; time of the last reported reading */
};

/* Warns on rank 0 when ROCm SMI is asked for and does not serve. */
AORTA_MUST_USE aorta_status aorta_readings_open(const struct aorta_train_run *run,
                                                const struct aorta_train_context *context,
                                                struct aorta_readings *readings);
void aorta_readings_close(struct aorta_readings *readings);
/* Before the first step: how many there will be. */
void aorta_readings_expect(struct aorta_readings *readings, int64_t total_steps);
/* Called when a step begins; may request a new reading. */
void aorta_readings_step(struct aorta_readings *readings, int64_t step);
/* `last`: this is the last line, so the call may wait for a reading in progress. */
void aorta_readings_report(struct aorta_readings *readings, bool last, struct aorta_step_readings *step);

/* ---- peaks ---- */

/* The best of a few short products in the type in use, and of a few copies, by our own operations on the compute
 * stream: some 50 ms (peaks->cost_ms), all ranks at once, as in the steps. Rates of other types stay NaN; all do on
 * GPUs. */
AORTA_MUST_USE aorta_status aorta_train_measure_peaks(const struct aorta_train_context *context,
                                                      struct aorta_measured_peaks *peaks);

/* ---- the loop ---- */

enum { TRAINER_SLOTS = AORTA_INPUT_SLOTS }; /* steps in flight */

/* One step in flight. */
struct trainer_flight {
    const void *input; /* on the device; borrowed */
    struct aorta_event *done;
    int64_t *done_ns;                 /* pinned: when, on the device's clock */
    struct aorta_step_result *result; /* pinned */
    float *stop;                      /* pinned: this rank was asked to stop */
    bool recorded;                    /* the step's ranges are */
    struct aorta_graph *graphs[2];    /* compile.enabled: the captured step, [recorded] */
    int64_t begun_ns;                 /* host time */
    double data_wait_ms;
};

/* How the thread that waits for signals reacts to the first signal. */
enum trainer_phase {
    TRAINER_OPENS, /* the process ends: nothing is lost, and it may wait for other ranks */
    TRAINER_RUNS,  /* the loop checks for signals */
    TRAINER_ENDS   /* the last step is queued; signals are no longer checked */
};

struct trainer {
    const struct aorta_train_run *run;
    struct aorta_train_context context;
    struct aorta_strategy *strategy;
    struct aorta_step *step;
    struct aorta_dataset *dataset;
    struct aorta_input *input;
    struct aorta_beacon *beacon;
    struct aorta_metrics_writer *metrics;
    struct aorta_readings readings;
    struct aorta_machine_watch *machine; /* of the first rank of a host; else NULL */
    struct aorta_tracer *tracer;         /* where kernels are recorded in some step; else NULL */
    struct aorta_metrics_lines *lines;   /* they write the metrics, and show steps to the traces */
    struct aorta_step_traces *traces;    /* profiling.enabled; else NULL */
    struct aorta_progress progress;
    struct trainer_flight flights[TRAINER_SLOTS];
    struct aorta_event *done[TRAINER_SLOTS]; /* theirs */
    struct aorta_stream *report;             /* writes a step's timestamp during the next step; NULL: compute's */
    struct aorta_event *reached;             /* the end of the step, for `report` */
    int64_t total_steps, per_epoch;
    int64_t queued;       /* steps that have been queued whole */
    int64_t collected;    /* steps whose line has been written */
    int64_t last_done_ns; /* device time at which the step collected last was done */
    bool by_records;      /* the tracer runs in every step */
    bool watching;        /* it runs now */
    bool stopping;        /* the ranks agreed to end */
    bool ending;          /* no further step is queued */
    bool capture_failed;
    struct aorta_signals *signals;
    int signal;
    atomic_int phase;                  /* enum trainer_phase: the meaning of a signal */
    struct aorta_measured_peaks peaks; /* of the CPU device */
    struct aorta_train_outcome *outcome;
};

static inline const struct aorta_train_options *trainer_options(const struct trainer *t) {
    return t->run->options;
}

static inline struct trainer_flight *trainer_flight(struct trainer *t, int64_t step) {
    return &t->flights[step % TRAINER_SLOTS];
}

/* ---- train_output.c ---- */

aorta_status trainer_open_output(struct trainer *t);
/* When all ranks have closed their files, rank 0 may read them. */
aorta_status trainer_close_output(struct trainer *t);
/* Warns once if the lines were removed during the run and are written again elsewhere. */
aorta_status trainer_notice_removal(struct trainer *t);
aorta_status trainer_write_line(struct trainer *t, int64_t step, double step_ms);
void trainer_print_step(struct trainer *t, int64_t step, double step_ms);

#endif
