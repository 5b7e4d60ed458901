#include "sparse/tables.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static aorta_status no_memory(void) {
    return AORTA_ERROR(AORTA_MEMORY, "the list of tables did not fit in memory");
}

/* ---- growing ---- */

struct maker {
    const struct aorta_sparse_options *options;
    struct aorta_sparse_tables *tables;
    size_t table_capacity[AORTA_SPARSE_GROUPS], feature_capacity[AORTA_SPARSE_GROUPS];
    int table_count, feature_count;
};

static aorta_status add_table(struct maker *m, int group, const char *name, int64_t rows, int64_t columns) {
    struct aorta_sparse_group *g = &m->tables->groups[group];
    struct aorta_arena *arena = &m->tables->arena;
    struct aorta_sparse_table *tables =
        aorta_arena_grow(arena, g->tables, (size_t)g->table_count, &m->table_capacity[group], sizeof *tables);
    const char *copy = aorta_arena_strdup(arena, name);
    if (!tables || !copy) return no_memory();
    g->tables = tables;
    const struct aorta_sparse_tables_options *o = &m->options->tables;
    if (o->most_rows && rows > o->most_rows) rows = o->most_rows;
    if (o->most_columns && columns > o->most_columns) columns = o->most_columns;
    const float bound = 1.0f / sqrtf((float)rows);
    tables[g->table_count++] = (struct aorta_sparse_table){copy, rows, columns, m->table_count++, -bound, bound};
    return NULL;
}

/* Of the table added last. */
static aorta_status add_feature(struct maker *m, int group) {
    struct aorta_sparse_group *g = &m->tables->groups[group];
    struct aorta_sparse_feature *features = aorta_arena_grow(&m->tables->arena, g->features, (size_t)g->feature_count,
                                                             &m->feature_capacity[group], sizeof *features);
    if (!features) return no_memory();
    g->features = features;
    features[g->feature_count++] = (struct aorta_sparse_feature){g->table_count - 1, m->feature_count++, 0};
    return NULL;
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static aorta_status add_made(struct maker *m, int group, const char *prefix, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s%lld", prefix, (long long)i);
        AORTA_TRY(add_table(m, group, name, larger(i + 1, 100) * 1000, m->options->tables.dim));
        AORTA_TRY(add_feature(m, group));
    }
    return NULL;
}

/* ---- additional tables ---- */

#define ADDITIONAL "EmbeddingTablesConfig.additional_tables"

static aorta_status wrong(const struct maker *m, size_t list, size_t item, const char *what) {
    return aorta_config_error(&m->options->train.config, ADDITIONAL, "list %zu, table %zu: %s", list, item, what);
}

static bool is_known(const char *key) {
    static const char *const known[] = {"name",      "embedding_dim", "num_embeddings",  "feature_names",
                                        "data_type", "pooling",       "weight_init_max", "weight_init_min"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(key, known[i]) == 0) return true;
    return false;
}

/* Absent, or this one choice. */
static bool is_only(json_t *table, const char *key, const char *choice) {
    json_t *value = json_object_get(table, key);
    return !value || (json_is_string(value) && strcmp(json_string_value(value), choice) == 0);
}

static bool is_there_before(const struct maker *m, int group, const char *name) {
    const struct aorta_sparse_group *g = &m->tables->groups[group];
    for (int t = 0; t < g->table_count; t++)
        if (strcmp(g->tables[t].name, name) == 0) return true;
    return false;
}

static aorta_status check_names(const struct maker *m, json_t *names, size_t list, size_t item) {
    const size_t count = json_array_size(names);
    if (!count) return wrong(m, list, item, "feature_names: expected a list of texts");
    for (size_t i = 0; i < count; i++) {
        const char *name = json_string_value(json_array_get(names, i));
        if (!name) return wrong(m, list, item, "feature_names: expected a list of texts");
        for (size_t before = 0; before < i; before++)
            if (strcmp(json_string_value(json_array_get(names, before)), name) == 0)
                return wrong(m, list, item, "feature_names: one is given twice");
    }
    return NULL;
}

