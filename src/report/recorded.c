#include "report/recorded.h"
#include "report/comparison.h"
#include "report/verdict_view.h"
#include "trace/ranks.h"
#include "verdict/advice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static aorta_status check_reading(const struct aorta_trace_options *reading, const char *directory) {
    const char *option = reading->recover      ? "--recover"
                         : reading->patterns   ? "--comm-pattern"
                         : reading->step_range ? "--step-range"
                                               : NULL;
    if (!option) return NULL;
    return AORTA_ERROR(AORTA_USAGE,
                       "%s: %s is the directory of a run, whose steps and collectives are known; leave the option out, "
                       "or name the trace files in it",
                       option, directory);
}

static aorta_status open_run(const char *directory, const struct aorta_trace_analysis_options *options,
                             const struct aorta_log *log, struct aorta_recorded *recorded) {
    struct aorta_run run;
    AORTA_TRY(aorta_run_read(directory, "run", 0, log, &run));
    aorta_status status = aorta_labelled_make(&run, options, &recorded->run);
    if (status) {
        aorta_run_free(&run);
        return status;
    }
    recorded->is_run = recorded->run.has_verdict;
    recorded->analysis = &recorded->run.analysis;
    if (!recorded->is_run) aorta_labelled_free(&recorded->run);
    return NULL;
}

/* "cycle 1 of 2 (trace_step2.json, steps 1 to 2): step to step 42.03 ms; limited by …" */
static aorta_status say_cycle(const struct aorta_trace_list *cycle, const struct aorta_trace_analysis_options *options,
                              const char *number, const struct aorta_log *log) {
    const struct aorta_trace *first = cycle->items[0];
    const char *slash = strrchr(first->path, '/');
    struct aorta_trace_analysis analysis = {0};
    struct aorta_verdict verdict = {0};
    struct aorta_text headline = {0};
    aorta_status status = aorta_trace_analyze(cycle, options, &analysis);
    if (!status) status = aorta_verdict_make(&analysis, &verdict);
    if (!status) aorta_verdict_headline(&verdict, &headline);
    if (!status) status = aorta_text_check(&headline);
    if (!status)
        aorta_log(log, AORTA_LOG_INFO, "%s (%s, steps %lld to %lld): step to step %.2f ms; %s", number,
                  slash ? slash + 1 : first->path, (long long)first->steps[0].number,
                  (long long)first->steps[first->step_count - 1].number, verdict.step_ms_mean, headline.data);
    aorta_text_free(&headline);
    aorta_verdict_free(&verdict);
    aorta_trace_analysis_free(&analysis);
    return status;
}

/* A line for each cycle of a profile schedule but the last, whose verdict follows. */
static aorta_status say_cycles(const struct aorta_trace_list *list, const struct aorta_trace_analysis_options *options,
                               const struct aorta_log *log) {
    struct aorta_trace_list cycle = {.items = malloc((list->count + 1) * sizeof *cycle.items)};
    if (!cycle.items) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu traces", list->count);
    aorta_status status = NULL;
    size_t most = 0;
    for (size_t i = 0; i < list->count; i++) {
        const size_t later = aorta_trace_later_cycles(list, i);
        if (later > most) most = later;
    }
    for (size_t behind = most; !status && behind > 0; behind--) {
        char number[48];
        snprintf(number, sizeof number, "cycle %zu of %zu", most + 1 - behind, most + 1);
        cycle.count = 0;
        for (size_t i = 0; i < list->count; i++)
            if (aorta_trace_later_cycles(list, i) == behind) cycle.items[cycle.count++] = list->items[i];
        if (cycle.count) status = say_cycle(&cycle, options, number, log);
    }
    free(cycle.items);
    return status;
}

static aorta_status open_traces(const char *const *paths, size_t count, const struct aorta_trace_options *reading,
                                const struct aorta_trace_analysis_options *options, const struct aorta_log *log,
                                struct aorta_recorded *recorded) {
    AORTA_TRY(aorta_trace_open_inputs(paths, count, reading, &recorded->traces));
    AORTA_TRY(say_cycles(&recorded->traces, options, log));
    const size_t cycles = aorta_trace_take_last_cycle(&recorded->traces);
    if (cycles > 1)
        aorta_log(log, AORTA_LOG_INFO,
                  "%zu cycles of a profile schedule, each with steps of its own: the last one is analysed; name the "
                  "files of another for that one, and aorta trace compare A B compares two",
                  cycles);
    AORTA_TRY(aorta_trace_analyze(&recorded->traces, options, &recorded->of_traces));
    recorded->analysis = &recorded->of_traces;
    AORTA_TRY(aorta_recorded_machine_read(paths[0], recorded->analysis, &recorded->machine));
    if (count != 1) return NULL;
    return aorta_annotate(aorta_settings_environment(paths[0], &recorded->arena, &recorded->environment), "%s",
                          paths[0]);
}

aorta_status aorta_recorded_open(const char *const *paths, size_t count, const struct aorta_trace_options *reading,
                                 const struct aorta_trace_analysis_options *options, const struct aorta_log *log,
                                 struct aorta_recorded *recorded) {
    static const struct aorta_trace_analysis_options defaults = {0};
    *recorded = (struct aorta_recorded){0};
    const bool is_directory = count == 1 && aorta_run_is_directory(paths[0]);
    if (!is_directory) return open_traces(paths, count, reading, options, log, recorded);
    AORTA_TRY(check_reading(reading, paths[0]));
    AORTA_TRY(open_run(paths[0], options ? options : &defaults, log, recorded));
    if (recorded->is_run) return NULL;
    return aorta_annotate(open_traces(paths, count, reading, options, log, recorded),
                          "%s holds no ranges (recording was off), and of traces", paths[0]);
}

aorta_status aorta_recorded_evaluate(struct aorta_recorded *recorded) {
    if (!recorded->is_run) {
        AORTA_TRY(aorta_verdict_make(&recorded->of_traces, &recorded->own));
        AORTA_TRY(aorta_recorded_machine_report(&recorded->machine, &recorded->own));
        aorta_verdict_environment(&recorded->own, &recorded->environment);
    }
    recorded->verdict = recorded->is_run ? &recorded->run.verdict : &recorded->own;
    return NULL;
}

aorta_status aorta_recorded_differences(const struct aorta_recorded *reference, const struct aorta_recorded *candidate,
                                        struct aorta_differences *differences) {
    if (reference->is_run && candidate->is_run)
        aorta_labelled_differences(&reference->run, &candidate->run, differences);
    else
        aorta_differences_add(differences, reference->is_run ? &reference->run.environment : &reference->environment,
                              candidate->is_run ? &candidate->run.environment : &candidate->environment);
    return aorta_arena_check(&differences->arena, "what differs between two recordings");
}

void aorta_recorded_free(struct aorta_recorded *recorded) {
    aorta_arena_free(&recorded->arena);
    aorta_recorded_machine_free(&recorded->machine);
    aorta_verdict_free(&recorded->own);
    aorta_trace_analysis_free(&recorded->of_traces);
    aorta_trace_list_free(&recorded->traces);
    if (recorded->is_run) aorta_labelled_free(&recorded->run);
    *recorded = (struct aorta_recorded){0};
}
