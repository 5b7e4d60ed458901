#include "hwq/run.h"
#include "hwq/graph.h"
#include "hwq/limit.h"
#include "measure/machine.h"
#include "ops/ops.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Limits of stamped iterations; at least three run. */
enum { STAMPED_ITERATIONS = 20, STAMPED_MS = 4000 };

const char *aorta_hwq_sync_name(enum aorta_hwq_sync sync) {
    static const char *const names[] = {"per_iteration", "end_only", "none"};
    return names[sync];
}

int64_t aorta_hwq_run_streams(const struct aorta_hwq_workload *w, const void *options, int64_t asked) {
    const int64_t wanted = asked ? asked : w->streams.recommended;
    const int64_t needed = w->needs_streams && options ? w->needs_streams(options) : 0;
    return needed > wanted && needed <= w->streams.max ? needed : wanted;
}

static int stream_count(const struct aorta_hwq_run *run) {
    return (int)aorta_hwq_run_streams(run->workload, run->options, run->streams);
}

aorta_status aorta_hwq_run_check(const struct aorta_hwq_run *run) {
    const struct aorta_hwq_workload *w = run->workload;
    if (run->streams && !aorta_hwq_serves(w, run->streams))
        return AORTA_ERROR(AORTA_USAGE, "--streams %" PRId64 ": %s runs on %d to %d streams (%d recommended)",
                           run->streams, w->name, w->streams.min, w->streams.max, w->streams.recommended);
    return NULL;
}

/* ---- the streams ---- */

static aorta_status open_streams(struct aorta_hwq *hwq) {
    const int wanted = hwq->stream_count;
    for (int s = 0; s < wanted; s++) {
        char name[32];
        snprintf(name, sizeof name, "hwq %d", s);
        hwq->stream_count = s;
        AORTA_TRY(aorta_stream_create(hwq->device, name, aorta_hwq_priority(hwq, s), &hwq->streams[s]));
    }
    hwq->stream_count = wanted;
    return NULL;
}

/* ---- timed ---- */

/* The workload's counters must not include the warm-up. */
static aorta_status warm_up(const struct aorta_hwq_plan *plan, int64_t iterations) {
    struct aorta_hwq_plan plain = *plan;
    struct aorta_hwq_runner runner;
    plain.graph = plain.gate = false;
    AORTA_TRY(aorta_hwq_runner_open(&plain, &runner));
    aorta_status status = aorta_hwq_runner_warm_up(&runner, iterations);
    aorta_hwq_runner_close(&runner);
    return status;
}

static void add_rates(struct aorta_hwq_result *result, const struct aorta_hwq_times *times) {
    const double per_iteration = (double)times->queued, mean_s = result->latency_ms.mean * 1e-3;
    const struct aorta_summary host = aorta_summarise(result->host_launch_ms, result->iteration_count);
    aorta_hwq_result_figure(result, "launches_per_iteration", "launches", per_iteration, NULL);
    aorta_hwq_result_figure(result, "launches_per_second", "1/s", per_iteration / mean_s, "iterations took no time");
    aorta_hwq_result_figure(result, "host_launch_p50", "ms", host.p50, "no iterations");
    aorta_hwq_result_figure(result, "host_us_per_launch", "us", 1e3 * host.p50 / per_iteration, "nothing was launched");
    aorta_hwq_result_figure(result, "wall_iteration", "ms", times->wall_ms / (double)result->iteration_count,
                            "no iterations");
}

/* While the device's clock is sampled. */
static aorta_status time_iterations(struct aorta_hwq *hwq, const struct aorta_hwq_plan *plan,
                                    struct aorta_hwq_clock_sampler **sampler, struct aorta_clocks *clocks,
                                    struct aorta_hwq_times *times) {
    AORTA_TRY(hwq_graph_start(plan->g));
    aorta_device_reset_peak(hwq->device);
    AORTA_TRY(aorta_hwq_clock_sampler_begin(hwq->device, sampler));
    AORTA_TRY(aorta_hwq_time_iterations(plan, times));
    return aorta_hwq_clock_sampler_end(*sampler, clocks);
}

static double gib(uint64_t bytes) {
    return (double)bytes / (double)(1 << 30);
}

