/* Runs gnuplot as a child process. */
#ifndef AORTA_REPORT_GNUPLOT_H
#define AORTA_REPORT_GNUPLOT_H

#include "base/text.h"

/* Feeds it the script. AORTA_UNSUPPORTED when it is not installed (the message names the package), AORTA_IO with its
 * own words when it fails. */
AORTA_MUST_USE aorta_status aorta_gnuplot_run(const struct aorta_text *script);

/* Appends `string` as a gnuplot literal that nothing in it can end or expand. */
void aorta_gnuplot_quote(struct aorta_text *script, const char *string);

#endif
