/* Verdicts of a running program, one per window: a JSON line, gauges for Prometheus, and changes since the last
 * report. */
#ifndef AORTA_REPORT_LIVE_H
#define AORTA_REPORT_LIVE_H

#include "base/files.h"
#include "base/status.h"
#include "base/text.h"
#include "verdict/verdict.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Writes scalars as TensorBoard reads them: a file of TFRecords (length, its masked crc32c, bytes, their masked crc32c;
 * tensorflow/core/lib/io/record_writer.h), each an Event (tensorflow/core/util/event.proto) with a Summary of simple
 * values. */

struct aorta_board_scalar {
    char tag[96]; /* "aorta/step_ms": the part before the slash is TensorBoard's section */
    double value; /* stored as a float; NaN is left out */
};

struct aorta_tensorboard { /* zero-initialise; aorta_tensorboard_close */
    FILE *file;
    struct aorta_file_path path;
};
/* Makes a new file in the directory, and the directory if it is missing. TensorBoard reads all files of a directory.
 * AORTA_IO, AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_tensorboard_open(const char *directory, struct aorta_tensorboard *board);
/* One event, written at once. AORTA_IO. */
AORTA_MUST_USE aorta_status aorta_tensorboard_write(struct aorta_tensorboard *board, double wall_s, int64_t step,
                                                    const struct aorta_board_scalar *scalars, size_t count);
void aorta_tensorboard_close(const struct aorta_tensorboard *board);

enum { AORTA_LIVE_CAUSES = 64, AORTA_LIVE_SCALARS = 64 };

/* The state that was last reported. Zero-initialise. */
struct aorta_live {
    struct aorta_live_state {
        bool replayed; /* gains are known */
        bool whole;    /* no steps are known */
        size_t ranks;
        double step_ms;
        struct aorta_live_cause { /* the time of a cause per step; a straggler has one entry per rank */
            enum aorta_cause cause;
            enum aorta_collective collective;
            int rank; /* of a straggler; else -1 */
            double gain_ms;
            double cost_ms; /* of a straggler: how long each other rank waits for it */
        } causes[AORTA_LIVE_CAUSES];
        size_t count;
    } reported;
    bool any;
    int64_t windows, changes, less; /* less: windows in a row with fewer ranks or steps than the reported one */
};

/* One window. Borrowed. */
struct aorta_live_window {
    int64_t start_ms, length_ms;         /* CLOCK_REALTIME */
    const struct aorta_verdict *verdict; /* NULL: nothing was recorded, or the window could not be evaluated … */
    const char *reason;                  /* … for this reason */
    uint64_t lost;                       /* records */
    double evaluated_s;                  /* time to read and analyze */
    struct aorta_text gone;              /* list (aorta_text_next): one line per process that has ended */
};

/* The report on a window. Zero-initialise; ends with aorta_live_said_free. */
struct aorta_live_said {
    struct aorta_text headline; /* one line with the time, without a newline */
    struct aorta_text change;   /* "since 14:02:30 rank 5 is late by 3.1 ms a step (before: 0.2)"; empty: as before */
    struct aorta_text json;     /* one line with a newline */
    struct aorta_text gauges;   /* Prometheus's text format */
    struct aorta_board_scalar scalars[AORTA_LIVE_SCALARS]; /* TensorBoard's */
    size_t scalar_count;
    int64_t number; /* of the window, from 1 on */
    bool first;     /* it is the first verdict */
};
void aorta_live_said_free(struct aorta_live_said *said);

/* Reports a change of a cause that is at least 3% of the step and a quarter of the cause's larger value, and a change
 * of the step by at least 3%. Both are compared with the values last reported. AORTA_MEMORY. */
AORTA_MUST_USE aorta_status aorta_live_take(struct aorta_live *live, const struct aorta_live_window *window,
                                            struct aorta_live_said *said);

#endif