static aorta_status measure_times(struct aorta_hwq *hwq, const struct aorta_hwq_plan *plan,
                                  struct aorta_hwq_result *result) {
    const size_t count = (size_t)plan->iterations;
    struct aorta_hwq_times times = {.iteration_ms = aorta_arena_alloc(&result->arena, count * sizeof(double)),
                                    .host_ms = aorta_arena_alloc(&result->arena, count * sizeof(double))};
    struct aorta_hwq_clock_sampler *sampler = NULL;
    double amount;
    AORTA_TRY(aorta_arena_check(&result->arena, "a result"));
    aorta_status status = time_iterations(hwq, plan, &sampler, &result->clocks, &times);
    aorta_hwq_clock_sampler_close(sampler);
    if (status) return status;
    result->iteration_times_ms = times.iteration_ms;
    result->host_launch_ms = times.host_ms;
    result->iteration_count = count;
    result->latency_ms = aorta_summarise(times.iteration_ms, count);
    for (size_t i = 0; i < count; i++) result->total_time_ms += times.iteration_ms[i];
    add_rates(result, &times);
    /* The counters include a graph's own warm-up. */
    const int64_t ran = plan->iterations + (plan->graph ? 2 : 0);
    AORTA_TRY(hwq_graph_amount(plan->g, ran, &amount));
    const double seconds = result->total_time_ms * 1e-3 * (double)ran / (double)plan->iterations;
    result->throughput = amount / seconds;
    const struct aorta_memory_info memory = aorta_device_memory(hwq->device);
    result->memory = (struct aorta_hwq_memory){gib(memory.peak), gib(memory.peak_reserved), gib(memory.allocated),
                                               gib(memory.reserved), NULL};
    return NULL;
}

/* The number of later iterations depends on the pace. With their own pace, ranks would run different numbers and wait
 * for collectives that never start. */
static aorta_status agree_on_pace(const struct aorta_hwq_run *run, struct aorta_hwq *hwq,
                                  struct aorta_hwq_result *result) {
    float pace_ms = (float)result->latency_ms.p50, *memory;
    if (!run->world || aorta_comm_size(run->world) < 2) return NULL;
    AORTA_TRY(aorta_own_memory(&hwq->owned, 2 * sizeof *memory, "the pace of the ranks", &memory));
    AORTA_TRY(aorta_hwq_transfer(hwq, memory, &pace_ms, sizeof pace_ms));
    AORTA_TRY(aorta_all_reduce(run->world, hwq->streams[0], memory, memory + 1, 1, AORTA_F32, AORTA_MAX));
    AORTA_TRY(aorta_hwq_transfer(hwq, &pace_ms, memory + 1, sizeof pace_ms));
    result->pace_ms = (double)pace_ms;
    return NULL;
}

/* ---- stamped ---- */

struct stamped {
    struct aorta_hwq_stamps_file *file; /* may be NULL */
    struct aorta_hwq_gaps gaps;
    struct aorta_hwq_busy busy;
    double streams_ns[AORTA_HWQ_MAX_STREAMS]; /* work of each, over all iterations */
    size_t unstamped, iterations;
};

static aorta_status add_spans(void *user, const struct aorta_hwq_spans *spans) {
    struct stamped *stamped = user;
    stamped->unstamped += spans->unstamped;
    stamped->iterations++;
    for (size_t i = 0; i < spans->count; i++)
        if (spans->items[i].kind != AORTA_SPAN_HOST)
            stamped->streams_ns[spans->items[i].stream] += (double)(spans->items[i].end_ns - spans->items[i].start_ns);
    if (stamped->file) AORTA_TRY(aorta_hwq_stamps_file_add(stamped->file, "workload", spans));
    aorta_hwq_busy_add(&stamped->busy, spans);
    aorta_hwq_gaps_add(&stamped->gaps, spans);
    AORTA_TRY(aorta_arena_check(&stamped->busy.memory, "samples"));
    return aorta_arena_check(&stamped->gaps.memory, "samples");
}

/* The workload's median, or the probe's if the workload has no such gap. */
static void set_gap(const struct aorta_hwq_samples *samples, double probe_ms, size_t probe_samples, double *ms,
                    size_t *count, const char **source) {
    const bool own = samples->count > 0;
    *ms = own ? 1e-6 * aorta_hwq_samples_median(samples) : probe_ms;
    *count = own ? samples->count : probe_samples;
    *source = !*count ? NULL : own ? "workload" : "probe";
}

