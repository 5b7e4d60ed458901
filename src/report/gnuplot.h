/* Runs gnuplot as a child process. */
#ifndef AORTA_REPORT_GNUPLOT_H
#define AORTA_REPORT_GNUPLOT_H

#include "base/text.h"

/* Draws the script's picture, a PNG, and writes it to `path`: whole or not at all. AORTA_UNSUPPORTED when gnuplot is
 * not installed (the message names the package), AORTA_IO with its own words when it fails. */
AORTA_MUST_USE aorta_status aorta_gnuplot_draw(const struct aorta_text *script, const char *path);

/* Appends `string` as a gnuplot literal that nothing in it can end or expand. */
void aorta_gnuplot_quote(struct aorta_text *script, const char *string);

#endif
