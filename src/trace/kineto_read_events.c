/* Turns an event into rows of the trace, by its category. */
#include "trace/builder_internal.h"
#include "trace/execution_trace.h"
#include "trace/kineto_read.h"
#include "trace/xplane.h"

#include <stdio.h>
#include <string.h>

/* ---- arguments ---- */

/* A text, or the letters of another value as in the file. */
uint32_t aorta_trace_kineto_text(struct trace_kineto *kineto, struct aorta_json_value value) {
    if (!value.length) return AORTA_TRACE_NONE;
    struct aorta_json_value text = value;
    if (aorta_json_is_string(value) && !aorta_json_get_string(value, &kineto->scratch, &text)) return AORTA_TRACE_NONE;
    return aorta_trace_builder_text(kineto->builder, text.text, text.length);
}

int64_t aorta_trace_kineto_int(struct trace_kineto *kineto, struct aorta_json_value value, int64_t offset) {
    int64_t number;
    if (!value.length) return -1;
    if (aorta_json_get_int(value, &number)) return number;
    aorta_trace_builder_warn(kineto->builder, AORTA_REASON_ODD_VALUE, offset);
    return -1;
}

int32_t aorta_trace_kineto_small(struct trace_kineto *kineto, struct aorta_json_value value, int64_t offset) {
    const int64_t number = aorta_trace_kineto_int(kineto, value, offset);
    return number >= 0 && number <= INT32_MAX ? (int32_t)number : -1;
}

/* Ranks are in a list, or in a text that looks like one; long ones are cut ("[0, 1, ..., 63]"). NULL: not
 * known. */
static const int32_t *get_ranks(struct aorta_json_value value, size_t *count, struct aorta_arena *memory) {
    if (aorta_json_is_string(value)) value = (struct aorta_json_value){value.text + 1, value.length - 2};
    struct aorta_json_cursor cursor = aorta_json_elements(value);
    struct aorta_json_value element;
    size_t capacity = 0;
    int32_t *ranks = NULL;
    while (aorta_json_next_element(&cursor, &element)) {
        int64_t rank;
        if (!aorta_json_get_int(element, &rank) || rank < 0 || rank > INT32_MAX) break;
        const int32_t number = (int32_t)rank;
        aorta_arena_append(memory, &ranks, &capacity, count, &number, sizeof number);
    }
    return aorta_json_well_formed(&cursor) ? ranks : NULL;
}

static uint32_t get_group(struct trace_kineto *kineto, const struct kineto_event *event, int32_t size) {
    const struct aorta_json_value *argument = event->argument;
    struct aorta_json_value list = argument[ARGUMENT_GROUP_RANKS];
    uint32_t name = aorta_trace_kineto_text(kineto, argument[ARGUMENT_GROUP_NAME]);
    uint32_t description = aorta_trace_kineto_text(kineto, argument[ARGUMENT_GROUP_DESCRIPTION]);
    if (name == AORTA_TRACE_NONE && description == AORTA_TRACE_NONE && !list.length) return AORTA_TRACE_NONE;
    struct aorta_arena memory = {0};
    size_t count = 0;
    const int32_t *ranks = list.length ? get_ranks(list, &count, &memory) : NULL;
    uint32_t group = aorta_trace_builder_group(kineto->builder, name, description, size, ranks, count);
    aorta_arena_end(&memory, &kineto->builder->memory);
    return group;
}

/* Reads "[12, 4, 1]". False if it is no list of three numbers. */
static bool get_extents(struct aorta_json_value list, int64_t extents[3]) {
    struct aorta_json_cursor cursor = aorta_json_elements(list);
    struct aorta_json_value extent;
    int count = 0;
    while (aorta_json_next_element(&cursor, &extent))
        if (count == 3 || !aorta_json_get_int(extent, &extents[count++])) return false;
    return count == 3;
}

