/* A trace that is no Kineto file (rocprofv3's), written in Kineto's layout: device work, the calls that launched it
 * with flows between them, and the ranges that the program marked. */
#include "base/array.h"
#include "report/merge.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct writing {
    struct merge_rank *rank;
    const struct aorta_trace *trace;
    struct aorta_json *json; /* the rank's */
    int64_t *threads;        /* numbers within the rank's process, by row of the trace */
    struct lane *lanes;      /* the first of each stream has the stream's row; further ones are chained to it */
    size_t lane_count, lane_capacity;
    struct aorta_arena memory;
    int64_t marks; /* the thread of ranges and steps whose thread is not known */
};

/* A row on the screen. Viewers want events of one row to nest (Perfetto drops other events, some viewers draw them
 * wrong), but ROCm's streams run several kernels at once: a kernel that begins before the previous one has ended gets
 * another row. */
struct lane {
    int64_t number, free_ns; /* its thread; end of the last work on it */
    size_t next;             /* of the same stream; 0: none */
};

static const char *const categories[] = {
    [AORTA_TRACE_KERNEL] = "kernel", [AORTA_TRACE_COPY] = "gpu_memcpy", [AORTA_TRACE_FILL] = "gpu_memset"};

/* ---- pieces ---- */

static void put_flow(struct writing *w, const char *phase, int64_t thread, int64_t time_ns, uint64_t id) {
    aorta_merge_begin(w->rank, phase, "ac2g", "ac2g");
    aorta_merge_start(w->rank, thread, time_ns);
    aorta_text_puts(w->rank->out, ",\"id\":");
    aorta_merge_id(w->rank, id > INT64_MAX ? INT64_MAX : (int64_t)id);
    if (phase[0] == 'f') aorta_json_key_string(w->json, "bp", "e");
    aorta_json_object_end(w->json);
}

/* ---- threads ---- */

enum { STREAM_KEYS = 1, THREAD_KEYS = 2, MARK_KEYS = 3, FURTHER_KEYS = 4, KEYS };

static void name_lane(struct writing *w, size_t lane, size_t stream_row, int nth) {
    const struct aorta_trace_stream *stream = &w->trace->streams[stream_row];
    bool added;
    char name[96] = "", *end = name;
    uint64_t key = lane < w->trace->stream_count ? lane * KEYS + STREAM_KEYS : lane * KEYS + FURTHER_KEYS;
    w->lanes[lane].number = aorta_merge_thread(w->rank, key, nth == 1 ? stream->id : 0, &added);
    if (w->rank->several_devices) end += snprintf(end, 32, "GPU %" PRId64 " ", stream->device);
    end += snprintf(end, 32, "stream %" PRId64, stream->id);
    if (nth > 1) snprintf(end, 24, " (%d)", nth);
    aorta_merge_thread_name(w->rank, w->lanes[lane].number, name);
}

/* Returns the lane's place; 0 if memory is exhausted. */
static size_t add_lane(struct writing *w, size_t stream_row, int nth) {
    const struct lane lane = {.free_ns = INT64_MIN};
    if (!aorta_arena_append(&w->memory, &w->lanes, &w->lane_capacity, &w->lane_count, &lane, sizeof lane)) return 0;
    name_lane(w, w->lane_count - 1, stream_row, nth);
    return w->lane_count - 1;
}

/* The number of the stream's first row that is free when the work starts. */
static int64_t take_lane(struct writing *w, const struct aorta_trace_work *work) {
    size_t lane = work->stream;
    int nth = 1;
    for (; w->lanes[lane].free_ns > work->start_ns && w->lanes[lane].next; lane = w->lanes[lane].next) nth++;
    if (w->lanes[lane].free_ns > work->start_ns) {
        const size_t added = add_lane(w, work->stream, nth + 1);
        w->lanes[lane].next = added;
        lane = added;
    }
    w->lanes[lane].free_ns = work->end_ns;
    return w->lanes[lane].number;
}

static void name_thread(struct writing *w, size_t row) {
    const struct aorta_trace_thread *thread = &w->trace->threads[row];
    bool added;
    char name[48];
    w->threads[row] = aorta_merge_thread(w->rank, row * KEYS + THREAD_KEYS, thread->id, &added);
    snprintf(name, sizeof name, "thread %" PRId64, thread->id);
    aorta_merge_thread_name(w->rank, w->threads[row], name);
}

