#include "base/lines.h"

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

/* Bytes of the line that begins here: to the last space that leaves it within `width` columns. A longer word is broken,
 * or `whole`. */
static size_t line_bytes(const char *text, int width, bool whole) {
    size_t fits = bytes_of(text, width);
    if (!text[fits]) return fits;
    size_t at = fits;
    while (at > 0 && text[at] != ' ') at--;
    if (at) return at;
    return whole ? strcspn(text, " ") : fits;
}

static int width_left(const struct aorta_lines *lines, bool first) {
    int width = (lines->width ? lines->width : NOT_KNOWN) - (first ? lines->taken : lines->indent);
    return width < 8 ? 8 : width;
}

void aorta_text_lines(struct aorta_text *out, const char *text, const struct aorta_lines *lines) {
    for (bool first = true;; first = false) {
        size_t bytes = line_bytes(text, width_left(lines, first), !lines->width);
        if (!first) aorta_text_printf(out, "%*s", lines->indent, "");
        aorta_text_append(out, text, bytes);
        aorta_text_puts(out, "\n");
        text += bytes;
        while (*text == ' ') text++;
        if (!*text) return;
    }
}

const char *const aorta_escapes[AORTA_COLOR_COUNT] = {
    [AORTA_PLAIN] = "\033[0m",   [AORTA_BOLD] = "\033[1m",  [AORTA_DIM] = "\033[2m",   [AORTA_RED] = "\033[31m",
    [AORTA_YELLOW] = "\033[33m", [AORTA_CYAN] = "\033[36m", [AORTA_GREEN] = "\033[32m"};

void aorta_text_colored(struct aorta_text *out, enum aorta_color color, const char *text) {
    if (color == AORTA_PLAIN)
        aorta_text_puts(out, text);
    else
        aorta_text_printf(out, "%s%s%s", aorta_escapes[color], text, aorta_escapes[AORTA_PLAIN]);
}

void aorta_text_fact(struct aorta_text *out, const char *name, struct aorta_text *text) {
    enum { NAME = 11, INDENT = 2 + NAME + 1 };
    out->failed |= text->failed;
    if (!text->length) return;
    aorta_text_printf(out, "  %-*s ", NAME, name);
    aorta_text_lines(out, text->data, &(struct aorta_lines){0, INDENT, INDENT});
    aorta_text_clear(text);
}

void aorta_text_markdown(struct aorta_text *out, const char *text) {
    static const struct {
        char character;
        const char *as;
    } special[] = {{'<', "&lt;"}, {'>', "&gt;"}, {'&', "&amp;"}, {'|', "\\|"},   {'*', "\\*"},
                   {'`', "\\`"},  {'[', "\\["},  {']', "\\]"},   {'\\', "\\\\"}, {'@', "&#64;"},
                   {'\n', " "},   {'~', "\\~"},  {'#', "\\#"},   {'_', "\\_"}};
    for (; *text; text++) {
        size_t i = 0;
        while (i < sizeof special / sizeof *special && special[i].character != *text) i++;
        if (i < sizeof special / sizeof *special)
            aorta_text_puts(out, special[i].as);
        else
            aorta_text_append(out, text, 1);
    }
}
