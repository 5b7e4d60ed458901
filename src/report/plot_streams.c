/* The streams of one representative iteration: a row per role and rank, a box per operation. */
#include "report/gnuplot.h"
#include "report/plots.h"

#include <stdlib.h>
#include <string.h>

enum { RANKS_SHOWN = 4 };

/* What distinguishes boxes; the order is that of the legend. */
enum sort {
    SORT_COMPUTE,
    SORT_ALL_GATHER,
    SORT_REDUCE_SCATTER,
    SORT_ALL_REDUCE,
    SORT_OTHER_COLLECTIVE,
    SORT_COPY,
    SORT_EXPOSED,
    SORT_COUNT
};

static const struct {
    const char *title, *colour;
} sorts[SORT_COUNT] = {
    {"compute", "#0072B2"},
    {"all-gather", "#009E73"},
    {"reduce-scatter", "#E69F00"},
    {"all-reduce", "#D55E00"},
    {"other collectives", "#CC79A7"},
    {"copies", "#777777"},
    {"exposed: compute waits", "#F6D5C6"},
};

static enum sort sort_of(const struct aorta_range_info *info) {
    if (info->kind == AORTA_RANGE_COPY) return SORT_COPY;
    if (info->kind == AORTA_RANGE_COMPUTE) return SORT_COMPUTE;
    switch (info->collective) {
    case AORTA_ALL_GATHER:
        return SORT_ALL_GATHER;
    case AORTA_REDUCE_SCATTER:
        return SORT_REDUCE_SCATTER;
    case AORTA_ALL_REDUCE:
        return SORT_ALL_REDUCE;
    default:
        return SORT_OTHER_COLLECTIVE;
    }
}

static int by_time(const void *left, const void *right) {
    const struct aorta_run_step *a = *(const struct aorta_run_step *const *)left;
    const struct aorta_run_step *b = *(const struct aorta_run_step *const *)right;
    int64_t x = a->overlap.span_ns, y = b->overlap.span_ns;
    return (x > y) - (x < y);
}

/* The iteration of this rank whose span is the median; NULL without ranges. */
static const struct aorta_run_step *median_of_rank(const struct aorta_labelled *labelled, size_t rank) {
    size_t first = 0, count = aorta_measured_steps(labelled, rank, &first), used = 0;
    const struct aorta_run_step **order = malloc((count + 1) * sizeof(*order));
    if (!order) return NULL;
    for (size_t i = first; i < first + count; i++)
        if (labelled->run.steps[i].profile.range_count) order[used++] = &labelled->run.steps[i];
    qsort(order, used, sizeof(*order), by_time);
    const struct aorta_run_step *median = used ? order[used / 2] : NULL;
    free(order);
    return median;
}

/* That of the first rank that has any: a rank that was cut off early leaves none. */
static const struct aorta_run_step *median_step(const struct aorta_labelled *labelled) {
    const struct aorta_run_step *median = NULL;
    for (size_t i = 0; !median && i < labelled->run.rank_count; i++) median = median_of_rank(labelled, i);
    return median;
}

/* The same step on the other ranks, up to RANKS_SHOWN in all. */
static size_t steps_shown(const struct aorta_labelled *labelled, int64_t global_step,
                          const struct aorta_run_step *shown[RANKS_SHOWN]) {
    size_t count = 0;
    for (size_t i = 0; i < labelled->run.step_count && count < RANKS_SHOWN; i++) {
        const struct aorta_run_step *step = &labelled->run.steps[i];
        if (step->global_step == global_step && step->profile.range_count) shown[count++] = step;
    }
    return count;
}

/* Rows from the top: the roles that were used, rank by rank, with a gap between ranks. */
struct rows {
    double y[RANKS_SHOWN][AORTA_ROLE_COUNT]; /* 0: not used */
    double height;
};

static struct rows lay_out(const struct aorta_run_step *const *shown, size_t count) {
    struct rows rows = {.height = 0.4};
    for (size_t i = count; i-- > 0;) {
        for (int role = AORTA_ROLE_COUNT; role-- > 0;) {
            if (!shown[i]->overlap.role_ns[role]) continue;
            rows.y[i][role] = rows.height += 1;
        }
        rows.height += 0.5;
    }
    return rows;
}

static int64_t origin_of(const struct aorta_labelled *labelled, const struct aorta_run_step *const *shown, size_t count,
                         size_t at) {
    int64_t origin = shown[at]->profile.start_ns;
    for (size_t i = 0; labelled->verdict.common_clock && i < count; i++)
        if (shown[i]->profile.start_ns < origin) origin = shown[i]->profile.start_ns;
    return origin;
}

