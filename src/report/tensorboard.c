#include "report/tensorboard.h"

#include "base/files.h"
#include "base/text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct aorta_tensorboard {
    FILE *file;
    char *path;
};

/* ---- TFRecords ---- */

/* Castagnoli's polynomial, reflected; events are some hundred bytes. */
static uint32_t crc32c(const uint8_t *bytes, size_t length) {
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < length; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
    }
    return ~crc;
}

static uint32_t masked(const uint8_t *bytes, size_t length) {
    const uint32_t crc = crc32c(bytes, length);
    return (crc >> 15 | crc << 17) + 0xa282ead8;
}

static void put_fixed(uint64_t value, int bytes, struct aorta_text *out) {
    for (int i = 0; i < bytes; i++) aorta_text_append(out, &(char){(char)(value >> 8 * i)}, 1);
}

static aorta_status write_record(struct aorta_tensorboard *board, const struct aorta_text *event) {
    struct aorta_text record = {0};
    put_fixed(event->length, 8, &record);
    if (!record.failed) put_fixed(masked((const uint8_t *)record.data, 8), 4, &record);
    aorta_text_append(&record, event->data, event->length);
    put_fixed(masked((const uint8_t *)event->data, event->length), 4, &record);
    aorta_status status = aorta_text_check(&record);
    if (!status && (fwrite(record.data, 1, record.length, board->file) != record.length || fflush(board->file) != 0)) {
        status = AORTA_ERROR(AORTA_IO, "%s: %s", board->path, strerror(errno));
        clearerr(board->file);
    }
    aorta_text_free(&record);
    return status;
}

/* ---- protocol buffers ---- */

enum wire { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };
enum field { WALL_TIME = 1, STEP = 2, FILE_VERSION = 3, SUMMARY = 5, VALUE = 1, TAG = 1, SIMPLE_VALUE = 2 };

static void put_varint(uint64_t value, struct aorta_text *out) {
    for (; value >= 0x80; value >>= 7) aorta_text_append(out, &(char){(char)(value | 0x80)}, 1);
    aorta_text_append(out, &(char){(char)value}, 1);
}

static void put_key(enum field field, enum wire wire, struct aorta_text *out) {
    put_varint((uint64_t)field << 3 | wire, out);
}

static void put_bytes(enum field field, const char *bytes, size_t length, struct aorta_text *out) {
    put_key(field, BYTES, out);
    put_varint(length, out);
    aorta_text_append(out, bytes, length);
}

static void begin_event(double wall_s, int64_t step, struct aorta_text *out) {
    uint64_t bits;
    memcpy(&bits, &wall_s, sizeof bits);
    put_key(WALL_TIME, FIXED64, out);
    put_fixed(bits, 8, out);
    put_key(STEP, VARINT, out);
    put_varint((uint64_t)step, out);
}

static void put_scalar(const struct aorta_board_scalar *scalar, struct aorta_text *summary) {
    const float value = (float)scalar->value;
    uint32_t bits;
    struct aorta_text one = {0};
    memcpy(&bits, &value, sizeof bits);
    put_bytes(TAG, scalar->tag, strlen(scalar->tag), &one);
    put_key(SIMPLE_VALUE, FIXED32, &one);
    put_fixed(bits, 4, &one);
    if (one.data) put_bytes(VALUE, one.data, one.length, summary);
    summary->failed |= one.failed;
    aorta_text_free(&one);
}

/* ---- files ---- */

static aorta_status write_version(struct aorta_tensorboard *board) {
    static const char version[] = "brain.Event:2";
    struct aorta_text event = {0};
    begin_event((double)time(NULL), 0, &event);
    put_bytes(FILE_VERSION, version, strlen(version), &event);
    aorta_status status = aorta_text_check(&event);
    if (!status) status = write_record(board, &event);
    aorta_text_free(&event);
    return status;
}

aorta_status aorta_tensorboard_open(const char *directory, struct aorta_tensorboard **board) {
    char host[128] = "host";
    *board = NULL;
    AORTA_TRY(aorta_directory_make(directory));
    struct aorta_tensorboard *made = calloc(1, sizeof *made);
    gethostname(host, sizeof host - 1);
    if (!made || asprintf(&made->path, "%s/events.out.tfevents.%lld.%s.%d.aorta", directory, (long long)time(NULL),
                          host, (int)getpid()) < 0) {
        free(made);
        return AORTA_ERROR(AORTA_MEMORY, "no memory for TensorBoard's file");
    }
    made->file = fopen(made->path, "wbe");
    aorta_status status =
        made->file ? write_version(made) : AORTA_ERROR(AORTA_IO, "%s: %s", made->path, strerror(errno));
    if (status)
        aorta_tensorboard_close(made);
    else
        *board = made;
    return status;
}

aorta_status aorta_tensorboard_write(struct aorta_tensorboard *board, double wall_s, int64_t step,
                                     const struct aorta_board_scalar *scalars, size_t count) {
    struct aorta_text event = {0}, summary = {0};
    for (size_t i = 0; i < count; i++)
        if (!isnan(scalars[i].value)) put_scalar(&scalars[i], &summary);
    begin_event(wall_s, step, &event);
    put_bytes(SUMMARY, summary.data ? summary.data : "", summary.length, &event);
    event.failed |= summary.failed;
    aorta_status status = aorta_text_check(&event);
    if (!status) status = write_record(board, &event);
    aorta_text_free(&summary);
    aorta_text_free(&event);
    return status;
}

void aorta_tensorboard_close(struct aorta_tensorboard *board) {
    if (!board) return;
    if (board->file) fclose(board->file);
    free(board->path);
    free(board);
}
