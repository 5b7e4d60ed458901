/* The scanner: what it hands out does not depend on how the file arrives in pieces; every cut is noticed. */
#include "base/json_value.h"
#include "base/random.h"
#include "check.h"
#include "json_memory.h"
#include "trace/json_stream.h"

#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

static const char document[] = "\n{ \"meta\" : {\"a\":[1,2,{\"]\":\"}\"}], \"b\":\"\\\"[{\\\\\"},\n"
                               "  \"events\": [ {\"name\":\"void f<(int)1>(char const*, \\\"x\\\")\",\"ts\":12.5 , "
                               "\"args\":{\"dims\":[[1,2],[]]}},\n"
                               "\t{}, [], \"text with \\\\\", -1.5e3, null , true, {\"deep\":[[[[[[\"]]]]\"]]]]]]}, "
                               "{\"u\":\"\\u00e9\\\\\\\"\"} ],\n"
                               "  \"last\":3 }\n";

/* Walks the document and writes down what was handed out. */
static aorta_status walk(struct aorta_json_stream *stream, struct aorta_text *out) {
    struct aorta_json_value key, value;
    bool more;
    AORTA_TRY(aorta_json_stream_enter(stream, '{'));
    for (;;) {
        AORTA_TRY(aorta_json_stream_member(stream, &key, &more));
        if (!more) break;
        aorta_text_printf(out, "%.*s:", (int)key.length, key.text);
        if (aorta_json_key_is(key, "meta")) {
            AORTA_TRY(aorta_json_stream_skip(stream));
            continue;
        }
        if (!aorta_json_key_is(key, "events")) {
            AORTA_TRY(aorta_json_stream_value(stream, &value));
            aorta_text_printf(out, "%.*s\n", (int)value.length, value.text);
            continue;
        }
        AORTA_TRY(aorta_json_stream_enter(stream, '['));
        for (;;) {
            AORTA_TRY(aorta_json_stream_element(stream, &value, &more));
            if (!more) break;
            aorta_text_printf(out, "@%d %.*s\n", (int)aorta_json_stream_offset(stream), (int)value.length, value.text);
        }
    }
    return aorta_json_stream_finish(stream);
}

static aorta_status walk_pieces(const char *bytes, size_t length, size_t piece, struct aorta_text *out) {
    struct aorta_json_stream *stream;
    AORTA_TRY(json_memory(bytes, length, piece, "test.json", &stream));
    aorta_status status = walk(stream, out);
    aorta_json_stream_close(stream);
    return status;
}

static void pieces_do_not_matter(void **state) {
    (void)state;
    struct aorta_text whole = {0}, pieces = {0};
    check_ok(walk_pieces(document, sizeof document - 1, 0, &whole));
    const char *text = whole.data ? whole.data : "";
    assert_non_null(strstr(text, "meta:events:@"));
    assert_non_null(strstr(text, " {\"deep\":[[[[[[\"]]]]\"]]]]]]}\n"));
    assert_non_null(strstr(text, " -1.5e3\n"));
    assert_non_null(strstr(text, "last:3\n"));
    for (size_t piece = 1; piece < 80; piece++) {
        aorta_text_clear(&pieces);
        check_ok(walk_pieces(document, sizeof document - 1, piece, &pieces));
        assert_string_equal(text, pieces.data);
    }
    aorta_text_free(&whole);
    aorta_text_free(&pieces);
}

static void every_prefix_fails_as_cut_off(void **state) {
    (void)state;
    struct aorta_text out = {0};
    for (size_t length = 0; length < sizeof document - 2; length++) /* the last byte is white space */
        for (size_t piece = 0; piece < 3; piece++)
            check_fails(walk_pieces(document, length, piece, &out), AORTA_FORMAT, "cut off");
    aorta_text_free(&out);
}

