#include "report/cause_help.h"
#include "base/lines.h"
#include "verdict/advice.h"
#include "verdict/causes.h"

#include <string.h>

enum { LABEL = 14 };

static const struct {
    unsigned program;
    const char *name;
} programs[] = {{AORTA_PROGRAM_TORCH, "PyTorch"},   {AORTA_PROGRAM_SERVING, "vLLM, SGLang"},
                {AORTA_PROGRAM_XLA, "JAX"},         {AORTA_PROGRAM_CUPY, "CuPy"},
                {AORTA_PROGRAM_TRITON, "Triton"},   {AORTA_PROGRAM_NATIVE, "C, MPI"},
                {AORTA_PROGRAM_OURS, "aorta train"}};
enum { PROGRAMS = sizeof programs / sizeof *programs };

static void put(const char *label, const char *text, struct aorta_text *out) {
    aorta_text_printf(out, "  %-*s", LABEL, label);
    aorta_text_lines(out, text, &(struct aorta_lines){.width = 100, .taken = 2 + LABEL, .indent = 2 + LABEL});
}

static void put_row(const struct aorta_advice_row *row, struct aorta_text *out) {
    if (row->key && strchr(row->value, ' '))
        aorta_text_printf(out, "%s %s (", row->value, row->key);
    else if (row->key)
        aorta_text_printf(out, "%s=%s (", row->key, row->value);
    aorta_text_puts(out, row->text);
    if (row->key) aorta_text_puts(out, ")");
    if (row->also) aorta_text_printf(out, "; %s", row->also);
}

/* What the row is for: "all_to_all (sends and receives): ". */
static void put_condition(const struct aorta_advice_row *row, struct aorta_text *out) {
    if (row->collective) aorta_text_puts(out, aorta_collective_name((enum aorta_collective)(row->collective - 1)));
    if (row->remedy) aorta_text_puts(out, row->remedy);
    for (int i = 0; i < 2; i++) {
        const char *words = row->when[i] ? aorta_fact_words(row->when[i]) : NULL;
        if (words) aorta_text_printf(out, "%s(%s)", out->length ? " " : "", words);
    }
    if (out->length) aorta_text_puts(out, ": ");
}

/* Rows that an earlier program has had already are left out. */
static bool is_new(const struct aorta_advice_row *row, int program) {
    for (int i = 0; i < program; i++)
        if (row->programs & programs[i].program) return false;
    return true;
}

static void put_fixes(enum aorta_cause cause, struct aorta_text *out) {
    size_t count;
    const struct aorta_advice_row *rows = aorta_advice_rows(&count);
    for (int i = 0; i < PROGRAMS; i++) {
        const char *label = programs[i].name;
        for (size_t j = 0; j < count; j++) {
            struct aorta_text line = {0};
            if (rows[j].cause != cause || !(rows[j].programs & programs[i].program) || !is_new(&rows[j], i)) continue;
            put_condition(&rows[j], &line);
            put_row(&rows[j], &line);
            put(label, line.data ? line.data : "", out);
            out->failed |= line.failed;
            aorta_text_free(&line);
            label = "";
        }
    }
}

/* The template of the name without its options: "slow KIND (slow_collective)". */
static void put_name(const struct aorta_cause_row *row, struct aorta_text *out) {
    for (const char *at = row->name; *at;) {
        const size_t plain = strcspn(at, "[{");
        aorta_text_append(out, at, plain);
        at += plain;
        if (*at == '{') aorta_text_puts(out, "KIND");
        at += strcspn(at, *at == '[' ? "]" : "}");
        if (*at) at++;
    }
    aorta_text_printf(out, " (%s)\n\n", row->key);
}

void aorta_cause_help(enum aorta_cause cause, struct aorta_text *out) {
    const struct aorta_cause_row *row = aorta_cause_row(cause);
    put_name(row, out);
    put("meaning", row->means, out);
    put("measured", row->how, out);
    put("gain", row->gain, out);
    put("not when", row->unless, out);
    aorta_text_puts(out, "\nFixes:\n");
    put_fixes(cause, out);
}
