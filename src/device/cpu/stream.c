/* A stream: its worker, and the commands it runs. */
#include "base/clock.h"
#include "base/thread.h"
#include "device/cpu/cpu.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- threads ---- */

/* Steps below the process's own niceness. Raising it further needs a privilege that is rarely there. */
static const int niceness[] = {
    [AORTA_PRIORITY_LOW] = 5,
    [AORTA_PRIORITY_NORMAL] = 1,
    [AORTA_PRIORITY_HIGH] = 0,
};

aorta_status aorta_cpu_thread_start(pthread_t *thread, void *(*function)(void *), void *user, const char *what) {
    int error = aorta_thread_start(thread, function, user);
    if (!error) return NULL;
    return AORTA_ERROR(AORTA_DEVICE, "stream %s: its thread could not be started: %s", what, strerror(error));
}

void aorta_cpu_thread_configure(const char *name, enum aorta_priority priority) {
    char shown[16]; /* what Linux keeps of a thread's name */
    snprintf(shown, sizeof shown, "%.15s", name);
    pthread_setname_np(pthread_self(), shown);
    int base = getpriority(PRIO_PROCESS, (id_t)getpid());
    setpriority(PRIO_PROCESS, (id_t)gettid(), base + niceness[priority]); /* a refusal leaves it as it was */
}

aorta_status aorta_cpu_thread_bind(pthread_t thread, double share, int part) {
    cpu_set_t allowed, own;
    if (sched_getaffinity(getpid(), sizeof allowed, &allowed))
        return AORTA_ERROR(AORTA_DEVICE, "the processors of this process are not known: %s", strerror(errno));
    const int total = CPU_COUNT(&allowed), count = (int)ceil(share * total - 1e-9);
    const int first = (int)((int64_t)part * count % total);
    CPU_ZERO(&own);
    for (int processor = 0, place = 0; place < total; processor++) {
        if (!CPU_ISSET(processor, &allowed)) continue;
        if ((place - first + total) % total < count) CPU_SET(processor, &own);
        place++;
    }
    int error = pthread_setaffinity_np(thread, sizeof own, &own);
    if (!error) return NULL;
    return AORTA_ERROR(AORTA_DEVICE, "its thread cannot be bound to %d processors: %s", count, strerror(error));
}

/* ---- running commands ---- */

static aorta_status run_kernel(struct runner *runner, const struct command *command) {
    const struct aorta_kernel *kernel = command->as.kernel;
    return aorta_annotate(kernel->cpu(command + 1), "stream %s: kernel %s", runner->name, kernel->name);
}

static aorta_status run_host_call(struct runner *runner, const struct command *command) {
    aorta_status status = command->as.host_call.function(command->as.host_call.user);
    return aorta_annotate(status, "stream %s: host call", runner->name);
}

static aorta_status run_copy(struct runner *runner, const struct command *command) {
    (void)runner;
    memmove(command->as.copy.to, command->as.copy.from, command->as.copy.bytes);
    return NULL;
}

static aorta_status run_fill(struct runner *runner, const struct command *command) {
    (void)runner;
    memset(command->as.fill.to, command->as.fill.value, command->as.fill.bytes);
    return NULL;
}

static aorta_status run_timestamp(struct runner *runner, const struct command *command) {
    (void)runner;
    *command->as.timestamp = aorta_clock_ns();
    return NULL;
}

static aorta_status run_record(struct runner *runner, const struct command *command) {
    aorta_cpu_mark_reach(command->as.mark, runner->failure);
    return NULL;
}

static aorta_status run_wait(struct runner *runner, const struct command *command) {
    (void)runner;
    aorta_cpu_gate_wait(&command->as.mark->reached);
    return aorta_status_copy(command->as.mark->failure);
}

/* Runs of one graph follow each other in the order of their launches, on any streams. A run that failed stops its own
 * stream only: the next run starts afresh. */
static aorta_status run_replay(struct runner *runner, const struct command *command) {
    if (command->as.replay.before) aorta_cpu_gate_wait(&command->as.replay.before->reached);
    if (!runner->failure) aorta_cpu_graph_run(command->as.replay.graph, runner);
    aorta_cpu_mark_reach(command->as.replay.after, NULL);
    return NULL;
}

/* A failed stream still orders other streams, which would wait for ever otherwise. */
static const struct {
    aorta_status (*run)(struct runner *runner, const struct command *command);
    bool after_failure;
} command_kinds[COMMAND_KIND_COUNT] = {
    [COMMAND_KERNEL] = {run_kernel, false},
    [COMMAND_HOST_CALL] = {run_host_call, false},
    [COMMAND_COPY] = {run_copy, false},
    [COMMAND_FILL] = {run_fill, false},
    [COMMAND_TIMESTAMP] = {run_timestamp, false},
    [COMMAND_RECORD] = {run_record, true},
    [COMMAND_WAIT] = {run_wait, true},
    [COMMAND_REPLAY] = {run_replay, true},
};

