#include "report/summary.h"
#include "base/result_table.h"
#include "report/trace_tables.h"
#include "report/verdict_text.h"

#include <math.h>
#include <string.h>

/* Members of summary.json for readers of the original Python toolkit's file: means over all iterations of all ranks.
 * This overlap_ratio is a share of compute. Everywhere else ours is a share of communication. */

struct means {
    int64_t count;
    double loss, overlap_ms, compute_ms, all_reduce_ms, reduce_scatter_ms;
};

static double ms_of(int64_t ns) {
    return (double)ns / 1e6;
}

static void add_step(const struct aorta_step_metrics *step, struct means *sums) {
    if (!step->profile) return;
    const struct aorta_overlap *overlap = &step->profile->overlap;
    sums->count++;
    sums->loss += step->loss;
    sums->overlap_ms += ms_of(overlap->overlap_ns);
    sums->compute_ms += ms_of(overlap->compute_ns);
    sums->all_reduce_ms += ms_of(overlap->kind[AORTA_ALL_REDUCE].overlap_ns);
    sums->reduce_scatter_ms += ms_of(overlap->kind[AORTA_REDUCE_SCATTER].overlap_ns);
}

static struct means means_of(const struct aorta_run *run) {
    struct means sums = {0};
    for (size_t i = 0; i < run->step_count; i++) add_step(&run->steps[i], &sums);
    return sums;
}

static double ratio_of(const struct means *sums) {
    return sums->compute_ms > 0 ? sums->overlap_ms / sums->compute_ms : NAN;
}

/* Scripts that leave out the first iterations get other means. */
static void write_warmup(const struct aorta_recorded *labelled, const struct means *all, struct aorta_json *json) {
    struct means after = {0};
    struct aorta_text text = {0};
    for (size_t i = 0; i < labelled->step_count; i++) add_step(labelled->steps[i], &after);
    if (!after.count || after.count == all->count) return;
    aorta_text_printf(
        &text,
        "all %lld iterations of all ranks; without the warm-up, as in labels, %lld with a mean_compute_ms of "
        "%.2f and a mean_overlap_ms of %.2f",
        (long long)all->count, (long long)after.count, after.compute_ms / (double)after.count,
        after.overlap_ms / (double)after.count);
    aorta_json_key_sentence(json, "means_are_of", &text);
}

static void write_dataset(const struct aorta_recorded *labelled, struct aorta_json *json) {
    const struct aorta_run *run = &labelled->run;
    const struct means sums = means_of(run);
    const double count = (double)sums.count;
    aorta_json_key_object(json, run->label);
    aorta_json_key_int(json, "count", sums.count);
    if (sums.count) {
        aorta_json_key_double(json, "mean_loss", sums.loss / count);
        aorta_json_key_double(json, "mean_overlap_ms", sums.overlap_ms / count);
        aorta_json_key_double(json, "mean_compute_ms", sums.compute_ms / count);
        aorta_json_key_double(json, "mean_allreduce_overlap_ms", sums.all_reduce_ms / count);
        aorta_json_key_double(json, "mean_reducescatter_overlap_ms", sums.reduce_scatter_ms / count);
        aorta_json_key_double(json, "overlap_ratio", ratio_of(&sums));
        aorta_json_key_string(json, "overlap_ratio_is", "overlap / compute; labels has it as compute_overlap_ratio");
        write_warmup(labelled, &sums, json);
    }
    aorta_json_object_end(json);
}

void aorta_summary_ratios(const struct aorta_recorded *reference, const struct aorta_recorded *candidate,
                          struct aorta_json *json) {
    const struct means a = means_of(&reference->run), b = means_of(&candidate->run);
    aorta_json_key_double(json, "reference_overlap_ratio", ratio_of(&a));
    aorta_json_key_double(json, "candidate_overlap_ratio", ratio_of(&b));
    aorta_json_key_double(json, "ratio_delta", ratio_of(&b) - ratio_of(&a));
}

/* ---- writing ---- */

