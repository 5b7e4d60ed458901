#include "base/sort.h"
#include "trace/builder_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

void aorta_trace_rows_put(struct aorta_trace_builder *builder, struct trace_rows *rows, const void *row,
                          size_t row_bytes) {
    builder->memory.failed =
        builder->memory.failed || !aorta_array_append(&rows->items, &rows->capacity, &rows->count, row, row_bytes);
}

uint32_t aorta_trace_add_facts(struct aorta_trace_builder *builder, const struct aorta_trace_collective *facts) {
    aorta_trace_rows_put(builder, &builder->collectives, facts, sizeof *facts);
    return builder->memory.failed ? AORTA_TRACE_NONE : (uint32_t)builder->collectives.count - 1;
}

aorta_status aorta_trace_builder_create(enum aorta_trace_format format, const char *path,
                                        const struct aorta_trace_options *options,
                                        struct aorta_trace_builder **builder) {
    struct aorta_trace_builder *self = calloc(1, sizeof *self);
    struct aorta_trace *trace = calloc(1, sizeof *trace);
    struct aorta_texts *texts = calloc(1, sizeof *texts);
    char *copy = strdup(path);
    if (!self || !trace || !texts || !copy) {
        free(self);
        free(trace);
        free(texts);
        free(copy);
        return AORTA_ERROR(AORTA_MEMORY, "no memory to read %s", path);
    }
    *trace = (struct aorta_trace){.format = format,
                                  .path = copy,
                                  .rank = -1,
                                  .world = -1,
                                  .process = -1,
                                  .base_ns = INT64_MIN,
                                  .backend = AORTA_TRACE_NONE,
                                  .note = AORTA_TRACE_NONE,
                                  .library = AORTA_TRACE_NONE,
                                  .texts = texts};
    for (int i = 0; i < AORTA_REASON_COUNT; i++) trace->warnings[i].offset = -1;
    self->trace = trace;
    self->patterns = options ? options->patterns : NULL;
    self->keeps_functions = options && options->functions;
    *builder = self;
    return NULL;
}

void aorta_trace_builder_destroy(struct aorta_trace_builder *builder) {
    if (!builder) return;
    const struct aorta_trace_group *groups = builder->groups.items;
    for (size_t i = 0; i < builder->groups.count; i++) free(groups[i].ranks);
    struct trace_rows *rows[] = {
        &builder->pending,    &builder->calls,       &builder->annotations,   &builder->steps,
        &builder->operations, &builder->runs,        &builder->wait_facts,    &builder->functions,
        &builder->requests,   &builder->collectives, &builder->request_facts, &builder->shapes,
        &builder->inputs,     &builder->groups,      &builder->devices,       &builder->thread_names,
        &builder->frames,     &builder->allocations, &builder->capture_marks, &builder->launches,
        &builder->graphs,     &builder->captured};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) free(rows[i]->items);
    struct aorta_keys *keys[] = {&builder->streams,    &builder->queues,    &builder->threads,    &builder->shape_keys,
                                 &builder->input_keys, &builder->step_keys, &builder->group_keys, &builder->rank_lists};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) aorta_keys_free(keys[i]);
    for (int i = 0; i < TRACE_MAP_COUNT; i++) free(builder->maps[i].items);
    free(builder->meanings);
    aorta_trace_free(builder->trace);
    free(builder);
}

struct aorta_trace *aorta_trace_builder_head(struct aorta_trace_builder *builder) {
    return builder->trace;
}

static bool time_fits(int64_t ns) {
    return ns >= INT64_MIN / 4 && ns <= INT64_MAX / 2;
}

bool aorta_trace_times_fit(int64_t start_ns, int64_t end_ns) {
    return time_fits(start_ns) && time_fits(end_ns);
}

void aorta_trace_builder_warn(struct aorta_trace_builder *builder, enum aorta_trace_reason reason, int64_t offset) {
    aorta_trace_warn(builder->trace->warnings, reason, offset);
}

/* ---- rows that are stored once ---- */

