/* aorta hwq list, info, run, sweep. */
#include "base/lines.h"
#include "base/sort.h"
#include "cli/hwq.h"
#include "config/config.h"
#include "device/inventory.h"
#include "hwq/run.h"
#include "report/page.h"

#include <stdlib.h>
#include <string.h>

/* ---- list ---- */

struct list_values {
    bool json, verbose;
    const char *category;
};

static const struct aorta_option list_rows[] = {
    {"json", AORTA_OPTION_BOOL, offsetof(struct list_values, json), "false",
     .help = "print one JSON array instead of the table"},
    {"verbose", AORTA_OPTION_BOOL, offsetof(struct list_values, verbose), "false", .letter = 'v',
     .help = "add a description below each row"},
    {"category", AORTA_OPTION_STRING, offsetof(struct list_values, category), "null", .letter = 'c',
     .argument = "CATEGORY", .help = "list only latency_sensitive, distributed, inference or pipeline workloads"},
};
static const struct aorta_cli_syntax list_syntax = {
    .usage = "aorta hwq list [--verbose] [--category CATEGORY] [--json]",
    .about = "Lists the workloads: their group, numbers of streams, and how sensitive they are to queue "
             "switches.",
    AORTA_CLI_OPTIONS(list_rows),
    .footer = "aorta hwq info WORKLOAD describes a workload, aorta hwq run WORKLOAD --help also lists "
              "its options.",
};

static bool is_listed(const struct list_values *values, const struct aorta_hwq_workload *w) {
    return !values->category || !strcmp(values->category, w->category);
}

static aorta_status check_category(const struct list_values *values) {
    for (size_t i = 0; aorta_hwq_workloads[i]; i++)
        if (is_listed(values, aorta_hwq_workloads[i])) return NULL;
    return AORTA_ERROR(AORTA_USAGE,
                       "--category: found \"%s\"; expected latency_sensitive, distributed, inference or pipeline",
                       values->category);
}

static void list_json(const struct list_values *values, struct aorta_text *text) {
    struct aorta_json json;
    aorta_json_begin(&json, text, 2);
    aorta_json_array(&json);
    for (size_t i = 0; aorta_hwq_workloads[i]; i++) {
        const struct aorta_hwq_workload *w = aorta_hwq_workloads[i];
        if (!is_listed(values, w)) continue;
        aorta_json_object(&json);
        aorta_json_key_string(&json, "name", w->name);
        aorta_json_key_string(&json, "group", aorta_hwq_group_name(w->group));
        aorta_json_key_string(&json, "category", w->category);
        aorta_json_key_string(&json, "sensitivity", w->sensitivity);
        aorta_json_key_int(&json, "min_streams", w->streams.min);
        aorta_json_key_int(&json, "max_streams", w->streams.max);
        aorta_json_key_int(&json, "recommended_streams", w->streams.recommended);
        aorta_json_key_string(&json, "unit", w->unit);
        aorta_json_key_string(&json, "summary", w->summary);
        aorta_json_object_end(&json);
    }
    aorta_json_array_end(&json);
    aorta_text_puts(text, "\n");
}

static void list_table(const struct list_values *values, struct aorta_text *text) {
    aorta_text_printf(text, "%-22s %-5s %-18s %-14s %-12s %s\n", "workload", "group", "category", "streams",
                      "sensitivity", "unit");
    for (int group = 0; group < AORTA_HWQ_GROUP_COUNT; group++)
        for (size_t i = 0; aorta_hwq_workloads[i]; i++) {
            const struct aorta_hwq_workload *w = aorta_hwq_workloads[i];
            char streams[32];
            if ((int)w->group != group || !is_listed(values, w)) continue;
            snprintf(streams, sizeof streams, "%d-%d (%d)", w->streams.min, w->streams.max, w->streams.recommended);
            aorta_text_printf(text, "%-22s %-5s %-18s %-14s %-12s %s\n", w->name, aorta_hwq_group_name(w->group),
                              w->category, streams, w->sensitivity, w->unit);
            if (!values->verbose) continue;
            aorta_text_puts(text, "    ");
            aorta_text_lines(text, w->summary, &(struct aorta_lines){.taken = 4, .indent = 4});
        }
}

