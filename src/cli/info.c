/* aorta info: devices, libraries, tools and environment of this machine and build, and what is missing. */
#include "base/lines.h"
#include "base/rows.h"
#include "cli/cli.h"
#include "comm/comm.h"
#include "device/device.h"
#include "device/inventory.h"
#include "job/launch.h"
#include "job/ranks.h"
#include "measure/tracer.h"
#include "ops/gemm.h"
#include "ops/gpu/blas.h"
#include "report/page.h"
#include "trace/archive.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <yaml.h>

enum { GPU_KINDS = 2, GPU_LIBRARIES = 3 };

/* Libraries besides the driver, and what is lost without each. */
static const struct gpu_library {
    const char *name;
    const struct aorta_library_description *description;
    const char *without;
} libraries[GPU_KINDS][GPU_LIBRARIES] = {
    {{"cuBLASLt", &aorta_blas_cuda.library, "training on the GPU cannot run"},
     {"NCCL", &aorta_nccl_library, "ranks cannot use a GPU each"},
     {"CUPTI", &aorta_cupti_library, "times come from ranges only, not from kernels"}},
    {{"hipBLASLt", &aorta_blas_hip.library, "training on the GPU cannot run"},
     {"RCCL", &aorta_rccl_library, "ranks cannot use a GPU each"},
     {"rocprofiler-sdk", &aorta_rocprofiler_library, "times come from ranges only, not from kernels"}},
};

static const enum aorta_device_kind gpu_kinds[GPU_KINDS] = {AORTA_DEVICE_CUDA, AORTA_DEVICE_HIP};

/* ---- programs that are looked for ---- */

static bool find_page(char path[PATH_MAX]) {
    snprintf(path, PATH_MAX, "built in");
    return aorta_page_available();
}

static bool find_libarchive(char path[PATH_MAX]) {
    return aorta_archive_library(path, PATH_MAX);
}

/* Programs that may be missing: what fails without each, and how to install it. */
static const struct tool {
    const char *name; /* program in PATH */
    const char *purpose, *without, *get;
    bool (*find)(char path[PATH_MAX]); /* NULL: a program */
} tools[] = {
    {"mpirun", "starts ranks for collectives on host memory",
     "aorta launch cannot start more than one rank on CPU devices", "apt install openmpi-bin", NULL},
    {"gnuplot", "draws the PNG pictures of aorta report", "aorta report writes summary.json without pictures",
     "apt install gnuplot-nox", NULL},
    {"page", "shows reports and traces in a browser",
     "aorta report writes no index.html, and --html is an error (Node.js or npm's packages were missing)",
     "scripts/bootstrap build page, then make", find_page},
    {"libarchive", "unpacks zip, tar, zstd, xz, bzip2 and lz4", "aorta trace reads no such files",
     "apt install libarchive13 (Ubuntu 24.04: libarchive13t64)", find_libarchive},
};
enum { TOOL_COUNT = sizeof tools / sizeof *tools };

/* ---- what was found ---- */

struct missing {
    const char *name, *cost, *get, *searched;
    bool program; /* `get` is a command */
};

#define AT(member) offsetof(struct missing, member)
static const struct aorta_row missing_rows[] = {
    {"name", AORTA_ROW_TEXT, AT(name), .help = "of what is missing"},
    {"cost", AORTA_ROW_TEXT, AT(cost), .help = "what cannot be done without it"},
    {"get", AORTA_ROW_TEXT, AT(get), .help = "how to get it"},
    {"searched", AORTA_ROW_TEXT, AT(searched), .help = "where it was looked for", .omit = true},
    {0}};
#undef AT

/* A library of this build, or a program. */
struct part {
    const char *name, *version, *path, *purpose; /* path NULL: not found */
};

#define AT(member) offsetof(struct part, member)
static const struct aorta_row library_rows[] = {{"name", AORTA_ROW_TEXT, AT(name), .help = "of the library or program"},
                                                {"version", AORTA_ROW_TEXT, AT(version), .help = "as it says"},
                                                {"purpose", AORTA_ROW_TEXT, AT(purpose), .help = "what it is for"},
                                                {0}};
static const struct aorta_row tool_rows[] = {{"name", AORTA_ROW_TEXT, AT(name), .help = "of the library or program"},
                                             {"path", AORTA_ROW_TEXT, AT(path), .help = "null: not found"},
                                             {"purpose", AORTA_ROW_TEXT, AT(purpose), .help = "what it is for"},
                                             {0}};

enum { LIBRARY_COUNT = 4 };

