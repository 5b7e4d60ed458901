/* libaorta.so: recordings and their verdict (include/aorta/aorta.h). */
#include "aorta/aorta.h"

#include "library/failure.h"
#include "report/phrases.h"
#include "report/summary.h"
#include "report/trace_report.h"
#include "report/trace_tables.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct libaorta_analysis {
    struct aorta_recorded recorded;
    struct aorta_text text, markdown, json, csv;
    struct aorta_arena causes;
    const char **evidence, **advice; /* of each cause; in the arena */
};

const char *libaorta_version(void) {
    return AORTA_VERSION;
}

enum libaorta_result aorta_library_failure(aorta_status status, char *message, size_t size) {
    static const enum libaorta_result results[AORTA_CODE_COUNT] = {
        [AORTA_USAGE] = LIBAORTA_INVALID, [AORTA_CONFIG] = LIBAORTA_INVALID,
        [AORTA_IO] = LIBAORTA_IO,         [AORTA_FORMAT] = LIBAORTA_FORMAT,
        [AORTA_MEMORY] = LIBAORTA_MEMORY, [AORTA_UNSUPPORTED] = LIBAORTA_UNSUPPORTED}; /* else it failed */
    if (!status) return LIBAORTA_OK;
    if (message && size) snprintf(message, size, "%s", aorta_status_message(status));
    const enum libaorta_result result = results[aorta_status_code(status)];
    aorta_status_free(status);
    return result ? result : LIBAORTA_FAILED;
}

static aorta_status open_all(const char *const *paths, size_t count, const struct libaorta_options *options,
                             struct aorta_recorded *recorded) {
    const struct aorta_log log = {.level = AORTA_LOG_ERROR, .rank = -1};
    const struct aorta_trace_options reading = {.recover = options->recover, .step_range = options->step_range};
    const struct aorta_trace_analysis_options asked = {.whole = options->whole};
    if (!paths || !count) return AORTA_ERROR(AORTA_USAGE, "no trace is named");
    for (size_t i = 0; i < count; i++)
        if (!paths[i]) return AORTA_ERROR(AORTA_USAGE, "path %zu of %zu is NULL", i + 1, count);
    AORTA_TRY(aorta_recorded_open(paths, count, &reading, &asked, &log, recorded));
    return aorta_recorded_evaluate(recorded);
}

/* Evidence and advice of each cause as text. */
static aorta_status write_causes(struct libaorta_analysis *analysis) {
    const struct aorta_verdict *verdict = &analysis->recorded.verdict;
    const size_t bytes = verdict->finding_count * sizeof(char *);
    analysis->advice = aorta_arena_alloc(&analysis->causes, bytes);
    analysis->evidence = aorta_arena_alloc(&analysis->causes, bytes);
    for (size_t i = 0; analysis->evidence && i < verdict->finding_count; i++) {
        struct aorta_text evidence = {0}, advice = {0};
        aorta_finding_evidence(verdict, &verdict->findings[i], &evidence);
        aorta_finding_advice(&verdict->findings[i], &advice);
        analysis->evidence[i] = aorta_text_move(&evidence, &analysis->causes);
        analysis->advice[i] = aorta_text_move(&advice, &analysis->causes);
    }
    return aorta_arena_check(&analysis->causes, "the causes");
}

enum libaorta_result libaorta_open(const char *const *paths, size_t count, const struct libaorta_options *options,
                                   struct libaorta_analysis **analysis, char *message, size_t size) {
    static const struct libaorta_options defaults = {0};
    if (!analysis) return aorta_library_failure(aorta_library_null("analysis"), message, size);
    struct libaorta_analysis *made = calloc(1, sizeof *made);
    *analysis = NULL;
    aorta_status status = made ? open_all(paths, count, options ? options : &defaults, &made->recorded)
                               : AORTA_ERROR(AORTA_MEMORY, "no memory for an analysis");
    if (!status) status = write_causes(made);
    if (status)
        libaorta_close(made);
    else
        *analysis = made;
    return aorta_library_failure(status, message, size);
}

aorta_status aorta_library_null(const char *argument) {
    return AORTA_ERROR(AORTA_USAGE, "the argument `%s` is NULL", argument);
}

void libaorta_close(struct libaorta_analysis *analysis) {
    if (!analysis) return;
    aorta_recorded_free(&analysis->recorded);
    aorta_text_free(&analysis->text);
    aorta_text_free(&analysis->markdown);
    aorta_text_free(&analysis->json);
    aorta_text_free(&analysis->csv);
    aorta_arena_free(&analysis->causes);
    free(analysis);
}

/* ---- the verdict ---- */

static const char *made(struct aorta_text *text) {
    aorta_status status = aorta_text_check(text);
    const bool failed = status != NULL;
    aorta_status_free(status);
    return failed ? NULL : text->data;
}

