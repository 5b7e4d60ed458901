/* Verdicts of a program that runs on, window after window: one JSON line for each, gauges for Prometheus, and what has
 * changed since it was last said. */
#ifndef AORTA_REPORT_LIVE_H
#define AORTA_REPORT_LIVE_H

#include "analysis/analysis.h"
#include "base/text.h"
#include "report/tensorboard.h"
#include "verdict/verdict.h"

/* What has been said so far. */
struct aorta_live;
AORTA_MUST_USE aorta_status aorta_live_create(struct aorta_live **live);
void aorta_live_free(struct aorta_live *live);

/* One window. Borrowed. */
struct aorta_live_window {
    int64_t start_ms, length_ms;         /* CLOCK_REALTIME */
    const struct aorta_verdict *verdict; /* NULL: nothing was recorded, or it could not be evaluated … */
    const char *reason;                  /* … for this reason */
    uint64_t lost;                       /* records */
    double evaluated_s;                  /* what reading and analysing took */
    const char *gone;                    /* lines on processes that write no more; "" */
};

enum { AORTA_LIVE_SCALARS = 64 };

/* What is said of it. Zero-initialise; ends with aorta_live_said_free. */
struct aorta_live_said {
    struct aorta_text headline; /* one line, with the time and without an end */
    struct aorta_text change;   /* "since 14:02:30 rank 5 is late by 3.1 ms a step (before: 0.2)"; empty: as before */
    struct aorta_text json;     /* one line, with its end */
    struct aorta_text gauges;   /* Prometheus's text format */
    struct aorta_board_scalar scalars[AORTA_LIVE_SCALARS]; /* TensorBoard's */
    size_t scalar_count;
    int64_t number; /* of the window, from 1 on */
    bool first;     /* it is the first verdict */
};
void aorta_live_said_free(struct aorta_live_said *said);

/* A change is said where a cause's part of the step, or the step itself, differs by 3% of the step and by a quarter of
 * what it was (the step: by 3%) from what was last said of it. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_live_take(struct aorta_live *live, const struct aorta_live_window *window,
                                            struct aorta_live_said *said);

#endif
