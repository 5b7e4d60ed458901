#include "base/files.h"
#include "base/lines.h"
#include "base/progress.h"
#include "cli/hwq.h"
#include "device/gpu.h"
#include "measure/tracer.h"

#include <signal.h>
#include <string.h>

#define AT(field) offsetof(struct hwq_values, field)
static const struct aorta_choice sync_modes[] = {
    {"per_iteration", AORTA_HWQ_PER_ITERATION}, {"end_only", AORTA_HWQ_END_ONLY}, {"none", AORTA_HWQ_NONE}, {0}};
static const char *const traces[] = {"*.pt.trace.json", NULL};
static const char *const results[] = {"*_sweep.json", "*_streams*.json", "run_priority.json", NULL};
static const struct aorta_option common[] = {
    {"streams", AORTA_OPTION_INT_LIST, AT(streams), "null", .limits = AORTA_LIMITS(1, 1000000), .letter = 's',
     .argument = "N[,N…]",
     .help = "number of streams; default: the workload's recommendation. A list for sweep (default: powers of two "
             "within the workload's range) and run-priority (default: 1,2,4,8,16)"},
    {"iterations", AORTA_OPTION_INT, AT(iterations), "100", .limits = AORTA_LIMITS(1, 1000000), .letter = 'i',
     .help = "measured iterations"},
    {"warmup", AORTA_OPTION_INT, AT(warmup), "10", .limits = AORTA_LIMITS(0, 1000000), .letter = 'w',
     .help = "iterations before the measured ones"},
    {"sync-mode", AORTA_OPTION_CHOICE, AT(sync), "per_iteration", .choices = sync_modes,
     .argument = "per_iteration|end_only|none",
     .help = "when the host waits: after each iteration, or after the last one; none: as end_only, and "
             "independent streams do not wait for each other between iterations"},
    {"graph", AORTA_OPTION_BOOL, AT(graph), "false", .help = "capture an iteration once and replay it"},
    {"gate", AORTA_OPTION_BOOL, AT(gate), "false",
     .help = "start the device after an iteration is queued completely, so that only the device is timed"},
    {"verify", AORTA_OPTION_BOOL, AT(verify), "false",
     .help = "compare the results with a plain computation in double precision; exit code 1 when they differ"},
    {"full-size", AORTA_OPTION_BOOL, AT(full_size), "false",
     .help = "use the published sizes on the CPU device, too (minutes instead of seconds)"},
    {"seed", AORTA_OPTION_INT, AT(seed), "0", .limits = AORTA_LIMITS(0, 1e15), .help = "random seed of the inputs"},
    {"output", AORTA_OPTION_STRING, AT(output), "null", .letter = 'o', .argument = "FILE", .path = AORTA_PATH_FILE,
     .help = "file for the result as JSON"},
    AORTA_CLI_CSV_OPTION(AT(csv)),
    {"html", AORTA_OPTION_STRING, AT(html), "null", .argument = "OUT", .path = AORTA_PATH_FILE,
     .help = "write a page for a browser to this file"},
    {"stamps", AORTA_OPTION_STRING, AT(stamps), "null", .argument = "FILE", .path = AORTA_PATH_FILE,
     .help = "file for the start and end of every stamped kernel, as JSON (run only)"},
    {"profile", AORTA_OPTION_BOOL, AT(profile), "false", .letter = 'p',
     .help = "after all measurements, record five iterations as a trace for Perfetto, TensorBoard and "
             "aorta trace"},
    {"profile-dir", AORTA_OPTION_STRING, AT(profile_dir), "null", .argument = "DIR", .path = AORTA_PATH_FOLDER,
     .files = traces, .help = "directory of --profile, created if needed; default: hwq_profile"},
    {"device", AORTA_OPTION_STRING, AT(device), "auto", .letter = 'd', .argument = "DEVICE",
     .help = AORTA_CLI_DEVICE_HELP},
    {"backend", AORTA_OPTION_STRING, AT(backend), "auto",
     .help = "backend of collectives: auto, local, mpi, gloo or nccl"},
    {"timeout-s", AORTA_OPTION_DOUBLE, AT(timeout_s), "180", .limits = AORTA_LIMITS(1, 86400),
     .help = "longest time that a collective waits for other ranks"},
    AORTA_CLI_QUIET_OPTION(AT(quiet)),
};
/* Options of run-priority: its --output replaces the common --output, --set follows the common options. */
static const struct aorta_option many_rows[] = {
    {"output", AORTA_OPTION_STRING, AT(output), "null", .letter = 'o', .argument = "DIR", .path = AORTA_PATH_FOLDER,
     .files = results,
     .help = "directory for a JSON file of each workload's results and run_priority.json, created if needed"},
    {"set", AORTA_OPTION_STRING_LIST, AT(set), "null", .argument = "WORKLOAD.OPTION=VALUE", .several = true,
     .help = "options of single workloads: hetero_kernels.size=1024 tiny_kernel_stress.chains=10"},
};
enum { COMMON = sizeof common / sizeof *common };

