#include "hwq/iterations.h"
#include "base/clock.h"
#include "base/thread.h"
#include "hwq/graph.h"
#include "hwq/kernels/kernels.h"

#include <stdlib.h>
#include <string.h>

#define GATE_LIMIT_S 2.0

/* ---- the gate ----
 * A kernel on its own stream polls a flag in pinned memory; every stream of the workload waits for the event after it.
 * Streams that share a hardware queue with the gate are blocked by that, too. The kernel ends after GATE_LIMIT_S, so
 * that a host that is blocked in a launch (the device's queues are full) continues. */

struct aorta_hwq_gate {
    struct aorta_hwq *hwq;
    struct aorta_stream *stream;
    struct aorta_event *opened;
    struct aorta_hwq_gate_flags *flags; /* pinned */
    int64_t limit_ticks;
};

static void open_gate(struct aorta_hwq_gate *gate) {
    __atomic_store_n(&gate->flags->open, 1, __ATOMIC_RELEASE);
}

static aorta_status make_gate(struct aorta_hwq_runner *runner) {
    struct aorta_hwq *hwq = runner->hwq;
    struct aorta_hwq_gate *gate = runner->gate = aorta_arena_alloc(hwq->arena, sizeof *gate);
    if (!gate) return AORTA_ERROR(AORTA_MEMORY, "no host memory for the gate");
    const double ns_per_tick = aorta_device_is_gpu(hwq->device) ? aorta_gpu_ns_per_tick(hwq->device) : 1.0;
    gate->hwq = hwq;
    gate->limit_ticks = (int64_t)(GATE_LIMIT_S * 1e9 / ns_per_tick);
    AORTA_TRY(aorta_stream_create(hwq->device, "gate", AORTA_PRIORITY_HIGH, &gate->stream));
    AORTA_TRY(aorta_own_event(&runner->own, &gate->opened));
    return aorta_own_pinned(&runner->own, sizeof *gate->flags, "the gate", &gate->flags);
}

static void end_gate(struct aorta_hwq_gate *gate) {
    if (!gate) return;
    if (gate->flags) open_gate(gate); /* it may still be closed after a failure */
    aorta_stream_destroy(gate->stream);
}

/* Called with idle streams. All streams of the workload wait from now on. */
static aorta_status close_gate(struct aorta_hwq_gate *gate) {
    __atomic_store_n(&gate->flags->gave_up, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&gate->flags->open, 0, __ATOMIC_RELEASE);
    const struct aorta_hwq_hold args = {.gate = gate->flags, .limit_ticks = gate->limit_ticks};
    AORTA_TRY(aorta_launch(gate->stream, &aorta_hwq_kernel_hold, &args, sizeof args));
    gate->hwq->gates++;
    AORTA_TRY(aorta_event_record(gate->opened, gate->stream));
    for (int s = 0; s < gate->hwq->stream_count; s++) AORTA_TRY(aorta_stream_wait(gate->hwq->streams[s], gate->opened));
    return NULL;
}

/* Streams idle again. */
static aorta_status check_gate(const struct aorta_hwq_gate *gate) {
    if (!__atomic_load_n(&gate->flags->gave_up, __ATOMIC_ACQUIRE)) return NULL;
    return AORTA_ERROR(AORTA_DEVICE,
                       "--gate: the device did not wait until an iteration was queued: the host needs more than "
                       "%g s to queue it, or the device's queues are full before; --graph queues it with one launch",
                       GATE_LIMIT_S);
}

/* ---- the runner ---- */

/* Times of iteration i are slots[2·(i+1)] (start) and the one after it (end); the first pair is the warm-up's. Streams
 * that are not joined have a row each instead: slots[(i+1)·streams + s] is the end of iteration i on stream s, and row
 * 0 the start. */
static size_t slot_count(const struct aorta_hwq_runner *runner) {
    const size_t rows = (size_t)runner->plan->iterations + 1;
    return rows * (runner->joined ? 2 : (size_t)runner->hwq->stream_count);
}

aorta_status aorta_hwq_runner_open(const struct aorta_hwq_plan *plan, struct aorta_hwq_runner *runner) {
    struct aorta_hwq *hwq = plan->g->hwq;
    *runner = (struct aorta_hwq_runner){.hwq = hwq, .plan = plan, .own = {.device = hwq->device}};
    runner->joined = plan->sync != AORTA_HWQ_NONE || plan->graph || !plan->independent;
    aorta_status status = aorta_own_event(&runner->own, &runner->fork);
    for (int s = 1; s < hwq->stream_count && !status; s++) status = aorta_own_event(&runner->own, &runner->joins[s]);
    if (!status && plan->gate) status = make_gate(runner);
    if (!status)
        status = aorta_own_pinned(&runner->own, slot_count(runner) * sizeof *runner->slots, "times of iterations",
                                  &runner->slots);
    if (status) aorta_hwq_runner_close(runner);
    return status;
}

