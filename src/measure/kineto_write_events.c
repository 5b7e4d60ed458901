/* The events of a step: what the host launched, what the device did, arrows between them, annotations. */
#include "measure/kineto_write.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the vendors' words ---- */

/* A call of the interface of this kind of device. The category is cuda_runtime on all of them: that is where readers
 * look for correlations. */
static void begin_call(struct aorta_kineto *k, const char *function, int64_t start_ns, int64_t end_ns) {
    static const char *const interfaces[] = {
        [AORTA_DEVICE_CPU] = "aorta", [AORTA_DEVICE_CUDA] = "cuda", [AORTA_DEVICE_HIP] = "hip"};
    char name[48];
    snprintf(name, sizeof name, "%s%s", interfaces[k->about.device.kind], function);
    aorta_kineto_begin_host(k, "cuda_runtime", name, start_ns, end_ns);
}

/* PyTorch's words (torch/csrc/distributed/c10d, c10/core/ScalarType.h). */
static const char *collective_word(enum aorta_collective kind) {
    static const char *const words[AORTA_COLLECTIVE_COUNT] = {
        "allreduce", "_reduce_scatter_base", "_allgather_base", "broadcast", "all_to_all", "barrier", "collective"};
    return (unsigned)kind < AORTA_COLLECTIVE_COUNT ? words[kind] : "unknown";
}

static const char *dtype_word(enum aorta_dtype dtype) {
    static const char *const words[AORTA_DTYPE_COUNT] = {"Float", "Half", "BFloat16", "Long", "Int", "Byte"};
    return (unsigned)dtype < AORTA_DTYPE_COUNT ? words[dtype] : "unknown";
}

/* ---- a step, looked through ---- */

/* Facts about a range, collected before writing. */
struct range_notes {
    int64_t sequence;          /* collectives: number in its group within the file */
    int64_t first_ns, last_ns; /* of its kernels; first > last: it has none */
    int64_t kernels, launched; /* its kernels; those whose launch has been written */
    bool graph;                /* launched as part of a graph */
};

/* One event of the device. */
struct work {
    const struct aorta_range *range;            /* of the view */
    const struct aorta_activity_record *record; /* NULL: ranges are the device's work */
    int owner;                                  /* index of its range; -1: uncertain */
    int64_t stream, correlation;                /* correlation 0: unknown */
};

struct scene {
    struct aorta_kineto *k;
    const struct aorta_kineto_step *step;
    const struct aorta_profile *view, *ranges; /* ranges may be NULL */
    bool traced;                               /* the view was made of records */
    struct aorta_profile made;                 /* the view, where the writer had to make it */
    struct range_notes *notes;                 /* of each range */
    struct work *works;                        /* of each range of the view */
    int64_t first_external;                    /* external id of range 0 */
};

static aorta_status choose_view(struct scene *s) {
    const struct aorta_kineto_step *step = s->step;
    s->ranges = step->ranges;
    s->traced = step->records != NULL;
    if (step->kernels && step->records) {
        s->view = step->kernels;
    } else if (step->records) {
        AORTA_TRY(aorta_kernels_profile(step->records, step->record_count, &s->made));
        s->view = &s->made;
    } else if (step->ranges) {
        s->view = step->ranges;
    } else {
        return AORTA_ERROR(AORTA_INTERNAL, "a step without ranges and records has nothing to write into %s",
                           s->k->path.text);
    }
    size_t ranges = s->ranges ? s->ranges->range_count : 0;
    s->notes = calloc(ranges + 1, sizeof *s->notes);
    s->works = calloc(s->view->range_count + 1, sizeof *s->works);
    if (!s->notes || !s->works)
        return AORTA_ERROR(AORTA_MEMORY, "no memory to write %zu events into %s", s->view->range_count,
                           s->k->path.text);
    return NULL;
}

static int group_of(const struct aorta_kineto *k, const struct aorta_range_info *info) {
    int stride = info->group_stride > 1 ? info->group_stride : 1;
    for (int i = 0; info->kind == AORTA_RANGE_COLLECTIVE && i < k->about.group_count; i++) {
        const struct aorta_kineto_group *group = &k->about.groups[i];
        if (group->first == info->group && group->size == info->group_size && group->stride == stride) return i;
    }
    return -1;
}