/* The number of thread blocks of a grid; -1 if unknown. */
static int64_t get_blocks(struct aorta_json_value grid) {
    int64_t extents[3], blocks = 1;
    if (!get_extents(grid, extents)) return -1;
    for (int axis = 0; axis < 3; axis++)
        if (extents[axis] < 0 || __builtin_mul_overflow(blocks, extents[axis], &blocks)) return -1;
    return blocks;
}

/* NONE for "[]", which means equal parts. */
static uint32_t splits_text(struct trace_kineto *kineto, struct aorta_json_value value) {
    if (value.length < 2 || value.length <= 4) return AORTA_TRACE_NONE; /* [], "[]" */
    return aorta_trace_kineto_text(kineto, value);
}

/* The number that a launch and its work share; 0 if there is none. */
static uint64_t correlation_of(struct trace_kineto *kineto, const struct kineto_event *event) {
    const int64_t correlation = aorta_trace_kineto_int(kineto, event->argument[ARGUMENT_CORRELATION], event->offset);
    if (correlation > 0) return (uint64_t)correlation;
    const int64_t external = aorta_trace_kineto_number(event->argument[ARGUMENT_OPERATION]);
    return external > 0 ? (uint64_t)external | TRACE_EXTERNAL : 0;
}

static bool collective_facts(struct trace_kineto *kineto, const struct kineto_event *event,
                             struct aorta_trace_collective *collective) {
    const struct aorta_json_value *argument = event->argument;
    if (!argument[ARGUMENT_COLLECTIVE].length) return false;
    int64_t offset = event->offset;
    int32_t size = aorta_trace_kineto_small(kineto, argument[ARGUMENT_GROUP_SIZE], offset);
    const int32_t to = aorta_trace_kineto_small(kineto, argument[ARGUMENT_TARGET_RANK], offset);
    const int32_t from = aorta_trace_kineto_small(kineto, argument[ARGUMENT_SOURCE_RANK], offset);
    const struct aorta_json_value name = argument[ARGUMENT_COLLECTIVE];
    const bool receives = memmem(name.text, name.length, "recv", 4); /* "recv", "irecv" */
    const int32_t peer = (receives && from >= 0) || to < 0 ? from : to;
    *collective = (struct aorta_trace_collective){
        .in_elements = aorta_trace_kineto_int(kineto, argument[ARGUMENT_IN_ELEMENTS], offset),
        .out_elements = aorta_trace_kineto_int(kineto, argument[ARGUMENT_OUT_ELEMENTS], offset),
        .bytes = -1,
        .sequence = aorta_trace_kineto_int(kineto, argument[ARGUMENT_SEQUENCE], offset),
        .blocks = get_blocks(argument[ARGUMENT_GRID]),
        .name = aorta_trace_kineto_text(kineto, argument[ARGUMENT_COLLECTIVE]),
        .dtype = aorta_trace_kineto_text(kineto, argument[ARGUMENT_DTYPE]),
        .group = get_group(kineto, event, size),
        .communicator = aorta_trace_kineto_text(kineto, argument[ARGUMENT_COMMUNICATOR]),
        .in_splits = splits_text(kineto, argument[ARGUMENT_IN_SPLITS]),
        .out_splits = splits_text(kineto, argument[ARGUMENT_OUT_SPLITS]),
        .annotation = AORTA_TRACE_NONE,
        .group_size = size,
        .peer = peer,
        .simulated = aorta_json_key_is(argument[ARGUMENT_SIMULATED], "true"),
    };
    return true;
}

/* ---- events ---- */

bool aorta_trace_kineto_times(struct kineto_event *event) {
    int64_t duration;
    return aorta_json_get_scaled(event->field[FIELD_START], 3, &event->start_ns) &&
           aorta_json_get_scaled(event->field[FIELD_DURATION], 3, &duration) &&
           !__builtin_add_overflow(event->start_ns, duration, &event->end_ns) &&
           aorta_trace_times_fit(event->start_ns, event->end_ns);
}

int64_t aorta_trace_kineto_number(struct aorta_json_value value) {
    int64_t number;
    return aorta_json_get_int(value, &number) ? number : -1;
}