struct gpu_kind {
    struct aorta_gpu_inventory inventory;
    aorta_status failure; /* NULL: there are devices; owned */
    struct {              /* operations, collectives and traces load it */
        char path[PATH_MAX];
        aorta_status problem; /* NULL: the path is known; owned */
    } libraries[GPU_LIBRARIES];
};

struct information {
    struct aorta_device_info cpu;
    aorta_status cpu_failure; /* NULL when it works */
    struct part libraries[LIBRARY_COUNT], tools[TOOL_COUNT];
    char mpi[256], paths[TOOL_COUNT][PATH_MAX];
    struct gpu_kind gpus[GPU_KINDS];
    struct missing missing[TOOL_COUNT + GPU_KINDS * (2 + GPU_LIBRARIES)];
    int missing_count;
    struct aorta_ranks ranks;
    aorta_status ranks_failure;
};

static void miss(struct information *info, bool found, struct missing missing) {
    if (!found) info->missing[info->missing_count++] = missing;
}

static void gather_tools(struct information *info) {
    for (int i = 0; i < TOOL_COUNT; i++) {
        char *path = info->paths[i];
        const bool found = tools[i].find ? tools[i].find(path) : aorta_program_find(tools[i].name, path);
        info->tools[i] = (struct part){tools[i].name, NULL, found ? path : NULL, tools[i].purpose};
        miss(info, found, (struct missing){tools[i].name, tools[i].without, tools[i].get, NULL, true});
    }
}

/* The software that a GPU lacks is missing. */
static void gather_gpus(struct information *info) {
    for (int i = 0; i < GPU_KINDS; i++) {
        struct gpu_kind *kind = &info->gpus[i];
        const struct aorta_gpu_inventory *inventory = &kind->inventory;
        kind->failure = aorta_gpu_inventory_take(gpu_kinds[i], &kind->inventory);
        if (kind->failure) continue;
        miss(info, *inventory->compiler_path,
             (struct missing){"kernel compiler", "the GPU cannot be used", inventory->compiler_problem, NULL, false});
        miss(info, *inventory->management_path,
             (struct missing){"management library", "temperature, power and clocks are not measured, links not known",
                              inventory->management_problem, NULL, false});
        for (int j = 0; j < GPU_LIBRARIES; j++) {
            struct aorta_library_description description = *libraries[i][j].description;
            struct aorta_library found;
            description.symbol_count = 0; /* the file alone */
            const aorta_status problem = aorta_library_open(&description, NULL, &found);
            const char *searched = aorta_status_detail(problem);
            kind->libraries[j].problem = problem;
            snprintf(kind->libraries[j].path, PATH_MAX, "%s", problem ? "" : found.path);
            miss(info, !problem,
                 (struct missing){libraries[i][j].name, libraries[i][j].without, aorta_status_message(problem),
                                  *searched ? searched : NULL, false});
        }
    }
}

static void gather(struct information *info) {
    struct aorta_device *cpu = NULL;
    info->cpu_failure = aorta_device_open(AORTA_DEVICE_CPU, 0, &cpu);
    if (!info->cpu_failure) {
        info->cpu = *aorta_device_get_info(cpu);
        aorta_device_close(cpu);
    }
    const struct part found[LIBRARY_COUNT] = {
        {"gemm", aorta_ops_gemm_library(), NULL, "matrix products on the CPU"},
        {"mpi", aorta_comm_mpi_version(info->mpi, sizeof info->mpi), NULL, "collectives on host memory"},
        {"libyaml", yaml_get_version_string(), NULL, "configuration"},
        {"jansson", jansson_version_str(), NULL, "reading JSON"}};
    memcpy(info->libraries, found, sizeof found);
    gather_tools(info);
    gather_gpus(info);
    info->ranks_failure = aorta_ranks_detect(&info->ranks);
}

static void release(struct information *info) {
    aorta_status_free(info->cpu_failure);
    aorta_status_free(info->ranks_failure);
    for (int i = 0; i < GPU_KINDS; i++) {
        aorta_status_free(info->gpus[i].failure);
        for (int j = 0; j < GPU_LIBRARIES; j++) aorta_status_free(info->gpus[i].libraries[j].problem);
        aorta_gpu_inventory_free(&info->gpus[i].inventory);
    }
}

/* Whether the variable influences measurements or makes a process a rank. */
static bool matters(const char *variable) {
    static const char *const launchers[] = {"RANK=",          "WORLD_SIZE=",  "LOCAL_RANK=",      "LOCAL_WORLD_SIZE=",
                                            "MASTER_ADDR=",   "MASTER_PORT=", "OMPI_COMM_WORLD_", "OMPI_MCA_",
                                            "PMI_RANK=",      "PMI_SIZE=",    "SLURM_PROCID=",    "SLURM_NTASKS=",
                                            "SLURM_LOCALID=", "AORTA_"};
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
        if (strncmp(variable, launchers[i], strlen(launchers[i])) == 0) return true;
    return aorta_environment_matters(variable);
}

