#include "base/clock.h"
#include "base/lines.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/progress.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Makes space for `more` bytes and the terminating NUL. */
static bool reserve(struct aorta_text *text, size_t more) {
    text->failed |= more >= SIZE_MAX / 2 - text->length;
    text->failed = text->failed || !aorta_array_fit(&text->data, &text->capacity, text->length + more + 1, 1);
    return !text->failed;
}

void aorta_text_append(struct aorta_text *text, const char *bytes, size_t length) {
    if (!reserve(text, length)) return;
    if (length) memcpy(text->data + text->length, bytes, length);
    text->length += length;
    text->data[text->length] = '\0';
}

void aorta_text_puts(struct aorta_text *text, const char *string) {
    aorta_text_append(text, string, strlen(string));
}

void aorta_text_vprintf(struct aorta_text *text, const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    const int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (length < 0) text->failed = 1;
    if (length < 0 || !reserve(text, (size_t)length)) return;
    vsnprintf(text->data + text->length, (size_t)length + 1, format, args);
    text->length += (size_t)length;
}

void aorta_text_printf(struct aorta_text *text, const char *format, ...) {
    va_list args;
    va_start(args, format);
    aorta_text_vprintf(text, format, args);
    va_end(args);
}

void aorta_text_words(struct aorta_text *text, const char *const *words, size_t count) {
    for (size_t i = 0; i < count; i++) aorta_text_printf(text, "%s%s", i ? ", " : "", words[i]);
}

aorta_status aorta_text_error(struct aorta_text *text, enum aorta_code code) {
    aorta_status status = aorta_text_check(text);
    if (!status) status = AORTA_ERROR(code, "%s", text->length ? text->data : "");
    aorta_text_free(text);
    return status;
}

const char *aorta_text_next(const struct aorta_text *list, const char *before) {
    const char *next = before ? before + strlen(before) + 1 : list->data;
    return next && next < list->data + list->length ? next : NULL;
}

static bool fill(struct aorta_text *out, const char *from, const char *end, aorta_text_put put, const void *user) {
    const size_t before = out->length;
    bool known = true;
    while (known && from < end) {
        const size_t plain = strcspn(from, "[{"), left = (size_t)(end - from);
        aorta_text_append(out, from, plain < left ? plain : left);
        if (plain >= left) return true;
        from += plain;
        const char *close = strchr(from, *from == '[' ? ']' : '}');
        if (!close || close >= end) break;
        const bool is_whole =
            *from == '[' ? fill(out, from + 1, close, put, user) : put(user, from + 1, (size_t)(close - from - 1), out);
        known = is_whole || *from == '[';
        from = close + 1;
    }
    if (known && from >= end) return true;
    out->length = before;
    if (out->data) out->data[before] = '\0';
    return false;
}

bool aorta_text_template(struct aorta_text *out, const char *template, aorta_text_put put, const void *user) {
    return fill(out, template, template + strlen(template), put, user);
}

void aorta_text_shell_word(struct aorta_text *text, const char *word) {
    aorta_text_puts(text, "'");
    for (; *word; word++) aorta_text_printf(text, *word == '\'' ? "'\\'%c" : "%c", *word);
    aorta_text_puts(text, "'");
}

struct aorta_brief aorta_brief(double value) {
    double size = fabs(value);
    int decimals = size >= 100 || size == 0 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 2 - (int)floor(log10(size));
    struct aorta_brief brief;
    if (decimals > 9) decimals = 9;
    if (size >= 1e18) { /* too many digits for the buffer; no measured value is so large */
        snprintf(brief.text, sizeof brief.text, "%.3g", value);
        return brief;
    }
    snprintf(brief.text, sizeof brief.text, "%.*f", decimals, value);
    if (!strchr(brief.text, '.')) return brief;
    size_t length = strlen(brief.text);
    while (brief.text[length - 1] == '0') length--;
    if (brief.text[length - 1] == '.') length--;
    brief.text[length] = '\0';
    return brief;
}

