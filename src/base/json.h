/* Writing JSON into a text buffer: commas, quoting, indentation. jansson reads small
 * files, json_value.h large ones.
 *
 * Numbers: doubles with the shortest digits that read back equal; NaN and infinities become null. */
#ifndef AORTA_BASE_JSON_H
#define AORTA_BASE_JSON_H

#include "base/text.h"

#include <stdint.h>

struct aorta_json {
    struct aorta_text *out; /* borrowed */
    int indent;             /* spaces per level; 0: everything on one line */
    int depth;
    bool need_comma, after_key;
};

void aorta_json_begin(struct aorta_json *json, struct aorta_text *out, int indent);
/* Begins the top-level object of an output, with its "schema_version"; ends it with a newline. */
void aorta_json_output(struct aorta_json *json, struct aorta_text *out, int indent, int schema_version);
void aorta_json_output_end(struct aorta_json *json);
void aorta_json_object(struct aorta_json *json); /* { */
void aorta_json_object_end(struct aorta_json *json);
void aorta_json_array(struct aorta_json *json); /* [ */
void aorta_json_array_end(struct aorta_json *json);
void aorta_json_key(struct aorta_json *json, const char *key);
void aorta_json_string(struct aorta_json *json, const char *value); /* NULL becomes null */
void aorta_json_int(struct aorta_json *json, int64_t value);
void aorta_json_double(struct aorta_json *json, double value);
void aorta_json_fixed(struct aorta_json *json, double value, int decimals); /* at most `decimals`, trailing zeros cut */
/* Writes nanoseconds as milliseconds with up to six decimals, which is exact. Uses integers, as printing thousands of
 * times as doubles would take most of the time of writing a file. */
void aorta_json_ms(struct aorta_json *json, int64_t ns);
void aorta_json_bool(struct aorta_json *json, bool value);
void aorta_json_null(struct aorta_json *json);
void aorta_json_text(struct aorta_json *json, const char *value); /* a value that is JSON already */

/* key and value in one call; object and array: { or [ after the key */
void aorta_json_key_object(struct aorta_json *json, const char *key);
void aorta_json_key_array(struct aorta_json *json, const char *key);
void aorta_json_key_string(struct aorta_json *json, const char *key, const char *value);
/* Writes null for an empty text. Frees the text. */
void aorta_json_key_sentence(struct aorta_json *json, const char *key, struct aorta_text *sentence);
void aorta_json_key_int(struct aorta_json *json, const char *key, int64_t value);
void aorta_json_key_double(struct aorta_json *json, const char *key, double value);
void aorta_json_key_fixed(struct aorta_json *json, const char *key, double value, int decimals);
void aorta_json_key_natural(struct aorta_json *json, const char *key, int64_t value);         /* negative: null */
void aorta_json_key_range(struct aorta_json *json, const char *key, double low, double high); /* [low, high] */
void aorta_json_key_microseconds(struct aorta_json *json, const char *key, int64_t ns);
void aorta_json_key_ms(struct aorta_json *json, const char *key, int64_t ns);
void aorta_json_key_bool(struct aorta_json *json, const char *key, bool value);
void aorta_json_key_null(struct aorta_json *json, const char *key);

/* Replaces a byte that is not UTF-8. */
#define AORTA_JSON_NO_LETTER "\xEF\xBF\xBD" /* U+FFFD */

#endif
