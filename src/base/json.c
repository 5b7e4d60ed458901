#include "base/json.h"
#include "base/json_value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void line_break(struct aorta_json *json) {
    if (json->indent == 0) return;
    aorta_text_printf(json->out, "\n%*s", json->indent * json->depth, "");
}

/* Writes the separator between the previous value and the next one. */
static void separate(struct aorta_json *json) {
    if (json->after_key) {
        json->after_key = false;
        return;
    }
    if (json->need_comma) aorta_text_puts(json->out, json->indent ? "," : ", ");
    if (json->depth > 0) line_break(json);
}

static void write_value(struct aorta_json *json, const char *text) {
    separate(json);
    aorta_text_puts(json->out, text);
    json->need_comma = true;
}

static void open_level(struct aorta_json *json, const char *bracket) {
    separate(json);
    aorta_text_puts(json->out, bracket);
    json->depth++;
    json->need_comma = false;
}

static void close_level(struct aorta_json *json, const char *bracket) {
    json->depth--;
    if (json->need_comma) line_break(json); /* an empty one stays "{}" */
    aorta_text_puts(json->out, bracket);
    json->need_comma = true;
}

void aorta_json_begin(struct aorta_json *json, struct aorta_text *out, int indent) {
    *json = (struct aorta_json){.out = out, .indent = indent};
}

void aorta_json_output(struct aorta_json *json, struct aorta_text *out, int indent, int schema_version) {
    aorta_json_begin(json, out, indent);
    aorta_json_object(json);
    aorta_json_key_int(json, "schema_version", schema_version);
}

void aorta_json_output_end(struct aorta_json *json) {
    aorta_json_object_end(json);
    aorta_text_puts(json->out, "\n");
}

void aorta_json_object(struct aorta_json *json) {
    open_level(json, "{");
}

void aorta_json_object_end(struct aorta_json *json) {
    close_level(json, "}");
}

void aorta_json_array(struct aorta_json *json) {
    open_level(json, "[");
}

void aorta_json_array_end(struct aorta_json *json) {
    close_level(json, "]");
}

/* Bytes from here on that are in a JSON string as they are, as far as that is plain to see. */
static size_t plain_length(const unsigned char *bytes) {
    size_t length = 0;
    while (bytes[length] >= 0x20 && bytes[length] < 0x7f && bytes[length] != '"' && bytes[length] != '\\') length++;
    return length;
}

/* Bytes that are not UTF-8 become U+FFFD, so that the file stays readable for any path or name. */
static void write_quoted(struct aorta_text *out, const char *value) {
    static const char letters[] = "\"\\\n\r\t", escapes[] = "\"\\nrt";
    aorta_text_puts(out, "\"");
    const unsigned char *byte = (const unsigned char *)value, *end = byte + strlen(value);
    while (*byte) {
        size_t plain = plain_length(byte);
        aorta_text_append(out, (const char *)byte, plain);
        byte += plain;
        if (!*byte) break;
        size_t length = aorta_utf8_length((const char *)byte, (size_t)(end - byte));
        const char *letter = memchr(letters, *byte, sizeof letters - 1);
        if (letter)
            aorta_text_append(out, (const char[]){'\\', escapes[letter - letters]}, 2);
        else if (length == 0)
            aorta_text_puts(out, AORTA_JSON_NO_LETTER);
        else if (*byte < 0x20)
            aorta_text_printf(out, "\\u%04x", *byte);
        else
            aorta_text_append(out, (const char *)byte, length);
        byte += length ? length : 1;
    }
    aorta_text_puts(out, "\"");
}

void aorta_json_key(struct aorta_json *json, const char *key) {
    separate(json);
    write_quoted(json->out, key);
    aorta_text_puts(json->out, ": ");
    json->need_comma = false;
    json->after_key = true;
}

void aorta_json_string(struct aorta_json *json, const char *value) {
    if (!value) {
        aorta_json_null(json);
        return;
    }
    separate(json);
    write_quoted(json->out, value);
    json->need_comma = true;
}

void aorta_json_int(struct aorta_json *json, int64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)value);
    write_value(json, text);
}

