/* aorta hwq map: which streams share a hardware queue. */
#include "base/files.h"
#include "base/log.h"
#include "cli/cli.h"
#include "device/gpu.h"
#include "hwq/map.h"
#include "report/page.h"

enum { LEVEL_ALL = 3 };

struct map_arguments {
    const char *device, *output;
    struct aorta_cli_outputs to;
    int64_t streams, copy_streams, comm_streams, repeats, copy_mb;
    int priority;
    bool all_pairs, quiet;
};

#define AT(field) offsetof(struct map_arguments, field)
static const struct aorta_choice levels[] = {{"normal", AORTA_PRIORITY_NORMAL},
                                             {"low", AORTA_PRIORITY_LOW},
                                             {"high", AORTA_PRIORITY_HIGH},
                                             {"all", LEVEL_ALL},
                                             {0}};
static const struct aorta_option rows[] = {
    {"device", AORTA_OPTION_STRING, AT(device), "auto", .letter = 'd', .argument = "DEVICE",
     .help = AORTA_CLI_DEVICE_HELP},
    {"streams", AORTA_OPTION_INT, AT(streams), "16", .limits = AORTA_LIMITS(0, 128), .letter = 's',
     .help = "number of compute streams"},
    {"copy-streams", AORTA_OPTION_INT, AT(copy_streams), "2", .limits = AORTA_LIMITS(0, 128),
     .help = "number of streams that copy"},
    {"comm-streams", AORTA_OPTION_INT, AT(comm_streams), "1", .limits = AORTA_LIMITS(0, 128),
     .help = "number of streams for collectives of this process"},
    {"priority", AORTA_OPTION_CHOICE, AT(priority), "normal", .choices = levels, .argument = "LEVEL",
     .help = "priority of the compute streams; all: --streams streams of each priority"},
    {"repeats", AORTA_OPTION_INT, AT(repeats), "3", .limits = AORTA_LIMITS(1, 100),
     .help = "number of equal results in a row that decide a pair"},
    {"all-pairs", AORTA_OPTION_BOOL, AT(all_pairs), "false",
     .help = "probe every pair alone, not only pairs with the first stream of a group"},
    {"copy-mb", AORTA_OPTION_INT, AT(copy_mb), "32", .limits = AORTA_LIMITS(0, 4096),
     .help = "MiB of each copy on two streams; 0: no copies"},
    {"json", AORTA_OPTION_BOOL, AT(to.json), "false", .help = "print one JSON object instead of text"},
    {"output", AORTA_OPTION_STRING, AT(output), "null", .letter = 'o', .argument = "FILE", .path = AORTA_PATH_FILE,
     .help = "also write the JSON object to this file"},
    AORTA_CLI_QUIET_OPTION(AT(quiet)),
    AORTA_CLI_CSV_OPTION(AT(to.csv)),
    {"html", AORTA_OPTION_STRING, AT(to.html), "null", .argument = "OUT", .path = AORTA_PATH_FILE,
     .help = "write a page for a browser to this file"},
};

static const struct aorta_cli_syntax syntax = {
    .usage = "aorta hwq map [--streams N] [--priority LEVEL] [--device DEVICE] [--output FILE] [--html "
             "OUT] [--csv DIR]",
    .about =
        "Finds which streams share a hardware queue: a long kernel runs on one stream with work queued after it; does "
        "a short kernel on another stream start before it ends? Times are the device's own, and every probe is "
        "repeated until its result is stable.",
    AORTA_CLI_OPTIONS(rows),
    .footer = "CUDA_DEVICE_MAX_CONNECTIONS (CUDA) and GPU_MAX_HW_QUEUES (ROCm) apply as they are set.",
};

/* ---- output ---- */