/* ---- as text ---- */

enum { DEVICE = 9, PART = 16 }; /* columns of names */

/* "  name   words", wrapped after the name. */
static void AORTA_PRINTF(3, 4) say(const char *name, int width, const char *format, ...) {
    char words[4096];
    struct aorta_text lines = {0};
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    const struct aorta_lines behind = {.taken = width + 3, .indent = width + 3};
    aorta_text_printf(&lines, "  %-*s ", width, name);
    aorta_text_lines(&lines, words, &behind);
    printf("%s", lines.data ? lines.data : "");
    aorta_text_free(&lines);
}

static void print_devices(const struct information *info) {
    printf("Devices\n");
    if (info->cpu_failure)
        say("cpu:0", DEVICE, "failed: %s", aorta_status_message(info->cpu_failure));
    else
        say("cpu:0", DEVICE, "%s, %d threads, %.1f GiB, %s, timestamps every %lld ns", info->cpu.name,
            info->cpu.multiprocessors, (double)info->cpu.memory_bytes / (1 << 30), info->cpu.isa,
            (long long)info->cpu.timestamp_tick);
    for (int i = 0; i < GPU_KINDS; i++) {
        for (size_t j = 0; j < info->gpus[i].inventory.count; j++) {
            const struct aorta_gpu_found *found = &info->gpus[i].inventory.devices[j];
            char name[32];
            snprintf(name, sizeof name, "%s:%zu", aorta_device_kind_name(gpu_kinds[i]), j);
            say(name, DEVICE, "%s, %d multiprocessors, %.1f GiB, %s, at %s", found->info.name,
                found->info.multiprocessors, (double)found->info.memory_bytes / (1 << 30), found->info.isa,
                found->properties.pci_bus_id);
        }
    }
}

static void print_links(enum aorta_device_kind kind, const struct aorta_gpu_inventory *inventory) {
    printf("  Links (NVn: n NVLinks; PIX, PXB, PHB, NODE, SYS: over PCIe, ever farther; *: no direct access)\n");
    printf("  %-9s", "");
    for (size_t j = 0; j < inventory->count; j++) printf(" %s:%-3zu", aorta_device_kind_name(kind), j);
    for (size_t i = 0; i < inventory->count; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s:%zu", aorta_device_kind_name(kind), i);
        printf("\n  %-9s", name);
        for (size_t j = 0; j < inventory->count; j++) {
            const struct aorta_gpu_link *link = &inventory->links[i * inventory->count + j];
            char text[16];
            snprintf(text, sizeof text, "%s%s", link->name, i == j || link->peer ? "" : "*");
            printf(" %-*s", (int)strlen(aorta_device_kind_name(kind)) + 4, text);
        }
    }
    printf("\n");
}

static void print_part(const char *name, const char *version, const char *path) {
    if (path[0])
        say(name, PART, "%s%s%s", version, version[0] ? ", " : "", path);
    else
        say(name, PART, "not found");
}

static void print_kind(int index, const struct gpu_kind *kind) {
    const struct aorta_gpu_inventory *inventory = &kind->inventory;
    const char *name = aorta_device_kind_name(gpu_kinds[index]);
    if (kind->failure) {
        say(name, PART, "not used: %s", aorta_status_message(kind->failure));
        return;
    }
    char version[64];
    snprintf(version, sizeof version, "version %s", inventory->driver_version);
    print_part(name, version, inventory->driver_path);
    print_part("kernel compiler", inventory->compiler_version, inventory->compiler_path);
    print_part("management", inventory->management_version, inventory->management_path);
    for (int j = 0; j < GPU_LIBRARIES; j++) print_part(libraries[index][j].name, "", kind->libraries[j].path);
    if (inventory->count > 1) print_links(gpu_kinds[index], inventory);
}

static void print_tools(const struct information *info) {
    printf("Libraries\n");
    for (int i = 0; i < LIBRARY_COUNT; i++)
        say(info->libraries[i].name, DEVICE, "%s (%s)", info->libraries[i].version, info->libraries[i].purpose);
    printf("Tools\n");
    for (int i = 0; i < TOOL_COUNT; i++)
        say(info->tools[i].name, PART, "%s (%s)", info->tools[i].path ? info->tools[i].path : "not found",
            info->tools[i].purpose);
}

