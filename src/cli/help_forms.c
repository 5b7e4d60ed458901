/* What --help prints, for other readers than people at a terminal: manual pages, and words for a shell to complete. */
#include "cli/help_forms.h"
#include "config/config.h"
#include "device/inventory.h"

#include <ctype.h>
#include <string.h>

/* ---- manual pages: man(7) ---- */

/* A dash that is typed is "\-"; a line never begins with a control character. */
static void put_roff(struct aorta_text *text, const char *words) {
    for (const char *at = words; *at; at++) {
        bool begins = at == words || at[-1] == '\n';
        if (begins && (*at == '.' || *at == '\'')) aorta_text_puts(text, "\\&");
        if (*at == '\\')
            aorta_text_puts(text, "\\e");
        else if (*at == '-')
            aorta_text_puts(text, "\\-");
        else
            aorta_text_printf(text, "%c", *at);
    }
    aorta_text_puts(text, "\n");
}

/* "aorta-trace-analyze" of "aorta trace analyze FILE …", in capitals where asked for. */
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

static void put_first_sentence(struct aorta_text *text, const char *about) {
    const char *end = strchr(about, '.');
    struct aorta_text sentence = {0};
    aorta_text_printf(&sentence, "%.*s", end ? (int)(end - about) : (int)strlen(about), about);
    if (sentence.failed) text->failed = 1;
    if (sentence.data) put_roff(text, sentence.data);
    aorta_text_free(&sentence);
}

static void put_title(struct aorta_text *text, const char *usage, const char *about) {
    aorta_text_puts(text, ".TH ");
    put_page_name(text, usage, true);
    aorta_text_printf(text, " 1 \"\" \"aorta %s\" \"User Commands\"\n.SH NAME\n", aorta_version);
    put_page_name(text, usage, false);
    aorta_text_puts(text, " \\- ");
    put_first_sentence(text, about);
}

static void put_section(struct aorta_text *text, const char *name, const char *words) {
    if (!words) return;
    aorta_text_printf(text, ".SH %s\n", name);
    put_roff(text, words);
}

static void put_manual_option(struct aorta_text *text, const struct aorta_option *option) {
    struct aorta_text name = {0};
    const char *argument = aorta_cli_argument_name(option);
    aorta_text_puts(text, ".TP\n");
    if (option->letter) aorta_text_printf(text, "\\fB\\-%c\\fR, ", option->letter);
    aorta_text_printf(&name, "\\fB--%s\\fR", option->key);
    for (const char *at = name.data; at && *at; at++) /* the key's dashes, not the fonts' backslashes */
        aorta_text_printf(text, *at == '-' ? "\\-" : "%c", *at);
    if (argument) aorta_text_printf(text, " \\fI%s\\fR%s", argument, option->several ? " …" : "");
    aorta_text_puts(text, "\n");
    put_roff(text, option->help);
    if (name.failed) text->failed = 1;
    aorta_text_free(&name);
}

void aorta_cli_manual(const struct aorta_cli_syntax *syntax, struct aorta_text *text) {
    put_title(text, syntax->usage, syntax->about);
    put_section(text, "SYNOPSIS", syntax->usage);
    put_section(text, "DESCRIPTION", syntax->about);
    aorta_text_puts(text, ".SH OPTIONS\n");
    for (size_t i = 0; i < syntax->option_count; i++) put_manual_option(text, &syntax->options[i]);
    put_manual_option(text, &aorta_cli_help_option);
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
                    ".SH EXIT STATUS\n0 success, 1 the run failed, 2 the arguments or the configuration are wrong.\n");
}

/* ---- words: one a line, what it means, and an option's values or "@" and what words are these ---- */

void aorta_cli_words(const struct aorta_cli_syntax *syntax, struct aorta_text *text) {
    if (syntax->names) syntax->names(text);
    for (size_t i = 0; i < syntax->option_count; i++) {
        const struct aorta_option *option = &syntax->options[i];
        aorta_text_printf(text, "--%s\t%s\t", option->key, option->help);
        if (option->words)
            aorta_text_printf(text, "@%s", option->words);
        else
            aorta_option_choices(option, text);
        aorta_text_puts(text, "\n");
    }
    aorta_text_printf(text, "--%s\t%s\n", aorta_cli_help_option.key, aorta_cli_help_option.help);
}

void aorta_cli_group_words(const struct aorta_command_group *group, struct aorta_text *text) {
    for (const struct aorta_command *command = group->commands; command->name; command++)
        aorta_text_printf(text, "%s\t%s\n", command->name, command->summary);
}
