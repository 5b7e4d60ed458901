/* aorta hwq profile: which hardware queues a workload used. The workload runs as a child under the recorder of its
 * vendor (CUDA: our library with CUPTI; ROCm: rocprofv3), whose recording is read back. */
#include "cli/hwq_profile.h"
#include "base/files.h"
#include "base/json.h"
#include "cli/device_option.h"
#include "cli/hwq.h"
#include "device/gpu.h"
#include "hwq/workload.h"
#include "trace/inputs.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AT(field) offsetof(struct aorta_hwq_profile, field)
static const struct aorta_cli_option rows[] = {
    {.value = {.key = "device",
               .type = AORTA_OPTION_STRING,
               .offset = AT(device),
               .fallback = "auto",
               .help = AORTA_CLI_DEVICE_HELP},
     .argument = "DEVICE"},
    {.value = {.key = "trace",
               .type = AORTA_OPTION_STRING_LIST,
               .offset = AT(traces),
               .fallback = "null",
               .nullable = true,
               .help = "run nothing, read this recording: a file or directory of rocprofv3, aorta trace run or "
                       "PyTorch; repeat it for several"},
     .argument = "PATH"},
    {.value = {.key = "output",
               .type = AORTA_OPTION_STRING,
               .offset = AT(output),
               .fallback = "null",
               .nullable = true,
               .help = "directory that keeps the recording, made when missing; null: it is removed"},
     .letter = 'o',
     .argument = "DIR"},
    {.value = {.key = "agreement",
               .type = AORTA_OPTION_BOOL,
               .offset = AT(agreement),
               .fallback = "false",
               .help = "run with --gate and hold the gaps that the workload's own stamps show against those of the "
                       "recording; exit code 1 when they are more than 10% apart"}},
    {.value = {.key = "json",
               .type = AORTA_OPTION_BOOL,
               .offset = AT(json),
               .fallback = "false",
               .help = "print one JSON object; what the workload prints goes to standard error"}},
    {.value = {.key = "dry-run",
               .type = AORTA_OPTION_BOOL,
               .offset = AT(dry_run),
               .fallback = "false",
               .help = "print the command that would be run, and run nothing"}},
};
#undef AT

static const struct aorta_cli_syntax syntax = {
    .usage = "aorta hwq profile [OPTIONS] WORKLOAD [OPTIONS OF aorta hwq run …]",
    .about = "Records a workload and says which hardware queues it used, how many kernels came through each, and the "
             "gaps between them. What follows the workload's name is handed to aorta hwq run.",
    .options = rows,
    .option_count = sizeof rows / sizeof rows[0],
    .operands = true,
    .command = true,
};

/* ---- the command ---- */

/* This program, as the child finds it. */
static const char *own_path(char path[PATH_MAX]) {
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
    path[length > 0 ? length : 0] = '\0';
    return length > 0 ? path : "aorta";
}

/* `aorta hwq run WORKLOAD … --device D`, and what the agreement needs. The caller frees the array. */
static char **make_command(const struct aorta_hwq_profile *profile, const char *program,
                           const struct hwq_profile_files *files) {
    const char *extra[] = {"--device", profile->device, "--gate", "--output", files->result, "--stamps", files->stamps};
    size_t extras = profile->agreement ? sizeof extra / sizeof *extra : 2, at = 0, count = 0;
    while (profile->words[count]) count++;
    const char **command = calloc(count + extras + 4, sizeof *command);
    if (!command) return NULL;
    command[at++] = program;
    command[at++] = "hwq";
    command[at++] = "run";
    memcpy(command + at, profile->words, count * sizeof *command);
    memcpy(command + at + count, extra, extras * sizeof *command);
    return (char **)command;
}

/* "auto" and a number alone would take the CPU device where there is no GPU, and the recording would find out last. */
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
    const bool named = strncmp(device, "cuda", 4) == 0 || strncmp(device, "hip", 3) == 0;
    if (strncmp(device, "cpu", 3) == 0)
        return AORTA_ERROR(AORTA_USAGE, "--device cpu: the CPU device has no hardware queues, its streams are threads; "
                                        "aorta hwq run shows the gaps between kernels there");
    if (!named && !dry_run) AORTA_TRY(find_gpu(device));
    int wish = strncmp(device, "cuda", 4) == 0  ? AORTA_TRACE_RUN_CUDA
               : strncmp(device, "hip", 3) == 0 ? AORTA_TRACE_RUN_ROCM
                                                : AORTA_TRACE_RUN_AUTO;
    *tool = aorta_trace_run_choose(wish);
    return NULL;
}

