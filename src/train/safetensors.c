#include "train/safetensors.h"

#include "base/files.h"
#include "base/json.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Written on little-endian machines only, as the format stores little-endian data. */
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "safetensors files are little-endian"
#endif

enum { LENGTH_BYTES = 8, HEADER_ALIGNMENT = 8 };

static const char *const format_names[AORTA_DTYPE_COUNT] = {[AORTA_F32] = "F32", [AORTA_I64] = "I64"};

int64_t aorta_tensor_elements(const struct aorta_tensor *tensor) {
    int64_t elements = 1;
    for (int i = 0; i < tensor->dimensions; i++) elements *= tensor->shape[i];
    return elements;
}

static size_t byte_size(const struct aorta_tensor *tensor) {
    return (size_t)aorta_tensor_elements(tensor) * aorta_dtype_size(tensor->dtype);
}

/* ---- writing ---- */

static void write_header(struct aorta_text *text, const struct aorta_tensor *tensors, size_t count) {
    struct aorta_json json;
    int64_t offset = 0;
    aorta_json_begin(&json, text, 0);
    aorta_json_object(&json);
    for (size_t i = 0; i < count; i++) {
        const struct aorta_tensor *t = &tensors[i];
        aorta_json_key_object(&json, t->name);
        aorta_json_key_string(&json, "dtype", format_names[t->dtype]);
        aorta_json_key_array(&json, "shape");
        for (int d = 0; d < t->dimensions; d++) aorta_json_int(&json, t->shape[d]);
        aorta_json_array_end(&json);
        aorta_json_key_array(&json, "data_offsets");
        aorta_json_int(&json, offset);
        offset += (int64_t)byte_size(t);
        aorta_json_int(&json, offset);
        aorta_json_array_end(&json);
        aorta_json_object_end(&json);
    }
    aorta_json_object_end(&json);
    while (text->length % HEADER_ALIGNMENT) aorta_text_puts(text, " ");
}

aorta_status aorta_safetensors_write(const char *path, const struct aorta_tensor *tensors, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!format_names[tensors[i].dtype])
            return AORTA_ERROR(AORTA_INTERNAL, "%s: tensors of %s are not written", path,
                               aorta_dtype_name(tensors[i].dtype));
    struct aorta_text header = {0}, file = {0};
    write_header(&header, tensors, count);
    uint64_t length = header.length;
    aorta_text_append(&file, (const char *)&length, LENGTH_BYTES);
    aorta_text_append(&file, header.data, header.length);
    for (size_t i = 0; i < count; i++) aorta_text_append(&file, tensors[i].data, byte_size(&tensors[i]));
    aorta_status status = aorta_status_join(aorta_text_check(&header), aorta_text_check(&file));
    if (!status) status = aorta_file_replace(path, file.data, file.length);
    aorta_text_free(&header);
    aorta_text_free(&file);
    return aorta_annotate(status, "safetensors file");
}

/* ---- reading ---- */

static bool parse_dtype(const json_t *value, enum aorta_dtype *dtype) {
    const char *name = json_string_value(value);
    for (int i = 0; name && i < AORTA_DTYPE_COUNT; i++) {
        if (!format_names[i] || strcmp(name, format_names[i]) != 0) continue;
        *dtype = (enum aorta_dtype)i;
        return true;
    }
    return false;
}

/* Elements in all, or -1 when the shape is not one that fits in memory. */
static int64_t parse_shape(const json_t *shape, struct aorta_tensor *tensor) {
    if (!json_is_array(shape) || json_array_size(shape) > AORTA_TENSOR_MAX_DIMENSIONS) return -1;
    tensor->dimensions = (int)json_array_size(shape);
    int64_t elements = 1;
    for (int d = 0; d < tensor->dimensions; d++) {
        const json_t *extent = json_array_get(shape, (size_t)d);
        int64_t value = json_is_integer(extent) ? json_integer_value(extent) : -1;
        if (value < 0 || (value > 0 && elements > INT64_MAX / 16 / value)) return -1;
        tensor->shape[d] = value;
        elements *= value;
    }
    return elements;
}

