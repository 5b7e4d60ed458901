/* Blocks of 64 bytes become bit masks (quotes, backslashes, brackets), one bit per byte; all further steps are
 * arithmetic on these. The idea is from Langdale and Lemire, "Parsing gigabytes of JSON per second", VLDB Journal 28
 * (2019). */
#include "base/json_skip.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define HAVE_AVX2 1
#else
#define HAVE_AVX2 0
#endif

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

/* How many bytes of the block belong to the value when it ends here; 0: it goes on. */
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

static struct masks plain_masks(const char *bytes) {
    struct masks m = {0};
    for (int i = 0; i < BLOCK; i++) {
        char c = bytes[i];
        m.quote |= (uint64_t)(c == '"') << i;
        m.backslash |= (uint64_t)(c == '\\') << i;
        m.open |= (uint64_t)(c == '{' || c == '[') << i;
        m.close |= (uint64_t)(c == '}' || c == ']') << i;
    }
    return m;
}

/* The last bytes of a piece, filled up with spaces, which mean nothing anywhere. */
static size_t copy_rest(char block[BLOCK], const char *at, const char *end) {
    size_t rest = (size_t)(end - at);
    memset(block, ' ', BLOCK);
    memcpy(block, at, rest);
    return rest;
}

const char *aorta_json_skip_nested_plain(struct aorta_json_skip *state, const char *at, const char *end) {
    char block[BLOCK];
    while (at < end) {
        size_t valid = end - at < BLOCK ? copy_rest(block, at, end) : BLOCK;
        size_t length = advance(state, plain_masks(valid < BLOCK ? block : at), valid);
        if (length) return at + length;
        at += valid;
    }
    return NULL;
}

#if HAVE_AVX2
__attribute__((target("avx2"))) static inline uint64_t equal_mask(__m256i low, __m256i high, char letter) {
    __m256i wanted = _mm256_set1_epi8(letter);
    uint32_t first = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(low, wanted));
    uint32_t second = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(high, wanted));
    return first | (uint64_t)second << 32;
}

__attribute__((target("avx2,popcnt,bmi"))) static const char *skip_nested_avx2(struct aorta_json_skip *state,
                                                                               const char *at, const char *end) {
    const __m256i fold = _mm256_set1_epi8(0x20); /* [ and ] become { and } */
    char block[BLOCK];
    while (at < end) {
        size_t valid = end - at < BLOCK ? copy_rest(block, at, end) : BLOCK;
        const char *bytes = valid < BLOCK ? block : at;
        __m256i low = _mm256_loadu_si256((const __m256i *)bytes);
        __m256i high = _mm256_loadu_si256((const __m256i *)(bytes + 32));
        __m256i folded_low = _mm256_or_si256(low, fold), folded_high = _mm256_or_si256(high, fold);
        struct masks m = {equal_mask(low, high, '"'), equal_mask(low, high, '\\'),
                          equal_mask(folded_low, folded_high, '{'), equal_mask(folded_low, folded_high, '}')};
        size_t length = advance(state, m, valid);
        if (length) return at + length;
        at += valid;
    }
    return NULL;
}
#endif

const char *aorta_json_skip_nested(struct aorta_json_skip *state, const char *at, const char *end) {
#if HAVE_AVX2
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi")) return skip_nested_avx2(state, at, end);
#endif
    return aorta_json_skip_nested_plain(state, at, end);
}

/* Skips bytes that are neither quote nor backslash. */
static inline const char *pass_plain_text(const char *at, const char *end) {
#if defined(__SSE2__)
    const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\');
    for (; end - at >= 16; at += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)at);
        __m128i found = _mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, backslash));
        int mask = _mm_movemask_epi8(found);
        if (mask) return at + __builtin_ctz((unsigned)mask);
    }
#endif
    while (at < end && *at != '"' && *at != '\\') at++;
    return at;
}

const char *aorta_json_skip_string(struct aorta_json_skip *state, const char *at, const char *end) {
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
