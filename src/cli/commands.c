/* The list of commands, and the choice among them. */
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

const struct aorta_command aorta_commands[] = {
    {"info", "devices, libraries and environment; what is missing and how to get it", aorta_cli_info},
    {"train", "trains with FSDP2 or DDP and measures how communication overlaps with compute", aorta_cli_train},
    {"launch", "starts local ranks of a command, ends them together and says which one failed", aorta_cli_launch},
    {"report", "summary, pictures and verdict of one or more runs, and their comparison", aorta_cli_report},
    {"help", "aorta help COMMAND; aorta help config lists the configuration keys of train", aorta_cli_help},
    {0},
};

void aorta_cli_print_usage(FILE *stream) {
    fputs("Usage: aorta COMMAND [OPTIONS]\n\n"
          "AORTA measures how communication overlaps with compute in training, and says why it does not.\n\n"
          "Commands:\n",
          stream);
    for (const struct aorta_command *command = aorta_commands; command->name; command++) {
        fprintf(stream, "  %-8s %s\n", command->name, command->summary);
    }
    fputs("\naorta COMMAND --help shows a command's options; aorta --version the version.\n"
          "Exit codes: 0 success, 1 the run failed, 2 the arguments or the configuration are wrong.\n",
          stream);
}

static const struct aorta_command *search(const char *name) {
    const struct aorta_command *command = aorta_commands;
    while (command->name && strcmp(command->name, name) != 0) command++;
    return command->name ? command : NULL;
}

static aorta_status unknown_command(const char *name) {
    const char *names[16];
    size_t count = 0;
    for (const struct aorta_command *command = aorta_commands; command->name && count < 16; command++) {
        names[count++] = command->name;
    }
    const char *nearest = aorta_nearest(name, names, count);
    const char *what = name[0] == '-' ? "option" : "command";
    if (nearest) {
        return AORTA_ERROR(AORTA_USAGE, "unknown %s \"%s\"; did you mean \"aorta %s\"?", what, name, nearest);
    }
    return AORTA_ERROR(AORTA_USAGE, "unknown %s \"%s\"; aorta --help lists the commands", what, name);
}

aorta_status aorta_cli_find_command(const char *name, const struct aorta_command **command) {
    *command = search(name);
    return *command ? NULL : unknown_command(name);
}

static aorta_status dispatch(int argc, char **argv) {
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        aorta_cli_print_usage(stdout);
        return NULL;
    }
    if (strcmp(name, "--version") == 0) {
        printf("aorta %s\n", AORTA_VERSION);
        return NULL;
    }
    const struct aorta_command *command;
    AORTA_TRY(aorta_cli_find_command(name, &command));
    return command->run(argc - 1, argv + 1);
}

/* What was printed has really gone out: a full disk behind `aorta info --json > file` is a failure. */
static aorta_status finish_output(void) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return NULL;
    return AORTA_ERROR(AORTA_IO, "cannot write to the standard output: %s", strerror(errno));
}

int aorta_cli_run(int argc, char **argv) {
    if (argc < 2) {
        aorta_cli_print_usage(stderr);
        return aorta_code_exit(AORTA_USAGE);
    }
    aorta_status status = dispatch(argc, argv);
    status = aorta_status_join(status, finish_output());
    if (!status) return 0;
    fprintf(stderr, "aorta: %s\n", aorta_status_message(status));
    int exit_code = aorta_code_exit(aorta_status_code(status));
    aorta_status_free(status);
    return exit_code;
}
