/* aorta train: the FSDP2/DDP benchmark of overlap. */
#include "train/train.h"
#include "base/directories.h"
#include "base/files.h"
#include "base/lines.h"
#include "base/signals.h"
#include "base/thread.h"
#include "cli/cli.h"
#include "comm/comm.h"
#include "config/option.h"
#include "device/gpu.h"
#include "measure/tracer.h"
#include "report/page.h"
#include "report/report.h"
#include "sparse/options.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct train_values {
    const char *config;
    struct aorta_string_list overrides;
    bool rocm_metrics, device_metrics, kernel_timing, no_kernel_timing, no_record, no_report, quiet;
    struct aorta_ranks ranks; /* not of the line */
    struct aorta_verdict_style style;
};

#define AT(field) offsetof(struct train_values, field)
static const struct aorta_option options[] = {
    {"config", AORTA_OPTION_STRING, AT(config), "null", .letter = 'c', .argument = "FILE", .path = AORTA_PATH_READ,
     .help = "YAML or JSON file of configuration keys; keys that are not in it have their defaults"},
    {"override", AORTA_OPTION_STRING_LIST, AT(overrides), "null", .argument = "KEY=VALUE", .several = true,
     .words = "config", .help = "set keys over the file's values, as in training.batch_size=4; repeat it for several"},
    {"enable-rocm-metrics", AORTA_OPTION_BOOL, AT(rocm_metrics), "false",
     .help = "add ROCm SMI readings to each iteration's metrics; null with a reason on other devices"},
    {"device-metrics", AORTA_OPTION_BOOL, AT(device_metrics), "false",
     .help = "add temperature, power, clocks, memory in use and load of the GPU (NVML, ROCm SMI) to each iteration's "
             "metrics; null with a reason on a CPU"},
    {"kernel-timing", AORTA_OPTION_BOOL, AT(kernel_timing), "false",
     .help = "take device times from kernel records (CUPTI, rocprofiler-sdk), and add the records to "
             "each metrics line; fails without the library. Default: records if the library is available"},
    {"no-kernel-timing", AORTA_OPTION_BOOL, AT(no_kernel_timing), "false",
     .help = "measure with timestamps around operations, which gives upper bounds"},
    {"no-record", AORTA_OPTION_BOOL, AT(no_record), "false",
     .help = "record nothing and write no report, to measure what recording costs"},
    {"no-report", AORTA_OPTION_BOOL, AT(no_report), "false",
     .help = "write no summary and no pictures; aorta report can write them later"},
    AORTA_CLI_QUIET_OPTION(AT(quiet)),
};

static const struct aorta_cli_syntax syntax = {
    .usage = "aorta train --config FILE [--override KEY=VALUE ...]",
    .about = "Trains a synthetic ranking transformer with FSDP2 or DDP, records every operation on "
             "every stream, and says which communication compute did not hide, and why.",
    AORTA_CLI_OPTIONS(options),
    .styled = true,
    .footer =
        "Ranks come from aorta launch, mpirun, srun or torchrun, as in: aorta launch -n 2 -- aorta train --config "
        "config/quickstart.yaml\naorta help config lists the configuration keys, aorta help sparse those of the sparse "
        "pipeline.",
};

/* Checks that outputs of the configuration overwrite neither inputs nor each other. */
static aorta_status check_paths(const struct aorta_config *config) {
    char *file = (char *)config->path;
    struct aorta_paths paths = {0};
    aorta_paths_add_rows(&paths, config->table->rows, config->table->count, config->values, "");
    aorta_paths_add_operands(&paths, &file, 1);
    aorta_status status = aorta_paths_check(&paths);
    aorta_arena_free(&paths.arena);
    return status;
}

/* Checks what would fail on every rank, before any rank joins the job. */
static aorta_status check_files(const struct aorta_train_options *o) {
    const char *start = o->training.init_from;
    if (start && access(start, R_OK))
        return aorta_config_error(&o->config, "training.init_from", "cannot read %s: %s", start, strerror(errno));
    AORTA_TRY(check_paths(&o->config));
    AORTA_TRY(aorta_folder_check_free(o->training.output_dir, "training.output_dir", AORTA_FOLDER_SWEEP));
    AORTA_TRY(aorta_directory_check_writable(o->training.output_dir, "training.output_dir"));
    if (!o->training.dump_dir) return NULL;
    return aorta_directory_check_writable(o->training.dump_dir, "training.dump_dir");
}

static void say_begin(const struct aorta_train_options *o, const struct aorta_ranks *ranks,
                      const struct aorta_train_workload *workload, const struct aorta_log *log) {
    static const char *const precisions[] = {"fp32", "bf16", "fp16", "tf32"};
    if (ranks->rank != 0) return;
    if (workload) {
        aorta_log(log, AORTA_LOG_INFO, "%s, %s, metrics in %s", aorta_counted(ranks->world_size, "rank").text,
                  workload->table->name, o->training.output_dir);
        return;
    }
    int64_t samples = o->training.batch_size * o->training.gradient_accumulation;
    aorta_log(log, AORTA_LOG_INFO, "%s, batch %lld x %lld positions per rank, %s, metrics in %s",
              aorta_counted(ranks->world_size, "rank").text, (long long)samples, (long long)o->dataset.sequence_length,
              precisions[o->training.mixed_precision], o->training.output_dir);
}

