#include "config/config.h"

#include "base/files.h"
#include "config/reader.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { ERRORS_SHOWN = 10, LARGEST_FILE = 1 << 20 };

/* One pass over the documents: the file, and the overrides' values. */
struct pass {
    struct aorta_config *config;
    yaml_document_t *document; /* the current one */
    const char *override;      /* NULL: the file */
    struct aorta_text errors;  /* one line each */
    int error_count;
};

/* ---- finding rows ---- */

static const struct aorta_option *find_row(const struct aorta_option_table *table, const char *key) {
    for (size_t i = 0; i < table->alias_count; i++)
        if (strcmp(table->aliases[i].name, key) == 0) key = table->aliases[i].key;
    for (size_t i = 0; i < table->count; i++)
        if (strcmp(table->rows[i].key, key) == 0) return &table->rows[i];
    return NULL;
}

static bool is_below(const char *key, const char *section, size_t section_length) {
    return strncmp(key, section, section_length) == 0 && key[section_length] == '.';
}

static bool is_section(const struct aorta_option_table *table, const char *path) {
    for (size_t i = 0; i < table->count; i++)
        if (is_below(table->rows[i].key, path, strlen(path))) return true;
    return false;
}

/* Whether the key, or a section above it, is accepted without effect. Remembers it for aorta_config_ignored. */
static bool is_ignored(struct aorta_config *config, const char *path) {
    for (size_t i = 0; i < config->table->ignored_count; i++) {
        const char *prefix = config->table->ignored[i].prefix;
        if (strcmp(path, prefix) != 0 && !is_below(path, prefix, strlen(prefix))) continue;
        config->ignored[i] = true;
        return true;
    }
    return false;
}

/* ---- messages ---- */

static void place_of(const struct aorta_config *config, int line, const char *override, struct aorta_text *text) {
    if (override)
        aorta_text_printf(text, "--override %s", override);
    else
        aorta_text_printf(text, "%s:%d", config->path, line);
}

static int line_of(const yaml_node_t *node) {
    return (int)node->start_mark.line + 1;
}

/* Starts a line "PLACE: KEY: "; false when enough have been reported. */
static bool begin_error(struct pass *pass, const yaml_node_t *node, const char *key) {
    if (++pass->error_count > ERRORS_SHOWN) return false;
    if (pass->errors.length) aorta_text_puts(&pass->errors, "\n");
    place_of(pass->config, line_of(node), pass->override, &pass->errors);
    aorta_text_puts(&pass->errors, ": ");
    if (key) aorta_text_shortened(&pass->errors, key);
    if (key) aorta_text_puts(&pass->errors, ": ");
    return true;
}

/* As begin_error, with the value found and the value expected. */
static bool begin_wrong(struct pass *pass, const yaml_node_t *node, const char *key, const char *expected) {
    if (!begin_error(pass, node, key)) return false;
    aorta_text_puts(&pass->errors, "found ");
    aorta_yaml_describe(pass->document, node, &pass->errors);
    aorta_text_printf(&pass->errors, "; expected %s", expected);
    return true;
}

static bool enough(const struct pass *pass) {
    return pass->config->arena.failed || pass->error_count > ERRORS_SHOWN;
}

/* The names that a section may have ("" is the top), once each: "training: epochs, batch_size". */
static void list_names(const struct aorta_option_table *table, const char *section, struct aorta_text *text) {
    size_t length = strlen(section), skip = length ? length + 1 : 0, previous_length = 0;
    const char *previous = "";
    for (size_t i = 0; i < table->count; i++) {
        const char *key = table->rows[i].key;
        if (length && !is_below(key, section, length)) continue;
        const char *name = key + skip;
        const size_t name_length = strcspn(name, ".");
        if (name_length == previous_length && strncmp(name, previous, name_length) == 0) continue;
        aorta_text_printf(text, "%s%.*s", previous_length ? ", " : "", (int)name_length, name);
        previous = name;
        previous_length = name_length;
    }
}

/* Suggests the nearest key if it is at most 2 edits away, else a key with the same last component ("optimizer.lr" for
 * "training.lr"), else the nearest key. */
