/* Advice names keys of the configuration: each exists, and takes the value that is advised. */
#include "check.h"
#include "config/config.h"
#include "train/options.h"
#include "verdict/advice.h"
#include "verdict/remedies.h"

#include <ctype.h>
#include <stdlib.h>

static const struct aorta_option *find(const char *key) {
    for (size_t i = 0; i < aorta_train_option_table.count; i++)
        if (strcmp(aorta_train_option_table.rows[i].key, key) == 0) return &aorta_train_option_table.rows[i];
    return NULL;
}

static void check_value(const char *key, const char *value) {
    const struct aorta_option *option = find(key);
    if (!option) fail_msg("advice names %s, which is no key", key);
    _Alignas(max_align_t) char values[sizeof(struct aorta_train_options)] = {0};
    struct aorta_arena arena = {0};
    const struct aorta_scalar scalar = {value, false};
    bool fits = aorta_option_store(option, &scalar, 1, false, values, &arena);
    if (!fits) fail_msg("advice names %s=%s, which %s does not take", key, value, key);
    aorta_arena_free(&arena);
}

static bool is_direction(const char *value) {
    return value == aorta_advice_larger || value == aorta_advice_smaller || value == aorta_advice_another;
}

/* "key=value key!=value" */
static void check_settings(const char *list) {
    char copy[256], *rest = NULL;
    snprintf(copy, sizeof copy, "%s", list);
    for (char *one = strtok_r(copy, " ", &rest); one; one = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(one, '=');
        assert_non_null(equals);
        equals[equals[-1] == '!' ? -1 : 0] = '\0';
        check_value(one, equals + 1);
    }
}

static void test_keys_and_values_exist(void **state) {
    (void)state;
    size_t count, keys = 0;
    const struct aorta_advice_row *rows = aorta_advice_rows(&count);
    for (size_t i = 0; i < count; i++) {
        if (!rows[i].key || isupper((unsigned char)rows[i].key[0])) continue; /* a variable of the environment */
        keys++;
        if (is_direction(rows[i].value))
            assert_non_null(find(rows[i].key));
        else
            check_value(rows[i].key, rows[i].value);
        if (rows[i].unless) check_settings(rows[i].unless);
    }
    assert_true(keys > 20);
}

static bool is_remedy(enum aorta_cause cause) {
    bool found = false;
    for (int i = 0; i < AORTA_REMEDY_COUNT; i++)
        found |= strcmp(aorta_remedy_rules[i].cause, aorta_cause_name(cause)) == 0;
    return found;
}

/* Keys in running text: "model.num_heads for heads of …", "training.mixed_precision=tf32 (…)". */
static int check_keys_in(const char *text) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_.=";
    char words[512];
    int keys = 0;
    snprintf(words, sizeof words, "%s", text);
    for (char *at = words; *at; at++)
        if (!strchr(letters, *at)) *at = ' ';
    char *rest;
    for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        char *dot = strchr(word, '.'), *equals = strchr(word, '=');
        if (!dot || !dot[1]) continue;
        if (equals) *equals = '\0';
        assert_non_null(find(word));
        if (equals) check_value(word, equals + 1);
        keys++;
    }
    return keys;
}

/* Advice against compute that is only for our own programs names keys, which exist. */
static void test_own_remedies_name_keys(void **state) {
    (void)state;
    size_t count, found = 0;
    const struct aorta_advice_row *rows = aorta_advice_rows(&count);
    for (size_t i = 0; i < count; i++) {
        if (!is_remedy(rows[i].cause) || rows[i].programs & ~(unsigned)(AORTA_PROGRAM_OURS | AORTA_PROGRAM_SPARSE))
            continue;
        assert_true(check_keys_in(rows[i].text) > 0);
        found++;
    }
    assert_int_equal(found, 4); /* attention, TF32, bf16, alignment */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys_and_values_exist),
        cmocka_unit_test(test_own_remedies_name_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