/* Reports a missing GPU of the configured kind with a short reason, before anything is written. */
static aorta_status check_device(const struct train_values *values, const struct aorta_train_options *o) {
    int count;
    if (o->device.kind != AORTA_TRAIN_CUDA && o->device.kind != AORTA_TRAIN_HIP) return NULL;
    const bool cuda = o->device.kind == AORTA_TRAIN_CUDA;
    if (!values->no_kernel_timing || o->profiling.enabled) aorta_tracer_prepare(); /* looking for devices begins HIP */
    aorta_status status = aorta_gpu_count(cuda ? AORTA_DEVICE_CUDA : AORTA_DEVICE_HIP, &count);
    if (!status) return NULL;
    aorta_status missing = AORTA_ERROR(aorta_status_code(status),
                                       "device.kind=%s: %s\n  aorta info --json lists the places that were searched\n"
                                       "  device.kind=cpu runs without a GPU",
                                       cuda ? "cuda" : "hip", aorta_status_message(status));
    aorta_status_free(status);
    return missing;
}

/* ---- after the last step ---- */

/* Blocks SIGINT and SIGTERM in this thread and threads it starts; they stay pending until sigwait. A broken pipe
 * becomes an error of its write. Call it before the first step. */
static void prepare_finish(void) {
    sigset_t set = aorta_ending_signals();
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    aorta_cli_outlive(SIGPIPE);
}

/* Called for a signal after the last step, which ends the process: logs what is complete. */
static bool say_unfinished(void *user, int signal) {
    const struct aorta_train_finish *finish = user;
    if (!finish->rank_0) return true;
    const char *directory = finish->directory;
    if (finish->report)
        aorta_log(finish->log, AORTA_LOG_ERROR,
                  "%s: the report is not finished; the metrics in %s are complete: aorta report --log-dir %s",
                  aorta_signal_name(signal), directory, directory);
    else
        aorta_log(finish->log, AORTA_LOG_ERROR, "%s at the end of the run; the files in %s are complete",
                  aorta_signal_name(signal), directory);
    return true;
}

static aorta_status report(const struct aorta_train_finish *finish) {
    struct aorta_text text = {0};
    aorta_status status = aorta_report_after_run(finish->directory, NULL, &finish->style, finish->log, &text);
    if (text.length) status = aorta_status_join(status, aorta_cli_print(&text, NULL, finish->style.color));
    aorta_text_free(&text);
    if (!status) return NULL;
    status = aorta_annotate(status, "the metrics in %s are complete, the report is not", finish->directory);
    if (aorta_code_exit(aorta_status_code(status)) != 2) return status;
    return aorta_status_recode(status, AORTA_IO); /* no mistake of the user: the folder is gone by now */
}

aorta_status aorta_train_finish(const struct aorta_train_finish *finish) {
    struct aorta_signals *signals = NULL;
    struct aorta_leave *leave;
    aorta_status blind = aorta_signals_begin(say_unfinished, (void *)finish, &signals);
    sigset_t set = aorta_ending_signals();
    if (blind) pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    aorta_status_free(blind);
    aorta_status left = aorta_comm_leave_begin(finish->ranks, finish->timeout_s, &leave);
    aorta_status status = finish->report ? report(finish) : NULL;
    left = aorta_status_join(left, aorta_leave_end(leave));
    aorta_signals_end(signals); /* later signals have no effect, as they stay blocked until the process ends */
    if (!left) return status;
    if (status) aorta_log(finish->log, AORTA_LOG_ERROR, "%s", aorta_status_message(status));
    aorta_status_free(status);
    aorta_log(finish->log, AORTA_LOG_ERROR, "%s", aorta_status_message(left));
    aorta_comm_abort(NULL, aorta_code_exit(aorta_status_code(left)));
}