/* Ranks queue the collectives of a group in one order, so counting pairs them. */
static void number_ranges(struct scene *s) {
    for (size_t i = 0; s->ranges && i < s->ranges->range_count; i++) {
        int group = group_of(s->k, &s->ranges->ranges[i].info);
        s->notes[i] = (struct range_notes){
            .sequence = group < 0 ? -1 : s->k->sequence[group]++, .first_ns = INT64_MAX, .last_ns = INT64_MIN};
    }
}

/* Within a graph the work of a captured stream runs at the same time as what is queued on the stream itself (the copy
 * of the next input): it has a track of its own. */
static int64_t track_of(int64_t stream, bool graph) {
    return graph ? AORTA_KINETO_GRAPH_STREAMS + stream : stream;
}

static aorta_status look_at_ranges(struct scene *s) {
    for (size_t i = 0; i < s->view->range_count; i++) {
        const struct aorta_range *range = &s->view->ranges[i];
        bool joined = i > 0 && range->graph && s->view->ranges[i - 1].graph; /* the ranges of a graph are consecutive */
        s->works[i] = (struct work){.range = range,
                                    .owner = (int)i,
                                    .stream = track_of(range->stream, range->graph),
                                    .correlation = joined ? s->k->launches : ++s->k->launches};
        s->notes[i].graph = range->graph;
        AORTA_TRY(aorta_kineto_use_stream(s->k, s->works[i].stream, range->info.role));
    }
    return NULL;
}

static aorta_status look_at_kernels(struct scene *s) {
    for (size_t i = 0; i < s->view->range_count; i++) {
        const struct aorta_range *range = &s->view->ranges[i];
        const struct aorta_activity_record *record = &s->step->records[range->record];
        struct work *work = &s->works[i];
        *work =
            (struct work){.range = range,
                          .record = record,
                          .owner = s->ranges ? range->owner : -1,
                          .stream = s->ranges ? track_of(range->stream, record->graph != 0) : (int64_t)record->stream,
                          .correlation = record->correlation};
        AORTA_TRY(aorta_kineto_use_stream(s->k, work->stream, work->owner < 0 ? AORTA_ROLE_COUNT : range->info.role));
        if (work->owner < 0) continue;
        struct range_notes *notes = &s->notes[work->owner];
        notes->kernels++;
        notes->graph |= record->graph != 0;
        if (range->start_ns < notes->first_ns) notes->first_ns = range->start_ns;
        if (range->end_ns > notes->last_ns) notes->last_ns = range->end_ns;
    }
    return NULL;
}

/* ---- args ---- */

static void write_dims(struct aorta_json *json, const struct aorta_range_info *info) {
    aorta_json_key_array(json, "Input Dims");
    for (int i = 0; i < 2 && info->dims[i][0]; i++) {
        aorta_json_array(json);
        for (int j = 0; j < AORTA_RANGE_DIMS && info->dims[i][j]; j++) aorta_json_int(json, info->dims[i][j]);
        aorta_json_array_end(json);
    }
    aorta_json_array_end(json);
    aorta_json_key_array(json, "Input type");
    for (int i = 0; i < 2 && info->dims[i][0]; i++) aorta_json_string(json, aorta_dtype_cxx_name(info->dtype));
    aorta_json_array_end(json);
}

static void write_operation(struct scene *s, const struct aorta_range_info *info) {
    struct aorta_json *json = &s->k->json;
    if (s->k->about.shapes && info->dims[0][0]) write_dims(json, info);
    if (s->k->about.flops && info->flops > 0) aorta_json_key_double(json, "flops", info->flops);
}

static void write_group(struct aorta_kineto *k, int group) {
    struct aorta_json *json = &k->json;
    const struct aorta_kineto_group *g = &k->about.groups[group];
    char name[16];
    struct aorta_text ranks = {0};
    snprintf(name, sizeof name, "%d", group);
    for (int i = 0; i < g->size; i++) aorta_text_printf(&ranks, "%s%d", i ? ", " : "[", g->first + i * g->stride);
    aorta_text_puts(&ranks, g->size ? "]" : "[]");
    aorta_json_key_string(json, "Process Group Name", name);
    aorta_json_key_string(json, "Process Group Description", group ? "undefined" : "default_pg");
    aorta_json_key_string(json, "Process Group Ranks", ranks.data);
    if (ranks.failed) k->text.failed = 1;
    aorta_text_free(&ranks);
}

