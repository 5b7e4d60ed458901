#include "report/machine.h"
#include "base/files.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* "FOLDER/machine*.jsonl"; the caller frees it. */
static char *pattern_of(const char *path) {
    struct stat info;
    const char *slash = strrchr(path, '/');
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) return aorta_path_join(path, AORTA_MACHINE_PATTERN);
    char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    char *pattern = folder ? aorta_path_join(folder, AORTA_MACHINE_PATTERN) : NULL;
    free(folder);
    return pattern;
}

/* From the first to the last step that is analysed; else everything. */
static void analysed_time(const struct aorta_trace_analysis *analysis, int64_t *from_ns, int64_t *until_ns) {
    int64_t first_ns = INT64_MAX, last_ns = INT64_MIN;
    *from_ns = 0;
    *until_ns = INT64_MAX;
    for (size_t i = 0; analysis && !analysis->measured && i < analysis->rank_count; i++) {
        const struct aorta_trace_rank *rank = &analysis->ranks[i];
        if (rank->trace->base_ns == INT64_MIN) return;
        for (size_t j = 0; j < rank->window_count; j++) {
            const struct aorta_trace_window *window = &rank->windows[j];
            if (!aorta_trace_window_counts(analysis, window)) continue;
            if (window->start_ns + rank->trace->base_ns < first_ns) first_ns = window->start_ns + rank->trace->base_ns;
            if (window->end_ns + rank->trace->base_ns > last_ns) last_ns = window->end_ns + rank->trace->base_ns;
        }
    }
    if (last_ns == INT64_MIN) return;
    *from_ns = first_ns;
    *until_ns = last_ns;
}

static bool is_disturbed(const struct aorta_machine_summary *summary) {
    struct aorta_text text = {0};
    const bool disturbed = aorta_machine_disturbed(summary, &text);
    aorta_text_free(&text);
    return disturbed;
}

static aorta_status take(const char *path, int64_t from_ns, int64_t until_ns, struct aorta_recorded_machine *out) {
    struct aorta_recorded_machine found = {0};
    AORTA_TRY(aorta_annotate(aorta_machine_read(path, &found.machine), "what the machine did beside the recording"));
    aorta_status status = aorta_machine_summarise(&found.machine, from_ns, until_ns, &found.summary);
    found.known = found.machine.count > 0;
    const bool wanted = !status && found.known && (!out->known || is_disturbed(&found.summary));
    struct aorta_recorded_machine unwanted = wanted ? *out : found;
    if (wanted) {
        *out = found;
        out->summary.machine = &out->machine;
    }
    aorta_recorded_machine_free(&unwanted);
    return status;
}

aorta_status aorta_recorded_machine_read(const char *path, const struct aorta_trace_analysis *analysis,
                                         struct aorta_recorded_machine *machine) {
    int64_t from_ns, until_ns;
    glob_t found;
    *machine = (struct aorta_recorded_machine){0};
    char *pattern = pattern_of(path);
    if (!pattern) return AORTA_ERROR(AORTA_MEMORY, "no memory for a path");
    const bool any = glob(pattern, 0, NULL, &found) == 0;
    free(pattern);
    if (!any) return NULL;
    analysed_time(analysis, &from_ns, &until_ns);
    aorta_status status = NULL;
    for (size_t i = 0; !status && i < found.gl_pathc; i++) {
        if (machine->known && is_disturbed(&machine->summary)) break;
        status = take(found.gl_pathv[i], from_ns, until_ns, machine);
    }
    globfree(&found);
    return status;
}

void aorta_recorded_machine_free(struct aorta_recorded_machine *machine) {
    aorta_machine_free(&machine->machine);
    *machine = (struct aorta_recorded_machine){0};
}

aorta_status aorta_recorded_machine_report(const struct aorta_recorded_machine *machine,
                                           struct aorta_verdict *verdict) {
    struct aorta_text text = {0};
    if (!machine->known || machine->summary.readings < 2) return NULL;
    const bool disturbed = aorta_machine_disturbed(&machine->summary, &text);
    aorta_status status = aorta_text_check(&text);
    if (!status) status = aorta_verdict_machine(verdict, disturbed ? text.data : NULL);
    aorta_text_free(&text);
    return status;
}

void aorta_recorded_machine_json(const struct aorta_recorded_machine *machine, struct aorta_json *json) {
    if (machine->known) {
        aorta_machine_json(&machine->summary, json);
        return;
    }
    aorta_json_key_null(json, "machine");
    aorta_json_key_string(json, "machine_reason", "there is no " AORTA_MACHINE_FILE " beside the recording");
}
