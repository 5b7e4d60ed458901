/* Text for a terminal: how wide it is, columns, and sentences wrapped to it. Text is UTF-8, a character is a column. */
#ifndef AORTA_BASE_LINES_H
#define AORTA_BASE_LINES_H

#include "base/text.h"

#include <stdio.h>

/* Width of the stream's terminal, between 60 and 200 columns. 0 if it is no terminal; then nothing is cut. Open MPI
 * gives ranks a pseudo-terminal without a size, whose output may go to a file: aorta launch sets AORTA_COLUMNS to
 * the width of its own. */
#define AORTA_COLUMNS "AORTA_COLUMNS"
int aorta_terminal_width(FILE *stream);
bool aorta_terminal_takes_escapes(FILE *stream); /* it is a terminal, and TERM does not call it dumb */

int aorta_columns(const char *text); /* number of columns of the text */

/* The text in exactly `width` columns: padded on the right, or cut with an ellipsis at its end. */
void aorta_text_column(struct aorta_text *out, const char *text, int width);

/* Writes the short name to `text` and returns it. If another of `names` (items may be NULL) has the same short name,
 * the word in which they differ is added: "BinaryFunctor (MulFunctor)". */
const char *aorta_name_apart(const char *name, const char *const *names, size_t count,
                             const char *(*shorten)(const char *name, char *text, size_t size), char *text,
                             size_t size);

/* Escapes of a terminal. AORTA_PLAIN ends a color. */
enum aorta_color {
    AORTA_PLAIN,
    AORTA_BOLD,
    AORTA_DIM,
    AORTA_RED,
    AORTA_YELLOW,
    AORTA_CYAN,
    AORTA_GREEN,
    AORTA_COLOR_COUNT
};
extern const char *const aorta_escapes[AORTA_COLOR_COUNT];
void aorta_text_colored(struct aorta_text *out, enum aorta_color color, const char *text);

/* Wraps a sentence at spaces into lines of at most `width` columns. Width 0: no terminal, so lines have 100 columns
 * and longer words are not broken. The first line starts after `taken` columns that the caller has written, later lines
 * after `indent` spaces. Ends with a newline. */
struct aorta_lines {
    int width, taken, indent;
    enum aorta_color color; /* of each line, but for the indent */
};
void aorta_text_lines(struct aorta_text *out, const char *text, const struct aorta_lines *lines);

/* "  noise       16%, from 32 repeats": one fact below a headline, wrapped after its name. Empties `text`, and writes
 * nothing where it is empty. */
void aorta_text_fact(struct aorta_text *out, const char *name, struct aorta_text *text);

/* Escapes the text for Markdown, also in a table's cell: line breaks become spaces. */
void aorta_text_markdown(struct aorta_text *out, const char *text);

#endif
