#include "base/printable.h"
#include "base/json.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Bytes of the character at text[0]; *printable: whether it may be shown. */
static size_t next_character(const char *text, size_t available, bool lines, bool *printable) {
    unsigned char lead = (unsigned char)*text;
    size_t length = aorta_json_utf8_length(text, available);
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