static aorta_status store_streams(const struct stamped *stamped, struct aorta_hwq_result *result) {
    if (stamped->unstamped || !stamped->iterations) return NULL;
    const size_t count = (size_t)result->stream_count;
    result->per_stream_times_ms = aorta_arena_alloc(&result->arena, count * sizeof(double));
    if (!result->per_stream_times_ms) return AORTA_ERROR(AORTA_MEMORY, "no host memory for the times of streams");
    for (size_t i = 0; i < count; i++)
        result->per_stream_times_ms[i] = 1e-6 * stamped->streams_ns[i] / (double)stamped->iterations;
    return NULL;
}

static struct aorta_hwq_host_gaps host_gaps(const struct aorta_hwq_gaps *gaps) {
    return (struct aorta_hwq_host_gaps){.inter_samples = gaps->host_inter.count,
                                        .intra_samples = gaps->host_intra.count,
                                        .inter_ms = 1e-6 * aorta_hwq_samples_median(&gaps->host_inter),
                                        .intra_ms = 1e-6 * aorta_hwq_samples_median(&gaps->host_intra)};
}

static aorta_status measure_gaps(const struct aorta_hwq_run *run, struct aorta_hwq *hwq,
                                 const struct aorta_hwq_plan *plan, struct aorta_hwq_result *result) {
    struct aorta_hwq_plan few = *plan;
    struct aorta_hwq_switch *found = &result->switch_latency;
    struct aorta_hwq_probe *probe = &found->probe;
    struct stamped stamped = {.file = run->stamps_file};
    *probe = (struct aorta_hwq_probe){.intra_ms = NAN, .all = {NAN, NAN, 0}};
    probe->same_priority = probe->across_priorities = probe->chosen = probe->all;
    few.progress = NULL;
    few.iterations = aorta_hwq_result_iterations(result, STAMPED_MS, STAMPED_ITERATIONS);
    if (few.iterations > plan->iterations) few.iterations = plan->iterations;
    aorta_status status = aorta_hwq_stamp_iterations(&few, add_spans, &stamped);
    if (!status) {
        aorta_status failed = aorta_hwq_probe_run(hwq, run->stamps_file, probe);
        if (failed) found->reason = aorta_arena_strdup(&result->arena, aorta_status_message(failed));
        aorta_status_free(failed); /* found->reason has its text, and the rest of the result is valid */
        status = aorta_hwq_wait_for_streams(hwq);
    }
    if (run->stamps_file) run->stamps_file->tick_ns = aorta_device_get_info(hwq->device)->timestamp_tick;
    set_gap(&stamped.gaps.inter, probe->all.gap_ms, probe->all.samples, &found->inter_gap_ms, &found->inter_samples,
            &found->inter_source);
    set_gap(&stamped.gaps.intra, probe->intra_ms, probe->all.samples, &found->intra_gap_ms, &found->intra_samples,
            &found->intra_source);
    found->overhead_ms = probe->chosen.overhead_ms;
    found->host = host_gaps(&stamped.gaps);
    found->clock = "kernel";
    if (stamped.unstamped && !found->reason) found->reason = "kernels left no stamp: they did not run";
    if (!status) status = store_streams(&stamped, result);
    result->limit = aorta_hwq_limit_find(&stamped.busy, result, run->gate);
    aorta_arena_free(&stamped.gaps.memory);
    aorta_arena_free(&stamped.busy.memory);
    return status;
}

/* ---- verified ---- */

/* Verifies one iteration after `start`. With --graph the replay is verified, and replayed again for workloads that
 * overwrite their results first. */
static aorta_status check_iteration(const struct aorta_hwq_run *run, struct aorta_hwq *hwq, struct hwq_graph *g,
                                    struct aorta_hwq_check *check) {
    const struct aorta_hwq_plan plan = {.graph = run->graph, .g = g};
    struct aorta_hwq_runner runner;
    int64_t host_ns;
    AORTA_TRY(aorta_hwq_runner_open(&plan, &runner));
    aorta_status status = run->graph ? aorta_hwq_runner_capture(&runner) : NULL;
    if (!status) status = hwq_graph_start(g);
    if (!status) status = aorta_hwq_runner_run(&runner, -1, &host_ns);
    if (!status) status = aorta_hwq_wait_for_streams(hwq);
    hwq->replay = run->graph ? &runner : NULL;
    if (!status) status = hwq_graph_check(g, check);
    hwq->replay = NULL;
    aorta_hwq_runner_close(&runner);
    return status;
}