/* Names the thread of marks once it is used. */
static void name_marks(struct writing *w) {
    bool added, used = w->trace->wait_count > 0;
    for (size_t i = 0; i < w->trace->step_count; i++) used |= w->trace->steps[i].start_ns != INT64_MIN;
    for (size_t i = 0; i < w->trace->annotation_count; i++)
        used |= w->trace->annotations[i].thread >= w->trace->thread_count;
    if (!used) return;
    w->marks = aorta_merge_thread(w->rank, MARK_KEYS, 0, &added);
    aorta_merge_thread_name(w->rank, w->marks, "steps");
}

/* ---- device work ---- */

static void put_collective(struct writing *w, const struct aorta_trace_collective *facts) {
    const struct aorta_trace *trace = w->trace;
    if (facts->name != AORTA_TRACE_NONE)
        aorta_json_key_string(w->json, "Collective name", aorta_trace_text(trace, facts->name));
    else if (facts->named)
        aorta_json_key_string(w->json, "Collective name", aorta_collective_name(facts->kind));
    if (facts->in_elements >= 0) aorta_json_key_int(w->json, "In msg nelems", facts->in_elements);
    if (facts->out_elements >= 0) aorta_json_key_int(w->json, "Out msg nelems", facts->out_elements);
    if (facts->group_size >= 0) aorta_json_key_int(w->json, "Group size", facts->group_size);
    if (facts->dtype != AORTA_TRACE_NONE)
        aorta_json_key_string(w->json, "dtype", aorta_trace_text(trace, facts->dtype));
    if (facts->group != AORTA_TRACE_NONE)
        aorta_json_key_string(w->json, "Process Group Name", aorta_trace_text(trace, trace->groups[facts->group].name));
    if (facts->sequence >= 0) aorta_json_key_int(w->json, "Seq", facts->sequence);
}

/* "64x2x1 of 256x1x1" */
static void put_geometry(struct writing *w, const char *geometry) {
    int extents[6];
    if (sscanf(geometry, "%dx%dx%d of %dx%dx%d", &extents[0], &extents[1], &extents[2], &extents[3], &extents[4],
               &extents[5]) != 6)
        return;
    for (int i = 0; i < 2; i++) {
        aorta_json_key_array(w->json, i ? "block" : "grid");
        for (int j = 0; j < 3; j++) aorta_json_int(w->json, extents[3 * i + j]);
        aorta_json_array_end(w->json);
    }
}

static void put_work(struct writing *w, const struct aorta_trace_work *work) {
    const struct aorta_trace *trace = w->trace;
    struct aorta_merge_sink *sink = w->rank->sink;
    if (work->stream >= w->lane_count) {
        if (!sink->text.failed && !sink->failure)
            sink->failure = AORTA_ERROR(AORTA_INTERNAL, "%s: work on stream %u of %zu", trace->path, work->stream,
                                        trace->stream_count);
        return;
    }
    const int64_t lane = take_lane(w, work);
    aorta_merge_begin(w->rank, "X", categories[work->kind], aorta_trace_text(trace, work->name));
    aorta_merge_range(w->rank, lane, work->start_ns, work->end_ns);
    aorta_json_key_object(w->json, "args");
    aorta_json_key_int(w->json, "device", work->device);
    const struct aorta_trace_stream *stream = &trace->streams[work->stream];
    if (stream->context >= 0) aorta_json_key_int(w->json, "context", stream->context);
    aorta_json_key_int(w->json, "stream", stream->id);
    if (work->graph) aorta_json_key_int(w->json, "graph node id", 1);
    if (work->geometry != AORTA_TRACE_NONE) put_geometry(w, aorta_trace_text(trace, work->geometry));
    if (work->queue != AORTA_TRACE_NONE) aorta_json_key_int(w->json, "hsa_queue", trace->queues[work->queue].id);
    if (work->correlation && work->correlation <= INT64_MAX)
        aorta_json_key_int(w->json, "correlation", (int64_t)work->correlation);
    if (work->bytes >= 0) aorta_json_key_int(w->json, "bytes", work->bytes);
    if (work->collective != AORTA_TRACE_NONE) put_collective(w, &trace->collectives[work->collective]);
    aorta_json_object_end(w->json);
    aorta_json_object_end(w->json);
    if (work->call == AORTA_TRACE_NONE) return;
    const struct aorta_trace_call *call = &trace->calls[work->call];
    put_flow(w, "s", w->threads[call->thread], call->start_ns, work->correlation);
    put_flow(w, "f", lane, work->start_ns, work->correlation);
}

