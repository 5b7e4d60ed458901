/* Text from files (names, paths) that goes to a terminal: characters that would move the cursor, change colours, or
 * begin a line become '?'. */
#ifndef AORTA_BASE_PRINTABLE_H
#define AORTA_BASE_PRINTABLE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* Not printable: control characters (C0, DEL, C1), marks that change the writing direction, bytes that are not UTF-8.
 * `lines`: newlines and tabs count as printable, for a text of several lines. */
bool aorta_is_printable(const char *text, size_t length, bool lines);

/* Replaces each such byte, in place. */
void aorta_make_printable(char *text, size_t length, bool lines);

/* A path for a message, on one line. By value: aorta_shown(path).text. */
struct aorta_shown {
    char text[PATH_MAX];
};
struct aorta_shown aorta_shown(const char *path);

#endif