void aorta_hwq_runner_close(struct aorta_hwq_runner *runner) {
    end_gate(runner->gate);
    aorta_status_free(aorta_hwq_wait_for_streams(runner->hwq)); /* nothing may write to memory that is freed now */
    aorta_graph_destroy(runner->graph);
    aorta_owned_free(&runner->own);
}

aorta_status aorta_hwq_wait_for_streams(const struct aorta_hwq *hwq) {
    aorta_status status = NULL;
    for (int s = 0; s < hwq->stream_count; s++)
        status = aorta_status_join(status, aorta_stream_synchronize(hwq->streams[s]));
    return status;
}

/* All streams begin after what is queued on the first. */
static aorta_status fork_streams(struct aorta_hwq_runner *runner) {
    struct aorta_hwq *hwq = runner->hwq;
    if (hwq->stream_count == 1) return NULL;
    AORTA_TRY(aorta_event_record(runner->fork, hwq->streams[0]));
    for (int s = 1; s < hwq->stream_count; s++) AORTA_TRY(aorta_stream_wait(hwq->streams[s], runner->fork));
    return NULL;
}

static aorta_status join_streams(struct aorta_hwq_runner *runner) {
    struct aorta_hwq *hwq = runner->hwq;
    for (int s = 1; s < hwq->stream_count; s++) {
        AORTA_TRY(aorta_event_record(runner->joins[s], hwq->streams[s]));
        AORTA_TRY(aorta_stream_wait(hwq->streams[0], runner->joins[s]));
    }
    return NULL;
}

static aorta_status iterate_joined(struct aorta_hwq_runner *runner) {
    AORTA_TRY(fork_streams(runner));
    AORTA_TRY(hwq_graph_iterate(runner->plan->g));
    return join_streams(runner);
}

aorta_status aorta_hwq_runner_capture(struct aorta_hwq_runner *runner) {
    AORTA_TRY(aorta_capture_begin(runner->hwq->streams[0]));
    aorta_status inside = iterate_joined(runner);
    aorta_status status = aorta_capture_end(runner->hwq->streams[0], &runner->graph);
    if (inside && !status) aorta_graph_destroy(runner->graph);
    if (inside || status) runner->graph = NULL;
    return aorta_annotate(aorta_status_join(inside, status), "the iteration cannot be captured (--graph)");
}

static aorta_status queue_joined(struct aorta_hwq_runner *runner, int64_t *slots) {
    struct aorta_stream *first = runner->hwq->streams[0];
    if (runner->gate) AORTA_TRY(close_gate(runner->gate));
    AORTA_TRY(aorta_timestamp(first, &slots[0]));
    if (runner->graph)
        AORTA_TRY(aorta_graph_launch(runner->graph, first));
    else
        AORTA_TRY(iterate_joined(runner));
    return aorta_timestamp(first, &slots[1]);
}

static aorta_status stamp_streams(struct aorta_hwq_runner *runner, int64_t row) {
    const int count = runner->hwq->stream_count;
    for (int s = 0; s < count; s++)
        AORTA_TRY(aorta_timestamp(runner->hwq->streams[s], &runner->slots[row * count + s]));
    return NULL;
}

static aorta_status queue_unjoined(struct aorta_hwq_runner *runner, int64_t index) {
    if (index == 0) AORTA_TRY(stamp_streams(runner, 0));
    AORTA_TRY(hwq_graph_iterate(runner->plan->g));
    return index < 0 ? NULL : stamp_streams(runner, index + 1);
}

aorta_status aorta_hwq_runner_run(struct aorta_hwq_runner *runner, int64_t index, int64_t *host_ns) {
    const int64_t start_ns = aorta_clock_ns();
    const int64_t row = index < 0 ? 0 : index + 1;
    aorta_status status =
        runner->joined ? queue_joined(runner, &runner->slots[2 * row]) : queue_unjoined(runner, index);
    *host_ns = aorta_clock_ns() - start_ns;
    if (runner->gate) open_gate(runner->gate);
    if (status) return status;
    if (runner->plan->sync != AORTA_HWQ_PER_ITERATION) return NULL;
    AORTA_TRY(aorta_stream_synchronize(runner->hwq->streams[0]));
    return runner->gate ? check_gate(runner->gate) : NULL;
}

