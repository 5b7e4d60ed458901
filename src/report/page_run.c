#include "report/page_run.h"
#include "base/files.h"
#include "report/page.h"
#include "report/page_lanes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- streams over time ---- */

static enum aorta_page_kind kind_of(const struct aorta_range_info *info) {
    if (info->kind == AORTA_RANGE_COPY) return AORTA_PAGE_COPY;
    return info->kind == AORTA_RANGE_COMPUTE ? AORTA_PAGE_COMPUTE : aorta_page_collective(info->collective);
}

/* The lanes of one rank; SIZE_MAX: not there yet. */
struct rank_lanes {
    size_t role[AORTA_ROLE_COUNT], exposed, host;
};

static aorta_status lane_at(struct aorta_page_lanes *lanes, int rank, const char *label, size_t *lane) {
    return *lane == SIZE_MAX ? aorta_page_lane_add(lanes, rank, label, lane) : NULL;
}

static aorta_status add_ranges(const struct aorta_run_step *step, int64_t shift_ns, struct rank_lanes *places,
                               struct aorta_page_lanes *lanes) {
    for (size_t i = 0; i < step->profile.range_count; i++) {
        const struct aorta_range *range = &step->profile.ranges[i];
        struct aorta_page_span span = {range->start_ns + shift_ns, range->end_ns + shift_ns, 0,
                                       (uint8_t)kind_of(&range->info)};
        size_t *lane = &places->role[range->info.role];
        if (range->end_ns < range->start_ns) continue;
        AORTA_TRY(lane_at(lanes, step->rank, aorta_role_name(range->info.role), lane));
        AORTA_TRY(aorta_page_name(lanes, range->info.tag, range->info.function, &span.name));
        AORTA_TRY(aorta_page_span_add(lanes, *lane, span));
    }
    return NULL;
}

static aorta_status add_exposed(const struct aorta_run_step *step, int64_t shift_ns, struct rank_lanes *places,
                                struct aorta_page_lanes *lanes) {
    for (size_t i = 0; i < step->overlap.exposed_count; i++) {
        struct aorta_page_span span = {step->overlap.exposed[i].start_ns + shift_ns,
                                       step->overlap.exposed[i].end_ns + shift_ns, 0, AORTA_PAGE_EXPOSED};
        AORTA_TRY(lane_at(lanes, step->rank, "exposed", &places->exposed));
        AORTA_TRY(aorta_page_name(lanes, "communication without compute", NULL, &span.name));
        AORTA_TRY(aorta_page_span_add(lanes, places->exposed, span));
    }
    return NULL;
}

static aorta_status add_host(const struct aorta_run_step *step, int64_t shift_ns, struct rank_lanes *places,
                             struct aorta_page_lanes *lanes) {
    for (size_t i = 0; i < step->profile.host_count; i++) {
        const struct aorta_host_range *host = &step->profile.host[i];
        struct aorta_page_span span = {host->start_ns + shift_ns, host->end_ns + shift_ns, 0,
                                       host->kind == AORTA_HOST_ALLOCATION ? AORTA_PAGE_OTHER_CALL : AORTA_PAGE_WAIT};
        if (host->end_ns < host->start_ns) continue;
        AORTA_TRY(lane_at(lanes, step->rank, "host", &places->host));
        AORTA_TRY(aorta_page_name(lanes, aorta_host_kind_name(host->kind), NULL, &span.name));
        AORTA_TRY(aorta_page_span_add(lanes, places->host, span));
    }
    return NULL;
}

/* Steps of files without the device's clock follow one another; ranks without a common clock begin together. */
static aorta_status add_rank(const struct aorta_labelled *labelled, size_t rank, struct aorta_page_lanes *lanes) {
    const struct aorta_run *run = &labelled->run;
    struct rank_lanes places;
    size_t first = 0, count = aorta_measured_steps(labelled, rank, &first);
    int64_t origin_ns = INT64_MIN, next_ns = 0;
    memset(&places, 0xff, sizeof places);
    for (size_t i = first; i < first + count; i++) {
        const struct aorta_run_step *step = &run->steps[i];
        if (!step->profiled || !step->profile.range_count) continue;
        if (origin_ns == INT64_MIN) origin_ns = step->profile.start_ns;
        int64_t shift_ns = labelled->verdict.common_clock ? 0 : -origin_ns;
        if (step->profile.own_clock) shift_ns = next_ns - step->profile.start_ns;
        next_ns += step->overlap.span_ns;
        AORTA_TRY(add_ranges(step, shift_ns, &places, lanes));
        AORTA_TRY(add_exposed(step, shift_ns, &places, lanes));
        AORTA_TRY(add_host(step, shift_ns, &places, lanes));
        if (rank == 0) AORTA_TRY(aorta_page_step_add(lanes, step->profile.start_ns + shift_ns, step->global_step));
    }
    return NULL;
}

