/* JSON Schemas of what this program writes, made of the rows that write it: the files of docs/schema. */
#ifndef AORTA_REPORT_SCHEMAS_H
#define AORTA_REPORT_SCHEMAS_H

#include "base/text.h"

#include <stdbool.h>

/* "trace_analyze", "summary", "metrics"; NULL ends the list. */
extern const char *const aorta_schema_names[];
/* The schema as JSON (draft 2020-12). False: there is no such name. */
bool aorta_schema_write(const char *name, struct aorta_text *out);

#endif
