/* The output of a run: its directory, the configuration, a line of metrics for each step, and messages. */
#include "base/clock.h"
#include "base/directories.h"
#include "base/files.h"
#include "device/inventory.h"
#include "measure/machine.h"
#include "measure/metrics.h"
#include "ops/gemm.h"
#include "ops/ops.h"
#include "train/train_internal.h"
#include "verdict/verdict.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static aorta_status write_config(const struct trainer *t, const char *directory) {
    struct aorta_text text = {0};
    struct aorta_json json;
    aorta_json_begin(&json, &text, 2);
    aorta_config_write_json(&trainer_options(t)->config, &json);
    aorta_text_puts(&text, "\n");
    aorta_status status = aorta_text_check(&text);
    if (!status) status = aorta_file_replace(aorta_path_in(directory, "config.json").text, text.data, text.length);
    aorta_text_free(&text);
    return status;
}

/* Rank 0's: host, device, libraries and variables. */
static aorta_status write_environment(const struct trainer *t, const char *directory) {
    struct aorta_environment environment;
    char version[256];
    AORTA_TRY(aorta_environment_take(t->context.device, &environment));
    aorta_environment_add(&environment, "software", "products", aorta_ops_gemm_library());
    if (t->context.world)
        aorta_environment_add(&environment, "software", "collectives",
                              aorta_comm_version(t->context.world, version, sizeof version));
    aorta_status status = aorta_environment_save(&environment, directory);
    aorta_environment_free(&environment);
    return status;
}

static aorta_status write_settings(const struct trainer *t, const char *directory) {
    AORTA_TRY(write_config(t, directory));
    return write_environment(t, directory);
}

/* ---- trace files (profiling.*) ---- */

/* The group of all ranks first; hybrid sharding has two more, of which this rank is a part (sharded.c). */
static void list_groups(const struct aorta_train_context *context, struct aorta_kineto_about *about) {
    int world = context->ranks.world_size, rank = context->ranks.rank;
    int shards = aorta_train_shard_degree(context->options, world);
    about->groups[about->group_count++] = (struct aorta_kineto_group){0, world, 1};
    if (shards == 1 || shards == world) return;
    about->groups[about->group_count++] = (struct aorta_kineto_group){rank / shards * shards, shards, 1};
    about->groups[about->group_count++] = (struct aorta_kineto_group){rank % shards, world / shards, shards};
}

static struct aorta_kineto_about describe(const struct aorta_train_context *context, struct aorta_tracer *tracer) {
    const struct aorta_profiling_options *o = &context->options->profiling;
    struct aorta_kineto_about about = {
        .rank = context->ranks.rank,
        .world_size = context->ranks.world_size,
        .backend = aorta_comm_backend(context->world),
        .simulated = aorta_comm_simulated(context->world),
        .device = *aorta_device_get_info(context->device),
        .tracer = tracer ? aorta_tracer_get_facts(tracer).library : NULL,
        .shapes = o->record_shapes,
        .memory = o->profile_memory,
        .allocations = o->profile_memory ? context->device : NULL,
        .flops = o->with_flops,
    };
    list_groups(context, &about);
    return about;
}

static void warn_when_late(const struct aorta_train_context *context, const struct aorta_profiler_schedule *schedule,
                           int64_t steps) {
    int64_t first = aorta_profiler_schedule_first_step(schedule, 0);
    if (steps > first || context->ranks.rank != 0) return;
    aorta_log(context->log, AORTA_LOG_WARNING,
              "profiling: no trace will be written: the first step traced is number %lld (wait %lld, warmup %lld; from "
              "0), and the run has %lld; lower profiling.wait",
              (long long)first, (long long)schedule->wait, (long long)schedule->warmup, (long long)steps);
}

static bool ends_in(const char *name, const char *ending) {
    const size_t length = strlen(name), end = strlen(ending);
    return length > end && strcmp(name + length - end, ending) == 0;
}

/* Renames traces of earlier runs, which would pass for this run's. Returns their number, -1 without such a folder.
 */