static aorta_status write_timeline(const struct aorta_labelled *labelled, size_t most, struct aorta_json *json) {
    struct aorta_page_lanes lanes = {0};
    aorta_status status = NULL;
    for (size_t i = 0; !status && labelled->has_verdict && i < labelled->run.rank_count; i++)
        status = add_rank(labelled, i, &lanes);
    if (!status) status = aorta_page_lanes_write(&lanes, most, json);
    aorta_page_lanes_free(&lanes);
    return status;
}

/* ---- what each iteration took ---- */

enum { MOST_POINTS = 16000 };

static double get_loss(const struct aorta_run_step *step) {
    return step->loss;
}

static double get_clock(const struct aorta_run_step *step) {
    return step->clocked ? step->clocks.sm_clock_mhz : NAN;
}

static double get_power(const struct aorta_run_step *step) {
    return step->clocked ? step->clocks.power_w : NAN;
}

static double get_temperature(const struct aorta_run_step *step) {
    return step->clocked ? step->clocks.temperature_c : NAN;
}

static double get_number(const struct aorta_run_step *step) {
    return (double)step->global_step;
}

static const struct aorta_metric others[] = {
    {"step", "", false, get_number},
    {"loss", "", false, get_loss},
    {"sm_clock_mhz", "MHz", true, get_clock},
    {"power_w", "W", false, get_power},
    {"temperature_c", "C", false, get_temperature},
    {0},
};

/* Each point is the mean of `stride` iterations; a figure that no iteration has is left out. */
static void write_series(const struct aorta_run_step *steps, size_t count, size_t stride,
                         const struct aorta_metric *metric, struct aorta_json *json) {
    bool any = false;
    for (size_t i = 0; !any && i < count; i++) any = !isnan(metric->get(&steps[i]));
    if (!any) return;
    aorta_json_key_array(json, metric->key);
    for (size_t i = 0; i < count; i += stride) {
        double sum = 0, number = 0;
        for (size_t j = i; j < i + stride && j < count; j++) {
            const double value = metric->get(&steps[j]);
            if (isnan(value)) continue;
            sum += value;
            number++;
        }
        aorta_json_fixed(json, number > 0 ? sum / number : NAN, 6);
    }
    aorta_json_array_end(json);
}

