/* The wire format of protocol buffers (https://protobuf.dev/programming-guides/encoding), read field by field from
 * memory. Nothing is copied, and no number of a message sizes anything. */
#ifndef AORTA_TRACE_PROTO_H
#define AORTA_TRACE_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A message, or a part of it that is still to be read; a text. */
struct aorta_proto {
    const char *at, *end;
};

static inline size_t aorta_proto_length(struct aorta_proto text) {
    return (size_t)(text.end - text.at);
}

static inline bool aorta_proto_begins(struct aorta_proto text, const char *word) {
    const size_t length = strlen(word);
    return aorta_proto_length(text) >= length && !memcmp(text.at, word, length);
}

static inline bool aorta_proto_is(struct aorta_proto text, const char *word) {
    return aorta_proto_length(text) == strlen(word) && aorta_proto_begins(text, word);
}

/* The number behind a beginning: "/device:GPU:0", "Stream #14(Compute)". -1: another text, or none. */
static inline int64_t aorta_proto_number_after(struct aorta_proto text, const char *begin) {
    if (!text.at || !aorta_proto_begins(text, begin)) return -1;
    int64_t number = -1;
    for (const char *at = text.at + strlen(begin); at < text.end && *at >= '0' && *at <= '9' && number < INT32_MAX;
         at++)
        number = (number < 0 ? 0 : 10 * number) + (*at - '0');
    return number > INT32_MAX ? -1 : number;
}

/* `number` is what the file numbers it; `value` is that of a varint or of fixed bytes, `bytes` a text, message or
 * packed list. Groups, which nobody writes any more, are no fields. */
struct aorta_proto_field {
    uint32_t number;
    uint64_t value;
    struct aorta_proto bytes; /* .at is NULL: the field is a number */
};

/* A number of 7 bits a byte, the lowest first. False: it ends early or is too long. */
static inline bool aorta_proto_varint(struct aorta_proto *message, uint64_t *value) {
    *value = 0;
    for (unsigned shift = 0; shift < 64 && message->at < message->end; shift += 7) {
        const unsigned char byte = (unsigned char)*message->at++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return true;
    }
    return false;
}

static inline bool aorta_proto_fixed(struct aorta_proto *message, size_t bytes, uint64_t *value) {
    *value = 0;
    if ((size_t)(message->end - message->at) < bytes) return false;
    for (size_t i = 0; i < bytes; i++) *value |= (uint64_t)(unsigned char)message->at[i] << 8 * i;
    message->at += bytes;
    return true;
}

/* The next field. False: the message is at its end (.at == .end), or broken where .at stands. */
static inline bool aorta_proto_next(struct aorta_proto *message, struct aorta_proto_field *field) {
    enum { VARINT, FIXED64, BYTES, FIXED32 = 5 };
    const char *const begin = message->at;
    uint64_t key;
    bool known = message->at < message->end && aorta_proto_varint(message, &key) && key >> 3 && key >> 3 <= UINT32_MAX;
    *field = (struct aorta_proto_field){0};
    if (known) {
        field->number = (uint32_t)(key >> 3);
        const unsigned type = key & 7;
        if (type == VARINT || type == BYTES) known = aorta_proto_varint(message, &field->value);
        if (type == FIXED64 || type == FIXED32)
            known = aorta_proto_fixed(message, type == FIXED64 ? 8 : 4, &field->value);
        if (type > BYTES && type != FIXED32) known = false;
        if (known && type == BYTES) known = field->value <= (uint64_t)(message->end - message->at);
        if (known && type == BYTES) {
            field->bytes = (struct aorta_proto){message->at, message->at + field->value};
            message->at += field->value;
        }
    }
    if (!known) message->at = begin;
    return known;
}

/* The first field of this number; false: there is none (or the message breaks before), and the field is all 0. */
static inline bool aorta_proto_find(struct aorta_proto message, uint32_t number, struct aorta_proto_field *field) {
    while (aorta_proto_next(&message, field))
        if (field->number == number) return true;
    return false;
}

/* The message that a file begins with, as far as it is among these bytes. False: it begins otherwise. */
static inline bool aorta_proto_first(const char *head, size_t length, uint32_t number, struct aorta_proto *message) {
    uint64_t key, size;
    *message = (struct aorta_proto){head, head + length};
    if (!aorta_proto_varint(message, &key) || key != (number << 3 | 2) || !aorta_proto_varint(message, &size))
        return false;
    if (size < aorta_proto_length(*message)) message->end = message->at + size;
    return true;
}

#endif
