/* The list of commands, and the choice among them. */
#include "base/printable.h"
#include "base/text.h"
#include "cli/cli.h"
#include "device/inventory.h"
#include "job/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const struct aorta_command commands[] = {
    {"info", "shows devices, libraries and environment; what is missing and how to get it", .run = aorta_cli_info},
    {"train", "trains with FSDP2 or DDP and measures how communication overlaps with compute", .run = aorta_cli_train},
    {"launch", "starts local ranks of a command, ends them together and says which one failed",
     .run = aorta_cli_launch},
    {"hwq", "evaluates hardware queues: workloads, queue maps, comparisons", .group = &aorta_cli_hwq},
    {"sdma", "runs a matrix product during asynchronous copies: what the copy engines hide", .run = aorta_cli_sdma},
    {"trace", "records programs; analyzes, compares and merges traces", .group = &aorta_cli_trace},
    {"report", "summarizes and compares runs of train", .run = aorta_cli_report},
    {"whatif", "predicts the step with more ranks, other links, faster kernels, or without a cause",
     .run = aorta_cli_whatif},
    {"sweep", "runs train, hwq or a command with different settings and finds those that matter",
     .run = aorta_cli_sweep},
    {"help", "shows the help of a command; aorta help config, aorta help sparse: keys of train", .run = aorta_cli_help},
    {0},
};

const struct aorta_command_group aorta_cli_program = {
    .name = "aorta",
    .about = "AORTA says what limits a training step, and how many milliseconds each fix would save.",
    .commands = commands,
    .footer = "; aorta --version the version.\n"
              "Exit codes: 0 success, 1 the run failed, 2 the arguments or the configuration are wrong.\n",
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

/* A file that reaches the limit of sizes is an error of its write then, with its name. Not ignored: programs that are
 * started would inherit that, and a handler they do not. */
static void no_death(int signal) {
    (void)signal;
}

/* A stream that the caller has closed stays without a file: the next file that is opened would take its number, and
 * what is printed would go there. This way every write fails, and is an error. */
static void reserve_streams(void) {
    for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; stream++)
        if (fcntl(stream, F_GETFD) < 0 && open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0) return;
}

/* It may quote what files hold. */
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

/* Before anything takes more than that. Threads have it, too. */
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
    sigaction(SIGXFSZ, &(struct sigaction){.sa_handler = no_death, .sa_flags = SA_RESTART}, NULL);
    if (argc < 2) {
        aorta_cli_group_usage(&aorta_cli_program, stderr);
        return aorta_code_exit(AORTA_USAGE);
    }
    bool done;
    aorta_status status = aorta_cli_under_torchrun(argc, argv, &done);
    if (!status && !done) status = dispatch(argc, argv);
    status = aorta_status_join(status, aorta_cli_finish_output());
    if (!status) return 0;
    print_failure(status);
    int exit_code = aorta_code_exit(aorta_status_code(status));
    aorta_status_free(status);
    return exit_code;
}
