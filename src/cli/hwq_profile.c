/* aorta hwq profile: which hardware queues a workload used. The workload runs as a child under the recorder of its
 * vendor (CUDA: our library with CUPTI; ROCm: rocprofv3), and this command reads the recording. */
#include "base/json.h"
#include "base/rows.h"
#include "cli/hwq.h"
#include "cli/trace_run.h"
#include "device/gpu.h"
#include "hwq/result.h"
#include "hwq/spans.h"
#include "hwq/workload.h"
#include "trace/kernel_names.h"
#include "trace/open.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct arguments {
    const char *device, *output, *csv;
    struct aorta_string_list traces;
    bool json, dry_run, quiet;
    char **workload; /* its name and options; NULL-terminated */
};

#define AT(field) offsetof(struct arguments, field)
static const char *const files[] = {"*.spool", NULL};
static const struct aorta_option rows[] = {
    {"device", AORTA_OPTION_STRING, AT(device), "auto", .letter = 'd', .argument = "DEVICE",
     .help = AORTA_CLI_DEVICE_HELP},
    {"trace", AORTA_OPTION_STRING_LIST, AT(traces), "null", .argument = "PATH", .path = AORTA_PATH_READ,
     .help = "read this recording instead of running: a file or directory of rocprofv3, aorta trace run "
             "or PyTorch; repeat it"},
    {"output", AORTA_OPTION_STRING, AT(output), "null", .letter = 'o', .argument = "DIR", .path = AORTA_PATH_FOLDER,
     .files = files,
     .help = "directory for the recording, created if needed and named at the end; default: the recording is deleted "
             "afterwards"},
    AORTA_CLI_CSV_OPTION(AT(csv)),
    {"json", AORTA_OPTION_BOOL, AT(json), "false",
     .help = "print one JSON object; what the workload prints goes to standard error"},
    AORTA_CLI_QUIET_OPTION(AT(quiet)),
    {"dry-run", AORTA_OPTION_BOOL, AT(dry_run), "false", .help = "print the command and run nothing"},
};
#undef AT

static const struct aorta_cli_syntax syntax = {
    .usage = "aorta hwq profile WORKLOAD [OPTIONS] [OPTIONS OF aorta hwq run …]",
    .about = "Records a workload and reports which hardware queues it used, how many kernels each queue ran, and the "
             "gaps between kernels. Other options after the workload's name go to aorta hwq run.",
    AORTA_CLI_OPTIONS(rows),
    .names = hwq_workload_names,
    .operands = true,
    .command = true,
};

/* ---- queues of a recording ---- */

struct output {
    bool as_json, quiet;
    struct aorta_text text;
    struct aorta_json json;
    struct aorta_hwq_csv csv;
};

/* The work of one device, without the harness's own kernels. */
static size_t select_work(const struct aorta_trace *trace, int32_t device, struct aorta_span *work, size_t *left_out) {
    size_t count = 0;
    *left_out = 0;
    AORTA_EACH (const struct aorta_trace_work, from, trace->work, trace->work_count) {
        const bool kernel = from->kind == AORTA_TRACE_KERNEL;
        if (from->device != device) continue;
        if (kernel &&
            aorta_kernel_only_measures(aorta_kernel_classify(aorta_trace_text(trace, from->name), NULL).class)) {
            ++*left_out;
            continue;
        }
        work[count++] = (struct aorta_span){.start_ns = from->start_ns,
                                            .end_ns = from->end_ns,
                                            .launch_ns = INT64_MIN,
                                            .stream = from->stream == AORTA_TRACE_NONE ? -1 : (int64_t)from->stream,
                                            .queue = from->queue == AORTA_TRACE_NONE ? AORTA_SPAN_NO_QUEUE
                                                                                     : trace->queues[from->queue].id,
                                            .kind = kernel ? AORTA_SPAN_KERNEL : AORTA_SPAN_COPY};
    }
    return count;
}

/* The queues of one device. */
struct recorded {
    const char *path, *format;
    int64_t rank, device, left_out;
    struct aorta_queue_usage queues;
    struct aorta_found_list found;
};

#define AT(member) offsetof(struct recorded, member)
static const struct aorta_row recorded_rows[] = {
    {"path", AORTA_ROW_TEXT, AT(path), .help = "of the recording"},
    {"format", AORTA_ROW_TEXT, AT(format), .help = "its format"},
    {"rank", AORTA_ROW_INT, AT(rank), .help = "of the job; -1: not known"},
    {"device", AORTA_ROW_INT, AT(device), .help = "its number in the recording"},
    {"kernels_left_out", AORTA_ROW_INT, AT(left_out), .help = "of the harness itself"},
    {0}};

