/* A few iterations as a trace file. The workload is set up again for it: graphs have to be captured while the tracer is
 * open, and the tracer's library slows launches down, so measurements run without it. */
#include "base/clock.h"
#include "base/files.h"
#include "device/gpu.h"
#include "hwq/graph.h"
#include "hwq/run.h"
#include "measure/kineto_write.h"

#include <stdlib.h>
#include <string.h>

enum { WARMUP = 2, RECORDED = 5 }; /* iterations before those in the file, and in the file */

struct recording {
    const struct aorta_hwq_run *run;
    struct aorta_hwq *hwq;
    const char *directory;
    struct aorta_kineto_name names[AORTA_HWQ_MAX_STREAMS];
    size_t name_count;
    struct aorta_kineto *file;
    int64_t steps; /* written so far */
    struct aorta_file_path *path;
};

/* ---- the file ---- */

/* `number` is the stream's in the file. */
static aorta_status name_stream(struct recording *recording, int stream, int64_t number) {
    const char *role = aorta_hwq_role(recording->hwq, stream);
    const char *name =
        aorta_arena_printf(recording->hwq->arena, "hwq %d%s%s", stream, role ? " " : "", role ? role : "");
    if (!name) return AORTA_ERROR(AORTA_MEMORY, "no host memory for the names of streams");
    recording->names[recording->name_count++] = (struct aorta_kineto_name){number, name};
    return NULL;
}

/* `tracer`: the library's name, NULL for the harness's own stamps. */
static aorta_status begin_file(struct recording *recording, const char *tracer) {
    const struct aorta_hwq_run *run = recording->run;
    struct aorta_kineto_about about = {.rank = run->ranks.rank,
                                       .world_size = run->ranks.world_size,
                                       .device = *aorta_device_get_info(run->device),
                                       .names = recording->names,
                                       .name_count = recording->name_count,
                                       .tracer = tracer,
                                       .steps_apart = true};
    if (run->world) {
        about.backend = aorta_comm_backend(run->world);
        about.simulated = aorta_comm_simulated(run->world);
        about.groups[0] = (struct aorta_kineto_group){.size = run->ranks.world_size, .stride = 1};
        about.group_count = 1;
    }
    AORTA_TRY(aorta_directory_make(recording->directory));
    AORTA_TRY(aorta_kineto_path(recording->directory, run->ranks.rank, recording->path));
    return aorta_kineto_open(recording->path->text, &about, &recording->file);
}

static aorta_status add_step(struct recording *recording, struct aorta_kineto_step *step) {
    step->number = recording->steps++;
    return aorta_kineto_add(recording->file, step);
}

/* ---- the CPU device: from stamps ---- */

static enum aorta_collective collective_of(const char *name) {
    for (int kind = 0; kind < AORTA_COLLECTIVE_OTHER; kind++)
        if (strcmp(name, aorta_collective_name(kind)) == 0) return (enum aorta_collective)kind;
    return AORTA_COLLECTIVE_OTHER;
}

static struct aorta_range_info describe(const struct recording *recording, const struct aorta_span *span) {
    struct aorta_range_info info = {.tag = span->name, .function = span->name, .layer = -1};
    if (span->kind == AORTA_SPAN_COPY) info.kind = AORTA_RANGE_COPY;
    if (span->kind != AORTA_SPAN_COLLECTIVE) return info;
    info.kind = AORTA_RANGE_COLLECTIVE;
    info.collective = collective_of(span->name);
    info.role = info.collective == AORTA_ALL_REDUCE       ? AORTA_ROLE_ALLREDUCE
                : info.collective == AORTA_REDUCE_SCATTER ? AORTA_ROLE_REDUCESCATTER
                                                          : AORTA_ROLE_AUX;
    info.group_size = recording->run->ranks.world_size;
    info.simulated = recording->run->world && aorta_comm_simulated(recording->run->world);
    return info;
}

static aorta_status add_spans(void *user, const struct aorta_hwq_spans *spans) {
    struct recording *recording = user;
    struct aorta_profile profile = {.index = recording->steps, .start_ns = spans->origin, .end_ns = spans->origin};
    profile.ranges = calloc(spans->count + 1, sizeof *profile.ranges);
    if (!profile.ranges) return AORTA_ERROR(AORTA_MEMORY, "no host memory for %zu operations", spans->count);
    for (size_t i = 0; i < spans->count; i++) {
        const struct aorta_span *span = &spans->items[i];
        struct aorta_range *range = &profile.ranges[profile.range_count++];
        *range = (struct aorta_range){.info = describe(recording, span),
                                      .start_ns = spans->origin + span->start_ns,
                                      .end_ns = spans->origin + span->end_ns,
                                      .enqueue_ns =
                                          span->launch_ns == INT64_MIN ? INT64_MIN : spans->origin + span->launch_ns,
                                      .sequence = -1,
                                      .stream = span->stream};
        if (range->end_ns > profile.end_ns) profile.end_ns = range->end_ns;
    }
    struct aorta_kineto_step step = {
        .ranges = &profile, .host_start_ns = spans->host_start_ns, .host_end_ns = spans->host_end_ns};
    aorta_status status = spans->unstamped ? AORTA_ERROR(AORTA_DEVICE, "%zu kernels did not run", spans->unstamped)
                                           : add_step(recording, &step);
    aorta_profile_free(&profile);
    return status;
}

static aorta_status record_stamps(struct recording *recording, const struct aorta_hwq_plan *plan) {
    for (int s = 0; s < recording->hwq->stream_count; s++) AORTA_TRY(name_stream(recording, s, s));
    AORTA_TRY(begin_file(recording, NULL));
    return aorta_hwq_stamp_iterations(plan, add_spans, recording);
}