#define AT(member) offsetof(struct aorta_summary, member)
const struct aorta_row aorta_summary_statistics_rows[] = {
    {"count", AORTA_ROW_INT, AT(count), .help = "iterations that have it"},
    {"mean", AORTA_ROW_NUMBER, AT(mean), .help = "in the figure's unit"},
    {"std", AORTA_ROW_NUMBER, AT(std), .help = "standard deviation"},
    {"min", AORTA_ROW_NUMBER, AT(min), .help = "the smallest"},
    {"max", AORTA_ROW_NUMBER, AT(max), .help = "the largest"},
    {"p50", AORTA_ROW_NUMBER, AT(p50), .help = "the median"},
    {"p90", AORTA_ROW_NUMBER, AT(p90), .help = "90% are no larger"},
    {"p95", AORTA_ROW_NUMBER, AT(p95), .help = "95% are no larger"},
    {"p99", AORTA_ROW_NUMBER, AT(p99), .help = "99% are no larger"},
    {0}};
#undef AT

static void write_statistics(struct aorta_json *json, const char *key, const struct aorta_summary *summary) {
    aorta_json_key_object(json, key);
    aorta_rows_json(aorta_summary_statistics_rows, summary, 0, json);
    if (summary->count == 0) aorta_json_key_string(json, "reason", "not measured in this run");
    aorta_json_object_end(json);
}

/* Summarises a metric over the measured iterations of all ranks, or of one rank (rank >= 0). `samples` has space for
 * all. */
static struct aorta_summary summarise_metric(const struct aorta_recorded *labelled, const struct aorta_metric *metric,
                                             int rank, double *samples) {
    size_t count = 0;
    for (size_t i = 0; i < labelled->step_count; i++)
        if (rank < 0 || labelled->steps[i]->rank == rank)
            samples[count++] = aorta_metric_of(metric, labelled->steps[i]);
    struct aorta_summary summary = aorta_summarise(samples, count);
    if (strcmp(metric->unit, "1/s") == 0) summary.mean = aorta_rate_mean(samples, count);
    return summary;
}

static void write_metrics(struct aorta_json *json, const struct aorta_recorded *labelled, int rank) {
    struct aorta_arena scratch = {0};
    double *samples = aorta_arena_raw(&scratch, labelled->run.step_count * sizeof *samples);
    for (const struct aorta_metric *metric = aorta_metrics; samples && metric->key; metric++) {
        const struct aorta_summary summary = summarise_metric(labelled, metric, rank, samples);
        write_statistics(json, metric->key, &summary);
    }
    aorta_text_arena_end(json->out, &scratch);
}

struct collective_sums {
    int64_t count, bytes, time_ns, comm_ns, overlap_ns, exposed_ns;
    double bus_bytes;
};

static void add_collectives(const struct aorta_profile *profile, struct collective_sums sums[AORTA_COLLECTIVE_COUNT]) {
    for (int kind = 0; kind < AORTA_COLLECTIVE_COUNT; kind++) {
        sums[kind].comm_ns += profile->overlap.kind[kind].comm_ns;
        sums[kind].overlap_ns += profile->overlap.kind[kind].overlap_ns;
        sums[kind].exposed_ns += profile->overlap.kind[kind].exposed_ns;
    }
    AORTA_EACH (const struct aorta_range, range, profile->ranges, profile->range_count) {
        if (range->info.kind != AORTA_RANGE_COLLECTIVE) continue;
        struct collective_sums *sum = &sums[range->info.collective];
        sum->count++;
        sum->bytes += range->info.bytes;
        sum->time_ns += range->end_ns - range->start_ns;
        sum->bus_bytes +=
            (double)range->info.bytes * aorta_collective_bus_factor(range->info.collective, range->info.group_size);
    }
}

struct collective_values {
    const char *label, *kind, *reason;
    double count, bytes, time_ms, comm_ms, overlap_ms, exposed_ms, algbw_gbps, busbw_gbps;
};

