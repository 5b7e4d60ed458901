#include "layout.h"

#include "base/files.h"
#include "base/interval.h"
#include "check.h"
#include "trace/kernel_names.h"

#include <math.h>
#include <stdlib.h>

/* ---- events ---- */

static const json_t *events_of(const json_t *trace) {
    const json_t *events = json_object_get(trace, "traceEvents");
    assert_true(json_is_array(events));
    return events;
}

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static bool fits(const json_t *event, const char *phase, const char *category, const char *name) {
    if (phase && strcmp(text_of(event, "ph"), phase) != 0) return false;
    if (category && strcmp(text_of(event, "cat"), category) != 0) return false;
    return !name || strcmp(text_of(event, "name"), name) == 0;
}

int layout_count(const json_t *trace, const char *phase, const char *category, const char *name) {
    int count = 0;
    for (size_t i = 0; i < json_array_size(events_of(trace)); i++)
        count += fits(json_array_get(events_of(trace), i), phase, category, name);
    return count;
}

const json_t *layout_event(const json_t *trace, const char *phase, const char *category, const char *name, int nth) {
    for (size_t i = 0; i < json_array_size(events_of(trace)); i++) {
        const json_t *event = json_array_get(events_of(trace), i);
        if (fits(event, phase, category, name) && nth-- == 0) return event;
    }
    fail_msg("no event %s %s %s", phase ? phase : "", category ? category : "", name ? name : "");
    return NULL;
}

/* Microseconds with three decimals, counted from the begin of the quarter: after 51 days a double holds them to within
 * 0.49 ns, which is enough, but leaves no digits for a product with 1000. */
static int64_t ns_of(const json_t *event, const char *key) {
    const json_t *value = json_object_get(event, key);
    if (!json_is_real(value)) fail_msg("%s: %s is no number with decimals", text_of(event, "name"), key);
    const double whole = floor(json_real_value(value));
    return (int64_t)whole * 1000 + llround((json_real_value(value) - whole) * 1000);
}

int64_t layout_start_ns(const json_t *event) {
    return ns_of(event, "ts");
}

int64_t layout_end_ns(const json_t *event) {
    return ns_of(event, "ts") + ns_of(event, "dur");
}

static const json_t *arg_of(const json_t *event, const char *arg) {
    return json_object_get(json_object_get(event, "args"), arg);
}

bool layout_has(const json_t *event, const char *arg) {
    return arg_of(event, arg) != NULL;
}

const char *layout_text(const json_t *event, const char *arg) {
    if (!json_is_string(arg_of(event, arg))) fail_msg("%s has no text %s", text_of(event, "name"), arg);
    return json_string_value(arg_of(event, arg));
}

int64_t layout_number(const json_t *event, const char *arg) {
    if (!json_is_integer(arg_of(event, arg))) fail_msg("%s has no integer %s", text_of(event, "name"), arg);
    return json_integer_value(arg_of(event, arg));
}

/* ---- figures ---- */

static bool on_device(const json_t *event) {
    return fits(event, "X", "kernel", NULL) || fits(event, "X", "gpu_memcpy", NULL) ||
           fits(event, "X", "gpu_memset", NULL);
}

static bool is_collective(const json_t *event) {
    return aorta_kernel_classify(text_of(event, "name"), NULL).class == AORTA_KERNEL_COLLECTIVE;
}

struct layout_figures layout_figures(const json_t *trace, int64_t step) {
    struct aorta_intervals compute = {0}, comm = {0}, copies = {0}, all = {0}, both = {0};
    int64_t first = INT64_MAX, last = INT64_MIN;
    for (size_t i = 0; i < json_array_size(events_of(trace)); i++) {
        const json_t *event = json_array_get(events_of(trace), i);
        if (!on_device(event) || (step >= 0 && layout_number(event, "step") != step)) continue;
        int64_t start = layout_start_ns(event), end = layout_end_ns(event);
        bool kernel = fits(event, NULL, "kernel", NULL);
        struct aorta_intervals *set = !kernel ? &copies : is_collective(event) ? &comm : &compute;
        aorta_intervals_add(set, start, end);
        aorta_intervals_add(&all, start, end);
        if (start < first) first = start;
        if (end > last) last = end;
    }
    aorta_intervals_normalise(&compute);
    aorta_intervals_normalise(&comm);
    aorta_intervals_intersect(&compute, &comm, &both);
    struct layout_figures figures = {.compute = aorta_intervals_length(&compute),
                                     .comm = aorta_intervals_length(&comm),
                                     .memcpy = aorta_intervals_length(&copies),
                                     .busy = aorta_intervals_length(&all),
                                     .span = last > first ? last - first : 0,
                                     .overlap = aorta_intervals_length(&both)};
    aorta_intervals_free(&compute);
    aorta_intervals_free(&comm);
    aorta_intervals_free(&copies);
    aorta_intervals_free(&all);
    aorta_intervals_free(&both);
    return figures;
}

/* ---- the layout ---- */

static void check_head(const json_t *trace) {
    assert_int_equal(json_integer_value(json_object_get(trace, "schemaVersion")), 1);
    assert_true(json_is_integer(json_object_get(trace, "baseTimeNanoseconds")));
    assert_string_equal(text_of(trace, "displayTimeUnit"), "ms");
    assert_true(json_is_string(json_object_get(trace, "traceName")));
    assert_true(json_is_string(json_object_get(trace, "trace_id")));
    const json_t *device = json_array_get(json_object_get(trace, "deviceProperties"), 0);
    assert_true(json_is_integer(json_object_get(device, "id")));
    assert_true(json_is_string(json_object_get(device, "name")));
    assert_true(json_is_integer(json_object_get(device, "totalGlobalMem")));
}