static void find(struct recorded *recorded, const char *name) {
    HWQ_FIND(&recorded->found, AORTA_HWQ_PROFILE_DEVICE,
             hwq_count("rank", recorded->rank < 0 ? NAN : (double)recorded->rank),
             hwq_count("device", (double)recorded->device), hwq_text("format", recorded->format));
    aorta_queue_usage_find(&recorded->queues, name, &recorded->found);
    if (recorded->left_out)
        HWQ_FIND(&recorded->found, AORTA_HWQ_PROFILE_LEFT_OUT, hwq_count("left_out", (double)recorded->left_out));
}

static void write_json(const struct recorded *recorded, struct aorta_json *json) {
    aorta_json_object(json);
    aorta_rows_json(recorded_rows, recorded, 0, json);
    aorta_found_answer_json("headline", &recorded->found, json);
    aorta_found_facts_json(&recorded->found, json);
    aorta_json_key(json, "profile");
    aorta_queue_usage_json(&recorded->queues, json);
    aorta_json_object_end(json);
}

void hwq_profile_schema(struct aorta_json *json) {
    aorta_schema_list("recordings", json);
    aorta_rows_schema(recorded_rows, json);
    aorta_found_schema(json);
    aorta_json_key_object(json, "profile");
    aorta_json_key_object(json, "properties");
    aorta_queue_usage_schema(json);
    aorta_json_object_end(json);
    aorta_json_object_end(json);
    aorta_schema_list_end(json);
}

static void write_text(const struct recorded *recorded, const char *name, bool quiet, struct aorta_text *text) {
    if (quiet) {
        aorta_found_answer_text(&recorded->found, text);
        return;
    }
    if (text->length) aorta_text_puts(text, "\n");
    aorta_found_text(&recorded->found, text);
    aorta_queue_usage_text(&recorded->queues, name, text);
}

static aorta_status show_device(struct output *output, const struct aorta_trace *trace, int32_t device,
                                struct aorta_span *work) {
    const char *name = trace->format == AORTA_TRACE_SPOOL ? "channel" : "queue";
    struct recorded recorded = {
        .path = trace->path, .format = aorta_trace_format_name(trace->format), .rank = trace->rank, .device = device};
    size_t left_out;
    AORTA_TRY(aorta_queue_usage_measure(work, select_work(trace, device, work, &left_out), &recorded.queues));
    recorded.left_out = (int64_t)left_out;
    find(&recorded, name);
    if (output->as_json)
        write_json(&recorded, &output->json);
    else
        write_text(&recorded, name, output->quiet, &output->text);
    const struct aorta_queue_usage_of of = {trace->path, trace->rank < 0 ? AORTA_ROW_UNKNOWN : trace->rank, device,
                                            &recorded.queues};
    aorta_hwq_csv_add(&output->csv, &of);
    aorta_status status = aorta_arena_check(&recorded.found.arena, "what was found");
    aorta_found_free(&recorded.found);
    aorta_queue_usage_free(&recorded.queues);
    return status;
}

static aorta_status show_trace(struct output *output, const struct aorta_trace *trace) {
    enum { MOST_DEVICES = 64 };
    int32_t devices[MOST_DEVICES];
    size_t count = 0;
    for (size_t i = 0; i < trace->work_count && count < MOST_DEVICES; i++) {
        size_t at = 0;
        while (at < count && devices[at] != trace->work[i].device) at++;
        if (at == count) devices[count++] = trace->work[i].device;
    }
    struct aorta_span *work = calloc(trace->work_count + 1, sizeof *work);
    if (!work) return AORTA_ERROR(AORTA_MEMORY, "no memory for %zu kernels", trace->work_count);
    aorta_status status = NULL;
    for (size_t i = 0; i < count && !status; i++) status = show_device(output, trace, devices[i], work);
    free(work);
    return status;
}