uint32_t aorta_trace_builder_text(struct aorta_trace_builder *builder, const char *text, size_t length) {
    uint32_t number = builder->memory.failed ? AORTA_TRACE_NONE : aorta_texts_add(builder->trace->texts, text, length);
    if (number == AORTA_TRACE_NONE) builder->memory.failed = true;
    return number;
}

/* NULL (and failed) when memory is exhausted. Valid until the next text is added. */
static struct trace_meaning *meaning_of(struct aorta_trace_builder *builder, uint32_t text) {
    if (builder->memory.failed) return NULL;
    if (!aorta_array_extend(&builder->meanings, &builder->meaning_count, (size_t)text + 1, sizeof *builder->meanings)) {
        builder->memory.failed = true;
        return NULL;
    }
    return &builder->meanings[text];
}

/* NULL: not known, or (and failed) memory is exhausted. */
static const struct trace_meaning *kernel_meaning(struct aorta_trace_builder *builder, uint32_t name) {
    struct trace_meaning *meaning = name == AORTA_TRACE_NONE ? NULL : meaning_of(builder, name);
    if (!meaning || meaning->kernel_known) return meaning;
    const char *text = aorta_trace_text(builder->trace, name);
    meaning->kernel = aorta_kernel_classify(text, builder->patterns);
    meaning->work_class = (uint8_t)aorta_kernel_work_class(text);
    meaning->product = aorta_kernel_is_gemm(text);
    meaning->kernel_known = true;
    return meaning;
}

struct aorta_kernel_kind aorta_trace_kernel_kind(struct aorta_trace_builder *builder, uint32_t name) {
    const struct trace_meaning *meaning = kernel_meaning(builder, name);
    return meaning ? meaning->kernel : (struct aorta_kernel_kind){AORTA_KERNEL_COMPUTE, AORTA_COLLECTIVE_OTHER, false};
}

enum aorta_work_class aorta_trace_work_class(struct aorta_trace_builder *builder, uint32_t name) {
    const struct trace_meaning *meaning = kernel_meaning(builder, name);
    return meaning ? (enum aorta_work_class)meaning->work_class : AORTA_WORK_OTHER;
}

uint32_t aorta_trace_builder_stream(struct aorta_trace_builder *builder, int64_t device, int64_t context, int64_t id) {
    return aorta_keys_add(&builder->streams, device, context, id, &builder->memory);
}

uint32_t aorta_trace_builder_queue(struct aorta_trace_builder *builder, int64_t device, int64_t id, uint32_t type) {
    return aorta_keys_add(&builder->queues, device, id, type, &builder->memory);
}

uint32_t aorta_trace_builder_thread(struct aorta_trace_builder *builder, int64_t process, int64_t id) {
    return aorta_keys_add(&builder->threads, process, id, 0, &builder->memory);
}

void aorta_trace_builder_thread_name(struct aorta_trace_builder *builder, uint32_t thread, uint32_t name) {
    const uint32_t row[] = {thread, name};
    aorta_trace_rows_put(builder, &builder->thread_names, row, sizeof row);
}

/* Equal lists of ranks get equal numbers; 0 for an empty list, -1 if the ranks are unknown. */
static int64_t number_list(struct aorta_trace_builder *builder, const int32_t *ranks, size_t count) {
    int64_t number = 0;
    for (size_t i = 0; ranks && i < count; i++)
        number = (int64_t)aorta_keys_add(&builder->rank_lists, number, ranks[i], 0, &builder->memory) + 1;
    return ranks ? number : -1;
}

uint32_t aorta_trace_builder_group(struct aorta_trace_builder *builder, uint32_t name, uint32_t description,
                                   int32_t size, const int32_t *ranks, size_t rank_count) {
    int32_t *copy = NULL;
    if (ranks) {
        copy = aorta_array_copy(ranks, rank_count, sizeof *copy);
        if (!copy) {
            builder->memory.failed = true;
            return AORTA_TRACE_NONE;
        }
        aorta_sort_rows(copy, rank_count, sizeof *copy, aorta_by_int32);
    }
    const int64_t list = number_list(builder, copy, rank_count), names = (int64_t)((uint64_t)name << 32 | description);
    const uint32_t number = aorta_keys_add(&builder->group_keys, names, size, list, &builder->memory);
    const struct aorta_trace_group group = {name, description, size, copy, copy ? rank_count : 0};
    const size_t before = builder->groups.count;
    if (number >= before) aorta_trace_rows_put(builder, &builder->groups, &group, sizeof group);
    if (builder->groups.count == before) free(copy);
    return builder->memory.failed ? AORTA_TRACE_NONE : number;
}

