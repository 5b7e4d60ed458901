/* The pictures of a report, drawn by gnuplot. */
#ifndef AORTA_REPORT_PLOTS_H
#define AORTA_REPORT_PLOTS_H

#include "report/summary.h"

enum { AORTA_PLOT_LIMIT_S = 60 }; /* a picture takes less than one second */

/* Draws the script's picture, a PNG, with a gnuplot that is ended after limit_s, and writes it to `path`: whole or not
 * at all. AORTA_UNSUPPORTED: gnuplot is not installed, and the message names the package. AORTA_IO: gnuplot's own
 * message, or why the file could not be written. */
AORTA_MUST_USE aorta_status aorta_plot_draw(const struct aorta_text *script, const char *path, double limit_s);

/* Writes {label}_timeline.png, overlap_breakdown.png and overlap_ratio.png into `directory`; appends the paths of those
 * drawn, one per line, to `files`. Where two labels come out as the same name of a file the later one is numbered
 * ({label}_2_…). Runs without ranges have no pictures. All are tried: AORTA_IO names those that could not be drawn,
 * AORTA_UNSUPPORTED says that there is no gnuplot. */
AORTA_MUST_USE aorta_status aorta_plots_draw(const struct aorta_labelled *runs, size_t count, const char *directory,
                                             struct aorta_text *files);

#endif
