#include "cli/cli.h"
#include "train/options.h"

#include <stdio.h>
#include <string.h>

struct help_values {
    bool markdown;
};

#define AT(field) offsetof(struct help_values, field)
static const struct aorta_option options[] = {
    {"markdown", AORTA_OPTION_BOOL, AT(markdown), "false", .help = "with config: as the page docs/configuration.md"},
};
#undef AT

static const struct aorta_cli_syntax syntax = {
    .usage = "aorta help [COMMAND | config [--markdown]]",
    .about = "Shows the commands, the options of one of them, or the configuration keys of aorta train.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .operands = true,
};

static aorta_status print_configuration(bool markdown) {
    struct aorta_text text = {0};
    if (markdown) {
        aorta_train_options_page(&text);
    } else {
        aorta_options_help(&aorta_train_option_table, &text);
    }
    return aorta_cli_print_text(&text);
}

static aorta_status help_on_command(char *name) {
    const struct aorta_command *command;
    AORTA_TRY(aorta_cli_find_command(name, &command));
    char help[] = "--help";
    return command->run(2, (char *[]){name, help, NULL});
}

static aorta_status help_on(const struct aorta_cli_line *line, const struct help_values *values) {
    bool configuration = line->operand_count > 0 && strcmp(line->operands[0], "config") == 0;
    if (line->operand_count > 1) {
        return AORTA_ERROR(AORTA_USAGE, "unexpected argument \"%s\"; usage: %s", line->operands[1], syntax.usage);
    }
    if (values->markdown && !configuration) {
        return AORTA_ERROR(AORTA_USAGE, "--markdown goes with config: aorta help config --markdown");
    }
    if (configuration) return print_configuration(values->markdown);
    if (line->operand_count > 0) return help_on_command(line->operands[0]);
    aorta_cli_print_usage(stdout);
    return NULL;
}

aorta_status aorta_cli_help(int argc, char **argv) {
    struct help_values values;
    struct aorta_cli_line line;
    AORTA_TRY(aorta_cli_parse(&syntax, argc, argv, &values, &line));
    aorta_status status = line.help ? NULL : help_on(&line, &values);
    aorta_cli_free(&line);
    return status;
}
