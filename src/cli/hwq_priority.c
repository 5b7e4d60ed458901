/* aorta hwq run-priority: all workloads of a group, one after the other. */
#include "base/directories.h"
#include "base/files.h"
#include "base/sort.h"
#include "cli/hwq.h"
#include "hwq/run.h"
#include "report/page.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static aorta_status find_group(const char *word, int *group) {
    const char *names[AORTA_HWQ_GROUP_COUNT + 1];
    for (*group = 0; *group < AORTA_HWQ_GROUP_COUNT; ++*group) {
        names[*group] = aorta_hwq_group_name((enum aorta_hwq_group) * group);
        if (!strcasecmp(names[*group], word)) return NULL;
    }
    names[AORTA_HWQ_GROUP_COUNT] = "all";
    if (!strcasecmp(word, "all")) return NULL;
    return AORTA_ERROR(AORTA_USAGE,
                       "aorta hwq run-priority: \"%s\" is not a group; the groups are P0, P1, P2, P3 and all", word);
}

static bool is_in_group(const struct aorta_hwq_workload *w, int group) {
    return group == AORTA_HWQ_GROUP_COUNT || (int)w->group == group;
}

static bool has_collectives(int group) {
    for (size_t i = 0; aorta_hwq_workloads[i]; i++)
        if (is_in_group(aorta_hwq_workloads[i], group) && aorta_hwq_workloads[i]->collectives) return true;
    return false;
}

/* What a workload of the group runs on. */
struct counts {
    int64_t items[AORTA_HWQ_MAX_STREAMS]; /* ascending */
    size_t count;
};

/* The counts of --streams that the workload serves; the nearest count if it serves none. */
static struct counts counts_for(const struct hwq_values *values, const struct aorta_hwq_workload *w) {
    static const int64_t usual[] = {1, 2, 4, 8, 16};
    const struct aorta_int_list all = {usual, sizeof usual / sizeof *usual};
    const struct aorta_int_list *list = values->streams.items ? &values->streams : &all;
    struct counts counts = {.count = 0};
    for (size_t i = 0; i < list->count; i++)
        if (aorta_hwq_serves(w, list->items[i])) counts.items[counts.count++] = list->items[i];
    aorta_sort_int64(counts.items, counts.count);
    if (!counts.count) counts.items[counts.count++] = list->items[0] < w->streams.min ? w->streams.min : w->streams.max;
    return counts;
}

/* One count: its result. Several: a sweep. */
static aorta_status write_results(const struct hwq_values *values, const struct aorta_hwq_result *results,
                                  size_t count) {
    const char *name = results->workload_name;
    if (!values->output || !count) return NULL;
    if (values->streams.count != 1)
        return aorta_hwq_sweep_write(results, count, aorta_path_in(values->output, "%s_sweep.json", name).text);
    return aorta_hwq_result_write(results,
                                  aorta_path_in(values->output, "%s_streams%d.json", name, results->stream_count).text);
}

/* If a rank fails before its workload has ended, other ranks may wait for it in a collective, and would take its next
 * collective for that one: all ranks end. Verification comes after the last collective. */
static aorta_status end_if_others_wait(struct hwq_session *session, const struct aorta_hwq_workload *w,
                                       aorta_status status, bool ended) {
    if (status && w->collectives && !ended && session->world) {
        if (session->ranks.world_size > 1)
            status = aorta_annotate(status, "several ranks cannot continue with the next workload");
        if (session->ranks.world_size > 1) hwq_session_close(session, status);
    }
    return status;
}

static void add_row(struct aorta_text *table, const struct aorta_hwq_result *result) {
    const char *limit = aorta_hwq_finding_rows[result->limit.by].key;
    const struct aorta_hwq_switch *found = &result->switch_latency;
    if (!table->length)
        aorta_text_printf(table, "\n%-21s %7s %10s %10s %12s %-10s %9s  %-9s %s\n", "workload", "streams", "p50 ms",
                          "p99 ms", "throughput", "", "switch us", "limit", "verified");
    aorta_text_printf(table, "%-21s %7d %10.4f %10.4f %12.5g %-10s %9.3f  %-9s %s\n", result->workload_name,
                      result->stream_count, result->latency_ms.p50, result->latency_ms.p99, result->throughput,
                      result->throughput_unit, 1e3 * found->overhead_ms, limit ? limit : "-",
                      result->verified ? result->verified : "-");
}