static aorta_status check_table(const struct maker *m, json_t *table, size_t list, size_t item) {
    const char *key;
    json_t *value;
    if (!json_is_object(table))
        return wrong(m, list, item, "expected name, embedding_dim, num_embeddings, feature_names");
    json_object_foreach(table, key, value) if (!is_known(key)) {
        char text[128];
        snprintf(text, sizeof text, "unknown key %.60s", key);
        return wrong(m, list, item, text);
    }
    const json_int_t columns = json_integer_value(json_object_get(table, "embedding_dim"));
    const json_int_t rows = json_integer_value(json_object_get(table, "num_embeddings"));
    if (!json_is_string(json_object_get(table, "name"))) return wrong(m, list, item, "name: expected a text");
    if (columns < 1 || columns > 4096) return wrong(m, list, item, "embedding_dim: expected an integer from 1 to 4096");
    if (rows < 1 || rows > INT32_MAX)
        return wrong(m, list, item, "num_embeddings: expected an integer from 1 to 2147483647");
    if (!is_only(table, "pooling", "SUM")) return wrong(m, list, item, "pooling: only SUM is possible");
    if (!is_only(table, "data_type", "FP32")) return wrong(m, list, item, "data_type: only FP32 is possible");
    if (is_there_before(m, list == 1, json_string_value(json_object_get(table, "name"))))
        return wrong(m, list, item, "name: another table has it");
    return check_names(m, json_object_get(table, "feature_names"), list, item);
}

/* weight_init_min and weight_init_max; null and absent: ±1/√rows. Those of the table added last. */
static aorta_status set_start_values(const struct maker *m, json_t *table, size_t list, size_t item) {
    struct aorta_sparse_group *group = &m->tables->groups[list == 1];
    struct aorta_sparse_table *added = &group->tables[group->table_count - 1];
    json_t *low = json_object_get(table, "weight_init_min"), *high = json_object_get(table, "weight_init_max");
    if (low && !json_is_null(low)) added->low = json_is_number(low) ? (float)json_number_value(low) : NAN;
    if (high && !json_is_null(high)) added->high = json_is_number(high) ? (float)json_number_value(high) : NAN;
    if (isfinite(added->low) && isfinite(added->high) && added->low <= added->high) return NULL;
    return wrong(m, list, item, "weight_init_min, weight_init_max: expected two numbers, the first at most the second");
}

static aorta_status add_list(struct maker *m, json_t *list, size_t number) {
    const int group = number == 1;
    for (size_t item = 0; item < json_array_size(list); item++) {
        json_t *table = json_array_get(list, item);
        AORTA_TRY(check_table(m, table, number, item));
        AORTA_TRY(add_table(m, group, json_string_value(json_object_get(table, "name")),
                            json_integer_value(json_object_get(table, "num_embeddings")),
                            json_integer_value(json_object_get(table, "embedding_dim"))));
        AORTA_TRY(set_start_values(m, table, number, item));
        const size_t names = json_array_size(json_object_get(table, "feature_names"));
        for (size_t i = 0; i < names; i++) AORTA_TRY(add_feature(m, group));
    }
    return NULL;
}

static aorta_status add_lists(struct maker *m, json_t *lists) {
    for (size_t i = 0; i < json_array_size(lists); i++) {
        json_t *list = json_array_get(lists, i);
        if (!json_is_array(list))
            return aorta_config_error(&m->options->train.config, ADDITIONAL, "item %zu: expected a list of tables", i);
        AORTA_TRY(add_list(m, list, i));
    }
    return NULL;
}

static aorta_status add_additional(struct maker *m) {
    json_error_t error;
    const char *text = m->options->tables.additional;
    json_t *lists = text ? json_loads(text, JSON_REJECT_DUPLICATES, &error) : NULL;
    if (text && !lists) return aorta_config_error(&m->options->train.config, ADDITIONAL, "%s", error.text);
    aorta_status status = add_lists(m, lists);
    json_decref(lists);
    return status;
}

/* ---- all ---- */

static aorta_status make(struct maker *m) {
    AORTA_TRY(add_made(m, 0, "table_", m->options->tables.unweighted));
    AORTA_TRY(add_made(m, 1, "weighted_table_", m->options->tables.weighted));
    AORTA_TRY(add_additional(m));
    for (int g = 0; g < AORTA_SPARSE_GROUPS; g++) {
        struct aorta_sparse_group *group = &m->tables->groups[g];
        group->weighted = g == 1;
        for (int f = 0; f < group->feature_count; f++) {
            group->features[f].column = m->tables->columns;
            m->tables->columns += group->tables[group->features[f].table].columns;
        }
    }
    if (m->tables->columns) return NULL;
    return aorta_config_error(&m->options->train.config, "EmbeddingTablesConfig.num_unweighted_features",
                              "there are no features; make it at least 1");
}

aorta_status aorta_sparse_tables_make(const struct aorta_sparse_options *options, struct aorta_sparse_tables *tables) {
    *tables = (struct aorta_sparse_tables){0};
    struct maker m = {.options = options, .tables = tables};
    aorta_status status = make(&m);
    if (status) aorta_sparse_tables_free(tables);
    return status;
}

void aorta_sparse_tables_free(struct aorta_sparse_tables *tables) {
    aorta_arena_free(&tables->arena);
    *tables = (struct aorta_sparse_tables){0};
}
