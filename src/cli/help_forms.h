/* Forms of --help: a page of man(7), and words for shells (`aorta help --man COMMAND`, `aorta help --words COMMAND`).
 * A command prints its own rows: its reader takes --help=man and --help=words for --help. */
#ifndef AORTA_CLI_HELP_FORMS_H
#define AORTA_CLI_HELP_FORMS_H

#include "cli/cli.h"

extern const struct aorta_option aorta_cli_help_option; /* the row of --help itself */
/* The word for the option's value in a usage; NULL: it takes none. */
const char *aorta_cli_argument_name(const struct aorta_option *option);

void aorta_cli_manual(const struct aorta_cli_syntax *syntax, struct aorta_text *text);
void aorta_cli_group_manual(const struct aorta_command_group *group, struct aorta_text *text);
/* A word a line, a tab, what it means: long options of a command, commands of a group. */
void aorta_cli_words(const struct aorta_cli_syntax *syntax, struct aorta_text *text);
void aorta_cli_group_words(const struct aorta_command_group *group, struct aorta_text *text);

#endif
