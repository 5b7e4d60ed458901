#include "hwq/run.h"
#include "hwq/frame.h"
#include "hwq/gaps.h"
#include "hwq/kept.h"
#include "hwq/limit.h"
#include "hwq/probe.h"
#include "hwq/watch.h"
#include "ops/ops.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* At most: each is waited for and read. Of long ones fewer, of which three at least. */
enum { STAMPED_ITERATIONS = 20, STAMPED_MS = 4000 };

const char *aorta_hwq_sync_name(enum aorta_hwq_sync sync) {
    static const char *const names[] = {"per_iteration", "end_only", "none"};
    return names[sync];
}

static int stream_count(const struct aorta_hwq_run *run) {
    return run->streams ? (int)run->streams : run->workload->recommended_streams;
}

aorta_status aorta_hwq_run_check(const struct aorta_hwq_run *run) {
    const struct aorta_hwq_workload *w = run->workload;
    if (run->streams && (run->streams < w->min_streams || run->streams > w->max_streams))
        return AORTA_ERROR(AORTA_USAGE, "--streams %" PRId64 ": %s runs on %d to %d streams (%d recommended)",
                           run->streams, w->name, w->min_streams, w->max_streams, w->recommended_streams);
    if (run->gate && run->sync != AORTA_HWQ_PER_ITERATION)
        return AORTA_ERROR(AORTA_USAGE,
                           "--gate holds one iteration at a time: it goes with --sync-mode per_iteration "
                           "only, not with %s",
                           aorta_hwq_sync_name(run->sync));
    return NULL;
}

/* ---- the streams ---- */

static enum aorta_priority priority_of(const struct aorta_hwq *hwq, const struct aorta_hwq_workload *w, int stream) {
    return w->priority ? w->priority(hwq, stream) : AORTA_PRIORITY_NORMAL;
}

static aorta_status open_streams(struct aorta_hwq *hwq, const struct aorta_hwq_workload *w) {
    const int wanted = hwq->stream_count;
    for (int s = 0; s < wanted; s++) {
        char name[32];
        snprintf(name, sizeof name, "hwq %d", s);
        hwq->stream_count = s;
        AORTA_TRY(aorta_stream_create(hwq->device, name, priority_of(hwq, w, s), &hwq->streams[s]));
    }
    hwq->stream_count = wanted;
    return NULL;
}

static void close_streams(struct aorta_hwq *hwq) {
    for (int s = 0; s < AORTA_HWQ_MAX_STREAMS; s++) aorta_stream_destroy(hwq->streams[s]);
}

static aorta_status wait_for_all(struct aorta_hwq *hwq) {
    aorta_status status = NULL;
    for (int s = 0; s < hwq->stream_count; s++)
        status = aorta_status_join(status, aorta_stream_synchronize(hwq->streams[s]));
    return status;
}

/* ---- passes ---- */

static aorta_status start(const struct aorta_hwq_run *run, struct aorta_hwq *hwq, void *state) {
    if (run->workload->start) AORTA_TRY(run->workload->start(hwq, state));
    return wait_for_all(hwq);
}

/* Counters of the workload begin with the measured iterations: the warm-up is a pass of its own. */
static aorta_status warm_up(struct aorta_hwq *hwq, const struct aorta_hwq_plan *plan) {
    struct aorta_hwq_plan warmup = *plan;
    struct aorta_hwq_times times;
    if (plan->warmup < 1) return NULL;
    warmup.iterations = plan->warmup;
    warmup.warmup = 0;
    warmup.graph = warmup.gate = false;
    warmup.tell = NULL;
    AORTA_TRY(aorta_hwq_pass_time(hwq, &warmup, &times));
    aorta_hwq_times_free(&times);
    return NULL;
}