/* Rounds first, so that 9.996 has as many digits as 10.0. */
struct aorta_brief aorta_digits(double value, int digits) {
    struct aorta_brief brief;
    const double size = fabs(value);
    const int power = size > 0 ? (int)floor(log10(size)) : 0;
    const double unit = pow(10, power - digits + 1);
    const double rounded = size > 0 ? unit * round(size / unit) : 0;
    int decimals = digits - 1 - (rounded > 0 ? (int)floor(log10(rounded) + 1e-9) : digits - 1);
    if (decimals < 0) decimals = 0;
    if (decimals > 9) decimals = 9;
    snprintf(brief.text, sizeof brief.text, "%.*f", decimals, value);
    return brief;
}

/* Fewer digits below 0.01, where recordings round to microseconds or nanoseconds. */
struct aorta_brief aorta_measured(double value) {
    const double size = fabs(value);
    return aorta_digits(value, size >= 0.01 ? 3 : size >= 0.001 ? 2 : 1);
}

struct aorta_counted aorta_counted(long long count, const char *noun) {
    struct aorta_counted counted;
    snprintf(counted.text, sizeof counted.text, "%lld %s%s", count, noun, count == 1 ? "" : "s");
    return counted;
}

void aorta_text_clear(struct aorta_text *text) {
    text->length = 0;
    text->failed = 0;
    if (text->data) text->data[0] = '\0';
}

void aorta_text_free(struct aorta_text *text) {
    free(text->data);
    *text = (struct aorta_text){0};
}

void aorta_text_end(struct aorta_text *part, struct aorta_text *whole) {
    whole->failed |= part->failed;
    aorta_text_free(part);
}

void aorta_text_arena_end(struct aorta_text *text, struct aorta_arena *arena) {
    text->failed |= arena->failed;
    aorta_arena_free(arena);
}

char *aorta_text_move(struct aorta_text *text, struct aorta_arena *arena) {
    char *copy = text->failed ? NULL : aorta_arena_strdup(arena, text->data ? text->data : "");
    arena->failed |= !copy;
    aorta_text_free(text);
    return copy;
}

aorta_status aorta_text_check(const struct aorta_text *text) {
    if (!text->failed) return NULL;
    return AORTA_ERROR(AORTA_MEMORY, "out of memory while composing %zu bytes of text", text->length);
}