/* The arguments describe the whole collective: if several kernels share it, `info` is the range's. */
static void write_collective(struct scene *s, const struct aorta_range_info *info, int64_t sequence) {
    struct aorta_json *json = &s->k->json;
    int64_t size = (int64_t)aorta_dtype_size(info->dtype);
    int64_t larger = size ? info->bytes / size : 0;
    int64_t smaller = info->group_size > 0 ? larger / info->group_size : larger;
    int group = group_of(s->k, info);
    aorta_json_key_string(json, "Collective name", collective_word(info->collective));
    if (info->bytes > 0) { /* else unknown */
        aorta_json_key_int(json, "In msg nelems", info->collective == AORTA_ALL_GATHER ? smaller : larger);
        aorta_json_key_int(json, "Out msg nelems", info->collective == AORTA_REDUCE_SCATTER ? smaller : larger);
    }
    aorta_json_key_int(json, "Group size", info->group_size);
    aorta_json_key_string(json, "dtype", dtype_word(info->dtype));
    aorta_json_key_string(json, "In split size", "[]");
    aorta_json_key_string(json, "Out split size", "[]");
    if (group >= 0) write_group(s->k, group);
    if (sequence >= 0) aorta_json_key_int(json, "Seq", sequence);
    if (info->simulated) aorta_json_key_bool(json, "simulated", true);
}

static void write_three(struct aorta_json *json, const char *key, const uint32_t values[3]) {
    aorta_json_key_array(json, key);
    for (int i = 0; i < 3; i++) aorta_json_int(json, values[i]);
    aorta_json_array_end(json);
}

static void write_record(struct scene *s, const struct aorta_activity_record *record) {
    struct aorta_json *json = &s->k->json;
    aorta_json_key_int(json, "library stream", record->stream);
    if (record->graph) {
        aorta_json_key_int(json, "graph id", record->graph);
        aorta_json_key_int(json, "graph node id", (int64_t)record->graph_node);
    }
    if (record->kind != AORTA_TRACE_KERNEL) return;
    double multiprocessors = s->k->about.device.multiprocessors;
    double blocks = (double)record->grid[0] * record->grid[1] * record->grid[2];
    double threads = (double)record->block[0] * record->block[1] * record->block[2];
    aorta_json_key_int(json, "registers per thread", record->registers);
    aorta_json_key_int(json, "shared memory", record->shared_bytes);
    if (multiprocessors > 0) {
        double warp = s->k->about.device.kind == AORTA_DEVICE_HIP ? 64 : 32;
        aorta_json_key_fixed(json, "blocks per SM", blocks / multiprocessors, 6);
        aorta_json_key_fixed(json, "warps per SM", blocks * ceil(threads / warp) / multiprocessors, 6);
    }
    write_three(json, "grid", record->grid);
    write_three(json, "block", record->block);
}

/* ---- what the device did ---- */

/* Gives collectives a name that kernel_names.h recognizes if the traced name does not show that it is a collective, so
 * that all readers count it as one. */
static const char *work_name(const struct work *work, char *own, size_t size) {
    const struct aorta_range_info *info = &work->range->info;
    const char *traced = work->record ? work->record->name : NULL;
    if (info->kind == AORTA_RANGE_COLLECTIVE) {
        const bool other = info->collective == AORTA_COLLECTIVE_OTHER;
        if (traced && aorta_kernel_classify(traced, NULL).class == AORTA_KERNEL_COLLECTIVE) return traced;
        snprintf(own, size, "aorta_collective%s%s", other ? "" : "_",
                 other ? "" : aorta_collective_name(info->collective));
        return own;
    }
    if (!traced && info->kind == AORTA_RANGE_COPY) {
        snprintf(own, size, "Memcpy (%s)", info->tag);
        return own;
    }
    if (!traced) return info->function ? info->function : info->tag;
    if (work->record->kind == AORTA_TRACE_FILL) return "Memset (Device)";
    return work->record->kind == AORTA_TRACE_COPY ? aorta_copy_name(work->record->copy_kind) : traced;
}

static const char *work_category(const struct work *work) {
    if (work->range->info.kind == AORTA_RANGE_COLLECTIVE) return "kernel";
    if (work->record && work->record->kind == AORTA_TRACE_FILL) return "gpu_memset";
    return work->range->info.kind == AORTA_RANGE_COPY ? "gpu_memcpy" : "kernel";
}

