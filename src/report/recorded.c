#include "base/files.h"
#include "device/inventory.h"
#include "report/summary.h"
#include "report/verdict_text.h"
#include "trace/ranks.h"
#include "verdict/advice.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void aorta_recorded_free(struct aorta_recorded *recorded) {
    aorta_recorded_machine_free(&recorded->machine);
    aorta_verdict_free(&recorded->verdict);
    aorta_trace_analysis_free(&recorded->analysis);
    aorta_trace_list_free(&recorded->traces);
    aorta_arena_free(&recorded->memory);
    aorta_run_free(&recorded->run);
    *recorded = (struct aorta_recorded){0};
}

static aorta_status check_reading(const struct aorta_trace_options *reading, bool whole, const char *directory) {
    const char *option = reading->recover      ? "--recover"
                         : reading->patterns   ? "--comm-pattern"
                         : reading->step_range ? "--step-range"
                         : whole               ? "--whole"
                                               : NULL;
    if (!option) return NULL;
    return AORTA_ERROR(AORTA_USAGE,
                       "%s: %s is the directory of a run, whose steps and collectives are known; leave the option out, "
                       "or name the trace files in it",
                       option, directory);
}

/* "cycle 1 of 2 (trace_step2.json, steps 1 to 2): step to step 42.03 ms; limited by …" */
static aorta_status say_cycle(const struct aorta_trace_list *cycle, const struct aorta_trace_analysis_options *options,
                              const char *number, const struct aorta_log *log) {
    const struct aorta_trace *first = cycle->items[0];
    const char *slash = strrchr(first->path, '/');
    struct aorta_recorded recorded = {0};
    struct aorta_text headline = {0};
    aorta_status status = aorta_trace_analyze(cycle, options, &recorded.analysis);
    if (!status) status = aorta_recorded_evaluate(&recorded);
    if (!status) aorta_verdict_headline(&recorded.verdict, &headline);
    if (!status) status = aorta_text_check(&headline);
    if (!status)
        aorta_log(log, AORTA_LOG_INFO, "%s (%s, steps %lld to %lld): step to step %.2f ms; %s", number,
                  slash ? slash + 1 : first->path, (long long)first->steps[0].number,
                  (long long)first->steps[first->step_count - 1].number, recorded.verdict.step_ms_mean, headline.data);
    aorta_text_free(&headline);
    aorta_recorded_free(&recorded);
    return status;
}

/* A line for each cycle of a profile schedule, except the last, whose verdict follows. */
static aorta_status say_cycles(const struct aorta_trace_list *list, const struct aorta_trace_analysis_options *options,
                               const struct aorta_log *log) {
    struct aorta_trace_list cycle = {.items = malloc((list->count + 1) * sizeof *cycle.items)};
    if (!cycle.items) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu traces", list->count);
    aorta_status status = NULL;
    size_t most = 0;
    for (size_t i = 0; i < list->count; i++) {
        const size_t later = aorta_trace_later_cycles(list, i);
        if (later > most) most = later;
    }
    for (size_t behind = most; !status && behind > 0; behind--) {
        char number[48];
        snprintf(number, sizeof number, "cycle %zu of %zu", most + 1 - behind, most + 1);
        cycle.count = 0;
        for (size_t i = 0; i < list->count; i++)
            if (aorta_trace_later_cycles(list, i) == behind) cycle.items[cycle.count++] = list->items[i];
        if (cycle.count) status = say_cycle(&cycle, options, number, log);
    }
    free(cycle.items);
    return status;
}

/* The figures of separate programs would be averaged. */
static aorta_status refuse_separate(const struct aorta_trace_list *list) {
    const struct aorta_trace *two[2];
    if (!aorta_trace_find_separate(list, two)) return NULL;
    return AORTA_ERROR(
        AORTA_USAGE,
        "nothing shows that %s and %s are ranks of one job, recorded at the same time; name one of them, or "
        "compare them: aorta trace compare A B (ranks of one job: rank0, rank1, ... in the names of files)",
        two[0]->path, two[1]->path);
}