void aorta_json_double(struct aorta_json *json, double value) {
    char text[40];
    if (!isfinite(value)) {
        aorta_json_null(json);
        return;
    }
    for (int digits = 15; digits <= 17; digits++) { /* 17 always read back equal (IEEE 754 double) */
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    if (!strpbrk(text, ".e")) strcat(text, ".0"); /* a reader shall see a real number */
    write_value(json, text);
}

void aorta_json_fixed(struct aorta_json *json, double value, int decimals) {
    char text[352]; /* the longest double has 309 digits before the point */
    if (!isfinite(value)) {
        aorta_json_null(json);
        return;
    }
    snprintf(text, sizeof text, "%.*f", decimals < 30 ? decimals : 30, value);
    char *point = strchr(text, '.');
    if (point) {
        char *end = text + strlen(text);
        while (end - point > 2 && end[-1] == '0') *--end = '\0'; /* one decimal stays: "1.0" */
    }
    bool negative_zero = text[0] == '-' && strspn(text + 1, "0.") == strlen(text + 1);
    write_value(json, text + negative_zero);
}

void aorta_json_ms(struct aorta_json *json, int64_t ns) {
    char digits[32];
    char *end = digits + sizeof digits, *at = end;
    uint64_t left = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;
    for (int decimals = 0; decimals < 6; decimals++, left /= 10) {
        *--at = (char)('0' + left % 10);
        if (*at == '0' && at + 1 == end && decimals < 5) end = at; /* a trailing zero */
    }
    *--at = '.';
    do {
        *--at = (char)('0' + left % 10);
        left /= 10;
    } while (left);
    if (ns < 0) *--at = '-';
    separate(json);
    aorta_text_append(json->out, at, (size_t)(end - at));
    json->need_comma = true;
}

void aorta_json_bool(struct aorta_json *json, bool value) {
    write_value(json, value ? "true" : "false");
}

void aorta_json_text(struct aorta_json *json, const char *value) {
    write_value(json, value);
}

void aorta_json_null(struct aorta_json *json) {
    write_value(json, "null");
}

void aorta_json_key_object(struct aorta_json *json, const char *key) {
    aorta_json_key(json, key);
    aorta_json_object(json);
}

void aorta_json_key_array(struct aorta_json *json, const char *key) {
    aorta_json_key(json, key);
    aorta_json_array(json);
}

#define KEY_AND(kind, type)                                                                                            \
    void aorta_json_key_##kind(struct aorta_json *json, const char *key, type value) {                                 \
        aorta_json_key(json, key);                                                                                     \
        aorta_json_##kind(json, value);                                                                                \
    }
KEY_AND(string, const char *)
KEY_AND(int, int64_t)
KEY_AND(double, double)
KEY_AND(ms, int64_t)
KEY_AND(bool, bool)
#undef KEY_AND

void aorta_json_key_sentence(struct aorta_json *json, const char *key, struct aorta_text *sentence) {
    aorta_json_key_string(json, key, sentence->length ? sentence->data : NULL);
    aorta_text_end(sentence, json->out);
}

void aorta_json_key_fixed(struct aorta_json *json, const char *key, double value, int decimals) {
    aorta_json_key(json, key);
    aorta_json_fixed(json, value, decimals);
}

void aorta_json_key_natural(struct aorta_json *json, const char *key, int64_t value) {
    if (value < 0)
        aorta_json_key_null(json, key);
    else
        aorta_json_key_int(json, key, value);
}

void aorta_json_key_range(struct aorta_json *json, const char *key, double low, double high) {
    aorta_json_key_array(json, key);
    aorta_json_double(json, low);
    aorta_json_double(json, high);
    aorta_json_array_end(json);
}

void aorta_json_key_microseconds(struct aorta_json *json, const char *key, int64_t ns) {
    char text[32];
    uint64_t size = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;
    snprintf(text, sizeof text, "%s%llu.%03llu", ns < 0 ? "-" : "", (unsigned long long)(size / 1000),
             (unsigned long long)(size % 1000));
    aorta_json_key(json, key);
    write_value(json, text);
}

void aorta_json_key_null(struct aorta_json *json, const char *key) {
    aorta_json_key(json, key);
    aorta_json_null(json);
}

/* ---- numbers ---- */

static const char *pass_digits(const char *at, const char *end) {
    while (at < end && *at >= '0' && *at <= '9') at++;
    return at;
}

/* RFC 8259, section 6. */
static bool is_decimal(struct aorta_json_value value) {
    const char *at = value.text, *end = at + value.length;
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
        if (aorta_json_key_is(value, python_numbers[i].word)) return &python_numbers[i].value;
    return NULL;
}

bool aorta_value_is_number(struct aorta_json_value value) {
    return is_decimal(value) || find_python_number(value);
}

/* strtod stops at the comma or bracket after a decimal number, which is part of the line. */
double aorta_value_number(struct aorta_json_value number) {
    const double *found = find_python_number(number);
    return found ? *found : strtod(number.text, NULL);
}

/* ---- values ---- */

bool aorta_value_is_scalar(struct aorta_json_value value) {
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (aorta_json_key_is(value, words[i])) return true;
    return is_decimal(value);
}

static bool is_well_formed(struct aorta_json_value value) {
    return strchr("{[\"", value.text[0]) || aorta_value_is_scalar(value) || find_python_number(value);
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