static aorta_status list(struct aorta_cli_line *line, void *of) {
    const struct list_values *values = of;
    struct aorta_text text = {0};
    (void)line;
    AORTA_TRY(check_category(values));
    (values->json ? list_json : list_table)(values, &text);
    return aorta_cli_print(&text, NULL, false);
}

const struct aorta_cli_entry aorta_cli_hwq_list = {&list_syntax, list, .size = sizeof(struct list_values)};

/* ---- info ---- */

static const struct aorta_cli_syntax info_syntax = {
    .usage = "aorta hwq info [WORKLOAD]",
    .about = "What a workload is, on how many streams it runs, and its own options with their defaults. Without a "
             "workload: the device, its software, and the environment that decides on hardware queues.",
    .names = hwq_workload_names,
    .operands = true,
};

static void show_info(const struct aorta_hwq_workload *w, struct aorta_text *text) {
    const struct aorta_option_table own = {.rows = w->options, .count = w->option_count};
    aorta_text_printf(text, "%s: ", w->name);
    aorta_text_lines(text, w->summary, &(struct aorta_lines){.taken = (int)strlen(w->name) + 2, .indent = 2});
    aorta_text_printf(text, "  group        %s, %s\n", aorta_hwq_group_name(w->group), w->category);
    aorta_text_printf(text, "  streams      %d to %d, recommended %d\n", w->streams.min, w->streams.max,
                      w->streams.recommended);
    aorta_text_printf(text, "  sensitivity  %s to the cost of switching between queues\n", w->sensitivity);
    aorta_text_printf(text, "  throughput   in %s\n", w->unit);
    if (w->option_count) aorta_text_puts(text, "Options, with dashes on the command line:\n");
    if (w->option_count) aorta_options_help(&own, NULL, text);
}

static void add_queue_variables(struct aorta_text *text) {
    static const struct {
        const char *name, *unset;
    } variables[] = {{"CUDA_DEVICE_MAX_CONNECTIONS", "CUDA's driver has 8"},
                     {"GPU_MAX_HW_QUEUES", "ROCm has 4 for each priority"}};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = getenv(variables[i].name);
        aorta_text_printf(text, "  queues       %s %s%s\n", variables[i].name,
                          value ? "= " : "is not set: ", value ? value : variables[i].unset);
    }
}

static aorta_status show_environment(void) {
    struct aorta_environment environment = {0};
    struct aorta_text text = {0};
    aorta_status status = aorta_environment_take(NULL, &environment);
    for (size_t i = 0; i < environment.count && !status; i++) {
        const struct aorta_environment_item *item = &environment.items[i];
        aorta_text_printf(&text, "  %-12s %s %s\n", item->section, item->key, item->value);
    }
    aorta_environment_free(&environment);
    add_queue_variables(&text);
    aorta_text_puts(&text, "aorta hwq list shows the workloads, aorta hwq map the queues that streams get,\n"
                           "aorta info everything that was looked for.\n");
    if (!status) return aorta_cli_print(&text, NULL, false);
    aorta_text_free(&text);
    return status;
}

static aorta_status info(struct aorta_cli_line *line, void *values) {
    const struct aorta_hwq_workload *workload;
    struct aorta_text text = {0};
    (void)values;
    if (!line->operand_count) return show_environment();
    if (line->operand_count != 1) return AORTA_ERROR(AORTA_USAGE, "one workload is expected: aorta hwq info WORKLOAD");
    AORTA_TRY(aorta_hwq_find(line->operands[0], &workload));
    show_info(workload, &text);
    return aorta_cli_print(&text, NULL, false);
}

const struct aorta_cli_entry aorta_cli_hwq_info = {&info_syntax, info, .size = 0};

/* ---- run and sweep ---- */