static int rename_traces(const char *folder, const char *ending) {
    DIR *directory = opendir(folder);
    int moved = 0;
    if (!directory) return -1;
    for (struct dirent *entry; (entry = readdir(directory));) {
        char earlier[512];
        if (!ends_in(entry->d_name, ending)) continue;
        snprintf(earlier, sizeof earlier, "%s.old", entry->d_name);
        moved += renameat(dirfd(directory), entry->d_name, dirfd(directory), earlier) == 0;
    }
    closedir(directory);
    return moved;
}

/* Whether there is a folder of the rank. */
static bool rename_traces_of_rank(const struct aorta_train_context *context, const char *folder, int rank,
                                  const char *ending) {
    const struct aorta_file_path path = aorta_path_in(context->options->training.output_dir, "%s/rank%d", folder, rank);
    const int moved = rename_traces(path.text, ending);
    if (moved > 0)
        aorta_log(context->log, AORTA_LOG_INFO, "profiling: %s of earlier runs in %s %s now named …%s.old",
                  aorta_counted(moved, "trace").text, path.text, moved == 1 ? "is" : "are", strrchr(ending, '.'));
    return moved >= 0;
}

/* Each rank renames its own traces. Rank 0 also renames those of ranks that this run does not have. */
static void rename_earlier_traces(const struct aorta_train_context *context, const char *folder, const char *ending) {
    rename_traces_of_rank(context, folder, context->ranks.rank, ending);
    if (context->ranks.rank != 0) return;
    for (int rank = context->ranks.world_size; rename_traces_of_rank(context, folder, rank, ending);) rank++;
}

static aorta_status tracing_open(const struct aorta_train_context *context, struct aorta_tracer *tracer, int64_t steps,
                                 struct aorta_step_traces **traces) {
    const struct aorta_profiling_options *o = &context->options->profiling;
    *traces = NULL;
    if (!o->enabled || (!o->tensorboard && !o->chrome_trace)) return NULL;
    const char *output = context->options->training.output_dir;
    const struct aorta_file_path folder = aorta_path_in(output, "torch_profiler");
    const struct aorta_file_path chrome =
        aorta_path_in(output, "chrome_trace/rank%d/%s", context->ranks.rank, o->trace_filename);
    struct aorta_step_traces_settings settings = {.schedule = o->schedule, .about = describe(context, tracer)};
    const char *ending = strrchr(o->trace_filename, '.');
    rename_earlier_traces(context, "torch_profiler", ".pt.trace.json");
    rename_earlier_traces(context, "chrome_trace", ending ? ending : ".json");
    settings.directory = o->tensorboard ? folder.text : NULL;
    settings.chrome = o->chrome_trace ? chrome.text : NULL;
    warn_when_late(context, &settings.schedule, steps);
    return aorta_step_traces_open(&settings, traces);
}

static aorta_status tracing_close(const struct aorta_train_context *context, struct aorta_step_traces *traces) {
    if (!traces) return NULL;
    aorta_status status = aorta_step_traces_finish(traces);
    const char *last;
    int64_t written = aorta_step_traces_written(traces, &last);
    if (!status && written)
        aorta_log(context->log, AORTA_LOG_INFO, "profiling: %s written, the last one is %s",
                  aorta_counted(written, "trace").text, last);
    aorta_step_traces_close(traces);
    return status;
}

/* ---- the directory ---- */

/* Warns once. Rank 0 locks the new directory, too, and writes the settings there. */
aorta_status trainer_notice_removal(struct trainer *t) {
    const char *moved = t->outcome->moved ? NULL : aorta_metrics_moved(t->metrics);
    if (!moved) return NULL;
    aorta_log(
        t->run->log, AORTA_LOG_WARNING,
        "training.output_dir: the metrics of this rank were removed from %s; they are written again, whole, in %s",
        trainer_options(t)->training.output_dir, moved);
    t->outcome->moved = strdup(moved);
    if (!t->outcome->moved) return AORTA_ERROR(AORTA_MEMORY, "a directory's name did not fit in memory");
    if (t->context.ranks.rank != 0) return NULL;
    aorta_directory_unlock(*t->run->lock);
    *t->run->lock = NULL;
    AORTA_TRY(aorta_directory_lock(moved, "training.output_dir", t->run->lock));
    return write_settings(t, moved);
}

