/* Pictures of a report. Colours: Okabe & Ito, "Color Universal Design" (2008), for colour-blind readers, too. */
#include "base/files.h"
#include "base/intern.h"
#include "report/report.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- gnuplot ---- */

/* Appends `string` as a quoted gnuplot literal without expansion. */
static void quote(struct aorta_text *script, const char *string) {
    aorta_text_puts(script, "'");
    for (const char *c = string; *c; c++) {
        const char byte = *c == '\n' || *c == '\r' ? ' ' : *c;
        aorta_text_append(script, &byte, 1);
        if (byte == '\'') aorta_text_append(script, &byte, 1); /* doubled within single quotes */
    }
    aorta_text_puts(script, "'");
}

/* Files in memory instead of pipes: a child that dies early cannot block or kill the parent. */
enum { SCRIPT, PICTURE, ERRORS, FILES };

static aorta_status not_installed(void) {
    return AORTA_ERROR(AORTA_UNSUPPORTED,
                       "gnuplot is not installed, so no pictures are drawn: apt install gnuplot-nox");
}

/* How the child ended. timeout exits with 127 for a missing program, and with 137 if it is killed itself. */
static aorta_status explain(const int files[FILES], double limit_s, int outcome) {
    const int code = WIFEXITED(outcome) ? WEXITSTATUS(outcome) : 128 + WTERMSIG(outcome);
    char words[512] = "";
    if (code == 0) return NULL;
    if (code == 127) return not_installed();
    if (code == 128 + SIGKILL) return AORTA_ERROR(AORTA_IO, "gnuplot did not end within %g s and was ended", limit_s);
    const ssize_t length = pread(files[ERRORS], words, sizeof words - 1, 0);
    words[length > 0 ? length : 0] = '\0';
    for (char *c = words; *c; c++)
        if (*c == '\n') *c = ' ';
    return AORTA_ERROR(AORTA_IO, "gnuplot failed with exit status %d: %s", code, words);
}

