#include "sparse/tables.h"
#include "base/place.h"

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

/* Adds a feature of the last table. */
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
    return aorta_is_one_of(key, known, sizeof known / sizeof *known);
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

/* weight_init_min and weight_init_max of the last table; null and absent: ±1/√rows. */
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

/* ---- the plan: shares of the owners ---- */

struct planner {
    const struct aorta_sparse_group *group;
    enum aorta_sparse_sharding sharding;
    int ranks, hosts, per_host;
    int *places;     /* by table: the rank or host that serves it */
    int64_t *loads;  /* by rank or host: columns that it looks up for a sample */
    int *order;      /* tables, the largest load first */
    int64_t *weight; /* by table */
};

static void weigh_tables(struct planner *p) {
    for (int f = 0; f < p->group->feature_count; f++) {
        const int table = p->group->features[f].table;
        p->weight[table] += p->group->tables[table].columns;
    }
    for (int t = 0; t < p->group->table_count; t++) { /* by insertion: equal ones stay in order */
        int at = t;
        for (; at > 0 && p->weight[p->order[at - 1]] < p->weight[t]; at--) p->order[at] = p->order[at - 1];
        p->order[at] = t;
    }
}

static void place_tables(struct planner *p, int places) {
    weigh_tables(p);
    for (int i = 0; i < p->group->table_count; i++) {
        const int table = p->order[i];
        int least = 0;
        for (int place = 1; place < places; place++)
            if (p->loads[place] < p->loads[least]) least = place;
        p->places[table] = least;
        p->loads[least] += p->weight[table];
    }
}

/* ---- parts ---- */

/* Piece `number` of `pieces` of [0, extent), cut at multiples of `unit`. */
static void cut(int64_t extent, int64_t unit, int pieces, int number, int64_t *first, int64_t *count) {
    const int64_t units = (extent + unit - 1) / unit, each = (units + pieces - 1) / pieces * unit;
    *first = each * number < extent ? each * number : extent;
    *count = extent - *first < each ? extent - *first : each;
}

/* The part of a feature that `owner` serves; no rows or columns: nothing. */
static struct aorta_sparse_part part_of(const struct planner *p, int feature, int owner) {
    const int number = p->group->features[feature].table;
    const struct aorta_sparse_table *table = &p->group->tables[number];
    struct aorta_sparse_part part = {feature, owner, 0, table->rows, 0, table->columns};
    const int64_t unit = table->columns >= 4 * (int64_t)p->ranks ? 4 : 1;
    const bool on_host = owner / p->per_host == p->places[number];
    switch (p->sharding) {
    case AORTA_TABLE_WISE:
        if (owner != p->places[number]) part.rows = 0;
        break;
    case AORTA_ROW_WISE:
        cut(table->rows, 1, p->ranks, owner, &part.first_row, &part.rows);
        break;
    case AORTA_COLUMN_WISE:
        cut(table->columns, unit, p->ranks, owner, &part.first_column, &part.columns);
        break;
    case AORTA_TABLE_ROW_WISE:
        cut(table->rows, 1, p->per_host, owner % p->per_host, &part.first_row, &part.rows);
        if (!on_host) part.rows = 0;
        break;
    case AORTA_TABLE_COLUMN_WISE:
        cut(table->columns, unit, p->per_host, owner % p->per_host, &part.first_column, &part.columns);
        if (!on_host) part.columns = 0;
        break;
    case AORTA_DATA_PARALLEL:
        break;
    }
    return part;
}

static void list_parts(const struct planner *p, struct aorta_sparse_plan *plan) {
    for (int owner = 0; owner < plan->owners; owner++) {
        plan->first[owner] = plan->part_count;
        for (int f = 0; f < p->group->feature_count; f++) {
            const struct aorta_sparse_part part = part_of(p, f, owner);
            if (part.rows < 1 || part.columns < 1) continue;
            plan->parts[plan->part_count++] = part;
            plan->widths[owner] += part.columns;
        }
    }
    plan->first[plan->owners] = plan->part_count;
}