#define MACHINE_OF_RANK "machine_%02d.jsonl"

static bool rename_old(const struct trainer *t, const char *name) {
    const struct aorta_file_path from = aorta_path_in(trainer_options(t)->training.output_dir, "%s", name);
    const struct aorta_file_path to = aorta_path_in(trainer_options(t)->training.output_dir, "%s.old", name);
    if (rename(from.text, to.text) != 0) return false;
    aorta_log(t->run->log, AORTA_LOG_INFO, "%s is of an earlier run with more ranks: now %s", from.text, to.text);
    return true;
}

/* Files of ranks that this run does not have, left by an earlier one, would be taken for its own: they are renamed. */
static void rename_other_ranks(const struct trainer *t) {
    for (int rank = t->context.ranks.world_size; rank < 1024; rank++) {
        char name[64];
        snprintf(name, sizeof name, MACHINE_OF_RANK, rank);
        rename_old(t, name);
        snprintf(name, sizeof name, "rank_%02d_metrics.jsonl", rank);
        if (!rename_old(t, name)) return;
    }
}

/* Before this rank opens its own. */
static void say_earlier_results(const struct trainer *t) {
    const char *directory = trainer_options(t)->training.output_dir;
    struct stat info;
    if (stat(aorta_path_in(directory, "rank_00_metrics.jsonl").text, &info) == 0 && S_ISREG(info.st_mode) &&
        info.st_size)
        aorta_log(
            t->run->log, AORTA_LOG_INFO,
            "%s holds results of an earlier run: its metrics are replaced now, its report when this run makes one",
            directory);
}

/* One rank of each host watches it; all of the launcher's processes belong to the job. A failure to watch does not stop
 * the training. */
static void watch_machine(struct trainer *t) {
    const struct aorta_ranks *ranks = &t->context.ranks;
    if (ranks->local_rank != 0 || !t->run->record) return;
    const struct aorta_file_path path =
        aorta_path_in(trainer_options(t)->training.output_dir, MACHINE_OF_RANK, ranks->rank);
    const pid_t root = ranks->local_world_size > 1 ? getppid() : getpid();
    aorta_status status = aorta_machine_watch_open(path.text, root, false, &t->machine);
    if (!status) status = aorta_machine_watch_start(t->machine);
    if (status) aorta_log(t->run->log, AORTA_LOG_INFO, "the machine is not watched: %s", aorta_status_message(status));
    aorta_status_free(status);
}

aorta_status trainer_open_output(struct trainer *t) {
    const char *directory = trainer_options(t)->training.output_dir;
    AORTA_TRY(aorta_annotate(aorta_directory_make(directory), "training.output_dir"));
    if (t->context.ranks.rank == 0) {
        say_earlier_results(t);
        rename_other_ranks(t);
        AORTA_TRY(write_settings(t, directory));
    }
    AORTA_TRY(aorta_metrics_open(directory, t->context.ranks.rank, &t->metrics));
    AORTA_TRY(tracing_open(&t->context, t->tracer, t->total_steps, &t->traces));
    AORTA_TRY(aorta_metrics_lines_open(t->tracer, t->metrics, t->traces, &t->lines));
    watch_machine(t);
    return NULL;
}

