#include "hwq/book.h"
#include "base/files.h"
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

enum { SCHEMA_VERSION = 1, FIELDS = 6, MOST_NAMES = 1024 };
static const char *const pass_names[AORTA_HWQ_PASS_COUNT] = {"workload", "probe"};

static aorta_status no_memory(size_t count) {
    return AORTA_ERROR(AORTA_MEMORY, "no host memory to keep %zu stamps", count);
}

/* Room for `spans` stamps in one more iteration, which *made is. */
static aorta_status add_iteration(struct aorta_hwq_book *book, enum aorta_hwq_pass pass, size_t spans,
                                  struct aorta_hwq_iteration **made) {
    if (book->count == book->capacity) {
        const size_t capacity = book->capacity ? 2 * book->capacity : 32;
        struct aorta_hwq_iteration *grown = aorta_arena_alloc(&book->arena, capacity * sizeof *grown);
        if (!grown) return no_memory(spans);
        if (book->count) memcpy(grown, book->iterations, book->count * sizeof *grown);
        book->iterations = grown;
        book->capacity = capacity;
    }
    struct aorta_hwq_iteration *iteration = &book->iterations[book->count];
    *iteration = (struct aorta_hwq_iteration){.pass = pass};
    iteration->spans.items = aorta_arena_alloc(&book->arena, (spans + 1) * sizeof *iteration->spans.items);
    if (!iteration->spans.items) return no_memory(spans);
    book->count++;
    *made = iteration;
    return NULL;
}

aorta_status aorta_hwq_book_add(struct aorta_hwq_book *book, enum aorta_hwq_pass pass,
                                const struct aorta_hwq_spans *spans) {
    struct aorta_hwq_iteration *iteration;
    if (spans->unstamped)
        return AORTA_ERROR(AORTA_DEVICE, "--stamps: %zu kernels left no stamp: they did not run", spans->unstamped);
    AORTA_TRY(add_iteration(book, pass, spans->count, &iteration));
    if (spans->count) memcpy(iteration->spans.items, spans->items, spans->count * sizeof *spans->items);
    iteration->spans.count = spans->count;
    iteration->spans.gate = spans->gate;
    return NULL;
}

void aorta_hwq_book_free(struct aorta_hwq_book *book) {
    aorta_arena_free(&book->arena);
    *book = (struct aorta_hwq_book){0};
}

/* ---- writing ---- */

struct names {
    const char *items[MOST_NAMES];
    size_t count;
};

/* Names are few; the one sought is mostly the one found last. MOST_NAMES: no room. */
static size_t place_of(struct names *names, const char *name) {
    for (size_t i = 0; i < names->count; i++)
        if (!strcmp(names->items[i], name)) return i;
    if (names->count == MOST_NAMES) return MOST_NAMES;
    names->items[names->count] = name;
    return names->count++;
}

static aorta_status write_span(const struct aorta_hwq_span *span, struct names *names, struct aorta_json *json) {
    const size_t name = place_of(names, span->name);
    if (name == MOST_NAMES) return AORTA_ERROR(AORTA_UNSUPPORTED, "--stamps: more than %d names", MOST_NAMES);
    const int64_t fields[FIELDS] = {span->stream,  span->kind,     span->marked,
                                    (int64_t)name, span->start_ns, span->end_ns};
    aorta_json_array(json);
    for (int i = 0; i < FIELDS; i++) aorta_json_int(json, fields[i]);
    aorta_json_array_end(json);
    return NULL;
}

static aorta_status write_iterations(const struct aorta_hwq_book *book, struct names *names, struct aorta_json *json) {
    aorta_json_key(json, "iterations");
    aorta_json_array(json);
    for (size_t i = 0; i < book->count; i++) {
        const struct aorta_hwq_iteration *iteration = &book->iterations[i];
        aorta_json_object(json);
        aorta_json_key_string(json, "pass", pass_names[iteration->pass]);
        aorta_json_key_int(json, "gate", iteration->spans.gate);
        aorta_json_key(json, "stamps");
        aorta_json_array(json);
        for (size_t k = 0; k < iteration->spans.count; k++)
            AORTA_TRY(write_span(&iteration->spans.items[k], names, json));
        aorta_json_array_end(json);
        aorta_json_object_end(json);
    }
    aorta_json_array_end(json);
    return NULL;
}

aorta_status aorta_hwq_book_write(const struct aorta_hwq_book *book, const char *path) {
    struct names names = {.count = 0};
    struct aorta_text text = {0};
    struct aorta_json json;
    aorta_json_begin(&json, &text, 0);
    aorta_json_object(&json);
    aorta_json_key_int(&json, "schema_version", SCHEMA_VERSION);
    aorta_json_key_string(&json, "kind", "hwq_stamps");
    if (book->tick_ns) aorta_json_key_int(&json, "tick_ns", book->tick_ns);
    aorta_status status = write_iterations(book, &names, &json);
    aorta_json_key(&json, "names");
    aorta_json_array(&json);
    for (size_t i = 0; i < names.count; i++) aorta_json_string(&json, names.items[i]);
    aorta_json_array_end(&json);
    aorta_json_object_end(&json);
    aorta_text_puts(&text, "\n");
    if (!status) status = aorta_text_check(&text);
    if (!status) status = aorta_file_replace(path, text.data, text.length);
    aorta_text_free(&text);
    return status;
}
