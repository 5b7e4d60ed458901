/* The scanner alone: whole and in pieces it finds the same ends; numbers and texts are as documented. The first byte is
 * the size of the pieces. */
#include "base/json_value.h"
#include "fuzz.h"
#include "json_memory.h"
#include "trace/json_stream.h"

static const char *in_pieces(const char *at, const char *end, size_t piece) {
    struct aorta_json_skip state = {0};
    while (at < end) {
        const char *stop = (size_t)(end - at) < piece ? end : at + piece;
        const char *found = aorta_json_skip_nested(&state, at, stop);
        if (found) return found;
        at = stop;
    }
    return NULL;
}

/* Walks every value inside. Depth is bounded by the caller's patience. */
static void walk(struct aorta_json_value value, int depth) {
    struct aorta_text scratch = {0};
    struct aorta_json_value string, key, inner;
    int64_t number, scaled;
    if (aorta_json_get_string(value, &scratch, &string)) fuzz_require(string.length <= 3 * value.length);
    aorta_text_free(&scratch);
    if (aorta_json_get_int(value, &number) && aorta_json_get_scaled(value, 0, &scaled)) fuzz_require(number == scaled);
    if (depth == 8) return;
    struct aorta_json_cursor cursor = aorta_json_members(value);
    while (aorta_json_next_member(&cursor, &key, &inner)) walk(inner, depth + 1);
    cursor = aorta_json_elements(value);
    while (aorta_json_next_element(&cursor, &inner)) walk(inner, depth + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    size_t piece = data[0] ? data[0] : 1;
    const char *text = (const char *)data + 1, *end = (const char *)data + size;
    if (*text == '{' || *text == '[') {
        struct aorta_json_skip state = {0};
        fuzz_require(aorta_json_skip_nested(&state, text, end) == in_pieces(text, end, piece));
    }
    struct aorta_json_stream *stream;
    struct aorta_json_value value;
    aorta_status status = json_memory(text, size - 1, piece, "fuzz", &stream);
    if (status) abort();
    status = aorta_json_stream_value(stream, &value);
    if (!status) walk(value, 0);
    aorta_status_free(status);
    aorta_json_stream_close(stream);
    return 0;
}
