#include "report/phrases.h"
#include "base/lines.h"
#include "trace/kernel_names.h"
#include "verdict/advice.h"
#include "verdict/causes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- numbers ---- */

struct aorta_brief aorta_about(double value) {
    return aorta_digits(value, 2);
}

struct aorta_brief aorta_estimated(double value, const double range[2]) {
    static const double SURE = 0.1;
    const bool sure = range[0] >= (1 - SURE) * value && range[1] <= (1 + SURE) * value;
    return sure ? aorta_measured(value) : aorta_about(value);
}

struct aorta_brief_range aorta_about_range(double least, double most) {
    struct aorta_brief_range range;
    const bool alike = strcmp(aorta_about(least).text, aorta_about(most).text) == 0;
    snprintf(range.text, sizeof range.text, "%s to %s", (alike ? aorta_measured(least) : aorta_about(least)).text,
             (alike ? aorta_measured(most) : aorta_about(most)).text);
    return range;
}

static void put_value(double value, enum aorta_unit unit, bool with_unit, struct aorta_text *out) {
    switch (unit) {
    case AORTA_UNIT_FLAG:
        break;
    case AORTA_UNIT_COUNT:
        aorta_text_puts(out, aorta_brief(value).text);
        break;
    case AORTA_UNIT_SHARE:
        aorta_text_printf(out, "%.0f%%", 100 * value);
        break;
    case AORTA_UNIT_GAIN:
        aorta_text_printf(out, "%s%s", aorta_about(value).text, with_unit ? " ms" : "");
        break;
    default:
        aorta_text_puts(out, aorta_measured(value).text);
        if (with_unit) aorta_text_printf(out, " %s", aorta_unit_name(unit));
    }
}

/* ---- names ---- */

/* Shows "elementwise_kernel<Functor>" by its functor, which says more. */
static void keep_functor(char *text) {
    char *open = strchr(text, '<'), *close = strrchr(text, '>');
    if (!open || !close || close < open || close[1]) return;
    *close = '\0';
    if (open[1] && !strpbrk(open + 1, "<>,"))
        memmove(text, open + 1, strlen(open + 1) + 1);
    else
        *open = '\0';
}

static bool put_tile(const char *name, char *text, size_t size) {
    const char *tile = strstr(name, "_MT");
    if (!strstr(name, "Cijk_") || !tile) return false;
    snprintf(text, size, "Tensile %.*s", (int)strspn(tile + 1, "MT0123456789x"), tile + 1);
    return true;
}

/* "train.py(45): main", "gloo:all_reduce", "enumerate(DataLoader)#next": "::" has no single colon, and "#1" is C++'s.
 */
static bool is_of_host(const char *name) {
    for (const char *at = strchr(name, ':'); at; at = strchr(at, ':')) {
        const size_t colons = strspn(at, ":");
        if (colons == 1) return true;
        at += colons;
    }
    const char *mark = strstr(name, ")#");
    return mark && !strchr("0123456789", mark[2]);
}

/* An operation with its library, as "aten::copy_": lower case, and no characters of a function's type. */
static bool is_operation(const char *name) {
    return strstr(name, "::") && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_:.") == strlen(name);
}

/* Drops all but the last namespace, as in "fp8_group::GemmKernel", whose last word alone says little. Drops ".kd" (an
 * AMD kernel's descriptor). */
static void drop_namespaces(char *text) {
    enum { SHORT = 12 };
    const size_t length = strlen(text);
    if (length > 3 && strcmp(text + length - 3, ".kd") == 0) text[length - 3] = '\0';
    if (strpbrk(text, " <(")) return;
    char *last = text, *before = text;
    for (char *at = text; (at = strstr(at, "::")); last = at += 2) before = last;
    char *from = strlen(last) <= SHORT ? before : last;
    memmove(text, from, strlen(from) + 1);
}