/* When all ranks have closed their files, rank 0 may read them. */
aorta_status trainer_close_output(struct trainer *t) {
    aorta_machine_watch_close(t->machine, NAN);
    t->machine = NULL;
    aorta_status status = t->lines ? aorta_metrics_lines_finish(t->lines) : NULL;
    if (!status && t->lines) status = trainer_notice_removal(t);
    aorta_metrics_lines_close(t->lines);
    status = aorta_status_join(status, tracing_close(&t->context, t->traces));
    status = aorta_status_join(status, aorta_metrics_close(t->metrics));
    aorta_tracer_close(t->tracer);
    if (status || t->run->ranks.world_size == 1 || !t->context.world) return status;
    AORTA_TRY(aorta_barrier(t->context.world, aorta_train_compute(&t->context)));
    return aorta_stream_synchronize(aorta_train_compute(&t->context));
}

aorta_status trainer_write_line(struct trainer *t, int64_t step, double step_ms) {
    const struct trainer_flight *flight = trainer_flight(t, step);
    const struct aorta_step_state *state = &flight->result->state;
    const struct aorta_train_options *o = trainer_options(t);
    struct aorta_memory_info memory = aorta_device_memory(t->context.device);
    struct aorta_step_readings readings = {0};
    const struct aorta_train_workload *workload = t->run->workload;
    double samples = workload ? (double)workload->table->samples(workload, step)
                              : (double)(o->training.batch_size * o->training.gradient_accumulation);
    struct aorta_step_metrics metrics = {
        .rank = t->context.ranks.rank,
        .world_size = t->context.ranks.world_size,
        .epoch = step / t->per_epoch,
        .step = step % t->per_epoch,
        .global_step = step,
        .loss = state->loss,
        .grad_norm = state->grad_norm,
        .lr = state->lr,
        .samples_per_s = samples / (step_ms / 1e3),
        .data_wait_ms = flight->data_wait_ms,
        .step_ms = step_ms,
        .loss_scale = o->training.mixed_precision == AORTA_PRECISION_FP16 ? state->loss_scale : NAN,
        .skipped = !state->finite,
        .simulated = aorta_comm_simulated(t->context.world),
        .device = aorta_device_kind_name(aorta_device_get_info(t->context.device)->kind),
        .info = step == 0 ? aorta_device_get_info(t->context.device) : NULL,
        .peaks = isnan(t->peaks.gbytes_per_s) ? NULL : &t->peaks,
        .memory = &memory,
        .readings = &readings,
    };
    aorta_readings_report(&t->readings, t->ending && step + 1 == t->queued, &readings);
    if (!flight->recorded) {
        if (t->run->record) metrics.unrecorded = "profiling.record_every leaves this step out";
        return aorta_metrics_lines_add(t->lines, &metrics, NULL, NULL, t->last_done_ns);
    }
    struct aorta_profile profile;
    struct aorta_launches launches;
    AORTA_TRY(aorta_recorder_launches(t->context.recorder, (int)(step % TRAINER_SLOTS), &launches));
    aorta_status status = aorta_recorder_collect(t->context.recorder, (int)(step % TRAINER_SLOTS), &profile);
    if (!status) return aorta_metrics_lines_add(t->lines, &metrics, &profile, &launches, t->last_done_ns);
    free(launches.ranges);
    return status;
}

void trainer_print_step(struct trainer *t, int64_t step, double step_ms) {
    const struct aorta_step_state *state = &trainer_flight(t, step)->result->state;
    if (t->context.ranks.rank != 0) return;
    if (!state->finite)
        aorta_log(t->run->log, AORTA_LOG_WARNING, "step %lld: a gradient is not finite; the update is skipped%s",
                  (long long)step,
                  trainer_options(t)->training.mixed_precision == AORTA_PRECISION_FP16 ? " and the loss scale halved"
                                                                                       : "");
    if (t->run->progress) {
        char note[64];
        snprintf(note, sizeof note, "loss %.4f", (double)state->loss);
        aorta_progress_update(&t->progress, step + 1, note);
        if (t->progress.terminal) return;
    }
    if ((step + 1) % trainer_options(t)->training.log_interval == 0)
        aorta_log(t->run->log, AORTA_LOG_INFO, "step %lld of %lld: loss %.5f, grad norm %.4f, lr %.3g, %.1f ms",
                  (long long)step + 1, (long long)t->total_steps, (double)state->loss, (double)state->grad_norm,
                  (double)state->lr, step_ms);
}

