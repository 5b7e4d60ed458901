/* Filling a result. */
#include "hwq/result.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void aorta_hwq_result_free(struct aorta_hwq_result *result) {
    aorta_arena_free(&result->arena);
    *result = (struct aorta_hwq_result){0};
}

const struct aorta_hwq_switches *aorta_hwq_probe_switches(const struct aorta_hwq_probe *probe) {
    return probe->same_priority.samples ? &probe->same_priority : &probe->across_priorities;
}

static aorta_status no_memory(void) {
    return AORTA_ERROR(AORTA_MEMORY, "no host memory for a result");
}

aorta_status aorta_hwq_result_figure(struct aorta_hwq_result *result, const char *name, const char *unit, double value,
                                     const char *reason) {
    struct aorta_arena *arena = &result->arena;
    if (isnan(value) && !reason) return AORTA_ERROR(AORTA_INTERNAL, "figure %s has neither a value nor a reason", name);
    struct aorta_hwq_figure *figures =
        aorta_arena_grow(arena, result->figures, result->figure_count, &result->figure_capacity, sizeof *figures);
    if (!figures) return no_memory();
    result->figures = figures;
    struct aorta_hwq_figure figure = {.name = aorta_arena_strdup(arena, name),
                                      .unit = aorta_arena_strdup(arena, unit),
                                      .group = result->figure_group,
                                      .value = value,
                                      .reason = isnan(value) ? aorta_arena_strdup(arena, reason) : NULL};
    if (!figure.name || !figure.unit || (isnan(value) && !figure.reason)) return no_memory();
    result->figures[result->figure_count++] = figure;
    return NULL;
}

aorta_status aorta_hwq_result_finding(struct aorta_hwq_result *result, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const int length = vsnprintf(NULL, 0, format, args);
    char *sentence = aorta_arena_alloc(&result->arena, (size_t)length + 1);
    if (sentence) vsnprintf(sentence, (size_t)length + 1, format, again);
    va_end(again);
    va_end(args);
    const char **findings = aorta_arena_grow(&result->arena, result->findings, result->finding_count,
                                             &result->finding_capacity, sizeof *findings);
    if (!sentence || !findings) return no_memory();
    result->findings = findings;
    result->findings[result->finding_count++] = sentence;
    return NULL;
}

int64_t aorta_hwq_result_iterations(const struct aorta_hwq_result *result, double ms, int64_t most) {
    const double fit = ms / (result->pace_ms > 0.0 ? result->pace_ms : result->latency_ms.p50);
    if (!(fit < (double)most)) return most;
    return fit > 3.0 ? (int64_t)fit : 3;
}

const struct aorta_hwq_figure *aorta_hwq_result_find(const struct aorta_hwq_result *result, const char *name) {
    for (size_t i = 0; i < result->figure_count; i++)
        if (!strcmp(result->figures[i].name, name)) return &result->figures[i];
    return NULL;
}

static aorta_status keep_fact(struct aorta_hwq_result *result, const char *section, const char *key,
                              const struct aorta_text *json) {
    struct aorta_arena *arena = &result->arena;
    AORTA_TRY(aorta_text_check(json));
    struct aorta_hwq_metadata *facts =
        aorta_arena_grow(arena, result->facts, result->fact_count, &result->fact_capacity, sizeof *facts);
    if (!facts) return no_memory();
    result->facts = facts;
    struct aorta_hwq_metadata fact = {aorta_arena_strdup(arena, section), aorta_arena_strdup(arena, key),
                                      aorta_arena_strdup(arena, json->data)};
    if (!fact.section || !fact.key || !fact.json) return no_memory();
    result->facts[result->fact_count++] = fact;
    return NULL;
}

/* Frees the text. */
static aorta_status add_fact(struct aorta_hwq_result *result, const char *section, const char *key,
                             struct aorta_text *json) {
    aorta_status status = keep_fact(result, section, key, json);
    aorta_text_free(json);
    return status;
}

aorta_status aorta_hwq_metadata_string(struct aorta_hwq_result *result, const char *section, const char *key,
                                       const char *value) {
    struct aorta_text text = {0};
    struct aorta_json json;
    aorta_json_begin(&json, &text, 0);
    aorta_json_string(&json, value);
    return add_fact(result, section, key, &text);
}

aorta_status aorta_hwq_metadata_number(struct aorta_hwq_result *result, const char *section, const char *key,
                                       double value) {
    struct aorta_text text = {0};
    struct aorta_json json;
    aorta_json_begin(&json, &text, 0);
    aorta_json_double(&json, value);
    return add_fact(result, section, key, &text);
}

aorta_status aorta_hwq_metadata_int(struct aorta_hwq_result *result, const char *section, const char *key,
                                    int64_t value) {
    struct aorta_text text = {0};
    aorta_text_printf(&text, "%lld", (long long)value);
    return add_fact(result, section, key, &text);
}

aorta_status aorta_hwq_metadata_bool(struct aorta_hwq_result *result, const char *section, const char *key,
                                     bool value) {
    struct aorta_text text = {0};
    aorta_text_puts(&text, value ? "true" : "false");
    return add_fact(result, section, key, &text);
}
