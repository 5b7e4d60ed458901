/* What libFuzzer calls, and replay.c in builds without it: returns 0, or aborts when a check failed. */
#ifndef AORTA_TESTS_FUZZ_FUZZ_H
#define AORTA_TESTS_FUZZ_FUZZ_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void fuzz_require(int condition) {
    if (!condition) abort();
}

static inline void fuzz_write(const char *path, const uint8_t *data, size_t size) {
    FILE *out = fopen(path, "wb");
    fuzz_require(out && fwrite(data, 1, size, out) == size && fclose(out) == 0);
}

enum { FUZZ_PATH = 96 };

/* The path of a file of this process; `name` makes it its own and has its ending. */
static inline void fuzz_path(char path[FUZZ_PATH], const char *name) {
    snprintf(path, FUZZ_PATH, "/tmp/aorta_fuzz_%d_%s", (int)getpid(), name);
}

/* The bytes before the first byte 0, and after it; second.size is 0 if there is none. */
struct fuzz_halves {
    struct {
        const uint8_t *data;
        size_t size;
    } first, second;
};
static inline struct fuzz_halves fuzz_split(const uint8_t *data, size_t size) {
    const uint8_t *middle = size ? memchr(data, 0, size) : NULL;
    const size_t length = middle ? (size_t)(middle - data) : size;
    struct fuzz_halves halves = {.first = {data, length}};
    if (!middle) return halves;
    halves.second.data = middle + 1;
    halves.second.size = size - length - 1;
    return halves;
}

/* The text is JSON to a stricter reader. */
static inline void fuzz_require_json(const char *text) {
    json_error_t error;
    json_t *document = json_loads(text, 0, &error);
    if (!document) {
        fprintf(stderr, "line %d: %s\n%s\n", error.line, error.text, text);
        abort();
    }
    json_decref(document);
}

#endif