#define AT(member) offsetof(struct collective_values, member)
const struct aorta_row aorta_summary_collective_rows[] = {
    {"count", AORTA_ROW_NUMBER, AT(count), .help = "a recorded iteration and rank, as the following"},
    {"bytes", AORTA_ROW_NUMBER, AT(bytes), "bytes", .help = "sum"},
    {"time_ms", AORTA_ROW_NUMBER, AT(time_ms), "ms", .help = "their times added up"},
    {"comm_ms", AORTA_ROW_NUMBER, AT(comm_ms), "ms", .help = "union of their times"},
    {"overlap_ms", AORTA_ROW_NUMBER, AT(overlap_ms), "ms", .help = "at the same time as compute"},
    {"exposed_ms", AORTA_ROW_NUMBER, AT(exposed_ms), "ms", .help = "without compute at the same time"},
    {"algbw_gbps", AORTA_ROW_NUMBER, AT(algbw_gbps), "GB/s", .help = "bytes / time, waiting included"},
    {"busbw_gbps", AORTA_ROW_NUMBER, AT(busbw_gbps), "GB/s", .help = "as nccl-tests define it"},
    {"reason", AORTA_ROW_TEXT, AT(reason), .help = "why some are null", .omit = true},
    {0}};
static const struct aorta_row named_collective_rows[] = {
    {"label", AORTA_ROW_TEXT, AT(label), .help = "of the run"},
    {"kind", AORTA_ROW_TEXT, AT(kind), .help = "of the collective"},
    {NULL, AORTA_ROW_PART, 0, .part = aorta_summary_collective_rows},
    {0}};
#undef AT

/* Sums over the recorded iterations. The collectives of unrecorded iterations are not known. */
struct collectives_of {
    const struct aorta_recorded *labelled;
    struct collective_sums sums[AORTA_COLLECTIVE_COUNT];
    double steps;
};

static struct collectives_of sum_collectives(const struct aorta_recorded *labelled) {
    struct collectives_of of = {.labelled = labelled};
    for (size_t i = 0; i < labelled->step_count; i++) {
        if (!labelled->steps[i]->profile) continue;
        add_collectives(labelled->steps[i]->profile, of.sums);
        of.steps++;
    }
    return of;
}

/* Means per iteration and rank. Bandwidths include waiting time. */
static enum aorta_line fill_collective(const void *of, size_t kind, void *values) {
    if (kind >= AORTA_COLLECTIVE_COUNT) return AORTA_LINE_END;
    const struct collectives_of *all = of;
    const double steps = all->steps;
    const struct collective_sums *sum = &all->sums[kind];
    const bool sized = sum->bytes > 0 && sum->time_ns > 0;
    if (!sum->count) return AORTA_LINE_SKIP;
    *(struct collective_values *)values =
        (struct collective_values){.label = all->labelled->run.label,
                                   .kind = aorta_collective_name(kind),
                                   .reason = sized ? NULL : "the files do not hold the sizes of collectives",
                                   .count = (double)sum->count / steps,
                                   .bytes = sized ? (double)sum->bytes / steps : NAN,
                                   .time_ms = (double)sum->time_ns / 1e6 / steps,
                                   .comm_ms = (double)sum->comm_ns / 1e6 / steps,
                                   .overlap_ms = (double)sum->overlap_ns / 1e6 / steps,
                                   .exposed_ms = (double)sum->exposed_ns / 1e6 / steps,
                                   .algbw_gbps = sized ? (double)sum->bytes / (double)sum->time_ns : NAN,
                                   .busbw_gbps = sized ? sum->bus_bytes / (double)sum->time_ns : NAN};
    return AORTA_LINE;
}

static void write_collectives(struct aorta_json *json, const struct aorta_recorded *labelled) {
    const struct collectives_of all = sum_collectives(labelled);
    aorta_json_key_object(json, "collectives");
    for (size_t kind = 0; kind < AORTA_COLLECTIVE_COUNT; kind++) {
        struct collective_values values;
        if (fill_collective(&all, kind, &values) == AORTA_LINE)
            aorta_rows_object(values.kind, aorta_summary_collective_rows, &values, 0, json);
    }
    aorta_json_object_end(json);
}

