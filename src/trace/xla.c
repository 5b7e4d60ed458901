#include "trace/xla.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool begins(struct aorta_xla_text text, const char *word) {
    const size_t length = strlen(word);
    return text.length >= length && !memcmp(text.bytes, word, length);
}

int64_t aorta_xla_number_after(struct aorta_xla_text text, const char *begin) {
    const size_t length = strlen(begin);
    if (text.length <= length || !begins(text, begin)) return -1;
    int64_t number = -1;
    for (const char *at = text.bytes + length; *at >= '0' && *at <= '9' && number < INT32_MAX; at++)
        number = (number < 0 ? 0 : 10 * number) + (*at - '0');
    return number > INT32_MAX ? -1 : number;
}

/* "… size:2097152 dest:0 …": the number behind the word; -1: it is not there. */
static int64_t number_of(struct aorta_xla_text details, const char *word) {
    const char *at = details.length ? memmem(details.bytes, details.length, word, strlen(word)) : NULL;
    return at ? strtoll(at + strlen(word), NULL, 10) : -1;
}

/* "grid:40,1,1": false: it is not there. */
static bool extents_of(struct aorta_xla_text details, const char *word, int64_t extents[3]) {
    const char *at = details.length ? memmem(details.bytes, details.length, word, strlen(word)) : NULL;
    if (!at) return false;
    at += strlen(word);
    for (int i = 0; i < 3; i++) {
        char *end;
        extents[i] = strtoll(at, &end, 10);
        if (end == at || extents[i] < 1 || (i < 2 && *end != ',')) return false;
        at = end + 1;
    }
    return true;
}

/* Copies to another device that XLA makes for a collective, "all-gather-start.3": false: it is a copy. */
static bool copies_for_collective(struct aorta_trace_builder *builder, const struct aorta_xla_event *event,
                                  int64_t device, struct aorta_trace_collective *facts) {
    char name[64];
    size_t length = 0;
    const int64_t to = number_of(event->details, "dest:");
    const bool peers =
        begins(event->name, "MemcpyP2P") || (begins(event->name, "MemcpyD2D") && to >= 0 && to != device);
    if (!peers || !event->hlo.length) return false;
    for (; length < event->hlo.length && length < sizeof name - 1 && event->hlo.bytes[length] != '.'; length++)
        name[length] = event->hlo.bytes[length] == '-' ? '_' : event->hlo.bytes[length];
    name[length] = '\0';
    *facts = aorta_trace_unknown_collective;
    facts->named = aorta_collective_in(name, &facts->kind);
    facts->name = aorta_trace_builder_text(builder, event->hlo.bytes, length);
    return facts->named || begins(event->hlo, "collective-");
}

void aorta_xla_add_work(struct aorta_trace_builder *builder, const struct aorta_xla_event *event, int64_t device,
                        int64_t stream) {
    const bool copy = begins(event->name, "Memcpy"), fill = begins(event->name, "Memset");
    int64_t blocks[3], threads[3];
    const struct aorta_trace_work work = {
        .start_ns = event->start_ns,
        .end_ns = event->end_ns,
        .bytes = copy || fill ? number_of(event->details, "size:") : -1,
        .correlation = event->correlation,
        .name = event->text,
        .stream = aorta_trace_builder_stream(builder, device, -1, stream),
        .queue = AORTA_TRACE_NONE,
        .device = (int32_t)device,
        .kind = copy   ? AORTA_TRACE_COPY
                : fill ? AORTA_TRACE_FILL
                       : AORTA_TRACE_KERNEL,
        .graph = event->graph,
    };
    struct aorta_trace_collective facts;
    const bool collective = copy && copies_for_collective(builder, event, device, &facts);
    aorta_trace_builder_work(builder, &work, -1, collective ? &facts : NULL, event->offset);
    if (work.kind == AORTA_TRACE_KERNEL && extents_of(event->details, "grid:", blocks) &&
        extents_of(event->details, "block:", threads))
        aorta_trace_builder_geometry(builder, blocks, threads);
}

void aorta_xla_add_host(struct aorta_trace_builder *builder, const struct aorta_xla_event *event, uint32_t thread) {
    struct aorta_trace_annotation frame = {event->start_ns, event->end_ns, event->text, thread};
    if (event->step >= 0) {
        char text[48];
        const int length = snprintf(text, sizeof text, "ProfilerStep#%lld", (long long)event->step);
        frame.name = aorta_trace_builder_text(builder, text, (size_t)length);
    }
    if (event->correlation) {
        const struct aorta_trace_call call = {event->start_ns, event->end_ns, event->correlation,
                                              frame.name,      thread,        0};
        aorta_trace_builder_call(builder, &call);
    } else if (begins(event->name, "$")) {
        aorta_trace_builder_function(builder, &frame);
    } else {
        aorta_trace_builder_annotation(builder, &frame);
    }
}
