#include "base/json_fields.h"

#include "base/json_skip.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool aorta_value_is(struct aorta_json_value value, const char *word) {
    return aorta_json_key_is(value, word);
}

/* ---- numbers ---- */

static const char *pass_digits(const char *at, const char *end) {
    while (at < end && *at >= '0' && *at <= '9') at++;
    return at;
}

/* RFC 8259, section 6. */
static bool is_decimal(const char *at, const char *end) {
    if (at < end && *at == '-') at++;
    const char *whole = at;
    at = pass_digits(at, end);
    if (at == whole || (*whole == '0' && at - whole > 1)) return false;
    if (at < end && *at == '.') {
        const char *fraction = at + 1;
        at = pass_digits(fraction, end);
        if (at == fraction) return false;
    }
    if (at == end || (*at != 'e' && *at != 'E')) return at == end;
    at++;
    if (at < end && (*at == '-' || *at == '+')) at++;
    return at < end && pass_digits(at, end) == end;
}

/* json.dumps(float("nan")) and so on. */
static const struct {
    const char *word;
    double value;
} python_numbers[] = {{"NaN", NAN}, {"Infinity", INFINITY}, {"-Infinity", -INFINITY}};

static const double *find_python_number(struct aorta_json_value value) {
    for (size_t i = 0; i < sizeof python_numbers / sizeof *python_numbers; i++)
        if (aorta_value_is(value, python_numbers[i].word)) return &python_numbers[i].value;
    return NULL;
}

bool aorta_value_is_number(struct aorta_json_value value) {
    return is_decimal(value.text, value.text + value.length) || find_python_number(value);
}

/* strtod stops at the comma or bracket after a decimal number, which is part of the line. */
double aorta_value_number(struct aorta_json_value number) {
    const double *found = find_python_number(number);
    return found ? *found : strtod(number.text, NULL);
}

/* ---- values ---- */

static bool is_well_formed(struct aorta_json_value value) {
    static const char *const words[] = {"true", "false", "null"};
    if (strchr("{[\"", value.text[0])) return true;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (aorta_value_is(value, words[i])) return true;
    return aorta_value_is_number(value);
}

static aorta_status wrong(const char *line, const char *at, const char *problem) {
    return AORTA_ERROR(AORTA_FORMAT, "byte %zu: %s", (size_t)(at - line), problem);
}

aorta_status aorta_line_value(const char *line, size_t length, struct aorta_json_value *value) {
    const char *at = line, *end = line + length;
    while (at < end && aorta_json_space(*at)) at++;
    while (end > at && aorta_json_space(end[-1])) end--;
    *value = (struct aorta_json_value){at, (size_t)(end - at)};
    if (at == end) return wrong(line, end, "the line is empty");
    if (*at != '{' && *at != '[') return NULL; /* no object: for the caller to say */
    struct aorta_json_skip state = {0};
    const char *behind = aorta_json_skip_nested(&state, at, end);
    if (!behind) return wrong(line, end, "the line ends within a string or before its last bracket");
    return behind == end ? NULL : wrong(line, behind, "something follows the last bracket");
}

/* ---- objects ---- */

static const struct aorta_json_value *find(const struct aorta_fields *fields, const char *key, size_t length) {
    for (size_t i = 0; i < fields->count; i++) {
        const struct aorta_json_value *other = &fields->items[i].key;
        if (other->length == length && memcmp(other->text, key, length) == 0) return &fields->items[i].value;
    }
    return NULL;
}

aorta_status aorta_fields_read(const char *line, struct aorta_json_value object, struct aorta_fields *fields) {
    struct aorta_json_cursor cursor = aorta_json_members(object);
    struct aorta_json_value key, value;
    fields->count = 0;
    if (!cursor.at) return wrong(line, object.text, "not an object");
    while (aorta_json_next_member(&cursor, &key, &value)) {
        if (!is_well_formed(value)) return wrong(line, value.text, "no value of JSON");
        if (find(fields, key.text, key.length)) return wrong(line, key.text - 1, "a key that was there before");
        if (fields->count == AORTA_FIELDS_MOST)
            return wrong(line, key.text - 1, "an object with more than 128 members");
        fields->items[fields->count].key = key;
        fields->items[fields->count++].value = value;
    }
    return aorta_json_well_formed(&cursor) ? NULL : wrong(line, cursor.at, "expected \"key\": value");
}

const struct aorta_json_value *aorta_fields_get(const struct aorta_fields *fields, const char *key) {
    return find(fields, key, strlen(key));
}

aorta_status aorta_elements_count(const char *line, struct aorta_json_value array, size_t *count) {
    struct aorta_json_cursor cursor = aorta_json_elements(array);
    struct aorta_json_value value;
    *count = 0;
    if (!cursor.at) return wrong(line, array.text, "not an array");
    while (aorta_json_next_element(&cursor, &value)) {
        if (!is_well_formed(value)) return wrong(line, value.text, "no value of JSON");
        ++*count;
    }
    return aorta_json_well_formed(&cursor) ? NULL
                                           : wrong(line, cursor.at, "expected a value, with a comma before the next");
}
