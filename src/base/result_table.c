#include "base/result_table.h"
#include "base/files.h"
#include "base/lines.h"

#include <stdalign.h>
#include <stdio.h>
#include <string.h>

enum { VALUES_MOST = 4096, NAME_SIZE = 512, NAMES_MOST = 128 };

/* Fills the next line that is not skipped, from *index on. False at the end. */
static bool next_line(const struct aorta_result_table *table, const void *of, size_t *index, void *values) {
    enum aorta_line line = AORTA_LINE_SKIP;
    while (line == AORTA_LINE_SKIP) {
        memset(values, 0, table->size);
        line = table->fill(of, (*index)++, values);
    }
    return line == AORTA_LINE;
}

size_t aorta_table_count(const struct aorta_result_table *table, const void *of) {
    alignas(16) char values[VALUES_MOST];
    size_t index = 0;
    while (next_line(table, of, &index, values)) continue;
    return index - 1;
}

/* Finds a column by its key (linear search, as tables have few rows), also in parts whose members are listed in place.
 */
static const struct aorta_row *find_row(const struct aorta_row *rows, const char *key, size_t *offset) {
    for (; rows->type != AORTA_ROW_END; rows++) {
        if (rows->type == AORTA_ROW_PART && !rows->key) {
            size_t inner = *offset + rows->offset;
            const struct aorta_row *found = find_row(rows->part, key, &inner);
            if (!found) continue;
            *offset = inner;
            return found;
        }
        if (rows->key && strcmp(rows->key, key) == 0) return rows;
    }
    return NULL;
}

static const struct aorta_row *name_row(const struct aorta_result_table *table) {
    const struct aorta_row *kernel = NULL;
    for (const struct aorta_row *row = table->rows; row->type != AORTA_ROW_END; row++) {
        if (row->type == AORTA_ROW_LABEL) return row;
        if (row->type == AORTA_ROW_KERNEL && !kernel) kernel = row;
    }
    return kernel;
}

/* ---- text ---- */

static bool is_time(const struct aorta_row *row) {
    return row->type == AORTA_ROW_NS || row->type == AORTA_ROW_TIME || row->type == AORTA_ROW_MEAN_NS;
}

static bool is_share(const struct aorta_row *row) {
    return row->unit && strcmp(row->unit, "share") == 0;
}

static void put_cell(const struct aorta_column *column, const struct aorta_row *row, const void *values,
                     struct aorta_text *out) {
    const struct aorta_row_value value = aorta_row_value(row, values, 0);
    if (!value.known)
        aorta_text_printf(out, "%*s", column->width, "-");
    else if (value.text)
        aorta_text_printf(out, "%*s", column->width, value.text);
    else if (is_share(row))
        aorta_text_printf(out, "%*.*f%%", column->width - 1, column->decimals, 100 * value.number);
    else if (column->microseconds &&
             value.number >= 1e7) /* no more digits than can be read; the point stays in place */
        aorta_text_printf(out, "%*.0f%*s", column->width - column->decimals - 1, value.number / 1e3,
                          column->decimals + 1, "");
    else if (is_time(row))
        aorta_text_printf(out, "%*.*f", column->width, column->decimals,
                          value.number / (column->microseconds ? 1e3 : 1e6));
    else
        aorta_text_printf(out, "%*.*f", column->width, column->decimals, value.number);
}

static void put_cells(const struct aorta_result_table *table, const struct aorta_table_view *view, const void *values,
                      struct aorta_text *out) {
    const struct aorta_column *const first = view->columns ? view->columns : table->columns;
    for (const struct aorta_column *column = first; column->key; column++) {
        size_t offset = 0;
        const struct aorta_row *row = find_row(table->rows, column->key, &offset);
        if (column != first) aorta_text_puts(out, " ");
        if (values)
            put_cell(column, row, (const char *)values + offset, out);
        else
            aorta_text_printf(out, "%*s", column->width, column->heading);
    }
}

/* `names`: of the lines shown. */
static void put_line(const struct aorta_result_table *table, const struct aorta_table_view *view, const void *values,
                     const char *const *names, size_t count, struct aorta_text *out) {
    const struct aorta_row *named = name_row(table);
    char buffer[NAME_SIZE];
    const char *name = named ? aorta_row_value(named, values, 0).text : NULL;
    const size_t before = out->length;
    if (name && view->shorten && named->type == AORTA_ROW_KERNEL)
        name = aorta_name_apart(name, names, count, view->shorten, buffer, sizeof buffer);
    put_cells(table, view, values, out);
    const int left = view->width - (int)(out->length - before) - 2;
    if (named) aorta_text_puts(out, "  ");
    if (named && left > 0 && name && aorta_columns(name) > left)
        aorta_text_column(out, name, left);
    else if (named)
        aorta_text_puts(out, name ? name : "-");
    aorta_text_puts(out, "\n");
}