/* One more of the page's. */
static void add_result(struct aorta_text *results, const struct aorta_hwq_result *result) {
    struct aorta_json json;
    aorta_text_puts(results, results->length ? "," : "{\"results\":[");
    aorta_json_begin(&json, results, 0);
    aorta_hwq_result_json(result, &json);
}

static aorta_status write_page(const struct hwq_values *values, struct aorta_text *results) {
    if (!values->html || !results->length) return NULL;
    aorta_text_puts(results, "]}");
    return aorta_page_write(
        &(struct aorta_page_results){
            .kind = "hwq", .title = "AORTA: hwq run-priority", .results = results, .tables = aorta_hwq_result_tables},
        values->html);
}

/* The next workloads run, and their results are written, also when nobody reads what is printed. */
static void print_on(struct hwq_session *session, aorta_status status) {
    session->unprinted = aorta_status_join(session->unprinted, status);
}

static aorta_status run_one(struct hwq_session *session, struct hwq_values *values,
                            const struct aorta_hwq_workload *w) {
    const struct counts counts = counts_for(values, w);
    struct aorta_arena arena = {0};
    struct aorta_hwq_result *results = calloc(counts.count, sizeof *results);
    if (!results) return AORTA_ERROR(AORTA_MEMORY, "no host memory for %zu results", counts.count);
    size_t done = 0, good = 0;
    aorta_status status = hwq_values_default(session, w, values, &arena);
    while (!status && done < counts.count) {
        status = hwq_run_one(session, values, w, counts.items[done], &results[done]);
        done++;
        if (!status) good = done;
    }
    for (size_t i = 0; i < good; i++) {
        add_row(session->table, &results[i]);
        add_result(session->results, &results[i]);
        aorta_hwq_csv_add(session->csv, &results[i]);
    }
    /* What ran before a failure counts. */
    if (session->ranks.rank == 0) status = aorta_status_join(status, write_results(values, results, good));
    print_on(session, hwq_print(values, &session->reports));
    const bool ended = !done || results[done - 1].verified;
    for (size_t i = 0; i < done; i++) aorta_hwq_result_free(&results[i]);
    free(results);
    aorta_arena_free(&arena);
    return end_if_others_wait(session, w, status, ended);
}

/* On one count: that of --streams, else the recommended one. */
static aorta_status record_one(struct hwq_session *session, struct hwq_values *values,
                               const struct aorta_hwq_workload *w) {
    const int64_t streams = values->streams.count == 1 ? counts_for(values, w).items[0] : w->streams.recommended;
    struct aorta_arena arena = {0};
    aorta_status status = hwq_values_default(session, w, values, &arena);
    if (!status) status = hwq_record_one(session, values, w, streams, w->name);
    aorta_arena_free(&arena);
    return end_if_others_wait(session, w, status, false);
}

struct tally {
    size_t ran, failed;
    char names[512]; /* of those that failed */
};

static void count(struct tally *tally, const struct hwq_session *session, const struct aorta_hwq_workload *w,
                  aorta_status status) {
    const size_t used = strlen(tally->names);
    if (!status) return;
    snprintf(tally->names + used, sizeof tally->names - used, "%s%s", tally->failed++ ? ", " : "", w->name);
    aorta_log(&session->log, AORTA_LOG_ERROR, "%s; continuing with the next workload", aorta_status_message(status));
    aorta_status_free(status);
}

typedef aorta_status (*action)(struct hwq_session *session, struct hwq_values *values,
                               const struct aorta_hwq_workload *w);