static void print_environment(void) {
    printf("Environment that matters\n");
    int count = 0;
    for (char **variable = environ; *variable; variable++) {
        if (!matters(*variable)) continue;
        printf("  %s\n", *variable);
        count++;
    }
    if (count == 0) printf("  nothing is set\n");
}

static void print_ranks(const struct information *info) {
    if (info->ranks_failure) {
        printf("Ranks\n  %s\n", aorta_status_message(info->ranks_failure));
    } else {
        printf("Ranks\n  rank %d of %d (launcher: %s)\n", info->ranks.rank, info->ranks.world_size,
               aorta_launcher_name(info->ranks.launcher));
    }
}

static void print_missing(const struct information *info) {
    printf("Missing\n%s", info->missing_count ? "" : "  nothing\n");
    for (int i = 0; i < info->missing_count; i++)
        say(info->missing[i].name, PART, "%s; %s%s", info->missing[i].cost,
            info->missing[i].program ? "to get it: " : "", info->missing[i].get);
}

/* The devices that can run work. */
static void print_answer(const struct information *info) {
    int kinds = 0;
    printf("Runs on: ");
    for (int i = 0; i < GPU_KINDS; i++) {
        const struct aorta_gpu_inventory *inventory = &info->gpus[i].inventory;
        if (inventory->count && inventory->compiler_path[0])
            printf("%s%s (%s, %s)", kinds++ ? " and " : "", aorta_counted((long long)inventory->count, "GPU").text,
                   inventory->devices[0].info.name, aorta_device_kind_name(gpu_kinds[i]));
    }
    if (!info->cpu_failure) printf("%sthe CPU (%d threads)", kinds ? " and " : "", info->cpu.multiprocessors);
    printf("%s\n", kinds ? "" : info->cpu_failure ? "no device" : "; no GPU is usable");
}

static void print_text(const struct information *info, bool quiet) {
    print_answer(info);
    if (quiet) return;
    printf("\n");
    print_missing(info);
    print_devices(info);
    print_tools(info);
    printf("GPU software\n");
    for (int i = 0; i < GPU_KINDS; i++) print_kind(i, &info->gpus[i]);
    print_environment();
    print_ranks(info);
    printf("Version\n  aorta %s (%s)\n", aorta_version, aorta_commit);
}

/* ---- as JSON ---- */

static void begin_device(enum aorta_device_kind kind, size_t index, struct aorta_json *json) {
    aorta_json_object(json);
    aorta_json_key_string(json, "kind", aorta_device_kind_name(kind));
    aorta_json_key_int(json, "index", (int64_t)index);
}

static void write_cpu(const struct information *info, struct aorta_json *json) {
    begin_device(AORTA_DEVICE_CPU, 0, json);
    if (info->cpu_failure) {
        aorta_json_key_string(json, "failure", aorta_status_message(info->cpu_failure));
    } else {
        aorta_json_key_string(json, "name", info->cpu.name);
        aorta_json_key_string(json, "isa", info->cpu.isa);
        aorta_json_key_int(json, "threads", info->cpu.multiprocessors);
        aorta_json_key_int(json, "memory_bytes", (int64_t)info->cpu.memory_bytes);
        aorta_json_key_int(json, "timestamp_tick_ns", info->cpu.timestamp_tick);
    }
    aorta_json_object_end(json);
}

static void write_devices(const struct information *info, struct aorta_json *json) {
    aorta_json_key_array(json, "devices");
    write_cpu(info, json);
    for (int i = 0; i < GPU_KINDS; i++)
        for (size_t j = 0; j < info->gpus[i].inventory.count; j++) {
            const struct aorta_gpu_found *found = &info->gpus[i].inventory.devices[j];
            begin_device(gpu_kinds[i], j, json);
            aorta_json_key_string(json, "name", found->info.name);
            aorta_json_key_string(json, "isa", found->info.isa);
            aorta_json_key_int(json, "multiprocessors", found->info.multiprocessors);
            aorta_json_key_int(json, "memory_bytes", (int64_t)found->info.memory_bytes);
            aorta_json_key_string(json, "pci_bus_id", found->properties.pci_bus_id);
            aorta_json_object_end(json);
        }
    aorta_json_array_end(json);
}

static void write_part(struct aorta_json *json, const char *name, const char *version, const char *path) {
    aorta_json_key_object(json, name);
    aorta_json_key_string(json, "path", path[0] ? path : NULL);
    aorta_json_key_string(json, "version", version && version[0] ? version : NULL);
    aorta_json_object_end(json);
}