static void box(struct aorta_text *script, int64_t start_ns, int64_t end_ns, int64_t origin_ns, double y,
                double height) {
    double from = (double)(start_ns - origin_ns) / 1e6, to = (double)(end_ns - origin_ns) / 1e6;
    aorta_text_printf(script, "%.6f %.3f %.6f %.6f %.3f %.3f\n", from, y, from, to, y - height / 2, y + height / 2);
}

static size_t write_boxes(const struct aorta_labelled *labelled, const struct aorta_run_step *const *shown,
                          size_t count, const struct rows *rows, enum sort sort, struct aorta_text *script) {
    size_t boxes = 0;
    aorta_text_printf(script, "$sort%d << EOD\n", (int)sort);
    for (size_t i = 0; i < count; i++) {
        const struct aorta_run_step *step = shown[i];
        int64_t origin = origin_of(labelled, shown, count, i);
        for (size_t j = 0; sort != SORT_EXPOSED && j < step->profile.range_count; j++) {
            const struct aorta_range *range = &step->profile.ranges[j];
            if (sort_of(&range->info) != sort || range->end_ns == range->start_ns) continue;
            box(script, range->start_ns, range->end_ns, origin, rows->y[i][range->info.role], 0.72);
            boxes++;
        }
        double y = rows->y[i][AORTA_ROLE_COMPUTE];
        for (size_t j = 0; sort == SORT_EXPOSED && y > 0 && j < step->overlap.exposed_count; j++) {
            box(script, step->overlap.exposed[j].start_ns, step->overlap.exposed[j].end_ns, origin, y, 0.72);
            boxes++;
        }
    }
    aorta_text_puts(script, "EOD\n");
    return boxes;
}

static void write_rows(const struct aorta_run_step *const *shown, size_t count, const struct rows *rows,
                       struct aorta_text *script) {
    const char *separator = "set ytics (";
    for (size_t i = 0; i < count; i++)
        for (int role = 0; role < AORTA_ROLE_COUNT; role++) {
            if (rows->y[i][role] <= 0) continue;
            aorta_text_printf(script, "%s'rank %d  %s' %.3f", separator, shown[i]->rank,
                              aorta_role_name((enum aorta_role)role), rows->y[i][role]);
            separator = ", ";
        }
    aorta_text_printf(script, ") scale 0\nset yrange [0.6:%.3f]\n", rows->height + 0.2);
}

void aorta_plot_streams(const struct aorta_labelled *run, struct aorta_text *script) {
    const struct aorta_run_step *median = median_step(run), *shown[RANKS_SHOWN] = {0};
    size_t count = median ? steps_shown(run, median->global_step, shown) : 0;
    if (!count) return;
    struct rows rows = lay_out(shown, count);
    aorta_plot_begin(script, 1400, 195 + (int)(rows.height * 44));
    struct aorta_text title = {0};
    aorta_text_printf(&title, "%s: streams in step %lld (median)", run->run.label, (long long)median->global_step);
    int64_t comm = 0, overlap = 0;
    for (size_t i = 0; i < count; i++) {
        comm += shown[i]->overlap.comm_ns;
        overlap += shown[i]->overlap.overlap_ns;
    }
    if (comm) aorta_text_printf(&title, ", %.1f%% of communication hidden", 100 * (double)overlap / (double)comm);
    if (run->run.simulated) aorta_text_puts(&title, ", collectives simulated");
    aorta_text_puts(script, "set title ");
    aorta_gnuplot_quote(script, title.data ? title.data : "");
    aorta_text_free(&title);
    aorta_text_puts(script, " noenhanced textcolor '#222222'\nset xlabel 'time [ms]'\nset border 1\nunset grid\n"
                            "set grid xtics linecolor '#e4e4e4' linetype 1 linewidth 0.6\nset xrange [0:*] noextend\n"
                            "set key outside bottom center horizontal\nset bmargin 7\n");
    write_rows(shown, count, &rows, script);
    size_t boxes[SORT_COUNT];
    for (int sort = 0; sort < SORT_COUNT; sort++)
        boxes[sort] = write_boxes(run, shown, count, &rows, (enum sort)sort, script);
    const char *separator = "plot ";
    for (int i = 0; i < SORT_COUNT; i++) {
        int sort = (i + SORT_EXPOSED) % SORT_COUNT; /* what lies behind is drawn first */
        if (!boxes[sort]) continue;
        aorta_text_printf(script,
                          "%s$sort%d using 1:2:3:4:5:6 with boxxyerror fillcolor rgb '%s' linewidth 0.4 "
                          "fillstyle solid 1.0 border linecolor rgb '#ffffff' title '%s'",
                          separator, sort, sorts[sort].colour, sorts[sort].title);
        separator = ", \\\n  ";
    }
    aorta_text_puts(script, "\n");
}
