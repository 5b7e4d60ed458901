/* Values read back from JSON by their rows. */
#include "base/printable.h"
#include "base/rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Times beyond thirty years are damage; below, sums cannot overflow. */
static const int64_t time_limit_ns = 1000000000000000000;

static bool is_utf8(struct aorta_json_value string) {
    for (size_t at = 0, length; at < string.length; at += length) {
        length = aorta_json_utf8_length(string.text + at, string.length - at);
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
    if (!field || aorta_value_is(*field, "null")) return NULL;
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
        *(bool *)at = aorta_value_is(value, "true");
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
        if (!field || aorta_value_is(*field, "null")) continue;
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
    if (!field || (aorta_value_is(*field, "null") && !row->required)) return NULL;
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
