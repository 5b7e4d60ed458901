/* Memory: copies and fills, accounting, limits. */
#include "suite.h"

#include <stdlib.h>

static unsigned char pattern(size_t i) {
    return (unsigned char)(i * 131 + i / 256);
}

/* host → device → device → host with odd sizes at odd offsets; bytes around them stay untouched. */
static void test_copies_of_odd_sizes_and_offsets(void **state) {
    static const size_t sizes[] = {0, 1, 3, 7, 63, 255, 257, 4095, 65537, 1000003}, offsets[] = {0, 1, 5, 255};
    enum { MARGIN = 300, MOST = 1000003 + 2 * MARGIN };
    struct aorta_stream *stream = make_stream(*state, "copies");
    unsigned char *a = make_memory(*state, MOST), *b = make_memory(*state, MOST), *back = make_pinned(*state, MOST);
    unsigned char *plain = malloc(MOST);
    for (size_t i = 0; i < MOST; i++) plain[i] = pattern(i);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (size_t o = 0; o < sizeof offsets / sizeof *offsets; o++) {
            size_t size = sizes[s], offset = offsets[o];
            check_ok(aorta_copy(stream, a + offset, plain + o, size));
            check_ok(aorta_fill_bytes(stream, b, 0xEE, size + 2 * MARGIN));
            check_ok(aorta_copy(stream, b + MARGIN, a + offset, size));
            check_ok(aorta_copy(stream, back, b, size + 2 * MARGIN));
            sync_stream(stream);
            for (size_t i = 0; i < MARGIN; i++) assert_int_equal(back[i], 0xEE);
            assert_memory_equal(back + MARGIN, plain + o, size);
            for (size_t i = 0; i < MARGIN; i++) assert_int_equal(back[MARGIN + size + i], 0xEE);
        }
    }
    free(plain);
    aorta_stream_destroy(stream);
    aorta_device_free(*state, a);
    aorta_device_free(*state, b);
    aorta_pinned_free(*state, back);
}

static void test_fills_of_odd_sizes_and_offsets(void **state) {
    enum { SIZE = 1000 };
    struct aorta_stream *stream = make_stream(*state, "fills");
    unsigned char *memory = make_memory(*state, SIZE), *back = make_pinned(*state, SIZE);
    for (size_t offset = 0; offset < 9; offset++) {
        for (size_t size = 0; size < 300; size += 37) {
            check_ok(aorta_fill_bytes(stream, memory, 0x11, SIZE));
            check_ok(aorta_fill_bytes(stream, memory + offset, (int)(0xA0 + offset), size));
            check_ok(aorta_copy(stream, back, memory, SIZE));
            sync_stream(stream);
            for (size_t i = 0; i < SIZE; i++) {
                bool inside = i >= offset && i < offset + size;
                assert_int_equal(back[i], inside ? 0xA0 + offset : 0x11);
            }
        }
    }
    aorta_stream_destroy(stream);
    aorta_device_free(*state, memory);
    aorta_pinned_free(*state, back);
}

static void test_memory_is_aligned_and_distinct(void **state) {
    static const size_t sizes[] = {0, 1, 255, 256, 257, 100000, 20 * 1024 * 1024};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    void *memory[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        memory[i] = make_memory(*state, sizes[i]);
        assert_int_equal((uintptr_t)memory[i] % 256, 0);
        for (size_t j = 0; j < i; j++) assert_ptr_not_equal(memory[i], memory[j]);
    }
    for (size_t i = 0; i < COUNT; i++) aorta_device_free(*state, memory[i]);
    aorta_device_free(*state, NULL);
    aorta_pinned_free(*state, NULL);
}

static void test_allocations_are_counted(void **state) {
    aorta_device_reset_peak(*state);
    struct aorta_memory_info none = aorta_device_memory(*state);
    assert_int_equal(none.allocated, 0);
    assert_int_equal(none.peak, 0);
    assert_int_equal(none.pinned, 0);
    assert_true(none.free > 0);
    void *a = make_memory(*state, 1024), *b = make_memory(*state, 2048), *pinned = make_pinned(*state, 4096);
    struct aorta_memory_info both = aorta_device_memory(*state);
    assert_int_equal(both.allocated, 3072);
    assert_int_equal(both.peak, 3072);
    assert_int_equal(both.pinned, 4096);
    assert_int_equal(both.reserved, both.allocated);
    aorta_device_free(*state, b);
    struct aorta_memory_info one = aorta_device_memory(*state);
    assert_int_equal(one.allocated, 1024);
    assert_int_equal(one.peak, 3072);
    assert_int_equal(one.reserved, one.allocated); /* what is freed goes back */
    aorta_device_reset_peak(*state);
    assert_int_equal(aorta_device_memory(*state).peak, 1024);
    aorta_device_free(*state, a);
    aorta_pinned_free(*state, pinned);
    struct aorta_memory_info end = aorta_device_memory(*state);
    assert_int_equal(end.allocated, 0);
    assert_int_equal(end.pinned, 0);
    assert_int_equal(end.peak, 1024);
}

