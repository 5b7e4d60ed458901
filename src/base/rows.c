/* Values by their rows: as JSON, and as a page of the docs. */
#include "base/rows.h"
#include "base/printable.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- values ---- */

static struct aorta_row_value whole(int64_t value) {
    return (struct aorta_row_value){.known = value != AORTA_ROW_UNKNOWN, .whole = value, .number = (double)value};
}

struct aorta_row_value aorta_row_value(const struct aorta_row *row, const void *values, int index) {
    const char *at = (const char *)values + row->offset;
    struct aorta_row_value value = {0};
    switch (row->type) {
    case AORTA_ROW_TEXT:
    case AORTA_ROW_KERNEL:
    case AORTA_ROW_LABEL:
        value.text = ((const char *const *)(const void *)at)[index];
        value.known = value.text != NULL;
        return value;
    case AORTA_ROW_BOOL:
        value.whole = ((const bool *)(const void *)at)[index];
        value.known = value.whole || !row->omit;
        return value;
    case AORTA_ROW_INT:
    case AORTA_ROW_NS:
    case AORTA_ROW_TIME:
        return whole(((const int64_t *)(const void *)at)[index]);
    case AORTA_ROW_NATURAL:
        value = whole(((const int64_t *)(const void *)at)[index]);
        value.known = value.whole >= 0;
        return value;
    case AORTA_ROW_INT32: {
        const int number = ((const int *)(const void *)at)[index];
        return whole(number == INT_MIN ? AORTA_ROW_UNKNOWN : number);
    }
    case AORTA_ROW_MEAN_NS:
    case AORTA_ROW_NUMBER:
        value.number = ((const double *)(const void *)at)[index];
        value.known = isfinite(value.number);
        return value;
    case AORTA_ROW_CHOICE:
        value.text = row->name(*(const int *)(const void *)at);
        value.known = true;
        return value;
    default:
        return value;
    }
}

/* ---- JSON ---- */

void aorta_reasons_add(struct aorta_reasons *reasons, const char *key, const char *reason) {
    if (reasons->count == AORTA_REASONS_MOST) return;
    reasons->items[reasons->count].key = key;
    reasons->items[reasons->count++].reason = reason;
}

void aorta_reasons_json(const struct aorta_reasons *reasons, struct aorta_json *json) {
    if (!reasons->count) return;
    aorta_json_key_object(json, "null_reasons");
    for (int i = 0; i < reasons->count; i++)
        aorta_json_key_string(json, reasons->items[i].key, reasons->items[i].reason);
    aorta_json_object_end(json);
}

static void write_number(const struct aorta_row *row, double value, struct aorta_json *json) {
    if (row->decimals)
        aorta_json_fixed(json, value, row->decimals);
    else
        aorta_json_double(json, value);
}

void aorta_row_json(const struct aorta_row *row, struct aorta_row_value value, int64_t origin_ns,
                    struct aorta_json *json) {
    if (!value.known) {
        aorta_json_null(json);
        return;
    }
    switch (row->type) {
    case AORTA_ROW_BOOL:
        aorta_json_bool(json, value.whole);
        break;
    case AORTA_ROW_INT:
    case AORTA_ROW_NATURAL:
    case AORTA_ROW_INT32:
        aorta_json_int(json, value.whole);
        break;
    case AORTA_ROW_NS:
        aorta_json_ms(json, value.whole);
        break;
    case AORTA_ROW_TIME:
        aorta_json_ms(json, value.whole - origin_ns);
        break;
    case AORTA_ROW_MEAN_NS:
        write_number(row, value.number / 1e6, json);
        break;
    case AORTA_ROW_NUMBER:
        write_number(row, value.number, json);
        break;
    default:
        aorta_json_string(json, value.text);
    }
}

static void add_reason(const struct aorta_row *row, const char *key, const void *values,
                       struct aorta_reasons *reasons) {
    const char *reason = row->reason;
    if (row->reason_at) memcpy(&reason, (const char *)values + row->reason_at, sizeof reason);
    if (reason) aorta_reasons_add(reasons, key, reason);
}

