#include "cli/hwq.h"
#include "config/config.h"
#include "device/inventory.h"
#include "hwq/compare.h"
#include "hwq/map.h"
#include "hwq/sdma.h"
#include "report/schemas.h"
#include "sparse/options.h"
#include "sweep/compare.h"
#include "verdict/causes.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

struct help_values {
    bool markdown, man, words;
    const char *schema;
};

#define AT(field) offsetof(struct help_values, field)
static const struct aorta_option options[] = {
    {"markdown", AORTA_OPTION_BOOL, AT(markdown), "false",
     .help = "with config, sparse or formats: the page docs/configuration.md, docs/sparse-keys.md or "
             "docs/metrics-format.md"},
    {"man", AORTA_OPTION_BOOL, AT(man), "false", .help = "print a command's manual page, for man"},
    {"words", AORTA_OPTION_BOOL, AT(words), "false",
     .help = "print what may follow a command, one word per line, for completions of shells"},
    {"schema", AORTA_OPTION_STRING, AT(schema), "null", .argument = "NAME",
     .help = "with formats: the JSON Schema of an output; docs/schema has all"},
};

static const struct topic {
    const char *name;
    const struct aorta_option_table *table;
    void (*page)(struct aorta_text *text);
} topics[] = {{"config", &aorta_train_option_table, aorta_train_options_page},
              {"sparse", &aorta_sparse_option_table, aorta_sparse_options_page},
              {"formats", NULL, aorta_formats_page},
              {"verdict", NULL, aorta_verdict_words}};

/* What may follow: a command, a topic or a cause. */
static void put_names(struct aorta_text *text) {
    aorta_cli_group_words(&aorta_cli_program, text);
    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++)
        aorta_text_printf(text, "%s\ta topic\n", topics[i].name);
    for (int i = 0; i < AORTA_CAUSE_COUNT; i++)
        aorta_text_printf(text, "%s\ta cause\n", aorta_cause_row((enum aorta_cause)i)->key);
}

static const struct aorta_cli_syntax help_syntax = {
    .usage = "aorta help [COMMAND … [--man | --words] | CAUSE | verdict | config [SECTION] [--markdown] | "
             "sparse [SECTION] [--markdown] | formats [--markdown | --schema NAME]]",
    .about =
        "Shows the commands or the options of one of them. CAUSE explains a cause of the verdict (host_launch, or "
        "\"late kernel launches\"): how it is measured, what the gain means, and how to fix it; verdict lists the "
        "causes and explains the verdict's other words. config and sparse show the configuration keys of aorta train; "
        "SECTION is a section or a key. formats shows the keys of the files that AORTA writes.",
    AORTA_CLI_OPTIONS(options),
    .operands = true,
    .names = put_names,
};

/* NULL: the word is none. */
static const struct topic *find_topic(const char *word) {
    for (size_t i = 0; word && i < sizeof topics / sizeof *topics; i++)
        if (strcmp(word, topics[i].name) == 0) return &topics[i];
    return NULL;
}

static aorta_status help_on_group(const struct aorta_command_group *group, const struct help_values *values) {
    struct aorta_text text = {0};
    if (values->man)
        aorta_cli_group_manual(group, &text);
    else if (values->words)
        aorta_cli_group_words(group, &text);
    else
        aorta_cli_group_usage(group, stdout);
    return aorta_cli_print(&text, NULL, false);
}

/* An error with a suggestion if the word resembles a cause, else `unknown`. */
static aorta_status misspelled(const char *word, aorta_status unknown) {
    const char *causes[AORTA_CAUSE_COUNT];
    for (int i = 0; i < AORTA_CAUSE_COUNT; i++) causes[i] = aorta_cause_row((enum aorta_cause)i)->key;
    const char *nearest = aorta_nearest(word, causes, AORTA_CAUSE_COUNT);
    if (!nearest) return unknown;
    aorta_status_free(unknown);
    return AORTA_ERROR(AORTA_USAGE, "unknown command or cause \"%s\"; did you mean \"aorta help %s\"?", word, nearest);
}