/* ---- timed ---- */

static int64_t latest(const int64_t *slots, int count) {
    int64_t last = slots[0];
    for (int i = 1; i < count; i++)
        if (slots[i] > last) last = slots[i];
    return last;
}

static int64_t earliest(const int64_t *slots, int count) {
    int64_t first = slots[0];
    for (int i = 1; i < count; i++)
        if (slots[i] < first) first = slots[i];
    return first;
}

/* An iteration lasts from the end of the previous iteration to its own end, each on the stream that ends last. */
static void read_unjoined_times(const struct aorta_hwq_runner *runner, double *iteration_ms) {
    const int count = runner->hwq->stream_count;
    int64_t before = earliest(runner->slots, count);
    for (int64_t i = 0; i < runner->plan->iterations; i++) {
        const int64_t end = latest(&runner->slots[(i + 1) * count], count);
        iteration_ms[i] = (double)(end - before) * 1e-6;
        before = end;
    }
}

static void read_times(const struct aorta_hwq_runner *runner, double *iteration_ms) {
    if (!runner->joined) {
        read_unjoined_times(runner, iteration_ms);
        return;
    }
    for (int64_t i = 0; i < runner->plan->iterations; i++) {
        const int64_t *slots = &runner->slots[2 * (i + 1)];
        iteration_ms[i] = (double)(slots[1] - slots[0]) * 1e-6;
    }
}

aorta_status aorta_hwq_runner_warm_up(struct aorta_hwq_runner *runner, int64_t iterations) {
    int64_t host_ns;
    if (runner->plan->graph && iterations < 1) iterations = 1;
    for (int64_t i = 0; i < iterations; i++) AORTA_TRY(aorta_hwq_runner_run(runner, -1, &host_ns));
    AORTA_TRY(aorta_hwq_wait_for_streams(runner->hwq));
    if (!runner->plan->graph) return NULL;
    AORTA_TRY(aorta_hwq_runner_capture(runner));
    AORTA_TRY(aorta_hwq_runner_run(runner, -1, &host_ns)); /* a graph's first launch uploads it to the device */
    return aorta_hwq_wait_for_streams(runner->hwq);
}

static aorta_status run_timed(struct aorta_hwq_runner *runner, struct aorta_hwq_times *times) {
    const struct aorta_hwq_plan *plan = runner->plan;
    const int64_t queued = runner->hwq->queued;
    AORTA_TRY(aorta_hwq_runner_warm_up(runner, 0));
    const int64_t before = runner->hwq->queued, start_ns = aorta_clock_ns();
    for (int64_t i = 0; i < plan->iterations; i++) {
        int64_t host_ns;
        AORTA_TRY(aorta_hwq_runner_run(runner, i, &host_ns));
        times->host_ms[i] = (double)host_ns * 1e-6;
        if (plan->progress) plan->progress(plan->user, i + 1);
    }
    AORTA_TRY(aorta_hwq_wait_for_streams(runner->hwq));
    times->wall_ms = (double)(aorta_clock_ns() - start_ns) * 1e-6;
    read_times(runner, times->iteration_ms);
    /* Replays count no launches. The warm-up and the capture before counted them twice. */
    times->queued = plan->graph ? (before - queued) / 2 : (runner->hwq->queued - before) / plan->iterations;
    return NULL;
}

aorta_status aorta_hwq_time_iterations(const struct aorta_hwq_plan *plan, struct aorta_hwq_times *times) {
    struct aorta_hwq_runner runner;
    AORTA_TRY(aorta_hwq_runner_open(plan, &runner));
    aorta_status status = run_timed(&runner, times);
    aorta_hwq_runner_close(&runner);
    return status;
}

/* ---- stamped ---- */