static const char *suggest(struct pass *pass, const char *path) {
    const struct aorta_option_table *table = pass->config->table;
    const char *dot = strrchr(path, '.');
    const char *leaf = dot ? dot + 1 : path;
    const char **keys = aorta_arena_alloc(&pass->config->arena, table->count * sizeof *keys);
    if (!keys) return NULL;
    const char *same_leaf = NULL;
    for (size_t i = 0; i < table->count; i++) {
        keys[i] = table->rows[i].key;
        dot = strrchr(keys[i], '.');
        if (!same_leaf && strcmp(dot ? dot + 1 : keys[i], leaf) == 0) same_leaf = keys[i];
    }
    const char *nearest = aorta_nearest(path, keys, table->count);
    return nearest && (!same_leaf || aorta_edit_distance(path, nearest) <= 2) ? nearest : same_leaf;
}

static const char *nearest_section(const struct pass *pass, const char *path) {
    const struct aorta_option_table *table = pass->config->table;
    const char **names = aorta_arena_alloc(&pass->config->arena, table->count * sizeof *names);
    size_t count = 0;
    for (size_t i = 0; names && i < table->count; i++) {
        const char *dot = strrchr(table->rows[i].key, '.');
        if (!dot) continue;
        char *name = aorta_arena_strdup(&pass->config->arena, table->rows[i].key);
        if (!name) break;
        name[dot - table->rows[i].key] = '\0';
        names[count++] = name;
    }
    return aorta_nearest(path, names, count);
}

static void report_unknown(struct pass *pass, const char *path, const yaml_node_t *key, const yaml_node_t *value) {
    const struct aorta_option_table *table = pass->config->table;
    for (size_t i = 0; i < table->absent_count; i++) {
        const char *prefix = table->absent[i].prefix;
        if (strcmp(path, prefix) != 0 && !is_below(path, prefix, strlen(prefix))) continue;
        if (begin_error(pass, key, path)) aorta_text_puts(&pass->errors, table->absent[i].reason);
        return;
    }
    if (!begin_error(pass, key, path)) return;
    aorta_text_puts(&pass->errors, "unknown key");
    const char *nearest = value->type == YAML_MAPPING_NODE ? nearest_section(pass, path) : suggest(pass, path);
    if (nearest) {
        aorta_text_printf(&pass->errors, "; did you mean %s?", nearest);
        return;
    }
    char section[64] = "";
    const char *dot = strrchr(path, '.');
    if (dot && (size_t)(dot - path) < sizeof section) memcpy(section, path, (size_t)(dot - path));
    if (!is_section(table, section)) *section = '\0';
    if (*section)
        aorta_text_printf(&pass->errors, "; the keys of %s are ", section);
    else
        aorta_text_puts(&pass->errors, "; the sections are ");
    list_names(table, section, &pass->errors);
}

static void report_wrong(struct pass *pass, const struct aorta_option *row, const yaml_node_t *value) {
    if (!begin_wrong(pass, value, row->key, "")) return;
    aorta_option_describe(row, &pass->errors);
    const char *nearest = row->choices && value->type == YAML_SCALAR_NODE
                              ? aorta_option_nearest_choice(row, (const char *)value->data.scalar.value)
                              : NULL;
    if (nearest)
        aorta_text_printf(&pass->errors, "; did you mean %s?", nearest);
    else
        aorta_text_printf(&pass->errors, " (default: %s)", row->fallback);
}

/* ---- walking ---- */

static void apply(struct pass *pass, const char *path, const yaml_node_t *key, const yaml_node_t *value);

/* Stores a list or a map as one scalar, which is JSON. */
static void apply_tree(struct pass *pass, const struct aorta_option *row, const yaml_node_t *value) {
    struct aorta_text text = {0};
    struct aorta_json json;
    aorta_json_begin(&json, &text, 0);
    const yaml_node_type_t wanted = row->type == AORTA_OPTION_MAP ? YAML_MAPPING_NODE : YAML_SEQUENCE_NODE;
    const bool fits = value->type == wanted && aorta_yaml_to_json(pass->document, value, &json);
    if (!fits)
        report_wrong(pass, row, value);
    else if (!text.failed)
        aorta_option_store(row, &(struct aorta_scalar){text.data, false}, 1, false, pass->config->values,
                           &pass->config->arena);
    pass->config->arena.failed |= text.failed;
    aorta_text_free(&text);
}

