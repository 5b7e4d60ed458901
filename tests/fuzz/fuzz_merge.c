/* Any two texts as traces of two ranks, merged: an error, or a file that is whole and reads back with all the events. A
 * byte 0 lies between the two; the first byte says whether broken files are taken as far as they go. */
#include "formats/merge.h"
#include "formats/open.h"
#include "fuzz.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void write_bytes(const char *path, const uint8_t *data, size_t size) {
    FILE *out = fopen(path, "wb");
    if (!out || fwrite(data, 1, size, out) != size || fclose(out) != 0) abort();
}

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
    char first[64], second[64], output[64];
    if (size < 2) return 0;
    snprintf(first, sizeof first, "/tmp/aorta_fuzz_%d_1.json", (int)getpid());
    snprintf(second, sizeof second, "/tmp/aorta_fuzz_%d_2.json", (int)getpid());
    snprintf(output, sizeof output, "/tmp/aorta_fuzz_%d_m.json", (int)getpid());
    const uint8_t *middle = memchr(data + 1, 0, size - 1);
    size_t length = middle ? (size_t)(middle - data) - 1 : size - 1;
    write_bytes(first, data + 1, length);
    if (middle) write_bytes(second, middle + 1, size - length - 2);
    const char *const paths[] = {first, second};
    const struct aorta_trace_options options = {.recover = data[0] & 1};
    struct aorta_text report = {0};
    aorta_status status = aorta_trace_merge(paths, middle ? 2 : 1, output, &options, &report);
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
