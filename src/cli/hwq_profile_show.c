/* From a recording to queues, and to the agreement of its gaps with those that a workload stamped itself. */
#include "base/json.h"
#include "cli/hwq_profile.h"
#include "hwq/queues.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double agreement_limit = 0.10;

/* ---- work of one device ---- */

struct selection {
    const struct aorta_trace *trace;
    int32_t device;
    struct aorta_queue_work *work;
    size_t count;
    size_t left_out; /* kernels of the harness: stamps, clock, gates */
};

static bool is_gate(const char *name) {
    return strstr(name, "hwq_hold") != NULL;
}

/* What the harness and the driver of this program launch for themselves. */
static bool is_bookkeeping(const char *name) {
    static const char *const names[] = {"hwq_hold", "hwq_mark", "aorta_stamp", "aorta_clock_set", "aorta_clock_ping"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strstr(name, names[i])) return true;
    }
    return false;
}

static void select_work(struct selection *selection, bool with_gates) {
    const struct aorta_trace *trace = selection->trace;
    selection->count = selection->left_out = 0;
    for (size_t i = 0; i < trace->work_count; i++) {
        const struct aorta_trace_work *work = &trace->work[i];
        const char *name = aorta_trace_text(trace, work->name);
        bool kernel = work->kind == AORTA_TRACE_KERNEL, gate = kernel && with_gates && is_gate(name);
        if (work->device != selection->device) continue;
        if (kernel && !gate && is_bookkeeping(name)) {
            selection->left_out++;
            continue;
        }
        bool queued = work->queue != AORTA_TRACE_NONE;
        selection->work[selection->count++] =
            (struct aorta_queue_work){.start_ns = work->start_ns,
                                      .end_ns = work->end_ns,
                                      .stream = work->stream == AORTA_TRACE_NONE ? -1 : (int64_t)work->stream,
                                      .queue = queued ? trace->queues[work->queue].id : 0,
                                      .kernel = kernel,
                                      .queued = queued,
                                      .gate = gate};
    }
}

static const char *queue_word(enum aorta_trace_format format) {
    bool channels = format == AORTA_TRACE_SPOOL || format == AORTA_TRACE_LIVE;
    return channels ? "channel" : "queue";
}

/* ---- agreement ---- */

struct gap_pair {
    double stamped_us, traced_us; /* medians; NaN: not there */
    size_t stamped_count, traced_count;
    const char *reason; /* why they are not compared; NULL: they are */
};

struct agreement {
    struct gap_pair intra, inter;
    size_t parts;
};

static double difference(const struct gap_pair *pair) {
    return fabs(pair->stamped_us - pair->traced_us) / pair->traced_us;
}

static void read_gap(const json_t *gaps, const char *key, const char *samples, const char *source,
                     struct gap_pair *pair) {
    const json_t *value = json_object_get(gaps, key);
    const char *from = json_string_value(json_object_get(gaps, source));
    pair->stamped_us = json_is_number(value) ? 1e3 * json_number_value(value) : NAN;
    pair->stamped_count = (size_t)json_integer_value(json_object_get(gaps, samples));
    if (isnan(pair->stamped_us) || !pair->stamped_count)
        pair->reason = "the run has no such gap";
    else if (from && strcmp(from, "workload") != 0)
        pair->reason = "the run took it from its own probe, not from the workload";
}

static aorta_status read_result(const char *path, struct agreement *agreement) {
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);
    if (!root) return AORTA_ERROR(AORTA_FORMAT, "%s: %s (line %d)", path, error.text, error.line);
    const json_t *gaps = json_object_get(root, "switch_latency");
    read_gap(gaps, "intra_stream_gap_ms", "intra_stream_samples", "intra_source", &agreement->intra);
    read_gap(gaps, "inter_stream_gap_ms", "inter_stream_samples", "inter_source", &agreement->inter);
    json_decref(root);
    return NULL;
}

static void take_traced(const struct aorta_queue_gap *gap, struct gap_pair *pair) {
    pair->traced_us = gap->ns.p50 * 1e-3;
    pair->traced_count = gap->ns.count;
    if (!pair->reason && !gap->ns.count) pair->reason = "the recording has no such gap";
}