static aorta_status show_all(const struct arguments *arguments, const struct aorta_trace_list *traces,
                             struct output *output) {
    struct aorta_json *json = &output->json;
    size_t work = 0;
    for (size_t i = 0; i < traces->count; i++) work += traces->items[i]->work_count;
    if (!work) return AORTA_ERROR(AORTA_USAGE, "the recording has no kernel, copy or fill");
    if (output->as_json) {
        aorta_json_output(json, &output->text, 2, 1);
        aorta_json_key_string(json, "kind", "hwq_profile");
        aorta_json_key_array(json, "command");
        for (char *const *word = arguments->workload; *word; word++) aorta_json_string(json, *word);
        aorta_json_array_end(json);
        aorta_json_key_array(json, "recordings");
    }
    for (size_t i = 0; i < traces->count; i++) AORTA_TRY(show_trace(output, traces->items[i]));
    if (output->as_json) {
        aorta_json_array_end(json);
        aorta_json_output_end(json);
    }
    return NULL;
}

static aorta_status show(const struct arguments *arguments, const struct aorta_trace_list *traces) {
    struct output output = {
        .as_json = arguments->json, .quiet = arguments->quiet, .csv = {.tables = aorta_queue_usage_csv}};
    aorta_status status = show_all(arguments, traces, &output);
    status = aorta_status_join(status, aorta_hwq_csv_write(&output.csv, status ? NULL : arguments->csv));
    if (!status) return aorta_cli_print(&output.text, NULL, false);
    aorta_text_free(&output.text);
    return status;
}

/* ---- the child process ---- */

/* `aorta hwq run WORKLOAD … --device D` */
static char **make_command(const struct arguments *arguments, const char *program, struct aorta_arena *memory) {
    struct aorta_words command = {.arena = memory};
    aorta_words_add_all(&command, (const char *const[]){program, "hwq", "run", NULL});
    aorta_words_add_all(&command, (const char *const *)arguments->workload);
    aorta_words_add_all(
        &command, (const char *const[]){"--device", arguments->device, arguments->quiet ? "--quiet" : NULL, NULL});
    return command.items;
}

/* Without a GPU, "auto" would choose the CPU device, whose recording has no queues: fail before the run. */
static aorta_status find_gpu(const char *device) {
    static const enum aorta_device_kind kinds[] = {AORTA_DEVICE_CUDA, AORTA_DEVICE_HIP};
    int count = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !count; i++)
        aorta_status_free(aorta_gpu_count(kinds[i], &count));
    if (count) return NULL;
    return AORTA_ERROR(AORTA_USAGE,
                       "--device %s: there is no GPU here, and the CPU device has no hardware queues; aorta info says "
                       "what was looked for",
                       device);
}

static aorta_status choose_tool(const char *device, bool dry_run, enum aorta_trace_run_tool *tool) {
    const bool cuda = strncmp(device, "cuda", 4) == 0, hip = strncmp(device, "hip", 3) == 0;
    if (strncmp(device, "cpu", 3) == 0)
        return AORTA_ERROR(AORTA_USAGE, "--device cpu: the CPU device has no hardware queues, its streams are threads; "
                                        "aorta hwq run shows the gaps between kernels there");
    if (!cuda && !hip && !dry_run) AORTA_TRY(find_gpu(device));
    *tool = aorta_trace_run_choose(cuda ? AORTA_TRACE_RUN_CUDA : hip ? AORTA_TRACE_RUN_ROCM : AORTA_TRACE_RUN_AUTO);
    return NULL;
}

static aorta_status record(const struct arguments *arguments, const char *directory, char **command,
                           struct aorta_trace_run_outcome *outcome) {
    const struct aorta_trace_run_arguments run = {.tool = AORTA_TRACE_RUN_AUTO,
                                                  .format = AORTA_TRACE_RUN_FORMAT_AUTO,
                                                  .limit_mb = AORTA_TRACE_RUN_LIMIT_MB,
                                                  .json = arguments->json || arguments->quiet,
                                                  .dry_run = arguments->dry_run,
                                                  .command = command};
    const struct aorta_trace_options options = {.recover = true};
    enum aorta_trace_run_tool tool = AORTA_TRACE_RUN_AUTO;
    bool ran;
    AORTA_TRY(choose_tool(arguments->device, arguments->dry_run, &tool));
    fflush(stdout);
    AORTA_TRY((tool == AORTA_TRACE_RUN_ROCM ? aorta_trace_run_rocm : aorta_trace_run_cuda)(&run, directory, &options,
                                                                                           outcome, &ran));
    if (!ran) return NULL;
    if (outcome->result.exit_code)
        return AORTA_ERROR(AORTA_DEVICE, "the workload ended with exit code %d; see its messages above",
                           outcome->result.exit_code);
    if (outcome->traces.count) return NULL;
    struct aorta_text why = {0};
    aorta_trace_run_join(&outcome->words, "\n", &why);
    if (!why.length) aorta_text_puts(&why, "nothing was recorded");
    return aorta_text_error(&why, AORTA_UNSUPPORTED);
}