static aorta_status keep_times(struct aorta_hwq_result *result, const struct aorta_hwq_times *times, int64_t count) {
    const size_t bytes = (size_t)count * sizeof(double);
    result->iteration_times_ms = aorta_arena_alloc(&result->arena, bytes);
    result->host_launch_ms = aorta_arena_alloc(&result->arena, bytes);
    if (!result->iteration_times_ms || !result->host_launch_ms)
        return AORTA_ERROR(AORTA_MEMORY, "no host memory for a result");
    memcpy(result->iteration_times_ms, times->iteration_ms, bytes);
    memcpy(result->host_launch_ms, times->host_ms, bytes);
    result->iteration_count = (size_t)count;
    result->latency_ms = aorta_summarise(times->iteration_ms, (size_t)count);
    for (int64_t i = 0; i < count; i++) result->total_time_ms += times->iteration_ms[i];
    return NULL;
}

static aorta_status add_rates(struct aorta_hwq_result *result, const struct aorta_hwq_times *times) {
    const double per_iteration = (double)times->queued, mean_s = result->latency_ms.mean * 1e-3;
    const struct aorta_summary host = aorta_summarise(result->host_launch_ms, result->iteration_count);
    AORTA_TRY(aorta_hwq_result_figure(result, "launches_per_iteration", "launches", per_iteration, NULL));
    AORTA_TRY(aorta_hwq_result_figure(result, "launches_per_second", "1/s", per_iteration / mean_s,
                                      "iterations took no time"));
    AORTA_TRY(aorta_hwq_result_figure(result, "host_launch_p50", "ms", host.p50, "no iterations"));
    AORTA_TRY(aorta_hwq_result_figure(result, "host_us_per_launch", "us", 1e3 * host.p50 / per_iteration,
                                      "nothing was launched"));
    return aorta_hwq_result_figure(result, "wall_iteration", "ms", times->wall_ms / (double)result->iteration_count,
                                   "no iterations");
}

/* The measured iterations, with an eye on the clock. */
static aorta_status time_iterations(const struct aorta_hwq_run *run, struct aorta_hwq *hwq,
                                    const struct aorta_hwq_plan *plan, struct aorta_hwq_watch *watch,
                                    struct aorta_clocks *clocks, struct aorta_hwq_times *times) {
    struct aorta_hwq_plan timed = *plan;
    AORTA_TRY(warm_up(hwq, plan));
    AORTA_TRY(start(run, hwq, plan->state));
    aorta_device_reset_peak(hwq->device);
    timed.warmup = 0;
    AORTA_TRY(aorta_hwq_watch_begin(watch));
    AORTA_TRY(aorta_hwq_pass_time(hwq, &timed, times));
    aorta_status status = aorta_hwq_watch_end(watch, clocks);
    if (status) aorta_hwq_times_free(times);
    return status;
}

static aorta_status time_pass(const struct aorta_hwq_run *run, struct aorta_hwq *hwq, const struct aorta_hwq_plan *plan,
                              struct aorta_hwq_result *result) {
    struct aorta_hwq_times times;
    struct aorta_hwq_watch *watch;
    double amount;
    AORTA_TRY(aorta_hwq_watch_open(hwq->device, &watch));
    aorta_status status = time_iterations(run, hwq, plan, watch, &result->clocks, &times);
    aorta_hwq_watch_close(watch);
    if (status) return status;
    status = keep_times(result, &times, plan->iterations);
    if (!status) status = add_rates(result, &times);
    aorta_hwq_times_free(&times);
    if (status) return status;
    /* A graph's own warm-up ran as well: what it did is in the counters. */
    const int64_t ran = plan->iterations + (plan->graph ? 2 : 0);
    AORTA_TRY(run->workload->work(hwq, plan->state, ran, &amount));
    const double seconds = result->total_time_ms * 1e-3 * (double)ran / (double)plan->iterations;
    result->throughput = amount / seconds;
    const struct aorta_memory_info memory = aorta_device_memory(hwq->device);
    result->memory = (struct aorta_hwq_memory){memory.peak, memory.allocated, memory.reserved};
    return NULL;
}

