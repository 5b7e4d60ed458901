#include "report/plot_matrix.h"
#include "report/gnuplot.h"
#include "report/plots.h"

enum { CELL = 22, MARGIN = 190, SMALLEST = 420, MOST_LABELS = 64 };

/* Okabe & Ito's colours, over and over; 0 is pale, empty cells stay white. */
static const char *colour_of(int cell) {
    static const char *const colours[] = {"#0072B2", "#E69F00", "#009E73", "#D55E00",
                                          "#CC79A7", "#56B4E9", "#8C6D31", "#555555"};
    if (cell == 0) return "#ECECEC";
    return colours[(cell - 1) % (int)(sizeof colours / sizeof *colours)];
}

static void put_tics(const struct aorta_plot_matrix *matrix, const char *axis, struct aorta_text *script) {
    int step = 1 + (matrix->count - 1) / MOST_LABELS;
    aorta_text_printf(script, "set %stics (", axis);
    for (int i = 0; i < matrix->count; i += step) {
        if (i) aorta_text_puts(script, ", ");
        aorta_gnuplot_quote(script, matrix->labels[i]);
        aorta_text_printf(script, " %d", i);
    }
    aorta_text_puts(script, axis[0] == 'x' ? ") rotate by 90 right noenhanced\n" : ") noenhanced\n");
}

static void put_text(struct aorta_text *script, const char *what, const char *text) {
    aorta_text_printf(script, "set %s ", what);
    aorta_gnuplot_quote(script, text);
    aorta_text_puts(script, " noenhanced textcolor '#222222'\n");
}

void aorta_plot_matrix(const struct aorta_plot_matrix *matrix, struct aorta_text *script) {
    int side = MARGIN + CELL * matrix->count;
    if (side < SMALLEST) side = SMALLEST;
    aorta_plot_begin(script, side, side);
    put_text(script, "title", matrix->title);
    put_text(script, "xlabel", matrix->columns);
    put_text(script, "ylabel", matrix->rows);
    aorta_text_puts(script, "unset key\nunset grid\nset border 0\nset size square\n");
    aorta_text_printf(script, "set xrange [-0.5:%d.5]\nset yrange [%d.5:-0.5]\n", matrix->count - 1, matrix->count - 1);
    put_tics(matrix, "x", script);
    put_tics(matrix, "y", script);
    int object = 1;
    for (int row = 0; row < matrix->count; row++) {
        for (int column = 0; column < matrix->count; column++) {
            int cell = matrix->cells[row * matrix->count + column];
            if (cell < 0) continue;
            aorta_text_printf(script,
                              "set object %d rectangle from %d.04-0.5,%d.04-0.5 to %d.96-0.5,%d.96-0.5 "
                              "fillcolor rgb '%s' fillstyle solid 1.0 noborder\n",
                              object++, column, row, column, row, colour_of(cell));
        }
    }
    aorta_text_puts(script, "plot NaN\nset output\n");
}