static void apply_row(struct pass *pass, const struct aorta_option *row, const yaml_node_t *key,
                      const yaml_node_t *value) {
    struct aorta_config *config = pass->config;
    size_t index = (size_t)(row - config->table->rows);
    if (!pass->override && config->origins[index].kind == AORTA_FROM_FILE) {
        if (!begin_error(pass, key, row->key)) return;
        aorta_text_printf(&pass->errors, "given twice, first on line %d; remove one of them",
                          config->origins[index].line);
        return;
    }
    config->origins[index] =
        (struct aorta_origin){pass->override ? AORTA_FROM_OVERRIDE : AORTA_FROM_FILE, line_of(key), pass->override};
    struct aorta_scalar *scalars;
    size_t count;
    bool list;
    bool fits = aorta_yaml_scalars(pass->document, value, &config->arena, &scalars, &count, &list);
    bool null = fits && !list && !scalars[0].quoted && aorta_scalar_is_null(scalars[0].text);
    if ((row->type == AORTA_OPTION_TREE || row->type == AORTA_OPTION_MAP) && !(aorta_option_takes_null(row) && null))
        apply_tree(pass, row, value);
    else if (!fits || !aorta_option_store(row, scalars, count, list, config->values, &config->arena))
        report_wrong(pass, row, value);
}

/* Reports a key that is twice in one mapping, which the YAML library accepts. Sections need this check, as they are no
 * rows. */
static bool is_repeated(struct pass *pass, const yaml_node_t *mapping, const yaml_node_pair_t *pair, const char *path) {
    const yaml_node_t *key = yaml_document_get_node(pass->document, pair->key);
    for (const yaml_node_pair_t *earlier = mapping->data.mapping.pairs.start; earlier < pair; earlier++) {
        const yaml_node_t *other = yaml_document_get_node(pass->document, earlier->key);
        if (other->type != YAML_SCALAR_NODE ||
            strcmp((const char *)other->data.scalar.value, (const char *)key->data.scalar.value) != 0)
            continue;
        if (begin_error(pass, key, path)) {
            aorta_text_puts(&pass->errors, "given twice");
            if (!pass->override) aorta_text_printf(&pass->errors, ", first on line %d", line_of(other));
            aorta_text_puts(&pass->errors, "; remove one of them");
        }
        return true;
    }
    return false;
}

static void walk(struct pass *pass, const char *prefix, const yaml_node_t *mapping) {
    const yaml_node_pair_t *pairs = mapping->data.mapping.pairs.start;
    for (const yaml_node_pair_t *pair = pairs; pair < mapping->data.mapping.pairs.top && !enough(pass); pair++) {
        const yaml_node_t *key = yaml_document_get_node(pass->document, pair->key);
        if (key->type != YAML_SCALAR_NODE || !*key->data.scalar.value ||
            strlen((const char *)key->data.scalar.value) != key->data.scalar.length) {
            if (!begin_error(pass, key, *prefix ? prefix : NULL)) return;
            aorta_text_puts(&pass->errors, "a key must be a name, found ");
            aorta_yaml_describe(pass->document, key, &pass->errors);
            continue;
        }
        const char *path =
            aorta_arena_printf(&pass->config->arena, "%s%s%s", prefix, *prefix ? "." : "", key->data.scalar.value);
        if (!path) return;
        if (is_repeated(pass, mapping, pair, path)) continue;
        apply(pass, path, key, yaml_document_get_node(pass->document, pair->value));
    }
}

static bool is_plain_null(const yaml_node_t *node) {
    return node->type == YAML_SCALAR_NODE && node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           aorta_scalar_is_null((const char *)node->data.scalar.value);
}