static void test_the_limit_is_respected_and_reported(void **state) {
    void *a = make_memory(*state, 512 * 1024), *b;
    aorta_device_limit_memory(*state, 1024 * 1024);
    assert_true(aorta_device_memory(*state).free <= 512 * 1024);
    aorta_status status = aorta_device_alloc(*state, 768 * 1024, "encoder.layers.3.linear1.weight", &b);
    assert_int_equal(aorta_status_code(status), AORTA_MEMORY);
    const char *message = aorta_status_message(status);
    assert_non_null(strstr(message, "encoder.layers.3.linear1.weight"));
    assert_non_null(strstr(message, "768.00 KiB"));
    assert_non_null(strstr(message, "512.00 KiB free"));
    aorta_status_free(status);
    check_ok(aorta_device_alloc(*state, 512 * 1024, "all free memory", &b)); /* exactly to the brim */
    void *c;
    check_fails(aorta_device_alloc(*state, 1, "one too many", &c), AORTA_MEMORY, "one too many: 1 bytes");
    aorta_device_free(*state, b);
    aorta_device_limit_memory(*state, 0);
    check_ok(aorta_device_alloc(*state, 768 * 1024, "without limit", &b));
    aorta_device_free(*state, a);
    aorta_device_free(*state, b);
}

struct owner {
    int calls;
    void *memory;
};

static void take_back(void *user, void *memory) {
    struct owner *owner = user;
    owner->calls++;
    owner->memory = memory;
}

/* The address is only counted by, so any will do. */
static void test_adopted_memory_counts_and_goes_back(void **state) {
    enum { SIZE = 768 * 1024 };
    static char elsewhere[2];
    struct owner owner = {0};
    const struct aorta_memory_info before = aorta_device_memory(*state);
    check_ok(aorta_device_adopt(*state, &elsewhere[0], SIZE, "window", take_back, &owner));
    assert_int_equal(aorta_device_memory(*state).allocated, before.allocated + SIZE);
    assert_int_equal(aorta_device_memory(*state).reserved, before.reserved + SIZE);
    assert_true(aorta_device_memory(*state).peak >= before.allocated + SIZE);
    aorta_device_limit_memory(*state, before.allocated + SIZE + SIZE / 2);
    check_fails(aorta_device_adopt(*state, &elsewhere[1], SIZE, "too many", take_back, &owner), AORTA_MEMORY,
                "too many: 768.00 KiB of device memory do not fit");
    aorta_device_limit_memory(*state, 0);
    check_fails(aorta_device_adopt(*state, NULL, SIZE, "nothing", take_back, &owner), AORTA_MEMORY,
                "nothing: 768.00 KiB of device memory do not fit");
    assert_int_equal(owner.calls, 0);
    const uint64_t reserved = aorta_device_memory(*state).reserved;
    aorta_device_free(*state, &elsewhere[0]);
    assert_int_equal(owner.calls, 1);
    assert_ptr_equal(owner.memory, &elsewhere[0]);
    assert_int_equal(aorta_device_memory(*state).allocated, before.allocated);
    assert_int_equal(aorta_device_memory(*state).reserved, reserved - SIZE);
}

static void test_impossible_sizes_are_refused(void **state) {
    void *memory;
    check_fails(aorta_device_alloc(*state, SIZE_MAX, "everything", &memory), AORTA_MEMORY, "everything");
    check_fails(aorta_pinned_alloc(*state, SIZE_MAX, "everything", &memory), AORTA_MEMORY, "everything");
    uint64_t all = aorta_device_get_info(*state)->memory_bytes;
    check_fails(aorta_device_alloc(*state, 2 * all, "twice the device", &memory), AORTA_MEMORY, "twice the device");
    assert_int_equal(aorta_device_memory(*state).allocated, 0);
}

static void test_many_blocks_in_any_order(void **state) {
    enum { COUNT = 3000 };
    static void *blocks[COUNT];
    uint64_t expected = 0;
    uint32_t random = 12345;
    for (int round = 0; round < 20000; round++) {
        random = random * 1664525u + 1013904223u; /* Numerical Recipes, section 7.1 */
        size_t i = (random >> 8) % COUNT, size = (i % 50 + 1) * 256;
        if (blocks[i]) {
            aorta_device_free(*state, blocks[i]);
            blocks[i] = NULL;
            expected -= size;
        } else {
            blocks[i] = make_memory(*state, size);
            expected += size;
        }
        if (round % 100 == 0) assert_int_equal(aorta_device_memory(*state).allocated, expected);
    }
    for (size_t i = 0; i < COUNT; i++) aorta_device_free(*state, blocks[i]);
    assert_int_equal(aorta_device_memory(*state).allocated, 0);
}

static void test_the_device_describes_itself(void **state) {
    const struct aorta_device_info *info = aorta_device_get_info(*state);
    assert_int_equal(info->index, 0);
    assert_true(strlen(info->name) > 0);
    assert_true(strlen(info->isa) > 0);
    assert_true(info->memory_bytes > 64 * 1024 * 1024);
    assert_true(info->multiprocessors > 0);
    assert_true(info->timestamp_tick > 0 && info->timestamp_tick < 1000000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies_of_odd_sizes_and_offsets),
        cmocka_unit_test(test_fills_of_odd_sizes_and_offsets),
        cmocka_unit_test(test_memory_is_aligned_and_distinct),
        cmocka_unit_test(test_allocations_are_counted),
        cmocka_unit_test(test_the_limit_is_respected_and_reported),
        cmocka_unit_test(test_adopted_memory_counts_and_goes_back),
        cmocka_unit_test(test_impossible_sizes_are_refused),
        cmocka_unit_test(test_many_blocks_in_any_order),
        cmocka_unit_test(test_the_device_describes_itself),
    };
    return cmocka_run_group_tests(tests, suite_open, suite_close);
}