/* The workload's own options: dashes on the command line, underscores in the key. */
static aorta_status add_own_rows(const struct aorta_hwq_workload *w, struct aorta_option *rows,
                                 struct aorta_arena *arena) {
    if (w->option_count > HWQ_MOST_OWN || w->option_bytes > AORTA_HWQ_OPTION_BYTES)
        return AORTA_ERROR(AORTA_INTERNAL, "%s has too many options", w->name);
    for (size_t i = 0; i < w->option_count; i++) {
        char *key = aorta_arena_strdup(arena, w->options[i].key);
        if (!key) return AORTA_ERROR(AORTA_MEMORY, "no host memory for options");
        for (char *at = key; *at; at++)
            if (*at == '_') *at = '-';
        rows[i] = w->options[i];
        rows[i].key = key;
        rows[i].offset += offsetof(struct hwq_values, own);
    }
    return NULL;
}

void hwq_workload_names(struct aorta_text *text) {
    for (size_t i = 0; aorta_hwq_workloads[i]; i++)
        aorta_text_printf(text, "%s\t%s\n", aorta_hwq_workloads[i]->name, aorta_hwq_workloads[i]->summary);
}

static void group_names(struct aorta_text *text) {
    for (int group = 0; group < AORTA_HWQ_GROUP_COUNT; group++)
        aorta_text_printf(text, "%s\tthe workloads of this group\n", aorta_hwq_group_name((enum aorta_hwq_group)group));
    aorta_text_puts(text, "all\tall workloads\n");
}

aorta_status hwq_command(const char *usage, const char *about, bool many, int argc, char **argv,
                         struct hwq_values *values, aorta_status (*run)(struct hwq_values *values)) {
    const struct aorta_hwq_workload *workload = values->workload;
    const int behind = values->named ? 1 : 0;
    struct aorta_option rows[COMMON + HWQ_MOST_OWN] = {0};
    struct aorta_arena keys = {0};
    struct aorta_cli_line line = {0};
    memcpy(rows, common, sizeof common);
    if (many) rows[COMMON] = many_rows[1];
    for (size_t i = 0; many && i < COMMON; i++)
        if (rows[i].offset == many_rows[0].offset) rows[i] = many_rows[0];
    aorta_status status = workload ? add_own_rows(workload, rows + COMMON, &keys) : NULL;
    const struct aorta_cli_syntax syntax = {
        .usage = usage,
        .about = about,
        .options = rows,
        .option_count = COMMON + (workload ? workload->option_count : many),
        .footer = "Exit codes: 0 success, 1 a run or a verification failed, 2 wrong arguments.",
        .names = many       ? group_names
                 : workload ? NULL
                            : hwq_workload_names,
    };
    if (!status) status = aorta_cli_parse(&syntax, argc - behind, argv + behind, values, &line);
    for (size_t i = 0; !status && workload && i < workload->option_count; i++)
        values->own_given[i] = line.given[COMMON + i];
    if (!status && !line.help) status = run(values);
    aorta_cli_free(&line);
    aorta_arena_free(&keys);
    return status;
}

/* ---- options of single workloads ---- */

/* Dashes mean underscores, as on the command line of a workload. */
static const struct aorta_option *find_option(const struct aorta_hwq_workload *w, const char *key,
                                              const char **nearest) {
    const char *keys[HWQ_MOST_OWN];
    char wanted[64];
    snprintf(wanted, sizeof wanted, "%s", key);
    for (char *at = wanted; *at; at++)
        if (*at == '-') *at = '_';
    for (size_t i = 0; i < w->option_count; i++) {
        if (!strcmp(w->options[i].key, wanted)) return &w->options[i];
        keys[i] = w->options[i].key;
    }
    *nearest = aorta_nearest(wanted, keys, w->option_count);
    return NULL;
}

