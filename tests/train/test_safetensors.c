/* Files of tensors: written tensors come back, and malformed files are refused with their names. */
#include "check.h"

#include "base/files.h"
#include "train/weights.h"

#include <stdlib.h>
#include <unistd.h>

static char path[64];

static int make_path(void **state) {
    (void)state;
    snprintf(path, sizeof path, "/tmp/aorta_safetensors_%d", (int)getpid());
    return 0;
}

static int remove_path(void **state) {
    (void)state;
    return unlink(path);
}

static void test_round_trip(void **state) {
    (void)state;
    const float matrix[] = {1, -2.5f, 3e-38f, 0x1p-149f, -0.0f, 3.4e38f};
    const int64_t ids[] = {0, -1, INT64_MAX, INT64_MIN};
    const float scalar = 7;
    const struct aorta_tensor written[] = {
        {"a.weight", AORTA_F32, 2, {2, 3}, matrix},
        {"ids \"quoted\" \xc3\xa9", AORTA_I64, 3, {2, 1, 2}, ids},
        {"nothing", AORTA_F32, 2, {0, 5}, matrix},
        {"scalar", AORTA_F32, 0, {0}, &scalar},
    };
    struct aorta_safetensors file;
    check_ok(aorta_safetensors_write(path, written, 4));
    check_ok(aorta_safetensors_read(path, &file));
    assert_int_equal(file.count, 4);
    for (size_t i = 0; i < 4; i++) {
        const struct aorta_tensor *read = aorta_safetensors_find(&file, written[i].name);
        assert_non_null(read);
        assert_int_equal(read->dtype, written[i].dtype);
        assert_int_equal(read->dimensions, written[i].dimensions);
        for (int d = 0; d < read->dimensions; d++) assert_int_equal(read->shape[d], written[i].shape[d]);
        int64_t elements = aorta_tensor_elements(read);
        assert_int_equal(elements, aorta_tensor_elements(&written[i]));
        assert_memory_equal(read->data, written[i].data, (size_t)elements * aorta_dtype_size(read->dtype));
    }
    assert_null(aorta_safetensors_find(&file, "b.weight"));
    aorta_safetensors_free(&file);
}

static void test_unwritable(void **state) {
    (void)state;
    const float value = 1;
    const struct aorta_tensor half = {"h", AORTA_BF16, 1, {1}, &value}, one = {"x", AORTA_F32, 1, {1}, &value};
    check_fails(aorta_safetensors_write(path, &half, 1), AORTA_INTERNAL, "tensors of bf16 are not written");
    check_fails(aorta_safetensors_write("/proc/nowhere/x", &one, 1), AORTA_IO, "/proc/nowhere/x");
    struct aorta_safetensors file;
    check_fails(aorta_safetensors_read("/proc/nowhere/x", &file), AORTA_IO, "/proc/nowhere/x");
}

/* A file from a header text and then `data` bytes of data; `claimed` < 0: the header's true length. */
static void write_file(const char *header, size_t data, int64_t claimed) {
    char bytes[1024] = {0};
    size_t length = strlen(header);
    uint64_t said = claimed < 0 ? length : (uint64_t)claimed;
    memcpy(bytes, &said, sizeof said);
    memcpy(bytes + sizeof said, header, length);
    assert_true(sizeof said + length + data <= sizeof bytes);
    check_ok(aorta_file_replace(path, bytes, sizeof said + length + data));
}

#define TENSOR(dtype, shape, offsets)                                                                                  \
    "{\"w\": {\"dtype\": " dtype ", \"shape\": " shape ", \"data_offsets\": " offsets "}}"