const char *aorta_name_for_line(const char *name, char *text, size_t size) {
    char whole[512];
    if (put_tile(name, text, size)) return text;
    const bool function = !is_operation(name) && !is_of_host(name);
    snprintf(whole, sizeof whole, "%s", function ? aorta_kernel_short_name(name, text, size) : name);
    if (function) keep_functor(whole);
    if (function) drop_namespaces(whole);
    struct aorta_text cut = {0};
    const bool closes = *whole && strchr(whole, '(') && whole[strlen(whole) - 1] == ')'; /* "linear (nvjet…)" */
    char *loader = strstr(whole, ")#"); /* "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__" */
    if (loader && aorta_columns(whole) > AORTA_NAME_COLUMNS) memmove(whole, loader + 2, strlen(loader + 2) + 1);
    if (aorta_columns(whole) > AORTA_NAME_COLUMNS) {
        aorta_text_column(&cut, whole, AORTA_NAME_COLUMNS - closes);
        aorta_text_puts(&cut, closes ? ")" : "");
    }
    snprintf(text, size, "%s", cut.data ? cut.data : whole);
    aorta_text_free(&cut);
    return text;
}

/* One dimension list, "[8, 1024]" as "[8,1024]"; returns its end. */
static const char *put_list(const char *at, struct aorta_text *out) {
    for (; *at && *at != ']'; at++)
        if (*at != ' ' && *at != '\n') aorta_text_append(out, at, 1);
    aorta_text_puts(out, "]");
    return *at ? at + 1 : at;
}

void aorta_shape_for_line(const char *dims, struct aorta_text *out) {
    enum { MOST = 2, LONGEST = 40 };
    const size_t before = out->length;
    char first[64] = "";
    int count = 0;
    for (const char *at = *dims ? dims + 1 : dims; *at && count < MOST;) {
        if (*at != '[' || at[1] == ']' || at[1] == '[' || at[1] == '"') { /* empty, tensors, or types */
            at++;
            continue;
        }
        struct aorta_text list = {0};
        at = put_list(at, &list);
        const char *text = list.data ? list.data : "";
        const bool fits = out->length - before + list.length <= LONGEST;
        if ((!count || fits) && strcmp(text, first) != 0) {
            aorta_text_printf(out, "%s%s", count ? "x" : "", text);
            snprintf(first, sizeof first, "%s", text);
            count++;
        }
        aorta_text_end(&list, out);
    }
}

/* ---- templates ---- */

struct phrase {
    const struct aorta_verdict *verdict;
    const struct aorta_finding *finding;
    bool whole_names;
    struct aorta_text *out;
};

static const char *per(const struct aorta_verdict *verdict) {
    return verdict->whole ? " in all" : " per step";
}

static bool put_where(const struct phrase *phrase, const struct aorta_fact_place *place) {
    if (place->rank >= 0) aorta_text_printf(phrase->out, ", rank %d", place->rank);
    if (place->step != INT64_MIN) aorta_text_printf(phrase->out, ", step %lld", (long long)place->step);
    return true;
}

/* Texts that readers search for are not shortened: the origin of a call, a variable and its value. */
static bool is_whole(enum aorta_fact_key key) {
    return key == AORTA_FACT_CALLER || key == AORTA_FACT_ENVIRONMENT;
}

static bool put_place(const struct phrase *phrase, const struct aorta_fact *fact, const char *part) {
    const struct aorta_fact_place *place = &fact->place;
    const char *name = strcmp(part, "name") == 0    ? place->name
                       : strcmp(part, "after") == 0 ? place->after
                       : strcmp(part, "host") == 0  ? place->host
                                                    : NULL;
    if (strcmp(part, "where") == 0) return put_where(phrase, place);
    if (strcmp(part, "count") == 0) {
        if (!(place->count > 0)) return false;
        aorta_text_printf(phrase->out, "%s%s", aorta_brief(place->count).text, per(phrase->verdict));
        return true;
    }
    if (strcmp(part, "shape") == 0) {
        const size_t before = phrase->out->length;
        if (place->shape) aorta_shape_for_line(place->shape, phrase->out);
        return phrase->out->length > before;
    }
    if (strcmp(part, "text") == 0) {
        if (fact->text) aorta_text_puts(phrase->out, fact->text);
        return fact->text != NULL;
    }
    if (!name) return false;
    char text[512];
    const bool range = name == place->host && aorta_columns(name) <= AORTA_NAME_COLUMNS;
    const bool whole = range || phrase->whole_names || is_whole(fact->key);
    aorta_text_puts(phrase->out, whole ? name : aorta_name_for_line(name, text, sizeof text));
    return *name;
}

