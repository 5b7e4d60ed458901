/* The output of a run: its directory, the configuration, a line of metrics for each step, and messages. */
#include "base/directory_lock.h"
#include "base/files.h"
#include "device/environment.h"
#include "measure/machine.h"
#include "ops/gemm.h"
#include "train/train_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static aorta_status write_config(const struct trainer *t, const char *directory) {
    struct aorta_text text = {0};
    struct aorta_json json;
    aorta_json_begin(&json, &text, 2);
    aorta_config_write_json(&trainer_options(t)->config, &json);
    aorta_text_puts(&text, "\n");
    char *path = aorta_path_join(directory, "config.json");
    aorta_status status = aorta_text_check(&text);
    if (!status && !path) status = AORTA_ERROR(AORTA_MEMORY, "a file name did not fit in memory");
    if (!status) status = aorta_file_replace(path, text.data, text.length);
    free(path);
    aorta_text_free(&text);
    return status;
}

/* Rank 0's: host, device, libraries and variables. */
static aorta_status write_environment(const struct trainer *t, const char *directory) {
    struct aorta_environment environment;
    char version[256];
    AORTA_TRY(aorta_environment_take(t->context.device, &environment));
    aorta_status status = aorta_environment_add(&environment, "software", "products", aorta_ops_gemm_library());
    if (!status && t->context.world)
        status = aorta_environment_add(&environment, "software", "collectives",
                                       aorta_comm_version(t->context.world, version, sizeof version));
    if (!status) status = aorta_environment_save(&environment, directory);
    aorta_environment_free(&environment);
    return status;
}

static aorta_status write_settings(const struct trainer *t, const char *directory) {
    AORTA_TRY(write_config(t, directory));
    return write_environment(t, directory);
}

/* Lines that were removed and made again: said once, when it is seen. The new directory is this job's as well. */
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
    char renamed[80];
    snprintf(renamed, sizeof renamed, "%s.old", name);
    char *from = aorta_path_join(trainer_options(t)->training.output_dir, name);
    char *to = aorta_path_join(trainer_options(t)->training.output_dir, renamed);
    bool moved = from && to && rename(from, to) == 0;
    if (moved) aorta_log(t->run->log, AORTA_LOG_INFO, "%s is of an earlier run with more ranks: now %s", from, to);
    free(from);
    free(to);
    return moved;
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
    char *path = aorta_path_join(directory, "rank_00_metrics.jsonl");
    struct stat info;
    if (path && stat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_size)
        aorta_log(
            t->run->log, AORTA_LOG_INFO,
            "%s holds results of an earlier run: its metrics are replaced now, its report when this run makes one",
            directory);
    free(path);
}

/* One rank of each host watches it; the launcher's processes are all the job's. A machine that cannot be watched is no
 * reason not to train. */
static void watch_machine(struct trainer *t) {
    const struct aorta_ranks *ranks = &t->context.ranks;
    char name[64];
    if (ranks->local_rank != 0 || !t->run->record) return;
    snprintf(name, sizeof name, MACHINE_OF_RANK, ranks->rank);
    char *path = aorta_path_join(trainer_options(t)->training.output_dir, name);
    const pid_t root = ranks->local_world_size > 1 ? getppid() : getpid();
    aorta_status status = path ? aorta_machine_watch_open(path, root, false, &t->machine)
                               : AORTA_ERROR(AORTA_MEMORY, "a file name did not fit in memory");
    if (!status) status = aorta_machine_watch_start(t->machine);
    if (status) aorta_log(t->run->log, AORTA_LOG_INFO, "the machine is not watched: %s", aorta_status_message(status));
    aorta_status_free(status);
    free(path);
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
    AORTA_TRY(aorta_tracing_open(&t->context, t->tracer, t->total_steps, &t->traces));
    AORTA_TRY(aorta_metrics_lines_open(t->tracer, t->metrics, &t->lines));
    if (t->traces) aorta_tracing_follow(t->traces, t->lines);
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
    status = aorta_status_join(status, aorta_tracing_close(&t->context, t->traces));
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
    };
    aorta_readings_report(&t->readings, t->ending && step + 1 == t->queued, &metrics);
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