static uint32_t get_thread(struct trace_kineto *kineto, const struct kineto_event *event) {
    int64_t process = aorta_trace_kineto_number(event->field[FIELD_PROCESS]);
    struct aorta_trace *head = aorta_trace_builder_head(kineto->builder);
    if (head->process < 0) head->process = process;
    return aorta_trace_builder_thread(kineto->builder, process, aorta_trace_kineto_number(event->field[FIELD_THREAD]));
}

/* In old files the stream is the event's thread, as a number or as "stream 7". */
static int64_t get_stream(struct trace_kineto *kineto, const struct kineto_event *event) {
    struct aorta_json_value thread = event->field[FIELD_THREAD];
    int64_t stream;
    if (aorta_json_get_int(event->argument[ARGUMENT_STREAM], &stream)) return stream;
    if (thread.length > 9 && !memcmp(thread.text, "\"stream ", 8))
        thread = (struct aorta_json_value){thread.text + 8, thread.length - 9};
    if (aorta_json_get_int(thread, &stream)) return stream;
    aorta_trace_builder_warn(kineto->builder, AORTA_REASON_NO_STREAM, event->offset);
    return -1;
}

/* ROCm's files have the HSA queue; older ones have it as the stream, and are recognized by `kind`. CUDA's have the
 * channel. */
static uint32_t get_queue(struct trace_kineto *kineto, const struct kineto_event *event, int64_t device,
                          int64_t stream) {
    const struct aorta_json_value *argument = event->argument;
    uint32_t type = AORTA_TRACE_NONE;
    int64_t queue;
    if (!aorta_json_get_int(argument[ARGUMENT_QUEUE], &queue)) {
        if (aorta_json_get_int(argument[ARGUMENT_CHANNEL], &queue))
            type = aorta_trace_kineto_text(kineto, argument[ARGUMENT_CHANNEL_TYPE]);
        else if (argument[ARGUMENT_KIND].length && stream >= 0)
            queue = stream;
        else
            return AORTA_TRACE_NONE;
    }
    return aorta_trace_builder_queue(kineto->builder, device, queue, type);
}

static void add_work(struct trace_kineto *kineto, const struct kineto_event *event, enum aorta_trace_kind kind) {
    const struct aorta_json_value *argument = event->argument;
    int64_t offset = event->offset, device = aorta_trace_kineto_int(kineto, argument[ARGUMENT_DEVICE], offset);
    if (device < 0) device = aorta_trace_kineto_number(event->field[FIELD_PROCESS]);
    if (device < INT32_MIN || device > INT32_MAX) device = -1;
    int64_t stream = get_stream(kineto, event);
    int64_t context = aorta_trace_kineto_int(kineto, argument[ARGUMENT_CONTEXT], offset);
    const struct aorta_trace_work work = {
        .start_ns = event->start_ns,
        .end_ns = event->end_ns,
        .bytes = aorta_trace_kineto_int(kineto, argument[ARGUMENT_BYTES], offset),
        .correlation = correlation_of(kineto, event),
        .name = aorta_trace_kineto_text(kineto, event->field[FIELD_NAME]),
        .stream = aorta_trace_builder_stream(kineto->builder, device, context, stream),
        .queue = get_queue(kineto, event, device, stream),
        .device = (int32_t)device,
        .kind = (uint8_t)kind,
        .graph = aorta_trace_kineto_number(argument[ARGUMENT_GRAPH_NODE]) > 0,
    };
    struct aorta_trace_collective collective;
    bool facts = kind != AORTA_TRACE_FILL && collective_facts(kineto, event, &collective);
    aorta_trace_builder_work(kineto->builder, &work,
                             aorta_trace_kineto_int(kineto, argument[ARGUMENT_OPERATION], offset),
                             facts ? &collective : NULL, offset);
    int64_t blocks[3], threads[3];
    if (kind == AORTA_TRACE_KERNEL && get_extents(argument[ARGUMENT_GRID], blocks) &&
        get_extents(argument[ARGUMENT_BLOCK], threads))
        aorta_trace_builder_geometry(kineto->builder, blocks, threads);
}

