/* What a trace holds, as text: equal texts mean equal traces. */
#ifndef AORTA_TESTS_TRACE_DUMP_H
#define AORTA_TESTS_TRACE_DUMP_H

#include "base/text.h"
#include "trace/builder.h"

void dump_trace(const struct aorta_trace *trace, struct aorta_text *out);
/* What only some formats have, and the texts in their order. */
void dump_framework(const struct aorta_trace *trace, struct aorta_text *out);

/* Reads a JSON trace from memory, in pieces (0: whole). */
AORTA_MUST_USE aorta_status read_memory(const char *bytes, size_t length, size_t piece, bool recover,
                                        struct aorta_trace_list *list);
/* The same with options. */
AORTA_MUST_USE aorta_status read_with(const char *bytes, size_t length, size_t piece,
                                      const struct aorta_trace_options *options, struct aorta_trace_list *list);
/* The same for a text that must be readable and hold one trace, which the caller frees. */
struct aorta_trace *read_text(const char *text);

#endif
