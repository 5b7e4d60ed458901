#ifndef AORTA_REPORT_FORMATS_PAGE_H
#define AORTA_REPORT_FORMATS_PAGE_H

#include "base/text.h"

/* docs/metrics-format.md. */
void aorta_formats_page(struct aorta_text *out);

#endif