/* Work of Meta's accelerator: kernels of its processing elements, and copies. Its waits are ignored. */
static void add_mtia(struct trace_kineto *kineto, const struct kineto_event *event) {
    struct kineto_event copy = *event;
    if (aorta_json_text_is(event->field[FIELD_NAME], "pe_exe")) {
        add_work(kineto, event, AORTA_TRACE_KERNEL);
    } else if (aorta_json_text_is(event->field[FIELD_NAME], "dma_request")) {
        const struct aorta_json_value direction = event->argument[ARGUMENT_DIRECTION];
        if (direction.length) copy.field[FIELD_NAME] = direction;
        copy.argument[ARGUMENT_BYTES] = event->argument[ARGUMENT_SIZE];
        add_work(kineto, &copy, AORTA_TRACE_COPY);
    }
}

static void add_call(struct trace_kineto *kineto, const struct kineto_event *event) {
    const struct aorta_trace_call call = {
        .start_ns = event->start_ns,
        .end_ns = event->end_ns,
        .correlation = correlation_of(kineto, event),
        .name = aorta_trace_kineto_text(kineto, event->field[FIELD_NAME]),
        .thread = get_thread(kineto, event),
    };
    aorta_trace_builder_any_call(kineto->builder, &call);
    if (aorta_trace_builder_captures(kineto->builder) && call.correlation)
        aorta_trace_builder_launch(kineto->builder, call.correlation,
                                   aorta_trace_kineto_text(kineto, event->argument[ARGUMENT_KERNEL]),
                                   aorta_trace_kineto_int(kineto, event->argument[ARGUMENT_OPERATION], event->offset));
}

static struct aorta_trace_annotation frame_of(struct trace_kineto *kineto, const struct kineto_event *event) {
    return (struct aorta_trace_annotation){event->start_ns, event->end_ns,
                                           aorta_trace_kineto_text(kineto, event->field[FIELD_NAME]),
                                           get_thread(kineto, event)};
}

/* `text`: with the quote before it. */
static bool begins(struct aorta_json_value name, const char *text) {
    const size_t length = strlen(text);
    return name.length > length && !memcmp(name.text, text, length);
}

/* Ranges of the profiler, which files of 2021 have among the operations. */
static bool is_mark(struct aorta_json_value name) {
    return begins(name, "\"ProfilerStep#") || begins(name, "\"enumerate(DataLoader)#") || begins(name, "\"Optimizer.");
}

static void add_operation(struct trace_kineto *kineto, const struct kineto_event *event) {
    const struct aorta_json_value *argument = event->argument;
    struct aorta_json_value name = event->field[FIELD_NAME];
    struct aorta_trace_collective collective;
    const struct aorta_trace_annotation frame = frame_of(kineto, event);
    if (is_mark(name)) {
        aorta_trace_builder_annotation(kineto->builder, &frame);
        return;
    }
    if (aorta_json_text_is(name, "record_param_comms")) {
        aorta_trace_builder_frame(kineto->builder, &frame, AORTA_FRAME_OPERATION);
        if (collective_facts(kineto, event, &collective))
            aorta_trace_builder_request(kineto->builder, event->start_ns, event->end_ns, frame.thread, &collective);
        return;
    }
    struct aorta_operation operation = {.name = name.text + 1,
                                        .name_length = name.length - 2,
                                        .dims = argument[ARGUMENT_DIMS],
                                        .types = argument[ARGUMENT_TYPES],
                                        .values = argument[ARGUMENT_VALUES],
                                        .strides = argument[ARGUMENT_STRIDES],
                                        .sequence = aorta_trace_kineto_number(argument[ARGUMENT_AUTOGRAD]),
                                        .gradient = aorta_trace_kineto_number(argument[ARGUMENT_FORWARD_THREAD]) > 0};
    if (!operation.dims.length && kineto->options && kineto->options->executed)
        aorta_execution_traces_find(kineto->options->executed, aorta_trace_kineto_number(event->field[FIELD_PROCESS]),
                                    argument[ARGUMENT_FUNCTION], argument[ARGUMENT_OPERATION], &operation);
    aorta_trace_builder_operation(kineto->builder, &frame,
                                  aorta_trace_kineto_int(kineto, argument[ARGUMENT_OPERATION], event->offset),
                                  &operation);
}