static void write_all_series(const struct aorta_labelled *labelled, struct aorta_json *json) {
    const struct aorta_run *run = &labelled->run;
    const size_t stride = run->step_count / MOST_POINTS + 1;
    aorta_json_key_int(json, "iterations_per_point", (int64_t)stride);
    aorta_json_key_array(json, "ranks");
    for (size_t i = 0; i < run->rank_count; i++) {
        size_t first = 0, count = aorta_measured_steps(labelled, i, &first);
        aorta_json_object(json);
        aorta_json_key_int(json, "rank", run->ranks[i]);
        for (const struct aorta_metric *metric = others; metric->key; metric++)
            write_series(&run->steps[first], count, stride, metric, json);
        for (const struct aorta_metric *metric = aorta_metrics; metric->key; metric++)
            write_series(&run->steps[first], count, stride, metric, json);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
}

/* ---- collectives by size ---- */

enum { MOST_SIZES = 64 };

struct size_row {
    enum aorta_collective kind;
    int group_size;
    int64_t bytes, count, time_ns, shortest_ns;
};

static struct size_row *find_size(struct size_row *rows, size_t *count, const struct aorta_range_info *info) {
    for (size_t i = 0; i < *count; i++)
        if (rows[i].kind == info->collective && rows[i].bytes == info->bytes && rows[i].group_size == info->group_size)
            return &rows[i];
    if (*count == MOST_SIZES) return NULL;
    rows[*count] = (struct size_row){info->collective, info->group_size, info->bytes, 0, 0, INT64_MAX};
    return &rows[(*count)++];
}

static void add_size(const struct aorta_range *range, struct size_row *rows, size_t *count) {
    const int64_t ns = range->end_ns - range->start_ns;
    if (range->info.kind != AORTA_RANGE_COLLECTIVE || range->info.bytes <= 0 || ns <= 0) return;
    struct size_row *row = find_size(rows, count, &range->info);
    if (!row) return;
    row->count++;
    row->time_ns += ns;
    if (ns < row->shortest_ns) row->shortest_ns = ns;
}

static void write_sizes(const struct aorta_labelled *labelled, struct aorta_json *json) {
    struct size_row rows[MOST_SIZES];
    size_t count = 0;
    for (size_t i = 0; i < labelled->run.rank_count; i++) {
        size_t first = 0, steps = aorta_measured_steps(labelled, i, &first);
        for (size_t j = first; j < first + steps; j++)
            for (size_t k = 0; k < labelled->run.steps[j].profile.range_count; k++)
                add_size(&labelled->run.steps[j].profile.ranges[k], rows, &count);
    }
    aorta_json_key_array(json, "collective_sizes");
    for (size_t i = 0; i < count; i++) {
        const struct size_row *row = &rows[i];
        const double moved = (double)row->bytes * aorta_collective_bus_factor(row->kind, row->group_size);
        aorta_json_object(json);
        aorta_json_key_string(json, "kind", aorta_collective_name(row->kind));
        aorta_json_key_int(json, "group_size", row->group_size);
        aorta_json_key_int(json, "bytes_each", row->bytes);
        aorta_json_key_int(json, "count", row->count);
        aorta_json_key_fixed(json, "mean_ms", (double)row->time_ns / 1e6 / (double)row->count, 6);
        aorta_json_key_fixed(json, "min_ms", (double)row->shortest_ns / 1e6, 6);
        aorta_json_key_fixed(json, "busbw_gbps", moved * (double)row->count / (double)row->time_ns, 6);
        aorta_json_key_fixed(json, "best_busbw_gbps", moved / (double)row->shortest_ns, 6);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
}

/* ---- the page ---- */

/* As the run wrote it; null where it did not. */
static void write_configuration(const struct aorta_run *run, struct aorta_json *json) {
    enum { MOST_BYTES = 1 << 20 };
    char *path = aorta_path_join(run->directory, "config.json"), *text = NULL;
    size_t length;
    aorta_status status = path ? aorta_file_read_regular(path, MOST_BYTES, &text, &length) : NULL;
    aorta_status_free(status);
    aorta_json_key_string(json, "configuration", text);
    free(path);
    free(text);
}

static void write_run(const struct aorta_labelled *labelled, struct aorta_json *json) {
    aorta_json_object(json);
    aorta_json_key_string(json, "label", labelled->run.label);
    if (labelled->has_verdict) aorta_page_headline(&labelled->verdict, json);
    write_configuration(&labelled->run, json);
    write_all_series(labelled, json);
    write_sizes(labelled, json);
    aorta_json_object_end(json);
}

/* Of all texts of the runs: kernels are among them. */
static aorta_status write_names(const struct aorta_labelled *runs, size_t count, struct aorta_json *json) {
    struct aorta_intern names = {0};
    aorta_status status = NULL;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; !status && j < runs[i].run.strings.count; j++)
            if (!aorta_intern(&names, runs[i].run.strings.strings[j]))
                status = AORTA_ERROR(AORTA_MEMORY, "no memory for the names of kernels");
    aorta_page_short_names(&names, json);
    aorta_intern_free(&names);
    return status;
}

static aorta_status write_comparisons(const struct aorta_page_runs *runs, struct aorta_json *json) {
    const struct aorta_label *reference = runs->reference ? runs->reference : runs->labels;
    aorta_json_key_array(json, "comparisons");
    for (size_t i = 0; i < runs->label_count; i++)
        if (&runs->labels[i] != reference) AORTA_TRY(aorta_label_comparison_json(reference, &runs->labels[i], json));
    aorta_json_array_end(json);
    return NULL;
}

static aorta_status write_data(const struct aorta_page_runs *page, const struct aorta_text *summary,
                               struct aorta_json *json) {
    const struct aorta_labelled *runs = page->runs;
    const size_t count = page->count;
    aorta_json_object(json);
    aorta_json_key_int(json, "schema_version", 1);
    aorta_json_key_string(json, "kind", "runs");
    aorta_json_key(json, "results");
    aorta_json_text(json, summary->data);
    AORTA_TRY(write_names(runs, count, json));
    aorta_json_key_array(json, "runs");
    for (size_t i = 0; i < count; i++) write_run(&runs[i], json);
    aorta_json_array_end(json);
    AORTA_TRY(write_comparisons(page, json));
    aorta_json_key_array(json, "timelines");
    for (size_t i = 0; i < count; i++) AORTA_TRY(write_timeline(&runs[i], AORTA_PAGE_SPANS / count, json));
    aorta_json_array_end(json);
    aorta_json_object_end(json);
    return NULL;
}

aorta_status aorta_page_of_runs(const struct aorta_page_runs *runs, const struct aorta_text *summary,
                                struct aorta_text *out) {
    struct aorta_text data = {0}, title = {0};
    struct aorta_json json;
    aorta_json_begin(&json, &data, 0);
    aorta_text_puts(&title, "AORTA:");
    for (size_t i = 0; i < runs->label_count; i++)
        aorta_text_printf(&title, "%s %s", i ? "," : "", runs->labels[i].runs->run.label);
    aorta_status status = write_data(runs, summary, &json);
    if (!status) status = aorta_text_check(&title);
    if (!status) status = aorta_page_make(title.data, &data, out);
    aorta_text_free(&title);
    aorta_text_free(&data);
    return status;
}