static aorta_status parse_tensor(const char *path, const char *name, const json_t *entry, const char *data,
                                 size_t data_size, struct aorta_tensor *tensor) {
    tensor->name = name;
    if (!parse_dtype(json_object_get(entry, "dtype"), &tensor->dtype))
        return AORTA_ERROR(AORTA_FORMAT, "%s: tensor %s: dtype is not F32 or I64", path, name);
    int64_t elements = parse_shape(json_object_get(entry, "shape"), tensor);
    if (elements < 0)
        return AORTA_ERROR(AORTA_FORMAT, "%s: tensor %s: shape is not a list of at most %d sizes", path, name,
                           AORTA_TENSOR_MAX_DIMENSIONS);
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last))
        return AORTA_ERROR(AORTA_FORMAT, "%s: tensor %s: data_offsets are not a list of two integers", path, name);
    int64_t begin = json_integer_value(first), end = json_integer_value(last);
    if (begin < 0 || end < begin || (uint64_t)end > data_size)
        return AORTA_ERROR(AORTA_FORMAT, "%s: tensor %s: data_offsets are outside the file's %zu bytes of data", path,
                           name, data_size);
    if ((uint64_t)(end - begin) != byte_size(tensor))
        return AORTA_ERROR(AORTA_FORMAT, "%s: tensor %s: %lld bytes of data, but its shape needs %zu", path, name,
                           (long long)(end - begin), byte_size(tensor));
    tensor->data = data + begin;
    return NULL;
}

static aorta_status parse_header(const char *path, struct aorta_safetensors *file, size_t length) {
    uint64_t header_length;
    if (length < LENGTH_BYTES) return AORTA_ERROR(AORTA_FORMAT, "%s: %zu bytes are no safetensors file", path, length);
    memcpy(&header_length, file->bytes, LENGTH_BYTES);
    if (header_length > length - LENGTH_BYTES)
        return AORTA_ERROR(AORTA_FORMAT, "%s: the header claims %llu bytes, the file has %zu", path,
                           (unsigned long long)header_length, length);
    json_error_t error;
    json_t *header = json_loadb(file->bytes + LENGTH_BYTES, (size_t)header_length, JSON_REJECT_DUPLICATES, &error);
    file->header = header;
    if (!json_is_object(header))
        return AORTA_ERROR(AORTA_FORMAT, "%s: header at byte %d: %s", path, LENGTH_BYTES + error.position,
                           header ? "not an object" : error.text);
    file->tensors = calloc(json_object_size(header) + 1, sizeof *file->tensors);
    if (!file->tensors) return AORTA_ERROR(AORTA_MEMORY, "%s: its table of tensors did not fit in memory", path);
    const char *name;
    json_t *entry;
    const char *data = file->bytes + LENGTH_BYTES + header_length;
    json_object_foreach(header, name, entry) {
        if (strcmp(name, "__metadata__") == 0) continue;
        AORTA_TRY(parse_tensor(path, name, entry, data, length - LENGTH_BYTES - (size_t)header_length,
                               &file->tensors[file->count]));
        file->count++;
    }
    return NULL;
}

aorta_status aorta_safetensors_read(const char *path, struct aorta_safetensors *file) {
    *file = (struct aorta_safetensors){0};
    size_t length;
    AORTA_TRY(aorta_file_read_regular(path, SIZE_MAX, &file->bytes, &length));
    aorta_status status = parse_header(path, file, length);
    if (status) aorta_safetensors_free(file);
    return status;
}

const struct aorta_tensor *aorta_safetensors_find(const struct aorta_safetensors *file, const char *name) {
    for (size_t i = 0; i < file->count; i++)
        if (strcmp(file->tensors[i].name, name) == 0) return &file->tensors[i];
    return NULL;
}

void aorta_safetensors_free(struct aorta_safetensors *file) {
    json_decref(file->header);
    free(file->tensors);
    free(file->bytes);
    *file = (struct aorta_safetensors){0};
}