enum { TITLE_SIZE = 128 };

static const char *title_of(const struct aorta_result_table *table, bool whole, char buffer[TITLE_SIZE]) {
    snprintf(buffer, TITLE_SIZE, "%s%s", table->title, whole && table->whole ? ", whole recording" : "");
    return buffer;
}

static void put_headings(const struct aorta_result_table *table, const struct aorta_table_view *view,
                         struct aorta_text *out) {
    char buffer[TITLE_SIZE];
    const char *name = view->name ? view->name : title_of(table, view->whole, buffer);
    const char *title = view->title || name_row(table) || !table->title ? view->title : name;
    if (title) aorta_text_printf(out, "%s\n", title);
    put_cells(table, view, NULL, out);
    const bool named = name_row(table) && *name;
    aorta_text_printf(out, "%s%s\n", named ? "  " : "", named ? name : "");
}

void aorta_table_text(const struct aorta_result_table *table, const void *of, const struct aorta_table_view *view,
                      struct aorta_text *out) {
    alignas(16) char values[VALUES_MOST];
    const struct aorta_row *named = name_row(table);
    const char *names[NAMES_MOST];
    size_t index = 0, count = 0, left = 0;
    while (named && view->shorten && count < NAMES_MOST && count < view->most && next_line(table, of, &index, values))
        names[count++] = named->type == AORTA_ROW_KERNEL ? aorta_row_value(named, values, 0).text : NULL;
    index = 0;
    for (size_t lines = 0; next_line(table, of, &index, values); lines++) {
        if (!lines) put_headings(table, view, out);
        if (lines < view->most)
            put_line(table, view, values, names, count, out);
        else
            left++;
    }
    if (left && view->more) aorta_text_printf(out, "  … and %zu more (%s)\n", left, view->more);
}

/* ---- JSON ---- */

