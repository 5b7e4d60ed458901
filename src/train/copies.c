#include "train/copies.h"

#include <stdlib.h>

struct aorta_copies {
    const struct aorta_train_context *context;
    int layers;
    int32_t *flags;              /* by layer; device memory */
    struct aorta_event *made;    /* on compute: the output is made */
    struct aorta_event **copied; /* by layer; used in captures */
};

static aorta_status build(struct aorta_copies *copies) {
    struct aorta_device *device = copies->context->device;
    struct aorta_stream *compute = aorta_train_compute(copies->context);
    size_t bytes = (size_t)copies->layers * sizeof *copies->flags;
    void *memory;
    AORTA_TRY(aorta_device_alloc(device, bytes, "flags of copies", &memory));
    copies->flags = memory;
    AORTA_TRY(aorta_fill_bytes(compute, copies->flags, 0, bytes));
    copies->copied = calloc((size_t)copies->layers, sizeof *copies->copied);
    if (!copies->copied) return AORTA_ERROR(AORTA_MEMORY, "no host memory for the events of copies");
    AORTA_TRY(aorta_event_create_untimed(device, &copies->made));
    for (int layer = 0; layer < copies->layers; layer++)
        AORTA_TRY(aorta_event_create_untimed(device, &copies->copied[layer]));
    return aorta_stream_synchronize(compute);
}

aorta_status aorta_copies_create(const struct aorta_train_context *context, struct aorta_copies **out) {
    *out = NULL;
    if (!context->options->workload.async_wait) return NULL;
    struct aorta_copies *copies = calloc(1, sizeof *copies);
    if (!copies) return AORTA_ERROR(AORTA_MEMORY, "no host memory for the table of copies");
    copies->context = context;
    copies->layers = aorta_model_unit_count(context->model) - 1;
    aorta_status status = build(copies);
    if (status) {
        aorta_status_free(aorta_stream_synchronize(aorta_train_compute(context))); /* a fill may be running */
        aorta_copies_destroy(copies);
        return status;
    }
    *out = copies;
    return NULL;
}

void aorta_copies_destroy(struct aorta_copies *copies) {
    if (!copies) return;
    for (int layer = 0; copies->copied && layer < copies->layers; layer++) aorta_event_destroy(copies->copied[layer]);
    free(copies->copied);
    aorta_event_destroy(copies->made);
    aorta_device_free(copies->context->device, copies->flags);
    free(copies);
}

/* A graph's branches may be run one after the other, in any order that its edges allow: there an event orders the wait
 * after the copy as well. */
static bool needs_event(const struct aorta_copies *copies) {
    return aorta_stream_capturing(aorta_train_compute(copies->context));
}

aorta_status aorta_copies_begin(struct aorta_copies *copies, int layer) {
    const struct aorta_train_context *c = copies->context;
    struct aorta_layer_output output = aorta_model_output(c->model, layer);
    struct aorta_stream *stream = aorta_train_stream(c, AORTA_FLOW_PREFETCH);
    int range;
    AORTA_TRY(aorta_train_follow(stream, aorta_train_compute(c), copies->made));
    AORTA_TRY(aorta_train_begin(c, AORTA_FLOW_PREFETCH, AORTA_RANGE_COPY, aorta_model_unit_name(c->model, layer),
                                "copy_output", (int64_t)output.bytes, &range));
    AORTA_TRY(aorta_copy(stream, output.copy, output.made, output.bytes));
    AORTA_TRY(aorta_train_end(c, AORTA_FLOW_PREFETCH, range));
    AORTA_TRY(aorta_flag_raise(stream, &copies->flags[layer]));
    return needs_event(copies) ? aorta_event_record(copies->copied[layer], stream) : NULL;
}

aorta_status aorta_copies_await(struct aorta_copies *copies, int layer) {
    const struct aorta_train_context *c = copies->context;
    struct aorta_stream *compute = aorta_train_compute(c);
    struct aorta_range_info info = {.tag = aorta_model_unit_name(c->model, layer),
                                    .function = "await_copy",
                                    .role = AORTA_ROLE_COMPUTE,
                                    .kind = AORTA_RANGE_COMPUTE,
                                    .layer = layer};
    int range;
    if (needs_event(copies)) AORTA_TRY(aorta_stream_wait(compute, copies->copied[layer]));
    AORTA_TRY(aorta_range_begin(c->recorder, compute, &info, &range));
    AORTA_TRY(aorta_flag_await(compute, &copies->flags[layer], c->options->distributed.timeout_s));
    return aorta_range_end(c->recorder, compute, range);
}