/* False for Python's and PyTorch's own functions: "<built-in function len>", "torch/nn/modules/module.py(1743): …". */
static bool is_of_program(struct aorta_json_value name) {
    static const char installed[] = "/site-packages/torch/";
    return !begins(name, "\"<") && !begins(name, "\"torch/") && !begins(name, "\"nn.Module: ") &&
           !memmem(name.text, name.length, installed, sizeof installed - 1);
}

/* Stores the times of all functions, but names only of the program's functions and of long ones, which may be a
 * stall. */
static void add_function(struct trace_kineto *kineto, const struct kineto_event *event) {
    static const int64_t LONG_NS = 400000;
    const struct aorta_json_value name = event->field[FIELD_NAME];
    struct aorta_trace_annotation frame = {event->start_ns, event->end_ns, AORTA_TRACE_NONE, get_thread(kineto, event)};
    const bool modules = kineto->options && kineto->options->functions;
    const bool own = is_of_program(name) || (modules && begins(name, "\"nn.Module: "));
    if (own || event->end_ns - event->start_ns >= LONG_NS) frame.name = aorta_trace_kineto_text(kineto, name);
    aorta_trace_builder_frame(kineto->builder, &frame, AORTA_FRAME_FUNCTION);
    if (own) aorta_trace_builder_function(kineto->builder, &frame);
}

/* Our own files mark operations on GPUs as ranges, "linear_forward (encoder.layers.0.linear1)". */
bool aorta_trace_kineto_is_product(struct aorta_json_value name) {
    return begins(name, "\"linear_");
}

static void add_own_product(struct trace_kineto *kineto, const struct kineto_event *event) {
    struct aorta_json_value name = event->field[FIELD_NAME], dims = event->argument[ARGUMENT_DIMS];
    char own[64];
    size_t length = 1;
    while (length < name.length - 1 && name.text[length] != ' ') length++;
    int written = snprintf(own, sizeof own, "aorta::%.*s", (int)length - 1, name.text + 1);
    if (!dims.length || written >= (int)sizeof own) return;
    const struct aorta_operation operation = {.name = own,
                                              .name_length = (size_t)written,
                                              .dims = dims,
                                              .types = event->argument[ARGUMENT_TYPES],
                                              .sequence = -1};
    const struct aorta_trace_annotation frame = {event->start_ns, event->end_ns,
                                                 aorta_trace_builder_text(kineto->builder, own, (size_t)written),
                                                 get_thread(kineto, event)};
    aorta_trace_builder_operation(kineto->builder, &frame,
                                  aorta_trace_kineto_int(kineto, event->argument[ARGUMENT_OPERATION], event->offset),
                                  &operation);
}

/* More than any device has, and small enough that sums do not overflow. */
static const int64_t most_bytes = INT64_C(1) << 40;

static int64_t bytes_in_all(struct aorta_json_value value) {
    int64_t bytes;
    return aorta_json_get_int(value, &bytes) && bytes >= 0 && bytes <= most_bytes ? bytes : -1;
}

