/* JSON values in memory: where one ends, members and elements, texts, numbers. */
#include "base/json_value.h"

#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>

enum { AT_ONCE = 16 };

/* One bit for each of the next 16 bytes. */
static inline unsigned equal_to(__m128i bytes, char letter) {
    return (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(letter)));
}

static inline __m128i next_bytes(const char *at) {
    return _mm_loadu_si128((const __m128i *)(const void *)at);
}
#endif

/* ---- where a value ends ----
 * Blocks of 64 bytes become bit masks (quotes, backslashes, brackets), one bit per byte; all further steps are
 * arithmetic on these. The idea is from Langdale and Lemire, "Parsing gigabytes of JSON per second", VLDB Journal 28
 * (2019). */

enum { BLOCK = 64 };

struct masks {
    uint64_t quote, backslash, open, close;
};

/* Bits that follow a backslash which is not itself escaped. Backslashes are rare: one step for each. */
static uint64_t find_escaped(struct aorta_json_skip *state, uint64_t backslash, size_t valid) {
    if (!backslash && !state->escaped) return 0;
    uint64_t escaped = state->escaped;
    backslash &= ~escaped;
    state->escaped = false;
    while (backslash) {
        unsigned place = (unsigned)__builtin_ctzll(backslash);
        if (place + 1 == valid) {
            state->escaped = true;
            return escaped;
        }
        uint64_t next = 1ull << (place + 1);
        escaped |= next;
        backslash &= ~next & (backslash - 1);
    }
    return escaped;
}

/* Bit i becomes the parity of bits 0 … i. */
static inline uint64_t prefix_parity(uint64_t bits) {
    for (int shift = 1; shift < BLOCK; shift *= 2) bits ^= bits << shift;
    return bits;
}

/* Bytes of the block up to the end of the value. 0 if the value does not end in this block. */
static inline size_t advance(struct aorta_json_skip *state, struct masks m, size_t valid) {
    uint64_t quotes = m.quote & ~find_escaped(state, m.backslash, valid);
    uint64_t inside = prefix_parity(quotes) ^ state->in_string;
    state->in_string = 0 - (inside >> 63);
    m.open &= ~inside;
    m.close &= ~inside;
    if (__builtin_popcountll(m.close) < state->depth) {
        state->depth += __builtin_popcountll(m.open) - __builtin_popcountll(m.close);
        return 0;
    }
    for (uint64_t brackets = m.open | m.close; brackets; brackets &= brackets - 1) {
        state->depth += m.open & brackets & -brackets ? 1 : -1;
        if (!state->depth) return (size_t)__builtin_ctzll(brackets) + 1;
    }
    return 0;
}

static inline struct masks masks_of(const char *bytes) {
    struct masks m = {0};
#if defined(__SSE2__)
    for (int i = 0; i < BLOCK; i += AT_ONCE) {
        const __m128i some = next_bytes(bytes + i), folded = _mm_or_si128(some, _mm_set1_epi8(0x20)); /* [ becomes { */
        m.quote |= (uint64_t)equal_to(some, '"') << i;
        m.backslash |= (uint64_t)equal_to(some, '\\') << i;
        m.open |= (uint64_t)equal_to(folded, '{') << i;
        m.close |= (uint64_t)equal_to(folded, '}') << i;
    }
#else
    for (int i = 0; i < BLOCK; i++) {
        char c = bytes[i];
        m.quote |= (uint64_t)(c == '"') << i;
        m.backslash |= (uint64_t)(c == '\\') << i;
        m.open |= (uint64_t)(c == '{' || c == '[') << i;
        m.close |= (uint64_t)(c == '}' || c == ']') << i;
    }
#endif
    return m;
}

/* The last bytes of a piece, filled up with spaces, which mean nothing anywhere. */
static size_t copy_rest(char block[BLOCK], const char *at, const char *end) {
    size_t rest = (size_t)(end - at);
    memset(block, ' ', BLOCK);
    memcpy(block, at, rest);
    return rest;
}

