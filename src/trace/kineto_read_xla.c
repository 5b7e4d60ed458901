/* The JSON that JAX and TensorFlow (XLA's profiler) write: events without a category, whose process and thread say what
 * they are. Work is what stands on a stream of a process "/device:GPU:0"; the same device's other rows repeat it by
 * module and operation. Source: xla/tsl/profiler/convert/trace_events_to_json.cc, and a file of JAX 0.8 on an H100. */
#include "trace/kineto_read_internal.h"

#include "base/array.h"
#include "trace/xla.h"

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

/* A text of the file without its quotes. */
static struct aorta_xla_text text_of(struct aorta_json_value value) {
    if (value.length < 2 || value.text[0] != '"') return (struct aorta_xla_text){0};
    return (struct aorta_xla_text){value.text + 1, value.length - 2};
}

aorta_status aorta_trace_kineto_xla_process(struct trace_kineto *kineto, int64_t process,
                                            struct aorta_json_value name) {
    static const char host[] = "\"/host:CPU\"";
    const int64_t device = aorta_xla_number_after(text_of(name), "/device:GPU:");
    const bool is_host = name.length == sizeof host - 1 && !memcmp(name.text, host, sizeof host - 1);
    if (process < 0 || (device < 0 && !is_host)) return NULL;
    if (device >= 0) aorta_trace_builder_head(kineto->builder)->format = AORTA_TRACE_XLA;
    return add_place(kineto, (struct place){process, -1, device});
}

aorta_status aorta_trace_kineto_xla_thread(struct trace_kineto *kineto, int64_t process, int64_t thread,
                                           struct aorta_json_value name) {
    const int64_t stream = aorta_xla_number_after(text_of(name), "Stream #");
    if (!kineto->xla || process < 0 || thread < 0 || stream < 0 || !find(kineto->xla, process, -1)) return NULL;
    return add_place(kineto, (struct place){process, thread, stream});
}

/* ---- events ---- */

/* A launch's number is a text or a number of the file; 0: it has none. */
static uint64_t correlation_of(struct trace_kineto *kineto, const struct kineto_event *event) {
    if (!event->argument[ARGUMENT_CORRELATION].length) return 0;
    const int64_t correlation = aorta_trace_kineto_int(kineto, event->argument[ARGUMENT_CORRELATION], event->offset);
    return correlation > 0 ? (uint64_t)correlation : 0;
}

static struct aorta_xla_event event_of(struct trace_kineto *kineto, const struct kineto_event *event) {
    int64_t node, step;
    return (struct aorta_xla_event){
        .start_ns = event->start_ns,
        .end_ns = event->end_ns,
        .name = text_of(event->field[FIELD_NAME]),
        .text = aorta_trace_kineto_text(kineto, event->field[FIELD_NAME]),
        .correlation = correlation_of(kineto, event),
        .details = text_of(event->argument[ARGUMENT_DETAILS]),
        .hlo = text_of(event->argument[ARGUMENT_HLO]),
        .graph = aorta_json_get_int(event->argument[ARGUMENT_GRAPH_NODE], &node) && node > 0,
        .step = aorta_json_get_int(event->argument[ARGUMENT_STEP], &step) && step >= 0 ? step : -1,
        .offset = event->offset,
    };
}

void aorta_trace_kineto_xla_event(struct trace_kineto *kineto, const struct kineto_event *event) {
    int64_t process, thread;
    if (!aorta_json_get_int(event->field[FIELD_PROCESS], &process) ||
        !aorta_json_get_int(event->field[FIELD_THREAD], &thread))
        return;
    const struct place *of = find(kineto->xla, process, -1), *stream;
    if (!of) return;
    stream = of->number < 0 ? NULL : find(kineto->xla, process, thread);
    if (of->number >= 0 && !stream) return;
    const struct aorta_xla_event found = event_of(kineto, event);
    if (stream)
        aorta_xla_add_work(kineto->builder, &found, of->number, stream->number);
    else
        aorta_xla_add_host(kineto->builder, &found, aorta_trace_builder_thread(kineto->builder, process, thread));
}
