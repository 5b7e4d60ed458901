/* Runs gnuplot as a child process. */
#ifndef AORTA_REPORT_GNUPLOT_H
#define AORTA_REPORT_GNUPLOT_H

#include "base/text.h"

enum { AORTA_GNUPLOT_LIMIT_S = 60 }; /* for who has no reason for another; a picture takes less than one */

/* Draws the script's picture, a PNG, and writes it to `path`: whole or not at all. AORTA_UNSUPPORTED when gnuplot is
 * not installed (the message names the package), AORTA_IO with its own words when it fails, or when it takes longer
 * than limit_s. */
AORTA_MUST_USE aorta_status aorta_gnuplot_draw(const struct aorta_text *script, double limit_s, const char *path);

/* Appends `string` as a gnuplot literal that nothing in it can end or expand. */
void aorta_gnuplot_quote(struct aorta_text *script, const char *string);

#endif
