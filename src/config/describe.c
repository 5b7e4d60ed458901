/* The rows for people and for files: help, documentation, effective values. */
#include "base/lines.h"
#include "config/config.h"

#include <string.h>

/* The length of "training" in "training.batch_size": the part before the last dot. */
static size_t section_length(const char *key) {
    const char *dot = strrchr(key, '.');
    return dot ? (size_t)(dot - key) : 0;
}

static const char *leaf(const char *key) {
    size_t length = section_length(key);
    return length ? key + length + 1 : key;
}

static bool same_section(const char *a, const char *b) {
    size_t length = section_length(a);
    return length == section_length(b) && strncmp(a, b, length) == 0;
}

/* ---- help ---- */

static bool is_within(const char *key, const char *within) {
    const size_t length = strlen(within);
    return strncmp(key, within, length) == 0 && (key[length] == '.' || !key[length]);
}

bool aorta_options_help(const struct aorta_option_table *table, const char *within, struct aorta_text *text) {
    const struct aorta_option *before = NULL;
    AORTA_EACH (const struct aorta_option, row, table->rows, table->count) {
        if (within && !is_within(row->key, within)) continue;
        if (before && !same_section(row->key, before->key)) aorta_text_puts(text, "\n");
        before = row;
        struct aorta_text words = {0};
        aorta_text_printf(&words, "%s (default: %s): ", row->key, row->fallback);
        aorta_option_describe(row, &words);
        aorta_text_puts(text, "  ");
        aorta_text_lines(text, words.data ? words.data : "", &(struct aorta_lines){.taken = 2, .indent = 10});
        aorta_text_puts(text, "      ");
        aorta_text_lines(text, row->help, &(struct aorta_lines){.taken = 6, .indent = 6});
        aorta_text_end(&words, text);
    }
    return before != NULL;
}

/* ---- words ---- */

void aorta_option_choices(const struct aorta_option *row, struct aorta_text *text) {
    for (const struct aorta_choice *choice = row->choices; choice && choice->name; choice++)
        aorta_text_printf(text, "%s%s", choice == row->choices ? "" : " ", choice->name);
}

void aorta_options_words(const struct aorta_option_table *table, struct aorta_text *text) {
    AORTA_EACH (const struct aorta_option, row, table->rows, table->count) {
        aorta_text_printf(text, "%s=\t%s\t", row->key, row->help);
        if (row->type == AORTA_OPTION_BOOL) aorta_text_puts(text, "true false");
        aorta_option_choices(row, text);
        aorta_text_puts(text, "\n");
    }
}

/* ---- documentation ---- */

/* A vertical bar would end the cell of a table. */
static void put_cell(struct aorta_text *text, const char *string) {
    for (; *string; string++) {
        if (*string == '|') aorta_text_puts(text, "\\");
        aorta_text_append(text, string, 1);
    }
}

static void put_values(struct aorta_text *text, const struct aorta_option *row) {
    if (!row->choices) {
        aorta_option_describe(row, text);
        return;
    }
    aorta_option_list_choices(row, "also", "`", text);
    if (aorta_option_takes_null(row)) aorta_text_puts(text, ", or null");
}

void aorta_options_markdown(const struct aorta_option_table *table, struct aorta_text *text) {
    for (size_t i = 0; i < table->count; i++) {
        const struct aorta_option *row = &table->rows[i];
        if (i == 0 || !same_section(row->key, table->rows[i - 1].key)) {
            aorta_text_printf(text,
                              "\n## %.*s\n\n| key | default | value | what it does |\n| --- | --- | --- | --- |\n",
                              (int)section_length(row->key), row->key);
        }
        aorta_text_printf(text, "| `%s` | `%s` | ", leaf(row->key), row->fallback);
        put_values(text, row);
        aorta_text_puts(text, " | ");
        put_cell(text, row->help);
        aorta_text_puts(text, " |\n");
    }
}

/* ---- effective values ---- */

static void write_list(const struct aorta_option *row, const void *place, struct aorta_json *json) {
    const struct aorta_int_list *numbers = place;
    const struct aorta_string_list *texts = place;
    if (!numbers->items) {
        aorta_json_null(json);
        return;
    }
    aorta_json_array(json);
    for (size_t i = 0; i < numbers->count; i++)
        if (row->type == AORTA_OPTION_INT_LIST)
            aorta_json_int(json, numbers->items[i]);
        else
            aorta_json_string(json, texts->items[i]);
    aorta_json_array_end(json);
}

static void write_choice(const struct aorta_option *row, int value, struct aorta_json *json) {
    const struct aorta_choice *choice = row->choices;
    while (choice->name && choice->value != value) choice++;
    aorta_json_string(json, choice->name); /* null if only null stores this value */
}

