/* Texts without their line breaks, as lines are wrapped wherever they become too long. */
#ifndef AORTA_TESTS_FLAT_H
#define AORTA_TESTS_FLAT_H

#include "base/text.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

/* A run of spaces and line breaks is one space. */
static inline struct aorta_text flat_of(const char *text) {
    struct aorta_text flat = {0};
    for (const char *at = text; *at; at++)
        if (!isspace((unsigned char)*at))
            aorta_text_append(&flat, at, 1);
        else if (!flat.length || flat.data[flat.length - 1] != ' ')
            aorta_text_puts(&flat, " ");
    return flat;
}

/* Whether the text has the part, wherever its lines are broken. */
static inline bool text_has(const char *text, const char *part) {
    struct aorta_text whole = flat_of(text), wanted = flat_of(part);
    const bool found = whole.data && wanted.data && strstr(whole.data, wanted.data) != NULL;
    aorta_text_free(&whole);
    aorta_text_free(&wanted);
    return found;
}

#endif