/* `aorta help trace run` is `aorta trace run --help`. */
static aorta_status help_on_command(const struct aorta_cli_line *line, const struct help_values *values) {
    const struct aorta_command_group *group = &aorta_cli_program;
    const struct aorta_command *command = NULL;
    char *named = NULL;
    for (int i = 0; i < line->operand_count; i++) {
        if (!group && command->named && i + 1 == line->operand_count) {
            named = line->operands[i];
            break;
        }
        if (!group)
            return AORTA_ERROR(AORTA_USAGE, "unexpected argument \"%s\"; usage: %s", line->operands[i],
                               help_syntax.usage);
        aorta_status unknown = aorta_cli_group_find(group, line->operands[i], &command);
        if (!command) return line->operand_count == 1 ? misspelled(line->operands[0], unknown) : unknown;
        group = command->group;
    }
    if (group) return help_on_group(group, values);
    char help[16];
    snprintf(help, sizeof help, "--help%s", values->man ? "=man" : values->words ? "=words" : "");
    if (named) return aorta_cli_command_run(command, 3, (char *[]){"", named, help, NULL});
    return aorta_cli_command_run(command, 2, (char *[]){line->operands[line->operand_count - 1], help, NULL});
}

/* `aorta help config fsdp` */
static aorta_status help_on_topic(const struct topic *topic, const struct aorta_cli_line *line, bool markdown) {
    const char *within = line->operand_count > 1 ? line->operands[1] : NULL;
    const char *surplus = markdown || !topic->table ? within : line->operand_count > 2 ? line->operands[2] : NULL;
    if (surplus) return AORTA_ERROR(AORTA_USAGE, "unexpected argument \"%s\"; usage: %s", surplus, help_syntax.usage);
    struct aorta_text text = {0};
    if (markdown || !topic->table) {
        topic->page(&text);
    } else if (!aorta_options_help(topic->table, within, &text)) {
        aorta_text_free(&text);
        return AORTA_ERROR(AORTA_USAGE, "there is no section or key \"%s\"; `aorta help %s` lists them", within,
                           topic->name);
    }
    return aorta_cli_print(&text, NULL, false);
}

/* Finds a cause by its key or its name in a headline: "late kernel launches", "exposed all_gather". */
static enum aorta_cause find_cause(const char *word) {
    enum aorta_cause found = aorta_cause_named(word);
    size_t longest = 0;
    if (found != AORTA_CAUSE_COUNT) return found;
    for (int i = 0; i < AORTA_CAUSE_COUNT; i++) {
        const char *name = aorta_cause_row((enum aorta_cause)i)->name;
        const size_t plain = strcspn(name, "[{");
        const bool fits = name[plain] ? strncasecmp(name, word, plain) == 0 : strcasecmp(name, word) == 0;
        if (!fits || plain <= longest) continue;
        longest = plain;
        found = (enum aorta_cause)i;
    }
    return found;
}

/* `aorta help fusion` */
static aorta_status help_on_cause(enum aorta_cause cause) {
    struct aorta_text text = {0};
    aorta_cause_help(cause, &text);
    return aorta_cli_print(&text, NULL, false);
}

static const struct aorta_schema own_schemas[] = {
    {"hwq_run", "a result of aorta hwq run", aorta_hwq_result_schema},
    {"hwq_sweep", "a result of aorta hwq sweep", aorta_hwq_sweep_schema},
    {"hwq_run_priority", "run_priority.json of aorta hwq run-priority", aorta_found_schema},
    {"hwq_profile", "aorta hwq profile --json", hwq_profile_schema},
    {"hwq_compare", "aorta hwq compare --json", aorta_hwq_comparison_schema},
    {"hwq_map", "aorta hwq map --json", aorta_map_schema},
    {"sdma", "aorta sdma --json", aorta_sdma_schema},
    {0}};

