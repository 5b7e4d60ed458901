/* Batches on their way to the device: see input.h. */
#include "train/input.h"

#include "device/gpu.h"
#include "train/weights.h"

#include <stdio.h>
#include <stdlib.h>

enum { STREAMS = 4 };

struct slot {
    void *memory; /* on the device */
    struct aorta_event *ready;
    struct aorta_event *parts[STREAMS]; /* of the streams but the first; NULL: the copy is one */
};

struct aorta_input {
    const struct aorta_train_context *context;
    const struct aorta_dataset *dataset;
    struct aorta_loader *loader; /* NULL: the device makes the batches, … */
    void *normals;               /* … from these quantiles in device memory */
    struct aorta_batch_layout layout;
    struct aorta_event *const *done;
    int64_t steps, queued;
    const void *next; /* the batch to be queued, on the host; NULL: not taken from the loader yet */
    struct aorta_stream *streams[STREAMS]; /* NULL: the role's stream */
    struct slot slots[AORTA_INPUT_SLOTS];
};

/* ---- life ---- */

/* A copy queued during a replay was seen to start only late in the step, as if its stream shared a hardware queue with
 * a branch of the graph (H100, large.yaml). Few of several streams do that, so the copy is cut. */
static aorta_status open_streams(struct aorta_input *input) {
    const struct aorta_compile_options *compile = &input->context->options->compile;
    bool replayed = compile->enabled && compile->backend == AORTA_COMPILE_GRAPH;
    if (!replayed || aorta_device_get_info(input->context->device)->kind == AORTA_DEVICE_CPU) return NULL;
    for (int i = 0; i < (input->loader ? STREAMS : 1); i++) {
        char name[32];
        snprintf(name, sizeof name, "input %d", i);
        AORTA_TRY(aorta_stream_create(input->context->device, name, AORTA_PRIORITY_LOW, &input->streams[i]));
    }
    return NULL;
}

static aorta_status make_slot(const struct aorta_input *input, struct slot *slot) {
    struct aorta_device *device = input->context->device;
    AORTA_TRY(aorta_device_alloc(device, input->layout.bytes, "input batch", &slot->memory));
    AORTA_TRY(aorta_event_create_untimed(device, &slot->ready));
    for (int i = 1; i < STREAMS && input->streams[i]; i++)
        AORTA_TRY(aorta_event_create_untimed(device, &slot->parts[i]));
    return NULL;
}

/* The quantiles that batches are made of. */
static aorta_status place_normals(struct aorta_input *input) {
    const struct aorta_train_context *c = input->context;
    const struct aorta_normal_table *normals = aorta_dataset_normals(input->dataset);
    struct aorta_stream *stream = aorta_train_stream(c, AORTA_FLOW_PREFETCH);
    AORTA_TRY(aorta_device_alloc(c->device, sizeof *normals, "quantiles of batches", &input->normals));
    AORTA_TRY(aorta_copy(stream, input->normals, normals, sizeof *normals));
    return aorta_stream_synchronize(stream);
}

static aorta_status build(struct aorta_input *input) {
    const struct aorta_train_context *c = input->context;
    if (aorta_train_device_batches(c->options, aorta_device_is_gpu(c->device)))
        AORTA_TRY(place_normals(input));
    else
        AORTA_TRY(aorta_loader_create(c->device, c->options, input->dataset, input->steps, &input->loader));
    AORTA_TRY(open_streams(input));
    aorta_train_explain(c, "batches: %.2f MiB each, made by %s", (double)input->layout.bytes / 1048576,
                        !input->loader                        ? "the device"
                        : !c->options->dataloader.num_workers ? "the training thread"
                                                              : "threads of the host");
    for (int i = 0; i < AORTA_INPUT_SLOTS; i++) AORTA_TRY(make_slot(input, &input->slots[i]));
    return NULL;
}

aorta_status aorta_input_create(const struct aorta_train_context *context, const struct aorta_dataset *dataset,
                                int64_t steps, struct aorta_event *const done[AORTA_INPUT_SLOTS],
                                struct aorta_input **out) {
    *out = NULL;
    struct aorta_input *input = calloc(1, sizeof *input);
    if (!input) return AORTA_ERROR(AORTA_MEMORY, "no host memory for the input of steps");
    input->context = context, input->dataset = dataset, input->done = done, input->steps = steps;
    input->layout = aorta_batch_layout(context->options);
    aorta_status status = build(input);
    if (status)
        aorta_input_destroy(input);
    else
        *out = input;
    return status;
}

static struct aorta_stream *first_stream(const struct aorta_input *input) {
    return input->streams[0] ? input->streams[0] : aorta_train_stream(input->context, AORTA_FLOW_PREFETCH);
}

aorta_status aorta_input_synchronize(struct aorta_input *input) {
    aorta_status status = aorta_stream_synchronize(first_stream(input));
    for (int i = 1; i < STREAMS && input->streams[i]; i++)
        status = aorta_status_join(status, aorta_stream_synchronize(input->streams[i]));
    return status;
}

static void end_slot(struct aorta_device *device, struct slot *slot) {
    if (slot->ready) aorta_event_destroy(slot->ready);
    for (int i = 1; i < STREAMS; i++)
        if (slot->parts[i]) aorta_event_destroy(slot->parts[i]);
    aorta_device_free(device, slot->memory);
}