static aorta_status verify(const struct aorta_hwq_run *run, struct aorta_hwq *hwq, struct hwq_graph *g,
                           struct aorta_hwq_result *result) {
    struct aorta_hwq_check check = {.worst = 0};
    AORTA_TRY(check_iteration(run, hwq, g, &check));
    const bool good = check.no_part || (check.compared > 0 && check.worst <= 1.0);
    result->verified = good ? "passed" : "failed";
    result->worst_at = check.what[0] ? aorta_arena_strdup(&result->arena, check.what) : NULL;
    result->worst_got = check.got;
    result->worst_expected = check.expected;
    result->figure_group = NULL;
    aorta_hwq_result_figure(result, "verified_values", "values", (double)check.compared, NULL);
    aorta_hwq_result_figure(result, "verified_worst", "of the allowed error", isfinite(check.worst) ? check.worst : NAN,
                            "a value is not finite");
    aorta_hwq_metadata_string(result, "verification", "worst_at", check.what);
    aorta_hwq_metadata_number(result, "verification", "worst_got", check.got);
    aorta_hwq_metadata_number(result, "verification", "worst_expected", check.expected);
    if (!good) aorta_hwq_result_finding(result, AORTA_HWQ_WRONG_RESULT);
    return NULL;
}

/* ---- a run ---- */

static void set_name(const struct aorta_hwq_run *run, struct aorta_hwq_result *result) {
    char stamp[64];
    struct timespec now;
    struct tm local;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    const size_t length = strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &local);
    snprintf(stamp + length, sizeof stamp - length, ".%06ld", now.tv_nsec / 1000);
    result->schema_version = AORTA_HWQ_SCHEMA_VERSION;
    result->workload_name = run->workload->name;
    result->throughput_unit = run->workload->unit;
    result->stream_count = stream_count(run);
    result->simulated = run->world && aorta_comm_simulated(run->world);
    result->timestamp = aorta_arena_strdup(&result->arena, stamp);
}

static aorta_status measure(const struct aorta_hwq_run *run, struct aorta_hwq *hwq, struct hwq_graph *g, void *user) {
    struct aorta_hwq_result *result = user;
    const struct aorta_hwq_plan plan = {.sync = run->sync,
                                        .graph = run->graph,
                                        .gate = run->gate,
                                        .independent = run->workload->independent,
                                        .iterations = run->iterations,
                                        .g = g,
                                        .progress = run->progress,
                                        .user = run->user};
    const pid_t root = run->ranks.local_world_size > 1 ? getppid() : getpid(); /* the launcher's ranks are one job */
    struct aorta_machine_reading before, after;
    aorta_machine_look(root, &before);
    if (run->warmup) AORTA_TRY(warm_up(&plan, run->warmup));
    AORTA_TRY(measure_times(hwq, &plan, result));
    AORTA_TRY(agree_on_pace(run, hwq, result));
    AORTA_TRY(measure_gaps(run, hwq, &plan, result));
    aorta_machine_look(root, &after);
    result->pressure = aorta_machine_pressure_between(&before, &after);
    aorta_hwq_find_low_clocks(result);
    aorta_hwq_find_drift(result);
    if (run->workload->report) AORTA_TRY(run->workload->report(g, result));
    if (run->verify) AORTA_TRY(aorta_annotate(verify(run, hwq, g, result), "--verify"));
    return aorta_hwq_metadata_fill(run, hwq, result);
}

static aorta_status use_streams(const struct aorta_hwq_run *run, struct aorta_hwq *hwq, aorta_hwq_use use, void *user) {
    const struct aorta_hwq_workload *w = run->workload;
    struct hwq_graph *g = NULL;
    AORTA_TRY(open_streams(hwq));
    for (int s = 0; s < hwq->stream_count; s++) AORTA_TRY(aorta_ops_prepare(hwq->streams[s]));
    aorta_status status = hwq_graph_create(hwq, w, &g);
    if (!status) status = aorta_hwq_wait_for_streams(hwq);
    if (!status) status = use(run, hwq, g, user);
    status = aorta_status_join(status, aorta_hwq_wait_for_streams(hwq));
    hwq_graph_destroy(g);
    return status;
}