static aorta_status find_agreement(struct selection *selection, const char *result, struct agreement *agreement) {
    struct aorta_queues queues;
    size_t left;
    AORTA_TRY(read_result(result, agreement));
    select_work(selection, true);
    AORTA_TRY(aorta_queues_cut(selection->work, selection->count, &left, &agreement->parts));
    AORTA_TRY(aorta_queues_analyse(selection->work, left, &queues));
    take_traced(&queues.intra, &agreement->intra);
    take_traced(&queues.inter, &agreement->inter);
    aorta_queues_free(&queues);
    return NULL;
}

static void say_pair(const char *what, const struct gap_pair *pair, struct aorta_text *text) {
    aorta_text_printf(text, "  %-14s stamped %9.3f us (%zu)   recorded %9.3f us (%zu)   ", what, pair->stamped_us,
                      pair->stamped_count, pair->traced_us, pair->traced_count);
    if (pair->reason)
        aorta_text_printf(text, "not compared: %s\n", pair->reason);
    else
        aorta_text_printf(text, "%+.1f%%\n", 100 * (pair->stamped_us / pair->traced_us - 1));
}

static void say_agreement(const struct agreement *agreement, struct aorta_text *text) {
    aorta_text_printf(text, "\nGaps as the kernels stamped them, and as recorded, within %zu iterations behind gates\n",
                      agreement->parts);
    say_pair("intra-stream", &agreement->intra, text);
    say_pair("inter-stream", &agreement->inter, text);
}

static void write_pair(struct aorta_json *json, const char *key, const struct gap_pair *pair) {
    aorta_json_key(json, key);
    aorta_json_object(json);
    aorta_json_key_double(json, "stamped_us", pair->stamped_us);
    aorta_json_key_int(json, "stamped_samples", (int64_t)pair->stamped_count);
    aorta_json_key_double(json, "recorded_us", pair->traced_us);
    aorta_json_key_int(json, "recorded_samples", (int64_t)pair->traced_count);
    aorta_json_key_double(json, "difference", pair->reason ? NAN : difference(pair));
    aorta_json_key_string(json, "reason", pair->reason);
    aorta_json_object_end(json);
}

static aorta_status judge_agreement(const struct agreement *agreement) {
    const struct gap_pair *pairs[] = {&agreement->intra, &agreement->inter};
    for (int i = 0; i < 2; i++) {
        if (pairs[i]->reason || difference(pairs[i]) <= agreement_limit) continue;
        return AORTA_ERROR(AORTA_REGRESSION, "%s-stream gaps are %.1f%% apart: %.3f us stamped, %.3f us recorded",
                           i ? "inter" : "intra", 100 * difference(pairs[i]), pairs[i]->stamped_us,
                           pairs[i]->traced_us);
    }
    if (agreement->intra.reason && agreement->inter.reason)
        return AORTA_ERROR(AORTA_UNSUPPORTED, "no gaps to compare: %s", agreement->intra.reason);
    return NULL;
}

/* ---- one device of one recording ---- */

struct output {
    bool as_json;
    struct aorta_text text;
    struct aorta_json json;
    aorta_status verdict; /* the first disagreement; owned */
};

static void write_selection(struct output *output, const struct selection *selection, const struct aorta_queues *queues,
                            const struct agreement *agreement) {
    const struct aorta_trace *trace = selection->trace;
    if (output->as_json) {
        struct aorta_json *json = &output->json;
        aorta_json_object(json);
        aorta_json_key_string(json, "path", trace->path);
        aorta_json_key_string(json, "format", aorta_trace_format_name(trace->format));
        aorta_json_key_int(json, "rank", trace->rank);
        aorta_json_key_int(json, "device", selection->device);
        aorta_json_key_int(json, "kernels_left_out", (int64_t)selection->left_out);
        aorta_json_key(json, "profile");
        aorta_queues_json(queues, json);
        aorta_json_key(json, "agreement");
        if (agreement) {
            aorta_json_object(json);
            aorta_json_key_int(json, "iterations", (int64_t)agreement->parts);
            write_pair(json, "intra_stream", &agreement->intra);
            write_pair(json, "inter_stream", &agreement->inter);
            aorta_json_object_end(json);
        } else {
            aorta_json_null(json);
        }
        aorta_json_object_end(json);
        return;
    }
    if (output->text.length) aorta_text_puts(&output->text, "\n");
    if (trace->rank >= 0) aorta_text_printf(&output->text, "Rank %d, ", trace->rank);
    aorta_text_printf(&output->text, "device %d, %s\n", selection->device, aorta_trace_format_name(trace->format));
    aorta_queues_text(queues, queue_word(trace->format), &output->text);
    if (selection->left_out)
        aorta_text_printf(&output->text, "Left out: %zu kernels of the harness itself (stamps, clock, gates).\n",
                          selection->left_out);
    if (agreement) say_agreement(agreement, &output->text);
}