/* ---- GPUs: from the tracer's records ---- */

/* Each of our streams writes a timestamp in turn. The order of the records then shows the tracer's number of each
 * stream. */
static aorta_status find_streams(struct recording *recording, struct aorta_hwq_runner *runner,
                                 struct aorta_tracer *tracer) {
    struct aorta_hwq *hwq = recording->hwq;
    struct aorta_activity_record *records;
    size_t count, stamps = 0;
    const int64_t from_ns = aorta_clock_ns();
    for (int s = 0; s < hwq->stream_count; s++) {
        AORTA_TRY(aorta_timestamp(hwq->streams[s], &runner->slots[0]));
        AORTA_TRY(aorta_stream_synchronize(hwq->streams[s]));
    }
    AORTA_TRY(aorta_tracer_flush(tracer, true));
    AORTA_TRY(aorta_tracer_records(tracer, from_ns, aorta_clock_ns(), &records, &count));
    for (size_t i = 0; i < count; i++) /* by start */
        if (aorta_kernel_classify(records[i].name, NULL).class == AORTA_KERNEL_STAMP) records[stamps++] = records[i];
    aorta_status status = NULL;
    if (stamps == (size_t)hwq->stream_count)
        for (int s = 0; s < hwq->stream_count && !status; s++) status = name_stream(recording, s, records[s].stream);
    else
        aorta_log(
            recording->run->log, AORTA_LOG_WARNING,
            "the tracer recorded %zu of %d streams' timestamps: the trace file has their numbers, not their names",
            stamps, hwq->stream_count);
    free(records);
    return status;
}

static aorta_status run_warmup(struct aorta_hwq_runner *runner) {
    struct aorta_hwq_gate *gate = runner->gate;
    runner->gate = NULL; /* the first iterations allocate memory, which may wait for the device */
    aorta_status status = aorta_hwq_runner_warm_up(runner, WARMUP);
    runner->gate = gate;
    return status;
}

static aorta_status run_recorded(struct aorta_hwq_runner *runner, struct aorta_kineto_step steps[RECORDED]) {
    int64_t host_ns;
    for (int i = 0; i < RECORDED; i++) {
        steps[i] = (struct aorta_kineto_step){.host_start_ns = aorta_clock_ns()};
        AORTA_TRY(aorta_hwq_runner_run(runner, i, &host_ns));
        AORTA_TRY(aorta_hwq_wait_for_streams(runner->hwq));
        steps[i].host_end_ns = aorta_clock_ns();
    }
    return NULL;
}

static aorta_status add_records(struct recording *recording, struct aorta_tracer *tracer,
                                struct aorta_kineto_step steps[RECORDED]) {
    size_t total = 0;
    AORTA_TRY(aorta_tracer_flush(tracer, true));
    for (int i = 0; i < RECORDED; i++) {
        struct aorta_activity_record *records;
        const int64_t until_ns = i + 1 < RECORDED ? steps[i + 1].host_start_ns : aorta_clock_ns();
        AORTA_TRY(aorta_tracer_records(tracer, steps[i].host_start_ns, until_ns, &records, &steps[i].record_count));
        steps[i].records = records;
        total += steps[i].record_count;
        aorta_status status = steps[i].record_count ? add_step(recording, &steps[i]) : NULL;
        free(records);
        if (status) return status;
    }
    const struct aorta_tracer_facts facts = aorta_tracer_get_facts(tracer);
    if (facts.dropped)
        aorta_log(recording->run->log, AORTA_LOG_WARNING, "%lld records were lost: the trace file is incomplete",
                  (long long)facts.dropped);
    if (total) return NULL;
    return AORTA_ERROR(AORTA_DEVICE, "%s recorded nothing of %d iterations", facts.library, RECORDED);
}

static aorta_status trace(struct recording *recording, const struct aorta_hwq_plan *plan, struct aorta_tracer *tracer) {
    struct aorta_kineto_step steps[RECORDED];
    struct aorta_hwq_runner runner;
    AORTA_TRY(aorta_hwq_runner_open(plan, &runner));
    aorta_status status = run_warmup(&runner);
    if (!status) status = find_streams(recording, &runner, tracer);
    if (!status) status = begin_file(recording, aorta_tracer_get_facts(tracer).library);
    if (!status) status = run_recorded(&runner, steps);
    if (!status) status = add_records(recording, tracer, steps);
    aorta_hwq_runner_close(&runner);
    return status;
}

/* ---- the recording ---- */

static aorta_status record(const struct aorta_hwq_run *run, struct aorta_hwq *hwq, struct hwq_graph *g, void *user) {
    struct recording *recording = user;
    const struct aorta_hwq_plan plan = {
        .sync = AORTA_HWQ_PER_ITERATION, .graph = run->graph, .gate = run->gate, .iterations = RECORDED, .g = g};
    struct aorta_tracer *tracer = NULL;
    const bool gpu = aorta_device_is_gpu(run->device);
    recording->hwq = hwq;
    if (gpu) AORTA_TRY(aorta_tracer_open(run->device, &tracer));
    aorta_status status = hwq_graph_start(g);
    if (!status) status = gpu ? trace(recording, &plan, tracer) : record_stamps(recording, &plan);
    if (status)
        aorta_kineto_abandon(recording->file);
    else
        status = aorta_kineto_close(recording->file);
    recording->file = NULL;
    aorta_tracer_close(tracer);
    return status;
}

aorta_status aorta_hwq_run_record(const struct aorta_hwq_run *run, const char *directory,
                                  struct aorta_file_path *path) {
    struct recording recording = {.run = run, .directory = directory, .path = path};
    return aorta_annotate(aorta_hwq_run_with(run, record, &recording), "nothing was recorded (--profile)");
}
