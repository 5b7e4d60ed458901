/* Commands that consist of commands: `aorta` itself, `aorta trace`. */
#include "cli/cli.h"

#include <string.h>
#include <unistd.h>

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

/* The command of a group within this one that has the name: "aorta trace analyze" for `aorta analyze`. */
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
                               aorta_status (*run)(const struct aorta_cli_line *line, void *values)) {
    struct aorta_cli_line line;
    AORTA_TRY(aorta_cli_parse(syntax, argc, argv, values, &line));
    aorta_status status = line.help ? NULL : run(&line, values);
    aorta_cli_free(&line);
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
    if (argc < 2) return AORTA_ERROR(AORTA_USAGE, "%s needs a command; %s --help lists them", group->name, group->name);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        aorta_cli_group_usage(group, stdout);
        return NULL;
    }
    const struct aorta_command *command;
    aorta_status unknown = aorta_cli_group_find(group, argv[1], &command);
    if (!command) return unknown;
    if (command->group) return aorta_cli_group_run(command->group, argc - 1, argv + 1);
    return command->run(argc - 1, argv + 1);
}