const char *libaorta_verdict_text(struct libaorta_analysis *analysis) {
    if (!analysis) return NULL;
    aorta_text_clear(&analysis->text);
    aorta_verdict_text(&analysis->recorded.verdict, NULL, &analysis->text);
    return made(&analysis->text);
}

const char *libaorta_verdict_markdown(struct libaorta_analysis *analysis) {
    if (!analysis) return NULL;
    aorta_text_clear(&analysis->markdown);
    aorta_verdict_markdown(&analysis->recorded.verdict, &analysis->markdown);
    return made(&analysis->markdown);
}

const char *libaorta_json(struct libaorta_analysis *analysis) {
    if (!analysis) return NULL;
    const struct aorta_trace_report report = {.analysis = &analysis->recorded.analysis,
                                              .verdict = &analysis->recorded.verdict,
                                              .machine = &analysis->recorded.machine};
    aorta_text_clear(&analysis->json);
    aorta_trace_report_json(&report, 0, &analysis->json);
    return made(&analysis->json);
}

void libaorta_step(const struct libaorta_analysis *analysis, struct libaorta_step *step) {
    if (!step) return;
    if (!analysis) {
        *step = (struct libaorta_step){.step_ms = NAN,
                                       .step_p50_ms = NAN,
                                       .compute_ms = NAN,
                                       .comm_ms = NAN,
                                       .exposed_comm_ms = NAN,
                                       .idle_ms = NAN,
                                       .overlap_ratio = NAN};
        return;
    }
    const struct aorta_verdict *verdict = &analysis->recorded.verdict;
    *step = (struct libaorta_step){.ranks = verdict->rank_count,
                                   .steps = verdict->whole ? 0 : verdict->iterations,
                                   .step_ms = verdict->step_ms_mean,
                                   .step_p50_ms = verdict->step_ms_p50,
                                   .compute_ms = verdict->compute_ms,
                                   .comm_ms = verdict->comm_ms,
                                   .exposed_comm_ms = verdict->exposed_ms,
                                   .idle_ms = verdict->idle_ms,
                                   .overlap_ratio = verdict->overlap_ratio};
}

size_t libaorta_cause_count(const struct libaorta_analysis *analysis) {
    return analysis ? analysis->recorded.verdict.finding_count : 0;
}

enum libaorta_result libaorta_cause(const struct libaorta_analysis *analysis, size_t index,
                                    struct libaorta_cause *cause) {
    if (!cause || index >= libaorta_cause_count(analysis)) return LIBAORTA_INVALID;
    const struct aorta_verdict *verdict = &analysis->recorded.verdict;
    const struct aorta_finding *finding = &verdict->findings[index];
    const bool kind = aorta_cause_has_kind(finding->cause);
    *cause = (struct libaorta_cause){.cause = aorta_cause_name(finding->cause),
                                     .collective = kind ? aorta_collective_name(finding->collective) : NULL,
                                     .gain_ms = verdict->replay.known ? finding->gain_ms : NAN,
                                     .cost_ms = finding->cost_ms,
                                     .share = finding->share,
                                     .rank = finding->rank,
                                     .evidence = analysis->evidence[index],
                                     .advice = analysis->advice[index]};
    return LIBAORTA_OK;
}

/* ---- tables ---- */

static const struct aorta_result_table *const *const lists[] = {aorta_rank_tables, aorta_rank_tables_after,
                                                                aorta_world_tables};
enum { WORLD = 2 };

static const struct aorta_result_table *table_at(size_t index, size_t *list) {
    for (*list = 0; *list < sizeof lists / sizeof *lists; (*list)++)
        for (size_t i = 0; lists[*list][i]; i++)
            if (!index--) return lists[*list][i];
    return NULL;
}

const char *libaorta_table_name(size_t index) {
    size_t list;
    const struct aorta_result_table *table = table_at(index, &list);
    return table ? table->key : NULL;
}

const char *libaorta_table_csv(struct libaorta_analysis *analysis, const char *name) {
    size_t list, index = 0;
    const struct aorta_result_table *table;
    if (!analysis || !name) return NULL;
    while ((table = table_at(index++, &list)) && strcmp(table->key, name) != 0) continue;
    if (!table) return NULL;
    aorta_text_clear(&analysis->csv);
    if (list == WORLD) {
        const struct aorta_trace_of of = {.analysis = &analysis->recorded.analysis};
        aorta_table_csv_header(table, NULL, &analysis->csv);
        aorta_table_csv_lines(table, &of, NULL, &analysis->csv);
    } else {
        const struct aorta_trace_report report = {.analysis = &analysis->recorded.analysis};
        aorta_rank_table_csv(&report, table, AORTA_TABLE_OF_RANK, &analysis->csv);
    }
    return made(&analysis->csv);
}