static aorta_status emit(const struct map_arguments *arguments, const struct aorta_map *map,
                         const struct aorta_found_list *found, const struct aorta_map_copies *copies,
                         const struct aorta_device_info *device) {
    struct aorta_text words = {0}, object = {0};
    if (arguments->quiet)
        aorta_found_answer_text(found, &words);
    else
        aorta_map_text(map, found, copies, &words);
    aorta_map_json(map, found, copies, device, &object);
    const struct aorta_page_results page = {
        .kind = "hwq_map", .title = "AORTA: hardware queues", .tables = aorta_map_tables};
    return aorta_cli_show(&arguments->to, arguments->output, page, &words, &object,
                          arguments->to.csv ? aorta_map_csv(map, copies, arguments->to.csv) : NULL);
}

/* ---- the run ---- */

static aorta_status measure(const struct map_arguments *arguments, struct aorta_device *device,
                            struct aorta_comm *comm) {
    static const enum aorta_priority all[] = {AORTA_PRIORITY_HIGH, AORTA_PRIORITY_NORMAL, AORTA_PRIORITY_LOW};
    const enum aorta_priority one = (enum aorta_priority)arguments->priority;
    bool every = arguments->priority == LEVEL_ALL;
    const struct aorta_map_options options = {
        .device = device,
        .comm = comm,
        .compute_streams = (int)arguments->streams,
        .copy_streams = (int)arguments->copy_streams,
        .comm_streams = (int)arguments->comm_streams,
        .priorities = every ? all : &one,
        .priority_count = every ? 3 : 1,
        .pairs = {.repeats = (int)arguments->repeats, .all_pairs = arguments->all_pairs},
    };
    struct aorta_map map;
    struct aorta_map_copies copies;
    struct aorta_found_list found;
    AORTA_TRY(aorta_map_run(&options, &map));
    aorta_status status = aorta_map_find(&map, aorta_device_get_info(device), &found);
    if (!status && arguments->copy_mb)
        status =
            aorta_map_copies_measure(device, (size_t)arguments->copy_mb << 20, (int)arguments->repeats + 2, &copies);
    if (!status)
        status = emit(arguments, &map, &found, arguments->copy_mb ? &copies : NULL, aorta_device_get_info(device));
    aorta_found_free(&found);
    aorta_map_free(&map);
    return status;
}

/* Opens collectives of one rank, as only their stream matters, not their speed. On a GPU NCCL, or copies if NCCL is
 * not installed. */
static aorta_status open_comm(struct aorta_device *device, struct aorta_comm **comm) {
    struct aorta_comm_options options = {.device = device,
                                         .backend = aorta_device_is_gpu(device) ? "nccl" : "local",
                                         .ranks = {.world_size = 1, .local_world_size = 1},
                                         .timeout_s = 60};
    aorta_status status = aorta_comm_open(&options, comm);
    if (aorta_status_code(status) == AORTA_UNSUPPORTED) {
        aorta_status_free(status);
        options.backend = "local";
        status = aorta_comm_open(&options, comm);
    }
    return aorta_annotate(status, "--comm-streams (0 does without a communicator)");
}

static aorta_status run(struct aorta_cli_line *line, void *values) {
    (void)line;
    const struct map_arguments *arguments = values;
    const struct aorta_log log = {.level = arguments->quiet ? AORTA_LOG_ERROR : AORTA_LOG_INFO, .rank = -1};
    struct aorta_device *device;
    struct aorta_comm *comm = NULL;
    AORTA_TRY(aorta_cli_outputs_prepare(&arguments->to));
    AORTA_TRY(aorta_file_prepare(arguments->output, "--output"));
    AORTA_TRY(aorta_cli_open_device(arguments->device, 0, &log, &device));
    aorta_status status = arguments->comm_streams ? open_comm(device, &comm) : NULL;
    if (!status) status = measure(arguments, device, comm);
    aorta_comm_close(comm);
    aorta_device_close(device);
    return status;
}

const struct aorta_cli_entry aorta_cli_hwq_map = {&syntax, run, .size = sizeof(struct map_arguments)};
