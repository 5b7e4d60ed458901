/* The tables of a sweep as CSV. */
#include "base/result_table.h"
#include "sweep/result.h"

#include <stdio.h>
#include <string.h>

enum { POINT_SIZE = 1024 };

static const char *objective_key(int objective) {
    return aorta_sweep_objectives[objective].key;
}

static void name_point(const struct aorta_sweep_space *space, int64_t cell, char name[POINT_SIZE]) {
    struct aorta_text text = {0};
    aorta_sweep_point_text(space, cell, &text);
    snprintf(name, POINT_SIZE, "%s", text.data ? text.data : "");
    aorta_text_free(&text);
}

struct points_of {
    const struct aorta_sweep_plan *plan;
    const struct aorta_sweep_result *result;
};

struct point_values {
    const char *point;
    int64_t steps;
    int runs;
    double figures[AORTA_SWEEP_OBJECTIVE_COUNT];
    char name[POINT_SIZE];
};

#define AT(member) offsetof(struct point_values, member)
static const struct aorta_row point_rows[] = {{"point", AORTA_ROW_TEXT, AT(point), .help = "values of its knobs"},
                                              {"steps", AORTA_ROW_INT, AT(steps), .help = "of each of its trials"},
                                              {"runs", AORTA_ROW_INT32, AT(runs), .help = "trials that have a figure"},
                                              {"mean", AORTA_ROW_NUMBER, AT(figures), .help = "of those",
                                               .name = objective_key, .names = AORTA_SWEEP_OBJECTIVE_COUNT},
                                              {0}};
#undef AT

static size_t point_count(const void *of) {
    return ((const struct points_of *)of)->result->count;
}

static bool fill_point(const void *of, size_t index, void *values) {
    const struct points_of *points = of;
    const struct aorta_sweep_point *point = &points->result->points[index];
    struct point_values *out = values;
    name_point(&points->plan->space, point->cell, out->name);
    out->point = out->name;
    out->steps = point->steps;
    out->runs = point->runs;
    memcpy(out->figures, point->figures, sizeof out->figures);
    return true;
}

aorta_status aorta_sweep_result_csv(const struct aorta_sweep_plan *plan, const struct aorta_sweep_result *result,
                                    const char *folder) {
    static const struct aorta_result_table points = {.key = "points",
                                                     .rows = point_rows,
                                                     .size = sizeof(struct point_values),
                                                     .count = point_count,
                                                     .fill = fill_point};
    return aorta_table_csv(&points, &(struct points_of){plan, result}, folder);
}
