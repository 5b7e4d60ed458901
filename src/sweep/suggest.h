/* Knobs for the causes that a first run's verdict names. */
#ifndef AORTA_SWEEP_SUGGEST_H
#define AORTA_SWEEP_SUGGEST_H

#include "sweep/sweep.h"

/* Adds the knobs (knobs.def) of the causes in summary.json or analysis.json of `directory`, those that cost most first,
 * at most `most`; knobs that the space has already stay as they are. `program`: ours, sparse or any, as in knobs.def.
 * `text` receives a line for each with its cause. AORTA_USAGE: no such file, or no knob for its causes. */
AORTA_MUST_USE aorta_status aorta_sweep_suggest(const char *directory, const char *program, int most,
                                                struct aorta_arena *arena, struct aorta_sweep_space *space,
                                                struct aorta_text *text);

#endif
