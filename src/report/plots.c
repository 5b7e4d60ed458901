/* Colours: Okabe & Ito, "Color Universal Design" (2008), distinguishable for colour-blind readers too. */
#include "report/plots.h"
#include "base/files.h"
#include "report/gnuplot.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void aorta_plot_begin(struct aorta_text *script, int width, int height) {
    aorta_text_printf(script,
                      "reset\nset terminal pngcairo noenhanced size %d,%d font 'DejaVu Sans,11' linewidth 1.2 "
                      "background '#ffffff'\n",
                      width, height);
    aorta_text_puts(script, "set encoding utf8\n"
                            "set border 3 linecolor '#555555' linewidth 0.8\n"
                            "set tics nomirror out scale 0.5 textcolor '#333333'\n"
                            "set grid ytics linecolor '#dddddd' linetype 1 linewidth 0.6\n"
                            "set key outside right top vertical Left reverse samplen 1.5 spacing 1.3 "
                            "textcolor '#333333' noenhanced\n"
                            "set style fill solid 1.0 noborder\n");
}

static void begin(struct aorta_text *script, int width, int height, const char *title) {
    aorta_plot_begin(script, width, height);
    aorta_text_puts(script, "set title ");
    aorta_gnuplot_quote(script, title);
    aorta_text_puts(script, " noenhanced textcolor '#222222'\n");
}

static double ms(int64_t ns) {
    return (double)ns / 1e6;
}

/* Means over the ranks of the k-th measured iteration. */
struct moment {
    int64_t global_step;
    double compute, overlap, exposed, step;
    int ranks;
};

static struct moment moment_of(const struct aorta_labelled *labelled, size_t k) {
    struct moment moment = {0};
    const struct aorta_run *run = &labelled->run;
    for (size_t i = 0; i < run->rank_count; i++) {
        size_t first = 0;
        if (k >= aorta_measured_steps(labelled, i, &first)) continue;
        const struct aorta_run_step *step = &run->steps[first + k];
        if (!step->profiled) continue;
        moment.global_step = step->global_step;
        moment.compute += ms(step->overlap.compute_ns);
        moment.overlap += ms(step->overlap.overlap_ns);
        moment.exposed += ms(step->overlap.exposed_comm_ns);
        moment.step += ms(step->overlap.span_ns + step->overlap.lead_ns);
        moment.ranks++;
    }
    return moment;
}

static void plot_timeline(const struct aorta_labelled *run, struct aorta_text *script) {
    struct aorta_text title = {0};
    aorta_text_printf(&title, "%s: time per step, mean over %s (%zu warm-up steps left out)", run->run.label,
                      aorta_counted((long long)run->run.rank_count, "rank").text, run->warmup);
    begin(script, 1200, 520, title.data ? title.data : "");
    aorta_text_free(&title);
    aorta_text_puts(script, "set xlabel 'step'\nset ylabel 'time [ms]'\nset yrange [0:*]\nset offsets graph 0.01, "
                            "graph 0.01, graph 0.05, 0\n$steps << EOD\n");
    const size_t moments = aorta_measured_most(run);
    for (size_t k = 0; k < moments; k++) {
        struct moment m = moment_of(run, k);
        if (m.ranks)
            aorta_text_printf(script, "%lld %.6f %.6f %.6f %.6f\n", (long long)m.global_step, m.step / m.ranks,
                              m.compute / m.ranks, m.overlap / m.ranks, m.exposed / m.ranks);
    }
    aorta_text_puts(script,
                    "EOD\n"
                    "plot $steps using 1:3 with lines linewidth 2 linecolor '#0072B2' title 'compute', \\\n"
                    "  $steps using 1:4 with filledcurves y1=0 fillcolor '#009E73' fillstyle transparent solid 0.45 "
                    "title 'compute ∩ communication', \\\n"
                    "  $steps using 1:5 with lines linewidth 2 linecolor '#D55E00' title 'exposed communication', \\\n"
                    "  $steps using 1:2 with lines linewidth 1.5 linecolor '#555555' dashtype 2 title 'whole step'\n");
}

