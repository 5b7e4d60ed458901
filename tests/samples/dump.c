#include "samples/dump.h"

#include "check.h"
#include "json_memory.h"
#include "trace/open.h"
#include "trace/reader.h"

#include <inttypes.h>
#include <stdlib.h>

static void dump_work(const struct aorta_trace *t, struct aorta_text *out) {
    for (size_t i = 0; i < t->work_count; i++) {
        const struct aorta_trace_work *w = &t->work[i];
        aorta_text_printf(out,
                          "work %" PRId64 " %" PRId64 " %" PRId64 " %" PRIu64 " %s %u %d %d %d %d %d %d %d %d %s\n",
                          w->start_ns, w->end_ns, w->bytes, w->correlation, aorta_trace_text(t, w->name), w->stream,
                          (int)w->queue, (int)w->call, (int)w->collective, (int)w->shape, w->device, w->kind, w->class,
                          w->graph, aorta_trace_text(t, w->geometry));
    }
    for (size_t i = 0; i < t->collective_count; i++) {
        const struct aorta_trace_collective *c = &t->collectives[i];
        aorta_text_printf(
            out,
            "collective %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %s %s %d %s %d %d %d %d %d %d\n",
            c->in_elements, c->out_elements, c->bytes, c->sequence, c->blocks, aorta_trace_text(t, c->name),
            aorta_trace_text(t, c->dtype), (int)c->group, aorta_trace_text(t, c->communicator), (int)c->annotation,
            c->group_size, c->peer, c->kind, c->named, c->simulated);
    }
    for (size_t i = 0; i < t->shape_count; i++) {
        const struct aorta_trace_shape *s = &t->shapes[i];
        aorta_text_printf(out, "shape %s %s %s %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n",
                          aorta_trace_text(t, s->op), aorta_trace_text(t, s->dims), aorta_trace_text(t, s->types),
                          s->product.batch, s->product.m, s->product.n, s->product.k);
    }
}

static void dump_host(const struct aorta_trace *t, struct aorta_text *out) {
    for (size_t i = 0; i < t->call_count; i++) {
        const struct aorta_trace_call *c = &t->calls[i];
        aorta_text_printf(out, "call %" PRId64 " %" PRId64 " %" PRIu64 " %s %u %d\n", c->start_ns, c->end_ns,
                          c->correlation, aorta_trace_text(t, c->name), c->thread, c->kind);
    }
    for (size_t i = 0; i < t->annotation_count; i++) {
        const struct aorta_trace_annotation *a = &t->annotations[i];
        aorta_text_printf(out, "annotation %" PRId64 " %" PRId64 " %s %u\n", a->start_ns, a->end_ns,
                          aorta_trace_text(t, a->name), a->thread);
    }
    for (size_t i = 0; i < t->step_count; i++) {
        const struct aorta_trace_step *s = &t->steps[i];
        aorta_text_printf(out, "step %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n", s->number,
                          s->start_ns, s->end_ns, s->device_start_ns, s->device_end_ns);
    }
}

static void dump_ranges(const struct aorta_trace *t, const struct aorta_trace_annotation *rows, size_t count,
                        struct aorta_text *out) {
    for (size_t i = 0; i < count; i++)
        aorta_text_printf(out, "function %" PRId64 " %" PRId64 " %s %u\n", rows[i].start_ns, rows[i].end_ns,
                          aorta_trace_text(t, rows[i].name), rows[i].thread);
}

void dump_framework(const struct aorta_trace *t, struct aorta_text *out) {
    for (size_t i = 0; i < t->operation_count; i++) {
        const struct aorta_trace_operation *o = &t->operations[i];
        aorta_text_printf(out, "operation %" PRId64 " %" PRId64 " %u %s %d %d %" PRId64 " %d %d\n", o->start_ns,
                          o->end_ns, o->thread, aorta_trace_text(t, o->name), (int)o->parent, (int)o->inputs,
                          o->sequence, o->gradient, o->range);
    }
    for (size_t i = 0; i < t->input_count; i++)
        aorta_text_printf(out, "inputs %s %s %s %s\n", aorta_trace_text(t, t->inputs[i].dims),
                          aorta_trace_text(t, t->inputs[i].types), aorta_trace_text(t, t->inputs[i].strides),
                          aorta_trace_text(t, t->inputs[i].values));
    dump_ranges(t, t->functions, t->function_count, out);
    for (size_t i = 0; i < t->frame_count; i++)
        aorta_text_printf(out, "frame %" PRId64 " %" PRId64 " %s %d %d\n", t->frames[i].start_ns, t->frames[i].end_ns,
                          aorta_trace_text(t, t->frames[i].name), t->frames[i].thread, t->frames[i].kind);
    for (size_t i = 0; i < t->allocation_count; i++) {
        const struct aorta_trace_allocation *a = &t->allocations[i];
        aorta_text_printf(out, "allocation %" PRId64 " %" PRId64 " %" PRId64 " %" PRIu64 " %u %d\n", a->at_ns, a->bytes,
                          a->allocated, a->address, a->thread, a->device);
    }
    for (size_t i = 0; i < t->wait_count; i++)
        aorta_text_printf(out, "wait %" PRId64 " %" PRId64 " %d %d %d\n", t->waits[i].asked_ns, t->waits[i].recorded_ns,
                          (int)t->waits[i].stream, (int)t->waits[i].on, (int)t->waits[i].call);
    for (size_t i = 0; i < t->caller_count; i++)
        aorta_text_printf(out, "caller %u %s %s %s\n", t->callers[i].call, aorta_trace_text(t, t->callers[i].operation),
                          aorta_trace_text(t, t->callers[i].function), aorta_trace_text(t, t->callers[i].range));
    for (size_t i = 0; i < t->captured_count; i++)
        aorta_text_printf(out, "captured %" PRId64 " %s %d\n", t->captured[i].start_ns,
                          aorta_trace_text(t, t->captured[i].name), (int)t->captured[i].shape);
    for (size_t i = 0; i < aorta_trace_text_count(t); i++)
        aorta_text_printf(out, "text %s\n", aorta_trace_text(t, (uint32_t)i));
}

