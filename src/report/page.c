#include "report/page.h"
#include "base/files.h"
#include "report/phrases.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const char aorta_page_template[]; /* made from web/ by cmake/page.cmake; empty: no page */

bool aorta_page_available(void) {
    return aorta_page_template[0] != '\0';
}

const char *aorta_page_missing(void) {
    return "this build writes no pages, as Node.js or its packages were missing: run scripts/bootstrap build page, "
           "then make";
}

aorta_status aorta_page_check(const char *path) {
    return aorta_page_available() ? NULL : AORTA_ERROR(AORTA_UNSUPPORTED, "--html %s: %s", path, aorta_page_missing());
}

aorta_status aorta_folder_check_free(const char *path, const char *key, unsigned kinds) {
    static const struct {
        enum aorta_folder_kind kind;
        const char *file, *what;
    } rows[] = {{AORTA_FOLDER_SWEEP, "trials.jsonl", "a sweep"},
                {AORTA_FOLDER_RUN, "rank_00_metrics.jsonl", "a training run"},
                {AORTA_FOLDER_REPORT, "summary.json", "a report"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!(kinds & rows[i].kind)) continue;
        char *file = aorta_path_join(path, rows[i].file);
        if (!file) return AORTA_ERROR(AORTA_MEMORY, "no memory for a path");
        const bool found = access(file, F_OK) == 0;
        free(file);
        if (found)
            return AORTA_ERROR(AORTA_USAGE,
                               "%s: %s holds %s (%s), whose page would be replaced; name another directory", key, path,
                               rows[i].what, rows[i].file);
    }
    return NULL;
}

aorta_status aorta_page_prepare(const char *path) {
    if (!path) return NULL;
    AORTA_TRY(aorta_page_check(path));
    return aorta_file_prepare(path, "--html");
}

/* A "<" within JSON can only stand in a string: escaped, no text of a file can end the script element. */
static void put_json(struct aorta_text *out, const char *json) {
    const char *at = json;
    for (const char *next; (next = strchr(at, '<')); at = next + 1) {
        aorta_text_append(out, at, (size_t)(next - at));
        aorta_text_puts(out, "\\u003c");
    }
    aorta_text_puts(out, at);
}

static void put_escaped(struct aorta_text *out, const char *text) {
    for (; *text; text++)
        if (*text == '<')
            aorta_text_puts(out, "&lt;");
        else if (*text == '&')
            aorta_text_puts(out, "&amp;");
        else
            aorta_text_append(out, text, 1);
}

void aorta_page_short_names(const struct aorta_intern *names, struct aorta_json *json) {
    aorta_json_key_object(json, "short_names");
    for (size_t i = 0; i < names->count; i++) {
        char name[512];
        const char *found = aorta_name_for_line(names->strings[i], name, sizeof name);
        if (strcmp(found, names->strings[i]) != 0) aorta_json_key_string(json, names->strings[i], found);
    }
    aorta_json_object_end(json);
}

aorta_status aorta_page_make(const char *title, const struct aorta_text *data, struct aorta_text *out) {
    static const char title_mark[] = "@TITLE@", data_mark[] = "@DATA@";
    AORTA_TRY(aorta_page_check(title));
    AORTA_TRY(aorta_text_check(data));
    const char *first = strstr(aorta_page_template, title_mark), *second = strstr(aorta_page_template, data_mark);
    if (!first || !second || second < first) return AORTA_ERROR(AORTA_INTERNAL, "the page has no place for its data");
    aorta_text_append(out, aorta_page_template, (size_t)(first - aorta_page_template));
    put_escaped(out, title);
    first += strlen(title_mark);
    aorta_text_append(out, first, (size_t)(second - first));
    put_json(out, data->data);
    aorta_text_puts(out, second + strlen(data_mark));
    return aorta_text_check(out);
}

void aorta_page_tables(const struct aorta_result_table *const *tables, struct aorta_json *json) {
    aorta_json_key_array(json, "tables");
    for (; tables && *tables; tables++) aorta_table_page_json(*tables, false, json);
    aorta_json_array_end(json);
}

aorta_status aorta_page_write(const struct aorta_page_results *page, const char *path) {
    struct aorta_text data = {0}, out = {0};
    struct aorta_json json;
    bool failed = page->results->failed;
    aorta_json_begin(&json, &data, 0);
    aorta_json_object(&json);
    aorta_json_key_int(&json, "schema_version", 1);
    aorta_json_key_string(&json, "kind", page->kind);
    aorta_json_key(&json, "results");
    aorta_json_text(&json, page->results->data ? page->results->data : "null");
    aorta_json_key_array(&json, "parts");
    for (size_t i = 0; i < page->part_count; i++) {
        aorta_json_text(&json, page->parts[i].data ? page->parts[i].data : "null");
        failed |= page->parts[i].failed;
    }
    aorta_json_array_end(&json);
    aorta_page_tables(page->tables, &json);
    aorta_json_object_end(&json);
    data.failed |= failed;
    aorta_status status = aorta_page_make(page->title, &data, &out);
    if (!status) status = aorta_file_replace(path, out.data, out.length);
    aorta_text_free(&data);
    aorta_text_free(&out);
    return status;
}