void aorta_cpu_run_command(struct runner *runner, const struct command *command) {
    if (runner->failure && !command_kinds[command->kind].after_failure) return;
    aorta_status status = command_kinds[command->kind].run(runner, command);
    if (status) runner->failure = aorta_status_join(runner->failure, status);
}

static void release_command(const struct command *command) {
    if (command->kind == COMMAND_RECORD || command->kind == COMMAND_WAIT) aorta_cpu_mark_release(command->as.mark);
    if (command->kind == COMMAND_REPLAY) {
        aorta_cpu_mark_release(command->as.replay.before);
        aorta_cpu_mark_release(command->as.replay.after);
    }
}

static void *work(void *user) {
    struct cpu_stream *stream = user;
    aorta_cpu_thread_configure(stream->base.name, stream->base.priority);
    for (const struct command *command; (command = aorta_cpu_queue_next(&stream->queue));) {
        aorta_cpu_run_command(&stream->runner, command);
        release_command(command);
    }
    return NULL;
}

/* ---- the stream ---- */

aorta_status aorta_cpu_stream_create(struct aorta_device *device, const char *name, enum aorta_priority priority,
                                     struct aorta_stream **stream) {
    struct cpu_stream *made = calloc(1, sizeof *made);
    if (!made) return AORTA_ERROR(AORTA_MEMORY, "no host memory for stream %s", name);
    made->base = (struct aorta_stream){.device = device, .priority = priority};
    snprintf(made->base.name, sizeof made->base.name, "%s", name);
    made->runner.name = made->base.name;
    aorta_cpu_queue_create(&made->queue);
    aorta_status status = aorta_cpu_thread_start(&made->thread, work, made, name);
    if (status) {
        aorta_cpu_queue_destroy(&made->queue);
        free(made);
        return status;
    }
    *stream = &made->base;
    return NULL;
}

aorta_status aorta_cpu_stream_limit(struct aorta_stream *stream, double share, int part) {
    return aorta_cpu_thread_bind(cpu_stream(stream)->thread, share, part);
}

void aorta_cpu_stream_destroy(struct aorta_stream *base) {
    struct cpu_stream *stream = cpu_stream(base);
    aorta_cpu_queue_close(&stream->queue);
    pthread_join(stream->thread, NULL);
    aorta_cpu_queue_destroy(&stream->queue);
    aorta_status_free(stream->runner.failure);
    free(stream);
}

bool aorta_cpu_stream_idle(struct aorta_stream *stream) {
    return aorta_cpu_queue_idle(&cpu_stream(stream)->queue);
}

aorta_status aorta_cpu_stream_synchronize(struct aorta_stream *base) {
    struct cpu_stream *stream = cpu_stream(base);
    aorta_cpu_queue_wait(&stream->queue);
    return aorta_status_copy(stream->runner.failure);
}

/* ---- work that can be queued or captured ---- */

static aorta_status submit(struct aorta_stream *base, const struct command *command, const void *args, size_t bytes) {
    if (base->branch) return aorta_cpu_capture_append(base, command, args, bytes);
    return aorta_cpu_queue_push(&cpu_stream(base)->queue, command, args, bytes);
}

aorta_status aorta_cpu_launch(struct aorta_stream *stream, const struct aorta_kernel *kernel, const void *args,
                              size_t bytes) {
    if (!kernel->cpu) {
        return AORTA_ERROR(AORTA_UNSUPPORTED, "stream %s: kernel %s has no version for the CPU", stream->name,
                           kernel->name);
    }
    if (bytes > UINT32_MAX / 2) {
        aorta_status status = AORTA_ERROR(AORTA_INTERNAL, "%zu bytes of kernel arguments are too many", bytes);
        return stream->branch ? aorta_capture_break(stream->branch->capture, status) : status;
    }
    struct command command = {.kind = COMMAND_KERNEL, .as.kernel = kernel};
    return submit(stream, &command, args, bytes);
}

aorta_status aorta_cpu_host_call(struct aorta_stream *stream, aorta_status (*function)(void *user), void *user) {
    struct command command = {.kind = COMMAND_HOST_CALL, .as.host_call = {function, user}};
    return submit(stream, &command, NULL, 0);
}

aorta_status aorta_cpu_copy(struct aorta_stream *stream, void *to, const void *from, size_t bytes) {
    if (!bytes) return NULL;
    struct command command = {.kind = COMMAND_COPY, .as.copy = {to, from, bytes}};
    return submit(stream, &command, NULL, 0);
}

aorta_status aorta_cpu_fill_bytes(struct aorta_stream *stream, void *to, int value, size_t bytes) {
    if (!bytes) return NULL;
    struct command command = {.kind = COMMAND_FILL, .as.fill = {to, bytes, value}};
    return submit(stream, &command, NULL, 0);
}

aorta_status aorta_cpu_timestamp(struct aorta_stream *stream, int64_t *slot) {
    struct command command = {.kind = COMMAND_TIMESTAMP, .as.timestamp = slot};
    return submit(stream, &command, NULL, 0);
}