static aorta_status does_not_fit(const char *word, const struct aorta_option *option) {
    struct aorta_text text = {0};
    aorta_text_printf(&text, "--set %s: ", word);
    aorta_option_describe(option, &text);
    aorta_text_puts(&text, " is expected");
    return aorta_text_error(&text, AORTA_USAGE);
}

/* Stores one word of --set if it names the workload `only`, and marks the option in `given`. With `only` NULL the word
 * is only checked.
 */
static aorta_status store_word(const char *word, const struct aorta_hwq_workload *only, void *own, bool *given,
                               struct aorta_arena *arena) {
    const struct aorta_hwq_workload *w;
    const char *nearest = NULL, *dot = strchr(word, '.'), *equals = dot ? strchr(dot, '=') : NULL;
    if (!equals)
        return AORTA_ERROR(AORTA_USAGE, "--set %s: WORKLOAD.OPTION=VALUE is expected, as in hetero_kernels.size=1024",
                           word);
    char *name = aorta_arena_printf(arena, "%.*s", (int)(dot - word), word);
    char *key = aorta_arena_printf(arena, "%.*s", (int)(equals - dot - 1), dot + 1);
    if (!name || !key) return AORTA_ERROR(AORTA_MEMORY, "no host memory for options");
    AORTA_TRY(aorta_annotate(aorta_hwq_find(name, &w), "--set %s", word));
    const struct aorta_option *option = find_option(w, key, &nearest);
    if (!option)
        return AORTA_ERROR(AORTA_USAGE, "--set %s: %s has no option \"%s\"%s%s%s", word, name, key,
                           nearest ? "; did you mean \"" : "", nearest ? nearest : "", nearest ? "\"" : "");
    if (only && only != w) return NULL;
    if (only) given[option - w->options] = true;
    const struct aorta_scalar scalar = {equals + 1, false};
    const bool fits = aorta_option_store(option, &scalar, 1, false, own, arena);
    return fits ? aorta_arena_check(arena, "options") : does_not_fit(word, option);
}

/* The size for a CPU, unless the user chose another. */
static aorta_status fit(struct hwq_session *session, const struct aorta_hwq_workload *workload,
                        const struct aorta_option *option, struct aorta_text *changed) {
    struct hwq_values *values = session->values;
    const struct aorta_scalar scalar = {option->on_cpu, false};
    if (!option->on_cpu || values->own_given[option - workload->options]) return NULL;
    if (!aorta_option_store(option, &scalar, 1, false, values->own, &session->arena))
        return AORTA_ERROR(AORTA_INTERNAL, "%s: %s cannot be %s", workload->name, option->key, option->on_cpu);
    aorta_text_printf(changed, "%s%s %s instead of %s", changed->length ? ", " : "", option->key, option->on_cpu,
                      option->fallback);
    return aorta_arena_check(&session->arena, "options");
}

aorta_status hwq_values_fit(struct hwq_session *session, const struct aorta_hwq_workload *workload) {
    struct aorta_text changed = {0};
    aorta_status status = NULL;
    if (session->values->full_size || aorta_device_is_gpu(session->device)) return NULL;
    for (size_t i = 0; i < workload->option_count && !status; i++)
        status = fit(session, workload, &workload->options[i], &changed);
    if (!status) status = aorta_text_check(&changed);
    if (!status && changed.length && session->ranks.rank == 0) {
        struct aorta_text line = {0}, lines = {0};
        aorta_text_printf(&line, "%s: sizes for a CPU (%s); --full-size takes the published ones", workload->name,
                          changed.data);
        aorta_text_lines(&lines, line.data ? line.data : "", &(struct aorta_lines){.indent = 2});
        if (lines.data) aorta_log(&session->log, AORTA_LOG_INFO, "%.*s", (int)lines.length - 1, lines.data);
        aorta_text_free(&line);
        aorta_text_free(&lines);
    }
    aorta_text_free(&changed);
    return status;
}

aorta_status hwq_values_default(struct hwq_session *session, const struct aorta_hwq_workload *workload) {
    struct hwq_values *values = session->values;
    memset(values->own, 0, sizeof values->own);
    memset(values->own_given, 0, sizeof values->own_given);
    for (size_t i = 0; i < workload->option_count; i++)
        AORTA_TRY(aorta_option_store_default(&workload->options[i], values->own, &session->arena));
    for (size_t i = 0; i < values->set.count; i++)
        AORTA_TRY(store_word(values->set.items[i], workload, values->own, values->own_given, &session->arena));
    return hwq_values_fit(session, workload);
}

