/* Commands of the program, and the reader of their command lines. */
#ifndef AORTA_CLI_CLI_H
#define AORTA_CLI_CLI_H

#include "base/log.h"
#include "base/text.h"
#include "config/option.h"
#include "device/device.h"
#include "report/page.h"
#include "report/verdict_text.h"

#include <limits.h>
#include <stdio.h>

/* ---- commands ----
 * Each is one file that parses, calls and prints. argv[0] is the command's own name. Its result ends the program: NULL
 * is exit 0; otherwise main prints "aorta: message" on stderr and exits with the status's exit code. */
struct aorta_command_group;
struct aorta_cli_syntax;
struct aorta_cli_line;
/* Arguments of aorta_cli_command, for most commands. */
struct aorta_cli_entry {
    const struct aorta_cli_syntax *syntax;
    aorta_status (*run)(struct aorta_cli_line *line, void *values);
    size_t size;           /* of the values */
    bool reads_recordings; /* memory then comes from one heap for all threads */
};
struct aorta_command {
    const char *name, *summary;
    const struct aorta_cli_entry *entry;
    aorta_status (*run)(int argc, char **argv); /* instead of `entry`: it reads its line itself */
    const struct aorta_command_group *group;    /* instead of both: it consists of commands */
    bool named;                                 /* its first operand names a workload, which has its own options */
};
AORTA_MUST_USE aorta_status aorta_cli_command_run(const struct aorta_command *command, int argc, char **argv);

extern const struct aorta_cli_entry aorta_cli_info, aorta_cli_sdma, aorta_cli_report, aorta_cli_sweep, aorta_cli_whatif,
    aorta_cli_trace_analyze, aorta_cli_trace_merge, aorta_cli_trace_compare, aorta_cli_trace_run, aorta_cli_trace_watch,
    aorta_cli_help;
aorta_status aorta_cli_train(int argc, char **argv);
aorta_status aorta_cli_launch(int argc, char **argv);

extern const struct aorta_command_group aorta_cli_program, aorta_cli_trace, aorta_cli_hwq;

/* ---- the standard output (commands.c) ---- */

/* Prints a text in one write and frees it. A failed text is an error (aorta_text_check). Prints to the standard error
 * if `output` (may be NULL) is the standard output. `color`: color escapes are allowed. AORTA_IO. */
AORTA_MUST_USE aorta_status aorta_cli_print(struct aorta_text *text, const char *output, bool color);
/* AORTA_USAGE if the program cannot be run. For the name of one of our commands the message shows what to write
 * instead. */
AORTA_MUST_USE aorta_status aorta_cli_check_program(const char *program);
/* The option --csv DIR: the names of its files, for the option's row, and the check that the directory can be made,
 * before any work is done. NULL is fine. AORTA_CONFIG. */
extern const char *const aorta_cli_csv_files[];
AORTA_MUST_USE aorta_status aorta_cli_csv_prepare(const char *folder);
/* The same check for the page of --html. AORTA_UNSUPPORTED if the build has no pages; AORTA_CONFIG. */
AORTA_MUST_USE aorta_status aorta_cli_page_prepare(const char *path);
/* Outputs of a result: a page, CSV of its tables, and text or JSON on the standard output. */
struct aorta_cli_outputs {
    const char *html, *csv; /* may be NULL */
    bool json;
};
/* Checks that page and CSV can be written, before any work is done. AORTA_UNSUPPORTED, AORTA_CONFIG. */
AORTA_MUST_USE aorta_status aorta_cli_outputs_prepare(const struct aorta_cli_outputs *to);
/* Writes the JSON to `output` (may be NULL) and into the page, and prints the text or the JSON. `status` is the CSV's;
 * after a failure nothing more is written. Both texts may have failed, and are freed in any case. */
AORTA_MUST_USE aorta_status aorta_cli_show(const struct aorta_cli_outputs *to, const char *output,
                                           struct aorta_page_results page, struct aorta_text *text,
                                           struct aorta_text *json, aorta_status status);
/* Makes the signal not end the process, so that its cause (SIGPIPE: a closed pipe) is an error of the write. Unlike an
 * ignored signal, this is not inherited by started programs. */
void aorta_cli_outlive(int signal);
/* Checks that the output was written: AORTA_IO for `aorta info --json > file` on a full disk. */
AORTA_MUST_USE aorta_status aorta_cli_finish_output(void);

