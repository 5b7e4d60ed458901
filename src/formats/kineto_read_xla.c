/* The JSON that JAX and TensorFlow (XLA's profiler) write: events without a category, whose process and thread say what
 * they are. Work is what stands on a stream of a process "/device:GPU:0"; the same device's other rows repeat it by
 * module and operation. Source: xla/tsl/profiler/convert/trace_events_to_json.cc, and a file of JAX 0.8 on an H100. */
#include "formats/kineto_read_internal.h"

#include "base/array.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct place {
    int64_t process, thread; /* thread -1: the process itself */
    int64_t number;          /* of the device, of the stream; -1: the host */
};
struct kineto_xla {
    struct place *places;
    size_t count, capacity;
};

void aorta_trace_kineto_xla_free(struct kineto_xla *xla) {
    if (xla) free(xla->places);
    free(xla);
}

static const struct place *find(const struct kineto_xla *xla, int64_t process, int64_t thread) {
    for (size_t i = 0; i < xla->count; i++)
        if (xla->places[i].process == process && xla->places[i].thread == thread) return &xla->places[i];
    return NULL;
}

static aorta_status add_place(struct trace_kineto *kineto, struct place place) {
    if (!kineto->xla) kineto->xla = calloc(1, sizeof *kineto->xla);
    struct kineto_xla *xla = kineto->xla;
    if (!xla || !aorta_array_fit(&xla->places, &xla->capacity, xla->count + 1, sizeof *xla->places))
        return AORTA_ERROR(AORTA_MEMORY, "no memory to read %s", aorta_json_stream_name(kineto->stream));
    xla->places[xla->count++] = place;
    return NULL;
}

/* The number behind a beginning: "/device:GPU:0", "Stream #14(Compute)". -1: another text. */
static int64_t number_after(struct aorta_json_value text, const char *begin) {
    const size_t length = strlen(begin);
    if (text.length < length + 3 || memcmp(text.text + 1, begin, length) != 0) return -1;
    int64_t number = -1;
    for (const char *at = text.text + 1 + length; *at >= '0' && *at <= '9' && number < INT32_MAX; at++)
        number = (number < 0 ? 0 : 10 * number) + (*at - '0');
    return number > INT32_MAX ? -1 : number;
}

aorta_status aorta_trace_kineto_xla_process(struct trace_kineto *kineto, int64_t process,
                                            struct aorta_json_value name) {
    static const char host[] = "\"/host:CPU\"";
    const int64_t device = number_after(name, "/device:GPU:");
    const bool is_host = name.length == sizeof host - 1 && !memcmp(name.text, host, sizeof host - 1);
    if (process < 0 || (device < 0 && !is_host)) return NULL;
    if (device >= 0) aorta_trace_builder_head(kineto->builder)->format = AORTA_TRACE_XLA;
    return add_place(kineto, (struct place){process, -1, device});
}

aorta_status aorta_trace_kineto_xla_thread(struct trace_kineto *kineto, int64_t process, int64_t thread,
                                           struct aorta_json_value name) {
    const int64_t stream = number_after(name, "Stream #");
    if (!kineto->xla || process < 0 || thread < 0 || stream < 0 || !find(kineto->xla, process, -1)) return NULL;
    return add_place(kineto, (struct place){process, thread, stream});
}

/* ---- events ---- */

/* "… size:2097152 dest:0 …": the number behind the word; -1: it is not there. */
static int64_t number_of(struct aorta_json_value details, const char *word) {
    const char *at = details.length ? memmem(details.text, details.length, word, strlen(word)) : NULL;
    return at ? strtoll(at + strlen(word), NULL, 10) : -1;
}