/* Returns NULL if there is no such schema. Appends all names to `names`. */
static const struct aorta_schema *find_schema(const char *name, struct aorta_text *names) {
    const struct aorta_schema *const tables[] = {&aorta_sweep_schema, aorta_report_schemas, own_schemas}, *found = NULL;
    for (size_t i = 0; i < 3; i++)
        for (const struct aorta_schema *schema = tables[i]; schema->name; schema++) {
            aorta_text_printf(names, "%s%s", names->length ? ", " : "", schema->name);
            if (strcmp(schema->name, name) == 0) found = schema;
            if (schema == &aorta_sweep_schema) break;
        }
    return found;
}

static aorta_status help_on_schema(const struct topic *topic, const char *name) {
    struct aorta_text text = {0};
    if (!topic || strcmp(topic->name, "formats") != 0)
        return AORTA_ERROR(AORTA_USAGE, "--schema goes with formats: aorta help formats --schema %s", name);
    const struct aorta_schema *wanted = find_schema(name, &text);
    if (wanted) {
        aorta_text_clear(&text);
        aorta_schema_write(wanted, &text);
        return aorta_cli_print(&text, NULL, false);
    }
    aorta_status status = AORTA_ERROR(AORTA_USAGE, "--schema %s: there is no such schema; there are %s", name,
                                      text.data ? text.data : "");
    aorta_text_free(&text);
    return status;
}

static aorta_status help_on(struct aorta_cli_line *line, void *of) {
    const struct help_values *values = of;
    if (values->markdown + values->man + values->words > 1)
        return AORTA_ERROR(AORTA_USAGE, "--markdown, --man and --words are forms of one page: give one of them");
    const struct topic *topic = find_topic(line->operand_count > 0 ? line->operands[0] : NULL);
    if (values->schema) return help_on_schema(topic, values->schema);
    if (topic && values->words && topic->table && line->operand_count == 1) {
        struct aorta_text text = {0};
        aorta_options_words(topic->table, &text);
        return aorta_cli_print(&text, NULL, false);
    }
    if (topic && (values->man || values->words))
        return AORTA_ERROR(AORTA_USAGE, "--man and --words go with a command: aorta help trace run --man");
    if (topic) return help_on_topic(topic, line, values->markdown);
    const enum aorta_cause cause = line->operand_count == 1 ? find_cause(line->operands[0]) : AORTA_CAUSE_COUNT;
    if (cause != AORTA_CAUSE_COUNT) return help_on_cause(cause);
    if (values->markdown)
        return AORTA_ERROR(AORTA_USAGE,
                           "--markdown goes with config, sparse and formats: aorta help config --markdown");
    return help_on_command(line, values);
}

const struct aorta_cli_entry aorta_cli_help = {&help_syntax, help_on, .size = sizeof(struct help_values)};

/* Other forms of --help: manual pages, and words for shell completion. */

/* ---- manual pages: man(7) ---- */

/* Escapes for man(7): typed dashes are "\-", and a line must not begin with a control character. */
static void put_part(struct aorta_text *text, const char *words, size_t length) {
    for (const char *at = words; at < words + length; at++) {
        bool begins = at == words || at[-1] == '\n';
        if (begins && (*at == '.' || *at == '\'')) aorta_text_puts(text, "\\&");
        if (*at == '\\')
            aorta_text_puts(text, "\\e");
        else if (*at == '-')
            aorta_text_puts(text, "\\-");
        else
            aorta_text_printf(text, "%c", *at);
    }
}

static void put_roff(struct aorta_text *text, const char *words) {
    put_part(text, words, strlen(words));
    aorta_text_puts(text, "\n");
}

/* Writes "aorta-trace-analyze" for the usage "aorta trace analyze FILE …", optionally in capitals. */
static void put_page_name(struct aorta_text *text, const char *usage, bool capitals) {
    size_t words = 0;
    for (const char *at = usage; *at; words++) {
        size_t length = strspn(at, "abcdefghijklmnopqrstuvwxyz-");
        bool word = length && *at != '-' && (at[length] == ' ' || !at[length]);
        if (!word) break;
        if (words) aorta_text_puts(text, "\\-");
        for (size_t i = 0; i < length; i++) {
            if (at[i] == '-') aorta_text_puts(text, "\\");
            aorta_text_printf(text, "%c", capitals ? toupper((unsigned char)at[i]) : at[i]);
        }
        at += length + (at[length] == ' ');
    }
}

