/* JSON values in memory, walked without a tree: members and elements are found one after the other, texts and numbers
 * are read in place. Functions on a value do not fail: callers have checked that its strings and brackets close
 * (trace/json_stream.h for files, aorta_json_skip_nested for memory). */
#ifndef AORTA_BASE_JSON_VALUE_H
#define AORTA_BASE_JSON_VALUE_H

#include "base/text.h"

#include <stdint.h>

/* White space between values. */
static inline bool aorta_json_space(char c) {
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* A value as in the file, without white space around it: begins with { [ " or a scalar's first letter. */
struct aorta_json_value {
    const char *text;
    size_t length;
};

struct aorta_json_cursor {
    const char *at, *end;
};

/* Walks the members or elements of a value; there are none if it is no object or array. A malformed member (no colon,
 * for example) ends the walk; then `well_formed` is false and the cursor is at its end. */
struct aorta_json_cursor aorta_json_members(struct aorta_json_value value);
bool aorta_json_next_member(struct aorta_json_cursor *cursor, struct aorta_json_value *key,
                            struct aorta_json_value *value);
struct aorta_json_cursor aorta_json_elements(struct aorta_json_value value);
bool aorta_json_next_element(struct aorta_json_cursor *cursor, struct aorta_json_value *value);
static inline bool aorta_json_well_formed(const struct aorta_json_cursor *cursor) {
    return cursor->at == cursor->end;
}

/* An object whose end is not known yet: the memory may end within it, or go on after it. Every function here returns
 * false if the object does not end in memory or is malformed. Then find its end first (aorta_json_skip_nested);
 * aorta_json_members report the error. */
struct aorta_json_walk {
    const char *at, *end;
    bool closed; /* `at` is after the closing bracket */
};
bool aorta_json_walk_begin(struct aorta_json_walk *walk, const char *at, const char *end); /* `at`: its bracket */
/* Passes a key and its colon; `at` is then the value. Also false if `closed`. */
bool aorta_json_walk_key(struct aorta_json_walk *walk, struct aorta_json_value *key);
bool aorta_json_walk_value(struct aorta_json_walk *walk, struct aorta_json_value *value);
/* Instead of aorta_json_walk_value: passes a value that `inner` has walked to its end. */
bool aorta_json_walk_out(struct aorta_json_walk *walk, const struct aorta_json_walk *inner);

/* Whether a key (as handed out, without quotes), or a word like null, is this one. */
bool aorta_json_key_is(struct aorta_json_value key, const char *name);
/* The member's value; length 0: there is none. */
struct aorta_json_value aorta_json_find(struct aorta_json_value object, const char *name);
/* Whether a value is this text, which needs no escapes. */
bool aorta_json_text_is(struct aorta_json_value value, const char *text);
static inline bool aorta_json_is_string(struct aorta_json_value value) {
    return value.length && value.text[0] == '"';
}
/* A string's text without quotes and with escapes resolved, appended to `scratch` only if there are any; else it
 * points into the file. Half surrogates become U+FFFD. False when it is no string. */
bool aorta_json_get_string(struct aorta_json_value value, struct aorta_text *scratch, struct aorta_json_value *string);
/* A whole number in the range of int64, also in quotes ("0x1f" and "31") and as 31.0. */
bool aorta_json_get_int(struct aorta_json_value value, int64_t *number);
/* A decimal number times 10^`shift` (in quotes too), as the nearest integer, half away from zero, computed exactly:
 * microseconds with shift 3 are ns. */
bool aorta_json_get_scaled(struct aorta_json_value value, int shift, int64_t *number);

/* ---- the end of a value ----
 * Finds where a JSON value ends, many bytes at a time. */

/* The state of a scan within a value, so that it can go on with the next piece. Zero-initialise. */
struct aorta_json_skip {
    uint64_t in_string; /* all ones inside a string, else 0 */
    bool escaped;       /* the piece before ended with the backslash of an escape */
    int64_t depth;      /* brackets open */
};

/* The place after the bracket that closes the object or array which begins at the first piece's start; NULL: `state` is
 * ready for the next piece. Kinds of brackets are not compared. */
const char *aorta_json_skip_nested(struct aorta_json_skip *state, const char *at, const char *end);
/* The place after the closing quote; `at` is after the opening one. */
const char *aorta_json_skip_string(struct aorta_json_skip *state, const char *at, const char *end);

/* ---- the members of one JSON object of a metrics line, found by their key ----
 *
 * Nothing is copied: values point into the line, which is read once. A tree of the line took most of a report's time.
 */

#define AORTA_FIELDS_MOST 128

struct aorta_fields {
    struct {
        struct aorta_json_value key, value;
    } items[AORTA_FIELDS_MOST];
    size_t count;
};

/* The JSON value of a line, without white space around it. AORTA_FORMAT, with the byte, if the line is empty, or an
 * object or array does not end or is followed by anything. */
AORTA_MUST_USE aorta_status aorta_line_value(const char *line, size_t length, struct aorta_json_value *value);

/* AORTA_FORMAT, with the byte from `line` on: no object, a malformed member (its value, too, but not values inside it),
 * a key twice, more members than AORTA_FIELDS_MOST. */
AORTA_MUST_USE aorta_status aorta_fields_read(const char *line, struct aorta_json_value object,
                                              struct aorta_fields *fields);
/* NULL: there is none of this key. */
const struct aorta_json_value *aorta_fields_get(const struct aorta_fields *fields, const char *key);

/* An array's elements, each well-formed as a member is. AORTA_FORMAT as above. */
AORTA_MUST_USE aorta_status aorta_elements_count(const char *line, struct aorta_json_value array, size_t *count);

/* Whether it is true, false, null or a number (RFC 8259). */
bool aorta_value_is_scalar(struct aorta_json_value value);
/* Python's NaN and Infinity also count as numbers. */
bool aorta_value_is_number(struct aorta_json_value value);
double aorta_value_number(struct aorta_json_value number);

#endif