static void write_named(const struct aorta_row *row, const char *key, const void *values, int index, int64_t origin_ns,
                        struct aorta_json *json, struct aorta_reasons *reasons) {
    const struct aorta_row_value value = aorta_row_value(row, values, index);
    if (!value.known && row->omit) return;
    aorta_json_key(json, key);
    aorta_row_json(row, value, origin_ns, json);
    if (!value.known) add_reason(row, key, values, reasons);
}

static void write_array(const struct aorta_row *row, const void *values, int64_t origin_ns, struct aorta_json *json) {
    struct aorta_reasons reasons = {0};
    aorta_json_key_object(json, row->key);
    for (int i = 0; i < row->names; i++) write_named(row, row->name(i), values, i, origin_ns, json, &reasons);
    aorta_reasons_json(&reasons, json);
    aorta_json_object_end(json);
}

static void write_row(const struct aorta_row *row, const void *values, int64_t origin_ns, struct aorta_json *json,
                      struct aorta_reasons *reasons) {
    if (row->type == AORTA_ROW_PART && !row->key)
        aorta_rows_members(row->part, (const char *)values + row->offset, origin_ns, json, reasons);
    else if (row->type == AORTA_ROW_PART)
        aorta_rows_object(row->key, row->part, (const char *)values + row->offset, origin_ns, json);
    else if (row->key && row->names && row->type != AORTA_ROW_CHOICE)
        write_array(row, values, origin_ns, json);
    else if (row->key)
        write_named(row, row->key, values, 0, origin_ns, json, reasons);
}

void aorta_rows_members(const struct aorta_row *rows, const void *values, int64_t origin_ns, struct aorta_json *json,
                        struct aorta_reasons *reasons) {
    for (; rows->type != AORTA_ROW_END; rows++)
        if (!rows->shown_only) write_row(rows, values, origin_ns, json, reasons);
}

void aorta_rows_json(const struct aorta_row *rows, const void *values, int64_t origin_ns, struct aorta_json *json) {
    struct aorta_reasons reasons = {0};
    aorta_rows_members(rows, values, origin_ns, json, &reasons);
    aorta_reasons_json(&reasons, json);
}

void aorta_rows_object(const char *key, const struct aorta_row *rows, const void *values, int64_t origin_ns,
                       struct aorta_json *json) {
    aorta_json_key_object(json, key);
    aorta_rows_json(rows, values, origin_ns, json);
    aorta_json_object_end(json);
}