aorta_status aorta_hwq_run_with(const struct aorta_hwq_run *run, aorta_hwq_use use, void *user) {
    struct aorta_arena arena = {0};
    struct aorta_hwq hwq = {.workload = run->workload,
                            .device = run->device,
                            .owned = {.device = run->device},
                            .stream_count = stream_count(run),
                            .options = run->options,
                            .ranks = run->ranks,
                            .world = run->world,
                            .seed = run->seed,
                            .log = run->log,
                            .arena = &arena};
    aorta_status status = aorta_hwq_run_check(run);
    if (!status && run->workload->check) status = run->workload->check(&hwq);
    if (!status) status = use_streams(run, &hwq, use, user);
    aorta_owned_free(&hwq.owned);
    for (int s = 0; s < AORTA_HWQ_MAX_STREAMS; s++) aorta_stream_destroy(hwq.streams[s]);
    aorta_arena_free(&arena);
    return aorta_annotate(status, "%s", run->workload->name);
}

aorta_status aorta_hwq_run_execute(const struct aorta_hwq_run *run, struct aorta_hwq_result *result) {
    *result = (struct aorta_hwq_result){.throughput = NAN};
    set_name(run, result);
    return aorta_hwq_run_with(run, measure, result);
}

/* ---- sweep ---- */

enum { BAR = 30 };
static const double inflection = 0.8;

static void find_answer(const struct aorta_hwq_result *results, size_t count, double peak,
                        struct aorta_hwq_scaling *scaling) {
    const bool falls = scaling->inflection_point != AORTA_ROW_UNKNOWN;
    const enum aorta_hwq_finding answer = isnan(peak) ? AORTA_HWQ_SWEEP_UNKNOWN
                                          : falls     ? AORTA_HWQ_SWEEP_FALLS
                                          : count > 1 ? AORTA_HWQ_SWEEP_SCALES
                                                      : AORTA_HWQ_SWEEP_ONE;
    HWQ_FIND(&scaling->found, answer, hwq_text("workload", results->workload_name),
             hwq_count("peak_streams", isnan(peak) ? NAN : (double)scaling->peak_streams),
             hwq_value("throughput", peak, results->throughput_unit),
             hwq_count("inflection_point", falls ? (double)scaling->inflection_point : NAN));
}

/* Reports the limits of the best and of the largest stream count. */
static void find_sweep(const struct aorta_hwq_result *results, size_t count, double peak,
                       struct aorta_hwq_scaling *scaling) {
    struct aorta_found_list *found = &scaling->found;
    find_answer(results, count, peak, scaling);
    for (size_t i = 0; i < count; i++) {
        if (results[i].stream_count != scaling->peak_streams && i + 1 < count) continue;
        found->place = aorta_arena_strdup(&found->arena, aorta_counted(results[i].stream_count, "stream").text);
        aorta_hwq_result_add(&results[i], results[i].limit.by, found);
    }
    found->place = NULL;
    if (results->simulated) aorta_hwq_add(found, AORTA_HWQ_SWEEP_SIMULATED, NULL);
    HWQ_FIND(found, AORTA_HWQ_SWEEP_TRY, hwq_text("workload", results->workload_name));
}

aorta_status aorta_hwq_scaling_make(const struct aorta_hwq_result *results, size_t count,
                                    struct aorta_hwq_scaling *scaling) {
    double first = NAN, before = NAN, peak = NAN;
    *scaling = (struct aorta_hwq_scaling){.inflection_point = AORTA_ROW_UNKNOWN, .peak_streams = AORTA_ROW_UNKNOWN};
    scaling->efficiencies = aorta_arena_alloc(&scaling->found.arena, count * sizeof(double));
    for (size_t i = 0; scaling->efficiencies && i < count; i++) {
        const double throughput = results[i].throughput, each = throughput / results[i].stream_count;
        const bool known = isfinite(throughput) && throughput > 0.0;
        if (known && isnan(first)) first = each;
        scaling->efficiencies[i] = known ? each / first : NAN;
        if (!known) continue;
        if (scaling->inflection_point == AORTA_ROW_UNKNOWN && scaling->efficiencies[i] <= inflection * before)
            scaling->inflection_point = results[i].stream_count;
        before = scaling->efficiencies[i];
        if (throughput <= peak) continue;
        peak = throughput;
        scaling->peak_streams = results[i].stream_count;
    }
    find_sweep(results, count, peak, scaling);
    return aorta_arena_check(&scaling->found.arena, "how a workload scales");
}

