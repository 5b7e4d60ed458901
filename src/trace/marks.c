/* Steps from what a program or its engine marks with ranges of its own. */
#include "trace/infer.h"

#include "trace/kernel_names.h"

#include <stdlib.h>
#include <string.h>

/* A kind of ranges: which names, and whether a step begins with the range or after it. */
struct rule {
    enum aorta_step_source source;
    bool after;
    const char *prefixes[4];
};
static const struct rule rules[] = {
    {AORTA_STEPS_BY_OPTIMIZER, true, {"Optimizer.step#"}},
    {AORTA_STEPS_BY_ENGINE, false, {"step["}},    /* SGLang, with ranges of the next kind around them */
    {AORTA_STEPS_BY_ENGINE, false, {"execute_"}}, /* vLLM: execute_model, execute_context_1(…), execute_32_… */
};

static bool begins_like(const char *name, const struct rule *rule) {
    for (size_t i = 0; i < sizeof rule->prefixes / sizeof *rule->prefixes && rule->prefixes[i]; i++)
        if (!strncmp(name, rule->prefixes[i], strlen(rule->prefixes[i]))) return true;
    return false;
}

/* ---- one trace ---- */

/* Which texts are names of marks; the caller frees it. NULL: no memory. */
static bool *find_names(const struct aorta_trace *trace, const struct rule *rule,
                        const struct aorta_kernel_patterns *pattern) {
    bool *marks = calloc(aorta_trace_text_count(trace) + 1, sizeof *marks);
    bool *seen = calloc(aorta_trace_text_count(trace) + 1, sizeof *seen);
    for (size_t i = 0; marks && seen && i < trace->annotation_count; i++) {
        uint32_t name = trace->annotations[i].name;
        if (seen[name]) continue;
        const char *text = aorta_trace_text(trace, name);
        seen[name] = true;
        marks[name] = pattern ? aorta_kernel_patterns_match(pattern, text) : begins_like(text, rule);
    }
    if (!seen) {
        free(marks);
        marks = NULL;
    }
    free(seen);
    return marks;
}

/* Of several optimizers the one that runs least often, and of these the last of a step. */
static void keep_one_name(const struct aorta_trace *trace, bool *marks) {
    size_t fewest = SIZE_MAX;
    uint32_t best = AORTA_TRACE_NONE;
    for (size_t i = 0; i < trace->annotation_count; i++) { /* in the order of their first ranges */
        uint32_t name = trace->annotations[i].name;
        size_t count = 0;
        if (!marks[name]) continue;
        for (size_t j = 0; j < trace->annotation_count; j++) count += trace->annotations[j].name == name;
        marks[name] = false;
        if (count > fewest) continue;
        fewest = count;
        best = name;
    }
    if (best != AORTA_TRACE_NONE) marks[best] = true;
}

/* Ranges within a mark mark nothing. A step lasts until the next one begins; the last one as long as its range, and
 * where steps begin after ranges there is none. */
static size_t fill_steps(const struct aorta_trace *trace, const bool *marks, bool after,
                         struct aorta_trace_step *steps) {
    size_t count = 0;
    int64_t until_ns = INT64_MIN;
    for (size_t i = 0; i < trace->annotation_count; i++) {
        const struct aorta_trace_annotation *range = &trace->annotations[i];
        if (!marks[range->name] || range->start_ns < until_ns) continue;
        int64_t begin_ns = after ? range->end_ns : range->start_ns;
        until_ns = range->end_ns;
        if (count) steps[count - 1].end_ns = begin_ns;
        steps[count] = (struct aorta_trace_step){(int64_t)count, begin_ns, range->end_ns, INT64_MIN, INT64_MIN};
        count++;
    }
    return after && count ? count - 1 : count;
}

static aorta_status find_marked(const struct aorta_trace *trace, const struct rule *rule,
                                const struct aorta_kernel_patterns *pattern, struct aorta_found_steps *found) {
    bool *marks = find_names(trace, rule, pattern);
    found->steps = malloc((trace->annotation_count + 1) * sizeof *found->steps);
    if (!marks || !found->steps) {
        free(marks);
        return AORTA_ERROR(AORTA_MEMORY, "no memory to look for steps in %zu ranges", trace->annotation_count);
    }
    if (rule->source == AORTA_STEPS_BY_OPTIMIZER) keep_one_name(trace, marks);
    found->count = fill_steps(trace, marks, rule->after, found->steps);
    free(marks);
    return NULL;
}

/* ---- all traces ---- */

/* By one rule; *done: all traces with device work have steps now. */
static aorta_status apply(struct aorta_trace_list *list, const struct rule *rule,
                          const struct aorta_kernel_patterns *pattern, bool *done) {
    struct aorta_found_steps *found = calloc(list->count + 1, sizeof *found);
    aorta_status status = NULL;
    size_t with_work = 0, with_steps = 0;
    if (!found) return AORTA_ERROR(AORTA_MEMORY, "no memory to look for steps in %zu traces", list->count);
    for (size_t i = 0; !status && i < list->count; i++) {
        if (!list->items[i]->work_count) continue;
        status = find_marked(list->items[i], rule, pattern, &found[i]);
        with_work++;
        with_steps += found[i].count > 0;
    }
    *done = !status && with_steps && with_steps == with_work;
    if (*done) aorta_trace_take_steps(list, found, rule->source);
    for (size_t i = 0; i < list->count; i++) free(found[i].steps);
    free(found);
    return status;
}

static aorta_status compile_range(const char *step_range, struct aorta_kernel_patterns **pattern) {
    return aorta_annotate(aorta_kernel_patterns_add(pattern, step_range), "--step-range");
}

aorta_status aorta_trace_check_step_range(const char *step_range) {
    struct aorta_kernel_patterns *pattern = NULL;
    aorta_status status = step_range ? compile_range(step_range, &pattern) : NULL;
    aorta_kernel_patterns_free(pattern);
    return status;
}

aorta_status aorta_trace_mark_steps(struct aorta_trace_list *list, const char *step_range) {
    bool done = false;
    if (step_range) {
        const struct rule rule = {.source = AORTA_STEPS_BY_RANGE};
        struct aorta_kernel_patterns *pattern = NULL;
        AORTA_TRY(compile_range(step_range, &pattern));
        aorta_status status = apply(list, &rule, pattern, &done);
        aorta_kernel_patterns_free(pattern);
        if (status || done) return status;
        return AORTA_ERROR(AORTA_USAGE, "--step-range %s: not every trace has a range with such a name", step_range);
    }
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i]->step_count) return NULL; /* marked steps count */
    for (size_t i = 0; !done && i < sizeof rules / sizeof *rules; i++) AORTA_TRY(apply(list, &rules[i], NULL, &done));
    return NULL;
}