static void breaks_are_placed(void **state) {
    (void)state;
    static const struct {
        const char *text, *part;
    } rows[] = {
        {"[1]", "malformed at byte 0: an object is expected, not '['"},
        {"{\"a\" 1}", "malformed at byte 5: ':' is expected"},
        {"{\"a\":1 \"b\":2}", "malformed at byte 7: ',' or '}' is expected"},
        {"{\"a\":1,}", "malformed at byte 7: a key in quotes"},
        {"{\"events\":[1,,2]}", "malformed at byte 13: a value is expected, not ','"},
        {"{\"events\":[1}", "malformed at byte 12: ',' or ']' is expected"},
        {"{\"a\":1} x", "malformed at byte 8: the end of the file is expected"},
        {"{\"a\":\1}", "a value is expected, not byte 0x01"},
        {"{\"meta\":{\"x\":[1}",
         "test.json is cut off: it ends at byte 16 where the rest of the value from byte 8 should follow"},
        {"", "cut off: it ends at byte 0"},
    };
    struct aorta_text out = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t piece = 0; piece < 4; piece++)
            check_fails(walk_pieces(rows[i].text, strlen(rows[i].text), piece, &out), AORTA_FORMAT, rows[i].part);
    aorta_text_free(&out);
}

/* Random brackets, quotes and backslashes: the vector version, in random pieces, finds what one byte at a time does. */
static const char *naive_end(const char *at, const char *end) {
    int depth = 0;
    bool inside = false, escaped = false;
    for (; at < end; at++) {
        bool literal =
            escaped; /* outside of strings, where no backslash may stand, it makes no difference to brackets */
        escaped = !escaped && *at == '\\';
        if (*at == '"' && !literal) inside = !inside;
        if (!inside && strchr("{[", *at)) depth++;
        if (!inside && strchr("}]", *at) && --depth == 0) return at + 1;
    }
    return NULL;
}

static const char *end_in_pieces(const char *at, const char *end, uint32_t *seed) {
    struct aorta_json_skip state = {0};
    while (at < end) {
        *seed = *seed * 1664525u + 1013904223u;
        size_t piece = 1 + (*seed >> 24) % 130;
        const char *stop = (size_t)(end - at) < piece ? end : at + piece;
        const char *found = aorta_json_skip_nested(&state, at, stop);
        if (found) return found;
        at = stop;
    }
    return NULL;
}

static void the_end_is_found_in_pieces(void **state) {
    (void)state;
    static const char letters[] = "\"\"\\\\{}[]aaaaaaaaaa ,:b";
    struct aorta_random random = {7, 0, AORTA_RANDOM_DATA};
    uint32_t words[600], seed = 1;
    int ended = 0;
    for (uint64_t round = 0; round < 4000; round++) {
        aorta_random_words(&random, round * 600, 600, words);
        size_t length = words[0] % 600;
        char *text = malloc(length + 1); /* on the heap, so that reading past it shows */
        text[0] = '{';
        for (size_t i = 1; i <= length; i++) text[i] = letters[words[i % 600] % (sizeof letters - 1)];
        const char *end = text + length + 1, *expected = naive_end(text, end);
        ended += expected != NULL;
        assert_ptr_equal(end_in_pieces(text, end, &seed), expected);
        struct aorta_json_skip whole = {0};
        assert_ptr_equal(aorta_json_skip_nested(&whole, text, end), expected);
        free(text);
    }
    assert_in_range(ended, 1000, 3999); /* both outcomes were met */
}

static void numbers_are_exact(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int shift;
        int64_t number;
    } rows[] = {
        {"4354026844260.397", 3, 4354026844260397},
        {"1790857026000000.123", 3, 1790857026000000123},
        {"9223372036854775.807", 3, INT64_MAX},
        {"12", 3, 12000},
        {"-0.0015", 3, -2},
        {"0.0004999999999999999999999", 3, 0},
        {"0.0005", 3, 1},
        {"1.5e3", 3, 1500000},
        {"1753E-1", 3, 175300},
        {"2.0000000000000000000000000000000000001", 3, 2000},
        {"1234567890123456789.5", 0, 1234567890123456790},
        {"\"7.25\"", 3, 7250},
        {"0e999999999999", 3, 0},
        {"5e-99", 3, 0},
    };
    int64_t number;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct aorta_json_value value = {rows[i].text, strlen(rows[i].text)};
        if (!aorta_json_get_scaled(value, rows[i].shift, &number) || number != rows[i].number)
            fail_msg("%s became %lld", rows[i].text, (long long)number);
    }
    static const char *const bad[] = {
        "9223372036854775.808", "1e30", "abc", "", "-", "1.2.3", "1e", "null", "\"\"", "12x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (aorta_json_get_scaled((struct aorta_json_value){bad[i], strlen(bad[i])}, 3, &number))
            fail_msg("took %s", bad[i]);
}

