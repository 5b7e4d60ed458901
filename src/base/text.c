#include "base/text.h"

#include "base/array.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Makes space for `more` bytes and the terminating NUL. */
static bool reserve(struct aorta_text *text, size_t more) {
    if (text->failed) return false;
    if (more >= SIZE_MAX / 2 - text->length) {
        text->failed = 1;
        return false;
    }
    if (aorta_array_fit(&text->data, &text->capacity, text->length + more + 1, 1)) return true;
    text->failed = 1;
    return false;
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

void aorta_text_printf(struct aorta_text *text, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0) text->failed = 1;
    if (length < 0 || !reserve(text, (size_t)length)) return;
    va_start(args, format);
    vsnprintf(text->data + text->length, (size_t)length + 1, format, args);
    va_end(args);
    text->length += (size_t)length;
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
    if (size >= 1e18) { /* nothing that is measured; all its digits have no place */
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

aorta_status aorta_text_check(const struct aorta_text *text) {
    if (!text->failed) return NULL;
    return AORTA_ERROR(AORTA_MEMORY, "out of memory while composing %zu bytes of text", text->length);
}

aorta_status aorta_text_take(struct aorta_text *text, char **to) {
    aorta_status status = aorta_text_check(text);
    if (status) {
        aorta_text_free(text);
        return status;
    }
    free(*to);
    *to = text->data;
    *text = (struct aorta_text){0};
    return NULL;
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

size_t aorta_near_distance(const char *a, const char *b) {
    size_t a_length = strnlen(a, LONGEST_WORD), b_length = strnlen(b, LONGEST_WORD);
    size_t longer = a_length > b_length ? a_length : b_length, limit = longer >= 3 ? longer / 3 : 1;
    size_t distance = aorta_edit_distance(a, b);
    if (distance <= limit && distance < longer) return distance;
    return has_swapped_neighbours(a, b) ? distance : SIZE_MAX;
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