/* ---- rows ---- */

void aorta_trace_builder_work(struct aorta_trace_builder *builder, const struct aorta_trace_work *work,
                              int64_t operation, const struct aorta_trace_collective *collective, int64_t offset) {
    struct trace_pending row = {*work, operation, offset};
    row.work.call = row.work.shape = row.work.operation = row.work.collective = row.work.geometry = AORTA_TRACE_NONE;
    if (row.work.end_ns < row.work.start_ns) {
        aorta_trace_builder_warn(builder, AORTA_REASON_NEGATIVE_DURATION, offset);
        row.work.end_ns = row.work.start_ns;
    }
    if (collective) {
        struct aorta_trace_collective facts = *collective;
        facts.annotation = AORTA_TRACE_NONE;
        aorta_trace_collective_complete(builder->trace, &facts);
        row.work.collective = aorta_trace_add_facts(builder, &facts);
    }
    aorta_trace_rows_put(builder, &builder->pending, &row, sizeof row);
}

struct trace_meaning *aorta_trace_operation_meaning(struct aorta_trace_builder *builder, uint32_t name,
                                                    const struct aorta_operation *operation) {
    static const char empty[] = "aten::empty"; /* values are stored where they say what is computed or allocated */
    struct trace_meaning *meaning = meaning_of(builder, name);
    if (!meaning || meaning->operation_known) return meaning;
    meaning->counted = aorta_operation_wanted(operation->name, operation->name_length);
    meaning->reads_values = meaning->counted && aorta_operation_reads_values(operation);
    meaning->keeps_values = meaning->reads_values || (operation->name_length >= sizeof empty - 1 &&
                                                      !memcmp(operation->name, empty, sizeof empty - 1));
    meaning->operation_known = true;
    return meaning;
}

void aorta_trace_builder_geometry(struct aorta_trace_builder *builder, const int64_t blocks[3],
                                  const int64_t threads[3]) {
    if (builder->memory.failed || !builder->pending.count) return;
    struct trace_pending *row = (struct trace_pending *)builder->pending.items + builder->pending.count - 1;
    for (int axis = 0; axis < 3; axis++)
        if (blocks[axis] <= 0 || threads[axis] <= 0) return;
    const double count = (double)blocks[0] * (double)blocks[1] * (double)blocks[2];
    row->work.blocks = (uint16_t)(count < AORTA_MANY_BLOCKS ? count : AORTA_MANY_BLOCKS);
    row->work.threads = (uint16_t)(threads[0] * threads[1] * threads[2]);
    const struct trace_meaning *meaning = kernel_meaning(builder, row->work.name);
    if (!meaning || !meaning->product) return;
    char text[128];
    int length = snprintf(text, sizeof text, "%" PRId64 "x%" PRId64 "x%" PRId64 " of %" PRId64 "x%" PRId64 "x%" PRId64,
                          blocks[0], blocks[1], blocks[2], threads[0], threads[1], threads[2]);
    row->work.geometry = aorta_trace_builder_text(builder, text, (size_t)length);
}

bool aorta_trace_builder_captures(const struct aorta_trace_builder *builder) {
    return builder->captures_before || builder->capture_marks.count > 0;
}

void aorta_trace_builder_launch(struct aorta_trace_builder *builder, uint64_t correlation, uint32_t kernel,
                                int64_t operation) {
    const struct trace_launch row = {correlation, operation, kernel};
    aorta_trace_rows_put(builder, &builder->launches, &row, sizeof row);
}

