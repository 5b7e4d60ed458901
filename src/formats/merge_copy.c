/* Values from a file, copied as valid JSON: what the scanner passes over unread (it looks at brackets and quotes only)
 * is looked at here. Bare words that JSON does not know (NaN, inf), which some writers leave in, become texts; letters
 * that texts may not hold are escaped, bytes that are no UTF-8 become U+FFFD; white space between is dropped. */
#include "base/json.h"
#include "formats/merge_internal.h"

#include <string.h>

enum { DEEPEST = 200 };

struct copier {
    const char *at, *end;
    struct aorta_text *out;
};

static void put(struct copier *c, const char *text, size_t length) {
    aorta_text_append(c->out, text, length);
}

static void skip_space(struct copier *c) {
    while (c->at < c->end && strchr(" \t\r\n", *c->at) && *c->at) c->at++;
}

static bool next_is(struct copier *c, char letter) {
    skip_space(c);
    return c->at < c->end && *c->at == letter;
}

static bool is_hex(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Letters behind a backslash that belong to the escape; 0: it is none. */
static size_t escape_length(const char *at, const char *end) {
    if (at >= end || !*at || !strchr("\"\\/bfnrtu", *at)) return 0;
    if (*at != 'u') return 1;
    for (int i = 1; i <= 4; i++)
        if (at + i >= end || !is_hex(at[i])) return 0;
    return 5;
}

/* Copies what stands in a string as it is, up to the first that does not. */
static void copy_plain(struct copier *c) {
    const char *from = c->at;
    while (c->at < c->end && *c->at != '"' && *c->at != '\\' && (unsigned char)*c->at >= 0x20) {
        size_t length = aorta_json_utf8_length(c->at, (size_t)(c->end - c->at));
        if (!length) break;
        c->at += length;
    }
    put(c, from, (size_t)(c->at - from));
}

static bool copy_string(struct copier *c) {
    put(c, "\"", 1);
    for (c->at++; c->at < c->end && *c->at != '"';) {
        copy_plain(c);
        if (c->at == c->end || *c->at == '"') break;
        if ((unsigned char)*c->at >= 0x80) {
            aorta_text_puts(c->out, AORTA_JSON_NO_LETTER);
            c->at++;
            continue;
        }
        if ((unsigned char)*c->at < 0x20) {
            aorta_text_printf(c->out, "\\u%04x", (unsigned)(unsigned char)*c->at++);
            continue;
        }
        size_t length = escape_length(c->at + 1, c->end);
        put(c, length ? "\\" : "\\\\", length ? 1 : 2);
        put(c, c->at + 1, length);
        c->at += 1 + length;
    }
    if (c->at >= c->end) return false;
    put(c, "\"", 1);
    c->at++;
    return true;
}

static size_t digits(const char *text, size_t at, size_t length) {
    while (at < length && text[at] >= '0' && text[at] <= '9') at++;
    return at;
}

/* RFC 8259, section 6. */
static bool is_number(const char *text, size_t length) {
    size_t at = length && text[0] == '-', begin = at;
    at = digits(text, at, length);
    if (at == begin || (text[begin] == '0' && at > begin + 1)) return false;
    if (at < length && text[at] == '.') {
        begin = at + 1;
        at = digits(text, begin, length);
        if (at == begin) return false;
    }
    if (at < length && (text[at] == 'e' || text[at] == 'E')) {
        begin = at + 1;
        if (begin < length && (text[begin] == '+' || text[begin] == '-')) begin++;
        at = digits(text, begin, length);
        if (at == begin) return false;
    }
    return at == length;
}

static bool is_word(const char *text, size_t length) {
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (length == strlen(words[i]) && memcmp(text, words[i], length) == 0) return true;
    return false;
}

static bool copy_scalar(struct copier *c) {
    const char *from = c->at;
    while (c->at < c->end && (!*c->at || !strchr(" \t\r\n,]}:\"[{", *c->at))) c->at++;
    size_t length = (size_t)(c->at - from);
    if (length == 0) return false;
    if (is_number(from, length) || is_word(from, length)) {
        put(c, from, length);
        return true;
    }
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)from[i] <= 0x20 || from[i] == '\\' || (unsigned char)from[i] >= 0x7f) return false;
    aorta_text_printf(c->out, "\"%.*s\"", (int)length, from);
    return true;
}

static bool copy_value(struct copier *c, int depth);

static bool copy_members(struct copier *c, int depth) {
    bool object = *c->at == '{';
    char close = object ? '}' : ']';
    put(c, c->at++, 1);
    for (bool first = true; !next_is(c, close); first = false) {
        if (!first) {
            if (!next_is(c, ',')) return false;
            c->at++;
            put(c, ", ", 2);
            skip_space(c);
        }
        if (object) {
            if (!next_is(c, '"') || !copy_string(c) || !next_is(c, ':')) return false;
            c->at++;
            put(c, ": ", 2);
        }
        if (!copy_value(c, depth + 1)) return false;
    }
    put(c, c->at++, 1);
    return true;
}

static bool copy_value(struct copier *c, int depth) {
    skip_space(c);
    if (c->at >= c->end || depth > DEEPEST) return false;
    if (*c->at == '"') return copy_string(c);
    return *c->at == '{' || *c->at == '[' ? copy_members(c, depth) : copy_scalar(c);
}

bool aorta_merge_copy(struct aorta_text *out, struct aorta_json_value value) {
    struct copier c = {value.text, value.text + value.length, out};
    if (!copy_value(&c, 0)) return false;
    skip_space(&c);
    return c.at == c.end;
}

bool aorta_merge_copy_key(struct aorta_text *out, struct aorta_json_value key) {
    /* The key lies between its quotes. */
    const struct aorta_json_value quoted = {key.text - 1, key.length + 2};
    return aorta_merge_copy(out, quoted);
}
