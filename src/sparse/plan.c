/* Which rank serves what: see tables.h. */
#include "sparse/tables.h"

#include <stdlib.h>

/* ---- who has how much ---- */

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

/* What `owner` serves of a feature; no rows or columns: nothing. */
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

static aorta_status list_parts(const struct planner *p, struct aorta_sparse_plan *plan) {
    const size_t most = (size_t)plan->owners * (size_t)p->group->feature_count;
    plan->parts = calloc(most ? most : 1, sizeof *plan->parts);
    plan->first = calloc((size_t)plan->owners + 1, sizeof *plan->first);
    plan->widths = calloc((size_t)plan->owners, sizeof *plan->widths);
    if (!plan->parts || !plan->first || !plan->widths)
        return AORTA_ERROR(AORTA_MEMORY, "the plan of tables did not fit in memory");
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
    return NULL;
}

static aorta_status make(struct planner *p, struct aorta_sparse_plan *plan) {
    const size_t tables = (size_t)p->group->table_count + 1;
    p->places = calloc(tables, sizeof *p->places);
    p->order = calloc(tables, sizeof *p->order);
    p->weight = calloc(tables, sizeof *p->weight);
    p->loads = calloc((size_t)p->ranks, sizeof *p->loads);
    if (!p->places || !p->order || !p->weight || !p->loads)
        return AORTA_ERROR(AORTA_MEMORY, "the plan of tables did not fit in memory");
    const bool by_host = p->sharding == AORTA_TABLE_ROW_WISE || p->sharding == AORTA_TABLE_COLUMN_WISE;
    place_tables(p, by_host ? p->hosts : p->ranks);
    plan->owners = p->sharding == AORTA_DATA_PARALLEL ? 1 : p->ranks;
    return list_parts(p, plan);
}

aorta_status aorta_sparse_plan_make(const struct aorta_sparse_group *group, enum aorta_sparse_sharding sharding,
                                    int ranks, int local_ranks, struct aorta_sparse_plan *plan) {
    const int per_host = local_ranks > 0 && ranks % local_ranks == 0 ? local_ranks : ranks;
    struct planner p = {
        .group = group, .sharding = sharding, .ranks = ranks, .hosts = ranks / per_host, .per_host = per_host};
    *plan = (struct aorta_sparse_plan){0};
    aorta_status status = make(&p, plan);
    free(p.places), free(p.order), free(p.weight), free(p.loads);
    if (status) aorta_sparse_plan_free(plan);
    return status;
}

void aorta_sparse_plan_free(struct aorta_sparse_plan *plan) {
    free(plan->parts), free(plan->first), free(plan->widths);
    *plan = (struct aorta_sparse_plan){0};
}
