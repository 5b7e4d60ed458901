#include "train/tracing.h"

#include "base/files.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Traces of earlier runs would be taken for this one's: renamed, not lost. Their number; -1: there is no such folder.
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
    char name[64];
    snprintf(name, sizeof name, "%s/rank%d", folder, rank);
    char *path = aorta_path_join(context->options->training.output_dir, name);
    const int moved = path ? rename_traces(path, ending) : -1;
    if (moved > 0)
        aorta_log(context->log, AORTA_LOG_INFO, "profiling: %s of earlier runs in %s %s now named …%s.old",
                  aorta_counted(moved, "trace").text, path, moved == 1 ? "is" : "are", strrchr(ending, '.'));
    free(path);
    return moved >= 0;
}

/* Each rank does its own, rank 0 those of ranks that this run does not have. */
static void rename_earlier_traces(const struct aorta_train_context *context, const char *folder, const char *ending) {
    rename_traces_of_rank(context, folder, context->ranks.rank, ending);
    if (context->ranks.rank != 0) return;
    for (int rank = context->ranks.world_size; rename_traces_of_rank(context, folder, rank, ending);) rank++;
}

struct aorta_profiler_schedule aorta_tracing_schedule(const struct aorta_train_options *options) {
    const struct aorta_profiling_options *o = &options->profiling;
    return (struct aorta_profiler_schedule){
        .wait = o->wait, .warmup = o->warmup, .active = o->active, .repeat = o->repeat};
}

aorta_status aorta_tracing_open(const struct aorta_train_context *context, struct aorta_tracer *tracer, int64_t steps,
                                struct aorta_step_traces **traces) {
    const struct aorta_profiling_options *o = &context->options->profiling;
    *traces = NULL;
    if (!o->enabled || (!o->tensorboard && !o->chrome_trace)) return NULL;
    char chrome[64];
    snprintf(chrome, sizeof chrome, "chrome_trace/rank%d", context->ranks.rank);
    struct aorta_step_traces_settings settings = {.schedule = aorta_tracing_schedule(context->options),
                                                  .about = describe(context, tracer)};
    char *folder = aorta_path_join(context->options->training.output_dir, "torch_profiler");
    char *chrome_folder = aorta_path_join(context->options->training.output_dir, chrome);
    char *chrome_file = chrome_folder ? aorta_path_join(chrome_folder, o->trace_filename) : NULL;
    const char *ending = strrchr(o->trace_filename, '.');
    rename_earlier_traces(context, "torch_profiler", ".pt.trace.json");
    rename_earlier_traces(context, "chrome_trace", ending ? ending : ".json");
    settings.directory = o->tensorboard ? folder : NULL;
    settings.chrome = o->chrome_trace ? chrome_file : NULL;
    aorta_status status = folder && chrome_file
                              ? aorta_step_traces_open(&settings, traces)
                              : AORTA_ERROR(AORTA_MEMORY, "the names of trace files did not fit in memory");
    free(folder);
    free(chrome_folder);
    free(chrome_file);
    warn_when_late(context, &settings.schedule, steps);
    return status;
}

static aorta_status take_step(void *user, const struct aorta_step_metrics *metrics,
                              const struct aorta_activity_record *records, size_t count) {
    return aorta_step_traces_add(user, metrics, records, count);
}

void aorta_tracing_follow(struct aorta_step_traces *traces, struct aorta_metrics_lines *lines) {
    aorta_metrics_lines_show(lines, (struct aorta_metrics_lines_reader){take_step, traces});
}

aorta_status aorta_tracing_close(const struct aorta_train_context *context, struct aorta_step_traces *traces) {
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