/* ---- the host ---- */

static void put_call(struct writing *w, const char *name, int64_t thread, int64_t start_ns, int64_t end_ns,
                     uint64_t correlation) {
    aorta_merge_begin(w->rank, "X", "cuda_runtime", name);
    aorta_merge_range(w->rank, thread, start_ns, end_ns);
    if (correlation && correlation <= INT64_MAX) {
        aorta_json_key_object(w->json, "args");
        aorta_json_key_int(w->json, "correlation", (int64_t)correlation);
        aorta_json_object_end(w->json);
    }
    aorta_json_object_end(w->json);
}

static void put_list(struct writing *w, const char *key, uint32_t text) {
    if (text == AORTA_TRACE_NONE) return;
    const char *list = aorta_trace_text(w->trace, text);
    struct aorta_text copy = {0};
    if (aorta_merge_copy(&copy, (struct aorta_json_value){list, strlen(list)})) {
        aorta_json_key(w->json, key);
        aorta_text_append(w->rank->out, copy.data, copy.length);
    }
    aorta_text_free(&copy);
}

/* Writes ranges of the program. Facts that a capture gives about a graph's work are skipped, as a reader finds them
 * again. */
static void put_operation(struct writing *w, const struct aorta_trace_operation *operation) {
    if (operation->range || operation->captured != AORTA_TRACE_NONE) return;
    aorta_merge_begin(w->rank, "X", "cpu_op", aorta_trace_text(w->trace, operation->name));
    aorta_merge_range(w->rank, w->threads[operation->thread], operation->start_ns, operation->end_ns);
    aorta_json_key_object(w->json, "args");
    if (operation->sequence >= 0) aorta_json_key_int(w->json, "Sequence number", operation->sequence);
    if (operation->gradient) aorta_json_key_int(w->json, "Fwd thread id", 1);
    if (operation->inputs != AORTA_TRACE_NONE) {
        const struct aorta_trace_inputs *inputs = &w->trace->inputs[operation->inputs];
        put_list(w, "Input Dims", inputs->dims);
        put_list(w, "Input type", inputs->types);
        put_list(w, "Input Strides", inputs->strides);
        put_list(w, "Concrete Inputs", inputs->values);
    }
    aorta_json_object_end(w->json);
    aorta_json_object_end(w->json);
}

/* ---- waits ---- */

static void put_wait_facts(struct writing *w, const struct aorta_trace_wait *wait, int64_t correlation,
                           int64_t recorded) {
    const bool host = wait->stream == AORTA_TRACE_NONE, event = wait->recorded_ns != INT64_MIN;
    const struct aorta_trace_stream *on = &w->trace->streams[wait->on];
    aorta_merge_begin(w->rank, "X", "cuda_sync", !host ? "Stream Wait Event" : event ? "Event Sync" : "Stream Sync");
    aorta_merge_range(w->rank, w->marks, wait->asked_ns, wait->asked_ns);
    aorta_json_key_object(w->json, "args");
    aorta_json_key_int(w->json, "device", on->device);
    aorta_json_key_int(w->json, "context", on->context);
    aorta_json_key_int(w->json, "stream", host ? on->id : w->trace->streams[wait->stream].id);
    aorta_json_key_int(w->json, "correlation", correlation);
    aorta_json_key_int(w->json, "wait_on_stream", on->id);
    aorta_json_key_int(w->json, "wait_on_cuda_event_record_corr_id", recorded);
    aorta_json_object_end(w->json);
    aorta_json_object_end(w->json);
}

