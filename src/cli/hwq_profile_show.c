/* From a recording to queues, and to the agreement of its gaps with those that a workload stamped itself. */
#include "base/json.h"
#include "cli/hwq_profile.h"
#include "hwq/match.h"
#include "hwq/queues.h"

#include <stdlib.h>

/* ---- work of one device ---- */

struct selection {
    const struct aorta_trace *trace;
    int32_t device;
    struct aorta_queue_work *work;
    size_t count;
    size_t left_out; /* kernels of the harness: stamps, clock, gates */
};

static void select_work(struct selection *selection, bool with_gates) {
    const struct aorta_trace *trace = selection->trace;
    selection->count = selection->left_out = 0;
    for (size_t i = 0; i < trace->work_count; i++) {
        const struct aorta_trace_work *work = &trace->work[i];
        const char *name = aorta_trace_text(trace, work->name);
        bool kernel = work->kind == AORTA_TRACE_KERNEL, gate = kernel && with_gates && aorta_hwq_is_gate(name);
        if (work->device != selection->device) continue;
        if (kernel && !gate && aorta_hwq_is_bookkeeping(name)) {
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

/* ---- one device of one recording ---- */

struct output {
    bool as_json;
    struct aorta_text text;
    struct aorta_json json;
    aorta_status verdict; /* the first disagreement; owned */
};

static void write_selection(struct output *output, const struct selection *selection, const struct aorta_queues *queues,
                            const struct hwq_agreement *agreement) {
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
        if (agreement)
            hwq_agreement_json(agreement, json);
        else
            aorta_json_null(json);
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
    if (agreement) hwq_agreement_text(agreement, &output->text);
}

static aorta_status show_device(struct output *output, struct selection *selection,
                                const struct hwq_profile_files *files) {
    struct aorta_queues queues;
    struct hwq_agreement agreement = {.parts = 0};
    select_work(selection, false);
    AORTA_TRY(aorta_queues_analyse(selection->work, selection->count, &queues));
    const size_t left_out = selection->left_out;
    aorta_status status = NULL;
    if (files) {
        select_work(selection, true);
        status = hwq_agreement_find(selection->trace, selection->device, selection->work, selection->count, files,
                                    &agreement);
    }
    selection->left_out = left_out;
    if (!status) write_selection(output, selection, &queues, files ? &agreement : NULL);
    if (!status && files) output->verdict = aorta_status_join(output->verdict, hwq_agreement_judge(&agreement));
    hwq_agreement_free(&agreement);
    aorta_queues_free(&queues);
    return status;
}

static aorta_status show_trace(struct output *output, const struct aorta_trace *trace,
                               const struct hwq_profile_files *files) {
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
        status = show_device(output, &selection, files);
    }
    free(selection.work);
    return status;
}

static aorta_status show_all(const struct aorta_hwq_profile *profile, const struct aorta_trace_list *traces,
                             const struct hwq_profile_files *files, struct output *output) {
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
    for (size_t i = 0; i < traces->count; i++) AORTA_TRY(show_trace(output, traces->items[i], files));
    if (output->as_json) {
        aorta_json_array_end(&output->json);
        aorta_json_object_end(&output->json);
        aorta_text_puts(&output->text, "\n");
    }
    return aorta_text_check(&output->text);
}

aorta_status aorta_hwq_profile_show(const struct aorta_hwq_profile *profile, const struct aorta_trace_list *traces,
                                    const struct hwq_profile_files *files) {
    struct output output = {.as_json = profile->json};
    aorta_status status = show_all(profile, traces, files, &output);
    if (!status) status = aorta_cli_print(output.text.data);
    aorta_text_free(&output.text);
    return aorta_status_join(status, output.verdict);
}