void aorta_table_json_some(const struct aorta_result_table *table, const void *of, size_t most,
                           struct aorta_json *json) {
    alignas(16) char values[VALUES_MOST];
    const size_t every = most ? (aorta_table_count(table, of) + most - 1) / most : 1;
    size_t index = 0;
    aorta_json_key_array(json, table->key);
    for (size_t line = 0; next_line(table, of, &index, values); line++) {
        if (every > 1 && line % every) continue;
        aorta_json_object(json);
        aorta_rows_json(table->rows, values, 0, json);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
    if (every < 2) return;
    char key[64];
    snprintf(key, sizeof key, "%s_every", table->key);
    aorta_json_key_int(json, key, (int64_t)every);
}

void aorta_table_json(const struct aorta_result_table *table, const void *of, struct aorta_json *json) {
    aorta_table_json_some(table, of, 0, json);
}

static const char *kind_of(const struct aorta_row *row) {
    switch (row->type) {
    case AORTA_ROW_KERNEL:
        return "kernel";
    case AORTA_ROW_CHOICE:
        return "word";
    case AORTA_ROW_TEXT:
        return "text";
    default:
        return is_share(row) ? "share" : row->unit && strcmp(row->unit, "bytes") == 0 ? "bytes" : "number";
    }
}

static void write_columns(const struct aorta_row *rows, const char *prefix, struct aorta_json *json) {
    for (; rows->type != AORTA_ROW_END; rows++) {
        char key[128];
        snprintf(key, sizeof key, "%s%s", prefix, rows->key ? rows->key : "");
        if (rows->type == AORTA_ROW_PART) {
            if (rows->key) strncat(key, ".", sizeof key - strlen(key) - 1);
            write_columns(rows->part, key, json);
        }
        if (!rows->heading) continue;
        aorta_json_object(json);
        aorta_json_key_string(json, "key", key);
        aorta_json_key_string(json, "heading", rows->heading);
        aorta_json_key_string(json, "kind", kind_of(rows));
        aorta_json_object_end(json);
    }
}

void aorta_table_page_json(const struct aorta_result_table *table, bool whole, struct aorta_json *json) {
    char title[TITLE_SIZE];
    aorta_json_object(json);
    aorta_json_key_string(json, "key", table->key);
    aorta_json_key_string(json, "title", title_of(table, whole, title));
    aorta_json_key_string(json, "section", table->section);
    aorta_json_key_array(json, "columns");
    write_columns(table->rows, "", json);
    aorta_json_array_end(json);
    aorta_json_object_end(json);
}

/* ---- CSV ---- */

static void put_field(struct aorta_text *out, bool *first, const char *value) {
    if (!*first) aorta_text_puts(out, ",");
    *first = false;
    if (!strpbrk(value, ",\"\r\n")) {
        aorta_text_puts(out, value);
        return;
    }
    aorta_text_puts(out, "\"");
    for (const char *at = value; *at; at++) {
        if (*at == '"') aorta_text_puts(out, "\"");
        aorta_text_append(out, at, 1);
    }
    aorta_text_puts(out, "\"");
}

/* Whether a key says its unit: "ms_per_step". */
static bool says(const char *key, const char *unit) {
    const size_t length = strlen(unit);
    for (const char *at = strstr(key, unit); at; at = strstr(at + 1, unit))
        if ((at == key || at[-1] == '_') && (!at[length] || at[length] == '_' || at[length] == '.')) return true;
    return false;
}

static void put_name(const struct aorta_row *row, const char *prefix, const char *key, bool *first,
                     struct aorta_text *out) {
    const char *unit = aorta_row_unit(row);
    char name[192];
    snprintf(name, sizeof name, *unit && !says(key, unit) && !says(prefix, unit) ? "%s%s [%s]" : "%s%s", prefix, key,
             unit);
    put_field(out, first, name);
}

static void put_value(const struct aorta_row *row, const void *values, int index, bool *first, struct aorta_text *out) {
    const struct aorta_row_value value = aorta_row_value(row, values, index);
    struct aorta_text field = {0};
    struct aorta_json json;
    aorta_json_begin(&json, &field, 0);
    if (value.known && !value.text) aorta_row_json(row, value, 0, &json);
    put_field(out, first, !value.known ? "" : value.text ? value.text : field.data ? field.data : "");
    aorta_text_end(&field, out);
}

/* Names (values NULL) or values of one line. */
static void put_fields(const struct aorta_row *rows, const char *prefix, const void *values, bool *first,
                       struct aorta_text *out) {
    for (; rows->type != AORTA_ROW_END; rows++) {
        char inner[128];
        const char *at = values ? (const char *)values + (rows->type == AORTA_ROW_PART ? rows->offset : 0) : NULL;
        snprintf(inner, sizeof inner, "%s%s%s", prefix, rows->key ? rows->key : "", rows->key ? "." : "");
        const int count = rows->type != AORTA_ROW_CHOICE && rows->names ? rows->names : 1;
        if (rows->type == AORTA_ROW_PART) put_fields(rows->part, inner, at, first, out);
        if (rows->type == AORTA_ROW_PART || !rows->key || rows->shown_only) continue;
        for (int i = 0; i < count; i++) {
            if (values)
                put_value(rows, at, i, first, out);
            else
                put_name(rows, rows->names && count > 1 ? inner : prefix,
                         rows->names && count > 1 ? rows->name(i) : rows->key, first, out);
        }
    }
}

/* `values` NULL: the names. */
static void put_record(const struct aorta_result_table *table, const char *first, const void *values,
                       struct aorta_text *out) {
    bool begins = true;
    if (first) put_field(out, &begins, first);
    put_fields(table->rows, "", values, &begins, out);
    aorta_text_puts(out, "\r\n");
}

void aorta_table_csv_header(const struct aorta_result_table *table, const char *first, struct aorta_text *out) {
    put_record(table, first, NULL, out);
}

void aorta_table_csv_lines(const struct aorta_result_table *table, const void *of, const char *value,
                           struct aorta_text *out) {
    alignas(16) char values[VALUES_MOST];
    size_t index = 0;
    while (next_line(table, of, &index, values)) put_record(table, value, values, out);
}

aorta_status aorta_csv_write(const char *folder, const char *key, const struct aorta_text *csv) {
    AORTA_TRY(aorta_directory_make(folder));
    return aorta_file_put(aorta_path_in(folder, "%s.csv", key).text, csv);
}

aorta_status aorta_table_csv(const struct aorta_result_table *table, const void *of, const char *folder) {
    struct aorta_text csv = {0};
    aorta_table_csv_header(table, NULL, &csv);
    aorta_table_csv_lines(table, of, NULL, &csv);
    aorta_status status = aorta_csv_write(folder, table->key, &csv);
    aorta_text_free(&csv);
    return status;
}