/* `scaling` is NULL unless it is a sweep. */
static aorta_status write_page(const struct aorta_hwq_result *results, size_t count,
                               const struct aorta_hwq_scaling *scaling, const char *path) {
    struct aorta_text text = {0}, title = {0};
    struct aorta_json json;
    aorta_json_begin(&json, &text, 0);
    aorta_hwq_results_json(results, count, scaling, &json);
    aorta_text_printf(&title, "AORTA: %s", results->workload_name);
    const struct aorta_page_results page = {
        .kind = "hwq", .title = title.data, .results = &text, .tables = aorta_hwq_result_tables};
    aorta_status status = aorta_text_check(&title);
    if (!status) status = aorta_page_write(&page, path);
    aorta_text_free(&title);
    aorta_text_free(&text);
    return status;
}

static bool sweeps(const struct hwq_values *values) {
    return strcmp(values->command, "sweep") == 0;
}

static aorta_status conclude(const struct hwq_values *values, const struct aorta_hwq_result *results, size_t count) {
    const bool sweep = sweeps(values);
    struct aorta_hwq_scaling scaling = {0}, *scales = sweep ? &scaling : NULL;
    struct aorta_hwq_csv csv = {.tables = aorta_hwq_result_csv};
    struct aorta_text text = {0};
    for (size_t i = 0; i < count; i++) aorta_hwq_csv_add(&csv, &results[i]);
    AORTA_TRY(aorta_hwq_csv_write(&csv, values->csv));
    aorta_status status = sweep ? aorta_hwq_scaling_make(results, count, &scaling) : NULL;
    if (!status && sweep && values->quiet) aorta_found_answer_text(&scaling.found, &text);
    if (!status && sweep && !values->quiet) aorta_hwq_sweep_text(results, count, &scaling, &text);
    if (!status && values->output) status = aorta_hwq_results_write(results, count, scales, values->output);
    if (!status && values->html) status = write_page(results, count, scales, values->html);
    if (!status && sweep) status = hwq_print(values, &text);
    aorta_text_free(&text);
    aorta_hwq_scaling_free(&scaling);
    return status;
}

/* Powers of two within the workload's range, and its two ends. */
static struct hwq_counts usual_counts(const struct aorta_hwq_workload *w) {
    struct hwq_counts counts = {{w->streams.min}, 1};
    for (int64_t n = 1; n < w->streams.max; n *= 2)
        if (n > w->streams.min) counts.items[counts.count++] = n;
    if (w->streams.max > w->streams.min) counts.items[counts.count++] = w->streams.max;
    return counts;
}

static aorta_status check_counts(const struct hwq_values *values, const struct hwq_counts *counts) {
    for (size_t i = 0; i < counts->count; i++) {
        const struct aorta_hwq_run run = {.workload = values->workload,
                                          .streams = counts->items[i],
                                          .gate = values->gate,
                                          .sync = (enum aorta_hwq_sync)values->sync};
        AORTA_TRY(aorta_hwq_run_check(&run));
    }
    return NULL;
}

/* After all counts: a tracer's library stays in the process. */
static aorta_status record_counts(struct hwq_session *session, const struct hwq_counts *counts) {
    for (size_t i = 0; i < counts->count; i++) {
        char name[32];
        snprintf(name, sizeof name, "streams%d", (int)counts->items[i]);
        AORTA_TRY(hwq_record_one(session, session->values->workload, counts->items[i],
                                 sweeps(session->values) ? name : NULL));
    }
    return NULL;
}

static aorta_status run_counts(struct hwq_values *values, const struct hwq_counts *counts) {
    const bool sweep = sweeps(values);
    struct hwq_session session;
    struct aorta_arena arena = {0};
    struct aorta_hwq_result *results = aorta_arena_alloc(&arena, counts->count * sizeof *results);
    AORTA_TRY(aorta_arena_check(&arena, "the results"));
    aorta_status status = hwq_session_open(values, &session);
    if (!status) status = hwq_values_fit(&session, values->workload);
    size_t done = 0, good = 0;
    session.brief = sweep;
    while (!status && done < counts->count) {
        status = hwq_run_one(&session, values->workload, counts->items[done], &results[done]);
        done++;
        if (!status) good = done;
    }
    /* A sweep keeps the results before a failure. */
    if (session.ranks.rank == 0 && (!status || (sweep && good)))
        status = aorta_status_join(status, conclude(values, results, good));
    status = aorta_status_join(status, hwq_print(values, &session.reports));
    if (!status && values->profile) status = record_counts(&session, counts);
    for (size_t i = 0; i < done; i++) aorta_hwq_result_free(&results[i]);
    aorta_arena_free(&arena);
    hwq_session_close(&session, status);
    return status;
}