static aorta_status show_device(struct output *output, struct selection *selection, const char *result) {
    struct aorta_queues queues;
    struct agreement agreement = {.parts = 0};
    select_work(selection, false);
    AORTA_TRY(aorta_queues_analyse(selection->work, selection->count, &queues));
    size_t left_out = selection->left_out;
    aorta_status status = result ? find_agreement(selection, result, &agreement) : NULL;
    selection->left_out = left_out;
    if (!status) write_selection(output, selection, &queues, result ? &agreement : NULL);
    if (!status && result) output->verdict = aorta_status_join(output->verdict, judge_agreement(&agreement));
    aorta_queues_free(&queues);
    return status;
}

static aorta_status show_trace(struct output *output, const struct aorta_trace *trace, const char *result) {
    enum { MOST_DEVICES = 64 };
    int32_t devices[MOST_DEVICES];
    size_t count = 0;
    for (size_t i = 0; i < trace->work_count && count < MOST_DEVICES; i++) {
        size_t at = 0;
        while (at < count && devices[at] != trace->work[i].device) at++;
        if (at == count) devices[count++] = trace->work[i].device;
    }
    struct selection selection = {.trace = trace, .work = calloc(trace->work_count + 1, sizeof *selection.work)};
    aorta_status status =
        selection.work ? NULL : AORTA_ERROR(AORTA_MEMORY, "no memory for %zu kernels", trace->work_count);
    for (size_t i = 0; i < count && !status; i++) {
        selection.device = devices[i];
        status = show_device(output, &selection, result);
    }
    free(selection.work);
    return status;
}

static aorta_status show_all(const struct aorta_hwq_profile *profile, const struct aorta_trace_list *traces,
                             const char *result, struct output *output) {
    size_t work = 0;
    for (size_t i = 0; i < traces->count; i++) work += traces->items[i]->work_count;
    if (!work) return AORTA_ERROR(AORTA_USAGE, "there is no kernel, copy or fill in the recording");
    aorta_json_begin(&output->json, &output->text, 2);
    if (output->as_json) {
        aorta_json_object(&output->json);
        aorta_json_key_int(&output->json, "schema_version", 1);
        aorta_json_key_string(&output->json, "kind", "hwq_profile");
        aorta_json_key(&output->json, "command");
        aorta_json_array(&output->json);
        for (char *const *word = profile->words; *word; word++) aorta_json_string(&output->json, *word);
        aorta_json_array_end(&output->json);
        aorta_json_key(&output->json, "recordings");
        aorta_json_array(&output->json);
    }
    for (size_t i = 0; i < traces->count; i++) AORTA_TRY(show_trace(output, traces->items[i], result));
    if (output->as_json) {
        aorta_json_array_end(&output->json);
        aorta_json_object_end(&output->json);
        aorta_text_puts(&output->text, "\n");
    }
    return aorta_text_check(&output->text);
}

aorta_status aorta_hwq_profile_show(const struct aorta_hwq_profile *profile, const struct aorta_trace_list *traces,
                                    const char *result) {
    struct output output = {.as_json = profile->json};
    aorta_status status = show_all(profile, traces, result, &output);
    if (!status) fputs(output.text.data, stdout);
    aorta_text_free(&output.text);
    return aorta_status_join(status, output.verdict);
}