static void whole_numbers(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t number;
    } rows[] = {{"0", 0},     {"-7", -7},    {"9223372036854775807", INT64_MAX},         {"\"0x1F\"", 31}, {"0x0", 0},
                {"31.0", 31}, {"1e3", 1000}, {"123456789012345678", 123456789012345678}, {"\"-12\"", -12}};
    int64_t number;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct aorta_json_value value = {rows[i].text, strlen(rows[i].text)};
        if (!aorta_json_get_int(value, &number) || number != rows[i].number)
            fail_msg("%s became %lld", rows[i].text, (long long)number);
    }
    static const char *const bad[] = {"31.5", "18446744073709551615",        "0x", "0xFFFFFFFFFFFFFFFF",
                                      "true", "1.00000000000000000000000001"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (aorta_json_get_int((struct aorta_json_value){bad[i], strlen(bad[i])}, &number)) fail_msg("took %s", bad[i]);
}

static void strings_lose_their_escapes(void **state) {
    (void)state;
    static const struct {
        const char *text, *expected;
    } rows[] = {
        {"\"plain\"", "plain"},
        {"\"\"", ""},
        {"\"a\\\"b\\\\c\\/d\\n\"", "a\"b\\c/d\n"},
        {"\"\\u00e9\\ud83d\\ude00x\"", "\xc3\xa9\xf0\x9f\x98\x80x"},
        {"\"\\ud83dx\\udc00\\u12\"", "\xef\xbf\xbdx\xef\xbf\xbd\xef\xbf\xbd"
                                     "12"},
        {"\"\\q\"", "q"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct aorta_text scratch = {0};
        struct aorta_json_value string;
        assert_true(
            aorta_json_get_string((struct aorta_json_value){rows[i].text, strlen(rows[i].text)}, &scratch, &string));
        assert_int_equal(string.length, strlen(rows[i].expected));
        assert_memory_equal(string.text, rows[i].expected, string.length);
        aorta_text_free(&scratch);
    }
}

static void cursors_stop_where_it_is_broken(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int members;
        bool well_formed;
    } rows[] = {{"{}", 0, true},
                {"{ \"a\" : 1 , \"b\" : {\"c\":[]} }", 2, true},
                {"{\"a\":1 \"b\":2}", 0, false},
                {"{\"a\":1,}", 0, false},
                {"{\"a\":1,b}", 1, false},
                {"{\"a\"}", 0, false},
                {"{\"a\":}", 0, false},
                {"{\"a\":[}", 0, false},
                {"[1]", 0, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct aorta_json_cursor cursor =
            aorta_json_members((struct aorta_json_value){rows[i].text, strlen(rows[i].text)});
        struct aorta_json_value key, value;
        int members = 0;
        while (aorta_json_next_member(&cursor, &key, &value)) members++;
        assert_int_equal(members, rows[i].members);
        assert_int_equal(aorta_json_well_formed(&cursor), rows[i].well_formed);
    }
}

/* ---- gzip ---- */

static size_t pack(const char *bytes, size_t length, unsigned char *packed, size_t capacity) {
    z_stream deflater = {0};
    assert_int_equal(deflateInit2(&deflater, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    deflater.next_in = (unsigned char *)bytes;
    deflater.avail_in = (uInt)length;
    deflater.next_out = packed;
    deflater.avail_out = (uInt)capacity;
    assert_int_equal(deflate(&deflater, Z_FINISH), Z_STREAM_END);
    size_t size = deflater.total_out;
    deflateEnd(&deflater);
    return size;
}

static aorta_status walk_file(const unsigned char *bytes, size_t length, struct aorta_text *out) {
    char path[] = "/tmp/aorta_trace_gzip_XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, bytes, length), (ssize_t)length);
    close(file);
    struct aorta_json_stream *stream;
    aorta_status status = aorta_json_stream_open(path, &stream);
    if (!status) {
        status = walk(stream, out);
        aorta_json_stream_close(stream);
    }
    unlink(path);
    return status;
}

static void marked_utf8_reads_as_plain(void **state) {
    (void)state;
    struct aorta_text plain = {0}, marked = {0}, out = {0};
    aorta_text_printf(&marked, "\xef\xbb\xbf%s", document);
    check_ok(walk_file((const unsigned char *)document, sizeof document - 1, &plain));
    check_ok(walk_file((const unsigned char *)marked.data, marked.length, &out));
    assert_string_equal(plain.data, out.data);
    for (size_t piece = 1; piece < 5; piece++) {
        aorta_text_clear(&out);
        check_ok(walk_pieces(marked.data, marked.length, piece, &out));
        assert_string_equal(plain.data, out.data);
    }
    unsigned char packed[2048];
    aorta_text_clear(&out);
    check_ok(walk_file(packed, pack(marked.data, marked.length, packed, sizeof packed), &out));
    assert_string_equal(plain.data, out.data);
    aorta_text_free(&plain);
    aorta_text_free(&marked);
    aorta_text_free(&out);
}

static void gzip_reads_as_plain(void **state) {
    (void)state;
    unsigned char packed[2048];
    size_t half = sizeof document / 2, size = pack(document, half, packed, sizeof packed);
    size += pack(document + half, sizeof document - 1 - half, packed + size, sizeof packed - size); /* two members */
    memset(packed + size, 0, 16);                                                                   /* and padding */
    struct aorta_text plain = {0}, out = {0};
    check_ok(walk_file((const unsigned char *)document, sizeof document - 1, &plain));
    check_ok(walk_file(packed, size, &out));
    assert_string_equal(plain.data, out.data);
    aorta_text_clear(&out);
    check_ok(walk_file(packed, size + 16, &out));
    assert_string_equal(plain.data, out.data);
    aorta_text_free(&plain);
    aorta_text_free(&out);
}

static void broken_gzip_is_named(void **state) {
    (void)state;
    unsigned char packed[2048];
    size_t size = pack(document, sizeof document - 1, packed, sizeof packed);
    struct aorta_text out = {0};
    for (size_t length = 3; length < size; length += 7)
        check_fails(walk_file(packed, length, &out), AORTA_FORMAT, "cut off");
    packed[size - 6] ^= 1; /* the checksum */
    check_fails(walk_file(packed, size, &out), AORTA_FORMAT, "broken gzip data near packed byte");
    aorta_text_free(&out);
}

static void large_files_need_little_memory(void **state) {
    (void)state;
    enum { ELEMENTS = 300000 };
    struct aorta_text text = {0}, huge = {0};
    aorta_text_puts(&text, "{\"events\":[0");
    for (int i = 1; i < ELEMENTS; i++) aorta_text_printf(&text, ",{\"n\":%d}", i);
    aorta_text_puts(&text, "]}");
    check_ok(aorta_text_check(&text));
    struct aorta_json_stream *stream;
    struct aorta_json_value value, key, member;
    check_ok(json_memory(text.data, text.length, 70000, "large", &stream));
    bool more;
    check_ok(aorta_json_stream_enter(stream, '{'));
    check_ok(aorta_json_stream_member(stream, &key, &more));
    check_ok(aorta_json_stream_enter(stream, '['));
    int64_t count = 0, number;
    for (;; count++) {
        check_ok(aorta_json_stream_element(stream, &value, &more));
        if (!more) break;
        struct aorta_json_cursor cursor = aorta_json_members(value);
        if (count && (!aorta_json_next_member(&cursor, &key, &member) || !aorta_json_get_int(member, &number) ||
                      number != count))
            fail_msg("element %d is %.*s", (int)count, (int)value.length, value.text);
    }
    assert_int_equal(count, ELEMENTS);
    aorta_json_stream_close(stream);

    aorta_text_puts(&huge, "{\"events\":[\"");
    for (int i = 0; i < 140; i++) {
        static char block[1 << 20];
        memset(block, 'x', sizeof block);
        aorta_text_append(&huge, block, sizeof block);
    }
    struct aorta_text out = {0};
    check_fails(walk_pieces(huge.data, huge.length, 0, &out), AORTA_FORMAT, "a value that does not end within 128 MiB");
    aorta_text_free(&out);
    aorta_text_free(&huge);
    aorta_text_free(&text);
}

/* Walks all members, objects among them as well; true if it came to the end. */
static bool walk_all(const char *at, const char *end, struct aorta_json_walk *walk, int *members) {
    struct aorta_json_value key, value;
    if (!aorta_json_walk_begin(walk, at, end)) return false;
    while (aorta_json_walk_key(walk, &key)) {
        ++*members;
        if (*walk->at != '{') {
            if (!aorta_json_walk_value(walk, &value)) return false;
            continue;
        }
        struct aorta_json_walk inner;
        if (!walk_all(walk->at, walk->end, &inner, members) || !aorta_json_walk_out(walk, &inner)) return false;
    }
    return walk->closed;
}

/* {…}|, {…  the object ends at the bar, whatever follows; where it is cut before that, the walk says no. */
static void objects_are_walked_to_their_end(void **state) {
    (void)state;
    static const char whole[] =
        "{\n    \"ph\": \"X\", \"a long key, and one more \\\" in it\": -1.5e+3 ,\n\t\"args\": {"
        "\"in [ it\": [1, {\"x\": \"}\"}], \"deep\" : {\"none\": {}, \"null\": null}\n}, \"last\":true\n  }";
    static const char behind[] = ", {\"next\": 1}";
    char text[sizeof whole + sizeof behind];
    snprintf(text, sizeof text, "%s%s", whole, behind);
    struct aorta_json_walk walk;
    int members = 0;
    assert_true(walk_all(text, text + strlen(text), &walk, &members));
    assert_int_equal(walk.at - text, strlen(whole));
    assert_int_equal(members, 8);
    for (size_t length = 0; length < strlen(whole); length++) {
        char *cut = malloc(length + 1); /* so that a read beyond it is seen */
        assert_non_null(cut);
        memcpy(cut, text, length);
        assert_false(walk_all(cut, cut + length, &walk, &members));
        free(cut);
    }
}

/* What brackets in a scalar mean is for the slower way to say. */
static void odd_objects_are_not_walked(void **state) {
    (void)state;
    static const char *const rows[] = {
        "{\"a\": 1{2}",
        "{\"a\": 1\"2, \"b\": 2}",
        "{\"a\": 12345678901234567890123{ }",
        "{\"a\": 1\\, \"b\": 2}",
        "{\"a\" 1}",
        "{\"a\": 1,}",
        "{\"a\": 1]",
        "{\"a\": , \"b\": 2}",
        "{\"a\": 1 \"b\": 2}",
        "{1: 2}",
        "[\"a\"]",
        "",
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct aorta_json_walk walk;
        int members = 0;
        if (walk_all(rows[i], rows[i] + strlen(rows[i]), &walk, &members)) fail_msg("%s was walked", rows[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_do_not_matter),
        cmocka_unit_test(every_prefix_fails_as_cut_off),
        cmocka_unit_test(breaks_are_placed),
        cmocka_unit_test(the_end_is_found_in_pieces),
        cmocka_unit_test(numbers_are_exact),
        cmocka_unit_test(whole_numbers),
        cmocka_unit_test(strings_lose_their_escapes),
        cmocka_unit_test(cursors_stop_where_it_is_broken),
        cmocka_unit_test(marked_utf8_reads_as_plain),
        cmocka_unit_test(gzip_reads_as_plain),
        cmocka_unit_test(broken_gzip_is_named),
        cmocka_unit_test(large_files_need_little_memory),
        cmocka_unit_test(objects_are_walked_to_their_end),
        cmocka_unit_test(odd_objects_are_not_walked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
