#include "report/page.h"

#include <string.h>

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
    for (; *text; text++) {
        if (*text == '<')
            aorta_text_puts(out, "&lt;");
        else if (*text == '&')
            aorta_text_puts(out, "&amp;");
        else
            aorta_text_append(out, text, 1);
    }
}

void aorta_page_headline(const struct aorta_verdict *verdict, struct aorta_json *json) {
    static const char prefix[] = "Verdict: ";
    struct aorta_text text = {0};
    aorta_verdict_headline(verdict, &text);
    const char *words =
        text.data && strncmp(text.data, prefix, strlen(prefix)) == 0 ? text.data + strlen(prefix) : text.data;
    aorta_json_key_string(json, "headline", words);
    json->out->failed |= text.failed;
    aorta_text_free(&text);
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
