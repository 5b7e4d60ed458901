/* The agreement of stamped gaps with recorded ones: of the same pairs (hwq/agreement.h), and, rawer, of all that either
 * side has. */
#include "cli/hwq_profile.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- all that ran behind gates ---- */

static double difference(const struct hwq_gap_pair *pair) {
    return fabs(pair->stamped_us - pair->traced_us) / pair->traced_us;
}

static void read_gap(const json_t *gaps, const char *key, const char *samples, const char *source,
                     struct hwq_gap_pair *pair) {
    const json_t *value = json_object_get(gaps, key);
    const char *from = json_string_value(json_object_get(gaps, source));
    pair->stamped_us = json_is_number(value) ? 1e3 * json_number_value(value) : NAN;
    pair->stamped_count = (size_t)json_integer_value(json_object_get(gaps, samples));
    if (isnan(pair->stamped_us) || !pair->stamped_count)
        pair->reason = "the run has no such gap";
    else if (from && strcmp(from, "workload") != 0)
        pair->reason = "the run took it from its own probe, not from the workload";
}

static aorta_status read_result(const char *path, struct hwq_agreement *agreement) {
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);
    if (!root) return AORTA_ERROR(AORTA_FORMAT, "%s: %s (line %d)", path, error.text, error.line);
    const json_t *gaps = json_object_get(root, "switch_latency");
    read_gap(gaps, "intra_stream_gap_ms", "intra_stream_samples", "intra_source", &agreement->intra);
    read_gap(gaps, "inter_stream_gap_ms", "inter_stream_samples", "inter_source", &agreement->inter);
    json_decref(root);
    return NULL;
}

static void take_traced(const struct aorta_queue_gap *gap, struct hwq_gap_pair *pair) {
    pair->traced_us = gap->ns.p50 * 1e-3;
    pair->traced_count = gap->ns.count;
    if (!pair->reason && !gap->ns.count) pair->reason = "the recording has no such gap";
}

static aorta_status compare_all(struct aorta_queue_work *work, size_t count, struct hwq_agreement *agreement) {
    struct aorta_queues queues;
    size_t left;
    AORTA_TRY(aorta_queues_cut(work, count, &left, &agreement->parts));
    AORTA_TRY(aorta_queues_analyse(work, left, &queues));
    take_traced(&queues.intra, &agreement->intra);
    take_traced(&queues.inter, &agreement->inter);
    aorta_queues_free(&queues);
    return NULL;
}

static void say_pair(const char *what, const struct hwq_gap_pair *pair, struct aorta_text *text) {
    aorta_text_printf(text, "  %-14s stamped %9.3f us (%zu)   recorded %9.3f us (%zu)   ", what, pair->stamped_us,
                      pair->stamped_count, pair->traced_us, pair->traced_count);
    if (pair->reason)
        aorta_text_printf(text, "not compared: %s\n", pair->reason);
    else
        aorta_text_printf(text, "%+.1f%%\n", 100 * (pair->stamped_us / pair->traced_us - 1));
}