void aorta_hwq_scaling_free(struct aorta_hwq_scaling *scaling) {
    aorta_found_free(&scaling->found);
}

static double peak_of(const struct aorta_hwq_result *results, size_t count) {
    double peak = 0.0;
    for (size_t i = 0; i < count; i++) peak = fmax(peak, results[i].throughput);
    return peak;
}

static void say_row(const struct aorta_hwq_result *result, double efficiency, double peak, struct aorta_text *out) {
    char bar[BAR + 1];
    const char *limit = result->limit.key;
    const double share = result->throughput / peak;
    const int filled = share > 0.0 ? (int)lround(share * BAR) : 0;
    memset(bar, '#', (size_t)filled);
    bar[filled] = '\0';
    aorta_text_printf(out, "%7d %12s %10.4f %10.4f %9.0f%% %11.2f  %-9s  %s\n", result->stream_count,
                      isnan(result->throughput) ? "-" : aorta_brief(result->throughput).text, result->latency_ms.p50,
                      result->latency_ms.p99, 100 * efficiency, 1e3 * result->switch_latency.overhead_ms,
                      limit ? limit : "-", bar);
}

void aorta_hwq_sweep_text(const struct aorta_hwq_result *results, size_t count, const struct aorta_hwq_scaling *scaling,
                          struct aorta_text *out) {
    const double peak = peak_of(results, count);
    aorta_found_text(&scaling->found, out);
    aorta_text_printf(out, "\n%7s %12s %10s %10s %10s %11s  %-9s  throughput\n", "streams", results[0].throughput_unit,
                      "p50 ms", "p99 ms", "efficiency", "switch us", "limit");
    for (size_t i = 0; i < count; i++) say_row(&results[i], scaling->efficiencies[i], peak, out);
}

#define AT(member) offsetof(struct aorta_hwq_scaling, member)
static const struct aorta_row scaling_rows[] = {
    {"inflection_point", AORTA_ROW_INT, AT(inflection_point),
     .help = "first number of streams with an efficiency a "
             "fifth or more below the previous one"},
    {"peak_stream_count", AORTA_ROW_INT, AT(peak_streams), .help = "streams with the highest throughput"},
    {0}};

void aorta_hwq_results_json(const struct aorta_hwq_result *results, size_t count,
                            const struct aorta_hwq_scaling *scaling, struct aorta_json *json) {
    if (!scaling) {
        aorta_hwq_result_json(results, json);
        return;
    }
    aorta_json_object(json);
    aorta_json_key_int(json, "schema_version", AORTA_HWQ_SCHEMA_VERSION);
    aorta_json_key_string(json, "timestamp", results[count - 1].timestamp);
    aorta_json_key_string(json, "workload", results[0].workload_name);
    aorta_found_answer_json("headline", &scaling->found, json);
    aorta_found_facts_json(&scaling->found, json);
    aorta_json_key_array(json, "results");
    for (size_t i = 0; i < count; i++) aorta_hwq_result_json(&results[i], json);
    aorta_json_array_end(json);
    aorta_json_key_object(json, "analysis");
    aorta_json_key_array(json, "stream_counts");
    for (size_t i = 0; i < count; i++) aorta_json_int(json, results[i].stream_count);
    aorta_json_array_end(json);
    aorta_json_key_array(json, "throughputs");
    for (size_t i = 0; i < count; i++) aorta_json_double(json, results[i].throughput);
    aorta_json_array_end(json);
    aorta_json_key_array(json, "efficiencies");
    for (size_t i = 0; i < count; i++) aorta_json_double(json, scaling->efficiencies[i]);
    aorta_json_array_end(json);
    aorta_rows_json(scaling_rows, scaling, 0, json);
    aorta_json_object_end(json);
    aorta_json_object_end(json);
}

void aorta_hwq_sweep_schema(struct aorta_json *json) {
    aorta_found_schema(json);
    aorta_rows_schema_object("analysis", scaling_rows, json);
}

aorta_status aorta_hwq_results_write(const struct aorta_hwq_result *results, size_t count,
                                     const struct aorta_hwq_scaling *scaling, const char *path) {
    struct aorta_text text = {0};
    struct aorta_json json;
    aorta_json_begin(&json, &text, 2);
    aorta_hwq_results_json(results, count, scaling, &json);
    aorta_text_puts(&text, "\n");
    aorta_status status = aorta_file_put(path, &text);
    aorta_text_free(&text);
    return status;
}
