/* Values by their rows: as JSON, and as a page of the docs. */
#include "base/rows.h"
#include "base/rows_internal.h"

#include <math.h>
#include <stdio.h>
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
    case AORTA_ROW_INT32:
        return whole(((const int *)(const void *)at)[index]);
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
    case AORTA_ROW_INT32:
        return "integer";
    default:
        return "number";
    }
}

static void schema_row(const struct aorta_row *row, struct aorta_json *json) {
    const char *unit = aorta_row_unit(row), *help = row->help ? row->help : "";
    char text[512];
    snprintf(text, sizeof text, "%s%s%s", help, *unit && *help ? "; " : "", unit);
    aorta_json_key_object(json, row->key);
    if (row->names && row->type != AORTA_ROW_CHOICE) {
        aorta_json_key_string(json, "type", "object");
    } else {
        aorta_json_key_array(json, "type");
        aorta_json_string(json, schema_type(row));
        aorta_json_string(json, "null");
        aorta_json_array_end(json);
    }
    if (*text) aorta_json_key_string(json, "description", text);
    aorta_json_object_end(json);
}

void aorta_rows_schema(const struct aorta_row *rows, struct aorta_json *json) {
    for (; rows->type != AORTA_ROW_END; rows++) {
        if (rows->type == AORTA_ROW_PART && rows->key)
            aorta_rows_schema_object(rows->key, rows->part, json);
        else if (rows->type == AORTA_ROW_PART)
            aorta_rows_schema(rows->part, json);
        else if (rows->key && !rows->shown_only)
            schema_row(rows, json);
    }
}

void aorta_rows_schema_object(const char *key, const struct aorta_row *rows, struct aorta_json *json) {
    aorta_json_key_object(json, key);
    aorta_json_key_array(json, "type");
    aorta_json_string(json, "object");
    aorta_json_string(json, "null");
    aorta_json_array_end(json);
    aorta_json_key_object(json, "properties");
    aorta_rows_schema(rows, json);
    aorta_json_object_end(json);
    aorta_json_object_end(json);
}
