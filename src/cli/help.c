#include "cli/cli.h"
#include "sparse/options.h"

#include <stdio.h>
#include <string.h>

struct help_values {
    bool markdown;
};

#define AT(field) offsetof(struct help_values, field)
static const struct aorta_option options[] = {
    {"markdown", AORTA_OPTION_BOOL, AT(markdown), "false",
     .help = "with config: the page docs/configuration.md; with sparse: the tables of docs/sparse.md"},
};
#undef AT

static const struct aorta_cli_syntax syntax = {
    .usage = "aorta help [COMMAND … | config [--markdown] | sparse [--markdown]]",
    .about = "Shows the commands, the options of one of them, or the configuration keys of aorta train: of the ranking "
             "transformer (config), of the sparse pipeline (sparse).",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .operands = true,
};

static void add_configuration(bool markdown, struct aorta_text *text) {
    if (markdown)
        aorta_train_options_page(text);
    else
        aorta_options_help(&aorta_train_option_table, text);
}

static void add_sparse(bool markdown, struct aorta_text *text) {
    if (markdown)
        aorta_options_markdown(&aorta_sparse_option_table, text);
    else
        aorta_options_help(&aorta_sparse_option_table, text);
}

static const struct topic {
    const char *name;
    void (*add)(bool markdown, struct aorta_text *text);
} topics[] = {{"config", add_configuration}, {"sparse", add_sparse}};

/* NULL: the word is none. */
static const struct topic *find_topic(const char *word) {
    for (size_t i = 0; word && i < sizeof topics / sizeof *topics; i++)
        if (strcmp(word, topics[i].name) == 0) return &topics[i];
    return NULL;
}

/* `aorta help trace run` is `aorta trace run --help`. */
static aorta_status help_on_command(const struct aorta_cli_line *line) {
    const struct aorta_command_group *group = &aorta_cli_program;
    const struct aorta_command *command = NULL;
    for (int i = 0; i < line->operand_count; i++) {
        if (!group)
            return AORTA_ERROR(AORTA_USAGE, "unexpected argument \"%s\"; usage: %s", line->operands[i], syntax.usage);
        AORTA_TRY(aorta_cli_group_find(group, line->operands[i], &command));
        group = command->group;
    }
    if (group) {
        aorta_cli_group_usage(group, stdout);
        return NULL;
    }
    char help[] = "--help";
    return command->run(2, (char *[]){line->operands[line->operand_count - 1], help, NULL});
}

static aorta_status help_on(const struct aorta_cli_line *line, const struct help_values *values) {
    const struct topic *topic = find_topic(line->operand_count > 0 ? line->operands[0] : NULL);
    if (topic && line->operand_count > 1)
        return AORTA_ERROR(AORTA_USAGE, "unexpected argument \"%s\"; usage: %s", line->operands[1], syntax.usage);
    if (values->markdown && !topic)
        return AORTA_ERROR(AORTA_USAGE, "--markdown goes with config and sparse: aorta help config --markdown");
    if (topic) {
        struct aorta_text text = {0};
        topic->add(values->markdown, &text);
        return aorta_cli_print_text(&text);
    }
    return help_on_command(line);
}

aorta_status aorta_cli_help(int argc, char **argv) {
    struct help_values values;
    struct aorta_cli_line line;
    AORTA_TRY(aorta_cli_parse(&syntax, argc, argv, &values, &line));
    aorta_status status = line.help ? NULL : help_on(&line, &values);
    aorta_cli_free(&line);
    return status;
}