static void dump_tables(const struct aorta_trace *t, struct aorta_text *out) {
    for (size_t i = 0; i < t->stream_count; i++)
        aorta_text_printf(out, "stream %" PRId64 " %" PRId64 " %" PRId64 "\n", t->streams[i].device,
                          t->streams[i].context, t->streams[i].id);
    for (size_t i = 0; i < t->queue_count; i++)
        aorta_text_printf(out, "queue %" PRId64 " %" PRId64 " %s\n", t->queues[i].device, t->queues[i].id,
                          aorta_trace_text(t, t->queues[i].type));
    for (size_t i = 0; i < t->thread_count; i++)
        aorta_text_printf(out, "thread %" PRId64 " %" PRId64 " %s\n", t->threads[i].process, t->threads[i].id,
                          aorta_trace_text(t, t->threads[i].name));
    for (size_t i = 0; i < t->group_count; i++) {
        const struct aorta_trace_group *g = &t->groups[i];
        aorta_text_printf(out, "group %s %s %d", aorta_trace_text(t, g->name), aorta_trace_text(t, g->description),
                          g->size);
        for (size_t k = 0; k < g->rank_count; k++) aorta_text_printf(out, " %d", g->ranks[k]);
        aorta_text_puts(out, "\n");
    }
    for (size_t i = 0; i < t->device_count; i++) {
        const struct aorta_trace_device *d = &t->devices[i];
        aorta_text_printf(out, "device %" PRId64 " %s %" PRId64 " %d %d %d\n", d->id, aorta_trace_text(t, d->name),
                          d->memory_bytes, d->multiprocessors, d->major, d->minor);
    }
}

void dump_trace(const struct aorta_trace *t, struct aorta_text *out) {
    aorta_text_printf(out, "%s %d/%d %" PRId64 " %" PRId64 " %s %s %" PRId64 " events\n",
                      aorta_trace_format_name(t->format), t->rank, t->world, t->process, t->base_ns,
                      aorta_trace_text(t, t->backend), aorta_trace_text(t, t->library), t->events);
    dump_work(t, out);
    dump_host(t, out);
    dump_tables(t, out);
    for (int i = 0; i < AORTA_REASON_COUNT; i++)
        if (t->warnings[i].count)
            aorta_text_printf(out, "%s %" PRId64 " at %" PRId64 "\n", aorta_trace_reason_key(i), t->warnings[i].count,
                              t->warnings[i].offset);
    check_ok(aorta_text_check(out));
}

aorta_status read_with(const char *bytes, size_t length, size_t piece, const struct aorta_trace_options *options,
                       struct aorta_trace_list *list) {
    struct aorta_json_stream *stream;
    AORTA_TRY(json_memory(bytes, length, piece, "memory.json", &stream));
    aorta_status status = aorta_trace_read_json(stream, options, list);
    aorta_json_stream_close(stream);
    return status;
}

aorta_status read_memory(const char *bytes, size_t length, size_t piece, bool recover, struct aorta_trace_list *list) {
    const struct aorta_trace_options options = {.recover = recover};
    return read_with(bytes, length, piece, &options, list);
}

struct aorta_trace *read_text(const char *text) {
    struct aorta_trace_list list = {0};
    check_ok(read_memory(text, strlen(text), 0, false, &list));
    assert_int_equal(list.count, 1);
    struct aorta_trace *trace = list.items ? list.items[0] : NULL;
    free(list.items);
    return trace;
}