/* Later passes are as long as the pace allows: ranks that took their own would run different numbers of iterations, and
 * wait for collectives that do not come. */
static aorta_status agree_on_pace(const struct aorta_hwq_run *run, struct aorta_hwq *hwq,
                                  struct aorta_hwq_result *result) {
    float pace_ms = (float)result->latency_ms.p50, *memory;
    void *made;
    if (!run->world || aorta_comm_size(run->world) < 2) return NULL;
    AORTA_TRY(aorta_hwq_alloc(hwq, 2 * sizeof *memory, "the pace of the ranks", &made));
    memory = made;
    AORTA_TRY(aorta_hwq_upload(hwq, memory, &pace_ms, sizeof pace_ms));
    AORTA_TRY(aorta_all_reduce(run->world, hwq->streams[0], memory, memory + 1, 1, AORTA_F32, AORTA_MAX));
    AORTA_TRY(aorta_hwq_download(hwq, &pace_ms, memory + 1, sizeof pace_ms));
    result->pace_ms = (double)pace_ms;
    return NULL;
}

struct seen {
    struct aorta_hwq_book *book;
    struct aorta_hwq_gaps gaps;
    struct aorta_hwq_busy busy;
    size_t unstamped;
};

static aorta_status see(void *user, const struct aorta_hwq_spans *spans) {
    struct seen *seen = user;
    seen->unstamped += spans->unstamped;
    if (seen->book) AORTA_TRY(aorta_hwq_book_add(seen->book, AORTA_HWQ_PASS_WORKLOAD, spans));
    AORTA_TRY(aorta_hwq_busy_add(&seen->busy, spans));
    return aorta_hwq_gaps_add(&seen->gaps, spans);
}

static void take_gap(const struct aorta_hwq_samples *samples, double probe_ns, size_t probe_samples, double *ms,
                     size_t *count, const char **source) {
    const bool own = samples->count > 0;
    *ms = (own ? aorta_hwq_samples_median(samples) : probe_ns) * 1e-6;
    *count = own ? samples->count : probe_samples;
    *source = *count ? own ? "workload" : "probe" : NULL;
}

static struct aorta_hwq_host_gaps host_gaps(const struct aorta_hwq_gaps *gaps) {
    return (struct aorta_hwq_host_gaps){.inter_samples = gaps->host_inter.count,
                                        .intra_samples = gaps->host_intra.count,
                                        .inter_ms = 1e-6 * aorta_hwq_samples_median(&gaps->host_inter),
                                        .intra_ms = 1e-6 * aorta_hwq_samples_median(&gaps->host_intra)};
}

static struct aorta_hwq_hand_overs hand_overs(double median_ns, double stay_ns, size_t samples) {
    return (struct aorta_hwq_hand_overs){median_ns * 1e-6, (median_ns - stay_ns) * 1e-6, samples};
}

/* Going over between priorities may cost more, or less, than between equals: what a switch costs is told of equals
 * where there are any. */
static void take_probe(const struct aorta_hwq_probe *probe, struct aorta_hwq_switch *found) {
    found->same_priority = hand_overs(probe->same.median_ns, probe->stay_ns, probe->same.samples);
    found->across_priorities = hand_overs(probe->across.median_ns, probe->stay_ns, probe->across.samples);
    const struct aorta_hwq_hand_overs *told = probe->same.samples ? &found->same_priority : &found->across_priorities;
    found->probe_inter_ms = told->gap_ms;
    found->probe_intra_ms = probe->stay_ns * 1e-6;
    found->probe_samples = told->samples;
    found->overhead_ms = told->overhead_ms;
    found->quickest =
        (struct aorta_hwq_pair){probe->quickest.from, probe->quickest.to, probe->quickest.median_ns * 1e-6};
    found->slowest = (struct aorta_hwq_pair){probe->slowest.from, probe->slowest.to, probe->slowest.median_ns * 1e-6};
}