const char *aorta_json_skip_nested(struct aorta_json_skip *state, const char *at, const char *end) {
    char block[BLOCK];
    while (at < end) {
        size_t valid = end - at < BLOCK ? copy_rest(block, at, end) : BLOCK;
        size_t length = advance(state, masks_of(valid < BLOCK ? block : at), valid);
        if (length) return at + length;
        at += valid;
    }
    return NULL;
}

/* Skips bytes that are neither quote nor backslash. */
static inline const char *pass_plain_text(const char *at, const char *end) {
#if defined(__SSE2__)
    for (; end - at >= AT_ONCE; at += AT_ONCE) {
        const unsigned found = equal_to(next_bytes(at), '"') | equal_to(next_bytes(at), '\\');
        if (found) return at + __builtin_ctz(found);
    }
#endif
    while (at < end && *at != '"' && *at != '\\') at++;
    return at;
}

static inline const char *skip_string(struct aorta_json_skip *state, const char *at, const char *end) {
    if (state->escaped && at < end) {
        state->escaped = false;
        at++;
    }
    for (;;) {
        at = pass_plain_text(at, end);
        if (at == end) return NULL;
        if (*at == '"') return at + 1;
        if (end - at < 2) {
            state->escaped = true;
            return NULL;
        }
        at += 2;
    }
}

const char *aorta_json_skip_string(struct aorta_json_skip *state, const char *at, const char *end) {
    return skip_string(state, at, end);
}

/* ---- values ---- */

static inline const char *pass_spaces(const char *at, const char *end) {
    while (at < end && aorta_json_space(*at)) at++;
    return at;
}

static inline bool ends_scalar(char c) {
    return c == ',' || c == '}' || c == ']' || (unsigned char)c <= ' ';
}

/* A character that no number and no word has. */
static inline bool is_structural(char c) {
    return c == '"' || c == '\\' || c == '{' || c == '[';
}

/* *odd: it has something structural in it. */
static inline const char *scalar_end(const char *at, const char *end, bool *odd) {
#if defined(__SSE2__)
    if (end - at >= AT_ONCE) {
        const __m128i bytes = next_bytes(at), space = _mm_set1_epi8(' ');
        const unsigned ends = equal_to(bytes, ',') | equal_to(bytes, '}') | equal_to(bytes, ']') |
                              (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_max_epu8(bytes, space), space));
        const unsigned structural =
            equal_to(bytes, '"') | equal_to(bytes, '\\') | equal_to(bytes, '{') | equal_to(bytes, '[');
        if (ends) {
            *odd = structural & (ends - 1) & ~ends;
            return at + __builtin_ctz(ends);
        }
    }
#endif
    for (*odd = false; at < end && !ends_scalar(*at); at++) *odd |= is_structural(*at);
    return at;
}

/* Where the value at `at` ends; NULL when it does not. *odd: it is a scalar with something structural in it. */
static inline const char *value_end(const char *at, const char *end, bool *odd) {
    struct aorta_json_skip state = {0};
    *odd = false;
    if (*at == '"') return skip_string(&state, at + 1, end);
    if (*at == '{' || *at == '[') return aorta_json_skip_nested(&state, at, end);
    const char *behind = scalar_end(at, end, odd);
    return behind > at ? behind : NULL;
}

static struct aorta_json_cursor inside(struct aorta_json_value value, char open, char close) {
    if (value.length < 2 || value.text[0] != open || value.text[value.length - 1] != close)
        return (struct aorta_json_cursor){0};
    const char *end = value.text + value.length - 1;
    return (struct aorta_json_cursor){pass_spaces(value.text + 1, end), end};
}

struct aorta_json_cursor aorta_json_members(struct aorta_json_value value) {
    return inside(value, '{', '}');
}
struct aorta_json_cursor aorta_json_elements(struct aorta_json_value value) {
    return inside(value, '[', ']');
}

/* Takes the value at the cursor and the comma after it. On an error the cursor stays. */
static inline bool take(struct aorta_json_cursor *cursor, const char *at, struct aorta_json_value *value) {
    bool odd;
    const char *end = cursor->end, *behind = at < end ? value_end(at, end, &odd) : NULL;
    if (!behind) return false;
    *value = (struct aorta_json_value){at, (size_t)(behind - at)};
    at = pass_spaces(behind, end);
    if (at == end) {
        cursor->at = end;
        return true;
    }
    if (*at != ',') return false;
    at = pass_spaces(at + 1, end);
    if (at == end) return false; /* a comma with nothing after it */
    cursor->at = at;
    return true;
}

