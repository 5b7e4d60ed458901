/* aorta sdma: a matrix product during asynchronous copies. */
#include "hwq/sdma.h"
#include "base/log.h"
#include "cli/cli.h"
#include "device/gpu.h"
#include "report/page.h"

struct sdma_arguments {
    struct aorta_cli_outputs to;
    const char *device;
    int64_t matrix_size, copy_mb, iterations, warmup, peer;
    int direction, dtype;
    bool quiet;
};

#define AT(field) offsetof(struct sdma_arguments, field)
static const struct aorta_choice directions[] = {
    {"d2h", AORTA_SDMA_D2H}, {"h2d", AORTA_SDMA_H2D}, {"d2d", AORTA_SDMA_D2D}, {"p2p", AORTA_SDMA_P2P}, {0}};
static const struct aorta_choice types[] = {{"fp32", AORTA_F32},
                                            {"float32", AORTA_F32},
                                            {"bf16", AORTA_BF16},
                                            {"bfloat16", AORTA_BF16},
                                            {"fp16", AORTA_F16},
                                            {"float16", AORTA_F16},
                                            {0}};
static const struct aorta_option rows[] = {
    {"device", AORTA_OPTION_STRING, AT(device), "auto", .letter = 'd', .argument = "DEVICE",
     .help = AORTA_CLI_DEVICE_HELP},
    {"matrix-size", AORTA_OPTION_INT, AT(matrix_size), "4096", .limits = AORTA_LIMITS(16, 65536),
     .help = "rows and columns of the matrices"},
    {"copy-mb", AORTA_OPTION_INT, AT(copy_mb), "64", .limits = AORTA_LIMITS(1, 65536), .help = "MiB of a copy"},
    {"iterations", AORTA_OPTION_INT, AT(iterations), "20", .limits = AORTA_LIMITS(1, 100000),
     .help = "measured runs of each kind"},
    {"warmup", AORTA_OPTION_INT, AT(warmup), "3", .limits = AORTA_LIMITS(0, 1000),
     .help = "runs before the measured ones"},
    {"cold-iters", AORTA_OPTION_INT, AT(warmup), "3", .limits = AORTA_LIMITS(0, 1000), .help = "the same as --warmup"},
    {"direction", AORTA_OPTION_CHOICE, AT(direction), "d2h", .choices = directions, .argument = "DIRECTION",
     .help = "direction of the copy; host memory is pinned, p2p copies to another device"},
    {"peer", AORTA_OPTION_INT, AT(peer), "null", .when_null = -1, .limits = AORTA_LIMITS(0, 1023),
     .help = "p2p: number of the other device; default: the next one"},
    {"dtype", AORTA_OPTION_CHOICE, AT(dtype), "fp32", .choices = types, .argument = "TYPE",
     .help = "element type of the matrices"},
    AORTA_CLI_QUIET_OPTION(AT(quiet)),
    AORTA_CLI_CSV_OPTION(AT(to.csv)),
    {"html", AORTA_OPTION_STRING, AT(to.html), "null", .argument = "OUT", .path = AORTA_PATH_FILE,
     .help = "write a page for a browser to this file"},
    {"json", AORTA_OPTION_BOOL, AT(to.json), "false",
     .help = "print one JSON object, with every sample, instead of text"},
};

static const struct aorta_cli_syntax syntax = {
    .usage = "aorta sdma [--direction d2h|h2d|d2d|p2p] [--matrix-size N] [--copy-mb N] [--iterations N] [--html OUT] "
             "[--csv DIR]",
    .about = "Runs a matrix product on one stream and an asynchronous copy on another: each alone, one "
             "after the other, and together. Reports how much of the shorter one is hidden, and how "
             "much both slow down.",
    AORTA_CLI_OPTIONS(rows),
};

static aorta_status open_peer(const struct sdma_arguments *arguments, const struct aorta_device *device,
                              struct aorta_device **peer) {
    const struct aorta_device_info *info = aorta_device_get_info(device);
    int count = 1;
    if (info->kind == AORTA_DEVICE_CPU)
        return AORTA_ERROR(AORTA_USAGE, "--direction p2p: the CPU device has no peer; it needs two GPUs");
    AORTA_TRY(aorta_gpu_count(info->kind, &count));
    if (count < 2)
        return AORTA_ERROR(AORTA_USAGE, "--direction p2p: it needs two GPUs, and 1 %s device is visible",
                           aorta_device_kind_name(info->kind));
    int index = arguments->peer < 0 ? (info->index + 1) % count : (int)arguments->peer;
    if (index == info->index)
        return AORTA_ERROR(AORTA_USAGE, "--peer %d: that is the device itself; d2d copies inside one device", index);
    if (index >= count)
        return AORTA_ERROR(AORTA_USAGE, "--peer %d: there are %d devices, counted from 0", index, count);
    return aorta_device_open(info->kind, index, peer);
}

static aorta_status print(const struct aorta_sdma *result, const struct sdma_arguments *arguments) {
    struct aorta_text text = {0}, object = {0};
    aorta_sdma_json(result, &object);
    if (arguments->quiet)
        aorta_found_answer_text(&result->found, &text);
    else
        aorta_sdma_text(result, &text);
    const struct aorta_page_results page = {.kind = "sdma", .title = "AORTA: sdma", .tables = aorta_sdma_tables};
    return aorta_cli_show(&arguments->to, NULL, page, &text, &object,
                          arguments->to.csv ? aorta_sdma_csv(result, arguments->to.csv) : NULL);
}

static aorta_status measure(const struct sdma_arguments *arguments, struct aorta_device *device,
                            struct aorta_device *peer) {
    struct aorta_progress progress;
    const struct aorta_sdma_options options = {.device = device,
                                               .peer = peer,
                                               .direction = (enum aorta_sdma_direction)arguments->direction,
                                               .dtype = (enum aorta_dtype)arguments->dtype,
                                               .matrix_size = arguments->matrix_size,
                                               .copy_bytes = (size_t)arguments->copy_mb << 20,
                                               .iterations = (int)arguments->iterations,
                                               .warmup = (int)arguments->warmup,
                                               .progress = arguments->quiet ? NULL : &progress};
    struct aorta_sdma result;
    if (!arguments->quiet) aorta_progress_begin(&progress, stderr, "sdma", "iterations", arguments->iterations);
    AORTA_TRY(aorta_sdma_run(&options, &result));
    if (!arguments->quiet) aorta_progress_end(&progress);
    aorta_status status = print(&result, arguments);
    aorta_sdma_free(&result);
    return status;
}

static aorta_status run(struct aorta_cli_line *line, void *values) {
    (void)line;
    const struct sdma_arguments *arguments = values;
    const struct aorta_log log = {.level = arguments->quiet ? AORTA_LOG_ERROR : AORTA_LOG_INFO, .rank = -1};
    struct aorta_device *device, *peer = NULL;
    AORTA_TRY(aorta_cli_outputs_prepare(&arguments->to));
    AORTA_TRY(aorta_cli_open_device(arguments->device, 0, &log, &device));
    aorta_status status = NULL;
    if (arguments->direction == AORTA_SDMA_P2P)
        status = open_peer(arguments, device, &peer);
    else if (arguments->peer >= 0)
        status = AORTA_ERROR(AORTA_USAGE, "--peer goes with --direction p2p");
    if (!status) status = measure(arguments, device, peer);
    if (peer) aorta_device_close(peer);
    aorta_device_close(device);
    return status;
}

const struct aorta_cli_entry aorta_cli_sdma = {&syntax, run, .size = sizeof(struct sdma_arguments)};