static void write_copy(struct aorta_json *json, const struct aorta_range *range) {
    double duration_ns = (double)(range->end_ns - range->start_ns);
    if (range->info.bytes <= 0) return; /* unknown */
    aorta_json_key_int(json, "bytes", range->info.bytes);
    if (duration_ns > 0)
        aorta_json_key_fixed(json, "memory bandwidth (GB/s)", (double)range->info.bytes / duration_ns, 6);
}

static void write_whereabouts(struct scene *s, const struct work *work) {
    struct aorta_json *json = &s->k->json;
    const struct aorta_range_info *info = work->owner < 0 ? NULL : &s->ranges->ranges[work->owner].info;
    if (s->step->number >= 0) aorta_json_key_int(json, "step", s->step->number);
    if (!info) return;
    aorta_json_key_string(json, "tag", info->tag);
    if (info->layer >= 0) aorta_json_key_int(json, "layer", info->layer);
}

static void begin_device(struct scene *s, const char *category, const char *name, int64_t stream, int64_t start_ns,
                         int64_t end_ns) {
    aorta_kineto_begin(s->k, &(struct aorta_kineto_event){.phase = "X",
                                                          .category = category,
                                                          .name = name,
                                                          .process = s->k->about.device.index,
                                                          .thread = stream,
                                                          .start_ns = start_ns,
                                                          .end_ns = end_ns});
}

static void write_work(struct scene *s, const struct work *work) {
    struct aorta_kineto *k = s->k;
    struct aorta_json *json = &k->json;
    const struct aorta_range_info *info = &work->range->info;
    char own[160];
    const char *name = work_name(work, own, sizeof own);
    begin_device(s, work_category(work), name, work->stream, work->range->start_ns, work->range->end_ns);
    if (work->owner >= 0) aorta_json_key_int(json, "External id", s->first_external + work->owner);
    aorta_json_key_int(json, "device", k->about.device.index);
    aorta_json_key_int(json, "context", work->record ? work->record->context : 0);
    aorta_json_key_int(json, "stream", work->stream);
    if (work->correlation) aorta_json_key_int(json, "correlation", work->correlation);
    if (work->record) write_record(s, work->record);
    if (work->record && name != work->record->name) aorta_json_key_string(json, "recorded as", work->record->name);
    if (info->kind == AORTA_RANGE_COPY) write_copy(json, work->range);
    if (info->kind == AORTA_RANGE_COLLECTIVE && work->owner >= 0)
        write_collective(s, &s->ranges->ranges[work->owner].info, s->notes[work->owner].sequence);
    if (!s->traced) write_operation(s, info);
    write_whereabouts(s, work);
    aorta_kineto_end(k);
}

/* ---- what the host did ---- */

/* As aorta_range_launched_by, but a range queued during a host wait (the copy of late input) ends with the wait, so
 * that events nest. */
static int64_t launched_by(const struct aorta_profile *ranges, size_t index) {
    int64_t from = ranges->ranges[index].enqueue_ns, until = aorta_range_launched_by(ranges, index);
    for (size_t i = 0; i < ranges->host_count; i++) {
        const struct aorta_host_range *host = &ranges->host[i];
        if (host->start_ns <= from && from < host->end_ns && host->end_ns < until) until = host->end_ns;
    }
    return until;
}

/* Only the starts of the host's events are known, so each event lasts until the next. Viewers that store microseconds
 * as doubles would see neighbours overlap by rounding (up to 1.5 ns, months after the base), so a gap is left.
 * Launches within operations get twice the operations' gap. */
enum { OPERATION_GAP_NS = 2, LAUNCH_GAP_NS = 4 };

static int64_t before_next(int64_t start_ns, int64_t next_ns, int64_t gap_ns) {
    return next_ns - start_ns > gap_ns ? next_ns - gap_ns : start_ns;
}

/* Writes an operation as the host queued it: with traced kernels an annotation, which is repeated on the device, else
 * an operation with shapes. Operations launched by a graph were queued at capture and are not written. */