static void classify_call(const char *name, struct trace_meaning *meaning) {
    enum aorta_trace_call_kind kind = AORTA_CALL_OTHER;
    meaning->call_kind = aorta_trace_call_classify(name, &kind) ? (uint8_t)kind : (uint8_t)TRACE_CALL_UNNAMED;
    if (strstr(name, "StreamWaitEvent")) meaning->call_kind = TRACE_CALL_EVENT_WAIT;
    meaning->capture_begins = strstr(name, "StreamBeginCapture") != NULL;
    meaning->capture_ends = strstr(name, "StreamEndCapture") != NULL;
    meaning->call_known = true;
}

bool aorta_trace_builder_call(struct aorta_trace_builder *builder, const struct aorta_trace_call *call) {
    struct trace_meaning *meaning = meaning_of(builder, call->name);
    struct aorta_trace_call row = *call;
    if (!meaning) return false;
    if (!meaning->call_known) classify_call(aorta_trace_text(builder->trace, call->name), meaning);
    if (meaning->capture_begins || meaning->capture_ends) {
        const struct trace_capture_mark mark = {call->start_ns, call->end_ns, call->thread, meaning->capture_begins};
        aorta_trace_rows_put(builder, &builder->capture_marks, &mark, sizeof mark);
    }
    row.kind = meaning->call_kind;
    if (row.kind != TRACE_CALL_UNNAMED || row.correlation)
        aorta_trace_rows_put(builder, &builder->calls, &row, sizeof row);
    return aorta_trace_call_is_known(&row) && !builder->memory.failed;
}

void aorta_trace_builder_any_call(struct aorta_trace_builder *builder, const struct aorta_trace_call *call) {
    const struct aorta_trace_annotation frame = {call->start_ns, call->end_ns, call->name, call->thread};
    if (!aorta_trace_builder_call(builder, call)) aorta_trace_builder_frame(builder, &frame, AORTA_FRAME_CALL);
}

void aorta_trace_builder_request(struct aorta_trace_builder *builder, int64_t start_ns, int64_t end_ns, uint32_t thread,
                                 const struct aorta_trace_collective *collective) {
    const struct aorta_trace_annotation row = {start_ns, end_ns, (uint32_t)builder->request_facts.count, thread};
    struct aorta_trace_collective facts = *collective;
    facts.annotation = AORTA_TRACE_NONE;
    aorta_trace_collective_complete(builder->trace, &facts);
    aorta_trace_rows_put(builder, &builder->request_facts, &facts, sizeof facts);
    aorta_trace_rows_put(builder, &builder->requests, &row, sizeof row);
}

/* ---- what the program marked ---- */

/* The number of ProfilerStep#N; -1 if the name is none. */
static int64_t step_number(const char *name) {
    static const char prefix[] = "ProfilerStep#";
    if (!aorta_begins(name, prefix)) return -1;
    const char *digits = name + sizeof prefix - 1;
    size_t length = strspn(digits, "0123456789");
    return length && length <= 18 && !digits[length] ? strtoll(digits, NULL, 10) : -1;
}

/* Whether a range is named as an MPI call that communicates or waits for communication: MPI_Sendrecv,
 * PMPI_Iallreduce. */
static bool communicates(const char *name) {
    static const char *const words[] = {"Send",      "Recv",     "Bsend",      "Ssend",      "Rsend",
                                        "Wait",      "Probe",    "Allreduce",  "Reduce",     "Bcast",
                                        "Scan",      "Exscan",   "Allgather",  "Gather",     "Scatter",
                                        "Alltoall",  "Barrier",  "Put",        "Accumulate", "Win_fence",
                                        "Neighbor_", "Win_lock", "Win_unlock", "Win_flush",  "Win_wait"};
    if (*name == 'P') name++;
    if (!aorta_begins(name, "MPI_")) return false;
    name += 4;
    if (*name == 'I') name++;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strncasecmp(name, words[i], strlen(words[i]))) return true;
    return !strcmp(name, "Get") || !strcmp(name, "Rget");
}

