#include "config/option.h"
#include "config/reader.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- scalars ---- */

bool aorta_scalar_is_null(const char *text) {
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};
    return aorta_is_one_of(text, nulls, sizeof nulls / sizeof *nulls);
}

bool aorta_scalar_bool(const char *text, bool *value) {
    static const char *const yes[] = {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"};
    static const char *const no[] = {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"};
    *value = aorta_is_one_of(text, yes, sizeof yes / sizeof *yes);
    return *value || aorta_is_one_of(text, no, sizeof no / sizeof *no);
}

enum { LONGEST_NUMBER = 64 };

/* Removes underscores. False if the text cannot be a number. */
static bool plain_number(const char *text, char number[LONGEST_NUMBER]) {
    size_t length = 0;
    for (const char *c = text; *c; c++) {
        if (*c == '_' && c > text) continue;
        if (!strchr("+-.0123456789abcdefABCDEFxX", *c) || length + 1 >= LONGEST_NUMBER) return false;
        number[length++] = *c;
    }
    number[length] = '\0';
    return length > 0;
}

bool aorta_scalar_int(const char *text, int64_t *value) {
    static const struct {
        const char *prefix, *digits;
        int base;
    } notations[] = {
        {"0x", "0123456789abcdefABCDEF", 16}, {"0b", "01", 2}, {"0", "01234567", 8}, {"", "0123456789", 10}};
    char number[LONGEST_NUMBER] = "";
    if (!plain_number(text, number)) return false;
    bool negative = number[0] == '-', sign = negative || number[0] == '+';
    if (strcmp(number + sign, "0") == 0) {
        *value = 0;
        return true;
    }
    size_t notation = 0;
    while (strncmp(number + sign, notations[notation].prefix, strlen(notations[notation].prefix)) != 0) notation++;
    char *digits = number + sign + strlen(notations[notation].prefix);
    if (!*digits || strspn(digits, notations[notation].digits) != strlen(digits)) return false;
    errno = 0;
    unsigned long long magnitude = strtoull(digits, NULL, notations[notation].base);
    if (errno || magnitude > (unsigned long long)INT64_MAX + negative) return false;
    *value = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return true;
}

bool aorta_scalar_double(const char *text, double *value) {
    int64_t integer;
    if (aorta_scalar_int(text, &integer)) {
        *value = (double)integer;
        return true;
    }
    char number[LONGEST_NUMBER] = "";
    if (!plain_number(text, number) || strpbrk(number, "xXaAbBcCdDfF") || !strpbrk(number, "0123456789")) return false;
    char *end;
    *value = strtod(number, &end);
    return *end == '\0' && isfinite(*value);
}

/* ---- storing ---- */

struct target {
    const struct aorta_option *option;
    const struct aorta_scalar *scalars;
    size_t count;
    bool list;
    void *place;
    struct aorta_arena *arena;
};

static bool within(const struct aorta_range_limits *limits, double value) {
    if (!limits) return true;
    if (value < limits->min || (limits->above_min && value == limits->min)) return false;
    return !(value > limits->max || (limits->below_max && value == limits->max));
}

static bool read_int(const struct aorta_option *option, struct aorta_scalar scalar, int64_t *value) {
    return !scalar.quoted && aorta_scalar_int(scalar.text, value) && within(option->limits, (double)*value);
}

static bool read_double(const struct aorta_option *option, struct aorta_scalar scalar, double *value) {
    return !scalar.quoted && aorta_scalar_double(scalar.text, value) && within(option->limits, *value);
}

static bool is_single(const struct target *target) {
    return !target->list && target->count == 1;
}

static bool store_bool(const struct target *target) {
    bool value;
    const bool plain = is_single(target) && !target->scalars[0].quoted;
    if (!plain || !aorta_scalar_bool(target->scalars[0].text, &value)) return false;
    memcpy(target->place, &value, sizeof value);
    return true;
}

static bool store_int(const struct target *target) {
    int64_t value;
    if (!is_single(target) || !read_int(target->option, target->scalars[0], &value)) return false;
    memcpy(target->place, &value, sizeof value);
    return true;
}

static bool store_double(const struct target *target) {
    double value;
    if (!is_single(target) || !read_double(target->option, target->scalars[0], &value)) return false;
    memcpy(target->place, &value, sizeof value);
    return true;
}

static const struct aorta_choice *find_choice(const struct aorta_option *option, const char *text) {
    for (const struct aorta_choice *choice = option->choices; choice->name; choice++)
        if (strcasecmp(choice->name, text) == 0) return choice;
    return NULL;
}

static bool store_choice(const struct target *target) {
    const struct aorta_choice *choice = is_single(target) ? find_choice(target->option, target->scalars[0].text) : NULL;
    if (!choice) return false;
    memcpy(target->place, &choice->value, sizeof choice->value);
    return true;
}

/* The first name with this value. */
static const char *canonical_name(const struct aorta_option *option, int value) {
    const struct aorta_choice *choice = option->choices;
    while (choice->value != value) choice++;
    return choice->name;
}

/* Plain words that YAML reads as null or as a truth value are no text; numbers are (a directory may be called 2026). */
static bool is_text(struct aorta_scalar scalar) {
    bool truth;
    return scalar.quoted || !(aorta_scalar_is_null(scalar.text) || aorta_scalar_bool(scalar.text, &truth));
}

static bool store_string(const struct target *target) {
    if (!is_single(target)) return false;
    const char *text = target->scalars[0].text;
    if (target->option->choices) {
        const struct aorta_choice *choice = find_choice(target->option, text);
        if (!choice) return false;
        text = canonical_name(target->option, choice->value);
    } else {
        if (!is_text(target->scalars[0])) return false;
        text = aorta_arena_strdup(target->arena, text);
    }
    memcpy(target->place, &text, sizeof text);
    return true;
}

static bool store_doubles_2(const struct target *target) {
    double values[2];
    if (!target->list || target->count != 2) return false;
    for (size_t i = 0; i < 2; i++)
        if (!read_double(target->option, target->scalars[i], &values[i])) return false;
    memcpy(target->place, values, sizeof values);
    return true;
}

static bool store_int_list(const struct target *target) {
    /* one more than needed, so that the empty list is not NULL, which means null */
    int64_t *items = aorta_arena_alloc(target->arena, (target->count + 1) * sizeof *items);
    if (!items) return true;
    for (size_t i = 0; i < target->count; i++)
        if (!read_int(target->option, target->scalars[i], &items[i])) return false;
    struct aorta_int_list list = {items, target->count};
    memcpy(target->place, &list, sizeof list);
    return true;
}

static bool store_string_list(const struct target *target) {
    const char **items = aorta_arena_alloc(target->arena, (target->count + 1) * sizeof *items);
    if (!items) return true;
    for (size_t i = 0; i < target->count; i++) {
        if (!is_text(target->scalars[i])) return false;
        items[i] = aorta_arena_strdup(target->arena, target->scalars[i].text);
    }
    struct aorta_string_list list = {items, target->count};
    memcpy(target->place, &list, sizeof list);
    return true;
}

/* The reader makes one scalar of it, which is JSON. */
static bool store_tree(const struct target *target) {
    if (!is_single(target)) return false;
    const char *text = aorta_arena_strdup(target->arena, target->scalars[0].text);
    memcpy(target->place, &text, sizeof text);
    return true;
}

_Static_assert(sizeof(struct aorta_int_list) == sizeof(struct aorta_string_list), "null is the same of both");
_Static_assert(sizeof(enum aorta_option_type) == sizeof(int), "choices are stored as int");

static void store_null(const struct aorta_option *option, void *place) {
    switch (option->type) {
    case AORTA_OPTION_BOOL:
        *(bool *)place = option->when_null != 0;
        return;
    case AORTA_OPTION_INT:
        *(int64_t *)place = option->when_null;
        return;
    case AORTA_OPTION_DOUBLE:
        *(double *)place = (double)option->when_null;
        return;
    case AORTA_OPTION_CHOICE:
        *(int *)place = (int)option->when_null;
        return;
    case AORTA_OPTION_INT_LIST:
    case AORTA_OPTION_STRING_LIST:
        *(struct aorta_int_list *)place = (struct aorta_int_list){0};
        return;
    default: /* two numbers are never nullable */
        *(const char **)place = NULL;
        return;
    }
}

bool aorta_option_takes_null(const struct aorta_option *option) {
    return option->nullable || (option->fallback && strcmp(option->fallback, "null") == 0);
}

static bool (*const stores[AORTA_OPTION_TYPE_COUNT])(const struct target *target) = {
    [AORTA_OPTION_BOOL] = store_bool,         [AORTA_OPTION_INT] = store_int,
    [AORTA_OPTION_DOUBLE] = store_double,     [AORTA_OPTION_STRING] = store_string,
    [AORTA_OPTION_CHOICE] = store_choice,     [AORTA_OPTION_DOUBLES_2] = store_doubles_2,
    [AORTA_OPTION_INT_LIST] = store_int_list, [AORTA_OPTION_STRING_LIST] = store_string_list,
    [AORTA_OPTION_TREE] = store_tree,         [AORTA_OPTION_MAP] = store_tree,
};

bool aorta_option_store(const struct aorta_option *option, const struct aorta_scalar *scalars, size_t count, bool list,
                        void *values, struct aorta_arena *arena) {
    struct target target = {option, scalars, count, list, (char *)values + option->offset, arena};
    if (aorta_option_takes_null(option) && is_single(&target) && !scalars[0].quoted &&
        aorta_scalar_is_null(scalars[0].text)) {
        store_null(option, target.place);
        return true;
    }
    return stores[option->type](&target);
}

/* ---- describing ---- */

/* " of at least 1", " from 1 to 4", " in [0, 1)", " above 0" */
static void describe_limits(const struct aorta_range_limits *limits, struct aorta_text *text) {
    if (!limits) return;
    bool low = isfinite(limits->min), high = isfinite(limits->max);
    if (low && high && (limits->above_min || limits->below_max)) {
        aorta_text_printf(text, " in %c%.15g, %.15g%c", limits->above_min ? '(' : '[', limits->min, limits->max,
                          limits->below_max ? ')' : ']');
    } else if (low && high) {
        aorta_text_printf(text, " from %.15g to %.15g", limits->min, limits->max);
    } else if (low) {
        aorta_text_printf(text, limits->above_min ? " above %.15g" : " of at least %.15g", limits->min);
    } else if (high) {
        aorta_text_printf(text, limits->below_max ? " below %.15g" : " of at most %.15g", limits->max);
    }
}

/* Writes the other names of the same value: " (or inductor)". */
static void describe_other_names(const struct aorta_choice *first, const char *word, const char *quote,
                                 struct aorta_text *text) {
    bool any = false;
    for (const struct aorta_choice *choice = first + 1; choice->name; choice++) {
        if (choice->value != first->value) continue;
        if (any)
            aorta_text_puts(text, ", ");
        else
            aorta_text_printf(text, " (%s ", word);
        aorta_text_printf(text, "%s%s%s", quote, choice->name, quote);
        any = true;
    }
    if (any) aorta_text_puts(text, ")");
}

void aorta_option_list_choices(const struct aorta_option *option, const char *word, const char *quote,
                               struct aorta_text *text) {
    const char *comma = "";
    for (const struct aorta_choice *choice = option->choices; choice->name; choice++) {
        if (canonical_name(option, choice->value) != choice->name) continue;
        aorta_text_printf(text, "%s%s%s%s", comma, quote, choice->name, quote);
        describe_other_names(choice, word, quote, text);
        comma = ", ";
    }
}

static void describe_type(const struct aorta_option *option, struct aorta_text *text) {
    static const struct {
        const char *before, *after; /* the limits, of numbers */
    } types[AORTA_OPTION_TYPE_COUNT] = {
        [AORTA_OPTION_BOOL] = {"true or false", ""},
        [AORTA_OPTION_INT] = {"an integer", ""},
        [AORTA_OPTION_DOUBLE] = {"a number", ""},
        [AORTA_OPTION_STRING] = {"text", ""},
        [AORTA_OPTION_DOUBLES_2] = {"a list of two numbers", ", as in "},
        [AORTA_OPTION_INT_LIST] = {"an integer", " or a list of integers"},
        [AORTA_OPTION_STRING_LIST] = {"text or a list of texts", ""},
        [AORTA_OPTION_TREE] = {"a list", ""},
        [AORTA_OPTION_MAP] = {"a map", ""},
    };
    if (option->choices) {
        aorta_text_puts(text, "one of ");
        aorta_option_list_choices(option, "or", "", text);
        return;
    }
    aorta_text_puts(text, types[option->type].before);
    describe_limits(option->limits, text);
    aorta_text_puts(text, types[option->type].after);
    if (option->type == AORTA_OPTION_DOUBLES_2) aorta_text_puts(text, option->fallback);
}

void aorta_option_describe(const struct aorta_option *option, struct aorta_text *text) {
    describe_type(option, text);
    if (aorta_option_takes_null(option)) aorta_text_puts(text, option->choices ? " or null" : ", or null");
}

const char *aorta_option_nearest_choice(const struct aorta_option *option, const char *text) {
    const char *names[32];
    size_t count = 0;
    for (const struct aorta_choice *choice = option->choices; choice && choice->name && count < 32; choice++)
        names[count++] = choice->name;
    return aorta_nearest(text, names, count);
}

/* ---- defaults ---- */

aorta_status aorta_option_store_default(const struct aorta_option *option, void *values, struct aorta_arena *arena) {
    if (option->type == AORTA_OPTION_TREE || option->type == AORTA_OPTION_MAP) {
        aorta_option_store(option, &(struct aorta_scalar){option->fallback, false}, 1, false, values, arena);
        return aorta_arena_check(arena, "the default values");
    }
    yaml_document_t document;
    AORTA_TRY(aorta_yaml_load(option->fallback, strlen(option->fallback), option->key, false, &document));
    const yaml_node_t *root = yaml_document_get_root_node(&document);
    struct aorta_scalar *scalars;
    size_t count;
    bool list;
    bool fits = root && aorta_yaml_scalars(&document, root, arena, &scalars, &count, &list) &&
                aorta_option_store(option, scalars, count, list, values, arena);
    yaml_document_delete(&document);
    if (fits || arena->failed) return aorta_arena_check(arena, "the default values");
    return AORTA_ERROR(AORTA_INTERNAL, "the default of %s does not fit its own row: %s", option->key, option->fallback);
}