static void write_operation_event(struct scene *s, size_t index) {
    const struct aorta_range *range = &s->ranges->ranges[index];
    const struct aorta_range_info *info = &range->info;
    if (range->enqueue_ns == INT64_MIN || s->notes[index].graph) return;
    char name[160];
    snprintf(name, sizeof name, s->traced ? "%s (%s)" : "aorta::%s", info->function ? info->function : "work",
             info->tag);
    aorta_kineto_begin_host(s->k, s->traced ? "user_annotation" : "cpu_op", name, range->enqueue_ns,
                            before_next(range->enqueue_ns, launched_by(s->ranges, index), OPERATION_GAP_NS));
    aorta_json_key_int(&s->k->json, "External id", s->first_external + (int64_t)index);
    write_operation(s, info);
    aorta_kineto_end(s->k);
}

static const char *call_of(const struct work *work, bool graph) {
    if (graph) return "GraphLaunch";
    if (work->record && work->record->kind == AORTA_TRACE_FILL) return "MemsetAsync";
    bool copy = work->record ? work->record->kind == AORTA_TRACE_COPY : work->range->info.kind == AORTA_RANGE_COPY;
    return copy ? "MemcpyAsync" : "LaunchKernel";
}

static void write_launch(struct scene *s, const struct work *work, bool graph, int64_t start_ns, int64_t end_ns) {
    begin_call(s->k, call_of(work, graph), start_ns, before_next(start_ns, end_ns, LAUNCH_GAP_NS));
    aorta_json_key_int(&s->k->json, "correlation", work->correlation);
    if (work->owner >= 0) aorta_json_key_int(&s->k->json, "External id", s->first_external + work->owner);
    aorta_kineto_end(s->k);
    aorta_kineto_flow(s->k, true, work->correlation, getpid(), s->k->about.thread, start_ns);
}

/* Whether earlier work of the step has the same launch. Kernels of a graph are close together, so the search is short.
 */
static bool launched_before(const struct scene *s, size_t index) {
    for (size_t i = index; i-- > 0;)
        if (s->works[i].correlation == s->works[index].correlation) return true;
    return false;
}

/* The end of a kernel's launch: a range's kernels are assumed to be launched at equal intervals until the next range
 * (kernels.c). */
static int64_t launch_end(struct scene *s, const struct work *work) {
    if (work->owner < 0) return work->range->enqueue_ns;
    struct range_notes *notes = &s->notes[work->owner];
    int64_t from = s->ranges->ranges[work->owner].enqueue_ns;
    int64_t until = launched_by(s->ranges, (size_t)work->owner);
    if (notes->graph || !notes->kernels) return until;
    return work->range->enqueue_ns + (until - from) / notes->kernels;
}

static bool has_launch(const struct work *work) {
    return work->correlation && work->range->enqueue_ns != INT64_MIN;
}

static void write_launches(struct scene *s) {
    for (size_t i = 0; i < s->view->range_count; i++) {
        const struct work *work = &s->works[i];
        if (!has_launch(work)) continue;
        bool graph = work->record ? work->record->graph != 0 : s->notes[i].graph;
        bool first = !graph || !launched_before(s, i);
        if (first) write_launch(s, work, graph, work->range->enqueue_ns, launch_end(s, work));
    }
}

static void write_waits(struct scene *s) {
    for (size_t i = 0; s->ranges && i < s->ranges->host_count; i++) {
        const struct aorta_host_range *host = &s->ranges->host[i];
        if (host->kind == AORTA_HOST_ALLOCATION) continue;
        if (host->kind == AORTA_HOST_DATA_WAIT)
            aorta_kineto_begin_host(s->k, "user_annotation", "enumerate(DataLoader)#aorta.__next__", host->start_ns,
                                    host->end_ns);
        else
            begin_call(s->k, "EventSynchronize", host->start_ns, host->end_ns);
        aorta_kineto_end(s->k);
    }
}

/* The host's time from its first event to its last. */
static bool host_extent(const struct aorta_profile *ranges, int64_t *start_ns, int64_t *end_ns) {
    *start_ns = INT64_MAX, *end_ns = INT64_MIN;
    for (size_t i = 0; ranges && i < ranges->range_count; i++) {
        if (ranges->ranges[i].enqueue_ns == INT64_MIN) continue;
        int64_t until = launched_by(ranges, i);
        if (ranges->ranges[i].enqueue_ns < *start_ns) *start_ns = ranges->ranges[i].enqueue_ns;
        if (until > *end_ns) *end_ns = until;
    }
    for (size_t i = 0; ranges && i < ranges->host_count; i++) {
        if (ranges->host[i].start_ns < *start_ns) *start_ns = ranges->host[i].start_ns;
        if (ranges->host[i].end_ns > *end_ns) *end_ns = ranges->host[i].end_ns;
    }
    return *start_ns <= *end_ns;
}

