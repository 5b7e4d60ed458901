/* The list of commands, their dispatch, and setup and output of the process. */
#include "base/files.h"
#include "base/lines.h"
#include "base/printable.h"
#include "base/text.h"
#include "cli/hwq.h"
#include "device/gpu.h"
#include "device/inventory.h"
#include "job/launch.h"
#include "job/ranks.h"
#include "measure/tracer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- the standard output ----
 *
 * A text is printed in one write, so that under `aorta launch` lines of different ranks do not mix. */

static aorta_status failure(int error) {
    return AORTA_ERROR(AORTA_IO, "cannot write to the standard output: %s", strerror(error));
}

/* Length of the color escape that begins here, or 0. */
static size_t color_length(const char *at) {
    for (size_t i = 0; i < AORTA_COLOR_COUNT; i++)
        if (strncmp(at, aorta_escapes[i], strlen(aorta_escapes[i])) == 0) return strlen(aorta_escapes[i]);
    return 0;
}

/* Makes the text printable, except color escapes. */
static void clean_around_colors(char *text) {
    for (char *at = text; *at;) {
        const size_t color = color_length(at);
        if (color) {
            at += color;
            continue;
        }
        char *end = at + 1;
        while (*end && !color_length(end)) end++;
        aorta_make_printable(at, (size_t)(end - at), true);
        at = end;
    }
}

aorta_status aorta_cli_print(struct aorta_text *text, const char *output, bool color) {
    const bool taken = output && aorta_file_is_standard_output(output);
    aorta_status status = aorta_text_check(text);
    if (!status && text->length && color) clean_around_colors(text->data);
    if (!status && text->length && !color) aorta_make_printable(text->data, text->length, true);
    if (!status && !taken && fflush(stdout)) status = failure(errno);
    const int error = status ? 0 : aorta_write_all(taken ? STDERR_FILENO : STDOUT_FILENO, text->data, text->length);
    aorta_text_free(text);
    return error && !taken ? failure(error) : status; /* a failure of the standard error cannot be reported */
}

static bool wants_color(const char *when, FILE *stream) {
    const char *none = getenv("NO_COLOR");
    if (strcmp(when, "auto") != 0) return strcmp(when, "always") == 0;
    return aorta_terminal_takes_escapes(stream) && !(none && *none);
}

struct aorta_verdict_style aorta_cli_style(const struct aorta_cli_line *line, FILE *stream) {
    return (struct aorta_verdict_style){.width = aorta_terminal_width(stream),
                                        .color = wants_color(line->color, stream),
                                        .view = {.full_names = line->full_names}};
}

aorta_status aorta_cli_page_prepare(const char *path) {
    if (!path) return NULL;
    if (!aorta_page_available()) return AORTA_ERROR(AORTA_UNSUPPORTED, "--html %s: %s", path, aorta_page_missing());
    return aorta_file_prepare(path, "--html");
}

aorta_status aorta_cli_outputs_prepare(const struct aorta_cli_outputs *to) {
    AORTA_TRY(aorta_cli_page_prepare(to->html));
    return aorta_cli_csv_prepare(to->csv);
}

aorta_status aorta_cli_show(const struct aorta_cli_outputs *to, const char *output, struct aorta_page_results page,
                            struct aorta_text *text, struct aorta_text *json, aorta_status status) {
    page.results = json;
    if (!status) status = aorta_status_join(aorta_text_check(text), aorta_text_check(json));
    const bool taken = output && aorta_file_is_standard_output(output);
    if (!status && output) status = aorta_file_replace(output, json->data, json->length);
    if (!status && to->html) status = aorta_page_write(&page, to->html);
    if (!status) status = aorta_cli_print(to->json ? json : text, taken ? output : to->html, false);
    aorta_text_free(text);
    aorta_text_free(json);
    return status;
}

static void no_death(int number) {
    (void)number;
}

void aorta_cli_outlive(int signal) {
    sigaction(signal, &(struct sigaction){.sa_handler = no_death, .sa_flags = SA_RESTART}, NULL);
}

aorta_status aorta_cli_finish_output(void) {
    return fflush(stdout) == 0 && !ferror(stdout) ? NULL : failure(errno);
}

const char *const aorta_cli_csv_files[] = {"*.csv", NULL};

aorta_status aorta_cli_csv_prepare(const char *folder) {
    return folder ? aorta_directory_check_writable(folder, "--csv") : NULL;
}

/* ---- commands ---- */

/* Used under torchrun on a machine without GPUs, as collectives on host memory need MPI, which torchrun does not
 * start. Rank 0 becomes `aorta launch` with the same command; the other processes exit with 0. */