static size_t smallest(size_t a, size_t b, size_t c) {
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

enum { LONGEST_WORD = 128 }; /* longer words are compared by their first 128 characters: enough for a suggestion */

size_t aorta_edit_distance(const char *a, const char *b) {
    size_t a_length = strnlen(a, LONGEST_WORD), b_length = strnlen(b, LONGEST_WORD);
    size_t row[LONGEST_WORD + 1]; /* distances of a's first i characters to each prefix of b */
    for (size_t j = 0; j <= b_length; j++) row[j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t above = row[j];
            row[j] = smallest(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[b_length];
}

/* "trian" for "train": the commonest slip, and two edits. */
static bool has_swapped_neighbours(const char *a, const char *b) {
    while (*a && *a == *b) a++, b++;
    return *a && *b && a[0] == b[1] && a[1] == b[0] && strcmp(a + 2, b + 2) == 0;
}

/* "batches" of "num_batches": a name without its first or its last word. */
static bool is_part(const char *part, const char *name) {
    const size_t length = strlen(part), all = strlen(name);
    if (!length || length >= all) return false;
    const char *end = name + all - length;
    return (end[-1] == '_' && strcmp(end, part) == 0) || (name[length] == '_' && strncmp(name, part, length) == 0);
}

/* Skips the section that both keys have, so that a long section name does not hide a misspelt key. */
static void skip_section(const char **a, const char **b) {
    const char *left = *a, *right = *b;
    for (; *left && *left == *right; left++, right++)
        if (*left == '.') *a = left + 1, *b = right + 1;
}

size_t aorta_near_distance(const char *a, const char *b) {
    skip_section(&a, &b);
    size_t a_length = strnlen(a, LONGEST_WORD), b_length = strnlen(b, LONGEST_WORD);
    size_t longer = a_length > b_length ? a_length : b_length, limit = longer >= 3 ? longer / 3 : 1;
    size_t distance = aorta_edit_distance(a, b);
    if (distance <= limit && distance < longer) return distance;
    return has_swapped_neighbours(a, b) || is_part(a, b) ? distance : SIZE_MAX;
}

bool aorta_is_one_of(const char *word, const char *const *words, size_t count) {
    for (size_t i = 0; i < count && words[i]; i++)
        if (strcmp(word, words[i]) == 0) return true;
    return false;
}

const char *aorta_nearest(const char *word, const char *const *candidates, size_t count) {
    size_t least = SIZE_MAX;
    const char *nearest = NULL;
    for (size_t i = 0; i < count; i++) {
        size_t distance = aorta_near_distance(word, candidates[i]);
        if (distance >= least) continue;
        least = distance;
        nearest = candidates[i];
    }
    return nearest;
}

/* ---- printable text ---- */

size_t aorta_utf8_length(const char *text, size_t available) {
    const unsigned char *bytes = (const unsigned char *)text;
    unsigned char lead = bytes[0];
    if (lead < 0x80) return 1;
    size_t length = lead >= 0xC2 && lead <= 0xDF ? 2 : (lead & 0xF0) == 0xE0 ? 3 : lead >= 0xF0 && lead <= 0xF4 ? 4 : 0;
    if (length == 0 || length > available) return 0;
    unsigned char low = 0x80, high = 0xBF; /* range of the second byte */
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
    if (bytes[1] < low || bytes[1] > high) return 0;
    for (size_t i = 2; i < length; i++)
        if ((bytes[i] & 0xC0) != 0x80) return 0;
    return length;
}

/* Bytes of the character at text[0]; *printable: whether it may be shown. */
static size_t next_character(const char *text, size_t available, bool lines, bool *printable) {
    unsigned char lead = (unsigned char)*text;
    size_t length = aorta_utf8_length(text, available);
    *printable = length > 0 && lead >= 0x20 && lead != 0x7F;
    if (lines && (lead == '\n' || lead == '\t')) *printable = true;
    if (length == 2 && lead == 0xC2) *printable = (unsigned char)text[1] >= 0xA0; /* U+0080 to U+009F: C1 */
    if (length == 3 && lead == 0xE2) {
        unsigned low = (unsigned)((unsigned char)text[1] & 0x3F) << 6 | ((unsigned char)text[2] & 0x3F),
                 code = 0x2000 | low;
        *printable = !(code >= 0x2028 && code <= 0x202E) && !(code >= 0x2066 && code <= 0x2069);
    }
    return length ? length : 1;
}

bool aorta_is_printable(const char *text, size_t length, bool lines) {
    bool printable = true;
    for (size_t at = 0; at < length && printable;) at += next_character(text + at, length - at, lines, &printable);
    return printable;
}

void aorta_make_printable(char *text, size_t length, bool lines) {
    for (size_t at = 0, step; at < length; at += step) {
        bool printable;
        step = next_character(text + at, length - at, lines, &printable);
        for (size_t i = 0; i < step && !printable; i++) text[at + i] = '?';
    }
}

struct aorta_shown aorta_shown(const char *path) {
    struct aorta_shown shown;
    snprintf(shown.text, sizeof shown.text, "%s", path);
    aorta_make_printable(shown.text, strlen(shown.text), false);
    return shown;
}

/* ---- lines of a terminal ---- */

enum { NARROWEST = 60, WIDEST = 200, USUAL = 100 };

static const char ellipsis[] = "…";

int aorta_terminal_width(FILE *stream) {
    struct winsize size = {0};
    if (ioctl(fileno(stream), TIOCGWINSZ, &size) != 0) return 0;
    const char *outer = getenv(AORTA_COLUMNS);
    const int columns = size.ws_col ? size.ws_col : outer ? atoi(outer) : 0;
    return columns <= 0 ? 0 : columns < NARROWEST ? NARROWEST : columns > WIDEST ? WIDEST : columns;
}

bool aorta_terminal_takes_escapes(FILE *stream) {
    const char *term = getenv("TERM");
    return aorta_terminal_width(stream) > 0 && term && strcmp(term, "dumb") != 0;
}

/* ---- characters ---- */

static bool begins_character(char c) {
    return ((unsigned char)c & 0xc0) != 0x80;
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
    int columns = 0;
    for (; *text; text++) columns += begins_character(*text);
    return columns;
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

/* ---- short names ---- */

/* The word at or after byte `at`, without namespaces. `with`: the word may begin before `at`. */
static void word_at(const char *text, size_t at, bool with, char *word, size_t size) {
    size_t length = 0;
    while (with && at && isalnum((unsigned char)text[at - 1])) at--;
    for (;;) {
        while (text[at] && !isalnum((unsigned char)text[at])) at++;
        for (length = 0; isalnum((unsigned char)text[at + length]);) length++;
        if (strncmp(text + at + length, "::", 2) != 0) break;
        at += length;
    }
    snprintf(word, size, "%.*s", (int)length, text + at);
}

const char *aorta_name_apart(const char *name, const char *const *names, size_t count,
                             const char *(*shorten)(const char *name, char *text, size_t size), char *text,
                             size_t size) {
    char other[512], word[32] = "", same[32];
    size_t most = 0;
    shorten(name, text, size);
    for (size_t i = 0; i < count; i++) {
        if (!names[i] || strcmp(names[i], name) == 0 || strcmp(shorten(names[i], other, sizeof other), text) != 0)
            continue;
        size_t alike = 0;
        while (name[alike] == names[i][alike]) alike++;
        if (*word && alike < most) continue;
        most = alike;
        word_at(name, alike, true, word, sizeof word);
        word_at(names[i], alike, true, same, sizeof same);
        if (strcmp(word, same) == 0) word_at(name, alike, false, word, sizeof word); /* "kernel<", "kernel_manual<" */
    }
    const size_t length = strlen(text);
    if (*word) snprintf(text + length, size - length, " (%s)", word);
    return text;
}

/* ---- lines ---- */

/* Length of the line that begins here: to the last space within `width` columns. A longer word is broken unless
 * `whole`. */
static size_t line_bytes(const char *text, int width, bool whole) {
    size_t fits = bytes_of(text, width);
    if (!text[fits]) return fits;
    size_t at = fits;
    while (at > 0 && text[at] != ' ') at--;
    if (at) return at;
    return whole ? strcspn(text, " ") : fits;
}

static int width_left(const struct aorta_lines *lines, bool first) {
    int width = (lines->width ? lines->width : USUAL) - (first ? lines->taken : lines->indent);
    return width < 8 ? 8 : width;
}

const char *const aorta_escapes[AORTA_COLOR_COUNT] = {
    [AORTA_PLAIN] = "\033[0m",   [AORTA_BOLD] = "\033[1m",  [AORTA_DIM] = "\033[2m",   [AORTA_RED] = "\033[31m",
    [AORTA_YELLOW] = "\033[33m", [AORTA_CYAN] = "\033[36m", [AORTA_GREEN] = "\033[32m"};

void aorta_text_lines(struct aorta_text *out, const char *text, const struct aorta_lines *lines) {
    for (bool first = true;; first = false) {
        size_t bytes = line_bytes(text, width_left(lines, first), !lines->width);
        if (!first) aorta_text_printf(out, "%*s", lines->indent, "");
        if (lines->color) aorta_text_puts(out, aorta_escapes[lines->color]);
        aorta_text_append(out, text, bytes);
        aorta_text_puts(out, lines->color ? aorta_escapes[AORTA_PLAIN] : "");
        aorta_text_puts(out, "\n");
        text += bytes;
        while (*text == ' ') text++;
        if (!*text) return;
    }
}

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
    aorta_text_lines(out, text->data, &(struct aorta_lines){.taken = INDENT, .indent = INDENT});
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

/* ---- messages ---- */

static const char *const labels[] = {
    [AORTA_LOG_DEBUG] = "debug", [AORTA_LOG_INFO] = NULL, [AORTA_LOG_WARNING] = "warning", [AORTA_LOG_ERROR] = "error"};

void aorta_log(const struct aorta_log *log, enum aorta_log_level level, const char *format, ...) {
    if (level < log->level) return;
    /* one write per message, so that the lines of several ranks do not run into each other */
    char line[2048];
    size_t length = 0;
    if (log->rank >= 0) length += (size_t)snprintf(line, sizeof line, "[rank %d] ", log->rank);
    if (labels[level]) length += (size_t)snprintf(line + length, sizeof line - length, "%s: ", labels[level]);
    va_list args;
    va_start(args, format);
    int written = vsnprintf(line + length, sizeof line - length - 1, format, args);
    va_end(args);
    if (written < 0) return;
    length += (size_t)written;
    if (length > sizeof line - 2) length = sizeof line - 2; /* a longer message is cut */
    aorta_make_printable(line, length, true);
    line[length] = '\n';
    fwrite(line, 1, length + 1, log->stream ? log->stream : stderr);
}

/* ---- progress ---- */

enum { BAR_WIDTH = 24 };

static const int64_t second_ns = 1000000000;

void aorta_progress_begin(struct aorta_progress *progress, FILE *stream, const char *label, const char *unit,
                          int64_t total) {
    const bool terminal = aorta_terminal_takes_escapes(stream);
    *progress = (struct aorta_progress){.stream = stream,
                                        .label = label,
                                        .unit = unit,
                                        .total = total,
                                        .started_ns = aorta_clock_ns(),
                                        .interval_ns = terminal ? second_ns / 10 : 10 * second_ns,
                                        .terminal = terminal};
    progress->printed_ns = progress->started_ns;
}

static void add_bar(const struct aorta_progress *progress, struct aorta_text *line) {
    const int done = (int)(progress->done * BAR_WIDTH / progress->total);
    aorta_text_printf(line, "[%.*s%.*s] ", done, "########################", BAR_WIDTH - done,
                      "........................");
}

static void add_eta(const struct aorta_progress *progress, double rate, struct aorta_text *line) {
    if (progress->total <= progress->done || rate <= 0) return;
    const long long seconds = llround((double)(progress->total - progress->done) / rate);
    if (seconds >= 3600)
        aorta_text_printf(line, ", ETA %lld:%02lld:%02lld", seconds / 3600, seconds / 60 % 60, seconds % 60);
    else
        aorta_text_printf(line, ", ETA %lld:%02lld", seconds / 60, seconds % 60);
}

static void add_state(const struct aorta_progress *progress, const char *note, struct aorta_text *line) {
    double elapsed_s = (double)(progress->printed_ns - progress->started_ns) / (double)second_ns;
    double rate = elapsed_s > 0 ? (double)progress->done / elapsed_s : 0;
    if (progress->terminal) aorta_text_puts(line, "\r\033[K"); /* back to the start of the line, and empty it */
    aorta_text_printf(line, "%s ", progress->label);
    if (progress->terminal && progress->total > 0) add_bar(progress, line);
    aorta_text_printf(line, "%lld", (long long)progress->done);
    if (progress->total > 0) aorta_text_printf(line, "/%lld", (long long)progress->total);
    aorta_text_printf(line, " %s, %.3g %s/s", progress->unit, rate, progress->unit);
    add_eta(progress, rate, line);
    if (note) aorta_text_printf(line, ", %s", note);
}

/* One write, as other ranks write to the same stream. Prints nothing if memory is exhausted. */
static void print_state(const struct aorta_progress *progress, const char *note, bool last) {
    struct aorta_text line = {0};
    add_state(progress, note, &line);
    if (last || !progress->terminal) aorta_text_puts(&line, "\n");
    if (!line.failed) fputs(line.data, progress->stream);
    aorta_text_free(&line);
    fflush(progress->stream);
}

void aorta_progress_update(struct aorta_progress *progress, int64_t done, const char *note) {
    progress->done = progress->total > 0 && done > progress->total ? progress->total : done;
    int64_t now_ns = aorta_clock_ns();
    if (now_ns - progress->printed_ns < progress->interval_ns) return;
    progress->printed_ns = now_ns;
    print_state(progress, note, false);
}

void aorta_progress_end(struct aorta_progress *progress) {
    progress->printed_ns = aorta_clock_ns();
    print_state(progress, NULL, true);
}
