/* Numbered texts: each once, of any length, by bytes. */
#include "base/intern.h"
#include "check.h"

static void equal_texts_share_a_number(void **state) {
    (void)state;
    struct aorta_texts texts = {0};
    char text[64];
    for (uint32_t i = 0; i < 5000; i++) {
        int length = snprintf(text, sizeof text, "kernel_%u<with, some, arguments>", i);
        assert_int_equal(aorta_texts_add(&texts, text, (size_t)length), i);
    }
    for (uint32_t i = 0; i < 5000; i++) {
        int length = snprintf(text, sizeof text, "kernel_%u<with, some, arguments>", i);
        assert_int_equal(aorta_texts_add(&texts, text, (size_t)length), i);
        assert_string_equal(texts.entries[i].text, text);
    }
    assert_int_equal(texts.count, 5000);
    aorta_texts_free(&texts);
}

static void prefixes_and_bytes_distinguish_texts(void **state) {
    (void)state;
    struct aorta_texts texts = {0};
    char zeros[40] = {0};
    for (size_t length = 0; length < sizeof zeros; length++)
        assert_int_equal(aorta_texts_add(&texts, zeros, length), length);
    assert_int_equal(aorta_texts_add(&texts, zeros, 16), 16);
    aorta_texts_free(&texts);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_texts_share_a_number),
        cmocka_unit_test(prefixes_and_bytes_distinguish_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