static aorta_status become_launch(int ranks, char **argv) {
    char self[PATH_MAX], number[16];
    struct aorta_arena memory = {0};
    struct aorta_words command = {.arena = &memory};
    AORTA_TRY(aorta_cli_self(self));
    snprintf(number, sizeof number, "%d", ranks);
    aorta_words_add_all(&command, (const char *const[]){self, "launch", "-n", number, "--", self, NULL});
    aorta_words_add_all(&command, (const char *const *)argv + 1);
    aorta_status status = aorta_arena_check(&memory, "a command");
    if (!status) {
        fprintf(stderr,
                "note: torchrun starts no MPI, which collectives on the CPU device need: its rank 0 starts the %d "
                "ranks again through aorta launch, the other ranks end\n",
                ranks);
        execv(self, command.items);
        status = AORTA_ERROR(AORTA_IO, "%s: %s", self, strerror(errno));
    }
    aorta_arena_free(&memory);
    return status;
}

static aorta_status under_torchrun(char **argv, bool *done) {
    struct aorta_ranks ranks;
    enum aorta_device_kind kind;
    int count;
    *done = false;
    if (!getenv("TORCHELASTIC_RUN_ID") || (strcmp(argv[1], "train") != 0 && strcmp(argv[1], "hwq") != 0)) return NULL;
    AORTA_TRY(aorta_ranks_detect(&ranks));
    if (ranks.mpi || ranks.world_size == 1 || ranks.local_world_size != ranks.world_size) return NULL;
    aorta_tracer_prepare(); /* looking for devices begins HIP */
    AORTA_TRY(aorta_device_best_kind(&kind, &count));
    if (kind != AORTA_DEVICE_CPU) return NULL;
    *done = true;
    return ranks.rank == 0 ? become_launch(ranks.world_size, argv) : NULL;
}

static const struct aorta_command commands[] = {
    {"info", "shows devices, libraries and environment; what is missing and how to get it", .entry = &aorta_cli_info},
    {"train", "trains with FSDP2 or DDP and measures how communication overlaps with compute", .run = aorta_cli_train},
    {"launch", "starts local ranks of a command, ends them together and says which one failed",
     .run = aorta_cli_launch},
    {"hwq", "evaluates hardware queues: workloads, queue maps, comparisons", .group = &aorta_cli_hwq},
    {"sdma", "runs a matrix product during asynchronous copies: what the copy engines hide", .entry = &aorta_cli_sdma},
    {"trace", "records programs; analyzes, compares and merges traces", .group = &aorta_cli_trace},
    {"report", "summarizes and compares runs of train", .entry = &aorta_cli_report},
    {"whatif", "predicts the step with more ranks, other links, faster kernels, or without a cause",
     .entry = &aorta_cli_whatif},
    {"sweep", "runs train, hwq or a command with different settings and finds those that matter",
     .entry = &aorta_cli_sweep},
    {"help", "explains a command or a cause (aorta help verdict lists them); keys: aorta help config",
     .entry = &aorta_cli_help},
    {0},
};

const struct aorta_command_group aorta_cli_program = {
    .name = "aorta",
    .about = "AORTA says what limits a training step, and how many milliseconds each fix would save.",
    .commands = commands,
    .footer = "; aorta --version the version.\n"
              "Exit codes: 0 success, 1 the run failed or regressed, 2 wrong arguments or configuration.\n",
};

aorta_status aorta_cli_check_program(const char *program) {
    char path[PATH_MAX];
    if (aorta_program_find(program, path)) return NULL;
    if (strchr(program, '/')) return AORTA_ERROR(AORTA_USAGE, "%s: no such program", program);
    for (const struct aorta_command *command = commands; command->name; command++)
        if (strcmp(command->name, program) == 0)
            return AORTA_ERROR(AORTA_USAGE, "%s: no such program in PATH; write aorta %s", program, program);
    return AORTA_ERROR(AORTA_USAGE, "%s: no such program in PATH", program);
}

static aorta_status dispatch(int argc, char **argv) {
    if (strcmp(argv[1], "--version") != 0) return aorta_cli_group_run(&aorta_cli_program, argc, argv);
    printf("aorta %s\nLicense: MIT, the AORTA authors\n", aorta_version);
    return NULL;
}

/* Reopens closed standard streams on /dev/null, as the next opened file would get the descriptor and the output. They
 * are opened for the wrong direction, so that reads and writes are errors. */
static void reserve_streams(void) {
    for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; stream++)
        if (fcntl(stream, F_GETFD) < 0 && open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0) return;
}

/* Makes the message printable, as it may quote files. */
static void print_failure(aorta_status status) {
    struct aorta_text text = {0};
    aorta_text_printf(&text, "aorta: %s\n", aorta_status_message(status));
    if (*aorta_status_detail(status)) aorta_text_printf(&text, "  searched: %s\n", aorta_status_detail(status));
    if (text.failed) aorta_text_clear(&text);
    if (text.length) aorta_make_printable(text.data, text.length, true);
    fputs(text.length ? text.data : "aorta: no memory to say what failed\n", stderr);
    aorta_text_free(&text);
}

