/* Runs gnuplot as a child process. */
#ifndef AORTA_REPORT_GNUPLOT_H
#define AORTA_REPORT_GNUPLOT_H

#include "base/text.h"

enum { AORTA_GNUPLOT_LIMIT_S = 60 }; /* for who has no reason for another; a picture takes less than one */

struct aorta_picture {
    struct aorta_text script; /* draws one PNG */
    const char *path;
};

/* Draws the pictures, PNGs, with one gnuplot for all, and writes each to its path: whole or not at all. One that fails
 * does not end the others. `drawn` (may be NULL) gets the paths of those drawn, one per line. AORTA_UNSUPPORTED when
 * gnuplot is not installed (the message names the package); AORTA_IO names the pictures that are missing, with
 * gnuplot's own words, which took longer than limit_s, say. */
AORTA_MUST_USE aorta_status aorta_gnuplot_draw(const struct aorta_picture *pictures, size_t count, double limit_s,
                                               struct aorta_text *drawn);

/* Appends `string` as a gnuplot literal that nothing in it can end or expand. */
void aorta_gnuplot_quote(struct aorta_text *script, const char *string);

#endif