/* Share of the step in which the device was idle, as the host had launched nothing. NaN if unknown. */
static double host_bound_share(const struct aorta_recorded *labelled) {
    int64_t host = 0, unknown = 0, all = 0;
    for (size_t i = 0; i < labelled->step_count; i++) {
        if (!labelled->steps[i]->profile) continue;
        const struct aorta_overlap *overlap = &labelled->steps[i]->profile->overlap;
        host += aorta_idle_host(&overlap->idle);
        unknown += overlap->idle.ns[AORTA_IDLE_UNKNOWN];
        all += overlap->span_ns + overlap->lead_ns;
    }
    return all > 0 && unknown == 0 ? (double)host / (double)all : NAN;
}

#define AT(member) offsetof(struct aorta_records, member)
const struct aorta_row aorta_summary_records_rows[] = {
    {"iterations", AORTA_ROW_INT, AT(iterations), .help = "that the device's records are of"},
    {"kernels", AORTA_ROW_INT, AT(kernels), .help = "kernels and copies in them"},
    {"attributed", AORTA_ROW_INT, AT(attributed), .help = "with a known range"},
    {"dropped", AORTA_ROW_INT, AT(dropped), .help = "lost"},
    {"launches", AORTA_ROW_INT, AT(launches), .help = "by the host"},
    {0}};
#undef AT

/* ---- ranks ---- */

/* NULL if nothing was recorded on that rank. */
static const struct aorta_roofline *roofline_of(const struct aorta_recorded *labelled, int rank) {
    for (size_t i = 0; i < labelled->verdict.roofline_count; i++)
        if (labelled->analysis.ranks[i].rank == rank) return &labelled->verdict.rooflines[i];
    return NULL;
}

static const struct aorta_row cause_rows[] = {{"causes_ms", AORTA_ROW_NUMBER, 0, "ms", .help = "an iteration, by cause",
                                               .name = aorta_cause_name, .names = AORTA_CAUSE_COUNT},
                                              {0}};

static void write_causes(const struct aorta_recorded *labelled, int rank, struct aorta_json *json) {
    AORTA_EACH (const struct aorta_rank_costs, costs, labelled->verdict.ranks, labelled->verdict.rank_count) {
        double causes_ms[AORTA_CAUSE_COUNT];
        if (costs->rank != rank) continue;
        for (int cause = 0; cause < AORTA_CAUSE_COUNT; cause++)
            causes_ms[cause] = (double)costs->cause_ns[cause] / 1e6 / (double)costs->iterations;
        aorta_rows_json(cause_rows, causes_ms, 0, json);
        return;
    }
    aorta_json_key_object(json, "causes_ms");
    aorta_json_object_end(json);
}

static void write_rank(struct aorta_json *json, const struct aorta_recorded *labelled, size_t index) {
    const int rank = labelled->run.ranks[index];
    const struct aorta_measured *measured = &labelled->measured[index];
    aorta_json_object(json);
    aorta_json_key_int(json, "rank", rank);
    aorta_json_key_int(json, "iterations", (int64_t)measured->count);
    write_causes(labelled, rank, json);
    aorta_json_key_array(json, "step_ms_samples");
    for (size_t i = 0; i < measured->count; i++)
        aorta_json_double(json, aorta_metric_of(&aorta_metrics[0], &measured->steps[i]));
    aorta_json_array_end(json);
    write_metrics(json, labelled, rank);
    aorta_roofline_write(roofline_of(labelled, rank), json);
    aorta_clocks_json(&labelled->clocks[index], json);
    aorta_json_object_end(json);
}

static void write_missing_ranks(struct aorta_json *json, const struct aorta_run *run) {
    aorta_json_key_array(json, "missing_ranks");
    size_t found = 0;
    for (int rank = 0; rank < run->world_size; rank++)
        if (found < run->rank_count && run->ranks[found] == rank)
            found++;
        else
            aorta_json_int(json, rank);
    aorta_json_array_end(json);
}