void aorta_input_destroy(struct aorta_input *input) {
    if (!input) return;
    aorta_status_free(aorta_input_synchronize(input)); /* a failure was reported when it happened */
    aorta_loader_destroy(input->loader);
    for (int i = 0; i < AORTA_INPUT_SLOTS; i++) end_slot(input->context->device, &input->slots[i]);
    for (int i = 0; i < STREAMS; i++) aorta_stream_destroy(input->streams[i]);
    aorta_device_free(input->context->device, input->normals);
    free(input);
}

/* ---- copies ---- */

static struct slot *slot_of(const struct aorta_input *input, int64_t step) {
    return (struct slot *)&input->slots[step % AORTA_INPUT_SLOTS];
}

/* The step that read this memory before must have ended. */
static aorta_status wait_for_slot(const struct aorta_input *input, struct aorta_stream *stream) {
    if (input->queued < AORTA_INPUT_SLOTS) return NULL;
    return aorta_stream_wait(stream, input->done[input->queued % AORTA_INPUT_SLOTS]);
}

/* Part number `part` of STREAMS, from the second on; the first stream waits for it. */
static aorta_status copy_part(const struct aorta_input *input, const struct slot *slot, const char *host, int part,
                              size_t most) {
    const size_t from = (size_t)part * most, left = from < input->layout.bytes ? input->layout.bytes - from : 0;
    struct aorta_stream *stream = input->streams[part];
    AORTA_TRY(wait_for_slot(input, stream));
    if (left) AORTA_TRY(aorta_copy(stream, (char *)slot->memory + from, host + from, left < most ? left : most));
    AORTA_TRY(aorta_event_record(slot->parts[part], stream));
    return aorta_stream_wait(input->streams[0], slot->parts[part]);
}

static aorta_status copy(const struct aorta_input *input, const struct slot *slot, const char *host) {
    const size_t bytes = input->layout.bytes;
    if (!input->streams[0]) return aorta_copy(first_stream(input), slot->memory, host, bytes);
    const size_t most = (bytes / STREAMS + 256) / 256 * 256; /* a part; STREAMS of them hold all */
    AORTA_TRY(aorta_copy(input->streams[0], slot->memory, host, most < bytes ? most : bytes));
    for (int i = 1; i < STREAMS; i++) AORTA_TRY(copy_part(input, slot, host, i, most));
    return NULL;
}

aorta_status aorta_input_await(struct aorta_input *input) {
    return input->next || !input->loader ? NULL : aorta_loader_next(input->loader, &input->next);
}

/* ---- batches made on the device ---- */

/* The made batch is copied back, as a dump contains the input that the step reads. */
static aorta_status dump_made(const struct aorta_input *input, const struct slot *slot) {
    const struct aorta_train_context *c = input->context;
    struct aorta_stream *stream = first_stream(input);
    void *host;
    AORTA_TRY(aorta_pinned_alloc(c->device, input->layout.bytes, "dumped batch", &host));
    aorta_status status = aorta_copy(stream, host, slot->memory, input->layout.bytes);
    if (!status) status = aorta_stream_synchronize(stream);
    if (!status) status = aorta_dump_batch(c, &input->layout, host, input->queued);
    aorta_pinned_free(c->device, host);
    return status;
}

/* ---- either ---- */

/* The next batch, from the loader's memory or from nothing. */
static aorta_status bring(const struct aorta_input *input, const struct slot *slot, const void *host) {
    if (input->loader) return copy(input, slot, host);
    return aorta_dataset_draw(input->dataset, first_stream(input), input->queued, input->normals, slot->memory);
}

aorta_status aorta_input_queue(struct aorta_input *input) {
    const struct aorta_train_context *c = input->context;
    const struct aorta_range_info info = {.tag = "input",
                                          .function = input->loader ? "prefetch" : "draw_batch",
                                          .role = c->flows[AORTA_FLOW_PREFETCH],
                                          .kind = input->loader ? AORTA_RANGE_COPY : AORTA_RANGE_COMPUTE,
                                          .layer = -1,
                                          .bytes = (int64_t)input->layout.bytes};
    const bool dumped = aorta_dump_wanted(c->options, input->queued);
    struct slot *slot = slot_of(input, input->queued);
    struct aorta_stream *stream = first_stream(input);
    int range;
    AORTA_TRY(aorta_input_await(input));
    const void *host = input->next;
    input->next = NULL;
    if (dumped && host) AORTA_TRY(aorta_dump_batch(c, &input->layout, host, input->queued));
    AORTA_TRY(wait_for_slot(input, stream));
    AORTA_TRY(aorta_range_begin(c->recorder, stream, &info, &range));
    AORTA_TRY(bring(input, slot, host));
    AORTA_TRY(aorta_range_end(c->recorder, stream, range));
    if (dumped && !host) AORTA_TRY(dump_made(input, slot));
    input->queued++;
    return aorta_event_record(slot->ready, stream);
}

aorta_status aorta_input_prefetch(struct aorta_input *input) {
    const bool there = !input->loader || aorta_loader_ready(input->loader);
    return input->queued < input->steps && there ? aorta_input_queue(input) : NULL;
}

aorta_status aorta_input_wait(struct aorta_input *input, int64_t step, struct aorta_stream *stream) {
    return aorta_stream_wait(stream, slot_of(input, step)->ready);
}

/* ---- questions ---- */

const struct aorta_batch_layout *aorta_input_layout(const struct aorta_input *input) {
    return &input->layout;
}

void *aorta_input_memory(const struct aorta_input *input, int64_t step) {
    return slot_of(input, step)->memory;
}

int64_t aorta_input_queued(const struct aorta_input *input) {
    return input->queued;
}

void aorta_input_release(struct aorta_input *input) {
    if (input->loader) aorta_loader_release(input->loader);
}
