/* Options as rows of a table. A row has a value's place, allowed values, default and effect. The rows make the reader,
 * the error messages, the help and docs/configuration.md.
 *
 * Configuration files (config.h) and command lines (cli/cli.h) are both read through these rows. */
#ifndef AORTA_CONFIG_OPTION_H
#define AORTA_CONFIG_OPTION_H

#include "base/arena.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum aorta_option_type {                         /* stored as */
                         AORTA_OPTION_BOOL,      /* bool */
                         AORTA_OPTION_INT,       /* int64_t */
                         AORTA_OPTION_DOUBLE,    /* double */
                         AORTA_OPTION_STRING,    /* const char *; with choices: the canonical name of the one chosen */
                         AORTA_OPTION_CHOICE,    /* an enum (or int) */
                         AORTA_OPTION_DOUBLES_2, /* double[2] */
                         AORTA_OPTION_INT_LIST,  /* struct aorta_int_list; a single integer is a list of one */
                         AORTA_OPTION_STRING_LIST, /* struct aorta_string_list; a single string is a list of one */
                         AORTA_OPTION_TREE,        /* const char *: a list, of lists and maps in each other, as JSON */
                         AORTA_OPTION_MAP,         /* likewise, but a map */
                         AORTA_OPTION_TYPE_COUNT
};

struct aorta_int_list { /* items NULL: null was given, which is not the empty list */
    const int64_t *items;
    size_t count;
};

struct aorta_string_list {
    const char *const *items;
    size_t count;
};

struct aorta_range_limits {
    double min, max; /* infinities: no limit */
    bool above_min;  /* min itself is not allowed */
    bool below_max;  /* max itself is not allowed */
};
/* The limits of a row, both of them allowed. */
#define AORTA_LIMITS(least, most) (&(const struct aorta_range_limits){.min = (least), .max = (most)})

/* Names are matched without regard to case. The first name of a value is its canonical one. */
struct aorta_choice {
    const char *name; /* NULL ends the list */
    int value;
};

/* The kind of path that a row's value names. Rows of type STRING and STRING_LIST. */
enum aorta_path_use {
    AORTA_PATH_NONE,
    AORTA_PATH_READ,   /* a file, or a folder whose files are read */
    AORTA_PATH_FILE,   /* a file that is written */
    AORTA_PATH_FOLDER, /* a folder in which `files` are written */
};

struct aorta_option {
    const char *key; /* dotted: "training.batch_size" */
    enum aorta_option_type type;
    size_t offset;        /* of the value within the struct that is filled */
    const char *fallback; /* the default, as it would be written in a file */
    const char *on_cpu;   /* hwq workloads: the default on a CPU device; NULL: the same */
    bool nullable;        /* null may be given, though it is not the default; a default of "null" may always be given */
    int64_t when_null; /* value for null: of INT, CHOICE and BOOL as is, of DOUBLE as a double; lists, strings: NULL */
    const struct aorta_range_limits *limits; /* of each number; NULL: none */
    const struct aorta_choice *choices;
    const char *help; /* one sentence, without its full stop */
    enum aorta_path_use path;
    const char *const *files; /* AORTA_PATH_FOLDER: patterns of the names (fnmatch; * also matches "/"), then NULL.
                                 Pages are not listed: they may be replaced, as they are never read */
    /* of command lines only */
    char letter;          /* one-letter form ('n' for -n), 0: none */
    const char *argument; /* "FILE": the name of the value in the help; NULL: made from the type */
    bool required;
    bool several;      /* STRING_LIST: takes all words up to the next one that begins with "-" */
    const char *words; /* argument of `aorta help --words` that lists its values: "config"; NULL: the choices */
};

/* ---- scalars, as YAML 1.1 (and PyYAML) read them; numbers like 3e-4 count as numbers too ---- */

bool aorta_scalar_is_null(const char *text);
bool aorta_scalar_bool(const char *text, bool *value);
bool aorta_scalar_int(const char *text, int64_t *value);   /* decimal, 0x, 0b, leading 0: octal; underscores */
bool aorta_scalar_double(const char *text, double *value); /* finite ones only */

/* ---- values ---- */

/* One element of a value, as it was written. */
struct aorta_scalar {
    const char *text;
    bool quoted; /* a string for certain */
};

/* Stores a value of `count` scalars (`list`: it was written as a list). Strings and arrays are copied to the arena.
 * Returns false when the value does not fit the row; nothing is stored then. */
bool aorta_option_store(const struct aorta_option *option, const struct aorta_scalar *scalars, size_t count, bool list,
                        void *values, struct aorta_arena *arena);

bool aorta_option_takes_null(const struct aorta_option *option);
/* Stores the row's default. AORTA_INTERNAL when it does not fit its own row. */
AORTA_MUST_USE aorta_status aorta_option_store_default(const struct aorta_option *option, void *values,
                                                       struct aorta_arena *arena);

/* Lists the option's names: "bf16, fp16 (or float16)". `word` is the "or"; `quote` is written before and after each
 * name. */
void aorta_option_list_choices(const struct aorta_option *option, const char *word, const char *quote,
                               struct aorta_text *text);
/* "an integer of at least 1", "one of bf16, fp16, none", "a list of two numbers in [0, 1), or null" */
void aorta_option_describe(const struct aorta_option *option, struct aorta_text *text);

/* The choice nearest to a misspelt one, or NULL. */
const char *aorta_option_nearest_choice(const struct aorta_option *option, const char *text);

/* ---- files that options and operands name (paths.c) ---- */

struct aorta_path {
    const char *name; /* of the option with its prefix: "--html"; of an operand "". In the arena */
    const char *path; /* borrowed */
    enum aorta_path_use use;
    const char *const *files; /* as of the row */
};

struct aorta_paths { /* zero-initialise */
    struct aorta_path *items;
    size_t count, capacity;
    struct aorta_arena arena; /* of all of it: free it in the end */
};

/* Adds the paths in `values` of all rows that name paths, except null and empty text. `prefix`: "--" for command
 * lines, "" for configuration keys. */
void aorta_paths_add_rows(struct aorta_paths *paths, const struct aorta_option *rows, size_t count, const void *values,
                          const char *prefix);
/* Operands that are read. */
void aorta_paths_add_operands(struct aorta_paths *paths, char *const *operands, int count);

/* Checks that no output overwrites an input or another output. AORTA_MEMORY, also for the calls above. AORTA_USAGE
 * names the option and the path if
 *   - an output file is also read, or is in a folder that is read (except pages and empty files, which are not read);
 *   - an output folder would get a file with the name of an input in it;
 *   - two outputs are the same file, or an output file has the name of a file that an output folder gets.
 * Outputs that are not regular files (pipes, /dev/null) and descriptors (a shell's names below /dev/fd) do not
 * conflict with each other. A descriptor of an input file is refused like the file. */
AORTA_MUST_USE aorta_status aorta_paths_check(struct aorta_paths *paths);

#endif