/* timeout ends a gnuplot that hangs. The child must not inherit blocked signals, which trainers have. */
static aorta_status run(const int files[FILES], double limit_s, const struct aorta_text *script) {
    char limit[32];
    char *const argv[] = {"timeout", "-s", "KILL", limit, "gnuplot", "-", NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    pid_t child = 0;
    int outcome = 0, error = aorta_write_all(files[SCRIPT], script->data, script->length);
    if (error || lseek(files[SCRIPT], 0, SEEK_SET) < 0)
        return AORTA_ERROR(AORTA_IO, "cannot hand gnuplot its script: %s", strerror(error ? error : errno));
    snprintf(limit, sizeof limit, "%g", limit_s);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    for (int i = 0; i < FILES; i++) posix_spawn_file_actions_adddup2(&actions, files[i], i);
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    error = posix_spawnp(&child, argv[0], &actions, &attributes, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (error == ENOENT) return not_installed();
    if (error) return AORTA_ERROR(AORTA_IO, "cannot start gnuplot: %s", strerror(error));
    while (waitpid(child, &outcome, 0) < 0)
        if (errno != EINTR) return AORTA_ERROR(AORTA_IO, "cannot wait for gnuplot: %s", strerror(errno));
    return explain(files, limit_s, outcome);
}

/* gnuplot reports no error if memory or a file limit (ulimit -f) cuts a picture off. A complete PNG ends with IEND. */
aorta_status aorta_plot_draw(const struct aorta_text *script, const char *path, double limit_s) {
    static const char end[] = "IEND\xae\x42\x60\x82";
    int files[FILES];
    AORTA_TRY(aorta_text_check(script));
    for (int i = 0; i < FILES; i++) files[i] = memfd_create("gnuplot", MFD_CLOEXEC);
    aorta_status status = run(files, limit_s, script);
    const off_t length = lseek(files[PICTURE], 0, SEEK_END);
    char *bytes = length > (off_t)sizeof end ? malloc((size_t)length) : NULL;
    const bool whole = bytes && pread(files[PICTURE], bytes, (size_t)length, 0) == length &&
                       memcmp(bytes + length - (sizeof end - 1), end, sizeof end - 1) == 0;
    if (!status && !whole)
        status = AORTA_ERROR(AORTA_IO, "gnuplot made no whole picture: memory or files may be limited");
    if (!status) status = aorta_file_replace(path, bytes, (size_t)length);
    free(bytes);
    for (int i = 0; i < FILES; i++) close(files[i]);
    return aorta_annotate(status, "%s", path);
}

/* ---- scripts ---- */

static void begin(struct aorta_text *script, int width, int height, const char *title) {
    aorta_text_printf(
        script,
        "set terminal pngcairo noenhanced size %d,%d font 'DejaVu Sans,11' linewidth 1.2 background '#ffffff'\n", width,
        height);
    aorta_text_puts(script, "set encoding utf8\n"
                            "set border 3 linecolor '#555555' linewidth 0.8\n"
                            "set tics nomirror out scale 0.5 textcolor '#333333'\n"
                            "set grid ytics linecolor '#dddddd' linetype 1 linewidth 0.6\n"
                            "set key outside right top vertical Left reverse samplen 1.5 spacing 1.3 "
                            "textcolor '#333333' noenhanced\n"
                            "set style fill solid 1.0 noborder\n"
                            "set title ");
    quote(script, title);
    aorta_text_puts(script, " noenhanced textcolor '#222222'\n");
}

struct sums {
    int64_t global_step, steps; /* of the last step; how many */
    int64_t compute_ns, overlap_ns, exposed_ns, copy_ns, idle_ns, step_ns;
};

static void add_step(const struct aorta_step_metrics *step, struct sums *sums) {
    if (!step->profile) return;
    const struct aorta_overlap *overlap = &step->profile->overlap;
    sums->global_step = step->global_step;
    sums->steps++;
    sums->compute_ns += overlap->compute_ns;
    sums->overlap_ns += overlap->overlap_ns;
    sums->exposed_ns += overlap->exposed_comm_ns;
    sums->copy_ns += overlap->exposed_copy_ns;
    sums->idle_ns += overlap->idle_ns + overlap->lead_ns;
    sums->step_ns += overlap->span_ns + overlap->lead_ns;
}

static double mean_ms(int64_t ns, const struct sums *sums) {
    return (double)ns / 1e6 / (double)sums->steps;
}

/* The k-th measured iteration of all ranks. */
static struct sums sums_at(const struct aorta_recorded *labelled, size_t k) {
    struct sums sums = {0};
    for (size_t i = 0; i < labelled->run.rank_count; i++)
        if (k < labelled->measured[i].count) add_step(&labelled->measured[i].steps[k], &sums);
    return sums;
}

static void plot_timeline(const struct aorta_recorded *run, struct aorta_text *script) {
    struct aorta_text title = {0};
    aorta_text_printf(&title, "%s: time per step, mean over %s (%zu warm-up steps left out)", run->run.label,
                      aorta_counted((long long)run->run.rank_count, "rank").text, run->warmup);
    begin(script, 1200, 520, title.data ? title.data : "");
    aorta_text_free(&title);
    aorta_text_puts(script, "set xlabel 'step'\nset ylabel 'time [ms]'\nset yrange [0:*]\nset offsets graph 0.01, "
                            "graph 0.01, graph 0.05, 0\n$steps << EOD\n");
    for (size_t k = 0, most = aorta_measured_most(run); k < most; k++) {
        const struct sums s = sums_at(run, k);
        if (s.steps)
            aorta_text_printf(script, "%lld %.6f %.6f %.6f %.6f\n", (long long)s.global_step, mean_ms(s.step_ns, &s),
                              mean_ms(s.compute_ns, &s), mean_ms(s.overlap_ns, &s), mean_ms(s.exposed_ns, &s));
    }
    aorta_text_puts(script,
                    "EOD\n"
                    "plot $steps using 1:3 with lines linewidth 2 linecolor '#0072B2' title 'compute', \\\n"
                    "  $steps using 1:4 with filledcurves y1=0 fillcolor '#009E73' fillstyle transparent solid 0.45 "
                    "title 'compute ∩ communication', \\\n"
                    "  $steps using 1:5 with lines linewidth 2 linecolor '#D55E00' title 'exposed communication', \\\n"
                    "  $steps using 1:2 with lines linewidth 1.5 linecolor '#555555' dashtype 2 title 'whole step'\n");
}

static void breakdown_row(const struct aorta_recorded *labelled, size_t rank, struct aorta_text *script) {
    const struct aorta_measured *measured = &labelled->measured[rank];
    struct sums s = {0};
    for (size_t i = 0; i < measured->count; i++) add_step(&measured->steps[i], &s);
    if (!s.steps) return;
    aorta_text_puts(script, "\"");
    for (const char *c = labelled->run.label; *c; c++)
        aorta_text_append(script, *c == '"' || *c == '\\' || iscntrl((unsigned char)*c) ? " " : c, 1);
    aorta_text_printf(script, " rank %d\" %.6f %.6f %.6f %.6f %.6f\n", labelled->run.ranks[rank],
                      mean_ms(s.compute_ns - s.overlap_ns, &s), mean_ms(s.overlap_ns, &s), mean_ms(s.exposed_ns, &s),
                      mean_ms(s.copy_ns, &s), mean_ms(s.idle_ns, &s));
}

static void plot_breakdown(const struct aorta_recorded *runs, size_t count, struct aorta_text *script) {
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

static void plot_ratio(const struct aorta_recorded *runs, size_t count, struct aorta_text *script) {
    static const char *const colours[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"};
    begin(script, 1200, 460, "Share of communication hidden under compute");
    aorta_text_puts(script, "set xlabel 'step'\nset ylabel 'overlap ratio [%]'\nset yrange [0:102]\n");
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        aorta_text_printf(script, "$ratio%zu << EOD\n", i);
        for (size_t k = 0, most = aorta_measured_most(&runs[i]); k < most; k++) {
            const struct sums s = sums_at(&runs[i], k);
            const double comm_ns = (double)(s.overlap_ns + s.exposed_ns);
            if (comm_ns > 0)
                aorta_text_printf(script, "%lld %.4f\n", (long long)s.global_step,
                                  100 * (double)s.overlap_ns / comm_ns);
            any |= comm_ns > 0;
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
                          i ? ", \\\n  " : "plot ", i, colours[i % (sizeof colours / sizeof *colours)]);
        quote(script, runs[i].run.label);
    }
    aorta_text_puts(script, "\n");
}

/* ---- files ---- */

/* The beginning of a picture's file name: the run's label in characters that file names allow, with a number if an
 * earlier label gives the same name. NULL without memory. */
static const char *picture_stem(const char *label, struct aorta_texts *stems) {
    struct aorta_text stem = {0};
    for (const char *c = label; *c; c++)
        aorta_text_append(&stem, isalnum((unsigned char)*c) || strchr("._-", *c) ? c : "_", 1);
    const size_t length = stem.length, before = stems->count;
    const char *result = stem.failed ? NULL : aorta_intern(stems, stem.data);
    for (int number = 2; result && stems->count == before; number++) {
        stem.length = length;
        aorta_text_printf(&stem, "_%d", number);
        result = stem.failed ? NULL : aorta_intern(stems, stem.data);
    }
    aorta_text_free(&stem);
    return result;
}

struct drawing {
    const char *directory;
    struct aorta_text *files;  /* the paths of the pictures, an indented line each */
    struct aorta_text missing; /* why the other pictures are missing */
    bool unsupported;          /* there is no gnuplot */
};

/* Frees the script. */
static void draw(struct drawing *drawing, struct aorta_text *script, const char *stem, const char *name) {
    const struct aorta_file_path path = aorta_path_in(drawing->directory, "%s%s", stem, name);
    aorta_status status = aorta_plot_draw(script, path.text, AORTA_PLOT_LIMIT_S);
    drawing->unsupported |= aorta_status_code(status) == AORTA_UNSUPPORTED;
    if (status)
        aorta_text_printf(&drawing->missing, "%s%s", drawing->missing.length ? "; " : "", aorta_status_message(status));
    else
        aorta_text_printf(drawing->files, "  %s\n", path.text);
    aorta_status_free(status);
    aorta_text_free(script);
}

aorta_status aorta_plots_draw(const struct aorta_recorded *runs, size_t count, const char *directory,
                              struct aorta_text *files) {
    struct drawing drawing = {.directory = directory, .files = files};
    struct aorta_text script = {0};
    struct aorta_texts stems = {0};
    for (size_t i = 0; i < count && !drawing.unsupported; i++) {
        if (!runs[i].has_verdict) continue;
        const char *stem = picture_stem(runs[i].run.label, &stems);
        drawing.missing.failed |= !stem;
        plot_timeline(&runs[i], &script);
        draw(&drawing, &script, stem ? stem : "run", "_timeline.png");
    }
    if (stems.count && !drawing.unsupported) {
        plot_breakdown(runs, count, &script);
        draw(&drawing, &script, "", "overlap_breakdown.png");
        plot_ratio(runs, count, &script);
        draw(&drawing, &script, "", "overlap_ratio.png");
    }
    aorta_status status = aorta_text_check(&drawing.missing);
    if (!status && drawing.missing.length)
        status = AORTA_ERROR(drawing.unsupported ? AORTA_UNSUPPORTED : AORTA_IO, "pictures are missing: %s",
                             drawing.missing.data);
    aorta_texts_free(&stems);
    aorta_text_free(&drawing.missing);
    return status;
}