/* Adds allocations of devices; the host's memory (type 0) is ignored. */
void aorta_trace_kineto_add_allocation(struct trace_kineto *kineto, const struct kineto_event *event) {
    const struct aorta_json_value *argument = event->argument;
    struct aorta_trace_allocation allocation = {0};
    int64_t device, type, address;
    if (!aorta_json_get_int(argument[ARGUMENT_DEVICE_TYPE], &type) || type == 0) return;
    if (!argument[ARGUMENT_ADDRESS].length) return; /* PyTorch 1.9 writes none */
    if (!aorta_json_get_scaled(event->field[FIELD_START], 3, &allocation.at_ns) ||
        !aorta_trace_times_fit(allocation.at_ns, allocation.at_ns) ||
        !aorta_json_get_int(argument[ARGUMENT_DEVICE], &device) || device < 0 || device > INT32_MAX ||
        !aorta_json_get_int(argument[ARGUMENT_ADDRESS], &address) ||
        !aorta_json_get_int(argument[ARGUMENT_CHANGED], &allocation.bytes) || allocation.bytes < -most_bytes ||
        allocation.bytes > most_bytes) {
        aorta_trace_builder_warn(kineto->builder, AORTA_REASON_ODD_VALUE, event->offset);
        return;
    }
    allocation.device = (int32_t)device;
    allocation.address = (uint64_t)address;
    allocation.thread = get_thread(kineto, event);
    allocation.allocated = bytes_in_all(argument[ARGUMENT_ALLOCATED]);
    allocation.reserved = bytes_in_all(argument[ARGUMENT_RESERVED]);
    aorta_trace_builder_allocation(kineto->builder, &allocation);
}

static void add_annotation(struct trace_kineto *kineto, const struct kineto_event *event) {
    const struct aorta_trace_annotation annotation = frame_of(kineto, event);
    aorta_trace_builder_annotation(kineto->builder, &annotation);
    if (aorta_trace_kineto_is_product(event->field[FIELD_NAME])) add_own_product(kineto, event);
}

static void add_device_annotation(struct trace_kineto *kineto, const struct kineto_event *event) {
    aorta_trace_builder_device_annotation(kineto->builder, aorta_trace_kineto_text(kineto, event->field[FIELD_NAME]),
                                          event->start_ns, event->end_ns);
}

/* Recorded with enable_cuda_sync_events. A wait for a whole context adds nothing to its call. */
static void add_wait(struct trace_kineto *kineto, const struct kineto_event *event) {
    struct aorta_json_value name = event->field[FIELD_NAME];
    const struct aorta_json_value *argument = event->argument;
    bool stream_waits = aorta_json_text_is(name, "Stream Wait Event"),
         for_event = stream_waits || aorta_json_text_is(name, "Event Sync");
    int64_t device, context, stream, correlation;
    if (!aorta_json_get_int(argument[ARGUMENT_DEVICE], &device) ||
        !aorta_json_get_int(argument[ARGUMENT_CONTEXT], &context) ||
        !aorta_json_get_int(argument[ARGUMENT_STREAM], &stream) ||
        !aorta_json_get_int(argument[ARGUMENT_CORRELATION], &correlation))
        return;
    if (!for_event && !aorta_json_text_is(name, "Stream Sync")) return;
    const int64_t on = for_event ? aorta_trace_kineto_number(argument[ARGUMENT_WAIT_STREAM]) : stream;
    const int64_t record = aorta_trace_kineto_number(argument[ARGUMENT_WAIT_RECORD]);
    if (on < 0 || correlation <= 0 || (for_event && record <= 0)) return;
    const struct aorta_trace_wait_facts facts = {
        .start_ns = event->start_ns,
        .correlation = (uint64_t)correlation,
        .record_correlation = for_event ? (uint64_t)record : 0,
        .stream =
            stream_waits ? aorta_trace_builder_stream(kineto->builder, device, context, stream) : AORTA_TRACE_NONE,
        .on = aorta_trace_builder_stream(kineto->builder, device, context, on),
    };
    aorta_trace_builder_wait(kineto->builder, &facts);
}

/* Kernels, copies and fills are not listed, as add_work also needs the kind. */
static void (*const adders[])(struct trace_kineto *kineto, const struct kineto_event *event) = {
    [CATEGORY_MTIA] = add_mtia,
    [CATEGORY_WAIT] = add_wait,
    [CATEGORY_DEVICE_ANNOTATION] = add_device_annotation,
    [CATEGORY_CALL] = add_call,
    [CATEGORY_OPERATION] = add_operation,
    [CATEGORY_FUNCTION] = add_function,
    [CATEGORY_ANNOTATION] = add_annotation,
};