aorta_status aorta_sparse_plan_make(const struct aorta_sparse_group *group, enum aorta_sparse_sharding sharding,
                                    int ranks, int local_ranks, struct aorta_arena *arena,
                                    struct aorta_sparse_plan *plan) {
    const bool by_host = sharding == AORTA_TABLE_ROW_WISE || sharding == AORTA_TABLE_COLUMN_WISE;
    const size_t tables = (size_t)group->table_count, features = (size_t)group->feature_count;
    const int per_host = local_ranks > 0 && ranks % local_ranks == 0 ? local_ranks : ranks;
    struct planner p = {
        .group = group, .sharding = sharding, .ranks = ranks, .hosts = ranks / per_host, .per_host = per_host};
    p.places = aorta_arena_alloc(arena, tables * sizeof *p.places);
    p.order = aorta_arena_alloc(arena, tables * sizeof *p.order);
    p.weight = aorta_arena_alloc(arena, tables * sizeof *p.weight);
    p.loads = aorta_arena_alloc(arena, (size_t)ranks * sizeof *p.loads);
    *plan = (struct aorta_sparse_plan){.owners = sharding == AORTA_DATA_PARALLEL ? 1 : ranks};
    plan->parts = aorta_arena_alloc(arena, (size_t)plan->owners * features * sizeof *plan->parts);
    plan->first = aorta_arena_alloc(arena, ((size_t)plan->owners + 1) * sizeof *plan->first);
    plan->widths = aorta_arena_alloc(arena, (size_t)plan->owners * sizeof *plan->widths);
    AORTA_TRY(aorta_arena_check(arena, "the plan of tables"));
    place_tables(&p, by_host ? p.hosts : ranks);
    list_parts(&p, plan);
    return NULL;
}

/* ---- batches ---- */

void aorta_sparse_maker_begin(struct aorta_sparse_maker *maker, const struct aorta_sparse_options *options,
                              const struct aorta_sparse_tables *tables, int world_size) {
    maker->options = options, maker->tables = tables, maker->world_size = world_size;
    aorta_normal_table_fill(&maker->normal);
}

enum kind { KIND_LENGTHS, KIND_IDS, KIND_WEIGHTS, KIND_DENSE, KIND_LABELS, KIND_COUNT };

static struct aorta_random random_of(const struct aorta_sparse_maker *m, int64_t number, int rank, int feature,
                                     enum kind kind) {
    const uint64_t features =
        (uint64_t)m->tables->groups[0].feature_count + (uint64_t)m->tables->groups[1].feature_count;
    const uint64_t batch = (uint64_t)number * (uint64_t)m->world_size + (uint64_t)rank;
    return (struct aorta_random){.seed = (uint64_t)m->options->train.training.seed,
                                 .domain = AORTA_RANDOM_DATA,
                                 .stream = (batch * features + (uint64_t)feature) * KIND_COUNT + kind};
}

/* Returns how many ids there are in all. */
static int64_t fill_lengths(const struct aorta_sparse_maker *m, int64_t number, int rank, int feature, int64_t samples,
                            float *values, int32_t *lengths) {
    const struct aorta_random random = random_of(m, number, rank, feature, KIND_LENGTHS);
    const float average = (float)m->options->model.feature_pooling_avg;
    int64_t sum = 0;
    aorta_random_normal(&random, &m->normal, 0, (size_t)samples, values);
    for (int64_t i = 0; i < samples; i++) {
        const int32_t length = (int32_t)fabsf(values[i] + average);
        if (lengths) lengths[i] = length;
        sum += length;
    }
    return sum;
}

static size_t put(size_t *at, size_t bytes) {
    const size_t place = *at;
    *at += aorta_place_round(bytes);
    return place;
}