/* What a reader looks for in each kind of device work. */
static void check_device_event(const json_t *event) {
    assert_true(layout_number(event, "stream") >= 0);
    assert_int_equal(layout_number(event, "stream"), json_integer_value(json_object_get(event, "tid")));
    assert_int_equal(layout_number(event, "device"), json_integer_value(json_object_get(event, "pid")));
    if (!fits(event, NULL, "kernel", NULL)) assert_true(layout_number(event, "bytes") >= 0);
}

static void check_event(const json_t *event) {
    static const char *const phases[] = {"X", "M", "s", "f", "C", "i"};
    bool known = false;
    for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) known |= strcmp(text_of(event, "ph"), phases[i]) == 0;
    if (!known) fail_msg("an event of phase \"%s\"", text_of(event, "ph"));
    assert_true(json_is_string(json_object_get(event, "name")));
    assert_non_null(json_object_get(event, "pid"));
    assert_non_null(json_object_get(event, "tid"));
    assert_true(layout_start_ns(event) > 0);
    if (fits(event, "X", NULL, NULL)) {
        if (ns_of(event, "dur") < 0) fail_msg("%s ends before it begins", text_of(event, "name"));
        assert_true(*text_of(event, "cat"));
    }
    if (fits(event, "C", NULL, NULL)) assert_true(json_object_size(json_object_get(event, "args")) > 0);
    if (on_device(event)) check_device_event(event);
}

/* One side of an arrow: which, whose id, and when. */
struct flow {
    int64_t id, time_ns;
    bool launch;
};

static int flows_by_id(const void *left, const void *right) {
    const struct flow *a = left, *b = right;
    if (a->id != b->id) return a->id < b->id ? -1 : 1;
    return (int)b->launch - (int)a->launch;
}

/* Each id has one launch and at least one piece of device work; each end of an arrow lies at an event's start. */
static void check_flows(const json_t *trace) {
    size_t size = json_array_size(events_of(trace)), count = 0;
    struct flow *flows = malloc((size + 1) * sizeof *flows);
    assert_non_null(flows);
    int linked = 0;
    for (size_t i = 0; i < size; i++) {
        const json_t *event = json_array_get(events_of(trace), i);
        bool launch = fits(event, "s", "ac2g", NULL);
        linked += on_device(event) && layout_has(event, "correlation");
        if (!launch && !fits(event, "f", "ac2g", NULL)) continue;
        flows[count++] =
            (struct flow){json_integer_value(json_object_get(event, "id")), layout_start_ns(event), launch};
        if (!launch) assert_string_equal(text_of(event, "bp"), "e");
    }
    qsort(flows, count, sizeof *flows, flows_by_id);
    int ends = 0;
    for (size_t i = 0; i < count; i++) {
        bool first = i == 0 || flows[i].id != flows[i - 1].id, last = i + 1 == count || flows[i].id != flows[i + 1].id;
        if (first != flows[i].launch) fail_msg("arrow %lld has no launch, or two", (long long)flows[i].id);
        if (first && last) fail_msg("arrow %lld has no end", (long long)flows[i].id);
        ends += !flows[i].launch;
    }
    assert_true(ends <= linked);
    assert_int_equal(layout_count(trace, "s", "ac2g", NULL), (int)count - ends);
    free(flows);
}

struct extent {
    int64_t process, thread, start_ns, end_ns;
    const char *name;
};

static int extents_by_track(const void *left, const void *right) {
    const struct extent *a = left, *b = right;
    if (a->process != b->process) return a->process < b->process ? -1 : 1;
    if (a->thread != b->thread) return a->thread < b->thread ? -1 : 1;
    if (a->start_ns != b->start_ns) return a->start_ns < b->start_ns ? -1 : 1;
    return (a->end_ns < b->end_ns) - (a->end_ns > b->end_ns);
}

static bool same_track(const struct extent *a, const struct extent *b) {
    return a->process == b->process && a->thread == b->thread;
}

/* Two ranges of one track are apart, or one lies within the other. */
static void check_nesting(const json_t *trace) {
    size_t size = json_array_size(events_of(trace)), count = 0, open = 0;
    struct extent *all = malloc((size + 1) * sizeof *all), *stack = malloc((size + 1) * sizeof *stack);
    assert_true(all && stack);
    for (size_t i = 0; i < size; i++) {
        const json_t *event = json_array_get(events_of(trace), i);
        if (!fits(event, "X", NULL, NULL) || fits(event, NULL, "Trace", NULL)) continue;
        all[count++] = (struct extent){json_integer_value(json_object_get(event, "pid")),
                                       json_integer_value(json_object_get(event, "tid")), layout_start_ns(event),
                                       layout_end_ns(event), text_of(event, "name")};
    }
    qsort(all, count, sizeof *all, extents_by_track);
    for (size_t i = 0; i < count; i++) {
        while (open && (!same_track(&stack[open - 1], &all[i]) || stack[open - 1].end_ns <= all[i].start_ns)) open--;
        if (open && all[i].end_ns > stack[open - 1].end_ns)
            fail_msg("%s begins within %s and ends behind it, on track %lld/%lld", all[i].name, stack[open - 1].name,
                     (long long)all[i].process, (long long)all[i].thread);
        stack[open++] = all[i];
    }
    free(stack);
    free(all);
}

json_t *layout_read(const char *path) {
    json_error_t error;
    json_t *trace = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (!trace) fail_msg("%s:%d: %s", path, error.line, error.text);
    check_head(trace);
    for (size_t i = 0; i < json_array_size(events_of(trace)); i++) check_event(json_array_get(events_of(trace), i));
    check_flows(trace);
    check_nesting(trace);
    return trace;
}