/* A command that consists of commands: `aorta` itself, `aorta trace`. */
struct aorta_command_group {
    const char *name;                     /* as typed: "aorta trace" */
    const char *about;                    /* one paragraph */
    const struct aorta_command *commands; /* ends with a NULL name */
    const char *footer;                   /* follows "NAME COMMAND --help shows a command's options"; NULL: "." */
};
/* AORTA_USAGE names the nearest command. */
AORTA_MUST_USE aorta_status aorta_cli_group_find(const struct aorta_command_group *group, const char *name,
                                                 const struct aorta_command **command);
void aorta_cli_group_usage(const struct aorta_command_group *group, FILE *stream);
/* Runs the command that argv[1] names; --help prints the usage. */
AORTA_MUST_USE aorta_status aorta_cli_group_run(const struct aorta_command_group *group, int argc, char **argv);

AORTA_MUST_USE aorta_status aorta_cli_self(char path[PATH_MAX]);

/* The whole program: finds the command, runs it, prints what went wrong, returns the exit code. */
int aorta_cli_run(int argc, char **argv);

/* ---- command lines ---- */

struct aorta_cli_syntax {
    const char *usage;                  /* "aorta train --config FILE [--override KEY=VALUE …]" */
    const char *about;                  /* one paragraph; ends with a full stop */
    const struct aorta_option *options; /* key: the long name without its dashes; BOOL: a flag that takes no value */
    size_t option_count;
    bool operands;       /* operands are allowed; with `command` the first operand ends the options */
    bool reads_operands; /* they are files or folders that the command reads */
    bool command;        /* "-- CMD ARGS…": everything from the first operand on is left alone */
    bool styled;         /* it has an aorta_cli_style: the help shows --color and --full-names */
    const char *footer;  /* printed last by --help; may be NULL */
    void (*names)(struct aorta_text *text); /* writes its possible operands, for shell completion; NULL: files */
};

#define AORTA_CLI_OPTIONS(rows) .options = (rows), .option_count = sizeof(rows) / sizeof *(rows)

struct aorta_cli_line {
    int operand_count;
    char **operands;          /* within argv, borrowed */
    const bool *given;        /* of each option: it was on the line */
    const char *color;        /* --color: "auto", "always", "never" */
    bool full_names;          /* --full-names */
    bool help;                /* --help was asked for and has been printed: the command returns NULL at once */
    struct aorta_arena arena; /* of what lives as long; the command may use it */
    struct aorta_kernel_patterns *patterns; /* aorta_cli_comm_patterns; NULL: none */
};

/* Fills *values with defaults, then with the command line. Checks by the rows' `path` that outputs overwrite neither
 * inputs nor each other (config/option.h). Accepts --name VALUE, --name=VALUE, -n VALUE, -nVALUE; "--" ends the
 * options. The last of repeated options counts; lists grow. AORTA_USAGE names the option and what is expected. Strings
 * and lists in *values live until aorta_cli_free; on failure there is nothing to free. */
AORTA_MUST_USE aorta_status aorta_cli_parse(const struct aorta_cli_syntax *syntax, int argc, char **argv, void *values,
                                            struct aorta_cli_line *line);
void aorta_cli_free(struct aorta_cli_line *line);
/* The style for the stream: its width, and color if --color, NO_COLOR and TERM allow it. (commands.c)
 */
struct aorta_verdict_style aorta_cli_style(const struct aorta_cli_line *line, FILE *stream);
/* Whether the word is --help, -h or another form, for commands that check a word before parsing. */
bool aorta_cli_asks_for_help(const char *word);
/* Parses, calls `run` unless --help was asked for, and frees the line. `values` is that of
 * aorta_cli_parse. */
AORTA_MUST_USE aorta_status aorta_cli_command(const struct aorta_cli_syntax *syntax, int argc, char **argv,
                                              void *values,
                                              aorta_status (*run)(struct aorta_cli_line *line, void *values));
/* For a command that `mode` ("--read") makes do something else: AORTA_USAGE if the line has an option that is not in
 * `allowed`, a list that ends with NULL, as the option would have no effect. */
AORTA_MUST_USE aorta_status aorta_cli_only(const struct aorta_cli_syntax *syntax, const struct aorta_cli_line *line,
                                           const char *mode, const char *const *allowed);