static aorta_status run_in(const struct arguments *arguments, const char *directory) {
    char program[PATH_MAX];
    AORTA_TRY(aorta_cli_self(program));
    struct aorta_arena memory = {0};
    char **command = make_command(arguments, program, &memory);
    struct aorta_trace_run_outcome outcome = {0};
    aorta_status status = aorta_arena_check(&memory, "a command");
    if (!status) status = record(arguments, directory, command, &outcome);
    if (!status && !arguments->dry_run) status = show(arguments, &outcome.traces);
    if (!status && arguments->output && !arguments->json && !arguments->quiet && !arguments->dry_run)
        printf("Recording: %s\n", directory);
    aorta_trace_run_outcome_free(&outcome);
    aorta_arena_free(&memory);
    return status;
}

static aorta_status run(const struct arguments *arguments) {
    struct aorta_trace_run_directory directory;
    AORTA_TRY(aorta_trace_run_directory_open(arguments->output, "--output", arguments->dry_run, &directory));
    aorta_status status = run_in(arguments, directory.path);
    aorta_trace_run_directory_close(&directory);
    return status;
}

/* ---- the command ---- */

static aorta_status read_recording(const struct arguments *arguments) {
    const struct aorta_trace_options options = {0};
    struct aorta_trace_list traces = {0};
    AORTA_TRY(aorta_trace_open_inputs(arguments->traces.items, arguments->traces.count, &options, &traces));
    aorta_status status = show(arguments, &traces);
    aorta_trace_list_free(&traces);
    return status;
}

static aorta_status profile_or_read(struct aorta_cli_line *line, void *values) {
    static const char *const with_trace[] = {"trace", "json", "csv", "quiet", NULL};
    struct arguments *arguments = values;
    const char *name = line->operands[0];
    const struct aorta_hwq_workload *workload;
    arguments->workload = line->operands; /* the list of operands ends with NULL */
    if (arguments->traces.count) AORTA_TRY(aorta_cli_only(&syntax, line, "--trace", with_trace));
    if (arguments->traces.count && name)
        return AORTA_ERROR(AORTA_USAGE, "--trace reads a recording; it takes no workload (\"%s\")", name);
    AORTA_TRY(aorta_cli_csv_prepare(arguments->csv));
    if (arguments->traces.count) return read_recording(arguments);
    if (!name)
        return AORTA_ERROR(AORTA_USAGE, "no workload; aorta hwq list shows them, --trace PATH reads a recording");
    AORTA_TRY(aorta_hwq_find(name, &workload));
    return run(arguments);
}

/* Number of words of this command's option at the beginning of `words`; 0 if it is no such option. */
static int words_of_option(char *const *words) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *word = words[0], *name = rows[i].key;
        const size_t length = strlen(name);
        const bool letter = rows[i].letter && word[0] == '-' && word[1] == rows[i].letter;
        const bool named = strncmp(word, "--", 2) == 0 && strncmp(word + 2, name, length) == 0;
        const char *end = letter ? word + 2 : word + 2 + length;
        if (!letter && !named) continue;
        if (!*end) return rows[i].type == AORTA_OPTION_BOOL || !words[1] ? 1 : 2;
        if (rows[i].type != AORTA_OPTION_BOOL && (letter || *end == '=')) return 1;
    }
    return 0;
}

/* This command's own options may also follow the workload's name: they go first. The caller frees the array. */
static char **order(int argc, char **argv) {
    char **ordered = calloc((size_t)argc + 1, sizeof *ordered);
    int count = 0;
    for (int pass = 0; ordered && pass < 2; pass++)
        for (int i = 0; i < argc;) {
            const int words = i ? words_of_option(argv + i) : 1, taken = words ? words : 1;
            for (int word = 0; word < taken && (words == 0) == pass; word++) ordered[count++] = argv[i + word];
            i += taken;
        }
    return ordered;
}

aorta_status aorta_cli_hwq_profile(int argc, char **argv) {
    struct arguments arguments = {0};
    char **ordered = order(argc, argv);
    if (!ordered) return AORTA_ERROR(AORTA_MEMORY, "no memory for a command line");
    aorta_status status = aorta_cli_command(&syntax, argc, ordered, &arguments, profile_or_read);
    free(ordered);
    return status;
}