/* The recursion is as deep as the longest key, for any document. */
static void apply(struct pass *pass, const char *path, const yaml_node_t *key, const yaml_node_t *value) {
    const struct aorta_option_table *table = pass->config->table;
    const struct aorta_option *row = find_row(table, path);
    if (row) {
        apply_row(pass, row, key, value);
        return;
    }
    if (is_ignored(pass->config, path)) return;
    if (!is_section(table, path)) {
        report_unknown(pass, path, key, value);
        return;
    }
    if (value->type == YAML_MAPPING_NODE)
        walk(pass, path, value);
    else if (!is_plain_null(value) && /* all keys of a section may be commented out */
             begin_wrong(pass, value, path, "a section with the keys "))
        list_names(table, path, &pass->errors);
}

/* ---- sources ---- */

static void read_document(struct pass *pass) {
    const yaml_node_t *root = yaml_document_get_root_node(pass->document);
    if (!root || is_plain_null(root)) return; /* an empty file: defaults */
    if (root->type == YAML_MAPPING_NODE)
        walk(pass, "", root);
    else if (begin_wrong(pass, root, NULL, "the sections "))
        list_names(pass->config->table, "", &pass->errors);
}

static aorta_status parse_file(struct pass *pass, const char *bytes, size_t length) {
    const char *path = pass->config->path, *suffix = strrchr(path, '.');
    if (suffix && strcasecmp(suffix, ".json") == 0) AORTA_TRY(aorta_json_check(bytes, length, path));
    yaml_document_t document;
    AORTA_TRY(aorta_yaml_load(bytes, length, path, true, &document));
    pass->document = &document;
    read_document(pass);
    yaml_document_delete(&document);
    return NULL;
}

static aorta_status read_file(struct pass *pass) {
    char *bytes;
    size_t length;
    aorta_status status = aorta_file_read_small(pass->config->path, LARGEST_FILE, &bytes, &length);
    if (status) {
        if (aorta_status_code(status) != AORTA_IO) return status;
        aorta_status wrong = AORTA_ERROR(AORTA_CONFIG, "%s; give the path of a configuration in YAML or JSON",
                                         aorta_status_message(status));
        aorta_status_free(status);
        return wrong;
    }
    status = parse_file(pass, bytes, length);
    free(bytes);
    return status;
}

static aorta_status read_override(struct pass *pass, const char *override) {
    struct aorta_config *config = pass->config;
    const char *equals = strchr(override, '=');
    char *text = aorta_arena_strdup(&config->arena, override); /* outlives the command line */
    if (!equals || equals == override) {
        return AORTA_ERROR(AORTA_CONFIG, "--override %s: expected KEY=VALUE, for instance %s=%s", override,
                           config->table->rows[0].key, config->table->rows[0].fallback);
    }
    char *place = aorta_arena_printf(&config->arena, "--override %s", text);
    char *path = aorta_arena_printf(&config->arena, "%.*s", (int)(equals - override), override);
    AORTA_TRY(aorta_arena_check(&config->arena, "an override"));
    yaml_document_t document;
    const char *value = equals + 1 + strspn(equals + 1, " ");
    AORTA_TRY(aorta_yaml_load(*value ? value : "null", *value ? strlen(value) : 4, place, false, &document));
    const yaml_node_t *root = yaml_document_get_root_node(&document);
    pass->document = &document;
    pass->override = text;
    if (root) apply(pass, path, root, root);
    yaml_document_delete(&document);
    if (root) return NULL;
    /* Nothing but a comment. */
    return AORTA_ERROR(AORTA_CONFIG, "%s: there is no value after \"=\"; put it in quotes", place);
}

static aorta_status report(const struct pass *pass) {
    const int count = pass->error_count;
    AORTA_TRY(aorta_arena_check(&pass->config->arena, "the configuration"));
    AORTA_TRY(aorta_text_check(&pass->errors));
    if (count == 0) return NULL;
    if (count == 1) return AORTA_ERROR(AORTA_CONFIG, "%s", pass->errors.data);
    if (count <= ERRORS_SHOWN) return AORTA_ERROR(AORTA_CONFIG, "%d errors:\n%s", count, pass->errors.data);
    return AORTA_ERROR(AORTA_CONFIG, "more than %d errors; the first are:\n%s", ERRORS_SHOWN, pass->errors.data);
}