static const struct {
    const char *header;
    size_t data; /* bytes after it */
    int64_t claimed;
    const char *message;
} malformed[] = {
    {"{}", 0, 3, "the header claims 3 bytes, the file has 10"},
    {"{}", 0, INT64_MAX, "the header claims 9223372036854775807 bytes"},
    {"", 0, 0, "header at byte 8"},
    {"{\"w\": ", 0, -1, "header at byte"},
    {"[]", 0, -1, "not an object"},
    {"7", 0, -1, "header at byte"},
    {"{\"w\": 7}", 0, -1, "tensor w: dtype is not F32 or I64"},
    {"{\"w\": {}}", 0, -1, "tensor w: dtype is not F32 or I64"},
    {TENSOR("\"BF16\"", "[2]", "[0, 4]"), 4, -1, "tensor w: dtype is not F32 or I64"},
    {TENSOR("32", "[2]", "[0, 8]"), 8, -1, "tensor w: dtype is not F32 or I64"},
    {TENSOR("\"F32\"", "2", "[0, 8]"), 8, -1, "tensor w: shape is not a list of at most 4 sizes"},
    {TENSOR("\"F32\"", "[2, -1]", "[0, 8]"), 8, -1, "tensor w: shape is not a list of at most 4 sizes"},
    {TENSOR("\"F32\"", "[2.0]", "[0, 8]"), 8, -1, "tensor w: shape is not a list of at most 4 sizes"},
    {TENSOR("\"F32\"", "[\"2\"]", "[0, 8]"), 8, -1, "tensor w: shape is not a list of at most 4 sizes"},
    {TENSOR("\"F32\"", "[1, 1, 1, 1, 2]", "[0, 8]"), 8, -1, "tensor w: shape is not a list of at most 4 sizes"},
    {TENSOR("\"F32\"", "[4294967296, 4294967296]", "[0, 8]"), 8, -1, "tensor w: shape is not a list"},
    {TENSOR("\"F32\"", "[4611686018427387904, 4]", "[0, 8]"), 8, -1, "tensor w: shape is not a list"},
    {TENSOR("\"F32\"", "[2]", "[0, 8]"), 7, -1, "tensor w: data_offsets"},
    {TENSOR("\"F32\"", "[2]", "[4, 12]"), 8, -1, "tensor w: data_offsets"},
    {TENSOR("\"F32\"", "[2]", "[-8, 0]"), 8, -1, "tensor w: data_offsets"},
    {TENSOR("\"F32\"", "[2]", "[8, 0]"), 8, -1, "tensor w: data_offsets"},
    {TENSOR("\"F32\"", "[2]", "[0.5, 8]"), 8, -1, "tensor w: data_offsets"},
    {TENSOR("\"F32\"", "[2]", "[\"0\", 8]"), 8, -1, "tensor w: data_offsets"},
    {TENSOR("\"F32\"", "[2]", "[0, 8, 16]"), 16, -1, "tensor w: data_offsets"},
    {TENSOR("\"F32\"", "[0]", "[]"), 0, -1, "tensor w: data_offsets"},
    {TENSOR("\"F32\"", "[2]", "8"), 8, -1, "tensor w: data_offsets"},
    {TENSOR("\"F32\"", "[2]", "[0, 9223372036854775808]"), 8, -1, "header at byte"},
    {TENSOR("\"F32\"", "[2]", "[0, 9223372036854775807]"), 8, -1, "tensor w: data_offsets"},
    {TENSOR("\"F32\"", "[3]", "[0, 8]"), 8, -1, "tensor w: 8 bytes of data, but its shape needs 12"},
    {TENSOR("\"I64\"", "[2]", "[0, 8]"), 8, -1, "tensor w: 8 bytes of data, but its shape needs 16"},
    {"{\"v\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4]}, \"w\": {\"dtype\": \"F32\"}}", 4, -1,
     "tensor w: shape"},
    {"{\"w\": {}, \"w\": {}}", 0, -1, "duplicate"},
};

static void test_malformed(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        struct aorta_safetensors file;
        write_file(malformed[i].header, malformed[i].data, malformed[i].claimed);
        aorta_status status = aorta_safetensors_read(path, &file);
        if (!status) fail_msg("accepted: %s", malformed[i].header);
        if (!strstr(aorta_status_message(status), path)) fail_msg("no path in: %s", aorta_status_message(status));
        check_fails(status, AORTA_FORMAT, malformed[i].message);
        assert_null(file.tensors);
    }
}

/* A good file cut anywhere is refused. */
static void test_truncated(void **state) {
    (void)state;
    const float values[] = {1, 2, 3, 4, 5};
    const struct aorta_tensor tensors[] = {{"a", AORTA_F32, 1, {2}, values}, {"b", AORTA_F32, 1, {3}, values + 2}};
    check_ok(aorta_safetensors_write(path, tensors, 2));
    char *bytes;
    size_t length;
    check_ok(aorta_file_read(path, &bytes, &length));
    for (size_t cut = 0; cut < length; cut++) {
        struct aorta_safetensors file;
        check_ok(aorta_file_replace(path, bytes, cut));
        check_fails(aorta_safetensors_read(path, &file), AORTA_FORMAT, path);
    }
    free(bytes);
}

/* Allowed by the format and written by other programs: metadata, a header of any length, data in any order. */
static void test_foreign(void **state) {
    (void)state;
    struct aorta_safetensors file;
    write_file("{\"__metadata__\": {\"format\": \"pt\"}, "
               "\"b\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [4, 8]}, "
               "\"a\": {\"dtype\": \"F32\", \"shape\": [], \"data_offsets\": [0, 4]}} ",
               8, -1);
    check_ok(aorta_safetensors_read(path, &file));
    assert_int_equal(file.count, 2);
    const struct aorta_tensor *a = aorta_safetensors_find(&file, "a"), *b = aorta_safetensors_find(&file, "b");
    assert_ptr_equal((const char *)a->data + 4, b->data);
    assert_null(aorta_safetensors_find(&file, "__metadata__"));
    aorta_safetensors_free(&file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_unwritable), cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_truncated),  cmocka_unit_test(test_foreign),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