/* Takes the key and the colon after it, and returns the next place; NULL: they are missing. */
static inline const char *take_key(const char *at, const char *end, struct aorta_json_value *key) {
    if (at >= end || *at != '"') return NULL;
    struct aorta_json_skip state = {0};
    const char *behind = skip_string(&state, at + 1, end);
    if (!behind) return NULL;
    *key = (struct aorta_json_value){at + 1, (size_t)(behind - at) - 2};
    at = pass_spaces(behind, end);
    return at == end || *at != ':' ? NULL : pass_spaces(at + 1, end);
}

bool aorta_json_next_element(struct aorta_json_cursor *cursor, struct aorta_json_value *value) {
    return take(cursor, cursor->at, value);
}

bool aorta_json_next_member(struct aorta_json_cursor *cursor, struct aorta_json_value *key,
                            struct aorta_json_value *value) {
    const char *at = take_key(cursor->at, cursor->end, key);
    return at && take(cursor, at, value);
}

/* ---- objects whose end is not known ---- */

bool aorta_json_walk_begin(struct aorta_json_walk *walk, const char *at, const char *end) {
    *walk = (struct aorta_json_walk){.end = end};
    if (at == end || *at != '{') return false;
    at = pass_spaces(at + 1, end);
    walk->closed = at < end && *at == '}';
    walk->at = walk->closed ? at + 1 : at;
    return true;
}

bool aorta_json_walk_key(struct aorta_json_walk *walk, struct aorta_json_value *key) {
    if (walk->closed) return false;
    const char *at = take_key(walk->at, walk->end, key);
    if (!at || at == walk->end) return false;
    walk->at = at;
    return true;
}

/* Passes the separator after a value. */
static inline bool walk_behind(struct aorta_json_walk *walk, const char *behind) {
    const char *end = walk->end, *at = pass_spaces(behind, end);
    if (at == end || (*at != ',' && *at != '}')) return false;
    walk->closed = *at == '}';
    walk->at = walk->closed ? at + 1 : pass_spaces(at + 1, end);
    return true;
}

bool aorta_json_walk_value(struct aorta_json_walk *walk, struct aorta_json_value *value) {
    bool odd;
    const char *behind = value_end(walk->at, walk->end, &odd);
    if (!behind || odd) return false;
    *value = (struct aorta_json_value){walk->at, (size_t)(behind - walk->at)};
    return walk_behind(walk, behind);
}

bool aorta_json_walk_out(struct aorta_json_walk *walk, const struct aorta_json_walk *inner) {
    return inner->closed && walk_behind(walk, inner->at);
}

bool aorta_json_key_is(struct aorta_json_value key, const char *name) {
    size_t length = strlen(name);
    return key.length == length && !memcmp(key.text, name, length);
}

struct aorta_json_value aorta_json_find(struct aorta_json_value object, const char *name) {
    struct aorta_json_cursor cursor = aorta_json_members(object);
    struct aorta_json_value key, value;
    while (aorta_json_next_member(&cursor, &key, &value))
        if (aorta_json_key_is(key, name)) return value;
    return (struct aorta_json_value){0};
}

bool aorta_json_text_is(struct aorta_json_value value, const char *text) {
    const size_t length = strlen(text);
    return value.length == length + 2 && value.text[0] == '"' && !memcmp(value.text + 1, text, length);
}

/* ---- texts ---- */

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* Four hexadecimal digits; -1 if they are not there. */
static long unicode_unit(const char *at, const char *end) {
    if (end - at < 4) return -1;
    long unit = 0;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(at[i]);
        if (digit < 0) return -1;
        unit = unit * 16 + digit;
    }
    return unit;
}

static void append_utf8(struct aorta_text *out, unsigned long code) {
    char bytes[4];
    size_t length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char lead[5] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = length - 1; i > 0; i--, code >>= 6) bytes[i] = (char)(0x80 | (code & 0x3F));
    bytes[0] = (char)(lead[length] | code);
    aorta_text_append(out, bytes, length);
}