/* One bar per label and rank. */
static void breakdown_row(const struct aorta_labelled *labelled, size_t rank, struct aorta_text *script) {
    int64_t compute = 0, overlap = 0, exposed = 0, copy = 0, idle = 0, steps = 0;
    size_t first = 0, count = aorta_measured_steps(labelled, rank, &first);
    for (size_t i = first; i < first + count; i++) {
        const struct aorta_overlap *one = &labelled->run.steps[i].overlap;
        if (!labelled->run.steps[i].profiled) continue;
        compute += one->compute_ns - one->overlap_ns;
        overlap += one->overlap_ns;
        exposed += one->exposed_comm_ns;
        copy += one->exposed_copy_ns;
        idle += one->idle_ns + one->lead_ns;
        steps++;
    }
    if (!steps) return;
    aorta_text_puts(script, "\"");
    for (const char *c = labelled->run.label; *c; c++)
        aorta_text_append(script, *c == '"' || *c == '\\' || iscntrl((unsigned char)*c) ? " " : c, 1);
    aorta_text_printf(script, " rank %d\" %.6f %.6f %.6f %.6f %.6f\n", labelled->run.ranks[rank],
                      ms(compute) / (double)steps, ms(overlap) / (double)steps, ms(exposed) / (double)steps,
                      ms(copy) / (double)steps, ms(idle) / (double)steps);
}

static void plot_breakdown(const struct aorta_labelled *runs, size_t count, struct aorta_text *script) {
    size_t bars = 0;
    for (size_t i = 0; i < count; i++) bars += runs[i].run.rank_count;
    int width = 520 + 110 * (int)(bars < 3 ? 3 : bars > 24 ? 24 : bars);
    begin(script, width, 560, "Where the step goes (mean per iteration)");
    aorta_text_puts(script, "set ylabel 'time [ms]'\nset yrange [0:*]\nset style data histograms\n"
                            "set style histogram rowstacked\nset boxwidth 0.6\nset xtics scale 0\n$bars << EOD\n");
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < runs[i].run.rank_count; j++) breakdown_row(&runs[i], j, script);
    aorta_text_printf(script, "EOD\n%s", bars > 4 ? "set xtics rotate by -30\n" : "");
    aorta_text_puts(script, "plot $bars using 2:xtic(1) linecolor '#0072B2' title 'compute alone', \\\n"
                            "  $bars using 3 linecolor '#009E73' title 'compute ∩ communication', \\\n"
                            "  $bars using 4 linecolor '#D55E00' title 'exposed communication', \\\n"
                            "  $bars using 5 linecolor '#CC79A7' title 'copies alone', \\\n"
                            "  $bars using 6 linecolor '#cccccc' title 'idle'\n");
}

static void plot_ratio(const struct aorta_labelled *runs, size_t count, struct aorta_text *script) {
    static const char *const colours[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"};
    enum { COLOURS = sizeof colours / sizeof colours[0] };
    begin(script, 1200, 460, "Share of communication hidden under compute");
    aorta_text_puts(script, "set xlabel 'step'\nset ylabel 'overlap ratio [%]'\nset yrange [0:102]\n");
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        aorta_text_printf(script, "$ratio%zu << EOD\n", i);
        const size_t moments = aorta_measured_most(&runs[i]);
        for (size_t k = 0; k < moments; k++) {
            struct moment m = moment_of(&runs[i], k);
            double comm = m.overlap + m.exposed;
            if (m.ranks && comm > 0)
                aorta_text_printf(script, "%lld %.4f\n", (long long)m.global_step, 100 * m.overlap / comm);
            any |= m.ranks && comm > 0;
        }
        aorta_text_puts(script, "EOD\n");
    }
    if (!any) {
        aorta_text_puts(script, "set label 1 'no collective ran' at graph 0.5, 0.5 center\n"
                                "set xrange [0:1]\nplot NaN notitle\n");
        return;
    }
    for (size_t i = 0; i < count; i++) {
        aorta_text_printf(script,
                          "%s$ratio%zu using 1:2 with linespoints linewidth 1.5 pointtype 7 pointsize 0.4 "
                          "linecolor '%s' title ",
                          i ? ", \\\n  " : "plot ", i, colours[i % COLOURS]);
        aorta_gnuplot_quote(script, runs[i].run.label);
    }
    aorta_text_puts(script, "\n");
}

/* ---- files ---- */

static bool is_taken(char *const *stems, size_t count, const char *stem) {
    for (size_t i = 0; i < count; i++)
        if (stems[i] && strcmp(stems[i], stem) == 0) return true;
    return false;
}

/* What the names of a run's pictures begin with: its label as far as file names allow, numbered where an earlier one
 * comes out the same. NULL: no memory. */