/* "many|one" after a count. */
static void put_counted(const struct phrase *phrase, const struct aorta_fact *fact, const char *nouns) {
    const char *bar = strchr(nouns, '|');
    const struct aorta_brief count = aorta_brief(fact->value);
    const bool one = strcmp(count.text, "1") == 0;
    aorta_text_printf(phrase->out, "%s ", count.text);
    aorta_text_append(phrase->out, one ? bar + 1 : nouns, one ? strlen(bar + 1) : (size_t)(bar - nouns));
}

/* *known: the value is known. False if the word is none of these. */
static bool put_word(const struct phrase *phrase, const char *word, bool *known) {
    const enum aorta_collective kind = phrase->finding->collective;
    *known = true;
    if (strcmp(word, "kind") == 0)
        aorta_text_puts(phrase->out, aorta_verdict_kind_name(phrase->verdict, kind));
    else if (strcmp(word, "runs") == 0)
        aorta_text_puts(phrase->out, kind == AORTA_ALL_TO_ALL && phrase->verdict->sends ? "run" : "runs");
    else if (strcmp(word, "per") == 0)
        aorta_text_puts(phrase->out, per(phrase->verdict));
    else if (strcmp(word, "in_steps") == 0)
        aorta_text_printf(phrase->out, phrase->verdict->whole ? "" : " in %s",
                          aorta_counted((long long)phrase->verdict->iterations, "step").text);
    else if (strcmp(word, "device") == 0)
        aorta_text_puts(phrase->out, phrase->verdict->on_cpu ? "device" : "GPU");
    else if (strcmp(word, "rank") != 0)
        return false;
    else if (phrase->finding->rank >= 0)
        aorta_text_printf(phrase->out, "%d", phrase->finding->rank);
    else
        *known = false;
    return true;
}

/* The inside of braces. False if a fact is unknown. */
static bool put_placeholder(const void *user, const char *inside, size_t length, struct aorta_text *out) {
    const struct phrase *phrase = user;
    (void)out; /* phrase->out */
    char text[96];
    snprintf(text, sizeof text, "%.*s", (int)length, inside);
    const size_t key = strcspn(text, ".#*");
    const char mark = text[key], *rest = mark ? text + key + 1 : "";
    text[key] = '\0';
    bool known;
    if (put_word(phrase, text, &known)) return known;
    const enum aorta_fact_key named = aorta_fact_named(text, key);
    const struct aorta_fact *fact = aorta_facts_find(&phrase->finding->facts, named);
    if (!fact || isnan(fact->value)) return false;
    if (mark == '.') return put_place(phrase, fact, rest);
    if (mark == '*')
        put_counted(phrase, fact, rest);
    else if (aorta_fact_rows[named].unit == AORTA_UNIT_FLAG && aorta_fact_rows[named].words)
        aorta_text_puts(phrase->out, aorta_fact_rows[named].words);
    else
        put_value(fact->value, aorta_fact_rows[named].unit, mark != '#', phrase->out);
    return true;
}

bool aorta_phrase(const struct aorta_verdict *verdict, const struct aorta_finding *finding, const char *template,
                  bool whole_names, struct aorta_text *out) {
    return aorta_text_template(out, template, put_placeholder, &(struct phrase){verdict, finding, whole_names, out});
}