struct coverage_values {
    int64_t rank;
    struct aorta_run_coverage found;
};

#define AT(member) offsetof(struct coverage_values, member)
static const struct aorta_row coverage_rows[] = {
    {"rank", AORTA_ROW_INT, AT(rank), .help = "whose file it is"},
    {"iterations", AORTA_ROW_INT, AT(found.count), .help = "in it"},
    {"first_step", AORTA_ROW_INT, AT(found.first), .help = "number of the first"},
    {"last_step", AORTA_ROW_INT, AT(found.last), .help = "number of the last"},
    {"absent_steps", AORTA_ROW_INT, AT(found.absent), .help = "between them"},
    {0}};
#undef AT

static enum aorta_line fill_coverage(const void *of, size_t index, void *values) {
    if (index >= ((const struct aorta_run *)of)->rank_count) return AORTA_LINE_END;
    const struct aorta_run *run = of;
    *(struct coverage_values *)values = (struct coverage_values){run->ranks[index], aorta_run_coverage(run, index)};
    return AORTA_LINE;
}

AORTA_TABLE(aorta_summary_coverage, "iterations_by_rank", .help = "what the file of each rank holds",
            AORTA_LINES(coverage_rows, struct coverage_values, fill_coverage));

/* ---- a run ---- */

struct loss_values {
    int64_t rank;
    double first, last;
};

struct run_values {
    const char *directory, *device, *source, *written_by, *host_bound_reason;
    int64_t world_size, iterations, warmup, incomplete_lines, read_every, clocks_rank;
    bool simulated;
    double overlap_ratio, host_bound;
    struct loss_values loss;
};

#define AT(member) offsetof(struct loss_values, member)
static const struct aorta_row loss_rows[] = {{"rank", AORTA_ROW_INT, AT(rank), .help = "of which it is"},
                                             {"first", AORTA_ROW_NUMBER, AT(first), .help = "of its first iteration"},
                                             {"last", AORTA_ROW_NUMBER, AT(last), .help = "of its last one"},
                                             {0}};
#undef AT
#define AT(member) offsetof(struct run_values, member)
const struct aorta_row aorta_summary_rows[] = {
    {"directory", AORTA_ROW_TEXT, AT(directory), .help = "of the run"},
    {"device", AORTA_ROW_TEXT, AT(device), .help = "`cpu`, `cuda` or `hip`"},
    {"source", AORTA_ROW_TEXT, AT(source), .help = "of the figures: `range` or `kernel`"},
    {"written_by", AORTA_ROW_TEXT, AT(written_by), .help = "which toolkit"},
    {"world_size", AORTA_ROW_INT, AT(world_size), .help = "ranks of the job"},
    {"simulated", AORTA_ROW_BOOL, AT(simulated), .help = "collectives were copies on one rank"},
    {"iterations", AORTA_ROW_INT, AT(iterations), .help = "that were read, of all ranks"},
    {"warmup_per_rank", AORTA_ROW_INT, AT(warmup), .help = "recorded ones left out at the start of each"},
    {"incomplete_lines", AORTA_ROW_INT, AT(incomplete_lines), .help = "last lines of killed ranks, left out"},
    {"read_every", AORTA_ROW_INT, AT(read_every),
     .help = "ranges of every so many recorded iterations were read: above 1 GiB of files, or `--read-every`"},
    {"loss", AORTA_ROW_PART, AT(loss), .part = loss_rows},
    {"overlap_ratio_total", AORTA_ROW_NUMBER, AT(overlap_ratio), "share", .help = "sum of overlap / of communication"},
    {"host_bound_share", AORTA_ROW_NUMBER, AT(host_bound), "share",
     .help = "of the steps in which the device waited for the host"},
    {"host_bound_reason", AORTA_ROW_TEXT, AT(host_bound_reason), .help = "why it is null", .omit = true},
    {"clocks_rank", AORTA_ROW_INT, AT(clocks_rank), .help = "whose clock is the lowest: that of `clocks`"},
    {0}};