static aorta_status open_traces(const char *const *paths, size_t count, const struct aorta_trace_options *reading,
                                const struct aorta_trace_analysis_options *options, const struct aorta_log *log,
                                struct aorta_recorded *recorded) {
    AORTA_TRY(aorta_trace_open_inputs(paths, count, reading, &recorded->traces));
    AORTA_TRY(say_cycles(&recorded->traces, options, log));
    const size_t cycles = aorta_trace_take_last_cycle(&recorded->traces);
    if (cycles > 1)
        aorta_log(log, AORTA_LOG_INFO,
                  "%zu cycles of a profile schedule, each with steps of its own: the last one is analyzed; name the "
                  "files of another for that one, and aorta trace compare A B compares two",
                  cycles);
    AORTA_TRY(refuse_separate(&recorded->traces));
    AORTA_TRY(aorta_trace_analyze(&recorded->traces, options, &recorded->analysis));
    AORTA_TRY(aorta_recorded_machine_read(paths[0], &recorded->analysis, &recorded->machine));
    if (count != 1) return NULL;
    return aorta_annotate(aorta_settings_environment(paths[0], &recorded->memory, &recorded->environment), "%s",
                          paths[0]);
}

aorta_status aorta_recorded_open(const char *const *paths, size_t count, const struct aorta_trace_options *reading,
                                 const struct aorta_trace_analysis_options *options, const struct aorta_log *log,
                                 struct aorta_recorded *recorded) {
    static const struct aorta_trace_analysis_options defaults = {0};
    *recorded = (struct aorta_recorded){0};
    const bool is_directory = count == 1 && aorta_run_is_directory(paths[0]);
    if (!is_directory) return open_traces(paths, count, reading, options, log, recorded);
    AORTA_TRY(check_reading(reading, options && options->whole, paths[0]));
    AORTA_TRY(aorta_recorded_run(paths[0], "run", 0, options ? options : &defaults, log, recorded));
    if (recorded->has_verdict) return NULL;
    aorta_recorded_free(recorded);
    return aorta_annotate(open_traces(paths, count, reading, options, log, recorded),
                          "%s holds no ranges (recording was off), and of traces", paths[0]);
}

aorta_status aorta_recorded_evaluate(struct aorta_recorded *recorded) {
    if (recorded->is_run || recorded->has_verdict) return NULL;
    AORTA_TRY(aorta_verdict_make(&recorded->analysis, &recorded->verdict));
    AORTA_TRY(aorta_recorded_machine_report(&recorded->machine, &recorded->verdict));
    aorta_verdict_environment(&recorded->verdict, &recorded->environment);
    recorded->has_verdict = true;
    return NULL;
}

static const char *text_of(const json_t *value, struct aorta_arena *arena) {
    switch (json_typeof(value)) {
    case JSON_STRING:
        return aorta_arena_strdup(arena, json_string_value(value));
    case JSON_INTEGER:
        return aorta_arena_printf(arena, "%lld", (long long)json_integer_value(value));
    case JSON_REAL:
        return aorta_arena_printf(arena, "%g", json_real_value(value));
    case JSON_TRUE:
        return "true";
    case JSON_FALSE:
        return "false";
    default:
        return "null"; /* lists and maps: no advice depends on them */
    }
}

/* Keys are "section.key". `before`: the prefix with its last dot. */
static void flatten(json_t *section, const char *before, struct aorta_arena *arena, struct aorta_settings *settings,
                    size_t *capacity) {
    const char *name;
    json_t *value;
    json_object_foreach(section, name, value) {
        const bool deeper = json_is_object(value);
        const char *key = aorta_arena_printf(arena, "%s%s%s", before, name, deeper ? "." : "");
        if (arena->failed) return;
        if (deeper) {
            flatten(value, key, arena, settings, capacity);
            continue;
        }
        const struct aorta_setting setting = {key, text_of(value, arena)};
        aorta_arena_append(arena, &settings->items, capacity, &settings->count, &setting, sizeof setting);
    }
}

aorta_status aorta_json_file_read(const char *path, size_t most, json_t **root) {
    char *bytes;
    size_t length;
    json_error_t error;
    AORTA_TRY(aorta_file_read_regular(path, most, &bytes, &length));
    *root = json_loadb(bytes, length, 0, &error);
    free(bytes);
    return *root ? NULL : AORTA_ERROR(AORTA_FORMAT, "%s:%d: %s", path, error.line, error.text);
}