void aorta_trace_kineto_add(struct trace_kineto *kineto, const struct kineto_event *event,
                            enum kineto_category category) {
    if (category <= CATEGORY_FILL)
        add_work(kineto, event, (enum aorta_trace_kind)category);
    else
        adders[category](kineto, event);
}

/* ---- JSON of XLA's profiler (JAX and TensorFlow) ----
 *
 * Its events have no category; process and thread show their kind. Work is what is on a stream of a process
 * "/device:GPU:0"; the same device's other rows repeat it by module and operation. Source:
 * xla/tsl/profiler/convert/trace_events_to_json.cc, and a file of JAX 0.8 on an H100. */

static const struct kineto_place *find(const struct trace_kineto *kineto, int64_t process, int64_t thread) {
    for (size_t i = 0; i < kineto->place_count; i++)
        if (kineto->places[i].process == process && kineto->places[i].thread == thread) return &kineto->places[i];
    return NULL;
}

static void add_place(struct trace_kineto *kineto, struct kineto_place place) {
    aorta_arena_append(&kineto->memory, &kineto->places, &kineto->place_capacity, &kineto->place_count, &place,
                       sizeof place);
}

static struct aorta_proto text_of(struct aorta_json_value value) {
    if (value.length < 2 || value.text[0] != '"') return (struct aorta_proto){0};
    return (struct aorta_proto){value.text + 1, value.text + value.length - 1};
}

void aorta_trace_kineto_xla_process(struct trace_kineto *kineto, int64_t process, struct aorta_json_value name) {
    static const char host[] = "\"/host:CPU\"";
    const int64_t device = aorta_proto_number_after(text_of(name), "/device:GPU:");
    const bool is_host = name.length == sizeof host - 1 && !memcmp(name.text, host, sizeof host - 1);
    if (process < 0 || (device < 0 && !is_host)) return;
    if (device >= 0) aorta_trace_builder_head(kineto->builder)->format = AORTA_TRACE_XLA;
    add_place(kineto, (struct kineto_place){process, -1, device});
}

void aorta_trace_kineto_xla_thread(struct trace_kineto *kineto, int64_t process, int64_t thread,
                                   struct aorta_json_value name) {
    const int64_t stream = aorta_proto_number_after(text_of(name), "Stream #");
    if (process < 0 || thread < 0 || stream < 0 || !find(kineto, process, -1)) return;
    add_place(kineto, (struct kineto_place){process, thread, stream});
}

static struct aorta_xla_event event_of(struct trace_kineto *kineto, const struct kineto_event *event) {
    return (struct aorta_xla_event){
        .start_ns = event->start_ns,
        .end_ns = event->end_ns,
        .name = text_of(event->field[FIELD_NAME]),
        .text = aorta_trace_kineto_text(kineto, event->field[FIELD_NAME]),
        .correlation = correlation_of(kineto, event),
        .details = text_of(event->argument[ARGUMENT_DETAILS]),
        .hlo = text_of(event->argument[ARGUMENT_HLO]),
        .graph = aorta_trace_kineto_number(event->argument[ARGUMENT_GRAPH_NODE]) > 0,
        .step = aorta_trace_kineto_number(event->argument[ARGUMENT_STEP]),
        .offset = event->offset,
    };
}

void aorta_trace_kineto_xla_event(struct trace_kineto *kineto, const struct kineto_event *event) {
    int64_t process, thread;
    if (!aorta_json_get_int(event->field[FIELD_PROCESS], &process) ||
        !aorta_json_get_int(event->field[FIELD_THREAD], &thread))
        return;
    const struct kineto_place *of = find(kineto, process, -1), *stream;
    if (!of) return;
    stream = of->number < 0 ? NULL : find(kineto, process, thread);
    if (of->number >= 0 && !stream) return;
    const struct aorta_xla_event found = event_of(kineto, event);
    if (stream)
        aorta_xla_add_work(kineto->builder, &found, of->number, stream->number);
    else
        aorta_xla_add_host(kineto->builder, &found, aorta_trace_builder_thread(kineto->builder, process, thread));
}