static aorta_status stamp_pass(const struct aorta_hwq_run *run, struct aorta_hwq *hwq,
                               const struct aorta_hwq_plan *plan, struct aorta_hwq_result *result) {
    enum aorta_priority priorities[AORTA_HWQ_MAX_STREAMS];
    struct aorta_hwq_plan stamped = *plan;
    struct aorta_hwq_switch *found = &result->switch_latency;
    struct aorta_hwq_probe probe = {.stay_ns = NAN, .go_ns = NAN, .same = {NAN, 0}, .across = {NAN, 0}};
    struct seen seen = {.book = run->book};
    for (int s = 0; s < hwq->stream_count; s++) priorities[s] = priority_of(hwq, run->workload, s);
    stamped.tell = NULL;
    stamped.iterations = aorta_hwq_result_iterations(result, STAMPED_MS, STAMPED_ITERATIONS);
    if (stamped.iterations > plan->iterations) stamped.iterations = plan->iterations;
    aorta_status status = aorta_hwq_pass_stamp(hwq, &stamped, see, &seen);
    if (!status) {
        aorta_status failed = aorta_hwq_probe_run(hwq, priorities, run->book, &probe);
        if (failed) found->reason = aorta_arena_strdup(&result->arena, aorta_status_message(failed));
        aorta_status_free(failed); /* told by the reason: the rest of the result stands */
        status = wait_for_all(hwq);
    }
    if (run->book) run->book->tick_ns = aorta_device_get_info(hwq->device)->timestamp_tick;
    take_gap(&seen.gaps.inter, probe.go_ns, probe.samples, &found->inter_gap_ms, &found->inter_samples,
             &found->inter_source);
    take_gap(&seen.gaps.intra, probe.stay_ns, probe.samples, &found->intra_gap_ms, &found->intra_samples,
             &found->intra_source);
    take_probe(&probe, found);
    found->host = host_gaps(&seen.gaps);
    found->clock = "kernel";
    if (seen.unstamped && !found->reason) found->reason = "kernels left no stamp: they did not run";
    result->limit = aorta_hwq_limit_find(&seen.busy, result, run->gate);
    aorta_hwq_gaps_free(&seen.gaps);
    aorta_hwq_busy_free(&seen.busy);
    return status;
}

/* One iteration from the state that `start` makes, and the workload's look at it: with --graph the replay is what is
 * checked, and what runs an iteration anew for workloads that forget their results first. */
static aorta_status check_iteration(const struct aorta_hwq_run *run, struct aorta_hwq *hwq, void *state,
                                    struct aorta_hwq_check *check) {
    const struct aorta_hwq_plan plan = {.graph = run->graph, .iterate = run->workload->iterate, .state = state};
    struct aorta_hwq_frame frame;
    int64_t host_ns;
    AORTA_TRY(aorta_hwq_frame_open(hwq, &plan, &frame));
    aorta_status status = run->graph ? aorta_hwq_frame_capture(&frame) : NULL;
    if (!status) status = start(run, hwq, state);
    if (!status) status = aorta_hwq_frame_run(&frame, -1, &host_ns);
    if (!status) status = aorta_hwq_frame_wait(&frame);
    hwq->replay = run->graph ? &frame : NULL;
    if (!status) status = run->workload->verify(hwq, state, check);
    hwq->replay = NULL;
    aorta_hwq_frame_close(&frame);
    return status;
}

static aorta_status verify(const struct aorta_hwq_run *run, struct aorta_hwq *hwq, void *state,
                           struct aorta_hwq_result *result) {
    struct aorta_hwq_check check = {.worst = 0};
    AORTA_TRY(check_iteration(run, hwq, state, &check));
    const bool good = check.no_part || (check.compared > 0 && check.worst <= 1.0);
    result->verified = good ? "passed" : "failed";
    result->worst_at = check.what[0] ? aorta_arena_strdup(&result->arena, check.what) : NULL;
    result->worst_got = check.got;
    result->worst_expected = check.expected;
    result->figure_group = NULL;
    AORTA_TRY(aorta_hwq_result_figure(result, "verified_values", "values", (double)check.compared, NULL));
    AORTA_TRY(aorta_hwq_result_figure(result, "verified_worst", "of the allowed error",
                                      isfinite(check.worst) ? check.worst : NAN, "a value is not finite"));
    AORTA_TRY(aorta_hwq_fact_string(result, "verification", "worst_at", check.what));
    AORTA_TRY(aorta_hwq_fact_number(result, "verification", "worst_got", check.got));
    return aorta_hwq_fact_number(result, "verification", "worst_expected", check.expected);
}