/* `from_ns` INT64_MIN: the file does not say. */
static void widen(int64_t *start_ns, int64_t *end_ns, int64_t from_ns, int64_t to_ns) {
    if (from_ns == INT64_MIN) return;
    if (*start_ns == INT64_MIN || from_ns < *start_ns) *start_ns = from_ns;
    if (*end_ns == INT64_MIN || to_ns > *end_ns) *end_ns = to_ns;
}

void aorta_trace_add_step(struct aorta_trace_builder *builder, const struct aorta_trace_step *step) {
    const uint32_t number =
        aorta_keys_add(&builder->step_keys, step->number, step->of_device, step->device, &builder->memory);
    if (number >= builder->steps.count) {
        aorta_trace_rows_put(builder, &builder->steps, step, sizeof *step);
        return;
    }
    struct aorta_trace_step *row = (struct aorta_trace_step *)builder->steps.items + number;
    widen(&row->start_ns, &row->end_ns, step->start_ns, step->end_ns);
    widen(&row->device_start_ns, &row->device_end_ns, step->device_start_ns, step->device_end_ns);
}

void aorta_trace_builder_annotation(struct aorta_trace_builder *builder,
                                    const struct aorta_trace_annotation *annotation) {
    if (builder->memory.failed) return;
    const char *name = aorta_trace_text(builder->trace, annotation->name);
    const struct aorta_trace_step step = {
        step_number(name), annotation->start_ns, annotation->end_ns, INT64_MIN, INT64_MIN, false, 0};
    if (step.number >= 0) {
        aorta_trace_add_step(builder, &step);
        aorta_trace_builder_frame(builder, annotation, AORTA_FRAME_RANGE);
        return;
    }
    /* The name that PyTorch's data loader and our own runs give to each batch. */
    const bool waits = aorta_begins(name, "enumerate(DataLoader)#");
    const struct aorta_trace_call call = {
        annotation->start_ns, annotation->end_ns, 0,
        annotation->name,     annotation->thread, waits ? AORTA_CALL_DATA_WAIT : AORTA_CALL_COLLECTIVE};
    if (waits || communicates(name)) aorta_trace_rows_put(builder, &builder->calls, &call, sizeof call);
    aorta_trace_rows_put(builder, &builder->annotations, annotation, sizeof *annotation);
}

void aorta_trace_builder_device_annotation(struct aorta_trace_builder *builder, uint32_t name, int64_t start_ns,
                                           int64_t end_ns) {
    if (builder->memory.failed) return;
    const struct aorta_trace_step step = {
        step_number(aorta_trace_text(builder->trace, name)), INT64_MIN, INT64_MIN, start_ns, end_ns, false, 0};
    if (step.number >= 0) aorta_trace_add_step(builder, &step);
}

void aorta_trace_builder_device_step(struct aorta_trace_builder *builder, int32_t device, int64_t number,
                                     int64_t start_ns, int64_t end_ns) {
    const struct aorta_trace_step step = {number, INT64_MIN, INT64_MIN, start_ns, end_ns, true, device};
    aorta_trace_add_step(builder, &step);
}

void aorta_trace_builder_device(struct aorta_trace_builder *builder, const struct aorta_trace_device *device) {
    aorta_trace_rows_put(builder, &builder->devices, device, sizeof *device);
}

void aorta_trace_builder_allocation(struct aorta_trace_builder *builder,
                                    const struct aorta_trace_allocation *allocation) {
    aorta_trace_rows_put(builder, &builder->allocations, allocation, sizeof *allocation);
}

/* ---- into the trace ---- */

void *aorta_trace_rows_take(struct trace_rows *rows, size_t *count, size_t size) {
    void *items = rows->items;
    *count = rows->count;
    aorta_array_trim(&items, rows->count, size);
    *rows = (struct trace_rows){0};
    return items;
}

/* Stores the work in the memory of the pending rows, which are larger. */
static struct aorta_trace_work *take_work(struct trace_rows *pending, size_t *count) {
    const struct trace_pending *rows = pending->items;
    char *to = pending->items;
    for (size_t i = 0; i < pending->count; i++) {
        const struct aorta_trace_work work = rows[i].work;
        memcpy(to + i * sizeof work, &work, sizeof work);
    }
    return aorta_trace_rows_take(pending, count, sizeof(struct aorta_trace_work));
}

