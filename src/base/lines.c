#include "base/lines.h"

#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { NARROWEST = 60, WIDEST = 200, NOT_KNOWN = 100 };

static const char ellipsis[] = "…";

int aorta_terminal_width(FILE *stream) {
    struct winsize size = {0};
    if (ioctl(fileno(stream), TIOCGWINSZ, &size) != 0) return 0;
    if (!size.ws_col) return NOT_KNOWN;
    return size.ws_col < NARROWEST ? NARROWEST : size.ws_col > WIDEST ? WIDEST : size.ws_col;
}

/* ---- characters ---- */

static bool begins_character(char c) {
    return ((unsigned char)c & 0xc0) != 0x80;
}

static int columns_of(const char *text, size_t bytes) {
    int columns = 0;
    for (size_t i = 0; i < bytes; i++) columns += begins_character(text[i]);
    return columns;
}

/* Bytes of the first `columns` characters, or of all. */
static size_t bytes_of(const char *text, int columns) {
    size_t bytes = 0;
    while (text[bytes]) {
        if (begins_character(text[bytes]) && columns-- <= 0) break;
        bytes++;
    }
    return bytes;
}

int aorta_columns(const char *text) {
    return columns_of(text, strlen(text));
}

void aorta_text_column(struct aorta_text *out, const char *text, int width) {
    int columns = aorta_columns(text);
    if (columns <= width) {
        aorta_text_printf(out, "%s%*s", text, width - columns, "");
        return;
    }
    aorta_text_append(out, text, bytes_of(text, width - 1));
    aorta_text_puts(out, ellipsis);
}

/* ---- lines ---- */

/* Bytes of the line that begins here: to the last space that leaves it within `width` columns; a longer word is broken.
 */
static size_t line_bytes(const char *text, int width) {
    size_t fits = bytes_of(text, width);
    if (!text[fits]) return fits;
    size_t at = fits;
    while (at > 0 && text[at] != ' ') at--;
    return at ? at : fits;
}

/* Bytes of the last line, when it is to end in an ellipsis: to the end of a clause near it, or of a word. */
static size_t cut_bytes(const char *text, int width) {
    size_t fits = line_bytes(text, width - 2);
    for (size_t at = fits; at > fits - fits / 4; at--)
        if (strchr(",;:(", text[at - 1]) && text[at] == ' ') return at - 1;
    return fits;
}

static int width_left(const struct aorta_lines *lines, int line) {
    int width = lines->width - (line ? lines->indent : lines->taken);
    return width < 8 ? 8 : width;
}

/* Writes unless `out` is NULL; returns the number of lines. */
static int lay(struct aorta_text *out, const char *text, const struct aorta_lines *lines, int most) {
    int line = 0;
    for (;; line++) {
        int width = width_left(lines, line);
        size_t bytes = line_bytes(text, width);
        bool cut = text[bytes] && line + 1 >= most;
        if (cut) bytes = cut_bytes(text, width);
        if (out) {
            if (line) aorta_text_printf(out, "%*s", lines->indent, "");
            aorta_text_append(out, text, bytes);
            aorta_text_printf(out, "%s%s\n", cut ? " " : "", cut ? ellipsis : "");
        }
        if (cut || !text[bytes]) return line + 1;
        text += bytes;
        while (*text == ' ') text++;
    }
}

void aorta_text_lines(struct aorta_text *out, const char *text, const struct aorta_lines *lines) {
    lay(out, text, lines, lines->most);
}

int aorta_lines_needed(const char *text, const struct aorta_lines *lines) {
    return lay(NULL, text, lines, INT_MAX);
}