/* ---- the whole ---- */

static aorta_status set_name(const struct aorta_hwq_run *run, struct aorta_hwq_result *result) {
    char stamp[64];
    struct timespec now;
    struct tm local;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    const size_t length = strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &local);
    snprintf(stamp + length, sizeof stamp - length, ".%06ld", now.tv_nsec / 1000);
    result->workload_name = run->workload->name;
    result->throughput_unit = run->workload->unit;
    result->stream_count = stream_count(run);
    result->simulated = run->world && aorta_comm_simulated(run->world);
    result->timestamp = aorta_arena_strdup(&result->arena, stamp);
    return result->timestamp ? NULL : AORTA_ERROR(AORTA_MEMORY, "no host memory for a result");
}

static aorta_status measure(const struct aorta_hwq_run *run, struct aorta_hwq *hwq, void *state, void *user) {
    struct aorta_hwq_result *result = user;
    const struct aorta_hwq_plan plan = {.sync = run->sync,
                                        .graph = run->graph,
                                        .gate = run->gate,
                                        .independent = run->workload->independent,
                                        .warmup = run->warmup,
                                        .iterations = run->iterations,
                                        .iterate = run->workload->iterate,
                                        .state = state,
                                        .tell = run->tell,
                                        .user = run->user};
    AORTA_TRY(time_pass(run, hwq, &plan, result));
    AORTA_TRY(agree_on_pace(run, hwq, result));
    AORTA_TRY(stamp_pass(run, hwq, &plan, result));
    AORTA_TRY(aorta_hwq_say_clocks(result));
    AORTA_TRY(aorta_hwq_say_drift(result));
    if (run->workload->report) AORTA_TRY(run->workload->report(hwq, state, result));
    if (run->verify) AORTA_TRY(aorta_annotate(verify(run, hwq, state, result), "--verify"));
    return aorta_hwq_facts(run, hwq, result);
}

static aorta_status use_streams(const struct aorta_hwq_run *run, struct aorta_hwq *hwq, aorta_hwq_use use, void *user) {
    const struct aorta_hwq_workload *w = run->workload;
    void *state = NULL;
    AORTA_TRY(open_streams(hwq, w));
    for (int s = 0; s < hwq->stream_count; s++) AORTA_TRY(aorta_ops_prepare(hwq->streams[s]));
    AORTA_TRY(aorta_hwq_kept_create(hwq));
    aorta_status status = w->setup(hwq, &state);
    if (!status) status = wait_for_all(hwq);
    if (!status) status = use(run, hwq, state, user);
    status = aorta_status_join(status, wait_for_all(hwq));
    if (w->teardown && state) w->teardown(hwq, state);
    return status;
}

aorta_status aorta_hwq_run_with(const struct aorta_hwq_run *run, aorta_hwq_use use, void *user) {
    struct aorta_arena arena = {0};
    struct aorta_hwq hwq = {.device = run->device,
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
    aorta_hwq_kept_destroy(&hwq);
    close_streams(&hwq);
    aorta_arena_free(&arena);
    return aorta_annotate(status, "%s", run->workload->name);
}

aorta_status aorta_hwq_run_execute(const struct aorta_hwq_run *run, struct aorta_hwq_result *result) {
    *result = (struct aorta_hwq_result){.throughput = NAN};
    AORTA_TRY(set_name(run, result));
    return aorta_hwq_run_with(run, measure, result);
}