static char *picture_stem(const char *label, char *const *earlier, size_t count) {
    struct aorta_text stem = {0};
    for (const char *c = label; *c; c++)
        aorta_text_append(&stem, isalnum((unsigned char)*c) || strchr("._-", *c) ? c : "_", 1);
    const size_t length = stem.length;
    for (int number = 2; !stem.failed && stem.data && is_taken(earlier, count, stem.data); number++) {
        stem.length = length;
        aorta_text_printf(&stem, "_%d", number);
    }
    char *result = stem.failed || !stem.data ? NULL : strdup(stem.data);
    aorta_text_free(&stem);
    return result;
}

static char *picture_path(const char *directory, const char *stem, const char *name) {
    struct aorta_text file = {0};
    aorta_text_printf(&file, "%s%s", stem, name);
    char *path = file.failed ? NULL : aorta_path_join(directory, file.data);
    aorta_text_free(&file);
    return path;
}

/* The pictures of a report: two of each run, two of all. */
struct drawing {
    const char *directory;
    struct aorta_picture *items;
    char **paths; /* of the items */
    size_t count;
};

static void free_last(struct drawing *drawing) {
    aorta_text_free(&drawing->items[--drawing->count].script);
    free(drawing->paths[drawing->count]);
}

/* Where the next picture's script goes; NULL: no memory. */
static struct aorta_text *start_picture(struct drawing *drawing, const char *stem, const char *name) {
    char *path = picture_path(drawing->directory, stem, name);
    if (!path) return NULL;
    drawing->paths[drawing->count] = path;
    drawing->items[drawing->count] = (struct aorta_picture){.path = path};
    return &drawing->items[drawing->count++].script;
}

/* A plot that has nothing to show leaves its script empty, and is no picture. */
static aorta_status end_picture(struct drawing *drawing, const struct aorta_text *script) {
    if (!script) return AORTA_ERROR(AORTA_MEMORY, "no memory for a picture's path");
    AORTA_TRY(aorta_text_check(script));
    if (!script->length) free_last(drawing);
    return NULL;
}

static aorta_status plot_one(struct drawing *drawing, const struct aorta_labelled *run, const char *stem,
                             const char *name, void (*plot)(const struct aorta_labelled *, struct aorta_text *)) {
    struct aorta_text *script = start_picture(drawing, stem, name);
    if (script) plot(run, script);
    return end_picture(drawing, script);
}

static aorta_status plot_all(struct drawing *drawing, const struct aorta_labelled *runs, size_t count, const char *name,
                             void (*plot)(const struct aorta_labelled *, size_t, struct aorta_text *)) {
    struct aorta_text *script = start_picture(drawing, "", name);
    if (script) plot(runs, count, script);
    return end_picture(drawing, script);
}

static aorta_status plot_run(struct drawing *drawing, const struct aorta_labelled *run, const char *stem) {
    if (!stem) return AORTA_ERROR(AORTA_MEMORY, "no memory for the names of pictures");
    AORTA_TRY(plot_one(drawing, run, stem, "_timeline.png", plot_timeline));
    return plot_one(drawing, run, stem, "_streams.png", aorta_plot_streams);
}

static aorta_status plot_runs(struct drawing *drawing, const struct aorta_labelled *runs, size_t count, char **stems) {
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        if (!runs[i].has_verdict) continue;
        any = true;
        stems[i] = picture_stem(runs[i].run.label, stems, i);
        AORTA_TRY(plot_run(drawing, &runs[i], stems[i]));
    }
    if (!any) return NULL;
    AORTA_TRY(plot_all(drawing, runs, count, "overlap_breakdown.png", plot_breakdown));
    return plot_all(drawing, runs, count, "overlap_ratio.png", plot_ratio);
}

aorta_status aorta_plots_draw(const struct aorta_labelled *runs, size_t count, const char *directory,
                              struct aorta_text *files) {
    char **stems = calloc(count + 1, sizeof *stems);
    struct drawing drawing = {.directory = directory,
                              .items = calloc(2 * count + 2, sizeof *drawing.items),
                              .paths = calloc(2 * count + 2, sizeof *drawing.paths)};
    aorta_status status = NULL;
    if (stems && drawing.items && drawing.paths)
        status = plot_runs(&drawing, runs, count, stems);
    else
        status = AORTA_ERROR(AORTA_MEMORY, "no memory for the pictures of %zu runs", count);
    if (!status) status = aorta_gnuplot_draw(drawing.items, drawing.count, AORTA_GNUPLOT_LIMIT_S, files);
    if (aorta_status_code(status) == AORTA_IO) status = aorta_annotate(status, "pictures are missing");
    while (drawing.count) free_last(&drawing);
    for (size_t i = 0; stems && i < count; i++) free(stems[i]);
    free(drawing.items);
    free(drawing.paths);
    free(stems);
    return status;
}