/* The next workloads run after a failure. */
static aorta_status each_of_group(struct hwq_session *session, struct hwq_values *values, int group, action act,
                                  const char *past, struct aorta_text *summary) {
    struct tally tally = {0};
    for (size_t i = 0; aorta_hwq_workloads[i]; i++) {
        const struct aorta_hwq_workload *w = aorta_hwq_workloads[i];
        if (!is_in_group(w, group)) continue;
        tally.ran++;
        count(&tally, session, w, act(session, values, w));
    }
    if (session->ranks.rank == 0)
        aorta_text_printf(summary, "%zu of %s %s well\n", tally.ran - tally.failed,
                          aorta_counted((long long)tally.ran, "workload").text, past);
    if (!tally.failed) return NULL;
    return AORTA_ERROR(AORTA_DEVICE, "%zu of %zu workloads failed: %s", tally.failed, tally.ran, tally.names);
}

/* Recordings come after all measurements: a tracer's library stays in the process. */
static aorta_status run_group(struct hwq_session *session, struct hwq_values *values, int group) {
    struct aorta_text table = {0}, results = {0}, summary = {0}, recorded_summary = {0};
    struct aorta_hwq_csv csv = {0};
    session->table = &table;
    session->csv = &csv;
    session->brief = values->streams.count != 1;
    session->results = &results;
    aorta_status status = each_of_group(session, values, group, run_one, "ran", &summary);
    if (session->ranks.rank == 0) status = aorta_status_join(status, write_page(values, &results));
    status = aorta_status_join(status, aorta_hwq_csv_write(&csv, session->ranks.rank == 0 ? values->csv : NULL));
    if (!values->quiet && session->ranks.rank == 0) print_on(session, hwq_print(values, &table));
    print_on(session, hwq_print(values, &summary));
    aorta_text_free(&table);
    aorta_text_free(&results);
    session->table = session->results = NULL;
    session->csv = NULL;
    if (!values->profile) return aorta_status_join(status, session->unprinted);
    aorta_status recorded = each_of_group(session, values, group, record_one, "were recorded", &recorded_summary);
    print_on(session, hwq_print(values, &recorded_summary));
    status = aorta_status_join(status, aorta_annotate(recorded, "--profile"));
    return aorta_status_join(status, session->unprinted);
}

static aorta_status open_and_run(struct hwq_values *values, int group) {
    struct hwq_session session;
    AORTA_TRY(hwq_session_open(values, &session));
    aorta_status status = run_group(&session, values, group);
    hwq_session_close(&session, NULL); /* failures are printed already, and no rank waits for another */
    return status;
}

static aorta_status check_and_run(struct hwq_values *values, const char *name, int group) {
    struct aorta_directory_lock *lock = NULL;
    struct aorta_ranks ranks;
    AORTA_TRY(hwq_check_streams(values));
    AORTA_TRY(hwq_check(values, "run-priority", name, has_collectives(group)));
    AORTA_TRY(aorta_ranks_detect(&ranks));
    if (values->output && ranks.rank == 0) AORTA_TRY(aorta_directory_lock(values->output, "--output", &lock));
    aorta_status status = open_and_run(values, group);
    aorta_directory_unlock(lock);
    return status;
}

aorta_status aorta_cli_hwq_run_priority(int argc, char **argv) {
    struct hwq_values values;
    struct aorta_cli_line line;
    int group = AORTA_HWQ_GROUP_COUNT;
    const bool help = argc > 1 && aorta_cli_asks_for_help(argv[1]);
    if (!help) {
        if (argc < 2 || argv[1][0] == '-')
            return AORTA_ERROR(AORTA_USAGE, "aorta hwq run-priority: the group comes first: P0, P1, P2, P3 or all");
        AORTA_TRY(find_group(argv[1], &group));
    }
    AORTA_TRY(hwq_values_parse("run-priority P0|P1|P2|P3|all",
                               "Runs the workloads of a group at their default sizes (--set changes them). After a "
                               "failure the next workload runs; failed ones are listed at the end. --streams is a list "
                               "(default: 1,2,4,8,16), of which each workload runs on those that it serves.",
                               NULL, true, help ? argc : argc - 1, help ? argv : argv + 1, &values, &line));
    aorta_status status = line.help ? NULL : check_and_run(&values, argv[1], group);
    aorta_cli_free(&line);
    return status;
}
