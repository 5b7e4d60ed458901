/* From run directories to summary.json, pictures and a verdict: the one path of `aorta report` and `aorta train`. */
#ifndef AORTA_REPORT_REPORT_H
#define AORTA_REPORT_REPORT_H

#include "base/log.h"
#include "base/text.h"
#include "report/summary.h"
#include "report/verdict_text.h"

#include <stdbool.h>
#include <stdint.h>

struct aorta_report_input {
    const char *directory, *label;
};

struct aorta_report_options {
    const struct aorta_report_input *inputs;
    size_t input_count;
    const char *output;                /* directory; made when missing */
    const char *page;                  /* file of the page; NULL: index.html in `output`, if this build has pages */
    const char *csv;                   /* directory for the tables; NULL: they are not written */
    const char *reference, *candidate; /* labels; both or neither */
    bool repeats; /* inputs with the same label are repeats of one run; without it they are an error */
    bool pictures;
    bool quiet;         /* the printed text does not name the files */
    int64_t warmup;     /* iterations left out at the start; negative: automatic */
    int64_t read_every; /* aorta_run_read's */
    struct aorta_verdict_style style;
};

/* Reads the inputs, writes summary.json, the page and the pictures into `output`. `text` receives what is to be
 * printed: the verdict of each label and where the files are; `json` the summary. Either may be NULL. A missing gnuplot
 * is a warning in the log. AORTA_IO for pictures that could not be drawn names all of them; `text` and `json` are whole
 * then too. After any other failure both are empty. */
AORTA_MUST_USE aorta_status aorta_report_make(const struct aorta_report_options *options, const struct aorta_log *log,
                                              struct aorta_text *text, struct aorta_text *json);

/* The default label of a directory: its last name; "run" for "." and "..". */
const char *aorta_report_label(const char *directory, struct aorta_arena *arena);

/* What rank 0 does at the end of a training run, when all ranks have closed their files: the report of one directory,
 * written into it; `text` receives the verdict. `style` NULL: plain. `label` names it in the files (NULL: the
 * directory's name). */
AORTA_MUST_USE aorta_status aorta_report_after_run(const char *directory, const char *label,
                                                   const struct aorta_verdict_style *style, const struct aorta_log *log,
                                                   struct aorta_text *text);

/* ---- the pictures of a report, drawn by gnuplot ---- */

enum { AORTA_PLOT_LIMIT_S = 60 }; /* a picture takes less than one second */

/* Draws the script's picture, a PNG, with a gnuplot that is ended after limit_s, and writes it to `path`: whole or not
 * at all. AORTA_UNSUPPORTED: gnuplot is not installed, and the message names the package. AORTA_IO: gnuplot's own
 * message, or why the file could not be written. */
AORTA_MUST_USE aorta_status aorta_plot_draw(const struct aorta_text *script, const char *path, double limit_s);

/* Writes {label}_timeline.png, overlap_breakdown.png and overlap_ratio.png into `directory`; appends the paths of those
 * drawn, one per indented line, to `files`. Where two labels come out as the same name of a file the later one is
 * numbered
 * ({label}_2_…). Runs without ranges have no pictures. All are tried: AORTA_IO names those that could not be drawn,
 * AORTA_UNSUPPORTED says that there is no gnuplot. */
AORTA_MUST_USE aorta_status aorta_plots_draw(const struct aorta_recorded *runs, size_t count, const char *directory,
                                             struct aorta_text *files);

#endif