static struct hwq_counts choose_counts(const struct hwq_values *values) {
    struct hwq_counts counts = {{values->workload->streams.recommended}, 1};
    if (sweeps(values)) counts = usual_counts(values->workload);
    if (!values->streams.items) return counts;
    counts.count = values->streams.count;
    memcpy(counts.items, values->streams.items, counts.count * sizeof *counts.items);
    aorta_sort_int64(counts.items, counts.count);
    return counts;
}

/* Drops counts that this workload does not support, as one list may be for many workloads. */
static aorta_status leave_out(const struct aorta_hwq_workload *w, struct hwq_counts *counts) {
    struct aorta_text left_out = {0};
    size_t served = 0;
    for (size_t i = 0; i < counts->count; i++)
        if (aorta_hwq_serves(w, counts->items[i]))
            counts->items[served++] = counts->items[i];
        else
            aorta_text_printf(&left_out, "%s%lld", left_out.length ? ", " : "", (long long)counts->items[i]);
    aorta_status status = aorta_text_check(&left_out);
    if (!status && !served)
        status = AORTA_ERROR(AORTA_USAGE, "--streams %s: %s runs on %d to %d streams", left_out.data, w->name,
                             w->streams.min, w->streams.max);
    if (!status && left_out.length)
        fprintf(stderr, "note: --streams %s left out: %s runs on %d to %d streams\n", left_out.data, w->name,
                w->streams.min, w->streams.max);
    counts->count = served;
    aorta_text_free(&left_out);
    return status;
}

/* Merges counts that the options raise to the same number. */
static void raise_counts(const struct aorta_hwq_workload *w, const void *options, struct hwq_counts *counts) {
    size_t unique = 0;
    for (size_t i = 0; i < counts->count; i++) {
        const int64_t streams = aorta_hwq_run_streams(w, options, counts->items[i]);
        if (!unique || counts->items[unique - 1] != streams) counts->items[unique++] = streams;
    }
    counts->count = unique;
}

static aorta_status check_and_run(struct hwq_values *values) {
    AORTA_TRY(hwq_check_streams(values));
    struct hwq_counts counts = choose_counts(values);
    if (sweeps(values)) AORTA_TRY(leave_out(values->workload, &counts));
    raise_counts(values->workload, values->own, &counts);
    AORTA_TRY(check_counts(values, &counts));
    AORTA_TRY(hwq_check(values, values->workload->collectives));
    return run_counts(values, &counts);
}

static aorta_status run_command(const char *command, const char *about, int argc, char **argv) {
    struct hwq_values values = {.command = command};
    char usage[256];
    if (argc < 2 || !aorta_cli_asks_for_help(argv[1])) {
        if (argc < 2 || argv[1][0] == '-')
            return AORTA_ERROR(AORTA_USAGE,
                               "the workload comes first: aorta hwq %s WORKLOAD [OPTIONS]; aorta hwq list shows them",
                               command);
        values.named = argv[1];
        AORTA_TRY(aorta_hwq_find(argv[1], &values.workload));
    }
    snprintf(usage, sizeof usage, "aorta hwq %s %s [OPTIONS]", command, values.named ? values.named : "WORKLOAD");
    return hwq_command(usage, values.workload ? values.workload->summary : about, false, argc, argv, &values,
                       check_and_run);
}

aorta_status aorta_cli_hwq_run(int argc, char **argv) {
    return run_command("run", "Runs a workload, measures it and explains the figures.", argc, argv);
}

aorta_status aorta_cli_hwq_sweep(int argc, char **argv) {
    return run_command("sweep", "Runs a workload on several numbers of streams and shows how it scales.", argc, argv);
}