static aorta_status fill(struct pass *pass, const char *const *overrides, size_t override_count) {
    struct aorta_config *config = pass->config;
    for (size_t i = 0; i < config->table->count; i++)
        AORTA_TRY(aorta_option_store_default(&config->table->rows[i], config->values, &config->arena));
    if (config->path) AORTA_TRY(read_file(pass));
    for (size_t i = 0; i < override_count; i++) AORTA_TRY(read_override(pass, overrides[i]));
    return report(pass);
}

aorta_status aorta_config_load(const struct aorta_option_table *table, const char *path, const char *const *overrides,
                               size_t override_count, void *values, struct aorta_config *config) {
    *config = (struct aorta_config){.table = table, .values = values};
    config->origins = aorta_arena_alloc(&config->arena, table->count * sizeof *config->origins);
    config->ignored = aorta_arena_alloc(&config->arena, (table->ignored_count + 1) * sizeof *config->ignored);
    config->path = path ? aorta_arena_strdup(&config->arena, path) : NULL;
    struct pass pass = {.config = config};
    aorta_status status = aorta_arena_check(&config->arena, "the configuration");
    if (!status) status = fill(&pass, overrides, override_count);
    aorta_text_free(&pass.errors);
    if (status) aorta_config_free(config);
    return status;
}

void aorta_config_free(struct aorta_config *config) {
    aorta_arena_free(&config->arena);
    *config = (struct aorta_config){0};
}

/* ---- sections ---- */

static bool has_key(yaml_document_t *document, const char *name) {
    const yaml_node_t *root = yaml_document_get_root_node(document);
    if (!root || root->type != YAML_MAPPING_NODE) return false;
    const yaml_node_pair_t *pair = root->data.mapping.pairs.start;
    for (; pair < root->data.mapping.pairs.top; pair++) {
        const yaml_node_t *key = yaml_document_get_node(document, pair->key);
        if (key->type == YAML_SCALAR_NODE && strcmp((const char *)key->data.scalar.value, name) == 0) return true;
    }
    return false;
}

bool aorta_config_has_section(const char *path, const char *section) {
    char *bytes;
    size_t length;
    yaml_document_t document;
    aorta_status status = aorta_file_read_small(path, LARGEST_FILE, &bytes, &length);
    if (!status) {
        status = aorta_yaml_load(bytes, length, path, true, &document);
        free(bytes);
    }
    if (status) {
        aorta_status_free(status);
        return false;
    }
    const bool found = has_key(&document, section);
    yaml_document_delete(&document);
    return found;
}

/* ---- places ---- */

const struct aorta_origin *aorta_config_origin(const struct aorta_config *config, const char *key) {
    const struct aorta_option *row = find_row(config->table, key);
    return row ? &config->origins[row - config->table->rows] : NULL;
}

void aorta_config_place(const struct aorta_config *config, const char *key, struct aorta_text *text) {
    const struct aorta_origin *origin = aorta_config_origin(config, key);
    if (!origin || origin->kind == AORTA_FROM_DEFAULT)
        aorta_text_puts(text, "default");
    else
        place_of(config, origin->line, origin->override, text);
}

aorta_status aorta_config_error(const struct aorta_config *config, const char *key, const char *format, ...) {
    struct aorta_text text = {0};
    const struct aorta_origin *origin = aorta_config_origin(config, key);
    const bool given = origin && origin->kind != AORTA_FROM_DEFAULT;
    if (given) aorta_config_place(config, key, &text);
    aorta_text_printf(&text, given ? ": %s: " : "%s (by default): ", key);
    va_list args;
    va_start(args, format);
    aorta_text_vprintf(&text, format, args);
    va_end(args);
    return aorta_text_error(&text, AORTA_CONFIG);
}