static void put_title(struct aorta_text *text, const char *usage, const char *about) {
    aorta_text_puts(text, ".TH ");
    put_page_name(text, usage, true);
    aorta_text_printf(text, " 1 \"\" \"aorta %s\" \"User Commands\"\n.SH NAME\n", aorta_version);
    put_page_name(text, usage, false);
    aorta_text_puts(text, " \\- ");
    put_part(text, about, strcspn(about, "."));
    aorta_text_puts(text, "\n");
}

static void put_section(struct aorta_text *text, const char *name, const char *words) {
    if (!words) return;
    aorta_text_printf(text, ".SH %s\n", name);
    put_roff(text, words);
}

static void put_manual_option(struct aorta_text *text, const struct aorta_option *option) {
    const char *argument = aorta_cli_argument_name(option);
    aorta_text_puts(text, ".TP\n");
    if (option->letter) aorta_text_printf(text, "\\fB\\-%c\\fR, ", option->letter);
    aorta_text_puts(text, "\\fB\\-\\-");
    put_part(text, option->key, strlen(option->key));
    aorta_text_puts(text, "\\fR");
    if (argument) aorta_text_printf(text, " \\fI%s\\fR%s", argument, option->several ? " …" : "");
    aorta_text_puts(text, "\n");
    put_roff(text, option->help);
}

void aorta_cli_manual(const struct aorta_cli_syntax *syntax, struct aorta_text *text) {
    const struct aorta_option *option;
    put_title(text, syntax->usage, syntax->about);
    put_section(text, "SYNOPSIS", syntax->usage);
    put_section(text, "DESCRIPTION", syntax->about);
    aorta_text_puts(text, ".SH OPTIONS\n");
    for (size_t i = 0; (option = aorta_cli_option(syntax, i)); i++) put_manual_option(text, option);
    put_section(text, "NOTES", syntax->footer);
    aorta_text_puts(text, ".SH SEE ALSO\n.BR aorta (1)\n");
}

void aorta_cli_group_manual(const struct aorta_command_group *group, struct aorta_text *text) {
    put_title(text, group->name, group->about);
    aorta_text_printf(text, ".SH SYNOPSIS\n%s COMMAND [OPTIONS]\n", group->name);
    put_section(text, "DESCRIPTION", group->about);
    aorta_text_puts(text, ".SH COMMANDS\n");
    for (const struct aorta_command *command = group->commands; command->name; command++) {
        aorta_text_printf(text, ".TP\n\\fB%s\\fR\n", command->name);
        put_roff(text, command->summary);
    }
    aorta_text_puts(text,
                    ".SH EXIT STATUS\n0 success, 1 the run failed or regressed, 2 wrong arguments or configuration.\n");
}

/* ---- words: a line per word with its meaning, and for an option its values, or "@" and the list of words to use ----
 */

void aorta_cli_words(const struct aorta_cli_syntax *syntax, struct aorta_text *text) {
    const struct aorta_option *option;
    if (syntax->names) syntax->names(text);
    for (size_t i = 0; (option = aorta_cli_option(syntax, i)); i++) {
        aorta_text_printf(text, "--%s\t%s\t", option->key, option->help);
        if (option->words)
            aorta_text_printf(text, "@%s", option->words);
        else
            aorta_option_choices(option, text);
        aorta_text_puts(text, "\n");
    }
}

void aorta_cli_group_words(const struct aorta_command_group *group, struct aorta_text *text) {
    for (const struct aorta_command *command = group->commands; command->name; command++)
        aorta_text_printf(text, "%s\t%s\n", command->name, command->summary);
}