/* `at` is after the u; returns the place after the escape. A half of a pair without the other becomes U+FFFD. */
static const char *resolve_unicode(const char *at, const char *end, struct aorta_text *out) {
    enum { REPLACEMENT = 0xFFFD };
    long unit = unicode_unit(at, end);
    if (unit < 0) {
        append_utf8(out, REPLACEMENT);
        return at;
    }
    at += 4;
    if (unit >= 0xD800 && unit < 0xDC00) {
        long low = end - at >= 6 && at[0] == '\\' && at[1] == 'u' ? unicode_unit(at + 2, end) : -1;
        if (low < 0xDC00 || low > 0xDFFF) {
            append_utf8(out, REPLACEMENT);
            return at;
        }
        append_utf8(out, 0x10000ul + ((unsigned long)(unit - 0xD800) << 10) + (unsigned long)(low - 0xDC00));
        return at + 6;
    }
    append_utf8(out, unit >= 0xDC00 && unit < 0xE000 ? REPLACEMENT : (unsigned long)unit);
    return at;
}

static void resolve_escapes(const char *at, const char *end, struct aorta_text *out) {
    static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
    while (at < end) {
        const char *backslash = memchr(at, '\\', (size_t)(end - at));
        if (!backslash || end - backslash < 2) break;
        aorta_text_append(out, at, (size_t)(backslash - at));
        char letter = backslash[1];
        at = backslash + 2;
        if (letter == 'u') {
            at = resolve_unicode(at, end, out);
            continue;
        }
        const char *known = memchr(from, letter, sizeof from - 1);
        aorta_text_append(out, known ? &to[known - from] : &letter, 1);
    }
    aorta_text_append(out, at, (size_t)(end - at));
}

bool aorta_json_get_string(struct aorta_json_value value, struct aorta_text *scratch, struct aorta_json_value *string) {
    if (value.length < 2 || value.text[0] != '"') return false;
    *string = (struct aorta_json_value){value.text + 1, value.length - 2};
    if (!string->length || !memchr(string->text, '\\', string->length)) return true;
    size_t before = scratch->length;
    resolve_escapes(string->text, string->text + string->length, scratch);
    if (scratch->failed) return false;
    *string = (struct aorta_json_value){scratch->data + before, scratch->length - before};
    return true;
}

/* ---- numbers ---- */

static struct aorta_json_value without_quotes(struct aorta_json_value value) {
    if (value.length >= 2 && value.text[0] == '"') return (struct aorta_json_value){value.text + 1, value.length - 2};
    return value;
}

static bool get_hexadecimal(const char *at, const char *end, int64_t *number) {
    uint64_t sum = 0;
    if (at == end) return false;
    for (; at < end; at++) {
        int digit = hex_digit(*at);
        if (digit < 0 || sum >> 60) return false;
        sum = sum * 16 + (unsigned)digit;
    }
    if (sum > INT64_MAX) return false;
    *number = (int64_t)sum;
    return true;
}

/* A decimal number: sign × mantissa × 10^exponent. Digits beyond the 19 that fit are dropped. `next` is the first
 * dropped digit (or 0), which is enough to round to an integer. */
struct decimal {
    uint64_t mantissa;
    int64_t exponent;
    int next;
    bool negative, inexact;
};

static const uint64_t MANTISSA_LIMIT = 1000000000000000000u; /* 10^18: one more digit fits */

static inline void add_digit(struct decimal *d, char c, bool fraction, int *dropped) {
    if (d->mantissa < MANTISSA_LIMIT) {
        d->mantissa = d->mantissa * 10 + (unsigned)(c - '0');
        d->exponent -= fraction;
        return;
    }
    if (!(*dropped)++) d->next = c - '0';
    d->inexact |= c != '0';
    d->exponent += !fraction;
}

static bool get_exponent(const char *at, const char *end, int64_t *exponent) {
    bool negative = at < end && *at == '-';
    if (at < end && (*at == '-' || *at == '+')) at++;
    if (at == end) return false;
    int64_t sum = 0;
    for (; at < end; at++) {
        if (*at < '0' || *at > '9') return false;
        if (sum < 1000000) sum = sum * 10 + (*at - '0'); /* far outside any range already */
    }
    *exponent += negative ? -sum : sum;
    return true;
}

