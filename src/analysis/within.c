#include "analysis/within.h"

#include "base/text.h"

#include <stdlib.h>

enum answer { NOT_ASKED, NO, YES };

static bool name_has(const struct aorta_within *within, uint32_t name) {
    uint8_t *answer = &within->names[name];
    if (!*answer)
        *answer = aorta_kernel_patterns_match(within->pattern, aorta_trace_text(within->trace, name)) ? YES : NO;
    return *answer == YES;
}

/* ---- operations ---- */

static bool shape_has(const struct aorta_within *within, const struct aorta_trace_operation *operation,
                      struct aorta_text *text) {
    const uint32_t inputs = operation->inputs;
    if (inputs == AORTA_TRACE_NONE || within->trace->inputs[inputs].dims == AORTA_TRACE_NONE) return false;
    aorta_text_clear(text);
    aorta_text_printf(text, "%s %s", aorta_trace_text(within->trace, operation->name),
                      aorta_trace_text(within->trace, within->trace->inputs[inputs].dims));
    return !text->failed && aorta_kernel_patterns_match(within->pattern, text->data);
}

/* Those around an operation are above it. */
static void ask_operations(struct aorta_within *within) {
    struct aorta_text text = {0};
    for (size_t i = 0; i < within->trace->operation_count; i++) {
        const struct aorta_trace_operation *operation = &within->trace->operations[i];
        within->operations[i] = (operation->parent != AORTA_TRACE_NONE && within->operations[operation->parent]) ||
                                name_has(within, operation->name) || shape_has(within, operation, &text);
    }
    aorta_text_free(&text);
}

/* ---- functions, and ranges of files without operations ---- */

static bool nest_has(const struct aorta_within *within, const struct aorta_nest_range *nest, size_t count,
                     uint32_t thread, int64_t at_ns) {
    uint32_t range = nest ? aorta_nest_find(nest, count, sizeof *nest, thread, at_ns) : AORTA_NEST_NONE;
    for (; range != AORTA_NEST_NONE; range = nest[range].parent)
        if (name_has(within, nest[range].number)) return true;
    return false;
}

/* ---- all of it ---- */

aorta_status aorta_within_check(const char *regex) {
    struct aorta_kernel_patterns *pattern = NULL;
    aorta_status status = regex ? aorta_kernel_patterns_add(&pattern, regex) : NULL;
    aorta_kernel_patterns_free(pattern);
    return status;
}

aorta_status aorta_within_make(const struct aorta_trace *trace, const char *regex, struct aorta_within *within) {
    *within = (struct aorta_within){.trace = trace};
    AORTA_TRY(aorta_kernel_patterns_add(&within->pattern, regex));
    within->names = calloc(aorta_trace_text_count(trace) + 1, sizeof *within->names);
    within->operations = calloc(trace->operation_count + 1, sizeof *within->operations);
    bool made = within->names && within->operations && aorta_forwards_make(trace, &within->forwards);
    if (made && trace->function_count) {
        within->functions = aorta_nest_of(trace->functions, trace->function_count);
        made = within->functions != NULL;
    }
    if (made && !trace->operation_count) {
        within->ranges = aorta_nest_of(trace->annotations, trace->annotation_count);
        made = within->ranges != NULL;
    }
    if (!made) return AORTA_ERROR(AORTA_MEMORY, "no memory for what lies within \"%s\"", regex);
    ask_operations(within);
    return NULL;
}

bool aorta_within_has(const struct aorta_within *within, const struct aorta_trace_work *work) {
    const struct aorta_trace *trace = within->trace;
    uint32_t thread;
    int64_t at_ns;
    if (work->operation != AORTA_TRACE_NONE && within->operations[work->operation]) return true;
    if (!aorta_forward_place(&within->forwards, trace, work, &thread, &at_ns)) return false;
    return nest_has(within, within->functions, trace->function_count, thread, at_ns) ||
           nest_has(within, within->ranges, trace->annotation_count, thread, at_ns);
}

void aorta_within_free(struct aorta_within *within) {
    aorta_kernel_patterns_free(within->pattern);
    aorta_forwards_free(&within->forwards);
    free(within->functions);
    free(within->ranges);
    free(within->names);
    free(within->operations);
    *within = (struct aorta_within){0};
}