static aorta_status check_set(const struct hwq_values *values) {
    _Alignas(16) unsigned char scratch[AORTA_HWQ_OPTION_BYTES];
    struct aorta_arena arena = {0};
    aorta_status status = NULL;
    for (size_t i = 0; i < values->set.count && !status; i++)
        status = store_word(values->set.items[i], NULL, scratch, NULL, &arena);
    aorta_arena_free(&arena);
    return status;
}

/* ---- before a run ---- */

static const char *profile_directory(const struct hwq_values *values) {
    return values->profile_dir ? values->profile_dir : "hwq_profile";
}

aorta_status hwq_check_streams(const struct hwq_values *values) {
    const struct aorta_int_list *list = &values->streams;
    if (!list->items) return NULL;
    if (!list->count || list->count > AORTA_HWQ_MAX_STREAMS)
        return AORTA_ERROR(AORTA_USAGE, "--streams: 1 to %d numbers are expected", AORTA_HWQ_MAX_STREAMS);
    for (size_t i = 1; i < list->count; i++)
        for (size_t j = 0; j < i; j++)
            if (list->items[i] == list->items[j])
                return AORTA_ERROR(AORTA_USAGE, "--streams: %lld is given twice; remove one of them",
                                   (long long)list->items[i]);
    return NULL;
}

aorta_status hwq_check(const struct hwq_values *values, bool collectives) {
    const bool run = strcmp(values->command, "run") == 0;
    if (values->gate && values->sync != AORTA_HWQ_PER_ITERATION)
        return AORTA_ERROR(AORTA_USAGE, "--gate holds one iteration at a time: it needs --sync-mode per_iteration");
    if (run && values->streams.items && values->streams.count != 1)
        return AORTA_ERROR(AORTA_USAGE, "--streams: aorta hwq run takes one number; sweep and run-priority a list");
    if (!run && values->stamps)
        return AORTA_ERROR(AORTA_USAGE, "--stamps %s: it keeps the stamps of one run; aorta hwq %s makes several",
                           values->stamps, values->command);
    if (!collectives && strcmp(values->backend, "auto") != 0)
        return AORTA_ERROR(AORTA_USAGE, "--backend %s: %s has no collectives", values->backend, values->named);
    if (!values->profile && values->profile_dir)
        return AORTA_ERROR(AORTA_USAGE, "--profile-dir %s: nothing is recorded without --profile", values->profile_dir);
    AORTA_TRY(check_set(values));
    if (values->profile) AORTA_TRY(aorta_directory_check_writable(profile_directory(values), "--profile-dir"));
    AORTA_TRY(aorta_cli_page_prepare(values->html));
    AORTA_TRY(aorta_cli_csv_prepare(values->csv));
    AORTA_TRY(aorta_file_prepare(values->stamps, "--stamps"));
    if (values->workload) return aorta_file_prepare(values->output, "--output");
    if (!values->output) return NULL;
    AORTA_TRY(aorta_directory_check_writable(values->output, "--output"));
    return aorta_directory_make(values->output);
}

/* ---- device and ranks ---- */

aorta_status hwq_session_open(struct hwq_values *values, struct hwq_session *session) {
    *session = (struct hwq_session){.values = values,
                                    .log = {.level = values->quiet ? AORTA_LOG_ERROR : AORTA_LOG_INFO, .rank = -1}};
    aorta_cli_outlive(SIGPIPE);
    AORTA_TRY(aorta_ranks_detect(&session->ranks));
    if (session->ranks.world_size > 1) session->log.rank = session->ranks.rank;
    if (values->profile) aorta_tracer_prepare();
    return aorta_cli_open_device(values->device, session->ranks.local_rank, &session->log, &session->device);
}

void hwq_session_close(struct hwq_session *session, aorta_status failure) {
    if (failure && session->world && session->ranks.world_size > 1) {
        aorta_log(&session->log, AORTA_LOG_ERROR, "%s", aorta_status_message(failure));
        aorta_comm_abort(session->world, aorta_code_exit(aorta_status_code(failure)));
    }
    const bool met = session->world != NULL;
    aorta_text_free(&session->reports);
    aorta_arena_free(&session->arena);
    aorta_comm_close(session->world);
    aorta_device_close(session->device);
    aorta_status left = failure ? NULL : aorta_comm_shutdown(met ? &session->ranks : NULL, session->values->timeout_s);
    if (!left) return;
    aorta_log(&session->log, AORTA_LOG_ERROR, "%s", aorta_status_message(left));
    aorta_comm_abort(NULL, aorta_code_exit(aorta_status_code(left)));
}

