/* Reads a configuration file and overrides into a typed struct, by a table of option rows, and remembers the source of
 * each value.
 *
 * Files are YAML, or JSON when the name ends in ".json". Every error is AORTA_CONFIG and names the place ("file:line"
 * or "--override key=value"), the key, the value found and the allowed values; up to ten are reported, one per line. */
#ifndef AORTA_CONFIG_CONFIG_H
#define AORTA_CONFIG_CONFIG_H

#include "base/json.h"
#include "config/option.h"

/* An explanation for keys that somebody may reasonably try although no row has them. */
struct aorta_option_absent {
    const char *prefix; /* "workload": the key itself and all below it */
    const char *reason; /* follows "KEY: " in the message */
};

/* A second name of a key, as in other tools. A file with both names has the key twice, which is an error. */
struct aorta_option_alias {
    const char *name, *key;
};

struct aorta_option_table {
    const struct aorta_option *rows; /* rows of one section are together */
    size_t count;
    const struct aorta_option_absent *absent;
    size_t absent_count;
    const struct aorta_option_absent *ignored; /* accepted with any value, also below the prefix; changes nothing */
    size_t ignored_count;
    const struct aorta_option_alias *aliases;
    size_t alias_count;
};

/* Why keys change nothing. */
struct aorta_option_reason {
    bool holds;
    const char *reason;   /* follows the keys, in parentheses */
    const char *keys[12]; /* then NULL */
};

enum aorta_origin_kind { AORTA_FROM_DEFAULT, AORTA_FROM_FILE, AORTA_FROM_OVERRIDE };

struct aorta_origin {
    enum aorta_origin_kind kind;
    int line;             /* in the file, from 1 */
    const char *override; /* as given: "training.batch_size=4" */
};

struct aorta_config {
    const struct aorta_option_table *table; /* borrowed */
    void *values;                           /* borrowed: the struct that was filled; its strings live in `arena` */
    const char *path;                       /* NULL when no file was read */
    struct aorta_origin *origins;           /* one per row */
    bool *ignored;                          /* one per row of table->ignored: it was given */
    struct aorta_arena arena;
};

/* Fills *values with defaults, then the file (`path` may be NULL), then the overrides in order ("a.b=value", the value
 * written as in YAML). On failure there is nothing to free. `values` must not move while the config is used. */
AORTA_MUST_USE aorta_status aorta_config_load(const struct aorta_option_table *table, const char *path,
                                              const char *const *overrides, size_t override_count, void *values,
                                              struct aorta_config *config);
void aorta_config_free(struct aorta_config *config);

const struct aorta_origin *aorta_config_origin(const struct aorta_config *config, const char *key);

/* An AORTA_CONFIG error "PLACE: KEY: message", for checks of several keys. If the value is the default: "KEY (by
 * default): message".
 */
AORTA_MUST_USE aorta_status aorta_config_error(const struct aorta_config *config, const char *key, const char *format,
                                               ...) AORTA_PRINTF(3, 4);

/* Writes a key's place for such a message: "a.yaml:12", "--override a.b=c" or "default". */
void aorta_config_place(const struct aorta_config *config, const char *key, struct aorta_text *text);

/* Adds one item per reason to the list (aorta_text_next): the keys that the user gave and that have no effect. A key
 * is listed with its first reason that applies, but not if its value and its default are both empty (false, null, {},
 * []). */
void aorta_config_without_effect(const struct aorta_config *config, const struct aorta_option_reason *reasons,
                                 size_t count, struct aorta_text *lines);
/* Adds the same lines for the keys in table->ignored. */
void aorta_config_ignored(const struct aorta_config *config, struct aorta_text *lines);
void aorta_option_reasons_markdown(const struct aorta_option_reason *reasons, size_t count, struct aorta_text *text);

/* Whether the file's top level has this key. False if the file cannot be read: loading it later reports the error. */
bool aorta_config_has_section(const char *path, const char *section);

/* The effective values as a JSON object, nested by section. Written back into a file, they load as the same values. */
void aorta_config_write_json(const struct aorta_config *config, struct aorta_json *json);

/* The value at `place`, of the row's type. */
void aorta_option_json(const struct aorta_option *row, const void *place, struct aorta_json *json);

/* Describes the rows as plain text for a terminal. aorta_options_markdown writes the tables of docs/configuration.md.
 * `within`: only this section or key; NULL: all. False if there is no such section or key. */
bool aorta_options_help(const struct aorta_option_table *table, const char *within, struct aorta_text *text);
/* For shell completion: "KEY=", its help and its choices, separated by tabs. */
void aorta_options_words(const struct aorta_option_table *table, struct aorta_text *text);
/* The row's choices, separated by blanks; nothing if it has none. */
void aorta_option_choices(const struct aorta_option *row, struct aorta_text *text);
void aorta_options_markdown(const struct aorta_option_table *table, struct aorta_text *text);

#endif