/* Calls that query events are not in calls[]. Here they get numbers that no other call has. */
static void put_wait(struct writing *w, const struct aorta_trace_wait *wait, size_t number) {
    static const int64_t first = INT64_C(1) << 61;
    const int64_t recorded = first + 2 * (int64_t)number;
    int64_t correlation = recorded + 1;
    if (wait->call != AORTA_TRACE_NONE) {
        const uint64_t own = w->trace->calls[wait->call].correlation;
        if (!own || own > INT64_MAX || wait->on == AORTA_TRACE_NONE) return;
        correlation = (int64_t)own;
    } else {
        put_call(w, "cudaStreamWaitEvent", w->marks, wait->asked_ns, wait->asked_ns, (uint64_t)correlation);
    }
    if (wait->on == AORTA_TRACE_NONE) return;
    if (wait->recorded_ns != INT64_MIN)
        put_call(w, "cudaEventRecord", w->marks, wait->recorded_ns, wait->recorded_ns, (uint64_t)recorded);
    put_wait_facts(w, wait, correlation, recorded);
}

/* ---- ranges ---- */

static void put_annotation(struct writing *w, const char *name, uint32_t thread, int64_t start_ns, int64_t end_ns) {
    aorta_merge_begin(w->rank, "X", "user_annotation", name);
    aorta_merge_range(w->rank, thread < w->trace->thread_count ? w->threads[thread] : w->marks, start_ns, end_ns);
    aorta_json_object_end(w->json);
}

static void put_step(struct writing *w, const struct aorta_trace_step *step) {
    char name[48];
    if (step->start_ns == INT64_MIN) return;
    snprintf(name, sizeof name, "ProfilerStep#%" PRId64, step->number);
    put_annotation(w, name, AORTA_TRACE_NONE, step->start_ns, step->end_ns);
}

static void put_all(struct writing *w) {
    const struct aorta_trace *trace = w->trace;
    aorta_merge_process(w->rank);
    for (size_t i = 0; i < trace->stream_count; i++) add_lane(w, i, 1);
    if (w->memory.failed) return; /* each stream needs its lane */
    for (size_t i = 0; i < trace->thread_count; i++) name_thread(w, i);
    name_marks(w);
    for (size_t i = 0; i < trace->step_count; i++) put_step(w, &trace->steps[i]);
    AORTA_EACH (const struct aorta_trace_annotation, a, trace->annotations, trace->annotation_count)
        put_annotation(w, aorta_trace_text(trace, a->name), a->thread, a->start_ns, a->end_ns);
    for (size_t i = 0; i < trace->operation_count; i++) put_operation(w, &trace->operations[i]);
    for (size_t i = 0; i < trace->wait_count; i++) put_wait(w, &trace->waits[i], i);
    AORTA_EACH (const struct aorta_trace_call, call, trace->calls, trace->call_count) {
        if (call->kind == AORTA_CALL_COLLECTIVE) continue; /* a reader finds it again */
        put_call(w, aorta_trace_text(trace, call->name), w->threads[call->thread], call->start_ns, call->end_ns,
                 call->correlation);
    }
    for (size_t i = 0; i < trace->work_count; i++) put_work(w, &trace->work[i]);
}

static void put_devices(const struct aorta_trace *trace, struct aorta_text *out) {
    struct aorta_json json;
    if (!trace->device_count) return;
    aorta_text_puts(out, ", \"deviceProperties\": ");
    aorta_json_begin(&json, out, 0);
    aorta_json_array(&json);
    AORTA_EACH (const struct aorta_trace_device, device, trace->devices, trace->device_count) {
        aorta_json_object(&json);
        aorta_json_key_int(&json, "id", device->id);
        if (device->name != AORTA_TRACE_NONE)
            aorta_json_key_string(&json, "name", aorta_trace_text(trace, device->name));
        if (device->memory_bytes >= 0) aorta_json_key_int(&json, "totalGlobalMem", device->memory_bytes);
        if (device->multiprocessors >= 0) aorta_json_key_int(&json, "numSms", device->multiprocessors);
        if (device->major >= 0) aorta_json_key_int(&json, "computeMajor", device->major);
        if (device->minor >= 0) aorta_json_key_int(&json, "computeMinor", device->minor);
        aorta_json_object_end(&json);
    }
    aorta_json_array_end(&json);
}

void aorta_merge_model(struct merge_rank *rank) {
    const struct aorta_trace *trace = rank->source->trace;
    struct writing w = {.rank = rank, .trace = trace, .json = &rank->json};
    w.threads = aorta_arena_alloc(&w.memory, trace->thread_count * sizeof *w.threads);
    put_all(&w);
    put_devices(trace, &rank->members);
    aorta_text_arena_end(rank->out, &w.memory);
}