#undef AT

static struct loss_values loss_of(const struct aorta_run *run) {
    const struct aorta_step_metrics *first = &run->steps[0], *last = first;
    for (size_t i = 0; i < run->step_count && run->steps[i].rank == first->rank; i++) last = &run->steps[i];
    return (struct loss_values){first->rank, first->loss, last->loss};
}

static struct run_values run_of(const struct aorta_recorded *labelled) {
    const struct aorta_run *run = &labelled->run;
    const bool analyzed = labelled->has_verdict;
    const double host_bound = host_bound_share(labelled);
    return (struct run_values){
        .directory = run->directory,
        .device = run->device,
        .source = aorta_profile_source_name(labelled->by_kernels ? AORTA_SOURCE_KERNEL : AORTA_SOURCE_RANGE),
        .written_by = run->original ? "the original Python toolkit" : "aorta",
        .world_size = run->world_size,
        .simulated = run->simulated || (analyzed && labelled->verdict.simulated),
        .iterations = (int64_t)run->step_count,
        .warmup = (int64_t)labelled->warmup,
        .incomplete_lines = (int64_t)run->torn_lines,
        .read_every = run->read_every,
        .loss = loss_of(run),
        .overlap_ratio = analyzed ? labelled->verdict.overlap_ratio : NAN,
        .host_bound = host_bound,
        .host_bound_reason = isnan(host_bound) ? "the files hold no launch times" : NULL,
        .clocks_rank = run->ranks[labelled->lowest_clock]};
}

static void write_verdict(const struct aorta_recorded *labelled, struct aorta_json *json) {
    const struct aorta_verdict *verdict = &labelled->verdict;
    if (!labelled->has_verdict) {
        aorta_json_key_null(json, "verdict");
        aorta_json_key_string(json, "verdict_reason", "no ranges were recorded in this run");
        return;
    }
    aorta_json_key_bool(json, "common_clock", verdict->common_clock);
    aorta_json_key_bool(json, "compute_is_upper_bound", verdict->coarse || verdict->gaps);
    aorta_rows_object("gemm_slowdown", aorta_trace_slowdown_rows, &verdict->slowdown, 0, json);
    aorta_verdict_json(verdict, json);
}

void aorta_summary_of(const struct aorta_recorded *labelled, struct aorta_json *json) {
    const struct aorta_run *run = &labelled->run;
    const struct run_values values = run_of(labelled);
    aorta_json_object(json);
    aorta_rows_json(aorta_summary_rows, &values, 0, json);
    aorta_json_key_object(json, "environment");
    for (size_t i = 0; i < labelled->environment.count; i++)
        aorta_json_key_string(json, labelled->environment.items[i].key, labelled->environment.items[i].value);
    aorta_json_object_end(json);
    if (labelled->records.iterations)
        aorta_rows_object("records", aorta_summary_records_rows, &labelled->records, 0, json);
    aorta_recording_json(labelled, json);
    write_missing_ranks(json, run);
    aorta_table_json(&aorta_summary_coverage, run, json);
    write_metrics(json, labelled, -1);
    write_collectives(json, labelled);
    write_verdict(labelled, json);
    aorta_clocks_json(&labelled->clocks[labelled->lowest_clock], json);
    aorta_recorded_machine_json(&labelled->machine, json);
    aorta_json_key_array(json, "ranks");
    for (size_t i = 0; i < run->rank_count; i++) write_rank(json, labelled, i);
    aorta_json_array_end(json);
    aorta_json_object_end(json);
}

/* ---- CSV ---- */

struct figure_values {
    const char *label, *figure, *unit;
    int64_t rank;
    struct aorta_summary statistics;
};