static void write_links(const struct aorta_gpu_inventory *inventory, struct aorta_json *json) {
    aorta_json_key_array(json, "links");
    for (size_t i = 0; i < inventory->count; i++) {
        aorta_json_array(json);
        for (size_t j = 0; j < inventory->count; j++) {
            const struct aorta_gpu_link *link = &inventory->links[i * inventory->count + j];
            aorta_json_object(json);
            aorta_json_key_string(json, "name", link->name);
            aorta_json_key_bool(json, "peer_access", link->peer);
            aorta_json_object_end(json);
        }
        aorta_json_array_end(json);
    }
    aorta_json_array_end(json);
}

static void write_software(const struct information *info, struct aorta_json *json) {
    aorta_json_key_object(json, "gpu_software");
    for (int i = 0; i < GPU_KINDS; i++) {
        const struct gpu_kind *kind = &info->gpus[i];
        const struct aorta_gpu_inventory *inventory = &kind->inventory;
        aorta_json_key_object(json, aorta_device_kind_name(gpu_kinds[i]));
        aorta_json_key_string(json, "failure", kind->failure ? aorta_status_message(kind->failure) : NULL);
        if (*aorta_status_detail(kind->failure))
            aorta_json_key_string(json, "searched", aorta_status_detail(kind->failure));
        if (!kind->failure) {
            write_part(json, "driver", inventory->driver_version, inventory->driver_path);
            write_part(json, "kernel_compiler", inventory->compiler_version, inventory->compiler_path);
            write_part(json, "management", inventory->management_version, inventory->management_path);
            for (int j = 0; j < GPU_LIBRARIES; j++)
                write_part(json, libraries[i][j].name, NULL, kind->libraries[j].path);
            write_links(inventory, json);
        }
        aorta_json_object_end(json);
    }
    aorta_json_object_end(json);
}

static void write_environment(struct aorta_json *json) {
    aorta_json_key_object(json, "environment");
    for (char **variable = environ; *variable; variable++) {
        if (!matters(*variable)) continue;
        char name[256];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*variable, "="), *variable);
        aorta_json_key_string(json, name, strchr(*variable, '=') + 1);
    }
    aorta_json_object_end(json);
}

static void write_ranks(const struct information *info, struct aorta_json *json) {
    aorta_json_key_object(json, "ranks");
    if (info->ranks_failure) {
        aorta_json_key_string(json, "failure", aorta_status_message(info->ranks_failure));
    } else {
        aorta_json_key_string(json, "launcher", aorta_launcher_name(info->ranks.launcher));
        aorta_json_key_int(json, "rank", info->ranks.rank);
        aorta_json_key_int(json, "world_size", info->ranks.world_size);
    }
    aorta_json_object_end(json);
}

static aorta_status print_json(const struct information *info) {
    struct aorta_text text = {0};
    struct aorta_json json;
    aorta_json_output(&json, &text, 2, 2);
    aorta_json_key_string(&json, "version", aorta_version);
    aorta_json_key_string(&json, "commit", aorta_commit);
    write_devices(info, &json);
    aorta_rows_array("libraries", library_rows, info->libraries, LIBRARY_COUNT, sizeof *info->libraries, 0, &json);
    aorta_rows_array("tools", tool_rows, info->tools, TOOL_COUNT, sizeof *info->tools, 0, &json);
    write_software(info, &json);
    write_environment(&json);
    write_ranks(info, &json);
    aorta_rows_array("missing", missing_rows, info->missing, (size_t)info->missing_count, sizeof *info->missing, 0,
                     &json);
    aorta_json_output_end(&json);
    return aorta_cli_print(&text, NULL, false);
}

/* ---- the command ---- */

struct info_values {
    bool json, quiet;
};

static const struct aorta_option options[] = {
    {"json", AORTA_OPTION_BOOL, offsetof(struct info_values, json), "false", .help = "print one JSON object"},
    AORTA_CLI_QUIET_OPTION(offsetof(struct info_values, quiet)),
};

static const struct aorta_cli_syntax syntax = {
    .usage = "aorta info [--json]",
    .about =
        "Shows devices, libraries, tools and the environment that matters, and for each thing that is missing what "
        "it costs and how to get it.",
    AORTA_CLI_OPTIONS(options),
};

static aorta_status show(struct aorta_cli_line *line, void *values) {
    const struct info_values *asked = values;
    struct information *info = aorta_arena_alloc(&line->arena, sizeof *info);
    AORTA_TRY(aorta_arena_check(&line->arena, "the information"));
    gather(info);
    aorta_status status = NULL;
    if (asked->json)
        status = print_json(info);
    else
        print_text(info, asked->quiet);
    release(info);
    return status;
}

const struct aorta_cli_entry aorta_cli_info = {&syntax, show, .size = sizeof(struct info_values)};