aorta_status aorta_cli_self(char path[PATH_MAX]) {
    const ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
    if (length < 0) return AORTA_ERROR(AORTA_IO, "/proc/self/exe: %s", strerror(errno));
    path[length] = '\0';
    return NULL;
}

/* ---- how commands that read recordings take memory ---- */

/* Requests pages of 2 MiB for the memory, for kernels whose transparent_hugepage is madvise. */
static void ask_for_huge_pages(uintptr_t from, uintptr_t end) {
    const uintptr_t page = (uintptr_t)2 << 20, first = (from + page - 1) / page * page;
    if (first < end) (void)!madvise((void *)first, end - first, MADV_HUGEPAGE);
}

/* An analysis allocates and frees hundreds of arrays of megabytes. By default glibc returns each to the kernel, or
 * uses a heap per thread; on a virtual machine the page faults of new arrays took more time than the analysis. So one
 * large heap is reserved; untouched pages use no memory. */
static void take_one_heap(void) {
    enum { PLACE = 1 << 30, FIRST = 1 << 20, LARGEST = 32 << 20, NEVER = -1 };
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, LARGEST); /* that glibc takes */
    mallopt(M_TRIM_THRESHOLD, NEVER);
    mallopt(M_TOP_PAD, PLACE);
    void *first = malloc(FIRST);
    const uintptr_t from = (uintptr_t)first, end = (uintptr_t)sbrk(0);
    if (from < end && end - from <= (uintptr_t)PLACE + 2 * FIRST) ask_for_huge_pages(from, end);
    free(first);
    mallopt(M_TOP_PAD, FIRST);
}

/* ---- a command ---- */

/* Checks the stack limit, which threads have, too, before it is exceeded. */
static bool check_stack(void) {
    enum { LEAST_KIB = 256 };
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) || limit.rlim_cur >= LEAST_KIB * 1024) return true;
    fprintf(stderr, "aorta: the stack is limited to %llu KiB, and at least %d are needed: ulimit -s 8192\n",
            (unsigned long long)limit.rlim_cur / 1024, LEAST_KIB);
    return false;
}

int aorta_cli_run(int argc, char **argv) {
    if (!check_stack()) return aorta_code_exit(AORTA_USAGE);
    reserve_streams();
    aorta_cli_outlive(SIGXFSZ); /* exceeding the file size limit is then an error of the write, which names the file */
    if (argc < 2) {
        aorta_cli_group_usage(&aorta_cli_program, stderr);
        return aorta_code_exit(AORTA_USAGE);
    }
    bool done;
    aorta_status status = under_torchrun(argv, &done);
    if (!status && !done) status = dispatch(argc, argv);
    status = aorta_status_join(status, aorta_cli_finish_output());
    if (!status) return 0;
    print_failure(status);
    int exit_code = aorta_code_exit(aorta_status_code(status));
    aorta_status_free(status);
    return exit_code;
}

/* ---- commands that consist of commands: `aorta` itself, `aorta trace` ---- */

void aorta_cli_group_usage(const struct aorta_command_group *group, FILE *stream) {
    int width = 8;
    for (const struct aorta_command *command = group->commands; command->name; command++)
        if ((int)strlen(command->name) > width) width = (int)strlen(command->name);
    fprintf(stream, "Usage: %s COMMAND [OPTIONS]\n\n%s\n\nCommands:\n", group->name, group->about);
    for (const struct aorta_command *command = group->commands; command->name; command++)
        fprintf(stream, "  %-*s %s\n", width, command->name, command->summary);
    fprintf(stream, "\n%s COMMAND --help shows a command's options%s", group->name,
            group->footer ? group->footer : ".\n");
}

/* The inner group that has a command of this name: "aorta trace" for `aorta analyze`. */
static const struct aorta_command_group *group_with(const struct aorta_command_group *group, const char *name) {
    for (const struct aorta_command *command = group->commands; command->name; command++)
        for (const struct aorta_command *inner = command->group ? command->group->commands : NULL; inner && inner->name;
             inner++)
            if (strcmp(inner->name, name) == 0) return command->group;
    return NULL;
}

static bool is_file(const char *name) {
    return access(name, F_OK) == 0 || strchr(name, '/') || strchr(name, '.');
}