/* The three tables whose rows are keys. */
static void move_keys(struct aorta_trace_builder *builder) {
    struct aorta_trace *trace = builder->trace;
    trace->streams = malloc((builder->streams.count + 1) * sizeof *trace->streams);
    trace->queues = malloc((builder->queues.count + 1) * sizeof *trace->queues);
    trace->threads = malloc((builder->threads.count + 1) * sizeof *trace->threads);
    if (!trace->streams || !trace->queues || !trace->threads) {
        builder->memory.failed = true;
        return;
    }
    for (; trace->stream_count < builder->streams.count; trace->stream_count++) {
        const int64_t *key = builder->streams.items[trace->stream_count];
        trace->streams[trace->stream_count] = (struct aorta_trace_stream){key[0], key[1], key[2]};
    }
    for (; trace->queue_count < builder->queues.count; trace->queue_count++) {
        const int64_t *key = builder->queues.items[trace->queue_count];
        trace->queues[trace->queue_count] = (struct aorta_trace_queue){key[0], key[1], (uint32_t)key[2]};
    }
    for (; trace->thread_count < builder->threads.count; trace->thread_count++) {
        const int64_t *key = builder->threads.items[trace->thread_count];
        trace->threads[trace->thread_count] = (struct aorta_trace_thread){key[0], key[1], AORTA_TRACE_NONE};
    }
    const uint32_t(*names)[2] = builder->thread_names.items;
    for (size_t i = 0; i < builder->thread_names.count; i++)
        if (names[i][0] < trace->thread_count) trace->threads[names[i][0]].name = names[i][1];
}

static void take_rows(struct aorta_trace_builder *builder) {
    struct aorta_trace *trace = builder->trace;
    trace->work = take_work(&builder->pending, &trace->work_count);
    trace->captured = take_work(&builder->captured, &trace->captured_count);
    trace->collectives =
        aorta_trace_rows_take(&builder->collectives, &trace->collective_count, sizeof *trace->collectives);
    move_keys(builder);
    trace->calls = aorta_trace_rows_take(&builder->calls, &trace->call_count, sizeof *trace->calls);
    trace->annotations =
        aorta_trace_rows_take(&builder->annotations, &trace->annotation_count, sizeof *trace->annotations);
    if (builder->keeps_functions)
        trace->functions = aorta_trace_rows_take(&builder->functions, &trace->function_count, sizeof *trace->functions);
    trace->frames = aorta_trace_rows_take(&builder->frames, &trace->frame_count, sizeof *trace->frames);
    aorta_trace_rows_sort(&builder->allocations, sizeof(struct aorta_trace_allocation), aorta_by_int64);
    trace->allocations =
        aorta_trace_rows_take(&builder->allocations, &trace->allocation_count, sizeof *trace->allocations);
    trace->steps = aorta_trace_rows_take(&builder->steps, &trace->step_count, sizeof *trace->steps);
    trace->groups = aorta_trace_rows_take(&builder->groups, &trace->group_count, sizeof *trace->groups);
    trace->shapes = aorta_trace_rows_take(&builder->shapes, &trace->shape_count, sizeof *trace->shapes);
    trace->inputs = aorta_trace_rows_take(&builder->inputs, &trace->input_count, sizeof *trace->inputs);
    trace->graphs = aorta_trace_rows_take(&builder->graphs, &trace->graph_count, sizeof *trace->graphs);
    trace->devices = aorta_trace_rows_take(&builder->devices, &trace->device_count, sizeof *trace->devices);
}

aorta_status aorta_trace_builder_finish(struct aorta_trace_builder *builder, struct aorta_trace **trace) {
    if (!builder->memory.failed) aorta_trace_builder_link(builder);
    if (!builder->memory.failed) take_rows(builder);
    if (builder->memory.failed) {
        aorta_status status = AORTA_ERROR(AORTA_MEMORY, "no memory for the events of %s", builder->trace->path);
        aorta_trace_builder_destroy(builder);
        return status;
    }
    *trace = builder->trace;
    builder->trace = NULL;
    aorta_trace_builder_destroy(builder);
    return NULL;
}