static aorta_status record(const struct aorta_hwq_profile *profile, const char *directory, char **command,
                           struct aorta_trace_run_outcome *outcome) {
    const struct aorta_trace_run_arguments arguments = {.tool = AORTA_TRACE_RUN_AUTO,
                                                        .format = AORTA_TRACE_RUN_FORMAT_AUTO,
                                                        .limit_mb = AORTA_TRACE_RUN_LIMIT_MB,
                                                        .json = profile->json,
                                                        .dry_run = profile->dry_run,
                                                        .command = command};
    const struct aorta_trace_options options = {.recover = true};
    enum aorta_trace_run_tool tool;
    bool ran;
    AORTA_TRY(choose_tool(profile->device, profile->dry_run, &tool));
    fflush(stdout);
    AORTA_TRY((tool == AORTA_TRACE_RUN_ROCM ? aorta_trace_run_rocm : aorta_trace_run_cuda)(&arguments, directory,
                                                                                           &options, outcome, &ran));
    if (!ran) return NULL;
    if (outcome->result.exit_code)
        return AORTA_ERROR(AORTA_DEVICE, "the workload ended with exit code %d; its own messages stand above",
                           outcome->result.exit_code);
    if (!outcome->traces.count)
        return AORTA_ERROR(AORTA_UNSUPPORTED, "%s", outcome->words.data ? outcome->words.data : "nothing was recorded");
    return NULL;
}

static aorta_status run_in(const struct aorta_hwq_profile *profile, const char *directory) {
    char program[PATH_MAX];
    char *result = aorta_path_join(directory, "result.json"), *stamps = aorta_path_join(directory, "stamps.json");
    const struct hwq_profile_files files = {result, stamps};
    char **command = result && stamps ? make_command(profile, own_path(program), &files) : NULL;
    struct aorta_trace_run_outcome outcome = {0};
    aorta_status status =
        command ? record(profile, directory, command, &outcome) : AORTA_ERROR(AORTA_MEMORY, "no memory for a command");
    if (!status && !profile->dry_run)
        status = aorta_hwq_profile_show(profile, &outcome.traces, profile->agreement ? &files : NULL);
    aorta_trace_run_outcome_free(&outcome);
    free(command);
    free(result);
    free(stamps);
    return status;
}

static aorta_status run(const struct aorta_hwq_profile *profile) {
    char directory[PATH_MAX];
    AORTA_TRY((profile->dry_run ? aorta_trace_run_directory_name
                                : aorta_trace_run_directory_open)(profile->output, "--output", directory));
    aorta_status status = run_in(profile, directory);
    if (!profile->dry_run) aorta_trace_run_directory_close(profile->output, directory);
    return status;
}

/* ---- a recording that is there ---- */

static aorta_status read_recording(const struct aorta_hwq_profile *profile) {
    const struct aorta_trace_options options = {0};
    struct aorta_trace_list traces = {0};
    AORTA_TRY(aorta_trace_open_inputs(profile->traces.items, profile->traces.count, &options, &traces));
    aorta_status status = aorta_hwq_profile_show(profile, &traces, NULL);
    aorta_trace_list_free(&traces);
    return status;
}

/* "--output", "--output=x" and "-o" are all the option "output" with the letter o. */
static bool is_option(const char *word, const char *name, char letter) {
    const size_t length = strlen(name);
    if (letter && word[0] == '-' && word[1] == letter) return true;
    return !strncmp(word, "--", 2) && !strncmp(word + 2, name, length) &&
           (word[2 + length] == '\0' || word[2 + length] == '=');
}

/* Options that this command gives to the run itself would be overruled without a word. */
static aorta_status check_words(const struct aorta_hwq_profile *profile) {
    for (char *const *word = profile->words + 1; *word; word++) {
        if (is_option(*word, "device", 0))
            return AORTA_ERROR(AORTA_USAGE,
                               "%s stands behind the workload: the device is chosen before it, as in "
                               "aorta hwq profile --device cuda:0 %s",
                               *word, profile->words[0]);
        if (profile->agreement && (is_option(*word, "output", 'o') || is_option(*word, "stamps", 0)))
            return AORTA_ERROR(AORTA_USAGE,
                               "%s behind the workload: --agreement writes these files itself; --output DIR "
                               "before the workload keeps them",
                               *word);
    }
    return NULL;
}

static aorta_status profile_or_read(struct aorta_hwq_profile *profile) {
    if (profile->traces.count && profile->words[0])
        return AORTA_ERROR(AORTA_USAGE, "--trace reads a recording; it takes no workload (\"%s\")", profile->words[0]);
    if (profile->traces.count && profile->agreement)
        return AORTA_ERROR(AORTA_USAGE, "--agreement needs a run; it does not go with --trace");
    if (profile->traces.count) return read_recording(profile);
    if (!profile->words[0])
        return AORTA_ERROR(AORTA_USAGE, "no workload; aorta hwq list shows them, --trace PATH reads a recording");
    const struct aorta_hwq_workload *workload;
    AORTA_TRY(aorta_hwq_find(profile->words[0], &workload));
    AORTA_TRY(check_words(profile));
    return run(profile);
}

aorta_status aorta_cli_hwq_profile(int argc, char **argv) {
    struct aorta_hwq_profile profile = {0};
    struct aorta_cli_line line;
    AORTA_TRY(aorta_cli_parse(&syntax, argc, argv, &profile, &line));
    profile.words = line.operands; /* the list of operands ends with NULL */
    aorta_status status = line.help ? NULL : profile_or_read(&profile);
    aorta_cli_free(&line);
    return status;
}
