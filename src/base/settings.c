#include "base/settings.h"
#include "base/lines.h"

#include <string.h>

const char *aorta_settings_value(const struct aorta_settings *settings, const char *key) {
    for (size_t i = 0; i < settings->count; i++)
        if (strcmp(settings->items[i].key, key) == 0) return settings->items[i].value;
    return NULL;
}

/* Output paths do not count as settings. */
static bool is_ignored(const char *key) {
    static const char *const ignored[] = {"schema_version", "training.output_dir", "training.dump_dir"};
    return aorta_is_one_of(key, ignored, sizeof ignored / sizeof *ignored);
}

static void add_difference(struct aorta_differences *d, const char *key, const char *reference, const char *candidate) {
    if (is_ignored(key) || (reference && candidate && strcmp(reference, candidate) == 0)) return;
    for (size_t i = 0; i < d->count; i++)
        if (strcmp(d->items[i].key, key) == 0) return;
    const struct aorta_setting_difference difference = {key, reference, candidate};
    aorta_arena_append(&d->arena, &d->items, &d->capacity, &d->count, &difference, sizeof difference);
}

void aorta_differences_add(struct aorta_differences *d, const struct aorta_settings *reference,
                           const struct aorta_settings *candidate) {
    if (!reference->count || !candidate->count) return;
    AORTA_EACH (const struct aorta_setting, own, reference->items, reference->count)
        add_difference(d, own->key, own->value, aorta_settings_value(candidate, own->key));
    AORTA_EACH (const struct aorta_setting, own, candidate->items, candidate->count)
        if (!aorta_settings_value(reference, own->key)) add_difference(d, own->key, NULL, own->value);
}

void aorta_differences_free(struct aorta_differences *differences) {
    aorta_arena_free(&differences->arena);
    *differences = (struct aorta_differences){0};
}

static void put_value(const char *value, struct aorta_text *out) {
    enum { MOST = 60 };
    if (!value) value = "not set";
    if (aorta_columns(value) > MOST)
        aorta_text_column(out, value, MOST);
    else
        aorta_text_puts(out, value);
}

void aorta_differences_list(const struct aorta_differences *differences, struct aorta_text *out) {
    enum { SHOWN = 8 };
    static const char variables[] = "environment.";
    const size_t count = differences->count;
    for (size_t i = 0; i < count && i < SHOWN; i++) {
        const struct aorta_setting_difference *d = &differences->items[i];
        const char *key = d->key + (strncmp(d->key, variables, strlen(variables)) == 0 ? strlen(variables) : 0);
        aorta_text_printf(out, "%s%s is ", i ? "; " : "", key);
        put_value(d->candidate, out);
        aorta_text_puts(out, ", was ");
        put_value(d->reference, out);
    }
    if (count > SHOWN) aorta_text_printf(out, "; and %zu more (--json has all)", count - SHOWN);
}

#define AT(member) offsetof(struct aorta_setting_difference, member)
const struct aorta_row aorta_difference_rows[] = {
    {"key", AORTA_ROW_TEXT, AT(key), .help = "the setting"},
    {"reference", AORTA_ROW_TEXT, AT(reference), .help = "its value on the first side; null: not set"},
    {"candidate", AORTA_ROW_TEXT, AT(candidate), .help = "its value on the other side; null: not set"},
    {0}};
#undef AT

void aorta_differences_json(const struct aorta_differences *differences, struct aorta_json *json) {
    aorta_rows_array("differences", aorta_difference_rows, differences->items, differences->count,
                     sizeof *differences->items, 0, json);
}
