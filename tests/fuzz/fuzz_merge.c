/* Any two texts as traces of two ranks, merged: an error, or a file that is whole and reads back with all the events. A
 * byte 0 lies between the two; the first byte says whether broken files are taken as far as they go. */
#include "fuzz.h"
#include "report/merge.h"
#include "trace/open.h"

/* It is whole: it reads without recovery. */
static void check_output(const char *path) {
    struct aorta_trace_list list = {0};
    const struct aorta_trace_options options = {0};
    aorta_status status = aorta_trace_open(path, &options, &list);
    if (status) {
        fprintf(stderr, "what was merged does not read: %s\n", aorta_status_message(status));
        abort();
    }
    aorta_trace_list_free(&list);
}

/* It is valid JSON to a stricter reader, but for what the files themselves have that jansson does not take: halves of
 * surrogate pairs, numbers beyond a double. */
static void check_strictly(const char *path) {
    json_error_t error;
    json_t *document = json_load_file(path, JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, &error);
    enum json_error_code code = document ? json_error_unknown : json_error_code(&error);
    bool theirs = code == json_error_numeric_overflow || code == json_error_null_byte_in_key ||
                  strstr(error.text, "invalid Unicode");
    if (!document && !theirs) {
        fprintf(stderr, "line %d: %s\n", error.line, error.text);
        abort();
    }
    json_decref(document);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char first[FUZZ_PATH], second[FUZZ_PATH], output[FUZZ_PATH];
    if (size < 2) return 0;
    fuzz_path(first, "1.json");
    fuzz_path(second, "2.json");
    fuzz_path(output, "m.json");
    const struct fuzz_halves halves = fuzz_split(data + 1, size - 1);
    const bool two = halves.second.data != NULL;
    fuzz_write(first, halves.first.data, halves.first.size);
    if (two) fuzz_write(second, halves.second.data, halves.second.size);
    const char *const paths[] = {first, second};
    const struct aorta_trace_options options = {.recover = data[0] & 1};
    struct aorta_text report = {0};
    aorta_status status = aorta_trace_merge(paths, two ? 2 : 1, output, &options, NULL, false, &report);
    bool there = access(output, F_OK) == 0;
    if (there != !status) abort();
    if (!status) check_output(output);
    if (!status) check_strictly(output);
    aorta_status_free(status);
    aorta_text_free(&report);
    unlink(first);
    unlink(second);
    unlink(output);
    return 0;
}