static aorta_status open_world(struct hwq_session *session, const struct aorta_hwq_workload *workload) {
    if (!workload->collectives || session->world) return NULL;
    const struct aorta_comm_options options = {.device = session->device,
                                               .backend = session->values->backend,
                                               .backend_key = "--backend",
                                               .ranks = session->ranks,
                                               .timeout_s = session->values->timeout_s};
    AORTA_TRY(aorta_comm_open(&options, &session->world));
    const char *note = aorta_comm_note(session->world);
    if (note) aorta_log(&session->log, AORTA_LOG_INFO, "%s", note);
    return NULL;
}

/* ---- one run ---- */

static void update_progress(void *user, int64_t done) {
    aorta_progress_update(user, done, NULL);
}

aorta_status hwq_print(const struct hwq_values *values, struct aorta_text *text) {
    const bool page = values->html && aorta_file_is_standard_output(values->html);
    return aorta_cli_print(text, page ? values->html : values->output, false);
}

static struct aorta_hwq_run describe_run(const struct hwq_session *session, const struct aorta_hwq_workload *workload,
                                         int64_t streams) {
    const struct hwq_values *values = session->values;
    return (struct aorta_hwq_run){.workload = workload,
                                  .options = values->own,
                                  .device = session->device,
                                  .world = workload->collectives ? session->world : NULL,
                                  .ranks = session->ranks,
                                  .log = &session->log,
                                  .streams = streams,
                                  .iterations = values->iterations,
                                  .warmup = values->warmup,
                                  .sync = (enum aorta_hwq_sync)values->sync,
                                  .graph = values->graph,
                                  .gate = values->gate,
                                  .verify = values->verify,
                                  .seed = (uint64_t)values->seed};
}

aorta_status hwq_run_one(struct hwq_session *session, const struct aorta_hwq_workload *workload, int64_t streams,
                         struct aorta_hwq_result *result) {
    const struct hwq_values *values = session->values;
    struct aorta_progress progress;
    struct aorta_hwq_run run = describe_run(session, workload, streams);
    const bool show = !values->quiet && session->ranks.rank == 0;
    *result = (struct aorta_hwq_result){0};
    AORTA_TRY(aorta_hwq_run_check(&run));
    AORTA_TRY(open_world(session, workload));
    run.world = workload->collectives ? session->world : NULL;
    if (show) {
        aorta_progress_begin(&progress, stderr, workload->name, "iterations", values->iterations);
        run.progress = update_progress;
        run.user = &progress;
    }
    struct aorta_hwq_stamps_file stamps_file = {0};
    if (values->stamps) run.stamps_file = &stamps_file;
    aorta_status status = aorta_hwq_run_execute(&run, result);
    if (show) aorta_progress_end(&progress);
    if (!status && values->stamps && session->ranks.rank == 0)
        status = aorta_hwq_stamps_file_write(&stamps_file, values->stamps);
    aorta_hwq_stamps_file_free(&stamps_file);
    if (!status && session->ranks.rank == 0 && !session->brief)
        aorta_hwq_run_text(&run, result, values->quiet, &session->reports);
    if (status || !result->verified || strcmp(result->verified, "passed") == 0) return status;
    if (!result->worst_at)
        return AORTA_ERROR(AORTA_DEVICE, "%s: --verify failed: nothing was compared", workload->name);
    return AORTA_ERROR(AORTA_DEVICE, "%s: the results are wrong: --verify failed: %s is %.9g, expected %.9g",
                       workload->name, result->worst_at, result->worst_got, result->worst_expected);
}

aorta_status hwq_record_one(struct hwq_session *session, const struct aorta_hwq_workload *workload, int64_t streams,
                            const char *name) {
    const struct aorta_hwq_run run = describe_run(session, workload, streams);
    const char *directory = profile_directory(session->values);
    struct aorta_file_path path;
    aorta_status status =
        aorta_hwq_run_record(&run, name ? aorta_path_in(directory, "%s", name).text : directory, &path);
    if (!status && !session->values->quiet) printf("Trace file: %s\n", path.text);
    return aorta_status_recode(status, AORTA_DEVICE);
}