aorta_status aorta_trace_builder_finish_into(struct aorta_trace_builder *builder, struct aorta_trace_list *list) {
    struct aorta_trace *trace;
    AORTA_TRY(aorta_trace_builder_finish(builder, &trace));
    return aorta_trace_list_add(list, trace);
}

/* ---- what calls of the CUDA and HIP interfaces do, by their names ---- */

static const struct {
    const char *name; /* without cuda, hip, cu or aorta */
    bool prefix;      /* longer names count too: MemcpyAsync, MemcpyHtoDAsync_v2 */
    enum aorta_trace_call_kind kind;
} rows[] = {
    {"LaunchKernel", true, AORTA_CALL_LAUNCH},
    {"LaunchCooperativeKernel", true, AORTA_CALL_LAUNCH},
    {"LaunchByPtr", true, AORTA_CALL_LAUNCH},
    {"Launch", false, AORTA_CALL_LAUNCH},
    {"LaunchGrid", true, AORTA_CALL_LAUNCH},
    {"ModuleLaunch", true, AORTA_CALL_LAUNCH},
    {"HccModuleLaunchKernel", true, AORTA_CALL_LAUNCH},
    {"ExtModuleLaunchKernel", true, AORTA_CALL_LAUNCH},
    {"ExtLaunch", true, AORTA_CALL_LAUNCH},
    {"GraphLaunch", true, AORTA_CALL_GRAPH_LAUNCH},
    {"Memcpy", true, AORTA_CALL_COPY},
    {"MemPrefetch", true, AORTA_CALL_COPY}, /* of managed memory */
    {"Memset", true, AORTA_CALL_FILL},
    {"DeviceSynchronize", true, AORTA_CALL_SYNC},
    {"StreamSynchronize", true, AORTA_CALL_SYNC},
    {"EventSynchronize", true, AORTA_CALL_SYNC},
    {"CtxSynchronize", true, AORTA_CALL_SYNC},
    {"ThreadSynchronize", true, AORTA_CALL_SYNC},
    {"Malloc", true, AORTA_CALL_MEMORY},
    {"Free", true, AORTA_CALL_MEMORY},
    {"HostAlloc", true, AORTA_CALL_MEMORY},
    {"HostMalloc", true, AORTA_CALL_MEMORY},
    {"HostFree", true, AORTA_CALL_MEMORY},
    {"HostRegister", true, AORTA_CALL_MEMORY},
    {"HostUnregister", true, AORTA_CALL_MEMORY},
    {"ExtMallocWithFlags", true, AORTA_CALL_MEMORY},
    {"MemAlloc", true, AORTA_CALL_MEMORY},
    {"MemHostAlloc", true, AORTA_CALL_MEMORY},
    {"MemFree", true, AORTA_CALL_MEMORY},
    {"MemCreate", true, AORTA_CALL_MEMORY},
    {"MemRelease", true, AORTA_CALL_MEMORY},
    {"MemMap", true, AORTA_CALL_MEMORY},
    {"MemUnmap", true, AORTA_CALL_MEMORY},
};

/* The name after the interface's prefix; NULL if it has none. */
static const char *without_prefix(const char *name) {
    static const char *const prefixes[] = {"cuda", "hip", "cu", "aorta"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (aorta_begins(name, prefixes[i])) return name + strlen(prefixes[i]);
    return NULL;
}

bool aorta_trace_call_classify(const char *name, enum aorta_trace_call_kind *kind) {
    const char *rest = without_prefix(name);
    if (!rest) return false;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t length = strlen(rows[i].name);
        if (strncmp(rest, rows[i].name, length) != 0) continue;
        /* Suffixes of versions count as the same call: cuLaunch_ptsz, cuMemFree_v2. */
        if (!rows[i].prefix && rest[length] && rest[length] != '_') continue;
        *kind = rows[i].kind;
        return true;
    }
    return false;
}
