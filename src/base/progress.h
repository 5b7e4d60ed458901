/* Progress of long work: a bar with rate and ETA on a terminal, one line per interval otherwise. */
#ifndef AORTA_BASE_PROGRESS_H
#define AORTA_BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct aorta_progress {
    FILE *stream; /* borrowed */
    const char *label, *unit;
    int64_t total, done; /* total 0: unknown */
    int64_t started_ns, printed_ns, interval_ns;
    bool terminal;
};

void aorta_progress_begin(struct aorta_progress *progress, FILE *stream, const char *label, const char *unit,
                          int64_t total);
/* `note` (may be NULL) ends the line, e.g. "loss 0.693". Prints only when something is due. */
void aorta_progress_update(struct aorta_progress *progress, int64_t done, const char *note);
void aorta_progress_end(struct aorta_progress *progress); /* leaves the last state on the screen, ends the line */

#endif