static aorta_status read_settings(const char *path, struct aorta_arena *arena, struct aorta_settings *settings) {
    enum { MOST_BYTES = 1 << 20 };
    json_t *root;
    size_t capacity = 0;
    AORTA_TRY(aorta_json_file_read(path, MOST_BYTES, &root));
    const bool object = json_is_object(root);
    if (object) flatten(root, "", arena, settings, &capacity);
    json_decref(root);
    return object ? aorta_arena_check(arena, "the settings of the run")
                  : AORTA_ERROR(AORTA_FORMAT, "%s:1: not a JSON object", path);
}

/* Nothing if the directory has no such file. */
static aorta_status read_from(const char *directory, const char *name, struct aorta_arena *arena,
                              struct aorta_settings *settings) {
    *settings = (struct aorta_settings){0};
    const struct aorta_file_path path = aorta_path_in(directory, "%s", name);
    return access(path.text, F_OK) == 0 ? read_settings(path.text, arena, settings) : NULL;
}

aorta_status aorta_settings_read(const char *directory, const char *device, struct aorta_arena *arena,
                                 struct aorta_settings *settings) {
    AORTA_TRY(read_from(directory, "config.json", arena, settings));
    for (size_t i = 0; device && i < settings->count; i++)
        if (strcmp(settings->items[i].key, "device.kind") == 0) settings->items[i].value = device;
    return NULL;
}

aorta_status aorta_settings_environment(const char *directory, struct aorta_arena *arena,
                                        struct aorta_settings *settings) {
    return read_from(directory, aorta_environment_file, arena, settings);
}

/* ---- what differs ---- */

bool aorta_setting_changes_work(const char *key) {
    static const char *const sections[] = {"model.", "dataset.", "sparse."};
    /* the last word of a key, of an option of hwq or of a command */
    static const char *const words[] = {"batch",     "batch_size",      "batch-size",  "gradient_accumulation",
                                        "micro",     "streams",         "mm-dim",      "num-compute",
                                        "comm-size", "compute-streams", "num-coll",    "sequence_length",
                                        "seq_len",   "seq-len",         "matrix-size", "layers"};
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
        if (strncmp(key, sections[i], strlen(sections[i])) == 0) return true;
    const char *dot = strrchr(key, '.'), *word = dot ? dot + 1 : key;
    return aorta_is_one_of(word, words, sizeof words / sizeof *words);
}

/* "FOLDER/machine*.jsonl" */
static struct aorta_file_path pattern_of(const char *path) {
    struct stat info;
    const char *slash = strrchr(path, '/');
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) return aorta_path_in(path, AORTA_MACHINE_PATTERN);
    if (!slash) return aorta_path_in(".", AORTA_MACHINE_PATTERN);
    return aorta_path_in("", "%.*s/" AORTA_MACHINE_PATTERN, (int)(slash - path), path);
}

/* From the first to the last analyzed step; without steps all times. */
static void analyzed_time(const struct aorta_trace_analysis *analysis, int64_t *from_ns, int64_t *until_ns) {
    int64_t first_ns = INT64_MAX, last_ns = INT64_MIN;
    *from_ns = 0;
    *until_ns = INT64_MAX;
    for (size_t i = 0; analysis && !analysis->measured && i < analysis->rank_count; i++) {
        const struct aorta_trace_rank *rank = &analysis->ranks[i];
        if (rank->trace->base_ns == INT64_MIN) return;
        for (const struct aorta_trace_window *window = NULL; (window = aorta_step_after(analysis, rank, window));) {
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
    AORTA_TRY(aorta_annotate(aorta_machine_read(path, &found.machine), "what the machine did during the recording"));
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
    if (glob(pattern_of(path).text, 0, NULL, &found) != 0) return NULL;
    analyzed_time(analysis, &from_ns, &until_ns);
    aorta_status status = NULL;
    for (size_t i = 0; !status && i < found.gl_pathc; i++) {
        if (machine->known && is_disturbed(&machine->summary)) break;
        status = take(found.gl_pathv[i], from_ns, until_ns, machine);
    }
    globfree(&found);
    return status;
}

void aorta_recorded_machine_free(struct aorta_recorded_machine *machine) {
    aorta_arena_free(&machine->machine.arena);
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
    aorta_json_key_string(json, "machine_reason", "there is no " AORTA_MACHINE_FILE " next to the recording");
}
