/* Finds where a JSON value ends, many bytes at a time. */
#ifndef AORTA_BASE_JSON_SKIP_H
#define AORTA_BASE_JSON_SKIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The state of a scan within a value, so that it can go on with the next piece. Zero-initialise. */
struct aorta_json_skip {
    uint64_t in_string; /* all ones inside a string, else 0 */
    bool escaped;       /* the piece before ended with the backslash of an escape */
    int64_t depth;      /* brackets open */
};

/* The place after the bracket that closes the object or array which begins at the first piece's start; NULL: `state` is
 * ready for the next piece. Kinds of brackets are not compared. */
const char *aorta_json_skip_nested(struct aorta_json_skip *state, const char *at, const char *end);
/* Without vector instructions, for machines without them and for tests. */
const char *aorta_json_skip_nested_plain(struct aorta_json_skip *state, const char *at, const char *end);
/* The place after the closing quote; `at` is after the opening one. */
const char *aorta_json_skip_string(struct aorta_json_skip *state, const char *at, const char *end);

#endif