static void begin_step(struct scene *s) {
    int64_t start_ns = s->step->host_start_ns, end_ns = s->step->host_end_ns;
    bool seen = (start_ns && end_ns) || host_extent(s->ranges, &start_ns, &end_ns);
    bool next = seen && s->step->number == s->k->step.number + 1;
    aorta_kineto_end_step(s->k, next ? start_ns : INT64_MIN);
    if (!seen || s->step->number < 0) return;
    s->k->step.open = true;
    s->k->step.number = s->step->number;
    s->k->step.start_ns = start_ns;
    s->k->step.end_ns = end_ns;
    s->k->step.external = s->first_external - 1;
}

/* ---- annotations on the device's streams ---- */

static void write_annotation(struct scene *s, const char *name, int64_t external, int64_t stream, int64_t start_ns,
                             int64_t end_ns) {
    begin_device(s, "gpu_user_annotation", name, stream, start_ns, end_ns);
    aorta_json_key_int(&s->k->json, "External id", external);
    aorta_json_key_int(&s->k->json, "stream", stream);
    aorta_kineto_end(s->k);
}

/* As in Kineto, an annotation spans the kernels launched in a range, from the first to the last. */
static void annotate_ranges(struct scene *s) {
    for (size_t i = 0; s->traced && s->ranges && i < s->ranges->range_count; i++) {
        const struct aorta_range *range = &s->ranges->ranges[i];
        const struct range_notes *notes = &s->notes[i];
        if (notes->first_ns > notes->last_ns) continue;
        char name[160];
        snprintf(name, sizeof name, "%s (%s)", range->info.function ? range->info.function : "work", range->info.tag);
        write_annotation(s, name, s->first_external + (int64_t)i, track_of(range->stream, notes->graph),
                         notes->first_ns, notes->last_ns);
    }
}

static void annotate_step(struct scene *s) {
    if (s->step->number < 0) return;
    char name[48];
    snprintf(name, sizeof name, "ProfilerStep#%lld", (long long)s->step->number);
    for (size_t stream = 0; stream < s->k->stream_count; stream++) {
        int64_t start_ns = INT64_MAX, end_ns = INT64_MIN, id = s->k->streams[stream].id;
        for (size_t i = 0; i < s->view->range_count; i++) {
            const struct aorta_range *range = s->works[i].range;
            if (s->works[i].stream != id) continue;
            if (range->start_ns < start_ns) start_ns = range->start_ns;
            if (range->end_ns > end_ns) end_ns = range->end_ns;
        }
        if (start_ns <= end_ns) write_annotation(s, name, s->first_external - 1, id, start_ns, end_ns);
    }
}

/* ---- a step ---- */

static aorta_status write_scene(struct scene *s) {
    struct aorta_kineto *k = s->k;
    size_t ranges = s->ranges ? s->ranges->range_count : 0;
    s->first_external = k->ranges + 2; /* one before the ranges is the step itself */
    k->ranges += 1 + (int64_t)ranges;
    begin_step(s);
    for (size_t i = 0; i < ranges; i++) {
        write_operation_event(s, i);
        AORTA_TRY(aorta_kineto_flush(k, false));
    }
    write_launches(s);
    write_waits(s);
    for (size_t i = 0; i < s->view->range_count; i++) {
        const struct work *work = &s->works[i];
        write_work(s, work);
        if (has_launch(work))
            aorta_kineto_flow(k, false, work->correlation, k->about.device.index, work->stream, work->range->start_ns);
        AORTA_TRY(aorta_kineto_flush(k, false));
    }
    annotate_ranges(s);
    annotate_step(s);
    AORTA_TRY(aorta_kineto_counters(k, s->step, s->view->end_ns));
    return aorta_text_check(&k->text);
}

aorta_status aorta_kineto_add(struct aorta_kineto *kineto, const struct aorta_kineto_step *step) {
    struct scene s = {.k = kineto, .step = step};
    aorta_status status = choose_view(&s);
    if (!status) number_ranges(&s);
    if (!status) status = s.traced ? look_at_kernels(&s) : look_at_ranges(&s);
    if (!status) status = write_scene(&s);
    aorta_profile_free(&s.made);
    free(s.notes);
    free(s.works);
    return status;
}