static void write_pair(struct aorta_json *json, const char *key, const struct hwq_gap_pair *pair) {
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

/* ---- the same pairs ---- */

static size_t take_kernels(const struct aorta_trace *trace, int32_t device, struct aorta_hwq_recorded *kernels) {
    size_t count = 0;
    for (size_t i = 0; i < trace->work_count; i++) {
        const struct aorta_trace_work *work = &trace->work[i];
        if (work->kind != AORTA_TRACE_KERNEL || work->device != device) continue;
        kernels[count++] =
            (struct aorta_hwq_recorded){.start_ns = work->start_ns,
                                        .end_ns = work->end_ns,
                                        .stream = work->stream == AORTA_TRACE_NONE ? -1 : (int64_t)work->stream,
                                        .correlation = work->correlation,
                                        .name = aorta_trace_text(trace, work->name),
                                        .graph = work->graph};
    }
    return count;
}

/* A recording whose kernels cannot be told apart is still good for the rawer figures. */
static aorta_status keep_reason(struct hwq_agreement *agreement, aorta_status status) {
    agreement->matched = !status;
    if (!status || aorta_status_code(status) != AORTA_UNSUPPORTED) return status;
    agreement->reason = strdup(aorta_status_message(status));
    aorta_status_free(status);
    return agreement->reason ? NULL : AORTA_ERROR(AORTA_MEMORY, "no host memory for a reason");
}

static aorta_status compare_same(const struct aorta_trace *trace, int32_t device, const char *path,
                                 struct hwq_agreement *agreement) {
    struct aorta_hwq_book book;
    struct aorta_hwq_recorded *kernels = calloc(trace->work_count + 1, sizeof *kernels);
    if (!kernels) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu kernels", trace->work_count);
    aorta_status status = aorta_hwq_book_read(path, &book);
    if (!status) {
        const size_t count = take_kernels(trace, device, kernels);
        status = keep_reason(agreement, aorta_hwq_agree(&book, kernels, count, &agreement->same));
    }
    aorta_hwq_book_free(&book);
    free(kernels);
    return status;
}

/* ---- both ---- */

aorta_status hwq_agreement_find(const struct aorta_trace *trace, int32_t device, struct aorta_queue_work *work,
                                size_t count, const struct hwq_profile_files *files, struct hwq_agreement *agreement) {
    AORTA_TRY(read_result(files->result, agreement));
    AORTA_TRY(compare_all(work, count, agreement));
    return compare_same(trace, device, files->stamps, agreement);
}

void hwq_agreement_free(struct hwq_agreement *agreement) {
    free(agreement->reason);
    *agreement = (struct hwq_agreement){0};
}

void hwq_agreement_text(const struct hwq_agreement *agreement, struct aorta_text *text) {
    aorta_text_printf(
        text,
        "\nGaps as the kernels stamped them, and as recorded, within %zu iterations behind gates (stamped "
        "ones or not)\n",
        agreement->parts);
    say_pair("intra-stream", &agreement->intra, text);
    say_pair("inter-stream", &agreement->inter, text);
    if (agreement->matched)
        aorta_hwq_agreement_text(&agreement->same, text);
    else
        aorta_text_printf(text, "The same pairs cannot be told on both sides: %s\n", agreement->reason);
}

void hwq_agreement_json(const struct hwq_agreement *agreement, struct aorta_json *json) {
    aorta_json_object(json);
    aorta_json_key_int(json, "iterations", (int64_t)agreement->parts);
    write_pair(json, "intra_stream", &agreement->intra);
    write_pair(json, "inter_stream", &agreement->inter);
    aorta_json_key(json, "same_pairs");
    if (agreement->matched)
        aorta_hwq_agreement_json(&agreement->same, json);
    else
        aorta_json_null(json);
    aorta_json_key_string(json, "same_pairs_reason", agreement->reason);
    aorta_json_object_end(json);
}

static aorta_status judge_same(const struct aorta_hwq_agreement *same) {
    static const char *const words[AORTA_HWQ_PAIR_KINDS] = {"intra-stream", "inter-stream"};
    for (int kind = 0; kind < AORTA_HWQ_PAIR_KINDS; kind++) {
        const struct aorta_hwq_agreed *agreed = &same->kinds[kind];
        char worst[48] = ""; /* it may be what is wrong, where all together are not */
        if (agreed->reason || agreed->corrected_within) continue;
        if (agreed->worst_stream >= 0)
            snprintf(worst, sizeof worst, "; on stream %d %.1f%% apart", agreed->worst_stream,
                     100 * fabs(agreed->worst_off));
        return AORTA_ERROR(
            AORTA_REGRESSION, "%s gaps of the same pairs are %.1f%% apart: %.3f us by the stamps, %.3f us recorded%s",
            words[kind], 100 * fabs(agreed->corrected_off), agreed->corrected_us, agreed->recorded_us, worst);
    }
    if (!aorta_hwq_agrees(same)) return AORTA_ERROR(AORTA_UNSUPPORTED, "no gaps to compare: %s", same->kinds[0].reason);
    return NULL;
}

static aorta_status judge_all(const struct hwq_agreement *agreement) {
    const struct hwq_gap_pair *pairs[] = {&agreement->intra, &agreement->inter};
    for (int i = 0; i < 2; i++) {
        if (pairs[i]->reason || difference(pairs[i]) <= aorta_hwq_agreement_limit) continue;
        return AORTA_ERROR(AORTA_REGRESSION, "%s-stream gaps are %.1f%% apart: %.3f us stamped, %.3f us recorded",
                           i ? "inter" : "intra", 100 * difference(pairs[i]), pairs[i]->stamped_us,
                           pairs[i]->traced_us);
    }
    if (agreement->intra.reason && agreement->inter.reason)
        return AORTA_ERROR(AORTA_UNSUPPORTED, "no gaps to compare: %s", agreement->intra.reason);
    return NULL;
}

aorta_status hwq_agreement_judge(const struct hwq_agreement *agreement) {
    return agreement->matched ? judge_same(&agreement->same) : judge_all(agreement);
}