aorta_status aorta_sparse_batch_layout(const struct aorta_sparse_maker *m, int64_t number, int rank,
                                       struct aorta_sparse_layout *layout) {
    const int64_t samples = aorta_sparse_batch_size(m->options, number);
    float *values = malloc((size_t)samples * sizeof *values);
    *layout = (struct aorta_sparse_layout){.samples = samples};
    if (!values) return AORTA_ERROR(AORTA_MEMORY, "a batch of %lld samples did not fit in memory", (long long)samples);
    const size_t rows = (size_t)samples;
    aorta_status status = NULL;
    layout->dense = put(&layout->bytes, rows * (size_t)m->options->model.num_float_features * sizeof(float));
    layout->labels = put(&layout->bytes, rows * sizeof(float));
    for (int g = 0; g < AORTA_SPARSE_GROUPS; g++) {
        const struct aorta_sparse_group *group = &m->tables->groups[g];
        struct aorta_sparse_lists *lists = &layout->groups[g];
        for (int f = 0; f < group->feature_count && !status; f++) {
            lists->ids += fill_lengths(m, number, rank, group->features[f].number, samples, values, NULL);
            status = aorta_signals_check(m->signals);
        }
        lists->lengths_at = put(&layout->bytes, (size_t)group->feature_count * rows * sizeof(int32_t));
        lists->ids_at = put(&layout->bytes, (size_t)lists->ids * sizeof(int64_t));
        lists->weights_at = put(&layout->bytes, group->weighted ? (size_t)lists->ids * sizeof(float) : 0);
    }
    free(values);
    return status;
}

/* Work is done in pieces of some milliseconds, so that a signal can end it between two of them. */
static size_t next_piece(size_t done, size_t count) {
    enum { PIECE = 1 << 22 };
    return count - done < PIECE ? count - done : PIECE;
}

/* `values`: ids below `rows`, or fp32. */
static aorta_status fill(const struct aorta_sparse_maker *m, const struct aorta_random *random, enum kind kind,
                         size_t count, uint32_t rows, void *values) {
    for (size_t at = 0, piece; at < count; at += piece) {
        piece = next_piece(at, count);
        if (kind == KIND_IDS)
            aorta_random_below(random, at, piece, rows, (int64_t *)values + at);
        else if (kind == KIND_DENSE)
            aorta_random_normal(random, &m->normal, at, piece, (float *)values + at);
        else
            aorta_random_uniform(random, at, piece, 0, 1, (float *)values + at);
        AORTA_TRY(aorta_signals_check(m->signals));
    }
    return NULL;
}

static aorta_status fill_group(const struct aorta_sparse_maker *m, int64_t number, int rank, int g,
                               const struct aorta_sparse_layout *layout, char *memory) {
    const struct aorta_sparse_group *group = &m->tables->groups[g];
    const struct aorta_sparse_lists *lists = &layout->groups[g];
    int32_t *lengths = (int32_t *)(memory + lists->lengths_at);
    int64_t *ids = (int64_t *)(memory + lists->ids_at), at = 0;
    float *weights = (float *)(memory + lists->weights_at);
    for (int f = 0; f < group->feature_count; f++) {
        const struct aorta_sparse_feature *feature = &group->features[f];
        /* The values use the memory of the dense features, which are made later. */
        const int64_t count = fill_lengths(m, number, rank, feature->number, layout->samples,
                                           (float *)(memory + layout->dense), lengths + f * layout->samples);
        struct aorta_random random = random_of(m, number, rank, feature->number, KIND_IDS);
        AORTA_TRY(fill(m, &random, KIND_IDS, (size_t)count, (uint32_t)group->tables[feature->table].rows, ids + at));
        random = random_of(m, number, rank, feature->number, KIND_WEIGHTS);
        if (group->weighted) AORTA_TRY(fill(m, &random, KIND_WEIGHTS, (size_t)count, 0, weights + at));
        at += count;
    }
    return NULL;
}

aorta_status aorta_sparse_batch_fill(const struct aorta_sparse_maker *m, int64_t number, int rank,
                                     const struct aorta_sparse_layout *layout, void *memory) {
    char *bytes = memory;
    for (int g = 0; g < AORTA_SPARSE_GROUPS; g++) AORTA_TRY(fill_group(m, number, rank, g, layout, bytes));
    const struct aorta_random dense = random_of(m, number, rank, 0, KIND_DENSE);
    const struct aorta_random labels = random_of(m, number, rank, 0, KIND_LABELS);
    AORTA_TRY(fill(m, &dense, KIND_DENSE, (size_t)(layout->samples * m->options->model.num_float_features), 0,
                   bytes + layout->dense));
    return fill(m, &labels, KIND_LABELS, (size_t)layout->samples, 0, bytes + layout->labels);
}
