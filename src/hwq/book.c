#include "hwq/book.h"
#include "base/files.h"
#include "base/json.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { SCHEMA_VERSION = 1, FIELDS = 6, MOST_NAMES = 1024 };
static const char *const pass_names[AORTA_HWQ_PASS_COUNT] = {"workload", "probe", "beside"};

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

/* ---- reading ---- */

static bool read_span(const json_t *row, const char *const *names, size_t name_count, struct aorta_hwq_span *span) {
    int64_t fields[FIELDS];
    if (json_array_size(row) != FIELDS) return false;
    for (size_t i = 0; i < FIELDS; i++) {
        if (!json_is_integer(json_array_get(row, i))) return false;
        fields[i] = json_integer_value(json_array_get(row, i));
    }
    if (fields[0] < 0 || fields[0] >= AORTA_HWQ_MAX_STREAMS || fields[1] < 0 || fields[1] > AORTA_HWQ_HOST)
        return false;
    if (fields[3] < 0 || (size_t)fields[3] >= name_count) return false;
    *span = (struct aorta_hwq_span){.stream = (int)fields[0],
                                    .kind = (enum aorta_hwq_work)fields[1],
                                    .marked = fields[2] != 0,
                                    .name = names[fields[3]],
                                    .start_ns = fields[4],
                                    .end_ns = fields[5]};
    return true;
}

static aorta_status read_iteration(struct aorta_hwq_book *book, const json_t *object, const char *const *names,
                                   size_t name_count, bool *good) {
    const char *pass = json_string_value(json_object_get(object, "pass"));
    const json_t *rows = json_object_get(object, "stamps"), *gate = json_object_get(object, "gate");
    struct aorta_hwq_iteration *iteration;
    int kind = 0;
    while (kind < AORTA_HWQ_PASS_COUNT && (!pass || strcmp(pass, pass_names[kind]) != 0)) kind++;
    *good = json_is_array(rows) && json_is_integer(gate) && kind < AORTA_HWQ_PASS_COUNT;
    if (!*good) return NULL;
    AORTA_TRY(add_iteration(book, (enum aorta_hwq_pass)kind, json_array_size(rows), &iteration));
    iteration->spans.gate = json_integer_value(gate);
    for (size_t i = 0; i < json_array_size(rows) && *good; i++) {
        *good = read_span(json_array_get(rows, i), names, name_count, &iteration->spans.items[i]);
        iteration->spans.count += *good;
    }
    return NULL;
}

static aorta_status read_names(struct aorta_hwq_book *book, const json_t *list, const char ***names, bool *good) {
    const size_t count = json_array_size(list);
    const char **read = aorta_arena_alloc(&book->arena, (count + 1) * sizeof *read);
    if (!read) return no_memory(count);
    *good = json_is_array(list);
    for (size_t i = 0; i < count && *good; i++) {
        const char *name = json_string_value(json_array_get(list, i));
        *good = name != NULL;
        read[i] = name ? aorta_arena_strdup(&book->arena, name) : NULL;
        if (name && !read[i]) return no_memory(count);
    }
    *names = read;
    return NULL;
}

static aorta_status read_root(const char *path, struct aorta_hwq_book *book, const json_t *root) {
    const json_t *iterations = json_object_get(root, "iterations"), *list = json_object_get(root, "names");
    const char *kind = json_string_value(json_object_get(root, "kind")), **names = NULL;
    bool good;
    AORTA_TRY(read_names(book, list, &names, &good));
    if (!kind || strcmp(kind, "hwq_stamps") != 0 || !json_is_array(iterations) || !good)
        return AORTA_ERROR(AORTA_FORMAT, "%s: not a file of stamps (aorta hwq run --stamps)", path);
    const json_int_t tick = json_integer_value(json_object_get(root, "tick_ns"));
    book->tick_ns = tick > 0 ? tick : 0;
    for (size_t i = 0; i < json_array_size(iterations); i++) {
        AORTA_TRY(read_iteration(book, json_array_get(iterations, i), names, json_array_size(list), &good));
        if (!good) return AORTA_ERROR(AORTA_FORMAT, "%s: iteration %zu is not as it has to be", path, i);
    }
    return NULL;
}

aorta_status aorta_hwq_book_read(const char *path, struct aorta_hwq_book *book) {
    json_error_t error;
    *book = (struct aorta_hwq_book){0};
    json_t *root = json_load_file(path, 0, &error);
    if (!root) return AORTA_ERROR(AORTA_FORMAT, "%s: %s (line %d)", path, error.text, error.line);
    aorta_status status = read_root(path, book, root);
    json_decref(root);
    return status;
}
