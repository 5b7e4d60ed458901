/* Event files, byte by byte, against the published forms of TFRecord and event.proto; the checksum is that of RFC 3720
 * (B.4: 32 zeros give 8a9136aa). */
#include "base/files.h"
#include "check.h"
#include "folder.h"
#include "report/live.h"

#include <glob.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A second, table-driven checksum. */
static uint32_t check_of(const uint8_t *bytes, size_t length) {
    uint32_t table[256], crc = ~0u;
    for (uint32_t i = 0; i < 256; i++) {
        table[i] = i;
        for (int j = 0; j < 8; j++) table[i] = table[i] & 1 ? table[i] >> 1 ^ 0x82f63b78 : table[i] >> 1;
    }
    for (size_t i = 0; i < length; i++) crc = table[(crc ^ bytes[i]) & 255] ^ crc >> 8;
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xa282ead8;
}

static uint64_t fixed(const uint8_t *bytes, int count) {
    uint64_t value = 0;
    for (int i = count; i-- > 0;) value = value << 8 | bytes[i];
    return value;
}

static const uint8_t *record_at(const uint8_t *bytes, size_t total, size_t *at, size_t *length) {
    assert_true(*at + 16 <= total);
    *length = fixed(bytes + *at, 8);
    assert_int_equal(fixed(bytes + *at + 8, 4), check_of(bytes + *at, 8));
    const uint8_t *event = bytes + *at + 12;
    assert_true(*at + 16 + *length <= total);
    assert_int_equal(fixed(event + *length, 4), check_of(event, *length));
    *at += 16 + *length;
    return event;
}

/*   event:   09 wall time | 10 step | 2a length of the summary
 *   summary: 0a length | 0a length "aorta/a" 15 float | 0a …      the unknown value is not there */
static void scalars_are_events(void **state) {
    (void)state;
    char folder[64], *text, pattern[128];
    struct aorta_tensorboard board;
    const struct aorta_board_scalar scalars[] = {{"aorta/a", 1.5}, {"aorta/unknown", NAN}, {"aorta/b", -2}};
    folder_make(folder, "tensorboard");
    assert_int_equal(check_of((const uint8_t[32]){0}, 32) - 0xa282ead8, (0x8a9136aau >> 15 | 0x8a9136aau << 17));
    check_ok(aorta_tensorboard_open(folder, &board));
    check_ok(aorta_tensorboard_write(&board, 1764000000.25, 300, scalars, 3));
    aorta_tensorboard_close(&board);
    snprintf(pattern, sizeof pattern, "%s/events.out.tfevents.*", folder);
    glob_t found;
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 1);
    size_t total, at = 0, length;
    check_ok(aorta_file_read(found.gl_pathv[0], &text, &total));
    globfree(&found);
    const uint8_t *bytes = (const uint8_t *)text, *event = record_at(bytes, total, &at, &length);
    assert_memory_equal(event + length - 15,
                        "\x1a\x0d"
                        "brain.Event:2",
                        15);
    event = record_at(bytes, total, &at, &length);
    assert_int_equal(at, total);
    double wall_s;
    assert_int_equal(event[0], 0x09);
    memcpy(&wall_s, event + 1, 8);
    assert_true(wall_s == 1764000000.25);
    assert_memory_equal(event + 9, "\x10\xac\x02\x2a\x20", 5);
    assert_memory_equal(event + 14,
                        "\x0a\x0e\x0a\x07"
                        "aorta/a\x15\x00\x00\xc0\x3f",
                        16);
    assert_memory_equal(event + 30,
                        "\x0a\x0e\x0a\x07"
                        "aorta/b\x15\x00\x00\x00\xc0",
                        16);
    assert_int_equal(length, 46);
    free(text);
    folder_remove(folder);
    check_fails(aorta_tensorboard_open("/proc/nowhere", &board), AORTA_IO, "/proc/nowhere");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(scalars_are_events)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
