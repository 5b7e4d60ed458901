/* aorta hwq run-priority: all workloads of a group, one after the other. */
#include "base/directories.h"
#include "base/files.h"
#include "base/sort.h"
#include "cli/hwq.h"
#include "hwq/run.h"
#include "report/page.h"

#include <math.h>
#include <string.h>
#include <strings.h>

static aorta_status find_group(const char *word, int *group) {
    for (*group = 0; *group < AORTA_HWQ_GROUP_COUNT; ++*group)
        if (!strcasecmp(aorta_hwq_group_name((enum aorta_hwq_group) * group), word)) return NULL;
    if (!strcasecmp(word, "all")) return NULL;
    return AORTA_ERROR(AORTA_USAGE, "unknown group \"%s\"; the groups are P0, P1, P2, P3 and all", word);
}

static bool is_in_group(const struct aorta_hwq_workload *w, int group) {
    return group == AORTA_HWQ_GROUP_COUNT || (int)w->group == group;
}

static bool has_collectives(int group) {
    for (size_t i = 0; aorta_hwq_workloads[i]; i++)
        if (is_in_group(aorta_hwq_workloads[i], group) && aorta_hwq_workloads[i]->collectives) return true;
    return false;
}

/* The counts of --streams that the workload supports, or the nearest count if it supports none. */
static struct hwq_counts counts_for(const struct hwq_values *values, const struct aorta_hwq_workload *w) {
    static const int64_t usual[] = {1, 2, 4, 8, 16};
    const struct aorta_int_list all = {usual, sizeof usual / sizeof *usual};
    const struct aorta_int_list *list = values->streams.items ? &values->streams : &all;
    struct hwq_counts counts = {.count = 0};
    for (size_t i = 0; i < list->count; i++)
        if (aorta_hwq_serves(w, list->items[i])) counts.items[counts.count++] = list->items[i];
    aorta_sort_int64(counts.items, counts.count);
    if (!counts.count) counts.items[counts.count++] = list->items[0] < w->streams.min ? w->streams.min : w->streams.max;
    return counts;
}

struct tally {
    size_t ran, failed;
    char names[512]; /* of those that failed */
};

struct group_run {
    struct hwq_session session;
    struct hwq_values *values;
    struct tally ran, recorded;
    size_t limits[AORTA_HWQ_FINDINGS], result_count; /* results with each limit */
    struct aorta_text table, results;                /* a row for each result; the results as an array of JSON */
    struct aorta_hwq_csv csv;
    struct aorta_found_list found;
    aorta_status unprinted; /* failure to print; the run continues */
};

/* Writes the result of one stream count, or a sweep of several. */
static aorta_status write_results(const struct hwq_values *values, const struct aorta_hwq_result *results,
                                  size_t count) {
    const bool sweep = values->streams.count != 1;
    const char *name = results->workload_name;
    struct aorta_hwq_scaling scaling = {0};
    if (!values->output || !count) return NULL;
    const struct aorta_file_path path =
        sweep ? aorta_path_in(values->output, "%s_sweep.json", name)
              : aorta_path_in(values->output, "%s_streams%d.json", name, results->stream_count);
    aorta_status status = sweep ? aorta_hwq_scaling_make(results, count, &scaling) : NULL;
    if (!status) status = aorta_hwq_results_write(results, count, sweep ? &scaling : NULL, path.text);
    aorta_hwq_scaling_free(&scaling);
    return status;
}

/* Ends all ranks if this rank failed before its workload ended: other ranks may wait in a collective, which would
 * match the next workload's. Verification is after the last collective. */
static aorta_status end_if_others_wait(struct hwq_session *session, const struct aorta_hwq_workload *w,
                                       aorta_status status, bool ended) {
    if (!status || !w->collectives || ended || !session->world || session->ranks.world_size < 2) return status;
    status = aorta_annotate(status, "several ranks cannot continue with the next workload");
    hwq_session_close(session, status);
    return status;
}

static void add_row(struct aorta_text *table, const struct aorta_hwq_result *result) {
    const char *limit = result->limit.key;
    const struct aorta_hwq_switch *found = &result->switch_latency;
    if (!table->length)
        aorta_text_printf(table, "\n%-21s %7s %9s %9s %10s %-10s %9s %-9s %s\n", "workload", "streams", "p50 ms",
                          "p99 ms", "throughput", "", "switch us", "limit", "verified");
    aorta_text_printf(table, "%-21s %7d %9.4f %9.4f %10s %-10s %9.2f %-9s %s\n", result->workload_name,
                      result->stream_count, result->latency_ms.p50, result->latency_ms.p99,
                      isnan(result->throughput) ? "-" : aorta_brief(result->throughput).text, result->throughput_unit,
                      1e3 * found->overhead_ms, limit ? limit : "-", result->verified ? result->verified : "-");
}

