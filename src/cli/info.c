/* What this machine and this build offer: devices, libraries, tools, environment, and what is missing. */
#include "base/json.h"
#include "cli/cli.h"
#include "cli/info_gpu.h"
#include "comm/comm.h"
#include "device/device.h"
#include "device/inventory.h"
#include "job/launch.h"
#include "job/ranks.h"
#include "ops/gemm.h"
#include "report/page.h"
#include "trace/archive.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yaml.h>

/* ---- programs that are looked for ---- */

static bool find_page(char path[PATH_MAX]) {
    snprintf(path, PATH_MAX, "built in");
    return aorta_page_available();
}

static bool find_libarchive(char path[PATH_MAX]) {
    return aorta_archive_library(path, PATH_MAX);
}

/* One row per program that may be missing: what fails without it and how to install it. */
static const struct part {
    const char *name; /* program in PATH */
    const char *purpose, *without, *get;
    bool (*find)(char path[PATH_MAX]); /* NULL: a program */
} parts[] = {
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
enum { PART_COUNT = sizeof parts / sizeof *parts };

/* ---- what was found ---- */

enum { LIBRARY_COUNT = 4 };

struct library {
    const char *name, *purpose;
    char version[256];
};

struct information {
    struct aorta_device_info cpu;
    aorta_status cpu_failure; /* NULL when it works */
    struct library libraries[LIBRARY_COUNT];
    struct {
        bool found;
        char path[PATH_MAX];
    } parts[PART_COUNT];
    struct info_gpu gpu;
    struct aorta_ranks ranks;
    aorta_status ranks_failure;
};

static void set_library(struct library *library, const char *name, const char *purpose, const char *version) {
    library->name = name;
    library->purpose = purpose;
    snprintf(library->version, sizeof library->version, "%s", version);
}

static void gather(struct information *info) {
    struct aorta_device *cpu = NULL;
    info->cpu_failure = aorta_device_open(AORTA_DEVICE_CPU, 0, &cpu);
    if (!info->cpu_failure) {
        info->cpu = *aorta_device_get_info(cpu);
        aorta_device_close(cpu);
    }
    char mpi[256];
    set_library(&info->libraries[0], "gemm", "matrix products on the CPU", aorta_ops_gemm_library());
    set_library(&info->libraries[1], "mpi", "collectives on host memory", aorta_comm_mpi_version(mpi, sizeof mpi));
    set_library(&info->libraries[2], "libyaml", "configuration", yaml_get_version_string());
    set_library(&info->libraries[3], "jansson", "reading JSON", jansson_version_str());
    for (int i = 0; i < PART_COUNT; i++) {
        info->parts[i].found =
            parts[i].find ? parts[i].find(info->parts[i].path) : aorta_program_find(parts[i].name, info->parts[i].path);
    }
    info_gpu_gather(&info->gpu);
    info->ranks_failure = aorta_ranks_detect(&info->ranks);
}

static void release(struct information *info) {
    aorta_status_free(info->cpu_failure);
    aorta_status_free(info->ranks_failure);
    info_gpu_release(&info->gpu);
    free(info);
}

/* Variables that change what is measured, and those that make a process a rank. */
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

static void print_device(const struct information *info) {
    printf("Devices\n");
    if (info->cpu_failure) {
        printf("  cpu:0     failed: %s\n", aorta_status_message(info->cpu_failure));
        return;
    }
    printf("  cpu:0     %s, %d threads, %.1f GiB, %s, timestamps every %lld ns\n", info->cpu.name,
           info->cpu.multiprocessors, (double)info->cpu.memory_bytes / (1 << 30), info->cpu.isa,
           (long long)info->cpu.timestamp_tick);
}

static void print_tools(const struct information *info) {
    printf("Tools\n");
    for (int i = 0; i < PART_COUNT; i++) {
        printf("  %-16s %s (%s)\n", parts[i].name, info->parts[i].found ? info->parts[i].path : "not found",
               parts[i].purpose);
    }
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
    int count = 0;
    printf("Missing\n");
    for (int i = 0; i < PART_COUNT; i++) {
        if (info->parts[i].found) continue;
        printf("  %-16s %s; to get it: %s\n", parts[i].name, parts[i].without, parts[i].get);
        count++;
    }
    if (count + info_gpu_print_missing(&info->gpu) == 0) printf("  nothing\n");
}

/* The devices that can run work. */
static void print_answer(const struct information *info) {
    printf("Runs on: ");
    const int kinds = info_gpu_print_answer(&info->gpu);
    if (!info->cpu_failure) printf("%sthe CPU (%d threads)", kinds ? " and " : "", info->cpu.multiprocessors);
    printf("%s\n\n", kinds ? "" : info->cpu_failure ? "no device" : "; no GPU is usable");
}

static void print_text(const struct information *info) {
    print_answer(info);
    print_missing(info);
    print_device(info);
    info_gpu_print_devices(&info->gpu);
    printf("Libraries\n");
    for (int i = 0; i < LIBRARY_COUNT; i++)
        printf("  %-9s %s (%s)\n", info->libraries[i].name, info->libraries[i].version, info->libraries[i].purpose);
    print_tools(info);
    info_gpu_print_software(&info->gpu);
    print_environment();
    print_ranks(info);
    printf("Version\n  aorta %s (%s)\n", aorta_version, aorta_commit);
}

/* ---- as JSON ---- */

static void write_devices(const struct information *info, struct aorta_json *json) {
    aorta_json_key_array(json, "devices");
    aorta_json_object(json);
    aorta_json_key_string(json, "kind", aorta_device_kind_name(AORTA_DEVICE_CPU));
    aorta_json_key_int(json, "index", 0);
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
    info_gpu_write_devices(&info->gpu, json);
    aorta_json_array_end(json);
}

static void write_libraries(const struct information *info, struct aorta_json *json) {
    aorta_json_key_array(json, "libraries");
    for (int i = 0; i < LIBRARY_COUNT; i++) {
        aorta_json_object(json);
        aorta_json_key_string(json, "name", info->libraries[i].name);
        aorta_json_key_string(json, "version", info->libraries[i].version);
        aorta_json_key_string(json, "purpose", info->libraries[i].purpose);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
}

static void write_tools(const struct information *info, struct aorta_json *json) {
    aorta_json_key_array(json, "tools");
    for (int i = 0; i < PART_COUNT; i++) {
        aorta_json_object(json);
        aorta_json_key_string(json, "name", parts[i].name);
        aorta_json_key_string(json, "path", info->parts[i].found ? info->parts[i].path : NULL);
        aorta_json_key_string(json, "purpose", parts[i].purpose);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
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

static void write_missing(const struct information *info, struct aorta_json *json) {
    aorta_json_key_array(json, "missing");
    for (int i = 0; i < PART_COUNT; i++) {
        if (info->parts[i].found) continue;
        aorta_json_object(json);
        aorta_json_key_string(json, "name", parts[i].name);
        aorta_json_key_string(json, "cost", parts[i].without);
        aorta_json_key_string(json, "get", parts[i].get);
        aorta_json_object_end(json);
    }
    info_gpu_write_missing(&info->gpu, json);
    aorta_json_array_end(json);
}

static aorta_status print_json(const struct information *info) {
    struct aorta_text text = {0};
    struct aorta_json json;
    aorta_json_begin(&json, &text, 2);
    aorta_json_object(&json);
    aorta_json_key_int(&json, "schema_version", 2);
    aorta_json_key_string(&json, "version", aorta_version);
    aorta_json_key_string(&json, "commit", aorta_commit);
    write_devices(info, &json);
    write_libraries(info, &json);
    write_tools(info, &json);
    info_gpu_write_software(&info->gpu, &json);
    write_environment(&json);
    write_ranks(info, &json);
    write_missing(info, &json);
    aorta_json_object_end(&json);
    aorta_status status = aorta_text_check(&text);
    if (!status) puts(text.data);
    aorta_text_free(&text);
    return status;
}

/* ---- the command ---- */

struct info_values {
    bool json;
};

#define AT(field) offsetof(struct info_values, field)
static const struct aorta_option options[] = {
    {"json", AORTA_OPTION_BOOL, AT(json), "false", .help = "print one JSON object"},
};
#undef AT

static const struct aorta_cli_syntax syntax = {
    .usage = "aorta info [--json]",
    .about =
        "Shows devices, libraries, tools and the environment that matters, and for each thing that is missing what "
        "it costs and how to get it.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
};

static aorta_status show(const struct aorta_cli_line *line, void *values) {
    (void)line;
    struct information *info = calloc(1, sizeof *info);
    if (!info) return AORTA_ERROR(AORTA_MEMORY, "out of memory for the information");
    gather(info);
    aorta_status status = NULL;
    if (((const struct info_values *)values)->json)
        status = print_json(info);
    else
        print_text(info);
    release(info);
    return status;
}

aorta_status aorta_cli_info(int argc, char **argv) {
    struct info_values values;
    return aorta_cli_command(&syntax, argc, argv, &values, show);
}