void aorta_phrase_first(const struct aorta_verdict *verdict, const struct aorta_finding *finding,
                        const char *const *templates, bool whole_names, struct aorta_text *out) {
    for (int i = 0; i < AORTA_TEMPLATES && templates[i]; i++)
        if (aorta_phrase(verdict, finding, templates[i], whole_names, out)) return;
}

static void put_own_name(const struct aorta_verdict *verdict, const struct aorta_finding *finding,
                         struct aorta_text *out) {
    if (aorta_facts_has(&finding->facts, AORTA_FACT_UNEXPLAINED) && finding->cause == AORTA_CAUSE_HOST_LAUNCH)
        aorta_text_puts(out, "unexplained gaps");
    else
        (void)aorta_phrase(verdict, finding, aorta_cause_row(finding->cause)->name, false, out);
}

void aorta_cause_display(const struct aorta_verdict *verdict, enum aorta_cause cause, struct aorta_text *out) {
    const struct aorta_finding none = {.cause = cause, .rank = -1}, *named = &none;
    for (size_t i = 0; i < verdict->finding_count && named == &none; i++)
        if (verdict->findings[i].cause == cause) named = &verdict->findings[i];
    put_own_name(verdict, named, out);
}

void aorta_finding_name(const struct aorta_verdict *verdict, const struct aorta_finding *finding,
                        struct aorta_text *out) {
    put_own_name(verdict, finding, out);
    if (!(finding->joint_ms > 0)) return;
    aorta_text_puts(out, " + ");
    aorta_cause_display(verdict, finding->partner, out);
}

/* ---- fixes ---- */

void aorta_advice_put(int rank, const char *advice, struct aorta_text *out) {
    static const char mark[] = "{rank}";
    const char *at = strstr(advice, mark);
    if (!at) {
        aorta_text_puts(out, advice);
        return;
    }
    aorta_text_append(out, advice, (size_t)(at - advice));
    if (rank >= 0)
        aorta_text_printf(out, "rank %d", rank);
    else
        aorta_text_puts(out, "the late rank");
    aorta_text_puts(out, at + strlen(mark));
}

void aorta_fix_text(const struct aorta_finding *finding, int index, struct aorta_text *out, struct aorta_text *also) {
    const struct aorta_fix *fix = &finding->fixes[index];
    const struct aorta_advice_row *row = fix->row;
    if (!row->key) {
        aorta_advice_put(finding->rank, row->text, out);
        if (row->also && !also) aorta_text_puts(out, "; ");
        if (row->also) aorta_advice_put(finding->rank, row->also, also ? also : out);
        return;
    }
    const bool direction =
        row->value == aorta_advice_larger || row->value == aorta_advice_smaller || row->value == aorta_advice_another;
    if (!direction)
        aorta_text_printf(out, "%s=%s (%s)", row->key, row->value, row->text);
    else
        aorta_text_printf(out, "%s %s%s%s (%s)", row->value, row->key, fix->now ? ", now " : "",
                          fix->now ? fix->now : "", row->text);
}

void aorta_finding_evidence(const struct aorta_verdict *verdict, const struct aorta_finding *finding,
                            struct aorta_text *out) {
    const struct aorta_cause_row *row = aorta_cause_row(finding->cause);
    struct aorta_text worst = {0};
    const size_t before = out->length;
    aorta_phrase_first(verdict, finding, row->measured, false, out);
    aorta_phrase_first(verdict, finding, row->worst, false, &worst);
    if (worst.length) aorta_text_printf(out, "%sworst: %s", out->length > before ? "; " : "", worst.data);
    aorta_text_end(&worst, out);
}

void aorta_finding_advice(const struct aorta_finding *finding, struct aorta_text *out) {
    if (finding->all_set)
        aorta_text_puts(out, "each key that helps is set already: give each rank more work, or use a faster device");
    for (int i = 0; i < finding->fix_count; i++) {
        if (i) aorta_text_puts(out, "; or ");
        aorta_fix_text(finding, i, out, NULL);
    }
}