static bool get_decimal(const char *at, const char *end, struct decimal *d) {
    *d = (struct decimal){0};
    int digits = 0, dropped = 0;
    d->negative = at < end && *at == '-';
    if (d->negative) at++;
    for (; at < end && *at >= '0' && *at <= '9'; at++, digits++) add_digit(d, *at, false, &dropped);
    if (at < end && *at == '.')
        for (at++; at < end && *at >= '0' && *at <= '9'; at++, digits++) add_digit(d, *at, true, &dropped);
    if (!digits) return false;
    if (at < end && (*at == 'e' || *at == 'E')) return get_exponent(at + 1, end, &d->exponent);
    return at == end;
}

static uint64_t power_of_ten(int64_t exponent) {
    uint64_t power = 1;
    while (exponent-- > 0) power *= 10;
    return power;
}

/* The nearest whole number, half away from zero; false when it does not fit. *exact: nothing was rounded. */
static bool round_decimal(const struct decimal *d, int64_t *number, bool *exact) {
    uint64_t whole = d->mantissa;
    *exact = !d->inexact;
    if (whole && d->exponent > 0) {
        if (d->exponent > 19 || __builtin_mul_overflow(whole, power_of_ten(d->exponent), &whole)) return false;
    } else if (d->exponent == 0) {
        whole += d->next >= 5;
    } else if (d->exponent < -19) { /* the mantissa has 19 digits at most */
        *exact &= !whole;
        whole = 0;
    } else if (d->exponent < 0) {
        uint64_t power = power_of_ten(-d->exponent), rest = whole % power;
        *exact &= !rest;
        whole = whole / power + (rest >= power - rest);
    }
    if (whole > (uint64_t)INT64_MAX) return false;
    *number = d->negative ? -(int64_t)whole : (int64_t)whole;
    return true;
}

bool aorta_json_get_int(struct aorta_json_value value, int64_t *number) {
    value = without_quotes(value);
    if (!value.length) return false;
    const char *at = value.text, *end = at + value.length;
    if (value.length <= 18) { /* the common case: digits that fit */
        int64_t sum = 0;
        const char *digit = at;
        for (; digit < end && *digit >= '0' && *digit <= '9'; digit++) sum = sum * 10 + (*digit - '0');
        if (digit == end) {
            *number = sum;
            return true;
        }
    }
    if (value.length > 2 && at[0] == '0' && (at[1] == 'x' || at[1] == 'X')) return get_hexadecimal(at + 2, end, number);
    struct decimal decimal;
    int64_t whole;
    bool exact;
    if (!get_decimal(at, end, &decimal) || !round_decimal(&decimal, &whole, &exact) || !exact) return false;
    *number = whole;
    return true;
}

/* Fast path for times: few digits, at most `shift` of them after the point. */
static bool get_short(struct aorta_json_value value, int shift, int64_t *number) {
    enum { FIT = 15 }; /* and shift more */
    if (!value.length || value.length > FIT + 3 || shift < 0 || shift > 3 || value.text[0] == '.') return false;
    const char *at = value.text, *end = at + value.length;
    int64_t sum = 0;
    for (; at < end && *at >= '0' && *at <= '9'; at++) sum = sum * 10 + (*at - '0');
    if (at < end && *at == '.')
        for (at++; at < end && *at >= '0' && *at <= '9' && shift; at++, shift--) sum = sum * 10 + (*at - '0');
    if (at < end) return false;
    for (; shift; shift--)
        if (__builtin_mul_overflow(sum, 10, &sum)) return false;
    *number = sum;
    return true;
}

bool aorta_json_get_scaled(struct aorta_json_value value, int shift, int64_t *number) {
    value = without_quotes(value);
    struct decimal decimal;
    bool exact;
    if (get_short(value, shift, number)) return true;
    if (!value.length || !get_decimal(value.text, value.text + value.length, &decimal)) return false;
    decimal.exponent += shift;
    return round_decimal(&decimal, number, &exact);
}