/* Options of several commands. `place`: offset of the value. */
#define AORTA_CLI_CSV_OPTION(place)                                                                                    \
    {                                                                                                                  \
        .key = "csv", .type = AORTA_OPTION_STRING, .offset = (place), .fallback = "null", .argument = "DIR",           \
        .path = AORTA_PATH_FOLDER, .files = aorta_cli_csv_files,                                                       \
        .help = "directory for a CSV file of each table, created if needed"                                            \
    }
#define AORTA_CLI_QUIET_OPTION(place)                                                                                  \
    {                                                                                                                  \
        .key = "quiet", .type = AORTA_OPTION_BOOL, .offset = (place), .fallback = "false", .letter = 'q',              \
        .help = "print the answer only: no details, tables or progress"                                                \
    }
#define AORTA_CLI_ALL_OPTION(place)                                                                                    \
    {                                                                                                                  \
        .key = "all", .type = AORTA_OPTION_BOOL, .offset = (place), .fallback = "false",                               \
        .help = "print findings below 2% of the step, too"                                                             \
    }
#define AORTA_CLI_RECOVER_OPTION(place)                                                                                \
    {                                                                                                                  \
        .key = "recover", .type = AORTA_OPTION_BOOL, .offset = (place), .fallback = "false",                           \
        .help = "take the events before the place where a file breaks off, instead of failing"                         \
    }
#define AORTA_CLI_PATTERNS_OPTION(place)                                                                               \
    {                                                                                                                  \
        .key = "comm-pattern", .type = AORTA_OPTION_STRING_LIST, .offset = (place), .fallback = "null",                \
        .argument = "REGEX",                                                                                           \
        .help = "kernels whose name matches are collectives too (POSIX extended); repeat it for several"               \
    }

/* Mentions --recover in the error if a truncated file was read without it. Returns the status. */
AORTA_MUST_USE aorta_status aorta_cli_name_recover(aorta_status status, bool recover);
AORTA_MUST_USE aorta_status aorta_cli_comm_patterns(struct aorta_cli_line *line, const struct aorta_string_list *list);

/* What --help prints: usage, about, the options with their defaults. */
void aorta_cli_help_text(const struct aorta_cli_syntax *syntax, struct aorta_text *text);

/* ---- --device, as several commands have it ---- */

#define AORTA_CLI_DEVICE_HELP "auto (a GPU if there is one), cpu, cuda, cuda:1, hip:0, or the number of a GPU"

/* Opens the named device: "auto", "cpu", "cuda", "hip", a kind with ":" and an index, or only an index, of a GPU or
 * without GPUs of the CPU device. Without an index each rank of a host (local_rank) gets its own device, and the log
 * warns if ranks share one. AORTA_USAGE for an unknown name or a missing device. */
AORTA_MUST_USE aorta_status aorta_cli_open_device(const char *words, int local_rank, const struct aorta_log *log,
                                                  struct aorta_device **device);

/* Forms of --help: a page of man(7), and words for shells (`aorta help --man COMMAND`, `aorta help --words COMMAND`).
 * Each command prints its own rows, for --help=man and --help=words. */

/* The command's options, then those of all commands: of a style, and --help; NULL after the last. */
const struct aorta_option *aorta_cli_option(const struct aorta_cli_syntax *syntax, size_t index);
/* The name of the option's value in a usage. NULL if it has no value. */
const char *aorta_cli_argument_name(const struct aorta_option *option);

void aorta_cli_manual(const struct aorta_cli_syntax *syntax, struct aorta_text *text);
void aorta_cli_group_manual(const struct aorta_command_group *group, struct aorta_text *text);
/* Writes a line per word, with a tab and its meaning: long options of a command, or commands of a group. */
void aorta_cli_words(const struct aorta_cli_syntax *syntax, struct aorta_text *text);
void aorta_cli_group_words(const struct aorta_command_group *group, struct aorta_text *text);

/* The end of aorta train after the last step: the report, and leaving the other ranks. If a signal ends it there, the
 * log shows what is complete. (train.c) */
struct aorta_train_finish {
    const char *directory; /* of the run's files */
    const struct aorta_log *log;
    const struct aorta_ranks *ranks;
    double timeout_s;
    bool rank_0, report;              /* this rank logs; this rank makes the report */
    struct aorta_verdict_style style; /* of the report */
};
/* Returns the report's failure. If the ranks cannot leave each other, logs this and ends the process. */
AORTA_MUST_USE aorta_status aorta_train_finish(const struct aorta_train_finish *finish);

#endif
