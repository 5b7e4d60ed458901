/* The pictures of a report, drawn by gnuplot. */
#ifndef AORTA_REPORT_PLOTS_H
#define AORTA_REPORT_PLOTS_H

#include "report/summary.h"

/* The picture's script is appended to *script. (plot_streams.c) */
void aorta_plot_streams(const struct aorta_labelled *run, struct aorta_text *script);

/* The start of every picture: terminal of this size, style. (plots.c) */
void aorta_plot_begin(struct aorta_text *script, int width, int height);

/* Writes {label}_timeline.png, {label}_streams.png, overlap_breakdown.png and overlap_ratio.png into `directory`;
 * appends the paths of those drawn, one per line, to `files`. Where two labels come out as the same name of a file the
 * later one is numbered ({label}_2_…). Runs without ranges have no pictures. All are tried: AORTA_IO names those that
 * could not be drawn, AORTA_UNSUPPORTED says that there is no gnuplot. */
AORTA_MUST_USE aorta_status aorta_plots_draw(const struct aorta_labelled *runs, size_t count, const char *directory,
                                             struct aorta_text *files);

#endif