/* ---- readings of the device ---- */

/* Clocks follow power and heat in tenths of a second; a reading may cost the driver a millisecond. */
static const int64_t clocks_every_ns = 1000000000;

aorta_status aorta_readings_open(const struct aorta_train_run *run, const struct aorta_train_context *context,
                                 struct aorta_readings *readings) {
    enum aorta_device_kind kind = aorta_device_get_info(context->device)->kind;
    *readings = (struct aorta_readings){.device = run->device_metrics,
                                        .rocm = run->rocm_metrics && kind == AORTA_DEVICE_HIP,
                                        .clocks = kind != AORTA_DEVICE_CPU};
    if (run->rocm_metrics && !readings->rocm) {
        char reason[128];
        snprintf(reason, sizeof reason, "ROCm SMI reads AMD GPUs; this run is on the %s device",
                 aorta_device_kind_name(kind));
        readings->no_rocm = (struct aorta_device_reading){.wanted = true, .values = aorta_device_unmeasured(reason)};
        if (context->ranks.rank == 0) aorta_log(context->log, AORTA_LOG_WARNING, "--enable-rocm-metrics: %s", reason);
    }
    bool each_line = readings->device || readings->rocm;
    if (!each_line && !readings->clocks) return NULL;
    return aorta_sampler_open(context->device, each_line, context->options->training.log_interval, &readings->sampler);
}

void aorta_readings_close(struct aorta_readings *readings) {
    aorta_sampler_close(readings->sampler);
    readings->sampler = NULL;
}

/* Queuing runs one step ahead. When the second step after the warm-up is queued, the first measured step is about to
 * run. When the last step is queued, the step before it runs. */
void aorta_readings_expect(struct aorta_readings *readings, int64_t total_steps) {
    int64_t first = (int64_t)aorta_analysis_warmup((size_t)total_steps) + 1;
    readings->last_step = total_steps - 1;
    readings->first_step = first < readings->last_step ? first : readings->last_step;
}

void aorta_readings_step(struct aorta_readings *readings, int64_t step) {
    if (readings->device || readings->rocm) aorta_sampler_ask(readings->sampler, AORTA_ASK_IF_QUICK);
    if (!readings->clocks || step < readings->first_step) return;
    int64_t now_ns = aorta_clock_ns();
    if (readings->since_ns && step < readings->last_step && now_ns - readings->asked_ns < clocks_every_ns) return;
    if (!readings->since_ns) readings->since_ns = now_ns;
    readings->asked_ns = now_ns;
    aorta_sampler_ask(readings->sampler, AORTA_ASK_ALWAYS);
}

/* A reading made while measured steps ran is written to one line. If the device reports nothing, the reason is. */
static void report_clocks(struct aorta_readings *readings, bool last, struct aorta_step_readings *step) {
    if (!readings->clocks || !readings->since_ns) return;
    if (last) aorta_sampler_drain(readings->sampler);
    struct aorta_device_reading reading = aorta_sampler_latest(readings->sampler);
    bool silent = reading.at_ns && !aorta_device_measured(&reading.values);
    bool in_time = reading.at_ns - (int64_t)(reading.read_ms * 1e6) >= readings->since_ns;
    if (reading.at_ns == readings->reported_ns || !(silent || in_time)) return;
    readings->reported_ns = reading.at_ns;
    step->clocks = reading;
}

void aorta_readings_report(struct aorta_readings *readings, bool last, struct aorta_step_readings *step) {
    if (readings->device) step->device_metrics = aorta_sampler_latest(readings->sampler);
    step->rocm_smi_output = readings->rocm ? aorta_sampler_latest(readings->sampler) : readings->no_rocm;
    report_clocks(readings, last, step);
}

/* ---- peaks ---- */

enum { WIDTH = 512, COPIED = 32 << 20, HUGE_PAGE = 2 << 20, LEAST_RUNS = 2, MOST_RUNS = 6, ENOUGH_NS = 20000000 };

