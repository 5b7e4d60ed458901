/* A picture of a square matrix: a cell for each pair. */
#ifndef AORTA_REPORT_PLOT_MATRIX_H
#define AORTA_REPORT_PLOT_MATRIX_H

#include "base/text.h"

struct aorta_plot_matrix {
    const char *title, *rows, *columns; /* what the picture, its rows and its columns are */
    int count;                          /* of rows and of columns */
    const char *const *labels;          /* [count] */
    const int *cells;                   /* [count × count], row by row; -1: empty, 0: pale, else a colour of its own */
};

/* Appends the script of the picture (gnuplot.h draws it). */
void aorta_plot_matrix(const struct aorta_plot_matrix *matrix, struct aorta_text *script);

#endif