static void add_result(struct group_run *run, const struct aorta_hwq_result *result) {
    struct aorta_json json;
    aorta_text_puts(&run->results, run->results.length ? "," : "[");
    aorta_json_begin(&json, &run->results, 0);
    aorta_hwq_result_json(result, &json);
    add_row(&run->table, result);
    aorta_hwq_csv_add(&run->csv, result);
    run->limits[result->limit.by]++;
    run->result_count++;
}

/* A failure to print does not stop the run: the next workloads run, and their results are written. */
static void print_on(struct group_run *run, struct aorta_text *text) {
    run->unprinted = aorta_status_join(run->unprinted, hwq_print(run->values, text));
}

static aorta_status run_one(struct group_run *run, const struct aorta_hwq_workload *w) {
    struct hwq_session *session = &run->session;
    const struct hwq_counts counts = counts_for(run->values, w);
    struct aorta_arena arena = {0};
    struct aorta_hwq_result *results = aorta_arena_alloc(&arena, counts.count * sizeof *results);
    AORTA_TRY(aorta_arena_check(&arena, "the results"));
    size_t done = 0, good = 0;
    aorta_status status = hwq_values_default(session, w);
    while (!status && done < counts.count) {
        status = hwq_run_one(session, w, counts.items[done], &results[done]);
        done++;
        if (!status) good = done;
    }
    for (size_t i = 0; i < good; i++) add_result(run, &results[i]);
    /* Results before a failure are written. */
    if (session->ranks.rank == 0) status = aorta_status_join(status, write_results(run->values, results, good));
    print_on(run, &session->reports);
    const bool ended = !done || results[done - 1].verified;
    for (size_t i = 0; i < done; i++) aorta_hwq_result_free(&results[i]);
    aorta_arena_free(&arena);
    return end_if_others_wait(session, w, status, ended);
}

/* Records with the stream count of --streams if it is one, else with the recommended count. */
static aorta_status record_one(struct group_run *run, const struct aorta_hwq_workload *w) {
    const struct hwq_values *values = run->values;
    const int64_t streams = values->streams.count == 1 ? counts_for(values, w).items[0] : w->streams.recommended;
    aorta_status status = hwq_values_default(&run->session, w);
    if (!status) status = hwq_record_one(&run->session, w, streams, w->name);
    return end_if_others_wait(&run->session, w, status, false);
}

static void count(struct tally *tally, const struct hwq_session *session, const struct aorta_hwq_workload *w,
                  aorta_status status) {
    const size_t used = strlen(tally->names);
    tally->ran++;
    if (!status) return;
    snprintf(tally->names + used, sizeof tally->names - used, "%s%s", tally->failed++ ? ", " : "", w->name);
    aorta_log(&session->log, AORTA_LOG_ERROR, "%s; continuing with the next workload", aorta_status_message(status));
    aorta_status_free(status);
}

/* The next workloads run after a failure. */
static aorta_status each_of_group(struct group_run *run, struct tally *tally,
                                  aorta_status (*act)(struct group_run *run, const struct aorta_hwq_workload *w)) {
    for (size_t i = 0; aorta_hwq_workloads[i]; i++) {
        const struct aorta_hwq_workload *w = aorta_hwq_workloads[i];
        if (is_in_group(w, run->values->group)) count(tally, &run->session, w, act(run, w));
    }
    if (!tally->failed) return NULL;
    return AORTA_ERROR(AORTA_DEVICE, "%zu of %zu workloads failed: %s", tally->failed, tally->ran, tally->names);
}

/* ---- what was found ---- */

static void find_tally(struct group_run *run, const struct tally *tally, enum aorta_hwq_finding finding) {
    HWQ_FIND(&run->found, finding, hwq_count("well", (double)(tally->ran - tally->failed)),
             hwq_count("workloads", (double)tally->ran), hwq_text("failed", tally->failed ? tally->names : NULL));
}

/* The most frequent limit first. */
static void find_limits(struct group_run *run) {
    for (size_t most = run->result_count; most; most--)
        for (size_t by = 0; by < AORTA_HWQ_FINDINGS; by++) {
            const char *key = aorta_hwq_finding_rows[by].key;
            if (run->limits[by] != most) continue;
            HWQ_FIND(&run->found, AORTA_HWQ_GROUP_LIMIT, hwq_text("limit", key ? key : "not known"),
                     hwq_count("limited", (double)most), hwq_count("results", (double)run->result_count));
        }
}