static aorta_status unknown_command(const struct aorta_command_group *group, const char *name) {
    const char *names[16];
    size_t count = 0;
    for (const struct aorta_command *command = group->commands; command->name && count < 16; command++)
        names[count++] = command->name;
    const char *nearest = aorta_nearest(name, names, count);
    const char *what = name[0] == '-' ? "option" : "command";
    const struct aorta_command_group *within = group_with(group, name);
    if (within)
        return AORTA_ERROR(AORTA_USAGE, "unknown command \"%s\"; did you mean \"%s %s\"?", name, within->name, name);
    if (group == &aorta_cli_trace && is_file(name))
        return AORTA_ERROR(AORTA_USAGE, "%s is no command of %s; did you mean \"%s analyze %s\"?", name, group->name,
                           group->name, name);
    if (nearest)
        return AORTA_ERROR(AORTA_USAGE, "unknown %s \"%s\"; did you mean \"%s %s\"?", what, name, group->name, nearest);
    return AORTA_ERROR(AORTA_USAGE, "unknown %s \"%s\"; %s --help lists the commands", what, name, group->name);
}

aorta_status aorta_cli_command(const struct aorta_cli_syntax *syntax, int argc, char **argv, void *values,
                               aorta_status (*run)(struct aorta_cli_line *line, void *values)) {
    struct aorta_cli_line line;
    AORTA_TRY(aorta_cli_parse(syntax, argc, argv, values, &line));
    aorta_status status = line.help ? NULL : run(&line, values);
    aorta_cli_free(&line);
    return status;
}

aorta_status aorta_cli_command_run(const struct aorta_command *command, int argc, char **argv) {
    const struct aorta_cli_entry *entry = command->entry;
    if (!entry) return command->run(argc, argv);
    if (entry->reads_recordings) take_one_heap();
    struct aorta_arena memory = {0};
    void *values = aorta_arena_alloc(&memory, entry->size);
    aorta_status status = aorta_arena_check(&memory, "a command");
    if (!status) status = aorta_cli_command(entry->syntax, argc, argv, values, entry->run);
    aorta_arena_free(&memory);
    return status;
}

aorta_status aorta_cli_group_find(const struct aorta_command_group *group, const char *name,
                                  const struct aorta_command **command) {
    const struct aorta_command *at = group->commands;
    while (at->name && strcmp(at->name, name) != 0) at++;
    *command = at->name ? at : NULL;
    return *command ? NULL : unknown_command(group, name);
}

aorta_status aorta_cli_group_run(const struct aorta_command_group *group, int argc, char **argv) {
    if (argc < 2) {
        aorta_cli_group_usage(group, stderr);
        return AORTA_ERROR(AORTA_USAGE, "name a command of %s", group->name);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        aorta_cli_group_usage(group, stdout);
        return NULL;
    }
    const struct aorta_command *command;
    aorta_status unknown = aorta_cli_group_find(group, argv[1], &command);
    if (!command) return unknown;
    if (command->group) return aorta_cli_group_run(command->group, argc - 1, argv + 1);
    return aorta_cli_command_run(command, argc - 1, argv + 1);
}

static const struct aorta_command trace_commands[] = {
    {"analyze", "says what limits a recorded program", .entry = &aorta_cli_trace_analyze},
    {"compare", "says what changed between recordings, and whether it is noise", .entry = &aorta_cli_trace_compare},
    {"merge", "makes one trace of many ranks, on one clock, for Perfetto", .entry = &aorta_cli_trace_merge},
    {"run", "records an unmodified program and analyzes the recording", .entry = &aorta_cli_trace_run},
    {"watch", "evaluates the windows of `trace run --into` while the program runs", .entry = &aorta_cli_trace_watch},
    {0},
};

const struct aorta_command_group aorta_cli_trace = {
    .name = "aorta trace",
    .about = "Records programs and analyzes traces of PyTorch, JAX, rocprofv3, Nsight Systems and AORTA.",
    .commands = trace_commands,
};

static const struct aorta_command hwq_commands[] = {
    {"list", "lists the workloads and their numbers of streams", .entry = &aorta_cli_hwq_list},
    {"info", "describes a workload and its options; without one: the environment", .entry = &aorta_cli_hwq_info},
    {"run", "runs a workload, measures it and explains the figures", .run = aorta_cli_hwq_run, .named = true},
    {"sweep", "runs a workload on several numbers of streams: how it scales", .run = aorta_cli_hwq_sweep,
     .named = true},
    {"run-priority", "runs all workloads of a group: P0, P1, P2, P3 or all", .run = aorta_cli_hwq_run_priority},
    {"compare", "compares results, with confidence intervals; exit code 1 for a regression",
     .entry = &aorta_cli_hwq_compare},
    {"map", "finds which streams share a hardware queue", .entry = &aorta_cli_hwq_map},
    {"profile", "records which hardware queues a workload uses", .run = aorta_cli_hwq_profile},
    {0},
};

const struct aorta_command_group aorta_cli_hwq = {
    .name = "aorta hwq",
    .about = "Measures how the hardware runs streams: queues, switches, and which work delays which.",
    .commands = hwq_commands,
};
