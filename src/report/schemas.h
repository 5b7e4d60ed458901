/* JSON Schemas of the program's output, made of the rows that write it: the files of docs/schema. */
#ifndef AORTA_REPORT_SCHEMAS_H
#define AORTA_REPORT_SCHEMAS_H

#include "base/json.h"
#include "base/text.h"
#include "verdict/verdict.h"

struct aorta_schema {
    const char *name, *title;
    void (*put)(struct aorta_json *json); /* members of "properties" */
};

extern const struct aorta_schema aorta_report_schemas[]; /* ends with a NULL name */
/* As JSON (draft 2020-12). */
void aorta_schema_write(const struct aorta_schema *schema, struct aorta_text *out);

void aorta_schema_put(struct aorta_json *json, const char *key, const char *text); /* a key with its schema */

/* docs/metrics-format.md. */
void aorta_formats_page(struct aorta_text *out);

/* ---- what `aorta help CAUSE` prints ---- */

/* Meaning, measurement, gain, fixes by program and when not to apply them; lines of 100 columns. */
void aorta_cause_help(enum aorta_cause cause, struct aorta_text *out);
/* What `aorta help verdict` prints. */
void aorta_verdict_words(struct aorta_text *out);

#endif