/* Iterations one by one: stamps are cleared before each, and read after it. */
static aorta_status run_stamped(struct aorta_hwq_runner *runner, struct aorta_hwq_spans *spans,
                                aorta_hwq_spans_visitor visit, void *user) {
    const struct aorta_hwq_plan *plan = runner->plan;
    struct aorta_hwq_stamps *stamps = runner->hwq->stamps;
    struct aorta_hwq_gate *gate = runner->gate;
    int64_t host_ns;
    runner->gate = NULL; /* this iteration allocates memory for stamps, which waits for the device */
    AORTA_TRY(aorta_hwq_stamps_clear(stamps, false));
    aorta_status first = aorta_hwq_runner_run(runner, -1, &host_ns);
    runner->gate = gate;
    if (first) return first;
    if (plan->graph) {
        AORTA_TRY(aorta_hwq_stamps_clear(stamps, false));
        AORTA_TRY(aorta_hwq_runner_capture(runner));
    }
    for (int64_t i = 0; i < plan->iterations; i++) {
        AORTA_TRY(aorta_hwq_stamps_clear(stamps, plan->graph));
        spans->host_start_ns = aorta_clock_ns();
        AORTA_TRY(aorta_hwq_runner_run(runner, i, &host_ns));
        spans->host_end_ns = aorta_clock_ns();
        spans->gate = runner->gate ? runner->hwq->gates : 0;
        AORTA_TRY(aorta_hwq_stamps_collect(stamps, spans));
        AORTA_TRY(visit(user, spans));
        if (plan->progress) plan->progress(plan->user, i + 1);
    }
    return NULL;
}

aorta_status aorta_hwq_stamp_iterations(const struct aorta_hwq_plan *given, aorta_hwq_spans_visitor visit, void *user) {
    struct aorta_hwq *hwq = given->g->hwq;
    struct aorta_hwq_plan plan = *given;
    struct aorta_hwq_runner runner;
    struct aorta_hwq_spans spans = {0};
    plan.sync = AORTA_HWQ_PER_ITERATION;
    AORTA_TRY(aorta_hwq_stamps_create(hwq, &hwq->stamps));
    aorta_status status = aorta_hwq_runner_open(&plan, &runner);
    if (!status) {
        status = run_stamped(&runner, &spans, visit, user);
        aorta_hwq_runner_close(&runner);
    }
    aorta_hwq_spans_free(&spans);
    aorta_hwq_stamps_destroy(hwq->stamps);
    hwq->stamps = NULL;
    return status;
}

/* ---- clock_samples ---- */

static const int64_t every_ns = 500000000;

struct aorta_hwq_clock_sampler {
    struct aorta_device *device;
    struct aorta_arena arena;           /* of the samples; the thread's while it runs */
    struct aorta_clock_sample *samples; /* owned by the thread while it runs */
    struct aorta_device_metrics *last;  /* of the last sample */
    size_t count, capacity;
    struct aorta_repeated thread;
};

static void take_sample(struct aorta_hwq_clock_sampler *sampler, bool working) {
    struct aorta_device_metrics *values = aorta_arena_alloc(&sampler->arena, sizeof *values);
    if (!values) return;
    *values = aorta_device_measure(sampler->device);
    sampler->last = values;
    const struct aorta_clock_sample sample = {values, aorta_clock_ns(), working};
    aorta_arena_append(&sampler->arena, &sampler->samples, &sampler->capacity, &sampler->count, &sample, sizeof sample);
}

static void take_next(void *user) {
    take_sample(user, true);
}

aorta_status aorta_hwq_clock_sampler_begin(struct aorta_device *device, struct aorta_hwq_clock_sampler **out) {
    struct aorta_hwq_clock_sampler *sampler = *out = calloc(1, sizeof *sampler);
    if (!sampler) return AORTA_ERROR(AORTA_MEMORY, "no host memory to sample the clock of the device");
    sampler->device = device;
    take_sample(sampler, false); /* opens the library; this sample is dropped */
    if (!sampler->count || !aorta_device_measured(sampler->last)) return NULL;
    sampler->count = 0;
    take_sample(sampler, false);
    const int error = aorta_repeat(&sampler->thread, "clocks", every_ns, take_next, sampler);
    if (!error) return NULL;
    return AORTA_ERROR(AORTA_DEVICE, "the thread that reads the device's clock cannot be started: %s", strerror(error));
}

aorta_status aorta_hwq_clock_sampler_end(struct aorta_hwq_clock_sampler *sampler, struct aorta_clocks *clocks) {
    if (sampler->thread.running) {
        aorta_repeat_end(&sampler->thread);
        take_sample(sampler, true);
        /* The device has just become idle: its clock is still that of the work, but its reason may be idleness. */
        if (sampler->last->clock_limits == 1U << AORTA_CLOCK_IDLE) sampler->last->clock_limits_known = false;
    }
    AORTA_TRY(aorta_arena_check(&sampler->arena, "samples of the device's clock"));
    return aorta_clocks_make(sampler->samples, sampler->count, clocks);
}

void aorta_hwq_clock_sampler_close(struct aorta_hwq_clock_sampler *sampler) {
    if (!sampler) return;
    aorta_repeat_end(&sampler->thread);
    aorta_arena_free(&sampler->arena);
    free(sampler);
}
