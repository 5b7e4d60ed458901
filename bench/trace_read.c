/* Reads traces and prints what bench/trace_read.py compares: the times of section 4's quantities, and the cost.
 *
 *     bench_trace_read [--list] FILE...
 *
 * One line of JSON: seconds, bytes unpacked, and for each trace the unions of its work in ns. --list says what the
 * reader has counted as odd, too. */
#include "base/clock.h"
#include "base/interval.h"
#include "base/json.h"
#include "trace/kernel_names.h"
#include "trace/open.h"
#include "trace/trace.h"

#include <stdio.h>
#include <string.h>

struct sets {
    struct aorta_intervals compute, comm, busy, overlap;
};

static aorta_status fill(const struct aorta_trace *trace, struct sets *sets) {
    for (size_t i = 0; i < trace->work_count; i++) {
        const struct aorta_trace_work *work = &trace->work[i];
        aorta_intervals_add(&sets->busy, work->start_ns, work->end_ns);
        if (work->kind != AORTA_TRACE_KERNEL) continue;
        struct aorta_intervals *set = aorta_trace_is_collective(work) ? &sets->comm : &sets->compute;
        aorta_intervals_add(set, work->start_ns, work->end_ns);
    }
    aorta_intervals_normalise(&sets->compute);
    aorta_intervals_normalise(&sets->comm);
    aorta_intervals_normalise(&sets->busy);
    aorta_intervals_intersect(&sets->compute, &sets->comm, &sets->overlap);
    return aorta_status_join(aorta_intervals_check(&sets->overlap), aorta_intervals_check(&sets->busy));
}

static aorta_status describe(const struct aorta_trace *trace, bool list, struct aorta_json *json) {
    struct sets sets = {0};
    aorta_status status = fill(trace, &sets);
    const struct aorta_intervals *busy = &sets.busy;
    aorta_json_object(json);
    aorta_json_key_string(json, "path", trace->path);
    aorta_json_key_int(json, "rank", trace->rank);
    aorta_json_key_int(json, "events", trace->events);
    aorta_json_key_int(json, "work", (int64_t)trace->work_count);
    aorta_json_key_int(json, "calls", (int64_t)trace->call_count);
    aorta_json_key_int(json, "compute_ns", aorta_intervals_length(&sets.compute));
    aorta_json_key_int(json, "comm_ns", aorta_intervals_length(&sets.comm));
    aorta_json_key_int(json, "overlap_ns", aorta_intervals_length(&sets.overlap));
    aorta_json_key_int(json, "busy_ns", aorta_intervals_length(&sets.busy));
    aorta_json_key_int(json, "span_ns",
                       busy->count ? busy->items[busy->count - 1].end_ns - busy->items[0].start_ns : 0);
    for (int i = 0; list && i < AORTA_REASON_COUNT; i++)
        if (trace->warnings[i].count) aorta_json_key_int(json, aorta_trace_reason_key(i), trace->warnings[i].count);
    aorta_json_object_end(json);
    aorta_intervals_free(&sets.compute);
    aorta_intervals_free(&sets.comm);
    aorta_intervals_free(&sets.busy);
    aorta_intervals_free(&sets.overlap);
    return status;
}

static aorta_status run(const char *const *paths, size_t count, bool list, struct aorta_text *out) {
    struct aorta_trace_list traces = {0};
    const struct aorta_trace_options options = {0};
    struct aorta_json json;
    int64_t start = aorta_clock_ns(), bytes = 0;
    AORTA_TRY(aorta_trace_open_many(paths, count, &options, &traces));
    double read_s = (double)(aorta_clock_ns() - start) * 1e-9;
    aorta_json_begin(&json, out, 0);
    aorta_json_object(&json);
    aorta_json_key_array(&json, "traces");
    aorta_status status = NULL;
    for (size_t i = 0; i < traces.count && !status; i++) {
        status = describe(traces.items[i], list, &json);
        bytes += traces.items[i]->bytes_read;
    }
    aorta_json_array_end(&json);
    aorta_json_key_int(&json, "bytes", bytes);
    aorta_json_key_double(&json, "read_s", read_s);
    aorta_json_key_double(&json, "total_s", (double)(aorta_clock_ns() - start) * 1e-9);
    aorta_json_object_end(&json);
    aorta_trace_list_free(&traces);
    return aorta_status_join(status, aorta_text_check(out));
}

int main(int argc, char **argv) {
    bool list = argc > 1 && !strcmp(argv[1], "--list");
    struct aorta_text out = {0};
    aorta_status status = run((const char *const *)argv + 1 + list, (size_t)(argc - 1 - list), list, &out);
    if (status) {
        fprintf(stderr, "bench_trace_read: %s\n", aorta_status_message(status));
        aorta_status_free(status);
        aorta_text_free(&out);
        return 1;
    }
    puts(out.data);
    aorta_text_free(&out);
    return 0;
}