void aorta_rows_array(const char *key, const struct aorta_row *rows, const void *items, size_t count, size_t size,
                      int64_t origin_ns, struct aorta_json *json) {
    aorta_json_key_array(json, key);
    for (size_t i = 0; i < count; i++) {
        aorta_json_object(json);
        aorta_rows_json(rows, (const char *)items + i * size, origin_ns, json);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
}

/* ---- docs ---- */

const char *aorta_row_unit(const struct aorta_row *row) {
    const bool time = row->type == AORTA_ROW_NS || row->type == AORTA_ROW_TIME || row->type == AORTA_ROW_MEAN_NS;
    return row->unit ? row->unit : time ? "ms" : "";
}

static void markdown_row(const struct aorta_row *row, const char *prefix, struct aorta_text *out) {
    const bool array = row->names && row->type != AORTA_ROW_CHOICE;
    aorta_text_printf(out, "| `%s%s%s` | %s | %s", prefix, row->key, array ? ".NAME" : "", aorta_row_unit(row),
                      row->help ? row->help : "");
    const char *separator = row->help ? ": " : "";
    for (int i = 0; i < row->names; i++, separator = ", ") aorta_text_printf(out, "%s`%s`", separator, row->name(i));
    if (row->omit && row->type != AORTA_ROW_BOOL)
        aorta_text_puts(out, row->help || row->names ? "; absent where not known" : "absent where not known");
    aorta_text_puts(out, " |\n");
}

static void markdown_rows(const struct aorta_row *rows, const char *prefix, struct aorta_text *out) {
    for (; rows->type != AORTA_ROW_END; rows++) {
        char inner[128];
        snprintf(inner, sizeof inner, "%s%s%s", prefix, rows->key ? rows->key : "", rows->key ? "." : "");
        if (rows->type == AORTA_ROW_PART)
            markdown_rows(rows->part, inner, out);
        else if (rows->key && !rows->shown_only)
            markdown_row(rows, prefix, out);
    }
}

void aorta_rows_markdown(const struct aorta_row *rows, struct aorta_text *out) {
    aorta_text_puts(out, "| key | unit | content |\n| --- | --- | --- |\n");
    markdown_rows(rows, "", out);
}

/* ---- JSON Schema ---- */

static const char *schema_type(const struct aorta_row *row) {
    switch (row->type) {
    case AORTA_ROW_TEXT:
    case AORTA_ROW_KERNEL:
    case AORTA_ROW_CHOICE:
        return "string";
    case AORTA_ROW_BOOL:
        return "boolean";
    case AORTA_ROW_INT:
    case AORTA_ROW_NATURAL:
    case AORTA_ROW_INT32:
        return "integer";
    default:
        return "number";
    }
}

/* Or null. */
static void put_type(const char *type, struct aorta_json *json) {
    aorta_json_key_array(json, "type");
    aorta_json_string(json, type);
    aorta_json_string(json, "null");
    aorta_json_array_end(json);
}

static void schema_row(const struct aorta_row *row, struct aorta_json *json) {
    const char *unit = aorta_row_unit(row), *help = row->help ? row->help : "";
    char text[512];
    snprintf(text, sizeof text, "%s%s%s", help, *unit && *help ? "; " : "", unit);
    aorta_json_key_object(json, row->key);
    if (row->names && row->type != AORTA_ROW_CHOICE)
        aorta_json_key_string(json, "type", "object");
    else
        put_type(schema_type(row), json);
    if (*text) aorta_json_key_string(json, "description", text);
    aorta_json_object_end(json);
}

void aorta_rows_schema(const struct aorta_row *rows, struct aorta_json *json) {
    for (; rows->type != AORTA_ROW_END; rows++)
        if (rows->type == AORTA_ROW_PART && rows->key)
            aorta_rows_schema_object(rows->key, rows->part, json);
        else if (rows->type == AORTA_ROW_PART)
            aorta_rows_schema(rows->part, json);
        else if (rows->key && !rows->shown_only)
            schema_row(rows, json);
}

void aorta_rows_schema_object(const char *key, const struct aorta_row *rows, struct aorta_json *json) {
    aorta_json_key_object(json, key);
    put_type("object", json);
    aorta_json_key_object(json, "properties");
    aorta_rows_schema(rows, json);
    aorta_json_object_end(json);
    aorta_json_object_end(json);
}

void aorta_schema_list(const char *key, struct aorta_json *json) {
    aorta_json_key_object(json, key);
    aorta_json_key_string(json, "type", "array");
    aorta_json_key_object(json, "items");
    aorta_json_key_string(json, "type", "object");
    aorta_json_key_object(json, "properties");
}

void aorta_schema_list_end(struct aorta_json *json) {
    for (int i = 0; i < 3; i++) aorta_json_object_end(json);
}

void aorta_rows_schema_array(const char *key, const struct aorta_row *rows, struct aorta_json *json) {
    aorta_schema_list(key, json);
    aorta_rows_schema(rows, json);
    aorta_schema_list_end(json);
}

/* ---- reading ---- */

/* Times beyond thirty years are damage; below, sums cannot overflow. */
static const int64_t time_limit_ns = 1000000000000000000;

static bool is_utf8(struct aorta_json_value string) {
    for (size_t at = 0, length; at < string.length; at += length) {
        length = aorta_utf8_length(string.text + at, string.length - at);
        if (!length || !string.text[at]) return false;
    }
    return true;
}

aorta_status aorta_rows_keep(struct aorta_rows_reader *reader, struct aorta_json_value value, const char *key,
                             const char **text) {
    struct aorta_json_value string;
    aorta_text_clear(&reader->scratch);
    if (!aorta_json_get_string(value, &reader->scratch, &string)) return aorta_text_check(&reader->scratch);
    if (!is_utf8(string)) return AORTA_ERROR(AORTA_FORMAT, "%s holds bytes that are no text in UTF-8", key);
    char *copy = aorta_is_printable(string.text, string.length, false) ? NULL : strndup(string.text, string.length);
    if (copy) aorta_make_printable(copy, string.length, false);
    *text = aorta_intern_slice(reader->strings, copy ? copy : string.text, string.length);
    free(copy);
    return *text ? NULL : AORTA_ERROR(AORTA_MEMORY, "no memory for a file's strings");
}

aorta_status aorta_rows_read_object(const struct aorta_rows_reader *reader, const struct aorta_fields *object,
                                    const char *key, struct aorta_fields *members) {
    const struct aorta_json_value *field = aorta_fields_get(object, key);
    members->count = 0;
    if (!field || aorta_json_key_is(*field, "null")) return NULL;
    return aorta_annotate(aorta_fields_read(reader->line, *field, members), "%s", key);
}

/* ---- one value ---- */

static aorta_status check_limits(const struct aorta_row *row, const char *path, const char *key, double value) {
    if ((row->low == 0 && row->high == 0) || (value >= row->low && value <= row->high)) return NULL;
    return AORTA_ERROR(AORTA_FORMAT, "%s%s is %g; expected %g to %g", path, key, value, row->low, row->high);
}

static aorta_status read_whole(const struct aorta_row *row, const char *path, const char *key,
                               struct aorta_json_value value, int64_t *number) {
    if (!aorta_value_is_number(value) || !aorta_json_get_int(value, number))
        return AORTA_ERROR(AORTA_FORMAT, "%s%s is not an integer", path, key);
    return check_limits(row, path, key, (double)*number);
}

/* Infinity is no finite number, and counts as not known. */
static aorta_status read_number(const struct aorta_row *row, const char *path, const char *key,
                                struct aorta_json_value value, double *number) {
    if (!aorta_value_is_number(value)) return AORTA_ERROR(AORTA_FORMAT, "%s%s is not a number", path, key);
    const double found = aorta_value_number(value);
    if (!isfinite(found)) return NULL;
    *number = row->type == AORTA_ROW_MEAN_NS ? found * 1e6 : found;
    return check_limits(row, path, key, found);
}

static aorta_status read_time(const char *path, const char *key, struct aorta_json_value value, int64_t origin_ns,
                              int64_t *time_ns) {
    if (!aorta_value_is_number(value)) return AORTA_ERROR(AORTA_FORMAT, "%s%s is not a number", path, key);
    if (!aorta_json_get_scaled(value, 6, time_ns) || llabs(*time_ns) > time_limit_ns)
        return AORTA_ERROR(AORTA_FORMAT, "%s%s is not a time: %g", path, key, aorta_value_number(value));
    *time_ns += origin_ns;
    return NULL;
}

static aorta_status read_choice(struct aorta_rows_reader *reader, const struct aorta_row *row, const char *path,
                                struct aorta_json_value value, int *choice) {
    const char *word = NULL;
    struct aorta_json_value string = {0};
    aorta_text_clear(&reader->scratch);
    (void)aorta_json_get_string(value, &reader->scratch, &string);
    for (*choice = 0; string.text && *choice < row->names; ++*choice)
        if (aorta_json_key_is(string, row->name(*choice))) return NULL;
    AORTA_TRY(aorta_rows_keep(reader, value, row->key, &word));
    struct aorta_text known = {0};
    for (int i = 0; i < row->names; i++)
        aorta_text_printf(&known, "%s%s", i == 0 ? "" : i == row->names - 1 ? " and " : ", ", row->name(i));
    aorta_status status = word ? AORTA_ERROR(AORTA_FORMAT, "%s%s is \"%s\"; known are %s", path, row->key, word,
                                             known.data ? known.data : "")
                               : AORTA_ERROR(AORTA_FORMAT, "%s%s is missing or not a string", path, row->key);
    aorta_text_free(&known);
    return status;
}

static aorta_status read_value(struct aorta_rows_reader *reader, const struct aorta_row *row, const char *path,
                               const char *key, struct aorta_json_value value, void *at) {
    int64_t number = 0;
    switch (row->type) {
    case AORTA_ROW_TEXT:
    case AORTA_ROW_KERNEL:
        return aorta_json_is_string(value) ? aorta_rows_keep(reader, value, key, at) : NULL;
    case AORTA_ROW_BOOL:
        *(bool *)at = aorta_json_key_is(value, "true");
        return NULL;
    case AORTA_ROW_INT:
        return read_whole(row, path, key, value, at);
    case AORTA_ROW_INT32:
        AORTA_TRY(read_whole(row, path, key, value, &number));
        if (number < INT32_MIN || number > INT32_MAX)
            return AORTA_ERROR(AORTA_FORMAT, "%s%s is %lld, which cannot be", path, key, (long long)number);
        *(int *)at = (int)number;
        return NULL;
    case AORTA_ROW_NS:
        return read_time(path, key, value, 0, at);
    case AORTA_ROW_TIME:
        return read_time(path, key, value, reader->origin_ns, at);
    case AORTA_ROW_MEAN_NS:
    case AORTA_ROW_NUMBER:
        return read_number(row, path, key, value, at);
    case AORTA_ROW_CHOICE:
        return read_choice(reader, row, path, value, at);
    default:
        return NULL;
    }
}

static size_t size_of(enum aorta_row_type type) {
    return type == AORTA_ROW_BOOL ? sizeof(bool) : type == AORTA_ROW_INT32 ? sizeof(int) : sizeof(int64_t);
}

/* ---- rows ---- */

static aorta_status read_array(struct aorta_rows_reader *reader, const struct aorta_fields *object, const char *path,
                               const struct aorta_row *row, char *at) {
    struct aorta_fields members;
    char inner[128];
    snprintf(inner, sizeof inner, "%s%s.", path, row->key);
    AORTA_TRY(aorta_rows_read_object(reader, object, row->key, &members));
    for (int i = 0; i < row->names; i++) {
        const struct aorta_json_value *field = aorta_fields_get(&members, row->name(i));
        if (!field || aorta_json_key_is(*field, "null")) continue;
        AORTA_TRY(read_value(reader, row, inner, row->name(i), *field, at + (size_t)i * size_of(row->type)));
    }
    return NULL;
}

static aorta_status read_part(struct aorta_rows_reader *reader, const struct aorta_fields *object, const char *path,
                              const struct aorta_row *row, char *at) {
    struct aorta_fields members;
    char inner[128];
    if (!row->key) return aorta_rows_read(reader, object, path, row->part, at);
    snprintf(inner, sizeof inner, "%s%s.", path, row->key);
    AORTA_TRY(aorta_rows_read_object(reader, object, row->key, &members));
    return aorta_rows_read(reader, &members, inner, row->part, at);
}

static aorta_status read_row(struct aorta_rows_reader *reader, const struct aorta_fields *object, const char *path,
                             const struct aorta_row *row, char *at) {
    const bool text = row->type == AORTA_ROW_TEXT || row->type == AORTA_ROW_CHOICE;
    const struct aorta_json_value *field = aorta_fields_get(object, row->key);
    if (row->required && (!field || (text && !aorta_json_is_string(*field))))
        return AORTA_ERROR(AORTA_FORMAT, "%s%s is missing%s", path, row->key, text ? " or not a string" : "");
    if (!field || (aorta_json_key_is(*field, "null") && !row->required)) return NULL;
    return read_value(reader, row, path, row->key, *field, at);
}

aorta_status aorta_rows_read(struct aorta_rows_reader *reader, const struct aorta_fields *object, const char *path,
                             const struct aorta_row *rows, void *values) {
    for (; rows->type != AORTA_ROW_END; rows++) {
        char *at = (char *)values + rows->offset;
        if (rows->written_only || (!rows->key && rows->type != AORTA_ROW_PART)) continue;
        if (rows->type == AORTA_ROW_PART)
            AORTA_TRY(read_part(reader, object, path, rows, at));
        else if (rows->names && rows->type != AORTA_ROW_CHOICE)
            AORTA_TRY(read_array(reader, object, path, rows, at));
        else
            AORTA_TRY(read_row(reader, object, path, rows, at));
    }
    return NULL;
}
