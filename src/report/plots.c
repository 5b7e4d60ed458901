/* Pictures of a report. Colours: Okabe & Ito, "Color Universal Design" (2008), distinguishable for colour-blind readers
 * too. */
#include "base/files.h"
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

/* Appends `string` as a gnuplot literal that nothing in it can end or expand. */
static void quote(struct aorta_text *script, const char *string) {
    aorta_text_puts(script, "'");
    for (const char *c = string; *c; c++) {
        const char byte = *c == '\n' || *c == '\r' ? ' ' : *c;
        aorta_text_append(script, &byte, 1);
        if (byte == '\'') aorta_text_append(script, &byte, 1); /* doubled within single quotes */
    }
    aorta_text_puts(script, "'");
}

/* Files in memory and not pipes, so that a child that dies early cannot hang or kill the parent. */
enum { SCRIPT, PICTURE, ERRORS, FILES };

static aorta_status not_installed(void) {
    return AORTA_ERROR(AORTA_UNSUPPORTED,
                       "gnuplot is not installed, so no pictures are drawn: apt install gnuplot-nox");
}

/* timeout ends a gnuplot that hangs. */
static aorta_status spawn(const int files[FILES], double limit_s, pid_t *child) {
    char limit[32];
    char *const argv[] = {"timeout", "-s", "KILL", limit, "gnuplot", "-", NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, defaults;
    snprintf(limit, sizeof limit, "%g", limit_s);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    for (int i = 0; i < FILES; i++) posix_spawn_file_actions_adddup2(&actions, files[i], i);
    /* The caller may block or handle signals (a trainer does); the child must not inherit that. */
    sigemptyset(&none);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    const int error = posix_spawnp(child, argv[0], &actions, &attributes, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (error == ENOENT) return not_installed();
    return error ? AORTA_ERROR(AORTA_IO, "cannot start gnuplot: %s", strerror(error)) : NULL;
}

/* How the child ended: timeout reports a missing program as 127, and its own KILL as 137. */
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

static aorta_status run(const int files[FILES], double limit_s, const struct aorta_text *script) {
    pid_t child = 0;
    int outcome = 0;
    const int error = aorta_write_all(files[SCRIPT], script->data, script->length);
    if (error || lseek(files[SCRIPT], 0, SEEK_SET) < 0)
        return AORTA_ERROR(AORTA_IO, "cannot hand gnuplot its script: %s", strerror(error ? error : errno));
    AORTA_TRY(spawn(files, limit_s, &child));
    while (waitpid(child, &outcome, 0) < 0)
        if (errno != EINTR) return AORTA_ERROR(AORTA_IO, "cannot wait for gnuplot: %s", strerror(errno));
    return explain(files, limit_s, outcome);
}

/* gnuplot does not report that memory or a limit of files (ulimit -f) cut a picture off. A whole PNG ends with IEND. */
static aorta_status place(int picture, const char *path) {
    static const char end[] = "IEND\xae\x42\x60\x82";
    const off_t length = lseek(picture, 0, SEEK_END);
    char *bytes = length > (off_t)sizeof end ? malloc((size_t)length) : NULL;
    aorta_status status = NULL;
    if (bytes && pread(picture, bytes, (size_t)length, 0) == length &&
        memcmp(bytes + length - (sizeof end - 1), end, sizeof end - 1) == 0)
        status = aorta_file_replace(path, bytes, (size_t)length);
    else
        status = AORTA_ERROR(AORTA_IO, "gnuplot made no whole picture: memory or files may be limited");
    free(bytes);
    return status;
}

aorta_status aorta_plot_draw(const struct aorta_text *script, const char *path, double limit_s) {
    int files[FILES];
    AORTA_TRY(aorta_text_check(script));
    for (int i = 0; i < FILES; i++) files[i] = memfd_create("gnuplot", MFD_CLOEXEC);
    aorta_status status = run(files, limit_s, script);
    if (!status) status = place(files[PICTURE], path);
    for (int i = 0; i < FILES; i++)
        if (files[i] >= 0) close(files[i]);
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

static double ms(int64_t ns) {
    return (double)ns / 1e6;
}

/* Means over the ranks of the k-th measured iteration. */
struct moment {
    int64_t global_step;
    double compute, overlap, exposed, step;
    int ranks;
};

static struct moment moment_of(const struct aorta_recorded *labelled, size_t k) {
    struct moment moment = {0};
    for (size_t i = 0; i < labelled->run.rank_count; i++) {
        const struct aorta_measured *measured = &labelled->measured[i];
        if (k >= measured->count || !measured->steps[k].profile) continue;
        const struct aorta_step_metrics *step = &measured->steps[k];
        const struct aorta_overlap *overlap = &step->profile->overlap;
        moment.global_step = step->global_step;
        moment.compute += ms(overlap->compute_ns);
        moment.overlap += ms(overlap->overlap_ns);
        moment.exposed += ms(overlap->exposed_comm_ns);
        moment.step += ms(overlap->span_ns + overlap->lead_ns);
        moment.ranks++;
    }
    return moment;
}

static void plot_timeline(const struct aorta_recorded *run, struct aorta_text *script) {
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
static void breakdown_row(const struct aorta_recorded *labelled, size_t rank, struct aorta_text *script) {
    int64_t compute = 0, overlap = 0, exposed = 0, copy = 0, idle = 0, steps = 0;
    const struct aorta_measured *measured = &labelled->measured[rank];
    for (size_t i = 0; i < measured->count; i++) {
        if (!measured->steps[i].profile) continue;
        const struct aorta_overlap *one = &measured->steps[i].profile->overlap;
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
        quote(script, runs[i].run.label);
    }
    aorta_text_puts(script, "\n");
}

/* ---- files ---- */

static bool is_taken(const char *const *stems, size_t count, const char *stem) {
    for (size_t i = 0; i < count; i++)
        if (stems[i] && strcmp(stems[i], stem) == 0) return true;
    return false;
}

/* The name of a run's picture begins with its label as far as file names allow, numbered where an earlier one comes out
 * the same. NULL: no memory. */
static const char *picture_stem(const char *label, const char *const *earlier, size_t count,
                                struct aorta_arena *memory) {
    struct aorta_text stem = {0};
    for (const char *c = label; *c; c++)
        aorta_text_append(&stem, isalnum((unsigned char)*c) || strchr("._-", *c) ? c : "_", 1);
    const size_t length = stem.length;
    for (int number = 2; !stem.failed && stem.data && is_taken(earlier, count, stem.data); number++) {
        stem.length = length;
        aorta_text_printf(&stem, "_%d", number);
    }
    const char *result = stem.failed || !stem.data ? NULL : aorta_arena_strdup(memory, stem.data);
    aorta_text_free(&stem);
    return result;
}

struct drawing {
    const char *directory;
    struct aorta_text *files;  /* the paths of the pictures, an indented line each */
    struct aorta_text missing; /* why the other pictures are missing */
    bool unsupported;          /* there is no gnuplot */
};

/* Takes the script over. */
static void draw(struct drawing *drawing, struct aorta_text *script, const char *stem, const char *name) {
    struct aorta_text path = {0};
    aorta_text_printf(&path, "%s/%s%s", drawing->directory, stem, name);
    aorta_status status = aorta_text_check(&path);
    if (!status) status = aorta_plot_draw(script, path.data, AORTA_PLOT_LIMIT_S);
    if (!status) aorta_text_printf(drawing->files, "  %s\n", path.data);
    if (status) {
        drawing->unsupported |= aorta_status_code(status) == AORTA_UNSUPPORTED;
        aorta_text_printf(&drawing->missing, "%s%s", drawing->missing.length ? "; " : "", aorta_status_message(status));
    }
    aorta_status_free(status);
    aorta_text_free(script);
    aorta_text_free(&path);
}

aorta_status aorta_plots_draw(const struct aorta_recorded *runs, size_t count, const char *directory,
                              struct aorta_text *files) {
    struct drawing drawing = {.directory = directory, .files = files};
    struct aorta_text breakdown = {0}, ratio = {0};
    struct aorta_arena memory = {0};
    const char **stems = aorta_arena_alloc(&memory, count * sizeof *stems);
    bool any = false;
    for (size_t i = 0; stems && i < count && !drawing.unsupported; i++) {
        struct aorta_text script = {0};
        if (!runs[i].has_verdict) continue;
        any = true;
        stems[i] = picture_stem(runs[i].run.label, stems, i, &memory);
        plot_timeline(&runs[i], &script);
        draw(&drawing, &script, stems[i] ? stems[i] : "run", "_timeline.png");
    }
    if (any && !drawing.unsupported) {
        plot_breakdown(runs, count, &breakdown);
        draw(&drawing, &breakdown, "", "overlap_breakdown.png");
        plot_ratio(runs, count, &ratio);
        draw(&drawing, &ratio, "", "overlap_ratio.png");
    }
    aorta_status status = aorta_arena_check(&memory, "the pictures of the runs");
    if (!status) status = aorta_text_check(&drawing.missing);
    if (!status && drawing.missing.length)
        status = AORTA_ERROR(drawing.unsupported ? AORTA_UNSUPPORTED : AORTA_IO, "pictures are missing: %s",
                             drawing.missing.data);
    aorta_arena_free(&memory);
    aorta_text_free(&drawing.missing);
    return status;
}