/* "grid:40,1,1": false: it is not there. */
static bool extents_of(struct aorta_json_value details, const char *word, int64_t extents[3]) {
    const char *at = details.length ? memmem(details.text, details.length, word, strlen(word)) : NULL;
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

static bool begins(struct aorta_json_value name, const char *word) {
    const size_t length = strlen(word);
    return name.length > length && !memcmp(name.text + 1, word, length);
}

static void add_work(struct trace_kineto *kineto, const struct kineto_event *event, int64_t device, int64_t stream) {
    const struct aorta_json_value name = event->field[FIELD_NAME], details = event->argument[ARGUMENT_DETAILS];
    const bool copy = begins(name, "Memcpy"), fill = begins(name, "Memset");
    const int64_t correlation = aorta_trace_kineto_int(kineto, event->argument[ARGUMENT_CORRELATION], event->offset);
    int64_t node, blocks[3], threads[3];
    const struct aorta_trace_work work = {
        .start_ns = event->start_ns,
        .end_ns = event->end_ns,
        .bytes = copy || fill ? number_of(details, "size:") : -1,
        .correlation = correlation > 0 ? (uint64_t)correlation : 0,
        .name = aorta_trace_kineto_text(kineto, name),
        .stream = aorta_trace_builder_stream(kineto->builder, device, -1, stream),
        .queue = AORTA_TRACE_NONE,
        .device = (int32_t)device,
        .kind = copy   ? AORTA_TRACE_COPY
                : fill ? AORTA_TRACE_FILL
                       : AORTA_TRACE_KERNEL,
        .graph = aorta_json_get_int(event->argument[ARGUMENT_GRAPH_NODE], &node) && node > 0,
    };
    aorta_trace_builder_work(kineto->builder, &work, -1, NULL, event->offset);
    if (work.kind == AORTA_TRACE_KERNEL && extents_of(details, "grid:", blocks) &&
        extents_of(details, "block:", threads))
        aorta_trace_builder_geometry(kineto->builder, blocks, threads);
}

/* A launch bears the kernel's name and shares its number; the rest is what XLA, or the program, marked. */
static void add_host(struct trace_kineto *kineto, const struct kineto_event *event, int64_t process, int64_t thread) {
    const struct aorta_json_value name = event->field[FIELD_NAME];
    struct aorta_trace_annotation frame = {event->start_ns, event->end_ns, AORTA_TRACE_NONE,
                                           aorta_trace_builder_thread(kineto->builder, process, thread)};
    int64_t correlation = -1, step;
    if (event->argument[ARGUMENT_CORRELATION].length)
        correlation = aorta_trace_kineto_int(kineto, event->argument[ARGUMENT_CORRELATION], event->offset);
    if (aorta_json_get_int(event->argument[ARGUMENT_STEP], &step) && step >= 0) {
        char text[48];
        const int length = snprintf(text, sizeof text, "ProfilerStep#%lld", (long long)step);
        frame.name = aorta_trace_builder_text(kineto->builder, text, (size_t)length);
    } else {
        frame.name = aorta_trace_kineto_text(kineto, name);
    }
    if (correlation > 0) {
        const struct aorta_trace_call call = {event->start_ns, event->end_ns, (uint64_t)correlation,
                                              frame.name,      frame.thread,  0};
        aorta_trace_builder_call(kineto->builder, &call);
    } else if (begins(name, "$")) {
        aorta_trace_builder_function(kineto->builder, &frame);
    } else {
        aorta_trace_builder_annotation(kineto->builder, &frame);
    }
}

void aorta_trace_kineto_xla_event(struct trace_kineto *kineto, const struct kineto_event *event) {
    int64_t process, thread;
    if (!aorta_json_get_int(event->field[FIELD_PROCESS], &process) ||
        !aorta_json_get_int(event->field[FIELD_THREAD], &thread))
        return;
    const struct place *of = find(kineto->xla, process, -1), *stream;
    if (!of) return;
    if (of->number < 0) {
        add_host(kineto, event, process, thread);
        return;
    }
    stream = find(kineto->xla, process, thread);
    if (stream) add_work(kineto, event, of->number, stream->number);
}
