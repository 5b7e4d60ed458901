/* A growing text buffer, and helpers on C strings. */
#ifndef AORTA_BASE_TEXT_H
#define AORTA_BASE_TEXT_H

#include "base/arena.h"

/* Zero-initialise; data is NUL-terminated once anything was appended. A failed allocation sets `failed` and turns the
 * later calls into no-ops, so that callers check once, at the end (aorta_text_check). */
struct aorta_text {
    char *data;
    size_t length, capacity;
    int failed;
};

void aorta_text_append(struct aorta_text *text, const char *bytes, size_t length);
void aorta_text_puts(struct aorta_text *text, const char *string);
void aorta_text_printf(struct aorta_text *text, const char *format, ...) AORTA_PRINTF(2, 3);
void aorta_text_vprintf(struct aorta_text *text, const char *format, va_list args);
void aorta_text_words(struct aorta_text *text, const char *const *words, size_t count); /* "A, B, C" */
void aorta_text_shell_word(struct aorta_text *text, const char *word); /* quoted: a shell reads it as one word */
void aorta_text_clear(struct aorta_text *text);                        /* empties it, keeps the memory */
void aorta_text_free(struct aorta_text *text);
/* Frees the memory of a part, and passes its failure on to the whole. */
void aorta_text_end(struct aorta_text *part, struct aorta_text *whole);
/* Frees the memory that a text was written with, and passes its failure on to the text. */
void aorta_text_arena_end(struct aorta_text *text, struct aorta_arena *arena);
/* Moves the text to the arena and frees it; "" if nothing was appended. NULL if memory is exhausted; the arena has
 * failed then. */
char *aorta_text_move(struct aorta_text *text, struct aorta_arena *arena);
AORTA_MUST_USE aorta_status aorta_text_check(const struct aorta_text *text); /* AORTA_MEMORY if an append failed */

/* The text as the message of an error; frees it. */
AORTA_MUST_USE aorta_status aorta_text_error(struct aorta_text *text, enum aorta_code code);

/* A list is several texts in one buffer, each with its NUL, which aorta_text_append(list, "", 1) adds. Returns the
 * text after `before`, or the first text if `before` is NULL. NULL at the end. */
const char *aorta_text_next(const struct aorta_text *list, const char *before);

/* Fills a template: `put` writes each {word} and returns false if its value is unknown. A part in [brackets] with an
 * unknown word is omitted. With an unknown word outside of brackets nothing is written, and the result is false. */
typedef bool (*aorta_text_put)(const void *user, const char *word, size_t length, struct aorta_text *out);
bool aorta_text_template(struct aorta_text *out, const char *template, aorta_text_put put, const void *user);

/* A number for a sentence: three significant digits or all before the point, no exponent below 10^18 ("0.0123", "4.57",
 * "10889"). By value, so that it can be an argument of printf: aorta_brief(x).text. */
struct aorta_brief {
    char text[32];
};
struct aorta_brief aorta_brief(double value);
/* "34.0", "0.117", "129": three significant digits, for what was measured. */
struct aorta_brief aorta_measured(double value);
struct aorta_brief aorta_digits(double value, int digits); /* with `digits` significant digits */

/* "1 stream", "2 streams": a number with its noun. By value, like aorta_brief. */
struct aorta_counted {
    char text[64];
};
struct aorta_counted aorta_counted(long long count, const char *noun);

/* NULL ends the words, too: their number may be SIZE_MAX then. */
bool aorta_is_one_of(const char *word, const char *const *words, size_t count);

/* Levenshtein distance, for "did you mean". */
size_t aorta_edit_distance(const char *a, const char *b);

/* That distance if the words are similar, else SIZE_MAX. Similar: at most a third of the longer word's length, at
 * least 1 but less than the whole word; or two neighbouring characters are swapped, or `a` is `b` without its first or
 * last part ("batches", "num_batches"). */
size_t aorta_near_distance(const char *a, const char *b);

/* The candidate nearest to `word`, or NULL when none is near enough to suggest. */
const char *aorta_nearest(const char *word, const char *const *candidates, size_t count);

/* Length of the UTF-8 sequence at text[0 .. available), which is not empty (RFC 3629: no overlong forms, no surrogates,
 * at most U+10FFFF); 0 if it is none. */
size_t aorta_utf8_length(const char *text, size_t available);

#endif