void aorta_option_json(const struct aorta_option *row, const void *place, struct aorta_json *json) {
    const int64_t *number = place;
    const double *real = place;
    const char *const *text = place;
    switch (row->type) {
    case AORTA_OPTION_BOOL:
        aorta_json_bool(json, *(const bool *)place);
        return;
    case AORTA_OPTION_INT:
        if (aorta_option_takes_null(row) && *number == row->when_null)
            aorta_json_null(json);
        else
            aorta_json_int(json, *number);
        return;
    case AORTA_OPTION_DOUBLE:
        aorta_json_double(json, *real);
        return;
    case AORTA_OPTION_CHOICE:
        write_choice(row, *(const int *)place, json);
        return;
    case AORTA_OPTION_DOUBLES_2:
        aorta_json_array(json);
        aorta_json_double(json, real[0]);
        aorta_json_double(json, real[1]);
        aorta_json_array_end(json);
        return;
    case AORTA_OPTION_INT_LIST:
    case AORTA_OPTION_STRING_LIST:
        write_list(row, place, json);
        return;
    case AORTA_OPTION_TREE:
    case AORTA_OPTION_MAP:
        aorta_json_text(json, *text ? *text : "null");
        return;
    default:
        aorta_json_string(json, *text);
        return;
    }
}

enum { LONGEST_SECTION = 128 };

/* Closes the sections of `open` that `key` is not in and opens those it is in; `open` becomes the key's section. */
static void enter_section(struct aorta_json *json, char open[LONGEST_SECTION], const char *key) {
    size_t wanted = section_length(key);
    while (*open && !(strncmp(open, key, strlen(open)) == 0 && key[strlen(open)] == '.')) {
        aorta_json_object_end(json);
        open[section_length(open)] = '\0';
    }
    while (strlen(open) < wanted) {
        size_t start = *open ? strlen(open) + 1 : 0;
        size_t length = strcspn(key + start, ".");
        char name[LONGEST_SECTION];
        memcpy(name, key + start, length);
        name[length] = '\0';
        aorta_json_key_object(json, name);
        memcpy(open, key, start + length);
        open[start + length] = '\0';
    }
}

void aorta_config_write_json(const struct aorta_config *config, struct aorta_json *json) {
    char open[LONGEST_SECTION] = "";
    aorta_json_object(json);
    AORTA_EACH (const struct aorta_option, row, config->table->rows, config->table->count) {
        enter_section(json, open, row->key);
        aorta_json_key(json, leaf(row->key));
        aorta_option_json(row, (const char *)config->values + row->offset, json);
    }
    enter_section(json, open, ".");
    aorta_json_object_end(json);
}

/* ---- keys without effect ---- */

static bool is_nothing(const char *value) {
    static const char *const nothing[] = {"false", "null", "{}", "[]"};
    return aorta_is_one_of(value, nothing, sizeof nothing / sizeof *nothing);
}

static bool asks_for_nothing(const struct aorta_config *config, const struct aorta_option *row) {
    struct aorta_text value = {0};
    struct aorta_json json;
    aorta_json_begin(&json, &value, 0);
    aorta_option_json(row, (const char *)config->values + row->offset, &json);
    const bool nothing = is_nothing(row->fallback) && value.data && is_nothing(value.data);
    aorta_text_free(&value);
    return nothing;
}

static bool was_asked_for(const struct aorta_config *config, const char *key) {
    const struct aorta_origin *origin = aorta_config_origin(config, key);
    return origin && origin->kind != AORTA_FROM_DEFAULT &&
           !asks_for_nothing(config, &config->table->rows[origin - config->origins]);
}

/* Names the section only once: "fsdp.forward_prefetch, backward_prefetch". */
static void put_key(struct aorta_text *text, const char *key, const char *before) {
    aorta_text_printf(text, "%s%s", before ? ", " : "", before && same_section(key, before) ? leaf(key) : key);
}

void aorta_config_without_effect(const struct aorta_config *config, const struct aorta_option_reason *reasons,
                                 size_t count, struct aorta_text *lines) {
    for (size_t i = 0; i < count; i++) {
        const char *before = NULL;
        for (const char *const *key = reasons[i].keys; *key; key++) {
            bool named = !was_asked_for(config, *key) || !reasons[i].holds;
            for (size_t earlier = 0; earlier < i && !named; earlier++)
                named = aorta_is_one_of(*key, reasons[earlier].keys, SIZE_MAX) && reasons[earlier].holds;
            if (named) continue;
            put_key(lines, *key, before);
            before = *key;
        }
        if (!before) continue;
        aorta_text_printf(lines, " (%s)", reasons[i].reason);
        aorta_text_append(lines, "", 1);
    }
}

void aorta_config_ignored(const struct aorta_config *config, struct aorta_text *lines) {
    for (size_t i = 0; i < config->table->ignored_count; i++) {
        if (!config->ignored[i]) continue;
        aorta_text_printf(lines, "%s (%s)", config->table->ignored[i].prefix, config->table->ignored[i].reason);
        aorta_text_append(lines, "", 1);
    }
}

void aorta_option_reasons_markdown(const struct aorta_option_reason *reasons, size_t count, struct aorta_text *text) {
    for (size_t i = 0; i < count; i++) {
        for (const char *const *key = reasons[i].keys; *key; key++)
            aorta_text_printf(text, "%s`%s`", key == reasons[i].keys ? "| " : ", ", *key);
        aorta_text_printf(text, " | %s |\n", reasons[i].reason);
    }
}