#define AT(member) offsetof(struct figure_values, member)
static const struct aorta_row figure_rows[] = {
    {"label", AORTA_ROW_TEXT, AT(label), .help = "of the run"},
    {"rank", AORTA_ROW_INT, AT(rank), .help = "null: all ranks"},
    {"figure", AORTA_ROW_TEXT, AT(figure), .help = "its key in the JSON"},
    {"unit", AORTA_ROW_TEXT, AT(unit), .help = "of the statistics"},
    {NULL, AORTA_ROW_PART, AT(statistics), .part = aorta_summary_statistics_rows},
    {0}};
#undef AT

struct figures_of {
    const struct aorta_recorded *labelled;
    double *samples;
};

static size_t metric_count(void) {
    size_t count = 1;
    while (aorta_metrics[count].key) count++;
    return count;
}

static enum aorta_line fill_figure(const void *of, size_t index, void *values) {
    if (index >= metric_count() * (1 + ((const struct figures_of *)of)->labelled->run.rank_count))
        return AORTA_LINE_END;
    const struct figures_of *figures = of;
    const struct aorta_run *run = &figures->labelled->run;
    const struct aorta_metric *metric = &aorta_metrics[index % metric_count()];
    const size_t group = index / metric_count();
    const int rank = group ? run->ranks[group - 1] : -1;
    *(struct figure_values *)values =
        (struct figure_values){.label = run->label,
                               .figure = metric->key,
                               .unit = metric->unit,
                               .rank = group ? rank : AORTA_ROW_UNKNOWN,
                               .statistics = summarise_metric(figures->labelled, metric, rank, figures->samples)};
    return AORTA_LINE;
}

static AORTA_TABLE(figures_table, "figures", AORTA_LINES(figure_rows, struct figure_values, fill_figure));
static AORTA_TABLE(collectives_table, "collectives",
                   AORTA_LINES(named_collective_rows, struct collective_values, fill_collective));

static void add_figures(const struct aorta_recorded *labelled, struct aorta_text *csv) {
    struct aorta_arena scratch = {0};
    const struct figures_of figures = {labelled, aorta_arena_raw(&scratch, labelled->run.step_count * sizeof(double))};
    if (figures.samples) aorta_table_csv_lines(&figures_table, &figures, NULL, csv);
    aorta_text_arena_end(csv, &scratch);
}

aorta_status aorta_summary_csv(const struct aorta_recorded *runs, size_t count, const char *folder) {
    struct aorta_text figures = {0}, collectives = {0};
    aorta_table_csv_header(&figures_table, NULL, &figures);
    aorta_table_csv_header(&collectives_table, NULL, &collectives);
    for (size_t i = 0; i < count; i++) {
        add_figures(&runs[i], &figures);
        const struct collectives_of all = sum_collectives(&runs[i]);
        aorta_table_csv_lines(&collectives_table, &all, NULL, &collectives);
    }
    aorta_status status = aorta_csv_write(folder, figures_table.key, &figures);
    if (!status) status = aorta_csv_write(folder, collectives_table.key, &collectives);
    aorta_text_free(&figures);
    aorta_text_free(&collectives);
    return status;
}

/* ---- the summary ---- */

aorta_status aorta_summary_write(const struct aorta_recorded *runs, size_t count, const struct aorta_label *reference,
                                 const struct aorta_label *candidate, struct aorta_text *out) {
    struct aorta_json json;
    aorta_json_output(&json, out, 2, AORTA_SUMMARY_SCHEMA);
    aorta_json_key_object(&json, "labels");
    for (size_t i = 0; i < count; i++) {
        aorta_json_key(&json, runs[i].run.label);
        aorta_summary_of(&runs[i], &json);
    }
    aorta_json_object_end(&json);
    aorta_json_key_object(&json, "datasets");
    for (size_t i = 0; i < count; i++) write_dataset(&runs[i], &json);
    aorta_json_object_end(&json);
    if (reference && candidate) {
        aorta_json_key(&json, "comparison");
        aorta_label_comparison_json(reference, candidate, &json);
    }
    aorta_json_output_end(&json);
    return aorta_text_check(out);
}