/* Writes the JSON object. Only the page's object has the results, as each workload's file has them. */
static void write_object(struct group_run *run, bool page, struct aorta_text *text) {
    struct aorta_json json;
    aorta_json_output(&json, text, page ? 0 : 2, AORTA_HWQ_SCHEMA_VERSION);
    aorta_json_key_string(&json, "kind", "hwq_run_priority");
    aorta_found_answer_json("headline", &run->found, &json);
    aorta_found_facts_json(&run->found, &json);
    if (page) {
        aorta_json_key(&json, "results");
        aorta_json_text(&json, run->results.data);
        aorta_text_puts(text, "]");
        text->failed |= run->results.failed;
    }
    aorta_json_output_end(&json);
}

static aorta_status write_page(struct group_run *run) {
    struct aorta_text text = {0};
    const struct aorta_page_results page = {
        .kind = "hwq", .title = "AORTA: hwq run-priority", .results = &text, .tables = aorta_hwq_result_tables};
    if (!run->values->html || !run->result_count) return NULL;
    write_object(run, true, &text);
    aorta_status status = aorta_page_write(&page, run->values->html);
    aorta_text_free(&text);
    return status;
}

static aorta_status write_summary(struct group_run *run) {
    struct aorta_text text = {0};
    if (!run->values->output) return NULL;
    write_object(run, false, &text);
    aorta_status status = aorta_file_put(aorta_path_in(run->values->output, "run_priority.json").text, &text);
    aorta_text_free(&text);
    return status;
}

static void print_found(struct group_run *run) {
    struct aorta_text text = {0};
    if (run->values->quiet) {
        aorta_found_answer_text(&run->found, &text);
    } else {
        aorta_found_text(&run->found, &text);
        aorta_text_puts(&text, run->table.data ? run->table.data : "");
        text.failed |= run->table.failed;
    }
    print_on(run, &text);
}

/* Recordings come after all measurements: a tracer's library stays in the process. */
static aorta_status record_group(struct group_run *run) {
    aorta_status status = each_of_group(run, &run->recorded, record_one);
    find_tally(run, &run->recorded, AORTA_HWQ_GROUP_RECORDED);
    return aorta_annotate(status, "--profile");
}

static aorta_status run_group(struct group_run *run) {
    const struct hwq_values *values = run->values;
    const bool first = run->session.ranks.rank == 0;
    run->session.brief = values->quiet || values->streams.count != 1;
    aorta_status status = each_of_group(run, &run->ran, run_one);
    find_tally(run, &run->ran, run->ran.failed ? AORTA_HWQ_GROUP_FAILED : AORTA_HWQ_GROUP_WELL);
    find_limits(run);
    status = aorta_status_join(status, aorta_hwq_csv_write(&run->csv, first ? values->csv : NULL));
    if (values->profile) status = aorta_status_join(status, record_group(run));
    status = aorta_status_join(status, aorta_arena_check(&run->found.arena, "what was found"));
    if (first) status = aorta_status_join(status, write_page(run));
    if (first) status = aorta_status_join(status, write_summary(run));
    if (first) print_found(run);
    return aorta_status_join(status, run->unprinted);
}

static aorta_status open_and_run(struct hwq_values *values) {
    struct group_run run = {.values = values, .csv = {.tables = aorta_hwq_result_csv}};
    AORTA_TRY(hwq_session_open(values, &run.session));
    aorta_status status = run_group(&run);
    aorta_text_free(&run.table);
    aorta_text_free(&run.results);
    aorta_found_free(&run.found);
    hwq_session_close(&run.session, NULL); /* failures are printed already, and no rank waits for another */
    return status;
}

static aorta_status check_and_run(struct hwq_values *values) {
    struct aorta_directory_lock *lock = NULL;
    struct aorta_ranks ranks;
    AORTA_TRY(hwq_check_streams(values));
    AORTA_TRY(hwq_check(values, has_collectives(values->group)));
    AORTA_TRY(aorta_ranks_detect(&ranks));
    if (values->output && ranks.rank == 0) AORTA_TRY(aorta_directory_lock(values->output, "--output", &lock));
    aorta_status status = open_and_run(values);
    aorta_directory_unlock(lock);
    return status;
}

aorta_status aorta_cli_hwq_run_priority(int argc, char **argv) {
    struct hwq_values values = {.command = "run-priority"};
    if (argc < 2 || !aorta_cli_asks_for_help(argv[1])) {
        if (argc < 2 || argv[1][0] == '-')
            return AORTA_ERROR(AORTA_USAGE, "the group comes first: aorta hwq run-priority P0|P1|P2|P3|all [OPTIONS]");
        values.named = argv[1];
        AORTA_TRY(find_group(argv[1], &values.group));
    }
    return hwq_command("aorta hwq run-priority P0|P1|P2|P3|all [OPTIONS]",
                       "Runs the workloads of a group at their default sizes (--set changes them). After a failure the "
                       "next workload runs; the answer names the workloads that failed. A workload runs on each number "
                       "of --streams in its range, or on the nearest one.",
                       true, argc, argv, &values, check_and_run);
}