static aorta_status train(const struct train_values *values, const struct aorta_train_options *o,
                          struct aorta_train_workload *workload, struct aorta_directory_lock **lock) {
    const struct aorta_ranks *ranks = &values->ranks;
    struct aorta_log log = {.level = values->quiet && o->logging.level < AORTA_LOG_WARNING ? AORTA_LOG_WARNING
                                                                                           : o->logging.level,
                            .rank = ranks->world_size > 1 ? ranks->rank : -1};
    struct aorta_train_run run = {.options = o,
                                  .workload = workload,
                                  .ranks = *ranks,
                                  .log = &log,
                                  .lock = lock,
                                  .kernel_timing = values->kernel_timing      ? AORTA_KERNEL_TIMING_ON
                                                   : values->no_kernel_timing ? AORTA_KERNEL_TIMING_OFF
                                                                              : AORTA_KERNEL_TIMING_AUTO,
                                  .record = !values->no_record,
                                  .progress = !values->quiet && isatty(STDERR_FILENO),
                                  .device_metrics = values->device_metrics,
                                  .rocm_metrics = values->rocm_metrics};
    struct aorta_train_outcome outcome;
    say_begin(o, ranks, workload, &log);
    aorta_status status = aorta_train(&run, &outcome);
    if (status && aorta_status_code(status) != AORTA_INTERRUPTED) {
        free(outcome.moved);
        return status;
    }
    const bool with_report = run.record && !values->no_report && (!status || outcome.steps > 0);
    const struct aorta_train_finish finish = {.directory = outcome.moved ? outcome.moved : o->training.output_dir,
                                              .log = &log,
                                              .ranks = ranks,
                                              .timeout_s = o->distributed.timeout_s,
                                              .rank_0 = ranks->rank == 0,
                                              .report = with_report && ranks->rank == 0,
                                              .style = values->style};
    aorta_status ended = aorta_train_finish(&finish);
    if (status && ended) aorta_log(&log, AORTA_LOG_ERROR, "%s", aorta_status_message(ended));
    status = aorta_status_join(status, ended);
    if (!status && finish.rank_0 && outcome.moved)
        status = AORTA_ERROR(AORTA_IO, "training.output_dir: %s was removed during the run; its files are in %s",
                             o->training.output_dir, outcome.moved);
    free(outcome.moved);
    return status;
}

static aorta_status check_values(const struct train_values *values) {
    if (values->kernel_timing && values->no_kernel_timing)
        return AORTA_ERROR(AORTA_USAGE, "--kernel-timing and --no-kernel-timing exclude each other");
    if (!values->kernel_timing || !values->no_record) return NULL;
    return AORTA_ERROR(
        AORTA_USAGE, "--kernel-timing and --no-record exclude each other: kernels are recorded in addition to ranges");
}

static aorta_status check_together(const struct train_values *values, const struct aorta_profiling_options *profiling) {
    if (profiling->enabled && values->no_record)
        return AORTA_ERROR(AORTA_USAGE, "--no-record and profiling.enabled exclude each other: traces are made of what "
                                        "is recorded");
    if (profiling->record_every == 1 || !values->kernel_timing) return NULL;
    return AORTA_ERROR(AORTA_USAGE, "--kernel-timing and profiling.record_every above 1 exclude each other: kernels "
                                    "are recorded in addition to the ranges of every step");
}

/* The options are loaded and checked. */
static aorta_status lock_and_train(const struct train_values *values, const struct aorta_train_options *o,
                                   struct aorta_train_workload *workload) {
    struct aorta_directory_lock *lock = NULL;
    AORTA_TRY(check_together(values, &o->profiling));
    AORTA_TRY(check_files(o));
    prepare_finish(); /* before the threads of a driver */
    AORTA_TRY(check_device(values, o));
    if (values->ranks.rank == 0) AORTA_TRY(aorta_directory_lock(o->training.output_dir, "training.output_dir", &lock));
    aorta_status status = train(values, o, workload, &lock);
    aorta_directory_unlock(lock);
    return status;
}

static aorta_status train_transformer(const struct train_values *values) {
    struct aorta_train_options o;
    AORTA_TRY(aorta_train_options_load(values->config, values->overrides.items, values->overrides.count, &o));
    if (!o.fsdp.hybrid_shard_gpus_per_node) o.fsdp.hybrid_shard_gpus_per_node = values->ranks.local_world_size;
    aorta_status status = aorta_train_options_check(&o, values->ranks.world_size);
    if (!status) status = lock_and_train(values, &o, NULL);
    aorta_train_options_free(&o);
    return status;
}

static aorta_status train_sparse(const struct train_values *values) {
    struct aorta_sparse_options o;
    struct aorta_train_workload *workload = NULL;
    AORTA_TRY(aorta_sparse_options_load(values->config, values->overrides.items, values->overrides.count, &o));
    aorta_status status = aorta_injections_check(&o.train, values->ranks.world_size);
    if (!status) status = aorta_sparse_create(&o, &values->ranks, &workload);
    if (!status) status = lock_and_train(values, &o.train, workload);
    aorta_sparse_destroy(workload);
    aorta_sparse_options_free(&o);
    return status;
}

static aorta_status load_and_train(struct aorta_cli_line *line, void *of) {
    struct train_values *values = of;
    values->style = aorta_cli_style(line, stdout);
    values->style.answer = values->quiet;
    values->style.all = "aorta report DIR";
    AORTA_TRY(check_values(values));
    if (!values->config && !values->overrides.count)
        return AORTA_ERROR(AORTA_USAGE, "which configuration? --config FILE is needed: config/quickstart.yaml runs "
                                        "without a GPU, config/default.yaml is the benchmark; config/ has more");
    if (aorta_sparse_is_asked_for(values->config, values->overrides.items, values->overrides.count))
        return train_sparse(values);
    return train_transformer(values);
}

aorta_status aorta_cli_train(int argc, char **argv) {
    struct train_values values;
    AORTA_TRY(aorta_ranks_detect(&values.ranks));
    aorta_status status = aorta_cli_command(&syntax, argc, argv, &values, load_and_train);
    aorta_train_leave_to_rank_0(&values.ranks, status);
    return status;
}