/* Plain host memory, which the CPU device can use. So the device's memory statistics do not change. */
struct scratch {
    char *from, *to; /* COPIED bytes each, which hold the matrices too */
};

typedef aorta_status (*queue_work)(const struct aorta_train_context *context, const struct scratch *scratch);

static aorta_status queue_product(const struct aorta_train_context *context, const struct scratch *scratch) {
    const struct aorta_linear shape = {context->dtype, WIDTH, WIDTH, WIDTH};
    const char *weight = scratch->from + (size_t)WIDTH * WIDTH * sizeof(float);
    return aorta_linear_forward(
        aorta_train_compute(context),
        &(struct aorta_linear_args){.shape = shape, .x = scratch->from, .weight = weight, .y = scratch->to});
}

static aorta_status queue_copy(const struct aorta_train_context *context, const struct scratch *scratch) {
    return aorta_copy(aorta_train_compute(context), scratch->to, scratch->from, COPIED);
}

/* The shortest of some runs; a slow or busy machine makes fewer. */
static aorta_status time_work(const struct aorta_train_context *context, const struct scratch *scratch,
                              queue_work queue, int64_t *best_ns) {
    const int64_t begun_ns = aorta_clock_ns();
    *best_ns = INT64_MAX;
    for (int i = 0; i < MOST_RUNS && (i < LEAST_RUNS || aorta_clock_ns() - begun_ns < ENOUGH_NS); i++) {
        const int64_t start_ns = aorta_clock_ns();
        AORTA_TRY(queue(context, scratch));
        AORTA_TRY(aorta_stream_synchronize(aorta_train_compute(context)));
        const int64_t ns = aorta_clock_ns() - start_ns;
        if (ns < *best_ns) *best_ns = ns;
    }
    return NULL;
}

static aorta_status measure(const struct aorta_train_context *context, const struct scratch *scratch,
                            struct aorta_measured_peaks *peaks) {
    int64_t product_ns, copy_ns;
    AORTA_TRY(time_work(context, scratch, queue_product, &product_ns));
    AORTA_TRY(time_work(context, scratch, queue_copy, &copy_ns));
    const enum aorta_arithmetic arithmetic = aorta_arithmetic_of(context->dtype);
    if (arithmetic != AORTA_ARITHMETIC_UNKNOWN)
        peaks->tflops[arithmetic] = 2.0 * WIDTH * WIDTH * WIDTH / (double)product_ns / 1e3;
    peaks->gbytes_per_s = 2.0 * COPIED / (double)copy_ns; /* read and written */
    return NULL;
}

/* Huge pages, if available: on virtual machines faults of small ones take longer than all the copies. */
static char *make_buffer(void) {
    char *buffer = aligned_alloc(HUGE_PAGE, COPIED);
    if (buffer) madvise(buffer, COPIED, MADV_HUGEPAGE);
    return buffer;
}

aorta_status aorta_train_measure_peaks(const struct aorta_train_context *context, struct aorta_measured_peaks *peaks) {
    const int64_t start_ns = aorta_clock_ns();
    *peaks = (struct aorta_measured_peaks){.gbytes_per_s = NAN};
    for (int i = 0; i < AORTA_ARITHMETIC_COUNT; i++) peaks->tflops[i] = NAN;
    if (aorta_device_get_info(context->device)->kind != AORTA_DEVICE_CPU) return NULL;
    const struct scratch scratch = {make_buffer(), make_buffer()};
    aorta_status status = NULL;
    if (!scratch.from || !scratch.to) status = AORTA_ERROR(AORTA_MEMORY, "no memory to measure the device's peaks");
    if (!status) {
        memset(scratch.from, 0, COPIED);
        status = measure(context, &scratch, peaks);
    }
    free(scratch.from);
    free(scratch.to);
    peaks->cost_ms = (double)(aorta_clock_ns() - start_ns) / 1e6;
    return status;
}
