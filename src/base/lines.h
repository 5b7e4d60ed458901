/* Text for a terminal: how wide it is, columns, and sentences wrapped to it. Text is UTF-8, a character is a column. */
#ifndef AORTA_BASE_LINES_H
#define AORTA_BASE_LINES_H

#include "base/text.h"

#include <stdio.h>

/* Columns of the terminal that the stream writes to, between 60 and 200, 100 when it does not say; 0: no terminal,
 * where nothing is to be cut. */
int aorta_terminal_width(FILE *stream);

/* Columns that the text takes. */
int aorta_columns(const char *text);

/* The text in exactly `width` columns: padded on the right, or cut with an ellipsis at its end. */
void aorta_text_column(struct aorta_text *out, const char *text, int width);

/* A sentence cut at spaces into lines of at most `width` columns. The first one starts behind `taken` columns that the
 * caller has written, the others behind `indent` spaces. What does not fit into `most` lines is cut, where possible at
 * the end of a clause, and ends in an ellipsis. Ends with a newline. */
struct aorta_lines {
    int width, taken, indent, most;
};
void aorta_text_lines(struct aorta_text *out, const char *text, const struct aorta_lines *lines);
/* How many lines that takes if `most` does not bound it. */
int aorta_lines_needed(const char *text, const struct aorta_lines *lines);

#endif
